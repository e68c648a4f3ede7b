//! Messages: created, edited, deleted.

use crate::fixture::*;
use guildhall_guild::{
    Actor, AllowedMentions, ChannelPatch, Command, Guild, GuildLimits, MemberPatch, MessagePatch, NewMessage,
    NewThread, Refusal, Reply, ReplyTo,
};
use guildhall_guild_protocol::{AudienceRule, Payload, ReplicaUpdate};
use guildhall_model::{
    ChannelId, ChannelType, EventName, Message, MessageId, MessageReference, Nonce, Permissions, Status, User, UserId,
};
use std::sync::Arc;

fn edit(content: &str) -> Box<MessagePatch> {
    Box::new(MessagePatch { content: Some(content.to_owned()), ..MessagePatch::default() })
}

fn reply_to(message_id: MessageId, fail_if_not_exists: bool) -> NewMessage {
    NewMessage { reply_to: Some(ReplyTo { message_id, fail_if_not_exists }), ..text("re") }
}

fn with_nonce(content: &str, nonce: &Nonce) -> NewMessage {
    NewMessage { nonce: Some(nonce.clone()), enforce_nonce: true, ..text(content) }
}

#[test]
fn a_thin_whole() {
    let mut world = World::new();
    let channel = world.text_channel();
    world.join(ANA);
    world.sent.clear();
    world.attach(session(0, 1), ANA, Status::Online);
    let views = world.views();
    assert_eq!(views.len(), 1);
    let view = views[0].1.as_ref().expect("ana is a member");
    assert_eq!((view.member.user.id, view.member_count), (ANA, 2));

    let record = world.try_say(ANA, channel, text("hello <@7>")).expect("she may");
    let published = world.only_event(EventName::MessageCreate);
    assert_eq!(rule(&published), AudienceRule::Channel(channel));
    assert!(
        matches!(published.replica_update, ReplicaUpdate::Message(of, id) if (of, id) == (channel, record.message.id)),
        "relays keep the newest message of each channel"
    );
    assert_eq!(*message_of(&published), *record.message);
    let Payload::Message(event) = &published.event.payload else { panic!() };
    assert_eq!(event.author.as_ref().map(|member| member.user.id), Some(ANA));
    assert_eq!(event.mentioned.iter().map(|member| member.user.id).collect::<Vec<_>>(), [OWNER]);
    assert_eq!(world.store.messages[&(channel, record.message.id)], *record.message);

    assert_eq!(world.by(NOBODY, Command::ReadGuild).unwrap_err(), Refusal::UnknownGuild);
}

#[test]
fn b1_ids_ascend_when_the_clock_does_not() {
    let mut world = World::populated();
    let channel = world.text_channel();
    let mut last = MessageId::new(0);
    for step in 0..50 {
        world.now.unix.0 -= step;
        let id = world.say(ANA, channel, "x");
        assert!(id > last);
        last = id;
        let Reply::Channel(read) = world.system(Command::ReadChannel(channel)) else { panic!() };
        assert_eq!(read.last_message_id, Some(id));
    }
    assert!(!world.event_names().contains(&EventName::ChannelUpdate), "newest messages change no channel");
}

