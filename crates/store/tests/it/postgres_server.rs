//! PostgreSQL for tests: a server of their own, as a user that is not root, on a socket in a folder of its own and on a
//! free port. It ends with the process that started it, however that ends.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    os::unix::fs::{MetadataExt, PermissionsExt},
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

/// Folder of PostgreSQL's programs, where it is not found by itself.
const BIN: &str = "GUILDHALL_TEST_POSTGRES_BIN";
const STARTING_MAX: Duration = Duration::from_secs(60);
/// Longer than the keeper takes for a word, or for the end.
const KEEPER_MAX: Duration = Duration::from_secs(30);
/// Account of the database, and its password on the port.
pub const USER: &str = "guildhall";
pub const PASSWORD: &str = "a/b:c@d";

/// Obeys words on its standard input, and stops the server at its end.
const KEEPER: &str = r#"
start() {
    "$BIN/postgres" -D "$DIR/data" -k "$DIR" -p "$PORT" -c listen_addresses=127.0.0.1 -c fsync=off \
        -c full_page_writes=off -c max_connections=200 "$@" >> "$DIR/log" 2>&1 &
    server=$!
}
start "$@"
while read -r word; do
    case $word in
        crash) kill -QUIT $server; wait $server;;
        start) start "$@";;
    esac
    echo done
done
kill -QUIT $server
wait $server
rm -rf "$DIR"
"#;

/// A running server.
pub struct PostgresServer {
    dir: PathBuf,
    port: u16,
    keeper: Mutex<Keeper>,
}

struct Keeper {
    shell: Child,
    /// None: it is to stop.
    input: Option<ChildStdin>,
    /// Lines of its output.
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

/// Waits for the end of a process; whether it came in time.
fn has_ended(child: &mut Child, within: Duration) -> bool {
    let until = Instant::now() + within;
    while matches!(child.try_wait(), Ok(None)) {
        if Instant::now() > until {
            let _ = child.kill();
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    true
}

/// Folder of the newest PostgreSQL on this machine.
fn programs() -> Option<PathBuf> {
    let is_complete = |dir: &PathBuf| ["initdb", "postgres", "psql"].iter().all(|name| dir.join(name).is_file());
    if let Some(dir) = std::env::var_os(BIN).map(PathBuf::from) {
        return Some(dir).filter(is_complete);
    }
    let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = debian.map(|entry| entry.path().join("bin")).filter(is_complete).collect();
    found.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    found.pop().or_else(|| std::env::split_paths(&path).find(is_complete))
}

/// A user that may run a server, if this one is root: PostgreSQL refuses that.
fn unprivileged() -> Option<(u32, u32)> {
    if fs::metadata("/proc/self").map_or(true, |process| process.uid() != 0) {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let ids = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2).map(str::parse);
        Some((fields.next()?.ok()?, fields.next()?.ok()?))
    };
    Some(ids("postgres").or_else(|| ids("nobody")).expect("/etc/passwd has `postgres` or `nobody`"))
}

fn command(program: &Path, user: Option<(u32, u32)>) -> Command {
    let mut command = match user {
        Some((user, group)) => {
            let mut command = Command::new("setpriv");
            command.args([format!("--reuid={user}"), format!("--regid={group}"), "--clear-groups".to_owned()]);
            command.arg(program);
            command
        }
        None => Command::new(program),
    };
    command.current_dir("/");
    command
}

impl PostgresServer {
    /// One server for all tests of this process. None where PostgreSQL is not installed: the tests print that and pass.
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<PostgresServer>> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(&[])).as_ref()
    }

    /// A server for one test, with further arguments of `postgres`.
    pub fn start(arguments: &[&str]) -> Option<Self> {
        Self::start_with(&[], arguments)
    }

