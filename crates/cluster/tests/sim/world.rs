//! World: time, the bus, the stores, the faults, and the checker.

mod tokens;

use crate::{
    accounts::{Account, AccountEvent, Accounts, Change, Reader},
    host::Committed,
    process::{BALANCE_LIMITS, HandoffEvent, Process, Waiter},
    relay::Learned,
    stores::{Key, Kv, KvOp, KvResult, Stored, Value},
    tokens::{Question, TokenEvent, TokenOp, Tokens},
};
use bytes::Bytes;
use guildhall_cluster::{Incarnation, LeaseTimes, NodeNumber, NodeRecord, NodeState, Origin, RequestId};
use guildhall_guild_protocol::RelayId;
use guildhall_model::GuildId;
use guildhall_stdx::Rng;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    rc::Rc,
};

const LEASE_MS: u64 = 3_000;
/// Faults happen until then.
const CALM_AT_MS: u64 = 20_000;
/// After the faults everything that was under way ends, without a new command.
const REST_MS: u64 = 15_000;
/// Then every node sends a command to every guild, twice.
const LAST_MS: u64 = 5_000;
/// A process that was not paused for so long knows the time.
const AWAKE_MS: u64 = 100;
/// Longest time by which a watch of the lease store lags.
const LAG_MS_MAX: u64 = 4_000 + 1_500;
const TRACE_MAX: usize = 40_000;

/// A fault in a mechanism, which the checker has to notice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InjectedFault {
    #[default]
    None,
    /// The database takes commits of an earlier epoch.
    NoEpochCheck,
    /// Nodes rely on their leases for longer than these last.
    LateFencing,
    /// Guilds ignore that a relay begins again.
    NoReset,
    /// All streams between two nodes have one number.
    StreamReused,
    /// A node carries out requests that it turns away.
    Twice,
    /// Guilds send events before they are committed.
    Hasty,
    /// Guilds send a relay that begins again what they meant for it before.
    StaleUnits,
    /// Nodes serve without a lease.
    NoFencing,
    /// The lease store takes every write of an owner, whatever it has since.
    NoCompareAndSet,
    /// Relays are not reset where a node finds another owner than before, in `Resets::UnlessAt`.
    NoResetElsewhere,
    /// Relays of a node get what its guilds send after it has ceased to be their owner.
    LocalLeak,
    /// Guilds take inputs while their node releases them.
    LateInputs,
    /// A node takes the removal of an owner record for done that may still be carried out.
    LateRemoval,
    /// The database takes changes of an earlier version of an account.
    NoVersionCheck,
    /// A node acknowledges a change of an account that the database has refused.
    RefusedIsDone,
    /// Nodes change deleted accounts.
    ChangesDeleted,
    /// Nodes keep their caches of accounts when messages of another node are lost.
    KeepsCache,
    /// The database assigns an id that is in use to another requester.
    IdsReplaced,
    /// A node that joins again does not read what was revoked.
    NoCatchUp,
    /// A node that joins again takes part before it has read what was revoked.
    ServesFirst,
    /// Nodes take tokens and keys without a lease.
    NoLeaseCheck,
    /// "Revoke all" ends the tokens that are dated before it, and not a generation.
    DatesDecide,
    /// A revocation is acknowledged before other nodes know of it.
    NotTold,
    /// Caches of tokens take answers from before an eviction.
    FillsLate,
    /// A check counts that began before a revocation.
    NoSecondCheck,
    /// A node that hears of a revocation leaves its sessions to a second question.
    ToldKeepsSessions,
    /// A node that starts does not read the log a second time.
    StartsUnread,
    /// A node that joins again reads the log a second time only if the database answers at once.
    ReadsOnce,
    /// Nodes send revocations to each other without logging them.
    NotLogged,
    /// An account is deleted after its tokens were revoked.
    RevokesThenDeletes,
    /// A revocation that is repeated after an error, and finds nothing in the database, is acknowledged at once.
    RetryFindsNothing,
    /// A node that does not know the other nodes yet revokes tokens.
    TellsUnwatched,
    /// A guild is handed over with what is not committed.
    FreezesEarly,
    /// A guild that leaves forgets the messages of relays that it has not handled.
    ForgetsWaiting,
    /// A guild stays although the lease store has not answered whether the record names another node.
    StaysUnsure,
    /// Nodes move guilds for load that have just arrived.
    ForgetsArrivals,
}

impl InjectedFault {
    fn needs_handoffs(self) -> bool {
        matches!(self, Self::FreezesEarly | Self::ForgetsWaiting | Self::StaysUnsure | Self::ForgetsArrivals)
    }
}

#[derive(Clone, Debug)]
pub enum KvEvent {
    Begins,
    Put(u8, NodeRecord),
    Gone(u8),
    Current,
}

/// Something that happens to a process.
#[derive(Debug)]
pub enum Event {
    Worker,
    Partition,
    Flush,
    Timer,
    Activate,
    Client,
    Churn,
    Keeper(u64),
    Link(NodeNumber, u64, u64),
    Answered(Origin, RequestId, bool),
    Frame(Bytes),
    Inbox,
    WatchBegins,
    Watch(u64, KvEvent),
    Kv(Waiter, KvResult),
    Loaded(GuildId, Option<(u64, u64, RequestId)>),
    Committed(GuildId, Committed),
    Account(AccountEvent),
    Token(Box<TokenEvent>),
    Handoff(HandoffEvent),
}

