//! The yardstick for many readers: a process that writes each delta to all of them with one system call each, and does nothing else.

use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    thread,
};

use crate::{
    model::{MARK, clock},
    readers::{DELTAS, PAUSE},
};

/// Prints its address, waits for so many readers, and writes them an answer.
#[expect(clippy::print_stdout, reason = "whoever starts it reads the address there")]
pub fn serve(readers: usize) -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?);
    let mut readers: Vec<TcpStream> =
        (0..readers).map(|_| Ok(listener.accept()?.0)).collect::<std::io::Result<_>>()?;
    for reader in &mut readers {
        reader.set_nodelay(true)?;
        for line in BufReader::new(&*reader).lines() {
            if line?.is_empty() {
                break;
            }
        }
        reader.write_all(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
        )?;
    }
    for _ in 0..DELTAS {
        thread::sleep(PAUSE);
        let event = format!(
            "data: {{\"type\":\"text-delta\",\"id\":\"0\",\"delta\":\"{}{}\"}}\n\n",
            char::from(MARK),
            clock()
        );
        let chunk = format!("{:x}\r\n{event}\r\n", event.len());
        for reader in &mut readers {
            reader.write_all(chunk.as_bytes())?;
        }
    }
    for reader in &mut readers {
        reader.write_all(b"0\r\n\r\n")?;
    }
    Ok(())
}
