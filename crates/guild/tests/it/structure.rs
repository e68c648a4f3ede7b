//! Structure: base fields, roles, channels and overwrites.

use crate::fixture::*;
use guildhall_guild::{
    Actor, BackendCommand, ChannelPatch, Command, Guild, GuildLimits, GuildPatch, NewChannel, NewRole, NewThread,
    Outcome, Refusal, Reply, RolePatch, StageContent,
};
use guildhall_guild_protocol::{AudienceRule, Payload, Published, ReplicaUpdate};
use guildhall_model::{
    Channel, ChannelId, ChannelType, EventName, Overwrite, OverwriteKind, Permissions, Role, RoleIcon, RoleId,
};

fn child(parent: ChannelId) -> NewChannel {
    NewChannel { parent_id: Some(parent), ..new_channel("child", ChannelType::Text) }
}

/// All members receive the event, and relays the new structure with it.
fn check_structure(published: &Published) {
    assert_eq!(rule(published), AudienceRule::Members);
    let ReplicaUpdate::Structure(structure) = &published.replica_update else { panic!("{published:?}") };
    match &published.event.payload {
        Payload::Role(role) => assert_eq!(&structure.roles[&role.id], role),
        Payload::RoleDelete(role) => assert!(!structure.roles.contains_key(role)),
        Payload::Channel(channel) if published.event.name == EventName::ChannelDelete => {
            assert!(!structure.channels.contains_key(&channel.id));
        }
        Payload::Channel(channel) => assert_eq!(&structure.channels[&channel.id], channel),
        Payload::Guild(published) => assert_eq!(published.guild, structure.guild),
        other => panic!("{other:?}"),
    }
}

fn visible(world: &mut World, actor: Actor) -> (Vec<ChannelId>, Permissions) {
    match world.command(actor, Command::ReadGuild) {
        Ok(Reply::Guild(reply)) => (reply.visible_channels, reply.permissions),
        other => panic!("{other:?}"),
    }
}

#[test]
fn reading() {
    let mut world = World::populated();
    let (open, hidden) = (world.text_channel(), world.text_channel());
    world.system(Command::PutOverwrite(hidden, deny_everyone(Permissions::VIEW_CHANNEL)));
    assert_eq!(visible(&mut world, Actor::System), (vec![open, hidden], Permissions::ALL));
    assert_eq!(visible(&mut world, Actor::User(OWNER)), (vec![open, hidden], Permissions::ALL));
    assert_eq!(visible(&mut world, Actor::User(ANA)), (vec![open], Permissions::DEFAULT_EVERYONE));

    let mut check = |command: Command, expected: Refusal| {
        assert_eq!(world.by(ANA, command.clone()).unwrap_err(), expected, "{command:?}");
    };
    check(Command::ReadChannel(hidden), Refusal::MissingAccess);
    check(Command::ReadChannel(ChannelId::new(5)), Refusal::UnknownChannel);
    check(Command::AuthorizeHistory(hidden), Refusal::MissingAccess);
    check(Command::ReadMember(NOBODY), Refusal::UnknownMember);
    for command in [Command::ReadGuild, Command::ReadMembers, Command::ReadMember(ANA)] {
        assert_eq!(world.by(NOBODY, command).unwrap_err(), Refusal::UnknownGuild);
    }
    assert_eq!(world.by(NOBODY, Command::ReadChannel(open)).unwrap_err(), Refusal::MissingAccess);

    let mut may_read = |channel| match world.by(ANA, Command::AuthorizeHistory(channel)) {
        Ok(Reply::HistoryGrant { may_read_history }) => may_read_history,
        other => panic!("{other:?}"),
    };
    assert!(may_read(open));
    let Ok(Reply::Members(table)) = world.by(ANA, Command::ReadMembers) else { panic!() };
    world.join(NOBODY);
    assert_eq!(table.len(), 4, "a snapshot does not change");
    world.system(Command::PutOverwrite(open, deny_everyone(Permissions::READ_MESSAGE_HISTORY)));
    let grant = world.by(ANA, Command::AuthorizeHistory(open));
    assert!(matches!(grant, Ok(Reply::HistoryGrant { may_read_history: false })));
    let voice = world.channel(new_channel("voice", ChannelType::Voice));
    world.system(Command::PutOverwrite(voice, deny_everyone(Permissions::CONNECT)));
    assert_eq!(world.by(ANA, Command::AuthorizeHistory(voice)).unwrap_err(), Refusal::MissingAccess);
    assert!(world.by(ANA, Command::ReadChannel(voice)).is_ok(), "its text is closed, not the channel");
}

