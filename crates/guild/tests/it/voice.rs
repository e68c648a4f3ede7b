//! Voice: joining, moving, leaving, and visibility.

use crate::fixture::*;
use guildhall_guild::{ChannelPatch, Command, MemberPatch, NewChannel, Refusal};
use guildhall_guild_protocol::{AudienceRule, Payload, RelayMessage, SessionKey, ToGuild};
use guildhall_model::{ChannelId, ChannelType, EventName, Permissions, Status, UserId, to_gateway::VoiceStateUpdate};

/// Sent voice states and server updates, in short form.
#[derive(Debug, PartialEq)]
enum Seen {
    State { rule: AudienceRule, user: UserId, channel: Option<ChannelId>, always: bool },
    Server { session: SessionKey },
}

struct Scene {
    world: World,
    a: ChannelId,
    b: ChannelId,
}

impl Scene {
    fn new() -> Self {
        let mut world = World::populated();
        let a = world.channel(new_channel("a", ChannelType::Voice));
        let b = world.channel(new_channel("b", ChannelType::Voice));
        for (slot, user_id) in [(1, ANA), (2, BOB), (3, EVE)] {
            world.attach(session(0, slot), user_id, Status::Online);
        }
        world.sent.clear();
        Self { world, a, b }
    }

    fn op4(&mut self, slot: u32, channel: Option<ChannelId>) -> Vec<Seen> {
        self.world.relay(ToGuild::Voice { session: session(0, slot), update: voice_state(channel) });
        self.seen()
    }

    fn seen(&mut self) -> Vec<Seen> {
        let messages = self.world.take().into_iter();
        messages
            .filter_map(|(_, message)| match message {
                RelayMessage::Published(published) => match &published.event.payload {
                    Payload::Voice { state, member } => {
                        assert_eq!(published.event.name, EventName::VoiceStateUpdate);
                        assert_eq!(member.as_ref().map(|member| member.user.id), Some(state.user_id));
                        let always = published.event.audience.always;
                        assert!(always.is_none_or(|user_id| user_id == state.user_id));
                        Some(Seen::State {
                            rule: rule(&published),
                            user: state.user_id,
                            channel: state.channel_id,
                            always: always.is_some(),
                        })
                    }
                    _ => None,
                },
                RelayMessage::Direct { session, event } => {
                    assert_eq!(event.name, EventName::VoiceServerUpdate);
                    let Payload::VoiceServer { token, endpoint } = &event.payload else { panic!() };
                    assert_eq!(endpoint.as_deref(), Some("voice.example.net"));
                    assert_eq!(token.len(), 32);
                    Some(Seen::Server { session })
                }
                _ => None,
            })
            .collect()
    }
}

fn in_channel(user: UserId, channel: ChannelId) -> Seen {
    Seen::State { rule: AudienceRule::Channel(channel), user, channel: Some(channel), always: true }
}

fn left(user: UserId, channel: ChannelId) -> Seen {
    Seen::State { rule: AudienceRule::Channel(channel), user, channel: None, always: true }
}

fn server(slot: u32) -> Seen {
    Seen::Server { session: session(0, slot) }
}

#[test]
fn v2_join_move_toggle_leave() {
    let mut scene = Scene::new();
    let (a, b) = (scene.a, scene.b);
    assert_eq!(scene.op4(1, Some(a)), [in_channel(ANA, a), server(1)]);
    assert_eq!(scene.op4(1, Some(a)), [in_channel(ANA, a)], "a toggle");
    let gone = Seen::State { rule: AudienceRule::ChannelExcept(a, b), user: ANA, channel: None, always: false };
    assert_eq!(scene.op4(1, Some(b)), [gone, in_channel(ANA, b), server(1)]);
    assert_eq!(scene.op4(1, None), [left(ANA, b)]);
    assert_eq!(scene.op4(1, None), []);
}

#[test]
fn v1_another_session_takes_over() {
    let mut scene = Scene::new();
    let (a, b) = (scene.a, scene.b);
    scene.world.attach(session(0, 11), ANA, Status::Online);
    scene.op4(1, Some(a));
    assert_eq!(scene.op4(11, Some(a)), [in_channel(ANA, a), server(11)]);
    // The first session is not the one in voice any more.
    scene.world.relay(ToGuild::Detach { session: session(0, 1) });
    assert_eq!(scene.seen(), []);
    scene.world.attach(session(0, 1), ANA, Status::Online);
    scene.world.sent.clear();
    let gone = Seen::State { rule: AudienceRule::ChannelExcept(a, b), user: ANA, channel: None, always: false };
    assert_eq!(scene.op4(1, Some(b)), [gone, in_channel(ANA, b), server(1)]);
    scene.world.relay(ToGuild::Detach { session: session(0, 11) });
    assert_eq!(scene.seen(), []);
    scene.world.relay(ToGuild::Detach { session: session(0, 1) });
    assert_eq!(scene.seen(), [left(ANA, b)], "the session ended");
}

