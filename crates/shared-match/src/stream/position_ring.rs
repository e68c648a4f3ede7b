//! Ring: where in a connection's stream the bodies are that it was sent lately, and so how far back each is.
//!
//! Owns        groups of bodies that followed each other: the first one's position, then how much each number is larger
//!             than the one before. How long bodies are is the same for all connections (`MessageSizes`), so positions
//!             add up: a body takes a byte where a connection gets many of its matcher's bodies, and four where it gets
//!             one in a thousand.
//! Invariants  R1 a returned position is the body's position in this stream: a body joins a group only if its position
//!             is the one that `distance` will compute. R2 order of bodies is only a help to find them fast: one out of
//!             order may be missed, which costs bytes, never a wrong reference.
//! Limits      `GROUPS_MAX` groups of up to `GROUP_BODIES_MAX`, `AGE_MAX` bodies, and the reach that the caller gives;
//!             the oldest are forgotten.

use crate::history::{
    BodyId,
    message_sizes::{MessageSizes, SET_BITS},
};
use guildhall_prefetch::prefetch;

/// Groups that a connection remembers, of 16 bytes.
pub const GROUPS_MAX: usize = 180;
const GROUPS_MIN: usize = 4;
/// Number of newest groups to prefetch. Computing the exact groups of the needed bodies takes longer than it saves.
const PREFETCHED_GROUPS: u16 = 64;
const GROUPS_PER_LINE: usize = 64 / size_of::<Group>();
/// Groups that are looked at from the first guess on, before they are searched.
const STEPS_MAX: usize = 8;
/// More would take longer to add up.
const GROUP_BODIES_MAX: usize = 16;
const PACE_BITS: u32 = 24;
const _: () = assert!(GROUPS_MAX < 1 << (32 - PACE_BITS));
/// Value of a gap bit, if all bodies are one group.
const PACE_PER_BIT: u64 = (1 << PACE_BITS) / Group::GAPS_BITS as u64;
/// Older bodies than this, counted in those of the matcher, are forgotten.
const AGE_MAX: u32 = 1 << 22;

/// Bodies that followed each other.
///
/// A gap is the difference between successive numbers, at least 1. Gaps are Rice coded: the quotient of `gap - 1` by
/// `2^low_bits` in unary (zeros, then a one), then the `low_bits` remaining bits. The code is short if `low_bits` fits
/// the typical gap of this connection. Without low bits it is a bitmap of the numbers behind the first one, with ones
/// for existing bodies, which is faster to scan and little larger for gaps up to `BITMAP_GAP_MAX`.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    id: BodyId,
    position: u32,
    /// From the lowest bit.
    gaps: [u16; 3],
    /// Bytes of the seq, between any two of them.
    between: u8,
    /// How many gaps there are, and their `low_bits`.
    shape: u8,
}

impl Group {
    const GAPS_BITS: u32 = SET_BITS as u32;
    const LOW_BITS_MAX: u32 = 15;
    /// Where gaps are mostly no larger, they are written with no low bits.
    const BITMAP_GAP_MAX: u32 = 4;

    fn new(id: BodyId, position: u32, low_bits: u32) -> Self {
        Self { id, position, gaps: [0; 3], between: 0, shape: (low_bits.min(Self::LOW_BITS_MAX) as u8) << 4 }
    }

    #[inline]
    fn gaps_count(&self) -> usize {
        usize::from(self.shape & 15)
    }

    #[inline]
    fn gaps(&self) -> Gaps {
        let [low, middle, high] = self.gaps.map(u64::from);
        let bits = low | middle << 16 | high << 32;
        Gaps { bits, low_bits: u32::from(self.shape >> 4), left: self.gaps_count() as u32 }
    }

    /// Adds a gap after `used` bits. Returns the bits used then; `None` if the gap does not fit.
    #[inline]
    fn push(&mut self, gap: u32, used: u32) -> Option<u32> {
        let low_bits = u32::from(self.shape >> 4);
        let rest = gap.checked_sub(1)?;
        let zeros = rest >> low_bits;
        let needed = zeros.saturating_add(1 + low_bits);
        if self.gaps_count() + 1 == GROUP_BODIES_MAX || used + needed.min(Self::GAPS_BITS + 1) > Self::GAPS_BITS {
            return None;
        }
        let low = u64::from(rest & ((1 << low_bits) - 1));
        let code = (1 | low << 1) << zeros << used;
        for (index, part) in self.gaps.iter_mut().enumerate() {
            *part |= (code >> (16 * index)) as u16;
        }
        self.shape += 1;
        Some(used + needed)
    }

