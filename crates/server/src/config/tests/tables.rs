//! The tables of the file, typed and shown.

use std::{collections::BTreeMap, num::NonZeroU32};

use fermata_mcp::{Processes, ServerConfig, Transport};
use fermata_providers::{DialectSettings, Roles, ToolIds};
use fermata_tools::{
    ApprovalMode, ChainMode, Decision, DecisionSource, ErrorPolicy, ErrorStrategy, ErrorType, GateMode,
    Owner, Resource, ResourcePart, RunBy, ToolError, ToolSettings, ToolSpec,
};
use secrecy::ExposeSecret;
use serde_json::json;

use super::*;

fn tables(toml: &str) -> Config {
    read(&[], &[("TOKEN", "hush"), ("NAME", "value")], toml).expect("good settings").0
}

/// Returns the decision of the rules about a call of a server's tool, and the rule.
fn policy_decision(config: &Config, name: &str, input: &serde_json::Value) -> (Decision, DecisionSource) {
    let spec = ToolSpec {
        name: name.into(),
        title: None,
        description: String::new(),
        input_schema: json!({"type": "object"}).into(),
        run_by: RunBy::Server,
        server: None,
        policy: Decision::Ask,
        resource: None,
        timeout: None,
        repeatable: false,
        annotations: None,
    };
    let policy_decision = config.rules().policy.decide(&Owner::new("alice").into(), &spec, input);
    (policy_decision.decision, policy_decision.by)
}

#[test]
fn without_tables_every_tool_keeps_its_defaults() {
    let config = tables("");
    assert_eq!(policy_decision(&config, "x", &json!({})), (Decision::Ask, DecisionSource::Default));
    assert!(config.tables.mcp.is_empty() && config.rules().tools.is_empty());
    assert_eq!(config.tables.error_policy, ErrorPolicy::default());
    assert_eq!((config.rules().gate, config.rules().chain), (GateMode::Step, ChainMode::Free));
}

#[test]
fn modes_are_settings_like_any_other() {
    let (config, report) = read(
        &["--gate", "progressive"],
        &[("FERMATA_CHAIN", "ask"), ("FERMATA_GATE", "step")],
        "chain = \"free\"\napproval = \"auto\"\n",
    )
    .expect("good settings");
    assert_eq!(
        (config.calls.gate, config.calls.chain, config.calls.approval),
        (GateMode::Progressive, ChainMode::Ask, ApprovalMode::Auto)
    );
    assert!(report.contains("chain = \"ask\"  # FERMATA_CHAIN\n"), "{report}");
    assert_eq!(policy_decision(&config, "x", &json!({})), (Decision::Allow, DecisionSource::Auto));
    assert!(
        error(&[("FERMATA_GATE", "open")], "").contains("\"open\" is not known; use step or progressive")
    );
}

#[test]
fn rules_are_kept_in_their_order_with_their_lines() {
    let config = tables(
        "[[policy]]\ntool = \"read_*\"\ndecision = \"allow\"\n\n[[policy]]\nfrom = \"server\"\ndecision = \"deny\"\nreason = \"No.\"\n",
    );
    assert_eq!(policy_decision(&config, "read_note", &json!({})), (Decision::Allow, DecisionSource::Rule(1)));
    assert_eq!(policy_decision(&config, "write_note", &json!({})), (Decision::Deny, DecisionSource::Rule(2)));
    let places: Vec<&str> = config.tables.policy.iter().map(|rule| rule.written.place.as_str()).collect();
    assert_eq!(places, ["fermata.toml:1", "fermata.toml:5"]);
    assert_eq!(config.tables.policy[1].rule.reason.as_deref(), Some("No."));
}

