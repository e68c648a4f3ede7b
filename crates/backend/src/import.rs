//! Import: members of a guild, a line each, as many as there are.
//!
//! Invariants  M1 a line that progress has reported is durable: an import that continues after it (`skip`) loses
//!             nothing. M2 the guild serves others in between: it gets at most `IMPORT_MEMBERS_MAX` members at a time,
//!             and the next when it has stored these. M3 `replace` removes no member before the whole file was read,
//!             none for a file with a faulty line, none that joined during the import, and never the owner.
//!             (tests `m3_*`)
//! Limits      as `lines`; `FAILURES_MAX` faulty lines, then the import ends: the file is probably the wrong one.
//!             `replace` holds 9 bytes for each member of the guild.
//! Spec        docs/backend-api.md "Importing members".

use super::{
    V1,
    caller::{Caller, Write},
    dto::{ImportLine, check_not_everyone},
    error::{FieldError, V1Error},
    external,
    extract::{Arriving, Check, FieldErrors, Path, Query, parse},
    guilds, jobs,
    ndjson::{Answer, Gone, Lines},
    types::{AnyId, Snowflake, check_new_id},
    users,
};
use axum::{extract::State, response::Response};
use guildhall_guild::{IMPORT_MEMBERS_MAX, JoinAudience, NewMember, Refusal, Request, request};
use guildhall_model::{GuildId, Id, RoleId, User, UserId};
use guildhall_store::ExternalKind;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    mem,
    sync::Arc,
    time::{Duration, Instant},
};
use utoipa::{IntoParams, ToSchema};

/// Faulty lines that are reported. With more, the file is probably the wrong one, and the import ends.
const FAILURES_MAX: u64 = 1_000;
/// Members between two lines of progress.
const PROGRESS_MEMBERS: u64 = 4 * IMPORT_MEMBERS_MAX as u64;
/// Number and interval of retries of a batch for which the guild had no room.
const BATCH_TRIES: u32 = 20;
const BATCH_PAUSE: Duration = Duration::from_millis(100);
/// Accounts that a dry run names.
const NAMED_MAX: usize = 100;

/// Parameters of an import.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct How {
    /// Skips this many lines: the `line` of the last progress, to continue an interrupted import.
    skip: Option<u64>,
    /// Sends GUILD_MEMBER_ADD to all members. Otherwise only the new members' own sessions are notified.
    events: Option<bool>,
    /// Removes members that are not in the file at the end, except the owner. Not with `skip`.
    replace: Option<bool>,
    /// Changes nothing, and reports the changes that the import would make.
    dry_run: Option<bool>,
}

impl Check for How {
    fn check(&self, faults: &mut FieldErrors) {
        if self.replace == Some(true) && self.skip.is_some_and(|skip| skip > 0) {
            faults.add("skip", "Must be left out with `replace`, which has to see the whole file.");
        }
    }
}

/// Progress of an import.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub(super) struct ImportProgress {
    /// Everything up to this line is stored.
    line: u64,
    /// Bytes of the body up to this line.
    bytes: u64,
    /// Bytes of the whole body, if the request announced them (`Content-Length`).
    bytes_total: Option<u64>,
    /// Number of members who joined.
    added: u64,
    /// Number of changed members.
    changed: u64,
    /// Number of unchanged members.
    unchanged: u64,
    /// Number of removed members.
    removed: u64,
    /// Number of refused lines.
    failed: u64,
    /// Whether it was a dry run: the numbers are those of a real import.
    dry_run: bool,
    /// Of a dry run's last line: the first accounts that would join, at most 100. New accounts
    /// without an id are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    added_first: Option<Vec<Snowflake>>,
    /// Of a dry run's last line: the first members who would be removed, at most 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    removed_first: Option<Vec<Snowflake>>,
    /// Whether the import is complete. If no line has true, the import broke off.
    done: bool,
}

/// A refused line, or the reason for which the import ends.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ImportFailure {
    /// Number of the line, from 1.
    line: u64,
    /// Error code, as in other errors.
    code: &'static str,
    /// Correction of the line.
    message: String,
    /// Faults by field.
    errors: Vec<FieldError>,
}