    #[cfg(test)]
    fn ids(&self) -> impl Iterator<Item = BodyId> + use<> {
        let first = self.id;
        std::iter::once(first).chain(self.gaps().scan(first, |id, gap| {
            *id = id.wrapping_add(gap);
            Some(*id)
        }))
    }

    /// Position of `id`, if it is in this group and the sizes of the bodies before it are still known.
    #[inline]
    fn position_of(&self, id: BodyId, sizes: &MessageSizes) -> Option<u32> {
        let wanted = id.wrapping_sub(self.id);
        if wanted == 0 {
            return Some(self.position);
        }
        let gaps = self.gaps();
        let digits = u32::from(self.between);
        let distance = if gaps.low_bits > 0 {
            let (distance, count) = sizes.walk(self.id, id, gaps)?;
            distance + count * digits
        } else {
            if wanted > Self::GAPS_BITS || gaps.bits >> (wanted - 1) & 1 == 0 {
                return None;
            }
            let all = (1 << (wanted - 1)) - 1;
            let between = gaps.bits & all;
            // A connection that received all of them is queried more often.
            match between == all {
                true => sizes.stretch(self.id, id)? + wanted * digits,
                false => sizes.walk_set(self.id, id, between, digits)?,
            }
        };
        Some(self.position.wrapping_add(distance))
    }
}

/// The gaps of a group, in order.
#[derive(Clone, Copy, Debug, Default)]
struct Gaps {
    bits: u64,
    low_bits: u32,
    left: u32,
}

impl Iterator for Gaps {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        self.left = self.left.checked_sub(1)?;
        let zeros = self.bits.trailing_zeros();
        let rest = self.bits >> (zeros + 1);
        let low = rest as u32 & ((1 << self.low_bits) - 1);
        self.bits = rest >> self.low_bits;
        Some((zeros << self.low_bits | low) + 1)
    }
}

/// The oldest body in the ring, its position, and the gaps after it in its group.
#[derive(Clone, Copy, Debug, Default)]
struct Oldest {
    id: BodyId,
    position: u32,
    later: Gaps,
    between: u32,
}

impl Oldest {
    fn first_of(group: &Group) -> Self {
        Self { id: group.id, position: group.position, later: group.gaps(), between: group.between.into() }
    }