#[test]
fn fields_of_a_rule_are_paths_however_they_are_written() {
    let input = json!({"to": {"name": "bob", "n": 16, "half": 0.5, "ok": true, "args": "x"}});
    for (fields, matches) in [
        ("input = { \"to.name\" = \"b*\" }", true),
        ("input = { to.name = \"b*\" }", true),
        ("input.to.name = \"b*\"", true),
        ("input.to.n.min = 16", true),
        ("input.to.args = \"x\"", true),
        ("input = { to.n = { min = 10, max = 15.5 } }", false),
        ("[policy.input.\"to.name\"]\nnot = \"b*\"", false),
        ("input = { \"to.name\" = { one_of = [\"ann\", { regex = \"^b.b$\" }] } }", true),
        ("input = { to.name = \"ann\" }", false),
        ("input = { to.n = 16 }", true),
        ("input = { to.n = 0x1_0 }", true),
        ("input = { to.n = \"16\" }", true),
        ("input = { to.n = 17 }", false),
        ("input = { to.half = 5e-1 }", true),
        ("input = { to.ok = true, to.name = \"${NAME}\" }", false),
        ("input = { to.ok = true, to.name = \"bo?\" }", true),
    ] {
        let config = tables(&format!("[[policy]]\ndecision = \"deny\"\n{fields}\n"));
        let denied = policy_decision(&config, "x", &input).0 == Decision::Deny;
        assert_eq!(denied, matches, "{fields}");
    }
}

#[test]
fn matchers_are_read_from_tables_and_are_no_names_of_fields() {
    let input = json!({
        "path": "/srv/safe/x", "paths": ["/srv/safe/x", "/etc/passwd"], "n": 1e3,
        "url": "https://docs.example.com/a", "host": "a", "server": {"host": "b"}, "command": "git log -3",
    });
    for (decision, fields, matches) in [
        ("allow", "path = { under = \"/srv/safe\" }", true),
        ("allow", "paths = { under = \"/srv/safe\" }", false),
        ("deny", "paths = { not = { under = \"/srv/safe\" } }", true),
        ("deny", "path = { not = { under = \"/srv/safe\" } }", false),
        ("allow", "path = { under = \"/srv\", not = { under = \"/srv/safe\" } }", false),
        ("allow", "url = { host = \"*.example.com\" }", true),
        ("allow", "url.host = \"evil.com\"", false),
        ("allow", "command = { program = \"git\" }", true),
        ("allow", "command = { program = \"git\", args = [\"log\"] }", true),
        ("allow", "command = { program = \"git\", args = [\"status\"] }", false),
        ("deny", "command = { one_of = [{ program = \"rm\" }, { program = \"git\" }] }", true),
        ("deny", "n = 1000", true),
        ("deny", "n = { min = 1, max = 1_000.0 }", true),
        ("deny", "n = { one_of = [1, 1000] }", true),
        ("deny", "host = \"a\"", true),
        ("deny", "\"server.host\" = \"b\"", true),
        ("allow", "\"server.host\" = { regex = \"^[ab]$\" }", true),
    ] {
        let config = tables(&format!("[[policy]]\ndecision = \"{decision}\"\ninput = {{ {fields} }}\n"));
        let by = policy_decision(&config, "x", &input).1;
        assert_eq!(by == DecisionSource::Rule(1), matches, "{decision} {fields}");
    }
}

#[test]
fn a_matcher_that_cannot_be_used_is_told_with_its_line() {
    for (fields, words) in [
        ("path = { undre = \"/srv\" }", "unknown key undre; did you mean under?"),
        (
            "to = { name = \"b*\" }",
            "unknown key name; a matcher is one of under, host, program, args, one_of, min, max, regex, not, and a field in a field is written with dots, as \"to.name\"",
        ),
        ("path = { under = \"srv\" }", "under: \"srv\" is not the absolute path of a folder"),
        ("path = { under = 5 }", "under: must be a string"),
        ("path = {}", "path: says nothing about the field"),
        ("url = { host = \"https://a.com\" }", "host: \"https://a.com\" is not a host"),
        ("name = { regex = \"(a\" }", "regex: \"(a\" cannot be used as a regular expression: unclosed group"),
        ("name = { regex = \"(?=a)b\" }", "look-around"),
        ("name = { regex = \"\\\\p{L}{2000}\" }", "too large"),
        ("name = { one_of = [] }", "one_of: must not be empty"),
        ("name = { one_of = \"a\" }", "one_of: must be a list"),
        ("n = { min = \"1\" }", "min: must be a number"),
        ("n = { min = 2, max = 1 }", "min is above max"),
        ("name = { not = {} }", "not: says nothing"),
        ("command = { program = \"git status\" }", "program: \"git status\" is not the name of a program"),
        ("command = { args = [\"status\"] }", "args: there is no program"),
        ("command = { program = \"git\", args = \"status\" }", "fermata.toml"),
        ("name = [\"a\"]", "name: must be a glob in quotes, a number, true, false, or a matcher"),
    ] {
        let error = error(&[], &format!("[[policy]]\ndecision = \"deny\"\ninput = {{ {fields} }}\n"));
        assert!(error.contains("fermata.toml:3: ") && error.contains(words), "{fields}: {error}");
    }
}