#[test]
fn base_fields() {
    let mut world = World::populated();
    let patch =
        GuildPatch { name: Some("new".to_owned()), description: Some(Some("d".to_owned())), ..GuildPatch::default() };
    world.grant(BOB, Permissions::MANAGE_GUILD, 1);
    world.sent.clear();
    let update = Command::UpdateGuild(Box::new(patch));
    assert_eq!(world.by(ANA, update.clone()).unwrap_err(), Refusal::MissingPermissions);
    let Ok(Reply::Guild(reply)) = world.by(BOB, update.clone()) else { panic!() };
    assert_eq!((&*reply.structure.guild.name, reply.structure.guild.description.as_deref()), ("new", Some("d")));
    check_structure(&world.only_event(EventName::GuildUpdate));
    world.by(BOB, update).expect("he may");
    assert!(world.events().is_empty(), "nothing is new");

    let give = |owner_id| Command::UpdateGuild(Box::new(GuildPatch { owner_id: Some(owner_id), ..Default::default() }));
    assert_eq!(world.by(BOB, give(BOB)).unwrap_err(), Refusal::MissingPermissions);
    assert_eq!(world.by(OWNER, give(NOBODY)).unwrap_err(), Refusal::UnknownMember);
    let Ok(Reply::Guild(reply)) = world.by(OWNER, give(ANA)) else { panic!() };
    assert_eq!((reply.structure.guild.owner_id, reply.permissions), (ANA, Permissions::DEFAULT_EVERYONE));
    assert_eq!(world.by(OWNER, give(OWNER)).unwrap_err(), Refusal::MissingPermissions);
    world.by(OWNER, Command::RemoveMember(OWNER)).expect("a former owner may leave");
    world.system(give(BOB));
}