/// Imports members
///
/// The body has a member a line, with the account. The answer comes while it is read: lines of progress
/// (`ImportProgress`), and of lines that were not taken (`ImportFailure`).
#[utoipa::path(post, path = "/v1/guilds/{guild_id}/members/import", tag = "members",
    params(("guild_id" = AnyId, Path), How),
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
    let dry_run = how.dry_run.unwrap_or(false);
    let unseen = if how.replace.unwrap_or(false) { Some(Unseen::of(&v1, guild_id).await?) } else { None };
    let lines = Lines::new(&v1, body, permit)?;
    let bytes_total = lines.bytes_announced;
    let import = Import {
        lines,
        v1: v1.clone(),
        guild_id,
        skip: how.skip.unwrap_or(0),
        audience: match how.events {
            Some(true) => JoinAudience::AllMembers,
            _ => JoinAudience::NewMember,
        },
        dry_run,
        unseen,
        batch: Vec::with_capacity(IMPORT_MEMBERS_MAX),
        roles: BTreeSet::new(),
        progress: ImportProgress { dry_run, bytes_total, ..ImportProgress::default() },
        reported: 0,
    };
    Ok(Answer::stream(&v1, move |answer| async move {
        // A client that disconnected needs no answer; stored members stay.
        let lines = import.run(answer).await;
        // The place ends with the answer.
        drop(place);
        if let Ok(lines) = lines {
            lines.drain().await;
        }
    }))
}

/// Members of a guild when an import began, and whether the file has them.
struct Unseen {
    /// Ascending, for binary search.
    members: Vec<UserId>,
    is_seen: Vec<bool>,
}

impl Unseen {
    async fn of(v1: &V1, guild_id: GuildId) -> Result<Self, V1Error> {
        let table = v1.request(guild_id, request::ReadMembers).await?;
        let members = tokio::task::spawn_blocking(move || {
            let mut members: Vec<UserId> = table.iter().map(|entry| entry.member.user.id).collect();
            members.sort_unstable();
            members
        });
        let members = members.await.map_err(|_| V1Error::bug("a list of members"))?;
        Ok(Self { is_seen: vec![false; members.len()], members })
    }

    fn see(&mut self, user_id: UserId) {
        if let Ok(at) = self.members.binary_search(&user_id) {
            self.is_seen[at] = true;
        }
    }

    fn rest(&self, owner_id: UserId) -> Vec<UserId> {
        let unseen =
            self.members.iter().zip(&self.is_seen).filter(|(user_id, is_seen)| !**is_seen && **user_id != owner_id);
        unseen.map(|(user_id, _)| *user_id).collect()
    }
}

