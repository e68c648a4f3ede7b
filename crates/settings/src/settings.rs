//! Settings: the one table of all of them. Structs, documentation and checks come from it.
//!
//! A line reads: documentation, name, type, what is allowed (ranges of numbers), default, and `live` if the setting
//! changes at SIGHUP, without a restart. `reload` and the reference follow from that mark;
//! `assemble::limits::LiveLimits` applies it.

use super::{
    Effective, Loaded,
    bucket::{BucketKey, BucketUrl},
    defaults,
    headers::Headers,
    http_url::{HttpUrl, UrlRule},
    nats_url::NatsUrl,
    raw::RawConfig,
    store_url::StoreUrl,
    value::{
        Addresses, Allowed, BalanceMode, ChatMode, ClientTakeover, CreateAccounts, DashboardMode, DatabaseCheck,
        DeflateMode, DirectsFrom, ExpireSessions, GatewayUrl, HiddenForm, HookFailure, IoUring, KeepEvents, LogFilter,
        LogFormat, MetricsAccess, PrivateEndpoints, PrivateWebhooks, Secret, StreamMode, SubjectIs, Synchronous, Text,
        Upgrades, UploadMode, UsersPreset, Value, VoiceEndpoint,
    },
};
use std::{net::SocketAddr, path::PathBuf};

/// A group of settings.
#[derive(Debug)]
pub(super) struct Section {
    /// Name in the file.
    pub name: &'static str,
    /// Explanation for the documentation, one entry per line.
    pub doc: &'static [&'static str],
    pub keys: &'static [Key],
}

/// A setting of a section.
#[derive(Debug)]
pub(super) struct Key {
    /// Name in the file.
    pub name: &'static str,
    /// Unit, effect, danger; one entry per line.
    pub doc: &'static [&'static str],
    /// Description of the allowed values, from the type.
    pub expected: fn() -> String,
    /// Default as TOML; `None` if the setting is not set by default.
    pub default: fn() -> Option<String>,
}

macro_rules! rule {
    () => {
        ()
    };
    ($rule:expr) => {
        $rule
    };
}

macro_rules! is_live {
    () => {
        false
    };
    (live) => {
        true
    };
}

