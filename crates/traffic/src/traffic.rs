//! The traffic generator: a simulated clock, guilds, and one event at a time.

use crate::{
    chat::Chat,
    event::{Event, To},
    event_mix::{EventKind, kind_of_draw},
    guild::{From, GuildState, Person, Posted, Size, Within},
    large,
    node::Node,
    people,
    population::Population,
    sitting::{Persona, Sitting},
    talk,
    viewer::Viewer,
};
use bytes::Bytes;
use guildhall_codec::Encoding;
use guildhall_guild_protocol::{AudienceRule, Event as RelayEvent, MessageEvent, Payload, ReactionEvent, Redaction};
use guildhall_model::{
    ChannelId, ChannelType, EventName, Member, Message, MessageReference, Nonce, ReactionEmoji, SnowflakeGenerator,
    User, UserId,
};
use guildhall_stdx::{Rng, Timestamp};
use serde::Serialize;
use std::{collections::VecDeque, ops::Range, sync::Arc};

/// Start of the simulated time: 2026-11-02, a Monday.
const START_MS: i64 = 1_793_613_600_000;
/// Events per second, not counting passive updates and member list updates.
const RATE: u64 = 20;
/// The same in a node, per 10,000 sessions.
const RATE_OF_NODE: u64 = 200;
const PASSIVE_MS: u64 = 30_000;
/// Equals the guild's interval.
const LIST_FLUSH_MS: u64 = 200;
const ACCOUNTS: usize = 4000;
const SIZES: [Size; 12] = [
    Size { members: 2400, text_channels: 12 },
    Size { members: 1300, text_channels: 10 },
    Size { members: 800, text_channels: 9 },
    Size { members: 600, text_channels: 8 },
    Size { members: 400, text_channels: 7 },
    Size { members: 300, text_channels: 6 },
    Size { members: 200, text_channels: 5 },
    Size { members: 150, text_channels: 5 },
    Size { members: 120, text_channels: 4 },
    Size { members: 100, text_channels: 4 },
    Size { members: 80, text_channels: 3 },
    Size { members: 60, text_channels: 3 },
];
const CHANNEL_SIZE: Size = Size { members: 400, text_channels: 1 };
/// One large payload per this many deliveries to a session.
const LARGE_EVERY: f64 = 1500.0;
/// Approximate share of all events that a session receives.
const SEEN: f64 = 0.3;
/// The same of a node.
const SEEN_OF_NODE: f64 = 0.01;
/// Of a sitting: share of voice in what happens in passive guilds.
const PASSIVE_VOICE: f64 = 0.15;
/// Of a sitting: share of changes of members that the client has subscribed to.
const SEEN_MEMBERS: f64 = 0.1;
/// Members who are drawn until one may view a private channel.
const DRAWS_MAX: usize = 32;

/// Composition of the traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// One channel of messages that every session receives.
    Channel,
    /// Several guilds and channels with all kinds of events.
    #[default]
    Session,
    /// A node: accounts in many guilds, most of them small, with private channels, direct messages and bots.
    Node,
}

/// Parameters that determine the traffic, together with the chat.
#[derive(Clone, Copy, Debug)]
pub struct Params {
    pub kind: Kind,
    /// Seed of all random choices.
    pub seed: u64,
    /// Number of sessions that receive large payloads; 0 for none. Of a node: all of its sessions.
    pub sessions: u32,
}

/// An endless iterator of events.
#[derive(Debug)]
pub struct Traffic {
    params: Params,
    chat: Chat,
    rng: Rng,
    /// Simulated time since the start, in microseconds.
    at_us: u64,
    ids: SnowflakeGenerator,
    /// Of a node: those in which something happened.
    guilds: Vec<GuildState>,
    busiest: people::Zipf,
    node: Option<Box<Node>>,
    sitting: Option<Box<Sitting>>,
    /// Events change the guild, and are not rendered.
    is_quiet: bool,
    /// Channels of the present activity.
    within: Within,
    ready: VecDeque<Event>,
    events: u64,
    passive_told_ms: u64,
    /// Large payloads that are due; fractional.
    large_due: f64,
}

