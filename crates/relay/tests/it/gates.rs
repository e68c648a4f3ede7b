//! Each gate and each exception, one by one.

use crate::fixture::*;
use guildhall_codec::Encoding;
use guildhall_model::{
    AccountKind, ChannelType, EventName, Intents, Message, MessageId, OverwriteKind, Permissions, UserId,
};
use guildhall_relay::{AudienceIndex, Event, Gate, MessageEvent, Payload, Redaction, Seat};
use std::sync::Arc;

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
    let mut index = AudienceIndex::new(meta(OWNER, &roles, &channels));
    for (user, roles, intents) in [
        (OWNER, &[][..], Intents::ALL),
        (PLAIN, &[], Intents::ALL),
        (INSIDER, &[21], Intents::ALL),
        (QUIET, &[], Intents::NONE),
    ] {
        let kind = if user == PLAIN || user == OWNER { AccountKind::User } else { AccountKind::Bot };
        index.seat(Seat { slot: user as u32, intents, kind }, Arc::new(member(user, roles)));
    }
    index
}

fn check(event: &Event, expected: &[u64]) {
    let index = index();
    let mut delivered = Vec::new();
    index.for_each(event, NOW, |slot, _| delivered.push(u64::from(slot)));
    delivered.sort_unstable();
    assert_eq!(delivered, expected, "{:?}", event.audience);
}

#[test]
fn every_gate() {
    check(&event(Gate::Members), &[OWNER, PLAIN, INSIDER, QUIET]);
    check(&event(Gate::Channel(id(OPEN))), &[OWNER, PLAIN, INSIDER, QUIET]);
    check(&event(Gate::Channel(id(HIDDEN))), &[OWNER, INSIDER]);
    check(&event(Gate::Channel(id(999))), &[]);
    check(&event(Gate::ChannelExcept(id(OPEN), id(HIDDEN))), &[PLAIN, QUIET]);
    check(&event(Gate::ChannelExcept(id(HIDDEN), id(OPEN))), &[]);
    check(&event(Gate::ChannelExcept(id(HIDDEN), id(999))), &[OWNER, INSIDER]);
    check(&event(Gate::GuildPermission(Permissions::BAN_MEMBERS | Permissions::VIEW_AUDIT_LOG)), &[OWNER, INSIDER]);
    check(&event(Gate::ChannelPermission(id(HIDDEN), Permissions::VIEW_CHANNEL)), &[OWNER, INSIDER]);
    check(
        &event(Gate::ChannelPermission(id(HIDDEN), Permissions::VIEW_CHANNEL | Permissions::SEND_MESSAGES)),
        &[OWNER],
    );
    check(&event(Gate::ChannelPermission(id(OPEN), Permissions::MANAGE_CHANNELS)), &[OWNER, INSIDER]);
    check(&event(Gate::User(UserId::new(PLAIN))), &[PLAIN]);
    check(&event(Gate::User(UserId::new(999))), &[]);
}

#[test]
fn intents_are_any_of_those_named() {
    let named = |name| Event::new(GUILD, name, Gate::Members, Payload::GuildGone);
    check(&named(EventName::GuildUpdate), &[OWNER, PLAIN, INSIDER]);
    check(&named(EventName::VoiceServerUpdate), &[OWNER, PLAIN, INSIDER, QUIET]);
    let mut to_quiet = named(EventName::GuildUpdate);
    to_quiet.audience.gate = Gate::User(UserId::new(QUIET));
    check(&to_quiet, &[]);
}

#[test]
fn who_it_is_about_gets_it_whatever_gate_and_intents_say() {
    let hidden = || Event::new(GUILD, EventName::VoiceStateUpdate, Gate::Channel(id(HIDDEN)), Payload::GuildGone);
    check(&hidden(), &[OWNER, INSIDER]);
    check(&hidden().always_to(UserId::new(QUIET)), &[OWNER, INSIDER, QUIET]);
    check(&hidden().always_to(UserId::new(INSIDER)), &[OWNER, INSIDER]);
}

