//! Server role: a real node with one guild of user accounts, each with a token; for storms with two guilds of bots.

use super::{
    IoUring, Mode,
    dark::DarkSwitch,
    role::{say, serve},
    storm::SENT_AT,
    usage,
};
use anyhow::{Context, Result, bail};
use axum::Router;
use guildhall::{
    clock::NodeClock,
    wiring::{NodeUpstream, PartitionSink},
};
use guildhall_codec::ContextPool;
use guildhall_guild::{Actor, Command, NewMessage, Write};
use guildhall_guild_protocol::{PartitionId, Whose};
use guildhall_model::{
    Channel, ChannelId, ChannelType, CloseCode, Guild, GuildId, Member, Permissions, Role, User, UserId,
};
use guildhall_net::{AdmissionLimits, IdentifyLimits, PartitionState, Peers, Server, ServerConfig, SystemClock};
use guildhall_node::{Node, NodeConfig};
use guildhall_partition::{Bill, PartitionConfig, TapSwitch};
use guildhall_settings::defaults;
use guildhall_stdx::{Timestamp, heap::MemoryUse};
use guildhall_store::{SIGN_INS_MAX, SqliteOptions, SqliteStore, Store, TokenHash};
use guildhall_telemetry::spare::SpareThread;
use guildhall_ws_proto::{DeflatePolicy, WINDOW_BITS_MAX};
use serde_json::json;
use std::{
    collections::BTreeMap,
    ops::Range,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::{net::TcpListener, runtime::Runtime, task::JoinHandle, time::interval};

const GUILD: GuildId = GuildId::new(1_100_000_000_000_000_001);
const CHANNEL: ChannelId = ChannelId::new(1_100_000_000_000_000_010);
/// The guild of readers.
const OTHER: GuildId = GuildId::new(1_100_000_000_000_000_002);
const OTHER_CHANNEL: ChannelId = ChannelId::new(1_100_000_000_000_000_011);
const FIRST_USER: u64 = 1_100_000_000_001_000_000;
/// Reads of all accounts before the first session, on each of the store's connections: a read may be on any of them.
const WARM_PASSES: usize = 4;
/// Writes per batch while the guild is filled.
const BATCH: usize = 1000;
const TOKEN_TTL_S: u64 = 86_400;
/// Longer than any run: the clients wait for their turn in between, and what is measured is deliveries.
const HEARTBEAT_INTERVAL_MS: u64 = 3_600_000;

/// Accounts of the node: members of its guild, and readers, members of another one.
#[derive(Clone, Copy, Debug)]
pub struct Accounts {
    pub members_count: usize,
    /// Numbered after the members.
    pub readers_count: usize,
    pub are_bots: bool,
}

impl Accounts {
    fn all(self) -> Range<usize> {
        0..self.members_count + self.readers_count
    }

    fn user(self, index: usize) -> Arc<User> {
        let id = UserId::new(FIRST_USER + index as u64);
        Arc::new(User { bot: self.are_bots, ..User::new(id, &format!("member{index}")) })
    }

    async fn mint(self, node: &Node, index: usize) -> Result<String> {
        let user_id = self.user(index).id;
        let token = match self.are_bots {
            true => node.mint_bot_token(user_id).await,
            false => node.mint_user_token(user_id, TOKEN_TTL_S).await,
        };
        token.context("minting a token")
    }
}

/// The guilds as a backend would have written them.
async fn fill(store: &dyn Store, accounts: Accounts) -> Result<()> {
    let Range { start, end } = accounts.all();
    let guilds = [(GUILD, CHANNEL, start..accounts.members_count), (OTHER, OTHER_CHANNEL, accounts.members_count..end)];
    for (guild_id, channel_id, members) in guilds {
        if members.is_empty() {
            continue;
        }
        let owner = accounts.user(members.start);
        let everyone = Role::everyone(guild_id, Permissions::DEFAULT_EVERYONE);
        store
            .commit(vec![
                Write::PutUser(owner.clone()),
                Write::PutGuild(Arc::new(Guild::new(guild_id, "bench", owner.id))),
                Write::PutRole(guild_id, Arc::new(everyone)),
                Write::PutChannel(Arc::new(Channel::new(channel_id, guild_id, ChannelType::Text, "general"))),
            ])
            .await?;
        let joined_at = Timestamp(1_700_000_000_000);
        let indices: Vec<usize> = members.collect();
        for chunk in indices.chunks(BATCH) {
            let put = |index: &usize| {
                let user = accounts.user(*index);
                [Write::PutUser(user.clone()), Write::PutMember(guild_id, Arc::new(Member::new(user, joined_at)))]
            };
            store.commit(chunk.iter().flat_map(put).collect()).await?;
        }
    }
    Ok(())
}

/// Reads the tokens of all accounts on each connection of the store. Otherwise the connections' caches of pages would
/// grow while the bench counts sessions.
async fn warm(store: &Arc<dyn Store>, tokens: &[String]) -> Result<()> {
    let hashes: Arc<[TokenHash]> = tokens.iter().map(|token| TokenHash::of(token)).collect();
    let read = |_| {
        let (store, hashes) = (store.clone(), hashes.clone());
        tokio::spawn(async move {
            for chunk in hashes.chunks(SIGN_INS_MAX) {
                store.sign_ins(chunk).await?;
            }
            anyhow::Ok(())
        })
    };
    for _ in 0..WARM_PASSES {
        let reads: Vec<_> = (0..SqliteOptions::default().read_connections).map(read).collect();
        for read in reads {
            read.await.context("a read panicked")??;
        }
    }
    Ok(())
}

async fn publish(
    node: &Node,
    author: UserId,
    (guild_id, channel_id): (GuildId, ChannelId),
    text: String,
) -> Result<()> {
    let message = Box::new(NewMessage { content: text, ..NewMessage::default() });
    node.command(guild_id, Actor::User(author), Command::CreateMessage(channel_id, message)).await?;
    Ok(())
}

/// Publishes messages with their time to the readers, `rate` a second.
async fn talk(node: Node, author: UserId, rate: u64) {
    let mut ticks = interval(Duration::from_secs(1) / rate.min(1_000) as u32);
    loop {
        ticks.tick().await;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let text = format!("{SENT_AT}{} {}", now.as_micros(), super::text::sentence(0));
        if publish(&node, author, (OTHER, OTHER_CHANNEL), text).await.is_err() {
            return;
        }
    }
}

/// Runs until the bench closes our input. `dir` gets the database and `tokens`, one per line.
pub fn run(accounts: Accounts, dir: &Path, io_uring: IoUring, mode: Mode) -> Result<()> {
    let runtime = Runtime::new().context("starting the runtime")?;
    let _guard = runtime.enter();
    let store: Arc<dyn Store> = Arc::new(
        runtime
            .block_on(SqliteStore::open(&dir.join("bench.db"), SqliteOptions::default()))
            .context("opening the store")?,
    );
    runtime.block_on(fill(&*store, accounts))?;
    let clock = SystemClock::default();
    // As in a node.
    let (bill, bill_worker) = Bill::new(defaults::BILL_ONE_IN, ContextPool::default());
    let _bill_thread = SpareThread::start(bill_worker)?;
    let taps = TapSwitch::default();
    let dark = DarkSwitch::start(taps.clone())?;
    let config = ServerConfig {
        node_number: 0,
        access: None,
        partitions_count: std::thread::available_parallelism().map_or(1, |n| n.get() as u16),
        // The gateway may have seven eighths.
        connections_max: 2 * accounts.all().end + 64,
        io_uring: match io_uring {
            IoUring::Auto => guildhall_net::IoUring::Auto,
            IoUring::Off => guildhall_net::IoUring::Off,
        },
        // The clients' offers decide the parameters.
        deflate: Some(DeflatePolicy {
            server_no_context_takeover: false,
            client_no_context_takeover: true,
            server_window_bits: WINDOW_BITS_MAX,
            client_window_bits: WINDOW_BITS_MAX,
        }),
        certificates: None,
        admission: AdmissionLimits::default(),
        identify: IdentifyLimits::default(),
        partition: PartitionConfig {
            heartbeat_interval_ms: HEARTBEAT_INTERVAL_MS,
            // All sessions are active, since the bench measures deliveries.
            passive_above_members: Some(u64::MAX),
            stream_codec: mode.stream_codec(),
            bill: bill.clone(),
            taps,
            ..PartitionConfig::new(PartitionId(0), "ws://127.0.0.1".into(), [7; 32])
        },
    };
    let server = Server::prepare(config, clock)?;
    let node_config = NodeConfig { guild_workers_count: 1, jwt_secret: vec![9; 32], worker_mailbox_max: 65_536 };
    let node = Node::start(
        node_config,
        store.clone(),
        Arc::new(NodeClock(clock)),
        Arc::new(PartitionSink(server.partitions())),
    );
    let mint = |index| runtime.block_on(accounts.mint(&node, index));
    let tokens: Vec<String> = accounts.all().map(mint).collect::<Result<_>>()?;
    std::fs::write(dir.join("tokens"), tokens.join("\n")).context("writing the tokens")?;
    runtime.block_on(warm(&store, &tokens))?;
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).context("listening")?;
    let upstream = NodeUpstream::new(node.clone(), Arc::new(guildhall_backend::SessionEvents::new(1)), None, None);
    let partitions = server.partitions();
    let running = server.start(listener, Router::new(), Arc::new(upstream), Peers::default())?;

    say(&json!({"port": running.local_addr().port(), "io_uring": running.sends_in_batches()}));
    let mut sent = 0usize;
    let mut talking: Option<JoinHandle<()>> = None;
    let sum = |of: fn(&PartitionState) -> usize| partitions.inspect().iter().map(of).sum::<usize>();
    serve(|command, args| match command {
        "publish" => {
            let count = args.first().map_or(Ok(1), |count| count.parse::<usize>())?;
            let begun: Vec<_> = (sent..sent + count)
                .map(|number| {
                    let author = accounts.user(number * 7 % accounts.members_count).id;
                    let (node, text) = (node.clone(), super::text::sentence(number));
                    runtime.spawn(async move { publish(&node, author, (GUILD, CHANNEL), text).await })
                })
                .collect();
            sent += count;
            begun.into_iter().try_for_each(|published| runtime.block_on(published)?)?;
            Ok(json!({"published": sent}))
        }
        "talk" => {
            let rate = args.first().context("a rate")?.parse()?;
            let author = accounts.user(accounts.members_count).id;
            talking.take().inspect(JoinHandle::abort);
            talking = (rate > 0).then(|| runtime.spawn(talk(node.clone(), author, rate)));
            Ok(json!({}))
        }
        "sessions" => Ok(json!({
            "sessions": sum(|partition| partition.sessions_count),
            "attached": sum(|partition| partition.attached_count),
        })),
        "close" => {
            let users: Vec<UserId> = (0..accounts.members_count).map(|index| accounts.user(index).id).collect();
            let close = |user_id| partitions.close_sessions(&Whose::User(user_id), CloseCode::UnknownError);
            let closing: Vec<_> = users.into_iter().flat_map(close).collect();
            let closed = closing.into_iter().map(|closed| closed.blocking_recv().unwrap_or(0)).sum::<usize>();
            Ok(json!({"closed": closed}))
        }
        "warm" => {
            runtime.block_on(warm(&store, &tokens))?;
            Ok(json!({}))
        }
        "threads" => Ok(json!(usage::threads()?)),
        "stages" => {
            let mut stages: BTreeMap<String, (u64, u64)> = BTreeMap::new();
            let loops = [node.worker_reports(), partitions.loop_reports(), vec![node.store_report()]].concat();
            for report in loops {
                for kind in report.kinds {
                    let (ns, count) = stages.entry(format!("{} {}", report.name, kind.name)).or_default();
                    *ns += kind.times.total_ns;
                    *count += kind.times.count();
                }
            }
            Ok(json!(stages))
        }
        "memory" => {
            let mut held = runtime.block_on(node.memory());
            for partition in 0..partitions.count() as u16 {
                let of_partition = partitions.look(PartitionId(partition), |_, partition| partition.memory());
                MemoryUse::add_all(&mut held, of_partition.blocking_recv().context("a partition ended")?);
            }
            let by_owner: BTreeMap<_, _> = held.iter().map(|held| (held.name, held.bytes)).collect();
            // The bill has the same connections at most, whatever their number.
            let bytes = usage::settled_rss_bytes()?.saturating_sub(bill.memory().0);
            Ok(json!({"owners": by_owner, "bytes": bytes}))
        }
        "accounts" => {
            guildhall_accounting::set_on(args.first().is_some_and(|arg| *arg == "on"));
            Ok(json!({}))
        }
        "dark" => {
            dark.set(args.first().is_some_and(|arg| *arg == "on"))?;
            Ok(json!({}))
        }
        "usage" => Ok(json!({"cpu_ns": usage::cpu_ns()?, "rss_bytes": usage::rss_bytes()?, "lab_ns": dark.cpu_ns()})),
        other => bail!("unknown command {other} {args:?}"),
    });
    Ok(())
}
