//! Guild account: the time and the events of one guild, since it was loaded.
//!
//! Owns        `GuildTally`, the figures that a host keeps, and `LoadedGuilds`, through which a worker reports them.
//! Invariants  G1 the busy time of a guild is the sum over its message types. (test `g1_*`)
//! Limits      per message type that occurred 48 bytes and its histogram, 904 bytes at most and mostly some hundred;
//!             `CHANNELS_MAX` channels. A report has `GUILDS_LISTED_MAX`
//!             guilds; making it visits every host of the worker. Without requests for reports it costs nothing.
//! Not here    clocks (`worker`); deliveries and sessions, which partitions count by relay.

use crate::{
    accounts::Kind,
    cluster::{BusyTimes, WorkerLoads, largest, share},
    guild_host::GuildHost,
    mailbox::Mailbox,
    pipeline::CommitUnit,
};
use guildhall_accounting::{LoopAccount, SparseDurations, report};
use guildhall_cluster::GuildLoad;
use guildhall_guild::Guild;
use guildhall_guild_protocol::{AudienceRule, Event, Payload, Published, RelayMessage};
use guildhall_model::{Channel, ChannelId, ChannelType, GuildId};
use guildhall_stdx::heap::{MemoryUse, Sample};
use std::{cmp::Reverse, collections::HashMap, sync::Arc, time::Instant};

/// Guilds of a report.
pub const GUILDS_LISTED_MAX: usize = 1_000;
/// Channels that a guild's events are counted by.
const CHANNELS_MAX: usize = 64;

/// The guilds of a node that keep their workers busiest.
#[derive(Clone, Debug, Default)]
pub struct GuildAccounts {
    /// Guilds in memory, without direct messages.
    pub loaded: u64,
    /// The busiest first. Figures of their relays are 0: `report::Guild::add_relay` adds them.
    pub guilds: Vec<report::Guild>,
}

/// One guild by message type and channel.
#[derive(Clone, Debug, Default)]
pub struct GuildAccount {
    /// Its totals, without those of its relays.
    pub guild: report::Guild,
    /// Its worker's time by message type.
    pub types: Vec<report::MessageType>,
    /// Events by channel, the most first. Of more than 64 channels, those with the most are right, and a channel
    /// that took another's place has its count as well.
    pub channels: Vec<report::Channel>,
}

#[derive(Clone, Debug)]
struct KindTally {
    kind: Kind,
    times: SparseDurations,
}

/// Figures of one guild.
#[derive(Debug, Default)]
pub(crate) struct GuildTally {
    /// Message types that occurred, ascending.
    kinds: Vec<KindTally>,
    events: u64,
    channels: Vec<(ChannelId, u64)>,
}

impl GuildTally {
    /// A message of this type took `ns`.
    pub(crate) fn handled(&mut self, kind: Kind, ns: u64) {
        if !guildhall_accounting::is_on() {
            return;
        }
        let at = self.kinds.binary_search_by_key(&kind, |tally| tally.kind).unwrap_or_else(|at| {
            self.kinds.insert(at, KindTally { kind, times: SparseDurations::default() });
            at
        });
        self.kinds[at].times.record(ns);
    }

    /// The events of a unit are published. An event for several relays counts once.
    pub(crate) fn published(&mut self, unit: &CommitUnit) {
        let mut last: Option<&Arc<Published>> = None;
        for output in &unit.relay {
            let RelayMessage::Published(published) = &output.message else { continue };
            if !last.is_some_and(|last| Arc::ptr_eq(last, published)) {
                self.count(&published.event);
                last = Some(published);
            }
        }
        unit.users.iter().for_each(|published| self.count(&published.event));
    }

    fn count(&mut self, event: &Event) {
        self.events += 1;
        let Some(channel_id) = channel_of(event) else { return };
        if let Some((_, count)) = self.channels.iter_mut().find(|(known, _)| *known == channel_id) {
            *count += 1;
        } else if self.channels.len() < CHANNELS_MAX {
            self.channels.push((channel_id, 1));
        } else if let Some(least) = self.channels.iter_mut().min_by_key(|(_, count)| *count) {
            // The algorithm is Space-Saving: the channels with the most events are never lost.
            *least = (channel_id, least.1 + 1);
        }
    }

    fn busy_ns(&self) -> u64 {
        self.kinds.iter().map(|tally| tally.times.total_ns()).sum()
    }
}

/// The channel that an event is in, or is about.
fn channel_of(event: &Event) -> Option<ChannelId> {
    match &event.payload {
        Payload::Channel(channel) => return Some(channel.id),
        Payload::ChannelMemberCount { channel_id, .. } => return Some(*channel_id),
        _ => {}
    }
    match &event.audience.rule {
        AudienceRule::Channel(channel_id)
        | AudienceRule::ChannelExcept(channel_id, _)
        | AudienceRule::ChannelPermission(channel_id, _)
        | AudienceRule::Thread { thread: channel_id, .. } => Some(*channel_id),
        AudienceRule::Members
        | AudienceRule::GuildPermission(_)
        | AudienceRule::Channels(_)
        | AudienceRule::List(_)
        | AudienceRule::User(_)
        | AudienceRule::Users(_)
        | AudienceRule::Roles(_) => None,
    }
}

