//! Commands in a direct message: whether they are permitted, their events, and the recipients, in order
//! (docs/protocol/reference.md §10.2).

use super::{DirectEvent, DirectModel, direct::direct_text};
use guildhall_guild::{Actor, Command, DirectCommand};
use guildhall_guild_protocol::{AudienceRule, Payload, Published};
use std::{collections::BTreeSet, sync::Arc};

/// Most people in a group.
const PEOPLE_MAX: usize = 10;
const KIND_DEFAULT: u8 = 0;
const KIND_ADDED: u8 = 1;
const KIND_REMOVED: u8 = 2;
const KIND_RENAMED: u8 = 4;
const KIND_PINNED: u8 = 6;
const KIND_REPLY: u8 = 19;

/// An event that has to come.
#[derive(Debug)]
struct ExpectedEvent {
    name: &'static str,
    to: BTreeSet<u64>,
    is_left: bool,
    content: ExpectedContent,
}

#[derive(Debug)]
enum ExpectedContent {
    This(String),
    /// A new message: author, kinds that it may be of, and its content if that follows.
    Message(u64, [u8; 2], Option<String>),
    /// About this message, or none: as the event has it.
    About(Option<u64>),
}

impl ExpectedEvent {
    fn to(name: &'static str, to: BTreeSet<u64>, content: ExpectedContent) -> Self {
        Self { name, to, is_left: false, content }
    }
}

fn user_of(actor: Actor) -> Option<u64> {
    match actor {
        Actor::User(user) => Some(user.get()),
        Actor::System => None,
    }
}

impl DirectModel {
    /// Whether a command must succeed; none: that depends on what it is about.
    fn must_succeed(&self, actor: Actor, command: &Command) -> Option<bool> {
        let user = user_of(actor);
        let is_in = user.is_none_or(|user| self.people.contains_key(&user));
        if self.is_gone || !is_in {
            return Some(false);
        }
        let is_owner = user.is_none_or(|user| user == self.owner);
        match command {
            Command::Direct(DirectCommand::Open) | Command::DeleteChannel(_) => Some(true),
            Command::CreateMessage(..) | Command::StartTyping(_) => Some(user.is_some()),
            Command::Direct(DirectCommand::AddRecipient(added)) => {
                let is_new = !self.people.contains_key(&added.id.get());
                Some(self.is_group && (!is_new || !added.bot && self.people.len() < PEOPLE_MAX))
            }
            Command::Direct(DirectCommand::RemoveRecipient(removed)) => {
                let may = is_owner || user == Some(removed.get());
                Some(self.is_group && may && self.people.contains_key(&removed.get()))
            }
            Command::UpdateChannel(_, patch) => {
                let owner = patch.owner_id.map(|id| id.get()).filter(|id| *id != self.owner);
                Some(self.is_group && owner.is_none_or(|id| is_owner && self.people.contains_key(&id)))
            }
            Command::EditMessage(_, message, _) | Command::DeleteMessage(_, message) => {
                let author = self.messages.get(&message.get());
                Some(author.is_some_and(|author| user.is_none_or(|user| user == *author)))
            }
            Command::AddReaction(_, message, _) => Some(user.is_some() && self.messages.contains_key(&message.get())),
            Command::RemoveReaction(_, message, _, whose) => {
                let may = user.is_none_or(|user| user == whose.get());
                Some(may && self.messages.contains_key(&message.get()))
            }
            Command::Pin(_, message) | Command::Unpin(_, message) => Some(self.messages.contains_key(&message.get())),
            _ => None,
        }
    }

    fn seen_by_each(&self, name: &'static str, readers: impl IntoIterator<Item = u64>) -> Vec<ExpectedEvent> {
        let content = |reader| ExpectedContent::This(format!("{name} {}", self.text_for(reader, self.newest)));
        readers.into_iter().map(|reader| ExpectedEvent::to(name, [reader].into(), content(reader))).collect()
    }

    /// Recipients who closed it have it in their list again.
    fn open(&mut self, is_meant: impl Fn(u64) -> bool) -> Vec<ExpectedEvent> {
        let back: Vec<u64> = self.closed_by.iter().copied().filter(|user| is_meant(*user)).collect();
        self.closed_by.retain(|user| !back.contains(user));
        self.seen_by_each("CHANNEL_CREATE", back)
    }

    fn say(&mut self, author: u64, kinds: [u8; 2], content: Option<String>) -> Vec<ExpectedEvent> {
        let mut due = self.open(|_| true);
        due.push(ExpectedEvent::to(
            "MESSAGE_CREATE",
            self.recipients(),
            ExpectedContent::Message(author, kinds, content),
        ));
        due
    }

