//! Tokens in the database and on the bus, and the promises about them.

use super::{Core, Event, EventKind, LAG_MS_MAX, World};
use crate::{
    process::AGAIN_AFTER_MS,
    tokens::{
        Check, Ended, Entry, Floor, Found, KEYS, Kind, Mint, OWNERS, Question, Revocation, Revoking, Token, TokenEvent,
        TokenOp,
    },
};
use guildhall_cluster::NodeNumber;

/// A node that joined while the watch of the revoking node lagged reads the log within this time, unless the database
/// does not answer for longer.
const BOUND_MS: u64 = AGAIN_AFTER_MS + 10_000;
/// A lease that ended before is known to have ended, also to what waited for the lease store.
const LATE_MS: u64 = 500;

impl Core {
    pub(super) fn begin_tokens(&mut self) {
        for _ in 0..KEYS {
            let key = self.tokens.add(Kind::Key, 0, 0, 0);
            self.tokens.stored.insert(key.id);
            self.tokens.known.push(key);
        }
        self.fill_owners();
    }

    fn fill_owners(&mut self) {
        while self.tokens.owners.len() < OWNERS {
            self.tokens.owners_count += 1;
            self.tokens.owners.push(self.tokens.owners_count);
        }
    }

    /// A token that clients have: one of the last, also if it was revoked.
    pub fn any_token(&mut self) -> Option<Token> {
        let known = &self.tokens.known;
        let last: Vec<Token> = known.iter().rev().filter(|token| token.kind != Kind::Key).take(24).copied().collect();
        self.rng.pick(&last).copied()
    }

    pub(super) fn token_event(&mut self, slot: (usize, u32), event: TokenEvent) {
        let at = self.now + self.delay();
        self.at(at, slot, Event::Token(Box::new(event)));
    }

    pub fn token_op(&mut self, slot: (usize, u32), op: TokenOp) {
        let (is_answered, is_done) = self.luck();
        if self.store_is_away || !is_done {
            return self.token_event(slot, TokenEvent::Found(op, None));
        }
        let at = self.now + self.delay();
        self.push(at, EventKind::TokenOp(slot, Box::new(op), is_answered));
    }

    pub(super) fn token_op_done(&mut self, slot: (usize, u32), op: TokenOp, is_answered: bool) {
        let tokens = &mut self.tokens;
        let found = match &op {
            TokenOp::Floor(Check { token: Token { owner, .. }, .. }, _) | TokenOp::MintFloor(Mint { owner, .. }, _) => {
                Found::Floor(tokens.floors.get(owner).copied().unwrap_or_default())
            }
            TokenOp::Good(check, _) => Found::Is(match check.token.kind {
                Kind::User => !tokens.revoked.contains(&check.token.id),
                Kind::Bot | Kind::Key => tokens.stored.contains(&check.token.id),
            }),
            TokenOp::Store(mint) => {
                let token = tokens.add(mint.kind, mint.owner, 0, 0);
                tokens.stored.insert(token.id);
                Found::Stored(token)
            }
            TokenOp::IsLiving(mint) => Found::Is(!tokens.deleted.contains(&mint.owner)),
            TokenOp::Log(Revoking { entry, revocation, .. }) => {
                tokens.log.insert(*entry, Entry { revocation: *revocation, is_done: false });
                Found::Done
            }
            TokenOp::MarkDone(Revoking { entry, revocation, .. }) => {
                tokens.log.insert(*entry, Entry { revocation: *revocation, is_done: true });
                Found::Done
            }
            TokenOp::Revoke(revoking) => {
                let revoking = revoking.clone();
                self.carry_out(&revoking);
                Found::Done
            }
            TokenOp::Delete(Revoking { revocation: Revocation::All(owner), .. }) => {
                tokens.deleted.insert(*owner);
                Found::Done
            }
            TokenOp::Delete(_) => Found::Done,
            TokenOp::ReadLog(_) => Found::Entries(tokens.log.iter().map(|(id, entry)| (*id, *entry)).collect()),
        };
        self.note(|| format!("slot {} database {op:?} -> {found:?}", slot.0));
        self.token_event(slot, TokenEvent::Found(op, is_answered.then_some(found)));
    }
}

impl Core {
    fn carry_out(&mut self, revoking: &Revoking) {
        let tokens = &mut self.tokens;
        match revoking.revocation {
            Revocation::One(token) if token.kind == Kind::User => drop(tokens.revoked.insert(token.id)),
            Revocation::One(token) => drop(tokens.stored.remove(&token.id)),
            Revocation::All(owner) => {
                let floor = Floor { generation: revoking.entry, at: revoking.clock };
                tokens.floors.insert(owner, floor);
                let all = &tokens.all;
                let is_of = |id: &u64| all.get(*id as usize).is_some_and(|token| revoking.revocation.concerns(token));
                tokens.stored.retain(|id| !is_of(id));
            }
        }
    }

    /// Whether the database has nothing more to revoke.
    pub fn is_carried_out(&self, revocation: Revocation) -> bool {
        match revocation {
            Revocation::One(token) if token.kind == Kind::User => self.tokens.revoked.contains(&token.id),
            Revocation::One(token) => !self.tokens.stored.contains(&token.id),
            Revocation::All(_) => false,
        }
    }

