//! Each gate and each exception, one by one.

use crate::fixture::*;
use guildhall_codec::Encoding;
use guildhall_guild_protocol::{AudienceRule, Event, MessageEvent, Payload, Redaction};
use guildhall_model::{
    Channel, ChannelType, EventName, Intents, Message, MessageId, OverwriteKind, PassiveUpdate, Permissions, UserId,
};
use guildhall_relay::{AudienceIndex, Subscriber, SubscriptionMask, UserSubscriptions};
use std::{collections::BTreeSet, sync::Arc};

const OWNER: u64 = 50;
/// A user account that sees everything open.
const PLAIN: u64 = 51;
/// A bot with the insiders' role.
const INSIDER: u64 = 52;
/// A bot without intents.
const QUIET: u64 = 54;
const OPEN: u64 = 100;
const HIDDEN: u64 = 101;

/// Slots are user ids.
fn index() -> AudienceIndex {
    let roles = [
        role(1, Permissions::VIEW_CHANNEL | Permissions::SEND_MESSAGES),
        role(21, Permissions::BAN_MEMBERS | Permissions::MANAGE_CHANNELS),
    ];
    let hidden = vec![
        overwrite(OverwriteKind::Role(id(1)), Permissions::NONE, Permissions::VIEW_CHANNEL),
        overwrite(OverwriteKind::Role(id(21)), Permissions::VIEW_CHANNEL, Permissions::SEND_MESSAGES),
    ];
    let channels = [channel(OPEN, ChannelType::Text, Vec::new()), channel(HIDDEN, ChannelType::Text, hidden)];
    let mut index = AudienceIndex::new(structure(OWNER, &roles, &channels));
    for (user, roles, mask) in [
        (OWNER, &[][..], looking()),
        (PLAIN, &[], looking()),
        (INSIDER, &[21], SubscriptionMask::bot(Intents::ALL)),
        (QUIET, &[], SubscriptionMask::bot(Intents::NONE)),
    ] {
        index.add_subscriber(Subscriber { slot: user as u32, mask }, Arc::new(member(user, roles)), 0, &mut ());
    }
    index
}

/// Of a user account that looks at the guild.
fn looking() -> SubscriptionMask {
    SubscriptionMask::user(UserSubscriptions { active: true, ..UserSubscriptions::default() })
}

fn check(event: &Event, expected: &[u64]) {
    check_with(&index(), event, &[], expected);
}

fn check_with(index: &AudienceIndex, event: &Event, watchers: &[(UserId, u32)], expected: &[u64]) {
    let found: Vec<u64> = delivered(index, event, NOW, watchers).iter().map(|d| u64::from(d.slot)).collect();
    assert_eq!(found, expected, "{:?}", event.audience);
}

#[test]
fn every_rule() {
    check(&event(AudienceRule::Members), &[OWNER, PLAIN, INSIDER, QUIET]);
    check(&event(AudienceRule::Channel(id(OPEN))), &[OWNER, PLAIN, INSIDER, QUIET]);
    check(&event(AudienceRule::Channel(id(HIDDEN))), &[OWNER, INSIDER]);
    check(&event(AudienceRule::Channel(id(999))), &[]);
    check(&event(AudienceRule::ChannelExcept(id(OPEN), id(HIDDEN))), &[PLAIN, QUIET]);
    check(&event(AudienceRule::ChannelExcept(id(HIDDEN), id(OPEN))), &[]);
    check(&event(AudienceRule::ChannelExcept(id(HIDDEN), id(999))), &[OWNER, INSIDER]);
    check(
        &event(AudienceRule::GuildPermission(Permissions::BAN_MEMBERS | Permissions::VIEW_AUDIT_LOG)),
        &[OWNER, INSIDER],
    );
    check(&event(AudienceRule::ChannelPermission(id(HIDDEN), Permissions::VIEW_CHANNEL)), &[OWNER, INSIDER]);
    check(
        &event(AudienceRule::ChannelPermission(id(HIDDEN), Permissions::VIEW_CHANNEL | Permissions::SEND_MESSAGES)),
        &[OWNER],
    );
    check(&event(AudienceRule::ChannelPermission(id(OPEN), Permissions::MANAGE_CHANNELS)), &[OWNER, INSIDER]);
    check(&event(AudienceRule::Channels([].into())), &[OWNER, PLAIN, INSIDER, QUIET]);
    check(&event(AudienceRule::Channels([id(OPEN), id(HIDDEN)].into())), &[OWNER, INSIDER]);
    check(&event(AudienceRule::Channels([id(OPEN), id(999)].into())), &[]);
    check(&event(AudienceRule::User(UserId::new(PLAIN))), &[PLAIN]);
    check(&event(AudienceRule::User(UserId::new(999))), &[]);
}

