//! Mirrors of sessions on other nodes, for clients whose node is killed.
//!
//! Owns        the reports of this node's sessions to the nodes that hold their mirrors; the mirrors that this node has
//!             given away, and the wait of a node that was without a lease.
//! Invariants  W1 a mirror is given once, and only if no member has the membership that reported it. W2 a node that was
//!             without a lease ends the sessions whose mirrors were given away, before it resumes or releases one; the
//!             other nodes drop their mirrors of its sessions at its request. (tests
//!             `guildhall/tests/it/session_mirrors.rs`)
//! Limits      `REPORT_BYTES_MAX` of reports per interval: sessions that have no room are in the next one, so that the
//!             lag grows. `GIVEN_MAX` sessions that were given away are remembered, for `GIVEN_MS`. `STORED_MAX` direct
//!             messages of an account that its node may not have sent; past it the client identifies again.
//! Not here    what is in a report, and which client may resume by it: `guildhall_partition`.
//! Spec        docs/cluster.md, ADR 46.

use super::{
    moves::ask_until,
    port::{OwnNode, SessionPort, within},
};
use guildhall_cluster::{NodeNumber, NodeRecord, home_of, wire};
use guildhall_guild_protocol::Whose;
use guildhall_model::{ChannelId, CloseCode, Id, MessageId, UserId};
use guildhall_net::{HandOver, ResumeFault, SessionClaim};
use guildhall_node::PeerQuestion;
use guildhall_partition::{
    MirrorBatch, MirrorPage, MirrorPlaces, MirrorSource, MirrorView, Mirrored, MirrorsHeld, MirrorsTaken, Partition,
    mirror_key,
};
use guildhall_stdx::Instant;
use guildhall_store::StoreError;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    ops::Range,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::watch;

/// Reports of this node per interval, as their binary form has.
const REPORT_BYTES_MAX: usize = 4 << 20;
/// Longest wait for the answer to one report.
const ANSWER_MS_MAX: u64 = 1_000;
/// Interval in which a node notes which others are gone.
const WATCH_EVERY: Duration = Duration::from_millis(250);
/// Longest wait of a RESUME at a node that has just joined again.
const SETTLE_MS_MAX: u64 = 2_000;
const GIVEN_MAX: usize = 1_000_000;
/// A node that was away for longer does not join again.
const GIVEN_MS: u64 = 3_600_000;
/// Longest wait for the answer of a node that lives.
const RETURN_MS_MAX: u64 = 10_000;
/// Longest wait for the other nodes when this one leaves.
const FAREWELL_MS_MAX: u64 = 1_000;
/// A mirror notes fewer.
const STORED_MAX: usize = 512;

/// Reports of a node's sessions.
#[derive(Serialize, Deserialize)]
struct Report {
    from: MirrorSource,
    batch: MirrorBatch,
}

impl PeerQuestion for Report {
    const KIND: &'static str = "mirror_sessions";
    type Answer = MirrorsTaken;
}

/// Request of a node that has its sessions: list those that were given away, and drop their mirrors.
#[derive(Clone, Serialize, Deserialize)]
struct Returned {
    node: u8,
    /// The last id of the previous answer.
    after: Option<String>,
    /// Membership in which the node last had its sessions: others that were given away are not its any more, or have
    /// come back. None: from a node of an earlier release.
    #[serde(default)]
    membership: Option<u64>,
}

impl PeerQuestion for Returned {
    const KIND: &'static str = "returned";
    type Answer = GivenAway;
}

#[derive(Default, Serialize, Deserialize)]
pub(super) struct GivenAway {
    session_ids: Vec<String>,
    has_more: bool,
}

/// Sessions of other nodes that were given to a third one: membership of the node, and when.
#[derive(Default)]
struct Given {
    by_id: BTreeMap<String, (MirrorSource, Instant)>,
    order: VecDeque<(Instant, String)>,
}

impl Given {
    fn insert(&mut self, now: Instant, session_id: &str, from: MirrorSource) {
        let is_old = |(at, _): &mut (Instant, String)| now.ms_since(*at) > GIVEN_MS;
        while let Some((at, id)) = self.order.pop_front_if(is_old) {
            self.by_id.remove(&id).filter(|(_, later)| *later != at).map(|later| self.by_id.insert(id, later));
        }
        if self.order.len() >= GIVEN_MAX
            && let Some((_, id)) = self.order.pop_front()
        {
            self.by_id.remove(&id);
        }
        self.by_id.insert(session_id.to_owned(), (from, now));
        self.order.push_back((now, session_id.to_owned()));
    }

