//! Visibility domains, and the history of one domain.
//!
//! Owns        `DomainHistory`: a ring of bytes with the bodies of one domain, newest last, and an index of some of
//!             its positions: every third and fourth, or every sixth (`hash_index`).
//! Invariants  H1 a body is contiguous and starts on a `GRAIN`, so every position identifies its body. H2 overwritten
//!             bytes are never read: a body that is found is complete. H3 ids are ascending.
//! Limits      `History` decides how large the ring is: a power of two. The oldest bodies are evicted when their bytes
//!             are needed, and when there are as many bodies as the ring has `ENTRY_BYTES`. `NAMED_MAX` bodies of each
//!             event name; `CAUGHT_UP_BYTES_MAX` of bodies enter the index with one search, and older ones never do.

use super::{BodyId, EventName, HistoryEntry, HistoryKey};
use crate::history::hash_index::{HashIndex, Position, WAYS};
use smallvec::{SmallVec, smallvec};
use std::collections::VecDeque;

/// Bodies start on multiples of this.
pub const GRAIN: usize = 64;
/// The first address: none is 0.
const BEGIN: u64 = GRAIN as u64;
/// Smallest ring.
pub const CAPACITY_MIN: usize = 1 << 10;
/// Bytes of a ring per entry. Shorter bodies are rare: with its envelope even a `TYPING_START` is longer.
const ENTRY_BYTES: usize = 128;
/// Bodies of an event name that are remembered.
pub const NAMED_MAX: usize = 4;
/// Bytes of bodies that one search adds to an index which lacks them.
const CAUGHT_UP_BYTES_MAX: usize = 256 << 10;
/// Bodies that [`DomainHistory::spaced`] returns.
const SPACED_MAX: u32 = 4;

/// Domains above one.
pub const PARENTS_MAX: usize = 3;

/// Visibility domain: the set of events that the same accounts may view.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Domain {
    /// Events that every member of a guild may view.
    Public {
        /// Id of the guild.
        guild: u64,
        /// Clearance. Members with one may also view the domains without (0).
        view: u8,
    },
    /// Events of one channel or thread that only some members of the guild may view.
    Restricted {
        /// Id of the guild. Its public domain is a parent domain.
        guild: u64,
        /// Key of the channel or thread: a hash of it and of its access rules.
        channel: u64,
        /// As in [`Domain::Public`].
        view: u8,
    },
    /// Events of one direct message or group.
    Direct {
        /// Id of the direct message's channel.
        channel: u64,
    },
}

impl Domain {
    /// Domains whose events all accounts of this one may view: the public one, and those without a clearance.
    pub(crate) fn parents(self) -> SmallVec<[Self; PARENTS_MAX]> {
        match self {
            Self::Restricted { guild, view: 0, .. } => smallvec![Self::Public { guild, view: 0 }],
            Self::Restricted { guild, channel, view } => smallvec![
                Self::Public { guild, view },
                Self::Restricted { guild, channel, view: 0 },
                Self::Public { guild, view: 0 },
            ],
            Self::Public { view: 0, .. } | Self::Direct { .. } => smallvec![],
            Self::Public { guild, .. } => smallvec![Self::Public { guild, view: 0 }],
        }
    }

    /// The guild that it belongs to.
    pub(crate) fn guild(self) -> Option<u64> {
        match self {
            Self::Public { guild, .. } | Self::Restricted { guild, .. } => Some(guild),
            Self::Direct { .. } => None,
        }
    }
}

/// Where an event belongs. Events of the same scope are expected to reach the same connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scope {
    /// Visibility domain of the body.
    pub domain: Domain,
    /// Recipients within the domain: a channel, a member list; 0 for all.
    pub class: u64,
}

/// The newest bodies of an event name, newest last; 0 where there were fewer.
#[derive(Debug)]
struct Named {
    name: EventName,
    ids: [BodyId; NAMED_MAX],
}

/// Entries of a ring.
const fn entries_max(capacity: usize) -> usize {
    capacity / ENTRY_BYTES
}

