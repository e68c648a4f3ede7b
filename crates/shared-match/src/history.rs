//! History: the texts that later ones may refer to, and the index that finds equal bytes in them.
//!
//! Owns        a ring of bytes with the texts of all guilds, newest last, and an index of every position in it.
//! Invariants  H1 a text lies in one piece and starts on a `GRAIN`, so every position tells its text. H2 what was
//!             overwritten is never read: a text that is found is whole.
//! Limits      `bytes_max` of text, not quite twice as much in all, mapped as it fills; the oldest texts go first.

use crate::{
    coverage::{Coverage, Sampled},
    dictionary::DICTIONARY,
    ring::TextId,
    spans::{Span, Spans},
    templates::LOOKED_AT_MAX,
};
use foldhash::fast::FixedState;
use std::{
    collections::{HashMap, VecDeque},
    ops::Range,
};

const TEXT_BYTES_MAX: usize = 128 << 10;
/// Texts start on multiples of this.
const GRAIN: usize = 64;
/// Buckets, as a power of two: one for so many positions, so that the index is three quarters as large as the history, ...
const BUCKET_POSITIONS_LOG: u32 = 7;
/// ... within these.
const HASH_LOG_MIN: u32 = 9;
const HASH_LOG_MAX: u32 = 20;
/// Fewest equal bytes that the index finds.
pub const FOUND_BYTES_MIN: usize = 4;

/// Texts of the same scope are expected to reach the same connections; nothing else is made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scope {
    /// A guild, in one redaction.
    pub domain: u64,
    /// Who of its members: a channel, a member list; 0 for all of them.
    pub class: u64,
    /// What they have to have asked for: an intent.
    pub kind: u64,
}

impl Scope {
    fn any_class(self) -> Self {
        Self { class: 0, ..self }
    }
}

/// A text that is kept.
#[derive(Clone, Debug)]
pub struct Text {
    pub id: TextId,
    pub scope: Scope,
    pub name: &'static str,
    /// Who of the sampled connections it was written to.
    pub got: Sampled,
    /// Who will get it, by what the scope's last text was written to; and how many these are.
    pub expected: Sampled,
    pub expected_count: u32,
    address: u64,
    length: u32,
}

impl Text {
    /// Whether nearly all who will get this text have got `source`; where the sample does not tell, whether they are those
    /// of the same scope.
    pub fn is_for_who_got(&self, source: &Self, coverage: &Coverage) -> bool {
        coverage.covers(self.expected, source.got).unwrap_or(source.scope == self.scope)
    }

    pub fn len(&self) -> usize {
        self.length as usize
    }
}

/// See the module.
#[derive(Debug)]
pub struct History {
    bytes: Vec<u8>,
    /// Per grain: which text it belongs to.
    owners: Vec<TextId>,
    /// Of four equal bytes.
    short: Index<8>,
    /// Of eight in one domain.
    domain: Index<16>,
    next_address: u64,
    texts: VecDeque<Text>,
    spans: Spans,
    next_id: TextId,
    /// The newest text of a scope.
    newest: HashMap<Scope, TextId, FixedState>,
    /// The newest text of a domain and kind, whatever its class: of a class that has had none, who gets it is best told by this.
    alike: HashMap<Scope, TextId, FixedState>,
    /// The newest texts of a name, newest last.
    named: HashMap<&'static str, VecDeque<TextId>, FixedState>,
}

impl History {
    /// Keeps at most `bytes_max` bytes of texts, taken for the next power of two, 64 KiB to 1 GiB.
    pub fn new(bytes_max: usize) -> Self {
        let room = bytes_max.clamp(1 << 16, 1 << 30).next_power_of_two();
        Self {
            bytes: vec![0; room],
            owners: vec![0; room / GRAIN],
            short: Index::new(room),
            domain: Index::new(room),
            next_address: 0,
            texts: VecDeque::new(),
            spans: Spans::default(),
            next_id: 1,
            newest: HashMap::default(),
            named: HashMap::default(),
            alike: HashMap::default(),
        }
    }

    /// Longest text it takes: an eighth of all, and no more than is parsed in some milliseconds.
    pub fn text_bytes_max(&self) -> usize {
        (self.bytes.len() / 8).min(TEXT_BYTES_MAX)
    }

    /// Where an address lies in the ring.
    #[inline]
    fn index(&self, address: u64) -> usize {
        address as usize & (self.bytes.len() - 1)
    }

