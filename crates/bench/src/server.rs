//! Server role: a real node with one guild; its members are user accounts with a token.

use super::{
    IoUring, Mode,
    dark::DarkSwitch,
    role::{say, serve},
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
use guildhall_guild_protocol::PartitionId;
use guildhall_model::{Channel, ChannelId, ChannelType, Guild, GuildId, Member, Permissions, Role, User, UserId};
use guildhall_net::{AdmissionLimits, IdentifyLimits, Peers, Server, ServerConfig, SystemClock};
use guildhall_node::{Node, NodeConfig};
use guildhall_partition::{Bill, PartitionConfig, TapSwitch};
use guildhall_settings::defaults;
use guildhall_stdx::Timestamp;
use guildhall_store::{SqliteOptions, SqliteStore, Store};
use guildhall_telemetry::spare::SpareThread;
use guildhall_ws_proto::{DeflatePolicy, WINDOW_BITS_MAX};
use serde_json::json;
use std::{path::Path, sync::Arc};
use tokio::{net::TcpListener, runtime::Runtime};

const GUILD: GuildId = GuildId::new(1_100_000_000_000_000_001);
const CHANNEL: ChannelId = ChannelId::new(1_100_000_000_000_000_010);
const FIRST_USER: u64 = 1_100_000_000_001_000_000;
/// Writes per batch while the guild is filled.
const BATCH: usize = 1000;
const TOKEN_TTL_S: u64 = 86_400;
/// Longer than any run: the clients wait for their turn in between, and what is measured is deliveries.
const HEARTBEAT_INTERVAL_MS: u64 = 3_600_000;

fn user(index: usize) -> Arc<User> {
    Arc::new(User::new(UserId::new(FIRST_USER + index as u64), &format!("member{index}")))
}

/// The guild as a backend would have written it.
async fn fill(store: &dyn Store, members_count: usize) -> Result<()> {
    let owner = user(0);
    let everyone = Role::everyone(GUILD, Permissions::DEFAULT_EVERYONE);
    store
        .commit(vec![
            Write::PutUser(owner.clone()),
            Write::PutGuild(Arc::new(Guild::new(GUILD, "bench", owner.id))),
            Write::PutRole(GUILD, Arc::new(everyone)),
            Write::PutChannel(Arc::new(Channel::new(CHANNEL, GUILD, ChannelType::Text, "general"))),
        ])
        .await?;
    let joined_at = Timestamp(1_700_000_000_000);
    let indices: Vec<usize> = (0..members_count).collect();
    for chunk in indices.chunks(BATCH) {
        let put = |index: &usize| {
            let user = user(*index);
            [Write::PutUser(user.clone()), Write::PutMember(GUILD, Arc::new(Member::new(user, joined_at)))]
        };
        store.commit(chunk.iter().flat_map(put).collect()).await?;
    }
    Ok(())
}

/// Runs until the bench closes our input. `dir` gets the database and `tokens`, one per line.
pub fn run(members_count: usize, dir: &Path, io_uring: IoUring, mode: Mode) -> Result<()> {
    let runtime = Runtime::new().context("starting the runtime")?;
    let _guard = runtime.enter();
    let store: Arc<dyn Store> = Arc::new(
        runtime
            .block_on(SqliteStore::open(&dir.join("bench.db"), SqliteOptions::default()))
            .context("opening the store")?,
    );
    runtime.block_on(fill(&*store, members_count))?;
    let clock = SystemClock::default();
    // As in a node.
    let (bill, bill_worker) = Bill::new(defaults::BILL_ONE_IN, ContextPool::default());
    let _bill = SpareThread::start(bill_worker)?;
    let taps = TapSwitch::default();
    let dark = DarkSwitch::start(taps.clone())?;
    let config = ServerConfig {
        node_number: 0,
        access: None,
        partitions_count: std::thread::available_parallelism().map_or(1, |n| n.get() as u16),
        // The gateway may have seven eighths.
        connections_max: 2 * members_count + 64,
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
            bill,
            taps,
            ..PartitionConfig::new(PartitionId(0), "ws://127.0.0.1".into(), [7; 32])
        },
    };
    let server = Server::prepare(config, clock)?;
    let node_config = NodeConfig { guild_workers_count: 1, jwt_secret: vec![9; 32], worker_mailbox_max: 65_536 };
    let node =
        Node::start(node_config, store, Arc::new(NodeClock(clock)), Arc::new(PartitionSink(server.partitions())));
    let mint = |index| runtime.block_on(node.mint_user_token(user(index).id, TOKEN_TTL_S));
    let tokens: Vec<String> = (0..members_count).map(mint).collect::<Result<_, _>>().context("minting the tokens")?;
    std::fs::write(dir.join("tokens"), tokens.join("\n")).context("writing the tokens")?;
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).context("listening")?;
    let upstream = NodeUpstream::new(node.clone(), Arc::new(guildhall_backend::SessionEvents::new(1)), None, None);
    let running = server.start(listener, Router::new(), Arc::new(upstream), Peers::default())?;

    say(&json!({"port": running.local_addr().port(), "io_uring": running.sends_in_batches()}));
    let mut sent = 0usize;
    serve(|command, args| match command {
        "publish" => {
            let text = super::text::sentence(sent);
            let author = user(sent * 7 % members_count).id;
            sent += 1;
            let message = Box::new(NewMessage { content: text, ..NewMessage::default() });
            runtime.block_on(node.command(GUILD, Actor::User(author), Command::CreateMessage(CHANNEL, message)))?;
            Ok(json!({"published": sent}))
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