/// See the module.
#[derive(Debug)]
pub struct DomainHistory {
    pub domain: Domain,
    pub key: HistoryKey,
    bytes: Vec<u8>,
    /// Per grain: the body that it belongs to.
    owners: Vec<BodyId>,
    /// Per grain: how many bodies came before that body.
    ordinals: Vec<u32>,
    /// Bodies that were evicted.
    evicted: u32,
    index: HashIndex,
    /// The newest body in `index`.
    indexed_until: BodyId,
    next_address: u64,
    /// A larger ring was refused: the domain requests one again from this address on.
    refused_until: u64,
    /// As many as `entries_max` at most, so that it never grows by itself.
    entries: VecDeque<HistoryEntry>,
    named: Vec<Named>,
}

impl DomainHistory {
    pub fn new(domain: Domain, key: HistoryKey) -> Self {
        Self {
            domain,
            key,
            bytes: Vec::new(),
            owners: Vec::new(),
            ordinals: Vec::new(),
            evicted: 0,
            index: HashIndex::default(),
            indexed_until: 0,
            next_address: BEGIN,
            refused_until: 0,
            entries: VecDeque::new(),
            named: Vec::new(),
        }
    }

    /// Bytes of the ring.
    pub fn capacity(&self) -> usize {
        self.bytes.len()
    }

    /// Whether a body of this many bytes fits without evicting another.
    pub fn has_room(&self, bytes: usize) -> bool {
        let taken = bytes.next_multiple_of(GRAIN);
        if taken > self.capacity() || self.entries.len() == entries_max(self.capacity()) {
            return false;
        }
        let end = self.address_for(taken) + taken as u64;
        self.entries.front().is_none_or(|oldest| oldest.address + self.capacity() as u64 >= end)
    }

    /// Whether the domain may request a larger ring. A request walks other domains.
    pub fn may_grow(&self) -> bool {
        self.next_address >= self.refused_until
    }

    /// A request for a larger ring failed. The domain repeats it once a quarter of its bodies has been evicted.
    pub fn refuse_growth(&mut self) {
        self.refused_until = self.next_address + self.capacity() as u64 / 4;
    }

    /// Address of the next body, which takes `taken` bytes (H1: it does not wrap around the end of the ring). Short
    /// ones do not lie across the ring's middle either, so that they still fit when it is halved.
    fn address_for(&self, taken: usize) -> u64 {
        let unit = if taken <= self.capacity() / 8 { self.capacity() / 2 } else { self.capacity() };
        match (self.next_address as usize & (unit - 1)) + taken > unit {
            true => self.next_address.next_multiple_of(unit as u64),
            false => self.next_address,
        }
    }

    /// Where an address is in the ring.
    #[inline]
    fn at(&self, address: u64) -> usize {
        address as usize & (self.bytes.len() - 1)
    }

    /// Appends the body of `entry`; it is found by its name from now on. The ring is at least as large as the
    /// body; the oldest bodies are evicted. The body's positions are not indexed yet: see
    /// [`DomainHistory::index_up_to`].
    pub fn push(&mut self, mut entry: HistoryEntry, body: &[u8]) {
        let taken = body.len().next_multiple_of(GRAIN);
        let address = self.address_for(taken);
        self.next_address = address + taken as u64;
        while self.entries.front().is_some_and(|oldest| oldest.address + (self.capacity() as u64) < self.next_address) {
            self.evict_oldest();
        }
        if self.entries.len() == entries_max(self.capacity()) {
            self.evict_oldest();
        }
        let start = self.at(address);
        self.bytes[start..start + body.len()].copy_from_slice(body);
        self.owners[start / GRAIN..(start + taken) / GRAIN].fill(entry.id);
        let ordinal = self.evicted.wrapping_add(self.entries.len() as u32);
        self.ordinals[start / GRAIN..(start + taken) / GRAIN].fill(ordinal);
        match self.named.iter_mut().find(|named| named.name == entry.name) {
            Some(Named { ids, .. }) => {
                ids.rotate_left(1);
                ids[NAMED_MAX - 1] = entry.id;
            }
            None => {
                let mut ids = [0; NAMED_MAX];
                ids[NAMED_MAX - 1] = entry.id;
                self.named.push(Named { name: entry.name, ids });
            }
        }
        (entry.address, entry.length, entry.slot) = (address, body.len() as u32, self.key.slot);
        self.entries.push_back(entry);
    }

    pub fn evict_oldest(&mut self) {
        if self.entries.pop_front().is_none() {
            return;
        }
        self.evicted = self.evicted.wrapping_add(1);
    }