#[test]
fn roles() {
    let mut world = World::populated();
    let own = world.grant(BOB, Permissions::MANAGE_ROLES | Permissions::KICK_MEMBERS, 5);
    world.sent.clear();
    let wanted = NewRole { managed: true, ..new_role(Permissions::KICK_MEMBERS, 9) };
    let Ok(Reply::Role(role)) = world.by(BOB, Command::CreateRole(Box::new(wanted))) else { panic!() };
    assert!(role.id > own && role.position == 1 && !role.managed);
    check_structure(&world.only_event(EventName::GuildRoleCreate));
    let too_much = Command::CreateRole(Box::new(new_role(Permissions::BAN_MEMBERS, 1)));
    assert_eq!(world.by(BOB, too_much.clone()).unwrap_err(), Refusal::MissingPermissions);
    assert_eq!(world.by(ANA, too_much).unwrap_err(), Refusal::MissingPermissions);
    let unknown_bits = world.role(Permissions(u64::MAX), 1);
    assert_eq!(world.store.roles[&unknown_bits].permissions, Permissions::ALL);
    let high = world.role(Permissions::NONE, 6);
    world.sent.clear();

    let permissions = |permissions| RolePatch { permissions: Some(permissions), ..RolePatch::default() };
    let position = |position| RolePatch { position: Some(position), ..RolePatch::default() };
    let name = || RolePatch { name: Some("n".to_owned()), ..RolePatch::default() };
    let mut check = |by, role: RoleId, patch: RolePatch, expected: Result<(), Refusal>| {
        let got = world.by(by, Command::UpdateRole(role, Box::new(patch.clone()))).map(|_| ());
        assert_eq!(got, expected, "{patch:?}");
        if expected.is_ok() {
            check_structure(&world.only_event(EventName::GuildRoleUpdate));
        }
    };
    check(BOB, role.id, name(), Ok(()));
    check(ANA, role.id, name(), Err(Refusal::MissingPermissions));
    check(BOB, own, name(), Err(Refusal::MissingPermissions));
    check(BOB, high, name(), Err(Refusal::MissingPermissions));
    check(BOB, RoleId::new(77), name(), Err(Refusal::UnknownRole));
    check(BOB, role.id, permissions(Permissions::BAN_MEMBERS), Err(Refusal::MissingPermissions));
    check(OWNER, role.id, permissions(Permissions::BAN_MEMBERS | Permissions::KICK_MEMBERS), Ok(()));
    // A bit that is there already is not handed out, and may be taken away.
    check(BOB, role.id, permissions(Permissions::BAN_MEMBERS), Ok(()));
    check(BOB, role.id, permissions(Permissions::NONE), Ok(()));
    check(BOB, role.id, position(5), Ok(()));
    check(BOB, role.id, position(6), Err(Refusal::MissingPermissions));
    check(BOB, GUILD.cast(), permissions(Permissions::VIEW_CHANNEL), Ok(()));
    check(OWNER, high, position(-3), Ok(()));
    assert_eq!(world.store.roles[&high].position, 1, "only @everyone is at the very bottom");
    let everyone = RolePatch { position: Some(4), mentionable: Some(true), ..name() };
    world.system(Command::UpdateRole(GUILD.cast(), Box::new(everyone)));
    let stored = &world.store.roles[&GUILD.cast()];
    assert_eq!((&*stored.name, stored.position, stored.mentionable), ("@everyone", 0, false));
    // MANAGE_ROLES of `@everyone` has no effect: members without a role are above no role.
    world.everyone(Permissions::VIEW_CHANNEL | Permissions::MANAGE_ROLES);
    let got = world.by(ANA, Command::UpdateRole(GUILD.cast(), Box::new(permissions(Permissions::VIEW_CHANNEL))));
    assert_eq!(got.unwrap_err(), Refusal::MissingPermissions);

    world.sent.clear();
    let mut check = |by, role: RoleId, expected: Result<(), Refusal>| {
        assert_eq!(world.command(by, Command::DeleteRole(role)).map(|_| ()), expected, "{role}");
        if expected.is_ok() {
            check_structure(&world.only_event(EventName::GuildRoleDelete));
        }
    };
    check(Actor::User(ANA), role.id, Err(Refusal::MissingPermissions));
    check(Actor::User(BOB), own, Err(Refusal::MissingPermissions));
    check(Actor::User(BOB), role.id, Ok(()));
    check(Actor::User(BOB), role.id, Err(Refusal::UnknownRole));
    check(Actor::System, GUILD.cast(), Err(Refusal::InvalidRole));
}

