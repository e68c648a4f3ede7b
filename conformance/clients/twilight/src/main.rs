//! twilight: the library of this name, unmodified, against a local node.
//!
//! Modes: JSON only; the features `zlib` and `zstd` of this crate build the library with that stream
//! compression, without either it requests none.
//! Its parsers are strict, so every dispatch is parsed in full and each failure is a problem.
#![forbid(unsafe_code)]

mod interactions;
#[path = "../../lines.rs"]
mod lines;

use futures_util::StreamExt as _;
use lines::{Command, Failure, Settings, emit, problem};
use serde_json::json;
use std::error::Error;
use std::io::BufRead as _;
use tokio::sync::mpsc;
use twilight_gateway::{CloseFrame, ConfigBuilder, EventTypeFlags, Intents, Message, Shard, ShardId, parse};
use twilight_http::Client;
use twilight_model::application::interaction::Interaction;
use twilight_model::channel::message::EmojiReactionType;
use twilight_model::gateway::event::{DispatchEvent, GatewayEvent};
use twilight_model::gateway::payload::incoming::GuildCreate;
use twilight_model::gateway::payload::outgoing::RequestGuildMembers;
use twilight_model::id::Id;
use twilight_model::id::marker::{ChannelMarker, UserMarker};

/// An error with everything that caused it.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text = format!("{text}: {source}");
        next = source.source();
    }
    text
}

/// What must be remembered from one event to the next.
#[derive(Default)]
struct State {
    own_id: Option<Id<UserMarker>>,
    guilds_awaited: usize,
    members_seen: usize,
    /// To be answered.
    interactions: Vec<Interaction>,
}

impl State {
    fn handle(&mut self, event: DispatchEvent) {
        match event {
            DispatchEvent::Ready(ready) => {
                self.own_id = Some(ready.user.id);
                self.guilds_awaited = ready.guilds.len();
                emit(&json!({
                    "ev": "ready",
                    "user_id": ready.user.id.to_string(),
                    "guilds": ready.guilds.len(),
                }));
            }
            DispatchEvent::Resumed => emit(&json!({"ev": "resumed"})),
            DispatchEvent::GuildCreate(created) => match *created {
                GuildCreate::Available(guild) => {
                    emit(&json!({
                        "ev": "guild",
                        "id": guild.id.to_string(),
                        "name": guild.name,
                        "member_count": guild.member_count,
                        "channels": guild.channels.len(),
                        "roles": guild.roles.len(),
                        "own_member": guild.members.iter().any(|m| Some(m.user.id) == self.own_id),
                    }));
                    self.guilds_awaited = self.guilds_awaited.saturating_sub(1);
                    if self.guilds_awaited == 0 {
                        emit(&json!({"ev": "settled"}));
                    }
                }
                GuildCreate::Unavailable(guild) => {
                    problem("unavailable guild", &guild.id.to_string());
                }
            },
            DispatchEvent::MessageCreate(message) => emit(&json!({
                "ev": "message",
                "id": message.id.to_string(),
                "channel_id": message.channel_id.to_string(),
                "author_id": message.author.id.to_string(),
                "content": message.content,
            })),
            DispatchEvent::MessageUpdate(message) => emit(&json!({
                "ev": "edit",
                "id": message.id.to_string(),
                "content": message.content,
            })),
            DispatchEvent::MessageDelete(message) => {
                emit(&json!({"ev": "delete", "id": message.id.to_string()}));
            }
            DispatchEvent::ReactionAdd(reaction) => {
                let emoji = match &reaction.emoji {
                    EmojiReactionType::Unicode { name } => Some(name.as_str()),
                    EmojiReactionType::Custom { name, .. } => name.as_deref(),
                };
                emit(&json!({
                    "ev": "reaction",
                    "message_id": reaction.message_id.to_string(),
                    "user_id": reaction.user_id.to_string(),
                    "emoji": emoji,
                }));
            }
            DispatchEvent::InteractionCreate(interaction) => self.interactions.push(interaction.0),
            DispatchEvent::TypingStart(typing) => emit(&json!({
                "ev": "typing",
                "channel_id": typing.channel_id.to_string(),
                "user_id": typing.user_id.to_string(),
            })),
            DispatchEvent::MemberChunk(chunk) => {
                self.members_seen += chunk.members.len();
                if chunk.chunk_index + 1 == chunk.chunk_count {
                    emit(&json!({"ev": "members", "count": self.members_seen}));
                    self.members_seen = 0;
                }
            }
            _ => {}
        }
    }
}