    fn of(&self, returned: Returned, count: usize) -> GivenAway {
        use std::ops::Bound::{Excluded, Unbounded};
        let Returned { node, after, membership } = returned;
        // An incarnation of 0 is from a node of an earlier release.
        let is_of = |from: &MirrorSource| {
            from.node == node && membership.is_none_or(|membership| [0, membership].contains(&from.incarnation))
        };
        let range = (after.map_or(Unbounded, Excluded), Unbounded);
        let mut ids = self.by_id.range::<String, _>(range).filter(|(_, (from, _))| is_of(from)).map(|(id, _)| id);
        let session_ids = ids.by_ref().take(count).cloned().collect();
        GivenAway { session_ids, has_more: ids.next().is_some() }
    }
}

/// The members without this node, at one time.
struct Places {
    version: u32,
    others: Vec<(NodeNumber, NodeRecord)>,
}

impl Places {
    fn of(port: &impl SessionPort) -> Self {
        let own = port.number();
        let others: Vec<_> = port.members().into_iter().filter(|(number, _)| *number != own).collect();
        let mut hasher = DefaultHasher::new();
        for (number, record) in &others {
            (number, record.incarnation, record.weight, record.state as u8).hash(&mut hasher);
        }
        // No session has been visited in version 0.
        Self { version: (hasher.finish() as u32).max(1), others }
    }

    fn node(&self, incarnation: u64) -> Option<NodeNumber> {
        self.others.iter().find(|(_, record)| record.incarnation.0 == incarnation).map(|(number, _)| *number)
    }
}

impl MirrorPlaces for Places {
    fn version(&self) -> u32 {
        self.version
    }

    fn holder_of(&self, key: u64) -> Option<u64> {
        let home = home_of(key, self.others.iter().map(|(number, record)| (*number, record)))?;
        self.others.iter().find(|(number, _)| *number == home).map(|(_, record)| record.incarnation.0)
    }
}

/// Progress of this node's reports.
struct Round {
    partition: usize,
    slot: u32,
    mirrored: usize,
    begun: Instant,
    begun_before: Instant,
}

/// Reports this node's sessions to other nodes, and holds mirrors of theirs.
pub struct SessionMirrors<P = OwnNode> {
    port: P,
    /// Zero: this node reports nothing, and no RESUME waits for the end of a lease.
    every: Duration,
    given: Mutex<Given>,
    /// Serialises giving and `Returned` (W1, W2).
    giving: tokio::sync::Mutex<()>,
    /// The lapses of the lease after which W2 holds again.
    settled: watch::Sender<u64>,
    /// Membership of that time: the one that this node's reports name.
    settled_in: AtomicU64,
    /// A report has arrived: before the first one no partition has mirrors.
    has_reports: AtomicBool,
}

impl<P: SessionPort> SessionMirrors<P> {
    /// Reports sessions every `every` from now on, and takes the reports of others.
    #[must_use]
    pub fn start(port: P, every: Duration) -> Arc<Self> {
        let settled = watch::Sender::new(port.lapses());
        let settled_in = AtomicU64::new(port.incarnation().0);
        let (given, giving) = (Mutex::default(), tokio::sync::Mutex::default());
        let has_reports = AtomicBool::new(false);
        let mirrors = Arc::new(Self { port, every, given, giving, settled, settled_in, has_reports });
        let of = Arc::downgrade(&mirrors);
        mirrors.port.on_question(move |report: Report| {
            let mirrors = of.upgrade();
            async move { Some(mirrors?.take(report).await) }
        });
        let of = Arc::downgrade(&mirrors);
        mirrors.port.on_question(move |returned: Returned| {
            let mirrors = of.upgrade();
            async move { Some(mirrors?.forget(returned).await) }
        });
        tokio::spawn(watch_members(Arc::downgrade(&mirrors)));
        if mirrors.is_on() {
            tokio::spawn(report(Arc::downgrade(&mirrors)));
        }
        mirrors
    }

    /// Whether sessions have mirrors.
    #[must_use]
    pub fn is_on(&self) -> bool {
        !self.every.is_zero()
    }