    /// Keeps a text as the newest; none if it is too long.
    pub fn push(&mut self, scope: Scope, name: &'static str, text: &[u8], span: Span) -> Option<TextId> {
        if text.len() > self.text_bytes_max() {
            return None;
        }
        let room = self.bytes.len() as u64;
        let taken = text.len().next_multiple_of(GRAIN) as u64;
        if self.next_address + 2 * room > u64::from(u32::MAX) {
            self.clear();
        }
        if self.next_id == DICTIONARY {
            self.clear();
            self.next_id = 1;
        }
        if self.index(self.next_address) as u64 + taken > room {
            // H1: not around the end.
            self.next_address = self.next_address.next_multiple_of(room);
        }
        let address = self.next_address;
        self.next_address += taken;
        while self.texts.front().is_some_and(|oldest| oldest.address + room < self.next_address) {
            self.forget_oldest();
        }
        let id = self.next_id;
        self.next_id += 1;
        let start = self.index(address);
        self.bytes[start..start + text.len()].copy_from_slice(text);
        self.owners[start / GRAIN..(start + taken as usize) / GRAIN].fill(id);
        let before = self.newest.insert(scope, id);
        let alike = self.alike.insert(scope.any_class(), id);
        let before = before.and_then(|before| self.text(before)).or(alike.and_then(|before| self.text(before)));
        let expected = before.map_or(Sampled::default(), |before| before.got);
        let named = self.named.entry(name).or_default();
        if named.len() > LOOKED_AT_MAX {
            named.pop_front();
        }
        named.push_back(id);
        let (got, length) = (Sampled::default(), text.len() as u32);
        self.spans.push(id, span);
        let expected_count = expected.count();
        self.texts.push_back(Text { id, scope, name, got, expected, expected_count, address, length });
        Some(id)
    }

    fn forget_oldest(&mut self) {
        let Some(oldest) = self.texts.pop_front() else { return };
        self.spans.forget_oldest();
        if self.newest.get(&oldest.scope) == Some(&oldest.id) {
            self.newest.remove(&oldest.scope);
        }
        if self.alike.get(&oldest.scope.any_class()) == Some(&oldest.id) {
            self.alike.remove(&oldest.scope.any_class());
        }
    }

    /// Forgets all texts; numbers go on.
    fn clear(&mut self) {
        self.texts.clear();
        self.spans = Spans::default();
        self.newest.clear();
        self.alike.clear();
        self.named.clear();
        self.short.clear();
        self.domain.clear();
        self.next_address = 0;
    }

    /// How long the texts are that are kept.
    pub fn spans(&self) -> &Spans {
        &self.spans
    }

    /// A text by its number, while it is kept.
    pub fn text(&self, id: TextId) -> Option<&Text> {
        let first = self.texts.front()?.id;
        self.texts.get(id.wrapping_sub(first) as usize).filter(|text| text.id == id)
    }

    /// The newest texts of a name, newest first.
    pub fn named(&self, name: &str) -> impl Iterator<Item = TextId> + '_ {
        self.named.get(name).into_iter().flatten().rev().copied()
    }

    /// Its bytes.
    pub fn bytes(&self, text: &Text) -> &[u8] {
        let start = self.index(text.address);
        &self.bytes[start..start + text.len()]
    }

    /// A sampled connection was written a text.
    pub fn note_written(&mut self, id: TextId, sample: u8) {
        let Some(first) = self.texts.front().map(|text| text.id) else { return };
        if let Some(text) = self.texts.get_mut(id.wrapping_sub(first) as usize).filter(|text| text.id == id) {
            text.got.insert(sample);
        }
    }

    /// Where the bytes at each position of `range` of `text` may have stood before. Puts these positions in front of them.
    /// Call once per position, in order, while `text` is the newest.
    ///
    /// It takes a range, so that its looks at memory do not wait for each other.
    pub fn link(&mut self, text: &Text, range: Range<usize>, text_bytes: &[u8], found: &mut Vec<Places>) {
        let (since, domain) = (text.address as u32, text.scope.domain);
        found.clear();
        found.extend(range.map(|at| {
            let mut places = Places::default();
            let place = Place(since + at as u32 + 1);
            if let Some(four) = four(text_bytes, at) {
                places.short = self.short.link(u64::from(four), 0, since, place);
            }
            if let Some(eight) = eight(text_bytes, at) {
                places.domain = self.domain.link(eight, domain, since, place);
            }
            places
        }));
    }

    /// Whether more than `beaten` bytes at a place may equal `wanted`, which is longer.
    #[inline]
    pub fn may_be_longer(&self, place: Place, wanted: &[u8], beaten: usize) -> bool {
        let Some(address) = place.address() else { return false };
        wanted.get(beaten) == self.bytes.get(self.index(address) + beaten)
    }

    /// Where a byte of a text stands.
    pub fn place(&self, text: &Text, at: u32) -> Place {
        Place(text.address as u32 + at + 1)
    }

    /// The text at a place and where in it; none where it was overwritten.
    #[inline]
    pub fn found(&self, place: Place) -> Option<(&Text, usize)> {
        let address = place.address()?;
        if address + (self.bytes.len() as u64) < self.next_address {
            return None;
        }
        let owner = self.owners[self.index(address) / GRAIN];
        let text = self.text(owner)?;
        let at = address.checked_sub(text.address)?;
        (at < u64::from(text.length)).then_some((text, at as usize))
    }

    /// Heap it holds, whether touched or not.
    pub fn heap_bytes(&self) -> usize {
        self.bytes.len()
            + 4 * self.owners.len()
            + self.short.heap_bytes()
            + self.domain.heap_bytes()
            + self.texts.capacity() * size_of::<Text>()
    }
}