impl Traffic {
    /// Traffic with the message texts of `chat`.
    #[must_use]
    pub fn new(params: Params, chat: Chat) -> Self {
        let sizes: &[Size] = match params.kind {
            Kind::Channel => &[CHANNEL_SIZE],
            Kind::Session => &SIZES,
            Kind::Node => &[],
        };
        Self::with_guilds(params, sizes, chat)
    }

    fn with_guilds(params: Params, sizes: &[Size], chat: Chat) -> Self {
        let mut rng = Rng::new(params.seed ^ 0x7472_6166_6669_6300);
        let now = Timestamp(START_MS);
        let node = (params.kind == Kind::Node).then(|| Box::new(Node::new(params.seed, params.sessions)));
        let count = node.as_ref().map_or(ACCOUNTS, |node| node.population.accounts_count() as usize);
        let account = |n: usize| {
            // Evenly distributed over the last nine years.
            let made_ms = START_MS - 1 - (count - n) as i64 * (71_000_000 * ACCOUNTS as i64 / count.max(1) as i64);
            let id = guildhall_model::smallest_id_at::<guildhall_model::marker::User>(Timestamp(made_ms));
            people::user(&mut rng, UserId::new(id.get() | 0x1_2345))
        };
        let accounts: Vec<Arc<User>> = (0..count).map(account).collect();
        let of = From::Some(&accounts);
        let guilds = (0..).zip(sizes).map(|(n, size)| GuildState::new(&mut rng, n, *size, of, now)).collect();
        let busiest = match &node {
            Some(node) => people::Zipf::weighted(node.population.sizes().map(Node::busyness).collect()),
            None => people::Zipf::new(sizes.len()),
        };
        Self {
            params,
            chat,
            rng,
            at_us: 0,
            ids: SnowflakeGenerator::new(37),
            guilds,
            busiest,
            node: node.map(|node| Box::new(node.with_users(accounts))),
            sitting: None,
            is_quiet: false,
            within: Within::Any,
            ready: VecDeque::new(),
            events: 0,
            passive_told_ms: 0,
            large_due: 0.0,
        }
    }

    /// Dispatches to one client of this persona from READY on, without an end: see [`Persona::length_ms`].
    #[must_use]
    pub fn sitting(persona: Persona, seed: u64, chat: Chat) -> Self {
        let params = Params { kind: Kind::Session, seed, sessions: 0 };
        let mut traffic = Self::with_guilds(params, &persona.sizes(), chat);
        let now = traffic.now();
        let Self { rng, guilds, .. } = &mut traffic;
        guilds.iter_mut().for_each(|guild| guild.fill_newest(rng, now));
        traffic.sitting = Some(Box::new(Sitting::new(persona)));
        traffic.within = Within::Public;
        traffic
    }

    /// Population of a node; none for other kinds.
    #[must_use]
    pub fn population(&self) -> Option<Arc<Population>> {
        self.node.as_ref().map(|node| node.population.clone())
    }

    fn at_ms(&self) -> u64 {
        self.at_us / 1000
    }

    fn now(&self) -> Timestamp {
        Timestamp(START_MS + self.at_ms() as i64)
    }

    /// Generates the next event, and the periodic updates that are due before it.
    fn step(&mut self) {
        if self.sitting.is_some() {
            return self.step_of_sitting();
        }
        // Uniform between zero and twice the mean.
        let rate = match self.node {
            Some(_) => (RATE_OF_NODE * u64::from(self.params.sessions) / 10_000).max(1),
            None => RATE,
        };
        self.at_us += self.rng.below(2_000_000 / rate);
        if self.params.kind == Kind::Channel {
            self.message(0);
            return;
        }
        if self.node.is_some() {
            return self.step_of_node();
        }
        let guild = self.busiest.draw(&mut self.rng);
        let kind = kind_of_draw(self.rng.below(1000));
        self.happen(guild, kind);
        self.send_lists(0..self.guilds.len());
        self.send_passive();
        self.send_one();
    }

