//! Nodes that are killed, and the mirrors of their sessions on other nodes.

use super::{TestCluster, TestPartition};
use guildhall_guild_protocol::{PartitionId, ToGuild};
use guildhall_model::{ChannelId, MessageId};
use guildhall_partition::{
    HandOver, MirrorBatch, MirrorPlaces, MirrorSource, MirrorsTaken, PartitionConfig, ResumeFault, SessionClaim,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

/// Reports of a node on their way: the node that holds the mirrors, the one that reports, and the reports.
#[derive(Clone, Debug)]
pub struct MirrorMail {
    holder: usize,
    from: MirrorSource,
    batch: MirrorBatch,
}

impl MirrorMail {
    /// Whole sessions, sessions of which only the progress is reported, and sessions that have ended.
    #[must_use]
    pub fn counts(&self) -> (usize, usize, usize) {
        (self.batch.sessions.len(), self.batch.progress.len(), self.batch.ended.len())
    }
}

/// A planted fault of session moves, which a model has to notice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MoveFault {
    #[default]
    None,
    /// A session that moves loses the last message of its replay buffer.
    LosesLast,
    /// A session that moves has the last message of its replay buffer twice.
    DoublesLast,
    /// A node does not wait for the messages of guilds that have transferred a session.
    HurriesTransfer,
    /// The node with the mirror acknowledges what a session has done, and forgets it.
    StaleMirror,
}

/// Removes the last message of each session's replay buffer; without one, its last dispatch.
pub(super) fn lose_last(over: &mut HandOver) {
    for session in &mut over.sessions {
        let mut places: Vec<Option<u32>> = session.places().collect();
        let is_message =
            |place: &Option<u32>| place.is_some_and(|place| over.dispatches[place as usize].name == "MESSAGE_CREATE");
        let lost = places.iter().rposition(is_message).or(places.len().checked_sub(1));
        if let Some(at) = lost {
            places.remove(at);
        }
        session.entries.clear();
        places.into_iter().for_each(|place| session.push(place));
    }
}

/// Doubles the last message of each session's replay buffer; without one, its last dispatch.
pub(super) fn double_last(over: &mut HandOver) {
    for session in &mut over.sessions {
        let mut places: Vec<Option<u32>> = session.places().collect();
        let is_message =
            |place: &Option<u32>| place.is_some_and(|place| over.dispatches[place as usize].name == "MESSAGE_CREATE");
        if let Some(at) = places.iter().rposition(is_message) {
            places.insert(at, places[at]);
        }
        session.entries.clear();
        places.into_iter().for_each(|place| session.push(place));
    }
}

struct Places(Vec<u64>);

impl MirrorPlaces for Places {
    fn version(&self) -> u32 {
        self.0.iter().fold(1, |version, incarnation| version * 31 + *incarnation as u32)
    }

    fn holder_of(&self, key: u64) -> Option<u64> {
        (!self.0.is_empty()).then(|| self.0[(key % self.0.len() as u64) as usize])
    }
}

impl TestCluster {
    /// Membership of a node.
    fn incarnation(&self, index: usize) -> u64 {
        1_000 + index as u64
    }

    /// Whether a node lives.
    #[must_use]
    pub fn is_alive(&self, index: usize) -> bool {
        !self.killed.contains(&index)
    }

    fn members(&self) -> BTreeSet<u64> {
        (0..self.partitions.len()).filter(|index| self.is_alive(*index)).map(|index| self.incarnation(index)).collect()
    }

    /// Reports of a node's sessions as they are now, for `deliver_mirrors`.
    pub fn collect_mirrors(&mut self, index: usize) -> Vec<MirrorMail> {
        let now = self.clock.now();
        let own = self.incarnation(index);
        let from = MirrorSource { node: index as u8, incarnation: own };
        let places = Places(self.members().into_iter().filter(|member| *member != own).collect());
        let (mut mail, mut next) = (Vec::new(), Some(0));
        while let Some(slot) = next {
            let page = self.partitions[index].partition.mirror_page(now, &places, slot, 1_000);
            let holder = |incarnation: u64| (incarnation - 1_000) as usize;
            let batches = page.batches.into_iter();
            mail.extend(batches.map(|(to, batch)| MirrorMail { holder: holder(to), from, batch }));
            next = page.next_slot;
        }
        mail
    }

    /// Delivers reports, unless their holder was killed. The node that sent them gets the answer.
    pub fn deliver_mirrors(&mut self, mail: Vec<MirrorMail>) -> MirrorsTaken {
        let mut sum = MirrorsTaken::default();
        for MirrorMail { holder, from, mut batch } in mail {
            if self.move_fault == MoveFault::StaleMirror {
                batch.progress.clear();
            }
            if self.is_alive(holder) {
                let taken = self.partitions[holder].partition.take_mirrors(self.clock.now(), from, batch);
                sum.refused_count += taken.refused_count;
                sum.unknown_count += taken.unknown_count;
                if taken.unknown_count > 0 {
                    self.lose_mirrors(vec![MirrorMail { holder, from, batch: MirrorBatch::default() }]);
                }
            }
        }
        sum
    }

