//! History: the bodies that later ones may refer to, by visibility domain.
//!
//! Owns        one `DomainHistory` per domain that has bodies; body ids, which are unique over all domains; message
//!             sizes by id.
//! Doors       `push` once per event; `restrict` and `forget` when permissions change.
//! Invariants  V1 nothing is shared between domains: neither bytes nor buckets nor ways. V2 a body moves to a narrower
//!             domain at most, never to a wider one.
//! Limits      `bytes_max` over everything it holds: bodies, entries, indexes, and what it knows of each domain and id.
//!             40 KiB per connection, at least 12 MiB, at most the setting. A ring has a power of two of bytes. When a
//!             body does not fit, its ring doubles if another domain gives way: of `CANDIDATES` drawn the one with the
//!             most bytes × age⁴, if that is twice the body's own domain. It is halved, and removed below
//!             `CAPACITY_MIN`. Otherwise the domain's own oldest bodies are evicted. A body longer than
//!             `body_bytes_max` is not kept. An id per `ID_BYTES` of the setting, `IDS_MAX` at most: a body with an
//!             older one is evicted. References to an evicted body are not written any more; streams stay valid, for
//!             they hold what was sent. After connections have left, or after a table of domains or ids has
//!             doubled, it may be over the limit: then `SHRINKS_MAX` rings give way with every further body.

mod domain;
pub mod hash_index;
pub mod message_sizes;

pub use domain::{Domain, DomainHistory, PARENTS_MAX, Scope};

use crate::{
    history::message_sizes::{MessageSize, MessageSizes},
    search::source::BODY_ID_END,
};
use domain::{CAPACITY_MIN, GRAIN, NAMED_MAX};
use foldhash::fast::FixedState;
use guildhall_stdx::Rng;
use smallvec::SmallVec;
use std::collections::{HashMap, VecDeque};

const BODY_BYTES_MAX: usize = 128 << 10;
/// Memory per connection: for some twenty of the latest bodies that it was sent and others were not, of 700 bytes. A
/// body takes 2.4 times its bytes.
const CONNECTION_BYTES: usize = 40 << 10;
/// For a few connections: about four thousand messages.
const BYTES_MIN: usize = 12 << 20;
/// Ids that are known at most; the bodies of older ones are evicted.
const IDS_MAX: usize = 1 << 17;
/// Bytes of the setting per id that is known: an id takes 16, so all of them at most an eighth.
const ID_BYTES: usize = 128;
/// Domains that are drawn when one has to give way.
const CANDIDATES: usize = 16;
/// Domains that give way with each body while the history is larger than it may be.
const SHRINKS_MAX: usize = 32;

/// A body's number in its matcher; later ones are larger. 0 is of none.
pub type BodyId = u32;

/// A domain's index in the history.
pub type Slot = u32;
const NO_SLOT: Slot = Slot::MAX;

/// An event name, by its number in the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventName(u16);

/// Names one domain's history for as long as it exists: a slot serves another domain once its history is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryKey {
    slot: Slot,
    serial: u64,
}

impl HistoryKey {
    pub fn slot(self) -> Slot {
        self.slot
    }
}

/// How badly a domain needs memory of another one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pressure {
    /// One with more than twice its weight gives way.
    Wish,
    /// Any gives way.
    Need,
}

/// Where a body is searched: its own domain, then those above it that have bodies.
pub type SearchDomains = SmallVec<[HistoryKey; PARENTS_MAX + 1]>;

/// A body in the history.
#[derive(Clone, Debug)]
pub struct HistoryEntry {
    pub id: BodyId,
    /// Slot of the body's domain.
    pub slot: Slot,
    /// As in [`Scope`].
    class: u64,
    address: u64,
    length: u32,
    pub name: EventName,
    /// Fewer positions of it are indexed.
    is_sparse: bool,
}

impl HistoryEntry {
    pub fn len(&self) -> usize {
        self.length as usize
    }
}