    fn happen(&mut self, guild: usize, kind: EventKind) {
        match kind {
            EventKind::Message => self.message(guild),
            EventKind::Edit => self.edit(guild),
            EventKind::Delete => self.delete(guild),
            EventKind::Reaction => self.reaction(guild, EventName::MessageReactionAdd),
            EventKind::Unreaction => self.reaction(guild, EventName::MessageReactionRemove),
            EventKind::ReactionsCleared => self.reactions_cleared(guild),
            EventKind::Typing => self.typing(guild),
            EventKind::Presence => self.presence(guild),
            EventKind::Voice => self.voice(guild),
            EventKind::MemberUpdate => self.member_update(guild),
            EventKind::Join => self.join(guild),
            EventKind::Leave => self.leave(guild),
            EventKind::ChannelUpdate => self.channel_update(guild),
            EventKind::RoleUpdate => self.role_update(guild),
            EventKind::GuildUpdate => self.put(guild, EventName::GuildUpdate, To::Guild, Place::default(), {
                Payload::Guild(self.guilds[guild].structure.clone())
            }),
        }
    }

    fn step_of_sitting(&mut self) {
        let Some(mut sitting) = self.sitting.take() else { return };
        let persona = sitting.persona;
        if !std::mem::replace(&mut sitting.has_begun, true) {
            self.begin_sitting(&persona);
        }
        // Uniform between zero and twice the mean.
        let rate = persona.open_rate + persona.passive_rate + persona.crowd_rate;
        self.at_us += self.rng.below(120_000_000 / rate);
        if self.at_ms() >= sitting.next_glance_ms {
            sitting.next_glance_ms = self.at_ms() + persona.glance_minutes * 60_000;
            sitting.open = self.busiest.draw(&mut self.rng);
            sitting.is_list_open = self.rng.chance(persona.lists);
            // The client fetches a state that has its changes so far.
            self.guilds[sitting.open].passive();
            self.guilds[sitting.open].list_change();
            if sitting.is_list_open {
                let payload = Payload::MemberList(Box::new(self.guilds[sitting.open].list_sync()));
                self.put(sitting.open, EventName::GuildMemberListUpdate, To::Watching, Place::default(), payload);
            }
        }
        let draw = self.rng.below(rate);
        if draw < persona.open_rate {
            let kind = kind_of_draw(self.rng.below(1000));
            self.happen_in_sight(&sitting, kind);
        } else if draw < persona.open_rate + persona.crowd_rate {
            self.happen_in_sight(&sitting, EventKind::Presence);
        } else {
            self.is_quiet = true;
            let guild = self.busiest.draw(&mut self.rng);
            if guild != sitting.open {
                if self.rng.chance(PASSIVE_VOICE) { self.voice(guild) } else { self.message(guild) }
            }
            self.is_quiet = false;
        }
        if !persona.is_bot {
            self.send_passive_of_sitting(sitting.open);
        }
        self.sitting = Some(sitting);
    }

    /// READY; for a bot, a GUILD_CREATE for each guild.
    fn begin_sitting(&mut self, persona: &Persona) {
        let luck = self.rng.fork();
        if !persona.is_bot {
            let [json, etf] = [Encoding::Json, Encoding::Etf]
                .map(|encoding| Bytes::from(large::ready(&self.guilds, &mut luck.clone(), encoding)));
            self.push(None, EventName::Ready, To::One(0), Place::default(), (json, etf));
            return;
        }
        for guild in 0..self.guilds.len() {
            let state = &self.guilds[guild];
            let [json, etf] = [Encoding::Json, Encoding::Etf]
                .map(|encoding| Bytes::from(large::guild_create(state, &mut luck.clone(), encoding)));
            self.push(Some(guild), EventName::GuildCreate, To::One(0), Place::default(), (json, etf));
        }
    }

    /// Something happens in the open guild, or in any guild of a bot.
    fn happen_in_sight(&mut self, sitting: &Sitting, kind: EventKind) {
        let persona = &sitting.persona;
        let guild = if persona.is_bot { self.busiest.draw(&mut self.rng) } else { sitting.open };
        self.is_quiet = match kind {
            EventKind::Presence => !self.rng.chance(persona.presences),
            EventKind::MemberUpdate | EventKind::Join | EventKind::Leave => {
                !persona.is_bot && !self.rng.chance(SEEN_MEMBERS)
            }
            _ => false,
        };
        self.happen(guild, kind);
        self.is_quiet = false;
        if sitting.is_list_open {
            self.send_lists(guild..guild + 1);
        }
    }