enum EventKind {
    Process((usize, u32), Event),
    /// A frame reaches the processes with this number.
    Arrival(NodeNumber, Bytes),
    Kv(KvOp, Option<((usize, u32), Waiter, u64)>),
    Expiry(Key, u64),
    Claim((usize, u32), GuildId, bool),
    Load((usize, u32), GuildId, u64),
    Commit((usize, u32), GuildId, u64, Vec<RequestId>, bool),
    ReadAccount((usize, u32), u64, Reader),
    /// A change with the account that it makes, and whether the answer comes.
    WriteAccount((usize, u32), Change, Account, bool),
    GiveId((usize, u32), u64, bool),
    /// Whether the answer comes.
    TokenOp((usize, u32), Box<TokenOp>, bool),
    /// A question reaches the processes with this number.
    Question(NodeNumber, Box<Question>),
    /// A step of a hand-off reaches the processes with this number.
    Handoff(NodeNumber, HandoffEvent),
    /// Claims a guild for a standby, and whether the answer comes.
    ClaimOnly((usize, u32), GuildId, bool),
    Start(usize),
    Fault,
    Mend(Mended),
}

#[derive(Debug)]
enum Mended {
    Bus,
    Kv,
    Store,
    Pair(usize, usize),
}

struct Request {
    guild_id: GuildId,
    of: (usize, u32),
    answer: Option<bool>,
}

/// Everything but the processes.
pub struct Core {
    pub now: u64,
    pub rng: Rng,
    pub sabotage: InjectedFault,
    pub lease: LeaseTimes,
    /// After which time a guild is dropped from memory, and then its owner record.
    pub guild_idle_ms: u64,
    pub owner_idle_ms: u64,
    pub payloads: Vec<Rc<[guildhall_cluster::PeerMessage]>>,
    /// Of the message that a process handles now.
    pub sender: Option<NodeNumber>,
    pub is_calm: bool,
    count: u64,
    queue: BTreeMap<(u64, u64), EventKind>,
    guilds: Vec<GuildId>,
    kv: Kv,
    store: BTreeMap<GuildId, Stored>,
    pub accounts: Accounts,
    pub tokens: Tokens,
    pub questions_count: u64,
    pub handoffs_count: u64,
    /// Whether guilds are moved in this run.
    pub has_handoffs: bool,
    /// Whether guilds move for load in this run, and their loads in thousandths of a worker's time.
    pub has_balance: bool,
    pub loads: BTreeMap<GuildId, u16>,
    /// The processes to which guilds were handed over, and when.
    pub arrived: BTreeMap<GuildId, ((usize, u32), u64)>,
    /// The process that handles an event was not paused for a moment.
    pub is_awake: bool,
    requests: BTreeMap<RequestId, Request>,
    watches: BTreeMap<usize, (u32, u64, u64)>,
    arrivals: BTreeMap<(usize, NodeNumber), u64>,
    bus_is_away: bool,
    kv_is_away: bool,
    store_is_away: bool,
    cut: BTreeSet<(usize, usize)>,
    /// Processes whose watch of the lease store lags, and until when.
    lagging: BTreeMap<usize, u64>,
    numbers: BTreeMap<usize, u8>,
    loss: f64,
    duplication: f64,
    problem: Option<String>,
    trace: Option<VecDeque<String>>,
    pub summary: Summary,
}

/// Counts of one run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary {
    pub steps: u64,
    pub done: u64,
    pub refused: u64,
    pub fenced: u64,
    pub events: u64,
    pub snapshots: u64,
    pub crashes: u64,
    pub pauses: u64,
    /// Times that a node found another owner than it knew, without having learned before that its owner has left.
    pub moved: u64,
    /// Writes of an owner that the lease store refused, because another one came first.
    pub conflicts: u64,
    /// Owner records that were removed.
    pub removed: u64,
    /// Acknowledged changes of accounts, and how often another one came before one.
    pub changes: u64,
    pub changed_before: u64,
    /// Ids that another node had.
    pub ids_refused: u64,
    /// Tokens and keys that were taken, and those that were not for want of a lease.
    pub taken: u64,
    pub without_lease: u64,
    /// Acknowledged revocations.
    pub revocations: u64,
    /// Guilds that were handed over.
    pub handed_over: u64,
    /// Of these, for load.
    pub balanced: u64,
    pub digest: u64,
}

impl Core {
    fn push(&mut self, at: u64, happening: EventKind) {
        self.count += 1;
        self.queue.insert((at, self.count), happening);
    }

    pub fn at(&mut self, at: u64, slot: (usize, u32), event: Event) {
        self.push(at, EventKind::Process(slot, event));
    }

    /// Within milliseconds.
    pub fn soon(&mut self, slot: (usize, u32), event: Event) {
        let at = self.now + self.rng.below(4);
        self.at(at, slot, event);
    }

    pub fn fail(&mut self, problem: String) {
        let now = self.now;
        self.note(|| format!("PROBLEM {problem}"));
        self.problem.get_or_insert_with(|| format!("at {now} ms: {problem}"));
    }

    pub fn is_traced(&self) -> bool {
        self.trace.is_some()
    }