    /// Makes the ring as large as `capacity`, a power of two, and keeps the newest bodies that fit. Bodies keep their
    /// addresses, and the index its positions.
    pub fn resize(&mut self, capacity: usize) {
        let old = self.bytes.len();
        if old == 0 {
            return self.rebuild(capacity);
        }
        let fits = |entry: &HistoryEntry| {
            let (begin, end) = (entry.address, entry.address + entry.length.next_multiple_of(GRAIN as u32) as u64);
            // H1: in a smaller ring it may wrap around.
            begin + capacity as u64 >= self.next_address && begin / capacity as u64 == (end - 1) / capacity as u64
        };
        let evicted = self.entries.iter().rposition(|entry| !fits(entry)).map_or(0, |last| last + 1);
        let evicted = evicted.max(self.entries.len().saturating_sub(entries_max(capacity)));
        (0..evicted).for_each(|_| self.evict_oldest());
        let entries = std::mem::replace(&mut self.entries, VecDeque::with_capacity(entries_max(capacity)));
        self.entries.extend(entries);
        let bytes = std::mem::replace(&mut self.bytes, vec![0; capacity]);
        let owners = std::mem::replace(&mut self.owners, vec![0; capacity / GRAIN]);
        let ordinals = std::mem::replace(&mut self.ordinals, vec![0; capacity / GRAIN]);
        for entry in &self.entries {
            let taken = (entry.length as usize).next_multiple_of(GRAIN);
            let (from, to) = (entry.address as usize & (old - 1), entry.address as usize & (capacity - 1));
            self.bytes[to..to + taken].copy_from_slice(&bytes[from..from + taken]);
            let (from, to, taken) = (from / GRAIN, to / GRAIN, taken / GRAIN);
            self.owners[to..to + taken].copy_from_slice(&owners[from..from + taken]);
            self.ordinals[to..to + taken].copy_from_slice(&ordinals[from..from + taken]);
        }
        let oldest = self.entries.front().map_or(self.next_address, |oldest| oldest.address);
        self.index.resize(capacity, oldest, self.next_address);
        self.refused_until = 0;
    }

    /// Rewrites all bodies from the first address on, with an empty index.
    fn rebuild(&mut self, capacity: usize) {
        let entries = self.take_entries();
        self.restore(entries, capacity);
    }

    /// Removes all bodies.
    pub fn take_entries(&mut self) -> Vec<(HistoryEntry, Vec<u8>)> {
        let entries = std::mem::take(&mut self.entries);
        let with_bytes = |entry: HistoryEntry| {
            let bytes = self.body(&entry).to_vec();
            (entry, bytes)
        };
        entries.into_iter().map(with_bytes).collect()
    }

    /// Begins again with these bodies, as many of the newest as fit.
    pub fn restore(&mut self, mut entries: Vec<(HistoryEntry, Vec<u8>)>, capacity: usize) {
        self.bytes = vec![0; capacity];
        self.owners = vec![0; capacity / GRAIN];
        self.ordinals = vec![0; capacity / GRAIN];
        self.entries = VecDeque::with_capacity(entries_max(capacity));
        self.evicted = 0;
        self.index = HashIndex::new(capacity);
        self.indexed_until = 0;
        (self.next_address, self.refused_until) = (BEGIN, 0);
        self.named.clear();
        let fits = |bytes: &Vec<u8>| bytes.len().next_multiple_of(GRAIN) <= capacity;
        entries.retain(|(_, bytes)| fits(bytes));
        for (entry, bytes) in entries {
            self.push(entry, &bytes);
        }
    }

    pub fn entry(&self, id: BodyId) -> Option<&HistoryEntry> {
        if let Some(newest) = self.entries.back().filter(|newest| newest.id == id) {
            return Some(newest);
        }
        self.entries.binary_search_by_key(&id, |entry| entry.id).ok().map(|index| &self.entries[index])
    }

    pub fn newest_id(&self) -> Option<BodyId> {
        self.entries.back().map(|newest| newest.id)
    }

