//! Accounts of the whole cluster: an IDENTIFY at any node counts for all of them.
//!
//! Owns        the ledger of the accounts whose home this node is, and the reports to the homes of the others.
//! Invariants  U1 an IDENTIFY is admitted by this node's counts and by the account's home. U2 if the home does not
//!             answer, this node's counts alone decide, and a later report contains the session. U3 every change of an
//!             account's usage is reported until its home has answered; a round reports everything after each change of
//!             the members, and at intervals.
//! Limits      `HOME_MS_MAX` for an answer; a home that did not answer gets no request for `SILENT_MS`. `CHUNK`
//!             accounts a report. IDENTIFYs for one home wait while earlier ones are on their way, one per connection,
//!             and go together, `ADMISSIONS_MAX` at once.
//! Not here    the decision of a home: `guildhall_cluster::Ledger`. The counts of this node: `IdentifyGate`.
//! Spec        docs/cluster.md "Limits"; ADR 37.

use guildhall_cluster::{
    AccountLimits, IdentifyRequest, Incarnation, Ledger, NodeNumber, NodeRecord, NodeState, OverLimit, Reporter, Usage,
    Used, home_of,
};
use guildhall_model::{User, UserId};
use guildhall_net::{AccountUsage, IdentifyGate, SystemClock};
use guildhall_node::{Membership, PeerQuestion};
use guildhall_partition::{IdentifyFault, Reservation};
use guildhall_stdx::Instant;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, btree_map::Entry},
    future::ready,
    iter,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::oneshot;

/// Longest wait for a home. An answer takes a millisecond; a client's IDENTIFY waits for it.
const HOME_MS_MAX: u64 = 500;
/// Pause of requests to a home that did not answer.
const SILENT_MS: u64 = 1_000;
/// Time until a change is reported. A change of the same node is in the next request.
const REPORT_PAUSE_MS: u64 = 100;
/// Interval of the rounds.
const ROUND_MS: u64 = 300_000;
/// Accounts in one report: about 20 bytes each, for bots 100.
const CHUNK: usize = 5_000;
/// IDENTIFYs in one request to a home: about 100 bytes each.
const ADMISSIONS_MAX: usize = 256;

#[derive(Serialize, Deserialize)]
enum AccountQuestion {
    Admit { of: Reporter, stamp: u64, request: IdentifyRequest },
    Report { of: Reporter, stamp: u64, sessions: Vec<(UserId, u32)>, bots: Vec<(UserId, Usage)> },
    EndRound { of: Reporter, begun: u64 },
    Used(UserId),
}

impl PeerQuestion for AccountQuestion {
    const KIND: &'static str = "accounts";
    type Answer = AccountAnswer;
}

/// IDENTIFYs of several accounts, each with its stamp, in the order in which they were admitted here.
#[derive(Serialize, Deserialize)]
struct Admissions {
    of: Reporter,
    requests: Vec<(u64, IdentifyRequest)>,
}

impl PeerQuestion for Admissions {
    const KIND: &'static str = "admissions";
    /// One for each request.
    type Answer = Vec<AccountAnswer>;
}

#[derive(Serialize, Deserialize)]
enum AccountAnswer {
    Admitted(Used),
    Refused(OverLimit),
    /// The home cannot decide.
    Undecided,
    Noted,
    Used(Used),
}

/// Places of the members: when they differ, accounts have other homes.
type Places = Vec<(NodeNumber, Incarnation, bool, u32)>;

/// An IDENTIFY that waits for the answer of its account's home. None: there is none.
struct Waiting {
    stamp: u64,
    request: IdentifyRequest,
    answer: oneshot::Sender<Option<AccountAnswer>>,
}

/// IDENTIFYs by home that wait while the request of earlier ones is under way.
type Lines = BTreeMap<NodeNumber, Vec<Waiting>>;

/// The task that sends requests to a home has panicked: the IDENTIFYs that wait have no answer (U2).
struct Abandoned<'a>(&'a ClusterAccounts, NodeNumber);

impl Drop for Abandoned<'_> {
    fn drop(&mut self) {
        self.0.lines().remove(&self.1);
    }
}

/// IDENTIFYs and sessions of accounts on all nodes.
pub struct ClusterAccounts {
    membership: Arc<Membership>,
    gate: Arc<IdentifyGate>,
    clock: SystemClock,
    ledger: Mutex<Ledger>,
    /// Nodes that did not answer, each with the end of the pause.
    silent: Mutex<BTreeMap<NodeNumber, Instant>>,
    /// A home without an entry gets the next request at once.
    lines: Mutex<Lines>,
}

