//! Job queue: waiting and running jobs.
//!
//! Owns        the order of jobs; `handle_job_done` and `handle_job_lost`.
//! Doors       `Guild::enqueue` from code that needs a job; `handle_job_done`, `handle_job_lost` from the driver.
//! Invariants  Q1 every accepted waiter is answered once, with the result or an error, except for sessions that are
//!             gone by then. Q2 a snapshot is taken when its job starts, not while it waits.
//! Limits      `jobs_running_max`, `jobs_waiting_max`, `jobs_per_user_max`. Past them a command is refused as
//!             `Unavailable`, and a session gets an empty answer at once. Exempt are continued bulk changes, at most
//!             `slow_commands_max`, and member lists, once each.
//! Not here    the work of jobs (`job`), the use of results (`requests`, `bulk`).

use crate::{
    command::{Command, Refusal, ReplyValue, Request, request},
    job::{Found, Job, JobDone, JobId, Work},
    machine::Guild,
    outbox::Output,
    state::jobs::{MemberQueryKind, MembersRequest, Waiter},
    turn::Turn,
};
use guildhall_member_list::ListId;
use guildhall_model::UserId;
use guildhall_stdx::Now;
use std::fmt;

/// Objects with at most this many parts are freed without a job.
const DISPOSED_AT_ONCE_MAX: usize = 1_024;

impl Guild {
    /// Whether another job has room. Scans the queue, a few hundred entries at most.
    pub(crate) fn has_room_for_job(&self, user_id: Option<UserId>) -> bool {
        let limits = &self.limits;
        let own = self.queue.all().filter(|waiting| user_id.is_some() && waiting.user_id() == user_id).count();
        self.queue.waiting.len() < limits.jobs_waiting_max && own < limits.jobs_per_user_max
    }

    /// Appends a waiter, whether or not there is room.
    pub(crate) fn enqueue(&mut self, waiting: Waiter) {
        self.queue.waiting.push_back(waiting);
        self.begin_jobs();
    }

    /// Queues the build of a list. It precedes requests, because it serves many.
    pub(crate) fn enqueue_list(&mut self, list: ListId, number: u64) {
        // A queued build of the same list is replaced.
        self.queue.waiting.retain(|waiting| !matches!(waiting, Waiter::List(other, _) if *other == list));
        self.queue.waiting.push_front(Waiter::List(list, number));
        self.begin_jobs();
    }

    fn begin_jobs(&mut self) {
        while self.queue.running.len() < self.limits.jobs_running_max.max(1)
            && let Some(waiting) = self.queue.waiting.pop_front()
        {
            match self.work_for(&waiting) {
                Some(work) => {
                    let id = self.queue.next_id();
                    self.queue.running.insert(id, waiting);
                    self.outbox.push(Output::Job(Job { id, work }));
                }
                None => self.job_failed(waiting, Refusal::UnknownChannel),
            }
        }
    }

    /// None if the waiter has become obsolete.
    fn work_for(&mut self, waiting: &Waiter) -> Option<Work> {
        let members = self.members.snapshot();
        Some(match waiting {
            Waiter::Members(MembersRequest { kind: MemberQueryKind::Named { prefix, limit }, .. })
            | Waiter::Search { prefix, limit, .. } => Work::Search { members, prefix: prefix.clone(), limit: *limit },
            Waiter::Members(MembersRequest { kind: MemberQueryKind::Recent { prefix, after }, .. }) => {
                Work::Recent { members, prefix: prefix.clone(), after: *after }
            }
            Waiter::Count { channel_id, at, .. } | Waiter::Audience { channel_id, at, .. } => {
                let channel = self.structure.channels.get(channel_id)?.clone();
                Work::Audience { members, structure: self.structure.clone(), channel, now: *at }
            }
            Waiter::Bulk(bulk) => bulk.work(members, self.structure.clone()),
            Waiter::List(list, number) => Work::List(Box::new(self.begin_build(*list, *number)?)),
        })
    }

    /// Takes the result of a job, wherever it ran. May start further jobs.
    pub fn handle_job_done(&mut self, now: Now, done: JobDone) {
        self.input(|guild| guild.job_done(now, done));
    }

    fn job_done(&mut self, now: Now, done: JobDone) {
        let Some(waiting) = self.queue.running.remove(&done.id) else { return };
        match (waiting, done.found) {
            (Waiter::Members(request), Found::Members(user_ids)) => self.send_found_members(&request, &user_ids),
            (Waiter::Count { session, channel_id, .. }, Found::Audience(audience)) => {
                self.send_count(now, session, channel_id, audience);
            }
            (Waiter::Search { command, actor, prefix, .. }, Found::Members(user_ids)) => {
                let answer = self.found_members(Turn::new(now, actor), &prefix, &user_ids);
                self.answer::<request::SearchMembers>(command, answer);
            }
            (Waiter::Audience { command, actor, channel_id, .. }, Found::Audience(audience)) => {
                let answer = self.in_channel(Turn::new(now, actor), channel_id).map(|_| audience);
                self.answer::<request::ReadAudience>(command, answer);
            }
            (Waiter::List(..), Found::List(built)) => self.handle_list_built(*built),
            (Waiter::Bulk(bulk), Found::Matches(matches)) => self.bulk_found(now, bulk, matches),
            (waiting, found) => {
                debug_assert!(false, "{waiting:?} was answered with {found:?}");
                self.job_failed(waiting, Refusal::Unavailable);
            }
        }
        self.begin_jobs();
    }

    /// A job was not completed: notifies its waiter.
    pub fn handle_job_lost(&mut self, _now: Now, id: JobId) {
        self.input(|guild| {
            let Some(waiting) = guild.queue.running.remove(&id) else { return };
            guild.job_failed(waiting, Refusal::Unavailable);
            guild.begin_jobs();
        });
    }

    fn job_failed(&mut self, waiting: Waiter, refusal: Refusal) {
        match &waiting {
            Waiter::Members(request) => self.send_found_members(request, &[]),
            // Clients that need the count request it again.
            Waiter::Count { .. } => {}
            Waiter::List(list, number) => self.list_build_lost(*list, *number),
            Waiter::Search { .. } | Waiter::Audience { .. } | Waiter::Bulk(_) => {}
        }
        if let Some(command) = waiting.command() {
            self.refuse(command, refusal);
        }
    }

    /// Frees an object, in a background job if it is large.
    pub(crate) fn dispose(&mut self, size: usize, what: impl fmt::Debug + Send + Sync + 'static) {
        if size > DISPOSED_AT_ONCE_MAX {
            let id = self.queue.next_id();
            self.outbox.push(Output::Job(Job { id, work: Work::Dispose(Box::new(what)) }));
        }
    }

    /// Answers a command later.
    pub(crate) fn answer<R: Request>(&mut self, command: JobId, answer: Result<R::Reply, Refusal>) {
        self.touch();
        self.outbox.push(Output::Answer(command, answer.map(ReplyValue::into_reply)));
    }

    /// Refuses a command later.
    pub(crate) fn refuse(&mut self, command: JobId, refusal: Refusal) {
        self.answer::<Command>(command, Err(refusal));
    }
}
