//! Member lists: subscriptions of a relay's sessions, and the updates they receive.
//!
//! Owns        per list the current rows of each watched interval, and which sessions watch which intervals; sessions
//!             with equal intervals share one event.
//! Doors       `set` when a session subscribes, `handle` for the guild's updates, `remove` and `restart`.
//! Invariants  M1 a session that watches an interval received a SYNC of it and every change since, once. M2 the relay
//!             requests from the guild exactly the intervals that its sessions watch. M3 a session receives no list of
//!             a channel that it cannot view: whenever its view may have changed, it is subscribed again. (tests)
//! Limits      5 channels × 5 intervals per session; stored rows: those of the watched intervals.
//! Not here    the lists themselves, which the guild maintains.     Spec  docs/protocol/reference.md §8.4, §8.6.

use crate::{audience::Map, relay::ToGuilds};
use guildhall_guild_protocol::{
    AudienceRule, Event, ListChange, ListUpdate, Payload, Published, RelayId, ReplicaUpdate, ToGuild,
};
use guildhall_member_list::{Interval, Item, ListId, ListOp};
use guildhall_model::{
    ChannelId, EventName, GuildId, UserId,
    to_gateway::{ChannelRanges, RowRange},
};
use guildhall_stdx::heap::{self, Sample};
use smallvec::SmallVec;
use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::Arc,
};

const BLOCK_ROWS: u64 = 100;

/// Intervals of one list that a session watches, ascending.
type Intervals = SmallVec<[Interval; 3]>;

/// An event and the slots of its recipients.
pub(crate) type Delivery = (Arc<Published>, Vec<u32>);

/// A session's view of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChannelView {
    pub list: ListId,
    /// The account can view it.
    pub is_in_view: bool,
}

/// Intervals of one session in one list.
#[derive(Debug)]
struct WatchedIntervals {
    list: ListId,
    /// Intervals that the session has the rows of.
    has: Intervals,
    /// Intervals that it requested; more than `has` while the guild's answer is pending.
    wants: Intervals,
}

#[derive(Debug)]
struct Watcher {
    user_id: UserId,
    /// Subscribed ranges, whether the channels are visible or not. Shared with the session.
    channels: Arc<[ChannelRanges]>,
    lists: SmallVec<[WatchedIntervals; 1]>,
}

const _: () = assert!(size_of::<Watcher>() <= 112, "there is one per active session");

#[derive(Debug, Default)]
struct IntervalRows {
    /// Rows last sent; none until the guild has answered.
    rows: Option<Arc<[Item]>>,
    watchers_count: u32,
}

/// One watched list.
#[derive(Debug)]
struct WatchedList {
    /// A channel with this list, named in the request to the guild.
    channel_id: ChannelId,
    /// None until the guild has answered.
    counts: Option<Counts>,
    intervals: BTreeMap<Interval, IntervalRows>,
    /// Sessions by the intervals that they have.
    sets: BTreeMap<Intervals, BTreeSet<u32>>,
    /// Sessions whose requested intervals are not complete yet.
    waiting: BTreeSet<u32>,
    /// The last SYNC event since a change. The next session that subscribes to the same intervals receives the same
    /// event, because its rendered frame is large.
    synced: Option<(Intervals, Arc<Published>)>,
}

#[derive(Clone, Debug)]
struct Counts {
    member_count: u64,
    online_count: u64,
    groups: Arc<[guildhall_member_list::Group]>,
}

/// Subscriptions to member lists of a relay's sessions.
#[derive(Debug, Default)]
pub(crate) struct MemberLists {
    lists: BTreeMap<ListId, WatchedList>,
    by_slot: Map<u32, Box<Watcher>>,
}

/// Clients use blocks of 100 rows: one that requests rows 0 to 300 waits for row 399.
fn whole_blocks(range: &RowRange) -> [u64; 2] {
    let (first, last) = (u64::from(range.first), u64::from(range.last));
    [first / BLOCK_ROWS * BLOCK_ROWS, last / BLOCK_ROWS * BLOCK_ROWS + BLOCK_ROWS - 1]
}

/// Requests to the guild for one list.
#[derive(Default)]
struct ListRequests {
    added: Vec<Interval>,
    removed: Vec<Interval>,
}

