//! Import: members of a guild, a line each, as many as there are.
//!
//! Invariants  M1 a line that progress was told of is durable: whoever goes on after it (`skip`) loses nothing. M2 the guild
//!             answers others meanwhile: it is given at most `IMPORT_MEMBERS_MAX` members at a time, and the next when it
//!             has stored these.
//! Limits      as `lines`; `FAILURES_MAX` faulty lines, then the import ends: something else is meant.
//! Spec        docs/backend-api.md "Importing members".

use super::{
    V1,
    bodies::{ImportLine, check_not_everyone},
    caller::{Caller, Write},
    error::{FieldError, V1Error},
    expect_read, guilds,
    input::{Arriving, Check, Faults, Path, Query, parse},
    lines::{Answer, Gone, Lines},
    types::{Snowflake, check_new_id},
};
use axum::{extract::State, response::Response};
use guildhall_guild::{BackendCommand, Command, IMPORT_MEMBERS_MAX, NewMember};
use guildhall_model::{GuildId, RoleId};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};
use utoipa::{IntoParams, ToSchema};

/// Faulty lines that are told; with more, the file is another than was meant.
const FAILURES_MAX: u64 = 1_000;
/// Members between two lines of progress.
const PROGRESS_MEMBERS: u64 = 4 * IMPORT_MEMBERS_MAX as u64;
/// A batch that the guild had no room for is tried again, so often and after so long.
const BATCH_TRIES: u32 = 20;
const BATCH_PAUSE: Duration = Duration::from_millis(100);

/// How to import.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct How {
    /// Leave out so many lines at the beginning: the `line` of the last progress, to go on where an import broke off.
    skip: Option<u64>,
    /// Tell everybody who joined, by GUILD_MEMBER_ADD. Otherwise only the members' own sessions hear of it.
    events: Option<bool>,
}

impl Check for How {
    fn check(&self, _: &mut Faults) {}
}

/// How far an import is.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub(super) struct ImportProgress {
    /// Everything up to this line is stored.
    line: u64,
    /// Members who joined.
    added: u64,
    /// Members who were changed.
    changed: u64,
    /// Members who were like that already.
    unchanged: u64,
    /// Lines that were not taken.
    failed: u64,
    /// The end was reached. Without a last line that says so the import broke off.
    done: bool,
}

/// A line that was not taken, or why the import ends.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ImportFailure {
    /// Which line.
    line: u64,
    /// As in other errors.
    code: &'static str,
    /// What to do.
    message: String,
    /// What is wrong with it.
    errors: Vec<FieldError>,
}

/// Imports members
///
/// The body has a member a line, with the account. The answer comes while it is read: lines of progress (`ImportProgress`), and
/// of lines that were not taken (`ImportFailure`).
#[utoipa::path(post, path = "/v1/guilds/{guild_id}/members/import", tag = "members",
    params(("guild_id" = Snowflake, Path), How),
    request_body(content = String, content_type = "application/x-ndjson", description = "`ImportLine`s"),
    responses((status = 200, content_type = "application/x-ndjson", body = String), (status = 404, body = V1Error)))]
pub(super) async fn import(
    caller: Caller<Write>,
    State(v1): State<Arc<V1>>,
    path: Path,
    Query(how): Query<How>,
    body: Arriving,
) -> Result<Response, V1Error> {
    let guild_id = path.id("guild_id")?;
    let permit = caller.permit_for(&guilds::reply(&v1, guild_id).await?);
    let place = caller.into_stream(&v1)?;
    let import = Import {
        lines: Lines::new(&v1, body, permit)?,
        v1: v1.clone(),
        guild_id,
        skip: how.skip.unwrap_or(0),
        tell: how.events.unwrap_or(false),
        batch: Vec::with_capacity(IMPORT_MEMBERS_MAX),
        roles: BTreeSet::new(),
        progress: ImportProgress::default(),
        told: 0,
    };
    Ok(Answer::stream(&v1, move |answer| async move {
        // Who is gone needs no answer; what was stored is.
        let lines = import.run(answer).await;
        // The place ends with the answer.
        drop(place);
        if let Ok(lines) = lines {
            lines.drain().await;
        }
    }))
}

