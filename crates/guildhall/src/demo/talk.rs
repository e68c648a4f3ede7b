//! Talk: simulated members write, react, come and go, through the same commands as everybody else.
//!
//! Owns        `Director`, which decides what happens next and is told what came of it; `talk`, which drives it.
//! Invariants  T1 messages come at `rate` per second on average, whatever the store's pace: when it is too slow, lines
//!             are dropped, never queued up. T2 at rate 0 nothing happens at all.
//! Limits      `IN_FLIGHT_MAX` actions at once, `FOLLOW_UPS_MAX` planned ones; `CAST_MAX` people talk.
//! Not here    what they say: `scene`, `text`, `chat`.

use super::{
    names::one_of,
    plan::{Plan, presence},
    scene::{Line, Said, Scene, Words},
    wall_clock,
};
use guildhall_guild::{Actor, Command, MessagePatch, NewMessage, Refusal, Reply, ReplyTo};
use guildhall_model::{ChannelId, ChannelType, GuildId, MessageId, Permissions, Presence, ReactionEmoji, UserId};
use guildhall_node::Node;
use guildhall_stdx::Rng;
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    future::Future,
    sync::Arc,
    time::Duration,
};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};

/// Enough for thousands of messages a second at a few milliseconds each.
const IN_FLIGHT_MAX: usize = 512;
/// Reactions, edits and deletions that wait for their moment.
const FOLLOW_UPS_MAX: usize = 256;
/// More voices than these nobody tells apart, and each costs a permission check per channel and refresh.
const CAST_MAX: usize = 2000;
/// Above it nobody has time to show that they type.
const TYPING_RATE_MAX: f64 = 20.0;
/// Longest pause that is made up for afterwards: a machine that slept does not wake up to a flood.
const CATCH_UP_MAX: Duration = Duration::from_secs(1);
/// How often channels, roles and members are looked at again.
const REFRESH_EVERY: Duration = Duration::from_secs(30);
/// Presence and voice changes per message, and the most of them per second.
const AMBIENT_PER_MESSAGE: f64 = 0.25;
const AMBIENT_RATE_MAX: f64 = 2.0;
/// How many sit in voice at least, and at most.
const IN_VOICE: std::ops::Range<usize> = 2..24;
const REACTIONS: &[&str] = &["👍", "😂", "❤️", "🔥", "👀", "🎉", "😮", "💯"];

/// What somebody does.
#[derive(Clone, Debug)]
enum Act {
    Say { channel_id: ChannelId, line: Line, reply_to: Option<MessageId>, typing_ms: u64 },
    React { channel_id: ChannelId, message_id: MessageId, user_id: UserId, emoji: ReactionEmoji },
    Edit { channel_id: ChannelId, said: Said, content: String },
    Delete { channel_id: ChannelId, said: Said },
    Show { user_id: UserId, presence: Option<Arc<Presence>> },
    Voice { user_id: UserId, channel_id: Option<ChannelId> },
}

/// What came of it.
#[derive(Debug)]
enum Outcome {
    Said { channel_id: ChannelId, said: Said, content: String },
    Deleted { channel_id: ChannelId, message_id: MessageId },
    Done,
    Refused(Refusal),
}

/// Decides what happens next.
pub(super) struct Director {
    guild_id: GuildId,
    rng: Rng,
    rate: f64,
    words: Words,
    cast: Vec<UserId>,
    scenes: Vec<Scene>,
    voice_rooms: Vec<ChannelId>,
    online: HashSet<UserId>,
    in_voice: HashMap<UserId, ChannelId>,
}

/// Something for later, after a message was said.
struct FollowUp {
    after: Duration,
    act: Act,
}

impl Director {
    /// Brings the plan to life at `rate` messages per second.
    pub fn new(plan: &Plan, seed: u64, rate: f64, words: Words) -> Self {
        Self {
            guild_id: plan.guild.id,
            rng: Rng::new(seed ^ 0x7a1c),
            rate,
            words,
            cast: plan.people.iter().take(CAST_MAX).map(|member| member.user.id).collect(),
            scenes: Vec::new(),
            voice_rooms: Vec::new(),
            online: plan.presences.iter().map(|(user, _)| *user).collect(),
            in_voice: plan.voice.iter().copied().collect(),
        }
    }

