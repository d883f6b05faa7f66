//! The matcher for command lines against a real shell: a line that matches runs the program once, with the arguments that the matcher
//! reads, and nothing else.

#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::LazyLock,
};

use fermata_tools::{Matcher, Program, Side};
use proptest::prelude::*;
use serde_json::Value;

/// The programs that the shell finds. Each writes its name and its arguments to the log, a line for each.
const PROGRAMS: [&str; 4] = ["git", "rm", "status", "env"];

/// A folder with the programs, the empty working folder of the shell, and the log.
struct Shell {
    programs: PathBuf,
    work: PathBuf,
    log: PathBuf,
}

impl Shell {
    fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&folder);
        let shell =
            Self { programs: folder.join("programs"), work: folder.join("work"), log: folder.join("log") };
        fs::create_dir_all(&shell.programs).unwrap();
        fs::create_dir_all(&shell.work).unwrap();
        for program in PROGRAMS {
            let path = shell.programs.join(program);
            let script = format!(
                "#!/bin/sh\n{{ echo 'run {program}'; for arg; do printf 'arg %s\\n' \"$arg\"; done; }} >>'{}'\n",
                shell.log.display()
            );
            fs::write(&path, script).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        shell
    }

    /// Runs a line and returns the log.
    fn run(&self, line: &str) -> Vec<String> {
        let _ = fs::remove_file(&self.log);
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(line).current_dir(&self.work).env_clear().env("PATH", &self.programs);
        shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
        assert_eq!(fs::read_dir(&self.work).unwrap().count(), 0, "{line:?} has made a file");
        fs::read_to_string(&self.log).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// Asserts that a line runs `git` once and nothing else, with the arguments that the matcher reads.
    fn runs_git_alone(&self, line: &str) {
        let log = self.run(line);
        assert_eq!(log.first().map(String::as_str), Some("run git"), "{line:?}");
        let args: Option<Vec<String>> =
            log[1..].iter().map(|line| line.strip_prefix("arg ").map(str::to_owned)).collect();
        let args = args.unwrap_or_else(|| panic!("{line:?} has run {log:?}"));
        assert!(matches(&git(args), line, Side::Allows), "{line:?} has other arguments: {log:?}");
    }
}

fn git(args: Vec<String>) -> Matcher {
    Matcher::Program(Program::new("git", args).unwrap())
}

fn matches(matcher: &Matcher, line: &str, side: Side) -> bool {
    matcher.matches(&Value::from(line), side)
}

#[test]
fn a_plain_command_matches_and_is_all_that_the_shell_runs() {
    let shell = Shell::new("plain");
    for line in [
        "git",
        "  git   status  ",
        "git commit -m 'a; rm -rf / && $(rm) `rm` > x # \\ * ~ ! \"'",
        "git commit -m \"a; rm | rm & rm > x # * ~ ' {a,b} ü\"",
        "g'i't st\"at\"us ''",
        "git log --since=1.day --author='A B <a@b.c>' -n10 HEAD@1 -- src/a+b,c:d%e",
        "git a=b status=rm",
        "git 'rm' env",
    ] {
        assert!(matches(&git(Vec::new()), line, Side::Allows), "{line:?}");
        assert!(matches(&git(Vec::new()), line, Side::Restricts), "{line:?}");
        shell.runs_git_alone(line);
    }
}

#[test]
fn a_line_that_is_more_than_one_plain_command_matches_only_to_restrict() {
    let rm = Matcher::Program(Program::new("rm", Vec::new()).unwrap());
    let not_rm = Matcher::Not(Box::new(rm.clone()));
    for line in [
        "git status; rm -rf /",
        "git status;rm",
        "git;",
        "git && rm",
        "git & rm",
        "git &",
        "git || rm",
        "git | rm",
        "git |& rm",
        "git\nrm",
        "git\rrm",
        "git\r\nrm",
        "git\tstatus",
        "git \\\nstatus",
        "git\u{2028}rm",
        "git\u{a0}status",
        "git\u{0}rm",
        "git $(rm)",
        "git `rm`",
        "git \"$(rm)\"",
        "git \"`rm`\"",
        "git \"\\\"; rm; \\\"\"",
        "git $((1))",
        "git $HOME",
        "git \"$HOME\"",
        "git ${IFS}status",
        "git $'\\x3b'",
        "git $\"a\"",
        "git <(rm)",
        "git > /etc/passwd",
        "git >x",
        "git 2>x",
        "git <x",
        "git << x",
        "git <<< x",
        "(git)",
        "{ git; }",
        "git {a,b}",
        "git *",
        "git a?",
        "git [ab]",
        "git ~",
        "git ~root",
        "! git",
        "git !!",
        "git \"!!\"",
        "git #x",
        "git # x",
        "git a\\ b",
        "\\git",
        "git 'a",
        "git \"a",
        "git 'a'b'",
        "A=b git",
        "PATH=. git",
        "GIT_PAGER=rm git log",
        "'A=b' git",
        "git^rm",
        "git() { rm; }",
        "git \u{ff1b} rm",
        "gіt status",
        "git 'a\nb'",
        "git 'a\u{202e}b'",
        "",
        "   ",
    ] {
        assert!(!matches(&git(Vec::new()), line, Side::Allows), "{line:?}");
        assert!(matches(&rm, line, Side::Restricts), "{line:?}");
        assert!(!matches(&not_rm, line, Side::Allows), "{line:?}");
    }
    for line in ["rm -rf /", "/bin/rm x", "r''m x", "\"rm\"", "RM x"] {
        assert!(matches(&rm, line, Side::Restricts), "{line:?}");
        assert!(!matches(&not_rm, line, Side::Allows), "{line:?}");
    }
    assert!(!matches(&rm, "git 'rm'", Side::Restricts));
    assert!(matches(&not_rm, "git 'rm'", Side::Allows));
}

/// Generates lines that are often almost a plain command.
fn line() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "git ", "git", " ", " ", " ", "status", "rm", "env", "-m", "--a=b", "'", "'", "\"", "\"", "''",
        "' '", "\" \"", ";", "&", "|", "$", "$(rm)", "`", "\\", "\n", "\r", "\t", "#", "*", "?", "~", "!",
        "=", "a=b", ">", "<", "(", ")", "{", "}", "[", "]", "^", "%", "@", "+", ",", ":", ".", "/", "-", "1",
        "ü", "\u{a0}", "\u{0}", "\u{200b}", "；",
    ]);
    let benign = prop::sample::select(vec![
        "git", " ", " ", "status", "'a b'", "\"rm;\"", "'$(rm)'", "''", "\"'\"", "'\"'", "-m", "--a=b",
        "@:%,+./", "'ü'", "\"#\"", "\"~\"", "rm", "=",
    ]);
    let pieces = |piece| prop::collection::vec(piece, 0..8).prop_map(|pieces: Vec<&str>| pieces.concat());
    prop_oneof![
        pieces(piece),
        pieces(benign).prop_map(|rest| format!("git {rest}")),
        any::<String>().prop_map(|rest| format!("git {rest}"))
    ]
}

static SHELL: LazyLock<Shell> = LazyLock::new(|| Shell::new("any"));

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_matches_runs_the_program_once_and_nothing_else(line in line()) {
        if matches(&git(Vec::new()), &line, Side::Allows) {
            SHELL.runs_git_alone(&line);
        }
    }
}
