//! Settings: the one table of all of them. Structs, documentation and checks come from it.
//!
//! A line reads: documentation, name, type, what is allowed (ranges of numbers), default.

use super::{
    Effective, Loaded, defaults,
    jwks::JwksUrl,
    raw::RawConfig,
    value::{
        Addresses, Allowed, ClientTakeover, CreateAccounts, DatabaseCheck, DeflateMode, DirectsFrom, ExpireSessions,
        GatewayUrl, HiddenForm, IoUring, LogFilter, LogFormat, MetricsAccess, Secret, StreamMode, Synchronous, Text,
        Upgrades, UploadMode, UsersPreset, Value, VoiceEndpoint,
    },
};
use std::{net::SocketAddr, path::PathBuf};

/// A group of settings.
#[derive(Debug)]
pub(super) struct Section {
    /// As in the file.
    pub name: &'static str,
    /// What it is about.
    pub doc: &'static [&'static str],
    /// Its settings.
    pub keys: &'static [Key],
}

/// A setting.
#[derive(Debug)]
pub(super) struct Key {
    /// As in the file.
    pub name: &'static str,
    /// Unit, effect, danger.
    pub doc: &'static [&'static str],
    /// The type's own words for what it takes.
    pub expected: fn() -> String,
    /// As TOML; none when it is not set by default.
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

