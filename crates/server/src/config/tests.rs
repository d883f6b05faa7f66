//! Bad settings are refused with their place; good ones are layered.

mod channels;
mod database;
mod failures;
mod identity;
mod limits;
mod schema;
mod tables;

use std::{collections::BTreeSet, num::NonZeroUsize};

use fermata_engine::{FileUrls, Hold};
use fermata_protocol::Profile;
use secrecy::ExposeSecret;

use super::{command::command, file::File, sources::collect, variables::Variables, *};

fn read(arguments: &[&str], variables: &[(&str, &str)], toml: &str) -> Result<(Config, String), String> {
    let options = command()
        .try_get_matches_from(["fermata"].iter().chain(arguments))
        .map_err(|error| error.to_string())?;
    let find = |name: &str| {
        let variable = variables.iter().find(|(known, _)| *known == name);
        variable.map(|(_, value)| (*value).to_owned())
    };
    let variables = Variables::new(&find);
    let file = File::parse("fermata.toml", toml, variables).map_err(|error| error.to_string())?;
    let config =
        collect(&options, variables, file).and_then(Config::checked).map_err(|error| error.to_string())?;
    let report = config.report().to_string();
    Ok((config, report))
}

fn error(variables: &[(&str, &str)], toml: &str) -> String {
    read(&[], variables, toml).expect_err("this must be refused")
}

#[test]
fn nothing_set_gives_the_defaults_of_the_contract() {
    let (config, _) = read(&[], &[], "").expect("the defaults");
    assert_eq!(config.server.address().to_string(), "127.0.0.1:3000");
    assert_eq!(config.calls.hold.0, Hold::Auto);
    assert_eq!(config.calls.expire.0.as_secs(), 24 * 60 * 60);
    assert_eq!(config.chat_limits.max_steps.get(), 20);
    assert_eq!(config.server.client, Profile::V6);
    assert_eq!(config.database.database_url.as_str(), "sqlite://fermata.db");
    assert_eq!((config.database.database_connections.get(), config.database.migrate), (10, true));
    assert_eq!((config.database.redis_url, config.database.keep), (None, None));
    assert_eq!(config.server.drain.0.as_secs(), 60);
    assert_eq!(config.request_limits.max_body.0, 10_000_000);
    assert_eq!(config.calls.tool_timeout.0.as_secs(), 60);
    assert_eq!((config.owner_limits.runs_per_owner, config.owner_limits.readers_per_owner), (None, None));
    assert_eq!((config.owner_limits.chats_per_owner, config.owner_limits.bytes_per_owner), (None, None));
}

#[test]
fn an_option_outvotes_the_variable_and_the_variable_the_file() {
    let (config, report) = read(
        &["--hold", "1s"],
        &[("FERMATA_HOLD", "2s"), ("FERMATA_EXPIRE", "2h"), ("FERMATA_CLIENT", "")],
        "hold = \"3s\"\nexpire = \"3h\"\nclient = 5\n",
    )
    .expect("good settings");
    assert_eq!(config.calls.hold.0, Hold::For(std::time::Duration::from_secs(1)));
    assert_eq!(config.calls.expire.0.as_secs(), 2 * 60 * 60);
    assert_eq!(config.server.client, Profile::V5);
    assert!(report.contains("hold = \"1s\"  # --hold\n"), "{report}");
    assert!(report.contains("expire = \"2h\"  # FERMATA_EXPIRE\n"), "{report}");
    assert!(report.contains("client = 5  # fermata.toml:3\n"), "{report}");
    assert!(report.contains("max_steps = 20  # default\n"), "{report}");
    assert!(report.contains("# openai_api_key is not set\n"), "{report}");
}

