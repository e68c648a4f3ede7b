//! Demo: a community on a running node. Its simulated members write messages.
//!
//! Owns        seeding (`plan`, `second`, `seed`), the file for tools (`manifest`), and simulated members (`talk`,
//!             `scene`, `text`, `chat`).
//! Doors       `Previous::take` before `Demo::start`, then `Demo::talk`.
//! Invariants  D1 `Demo::start` returns once the community, all presences and `demo.json` are there; the caller
//!             reports ready after that. D2 simulated members act through the node's commands, as clients do: nothing
//!             here knows relays or sockets.
//! Not here    the arguments, the node and its end: the command `demo` of `guildhall`.
#![forbid(unsafe_code)]

mod chat;
mod director;
mod manifest;
mod names;
mod plan;
mod scene;
mod second;
mod seed;
mod talk;
mod text;
mod try_next;

pub use chat::{ChatError, ChatFile, Summary};

use anyhow::{Context as _, anyhow};
use director::{Community, Director};
use guildhall_guild::{Actor, Command, Refusal, Reply};
use guildhall_model::{Channel, ChannelId, ChannelType, GuildId, Permissions, RoleId, User, UserId};
use guildhall_node::Node;
use guildhall_stdx::Timestamp;
use manifest::Manifest;
use plan::{Plan, Recipe};
use scene::Words;
use seed::Seeded;
use std::{
    collections::HashSet,
    future::Future,
    path::{Path, PathBuf},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};
use try_next::Pages;

/// A month; a new one is minted at every start.
const USER_TOKEN_TTL_S: u64 = 30 * 86_400;

/// Options of a demo.
pub struct DemoOptions {
    /// Simulated members, besides the bot and the user.
    pub members: u32,
    /// Messages per second.
    pub rate: f64,
    /// For everything random.
    pub seed: u64,
    /// Recorded conversations; `None`: messages are generated.
    pub chat: Option<ChatFile>,
}

/// Addresses and key of the node, as `demo.json` has them.
pub struct Site {
    /// The node's data directory: `demo.json` is in it.
    pub data_dir: PathBuf,
    /// Like `http://127.0.0.1:8080/api`.
    pub api_base: String,
    /// Like `ws://127.0.0.1:8080`.
    pub gateway_url: String,
    /// Root key of the admin API; the node is given it.
    pub admin_key: String,
    /// The chat page, if the node serves it: `http://127.0.0.1:8080/chat/`.
    pub page: Option<String>,
    /// The dashboard, if the node serves it.
    pub dashboard: Option<String>,
}

/// The guilds that visitors of the chat page join.
#[derive(Clone, Debug)]
pub struct Lobby {
    /// Each with the roles that visitors have there: those of the demo's user.
    pub guilds: Vec<(GuildId, Vec<RoleId>)>,
    /// Members outside of the plan: visitors of earlier runs, and accounts of backends.
    pub others: Vec<Arc<User>>,
}

/// The manifest that the last run on a data directory left.
pub struct Previous(Option<Manifest>);

impl Previous {
    /// Reads the last run's manifest and removes it. Call it once the node has the data directory for itself.
    #[must_use]
    pub fn take(data_dir: &Path) -> Self {
        Self(Manifest::take(data_dir))
    }

    /// The root key of the last run.
    #[must_use]
    pub fn admin_key(&self) -> Option<&str> {
        self.0.as_ref().map(|manifest| manifest.admin_key.as_str())
    }
}

/// A seeded community and its simulated members.
pub struct Demo {
    director: Director,
    /// Of the second guild.
    second: Director,
    manifest: Manifest,
    data_dir: PathBuf,
    summary: String,
    page: Option<String>,
    dashboard: Option<String>,
    lobby: Lobby,
}

