//! The commands `fermata migrate`, `fermata prompt` and `fermata health` of the program, which print a report and start nothing.

use std::process::{Command, Output};

use fermata_engine::Submission;
use fermata_protocol::ChatBody;
use fermata_server::{
    App,
    config::{Invocation, OperatorCommand},
    health,
};
use fermata_tools::Owner;
use serde_json::json;

use crate::{
    TestApp,
    scripted::{Scripted, says},
};

/// A temporary folder, which is deleted at the end of the test.
pub struct Folder(pub std::path::PathBuf);

impl Folder {
    pub fn new() -> Self {
        let path = std::env::temp_dir().join(format!("fermata-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&path).expect("a folder");
        Self(path)
    }

    /// Runs the program in the folder.
    fn run(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_fermata"))
            .args(arguments)
            .current_dir(&self.0)
            .env_clear()
            .envs(variables.iter().copied())
            .output()
            .expect("the program")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns an address without a server.
fn free_address() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").to_string()
}

/// Returns the status of the program, its standard output and its standard error.
fn outcome(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_database_is_brought_up_to_date_once() {
    let folder = Folder::new();
    let (status, first, error) = outcome(&folder.run(&["migrate"], &[]));
    assert_eq!((status, error.as_str()), (Some(0), ""));
    assert!(first.starts_with("applied ") && first.lines().count() == 1, "{first}");
    assert!(folder.0.join("fermata.db").exists());
    let second = outcome(&folder.run(&["migrate"], &[]));
    let report = "the database is up to date; there was nothing to do\n";
    assert_eq!(second, (Some(0), report.to_owned(), String::new()));
}

#[test]
fn a_failed_migration_is_reported() {
    let (status, output, error) =
        outcome(&Folder::new().run(&["migrate"], &[("DATABASE_URL", "sqlite://none/a.db")]));
    assert_eq!((status, output.as_str()), (Some(1), ""));
    assert!(error.starts_with("fermata: the folder none of the database does not exist"), "{error}");
}

#[test]
fn a_database_that_cannot_be_reached_is_named_without_its_password() {
    let address = free_address();
    let url = format!("postgres://u:hush@{address}/d");
    for arguments in [&["migrate"][..], &[]] {
        let variables = [("DATABASE_URL", url.as_str()), ("FERMATA_BIND", "127.0.0.1:0")];
        let (status, output, error) = outcome(&Folder::new().run(arguments, &variables));
        assert_eq!((status, output.as_str()), (Some(1), ""), "{error}");
        assert!(error.contains(&address) && !error.contains("hush"), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_migrate_needs_a_database_that_is_up_to_date() {
    let folder = Folder::new();
    let url = format!("sqlite://{}", folder.0.join("a.db").display());
    let arguments = ["fermata", "--database-url", &url, "--migrate", "false"].map(Into::into);
    let Invocation::Serve(config) = Invocation::read(arguments, &|_| None).expect("good options") else {
        panic!("this serves nothing");
    };
    let error = App::build(&config).await.err().expect("there is no database").to_string();
    assert!(error.ends_with("run fermata migrate"), "{error}");
    assert_eq!(folder.run(&["migrate"], &[("DATABASE_URL", &url)]).status.code(), Some(0));
    App::build(&config).await.expect("it is up to date").shutdown().await;
}

#[tokio::test]
async fn what_a_model_would_be_sent_is_printed_and_nobody_is_asked() {
    let folder = Folder::new();
    let url = format!("sqlite://{}", folder.0.join("a.db").display());
    let variables = [("DATABASE_URL", url.as_str()), ("FERMATA_INSTRUCTIONS", "HOUSE: be kind.")];
    let of =
        |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    let Ok(Invocation::Serve(config)) = Invocation::read(["fermata".into()], &of) else {
        panic!("this serves nothing");
    };
    let model = Scripted::new([says("hello, you")]);
    let app =
        App::builder(&config).model(std::sync::Arc::new(model.clone())).build().await.expect("a server");
    let post = async |body: serde_json::Value| {
        let body = ChatBody::parse(body).expect("a body");
        let submission = Submission {
            owner: Owner::anyone(),
            body,
            hold: None,
            address: None,
            groups: Vec::new(),
            retries: None,
            traceparent: None,
        };
        app.engine().submit(submission).await.expect("a run").reader
    };
    let mut reader = post(json!({"id": "c", "message": {"role": "user", "content": "hi there"}})).await;
    while reader.next().await.is_some() {}
    let (status, printed, error) = outcome(&folder.run(&["prompt", "c"], &variables));
    assert_eq!((status, error.as_str()), (Some(0), ""), "{printed}");
    for line in [
        "Chat c: the assistant default would ask the model demo.",
        "No run is open. The next post adds its message, and the page's instructions and tools.",
        "HOUSE: be kind.",
        "user: hi there",
        "assistant: hello, you",
    ] {
        assert!(printed.lines().any(|shown| shown == line), "{line} is missing in {printed}");
    }
    assert!(printed.contains("search_notes: ") && printed.contains("=== Tools: about "), "{printed}");
    assert_eq!(model.requests().len(), 1);
    let (status, _, error) = outcome(&folder.run(&["prompt", "none"], &variables));
    assert_eq!((status, error.as_str()), (Some(1), "fermata: there is no chat none in this database\n"));
    app.shutdown().await;
}

#[test]
fn a_server_that_does_not_answer_is_not_healthy() {
    let free = free_address();
    let (status, output, error) = outcome(&Folder::new().run(&["health"], &[("FERMATA_BIND", &free)]));
    assert_eq!((status, output.as_str()), (Some(1), ""));
    assert!(error.starts_with(&format!("fermata: {free} does not answer: ")), "{error}");
}

#[tokio::test]
async fn a_server_is_healthy_until_it_ends() {
    let app = TestApp::new([]).await;
    let address = app.serve().await.to_string();
    let arguments = ["fermata", "--bind", &address, "health"].map(Into::into);
    let Invocation::Command(config, OperatorCommand::Health) =
        Invocation::read(arguments, &|_| None).expect("good options")
    else {
        panic!("this asks nobody");
    };
    health::ask(&config.server).await.expect("it can serve");
    app.app.end_runs().await;
    let error = health::ask(&config.server).await.expect_err("it is ending").to_string();
    assert_eq!(error, format!("{address} cannot serve: The server is shutting down; try again in a moment."));
}

#[test]
fn a_check_warns_of_a_fallback_that_is_no_tool() {
    let folder = Folder::new();
    let file = |toml: &str| std::fs::write(folder.0.join("fermata.toml"), toml).expect("a file");
    for (fallback, is_warned_of) in
        [("serch_notes", true), ("search_notes", false), ("files__read", false), ("other__read", true)]
    {
        file(&format!("[tools.fetch_url]\nfallback = \"{fallback}\"\n[mcp.files]\ncommand = \"files\"\n"));
        let (status, report, error) = outcome(&folder.run(&["--check"], &[]));
        assert_eq!((status, error.as_str()), (Some(0), ""));
        assert_eq!(report.contains("# warning: [tools.\"fetch_url\"] fallback"), is_warned_of, "{report}");
    }
    file("[tools.fetch_url]\nfallback_input = { query = \"milk\" }\n");
    let (status, _, error) = outcome(&folder.run(&["--check"], &[]));
    assert_eq!(status, Some(1), "{error}");
    assert!(error.contains("fallback_input: there is no fallback that gets it"), "{error}");
}

#[test]
fn mcp_servers_are_started_by_check_if_it_is_asked_to() {
    let folder = Folder::new();
    let script = "echo 'TOKEN is missing' >&2; exit 3";
    let toml = format!("[mcp.files]\ncommand = \"/bin/sh\"\nargs = [\"-c\", {script:?}]\n");
    std::fs::write(folder.0.join("fermata.toml"), toml).expect("a file");
    let (status, printed, _) = outcome(&folder.run(&["--check"], &[]));
    assert_eq!(status, Some(0));
    assert!(!printed.contains("TOKEN is missing"), "{printed}");
    let (status, printed, error) = outcome(&folder.run(&["--check", "--mcp"], &[]));
    assert_eq!(status, Some(1));
    let expected = "# mcp.files: not connected: the program ended during the handshake (exit status: 3)";
    assert!(printed.contains(expected), "{printed}");
    assert!(error.contains("MCP servers are not connected: files"), "{error}");
    let (status, _, error) = outcome(&folder.run(&["--mcp"], &[]));
    assert!(status == Some(2) && error.contains("--check"), "{error}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_system_without_certificates_is_named_as_the_reason() {
    let folder = Folder::new();
    let empty = folder.0.to_str().expect("a path");
    for base_url in ["https://model.example/v1", "http://127.0.0.1:9/v1", ""] {
        let (status, _, error) = outcome(&folder.run(
            &["--bind", "127.0.0.1:0"],
            &[
                ("SSL_CERT_FILE", "/does/not/exist"),
                ("SSL_CERT_DIR", empty),
                ("OPENAI_BASE_URL", base_url),
                ("FERMATA_MODEL", "any"),
            ],
        ));
        assert_eq!(status, Some(1), "{base_url}: {error}");
        assert!(error.contains("No CA certificates were loaded from the system"), "{base_url}: {error}");
        assert!(error.contains("package ca-certificates"), "{base_url}: {error}");
    }
}
