//! Director: chooses the next actions of simulated members.
//!
//! Owns        `Director`, which knows the channels and their permitted speakers, decides, and receives the results.
//! Invariants  D1 a channel has one message in progress: while a member types, the others wait. (test `d1_*`)
//! Limits      `CAST_MAX` members write.
//! Not here    time and execution: `talk`. Content: `scene`.

use super::{
    names::one_of,
    plan::presence,
    scene::{Line, Posted, Scene, Words},
    wall_clock,
};
use guildhall_guild::{Actor, Command, Refusal, Reply};
use guildhall_model::{
    ChannelId, ChannelType, GuildId, Member, MessageId, Permissions, Presence, ReactionEmoji, UserId,
};
use guildhall_node::Node;
use guildhall_stdx::Rng;
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

/// A reader cannot distinguish more voices, and each costs a permission check per channel and refresh.
const CAST_MAX: usize = 2000;
/// Above the first rate members send no TYPING_START; above the second they do not wait for one who types.
const TYPING_RATE_MAX: f64 = 20.0;
const PATIENT_RATE_MAX: f64 = 2.0;
/// How many sit in voice at least, and at most.
const IN_VOICE: std::ops::Range<usize> = 2..24;
const REACTIONS: &[&str] = &["👍", "😂", "❤️", "🔥", "👀", "🎉", "😮", "💯"];

/// Action of a member.
#[derive(Clone, Debug)]
pub(super) enum Act {
    Type { channel_id: ChannelId, user_id: UserId },
    Say { channel_id: ChannelId, line: Line, reply_to: Option<MessageId> },
    React { channel_id: ChannelId, message_id: MessageId, user_id: UserId, emoji: ReactionEmoji },
    Edit { channel_id: ChannelId, posted: Posted, content: String },
    Delete { channel_id: ChannelId, posted: Posted },
    Show { user_id: UserId, presence: Option<Arc<Presence>> },
    Voice { user_id: UserId, channel_id: Option<ChannelId> },
}

/// Result of an action.
#[derive(Debug)]
pub(super) enum Outcome {
    Posted { channel_id: ChannelId, posted: Posted, content: String },
    Deleted { channel_id: ChannelId, message_id: MessageId },
    Done,
    Refused(Refusal),
}

/// Decides what happens next.
pub(super) struct Director {
    pub guild_id: GuildId,
    rng: Rng,
    pub rate: f64,
    words: Words,
    cast: Vec<UserId>,
    scenes: Vec<Scene>,
    voice_rooms: Vec<ChannelId>,
    online: HashSet<UserId>,
    in_voice: HashMap<UserId, ChannelId>,
}

/// The guild of a director, with its members.
pub(super) struct Community<'a> {
    pub guild_id: GuildId,
    pub people: &'a [Member],
    pub presences: &'a [(UserId, Presence)],
    pub voice: &'a [(UserId, ChannelId)],
}

/// Something to do, now or later.
pub(super) struct Plan {
    pub after: Duration,
    pub act: Act,
}

impl Plan {
    fn now(act: Act) -> Self {
        Self { after: Duration::ZERO, act }
    }
}

impl Director {
    /// Brings a guild to life at `rate` messages per second.
    pub fn new(guild: &Community<'_>, seed: u64, rate: f64, words: Words) -> Self {
        Self {
            guild_id: guild.guild_id,
            rng: Rng::new(seed ^ 0x7a1c),
            rate,
            words,
            cast: guild.people.iter().take(CAST_MAX).map(|member| member.user.id).collect(),
            scenes: Vec::new(),
            voice_rooms: Vec::new(),
            online: guild.presences.iter().map(|(user, _)| *user).collect(),
            in_voice: guild.voice.iter().copied().collect(),
        }
    }

