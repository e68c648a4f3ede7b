//! Mirrors: sessions of other nodes as these report them, for clients whose node was killed.
//!
//! Owns        the mirrors, and the events that reached their accounts here since the last report.
//! Doors       `take_mirrors` for the reports of another node; `mirror_view`, then `release_mirror` when a client
//!             resumes; `forget_mirrors_of` when the other node is back.
//! Invariants  C1 a mirror of a node that lives is not released; one that is released is forgotten. C2 the client
//!             gets each event of its account once, or the mirror is not released: an event that the report lists is
//!             sent if its seq is after the client's; one that it does not list is sent if the client has nothing from
//!             after the report, or if it came when the node was gone already, and is a doubt otherwise; so is each
//!             stored direct message that never came here, because its node was killed before it sent it. C3 its
//!             client sees an outage of each guild that it was inside.
//! Limits      `MIRRORS_MAX` mirrors and `BYTES_MAX` bytes over all partitions, past which further sessions have no
//!             mirror; `LOGGED_MAX` events of a mirror, past which it is a doubt; `RECEIVED_MAX` direct messages in
//!             `UNSENT_MS`, past which stored ones are a doubt; `LEAD_MAX` between the report's seq and the client's;
//!             `resume_window_ms` after the end of its node.
//! Spec        docs/adr/0046.

use crate::{
    config::PartitionConfig,
    core::Core,
    handover::{HandOver, Mirrored},
    mirroring::{MirrorBatch, MirrorProgress, MirroredSession, mirror_key},
    moves::SessionClaim,
    partition::Partition,
    recent_news::{News, SKEW_MS, mark_of},
    refused::ResumeFault,
    sessions::{Marks, Reader},
};
use guildhall_guild_protocol::{HiddenChannels, Redaction, Whose};
use guildhall_model::{ChannelId, MessageId, UserId, smallest_id_at, timestamp_of};
use guildhall_session::{Dispatch, DispatchSnapshot, GuildLoss, SessionSnapshot, guild_delete};
use guildhall_stdx::{Instant, Now, SlotKey, Timestamp};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    ops::Range,
    rc::Rc,
};

const MIRRORS_MAX: usize = 1_000_000;
const BYTES_MAX: usize = 512 << 20;
const LOGGED_MAX: usize = 256;
const RECEIVED_MAX: usize = 256;
/// A node that was killed had sent what it stored earlier than this before the others noticed its end: the longest
/// lease has a minute, and no message between nodes is later than `SKEW_MS`.
const UNSENT_MS: i64 = 90_000;
/// Clocks of the nodes that write messages may be ahead by this much. Later messages come from nodes that live.
const SLACK_MS: i64 = 1_000;
/// A client cannot have received more within the lag of a mirror.
const LEAD_MAX: u64 = 1 << 20;

/// A membership of a node that reports its sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MirrorSource {
    /// Number of the node.
    pub node: u8,
    pub incarnation: u64,
}

/// Outcome of reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MirrorsTaken {
    /// Sessions without room.
    #[serde(rename = "refused")]
    pub refused_count: usize,
    /// Sessions that the other node has reported whole before, and that have no mirror here, or that of another node.
    #[serde(rename = "unknown")]
    pub unknown_count: usize,
}

/// A mirror here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorView {
    pub seq: u64,
    /// Membership of the session's node.
    pub from: MirrorSource,
    /// Ids that direct messages have which the node may have stored and not sent. None: it is a member.
    pub unsent: Option<Range<MessageId>>,
}

/// Mirrors of a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MirrorsHeld {
    pub count: usize,
    pub bytes: usize,
}

#[derive(Debug)]
struct Logged {
    at: Instant,
    mark: u64,
    news: News,
}

