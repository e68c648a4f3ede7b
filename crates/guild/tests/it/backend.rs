//! Backends: what is put whole, imported and published.

use crate::fixture::*;
use guildhall_guild::{Actor, BackendCommand, Command, IMPORT_MEMBERS_MAX, Imported, NewMember, Refusal, Reply};
use guildhall_model::{
    Channel, ChannelId, ChannelType, Guild as GuildFields, Overwrite, OverwriteKind, Permissions, Role, RoleId, UserId,
};
use guildhall_relay::{BackendEvent, Gate};
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
    Role { id: ROLE, ..new_role(Permissions::VIEW_CHANNEL, 3) }
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
    let everyone = Role { id: GUILD.cast(), name: "else".into(), ..new_role(Permissions::NONE, 9) };
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
    refused(&mut world, BackendCommand::ImportMembers { members, tell: false }, Refusal::InvalidForm("members"));
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
    let reply = world.backend(BackendCommand::ImportMembers { members, tell: false }).unwrap();
    let Reply::Imported(imported) = reply else { panic!("{reply:?}") };
    assert_eq!(*imported, Imported { added: vec![EVE, NOBODY], changed: 1, unchanged: 1 });
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
    for gate in [Gate::Members, Gate::Users([ANA].into()), Gate::Roles([GUILD.cast()].into())] {
        let command = BackendCommand::Publish { gate, event: event("ROUND") };
        assert!(matches!(world.backend(command), Ok(Reply::Count(1))));
    }
    let gate = Gate::Channel(ChannelId::new(77));
    assert_eq!(
        world.backend(BackendCommand::Publish { gate, event: event("X") }).unwrap_err(),
        Refusal::UnknownChannel
    );
    let gate = Gate::Roles([ROLE].into());
    assert_eq!(world.backend(BackendCommand::Publish { gate, event: event("X") }).unwrap_err(), Refusal::UnknownRole);
    assert_eq!(format!("{:?}", world.guild.newest_id()), before);
}
