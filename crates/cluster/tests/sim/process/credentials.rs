//! Credentials: a node's checks of tokens and keys, its caches of both, its sessions, and the revocations it receives,
//! by the rules of `guildhall_node::{tokens, keys, revocations}` and of `guildhall_node::cluster::ask`.

use super::Process;
use crate::{
    tokens::{
        Check, Entry, EntryId, Floor, Found, Kind, Mint, OwnerId, Purpose, Question, Reading, Revocation, Revoking,
        SESSIONS_MAX, Token, TokenEvent, TokenId, TokenOp,
    },
    world::{Core, Event, InjectedFault},
};
use guildhall_cluster::NodeNumber;
use guildhall_stdx::Instant;
use std::collections::{BTreeMap, BTreeSet};

/// Time at which a node that has joined reads the log again.
pub const AGAIN_AFTER_MS: u64 = 5_000;
const ANSWER_MS_MAX: u64 = 2_000;
const AGAIN_PAUSE_MS: u64 = 100;
const LOG_PAUSE_MS: u64 = 200;

/// A cache that takes no answer from before an eviction.
struct Cache<K, V> {
    values: BTreeMap<K, V>,
    evictions: u64,
}

impl<K: Ord, V> Cache<K, V> {
    const fn new() -> Self {
        Self { values: BTreeMap::new(), evictions: 0 }
    }

    fn forget(&mut self, key: &K) {
        self.evictions += 1;
        self.values.remove(key);
    }

    fn clear(&mut self) {
        self.evictions += 1;
        self.values.clear();
    }
}

/// A revocation that a node sends to the others.
struct Telling {
    revoking: Revoking,
    nodes: BTreeSet<NodeNumber>,
    /// A second round, with which sessions end: `ToldKeepsSessions`.
    closes: bool,
}

pub struct Credentials {
    /// Of bot tokens and keys.
    good: Cache<TokenId, OwnerId>,
    unrevoked: Cache<TokenId, ()>,
    floors: Cache<OwnerId, Floor>,
    revocations: u64,
    pub sessions: Vec<Token>,
    heard: BTreeSet<EntryId>,
    usable_until: Instant,
    /// When the node's membership began.
    pub usable_since: u64,
    has_started: bool,
    /// Whether it knows the other nodes.
    pub has_watched: bool,
    questions: BTreeMap<u64, (u64, NodeNumber)>,
    telling: BTreeMap<u64, Telling>,
}

impl Credentials {
    pub fn new(now: u64, usable_until: Instant) -> Self {
        Self {
            good: Cache::new(),
            unrevoked: Cache::new(),
            floors: Cache::new(),
            revocations: 0,
            sessions: Vec::new(),
            heard: BTreeSet::new(),
            usable_until,
            usable_since: now,
            has_started: false,
            has_watched: false,
            questions: BTreeMap::new(),
            telling: BTreeMap::new(),
        }
    }

    pub fn use_until(&mut self, until: Instant) {
        self.usable_until = until;
    }

    pub fn is_usable(&self, now: Instant) -> bool {
        now < self.usable_until
    }

    fn forget_all(&mut self) {
        self.good.clear();
        self.unrevoked.clear();
        self.floors.clear();
        self.revocations += 1;
    }

    pub fn lease_ended(&mut self) {
        self.use_until(Instant(0));
        self.forget_all();
    }

    fn forget(&mut self, revocation: Revocation) {
        match revocation {
            Revocation::One(token) => {
                self.good.forget(&token.id);
                self.unrevoked.forget(&token.id);
            }
            Revocation::All(owner) => {
                self.floors.forget(&owner);
                self.good.evictions += 1;
                self.good.values.retain(|_, of| *of != owner);
            }
        }
        self.revocations += 1;
    }

    fn close(&mut self, revocation: Revocation) {
        self.sessions.retain(|token| !revocation.concerns(token));
    }

    /// Whether the caches alone have the node take a token.
    pub fn takes_by_cache(&self, token: &Token) -> bool {
        match token.kind {
            Kind::Bot | Kind::Key => self.good.values.contains_key(&token.id),
            Kind::User => {
                let floor = self.floors.values.get(&token.owner);
                self.unrevoked.values.contains_key(&token.id)
                    && floor.is_some_and(|floor| floor.generation == token.generation)
            }
        }
    }
}