    /// Looks at the guild as it is: who may speak where.
    async fn refresh(&mut self, node: &Node) -> Result<(), Refusal> {
        let Reply::Guild(guild) = node.command(self.guild_id, Actor::System, Command::ReadGuild).await? else {
            return Err(Refusal::Unavailable);
        };
        let Reply::Members(members) = node.command(self.guild_id, Actor::System, Command::ReadMembers).await? else {
            return Err(Refusal::Unavailable);
        };
        let now = wall_clock();
        let cast: Vec<_> = self.cast.iter().filter_map(|user| members.entry(*user)).collect();
        let speak = Permissions::VIEW_CHANNEL | Permissions::SEND_MESSAGES;
        let mut before: HashMap<ChannelId, Scene> =
            self.scenes.drain(..).map(|scene| (scene.channel_id, scene)).collect();
        for channel in guild.meta.channels.values() {
            let weight = match channel.kind {
                ChannelType::Announcement => 0.2,
                ChannelType::Text if guild.meta.guild.system_channel_id == Some(channel.id) => 6.0,
                ChannelType::Text => 2.0,
                _ => continue,
            };
            let may_speak = |entry: &&&guildhall_relay::MemberEntry| {
                guild.meta.channel_permissions(guild.meta.standing(&entry.member, now), channel).contains(speak)
            };
            let speakers: Vec<UserId> = cast.iter().filter(may_speak).map(|entry| entry.member.user.id).collect();
            // Small circles talk less.
            let share = (speakers.len() as f64 / cast.len().max(1) as f64).max(0.2);
            let mut scene = Scene::new(channel.id, &channel.name, weight * share, speakers);
            if let Some(before) = before.remove(&channel.id) {
                scene.continue_from(before);
            }
            self.scenes.push(scene);
        }
        self.voice_rooms = guild.meta.channels.values().filter(|c| c.kind.is_voice()).map(|c| c.id).collect();
        Ok(())
    }

    /// The next message; none when nobody may speak anywhere.
    fn next_line(&mut self) -> Option<Act> {
        let total: f64 = self.scenes.iter().map(|scene| scene.weight).sum();
        let mut at = self.rng.fraction() * total;
        let index = self.scenes.iter().position(|scene| {
            at -= scene.weight;
            at < 0.0
        });
        let scene = self.scenes.get_mut(index?)?;
        let line = scene.next_line(&mut self.rng, &mut self.words)?;
        let replies = self.rng.chance(0.12);
        let reply_to = if replies { scene.recent_of_others(&mut self.rng, line.author) } else { None };
        let types = self.rate <= TYPING_RATE_MAX && self.rng.chance(0.35);
        // Some fifteen characters a second, and nobody waits for the novelist.
        let typing_ms = if types { (400 + line.text.chars().count() as u64 * 60).min(4000) } else { 0 };
        Some(Act::Say { channel_id: scene.channel_id, line, reply_to, typing_ms })
    }

    /// Somebody comes, goes, or does something else.
    fn next_ambient(&mut self) -> Option<Act> {
        let user_id = *self.rng.pick(&self.cast)?;
        if self.rng.chance(0.3) {
            return self.move_in_voice(user_id);
        }
        let leaves = self.online.contains(&user_id) && !self.in_voice.contains_key(&user_id) && self.rng.chance(0.5);
        let presence = if leaves {
            self.online.remove(&user_id);
            None
        } else {
            self.online.insert(user_id);
            Some(Arc::new(presence(&mut self.rng, wall_clock())))
        };
        Some(Act::Show { user_id, presence })
    }

    fn move_in_voice(&mut self, user_id: UserId) -> Option<Act> {
        let full =
            self.in_voice.len() >= IN_VOICE.end || (self.in_voice.len() > IN_VOICE.start && self.rng.chance(0.5));
        if full {
            let mut there: Vec<UserId> = self.in_voice.keys().copied().collect();
            there.sort_unstable();
            let user_id = *self.rng.pick(&there)?;
            self.in_voice.remove(&user_id);
            return Some(Act::Voice { user_id, channel_id: None });
        }
        let room = *self.rng.pick(&self.voice_rooms)?;
        if !self.online.contains(&user_id) || self.in_voice.insert(user_id, room) == Some(room) {
            return None;
        }
        Some(Act::Voice { user_id, channel_id: Some(room) })
    }

