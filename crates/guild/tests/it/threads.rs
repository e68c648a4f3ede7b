//! Threads: starter messages, counters, archiving by time, and members by mentions.

use crate::fixture::*;
use guildhall_guild::{
    Actor, AllowedMentions, ChannelPatch, Command, Guild, GuildLimits, MessagePatch, NewMessage, NewThread, NewWebhook,
    Outcome, Refusal, Reply, WebhookAccess, WebhookPost,
};
use guildhall_guild_protocol::{Payload, Published, ResourcePayload, ThreadEntry};
use guildhall_model::{Channel, ChannelId, ChannelType, EventName, Message, MessageId, Permissions, UserId};

const HOUR_MS: u64 = 3_600_000;

fn begin(world: &mut World, parent: ChannelId, from: Option<MessageId>) -> ChannelId {
    let new = NewThread {
        name: "a thread".to_owned(),
        from,
        kind: Some(ChannelType::PublicThread),
        auto_archive_duration: Some(60),
        ..NewThread::default()
    };
    match world.by(OWNER, Command::CreateThread(parent, Box::new(new))) {
        Ok(Reply::Thread(thread)) => thread.0.channel.id,
        other => panic!("{other:?}"),
    }
}

fn as_it_is(world: &mut World, thread: ChannelId) -> ThreadEntry {
    match world.by(OWNER, Command::ReadChannel(thread)) {
        Ok(Reply::Thread(thread)) => thread.0,
        other => panic!("{other:?}"),
    }
}

fn counts(world: &mut World, thread: ChannelId) -> (u32, u32) {
    let entry = as_it_is(world, thread);
    let fields = entry.channel.thread.as_ref().unwrap();
    (fields.message_count, fields.total_message_sent)
}

fn is_archived(channel: &Channel) -> bool {
    channel.thread.as_ref().is_some_and(|thread| thread.archived)
}

/// Threads that were archived since the last call.
fn closed(world: &mut World) -> Vec<ChannelId> {
    let of = |published: &std::sync::Arc<Published>| match &published.event.payload {
        Payload::Resource(resource) if published.event.name == EventName::ThreadUpdate => match &**resource {
            ResourcePayload::Thread(event) if is_archived(&event.entry.channel) => Some(event.entry.channel.id),
            _ => None,
        },
        _ => None,
    };
    world.events().iter().filter_map(of).collect()
}

/// Runs the timers that are due now.
fn run_due(world: &mut World) {
    while world.guild.next_deadline().is_some_and(|at| at <= world.now.instant) {
        let now = world.now;
        world.guild.handle_timer(now);
        world.drain();
    }
}

fn messages_created(world: &mut World) -> Vec<Message> {
    let events = world.events();
    let created = events.iter().filter(|published| published.event.name == EventName::MessageCreate);
    created.map(|published| message_of(published).clone()).collect()
}

#[test]
fn one_begun_from_a_message_begins_with_it() {
    let mut world = World::populated();
    let parent = world.text_channel();
    let message = world.say(ANA, parent, "look");
    world.sent.clear();
    let thread = begin(&mut world, parent, Some(message));
    let [starter] = &messages_created(&mut world)[..] else { panic!("one message") };
    assert_eq!((starter.kind, starter.channel_id, starter.author.id), (21, thread, ANA));
    assert_eq!(starter.answers(), Some((parent, message)));
    assert_eq!(counts(&mut world, thread), (0, 0), "the starter message does not count");
}

#[test]
fn one_begun_from_nothing_is_announced_in_the_channel() {
    let mut world = World::populated();
    let parent = world.text_channel();
    world.sent.clear();
    let thread = begin(&mut world, parent, None);
    let [note] = &messages_created(&mut world)[..] else { panic!("one message") };
    assert_eq!((note.kind, note.channel_id, note.content.as_str()), (18, parent, "a thread"));
    let reference = note.message_reference.unwrap();
    assert_eq!((reference.channel_id, reference.message_id.get()), (thread, 0));
    // A private thread publishes no notice.
    let new = NewThread { name: "secret".to_owned(), kind: Some(ChannelType::PrivateThread), ..NewThread::default() };
    world.by(OWNER, Command::CreateThread(parent, Box::new(new))).unwrap();
    assert!(messages_created(&mut world).is_empty());
}