    pub fn note(&mut self, text: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            if trace.len() >= TRACE_MAX {
                trace.pop_front();
            }
            trace.push_back(format!("{:>6} {}", self.now, text()));
        }
    }

    /// Promise: a guild that was handed over stays for a while.
    pub fn moved_for_load(&mut self, slot: (usize, u32), guild_id: GuildId) {
        self.summary.balanced += 1;
        let arrived = self.arrived.get(&guild_id).filter(|(at, _)| *at == slot);
        let stayed = arrived.map_or(u64::MAX, |(_, at)| self.now - at);
        if stayed < BALANCE_LIMITS.rest_ms {
            self.fail(format!("{guild_id} leaves slot {} for load, {stayed} ms after it came", slot.0));
        }
    }

    pub fn any_guild(&mut self) -> Option<GuildId> {
        self.rng.pick(&self.guilds).copied()
    }

    // ── requests ─────────────────────────────────────────────────────────────────────────────────

    pub fn new_request(&mut self, guild_id: GuildId, of: (usize, u32)) -> RequestId {
        let request = RequestId(self.requests.len() as u64 + 1);
        self.requests.insert(request, Request { guild_id, of, answer: None });
        request
    }

    /// Promise: a request is answered once, and what is acknowledged is committed.
    pub fn answered(&mut self, request: RequestId, is_done: bool) {
        self.note(|| format!("request {} answered {is_done}", request.0));
        let Some(found) = self.requests.get_mut(&request) else { return };
        let (guild_id, of) = (found.guild_id, found.of);
        let before = found.answer.replace(is_done);
        if before.is_some() {
            self.fail(format!("request {} of slot {} is answered again", request.0, of.0));
        }
        self.summary.done += u64::from(is_done);
        self.summary.refused += u64::from(!is_done);
        let is_known = self.store.get(&guild_id).is_some_and(|stored| stored.known.contains(&request));
        if is_done && !is_known {
            self.fail(format!("request {} is acknowledged and not committed", request.0));
        }
    }

    /// Promise: a relay receives only committed entries, and only from the node that its own node believes
    /// to be the owner.
    pub fn learned(&mut self, _nodes: (NodeNumber, NodeNumber), of: (GuildId, RelayId), learned: &Learned) {
        let (guild_id, relay) = of;
        let (len, last) = match learned {
            Learned::Nothing => return,
            Learned::Snapshot(len, last) => {
                self.summary.snapshots += 1;
                (*len, *last)
            }
            Learned::Entry(len, last) => {
                self.summary.events += 1;
                (*len, *last)
            }
        };
        self.note(|| format!("relay {relay:?} of {guild_id} knows {len}"));
        let log = self.store.get(&guild_id).map(|stored| &stored.log);
        let found = log.and_then(|log| log.get((len as usize).checked_sub(1)?).copied());
        if len > 0 && found != Some(last) {
            self.fail(format!("relay {relay:?} of {guild_id} learned entry {len}, {}: {found:?} is committed", last.0));
        }
    }

    // ── the bus ──────────────────────────────────────────────────────────────────────────────────

    /// When something arrives that is sent now; none: it is lost.
    fn way_on_bus(&mut self, from: usize, to: NodeNumber) -> Option<u64> {
        let is_cut = self
            .numbers
            .iter()
            .any(|(slot, number)| *number == to.0 && self.cut.contains(&(from.min(*slot), from.max(*slot))));
        if self.bus_is_away || is_cut || self.rng.chance(self.loss) {
            return None;
        }
        let delay = if self.rng.chance(0.02) { self.rng.below(400) } else { self.rng.below(6) };
        Some(self.now + delay)
    }

    /// Messages of one sender on one subject arrive in order, or not at all.
    pub fn publish(&mut self, from: usize, to: NodeNumber, frame: Bytes) {
        let Some(at) = self.way_on_bus(from, to) else { return };
        let last = self.arrivals.entry((from, to)).or_default();
        let at = at.max(*last);
        *last = at;
        if self.rng.chance(self.duplication) {
            let again = at + self.rng.below(50);
            self.push(again, EventKind::Arrival(to, frame.clone()));
        }
        self.push(at, EventKind::Arrival(to, frame));
    }

    /// Sends a step of a hand-off: it arrives, or is lost.
    pub fn tell(&mut self, from: usize, to: NodeNumber, event: HandoffEvent) {
        if let Some(at) = self.way_on_bus(from, to) {
            self.push(at, EventKind::Handoff(to, event));
        }
    }

    // ── the lease store ──────────────────────────────────────────────────────────────────────────

    fn delay(&mut self) -> u64 {
        let is_slow = !self.is_calm && self.rng.chance(0.03);
        1 + if is_slow { self.rng.below(1_500) } else { self.rng.below(8) }
    }

    pub fn kv_call(&mut self, slot: (usize, u32), op: KvOp, patience_ms: u64, waiter: Waiter) {
        let done_at = self.now + self.delay();
        let known_at = done_at + self.delay();
        let given_up_at = self.now + patience_ms.max(1);
        if known_at > given_up_at {
            self.at(given_up_at, slot, Event::Kv(waiter, KvResult::Away));
            self.push(done_at, EventKind::Kv(op, None));
        } else {
            self.push(done_at, EventKind::Kv(op, Some((slot, waiter, known_at))));
        }
    }

    fn kv_done(&mut self, op: &KvOp, waiter: Option<((usize, u32), Waiter, u64)>) {
        let result = if self.kv_is_away {
            KvResult::Away
        } else {
            let (result, written) = match op {
                KvOp::Create(key @ Key::Guild(_), value) | KvOp::Update(key @ Key::Guild(_), value, _)
                    if self.sabotage == InjectedFault::NoCompareAndSet =>
                {
                    self.kv.write(*key, value)
                }
                op => self.kv.apply(op),
            };
            let is_of_guild = matches!(op, KvOp::Create(Key::Guild(_), _) | KvOp::Update(Key::Guild(_), ..));
            self.summary.conflicts += u64::from(is_of_guild && matches!(result, KvResult::Conflict));
            self.note(|| format!("lease store: {op:?} -> {result:?}"));
            if let Some((key @ Key::Node(number), revision)) = written {
                let late = self.rng.below(500);
                self.push(self.now + LEASE_MS + late, EventKind::Expiry(key, revision));
                if let Some(record) = self.kv.node(number) {
                    self.tell_watches(&KvEvent::Put(number, record));
                }
            }
            result
        };
        if let Some((slot, waiter, known_at)) = waiter {
            let known_at = if matches!(result, KvResult::Away) { known_at + 300 } else { known_at };
            self.at(known_at, slot, Event::Kv(waiter, result));
        }
    }

    fn tell_watches(&mut self, event: &KvEvent) {
        for (slot, (generation, watch, last)) in self.watches.clone() {
            let lag = self.lagging.get(&slot).copied().unwrap_or(0);
            let at = (self.now + self.delay()).max(last).max(lag);
            self.watches.insert(slot, (generation, watch, at));
            self.at(at, (slot, generation), Event::Watch(watch, event.clone()));
        }
    }

    /// Whether the owner record of a guild names this node.
    pub fn is_owner(&self, guild_id: GuildId, number: NodeNumber, incarnation: Incarnation) -> bool {
        let owner = self.kv.get(Key::Guild(guild_id));
        matches!(owner, Some((Value::Owner(record), _)) if record.node == number && record.incarnation == incarnation)
    }

    /// A process begins to watch the nodes' records.
    pub fn watch(&mut self, slot: (usize, u32), watch: u64) {
        if self.kv_is_away {
            return self.at(self.now + 200, slot, Event::WatchBegins);
        }
        let at = self.now + self.delay();
        let mut events = vec![KvEvent::Begins];
        events.extend((0..64).filter_map(|number| Some(KvEvent::Put(number, self.kv.node(number)?))));
        events.push(KvEvent::Current);
        self.watches.insert(slot.0, (slot.1, watch, at));
        for event in events {
            self.at(at, slot, Event::Watch(watch, event));
        }
    }

    // ── the database ─────────────────────────────────────────────────────────────────────────────

    /// Whether an answer comes, and whether it was done.
    fn luck(&mut self) -> (bool, bool) {
        let is_lucky = self.is_calm || !self.rng.chance(0.02);
        (is_lucky, is_lucky || self.rng.chance(0.5))
    }

    pub fn load(&mut self, slot: (usize, u32), guild_id: GuildId) {
        let at = self.now + self.delay();
        let (is_answered, is_done) = self.luck();
        if is_done && !self.store_is_away {
            self.push(at, EventKind::Claim(slot, guild_id, is_answered));
        } else {
            self.at(at, slot, Event::Loaded(guild_id, None));
        }
    }

    /// Claims a guild without a load.
    pub fn claim_only(&mut self, slot: (usize, u32), guild_id: GuildId) {
        let at = self.now + self.delay();
        let (is_answered, is_done) = self.luck();
        if is_done && !self.store_is_away {
            self.push(at, EventKind::ClaimOnly(slot, guild_id, is_answered));
        } else {
            self.at(at, slot, Event::Handoff(HandoffEvent::Claimed(guild_id, None)));
        }
    }

    pub fn commit(&mut self, slot: (usize, u32), guild_id: GuildId, epoch: u64, writes: Vec<RequestId>) {
        let at = self.now + self.delay();
        let (is_answered, is_done) = self.luck();
        if is_done && !self.store_is_away {
            self.push(at, EventKind::Commit(slot, guild_id, epoch, writes, is_answered));
        } else {
            self.at(at, slot, Event::Committed(guild_id, Committed::Failed));
        }
    }

    fn claimed(&mut self, slot: (usize, u32), guild_id: GuildId, is_answered: bool) {
        let stored = self.store.entry(guild_id).or_default();
        stored.epoch += 1;
        let epoch = stored.epoch;
        self.note(|| format!("slot {} claims {guild_id} as {epoch}", slot.0));
        let at = self.now + self.delay();
        if is_answered {
            self.push(at, EventKind::Load(slot, guild_id, epoch));
        } else {
            self.at(at, slot, Event::Loaded(guild_id, None));
        }
    }

    /// Promises: no commit after a later claim; a command is carried out once.
    fn committed(&mut self, slot: (usize, u32), guild_id: GuildId, epoch: u64, writes: Vec<RequestId>, known: bool) {
        let current = self.store.entry(guild_id).or_default().epoch;
        self.note(|| format!("slot {} commits {writes:?} of {guild_id} as {epoch} of {current}", slot.0));
        let committed = if epoch != current && self.sabotage != InjectedFault::NoEpochCheck {
            self.summary.fenced += 1;
            Committed::Fenced
        } else {
            if epoch != current {
                self.fail(format!("slot {} commits to {guild_id} as {epoch}, and {current} was claimed", slot.0));
            }
            for request in writes {
                let stored = self.store.entry(guild_id).or_default();
                stored.log.push(request);
                if !stored.known.insert(request) {
                    self.fail(format!("request {} is carried out again", request.0));
                }
            }
            Committed::Done
        };
        let at = self.now + self.delay();
        self.at(at, slot, Event::Committed(guild_id, if known { committed } else { Committed::Failed }));
    }
}

