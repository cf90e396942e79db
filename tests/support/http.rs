//! A server in a child process, and a minimal HTTP client for it.

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

/// The timeout of every wait. Nothing takes nearly as long.
pub const PATIENCE: Duration = Duration::from_secs(300);

impl Server {
    /// Starts a program whose first line of output names http://127.0.0.1:PORT.
    pub fn start(command: &mut Command) -> Server {
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let mut server = Server { process, output, host: String::new() };
        server.host = server.next_address();
        server
    }

    /// The address and port in the next line of output.
    pub fn next_address(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let url = line.split_whitespace().find_map(|word| word.strip_prefix("http://"));
        let url = url.unwrap_or_else(|| panic!("no address in {line:?}"));
        url.split('/').next().unwrap().to_owned()
    }

    /// Its address and port.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// A number from /proc/PID/status, such as Threads or VmHWM (the peak memory, in kB).
    pub fn status(&self, field: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or_else(|| panic!("{field}"))
    }

    /// The processor time that the server has used, in user and system mode.
    pub fn processor_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id())).unwrap();
        let fields = stat.rsplit_once(')').unwrap().1.split_whitespace().skip(11);
        let ticks: u64 = fields.take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum();
        Duration::from_millis(10 * ticks) // Linux reports hundredths of a second, whatever its clock rate
    }

    /// The number of its open files and connections.
    pub fn files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.process.id())).unwrap().count()
    }

    /// Opens a connection to the server.
    pub fn connect(&self) -> TcpStream {
        connect(&self.host)
    }

    /// Sends a GET over a new connection. Returns the status and the body.
    pub fn get(&self, path: &str) -> (u16, String) {
        let (status, _, body) = self.request(path);
        (status, body)
    }

    /// As `get`, and returns the headers in lower case too.
    pub fn request(&self, path: &str) -> (u16, String, String) {
        self.send("GET", path, "")
    }

    /// Sends a request with this method and body.
    pub fn send(&self, method: &str, path: &str, body: &str) -> (u16, String, String) {
        send(&self.host, method, path, body)
    }

    /// Sends the server a signal. After SIGSTOP, all its threads are stopped.
    pub fn signal(&self, signal: i32) {
        let id = self.process.id();
        // SAFETY: a plain system call on a child that was not yet waited for.
        assert_eq!(unsafe { libc::kill(id as i32, signal) }, 0);
        if signal == libc::SIGSTOP {
            let mut stopped = std::mem::MaybeUninit::<libc::siginfo_t>::uninit();
            // SAFETY: the same; the pointer is valid for the call.
            assert_eq!(unsafe { libc::waitid(libc::P_PID, id, stopped.as_mut_ptr(), libc::WSTOPPED) }, 0);
        }
    }

    /// Interrupts the server as Ctrl-C does. Returns its exit status and its last output.
    pub fn interrupt(self) -> (ExitStatus, String) {
        self.end(libc::SIGINT)
    }

    /// Ends the server with this signal. Returns its exit status and its last output.
    pub fn end(self, signal: i32) -> (ExitStatus, String) {
        self.signal(signal);
        self.wait()
    }

    /// Waits until the server ends. Returns its exit status and its last output.
    pub fn wait(mut self) -> (ExitStatus, String) {
        let status = wait(&mut self.process);
        let mut said = String::new();
        self.output.read_to_string(&mut said).unwrap();
        (status, said)
    }
}

/// Waits for a process that must end by itself. Returns its exit status.
pub fn wait(process: &mut Child) -> ExitStatus {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if let Some(status) = process.try_wait().unwrap() {
            return status;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = process.kill();
    let _ = process.wait();
    panic!("the process does not end");
}

/// Raises the limit of open files as far as the system allows, for the test and for the servers that it starts.
pub fn allow_many_files() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: plain system calls on a struct of our own.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), 0);
        limit.rlim_cur = limit.rlim_max;
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0);
    }
    assert!(limit.rlim_max >= 16_384, "ulimit -Hn {}: too few for this test", limit.rlim_max);
}

/// Opens a connection with timeouts.
pub fn connect(host: &str) -> TcpStream {
    let connection = TcpStream::connect(host).unwrap();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    connection.set_write_timeout(Some(PATIENCE)).unwrap();
    connection
}

/// Sends a request over a new connection. Returns the status, the headers in lower case, and the body.
pub fn send(host: &str, method: &str, path: &str, body: &str) -> (u16, String, String) {
    let mut connection = connect(host);
    let head = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close");
    // Send all in one write. A server that refuses the headers may close the connection before a later body arrives,
    // and the reset would discard its response.
    let request = format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    connection.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{path}: {answer:?}"));
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("{head}"));
    let head = head.to_ascii_lowercase();
    let body = if head.contains("transfer-encoding: chunked") { &joined(body) } else { body };
    (status, head, body.trim_end().to_owned())
}

/// Joins the chunks of a body.
fn joined(mut chunks: &str) -> String {
    let mut body = String::new();
    while let Some((length, rest)) = chunks.split_once("\r\n") {
        let (chunk, rest) = rest.split_at(usize::from_str_radix(length, 16).unwrap());
        body += chunk;
        chunks = rest.strip_prefix("\r\n").unwrap();
    }
    body
}