fn channel_report(guild: &Guild, channel_id: ChannelId, events_total: u64) -> report::Channel {
    let channel = guild.channel(channel_id);
    let (name, kind) = channel.map_or(("", ""), |channel| (public_name(channel), kind_of(channel.kind)));
    report::Channel { id: channel_id.to_string(), name: name.to_owned(), kind: kind.to_owned(), events_total }
}

/// The name, unless only the people in it know it: a key of the backend API does not read private threads and direct
/// messages either.
fn public_name(channel: &Channel) -> &str {
    match channel.kind {
        ChannelType::PrivateThread | ChannelType::Dm | ChannelType::GroupDm => "",
        _ => &channel.name,
    }
}

/// Name of a channel type in reports.
const fn kind_of(kind: ChannelType) -> &'static str {
    match kind {
        ChannelType::Text => "text",
        ChannelType::Dm => "direct_message",
        ChannelType::Voice => "voice",
        ChannelType::GroupDm => "group_of_direct_messages",
        ChannelType::Category => "category",
        ChannelType::Announcement => "announcement",
        ChannelType::AnnouncementThread => "announcement_thread",
        ChannelType::PublicThread => "public_thread",
        ChannelType::PrivateThread => "private_thread",
        ChannelType::Stage => "stage",
        ChannelType::Directory => "directory",
        ChannelType::Forum => "forum",
        ChannelType::Media => "media",
    }
}

/// Hosts of a worker at one moment, on its thread.
pub(crate) struct LoadedGuilds<'a> {
    pub(crate) hosts: &'a HashMap<GuildId, GuildHost>,
    pub(crate) worker: usize,
    pub(crate) account: &'a LoopAccount,
    pub(crate) mailbox: &'a Mailbox,
}

