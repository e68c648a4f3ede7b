//! Passive updates: periodic summaries for sessions that are passive in a guild.
//!
//! Owns        `ChangeLog`: the version at which each channel and voice state last changed, back to the oldest version
//!             that a passive session is at. One update per (version, view, form) is built and shared.
//! Doors       `note` before each replica update is applied; `rebase` when a session's view changes;
//!             `invalidate_baseline` when a replay omitted something; `since` for one update; `forget` after all
//!             sessions were updated.
//! Invariants  U1 applying the update from version a to b to the state at a yields the state at b, for the channels in
//!             view. U2 an update mentions only channels that the recipient can view, except that it reports users who
//!             left a channel the recipient could view before. U3 after a change of view, the next update contains the
//!             newest message of and all users in each channel that became visible, and removes the users of each
//!             channel that became invisible. U4 a user always knows their own voice state. U5 after a replay that
//!             omitted something, the next update is complete and lists users who left. (tests `u*_*`)
//! Limits      one entry per channel, and one per user whose voice state changed since the last round, with at most
//!             `LEFT_MAX` channels each. An update may list a departed user to a session that became passive later and
//!             never knew of them. After an incomplete replay it may also list users who are or were in a channel that
//!             the session could view at its last update or at its RESUME. One baseline per view and version of
//!             sessions that changed their view, or had an incomplete replay, since the last round.
//! Spec        docs/protocol/reference.md §8.5.

use crate::audience::{Baselines, Map};
use guildhall_guild_protocol::{
    GuildReplica, GuildStructure, PassiveDelta, PassiveSnapshot, ReplicaUpdate, VoiceEntry,
};
use guildhall_model::{ChannelId, MessageId, UserId};
use guildhall_stdx::{Timestamp, heap::Sample};
use smallvec::SmallVec;
use std::{collections::BTreeMap, sync::Arc};

/// Maximum number of channels remembered per user since the last round.
const LEFT_MAX: usize = 8;

/// Voice changes of one user since the last round.
#[derive(Debug)]
struct VoiceChange {
    version: u32,
    /// Version of the first change, and the channel before it.
    first: (u32, Option<ChannelId>),
    /// Channels that the user left, each once with the version of the last departure. Oldest first.
    was_in: SmallVec<[(u32, ChannelId); 1]>,
    /// The user was in more channels than are remembered, up to this version.
    was_elsewhere: Option<u32>,
}

impl VoiceChange {
    fn new(version: u32, was_in: Option<ChannelId>) -> Self {
        Self { version, first: (version, was_in), was_in: SmallVec::new(), was_elsewhere: None }
    }

    fn left(&mut self, channel_id: ChannelId, version: u32) {
        self.was_in.retain(|(_, other)| *other != channel_id);
        if self.was_in.len() == LEFT_MAX {
            self.was_elsewhere = Some(self.was_in.remove(0).0);
        }
        self.was_in.push((version, channel_id));
    }

    /// Whether a session updated at `from`, with the view `held`, may show the user in a channel. Exact for sessions
    /// that received the last round completely, which is nearly all.
    fn was_known(&self, from: u32, held: impl Fn(ChannelId) -> bool, knowledge: Knowledge) -> bool {
        let (version, was_in) = self.first;
        if knowledge == Knowledge::Complete && is_after(version, from) {
            return was_in.is_some_and(held);
        }
        self.was_elsewhere.is_some_and(|version| is_after(version, from))
            || self.was_in.iter().any(|(version, channel_id)| is_after(*version, from) && held(*channel_id))
    }
}

/// Knowledge of a session about channels that it viewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Knowledge {
    /// All of their state.
    Complete,
    /// Parts, after an incomplete replay: it may show any user who is or was in one of them.
    Partial,
}

/// State known to a session that changed its view or had an incomplete replay.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Baseline {
    version: u32,
    /// Channels that the session may know something of. Sorted.
    channels: Arc<[ChannelId]>,
    knowledge: Knowledge,
}

