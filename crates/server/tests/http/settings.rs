//! Errors of the settings file, which name the place and the reason.

use fermata_server::config::Invocation;

use crate::app::Settings;

/// Returns the error of a file, without the file's path.
fn fault(toml: &str) -> String {
    let file = Settings::new(toml);
    let read = Invocation::read(file.arguments(), &|name| (name == "SECRET").then(|| "hush\nhush".into()));
    let words = read.expect_err(&format!("{toml:?} must be refused")).to_string();
    let words =
        words.strip_prefix(&format!("{}:", file.path())).unwrap_or_else(|| panic!("no place: {words}"));
    words.to_owned()
}

#[track_caller]
fn check(cases: &[(&str, &str)]) {
    for (toml, expected) in cases {
        let words = fault(toml);
        let (line, reason) = expected.split_once(": ").expect("line: words");
        let found = words.strip_prefix(&format!("{line}: ")).is_some_and(|words| words.contains(reason));
        assert!(found, "{toml:?} gave {words:?} and not {expected:?}");
        assert!(!words.contains('\n') && !words.contains("hush"), "{words:?}");
    }
}

#[test]
fn a_bad_rule_is_refused_with_its_line() {
    check(&[
        (
            "gate = \"step\"\n\n[[policy]]\ntool = \"x\"\ndecision = \"perhaps\"\n",
            "5: decision: \"perhaps\" is not known; use allow, ask or deny",
        ),
        ("[[policy]]\ntool = \"x\ndecision = \"ask\"\n", "2: "),
        (
            "[[policy]]\ntool = \"x\"\ndecision = \"deny\"\nreson = \"x\"\n",
            "4: unknown key reson; did you mean reason?",
        ),
        (
            "[[policy]]\ndecision = \"deny\"\nwhatever = 1\n",
            "3: unknown key whatever; use tool, from, owner, input, decision, reason, always, words, group, by, quorum, not_requester, expire, valid_for, notify, remind or escalate",
        ),
        ("\n[[policy]]\ntool = \"x\"\n", "2: policy: decision is missing"),
        ("[policy]\ndecision = \"ask\"\n", "1: policy: write each rule as [[policy]]"),
        ("policy = \"deny\"\n", "1: policy: write each rule as [[policy]]"),
        ("policy = [1]\n", "1: policy: must be a table, not a number"),
        ("[[policy]]\ntool = \"\"\ndecision = \"deny\"\n", "2: tool: must not be empty"),
        ("[[policy]]\ntool = 1\ndecision = \"ask\"\n", "2: tool: must be a string, not a number"),
        (
            "[[policy]]\nfrom = \"page\"\ndecision = \"ask\"\n",
            "2: from: \"page\" is not known; use server, mcp or browser",
        ),
        ("[[policy]]\ndecision = \"Ask\"\n", "2: decision: \"Ask\" is not"),
        ("[[policy]]\ndecision = true\n", "2: decision: must be a string"),
        ("[[policy]]\ndecision = \"deny\"\nreason = \"\"\n", "3: reason: must not be empty"),
        (
            "[[policy]]\ndecision = \"deny\"\nreason = \"${NO_SUCH}\"\n",
            "3: reason: the environment variable NO_SUCH is not set",
        ),
        ("[[policy]]\ndecision = \"deny\"\ninput = \"x\"\n", "3: input: must be a table, not a string"),
        ("[[policy]]\ndecision = \"deny\"\ninput = {}\n", "3: input: names no field"),
        ("[[policy]]\ndecision = \"deny\"\ninput = { a.b = {} }\n", "3: b: says nothing about the field"),
        (
            "[[policy]]\ndecision = \"deny\"\ninput = {\n  a = \"x\",\n  b = [\"y\"],\n}\n",
            "5: b: must be a glob in quotes, a number, true, false, or a matcher",
        ),
        ("[[policy]]\ndecision = \"deny\"\ninput = { a = nan }\n", "3: a: must be a finite number"),
        (
            "[[policy]]\ndecision = \"deny\"\ninput = { a = 2026-01-31 }\n",
            "3: a: a date or time must be a string",
        ),
    ]);
}

