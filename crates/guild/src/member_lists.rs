//! Member lists that clients watch, kept in order with every change.
//!
//! Owns        per watched list its rows (`guildhall_member_list::MemberList`) and the rows last sent, from which its
//!             updates follow.
//! Doors       `watch_list` from relays; `lists_follow` with every change of a member or presence,
//!             `lists_follow_structure` with every change of roles and channels; `handle_list_built`; `flush_lists`
//!             from the timer.
//! Invariants  Z1 a live list contains exactly the members in the member table who can view its channel. Z2 rows and
//!             groups sent to relays have the same age. Z3 every operation is O(log members): lists are built, and
//!             catch up, in background jobs. (tests)
//! Limits      `lists_max` lists, `list_intervals_max` live intervals per list, one flush per list and `LIST_FLUSH_MS`.
//!             A list past the first limit is not built, and its watchers wait; an interval past the second receives
//!             one SYNC and goes stale.
//! Not here    which sessions watch which intervals (`guildhall_relay`).     Spec  docs/protocol/reference.md §8.6.

use crate::{
    handoff::HandoffItem,
    job::{ListBuild, ListBuilt, ListViewers},
    machine::Guild,
    state::tasks::Watched,
};
use guildhall_guild_protocol::{
    GuildStructure, IntervalUpdate, ListUpdate, MemberEntry, MemberTable, RelayId, RelayMessage, ToGuild,
};
use guildhall_member_list::{Group, Interval, Item, ListId, ListRules, MemberList, Watch};
use guildhall_model::{ChannelId, UserId};
use guildhall_stdx::{
    Instant, Now,
    heap::{self, Sample},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::Arc,
};

/// Minimum interval between updates of a list.
const LIST_FLUSH_MS: u64 = 200;
/// A list with fewer members is built, and catches up, without a job.
const AT_ONCE_MAX: usize = 256;
/// A list without watchers is retained this long, because clients unsubscribe and return.
const LINGER_MS: u64 = 30_000;

#[derive(Debug)]
enum Rows {
    /// The list is being built, or is about to be.
    Building {
        /// Members who changed since the build started.
        touched: BTreeSet<UserId>,
        /// Starting point of the build, until it starts: rows with the member table that they match.
        before: Option<(MemberTable, MemberList)>,
    },
    Live(MemberList),
}

impl Rows {
    const NEW: Self = Self::Building { touched: BTreeSet::new(), before: None };
}

/// A member list of channels with equal visibility.
#[derive(Debug)]
struct List {
    viewers: ListViewers,
    rules: ListRules,
    rows: Rows,
    /// Number of the newest build.
    number: u64,
    watches: BTreeMap<Interval, Watch>,
    /// Intervals that each relay watches.
    wanted: BTreeMap<RelayId, BTreeSet<Interval>>,
    /// Intervals of these whose rows were not sent yet.
    unanswered: BTreeMap<RelayId, BTreeSet<Interval>>,
    groups: Arc<[Group]>,
    flushed_at: Instant,
    /// Start of the time without watchers.
    idle_since: Option<Instant>,
}

/// The lists of one guild.
#[derive(Debug, Default)]
pub(crate) struct MemberLists {
    lists: BTreeMap<ListId, List>,
    last_number: u64,
}

impl MemberLists {
    /// Heap memory of the rows, and of the rows last sent, in bytes.
    pub fn heap_bytes(&self) -> usize {
        let of_list = |list: &List| {
            let rows = match &list.rows {
                Rows::Live(rows) => rows.heap_bytes(),
                Rows::Building { touched, before } => {
                    heap::of_set(touched) + before.as_ref().map_or(0, |(_, rows)| rows.heap_bytes())
                }
            };
            rows + Sample::LARGE.of_tree(&list.watches, |_, watch| watch.heap_bytes())
        };
        Sample::LARGE.of_tree(&self.lists, |_, list| of_list(list))
    }