#[test]
fn e3_only_the_permissions_of_everyone_differ() {
    let mut world = World::populated();
    let everyone = |world: &World| world.store.roles[&GUILD.cast()].clone();
    let before = everyone(&world);
    world.sent.clear();
    let icon = RoleIcon::Picture("abc".into());
    for patch in [
        RolePatch { name: Some("all".to_owned()), ..RolePatch::default() },
        RolePatch { color: Some(255), ..RolePatch::default() },
        RolePatch { hoist: Some(true), ..RolePatch::default() },
        RolePatch { mentionable: Some(true), ..RolePatch::default() },
        RolePatch { position: Some(5), ..RolePatch::default() },
        RolePatch { icon: Some(Some(icon)), ..RolePatch::default() },
    ] {
        for actor in [Actor::User(OWNER), Actor::System] {
            let reply = world.command(actor, Command::UpdateRole(GUILD.cast(), Box::new(patch.clone())));
            let Ok(Reply::Role(role)) = reply else { panic!("{reply:?}") };
            assert_eq!(*role, before, "{patch:?}");
        }
        assert!(world.events().is_empty() && everyone(&world) == before, "{patch:?}");
    }
    // With permissions, these alone change.
    let mixed = RolePatch { permissions: Some(Permissions::VIEW_CHANNEL), hoist: Some(true), ..RolePatch::default() };
    world.by(OWNER, Command::UpdateRole(GUILD.cast(), Box::new(mixed))).expect("she may");
    let plain = Role { permissions: Permissions::VIEW_CHANNEL, ..before.clone() };
    assert_eq!(everyone(&world), plain);
    // A backend can change no other field of it, alone or in a batch.
    let looks = Role { color: 255, hoist: true, mentionable: true, ..role(GUILD.cast(), Permissions::NONE, 9) };
    let bare = Role { permissions: Permissions::NONE, ..before };
    world.backend(BackendCommand::PutRole(Box::new(looks.clone()), None)).expect("it may");
    assert_eq!(everyone(&world), bare);
    world.sent.clear();
    world.backend(BackendCommand::PutRoles(vec![looks.clone()])).expect("it may");
    assert!(world.events().is_empty());
    // Looks that an earlier version stored are gone after a load.
    world.store.roles.insert(GUILD.cast(), looks);
    let mut loaded = Guild::load(world.store.record(), GuildLimits::default(), 3);
    let read = loaded.handle_command(world.now, Actor::System, &Command::ReadGuild);
    let Outcome::Reply(Ok(Reply::Guild(read))) = read else { panic!("{read:?}") };
    assert_eq!(*read.structure.roles[&GUILD.cast()], bare);
}

#[test]
fn channels() {
    let mut world = World::populated();
    world.grant(BOB, Permissions::MANAGE_CHANNELS, 1);
    world.sent.clear();
    let new = |new: NewChannel| Command::CreateChannel(Box::new(new));
    let Ok(Reply::Channel(text)) = world.by(BOB, new(new_channel("text", ChannelType::Text))) else { panic!() };
    check_structure(&world.only_event(EventName::ChannelCreate));
    let category = world.channel(new_channel("category", ChannelType::Category));
    assert_eq!((text.position, world.store.channels[&category].position), (0, 1), "each at the end");
    let top = world.channel(NewChannel { position: Some(i32::MAX), ..new_channel("t", ChannelType::Text) });
    let last = world.text_channel();
    assert_eq!(world.store.channels[&last].position, i32::MAX);
    world.system(Command::DeleteChannel(top));

    let mut check = |by, new: NewChannel, expected: Refusal| {
        let got = world.by(by, Command::CreateChannel(Box::new(new.clone())));
        assert_eq!(got.unwrap_err(), expected, "{new:?}");
    };
    check(ANA, new_channel("x", ChannelType::Text), Refusal::MissingPermissions);
    check(BOB, new_channel("x", ChannelType::Dm), Refusal::InvalidForm("type"));
    check(BOB, new_channel("x", ChannelType::PublicThread), Refusal::InvalidForm("type"));
    check(BOB, child(text.id), Refusal::InvalidForm("parent_id"));
    check(BOB, child(ChannelId::new(5)), Refusal::InvalidForm("parent_id"));
    check(BOB, NewChannel { kind: ChannelType::Category, ..child(category) }, Refusal::InvalidForm("parent_id"));
    let overwrites = vec![deny_everyone(Permissions::VIEW_CHANNEL)];
    check(BOB, NewChannel { overwrites, ..child(category) }, Refusal::MissingPermissions);

    // Without overwrites of its own a channel begins with those of its category.
    let closed = world.channel(new_channel("closed", ChannelType::Category));
    world.system(Command::PutOverwrite(closed, deny_everyone(Permissions::VIEW_CHANNEL)));
    let Ok(Reply::Channel(inside)) = world.by(OWNER, Command::CreateChannel(Box::new(child(closed)))) else { panic!() };
    assert_eq!(inside.overwrites, [deny_everyone(Permissions::VIEW_CHANNEL)]);
    let own = vec![deny_everyone(Permissions::SEND_MESSAGES)];
    let open = NewChannel { overwrites: own.clone(), ..child(closed) };
    let Ok(Reply::Channel(open)) = world.by(OWNER, Command::CreateChannel(Box::new(open))) else { panic!() };
    assert_eq!(open.overwrites, own);

    let hidden = world.text_channel();
    world.system(Command::PutOverwrite(hidden, deny_everyone(Permissions::VIEW_CHANNEL)));
    world.sent.clear();
    let patch = ChannelPatch { name: Some("n".to_owned()), parent_id: Some(Some(category)), ..ChannelPatch::default() };
    let update = |channel| Command::UpdateChannel(channel, Box::new(patch.clone()));
    assert_eq!(world.by(ANA, update(text.id)).unwrap_err(), Refusal::MissingPermissions);
    assert_eq!(world.by(BOB, update(hidden)).unwrap_err(), Refusal::MissingAccess);
    assert_eq!(world.by(BOB, update(ChannelId::new(5))).unwrap_err(), Refusal::UnknownChannel);
    let message = world.say(ANA, text.id, "x");
    world.sent.clear();
    let Ok(Reply::Channel(updated)) = world.by(BOB, update(text.id)) else { panic!() };
    assert_eq!((&*updated.name, updated.parent_id, updated.last_message_id), ("n", Some(category), Some(message)));
    check_structure(&world.only_event(EventName::ChannelUpdate));
    world.by(BOB, update(text.id)).expect("he may");
    assert!(world.events().is_empty(), "nothing is new");
    let overwrites = ChannelPatch { overwrites: Some(vec![]), ..ChannelPatch::default() };
    let got = world.by(BOB, Command::UpdateChannel(text.id, Box::new(overwrites)));
    assert_eq!(got.unwrap_err(), Refusal::MissingPermissions);
}