impl ListRequests {
    fn add(&mut self, intervals: Vec<Interval>) {
        let new = intervals.into_iter().filter(|interval| !self.added.contains(interval)).collect::<Vec<_>>();
        self.added.extend(new);
    }
}

/// Form of a list's events.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ListForm {
    Viewed,
    /// For a session that may not view the list's channel: without groups.
    Hidden,
}

impl MemberLists {
    /// Estimated heap memory.
    pub fn heap_bytes(&self, sample: Sample) -> usize {
        let of_rows =
            |of: &IntervalRows| of.rows.as_ref().map_or(0, |rows| size_of_val(&**rows) / Arc::strong_count(rows));
        let of_list = |list: &WatchedList| {
            Sample::SMALL.of_tree(&list.intervals, |_, rows| of_rows(rows))
                + Sample::SMALL.of_tree(&list.sets, |_, slots| heap::of_set(slots))
                + heap::of_set(&list.waiting)
        };
        let of_watcher = |watcher: &Watcher| {
            let ranges = watcher.channels.iter().map(|ranges| heap::of_buffer(&ranges.ranges)).sum::<usize>();
            let channels = heap::allocated(2 * size_of::<usize>() + size_of_val(&*watcher.channels)) + ranges;
            heap::boxed::<Watcher>() + channels / Arc::strong_count(&watcher.channels)
        };
        sample.of_tree(&self.lists, |_, list| of_list(list))
            + sample.of_map(&self.by_slot, |_, watcher| of_watcher(watcher))
    }

    /// A session's subscribed ranges before its guild view was reset.
    pub fn subscribed_channels(&self, slot: u32) -> Option<(UserId, Arc<[ChannelRanges]>)> {
        self.by_slot.get(&slot).map(|watcher| (watcher.user_id, watcher.channels.clone()))
    }

    /// Sessions with subscriptions, sorted.
    pub fn slots(&self) -> Vec<u32> {
        let mut slots: Vec<u32> = self.by_slot.keys().copied().collect();
        slots.sort_unstable();
        slots
    }

    /// Replaces the ranges of a session. `look_at` returns the session's view of a channel.
    pub fn set(
        &mut self,
        guild_id: GuildId,
        relay: RelayId,
        (user_id, slot): (UserId, u32),
        channels: Arc<[ChannelRanges]>,
        look_at: impl Fn(ChannelId) -> Option<ChannelView>,
        to_guild: &mut ToGuilds,
    ) -> Vec<Delivery> {
        let mut wanted: BTreeMap<ListId, (ChannelId, Vec<[u64; 2]>)> = BTreeMap::new();
        for ChannelRanges { channel_id, ranges } in &*channels {
            let Some(channel_view) = look_at(*channel_id).filter(|channel_view| channel_view.is_in_view) else {
                continue;
            };
            let (_, of_list) = wanted.entry(channel_view.list).or_insert_with(|| (*channel_id, Vec::new()));
            of_list.extend(ranges.iter().map(whole_blocks));
        }
        let is_empty = channels.is_empty();
        let watcher = self
            .by_slot
            .entry(slot)
            .or_insert_with(|| Box::new(Watcher { user_id, channels: Arc::default(), lists: SmallVec::new() }));
        watcher.channels = channels;
        let before: Vec<ListId> = watcher.lists.iter().map(|of| of.list).collect();
        let mut deliveries = Vec::new();
        for list in before.into_iter().filter(|list| !wanted.contains_key(list)) {
            // A session that unsubscribes receives the groups a last time; a session that lost access
            // receives empty groups.
            let named = self.lists.get(&list).map(|watched| watched.channel_id);
            let still = named.filter(|id| look_at(*id) == Some(ChannelView { list, is_in_view: true }));
            deliveries.extend(self.want(guild_id, relay, slot, (list, still, true), Intervals::new(), to_guild));
        }
        for (list, (channel_id, ranges)) in wanted {
            let wants = Interval::from_ranges(ranges).into();
            // While the named channel has the list, earlier requests remain valid.
            let named = self.lists.get(&list).and_then(|watched| look_at(watched.channel_id));
            let is_valid = named.is_some_and(|channel_view| channel_view.list == list);
            deliveries.extend(self.want(guild_id, relay, slot, (list, Some(channel_id), is_valid), wants, to_guild));
        }
        if is_empty {
            self.by_slot.remove(&slot);
        }
        deliveries
    }

