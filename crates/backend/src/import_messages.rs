//! Import of a history: messages of a guild's channels, a line each, as many as there are.
//!
//! Invariants  M4 a line that progress has reported is durable, so that `skip` continues after it. M5 a message has one
//!             id, from its line or from its time and content: a line that comes again changes nothing. M6 the guild
//!             serves others in between, as `import` does. Clients get no event. (tests
//!             `guildhall/tests/it/backend_history.rs`)
//! Limits      as `lines`; `FAILURES_MAX` faulty lines; `IMPORT_MESSAGES_MAX` messages at a time; timestamps end
//!             `AGE_MIN_MS` before now, so that new messages have larger ids.
//! Spec        docs/backend-api.md "Importing a history".

use super::{
    V1,
    caller::{Caller, Messages},
    dto::HistoryLine,
    error::V1Error,
    external,
    extract::{Arriving, Check, FieldErrors, Path, Query, parse},
    guilds,
    import::{Ended, failure},
    ndjson::{Answer, Gone, Lines},
    types::AnyId,
};
use axum::{extract::State, response::Response};
use guildhall_guild::{Actor, IMPORT_MESSAGES_MAX, Refusal, request};
use guildhall_model::{
    ChannelId, GuildId, Id, Message, MessageId, MessageReference, NewAttachment, User, UserId, smallest_id_at,
};
use guildhall_stdx::Timestamp;
use guildhall_store::ExternalKind;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};
use utoipa::{IntoParams, ToSchema};

const FAILURES_MAX: u64 = 1_000;
const AGE_MIN_MS: i64 = 5_000;
/// Messages between two lines of progress.
const PROGRESS_MESSAGES: u64 = 16 * IMPORT_MESSAGES_MAX as u64;
/// Bits of an id below its time.
const ID_BITS: u64 = 22;
/// How long a batch waits for a guild without room.
const BATCH_MAX: Duration = Duration::from_secs(60);
const BATCH_PAUSE: Duration = Duration::from_millis(100);

/// Parameters of an import of messages.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct HistoryQuery {
    /// Skips this many lines: the `line` of the last progress, to continue an interrupted import.
    skip: Option<u64>,
}

impl Check for HistoryQuery {
    fn check(&self, _: &mut FieldErrors) {}
}

/// Progress of an import of messages.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub(super) struct HistoryProgress {
    /// Everything up to this line is stored.
    line: u64,
    /// Bytes of the body up to this line.
    bytes: u64,
    /// Bytes of the whole body, if the request announced them (`Content-Length`).
    bytes_total: Option<u64>,
    /// Messages that are new.
    added: u64,
    /// Messages that were there.
    unchanged: u64,
    /// Refused lines.
    failed: u64,
    /// Whether the import is complete. If no line has true, the import broke off.
    done: bool,
}

/// Imports messages
///
/// The body has a message a line (`HistoryLine`), in any order, of any channels and threads of the guild. Authors and
/// times stay; clients get no event. The answer comes while it is read: lines of progress (`HistoryProgress`), and of
/// lines that were not taken (`ImportFailure`). A message that is there stays as it is.
#[utoipa::path(post, path = "/v1/guilds/{guild_id}/import/messages", tag = "messages",
    params(("guild_id" = AnyId, Path), HistoryQuery),
    request_body(content = String, content_type = "application/x-ndjson", description = "`HistoryLine`s"),
    responses((status = 200, content_type = "application/x-ndjson", body = String), (status = 404, body = V1Error)))]
pub(super) async fn import(
    caller: Caller<Messages>,
    State(v1): State<Arc<V1>>,
    path: Path,
    Query(query): Query<HistoryQuery>,
    body: Arriving,
) -> Result<Response, V1Error> {
    let guild_id = path.id("guild_id")?;
    let permit = caller.permit_for(&guilds::reply(&v1, guild_id).await?);
    let place = caller.into_stream(&v1)?;
    let lines = Lines::new(&v1, body, permit)?;
    let progress = HistoryProgress { bytes_total: lines.bytes_announced, ..HistoryProgress::default() };
    let (v1, skip) = (v1.clone(), query.skip.unwrap_or(0));
    let api = v1.clone();
    Ok(Answer::stream(&api, move |answer| async move {
        let import = History { v1, guild_id, lines, skip, batch: Vec::new(), progress, reported: 0 };
        // A client that disconnected needs no answer; stored messages stay.
        let lines = import.run(answer).await;
        // The place ends with the answer.
        drop(place);
        if let Ok(lines) = lines {
            lines.drain().await;
        }
    }))
}