#[test]
fn what_is_refused() {
    let mut world = World::populated();
    let channel = world.text_channel();
    let category = world.channel(new_channel("cat", ChannelType::Category));
    let voice = world.channel(new_channel("voice", ChannelType::Voice));
    let hidden = world.text_channel();
    world.system(Command::PutOverwrite(hidden, deny_everyone(Permissions::VIEW_CHANNEL)));
    let silent = world.text_channel();
    world.system(Command::PutOverwrite(silent, deny_everyone(Permissions::SEND_MESSAGES)));
    let closed = world.channel(new_channel("closed", ChannelType::Voice));
    world.system(Command::PutOverwrite(closed, deny_everyone(Permissions::CONNECT)));
    let plain = world.text_channel();
    world.system(Command::PutOverwrite(plain, deny_everyone(Permissions::EMBED_LINKS)));
    let embed = NewMessage { embeds: vec![serde_json::json!({"title": "t"})], ..text("") };

    let mut check = |user_id: UserId, channel: ChannelId, new: NewMessage, expected: Option<Refusal>| {
        world.sent.clear();
        let got = world.try_say(user_id, channel, new);
        assert_eq!(got.as_ref().err().copied(), expected, "{got:?}");
        assert_eq!(world.events().len(), usize::from(expected.is_none()));
    };
    check(ANA, channel, text("x"), None);
    check(ANA, voice, text("x"), None);
    check(OWNER, hidden, text("x"), None);
    check(ANA, channel, embed.clone(), None);
    check(ANA, channel, NewMessage { components: vec![serde_json::json!({})], ..text(" ") }, None);
    check(ANA, channel, text(""), Some(Refusal::EmptyMessage));
    check(ANA, channel, text(" \n\t"), Some(Refusal::EmptyMessage));
    check(ANA, category, text("x"), Some(Refusal::NotATextChannel));
    check(ANA, ChannelId::new(5), text("x"), Some(Refusal::UnknownChannel));
    check(ANA, hidden, text("x"), Some(Refusal::MissingAccess));
    check(NOBODY, channel, text("x"), Some(Refusal::MissingAccess));
    check(ANA, silent, text("x"), Some(Refusal::MissingPermissions));
    check(ANA, closed, text("x"), Some(Refusal::MissingAccess));
    check(ANA, plain, text("x"), None);
    check(ANA, plain, embed, Some(Refusal::MissingPermissions));
    let got = world.command(Actor::System, Command::CreateMessage(channel, Box::new(text("x"))));
    assert_eq!(got.unwrap_err(), Refusal::UnknownUser, "the system has no account");
}

#[test]
fn a_time_out_ends_by_itself() {
    let mut world = World::populated();
    let channel = world.text_channel();
    let until = guildhall_stdx::Timestamp(world.now.unix.0 + 60_000);
    let patch = MemberPatch { communication_disabled_until: Some(Some(until)), ..MemberPatch::default() };
    world.system(Command::UpdateMember(ANA, Box::new(patch)));
    assert_eq!(world.try_say(ANA, channel, text("x")).unwrap_err(), Refusal::MissingPermissions);
    world.pass_ms(59_999);
    assert_eq!(world.try_say(ANA, channel, text("x")).unwrap_err(), Refusal::MissingPermissions);
    world.pass_ms(1);
    assert!(world.try_say(ANA, channel, text("x")).is_ok());
}

#[test]
fn b2_a_nonce_is_echoed_once() {
    let mut world = World::populated();
    let channel = world.text_channel();
    for nonce in [Nonce::Number(7), Nonce::Text("7".to_owned())] {
        world.sent.clear();
        let record = world.try_say(ANA, channel, with_nonce("x", &nonce)).expect("she may");
        assert_eq!(record.message.nonce.as_ref(), Some(&nonce));
        assert_eq!(message_of(&world.only_event(EventName::MessageCreate)).nonce.as_ref(), Some(&nonce));
        // The fixture's store refuses one.
        world.by(ANA, Command::EditMessage(channel, record.message.id, edit("y"))).expect("she may");
        assert_eq!(message_of(&world.only_event(EventName::MessageUpdate)).nonce, None);
    }
}

#[test]
fn enforce_nonce_returns_the_earlier_message() {
    let mut world = World::populated();
    let (channel, other) = (world.text_channel(), world.text_channel());
    let nonce = Nonce::Text("n".to_owned());
    let first = world.try_say(ANA, channel, with_nonce("first", &nonce)).expect("she may");
    world.sent.clear();
    let again = world.try_say(ANA, channel, with_nonce("second", &nonce)).expect("she may");
    assert_eq!(again.message, first.message);
    assert!(world.events().is_empty());

    // Another author, another channel, not enforced, or too late: a message of its own.
    assert_ne!(world.try_say(BOB, channel, with_nonce("x", &nonce)).unwrap().message.id, first.message.id);
    assert_ne!(world.try_say(ANA, other, with_nonce("x", &nonce)).unwrap().message.id, first.message.id);
    let free = NewMessage { enforce_nonce: false, ..with_nonce("third", &nonce) };
    let third = world.try_say(ANA, channel, free).unwrap();
    assert_ne!(third.message.id, first.message.id);
    assert_eq!(world.try_say(ANA, channel, with_nonce("x", &nonce)).unwrap().message.id, third.message.id);
    world.by(ANA, Command::DeleteMessage(channel, third.message.id)).expect("she may");
    let fourth = world.try_say(ANA, channel, with_nonce("fourth", &nonce)).unwrap();
    assert_eq!(fourth.message.content, "fourth", "a deleted message is not returned");
    world.pass_ms(300_000);
    assert_ne!(world.try_say(ANA, channel, with_nonce("x", &nonce)).unwrap().message.id, fourth.message.id);
}