    fn send_passive_of_sitting(&mut self, open: usize) {
        if self.at_ms() < self.passive_told_ms + PASSIVE_MS {
            return;
        }
        self.passive_told_ms = self.at_ms();
        for guild in (0..self.guilds.len()).filter(|guild| *guild != open) {
            let delta = self.guilds[guild].passive();
            if !delta.is_empty() {
                let snapshot = Payload::PassiveSnapshot(self.guilds[guild].passive_snapshot());
                self.put(guild, EventName::PassiveUpdateV1, To::Passive, Place::default(), snapshot);
                let delta = Payload::PassiveDelta(delta);
                self.put(guild, EventName::PassiveUpdateV2, To::Passive, Place::default(), delta);
            }
        }
    }

    /// A tenth of the events are in direct messages, and a fifth in private channels.
    fn step_of_node(&mut self) {
        match self.rng.below(10) {
            0 => self.direct(),
            1 | 2 => {
                let guild = self.busiest.draw(&mut self.rng);
                let guild = self.guild_of_node(guild as u32);
                self.within = Within::Private;
                let kind = loop {
                    let kind = kind_of_draw(self.rng.below(1000));
                    if kind.is_in_channel() {
                        break kind;
                    }
                };
                self.happen(guild, kind);
            }
            _ => {
                let guild = self.busiest.draw(&mut self.rng);
                let guild = self.guild_of_node(guild as u32);
                self.within = Within::Public;
                let kind = kind_of_draw(self.rng.below(1000));
                self.happen(guild, kind);
                self.send_lists(guild..guild + 1);
            }
        }
        self.send_passive();
        self.send_one();
    }

    /// The state of a guild of the node, which is made when something happens in it for the first time.
    fn guild_of_node(&mut self, number: u32) -> usize {
        let now = self.now();
        let Self { node, rng, guilds, .. } = self;
        let Some(node) = node else { return 0 };
        if let Some(built) = node.built.get(&number) {
            return *built;
        }
        let users = node.guild_users(number);
        let size = Size { members: users.len(), text_channels: 2 + (users.len().ilog2() as usize).min(10) };
        guilds.push(GuildState::new(rng, number.into(), size, From::All(&users), now));
        node.numbers.push(number);
        node.built.insert(number, guilds.len() - 1);
        guilds.len() - 1
    }

    fn direct(&mut self) {
        let now = self.now();
        let Self { node, rng, chat, ids, .. } = self;
        let Some(node) = node else { return };
        let Some((direct, by, event)) = node.direct_event(rng, chat, ids, now) else { return };
        let channel = event.direct_channel();
        let [json, etf] = [Encoding::Json, Encoding::Etf].map(|encoding| {
            let mut body = Vec::new();
            event.render(encoding, Redaction::None, &mut body);
            Bytes::from(body)
        });
        let place = Place { channel, is_hidden: true, user: Some(by) };
        self.push(None, event.name, To::Direct(direct), place, (json, etf));
    }