struct History {
    v1: Arc<V1>,
    guild_id: GuildId,
    lines: Lines,
    skip: u64,
    /// With the numbers of their lines.
    batch: Vec<(u64, HistoryLine)>,
    progress: HistoryProgress,
    /// Messages at the last progress line.
    reported: u64,
}

impl History {
    /// Returns the rest of the body.
    async fn run(mut self, answer: Answer) -> Result<Lines, Gone> {
        match self.all(&answer).await {
            Ok(()) => {
                self.progress.done = true;
                answer.line(&self.progress).await?;
            }
            Err(Ended::Gone) => return Err(Gone),
            Err(Ended::Failed(error)) => {
                answer.line(&self.progress).await?;
                answer.line(&failure(self.lines.number, error)).await?;
            }
        }
        Ok(self.lines)
    }

    async fn all(&mut self, answer: &Answer) -> Result<(), Ended> {
        loop {
            let Some((number, line)) = self.lines.next().await? else { break };
            if number <= self.skip {
                self.reach();
                continue;
            }
            match parse::<HistoryLine>(line) {
                Ok(line) => self.batch.push((number, line)),
                Err(error) => self.fail(answer, number, error).await?,
            }
            if self.batch.len() >= IMPORT_MESSAGES_MAX {
                self.store(answer).await?;
            }
        }
        self.store(answer).await
    }

    async fn fail(&mut self, answer: &Answer, number: u64, error: V1Error) -> Result<(), Ended> {
        self.progress.failed += 1;
        answer.line(&failure(number, error)).await?;
        if self.progress.failed >= FAILURES_MAX {
            let message = format!("{FAILURES_MAX} lines could not be taken: is it the right file?");
            return Err(V1Error::field("", message).into());
        }
        Ok(())
    }

    /// Everything that was read is stored.
    fn reach(&mut self) {
        self.progress.line = self.lines.number;
        self.progress.bytes = self.lines.bytes;
    }

    /// Passes what was read to the guild.
    async fn store(&mut self, answer: &Answer) -> Result<(), Ended> {
        let batch = std::mem::take(&mut self.batch);
        if !batch.is_empty() {
            let messages = self.resolve(answer, batch).await?;
            let (new, known) = self.unknown(messages).await?;
            let count = new.len() as u64;
            let added = if new.is_empty() { 0 } else { self.put(new).await? };
            self.progress.added += added;
            self.progress.unchanged += known + (count - added.min(count));
        }
        self.reach();
        let HistoryProgress { added, unchanged, .. } = self.progress;
        if added + unchanged - self.reported >= PROGRESS_MESSAGES {
            self.reported = added + unchanged;
            answer.line(&self.progress).await?;
        }
        Ok(())
    }

    /// Lines as messages, with the accounts and channels that they name.
    async fn resolve(&mut self, answer: &Answer, batch: Vec<(u64, HistoryLine)>) -> Result<Vec<Message>, Ended> {
        let v1 = self.v1.clone();
        let authors: Vec<AnyId> = batch.iter().map(|(_, line)| line.author_id.clone()).collect();
        let channels: Vec<AnyId> = batch.iter().map(|(_, line)| line.channel_id.clone()).collect();
        let authors = external::known_ids(&v1, ExternalKind::User, &authors).await?;
        let channels = external::known_ids(&v1, ExternalKind::Channel, &channels).await?;
        let ids: Vec<UserId> = authors.iter().flatten().map(|id| Id::new(*id)).collect();
        let mut unique = ids.clone();
        unique.sort_unstable();
        unique.dedup();
        let stored = v1.in_time(v1.node.store().user_versions(&unique)).await?.map_err(V1Error::from)?;
        let users: HashMap<UserId, Arc<User>> = stored.into_iter().map(|(user, _)| (user.id, user)).collect();
        let newest_at = Timestamp(v1.now().unix.0 - AGE_MIN_MS);
        let newest = smallest_id_at::<()>(newest_at).get();
        let mut holders: BTreeMap<ChannelId, Option<GuildId>> = BTreeMap::new();
        let mut messages = Vec::with_capacity(batch.len());
        for (((number, line), author), channel) in batch.into_iter().zip(authors).zip(channels) {
            let mut faults = FieldErrors::default();
            let author = author.and_then(|id| users.get(&Id::new(id)).cloned());
            if author.is_none() {
                faults.add("author_id", "There is no such account: put it first.");
            }
            let channel_id: ChannelId = Id::new(channel.unwrap_or(0));
            let holder = match holders.get(&channel_id) {
                Some(holder) => *holder,
                None => {
                    let holder = v1.in_time(v1.node.guild_of_channel(channel_id)).await?.map_err(V1Error::from)?;
                    holders.insert(channel_id, holder);
                    holder
                }
            };
            if holder != Some(self.guild_id) {
                faults.add("channel_id", "The guild has no such channel or thread.");
            }
            let id = message_id(&line, channel_id, author.as_ref(), newest_at);
            if id.get() < 1 << ID_BITS || id.get() >= newest {
                faults.add(
                    if line.id.is_some() { "id" } else { "timestamp" },
                    "Must be in the past: at least 5 seconds before now, and after 2015.",
                );
            }
            let made = faults.done().and_then(|()| {
                let author = author.ok_or_else(|| V1Error::bug("an author"))?;
                as_message(line, id, channel_id, self.guild_id, author)
            });
            match made {
                Ok(message) => messages.push(message),
                Err(error) => self.fail(answer, number, error).await?,
            }
        }
        Ok(messages)
    }