#[test]
fn messages_that_are_deleted_count_no_more_but_were_sent() {
    let mut world = World::populated();
    let parent = world.text_channel();
    let message = world.say(ANA, parent, "look");
    let thread = begin(&mut world, parent, Some(message));
    let ids: Vec<MessageId> = (0..5).map(|n| world.say(ANA, thread, &n.to_string())).collect();
    assert_eq!(counts(&mut world, thread), (5, 5));
    world.by(ANA, Command::DeleteMessage(thread, ids[0])).unwrap();
    assert_eq!(counts(&mut world, thread), (4, 5));
    world.by(OWNER, Command::DeleteMessages(thread, vec![ids[1], ids[2]])).unwrap();
    assert_eq!(counts(&mut world, thread), (2, 5));
    let mut loaded = Guild::load(world.store.record(), GuildLimits::default(), 1);
    let read = Command::ReadChannel(thread);
    let Outcome::Reply(Ok(Reply::Thread(entry))) = loaded.handle_command(world.now, Actor::System, &read) else {
        panic!("it is there")
    };
    assert_eq!(entry.0.channel, as_it_is(&mut world, thread).channel);
}

#[test]
fn a1_threads_are_archived_after_their_inactivity_and_not_before() {
    let mut world = World::populated();
    let parent = world.text_channel();
    let (quiet, busy) = (begin(&mut world, parent, None), begin(&mut world, parent, None));
    world.sent.clear();
    world.pass_ms(HOUR_MS - 1);
    world.say(ANA, busy, "still here");
    run_due(&mut world);
    assert_eq!(closed(&mut world), []);
    world.pass_ms(1);
    run_due(&mut world);
    assert_eq!(closed(&mut world), [quiet]);
    assert!(is_archived(&as_it_is(&mut world, quiet).channel));
    world.pass_ms(HOUR_MS);
    run_due(&mut world);
    assert_eq!(closed(&mut world), [busy]);
    // Opened, it has its time again; with more of it, it stays longer.
    let open = ChannelPatch { archived: Some(false), ..ChannelPatch::default() };
    world.by(OWNER, Command::UpdateChannel(quiet, Box::new(open))).unwrap();
    let longer = ChannelPatch { auto_archive_duration: Some(1_440), ..ChannelPatch::default() };
    world.by(OWNER, Command::UpdateChannel(quiet, Box::new(longer))).unwrap();
    world.pass_ms(24 * HOUR_MS - 1);
    run_due(&mut world);
    assert_eq!(closed(&mut world), []);
    // A thread whose archive time passed while the guild was unloaded is archived after the load.
    let mut loaded = Guild::load(world.store.record(), GuildLimits::default(), 1);
    assert!(loaded.next_deadline().is_some_and(|at| at <= world.now.instant), "the first timer looks");
    world.pass_ms(1);
    loaded.handle_timer(world.now);
    let read = Command::ReadChannel(quiet);
    let Outcome::Reply(Ok(Reply::Thread(entry))) = loaded.handle_command(world.now, Actor::System, &read) else {
        panic!("it is there")
    };
    assert!(is_archived(&entry.0.channel));
    assert!(loaded.next_deadline().is_none(), "there is no other");
}

#[test]
fn a1_many_at_once_are_closed_in_slices() {
    let mut world = World::populated();
    let parent = world.text_channel();
    let mut threads: Vec<ChannelId> = (0..150).map(|_| begin(&mut world, parent, None)).collect();
    world.sent.clear();
    world.pass_ms(HOUR_MS);
    let now = world.now;
    world.guild.handle_timer(now);
    world.drain();
    let first = closed(&mut world);
    assert!(first.len() < threads.len(), "not all in one input");
    let mut all = first;
    while world.guild.next_deadline().is_some() {
        world.pass_ms(10);
        run_due(&mut world);
        all.extend(closed(&mut world));
    }
    all.sort_unstable();
    threads.sort_unstable();
    assert_eq!(all, threads);
}

fn members(world: &mut World, thread: ChannelId) -> Vec<UserId> {
    as_it_is(world, thread).members.keys().copied().collect()
}

