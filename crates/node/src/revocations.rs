//! Revocations in a cluster: every node forgets a token or key before the revocation is answered.
//!
//! Owns        the log of revocations in the store, and what this node has heard of it.
//! Doors       `read_revocations` at the start; `log_revocation`, then the revocation itself, then `end_revoked`;
//!             `follow` for what others revoke.
//! Invariants  V1 when a revocation returns, no node accepts the token or key, or delivers to its sessions: a node
//!             closes them (4004) before it answers that it has heard of the revocation; a node whose lease has ended
//!             checks no tokens and keys, serves no guild, and ends its streams. V2 such a node joins again only after
//!             it has read the log and ended the sessions of what was revoked meanwhile. V3 a node that has just
//!             joined, and that the revoking node may not see yet, reads the log again after `AGAIN_AFTER`; a node
//!             revokes nothing before it sees the others. V4 a node accepts no token before it has read the log, so
//!             that none of its sessions is older than the entries that it found. (tests `v*_*` in
//!             `tests/it/cluster.rs`; the simulation in `guildhall-cluster`)
//! Limits      an entry stays for `KEPT_MS`, by the clock of the node that wrote or found it. A node that was without a
//!             lease for `AWAY_MAX_MS` does not join again: its process ends. `HEARD_MAX` entries are remembered; past
//!             it one is applied twice, which also ends sessions that an account began since then.

use crate::{
    Inner, Node,
    cluster::{Membership, PeerQuestion, Revocation},
    tokens::{TokenRef, hash_of, mark_of, random_bytes},
};
use guildhall_guild_protocol::Whose;
use guildhall_model::{CloseCode, UserId};
use guildhall_stdx::{Instant, Now};
use guildhall_store::{StoreError, TokenHash};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

/// Kind of the log's records. Their ids are random.
pub(crate) const LOG: &str = "revocation";
const PAGE: u32 = 1_000;
/// How long an entry stays.
const KEPT_MS: u64 = 3_600_000;
/// Longest time without a lease.
const AWAY_MAX_MS: u64 = KEPT_MS - 600_000;
const HEARD_MAX: usize = 100_000;
/// After this time a node that has joined reads the log again: a revocation that began before may have been carried out
/// since, by a node that did not see this one yet.
const AGAIN_AFTER: Duration = Duration::from_secs(5);
/// Back-off of a node that cannot read the log.
const LOG_PAUSE: Duration = Duration::from_millis(500);
/// Interval of removals.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

type EntryId = [u8; 16];

/// A revocation with the id of its entry.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct RevocationNotice {
    entry: EntryId,
    revocation: Revocation,
}

/// An entry as it is stored.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    revocation: Revocation,
    /// The revocation has been carried out. Until then a token that the entry names may still be valid.
    is_done: bool,
}

/// The log is read twice after an absence.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// Entries that are not carried out count as not applied, so the last reading repeats them.
    First,
    Last,
}

impl PeerQuestion for RevocationNotice {
    const KIND: &'static str = "revoked";
    /// Sessions that the node has closed.
    type Answer = u64;
}

/// Entries that this node has applied or written, and those that it removes in time.
#[derive(Debug, Default)]
pub(crate) struct RevocationLog(Mutex<Log>);

#[derive(Debug, Default)]
struct Log {
    heard: BTreeSet<EntryId>,
    /// In the order of their hearing.
    order: VecDeque<EntryId>,
    /// Entries that this node removes, and since when it knows them.
    removes: VecDeque<(Instant, EntryId)>,
    /// When the lease ended, by both clocks.
    away_since: Option<Now>,
    /// The log was read since the start (V4).
    is_read: bool,
}

impl RevocationLog {
    fn lock(&self) -> MutexGuard<'_, Log> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the log was read since the start (V4).
    pub(crate) fn is_read(&self) -> bool {
        self.lock().is_read
    }
}