#[test]
fn enforce_nonce_returns_the_earlier_message_after_the_guild_was_loaded_again() {
    let mut world = World::populated();
    let (channel, other) = (world.text_channel(), world.text_channel());
    let nonce = Nonce::Text("n".to_owned());
    let first = world.try_say(ANA, channel, with_nonce("first", &nonce)).expect("she may");
    let free = NewMessage { enforce_nonce: false, ..with_nonce("free", &nonce) };
    let free = world.try_say(ANA, other, free).unwrap();
    world.guild = Guild::load(world.store.record(), GuildLimits::default(), 3);
    let again = world.try_say(ANA, channel, with_nonce("second", &nonce)).expect("she may");
    assert_eq!((again.message.id, again.message.nonce.as_ref()), (first.message.id, Some(&nonce)));
    assert_ne!(world.try_say(BOB, channel, with_nonce("x", &nonce)).unwrap().message.id, first.message.id);
    assert_ne!(world.try_say(ANA, other, with_nonce("x", &nonce)).unwrap().message.id, free.message.id);
    world.guild = Guild::load(world.store.record(), GuildLimits::default(), 3);
    world.pass_ms(299_999);
    assert_eq!(world.try_say(ANA, channel, with_nonce("x", &nonce)).unwrap().message.id, first.message.id);
    world.pass_ms(1);
    assert_ne!(world.try_say(ANA, channel, with_nonce("x", &nonce)).unwrap().message.id, first.message.id);
}

#[test]
fn slow_mode() {
    let mut world = World::populated();
    let channel = world.text_channel();
    let patch = ChannelPatch { rate_limit_per_user: Some(10), ..ChannelPatch::default() };
    world.system(Command::UpdateChannel(channel, Box::new(patch)));
    let nonce = Nonce::Number(1);
    let first = world.try_say(ANA, channel, with_nonce("x", &nonce)).unwrap();
    assert_eq!(world.try_say(ANA, channel, text("y")).unwrap_err(), Refusal::SlowMode { retry_after_ms: 10_000 });
    // A retry of what succeeded is no second message.
    assert_eq!(world.try_say(ANA, channel, with_nonce("x", &nonce)).unwrap(), first);
    world.say(BOB, channel, "others may");
    world.pass_ms(9_999);
    assert_eq!(world.try_say(ANA, channel, text("y")).unwrap_err(), Refusal::SlowMode { retry_after_ms: 1 });
    world.pass_ms(1);
    world.say(ANA, channel, "y");
    // Moderators wait as others do; only one permission exempts, and slow mode is not for bots.
    let moderates = Permissions::MANAGE_MESSAGES | Permissions::MANAGE_CHANNELS | Permissions::MODERATE_MEMBERS;
    world.grant(BOB, moderates, 1);
    world.say(BOB, channel, "1");
    assert!(matches!(world.try_say(BOB, channel, text("2")).unwrap_err(), Refusal::SlowMode { .. }));
    world.grant(EVE, Permissions::BYPASS_SLOWMODE, 1);
    let bot = User { bot: true, ..User::new(extra(1), "bot") };
    world.system(Command::AddMember(Arc::new(bot)));
    for user_id in [EVE, extra(1), OWNER] {
        world.say(user_id, channel, "1");
        world.say(user_id, channel, "2");
    }
    assert!(world.guild.next_deadline().is_some());
    world.pass_ms(600_000);
    world.guild.handle_timer(world.now);
    assert_eq!(world.guild.next_deadline(), None, "all is forgotten");
}