    /// Reads the current permissions of the guild.
    pub async fn refresh(&mut self, node: &Node) -> Result<(), Refusal> {
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
        for channel in guild.structure.channels.values() {
            let weight = match channel.kind {
                ChannelType::Announcement => 0.2,
                ChannelType::Text if guild.structure.guild.system_channel_id == Some(channel.id) => 6.0,
                ChannelType::Text => 2.0,
                _ => continue,
            };
            let may_speak = |entry: &&&guildhall_guild_protocol::MemberEntry| {
                guild
                    .structure
                    .channel_permissions(guild.structure.standing(&entry.member, now), channel)
                    .contains(speak)
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
        self.voice_rooms = guild.structure.channels.values().filter(|c| c.kind.is_voice()).map(|c| c.id).collect();
        Ok(())
    }

    /// The next message, perhaps after some typing; nothing if no member may write in any channel.
    pub fn next_line(&mut self) -> Vec<Plan> {
        let free = self.scenes.iter().filter(|scene| !scene.is_busy).count();
        let total: f64 = self.scenes.iter().filter(|scene| !scene.is_busy).map(|scene| scene.weight).sum();
        let mut at = self.rng.fraction() * total;
        let chosen = self.scenes.iter_mut().filter(|scene| !scene.is_busy).find(|scene| {
            at -= scene.weight;
            at < 0.0
        });
        let Some(scene) = chosen else { return Vec::new() };
        let Some(line) = scene.next_line(&mut self.rng, &mut self.words) else { return Vec::new() };
        let (channel_id, user_id) = (scene.channel_id, line.author);
        let replies = self.rng.chance(0.12);
        let reply_to = match (replies, line.is_recorded) {
            (false, _) => None,
            (true, true) => scene.newest_of_others(line.author),
            (true, false) => scene.recent_of_others(&mut self.rng, line.author),
        };
        // Some fifteen characters a second, bounded for long messages.
        let typing_ms = (400 + line.text.chars().count() as u64 * 60).min(4000);
        let say = Act::Say { channel_id, line, reply_to };
        // A member who writes is online.
        let mut plans = Vec::with_capacity(3);
        if self.online.insert(user_id) {
            let presence = Some(Arc::new(presence(&mut self.rng, wall_clock())));
            plans.push(Plan::now(Act::Show { user_id, presence }));
        }
        if self.rate > TYPING_RATE_MAX || !self.rng.chance(0.35) {
            plans.push(Plan::now(say));
            return plans;
        }
        plans.push(Plan::now(Act::Type { channel_id, user_id }));
        let is_waited_for = self.rate <= PATIENT_RATE_MAX && free > 1;
        // The others wait, so that a conversation keeps its order.
        scene.is_busy |= is_waited_for;
        let after = if is_waited_for { Duration::from_millis(typing_ms) } else { Duration::ZERO };
        plans.push(Plan { after, act: say });
        plans
    }

    /// A message is on its way: others may speak in its channel again.
    pub fn handle_launched(&mut self, channel_id: ChannelId) {
        if let Some(scene) = self.scenes.iter_mut().find(|scene| scene.channel_id == channel_id) {
            scene.is_busy = false;
        }
    }

    /// Another action of a random member: going online or offline, for instance.
    pub fn next_ambient(&mut self) -> Option<Act> {
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

    /// Follow-ups of a message: reactions, an edit, a deletion.
    pub fn handle_posted(&mut self, channel_id: ChannelId, posted: &Posted, content: &str) -> Vec<Plan> {
        let Some(scene) = self.scenes.iter_mut().find(|scene| scene.channel_id == channel_id) else {
            return Vec::new();
        };
        scene.note(posted.clone());
        let rng = &mut self.rng;
        let mut plans = Vec::new();
        if rng.chance(0.12) {
            let emoji = ReactionEmoji { id: None, name: one_of(rng, REACTIONS).to_owned() };
            for _ in 0..1 + rng.below(4) {
                let Some(user_id) = scene.random_speaker(rng) else { break };
                let after = Duration::from_millis(500 + rng.below(9000));
                let message_id = posted.message_id;
                plans.push(Plan { after, act: Act::React { channel_id, message_id, user_id, emoji: emoji.clone() } });
            }
        }
        let later = Duration::from_millis(2000 + rng.below(15_000));
        match rng.below(100) {
            // Second thoughts are invented, too.
            _ if scene.is_recorded() => {}
            0..=2 => {
                let content = corrected(rng, content);
                plans.push(Plan { after: later, act: Act::Edit { channel_id, posted: posted.clone(), content } });
            }
            3 => plans.push(Plan { after: later, act: Act::Delete { channel_id, posted: posted.clone() } }),
            _ => {}
        }
        plans
    }

    pub fn handle_deleted(&mut self, channel_id: ChannelId, message_id: MessageId) {
        if let Some(scene) = self.scenes.iter_mut().find(|scene| scene.channel_id == channel_id) {
            scene.forget(message_id);
        }
    }

    /// The time to the next event of a kind that happens `rate` times a second.
    pub fn pause(&mut self, rate: f64) -> Duration {
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

#[cfg(test)]
mod tests {
    use super::{
        super::plan::{Plan as Planned, Recipe},
        *,
    };
    use guildhall_stdx::Timestamp;

    fn director(rate: f64, channels: u64) -> Director {
        let plan = Planned::new(Recipe { seed: 1, members: 20, at: Timestamp(1_760_000_000_000) });
        let mut director = Director::new(&plan.community(), 1, rate, Words::default());
        let people: Vec<UserId> = plan.people.iter().map(|member| member.user.id).collect();
        director.scenes =
            (1..=channels).map(|id| Scene::new(ChannelId::new(id), "general", 1.0, people.clone())).collect();
        director
    }

    #[test]
    fn d1_members_wait_while_another_types() {
        let mut director = director(1.0, 3);
        let mut typing: Vec<ChannelId> = Vec::new();
        for step in 0..500 {
            // Every third step one message is sent.
            if step % 3 == 0 && !typing.is_empty() {
                director.handle_launched(typing.remove(0));
            }
            let plans = director.next_line();
            assert!(!plans.is_empty(), "one channel is always free");
            for Plan { after, act } in plans {
                let (Act::Say { channel_id, .. } | Act::Type { channel_id, .. }) = act else { continue };
                assert!(!typing.contains(&channel_id));
                if !after.is_zero() {
                    typing.push(channel_id);
                }
            }
        }
        assert!(typing.len() < 3);
    }

    #[test]
    fn a_high_rate_does_not_wait_for_typing() {
        for rate in [5.0, 500.0] {
            let mut director = director(rate, 2);
            let plans: Vec<Plan> = (0..300).flat_map(|_| director.next_line()).collect();
            assert!(plans.iter().all(|plan| plan.after.is_zero()));
            let typed = plans.iter().filter(|plan| matches!(plan.act, Act::Type { .. })).count();
            assert_eq!(typed > 0, rate < TYPING_RATE_MAX);
            assert_eq!(plans.iter().filter(|plan| matches!(plan.act, Act::Say { .. })).count(), 300);
        }
    }

    #[test]
    fn members_who_write_are_online() {
        let mut director = director(5.0, 1);
        let mut online = director.online.clone();
        let mut came = 0;
        for plan in (0..300).flat_map(|_| director.next_line()) {
            match plan.act {
                Act::Show { user_id, presence } => {
                    assert!(presence.is_some() && online.insert(user_id));
                    came += 1;
                }
                Act::Say { line, .. } => assert!(online.contains(&line.author)),
                _ => {}
            }
        }
        assert!(came > 0);
    }

    #[test]
    fn people_come_and_go_within_bounds() {
        let mut director = director(1.0, 1);
        director.voice_rooms = vec![ChannelId::new(8), ChannelId::new(9)];
        let mut kinds = [0; 4];
        for _ in 0..3000 {
            match director.next_ambient() {
                Some(Act::Show { presence: Some(_), .. }) => kinds[0] += 1,
                Some(Act::Show { presence: None, .. }) => kinds[1] += 1,
                Some(Act::Voice { channel_id: Some(_), .. }) => kinds[2] += 1,
                Some(Act::Voice { channel_id: None, .. }) => kinds[3] += 1,
                Some(other) => panic!("{other:?}"),
                None => {}
            }
            assert!(director.in_voice.len() <= IN_VOICE.end);
        }
        assert!(kinds.iter().all(|count| *count > 50), "{kinds:?}");
    }

    #[test]
    fn pauses_average_to_the_rate() {
        let mut director = director(1.0, 1);
        for rate in [0.1, 4.0, 900.0] {
            let total: f64 = (0..20_000).map(|_| director.pause(rate).as_secs_f64()).sum();
            let mean = total / 20_000.0 * rate;
            assert!((0.95..1.05).contains(&mean), "{mean} at {rate}");
        }
    }
}
