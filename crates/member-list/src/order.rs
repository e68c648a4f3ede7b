//! Order of rows: by group, then case-insensitive name, then id.
//!
//! Owns        `RowKey`, the 24 bytes that a list stores per row; `Place`, the sort key of a row.
//! Invariants  O1 heads sort like group and full name do. Most comparisons need only the heads; equal heads compare
//!             the members. (test `o1_*`)
//! Spec        docs/protocol/reference.md §8.6 "Rows".

use guildhall_model::{Member, Presence};
use std::{cmp::Ordering, sync::Arc};

/// Bytes of the folded name in a head; the other two bytes are the group.
const HEAD_NAME_BYTES: usize = 6;

/// A stored row. The header of a group has no member.
pub(crate) struct RowKey {
    head: u64,
    entry: Option<(Arc<Member>, Option<Arc<Presence>>)>,
}

/// Sort key of a row.
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

    /// Row of a member whose display name is already case-folded.
    pub(crate) fn folded(group: u16, name: &str, member: Arc<Member>, presence: Option<Arc<Presence>>) -> Self {
        Self { head: head(group, name.bytes()), entry: Some((member, presence)) }
    }

    pub(crate) fn is_member(&self) -> bool {
        self.entry.is_some()
    }

    /// Group and first bytes of the name.
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
}

impl<'a> Place<'a> {
    pub(crate) fn header(group: u16) -> Self {
        Self { head: head(group, [].into_iter()), member: None }
    }

    pub(crate) fn of(group: u16, member: &'a Member) -> Self {
        let name = member.display_name();
        let head = match name.is_ascii() {
            true => head(group, name.bytes().map(|byte| byte.to_ascii_lowercase())),
            false => head(group, folded_bytes(name)),
        };
        Self { head, member: Some(member) }
    }
}

impl Ord for Place<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.head.cmp(&other.head).then_with(|| match (self.member, other.member) {
            (Some(a), Some(b)) => {
                compare_folded(a.display_name(), b.display_name()).then_with(|| a.user.id.cmp(&b.user.id))
            }
            // A header sorts before its members.
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

/// UTF-8 bytes sort like characters do, even when truncated.
fn folded_bytes(name: &str) -> impl Iterator<Item = u8> + '_ {
    folded(name).flat_map(|c| {
        let mut utf8 = [0; 4];
        let len = c.encode_utf8(&mut utf8).len();
        utf8.into_iter().take(len)
    })
}

/// Group and the first bytes of the folded name, padded with zeros.
fn head(group: u16, folded_name: impl Iterator<Item = u8>) -> u64 {
    let mut head = u64::from(group);
    let mut bytes = folded_name.chain(std::iter::repeat(0));
    for _ in 0..HEAD_NAME_BYTES {
        head = head << 8 | bytes.next().map_or(0, u64::from);
    }
    head
}

/// The eight bytes of a folded name that follow those in the head.
pub(crate) fn second_head(folded_name: &str) -> u64 {
    let bytes = folded_name.as_bytes().iter().skip(HEAD_NAME_BYTES).chain(std::iter::repeat(&0));
    bytes.take(8).fold(0, |head, byte| head << 8 | u64::from(*byte))
}

/// Appends the folded name to `names`.
pub(crate) fn fold_onto(names: &mut String, name: &str) {
    if name.is_ascii() {
        let from = names.len();
        names.push_str(name);
        names[from..].make_ascii_lowercase();
    } else {
        names.extend(folded(name));
    }
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
            member.nick = nick.map(Into::into);
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
            let [a_folded, b_folded] = [&a, &b].map(|name| {
                let mut folded = String::new();
                fold_onto(&mut folded, name);
                folded
            });
            let expected = a_folded.cmp(&b_folded);
            let (a, b) = (member(1, &a), member(1, &b));
            assert_eq!(Place::of(3, &a).cmp(&Place::of(3, &b)), expected, "{a:?} {b:?}");
            let [a, b] = [a, b].map(|member| RowKey::member(3, member, None));
            let sorted = (a.head, second_head(&a_folded)).cmp(&(b.head, second_head(&b_folded)));
            assert_eq!(a.head, RowKey::folded(3, &a_folded, member(1, ""), None).head);
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
