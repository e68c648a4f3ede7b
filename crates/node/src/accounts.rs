//! Accounts: what guild workers spend their time on, by message type and by guild.
//!
//! Owns        the numbers of a worker's message types, and `WorkerAccount`.
//! Limits      `GUILDS_MAX` guilds per worker have an account of their own: the busiest, by time that halves every
//!             `HALF_LIFE`.
//! Not here    exposition: `guildhall::metrics`.

use crate::{jobs::JobEnd, mailbox::Input};
use guildhall_accounting::{LoopAccount, TopEntry, TopList};
use guildhall_guild::Command;
use guildhall_model::GuildId;
use guildhall_relay::ToGuildKind;
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use strum::VariantNames;

/// Guilds with an account of their own, per worker.
const GUILDS_MAX: usize = 64;
/// Busy time counts half after this.
const HALF_LIFE: Duration = Duration::from_secs(60);

/// Message types of a worker; those of commands and relays follow.
#[derive(Clone, Copy, Debug, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
enum Own {
    Create,
    Timer,
    BeginCommit,
    Committed,
    Loaded,
    MessageLoaded,
    JobDone,
}

/// The number of a worker's message type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind(usize);

impl Kind {
    pub(crate) const TIMER: Self = Self(Own::Timer as usize);
    pub(crate) const BEGIN_COMMIT: Self = Self(Own::BeginCommit as usize);

    pub(crate) fn of_input(input: &Input) -> Self {
        let relays = Own::VARIANTS.len();
        match input {
            Input::Create(..) => Self(Own::Create as usize),
            Input::Relay(message) => Self(relays + ToGuildKind::from(message) as usize),
            Input::Command(ask) => Self(relays + ToGuildKind::VARIANTS.len() + ask.command.kind()),
        }
    }

    pub(crate) fn of_report(end: &JobEnd) -> Self {
        Self(match end {
            JobEnd::Committed(_) => Own::Committed,
            JobEnd::Loaded(_) => Own::Loaded,
            JobEnd::MessageLoaded(..) => Own::MessageLoaded,
            JobEnd::Guild(..) => Own::JobDone,
        } as usize)
    }

    fn names() -> Vec<String> {
        let own = Own::VARIANTS.iter().map(|name| (*name).to_owned());
        let relays = ToGuildKind::VARIANTS.iter().map(|name| format!("relay_{name}"));
        own.chain(relays).chain(Command::kind_names()).collect()
    }
}

/// Time that one guild cost its worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuildTime {
    pub guild_id: GuildId,
    /// Recent busy time in nanoseconds: it counts half after a minute. Never below the true value.
    pub recent_ns: u64,
    /// Nanoseconds by message type since the guild became one of the busiest.
    pub by_kind: Vec<(String, u64)>,
}

/// The account of one worker. The worker writes, others read.
#[derive(Debug)]
pub(crate) struct WorkerAccount {
    pub(crate) work: LoopAccount,
    names: Vec<String>,
    guilds: Mutex<Guilds>,
}

#[derive(Debug)]
struct Guilds {
    top: TopList<GuildId>,
    /// Of the guilds in `top`.
    by_kind: HashMap<GuildId, Box<[u64]>>,
    decayed_at: Instant,
}

impl WorkerAccount {
    pub(crate) fn new(index: usize) -> Self {
        let names = Kind::names();
        let guilds = Guilds { top: TopList::new(GUILDS_MAX), by_kind: HashMap::new(), decayed_at: Instant::now() };
        Self { work: LoopAccount::new("guild_worker", index, names.clone()), names, guilds: Mutex::new(guilds) }
    }

    fn guilds(&self) -> MutexGuard<'_, Guilds> {
        self.guilds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Handling of one message ended: it had begun at `begun`. Returns now, when the next one begins.
    pub(crate) fn handled(&self, guild_id: GuildId, kind: Kind, begun: Instant) -> Instant {
        let now = Instant::now();
        let ns = now.duration_since(begun).as_nanos() as u64;
        self.work.handled(kind.0, ns);
        let mut guilds = self.guilds();
        if now.duration_since(guilds.decayed_at) >= HALF_LIFE {
            guilds.top.decay();
            guilds.decayed_at = now;
        }
        let Guilds { top, by_kind, .. } = &mut *guilds;
        if let Some(evicted) = top.add(guild_id, ns) {
            by_kind.remove(&evicted);
        }
        by_kind.entry(guild_id).or_insert_with(|| vec![0; self.names.len()].into_boxed_slice())[kind.0] += ns;
        now
    }

    /// The busiest guilds, busiest first.
    pub(crate) fn busiest(&self) -> Vec<GuildTime> {
        let guilds = self.guilds();
        let time = |TopEntry { key, weight, .. }: TopEntry<GuildId>| GuildTime {
            guild_id: key,
            recent_ns: weight,
            by_kind: guilds.by_kind.get(&key).map_or_else(Vec::new, |times| {
                let named = self.names.iter().zip(times.iter());
                named.filter(|(_, ns)| **ns > 0).map(|(name, ns)| (name.clone(), *ns)).collect()
            }),
        };
        guilds.top.entries().into_iter().map(time).collect()
    }
}
