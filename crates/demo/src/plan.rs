//! Plan: the community of the demo, complete before the first write.
//!
//! Owns        guild, roles, channels, people, their first messages; presences and voice states at the start.
//! Invariants  the same seed, number of members and time give the same plan, ids included. (test `deterministic`)
//! Not here    the store and the node: `seed` writes the plan, `talk` brings it to life.

use super::{
    director::Community,
    names::{Name, Names, one_of},
    second::Second,
    text::{Script, Thread, Voice},
};
use guildhall_guild::Write;
use guildhall_model::{
    Activity, Channel, ChannelId, ChannelType, ClientStatus, Guild, GuildId, Id, Member, Message, Overwrite,
    OverwriteKind, Permissions, Platform, Presence, Role, RoleId, Status, User, UserId, smallest_id_at,
};
use guildhall_stdx::{Rng, Timestamp};
use serde_json::{Value, json};
use std::{collections::HashMap, sync::Arc};

/// Inputs of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Recipe {
    /// For every random choice.
    pub seed: u64,
    /// Simulated members, besides the bot and the user.
    pub members: u32,
    /// When it was seeded: everything happened before.
    pub at: Timestamp,
}

/// A whole community.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub guild: Guild,
    pub roles: Vec<Role>,
    /// In the order they are shown; the first text channel is public.
    pub channels: Vec<Channel>,
    /// Simulated people: the owner first, then those with duties.
    pub people: Vec<Member>,
    /// The account behind `bot_token`.
    pub bot: Member,
    /// The account behind `user_token`.
    pub user: Member,
    /// Oldest first.
    pub history: Vec<Message>,
    /// Online members at the start.
    pub presences: Vec<(UserId, Presence)>,
    /// Members in voice at the start.
    pub voice: Vec<(UserId, ChannelId)>,
    /// Conversations, from the first one that `history` does not have.
    pub script: Script,
    /// A second, smaller guild.
    pub second: Second,
}

const YEAR_MS: i64 = 365 * 86_400_000;
pub(super) const HOUR_MS: i64 = 3_600_000;
/// Messages in each public channel before the demo starts.
const HISTORY_LINES: u64 = 25;
/// People with duties, from the front of the list: 1 owner, then admins, then moderators.
const ADMINS: usize = 3;
const MODERATORS: usize = 12;
/// How many may read #leads.
const LEADS: usize = 4;

/// The roles, from the lowest to the highest.
struct Roles {
    muted: RoleId,
    regular: RoleId,
    supporter: RoleId,
    moderator: RoleId,
    admin: RoleId,
    bot: RoleId,
}

/// Ids of a given age that never repeat.
pub(super) struct Ids {
    counter: u64,
}

impl Ids {
    pub fn at<T>(&mut self, at: Timestamp) -> Id<T> {
        self.counter += 1;
        // The low 22 bits distinguish ids of the same millisecond.
        Id::new(smallest_id_at::<T>(at).get() | (self.counter & 0x3f_ffff))
    }
}