macro_rules! settings {
    ($($(#[doc = $section_doc:literal])+ $section:ident: $Section:ident {
        $($(#[doc = $doc:literal])+ $key:ident: $type:ty $(, $rule:expr)? => $default:expr;)+
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
            /// Takes every setting out of `raw`. What is wrong is noted there, and the default stands in.
            pub(super) fn from_raw(raw: &mut RawConfig) -> Loaded {
                let mut effective = Vec::new();
                let config = Self { $($section: $Section { $($key: {
                    let rule = rule!($($rule)?);
                    let default: $type = $default;
                    let (value, origin) = raw.take(stringify!($section), stringify!($key), &rule, default);
                    let text = Value::to_toml(&value);
                    effective.push(Effective { section: stringify!($section), key: stringify!($key), text, origin });
                    value
                },)+ },)+ };
                Loaded { config, effective }
            }
        }
    };
}

settings! {
    /// Where clients connect, and the threads that serve them.
    server: ServerConfig {
        /// Address and port for HTTP and WebSocket. Port 0 takes a free one.
        listen: SocketAddr => defaults::LISTEN;
        /// The URL that clients are told to open their WebSocket at, like "wss://gateway.example.net".
        /// Not set: made from `listen`. Set it if clients come from other machines, through a proxy, or by TLS to a name.
        public_url: Option<GatewayUrl> => None;
        /// Threads that own connections; 0: one per core.
        partitions: u16, 0..=256 => defaults::PARTITIONS;
        /// Threads that own guilds; 0: half as many as cores, at least one.
        guild_workers: u16, 0..=256 => defaults::GUILD_WORKERS;
        /// Commands that may wait for one guild worker; past it callers are told 503.
        worker_mailbox_max: u32, 16..=1_000_000 => defaults::WORKER_MAILBOX_MAX;
        /// Sockets at once, REST included; past it 503. Sockets of REST have at most half of the places, those of the gateway at
        /// most seven eighths, and a quarter is reserved for the gateway. The node uses fewer places where the system allows too few
        /// open files; the log says how many.
        connections_max: u32, 16..=10_000_000 => defaults::CONNECTIONS_MAX;
        /// A second address and port, for `/healthz`, `/readyz` and `/metrics` alone, without TLS: "127.0.0.1:9091". No proxy for
        /// clients may lead to it. Not set: none.
        admin_listen: Option<SocketAddr> => None;
        /// Where `/metrics` is served. "local": on `admin_listen` alone; "open": on `listen` as well, for when a proxy hides it; "off":
        /// nowhere.
        metrics: MetricsAccess => defaults::METRICS;
        /// Send to many clients with one system call, by io_uring. "auto": where the system has it and allows it; "off": no.
        io_uring: IoUring => defaults::IO_URING;
        /// How often clients send a heartbeat, milliseconds. Silence of one and a half times that ends a connection.
        heartbeat_interval_ms: u32, 1000..=600_000 => defaults::HEARTBEAT_INTERVAL_MS;
        /// How long a node that was told to stop says so by `/readyz` (503) before it does anything else, milliseconds: as long as
        /// a load balancer takes to notice.
        drain_notice_ms: u32, 0..=600_000 => defaults::DRAIN_NOTICE_MS;
        /// How long stopping may take after that, milliseconds. Up to half of it goes to asking clients to reconnect (op 7), as
        /// many per second as this node has been seen to start sessions, or more if they would not be asked in time; up to a
        /// quarter, or 5 s, to waiting for them; the rest is for guilds and the store.
        drain_timeout_ms: u32, 100..=600_000 => defaults::DRAIN_TIMEOUT_MS;
        /// Bytes of messages that a node which is told to stop leaves to the next one on the same folder, so that clients resume
        /// there; sessions past it identify anew. 0: all do.
        handover_bytes_max: u32, 0..=2_147_483_648 => defaults::HANDOVER_BYTES_MAX;
    }
    /// TLS, for REST and the gateway alike: everything on `server.listen`. Without files: none.
    tls: TlsConfig {
        /// The certificate and those it rests on, PEM. Read again when it changes, and at SIGHUP; one that is wrong changes nothing.
        cert_file: Option<PathBuf> => None;
        /// Its key, PEM, likewise.
        key_file: Option<PathBuf> => None;
    }
    /// permessage-deflate, for clients that offer it, as browsers and most libraries do, and whose URL asks for no compression.
    deflate: DeflateConfig {
        /// "prepared": what many get is compressed once for all, and nothing is kept for a connection. "takeover": each
        /// connection has a context, which costs memory and CPU and makes fewer bytes; clients may ask for "prepared" all the
        /// same. "off": offers are declined.
        mode: DeflateMode => defaults::DEFLATE_MODE;
        /// Effort, from 1 to 9.
        level: u16, 1..=9 => defaults::DEFLATE_LEVEL;
        /// How far contexts look back, 2^n bytes. A context takes 2^(n + 2) + 2^(mem_level + 9) bytes.
        server_window_bits: u16, 9..=15 => defaults::DEFLATE_WINDOW_BITS;
        /// The size of contexts' tables.
        mem_level: u16, 1..=9 => defaults::DEFLATE_MEM_LEVEL;
        /// "on": clients may refer to what they sent before, and up to 2^client_window_bits bytes of it are kept for each.
        /// "off": they are told not to.
        client_takeover: ClientTakeover => defaults::DEFLATE_CLIENT_TAKEOVER;
        /// How far clients are told to look back at most, if they can be told.
        client_window_bits: u16, 8..=15 => defaults::DEFLATE_WINDOW_BITS;
    }
    /// What clients may use up. Past a limit the client is refused or asked to come back, never the node.
    limits: LimitsConfig {
        /// How long a connection may take to say who it is, milliseconds (close code 4003).
        identify_deadline_ms: u32, 1000..=600_000 => defaults::IDENTIFY_DEADLINE_MS;
        /// Sessions that one bot may begin per `identify_interval_ms`; past it the client is told to try again.
        identify_concurrency: u32, 1..=10_000 => defaults::IDENTIFY_CONCURRENCY;
        /// That interval, milliseconds.
        identify_interval_ms: u32, 100..=3_600_000 => defaults::IDENTIFY_INTERVAL_MS;
        /// IDENTIFYs of all accounts whose token is checked, per second; past it clients get op 9 and try again. One address has an
        /// eighth of them, unless it is this machine. One token has twice `identify_concurrency`, or `user_sessions_max` if that is
        /// more, per `identify_interval_ms`. 0: no limit for the node and for an address.
        identifies_per_second_max: u32, 0..=10_000_000 => defaults::IDENTIFIES_PER_SECOND_MAX;
        /// Sockets at once that have not sent their first request; past it 503. One address may have an eighth of them, unless it
        /// is this machine or one of `rest_trusted_proxies`.
        handshakes_max: u32, 16..=10_000_000 => defaults::HANDSHAKES_MAX;
        /// Sockets of REST that one address may have at once (of IPv6: a /64); past it 429. Not for this machine itself and
        /// `rest_trusted_proxies`. 0: any number.
        address_rest_connections_max: u32, 0..=10_000_000 => defaults::ADDRESS_REST_CONNECTIONS_MAX;
        /// Gateway connections of one address at once (of IPv6: of a /64); past it 429. Not for this machine itself. 0: any number.
        address_connections_max: u32, 0..=10_000_000 => defaults::ADDRESS_CONNECTIONS_MAX;
        /// Gateway connections that one address may open per minute, likewise; past it 429. 0: any number.
        address_handshakes_per_minute: u32, 0..=10_000_000 => defaults::ADDRESS_HANDSHAKES_PER_MINUTE;
        /// Sessions that one bot may begin per day.
        bot_identifies_per_day: u32, 1..=4_000_000_000 => defaults::BOT_IDENTIFIES_PER_DAY;
        /// Sessions that one user account may have at once (close code 4015).
        user_sessions_max: u32, 1..=100_000 => defaults::USER_SESSIONS_MAX;
        /// Guilds that one shard of a bot may hold (close code 4011).
        guilds_per_shard_max: u32, 1..=1_000_000 => defaults::GUILDS_PER_SHARD_MAX;
        /// Messages a connection may send per minute, heartbeats included (close code 4008).
        inbound_per_minute_max: u32, 10..=1_000_000 => defaults::INBOUND_PER_MINUTE_MAX;
        /// Largest message of a bot, bytes (close code 4002).
        bot_message_bytes_max: u32, 1024..=1_048_576 => defaults::BOT_MESSAGE_BYTES_MAX;
        /// Largest message of a user, and of anybody before IDENTIFY, bytes.
        user_message_bytes_max: u32, 1024..=1_048_576 => defaults::USER_MESSAGE_BYTES_MAX;
        /// How long a session without a connection can be resumed, milliseconds.
        session_resume_ms: u32, 0..=86_400_000 => defaults::SESSION_RESUME_MS;
        /// How long who came by a temporary invite may be without a session before they are a member no more, milliseconds. A
        /// session that can be resumed is one.
        temporary_away_ms: u32, 0..=86_400_000 => defaults::TEMPORARY_AWAY_MS;
        /// Entries of a guild's audit log, some 400 bytes each in memory; past it the oldest go, and all after 45 days. 0: no log.
        audit_log_entries_max: u32, 0..=100_000 => defaults::AUDIT_LOG_ENTRIES_MAX;
        /// Dispatches a session keeps for a resume.
        replay_events_max: u32, 1..=1_000_000 => defaults::REPLAY_EVENTS_MAX;
        /// Bytes a session keeps for a resume.
        replay_bytes_max: u32, 1024..=2_147_483_648 => defaults::REPLAY_BYTES_MAX;
        /// Dispatches a connected client may be behind; past it the connection is closed and may resume.
        backlog_events_max: u32, 16..=1_000_000 => defaults::BACKLOG_EVENTS_MAX;
        /// Bytes a connected client may be behind, likewise.
        backlog_bytes_max: u32, 65_536..=2_147_483_648 => defaults::BACKLOG_BYTES_MAX;
        /// Dispatches kept once for all sessions that see the same of a guild: resumes and slow clients are served from it.
        shared_log_events_max: u32, 64..=1_000_000 => defaults::SHARED_LOG_EVENTS_MAX;
        /// Bytes of them, per such group of sessions.
        shared_log_bytes_max: u32, 65_536..=2_147_483_648 => defaults::SHARED_LOG_BYTES_MAX;
        /// Bytes of READY and GUILD_CREATE, per partition, that are made and not yet taken by their clients; others wait.
        ready_bytes_in_flight_max: u32, 65_536..=2_147_483_648 => defaults::READY_BYTES_IN_FLIGHT_MAX;
        /// Sessions of a guild that one relay serves; past it the guild gets another.
        sessions_per_relay_max: u32, 1..=1_000_000 => defaults::SESSIONS_PER_RELAY_MAX;
        /// In guilds with more members a user account is passive until its client opens them. Not set: each client's
        /// `large_threshold`. 0: always.
        passive_above_members: Option<u32>, 0..=1_000_000_000 => None;
        /// How often passive sessions are told what changed, milliseconds, give or take a quarter.
        passive_update_interval_ms: u32, 50..=3_600_000 => defaults::PASSIVE_UPDATE_INTERVAL_MS;
        /// A connection that takes nothing for so long is cut, milliseconds: of the gateway, and of REST while an answer waits.
        write_stall_ms: u32, 1000..=600_000 => defaults::WRITE_STALL_MS;
        /// Proxies in front of this node, as addresses with commas between them: what they write into X-Forwarded-For tells
        /// whom a request comes from. Without it everybody behind a proxy counts as one.
        rest_trusted_proxies: Addresses => Addresses::default();
        /// REST rate limits, in percent of the documented ones; 0: none at all, for tests and benches.
        rest_rate_percent: u32, 0..=1_000_000 => defaults::REST_RATE_PERCENT;
        /// Requests a second of one key of the backend API (/v1); the lines of a stream do not count. 0: no limit.
        backend_requests_per_s: u32, 0..=1_000_000 => defaults::BACKEND_REQUESTS_PER_S;
    }
    /// Things that accounts may do by themselves. Each setting takes "everyone" or "backend": only the backend does it, over
    /// `/v1`, and an account that tries is refused with 50013.
    users: UsersConfig {
        /// Default of the other settings of this section and of `directs.who`. "open": accounts may do everything;
        /// "backend": nothing, the backend has its own database of accounts, guilds and names.
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
        /// Form of channels that a member, bots included, cannot view. "listed": name, topic and overwrites, as upstream;
        /// "obfuscated": type, position and category; "absent": nothing. The newest message is never included.
        hidden_channels: HiddenForm => defaults::HIDDEN_CHANNELS;
    }
    /// Direct messages and groups that accounts make by themselves; what there is already stays open to those in it. Backends make
    /// any number, by `POST /v1/directs`.
    directs: DirectsConfig {
        /// With whom. "common-guild": members of a guild that the account is in, too; "anyone": any account; "backend": nobody, only
        /// backends make them. Others are refused (50007).
        /// Not set: by `users.preset`, "common-guild" with "open".
        who: Option<DirectsFrom> => None;
        /// New direct messages of one account a day; past it 40003. To open one that is there again costs nothing.
        created_per_day_max: u32, 0..=1_000_000 => defaults::DIRECTS_CREATED_PER_DAY_MAX;
        /// New groups of one account a day; past it 40003.
        groups_created_per_day_max: u32, 0..=1_000_000 => defaults::GROUPS_CREATED_PER_DAY_MAX;
    }
    /// Compression of what clients are sent. It holds for new connections.
    codec: CodecConfig {
        /// How zlib-stream, zstd-stream and permessage-deflate with takeover are compressed. "classic": by the libraries, with a
        /// context for each connection (the settings below). "shared-match": what many get is searched once, and a
        /// connection takes 3 KB; streams with a dictionary of more than 256 KiB stay classic.
        streams: StreamMode => defaults::STREAMS;
        /// Of "shared-match": bytes of events that later ones may refer to, per partition and encoding, taken for the next
        /// power of two. The index takes three quarters as much again.
        shared_history_bytes_max: u32, 65_536..=268_435_456 => defaults::SHARED_HISTORY_BYTES_MAX;
        /// Of "shared-match": one connection in so many has each message decoded again before it is sent. If one does not read
        /// back, the connection is closed, and new ones get classic streams. 0: none.
        shared_check_one_in: u32, 0..=1_000_000 => defaults::SHARED_CHECK_ONE_IN;
        /// Effort of zlib-stream. 0: stored.
        zlib_level: u16, 0..=9 => defaults::ZLIB.level.into();
        /// Window of zlib-stream, as a power of two of bytes.
        zlib_window_bits: u16, 9..=15 => defaults::ZLIB.window_bits.into();
        /// Tables of zlib-stream. A context takes about 2^(zlib_window_bits + 2) + 2^(zlib_mem_level + 9) bytes.
        zlib_mem_level: u16, 1..=9 => defaults::ZLIB.mem_level.into();
        /// Effort of zstd-stream.
        zstd_level: i32, -7..=22 => defaults::ZSTD.level;
        /// Window of zstd-stream, as a power of two of bytes: the node and each client keep so much.
        zstd_window_log: u32, 10..=27 => defaults::ZSTD.window_log;
        /// Chain table of zstd-stream, as a power of two of entries of 4 bytes. Levels that search in rows (5 to 12) have none.
        zstd_chain_log: u32, 6..=28 => defaults::ZSTD.chain_log;
        /// Hash table of zstd-stream, as a power of two of entries of 4 bytes.
        zstd_hash_log: u32, 6..=28 => defaults::ZSTD.hash_log;
        /// Largest block of zstd-stream, bytes. Small ones save memory and cost nothing: messages are small.
        zstd_block_bytes_max: u32, 1024..=131_072 => defaults::ZSTD.block_bytes_max;
        /// Bytes that all contexts may hold. Past it nobody is refused: streams without a context are sent uncompressed, in
        /// the format they asked for, until others are gone. Not set: three fifths of the memory that this node may use.
        classic_bytes_max: Option<u64>, 65_536..=1_125_899_906_842_624 => None;
        /// Memory that this process may use, bytes. Not set: what its container or the machine has.
        memory_bytes_max: Option<u64>, 16_777_216..=1_125_899_906_842_624 => None;
        /// Larger windows and tables (each one step up) for new zstd-stream connections. "auto": while there is memory; "off":
        /// no. When memory gets short, those who have them are asked to reconnect, a few at a time.
        upgrades: Upgrades => defaults::UPGRADES;
        /// Of the memory this node may use, what it may fill so that there still are upgrades, percent. None begin past 90 % of
        /// that, and past 95 % of it they are taken back.
        upgrade_memory_percent: u16, 10..=95 => defaults::UPGRADE_MEMORY_PERCENT;
        /// A folder with the dictionaries that clients may ask for (`dict=ID`), as `guildhall dictionary train` writes it. Not
        /// set: there are none. Read at the start; a file whose name does not fit its bytes keeps the node from starting.
        dictionaries_dir: Option<PathBuf> => None;
    }
    /// Where state is kept.
    store: StoreConfig {
        /// The data directory, made when missing. One node at a time.
        dir: PathBuf => PathBuf::from(defaults::STORE_DIR);
        /// "full": an acknowledged write survives a power cut. "normal": it survives kill -9, and is faster.
        synchronous: Synchronous => defaults::SYNCHRONOUS;
        /// "quick": every page of the database is read and checked at the start; a damaged one keeps the node from starting. After
        /// ten seconds the node starts, and the check continues in the background. "off": damage is found where it is read.
        check: DatabaseCheck => defaults::STORE_CHECK;
        /// With fewer free bytes on the disk, writes are refused (503) and reads continue; they begin again a quarter above it.
        free_bytes_min: u64, 0..=1_125_899_906_842_624 => defaults::STORE_FREE_BYTES_MIN;
    }
    /// Retention of messages.
    messages: MessagesConfig {
        /// Days after which messages are deleted, with their reactions, pins and files, within about an hour; 0: never. Backends set
        /// other values for guilds and channels (`/v1/…/retention`). Clients get no event.
        keep_days: u32, 0..=36_500 => defaults::MESSAGES_KEEP_DAYS;
    }
    /// Files that come with messages, and pictures: avatars, icons, banners, emoji, stickers. They are kept in the folder `files` of
    /// `store.dir`; files go with their message, pictures with the object that shows them.
    uploads: UploadsConfig {
        /// "on": they are taken in and served. "off": messages with files and pictures are refused, and those there are are not served.
        mode: UploadMode => defaults::UPLOAD_MODE;
        /// Bytes of all of them together; past it further ones are refused (507).
        bytes_max: u64, 0..=1_125_899_906_842_624 => defaults::UPLOADS_BYTES_MAX;
        /// Bytes of one (413). A request has 25 MiB at most, whatever is said here.
        file_bytes_max: u32, 1..=26_214_400 => defaults::UPLOAD_FILE_BYTES_MAX;
        /// Seconds until the link to a file expires. A client that reads the message again, or asks POST
        /// /attachments/refresh-urls, gets one that is in force. 0: links hold as long as their message.
        links_expire_s: u32, 0..=31_536_000 => defaults::LINKS_EXPIRE_S;
        /// Bytes of an avatar, icon, splash or banner (400). Emoji and role icons have 256 KiB, stickers 512 KiB at most.
        picture_bytes_max: u32, 1..=768_000 => defaults::UPLOAD_PICTURE_BYTES_MAX;
    }
    /// Keys. What is not set is made at the first start and kept in the store, except the admin key.
    auth: AuthConfig {
        /// Signs user tokens (HS256), at least 32 bytes.
        jwt_secret: Option<Secret> => None;
        /// A file with the same; white space at its ends is ignored.
        jwt_secret_file: Option<PathBuf> => None;
        /// A JSON Web Key Set with the public keys of others who may sign user tokens, by EdDSA (Ed25519) or RS256: `sub` is the
        /// account's id, `exp` has to be there. Read again when it changes; one that is wrong changes nothing, and one without
        /// any key (`{"keys":[]}`) takes all keys away. Needs `jwt_audience`.
        jwks_file: Option<PathBuf> => None;
        /// The same by URL, fetched at the start, every `jwks_refresh_s`, and when a token names an unknown key; while it cannot be
        /// fetched the keys before stay in force. https://, or http:// of this machine.
        jwks_url: Option<JwksUrl> => None;
        /// How often, seconds. Unknown keys lead to one more fetch per tenth of it, or per 30 s.
        jwks_refresh_s: u32, 10..=86_400 => defaults::JWKS_REFRESH_S;
        /// Certificates to trust that URL's server by, PEM. Not set: those that this system trusts.
        jwks_ca_file: Option<PathBuf> => None;
        /// What such a token must have as `iss`. Not set: anything.
        jwt_issuer: Option<Text> => None;
        /// What such a token must have as `aud`, or among them; needed with a key set. "any": tokens that the issuer made for other
        /// applications are taken too.
        jwt_audience: Option<Text> => None;
        /// The claim of such a token with the account's id. Not set: `sub`.
        jwt_subject_claim: Option<Text> => None;
        /// "on": an account is made when the first good token of its subject comes. A subject of digits is the account's id; any other
        /// (a UUID, `auth0|…`) gets an id of this node, for ever. "off": a backend makes accounts.
        jwt_create_accounts: CreateAccounts => defaults::CREATE_ACCOUNTS;
        /// The claim with the username of an account that is made so. Not set: `preferred_username`.
        jwt_username_claim: Option<Text> => None;
        /// The claim with its display name. Not set: `name`.
        jwt_display_name_claim: Option<Text> => None;
        /// Most accounts made so in a minute; past it clients get 503 or op 9 and try again.
        jwt_accounts_per_minute_max: u32, 1..=1_000_000 => defaults::ACCOUNTS_PER_MINUTE_MAX;
        /// The root key of the backend API: it may do everything. At least 32 bytes. `guildhall key` makes others that may do less.
        admin_key: Option<Secret> => None;
        /// A file with the same.
        admin_key_file: Option<PathBuf> => None;
        /// "on": when the token of a connected session expires, its connection is closed with 4004; the session can be resumed
        /// with another token of the account. "off": a token's `exp` is checked by IDENTIFY and RESUME only.
        expire_sessions: ExpireSessions => defaults::EXPIRE_SESSIONS;
    }
    /// Voice is signalled, not carried.
    voice: VoiceConfig {
        /// host:port of the media server that clients are sent to. Not set: they are told to wait for one.
        endpoint: Option<VoiceEndpoint> => None;
    }
    /// What the node says on standard error. Never tokens, never what people wrote.
    log: LogConfig {
        /// "text" for people, "json" for machines.
        format: LogFormat => defaults::LOG_FORMAT;
        /// error, warn, info, debug or trace, also per module: "info,guildhall_net=debug".
        level: LogFilter => defaults::log_level();
        /// A file for the access log, one JSON line per REST request and WebSocket, without paths, queries and contents; "-" for standard
        /// output. SIGHUP reopens it, after a rotation. Not set: there is none.
        access_file: Option<PathBuf> => None;
        /// For how long the node keeps what backends changed by /v1, in days (GET /v1/audit). 0: it keeps nothing of it.
        audit_keep_days: u32, 0..=3_650 => defaults::AUDIT_KEEP_DAYS;
    }
}