    fn given(&self) -> MutexGuard<'_, Given> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place_of(&self, session_id: &str) -> Option<usize> {
        Some((mirror_key(session_id)? % self.port.partitions_count().max(1) as u64) as usize)
    }

    /// Memberships of all nodes.
    fn members(&self) -> BTreeSet<u64> {
        self.port.members().into_iter().map(|(_, record)| record.incarnation.0).collect()
    }

    // ── a node that was without a lease ──────────────────────────────────────────────────────────

    /// Whether this node may resume and release sessions (W2).
    #[must_use]
    pub fn is_settled(&self) -> bool {
        *self.settled.borrow() == self.port.lapses()
    }

    /// Waits until W2 holds. False: not in time.
    pub async fn settle(&self) -> bool {
        let mut settled = self.settled.subscribe();
        let wait = async { settled.wait_for(|settled| *settled == self.port.lapses()).await.is_ok() };
        within(&self.port, Duration::from_millis(SETTLE_MS_MAX), wait).await.is_some()
    }

    /// Ends the sessions that were given away while this node was without a lease.
    async fn return_to_cluster(self: &Arc<Self>) {
        let (lapses, membership) = (self.port.lapses(), self.port.incarnation().0);
        if self.is_settled() || !self.port.has_lease() {
            return;
        }
        let ended = self.end_given_away().await;
        for number in self.port.numbers() {
            self.forget_mirrors_of(number.0).await;
        }
        for partition in 0..self.port.partitions_count() {
            let _ = self.port.on_mirrors(partition, |_, partition| partition.mirrors_lost(None)).await;
        }
        tracing::info!(ended, "sessions that clients resumed elsewhere were ended here");
        self.settled_in.store(membership, Ordering::Relaxed);
        self.settled.send_replace(lapses);
    }

    async fn end_given_away(self: &Arc<Self>) -> u64 {
        if !self.is_on() {
            return 0;
        }
        let mut question = self.returned();
        let mut ended = 0;
        for (number, mut answer) in self.ask_each(&question, RETURN_MS_MAX).await {
            loop {
                for id in &answer.session_ids {
                    let whose = Whose::Session(id.as_str().into());
                    ended += self.port.close_sessions(&whose, CloseCode::UnknownError).await as u64;
                }
                question.after = answer.session_ids.pop();
                if !answer.has_more {
                    break;
                }
                match self.ask_one(number, &question, RETURN_MS_MAX).await {
                    Some(next) => answer = next,
                    None => break,
                }
            }
        }
        ended
    }

    fn returned(&self) -> Returned {
        let membership = Some(self.settled_in.load(Ordering::Relaxed));
        Returned { node: self.port.number().0, after: None, membership }
    }

    /// Sends the question to all other nodes. A node of an earlier version does not answer, and has given nothing away.
    async fn ask_each(self: &Arc<Self>, question: &Returned, ms_max: u64) -> Vec<(NodeNumber, GivenAway)> {
        let mut requests = tokio::task::JoinSet::new();
        for number in self.port.numbers() {
            let (mirrors, question) = (self.clone(), question.clone());
            requests.spawn(async move { Some((number, mirrors.ask_one(number, &question, ms_max).await?)) });
        }
        requests.join_all().await.into_iter().flatten().collect()
    }

    async fn ask_one(&self, number: NodeNumber, question: &Returned, ms_max: u64) -> Option<GivenAway> {
        let (patience, limit) = (Duration::from_millis(ANSWER_MS_MAX), Duration::from_millis(ms_max));
        ask_until(&self.port, (number, question), patience, limit).await
    }

    /// Removes the mirrors of this node's sessions from the other nodes: it leaves in order.
    pub async fn leave(self: &Arc<Self>) {
        if self.is_on() {
            self.ask_each(&self.returned(), FAREWELL_MS_MAX).await;
        }
    }

    // ── the node that holds mirrors ──────────────────────────────────────────────────────────────

    async fn take(&self, report: Report) -> MirrorsTaken {
        self.has_reports.store(true, Ordering::Relaxed);
        let Report { from, batch: MirrorBatch { sessions, progress, ended } } = report;
        let count = self.port.partitions_count().max(1);
        let mut shares: Vec<MirrorBatch> = (0..count).map(|_| MirrorBatch::default()).collect();
        let place = |key: u64| (key % count as u64) as usize;
        sessions.into_iter().for_each(|session| shares[place(session.progress.0)].sessions.push(session));
        progress.into_iter().for_each(|progress| shares[place(progress.0)].progress.push(progress));
        ended.into_iter().for_each(|key| shares[place(key)].ended.push(key));
        let taken: Vec<_> = (shares.into_iter().enumerate())
            .map(|(partition, share)| {
                self.port.on_mirrors(partition, move |now, partition| partition.take_mirrors(now, from, share))
            })
            .collect();
        let mut sum = MirrorsTaken::default();
        for taken in taken {
            let MirrorsTaken { refused_count, unknown_count } = taken.await.unwrap_or_default();
            sum.refused_count += refused_count;
            sum.unknown_count += unknown_count;
        }
        sum
    }

    async fn forget(&self, returned: Returned) -> GivenAway {
        let _one_at_a_time = self.giving.lock().await;
        self.forget_mirrors_of(returned.node).await;
        let count = (self.port.answer_bytes_max() / 128).max(1);
        self.given().of(returned, count)
    }

    async fn forget_mirrors_of(&self, node: u8) {
        for partition in 0..self.port.partitions_count() {
            let forget = self.port.on_mirrors(partition, move |_, partition| partition.forget_mirrors_of(node));
            // A partition that has ended has none.
            let _ = forget.await;
        }
    }

    /// The mirror here of a session.
    pub async fn view_here(&self, session_id: &str) -> Option<MirrorView> {
        let (partition, members) = (self.place_of(session_id)?, self.members());
        let id = session_id.to_owned();
        let look = self.port.on_mirrors(partition, move |now, partition| {
            partition.note_members(now, &members);
            partition.mirror_view(now, &id)
        });
        look.await.flatten()
    }

    /// Drops the mirror here of a session whose node is gone: another node has a newer one.
    pub async fn drop_here(&self, session_id: &str) {
        let Some(partition) = self.place_of(session_id) else { return };
        let id = session_id.to_owned();
        let _ = self.port.on_mirrors(partition, move |_, partition| partition.drop_mirror(&id)).await;
    }

    /// Gives a session away by its mirror here (W1).
    ///
    /// # Errors
    /// Why its client cannot resume by it.
    pub async fn give(&self, claim: SessionClaim) -> Result<HandOver, ResumeFault> {
        let partition = self.place_of(&claim.session_id).ok_or(ResumeFault::Unknown)?;
        let unsent = self.view_here(&claim.session_id).await.and_then(|view| view.unsent);
        let unsent = unsent.ok_or(ResumeFault::Unknown)?;
        // The node is gone, and has written nothing since. So others need not wait for this.
        let stored = self.stored_directs(claim.user_id, &unsent).await?;
        let _one_at_a_time = self.giving.lock().await;
        if !self.port.has_lease() {
            return Err(ResumeFault::Unknown);
        }
        let (id, members) = (claim.session_id.clone(), self.members());
        let release = self.port.on_mirrors(partition, move |now, partition| {
            partition.note_members(now, &members);
            partition.release_mirror(now, &claim, &stored)
        });
        let over = release.await.unwrap_or(Err(ResumeFault::Unknown))?;
        self.note_given(&id, &over);
        Ok(over)
    }

    /// An account's direct messages with these ids, as they are stored.
    async fn stored_directs(
        &self,
        user_id: UserId,
        ids: &Range<MessageId>,
    ) -> Result<Vec<(ChannelId, MessageId)>, ResumeFault> {
        let unread = |error: StoreError| {
            tracing::warn!(%error, "an account's direct messages could not be read: its client identifies again");
            ResumeFault::Move
        };
        let mut stored = Vec::new();
        for direct in self.port.directs_of_user(user_id).await.map_err(unread)? {
            let channel_id = direct.channel.id;
            // The first id is that of a time, so that no message has the one below.
            let mut after = Id::new(ids.start.get().saturating_sub(1));
            while direct.channel.last_message_id.is_some_and(|newest| newest > after) {
                let page = self.port.messages_after(channel_id, after).await.map_err(unread)?;
                let Some(last) = page.last().copied() else { break };
                after = last;
                stored.extend(page.into_iter().filter(|id| ids.contains(id)).map(|id| (channel_id, id)));
                if last >= ids.end {
                    break;
                }
                if stored.len() > STORED_MAX {
                    return Err(ResumeFault::Doubt);
                }
            }
        }
        Ok(stored)
    }

    /// Remembers that a session was given away, for its node (W2).
    pub fn note_given(&self, session_id: &str, over: &HandOver) {
        if let Some(Mirrored { node, incarnation, .. }) = over.mirrored {
            self.given().insert(self.port.now().instant, session_id, MirrorSource { node, incarnation });
        }
    }

    async fn note_members(&self) {
        let (mut sum, members) = (MirrorsHeld::default(), Arc::new(self.members()));
        for partition in 0..self.port.partitions_count() {
            let members = members.clone();
            let note = self.port.on_mirrors(partition, move |now, partition| {
                partition.note_members(now, &members);
                partition.mirrors_held()
            });
            let held = note.await.unwrap_or_default();
            sum.count += held.count;
            sum.bytes += held.bytes;
        }
        self.port.count_mirrors(|figures| {
            (figures.held, figures.held_bytes) = (sum.count as u64, sum.bytes as u64);
        });
    }

    // ── the node that has the sessions ───────────────────────────────────────────────────────────

    /// Reports changed sessions, until all have been visited or the interval's bytes are used.
    async fn report(&self, round: &mut Round) {
        let places = Arc::new(Places::of(&self.port));
        let from = MirrorSource { node: self.port.number().0, incarnation: self.port.incarnation().0 };
        let page_bytes = self.page_bytes();
        let mut left = REPORT_BYTES_MAX;
        while left > 0 {
            let (of, slot) = (places.clone(), round.slot);
            let page = self
                .port
                .on_mirrors(round.partition, move |now, partition| partition.mirror_page(now, &*of, slot, page_bytes));
            let Some(MirrorPage { batches, bytes, mirrored_count, next_slot }) = page.await else { return };
            for (holder, batch) in batches {
                self.send(&places, (holder, round.partition), Report { from, batch }).await;
            }
            left = left.saturating_sub(bytes);
            round.mirrored += mirrored_count;
            match next_slot {
                Some(slot) => round.slot = slot,
                None => {
                    (round.partition, round.slot) = (round.partition + 1, 0);
                    if round.partition >= self.port.partitions_count() {
                        return self.end_round(round);
                    }
                }
            }
        }
    }

    /// A report has to fit into a message of the bus, in which a byte takes two at most.
    fn page_bytes(&self) -> usize {
        self.port.answer_bytes_max() / 8
    }

    fn end_round(&self, round: &mut Round) {
        let now = self.port.now().instant;
        let (lag_ms, mirrored) = (now.ms_since(round.begun_before), round.mirrored as u64);
        self.port.count_mirrors(|figures| {
            (figures.lag_ms, figures.mirrored) = (lag_ms, mirrored);
            figures.rounds += 1;
        });
        *round = Round { partition: 0, slot: 0, mirrored: 0, begun: now, begun_before: round.begun };
    }

    /// Sends a partition's reports to their holder.
    async fn send(&self, places: &Places, (holder, partition): (u64, usize), report: Report) {
        // A holder that is gone is no place any more: the next visit reports its sessions to another.
        let Some(number) = places.node(holder) else { return };
        let bytes = wire::encode(&report).len();
        let (whole, progress) = (report.batch.sessions.len() as u64, report.batch.progress.len() as u64);
        let is_too_long = bytes > self.port.answer_bytes_max() / 2;
        // A node that has joined again since reports its sessions whole, under its membership of now.
        let is_outdated = report.from.incarnation != self.port.incarnation().0;
        let answer = match is_too_long || is_outdated {
            true => None,
            false => self.port.ask_within(number, &report, Duration::from_millis(ANSWER_MS_MAX)).await,
        };
        self.port.count_mirrors(|figures| {
            figures.sent_bytes += bytes as u64;
            figures.sent_whole += whole;
            figures.sent_progress += progress;
            figures.refused += answer.as_ref().map_or(0, |answer| answer.refused_count as u64);
            figures.lost += u64::from(answer.is_none());
        });
        let has_gaps = |answer: &MirrorsTaken| answer.unknown_count > 0 && answer.refused_count == 0;
        if answer.as_ref().is_none_or(has_gaps) && !is_too_long {
            for partition in 0..self.port.partitions_count() {
                let lost = move |_, partition: &mut Partition| partition.mirrors_lost(Some(holder));
                let _ = self.port.on_mirrors(partition, lost).await;
            }
        }
        let ended = report.batch.ended;
        if answer.is_none() && !is_too_long && !ended.is_empty() {
            let again = move |_, partition: &mut Partition| partition.mirrors_end_again(holder, &ended);
            let _ = self.port.on_mirrors(partition, again).await;
        }
    }
}

