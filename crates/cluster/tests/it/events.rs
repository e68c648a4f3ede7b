//! Events: the same bodies and the same audience on the other node.

use crate::{
    examples::*,
    messages::{groups, list_ops},
    round_trip::{crossed, examples_of},
};
use guildhall_cluster::wire::{VERSION, decode, encode};
use guildhall_codec::Encoding;
use guildhall_guild_protocol::{
    Audience, AudienceRule, BackendEvent, Event, ListChange, MessageEvent, PassiveDelta, PassiveSnapshot, Payload,
    ReactionEvent, Receipt, ReceiptPlace, Redaction, ResourcePayload, ThreadEvent, Unreads, UserFilter,
};
use guildhall_member_list::ListId;
use guildhall_model::{ChannelType, EventName, Intents, InviteCode, Message, Nonce, Permissions, ReactionEmoji};
use serde_json::value::RawValue;
use std::sync::Arc;

fn payloads() -> Vec<Payload> {
    let message = |referenced| {
        Payload::Message(Box::new(MessageEvent {
            message: message(5_000),
            channel_type: ChannelType::Announcement,
            author: Some(member(7)),
            mentioned: vec![member(8), member(9)],
            referenced,
            votes: vec![(1, 3)],
        }))
    };
    let reaction = |id, member| {
        Payload::Reaction(Box::new(ReactionEvent {
            user_id: crate::examples::id(7),
            channel_id: crate::examples::id(100),
            message_id: crate::examples::id(5_000),
            author_id: crate::examples::id(8),
            emoji: ReactionEmoji { id, name: "🔥".to_owned() },
            member,
        }))
    };
    let mut examples = examples_of! { Payload:
        Message => message(Some(message_without_mentions()));
        MessageDelete => Payload::MessageDelete { id: id(5_000), channel_id: id(100) };
        Reaction => reaction(Some(id(51)), Some(member(7)));
        ReactionsCleared => Payload::ReactionsCleared {
            channel_id: id(100), message_id: id(5_000), emoji: Some(ReactionEmoji { id: None, name: "🔥".to_owned() }),
        };
        Typing => Payload::Typing { channel_id: id(100), timestamp_s: -1, member: member(7) };
        Presence => Payload::Presence { user_id: id(7), presence: presence() };
        Voice => Payload::Voice { state: voice_state(7), member: Some(member(7)) };
        VoiceServer => Payload::VoiceServer { token: "token".to_owned(), endpoint: text("voice.example.net") };
        Member => Payload::Member(member(7));
        MemberRemove => Payload::MemberRemove(user(7));
        Guild => Payload::Guild(structure(4));
        GuildGone => Payload::GuildGone;
        Role => Payload::Role(role(901));
        RoleDelete => Payload::RoleDelete(id(901));
        Channel => Payload::Channel(channel(100, ChannelType::Forum));
        ChannelMemberCount => Payload::ChannelMemberCount {
            channel_id: id(100), member_count: u64::MAX, presence_count: 3,
        };
        PassiveDelta => Payload::PassiveDelta(PassiveDelta {
            channels: vec![(id(100), id(5_000))], pins: vec![(id(100), at(1))], voice: vec![voice(7)], left: user_ids(),
        });
        PassiveSnapshot => Payload::PassiveSnapshot(PassiveSnapshot {
            channels: vec![(id(100), Some(id(5_000))), (id(101), None)], pins: vec![(id(100), at(1))], voice: vec![voice(7)],
        });
        MemberList => Payload::MemberList(Box::new(ListChange {
            list: ListId::Hash(7), member_count: 3, online_count: 2, groups: groups(), ops: list_ops(),
        }));
        Unread => Payload::Unread(Unreads { channels: vec![(id(100), id(5_000))], pins: vec![(id(100), at(1))] });
        Resource => Payload::Resource(Box::new(resources().swap_remove(0)));
        Backend => Payload::Backend(backend_event("MESSAGE_CREATE", BACKEND_MESSAGE));
    };
    examples.push(message(None));
    examples.push(reaction(None, None));
    examples.push(Payload::Voice { state: voice_state(7), member: None });
    examples.push(Payload::VoiceServer { token: String::new(), endpoint: None });
    examples.push(Payload::Backend(backend_event("ROUND_STARTED", "[1, 2.50, {\"a\" : null}]")));
    examples.push(Payload::Backend(backend_event("TYPING_START", "\"ä\"")));
    examples.extend(resources().into_iter().map(|resource| Payload::Resource(Box::new(resource))));
    examples
}