#[test]
fn v3_what_is_not_allowed_is_answered_with_nothing() {
    let mut scene = Scene::new();
    let a = scene.a;
    let text = scene.world.text_channel();
    let hidden = scene.world.channel(new_channel("hidden", ChannelType::Voice));
    scene.world.system(Command::PutOverwrite(hidden, deny_everyone(Permissions::VIEW_CHANNEL)));
    let closed = scene.world.channel(new_channel("closed", ChannelType::Stage));
    scene.world.system(Command::PutOverwrite(closed, deny_everyone(Permissions::CONNECT)));
    let small = scene.world.channel(NewChannel { user_limit: 1, ..new_channel("small", ChannelType::Voice) });
    scene.world.sent.clear();
    for channel in [text, hidden, closed, ChannelId::new(5)] {
        assert_eq!(scene.op4(1, Some(channel)), []);
    }
    assert_eq!(scene.op4(9, Some(a)), [], "no such session");
    assert_eq!(scene.op4(2, Some(small)).len(), 2);
    assert_eq!(scene.op4(1, Some(small)), [], "it is full");
    assert_eq!(
        scene.op4(2, Some(small)),
        [in_channel(BOB, small)],
        "a member who is in the channel is not counted twice"
    );
    scene.world.grant(ANA, Permissions::MOVE_MEMBERS, 1);
    scene.world.sent.clear();
    assert_eq!(scene.op4(1, Some(small)).len(), 2);
    // Somebody timed out cannot join, but stays.
    let until = guildhall_stdx::Timestamp(scene.world.now.unix.0 + 1_000);
    for user_id in [BOB, EVE] {
        let patch = MemberPatch { communication_disabled_until: Some(Some(until)), ..MemberPatch::default() };
        scene.world.system(Command::UpdateMember(user_id, Box::new(patch)));
    }
    scene.world.sent.clear();
    assert_eq!(scene.op4(3, Some(a)), []);
    assert_eq!(scene.op4(2, Some(small)), [in_channel(BOB, small)]);
    // Nor does losing CONNECT throw anybody out.
    scene.world.system(Command::PutOverwrite(small, deny_everyone(Permissions::CONNECT)));
    assert_eq!(scene.seen(), []);
}

#[test]
fn a_stage_has_an_audience() {
    let mut scene = Scene::new();
    let stage = scene.world.channel(new_channel("stage", ChannelType::Stage));
    scene.world.grant(BOB, Permissions::MUTE_MEMBERS, 1);
    let suppressed = |scene: &mut Scene, slot, channel| {
        scene.world.sent.clear();
        let update = VoiceStateUpdate { self_mute: true, self_video: true, ..voice_state(Some(channel)) };
        scene.world.relay(ToGuild::Voice { session: session(0, slot), update });
        let events = scene.world.events();
        let Payload::Voice { state, .. } = &events.last().expect("they may").event.payload else { panic!() };
        assert!(state.self_mute && state.self_video && !state.self_deaf);
        assert_eq!(state.session_id, format!("session-0-{slot}"));
        state.suppress
    };
    assert!(suppressed(&mut scene, 1, stage));
    assert!(suppressed(&mut scene, 1, stage), "a toggle leaves it");
    assert!(!suppressed(&mut scene, 2, stage));
    let a = scene.a;
    assert!(!suppressed(&mut scene, 1, a));
}

#[test]
fn moved_by_others() {
    let mut scene = Scene::new();
    let (a, b) = (scene.a, scene.b);
    let text = scene.world.text_channel();
    let shut = scene.world.channel(NewChannel {
        overwrites: vec![deny_everyone(Permissions::CONNECT)],
        ..new_channel("shut", ChannelType::Voice)
    });
    let to = |channel: Option<ChannelId>| {
        Command::UpdateMember(ANA, Box::new(MemberPatch { channel_id: Some(channel), ..MemberPatch::default() }))
    };
    scene.world.grant(BOB, Permissions::MOVE_MEMBERS, 1);
    assert_eq!(scene.world.by(BOB, to(Some(a))).unwrap_err(), Refusal::NotInVoice);
    scene.op4(1, Some(a));
    assert_eq!(scene.world.by(EVE, to(Some(b))).unwrap_err(), Refusal::MissingPermissions);
    assert_eq!(scene.world.by(BOB, to(Some(shut))).unwrap_err(), Refusal::MissingPermissions);
    assert_eq!(scene.world.by(BOB, to(Some(text))).unwrap_err(), Refusal::InvalidForm("channel_id"));
    assert_eq!(scene.world.by(BOB, to(Some(ChannelId::new(5)))).unwrap_err(), Refusal::UnknownChannel);
    assert_eq!(scene.seen(), []);
    scene.world.by(BOB, to(Some(b))).expect("he may");
    let gone = Seen::State { rule: AudienceRule::ChannelExcept(a, b), user: ANA, channel: None, always: false };
    assert_eq!(scene.seen(), [gone, in_channel(ANA, b), server(1)]);
    scene.world.by(BOB, to(Some(b))).expect("there already");
    assert_eq!(scene.seen(), []);
    // The user limit applies to joins of one's own, access checks to the moved member.
    let limit = ChannelPatch { user_limit: Some(1), ..ChannelPatch::default() };
    scene.world.system(Command::UpdateChannel(a, Box::new(limit)));
    scene.op4(3, Some(a));
    scene.world.by(BOB, to(Some(a))).expect("he may");
    assert_eq!(scene.seen().len(), 3);
    scene.world.by(BOB, to(None)).expect("he may");
    assert_eq!(scene.seen(), [left(ANA, a)]);
}