/// Upstream: a message and a thread in each interval.
#[test]
fn slow_mode_limits_threads_and_posts() {
    for kind in [ChannelType::Text, ChannelType::Forum] {
        let mut world = World::populated();
        let channel = world.channel(new_channel("slow", kind));
        let patch = ChannelPatch { rate_limit_per_user: Some(10), ..ChannelPatch::default() };
        world.system(Command::UpdateChannel(channel, Box::new(patch)));
        world.grant(EVE, Permissions::BYPASS_SLOWMODE, 1);
        let begin = |world: &mut World, user_id| {
            let new = NewThread {
                name: "t".to_owned(),
                kind: Some(ChannelType::PublicThread),
                message: (kind == ChannelType::Forum).then(|| Box::new(text("first"))),
                ..NewThread::default()
            };
            world.by(user_id, Command::CreateThread(channel, Box::new(new))).map(|_| ())
        };
        assert_eq!(begin(&mut world, ANA), Ok(()));
        assert_eq!(begin(&mut world, ANA), Err(Refusal::SlowMode { retry_after_ms: 10_000 }));
        assert_eq!(begin(&mut world, BOB), Ok(()), "others may");
        if kind == ChannelType::Text {
            world.say(ANA, channel, "messages have a rate of their own");
        }
        world.pass_ms(10_000);
        assert_eq!(begin(&mut world, ANA), Ok(()));
        assert_eq!([begin(&mut world, EVE), begin(&mut world, EVE)], [Ok(()), Ok(())]);
    }
}

#[test]
fn slow_mode_of_a_thread_has_the_same_exemption() {
    let mut world = World::populated();
    let channel = world.text_channel();
    world.grant(BOB, Permissions::MANAGE_MESSAGES | Permissions::MANAGE_THREADS, 1);
    world.grant(EVE, Permissions::BYPASS_SLOWMODE, 1);
    let new = NewThread {
        name: "t".to_owned(),
        rate_limit_per_user: Some(10),
        kind: Some(ChannelType::PublicThread),
        ..NewThread::default()
    };
    let Ok(Reply::Thread(thread)) = world.by(OWNER, Command::CreateThread(channel, Box::new(new))) else { panic!() };
    let thread = thread.0.channel.id;
    world.say(BOB, thread, "1");
    assert!(matches!(world.try_say(BOB, thread, text("2")).unwrap_err(), Refusal::SlowMode { .. }));
    world.say(EVE, thread, "1");
    world.say(EVE, thread, "2");
}

