//! Health checks, metrics, the API description and the first pages.

use std::collections::BTreeSet;

use axum::{body::Body, http::Method};
use serde_json::{Value, json};

use crate::{TestApp, scripted};

#[tokio::test]
async fn the_description_has_every_endpoint_of_the_contract() {
    let app = TestApp::new([]).await;
    let description = app.get("/openapi.json").await.json();
    let described: BTreeSet<String> = description["paths"]
        .as_object()
        .expect("paths")
        .iter()
        .flat_map(|(path, item)| {
            item.as_object().expect("methods").keys().map(move |method| format!("{method} {path}"))
        })
        .collect();
    let contract = [
        "delete /api/chat/{id}",
        "delete /api/chat/{id}/grants/{tool}",
        "delete /api/chat/{id}/messages/{message}",
        "delete /api/chat/{id}/plan",
        "delete /api/me/data",
        "delete /api/memories",
        "delete /api/memories/{id}",
        "delete /api/notes/{id}",
        "delete /api/push",
        "get /",
        "get /api/approvals",
        "get /api/approvals/events",
        "get /api/approvals/{id}",
        "get /api/assistants",
        "get /api/chat/{id}",
        "get /api/chat/{id}/grants",
        "get /api/chat/{id}/pending",
        "get /api/chat/{id}/export",
        "get /api/chat/{id}/stream",
        "get /api/chat/{id}/summary",
        "get /api/chats",
        "get /api/me",
        "get /api/me/data",
        "get /api/memories",
        "get /api/notes",
        "get /api/push",
        "get /api/tools",
        "get /channels/{name}/l/{token}",
        "get /curl",
        "get /healthz",
        "get /metrics",
        "get /openapi.json",
        "get /readyz",
        "patch /api/chat/{id}",
        "patch /api/memories/{id}",
        "post /api/approvals/{id}",
        "post /api/chat/{id}/calls/{call}/cancel",
        "post /api/chat/{id}/calls/{call}/retry",
        "post /api/chat",
        "post /api/chat/tool-result",
        "post /api/chat/{id}/compact",
        "post /api/chat/{id}/stop",
        "post /api/memories",
        "post /api/memories/{id}/undo",
        "post /api/push",
        "post /channels/{name}",
        "post /channels/{name}/l/{token}",
        "post /chat/tool-result",
        "put /api/chat/{id}/summary",
    ];
    assert_eq!(described, contract.map(str::to_owned).into());
    let post = &description["paths"]["/api/chat"]["post"];
    for status in ["200", "400", "401", "403", "404", "409", "413", "422", "429", "503"] {
        assert!(post["responses"][status].is_object(), "{status} is missing");
    }
    let too_many = |method: &str, path: &str| {
        description["paths"][path][method]["responses"]["429"]["description"].to_string()
    };
    for (method, path, codes) in [
        (
            "post",
            "/api/chat",
            ["too_many_runs", "too_many_readers", "too_many_chats", "too_many_bytes"].as_slice(),
        ),
        ("get", "/api/chat/{id}/stream", ["too_many_readers"].as_slice()),
        ("get", "/api/chats", [].as_slice()),
        ("post", "/chat/tool-result", [].as_slice()),
    ] {
        let described = too_many(method, path);
        for code in codes.iter().chain(&["too_many_failures", "too_many_connections"]) {
            assert!(described.contains(code), "{method} {path}: {code} is missing in {described}");
        }
    }
    assert!(description["components"]["schemas"]["Problem"].is_object());
    assert!(description["components"]["schemas"]["ChatRequest"].is_object());
}

#[tokio::test]
async fn the_description_contains_everything_that_it_refers_to() {
    let app = TestApp::new([]).await;
    let answer = app.get("/openapi.json").await;
    let description = answer.json();
    for reference in answer.text.split("\"$ref\":\"#").skip(1) {
        let pointer = reference.split('"').next().expect("an end");
        assert!(description.pointer(pointer).is_some(), "{pointer} is missing");
    }
}

#[tokio::test]
async fn the_description_keeps_the_rules_of_its_format() {
    let app = TestApp::new([]).await;
    let description = app.get("/openapi.json").await.json();
    assert!(description["openapi"].as_str().is_some_and(|version| version.starts_with("3.1.")));
    assert!(description["info"]["title"].is_string() && description["info"]["version"].is_string());
    let mut names = BTreeSet::new();
    for (path, item) in description["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("methods") {
            let route = format!("{method} {path}");
            let name = operation["operationId"].as_str().expect("a name");
            assert!(names.insert(name.to_owned()), "{route}: {name} is there twice");
            let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
            for parameter in &parameters {
                let within = parameter["in"].as_str().expect("a location");
                assert!(["path", "query", "header"].contains(&within), "{route}: {parameter}");
                assert!(
                    parameter["name"].is_string() && parameter["schema"].is_object(),
                    "{route}: {parameter}"
                );
                assert_eq!(parameter["required"] == true, within == "path", "{route}: {parameter}");
                let held = path.contains(&format!("{{{}}}", parameter["name"].as_str().expect("a name")));
                assert_eq!(held, within == "path", "{route}: {parameter}");
            }
            let in_path = parameters.iter().filter(|parameter| parameter["in"] == "path").count();
            assert_eq!(in_path, path.matches('{').count(), "{route}");
            let responses = operation["responses"].as_object().expect("responses");
            assert!(!responses.is_empty(), "{route}");
            for (status, response) in responses {
                assert!(
                    status.parse::<u16>().is_ok_and(|status| (200..600).contains(&status)),
                    "{route}: {status}"
                );
                let text = response["description"].as_str().unwrap_or_default();
                assert!(!text.is_empty(), "{route}: {status} is not described");
            }
        }
    }
}

