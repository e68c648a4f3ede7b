//! Background load: concurrent work on all members: reading a snapshot, counting the recipients of `@everyone`, and a
//! search by name. Each restarts when it has finished.
//!
//! Owns        a thread for each of them.
//! Invariants  all three run whenever an operation is timed, except while one restarts.

use super::{GUILD, Harness, SYSTEM, session};
use crate::crowd;
use anyhow::{Context, Result, bail};
use guildhall_guild::{Command, Job, JobDone, Reply};
use guildhall_guild_protocol::{MemberTable, ToGuild};
use guildhall_model::to_gateway::{MemberQuery, RequestGuildMembers};
use std::{
    sync::mpsc::{self, Receiver, Sender},
    thread,
};

/// No member's name begins like this, so a search visits all.
const NOBODY: &str = "zzz";

/// One of the three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    Snapshot,
    Audience,
    Search,
}

enum Work {
    Read(MemberTable),
    Job(Task, Job),
}

enum Done {
    Read,
    Job(Task, JobDone),
}

/// See the module.
pub struct BackgroundLoad {
    work: [Sender<Work>; 3],
    done: Receiver<Done>,
}

impl BackgroundLoad {
    fn start() -> Result<Self> {
        let (done_sender, done) = mpsc::channel();
        let begin = |name: &str| -> Result<Sender<Work>> {
            let ((work, inbox), done_sender) = (mpsc::channel(), done_sender.clone());
            thread::Builder::new().name(name.to_owned()).spawn(move || run(&inbox, &done_sender))?;
            Ok(work)
        };
        Ok(Self { work: [begin("snapshot")?, begin("audience")?, begin("search")?], done })
    }

    fn submit(&self, task: Task, work: Work) -> Result<()> {
        self.work[task as usize].send(work).ok().context("a thread of concurrent work ended")
    }
}

fn run(inbox: &Receiver<Work>, done_sender: &Sender<Done>) {
    while let Ok(work) = inbox.recv() {
        let done = match work {
            Work::Read(members) => {
                let newest = members.iter().map(|entry| entry.member.joined_at).max();
                // Otherwise the compiler could remove the unused result.
                std::hint::black_box(newest);
                Done::Read
            }
            Work::Job(task, job) => Done::Job(task, job.run()),
        };
        if done_sender.send(done).is_err() {
            return;
        }
    }
}

impl Harness {
    /// Starts the concurrent work on all members.
    pub fn begin_background_load(&mut self) -> Result<()> {
        self.run_until_idle()?;
        self.background_load = Some(BackgroundLoad::start()?);
        [Task::Snapshot, Task::Audience, Task::Search].into_iter().try_for_each(|task| self.begin_task(task))
    }

    /// Waits until all of it has finished; nothing restarts.
    pub fn end_background_load(&mut self) -> Result<()> {
        let Some(BackgroundLoad { work, done }) = self.background_load.take() else { return Ok(()) };
        drop(work);
        for done in done {
            if let Done::Job(_, done) = done {
                self.job_done(done)?;
            }
        }
        Ok(())
    }

    /// Handles results and restarts the work. Not while an operation is timed.
    pub fn continue_background_load(&mut self) -> Result<()> {
        while let Some(done) = self.background_load.as_ref().and_then(|load| load.done.try_recv().ok()) {
            let task = match done {
                Done::Read => Task::Snapshot,
                Done::Job(task, done) => {
                    let took = self.job_done(done)?;
                    self.job_ends_us.push(took.as_secs_f64() * 1e6);
                    task
                }
            };
            self.background_rounds += 1;
            self.begin_task(task)?;
        }
        Ok(())
    }

    fn begin_task(&mut self, task: Task) -> Result<()> {
        // Outputs of an operation are not ours.
        let before = std::mem::take(&mut self.jobs);
        let work = match task {
            Task::Snapshot => match self.command(SYSTEM, &Command::ReadMembers)? {
                (_, Reply::Members(members)) => Work::Read(members),
                (_, other) => bail!("the members were answered with {other:?}"),
            },
            Task::Audience => {
                self.later(SYSTEM, &Command::ReadAudience(crowd::insiders_channel()))?;
                Work::Job(task, self.jobs.pop().context("no job for an audience")?)
            }
            Task::Search => {
                self.relay(ToGuild::RequestMembers { session: session(0), request: Box::new(by_name(NOBODY)) })?;
                Work::Job(task, self.jobs.pop().context("no job for a search")?)
            }
        };
        self.jobs = before;
        self.background_load.as_ref().map_or(Ok(()), |load| load.submit(task, work))
    }
}

/// Op 8, by the beginning of a name.
pub fn by_name(prefix: &str) -> RequestGuildMembers {
    RequestGuildMembers {
        guild_ids: vec![GUILD],
        query: MemberQuery::Prefix { prefix: prefix.to_owned(), limit: 100 },
        presences: true,
        nonce: Some("bench".to_owned()),
    }
}
