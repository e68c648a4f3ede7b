//! Reactions: emoji on messages.

use crate::fixture::*;
use guildhall_guild::{Actor, Command, GuildLimits, ReactionCount, Refusal, Reply};
use guildhall_guild_protocol::{AudienceRule, Payload};
use guildhall_model::{ChannelId, Emoji, EmojiId, EventName, MessageId, Permissions, ReactionEmoji, UserId};

fn unicode(name: &str) -> ReactionEmoji {
    ReactionEmoji { id: None, name: name.to_owned() }
}

fn custom(id: u64, name: &str) -> ReactionEmoji {
    ReactionEmoji { id: Some(EmojiId::new(id)), name: name.to_owned() }
}

fn reactions(world: &mut World, actor: Actor, key: (ChannelId, MessageId)) -> Vec<ReactionCount> {
    match world.command(actor, Command::EditMessage(key.0, key.1, Box::default())) {
        Ok(Reply::Message(reply)) => reply.reactions,
        other => panic!("{other:?}"),
    }
}

struct Scene {
    world: World,
    key: (ChannelId, MessageId),
}

impl Scene {
    /// A message by `ANA` in a guild with the emoji `party:500`.
    fn new() -> Self {
        let mut world = World::populated();
        let mut record = world.store.record();
        record.guild.emojis = vec![Emoji {
            id: EmojiId::new(500),
            name: "party".to_owned(),
            animated: false,
            roles: Vec::new(),
            user: None,
        }];
        world.guild = guildhall_guild::Guild::load(record, GuildLimits { reactions_max: 3, ..Default::default() }, 3);
        world.relay(guildhall_guild_protocol::ToGuild::Subscribe { relay: P0, epoch: 2 });
        let channel = world.text_channel();
        let id = world.say(ANA, channel, "x");
        world.sent.clear();
        Self { world, key: (channel, id) }
    }

    fn add(&mut self, user_id: UserId, emoji: &ReactionEmoji) -> Result<Reply, Refusal> {
        self.world.by(user_id, Command::AddReaction(self.key.0, self.key.1, emoji.clone()))
    }

    fn remove(&mut self, by: UserId, emoji: &ReactionEmoji, whose: UserId) -> Result<Reply, Refusal> {
        self.world.by(by, Command::RemoveReaction(self.key.0, self.key.1, emoji.clone(), whose))
    }

    fn check(&mut self, expected: &[(&str, &[UserId])]) {
        let got = reactions(&mut self.world, Actor::System, self.key);
        let got: Vec<(&str, u64, bool)> = got.iter().map(|of| (&*of.emoji.name, of.count, of.me)).collect();
        let counts = expected.iter().map(|(name, users)| (*name, users.len() as u64, false));
        assert_eq!(got, counts.collect::<Vec<_>>());
        let stored = self.world.store.message(self.key.0, self.key.1).expect("it is stored").reactions;
        let stored: Vec<(&str, &[UserId])> = stored.iter().map(|(emoji, users)| (&*emoji.name, &users[..])).collect();
        assert_eq!(stored, expected);
    }
}

#[test]
fn counts_and_me_are_those_of_the_actor() {
    let mut scene = Scene::new();
    scene.add(BOB, &unicode("🔥")).expect("he may");
    scene.add(BOB, &unicode("👍")).expect("he may");
    scene.add(ANA, &unicode("👍")).expect("she may");
    let counted = |name, count, me| ReactionCount { emoji: unicode(name), count, me };
    let got = reactions(&mut scene.world, Actor::User(ANA), scene.key);
    assert_eq!(got, [counted("🔥", 1, false), counted("👍", 2, true)]);
}

#[test]
fn c1_an_event_for_each_that_came_or_went() {
    let mut scene = Scene::new();
    let fire = unicode("🔥");
    scene.add(BOB, &fire).expect("he may");
    let published = scene.world.only_event(EventName::MessageReactionAdd);
    assert_eq!(rule(&published), AudienceRule::Channel(scene.key.0));
    let Payload::Reaction(event) = &published.event.payload else { panic!() };
    assert_eq!((event.user_id, event.author_id, event.message_id, &event.emoji), (BOB, ANA, scene.key.1, &fire));
    assert_eq!(event.member.as_ref().map(|member| member.user.id), Some(BOB));
    scene.add(BOB, &fire).expect("he may");
    assert!(scene.world.events().is_empty(), "it was there");
    scene.add(ANA, &fire).expect("she may");
    scene.add(ANA, &unicode("👍")).expect("she may");
    scene.check(&[("🔥", &[BOB, ANA]), ("👍", &[ANA])]);
    scene.world.sent.clear();

    scene.remove(BOB, &fire, BOB).expect("he may");
    let published = scene.world.only_event(EventName::MessageReactionRemove);
    let Payload::Reaction(event) = &published.event.payload else { panic!() };
    assert!(event.user_id == BOB && event.member.is_none());
    scene.remove(BOB, &fire, BOB).expect("it was gone already");
    scene.remove(BOB, &unicode("👀"), BOB).expect("it was never there");
    assert!(scene.world.events().is_empty());
    scene.check(&[("🔥", &[ANA]), ("👍", &[ANA])]);
    scene.remove(ANA, &fire, ANA).expect("she may");
    scene.check(&[("👍", &[ANA])]);
}

