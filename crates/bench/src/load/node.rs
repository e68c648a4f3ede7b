//! Node: a server process, and the kernel's figures of it.
//!
//! Owns        the process, its data folder and its log; it ends when this is dropped.
//! Limits      `START_TIMEOUT` to become ready.

use crate::usage;
use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs::{self, File},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

const START_TIMEOUT: Duration = Duration::from_secs(60);
/// The root key of the backend API, for a server that lives as long as the bench.
const KEY: &str = "bench-root-key-of-a-server-that-ends-with-the-bench";

/// See the module.
pub struct Node {
    child: Child,
    pub addr: SocketAddr,
}

/// A port that is free now.
pub fn free_addr() -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").context("looking for a free port")?;
    Ok(listener.local_addr()?)
}

/// The shipped program, which is built into the same folder as this one.
pub fn server_program() -> Result<PathBuf> {
    let program = std::env::current_exe().context("finding this program")?.with_file_name("guildhall");
    ensure!(program.exists(), "there is no {}: run make build-bench", program.display());
    Ok(program)
}

impl Node {
    /// Starts `guildhall serve` on the state in `dir`, and waits until it is ready. Its log is appended to `dir/log`.
    pub fn start(dir: &Path, addr: SocketAddr, settings: &[String]) -> Result<Self> {
        Self::start_program(&server_program()?, dir, addr, settings)
    }

    /// Starts a process that takes over the connections of the one that runs on `dir`. That one may answer for a while.
    pub fn take_over(dir: &Path, addr: SocketAddr, settings: &[String]) -> Result<Self> {
        Self::start_with(&server_program()?, dir, addr, settings, &["--takeover"])
    }

    /// The same, of another build of the server.
    pub fn start_program(program: &Path, dir: &Path, addr: SocketAddr, settings: &[String]) -> Result<Self> {
        Self::start_with(program, dir, addr, settings, &[])
    }

    fn start_with(
        program: &Path,
        dir: &Path,
        addr: SocketAddr,
        settings: &[String],
        arguments: &[&str],
    ) -> Result<Self> {
        let log = File::options().create(true).append(true).open(dir.join("log")).context("making the server's log")?;
        let key_file = dir.join("key");
        fs::write(&key_file, KEY).context("writing the server's key")?;
        let mut command = Command::new(program);
        // Nothing of the environment or the current folder is the bench's business.
        let ours = std::env::vars_os().map(|(name, _)| name).filter(|n| n.to_string_lossy().starts_with("GUILDHALL"));
        for name in ours {
            command.env_remove(name);
        }
        command.current_dir(dir).args(["serve", "--listen", &addr.to_string(), "--data"]).arg(dir.join("data"));
        command.arg("--set").arg(format!("auth.admin_key_file={}", key_file.display()));
        for setting in settings {
            command.args(["--set", setting]);
        }
        command.args(arguments);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        let mut node = Self { child: child.context("starting the server")?, addr };
        let deadline = Instant::now() + START_TIMEOUT;
        while !node.is_ready() {
            if let Some(status) = node.child.try_wait()? {
                bail!("the server ended: {status}\n{}", fs::read_to_string(dir.join("log")).unwrap_or_default());
            }
            ensure!(Instant::now() < deadline, "the server was not ready in time");
            thread::sleep(Duration::from_millis(10));
        }
        Ok(node)
    }

    fn is_ready(&self) -> bool {
        use std::io::{Read as _, Write as _};
        let ask = || -> std::io::Result<Vec<u8>> {
            let mut stream = TcpStream::connect(self.addr)?;
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer)?;
            Ok(answer)
        };
        ask().is_ok_and(|answer| answer.starts_with(b"HTTP/1.1 200"))
    }

    /// The root key of its backend API.
    pub fn key(&self) -> &'static str {
        KEY
    }

    /// Sends SIGTERM.
    pub fn ask_to_end(&self) -> Result<()> {
        let pid = Pid::from_raw(self.child.id() as i32).context("the server's process id")?;
        kill_process(pid, Signal::TERM).context("sending SIGTERM")
    }

    /// Its exit code, if it has ended.
    pub fn has_ended(&mut self) -> Result<Option<Option<i32>>> {
        Ok(self.child.try_wait()?.map(|status| status.code()))
    }

    /// Resident memory.
    pub fn rss_bytes(&self) -> Result<u64> {
        self.status("VmRSS:")
    }

    /// The most resident memory so far.
    pub fn peak_bytes(&self) -> Result<u64> {
        self.status("VmHWM:")
    }

    /// From now on `peak_bytes` is that since now.
    pub fn forget_peak(&self) -> Result<()> {
        fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5").context("resetting the peak of memory")
    }

    fn status(&self, key: &str) -> Result<u64> {
        usage::status_bytes(self.child.id(), key)
    }

    /// CPU time of all its threads that live.
    pub fn cpu(&self) -> Result<Duration> {
        usage::cpu_of(self.child.id())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
