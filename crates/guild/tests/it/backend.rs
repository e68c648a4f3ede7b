//! Backends: objects put as a whole, imports, and published events.

use crate::fixture::*;
use guildhall_guild::{
    Actor, BackendCommand, Command, IMPORT_MEMBERS_MAX, Imported, JoinAudience, NewMember, PublicationId,
    ROLE_CHANGES_MAX, Refusal, Reply, RoleChange, RolesPut,
};
use guildhall_guild_protocol::{AudienceRule, BackendEvent};
use guildhall_model::{
    Channel, ChannelId, ChannelType, Guild as GuildFields, Overwrite, OverwriteKind, Permissions, Role, RoleId, UserId,
};
use std::sync::Arc;

const ROLE: RoleId = RoleId::new(5_000);
const CHANNEL: ChannelId = ChannelId::new(5_001);

fn new_member(id: UserId) -> NewMember {
    NewMember {
        user: user(id),
        nick: None,
        roles: Vec::new(),
        joined_at: None,
        mute: false,
        deaf: false,
        flags: 0,
        communication_disabled_until: None,
    }
}

fn role() -> Role {
    crate::fixture::role(ROLE, Permissions::VIEW_CHANNEL, 3)
}

fn channel(name: &str) -> Channel {
    Channel::new(CHANNEL, GUILD, ChannelType::Text, name)
}

/// A guild that has `role()`.
fn with_role() -> World {
    let mut world = World::new();
    world.backend(BackendCommand::PutRole(Box::new(role()), None)).unwrap();
    world
}

#[test]
fn only_the_system_may() {
    let mut world = World::new();
    let command = Command::Backend(Box::new(BackendCommand::PutRole(Box::new(role()), None)));
    assert_eq!(world.command(Actor::User(OWNER), command).unwrap_err(), Refusal::MissingPermissions);
}

#[test]
fn h1_what_is_there_already_changes_and_tells_nothing() {
    let mut world = World::new();
    let commands = [
        BackendCommand::PutRole(Box::new(role()), None),
        BackendCommand::PutChannel(Box::new(channel("general")), None),
        BackendCommand::PutMember(Box::new(NewMember { roles: vec![ROLE], ..new_member(EVE) }), None),
    ];
    for command in &commands {
        assert!(matches!(world.backend(command.clone()), Ok(Reply::Created(_))), "{command:?}");
    }
    let version = world.guild.version();
    for command in &commands {
        let reply = world.backend(command.clone()).unwrap();
        assert!(!matches!(reply, Reply::Created(_)), "{reply:?}");
    }
    assert_eq!(world.guild.version(), version, "nothing happened");
    let everyone = Role { name: "else".into(), ..crate::fixture::role(GUILD.cast(), Permissions::NONE, 9) };
    let Ok(Reply::Role(everyone)) = world.backend(BackendCommand::PutRole(Box::new(everyone), None)) else { panic!() };
    assert_eq!((everyone.name.as_str(), everyone.position), ("@everyone", 0));
}

#[test]
fn h2_the_rules_hold() {
    let mut world = World::new();
    let refused = |world: &mut World, command, refusal| assert_eq!(world.backend(command).unwrap_err(), refusal);
    let in_itself = Channel { parent_id: Some(CHANNEL), ..channel("c") };
    refused(&mut world, BackendCommand::PutChannel(Box::new(in_itself), None), Refusal::InvalidForm("parent_id"));
    let overwritten = Channel {
        overwrites: vec![Overwrite { target: OverwriteKind::Role(ROLE), ..deny_everyone(Permissions::NONE) }],
        ..channel("c")
    };
    refused(&mut world, BackendCommand::PutChannel(Box::new(overwritten), None), Refusal::UnknownRole);
    world.backend(BackendCommand::PutChannel(Box::new(channel("c")), None)).unwrap();
    let voice = Channel { kind: ChannelType::Voice, ..channel("c") };
    refused(&mut world, BackendCommand::PutChannel(Box::new(voice), None), Refusal::InvalidForm("type"));
    let roles = NewMember { roles: vec![ROLE], ..new_member(EVE) };
    refused(&mut world, BackendCommand::PutMember(Box::new(roles), None), Refusal::InvalidForm("roles"));
    let fields = GuildFields::new(GUILD, "g", NOBODY);
    refused(&mut world, BackendCommand::PutGuild(Box::new(fields), None), Refusal::InvalidForm("owner_id"));
    let members = (0..=IMPORT_MEMBERS_MAX as u64).map(|n| new_member(UserId::new(9_000 + n))).collect();
    refused(
        &mut world,
        BackendCommand::ImportMembers { members, audience: JoinAudience::NewMember },
        Refusal::InvalidForm("members"),
    );
}

#[test]
fn what_changed_meanwhile_is_not_overwritten() {
    let mut world = with_role();
    let read = Arc::new(role());
    let one = Role { color: 1, ..role() };
    world.backend(BackendCommand::PutRole(Box::new(one), Some(read.clone()))).unwrap();
    let two = Role { hoist: true, ..role() };
    assert_eq!(world.backend(BackendCommand::PutRole(Box::new(two), Some(read))).unwrap_err(), Refusal::Changed);
}

#[test]
fn imports_say_what_became_of_whom() {
    let mut world = with_role();
    let members = vec![
        NewMember { roles: vec![ROLE, ROLE, RoleId::new(77), GUILD.cast()], ..new_member(EVE) },
        new_member(NOBODY),
        new_member(EVE),
        new_member(NOBODY),
    ];
    let reply = world.backend(BackendCommand::ImportMembers { members, audience: JoinAudience::NewMember }).unwrap();
    let Reply::Imported(imported) = reply else { panic!("{reply:?}") };
    assert_eq!(*imported, Imported { added: vec![EVE, NOBODY], changed: 1, unchanged: 1 });
}