impl Plan {
    /// The community that goes with `recipe`.
    pub fn new(recipe: Recipe) -> Self {
        let mut rng = Rng::new(recipe.seed);
        let mut ids = Ids { counter: 0 };
        let founded = Timestamp(recipe.at.0 - 3 * YEAR_MS - rng.below(YEAR_MS as u64) as i64);
        let guild_id: GuildId = ids.at(founded);

        let mut names = Names::default();
        names.reserve("guildhall_bot");
        names.reserve("visitor");
        let mut account = |name: Name, rng: &mut Rng, joined: Timestamp| {
            let age = rng.below(4 * YEAR_MS as u64) as i64 + HOUR_MS;
            let mut user = User::new(ids.at(Timestamp(joined.0 - age)), &name.username);
            user.global_name = name.global_name;
            let mut member = Member::new(Arc::new(user), joined);
            member.nick = name.nick.map(Into::into);
            member
        };
        let plain = |username: &str, shown: &str| Name {
            username: username.into(),
            global_name: Some(shown.into()),
            nick: None,
        };
        let mut people: Vec<Member> = (0..recipe.members.max(1) as usize)
            .map(|index| {
                // Those with duties came first; many of the others came lately.
                let since = (recipe.at.0 - founded.0) as f64;
                let share = if index <= ADMINS + MODERATORS { 0.2 * rng.fraction() } else { rng.fraction().sqrt() };
                let joined = Timestamp(founded.0 + (since * share) as i64);
                account(names.next(&mut rng), &mut rng, if index == 0 { founded } else { joined })
            })
            .collect();
        let mut bot = account(plain("guildhall_bot", "Guildhall Bot"), &mut rng, Timestamp(recipe.at.0 - HOUR_MS));
        let mut bot_user = User::clone(&bot.user);
        bot_user.bot = true;
        bot_user.discriminator = "0042".to_owned();
        bot_user.application_flags = User::APPLICATION_PRIVILEGED;
        bot.user = Arc::new(bot_user);
        let mut user = account(plain("visitor", "Visitor"), &mut rng, Timestamp(recipe.at.0 - HOUR_MS));

        let mut guild = Guild::new(guild_id, "The Lantern Society", people[0].user.id);
        guild.description = Some("Games, music, food, code, and whatever keeps the lights on.".to_owned());
        let (roles, role_ids) = roles(&mut ids, guild_id, founded);
        hand_out_roles(&mut rng, &role_ids, &mut people);
        bot.roles.push(role_ids.bot);
        user.roles.push(role_ids.regular);

        let leads: Vec<UserId> = people.iter().take(LEADS).map(|m| m.user.id).collect();
        let channels = channels(&mut ids, guild_id, founded, &role_ids, &leads);
        guild.system_channel_id = channels.iter().find(|c| c.kind == ChannelType::Text).map(|c| c.id);
        let mut script = Script::new();
        let history = history(&mut rng, &mut ids, recipe.at, &channels, &people, (&mut script, HISTORY_LINES));
        let presences = presences(&mut rng, recipe.at, &people);
        let voice = voice(&mut rng, &channels, &presences);
        let second = Second::new(recipe, &mut ids, &mut names, &user.user, founded);
        Self { guild, roles, channels, people, bot, user, history, presences, voice, script, second }
    }

    /// The first guild with its members.
    pub fn community(&self) -> Community<'_> {
        let Self { people, presences, voice, .. } = self;
        Community { guild_id: self.guild.id, people, presences, voice }
    }

    /// Everything durable, in an order in which nothing comes before what it needs.
    pub fn writes(&self) -> impl Iterator<Item = Write> {
        let guild_id = self.guild.id;
        let everybody = || self.people.iter().chain([&self.bot, &self.user]);
        let owner = Write::PutUser(self.people[0].user.clone());
        [owner, Write::PutGuild(Arc::new(self.guild.clone()))]
            .into_iter()
            .chain(self.roles.iter().map(move |role| Write::PutRole(guild_id, Arc::new(role.clone()))))
            .chain(self.channels.iter().map(|channel| Write::PutChannel(Arc::new(channel.clone()))))
            .chain(everybody().map(|member| Write::PutUser(member.user.clone())))
            .chain(everybody().map(move |member| Write::PutMember(guild_id, Arc::new(member.clone()))))
            .chain(self.history.iter().map(|message| Write::PutMessage(Arc::new(message.clone()))))
            .chain(self.second.writes())
    }
}

fn is_private(channel: &Channel) -> bool {
    channel.overwrites.iter().any(|o| o.deny.contains(Permissions::VIEW_CHANNEL))
}

fn roles(ids: &mut Ids, guild_id: GuildId, founded: Timestamp) -> (Vec<Role>, Roles) {
    let everyone = Permissions::DEFAULT_EVERYONE.without(Permissions::MENTION_EVERYONE);
    let moderate = Permissions::KICK_MEMBERS
        | Permissions::MANAGE_MESSAGES
        | Permissions::MODERATE_MEMBERS
        | Permissions::MUTE_MEMBERS
        | Permissions::MOVE_MEMBERS
        | Permissions::MANAGE_NICKNAMES
        | Permissions::MENTION_EVERYONE;
    let mut roles = vec![Role::everyone(guild_id, everyone)];
    let mut add = |name: &str, color: u32, hoist: bool, permissions: Permissions| {
        let (id, position) = (ids.at(founded), roles.len() as i32);
        let (managed, mentionable) = (name == "Guildhall Bot", name == "Moderator");
        let (name, icon) = (name.to_owned(), None);
        roles.push(Role { id, name, color, hoist, position, permissions, managed, mentionable, icon });
        id
    };
    let ids = Roles {
        muted: add("Muted", 0x60_6060, false, Permissions::NONE),
        regular: add("Regular", 0x3b_a55d, false, Permissions::NONE),
        supporter: add("Supporter", 0xf4_7fff, true, Permissions::NONE),
        moderator: add("Moderator", 0x54_93ff, true, moderate),
        admin: add("Admin", 0xe6_7e22, true, Permissions::ADMINISTRATOR),
        bot: add("Guildhall Bot", 0x58_65f2, true, Permissions::ADMINISTRATOR),
    };
    (roles, ids)
}

