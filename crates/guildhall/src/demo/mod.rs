//! Demo: a node with a community that lives.
//!
//! Owns        seeding (`plan`, `seed`), what tools read (`manifest`), and simulated members (`talk`, `scene`, `text`, `chat`).
//! Doors       `Demo::start`, then `Demo::run`.
//! Invariants  D1 it is ready only once the community, everybody's presence and `demo.json` are there. D2 simulated
//!             members act through the node's commands, as real ones do: nothing here knows relays or sockets.
//! Not here    the arguments: `cli`. The node itself: `assemble`.

mod chat;
mod director;
mod manifest;
mod names;
mod plan;
mod scene;
mod seed;
mod talk;
mod text;
mod try_next;

pub use chat::{ChatError, ChatFile, Summary};

use crate::{
    assemble::{Running, assemble, random, reachable, secret},
    config::{Config, Secret},
};
use anyhow::{Context as _, anyhow};
use director::Director;
use guildhall_guild::{Actor, Command, Refusal, Reply};
use guildhall_model::{Channel, ChannelId, ChannelType, GuildId, Permissions, UserId};
use guildhall_net::SystemClock;
use guildhall_node::Node;
use guildhall_stdx::Timestamp;
use manifest::Manifest;
use plan::{Plan, Recipe};
use scene::Words;
use seed::Seeded;
use std::{future::Future, path::PathBuf};
use talk::talk;

/// A month; a new one is minted at every start.
const USER_TOKEN_TTL_S: u64 = 30 * 86_400;

/// What may be chosen.
pub struct DemoOptions {
    /// Simulated members, besides the bot and the user.
    pub members: u32,
    /// Messages per second.
    pub rate: f64,
    /// For everything random.
    pub seed: u64,
    /// What they say; none: it is invented.
    pub chat: Option<ChatFile>,
}

/// A demo that serves.
pub struct Demo {
    running: Running,
    director: Director,
    manifest: Manifest,
    data_dir: PathBuf,
    summary: String,
}

impl Demo {
    /// Starts the node, seeds what is not there yet, and is ready then (D1).
    ///
    /// # Errors
    /// Whatever keeps a node from starting; a folder of another version's demo, or one that cannot be written.
    pub async fn start(config: &Config, options: DemoOptions) -> anyhow::Result<Self> {
        let data_dir = config.store.dir.clone();
        let running = assemble(config).await?;
        let before = Manifest::take(&data_dir);
        let node = &running.node;
        let wanted = Recipe { seed: options.seed, members: options.members, at: wall_clock() };
        let Seeded { plan, recipe } = seed::seed(node.store().as_ref(), wanted).await?;
        if (recipe.seed, recipe.members) != (wanted.seed, wanted.members) {
            let (seed, members) = (recipe.seed, recipe.members);
            tracing::warn!(seed, members, "this data directory was seeded before: --seed and --members are ignored");
        }
        show_everybody(node, &plan).await?;
        let admin_key = admin_key(config, before.as_ref())?;
        node.set_root_key(&admin_key);
        let scheme = if config.tls.cert_file.is_some() { "https" } else { "http" };
        let manifest = Manifest {
            api_base: format!("{scheme}://{}/api", reachable(running.local_addr)),
            gateway_url: running.gateway_url.clone(),
            admin_key,
            bot_token: bot_token(node, plan.bot.user.id, before.as_ref()).await?,
            user_token: node.mint_user_token(plan.user.user.id, USER_TOKEN_TTL_S),
            guild_id: plan.guild.id,
            channel_ids: channels_as_they_are(node, plan.guild.id).await?,
        };
        manifest
            .write(&data_dir)
            .with_context(|| format!("{} cannot be written", manifest::path_in(&data_dir).display()))?;
        let summary = summary(&plan, &options);
        let director = Director::new(&plan, options.seed, options.rate, Words { chat: options.chat });
        running.set_ready();
        tracing::info!(listen = %running.local_addr, gateway_url = running.gateway_url, "ready");
        Ok(Self { running, director, manifest, data_dir, summary })
    }

    /// What to say to somebody who wonders what to do now.
    #[must_use]
    pub fn what_to_try(&self) -> String {
        try_next::text(&self.summary, &self.manifest, &manifest::path_in(&self.data_dir))
    }

    /// Lets people talk until `stop`, then stops the node.
    ///
    /// # Errors
    /// When a part of the node did not end in time.
    pub async fn run(self, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
        let failed = tokio::select! {
            () = talk(&self.running.node, self.director, stop) => false,
            () = self.running.failed() => true,
        };
        self.running.end(failed).await
    }
}

fn wall_clock() -> Timestamp {
    SystemClock::default().now().unix
}

fn summary(plan: &Plan, options: &DemoOptions) -> String {
    let words = match options.chat.as_ref().map(ChatFile::summary) {
        Some(Summary { conversations, turns }) => format!("{conversations} conversations with {turns} turns"),
        None => "invented talk".to_owned(),
    };
    let (name, members, rate) = (&plan.guild.name, plan.people.len() + 2, options.rate);
    let talk = if rate > 0.0 { format!("{rate} messages a second, {words}") } else { "nobody talks".to_owned() };
    format!("“{name}”: {members} members, {} online, {}", plan.presences.len(), talk)
}

/// Presences and voice end with the process, so they are shown at every start.
async fn show_everybody(node: &Node, plan: &Plan) -> anyhow::Result<()> {
    let presences = plan.presences.iter().map(|(user, shown)| Command::ShowPresence(*user, Some(shown.clone().into())));
    let voice = plan.voice.iter().map(|(user, channel)| Command::ShowVoice(*user, Some(*channel)));
    for command in presences.chain(voice) {
        match node.command(plan.guild.id, Actor::System, command).await {
            // People may have left and channels may be gone since it was seeded.
            Ok(_) | Err(Refusal::UnknownMember | Refusal::UnknownChannel) => {}
            Err(Refusal::UnknownGuild) => {
                return Err(anyhow!("the demo's guild was deleted: choose another --data, or delete the folder"));
            }
            Err(refusal) => return Err(anyhow::Error::from(refusal).context("the demo's guild cannot be used")),
        }
    }
    Ok(())
}

/// The configured one, the last one, or a new one.
fn admin_key(config: &Config, before: Option<&Manifest>) -> anyhow::Result<String> {
    let auth = &config.auth;
    if let Some(key) = secret("auth.admin_key_file", &auth.admin_key, &auth.admin_key_file)? {
        return Ok(key.reveal().to_owned());
    }
    if let Some(key) = before.and_then(|before| Secret::new(&before.admin_key)) {
        return Ok(key.reveal().to_owned());
    }
    Ok(random::<24>()?.iter().map(|byte| format!("{byte:02x}")).collect())
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
    Ok(listed(guild.meta.channels.values().map(AsRef::as_ref)))
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
