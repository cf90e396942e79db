//! A server in a child process, and enough HTTP to talk to it.
#![allow(dead_code)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A running server; killed when dropped.
pub struct Server {
    process: Child,
    output: BufReader<ChildStdout>,
    host: String,
}

impl Server {
    /// Starts a program whose first line of output names http://127.0.0.1:PORT.
    pub fn start(command: &mut Command) -> Server {
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let url = line.split_whitespace().find_map(|word| word.strip_prefix("http://"));
        let host = url.unwrap_or_else(|| panic!("no address in {line:?}")).to_owned();
        Server { process, output, host }
    }

    /// Its address and port.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The status and body of a GET, over a connection of its own.
    pub fn get(&self, path: &str) -> (u16, String) {
        let (status, _, body) = self.request(path);
        (status, body)
    }

    /// The same with the headers, in lower case.
    pub fn request(&self, path: &str) -> (u16, String, String) {
        self.send("GET", path, "")
    }

    /// Any method, with a body of its own.
    pub fn send(&self, method: &str, path: &str, body: &str) -> (u16, String, String) {
        let mut connection = TcpStream::connect(&self.host).unwrap();
        connection.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close", self.host);
        // In one piece: a server that refuses the head may close before a body that comes after it,
        // and the reset would take the answer away.
        let request = format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        connection.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{path}: {answer:?}"));
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("{head}"));
        (status, head.to_ascii_lowercase(), body.trim_end().to_owned())
    }

    /// Interrupts the server as Ctrl-C does: how it ended, and what it said last.
    pub fn interrupt(mut self) -> (ExitStatus, String) {
        // SAFETY: a plain system call on a child that was not yet waited for.
        assert_eq!(unsafe { libc::kill(self.process.id() as i32, libc::SIGINT) }, 0);
        let end = Instant::now() + Duration::from_secs(10);
        while Instant::now() < end {
            if let Some(status) = self.process.try_wait().unwrap() {
                let mut said = String::new();
                self.output.read_to_string(&mut said).unwrap();
                return (status, said);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the server ignores SIGINT");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