#[test]
fn h4_a_bulk_change_is_applied_whole_or_not_at_all() {
    let mut world = with_role();
    let roles = |world: &mut World, user_id| {
        let Ok(Reply::Member(member)) = world.command(Actor::System, Command::ReadMember(user_id)) else { panic!() };
        member.roles.to_vec()
    };
    let change = |changes: Vec<(UserId, RoleChange)>| BackendCommand::ChangeRoles(changes);
    let version = world.guild.version();
    for (refused, refusal) in [
        (vec![(OWNER, RoleChange::Add(ROLE)), (NOBODY, RoleChange::Add(ROLE))], Refusal::UnknownMember),
        (vec![(OWNER, RoleChange::Add(ROLE)), (OWNER, RoleChange::Set(vec![RoleId::new(77)]))], Refusal::UnknownRole),
        (vec![(OWNER, RoleChange::Remove(GUILD.cast()))], Refusal::InvalidRole),
        (vec![(OWNER, RoleChange::Add(ROLE)); ROLE_CHANGES_MAX + 1], Refusal::InvalidForm("members")),
    ] {
        assert_eq!(world.backend(change(refused)).unwrap_err(), refusal);
    }
    assert_eq!((world.guild.version(), roles(&mut world, OWNER)), (version, vec![]), "nothing happened");
    let count = |reply| match reply {
        Ok(Reply::Count(count)) => count,
        other => panic!("{other:?}"),
    };
    assert_eq!(count(world.backend(change(vec![(OWNER, RoleChange::Add(ROLE))]))), 1);
    assert_eq!(count(world.backend(change(vec![(OWNER, RoleChange::Set(vec![ROLE, ROLE]))]))), 0);
    assert_eq!(roles(&mut world, OWNER), [ROLE]);
    assert_eq!(count(world.backend(change(vec![(OWNER, RoleChange::Set(Vec::new()))]))), 1);

    let put = RolesPut { added: 1, changed: 1, unchanged: 0 };
    let many = vec![Role { color: 1, ..role() }, Role { id: RoleId::new(5_002), ..role() }];
    let reply = world.backend(BackendCommand::PutRoles(many));
    assert!(matches!(&reply, Ok(Reply::RolesPut(done)) if *done == put), "{reply:?}");

    let members = vec![new_member(EVE), new_member(OWNER)];
    let version = world.guild.version();
    let reply = world.backend(BackendCommand::CompareMembers(members.clone()));
    let Ok(Reply::Imported(would)) = reply else { panic!("{reply:?}") };
    assert_eq!((would.added.as_slice(), world.guild.version()), (&[EVE][..], version), "a comparison changes nothing");
    world.backend(BackendCommand::ImportMembers { members, audience: JoinAudience::NewMember }).unwrap();
    assert_eq!(count(world.backend(BackendCommand::RemoveMembers(vec![EVE, OWNER, NOBODY]))), 1, "the owner stays");
    assert!(world.command(Actor::System, Command::ReadMember(OWNER)).is_ok());
}

#[test]
fn h3_publishing_changes_nothing() {
    let mut world = World::new();
    world.subscribe(P0, 1);
    let event = |name| {
        let body = serde_json::value::RawValue::from_string("{\"a\":1}".to_owned()).unwrap();
        Arc::new(BackendEvent::new(name, &body, None).unwrap())
    };
    let before = format!("{:?}", world.guild.newest_id());
    for rule in [AudienceRule::Members, AudienceRule::Users([ANA].into()), AudienceRule::Roles([GUILD.cast()].into())] {
        let command = BackendCommand::Publish { rule, event: event("ROUND"), id: None };
        assert!(matches!(world.backend(command), Ok(Reply::Count(1))));
    }
    let rule = AudienceRule::Channel(ChannelId::new(77));
    assert_eq!(
        world.backend(BackendCommand::Publish { rule, event: event("X"), id: None }).unwrap_err(),
        Refusal::UnknownChannel
    );
    let rule = AudienceRule::Roles([ROLE].into());
    assert_eq!(
        world.backend(BackendCommand::Publish { rule, event: event("X"), id: None }).unwrap_err(),
        Refusal::UnknownRole
    );
    assert_eq!(format!("{:?}", world.guild.newest_id()), before);
}

#[test]
fn h5_an_event_with_an_id_is_published_once_while_the_id_counts() {
    let mut world = World::new();
    world.subscribe(P0, 1);
    let body = serde_json::value::RawValue::from_string("{}".to_owned()).unwrap();
    let event = Arc::new(BackendEvent::new("ROUND", &body, None).unwrap());
    let publish = |rule, id| BackendCommand::Publish { rule, event: event.clone(), id: Some(PublicationId([7, id])) };
    let refused = publish(AudienceRule::Roles([ROLE].into()), 1);
    assert_eq!(world.backend(refused).unwrap_err(), Refusal::UnknownRole);
    world.events();
    for (id, is_new) in [(1, true), (1, false), (2, true), (1, false)] {
        let reply = world.backend(publish(AudienceRule::Members, id)).unwrap();
        assert_eq!(matches!(reply, Reply::Count(1)), is_new, "{reply:?}");
        assert_eq!(world.events().len(), usize::from(is_new));
    }
    world.pass_ms(300_000);
    assert!(matches!(world.backend(publish(AudienceRule::Members, 1)), Ok(Reply::Count(1))));
}