/// Versions of the changes in a guild.
#[derive(Debug, Default)]
pub(crate) struct ChangeLog {
    /// Increases with each change and with each baseline; wraps around.
    version: u32,
    channels: BTreeMap<ChannelId, u32>,
    voice: BTreeMap<UserId, VoiceChange>,
    /// Keyed by the version that represents the baseline.
    baselines: Map<u32, Baseline>,
    versions_by_baseline: Map<Baseline, u32>,
}

impl ChangeLog {
    /// Estimated heap memory.
    pub fn heap_bytes(&self, sample: Sample) -> usize {
        sample.of_tree(&self.channels, |_, _| 0)
            + sample.of_tree(&self.voice, |_, _| 0)
            + sample.of_map(&self.baselines, |_, of| size_of_val(&*of.channels) / Arc::strong_count(&of.channels))
            + sample.of_map(&self.versions_by_baseline, |_, _| 0)
    }
}

/// Versions wrap around. Compared versions are less than half the range apart, because all sessions are
/// updated every round.
fn is_after(version: u32, than: u32) -> bool {
    (version.wrapping_sub(than) as i32) > 0
}

impl Baselines for ChangeLog {
    fn rebase(&mut self, version: u32, channels: &Arc<[ChannelId]>) -> u32 {
        // After a second change of view the session still knows the state before the first one.
        if self.baselines.contains_key(&version) {
            return version;
        }
        self.stands_for(Baseline { version, channels: channels.clone(), knowledge: Knowledge::Complete })
    }

    fn invalidate_baseline(&mut self, version: u32, mut channels: Vec<ChannelId>) -> u32 {
        let before = self.baselines.get(&version);
        channels.extend(before.iter().flat_map(|before| before.channels.iter()));
        channels.sort_unstable();
        channels.dedup();
        let version = before.map_or(version, |before| before.version);
        self.stands_for(Baseline { version, channels: channels.into(), knowledge: Knowledge::Partial })
    }
}

impl ChangeLog {
    fn stands_for(&mut self, baseline: Baseline) -> u32 {
        if let Some(version) = self.versions_by_baseline.get(&baseline) {
            return *version;
        }
        let stands_for_it = self.version.wrapping_add(1);
        // Sessions that are up to date from here on must not match this baseline.
        self.version = self.version.wrapping_add(2);
        self.baselines.insert(stands_for_it, baseline.clone());
        self.versions_by_baseline.insert(baseline, stands_for_it);
        stands_for_it
    }

    pub fn version(&self) -> u32 {
        self.version
    }

    /// Nothing has changed since the last round.
    pub fn is_empty(&self) -> bool {
        self.channels.is_empty() && self.voice.is_empty() && self.baselines.is_empty()
    }

    /// Records a change. Call it before `replica_update` is applied to `replica`.
    pub fn note(&mut self, replica_update: &ReplicaUpdate, replica: &GuildReplica) {
        match replica_update {
            ReplicaUpdate::Message(channel_id, _) => {
                self.version = self.version.wrapping_add(1);
                self.channels.insert(*channel_id, self.version);
            }
            ReplicaUpdate::Voice(user_id, _) => {
                self.version = self.version.wrapping_add(1);
                let before = replica.voice.get(*user_id).and_then(|entry| entry.state.channel_id);
                let change = self.voice.entry(*user_id).or_insert_with(|| VoiceChange::new(self.version, before));
                change.version = self.version;
                if let Some(before) = before {
                    change.left(before, self.version);
                }
            }
            ReplicaUpdate::Structure(structure) => {
                let before = &replica.structure.channels;
                let pinned = structure.channels.values().filter(|channel| {
                    let before = before.get(&channel.id).and_then(|before| before.last_pin_timestamp);
                    channel.last_pin_timestamp != before && newest_message(replica, channel.id).is_some()
                });
                for channel in pinned {
                    self.version = self.version.wrapping_add(1);
                    self.channels.insert(channel.id, self.version);
                }
            }
            ReplicaUpdate::None | ReplicaUpdate::Member(..) | ReplicaUpdate::Thread(..) | ReplicaUpdate::Deleted => {}
        }
    }

