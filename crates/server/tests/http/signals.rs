//! The program's reactions to signals.

use std::{
    io::{BufRead, BufReader, Lines, Read, Write},
    net::{TcpListener, TcpStream},
    os::fd::OwnedFd,
    process::{Child, ChildStderr, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::app::{PATIENCE, Settings};

/// The running program, which is killed at the end of the test.
pub struct Program {
    child: Child,
    log: Lines<BufReader<ChildStderr>>,
    /// The address that it listens on.
    address: String,
}

impl Program {
    pub fn start(file: &Settings) -> Self {
        Self::run(Command::new(env!("CARGO_BIN_EXE_fermata")), file)
    }

    /// Starts the program with a limit of open files.
    pub fn start_with_files(file: &Settings, files: u32) -> Self {
        let mut shell = Command::new("/bin/sh");
        let line = format!("ulimit -n {files} && exec {} \"$@\"", env!("CARGO_BIN_EXE_fermata"));
        shell.args(["-c", &line, "fermata"]);
        Self::run(shell, file)
    }

    /// Starts the program with a socket that is handed over to it, as systemd does.
    fn start_on(socket: &TcpListener, arguments: &[&str], file: &Settings) -> Self {
        Self::run(handed_over(socket, arguments), file)
    }

    fn run(mut command: Command, file: &Settings) -> Self {
        let mut child = command
            .args(["--config", file.path(), "--bind", "127.0.0.1:0", "--database-url", "sqlite::memory:"])
            .env_clear()
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program");
        let log = BufReader::new(child.stderr.take().expect("a log")).lines();
        let mut program = Self { child, log, address: String::new() };
        let line = program.logs("listening on");
        let (_, address) = line.split_once("http://").expect("an address");
        program.address = address.split(',').next().expect("an address").to_owned();
        program
    }

    /// Reads the log up to a line with this text, and returns the line.
    fn logs(&mut self, text: &str) -> String {
        let mut lines = self.log.by_ref().map(|line| line.expect("text"));
        lines.find(|line| line.contains(text)).unwrap_or_else(|| panic!("the log ended without {text:?}"))
    }

    /// Opens a connection with a timeout for reads.
    pub fn connect(&self) -> TcpStream {
        let connection = TcpStream::connect(&self.address).expect("a connection");
        connection.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        connection
    }

    /// Returns the status of a request.
    fn get(&self, path: &str) -> String {
        let mut socket = self.connect();
        write!(socket, "GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", self.address)
            .expect("sending");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).expect("an answer");
        answer.split(' ').nth(1).expect("a status").to_owned()
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> &str {
        &self.address
    }

    fn signal(&self, name: &str) {
        let arguments = [format!("-{name}"), self.child.id().to_string()];
        let sent = Command::new("kill").args(arguments).status().expect("kill");
        assert!(sent.success());
    }

    /// Waits for the program's end and returns its status.
    fn ends(&mut self) -> Option<i32> {
        self.child.wait().expect("an end").code()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn operators_have_an_address_of_their_own() {
    let file = Settings::new("operator_bind = \"127.0.0.1:0\"\n");
    let mut program = Program::start(&file);
    let line = program.logs("listening for operators on");
    let (_, operators) = line.split_once("http://").expect("an address");
    let ask = |address: &str, path: &str| {
        let mut socket = TcpStream::connect(address).expect("a connection");
        write!(socket, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")
            .expect("sending");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).expect("an answer");
        answer.split(' ').nth(1).expect("a status").to_owned()
    };
    assert_eq!((ask(operators, "/metrics"), ask(operators, "/api/chats")), ("200".into(), "404".into()));
    assert_eq!(
        (ask(&program.address, "/metrics"), ask(&program.address, "/api/chats")),
        ("404".into(), "200".into())
    );
    program.signal("TERM");
    assert_eq!(program.ends(), Some(0));
}

/// Returns a command that becomes the program, with this socket as its descriptor 3.
fn handed_over(socket: &TcpListener, arguments: &[&str]) -> Command {
    let mut shell = Command::new("/bin/sh");
    let line = "LISTEN_FDS=1 LISTEN_PID=$$ exec \"$0\" \"$@\" 3<&0 </dev/null";
    shell.args(["-c", line, env!("CARGO_BIN_EXE_fermata")]).args(arguments);
    shell.stdin(OwnedFd::from(socket.try_clone().expect("a copy of the socket")));
    shell
}

#[test]
fn no_connection_is_refused_while_one_program_takes_the_place_of_another_on_a_socket_that_is_handed_over() {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = socket.local_addr().expect("an address");
    let file = Settings::new("");
    let mut program = Program::start_on(&socket, &[], &file);
    assert_eq!(program.address, address.to_string());
    let is_over = Arc::new(AtomicBool::new(false));
    let ask = move || {
        let mut connection = TcpStream::connect(address)?;
        connection.set_read_timeout(Some(PATIENCE))?;
        write!(connection, "GET /api/chats HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer)?;
        Ok::<_, std::io::Error>(answer.split(' ').nth(1).map(str::to_owned))
    };
    let asking: Vec<_> = (0..4)
        .map(|_| {
            let is_over = is_over.clone();
            std::thread::spawn(move || {
                let mut answers = 0;
                while !is_over.load(Ordering::Relaxed) {
                    assert_eq!(ask().expect("a connection and an answer").as_deref(), Some("200"));
                    answers += 1;
                }
                answers
            })
        })
        .collect();
    for _ in 0..5 {
        program.signal("TERM");
        assert_eq!(program.ends(), Some(0));
        program = Program::start_on(&socket, &[], &file);
        assert_eq!(program.get("/readyz"), "200");
    }
    is_over.store(true, Ordering::Relaxed);
    for thread in asking {
        assert!(thread.join().expect("nothing but answers") > 0);
    }
}

#[test]
fn a_socket_that_is_handed_over_is_not_for_everybody_without_tokens() {
    let socket = TcpListener::bind("0.0.0.0:0").expect("a port");
    let file = Settings::new("");
    let mut command = handed_over(&socket, &["--config", file.path(), "--database-url", "sqlite::memory:"]);
    let output = command.env_clear().output().expect("the program");
    let error = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("the socket that was handed over: bind: auth is none"), "{error}");
}

#[test]
fn an_operator_drains_a_server_that_then_waits_for_a_signal() {
    let file =
        Settings::new("operator_bind = \"127.0.0.1:0\"\noperator_token = \"the-token-of-operators\"\n");
    let mut program = Program::start(&file);
    let line = program.logs("listening for operators on");
    let (_, operators) = line.split_once("http://").expect("an address");
    let drain = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fermata"));
        command.args(["--config", file.path()]).args(arguments).arg("drain").env_clear();
        let output = command.arg("--wait").output().expect("the program");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let own = ["--operator-bind", operators];
    let (status, _, error) = drain(&[&own[..], &["--operator-token", "another-token-than-this"]].concat());
    assert_eq!(status, Some(1));
    assert!(error.contains("401"), "{error}");
    assert_eq!(program.get("/readyz"), "200");
    let (status, text, error) = drain(&own);
    assert_eq!((status, error.as_str()), (Some(0), ""));
    assert!(
        text.starts_with("drained after ") && text.contains(" 0 runs were moved, 0 finished, 0 were cut"),
        "{text}"
    );
    program.logs("an operator asks this server to drain");
    program.logs("drained; the process waits for a signal");
    assert_eq!(program.get("/readyz"), "503");
    // Once more does no harm.
    assert_eq!(drain(&own).0, Some(0));
    program.signal("TERM");
    assert_eq!(program.ends(), Some(0));
    let (status, _, error) = drain(&own);
    assert_eq!(status, Some(1));
    assert!(error.contains(&format!("{operators} does not answer")), "{error}");
}

#[test]
fn a_server_without_an_operators_address_cannot_be_drained() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fermata"));
    let output = command.arg("drain").env_clear().output().expect("the program");
    let error = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(1));
    assert!(error.contains("set operator_bind (FERMATA_OPERATOR_BIND)"), "{error}");
}

#[test]
fn at_a_hangup_the_file_is_read_again_and_a_bad_one_is_refused() {
    let file = Settings::new("hold = \"1s\"\n");
    let mut program = Program::start(&file);
    file.write("hold = \"2s\"\n[[policy]]\ndecision = \"ask\"\n");
    program.signal("HUP");
    let line = program.logs("read the settings again");
    assert!(line.contains("INFO") && line.contains("applied: policy"), "{line}");
    let line = program.logs("need a restart");
    assert!(line.contains("WARN") && line.ends_with(": hold"), "{line}");
    file.write("[[policy]]\ndecision = \"perhaps\"\n");
    program.signal("HUP");
    let line = program.logs("perhaps");
    let prefix = format!("{}:2: decision: ", file.path());
    assert!(line.contains("ERROR") && line.contains(&prefix), "{line}");
    file.write("hold = \"1s\"\n[[policy]]\ndecision = \"ask\"\n");
    program.signal("HUP");
    program.logs("no setting that can be reloaded has changed");
}

#[test]
fn tokens_are_read_again_and_wrong_ones_are_logged_with_the_address() {
    let settings = |token: &str| format!("auth = \"token\"\ntokens = [\"alice:{token}\"]\n");
    let (old, new) = ("the-token-of-before", "the-token-from-now-on");
    let file = Settings::new(&settings(old));
    let mut program = Program::start(&file);
    let address = program.address.clone();
    let ask = |token: &str| {
        let mut socket = TcpStream::connect(&address).expect("a connection");
        let head = format!("GET /api/chats HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}");
        write!(socket, "{head}\r\nconnection: close\r\n\r\n").expect("sending");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).expect("an answer");
        answer.split(' ').nth(1).expect("a status").to_owned()
    };
    assert_eq!((ask(old), ask(new)), ("200".into(), "401".into()));
    let line = program.logs("does not prove who sends it");
    assert!(line.contains("WARN") && line.contains("client=127.0.0.1") && !line.contains(new), "{line}");
    file.write(&settings(new));
    program.signal("HUP");
    let line = program.logs("read the settings again");
    assert!(line.ends_with("tokens"), "{line}");
    assert_eq!((ask(old), ask(new)), ("401".into(), "200".into()));
    file.write(&settings("short"));
    program.signal("HUP");
    let line = program.logs("the token of alice");
    assert!(line.contains("ERROR") && !line.contains("short"), "{line}");
    assert_eq!(ask(new), "200");
}

#[test]
fn a_signal_ends_the_program_in_good_order() {
    for name in ["TERM", "INT"] {
        let mut program = Program::start(&Settings::new(""));
        program.signal(name);
        assert_eq!(program.ends(), Some(0), "{name}");
    }
}

#[test]
fn a_second_signal_ends_the_program_at_once_though_a_connection_is_open() {
    let mut program = Program::start(&Settings::new(""));
    // The body of this post is incomplete. The interim response shows that the server waits for the rest.
    let mut connection = TcpStream::connect(&program.address).expect("a connection");
    let head = format!(
        "POST /api/chat HTTP/1.1\r\nhost: {}\r\ncontent-length: 9\r\nexpect: 100-continue\r\n\r\n",
        program.address
    );
    connection.write_all(head.as_bytes()).expect("a head");
    let mut answer = [0; 12];
    connection.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 100");
    program.signal("TERM");
    program.logs("a second signal ends the process at once");
    program.signal("TERM");
    assert_eq!(program.ends(), Some(1));
}

#[test]
fn more_connections_than_open_files_do_not_keep_a_health_check_from_its_answer() {
    let program = Program::start_with_files(&Settings::new(""), 128);
    let head = format!("host: {}\r\nexpect: 100-continue\r\ncontent-length: 9\r\n\r\n", program.address);
    let mut connections = Vec::new();
    for number in 0..200 {
        let mut connection = program.connect();
        // Every second connection starts a request, and gets either an interim response or a refusal.
        if number % 2 == 0 {
            connection.write_all(format!("POST /api/chat HTTP/1.1\r\n{head}").as_bytes()).expect("a head");
            connection.read_exact(&mut [0; 12]).expect("an answer");
        }
        connections.push(connection);
    }
    let mut health = program.connect();
    let request = format!("GET /healthz HTTP/1.1\r\nhost: {}\r\n\r\n", program.address);
    health.write_all(request.as_bytes()).expect("a request");
    let mut answer = [0; 12];
    health.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 200");
}
