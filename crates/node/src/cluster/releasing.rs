//! Releasing: guilds that this node has ceased to own, while the release waits in the worker's mailbox.
//!
//! Invariants  R1 between the machine's decision and the worker's `Input::Release`, nothing of such a guild reaches a
//!             relay of this node, and no input of it is handled: the guild would be claimed again from its new owner.
//!             (test `sim::sabotage_is_caught` of `cluster`: `LocalLeak`, `LateInputs`)
//! Limits      one entry per guild with a release in a mailbox.

use guildhall_model::GuildId;
use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Releases in the mailboxes, by guild.
#[derive(Debug, Default)]
pub(super) struct Releasing {
    guilds: Mutex<HashMap<GuildId, u32>>,
    /// Number of `guilds`. Workers read it for each message; it is nearly always 0.
    guilds_count: AtomicUsize,
}

impl Releasing {
    fn lock(&self) -> MutexGuard<'_, HashMap<GuildId, u32>> {
        self.guilds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A release is about to be put into the mailbox.
    pub fn begin(&self, guild_id: GuildId) {
        let mut guilds = self.lock();
        *guilds.entry(guild_id).or_default() += 1;
        self.guilds_count.store(guilds.len(), Ordering::Release);
    }

    /// The worker has handled a release.
    pub fn end(&self, guild_id: GuildId) {
        let mut guilds = self.lock();
        if let Some(count) = guilds.get_mut(&guild_id) {
            *count -= 1;
            if *count == 0 {
                guilds.remove(&guild_id);
            }
        }
        self.guilds_count.store(guilds.len(), Ordering::Release);
    }

    /// Whether a release of the guild has not been handled.
    pub fn contains(&self, guild_id: GuildId) -> bool {
        self.guilds_count.load(Ordering::Acquire) > 0 && self.lock().contains_key(&guild_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guild_is_released_when_every_release_was_handled() {
        let (releasing, guild_id) = (Releasing::default(), GuildId::new(5));
        assert!(!releasing.contains(guild_id));
        releasing.begin(guild_id);
        releasing.begin(guild_id);
        releasing.end(guild_id);
        assert!(releasing.contains(guild_id) && !releasing.contains(GuildId::new(6)));
        releasing.end(guild_id);
        assert!(!releasing.contains(guild_id));
        // The mailbox was closed, or the guild was not here.
        releasing.end(guild_id);
    }
}