    /// Changes since `from` for sessions with the view `holds`. `own`: account that receives its own voice state
    /// whatever channel it is in.
    pub fn since(
        &self,
        from: u32,
        replica: &GuildReplica,
        holds: impl Fn(ChannelId) -> bool,
        own: Option<UserId>,
    ) -> PassiveDelta {
        let mut delta = self.without_pins(from, replica, holds, own);
        delta.pins = channel_pins(replica, delta.channels.iter().map(|(id, _)| *id));
        delta
    }

    fn without_pins(
        &self,
        from: u32,
        replica: &GuildReplica,
        holds: impl Fn(ChannelId) -> bool,
        own: Option<UserId>,
    ) -> PassiveDelta {
        let Some(Baseline { version, channels, knowledge }) = self.baselines.get(&from) else {
            return self.delta(from, replica, &holds, Knowledge::Complete, &holds, own);
        };
        let held = |channel_id: ChannelId| channels.binary_search(&channel_id).is_ok();
        let is_known = |channel_id: ChannelId| *knowledge == Knowledge::Complete && held(channel_id);
        let mut delta = self.delta(*version, replica, held, *knowledge, &holds, own);
        let is_told = |change_version: Option<u32>| change_version.is_some_and(|at| is_after(at, *version));
        for channel in replica.structure.channels.values().filter(|channel| holds(channel.id) && !is_known(channel.id))
        {
            if !is_told(self.channels.get(&channel.id).copied())
                && let Some(message_id) = newest_message(replica, channel.id)
            {
                delta.channels.push((channel.id, message_id));
            }
        }
        for (user_id, entry) in replica.voice.iter() {
            let Some(channel_id) = entry.state.channel_id else { continue };
            if is_told(self.voice.get(&user_id).map(|change| change.version)) || own == Some(user_id) {
                continue;
            }
            if holds(channel_id) && !is_known(channel_id) {
                delta.voice.push(entry.clone());
            } else if !holds(channel_id) && held(channel_id) {
                delta.left.push(user_id);
            }
        }
        delta
    }

    /// Changes since `from` for sessions with the view `held` then and `holds` now.
    fn delta(
        &self,
        from: u32,
        replica: &GuildReplica,
        held: impl Fn(ChannelId) -> bool,
        knowledge: Knowledge,
        holds: impl Fn(ChannelId) -> bool,
        own: Option<UserId>,
    ) -> PassiveDelta {
        let mut delta = PassiveDelta::default();
        for (channel_id, _) in self.channels.iter().filter(|(id, version)| is_after(**version, from) && holds(**id)) {
            delta.channels.extend(newest_message(replica, *channel_id).map(|message_id| (*channel_id, message_id)));
        }
        for (user_id, change) in self.voice.iter().filter(|(_, change)| is_after(change.version, from)) {
            let is_in_view = |entry: &&VoiceEntry| entry.state.channel_id.is_some_and(&holds) || own == Some(*user_id);
            let entry = replica.voice.get(*user_id);
            // A session that is not sure may have received the users' current channels at replay.
            let is_held = || {
                entry.is_some_and(|entry| knowledge == Knowledge::Partial && entry.state.channel_id.is_some_and(&held))
            };
            match entry.filter(is_in_view) {
                Some(entry) => delta.voice.push(entry.clone()),
                None if change.was_known(from, &held, knowledge) || is_held() => delta.left.push(*user_id),
                None => {}
            }
        }
        delta
    }

    /// All sessions were updated: clears the log.
    pub fn forget(&mut self) {
        self.channels.clear();
        self.voice.clear();
        self.baselines.clear();
        self.versions_by_baseline.clear();
    }
}

/// Times of the latest pins in these channels.
pub(crate) fn channel_pins(
    replica: &GuildReplica,
    channels: impl Iterator<Item = ChannelId>,
) -> Vec<(ChannelId, Timestamp)> {
    let pinned = |id: ChannelId| Some((id, replica.structure.channels.get(&id)?.last_pin_timestamp?));
    channels.filter_map(pinned).collect()
}