#[test]
fn a_rule_may_name_an_owner_and_say_what_answers_it() {
    let config = tables("[[policy]]\nowner = \"al*\"\nalways = true\ndecision = \"deny\"\n");
    assert_eq!(policy_decision(&config, "x", &json!({})).1, DecisionSource::Rule(1));
    assert!(config.tables.policy[0].rule.terms.always);
    assert_eq!(config.tables.policy[0].rule.terms.words, None);
    let wordless = tables("[[policy]]\nwords = false\ndecision = \"ask\"\n");
    assert_eq!(wordless.tables.policy[0].rule.terms.words, Some(false));
    let other = tables("[[policy]]\nowner = \"bob\"\ndecision = \"deny\"\n");
    assert_eq!(policy_decision(&other, "x", &json!({})).1, DecisionSource::Default);
}

#[test]
fn a_check_warns_of_what_allows_more_than_it_seems_to() {
    for (rule, words) in [
        ("allow\"\ninput = { path = \"/srv/safe/*\" }", Some("under")),
        ("allow\"\ninput = { filePaths = \"*\" }", Some("under")),
        ("allow\"\ninput = { at = \"https://docs.example.com*\" }", Some("host =")),
        ("allow\"\ninput = { target_url = \"*example.com\" }", Some("host =")),
        ("allow\"\ninput = { path = { one_of = [\"/a\", \"/b/*\"] } }", Some("under")),
        ("allow\"\ninput = { path = { not = { under = \"/etc\" } } }", Some("name what is allowed")),
        ("allow\"\ninput = { command = \"git *\" }", Some("use { program = \"git\" }")),
        (
            "allow\"\ninput = { args.cmd = \"git log *\" }",
            Some("such as git log x; rm -rf /; use { program = \"git\", args = [\"log\"] }"),
        ),
        (
            "allow\"\ninput = { shellCommand = { one_of = [\"ls\", \"cat /tmp/*\"] } }",
            Some("program = \"cat\""),
        ),
        ("allow\"\ninput = { script = \"*; exit\" }", Some("such as x; rm -rf /; exit; use a matcher")),
        (
            "deny\"\ninput = { command = \"rm *\" }",
            Some("misses other spellings of a command, such as r''m for rm; use { program = \"rm\" }"),
        ),
        ("ask\"\ninput = { command = { not = \"git *\" } }", Some("also allows")),
        ("allow\"\ninput = { command = \"git status*\" }", Some("args = [\"status\"]")),
        ("allow\"\ninput = { command = \"git status\" }", None),
        ("allow\"\ninput = { command = \"*\" }", None),
        ("allow\"\ninput = { command = { program = \"git\" } }", None),
        ("allow\"\ninput = { transcript = \"git *\" }", None),
        ("deny\"\ninput = { path = \"/srv/safe/*\" }", None),
        ("allow\"\ninput = { path = \"/srv/safe/a\" }", None),
        ("allow\"\ninput = { path = { under = \"/srv/safe\" } }", None),
        ("allow\"\ninput = { title = \"*milk*\" }", None),
    ] {
        let toml = format!("[[policy]]\ndecision = \"{rule}\n");
        let report = read(&[], &[], &toml).expect("good settings").1;
        match words {
            Some(words) => {
                let warning = report.split("# warning: fermata.toml:1: ").nth(1).unwrap_or_default();
                assert!(warning.contains(words), "{rule}: {report}");
            }
            None => assert!(!report.contains("warning"), "{rule}: {report}"),
        }
    }
}

#[test]
fn settings_of_tools_keep_the_order_of_the_file() {
    let config = tables(
        "[tools.\"z*\"]\nresource = \"${NAME}\"\ntimeout = \"30s\"\n[tools.\"*\"]\nrepeatable = true\n[tools.a]\nresource = { input = \"at.url\", part = \"host\" }\n",
    );
    let patterns: Vec<String> = config.tables.tools.iter().map(|(pattern, _)| pattern.to_string()).collect();
    assert_eq!(patterns, ["z*", "*", "a"]);
    let settings: Vec<ToolSettings> = config.tables.tools.into_iter().map(|(_, settings)| settings).collect();
    let timeout = Some(std::time::Duration::from_secs(30));
    assert_eq!(
        settings,
        [
            ToolSettings { resource: Some(Resource::named("value")), timeout, ..ToolSettings::default() },
            ToolSettings { repeatable: Some(true), ..ToolSettings::default() },
            ToolSettings {
                resource: Some(Resource::Input { field: "at.url".into(), part: ResourcePart::Host }),
                ..ToolSettings::default()
            },
        ]
    );
}

