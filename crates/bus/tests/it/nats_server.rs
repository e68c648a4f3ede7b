//! NATS for tests: a server of their own with JetStream, on a free port and in a folder of its own. It ends with the
//! process that started it, however that ends.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicU32, Ordering},
        mpsc::{Receiver, channel},
    },
    thread,
    time::{Duration, Instant},
};

/// The program, where it is not found by itself.
const PROGRAM: &str = "GUILDHALL_NATS_SERVER";
const STARTING_MAX: Duration = Duration::from_secs(60);
/// Longer than the keeper takes for a word, or for the end.
const KEEPER_MAX: Duration = Duration::from_secs(30);

/// Obeys words on its standard input, and stops the server at its end.
const KEEPER: &str = r#"
start() {
    "$PROGRAM" -c "$DIR/config" >> "$DIR/log" 2>&1 &
    server=$!
}
# Whether a thread of the server still runs: a signal that stops a process reaches its threads one after the other.
runs() {
    cat "/proc/$server/task/"*/stat | sed 's/^.*) //' | grep -qv '^T'
}
start
while read -r word; do
    case $word in
        crash) kill -KILL $server; wait $server 2> /dev/null;;
        start) start;;
        pause) kill -STOP $server; while runs; do sleep 0.01; done;;
        resume) kill -CONT $server;;
    esac
    echo done
done
kill -KILL $server
wait $server 2> /dev/null
rm -rf "$DIR"
"#;

/// A running server.
pub struct NatsServer {
    dir: PathBuf,
    port: u16,
    keeper: Mutex<Keeper>,
}

struct Keeper {
    shell: Child,
    /// None: it is to stop.
    input: Option<ChildStdin>,
    /// Lines that the shell writes.
    answers: Receiver<String>,
}

/// Reads the keeper's lines, so that a wait for one can have a limit.
fn lines(output: ChildStdout) -> Receiver<String> {
    let (sender, lines) = channel();
    thread::spawn(move || {
        let lines = BufReader::new(output).lines().map_while(Result::ok);
        let _ = lines.map(|line| sender.send(line)).find(Result::is_err);
    });
    lines
}

/// The program, as `tools/nats-server` finds it.
fn program() -> Option<PathBuf> {
    if let Some(program) = std::env::var_os(PROGRAM).map(PathBuf::from) {
        return Some(program).filter(|program| program.is_file());
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2)?;
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join("go/bin/nats-server"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = [["target", "tools", "bin", "nats-server"].iter().fold(root.to_owned(), |path, part| path.join(part))]
        .into_iter()
        .chain(home);
    places.chain(std::env::split_paths(&path).map(|dir| dir.join("nats-server"))).find(|program| is_new(program))
}

/// Whether it is a server with a time to live per message, from 2.11 on.
fn is_new(program: &Path) -> bool {
    let Ok(shown) = Command::new(program).arg("--version").output() else { return false };
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    let version = shown.trim().rsplit('v').next().unwrap_or_default();
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(2), Some(11))
}

impl NatsServer {
    /// One server for all tests of this process that do not stop it. None where NATS is not installed: such a test
    /// prints that it is skipped, and passes.
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<NatsServer>> = OnceLock::new();
        SHARED.get_or_init(|| Self::start("")).as_ref()
    }

    /// A server for one test, with further lines of its configuration, which call its folder `DIR`.
    pub fn start(configuration: &str) -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let Some(program) = program() else {
            println!(
                "nats-server 2.11 or later is not installed (`tools/nats-server --install`): this test is skipped"
            );
            return None;
        };
        let name = format!("guildhall-nats-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let dir = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&dir); // of an earlier process with this id
        fs::create_dir(&dir).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let text = format!(
            "listen: 127.0.0.1:{port}\nserver_name: test\njetstream {{ store_dir: DIR/data, sync_interval: always }}\n\
             {configuration}\n"
        );
        fs::write(dir.join("config"), text.replace("DIR", &dir.display().to_string())).unwrap();
        let mut keeper = Command::new("/bin/sh");
        keeper.args(["-c", KEEPER]).envs([("PROGRAM", &program), ("DIR", &dir)]);
        let mut shell = keeper.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, answers) = (shell.stdin.take(), lines(shell.stdout.take().unwrap()));
        let server = Self { dir, port, keeper: Mutex::new(Keeper { shell, input, answers }) };
        server.wait_until_ready();
        Some(server)
    }

    fn say(&self, word: &str) {
        let mut keeper = self.keeper.lock().unwrap();
        keeper.input.as_mut().unwrap().write_all(format!("{word}\n").as_bytes()).unwrap();
        let answer = keeper.answers.recv_timeout(KEEPER_MAX);
        assert_eq!(answer.as_deref(), Ok("done"), "the keeper's answer to {word}");
    }

    fn wait_until_ready(&self) {
        let until = Instant::now() + STARTING_MAX;
        let greets = || {
            let mut connection = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
            connection.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
            let mut greeting = [0; 4];
            connection.read_exact(&mut greeting).ok()?;
            (greeting == *b"INFO").then_some(())
        };
        while greets().is_none() {
            let log = || fs::read_to_string(self.dir.join("log")).unwrap_or_default();
            assert!(Instant::now() < until, "the server does not start: {}", log());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Kills the server.
    pub fn crash(&self) {
        self.say("crash");
    }

    /// Starts the server after a crash, on the same port and data.
    pub fn start_again(&self) {
        self.say("start");
        self.wait_until_ready();
    }

    /// Stops all threads of its process without ending it: connections stay, the server answers nothing.
    pub fn pause(&self) {
        self.say("pause");
    }

    pub fn resume(&self) {
        self.say("resume");
    }

    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// A prefix of names that no other test of this process uses.
    pub fn new_prefix() -> String {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        format!("test-{}", COUNT.fetch_add(1, Ordering::Relaxed))
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        let mut keeper = self.keeper.lock().unwrap();
        keeper.input = None;
        let until = Instant::now() + KEEPER_MAX;
        while matches!(keeper.shell.try_wait(), Ok(None)) {
            if Instant::now() > until {
                eprintln!("the server of {} does not end", self.dir.display());
                let _ = keeper.shell.kill();
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}
