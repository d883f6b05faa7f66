//! The tables of channels, and the rules that name them.

use secrecy::ExposeSecret;

use super::*;

const KEY: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OTHER_KEY: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSx";

fn webhook(more: &str) -> String {
    format!(
        "[channels.ops]\nkind = \"webhook\"\nurl = \"https://ops.example.com/h/k3y\"\nsecret = \"{KEY}\"\n{more}"
    )
}

fn rule(more: &str) -> String {
    format!("[[policy]]\ntool = \"refund\"\ndecision = \"ask\"\n{more}\n\n")
}

const DECIDER: &str = "[channels.risk]\nkind = \"decider\"\nurl = \"http://10.0.0.5/decide\"\nsecret = \"${KEY}\"\nprivate = true\n";

#[test]
fn channels_are_read_and_shown_without_their_secrets() {
    let both = format!("{}\n{DECIDER}", webhook("events = [\"approval.*\", \"run.failed\"]\n"));
    let (config, report) = read(&[], &[("KEY", OTHER_KEY)], &both).expect("good settings");
    let ChannelKind::Webhook { endpoint, events } = &config.tables.channels["ops"].kind else {
        panic!("a webhook");
    };
    assert_eq!(endpoint.url.0, "https://ops.example.com/h/k3y");
    assert_eq!(endpoint.secrets[0].0.expose_secret().len(), 24);
    assert_eq!(events.len(), 2);
    assert!(!config.tables.channels["ops"].private && config.tables.channels["risk"].private);
    assert!(report.contains("[channels.ops]  # fermata.toml:1\n"), "{report}");
    for text in [report, format!("{config:?}")] {
        for secret in ["MfKQ", "k3y"] {
            assert!(!text.contains(secret), "{text}");
        }
    }
}

#[test]
fn a_secret_may_be_two_while_it_is_replaced() {
    let two = webhook("").replace(&format!("\"{KEY}\""), &format!("[\"{KEY}\", \"{OTHER_KEY}\"]"));
    let (config, _) = read(&[], &[], &two).expect("good settings");
    let ChannelKind::Webhook { endpoint, .. } = &config.tables.channels["ops"].kind else {
        panic!("a webhook");
    };
    assert_eq!(endpoint.secrets.len(), 2);
    assert_ne!(endpoint.secrets[0], endpoint.secrets[1]);
}

#[test]
fn the_requester_may_be_notified() {
    let toml = format!("notify_requester = {{ channels = [\"ops\"], after = \"30s\" }}\n{}", webhook(""));
    let (config, report) = read(&[], &[], &toml).expect("good settings");
    let notify = config.tables.notify_requester.expect("it is set");
    assert_eq!((notify.channels[0].0.as_str(), notify.after.0.as_secs()), ("ops", 30));
    assert!(report.contains("[notify_requester]  # fermata.toml:1\n"), "{report}");
}

#[test]
fn a_channel_with_a_fault_is_refused_at_its_line() {
    for (toml, expected) in [
        (
            webhook("").replace("webhook", "carrier_pigeon"),
            "fermata.toml:2: kind: \"carrier_pigeon\" is not known",
        ),
        (webhook("").replace("https", "ftp"), "fermata.toml:3: url: it must be a URL"),
        (webhook("").replace("whsec_", ""), "fermata.toml:4: secret: it must be whsec_ and 24 to 64 bytes"),
        (webhook("").replace("LaLaSw", ""), "fermata.toml:4: secret: it must be whsec_"),
        (
            webhook("").replace(&format!("\"{KEY}\""), &format!("[\"{KEY}\"]")),
            "fermata.toml:4: secret: a list has",
        ),
        (webhook("events = [\"chat.*\"]\n"), "fermata.toml:5: events: \"chat.*\" matches no event"),
        (webhook("colour = \"red\"\n"), "fermata.toml:5: unknown key colour"),
        (
            format!("{DECIDER}events = [\"run.failed\"]\n"),
            "fermata.toml:6: events: is only for kind = webhook",
        ),
        ("[channels.ops]\nkind = \"webhook\"\n".into(), "fermata.toml:1: ops: url is missing"),
        (webhook("").replace("ops]", "\"o/s\"]"), "the name \"o/s\" must be"),
        ("notify_requester = { channels = [\"ops\"], after = \"30s\" }\n".into(), "there is no channel ops"),
    ] {
        let error = error(&[("KEY", KEY)], &toml);
        assert!(error.contains(expected), "{error}\ninstead of {expected}");
        assert!(!error.contains("MfKQ"), "{error}");
    }
}

#[test]
fn a_rule_that_names_no_channel_of_the_right_kind_is_refused_at_its_line() {
    let channels = format!("{}\n{DECIDER}", webhook(""));
    for (more, expected) in [
        ("notify = [\"ops\"]\nby = [\"channel:risk\"]", None),
        ("escalate = { after = \"4h\", by = [\"channel:risk\"], notify = [\"ops\"] }", None),
        ("notify = [\"opps\"]", Some("there is no channel opps; did you mean ops?")),
        ("notify = [\"phone\"]", Some("there is no channel phone; add a table [channels.phone]")),
        ("notify = [\"risk\"]", Some("the channel risk is a decider, which is asked without notify")),
        ("by = [\"channel:ops\"]", Some("the channel ops is not a decider, so it cannot decide")),
        ("by = [\"channel:x\"]", Some("there is no channel x")),
        ("escalate = { after = \"4h\", notify = [\"managers\"] }", Some("there is no channel managers")),
        ("escalate = { after = \"4h\", by = [\"channel:ops\"] }", Some("the channel ops is not a decider")),
    ] {
        let toml = format!("{}{}{channels}", rule(""), rule(more));
        match (read(&[], &[("KEY", KEY)], &toml), expected) {
            (Ok(_), None) => {}
            (Err(error), Some(expected)) => {
                assert!(error.starts_with("fermata.toml:6: ") && error.contains(expected), "{error}");
            }
            (read, expected) => panic!("{more}: {read:?} instead of {expected:?}"),
        }
    }
}