// ── accounts in the database ─────────────────────────────────────────────────────────────────────

impl Core {
    fn account_event(&mut self, slot: (usize, u32), event: AccountEvent) {
        let at = self.now + self.delay();
        self.at(at, slot, Event::Account(event));
    }

    pub fn read_account(&mut self, slot: (usize, u32), account: u64, reader: Reader) {
        if self.store_is_away || !self.luck().1 {
            return self.account_event(slot, AccountEvent::Read(account, reader, None));
        }
        let at = self.now + self.delay();
        self.push(at, EventKind::ReadAccount(slot, account, reader));
    }

    pub fn write_account(&mut self, slot: (usize, u32), change: Change, account: Account) {
        let (is_answered, is_done) = self.luck();
        if self.store_is_away || !is_done {
            return self.account_event(slot, AccountEvent::Written(change, None));
        }
        let at = self.now + self.delay();
        self.push(at, EventKind::WriteAccount(slot, change, account, is_answered));
    }

    fn account_written(&mut self, slot: (usize, u32), change: Change, account: Account, is_answered: bool) {
        let stored = self.accounts.stored.entry(change.account).or_default();
        let is_expected = stored.version + 1 == account.version;
        let is_written = is_expected || self.sabotage == InjectedFault::NoVersionCheck;
        let version = stored.version + 1;
        if is_written {
            *stored = Account { version, ..account };
        }
        self.note(|| format!("slot {} writes {change:?} as {version}: {is_written}", slot.0));
        let written = is_answered.then_some(is_written);
        self.account_event(slot, AccountEvent::Written(change, written));
    }

