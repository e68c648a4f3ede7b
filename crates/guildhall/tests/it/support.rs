//! Support: the binary as a process, and a plain HTTP client.
//!
//! Limits  every wait ends after `PATIENCE`, far above what a loaded machine needs.

use serde_json::Value;
use std::{
    collections::HashMap,
    ffi::OsStr,
    fmt, fs,
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Child, Command, Output, Stdio},
    str::FromStr,
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

/// A test that waits longer has failed.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Waits for `state`; panics with `what` when it does not come.
pub fn wait_for<T>(what: &str, mut state: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = state() {
            return value;
        }
        assert!(Instant::now() < deadline, "{what} did not happen in time");
        thread::sleep(Duration::from_millis(10));
    }
}

/// The binary, without settings from the environment of the test run.
pub fn guildhall<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_guildhall"));
    let ours = std::env::vars_os().map(|(name, _)| name).filter(|n| n.to_string_lossy().starts_with("GUILDHALL"));
    for name in ours {
        command.env_remove(name);
    }
    command.args(args).stdin(Stdio::null());
    command
}

/// Runs it to its end.
pub fn run<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Output {
    guildhall(args).output().expect("the binary starts")
}

/// What `output` wrote to standard error.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A running process. Killed when dropped.
pub struct Process(Child);

impl From<Child> for Process {
    fn from(child: Child) -> Self {
        Self(child)
    }
}

impl Process {
    /// Sends SIGKILL to the process.
    pub fn kill(mut self) {
        self.0.kill().expect("it can be killed");
        self.0.wait().expect("it can be waited for");
    }

    /// Sends a signal, like "TERM".
    pub fn signal(&self, name: &str) {
        let args = [format!("-{name}"), self.0.id().to_string()];
        assert!(Command::new("kill").args(args).status().expect("kill runs").success());
    }

    /// The exit code, if it has ended.
    pub fn has_ended(&mut self) -> Option<Option<i32>> {
        self.0.try_wait().expect("the child can be asked").map(|status| status.code())
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Resident memory, bytes.
    pub fn resident_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a process has memory");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
    }

    /// SIGTERM; returns the exit code.
    pub fn terminate(mut self) -> Option<i32> {
        self.signal("TERM");
        wait_for("the end of the process", || self.0.try_wait().expect("the child can be asked")).code()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `guildhall serve` on a free port and the state in `data`, once it is ready, and its log as it comes.
pub fn serve(data: &Path, args: &[&OsStr]) -> (Process, SocketAddr, Receiver<Value>) {
    let mut command = guildhall(["serve", "--listen", "127.0.0.1:0", "--log-format", "json", "--data"]);
    command.arg(data).args(args);
    let (process, ready, log) = serve_by(command, |_| {});
    let addr = ready["listen"].as_str().and_then(|addr| addr.parse().ok()).expect("where it listens");
    (process, addr, log)
}

/// The same by a command of the caller's, with the line that says it is ready. `look` sees the lines before that.
pub fn serve_by(mut command: Command, mut look: impl FnMut(&Value)) -> (Process, Value, Receiver<Value>) {
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary starts");
    let lines = BufReader::new(child.stderr.take().expect("its standard error")).lines();
    let process = Process::from(child);
    let (sender, log) = channel::<Value>();
    // Always reads the pipe: otherwise the process would block when it is full.
    thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            let _ = sender.send(serde_json::from_str(&line).expect("every line is JSON"));
        }
    });
    let deadline = Instant::now() + PATIENCE;
    loop {
        let line = log.recv_timeout(deadline.saturating_duration_since(Instant::now())).expect("it is ready");
        if line["message"] == "ready" {
            return (process, line, log);
        }
        look(&line);
    }
}

/// The next line of that message.
pub fn wait_for_line(log: &Receiver<Value>, message: &str) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let line = log.recv_timeout(deadline.saturating_duration_since(Instant::now())).expect(message);
        if line["message"] == message {
            return line;
        }
    }
}

/// A demo on a free port.
pub struct Demo {
    pub process: Process,
    pub manifest: Value,
    pub addr: SocketAddr,
}

impl Demo {
    /// Starts it on `dir`, quiet unless `args` say otherwise, and waits until it is ready.
    pub fn start(dir: &Path, args: &[&str]) -> Self {
        Self::start_on(dir, "127.0.0.1:0", args, Stdio::null())
    }

    /// The same on a port, with its log where it is wanted.
    pub fn start_on(dir: &Path, listen: &str, args: &[&str], log: Stdio) -> Self {
        let path = dir.join("demo.json");
        let stale = fs::read(&path).ok();
        let mut command = guildhall(["demo", "--listen", listen, "--data"]);
        command.arg(dir).args(args).stdout(Stdio::null()).stderr(log);
        let mut process = Process(command.spawn().expect("the binary starts"));
        let manifest: Value = wait_for("demo.json", || {
            if let Some(status) = process.0.try_wait().expect("the child can be asked") {
                panic!("the demo ended: {status}");
            }
            let text = fs::read(&path).ok().filter(|text| Some(text) != stale.as_ref())?;
            Some(serde_json::from_slice(&text).expect("it appears whole"))
        });
        let base = manifest["api_base"].as_str().expect("api_base");
        let addr = base.strip_prefix("http://").and_then(|b| b.strip_suffix("/api")).expect("http://…/api");
        let addr: SocketAddr = addr.parse().expect("an address");
        let demo = Self { process, manifest, addr };
        wait_for("/readyz", || (Http::new(addr, "").get("/readyz").ok()?.status == 200).then_some(()));
        demo
    }

