//! Visibility domains, and the history of one domain.
//!
//! Owns        `DomainHistory`: a ring of bytes with the bodies of one domain, newest last, and the index of every position in it.
//! Invariants  H1 a body is contiguous and starts on a `GRAIN`, so every position identifies its body. H2 overwritten bytes are never
//!             read: a body that is found is complete. H3 ids are ascending.
//! Limits      `History` decides how large the ring is: a power of two. The oldest bodies are evicted.

use super::{BodyId, Entry, HistoryKey};
use crate::{
    coverage::Sampled,
    fast::{FastIndex, WAYS},
    places::{Index, Kept, Place, Places},
    templates::LOOKED_AT_MAX,
};
use foldhash::fast::FixedState;
use std::{
    collections::{HashMap, VecDeque},
    ops::Range,
};

/// Bodies start on multiples of this.
pub const GRAIN: usize = 64;
/// The first address: none is 0.
const BEGIN: u64 = GRAIN as u64;
/// Smallest ring.
pub const CAPACITY_MIN: usize = 1 << 10;
/// Of consecutive positions, the bytes at the matches of one in this many are prefetched.
const PREFETCHED_ONE_IN: usize = 16;
/// Bytes of bodies that one search adds to an index which lacks them.
const CAUGHT_UP_BYTES_MAX: usize = 256 << 10;