    /// Those that are not there, and how many are.
    async fn unknown(&mut self, messages: Vec<Message>) -> Result<(Vec<Message>, u64), Ended> {
        let store = self.v1.node.store();
        let found = messages.iter().map(|message| store.message(message.channel_id, message.id));
        let found = self.v1.in_time(futures_util::future::try_join_all(found)).await?.map_err(V1Error::from)?;
        let known = found.iter().flatten().count() as u64;
        let new = messages.into_iter().zip(found).filter_map(|(message, found)| found.is_none().then_some(message));
        Ok((new.collect(), known))
    }

    /// Waits while the guild has no room.
    async fn put(&mut self, messages: Vec<Message>) -> Result<u64, Ended> {
        let began = Instant::now();
        loop {
            let put = request::ImportMessages(messages.iter().cloned().map(Arc::new).collect());
            let put = self.v1.node.command(self.guild_id, Actor::System, put);
            match self.v1.in_time(put).await? {
                Ok(added) => return Ok(added),
                Err(Refusal::Unavailable) if began.elapsed() < BATCH_MAX => tokio::time::sleep(BATCH_PAUSE).await,
                Err(refusal) => return Err(V1Error::from(refusal).into()),
            }
        }
    }
}

/// The id of the line, or one from its time and content; 0 for a time after `newest_at`.
fn message_id(
    line: &HistoryLine,
    channel_id: ChannelId,
    author: Option<&Arc<User>>,
    newest_at: Timestamp,
) -> MessageId {
    if let Some(id) = line.id {
        return id.id();
    }
    // An id has no room for the times of some centuries ahead.
    let Some(timestamp) = line.timestamp.filter(|at| at.0 <= newest_at) else { return Id::new(0) };
    let first: MessageId = smallest_id_at(timestamp.0);
    let digest = Sha256::new()
        .chain_update(channel_id.get().to_le_bytes())
        .chain_update(author.map_or(0, |author| author.id.get()).to_le_bytes())
        .chain_update(line.content.as_bytes())
        .finalize();
    let low = digest[..8].iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte)) & ((1 << ID_BITS) - 1);
    Id::new(first.get() >> ID_BITS << ID_BITS | low)
}

fn as_message(
    line: HistoryLine,
    id: MessageId,
    channel_id: ChannelId,
    guild_id: GuildId,
    author: Arc<User>,
) -> Result<Message, V1Error> {
    let reply_to = line.reply_to;
    let edited_timestamp = line.edited_timestamp.map(|at| at.0);
    let new = line.into_message(channel_id)?;
    // Their ids are the same at each import.
    let with_id = |(index, file): (usize, NewAttachment)| file.with_id(Id::new(id.get() + 1 + index as u64));
    let attachments = new.attachments.into_iter().enumerate().map(with_id);
    let message = Message::new(id, channel_id, Some(guild_id), author);
    Ok(Message {
        content: new.content,
        embeds: new.embeds,
        components: new.components,
        attachments: attachments.collect(),
        flags: new.flags,
        edited_timestamp,
        kind: if reply_to.is_some() { Message::KIND_REPLY } else { Message::KIND_DEFAULT },
        message_reference: reply_to.map(|to| MessageReference {
            message_id: to.id(),
            channel_id,
            guild_id: Some(guild_id),
        }),
        ..message
    })
}