#[test]
fn a_report_is_a_file_without_secrets() {
    let variables = [
        ("FERMATA_TOKENS", "alice:hush-this-is-the-first,bob:shh-here-is-another"),
        ("OPENAI_API_KEY", "sk-hush"),
        ("OPENAI_BASE_URL", "https://u:hush@h/v1"),
        ("FERMATA_MODEL", "m"),
    ];
    let (_, report) = read(&["--auth", "token"], &variables, "").expect("good settings");
    for secret in ["hush", "shh"] {
        assert!(!report.contains(secret), "{report}");
    }
    assert!(report.contains("alice:(secret)"), "{report}");
    File::parse("report", &report, Variables::new(&|_| None)).expect("the report can be read as a file");
}

#[test]
fn of_a_url_only_what_can_be_no_key_is_shown() {
    for (url, shown) in [
        ("https://x/v1", "https://x/v1"),
        ("https://x/v1?api-key=hush&b=hush&c", "https://x/v1?api-key=(secret)&b=(secret)&(secret)"),
        ("https://u:hush@x:1/v1?k=a@hush=", "https://(secret)@x:1/v1?k=(secret)"),
        ("http://hush@x?hush", "http://(secret)@x?(secret)"),
        ("https://x/v1?k=#hush", "https://x/v1?k=(secret)#(secret)"),
        ("https://[::1]:8080/v1", "https://[::1]:8080/v1"),
        ("https://[::1]/v1", "https://[::1]/v1"),
        ("https://x/v1#hush", "https://x/v1#(secret)"),
    ] {
        let (config, report) =
            read(&[], &[("OPENAI_BASE_URL", url), ("FERMATA_MODEL", "m")], "").expect("good settings");
        assert!(report.contains(&format!("openai_base_url = \"{shown}\"  # OPENAI_BASE_URL\n")), "{report}");
        assert!(!format!("{config:?}").contains("hush"), "{config:?}");
        assert_eq!(
            config.model.openai_base_url.map(|url| url.0).as_deref(),
            Some(url),
            "what is used is the whole"
        );
    }
    for url in [
        "u:hush@x",
        "https://x y?key=hush",
        "https://u:hush/word@x/v1",
        "https://u:hush?word@x/v1",
        "https://u:hush#word@x/v1",
    ] {
        let words = error(&[("OPENAI_BASE_URL", url), ("FERMATA_MODEL", "m")], "");
        assert!(!words.contains("hush"), "{words}");
    }
}

#[test]
fn a_debugged_config_shows_no_secret() {
    let variables = [
        ("FERMATA_TOKENS", "alice:hush-this-is-the-first"),
        ("FERMATA_AUTH", "token"),
        ("OPENAI_API_KEY", "sk-hush"),
        ("FERMATA_MODEL", "m"),
    ];
    let (config, _) = read(&[], &variables, "").expect("good settings");
    assert!(!format!("{config:?}").contains("hush"));
}

#[test]
fn a_bad_file_says_file_line_and_reason() {
    for (toml, place, reason) in [
        ("\ngaet = \"step\"\n", "fermata.toml:2:", "gaet"),
        ("hold = \"1s\"\n\nexpire = \"soon\"\n", "fermata.toml:3:", "\"soon\" is not a time"),
        ("hold = \"1s\nexpire = \"1h\"\n", "fermata.toml:1:", "string"),
        ("client = 4\n", "fermata.toml:1:", "use 5, 6, 7 or a whole version"),
        ("bind = \"here\"\n", "fermata.toml:1:", "not an address; write it as"),
        ("max_body = \"much\"\n", "fermata.toml:1:", "not a size"),
        ("max_steps = 0\n", "fermata.toml:1:", "above zero"),
        ("\n\nopenai_api_key = \"${NO_SUCH}\"\n", "fermata.toml:3:", "NO_SUCH is not set"),
        ("[hold]\nx = 1\n", "fermata.toml:1:", "not a table"),
        ("cors_origins = [\"https://a.example/path\"]\n", "fermata.toml:1:", "not an origin"),
        ("hodl = \"1s\"", "fermata.toml:1:", "did you mean hold?"),
        ("polcy = 1", "fermata.toml:1:", "did you mean policy?"),
        ("x = 1", "fermata.toml:1:", "--help lists all keys"),
    ] {
        let words = error(&[], toml);
        assert!(words.starts_with(place) && words.contains(reason), "{toml:?} gave {words}");
        assert_eq!(words.lines().count(), 1, "{words}");
    }
}