const SERVERS: &str = r#"
[mcp.files]
command = "files"
args = ["--key=${TOKEN}", "--api-key=hush", "/srv"]
processes = "per_owner"
max_processes = 3
idle_timeout = "90s"
env = { KEY = "${TOKEN}", "A.B" = "hush too" }

[mcp.search]
url = "https://me:hush@search.example.com/hush/?key=${TOKEN}"
headers = { Authorization = "Bearer ${TOKEN}" }
trust_annotations = true
"#;

#[test]
fn a_server_is_a_program_or_a_url() {
    let config = tables(SERVERS);
    let secret = str::to_owned;
    let files = ServerConfig {
        processes: Some(Processes::PerOwner),
        max_processes: NonZeroUsize::new(3).unwrap(),
        idle_timeout: std::time::Duration::from_secs(90),
        ..ServerConfig::new(Transport::Program {
            command: "files".into(),
            args: vec!["--key=hush".into(), "--api-key=hush".into(), "/srv".into()],
            env: [("KEY".to_owned(), secret("hush")), ("A.B".to_owned(), secret("hush too"))].into(),
        })
    };
    let search = ServerConfig {
        trust_annotations: true,
        ..ServerConfig::new(Transport::Http {
            url: "https://me:hush@search.example.com/hush/?key=hush".into(),
            headers: [("authorization".to_owned(), secret("Bearer hush"))].into(),
        })
    };
    assert_eq!(config.tables.mcp, [("files".to_owned(), files), ("search".to_owned(), search)].into());
    assert!(!format!("{config:?}").contains("hush"), "{config:?}");
}

#[test]
fn what_follows_a_failure_can_be_set_by_its_type() {
    let error_policy = tables("[errors]\nauth = \"fail_run\"\ntimeout = \"go_on\"\n").tables.error_policy;
    let expected = ErrorPolicy::default()
        .with(ErrorType::Auth, ErrorStrategy::FailRun)
        .with(ErrorType::Timeout, ErrorStrategy::GoOn);
    assert_eq!(error_policy, expected);
}

#[test]
fn the_words_of_a_failure_can_name_its_type() {
    let toml = "[errors]\nauth = \"go_on\"\n[[errors.match]]\ntext = { regex = 'try again (later|tomorrow)' }\ntool = \"crm__*\"\n\
                type = \"rate_limit\"\n";
    let policy = tables(toml).tables.error_policy;
    let typed = |tool: &str, text: &str| policy.typed(tool, ToolError::internal(text)).error_type;
    assert_eq!(typed("crm__find", "Please TRY AGAIN LATER."), ErrorType::RateLimit);
    assert_eq!(typed("crm__find", "Please try."), ErrorType::Internal);
    assert_eq!(typed("mail__find", "Please try again later."), ErrorType::Internal);
    assert_eq!(policy.of(ErrorType::Auth), ErrorStrategy::GoOn);
    let (_, report) = read(&[], &[], toml).expect("good settings");
    assert_eq!(tables(&report).tables.error_policy, policy, "{report}");
    for (toml, expected) in [
        ("[[errors.match]]\ntext = { regex = '(' }\ntype = \"timeout\"\n", "regular expression"),
        ("[[errors.match]]\ntext = { regex = 'x' }\ntype = \"denied\"\n", "denied"),
        ("[[errors.match]]\ntype = \"timeout\"\n", "text"),
        ("[[tools.x.errors.match]]\ntext = { regex = 'x' }\ntype = \"timeout\"\n", "[[errors.match]]"),
    ] {
        let refused = read(&[], &[], toml).expect_err("wrong settings");
        assert!(refused.contains(expected), "{toml}: {refused}");
    }
}