#[derive(Debug)]
struct Mirror {
    from: MirrorSource,
    kept: SessionSnapshot,
    reader: Reader,
    seq: u64,
    floor: u64,
    /// Events of the account that the session has processed: seq and mark.
    listed: Vec<(u64, u64)>,
    /// Events of the account that came here and may not be processed there, oldest first.
    log: VecDeque<Logged>,
    /// When an event was forgotten that may not be processed there.
    lost_at: Option<Instant>,
    /// Direct messages that came here, written after `since` and at most `UNSENT_MS` before the last report.
    received: VecDeque<(ChannelId, MessageId)>,
    since: Timestamp,
    bytes: usize,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Mirrors {
    by_key: HashMap<u64, Mirror>,
    by_user: BTreeSet<(UserId, u64)>,
    /// Nodes with mirrors here, and since when they are gone.
    sources: BTreeMap<MirrorSource, Option<Instant>>,
    bytes: usize,
}

impl Mirror {
    fn apply(&mut self, now: Now, progress: MirrorProgress) {
        let MirrorProgress(_, seq, floor, listed) = progress;
        (self.seq, self.floor, self.listed) = (seq, floor, listed);
        let may_be_unsent = |id: MessageId| timestamp_of(id).0 > now.unix.0.saturating_sub(UNSENT_MS);
        self.received.retain(|(_, id)| may_be_unsent(*id));
        let now = now.instant;
        // An older one that is not listed was processed and acknowledged before the list begins.
        let listed = &self.listed;
        let is_open =
            |logged: &Logged| now.ms_since(logged.at) <= SKEW_MS || listed.iter().any(|(_, mark)| *mark == logged.mark);
        self.log.retain(is_open);
        self.lost_at.take_if(|at| now.ms_since(*at) > SKEW_MS);
    }

    /// Notes a direct message, also one that the session does not get.
    fn note_received(&mut self, news: &News) {
        let Some(direct) = news.new_direct().filter(|direct| !self.received.contains(direct)) else { return };
        self.received.push_back(direct);
        if self.received.len() > RECEIVED_MAX {
            self.received.pop_front();
        }
    }

    fn push(&mut self, logged: Logged) {
        let logged_at = logged.at;
        self.log.push_back(logged);
        if self.log.len() > LOGGED_MAX {
            self.lost_at = self.log.pop_front().map(|_| logged_at);
        }
    }

    fn cost_bytes(&self) -> usize {
        size_of::<Self>() + self.kept.cost_bytes()
    }

    /// See `MirrorView::unsent`.
    fn unsent(&self, now: Now, gone_since: Instant) -> Range<MessageId> {
        let gone_at = now.unix.0.saturating_sub_unsigned(now.instant.ms_since(gone_since));
        let after = gone_at.saturating_sub(UNSENT_MS).max(self.since.0);
        smallest_id_at(Timestamp(after.saturating_add(1)))..smallest_id_at(Timestamp(gone_at.saturating_add(SLACK_MS)))
    }

    /// Whether one of these stored direct messages never came here.
    fn lacks(&self, stored: &[(ChannelId, MessageId)]) -> bool {
        stored.iter().any(|direct| !self.received.contains(direct))
    }

    /// The events that the client lacks, by their place in the log.
    fn owed(&self, claimed: u64, gone_since: Instant) -> Result<Vec<usize>, ResumeFault> {
        if claimed < self.floor || claimed > self.seq.saturating_add(LEAD_MAX) {
            return Err(ResumeFault::Sequence);
        }
        if self.lost_at.is_some() {
            return Err(ResumeFault::Doubt);
        }
        let (mut listed, mut owed) = (self.listed.clone(), Vec::new());
        for (place, logged) in self.log.iter().enumerate() {
            match listed.iter().position(|(_, mark)| *mark == logged.mark) {
                Some(at) => {
                    let (seq, _) = listed.swap_remove(at);
                    owed.extend((seq > claimed).then_some(place));
                }
                None if claimed <= self.seq || logged.at >= gone_since => owed.push(place),
                None => return Err(ResumeFault::Doubt),
            }
        }
        // The body of an event that the client lacks never came here, or was here before the mirror.
        match listed.iter().any(|(seq, _)| *seq > claimed) {
            true => Err(ResumeFault::Sequence),
            false => Ok(owed),
        }
    }
}

impl Mirrors {
    /// Mirrors here, and their memory.
    pub fn held(&self) -> MirrorsHeld {
        MirrorsHeld { count: self.by_key.len(), bytes: self.bytes }
    }

    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    fn has_room(&self, config: &PartitionConfig, bytes: usize) -> bool {
        let share = usize::from(config.partitions_count.max(1));
        self.by_key.len() < MIRRORS_MAX / share && self.bytes + bytes <= BYTES_MAX / share
    }

    fn remove(&mut self, key: u64) -> Option<Mirror> {
        let mirror = self.by_key.remove(&key)?;
        self.by_user.remove(&(mirror.kept.user_id, key));
        self.bytes -= mirror.bytes;
        Some(mirror)
    }

