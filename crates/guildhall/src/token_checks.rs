//! Token checks: the account behind an IDENTIFY or a RESUME.
//!
//! Owns        the tokens that wait for a common read.
//! Invariants  a token that is revoked during its check opens no session after the revocation has closed its sessions:
//!             each answer is sent within `Node::unless_revoked`. (tests `t1_*`)
//! Limits      one token per connection waits; `SIGN_INS_MAX` are read together, and those that are not bots' are
//!             checked by themselves, as many at once as the semaphore has permits.
//! Not here    the checks: `guildhall-node`.

use crate::cluster::{ClusterAccounts, SessionMoves};
use guildhall_net::AuthAnswer;
use guildhall_node::{AuthError, Node};
use guildhall_partition::{Account, AuthFailure, AuthPurpose};
use guildhall_store::SIGN_INS_MAX;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Semaphore;

/// A token that waits for its check.
pub struct Waiting {
    pub token: String,
    pub purpose: AuthPurpose,
    pub answer: AuthAnswer,
}

/// Tokens of connections that come while others are read: the store reads them together.
#[derive(Default)]
struct Queue {
    waiting: Vec<Waiting>,
    /// A task takes them.
    is_taken: bool,
}

/// A task that takes tokens has panicked: those that wait are answered that they cannot be checked now.
struct Abandoned<'a>(&'a Checker);

impl Drop for Abandoned<'_> {
    fn drop(&mut self) {
        // The answers are sent when they are dropped, after the lock.
        let _waiting = std::mem::take(&mut *self.0.gathering()).waiting;
    }
}

/// See the module.
pub struct Checker {
    node: Node,
    /// None: the node is alone, and its partitions admit by themselves.
    accounts: Option<Arc<ClusterAccounts>>,
    /// None: the node is alone, and no other has sessions.
    moves: Option<Arc<SessionMoves>>,
    checks: Arc<Semaphore>,
    gathering: Mutex<Queue>,
}

impl Checker {
    pub fn new(
        node: Node,
        accounts: Option<Arc<ClusterAccounts>>,
        moves: Option<Arc<SessionMoves>>,
        checks: Arc<Semaphore>,
    ) -> Self {
        Self { node, accounts, moves, checks, gathering: Mutex::default() }
    }

    /// Answers without waiting if the node remembers the token. Gives the answer's end back otherwise.
    pub fn check_at_once(&self, waiting: Waiting) -> Result<(), Waiting> {
        if self.accounts.is_some() || self.moves.is_some() {
            return Err(waiting);
        }
        let Waiting { token, purpose, answer } = waiting;
        // As in `check`: a token that is revoked meanwhile opens no session.
        let revocations = self.node.revocations();
        let mut rest = Some(answer);
        let is_identify = matches!(purpose, AuthPurpose::Identify { .. });
        if let Some((account, guilds)) = self.node.authenticate_at_once(&token, is_identify) {
            let guilds = guilds.map(|guilds| guilds.to_vec()).unwrap_or_default();
            let guildhall_node::Account { user, token, expires_at } = account;
            let account = Account { user, guilds, token, expires_at, admission: None };
            self.node.unless_revoked(revocations, || rest.take().map(|answer| answer.send(Ok(account))));
        }
        match rest {
            None => Ok(()),
            Some(answer) => Err(Waiting { token, purpose, answer }),
        }
    }

    fn gathering(&self) -> MutexGuard<'_, Queue> {
        self.gathering.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a token to those that are read next. True: the caller runs `take_gathered`.
    pub fn gather(&self, waiting: Waiting) -> bool {
        let mut gathering = self.gathering();
        gathering.waiting.push(waiting);
        !std::mem::replace(&mut gathering.is_taken, true)
    }

    /// Up to `SIGN_INS_MAX` tokens that wait, oldest first. None: no task takes them from now on.
    fn next_gathered(&self) -> Option<Vec<Waiting>> {
        let mut gathering = self.gathering();
        let count = gathering.waiting.len().min(SIGN_INS_MAX);
        gathering.is_taken = count > 0;
        (count > 0).then(|| gathering.waiting.drain(..count).collect())
    }

    /// Reads and answers until none waits.
    pub async fn take_gathered(self: Arc<Self>) {
        let abandoned = Abandoned(&self);
        while let Some(gathered) = self.next_gathered() {
            self.node.read_bots(gathered.iter().map(|waiting| waiting.token.as_str())).await;
            for waiting in gathered {
                // A user token, one that is not valid, or one whose read failed.
                if let Err(waiting) = self.check_at_once(waiting) {
                    tokio::spawn(self.clone().check_alone(waiting));
                }
            }
        }
        std::mem::forget(abandoned);
    }

    async fn check_alone(self: Arc<Self>, waiting: Waiting) {
        let Self { node, checks, accounts, moves, .. } = &*self;
        let Waiting { token, purpose, answer } = waiting;
        let mut answer = Some(answer);
        // A token that is revoked during its check must not open a session after the revocation has closed its
        // sessions.
        while let Some(sender) = answer.take() {
            let Ok(permit) = checks.acquire().await else { return };
            let revocations = node.revocations();
            let mut result = check(node, &token, purpose).await;
            // The home of an account may be slow: others are checked meanwhile.
            drop(permit);
            if let (Ok(account), Some(accounts), AuthPurpose::Identify { shard_id }) = (&mut result, accounts, purpose)
            {
                account.admission = Some(accounts.admit(&account.user, shard_id).await);
            }
            // Its session may have been given to another node while this one had no lease.
            if let (Ok(_), Some(moves), AuthPurpose::Resume) = (&result, moves, purpose)
                && !moves.settle().await
            {
                result = Err(AuthFailure::Unavailable);
            }
            let mut rest = Some(sender);
            node.unless_revoked(revocations, || rest.take().map(|answer| answer.send(result)));
            answer = rest;
        }
    }
}

async fn check(node: &Node, token: &str, purpose: AuthPurpose) -> Result<Account, AuthFailure> {
    let account = node.authenticate(token).await.map_err(|error| match error {
        AuthError::Invalid(_) => AuthFailure::Invalid,
        AuthError::KeysComing | AuthError::Busy(_) | AuthError::NoLease => AuthFailure::Unavailable,
        AuthError::Unavailable(error) => {
            tracing::warn!(%error, "a token could not be checked");
            AuthFailure::Unavailable
        }
    })?;
    let guilds = if matches!(purpose, AuthPurpose::Identify { .. }) {
        node.guilds_of_user(account.user.id).await.map_err(|error| {
            tracing::warn!(%error, "an account's guilds could not be read");
            AuthFailure::Unavailable
        })?
    } else {
        Vec::new()
    };
    Ok(Account { user: account.user, guilds, token: account.token, expires_at: account.expires_at, admission: None })
}
