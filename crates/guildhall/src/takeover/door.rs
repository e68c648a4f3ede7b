//! Door: the socket of the process that runs, where the next one reports.
//!
//! Owns        `takeover.sock`, mode 0600; the check of its clients; one takeover at a time.
//! Not here    what the process passes on, and in which order it ends: `assemble::running`.

use super::{
    Answer, BATCH_BYTES, BATCH_CONNS, CONN_BYTES_MAX, FromNew, FromOld, GUILD_PART_BYTES_MAX, Hello, MESSAGE_MAX,
    Outcome, READY_MAX, SERVING_MAX, Served, VERSION, Welcome, channel::Channel, program, socket_path,
};
use guildhall_model::GuildId;
use guildhall_net::{PassedConn, PassedState};
use guildhall_node::GuildSink;
use std::{
    fs,
    io::{self, ErrorKind},
    net::SocketAddr,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::fs::PermissionsExt as _,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{net::UnixListener, sync::mpsc, task::JoinHandle};

/// Interval at which a process that was started is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// The listeners that go to the next process.
#[derive(Debug)]
pub struct Listeners {
    pub listen: SocketAddr,
    pub listener: OwnedFd,
    pub admin: Option<(SocketAddr, OwnedFd)>,
}

/// See the module. The socket is removed when it is dropped, unless the next process has it.
pub struct Door {
    path: PathBuf,
    task: JoinHandle<()>,
    shared: Arc<Shared>,
}

struct Shared {
    listeners: Listeners,
    /// Why no process takes over this one.
    refusal: Option<String>,
    /// A process is about to take over.
    is_busy: AtomicBool,
    /// The `guildhall upgrade` that waits for the result.
    upgrade: Mutex<Option<Channel>>,
}

/// A process that is ready to take over.
pub struct Successor {
    channel: Channel,
    pub pid: u32,
    pub program: String,
    _busy: Busy,
}

impl Listeners {
    fn try_clone(&self) -> io::Result<Self> {
        let admin = self.admin.as_ref().map(|(listen, fd)| Ok::<_, io::Error>((*listen, fd.try_clone()?)));
        Ok(Self { listen: self.listen, listener: self.listener.try_clone()?, admin: admin.transpose()? })
    }
}

impl Door {
    /// Opens the socket in `dir`. Processes that are ready to take over follow; with a `refusal`, none does, and each
    /// is sent this reason. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The socket cannot be created: the path is too long, or the file system has no sockets.
    pub fn open(
        dir: &Path,
        listeners: &Listeners,
        refusal: Option<String>,
    ) -> io::Result<(Self, mpsc::Receiver<Successor>)> {
        let path = socket_path(dir);
        // Of an earlier process: the data directory is ours.
        let _ = fs::remove_file(&path);
        let listener = UnixListener::bind(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        let listeners = listeners.try_clone()?;
        let shared =
            Arc::new(Shared { listeners, refusal, is_busy: AtomicBool::new(false), upgrade: Mutex::new(None) });
        let (sender, successors) = mpsc::channel(1);
        let task = tokio::spawn(answer_all(listener, shared.clone(), sender));
        Ok((Self { path, task, shared }, successors))
    }

    /// The next process has a socket of its own from now on.
    pub fn leave(mut self) {
        self.path = PathBuf::new();
    }

    /// Reports the result to the `guildhall upgrade` that waits for it.
    pub fn report(&self, served: Served) {
        self.shared.report(&Outcome::Done(served));
    }

    /// The same for a takeover that failed after the guilds had ended.
    pub fn report_failure(&self, reason: &str) {
        self.shared.report(&Outcome::Failed { reason: reason.to_owned() });
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.task.abort();
        if !self.path.as_os_str().is_empty() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

async fn answer_all(listener: UnixListener, shared: Arc<Shared>, successors: mpsc::Sender<Successor>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(CHECK_INTERVAL).await;
            continue;
        };
        let own = rustix::process::geteuid().as_raw();
        match stream.peer_cred() {
            Ok(peer) if peer.uid() == own => {}
            peer => {
                let uid = peer.ok().map(|peer| peer.uid());
                tracing::warn!(uid, "a process of another user cannot take over");
                continue;
            }
        }
        let (shared, successors) = (shared.clone(), successors.clone());
        tokio::task::spawn_blocking(move || {
            let answered =
                stream.into_std().and_then(Channel::new).and_then(|channel| answer(channel, &shared, &successors));
            if let Err(error) = answered {
                tracing::warn!(%error, "a process that wanted to take over has gone; this one goes on");
            }
        });
    }
}

fn answer(mut channel: Channel, shared: &Arc<Shared>, successors: &mpsc::Sender<Successor>) -> io::Result<()> {
    let (hello, _) = channel.receive::<Hello>(MESSAGE_MAX)?;
    let refuse = |channel: &mut Channel, reason: String| {
        tracing::warn!(pid = hello.pid, program = hello.program, reason, "a takeover was refused");
        channel.send(&Answer::Refused { reason }, &[])
    };
    if hello.guildhall_takeover != VERSION {
        let reason = format!(
            "it speaks version {VERSION} of the takeover (guildhall {}), not {} (guildhall {}): restart the node",
            program(),
            hello.guildhall_takeover,
            hello.program
        );
        return refuse(&mut channel, reason);
    }
    if let Some(reason) = &shared.refusal {
        return refuse(&mut channel, reason.clone());
    }
    if let Some(program) = &hello.start {
        if shared.is_upgrading() {
            return refuse(&mut channel, "another upgrade is under way".to_owned());
        }
        return match start(program) {
            Ok(child) => {
                channel.send(&Answer::Started { pid: child.id() }, &[])?;
                shared.await_start(channel, child);
                Ok(())
            }
            Err(error) => refuse(&mut channel, format!("{} cannot be started: {error}", program.display())),
        };
    }
    let Some(busy) = Busy::begin(shared) else {
        return refuse(&mut channel, "another process is about to take over".to_owned());
    };
    let Listeners { listen, listener, admin } = &shared.listeners;
    let welcome = Welcome {
        program: program(),
        pid: std::process::id(),
        listen: *listen,
        admin_listen: admin.as_ref().map(|(listen, _)| *listen),
    };
    let mut fds = vec![listener.as_fd()];
    fds.extend(admin.as_ref().map(|(_, fd)| fd.as_fd()));
    channel.send(&Answer::Welcome(welcome), &fds)?;
    tracing::info!(pid = hello.pid, program = hello.program, "a process is about to take over");
    match channel.receive::<FromNew>(READY_MAX)? {
        (FromNew::Ready, _) => {}
        _ => return Err(ErrorKind::InvalidData.into()),
    }
    let successor = Successor { channel, pid: hello.pid, program: hello.program, _busy: busy };
    // A node that stops in the meantime does not need it.
    successors.blocking_send(successor).map_err(|_| io::Error::from(ErrorKind::NotConnected))?;
    Ok(())
}

/// Starts `program` as this process was started, to take over.
fn start(program: &Path) -> io::Result<Child> {
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1).filter(|arg| arg != "--takeover")).arg("--takeover");
    tracing::info!(program = %program.display(), "starting a process that takes over");
    command.stdin(Stdio::null()).spawn()
}