#[test]
fn a_bad_mode_or_setting_of_a_tool_is_refused_with_its_line() {
    check(&[
        ("\ngaet = \"step\"\n", "2: unknown key gaet; did you mean gate?"),
        ("gate = \"open\"\n", "1: gate: \"open\" is not known; use step or progressive"),
        ("approval = true\n", "1: approval: \"true\" is not known; use default or auto"),
        ("\n\nchain = \"never\"\n", "3: chain: \"never\" is not known; use free, ask or one"),
        ("gate = \"step\"\n[tools.\"a*\"]\ntimeout = \"soon\"\n", "3: timeout: \"soon\" is not a time"),
        ("[tools.a]\ntimeout = 30\n", "2: timeout: \"30\" is not a time"),
        ("[tools.a]\ntimeout = \"0s\"\n", "2: timeout: \"0s\" is too short"),
        ("[tools.a]\nrepeatable = \"yes\"\n", "2: repeatable: must be true or false, not a string"),
        ("[tools.a]\nrepeatble = true\n", "2: unknown key repeatble; did you mean repeatable?"),
        ("[tools.a]\nresource = \"\"\n", "2: resource: must not be empty"),
        ("[tools.a]\nresource = 1\n", "2: resource: must be a name or { input = \"field\" }"),
        ("[tools.a]\nresource = { part = \"host\" }\n", "2: resource: input is missing"),
        (
            "[tools.a]\nresource = { input = \"url\", part = \"path\" }\n",
            "2: part: \"path\" is not known; use whole or host",
        ),
        ("[tools.a]\nresource = { field = \"url\" }\n", "2: unknown key field; use input or part"),
        ("[tools]\na = \"30s\"\n", "2: a: must be a table, not a string"),
        ("tools = [\"a\"]\n", "1: tools: must be a table"),
        ("[[tools]]\n", "1: tools: must be a table"),
    ]);
}

#[test]
fn a_bad_server_or_strategy_is_refused_with_its_line() {
    check(&[
        ("[mcp.files]\nargs = []\n", "1: files: needs command or url"),
        ("[mcp.files]\ncommand = \"x\"\nurl = \"https://x\"\n", "1: files: has both command and url"),
        ("[mcp.files]\ncommand = \"x\"\nheaders = { a = \"b\" }\n", "3: headers: goes with url"),
        ("[mcp.files]\nurl = \"https://x\"\nenv = { A = \"b\" }\n", "3: env: goes with command"),
        ("[mcp.files]\ncommand = \"\"\n", "2: command: must not be empty"),
        ("[mcp.files]\ncommand = [\"npx\", \"-y\"]\n", "2: command: must be a string, not a list"),
        ("[mcp.files]\ncommand = \"x\"\nargs = \"-y\"\n", "3: args: must be a list, not a string"),
        (
            "[mcp.files]\ncommand = \"x\"\nargs = [\n  \"-y\",\n  1,\n]\n",
            "5: args: must be a string, not a number",
        ),
        ("[mcp.files]\ncommand = \"x\"\nenv = { LOG = 1 }\n", "3: LOG: must be a string, not a number"),
        (
            "[mcp.files]\ncommand = \"x\"\nenv = { \"A=B\" = \"1\" }\n",
            "3: env: \"A=B\" cannot be in an environment",
        ),
        ("[mcp.files]\ncomand = \"x\"\n", "2: unknown key comand; did you mean command?"),
        (
            "[mcp.files]\ncommand = \"x\"\nprotocol = \"2027-01-01\"\n",
            "3: protocol: \"2027-01-01\" is not known; use auto, 2026-07-28, 2025-11-25",
        ),
        ("[mcp.files]\nurl = \"search.example.com\"\n", "2: url: it must be a URL that begins with http"),
        (
            "[mcp.files]\nurl = \"https://x\"\nheaders = { \"a b\" = \"c\" }\n",
            "3: headers: \"a b\" is not the name of a header",
        ),
        (
            "[mcp.files]\nurl = \"https://x\"\nheaders = { a = \"${SECRET}\" }\n",
            "3: headers: a has characters that a header cannot carry",
        ),
        (
            "[mcp.files]\nurl = \"https://x\"\nheaders = { a = \"b\", A = \"c\" }\n",
            "3: headers: a is there twice",
        ),
        ("[mcp.my__files]\ncommand = \"x\"\n", "1: the name \"my__files\" must not have __ in it"),
        ("[mcp.\"my files\"]\ncommand = \"x\"\n", "1: the name \"my files\" must be 1 to 32 characters"),
        ("[mcp.a2345678901234567890123456789012x]\ncommand = \"x\"\n", "1: the name"),
        ("[mcp]\nfiles = \"x\"\n", "2: files: must be a table, not a string"),
        ("[errors]\ntimeuot = \"retry\"\n", "2: unknown key timeuot; did you mean timeout?"),
        ("[errors]\ndenied = \"retry\"\n", "2: unknown key denied; use rate_limit"),
        (
            "\n[errors]\nauth = \"again\"\n",
            "3: auth: \"again\" is not known; use retry, go_on, ask_person or fail_run",
        ),
        ("errors = 1\n", "1: errors: must be a table"),
    ]);
}