impl Log {
    fn hear(&mut self, entry: EntryId) {
        if self.heard.insert(entry) {
            self.order.push_back(entry);
        }
        if self.order.len() > HEARD_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.heard.remove(&oldest);
        }
    }

    /// The next entry that is older than `KEPT_MS`.
    fn outdated(&mut self, now: Instant) -> Option<EntryId> {
        let (since, entry) = *self.removes.front()?;
        (now.ms_since(since) > KEPT_MS).then(|| {
            self.removes.pop_front();
            entry
        })
    }

    /// Whether the node was away for too long. The larger of both clocks' times decides, in case one was stopped.
    fn is_too_late(&self, now: Now) -> bool {
        self.away_since.is_some_and(|since| {
            let wall_ms = u64::try_from(now.unix.0.saturating_sub(since.unix.0)).unwrap_or(0);
            now.instant.ms_since(since.instant).max(wall_ms) > AWAY_MAX_MS
        })
    }
}

/// Applies revocations of other nodes.
pub(crate) fn follow(membership: &Arc<Membership>, inner: &Arc<Inner>) {
    let of = Arc::downgrade(inner);
    membership.on_question(move |RevocationNotice { entry, revocation }: RevocationNotice| {
        let inner = of.upgrade();
        async move {
            let inner = inner?;
            inner.forget(revocation);
            let closed = inner.close_sessions_of(revocation).await;
            inner.revocation_log.lock().hear(entry);
            Some(closed)
        }
    });
    let of = Arc::downgrade(inner);
    membership.on_lease_end(move || {
        if let Some(inner) = of.upgrade() {
            inner.revocation_log.lock().away_since.get_or_insert(inner.clock.now());
            // Streams of keys end, and checks in progress do not count.
            inner.tokens.forget_all();
            inner.keys.forget_all();
            inner.directory.clear();
        }
    });
    let of = Arc::downgrade(inner);
    membership.on_rejoin(move || {
        let of = of.clone();
        Box::pin(async move {
            let Some(inner) = of.upgrade() else { return Ok(true) };
            let is_in_time = inner.catch_up().await?;
            tokio::spawn(catch_up_again(of));
            Ok(is_in_time)
        })
    });
}

/// Reads the log again, until that succeeds or the node ends.
async fn catch_up_again(of: Weak<Inner>) {
    tokio::time::sleep(AGAIN_AFTER).await;
    loop {
        let Some(inner) = of.upgrade() else { return };
        match inner.apply_log(Reading::Last).await {
            Ok(()) => return,
            Err(error) => tracing::warn!(%error, "the log of revocations cannot be read again; trying again"),
        }
        drop(inner);
        tokio::time::sleep(LOG_PAUSE).await;
    }
}

/// Removes entries in time, until the node ends.
async fn sweep(of: Weak<Inner>) {
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        let Some(inner) = of.upgrade() else { return };
        let next = || inner.revocation_log.lock().outdated(inner.clock.now().instant);
        while let Some(entry) = next() {
            if let Err(error) = inner.store.delete_record(LOG, &entry).await {
                tracing::warn!(%error, "an old revocation could not be removed; the next node that starts does it");
            }
        }
    }
}

impl Inner {
    /// The token or key is not good any more.
    fn forget(&self, revocation: Revocation) {
        self.tokens.revoked_elsewhere(revocation);
        if let Revocation::Key(id) = revocation {
            self.keys.revoked_elsewhere(id);
        }
    }

    async fn entries(&self) -> Result<Vec<(EntryId, Entry)>, StoreError> {
        let (mut entries, mut after) = (Vec::new(), Vec::new());
        loop {
            let page = self.store.records(LOG, &after, PAGE).await?;
            let Some((last, _)) = page.last() else { return Ok(entries) };
            after.clone_from(last);
            for (id, data) in &page {
                match (id.as_slice().try_into(), serde_json::from_slice(data)) {
                    (Ok(id), Ok(entry)) => entries.push((id, entry)),
                    _ => tracing::error!("a revocation in the log cannot be read: upgrade this node"),
                }
            }
            if page.len() < PAGE as usize {
                return Ok(entries);
            }
        }
    }

    /// Applies what was revoked while this node was away (V2). False: it was away for too long.
    async fn catch_up(&self) -> Result<bool, StoreError> {
        if self.revocation_log.lock().is_too_late(self.clock.now()) {
            return Ok(false);
        }
        self.tokens.forget_all();
        self.keys.forget_all();
        self.apply_log(Reading::First).await?;
        self.revocation_log.lock().away_since = None;
        Ok(true)
    }