struct Import {
    v1: Arc<V1>,
    guild_id: GuildId,
    lines: Lines,
    skip: u64,
    audience: JoinAudience,
    dry_run: bool,
    /// With `replace`.
    unseen: Option<Unseen>,
    /// With the numbers of their lines.
    batch: Vec<(u64, ImportLine)>,
    /// Of the guild, as they were before this batch.
    roles: BTreeSet<RoleId>,
    progress: ImportProgress,
    /// Members at the last progress line.
    reported: u64,
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
                self.reach();
                continue;
            }
            if self.batch.is_empty() {
                let guild = guilds::reply(&self.v1, self.guild_id).await?;
                self.roles = guild.structure.roles.keys().copied().collect();
            }
            match read_line(&self.v1, self.guild_id, &self.roles, line) {
                Ok(line) => self.batch.push((number, line)),
                Err(error) => {
                    self.fail(answer, number, error).await?;
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
        self.store(answer).await?;
        self.remove_unseen(answer).await
    }

    async fn fail(&mut self, answer: &Answer, number: u64, error: V1Error) -> Result<(), Ended> {
        self.progress.failed += 1;
        Ok(answer.line(&failure(number, error)).await?)
    }

    /// Everything that was read is stored.
    fn reach(&mut self) {
        self.progress.line = self.lines.number;
        self.progress.bytes = self.lines.bytes;
    }

    /// Gives the guild what was read.
    async fn store(&mut self, answer: &Answer) -> Result<(), Ended> {
        let batch = mem::take(&mut self.batch);
        if !batch.is_empty() {
            let named: Vec<_> = batch.iter().map(|(_, line)| line.user.named()).collect();
            let ids = external::claim_all(&self.v1, ExternalKind::User, &named, self.dry_run).await?;
            let mut members = Vec::with_capacity(batch.len());
            let mut claims = Vec::new();
            for ((number, line), id) in batch.into_iter().zip(ids) {
                match id {
                    Ok(Some(id)) => {
                        let user_id = Id::new(id);
                        if let Some(unseen) = &mut self.unseen {
                            unseen.see(user_id);
                        }
                        claims.extend(line.user.external_id.clone().map(|text| (number, id, text)));
                        members.push((number, line.into_member(user_id)));
                    }
                    // An account that a dry run does not make.
                    Ok(None) => self.progress.added += 1,
                    Err(error) => self.fail(answer, number, error).await?,
                }
            }
            let members = self.changeable(answer, members).await?;
            let imported = if self.dry_run {
                request_in_guild(&self.v1, self.guild_id, request::CompareMembers(members)).await?
            } else {
                put_accounts(&self.v1, &members).await?;
                self.check_claims(answer, claims).await?;
                let accounts: Vec<Arc<User>> = members.iter().map(|member| member.user.clone()).collect();
                let import = request::ImportMembers(members, self.audience);
                let imported = request_in_guild(&self.v1, self.guild_id, import).await?;
                refresh(&self.v1, self.guild_id, &accounts).await?;
                imported
            };
            self.progress.added += imported.added.len() as u64;
            self.progress.changed += imported.changed;
            self.progress.unchanged += imported.unchanged;
            if self.dry_run {
                let first = self.progress.added_first.get_or_insert_default();
                first.extend(imported.added.iter().map(|id| Snowflake::from(*id)).take(NAMED_MAX - first.len()));
            }
        }
        self.reach();
        let ImportProgress { added, changed, unchanged, .. } = self.progress;
        if added + changed + unchanged - self.reported >= PROGRESS_MEMBERS {
            self.reported = added + changed + unchanged;
            answer.line(&self.progress).await?;
        }
        Ok(())
    }

    /// Leaves out lines whose account cannot be put.
    async fn changeable(&mut self, answer: &Answer, members: Vec<(u64, NewMember)>) -> Result<Vec<NewMember>, Ended> {
        let node = &self.v1.node;
        let ids: Vec<UserId> = members.iter().map(|(_, member)| member.user.id).collect();
        let stored = self.v1.in_time(node.store().user_versions(&ids)).await?.map_err(V1Error::from)?;
        let is_bot: HashMap<UserId, bool> = stored.iter().map(|(user, _)| (user.id, user.bot)).collect();
        let deletions = self.v1.in_time(node.deletions()).await?.map_err(V1Error::from)?;
        let mut changeable = Vec::with_capacity(members.len());
        for (number, member) in members {
            let user = &member.user;
            let fault = if is_bot.get(&user.id).is_some_and(|is_bot| *is_bot != user.bot) {
                Some(users::other_kind())
            } else {
                let job = deletions.iter().find(|(user_id, _)| *user_id == user.id);
                job.map(|(_, job)| jobs::being_deleted(*job))
            };
            match fault {
                Some(error) => self.fail(answer, number, error).await?,
                None => changeable.push(member),
            }
        }
        Ok(changeable)
    }

    /// Reports lines whose external id another node gave to another account before theirs was there.
    async fn check_claims(&mut self, answer: &Answer, claims: Vec<(u64, u64, String)>) -> Result<(), Ended> {
        let ids = claims.iter().map(|(_, id, _)| *id);
        let texts = external::texts(&self.v1, ExternalKind::User, ids).await?;
        let last: HashMap<u64, &String> = claims.iter().map(|(_, id, text)| (*id, text)).collect();
        for (number, id, text) in &claims {
            if last.get(id) == Some(&text) && texts.get(id) != Some(text) {
                self.fail(answer, *number, Refusal::Changed.into()).await?;
            }
        }
        Ok(())
    }

    /// With `replace`: removes members of the time when the import began who are not in the file.
    async fn remove_unseen(&mut self, answer: &Answer) -> Result<(), Ended> {
        let Some(unseen) = self.unseen.take() else { return Ok(()) };
        let ImportProgress { added, changed, unchanged, failed, .. } = self.progress;
        if failed > 0 {
            let message = format!(
                "No member was removed, because {failed} lines are faulty: correct them, and import the whole file again."
            );
            return Err(V1Error::conflict(message).into());
        }
        if added + changed + unchanged == 0 {
            return Err(
                V1Error::field("", "No member was removed, because the file is empty: send all members.").into()
            );
        }
        let owner_id = guilds::reply(&self.v1, self.guild_id).await?.structure.guild.owner_id;
        let rest = unseen.rest(owner_id);
        if self.dry_run {
            self.progress.removed = rest.len() as u64;
            self.progress.removed_first = Some(rest.iter().take(NAMED_MAX).map(|id| (*id).into()).collect());
            return Ok(());
        }
        let mut reported = 0;
        for some in rest.chunks(IMPORT_MEMBERS_MAX) {
            let removed = request_in_guild(&self.v1, self.guild_id, request::RemoveMembers(some.to_vec())).await?;
            self.progress.removed += removed;
            if self.progress.removed - reported >= PROGRESS_MEMBERS {
                reported = self.progress.removed;
                answer.line(&self.progress).await?;
            }
        }
        Ok(())
    }
}