#[test]
fn server_mute_and_deafen() {
    let mut scene = Scene::new();
    let a = scene.a;
    let patch = |mute: Option<bool>, deaf: Option<bool>| {
        Command::UpdateMember(ANA, Box::new(MemberPatch { mute, deaf, ..MemberPatch::default() }))
    };
    scene.world.system(patch(Some(true), None));
    assert_eq!(scene.world.event_names(), [EventName::GuildMemberUpdate], "not in voice");
    scene.op4(1, Some(a));
    scene.world.grant(BOB, Permissions::MUTE_MEMBERS, 1);
    assert_eq!(scene.world.by(BOB, patch(None, Some(true))).unwrap_err(), Refusal::MissingPermissions);
    scene.world.sent.clear();
    scene.world.by(BOB, patch(Some(false), None)).expect("he may");
    let events = scene.world.events();
    let names: Vec<_> = events.iter().map(|published| published.event.name).collect();
    assert_eq!(names, [EventName::GuildMemberUpdate, EventName::VoiceStateUpdate]);
    let Payload::Voice { state, .. } = &events[1].event.payload else { panic!() };
    assert!(!state.mute && state.channel_id == Some(a));
    scene.world.by(BOB, patch(Some(false), None)).expect("he may");
    assert!(scene.world.events().is_empty());
    assert!(!scene.world.store.members[&ANA].mute);
}

#[test]
fn a_channel_that_goes_leaves_nobody_in_it() {
    let mut scene = Scene::new();
    let a = scene.a;
    scene.op4(1, Some(a));
    scene.op4(2, Some(a));
    scene.world.system(Command::DeleteChannel(a));
    let events = scene.world.events();
    let names: Vec<_> = events.iter().map(|published| published.event.name).collect();
    // First, while relays still know who could view it.
    assert_eq!(names, [EventName::VoiceStateUpdate, EventName::VoiceStateUpdate, EventName::ChannelDelete]);
    assert_eq!(scene.op4(1, None), []);
}

#[test]
fn shown_without_a_session() {
    let mut scene = Scene::new();
    let (a, b) = (scene.a, scene.b);
    let show = |channel| Command::ShowVoice(ANA, channel);
    scene.world.system(show(Some(a)));
    assert_eq!(scene.seen(), [in_channel(ANA, a)]);
    scene.world.system(show(Some(b)));
    let gone = Seen::State { rule: AudienceRule::ChannelExcept(a, b), user: ANA, channel: None, always: false };
    assert_eq!(scene.seen(), [gone, in_channel(ANA, b)]);
    // Her sessions ending is nothing to it; one that joins takes over.
    scene.world.relay(ToGuild::Detach { session: session(0, 1) });
    assert_eq!(scene.seen(), []);
    scene.world.attach(session(0, 1), ANA, Status::Online);
    scene.world.sent.clear();
    assert_eq!(scene.op4(1, Some(b)), [in_channel(ANA, b), server(1)]);
    scene.world.system(show(None));
    assert_eq!(scene.seen(), [left(ANA, b)]);
    let text = scene.world.text_channel();
    let system = guildhall_guild::Actor::System;
    assert_eq!(scene.world.command(system, show(Some(text))).unwrap_err(), Refusal::InvalidForm("channel_id"));
    assert_eq!(scene.world.command(system, show(Some(ChannelId::new(5)))).unwrap_err(), Refusal::UnknownChannel);
    let nobody = Command::ShowVoice(NOBODY, Some(a));
    assert_eq!(scene.world.command(system, nobody).unwrap_err(), Refusal::UnknownMember);
    assert_eq!(scene.world.by(OWNER, show(Some(a))).unwrap_err(), Refusal::MissingPermissions);
}