const BACKEND_MESSAGE: &str = r#" {"id":"1","channel_id":"100","content":"secret","embeds":[{}],"author":{"id":"7"},
    "mentions":[{"id":8}],"mention_roles":["9"],"mention_everyone":true,
    "referenced_message":{"content":"older","author":{"id":"10"}}}"#;

fn message_without_mentions() -> Arc<Message> {
    let text = Nonce::Text("nonce".to_owned());
    Arc::new(Message { mentions: Vec::new(), nonce: Some(text), ..Message::clone(&message(4_999)) })
}

pub fn backend_event(name: &str, body: &str) -> Arc<BackendEvent> {
    let body = RawValue::from_string(body.to_owned()).expect("JSON");
    Arc::new(BackendEvent::new(name, &body, None).expect("a valid event"))
}

fn resources() -> Vec<ResourcePayload> {
    let thread_event =
        |own, newly_created| ResourcePayload::Thread(ThreadEvent { entry: thread(200), own, newly_created });
    let mut examples = examples_of! { ResourcePayload:
        Ban => ResourcePayload::Ban { user: user(7), delete_message_s: Some(3_600) };
        AuditEntry => ResourcePayload::AuditEntry(audit_entry());
        Invite => ResourcePayload::Invite(invite());
        InviteGone => ResourcePayload::InviteGone { code: InviteCode::new(5), channel_id: id(100) };
        Webhooks => ResourcePayload::Webhooks(id(100));
        AutoModRule => ResourcePayload::AutoModRule(auto_mod_rule());
        AutoModExecution => ResourcePayload::AutoModExecution(Box::new(auto_mod_execution()));
        PollVote => ResourcePayload::PollVote { user_id: id(7), channel_id: id(100), message_id: id(5_000), answer_id: 2 };
        Pins => ResourcePayload::Pins { channel_id: id(100), last_pin_timestamp: Some(at(1)) };
        MessagesGone => ResourcePayload::MessagesGone { channel_id: id(100), ids: [id(1), id(2)].into() };
        Emojis => ResourcePayload::Emojis(Arc::new(guild()));
        Stickers => ResourcePayload::Stickers(Arc::new(guild()));
        ScheduledEvent => ResourcePayload::ScheduledEvent(scheduled_event());
        ScheduledEventUser => ResourcePayload::ScheduledEventUser { event_id: id(71), user_id: id(7) };
        Stage => ResourcePayload::Stage(Box::new(stage()));
        Thread => thread_event(Some(thread_member(200, 7)), true);
        ThreadGone => ResourcePayload::ThreadGone(channel(200, ChannelType::PublicThread));
        ThreadMember => ResourcePayload::ThreadMember(thread_member(200, 7));
        ThreadMembers => ResourcePayload::ThreadMembers {
            thread_id: id(200), members_count: 2, added: Some((thread_member(200, 7), member(7))), removed: Some(id(8)),
        };
        Direct => ResourcePayload::Direct { direct: direct(), reader: id(7) };
        Recipient => ResourcePayload::Recipient { channel_id: id(300), user: user(7) };
        ThreadMemberList => ResourcePayload::ThreadMemberList { thread_id: id(200), members: vec![entry(7), entry(8)] };
        ThreadList => ResourcePayload::ThreadList {
            channel_ids: Some([id(100)].into()), threads: vec![thread(200)], user_id: id(7), joined_only: true,
        };
    };
    examples.push(thread_event(None, false));
    examples.push(ResourcePayload::Ban { user: user(7), delete_message_s: None });
    examples.push(ResourcePayload::Pins { channel_id: id(100), last_pin_timestamp: None });
    examples
}

pub fn rules() -> Vec<AudienceRule> {
    examples_of! { AudienceRule:
        Members => AudienceRule::Members;
        Channel => AudienceRule::Channel(id(100));
        ChannelExcept => AudienceRule::ChannelExcept(id(100), id(101));
        GuildPermission => AudienceRule::GuildPermission(Permissions::ALL);
        ChannelPermission => AudienceRule::ChannelPermission(id(100), Permissions::NONE);
        Channels => AudienceRule::Channels([id(100), id(101)].into());
        List => AudienceRule::List(ListId::Everyone);
        Thread => AudienceRule::Thread { parent: id(100), thread: id(200), is_private: true, only: Some(id(7)) };
        User => AudienceRule::User(id(7));
        Users => AudienceRule::Users(user_ids().into());
        Roles => AudienceRule::Roles([id(901)].into());
    }
}