#[tokio::test]
async fn the_numbers_count_requests_by_route_and_not_by_path() {
    let app = TestApp::new([]).await;
    app.get("/api/chat/some-chat-that-nobody-has").await;
    app.get("/no-such-path-at-all").await;
    let answer = app.get("/metrics").await;
    assert!(answer.headers["content-type"].to_str().is_ok_and(|kind| kind.starts_with("text/plain")));
    let numbers = answer.text;
    assert!(numbers.contains("http_server_request_duration_seconds_count"), "{numbers}");
    assert!(numbers.contains("http_route=\"/api/chat/{id}\",http_response_status_code=\"404\""), "{numbers}");
    assert!(!numbers.contains("nobody-has") && !numbers.contains("no-such-path"), "{numbers}");
}

#[tokio::test]
async fn the_metrics_name_no_tool_of_a_page_and_no_tool_that_a_model_made_up() {
    const NAMES: usize = 200;
    let turns = (0..NAMES).flat_map(|n| {
        let page = format!("tool_of_a_page_{n}");
        let nobody = format!("tool_of_nobody_{n}");
        let calls = [(page.as_str(), json!({})), (nobody.as_str(), json!({})), ("current_time", json!({}))];
        [scripted::calls(&calls), scripted::says("Done.")]
    });
    let app = TestApp::new(turns).await;
    for n in 0..NAMES {
        let chat = format!("names-{n}");
        let page = format!("tool_of_a_page_{n}");
        let tools = json!({page.as_str(): {"parameters": {"type": "object"}}});
        let body = json!({"id": chat, "tools": tools, "messages": [{"role": "user", "content": "go"}]});
        let mut stream = app.open(body).await;
        let is_parked =
            |chunk: &Value| chunk["type"] == "tool-input-available" && chunk["toolName"] == page.as_str();
        while !stream.chunks.iter().any(is_parked) {
            assert!(stream.read_more().await, "the call is parked: {:?}", stream.kinds());
        }
        let call = app.pending(&chat).await[0]["toolCallId"].clone();
        let answer = json!({"chatId": chat, "toolCallId": call, "output": 1});
        assert_eq!(app.post("/chat/tool-result", answer).await.status, 200);
        stream.end().await;
    }
    let numbers = app.get("/metrics").await.text;
    assert!(!numbers.contains("tool_of_"), "a name became a label");
    for line in numbers.lines() {
        if let Some((name, _)) = line.strip_prefix("# TYPE ").and_then(|line| line.split_once(' ')) {
            assert!(numbers.contains(&format!("# HELP {name} ")), "{name} is not explained");
        }
    }
    for tool in ["browser", "unknown", "current_time"] {
        let label = format!("fermata_calls_total{{gen_ai_tool_name=\"{tool}\"");
        assert!(numbers.contains(&label), "{tool} is missing: {numbers}");
    }
}

const OPERATOR: &str = "a-token-of-the-operator";

/// Returns the status of `/metrics` at the main address and at the operators' own, without a token and with the operator's.
async fn numbers_of(options: &[&str]) -> [u16; 4] {
    let app = TestApp::with(options, []).await;
    let own = fermata_server::operators_site(app.app.clone());
    let own = TestApp { router: own, app: app.app.clone(), model: app.model.clone() };
    let bearer = format!("bearer {OPERATOR}");
    let mut statuses = Vec::new();
    for app in [&app, &own] {
        for headers in [&[] as &[(&str, &str)], &[("authorization", bearer.as_str())]] {
            let answer = app.ask(Method::GET, "/metrics", headers, Body::empty()).await;
            assert_eq!(answer.text.contains("http_server_request"), answer.status == 200, "{}", answer.text);
            statuses.push(answer.status.as_u16());
        }
        assert_eq!(app.get("/healthz").await.status, 200);
        assert_eq!(app.get("/readyz").await.status, 200);
    }
    statuses.try_into().expect("four")
}