    fn message(&mut self, guild: usize) {
        let now = self.now();
        let is_plain = self.params.kind == Kind::Channel;
        let Self { rng, guilds, chat, ids, node, within, .. } = self;
        let state = &mut guilds[guild];
        let channel = state.channel(rng, *within);
        let viewers = Viewers::of(node, guild, state.is_hidden(channel));
        let crowd = &state.crowd;
        let draw = |rng: &mut Rng| viewers.draw(crowd, rng);
        let (author, words) = state.talks[channel].next(rng, draw, if is_plain { 6 } else { 3 }, chat);
        let embed = rng.chance(0.03).then(|| talk::embed(rng, &words, &now.to_string()));
        let mut content = talk::written(rng, words, &state.emoji);
        // Some messages mention a user, some are replies.
        let mentioned = rng.chance(0.08).then(|| state.crowd.draw(rng));
        let role =
            rng.chance(0.01).then(|| rng.pick(&state.structure.roles.keys().copied().collect::<Vec<_>>()).copied());
        let answers =
            rng.chance(0.15).then(|| state.earlier(rng, *within)).flatten().map(|at| state.recent[at].clone());
        let answers = answers.filter(|posted| posted.channel == channel);
        let mut mentions: Vec<Arc<Member>> = Vec::new();
        if let Some(who) = mentioned {
            let member = state.people[who].member.clone();
            content = format!("<@{}> {content}", member.user.id);
            mentions.push(member);
        }
        if let Some(role) = role.flatten() {
            content += &format!(" <@&{role}>");
        }
        if let Some(posted) = &answers
            && mentions.iter().all(|member| member.user.id != posted.message.author.id)
        {
            mentions.push(state.people[posted.author].member.clone());
        }
        let member = state.people[author].member.clone();
        let (guild_id, channel_id) = (state.id(), state.text_channels[channel]);
        let nonce = ids.next::<guildhall_model::marker::Message>(Timestamp(now.0 - 150));
        let message = Arc::new(Message {
            content: if embed.is_some() { String::new() } else { content },
            mentions: mentions.iter().map(|member| member.user.clone()).collect(),
            mention_roles: role.flatten().into_iter().collect(),
            embeds: embed.into_iter().collect(),
            // Clients send a nonce, most bots do not.
            nonce: rng.chance(0.9).then(|| Nonce::Text(nonce.to_string())),
            kind: if answers.is_some() { Message::KIND_REPLY } else { Message::KIND_DEFAULT },
            message_reference: answers.as_ref().map(|posted| MessageReference {
                message_id: posted.message.id,
                channel_id,
                guild_id: Some(guild_id),
            }),
            ..Message::new(ids.next(now), channel_id, guild_id, member.user.clone())
        });
        let event = MessageEvent {
            message: message.clone(),
            channel_type: ChannelType::Text,
            author: Some(member),
            mentioned: mentions,
            referenced: answers.map(|posted| posted.message),
            votes: Vec::new(),
        };
        // Stored messages have no nonce: it is only echoed to the sender.
        state.posted(Posted { channel, author, message: Arc::new(Message { nonce: None, ..(*message).clone() }) });
        let place = Place::of_channel(state, channel).by(message.author.id);
        let to = if is_plain { To::Everyone } else { To::Active };
        self.put(guild, EventName::MessageCreate, to, place, Payload::Message(Box::new(event)));
    }

    fn edit(&mut self, guild: usize) {
        let now = self.now();
        let Self { rng, guilds, chat, within, .. } = self;
        let state = &mut guilds[guild];
        let Some(at) = state.earlier(rng, *within) else { return };
        let line = chat.line(rng.below(1 << 20) as usize);
        let posted = &mut state.recent[at];
        let mut message = (*posted.message).clone();
        message.edited_timestamp = Some(now);
        match rng.below(3) {
            0 => message.content += " *",
            1 => message.content += &format!(" (edit: {line})"),
            _ => message.content = line.into_owned(),
        }
        message.content = message.content.chars().take(2000).collect();
        posted.message = Arc::new(message);
        let posted = posted.clone();
        let event = MessageEvent {
            mentioned: Vec::new(),
            author: Some(state.people[posted.author].member.clone()),
            channel_type: ChannelType::Text,
            referenced: None,
            votes: Vec::new(),
            message: posted.message.clone(),
        };
        let place = Place::of_channel(state, posted.channel).by(posted.message.author.id);
        self.put(guild, EventName::MessageUpdate, To::Active, place, Payload::Message(Box::new(event)));
    }

    fn delete(&mut self, guild: usize) {
        let Self { rng, guilds, within, .. } = self;
        let state = &mut guilds[guild];
        let Some(posted) = state.earlier(rng, *within).and_then(|at| state.recent.remove(at)) else { return };
        let payload = Payload::MessageDelete { id: posted.message.id, channel_id: posted.message.channel_id };
        let place = Place::of_channel(state, posted.channel);
        self.put(guild, EventName::MessageDelete, To::Active, place, payload);
    }

    fn reaction(&mut self, guild: usize, name: EventName) {
        let Self { rng, guilds, node, within, .. } = self;
        let state = &mut guilds[guild];
        let Some(posted) = state.earlier(rng, *within).map(|at| state.recent[at].clone()) else { return };
        let viewers = Viewers::of(node, guild, state.is_hidden(posted.channel));
        let who = &state.people[viewers.draw(&state.crowd, rng)].member;
        let emoji = reaction_emoji(rng, &state.emoji);
        let payload = Payload::Reaction(Box::new(ReactionEvent {
            user_id: who.user.id,
            channel_id: posted.message.channel_id,
            message_id: posted.message.id,
            author_id: posted.message.author.id,
            emoji,
            member: (name == EventName::MessageReactionAdd).then(|| who.clone()),
        }));
        let place = Place::of_channel(state, posted.channel).by(who.user.id);
        self.put(guild, name, To::Active, place, payload);
    }