    /// A change is acknowledged to its client.
    pub fn changed(&mut self, change: Change) {
        self.summary.changes += 1;
        if change.deletes {
            let version = self.accounts.stored.get(&change.account).map_or(0, |stored| stored.version);
            self.accounts.deleted.insert(change.account, version);
        } else {
            self.accounts.acknowledged.entry(change.account).or_default().insert(change.id);
        }
        self.check_accounts();
    }

    fn check_accounts(&mut self) {
        if let Some(problem) = self.accounts.problem() {
            self.fail(problem);
        }
    }

    pub fn ask_for_id(&mut self, slot: (usize, u32), id: u64) {
        let (is_answered, is_done) = self.luck();
        if self.store_is_away || !is_done {
            return self.account_event(slot, AccountEvent::Given(id, None));
        }
        let at = self.now + self.delay();
        self.push(at, EventKind::GiveId(slot, id, is_answered));
    }

    fn id_given(&mut self, slot: (usize, u32), id: u64, is_answered: bool) {
        let owner = self.accounts.ids.entry(id).or_insert(slot.0);
        if self.sabotage == InjectedFault::IdsReplaced {
            *owner = slot.0;
        }
        let is_given = *owner == slot.0;
        self.summary.ids_refused += u64::from(!is_given);
        self.account_event(slot, AccountEvent::Given(id, is_answered.then_some(is_given)));
    }

    pub fn has_id(&mut self, slot: usize, id: u64) {
        self.accounts.ids_acknowledged.insert(id, slot);
        self.check_accounts();
    }
}

struct Slot {
    generation: u32,
    process: Option<Process>,
    paused_until: u64,
    is_starting: bool,
    /// Messages that came during a pause.
    inbox: VecDeque<Event>,
}

pub struct World {
    core: Core,
    slots: Vec<Slot>,
}

/// Runs a seed. With `trace`, the error contains the last events before the failure.
pub fn run(seed: u64, sabotage: InjectedFault, trace: bool) -> Result<Summary, String> {
    let mut world = World::new(seed, sabotage, trace);
    let ended = world.run();
    let trace = world.core.trace.take().map_or(String::new(), |trace| Vec::from(trace).join("\n"));
    ended.map_err(|problem| format!("{trace}\nseed {seed}, step {}: {problem}", world.core.summary.steps))
}