    /// Rows of all live lists.
    pub fn rows_count(&self) -> usize {
        let of_list = |list: &List| if let Rows::Live(rows) = &list.rows { rows.len_rows() } else { 0 };
        self.lists.values().map(of_list).sum()
    }

    /// Whether there is anything to free.
    pub fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    /// What relays watch, as their messages.
    pub fn handoff_watches(&self, structure: &GuildStructure) -> Vec<HandoffItem> {
        let mut items = Vec::new();
        for (id, list) in &self.lists {
            // The list may have been built for a channel that is gone.
            let channel_id = structure.channels.keys().copied().find(|of| structure.list_of(*of) == Some(*id));
            let Some(channel_id) = channel_id else { continue };
            for (relay, intervals) in &list.wanted {
                let (list, relay) = (*id, *relay);
                let added = intervals.iter().copied().collect();
                items.push(HandoffItem::Relay(ToGuild::WatchList {
                    relay,
                    list,
                    channel_id,
                    added,
                    removed: Vec::new(),
                }));
            }
        }
        items
    }

    /// Intervals whose rows, as they are now, were not sent: those of a list that is being built, and new ones.
    pub fn unanswered(&self) -> Vec<(ListId, RelayId, Vec<Interval>)> {
        let of_list = |(id, list): (&ListId, &List)| {
            let of_relay = |(relay, intervals): (&RelayId, &BTreeSet<Interval>)| {
                (*id, *relay, intervals.iter().copied().collect())
            };
            let unanswered = if matches!(list.rows, Rows::Live(_)) { &list.unanswered } else { &list.wanted };
            unanswered.iter().map(of_relay).collect::<Vec<_>>()
        };
        self.lists.iter().flat_map(of_list).collect()
    }

    /// Removes a relay. Returns its intervals, for `forget_watched`.
    pub fn remove_relay(&mut self, now: Instant, relay: RelayId) -> Watched {
        let mut watched = Watched::default();
        for (id, list) in &mut self.lists {
            list.unanswered.remove(&relay);
            let Some(intervals) = list.wanted.remove(&relay) else { continue };
            watched.0.push((*id, intervals));
            if list.wanted.is_empty() {
                list.idle_since.get_or_insert(now);
            }
        }
        watched
    }

    /// Ends watches of at most `max` intervals, unless other relays watch them. False when none are left.
    pub fn forget_watched(&mut self, watched: &mut Watched, max: usize) -> bool {
        for _ in 0..max {
            let Some((id, intervals)) = watched.0.last_mut() else { return false };
            match intervals.pop_first() {
                None => drop(watched.0.pop()),
                Some(interval) => {
                    if let Some(list) = self.lists.get_mut(id) {
                        list.forget_unwatched([interval]);
                    }
                }
            }
        }
        !watched.0.is_empty()
    }

    /// Time of the next update or cleanup.
    pub fn deadline(&self) -> Option<Instant> {
        let of_list = |list: &List| match (&list.rows, list.idle_since) {
            (_, Some(since)) => Some(since.after_ms(LINGER_MS)),
            (Rows::Live(rows), None) if !rows.dirty().is_empty() => Some(list.flushed_at.after_ms(LIST_FLUSH_MS)),
            _ => None,
        };
        self.lists.values().filter_map(of_list).min()
    }
}

impl List {
    fn forget_unwatched(&mut self, intervals: impl IntoIterator<Item = Interval>) {
        for interval in intervals {
            if !self.wanted.values().any(|wanted| wanted.contains(&interval)) {
                self.watches.remove(&interval);
            }
        }
    }
}