    /// Inserts bodies before `id` that the index lacks.
    pub fn index_up_to(&mut self, id: BodyId) {
        // Mostly the body is the newest here, or newer than all.
        let end = match self.entries.back() {
            Some(newest) if newest.id == id => self.entries.len() - 1,
            Some(newest) if newest.id < id => self.entries.len(),
            _ => self.entries.partition_point(|entry| entry.id < id),
        };
        let mut left = CAUGHT_UP_BYTES_MAX;
        let missing = self.entries.range(..end).rev().take_while(|entry| {
            left = left.saturating_sub(entry.len());
            entry.id > self.indexed_until && left > 0
        });
        let from = end - missing.count();
        for entry in self.entries.range(from..end) {
            let begin = Position::of(entry.address, self.bytes.len());
            let body = &self.bytes[begin.index()..begin.index() + entry.length as usize];
            self.index.insert(body, begin, entry.is_sparse);
            self.indexed_until = entry.id;
        }
    }

    /// Positions that the index holds for these bytes.
    #[inline]
    pub fn look_up(&self, eight: u64) -> [Option<Position>; 2 * WAYS] {
        self.index.look_up(eight)
    }

    /// Each recipient of the newest body has a parse of its own (few recipients, or a direct message): the body is
    /// indexed at fewer positions.
    pub fn index_sparsely(&mut self) {
        if let Some(newest) = self.entries.back_mut() {
            newest.is_sparse = true;
        }
    }

    /// Prefetches the slots that `look_up` reads.
    #[inline]
    pub fn prefetch_index(&self, eight: u64) {
        self.index.prefetch(eight);
    }

    pub fn oldest(&self) -> Option<&HistoryEntry> {
        self.entries.front()
    }

    /// Bodies before `id`, ever farther apart: the newest, the fourth, the sixteenth, and so on.
    pub fn spaced(&self, id: BodyId) -> impl Iterator<Item = BodyId> + '_ {
        let end = self.entries.partition_point(|entry| entry.id < id);
        (0..SPACED_MAX)
            .map_while(move |power| end.checked_sub(1 << (2 * power)))
            .map(move |index| self.entries[index].id)
    }

    /// The newest bodies of an event name, newest first.
    pub fn named(&self, name: EventName) -> impl Iterator<Item = BodyId> + '_ {
        let named = self.named.iter().find(|named| named.name == name);
        named.into_iter().flat_map(|named| named.ids.iter().rev().copied()).take_while(|id| *id != 0)
    }

    pub fn body(&self, entry: &HistoryEntry) -> &[u8] {
        let start = self.at(entry.address);
        &self.bytes[start..start + entry.length as usize]
    }

    /// Where a body begins.
    #[inline]
    pub fn position(&self, entry: &HistoryEntry) -> Position {
        Position::of(entry.address, self.bytes.len())
    }

    /// So many bytes from a position on, all of them of one body.
    #[inline]
    pub fn bytes(&self, position: Position, count: u32) -> &[u8] {
        &self.bytes[position.index()..position.index() + count as usize]
    }

    /// Whether the bytes at a position begin with the first four of `wanted`; true if `wanted` has fewer. Any position
    /// is valid, also that of an evicted body.
    #[inline]
    pub fn begins_with(&self, position: Position, wanted: &[u8]) -> bool {
        match (wanted.first_chunk::<4>(), self.bytes.get(position.index()..).and_then(<[u8]>::first_chunk::<4>)) {
            (Some(wanted), Some(there)) => wanted == there,
            (_, None) => false,
            (None, _) => true,
        }
    }

    /// The body at a position, which may have been evicted; 0 where none was ever.
    #[inline]
    pub fn body_at(&self, position: Position) -> BodyId {
        self.owners[position.index() / GRAIN]
    }

    /// The body of this id, to which a position belongs.
    #[inline]
    pub fn entry_at(&self, position: Position, id: BodyId) -> Option<&HistoryEntry> {
        let ordinal = self.ordinals[position.index() / GRAIN];
        self.entries.get(ordinal.wrapping_sub(self.evicted) as usize).filter(|entry| entry.id == id)
    }

    /// Heap of a ring of `capacity` bytes, with its owners, ordinals, entries and index.
    pub fn ring_bytes(capacity: usize) -> usize {
        let per_grain = size_of::<BodyId>() + size_of::<u32>();
        let entries = entries_max(capacity) * size_of::<HistoryEntry>();
        capacity + capacity / GRAIN * per_grain + entries + HashIndex::bytes_of(capacity)
    }

    /// Memory of all of it: its ring, the names, and itself.
    pub fn heap_bytes(&self) -> usize {
        let named = self.named.capacity() * size_of::<Named>();
        size_of::<Self>() + named + Self::ring_bytes(self.capacity())
    }
}