#[test]
fn intents_are_any_of_those_named() {
    let named = |name| Event::new(GUILD, name, AudienceRule::Members, Payload::GuildGone);
    check(&named(EventName::GuildUpdate), &[OWNER, PLAIN, INSIDER]);
    check(&named(EventName::VoiceServerUpdate), &[OWNER, PLAIN, INSIDER, QUIET]);
    let mut to_quiet = named(EventName::GuildUpdate);
    to_quiet.audience.rule = AudienceRule::User(UserId::new(QUIET));
    check(&to_quiet, &[]);
}

#[test]
fn the_user_of_an_event_receives_it_without_access_and_intents() {
    let hidden =
        || Event::new(GUILD, EventName::VoiceStateUpdate, AudienceRule::Channel(id(HIDDEN)), Payload::GuildGone);
    check(&hidden(), &[OWNER, INSIDER]);
    check(&hidden().always_to(UserId::new(QUIET)), &[OWNER, INSIDER, QUIET]);
    check(&hidden().always_to(UserId::new(INSIDER)), &[OWNER, INSIDER]);
}

#[test]
fn user_accounts_are_spared_what_they_know_or_did_not_subscribe_to() {
    let own = |user| event(AudienceRule::Members).never_to_user_account(UserId::new(user));
    check(&own(PLAIN), &[OWNER, INSIDER, QUIET]);
    check(&own(INSIDER), &[OWNER, PLAIN, INSIDER, QUIET]);
    let update = || Event::new(GUILD, EventName::GuildMemberUpdate, AudienceRule::Members, Payload::GuildGone);
    check(&update(), &[INSIDER]);
    check(&update().always_to(UserId::new(PLAIN)), &[PLAIN, INSIDER]);
    check(&update().always_to(UserId::new(QUIET)), &[INSIDER, QUIET]);
}

#[test]
fn user_accounts_get_what_they_subscribed_to() {
    let mut index = index();
    // Typing for 61, members' changes for 63, nothing but what is for all for 65.
    for (user, typing, member_updates) in [(61, true, false), (63, false, true), (65, false, false)] {
        let passive = PassiveUpdate::Delta;
        let mask = SubscriptionMask::user(UserSubscriptions {
            active: false,
            typing,
            member_updates,
            passive,
            ..UserSubscriptions::default()
        });
        index.add_subscriber(Subscriber { slot: user as u32, mask }, Arc::new(member(user, &[])), 0, &mut ());
    }
    let named = |name| Event::new(GUILD, name, AudienceRule::Members, Payload::GuildGone);
    let check = |event: &Event, expected: &[u64]| {
        let of_users: Vec<u64> = expected.iter().copied().chain([INSIDER]).collect();
        let mut of_users = of_users;
        of_users.sort_unstable();
        check_with(&index, event, &[], &of_users);
    };
    check(&named(EventName::GuildRoleUpdate), &[OWNER, PLAIN, 61, 63, 65]);
    check(&named(EventName::MessageUpdate), &[OWNER, PLAIN]);
    check(&named(EventName::VoiceStateUpdate), &[OWNER, PLAIN]);
    check(&named(EventName::TypingStart), &[61]);
    check(&named(EventName::GuildMemberUpdate), &[63]);
    check(&named(EventName::PresenceUpdate), &[]);
    // A watcher of the event's subject receives it if they may see it and do not receive it otherwise.
    let about = |name, rule| Event::new(GUILD, name, rule, Payload::GuildGone).about(UserId::new(INSIDER));
    let watchers = [(UserId::new(63), 63), (UserId::new(65), 65), (UserId::new(65), 99), (UserId::new(999), 65)];
    let update = about(EventName::GuildMemberUpdate, AudienceRule::Members);
    check_with(&index, &update, &watchers, &[INSIDER, 63, 65]);
    check_with(&index, &update.always_to(UserId::new(65)), &watchers, &[INSIDER, 63, 65]);
    let presence = || about(EventName::PresenceUpdate, AudienceRule::Members);
    check_with(&index, &presence(), &watchers, &[INSIDER, 63, 65]);
    check_with(&index, &presence().never_to_user_account(UserId::new(63)), &watchers, &[INSIDER, 65]);
    check_with(&index, &about(EventName::PresenceUpdate, AudienceRule::Channel(id(HIDDEN))), &watchers, &[INSIDER]);
}

