//! Accounts: the wall time of guild workers by message type.
//!
//! Owns        the numbers and names of a worker's message types.
//! Not here    exposition: `guildhall::metrics`.

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

/// Starts the account of a worker.
pub(crate) fn worker_account(index: usize) -> LoopAccount {
    LoopAccount::new("guild_worker", index, Kind::names())
}

/// Records a message whose handling began at `begun`. Returns the current time, at which the next one begins.
pub(crate) fn handled(account: &LoopAccount, kind: Kind, begun: Instant) -> Instant {
    let now = Instant::now();
    account.handled(kind.0, now.duration_since(begun).as_nanos() as u64);
    now
}
