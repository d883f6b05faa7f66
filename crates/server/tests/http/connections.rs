//! The program when its connections run out.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
};

use serde_json::{Value, json};

use crate::{app::Settings, signals::Program};

/// A stream that is read line by line.
struct Stream(BufReader<TcpStream>);

impl Program {
    fn send(&self, method: &str, path: &str, body: &Value) -> TcpStream {
        let mut socket = self.connect();
        let (address, body) = (self.address(), body.to_string());
        let length = body.len();
        let head = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\ncontent-length: {length}");
        write!(socket, "{head}\r\nconnection: close\r\n\r\n{body}").expect("sending");
        socket
    }

    /// Returns the status and the body of the response to a request on a new connection, which then ends.
    fn ask(&self, method: &str, path: &str, body: &Value) -> (String, String) {
        let mut answer = String::new();
        self.send(method, path, body).read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        (head.split(' ').nth(1).expect("a status").to_owned(), body.to_owned())
    }

    /// Posts a message whose call waits for a person, and reads the stream until it does. Returns the id of the call.
    fn park(&self, chat: &str) -> (Stream, String) {
        let body = json!({
            "id": chat,
            "messages": [{"role": "user", "content": "write a note: milk"}],
            "fermata": {"client": 7, "hold": "1h"},
        });
        let mut stream = Stream(BufReader::new(self.send("POST", "/api/chat", &body)));
        let asked = stream.until("tool-approval-request");
        let call = asked["toolCallId"].as_str().expect("a call").to_owned();
        (stream, call)
    }

    fn answer(&self, chat: &str, call: &str) -> String {
        let body = json!({"chatId": chat, "toolCallId": call, "approved": true});
        self.ask("POST", "/chat/tool-result", &body).0
    }
}

impl Stream {
    /// Reads up to a chunk of this type.
    fn until(&mut self, kind: &str) -> Value {
        loop {
            let line = self.line();
            let Some(chunk) = line.strip_prefix("data: ") else { continue };
            let chunk: Value =
                serde_json::from_str(chunk).unwrap_or_else(|_| panic!("the stream ended without {kind}"));
            assert_ne!(chunk["type"], "error", "{chunk}");
            if chunk["type"] == kind {
                return chunk;
            }
        }
    }

    /// Reads to the end, which is the one of a stream whose hold is over.
    fn ends(&mut self) {
        self.until("finish");
        while self.line() != "data: [DONE]" {}
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.0.read_line(&mut line).expect("a line") > 0, "the connection was closed");
        line.trim_end().to_owned()
    }
}

const NOTHING: Value = Value::Null;

fn with_three_connections() -> Program {
    Program::start(&Settings::new(
        "max_connections = 3\n[[policy]]\ntool = \"write_note\"\ndecision = \"ask\"\n",
    ))
}

#[test]
fn an_answer_and_a_health_check_get_through_and_cost_no_stream() {
    let program = with_three_connections();
    let mut parked: Vec<_> = ["a", "b", "c"].into_iter().map(|chat| program.park(chat)).collect();
    for _ in 0..20 {
        assert_eq!(program.ask("GET", "/healthz", &NOTHING).0, "200");
    }
    let (stream, call) = &mut parked[0];
    assert_eq!(program.answer("a", call), "200");
    stream.until("tool-output-available");
    // The second answer is one to a call of a stream that is still held.
    let (stream, call) = &mut parked[2];
    assert_eq!(program.answer("c", call), "200");
    stream.until("tool-output-available");
}

#[test]
fn a_burst_of_answers_gets_through() {
    let program = with_three_connections();
    let parked: Vec<_> = ["a", "b", "c"].into_iter().map(|chat| program.park(chat)).collect();
    std::thread::scope(|scope| {
        let answers: Vec<_> = (0..60).map(|_| scope.spawn(|| program.answer("b", &parked[1].1))).collect();
        for answer in answers {
            assert_eq!(answer.join().expect("an answer"), "200");
        }
    });
}

#[test]
fn the_stream_that_has_waited_longest_makes_room() {
    let program = with_three_connections();
    let (mut first, first_call) = program.park("a");
    let (mut second, second_call) = program.park("b");
    let (mut third, third_call) = program.park("c");
    let (mut fourth, _) = program.park("d");
    first.ends();
    let (status, chats) = program.ask("GET", "/api/chats", &NOTHING);
    assert_eq!(status, "200", "{chats}");
    second.ends();
    // The calls wait on, and the other streams are held.
    for (chat, call) in [("a", first_call), ("b", second_call), ("c", third_call)] {
        assert_eq!(program.answer(chat, &call), "200", "{chat}");
    }
    third.until("tool-output-available");
    let pending = program.ask("GET", "/api/chat/d/pending", &NOTHING).1;
    let pending: Value = serde_json::from_str(&pending).expect("JSON");
    let call = pending["pending"][0]["toolCallId"].as_str().expect("a call");
    assert_eq!(program.answer("d", call), "200");
    fourth.until("tool-output-available");
}

#[test]
fn by_default_there_are_as_many_connections_as_open_files_allow() {
    let program = Program::start_with_files(&Settings::new(""), 128);
    // No more than 54 connections fit, so the first stream makes room.
    let mut parked: Vec<_> = (0..60).map(|number| program.park(&format!("c{number}"))).collect();
    parked[0].0.ends();
    assert_eq!(program.ask("GET", "/healthz", &NOTHING).0, "200");
}