impl World {
    fn new(seed: u64, sabotage: InjectedFault, trace: bool) -> Self {
        let mut rng = Rng::new(seed);
        let nodes = 3 + rng.below(3) as usize;
        let guilds: Vec<GuildId> =
            (0..2 + rng.below(4)).map(|n| GuildId::new(1_100_000_000_000_000_000 + (n << 22))).collect();
        let mut lease = LeaseTimes::of(LEASE_MS);
        if sabotage == InjectedFault::LateFencing {
            lease = LeaseTimes { lease_ms: 3 * LEASE_MS, margin_ms: 0, ..lease };
        }
        // Some runs are calm, so that rare combinations are not hidden behind others.
        let loss = if rng.chance(0.5) { 0.002 } else { 0.02 };
        let duplication = if rng.chance(0.5) { 0.0 } else { 0.02 };
        // In some runs owners give their guilds up all the time.
        let (guild_idle_ms, owner_idle_ms) =
            if rng.chance(0.7) { (rng.below(60), rng.below(60)) } else { (2_000, 2_000) };
        let has_handoffs = rng.chance(0.6) || sabotage.needs_handoffs();
        // A generator of its own, and no balancing together with injected faults of other mechanisms, preserve the
        // seeds that notice those faults.
        let mut of_loads = Rng::new(!seed);
        let has_balance = match sabotage {
            InjectedFault::None => has_handoffs && of_loads.chance(0.5),
            sabotage => sabotage == InjectedFault::ForgetsArrivals,
        };
        let load = |guild_id: &GuildId| (*guild_id, 50 + of_loads.below(300) as u16);
        let loads = guilds.iter().map(load).collect();
        let mut core = Core {
            guild_idle_ms: guild_idle_ms.max(1),
            owner_idle_ms,
            now: 0,
            rng,
            sabotage,
            lease,
            payloads: Vec::new(),
            sender: None,
            is_calm: false,
            count: 0,
            queue: BTreeMap::new(),
            guilds,
            kv: Kv::default(),
            store: BTreeMap::new(),
            accounts: Accounts::default(),
            tokens: Tokens::default(),
            questions_count: 0,
            handoffs_count: 0,
            has_handoffs,
            has_balance,
            loads,
            arrived: BTreeMap::new(),
            is_awake: true,
            requests: BTreeMap::new(),
            watches: BTreeMap::new(),
            arrivals: BTreeMap::new(),
            bus_is_away: false,
            kv_is_away: false,
            store_is_away: false,
            cut: BTreeSet::new(),
            lagging: BTreeMap::new(),
            numbers: BTreeMap::new(),
            loss,
            duplication,
            problem: None,
            trace: trace.then(VecDeque::new),
            summary: Summary::default(),
        };
        core.begin_tokens();
        for slot in 0..nodes {
            let at = core.rng.below(2_000);
            core.push(at, EventKind::Start(slot));
        }
        core.push(3_000, EventKind::Fault);
        let slot =
            |_| Slot { generation: 0, process: None, paused_until: 0, is_starting: true, inbox: VecDeque::new() };
        Self { core, slots: (0..nodes).map(slot).collect() }
    }

    fn run(&mut self) -> Result<Summary, String> {
        self.until(CALM_AT_MS)?;
        self.calm();
        self.until(CALM_AT_MS + REST_MS)?;
        self.check_rest("when the faults have ended")?;
        let guilds = self.core.guilds.clone();
        // An owner whose guild was claimed by a node that woke up late learns so by the first commit.
        for n in 1..=2 {
            for slot in &mut self.slots {
                let process = slot.process.as_mut().expect("all have started");
                guilds.iter().for_each(|guild_id| process.command(&mut self.core, *guild_id));
            }
            self.until(CALM_AT_MS + REST_MS + n * LAST_MS)?;
            self.check_rest("after the last commands")?;
        }
        let count = guilds.len() * self.slots.len();
        let mut last = self.core.requests.values().rev().take(count);
        if let Some(request) = last.rfind(|request| request.answer != Some(true)) {
            return Err(format!("{} does not serve slot {} at the end", request.guild_id, request.of.0));
        }
        Ok(self.core.summary)
    }

