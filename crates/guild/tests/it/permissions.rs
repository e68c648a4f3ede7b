//! The permission matrix: each command with each permission alone, and for strangers.

use crate::fixture::*;
use guildhall_guild::{
    Actor, ChannelPatch, Command, GuildPatch, MemberPatch, MessagePatch, NewRole, Refusal, RolePatch,
};
use guildhall_guild_protocol::ToGuild;
use guildhall_model::{
    ChannelId, ChannelType, MessageId, Overwrite, OverwriteKind, Permissions, ReactionEmoji, RoleId, Status,
};
use guildhall_stdx::Timestamp;

/// Things to act upon: `ANA` wrote the message, reacted to it, is in voice, and has the role.
#[derive(Clone, Copy)]
struct Things {
    channel: ChannelId,
    message: MessageId,
    role: RoleId,
    unused_role: RoleId,
}

/// Where a command looks first, which decides what a stranger hears.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Guild,
    Channel,
}

struct Case {
    name: &'static str,
    place: Place,
    command: fn(Things) -> Command,
    /// Any one of these is enough.
    enough: &'static [Permissions],
    /// Whether an administrator may.
    for_admins: bool,
    /// Whether the system may: it writes nothing itself.
    for_system: bool,
}

fn fire() -> ReactionEmoji {
    ReactionEmoji { id: None, name: "🔥".to_owned() }
}

fn patch(patch: MemberPatch) -> Command {
    Command::UpdateMember(ANA, Box::new(patch))
}

fn cases() -> Vec<Case> {
    let case = |name, place, enough, command| Case { name, place, command, enough, for_admins: true, for_system: true };
    use Place::{Channel, Guild};
    const MESSAGES: &[Permissions] = &[Permissions::MANAGE_MESSAGES];
    const ROLES: &[Permissions] = &[Permissions::MANAGE_ROLES];
    const CHANNELS: &[Permissions] = &[Permissions::MANAGE_CHANNELS];
    vec![
        Case {
            for_system: false,
            ..case("say", Channel, &[Permissions::SEND_MESSAGES], |t| {
                Command::CreateMessage(t.channel, Box::new(text("x")))
            })
        },
        Case {
            for_system: false,
            ..case("type", Channel, &[Permissions::SEND_MESSAGES], |t| Command::StartTyping(t.channel))
        },
        Case {
            for_system: false,
            ..case("react", Channel, &[Permissions::ADD_REACTIONS], |t| {
                let emoji = ReactionEmoji { id: None, name: "👍".to_owned() };
                Command::AddReaction(t.channel, t.message, emoji)
            })
        },
        case("suppress embeds", Channel, MESSAGES, |t| {
            let flags = MessagePatch { flags: Some(4), ..MessagePatch::default() };
            Command::EditMessage(t.channel, t.message, Box::new(flags))
        }),
        case("delete a message", Channel, MESSAGES, |t| Command::DeleteMessage(t.channel, t.message)),
        case("remove a reaction", Channel, MESSAGES, |t| Command::RemoveReaction(t.channel, t.message, fire(), ANA)),
        case("clear reactions", Channel, MESSAGES, |t| Command::ClearReactions(t.channel, t.message, None)),
        case("rename the guild", Guild, &[Permissions::MANAGE_GUILD], |_| {
            Command::UpdateGuild(Box::new(GuildPatch { name: Some("n".to_owned()), ..GuildPatch::default() }))
        }),
        Case { for_admins: false, ..case("delete the guild", Guild, &[], |_| Command::DeleteGuild) },
        case("make a role", Guild, ROLES, |_| Command::CreateRole(Box::new(new_role(Permissions::NONE, 1)))),
        case("rename a role", Guild, ROLES, |t| {
            Command::UpdateRole(t.role, Box::new(RolePatch { name: Some("n".to_owned()), ..RolePatch::default() }))
        }),
        case("delete a role", Guild, ROLES, |t| Command::DeleteRole(t.role)),
        case("make a channel", Guild, CHANNELS, |_| {
            Command::CreateChannel(Box::new(new_channel("n", ChannelType::Text)))
        }),
        case("rename a channel", Channel, CHANNELS, |t| {
            let name = ChannelPatch { name: Some("n".to_owned()), ..ChannelPatch::default() };
            Command::UpdateChannel(t.channel, Box::new(name))
        }),
        case("delete a channel", Channel, CHANNELS, |t| Command::DeleteChannel(t.channel)),
        case("put an overwrite", Channel, ROLES, |t| {
            Command::PutOverwrite(t.channel, allow_member(ANA, Permissions::VIEW_CHANNEL))
        }),
        case("delete an overwrite", Channel, ROLES, |t| {
            Command::DeleteOverwrite(t.channel, OverwriteKind::Member(EVE))
        }),
        Case { for_admins: false, ..case("add a member", Guild, &[], |_| Command::AddMember(user(NOBODY))) },
        Case { for_admins: false, ..case("show a presence", Guild, &[], |_| Command::ShowPresence(ANA, None)) },
        Case { for_admins: false, ..case("show in voice", Guild, &[], |_| Command::ShowVoice(ANA, None)) },
        Case { for_admins: false, ..case("end a voice room", Guild, &[], |t| Command::EmptyVoice(t.channel)) },
        case("nick another", Guild, &[Permissions::MANAGE_NICKNAMES], |_| {
            patch(MemberPatch { nick: Some(None), ..MemberPatch::default() })
        }),
        case("nick oneself", Guild, &[Permissions::MANAGE_NICKNAMES, Permissions::CHANGE_NICKNAME], |_| {
            Command::UpdateMember(BOB, Box::new(MemberPatch { nick: Some(None), ..MemberPatch::default() }))
        }),
        case("set roles", Guild, ROLES, |t| patch(MemberPatch { roles: Some(vec![t.role]), ..MemberPatch::default() })),
        case("mute", Guild, &[Permissions::MUTE_MEMBERS], |_| {
            patch(MemberPatch { mute: Some(true), ..MemberPatch::default() })
        }),
        case("deafen", Guild, &[Permissions::DEAFEN_MEMBERS], |_| {
            patch(MemberPatch { deaf: Some(true), ..MemberPatch::default() })
        }),
        case("disconnect", Guild, &[Permissions::MOVE_MEMBERS], |_| {
            patch(MemberPatch { channel_id: Some(None), ..MemberPatch::default() })
        }),
        case("time out", Guild, &[Permissions::MODERATE_MEMBERS], |_| {
            let until = Some(Some(Timestamp(1_700_000_001_000)));
            patch(MemberPatch { communication_disabled_until: until, ..MemberPatch::default() })
        }),
        case("give a role", Guild, ROLES, |t| Command::AddMemberRole(ANA, t.unused_role)),
        case("take a role", Guild, ROLES, |t| Command::RemoveMemberRole(ANA, t.role)),
        case("kick", Guild, &[Permissions::KICK_MEMBERS], |_| Command::RemoveMember(ANA)),
    ]
}