impl LoadedGuilds<'_> {
    /// Guilds in memory that relays are subscribed to.
    pub(crate) fn subscribed(&self) -> Vec<GuildId> {
        self.hosts.iter().filter(|(_, host)| host.has_relays()).map(|(guild_id, _)| *guild_id).collect()
    }

    /// The busiest guilds, at most `limit`.
    pub(crate) fn busiest(&self, limit: usize) -> GuildAccounts {
        let loaded = self.hosts.iter().filter(|(_, host)| host.guild().is_some_and(|guild| !guild.is_direct()));
        let mut busy: Vec<(u64, GuildId)> = loaded.map(|(id, host)| (host.tally.busy_ns(), *id)).collect();
        let loaded = busy.len() as u64;
        if busy.len() > limit {
            busy.select_nth_unstable_by_key(limit, |entry| Reverse(*entry));
            busy.truncate(limit);
        }
        busy.sort_unstable_by_key(|entry| Reverse(*entry));
        let guilds = busy.iter().filter_map(|(_, guild_id)| self.totals(*guild_id)).collect();
        GuildAccounts { loaded, guilds }
    }

    /// Guilds in memory that may move to another node for load: direct messages are small.
    fn movable(&self) -> impl Iterator<Item = (GuildId, &GuildHost, &Guild)> {
        let loaded = self.hosts.iter().filter_map(|(id, host)| Some((*id, host, host.guild()?)));
        loaded.filter(|(_, _, guild)| !guild.is_direct())
    }

    /// Busy times until now. Visits every host.
    pub(crate) fn busy_times(&self) -> BusyTimes {
        let guilds_ns = self.movable().map(|(id, host, _)| (id, host.tally.busy_ns())).collect();
        BusyTimes { at: Instant::now(), worker_ns: self.account.busy_ns(), guilds_ns }
    }

    /// Loads since `before`, of the `max` guilds that took most time and the `max` with most members. Guilds that were
    /// loaded since are left out.
    pub(crate) fn loads_since(&self, before: &BusyTimes, max: usize) -> WorkerLoads {
        let elapsed = before.at.elapsed();
        let load = |(guild_id, host, guild): (GuildId, &GuildHost, &Guild)| {
            let busy_ns = host.tally.busy_ns().saturating_sub(*before.guilds_ns.get(&guild_id)?);
            let bytes = guild.members_count() as u64;
            Some(GuildLoad { guild_id, busy: share(busy_ns, elapsed), bytes, arrived_ms: None })
        };
        // `bytes` is the number of members until the bytes of the chosen guilds are read.
        let mut guilds = largest(self.movable().filter_map(load).collect(), max);
        for load in &mut guilds {
            let guild = self.hosts.get(&load.guild_id).and_then(GuildHost::guild);
            let held = guild.map(|guild| guild.memory(Sample::SMALL));
            load.bytes = held.into_iter().flatten().map(|held| held.bytes).sum();
        }
        WorkerLoads { busy: share(self.account.busy_ns().saturating_sub(before.worker_ns), elapsed), guilds }
    }

    /// One guild, if it is loaded.
    pub(crate) fn guild_account(&self, guild_id: GuildId) -> Option<GuildAccount> {
        let totals = self.totals(guild_id)?;
        let host = self.hosts.get(&guild_id)?;
        let (guild, tally) = (host.guild()?, &host.tally);
        let mut channels = tally.channels.clone();
        channels.sort_unstable_by_key(|(channel_id, count)| (Reverse(*count), *channel_id));
        let channels = channels.iter().map(|(channel_id, count)| channel_report(guild, *channel_id, *count)).collect();
        let of_type = |tally: &KindTally| report::MessageType {
            name: self.account.kind_name(tally.kind.index()).to_owned(),
            times: (&tally.times.snapshot()).into(),
        };
        Some(GuildAccount { guild: totals, types: tally.kinds.iter().map(of_type).collect(), channels })
    }

    /// Memory of the guilds, by field. It reads the `READ_MAX` largest, and as many others.
    pub(crate) fn memory(&self) -> Vec<MemoryUse> {
        const READ_MAX: usize = 64;
        let loaded = self.hosts.values().filter_map(GuildHost::guild);
        let by_members = loaded.map(|guild| (guild.members_count(), guild)).collect();
        MemoryUse::of_uneven(by_members, READ_MAX, |guild, sample| guild.memory(sample))
    }

    fn totals(&self, guild_id: GuildId) -> Option<report::Guild> {
        let host = self.hosts.get(&guild_id)?;
        let guild = host.guild()?;
        Some(report::Guild {
            id: guild_id.to_string(),
            name: guild.name().to_owned(),
            worker: self.worker,
            busy_ns_total: host.tally.busy_ns(),
            handled_total: host.tally.kinds.iter().map(|tally| tally.times.count()).sum(),
            events_total: host.tally.events,
            members: guild.members_count() as u64,
            mailbox: self.mailbox.taken_by(guild_id) as u64,
            ..report::Guild::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_guild_protocol::{Payload, RelayId, RelayOutput, ReplicaUpdate};
    use guildhall_model::{EventName, MessageId};

    fn event(rule: AudienceRule) -> Arc<Published> {
        let payload = Payload::MessageDelete { id: MessageId::new(3), channel_id: ChannelId::new(1) };
        let event = Event::new(GuildId::new(9), EventName::MessageDelete, rule, payload);
        Arc::new(Published { event, replica_update: ReplicaUpdate::None })
    }

    #[test]
    fn g1_the_busy_time_is_the_sum_over_message_types() {
        let mut tally = GuildTally::default();
        for (kind, ns) in [(Kind::TIMER, 500), (Kind::BEGIN_COMMIT, 40), (Kind::TIMER, 700)] {
            tally.handled(kind, ns);
        }
        assert_eq!(tally.busy_ns(), 1_240);
        let timer = tally.kinds.iter().find(|tally| tally.kind == Kind::TIMER).unwrap().times.snapshot();
        assert_eq!((timer.count(), timer.total_ns, timer.max_ns, timer.quantile_ns(0.99)), (2, 1_200, 700, 700));
    }

    #[test]
    fn names_of_private_threads_and_direct_messages_are_kept_back() {
        let name = |kind| public_name(&Channel::new(ChannelId::new(1), GuildId::new(9), kind, "secret")).to_owned();
        for kind in [ChannelType::PrivateThread, ChannelType::Dm, ChannelType::GroupDm] {
            assert_eq!(name(kind), "", "{kind:?}");
        }
        for kind in [ChannelType::Text, ChannelType::Voice, ChannelType::PublicThread] {
            assert_eq!(name(kind), "secret", "{kind:?}");
        }
    }

    #[test]
    fn an_event_counts_once_for_all_relays() {
        let mut tally = GuildTally::default();
        let (first, second) = (event(AudienceRule::Members), event(AudienceRule::Channel(ChannelId::new(1))));
        let mut unit = CommitUnit::default();
        for published in [&first, &second] {
            for partition in 0..3 {
                let relay = RelayId::first(guildhall_guild_protocol::PartitionId(partition));
                let message = RelayMessage::Published(published.clone());
                unit.relay.push(RelayOutput { guild_id: GuildId::new(9), relay, epoch: 1, message });
            }
        }
        tally.published(&unit);
        assert_eq!(tally.events, 2);
        assert_eq!(tally.channels, [(ChannelId::new(1), 1)]);
    }

    #[test]
    fn the_loudest_channels_are_never_lost() {
        let mut tally = GuildTally::default();
        let mut say = |channel: u64| tally.count(&event(AudienceRule::Channel(ChannelId::new(channel))).event);
        (0..100).for_each(|_| say(1));
        for channel in 2..1_000 {
            say(channel);
            say(2);
        }
        assert_eq!(tally.channels.len(), CHANNELS_MAX);
        let count = |channel: u64| tally.channels.iter().find(|(id, _)| id.get() == channel).map(|(_, count)| *count);
        assert_eq!((count(1), count(2)), (Some(100), Some(999)));
    }
}