impl ClusterAccounts {
    /// Answers other nodes, and reports to them until the node leaves.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn start(membership: Arc<Membership>, gate: Arc<IdentifyGate>, clock: SystemClock) -> Arc<Self> {
        gate.follow_changes();
        let (ledger, silent, lines) = (Mutex::default(), Mutex::default(), Mutex::default());
        let accounts = Arc::new(Self { membership, gate, clock, ledger, silent, lines });
        let of = Arc::downgrade(&accounts);
        accounts.membership.on_question(move |question: AccountQuestion| {
            ready(of.upgrade().map(|accounts| accounts.answer(question)))
        });
        let of = Arc::downgrade(&accounts);
        accounts.membership.on_question(move |Admissions { of: reporter, requests }: Admissions| {
            let admit = |accounts: Arc<Self>| {
                let living = accounts.living();
                let each = |(stamp, request)| accounts.admit_here(&living, (reporter, stamp), &request);
                requests.into_iter().map(each).collect()
            };
            ready(of.upgrade().map(admit))
        });
        tokio::spawn(report(accounts.clone()));
        accounts
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Instant {
        self.clock.now().instant
    }

    /// Admits an IDENTIFY (U1). The session counts from now on.
    ///
    /// # Errors
    /// The limit that refuses it.
    pub async fn admit(self: &Arc<Self>, user: &Arc<User>, shard_id: u32) -> Result<Reservation, IdentifyFault> {
        let reserved = self.gate.reserve(self.clock.now(), user, shard_id)?;
        let (gate, account) = (self.gate.clone(), user.clone());
        let reservation = Reservation::new(move || gate.give_back(&account, shard_id));
        let usage = to_usage(reserved.usage);
        let request = IdentifyRequest { user_id: user.id, is_bot: user.bot, shard_id, usage };
        match self.admit_at_home(reserved.stamp, request).await {
            Some(AccountAnswer::Refused(limit)) => Err(match limit {
                OverLimit::Sessions => IdentifyFault::Sessions,
                OverLimit::BotRate => IdentifyFault::BotRate,
                OverLimit::BotDay => IdentifyFault::BotDay,
            }),
            Some(AccountAnswer::Admitted(used)) => {
                if user.bot {
                    self.gate.align_day(self.clock.now(), user.id, used.day_left_ms);
                }
                Ok(reservation)
            }
            // U2.
            _ => {
                self.gate.note_changed(user.id);
                Ok(reservation)
            }
        }
    }

