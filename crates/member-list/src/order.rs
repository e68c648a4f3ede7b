//! Order of rows: group, then name whatever its case, then id.
//!
//! Owns        `RowKey`, what a list keeps of each row: 24 bytes; `Place`, where a row belongs.
//! Invariants  O1 the head of a place orders as group and whole name do, so that most comparisons end there, and
//!             only equal heads ask the members themselves. (test `o1_*`)
//! Spec        docs/protocol.md §8.6 "Rows".

use guildhall_model::{Member, Presence};
use std::{cmp::Ordering, sync::Arc};

/// Bytes of the folded name in a head; the other two are the group.
const HEAD_NAME_BYTES: usize = 6;

/// A row of a list. The header of a group has no entry.
pub(crate) struct RowKey {
    head: u64,
    entry: Option<(Arc<Member>, Option<Arc<Presence>>)>,
}

/// Where a row belongs: what `RowKey`s are ordered by.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    head: u64,
    member: Option<&'a Member>,
}

impl RowKey {
    pub(crate) fn header(group: u16) -> Self {
        Self { head: Place::header(group).head, entry: None }
    }

    pub(crate) fn member(group: u16, member: Arc<Member>, presence: Option<Arc<Presence>>) -> Self {
        Self { head: Place::of(group, &member).head, entry: Some((member, presence)) }
    }

    /// Group and start of the name.
    pub(crate) fn head(&self) -> u64 {
        self.head
    }

    pub(crate) fn group(&self) -> u16 {
        (self.head >> (8 * HEAD_NAME_BYTES)) as u16
    }

    pub(crate) fn entry(&self) -> Option<(&Arc<Member>, Option<&Arc<Presence>>)> {
        self.entry.as_ref().map(|(member, presence)| (member, presence.as_ref()))
    }

    pub(crate) fn place(&self) -> Place<'_> {
        Place { head: self.head, member: self.entry.as_ref().map(|(member, _)| &**member) }
    }

    /// The eight bytes of the folded name behind the head: for sorting many at once.
    pub(crate) fn second_head(&self) -> u64 {
        let name = self.entry.as_ref().map_or("", |(member, _)| member.display_name());
        let bytes: [u8; HEAD_NAME_BYTES + 8] = folded_start(name);
        u64::from_be_bytes(std::array::from_fn(|i| bytes[HEAD_NAME_BYTES + i]))
    }
}

impl<'a> Place<'a> {
    pub(crate) fn header(group: u16) -> Self {
        Self { head: u64::from(group) << (8 * HEAD_NAME_BYTES), member: None }
    }

    pub(crate) fn of(group: u16, member: &'a Member) -> Self {
        let [a, b, c, d, e, f] = folded_start::<HEAD_NAME_BYTES>(member.display_name());
        let head = Self::header(group).head | u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
        Self { head, member: Some(member) }
    }
}

impl Ord for Place<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.head.cmp(&other.head).then_with(|| match (self.member, other.member) {
            (Some(a), Some(b)) => {
                compare_folded(a.display_name(), b.display_name()).then_with(|| a.user.id.cmp(&b.user.id))
            }
            // A header stands before its members.
            (a, b) => a.is_some().cmp(&b.is_some()),
        })
    }
}

impl PartialOrd for Place<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Place<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Place<'_> {}

impl Ord for RowKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.place().cmp(&other.place())
    }
}

impl PartialOrd for RowKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for RowKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for RowKey {}

fn folded(name: &str) -> impl Iterator<Item = char> + '_ {
    name.chars().flat_map(char::to_lowercase)
}

fn compare_folded(a: &str, b: &str) -> Ordering {
    if a.is_ascii() && b.is_ascii() {
        let lower = |byte: u8| byte.to_ascii_lowercase();
        return a.bytes().map(lower).cmp(b.bytes().map(lower));
    }
    folded(a).cmp(folded(b))
}