    fn reactions_cleared(&mut self, guild: usize) {
        let Self { rng, guilds, within, .. } = self;
        let state = &mut guilds[guild];
        let Some(posted) = state.earlier(rng, *within).map(|at| state.recent[at].clone()) else { return };
        let emoji = rng.chance(0.5).then(|| reaction_emoji(rng, &state.emoji));
        let name = match emoji {
            None => EventName::MessageReactionRemoveAll,
            Some(_) => EventName::MessageReactionRemoveEmoji,
        };
        let (channel_id, message_id) = (posted.message.channel_id, posted.message.id);
        let place = Place::of_channel(state, posted.channel);
        self.put(guild, name, To::Active, place, Payload::ReactionsCleared { channel_id, message_id, emoji });
    }

    fn typing(&mut self, guild: usize) {
        let timestamp_s = self.now().unix_s();
        let Self { rng, guilds, node, within, .. } = self;
        let state = &mut guilds[guild];
        let channel = state.channel(rng, *within);
        let viewers = Viewers::of(node, guild, state.is_hidden(channel));
        let member = state.people[viewers.draw(&state.crowd, rng)].member.clone();
        let place = Place::of_channel(state, channel).by(member.user.id);
        let payload = Payload::Typing { channel_id: state.text_channels[channel], timestamp_s, member };
        self.put(guild, EventName::TypingStart, To::Typing, place, payload);
    }

    fn presence(&mut self, guild: usize) {
        let now = self.now();
        let Self { rng, guilds, .. } = self;
        let state = &mut guilds[guild];
        let who = state.crowd.draw(rng);
        let before = &state.people[who];
        let presence =
            if before.presence.is_some() && rng.chance(0.35) { None } else { Some(people::presence(rng, now.0)) };
        let person = Person { member: before.member.clone(), presence };
        let user_id = person.member.user.id;
        let presence = person.presence.clone().unwrap_or_default();
        state.change(who, person);
        let place = Place { user: Some(user_id), ..Place::default() };
        let to = To::Following(user_id.get());
        self.put(guild, EventName::PresenceUpdate, to, place, Payload::Presence { user_id, presence });
    }

    fn voice(&mut self, guild: usize) {
        let Self { rng, guilds, .. } = self;
        let state = &mut guilds[guild];
        let (who, voice) = state.voice(rng);
        let member = state.people[who].member.clone();
        let place = Place { user: Some(member.user.id), ..Place::default() };
        let payload = Payload::Voice { state: voice, member: Some(member) };
        self.put(guild, EventName::VoiceStateUpdate, To::Active, place, payload);
    }

    fn member_update(&mut self, guild: usize) {
        let Self { rng, guilds, .. } = self;
        let state = &mut guilds[guild];
        let who = state.crowd.draw(rng);
        let mut person = state.people[who].clone();
        let member = Arc::make_mut(&mut person.member);
        if rng.chance(0.4) {
            member.nick = rng.chance(0.8).then(|| people::nick(rng).into());
        } else {
            let among: Vec<_> =
                state.structure.roles.keys().copied().filter(|id| id.get() != state.structure.id().get()).collect();
            let role = rng.pick(&among).copied();
            let held = member.roles.len();
            member.roles.retain(|id| Some(*id) != role);
            if held == member.roles.len() {
                member.roles.extend(role);
                member.roles.sort_unstable();
            }
        }
        let member = person.member.clone();
        state.change(who, person);
        let place = Place { user: Some(member.user.id), ..Place::default() };
        self.put(guild, EventName::GuildMemberUpdate, To::Members, place, Payload::Member(member));
    }

    fn join(&mut self, guild: usize) {
        let now = self.now();
        let Self { rng, guilds, ids, .. } = self;
        let user = people::user(rng, ids.next(now));
        let member = Arc::new(Member::new(user, now));
        let presence = rng.chance(0.8).then(|| people::presence(rng, now.0));
        if guilds[guild].join(Person { member: member.clone(), presence }) {
            let place = Place { user: Some(member.user.id), ..Place::default() };
            self.put(guild, EventName::GuildMemberAdd, To::Members, place, Payload::Member(member));
        }
    }