    fn insert(&mut self, key: u64, mut mirror: Mirror) {
        mirror.bytes = mirror.cost_bytes();
        self.bytes += mirror.bytes;
        self.by_user.insert((mirror.kept.user_id, key));
        self.by_key.insert(key, mirror);
    }

    /// Since when a node with mirrors here is gone.
    fn gone_since(&self, source: MirrorSource) -> Option<Instant> {
        self.sources.get(&source).copied().flatten()
    }

    fn of_user(&self, user_id: UserId) -> Vec<u64> {
        self.by_user.range((user_id, 0)..=(user_id, u64::MAX)).map(|(_, key)| *key).collect()
    }

    fn remove_where(&mut self, is_chosen: impl Fn(&Mirror) -> bool) {
        let chosen: Vec<u64> =
            self.by_key.iter().filter(|(_, mirror)| is_chosen(mirror)).map(|(key, _)| *key).collect();
        chosen.into_iter().for_each(|key| drop(self.remove(key)));
    }

    /// Sessions of a token, an account or an id were ended, wherever they are.
    pub fn end(&mut self, whose: &Whose) {
        match whose {
            Whose::Session(id) => {
                let key = mirror_key(id).filter(|key| self.by_key.get(key).is_some_and(|of| *of.kept.id == **id));
                key.and_then(|key| self.remove(key));
            }
            Whose::User(user_id) => self.of_user(*user_id).into_iter().for_each(|key| drop(self.remove(key))),
            Whose::Token(user_id, token) => {
                for key in self.of_user(*user_id) {
                    if self.by_key.get(&key).is_some_and(|mirror| mirror.kept.token == *token) {
                        self.remove(key);
                    }
                }
            }
        }
    }

    /// Notes which nodes are gone, and drops mirrors of those that are gone for longer than `window_ms`.
    fn note_members(&mut self, now: Instant, members: &BTreeSet<u64>, window_ms: u64) {
        let mut outdated = Vec::new();
        for (source, gone_since) in &mut self.sources {
            match members.contains(&source.incarnation) {
                true => *gone_since = None,
                false => {
                    let since = *gone_since.get_or_insert(now);
                    outdated.extend((now.ms_since(since) >= window_ms).then_some(*source));
                }
            }
        }
        for source in outdated {
            self.remove_where(|mirror| mirror.from == source);
            self.sources.remove(&source);
        }
    }
}

impl Partition {
    /// Takes another node's reports of its sessions.
    pub fn take_mirrors(&mut self, now: Now, from: MirrorSource, batch: MirrorBatch) -> MirrorsTaken {
        let MirrorBatch { sessions, progress, ended } = batch;
        let mut taken = MirrorsTaken::default();
        self.core.mirrors.sources.insert(from, None);
        for key in ended {
            if self.core.mirrors.by_key.get(&key).is_some_and(|mirror| mirror.from == from) {
                self.core.mirrors.remove(key);
            }
        }
        for session in sessions {
            taken.refused_count += usize::from(!self.core.take_mirror(now, from, session));
        }
        for progress in progress {
            match self.core.mirrors.by_key.get_mut(&progress.0) {
                Some(mirror) if mirror.from == from => mirror.apply(now, progress),
                // It is from before the session moved to the node that has reported it since.
                Some(mirror) if mirror.seq > progress.1 => {}
                // The end of the session at the node before may not have been reported yet.
                Some(_) | None => taken.unknown_count += 1,
            }
        }
        taken
    }

    /// Mirrors here, and their memory.
    #[must_use]
    pub fn mirrors_held(&self) -> MirrorsHeld {
        self.core.mirrors.held()
    }

    /// Notes the memberships of all living nodes: mirrors of others can be released, until the resume window ends.
    pub fn note_members(&mut self, now: Now, members: &BTreeSet<u64>) {
        self.core.mirrors.note_members(now.instant, members, self.core.config.resume_window_ms);
    }

    /// The mirror of a session.
    #[must_use]
    pub fn mirror_view(&self, now: Now, session_id: &str) -> Option<MirrorView> {
        let (_, mirror) = self.core.mirror_of(session_id)?;
        let gone_since = self.core.mirrors.gone_since(mirror.from);
        let unsent = gone_since.map(|gone_since| mirror.unsent(now, gone_since));
        Some(MirrorView { seq: mirror.seq, from: mirror.from, unsent })
    }