    /// What follows from a message that was said: reactions, a correction, second thoughts.
    fn handle_said(&mut self, channel_id: ChannelId, said: &Said, content: &str) -> Vec<FollowUp> {
        let Some(scene) = self.scenes.iter_mut().find(|scene| scene.channel_id == channel_id) else {
            return Vec::new();
        };
        scene.note(said.clone());
        let rng = &mut self.rng;
        let mut plans = Vec::new();
        if rng.chance(0.12) {
            let emoji = ReactionEmoji { id: None, name: one_of(rng, REACTIONS).to_owned() };
            for _ in 0..1 + rng.below(4) {
                let Some(user_id) = scene.somebody(rng) else { break };
                let after = Duration::from_millis(500 + rng.below(9000));
                let message_id = said.message_id;
                plans.push(FollowUp {
                    after,
                    act: Act::React { channel_id, message_id, user_id, emoji: emoji.clone() },
                });
            }
        }
        let later = Duration::from_millis(2000 + rng.below(15_000));
        match rng.below(100) {
            0..=2 => {
                let content = corrected(rng, content);
                plans.push(FollowUp { after: later, act: Act::Edit { channel_id, said: said.clone(), content } });
            }
            3 => plans.push(FollowUp { after: later, act: Act::Delete { channel_id, said: said.clone() } }),
            _ => {}
        }
        plans
    }

    fn handle_deleted(&mut self, channel_id: ChannelId, message_id: MessageId) {
        if let Some(scene) = self.scenes.iter_mut().find(|scene| scene.channel_id == channel_id) {
            scene.forget(message_id);
        }
    }

    /// The time to the next event of a kind that happens `rate` times a second.
    fn pause(&mut self, rate: f64) -> Duration {
        let seconds = -(1.0 - self.rng.fraction()).ln() / rate;
        Duration::from_secs_f64(seconds.clamp(0.0, 86_400.0))
    }
}

fn corrected(rng: &mut Rng, content: &str) -> String {
    let corrected =
        format!("{content} {}", one_of(rng, &["(edit: typo)", "— never mind, found it", "EDIT: thanks all!"]));
    // The longest messages leave no room for afterthoughts.
    if corrected.chars().count() <= 2000 { corrected } else { content.to_owned() }
}

/// Does it, as the person who does it.
async fn perform(node: Node, guild_id: GuildId, act: Act) -> Outcome {
    let command = async |actor, command| node.command(guild_id, actor, command).await;
    let done = |result: Result<Reply, Refusal>| result.map_or_else(Outcome::Refused, |_| Outcome::Done);
    match act {
        Act::Say { channel_id, line: Line { author, text }, reply_to, typing_ms } => {
            if typing_ms > 0 {
                if let Err(refusal) = command(Actor::User(author), Command::StartTyping(channel_id)).await {
                    return Outcome::Refused(refusal);
                }
                sleep(Duration::from_millis(typing_ms)).await;
            }
            let reply_to = reply_to.map(|message_id| ReplyTo { message_id, fail_if_not_exists: false });
            let message = NewMessage { content: text.clone(), reply_to, ..NewMessage::default() };
            match command(Actor::User(author), Command::CreateMessage(channel_id, Box::new(message))).await {
                Ok(Reply::Message(reply)) => Outcome::Said {
                    channel_id,
                    said: Said { message_id: reply.record.message.id, author },
                    content: text,
                },
                Ok(_) => Outcome::Done,
                Err(refusal) => Outcome::Refused(refusal),
            }
        }
        Act::React { channel_id, message_id, user_id, emoji } => {
            done(command(Actor::User(user_id), Command::AddReaction(channel_id, message_id, emoji)).await)
        }
        Act::Edit { channel_id, said, content } => {
            let patch = MessagePatch { content: Some(content), ..MessagePatch::default() };
            let edit = Command::EditMessage(channel_id, said.message_id, Box::new(patch));
            done(command(Actor::User(said.author), edit).await)
        }
        Act::Delete { channel_id, said } => {
            let delete = Command::DeleteMessage(channel_id, said.message_id);
            match command(Actor::User(said.author), delete).await {
                Ok(_) => Outcome::Deleted { channel_id, message_id: said.message_id },
                Err(refusal) => Outcome::Refused(refusal),
            }
        }
        Act::Show { user_id, presence } => done(command(Actor::System, Command::ShowPresence(user_id, presence)).await),
        Act::Voice { user_id, channel_id } => {
            done(command(Actor::System, Command::ShowVoice(user_id, channel_id)).await)
        }
    }
}

