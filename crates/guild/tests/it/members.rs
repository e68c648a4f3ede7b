//! Members: joins, changes and departures.

use crate::fixture::*;
use guildhall_guild::{Actor, Command, MemberPatch, NewRole, Refusal, Reply};
use guildhall_guild_protocol::{AudienceRule, Payload, Published, ReplicaUpdate};
use guildhall_model::{EventName, Member, Permissions, RoleId, User, UserId};
use guildhall_stdx::Timestamp;
use std::sync::Arc;

fn nick(nick: &str) -> MemberPatch {
    MemberPatch { nick: Some(Some(nick.to_owned())), ..MemberPatch::default() }
}

fn roles(roles: &[RoleId]) -> MemberPatch {
    MemberPatch { roles: Some(roles.to_vec()), ..MemberPatch::default() }
}

fn until(at: Option<i64>) -> MemberPatch {
    MemberPatch { communication_disabled_until: Some(at.map(Timestamp)), ..MemberPatch::default() }
}

/// The member in an event, checked against its effect.
fn published_member(published: &Published) -> &Member {
    assert_eq!(rule(published), AudienceRule::Members);
    let Payload::Member(member) = &published.event.payload else { panic!("{published:?}") };
    assert_eq!(published.event.audience.always, Some(member.user.id));
    match &published.replica_update {
        ReplicaUpdate::Member(user_id, Some(replica_update)) if *user_id == member.user.id => {
            assert_eq!(replica_update, member)
        }
        other => panic!("{other:?}"),
    }
    member
}

#[test]
fn coming() {
    let mut world = World::new();
    world.pass_ms(5);
    world.join(ANA);
    let published = world.only_event(EventName::GuildMemberAdd);
    assert_eq!((published_member(&published).user.id, published_member(&published).joined_at), (ANA, world.now.unix));
    world.join(ANA);
    assert!(world.events().is_empty(), "nothing is new");
    world.system(Command::UpdateMember(ANA, Box::new(nick("nick"))));
    world.sent.clear();
    let renamed = Arc::new(User { global_name: Some("Ana".to_owned()), ..(*user(ANA)).clone() });
    world.system(Command::AddMember(renamed.clone()));
    let published = world.only_event(EventName::GuildMemberUpdate);
    assert_eq!(
        (&published_member(&published).user, published_member(&published).nick.as_deref()),
        (&renamed, Some("nick"))
    );
    assert_ne!(world.store.users[&ANA], renamed, "D4: a guild changes no account");
    assert_eq!(world.by(OWNER, Command::AddMember(user(BOB))).unwrap_err(), Refusal::MissingPermissions);
}

#[test]
fn going() {
    let mut world = World::populated();
    world.grant(BOB, Permissions::KICK_MEMBERS, 2);
    world.grant(EVE, Permissions::NONE, 3);
    world.sent.clear();
    let mut check = |by: Actor, whom: UserId, expected: Result<(), Refusal>| {
        let got = world.command(by, Command::RemoveMember(whom)).map(|_| ());
        assert_eq!(got, expected, "{by:?} {whom}");
        if expected.is_ok() {
            let published = world.only_event(EventName::GuildMemberRemove);
            assert_eq!(rule(&published), AudienceRule::Members);
            assert!(matches!(&published.replica_update, ReplicaUpdate::Member(user_id, None) if *user_id == whom));
            assert!(!world.store.members.contains_key(&whom));
            assert_eq!(world.by(whom, Command::ReadGuild).unwrap_err(), Refusal::UnknownGuild);
            world.join(whom);
            world.sent.clear();
        } else {
            assert!(world.events().is_empty());
        }
    };
    check(Actor::User(ANA), BOB, Err(Refusal::MissingPermissions));
    check(Actor::User(BOB), EVE, Err(Refusal::MissingPermissions));
    check(Actor::User(BOB), OWNER, Err(Refusal::MissingPermissions));
    check(Actor::User(BOB), NOBODY, Err(Refusal::UnknownMember));
    check(Actor::User(NOBODY), ANA, Err(Refusal::UnknownGuild));
    check(Actor::User(OWNER), OWNER, Err(Refusal::MissingPermissions));
    check(Actor::User(BOB), ANA, Ok(()));
    check(Actor::User(ANA), ANA, Ok(()));
    check(Actor::User(OWNER), EVE, Ok(()));
    check(Actor::System, ANA, Ok(()));
}

