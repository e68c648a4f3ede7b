//! Each kind of job against a plain implementation of its documentation.

use super::*;
use guildhall_model::{
    ChannelId, ChannelType, Guild, GuildId, Overwrite, OverwriteKind, Permissions, Presence, Role, RoleId, User,
};
use guildhall_stdx::Rng;
use std::collections::BTreeMap;

const GUILD: GuildId = GuildId::new(1);
const ROLES: [RoleId; 4] = [RoleId::new(2), RoleId::new(3), RoleId::new(4), RoleId::new(5)];
const CHANNEL: ChannelId = ChannelId::new(9);

fn id(n: u64) -> UserId {
    UserId::new(n)
}

fn ids(user_ids: &[UserId]) -> Vec<u64> {
    user_ids.iter().map(|id| id.get()).collect()
}

/// Members with names, nicks, roles and presences of all kinds. The last role does not exist.
fn members(rng: &mut Rng, count: u64) -> MemberTable {
    const NAMES: [&str; 6] = ["ana", "Anna", "BOB", "ÄNNE", "änders", "an"];
    let mut members = MemberTable::default();
    let name = |rng: &mut Rng| (*rng.pick(&NAMES).expect("there are names")).to_owned();
    for n in 1..=count {
        let mut user = User::new(id(n), &name(rng));
        user.global_name = rng.chance(0.3).then(|| name(rng));
        let mut member = Member::new(Arc::new(user), Timestamp(rng.below(count / 3 + 1) as i64));
        member.nick = rng.chance(0.3).then(|| name(rng).into());
        member.roles = ROLES.into_iter().filter(|_| rng.chance(0.3)).collect();
        members.insert(Arc::new(member));
        if rng.chance(0.4) {
            members.set_presence(id(n), Some(Arc::new(Presence::default())));
        }
    }
    members
}

fn structure(rng: &mut Rng) -> GuildStructure {
    let mut role = |id: RoleId| {
        let view = if rng.chance(0.4) { Permissions::VIEW_CHANNEL } else { Permissions::NONE };
        let role = Role {
            id,
            name: "role".to_owned(),
            color: 0,
            hoist: false,
            position: 1,
            permissions: view,
            managed: false,
            mentionable: false,
            icon: None,
        };
        (id, Arc::new(role))
    };
    GuildStructure {
        guild: Arc::new(Guild::new(GUILD, "g", id(1))),
        roles: Arc::new([GUILD.cast(), ROLES[0], ROLES[1], ROLES[2]].into_iter().map(&mut role).collect()),
        channels: Arc::new(BTreeMap::new()),
    }
}

fn channel(rng: &mut Rng, members_count: u64) -> Channel {
    let mut channel = Channel::new(CHANNEL, GUILD, ChannelType::Text, "c");
    for _ in 0..rng.below(5) {
        let target = match rng.below(3) {
            0 => OverwriteKind::Role(GUILD.cast()),
            1 => OverwriteKind::Role(*rng.pick(&ROLES).expect("there are roles")),
            _ => OverwriteKind::Member(id(1 + rng.below(members_count))),
        };
        let (allow, deny) = match rng.chance(0.5) {
            true => (Permissions::VIEW_CHANNEL, Permissions::NONE),
            false => (Permissions::NONE, Permissions::VIEW_CHANNEL),
        };
        if channel.overwrites.iter().all(|overwrite| overwrite.target != target) {
            channel.overwrites.push(Overwrite { target, allow, deny });
        }
    }
    channel
}

#[test]
fn j1_a_search_finds_names_by_prefix_in_any_case() {
    let mut table = MemberTable::default();
    let mut add = |n: u64, username: &str, global_name: Option<&str>, nick: Option<&str>| {
        let mut user = User::new(id(n), username);
        user.global_name = global_name.map(str::to_owned);
        let mut member = Member::new(Arc::new(user), Timestamp(0));
        member.nick = nick.map(Into::into);
        table.insert(Arc::new(member));
    };
    add(1, "zoe", None, None);
    add(2, "x", Some("ZOË"), None);
    add(3, "x", None, Some("Zoltan"));
    add(4, "azoe", None, None);
    add(5, "ZO", None, None);
    let check = |prefix: &str, limit, expected: &[u64]| {
        let work = Work::Search { members: table.clone(), prefix: Prefix::new(prefix).unwrap(), limit };
        match (Job { id: JobId(7), work }).run() {
            JobDone { id: JobId(7), found: Found::Members(found) } => assert_eq!(ids(&found), expected, "{prefix}"),
            other => panic!("{other:?}"),
        }
    };
    check("zo", 100, &[1, 2, 3, 5]);
    check("Zo", 2, &[1, 2]);
    check("zoë", 100, &[2]);
    check("zoes", 100, &[]);
    assert!(Prefix::new("").is_none());
}