#[test]
fn moderators_clear() {
    let mut scene = Scene::new();
    let (fire, up) = (unicode("🔥"), unicode("👍"));
    for user_id in [ANA, BOB] {
        scene.add(user_id, &fire).expect("they may");
        scene.add(user_id, &up).expect("they may");
    }
    let (channel, id) = scene.key;
    let all = Command::ClearReactions(channel, id, None);
    assert_eq!(scene.remove(EVE, &fire, BOB).unwrap_err(), Refusal::MissingPermissions);
    assert_eq!(scene.world.by(ANA, all.clone()).unwrap_err(), Refusal::MissingPermissions, "nor the author");
    scene.world.grant(EVE, Permissions::MANAGE_MESSAGES, 1);
    scene.world.sent.clear();
    scene.remove(EVE, &fire, BOB).expect("she may");
    scene.world.only_event(EventName::MessageReactionRemove);
    scene.world.by(EVE, Command::ClearReactions(channel, id, Some(fire.clone()))).expect("she may");
    let published = scene.world.only_event(EventName::MessageReactionRemoveEmoji);
    assert!(matches!(&published.event.payload, Payload::ReactionsCleared { emoji: Some(emoji), .. } if *emoji == fire));
    scene.check(&[("👍", &[ANA, BOB])]);
    scene.world.by(EVE, Command::ClearReactions(channel, id, Some(fire))).expect("there is none");
    assert!(scene.world.events().is_empty());
    scene.world.by(EVE, all.clone()).expect("she may");
    let published = scene.world.only_event(EventName::MessageReactionRemoveAll);
    assert!(matches!(&published.event.payload, Payload::ReactionsCleared { emoji: None, .. }));
    scene.check(&[]);
    scene.world.by(EVE, all).expect("there is none");
    assert!(scene.world.events().is_empty());
}

#[test]
fn permissions_and_limits_of_reactions() {
    let mut scene = Scene::new();
    let (channel, id) = scene.key;
    for name in ["1️⃣", "2️⃣", "3️⃣"] {
        scene.add(ANA, &unicode(name)).expect("there is room");
    }
    assert_eq!(scene.add(ANA, &unicode("4️⃣")).unwrap_err(), Refusal::TooManyReactions);
    scene.add(BOB, &unicode("3️⃣")).expect("no further emoji");
    // Without ADD_REACTIONS one can join in, not begin.
    scene.remove(ANA, &unicode("1️⃣"), ANA).expect("she may");
    scene.world.system(Command::PutOverwrite(channel, deny_everyone(Permissions::ADD_REACTIONS)));
    scene.add(EVE, &unicode("2️⃣")).expect("it is there");
    assert_eq!(scene.add(EVE, &unicode("5️⃣")).unwrap_err(), Refusal::MissingPermissions);
    scene.world.system(Command::PutOverwrite(channel, deny_everyone(Permissions::READ_MESSAGE_HISTORY)));
    assert_eq!(scene.add(EVE, &unicode("3️⃣")).unwrap_err(), Refusal::MissingPermissions);
    scene.world.system(Command::PutOverwrite(channel, deny_everyone(Permissions::VIEW_CHANNEL)));
    assert_eq!(scene.add(EVE, &unicode("2️⃣")).unwrap_err(), Refusal::MissingAccess);
    let missing = Command::AddReaction(channel, MessageId::new(3), unicode("x"));
    assert_eq!(scene.world.by(OWNER, missing).unwrap_err(), Refusal::UnknownMessage);
    scene.world.system(Command::ClearReactions(channel, id, None));
    let by_system = Command::AddReaction(channel, id, unicode("x"));
    assert_eq!(scene.world.command(guildhall_guild::Actor::System, by_system).unwrap_err(), Refusal::UnknownUser);
}

#[test]
fn c2_custom_emoji_go_by_their_id() {
    let mut scene = Scene::new();
    assert_eq!(scene.add(ANA, &custom(501, "party")).unwrap_err(), Refusal::UnknownEmoji);
    scene.add(ANA, &custom(500, "other_name")).expect("it is the guild's");
    scene.add(BOB, &custom(500, "party")).expect("it is the guild's");
    scene.add(EVE, &unicode("party")).expect("that is another");
    scene.check(&[("party", &[ANA, BOB]), ("party", &[EVE])]);
    scene.remove(BOB, &custom(500, "whatever"), BOB).expect("he may");
    scene.check(&[("party", &[ANA]), ("party", &[EVE])]);
}