#[test]
fn deleting_channels() {
    let mut world = World::populated();
    let category = world.channel(new_channel("category", ChannelType::Category));
    let (one, two) = (world.channel(child(category)), world.channel(child(category)));
    let (message, other) = (world.say(ANA, one, "x"), world.say(ANA, two, "x"));
    world.grant(BOB, Permissions::MANAGE_CHANNELS, 1);
    world.sent.clear();
    assert_eq!(world.by(ANA, Command::DeleteChannel(category)).unwrap_err(), Refusal::MissingPermissions);
    world.by(BOB, Command::DeleteChannel(category)).expect("he may");
    let events = world.events();
    let names: Vec<_> = events.iter().map(|published| published.event.name).collect();
    assert_eq!(names, [EventName::ChannelDelete, EventName::ChannelUpdate, EventName::ChannelUpdate]);
    check_structure(&events[0]);
    let orphans: Vec<&Channel> = events[1..]
        .iter()
        .map(|published| match &published.event.payload {
            Payload::Channel(channel) => &**channel,
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(orphans.iter().all(|channel| channel.parent_id.is_none()));
    assert_eq!(orphans.iter().map(|channel| channel.last_message_id).collect::<Vec<_>>(), [Some(message), Some(other)]);
    assert!(world.store.channels.values().all(|channel| channel.parent_id.is_none()));

    let Ok(Reply::Channel(gone)) = world.by(BOB, Command::DeleteChannel(one)) else { panic!() };
    assert_eq!(gone.last_message_id, Some(message));
    assert_eq!(world.by(ANA, Command::DeleteMessage(one, message)).unwrap_err(), Refusal::UnknownChannel);
    let Reply::Guild(reply) = world.system(Command::ReadGuild) else { panic!() };
    assert_eq!(reply.last_message_ids.keys().copied().collect::<Vec<_>>(), [two]);
    assert_eq!(world.loads, 0);
}

#[test]
fn a_guild_forgets_its_special_channels() {
    let mut world = World::populated();
    let (system, afk) = (world.text_channel(), world.channel(new_channel("afk", ChannelType::Voice)));
    let mut record = world.store.record();
    (record.guild.system_channel_id, record.guild.afk_channel_id) = (Some(system), Some(afk));
    world.guild = guildhall_guild::Guild::load(record, GuildLimits::default(), 3);
    world.relay(guildhall_guild_protocol::ToGuild::Subscribe { relay: P0, epoch: 2 });
    world.sent.clear();
    world.system(Command::DeleteChannel(system));
    assert_eq!(world.event_names(), [EventName::ChannelDelete, EventName::GuildUpdate]);
    let guild = world.store.guild.as_ref().expect("it is there");
    assert_eq!((guild.system_channel_id, guild.afk_channel_id), (None, Some(afk)));
}

/// Libraries send all roles of a guild with new positions.
#[test]
fn positions_of_roles_change_as_long_as_the_order_at_the_top_stays() {
    let mut world = World::populated();
    let [low, twin] = [1, 1].map(|position| world.role(Permissions::NONE, position));
    let own = world.grant(BOB, Permissions::MANAGE_ROLES, 5);
    let top = world.role(Permissions::NONE, 6);
    let mut by = |by, moves: &[(RoleId, i32)]| world.by(by, Command::MoveRoles(moves.to_vec())).map(|_| ());
    assert_eq!(by(BOB, &[(twin, 1), (low, 2), (own, 6), (top, 7)]), Ok(()));
    assert_eq!(by(BOB, &[(low, 1), (twin, 2)]), Ok(()));
    let refused = Err(Refusal::MissingPermissions);
    assert_eq!(by(BOB, &[(low, 6)]), refused, "an older role would be above one's own");
    assert_eq!(by(BOB, &[(own, 8)]), refused);
    assert_eq!(by(BOB, &[(top, 2)]), refused);
    assert_eq!(by(BOB, &[(own, 1)]), refused, "others would be above it");
    assert_eq!(by(ANA, &[(low, 2)]), refused);
    assert_eq!(by(OWNER, &[(top, 1), (own, 9)]), Ok(()));
}

#[test]
fn limits_of_a_channel_follow_its_type() {
    let mut world = World::populated();
    let [text, forum, voice, stage] = [ChannelType::Text, ChannelType::Forum, ChannelType::Voice, ChannelType::Stage]
        .map(|kind| world.channel(new_channel("limited", kind)));
    let topic = |chars| ChannelPatch { topic: Some(Some("é".repeat(chars))), ..ChannelPatch::default() };
    let users = |max| ChannelPatch { user_limit: Some(max), ..ChannelPatch::default() };
    let mut update = |id, patch| world.by(OWNER, Command::UpdateChannel(id, Box::new(patch))).map(|_| ());
    assert_eq!(update(text, topic(1_024)), Ok(()));
    assert_eq!(update(text, topic(1_025)), Err(Refusal::InvalidForm("topic")));
    assert_eq!(update(forum, topic(4_096)), Ok(()));
    assert_eq!(update(voice, users(99)), Ok(()));
    assert_eq!(update(voice, users(100)), Err(Refusal::InvalidForm("user_limit")));
    assert_eq!(update(stage, users(10_000)), Ok(()));
}

#[test]
fn the_stage_of_a_deleted_channel_ends_before_the_channel() {
    let mut world = World::populated();
    let stage = world.channel(new_channel("stage", ChannelType::Stage));
    let content = StageContent { topic: "talk".to_owned(), privacy_level: 2, guild_scheduled_event_id: None };
    world.by(OWNER, Command::CreateStage(stage, Box::new(content))).unwrap();
    world.sent.clear();
    world.by(OWNER, Command::DeleteChannel(stage)).unwrap();
    assert_eq!(world.event_names(), [EventName::StageInstanceDelete, EventName::ChannelDelete]);
    assert!(world.store.guild.as_ref().expect("it is there").stage_instances.is_empty());
}

#[test]
fn f3_overwrites() {
    let mut world = World::populated();
    let channel = world.text_channel();
    let role = world.role(Permissions::NONE, 1);
    world.grant(BOB, Permissions::MANAGE_ROLES, 2);
    world.sent.clear();
    let over = |target, allow, deny| Overwrite { target, allow, deny };
    let of_role = OverwriteKind::Role(role);
    let mut check = |by, overwrite: Overwrite, expected: Result<(), Refusal>| {
        assert_eq!(world.by(by, Command::PutOverwrite(channel, overwrite)).map(|_| ()), expected, "{overwrite:?}");
        if expected.is_ok() {
            check_structure(&world.only_event(EventName::ChannelUpdate));
            assert!(world.store.channels[&channel].overwrites.contains(&overwrite));
        }
    };
    let send = Permissions::SEND_MESSAGES;
    check(BOB, over(of_role, send, Permissions::NONE), Ok(()));
    check(BOB, over(of_role, Permissions::NONE, send), Ok(()));
    check(BOB, over(OverwriteKind::Member(ANA), send, Permissions::NONE), Ok(()));
    check(ANA, over(of_role, send, Permissions::NONE), Err(Refusal::MissingPermissions));
    check(BOB, over(of_role, Permissions::MANAGE_MESSAGES, Permissions::NONE), Err(Refusal::MissingPermissions));
    check(BOB, over(of_role, Permissions::NONE, Permissions::MANAGE_MESSAGES), Err(Refusal::MissingPermissions));
    check(BOB, over(OverwriteKind::Role(RoleId::new(77)), send, Permissions::NONE), Err(Refusal::UnknownRole));
    check(OWNER, over(of_role, Permissions::MANAGE_MESSAGES, Permissions::NONE), Ok(()));
    // With MANAGE_ROLES in a channel a member can give all other permissions there, so it needs an administrator.
    let manages = Permissions::MANAGE_ROLES;
    check(BOB, over(OverwriteKind::Member(ANA), send | manages, Permissions::NONE), Err(Refusal::MissingPermissions));
    check(BOB, over(OverwriteKind::Member(ANA), send, manages), Err(Refusal::MissingPermissions));
    check(OWNER, over(OverwriteKind::Member(ANA), send | manages, Permissions::NONE), Ok(()));
    check(OWNER, over(OverwriteKind::Member(ANA), send, Permissions::NONE), Ok(()));
    // Taking away what one does not hold is handing out as well.
    check(BOB, over(of_role, Permissions::NONE, Permissions::NONE), Err(Refusal::MissingPermissions));
    assert_eq!(world.store.channels[&channel].overwrites.len(), 2, "one for each target");

    let mut remove = |by, target, expected: Result<(), Refusal>| {
        assert_eq!(world.by(by, Command::DeleteOverwrite(channel, target)).map(|_| ()), expected);
    };
    remove(ANA, of_role, Err(Refusal::MissingPermissions));
    remove(BOB, of_role, Err(Refusal::MissingPermissions));
    remove(OWNER, of_role, Ok(()));
    remove(OWNER, of_role, Err(Refusal::UnknownOverwrite));
    remove(BOB, OverwriteKind::Member(ANA), Ok(()));
    assert!(world.store.channels[&channel].overwrites.is_empty());

    // Held in the channel alone is held; of two for one target the last counts, and unknown bits do not.
    world.system(Command::PutOverwrite(channel, allow_member(BOB, Permissions::MANAGE_MESSAGES)));
    world
        .by(BOB, Command::PutOverwrite(channel, over(of_role, Permissions::MANAGE_MESSAGES, Permissions::NONE)))
        .expect("he may");
    let twice =
        vec![over(of_role, send, Permissions::NONE), over(of_role, Permissions::NONE, Permissions(1 << 63) | send)];
    let patch = ChannelPatch { overwrites: Some(twice), ..ChannelPatch::default() };
    world.system(Command::UpdateChannel(channel, Box::new(patch)));
    assert_eq!(world.store.channels[&channel].overwrites, [over(of_role, Permissions::NONE, send)]);
    world.sent.clear();
    world.system(Command::PutOverwrite(channel, over(of_role, Permissions::NONE, send)));
    assert!(world.events().is_empty(), "nothing is new");
}

#[test]
fn limits() {
    let limits = GuildLimits { channels_max: 2, roles_max: 2, overwrites_max: 1, ..GuildLimits::default() };
    let mut world = World::with_limits(limits);
    let channel = world.text_channel();
    world.text_channel();
    world.role(Permissions::NONE, 1);
    let mut check = |command: Command, expected: Refusal| {
        assert_eq!(world.command(Actor::System, command).unwrap_err(), expected);
    };
    check(Command::CreateChannel(Box::new(new_channel("x", ChannelType::Text))), Refusal::TooManyChannels);
    check(Command::CreateRole(Box::new(new_role(Permissions::NONE, 1))), Refusal::TooManyRoles);
    world.system(Command::PutOverwrite(channel, allow_member(ANA, Permissions::NONE)));
    let more = Command::PutOverwrite(channel, allow_member(BOB, Permissions::NONE));
    assert_eq!(world.command(Actor::System, more).unwrap_err(), Refusal::TooManyOverwrites);
    world.system(Command::PutOverwrite(channel, allow_member(ANA, Permissions::SPEAK)));
}

/// Channels whose history a member may read, for every reason that there is against one.
#[test]
fn readable_channels() {
    let mut world = World::populated();
    let open = world.text_channel();
    let (hidden, unread, adult) = (world.text_channel(), world.text_channel(), world.text_channel());
    let voice = world.channel(new_channel("voice", ChannelType::Voice));
    let mute = world.channel(new_channel("mute", ChannelType::Voice));
    world.channel(new_channel("category", ChannelType::Category));
    let denials = [
        (hidden, Permissions::VIEW_CHANNEL),
        (unread, Permissions::READ_MESSAGE_HISTORY),
        (mute, Permissions::CONNECT),
    ];
    for (channel, denied) in denials {
        world.system(Command::PutOverwrite(channel, deny_everyone(denied)));
    }
    let patch = ChannelPatch { nsfw: Some(true), ..ChannelPatch::default() };
    world.system(Command::UpdateChannel(adult, Box::new(patch)));
    let mut thread = |parent: ChannelId, kind: ChannelType| {
        let new = NewThread { name: "thread".to_owned(), kind: Some(kind), ..NewThread::default() };
        match world.by(OWNER, Command::CreateThread(parent, Box::new(new))) {
            Ok(Reply::Thread(thread)) => thread.0.channel.id,
            other => panic!("{other:?}"),
        }
    };
    let public = thread(open, ChannelType::PublicThread);
    let private = thread(open, ChannelType::PrivateThread);
    let (in_hidden, in_unread) = (thread(hidden, ChannelType::PublicThread), thread(unread, ChannelType::PublicThread));
    let in_adult = thread(adult, ChannelType::PublicThread);

    let check = |world: &mut World, actor: Actor, include_nsfw: bool, expected: &[ChannelId]| {
        let reply = world.command(actor, Command::ReadableChannels { include_nsfw });
        let Ok(Reply::Channels(channels)) = reply else { panic!("{reply:?}") };
        assert_eq!(channels, expected, "{actor:?}, {include_nsfw}");
    };
    let ana = Actor::User(ANA);
    check(&mut world, ana, false, &[open, voice, public]);
    check(&mut world, ana, true, &[open, adult, voice, public, in_adult]);
    let all = [open, hidden, unread, adult, voice, mute, public, private, in_hidden, in_unread, in_adult];
    check(&mut world, Actor::User(OWNER), true, &all);
    check(&mut world, Actor::System, true, &all);
    world.by(OWNER, Command::AddThreadMember(private, ANA)).unwrap();
    check(&mut world, ana, false, &[open, voice, public, private]);
    let refused = world.by(NOBODY, Command::ReadableChannels { include_nsfw: true });
    assert_eq!(refused.unwrap_err(), Refusal::UnknownGuild);
}