/// See the module.
#[derive(Debug)]
pub struct History {
    /// The setting, and how much of it the present connections are worth.
    setting_bytes: usize,
    bytes_max: usize,
    /// Of all domains.
    bytes: usize,
    domains: Vec<Option<Box<DomainHistory>>>,
    free: Vec<Slot>,
    slots: HashMap<Domain, Slot, FixedState>,
    /// Histories made so far.
    serials: u64,
    /// Event names by number: as many as the callers' code has.
    names: Vec<&'static str>,
    /// The domain of each id, from `first` on.
    ids: VecDeque<Slot>,
    first: BodyId,
    sizes: MessageSizes,
    next_id: BodyId,
    rng: Rng,
}

impl History {
    /// Holds at most `setting_bytes`, 64 KiB to 1 GiB; fewer once [`History::set_connections`] sets the number of
    /// connections.
    pub fn new(setting_bytes: usize) -> Self {
        let setting_bytes = setting_bytes.clamp(1 << 16, 1 << 30);
        Self {
            setting_bytes,
            bytes_max: setting_bytes,
            bytes: 0,
            domains: Vec::new(),
            free: Vec::new(),
            slots: HashMap::default(),
            serials: 0,
            names: Vec::new(),
            ids: VecDeque::new(),
            first: 1,
            sizes: MessageSizes::default(),
            next_id: 1,
            rng: Rng::new(0),
        }
    }

    /// Holds [`CONNECTION_BYTES`] per connection from now on, at least [`BYTES_MIN`], within the setting. If that is
    /// less than before, every further body makes [`SHRINKS_MAX`] domains give way until it is reached.
    pub fn set_connections(&mut self, count: usize) {
        self.bytes_max = count.saturating_mul(CONNECTION_BYTES).max(BYTES_MIN).min(self.setting_bytes);
    }

    /// Longest body: an eighth of the setting, and no more than is parsed in some milliseconds.
    pub fn body_bytes_max(&self) -> usize {
        (self.setting_bytes / 8).min(BODY_BYTES_MAX)
    }

    /// Adds a body as the newest; none if it is too long.
    pub fn push(&mut self, scope: Scope, name: &'static str, body: &[u8], size: MessageSize) -> Option<BodyId> {
        let id = self.new_id(size);
        if body.len() > self.body_bytes_max() {
            return None;
        }
        for _ in 0..SHRINKS_MAX {
            if self.heap_bytes() <= self.bytes_max || !self.shrink_other(NO_SLOT, Pressure::Need) {
                break;
            }
        }
        let slot = self.slot_or_new(scope.domain);
        self.make_room(slot, body.len());
        let name = self.number_of(name);
        let entry = HistoryEntry { id, slot, class: scope.class, address: 0, length: 0, name, is_sparse: false };
        if !self.append(slot, entry, body) {
            return None;
        }
        *self.ids.back_mut().expect("just pushed") = slot;
        Some(id)
    }

    /// Appends a body to its domain, unless the ring is smaller.
    fn append(&mut self, slot: Slot, entry: HistoryEntry, body: &[u8]) -> bool {
        let fits = self.domains[slot as usize].as_ref().is_some_and(|domain| domain.capacity() >= body.len());
        if fits {
            self.change(slot, |domain| domain.push(entry, body));
        }
        fits
    }

    /// Changes a domain, and counts what it takes.
    fn change<R>(&mut self, slot: Slot, change: impl FnOnce(&mut DomainHistory) -> R) -> Option<R> {
        let domain = self.domains[slot as usize].as_mut()?;
        let before = domain.heap_bytes();
        let result = change(domain);
        self.bytes = self.bytes + domain.heap_bytes() - before;
        Some(result)
    }

    /// The number of an event name.
    fn number_of(&mut self, name: &'static str) -> EventName {
        let number = self.names.iter().position(|other| *other == name).unwrap_or_else(|| {
            self.names.push(name);
            self.names.len() - 1
        });
        EventName(u16::try_from(number).expect("fewer event names than 2^16"))
    }