impl Process {
    pub(super) fn start_credentials(&mut self, core: &mut Core) {
        core.token_op(self.slot, TokenOp::ReadLog(Reading::Start));
    }

    /// The node has its number again: it reads what was revoked before it takes part.
    pub(super) fn read_log(&self, core: &mut Core) {
        core.token_op(self.slot, TokenOp::ReadLog(Reading::Rejoin));
    }

    fn again_soon(&self, core: &mut Core, after_ms: u64) {
        let reading = Reading::Again(self.machine.record().incarnation);
        core.at(core.now + after_ms, self.slot, Event::Token(Box::new(TokenEvent::ReadAgain(reading))));
    }

    pub(super) fn joined(&mut self, core: &mut Core, had_number_at: u64) {
        core.joins_again(self.slot, had_number_at, &self.credentials.sessions);
        self.credentials.usable_since = core.now;
        self.again_soon(core, AGAIN_AFTER_MS);
    }

    pub(super) fn handle_token(&mut self, core: &mut Core, event: TokenEvent) {
        match event {
            TokenEvent::Client => {
                if core.is_calm {
                    return;
                }
                if self.credentials.has_started {
                    self.want_token(core);
                }
                // Clients come back at once to a node that has started.
                let pause = if core.now < self.credentials.usable_since + 400 { 10 } else { 200 };
                let at = core.now + 5 + core.rng.below(pause);
                core.at(at, self.slot, Event::Token(Box::new(TokenEvent::Client)));
            }
            TokenEvent::Found(op, found) => self.found(core, op, found),
            TokenEvent::Question(question) => self.handle_question(core, &question),
            TokenEvent::Answered(number) => {
                if let Some((revoking, node)) = self.credentials.questions.remove(&number) {
                    self.notified(core, revoking, node);
                }
            }
            TokenEvent::Overdue(number) => {
                if let Some((revoking, node)) = self.credentials.questions.remove(&number) {
                    let event = TokenEvent::AskAgain(revoking, node.0);
                    core.at(core.now + AGAIN_PAUSE_MS, self.slot, Event::Token(Box::new(event)));
                }
            }
            TokenEvent::AskAgain(revoking, node) => self.ask(core, revoking, NodeNumber(node)),
            TokenEvent::Retry(revoking) => self.revoke(core, revoking),
            TokenEvent::ReadAgain(reading) => {
                let current = Reading::Again(self.machine.record().incarnation);
                if reading == Reading::Start || reading == current {
                    core.token_op(self.slot, TokenOp::ReadLog(reading));
                }
            }
        }
    }

    fn want_token(&mut self, core: &mut Core) {
        let keys = core.tokens.of_kind(Kind::Key);
        let owners = core.tokens.owners.clone();
        let (Some(key), Some(owner)) = (core.rng.pick(&keys).copied(), core.rng.pick(&owners).copied()) else { return };
        let any = core.any_token();
        match (core.rng.below(20), any) {
            (0..4, _) => {
                let kind = if core.rng.chance(0.5) { Kind::Bot } else { Kind::User };
                self.check(core, key, Purpose::Mint(kind, owner));
            }
            (4..9, Some(token)) => self.check(core, token, Purpose::Session),
            (9..16, Some(token)) => self.check(core, token, Purpose::Request),
            (16, _) if !self.credentials.sessions.is_empty() => {
                let at = core.rng.below(self.credentials.sessions.len() as u64) as usize;
                self.credentials.sessions.swap_remove(at);
            }
            (17, Some(token)) => self.want_revocation(core, Revocation::One(token), false),
            (18, _) => self.want_revocation(core, Revocation::All(owner), false),
            (19, _) if core.rng.chance(0.3) => self.want_revocation(core, Revocation::All(owner), true),
            (19, _) if core.rng.chance(0.2) => self.want_revocation(core, Revocation::One(key), false),
            _ => {}
        }
    }

    fn has_lease(&self, core: &Core) -> bool {
        self.credentials.is_usable(self.instant(core)) || core.sabotage == InjectedFault::NoLeaseCheck
    }