/// Makes the accounts as their lines describe; of lines of one account the last counts.
async fn put_accounts(v1: &V1, members: &[NewMember]) -> Result<(), V1Error> {
    let wanted: BTreeMap<UserId, &User> = members.iter().map(|member| (member.user.id, &*member.user)).collect();
    let ids: Vec<UserId> = wanted.keys().copied().collect();
    let form = |user_id: UserId, before: Option<&User>| {
        let wanted = wanted.get(&user_id)?;
        before.is_none_or(|before| before.bot == wanted.bot).then(|| User::clone(wanted))
    };
    Ok(v1.in_time(v1.node.change_users(&ids, form)).await??)
}

/// Refreshes the accounts in the guild that changed during the import.
async fn refresh(v1: &V1, guild_id: GuildId, sent: &[Arc<User>]) -> Result<(), V1Error> {
    let ids: Vec<UserId> = sent.iter().map(|user| user.id).collect();
    let stored = v1.in_time(v1.node.store().user_versions(&ids)).await??;
    let last: HashMap<UserId, &Arc<User>> = sent.iter().map(|user| (user.id, user)).collect();
    for (user, _) in stored.into_iter().filter(|(user, _)| last.get(&user.id).is_some_and(|sent| *sent != user)) {
        request_in_guild(v1, guild_id, request::RefreshUser(user)).await?;
    }
    Ok(())
}

/// Sends a request that may be repeated. The pause afterwards leaves the guild half of its time for its members.
async fn request_in_guild<R: Request + Clone>(v1: &V1, guild_id: GuildId, request: R) -> Result<R::Reply, V1Error> {
    let mut tries = 1;
    let began = Instant::now();
    loop {
        match v1.request(guild_id, request.clone()).await {
            // Doing twice what was done already changes nothing.
            Err(error) if error.code == "unavailable" && tries < BATCH_TRIES => {
                tries += 1;
                tokio::time::sleep(BATCH_PAUSE).await;
            }
            done => {
                tokio::time::sleep(began.elapsed().min(BATCH_PAUSE)).await;
                return done;
            }
        }
    }
}

fn read_line(v1: &V1, guild_id: GuildId, roles: &BTreeSet<RoleId>, line: &[u8]) -> Result<ImportLine, V1Error> {
    let line: ImportLine = parse(line)?;
    if let Some(id) = line.user.id {
        check_new_id(v1, "user.id", id.id::<()>())?;
    }
    check_not_everyone(guild_id, &line.roles)?;
    let missing = line.roles.iter().position(|role| !roles.contains(&role.id()));
    if let Some(index) = missing {
        return Err(V1Error::field(format!("roles[{index}]"), "The guild has no such role: put the role first."));
    }
    Ok(line)
}

pub(super) fn failure(line: u64, error: V1Error) -> ImportFailure {
    ImportFailure { line, code: error.code, message: error.message.into_owned(), errors: error.errors }
}

/// Why an import ends early.
pub(super) enum Ended {
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
