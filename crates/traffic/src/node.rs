//! Node: state of a node's traffic apart from its guilds: population, users and direct messages.
//!
//! Owns        `Node`, the state behind [`Kind::Node`](crate::Kind::Node).
//! Limits      `RECENT_MAX` messages are remembered per direct message.
//! Not here    events in guilds: `traffic.rs`; recipients: `population.rs`.

use crate::{chat::Chat, people::Zipf, population::Population, talk};
use guildhall_guild_protocol::{Event as RelayEvent, MessageEvent, Payload, ReactionEvent};
use guildhall_model::{
    ChannelId, ChannelType, EventName, Member, Message, Nonce, ReactionEmoji, SnowflakeGenerator, User, UserId,
};
use guildhall_stdx::{Rng, Timestamp};
use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

/// Messages of a direct message that may still be edited and reacted to.
const RECENT_MAX: usize = 16;
/// Guilds are as busy as their size to this power: in large ones each member writes less.
const BUSYNESS: f64 = 0.75;

#[derive(Debug)]
struct Direct {
    channel: ChannelId,
    /// Where in the chat its people are.
    line: usize,
    recent: VecDeque<Message>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Node {
    pub population: Arc<Population>,
    users: Vec<Arc<User>>,
    numbers_by_user: HashMap<UserId, u32>,
    /// Index of each guild in which something happened, and the number of each index.
    pub built: HashMap<u32, usize>,
    pub numbers: Vec<u32>,
    directs: HashMap<u32, Direct>,
    busiest: Zipf,
}

impl Node {
    pub fn new(seed: u64, sessions: u32) -> Self {
        let population = Population::new(seed, sessions);
        Self {
            busiest: Zipf::weighted(vec![1.0; population.directs().len().max(1)]),
            population: Arc::new(population),
            users: Vec::new(),
            numbers_by_user: HashMap::new(),
            built: HashMap::new(),
            numbers: Vec::new(),
            directs: HashMap::new(),
        }
    }

    pub fn with_users(mut self, users: Vec<Arc<User>>) -> Self {
        self.numbers_by_user = users.iter().map(|user| user.id).zip(0..).collect();
        self.users = users;
        // One in ten of the conversations has nearly half of the messages.
        self.busiest = Zipf::new(self.population.directs().len().max(1));
        self
    }

    /// How much happens in a guild with this many members online.
    pub fn busyness(size: usize) -> f64 {
        (size as f64).powf(BUSYNESS)
    }

    /// Members of a guild.
    pub fn guild_users(&self, guild: u32) -> Vec<Arc<User>> {
        self.population.members(guild).iter().map(|account| self.users[*account as usize].clone()).collect()
    }

    /// The account of a user; none if the user is not online.
    pub fn account_number(&self, user_id: UserId) -> Option<u32> {
        self.numbers_by_user.get(&user_id).copied()
    }

    /// The next event in a direct message: its number, the author, and the event.
    pub fn direct_event(
        &mut self,
        rng: &mut Rng,
        chat: &Chat,
        ids: &mut SnowflakeGenerator,
        now: Timestamp,
    ) -> Option<(u32, UserId, RelayEvent)> {
        let number = self.busiest.draw(rng) as u32;
        let accounts = self.population.directs().get(number as usize)?;
        let users: Vec<Arc<User>> = accounts.iter().map(|account| self.users[*account as usize].clone()).collect();
        let direct = self.directs.entry(number).or_insert_with(|| Direct {
            channel: ChannelId::new((1_180_000_000_000_000_000 + u64::from(number) * 7_919_113_777) & !0xfff),
            line: rng.next_u64() as usize >> 24,
            recent: VecDeque::new(),
        });
        let channel_type = if users.len() > 2 { ChannelType::GroupDm } else { ChannelType::Dm };
        let by = rng.pick(&users)?.clone();
        let message_event = |message: &Message| {
            Payload::Message(Box::new(MessageEvent {
                message: Arc::new(message.clone()),
                channel_type,
                author: None,
                mentioned: Vec::new(),
                referenced: None,
                votes: Vec::new(),
            }))
        };
        let some_recent = |rng: &mut Rng, recent: &VecDeque<Message>| {
            (!recent.is_empty()).then(|| rng.below(recent.len() as u64) as usize)
        };
        let (name, payload) = match rng.below(100) {
            0..35 => {
                let member = Arc::new(Member::new(by.clone(), now));
                let timestamp_s = now.unix_s();
                (EventName::TypingStart, Payload::Typing { channel_id: direct.channel, timestamp_s, member })
            }
            35..40 if let Some(at) = some_recent(rng, &direct.recent) => {
                let message = &mut direct.recent[at];
                message.edited_timestamp = Some(now);
                message.content = chat.line(rng.below(1 << 20) as usize).chars().take(2000).collect();
                (EventName::MessageUpdate, message_event(message))
            }
            40..50 if let Some(at) = some_recent(rng, &direct.recent) => {
                let message = &direct.recent[at];
                let payload = Payload::Reaction(Box::new(ReactionEvent {
                    user_id: by.id,
                    channel_id: direct.channel,
                    message_id: message.id,
                    author_id: message.author.id,
                    emoji: ReactionEmoji { id: None, name: talk::reaction(rng).to_owned() },
                    member: None,
                }));
                (EventName::MessageReactionAdd, payload)
            }
            _ => {
                let line = chat.line(direct.line);
                direct.line += 1;
                let nonce = ids.next::<guildhall_model::marker::Message>(Timestamp(now.0 - 150));
                let mut message = Message {
                    content: talk::written(rng, line, &[]),
                    nonce: Some(Nonce::Text(nonce.to_string())),
                    ..Message::new(ids.next(now), direct.channel, None, by.clone())
                };
                let payload = message_event(&message);
                message.nonce = None;
                if direct.recent.len() == RECENT_MAX {
                    direct.recent.pop_front();
                }
                direct.recent.push_back(message);
                (EventName::MessageCreate, payload)
            }
        };
        let mut user_ids: Vec<UserId> = users.iter().map(|user| user.id).collect();
        user_ids.sort_unstable();
        Some((number, by.id, RelayEvent::direct(name, user_ids.into(), payload)))
    }
}