/// The process that takes over, while it gets the guilds of this one. Workers send at the same time.
pub struct GuildsPassed(Mutex<Passing>);

struct Passing {
    /// None once the guilds had their time.
    successor: Option<Successor>,
    has_failed: bool,
}

impl GuildsPassed {
    #[must_use]
    pub fn to(successor: Successor) -> Self {
        Self(Mutex::new(Passing { successor: Some(successor), has_failed: false }))
    }

    /// Ends it: no guild is sent any more. None: it has ended.
    pub fn end(&self) -> Option<Successor> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).successor.take()
    }
}

impl GuildSink for GuildsPassed {
    fn take_part(&self, guild_id: GuildId, part: Vec<u8>) -> bool {
        if part.len() > GUILD_PART_BYTES_MAX {
            return false;
        }
        let mut passing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Passing { successor: Some(successor), has_failed: has_failed @ false } = &mut *passing else {
            return false;
        };
        let channel = &mut successor.channel;
        let sent = channel.send(&FromOld::Guild { guild_id }, &[]).and_then(|()| channel.send_bytes(&part, &[]));
        // The stream may end within a message: nothing else can follow.
        *has_failed = sent.is_err();
        sent.inspect_err(|error| tracing::warn!(%error, "the process that takes over gets no further guild")).is_ok()
    }
}