#[test]
fn nicks() {
    let mut world = World::populated();
    world.grant(BOB, Permissions::MANAGE_NICKNAMES, 2);
    world.grant(EVE, Permissions::NONE, 3);
    let mut check = |by: UserId, whom: UserId, expected: Result<(), Refusal>| {
        let got = world.by(by, Command::UpdateMember(whom, Box::new(nick("n")))).map(|_| ());
        assert_eq!(got, expected, "{by} {whom}");
        let clear = MemberPatch { nick: Some(None), ..MemberPatch::default() };
        world.system(Command::UpdateMember(whom, Box::new(clear)));
    };
    check(ANA, ANA, Ok(()));
    check(ANA, BOB, Err(Refusal::MissingPermissions));
    check(BOB, ANA, Ok(()));
    check(BOB, BOB, Ok(()));
    check(BOB, EVE, Err(Refusal::MissingPermissions));
    check(BOB, OWNER, Err(Refusal::MissingPermissions));
    check(OWNER, OWNER, Ok(()));
    world.everyone(Permissions::VIEW_CHANNEL);
    let got = world.by(ANA, Command::UpdateMember(ANA, Box::new(nick("n"))));
    assert_eq!(got.unwrap_err(), Refusal::MissingPermissions, "without CHANGE_NICKNAME");
}

#[test]
fn e1_roles_are_handed_out_from_above() {
    let mut world = World::populated();
    let low = world.role(Permissions::NONE, 1);
    let own = world.grant(BOB, Permissions::MANAGE_ROLES, 2);
    let high = world.role(Permissions::NONE, 3);
    let managed = match world
        .system(Command::CreateRole(Box::new(NewRole { managed: true, ..new_role(Permissions::NONE, 1) })))
    {
        Reply::Role(role) => role.id,
        other => panic!("{other:?}"),
    };
    world.sent.clear();

    let mut check = |by: UserId, whom: UserId, role: RoleId, expected: Result<(), Refusal>| {
        for command in [
            Command::AddMemberRole(whom, role),
            Command::RemoveMemberRole(whom, role),
            Command::UpdateMember(whom, Box::new(roles(&[role, role, GUILD.cast()]))),
            Command::UpdateMember(whom, Box::new(roles(&[]))),
        ] {
            if whom == BOB && matches!(command, Command::UpdateMember(..)) {
                continue;
            }
            let removes_nothing = matches!(&command, Command::UpdateMember(_, patch) if patch.roles == Some(vec![]));
            let got = world.by(by, command.clone()).map(|_| ());
            // Nothing to take away needs no rank.
            let expected = if removes_nothing && expected.is_err() && by == BOB { Ok(()) } else { expected };
            assert_eq!(got, expected, "{command:?}");
            let has = world.store.members[&whom].roles.contains(&role);
            let adds = !removes_nothing && !matches!(command, Command::RemoveMemberRole(..));
            if expected.is_ok() && whom != BOB {
                assert_eq!(has, adds, "{command:?}");
            }
        }
    };
    check(BOB, ANA, low, Ok(()));
    check(BOB, BOB, low, Ok(()));
    check(BOB, ANA, own, Err(Refusal::MissingPermissions));
    check(BOB, ANA, high, Err(Refusal::MissingPermissions));
    check(BOB, ANA, managed, Err(Refusal::InvalidRole));
    check(EVE, ANA, low, Err(Refusal::MissingPermissions));
    check(OWNER, ANA, high, Ok(()));
    let everyone = Command::AddMemberRole(ANA, GUILD.cast());
    assert_eq!(world.by(OWNER, everyone).unwrap_err(), Refusal::InvalidRole);
    let unknown = RoleId::new(77);
    assert_eq!(world.by(BOB, Command::AddMemberRole(ANA, unknown)).unwrap_err(), Refusal::UnknownRole);
    let patch = Command::UpdateMember(ANA, Box::new(roles(&[unknown])));
    assert_eq!(world.by(BOB, patch).unwrap_err(), Refusal::UnknownRole);
    assert_eq!(world.by(OWNER, Command::AddMemberRole(NOBODY, low)).unwrap_err(), Refusal::UnknownMember);

    // A higher role that is there already stays.
    world.system(Command::AddMemberRole(ANA, high));
    world.by(BOB, Command::UpdateMember(ANA, Box::new(roles(&[high, low])))).expect("only a lower one is added");
    let took = world.by(BOB, Command::UpdateMember(ANA, Box::new(roles(&[low]))));
    assert_eq!(took.unwrap_err(), Refusal::MissingPermissions);
    world.sent.clear();
    world.by(BOB, Command::AddMemberRole(ANA, low)).expect("she has it");
    assert!(world.events().is_empty());
    world.by(BOB, Command::RemoveMemberRole(ANA, low)).expect("he may");
    let published = world.only_event(EventName::GuildMemberUpdate);
    assert_eq!(&published_member(&published).roles[..], [high]);
}

#[test]
fn of_two_roles_in_one_place_the_older_is_higher() {
    let mut world = World::populated();
    world.grant(BOB, Permissions::MANAGE_ROLES, 1);
    // He can assign roles that he creates.
    let Ok(Reply::Role(role)) = world.by(BOB, Command::CreateRole(Box::new(new_role(Permissions::NONE, 9)))) else {
        panic!()
    };
    assert_eq!(role.position, 1);
    world.by(BOB, Command::AddMemberRole(ANA, role.id)).expect("it is below his");
    world.grant(EVE, Permissions::MANAGE_ROLES, 1);
    let other = world.by(EVE, Command::RemoveMemberRole(ANA, role.id));
    assert_eq!(other.unwrap_err(), Refusal::MissingPermissions, "hers is younger");
}

