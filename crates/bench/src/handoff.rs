//! Hand-off: a guild moves between two nodes while it is used, against an owner that loses it.
//!
//! Owns        `guildhall-bench handoff`.
//! Invariants  the nodes are real, with the bus, lease store and database of the process: the figures are without
//!             network and disk. Relays are counted, not served; each has its share of the sessions.
//! Not here    sockets and partitions: clients notice nothing of a move, because relays do not.

use crate::stats::Spread;
use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use guildhall_bus::{LocalBus, LocalKv, LocalOptions};
use guildhall_guild::{Actor, Command, NewMessage, Reply, Write};
use guildhall_guild_protocol::{
    MembersWanted, PartitionId, RelayId, RelayMessage, SessionKey, SessionPresence, ToGuild, ToRelay,
};
use guildhall_model::{
    AccountKind, Channel, ChannelId, ChannelType, Guild, GuildId, Member, Permissions, Platform, Role, Status, User,
    UserId,
};
use guildhall_node::{
    BalanceOptions, Clock, ClusterKey, Membership, MembershipOptions, MoveReason, Node, NodeConfig, NodeLimits,
    RelaySink,
};
use guildhall_stdx::{Now, Timestamp};
use guildhall_store::{MemoryStore, Store};
use serde::Serialize;
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use tokio::runtime::Runtime;

const GUILD: GuildId = GuildId::new(1_100_000_000_000_000_000);
const CHANNEL: ChannelId = ChannelId::new(1_100_000_000_000_000_001);
/// Relays of each node.
const RELAYS: u16 = 8;
/// Members that one commit adds.
const BATCH: u64 = 10_000;
/// Sessions that attach at a time: a node's queue to the others has an end.
const ATTACHING: u64 = 4_096;