    /// Applies entries that this node has not applied.
    async fn apply_log(&self, reading: Reading) -> Result<(), StoreError> {
        let entries = self.entries().await?;
        let missed = |entry: &EntryId| !self.revocation_log.lock().heard.contains(entry);
        let (mut count, mut closed) = (0, 0);
        for (id, Entry { revocation, is_done }) in entries.into_iter().filter(|(id, _)| missed(id)) {
            count += 1;
            self.forget(revocation);
            closed += self.close_sessions_of(revocation).await;
            if is_done || reading == Reading::Last {
                self.revocation_log.lock().hear(id);
            }
        }
        if count > 0 {
            tracing::info!(count, closed, "tokens and keys were revoked while this node was away");
        }
        Ok(())
    }

    /// Entries from before this node accepted tokens: no session of it, and nothing in its caches, is older (V4). It
    /// removes them in time; those of nodes that have ended, too.
    fn take_first(&self, entries: Vec<(EntryId, Entry)>) {
        let now = self.clock.now().instant;
        for (id, Entry { revocation, is_done }) in entries {
            self.forget(revocation);
            let mut log = self.revocation_log.lock();
            log.removes.push_back((now, id));
            if is_done {
                log.hear(id);
            }
        }
    }

    async fn close_sessions_of(&self, revocation: Revocation) -> u64 {
        let whose = match revocation {
            Revocation::Token(hash, user_id) => Whose::Token(user_id, mark_of(TokenHash(hash))),
            Revocation::TokensOf(user_id) => Whose::User(user_id),
            Revocation::Key(_) => return 0,
        };
        let mut closed = 0;
        for answer in self.relays.close_sessions(&whose, CloseCode::AuthenticationFailed) {
            // A partition that has ended has no sessions.
            closed += answer.await.unwrap_or(0) as u64;
        }
        closed
    }

    async fn write_entry(&self, id: EntryId, entry: Entry) -> Result<(), StoreError> {
        let data = serde_json::to_vec(&entry).expect("numbers serialise");
        self.store.put_record(LOG, &id, &data).await
    }
}

pub(crate) fn of_token(token: TokenRef<'_>, user_id: UserId) -> Revocation {
    Revocation::Token(hash_of(token).0, user_id)
}

impl Node {
    /// Reads what the nodes of the cluster have revoked. Until then this node accepts no token (V4). A node alone has
    /// nothing to read.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn read_revocations(&self) -> Result<(), StoreError> {
        if self.inner.membership.is_none() {
            return Ok(());
        }
        let entries = self.inner.entries().await?;
        self.inner.take_first(entries);
        self.inner.revocation_log.lock().is_read = true;
        tokio::spawn(sweep(Arc::downgrade(&self.inner)));
        // Revocations that other nodes had begun and not completed (V3).
        tokio::spawn(catch_up_again(Arc::downgrade(&self.inner)));
        Ok(())
    }

    /// Writes an entry, before the revocation: a node that is away reads it. None: this node is alone.
    pub(crate) async fn log_revocation(&self, revocation: Revocation) -> Result<Option<RevocationNotice>, StoreError> {
        if self.inner.membership.is_none() {
            return Ok(None);
        }
        let notice = RevocationNotice { entry: random_bytes(), revocation };
        self.inner.write_entry(notice.entry, Entry { revocation, is_done: false }).await?;
        let mut log = self.inner.revocation_log.lock();
        log.hear(notice.entry);
        log.removes.push_back((self.inner.clock.now().instant, notice.entry));
        Ok(Some(notice))
    }

    /// Returns when no node has sessions of it, and no other node accepts it (V1). Returns the number
    /// of closed sessions.
    pub(crate) async fn end_revoked(&self, revocation: Revocation, notice: Option<RevocationNotice>) -> u64 {
        let closed = self.inner.close_sessions_of(revocation).await;
        let (Some(membership), Some(notice)) = (&self.inner.membership, notice) else { return closed };
        let done = Entry { revocation: notice.revocation, is_done: true };
        if let Err(error) = self.inner.write_entry(notice.entry, done).await {
            tracing::warn!(%error, "a revocation stays marked as not carried out: nodes that join again apply it twice");
        }
        let elsewhere = membership.tell_all(&notice).await;
        closed + elsewhere.into_iter().map(|(_, closed)| closed).sum::<u64>()
    }
}