/// The first bytes of the folded name, zeros behind it. UTF-8 orders as characters do, also when it is cut.
fn folded_start<const BYTES: usize>(name: &str) -> [u8; BYTES] {
    let mut start = [0; BYTES];
    let mut len = 0;
    for c in folded(name) {
        let mut utf8 = [0; 4];
        let utf8 = c.encode_utf8(&mut utf8).as_bytes();
        let fitting = utf8.len().min(BYTES - len);
        start[len..len + fitting].copy_from_slice(&utf8[..fitting]);
        len += fitting;
        if len == BYTES {
            break;
        }
    }
    start
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_model::{User, UserId};
    use guildhall_stdx::{Rng, Timestamp};

    fn member(id: u64, name: &str) -> Arc<Member> {
        Arc::new(Member::new(Arc::new(User::new(UserId::new(id), name)), Timestamp(0)))
    }

    #[test]
    fn case_makes_no_difference() {
        let check = |a: &str, b: &str, expected: Ordering| {
            let (a, b) = (member(1, a), member(1, b));
            assert_eq!(Place::of(0, &a).cmp(&Place::of(0, &b)), expected, "{a:?} {b:?}");
            assert_eq!(Place::of(0, &b).cmp(&Place::of(0, &a)), expected.reverse(), "{a:?} {b:?}");
        };
        check("ana", "ANA", Ordering::Equal);
        check("ana", "Bo", Ordering::Less);
        check("Zoë", "ZOË", Ordering::Equal);
        check("anastasia", "ANASTASIUS", Ordering::Less);
        check("", "a", Ordering::Less);
        check("a", "a\0", Ordering::Less);
        check("ÅNGSTRÖM", "ångström!", Ordering::Less);
        // Seven bytes of UTF-8: the head ends inside the last character.
        check("abcdeé", "ABCDEê", Ordering::Less);
    }

    #[test]
    fn the_name_shown_decides() {
        let names = |nick: Option<&str>, global_name: Option<&str>| {
            let mut user = User::new(UserId::new(1), "user");
            user.global_name = global_name.map(str::to_owned);
            let mut member = Member::new(Arc::new(user), Timestamp(0));
            member.nick = nick.map(str::to_owned);
            member
        };
        let equal = |a: &Member, b: &Member| Place::of(0, a) == Place::of(0, b);
        assert!(equal(&names(Some("n"), Some("g")), &member(1, "N")));
        assert!(equal(&names(None, Some("g")), &member(1, "G")));
        assert!(equal(&names(None, None), &member(1, "User")));
    }

    #[test]
    fn o1_heads_never_contradict_the_names() {
        let letters = ['a', 'A', 'b', 'É', 'é', 'ß', 'İ', 'Σ', 'ς', '\u{10400}', '\0', '日', ' '];
        let mut rng = Rng::new(1);
        let mut name = || -> String { (0..rng.below(9)).filter_map(|_| rng.pick(&letters)).collect() };
        for _ in 0..20_000 {
            let (a, b) = (name(), name());
            let expected = folded(&a).collect::<String>().cmp(&folded(&b).collect());
            let (a, b) = (member(1, &a), member(1, &b));
            assert_eq!(Place::of(3, &a).cmp(&Place::of(3, &b)), expected, "{a:?} {b:?}");
            let [a, b] = [a, b].map(|member| RowKey::member(3, member, None));
            let sorted = (a.head, a.second_head()).cmp(&(b.head, b.second_head()));
            assert!(sorted == expected || sorted.is_eq(), "{:?} {:?}", a.entry(), b.entry());
            assert!(RowKey::header(3) < a && a < RowKey::header(4));
            assert_eq!((a.group(), RowKey::header(u16::MAX).group()), (3, u16::MAX));
        }
    }

    #[test]
    fn a_row_takes_24_bytes() {
        assert_eq!(size_of::<RowKey>(), 24);
    }
}