struct Import {
    v1: Arc<V1>,
    guild_id: GuildId,
    lines: Lines,
    skip: u64,
    tell: bool,
    batch: Vec<NewMember>,
    /// Of the guild, as they were before this batch.
    roles: BTreeSet<RoleId>,
    progress: ImportProgress,
    /// Members, when progress was told last.
    told: u64,
}

impl Import {
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
                self.progress.line = number;
                continue;
            }
            if self.batch.is_empty() {
                let guild = guilds::reply(&self.v1, self.guild_id).await?;
                self.roles = guild.meta.roles.keys().copied().collect();
            }
            match read_line(&self.v1, self.guild_id, &self.roles, line) {
                Ok(member) => self.batch.push(member),
                Err(error) => {
                    self.progress.failed += 1;
                    answer.line(&failure(number, error)).await?;
                    if self.progress.failed >= FAILURES_MAX {
                        self.store(answer).await?;
                        let message = format!("{FAILURES_MAX} lines could not be taken: is it the right file?");
                        return Err(V1Error::field("", message).into());
                    }
                }
            }
            if self.batch.len() >= IMPORT_MEMBERS_MAX {
                self.store(answer).await?;
            }
        }
        self.store(answer).await
    }

    /// Gives the guild what was read.
    async fn store(&mut self, answer: &Answer) -> Result<(), Ended> {
        if !self.batch.is_empty() {
            let members = std::mem::take(&mut self.batch);
            let command = BackendCommand::ImportMembers { members, tell: self.tell };
            let command = Command::Backend(Box::new(command));
            let mut tries = 1;
            let began = Instant::now();
            let reply = loop {
                match self.v1.ask(self.guild_id, command.clone()).await {
                    // Putting twice what was put already changes nothing.
                    Err(error) if error.code == "unavailable" && tries < BATCH_TRIES => {
                        tries += 1;
                        tokio::time::sleep(BATCH_PAUSE).await;
                    }
                    done => break done?,
                }
            };
            let imported = expect_read!(reply, Imported)?;
            // An import has time; who talks in the guild meanwhile has not. So it leaves the node as much as it took.
            tokio::time::sleep(began.elapsed().min(BATCH_PAUSE)).await;
            self.progress.added += imported.added.len() as u64;
            self.progress.changed += imported.changed;
            self.progress.unchanged += imported.unchanged;
        }
        self.progress.line = self.lines.number;
        let ImportProgress { added, changed, unchanged, .. } = self.progress;
        if added + changed + unchanged - self.told >= PROGRESS_MEMBERS {
            self.told = added + changed + unchanged;
            answer.line(&self.progress).await?;
        }
        Ok(())
    }
}

fn read_line(v1: &V1, guild_id: GuildId, roles: &BTreeSet<RoleId>, line: &[u8]) -> Result<NewMember, V1Error> {
    let line: ImportLine = parse(line)?;
    check_new_id(v1, "user.id", line.user.id.id::<()>())?;
    check_not_everyone(guild_id, &line.roles)?;
    let missing = line.roles.iter().position(|role| !roles.contains(&role.id()));
    if let Some(index) = missing {
        return Err(V1Error::field(format!("roles[{index}]"), "The guild has no such role: put the role first."));
    }
    Ok(line.into_member())
}

fn failure(line: u64, error: V1Error) -> ImportFailure {
    ImportFailure { line, code: error.code, message: error.message.into_owned(), errors: error.errors }
}

/// Why an import ends early.
enum Ended {
    Gone,
    Failed(V1Error),
}

impl From<Gone> for Ended {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

impl From<V1Error> for Ended {
    fn from(error: V1Error) -> Self {
        Self::Failed(error)
    }
}
