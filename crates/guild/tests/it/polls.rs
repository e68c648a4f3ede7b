//! Polls: votes, and their end.

use crate::fixture::*;
use guildhall_guild::{Command, Guild, GuildLimits, MessagePatch, NewMessage, NewPoll, Refusal, Reply};
use guildhall_guild_protocol::{AudienceRule, Payload, ResourcePayload, ToGuild};
use guildhall_model::{
    ChannelId, EventName, GuildResource, Message, MessageId, Permissions, PollAnswer, ReactionEmoji, UserId,
};

const HOUR_MS: u64 = 3_600_000;

fn answer(text: &str) -> PollAnswer {
    PollAnswer { id: 0, text: Some(text.to_owned()), emoji: None }
}

fn poll(allow_multiselect: bool) -> NewMessage {
    let answers = ["red", "green", "blue"].map(answer).into();
    let poll = NewPoll { question: "colour?".to_owned(), answers, duration_h: 1, allow_multiselect };
    NewMessage { poll: Some(Box::new(poll)), ..NewMessage::default() }
}

struct Scene {
    world: World,
    key: (ChannelId, MessageId),
}

impl Scene {
    /// A poll by `ANA`.
    fn new(allow_multiselect: bool) -> Self {
        let mut world = World::populated();
        let channel = world.text_channel();
        let sent = world.try_say(ANA, channel, poll(allow_multiselect)).expect("she may");
        world.sent.clear();
        Self { world, key: (channel, sent.message.id) }
    }

    fn vote(&mut self, user_id: UserId, answers: &[u8]) -> Result<Reply, Refusal> {
        self.world.by(user_id, Command::Vote(self.key.0, self.key.1, answers.to_vec()))
    }

    fn end(&mut self, by: UserId) -> Result<Reply, Refusal> {
        self.world.by(by, Command::EndPoll(self.key.0, self.key.1))
    }

    /// Names, users and answers of the events about votes since the last call.
    fn votes(&mut self) -> Vec<(EventName, UserId, u8)> {
        let events = self.world.events();
        self.world.sent.clear();
        let vote = |published: &std::sync::Arc<guildhall_guild_protocol::Published>| {
            assert_eq!(published.event.audience.rule, AudienceRule::Channel(self.key.0));
            let Payload::Resource(resource) = &published.event.payload else { panic!("{published:?}") };
            let ResourcePayload::PollVote { user_id, answer_id, .. } = **resource else { panic!("{resource:?}") };
            (published.event.name, user_id, answer_id)
        };
        events.iter().map(vote).collect()
    }

    fn stored(&self) -> Message {
        Message::clone(&self.world.store.message(self.key.0, self.key.1).expect("it is stored").message)
    }

    fn open_polls(&self) -> usize {
        self.world.store.resources.values().filter(|of| matches!(of, GuildResource::OpenPoll(_))).count()
    }
}

#[test]
fn p1_an_event_for_each_vote_that_came_or_went() {
    use EventName::{MessagePollVoteAdd as Add, MessagePollVoteRemove as Remove};
    let mut scene = Scene::new(false);
    scene.vote(BOB, &[1]).expect("he may");
    assert_eq!(scene.votes(), [(Add, BOB, 1)]);
    scene.vote(BOB, &[1]).expect("he has");
    assert_eq!(scene.votes(), []);
    scene.vote(BOB, &[3]).expect("he may change it");
    assert_eq!(scene.votes(), [(Remove, BOB, 1), (Add, BOB, 3)]);
    scene.vote(BOB, &[]).expect("he may withdraw it");
    assert_eq!(scene.votes(), [(Remove, BOB, 3)]);
    for answers in [&[1, 2][..], &[4], &[0]] {
        assert_eq!(scene.vote(BOB, answers).unwrap_err(), Refusal::InvalidForm("answer_ids"), "{answers:?}");
    }
    let mut scene = Scene::new(true);
    scene.vote(EVE, &[3, 1, 3]).expect("several may be chosen");
    assert_eq!(scene.votes(), [(Add, EVE, 1), (Add, EVE, 3)]);
}

#[test]
fn p1_no_vote_after_the_end() {
    let mut scene = Scene::new(false);
    scene.world.pass_ms(HOUR_MS);
    assert_eq!(scene.vote(BOB, &[1]).unwrap_err(), Refusal::PollExpired, "before a timer noticed");
    let plain = scene.world.say(ANA, scene.key.0, "no poll");
    let vote = Command::Vote(scene.key.0, plain, vec![1]);
    assert_eq!(scene.world.by(BOB, vote).unwrap_err(), Refusal::NoPoll);
}

#[test]
fn p2_the_author_ends_it_with_its_counts() {
    let mut scene = Scene::new(true);
    scene.vote(BOB, &[1, 2]).expect("he may");
    scene.vote(EVE, &[2]).expect("she may");
    scene.world.sent.clear();
    assert_eq!(scene.end(BOB).unwrap_err(), Refusal::NotTheAuthor);
    let Ok(Reply::Message(reply)) = scene.end(ANA) else { panic!() };
    let poll = reply.message.poll.clone().expect("it has one");
    assert_eq!((poll.results.as_deref(), poll.expires_at), (Some(&[1, 2, 0][..]), scene.world.now.unix));
    assert_eq!(scene.stored().poll, Some(poll));
    let events = scene.world.events();
    let names: Vec<_> = events.iter().map(|published| published.event.name).collect();
    assert_eq!(names, [EventName::MessageUpdate, EventName::MessageCreate]);
    let Payload::Message(result) = &events[1].event.payload else { panic!() };
    assert_eq!((result.message.kind, result.message.author.id), (Message::KIND_POLL_RESULT, ANA));
    assert_eq!(result.message.message_reference.map(|of| of.message_id), Some(scene.key.1));
    let fields = result.message.embeds[0]["fields"].as_array().unwrap();
    let field = |name: &str| fields.iter().find(|field| field["name"] == name).map(|field| field["value"].clone());
    assert_eq!(field("total_votes"), Some("3".into()));
    assert_eq!((field("victor_answer_id"), field("victor_answer_votes")), (Some("2".into()), Some("2".into())));
    assert_eq!(scene.end(ANA).unwrap_err(), Refusal::PollExpired);
    assert_eq!(scene.vote(BOB, &[]).unwrap_err(), Refusal::PollExpired);
}