    /// A revocation is acknowledged to its backend.
    pub fn acknowledged(&mut self, slot: (usize, u32), revoking: &Revoking) {
        let now = self.now;
        self.note(|| format!("slot {} has revoked {:?}", slot.0, revoking.revocation));
        self.summary.revocations += 1;
        self.tokens.acknowledge(revoking, now);
        match revoking.revocation {
            Revocation::All(owner) if revoking.deletes => self.tokens.owners.retain(|is| *is != owner),
            Revocation::One(Token { kind: Kind::Key, id, .. }) => {
                self.tokens.known.retain(|token| token.id != id || self.rng.chance(0.5));
                let key = self.tokens.add(Kind::Key, 0, 0, 0);
                self.tokens.stored.insert(key.id);
                self.tokens.known.push(key);
            }
            _ => {}
        }
        self.fill_owners();
    }

    /// Whether a node must take a token for revoked, if its membership began then.
    fn is_over(&self, usable_since: u64, ended: Ended) -> bool {
        let bound = if usable_since + LAG_MS_MAX <= ended.began_at { 0 } else { BOUND_MS };
        ended.at + bound <= self.now
    }

    /// Promise: a node that is awake takes no token or key without a lease, and none whose revocation was acknowledged.
    pub fn took(&mut self, slot: (usize, u32), usable_since: u64, lease_ended_ms: u64, token: &Token) {
        self.summary.taken += 1;
        if !self.is_awake {
            return;
        }
        if lease_ended_ms > LATE_MS {
            self.fail(format!("slot {} takes {token:?} without a lease", slot.0));
        }
        if let Some(ended) = self.tokens.ended(token).filter(|ended| self.is_over(usable_since, *ended)) {
            self.fail(format!("slot {} takes {token:?}, which was revoked: {ended:?}", slot.0));
        }
    }

    /// Promise: no token is minted for an account whose deletion was acknowledged before.
    pub fn gave(&mut self, slot: (usize, u32), mint: &Mint) {
        let Some(token) = mint.token else { return };
        self.tokens.known.push(token);
        if let Some(ended) = self.tokens.is_gone(mint.owner).filter(|ended| ended.at <= mint.began_at) {
            self.fail(format!("slot {} mints {token:?} of a deleted account: {ended:?}", slot.0));
        }
    }

    /// Promise: when a node attaches to guilds again, it has no session of what was revoked before it had its number.
    pub fn joins_again(&mut self, slot: (usize, u32), had_number_at: u64, sessions: &[Token]) {
        let is_left = |token: &&Token| self.tokens.ended(token).is_some_and(|ended| ended.at <= had_number_at);
        if let Some(token) = sessions.iter().find(is_left) {
            self.fail(format!("slot {} joins again with a session of {token:?}, which was revoked", slot.0));
        }
    }

    pub fn ask(&mut self, from: usize, to: NodeNumber, question: Question) {
        if let Some(at) = self.way_on_bus(from, to) {
            self.push(at, EventKind::Question(to, Box::new(question)));
        }
    }

    pub fn answer(&mut self, from: usize, question: &Question) {
        let (slot, number) = (question.from_slot, question.number);
        let asker = self.numbers.get(&slot.0).copied().unwrap_or(u8::MAX);
        if let Some(at) = self.way_on_bus(from, NodeNumber(asker)) {
            self.at(at, slot, Event::Token(Box::new(TokenEvent::Answered(number))));
        }
    }
}

impl World {
    /// Promise: a node that takes part has no session of a token whose revocation was acknowledged.
    pub(super) fn check_sessions(&mut self, index: usize) {
        let Some(process) = &self.slots[index].process else { return };
        let credentials = &process.credentials;
        if !self.core.is_awake || !credentials.is_usable(process.instant(&self.core)) {
            return;
        }
        let found = credentials
            .sessions
            .iter()
            .find_map(|token| Some((token, self.core.tokens.ended(token)?)))
            .filter(|(_, ended)| self.core.is_over(credentials.usable_since, *ended));
        if let Some((token, ended)) = found {
            self.core.fail(format!("slot {index} has a session of {token:?}, which was revoked: {ended:?}"));
        }
    }

    /// Promise: at rest no session and no cache has a token whose revocation was acknowledged.
    pub(super) fn check_tokens_at_rest(&self) -> Result<(), String> {
        for (index, slot) in self.slots.iter().enumerate() {
            let Some(process) = &slot.process else { continue };
            let has_ended = |token: &&Token| self.core.tokens.ended(token).is_some();
            if let Some(token) = process.credentials.sessions.iter().find(has_ended) {
                return Err(format!("slot {index} has a session of {token:?}, which was revoked"));
            }
            let mut taken = self.core.tokens.all.iter().filter(has_ended);
            if let Some(token) = taken.find(|token| process.credentials.takes_by_cache(token)) {
                return Err(format!("slot {index} has {token:?} in its cache, which was revoked"));
            }
        }
        Ok(())
    }
}