    /// The answer of the account's home. None: it does not answer.
    async fn admit_at_home(self: &Arc<Self>, stamp: u64, request: IdentifyRequest) -> Option<AccountAnswer> {
        let home = self.membership.home_of(request.user_id.get())?;
        if home == self.membership.number() {
            return Some(self.admit_here(&self.living(), (self.membership.reporter(), stamp), &request));
        }
        let (answer, answered) = oneshot::channel();
        let waiting = Waiting { stamp, request, answer };
        let is_first = match self.lines().entry(home) {
            Entry::Occupied(mut line) => {
                line.get_mut().push(waiting);
                false
            }
            Entry::Vacant(line) => {
                line.insert(vec![waiting]);
                true
            }
        };
        if is_first {
            tokio::spawn(self.clone().take_line(home));
        }
        answered.await.ok().flatten()
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends requests to a home until no IDENTIFY waits for it.
    async fn take_line(self: Arc<Self>, home: NodeNumber) {
        let abandoned = Abandoned(&self, home);
        while let Some(waiting) = self.next_waiting(home) {
            let (requests, answers): (Vec<_>, Vec<_>) =
                waiting.into_iter().map(|waiting| ((waiting.stamp, waiting.request), waiting.answer)).unzip();
            for (answer, answered) in answers.into_iter().zip(self.ask_to_admit(home, requests).await) {
                // The caller may have stopped waiting.
                let _ = answer.send(answered);
            }
        }
        std::mem::forget(abandoned);
    }

    /// Up to `ADMISSIONS_MAX` IDENTIFYs that wait, oldest first. None: the task for this home ends.
    fn next_waiting(&self, home: NodeNumber) -> Option<Vec<Waiting>> {
        let mut lines = self.lines();
        let line = lines.get_mut(&home)?;
        let count = line.len().min(ADMISSIONS_MAX);
        if count == 0 {
            lines.remove(&home);
            return None;
        }
        Some(line.drain(..count).collect())
    }

    /// An answer for each request.
    async fn ask_to_admit(
        self: &Arc<Self>,
        home: NodeNumber,
        mut requests: Vec<(u64, IdentifyRequest)>,
    ) -> Vec<Option<AccountAnswer>> {
        let (of, count, began) = (self.membership.reporter(), requests.len(), self.now());
        if count > 1 {
            let question = Admissions { of, requests };
            let answers = match self.is_silent(home) {
                true => Some(Vec::new()),
                false => self.membership.ask_within(home, &question, Duration::from_millis(HOME_MS_MAX)).await,
            };
            let has_waited = self.now().ms_since(began) >= HOME_MS_MAX;
            if answers.is_none() && has_waited {
                self.note_silent(home);
            }
            if answers.is_some() || has_waited {
                let answers = answers.unwrap_or_default().into_iter().map(Some);
                return answers.chain(iter::repeat_with(|| None)).take(count).collect();
            }
            // A node of an earlier version knows only single requests.
            requests = question.requests;
        }
        let ask = |(stamp, request)| {
            let (accounts, question) = (self.clone(), AccountQuestion::Admit { of, stamp, request });
            tokio::spawn(async move { accounts.ask(home, question).await })
        };
        let asked: Vec<_> = requests.into_iter().map(ask).collect();
        let mut answers = Vec::new();
        for answer in asked {
            answers.push(answer.await.ok().flatten());
        }
        answers
    }

    /// IDENTIFYs of a bot today on all nodes. None: its home does not answer.
    pub async fn used(&self, user_id: UserId) -> Option<Used> {
        match self.ask_home(user_id, AccountQuestion::Used(user_id)).await? {
            AccountAnswer::Used(used) => Some(used),
            _ => None,
        }
    }

    async fn ask_home(&self, user_id: UserId, question: AccountQuestion) -> Option<AccountAnswer> {
        let home = self.membership.home_of(user_id.get())?;
        self.ask(home, question).await
    }

    async fn ask(&self, home: NodeNumber, question: AccountQuestion) -> Option<AccountAnswer> {
        if home == self.membership.number() {
            return Some(self.answer(question));
        }
        if self.is_silent(home) {
            return None;
        }
        let patience = Duration::from_millis(HOME_MS_MAX);
        let answer = self.membership.ask_within(home, &question, patience).await;
        match answer {
            Some(_) => drop(self.silent().remove(&home)),
            None => self.note_silent(home),
        }
        answer
    }

    fn is_silent(&self, home: NodeNumber) -> bool {
        self.silent().get(&home).is_some_and(|until| self.now() < *until)
    }

    fn note_silent(&self, home: NodeNumber) {
        if self.silent().insert(home, self.now().after_ms(SILENT_MS)).is_none() {
            tracing::warn!(
                node = home.0,
                "the home of accounts does not answer: each node counts for itself meanwhile"
            );
        }
    }

    fn silent(&self) -> MutexGuard<'_, BTreeMap<NodeNumber, Instant>> {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a question as the home of its account.
    fn answer(&self, question: AccountQuestion) -> AccountAnswer {
        let now = self.now();
        match question {
            AccountQuestion::Admit { of, stamp, request } => self.admit_here(&self.living(), (of, stamp), &request),
            AccountQuestion::Report { of, stamp, sessions, bots } => {
                let mut ledger = self.ledger();
                for (user_id, sessions) in sessions {
                    let usage = Usage { sessions, ..Usage::default() };
                    ledger.report(now, (of, stamp), user_id, &usage);
                }
                for (user_id, usage) in bots {
                    ledger.report(now, (of, stamp), user_id, &usage);
                }
                AccountAnswer::Noted
            }
            AccountQuestion::EndRound { of, begun } => {
                self.ledger().end_round(now, of, begun);
                AccountAnswer::Noted
            }
            AccountQuestion::Used(user_id) => AccountAnswer::Used(self.ledger().used(now, user_id)),
        }
    }

    /// Decides as the home of the account.
    fn admit_here(
        &self,
        living: &[NodeNumber],
        (of, stamp): (Reporter, u64),
        request: &IdentifyRequest,
    ) -> AccountAnswer {
        let limits = self.gate.limits();
        let limits = AccountLimits {
            user_sessions_max: limits.user_sessions_max,
            bot_identifies_per_day: limits.bot_identifies_per_day,
            max_concurrency: limits.max_concurrency,
        };
        let living = |node: NodeNumber| node == of.node || living.contains(&node);
        match self.ledger().admit((self.now(), &living), (of, stamp), request, &limits) {
            Some(Ok(used)) => AccountAnswer::Admitted(used),
            Some(Err(limit)) => AccountAnswer::Refused(limit),
            None => AccountAnswer::Undecided,
        }
    }

    /// All nodes, this one too.
    fn living(&self) -> Vec<NodeNumber> {
        let mut living = self.membership.numbers();
        living.push(self.membership.number());
        living
    }

    /// Reports the counts of this node for these accounts. Returns those whose home did not answer.
    async fn report(&self, members: &[(NodeNumber, NodeRecord)], user_ids: Vec<UserId>) -> Vec<UserId> {
        let mut by_home: BTreeMap<NodeNumber, Vec<UserId>> = BTreeMap::new();
        for user_id in user_ids {
            let home = home_of(user_id.get(), members.iter().map(|(number, record)| (*number, record)));
            by_home.entry(home.unwrap_or(self.membership.number())).or_default().push(user_id);
        }
        let mut failed = Vec::new();
        for (home, user_ids) in by_home {
            let (stamp, usages) = self.gate.usages(self.clock.now(), &user_ids);
            let (mut sessions, mut bots) = (Vec::new(), Vec::new());
            for (user_id, usage) in usages {
                match usage.identifies_today == 0 && usage.keys.is_empty() {
                    true => sessions.push((user_id, usage.sessions_count)),
                    false => bots.push((user_id, to_usage(usage))),
                }
            }
            let question = AccountQuestion::Report { of: self.membership.reporter(), stamp, sessions, bots };
            if self.ask(home, question).await.is_none() {
                failed.extend(user_ids);
            }
        }
        failed
    }
}

fn to_usage(usage: AccountUsage) -> Usage {
    let AccountUsage { sessions_count, identifies_today, day_left_ms, keys } = usage;
    Usage { sessions: sessions_count, identifies: identifies_today, day_left_ms, shards: keys }
}

fn places_of(members: &[(NodeNumber, NodeRecord)]) -> Places {
    let place = |(number, record): &(NodeNumber, NodeRecord)| {
        (*number, record.incarnation, record.state == NodeState::Active, record.weight)
    };
    let mut places: Places = members.iter().map(place).collect();
    places.sort_unstable_by_key(|(number, ..)| *number);
    places
}

/// A report of everything.
#[derive(Default)]
struct Round {
    /// Accounts that are still to be reported.
    left: Vec<UserId>,
    /// Its stamps are later than this one. None: no round is under way.
    begun: Option<u64>,
    is_whole: bool,
}

/// Reports changes and rounds (U3).
async fn report(accounts: Arc<ClusterAccounts>) {
    let mut places = Places::new();
    let mut round = Round::default();
    let mut next_round = Instant(0);
    while !accounts.membership.has_left() {
        tokio::time::sleep(Duration::from_millis(REPORT_PAUSE_MS)).await;
        let (now, members) = (accounts.now(), accounts.membership.members());
        let found = places_of(&members);
        if found != places || (now >= next_round && round.begun.is_none()) {
            if found != places {
                let own = accounts.membership.number();
                let is_living = |node: NodeNumber| members.iter().any(|(number, _)| *number == node);
                let home = |user_id: UserId| home_of(user_id.get(), members.iter().map(|(n, record)| (*n, record)));
                let is_home = |user_id| home(user_id).is_none_or(|home| home == own);
                accounts.ledger().sweep(now, &is_living, is_home);
            }
            places = found;
            let (begun, _) = accounts.gate.usages(accounts.clock.now(), &[]);
            round = Round { left: accounts.gate.accounts(), begun: Some(begun), is_whole: true };
            next_round = now.after_ms(ROUND_MS);
        }
        let changed = accounts.gate.take_changed(CHUNK);
        let part = round.left.split_off(round.left.len().saturating_sub(CHUNK));
        for (is_round, user_ids) in [(false, changed), (true, part)] {
            let failed = accounts.report(&members, user_ids).await;
            round.is_whole &= failed.is_empty() || !is_round;
            failed.into_iter().for_each(|user_id| accounts.gate.note_changed(user_id));
        }
        if let Some(begun) = round.begun.take_if(|_| round.left.is_empty()) {
            match round.is_whole {
                true => {
                    for (number, _) in &members {
                        let end = AccountQuestion::EndRound { of: accounts.membership.reporter(), begun };
                        // Without it the node counts sessions that ended until the next round.
                        let _ = accounts.ask(*number, end).await;
                    }
                }
                // The failed accounts are reported as changed. Only a round without failures has an end.
                false => next_round = accounts.now().after_ms(SILENT_MS),
            }
        }
    }
}