    /// Drops the mirror of a session whose node is gone: another node has a newer one.
    pub fn drop_mirror(&mut self, session_id: &str) {
        if let Some(key) = self.core.mirror_of_gone(session_id).map(|(key, ..)| key) {
            self.core.mirrors.remove(key);
        }
    }

    /// Drops the mirrors of a node that has its sessions. Its number stays the same when it joins again.
    pub fn forget_mirrors_of(&mut self, node: u8) {
        self.core.mirrors.remove_where(|mirror| mirror.from.node == node);
        self.core.mirrors.sources.retain(|source, _| source.node != node);
    }

    /// Exports a session whose node is gone from its mirror, and forgets the mirror (C1). `stored`: the account's
    /// direct messages in `MirrorView::unsent`.
    ///
    /// # Errors
    /// Why the client cannot resume. The mirror stays.
    pub fn release_mirror(
        &mut self,
        now: Now,
        claim: &SessionClaim,
        stored: &[(ChannelId, MessageId)],
    ) -> Result<HandOver, ResumeFault> {
        let (key, mirror, gone_since) = self.core.mirror_of_gone(&claim.session_id).ok_or(ResumeFault::Unknown)?;
        if mirror.kept.user_id != claim.user_id {
            return Err(ResumeFault::Account);
        }
        if mirror.kept.is_etf != claim.is_etf {
            return Err(ResumeFault::Encoding);
        }
        if mirror.lacks(stored) {
            return Err(ResumeFault::Doubt);
        }
        let owed = mirror.owed(claim.seq, gone_since)?;
        let mirror = self.core.mirrors.remove(key).ok_or(ResumeFault::Unknown)?;
        let MirrorSource { node, incarnation } = mirror.from;
        let (gone_ms, is_doubtful) = (now.instant.ms_since(gone_since), claim.seq > mirror.seq);
        let mirrored = Mirrored { node, incarnation, gone_ms, is_doubtful };
        let dispatches = self.core.dispatches_of(&mirror, &owed);
        let mut kept = mirror.kept;
        let base = mirror.seq.max(claim.seq);
        kept.first_seq = claim.seq + 1;
        (claim.seq + 1..=base).for_each(|_| kept.push(None));
        (0..dispatches.len() as u32).for_each(|place| kept.push(Some(place)));
        kept.guilds.iter_mut().for_each(|guild| guild.is_inside = false);
        let mut marks: Vec<u64> = mirror.log.iter().map(|logged| logged.mark).collect();
        add_missing(&mut marks, mirror.listed.iter().map(|(_, mark)| *mark));
        // Those that the session had processed before, and READY contains.
        let recent = self.core.news.of_user(now.instant, claim.user_id);
        add_missing(&mut marks, recent.iter().filter_map(|(_, news)| self.core.mark_for(&mirror.reader, news)));
        kept.recent_news = marks;
        Ok(HandOver {
            dispatches,
            sessions: vec![kept],
            left_out_count: 0,
            mirrored: Some(mirrored),
            ..HandOver::default()
        })
    }
}

/// Adds the marks that are not among these yet, each as often as it occurs.
fn add_missing(marks: &mut Vec<u64>, more: impl Iterator<Item = u64>) {
    let mut known = marks.clone();
    for mark in more {
        match known.iter().position(|known| *known == mark) {
            Some(at) => {
                known.swap_remove(at);
            }
            None => marks.push(mark),
        }
    }
}

impl Core {
    fn mirror_of(&self, session_id: &str) -> Option<(u64, &Mirror)> {
        let key = mirror_key(session_id)?;
        Some((key, self.mirrors.by_key.get(&key).filter(|mirror| mirror.kept.id == session_id)?))
    }

    /// The mirror of a session whose node is gone, and since when.
    fn mirror_of_gone(&self, session_id: &str) -> Option<(u64, &Mirror, Instant)> {
        let (key, mirror) = self.mirror_of(session_id)?;
        Some((key, mirror, self.mirrors.gone_since(mirror.from)?))
    }