#[test]
fn replies() {
    let mut world = World::populated();
    let (channel, other) = (world.text_channel(), world.text_channel());
    let question = world.say(ANA, channel, "a question");
    let elsewhere = world.say(ANA, other, "elsewhere");
    world.sent.clear();

    let Ok(Reply::Message(reply)) = world.by(BOB, Command::CreateMessage(channel, Box::new(reply_to(question, true))))
    else {
        panic!()
    };
    let message = &reply.message;
    assert_eq!(message.kind, Message::KIND_REPLY);
    let reference = MessageReference { message_id: question, channel_id: channel, guild_id: Some(GUILD) };
    assert_eq!(message.message_reference, Some(reference));
    assert_eq!(message.mentions.iter().map(|user| user.id).collect::<Vec<_>>(), [ANA]);
    assert_eq!(reply.referenced.flatten().map(|message| message.id), Some(question));
    let published = world.only_event(EventName::MessageCreate);
    let Payload::Message(event) = &published.event.payload else { panic!() };
    assert_eq!(event.referenced.as_ref().map(|message| message.id), Some(question));

    // Oneself is not mentioned, nor who is not to be.
    let own = world.try_say(ANA, channel, reply_to(question, true)).unwrap();
    assert!(own.message.mentions.is_empty());
    let quiet = NewMessage { allowed_mentions: Some(AllowedMentions::default()), ..reply_to(question, true) };
    assert!(world.try_say(BOB, channel, quiet).unwrap().message.mentions.is_empty());

    // What does not exist in the same channel.
    for missing in [elsewhere, MessageId::new(5)] {
        let refusal = world.try_say(BOB, channel, reply_to(missing, true)).unwrap_err();
        assert_eq!(refusal, Refusal::UnknownReference);
        let plain = world.try_say(BOB, channel, reply_to(missing, false)).unwrap().message;
        assert_eq!((plain.kind, plain.message_reference, plain.mentions.len()), (Message::KIND_DEFAULT, None, 0));
    }

    // An edit of a reply contains the referenced message, or that it was deleted.
    let id = message.id;
    world.sent.clear();
    world.by(BOB, Command::EditMessage(channel, id, edit("re 2"))).expect("he may");
    let published = world.only_event(EventName::MessageUpdate);
    let Payload::Message(event) = &published.event.payload else { panic!() };
    assert_eq!(event.referenced.as_ref().map(|message| message.id), Some(question));
    assert_eq!(event.message.mentions.len(), 1, "the author of the referenced message is still mentioned");
    world.by(ANA, Command::DeleteMessage(channel, question)).expect("she may");
    let Ok(Reply::Message(reply)) = world.by(BOB, Command::EditMessage(channel, id, edit("re 3"))) else { panic!() };
    assert!(matches!(reply.referenced, Some(None)));

    world.system(Command::PutOverwrite(other, deny_everyone(Permissions::READ_MESSAGE_HISTORY)));
    assert_eq!(world.try_say(BOB, other, reply_to(elsewhere, false)).unwrap_err(), Refusal::MissingPermissions);
}

#[test]
fn mentions_are_filtered() {
    let mut world = World::populated();
    let channel = world.text_channel();
    let (open, closed) = (world.role(Permissions::NONE, 1), world.role(Permissions::NONE, 1));
    let mentionable = guildhall_guild::RolePatch { mentionable: Some(true), ..Default::default() };
    world.system(Command::UpdateRole(open, Box::new(mentionable)));
    world.everyone(Permissions::VIEW_CHANNEL | Permissions::SEND_MESSAGES);
    world.grant(BOB, Permissions::MENTION_EVERYONE, 1);
    let content = format!("<@{ANA}> <@!{BOB}> <@{NOBODY}> <@&{open}> <@&{closed}> <@&{GUILD}> <@&77> @here");

    let mut check =
        |author: UserId, allowed: Option<AllowedMentions>, users: &[UserId], roles: &[_], everyone: bool| {
            let new = NewMessage { allowed_mentions: allowed.clone(), ..text(&content) };
            let message = world.try_say(author, channel, new).unwrap().message;
            let got: Vec<UserId> = message.mentions.iter().map(|user| user.id).collect();
            assert_eq!(
                (&got[..], &message.mention_roles[..], message.mention_everyone),
                (users, roles, everyone),
                "{allowed:?}"
            );
        };
    check(ANA, None, &[ANA, BOB], &[open], false);
    check(BOB, None, &[ANA, BOB], &[open, closed], true);
    check(BOB, Some(AllowedMentions::default()), &[], &[], false);
    let all_users = AllowedMentions { all_users: true, ..AllowedMentions::default() };
    check(BOB, Some(all_users), &[ANA, BOB], &[], false);
    let some =
        AllowedMentions { users: vec![BOB, EVE], roles: vec![closed], everyone: true, ..AllowedMentions::default() };
    check(BOB, Some(some.clone()), &[BOB], &[closed], true);
    check(ANA, Some(some), &[BOB], &[], false);
    let all_roles = AllowedMentions { all_roles: true, ..AllowedMentions::default() };
    check(ANA, Some(all_roles), &[], &[open], false);
}