/// `guildhall-bench handoff`.
#[derive(Clone, Copy, Debug, Args)]
pub struct HandoffArgs {
    /// Members of the guild.
    #[arg(long, default_value_t = 100_000)]
    members: u64,
    /// Sessions, half of them on each node.
    #[arg(long, default_value_t = 10_000)]
    sessions: u64,
    /// Messages a second; 0: none.
    #[arg(long, default_value_t = 50)]
    rate: u64,
    /// Moves, there and back.
    #[arg(long, default_value_t = 20)]
    moves: usize,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct HandoffResult {
    members: u64,
    sessions: u64,
    rate: u64,
    moves: usize,
    /// Milliseconds for which inputs waited, over the moves.
    frozen_ms: Spread,
    /// Milliseconds of a whole move.
    total_ms: Spread,
    megabytes: f64,
    /// Longest answer to a message while nothing moved, and during the moves.
    answer_ms_quiet: f64,
    answer_ms_moving: f64,
    /// Snapshots that relays received by the moves: each is an outage for its sessions.
    resets: u64,
    messages: u64,
    /// Milliseconds without service when an owner loses the guild, and the other node loads it.
    release_ms: f64,
}

struct MachineClock(Instant);

impl Clock for MachineClock {
    fn now(&self) -> Now {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now::new(self.0.elapsed().as_millis() as u64, unix.as_millis() as i64)
    }
}

/// Counts what relays receive.
#[derive(Default)]
struct Relays {
    attached: AtomicU64,
    snapshots: AtomicU64,
    events: AtomicU64,
    last_seq: Mutex<BTreeMap<RelayId, u64>>,
    gaps: AtomicU64,
}

impl RelaySink for Relays {
    fn try_deliver(&self, _: PartitionId, message: ToRelay) -> Result<(), ToRelay> {
        let before = self.last_seq.lock().unwrap_or_else(PoisonError::into_inner).insert(message.relay, message.seq);
        let is_snapshot = matches!(message.message, RelayMessage::Snapshot { .. });
        if !is_snapshot && before.is_some_and(|before| before + 1 != message.seq) {
            self.gaps.fetch_add(1, Ordering::Relaxed);
        }
        match message.message {
            RelayMessage::Attached { .. } => self.attached.fetch_add(1, Ordering::Relaxed),
            RelayMessage::Snapshot { .. } => self.snapshots.fetch_add(1, Ordering::Relaxed),
            _ => self.events.fetch_add(1, Ordering::Relaxed),
        };
        Ok(())
    }
}

struct Place {
    node: Node,
    membership: Arc<Membership>,
    relays: Arc<Relays>,
}

async fn place(n: usize, bus: Arc<LocalBus>, kv: Arc<LocalKv>, store: Arc<dyn Store>) -> Result<Place> {
    let clock: Arc<dyn Clock> = Arc::new(MachineClock(Instant::now()));
    let options = MembershipOptions {
        node_name: format!("node {n}"),
        url: String::new(),
        weight: 1,
        lease_ms: 60_000,
        version: String::new(),
        key: ClusterKey([1; 32]),
        balance: BalanceOptions { is_on: false, ..BalanceOptions::default() },
    };
    let membership = Membership::join(options, bus, kv, clock.clone()).await?;
    let relays = Arc::new(Relays::default());
    let config = NodeConfig { guild_workers_count: 1, jwt_secret: vec![7; 32], worker_mailbox_max: 200_000 };
    let node = Node::start_as(config, NodeLimits::default(), store, clock, relays.clone(), Some(membership.clone()));
    membership.activate();
    Ok(Place { node, membership, relays })
}

fn user(n: u64) -> Arc<User> {
    Arc::new(User::new(UserId::new(10_000 + n), &format!("member{n}")))
}

/// Stores the guild, with one text channel.
async fn populate(store: &dyn Store, members: u64) -> Result<()> {
    let everyone = Role::everyone(GUILD, Permissions::DEFAULT_EVERYONE);
    let channel = Channel::new(CHANNEL, GUILD, ChannelType::Text, "general");
    let head = vec![
        Write::PutGuild(Arc::new(Guild::new(GUILD, "crowd", user(0).id))),
        Write::PutRole(GUILD, Arc::new(everyone)),
        Write::PutChannel(Arc::new(channel)),
    ];
    store.commit(head).await?;
    for from in (0..members).step_by(BATCH as usize) {
        let put = |n| Write::PutMember(GUILD, Arc::new(Member::new(user(n), Timestamp(1_700_000_000_000))));
        store.commit((from..(from + BATCH).min(members)).map(put).collect()).await?;
    }
    Ok(())
}

fn relay_of(place: &Place, n: u64) -> RelayId {
    let partition = PartitionId::of_node(place.membership.number().0, 0);
    RelayId { partition, index: (n % u64::from(RELAYS)) as u16 }
}

/// Attaches sessions at both nodes, and waits until the guild has answered.
async fn attach(places: &[Place], sessions: u64) -> Result<()> {
    let send = async |place: &Place, message: ToGuild| {
        let mut message = message;
        while let Err(back) = place.node.try_send_to_guild(GUILD, message) {
            message = back;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    for place in places {
        for index in 0..u64::from(RELAYS) {
            send(place, ToGuild::Subscribe { relay: relay_of(place, index), epoch: 1 }).await;
        }
    }
    for n in 0..sessions {
        if n % ATTACHING == 0 {
            wait_attached(places, n).await?;
        }
        let place = &places[(n % places.len() as u64) as usize];
        let session = SessionKey { relay: relay_of(place, n / 2), slot: n as u32, generation: 1 };
        let presence = SessionPresence { status: Status::Online, activities: Arc::new([]), platform: Platform::Web };
        let message = ToGuild::Attach {
            is_restored: false,
            previous: None,
            session,
            session_id: format!("session{n}").into(),
            user_id: user(n).id,
            kind: AccountKind::User,
            presence,
            members: MembersWanted::OwnAndVoice,
        };
        send(place, message).await;
    }
    wait_attached(places, sessions).await
}

async fn wait_attached(places: &[Place], sessions: u64) -> Result<()> {
    let started = Instant::now();
    loop {
        let attached: u64 = places.iter().map(|place| place.relays.attached.load(Ordering::Relaxed)).sum();
        if attached >= sessions {
            return Ok(());
        }
        ensure!(started.elapsed() < Duration::from_secs(60), "{attached} of {sessions} sessions are attached");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Posts messages at a rate until it is over. Returns their number, and the longest answer in each phase.
async fn talk(node: Node, rate: u64, is_over: Arc<AtomicBool>, is_moving: Arc<AtomicBool>) -> Result<(u64, [f64; 2])> {
    let mut longest = [0.0_f64; 2];
    let (mut count, started) = (0, Instant::now());
    while rate > 0 && !is_over.load(Ordering::Relaxed) {
        let at = started + Duration::from_micros(1_000_000 * count / rate);
        tokio::time::sleep_until(at.into()).await;
        let new = NewMessage { content: format!("message {count}"), ..NewMessage::default() };
        let sent = Instant::now();
        let moves = is_moving.load(Ordering::Relaxed);
        let answer = node.command(GUILD, Actor::User(user(0).id), Command::CreateMessage(CHANNEL, Box::new(new))).await;
        ensure!(matches!(answer, Ok(Reply::Message(_))), "message {count}: {answer:?}");
        let phase = usize::from(moves || is_moving.load(Ordering::Relaxed));
        longest[phase] = longest[phase].max(sent.elapsed().as_secs_f64() * 1_000.0);
        count += 1;
    }
    Ok((count, longest))
}

/// Posts a message until one is taken: then a node serves the guild.
async fn load(node: &Node) -> Result<()> {
    let started = Instant::now();
    let new = || Box::new(NewMessage { content: "first".to_owned(), ..NewMessage::default() });
    while node.command(GUILD, Actor::User(user(0).id), Command::CreateMessage(CHANNEL, new())).await.is_err() {
        ensure!(started.elapsed() < Duration::from_secs(600), "the guild is not served");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}

async fn measure(args: HandoffArgs) -> Result<HandoffResult> {
    let HandoffArgs { members, sessions, rate, moves, .. } = args;
    ensure!(members > 0 && sessions <= members, "there are as many sessions as members at most");
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    populate(&*store, members).await?;
    let (bus, kv) = (Arc::new(LocalBus::new(LocalOptions::default())), Arc::new(LocalKv::new()));
    let mut places = Vec::new();
    for n in 0..2 {
        places.push(place(n, bus.clone(), kv.clone(), store.clone()).await?);
    }
    load(&places[0].node).await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    attach(&places, sessions).await?;
    let (is_over, is_moving) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let talking = tokio::spawn(talk(places[0].node.clone(), rate, is_over.clone(), is_moving.clone()));
    tokio::time::sleep(Duration::from_secs(2)).await;
    let snapshots = || places.iter().map(|place| place.relays.snapshots.load(Ordering::Relaxed)).sum::<u64>();
    let before = snapshots();
    let (mut frozen, mut total, mut bytes) = (Vec::new(), Vec::new(), 0);
    for n in 0..moves {
        let owner = places[0].membership.find_owner(GUILD).await.context("the guild has an owner")?;
        let from = usize::from(places[0].membership.number() != owner);
        let to = places[1 - from].membership.number();
        is_moving.store(true, Ordering::Relaxed);
        let report = places[from]
            .membership
            .move_guild(GUILD, to, MoveReason::Requested)
            .await
            .map_err(|fault| anyhow!("move {n}: {fault}"))?;
        is_moving.store(false, Ordering::Relaxed);
        frozen.push(report.frozen_ms as f64);
        total.push(report.total_ms as f64);
        bytes = report.bytes;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let resets = snapshots() - before;
    is_over.store(true, Ordering::Relaxed);
    let (messages, [answer_ms_quiet, answer_ms_moving]) = talking.await??;
    let gaps: u64 = places.iter().map(|place| place.relays.gaps.load(Ordering::Relaxed)).sum();
    ensure!(gaps == 0 && resets == 0, "relays had {gaps} gaps and {resets} snapshots");
    // The owner loses the guild: its next commit is refused, and the guild is loaded again.
    let lost_at = Instant::now();
    store.claim_guild(GUILD).await?;
    load(&places[0].node).await?;
    let release_ms = lost_at.elapsed().as_secs_f64() * 1_000.0;
    Ok(HandoffResult {
        members,
        sessions,
        rate,
        moves,
        frozen_ms: Spread::of(frozen),
        total_ms: Spread::of(total),
        megabytes: bytes as f64 / 1e6,
        answer_ms_quiet,
        answer_ms_moving,
        resets,
        messages,
        release_ms,
    })
}

/// Runs the bench.
///
/// # Errors
/// A message or a move failed, or a relay was reset.
pub fn run(args: HandoffArgs) -> Result<()> {
    let runtime = Runtime::new()?;
    let result = runtime.block_on(measure(args))?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&result)?);
        return Ok(());
    }
    let HandoffResult { members, sessions, rate, moves, .. } = &result;
    let spread = |of: &Spread| format!("p50 {:.0} ms, p99 {:.0} ms, at most {:.0} ms", of.p50, of.p99, of.max);
    println!("a guild with {members} members and {sessions} sessions, {rate} messages a second, {moves} moves");
    println!("frozen         {}", spread(&result.frozen_ms));
    println!("whole move     {}; {:.1} MB", spread(&result.total_ms), result.megabytes);
    println!(
        "longest answer {:.1} ms quiet, {:.1} ms while it moves, of {} messages",
        result.answer_ms_quiet, result.answer_ms_moving, result.messages
    );
    println!("resets         {}", result.resets);
    println!(
        "without a move {:.0} ms until it is served again, and then every session attaches again",
        result.release_ms
    );
    Ok(())
}