    /// False: it has no room.
    fn take_mirror(&mut self, now: Now, from: MirrorSource, session: MirroredSession) -> bool {
        let MirroredSession { session: kept, is_bot, age_ms: session_age_ms, progress } = session;
        let key = progress.0;
        let is_overtaken = |before: &Mirror| {
            before.from != from && before.seq > progress.1 && self.mirrors.sources.get(&before.from) == Some(&None)
        };
        if self.mirrors.by_key.get(&key).is_some_and(is_overtaken) {
            return true;
        }
        let before = self.mirrors.remove(key);
        if !self.mirrors.has_room(&self.config, kept.cost_bytes()) {
            return false;
        }
        let reader = Reader::of_snapshot(&kept, is_bot);
        let mut mirror = Mirror {
            from,
            reader,
            seq: 0,
            floor: 0,
            listed: Vec::new(),
            log: VecDeque::new(),
            lost_at: None,
            received: VecDeque::new(),
            since: now.unix,
            bytes: 0,
            kept,
        };
        match before.filter(|before| before.kept.id == mirror.kept.id) {
            Some(before) => {
                (mirror.log, mirror.lost_at) = (before.log, before.lost_at);
                (mirror.received, mirror.since) = (before.received, before.since);
            }
            None => {
                let known_ms = session_age_ms.min(self.news.covers_ms(now.instant));
                mirror.since = Timestamp(now.unix.0.saturating_sub_unsigned(known_ms));
                for (age_ms, news) in self.news.of_user(now.instant, mirror.kept.user_id) {
                    mirror.note_received(&news);
                    if age_ms > session_age_ms {
                        continue;
                    }
                    let Some(mark) = self.mark_for(&reader, &news) else { continue };
                    mirror.push(Logged { at: Instant(now.instant.0.saturating_sub(age_ms)), mark, news });
                }
            }
        }
        mirror.apply(now, progress);
        self.mirrors.insert(key, mirror);
        true
    }

    /// An event reached these accounts: their mirrors log it.
    pub(crate) fn log_news(&mut self, now: Instant, news: &News) {
        if self.mirrors.is_empty() {
            return;
        }
        let mut marks = Marks::default();
        let keys: Vec<u64> = news.user_ids().iter().flat_map(|user_id| self.mirrors.of_user(*user_id)).collect();
        for key in keys {
            let Some(mirror) = self.mirrors.by_key.get_mut(&key) else { continue };
            mirror.note_received(news);
            let reader = mirror.reader;
            let Some((dispatch, redaction)) = self.news_form(&reader, news) else { continue };
            let mark = marks.of(&reader, (&dispatch, redaction));
            if let Some(mirror) = self.mirrors.by_key.get_mut(&key) {
                mirror.push(Logged { at: now, mark, news: news.clone() });
            }
        }
    }

    /// READY contains the events that came here before a session began.
    pub(crate) fn begin_mirroring(&mut self, now: Instant, key: SlotKey) {
        if !self.config.mirrors_sessions {
            return;
        }
        let Some(reader) = self.sessions.get(key).map(Reader::of) else { return };
        self.mirroring.begin(now, key);
        let recent = self.news.of_user(now, reader.user_id);
        let marks: Vec<u64> = recent.iter().filter_map(|(_, news)| self.mark_for(&reader, news)).collect();
        if !marks.is_empty() {
            self.mirroring.arrived(now, key, 0, &marks);
        }
    }

    fn mark_for(&mut self, reader: &Reader, news: &News) -> Option<u64> {
        let (dispatch, redaction) = self.news_form(reader, news)?;
        Some(mark_of(&dispatch.frame(reader.encoding, redaction)))
    }

    /// The events that the client lacks, then an outage of each guild (C3).
    fn dispatches_of(&mut self, mirror: &Mirror, owed: &[usize]) -> Vec<DispatchSnapshot> {
        let (reader, hidden) = (mirror.reader, self.config.hidden_channels);
        let mut dispatches = Vec::new();
        for logged in owed.iter().filter_map(|place| mirror.log.get(*place)) {
            let form = self.news_form(&reader, &logged.news);
            dispatches.extend(form.map(|(dispatch, redaction)| dispatch.snapshot(reader.encoding, redaction, hidden)));
        }
        let snapshot =
            |dispatch: Rc<Dispatch>| dispatch.snapshot(reader.encoding, Redaction::None, HiddenChannels::Listed);
        let inside = mirror.kept.guilds.iter().filter(|guild| guild.is_inside);
        dispatches.extend(inside.map(|guild| snapshot(guild_delete(reader.encoding, guild.id, GuildLoss::Outage))));
        dispatches
    }
}
