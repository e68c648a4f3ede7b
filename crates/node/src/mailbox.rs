//! Mailbox: inputs that wait for a guild worker, and their permits.
//!
//! Owns        the inputs of one worker in order of arrival, and the reports of its own jobs.
//! Doors       `try_push` for other threads; `report` for the worker's jobs; `take` and `free_places` for the worker.
//! Invariants  B1 an input holds its permit from `try_push` until the worker has passed it to its guild or answered it.
//!             So inputs that wait in guilds (loading, committing) count too. (test `b1_*`) B2 one guild holds at most
//!             half of the permits: if it is stuck, the others continue. (test `b2_*`)
//! Limits      `permits_max`. When full, `try_push` returns the input at once, and the caller answers its own caller.
//!             Reports need no permits: each belongs to one job, and the worker bounds jobs. `LOOKS_MAX` looks: past it
//!             they are dropped, and the caller gets no answer.

use crate::{guild_account::LoadedGuilds, guild_host::HandoffStep, jobs::Report, request_trace::CommandTrace};
use guildhall_guild::{Actor, Command, NewDirect, NewGuild, Refusal, Reply};
use guildhall_guild_protocol::{RelayId, ToGuild};
use guildhall_model::GuildId;
use std::{
    collections::{HashMap, VecDeque},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::sync::oneshot;

/// Looks that may wait.
const LOOKS_MAX: usize = 16;

/// Looks at the guilds of a worker, on its thread.
pub(crate) type InspectFn = Box<dyn FnOnce(&LoadedGuilds<'_>) + Send>;

pub(crate) type Answer = Result<Reply, Refusal>;

/// A command and the sender of its answer.
pub(crate) struct CommandRequest {
    pub(crate) actor: Actor,
    pub(crate) command: Command,
    pub(crate) answer: oneshot::Sender<Answer>,
    /// Messages that were loaded for it so far.
    pub(crate) loads_count: u8,
    /// None: its request has no trace.
    pub(crate) trace: Option<Box<CommandTrace>>,
}

/// Object to create if it does not exist.
pub(crate) enum CreateRequest {
    Guild(Box<NewGuild>),
    Direct(NewDirect),
}

/// Input of a guild.
pub(crate) enum Input {
    Command(CommandRequest),
    Create(CreateRequest, oneshot::Sender<Answer>),
    Relay(ToGuild),
    /// A relay of another node begins again: its sessions are forgotten, and a snapshot resets them.
    Reset {
        relay: RelayId,
        epoch: u32,
    },
    /// Another node serves the guild from now on. Needs no permit.
    Release,
    /// A step of the guild's hand-off. Needs no permit.
    Handoff(HandoffStep),
}

/// Input of a worker.
pub(crate) enum WorkerInput {
    OfGuild(GuildId, Input),
    /// All guilds forget the relays of this node, with their sessions. Needs no permit.
    ForgetRelays(u8),
}

pub(crate) struct Mailbox {
    state: Mutex<State>,
    wake: Condvar,
    permits_max: usize,
}

#[derive(Default)]
struct State {
    inputs: VecDeque<WorkerInput>,
    reports: Vec<Report>,
    looks: Vec<InspectFn>,
    /// Arrival of the first input or report.
    oldest_since: Option<Instant>,
    /// Places taken: those of `inputs`, and of inputs that wait inside the worker.
    taken: HashMap<GuildId, usize>,
    taken_count: usize,
    closed: bool,
    poked: bool,
    /// The worker is waiting: only then a wake-up is needed.
    asleep: bool,
}

/// Result of `take`.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) inputs: VecDeque<WorkerInput>,
    pub(crate) reports: Vec<Report>,
    pub(crate) looks: Vec<InspectFn>,
    /// Arrival of the first input or report; none if there are none.
    pub(crate) oldest_since: Option<Instant>,
    /// No input will come any more.
    pub(crate) closed: bool,
}

impl Mailbox {
    pub(crate) fn new(permits_max: usize) -> Self {
        Self { state: Mutex::default(), wake: Condvar::new(), permits_max: permits_max.max(2) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self, mut state: MutexGuard<'_, State>) {
        if std::mem::take(&mut state.asleep) {
            drop(state);
            self.wake.notify_one();
        }
    }

    /// Appends an input. Returns it if there is no permit or the worker is shutting down.
    pub(crate) fn try_push(&self, guild_id: GuildId, input: Input) -> Result<(), Input> {
        let mut state = self.lock();
        let taken = state.taken.get(&guild_id).copied().unwrap_or(0);
        if state.closed || state.taken_count >= self.permits_max || taken >= self.permits_max / 2 {
            return Err(input);
        }
        state.taken.insert(guild_id, taken + 1);
        state.taken_count += 1;
        state.oldest_since.get_or_insert_with(Instant::now);
        state.inputs.push_back(WorkerInput::OfGuild(guild_id, input));
        self.wake(state);
        Ok(())
    }

    /// The worker drops a guild from memory, after the inputs that have arrived.
    pub(crate) fn release_guild(&self, guild_id: GuildId) {
        self.push_control(WorkerInput::OfGuild(guild_id, Input::Release));
    }

    /// The worker's guilds forget the relays of a node, after the inputs that have arrived.
    pub(crate) fn forget_relays(&self, node: u8) {
        self.push_control(WorkerInput::ForgetRelays(node));
    }

    /// The worker takes a step of a guild's hand-off, after the inputs that have arrived.
    pub(crate) fn hand_over(&self, guild_id: GuildId, step: HandoffStep) {
        self.push_control(WorkerInput::OfGuild(guild_id, Input::Handoff(step)));
    }

    fn push_control(&self, control: WorkerInput) {
        let mut state = self.lock();
        if !state.closed {
            state.inputs.push_back(control);
            self.wake(state);
        }
    }

    pub(crate) fn report(&self, report: Report) {
        let mut state = self.lock();
        state.oldest_since.get_or_insert_with(Instant::now);
        state.reports.push(report);
        self.wake(state);
    }

    /// Runs `look` on the worker's thread, after the inputs that have arrived. The receiver fails if the worker has
    /// ended, or too many looks wait.
    pub(crate) fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&LoadedGuilds<'_>) -> T + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.lock();
        if !state.closed && state.looks.len() < LOOKS_MAX {
            state.looks.push(Box::new(move |guilds: &LoadedGuilds<'_>| {
                // The caller may have stopped waiting.
                let _ = sender.send(look(guilds));
            }));
            self.wake(state);
        }
        receiver
    }

    /// Makes the worker read the clock.
    pub(crate) fn poke(&self) {
        let mut state = self.lock();
        state.poked = true;
        self.wake(state);
    }

    /// Permits in use: inputs that wait in the mailbox or in the worker.
    pub(crate) fn taken_count(&self) -> usize {
        self.lock().taken_count
    }

    /// Permits in use by one guild.
    pub(crate) fn taken_by(&self, guild_id: GuildId) -> usize {
        self.lock().taken.get(&guild_id).copied().unwrap_or(0)
    }

    /// Stops accepting inputs.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        self.wake(state);
    }

    /// One input of each listed guild was handled: frees its place. Empties the list.
    pub(crate) fn free_places(&self, guild_ids: &mut Vec<GuildId>) {
        if guild_ids.is_empty() {
            return;
        }
        let mut state = self.lock();
        state.taken_count -= guild_ids.len();
        for guild_id in guild_ids.drain(..) {
            let taken = state.taken.get_mut(&guild_id).expect("a place that is freed was taken");
            *taken -= 1;
            if *taken == 0 {
                state.taken.remove(&guild_id);
            }
        }
    }

    /// Returns all waiting inputs. If there are none, waits for one for at most `patience`, or without a limit. A
    /// closed mailbox does not wait for more.
    pub(crate) fn take(&self, patience: Option<Duration>) -> Batch {
        self.take_unless(patience, |state| state.closed)
    }

    /// As `take`, by a worker that knows that the mailbox is closed: it waits for reports of its jobs.
    pub(crate) fn take_after_close(&self, patience: Option<Duration>) -> Batch {
        self.take_unless(patience, |_| false)
    }

    fn take_unless(&self, patience: Option<Duration>, is_ended: impl Fn(&State) -> bool) -> Batch {
        let mut state = self.lock();
        let idle = |state: &State| {
            let is_empty = state.inputs.is_empty() && state.reports.is_empty() && state.looks.is_empty();
            is_empty && !state.poked && !is_ended(state)
        };
        // After a spurious wake-up the worker returns at once and comes back.
        if idle(&state) && patience != Some(Duration::ZERO) {
            state.asleep = true;
            state = match patience {
                Some(patience) => self.wake.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner).0,
                None => self.wake.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
            state.asleep = false;
        }
        state.poked = false;
        Batch {
            inputs: std::mem::take(&mut state.inputs),
            reports: std::mem::take(&mut state.reports),
            looks: std::mem::take(&mut state.looks),
            oldest_since: state.oldest_since.take(),
            closed: state.closed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(mailbox: &Mailbox, guild: u64) -> bool {
        let (answer, _) = oneshot::channel();
        let (actor, command) = (Actor::System, Command::ReadGuild);
        let request = CommandRequest { actor, command, answer, loads_count: 0, trace: None };
        mailbox.try_push(GuildId::new(guild), Input::Command(request)).is_ok()
    }

    #[test]
    fn b1_a_place_is_taken_until_it_is_freed() {
        let mailbox = Mailbox::new(4);
        assert!([1, 2, 3, 4].into_iter().all(|guild| push(&mailbox, guild)));
        assert!(!push(&mailbox, 5));
        assert_eq!(mailbox.take(None).inputs.len(), 4);
        assert!(!push(&mailbox, 5), "taken out is not handled");
        let mut done = vec![GuildId::new(2)];
        mailbox.free_places(&mut done);
        assert!(done.is_empty());
        assert!(push(&mailbox, 5));
        assert!(!push(&mailbox, 2));
    }

    #[test]
    fn b2_one_guild_takes_at_most_half() {
        let mailbox = Mailbox::new(10);
        assert_eq!((0..10).filter(|_| push(&mailbox, 1)).count(), 5);
        assert_eq!((0..10).filter(|_| push(&mailbox, 2)).count(), 5);
    }

    #[test]
    fn nothing_gets_into_a_closed_mailbox() {
        let mailbox = Mailbox::new(10);
        assert!(push(&mailbox, 1));
        mailbox.close();
        assert!(!push(&mailbox, 1));
        let batch = mailbox.take(None);
        assert!(batch.closed);
        assert_eq!(batch.inputs.len(), 1, "accepted inputs are still handled");
    }
}