    /// Reports are lost, and the node that sent them notices it.
    pub fn lose_mirrors(&mut self, mail: Vec<MirrorMail>) {
        for MirrorMail { holder, from, batch } in mail {
            let (node, holder) = (usize::from(from.node), self.incarnation(holder));
            self.partitions[node].partition.mirrors_lost(Some(holder));
            self.partitions[node].partition.mirrors_end_again(holder, &batch.ended);
        }
    }

    /// Reports of all living nodes.
    pub fn mirror_all(&mut self) {
        for index in 0..self.partitions.len() {
            if self.is_alive(index) {
                let mail = self.collect_mirrors(index);
                self.deliver_mirrors(mail);
            }
        }
    }

    /// Kills a node: its connections and sessions are gone, and nothing of it is delivered. Guilds run elsewhere. The
    /// other nodes notice it at `end_lease`.
    pub fn kill(&mut self, index: usize) {
        self.killed.insert(index);
        let sockets = self.partitions[index].link.keys().into_iter();
        let sockets: Vec<_> = sockets.filter_map(|key| self.partitions[index].link.socket(key).cloned()).collect();
        sockets.iter().for_each(|socket| socket.cut());
        let config = super::TestClusterConfig {
            partition: PartitionConfig { session_secret: [9; 32], ..self.config.partition.clone() },
            ..self.config.clone()
        };
        self.partitions[index] = TestPartition::new(index as u16, &config, &self.gate);
    }

    /// The other nodes notice which nodes are gone, and guilds drop their relays.
    pub fn end_lease(&mut self) {
        let (now, members) = (self.clock.now(), self.members());
        for index in 0..self.partitions.len() {
            self.partitions[index].partition.note_members(now, &members);
        }
        self.unsubscribe_killed();
    }

    /// Guilds drop the relays of killed nodes.
    pub fn unsubscribe_killed(&mut self) {
        let killed: BTreeSet<u8> = self.killed.iter().map(|index| *index as u8).collect();
        let is_gone = |partition: PartitionId| killed.contains(&partition.node());
        let gone: BTreeMap<_, _> = self
            .streams
            .iter()
            .map(|(guild_id, streams)| {
                let of_gone = streams.subscribed().into_iter().filter(|(relay, _)| is_gone(relay.partition));
                (*guild_id, of_gone.collect::<Vec<_>>())
            })
            .collect();
        for (guild_id, relays) in gone {
            for (relay, epoch) in relays {
                self.send_to_guild(guild_id, ToGuild::Unsubscribe { relay, epoch });
            }
        }
        self.run_until_idle();
    }

    /// Drops the held events for accounts of a node.
    pub fn drop_news(&mut self, index: usize) {
        self.partitions[index].news.clear();
    }

    /// Messages of a channel with these ids, as the store has them.
    #[must_use]
    pub fn messages_in(&self, channel_id: ChannelId, ids: &Range<MessageId>) -> Vec<MessageId> {
        let of_channel = self.messages.keys().filter(|(channel, id)| *channel == channel_id && ids.contains(id));
        of_channel.map(|(_, id)| *id).collect()
    }

    /// The node has its sessions: it is no longer killed, and other nodes drop their mirrors of them.
    pub fn forget_mirrors_of(&mut self, node: usize) {
        self.partitions.iter_mut().for_each(|entry| entry.partition.forget_mirrors_of(node as u8));
    }

    /// The session from its newest mirror; the others are dropped.
    pub(super) fn release_mirrored(&mut self, claim: &SessionClaim) -> Result<HandOver, ResumeFault> {
        let now = self.clock.now();
        let view = |index: usize| self.partitions[index].partition.mirror_view(now, &claim.session_id);
        let mut places: Vec<_> = (0..self.partitions.len())
            .filter(|index| self.is_alive(*index))
            .filter_map(|index| view(index).and_then(|view| Some((view.seq, index, view.unsent?))))
            .collect();
        places.sort_unstable_by_key(|(seq, index, _)| (*seq, *index));
        let (_, newest, unsent) = places.pop().ok_or(ResumeFault::Unknown)?;
        places.into_iter().for_each(|(_, index, _)| self.partitions[index].partition.drop_mirror(&claim.session_id));
        let is_direct = |channel_id: ChannelId| self.guilds.contains_key(&channel_id.cast());
        let stored = self.messages.keys().filter(|(channel_id, id)| is_direct(*channel_id) && unsent.contains(id));
        let stored: Vec<_> = stored.copied().collect();
        let over = self.partitions[newest].partition.release_mirror(now, claim, &stored)?;
        let text = serde_json::to_string(&over).expect("it is plain data");
        Ok(serde_json::from_str(&text).expect("as it was written"))
    }

    /// Drops what was on its way to a killed node.
    pub(super) fn drop_for_killed(&mut self, index: usize) -> bool {
        if self.is_alive(index) {
            return false;
        }
        let TestPartition { mail, commands, news, .. } = &mut self.partitions[index];
        mail.clear();
        commands.clear();
        news.clear();
        true
    }
}
