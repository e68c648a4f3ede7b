//! Accounts: the wall time of guild workers by message type.
//!
//! Owns        the numbers and names of a worker's message types, and the time stamp that goes through a batch.
//! Not here    exposition: `guildhall_telemetry::metrics`.

use crate::{jobs::JobEnd, mailbox::Input};
use guildhall_accounting::LoopAccount;
use guildhall_guild::Command;
use guildhall_guild_protocol::ToGuildKind;
use std::time::Instant;
use strum::VariantNames;

/// Message types of a worker; those of commands and relays follow.
#[derive(Clone, Copy, Debug, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
enum Own {
    Create,
    Timer,
    BeginCommit,
    Unload,
    Committed,
    Loaded,
    MessageLoaded,
    JobDone,
    ResetRelay,
    Release,
    ForgetRelays,
    Handoff,
}

/// The number of a worker's message type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Kind(usize);

impl Kind {
    pub(crate) const FORGET_RELAYS: Self = Self(Own::ForgetRelays as usize);
    pub(crate) const TIMER: Self = Self(Own::Timer as usize);
    pub(crate) const BEGIN_COMMIT: Self = Self(Own::BeginCommit as usize);
    pub(crate) const UNLOAD: Self = Self(Own::Unload as usize);

    /// Its place in the account of a worker.
    pub(crate) fn index(self) -> usize {
        self.0
    }

    pub(crate) fn of_input(input: &Input) -> Self {
        let relays = Own::VARIANTS.len();
        match input {
            Input::Create(..) => Self(Own::Create as usize),
            Input::Reset { .. } => Self(Own::ResetRelay as usize),
            Input::Release => Self(Own::Release as usize),
            Input::Handoff(_) => Self(Own::Handoff as usize),
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

/// Starts the account of a worker.
pub(crate) fn worker_account(index: usize) -> LoopAccount {
    LoopAccount::new("guild_worker", index, Kind::names())
}

/// The time stamp with which a worker's measurements end, and the next ones begin.
pub(crate) struct LoopTimer<'a> {
    account: &'a LoopAccount,
    stamp: Instant,
}

impl<'a> LoopTimer<'a> {
    /// The worker begins with a batch whose oldest message arrived at `oldest_since`.
    pub(crate) fn begin(account: &'a LoopAccount, oldest_since: Option<Instant>) -> Self {
        let stamp = Instant::now();
        if let Some(since) = oldest_since {
            account.waited(stamp.duration_since(since).as_nanos() as u64);
        }
        Self { account, stamp }
    }

    /// A message of this type is handled. Returns the nanoseconds since the one before.
    pub(crate) fn handled(&mut self, kind: Kind) -> u64 {
        if !guildhall_accounting::is_on() {
            return 0;
        }
        let now = Instant::now();
        let ns = now.duration_since(self.stamp).as_nanos() as u64;
        self.account.handled(kind.0, ns);
        self.stamp = now;
        ns
    }
}
