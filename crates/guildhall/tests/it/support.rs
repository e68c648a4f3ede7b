//! Support: the binary as a process, and a plain HTTP client.
//!
//! Owns    `Wait`, the bound of a loop that reads until something comes.
//! Limits  every wait ends after `PATIENCE`, far above what a loaded machine needs.

use serde_json::Value;
use std::{
    collections::HashMap,
    ffi::OsStr,
    fmt, fs,
    io::{self, BufRead, BufReader, ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Child, Command, Output, Stdio},
    str::FromStr,
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    thread,
    time::{Duration, Instant},
};

/// A test that waits longer has failed.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// One wait: what for, until when, and what came instead.
#[derive(Debug)]
pub struct Wait {
    what: String,
    until: Instant,
    seen: Vec<String>,
}

impl Wait {
    /// Ends after `PATIENCE`.
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), until: Instant::now() + PATIENCE, seen: Vec::new() }
    }

    /// The time that is left, more than none; panics at its end.
    #[track_caller]
    pub fn left(&self) -> Duration {
        let left = self.until.saturating_duration_since(Instant::now());
        assert!(!left.is_zero(), "{PATIENCE:?} without {self}");
        left
    }

    /// Adds something else that came.
    pub fn saw(&mut self, other: impl Into<String>) {
        self.seen.push(other.into());
    }

    /// Reads from a socket, which has to have something in time.
    #[track_caller]
    pub fn read(&self, stream: &TcpStream, buffer: &mut [u8]) -> usize {
        self.try_read(stream, buffer).unwrap_or_else(|error| panic!("{error} instead of {self}"))
    }

    /// The same, with the errors of a connection that ends.
    pub fn try_read(&self, mut stream: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let left = self.until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            stream.set_read_timeout(Some(left))?;
            match stream.read(buffer) {
                // A signal for another thread of this process, which servers start and stop.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Err(io::Error::new(ErrorKind::TimedOut, format!("{PATIENCE:?} without {self}")));
                }
                read => return read,
            }
        }
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, last) = (self.seen.len(), self.seen.len().saturating_sub(50));
        write!(f, "{}; {count} others came, the last of them {:#?}", self.what, &self.seen[last..])
    }
}

/// Waits for `state`; panics with `what` when it does not come.
#[track_caller]
pub fn wait_for<T>(what: &str, mut state: impl FnMut() -> Option<T>) -> T {
    wait_until(what, || state().ok_or("nothing"))
}

