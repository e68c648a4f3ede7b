//! History: the texts that later ones may refer to, and the index that finds equal bytes in them.
//!
//! Owns        a ring of bytes with the texts of all guilds, newest last, and hash chains over every position in it.
//! Invariants  H1 a text lies in one piece and starts on a `GRAIN`, so every position tells its text. H2 what was
//!             overwritten is never read: a text that is found is whole.
//! Limits      `bytes_max` of text, five times as much in all, mapped as it fills; the oldest texts go first.

use crate::{
    coverage::Sampled,
    ring::{Span, Spans, TextId},
};
use foldhash::fast::FixedState;
use std::collections::{HashMap, VecDeque};

const TEXT_BYTES_MAX: usize = 128 << 10;
/// Texts start on multiples of this.
const GRAIN: usize = 64;
/// As many chains as fit a history of some megabytes; a smaller one has fewer.
const HASH_LOG_MAX: u32 = 17;
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

/// A text that is kept.
#[derive(Clone, Debug)]
pub struct Text {
    pub id: TextId,
    pub scope: Scope,
    pub name: &'static str,
    /// Who of the sampled connections it was written to.
    pub got: Sampled,
    /// Who will get it, by what the scope's last text was written to.
    pub expected: Sampled,
    address: u64,
    length: u32,
}

impl Text {
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
    /// Of texts of one domain.
    near: Index,
    /// Of all texts.
    all: Index,
    next_address: u64,
    texts: VecDeque<Text>,
    spans: Spans,
    next_id: TextId,
    /// The newest text of a scope.
    newest: HashMap<Scope, TextId, FixedState>,
}

impl History {
    /// Keeps at most `bytes_max` bytes of texts, taken for the next power of two, 64 KiB to 1 GiB.
    pub fn new(bytes_max: usize) -> Self {
        let room = bytes_max.clamp(1 << 16, 1 << 30).next_power_of_two();
        Self {
            bytes: vec![0; room],
            owners: vec![0; room / GRAIN],
            near: Index::new(room),
            all: Index::new(room),
            next_address: 0,
            texts: VecDeque::new(),
            spans: Spans::default(),
            next_id: 1,
            newest: HashMap::default(),
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
        self.next_id = self.next_id.wrapping_add(1).max(1);
        let start = self.index(address);
        self.bytes[start..start + text.len()].copy_from_slice(text);
        self.owners[start / GRAIN..(start + taken as usize) / GRAIN].fill(id);
        let before = self.newest.insert(scope, id).and_then(|before| self.text(before));
        let expected = before.map_or(Sampled::default(), |before| before.got);
        let (got, length) = (Sampled::default(), text.len() as u32);
        self.spans.push(id, span);
        self.texts.push_back(Text { id, scope, name, got, expected, address, length });
        Some(id)
    }

    fn forget_oldest(&mut self) {
        let Some(oldest) = self.texts.pop_front() else { return };
        self.spans.forget_oldest();
        if self.newest.get(&oldest.scope) == Some(&oldest.id) {
            self.newest.remove(&oldest.scope);
        }
    }

    /// Forgets all texts; numbers go on.
    fn clear(&mut self) {
        self.texts.clear();
        self.spans = Spans::default();
        self.newest.clear();
        self.near.heads.fill(0);
        self.all.heads.fill(0);
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

    /// The newest places that may hold the bytes at `at` of `text`: of its domain, and of all. Puts `at` in front of them.
    /// Call once per position, in order, while `text` is the newest.
    pub fn link(&mut self, address: u64, domain: u64, at: usize, text_bytes: &[u8]) -> (Place, Place) {
        let here = address + at as u64;
        let index = self.index(here);
        let four = &text_bytes[at..at + FOUND_BYTES_MIN];
        let place = Place(here as u32 + 1);
        (self.near.link(four, domain, index, place), self.all.link(four, 0, index, place))
    }

    /// The next older place on the chain.
    pub fn older(&self, place: Place, which: Which) -> Place {
        let Some(address) = place.address() else { return place };
        let index = match which {
            Which::Near => &self.near,
            Which::All => &self.all,
        };
        let before = index.before[self.index(address)];
        // A chain that went through overwritten places is a chain no more.
        if before < place.0 { Place(before) } else { Place(0) }
    }

    #[inline]
    /// The text at a place and where in it; none at the end of a chain, and where it was overwritten.
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

    /// Where a text begins, for `link`.
    pub fn address(&self, text: &Text) -> u64 {
        text.address
    }

    /// Heap it holds, whether touched or not.
    pub fn heap_bytes(&self) -> usize {
        self.bytes.len()
            + 4 * self.owners.len()
            + self.near.heap_bytes()
            + self.all.heap_bytes()
            + self.texts.capacity() * size_of::<Text>()
    }
}

/// Which chains are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Those of the domain.
    Near,
    /// Those of all texts.
    All,
}

/// Hash chains over positions.
#[derive(Debug)]
struct Index {
    /// The newest place with a hash, and from every place the one before: `Place`s as bare numbers, because only of
    /// those the system gives zeroes that it maps when they are touched.
    heads: Vec<u32>,
    before: Vec<u32>,
    hash_log: u32,
}

impl Index {
    fn new(room: usize) -> Self {
        let hash_log = (room.ilog2() - 3).min(HASH_LOG_MAX);
        Self { heads: vec![0; 1 << hash_log], before: vec![0; room], hash_log }
    }

    fn link(&mut self, four: &[u8], salt: u64, index: usize, place: Place) -> Place {
        let four = u32::from_le_bytes([four[0], four[1], four[2], four[3]]);
        let mixed = (u64::from(four) ^ salt.rotate_left(29)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let before = std::mem::replace(&mut self.heads[(mixed >> (64 - self.hash_log)) as usize], place.0);
        self.before[index] = before;
        Place(before)
    }

    fn heap_bytes(&self) -> usize {
        4 * (self.heads.len() + self.before.len())
    }
}

/// A position on a chain: its address and one, or 0 at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(u32);

impl Place {
    fn address(self) -> Option<u64> {
        self.0.checked_sub(1).map(u64::from)
    }

    pub fn is_end(self) -> bool {
        self.0 == 0
    }
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