fn newest_message(replica: &GuildReplica, channel_id: ChannelId) -> Option<MessageId> {
    let told_with_the_channel =
        || replica.structure.channels.get(&channel_id).and_then(|channel| channel.last_message_id);
    replica.last_message_ids.get(&channel_id).copied().or_else(told_with_the_channel)
}

/// Complete state for the view `holds`, and for `own` with its own voice state.
pub(crate) fn snapshot(
    replica: &GuildReplica,
    holds: impl Fn(ChannelId) -> bool,
    own: Option<UserId>,
) -> PassiveSnapshot {
    let structure: &GuildStructure = &replica.structure;
    let in_view =
        |(user_id, entry): &(UserId, &VoiceEntry)| entry.state.channel_id.is_some_and(&holds) || own == Some(*user_id);
    let pins = channel_pins(replica, structure.channels.keys().copied().filter(|id| holds(*id)));
    PassiveSnapshot {
        pins,
        channels: (structure.channels.values())
            .filter(|channel| holds(channel.id))
            .map(|channel| (channel.id, newest_message(replica, channel.id)))
            .collect(),
        voice: replica.voice.iter().filter(in_view).map(|(_, entry)| entry.clone()).collect(),
    }
}

/// An update of the channels and users among these that a user may view, with their current values.
pub(crate) fn rebuild_delta(
    channels: impl Iterator<Item = ChannelId>,
    users: impl Iterator<Item = UserId>,
    replica: &GuildReplica,
    holds: impl Fn(ChannelId) -> bool,
    own: UserId,
) -> PassiveDelta {
    let mut delta = PassiveDelta::default();
    delta.channels.extend(channels.filter(|id| holds(*id)).filter_map(|id| Some((id, newest_message(replica, id)?))));
    delta.pins = channel_pins(replica, delta.channels.iter().map(|(id, _)| *id));
    for user_id in users {
        match replica.voice.get(user_id) {
            Some(entry) if user_id == own || entry.state.channel_id.is_some_and(&holds) => {
                delta.voice.push(entry.clone());
            }
            _ => delta.left.push(user_id),
        }
    }
    delta
}