#[test]
fn a_message_calls_passive_sessions_that_view_its_channel() {
    let mut index = index();
    // Passive: 61 in the open, 63 an insider, 65 with both.
    for (user, roles, passive) in [
        (61, &[][..], PassiveUpdate::ChannelUnreads),
        (63, &[21], PassiveUpdate::Delta),
        (65, &[21], PassiveUpdate::Snapshot),
    ] {
        let mask = SubscriptionMask::user(UserSubscriptions { passive, ..UserSubscriptions::default() });
        index.add_subscriber(Subscriber { slot: user as u32, mask }, Arc::new(member(user, roles)), 0, &mut ());
    }
    let create = |channel: u64, author: u64, mentions: &[u64], change: &dyn Fn(&mut Message)| {
        let mut message = Message { channel_id: id(channel), ..message(author, mentions) };
        change(&mut message);
        let mut event = message_create(message, None);
        event.audience.rule = AudienceRule::Channel(id(channel));
        event
    };
    let nothing = |_: &mut Message| {};
    let looking = |also: &[u64]| [&[OWNER, PLAIN, INSIDER], also].concat();
    let check = |event: &Event, expected: &[u64]| check_with(&index, event, &[], expected);
    check(&create(OPEN, OWNER, &[], &nothing), &looking(&[]));
    check(&create(OPEN, 61, &[], &nothing), &looking(&[61]));
    check(&create(OPEN, 61, &[61, 63, 63], &nothing), &looking(&[61, 63]));
    check(&create(OPEN, OWNER, &[PLAIN, OWNER], &nothing), &looking(&[]));
    check(&create(OPEN, OWNER, &[63], &|m| m.mention_roles = vec![id(21)]), &looking(&[63, 65]));
    check(&create(OPEN, OWNER, &[63], &|m| m.mention_everyone = true), &looking(&[61, 63, 65]));
    check(&create(HIDDEN, OWNER, &[61, 63], &nothing), &[OWNER, INSIDER, 63]);
    check(&create(HIDDEN, 61, &[], &|m| m.mention_everyone = true), &[OWNER, INSIDER, 63, 65]);
    // Bots are called by nothing: QUIET lacks the intent.
    check(&create(OPEN, QUIET, &[QUIET], &|m| m.mention_everyone = true), &looking(&[61, 63, 65]));
    // An edit mentions no one again, so passive sessions do not receive it.
    let Payload::Message(edited) = create(OPEN, 61, &[61, 63], &nothing).payload else { unreachable!("a message") };
    let edit = Event::new(GUILD, EventName::MessageUpdate, AudienceRule::Channel(id(OPEN)), Payload::Message(edited));
    check(&edit, &looking(&[]));
}

fn message(author: u64, mentions: &[u64]) -> Message {
    let user = |id: u64| Arc::new((*member(id, &[]).user).clone());
    Message {
        content: "secret".to_owned(),
        mentions: mentions.iter().map(|id| user(*id)).collect(),
        ..Message::new(MessageId::new(1), id(OPEN), GUILD, user(author))
    }
}

fn message_create(message: Message, referenced: Option<Message>) -> Event {
    let payload = Payload::Message(Box::new(MessageEvent {
        message: Arc::new(message),
        channel_type: ChannelType::Text,
        author: None,
        mentioned: Vec::new(),
        referenced: referenced.map(Arc::new),
        votes: Vec::new(),
    }));
    Event::new(GUILD, EventName::MessageCreate, AudienceRule::Members, payload)
}

/// Recipients of an event, and its form for each, in the order of delivery.
fn forms(index: &AudienceIndex, event: &Event) -> Vec<(u32, Redaction)> {
    let mut forms = Vec::new();
    let mut out = EachDelivery::new(|slot, redaction, _| forms.push((slot, redaction)));
    index.fan_out(event, NOW, std::iter::empty(), &mut out);
    drop(out);
    forms
}

