//! Scale: no input costs more in a large guild than in a small one, told by what it allocates.

use crate::fixture::*;
use guildhall_guild::{Actor, Command, Guild, GuildLimits, GuildRecord, MemberPatch, Outcome};
use guildhall_model::{
    AccountKind, Channel, ChannelId, ChannelType, Guild as GuildFields, Member, Permissions, Role, RoleId, Status,
    UserId,
    to_gateway::{MemberQuery, RequestGuildMembers},
};
use guildhall_relay::{MembersWanted, ToGuild};
use guildhall_stdx::{Now, Timestamp};
use std::sync::Arc;

const NOW: Now = Now { instant: guildhall_stdx::Instant(1_000), unix: Timestamp(1_700_000_000_000) };
const CHANNEL: ChannelId = ChannelId::new(2);
const ROLE: RoleId = RoleId::new(3);

fn guild(members_count: u64) -> Guild {
    let everyone = Role { id: GUILD.cast(), ..new_role(Permissions::DEFAULT_EVERYONE, 0) };
    let member = |id| {
        let mut member = Member::new(user(UserId::new(id)), NOW.unix);
        member.roles.push(ROLE);
        Arc::new(member)
    };
    let record = GuildRecord {
        guild: GuildFields::new(GUILD, "large", OWNER),
        roles: vec![everyone, Role { id: ROLE, ..new_role(Permissions::NONE, 1) }],
        channels: vec![Channel::new(CHANNEL, GUILD, ChannelType::Text, "general")],
        members: (OWNER.get()..OWNER.get() + members_count).map(member).collect(),
    };
    let mut guild = Guild::load(record, GuildLimits::default(), 3);
    guild.handle_relay(NOW, ToGuild::Subscribe { relay: P0, epoch: 1 });
    guild
}

enum Input {
    Command(Command),
    Relay(ToGuild),
}

/// Bytes allocated by each input, each after a snapshot was taken, so that what it touches must be copied.
fn costs(members_count: u64) -> Vec<u64> {
    let mut guild = guild(members_count);
    let ana = UserId::new(OWNER.get() + members_count / 2);
    let patch = MemberPatch { nick: Some(Some("n".to_owned())), ..MemberPatch::default() };
    let attach = |slot, members| ToGuild::Attach {
        session: session(0, slot),
        session_id: "s".into(),
        user_id: ana,
        kind: AccountKind::Bot,
        presence: presence(Status::Online),
        members,
    };
    let request = RequestGuildMembers { guild_ids: vec![GUILD], query: MemberQuery::All, presences: true, nonce: None };
    let inputs = vec![
        Input::Command(Command::ReadGuild),
        Input::Command(Command::ReadMembers),
        Input::Command(Command::CreateMessage(CHANNEL, Box::new(text("@everyone hello")))),
        Input::Command(Command::StartTyping(CHANNEL)),
        Input::Command(Command::AddMember(user(UserId::new(5)))),
        Input::Command(Command::UpdateMember(ana, Box::new(patch))),
        Input::Relay(attach(1, MembersWanted::OwnAndVoice)),
        Input::Relay(attach(2, MembersWanted::ByThreshold { large_threshold: 250 })),
        Input::Relay(ToGuild::Presence { session: session(0, 1), presence: presence(Status::Dnd) }),
        Input::Relay(ToGuild::RequestMembers { session: session(0, 1), request: Box::new(request) }),
        Input::Relay(ToGuild::Detach { session: session(0, 1) }),
        Input::Command(Command::RemoveMember(ana)),
        Input::Command(Command::CreateRole(Box::new(new_role(Permissions::NONE, 1)))),
        Input::Command(Command::DeleteRole(ROLE)),
        Input::Command(Command::CreateChannel(Box::new(new_channel("n", ChannelType::Text)))),
        Input::Command(Command::DeleteChannel(CHANNEL)),
    ];
    let cost_of = |input| {
        let snapshot = guild.handle_command(NOW, Actor::System, &Command::ReadMembers);
        while guild.poll_output().is_some() {}
        let info = allocation_counter::measure(|| match &input {
            Input::Command(command) => {
                let by = if matches!(command, Command::AddMember(_)) { Actor::System } else { Actor::User(OWNER) };
                let outcome = guild.handle_command(NOW, by, command);
                assert!(matches!(outcome, Outcome::Reply(Ok(_))), "{command:?}: {outcome:?}");
            }
            Input::Relay(message) => guild.handle_relay(NOW, message.clone()),
        });
        drop(snapshot);
        info.bytes_total
    };
    inputs.into_iter().map(cost_of).collect()
}

#[test]
fn no_input_grows_with_the_members() {
    let (small, large) = (costs(600), costs(200_000));
    for (input, (small, large)) in small.iter().zip(&large).enumerate() {
        // The table's directory, a pointer per chunk of 128 to 256 members, copied and perhaps grown to twice its size.
        let directory = 200_000 / 128 * 8 * 3;
        assert!(*large <= small + directory, "input {input}: {small} bytes grew to {large}");
    }
    assert!(large.iter().any(|bytes| *bytes > 1_000), "it measures something: {large:?}");
}