    /// Replaces a session's intervals of a list, requested by a channel that it can view (none: no such channel).
    /// `is_valid`: the channel named in earlier requests still has this list. Returns the event to send at once.
    fn want(
        &mut self,
        guild_id: GuildId,
        relay: RelayId,
        slot: u32,
        (list, channel_id, is_valid): (ListId, Option<ChannelId>, bool),
        wants: Intervals,
        to_guild: &mut ToGuilds,
    ) -> Option<Delivery> {
        let of_lists = &mut self.by_slot.get_mut(&slot)?.lists;
        let index = of_lists.iter().position(|of| of.list == list);
        if index.is_none() && wants.is_empty() {
            return None;
        }
        let index = index.unwrap_or_else(|| {
            of_lists.push(WatchedIntervals { list, has: Intervals::new(), wants: Intervals::new() });
            of_lists.len() - 1
        });
        let of = &mut of_lists[index];
        let form = if channel_id.is_none() { ListForm::Hidden } else { ListForm::Viewed };
        let watched = match channel_id {
            Some(channel_id) => self.lists.entry(list).or_insert_with(|| WatchedList::new(channel_id)),
            None => self.lists.get_mut(&list)?,
        };
        let mut requests = watched.count(&of.wants, &wants);
        if let Some(channel_id) = channel_id {
            requests.add(watched.ask_again(channel_id, is_valid));
        }
        of.wants.clone_from(&wants);
        let dropped: Vec<Interval> = of.has.iter().filter(|interval| !wants.contains(interval)).copied().collect();
        watched.leave(slot, &of.has);
        of.has.retain(|interval| wants.contains(interval));
        let mut ops: Vec<ListOp> = dropped.into_iter().map(|interval| ListOp::Invalidate { interval }).collect();
        ops.extend(watched.catch_up(slot, of));
        let is_gone = wants.is_empty();
        let delivery = watched.sync(guild_id, list, ops, form).map(|event| (event, vec![slot]));
        if !requests.added.is_empty() || !requests.removed.is_empty() {
            let (channel_id, ListRequests { added, removed }) = (watched.channel_id, requests);
            to_guild.push(ToGuild::WatchList { relay, list, channel_id, added, removed });
        }
        if is_gone {
            of_lists.remove(index);
        }
        if self.lists.get(&list).is_some_and(|watched| watched.intervals.is_empty()) {
            self.lists.remove(&list);
        }
        delivery
    }

    /// Removes a session that left.
    pub fn remove(&mut self, relay: RelayId, slot: u32, to_guild: &mut ToGuilds) {
        let Some(watcher) = self.by_slot.remove(&slot) else { return };
        for of in watcher.lists {
            let Some(watched) = self.lists.get_mut(&of.list) else { continue };
            let requests = watched.count(&of.wants, &Intervals::new());
            watched.leave(slot, &of.has);
            if !requests.removed.is_empty() {
                let (channel_id, removed) = (watched.channel_id, requests.removed);
                to_guild.push(ToGuild::WatchList { relay, list: of.list, channel_id, added: Vec::new(), removed });
            }
            if watched.intervals.is_empty() {
                self.lists.remove(&of.list);
            }
        }
    }

    /// The stream restarted: earlier rows are invalid, and sessions subscribe again when they are attached.
    pub fn restart(&mut self, relay: RelayId, to_guild: &mut ToGuilds) {
        for (list, watched) in std::mem::take(&mut self.lists) {
            let (channel_id, removed) = (watched.channel_id, watched.intervals.into_keys().collect());
            to_guild.push(ToGuild::WatchList { relay, list, channel_id, added: Vec::new(), removed });
        }
        self.by_slot.values_mut().for_each(|watcher| watcher.lists.clear());
    }