/// Each payload under each of some names, and all forms of an audience.
pub fn events() -> Vec<Event> {
    let mut events = Vec::new();
    for payload in payloads() {
        for name in [EventName::MessageCreate, EventName::MessageUpdate, EventName::ChannelCreate] {
            let event = Event::new(id(1), name, AudienceRule::Channel(id(100)), payload.clone());
            events.push(event);
        }
        events.push(Event::direct(EventName::MessageCreate, user_ids().into(), payload.clone()));
        if let Payload::Backend(event) = &payload {
            events.extend(rules().into_iter().map(|rule| Event::of_backend(id(1), rule, event.clone())));
            events.push(Event::of_backend_in_direct(user_ids().into(), event.clone()));
        }
    }
    for rule in rules() {
        let event = Event::new(id(1), EventName::GuildMemberUpdate, rule, Payload::Member(member(7)));
        events.push(event.always_to(id(7)).about(id(8)).never_to_user_account(id(9)));
    }
    let filters = examples_of! { UserFilter:
        All => UserFilter::All;
        Active => UserFilter::Active;
        Voice => UserFilter::Voice;
        Typing => UserFilter::Typing;
        MemberUpdates => UserFilter::MemberUpdates;
        Threads => UserFilter::Threads;
        Named => UserFilter::Named;
    };
    for (users, name) in filters.into_iter().cycle().zip(EventName::ALL) {
        let mut event = Event::new(id(1), *name, AudienceRule::Members, Payload::GuildGone);
        let Audience { users: filter, intents, .. } = &mut event.audience;
        (*filter, *intents) = (users, *intents | Intents::DIRECT_MESSAGES);
        events.push(event);
    }
    events
}

#[test]
fn w3_events_cross() {
    let redactions = |event: &Event| {
        let strangers = event.content_readers.as_ref().map(Redaction::for_strangers);
        [Some(Redaction::None), Some(Redaction::Channel), Some(Redaction::ChannelUnread), strangers]
    };
    let mut redacted_twice = 0;
    for event in events() {
        let received = crossed(&event);
        assert_eq!(received.wire_name(), event.wire_name());
        for redaction in redactions(&event).into_iter().flatten() {
            redacted_twice += usize::from(redaction.message() && redaction.referenced());
            for encoding in [Encoding::Json, Encoding::Etf] {
                let (mut here, mut there) = (Vec::new(), Vec::new());
                event.render(encoding, redaction, &mut here);
                received.render(encoding, redaction, &mut there);
                assert!(here == there, "{encoding:?} {redaction:?} {event:?}");
            }
        }
    }
    assert!(redacted_twice > 0);
}

/// The constructors leave them out on purpose, although the payload has some.
#[test]
fn w3_an_event_that_redacts_nothing_crosses_as_such() {
    let payload = payloads().swap_remove(0);
    let event = crossed(&Event::direct(EventName::MessageCreate, user_ids().into(), payload));
    assert!(event.content_readers.is_none() && event.audience.mentions.is_none());
    let named = AudienceRule::Users(user_ids().into());
    let event = crossed(&Event::of_backend(id(1), named, backend_event("MESSAGE_CREATE", BACKEND_MESSAGE)));
    assert!(event.content_readers.is_some() && event.audience.mentions.is_none());
}

#[derive(Debug)]
struct PlacedReceipt(Option<ReceiptPlace>);

impl Receipt for PlacedReceipt {
    fn reached(&self, _sessions: u64) {}

    fn place(&self) -> Option<ReceiptPlace> {
        self.0
    }
}

#[test]
fn a_receipt_stays_on_its_node_and_its_place_crosses() {
    let body = RawValue::from_string("{}".to_owned()).expect("JSON");
    let place = ReceiptPlace { node: 3, id: u64::MAX };
    for place in [None, Some(place)] {
        let event =
            BackendEvent::new("ROUND_STARTED", &body, Some(Arc::new(PlacedReceipt(place)))).expect("a valid event");
        let received: BackendEvent = decode(VERSION, &encode(&event)).expect("it crosses");
        assert!(event.receipt().is_some() && received.receipt().is_none());
        assert_eq!((event.receipt_place(), received.receipt_place()), (place, place));
        // The owner of the guild passes it on.
        let passed: BackendEvent = decode(VERSION, &encode(&received)).expect("it crosses");
        assert_eq!(passed.receipt_place(), place);
    }
}

/// As a node of the release before wrote it.
#[test]
fn an_event_without_a_place_is_read() {
    #[derive(serde::Serialize)]
    struct Before {
        name: &'static str,
        body: &'static str,
    }
    let event: BackendEvent =
        decode(VERSION, &encode(&Before { name: "ROUND_STARTED", body: "{}" })).expect("it is read");
    assert_eq!((event.name(), event.receipt_place()), ("ROUND_STARTED", None));
}
