//! The program and its signals.

use std::{
    io::{BufRead, BufReader, Lines},
    process::{Child, ChildStderr, Command, Stdio},
};

use crate::app::Settings;

/// The program, until the test is over.
struct Program {
    child: Child,
    log: Lines<BufReader<ChildStderr>>,
}

impl Program {
    fn start(file: &Settings) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_fermata"))
            .args(["--config", file.path(), "--bind", "127.0.0.1:0", "--database-url", "sqlite::memory:"])
            .env_clear()
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program");
        let log = BufReader::new(child.stderr.take().expect("a log")).lines();
        let mut program = Self { child, log };
        program.logs("listening on");
        program
    }

    /// Reads the log until this is said, and gives the line.
    fn logs(&mut self, words: &str) -> String {
        let mut lines = self.log.by_ref().map(|line| line.expect("text"));
        lines.find(|line| line.contains(words)).unwrap_or_else(|| panic!("the log ended without {words:?}"))
    }

    fn hang_up(&self) {
        let sent = Command::new("kill").args(["-HUP", &self.child.id().to_string()]).status().expect("kill");
        assert!(sent.success());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn at_a_hangup_the_file_is_read_again_and_a_bad_one_is_refused() {
    let file = Settings::new("hold = \"1s\"\n");
    let mut program = Program::start(&file);
    file.write("hold = \"2s\"\n[[policy]]\ndecision = \"ask\"\n");
    program.hang_up();
    let line = program.logs("read the settings again");
    assert!(line.contains("INFO") && line.contains("for steps that begin from now on: policy"), "{line}");
    let line = program.logs("started again");
    assert!(line.contains("WARN") && line.ends_with(": hold"), "{line}");
    file.write("[[policy]]\ndecision = \"perhaps\"\n");
    program.hang_up();
    let line = program.logs("perhaps");
    let place = format!("{}:2: decision: ", file.path());
    assert!(line.contains("ERROR") && line.contains(&place), "{line}");
    file.write("hold = \"1s\"\n[[policy]]\ndecision = \"ask\"\n");
    program.hang_up();
    program.logs("the rules are what they were");
}
