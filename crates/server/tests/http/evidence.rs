//! The audit as evidence: `fermata audit`, over the runs and the deaths of the program.

use std::{
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use crate::commands::Folder;

/// From `openssl genpkey -algorithm ed25519`, and its public part from `openssl pkey -pubout`.
const KEY: &str = "-----BEGIN PRIVATE KEY-----\n\
    MC4CAQAwBQYDK2VwBCIEICmETdbN2g/WPvGK20MgbOlQzfEFHQAmkK4Ki8TANUP/\n\
    -----END PRIVATE KEY-----\n";
const PUBLIC_KEY: &str = "-----BEGIN PUBLIC KEY-----\n\
    MCowBQYDK2VwAyEAJBcNPa+o5m+1yAk8zqRRrhar9xXjYuE62vJsohdPGz0=\n\
    -----END PUBLIC KEY-----\n";
const OTHER_KEY: &str = "KYRN1s3aD9Y+8YrbQyBs6VDN8QUdACaQrgqLxMA1Q/4=";

/// The running server, which is killed at the end of the test.
struct Server(Child);

/// A folder with the files of a server.
struct Place {
    folder: Folder,
    variables: Vec<(&'static str, &'static str)>,
}

impl Place {
    fn new(variables: &[(&'static str, &'static str)]) -> Self {
        let place = Self { folder: Folder::new(), variables: variables.to_vec() };
        std::fs::write(place.path("audit.key"), KEY).expect("a file");
        std::fs::write(place.path("audit.pub"), PUBLIC_KEY).expect("a file");
        place
    }

    fn signed() -> Self {
        Self::new(&[("FERMATA_AUDIT_KEY_FILE", "audit.key"), ("FERMATA_AUDIT_ANCHOR", "anchor.jsonl")])
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.0.join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fermata"));
        command.args(arguments).current_dir(&self.folder.0).env_clear().envs(self.variables.iter().copied());
        command
    }

    /// Runs a command. Returns its status and all that it has printed.
    fn run(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = self.command(arguments).output().expect("the program");
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).expect("text"))
    }

    #[track_caller]
    fn holds(&self, arguments: &[&str]) -> String {
        let (status, text) = self.run(&[&["audit", "verify"], arguments].concat());
        assert!(status == Some(0) && text.contains("the audit holds\n"), "{text}");
        text
    }

    #[track_caller]
    fn fails(&self, arguments: &[&str], words: &str) {
        let (status, text) = self.run(&[&["audit", "verify"], arguments].concat());
        assert!(status == Some(1) && text.contains(words), "{words}: {text}");
    }

    /// Starts the server, and waits until it listens.
    fn serve(&self) -> Server {
        let mut command = self.command(&["--bind", "127.0.0.1:0"]);
        let mut server = Server(command.stderr(Stdio::piped()).spawn().expect("the program"));
        let log = BufReader::new(server.0.stderr.as_mut().expect("a log")).lines();
        assert!(log.map(|line| line.expect("text")).any(|line| line.contains("listening on")));
        server
    }

    fn execute(&self, statements: &str) {
        let database = rusqlite::Connection::open(self.path("fermata.db")).expect("a database");
        database.execute_batch(statements).expect("statements");
    }
}