/// Whether a bot without MESSAGE_CONTENT may not read the message of an event, and the referenced message.
fn withheld(event: &Event, bot: u64) -> (bool, bool) {
    let mut index = AudienceIndex::new(structure(OWNER, &[role(1, Permissions::VIEW_CHANNEL)], &[]));
    let intents = Intents(Intents::ALL.0 & !Intents::MESSAGE_CONTENT.0);
    let mask = [SubscriptionMask::bot(intents), looking(), SubscriptionMask::bot(Intents::ALL)];
    for (slot, mask) in (0..).zip(mask) {
        index.add_subscriber(Subscriber { slot, mask }, Arc::new(member(bot, &[])), 0, &mut ());
    }
    let mut found = forms(&index, event);
    found.sort_unstable_by_key(|(slot, _)| *slot);
    assert_eq!(found[1..], [(1, Redaction::None), (2, Redaction::None)], "only bots without the intent");
    let mut body = Vec::new();
    event.render(Encoding::Json, found[0].1, &mut body);
    let body: serde_json::Value = serde_json::from_slice(&body).expect("it is JSON");
    let is_withheld = |message: &serde_json::Value| message.get("content").is_some_and(|content| content == "");
    let found = (is_withheld(&body), is_withheld(&body["referenced_message"]));
    let mut whole = Vec::new();
    event.render(Encoding::Json, Redaction::None, &mut whole);
    assert!(String::from_utf8(whole).expect("text").contains("secret"));
    found
}

#[test]
fn f3_content_is_withheld_from_those_it_does_not_concern() {
    let (bot, other) = (60, 61);
    assert_eq!(withheld(&message_create(message(other, &[]), None), bot), (true, false));
    assert_eq!(withheld(&message_create(message(bot, &[]), None), bot), (false, false));
    assert_eq!(withheld(&message_create(message(other, &[bot]), None), bot), (false, false));
    assert_eq!(withheld(&message_create(message(other, &[other]), None), bot), (true, false));
    assert_eq!(withheld(&message_create(message(other, &[bot]), Some(message(other, &[]))), bot), (false, true));
    assert_eq!(withheld(&message_create(message(other, &[]), Some(message(bot, &[]))), bot), (true, false));
    assert_eq!(withheld(&message_create(message(other, &[]), Some(message(other, &[]))), bot), (true, true));
    assert_eq!(withheld(&message_create(message(bot, &[]), Some(message(other, &[bot]))), bot), (false, false));
}

/// Clients that support obfuscated channels, active or passive, receive only the visible voice
/// states; others receive all.
#[test]
fn a_hidden_channel_is_obfuscated_for_clients_with_support() {
    let mut index = index();
    let obfuscated = UserSubscriptions { obfuscated: true, ..UserSubscriptions::default() };
    let (active, insider) = (UserSubscriptions { active: true, ..obfuscated }, &[21][..]);
    for (user, roles, mask) in [(61, &[][..], obfuscated), (63, &[], active), (65, insider, active)] {
        let subscriber = Subscriber { slot: user as u32, mask: SubscriptionMask::user(mask) };
        index.add_subscriber(subscriber, Arc::new(member(user, roles)), 0, &mut ());
    }
    let obfuscated_for = |name: EventName, channel_id: u64| {
        let channel = Channel::new(id(channel_id), GUILD, ChannelType::Text, "secret");
        let event = Event::new(GUILD, name, AudienceRule::Members, Payload::Channel(Arc::new(channel)));
        let found = forms(&index, &event);
        assert_eq!(found.len(), 6, "all sessions but the one without intents");
        let reads_it = |redaction: Redaction| {
            let mut body = Vec::new();
            event.render(Encoding::Json, redaction, &mut body);
            let body: serde_json::Value = serde_json::from_slice(&body).expect("it is JSON");
            assert_eq!(body["id"], channel_id.to_string());
            body["name"] == "secret"
        };
        let in_part = found.into_iter().filter(|(_, redaction)| !reads_it(*redaction));
        in_part.map(|(slot, _)| slot).collect::<BTreeSet<u32>>()
    };
    for name in [EventName::ChannelCreate, EventName::ChannelUpdate] {
        assert_eq!(obfuscated_for(name, OPEN), [].into());
        assert_eq!(obfuscated_for(name, HIDDEN), [61, 63].into());
    }
    // No member can view a deleted channel.
    assert_eq!(obfuscated_for(EventName::ChannelDelete, 999), [61, 63, 65].into());
}
