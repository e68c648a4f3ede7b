//! An S3 server for tests: moto's, on a free port of loopback. It ends with the process that started it, however that
//! ends.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// The program, where it is not found by itself.
const PROGRAM: &str = "GUILDHALL_S3_SERVER";
const STARTING_MAX: Duration = Duration::from_secs(60);
/// The secret of the access key, which no output may contain.
pub const SECRET: &str = "s3cr3t-of-the-access-key";

/// Stops the server at the end of its standard input, and waits until its port is free.
const KEEPER: &str = r#"
"$PROGRAM" -H 127.0.0.1 -p "$PORT" > /dev/null 2>&1 &
server=$!
cat > /dev/null
kill -KILL $server
wait $server 2> /dev/null
"#;

/// A running server.
pub struct S3Server {
    port: u16,
    keeper: Mutex<(Child, Option<ChildStdin>)>,
}

/// The program, as `tools/s3-server` finds it.
fn program() -> Option<PathBuf> {
    if let Some(program) = std::env::var_os(PROGRAM).map(PathBuf::from) {
        return Some(program).filter(|program| program.is_file());
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2)?;
    let place = ["target", "tools", "bin", "s3-server"].iter().fold(root.to_owned(), |path, part| path.join(part));
    Some(place).filter(|program| program.is_file())
}

impl S3Server {
    /// One server for all tests of this process that do not stop it. None where it is not installed: such a test prints
    /// that it is skipped, and passes.
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<S3Server>> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(free_port())).as_ref()
    }

    /// A server for one test.
    pub fn start(port: u16) -> Option<Self> {
        let Some(program) = program() else {
            println!("the S3 server is not installed (`tools/s3-server --install`): this test is skipped");
            return None;
        };
        let mut keeper = Command::new("/bin/sh");
        keeper.args(["-c", KEEPER]).env("PROGRAM", program).env("PORT", port.to_string());
        let mut shell = keeper.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let input = shell.stdin.take();
        let server = Self { port, keeper: Mutex::new((shell, input)) };
        let until = Instant::now() + STARTING_MAX;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < until, "the S3 server does not start");
            thread::sleep(Duration::from_millis(50));
        }
        Some(server)
    }

    /// URL of the server.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Creates a bucket, and returns its name.
    pub fn create_bucket(&self) -> String {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("files-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        self.create(&name);
        name
    }

    /// Creates a bucket of this name.
    pub fn create(&self, name: &str) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(STARTING_MAX)).unwrap();
        let head = format!("PUT /{name} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap_or_else(|error| panic!("{error} instead of an answer to {head}"));
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

/// A port without a listener.
pub fn free_port() -> u16 {
    // Tests run side by side, and the system may offer a port again before its server listens.
    static OFFERED: Mutex<Vec<u16>> = Mutex::new(Vec::new());
    loop {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut offered = OFFERED.lock().unwrap();
        if !offered.contains(&port) {
            offered.push(port);
            return port;
        }
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        let (shell, input) = self.keeper.get_mut().unwrap();
        drop(input.take());
        let until = Instant::now() + STARTING_MAX;
        while matches!(shell.try_wait(), Ok(None)) {
            if Instant::now() > until {
                eprintln!("the S3 server at port {} does not end", self.port);
                let _ = shell.kill();
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}
