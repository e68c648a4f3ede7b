//! Servers: the NATS and PostgreSQL servers of the bench, on free ports, with folders of their own.
//!
//! Owns        the processes. They end when these are dropped; a bench that is killed leaves them behind.
//! Limits      `START_TIMEOUT` to answer. Both write to the disk as in production: NATS syncs each write of JetStream.

use super::super::node::free_addr;
use crate::usage::{cpu_of, status_bytes};
use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use std::{
    fs::{self, File},
    net::{SocketAddr, TcpStream},
    os::unix::{fs::chown, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

const START_TIMEOUT: Duration = Duration::from_secs(60);
const END_TIMEOUT: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(20);
/// Connections of all nodes, and of the bench.
const CONNECTIONS_MAX: u32 = 300;
/// Accounts that may run PostgreSQL where the bench runs as root.
const UNPRIVILEGED: [&str; 2] = ["postgres", "nobody"];

/// A process that ends when this is dropped.
struct Process {
    child: Child,
    /// Signal that ends it in order.
    signal: Signal,
}

impl Process {
    fn start(command: &mut Command, log: &Path, signal: Signal) -> Result<Self> {
        let file = File::options().create(true).append(true).open(log)?;
        let child = command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).spawn();
        Ok(Self { child: child.with_context(|| format!("starting {}", command.get_program().display()))?, signal })
    }

    fn wait_until(&mut self, what: &str, log: &Path, mut is_so: impl FnMut() -> bool) -> Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        while !is_so() {
            if let Some(status) = self.child.try_wait()? {
                bail!("{what} ended: {status}\n{}", fs::read_to_string(log).unwrap_or_default());
            }
            ensure!(Instant::now() < deadline, "{what} does not answer");
            thread::sleep(POLL);
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let pid = Pid::from_raw(self.child.id() as i32);
        let _ = pid.map(|pid| kill_process(pid, self.signal));
        let deadline = Instant::now() + END_TIMEOUT;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            thread::sleep(POLL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A NATS server with JetStream.
pub struct Nats {
    process: Process,
    pub addr: SocketAddr,
    /// From `--version`.
    pub version: String,
}

impl Nats {
    pub fn start(dir: &Path) -> Result<Self> {
        let (program, version) = nats_program()?;
        let addr = free_addr()?;
        let config = dir.join("nats.conf");
        let store = dir.join("nats");
        let text =
            format!("listen: \"{addr}\"\njetstream {{ store_dir: \"{}\", sync_interval: always }}\n", store.display());
        fs::write(&config, text).context("writing the configuration of NATS")?;
        let log = dir.join("nats.log");
        let mut process = Process::start(Command::new(program).arg("-c").arg(config), &log, Signal::TERM)?;
        process.wait_until("nats-server", &log, || TcpStream::connect(addr).is_ok())?;
        Ok(Self { process, addr, version })
    }

    pub fn cpu(&self) -> Result<Duration> {
        cpu_of(self.process.child.id())
    }

    pub fn rss_bytes(&self) -> Result<u64> {
        status_bytes(self.process.child.id(), "VmRSS:")
    }
}

/// The program, and its version.
fn nats_program() -> Result<(PathBuf, String)> {
    let named = std::env::var_os("GUILDHALL_NATS_SERVER").map(PathBuf::from);
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join("go/bin/nats-server"));
    let built = std::env::current_exe()?
        .parent()
        .and_then(Path::parent)
        .map(|dir| dir.join("tools").join("bin").join("nats-server"));
    let places = named.into_iter().chain(built).chain(home).chain([PathBuf::from("nats-server")]);
    for program in places {
        let Ok(output) = Command::new(&program).arg("--version").output() else { continue };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let Some(version) = text.rsplit('v').next().map(str::trim) else { continue };
        if is_new(version) {
            return Ok((program, version.to_owned()));
        }
    }
    bail!(
        "there is no nats-server 2.11 or later, neither on the PATH nor in ~/go/bin: `tools/nats-server --install` builds \
         one, or set GUILDHALL_NATS_SERVER"
    )
}

/// Versions before 2.11 have no time to live per message.
fn is_new(version: &str) -> bool {
    let mut parts = version.split('.').map_while(|part| part.parse::<u32>().ok());
    matches!((parts.next(), parts.next()), (Some(major), Some(minor)) if (major, minor) >= (2, 11))
}

/// A PostgreSQL server, with its own durable defaults.
pub struct Postgres {
    process: Process,
    programs: PathBuf,
    addr: SocketAddr,
    /// From `--version`.
    pub version: String,
}

impl Postgres {
    pub fn start(dir: &Path) -> Result<Self> {
        let programs = postgres_programs()?;
        let addr = free_addr()?;
        let folder = dir.join("postgres");
        fs::create_dir(&folder)?;
        let user = unprivileged()?;
        let command = |name: &str| {
            let mut command = Command::new(programs.join(name));
            command.current_dir("/");
            if let Some((uid, gid)) = user {
                command.uid(uid).gid(gid);
            }
            command
        };
        if let Some((uid, gid)) = user {
            chown(&folder, Some(uid), Some(gid)).context("giving the folder to the user of PostgreSQL")?;
        }
        let data = folder.join("data");
        let mut initdb = command("initdb");
        initdb.arg("-D").arg(&data).args(["-U", "guildhall", "--auth=trust", "--encoding=UTF8", "--locale=C"]);
        let made = initdb.output().context("starting initdb")?;
        ensure!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        let log = dir.join("postgres.log");
        let mut postgres = command("postgres");
        postgres.arg("-D").arg(&data).arg("-k").arg(&folder).args(["-p", &addr.port().to_string()]);
        postgres.args(["-c", "listen_addresses=127.0.0.1", "-c", &format!("max_connections={CONNECTIONS_MAX}")]);
        // A fast shutdown.
        let mut process = Process::start(&mut postgres, &log, Signal::INT)?;
        let is_ready = || {
            let mut probe = Command::new(programs.join("psql"));
            probe.args(["-h", "127.0.0.1", "-p", &addr.port().to_string(), "-U", "guildhall", "-c", "", "postgres"]);
            probe.output().is_ok_and(|output| output.status.success())
        };
        process.wait_until("PostgreSQL", &log, is_ready)?;
        let version = Command::new(programs.join("postgres")).arg("--version").output()?;
        let version = String::from_utf8_lossy(&version.stdout).split_whitespace().nth(2).unwrap_or_default().to_owned();
        Ok(Self { process, programs, addr, version })
    }

    /// Makes a database. Returns its URL.
    pub fn create(&self, name: &str) -> Result<String> {
        let port = self.addr.port().to_string();
        let mut psql = Command::new(self.programs.join("psql"));
        psql.args([
            "-h",
            "127.0.0.1",
            "-p",
            &port,
            "-U",
            "guildhall",
            "-c",
            &format!("CREATE DATABASE {name}"),
            "postgres",
        ]);
        let made = psql.output().context("starting psql")?;
        ensure!(made.status.success(), "CREATE DATABASE: {}", String::from_utf8_lossy(&made.stderr));
        Ok(format!("postgres://guildhall@{}/{name}?sslmode=disable", self.addr))
    }

    /// CPU time of the processes that live: those of connections stay as long as the pools of the nodes.
    pub fn cpu(&self) -> Result<Duration> {
        let parent = self.process.child.id();
        let mut total = cpu_of(parent)?;
        for entry in fs::read_dir("/proc")? {
            let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
            // A process may end meanwhile.
            let Ok(text) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
            // pid (name) state parent …
            let ppid = text.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)?.parse::<u32>().ok());
            if ppid == Some(parent) {
                total += cpu_of(pid).unwrap_or_default();
            }
        }
        Ok(total)
    }
}

fn postgres_programs() -> Result<PathBuf> {
    let installed = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().filter_map(Result::ok);
    let mut folders: Vec<PathBuf> = installed.map(|entry| entry.path().join("bin")).collect();
    folders.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = folders.into_iter().rev().chain(std::env::split_paths(&path));
    all.into_iter()
        .find(|folder| folder.join("initdb").is_file() && folder.join("postgres").is_file())
        .context("there is no PostgreSQL server (initdb): install it, like `apt-get install postgresql`")
}

/// User and group for PostgreSQL, which refuses root. None: the own ones.
fn unprivileged() -> Result<Option<(u32, u32)>> {
    if !geteuid().is_root() {
        return Ok(None);
    }
    let accounts = fs::read_to_string("/etc/passwd").context("reading the accounts of the system")?;
    let found = UNPRIVILEGED.iter().find_map(|name| find_account(&accounts, name));
    found.map(Some).context("PostgreSQL refuses root, and there is neither an account `postgres` nor `nobody`")
}

fn find_account(accounts: &str, name: &str) -> Option<(u32, u32)> {
    let line = accounts.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let mut fields = line.split(':').skip(1);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_nats() {
        assert!(["2.11.0", "2.15.2", "3.0.0-beta"].into_iter().all(is_new));
        assert!(!["2.9.10", "1.99.0", "", "dev"].into_iter().any(is_new));
    }

    #[test]
    fn accounts_are_found_by_their_whole_name() {
        let accounts = "root:x:0:0::/:/bin/sh\npostgres2:x:7:8::/:\npostgres:x:101:104:,,,:/var/lib:/bin/bash\n";
        assert_eq!(find_account(accounts, "postgres"), Some((101, 104)));
        assert_eq!(find_account(accounts, "nobody"), None);
    }
}