    fn leave(&mut self, guild: usize) {
        let Some(person) = self.guilds[guild].leave() else { return };
        let user = person.member.user.clone();
        let place = Place { user: Some(user.id), ..Place::default() };
        self.put(guild, EventName::GuildMemberRemove, To::Members, place, Payload::MemberRemove(user));
    }

    fn channel_update(&mut self, guild: usize) {
        let Self { rng, guilds, chat, .. } = self;
        let state = &mut guilds[guild];
        let channel = state.busiest.draw(rng);
        let mut structure = (*state.structure).clone();
        let Some(channel_id) = state.text_channels.get(channel) else { return };
        let Some(updated) = Arc::make_mut(&mut structure.channels).get_mut(channel_id) else { return };
        let topic: String = chat.line(rng.below(1 << 20) as usize).chars().take(1024).collect();
        Arc::make_mut(updated).topic = Some(topic);
        let updated = updated.clone();
        state.structure = Arc::new(structure);
        let place = Place::of_channel(state, channel);
        self.put(guild, EventName::ChannelUpdate, To::Guild, place, Payload::Channel(updated));
    }

    fn role_update(&mut self, guild: usize) {
        let Self { rng, guilds, .. } = self;
        let state = &mut guilds[guild];
        let mut structure = (*state.structure).clone();
        let nth = 1 + rng.below(structure.roles.len() as u64 - 1) as usize;
        let Some(role) = Arc::make_mut(&mut structure.roles).values_mut().nth(nth) else { return };
        Arc::make_mut(role).color = rng.below(1 << 24) as u32;
        let role = role.clone();
        state.structure = Arc::new(structure);
        self.put(guild, EventName::GuildRoleUpdate, To::Guild, Place::default(), Payload::Role(role));
    }

    fn send_lists(&mut self, guilds: Range<usize>) {
        let now = self.at_ms();
        for guild in guilds {
            let state = &mut self.guilds[guild];
            if state.list_told_ms + LIST_FLUSH_MS > now {
                continue;
            }
            if let Some(change) = state.list_change() {
                state.list_told_ms = now;
                let payload = Payload::MemberList(Box::new(change));
                self.put(guild, EventName::GuildMemberListUpdate, To::Watching, Place::default(), payload);
            }
        }
    }

    fn send_passive(&mut self) {
        if self.at_ms() < self.passive_told_ms + PASSIVE_MS {
            return;
        }
        self.passive_told_ms = self.at_ms();
        for guild in 0..self.guilds.len() {
            let delta = self.guilds[guild].passive();
            if !delta.is_empty() {
                let payload = Payload::PassiveDelta(delta);
                self.put(guild, EventName::PassiveUpdateV2, To::Passive, Place::default(), payload);
            }
        }
    }

    /// A large payload for one session.
    fn send_one(&mut self) {
        let seen = if self.node.is_some() { SEEN_OF_NODE } else { SEEN };
        self.large_due += f64::from(self.params.sessions) * seen / LARGE_EVERY;
        while self.large_due >= 1.0 {
            self.large_due -= 1.0;
            let session = self.rng.below(self.params.sessions.into()) as u32;
            let is_bot = match &self.node {
                Some(node) => node.population.is_bot(session),
                None => Viewer::new(self.params.seed, session).is_bot(),
            };
            let to = To::One(session);
            let mut guild = self.busiest.draw(&mut self.rng);
            if self.node.is_some() {
                guild = self.guild_of_node(guild as u32);
            }
            let Self { rng, guilds, .. } = self;
            let state = &mut guilds[guild];
            // Both bodies must describe the same data, so both use the same random state.
            let mut luck = rng.fork();
            let mut both = |name: EventName, body: fn(&GuildState, &mut Rng, Encoding) -> Vec<u8>| {
                let [json, etf] =
                    [Encoding::Json, Encoding::Etf].map(|encoding| body(state, &mut luck.clone(), encoding));
                luck = luck.fork();
                (name, Bytes::from(json), Bytes::from(etf))
            };
            let (name, body_json, body_etf) = match rng.below(10) {
                0..3 => both(EventName::GuildCreate, large::guild_create),
                // Bots have no member list.
                draw if is_bot || draw < 6 => both(EventName::GuildMembersChunk, large::chunk),
                _ => {
                    let payload = Payload::MemberList(Box::new(state.list_sync()));
                    self.put(guild, EventName::GuildMemberListUpdate, to, Place::default(), payload);
                    continue;
                }
            };
            self.push(Some(guild), name, to, Place::default(), (body_json, body_etf));
        }
    }

