//! Announcements: published messages, and channels that follow.

use crate::fixture::*;
use guildhall_guild::{Command, Forward, GuildLimits, NewFollow, Refusal, Reply, WebhookAccess, WebhookPost};
use guildhall_model::{
    ChannelId, ChannelType, EventName, Follower, GuildId, Message, MessageId, Permissions, WebhookId, WebhookSource,
};

const FOREIGN: ChannelId = ChannelId::new(900);
const WEBHOOK: WebhookId = WebhookId::new(901);

fn follower(webhook: u64) -> Follower {
    Follower { channel_id: ChannelId::new(0), webhook_id: WebhookId::new(webhook), guild_id: GuildId::new(5) }
}

fn news(world: &mut World) -> ChannelId {
    world.channel(new_channel("news", ChannelType::Announcement))
}

fn followers(world: &mut World, channel: ChannelId) -> Vec<u64> {
    match world.system(Command::ListFollowers(channel)) {
        Reply::Followers(followers) => followers.iter().map(|of| of.webhook_id.get()).collect(),
        other => panic!("{other:?}"),
    }
}

fn follow(world: &mut World, channel: ChannelId) -> Result<Reply, Refusal> {
    let source = WebhookSource {
        guild_id: GuildId::new(5),
        guild_name: "elsewhere".to_owned(),
        guild_icon: None,
        channel_id: FOREIGN,
        channel_name: "news".to_owned(),
    };
    world.by(ANA, Command::Follow(channel, Box::new(NewFollow { id: WEBHOOK, source: Box::new(source) })))
}

fn copy(channel_id: ChannelId) -> Box<Forward> {
    let author = user(BOB);
    let original = Message {
        content: "hear <@100>".to_owned(),
        flags: Message::CROSSPOSTED,
        ..Message::new(MessageId::new(7_000), channel_id, GuildId::new(5), author)
    };
    let snapshot = Some((&original).into());
    Box::new(Forward { channel_id, message_id: original.id, guild_id: Some(GuildId::new(5)), snapshot })
}

#[test]
fn n1_a_message_is_published_once() {
    let mut world = World::populated();
    let (news, general) = (news(&mut world), world.text_channel());
    let (mine, plain) = (world.say(ANA, news, "hear"), world.say(ANA, general, "x"));
    world.sent.clear();
    assert_eq!(world.by(BOB, Command::Crosspost(news, mine)).unwrap_err(), Refusal::MissingPermissions);
    assert_eq!(world.by(ANA, Command::Crosspost(general, plain)).unwrap_err(), Refusal::WrongChannelType);
    world.by(ANA, Command::Crosspost(news, mine)).expect("it is hers");
    world.only_event(EventName::MessageUpdate);
    let stored = world.store.message(news, mine).unwrap().message;
    assert_eq!((stored.flags, stored.edited_timestamp), (Message::CROSSPOSTED, None));
    assert_eq!(world.by(ANA, Command::Crosspost(news, mine)).unwrap_err(), Refusal::CrosspostedBefore);
    let other = world.say(ANA, news, "hear");
    world.grant(BOB, Permissions::MANAGE_MESSAGES, 1);
    world.by(BOB, Command::Crosspost(news, other)).expect("he moderates");
}

#[test]
fn followers_are_kept_and_bounded() {
    let limits = GuildLimits { followers_per_channel_max: 2, ..GuildLimits::default() };
    let mut world = World::with_limits(limits);
    world.join(ANA);
    let (news, general) = (news(&mut world), world.text_channel());
    let add = |webhook| Command::AddFollower(news, follower(webhook));
    assert_eq!(world.by(EVE, add(1)).unwrap_err(), Refusal::MissingAccess, "no member");
    let wrong = world.by(ANA, Command::AddFollower(general, follower(1))).unwrap_err();
    assert_eq!(wrong, Refusal::WrongChannelType);
    world.by(ANA, add(1)).expect("she views it");
    world.by(ANA, add(2)).expect("she views it");
    assert_eq!(world.by(ANA, add(3)).unwrap_err(), Refusal::TooManyFollowers);
    assert_eq!(followers(&mut world, news), [1, 2]);
    assert_eq!(world.by(ANA, Command::ListFollowers(news)).unwrap_err(), Refusal::MissingPermissions);
    let loaded = guildhall_guild::Guild::load(world.store.record(), GuildLimits::default(), 3);
    world.begin_again(loaded);
    assert_eq!(followers(&mut world, news), [1, 2]);
    world.system(Command::RemoveFollower(news, WebhookId::new(1)));
    assert_eq!(followers(&mut world, news), [2]);
    world.system(Command::DeleteChannel(news));
    assert!(world.store.resources.is_empty(), "{:?}", world.store.resources);
}

#[test]
fn n2_only_the_followed_channel_is_delivered() {
    let mut world = World::populated();
    let channel = world.text_channel();
    assert_eq!(follow(&mut world, channel).unwrap_err(), Refusal::MissingPermissions);
    world.grant(ANA, Permissions::MANAGE_WEBHOOKS, 1);
    world.sent.clear();
    follow(&mut world, channel).expect("she may");
    let names: Vec<_> = world.events().iter().map(|published| published.event.name).collect();
    assert_eq!(names, [EventName::WebhooksUpdate, EventName::MessageCreate]);
    world.sent.clear();
    let deliver = |of| Command::DeliverCrosspost(WEBHOOK, copy(of));
    assert_eq!(world.by(ANA, deliver(FOREIGN)).unwrap_err(), Refusal::MissingPermissions);
    let Reply::Message(reply) = world.system(deliver(FOREIGN)) else { panic!() };
    let Message { content, flags, webhook_id, mentions, author, .. } = &*reply.message;
    assert_eq!((content.as_str(), *flags, *webhook_id), ("hear <@100>", Message::IS_CROSSPOST, Some(WEBHOOK)));
    assert!(mentions.is_empty() && author.username == "elsewhere #news");
    assert_eq!(reply.message.message_reference.unwrap().channel_id, FOREIGN);
    let wrong = world.command(guildhall_guild::Actor::System, deliver(ChannelId::new(899)));
    assert_eq!(wrong.unwrap_err(), Refusal::UnknownWebhook);
    // It has no token.
    let post = WebhookPost { message: text("x"), ..WebhookPost::default() };
    let execute = Command::ExecuteWebhook(WEBHOOK, WebhookAccess::Token(String::new()), Box::new(post));
    assert_eq!(world.command(guildhall_guild::Actor::System, execute).unwrap_err(), Refusal::InvalidWebhookToken);
}