    /// Handles an update from the guild: changes, or requested rows.
    pub fn handle(&mut self, guild_id: GuildId, update: &ListUpdate) -> Vec<Delivery> {
        let list = update.list;
        let Some(watched) = self.lists.get_mut(&list) else { return Vec::new() };
        watched.synced = None;
        watched.counts = Some(Counts {
            member_count: update.member_count,
            online_count: update.online_count,
            groups: update.groups.clone(),
        });
        let mut changed: BTreeMap<Interval, Cow<'_, [ListOp]>> = BTreeMap::new();
        for change in &update.intervals {
            let Some(kept) = watched.intervals.get_mut(&change.interval) else { continue };
            let Some(before) = kept.rows.replace(change.rows.clone()) else { continue };
            if !change.ops.is_empty() {
                changed.insert(change.interval, Cow::Borrowed(&change.ops));
            } else if before != change.rows {
                // The rows for a repeated request may answer the earlier request.
                let sync = ListOp::Sync { interval: change.interval, items: change.rows.clone() };
                changed.insert(change.interval, Cow::Owned(vec![sync]));
            }
        }
        let mut events = Vec::new();
        for (intervals, slots) in &watched.sets {
            let of_set = intervals.iter().filter_map(|interval| changed.get(interval));
            let ops: Vec<ListOp> = of_set.flat_map(|ops| ops.iter().cloned()).collect();
            if let Some(event) = watched.event(guild_id, list, ops, ListForm::Viewed) {
                events.push((event, slots.iter().copied().collect()));
            }
        }
        for slot in mem::take(&mut watched.waiting) {
            let of_lists = self.by_slot.get_mut(&slot).map(|watcher| &mut watcher.lists);
            let Some(of) = of_lists.and_then(|lists| lists.iter_mut().find(|of| of.list == list)) else { continue };
            watched.leave(slot, &of.has);
            let ops = watched.catch_up(slot, of);
            events.extend(watched.sync(guild_id, list, ops, ListForm::Viewed).map(|event| (event, vec![slot])));
        }
        events
    }
}

impl WatchedList {
    fn new(channel_id: ChannelId) -> Self {
        Self {
            channel_id,
            counts: None,
            intervals: BTreeMap::new(),
            sets: BTreeMap::new(),
            waiting: BTreeSet::new(),
            synced: None,
        }
    }

    /// Updates the watcher counts for one session; returns intervals that are newly watched and no longer watched.
    fn count(&mut self, before: &Intervals, after: &Intervals) -> ListRequests {
        let mut requests = ListRequests::default();
        for interval in after.iter().filter(|interval| !before.contains(interval)) {
            let kept = self.intervals.entry(*interval).or_default();
            kept.watchers_count += 1;
            if kept.watchers_count == 1 {
                requests.added.push(*interval);
            }
        }
        for interval in before.iter().filter(|interval| !after.contains(interval)) {
            let Some(kept) = self.intervals.get_mut(interval) else { continue };
            kept.watchers_count -= 1;
            if kept.watchers_count == 0 {
                self.intervals.remove(interval);
                requests.removed.push(*interval);
            }
        }
        requests
    }

    /// Intervals to request again when a request names a new channel. The guild ignores a request whose channel has
    /// another list by then. So if the earlier channel no longer has this list, everything is requested through the new
    /// one, including intervals that have rows, which may answer a request from before a restart of the stream.
    /// Otherwise only unanswered intervals are repeated: the guild may have had no room for the list.
    fn ask_again(&mut self, channel_id: ChannelId, stands: bool) -> Vec<Interval> {
        if stands && self.channel_id == channel_id {
            return Vec::new();
        }
        let again = self.intervals.iter().filter(|(_, kept)| !stands || kept.rows.is_none());
        let again = again.map(|(interval, _)| *interval).collect();
        if !stands {
            self.channel_id = channel_id;
        }
        again
    }

    /// Removes a session from the set of sessions with these intervals.
    fn leave(&mut self, slot: u32, has: &Intervals) {
        self.waiting.remove(&slot);
        if let Some(slots) = self.sets.get_mut(has) {
            slots.remove(&slot);
            if slots.is_empty() {
                self.sets.remove(has);
            }
        }
    }

    /// Adds a session to the set for its intervals. If all requested rows are here, it includes them, and the returned
    /// operations must be sent; otherwise the session waits.
    fn catch_up(&mut self, slot: u32, of: &mut WatchedIntervals) -> Vec<ListOp> {
        let missing: Vec<Interval> = of.wants.iter().filter(|interval| !of.has.contains(interval)).copied().collect();
        let rows = |interval: &Interval| {
            let items = self.intervals.get(interval)?.rows.clone()?;
            Some(ListOp::Sync { interval: *interval, items })
        };
        let ops: Option<Vec<ListOp>> = missing.iter().map(rows).collect();
        match &ops {
            Some(_) => of.has.clone_from(&of.wants),
            None => {
                self.waiting.insert(slot);
            }
        }
        if !of.has.is_empty() {
            self.sets.entry(of.has.clone()).or_default().insert(slot);
        }
        ops.unwrap_or_default()
    }

