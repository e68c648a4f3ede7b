//! History: the texts that later ones may refer to, and the index that finds equal bytes in them.
//!
//! Owns        a ring of bytes with the texts of all guilds, newest last, and an index of every position in it.
//! Invariants  H1 a text lies in one piece and starts on a `GRAIN`, so every position tells its text. H2 what was
//!             overwritten is never read: a text that is found is whole.
//! Limits      `bytes_max` of text, not quite twice as much in all, mapped as it fills; the oldest texts go first.

use crate::{
    coverage::{Coverage, Sampled},
    dictionary::DICTIONARY,
    places::{Index, Kept, Place, Places},
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
/// The first address: none is 0.
const BEGIN: u64 = GRAIN as u64;
/// Of positions that follow each other, the bytes at the places of one in so many are asked for ahead.
const ASKED_FOR_ONE_IN: usize = 16;

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
    index: Index,
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
            index: Index::new(room),
            next_address: BEGIN,
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
    fn at(&self, address: u64) -> usize {
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
        if self.at(self.next_address) as u64 + taken > room {
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
        let start = self.at(address);
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
        self.index.clear();
        self.next_address = BEGIN;
    }

    /// How long the texts are that are kept.
    pub fn spans(&self) -> &Spans {
        &self.spans
    }

    /// A text by its number, while it is kept.
    #[inline]
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
        self.kept().bytes(self.place(text, 0), text.length)
    }

    /// A sampled connection was written a text.
    pub fn note_written(&mut self, id: TextId, sample: u8) {
        let Some(first) = self.texts.front().map(|text| text.id) else { return };
        if let Some(text) = self.texts.get_mut(id.wrapping_sub(first) as usize).filter(|text| text.id == id) {
            text.got.insert(sample);
        }
    }

    /// Where the bytes at each position of `range` of `text` may have stood before: see [`Index::link`]. Call once per position, in
    /// order, while `text` is the newest. Of those from `oldest` on, memory is asked for the bytes.
    pub fn link(
        &mut self,
        (text, bytes): (&Text, &[u8]),
        range: Range<usize>,
        (short_max, oldest): (usize, Place),
        found: &mut Vec<Places>,
    ) {
        self.index.link((bytes, Place::of(text.address), text.scope.domain), range, short_max, found);
        // What goes on lies in the same line, mostly.
        let kept = self.kept();
        found
            .iter()
            .step_by(ASKED_FOR_ONE_IN)
            .flat_map(|places| places.newest_first(oldest))
            .for_each(|place| kept.prefetch(place));
    }

    /// The bytes of all texts.
    #[inline]
    pub fn kept(&self) -> Kept<'_> {
        Kept::new(&self.bytes)
    }

    /// Where a byte of a text stands.
    pub fn place(&self, text: &Text, at: u32) -> Place {
        Place::of(text.address + u64::from(at))
    }

    /// The number of the text at a place, which may have been forgotten; none where it was overwritten.
    #[inline]
    pub fn owner(&self, place: Place) -> Option<TextId> {
        let address = place.address();
        (address + self.bytes.len() as u64 >= self.next_address).then(|| self.owners[self.at(address) / GRAIN])
    }

    /// Heap it holds, whether touched or not.
    pub fn heap_bytes(&self) -> usize {
        self.bytes.len() + 4 * self.owners.len() + self.index.heap_bytes() + self.texts.capacity() * size_of::<Text>()
    }
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