    /// The same with copies of files in the server's folder, which arguments call `DIR`.
    pub fn start_with(files: &[&Path], arguments: &[&str]) -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let Some(bin) = programs() else {
            println!("PostgreSQL is not installed: this test is skipped");
            return None;
        };
        let name = format!("guildhall-pg-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        // A short path: that of a socket may have 107 bytes.
        let dir = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&dir); // of an earlier process with this id
        fs::create_dir(&dir).unwrap();
        let user = unprivileged();
        fs::write(dir.join("password"), PASSWORD).unwrap();
        let mut own = vec![dir.clone(), dir.join("password")];
        for file in files {
            let copy = dir.join(file.file_name().unwrap());
            fs::write(&copy, fs::read(file).unwrap()).unwrap();
            fs::set_permissions(&copy, fs::Permissions::from_mode(0o600)).unwrap();
            own.push(copy);
        }
        if let Some((user, group)) = user {
            own.iter().for_each(|path| std::os::unix::fs::chown(path, Some(user), Some(group)).unwrap());
        }
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
        let mut initdb = command(&bin.join("initdb"), user);
        initdb.args(["--auth-local=trust", "--auth-host=scram-sha-256", "--no-sync", "--encoding=UTF8", "--locale=C"]);
        initdb.args(["--username", USER, "--pwfile"]).arg(dir.join("password")).arg("-D").arg(dir.join("data"));
        let log = fs::File::create(dir.join("initdb.log")).unwrap();
        initdb.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let mut made = initdb.spawn().expect("initdb, by setpriv of util-linux where this is root");
        let is_made = has_ended(&mut made, STARTING_MAX) && made.wait().unwrap().success();
        assert!(is_made, "initdb: {}", fs::read_to_string(dir.join("initdb.log")).unwrap_or_default());
        let arguments = arguments.iter().map(|argument| argument.replace("DIR", &dir.display().to_string()));
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut keeper = command(Path::new("/bin/sh"), user);
        keeper.args(["-c", KEEPER, "keeper"]).args(arguments);
        keeper.envs([("BIN", bin.as_path()), ("DIR", &dir)]).env("PORT", port.to_string());
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
        while self.try_sql("postgres", "SELECT 1").is_err() {
            let log = || fs::read_to_string(self.dir.join("log")).unwrap_or_default();
            assert!(Instant::now() < until, "the server does not start: {}", log());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends the server and all connections at once, as a crash does.
    pub fn crash(&self) {
        self.say("crash");
    }

    /// Starts the server after a crash.
    pub fn start_again(&self) {
        self.say("start");
        self.wait_until_ready();
    }

    /// Executes SQL by `psql`, for a minute at most.
    pub fn try_sql(&self, database: &str, sql: &str) -> Result<String, String> {
        let mut psql = Command::new(programs().unwrap().join("psql"));
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", USER, "-d", database, "-c", sql]);
        psql.env("PGCONNECT_TIMEOUT", "10").env("PGOPTIONS", "-c statement_timeout=60s");
        let done = psql.arg("-h").arg(&self.dir).args(["-p", &self.port.to_string()]).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim().to_owned();
        if done.status.success() { Ok(text(done.stdout)) } else { Err(text(done.stderr)) }
    }

    pub fn sql(&self, database: &str, sql: &str) -> String {
        self.try_sql(database, sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// A new, empty database.
    pub fn create_database(&self) -> String {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("test_{}", COUNT.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name}"));
        name
    }

    /// URL of a database, by the socket.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://{USER}@localhost:{}/{database}?host={}", self.port, self.dir.display())
    }

    /// The same by the port, with the password.
    pub fn tcp_url(&self, database: &str) -> String {
        let password = PASSWORD.replace('/', "%2F").replace(':', "%3A").replace('@', "%40");
        format!("postgres://{USER}:{password}@127.0.0.1:{}/{database}", self.port)
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        let keeper = self.keeper.get_mut().unwrap();
        keeper.input = None;
        if !has_ended(&mut keeper.shell, KEEPER_MAX) {
            eprintln!("the server of {} does not end", self.dir.display());
        }
        let _ = fs::remove_dir_all(&self.dir);
    }
}
