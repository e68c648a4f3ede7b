//! serenity: the library of this name, unmodified, against a local node.
//!
//! Modes: JSON only, and it always requests payload compression (`IDENTIFY.compress`).
//! It keeps sequence numbers to itself, but warns of gaps.
#![forbid(unsafe_code)]

mod interactions;
#[path = "../../lines.rs"]
mod lines;

use lines::{Command, Failure, Settings, emit, problem};
use serde_json::json;
use serenity::all::{
    ChannelId, ChunkGuildFilter, ClientBuilder, Context, Event, GatewayIntents, GuildId, HttpBuilder, RawEventHandler,
    ReactionType, UserId,
};
use serenity::async_trait;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, OnceLock};
use tokio::io::{AsyncBufReadExt as _, BufReader};

/// Turns what the library complains about in its log into problems.
struct Watch;

impl log::Log for Watch {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() <= log::Level::Info && metadata.target().starts_with("serenity")
    }

    fn log(&self, record: &log::Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let text = record.args().to_string();
        if record.level() <= log::Level::Warn {
            problem(&format!("log {}", record.target()), &text);
        } else if !text.contains("self=") {
            // Not a trace of a function call.
            eprintln!("{} {}: {text}", record.level(), record.target());
        }
    }

    fn flush(&self) {}
}

/// What must be remembered from one event to the next.
#[derive(Default)]
struct State {
    own_id: Option<UserId>,
    guilds_awaited: usize,
    members_seen: HashSet<UserId>,
}

/// The library starts a task for each event. They run in order: there is one thread, and none of them waits but those
/// of interactions.
#[derive(Clone, Default)]
struct Reports {
    state: Arc<Mutex<State>>,
    /// The first event's, to which commands are given.
    context: Arc<OnceLock<Context>>,
}

#[async_trait]
impl RawEventHandler for Reports {
    async fn raw_event(&self, context: Context, event: Event) {
        emit(&json!({"ev": "dispatch", "s": null, "t": event.name()}));
        if let Event::InteractionCreate(event) = event {
            return interactions::answer(&context, event.interaction).await;
        }
        _ = self.context.set(context);
        self.state.lock().expect("no other holder panicked").handle(event);
    }
}

impl State {
    fn handle(&mut self, event: Event) {
        match event {
            Event::Ready(event) => {
                let ready = event.ready;
                self.own_id = Some(ready.user.id);
                self.guilds_awaited = ready.guilds.len();
                let user_id = ready.user.id.to_string();
                emit(&json!({"ev": "ready", "user_id": user_id, "guilds": ready.guilds.len()}));
            }
            Event::Resumed(_) => emit(&json!({"ev": "resumed"})),
            Event::GuildCreate(event) => {
                let guild = event.guild;
                emit(&json!({
                    "ev": "guild",
                    "id": guild.id.to_string(),
                    "name": guild.name,
                    "member_count": guild.member_count,
                    "channels": guild.channels.len(),
                    "roles": guild.roles.len(),
                    "own_member": self.own_id.is_some_and(|id| guild.members.contains_key(&id)),
                }));
                self.guilds_awaited = self.guilds_awaited.saturating_sub(1);
                if self.guilds_awaited == 0 {
                    emit(&json!({"ev": "settled"}));
                }
            }
            Event::MessageCreate(event) => emit(&json!({
                "ev": "message",
                "id": event.message.id.to_string(),
                "channel_id": event.message.channel_id.to_string(),
                "author_id": event.message.author.id.to_string(),
                "content": event.message.content,
            })),
            Event::MessageUpdate(event) => {
                emit(&json!({"ev": "edit", "id": event.id.to_string(), "content": event.content}));
            }
            Event::MessageDelete(event) => emit(&json!({"ev": "delete", "id": event.message_id.to_string()})),
            Event::ReactionAdd(event) => {
                let emoji = match &event.reaction.emoji {
                    ReactionType::Unicode(name) => Some(name.as_str()),
                    ReactionType::Custom { name, .. } => name.as_deref(),
                    _ => None,
                };
                emit(&json!({
                    "ev": "reaction",
                    "message_id": event.reaction.message_id.to_string(),
                    "user_id": event.reaction.user_id.map(|id| id.to_string()),
                    "emoji": emoji,
                }));
            }
            Event::TypingStart(event) => emit(&json!({
                "ev": "typing",
                "channel_id": event.channel_id.to_string(),
                "user_id": event.user_id.to_string(),
            })),
            Event::GuildMembersChunk(chunk) => {
                self.members_seen.extend(chunk.members.keys());
                if chunk.chunk_index + 1 == chunk.chunk_count {
                    emit(&json!({"ev": "members", "count": self.members_seen.len()}));
                    self.members_seen.clear();
                }
            }
            Event::Unknown(event) => problem("unknown event", &format!("{event:?}")),
            _ => {}
        }
    }
}

/// Runs one of the runner's commands; returns whether it was the last one.
async fn run_command(context: &Context, line: &str) -> Result<bool, Failure> {
    match Command::read(line)? {
        Command::Send { channel_id, content } => {
            let message = ChannelId::new(channel_id).say(&context.http, content).await?;
            emit(&json!({"ev": "sent", "id": message.id.to_string()}));
        }
        Command::Members { guild_id } => {
            context.shard.chunk_guild(GuildId::new(guild_id), None, false, ChunkGuildFilter::None, None);
        }
        Command::Register => interactions::register(&context.http).await?,
        Command::Quit => return Ok(true),
    }
    Ok(false)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let settings = Settings::read()?;
    log::set_boxed_logger(Box::new(Watch))?;
    log::set_max_level(log::LevelFilter::Info);

    emit(&json!({"ev": "start", "library": "serenity", "version": "0.12.5", "interactions": true}));
    // The library's own path `/api/v10` is fixed; only the host is ours to choose, and only without its rate limiter.
    let host = settings.get("api_base")?.trim_end_matches("/api");
    let http = HttpBuilder::new(settings.get("bot_token")?).proxy(host).ratelimiter_disabled(true).build();
    let reports = Reports::default();
    let mut client =
        ClientBuilder::new_with_http(http, GatewayIntents::all()).raw_event_handler(reports.clone()).await?;
    let shards = client.shard_manager.clone();

    tokio::spawn(async move {
        let mut lines = BufReader::new(tokio::io::stdin()).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let Some(context) = reports.context.get() else {
                problem("command", "before READY");
                continue;
            };
            match run_command(context, &line).await {
                Ok(true) => break,
                Ok(false) => {}
                Err(error) => problem("command", &error.to_string()),
            }
        }
        shards.shutdown_all().await;
    });
    client.start_autosharded().await?;
    // What reads stdin cannot be called off.
    std::process::exit(0);
}