    fn put(&mut self, guild: usize, name: EventName, to: To, place: Place, payload: Payload) {
        if self.is_quiet {
            return;
        }
        let guild_id = self.guilds[guild].id();
        let event = RelayEvent::new(guild_id, name, AudienceRule::Members, payload);
        let rendered = |redaction: Redaction| {
            let [json, etf] = [Encoding::Json, Encoding::Etf].map(|encoding| {
                let mut body = Vec::new();
                event.render(encoding, redaction, &mut body);
                Bytes::from(body)
            });
            (json, etf)
        };
        self.push(Some(guild), name, to, place, rendered(Redaction::None));
        let Some(node) = &self.node else { return };
        let Some(readers) = &event.content_readers else { return };
        let has_strangers = node.population.has_strangers(node.numbers[guild]);
        if let Some(whole) = self.ready.back_mut() {
            whole.has_content = true;
        }
        if has_strangers {
            self.push(Some(guild), name, to, place, rendered(Redaction::for_strangers(readers)));
            if let Some(redacted) = self.ready.back_mut() {
                (redacted.has_content, redacted.is_redacted) = (true, true);
            }
        }
    }

    fn push(&mut self, guild: Option<usize>, name: EventName, to: To, place: Place, bodies: (Bytes, Bytes)) {
        let (body_json, body_etf) = bodies;
        let node = self.node.as_ref();
        let number = node.zip(guild).map_or(0, |(node, guild)| node.numbers[guild]);
        self.ready.push_back(Event {
            id: self.events,
            at_ms: self.at_ms(),
            name: name.as_str(),
            guild: guild.map_or(0, |guild| self.guilds[guild].id().get()),
            guild_number: number,
            author: node.zip(place.user).and_then(|(node, user)| node.account_number(user)),
            has_content: false,
            is_redacted: false,
            channel: place.channel.map(|id| id.get()),
            is_hidden: place.is_hidden,
            user: place.user.map(|id| id.get()),
            to,
            body_json,
            body_etf,
        });
        self.events += 1;
    }
}

impl Iterator for Traffic {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        while self.ready.is_empty() {
            self.step();
        }
        self.ready.pop_front()
    }
}

/// Members with a permission in a channel.
#[derive(Clone, Copy)]
struct Viewers<'a>(Option<(&'a Population, u32)>);

impl<'a> Viewers<'a> {
    fn of(node: &'a Option<Box<Node>>, guild: usize, is_hidden: bool) -> Self {
        Self(node.as_ref().filter(|_| is_hidden).map(|node| (&*node.population, node.numbers[guild])))
    }

    fn draw(self, crowd: &people::Zipf, rng: &mut Rng) -> usize {
        let Some((population, guild)) = self.0 else { return crowd.draw(rng) };
        let drawn = (0..DRAWS_MAX).map(|_| crowd.draw(rng)).find(|at| population.is_insider(guild, *at));
        drawn.unwrap_or(0)
    }
}

/// Guild and channel of an event.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    channel: Option<ChannelId>,
    is_hidden: bool,
    user: Option<UserId>,
}

impl Place {
    fn of_channel(state: &GuildState, channel: usize) -> Self {
        let is_hidden = state.is_hidden(channel);
        Self { channel: state.text_channels.get(channel).copied(), is_hidden, user: None }
    }

    fn by(self, user: UserId) -> Self {
        Self { user: Some(user), ..self }
    }
}

fn reaction_emoji(rng: &mut Rng, custom: &[(String, u64)]) -> ReactionEmoji {
    match rng.chance(0.25).then(|| rng.pick(custom)).flatten() {
        Some((name, id)) => ReactionEmoji { id: Some(guildhall_model::EmojiId::new(*id)), name: name.clone() },
        None => ReactionEmoji { id: None, name: talk::reaction(rng).to_owned() },
    }
}