#[test]
fn j2_recent_members_come_in_pages_from_the_newest() {
    for (seed, count) in [(1, 50), (2, 3_000), (3, 12_000)] {
        let mut rng = Rng::new(seed);
        let table = members(&mut rng, count);
        let mut all: Vec<(Timestamp, UserId)> =
            table.iter().map(|entry| (entry.member.joined_at, entry.member.user.id)).collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        all.truncate(RECENT_MAX);
        let expected: Vec<UserId> = all.into_iter().map(|(_, user_id)| user_id).collect();

        let mut found = Vec::new();
        loop {
            let page = recent(&table, None, found.last().copied());
            assert!(page.len() <= RECENT_PAGE);
            if page.is_empty() {
                break;
            }
            found.extend(page);
        }
        assert_eq!(found, expected, "seed {seed}");

        let prefix = Prefix::new("än").unwrap();
        let is_meant = |id: &UserId| prefix.is_of(&table.entry(*id).unwrap().member);
        let (first, second) = {
            let mut meant = expected.iter().copied().filter(is_meant);
            (meant.next().unwrap(), meant.next())
        };
        assert_eq!(recent(&table, Some(&prefix), None), [first]);
        assert_eq!(recent(&table, Some(&prefix), Some(first)), second.into_iter().collect::<Vec<_>>());
        assert!(recent(&table, None, Some(id(count + 1))).is_empty(), "no member follows the last");
    }
}

#[test]
fn an_audience_has_the_viewers_of_the_channel() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let (table, structure) = (members(&mut rng, 200), structure(&mut rng));
        let (channel, now) = (channel(&mut rng, 200), Timestamp(0));
        let can_view = |member: &Member| {
            let standing = structure.standing(member, now);
            structure.channel_permissions(standing, &channel).contains(Permissions::VIEW_CHANNEL)
        };
        let viewers: Vec<_> = table.iter().filter(|entry| can_view(&entry.member)).collect();
        let expected = Audience {
            member_count: viewers.len() as u64,
            presence_count: viewers.iter().filter(|entry| entry.presence.is_some()).count() as u64,
        };
        assert_eq!(audience(&table, &structure, &channel, now), expected, "seed {seed}");
        assert!(expected.member_count >= 1, "the owner views everything");
    }
}

#[test]
fn a_filter_admits_whom_all_it_says_is_true_of() {
    let mut rng = Rng::new(5);
    let structure = structure(&mut rng);
    let mut table = MemberTable::default();
    for (n, roles) in [(1, &[][..]), (2, &ROLES[..1]), (3, &ROLES[..2]), (4, &ROLES[3..]), (5, &[])] {
        let mut member = Member::new(Arc::new(User::new(id(n), "u")), Timestamp(n as i64 * 10));
        member.roles = roles.iter().copied().collect();
        table.insert(Arc::new(member));
    }
    table.set_presence(id(5), Some(Arc::default()));
    let check = |filter: MemberFilter, expected: &[u64]| {
        let matching = Matching { members: &table, structure: &structure, filter: &filter };
        let all = matching.list(id(0));
        assert_eq!((ids(&all.user_ids), all.count, all.is_cut), (expected.to_vec(), expected.len() as u64, false));
        let counted = matching.count(id(0));
        assert_eq!((counted.user_ids.len(), counted.count), (0, expected.len() as u64));
        let after: Vec<u64> = expected.iter().copied().filter(|n| *n > 2).collect();
        assert_eq!(ids(&matching.list(id(2)).user_ids), after);
    };
    let none = MemberFilter::default;
    check(none(), &[1, 2, 3, 4, 5]);
    check(MemberFilter { offline: true, ..none() }, &[1, 2, 3, 4]);
    check(MemberFilter { joined_before: Some(Timestamp(30)), ..none() }, &[1, 2]);
    check(MemberFilter { roles: vec![ROLES[0]], ..none() }, &[2, 3]);
    check(MemberFilter { roles: vec![ROLES[0], ROLES[1]], ..none() }, &[3]);
    check(MemberFilter { roles: vec![ROLES[3]], ..none() }, &[] /* it does not exist */);
    check(MemberFilter { no_roles_but: Some(vec![]), ..none() }, &[1, 4, 5]);
    check(MemberFilter { no_roles_but: Some(vec![ROLES[0]]), offline: true, ..none() }, &[1, 2, 4]);
    check(MemberFilter { none_of: vec![id(1), id(4)], ..none() }, &[2, 3, 5]);
}

#[test]
fn j2_matches_come_in_parts() {
    let member = |n| Arc::new(Member::new(Arc::new(User::new(id(n), "u")), Timestamp(0)));
    let count = MATCHES_MAX as u64 + 10;
    let table: MemberTable = (1..=count).map(member).collect();
    let structure = structure(&mut Rng::new(1));
    let matching = Matching { members: &table, structure: &structure, filter: &MemberFilter::default() };
    let first = matching.list(id(0));
    assert_eq!((first.user_ids.len(), first.is_cut), (MATCHES_MAX, true));
    let rest = matching.list(*first.user_ids.last().unwrap());
    assert_eq!((rest.user_ids.len(), rest.is_cut), (10, false));
    assert_eq!(matching.count(id(0)).count, count);
}
