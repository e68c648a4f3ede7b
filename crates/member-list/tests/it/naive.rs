//! The list against a model that sorts everything on every query.

use crate::world::World;
use guildhall_member_list::{Group, GroupId, Item, ListOp, MemberList, Watch};

fn check(world: &World, context: &str) {
    let list = &world.list;
    let expected = world.naive_rows();
    let rows: Vec<_> = list.rows(0..usize::MAX).map(|row| row.to_item()).collect();
    assert_eq!(rows, expected, "{context}");
    assert_eq!(list.len_rows(), expected.len(), "{context}");

    let groups = world.naive_groups();
    let of_group = |(id, people): &(_, Vec<_>)| Group { id: *id, count: people.len() };
    assert!(list.groups().eq(groups.iter().map(of_group)), "{context}");
    let online = groups.iter().filter(|(id, _)| *id != GroupId::Offline).map(|(_, people)| people.len());
    assert_eq!(list.online_count(), online.sum::<usize>(), "{context}");

    for person in &world.people {
        let row = expected.iter().position(|item| matches!(item, Item::Member(member, _) if *member == person.member));
        let found = list.row_of(&person.member, person.presence.as_deref());
        assert_eq!(found.filter(|_| person.has_view), row, "{context}: {person:?}", person = person.member);
    }
}

#[test]
fn rows_groups_and_counts_as_the_model_has_them() {
    for seed in 0..200 {
        let mut world = World::new(seed, 40);
        check(&world, &format!("seed {seed}, at first"));
        for change in 0..60 {
            world.change();
            check(&world, &format!("seed {seed}, change {change}"));
        }
    }
}

#[test]
fn any_part_of_the_rows() {
    for seed in 0..50 {
        let mut world = World::new(seed, 300);
        for _ in 0..100 {
            world.change();
        }
        let expected = world.naive_rows();
        for first in 0..expected.len() + 2 {
            let rows = world.list.rows(first..first + 7).map(|row| row.to_item());
            assert!(rows.eq(expected.iter().skip(first).take(7).cloned()), "seed {seed}, from {first}");
        }
    }
}

#[test]
#[should_panic(expected = "was never in this list")]
fn an_unknown_before_is_not_passed_over() {
    let mut world = World::new(1, 0);
    let stranger = World::new(9, 40).naive_rows().into_iter().find_map(|item| match item {
        Item::Member(member, presence) => Some((member, presence)),
        Item::Group(_) => None,
    });
    let (member, presence) = stranger.expect("somebody");
    world.list.set(Some((&member, presence.as_deref())), None);
}

/// A background thread builds a list and moves it to the guild; its operations move to other threads.
const _: fn() = || {
    fn may_cross_threads<T: Send + Sync>() {}
    may_cross_threads::<(MemberList, Watch, ListOp)>();
};