    /// Brings the indexes in which a body is searched up to the bodies before it.
    pub fn index_up_to(&mut self, searched: &SearchDomains, id: BodyId) {
        for key in searched {
            self.domain_mut(key.slot).index_up_to(id);
        }
    }

    /// The next id. It is used up even if its body is not kept, so that ids do not depend on what bodies hold.
    fn new_id(&mut self, size: MessageSize) -> BodyId {
        if self.next_id == BODY_ID_END {
            self.clear();
        }
        if self.ids.len() >= self.ids_max() {
            self.forget_oldest_id();
        }
        let id = self.next_id;
        self.next_id += 1;
        self.ids.push_back(NO_SLOT);
        self.sizes.push(id, size);
        id
    }

    fn ids_max(&self) -> usize {
        IDS_MAX.min(1 << (self.setting_bytes / ID_BYTES).ilog2())
    }

    fn forget_oldest_id(&mut self) {
        let Some(slot) = self.ids.pop_front() else { return };
        let id = self.first;
        self.first += 1;
        self.sizes.forget_oldest();
        let Some(home) = self.domains.get_mut(slot as usize).and_then(Option::as_mut) else { return };
        while home.oldest().is_some_and(|oldest| oldest.id <= id) {
            home.evict_oldest();
        }
        if home.oldest().is_none() {
            self.remove(slot);
        }
    }