/// Visible channels that an update mentions. At replay, a session that can no longer view one of them does not
/// receive the update.
pub(crate) fn mentioned_channels(
    channels: impl Iterator<Item = ChannelId>,
    voice: &[VoiceEntry],
    holds: impl Fn(ChannelId) -> bool,
) -> Arc<[ChannelId]> {
    let of_voice = voice.iter().filter_map(|entry| entry.state.channel_id).filter(|channel_id| holds(*channel_id));
    let mut ids: Vec<ChannelId> = channels.chain(of_voice).collect();
    ids.sort_unstable();
    ids.dedup();
    ids.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_model::{Channel, ChannelType, Guild, GuildId, Member, User, VoiceState};

    const ANA: UserId = UserId::new(7);

    /// State of a relay in the test: the log, and the replica that updates are applied to.
    struct Side {
        log: ChangeLog,
        replica: GuildReplica,
    }

    impl Side {
        fn new(version: u32) -> Self {
            let guild_id = GuildId::new(1);
            let channel = |id| Channel::new(ChannelId::new(id), guild_id, ChannelType::Voice, "room");
            let structure = GuildStructure {
                guild: Arc::new(Guild::new(guild_id, "guild", UserId::new(50))),
                roles: Arc::default(),
                channels: Arc::new((100..130).map(|id| (ChannelId::new(id), Arc::new(channel(id)))).collect()),
            };
            let log = ChangeLog { version, ..ChangeLog::default() };
            Self { log, replica: GuildReplica::new(Arc::new(structure)) }
        }

        fn say(&mut self, channel: u64, message: u64) {
            self.apply(&ReplicaUpdate::Message(ChannelId::new(channel), MessageId::new(message)));
        }

        fn voice(&mut self, channel: Option<u64>) {
            let entry = channel.map(|channel| VoiceEntry {
                state: Arc::new(VoiceState { channel_id: Some(ChannelId::new(channel)), ..VoiceState::new(ANA) }),
                member: Arc::new(Member::new(Arc::new(User::new(ANA, "ana")), Timestamp(0))),
            });
            self.apply(&ReplicaUpdate::Voice(ANA, entry));
        }

        fn apply(&mut self, replica_update: &ReplicaUpdate) {
            self.log.note(replica_update, &self.replica);
            self.replica.apply(replica_update);
        }

        /// Content of an update: channels with changes, users who left, number of voice states.
        fn update(&self, from: u32, holds: impl Fn(u64) -> bool) -> (Vec<u64>, Vec<u64>, usize) {
            let delta = self.log.since(from, &self.replica, |id| holds(id.get()), None);
            let channels = delta.channels.iter().map(|(id, _)| id.get()).collect();
            (channels, delta.left.iter().map(|id| id.get()).collect(), delta.voice.len())
        }
    }

    #[test]
    fn u1_versions_wrap() {
        for start in [0, u32::MAX - 1, u32::MAX, i32::MAX as u32] {
            let mut side = Side::new(start);
            side.say(100, 1);
            let between = side.log.version();
            side.say(101, 2);
            assert_eq!(side.update(start, |_| true), (vec![100, 101], vec![], 0));
            assert_eq!(side.update(between, |_| true), (vec![101], vec![], 0));
            assert_eq!(side.update(side.log.version(), |_| true), (vec![], vec![], 0));
        }
    }

    #[test]
    fn u1_a_user_leaves_voice_after_more_moves_than_the_log_keeps() {
        let moves = LEFT_MAX as u64 * 2;
        for known_in in 0..moves {
            let mut side = Side::new(0);
            let mut from = 0;
            for n in 0..moves {
                side.voice(Some(100 + n));
                if n == known_in {
                    from = side.log.version();
                }
            }
            side.voice(None);
            let update = side.update(from, |id| id == 100 + known_in);
            assert_eq!(update, (vec![], vec![ANA.get()], 0), "known in {known_in}");
            // Sessions updated before these users joined never knew of them.
            assert_eq!(side.update(0, |_| true), (vec![], vec![], 0));
            assert_eq!(side.log.voice[&ANA].was_in.len(), LEFT_MAX);
        }
    }

    #[test]
    fn u2_a_user_who_left_a_hidden_channel_is_not_named() {
        let mut side = Side::new(0);
        side.voice(Some(100));
        let from = side.log.version();
        side.log.forget();
        side.voice(Some(101));
        side.voice(None);
        let update = |can_view: &dyn Fn(u64) -> bool| side.update(from, can_view);
        assert_eq!(update(&|id| id == 100), (vec![], vec![ANA.get()], 0));
        assert_eq!(update(&|id| id == 101), (vec![], vec![], 0));
        assert_eq!(update(&|_| false), (vec![], vec![], 0));
    }

    #[test]
    fn u3_baselines_are_shared_and_forgotten() {
        let mut side = Side::new(0);
        side.say(101, 1);
        side.voice(Some(100));
        let viewed = |ids: &[u64]| ids.iter().copied().map(ChannelId::new).collect::<Arc<[ChannelId]>>();
        let version = side.log.version();
        let one = side.log.rebase(version, &viewed(&[100]));
        assert_eq!(side.log.rebase(version, &viewed(&[100])), one, "sessions with equal knowledge share a baseline");
        let other = side.log.rebase(version, &viewed(&[102]));
        assert!(one != other && side.log.version() != one && side.log.version() != other);
        assert_eq!(side.log.rebase(one, &viewed(&[101])), one, "the first known state counts");
        assert_eq!(side.log.baselines.len(), 2);
        let update = |from, ids: &[u64]| side.update(from, |id| ids.contains(&id));
        assert_eq!(update(one, &[101]), (vec![101], vec![ANA.get()], 0), "out of sight, and a channel with a message");
        assert_eq!(update(one, &[100]), (vec![], vec![], 0), "as it was");
        assert_eq!(update(other, &[100, 102]), (vec![], vec![], 1), "who is there");
        assert_eq!(
            update(side.log.version(), &[100, 101]),
            (vec![], vec![], 0),
            "a session that receives changes only"
        );
        side.log.forget();
        assert!(side.log.is_empty() && side.log.versions_by_baseline.is_empty());
    }
}
