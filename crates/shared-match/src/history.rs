//! History: the texts that later ones may refer to, and the index that finds equal bytes in them.
//!
//! Owns        a ring of bytes with the texts of all guilds, newest last, and hash chains over every position in it.
//! Invariants  H1 a text lies in one piece and starts on a `GRAIN`, so every position tells its text. H2 what was
//!             overwritten is never read: a text that is found is whole.
//! Limits      `bytes_max` of text, five times as much in all, mapped as it fills; the oldest texts go first.

use crate::ring::TextId;
use foldhash::fast::FixedState;
use std::collections::{HashMap, VecDeque};

/// Texts start on multiples of this.
const GRAIN: usize = 64;
const HASH_LOG: u32 = 17;
/// Fewest equal bytes that the index finds.
pub const FOUND_BYTES_MIN: usize = 4;
/// Most texts of one guild that a text may look back on.
pub const LOOK_BACK_MAX: usize = 480;

/// Who gets a text: decides which earlier texts its recipients will have too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scope {
    /// Texts refer to texts of their own domain only: a guild, in one redaction.
    pub domain: u64,
    /// Texts of equal class reach the same members; class 0 reaches all. A channel, a member list.
    pub class: u64,
    /// Texts of equal kind ask for the same intents.
    pub kind: u64,
}

impl Scope {
    /// Whether whoever gets a text of this scope surely gets those of `other`, as far as scopes tell.
    pub fn equals_audience_of(self, other: Self) -> bool {
        self.class == other.class && self.kind == other.kind
    }

    /// Whether whoever gets a text of this scope probably gets those of `other`.
    pub fn is_within(self, other: Self) -> bool {
        self.class == other.class || other.class == 0
    }
}

/// A text that is kept.
#[derive(Clone, Debug)]
pub struct Text {
    pub id: TextId,
    pub scope: Scope,
    pub name: &'static str,
    address: u64,
    length: u32,
}

impl Text {
    pub fn len(&self) -> usize {
        self.length as usize
    }
}

#[derive(Debug, Default)]
struct Domain {
    recent: VecDeque<TextId>,
    kept_count: u32,
}

/// See the module.
#[derive(Debug)]
pub struct History {
    bytes: Vec<u8>,
    /// Per grain: which text it belongs to.
    owners: Vec<TextId>,
    /// The newest address with a hash, and from every address the one before; addresses are one too large, 0 is none.
    heads: Vec<u32>,
    before: Vec<u32>,
    next_address: u64,
    texts: VecDeque<Text>,
    next_id: TextId,
    domains: HashMap<u64, Domain, FixedState>,
}

impl History {
    /// Keeps at most `bytes_max` bytes of texts, taken for the next power of two, 64 KiB to 1 GiB.
    pub fn new(bytes_max: usize) -> Self {
        let room = bytes_max.clamp(1 << 16, 1 << 30).next_power_of_two();
        Self {
            bytes: vec![0; room],
            owners: vec![0; room / GRAIN],
            heads: vec![0; 1 << HASH_LOG],
            before: vec![0; room],
            next_address: 0,
            texts: VecDeque::new(),
            next_id: 1,
            domains: HashMap::default(),
        }
    }

    /// Longest text it takes.
    pub fn text_bytes_max(&self) -> usize {
        self.bytes.len() / 8
    }

    /// Where an address lies in the ring.
    #[inline]
    fn index(&self, address: u64) -> usize {
        address as usize & (self.bytes.len() - 1)
    }

    /// Keeps a text as the newest; none if it is too long.
    pub fn push(&mut self, scope: Scope, name: &'static str, text: &[u8]) -> Option<TextId> {
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
        self.next_id = self.next_id.checked_add(1).unwrap_or(1);
        let start = self.index(address);
        self.bytes[start..start + text.len()].copy_from_slice(text);
        self.owners[start / GRAIN..(start + taken as usize) / GRAIN].fill(id);
        self.texts.push_back(Text { id, scope, name, address, length: text.len() as u32 });
        let domain = self.domains.entry(scope.domain).or_default();
        domain.kept_count += 1;
        if domain.recent.len() == LOOK_BACK_MAX {
            domain.recent.pop_front();
        }
        domain.recent.push_back(id);
        Some(id)
    }

    fn forget_oldest(&mut self) {
        let Some(oldest) = self.texts.pop_front() else { return };
        if let Some(domain) = self.domains.get_mut(&oldest.scope.domain) {
            domain.kept_count -= 1;
            if domain.kept_count == 0 {
                self.domains.remove(&oldest.scope.domain);
            } else if domain.recent.front() == Some(&oldest.id) {
                domain.recent.pop_front();
            }
        }
    }

    /// Forgets all texts; numbers go on.
    fn clear(&mut self) {
        self.texts.clear();
        self.domains.clear();
        self.heads.fill(0);
        self.next_address = 0;
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

    /// The texts of a domain, oldest first, at most [`LOOK_BACK_MAX`].
    pub fn recent(&self, domain: u64) -> impl DoubleEndedIterator<Item = TextId> + ExactSizeIterator + '_ {
        self.domains.get(&domain).map(|domain| domain.recent.iter()).unwrap_or_default().copied()
    }

    fn hash(domain: u64, bytes: &[u8]) -> usize {
        let four = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let mixed = (u64::from(four) ^ domain.rotate_left(17)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> (64 - HASH_LOG)) as usize
    }

    /// The newest place that may hold the bytes at `at` of `text`, and puts `at` in front of it. Call once per position,
    /// in order, while `text` is the newest.
    pub fn link(&mut self, address: u64, domain: u64, at: usize, text_bytes: &[u8]) -> Place {
        let slot = &mut self.heads[Self::hash(domain, &text_bytes[at..])];
        let here = address + at as u64;
        let before = *slot;
        *slot = here as u32 + 1;
        let index = self.index(here);
        self.before[index] = before;
        Place(before)
    }

    /// The next older place on the chain.
    pub fn older(&self, place: Place) -> Place {
        let Some(address) = place.address() else { return place };
        let before = self.before[self.index(address)];
        // A chain that went through overwritten places is a chain no more.
        Place(if before < place.0 { before } else { 0 })
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
        self.bytes.len() + 4 * (self.owners.len() + self.heads.len() + self.before.len())
            + self.texts.capacity() * size_of::<Text>()
    }
}

/// A position on a chain.
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