impl Guild {
    /// Changes the intervals that a relay watches.
    pub(crate) fn watch_list(
        &mut self,
        now: Now,
        relay: RelayId,
        id: ListId,
        channel_id: ChannelId,
        added: &[Interval],
        removed: &[Interval],
    ) {
        if self.relays.epoch(relay).is_none() {
            return;
        }
        if let Some(list) = self.lists.lists.get_mut(&id) {
            if let Some(wanted) = list.wanted.get_mut(&relay) {
                wanted.retain(|interval| !removed.contains(interval));
                if wanted.is_empty() {
                    list.wanted.remove(&relay);
                }
            }
            if let Some(unanswered) = list.unanswered.get_mut(&relay) {
                unanswered.retain(|interval| !removed.contains(interval));
            }
            list.forget_unwatched(removed.iter().copied());
            if list.wanted.is_empty() {
                list.idle_since.get_or_insert(now.instant);
            }
        }
        if added.is_empty() || self.structure.list_of(channel_id) != Some(id) || !self.has_list(id, channel_id) {
            return;
        }
        // Rows sent before and rows sent now must have the same age.
        self.flush_list(now, id);
        let Some(list) = self.lists.lists.get_mut(&id) else { return };
        list.idle_since = None;
        list.wanted.entry(relay).or_default().extend(added);
        list.unanswered.entry(relay).or_default().extend(added);
        self.answer_watchers(id);
    }

    /// Whether the list exists or is being built; starts to build it if there is room.
    fn has_list(&mut self, id: ListId, channel_id: ChannelId) -> bool {
        if self.lists.lists.contains_key(&id) {
            return true;
        }
        let Some(channel) = self.structure.channels.get(&channel_id).cloned() else { return false };
        if self.lists.lists.len() >= self.limits.lists_max {
            // Lists without watchers make room.
            let idle = self.lists.lists.iter().find(|(_, list)| list.idle_since.is_some()).map(|(id, _)| *id);
            let Some(idle) = idle else { return false };
            self.drop_list(idle);
        }
        let list = List {
            viewers: ListViewers::new(self.structure.clone(), channel, id),
            rules: self.list_rules(),
            rows: Rows::NEW,
            number: 0,
            watches: BTreeMap::new(),
            wanted: BTreeMap::new(),
            unanswered: BTreeMap::new(),
            groups: Arc::default(),
            flushed_at: Instant::default(),
            idle_since: None,
        };
        self.lists.lists.insert(id, list);
        self.build_list(id, None);
        true
    }

    fn list_rules(&self) -> ListRules {
        ListRules::new(self.structure.roles.values().map(|role| &**role), self.members.len())
    }

    /// Builds a list, or applies changes since its snapshot to built rows.
    fn build_list(&mut self, id: ListId, before: Option<(MemberTable, MemberList)>) {
        self.lists.last_number += 1;
        let (number, members_count) = (self.lists.last_number, self.members.len());
        let Some(list) = self.lists.lists.get_mut(&id) else { return };
        // The result of a running build is discarded.
        list.number = number;
        let touched = match &mut list.rows {
            Rows::Building { touched, .. } => mem::take(touched),
            Rows::Live(_) => BTreeSet::new(),
        };
        let work = if before.is_some() { touched.len() } else { members_count };
        list.rows = Rows::Building { touched, before };
        if work > AT_ONCE_MAX {
            self.enqueue_list(id, number);
        } else if let Some(build) = self.begin_build(id, number) {
            self.handle_list_built(build.run());
        }
    }

    /// Work on the current members. None if the list is no longer wanted.
    pub(crate) fn begin_build(&mut self, id: ListId, number: u64) -> Option<ListBuild> {
        let members = self.members.snapshot();
        let list = self.lists.lists.get_mut(&id).filter(|list| list.number == number)?;
        let Rows::Building { touched, before } = &mut list.rows else { return None };
        let (touched, rows) = (mem::take(touched), before.take());
        let (viewers, rules) = (list.viewers.clone(), list.rules.clone());
        Some(ListBuild { list: id, number, viewers, rules, rows, members, touched })
    }