#[test]
fn a_bad_variable_or_option_is_named() {
    assert!(error(&[("FERMATA_HOLD", "soon")], "").starts_with("FERMATA_HOLD: hold: \"soon\" is not a time"));
    assert!(error(&[("FERMATA_TOKENS", "hush")], "").ends_with("each entry must be owner:token"));
    let words = read(&["--client", "9"], &[], "").expect_err("no such version");
    assert!(words.starts_with("--client: client: "), "{words}");
}

#[test]
fn variables_are_put_into_the_strings_of_the_file() {
    let toml = "tokens = [\"alice:${A}\", \"bob:x${B}y\"]\nauth = \"token\"\n";
    let (config, _) = read(&[], &[("A", "the-first-of-two-tokens"), ("B", "two-two-two-two")], toml)
        .expect("good settings");
    let tokens = &config.access.tokens;
    assert!(tokens[0].is("the-first-of-two-tokens") && tokens[1].is("xtwo-two-two-twoy"));
    assert!(!tokens[0].is("xtwo-two-two-twoy"));
    assert_eq!(config.owner_limits.runs_per_owner, NonZeroUsize::new(64));
    assert_eq!(config.owner_limits.readers_per_owner, NonZeroUsize::new(256));
    assert_eq!(config.owner_limits.chats_per_owner, NonZeroUsize::new(10_000));
    assert_eq!(config.owner_limits.bytes_per_owner.map(|size| size.0), Some(2_000_000_000));
}

#[test]
fn nobody_listens_beyond_this_machine_unasked() {
    let words = error(&[("FERMATA_BIND", "0.0.0.0:3000")], "");
    assert!(
        words.starts_with("FERMATA_BIND: auth is none") && words.contains("FERMATA_INSECURE_BIND=true"),
        "{words}"
    );
    read(&["--bind", "0.0.0.0:1", "--insecure-bind", "true"], &[], "").expect("told in so many words");
    read(&["--bind", "0.0.0.0:1", "--auth", "token", "--tokens", "a:sixteen-letters!"], &[], "")
        .expect("there are several owners");
    read(&["--bind", "[::1]:1"], &[], "").expect("loopback");
    let demo = ("FERMATA_INSECURE_BIND", "demo");
    read(&["--bind", "0.0.0.0:1"], &[demo], "").expect("only the demo model");
    for (variable, toml) in [
        (("OPENAI_API_KEY", "sk-one"), ""),
        (("HOME", "/"), "[models.large]\nmodel = \"m\"\nbase_url = \"https://api.example.com/v1\"\n"),
        (("HOME", "/"), "[mcp.files]\ncommand = \"files\"\n"),
    ] {
        let words = error(&[("FERMATA_BIND", "0.0.0.0:1"), demo, variable], toml);
        assert!(words.contains("there is more than the demo model"), "{words}");
    }
}

#[test]
fn an_owners_token_is_not_short() {
    for short in ["1", "fifteen-letters", "sechzehn-zeiche"] {
        let words = error(&[("FERMATA_AUTH", "token"), ("FERMATA_TOKENS", &format!("alice:{short}"))], "");
        assert!(words.starts_with("FERMATA_TOKENS: tokens: the token of alice has "), "{words}");
        assert!(words.contains("at least 16") && !words.contains(short) || short == "1", "{words}");
    }
    for bad in ["alice", "alice:", ":sixteen-letters!", " :sixteen-letters!", "alice: "] {
        let words = error(&[("FERMATA_TOKENS", bad)], "");
        assert!(words.ends_with("each entry must be owner:token"), "{words}");
    }
}