impl Demo {
    /// Seeds what is not there yet, gives the node the root key, and writes the manifest (D1).
    ///
    /// # Errors
    /// The data directory was seeded by another version of the demo, or cannot be written; the store fails.
    pub async fn start(node: &Node, site: Site, previous: &Previous, options: DemoOptions) -> anyhow::Result<Self> {
        let before = previous.0.as_ref();
        let wanted = Recipe { seed: options.seed, members: options.members, at: wall_clock() };
        let Seeded { plan, recipe } = seed::seed(node.store().as_ref(), wanted).await?;
        if (recipe.seed, recipe.members) != (wanted.seed, wanted.members) {
            let (seed, members) = (recipe.seed, recipe.members);
            tracing::warn!(seed, members, "this data directory was seeded before: --seed and --members are ignored");
        }
        for guild in [plan.community(), plan.second.community()] {
            set_presences(node, &guild).await?;
        }
        node.set_root_key(&site.admin_key);
        let manifest = Manifest {
            api_base: site.api_base,
            gateway_url: site.gateway_url,
            admin_key: site.admin_key,
            bot_token: bot_token(node, plan.bot.user.id, before).await?,
            user_token: node.mint_user_token(plan.user.user.id, USER_TOKEN_TTL_S).await?,
            guild_id: plan.guild.id,
            channel_ids: channels_as_they_are(node, plan.guild.id).await?,
        };
        let data_dir = site.data_dir;
        manifest
            .write(&data_dir)
            .with_context(|| format!("{} cannot be written", manifest::path_in(&data_dir).display()))?;
        let others = others(node, &plan).await?;
        let guilds = [(plan.guild.id, &plan.user), (plan.second.guild.id, &plan.second.user)];
        let lobby = Lobby { guilds: guilds.map(|(id, user)| (id, user.roles.to_vec())).into(), others };
        let summary = summary(&plan, &options);
        let has_script = options.chat.is_none() && options.rate <= text::SCRIPT_RATE_MAX;
        let script = |of: &text::Script| has_script.then(|| of.clone());
        let words = Words { chat: None, script: script(&plan.second.script) };
        let rate = options.rate * second::RATE_SHARE;
        let second = Director::new(&plan.second.community(), options.seed ^ 1, rate, words);
        let words = Words { chat: options.chat, script: script(&plan.script) };
        let director = Director::new(&plan.community(), options.seed, options.rate - rate, words);
        Ok(Self { director, second, manifest, data_dir, summary, page: site.page, dashboard: site.dashboard, lobby })
    }

    /// Text for the terminal: addresses, and commands to try.
    #[must_use]
    pub fn usage_hints(&self) -> String {
        let pages = Pages { chat: self.page.as_deref(), dashboard: self.dashboard.as_deref() };
        try_next::text(&self.summary, &self.manifest, &manifest::path_in(&self.data_dir), pages)
    }

    /// Where visitors go.
    #[must_use]
    pub fn lobby(&self) -> &Lobby {
        &self.lobby
    }

    /// Lets the simulated members talk until `stop`.
    pub async fn talk(self, node: &Node, stop: impl Future<Output = ()>) {
        let (running, mut stopped) = tokio::sync::watch::channel(());
        let first = async move {
            talk::talk(node, self.director, stop).await;
            drop(running);
        };
        // The channel closes with `running`.
        let second = talk::talk(node, self.second, async move { while stopped.changed().await.is_ok() {} });
        tokio::join!(first, second);
    }
}

/// Members outside of the plan.
async fn others(node: &Node, plan: &Plan) -> anyhow::Result<Vec<Arc<User>>> {
    let Reply::Members(members) = node.command(plan.guild.id, Actor::System, Command::ReadMembers).await? else {
        return Err(anyhow!("the demo's members cannot be read"));
    };
    let mut known: HashSet<UserId> = plan.people.iter().map(|person| person.user.id).collect();
    known.extend([plan.bot.user.id, plan.user.user.id]);
    Ok(members.iter().map(|entry| entry.member.user.clone()).filter(|user| !known.contains(&user.id)).collect())
}