#[tokio::test]
async fn the_metrics_are_available_at_the_operators_address_or_with_the_operators_token() {
    // Now there is a metric.
    TestApp::new([]).await.get("/healthz").await;
    let tokens = ["--auth", "token", "--tokens", "alice:a-token-of-some-length"];
    let own = ["--operator-bind", "127.0.0.1:0"];
    let token = ["--operator-token", OPERATOR];
    assert_eq!(numbers_of(&[]).await, [200, 200, 200, 200]);
    assert_eq!(numbers_of(&own).await, [404, 404, 200, 200]);
    assert_eq!(numbers_of(&token).await, [401, 200, 401, 200]);
    assert_eq!(numbers_of(&tokens).await, [404, 404, 200, 200]);
    assert_eq!(numbers_of(&[&tokens[..], &own].concat()).await, [404, 404, 200, 200]);
    assert_eq!(numbers_of(&[&tokens[..], &token].concat()).await, [401, 200, 401, 200]);
    assert_eq!(numbers_of(&[&tokens[..], &own, &token].concat()).await, [401, 200, 401, 200]);
}

#[tokio::test]
async fn an_owners_token_is_not_the_operators() {
    let owner = "a-token-of-some-length";
    let tokens = format!("alice:{owner}");
    let options = ["--auth", "token", "--tokens", &tokens, "--operator-token", OPERATOR];
    let app = TestApp::with(&options, []).await;
    let headers = [("authorization", &*format!("Bearer {owner}"))];
    app.ask(Method::GET, "/metrics", &headers, Body::empty()).await.problem(401, "unauthorized");
    let headers = [("authorization", &*format!("Bearer {OPERATOR}"))];
    app.ask(Method::GET, "/api/chats", &headers, Body::empty()).await.problem(401, "unauthorized");
}

#[tokio::test]
async fn the_operators_address_has_nothing_else_and_no_foreign_pages() {
    let app = TestApp::with(&["--operator-bind", "127.0.0.1:0"], []).await;
    let router = fermata_server::operators_site(app.app.clone());
    let own = TestApp { router, app: app.app.clone(), model: app.model.clone() };
    for path in ["/", "/api/chats", "/openapi.json"] {
        own.get(path).await.problem(404, "not_found");
    }
    let request = axum::http::Request::get("/metrics").header("host", "evil.example").body(Body::empty());
    assert_eq!(own.send(request.expect("a request")).await.status(), 403);
    assert_eq!(own.get("/metrics").await.headers["x-content-type-options"], "nosniff");
}

#[tokio::test]
async fn a_server_that_is_ending_is_not_ready_but_lives() {
    let app = TestApp::new([]).await;
    assert_eq!(app.get("/readyz").await.status, 200);
    app.app.engine().shutdown().await;
    app.get("/readyz").await.problem(503, "unavailable");
    assert_eq!(app.get("/healthz").await.status, 200);
    let refused = app.post("/api/chat", crate::app::says("c", "hi")).await;
    refused.problem(503, "unavailable");
    assert!(refused.headers.contains_key("retry-after"));
}

#[tokio::test]
async fn the_tools_are_listed_with_their_policy() {
    let app = TestApp::new([]).await;
    let tools = app.get("/api/tools").await.json()["tools"].clone();
    let of = |name: &str| {
        tools.as_array().expect("a list").iter().find(|tool| tool["name"] == name).expect("a tool").clone()
    };
    assert_eq!(
        (of("current_time")["policy"].clone(), of("write_note")["policy"].clone()),
        (json!("allow"), json!("ask"))
    );
    assert_eq!(
        (of("write_note")["resource"].clone(), of("search_notes")["resource"].clone()),
        (json!("notes"), json!("notes"))
    );
    assert_eq!(of("current_time").get("resource"), None);
    for tool in ["current_time", "write_note", "search_notes"] {
        assert_eq!(of(tool)["runBy"], "server");
        assert_eq!(of(tool)["inputSchema"]["type"], "object");
        assert_eq!(of(tool)["inputSchema"]["additionalProperties"], false);
    }
    assert_eq!(of("write_note")["inputSchema"]["required"], json!(["title", "body"]));
}

#[tokio::test]
async fn the_page_has_lines_for_the_host_it_was_asked_under() {
    let app = TestApp::new([]).await;
    let page = app.ask(Method::GET, "/curl", &[], Body::empty()).await;
    assert!(page.headers["content-type"].to_str().is_ok_and(|kind| kind.starts_with("text/html")));
    assert!(page.text.contains("curl -N http://127.0.0.1:3000/api/chat"), "{}", page.text);
    assert!(!page.text.contains("{{"), "a placeholder was left");
    let app = TestApp::with(&["--auth", "token", "--tokens", "alice:a-token-of-some-length"], []).await;
    let request = axum::http::Request::get("/curl")
        .header("host", "x';reboot;'")
        .body(Body::empty())
        .expect("a request");
    let page = axum::body::to_bytes(app.send(request).await.into_body(), usize::MAX).await.expect("a page");
    assert!(!String::from_utf8_lossy(&page).contains("reboot"));
}