    fn until(&mut self, end: u64) -> Result<(), String> {
        while let Some(entry) = self.core.queue.first_entry().filter(|entry| entry.key().0 <= end) {
            let ((at, _), happening) = entry.remove_entry();
            self.core.now = self.core.now.max(at);
            self.core.summary.steps += 1;
            let mixed = self.core.summary.digest ^ at ^ self.core.queue.len() as u64;
            self.core.summary.digest = mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23);
            self.step(happening);
            if let Some(problem) = self.core.problem.take() {
                return Err(problem);
            }
        }
        self.core.now = end;
        Ok(())
    }

    fn step(&mut self, happening: EventKind) {
        match happening {
            EventKind::Process(slot, event) => self.happens(slot, event),
            EventKind::Arrival(number, frame) => {
                for index in 0..self.slots.len() {
                    let slot = (index, self.slots[index].generation);
                    if self.slots[index].process.as_ref().is_some_and(|process| process.number == number) {
                        self.happens(slot, Event::Frame(frame.clone()));
                    }
                }
            }
            EventKind::Kv(op, waiter) => {
                self.core.kv_done(&op, waiter);
                (0..self.slots.len()).for_each(|index| self.check_owners(index));
            }
            EventKind::Expiry(key, revision) => {
                if self.core.kv_is_away {
                    return self.core.push(self.core.now + 100, EventKind::Expiry(key, revision));
                }
                if let Some(Value::Node(record)) = self.core.kv.expire(key, revision)
                    && let Key::Node(number) = key
                {
                    self.core.note(|| format!("lease store: node {number} expires"));
                    self.core.tell_watches(&KvEvent::Gone(number));
                    self.check_fenced(record.incarnation);
                }
            }
            EventKind::ClaimOnly(slot, guild_id, is_answered) => {
                let stored = self.core.store.entry(guild_id).or_default();
                stored.epoch += 1;
                let epoch = Some(stored.epoch).filter(|_| is_answered);
                let at = self.core.now + self.core.delay();
                self.core.at(at, slot, Event::Handoff(HandoffEvent::Claimed(guild_id, epoch)));
            }
            EventKind::Handoff(number, event) => {
                for index in 0..self.slots.len() {
                    let slot = (index, self.slots[index].generation);
                    if self.slots[index].process.as_ref().is_some_and(|process| process.number == number) {
                        self.happens(slot, Event::Handoff(event.clone()));
                    }
                }
            }
            EventKind::Claim(slot, guild_id, is_answered) => self.core.claimed(slot, guild_id, is_answered),
            EventKind::Load(slot, guild_id, epoch) => {
                let stored = self.core.store.entry(guild_id).or_default();
                let last = stored.log.last().copied().unwrap_or(RequestId(0));
                let loaded = (epoch, stored.log.len() as u64, last);
                let at = self.core.now + self.core.delay();
                self.core.at(at, slot, Event::Loaded(guild_id, Some(loaded)));
            }
            EventKind::Commit(slot, guild_id, epoch, writes, is_answered) => {
                self.core.committed(slot, guild_id, epoch, writes, is_answered);
            }
            EventKind::ReadAccount(slot, account, reader) => {
                let stored = self.core.accounts.stored.get(&account).cloned().unwrap_or_default();
                self.core.account_event(slot, AccountEvent::Read(account, reader, Some(stored)));
            }
            EventKind::WriteAccount(slot, change, account, is_answered) => {
                self.core.account_written(slot, change, account, is_answered);
            }
            EventKind::GiveId(slot, id, is_answered) => self.core.id_given(slot, id, is_answered),
            EventKind::TokenOp(slot, op, is_answered) => self.core.token_op_done(slot, *op, is_answered),
            EventKind::Question(number, question) => {
                for index in 0..self.slots.len() {
                    let slot = (index, self.slots[index].generation);
                    if self.slots[index].process.as_ref().is_some_and(|process| process.number == number) {
                        self.happens(slot, Event::Token(Box::new(TokenEvent::Question((*question).clone()))));
                    }
                }
            }
            EventKind::Start(slot) => self.start(slot),
            EventKind::Fault => self.fault(),
            EventKind::Mend(mended) => self.mend(&mended),
        }
    }

    fn happens(&mut self, slot: (usize, u32), event: Event) {
        let (index, generation) = slot;
        let place = &mut self.slots[index];
        if place.generation != generation {
            return;
        }
        if place.paused_until > self.core.now {
            // A pause that was extended meanwhile ends later than the inbox was to be read.
            if place.inbox.is_empty() || matches!(event, Event::Inbox) {
                self.core.at(place.paused_until + 1, slot, Event::Inbox);
            }
            return place.inbox.push_back(event);
        }
        if place.inbox.is_empty() {
            return self.handle(slot, event);
        }
        place.inbox.push_back(event);
        while let Some(event) = self.slots[index].inbox.pop_front() {
            match event {
                Event::Frame(_) | Event::Watch(..) => self.handle(slot, event),
                Event::Inbox => {}
                // Other waiting events are handled in random order.
                event => {
                    let at = self.core.now + self.core.rng.below(5);
                    self.core.at(at, slot, event);
                }
            }
        }
    }

    fn handle(&mut self, slot: (usize, u32), event: Event) {
        let (index, generation) = slot;
        let place = &mut self.slots[index];
        if place.generation != generation {
            return;
        }
        let paused_until = place.paused_until;
        let Some(process) = &mut place.process else { return };
        let core = &mut self.core;
        core.is_awake = paused_until == 0 || core.now >= paused_until + AWAKE_MS;
        if core.trace.is_some() && !matches!(event, Event::Frame(_) | Event::Link(..) | Event::Timer) {
            core.note(|| format!("slot {index} {event:?}"));
        }
        if !process.handle(core, event) {
            self.end(index);
            let at = self.core.now + 200;
            self.core.push(at, EventKind::Start(index));
            return;
        }
        self.check_owners(index);
        self.check_sessions(index);
    }

    fn end(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        slot.process = None;
        slot.generation += 1;
        slot.paused_until = 0;
        slot.is_starting = true;
        slot.inbox.clear();
        self.core.watches.remove(&index);
        self.core.numbers.remove(&index);
    }

    fn start(&mut self, index: usize) {
        let again = |core: &mut Core| core.push(core.now + 200, EventKind::Start(index));
        if self.core.kv_is_away {
            return again(&mut self.core);
        }
        let incarnation = Incarnation(self.core.rng.next_u64());
        let weight = 1 + self.core.rng.below(2) as u32;
        let record = NodeRecord { weight, state: NodeState::Joining, ..NodeRecord::active(incarnation) };
        for number in 0..64 {
            let call = KvOp::Create(Key::Node(number), Value::Node(record.clone()));
            if self.core.kv.get(Key::Node(number)).is_some() {
                continue;
            }
            self.core.kv_done(&call, None);
            let Some((_, revision)) = self.core.kv.get(Key::Node(number)) else { return again(&mut self.core) };
            let slot = (index, self.slots[index].generation);
            self.core.numbers.insert(index, number);
            self.core.note(|| format!("slot {index} starts as node {number}"));
            self.slots[index].process = Some(Process::start(&mut self.core, slot, number, record, revision));
            self.slots[index].is_starting = false;
            return;
        }
    }

    // ── faults ───────────────────────────────────────────────────────────────────────────────────

    fn fault(&mut self) {
        if self.core.is_calm {
            return;
        }
        let core = &mut self.core;
        let next = core.now + 100 + core.rng.below(3_000);
        core.push(next, EventKind::Fault);
        let index = core.rng.below(self.slots.len() as u64) as usize;
        let other = core.rng.below(self.slots.len() as u64) as usize;
        let long = if core.rng.chance(0.5) { 600 } else { 8_000 };
        let length = 1 + core.rng.below(long);
        let kind = core.rng.below(12);
        core.note(|| format!("FAULT {kind} of slot {index}, {other}, for {length}"));
        let mended = match kind {
            0 | 1 => {
                if !self.slots[index].is_starting {
                    core.summary.crashes += 1;
                    self.end(index);
                    let at = self.core.now + self.core.rng.below(5_000);
                    self.core.push(at, EventKind::Start(index));
                }
                return;
            }
            2 | 3 => {
                core.summary.pauses += 1;
                let length = if core.rng.chance(0.2) { core.rng.below(20_000) } else { length };
                let slot = &mut self.slots[index];
                slot.paused_until = slot.paused_until.max(core.now + length);
                return;
            }
            4 => {
                core.bus_is_away = true;
                Mended::Bus
            }
            5 => {
                core.kv_is_away = true;
                for (slot, (generation, ..)) in std::mem::take(&mut core.watches) {
                    core.at(core.now + 200, (slot, generation), Event::WatchBegins);
                }
                Mended::Kv
            }
            6 => {
                core.store_is_away = true;
                Mended::Store
            }
            7..=8 if index != other => {
                core.cut.insert((index.min(other), index.max(other)));
                Mended::Pair(index.min(other), index.max(other))
            }
            // A watch lags behind reads.
            9 | 10 => {
                let until = core.now + length.min(4_000);
                core.lagging.insert(index, until);
                return;
            }
            // A server of the lease store restarts: watches begin again.
            _ => {
                for (slot, (generation, ..)) in std::mem::take(&mut core.watches) {
                    core.at(core.now + 200, (slot, generation), Event::WatchBegins);
                }
                return;
            }
        };
        core.push(core.now + length, EventKind::Mend(mended));
    }

    fn mend(&mut self, mended: &Mended) {
        self.core.note(|| format!("MENDED {mended:?}"));
        match *mended {
            Mended::Bus => self.core.bus_is_away = false,
            Mended::Kv => self.core.kv_is_away = false,
            Mended::Store => self.core.store_is_away = false,
            Mended::Pair(a, b) => drop(self.core.cut.remove(&(a, b))),
        }
    }

    fn calm(&mut self) {
        let core = &mut self.core;
        core.is_calm = true;
        (core.loss, core.duplication) = (0.0, 0.0);
        (core.bus_is_away, core.kv_is_away, core.store_is_away) = (false, false, false);
        core.cut.clear();
        core.lagging.clear();
        core.note(|| "CALM".to_owned());
        for (index, slot) in self.slots.iter_mut().enumerate() {
            slot.paused_until = slot.paused_until.min(core.now);
            core.at(core.now + 1, (index, slot.generation), Event::Inbox);
        }
    }

    // ── promises ─────────────────────────────────────────────────────────────────────────────────

    /// Promise: a node that is awake stops to serve before its number can be given away.
    fn check_fenced(&mut self, incarnation: Incarnation) {
        for (index, slot) in self.slots.iter().enumerate() {
            let Some(process) = &slot.process else { continue };
            let is_awake = self.core.now >= slot.paused_until + AWAKE_MS;
            if process.machine.record().incarnation == incarnation && process.machine.is_serving() && is_awake {
                self.core.fail(format!("the lease of slot {index} has ended, and it serves"));
            }
        }
    }

    /// Promise: a node that is awake serves a guild only while the guild's owner record names it.
    fn check_owners(&mut self, index: usize) {
        let slot = &self.slots[index];
        let Some(process) = &slot.process else { return };
        // A process that wakes up needs a moment to learn that its lease has ended.
        if self.core.now < slot.paused_until + AWAKE_MS || !process.machine.is_serving() {
            return;
        }
        let (number, incarnation) = (process.number, process.machine.record().incarnation);
        let stolen = |guild_id: &&GuildId| {
            let is_leaving = process.is_leaving(**guild_id);
            process.machine.is_here(**guild_id) && !is_leaving && !self.core.is_owner(**guild_id, number, incarnation)
        };
        if let Some(guild_id) = self.core.guilds.iter().find(stolen).copied() {
            self.core.fail(format!("slot {index} serves {guild_id}, and its owner record names another membership"));
        }
    }

    fn check_rest(&self, when: &str) -> Result<(), String> {
        for (request, found) in &self.core.requests {
            let is_alive = self.slots[found.of.0].generation == found.of.1;
            if found.answer.is_none() && is_alive {
                return Err(format!("{when}: request {} of slot {} has no answer", request.0, found.of.0));
            }
        }
        if let Some(problem) = self.core.accounts.problem() {
            return Err(format!("{when}: {problem}"));
        }
        self.check_tokens_at_rest().map_err(|problem| format!("{when}: {problem}"))?;
        for (index, slot) in self.slots.iter().enumerate() {
            let Some(process) = &slot.process else { return Err(format!("{when}: slot {index} has not started")) };
            for (account, version) in &process.cache.versions {
                let stored = self.core.accounts.stored.get(account).map_or(0, |stored| stored.version);
                if *version != stored {
                    return Err(format!("{when}: slot {index} has account {account} as {version} of {stored}"));
                }
            }
            for ((guild_id, relay), state) in &process.relays {
                let len = self.core.store.get(guild_id).map_or(0, |stored| stored.log.len() as u64);
                let owner = process.machine.owner_of(*guild_id);
                if state.len != Some(len) || state.attached.contains(&false) {
                    return Err(format!(
                        "{when}: relay {relay:?} epoch {} of {guild_id} on slot {index} knows {:?} of {len} entries, its \
                         sessions are attached: {:?}; its node takes {owner:?} for the owner",
                        state.epoch, state.len, state.attached
                    ));
                }
            }
        }
        Ok(())
    }
}