    /// Advances to the next entry of the group. None, without advancing, at the end or if the length of the
    /// current body is unknown.
    #[inline]
    fn go_on(&mut self, sizes: &MessageSizes) -> Option<()> {
        let mut later = self.later;
        let id = self.id.wrapping_add(later.next()?);
        let distance = sizes.step(self.id, id)? + self.between;
        (self.id, self.position, self.later) = (id, self.position.wrapping_add(distance), later);
        Some(())
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct PositionRing {
    groups: Box<[Group]>,
    /// Where the next group goes.
    next: u16,
    count: u16,
    /// The largest number pushed.
    newest: BodyId,
    /// Last pushed body and its position.
    last: (BodyId, u32),
    /// Every message reads it, and its group is usually cold memory.
    oldest: Oldest,
    /// Bits taken of the newest group's gaps.
    used: u8,
    /// What gaps mostly are, times eight.
    typical_gap: u32,
    /// Groups per number, times `2^PACE_BITS`, when the last group began.
    pace: u32,
}

impl PositionRing {
    #[inline]
    fn index(&self, back: u16) -> usize {
        let at = usize::from(self.next) + self.groups.len() - 1 - usize::from(back);
        if at >= self.groups.len() { at - self.groups.len() } else { at }
    }

    #[inline]
    fn group(&self, back: u16) -> &Group {
        &self.groups[self.index(back)]
    }

    #[inline]
    fn age_of(&self, group: &Group) -> u32 {
        self.newest.wrapping_sub(group.id)
    }

    /// How many numbers lie between the oldest and the newest.
    #[inline]
    fn age(&self) -> u32 {
        self.newest.wrapping_sub(self.oldest.id)
    }

    /// Records the position of `id`.
    #[inline]
    pub fn push(&mut self, id: BodyId, position: u32, sizes: &MessageSizes) {
        let is_newest = id.wrapping_sub(self.newest) < 1 << 31;
        if !self.join(id, position, sizes) {
            if is_newest && id.wrapping_sub(self.newest) > AGE_MAX {
                self.count = 0;
            }
            self.begin(id, position);
        }
        if is_newest {
            self.newest = id;
        }
        self.last = (id, position);
    }

    /// Puts it into the newest group, if it follows there.
    #[inline]
    fn join(&mut self, id: BodyId, position: u32, sizes: &MessageSizes) -> bool {
        let (last, last_position) = self.last;
        let gap = id.wrapping_sub(last);
        if self.count == 0 || gap == 0 || gap > AGE_MAX {
            return false;
        }
        self.typical_gap = self.typical_gap - self.typical_gap / 8 + gap;
        let Some(step) = sizes.step(last, id) else { return false };
        let Ok(between) = u8::try_from(position.wrapping_sub(last_position).wrapping_sub(step)) else { return false };
        let index = self.index(0);
        let group = &mut self.groups[index];
        if group.gaps_count() > 0 && group.between != between {
            return false;
        }
        let Some(used) = group.push(gap, u32::from(self.used)) else { return false };
        group.between = between;
        self.used = used as u8;
        if self.count == 1 {
            self.note_oldest();
        }
        true
    }

    fn begin(&mut self, id: BodyId, position: u32) {
        let count = self.count;
        while self.count > 0 && self.age_of(self.group(self.count - 1)) > AGE_MAX {
            self.count -= 1;
        }
        if usize::from(self.count) == self.groups.len() && self.groups.len() < GROUPS_MAX {
            self.grow();
        }
        // As many bits as the average gap has, without the leading one: the shortest code, or nearly.
        let low_bits = match self.typical_gap / 8 {
            0..=Group::BITMAP_GAP_MAX => 0,
            gap => gap.ilog2(),
        };
        self.groups[usize::from(self.next)] = Group::new(id, position, low_bits);
        self.used = 0;
        self.next = if usize::from(self.next) + 1 == self.groups.len() { 0 } else { self.next + 1 };
        self.count = (self.count + 1).min(self.groups.len() as u16);
        if self.count != count + 1 || self.count == 1 {
            self.oldest = Oldest::first_of(self.group(self.count - 1));
        }
        self.note_pace();
    }

    /// The oldest group is another one now, or has changed.
    fn note_oldest(&mut self) {
        if let Some(oldest) = self.count.checked_sub(1) {
            self.oldest = Oldest::first_of(self.group(oldest));
            self.note_pace();
        }
    }

    /// A division here saves one with every look.
    fn note_pace(&mut self) {
        let oldest = self.count - 1;
        self.pace = (u32::from(oldest) << PACE_BITS) / self.age_of(self.group(oldest)).max(1);
    }

    fn grow(&mut self) {
        let room = (self.groups.len() * 3 / 2).clamp(GROUPS_MIN, GROUPS_MAX);
        let mut larger = vec![Group::default(); room].into_boxed_slice();
        for back in 0..self.count {
            larger[usize::from(self.count - 1 - back)] = *self.group(back);
        }
        self.next = self.count;
        self.groups = larger;
    }

    /// Forgets the groups of which all but the last body may be more than `reach` before `position`. Has to be called
    /// before the stream has grown by 2^31 bytes since the last time.
    #[inline]
    pub fn forget_beyond(&mut self, position: u32, reach: u32) {
        if self.count == 0 || position.wrapping_sub(self.oldest.position) <= reach {
            return;
        }
        while self.count > 1 && position.wrapping_sub(self.group(self.count - 2).position) > reach {
            self.count -= 1;
        }
        if self.count == 1 && position.wrapping_sub(self.last.1) > reach {
            self.count = 0;
        }
        self.note_oldest();
    }

    /// Last pushed body and its position.
    #[inline]
    pub fn last(&self) -> Option<(BodyId, u32)> {
        (self.count > 0).then_some(self.last)
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        self.count = 0;
    }

    /// The oldest body at most `reach` before `position`; evicts older ones.
    #[inline]
    pub fn oldest(&mut self, position: u32, reach: u32, sizes: &MessageSizes) -> Option<BodyId> {
        while self.count > 0 {
            if position.wrapping_sub(self.oldest.position) <= reach {
                return Some(self.oldest.id);
            }
            match self.oldest.go_on(sizes) {
                Some(()) => {}
                // Lengths of bodies are unknown here, but the newest is within reach.
                None if self.count == 1 && position.wrapping_sub(self.last.1) <= reach => return None,
                None => {
                    self.count -= 1;
                    self.note_oldest();
                }
            }
        }
        None
    }

    /// Distance from a body to `position`.
    #[inline]
    pub fn distance(&self, id: BodyId, position: u32, sizes: &MessageSizes) -> Option<u32> {
        let found = self.group(self.search(id)?).position_of(id, sizes)?;
        Some(position.wrapping_sub(found))
    }

    /// How much older than the newest a body is, and about which group it is in. None if it is older than any.
    #[inline]
    fn guess(&self, id: BodyId) -> Option<(u32, u16)> {
        let age = self.newest.wrapping_sub(id);
        if age > self.age() || self.count == 0 {
            return None;
        }
        // Groups follow each other at about the same pace, so it is near to where it would be if they did exactly; the
        // newest is not full yet.
        let room = u64::from(Group::GAPS_BITS - u32::from(self.used)) * PACE_PER_BIT;
        let back = (u64::from(age) * u64::from(self.pace) + room) >> PACE_BITS;
        Some((age, (back as u16).min(self.count - 1)))
    }

    /// The newest group that begins with a body at least as old.
    #[inline]
    fn search(&self, id: BodyId) -> Option<u16> {
        let (age, mut back) = self.guess(id)?;
        let mut its_age = self.age_of(self.group(back));
        for _ in 0..STEPS_MAX {
            if its_age < age {
                back += 1;
                if back == self.count {
                    return None;
                }
                its_age = self.age_of(self.group(back));
                continue;
            }
            let Some(nearer) = back.checked_sub(1) else { return Some(back) };
            let age_of_nearer = self.age_of(self.group(nearer));
            if age_of_nearer < age {
                return Some(back);
            }
            (back, its_age) = (nearer, age_of_nearer);
        }
        self.bisect(age)
    }

    /// Prefetches the newest groups: `push` writes to one of them, and `distance` mostly finds bodies there.
    #[inline]
    pub fn prefetch(&self) {
        let newest = 0..self.count.min(PREFETCHED_GROUPS);
        newest.step_by(GROUPS_PER_LINE).for_each(|back| prefetch(self.group(back)));
    }

    fn bisect(&self, age: u32) -> Option<u16> {
        let (mut near, mut far) = (0, self.count);
        while near < far {
            let middle = (near + far) / 2;
            if self.age_of(self.group(middle)) >= age {
                far = middle;
            } else {
                near = middle + 1;
            }
        }
        (near < self.count).then_some(near)
    }

    /// The bodies that are remembered.
    #[cfg(test)]
    pub fn ids(&self) -> impl Iterator<Item = BodyId> + '_ {
        let is_remembered = |id: &BodyId| self.newest.wrapping_sub(*id) <= self.age();
        (0..self.count).flat_map(|back| self.group(back).ids()).filter(is_remembered)
    }

    /// Heap it holds.
    pub fn heap_bytes(&self) -> usize {
        self.groups.len() * size_of::<Group>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::message_sizes::MessageSize;
    use guildhall_stdx::Rng;
    use std::collections::BTreeSet;

    /// Everything that was ever written, and where.
    #[test]
    fn what_it_finds_is_there() {
        let mut rng = Rng::new(3);
        let (mut ring, mut sizes) = (PositionRing::default(), MessageSizes::default());
        let (mut all, mut found_count) = (Vec::new(), 0);
        let (mut id, mut position) = (u32::MAX - 9_000, u32::MAX - 900_000);
        let mut forgotten_before = position;
        for step in 0..20_000u32 {
            id = id.wrapping_add(1);
            let size = MessageSize { after: rng.below(900) as u32, before: 20 + rng.below(9) as u32 };
            sizes.push(id, size);
            if step > 6_000 {
                sizes.forget_oldest();
            }
            // Not sent to this connection; or others of its own in between; or with another number of digits.
            if rng.chance(0.3) {
                continue;
            }
            if rng.chance(0.02) {
                position = position.wrapping_add(rng.below(3_000) as u32);
            }
            let digits = if step < 10_000 { 4 } else { 5 };
            position = position.wrapping_add(size.before + digits);
            ring.push(id, position, &sizes);
            all.push((id, position));
            position = position.wrapping_add(size.after);
            ring.forget_beyond(position, 400_000);
            // Bodies out of a shorter reach are evicted.
            let reach = 400_000 - rng.below(50_000) as u32;
            if position.wrapping_sub(forgotten_before) > reach {
                forgotten_before = position.wrapping_sub(reach);
            }
            let before: BTreeSet<BodyId> = ring.ids().collect();
            let is_within = |at: u32| position.wrapping_sub(at) <= position.wrapping_sub(forgotten_before);
            let recent = &all[all.len().saturating_sub(1_500)..];
            let oldest = recent.iter().find(|(id, at)| is_within(*at) && before.contains(id)).map(|(id, _)| *id);
            assert_eq!(ring.oldest(position, reach, &sizes), oldest, "at step {step}");
            let remembered: BTreeSet<BodyId> = ring.ids().collect();
            for _ in 0..4 {
                let (wanted, at) = all[all.len() - 1 - rng.below(all.len().min(1_500) as u64) as usize];
                let distance = ring.distance(wanted, position, &sizes);
                assert_eq!(distance.is_some(), remembered.contains(&wanted), "body {wanted} at step {step}");
                assert!(distance.is_none_or(|distance| distance == position.wrapping_sub(at)));
                found_count += u32::from(distance.is_some());
            }
            let never = id.wrapping_sub(rng.below(500) as u32);
            let was = all.iter().rev().take(600).any(|entry| entry.0 == never);
            assert!(was || ring.distance(never, position, &sizes).is_none());
        }
        assert!(found_count > 25_000, "{found_count}");
        assert!(ring.heap_bytes() <= 16 * GROUPS_MAX);
    }

    /// Whatever share of the bodies a connection gets, its gaps are written in about as many bits as they need.
    #[test]
    fn dense_and_sparse_connections_remember_many() {
        for (one_in, at_least) in [(1, 2_880), (3, 2_500), (50, 1_200), (1_000, 700)] {
            let mut rng = Rng::new(one_in);
            let (mut ring, mut sizes, mut position) = (PositionRing::default(), MessageSizes::default(), 0u32);
            for id in 1..=6_000 * one_in as u32 {
                sizes.push(id, MessageSize { after: 300, before: 30 });
                if rng.below(one_in) == 0 {
                    ring.push(id, position + 34, &sizes);
                    position += 334;
                }
            }
            let remembered = ring.ids().count();
            assert!(remembered >= at_least, "{remembered} with one in {one_in}");
            let newest = ring.newest;
            assert!(ring.ids().all(|id| id <= newest && ring.distance(id, position, &sizes).is_some()));
        }
    }

    #[test]
    fn what_comes_out_of_order_is_not_mistaken() {
        let (mut ring, mut sizes) = (PositionRing::default(), MessageSizes::default());
        (1..100).for_each(|id| sizes.push(id, MessageSize { after: 10 * id, before: 1 }));
        for (id, position) in [(5, 1_000), (9, 2_000), (7, 3_000), (90, 4_000)] {
            ring.push(id, position, &sizes);
        }
        for (id, position) in [(5, 1_000), (9, 2_000), (7, 3_000), (90, 4_000)] {
            let distance = ring.distance(id, 5_000, &sizes);
            assert!(distance.is_none_or(|distance| distance == 5_000 - position), "{id}: {distance:?}");
        }
        assert_eq!(ring.distance(8, 5_000, &sizes), None);
    }
}