    /// A build has ended. Changes made since its snapshot are applied, in another job if there are many.
    pub(crate) fn handle_list_built(&mut self, built: ListBuilt) {
        let ListBuilt { list: id, number, rows, members } = built;
        let Some(list) = self.lists.lists.get_mut(&id).filter(|list| list.number == number) else {
            // The list is no longer watched, or was restarted.
            return self.dispose(members.len(), (rows, members));
        };
        if matches!(&list.rows, Rows::Building { touched, .. } if !touched.is_empty()) {
            return self.build_list(id, Some((members, rows)));
        }
        list.rows = Rows::Live(rows);
        self.answer_watchers(id);
        self.dispose(members.len(), members);
    }

    /// Sends relays the rows that they requested, if the list exists.
    fn answer_watchers(&mut self, id: ListId) {
        let max = self.limits.list_intervals_max;
        let Some(list) = self.lists.lists.get_mut(&id) else { return };
        let Rows::Live(rows) = &mut list.rows else { return };
        if list.watches.is_empty() {
            rows.take_dirty();
        }
        list.groups = rows.groups().collect();
        let mut answers = Vec::new();
        for (relay, intervals) in mem::take(&mut list.unanswered) {
            let mut sent = Vec::new();
            for interval in intervals {
                let is_kept = list.watches.contains_key(&interval) || list.watches.len() < max;
                let now_sent: Arc<[Item]> = match is_kept {
                    true => list.watches.entry(interval).or_insert_with(|| Watch::new(rows, interval)).rows().clone(),
                    false => rows.rows(interval.rows()).map(|row| row.to_item()).collect(),
                };
                sent.push(IntervalUpdate { interval, ops: Vec::new(), rows: now_sent });
            }
            answers.push((relay, sent));
        }
        for (relay, intervals) in answers.into_iter().filter(|(_, intervals)| !intervals.is_empty()) {
            let update = self.list_update(id, intervals);
            self.send(relay, RelayMessage::List(update));
        }
    }

    fn list_update(&self, id: ListId, intervals: Vec<IntervalUpdate>) -> Arc<ListUpdate> {
        Arc::new(ListUpdate {
            list: id,
            member_count: self.members.len() as u64,
            online_count: self.members.online_count(),
            groups: self.lists.lists.get(&id).map(|list| list.groups.clone()).unwrap_or_default(),
            intervals,
        })
    }

    /// Follows a member who joined, changed or left, or a changed presence. `before` is the old entry of the table,
    /// which has the new one already.
    pub(crate) fn lists_follow(&mut self, user_id: UserId, before: Option<&MemberEntry>) {
        if self.lists.is_empty() {
            return;
        }
        let after = self.members.entry(user_id);
        let mut renewed = false;
        for list in self.lists.lists.values_mut() {
            match &mut list.rows {
                Rows::Building { touched, .. } => {
                    touched.insert(user_id);
                }
                Rows::Live(rows) => rows.set(list.viewers.entry(before), list.viewers.owned(after)),
            }
            renewed |= before.is_some() != after.is_some();
        }
        // Above a number of members, offline members are not listed any more.
        let count = self.members.len();
        let limit = ListRules::OFFLINE_LISTED_MEMBERS_MAX;
        if renewed && (count == limit || count == limit + 1) {
            self.lists_follow_structure();
        }
    }

    /// Rebuilds the lists that a change of roles, channels or the owner may affect.
    pub(crate) fn lists_follow_structure(&mut self) {
        if self.lists.is_empty() {
            return;
        }
        let rules = self.list_rules();
        let ids: Vec<ListId> = self.lists.lists.keys().copied().collect();
        for id in ids {
            let Some(list) = self.lists.lists.get_mut(&id) else { continue };
            let structure = &self.structure;
            let is_its = |channel: &ChannelId| structure.list_of(*channel) == Some(id);
            let channel_id = Some(list.viewers.channel.id).filter(is_its);
            let channel_id = channel_id.or_else(|| structure.channels.keys().copied().find(|channel| is_its(channel)));
            let Some(channel) = channel_id.and_then(|channel| structure.channels.get(&channel)) else {
                // No channel has this list any more; relays notice that themselves.
                self.drop_list(id);
                continue;
            };
            if list.rules == rules && list.viewers.matches(structure, channel) {
                continue;
            }
            list.viewers = ListViewers::new(structure.clone(), channel.clone(), id);
            list.rules.clone_from(&rules);
            self.dispose_rows(id);
            self.build_list(id, None);
        }
    }