fn wall_clock() -> Timestamp {
    Timestamp(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64))
}

fn summary(plan: &Plan, options: &DemoOptions) -> String {
    let words = match options.chat.as_ref().map(ChatFile::summary) {
        Some(Summary { conversations, turns }) => format!("{conversations} conversations with {turns} turns"),
        None if options.rate <= text::SCRIPT_RATE_MAX => "conversations from a script".to_owned(),
        None => "invented talk".to_owned(),
    };
    let (name, members, rate) = (&plan.guild.name, plan.people.len() + 2, options.rate);
    let talk = if rate > 0.0 { format!("{rate} messages a second, {words}") } else { "no messages".to_owned() };
    let second = (&plan.second.guild.name, plan.second.people.len() + 1);
    let online = plan.presences.len();
    format!("“{name}”: {members} members, {online} online; “{}”: {} members; {talk}", second.0, second.1)
}

/// Presences and voice end with the process, so they are shown at every start.
async fn set_presences(node: &Node, guild: &Community<'_>) -> anyhow::Result<()> {
    let presences =
        guild.presences.iter().map(|(user, shown)| Command::ShowPresence(*user, Some(shown.clone().into())));
    let voice = guild.voice.iter().map(|(user, channel)| Command::ShowVoice(*user, Some(*channel)));
    for command in presences.chain(voice) {
        match node.command(guild.guild_id, Actor::System, command).await {
            // People may have left and channels may be gone since it was seeded.
            Ok(_) | Err(Refusal::UnknownMember | Refusal::UnknownChannel) => {}
            Err(Refusal::UnknownGuild) => {
                return Err(anyhow!("a guild of the demo was deleted: choose another --data, or delete the folder"));
            }
            Err(refusal) => return Err(anyhow::Error::from(refusal).context("the demo's guild cannot be used")),
        }
    }
    Ok(())
}

/// The last one if it is still good, so that a bot's settings survive a restart; else a new one.
async fn bot_token(node: &Node, bot: UserId, before: Option<&Manifest>) -> anyhow::Result<String> {
    if let Some(before) = before
        && node.authenticate(&before.bot_token).await.is_ok_and(|account| account.user.id == bot)
    {
        return Ok(before.bot_token.clone());
    }
    node.mint_bot_token(bot).await.context("a token cannot be stored")
}

/// Text channels first, the public ones before the others; no categories.
async fn channels_as_they_are(node: &Node, guild_id: GuildId) -> anyhow::Result<Vec<ChannelId>> {
    let Reply::Guild(guild) = node.command(guild_id, Actor::System, Command::ReadGuild).await? else {
        return Err(anyhow!("the demo's guild cannot be read"));
    };
    Ok(listed(guild.structure.channels.values().map(AsRef::as_ref)))
}

fn listed<'a>(channels: impl Iterator<Item = &'a Channel>) -> Vec<ChannelId> {
    let is_private = |c: &Channel| c.overwrites.iter().any(|o| o.deny.contains(Permissions::VIEW_CHANNEL));
    let mut channels: Vec<&Channel> = channels.filter(|channel| channel.kind.holds_messages()).collect();
    channels.sort_by_key(|c| (c.kind != ChannelType::Text, is_private(c), c.position, c.id));
    channels.into_iter().map(|channel| channel.id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_channel_is_public_text() {
        let plan = Plan::new(Recipe { seed: 1, members: 10, at: Timestamp(1_760_000_000_000) });
        let ids = listed(plan.channels.iter());
        let names: Vec<&str> =
            ids.iter().map(|id| plan.channels.iter().find(|c| c.id == *id).unwrap().name.as_str()).collect();
        let expected = "general random help games music cooking code staff leads announcements Lounge Focus";
        assert_eq!(names.join(" "), format!("{expected} Town Hall"));
    }
}
