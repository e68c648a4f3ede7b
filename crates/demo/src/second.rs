//! Second: another, smaller guild of the demo, so that one guild is always off the screen.
//!
//! Owns        its roles, channels, people, first messages, presences and voice states. A client that shows the first
//!             guild is passive here, gets passive updates and shows unread marks.
//! Invariants  its members are in no other guild, so their presences in two guilds cannot differ. The bot is not here.

use super::{
    director::Community,
    names::Names,
    plan::{HOUR_MS, Ids, Recipe, history, presence, voice},
    text::Script,
};
use guildhall_guild::Write;
use guildhall_model::{
    Channel, ChannelId, ChannelType, Guild, GuildId, Member, Message, Overwrite, OverwriteKind, Permissions, Presence,
    Role, User, UserId,
};
use guildhall_stdx::{Rng, Timestamp};
use std::sync::Arc;

/// Share of the demo's members that are here, and of its messages.
const SHARE: u32 = 4;
pub(super) const RATE_SHARE: f64 = 0.2;
const DAY_MS: i64 = 86_400_000;
/// Messages in each channel before the demo starts.
const HISTORY_LINES: u64 = 14;

/// A guild without private channels.
#[derive(Clone, Debug)]
pub(super) struct Second {
    pub guild: Guild,
    pub everyone: Role,
    pub channels: Vec<Channel>,
    /// The owner first.
    pub people: Vec<Member>,
    /// The account behind `user_token`.
    pub user: Member,
    pub history: Vec<Message>,
    pub presences: Vec<(UserId, Presence)>,
    pub voice: Vec<(UserId, ChannelId)>,
    /// Conversations, from the first one that `history` does not have.
    pub script: Script,
}

impl Second {
    /// The guild that goes with `recipe`, for an account of the first guild that was founded at `after`.
    pub fn new(recipe: Recipe, ids: &mut Ids, names: &mut Names, user: &Arc<User>, after: Timestamp) -> Self {
        let mut rng = Rng::new(recipe.seed ^ 0x5ec0);
        let founded = Timestamp(after.0 + 200 * DAY_MS + rng.below(200 * DAY_MS as u64) as i64);
        let guild_id: GuildId = ids.at(founded);
        let people: Vec<Member> = (0..(recipe.members / SHARE).max(1))
            .map(|index| {
                let name = names.next(&mut rng);
                let late = ((recipe.at.0 - founded.0) as f64 * rng.fraction()) as i64;
                let joined = Timestamp(founded.0 + if index == 0 { 0 } else { late });
                let mut user = User::new(ids.at(Timestamp(joined.0 - HOUR_MS)), &name.username);
                user.global_name = name.global_name;
                let mut member = Member::new(Arc::new(user), joined);
                member.nick = name.nick.map(Into::into);
                member
            })
            .collect();
        let mut guild = Guild::new(guild_id, "Harbour Workshop", people[0].user.id);
        guild.description = Some("A shed with a lathe, a garden behind it, and people who mend things.".to_owned());
        let everyone = Role::everyone(guild_id, Permissions::DEFAULT_EVERYONE.without(Permissions::MENTION_EVERYONE));
        let channels = channels(ids, guild_id, founded);
        guild.system_channel_id = channels.iter().find(|c| c.kind == ChannelType::Text).map(|c| c.id);
        let mut script = Script::new();
        let history = history(&mut rng, ids, recipe.at, &channels, &people, (&mut script, HISTORY_LINES));
        let mut presences = Vec::new();
        for member in &people {
            if rng.chance(0.4) {
                presences.push((member.user.id, presence(&mut rng, recipe.at)));
            }
        }
        let voice = voice(&mut rng, &channels, &presences);
        let user = Member::new(Arc::clone(user), Timestamp(recipe.at.0 - HOUR_MS));
        Self { guild, everyone, channels, people, user, history, presences, voice, script }
    }

    /// This guild with its members.
    pub fn community(&self) -> Community<'_> {
        let Self { people, presences, voice, .. } = self;
        Community { guild_id: self.guild.id, people, presences, voice }
    }

    /// Everything durable but the user's account, in an order in which nothing comes before what it needs.
    pub fn writes(&self) -> impl Iterator<Item = Write> {
        let guild_id = self.guild.id;
        let member = move |member: &Member| Write::PutMember(guild_id, Arc::new(member.clone()));
        let owner = Write::PutUser(Arc::clone(&self.people[0].user));
        let role = Write::PutRole(guild_id, Arc::new(self.everyone.clone()));
        [owner, Write::PutGuild(Arc::new(self.guild.clone())), role]
            .into_iter()
            .chain(self.channels.iter().map(|channel| Write::PutChannel(Arc::new(channel.clone()))))
            .chain(self.people.iter().map(|member| Write::PutUser(Arc::clone(&member.user))))
            .chain(self.people.iter().chain([&self.user]).map(member))
            .chain(self.history.iter().map(|message| Write::PutMessage(Arc::new(message.clone()))))
    }
}

fn channels(ids: &mut Ids, guild_id: GuildId, founded: Timestamp) -> Vec<Channel> {
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
    let shed = add(ChannelType::Category, "The shed", "", None, vec![]);
    add(ChannelType::Text, "yard", "Who is in, who has the key.", shed, vec![]);
    add(ChannelType::Text, "repairs", "Bring it broken.", shed, vec![]);
    add(ChannelType::Text, "garden", "Beds, seeds, slugs.", shed, vec![]);
    let rooms = add(ChannelType::Category, "Rooms", "", None, vec![]);
    // Members cannot speak in the machine room.
    let quiet =
        Overwrite { target: OverwriteKind::Role(guild_id.cast()), allow: Permissions::NONE, deny: Permissions::SPEAK };
    add(ChannelType::Voice, "Workbench", "", rooms, vec![]);
    add(ChannelType::Voice, "Machine room", "", rooms, vec![quiet]);
    channels
}
