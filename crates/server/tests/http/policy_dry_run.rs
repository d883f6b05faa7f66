//! `fermata policy test`, as a library and as the program.

use std::process::{Command, Output};

use fermata_server::{
    config::{Invocation, OperatorCommand, PolicyCommand},
    policy_dry_run,
};

use crate::app::Settings;

const RULES: &str = "\
[[policy]]
tool = \"write_*\"
input = { title = \"*secret*\" }
decision = \"deny\"
reason = \"No secrets in notes.\"

[[policy]]
from = \"browser\"
tool = \"get_*\"
decision = \"ask\"

[mcp.files]
command = \"no-such-program\"
";

/// Returns the report or the error, without the file's path.
async fn said(toml: &str, arguments: &[&str]) -> Result<String, String> {
    let file = Settings::new(toml);
    let line = file.arguments().into_iter().chain(["policy", "test"].map(Into::into));
    let line = line.chain(arguments.iter().map(Into::into));
    let invocation = Invocation::read(line, &|_| None).map_err(|error| error.to_string())?;
    let Invocation::Command(config, OperatorCommand::Policy(PolicyCommand::Test(call))) = invocation else {
        panic!("this tests no policy")
    };
    let report = policy_dry_run::report(&config, &call).await.map_err(|error| error.to_string())?;
    Ok(report.replace(file.path(), "fermata.toml"))
}

#[tokio::test]
async fn the_report_has_the_deciding_rule_with_its_place_conditions_and_reason() {
    let said = said(RULES, &["write_note", r#"{"title": "a secret", "body": "b"}"#]).await.expect("a report");
    let expected = "\
decision: deny
by: rule 1, fermata.toml:1
  tool = \"write_*\"
  input = { title = \"*secret*\" }
  title is \"a secret\", which matches \"*secret*\"
reason: No secrets in notes.
tool: write_note, one of the server's own
";
    assert_eq!(said, expected);
}

#[tokio::test]
async fn the_report_has_the_deciding_matcher_and_the_one_that_kept_a_rule_from_matching() {
    let rules = "[[policy]]\ntool = \"read\"\ninput = { paths = { under = \"/srv/safe\" } }\ndecision = \"allow\"\n\n\
                 [[policy]]\nowner = \"bob\"\ndecision = \"deny\"\n";
    let outside = r#"{"paths": ["/srv/safe/x", "/srv/safe/../y"]}"#;
    let missed = "not by: rule 1, fermata.toml:1: paths is \"/srv/safe/../y\", which does not match { under = \"/srv/safe\" }\n";
    let said_of = async |arguments: &[&str]| said(rules, arguments).await.expect("a report");
    let bobs = said_of(&["read", outside, "--as", "bob"]).await;
    assert!(bobs.starts_with("decision: deny\nby: rule 2, fermata.toml:6\n  owner = \"bob\"\n"), "{bobs}");
    assert!(bobs.contains(missed), "{bobs}");
    let anyones = said_of(&["read", outside]).await;
    assert!(anyones.contains("by: the tool's own default") && anyones.contains(missed), "{anyones}");
    let inside = said_of(&["read", r#"{"paths": ["/srv/safe/x"]}"#]).await;
    let matched = "  paths is \"/srv/safe/x\", which matches { under = \"/srv/safe\" }\n";
    assert!(inside.starts_with("decision: allow\n") && inside.contains(matched), "{inside}");
    let without = said_of(&["read", "{}"]).await;
    assert!(without.contains("paths is not there"), "{without}");
}

#[tokio::test]
async fn the_party_that_runs_a_tool_follows_from_its_name_or_an_option() {
    let title = r#"{"title": "milk", "body": "b"}"#;
    let default = "by: the tool's own default, as no rule matches\n";
    for (arguments, expected) in [
        (
            vec!["write_note", title],
            vec!["decision: ask\n", default, "words: a message such as \"yes\" may decide\n", "server's own"],
        ),
        (vec!["current_time", "{}"], vec!["decision: allow\n", default, "server's own"]),
        (
            vec!["files__read", "{}"],
            vec![
                "decision: ask\n",
                default,
                "words: no message decides\n",
                "taken for an MCP server's, whose name",
                "readOnlyHint",
            ],
        ),
        (vec!["files__", "{}"], vec!["decision: allow\n", default, "taken for a browser's"]),
        (vec!["other__read", "{}"], vec!["decision: allow\n", default, "taken for a browser's, as neither"]),
        (
            vec!["get_location", "{}"],
            vec!["decision: ask\n", "by: rule 2, fermata.toml:7\n  from = \"browser\"\n  tool = \"get_*\"\n"],
        ),
        (
            vec!["get_location", "{}", "--from", "mcp"],
            vec!["decision: ask\n", default, "as --from says", "readOnlyHint"],
        ),
        (
            vec!["--from", "browser", "write_note", title],
            vec!["decision: allow\n", default, "as --from says"],
        ),
        (vec!["--from", "server", "write_note", title], vec!["decision: ask\n", "server's own"]),
    ] {
        let said = said(RULES, &arguments).await.expect("a report");
        assert!(
            expected.iter().all(|words| said.contains(words)),
            "{arguments:?}: {said} has not all of {expected:?}"
        );
    }
    let refused = said(RULES, &["--from", "server", "get_location", "{}"]).await.expect_err("there is none");
    assert_eq!(
        refused,
        "the server has no tool get_location; it has broken_search, busy_search, current_time, fetch_url, forget, recall, remember, search_notes, write_note"
    );
}

#[tokio::test]
async fn an_invalid_input_is_reported_for_the_servers_own_tools() {
    let misfit = said(RULES, &["write_note", r#"{"title": 1}"#]).await.expect("a report");
    assert!(misfit.contains("note: the input does not fit the tool's schema"), "{misfit}");
    assert!(misfit.contains("body") && misfit.contains("/title"), "{misfit}");
    for arguments in [["write_note", r#"{"title": "a", "body": "b"}"#], ["get_location", "[]"]] {
        let said = said(RULES, &arguments).await.expect("a report");
        assert!(!said.contains("schema"), "{said}");
    }
}

#[tokio::test]
async fn modes_that_change_the_decision_are_reported() {
    let auto = format!("approval = \"auto\"\n{RULES}");
    let said_auto = said(&auto, &["get_location", "{}"]).await.expect("a report");
    let expected = "\
decision: allow
by: approval = \"auto\", without which the call would be asked about
asked by: rule 2, fermata.toml:8
  from = \"browser\"
  tool = \"get_*\"
";
    assert!(said_auto.starts_with(expected), "{said_auto}");
    let chain = format!("chain = \"ask\"\n{RULES}");
    let said_chain = said(&chain, &["current_time", "{}"]).await.expect("a report");
    assert!(said_chain.contains("note: chain = \"ask\""), "{said_chain}");
    let chain_auto = format!("chain = \"ask\"\n{auto}");
    let said_both = said(&chain_auto, &["current_time", "{}"]).await.expect("a report");
    assert!(!said_both.contains("chain"), "{said_both}");
}

#[tokio::test]
async fn a_rule_without_conditions_and_reason_says_so() {
    let said = said("[[policy]]\ndecision = \"deny\"\n", &["x", "{}"]).await.expect("a report");
    assert!(
        said.starts_with("decision: deny\nby: rule 1, fermata.toml:1\n  (it has no conditions"),
        "{said}"
    );
    assert!(said.contains("\nreason: none is given\n"), "{said}");
}

#[tokio::test]
async fn the_whole_file_is_checked() {
    let words =
        said(&format!("{RULES}\n[errors]\nauth = \"x\"\n"), &["x", "{}"]).await.expect_err("a bad file");
    assert!(words.contains(":16: auth: \"x\" is not"), "{words}");
}

/// Runs the program in an empty folder, and returns its output and the files in the folder afterwards.
fn run(toml: &str, arguments: &[&str]) -> (Output, Vec<String>) {
    let folder = std::env::temp_dir().join(format!("fermata-{}", uuid::Uuid::new_v4()));
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::write(folder.join("fermata.toml"), toml).expect("a file");
    let output = Command::new(env!("CARGO_BIN_EXE_fermata"))
        .args(arguments)
        .current_dir(&folder)
        .env_clear()
        .output()
        .expect("the program");
    let files = std::fs::read_dir(&folder).expect("a folder");
    let files = files.map(|file| file.expect("a file").file_name().to_string_lossy().into_owned()).collect();
    std::fs::remove_dir_all(&folder).expect("a folder");
    (output, files)
}

#[test]
fn the_program_says_it_and_leaves_nothing_behind() {
    let (output, files) = run(RULES, &["policy", "test", "write_note", r#"{"title":"secret","body":"b"}"#]);
    let said = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success() && said.starts_with("decision: deny\n"), "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(files, ["fermata.toml"]);
}

#[test]
fn a_file_can_be_named_before_and_behind_the_subcommand() {
    let file = Settings::new("[[policy]]\ndecision = \"deny\"\n");
    for arguments in [
        vec!["--config", file.path(), "policy", "test", "x", "{}"],
        vec!["policy", "test", "x", "{}", "--config", file.path()],
    ] {
        let (output, _) = run("", &arguments);
        assert!(output.stdout.starts_with(b"decision: deny\n"), "{output:?}");
    }
}

#[test]
fn an_input_that_is_no_json_is_a_wrong_command_line() {
    for (toml, input, status, words) in [
        ("", "{title: 1}", 2, "not JSON"),
        ("", "", 2, "not JSON"),
        ("x = 1", "{}", 1, "fermata.toml:1: unknown key x"),
    ] {
        let (output, _) = run(toml, &["policy", "test", "write_note", input]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(status), 0), "{said}");
        assert!(said.contains(words), "{said}");
    }
}
