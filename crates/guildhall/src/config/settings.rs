//! Settings: the one table of all of them. Structs, documentation and checks come from it.
//!
//! A line reads: documentation, name, type, what is allowed (ranges of numbers), default.

use super::{
    Effective, Loaded, defaults,
    raw::RawConfig,
    value::{GatewayUrl, LogFilter, LogFormat, Secret, Synchronous, Value, VoiceEndpoint},
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
        /// Not set: made from `listen`, which is right only without a proxy in front.
        public_url: Option<GatewayUrl> => None;
        /// Threads that own connections; 0: one per core.
        partitions: u16, 0..=256 => defaults::PARTITIONS;
        /// Threads that own guilds; 0: half as many as cores, at least one.
        guild_workers: u16, 0..=256 => defaults::GUILD_WORKERS;
        /// Commands that may wait for one guild worker; past it callers are told 503.
        worker_mailbox_max: u32, 16..=1_000_000 => defaults::WORKER_MAILBOX_MAX;
        /// How often clients send a heartbeat, milliseconds.
        heartbeat_interval_ms: u32, 1000..=600_000 => defaults::HEARTBEAT_INTERVAL_MS;
        /// How long a stopping node waits for what is under way, milliseconds.
        drain_timeout_ms: u32, 0..=600_000 => defaults::DRAIN_TIMEOUT_MS;
    }
    /// What clients may use up. Past a limit the client is refused or asked to come back, never the node.
    limits: LimitsConfig {
        /// Sessions that may begin per 5 seconds; past it clients are told to try again.
        identifies_per_5s: u32, 1..=1_000_000 => defaults::IDENTIFIES_PER_5S;
        /// Messages a connection may send per window, heartbeats included (close code 4008).
        inbound_messages_max: u32, 10..=100_000 => defaults::INBOUND_MESSAGES_MAX;
        /// That window, milliseconds.
        inbound_window_ms: u32, 1000..=3_600_000 => defaults::INBOUND_WINDOW_MS;
        /// Largest message of a bot, bytes (close code 4002).
        bot_payload_bytes_max: u32, 1024..=1_048_576 => defaults::BOT_PAYLOAD_BYTES_MAX;
        /// Largest message of a user, and of anybody before IDENTIFY, bytes.
        user_payload_bytes_max: u32, 1024..=1_048_576 => defaults::USER_PAYLOAD_BYTES_MAX;
        /// Dispatches a session keeps for a resume.
        replay_events_max: u32, 1..=1_000_000 => defaults::REPLAY_EVENTS_MAX;
        /// Bytes a session keeps for a resume.
        replay_bytes_max: u32, 1024..=1_073_741_824 => defaults::REPLAY_BYTES_MAX;
        /// How long a session without a connection can be resumed, milliseconds.
        session_resume_ms: u32, 0..=86_400_000 => defaults::SESSION_RESUME_MS;
        /// Bytes that may wait for a slow reader; past it the connection is closed and may resume.
        output_backlog_bytes_max: u32, 65_536..=1_073_741_824 => defaults::OUTPUT_BACKLOG_BYTES_MAX;
        /// Connections that have not said who they are; past it new ones are refused.
        unauthenticated_connections_max: u32, 1..=10_000_000 => defaults::UNAUTHENTICATED_CONNECTIONS_MAX;
        /// How long a connection may take to say who it is, milliseconds.
        identify_deadline_ms: u32, 1000..=600_000 => defaults::IDENTIFY_DEADLINE_MS;
    }
    /// Where state is kept.
    store: StoreConfig {
        /// The SQLite database; the file and its folder are made when missing. One node at a time.
        path: PathBuf => PathBuf::from(defaults::STORE_PATH);
        /// "full": an acknowledged write survives a power cut. "normal": it survives kill -9, and is faster.
        synchronous: Synchronous => defaults::SYNCHRONOUS;
    }
    /// Keys. What is not set is made at the first start and kept in the store, except the admin key.
    auth: AuthConfig {
        /// Signs user tokens (HS256), at least 32 bytes.
        jwt_secret: Option<Secret> => None;
        /// A file with the same; white space at its ends is ignored.
        jwt_secret_file: Option<PathBuf> => None;
        /// What backends send to the admin API, at least 32 bytes. Not set: the admin API is off.
        admin_key: Option<Secret> => None;
        /// A file with the same.
        admin_key_file: Option<PathBuf> => None;
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
    }
}
