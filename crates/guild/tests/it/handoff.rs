//! Hand-offs: a standby that follows a guild becomes the guild.

use crate::{
    fixture::{text as text_message, *},
    random::{USERS, Walk},
};
use guildhall_guild::{
    Actor, AutoModPatch, BackendCommand, Command, Guild, GuildLimits, HandoffItem, HandoffParts, HandoffPlace, NewBan,
    NewInvite, NewThread, NewWebhook, Outcome, PublicationId, Refusal, Reply,
};
use guildhall_guild_protocol::{AudienceRule, BackendEvent, PartitionId, RelayId, ToGuild};
use guildhall_member_list::{Interval, ListId};
use guildhall_model::{AutoModAction, AutoModTrigger, ChannelType, InviteCode};
use guildhall_stdx::Now;
use serde::{Serialize, de::DeserializeOwned};
use std::{convert::Infallible, sync::Arc};

/// Steps before, during and after a hand-off.
const STEPS: usize = 300;
/// So few sessions in a slice that a walk changes some between two.
const SLICE: usize = 2;

/// As another node reads it.
fn sent<T: Serialize + DeserializeOwned>(value: &T) -> T {
    serde_json::from_str(&serde_json::to_string(value).expect("it can be written")).expect("it can be read")
}

fn text_of(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("it can be written")
}

/// A hand-off under way, step by step.
pub struct Handoff {
    parts: Option<HandoffParts>,
    standby: Option<Guild>,
    pub place: HandoffPlace,
}

impl Handoff {
    pub fn begin(guild: &mut Guild) -> Self {
        let mut parts = HandoffParts::default();
        let Ok(()) = guild.begin_handoff().for_each_chunk(|chunk| {
            parts.add(sent(&chunk));
            Ok::<_, Infallible>(())
        });
        Self { parts: Some(parts), standby: None, place: HandoffPlace::Sessions(None) }
    }

    /// Makes the standby, later than the base.
    pub fn build(&mut self, now: Now, limits: &GuildLimits) {
        let parts = self.parts.take().expect("it is built once");
        self.standby = Some(parts.standby(now, limits.clone(), 5).expect("it has a structure"));
    }

    fn follow(&mut self, now: Now, items: Vec<HandoffItem>) {
        let standby = self.standby.as_mut().expect("it was built");
        for item in items {
            standby.follow(now, sent(&item));
            assert!(standby.poll_output().is_none(), "N2");
        }
    }

    /// The next slice of sessions, behind what happened before it.
    pub fn next_slice(&mut self, guild: &mut Guild, now: Now) {
        let items = guild.take_handoff().expect("it is recorded");
        self.follow(now, items);
        let (items, next) = guild.handoff_sessions(self.place, SLICE);
        self.place = next;
        self.follow(now, items);
    }

    /// The guild gets no input any more.
    pub fn end(mut self, guild: &mut Guild, now: Now) -> Guild {
        assert!(guild.is_settled());
        let items = guild.take_handoff().expect("it is recorded");
        self.follow(now, items);
        let tail = sent(&guild.handoff_tail(now));
        guild.stop_handoff();
        let mut standby = self.standby.expect("it was built");
        standby.take_over(now, tail);
        standby
    }
}

/// The whole state of a guild, as a list of texts.
fn state(guild: &mut Guild, now: Now) -> Vec<String> {
    let mut texts = Vec::new();
    let Ok(()) = guild.begin_handoff().for_each_chunk(|chunk| {
        texts.push(text_of(&chunk));
        Ok::<_, Infallible>(())
    });
    guild.stop_handoff();
    let mut place = HandoffPlace::Sessions(None);
    while place != HandoffPlace::End {
        let (items, next) = guild.handoff_sessions(place, 100);
        texts.extend(items.iter().map(text_of));
        place = next;
    }
    texts.push(text_of(&guild.handoff_tail(now)));
    match guild.handle_command(now, Actor::System, &Command::ReadMembers) {
        Outcome::Reply(Ok(Reply::Members(table))) => {
            texts.extend(table.iter().map(|entry| format!("{} {:?}", entry.member.user.id, entry.presence)));
        }
        other => panic!("{other:?}"),
    }
    texts
}

fn publish(n: u64) -> BackendCommand {
    let body = serde_json::value::RawValue::from_string("{}".to_owned()).expect("it is JSON");
    let event = Arc::new(BackendEvent::new("ROUND", &body, None).expect("it is a name"));
    BackendCommand::Publish { rule: AudienceRule::Members, event, id: Some(PublicationId([7, n])) }
}