fn hand_out_roles(rng: &mut Rng, roles: &Roles, people: &mut [Member]) {
    for (index, member) in people.iter_mut().enumerate() {
        let mut held = match index {
            0..=ADMINS => vec![roles.admin, roles.regular],
            _ if index <= ADMINS + MODERATORS => vec![roles.moderator, roles.regular],
            _ if rng.chance(0.4) => vec![roles.regular],
            _ if rng.chance(0.02) => vec![roles.muted],
            _ => Vec::new(),
        };
        if rng.chance(0.06) {
            held.push(roles.supporter);
        }
        held.sort_unstable();
        member.roles = held.into_iter().collect();
    }
}

fn channels(ids: &mut Ids, guild_id: GuildId, founded: Timestamp, roles: &Roles, leads: &[UserId]) -> Vec<Channel> {
    let over = |target, allow, deny| Overwrite { target, allow, deny };
    let role = OverwriteKind::Role;
    let (view, send, none) = (Permissions::VIEW_CHANNEL, Permissions::SEND_MESSAGES, Permissions::NONE);
    let everyone = role(guild_id.cast());
    let muted = over(role(roles.muted), none, send | Permissions::ADD_REACTIONS | Permissions::SPEAK);
    let mut channels: Vec<Channel> = Vec::new();
    let mut add = |kind, name: &str, topic: &str, parent_id: Option<ChannelId>, overwrites: Vec<Overwrite>| {
        let mut channel = Channel::new(ids.at(founded), guild_id, kind, name);
        channel.position = channels.len() as i32;
        channel.parent_id = parent_id;
        channel.topic = (!topic.is_empty()).then(|| topic.to_owned());
        channel.overwrites = overwrites;
        channels.push(channel);
        channels.last().map(|c| c.id)
    };
    let open = || vec![muted];
    let community = add(ChannelType::Category, "Community", "", None, open());
    add(ChannelType::Text, "general", "Everything and nothing. Be kind.", community, open());
    add(ChannelType::Text, "random", "Trips, cats, weather.", community, open());
    add(ChannelType::Text, "help", "Ask. Somebody knows.", community, open());
    let announce = vec![over(everyone, none, send), over(role(roles.moderator), send, none)];
    add(ChannelType::Announcement, "announcements", "What is coming up.", community, announce);
    let topics = add(ChannelType::Category, "Topics", "", None, open());
    add(ChannelType::Text, "games", "Looking for group, and what we play.", topics, open());
    add(ChannelType::Text, "music", "Now playing.", topics, open());
    add(ChannelType::Text, "cooking", "Pictures welcome.", topics, open());
    add(ChannelType::Text, "code", "Side projects and the bots of this server.", topics, open());
    let for_role = || vec![over(everyone, none, view), over(role(roles.moderator), view, none)];
    let team = add(ChannelType::Category, "Team", "", None, for_role());
    add(ChannelType::Text, "staff", "For moderators and admins.", team, for_role());
    let by_name = leads.iter().map(|lead| over(OverwriteKind::Member(*lead), view, none));
    let for_leads = [over(everyone, none, view)].into_iter().chain(by_name).collect();
    add(ChannelType::Text, "leads", "The few who hold the keys.", team, for_leads);
    let voice = add(ChannelType::Category, "Voice", "", None, open());
    add(ChannelType::Voice, "Lounge", "", voice, open());
    add(ChannelType::Voice, "Focus", "", voice, open());
    add(ChannelType::Stage, "Town Hall", "", voice, open());
    channels
}