#[test]
fn tables_are_reported_as_a_file_without_secrets() {
    let toml = format!(
        "[[policy]]\ninput = {{ text = \"*${{TOKEN}}*\" }}\ndecision = \"deny\"\n[tools.\"a b*\"]\ntimeout = \"5s\"\n{SERVERS}[errors]\nauth = \"go_on\"\n"
    );
    let variables = [("TOKEN", "hush")];
    let (config, report) = read(&[], &variables, &toml).expect("good settings");
    assert!(!report.contains("hush"), "{report}");
    assert!(!format!("{config:?}").contains("hush"), "{config:?}");
    for line in [
        "[[policy]]  # fermata.toml:1",
        "input = { text = \"*${TOKEN}*\" }",
        "[tools.\"a b*\"]  # fermata.toml:4",
        "[mcp.files]  # fermata.toml:7",
        "args = [\"(secret)\", \"(secret)\", \"(secret)\"]",
        "processes = \"per_owner\"",
        "max_processes = 3",
        "url = \"https://(secret)@search.example.com/(secret)?key=(secret)\"",
        "headers = { Authorization = \"(secret)\" }",
        "auth = \"go_on\"",
        "timeout = \"retry\"",
    ] {
        assert!(report.lines().any(|shown| shown == line), "{line} is missing in {report}");
    }
    let (again, _) = read(&[], &variables, &report).expect("the report can be used");
    assert_eq!(again.tables.policy[0].rule, config.tables.policy[0].rule);
    assert_eq!(
        (again.tables.tools, again.tables.error_policy),
        (config.tables.tools, config.tables.error_policy)
    );
    assert_eq!(again.tables.mcp.keys().collect::<Vec<_>>(), config.tables.mcp.keys().collect::<Vec<_>>());
}

#[test]
fn a_model_leaves_to_the_main_settings_what_it_does_not_name() {
    let api = |config: &Config, name: &str| match config.tables.models[name].provider(config) {
        Ok(Provider::OpenAi(api)) => {
            (api.model, api.base_url, api.api_key.map(|key| key.expose_secret().to_owned()))
        }
        other => panic!("{other:?}"),
    };
    let config = tables(
        "model = \"main\"\nopenai_base_url = \"http://main.example.com/v1\"\nopenai_api_key = \"${TOKEN}\"\n\
         [models.same]\n[models.other]\nmodel = \"m\"\n[models.elsewhere]\nbase_url = \"http://b.example.com/v1\"\n\
         [models.keyed]\nbase_url = \"http://b.example.com/v1\"\napi_key = \"own\"\n",
    );
    let (main, elsewhere) = ("http://main.example.com/v1".to_owned(), "http://b.example.com/v1".to_owned());
    let hush = || Some("hush".to_owned());
    assert_eq!(api(&config, "same"), ("main".into(), Some(main.clone()), hush()));
    assert_eq!(api(&config, "other"), ("m".into(), Some(main), hush()));
    assert_eq!(api(&config, "elsewhere"), ("main".into(), Some(elsewhere.clone()), None), "no key of others");
    assert_eq!(api(&config, "keyed"), ("main".into(), Some(elsewhere), Some("own".into())));
    let config = tables("[models.fast]\nmodel = \"m\"\n");
    let provider = config.tables.models["fast"].provider(&config).expect("a model");
    assert_eq!(provider.model(), "demo", "there is no API");
}

#[test]
fn a_model_says_how_its_requests_differ() {
    let config = tables(
        "model = \"main\"\nopenai_base_url = \"http://main.example.com/v1\"\n[models.own]\nmodel = \"m\"\ntool_ids = \"nine\"\n\
         roles = \"alternate\"\nvision = false\nmax_tools = 20\nomit = [\"stream_options\"]\n\
         rename = { max_tokens = \"max_completion_tokens\" }\n",
    );
    let Ok(Provider::OpenAi(api)) = config.tables.models["own"].provider(&config) else {
        panic!("{config:?}")
    };
    let expected = DialectSettings {
        tool_ids: Some(ToolIds::Nine),
        roles: Some(Roles::Alternate),
        vision: Some(false),
        max_tools: NonZeroU32::new(20),
        omit: vec!["stream_options".into()],
        rename: BTreeMap::from([("max_tokens".into(), "max_completion_tokens".into())]),
    };
    assert_eq!(api.dialect, expected);
}