    // ── checks ───────────────────────────────────────────────────────────────────────────────────

    fn check(&mut self, core: &mut Core, token: Token, purpose: Purpose) {
        if !self.has_lease(core) {
            core.summary.without_lease += 1;
            return;
        }
        let revocations = self.credentials.revocations;
        self.check_on(core, Check { token, purpose, revocations, floor: None, is_good: None });
    }

    fn check_on(&mut self, core: &mut Core, mut check: Check) {
        let (credentials, token) = (&self.credentials, check.token);
        if token.kind == Kind::User && check.floor.is_none() {
            check.floor = credentials.floors.values.get(&token.owner).copied();
            if check.floor.is_none() {
                return core.token_op(self.slot, TokenOp::Floor(check, credentials.floors.evictions));
            }
        }
        if check.is_good.is_none() {
            let (is_cached, evictions) = match token.kind {
                Kind::User => (credentials.unrevoked.values.contains_key(&token.id), credentials.unrevoked.evictions),
                Kind::Bot | Kind::Key => (credentials.good.values.contains_key(&token.id), credentials.good.evictions),
            };
            if !is_cached {
                return core.token_op(self.slot, TokenOp::Good(check, evictions));
            }
            check.is_good = Some(true);
        }
        let is_revoked = check.floor.is_some_and(|floor| match core.sabotage {
            InjectedFault::DatesDecide => token.made_at <= floor.at,
            _ => floor.generation != token.generation,
        });
        if is_revoked || check.is_good != Some(true) {
            return;
        }
        if check.revocations != self.credentials.revocations && core.sabotage != InjectedFault::NoSecondCheck {
            return self.check(core, token, check.purpose);
        }
        let lease_ended_ms = self.instant(core).ms_since(self.lease.valid_until());
        core.took(self.slot, self.credentials.usable_since, lease_ended_ms, &token);
        match check.purpose {
            Purpose::Session => {
                if self.credentials.sessions.len() < SESSIONS_MAX {
                    self.credentials.sessions.push(token);
                }
            }
            Purpose::Request => {}
            Purpose::Mint(kind, owner) => self.mint(core, Mint { kind, owner, token: None, began_at: core.now }),
        }
    }

    fn mint(&mut self, core: &mut Core, mint: Mint) {
        match mint.kind {
            Kind::User => match self.credentials.floors.values.get(&mint.owner) {
                Some(floor) => self.minted(core, mint, floor.generation),
                None => core.token_op(self.slot, TokenOp::MintFloor(mint, self.credentials.floors.evictions)),
            },
            Kind::Bot | Kind::Key => core.token_op(self.slot, TokenOp::Store(mint)),
        }
    }

    fn minted(&mut self, core: &mut Core, mint: Mint, generation: u64) {
        let made_at = self.instant(core).0;
        let token = core.tokens.add(mint.kind, mint.owner, generation, made_at);
        core.token_op(self.slot, TokenOp::IsLiving(Mint { token: Some(token), ..mint }));
    }

    // ── revocations ──────────────────────────────────────────────────────────────────────────────

    fn want_revocation(&mut self, core: &mut Core, revocation: Revocation, deletes: bool) {
        let is_ready = self.credentials.has_watched || core.sabotage == InjectedFault::TellsUnwatched;
        if !is_ready || !self.has_lease(core) {
            return;
        }
        core.tokens.revocations_count += 1;
        let (number, covered) = (core.tokens.revocations_count, core.tokens.covered(revocation));
        self.revoke(core, Revoking { number, revocation, deletes, entry: 0, began_at: core.now, clock: 0, covered });
    }

    /// The backend's request, or its repetition after an error.
    fn revoke(&mut self, core: &mut Core, mut revoking: Revoking) {
        core.tokens.entries_count += 1;
        revoking.entry = core.tokens.entries_count;
        revoking.clock = self.instant(core).0;
        let op = match core.sabotage {
            // The account is deleted first: a token that is minted meanwhile is revoked with the others.
            _ if revoking.deletes && core.sabotage != InjectedFault::RevokesThenDeletes => TokenOp::Delete(revoking),
            InjectedFault::NotLogged => TokenOp::Revoke(revoking),
            _ => TokenOp::Log(revoking),
        };
        core.token_op(self.slot, op);
    }