/// The history: at least this many messages of the last hours in each public text channel.
pub(super) fn history(
    rng: &mut Rng,
    ids: &mut Ids,
    at: Timestamp,
    channels: &[Channel],
    people: &[Member],
    (script, lines_count): (&mut Script, u64),
) -> Vec<Message> {
    let mut messages = Vec::new();
    for channel in channels.iter().filter(|c| c.kind == ChannelType::Text && !is_private(c)) {
        let mut lines: Vec<(i64, Arc<User>, String)> = Vec::new();
        while (lines.len() as u64) < lines_count
            && let Some(turns) = script.next_conversation(&channel.name)
        {
            let mut cast: HashMap<String, Arc<User>> = HashMap::new();
            // Some time passes between two conversations, and seconds between two turns.
            let mut pause = 20 * 60_000 + rng.below(40 * 60_000) as i64;
            for turn in turns {
                let Some(somebody) = rng.pick(people).map(|member| member.user.clone()) else { continue };
                let author = cast.entry(turn.speaker).or_insert(somebody).clone();
                lines.push((pause, author, turn.text));
                pause = 8_000 + rng.below(50_000) as i64;
            }
        }
        let mut thread = Thread::new(rng, &channel.name);
        while (lines.len() as u64) < lines_count {
            if thread.is_over() {
                thread = Thread::new(rng, &channel.name);
            }
            let Some(author) = rng.pick(people).map(|member| member.user.clone()) else { break };
            let text = thread.line(rng, &Voice::of(author.id.get()));
            lines.push((1 + rng.below(6 * HOUR_MS as u64 / lines_count) as i64, author, text));
        }
        let mut said_at = at.0 - 60_000 - lines.iter().map(|(pause, ..)| pause).sum::<i64>();
        for (pause, author, content) in lines {
            said_at += pause;
            let message = Message::new(ids.at(Timestamp(said_at)), channel.id, channel.guild_id, author);
            messages.push(Message { content, ..message });
        }
    }
    messages.sort_by_key(|message| message.id);
    messages
}

/// Presence of a member: a status, a device or two, sometimes an activity.
pub(super) fn presence(rng: &mut Rng, at: Timestamp) -> Presence {
    let status = match rng.below(10) {
        0..=5 => Status::Online,
        6..=7 => Status::Idle,
        _ => Status::Dnd,
    };
    let mut client_status = ClientStatus::default();
    client_status.raise(
        *rng.pick(&[Platform::Desktop, Platform::Desktop, Platform::Mobile, Platform::Web]).unwrap_or(&Platform::Web),
        status,
    );
    if rng.chance(0.15) {
        client_status.raise(Platform::Mobile, Status::Online.min(status));
    }
    let activities = if rng.chance(0.3) { vec![activity(rng, at)] } else { Vec::new() };
    Presence { status, activities, client_status }
}

fn activity(rng: &mut Rng, at: Timestamp) -> Activity {
    let started = at.0 - rng.below(2 * HOUR_MS as u64) as i64;
    let value = match rng.below(4) {
        0 | 1 => {
            let name = one_of(rng, &["Starfall Depths", "Larkspur", "Hexbound", "Tiny Harbor", "Ironroot"]);
            json!({"name": name, "type": 0, "created_at": started, "timestamps": {"start": started}})
        }
        2 => {
            let song = one_of(rng, &["Low Tide", "Blue Antenna", "Ferry at Night", "Paper Moons"]);
            json!({"name": "Music", "type": 2, "created_at": started, "details": song, "state": "Ana Vidal"})
        }
        _ => {
            let state = one_of(rng, &["back at six", "deep work", "on the train", "baking", "ask me about cats"]);
            json!({"name": "Custom Status", "type": 4, "created_at": started, "state": state})
        }
    };
    match value {
        Value::Object(activity) => activity,
        _ => Activity::new(),
    }
}

fn presences(rng: &mut Rng, at: Timestamp, people: &[Member]) -> Vec<(UserId, Presence)> {
    let mut shown = Vec::new();
    for member in people {
        if rng.chance(0.45) {
            shown.push((member.user.id, presence(rng, at)));
        }
    }
    shown
}

