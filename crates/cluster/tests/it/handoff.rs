//! The state of a guild on its way to another node.

use crate::{
    examples::*,
    messages::{SESSION, to_guild},
    round_trip::{crossed, examples_of},
};
use guildhall_guild::{
    Actor, Command, Guild, GuildLimits, GuildRecord, HandoffChunk, HandoffItem, HandoffParts, HandoffPlace, NewMessage,
    Outcome,
};
use guildhall_guild_protocol::{PartitionId, RelayId, ToGuild};
use guildhall_model::{
    Ban, ChannelType, Guild as GuildFields, GuildResource, Nonce, OpenPoll, Pin, ResourceKey, ResourceKind, Role,
    UserId,
};
use guildhall_stdx::Now;
use std::{convert::Infallible, sync::Arc};

fn resources() -> Vec<GuildResource> {
    examples_of! { GuildResource:
        Ban => GuildResource::Ban(Arc::new(Ban { user: user(3), reason: text("why") }));
        Invite => GuildResource::Invite(invite());
        Webhook => GuildResource::Webhook(webhook());
        Pin => GuildResource::Pin(Pin { channel_id: id(2), message_id: id(3), pinned_at: at(5) });
        ThreadMember => GuildResource::ThreadMember(thread_member(60, 3));
        TemporaryMember => GuildResource::TemporaryMember(id(3));
        AuditEntry => GuildResource::AuditEntry(audit_entry());
        AutoModRule => GuildResource::AutoModRule(auto_mod_rule());
        Follower => GuildResource::Follower(follower());
        WelcomeScreen => GuildResource::WelcomeScreen(welcome_screen());
        Onboarding => GuildResource::Onboarding(onboarding());
        Template => GuildResource::Template(template());
        VanityUses => GuildResource::VanityUses(3);
        OpenPoll => GuildResource::OpenPoll(OpenPoll { channel_id: id(2), message_id: id(3), expires_at: at(5) });
    }
}

#[test]
fn changes_cross() {
    let key = ResourceKey { kind: ResourceKind::ThreadMember, id: 7, part: u64::MAX };
    let items = examples_of! { HandoffItem:
        Guild => HandoffItem::Guild(Arc::new(guild()));
        Role => HandoffItem::Role(role(5));
        RoleGone => HandoffItem::RoleGone(id(5));
        Channel => HandoffItem::Channel(channel(5, ChannelType::Forum));
        ChannelGone => HandoffItem::ChannelGone(id(6));
        Member => HandoffItem::Member(member(7));
        MemberGone => HandoffItem::MemberGone(id(7));
        Resource => HandoffItem::Resource(GuildResource::Invite(invite()));
        ResourceGone => HandoffItem::ResourceGone(key);
        ResourcesGone => HandoffItem::ResourcesGone(key);
        Relay => HandoffItem::Relay(ToGuild::Detach { session: SESSION });
        Voice => HandoffItem::Voice(id(7), None);
        Shown => HandoffItem::Shown(id(7), Some(presence()));
    };
    items.iter().for_each(|item| drop(crossed(item)));
    resources().into_iter().for_each(|resource| drop(crossed(&HandoffItem::Resource(resource))));
    to_guild().into_iter().for_each(|message| drop(crossed(&HandoffItem::Relay(message))));
    crossed(&HandoffItem::Shown(id(7), None));
}

/// A guild with something of everything.
fn full_guild(now: Now) -> Guild {
    let structure = structure(20);
    let voice_channel = channel(900, ChannelType::Voice);
    let mut channels: Vec<_> = structure.channels.values().map(|of| (**of).clone()).collect();
    channels.push((*voice_channel).clone());
    channels.push((*thread(60).channel).clone());
    let record = GuildRecord {
        guild: GuildFields { is_direct: false, owner_id: id(4), ..(*structure.guild).clone() },
        roles: structure.roles.values().map(|role| Role::clone(role)).collect(),
        channels,
        members: (1..=30).map(member).collect(),
        resources: resources(),
        nonces: Vec::new(),
    };
    let mut guild = Guild::load(record, GuildLimits::default(), 3);
    let relay = RelayId::first(PartitionId(0));
    guild.handle_relay(now, ToGuild::Subscribe { relay, epoch: 1 });
    let mut run = |actor, command| {
        let outcome = guild.handle_command(now, actor, &command);
        assert!(matches!(outcome, Outcome::Reply(Ok(_))), "{command:?}: {outcome:?}");
        while guild.poll_output().is_some() {}
    };
    let user_id: UserId = id(4);
    run(Actor::System, Command::ShowPresence(user_id, Some(presence())));
    run(Actor::System, Command::ShowVoice(user_id, Some(voice_channel.id)));
    let text_channel = structure.channels.values().find(|of| of.kind == ChannelType::Text).map(|of| of.id);
    let new = NewMessage {
        content: "hello".to_owned(),
        nonce: Some(Nonce::Text("n".to_owned())),
        enforce_nonce: true,
        ..NewMessage::default()
    };
    run(Actor::User(user_id), Command::CreateMessage(text_channel.unwrap_or(id(2)), Box::new(new)));
    guild
}

fn chunks(guild: &mut Guild) -> Vec<String> {
    let mut texts = Vec::new();
    let Ok(()) = guild.begin_handoff().for_each_chunk(|chunk| {
        texts.push(format!("{chunk:?}"));
        Ok::<_, Infallible>(())
    });
    guild.stop_handoff();
    texts
}

#[test]
fn a_whole_guild_crosses() {
    let now = Now::new(1_000_000, 1_700_000_000_000);
    let mut guild = full_guild(now);
    let mut parts = HandoffParts::default();
    let (mut kinds, mut moved) = (Vec::new(), Vec::new());
    let Ok(()) = guild.begin_handoff().for_each_chunk(|chunk| {
        let chunk = crossed(&chunk);
        kinds.push(match &chunk {
            HandoffChunk::Structure { .. } => "structure",
            HandoffChunk::Members(_) => "members",
            HandoffChunk::Threads(_) => "threads",
            HandoffChunk::Resources(resources) => {
                moved.extend(resources.iter().map(|resource| format!("{resource:?}")));
                "resources"
            }
            HandoffChunk::Items(_) => "items",
            HandoffChunk::Presences(_) => "presences",
        });
        parts.add(chunk);
        Ok::<_, Infallible>(())
    });
    assert_eq!(kinds, ["structure", "members", "threads", "resources", "items"]);
    let lacking = resources().into_iter().map(|resource| format!("{resource:?}"));
    let lacking: Vec<_> = lacking.filter(|resource| !moved.contains(resource)).collect();
    assert!(lacking.is_empty(), "the base lacks {lacking:?}");
    let mut standby = parts.standby(now, GuildLimits::default(), 3).unwrap();
    let (items, place) = guild.handoff_sessions(HandoffPlace::Sessions(None), 10);
    assert_eq!((items.len(), place), (0, HandoffPlace::Watched(None)));
    let tail = crossed(&guild.handoff_tail(now));
    let text = format!("{tail:?}");
    standby.take_over(now, tail);
    assert_eq!(format!("{:?}", standby.handoff_tail(now)), text);
    assert_eq!((standby.members_count(), standby.version()), (30, guild.version()));
    guild.stop_handoff();
    assert_eq!(chunks(&mut standby), chunks(&mut guild));
}