fn scene() -> (World, Things) {
    let mut world = World::populated();
    let channel = world.text_channel();
    let voice = world.channel(new_channel("voice", ChannelType::Voice));
    world.system(Command::PutOverwrite(channel, allow_member(EVE, Permissions::VIEW_CHANNEL)));
    let message = world.say(ANA, channel, "x");
    world.by(ANA, Command::AddReaction(channel, message, fire())).expect("she may");
    let role = world.grant(ANA, Permissions::NONE, 1);
    let unused_role = world.role(Permissions::NONE, 1);
    world.attach(session(0, 1), ANA, Status::Online);
    world.relay(ToGuild::Voice { session: session(0, 1), update: voice_state(Some(voice)) });
    world.everyone(Permissions::VIEW_CHANNEL | Permissions::READ_MESSAGE_HISTORY);
    (world, Things { channel, message, role, unused_role })
}

#[test]
fn each_permission_alone() {
    for case in cases() {
        for bit in (0..53).chain([63]) {
            let (mut world, things) = scene();
            let permission = Permissions(1 << bit);
            let role = NewRole { permissions: permission, ..new_role(permission, 5) };
            let guildhall_guild::Reply::Role(role) = world.system(Command::CreateRole(Box::new(role))) else {
                panic!()
            };
            world.system(Command::AddMemberRole(BOB, role.id));
            let is_admin = permission == Permissions::ADMINISTRATOR;
            let may = case.enough.contains(&permission) || is_admin && case.for_admins;
            let got = world.by(BOB, (case.command)(things)).map(|_| ());
            let expected = if may { Ok(()) } else { Err(Refusal::MissingPermissions) };
            assert_eq!(got, expected, "{} with bit {bit}", case.name);
        }
    }
}