#[test]
fn the_author_is_as_they_were_then() {
    let mut world = World::populated();
    let channel = world.text_channel();
    let id = world.say(ANA, channel, "x");
    let renamed = Arc::new(guildhall_model::User { username: "renamed".to_owned(), ..(*user(ANA)).clone() });
    world.system(Command::AddMember(renamed));
    world.by(ANA, Command::EditMessage(channel, id, edit("y"))).expect("she may");
    assert_eq!(world.store.messages[&(channel, id)].author.username, "user100");
    let new = world.try_say(ANA, channel, text("z")).unwrap();
    assert_eq!(new.message.author.username, "renamed");
    // Messages of members who left have no member.
    world.system(Command::RemoveMember(ANA));
    world.sent.clear();
    let flags = MessagePatch { flags: Some(4), ..MessagePatch::default() };
    world.system(Command::EditMessage(channel, id, Box::new(flags)));
    let published = world.only_event(EventName::MessageUpdate);
    let Payload::Message(event) = &published.event.payload else { panic!() };
    assert!(event.author.is_none());
}

#[test]
fn edits() {
    let mut world = World::populated();
    let channel = world.text_channel();
    let id = world.try_say(ANA, channel, NewMessage { tts: true, ..text("@everyone <@7>") }).unwrap().message.id;
    assert!(!world.store.messages[&(channel, id)].tts, "ignored without the permission");
    world.grant(BOB, Permissions::MANAGE_MESSAGES | Permissions::SEND_TTS_MESSAGES, 1);
    let aloud = world.try_say(BOB, channel, NewMessage { tts: true, ..text("x") }).unwrap().message;
    assert!(aloud.tts);
    assert!(!world.try_say(BOB, channel, text("x")).unwrap().message.tts);
    world.sent.clear();

    world.pass_ms(5_000);
    let Ok(Reply::Message(reply)) = world.by(ANA, Command::EditMessage(channel, id, edit("<@101>"))) else { panic!() };
    let message = &reply.message;
    assert_eq!(message.edited_timestamp, Some(world.now.unix));
    assert!(!message.mention_everyone);
    assert_eq!(message.mentions.iter().map(|user| user.id).collect::<Vec<_>>(), [BOB]);
    assert_eq!(*message_of(&world.only_event(EventName::MessageUpdate)), **message);

    // An edit without a change publishes nothing.
    world.by(ANA, Command::EditMessage(channel, id, edit("<@101>"))).expect("she may");
    assert!(world.events().is_empty());

    // Other users change flags, not content; that is no edit.
    let flags = |flags| Box::new(MessagePatch { flags: Some(flags), ..MessagePatch::default() });
    let edited_at = message.edited_timestamp;
    world.pass_ms(5_000);
    world.by(BOB, Command::EditMessage(channel, id, flags(4 | 64 | 1 << 15))).expect("he may");
    let published = world.only_event(EventName::MessageUpdate);
    assert_eq!((message_of(&published).flags, message_of(&published).edited_timestamp), (4, edited_at));
    world.by(BOB, Command::EditMessage(channel, aloud.id, flags(4))).expect("he may");
    assert!(!message_of(&world.only_event(EventName::MessageUpdate)).tts, "read aloud once");

    let mut check = |user_id: UserId, patch: Box<MessagePatch>, expected: Refusal| {
        let got = world.by(user_id, Command::EditMessage(channel, id, patch.clone()));
        assert_eq!(got.unwrap_err(), expected, "{patch:?}");
    };
    check(BOB, edit("mine now"), Refusal::NotTheAuthor);
    check(EVE, edit("mine now"), Refusal::NotTheAuthor);
    let quiet = MessagePatch { allowed_mentions: Some(AllowedMentions::default()), ..MessagePatch::default() };
    check(BOB, Box::new(quiet), Refusal::NotTheAuthor);
    check(EVE, flags(4), Refusal::MissingPermissions);
    check(ANA, edit(" "), Refusal::EmptyMessage);
    let unknown = world.by(ANA, Command::EditMessage(channel, MessageId::new(9), edit("x")));
    assert_eq!(unknown.unwrap_err(), Refusal::UnknownMessage);
    world.by(ANA, Command::DeleteMessage(channel, id)).expect("she may");
    assert_eq!(world.by(ANA, Command::EditMessage(channel, id, edit("x"))).unwrap_err(), Refusal::UnknownMessage);
}