#[test]
fn user_accounts_are_spared_what_they_know_or_did_not_subscribe_to() {
    let own = |user| event(Gate::Members).never_to_user_account(UserId::new(user));
    check(&own(PLAIN), &[OWNER, INSIDER, QUIET]);
    check(&own(INSIDER), &[OWNER, PLAIN, INSIDER, QUIET]);
    let update = || Event::new(GUILD, EventName::GuildMemberUpdate, Gate::Members, Payload::GuildGone);
    check(&update(), &[INSIDER]);
    check(&update().always_to(UserId::new(PLAIN)), &[PLAIN, INSIDER]);
    check(&update().always_to(UserId::new(QUIET)), &[INSIDER, QUIET]);
}

fn message(author: u64, mentions: &[u64]) -> Message {
    let user = |id: u64| Arc::new((*member(id, &[]).user).clone());
    Message {
        id: MessageId::new(1),
        channel_id: id(OPEN),
        guild_id: GUILD,
        author: user(author),
        content: "secret".to_owned(),
        edited_timestamp: None,
        tts: false,
        mention_everyone: false,
        mentions: mentions.iter().map(|id| user(*id)).collect(),
        mention_roles: Vec::new(),
        embeds: Vec::new(),
        components: Vec::new(),
        nonce: None,
        pinned: false,
        kind: 0,
        flags: 0,
        message_reference: None,
    }
}

fn said(message: Message, referenced: Option<Message>) -> Event {
    let payload = Payload::Message(Box::new(MessageEvent {
        message: Arc::new(message),
        channel_type: ChannelType::Text,
        author: None,
        mentioned: Vec::new(),
        referenced: referenced.map(Arc::new),
    }));
    Event::new(GUILD, EventName::MessageCreate, Gate::Members, payload)
}

/// What a bot without MESSAGE_CONTENT may not read of an event: the message, the message it answers.
fn withheld(event: &Event, bot: u64) -> (bool, bool) {
    let mut index = AudienceIndex::new(meta(OWNER, &[role(1, Permissions::VIEW_CHANNEL)], &[]));
    let intents = Intents(Intents::ALL.0 & !Intents::MESSAGE_CONTENT.0);
    for (slot, kind, intents) in
        [(0, AccountKind::Bot, intents), (1, AccountKind::User, intents), (2, AccountKind::Bot, Intents::ALL)]
    {
        index.seat(Seat { slot, intents, kind }, Arc::new(member(bot, &[])));
    }
    let mut found = Vec::new();
    index.for_each(event, NOW, |slot, redaction| found.push((slot, redaction)));
    found.sort_unstable_by_key(|(slot, _)| *slot);
    assert_eq!(found[1..], [(1, Redaction::NONE), (2, Redaction::NONE)], "only bots without the intent");
    let mut body = Vec::new();
    event.render(Encoding::Json, found[0].1, &mut body);
    let body: serde_json::Value = serde_json::from_slice(&body).expect("it is JSON");
    let is_withheld = |message: &serde_json::Value| message.get("content").is_some_and(|content| content == "");
    let found = (is_withheld(&body), is_withheld(&body["referenced_message"]));
    let mut whole = Vec::new();
    event.render(Encoding::Json, Redaction::NONE, &mut whole);
    assert!(String::from_utf8(whole).expect("text").contains("secret"));
    found
}

#[test]
fn content_is_withheld_from_those_it_does_not_concern() {
    let (bot, other) = (60, 61);
    assert_eq!(withheld(&said(message(other, &[]), None), bot), (true, false));
    assert_eq!(withheld(&said(message(bot, &[]), None), bot), (false, false));
    assert_eq!(withheld(&said(message(other, &[bot]), None), bot), (false, false));
    assert_eq!(withheld(&said(message(other, &[other]), None), bot), (true, false));
    assert_eq!(withheld(&said(message(other, &[bot]), Some(message(other, &[]))), bot), (false, true));
    assert_eq!(withheld(&said(message(other, &[]), Some(message(bot, &[]))), bot), (true, false));
    assert_eq!(withheld(&said(message(other, &[]), Some(message(other, &[]))), bot), (true, true));
    assert_eq!(withheld(&said(message(bot, &[]), Some(message(other, &[bot]))), bot), (false, false));
}