#[test]
fn permissions_of_the_system_of_strangers_and_of_administrators() {
    for case in cases() {
        // The system may everything that needs no person.
        let (mut world, things) = scene();
        let got = world.command(Actor::System, (case.command)(things)).map(|_| ());
        assert_eq!(got, if case.for_system { Ok(()) } else { Err(Refusal::UnknownUser) }, "{}", case.name);

        // A stranger learns nothing.
        let (mut world, things) = scene();
        let expected = if case.place == Place::Guild { Refusal::UnknownGuild } else { Refusal::MissingAccess };
        let command = (case.command)(things);
        if !matches!(command, Command::ShowPresence(..) | Command::ShowVoice(..) | Command::EmptyVoice(_)) {
            assert_eq!(world.by(NOBODY, command).unwrap_err(), expected, "{}", case.name);
        }

        // Nor does who cannot view the channel, with all permissions that are not ADMINISTRATOR.
        if case.place == Place::Channel {
            let (mut world, things) = scene();
            world.grant(BOB, Permissions::ALL.without(Permissions::ADMINISTRATOR), 5);
            world.system(Command::PutOverwrite(things.channel, deny_everyone(Permissions::VIEW_CHANNEL)));
            assert_eq!(world.by(BOB, (case.command)(things)).unwrap_err(), Refusal::MissingAccess, "{}", case.name);
        }

        // Timed-out members may do none of this, unless they are administrators.
        for (permissions, is_silenced) in
            [(Permissions::ALL.without(Permissions::ADMINISTRATOR), true), (Permissions::ADMINISTRATOR, false)]
        {
            let (mut world, things) = scene();
            let until = Some(Some(Timestamp(world.now.unix.0 + 1_000)));
            let time_out = MemberPatch { communication_disabled_until: until, ..MemberPatch::default() };
            world.system(Command::UpdateMember(BOB, Box::new(time_out)));
            world.grant(BOB, permissions, 5);
            let got = world.by(BOB, (case.command)(things)).map(|_| ());
            let may = case.for_admins && !is_silenced;
            assert_eq!(got, if may { Ok(()) } else { Err(Refusal::MissingPermissions) }, "{}", case.name);
        }
    }
}

#[test]
fn refusals_have_the_codes_of_the_protocol() {
    for (refusal, expected) in [
        (Refusal::UnknownGuild, (404, 10004)),
        (Refusal::UnknownChannel, (404, 10003)),
        (Refusal::UnknownMessage, (404, 10008)),
        (Refusal::MissingAccess, (403, 50001)),
        (Refusal::MissingPermissions, (403, 50013)),
        (Refusal::NotTheAuthor, (403, 50005)),
        (Refusal::UnknownOverwrite, (404, 10009)),
        (Refusal::InvalidRole, (400, 50028)),
        (Refusal::NotInVoice, (400, 40032)),
        (Refusal::InvalidForm("parent_id"), (400, 50035)),
        (Refusal::TooManyOverwrites, (400, 30060)),
        (Refusal::SlowMode { retry_after_ms: 1 }, (429, 20016)),
    ] {
        assert_eq!(refusal.status_and_code(), expected, "{refusal:?}");
    }
}

/// A client would show such an overwrite as the role's.
#[test]
fn an_overwrite_of_a_member_does_not_carry_the_id_of_a_role() {
    let mut world = World::populated();
    let (channel, role) = (world.text_channel(), world.role(Permissions::NONE, 1));
    for role_id in [role, GUILD.cast()] {
        let of_member = allow_member(role_id.cast(), Permissions::VIEW_CHANNEL);
        let mut new = new_channel("other", ChannelType::Text);
        new.overwrites = vec![of_member];
        let patch = ChannelPatch { overwrites: Some(vec![of_member]), ..ChannelPatch::default() };
        for command in [
            Command::PutOverwrite(channel, of_member),
            Command::CreateChannel(Box::new(new)),
            Command::UpdateChannel(channel, Box::new(patch)),
        ] {
            assert_eq!(world.by(OWNER, command).unwrap_err(), Refusal::UnknownMember);
        }
    }
    let of_role = Overwrite { target: OverwriteKind::Role(ANA.cast()), ..allow_member(ANA, Permissions::VIEW_CHANNEL) };
    assert_eq!(world.by(OWNER, Command::PutOverwrite(channel, of_role)).unwrap_err(), Refusal::UnknownRole);
    // Of a user who is no member it waits for them.
    world.by(OWNER, Command::PutOverwrite(channel, allow_member(extra(7), Permissions::VIEW_CHANNEL))).unwrap();
}
