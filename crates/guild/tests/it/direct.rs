//! Direct messages and groups, by a random walk: permitted commands, recipients, and stored state.

use crate::fixture::{NaiveStore, text, user};
use guildhall_codec::Encoding;
use guildhall_guild::{
    Actor, CachedMessage, ChannelPatch, Command, DirectCommand, Guild, GuildLimits, MessagePatch, NewDirect, Outcome,
    Output, Reply,
};
use guildhall_guild_protocol::{Payload, Redaction, ResourcePayload};
use guildhall_model::{ChannelId, Direct, EventName, MessageId, ReactionEmoji, UserId};
use guildhall_stdx::{Now, Rng};
use std::collections::BTreeSet;

const ID: ChannelId = ChannelId::new(5_000);
/// Some of them are in it.
const PEOPLE: u64 = 6;
const STEPS: u64 = 400;

fn person(n: u64) -> UserId {
    UserId::new(100 + n)
}

struct Walk {
    guild: Guild,
    store: NaiveStore,
    rng: Rng,
    now: Now,
    /// Accounts that receive messages.
    inside: BTreeSet<UserId>,
    /// Accounts that received CHANNEL_CREATE, and no CHANNEL_DELETE after it.
    listed: BTreeSet<UserId>,
    messages: Vec<MessageId>,
    events_count: usize,
}

impl Walk {
    fn new(seed: u64, is_group: bool) -> Self {
        let now = Now::new(1, 1_700_000_000_000);
        let people = if is_group { 3 } else { 2 };
        let recipients = (0..people).map(|n| user(person(n))).collect();
        let guild = Guild::create_direct(now, NewDirect { id: ID, recipients, is_group }, GuildLimits::default(), 1);
        let users = (0..PEOPLE).map(|n| (person(n), user(person(n)))).collect();
        let store = NaiveStore { users, ..NaiveStore::default() };
        let inside = (0..people).map(person).collect();
        let (rng, listed) = (Rng::new(seed), BTreeSet::new());
        let mut walk = Self { guild, store, rng, now, inside, listed, messages: Vec::new(), events_count: 0 };
        walk.drain();
        assert_eq!(walk.listed, walk.inside, "every recipient receives CHANNEL_CREATE");
        walk
    }

    /// Stores and checks all outputs.
    fn drain(&mut self) {
        while let Some(output) = self.guild.poll_output() {
            let published = match output {
                Output::Write(write) => {
                    self.store.apply(write);
                    continue;
                }
                Output::Users(published) => published,
                other => panic!("{other:?}"),
            };
            let event = &published.event;
            let to = event.audience.rule.users();
            self.events_count += 1;
            assert!(event.is_direct() && !to.is_empty() && to.is_sorted(), "{event:?}");
            assert!(event.content_readers.is_none(), "nothing is withheld");
            let mut body = Vec::new();
            event.render(Encoding::Json, Redaction::None, &mut body);
            let body = String::from_utf8(body).unwrap();
            assert!(!body.contains("guild_id") && !body.contains("\"member\""), "I2: {body}");
            match (event.name, &event.payload) {
                (EventName::ChannelCreate, _) => drop(self.listed.insert(to[0])),
                (EventName::ChannelDelete, _) => assert!(self.listed.remove(&to[0]), "it was there"),
                (_, Payload::Resource(resource))
                    if matches!(**resource, ResourcePayload::Direct { .. } | ResourcePayload::Recipient { .. }) => {}
                _ => {
                    let recipients: BTreeSet<UserId> = to.iter().copied().collect();
                    assert_eq!(recipients, self.inside, "I1: {event:?}");
                }
            }
            if event.name == EventName::MessageCreate {
                assert_eq!(self.listed, self.inside, "I4");
            }
            if let Payload::Resource(resource) = &event.payload
                && let ResourcePayload::Direct { direct, .. } = &**resource
            {
                let owner = direct.channel.direct.as_ref().and_then(|direct| direct.owner_id);
                let is_in = |owner: UserId| direct.recipients.iter().any(|user| user.id == owner);
                assert!(owner.is_none_or(is_in) || event.name == EventName::ChannelDelete, "I3");
                assert!(direct.recipients.len() <= Direct::RECIPIENTS_MAX);
            }
        }
        let version = self.guild.version();
        self.guild.handle_committed(version);
    }

    fn message(&mut self) -> MessageId {
        match self.messages.len() {
            0 => MessageId::new(1),
            len => self.messages[self.rng.below(len as u64) as usize],
        }
    }