/// Parses what the shard has already acted upon, in full.
fn handle_text(state: &mut State, text: String) {
    // The library skips what it has no name for. Its name for the log, should that happen:
    let start: String = text.chars().take(120).collect();
    match parse(text, EventTypeFlags::all()) {
        Ok(Some(GatewayEvent::Dispatch(seq, event))) => {
            emit(&json!({"ev": "dispatch", "s": seq, "t": event.kind().name()}));
            state.handle(event);
        }
        Ok(Some(GatewayEvent::InvalidateSession(resumable))) => {
            problem("invalid session", &resumable.to_string());
        }
        Ok(Some(_)) => {}
        Ok(None) => problem("unknown event", &start),
        Err(error) => problem("parse", &format!("{}: {start}", chain(&error))),
    }
}

async fn send(client: &Client, channel_id: Id<ChannelMarker>, content: &str) -> Result<(), Failure> {
    let message = client.create_message(channel_id).content(content).await?.model().await?;
    emit(&json!({"ev": "sent", "id": message.id.to_string()}));
    Ok(())
}

async fn register(client: &Client) -> Result<(), Failure> {
    let application = client.current_user_application().await?.model().await?;
    interactions::register(client, application.id).await
}

/// Hands the runner's lines to the main task; ends with the input.
fn read_commands(commands: &mpsc::Sender<Command>) {
    for line in std::io::stdin().lock().lines() {
        match line.map_err(Into::into).and_then(|line| Command::read(&line)) {
            Ok(command) => {
                if commands.blocking_send(command).is_err() {
                    return;
                }
            }
            Err(error) => problem("command", &error.to_string()),
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let settings = Settings::read()?;
    let token = settings.get("bot_token")?.to_owned();
    // The library's own path `/api/v10` is fixed; only the host is ours to choose.
    let host = settings.get("api_base")?.trim_start_matches("http://").trim_end_matches("/api").to_owned();

    emit(&json!({"ev": "start", "library": "twilight", "version": "0.18.0", "interactions": true}));
    let client = Client::builder().token(token.clone()).proxy(host, true).build();
    let gateway = client.gateway().authed().await?.model().await?;
    let config = ConfigBuilder::new(token, Intents::all()).proxy_url(gateway.url).build();
    let mut shard = Shard::with_config(ShardId::ONE, config);

    // Bounded: the runner waits for the outcome of one command before the next, so it never fills.
    let (commands_tx, mut commands) = mpsc::channel(16);
    std::thread::spawn(move || read_commands(&commands_tx));

    let mut state = State::default();
    let mut quitting = false;
    loop {
        tokio::select! {
            item = shard.next() => match item {
                Some(Ok(Message::Text(text))) => {
                    handle_text(&mut state, text);
                    for interaction in state.interactions.drain(..) {
                        if let Err(error) = interactions::answer(&client, interaction).await {
                            problem("interaction", &chain(&*error));
                        }
                    }
                }
                // The server's answer to our close: the shard must not come back after it.
                Some(Ok(Message::Close(_))) if quitting => break,
                Some(Ok(Message::Close(frame))) => {
                    emit(&json!({"ev": "closed", "code": frame.map(|frame| frame.code)}));
                }
                Some(Err(error)) => problem("receive", &chain(&error)),
                None => break,
            },
            Some(command) = commands.recv() => match command {
                Command::Send { channel_id, content } => {
                    if let Err(error) = send(&client, Id::new(channel_id), &content).await {
                        problem("command send", &chain(&*error));
                    }
                }
                Command::Members { guild_id } => {
                    shard.command(&RequestGuildMembers::builder(Id::new(guild_id)).query("", None));
                }
                Command::Register => {
                    if let Err(error) = register(&client).await {
                        problem("command register", &chain(&*error));
                    }
                }
                Command::Quit => {
                    quitting = true;
                    shard.close(CloseFrame::NORMAL);
                }
            },
        }
    }
    Ok(())
}