macro_rules! settings {
    ($($(#[doc = $section_doc:literal])+ $section:ident: $Section:ident {
        $($(#[doc = $doc:literal])+ $key:ident: $type:ty $(, $rule:expr)? => $default:expr $(, $live:ident)?;)+
    })+) => {
        $(
            $(#[doc = $section_doc])+
            #[derive(Clone, Debug)]
            pub struct $Section { $($(#[doc = $doc])+ pub $key: $type,)+ }
        )+

        /// The checked configuration of a node.
        #[derive(Clone, Debug)]
        pub struct Config { $($(#[doc = $section_doc])+ pub $section: $Section,)+ }

        /// Every section with every setting.
        pub(super) const SECTIONS: &[Section] = &[$(Section {
            name: stringify!($section),
            doc: &[$($section_doc),+],
            keys: &[$(Key {
                name: stringify!($key),
                doc: &[$($doc),+],
                expected: || <$type as Value>::expected(&rule!($($rule)?)),
                default: || { let default: $type = $default; default.to_toml() },
            },)+],
        },)+];

        impl Config {
            /// Takes every setting out of `raw`. Faults are recorded in `raw`; a faulty setting gets its default.
            pub(super) fn from_raw(raw: &mut RawConfig) -> Loaded {
                let mut effective = Vec::new();
                let config = Self { $($section: $Section { $($key: {
                    let rule = rule!($($rule)?);
                    let default: $type = $default;
                    let (value, origin) = raw.take(stringify!($section), stringify!($key), &rule, default);
                    let text = Value::to_toml(&value);
                    let is_live = is_live!($($live)?);
                    effective.push(Effective { section: stringify!($section), key: stringify!($key), text, origin, is_live });
                    value
                },)+ },)+ };
                Loaded { config, effective }
            }

            /// Takes the live settings of `from`. All others stay as they are.
            pub(crate) fn take_live(&mut self, from: &Self) {
                $($(if is_live!($($live)?) {
                    self.$section.$key = from.$section.$key.clone();
                })+)+
            }

            /// Whether each setting has another value than in `other`, in the order of `Loaded::effective`. Secrets
            /// are compared by their contents, which no text shows.
            pub(crate) fn differences(&self, other: &Self) -> Vec<bool> {
                vec![$($(self.$section.$key != other.$section.$key,)+)+]
            }

            /// Names of the settings with secrets: `section.key`.
            #[cfg(test)]
            pub(crate) fn secrets() -> Vec<&'static str> {
                let all = [$($((concat!(stringify!($section), ".", stringify!($key)), <$type as Value>::SECRET),)+)+];
                all.into_iter().filter_map(|(name, is_secret)| is_secret.then_some(name)).collect()
            }
        }
    };
}

settings! {
    /// Addresses and threads of the server.
    server: ServerConfig {
        /// Address and port for HTTP and WebSocket. Port 0 takes a free one.
        listen: SocketAddr => defaults::LISTEN;
        /// WebSocket URL sent to clients, like "wss://gateway.example.net". Not set: derived from `listen`; if that is
        /// every address (0.0.0.0), `GET /gateway` answers clients of other machines, and requests without a `Host`,
        /// with 421, and READY names the loopback address for RESUME. Set it if clients connect from other machines,
        /// through a proxy, or by TLS to a host name.
        public_url: Option<GatewayUrl> => None;
        /// Threads that own connections; 0: one per core.
        partitions: u16, 0..=256 => defaults::PARTITIONS;
        /// Threads that own guilds; 0: half as many as cores, at least one. A node of a cluster has at most 14.
        guild_workers: u16, 0..=256 => defaults::GUILD_WORKERS;
        /// Inputs that may wait for one guild worker; those of one guild may be half of them. Past either, requests to
        /// the guild get 503.
        worker_mailbox_max: u32, 16..=1_000_000 => defaults::WORKER_MAILBOX_MAX;
        /// Maximum number of sockets, REST included; past it 503. REST has at most half of them, the gateway at most
        /// seven eighths, and a quarter is reserved for the gateway. The node uses fewer if the system allows too few
        /// open files, and logs how many.
        connections_max: u32, 16..=10_000_000 => defaults::CONNECTIONS_MAX, live;
        /// A second address and port, for `/healthz`, `/readyz` and `/metrics` alone, without TLS: "127.0.0.1:9091". No
        /// proxy for clients may forward to it. Not set: none.
        admin_listen: Option<SocketAddr> => None;
        /// Where `/metrics` is served. "local": only on `admin_listen`; "open": also on `listen`, if a proxy hides it;
        /// "off": nowhere.
        metrics: MetricsAccess => defaults::METRICS;
        /// A chat client for browsers at `/chat/`. "on": people log in with a user token; "demo": each visitor may also
        /// get a new account, which only `guildhall demo` can create; "off": the node does not serve it.
        chat: ChatMode => defaults::CHAT;
        /// Where people of the chat page log in: the page links to it, and it redirects back with a token
        /// (docs/chat.md). Not set: people paste a token. https://, or http:// of this machine.
        chat_sign_on_url: Option<HttpUrl>, UrlRule::Authenticated => None;
        /// The operator's page at `/dashboard/`, to which a key of the backend API logs in. "on": the node serves it;
        /// "off": it does not, and `/v1/node` has the same figures.
        dashboard: DashboardMode => defaults::DASHBOARD;
        /// Send to many clients with one system call, by io_uring. "auto": if the system supports and
        /// allows it; "off": never.
        io_uring: IoUring => defaults::IO_URING;
        /// Heartbeat interval of clients, milliseconds. A connection that is silent for one and a
        /// half intervals is closed.
        heartbeat_interval_ms: u32, 1000..=600_000 => defaults::HEARTBEAT_INTERVAL_MS;
        /// Time between a stop signal and the start of the drain, during which `/readyz` answers 503, milliseconds: as
        /// long as the load balancer takes to notice.
        drain_notice_ms: u32, 0..=600_000 => defaults::DRAIN_NOTICE_MS, live;
        /// Time for the drain after that, milliseconds. Up to half of it is for RECONNECT (op 7) to all clients, at the
        /// highest rate at which this node has started sessions, in a cluster at the rate at which the other nodes
        /// accept sessions, or faster if time is short; up to a quarter, or 5 s, for waiting until they leave; the rest
        /// for guilds and the store.
        drain_timeout_ms: u32, 100..=600_000 => defaults::DRAIN_TIMEOUT_MS, live;
        /// Bytes of messages in the hand-over to the next process on the same folder, so that clients can resume there.
        /// Clients of sessions past it identify again. 0: no hand-over.
        handover_bytes_max: u32, 0..=2_147_483_648 => defaults::HANDOVER_BYTES_MAX;
    }
    /// TLS for REST and gateway on `server.listen`. Without files: none.
    tls: TlsConfig {
        /// Certificate and its chain, PEM. Read again when it changes, and at SIGHUP; a faulty file changes nothing.
        cert_file: Option<PathBuf> => None;
        /// Private key of the certificate, PEM; read again with it.
        key_file: Option<PathBuf> => None;
    }
    /// permessage-deflate, for clients that offer it (browsers, most libraries) and do not request
    /// compression in their URL.
    deflate: DeflateConfig {
        /// "prepared": a message is compressed once for all its recipients, without state per connection. "takeover":
        /// each connection has a context, which costs memory and CPU and saves bytes; clients may still choose
        /// "prepared". "off": offers are declined.
        mode: DeflateMode => defaults::DEFLATE_MODE;
        /// Compression effort, from 1 to 9.
        level: u16, 1..=9 => defaults::DEFLATE_LEVEL;
        /// Window of contexts, 2^n bytes. A context takes 2^(n + 2) + 2^(mem_level + 9) bytes.
        server_window_bits: u16, 9..=15 => defaults::DEFLATE_WINDOW_BITS;
        /// Size of the tables of contexts, from 1 to 9.
        mem_level: u16, 1..=9 => defaults::DEFLATE_MEM_LEVEL;
        /// "on": client messages may refer to earlier ones; the node keeps up to 2^client_window_bits bytes of them per
        /// connection. "off": the node does not accept that.
        client_takeover: ClientTakeover => defaults::DEFLATE_CLIENT_TAKEOVER;
        /// Largest window of client messages, 2^n bytes, for clients that support the parameter.
        client_window_bits: u16, 8..=15 => defaults::DEFLATE_WINDOW_BITS;
    }
    /// Limits of clients. Past a limit the node refuses the client or has it retry; the node itself continues.
    limits: LimitsConfig {
        /// Time until a connection must have sent IDENTIFY or RESUME, milliseconds (close code 4003).
        identify_deadline_ms: u32, 1000..=600_000 => defaults::IDENTIFY_DEADLINE_MS, live;
        /// Sessions that one bot may start per `identify_interval_ms`; past it op 9, and the client retries.
        identify_concurrency: u32, 1..=10_000 => defaults::IDENTIFY_CONCURRENCY, live;
        /// Interval of `identify_concurrency`, milliseconds.
        identify_interval_ms: u32, 100..=3_600_000 => defaults::IDENTIFY_INTERVAL_MS, live;
        /// IDENTIFYs per second, over all accounts, that reach the check of their token; past it op 9, and clients
        /// retry. One address has an eighth of them, except for loopback. One token has twice
        /// `identify_concurrency`, or `user_sessions_max` if that is more, per `identify_interval_ms`. 0: no limit
        /// for the node and for an address.
        identifies_per_second_max: u32, 0..=10_000_000 => defaults::IDENTIFIES_PER_SECOND_MAX, live;
        /// Sockets that have not sent their first request; past it the oldest of the network that has most of them is
        /// closed. One address may have an eighth of them, except for loopback and `rest_trusted_proxies`.
        handshakes_max: u32, 16..=10_000_000 => defaults::HANDSHAKES_MAX, live;
        /// REST sockets of one address (IPv6: of a /64); past it 429. Loopback and `rest_trusted_proxies`
        /// are exempt. 0: no limit.
        address_rest_connections_max: u32, 0..=10_000_000 => defaults::ADDRESS_REST_CONNECTIONS_MAX, live;
        /// Gateway connections of one address (IPv6: of a /64); past it 429. Loopback is exempt. 0: no limit.
        address_connections_max: u32, 0..=10_000_000 => defaults::ADDRESS_CONNECTIONS_MAX, live;
        /// Gateway connections that one address may open per minute (IPv6: a /64); past it 429. Loopback
        /// is exempt. 0: no limit.
        address_handshakes_per_minute: u32, 0..=10_000_000 => defaults::ADDRESS_HANDSHAKES_PER_MINUTE, live;
        /// Sessions that one bot may start per day.
        bot_identifies_per_day: u32, 1..=4_000_000_000 => defaults::BOT_IDENTIFIES_PER_DAY, live;
        /// Sessions of one user account (close code 4015).
        user_sessions_max: u32, 1..=100_000 => defaults::USER_SESSIONS_MAX, live;
        /// Guilds of one shard of a bot (close code 4011).
        guilds_per_shard_max: u32, 1..=1_000_000 => defaults::GUILDS_PER_SHARD_MAX, live;
        /// Messages that a connection may send per minute, heartbeats included (close code 4008).
        inbound_per_minute_max: u32, 10..=1_000_000 => defaults::INBOUND_PER_MINUTE_MAX, live;
        /// Largest message of a bot, bytes (close code 4002).
        bot_message_bytes_max: u32, 1024..=1_048_576 => defaults::BOT_MESSAGE_BYTES_MAX, live;
        /// Largest message of a user account, and of any client before IDENTIFY, bytes (close code 4002).
        user_message_bytes_max: u32, 1024..=1_048_576 => defaults::USER_MESSAGE_BYTES_MAX, live;
        /// Time in which a session without a connection can be resumed, milliseconds.
        session_resume_ms: u32, 0..=86_400_000 => defaults::SESSION_RESUME_MS, live;
        /// Time without a session after which a member with a temporary invite is removed, milliseconds. A resumable
        /// session counts as a session.
        temporary_away_ms: u32, 0..=86_400_000 => defaults::TEMPORARY_AWAY_MS;
        /// Entries of a guild's audit log, about 400 bytes each in memory; past it the oldest are deleted, and all
        /// after 45 days. 0: no log.
        audit_log_entries_max: u32, 0..=100_000 => defaults::AUDIT_LOG_ENTRIES_MAX;
        /// Dispatches in the replay buffer of a session. A session without a connection ends when it has more.
        replay_events_max: u32, 1..=1_000_000 => defaults::REPLAY_EVENTS_MAX, live;
        /// Bytes in the replay buffer of a session.
        replay_bytes_max: u32, 1024..=2_147_483_648 => defaults::REPLAY_BYTES_MAX, live;
        /// Dispatches by which a connected client may be behind. Past it the node resets the socket and ends
        /// the session: the client has to identify again.
        backlog_events_max: u32, 16..=1_000_000 => defaults::BACKLOG_EVENTS_MAX, live;
        /// Bytes by which a connected client may be behind; past it the same.
        backlog_bytes_max: u32, 65_536..=2_147_483_648 => defaults::BACKLOG_BYTES_MAX, live;
        /// Dispatches in the shared log of a group of sessions with the same view of a guild. Resumes and slow clients
        /// are served from it.
        shared_log_events_max: u32, 64..=1_000_000 => defaults::SHARED_LOG_EVENTS_MAX, live;
        /// Bytes in such a shared log.
        shared_log_bytes_max: u32, 65_536..=2_147_483_648 => defaults::SHARED_LOG_BYTES_MAX, live;
        /// Bytes of READY and GUILD_CREATE in flight to clients, per partition; past it further ones wait.
        ready_bytes_in_flight_max: u32, 65_536..=2_147_483_648 => defaults::READY_BYTES_IN_FLIGHT_MAX, live;
        /// Sessions of a guild per relay; past it the guild gets another relay.
        sessions_per_relay_max: u32, 1..=1_000_000 => defaults::SESSIONS_PER_RELAY_MAX, live;
        /// Number of members above which a guild's user accounts are passive until their client opens the guild. Not
        /// set: each client's `large_threshold`. 0: always.
        passive_above_members: Option<u32>, 0..=1_000_000_000 => None, live;
        /// Interval of passive updates, milliseconds; each varies by up to a quarter.
        passive_update_interval_ms: u32, 50..=3_600_000 => defaults::PASSIVE_UPDATE_INTERVAL_MS;
        /// Time after which a connection that reads nothing is reset, milliseconds; for REST only
        /// while an answer waits.
        write_stall_ms: u32, 1000..=600_000 => defaults::WRITE_STALL_MS, live;
        /// Addresses of proxies in front of this node, separated by commas. Their X-Forwarded-For determines the
        /// client's address. The clients of a proxy that is not named here count as one client; on this machine
        /// (loopback) they have no limit per address.
        rest_trusted_proxies: Addresses => Addresses::default();
        /// REST rate limits, in percent of the documented ones; 0: no limits, for tests and benches.
        rest_rate_percent: u32, 0..=1_000_000 => defaults::REST_RATE_PERCENT;
        /// Requests per second of one key of the backend API (/v1); lines of a stream do not count. 0: no limit.
        backend_requests_per_s: u32, 0..=1_000_000 => defaults::BACKEND_REQUESTS_PER_S;
    }
    /// Actions of accounts. Each setting takes "everyone", or "backend": only the backend may do it, over `/v1`, and
    /// accounts are refused with 50013.
    users: UsersConfig {
        /// Default of the other settings of this section and of `directs.who`. "open": accounts may do everything;
        /// "backend": nothing, because the backend manages accounts, guilds and names.
        preset: UsersPreset => UsersPreset::Open;
        /// Create guilds. Not set: by `preset`.
        create_guilds: Option<Allowed> => None;
        /// Change their own username, display name, avatar and banner. Not set: by `preset`.
        change_names: Option<Allowed> => None;
        /// Create invites. Not set: by `preset`.
        create_invites: Option<Allowed> => None;
        /// Leave guilds. Not set: by `preset`.
        leave_guilds: Option<Allowed> => None;
    }
    /// Visibility of channels.
    visibility: VisibilityConfig {
        /// Form of channels that a member, bots included, cannot view. "listed": name, topic and
        /// overwrites, as upstream; "obfuscated": type, position and category; "absent": nothing. The
        /// newest message is never included.
        hidden_channels: HiddenForm => defaults::HIDDEN_CHANNELS;
    }
    /// Direct messages and groups created by accounts. Existing ones stay open to their recipients. `POST /v1/directs`
    /// is not limited.
    directs: DirectsConfig {
        /// Allowed recipients. "common-guild": members of a common guild; "anyone": any account; "backend": none,
        /// only backends create direct messages. Others are refused (50007). Not set: by `users.preset`,
        /// "common-guild" with "open".
        who: Option<DirectsFrom> => None;
        /// New direct messages of one account per day; past it 40003. Opening an existing one does not count.
        created_per_day_max: u32, 0..=1_000_000 => defaults::DIRECTS_CREATED_PER_DAY_MAX;
        /// New groups of one account per day; past it 40003.
        groups_created_per_day_max: u32, 0..=1_000_000 => defaults::GROUPS_CREATED_PER_DAY_MAX;
    }
    /// Compression of the gateway. Of the settings that change at SIGHUP, `contexts_cpu_percent` does so for all
    /// connections, the others for new ones.
    codec: CodecConfig {
        /// Compression of zlib-stream, zstd-stream and permessage-deflate with takeover. "per-connection": by the
        /// libraries, with a context for each connection (the settings below). "shared-match": one match search per
        /// event for all recipients, 3 KB per connection; streams with a dictionary of more than 256 KiB stay per
        /// connection. "auto": a connection begins with a context while memory (`upgrade_memory_percent`) and CPU time
        /// (`contexts_cpu_percent`) allow, and goes on with shared-match, in the same stream, when its events have many
        /// recipients or a budget is used up.
        streams: StreamMode => defaults::STREAMS, live;
        /// "auto": share of the time of a partition that contexts may take, percent. Past it streams go on with
        /// shared-match, those whose events have the most recipients first. 0: all of them do.
        contexts_cpu_percent: u16, 0..=100 => defaults::CONTEXTS_CPU_PERCENT, live;
        /// "shared-match": most memory for events that later events may refer to, with their indexes, per partition and
        /// encoding. A partition allows 40 KiB per connection, with this as the maximum and 12 MiB as the minimum. Two
        /// fifths of it are events.
        shared_history_bytes_max: u32, 65_536..=536_870_912 => defaults::SHARED_HISTORY_BYTES_MAX;
        /// "shared-match": one of this many connections decodes each message again before it is sent. At a mismatch the
        /// node closes the connection, and new ones get library contexts. 0: no checks.
        shared_check_one_in: u32, 0..=1_000_000 => defaults::SHARED_CHECK_ONE_IN, live;
        /// The bandwidth bill: one of this many new connections, of 32 at most, has its frames compressed a second time
        /// as zlib-stream and zstd-stream (the settings below) by a thread of low priority, which uses up to 1 % of a
        /// core. While fewer than four are sampled, each new one is. 0: no bill.
        bill_one_in: u32, 0..=1_000_000 => defaults::BILL_ONE_IN;
        /// Compression effort of zlib-stream. 0: stored.
        zlib_level: u16, 0..=9 => defaults::ZLIB_LEVEL;
        /// Window of zlib-stream, 2^n bytes.
        zlib_window_bits: u16, 9..=15 => defaults::ZLIB_WINDOW_BITS;
        /// Size of the tables of zlib-stream. A context takes about 2^(zlib_window_bits + 2) +
        /// 2^(zlib_mem_level + 9) bytes.
        zlib_mem_level: u16, 1..=9 => defaults::ZLIB_MEM_LEVEL;
        /// Compression effort of zstd-stream.
        zstd_level: i32, -7..=22 => defaults::ZSTD_LEVEL;
        /// Window of zstd-stream, 2^n bytes; the node and each client allocate it.
        zstd_window_log: u32, 10..=27 => defaults::ZSTD_WINDOW_LOG;
        /// Chain table of zstd-stream, 2^n entries of 4 bytes. Levels that search in rows (5 to 12) have none.
        zstd_chain_log: u32, 6..=28 => defaults::ZSTD_CHAIN_LOG;
        /// Hash table of zstd-stream, 2^n entries of 4 bytes.
        zstd_hash_log: u32, 6..=28 => defaults::ZSTD_HASH_LOG;
        /// Largest block of zstd-stream, bytes. A context takes about six times as much on top of its window and
        /// tables; only messages that need several blocks (READY, long member lists) become larger.
        zstd_block_bytes_max: u32, 1024..=131_072 => defaults::ZSTD_BLOCK_BYTES_MAX;
        /// Bytes of all contexts. Past it no client is refused: streams without a context are sent uncompressed, in
        /// their format, until contexts are free. Not set: three fifths of the memory that this node may use.
        contexts_bytes_max: Option<u64>, 65_536..=1_125_899_906_842_624 => None;
        /// Memory that this process may use, bytes. Not set: the limit of its container, or the machine's memory.
        memory_bytes_max: Option<u64>, 16_777_216..=1_125_899_906_842_624 => None;
        /// Larger windows and tables (each one step up) for new zstd-stream connections. "auto": while memory is
        /// available; "off": never. When memory becomes scarce, the node has clients with larger contexts reconnect, a
        /// few at a time.
        upgrades: Upgrades => defaults::UPGRADES;
        /// Share of this node's memory up to which contexts are upgraded, percent. Upgrades stop at 90 % of that; past
        /// 95 % of it they are reclaimed.
        upgrade_memory_percent: u16, 10..=95 => defaults::UPGRADE_MEMORY_PERCENT;
        /// Folder with dictionaries that clients may request (`dict=ID`), in the form of `guildhall lab train`.
        /// Not set: none. Read at the start; a file whose name does not match its hash prevents the start.
        dictionaries_dir: Option<PathBuf> => None;
    }
    /// Storage of the node's state.
    store: StoreConfig {
        /// The data directory, created if missing. One node at a time. It has the files of messages, and the database
        /// unless `url` is set.
        dir: PathBuf => PathBuf::from(defaults::STORE_DIR);
        /// The database. "sqlite:DIR": the file guildhall.db in DIR. "postgres://user:password@host:5432/name": a
        /// PostgreSQL database, of one node or of all nodes of a cluster; servers on other machines need a certificate,
        /// unless `?sslmode=` has another rule. Not set: SQLite in `dir`.
        url: Option<StoreUrl> => None;
        /// Of SQLite. "full": an acknowledged write survives a power cut. "normal": it survives kill -9, and is faster.
        synchronous: Synchronous => defaults::SYNCHRONOUS;
        /// Of SQLite. "quick": the node reads and checks every page of the database at the start; a damaged one
        /// prevents it. After ten seconds the node starts, and the check continues in the background. "off": damage is
        /// found when it is read.
        check: DatabaseCheck => defaults::STORE_CHECK;
        /// Of SQLite. Free bytes on the disk below which the node refuses writes (503); reads continue. It accepts
        /// writes again a quarter above.
        free_bytes_min: u64, 0..=1_125_899_906_842_624 => defaults::STORE_FREE_BYTES_MIN, live;
    }
    /// Several nodes as one gateway, on NATS and PostgreSQL (docs/cluster.md).
    cluster: ClusterConfig {
        /// Servers of NATS with JetStream, like "nats://host:4222" or "tls://host:4222", separated by commas. An
        /// account goes before the host: "nats://user:password@host:4222" or "nats://token@host:4222". `store.url` has
        /// to name a PostgreSQL database, the same on all nodes. Not set: this node is alone.
        nats_url: Option<NatsUrl> => None;
        /// A NATS credentials file, instead of an account in `nats_url`.
        nats_credentials_file: Option<PathBuf> => None;
        /// Root certificates for "tls://", PEM. Not set: those of the system.
        nats_ca_file: Option<PathBuf> => None;
        /// Name of the cluster, the same on all nodes: letters, digits, `-` and `_`. Clusters with different names can
        /// share NATS. Not set: "guildhall".
        name: Option<Text> => None;
        /// Name of this node in reports and logs. Not set: the address of `server.listen`.
        node_name: Option<Text> => None;
        /// Share of the guilds, and of their load: a node of weight 2 takes twice as many as one of weight 1.
        weight: u32, 1..=1000 => defaults::CLUSTER_WEIGHT;
        /// Time without a sign of life after which other nodes take over this node's guilds, milliseconds.
        lease_ms: u32, 1000..=60_000 => defaults::CLUSTER_LEASE_MS;
        /// "on": a guild moves, unnoticed by its clients, if its worker is busy for half of its time or its node uses
        /// four fifths of its memory, and another node has room: twelve moves an hour at most, each with its reason in
        /// the log. "off": guilds of this node stay, and none come for load.
        balance: BalanceMode => defaults::CLUSTER_BALANCE;
        /// Interval in which this node reports changed sessions to other nodes, milliseconds: each session to one
        /// node, so that its client can resume when this node was killed. 0: such clients identify again. The same on
        /// all nodes.
        mirror_ms: u32, 0..=60_000 => defaults::CLUSTER_MIRROR_MS;
    }
    /// Retention of messages.
    messages: MessagesConfig {
        /// Days after which messages are deleted, with their reactions, pins and files, within about an hour; 0: never.
        /// Backends set other values for guilds and channels (`/v1/…/retention`). Clients get no event.
        keep_days: u32, 0..=36_500 => defaults::MESSAGES_KEEP_DAYS, live;
    }
    /// The hook before delivery: a service that may refuse or change messages of accounts and webhooks.
    hook: HookConfig {
        /// Gets a POST for each new and each edited message, and decides on it. https://, or http:// of this machine.
        /// Not set: there is no hook. The same for all nodes of a cluster.
        url: Option<HttpUrl>, UrlRule::Authenticated => None;
        /// Signs the requests (HMAC-SHA256), at least 32 bytes; needed with `url`.
        secret: Option<Secret> => None;
        /// A file with `secret`; surrounding white space is ignored.
        secret_file: Option<PathBuf> => None;
        /// Certificates that authenticate the server of `url`, PEM. Not set: those that this system trusts.
        ca_file: Option<PathBuf> => None;
        /// Time from the message until the answer, milliseconds. A message waits this long at most.
        timeout_ms: u32, 1..=1_900 => defaults::HOOK_TIMEOUT_MS;
        /// A message for which there is no answer in time. "refuse": the client gets 503 and may send it again.
        /// "allow": it is published as it is.
        on_failure: HookFailure => defaults::HOOK_ON_FAILURE;
        /// Requests to the hook at the same time; past it `on_failure` holds.
        requests_max: u32, 1..=65_536 => defaults::HOOK_REQUESTS_MAX;
    }
    /// The feed of backends: what happened in guilds and direct messages, for GET /v1/events and webhooks.
    events: EventsConfig {
        /// "on": messages, edits, deletions, reactions, joins, leaves, voice moves and moderation are stored as events,
        /// a row each, in the transaction of the change. "off": nothing is stored. The same for all nodes of a cluster.
        keep: KeepEvents => defaults::EVENTS_KEEP;
        /// Hours after which events are removed.
        keep_hours: u32, 1..=8_760 => defaults::EVENTS_KEEP_HOURS;
        /// Events that are kept at most; past it the oldest are removed. Each has about a kilobyte.
        rows_max: u32, 1_000..=1_000_000_000 => defaults::EVENTS_ROWS_MAX;
        /// "on": webhooks (/v1/webhooks) may have http:// URLs, and hosts with addresses of private networks and of
        /// this machine. A holder of a key with the scope `events` can then have the node send requests to them. "off":
        /// only https:// and public addresses.
        private_webhooks: PrivateWebhooks => defaults::PRIVATE_WEBHOOKS;
    }
    /// Interactions that are sent by HTTP to the URLs of applications (`interactions_endpoint_url`).
    interactions: InteractionsConfig {
        /// "on": these URLs may be http:// URLs, and their hosts may have addresses of private networks and of this
        /// machine. An owner of a bot can then have the node send requests to them. "off": only https:// and public
        /// addresses.
        private_endpoints: PrivateEndpoints => defaults::PRIVATE_ENDPOINTS;
    }
    /// Uploaded files, and pictures: avatars, icons, banners, emoji, stickers. Files are deleted with their message,
    /// pictures with the object that shows them.
    uploads: UploadsConfig {
        /// "on": uploads are accepted and served. "off": messages with files and pictures are refused, and stored files
        /// are not served.
        mode: UploadMode => defaults::UPLOAD_MODE;
        /// Where they are: "s3://bucket" or "s3://bucket/prefix", a bucket of an S3-compatible store that all nodes of
        /// a cluster use. Not set: the folder `files` of `store.dir`. The node moves no files when this changes.
        url: Option<BucketUrl> => None;
        /// URL of that store, like `https://s3.example.net`. Not set: AWS. https://, or http:// of this machine.
        s3_endpoint: Option<HttpUrl>, UrlRule::Authenticated => None;
        /// Region of the bucket. Not set: "us-east-1", which other stores than AWS usually accept.
        s3_region: Option<Text> => None;
        /// Id of the access key. It needs the rights to list the bucket, and to read, write and delete its objects.
        s3_access_key: Option<Text> => None;
        /// Secret of the access key.
        s3_secret_key: Option<BucketKey> => None;
        /// A file with `s3_secret_key`; surrounding white space is ignored.
        s3_secret_key_file: Option<PathBuf> => None;
        /// Certificates that authenticate the store, PEM. Not set: those that this system trusts.
        s3_ca_file: Option<PathBuf> => None;
        /// Bytes of all files and pictures; past it uploads get 507. In a bucket, uploads of other nodes count after up
        /// to an hour.
        bytes_max: u64, 0..=1_125_899_906_842_624 => defaults::UPLOADS_BYTES_MAX;
        /// Share of `bytes_max` that one account or webhook may upload in a day, percent; past it 507. 100: no limit.
        /// Files that are deleted since count. A restart forgets the day.
        account_day_percent: u32, 1..=100 => defaults::UPLOADS_ACCOUNT_DAY_PERCENT;
        /// Share of `bytes_max` that the files of one guild, or one direct message, may have, percent; past it 507. Set
        /// it to 100 if this node serves one guild.
        guild_percent: u32, 1..=100 => defaults::UPLOADS_GUILD_PERCENT;
        /// Share of `bytes_max` that is left to pictures, percent: files of messages never use it.
        pictures_percent: u32, 0..=90 => defaults::UPLOADS_PICTURES_PERCENT;
        /// Bytes of one file (413). A request has at most 25 MiB in any case.
        file_bytes_max: u32, 1..=26_214_400 => defaults::UPLOAD_FILE_BYTES_MAX;
        /// Seconds until the link to a file expires. Clients get a new link when they read the message again, or by
        /// POST /attachments/refresh-urls. 0: links are valid as long as their message.
        links_expire_s: u32, 0..=31_536_000 => defaults::LINKS_EXPIRE_S;
        /// Bytes of an avatar, icon, splash or banner (400). Emoji and role icons have at most 256
        /// KiB, stickers 512 KiB.
        picture_bytes_max: u32, 1..=4_194_304 => defaults::UPLOAD_PICTURE_BYTES_MAX;
    }
    /// Keys and tokens. Secrets that are not set are created at the first start and stored, except the admin key.
    auth: AuthConfig {
        /// Signs user tokens (HS256), at least 32 bytes.
        jwt_secret: Option<Secret> => None;
        /// A file with `jwt_secret`; surrounding white space is ignored.
        jwt_secret_file: Option<PathBuf> => None;
        /// A JSON Web Key Set with public keys of other issuers of user tokens, for EdDSA (Ed25519) or RS256: `sub` is
        /// the account's id, `exp` is required. Read again when it changes; a faulty file changes nothing, and one
        /// without keys (`{"keys":[]}`) removes all keys. Needs `jwt_audience`.
        jwks_file: Option<PathBuf> => None;
        /// URL of such a key set, fetched at the start, every `jwks_refresh_s`, and when a token names an unknown key.
        /// While it cannot be fetched, the previous keys stay in force. https://, or http:// of this machine.
        jwks_url: Option<HttpUrl>, UrlRule::Authenticated => None;
        /// Interval of fetches, seconds. Unknown keys lead to at most one more fetch per tenth of it, or per 30 s.
        jwks_refresh_s: u32, 10..=86_400 => defaults::JWKS_REFRESH_S;
        /// Certificates that authenticate the server of `jwks_url`, PEM. Not set: those that this system trusts.
        jwks_ca_file: Option<PathBuf> => None;
        /// Required `iss` of such a token. Not set: any.
        jwt_issuer: Option<Text> => None;
        /// Required `aud` of such a token, or a member of it; needed with a key set. "any": also accepts tokens that
        /// the issuer made for other applications.
        jwt_audience: Option<Text> => None;
        /// Claim of such a token with the account's id. Not set: `sub`.
        jwt_subject_claim: Option<Text> => None;
        /// Meaning of that claim. "id": the account's id. "external-id": the external id (also if it has digits only)
        /// that a backend gave the account by /v1. A token then belongs to the account that has the external id when
        /// the token is checked.
        jwt_subject_kind: SubjectIs => defaults::SUBJECT_KIND;
        /// "on": the node creates an account at the first valid token of its subject. A subject of digits is
        /// the account's id; any other (a UUID, `auth0|…`) gets a permanent id of this node, or becomes its external
        /// id (`jwt_subject_kind`). "off": only backends create accounts.
        jwt_create_accounts: CreateAccounts => defaults::CREATE_ACCOUNTS;
        /// Claim with the username of such an account. Not set: `preferred_username`.
        jwt_username_claim: Option<Text> => None;
        /// Claim with the display name of such an account. Not set: `name`.
        jwt_display_name_claim: Option<Text> => None;
        /// Accounts that are created this way per minute; past it clients get 503 or op 9 and retry.
        jwt_accounts_per_minute_max: u32, 1..=1_000_000 => defaults::ACCOUNTS_PER_MINUTE_MAX;
        /// The root key of the backend API, with all scopes. At least 32 bytes. `guildhall key` creates
        /// keys with fewer scopes.
        admin_key: Option<Secret> => None;
        /// A file with `admin_key`; surrounding white space is ignored.
        admin_key_file: Option<PathBuf> => None;
        /// "on": when the token of a connected session expires, its connection is closed with 4004; the session can be
        /// resumed with another token of the account. "off": a token's `exp` is checked by IDENTIFY and RESUME only.
        expire_sessions: ExpireSessions => defaults::EXPIRE_SESSIONS, live;
    }
    /// Voice states. Media is a separate server's work.
    voice: VoiceConfig {
        /// host:port of the media server, sent to clients. Not set: null, and clients wait for a server.
        endpoint: Option<VoiceEndpoint> => None;
        /// The key that the media server shares: the node signs voice tokens with it, and checks what the server
        /// reports. At least 32 bytes; in a cluster the same on all nodes. Not set: tokens are random and prove
        /// nothing, and the node takes no reports.
        token_key: Option<Secret> => None;
        /// A file with `token_key`; surrounding white space is ignored.
        token_key_file: Option<PathBuf> => None;
        /// Name of the key: `iss` of tokens and reports. LiveKit calls it the API key.
        token_key_id: Text => defaults::voice_token_key_id();
        /// Seconds for which a voice token may be used to join. A client gets another one when it repeats its op 4.
        token_s: u32, 10..=86_400 => defaults::VOICE_TOKEN_S;
    }
    /// Logs. They contain no tokens and no message content.
    log: LogConfig {
        /// "text" for people, "json" for programs.
        format: LogFormat => defaults::LOG_FORMAT;
        /// error, warn, info, debug or trace, also per module: "info,guildhall_net=debug".
        level: LogFilter => defaults::log_level(), live;
        /// File of the access log, one JSON line per REST request and WebSocket, without paths, queries and contents;
        /// "-" for standard output. SIGHUP reopens it, after a rotation. Not set: no access log.
        access_file: Option<PathBuf> => None;
        /// Days for which the node keeps audit entries of changes over /v1 (GET /v1/audit). 0: no entries.
        audit_keep_days: u32, 0..=3_650 => defaults::AUDIT_KEEP_DAYS;
    }
    /// Canaries: rare events of the node itself to each relay of a guild. They measure the delivery, and find relays
    /// that do not deliver any more. No client receives them.
    canaries: CanariesConfig {
        /// Members from which on a guild has canaries.
        members_min: u32, 0..=1_000_000_000 => defaults::CANARY_MEMBERS_MIN;
        /// Seconds between two canaries of a relay. A relay that returns none for three intervals is reported. 0:
        /// no canaries.
        interval_s: u32, 0..=3_600 => defaults::CANARY_INTERVAL_S;
    }
    /// Traces of requests, from REST to the last socket, for OpenTelemetry. They contain ids of guilds, and no
    /// accounts, tokens or content.
    traces: TracesConfig {
        /// Base URL of an OTLP collector that speaks HTTP, like "http://localhost:4318"; the node posts to `/v1/traces`
        /// below it. Not set: no traces.
        endpoint: Option<HttpUrl>, UrlRule::Base => None;
        /// One of this many requests is traced. 0: only slow requests, and those whose `traceparent` has
        /// the flag "sampled".
        sample_one_in: u32, 0..=1_000_000_000 => defaults::TRACE_ONE_IN;
        /// A request is also exported if it took this long until the last socket of its events, milliseconds. Then
        /// every request collects its spans, some microseconds each. 0: none is.
        slow_ms: u32, 0..=600_000 => defaults::TRACE_SLOW_MS;
        /// Headers of the exports, like "authorization=Bearer 123". They are secret; they need https:// or a collector
        /// on this machine.
        headers: Option<Headers> => None;
        /// A file with `headers`; surrounding white space is ignored.
        headers_file: Option<PathBuf> => None;
        /// Certificates that authenticate the collector, PEM. Not set: those that this system trusts.
        ca_file: Option<PathBuf> => None;
    }
}
