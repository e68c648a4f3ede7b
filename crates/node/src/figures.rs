//! Figures: the node's functions that report what its parts did, and their memory.

use crate::{CanaryCounts, CommitStats, GUILDS_LISTED_MAX, GuildAccount, GuildAccounts, Node};
use guildhall_accounting::LoopReport;
use guildhall_model::GuildId;
use guildhall_stdx::heap::MemoryUse;
use std::cmp::Reverse;

impl Node {
    /// Canaries that relays were sent and returned, and relays that do not deliver.
    #[must_use]
    pub fn canary_counts(&self) -> CanaryCounts {
        self.inner.canaries.counts()
    }

    /// How long the store's commits take.
    #[must_use]
    pub fn commit_stats(&self) -> CommitStats {
        self.inner.commits.stats()
    }

    /// Permits in use of each guild worker's mailbox, of `NodeConfig::worker_mailbox_max`.
    #[must_use]
    pub fn mailbox_places_taken(&self) -> Vec<usize> {
        self.inner.mailboxes.iter().map(|mailbox| mailbox.taken_count()).collect()
    }

    /// Wall time of each guild worker by message type.
    #[must_use]
    pub fn worker_reports(&self) -> Vec<LoopReport> {
        self.inner.accounts.iter().map(|account| account.report()).collect()
    }

    /// Wall time of the store's operations by name. They overlap, so its busy time is no share of a core.
    #[must_use]
    pub fn store_report(&self) -> LoopReport {
        self.inner.store_account.report()
    }

    /// Wall time of guilds' background jobs by kind of work. Several run at once.
    #[must_use]
    pub fn job_report(&self) -> LoopReport {
        self.inner.pool.report()
    }

    /// The guilds that kept their workers busiest, at most `limit` and `GUILDS_LISTED_MAX`. Guilds of a worker that
    /// answers too many such requests already are left out.
    pub async fn guild_accounts(&self, limit: usize) -> GuildAccounts {
        let limit = limit.min(GUILDS_LISTED_MAX);
        let looks = self.inner.mailboxes.iter().map(|mailbox| mailbox.look(move |guilds| guilds.busiest(limit)));
        let mut all = GuildAccounts::default();
        for answer in looks.collect::<Vec<_>>() {
            let Ok(GuildAccounts { loaded, guilds }) = answer.await else { continue };
            all.loaded += loaded;
            all.guilds.extend(guilds);
        }
        all.guilds.sort_by_key(|guild| Reverse(guild.busy_ns_total));
        all.guilds.truncate(limit);
        all
    }

    /// One guild by message type and channel. None if it is not loaded, or its worker answers too many such requests.
    pub async fn guild_account(&self, guild_id: GuildId) -> Option<GuildAccount> {
        self.mailbox(guild_id).look(move |guilds| guilds.guild_account(guild_id)).await.ok()?
    }

    /// Memory of all loaded guilds by field, and of caches, estimated. Guilds of a worker that answers too many such
    /// requests already are left out.
    pub async fn memory(&self) -> Vec<MemoryUse> {
        let looks = self.inner.mailboxes.iter().map(|mailbox| mailbox.look(|guilds| guilds.memory()));
        let mut all = vec![self.inner.directory.memory()];
        for answer in looks.collect::<Vec<_>>() {
            MemoryUse::add_all(&mut all, answer.await.unwrap_or_default());
        }
        all
    }
}