    fn failed(&self, core: &mut Core, revoking: Revoking) {
        if !core.is_calm {
            let at = core.now + 100 + core.rng.below(1_000);
            core.at(at, self.slot, Event::Token(Box::new(TokenEvent::Retry(revoking))));
        }
    }

    fn found(&mut self, core: &mut Core, op: TokenOp, found: Option<Found>) {
        let (credentials, fills_late) = (&mut self.credentials, core.sabotage == InjectedFault::FillsLate);
        match (op, found) {
            (TokenOp::Floor(check, evictions), Some(Found::Floor(floor))) => {
                if evictions == credentials.floors.evictions || fills_late {
                    credentials.floors.values.insert(check.token.owner, floor);
                }
                self.check_on(core, Check { floor: Some(floor), ..check });
            }
            (TokenOp::Good(check, evictions), Some(Found::Is(is_good))) => {
                let Token { id, kind, owner, .. } = check.token;
                if is_good && kind == Kind::User && (evictions == credentials.unrevoked.evictions || fills_late) {
                    credentials.unrevoked.values.insert(id, ());
                }
                if is_good && kind != Kind::User && (evictions == credentials.good.evictions || fills_late) {
                    credentials.good.values.insert(id, owner);
                }
                self.check_on(core, Check { is_good: Some(is_good), ..check });
            }
            (TokenOp::MintFloor(mint, evictions), Some(Found::Floor(floor))) => {
                if evictions == credentials.floors.evictions || fills_late {
                    credentials.floors.values.insert(mint.owner, floor);
                }
                self.minted(core, mint, floor.generation);
            }
            (TokenOp::Store(mint), Some(Found::Stored(token))) => {
                core.token_op(self.slot, TokenOp::IsLiving(Mint { token: Some(token), ..mint }));
            }
            (TokenOp::IsLiving(mint), Some(Found::Is(true))) => core.gave(self.slot, &mint),
            // Refused, or its client gets 503.
            (
                TokenOp::Floor(..)
                | TokenOp::Good(..)
                | TokenOp::MintFloor(..)
                | TokenOp::Store(_)
                | TokenOp::IsLiving(_),
                _,
            ) => {}
            (TokenOp::Delete(revoking), Some(_)) if core.sabotage == InjectedFault::RevokesThenDeletes => {
                core.acknowledged(self.slot, &revoking);
            }
            (TokenOp::Delete(revoking), Some(_)) => core.token_op(self.slot, TokenOp::Log(revoking)),
            (TokenOp::Log(revoking), Some(_)) => {
                credentials.heard.insert(revoking.entry);
                core.token_op(self.slot, TokenOp::Revoke(revoking));
            }
            (TokenOp::Revoke(revoking), found) => {
                // Also without an answer: it may have been carried out.
                credentials.forget(revoking.revocation);
                if found.is_some() {
                    credentials.close(revoking.revocation);
                    if core.sabotage == InjectedFault::NotLogged {
                        return self.tell(core, revoking);
                    }
                    return core.token_op(self.slot, TokenOp::MarkDone(revoking));
                }
                if core.sabotage == InjectedFault::RetryFindsNothing && core.is_carried_out(revoking.revocation) {
                    return core.acknowledged(self.slot, &revoking);
                }
                self.failed(core, revoking);
            }
            // An entry that stays marked as not done is applied twice.
            (TokenOp::MarkDone(revoking), _) => self.tell(core, revoking),
            (TokenOp::Delete(revoking) | TokenOp::Log(revoking), None) => self.failed(core, revoking),
            (TokenOp::ReadLog(reading), Some(Found::Entries(entries))) => self.read(core, reading, &entries),
            (TokenOp::ReadLog(Reading::Rejoin), _) => self.kept_away(core),
            (TokenOp::ReadLog(Reading::Again(_)), _) if core.sabotage == InjectedFault::ReadsOnce => {}
            (TokenOp::ReadLog(reading), _) => {
                core.at(core.now + LOG_PAUSE_MS, self.slot, Event::Token(Box::new(TokenEvent::ReadAgain(reading))));
            }
        }
    }