    /// A client with the token of that name in demo.json.
    pub fn client(&self, token: &str) -> Http {
        Http::new(self.addr, self.manifest[token].as_str().expect("a token"))
    }

    /// The token of that name in demo.json, as IDENTIFY wants it.
    pub fn token(&self, name: &str) -> String {
        self.manifest[name].as_str().expect("a token").trim_start_matches("Bot ").to_owned()
    }

    /// The ids of all listed channels.
    pub fn channels(&self) -> Vec<String> {
        let ids = self.manifest["channel_ids"].as_array().expect("channel_ids");
        ids.iter().map(|id| id.as_str().expect("an id").to_owned()).collect()
    }

    /// Sends SIGKILL to the process.
    pub fn kill(self) {
        self.process.kill();
    }

    /// SIGTERM; returns the exit code.
    pub fn terminate(self) -> Option<i32> {
        self.process.terminate()
    }
}

/// A response to a request.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub body: Value,
}

/// A client with one connection, reopened when the server has closed it.
pub struct Http {
    addr: SocketAddr,
    token: String,
    connection: Option<BufReader<TcpStream>>,
}

impl Http {
    pub fn new(addr: SocketAddr, token: &str) -> Self {
        Self { addr, token: token.to_owned(), connection: None }
    }

    pub fn get(&mut self, path: &str) -> io::Result<Answer> {
        self.request("GET", path, None)
    }

    /// What everything says that a channel holds, by id.
    pub fn history(&mut self, channel: &str) -> HashMap<String, String> {
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        let mut all = HashMap::new();
        let mut before = String::new();
        loop {
            let path = format!("/api/v10/channels/{channel}/messages?limit=100{before}");
            let answer = self.get(&path).expect("REST answers");
            assert_eq!(answer.status, 200, "{answer:?}");
            let page = answer.body.as_array().expect("a list");
            let Some(oldest) = page.last() else { return all };
            before = format!("&before={}", text(&oldest["id"]));
            for message in page {
                assert!(all.insert(text(&message["id"]), text(&message["content"])).is_none(), "once");
            }
        }
    }

    /// Asks; an error means nobody knows whether it was done.
    pub fn request(&mut self, method: &str, path: &str, body: Option<&Value>) -> io::Result<Answer> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let stream = TcpStream::connect(self.addr)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                BufReader::new(stream)
            }
        };
        let body = body.map(Value::to_string).unwrap_or_default();
        let token = if self.token.is_empty() { String::new() } else { format!("Authorization: {}\r\n", self.token) };
        let head = format!("{method} {path} HTTP/1.1\r\nHost: test\r\n{token}Content-Type: application/json\r\n");
        let request = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
        connection.get_mut().write_all(request.as_bytes())?;
        let (answer, is_last) = read_answer(&mut connection)?;
        self.connection = (!is_last).then_some(connection);
        Ok(answer)
    }
}

/// The answer, and whether the server closes the connection after it.
fn read_answer(connection: &mut BufReader<TcpStream>) -> io::Result<(Answer, bool)> {
    let broken = || io::Error::from(io::ErrorKind::UnexpectedEof);
    let mut line = String::new();
    connection.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(broken)?;
    let (mut length, mut is_last) = (0, false);
    loop {
        line.clear();
        if connection.read_line(&mut line)? == 0 {
            return Err(broken());
        }
        match line.trim_end().split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse().map_err(|_| broken())?;
            }
            Some((name, value)) if name.eq_ignore_ascii_case("connection") => {
                is_last = value.trim().eq_ignore_ascii_case("close");
            }
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    connection.read_exact(&mut body)?;
    Ok((Answer { status, body: serde_json::from_slice(&body).unwrap_or(Value::Null) }, is_last))
}

/// An answer whose body may be anything.
#[derive(Debug)]
pub struct Raw {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Raw {
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// One request on a connection of its own, as it stands; none when the server says nothing.
pub fn exchange(addr: SocketAddr, request: &[u8]) -> Option<Raw> {
    let mut stream = TcpStream::connect(addr).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("it can be set");
    stream.write_all(request).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let end = answer.windows(4).position(|piece| piece == b"\r\n\r\n")?;
    let head = String::from_utf8(answer[..end].to_vec()).expect("a head is text");
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(Raw { status, head, body: answer[end + 4..].to_vec() })
}

/// A request with more headers, each with its line end, on a connection of its own.
#[track_caller]
pub fn ask(addr: SocketAddr, method: &str, path: &str, headers: &str, body: &[u8]) -> Raw {
    let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let head = format!("{method} {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{headers}{length}\r\n");
    exchange(addr, &[head.as_bytes(), body].concat()).expect("an answer")
}

/// What `/metrics` says.
pub fn metrics(addr: SocketAddr) -> String {
    ask(addr, "GET", "/metrics", "", b"").text()
}

/// The value of a series of `/metrics`, by its name after `guildhall_`, with its labels.
#[track_caller]
pub fn metric<T: FromStr<Err: fmt::Debug>>(addr: SocketAddr, name: &str) -> T {
    let metrics = metrics(addr);
    let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("guildhall_{name} ")));
    line.unwrap_or_else(|| panic!("{name} is not there: {metrics}")).parse().expect("a number")
}
