//! Voice: joining, moving, leaving, and visibility.

use crate::fixture::*;
use guildhall_guild::{
    ChannelPatch, Command, GuildLimits, GuildPatch, MemberPatch, NewChannel, Refusal, Reply, RolePatch,
    SignVoiceTokens, VoiceGrant, VoiceSigner, VoiceStatePatch,
};
use guildhall_guild_protocol::{AudienceRule, Payload, RelayMessage, SessionKey, ToGuild};
use guildhall_model::{
    ChannelId, ChannelType, EventName, Overwrite, OverwriteKind, Permissions, Status, UserId,
    to_gateway::VoiceStateUpdate,
};
use guildhall_stdx::Timestamp;
use std::sync::Arc;

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
        Self::of(World::populated())
    }

    fn of(mut world: World) -> Self {
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
    // A user with a time-out cannot join, but is not disconnected.
    let until = guildhall_stdx::Timestamp(scene.world.now.unix.0 + 1_000);
    for user_id in [BOB, EVE] {
        let patch = MemberPatch { communication_disabled_until: Some(Some(until)), ..MemberPatch::default() };
        scene.world.system(Command::UpdateMember(user_id, Box::new(patch)));
    }
    scene.world.sent.clear();
    assert_eq!(scene.op4(3, Some(a)), []);
    assert_eq!(scene.op4(2, Some(small)), [in_channel(BOB, small)]);
    // Losing CONNECT disconnects no user either.
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
    scene.world.grant(BOB, Permissions::MUTE_MEMBERS, 1);
    scene.world.grant(EVE, Permissions::DEAFEN_MEMBERS, 1);
    scene.world.sent.clear();
    // A user who is not in voice cannot be muted in advance.
    for (by, mute, deaf) in [
        (BOB, Some(true), None),
        (BOB, Some(false), None),
        (EVE, None, Some(true)),
        (EVE, None, Some(false)),
        (OWNER, Some(true), Some(true)),
    ] {
        assert_eq!(scene.world.by(by, patch(mute, deaf)).unwrap_err(), Refusal::NotInVoice);
    }
    let named = MemberPatch { nick: Some(Some("n".to_owned())), mute: Some(true), ..MemberPatch::default() };
    let named = Command::UpdateMember(ANA, Box::new(named));
    assert_eq!(scene.world.by(OWNER, named).unwrap_err(), Refusal::NotInVoice);
    assert_eq!(scene.world.by(ANA, patch(Some(true), None)).unwrap_err(), Refusal::MissingPermissions);
    assert!(scene.world.events().is_empty() && scene.world.member(ANA).nick.is_none());
    // A backend may.
    scene.world.system(patch(Some(true), None));
    assert_eq!(scene.world.event_names(), [EventName::GuildMemberUpdate], "not in voice");
    scene.op4(1, Some(a));
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
fn users_in_a_hidden_channel_are_not_in_voice_for_others() {
    let mut scene = Scene::new();
    let a = scene.a;
    let moderates = Permissions::MUTE_MEMBERS | Permissions::DEAFEN_MEMBERS | Permissions::MOVE_MEMBERS;
    scene.world.grant(BOB, moderates, 1);
    scene.world.system(Command::PutOverwrite(a, deny_everyone(Permissions::VIEW_CHANNEL)));
    scene.world.system(Command::PutOverwrite(a, allow_member(ANA, Permissions::VIEW_CHANNEL)));
    let patches = [
        MemberPatch { mute: Some(true), ..MemberPatch::default() },
        MemberPatch { deaf: Some(true), ..MemberPatch::default() },
        MemberPatch { channel_id: Some(None), ..MemberPatch::default() },
        MemberPatch { channel_id: Some(Some(scene.b)), ..MemberPatch::default() },
    ];
    for is_there in [false, true] {
        if is_there {
            scene.op4(1, Some(a));
        }
        for patch in &patches {
            let command = || Command::UpdateMember(ANA, Box::new(patch.clone()));
            assert_eq!(scene.world.by(BOB, command()).unwrap_err(), Refusal::NotInVoice, "{is_there} {patch:?}");
            assert_eq!(scene.world.by(EVE, command()).unwrap_err(), Refusal::MissingPermissions);
        }
    }
}

#[test]
fn deleting_a_voice_channel_disconnects_its_users_first() {
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
    let stranger = Command::ShowVoice(NOBODY, Some(a));
    assert_eq!(scene.world.command(system, stranger).unwrap_err(), Refusal::UnknownMember);
    assert_eq!(scene.world.by(OWNER, show(Some(a))).unwrap_err(), Refusal::MissingPermissions);
}

/// The last voice state that was sent: where its user is, whether suppressed, and the request to speak.
fn last_state(scene: &mut Scene) -> Option<(UserId, bool, Option<Timestamp>)> {
    let events = scene.world.events();
    events.iter().rev().find_map(|published| match &published.event.payload {
        Payload::Voice { state, .. } => Some((state.user_id, state.suppress, state.request_to_speak_timestamp)),
        _ => None,
    })
}

fn is_suppressed(scene: &mut Scene, slot: u32, channel: ChannelId) -> bool {
    scene.world.sent.clear();
    scene.world.relay(ToGuild::Voice { session: session(0, slot), update: voice_state(Some(channel)) });
    last_state(scene).expect("they may").1
}

/// Suppression changes after a change of the structure, once its passes are over.
fn after(scene: &mut Scene, command: Command) -> Vec<(UserId, bool)> {
    scene.world.sent.clear();
    scene.world.system(command);
    scene.world.rest();
    let events = scene.world.events();
    let states = events.iter().filter_map(|published| match &published.event.payload {
        Payload::Voice { state, .. } => Some((state.user_id, state.suppress)),
        _ => None,
    });
    states.collect()
}

#[test]
fn v4_a_user_without_speak_is_suppressed_on_every_path() {
    let mut scene = Scene::new();
    let (a, b) = (scene.a, scene.b);
    let deny = Overwrite { target: OverwriteKind::Member(ANA), allow: Permissions::NONE, deny: Permissions::SPEAK };
    scene.world.system(Command::PutOverwrite(a, deny));
    assert!(is_suppressed(&mut scene, 1, a));
    assert!(is_suppressed(&mut scene, 1, a), "a toggle leaves it");
    assert!(!is_suppressed(&mut scene, 2, a));
    assert!(!is_suppressed(&mut scene, 1, b), "elsewhere she may");
    // Moved by others, and shown by a backend.
    let to = |channel| {
        Command::UpdateMember(ANA, Box::new(MemberPatch { channel_id: Some(Some(channel)), ..MemberPatch::default() }))
    };
    scene.world.by(OWNER, to(a)).expect("she may");
    assert_eq!(last_state(&mut scene), Some((ANA, true, None)));
    scene.world.by(OWNER, to(b)).expect("she may");
    assert_eq!(last_state(&mut scene), Some((ANA, false, None)));
    scene.world.system(Command::ShowVoice(ANA, Some(a)));
    assert_eq!(last_state(&mut scene), Some((ANA, true, None)));
    // Every user is suppressed in the AFK channel.
    let afk = GuildPatch { afk_channel_id: Some(Some(b)), ..GuildPatch::default() };
    scene.world.system(Command::UpdateGuild(Box::new(afk)));
    scene.world.attach(session(0, 7), OWNER, Status::Online);
    assert!(is_suppressed(&mut scene, 2, b) && is_suppressed(&mut scene, 7, b));
    assert!(!is_suppressed(&mut scene, 7, a));
}

#[test]
fn v4_it_follows_the_rights_of_those_in_voice() {
    let mut scene = Scene::new();
    let (a, b) = (scene.a, scene.b);
    scene.op4(1, Some(a));
    scene.op4(2, Some(b));
    let role = scene.world.role(Permissions::SPEAK, 1);
    assert_eq!(after(&mut scene, Command::PutOverwrite(a, deny_everyone(Permissions::SPEAK))), [(ANA, true)]);
    // A toggle in between sends what holds.
    assert!(is_suppressed(&mut scene, 1, a));
    let allow = Overwrite { target: OverwriteKind::Role(role), allow: Permissions::SPEAK, deny: Permissions::NONE };
    assert_eq!(after(&mut scene, Command::PutOverwrite(a, allow)), []);
    assert_eq!(after(&mut scene, Command::AddMemberRole(ANA, role)), [(ANA, false)]);
    assert_eq!(after(&mut scene, Command::RemoveMemberRole(ANA, role)), [(ANA, true)]);
    assert_eq!(after(&mut scene, Command::AddMemberRole(ANA, role)), [(ANA, false)]);
    assert_eq!(after(&mut scene, Command::DeleteRole(role)), [(ANA, true)]);
    let everyone = |permissions| {
        let patch = RolePatch { permissions: Some(permissions), ..RolePatch::default() };
        Command::UpdateRole(GUILD.cast(), Box::new(patch))
    };
    let silent = Permissions::DEFAULT_EVERYONE.without(Permissions::SPEAK);
    assert_eq!(after(&mut scene, everyone(silent)), [(BOB, true)]);
    assert_eq!(after(&mut scene, everyone(Permissions::DEFAULT_EVERYONE)), [(BOB, false)]);
    assert_eq!(
        after(&mut scene, Command::DeleteOverwrite(a, deny_everyone(Permissions::SPEAK).target)),
        [(ANA, false)]
    );
    let afk =
        |channel| Command::UpdateGuild(Box::new(GuildPatch { afk_channel_id: Some(channel), ..GuildPatch::default() }));
    assert_eq!(after(&mut scene, afk(Some(b))), [(BOB, true)]);
    assert_eq!(after(&mut scene, afk(None)), [(BOB, false)]);
    let owner =
        |owner_id| Command::UpdateGuild(Box::new(GuildPatch { owner_id: Some(owner_id), ..GuildPatch::default() }));
    scene.world.system(everyone(silent));
    scene.world.rest();
    assert_eq!(after(&mut scene, owner(ANA)), [(ANA, false)]);
    let until = Timestamp(scene.world.now.unix.0 + 60_000);
    scene.world.system(everyone(Permissions::DEFAULT_EVERYONE));
    scene.world.rest();
    let patch = MemberPatch { communication_disabled_until: Some(Some(until)), ..MemberPatch::default() };
    assert_eq!(after(&mut scene, Command::UpdateMember(BOB, Box::new(patch))), [(BOB, true)]);
    // Nothing else changes it.
    let named = ChannelPatch { name: Some("other".to_owned()), ..ChannelPatch::default() };
    assert_eq!(after(&mut scene, Command::UpdateChannel(a, Box::new(named))), []);
}

#[test]
fn v4_a_crowd_is_looked_at_in_slices() {
    let mut scene = Scene::new();
    let a = scene.a;
    for n in 0..200 {
        scene.world.join(extra(n));
        scene.world.system(Command::ShowVoice(extra(n), Some(a)));
    }
    scene.world.sent.clear();
    scene.world.system(Command::PutOverwrite(a, deny_everyone(Permissions::SPEAK)));
    let mut sent = Vec::new();
    while scene.world.tick() {
        sent.push(scene.world.events().len());
    }
    assert!(sent.iter().all(|count| *count <= 65), "{sent:?}");
    assert_eq!(sent.iter().sum::<usize>(), 200 + 1, "each once, and the channel's change");
}

#[test]
fn the_audience_of_a_stage_asks_to_speak_and_is_let() {
    let mut scene = Scene::new();
    let stage = scene.world.channel(new_channel("stage", ChannelType::Stage));
    let a = scene.a;
    let now = scene.world.now.unix;
    let later = Timestamp(now.0 + 86_400_000);
    let patch = |suppress: Option<bool>, request: Option<Option<Timestamp>>| VoiceStatePatch {
        channel_id: None,
        suppress,
        request_to_speak_timestamp: request,
    };
    let update = |user_id, patch| Command::UpdateVoiceState(user_id, patch);
    let ask = patch(None, Some(Some(later)));
    let refused = |scene: &mut Scene, by, of, patch| scene.world.by(by, update(of, patch)).unwrap_err();
    assert_eq!(refused(&mut scene, ANA, ANA, ask), Refusal::UnknownVoiceState);
    scene.op4(1, Some(a));
    assert_eq!(refused(&mut scene, ANA, ANA, ask), Refusal::WrongChannelType);
    scene.op4(1, Some(stage));

    // A request needs its permission, and may be withdrawn without.
    scene.world.system(Command::PutOverwrite(stage, deny_everyone(Permissions::REQUEST_TO_SPEAK)));
    assert_eq!(refused(&mut scene, ANA, ANA, ask), Refusal::MissingPermissions);
    scene.world.system(Command::PutOverwrite(stage, allow_member(ANA, Permissions::REQUEST_TO_SPEAK)));
    let past = patch(None, Some(Some(Timestamp(now.0 - 3_600_000))));
    let field = Refusal::InvalidForm("request_to_speak_timestamp");
    assert_eq!(refused(&mut scene, ANA, ANA, past), field);
    let elsewhere = VoiceStatePatch { channel_id: Some(a), ..ask };
    assert_eq!(refused(&mut scene, ANA, ANA, elsewhere), Refusal::NotInVoice);
    scene.world.sent.clear();
    scene.world.by(ANA, update(ANA, VoiceStatePatch { channel_id: Some(stage), ..ask })).expect("she may");
    assert_eq!(last_state(&mut scene), Some((ANA, true, Some(later))));
    scene.world.by(ANA, update(ANA, ask)).expect("she may");
    assert_eq!(last_state(&mut scene), None, "nothing changed");
    // A toggle leaves the request.
    assert!(is_suppressed(&mut scene, 1, stage));
    scene.world.by(ANA, update(ANA, patch(None, Some(None)))).expect("she may");
    assert_eq!(last_state(&mut scene), Some((ANA, true, None)));

    // Speaking is for moderators to give; stepping back is one's own.
    assert_eq!(refused(&mut scene, ANA, ANA, patch(Some(false), None)), Refusal::MissingPermissions);
    assert_eq!(refused(&mut scene, BOB, ANA, patch(Some(false), None)), Refusal::MissingPermissions);
    assert_eq!(refused(&mut scene, BOB, ANA, patch(None, None)), Refusal::MissingPermissions);
    assert_eq!(refused(&mut scene, NOBODY, ANA, patch(Some(false), None)), Refusal::UnknownGuild);
    scene.world.grant(BOB, Permissions::MUTE_MEMBERS, 1);
    scene.world.sent.clear();
    scene.world.by(BOB, update(ANA, patch(Some(false), None))).expect("he may");
    assert_eq!(last_state(&mut scene), Some((ANA, false, Some(now))), "an invitation");
    assert!(!is_suppressed(&mut scene, 1, stage), "a toggle leaves it");
    scene.world.by(ANA, update(ANA, patch(Some(true), None))).expect("she may");
    assert_eq!(last_state(&mut scene), Some((ANA, true, None)));
    // A moderator cannot request to speak for another user.
    scene.world.by(BOB, update(ANA, ask)).expect("without effect");
    assert_eq!(last_state(&mut scene), None);
    // Moderators let themselves speak.
    scene.op4(2, Some(stage));
    scene.world.by(BOB, update(BOB, patch(Some(true), None))).expect("he may");
    scene.world.by(BOB, update(BOB, patch(Some(false), None))).expect("he may");
    assert_eq!(last_state(&mut scene), Some((BOB, false, None)));

    // Only users who can view the channel can read a voice state in it.
    assert!(matches!(scene.world.by(EVE, Command::ReadVoiceState(ANA)), Ok(Reply::VoiceState(_))));
    assert_eq!(scene.world.by(EVE, Command::ReadVoiceState(EVE)).unwrap_err(), Refusal::UnknownVoiceState);
    scene.world.system(Command::PutOverwrite(stage, deny_everyone(Permissions::VIEW_CHANNEL)));
    assert_eq!(scene.world.by(EVE, Command::ReadVoiceState(ANA)).unwrap_err(), Refusal::UnknownVoiceState);
    assert_eq!(refused(&mut scene, EVE, ANA, patch(Some(true), None)), Refusal::UnknownVoiceState);
    assert!(matches!(scene.world.by(ANA, Command::ReadVoiceState(ANA)), Ok(Reply::VoiceState(_))));
    // A move ends a request.
    scene.world.by(OWNER, update(ANA, patch(Some(false), None))).expect("she may");
    scene.world.sent.clear();
    assert!(!is_suppressed(&mut scene, 1, a));
    scene.op4(1, None);
    assert_eq!(refused(&mut scene, ANA, ANA, ask), Refusal::UnknownVoiceState);
}

/// A signer that writes the rights as plain text.
struct Plain;

impl SignVoiceTokens for Plain {
    fn sign(&self, now: Timestamp, grant: &VoiceGrant<'_>) -> String {
        let rights = [(grant.can_speak, "speak"), (grant.can_stream, "stream"), (grant.can_hear, "hear")];
        let rights: Vec<_> = rights.into_iter().filter_map(|(is_given, right)| is_given.then_some(right)).collect();
        format!(
            "{}/{} {} {} {} {}",
            grant.guild_id,
            grant.channel_id,
            grant.user_id,
            grant.name,
            now.0,
            rights.join("+")
        )
    }
}

#[test]
fn tokens_are_signed_with_the_rights_of_the_moment() {
    let limits = GuildLimits { voice_signer: VoiceSigner(Some(Arc::new(Plain))), ..GuildLimits::default() };
    let mut world = World::with_limits(limits);
    [ANA, BOB, EVE].into_iter().for_each(|id| world.join(id));
    let mut scene = Scene::of(world);
    let (a, b) = (scene.a, scene.b);
    let token = |scene: &mut Scene, channel| {
        scene.world.relay(ToGuild::Voice { session: session(0, 1), update: voice_state(channel) });
        scene.world.take().into_iter().find_map(|(_, message)| match message {
            RelayMessage::Direct { event, .. } => match &event.payload {
                Payload::VoiceServer { token, .. } => Some(token.clone()),
                _ => None,
            },
            _ => None,
        })
    };
    let now = scene.world.now.unix.0;
    let expected = |channel, rights| Some(format!("{GUILD}/{channel} {ANA} user{ANA} {now} {rights}"));
    assert_eq!(token(&mut scene, Some(a)), expected(a, "speak+stream+hear"));
    // A client repeats its op 4 when its token has ended.
    assert_eq!(token(&mut scene, Some(a)), expected(a, "speak+stream+hear"));
    // On a stage they are the audience.
    let stage = scene.world.channel(new_channel("stage", ChannelType::Stage));
    scene.world.sent.clear();
    assert_eq!(token(&mut scene, Some(stage)), expected(stage, "hear"));
    let deaf = MemberPatch { deaf: Some(true), ..MemberPatch::default() };
    scene.world.system(Command::UpdateMember(ANA, Box::new(deaf)));
    scene.world.system(Command::PutOverwrite(b, deny_everyone(Permissions::STREAM)));
    scene.world.rest();
    scene.world.sent.clear();
    assert_eq!(token(&mut scene, Some(b)), expected(b, "speak"));
    // A member who may no longer connect stays, and gets no further token.
    scene.world.system(Command::PutOverwrite(b, deny_everyone(Permissions::CONNECT)));
    scene.world.rest();
    scene.world.sent.clear();
    assert_eq!(token(&mut scene, Some(b)), None);
}

#[test]
fn a_backend_moves_a_session_that_is_in_voice() {
    let mut scene = Scene::new();
    let (a, b) = (scene.a, scene.b);
    scene.op4(1, Some(a));
    scene.world.system(Command::ShowVoice(ANA, Some(b)));
    let gone = Seen::State { rule: AudienceRule::ChannelExcept(a, b), user: ANA, channel: None, always: false };
    assert_eq!(scene.seen(), [gone, in_channel(ANA, b), server(1)]);
    // The connection is still that session's.
    scene.world.relay(ToGuild::Detach { session: session(0, 1) });
    assert_eq!(scene.seen(), [left(ANA, b)]);
}