fn end(mut server: Server, signal: &str) {
    let sent = Command::new("kill").args([signal, &server.0.id().to_string()]).status().expect("kill");
    assert!(sent.success());
    server.0.wait().expect("an end");
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_audit_holds_over_kills_ends_and_commands() {
    let place = Place::signed();
    let server = place.serve();
    let report = place.holds(&[]);
    assert!(
        report.starts_with("1 chains, 1 rows, 1 checkpoints\n1 checkpoints are in the anchor file\n"),
        "{report}"
    );
    end(server, "-KILL");
    assert_eq!(place.holds(&[]), report);
    let server = place.serve();
    // Beside the server, in a chain of its own.
    assert_eq!(place.run(&["data", "export", "anyone"]).0, Some(0));
    place.holds(&[]);
    end(server, "-TERM");
    let report = place.holds(&["--public-key", "audit.pub"]);
    assert_eq!(
        report,
        "3 chains, 3 rows, 3 checkpoints\n3 checkpoints are in the anchor file\n\
         signed with JBcNPa+o5m+1yAk8zqRRrhar9xXjYuE62vJsohdPGz0=\nthe audit holds\n"
    );
    for shown in ["fermata.db", "anchor.jsonl"] {
        let bytes = std::fs::read(place.path(shown)).expect("a file");
        assert!(!bytes.windows(8).any(|word| word == b"KYRN1s3a"), "{shown} has the key");
    }
    let (_, check) = place.run(&["--check"]);
    assert!(
        check.contains("audit_key = \"(secret)\"") && check.contains("audit_anchor = \"anchor.jsonl\""),
        "{check}"
    );
}

#[test]
fn somebody_with_all_rights_on_the_database_is_found() {
    let place = Place::signed();
    for _ in 0..2 {
        end(place.serve(), "-TERM");
    }
    place.execute("create table kept as select * from audit_events; create table counted as select * from audit_checkpoints;
        drop trigger audit_events_are_not_changed; drop trigger audit_events_go_only_by_retention;
        drop trigger audit_checkpoints_are_not_changed; drop trigger audit_checkpoints_go_only_by_retention");
    let first = "chain = (select chain from kept order by id limit 1)";
    for (change, words) in [
        ("update audit_events set input_hash = 'x' where id = 1".to_owned(), "position 0 ("),
        (format!("delete from audit_events where {first}"), "the last rows were removed: a checkpoint of "),
        (
            format!("delete from audit_events where {first}; delete from audit_checkpoints where {first}"),
            "the last rows were removed: an anchor of ",
        ),
        ("update audit_checkpoints set at = at + 1".to_owned(), "the signature of a checkpoint is wrong"),
    ] {
        place.execute(&change);
        place.fails(&[], words);
        place.fails(&[], "fermata: the audit does not hold; faults found: ");
        place.execute(
            "delete from audit_events; insert into audit_events select * from kept;
             delete from audit_checkpoints; insert into audit_checkpoints select * from counted",
        );
        place.holds(&[]);
    }
    place.fails(&["--anchor", "none"], "none cannot be read: ");
    let other = Place { folder: Folder::new(), variables: vec![("FERMATA_AUDIT_KEY", OTHER_KEY)] };
    std::fs::copy(place.path("fermata.db"), other.path("fermata.db")).expect("a copy");
    other.fails(&[], "a checkpoint is signed with another key, JBcNPa+o5m+1yAk8zqRRrhar9xXjYuE62vJsohdPGz0=");
    let nobodys = Place::new(&[]);
    std::fs::copy(place.path("fermata.db"), nobodys.path("fermata.db")).expect("a copy");
    assert!(nobodys.holds(&[]).contains("these keys are not known to be yours"));
}

#[test]
fn an_exported_audit_is_verified_without_the_database() {
    let place = Place::signed();
    for _ in 0..2 {
        end(place.serve(), "-TERM");
    }
    assert_eq!(place.run(&["data", "delete", "anyone"]).0, Some(0));
    let export = |arguments: &[&str]| {
        let output =
            place.command(&[&["audit", "export"], arguments].concat()).output().expect("the program");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let elsewhere = Place::new(&[]);
    let file = |lines: &str| std::fs::write(elsewhere.path("audit.jsonl"), lines).expect("a file");
    let options = ["--file", "audit.jsonl", "--public-key", "audit.pub"];
    let lines = export(&[]);
    file(&lines);
    let report = elsewhere.holds(&options);
    assert!(report.starts_with("3 chains, "), "{report}");
    std::fs::copy(place.path("anchor.jsonl"), elsewhere.path("anchor.jsonl")).expect("a copy");
    elsewhere.holds(&[&options[..], &["--anchor", "anchor.jsonl"]].concat());
    assert!(!elsewhere.path("fermata.db").exists());

    file(&lines.replacen("rules_loaded", "rules_reloaded", 1));
    elsewhere.fails(&options, "position 0 (");
    let count = lines.lines().count();
    let without = |left_out: usize| {
        let kept = lines.lines().enumerate().filter(|(number, _)| *number != left_out);
        kept.map(|(_, line)| format!("{line}\n")).collect::<String>()
    };
    for left_out in 0..count {
        file(&without(left_out));
        let (status, text) = elsewhere.run(&[&["audit", "verify"], &options[..]].concat());
        // The anchors know the checkpoints, which the export has beside them.
        let is_checkpoint =
            lines.lines().nth(left_out).is_some_and(|line| line.contains("\"type\":\"checkpoint\""));
        assert!(is_checkpoint || status == Some(1), "without line {left_out}: {text}");
    }
    file(&format!("{lines}{lines}"));
    elsewhere.fails(&options, "is not one that this version of fermata audit export writes");

    // The first line says that nothing is left out, so a chain may not begin or end in the middle.
    let (before, chain) = lines.split_once("\"from\":null").expect("a chain");
    for changed in
        [format!("{before}\"from\":1{chain}"), lines.replacen("\"is_open\":false", "\"is_open\":true", 1)]
    {
        assert_ne!(changed, lines);
        file(&changed);
        elsewhere.fails(&options, "is not one that this version of fermata audit export writes");
    }

    let empty = export(&["--until", "2020-01-01"]);
    assert_eq!(empty.lines().count(), 2, "{empty}");
    let all = export(&["--since", "2020-01-01", "--until", "9999-01-01T00:00:00Z"]);
    file(&all);
    elsewhere.holds(&options);
    let (status, text) = place.run(&["audit", "export", "--since", "yesterday"]);
    assert!(status == Some(2) && text.contains("2026-01-01T12:00:00Z"), "{text}");
}

#[test]
fn keys_and_anchors_that_cannot_be_used_stop_the_start_and_are_not_shown() {
    for (variable, value, words) in [
        ("FERMATA_AUDIT_KEY", "hush-hush", "FERMATA_AUDIT_KEY: audit_key: it is no private key for Ed25519"),
        ("FERMATA_AUDIT_KEY", PUBLIC_KEY, "openssl genpkey -algorithm ed25519"),
        ("FERMATA_AUDIT_ANCHOR", "channel:ops", "a channel cannot get checkpoints yet; name a file"),
    ] {
        let place = Place::new(&[(variable, value)]);
        let (status, text) = place.run(&["--check"]);
        assert!(status == Some(1) && text.contains(words), "{text}");
        assert!(!text.contains("hush-hush"), "{text}");
    }
    let unsigned = Place::new(&[]);
    end(unsigned.serve(), "-TERM");
    assert!(unsigned.holds(&[]).contains("1 of 1 checkpoints are not signed"));
}