/// Visibility domain: the set of events that the same accounts may view.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Domain {
    /// Events that everybody in a guild may view.
    Public {
        /// Id of the guild.
        guild: u64,
        /// Redaction and privileged-intent class: domains of different views never share.
        view: u8,
    },
    /// Events of one channel or thread that not everybody in the guild may view.
    Restricted {
        /// Id of the guild. Its public domain is the parent domain.
        guild: u64,
        /// The channel or thread.
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
    /// The domain whose events all accounts of this one may view as well.
    pub(crate) fn parent(self) -> Option<Self> {
        match self {
            Self::Restricted { guild, view, .. } => Some(Self::Public { guild, view }),
            Self::Public { .. } | Self::Direct { .. } => None,
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
    /// Subscription that a recipient needs: an intent.
    pub kind: u64,
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
    fast: FastIndex,
    /// The newest body in `fast`.
    fast_until: BodyId,
    /// For bodies with many recipients; made when there is one.
    index: Option<Index>,
    /// The newest body in `index`.
    indexed: BodyId,
    next_address: u64,
    entries: VecDeque<Entry>,
    /// The newest body of a class and kind.
    newest: HashMap<(u64, u64), BodyId, FixedState>,
    /// The newest body of a kind, whatever its class: the best guess at the recipients of a class that has had none.
    newest_of_kind: HashMap<u64, BodyId, FixedState>,
    /// The newest bodies of an event name, newest last.
    named: Vec<(&'static str, VecDeque<BodyId>)>,
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
            fast: FastIndex::default(),
            fast_until: 0,
            index: None,
            indexed: 0,
            next_address: BEGIN,
            entries: VecDeque::new(),
            newest: HashMap::default(),
            newest_of_kind: HashMap::default(),
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
        if taken > self.capacity() || self.capacity() == 0 {
            return false;
        }
        let end = self.address_for(taken) + taken as u64;
        self.entries.front().is_none_or(|oldest| oldest.address + self.capacity() as u64 >= end)
    }

    /// Address of the next body, which takes `taken` bytes (H1: it does not wrap around the end of the ring).
    fn address_for(&self, taken: usize) -> u64 {
        match self.at(self.next_address) + taken > self.capacity() {
            true => self.next_address.next_multiple_of(self.capacity() as u64),
            false => self.next_address,
        }
    }

    /// Where an address is in the ring.
    #[inline]
    fn at(&self, address: u64) -> usize {
        address as usize & (self.bytes.len() - 1)
    }

    /// Appends the body of `entry`; its class, kind and name are found by it from now on. The ring is at least as large as the
    /// body; the oldest bodies are evicted. The body's positions are not indexed yet: see [`DomainHistory::catch_up_fast`] and [`DomainHistory::link`].
    pub fn push(&mut self, mut entry: Entry, body: &[u8]) {
        let taken = body.len().next_multiple_of(GRAIN);
        if self.next_address + 2 * self.capacity() as u64 > u64::from(u32::MAX) {
            self.rebuild(self.capacity());
        }
        let address = self.address_for(taken);
        self.next_address = address + taken as u64;
        while self.entries.front().is_some_and(|oldest| oldest.address + (self.capacity() as u64) < self.next_address) {
            self.evict_oldest();
        }
        let start = self.at(address);
        self.bytes[start..start + body.len()].copy_from_slice(body);
        self.owners[start / GRAIN..(start + taken) / GRAIN].fill(entry.id);
        let ordinal = self.evicted.wrapping_add(self.entries.len() as u32);
        self.ordinals[start / GRAIN..(start + taken) / GRAIN].fill(ordinal);
        let (class, kind) = (entry.scope.class, entry.scope.kind);
        self.newest.insert((class, kind), entry.id);
        self.newest_of_kind.insert(kind, entry.id);
        let named = match self.named.iter().position(|(name, _)| *name == entry.name) {
            Some(index) => &mut self.named[index].1,
            None => {
                self.named.push((entry.name, VecDeque::new()));
                &mut self.named.last_mut().expect("just pushed").1
            }
        };
        if named.len() > LOOKED_AT_MAX {
            named.pop_front();
        }
        named.push_back(entry.id);
        (entry.address, entry.length, entry.slot) = (address, body.len() as u32, self.key.slot);
        self.entries.push_back(entry);
    }

    /// Expected recipients of the next body of a class and kind: those of the last one.
    pub fn expected(&self, class: u64, kind: u64) -> Sampled {
        let last = self.newest.get(&(class, kind)).or_else(|| self.newest_of_kind.get(&kind));
        last.and_then(|last| self.entry(*last)).map_or(Sampled::default(), |last| last.got)
    }

    pub fn evict_oldest(&mut self) {
        let Some(oldest) = self.entries.pop_front() else { return };
        self.evicted = self.evicted.wrapping_add(1);
        let (class, kind) = (oldest.scope.class, oldest.scope.kind);
        if self.newest.get(&(class, kind)) == Some(&oldest.id) {
            self.newest.remove(&(class, kind));
        }
        if self.newest_of_kind.get(&kind) == Some(&oldest.id) {
            self.newest_of_kind.remove(&kind);
        }
    }

    /// Makes the ring as large as `capacity` and keeps the newest bodies that fit.
    pub fn rebuild(&mut self, capacity: usize) {
        let entries = self.take_entries();
        self.restore(entries, capacity);
    }

    /// Removes all bodies.
    pub fn take_entries(&mut self) -> Vec<(Entry, Vec<u8>)> {
        let entries = std::mem::take(&mut self.entries);
        let with_bytes = |entry: Entry| {
            let bytes = self.body(&entry).to_vec();
            (entry, bytes)
        };
        entries.into_iter().map(with_bytes).collect()
    }

    /// Begins again with these bodies, as many of the newest as fit.
    pub fn restore(&mut self, mut entries: Vec<(Entry, Vec<u8>)>, capacity: usize) {
        self.bytes = vec![0; capacity];
        self.owners = vec![0; capacity / GRAIN];
        self.ordinals = vec![0; capacity / GRAIN];
        self.evicted = 0;
        self.fast = FastIndex::new(capacity);
        self.fast_until = 0;
        self.index = None;
        self.next_address = BEGIN;
        self.newest.clear();
        self.newest_of_kind.clear();
        self.named.clear();
        let fits = |bytes: &Vec<u8>| bytes.len().next_multiple_of(GRAIN) <= capacity;
        entries.retain(|(_, bytes)| fits(bytes));
        for (entry, bytes) in entries {
            self.push(entry, &bytes);
        }
    }

    pub fn entry(&self, id: BodyId) -> Option<&Entry> {
        if let Some(newest) = self.entries.back().filter(|newest| newest.id == id) {
            return Some(newest);
        }
        self.entries.binary_search_by_key(&id, |entry| entry.id).ok().map(|index| &self.entries[index])
    }

    pub fn entry_mut(&mut self, id: BodyId) -> Option<&mut Entry> {
        self.entries.binary_search_by_key(&id, |entry| entry.id).ok().map(|index| &mut self.entries[index])
    }

    pub fn newest_id(&self) -> Option<BodyId> {
        self.entries.back().map(|newest| newest.id)
    }

    /// Inserts bodies before `id` that the fast index lacks.
    pub fn catch_up_fast(&mut self, id: BodyId) {
        let end = self.entries.partition_point(|entry| entry.id < id);
        let mut left = CAUGHT_UP_BYTES_MAX;
        let missing = self.entries.range(..end).rev().take_while(|entry| {
            left = left.saturating_sub(entry.len());
            entry.id > self.fast_until && left > 0
        });
        let from = end - missing.count();
        for entry in self.entries.range(from..end) {
            let start = entry.address as usize & (self.bytes.len() - 1);
            self.fast.insert(&self.bytes[start..start + entry.length as usize], entry.place(0));
            self.fast_until = entry.id;
        }
    }

    /// Positions that the fast index holds for these bytes.
    #[inline]
    pub fn look_up_fast(&self, eight: u64) -> [Place; 2 * WAYS] {
        self.fast.look_up(eight)
    }

    /// Brings the index of positions up to the bodies before `id`; of those that are missing, the newest `CAUGHT_UP_BYTES_MAX`.
    pub fn catch_up(&mut self, id: BodyId) {
        let mut index = self.index.take().unwrap_or_else(|| {
            self.indexed = 0;
            Index::new(self.bytes.len())
        });
        let mut left = CAUGHT_UP_BYTES_MAX;
        let end = self.entries.partition_point(|entry| entry.id < id);
        let missing = self.entries.range(..end).rev().take_while(|entry| {
            left = left.saturating_sub(entry.len());
            entry.id > self.indexed && left > 0
        });
        let count = missing.count();
        let mut found = Vec::new();
        for entry in self.entries.range(end - count..end) {
            index.link((self.body(entry), entry.place(0)), 0..entry.len(), 1, &mut found);
            self.indexed = entry.id;
        }
        self.index = Some(index);
    }

    pub fn oldest(&self) -> Option<&Entry> {
        self.entries.front()
    }

    /// The newest bodies of an event name, newest first.
    pub fn named(&self, name: &str) -> impl Iterator<Item = BodyId> + '_ {
        let named = self.named.iter().find(|(other, _)| *other == name);
        named.into_iter().flat_map(|(_, ids)| ids.iter().rev().copied())
    }

    pub fn body(&self, entry: &Entry) -> &[u8] {
        let start = self.at(entry.address);
        &self.bytes[start..start + entry.length as usize]
    }

    /// Where the bytes at each position of `range` of the newest body may have stood before: see [`Index::link`]. Call once per
    /// position, in order. Prefetches the bytes of those from `oldest` on.
    pub fn link(
        &mut self,
        (entry, bytes): (&Entry, &[u8]),
        range: Range<usize>,
        (short_max, oldest): (usize, Place),
        found: &mut Vec<Places>,
    ) {
        if let Some(index) = &mut self.index {
            index.link((bytes, Place::of(entry.address)), range, short_max, found);
            self.indexed = entry.id;
        }
        self.prefetch(found, oldest);
    }

    /// As [`DomainHistory::link`] for a body of another domain, which is not indexed here.
    pub fn look_up(
        &self,
        bytes: &[u8],
        range: Range<usize>,
        (short_max, oldest): (usize, Place),
        found: &mut Vec<Places>,
    ) {
        if let Some(index) = &self.index {
            index.look_up(bytes, range, short_max, found);
        }
        self.prefetch(found, oldest);
    }

    fn prefetch(&self, found: &[Places], oldest: Place) {
        // The bytes behind it are mostly in the same cache line.
        let kept = self.kept();
        let places = found.iter().step_by(PREFETCHED_ONE_IN).flat_map(|places| places.newest_first(oldest));
        places.for_each(|place| kept.prefetch(place));
    }

    /// The bytes of all bodies.
    #[inline]
    pub fn kept(&self) -> Kept<'_> {
        Kept::new(&self.bytes)
    }

    /// The place of the first body from `id` on; none if all are older.
    pub fn place_from(&self, id: BodyId) -> Option<Place> {
        let index = self.entries.partition_point(|entry| entry.id < id);
        self.entries.get(index).map(|entry| Place::of(entry.address))
    }

    /// The body at a place, which may have been evicted; none where it was overwritten.
    #[inline]
    pub fn owner(&self, place: Place) -> Option<BodyId> {
        let address = place.address();
        (address + self.bytes.len() as u64 >= self.next_address).then(|| self.owners[self.at(address) / GRAIN])
    }

    /// The body of this id, to which a place belongs.
    #[inline]
    pub fn entry_at(&self, place: Place, id: BodyId) -> Option<&Entry> {
        let ordinal = self.ordinals[self.at(place.address()) / GRAIN];
        self.entries.get(ordinal.wrapping_sub(self.evicted) as usize).filter(|entry| entry.id == id)
    }

    pub fn heap_bytes(&self) -> usize {
        size_of::<Self>()
            + self.bytes.len()
            + 4 * (self.owners.len() + self.ordinals.len())
            + self.fast.heap_bytes()
            + self.index.as_ref().map_or(0, Index::heap_bytes)
            + self.entries.capacity() * size_of::<Entry>()
    }
}