pub(super) fn voice(rng: &mut Rng, channels: &[Channel], presences: &[(UserId, Presence)]) -> Vec<(UserId, ChannelId)> {
    let rooms: Vec<ChannelId> = channels.iter().filter(|c| c.kind.is_voice()).map(|c| c.id).collect();
    let talkers = presences.len().min(4 + presences.len() / 20).min(24);
    let chosen = presences.iter().rev().take(talkers);
    chosen.filter_map(|(user, _)| rng.pick(&rooms).map(|room| (*user, *room))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn recipe(seed: u64, members: u32) -> Recipe {
        Recipe { seed, members, at: Timestamp(1_760_000_000_000) }
    }

    #[test]
    fn deterministic() {
        let writes = |seed| format!("{:?}", Plan::new(recipe(seed, 80)).writes().collect::<Vec<_>>());
        assert_eq!(writes(7), writes(7));
        assert_ne!(writes(7), writes(8));
        let live = |seed| {
            let plan = Plan::new(recipe(seed, 80));
            format!("{:?} {:?}", plan.presences, plan.voice)
        };
        assert_eq!(live(7), live(7));
    }

    #[test]
    fn a_believable_community() {
        let plan = Plan::new(recipe(1, 300));
        assert_eq!(plan.people.len(), 300);
        let kinds: Vec<ChannelType> = plan.channels.iter().map(|c| c.kind).collect();
        for kind in [
            ChannelType::Category,
            ChannelType::Text,
            ChannelType::Announcement,
            ChannelType::Voice,
            ChannelType::Stage,
        ] {
            assert!(kinds.contains(&kind), "{kind:?}");
        }
        assert_eq!(plan.channels.iter().filter(|c| c.kind == ChannelType::Text && is_private(c)).count(), 2);
        assert!((90..190).contains(&plan.presences.len()), "{}", plan.presences.len());
        assert!((4..=24).contains(&plan.voice.len()));
        assert!(plan.history.iter().all(|m| (1..=2000).contains(&m.content.chars().count())));
        assert!(plan.people.iter().all(|m| m.roles.is_sorted() && m.joined_at.0 < 1_760_000_000_000));
        assert!(plan.bot.user.bot && !plan.user.user.bot);
    }

    #[test]
    fn ids_never_repeat_and_lie_in_the_past() {
        let plan = Plan::new(recipe(2, 2000));
        let users = plan.people.iter().chain([&plan.bot, &plan.user]).map(|m| m.user.id.get());
        let others = plan.channels.iter().map(|c| c.id.get()).chain(plan.roles.iter().map(|r| r.id.get()));
        let second = &plan.second;
        let users = users.chain(second.people.iter().map(|m| m.user.id.get())).chain([second.guild.id.get()]);
        let others = others.chain(second.channels.iter().map(|c| c.id.get()));
        let messages = plan.history.iter().chain(&second.history).map(|m| m.id.get());
        let mut seen = HashSet::new();
        for id in users.chain(others).chain(messages) {
            assert!(seen.insert(id), "{id} twice");
            assert!(id < smallest_id_at::<()>(Timestamp(1_760_000_000_001)).get());
        }
        assert_eq!(plan.roles[0].id.get(), plan.guild.id.get());
    }

    #[test]
    fn few_members_are_enough() {
        for members in 0..6 {
            let plan = Plan::new(recipe(3, members));
            assert_eq!(plan.people.len(), members.max(1) as usize);
            assert_eq!(plan.guild.owner_id, plan.people[0].user.id);
            assert_eq!(plan.second.people.len(), 1);
        }
    }

    #[test]
    fn the_second_guild_is_smaller_and_has_other_people() {
        let plan = Plan::new(recipe(1, 300));
        let second = &plan.second;
        assert_eq!(second.people.len(), 75, "enough to be passive in the demo");
        assert!(second.guild.id > plan.guild.id, "clients list it after the first");
        assert_eq!(second.user.user.id, plan.user.user.id);
        let first: HashSet<UserId> = plan.people.iter().map(|m| m.user.id).collect();
        let names: HashSet<&str> = plan.people.iter().chain(&second.people).map(|m| &*m.user.username).collect();
        assert!(second.people.iter().all(|m| !first.contains(&m.user.id)));
        assert_eq!(names.len(), 375);
        assert!(second.history.len() >= 3 * 14 && second.history.iter().all(|m| m.guild_id == Some(second.guild.id)));
        assert!(!second.voice.is_empty() && !second.presences.is_empty());
    }
}
