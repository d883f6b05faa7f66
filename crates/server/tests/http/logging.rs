//! The program when nobody can read its log.

use std::{
    fs::OpenOptions,
    io::{PipeReader, PipeWriter, Read, Write, pipe},
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::app::PATIENCE;

/// The running program, which is killed at the end of the test.
struct Program {
    child: Child,
    address: String,
}

impl Program {
    /// Starts the program with this standard error, and waits until it accepts connections.
    fn start(stderr: impl Into<Stdio>, filter: &str) -> Self {
        // The log cannot tell the port of the program.
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        drop(listener);
        let mut child = Command::new(env!("CARGO_BIN_EXE_fermata"))
            .args(["--bind", &address, "--database-url", "sqlite::memory:"])
            .args(["--auth", "token", "--tokens", "alice:a-token-of-the-tests"])
            .env_clear()
            .env("RUST_LOG", filter)
            .stderr(stderr)
            .spawn()
            .expect("the program");
        let began = Instant::now();
        while TcpStream::connect(&address).is_err() {
            assert!(began.elapsed() < PATIENCE, "the program does not listen");
            assert_eq!(child.try_wait().expect("a state"), None, "the program has ended");
            std::thread::sleep(Duration::from_millis(10));
        }
        Self { child, address }
    }

    /// Returns the status of the response to a request with this token.
    fn ask(&self, path: &str, token: &str) -> String {
        let mut socket = TcpStream::connect(&self.address).expect("a connection");
        socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        let head = format!("GET {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {token}", self.address);
        write!(socket, "{head}\r\nconnection: close\r\n\r\n").expect("sending");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).expect("an answer");
        answer.split(' ').nth(1).expect("a status").to_owned()
    }

    /// Sends a hundred requests on one connection.
    fn ask_a_hundred_times(&self) {
        let mut socket = TcpStream::connect(&self.address).expect("a connection");
        socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        let request = format!("GET /healthz HTTP/1.1\r\nhost: {}\r\n", self.address);
        let requests = format!("{request}\r\n").repeat(99) + &format!("{request}connection: close\r\n\r\n");
        socket.write_all(requests.as_bytes()).expect("sending");
        let mut answers = String::new();
        socket.read_to_string(&mut answers).expect("answers");
        assert_eq!(answers.matches("HTTP/1.1 200").count(), 100, "{answers}");
    }

    /// Asserts that the program answers, although these requests are logged, and ends in good order.
    fn works(mut self) {
        for _ in 0..3 {
            assert_eq!(self.ask("/api/chats", "a-wrong-token-of-the-tests"), "401");
            assert_eq!(self.ask("/healthz", ""), "200");
            assert_eq!(self.ask("/api/chats", "a-token-of-the-tests"), "200");
        }
        assert_eq!(self.child.try_wait().expect("a state"), None, "it has ended");
        let killed = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        assert!(killed.expect("kill").success());
        assert_eq!(self.child.wait().expect("an end").code(), Some(0));
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn new_pipe() -> (PipeReader, PipeWriter) {
    pipe().expect("a pipe")
}

#[test]
fn a_log_on_a_full_disk_stops_nothing() {
    let full = OpenOptions::new().write(true).open("/dev/full").expect("a device");
    Program::start(full, "debug").works();
}

#[test]
fn a_log_whose_reader_has_ended_stops_nothing() {
    // The reader ends while the program runs, or has ended before it starts.
    let (reader, writer) = new_pipe();
    let program = Program::start(writer, "debug");
    drop(reader);
    program.works();
    let (reader, writer) = new_pipe();
    drop(reader);
    Program::start(writer, "debug").works();
}

#[test]
fn a_log_that_nobody_reads_stops_nothing() {
    let (mut reader, writer) = new_pipe();
    let program = Program::start(writer, "trace");
    for _ in 0..10 {
        program.ask_a_hundred_times();
    }
    program.works();
    let mut log = String::new();
    reader.read_to_string(&mut log).expect("a log");
    assert!(!log.contains("shutting down"), "the pipe was not full:\n{log}");
}

#[test]
fn a_start_that_fails_says_why_in_its_last_line() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    for (arguments, reason) in [
        (
            vec!["--bind", &address, "--database-url", "sqlite::memory:"],
            format!("fermata: cannot listen on {address}"),
        ),
        (vec!["--port", "x"], "fermata: ".into()),
    ] {
        let ended =
            Command::new(env!("CARGO_BIN_EXE_fermata")).args(arguments).env_clear().output().expect("an end");
        let log = String::from_utf8(ended.stderr).expect("text");
        assert!(log.lines().last().is_some_and(|line| line.starts_with(&reason)), "{log}");
        assert_eq!(ended.status.code(), Some(1), "{log}");
    }
    // It cannot say why, and ends nevertheless.
    let full = OpenOptions::new().write(true).open("/dev/full").expect("a device");
    let mut command = Command::new(env!("CARGO_BIN_EXE_fermata"));
    let ended = command.args(["--port", "x"]).env_clear().stderr(full).status().expect("an end");
    assert_eq!(ended.code(), Some(1));
}