    fn read(&mut self, core: &mut Core, reading: Reading, entries: &[(EntryId, Entry)]) {
        match reading {
            // Whatever was done by now is not in its caches, and no session of it is here.
            Reading::Start => {
                let is_done = |(_, entry): &&(EntryId, Entry)| entry.is_done;
                self.credentials.heard.extend(entries.iter().filter(is_done).map(|(id, _)| *id));
                self.credentials.has_started = true;
                if core.sabotage != InjectedFault::StartsUnread {
                    self.again_soon(core, AGAIN_AFTER_MS);
                }
            }
            Reading::Rejoin => {
                self.credentials.forget_all();
                self.apply(entries, false);
                self.caught_up(core);
            }
            Reading::Again(_) => self.apply(entries, true),
        }
    }

    /// Applies entries that the node has not heard of. `is_last`: also those that are not done count as heard.
    fn apply(&mut self, entries: &[(EntryId, Entry)], is_last: bool) {
        for (id, entry) in entries {
            if !self.credentials.heard.contains(id) {
                self.credentials.forget(entry.revocation);
                self.credentials.close(entry.revocation);
                if entry.is_done || is_last {
                    self.credentials.heard.insert(*id);
                }
            }
        }
    }

    fn tell(&mut self, core: &mut Core, revoking: Revoking) {
        self.tell_round(core, revoking, core.sabotage != InjectedFault::ToldKeepsSessions);
    }

    fn tell_round(&mut self, core: &mut Core, revoking: Revoking, closes: bool) {
        let number = revoking.number;
        let peers: BTreeSet<NodeNumber> = match core.sabotage {
            InjectedFault::NotTold => BTreeSet::new(),
            _ => self.machine.peers().map(|(number, _)| number).collect(),
        };
        self.credentials.telling.insert(number, Telling { revoking, nodes: peers.clone(), closes });
        peers.into_iter().for_each(|node| self.ask(core, number, node));
        self.all_notified(core, number);
    }

    fn ask(&mut self, core: &mut Core, revoking: u64, node: NodeNumber) {
        let Some(telling) = self.credentials.telling.get(&revoking) else { return };
        let Some((_, record)) = self.machine.peers().find(|(number, _)| *number == node) else {
            return self.notified(core, revoking, node);
        };
        core.questions_count += 1;
        let question = Question {
            from_slot: self.slot,
            from: self.machine.record().incarnation,
            to: record.incarnation,
            number: core.questions_count,
            entry: telling.revoking.entry,
            revocation: telling.revoking.revocation,
            closes: telling.closes,
        };
        self.credentials.questions.insert(question.number, (revoking, node));
        let overdue = TokenEvent::Overdue(question.number);
        core.at(core.now + ANSWER_MS_MAX, self.slot, Event::Token(Box::new(overdue)));
        core.ask(self.slot.0, node, question);
    }

    fn handle_question(&mut self, core: &mut Core, question: &Question) {
        let is_current =
            self.machine.record().incarnation == question.to && self.machine.peer_of(question.from).is_some();
        if is_current {
            self.credentials.forget(question.revocation);
            if question.closes {
                self.credentials.close(question.revocation);
            }
            self.credentials.heard.insert(question.entry);
            core.answer(self.slot.0, question);
        }
    }

    fn notified(&mut self, core: &mut Core, revoking: u64, node: NodeNumber) {
        if let Some(telling) = self.credentials.telling.get_mut(&revoking) {
            telling.nodes.remove(&node);
        }
        self.all_notified(core, revoking);
    }

    fn all_notified(&mut self, core: &mut Core, revoking: u64) {
        if self.credentials.telling.get(&revoking).is_none_or(|telling| !telling.nodes.is_empty()) {
            return;
        }
        let Some(Telling { revoking, closes, .. }) = self.credentials.telling.remove(&revoking) else { return };
        if !closes {
            return self.tell_round(core, revoking, true);
        }
        if revoking.deletes && core.sabotage == InjectedFault::RevokesThenDeletes {
            return core.token_op(self.slot, TokenOp::Delete(revoking));
        }
        core.acknowledged(self.slot, &revoking);
    }
}
