//! Tokens: tokens and keys in the database, the log of revocations, and the promises that the checker holds nodes to.
//!
//! A key of the backend API is a token without an account: it is revoked by itself, and it mints.

use guildhall_cluster::Incarnation;
use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

pub type TokenId = u64;
pub type OwnerId = u64;
pub type EntryId = u64;

/// Accounts that have tokens at a time. One that is deleted makes room for the next.
pub const OWNERS: usize = 4;
pub const KEYS: usize = 3;
pub const SESSIONS_MAX: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Stored until it is revoked.
    Bot,
    /// Signed, with the account's generation.
    User,
    Key,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    pub id: TokenId,
    pub kind: Kind,
    pub owner: OwnerId,
    pub generation: u64,
    /// By the clock of the node that minted it.
    pub made_at: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revocation {
    /// One token or key.
    One(Token),
    /// All tokens of an account.
    All(OwnerId),
}

impl Revocation {
    pub fn concerns(self, token: &Token) -> bool {
        match self {
            Self::One(one) => one.id == token.id,
            Self::All(owner) => token.kind != Kind::Key && token.owner == owner,
        }
    }
}

/// What "revoke all" left for an account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Floor {
    pub generation: u64,
    pub at: u64,
}

/// Entry of the log of revocations.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub revocation: Revocation,
    pub is_done: bool,
}

/// Use of a token that is being checked.
#[derive(Clone, Copy, Debug)]
pub enum Purpose {
    Session,
    Request,
    Mint(Kind, OwnerId),
}

/// A check in progress, with the answers of the database so far.
#[derive(Clone, Debug)]
pub struct Check {
    pub token: Token,
    pub purpose: Purpose,
    /// Revocations at this node when it began.
    pub revocations: u64,
    pub floor: Option<Floor>,
    pub is_good: Option<bool>,
}

#[derive(Clone, Copy, Debug)]
pub struct Mint {
    pub kind: Kind,
    pub owner: OwnerId,
    pub token: Option<Token>,
    pub began_at: u64,
}

/// A revocation in progress.
#[derive(Clone, Debug)]
pub struct Revoking {
    pub number: u64,
    pub revocation: Revocation,
    /// The account is deleted with it.
    pub deletes: bool,
    pub entry: EntryId,
    pub began_at: u64,
    /// By the clock of its node.
    pub clock: u64,
    /// Tokens that were minted before it began.
    pub covered: Rc<[TokenId]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// The node starts, and takes no tokens yet.
    Start,
    /// The node has its number again, and takes no part yet.
    Rejoin,
    /// Some time later.
    Again(Incarnation),
}

/// Call of the database.
#[derive(Clone, Debug)]
pub enum TokenOp {
    /// With the number of evictions from the cache before.
    Floor(Check, u64),
    Good(Check, u64),
    MintFloor(Mint, u64),
    Store(Mint),
    IsLiving(Mint),
    Log(Revoking),
    Revoke(Revoking),
    MarkDone(Revoking),
    Delete(Revoking),
    ReadLog(Reading),
}

#[derive(Clone, Debug)]
pub enum Found {
    Floor(Floor),
    Is(bool),
    Stored(Token),
    Entries(Vec<(EntryId, Entry)>),
    Done,
}

/// A question of one node to another.
#[derive(Clone, Debug)]
pub struct Question {
    pub from_slot: (usize, u32),
    pub from: Incarnation,
    pub to: Incarnation,
    pub number: u64,
    pub entry: EntryId,
    pub revocation: Revocation,
    /// Sessions end with it.
    pub closes: bool,
}

#[derive(Clone, Debug)]
pub enum TokenEvent {
    Client,
    /// None: the database did not answer.
    Found(TokenOp, Option<Found>),
    Question(Question),
    Answered(u64),
    /// The question with this number has had its time.
    Overdue(u64),
    /// A node repeats a revocation to a node that did not answer.
    AskAgain(u64, u8),
    Retry(Revoking),
    ReadAgain(Reading),
}

/// When a revocation began and was acknowledged.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    pub began_at: u64,
    pub at: u64,
}

/// Tokens in the database, and what was acknowledged of them.
#[derive(Debug, Default)]
pub struct Tokens {
    /// All tokens, by id.
    pub all: Vec<Token>,
    /// Tokens that clients have.
    pub known: Vec<Token>,
    pub stored: BTreeSet<TokenId>,
    /// User tokens that were revoked by themselves.
    pub revoked: BTreeSet<TokenId>,
    pub floors: BTreeMap<OwnerId, Floor>,
    pub deleted: BTreeSet<OwnerId>,
    pub log: BTreeMap<EntryId, Entry>,
    pub entries_count: u64,
    pub revocations_count: u64,
    /// Accounts that clients use.
    pub owners: Vec<OwnerId>,
    pub owners_count: u64,
    ended: BTreeMap<TokenId, Ended>,
    gone: BTreeMap<OwnerId, Ended>,
}

impl Tokens {
    pub fn add(&mut self, kind: Kind, owner: OwnerId, generation: u64, made_at: u64) -> Token {
        let token = Token { id: self.all.len() as u64, kind, owner, generation, made_at };
        self.all.push(token);
        token
    }

    pub fn of_kind(&self, kind: Kind) -> Vec<Token> {
        self.known.iter().filter(|token| token.kind == kind).copied().collect()
    }

    /// Tokens that a revocation has to end.
    pub fn covered(&self, revocation: Revocation) -> Rc<[TokenId]> {
        self.known.iter().filter(|token| revocation.concerns(token)).map(|token| token.id).collect()
    }

    /// A revocation was acknowledged.
    pub fn acknowledge(&mut self, revoking: &Revoking, now: u64) {
        let ended = Ended { began_at: revoking.began_at, at: now };
        for token in revoking.covered.iter() {
            self.ended.entry(*token).or_insert(ended);
        }
        if let (true, Revocation::All(owner)) = (revoking.deletes, revoking.revocation) {
            self.gone.entry(owner).or_insert(ended);
        }
    }

    /// The acknowledged end of a token.
    pub fn ended(&self, token: &Token) -> Option<Ended> {
        let gone = self.gone.get(&token.owner).filter(|_| token.kind != Kind::Key);
        self.ended.get(&token.id).or(gone).copied()
    }

    pub fn is_gone(&self, owner: OwnerId) -> Option<Ended> {
        self.gone.get(&owner).copied()
    }
}