    /// SYNC for one session. Reuses the last event if it is equal.
    fn sync(&mut self, guild_id: GuildId, list: ListId, ops: Vec<ListOp>, form: ListForm) -> Option<Arc<Published>> {
        let interval_of = |op: &ListOp| match op {
            ListOp::Sync { interval, .. } => Some(*interval),
            _ => None,
        };
        let Some(intervals) = ops.iter().map(interval_of).collect::<Option<Intervals>>() else {
            return self.event(guild_id, list, ops, form);
        };
        if let Some((_, event)) = self.synced.as_ref().filter(|(of, _)| *of == intervals && form == ListForm::Viewed) {
            return Some(event.clone());
        }
        let event = self.event(guild_id, list, ops, form)?;
        self.synced = Some((intervals, event.clone()));
        Some(event)
    }

    fn event(&self, guild_id: GuildId, list: ListId, ops: Vec<ListOp>, form: ListForm) -> Option<Arc<Published>> {
        let counts = self.counts.as_ref().filter(|_| !ops.is_empty())?;
        let payload = Payload::MemberList(Box::new(ListChange {
            list,
            member_count: counts.member_count,
            online_count: counts.online_count,
            groups: if form == ListForm::Hidden { Arc::default() } else { counts.groups.clone() },
            ops,
        }));
        let rule = if form == ListForm::Hidden { AudienceRule::Members } else { AudienceRule::List(list) };
        let event = Event::new(guild_id, EventName::GuildMemberListUpdate, rule, payload);
        Some(Arc::new(Published { event, replica_update: ReplicaUpdate::None }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_guild_protocol::{IntervalUpdate, PartitionId};

    const GUILD: GuildId = GuildId::new(1);
    const CHANNEL: ChannelId = ChannelId::new(2);

    fn answered_rows(lists: &mut MemberLists) -> Vec<Delivery> {
        let interval = Interval::from_ranges([[0, 99]])[0];
        let update = ListUpdate {
            list: ListId::Everyone,
            member_count: 5,
            online_count: 3,
            groups: Arc::default(),
            intervals: vec![IntervalUpdate { interval, ops: Vec::new(), rows: Arc::default() }],
        };
        lists.handle(GUILD, &update)
    }

    fn look(lists: &mut MemberLists, slot: u32) -> Vec<Delivery> {
        let rows = [ChannelRanges { channel_id: CHANNEL, ranges: vec![RowRange { first: 0, last: 99 }] }].into();
        let (relay, user) = (RelayId::first(PartitionId(0)), UserId::new(u64::from(slot)));
        lists.set(
            GUILD,
            relay,
            (user, slot),
            rows,
            |_| Some(ChannelView { list: ListId::Everyone, is_in_view: true }),
            &mut ToGuilds::new(),
        )
    }

    #[test]
    fn watchers_are_notified_in_a_fixed_order() {
        let mut lists = MemberLists::default();
        (0..50).rev().for_each(|slot| drop(look(&mut lists, slot)));
        assert_eq!(lists.slots(), Vec::from_iter(0..50));
    }

    /// Requests to the guild when a session subscribes to these channels: list, channel, number of intervals. The first
    /// channel has list `of_first`, all others the list `everyone`.
    fn requests(lists: &mut MemberLists, slot: u32, channels: &[u64], of_first: ListId) -> Vec<(ListId, u64, usize)> {
        let ranges = vec![RowRange { first: 0, last: 99 }];
        let rows = |id: &u64| ChannelRanges { channel_id: ChannelId::new(*id), ranges: ranges.clone() };
        let look_at = |id| {
            let list = if id == CHANNEL { of_first } else { ListId::Everyone };
            Some(ChannelView { list, is_in_view: true })
        };
        let (relay, user) = (RelayId::first(PartitionId(0)), UserId::new(u64::from(slot)));
        let (mut requests, rows) = (ToGuilds::new(), channels.iter().map(rows).collect());
        lists.set(GUILD, relay, (user, slot), rows, look_at, &mut requests);
        let named = |message: &ToGuild| match message {
            ToGuild::WatchList { list, channel_id, added, .. } => Some((*list, channel_id.get(), added.len())),
            _ => None,
        };
        requests.iter().filter_map(named).collect()
    }

    #[test]
    fn m2_intervals_are_requested_again_when_the_channel_has_another_list() {
        let mut lists = MemberLists::default();
        assert_eq!(requests(&mut lists, 1, &[2, 3], ListId::Everyone), [(ListId::Everyone, 2, 1)]);
        let again = requests(&mut lists, 1, &[2, 3], ListId::Hash(7));
        assert_eq!(again, [(ListId::Everyone, 3, 1), (ListId::Hash(7), 2, 1)]);
        assert_eq!(requests(&mut lists, 1, &[2, 3], ListId::Hash(7)), [], "once");
    }

    /// The answer may belong to a request from before a restart of the stream; the guild ignored the later request.
    #[test]
    fn m2_intervals_are_requested_again_after_an_answer() {
        let mut lists = MemberLists::default();
        assert_eq!(requests(&mut lists, 1, &[2, 3], ListId::Everyone), [(ListId::Everyone, 2, 1)]);
        assert_eq!(answered_rows(&mut lists).len(), 1);
        let again = requests(&mut lists, 1, &[2, 3], ListId::Hash(7));
        assert_eq!(again, [(ListId::Everyone, 3, 1), (ListId::Hash(7), 2, 1)]);
    }

    #[test]
    fn m2_a_request_through_another_channel_is_repeated_until_it_is_answered() {
        let mut lists = MemberLists::default();
        assert_eq!(requests(&mut lists, 1, &[3], ListId::Everyone), [(ListId::Everyone, 3, 1)]);
        assert_eq!(requests(&mut lists, 2, &[3], ListId::Everyone), []);
        assert_eq!(requests(&mut lists, 3, &[4], ListId::Everyone), [(ListId::Everyone, 3, 1)]);
        answered_rows(&mut lists);
        assert_eq!(requests(&mut lists, 4, &[5], ListId::Everyone), []);
        assert_eq!(requests(&mut lists, 5, &[2], ListId::Everyone), []);
    }

    /// A request from before a restart may be answered after it, and the repeated request after that.
    #[test]
    fn m1_a_second_answer_with_other_rows_is_delivered() {
        use guildhall_member_list::{Group, GroupId};
        let mut lists = MemberLists::default();
        look(&mut lists, 1);
        let mut answer = |count| {
            let rows: Arc<[Item]> = [Item::Group(Group { id: GroupId::Online, count })].into();
            let interval = Interval::from_ranges([[0, 99]])[0];
            let update = ListUpdate {
                list: ListId::Everyone,
                member_count: 5,
                online_count: 3,
                groups: Arc::default(),
                intervals: vec![IntervalUpdate { interval, ops: Vec::new(), rows: rows.clone() }],
            };
            let deliveries = lists.handle(GUILD, &update);
            let is_sync = |(event, slots): &Delivery| match &event.event.payload {
                Payload::MemberList(change) => {
                    *slots == [1] && change.ops == [ListOp::Sync { interval, items: rows.clone() }]
                }
                _ => false,
            };
            (deliveries.len(), deliveries.iter().all(is_sync))
        };
        assert_eq!(answer(3), (1, true));
        assert_eq!(answer(3), (0, true), "they know");
        assert_eq!(answer(4), (1, true));
    }

    #[test]
    fn watchers_of_equal_rows_share_one_event_until_the_rows_change() {
        let mut lists = MemberLists::default();
        assert!(look(&mut lists, 1).is_empty() && look(&mut lists, 2).is_empty(), "the guild must answer first");
        let first = answered_rows(&mut lists);
        assert_eq!(first.iter().flat_map(|(_, slots)| slots.clone()).collect::<Vec<_>>(), [1, 2]);
        let later = look(&mut lists, 3);
        assert!(first.iter().chain(&later).all(|(event, _)| Arc::ptr_eq(event, &first[0].0)));
        assert_eq!(later[0].1, [3]);
        assert!(answered_rows(&mut lists).is_empty(), "nothing changed");
        assert!(!Arc::ptr_eq(&look(&mut lists, 4)[0].0, &first[0].0), "counts may have");
    }
}