/// Commands that the walk lacks: threads, resources, watches, publications.
fn also(walk: &mut Walk) {
    let user_id = *walk.rng.pick(&USERS).expect("there are users");
    let text = walk.oracle.channels.values().find(|channel| channel.kind == ChannelType::Text).map(|of| of.id);
    let Some(channel) = text else { return };
    let thread = walk.oracle.channels.values().find(|channel| channel.kind.is_thread()).map(|of| of.id);
    let message = walk.oracle.messages.keys().copied().find(|(of, _)| *of == channel);
    let relay = RelayId { partition: PartitionId(walk.rng.below(2) as u16), index: 0 };
    let by = Actor::User(user_id);
    let n = walk.rng.next_u64();
    let (actor, command) = match walk.rng.below(16) {
        0 => (by, Command::CreateThread(channel, Box::new(NewThread { name: "t".to_owned(), ..NewThread::default() }))),
        1 => (by, Command::AddThreadMember(thread.unwrap_or(channel), user_id)),
        2 => (by, Command::RemoveThreadMember(thread.unwrap_or(channel), user_id)),
        3 if walk.rng.chance(0.3) => (Actor::System, Command::DeleteChannel(thread.unwrap_or(channel))),
        4 if user_id != OWNER => {
            let ban = NewBan { user: user(user_id), reason: Some("why".to_owned()), delete_message_s: 0 };
            (Actor::System, Command::Ban(Box::new(ban)))
        }
        5 => (Actor::System, Command::Unban(user_id)),
        6 => {
            let code = InviteCode::new(n);
            let new = NewInvite { code, max_age_s: 3_600, max_uses: 0, temporary: true, is_unique: true };
            walk.run(Actor::User(OWNER), Command::CreateInvite(channel, Box::new(new)));
            (Actor::System, Command::AcceptInvite(code, user(user_id)))
        }
        7 => {
            let new = NewWebhook { id: None, name: "hook".to_owned(), avatar: None, token: format!("{n}") };
            (Actor::System, Command::CreateWebhook(channel, Box::new(new)))
        }
        8 if message.is_some() => {
            (Actor::System, message.map(|(channel, id)| Command::Pin(channel, id)).expect("it is"))
        }
        9 if message.is_some() => {
            (Actor::System, message.map(|(channel, id)| Command::Unpin(channel, id)).expect("it is"))
        }
        10 => return walk.relay(ToGuild::WatchMembers { relay, added: vec![user_id], removed: vec![BOB] }),
        11 => {
            let all = walk.rng.chance(0.5);
            return walk.relay(ToGuild::WantPresences { relay, all });
        }
        12 => {
            let rows = Interval::from_ranges([[0, 99]]);
            let (added, removed) = if walk.rng.chance(0.7) { (rows, Vec::new()) } else { (Vec::new(), rows) };
            let list = ListId::Everyone;
            return walk.relay(ToGuild::WatchList { relay, list, channel_id: channel, added, removed });
        }
        13 => (Actor::System, Command::Backend(Box::new(publish(n % 5)))),
        14 => (by, Command::CreateMessage(thread.unwrap_or(channel), Box::new(text_message("in it")))),
        _ => return,
    };
    walk.run(actor, command);
}

fn steps(walk: &mut Walk, count: usize) {
    for _ in 0..count {
        walk.step();
        also(walk);
    }
}

#[test]
fn n1_a_standby_becomes_the_guild_that_it_followed() {
    let mut compared_bytes = 0;
    for seed in 0..60 {
        let mut walk = Walk::new(seed);
        steps(&mut walk, STEPS);
        let mut handoff = Handoff::begin(&mut walk.world.guild);
        let during = walk.rng.below(20) as usize;
        steps(&mut walk, during);
        handoff.build(walk.world.now, &walk.limits);
        while handoff.place != HandoffPlace::End {
            let now = walk.world.now;
            handoff.next_slice(&mut walk.world.guild, now);
            let between = walk.rng.below(4) as usize;
            steps(&mut walk, between);
        }
        steps(&mut walk, STEPS);
        walk.run_until_idle();
        let now = walk.world.now;
        walk.world.guild.end_lists(now);
        walk.world.drain();
        let mut standby = handoff.end(&mut walk.world.guild, now);
        let (expected, found) = (state(&mut walk.world.guild, now), state(&mut standby, now));
        compared_bytes += expected.iter().map(String::len).sum::<usize>();
        assert_eq!(expected.len(), found.len(), "seed {seed}");
        for (expected, found) in expected.iter().zip(&found) {
            assert_eq!(expected, found, "seed {seed}");
        }
        // The walk and its relays go on with it, and the walk compares its writes with the store.
        walk.world.guild = standby;
        steps(&mut walk, STEPS);
        walk.run_until_idle();
    }
    assert!(compared_bytes > 1_000_000, "there is something to compare: {compared_bytes}");
}

#[test]
fn n1_texts_for_rules_of_spam_move_and_actions_of_rules_are_taken_before() {
    let mut world = World::populated();
    let channel = world.text_channel();
    let spam = AutoModPatch {
        name: Some("spam".to_owned()),
        trigger: Some(AutoModTrigger::Spam),
        actions: Some(vec![AutoModAction::BlockMessage { custom_message: None }]),
        enabled: Some(true),
        ..AutoModPatch::default()
    };
    world.by(OWNER, Command::CreateAutoModRule(Box::new(spam))).expect("she may");
    for _ in 0..3 {
        world.say(ANA, channel, "the same text again");
    }
    let mut handoff = Handoff::begin(&mut world.guild);
    handoff.build(world.now, &GuildLimits::default());
    while handoff.place != HandoffPlace::End {
        handoff.next_slice(&mut world.guild, world.now);
    }
    world.pass_ms(1_000);
    world.guild = handoff.end(&mut world.guild, world.now);
    let again = world.try_say(ANA, channel, text_message("The same  text again"));
    assert_eq!(again.expect_err("it is the fourth"), Refusal::Blocked);
    assert!(!world.guild.is_settled(), "the audit log has yet to name it");
    world.timer();
    assert!(world.guild.is_settled());
}

#[test]
fn a_handoff_fails_when_the_guild_is_deleted_or_stays() {
    let mut world = World::populated();
    assert!(world.guild.take_handoff().is_none(), "none is under way");
    drop(world.guild.begin_handoff());
    assert!(world.guild.take_handoff().is_some_and(|items| items.is_empty()));
    world.guild.stop_handoff();
    assert!(world.guild.take_handoff().is_none());
    drop(world.guild.begin_handoff());
    world.system(Command::DeleteGuild);
    assert!(world.guild.take_handoff().is_none());
}