fn begin_by(world: &mut World, by: UserId, parent: ChannelId, kind: ChannelType, invitable: bool) -> ChannelId {
    let new = NewThread { name: "a thread".to_owned(), kind: Some(kind), invitable, ..NewThread::default() };
    match world.by(by, Command::CreateThread(parent, Box::new(new))) {
        Ok(Reply::Thread(thread)) => thread.0.channel.id,
        other => panic!("{other:?}"),
    }
}

#[test]
fn mentioned_users_join_the_thread_before_the_message_is_published() {
    for kind in [ChannelType::PublicThread, ChannelType::PrivateThread] {
        let mut world = World::populated();
        let parent = world.text_channel();
        let thread = begin_by(&mut world, ANA, parent, kind, true);
        world.sent.clear();
        world.say(ANA, thread, &format!("<@{BOB}> <@{BOB}> <@{NOBODY}> <@{ANA}> @everyone"));
        let names = world.event_names();
        assert_eq!(
            names,
            [EventName::ThreadMembersUpdate, EventName::ThreadCreate, EventName::MessageCreate],
            "{kind:?}"
        );
        assert_eq!(members(&mut world, thread), [ANA, BOB]);
        // A second mention adds no members and publishes no event.
        world.sent.clear();
        world.say(ANA, thread, &format!("<@{BOB}>"));
        assert_eq!(world.event_names(), [EventName::MessageCreate]);
        // A user who left joins again by a new mention, not by another edit.
        let mention = world.say(ANA, thread, &format!("<@{BOB}>"));
        world.by(BOB, Command::RemoveThreadMember(thread, BOB)).expect("he may leave");
        let edit = |content: String| {
            let patch = MessagePatch { content: Some(content), ..MessagePatch::default() };
            Command::EditMessage(thread, mention, Box::new(patch))
        };
        world.by(ANA, edit(format!("again <@{BOB}>"))).expect("she may");
        assert_eq!(members(&mut world, thread), [ANA]);
        world.by(ANA, edit(format!("<@{EVE}>"))).expect("she may");
        assert_eq!(members(&mut world, thread), [ANA, EVE]);
        world.by(ANA, edit(format!("<@{BOB}>"))).expect("she may");
        assert_eq!(members(&mut world, thread), [ANA, BOB, EVE]);
    }
}

#[test]
fn a_mention_brings_in_only_whom_its_author_may_add() {
    let mut world = World::populated();
    let parent = world.text_channel();
    let role = world.grant(EVE, Permissions::NONE, 1);
    let mentionable = guildhall_guild::RolePatch { mentionable: Some(true), ..Default::default() };
    world.system(Command::UpdateRole(role, Box::new(mentionable)));
    let open = begin_by(&mut world, ANA, parent, ChannelType::PublicThread, true);
    for content in [format!("<@&{role}>"), format!("`<@{EVE}>`"), "@everyone @here".to_owned()] {
        world.say(ANA, open, &content);
        assert_eq!(members(&mut world, open), [ANA], "{content}");
    }
    let none = NewMessage { allowed_mentions: Some(AllowedMentions::default()), ..text(&format!("<@{EVE}>")) };
    world.try_say(ANA, open, none).expect("she may");
    assert_eq!(members(&mut world, open), [ANA], "the message allows no mentions");
    // Users who cannot view the parent do not join.
    let hidden = world.text_channel();
    world.system(Command::PutOverwrite(hidden, deny_everyone(Permissions::VIEW_CHANNEL)));
    world.system(Command::PutOverwrite(hidden, allow_member(ANA, Permissions::VIEW_CHANNEL)));
    let secret = begin_by(&mut world, ANA, hidden, ChannelType::PublicThread, true);
    world.say(ANA, secret, &format!("<@{EVE}>"));
    assert_eq!(members(&mut world, secret), [ANA]);
    // In a private thread that is not invitable, only its owner and moderators add others.
    let closed = begin_by(&mut world, ANA, parent, ChannelType::PrivateThread, false);
    world.say(ANA, closed, &format!("<@{BOB}>"));
    world.say(BOB, closed, &format!("<@{EVE}>"));
    assert_eq!(members(&mut world, closed), [ANA, BOB]);
    world.grant(BOB, Permissions::MANAGE_THREADS, 2);
    world.say(BOB, closed, &format!("<@{EVE}>"));
    assert_eq!(members(&mut world, closed), [ANA, BOB, EVE]);
    // A full thread accepts the message and adds no members.
    let limits = GuildLimits { thread_members_max: 1, ..GuildLimits::default() };
    let mut world = World::with_limits(limits);
    [ANA, BOB].into_iter().for_each(|id| world.join(id));
    let parent = world.text_channel();
    let full = begin_by(&mut world, ANA, parent, ChannelType::PublicThread, true);
    world.say(ANA, full, &format!("<@{BOB}>"));
    assert_eq!(members(&mut world, full), [ANA]);
}