    fn slot_or_new(&mut self, domain: Domain) -> Slot {
        if let Some(slot) = self.slots.get(&domain) {
            return *slot;
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.domains.push(None);
            self.domains.len() as Slot - 1
        });
        self.serials += 1;
        let key = HistoryKey { slot, serial: self.serials };
        let domain_history = DomainHistory::new(domain, key);
        self.bytes += domain_history.heap_bytes();
        self.domains[slot as usize] = Some(Box::new(domain_history));
        self.slots.insert(domain, slot);
        slot
    }

    /// Grows a domain's ring for a body within the limit, so that at least this one body fits.
    fn make_room(&mut self, slot: Slot, bytes: usize) {
        let Some(home) = self.domains[slot as usize].as_ref() else { return };
        if home.has_room(bytes) {
            return;
        }
        let (capacity, needed) = (home.capacity(), bytes.next_multiple_of(GRAIN).next_power_of_two());
        let larger = (2 * capacity).max(needed).max(CAPACITY_MIN);
        let pressure = if capacity < needed { Pressure::Need } else { Pressure::Wish };
        if pressure == Pressure::Wish && (DomainHistory::ring_bytes(larger) > self.bytes_max || !home.may_grow()) {
            return;
        }
        let more = DomainHistory::ring_bytes(larger) - DomainHistory::ring_bytes(capacity);
        // If it is larger than it may be, others give way for this body alone; `push` does the rest by and by.
        let limit = self.bytes_max.max(self.heap_bytes());
        while self.heap_bytes() + more > limit {
            if !self.shrink_other(slot, pressure) {
                self.change(slot, DomainHistory::refuse_growth);
                return;
            }
        }
        self.change(slot, |home| home.resize(larger));
    }

    /// How much a domain ought to give way: bytes × age⁴ of its oldest body. The power makes the oldest bodies of all
    /// domains about equally old. A ring of twice the bytes keeps bodies only a sixth less long.
    fn weight(&self, slot: Slot) -> f64 {
        let Some(domain) = self.domains.get(slot as usize).and_then(Option::as_ref) else { return 0.0 };
        let age = domain.oldest().map_or(u32::MAX, |oldest| self.next_id.wrapping_sub(oldest.id));
        domain.capacity() as f64 * f64::from(age).powi(4)
    }

    /// Halves the ring of another domain than `slot`. False if none gives way under this pressure.
    fn shrink_other(&mut self, slot: Slot, pressure: Pressure) -> bool {
        let count = self.domains.len() as u64;
        let drawn: SmallVec<[Slot; CANDIDATES]> = (0..CANDIDATES).map(|_| self.rng.below(count) as Slot).collect();
        let heaviest = |slots: &mut dyn Iterator<Item = Slot>| {
            let weights = slots.filter(|other| *other != slot).map(|other| (self.weight(other), other));
            weights.filter(|(weight, _)| *weight > 0.0).max_by(|one, other| one.0.total_cmp(&other.0))
        };
        let mut victim = heaviest(&mut drawn.into_iter());
        if victim.is_none() && pressure == Pressure::Need {
            victim = heaviest(&mut (0..count as Slot));
        }
        let worth = match pressure {
            Pressure::Need => 0.0,
            Pressure::Wish => 2.0 * self.weight(slot),
        };
        let Some((_, victim)) = victim.filter(|(weight, _)| *weight > worth) else { return false };
        let Some(domain) = self.domains[victim as usize].as_ref() else { return false };
        let capacity = domain.capacity();
        if capacity > CAPACITY_MIN {
            self.change(victim, |domain| domain.resize(capacity / 2));
        }
        if capacity <= CAPACITY_MIN
            || self.domains[victim as usize].as_ref().is_some_and(|domain| domain.oldest().is_none())
        {
            self.remove(victim);
        }
        true
    }

    fn remove(&mut self, slot: Slot) {
        let Some(domain) = self.domains[slot as usize].take() else { return };
        self.bytes -= domain.heap_bytes();
        self.slots.remove(&domain.domain);
        self.free.push(slot);
    }

    /// Forgets all bodies of a domain.
    pub fn forget(&mut self, domain: Domain) {
        if let Some(slot) = self.slots.get(&domain) {
            self.remove(*slot);
        }
    }

    /// Forgets all bodies of a guild.
    pub fn forget_guild(&mut self, guild: u64) {
        let of_guild = self.slots.iter().filter(|(domain, _)| domain.guild() == Some(guild));
        let slots: Vec<Slot> = of_guild.map(|(_, slot)| *slot).collect();
        slots.into_iter().for_each(|slot| self.remove(slot));
    }

    /// Some members of the guild may not view a channel any more: its bodies move from the public domains to the
    /// restricted ones (V2).
    pub fn restrict(&mut self, guild: u64, channel: u64, key: u64) {
        let is_public = |domain: &Domain| matches!(domain, Domain::Public { guild: of, .. } if *of == guild);
        let public: Vec<(Domain, Slot)> =
            self.slots.iter().filter(|(domain, _)| is_public(domain)).map(|(domain, slot)| (*domain, *slot)).collect();
        for (domain, slot) in public {
            let Domain::Public { view, .. } = domain else { continue };
            let divided = self.change(slot, |from| {
                let (capacity, entries) = (from.capacity(), from.take_entries());
                let (moved, stay): (Vec<_>, Vec<_>) =
                    entries.into_iter().partition(|(entry, _)| entry.class == channel);
                from.restore(stay, capacity);
                (moved, from.oldest().is_none())
            });
            let Some((moved, is_empty)) = divided else { continue };
            if is_empty {
                self.remove(slot);
            }
            let domain = Domain::Restricted { guild, channel: key, view };
            for (entry, bytes) in moved {
                self.adopt(domain, entry, &bytes);
            }
        }
    }

    /// Takes over a body that was in another domain, unless the domain has newer ones.
    fn adopt(&mut self, domain: Domain, entry: HistoryEntry, bytes: &[u8]) {
        let id = entry.id;
        let slot = self.slot_or_new(domain);
        self.make_room(slot, bytes.len());
        let index = id.wrapping_sub(self.first) as usize;
        let (Some(home), Some(of_id)) = (self.domains[slot as usize].as_ref(), self.ids.get_mut(index)) else { return };
        *of_id = NO_SLOT;
        let has_newer = home.newest_id().is_some_and(|newest| newest >= id);
        if !has_newer && self.append(slot, entry, bytes) {
            self.ids[index] = slot;
        }
    }

    /// Forgets all bodies; ids begin again.
    fn clear(&mut self) {
        self.domains.clear();
        self.free.clear();
        self.slots.clear();
        self.ids.clear();
        self.bytes = 0;
        self.sizes = MessageSizes::default();
        (self.first, self.next_id) = (1, 1);
    }

    /// How long messages are, by id.
    pub fn sizes(&self) -> &MessageSizes {
        &self.sizes
    }

    /// A body by its id, while it is kept.
    #[inline]
    pub fn entry(&self, id: BodyId) -> Option<&HistoryEntry> {
        let slot = *self.ids.get(id.wrapping_sub(self.first) as usize)?;
        self.domains.get(slot as usize)?.as_ref()?.entry(id)
    }

    /// The domain at an index.
    ///
    /// # Panics
    /// If there is none: an index is of an entry that is kept.
    #[inline]
    pub fn domain(&self, slot: Slot) -> &DomainHistory {
        self.domains[slot as usize].as_deref().expect("the domain of a body that is kept")
    }

    /// As [`History::domain`].
    pub fn domain_mut(&mut self, slot: Slot) -> &mut DomainHistory {
        self.domains[slot as usize].as_deref_mut().expect("the domain of a body that is kept")
    }

    /// A body's event name.
    #[inline]
    pub fn name(&self, entry: &HistoryEntry) -> &'static str {
        self.names[usize::from(entry.name.0)]
    }

    /// Where `entry` is searched: every account that may view it may view the bodies there.
    pub fn searched(&self, entry: &HistoryEntry) -> SearchDomains {
        let parents = self.domain(entry.slot).domain.parents().into_iter();
        let slots = parents.filter_map(|parent| self.slots.get(&parent).copied());
        std::iter::once(entry.slot).chain(slots).map(|slot| self.domain(slot).key).collect()
    }

    /// Those of these domains that still have bodies.
    pub fn domains<'a>(&'a self, searched: &'a SearchDomains) -> impl Iterator<Item = &'a DomainHistory> {
        let domains = searched.iter().map(|key| (key, self.domains[key.slot as usize].as_deref()));
        domains.filter_map(|(key, domain)| domain.filter(|domain| domain.key == *key))
    }

    /// The newest bodies of the name of `entry` where it is searched, newest first.
    pub fn similar(&self, entry: &HistoryEntry, searched: &SearchDomains) -> SmallVec<[BodyId; NAMED_MAX]> {
        let named = self.domains(searched).flat_map(|domain| domain.named(entry.name));
        let mut similar: SmallVec<[BodyId; NAMED_MAX * (PARENTS_MAX + 1)]> = named.collect();
        similar.sort_unstable_by_key(|id| std::cmp::Reverse(*id));
        similar.into_iter().take(NAMED_MAX).collect()
    }

    /// Bytes of an entry, which are complete (H2).
    pub fn bytes(&self, entry: &HistoryEntry) -> &[u8] {
        self.domain(entry.slot).body(entry)
    }

    /// Heap it holds, touched or not.
    pub fn heap_bytes(&self) -> usize {
        let by_slot = size_of::<Option<Box<DomainHistory>>>() * self.domains.capacity();
        let free = size_of::<Slot>() * (self.free.capacity() + self.ids.capacity());
        // A table of the standard library has a byte of control per bucket, and leaves an eighth of the buckets empty.
        let slots = (size_of::<(Domain, Slot)>() + 1) * self.slots.capacity() / 7 * 8;
        self.bytes + by_slot + free + slots + self.sizes.heap_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUBLIC: Domain = Domain::Public { guild: 1, view: 0 };

    fn push(history: &mut History, domain: Domain, class: u64, body: &[u8]) -> BodyId {
        let scope = Scope { domain, class };
        history.push(scope, "X", body, MessageSize { after: body.len() as u32, before: 20 }).expect("it is short")
    }

    fn has(history: &History, id: BodyId, body: &[u8]) -> bool {
        history.entry(id).is_some_and(|entry| history.bytes(entry) == body)
    }

    #[test]
    fn ids_begin_again_before_those_with_a_meaning_of_their_own() {
        let mut history = History::new(1 << 16);
        history.next_id = BODY_ID_END - 2;
        history.first = BODY_ID_END - 2;
        let ids = [(); 4].map(|()| {
            let id = push(&mut history, PUBLIC, 1, b"body");
            assert!(has(&history, id, b"body"));
            id
        });
        assert_eq!(ids, [BODY_ID_END - 2, BODY_ID_END - 1, 1, 2]);
        assert!(history.entry(BODY_ID_END - 1).is_none() && history.entry(BODY_ID_END).is_none());
    }

    #[test]
    fn a_channel_that_narrows_takes_its_bodies_along_and_leaves_the_others() {
        let mut history = History::new(1 << 16);
        let ids: Vec<BodyId> = (0..8u8).map(|n| push(&mut history, PUBLIC, u64::from(n % 2), &[n; 300])).collect();
        history.restrict(1, 1, 1);
        let restricted = Domain::Restricted { guild: 1, channel: 1, view: 0 };
        for (n, id) in ids.iter().enumerate() {
            assert!(has(&history, *id, &[n as u8; 300]), "body {n}");
            let domain = history.entry(*id).map(|entry| history.domain(entry.slot).domain);
            assert_eq!(domain, Some(if n % 2 == 1 { restricted } else { PUBLIC }));
        }
        let newest = push(&mut history, restricted, 1, b"later");
        assert_eq!(
            history.entry(newest).and_then(|entry| history.searched(entry).get(1).map(|key| key.slot)),
            history.slots.get(&PUBLIC).copied()
        );
        history.forget(restricted);
        assert!(history.entry(ids[1]).is_none() && history.entry(newest).is_none());
        assert!(has(&history, ids[0], &[0; 300]));
        history.forget_guild(1);
        assert!(history.entry(ids[0]).is_none() && history.bytes == 0 && history.slots.is_empty());
    }

    #[test]
    fn a_loud_guild_does_not_empty_quiet_ones() {
        let mut history = History::new(5 << 17);
        let quiet: Vec<(BodyId, Vec<u8>)> = (0..40u64)
            .map(|guild| {
                let body = vec![guild as u8; 500];
                (push(&mut history, Domain::Public { guild: 100 + guild, view: 0 }, 1, &body), body)
            })
            .collect();
        // It keeps some 160 of its own, and they keep theirs more than three times as long.
        for n in 0..500u32 {
            push(&mut history, PUBLIC, 1, &n.to_le_bytes().repeat(200));
            assert!(history.heap_bytes() <= history.bytes_max, "{} bytes", history.heap_bytes());
        }
        let left = quiet.iter().filter(|(id, body)| has(&history, *id, body)).count();
        assert!(left >= 36, "{left} of 40");
    }

    #[test]
    fn history_follows_the_number_of_connections() {
        const SETTING: usize = 40 << 20;
        let mut history = History::new(SETTING);
        let fill = |history: &mut History| {
            for n in 0..30_000u32 {
                let domain = if n % 3 == 0 { PUBLIC } else { Domain::Public { guild: u64::from(n % 900), view: 0 } };
                push(history, domain, 1, &n.to_le_bytes().repeat(200));
            }
            history.heap_bytes()
        };
        history.set_connections(1);
        let few = fill(&mut history);
        assert!(few > BYTES_MIN / 2 && few <= BYTES_MIN, "{few} bytes");
        history.set_connections(512);
        let more = fill(&mut history);
        assert!(more > few && more <= 512 * CONNECTION_BYTES, "{more} bytes");
        history.set_connections(100_000);
        let most = fill(&mut history);
        assert!(most > more && most <= SETTING, "{most} bytes");
        history.set_connections(1);
        let few = fill(&mut history);
        assert!(few > BYTES_MIN / 2 && few <= BYTES_MIN, "{few} bytes");
        // One domain alone gives way to itself.
        let mut history = History::new(SETTING);
        let alone = |history: &mut History| {
            for n in 0..30_000u32 {
                push(history, PUBLIC, 1, &n.to_le_bytes().repeat(200));
            }
            assert!(history.heap_bytes() <= history.bytes_max, "{} bytes", history.heap_bytes());
            history.domain(0).capacity()
        };
        assert_eq!(alone(&mut history), 16 << 20);
        history.set_connections(1);
        assert_eq!(alone(&mut history), 4 << 20);
    }

    #[test]
    fn a_busy_guild_and_silent_ones_keep_bodies_about_as_long() {
        let mut history = History::new(1 << 20);
        let mut rng = Rng::new(5);
        let mut ids = Vec::new();
        for n in 0..40_000u64 {
            // One guild is as loud as four hundred others.
            let guild = if rng.chance(0.5) { 1 } else { 2 + rng.below(400) };
            let domain = Domain::Public { guild, view: 0 };
            ids.push((push(&mut history, domain, 1, &n.to_le_bytes().repeat(25)), guild == 1));
        }
        let oldest = |loud: bool| {
            let kept = ids.iter().filter(|(id, is_loud)| *is_loud == loud && history.entry(*id).is_some());
            kept.count()
        };
        let (loud, quiet) = (oldest(true), oldest(false));
        assert!(loud > quiet / 4 && quiet > loud / 4, "{loud} of the loud guild, {quiet} of the others");
    }

    #[test]
    fn twenty_thousand_small_guilds_stay_within_the_limit() {
        let mut history = History::new(4 << 20);
        for n in 0..60_000u64 {
            let domain = Domain::Public { guild: n * 7 % 20_000, view: 0 };
            push(&mut history, domain, 1, &n.to_le_bytes().repeat(20 + (n % 80) as usize));
            // Tables of domains and ids double now and then.
            assert!(history.heap_bytes() <= history.bytes_max / 8 * 9, "{} bytes", history.heap_bytes());
        }
        assert!(history.heap_bytes() <= history.bytes_max, "{} bytes", history.heap_bytes());
        let domains = || history.domains.iter().flatten();
        let sum: usize = domains().map(|domain| domain.heap_bytes()).sum();
        assert_eq!(sum, history.bytes);
        assert!(domains().count() > 1_000, "{} domains", domains().count());
    }

    #[test]
    fn no_setting_is_exceeded_by_large_bodies_or_many_small_ones() {
        for setting_log in 16..22 {
            let mut history = History::new(1 << setting_log);
            let mut rng = Rng::new(setting_log);
            for n in 0..4_000u64 {
                let guild = if rng.chance(0.5) { 1 } else { 2 + rng.below(50) };
                let domain = Domain::Public { guild, view: 0 };
                let longest = history.body_bytes_max();
                let length = if rng.chance(0.02) { longest } else { 1 + rng.below(300) as usize };
                let body: Vec<u8> = n.to_le_bytes().into_iter().cycle().take(length).collect();
                let id = push(&mut history, domain, 1, &body);
                assert!(has(&history, id, &body), "body {n} of {length} bytes, setting {setting_log}");
                let held = history.heap_bytes();
                assert!(held <= history.bytes_max / 8 * 9, "{held}, setting {setting_log}");
            }
            let kept: usize = history.domains.iter().flatten().map(|domain| domain.capacity()).sum();
            assert!(kept > history.setting_bytes / 8, "{kept} bytes of bodies, setting {setting_log}");
        }
    }
}