    /// Sends changes, one list at a time.
    pub(crate) fn flush_lists(&mut self, now: Now) {
        let is_due = |list: &&List| match (&list.rows, list.idle_since) {
            (_, Some(since)) => since.after_ms(LINGER_MS) <= now.instant,
            (Rows::Live(rows), None) => {
                !rows.dirty().is_empty() && list.flushed_at.after_ms(LIST_FLUSH_MS) <= now.instant
            }
            _ => false,
        };
        let due = self.lists.lists.iter().filter(|(_, list)| is_due(list)).min_by_key(|(_, list)| list.flushed_at);
        let Some((id, is_idle)) = due.map(|(id, list)| (*id, list.idle_since.is_some())) else { return };
        if is_idle { self.drop_list(id) } else { self.flush_list(now, id) }
    }

    fn flush_list(&mut self, now: Now, id: ListId) {
        let Some(list) = self.lists.lists.get_mut(&id) else { return };
        let Rows::Live(rows) = &mut list.rows else { return };
        let touched = rows.take_dirty();
        if touched.is_empty() {
            return;
        }
        list.flushed_at = now.instant;
        let mut intervals = Vec::new();
        for (interval, watch) in &mut list.watches {
            if touched.meets(*interval)
                && let Some(ops) = watch.update(rows)
            {
                intervals.push(IntervalUpdate { interval: *interval, ops, rows: watch.rows().clone() });
            }
        }
        let groups: Arc<[Group]> = rows.groups().collect();
        if intervals.is_empty() && groups == list.groups {
            return;
        }
        list.groups = groups;
        let relays: Vec<RelayId> = list.wanted.keys().copied().collect();
        let update = self.list_update(id, intervals);
        for relay in relays {
            self.send(relay, RelayMessage::List(update.clone()));
        }
    }

    /// Sends the changes of all lists at once: what watchers were sent is then what the lists contain.
    pub(crate) fn flush_all_lists(&mut self, now: Now) {
        let ids: Vec<ListId> = self.lists.lists.keys().copied().collect();
        ids.into_iter().for_each(|id| self.flush_list(now, id));
    }

    /// Another node has not sent these rows yet. Rows that this guild would have sent before were not.
    pub(crate) fn take_over_lists(&mut self, unanswered: Vec<(ListId, RelayId, Vec<Interval>)>) {
        let mut ids = BTreeSet::new();
        for (id, relay, intervals) in unanswered {
            if let Some(list) = self.lists.lists.get_mut(&id) {
                let wanted = list.wanted.get(&relay);
                let intervals = intervals.into_iter().filter(|of| wanted.is_some_and(|wanted| wanted.contains(of)));
                list.unanswered.entry(relay).or_default().extend(intervals);
                ids.insert(id);
            }
        }
        ids.into_iter().for_each(|id| self.answer_watchers(id));
    }

    /// A build failed. The list is dropped, because repeating a failing build does not help. The next request for its
    /// rows builds it again.
    pub(crate) fn list_build_lost(&mut self, id: ListId, number: u64) {
        if self.lists.lists.get(&id).is_some_and(|list| list.number == number) {
            self.drop_list(id);
        }
    }

    fn drop_list(&mut self, id: ListId) {
        self.dispose_rows(id);
        self.lists.lists.remove(&id);
    }

    /// Frees a list's rows, which takes time proportional to their number.
    fn dispose_rows(&mut self, id: ListId) {
        let Some(list) = self.lists.lists.get_mut(&id) else { return };
        let rows = mem::replace(&mut list.rows, Rows::NEW);
        self.dispose(self.members.len(), rows);
    }
}