#[test]
fn p2_a_timer_ends_it_even_after_a_restart() {
    let mut scene = Scene::new(false);
    scene.vote(BOB, &[2]).expect("he may");
    let limits = GuildLimits { cached_messages_max: 1, ..GuildLimits::default() };
    scene.world.guild = Guild::load(scene.world.store.record(), limits, 3);
    scene.world.relay(ToGuild::Subscribe { relay: P0, epoch: 2 });
    scene.world.timer();
    scene.world.pass_ms(HOUR_MS - 1);
    scene.world.timer();
    assert_eq!((scene.stored().poll.unwrap().results, scene.world.loads), (None, 0));
    scene.world.sent.clear();
    scene.world.pass_ms(1);
    scene.world.timer();
    assert_eq!(scene.world.loads, 1, "its message is not in memory");
    scene.world.rest();
    assert_eq!(scene.stored().poll.unwrap().results, Some(vec![0, 1, 0]));
    let names: Vec<_> = scene.world.events().iter().map(|published| published.event.name).collect();
    assert_eq!(names, [EventName::MessageUpdate, EventName::MessageCreate]);
    assert_eq!(scene.open_polls(), 0);
}

#[test]
fn p3_a_poll_is_open_while_its_message_exists() {
    let mut scene = Scene::new(false);
    assert_eq!(scene.open_polls(), 1);
    scene.world.by(ANA, Command::DeleteMessage(scene.key.0, scene.key.1)).expect("she may");
    assert_eq!(scene.open_polls(), 0);
    let again = scene.world.try_say(ANA, scene.key.0, poll(false)).expect("she may").message.id;
    scene.world.system(Command::DeleteMessages(scene.key.0, vec![again]));
    assert_eq!(scene.open_polls(), 0);
    scene.world.try_say(ANA, scene.key.0, poll(false)).expect("she may");
    scene.world.system(Command::DeleteChannel(scene.key.0));
    assert_eq!(scene.open_polls(), 0);
    scene.world.pass_ms(HOUR_MS);
    scene.world.timer();
    assert_eq!(scene.world.guild.next_deadline().filter(|at| *at <= scene.world.now.instant), None);
}

#[test]
fn a_poll_needs_its_permission_and_room() {
    let limits = GuildLimits { polls_max: 1, ..GuildLimits::default() };
    let mut world = World::with_limits(limits);
    world.join(ANA);
    let channel = world.text_channel();
    world.everyone(Permissions(Permissions::DEFAULT_EVERYONE.0 & !Permissions::SEND_POLLS.0));
    assert_eq!(world.try_say(ANA, channel, poll(false)).unwrap_err(), Refusal::MissingPermissions);
    world.everyone(Permissions::DEFAULT_EVERYONE);
    let mut foreign = poll(false);
    foreign.poll.as_mut().unwrap().answers[0].emoji =
        Some(ReactionEmoji { id: Some(guildhall_model::EmojiId::new(5_000)), name: "x".to_owned() });
    assert_eq!(world.try_say(ANA, channel, foreign).unwrap_err(), Refusal::PollEmoji);
    world.try_say(ANA, channel, poll(false)).expect("there is room");
    assert_eq!(world.try_say(ANA, channel, poll(false)).unwrap_err(), Refusal::TooManyPolls);
}

#[test]
fn votes_are_no_reactions() {
    let mut scene = Scene::new(false);
    let fire = ReactionEmoji { id: None, name: "fire".to_owned() };
    let (channel, message) = scene.key;
    scene.vote(BOB, &[1]).expect("he may");
    scene.world.by(BOB, Command::AddReaction(channel, message, fire)).expect("he may");
    let vote = ReactionEmoji::of_answer(2);
    let refused = scene.world.by(EVE, Command::AddReaction(channel, message, vote.clone()));
    assert_eq!(refused.unwrap_err(), Refusal::UnknownEmoji);
    scene.world.system(Command::ClearReactions(channel, message, None));
    let left = scene.world.store.message(channel, message).unwrap().reactions;
    assert_eq!(left, [(ReactionEmoji::of_answer(1), vec![BOB])]);
    // With an account its votes are erased.
    scene.world.sent.clear();
    scene.world.system(Command::RemoveReaction(channel, message, ReactionEmoji::of_answer(1), BOB));
    assert_eq!(scene.votes(), [(EventName::MessagePollVoteRemove, BOB, 1)]);
    let patch = MessagePatch { content: Some("other".to_owned()), ..MessagePatch::default() };
    let edit = Command::EditMessage(channel, message, Box::new(patch));
    assert_eq!(scene.world.by(ANA, edit).unwrap_err(), Refusal::PollMessage);
}