/// Lets them talk until `stop`, or until the guild is gone.
pub(super) async fn talk(node: &Node, mut director: Director, stop: impl Future<Output = ()>) {
    tokio::pin!(stop);
    if director.rate <= 0.0 {
        return stop.await; // T2
    }
    if let Err(refusal) = director.refresh(node).await {
        tracing::warn!(%refusal, "the demo's guild cannot be read: nobody talks");
        return stop.await;
    }
    let guild_id = director.guild_id;
    let ambient_rate = (director.rate * AMBIENT_PER_MESSAGE).min(AMBIENT_RATE_MAX);
    let mut tasks = JoinSet::new();
    let mut follow_ups: BTreeMap<(Instant, u64), Act> = BTreeMap::new();
    let mut planned_count: u64 = 0;
    let (mut dropped_count, mut said_count): (u64, u64) = (0, 0);
    let mut next_line_at = Instant::now();
    let mut next_ambient_at = Instant::now();
    let mut refresh_at = Instant::now() + REFRESH_EVERY;
    loop {
        let follow_up_at = follow_ups.first_key_value().map(|((at, _), _)| *at);
        let act = tokio::select! {
            () = &mut stop => break,
            Some(outcome) = tasks.join_next() => {
                match outcome {
                    Ok(Outcome::Said { channel_id, said, content }) => {
                        said_count += 1;
                        for FollowUp { after, act } in director.handle_said(channel_id, &said, &content) {
                            if follow_ups.len() < FOLLOW_UPS_MAX {
                                planned_count += 1;
                                follow_ups.insert((Instant::now() + after, planned_count), act);
                            }
                        }
                    }
                    Ok(Outcome::Deleted { channel_id, message_id }) => director.handle_deleted(channel_id, message_id),
                    Ok(Outcome::Refused(Refusal::UnknownGuild)) => {
                        tracing::info!("the demo's guild is gone: nobody talks any more");
                        return stop.await;
                    }
                    // Roles or channels were changed, or the node is busy: look again soon.
                    Ok(Outcome::Refused(_)) => refresh_at = refresh_at.min(Instant::now() + Duration::from_secs(1)),
                    Ok(Outcome::Done) => {}
                    Err(error) => tracing::error!(%error, "a simulated member failed"),
                }
                None
            }
            () = sleep_until(next_line_at) => {
                next_line_at = next_line_at.max(Instant::now() - CATCH_UP_MAX) + director.pause(director.rate);
                director.next_line()
            }
            () = sleep_until(next_ambient_at) => {
                next_ambient_at = next_ambient_at.max(Instant::now() - CATCH_UP_MAX) + director.pause(ambient_rate);
                director.next_ambient()
            }
            () = sleep_until(follow_up_at.unwrap_or(refresh_at)), if follow_up_at.is_some() => {
                follow_ups.pop_first().map(|(_, act)| act)
            }
            () = sleep_until(refresh_at) => {
                refresh_at = Instant::now() + REFRESH_EVERY;
                if let Err(refusal) = director.refresh(node).await {
                    tracing::warn!(%refusal, "the demo's guild cannot be read now");
                }
                None
            }
        };
        let Some(act) = act else { continue };
        if tasks.len() < IN_FLIGHT_MAX {
            tasks.spawn(perform(node.clone(), guild_id, act));
        } else {
            dropped_count += 1; // T1
        }
    }
    tasks.shutdown().await;
    tracing::info!(said_count, dropped_count, "simulated members fell silent");
}