    fn step(&mut self) {
        self.now = Now::new(self.now.instant.0 + 1_000, self.now.unix.0 + 1_000);
        let actor = person(self.rng.below(PEOPLE));
        let other = person(self.rng.below(PEOPLE));
        let fire = ReactionEmoji { id: None, name: "🔥".to_owned() };
        let command = match self.rng.below(15) {
            0..=2 => Command::CreateMessage(ID, Box::new(text("hello"))),
            3 => {
                let patch = MessagePatch { content: Some("changed".to_owned()), ..MessagePatch::default() };
                Command::EditMessage(ID, self.message(), Box::new(patch))
            }
            4 => Command::DeleteMessage(ID, self.message()),
            5 => Command::AddReaction(ID, self.message(), fire),
            6 => Command::RemoveReaction(ID, self.message(), fire, actor),
            7 => Command::Pin(ID, self.message()),
            8 => Command::StartTyping(ID),
            9 => Command::DeleteChannel(ID),
            10 => Command::Direct(DirectCommand::Open),
            11 | 12 => Command::Direct(DirectCommand::AddRecipient(user(other))),
            13 => Command::Direct(DirectCommand::RemoveRecipient(other)),
            _ => {
                let name = format!("name {}", self.rng.below(3));
                Command::UpdateChannel(ID, Box::new(ChannelPatch { name: Some(name), ..ChannelPatch::default() }))
            }
        };
        let is_group = self.listed_kind();
        // The walk keeps one recipient.
        if is_group && self.inside.len() == 1 && matches!(command, Command::DeleteChannel(_)) {
            return;
        }
        if self.inside.len() == 1 && matches!(command, Command::Direct(DirectCommand::RemoveRecipient(_))) {
            return;
        }
        let was_inside = self.inside.contains(&actor);
        let events_before = self.events_count;
        let reply = loop {
            match self.guild.handle_command(self.now, Actor::User(actor), &command) {
                Outcome::Reply(reply) => break reply,
                Outcome::NeedsMessage(channel, message) => {
                    let record = self.store.message(channel, message).map(CachedMessage::from);
                    self.guild.handle_message_loaded(channel, message, record);
                }
                Outcome::Later(_) => panic!("nothing here takes long"),
            }
        };
        if reply.is_ok() {
            match &command {
                Command::DeleteChannel(_) if is_group => drop(self.inside.remove(&actor)),
                Command::Direct(DirectCommand::AddRecipient(user)) => drop(self.inside.insert(user.id)),
                Command::Direct(DirectCommand::RemoveRecipient(user)) => drop(self.inside.remove(user)),
                _ => {}
            }
        }
        if let Ok(Reply::Message(reply)) = &reply {
            self.messages.push(reply.message.id);
        }
        self.drain();
        if !was_inside {
            assert!(reply.is_err(), "I1: {actor} sent {command:?}");
            assert_eq!(self.events_count, events_before);
        }
    }

    fn listed_kind(&self) -> bool {
        self.store.channels.values().any(|channel| channel.kind == guildhall_model::ChannelType::GroupDm)
    }

    fn as_it_is(guild: &mut Guild, now: Now) -> Direct {
        match guild.handle_command(now, Actor::System, &Command::Direct(DirectCommand::Open)) {
            Outcome::Reply(Ok(Reply::Direct(direct))) => direct,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn i1_to_i4_a_random_walk() {
    for seed in 0..60 {
        let mut walk = Walk::new(seed, seed % 2 == 0);
        (0..STEPS).for_each(|_| walk.step());
        assert!(walk.events_count > 50, "seed {seed}: something happened");
        let mut loaded = Guild::load(walk.store.record(), GuildLimits::default(), 2);
        let (before, after) = (Walk::as_it_is(&mut walk.guild, walk.now), Walk::as_it_is(&mut loaded, walk.now));
        // The newest message may have been deleted.
        let channel = |direct: &Direct| guildhall_model::Channel {
            last_message_id: None,
            ..guildhall_model::Channel::clone(&direct.channel)
        };
        assert_eq!(channel(&before), channel(&after), "seed {seed}");
        assert_eq!(before.recipients, after.recipients, "seed {seed}");
        assert!(loaded.is_direct());
    }
}

#[test]
fn guild_commands_are_refused_even_for_the_system() {
    let mut walk = Walk::new(1, false);
    for command in [Command::ReadGuild, Command::ReadMembers, Command::DeleteGuild, Command::ListThreads] {
        for actor in [Actor::System, Actor::User(person(0))] {
            let outcome = walk.guild.handle_command(walk.now, actor, &command);
            let refused = matches!(outcome, Outcome::Reply(Err(guildhall_guild::Refusal::UnknownGuild)));
            assert!(refused, "{command:?} {outcome:?}");
        }
    }
}