    fn recipient(&self, name: &'static str, user: u64) -> ExpectedEvent {
        ExpectedEvent::to(
            name,
            self.recipients(),
            ExpectedContent::This(format!("{name} channel={} user={user}", self.id)),
        )
    }

    fn about(&self, name: &'static str, message: Option<u64>) -> ExpectedEvent {
        ExpectedEvent::to(name, self.recipients(), ExpectedContent::About(message))
    }

    fn leave(&mut self, actor: Actor, user: u64) -> Vec<ExpectedEvent> {
        let mut due = self.seen_by_each("CHANNEL_DELETE", [user]);
        due.iter_mut().for_each(|due| due.is_left = true);
        self.people.remove(&user);
        let Some((_, oldest)) = self.people.iter().map(|(user, since)| (*since, *user)).min() else {
            self.is_gone = true;
            return due;
        };
        due.push(self.recipient("CHANNEL_RECIPIENT_REMOVE", user));
        if self.owner == user {
            self.owner = oldest;
            due.extend(self.seen_by_each("CHANNEL_UPDATE", self.recipients()));
        }
        due.extend(self.say(user_of(actor).unwrap_or(user), [KIND_REMOVED; 2], Some(String::new())));
        due
    }

    /// Events of a command that succeeded.
    fn done(&mut self, now_unix_ms: i64, actor: Actor, command: &Command) -> Vec<ExpectedEvent> {
        let user = user_of(actor);
        match command {
            Command::Direct(DirectCommand::Open) => self.open(|of| Some(of) == user),
            Command::CreateMessage(_, new) => {
                self.say(user.unwrap_or_default(), [KIND_DEFAULT, KIND_REPLY], Some(new.content.clone()))
            }
            Command::StartTyping(_) => vec![self.about("TYPING_START", None)],
            // Every edit in the simulation changes the content.
            Command::EditMessage(_, message, _) => vec![self.about("MESSAGE_UPDATE", Some(message.get()))],
            Command::DeleteMessage(_, message) => {
                self.messages.remove(&message.get());
                self.pinned.remove(&message.get());
                self.reactions.retain(|(of, ..)| *of != message.get());
                vec![self.about("MESSAGE_DELETE", Some(message.get()))]
            }
            Command::AddReaction(_, message, emoji) => {
                let is_new = self.reactions.insert((message.get(), emoji.name.clone(), user.unwrap_or_default()));
                let due = || self.about("MESSAGE_REACTION_ADD", Some(message.get()));
                is_new.then(due).into_iter().collect()
            }
            Command::RemoveReaction(_, message, emoji, whose) => {
                let was_there = self.reactions.remove(&(message.get(), emoji.name.clone(), whose.get()));
                let due = || self.about("MESSAGE_REACTION_REMOVE", Some(message.get()));
                was_there.then(due).into_iter().collect()
            }
            Command::Pin(_, message) if self.pinned.insert(message.get()) => {
                let mut due = self.changed_pins(message.get());
                if let Some(user) = user {
                    due.extend(self.say(user, [KIND_PINNED; 2], Some(String::new())));
                }
                due
            }
            Command::Unpin(_, message) if self.pinned.remove(&message.get()) => self.changed_pins(message.get()),
            Command::Direct(DirectCommand::AddRecipient(added)) => {
                let id = added.id.get();
                if self.people.contains_key(&id) {
                    return Vec::new();
                }
                let mut due = vec![self.recipient("CHANNEL_RECIPIENT_ADD", id)];
                self.people.insert(id, now_unix_ms);
                due.extend(self.seen_by_each("CHANNEL_CREATE", [id]));
                due.extend(self.say(user.unwrap_or(id), [KIND_ADDED; 2], Some(String::new())));
                due
            }
            Command::Direct(DirectCommand::RemoveRecipient(removed)) => self.leave(actor, removed.get()),
            Command::UpdateChannel(_, patch) => {
                let owner = patch.owner_id.map_or(self.owner, |id| id.get());
                let name = patch.name.clone().filter(|name| *name != self.name);
                if owner == self.owner && name.is_none() {
                    return Vec::new();
                }
                self.owner = owner;
                name.iter().for_each(|name| self.name.clone_from(name));
                let mut due = self.seen_by_each("CHANNEL_UPDATE", self.recipients());
                if let (Some(user), Some(name)) = (user, name) {
                    due.extend(self.say(user, [KIND_RENAMED; 2], Some(name)));
                }
                due
            }
            Command::DeleteChannel(_) => match user {
                None => {
                    let mut due = self.seen_by_each("CHANNEL_DELETE", self.recipients());
                    due.iter_mut().for_each(|due| due.is_left = self.is_group);
                    self.is_gone = true;
                    due
                }
                Some(user) if self.is_group => self.leave(actor, user),
                Some(user) if !self.closed_by.contains(&user) => {
                    self.closed_by.push(user);
                    self.seen_by_each("CHANNEL_DELETE", [user])
                }
                Some(_) => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    fn changed_pins(&self, message: u64) -> Vec<ExpectedEvent> {
        vec![self.about("MESSAGE_UPDATE", Some(message)), self.about("CHANNEL_PINS_UPDATE", None)]
    }

    /// It was created: its recipients receive it.
    pub fn made(&mut self, published: &[Arc<Published>]) -> Result<Vec<DirectEvent>, String> {
        let due = self.seen_by_each("CHANNEL_CREATE", self.recipients());
        self.agree(due, published)
    }

    /// A command was handled, and `published` came of it.
    ///
    /// # Errors
    /// If the result, the recipients or the events are wrong.
    pub fn follow(
        &mut self,
        now_unix_ms: i64,
        actor: Actor,
        command: &Command,
        succeeded: bool,
        published: &[Arc<Published>],
    ) -> Result<Vec<DirectEvent>, String> {
        if self.must_succeed(actor, command).is_some_and(|must| must != succeeded) {
            return Err(format!("{actor:?} {command:?}: ok {succeeded}, in {self:?}"));
        }
        let due = if succeeded { self.done(now_unix_ms, actor, command) } else { Vec::new() };
        self.agree(due, published).map_err(|what| format!("{actor:?} {command:?}: {what}"))
    }

    /// Holds events against those that had to come.
    fn agree(&mut self, due: Vec<ExpectedEvent>, published: &[Arc<Published>]) -> Result<Vec<DirectEvent>, String> {
        let names = || published.iter().map(|published| published.event.name.as_str()).collect::<Vec<_>>();
        if due.len() != published.len() {
            return Err(format!("{due:?} had to be published, but not {:?}", names()));
        }
        due.into_iter().zip(published).map(|(due, published)| self.agree_on(due, published)).collect()
    }

    fn agree_on(&mut self, due: ExpectedEvent, published: &Published) -> Result<DirectEvent, String> {
        let event = &published.event;
        let to: BTreeSet<u64> = match &event.audience.rule {
            AudienceRule::Users(users) => users.iter().map(|user| user.get()).collect(),
            _ => BTreeSet::new(),
        };
        let wrong = |what: &str| Err(format!("{what}: {due:?} had to be published, but not {event:?}"));
        if event.name.as_str() != due.name || event.guild_id.is_some() {
            return wrong("another event");
        }
        if to != due.to {
            return wrong("other recipients");
        }
        let text = match &due.content {
            ExpectedContent::This(text) => text.clone(),
            content if about(&event.payload, self.id, content) => direct_text(due.name, &event.payload),
            _ => return wrong("other content"),
        };
        if let (ExpectedContent::Message(author, ..), Payload::Message(sent)) = (&due.content, &event.payload) {
            let id = sent.message.id.get();
            if id <= self.newest {
                return wrong("an older message");
            }
            self.messages.insert(id, *author);
            self.newest = id;
        }
        Ok(DirectEvent { channel: self.id, name: due.name, to: due.to, text: text.into(), is_left: due.is_left })
    }
}

/// Whether an event is in this channel, and about what it has to be.
fn about(payload: &Payload, channel: u64, content: &ExpectedContent) -> bool {
    let (place, message) = match payload {
        Payload::Message(event) => (event.message.channel_id, Some(event.message.id)),
        Payload::Reaction(event) => (event.channel_id, Some(event.message_id)),
        Payload::Typing { channel_id, .. } => (*channel_id, None),
        Payload::MessageDelete { id, channel_id } => (*channel_id, Some(*id)),
        Payload::Resource(resource) => match &**resource {
            guildhall_guild_protocol::ResourcePayload::Pins { channel_id, .. } => (*channel_id, None),
            _ => return false,
        },
        _ => return false,
    };
    let is_it = match (content, payload) {
        (ExpectedContent::Message(author, kinds, content), Payload::Message(event)) => {
            let message = &event.message;
            message.author.id.get() == *author
                && kinds.contains(&message.kind)
                && content.as_ref().is_none_or(|content| *content == message.content)
        }
        (ExpectedContent::About(of), _) => message.map(|id| id.get()) == *of,
        _ => false,
    };
    place.get() == channel && is_it
}