#[test]
fn a_secret_that_could_be_guessed_is_refused() {
    for guessable in
        ["a".repeat(32), "ab".repeat(16), "password".repeat(4), "0123456789abcdef0123456789abcdef".into()]
    {
        for (variable, value) in [
            ("FERMATA_TOKENS", format!("alice:{guessable}")),
            ("FERMATA_OPERATOR_TOKEN", guessable.clone()),
            ("FERMATA_JWT_SECRET", guessable.clone()),
        ] {
            let words = error(&[(variable, &value)], "");
            assert!(words.contains("too regular and could be guessed"), "{words}");
            assert!(!words.contains(&guessable), "{words}");
        }
    }
    assert!(error(&[("FERMATA_CLUSTER_KEY", &"ab".repeat(32))], "").contains("not random"));
}

#[test]
fn an_owner_of_the_settings_has_a_name_that_no_other_looks_like() {
    for (name, reason) in [
        ("alice ", "white space"),
        ("\u{202e}alice", "invisible"),
        ("ａlice", "another form"),
        ("anyone", "reserved"),
    ] {
        let words = error(&[("FERMATA_TOKENS", &format!("{name}:sixteen-letters!"))], "");
        assert!(words.contains("the name of an owner") && words.contains(reason), "{words}");
    }
    let spaced = "alice:sixteen-letters!, bob:sixteen-other-letters";
    let (config, _) =
        read(&[], &[("FERMATA_AUTH", "token"), ("FERMATA_TOKENS", spaced)], "").expect("a list");
    let owners: Vec<&str> = config.access.tokens.iter().map(|token| token.owner.as_str()).collect();
    assert_eq!(owners, ["alice", "bob"]);
}

#[test]
fn proxies_are_addresses_and_networks_and_never_everybody() {
    let variables = [("FERMATA_TRUSTED_PROXIES", "10.0.0.7, 192.168.0.0/16,fd00::/8, ::ffff:10.0.0.8")];
    let (_, report) = read(&[], &variables, "").expect("good networks");
    let shown = "[\"10.0.0.7/32\", \"192.168.0.0/16\", \"fd00::/8\", \"10.0.0.8/32\"]";
    assert!(report.contains(&format!("trusted_proxies = {shown}")), "{report}");
    for (bad, reason) in
        [("proxy.example.com", "neither an address"), ("0.0.0.0/0", "everybody"), ("::/0", "everybody")]
    {
        let words = error(&[("FERMATA_TRUSTED_PROXIES", bad)], "");
        assert!(words.starts_with("FERMATA_TRUSTED_PROXIES: ") && words.contains(reason), "{words}");
    }
}

#[test]
fn an_operators_token_is_not_short() {
    assert!(error(&[("FERMATA_OPERATOR_TOKEN", "fifteen-letters")], "").contains("shorter than 16"));
    let (_, report) = read(&[], &[("FERMATA_OPERATOR_TOKEN", "sixteen-letters!")], "").expect("long enough");
    assert!(!report.contains("sixteen"), "{report}");
}

#[test]
fn files_by_url_are_named_by_a_word_or_by_their_hosts() {
    let hosts = "file_urls = [\"CDN.example.com\", \"*.files.example\", \"[::1]\"]\n";
    let (config, report) = read(&[], &[], hosts).expect("hosts");
    let named = ["cdn.example.com", "*.files.example", "[::1]"].map(str::to_owned);
    assert_eq!(config.model.file_urls.0, FileUrls::Hosts(named.into()));
    assert!(report.contains("file_urls = [\"cdn.example.com\", \"*.files.example\", \"[::1]\"]"), "{report}");
    assert!(error(&[], "file_urls = \"https://x.example/\"\n").contains("not the name of a host"));
}

#[test]
fn tokens_and_auth_go_together() {
    assert!(error(&[("FERMATA_AUTH", "token")], "").contains("there are no tokens"));
    assert!(error(&[("FERMATA_TOKENS", "a:sixteen-letters!")], "").contains("set auth to token"));
}

#[test]
fn an_api_without_a_model_and_without_a_default_is_refused() {
    assert_eq!(
        error(&[("OPENAI_BASE_URL", "http://localhost:11434/v1")], ""),
        "FERMATA_MODEL: a model API is configured, but no model; set FERMATA_MODEL to the name of one of its models"
    );
    assert!(read(&[], &[("OPENAI_API_KEY", "sk")], "").is_ok(), "OpenAI has a default model");
}