/// The only takeover, until it is dropped.
struct Busy(Arc<Shared>);

impl Busy {
    fn begin(shared: &Arc<Shared>) -> Option<Self> {
        let is_first = !shared.is_busy.swap(true, Ordering::AcqRel);
        is_first.then(|| Self(shared.clone()))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.is_busy.store(false, Ordering::Release);
    }
}

impl Shared {
    fn report(&self, outcome: &Outcome) {
        let upgrade = self.upgrade.lock().unwrap_or_else(PoisonError::into_inner).take();
        // The command may have ended.
        upgrade.into_iter().for_each(|mut channel| drop(channel.send(outcome, &[])));
    }

    fn is_upgrading(&self) -> bool {
        self.upgrade.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Reports to `guildhall upgrade` when the process has ended before it took over.
    fn await_start(&self, channel: Channel, mut child: Child) {
        *self.upgrade.lock().unwrap_or_else(PoisonError::into_inner) = Some(channel);
        // Until the result was reported.
        while self.is_upgrading() {
            match child.try_wait() {
                Ok(None) => std::thread::sleep(CHECK_INTERVAL),
                Ok(Some(status)) => {
                    let reason =
                        format!("the new process ended before it took over ({status}); the reason is in its log");
                    tracing::warn!(reason, "the upgrade failed; this process goes on");
                    return self.report(&Outcome::Failed { reason });
                }
                Err(error) => return self.report(&Outcome::Failed { reason: error.to_string() }),
            }
        }
    }
}

impl Successor {
    /// Whether the process is there and waits.
    pub fn is_waiting(&self) -> bool {
        self.channel.is_open()
    }

    /// This process continues.
    pub fn abort(mut self, reason: &str) {
        // It may have ended.
        let _ = self.channel.send(&FromOld::Aborted { reason: reason.to_owned() }, &[]);
    }

    /// Passes connections on, and returns when the process has them all. Blocks.
    ///
    /// # Errors
    /// The process has ended, or does not take them in time. The sockets are still open here.
    pub fn pass(&mut self, conns: &[PassedConn], frozen_at_ns: u64) -> io::Result<()> {
        let (mut batch, mut bytes): (Vec<&PassedConn>, usize) = (Vec::new(), 0);
        let mut count = 0;
        for conn in conns {
            let size = state_bytes(&conn.state);
            if size > CONN_BYTES_MAX {
                continue;
            }
            if batch.len() == BATCH_CONNS || bytes + size > BATCH_BYTES && !batch.is_empty() {
                self.send_batch(&batch)?;
                batch.clear();
                bytes = 0;
            }
            batch.push(conn);
            (bytes, count) = (bytes + size, count + 1);
        }
        if !batch.is_empty() {
            self.send_batch(&batch)?;
        }
        self.channel.send(&FromOld::End { conns: count, frozen_at_ns }, &[])?;
        match self.channel.receive::<FromNew>(MESSAGE_MAX)? {
            (FromNew::Received, _) => Ok(()),
            _ => Err(ErrorKind::InvalidData.into()),
        }
    }

    fn send_batch(&mut self, batch: &[&PassedConn]) -> io::Result<()> {
        let states: Vec<PassedState> = batch.iter().map(|conn| conn.state.clone()).collect();
        let fds: Vec<_> = batch.iter().map(|conn| conn.stream.as_fd()).collect();
        self.channel.send(&FromOld::Conns(states), &fds)
    }

    /// Waits until the process serves. Blocks.
    ///
    /// # Errors
    /// It has ended, or does not serve in time.
    pub fn served(&mut self) -> io::Result<Served> {
        match self.channel.receive::<FromNew>(SERVING_MAX)? {
            (FromNew::Serving(served), _) => Ok(served),
            _ => Err(ErrorKind::InvalidData.into()),
        }
    }
}

fn state_bytes(state: &PassedState) -> usize {
    let conn = &state.conn;
    conn.unsent.len() + conn.unfinished.len() + conn.history.len() + 256
}