/// Sends a request over a connection that stays open. Returns None if the server closed it without any response.
pub fn ask(
    connection: &mut BufReader<TcpStream>,
    method: &str,
    path: &str,
    body: &str,
) -> Option<(u16, String, String)> {
    let head = format!("{method} {path} HTTP/1.1\r\nHost: load\r\nContent-Length: {}", body.len());
    // In one write, or Nagle's algorithm waits for an acknowledgement.
    connection.get_mut().write_all(format!("{head}\r\n\r\n{body}").as_bytes()).ok()?;
    answer(connection)
}

/// Reads the next response on this connection: status, headers and body.
pub fn answer(connection: &mut impl BufRead) -> Option<(u16, String, String)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if connection.read_line(&mut head).unwrap_or(0) == 0 {
            assert_eq!(head, "", "half an answer");
            return None;
        }
    }
    let head = head.to_lowercase();
    let length =
        head.split_once("content-length: ").map_or(0, |(_, rest)| rest.lines().next().unwrap().parse().unwrap());
    let mut body = vec![0; length];
    connection.read_exact(&mut body).expect("half an answer");
    Some((head.split(' ').nth(1)?.parse().unwrap(), head, String::from_utf8(body).unwrap()))
}

/// Sends a server the raw requests of tests/data/framing.txt, and compares the statuses of its responses.
pub fn check_framing(host: &str, is_bidder: bool) {
    const NEXT: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: next\r\nConnection: close\r\n\r\n";
    let list = std::fs::read_to_string(super::root().join("tests/data/framing.txt")).unwrap();
    let mut wrong = Vec::new();
    let cases: Vec<&str> = list.split("\n[").skip(1).collect();
    assert!(cases.len() > 60);
    for case in cases {
        let name = case.split(']').next().unwrap();
        let lines = |key: &'static str| case.lines().filter_map(move |line| line.strip_prefix(key));
        let request: Vec<u8> = lines("send: ").flat_map(unescape).collect();
        let answers = lines("bidder: ").next().filter(|_| is_bidder).or(lines("answer: ").next()).expect(name);
        assert!(!answers.contains(" or ") || lines("why: ").next().is_some(), "{name}: why may the answers differ?");
        let mut connection = connect(host);
        // A server may refuse the beginning, and close before it has read the rest.
        let _ = connection.write_all(&[&request, NEXT].concat());
        let mut bytes = Vec::new();
        let _ = connection.read_to_end(&mut bytes); // a reset is an end too
        let (versions, statuses) = responses(&String::from_utf8_lossy(&bytes));
        let same_version = !request.starts_with(b"GET /healthz HTTP/1.0\r\n") || versions == ["HTTP/1.0"];
        if !answers.split(" or ").any(|answer| answer == statuses) || !same_version && statuses == "200" {
            wrong.push(format!("{name}: {versions:?} {statuses:?}, not {answers}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The bytes of a text of tests/data/framing.txt.
fn unescape(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), text);
    while let Some((plain, escaped)) = rest.split_once('\\') {
        bytes.extend(plain.bytes());
        let (length, escape) = match escaped.as_bytes()[0] {
            b'r' => (1, vec![b'\r']),
            b'n' => (1, vec![b'\n']),
            b't' => (1, vec![b'\t']),
            b'\\' => (1, vec![b'\\']),
            b'x' => (3, vec![u8::from_str_radix(&escaped[1..3], 16).unwrap()]),
            b'{' => {
                let repeated = &escaped[1..escaped.find('}').unwrap()];
                let (times, what) = repeated.split_once(' ').unwrap();
                (repeated.len() + 2, unescape(what).repeat(times.parse().unwrap()))
            }
            _ => panic!("{text}"),
        };
        bytes.extend(escape);
        rest = &escaped[length..];
    }
    bytes.extend(rest.bytes());
    bytes
}

/// The versions of all responses on a connection, and their statuses with spaces between them.
fn responses(mut text: &str) -> (Vec<String>, String) {
    let (mut versions, mut statuses) = (Vec::new(), Vec::new());
    while let Some((head, rest)) = text.split_once("\r\n\r\n") {
        let mut words = head.split(' ').map(str::to_owned);
        versions.push(words.next().unwrap());
        let status = words.next().expect(head);
        let length = head.to_lowercase().split_once("\r\ncontent-length: ").map(|(_, after)| {
            let digits = after.lines().next().unwrap();
            digits.parse::<usize>().unwrap()
        });
        text = match length {
            Some(length) => &rest[length..],
            None if head.to_lowercase().contains("transfer-encoding: chunked") => {
                rest.split_once("\r\n0\r\n\r\n").unwrap().1
            }
            None if status.starts_with('1') || status == "204" => rest,
            None => "", // until the connection closes
        };
        statuses.push(status);
    }
    assert_eq!(text, "", "half an answer");
    (versions, statuses.join(" "))
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