#[test]
fn time_outs() {
    let mut world = World::populated();
    let soon = world.now.unix.0 + 60_000;
    world.grant(BOB, Permissions::MODERATE_MEMBERS, 2);
    let higher = world.grant(EVE, Permissions::NONE, 3);
    let got = world.by(BOB, Command::UpdateMember(EVE, Box::new(until(Some(soon)))));
    assert_eq!(got.unwrap_err(), Refusal::MissingPermissions);
    world.system(Command::DeleteRole(higher));
    let mut check = |by: UserId, whom: UserId, patch: MemberPatch, expected: Result<(), Refusal>| {
        let got = world.by(by, Command::UpdateMember(whom, Box::new(patch))).map(|_| ());
        assert_eq!(got, expected, "{by} {whom}");
    };
    check(BOB, ANA, until(Some(soon)), Ok(()));
    check(BOB, ANA, until(None), Ok(()));
    check(BOB, OWNER, until(Some(soon)), Err(Refusal::MissingPermissions));
    check(ANA, EVE, until(Some(soon)), Err(Refusal::MissingPermissions));
    check(ANA, ANA, until(None), Err(Refusal::MissingPermissions));
    let max = 28 * 86_400_000;
    let now = soon - 60_000;
    check(BOB, ANA, until(Some(now + max)), Ok(()));
    check(BOB, ANA, until(Some(now + max + 1)), Err(Refusal::InvalidForm("communication_disabled_until")));
    check(BOB, ANA, until(Some(i64::MAX)), Err(Refusal::InvalidForm("communication_disabled_until")));
    check(BOB, ANA, until(None), Ok(()));
    // Not against an administrator, even one below.
    world.grant(EVE, Permissions::ADMINISTRATOR, 1);
    let against = world.by(BOB, Command::UpdateMember(EVE, Box::new(until(Some(soon)))));
    assert_eq!(against.unwrap_err(), Refusal::MissingPermissions);
    world.by(BOB, Command::UpdateMember(EVE, Box::new(until(None)))).expect("it ends one");
    // A moderator with a time-out cannot moderate.
    world.system(Command::UpdateMember(BOB, Box::new(until(Some(soon)))));
    let own = world.by(BOB, Command::UpdateMember(BOB, Box::new(until(None))));
    assert_eq!(own.unwrap_err(), Refusal::MissingPermissions);
}

#[test]
fn d3_a_patch_is_whole() {
    let mut world = World::populated();
    world.grant(BOB, Permissions::MANAGE_NICKNAMES, 2);
    world.sent.clear();
    let both = MemberPatch { mute: Some(true), ..nick("n") };
    let got = world.by(BOB, Command::UpdateMember(ANA, Box::new(both.clone())));
    assert_eq!(got.unwrap_err(), Refusal::MissingPermissions);
    assert!(world.events().is_empty() && world.member(ANA).nick.is_none());
    world.system(Command::UpdateMember(ANA, Box::new(both)));
    let published = world.only_event(EventName::GuildMemberUpdate);
    assert!(published_member(&published).mute && published_member(&published).nick.is_some());
    world.system(Command::UpdateMember(ANA, Box::default()));
    assert!(world.events().is_empty());
}

#[test]
fn e2_a_deleted_role_has_no_members() {
    let mut world = World::populated();
    let channel = world.text_channel();
    let role = world.grant(ANA, Permissions::MANAGE_GUILD, 1);
    let allow = guildhall_model::Overwrite {
        target: guildhall_model::OverwriteKind::Role(role),
        allow: Permissions::MANAGE_MESSAGES,
        deny: Permissions::NONE,
    };
    world.system(Command::PutOverwrite(channel, allow));
    let id = world.say(BOB, channel, "x");
    world.sent.clear();
    world.system(Command::DeleteRole(role));
    let events = world.events();
    let names: Vec<_> = events.iter().map(|published| published.event.name).collect();
    assert_eq!(names, [EventName::GuildRoleDelete, EventName::ChannelUpdate], "no event per member");
    let ReplicaUpdate::Structure(structure) = &events[0].replica_update else { panic!() };
    assert!(!structure.roles.contains_key(&role) && structure.channels[&channel].overwrites.is_empty());
    let delete = Command::DeleteMessage(channel, id);
    assert_eq!(world.by(ANA, delete).unwrap_err(), Refusal::MissingPermissions, "nor by the overwrite");
    let rename = Command::UpdateGuild(Box::default());
    assert_eq!(world.by(ANA, rename).unwrap_err(), Refusal::MissingPermissions);
    assert!(world.member(ANA).roles.is_empty(), "the role is not in the member");
    assert!(!world.store.members[&ANA].roles.is_empty(), "but nothing was written");
    world.system(Command::UpdateMember(ANA, Box::new(nick("n"))));
    assert!(world.store.members[&ANA].roles.is_empty(), "until something is");
}