#[test]
fn models_are_reported_without_their_secrets() {
    let toml = "[models.fast]\nmodel = \"m\"\nbase_url = \"https://me:hush@a.example.com/v1?key=hush\"\n\
                api_key = \"${TOKEN}\"\nheaders = { x-key = \"${TOKEN}\" }\nlimits = { maxOutputTokens = 5 }\n";
    let (config, report) = read(&[], &[("TOKEN", "hush")], toml).expect("good settings");
    assert!(!report.contains("hush") && !format!("{config:?}").contains("hush"), "{report}\n{config:?}");
    for line in [
        "[models.fast]  # fermata.toml:1",
        "api_key = \"(secret)\"",
        "headers = { x-key = \"(secret)\" }",
        "limits = { maxOutputTokens = 5 }",
    ] {
        assert!(report.lines().any(|shown| shown == line), "{line} is missing in {report}");
    }
}

#[test]
fn the_main_settings_are_the_assistant_default() {
    let config =
        tables("instructions = \"main\"\n[assistants.default]\ntitle = \"Shop\"\n[assistants.other]\n");
    let assistant = |name: &str| {
        let assistant = &config.tables.assistants[name];
        (assistant.title.as_ref().map(|title| title.0.as_str()), assistant.instructions.as_deref())
    };
    assert_eq!(assistant("default"), (Some("Shop"), Some("main")));
    assert_eq!(
        assistant("other"),
        (None, None),
        "only the default has the instructions of the main settings"
    );
    let own = tables("instructions = \"main\"\n[assistants.default]\ninstructions = \"own\"\n");
    assert_eq!(own.tables.assistants["default"].instructions.as_deref(), Some("own"));
}

#[test]
fn instructions_may_be_a_file_beside_the_file_of_settings() {
    let folder = std::env::temp_dir().join(format!("fermata-{}", uuid::Uuid::new_v4()));
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::write(folder.join("shop.md"), "Be kind.\n").expect("a file");
    let settings = folder.join("fermata.toml");
    std::fs::write(
        &settings,
        "instructions_file = \"shop.md\"\n[assistants.a]\ninstructions_file = \"shop.md\"\n",
    )
    .expect("a file");
    let arguments = ["fermata".into(), "--config".into(), settings.into_os_string()];
    let read = Invocation::read(arguments, &|_| None);
    std::fs::remove_dir_all(&folder).expect("the folder");
    let Ok(Invocation::Serve(config)) = read else { panic!("{read:?}") };
    for name in ["default", "a"] {
        assert_eq!(config.tables.assistants[name].instructions.as_deref(), Some("Be kind.\n"), "{name}");
    }
}

#[test]
fn rules_about_fields_within_fields_are_reported_so_that_they_can_be_read_again() {
    let rule =
        "[[policy]]\ndecision = \"deny\"\ninput.to.name = \"b*\"\ninput.to.n.min = 16\ninput.title = \"x\"\n";
    let (config, report) = read(&[], &[], rule).expect("good settings");
    assert!(
        report.contains("input = { \"to.name\" = \"b*\", \"to.n\" = { min = 16 }, title = \"x\" }"),
        "{report}"
    );
    let (again, _) = read(&[], &[], &report).expect("the report can be used");
    assert_eq!(again.tables.policy[0].rule, config.tables.policy[0].rule);
}