async fn watch_members<P: SessionPort>(of: Weak<SessionMirrors<P>>) {
    while let Some(pause) = of.upgrade().map(|mirrors| mirrors.port.sleep(WATCH_EVERY)) {
        pause.await;
        let Some(mirrors) = of.upgrade().filter(|mirrors| !mirrors.port.has_left()) else { return };
        mirrors.return_to_cluster().await;
        if mirrors.has_reports.load(Ordering::Relaxed) {
            mirrors.note_members().await;
        }
    }
}

async fn report<P: SessionPort>(of: Weak<SessionMirrors<P>>) {
    let Some(now) = of.upgrade().map(|mirrors| mirrors.port.now().instant) else { return };
    let mut round = Round { partition: 0, slot: 0, mirrored: 0, begun: now, begun_before: now };
    while let Some(pause) = of.upgrade().map(|mirrors| mirrors.port.sleep(mirrors.every)) {
        pause.await;
        let Some(mirrors) = of.upgrade().filter(|mirrors| !mirrors.port.has_left()) else { return };
        if mirrors.port.has_lease() && mirrors.is_settled() {
            mirrors.report(&mut round).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_partition::{MirrorProgress, MirroredSession};
    use serde_json::json;

    fn bytes(batch: MirrorBatch) -> usize {
        wire::encode(&Report { from: MirrorSource { node: 1, incarnation: u64::MAX }, batch }).len()
    }

    fn whole(guilds_count: u64) -> usize {
        let id = |number: u64| (1_100_000_000_000_000_000 + number).to_string();
        let guild = |number: u64| json!({"id": id(number), "is_inside": true, "subscription": null});
        let session = json!({
            "id": "0".repeat(32), "user_id": id(1), "is_etf": false, "compress_payloads": false, "intents": u32::MAX,
            "shard": [0, 16], "large_threshold": 250, "capabilities": u64::MAX, "status": "online", "activities": [],
            "platform": 0, "token": u64::MAX, "os": "Linux", "guilds": (0..guilds_count).map(guild).collect::<Vec<_>>(),
            "first_seq": 1, "entries": [],
        });
        let session = serde_json::from_value(session).expect("it is one");
        let progress = MirrorProgress(u64::MAX, 1, 0, Vec::new());
        bytes(MirrorBatch {
            sessions: vec![MirroredSession { session, is_bot: true, age_ms: u64::MAX, progress }],
            ..MirrorBatch::default()
        })
    }

    /// The figures of docs/cluster.md.
    #[test]
    fn reports_have_the_bytes_that_the_documents_name() {
        let progress =
            |number: u64| MirrorProgress(u64::MAX - number, 1_000_000 + number, 999_000 + number, Vec::new());
        let of_progress = bytes(MirrorBatch { progress: (0..1_000).map(progress).collect(), ..MirrorBatch::default() });
        println!("{of_progress} bytes of progress; whole: {}, with ten guilds {}", whole(0), whole(10));
        assert!(of_progress <= 22 * 1_000, "{of_progress}");
        assert!(whole(0) <= 400, "{}", whole(0));
        assert!((whole(10) - whole(0)) / 10 <= 40, "{} with ten guilds", whole(10));
    }

    #[test]
    fn sessions_given_away_are_listed_in_pages_and_forgotten() {
        let of = |node, incarnation| MirrorSource { node, incarnation };
        let list = |given: &Given, node, after: Option<&String>, membership, count| {
            given.of(Returned { node, after: after.cloned(), membership }, count)
        };
        let mut given = Given::default();
        let ids: Vec<String> = (0..5).map(|number| format!("{number:032}")).collect();
        ids.iter().for_each(|id| given.insert(Instant(1), id, of(3, 7)));
        given.insert(Instant(1), "other", of(4, 7));
        let first = list(&given, 3, None, None, 3);
        assert_eq!((&first.session_ids[..], first.has_more), (&ids[..3], true));
        let second = list(&given, 3, first.session_ids.last(), Some(7), 3);
        assert_eq!((&second.session_ids[..], second.has_more), (&ids[3..], false));
        // Those of an earlier membership may have come back.
        assert!(list(&given, 3, None, Some(8), 9).session_ids.is_empty());
        // Given away again: the later time counts.
        given.insert(Instant(GIVEN_MS), &ids[0], of(3, 8));
        given.insert(Instant(GIVEN_MS + 2), "new", of(4, 0));
        assert_eq!(list(&given, 3, None, None, 9).session_ids, ids[..1]);
        assert_eq!(list(&given, 4, None, Some(7), 9).session_ids, ["new"]);
    }
}