/// Where bytes stood before, newest first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Places {
    /// Of four equal bytes.
    short: [Place; 8],
    /// Of eight in the domain.
    domain: [Place; 16],
}

impl Places {
    /// All of them, but of those with four equal bytes so many of the newest only.
    #[inline]
    pub fn newest_first(&self, short_max: usize) -> impl Iterator<Item = Place> + '_ {
        let short = &self.short[..short_max.min(self.short.len())];
        let (mut shorts, mut domains) = (0, 0);
        std::iter::from_fn(move || {
            let one = short.get(shorts).copied().unwrap_or(Place::END);
            let other = self.domain.get(domains).copied().unwrap_or(Place::END);
            let newest = one.max(other);
            shorts += usize::from(one == newest);
            domains += usize::from(other == newest);
            (newest != Place::END).then_some(newest)
        })
    }
}

/// The `WAYS` newest places of every hash. One look at memory finds them all; chains would take one per place.
#[derive(Debug)]
struct Index<const WAYS: usize> {
    /// Numbers of places: zeros are mapped when they are touched.
    buckets: Vec<[u32; WAYS]>,
    hash_log: u32,
}

impl<const WAYS: usize> Index<WAYS> {
    fn new(room: usize) -> Self {
        let hash_log = (room.ilog2() - BUCKET_POSITIONS_LOG).clamp(HASH_LOG_MIN, HASH_LOG_MAX);
        Self { buckets: vec![[0; WAYS]; 1 << hash_log], hash_log }
    }

    /// The places of a key; `place` stands in front of them the next time, instead of one in the same text, which begins
    /// `since`.
    fn link(&mut self, key: u64, salt: u64, since: u32, place: Place) -> [Place; WAYS] {
        let mixed = (key ^ salt.rotate_left(29)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let bucket = &mut self.buckets[(mixed >> (64 - self.hash_log)) as usize];
        let before = *bucket;
        if bucket[0] <= since {
            bucket.copy_within(..WAYS - 1, 1);
        }
        bucket[0] = place.0;
        before.map(Place)
    }

    fn clear(&mut self) {
        self.buckets.fill([0; WAYS]);
    }

    fn heap_bytes(&self) -> usize {
        self.buckets.len() * size_of::<[u32; WAYS]>()
    }
}

/// A position: its address and one, or 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place(u32);

impl Place {
    const END: Self = Self(0);

    /// One byte on.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    fn address(self) -> Option<u64> {
        self.0.checked_sub(1).map(u64::from)
    }
}

/// A slot for the first four bytes, in a table of a power of two of slots.
#[inline]
pub fn hash_of_four(bytes: &[u8], table_log: u32) -> usize {
    let four = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    (four.wrapping_mul(0x9E37_79B1) >> (32 - table_log)) as usize
}

#[inline]
fn four(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + FOUND_BYTES_MIN)?.try_into().ok()?))
}

#[inline]
fn eight(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// How many bytes are equal from the start of both.
#[inline]
pub fn equal_bytes(a: &[u8], b: &[u8]) -> usize {
    let length = a.len().min(b.len());
    let (a, b) = (&a[..length], &b[..length]);
    let mut at = 0;
    for (x, y) in a.chunks_exact(8).zip(b.chunks_exact(8)) {
        let x = u64::from_le_bytes(x.try_into().expect("eight"));
        let y = u64::from_le_bytes(y.try_into().expect("eight"));
        if x != y {
            return at + (x ^ y).trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while at < length && a[at] == b[at] {
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_begin_anew_before_those_that_stand_for_something_else() {
        let mut history = History::new(1 << 16);
        history.next_id = DICTIONARY - 2;
        let scope = Scope { domain: 1, class: 1, kind: 1 };
        let ids = [(); 4].map(|()| {
            let id = history.push(scope, "X", b"text", Span { after: 4, before: 20 }).unwrap();
            assert!(history.text(id).is_some_and(|text| history.bytes(text) == b"text"));
            id
        });
        assert_eq!(ids, [DICTIONARY - 2, DICTIONARY - 1, 1, 2]);
        assert!(history.text(DICTIONARY - 1).is_none() && history.text(DICTIONARY).is_none());
    }
}