#[test]
fn scenes_of_the_demo_model_that_cannot_be_played_are_refused_with_their_line() {
    let folder = std::env::temp_dir().join(format!("fermata-scenes-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("scenes.toml");
    let path = path.to_str().expect("a path");
    let refused = || error(&[("FERMATA_DEMO_SCENES", path)], "");
    assert!(
        refused().contains("FERMATA_DEMO_SCENES") && refused().contains("cannot be read"),
        "{}",
        refused()
    );
    std::fs::write(path, "[[scene]]\nwhen = ['(']\nsay = 'x'\n").expect("a file");
    assert!(refused().contains("scenes.toml:2: “(” is no regular expression"), "{}", refused());
    std::fs::write(path, "[[scene]]\nsay = 'x'\n").expect("a file");
    read(&[], &[("FERMATA_DEMO_SCENES", path)], "").expect("scenes that can be played");
    std::fs::remove_dir_all(&folder).expect("the folder is mine");
}

#[test]
fn a_named_file_must_be_there() {
    let words = File::open(Some("/no/such/fermata.toml"), Variables::new(&|_| None))
        .expect_err("there is none")
        .to_string();
    assert!(words.starts_with("/no/such/fermata.toml: cannot be read"), "{words}");
}

#[test]
fn help_lists_every_setting_but_those_of_the_file_alone_with_its_variable() {
    let help = command().render_long_help().to_string();
    for words in ["policy  ", "[[policy]]", "[tools]", "[mcp]", "[errors]"] {
        assert!(help.contains(words), "{words} is missing");
    }
    for setting in SETTINGS.iter() {
        let option = help.contains(&format!("--{} ", setting.key.replace('_', "-")));
        assert_eq!(option, setting.variable.is_some(), "{}", setting.key);
        let variable = setting.variable.as_deref().unwrap_or_default();
        assert!(help.contains(variable), "{variable} is missing");
    }
}

#[test]
fn a_setting_has_a_key_of_its_own_and_no_attribute_that_nobody_reads() {
    let keys: BTreeSet<&str> = SETTINGS.iter().map(|setting| setting.key.as_str()).collect();
    assert_eq!(keys.len(), SETTINGS.len());
    let schema = schemars::schema_for!(Config).to_value().to_string();
    let known = ["x-variable", "x-file-only", "x-over", "x-default-with-auth"];
    for attribute in schema.split('"').filter(|text| text.starts_with("x-")) {
        assert!(known.contains(&attribute), "{attribute}");
    }
}

#[test]
fn the_example_shows_every_key_with_its_default() {
    let example = include_str!("../../../../fermata.example.toml");
    let (_, with_example) = read(&[], &[], example).expect("the example can be used as it stands");
    let (_, without) = read(&[], &[], "").expect("the defaults");
    let values = |report: &str| {
        report.lines().map(|line| line.split("  # ").next().map(str::to_owned)).collect::<Vec<_>>()
    };
    assert_eq!(values(&with_example), values(&without), "the example changes nothing");
    for setting in SETTINGS.iter() {
        let shown = |line: &str| line.trim_start_matches("# ").starts_with(&format!("{} = ", setting.key));
        assert!(example.lines().any(shown), "{} is missing in the example", setting.key);
    }
}

#[test]
fn an_address_may_leave_the_port_to_the_platform() {
    let address = |variables: &[(&str, &str)]| {
        read(&[], variables, "").expect("an address").0.server.address().to_string()
    };
    let insecure = ("FERMATA_INSECURE_BIND", "true");
    assert_eq!(address(&[("PORT", "8080")]), "127.0.0.1:8080");
    assert_eq!(address(&[("FERMATA_BIND", "127.0.0.1:4000"), ("PORT", "8080")]), "127.0.0.1:4000");
    assert_eq!(address(&[("FERMATA_BIND", "0.0.0.0"), ("PORT", "8080"), insecure]), "0.0.0.0:8080");
    assert_eq!(address(&[("FERMATA_BIND", "localhost")]), "127.0.0.1:3000");
    assert_eq!(address(&[("FERMATA_BIND", "localhost:4000")]), "127.0.0.1:4000");
    assert_eq!(address(&[("FERMATA_BIND", "[::1]:4000")]), "[::1]:4000");
    assert_eq!(address(&[("FERMATA_BIND", "::1")]), "[::1]:3000");
    for wrong in ["example.com", "127.0.0.1:x", "localhost:", ":3000", "127.0.0.1:70000"] {
        let words = error(&[("FERMATA_BIND", wrong)], "");
        assert!(words.contains("write it as 127.0.0.1:3000"), "{wrong}: {words}");
    }
    assert!(error(&[("PORT", "web")], "").starts_with("PORT: port: \"web\" is not a port"));
    let words = error(&[("FERMATA_BIND", "0.0.0.0"), ("PORT", "8080")], "");
    assert!(words.starts_with("FERMATA_BIND: auth is none"), "{words}");
}

#[test]
fn a_variable_that_is_no_setting_is_warned_of() {
    let names = [
        "FERMATA_MAX_STPES",
        "FERMATA_HOLD",
        "FERMATA_CONFIG",
        "FERMATA_ZZZZZZ",
        "FERMATA_PORT",
        "FERMATA_MAX_SYSTEM",
        "PATH",
    ];
    let of_service = [
        ("FERMATA_PORT", "tcp://10.0.0.1:3000"),
        ("FERMATA_PORT_3000_TCP_ADDR", "10.0.0.1"),
        ("FERMATA_SERVICE_HOST", "10.0.0.1"),
    ];
    let variables = names.map(|name| (name, "1")).into_iter().chain(of_service);
    let warnings = warnings_of_variables(variables.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert_eq!(
        warnings,
        [
            "FERMATA_MAX_STPES is set, but there is no such setting; did you mean FERMATA_MAX_STEPS?",
            "FERMATA_MAX_SYSTEM is set, but max_system is a key of the file only",
            "FERMATA_PORT is set, but there is no such setting; did you mean PORT?",
            "FERMATA_ZZZZZZ is set, but there is no such setting",
        ]
    );
}

#[test]
fn a_variable_may_be_in_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path.to_str().expect("a path").to_owned()
    };
    let (tokens, key) = (
        write("tokens", "alice:a-token-of-some-length\n\nbob:another-token-of-his\n"),
        write("key", "sk-hush\n"),
    );
    let variables =
        [("FERMATA_TOKENS_FILE", tokens.as_str()), ("OPENAI_API_KEY_FILE", &key), ("FERMATA_AUTH", "token")];
    let (config, report) = read(&[], &variables, "").expect("good settings");
    let owners: Vec<&str> = config.access.tokens.iter().map(|token| token.owner.as_str()).collect();
    assert_eq!(owners, ["alice", "bob"]);
    assert_eq!(config.model.openai_api_key.as_ref().expect("a key").0.expose_secret(), "sk-hush");
    assert!(report.contains("# OPENAI_API_KEY_FILE\n") && !report.contains("hush"), "{report}");
    let (config, _) = read(&[], &[("WORDS_FILE", &key)], "instructions = \"${WORDS}\"\n").expect("a text");
    assert_eq!(config.assistant.instructions.as_deref(), Some("sk-hush"));

    let token = |arguments: &[&str], variable: &str| {
        let find = |name: &str| (name == variable).then(|| key.clone());
        let invocation = Invocation::read(["fermata"].iter().chain(arguments).map(Into::into), &find);
        match invocation.expect("a command") {
            Invocation::Command(_, OperatorCommand::Chats(asked)) => asked.token,
            _ => None,
        }
    };
    assert_eq!(token(&["chats"], "FERMATA_TOKEN_FILE").as_deref(), Some("sk-hush"));
    assert_eq!(token(&["chats"], "FERMATA_TOKEN"), Some(key.clone()));
    assert_eq!(token(&["chats", "--token", "mine"], "FERMATA_TOKEN_FILE").as_deref(), Some("mine"));

    let both = error(&[("OPENAI_API_KEY", "sk-one"), ("OPENAI_API_KEY_FILE", &key)], "");
    assert_eq!(both, "OPENAI_API_KEY and OPENAI_API_KEY_FILE are both set; leave out one of them");
    let absent = error(&[("OPENAI_API_KEY_FILE", "/no/such/file")], "");
    assert!(absent.starts_with("OPENAI_API_KEY_FILE: /no/such/file cannot be read: "), "{absent}");
    let known = warnings_of_variables([
        ("FERMATA_TOKENS_FILE".to_owned(), tokens.clone()),
        ("FERMATA_TOKENZ_FILE".to_owned(), key.clone()),
    ]);
    assert_eq!(known.len(), 1, "{known:?}");
}

#[test]
fn a_token_may_be_given_as_its_hash() {
    // printf %s a-token-of-some-length | sha256sum
    let hash = "sha256:4f0d205b316ab19696f52d3dc08107a4186c12b117a2a23581353b462001edee";
    let entry = format!("alice:{hash}");
    let (config, report) =
        read(&[], &[("FERMATA_AUTH", "token"), ("FERMATA_TOKENS", &entry)], "").expect("a hash");
    let token = &config.access.tokens[0];
    assert!(token.is("a-token-of-some-length") && !token.is(hash), "the hash is not the token");
    assert!(!report.contains("4f0d205b"), "{report}");
    let digits = "4f0d205b";
    for bad in [format!("alice:sha256:{digits}"), format!("alice:sha256:{}", "zz".repeat(32))] {
        let words = error(&[("FERMATA_AUTH", "token"), ("FERMATA_TOKENS", &bad)], "");
        assert!(words.contains("64 hexadecimal digits"), "{words}");
    }
}

#[test]
fn the_file_of_init_is_a_good_one_with_and_without_its_comments() {
    let initial = include_str!("../first_start/fermata.toml");
    read(&[], &[], initial).expect("nothing is set");
    let uncommented: String = initial
        .lines()
        .filter_map(|line| line.strip_prefix("# "))
        .filter(|line| line.starts_with('[') || line.contains(" = "))
        .map(|line| format!("{line}\n"))
        .collect();
    let (config, _) = read(&[], &[("OPENAI_API_KEY", "sk-one")], &uncommented).expect("all of it");
    assert_eq!((config.tables.policy.len(), config.tables.mcp.len()), (1, 1));
}

#[test]
fn a_limit_of_the_file_alone_is_read_from_there_and_is_no_option() {
    let (config, report) =
        read(&[], &[("FERMATA_MAX_SYSTEM", "1KB")], "max_system = \"2KB\"\n").expect("a limit");
    assert_eq!(config.request_limits.max_system.0, 2000);
    assert!(report.contains("max_system = 2000  # fermata.toml:1"), "{report}");
    assert!(read(&["--max-system", "1KB"], &[], "").is_err());
}

#[test]
fn the_words_of_consent_are_added_to_the_defaults_and_an_empty_list_turns_all_of_them_off() {
    for (toml, told) in [
        ("", [Some(true), None, Some(false), None]),
        ("confirm_words = [\"make it so\"]\n", [Some(true), Some(true), Some(false), None]),
        ("deny_words = [\"hands off\"]\n", [Some(true), None, Some(false), Some(false)]),
        ("confirm_words = []\ndeny_words = [\"hands off\"]\n", [None; 4]),
    ] {
        let (config, _) = read(&[], &[], toml).expect(toml);
        let consent = config.rules().consent;
        assert_eq!(
            ["yes", "make it so", "no", "hands off"].map(|said| consent.decision(said)),
            told,
            "{toml}"
        );
    }
    let (config, _) = read(&[], &[("FERMATA_CONFIRM_WORDS", "make it so")], "").expect("a variable");
    assert_eq!(config.rules().consent.decision("Make it so."), Some(true));
}