/// The same with what is there instead, which the panic shows.
#[track_caller]
pub fn wait_until<T, S: fmt::Debug>(what: &str, mut state: impl FnMut() -> Result<T, S>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match state() {
            Ok(value) => return value,
            Err(instead) => assert!(Instant::now() < deadline, "{PATIENCE:?} without {what}: {instead:#?}"),
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// A connection on which no read or write takes longer than `PATIENCE`.
pub fn connect(addr: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&addr, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
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
#[track_caller]
pub fn run<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Output {
    run_to_end(&mut guildhall(args))
}

/// Runs a command that ends by itself. One that goes on, as a node does that should have refused to start, is killed.
#[track_caller]
pub fn run_to_end(command: &mut Command) -> Output {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let what = format!("{command:?}");
    end_of(command.spawn().expect("the binary starts"), &what)
}

/// Waits for the end of a process with pipes for its output.
#[track_caller]
pub fn end_of(mut child: Child, what: &str) -> Output {
    fn gather(pipe: impl Read + Send + 'static) -> (Arc<Mutex<Vec<u8>>>, thread::JoinHandle<()>) {
        let gathered = Arc::new(Mutex::new(Vec::new()));
        let (into, mut pipe) = (gathered.clone(), pipe);
        let thread = thread::spawn(move || {
            let mut buffer = [0; 16 << 10];
            while let Ok(count @ 1..) = pipe.read(&mut buffer) {
                into.lock().unwrap().extend_from_slice(&buffer[..count]);
            }
        });
        (gathered, thread)
    }
    let (stdout, reader) = gather(child.stdout.take().expect("a pipe"));
    let (stderr, warned) = gather(child.stderr.take().expect("a pipe"));
    let mut process = Process(child);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let ended = process.0.try_wait().expect("the child can be waited for");
        if let (Some(status), true) = (ended, reader.is_finished() && warned.is_finished()) {
            let taken = |of: &Mutex<Vec<u8>>| std::mem::take(&mut *of.lock().unwrap());
            return Output { status, stdout: taken(&stdout), stderr: taken(&stderr) };
        }
        if Instant::now() > deadline {
            let text = |of: &Mutex<Vec<u8>>| String::from_utf8_lossy(&of.lock().unwrap()).into_owned();
            panic!("{what} does not end ({ended:?}), and printed {} {}", text(&stdout), text(&stderr));
        }
        thread::sleep(Duration::from_millis(2));
    }
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

    /// SIGSTOP; returns when the last thread has stopped.
    pub fn pause(&self) {
        self.signal("STOP");
        let dir = format!("/proc/{}/task", self.0.id());
        let runs = |task: io::Result<fs::DirEntry>| {
            let status = fs::read_to_string(task.expect("a thread").path().join("status")).unwrap_or_default();
            status.lines().any(|line| line.starts_with("State:") && !line.contains('T'))
        };
        wait_for("the stop of all threads", || (!fs::read_dir(&dir).expect("it runs").any(runs)).then_some(()));
    }

    /// Continues after `pause`, by SIGCONT.
    pub fn resume(&self) {
        self.signal("CONT");
    }

    /// The exit code, if it has ended.
    pub fn has_ended(&mut self) -> Option<Option<i32>> {
        self.0.try_wait().expect("the child can be waited for").map(|status| status.code())
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
        wait_for("the end of the process", || self.0.try_wait().expect("the child can be waited for")).code()
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

/// The same by a command of the caller's, with the line of its readiness. `look` gets the lines before that.
#[track_caller]
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
    let ready = next_line(&log, "the log line `ready`", |line| {
        let is_ready = line["message"] == "ready";
        if !is_ready {
            look(line);
        }
        is_ready
    });
    (process, ready, log)
}

/// The next line of that message.
#[track_caller]
pub fn wait_for_line(log: &Receiver<Value>, message: &str) -> Value {
    next_line(log, &format!("the log line `{message}`"), |line| line["message"] == message)
}

/// The next line that `is_it`.
#[track_caller]
pub fn next_line(log: &Receiver<Value>, what: &str, mut is_it: impl FnMut(&Value) -> bool) -> Value {
    let mut wait = Wait::new(what);
    loop {
        match log.recv_timeout(wait.left()) {
            Ok(line) if is_it(&line) => return line,
            Ok(line) => wait.saw(line.to_string()),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => panic!("the process ended without {wait}"),
        }
    }
}

/// All further lines of a process that ends.
#[track_caller]
pub fn rest_of(log: &Receiver<Value>) -> Vec<Value> {
    let (mut wait, mut lines) = (Wait::new("the end of the log"), Vec::new());
    loop {
        match log.recv_timeout(wait.left()) {
            Ok(line) => {
                wait.saw(line.to_string());
                lines.push(line);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return lines,
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
    /// Starts it on `dir`, quiet unless `args` set a rate, and waits until it is ready.
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
            if let Some(status) = process.0.try_wait().expect("the child can be waited for") {
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

    /// Contents of all messages of a channel, by id.
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

    /// Sends a request; after an error its effect is unknown.
    pub fn request(&mut self, method: &str, path: &str, body: Option<&Value>) -> io::Result<Answer> {
        let mut connection = match self.connection.take() {
            Some(connection) if is_open(connection.get_ref())? => connection,
            _ => {
                let stream = connect(self.addr)?;
                stream.set_nodelay(true)?;
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

/// Whether the server has left a connection open that waits for its next request.
fn is_open(stream: &TcpStream) -> io::Result<bool> {
    stream.set_nonblocking(true)?;
    let waits = matches!(stream.peek(&mut [0]), Err(error) if error.kind() == io::ErrorKind::WouldBlock);
    stream.set_nonblocking(false)?;
    Ok(waits)
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

/// One request on a connection of its own, byte for byte; none when the server closes without a response.
#[track_caller]
pub fn exchange(addr: SocketAddr, request: &[u8]) -> Option<Raw> {
    let mut stream = connect(addr).expect("it listens");
    stream.write_all(request).ok()?;
    let first_line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let wait = Wait::new(format!("the end of the answer to {}", String::from_utf8_lossy(first_line)));
    let (mut answer, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        match wait.try_read(&stream, &mut buffer) {
            Ok(0) => break,
            Ok(count) => answer.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                let begin = String::from_utf8_lossy(&answer[..answer.len().min(1_000)]);
                panic!("{error}; {} bytes of it: {begin}", answer.len());
            }
            Err(_) => return None,
        }
    }
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

/// The text of `/metrics`.
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