/// A news channel whose threads are open to all, and one whose threads are closed.
#[test]
fn rights_that_need_sending_follow_the_thread_and_not_its_parent() {
    let (send, in_threads) = (Permissions::SEND_MESSAGES, Permissions::SEND_MESSAGES_IN_THREADS);
    let mut world = World::populated();
    world.system(Command::UpdateRole(
        GUILD.cast(),
        Box::new(guildhall_guild::RolePatch {
            permissions: Some(Permissions::ALL.without(Permissions::ADMINISTRATOR | Permissions::MANAGE_THREADS)),
            ..Default::default()
        }),
    ));
    let embed = || NewMessage { embeds: vec![serde_json::json!({"title": "t"})], ..text("x @everyone") };
    for (denied, may_in_parent, may_in_thread) in [(send, false, true), (in_threads, true, false)] {
        let parent = world.text_channel();
        let thread = begin_by(&mut world, ANA, parent, ChannelType::PublicThread, true);
        let message_id = world.try_say(ANA, thread, text("x")).expect("she may").message.id;
        world.system(Command::PutOverwrite(parent, deny_everyone(denied)));
        for (channel, may) in [(parent, may_in_parent), (thread, may_in_thread)] {
            let posted = world.try_say(ANA, channel, embed());
            assert_eq!(posted.as_ref().is_ok_and(|reply| reply.message.mention_everyone), may, "{posted:?}");
        }
        let patch = MessagePatch { embeds: Some(embed().embeds), ..MessagePatch::default() };
        let edited = world.by(ANA, Command::EditMessage(thread, message_id, Box::new(patch)));
        assert_eq!(edited.is_ok(), may_in_thread, "{edited:?}");
    }
}

#[test]
fn the_first_message_of_a_post_needs_the_rights_of_its_content() {
    let mut world = World::populated();
    let forum = world.channel(new_channel("forum", ChannelType::Forum));
    world.system(Command::PutOverwrite(forum, deny_everyone(Permissions::EMBED_LINKS)));
    let post = |message: NewMessage| {
        let message = Some(Box::new(message));
        Command::CreateThread(forum, Box::new(NewThread { name: "p".to_owned(), message, ..NewThread::default() }))
    };
    let embed = NewMessage { embeds: vec![serde_json::json!({"title": "t"})], ..text("x") };
    assert_eq!(world.by(ANA, post(embed.clone())).unwrap_err(), Refusal::MissingPermissions);
    world.by(ANA, post(text("x"))).expect("she may write");
    world.by(OWNER, post(embed)).expect("she may do everything");
}

/// A webhook has no permissions.
#[test]
fn a_webhook_adds_no_members_to_a_private_thread_without_invitable() {
    let mut world = World::populated();
    let parent = world.text_channel();
    let webhook = NewWebhook { id: None, name: "hook".to_owned(), avatar: None, token: "secret".to_owned() };
    let Ok(Reply::Webhook(webhook)) = world.by(OWNER, Command::CreateWebhook(parent, Box::new(webhook))) else {
        panic!("no webhook")
    };
    for (kind, invitable, joins) in [
        (ChannelType::PrivateThread, false, false),
        (ChannelType::PrivateThread, true, true),
        (ChannelType::PublicThread, false, true),
    ] {
        let thread = begin_by(&mut world, ANA, parent, kind, invitable);
        let post =
            WebhookPost { message: text(&format!("<@{EVE}>")), thread_id: Some(thread), ..WebhookPost::default() };
        let access = WebhookAccess::Token("secret".to_owned());
        world.command(Actor::System, Command::ExecuteWebhook(webhook.id, access, Box::new(post))).expect("it may");
        assert_eq!(members(&mut world, thread).contains(&EVE), joins, "{kind:?} {invitable}");
    }
}