#[test]
fn deletions() {
    let mut world = World::populated();
    let channel = world.text_channel();
    world.grant(BOB, Permissions::MANAGE_MESSAGES, 1);
    for (user_id, expected) in [(ANA, Ok(())), (BOB, Ok(())), (EVE, Err(Refusal::MissingPermissions))] {
        let id = world.say(ANA, channel, "x");
        world.sent.clear();
        let got = world.by(user_id, Command::DeleteMessage(channel, id)).map(|_| ());
        assert_eq!(got, expected);
        if expected.is_ok() {
            let published = world.only_event(EventName::MessageDelete);
            assert_eq!(rule(&published), AudienceRule::Channel(channel));
            assert!(!world.store.messages.contains_key(&(channel, id)));
            let again = world.by(user_id, Command::DeleteMessage(channel, id));
            assert_eq!(again.unwrap_err(), Refusal::UnknownMessage);
        }
    }
}

#[test]
fn typing() {
    let mut world = World::populated();
    let channel = world.text_channel();
    world.sent.clear();
    world.by(ANA, Command::StartTyping(channel)).expect("she may");
    let published = world.only_event(EventName::TypingStart);
    assert_eq!(rule(&published), AudienceRule::Channel(channel));
    let Payload::Typing { timestamp_s, member, .. } = &published.event.payload else { panic!() };
    assert_eq!((*timestamp_s, member.user.id), (world.now.unix.unix_s(), ANA));
    world.everyone(Permissions::VIEW_CHANNEL);
    assert_eq!(world.by(ANA, Command::StartTyping(channel)).unwrap_err(), Refusal::MissingPermissions);
}

#[test]
fn a_guild_loaded_anew_asks_the_store() {
    let mut world = World::populated();
    let channel = world.text_channel();
    let ids = [world.say(ANA, channel, "1"), world.say(ANA, channel, "2")];
    world.guild = Guild::load(world.store.record(), GuildLimits::default(), 3);
    assert_eq!(world.loads, 0);
    world.by(ANA, Command::EditMessage(channel, ids[0], edit("new"))).expect("she may");
    world.by(ANA, Command::EditMessage(channel, ids[0], edit("newer"))).expect("she may");
    assert_eq!(world.loads, 1, "what was loaded is kept");
    let reply = world.try_say(BOB, channel, reply_to(ids[1], true)).unwrap();
    assert_eq!(world.loads, 2);
    assert!(reply.message.id > ids[1]);
    let missing = MessageId::new(5);
    for _ in 0..2 {
        assert_eq!(world.by(ANA, Command::DeleteMessage(channel, missing)).unwrap_err(), Refusal::UnknownMessage);
        assert_eq!(world.loads, 3, "that there is none is kept too");
    }
}

#[test]
fn x1_an_expired_message_is_unknown_and_only_the_node_says_so() {
    let mut world = World::populated();
    let channel = world.text_channel();
    let (old, new) = (world.say(ANA, channel, "old"), world.say(ANA, channel, "new"));
    world.system(Command::Pin(channel, old));
    let expire = |before| Command::ExpireMessages(channel, before);
    assert_eq!(world.by(OWNER, expire(new)).unwrap_err(), Refusal::MissingPermissions);
    world.sent.clear();
    world.system(expire(new));
    assert_eq!(world.event_names(), [EventName::ChannelPinsUpdate], "no event for the message");
    let patch = MessagePatch { content: Some("x".to_owned()), ..MessagePatch::default() };
    for of_old in [
        Command::DeleteMessage(channel, old),
        Command::EditMessage(channel, old, Box::new(patch)),
        Command::Pin(channel, old),
        Command::ClearReactions(channel, old, None),
    ] {
        assert_eq!(world.command(Actor::System, of_old).unwrap_err(), Refusal::UnknownMessage);
    }
    // An older bound changes nothing.
    world.system(expire(old));
    assert_eq!(world.command(Actor::System, Command::Pin(channel, old)).unwrap_err(), Refusal::UnknownMessage);
    world.system(Command::Pin(channel, new));
}