#[test]
fn an_error_about_a_table_names_the_key_and_not_the_value() {
    let variables = [("TOKEN", "hush")];
    for (toml, words) in [
        (
            "[mcp.x]\ncommand = \"c\"\nargs = \"--key=${TOKEN}, expected by hush\"\n",
            "fermata.toml:3: args: must be a list",
        ),
        ("[mcp.x]\ncommand = \"c\"\nenv = \"hush\"\n", "fermata.toml:3: env: must be a table"),
        ("[mcp.x]\ncommand = \"c\"\nenv = { A = 5 }\n", "fermata.toml:3: A: must be a string"),
        (
            "[mcp.x]\ncommand = \"c\"\ntrust_annotations = \"hush\"\n",
            "fermata.toml:3: trust_annotations: must be true or false",
        ),
        (
            "[mcp.x]\ncommand = \"c\"\nmax_processes = 0\n",
            "fermata.toml:3: max_processes: \"0\" is not a whole number above zero",
        ),
        ("[mcp.x]\ncommand = \"\"\n", "fermata.toml:2: command: must not be empty"),
        ("[mcp.x]\ncommand = [\"hush\"]\n", "fermata.toml:2: command: must be a string, not a list"),
        ("[mcp.x]\ncommand = 2026-01-01\n", "command: a date or time must be a string, in quotes"),
        (
            "[mcp.x]\ncommand = \"c\"\nargs = [\n\"a\",\n5]\n",
            "fermata.toml:5: args: must be a string, not a number",
        ),
        ("[mcp.x]\nargs = []\n", "fermata.toml:1: x: needs command or url"),
        ("[mcp.x]\nurl = \"http://h\"\nargs = []\n", "fermata.toml:3: args: goes with command"),
        ("[mcp.x]\nurl = \"hush\"\n", "fermata.toml:2: url: it must be a URL"),
        ("[mcp.x__y]\ncommand = \"c\"\n", "must not have __ in it"),
        ("[mcp]\nx = 5\n", "fermata.toml:2: x: must be a table"),
        ("[tools.a]\ntimeout = \"0s\"\n", "fermata.toml:2: timeout: \"0s\" is too short"),
        ("[tools.a]\nresource = \"\"\n", "fermata.toml:2: resource: must not be empty"),
        (
            "[tools.a]\nresource = { input = \"x\", part = \"port\" }\n",
            "fermata.toml:2: part: \"port\" is not known; use whole or host",
        ),
        ("[tools.a]\nrepeatble = true\n", "fermata.toml:2: unknown key repeatble; did you mean repeatable?"),
        ("[[policy]]\ntool = \"x\"\n", "fermata.toml:1: policy: decision is missing"),
        (
            "[[policy]]\ndecision = \"no\"\n",
            "fermata.toml:2: decision: \"no\" is not known; use allow, ask or deny",
        ),
        ("policy = 5\n", "fermata.toml:1: policy: write each rule as [[policy]]"),
        ("[errors]\ndenied = \"retry\"\n", "fermata.toml:2: unknown key denied; use rate_limit, auth,"),
        ("[models.a]\nbase_url = \"hush\"\n", "fermata.toml:2: base_url: it must be a URL"),
        (
            "[models.a]\nheaders = { \"a b\" = \"${TOKEN}\" }\n",
            "fermata.toml:2: headers: \"a b\" is not the name",
        ),
        (
            "[models.a]\nsettings = { temprature = 1 }\n",
            "fermata.toml:2: unknown key temprature; did you mean temperature?",
        ),
        (
            "[models.a]\nsettings = { temperature = \"${TOKEN}\" }\n",
            "fermata.toml:2: temperature: must be a number from 0 to 2",
        ),
        ("[models.a]\nsettings = { headers = {} }\n", "settings: headers has no effect here"),
        (
            "[models.a]\nlimits = { seed = 1 }\n",
            "fermata.toml:2: limits: seed has no order; there may be limits on",
        ),
        (
            "[models.a]\npass = [\"toolChoice\"]\n",
            "fermata.toml:2: pass: toolChoice is set by the server alone; leave it out",
        ),
        (
            "[models.a]\nsettings = { providerOptions = { openai = { max_tokens = 5 } } }\n",
            "fermata.toml:2: settings: the option max_tokens is set by the server alone; leave it out",
        ),
        ("[models.a]\nomit = [\"messages\"]\n", "fermata.toml:2: omit: messages cannot be left out"),
        (
            "[models.a]\nrename = { seed = \"tools\" }\n",
            "fermata.toml:2: rename: tools has this name everywhere; leave it out",
        ),
        ("[models.a]\nmax_tools = 0\n", "fermata.toml:2: max_tools: \"0\" is not a whole number above zero"),
        (
            "[models.a]\nroles = \"other\"\n",
            "fermata.toml:2: roles: \"other\" is not known; use any or alternate",
        ),
        ("[users.a]\ngroups = \"b\"\n", "fermata.toml:2: groups: must be a list"),
        ("[users.\"\"]\n", "fermata.toml:1: the name of the user \"\" is empty"),
        ("posts_per_owner = 60\n", "posts_per_owner: \"60\" is not a rate; write it as 60/min"),
        ("posts_per_owner = \"0/min\"\n", "posts_per_owner: \"0/min\" is not a rate"),
        ("[models.a]\ncontext = 0\n", "fermata.toml:2: context: \"0\" is not a whole number above zero"),
        ("[context]\nnever_clear = \"a\"\n", "fermata.toml:2: never_clear: must be a list"),
        ("[context]\nnver_clear = []\n", "fermata.toml:2: unknown key nver_clear; did you mean never_clear?"),
        ("compact_at = 1.5\n", "fermata.toml:1: compact_at: it must be from 0.1 to 1"),
        ("[models.\"\"]\n", "fermata.toml:1: the name \"\" must be 1 to 64 bytes of text"),
        ("[assistants.a]\nmodels = []\n", "fermata.toml:2: models: an assistant needs a model"),
        (
            "[models.fast]\n[assistants.a]\nmodels = [\"fats\"]\n",
            "fermata.toml:2: a: there is no model fats; did you mean fast?",
        ),
        (
            "[assistants.a]\nbuiltin = [\"tme\"]\n",
            "fermata.toml:2: builtin: \"tme\" is not known; use time, notes, memory, ask_user or web",
        ),
        (
            "[assistants.a]\ninstructions_file = \"no/such.md\"\n",
            "fermata.toml:2: instructions_file: no/such.md: cannot be read",
        ),
        (
            "[assistants.a]\ninstructions_file = \"a.md\"\ninstructions = \"b\"\n",
            "fermata.toml:2: instructions_file: instructions is also set; use one of them",
        ),
        (
            "instructions = \"a\"\ninstructions_file = \"b.md\"\n",
            "fermata.toml:2: instructions_file: instructions is also set; use one of them",
        ),
    ] {
        let error = error(&variables, toml);
        assert!(error.contains(words) && !error.contains("hush"), "{toml}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

/// Returns the example with the settings that it has behind a `#`. The files of instructions that it names are not there.
pub(super) fn uncommented(example: &str) -> String {
    let code = |line: &str| {
        let key = line.split(" = ").next().filter(|key| *key != line);
        line.starts_with('[')
            || key
                .filter(|key| *key != "instructions_file")
                .is_some_and(|key| key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'))
    };
    let line = |line: &str| {
        let bare = line.strip_prefix("# ").filter(|bare| code(bare)).unwrap_or(line);
        bare.to_owned() + "\n"
    };
    example.lines().map(line).collect()
}

#[test]
fn the_example_shows_every_table_with_all_that_it_can_have() {
    let example = uncommented(include_str!("../../../../../fermata.example.toml"));
    let variables = [
        ("OPENAI_API_KEY", "sk"),
        ("FAST_KEY", "sk"),
        ("TICKETS_TOKEN", "t"),
        ("REDIS_PASSWORD", "p"),
        ("OPERATOR_TOKEN", "sixteen-letters!"),
        ("CLUSTER_KEY", "S1GA2b94PjbTYTdTTtDAkfRTBZbnMjrDxEIFSoRoAZU="),
        ("AUDIT_KEY", "KYRN1s3aD9Y+8YrbQyBs6VDN8QUdACaQrgqLxMA1Q/8="),
        ("OTEL_TOKEN", "t"),
        ("SLACK_BOT_TOKEN", "xoxb-t"),
        ("SLACK_SIGNING_SECRET", "s"),
        ("SMTP_PASSWORD", "p"),
        ("OPS_SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
        ("CLUSTER_KEY_2", "8c0180d9be0f8e36d361375343b4c091f453059667323ac3c442054a84680196"),
    ];
    let postgres = ["--database-url", "postgres://db.example.com/fermata"];
    let (config, report) = read(&postgres, &variables, &example).expect("all of the example can be used");
    for key in [
        "tool",
        "from",
        "owner",
        "always",
        "input",
        "decision",
        "reason",
        "resource",
        "timeout",
        "repeatable",
        "command",
        "args",
        "env",
        "processes",
        "max_processes",
        "idle_timeout",
        "url",
        "headers",
        "trust_annotations",
        "model",
        "base_url",
        "api_key",
        "context",
        "never_clear",
        "settings",
        "limits",
        "title",
        "instructions",
        "client_system",
        "models",
        "tools",
        "builtin",
        "plan",
        "suggestions",
    ] {
        assert!(
            report.lines().any(|line| line.starts_with(&format!("{key} = "))),
            "{key} is missing in {report}"
        );
    }
    assert!(config.tables.policy.len() > 1 && config.tables.tools.len() > 1 && config.tables.mcp.len() > 1);
    assert_eq!((config.tables.models.len(), config.tables.assistants.len()), (1, 3));
    assert_eq!(config.tables.error_policy, ErrorPolicy::default());
    for known in ErrorType::ALL {
        let shown = example.contains(&format!("\n{known} = \""));
        let settable = !matches!(known, ErrorType::Denied | ErrorType::Cancelled);
        assert_eq!(shown, settable, "{known}");
    }
}
