//! Limits and settings of a partition.

use crate::{
    bill::Bill,
    stream_codec::{SharedDictionaries, StreamCodec},
    tap::TapSwitch,
};
use guildhall_codec::{ContextPool, Dictionaries, DictionarySwitch, PreparedCache, ZlibParams};
use guildhall_guild_protocol::{HiddenChannels, PartitionId};
use guildhall_session::{LogLimits, Share};
use std::sync::Arc;

/// Limits of a partition. Each field's doc describes the behaviour past its limit.
#[derive(Clone, Debug)]
pub struct PartitionConfig {
    /// Number of this partition.
    pub partition: PartitionId,
    /// How many there are on this node.
    pub partitions_count: u16,
    /// Sent in HELLO. A client silent for one and a half times this is closed with 4000.
    pub heartbeat_interval_ms: u64,
    /// Time for IDENTIFY or RESUME after HELLO; past it the connection is closed with 4003.
    pub identify_deadline_ms: u64,
    /// A session without connection ends after this.
    pub resume_window_ms: u64,
    /// A user's READY waits this long for guilds; later ones are left out as unavailable.
    pub gather_deadline_ms: u64,
    /// Dispatches stored for RESUME. Past it a detached session is forgotten, and a connected one forgets its oldest.
    pub replay_events_max: usize,
    /// Bytes of bodies kept for RESUME, with the same effect.
    pub replay_bytes_max: usize,
    /// Presences, voice states, typing and member lists kept for RESUME, on top of these.
    pub replay_share: Share,
    /// Dispatches by which a connected client may be behind. Past it the connection is aborted and the session ends.
    pub backlog_events_max: usize,
    /// Bytes of bodies by which a connected client may be behind. Past it the same.
    pub backlog_bytes_max: usize,
    /// A connection whose socket takes nothing for this time is aborted; so is one that takes this long to read one
    /// READY or GUILD_CREATE while other connections wait for `rendered_bytes_max`.
    pub write_stall_ms: u64,
    /// Messages of a client per minute; past it the connection is closed with 4008.
    pub inbound_per_minute_max: u32,
    /// Bytes of one message from a bot; past it the connection is closed with 4002.
    pub bot_message_bytes_max: u32,
    /// Bytes of one message from a user account, and from any client before IDENTIFY; past it 4002.
    pub user_message_bytes_max: u32,
    /// Limits of the logs that sessions with the same audience share. Slow and resuming clients read from them: past
    /// the limits a session cannot resume, or its connection is aborted and it ends.
    pub log: LogLimits,
    /// Bytes of READY and GUILD_CREATE rendered and not sent yet, over all connections. Past it connections queue.
    pub rendered_bytes_max: usize,
    /// Sessions per relay; past it a guild gets another relay here.
    pub sessions_per_relay_max: usize,
    /// A user account is passive in guilds with more members, until it subscribes. None: its `large_threshold`.
    pub passive_above_members: Option<u64>,
    /// Interval between updates of passive sessions.
    pub passive_interval_ms: u64,
    /// Whether other nodes may have the session of a RESUME.
    pub fetches_sessions: bool,
    /// Whether other nodes hold mirrors of the sessions here.
    pub mirrors_sessions: bool,
    /// Whether the connection of a session is closed with 4004 when its token expires.
    pub expire_sessions: bool,
    /// Form of channels that a member cannot view.
    pub hidden_channels: HiddenChannels,
    /// Guilds that one shard may hold; past it 4011.
    pub guilds_per_shard_max: usize,
    /// Sent in READY: `scheme://host[:port]`, nothing after it.
    pub resume_gateway_url: Arc<str>,
    /// Random bytes, new with every start, from which session ids are derived.
    pub session_secret: [u8; 32],
    /// Contexts of `zlib-stream` and `zstd-stream` connections, shared by all partitions of a node. Past their limit
    /// messages are sent in the stream's format, but uncompressed.
    pub contexts: ContextPool,
    /// Compression of streams.
    pub stream_codec: StreamCodec,
    /// For `zstd-stream` with `dict`. All partitions share them.
    pub dictionaries: DictionarySwitch,
    /// The same dictionaries, prepared for shared-match. All partitions share them.
    pub shared_dictionaries: SharedDictionaries,
    /// Parameters of permessage-deflate, with and without context takeover.
    pub deflate: ZlibParams,
    /// Samples connections and compares codecs. All partitions share it.
    pub bill: Bill,
    /// Copies dispatches of sampled sessions for the lab. All partitions share it.
    pub taps: TapSwitch,
    /// Cache of compressed payloads outside the sequence. All partitions share it.
    pub prepared_cache: Arc<PreparedCache>,
}

/// Bytes of cached payloads: HELLO, and payloads that all clients receive at once, are few and small.
const PREPARED_CACHE_BYTES_MAX: usize = 1 << 20;
/// Lifetime of a cached payload: about as long as sending it to all clients takes.
const PREPARED_CACHE_TTL_MS: u64 = 1_000;

impl PartitionConfig {
    /// Replaces the dictionaries that clients may name, of all clones and of running partitions. Takes about 20 ms for
    /// each new one.
    pub fn set_dictionaries(&self, dictionaries: Dictionaries) {
        self.shared_dictionaries.set(&dictionaries);
        self.dictionaries.set(dictionaries);
    }

    /// Replaces the limits that may change while clients are connected. Other fields were sent to clients at their
    /// start, or are part of the partition's structure.
    pub fn take_limits(&mut self, from: &Self) {
        self.identify_deadline_ms = from.identify_deadline_ms;
        self.resume_window_ms = from.resume_window_ms;
        self.replay_events_max = from.replay_events_max;
        self.replay_bytes_max = from.replay_bytes_max;
        self.replay_share = from.replay_share;
        self.backlog_events_max = from.backlog_events_max;
        self.backlog_bytes_max = from.backlog_bytes_max;
        self.log = from.log;
        self.rendered_bytes_max = from.rendered_bytes_max;
        self.sessions_per_relay_max = from.sessions_per_relay_max;
        self.passive_above_members = from.passive_above_members;
        self.write_stall_ms = from.write_stall_ms;
        self.inbound_per_minute_max = from.inbound_per_minute_max;
        self.bot_message_bytes_max = from.bot_message_bytes_max;
        self.user_message_bytes_max = from.user_message_bytes_max;
        self.guilds_per_shard_max = from.guilds_per_shard_max;
        self.expire_sessions = from.expire_sessions;
        self.stream_codec = from.stream_codec;
    }

    /// The defaults of docs/protocol/reference.md §1.5 and §1.13.
    #[must_use]
    pub fn new(partition: PartitionId, resume_gateway_url: Arc<str>, session_secret: [u8; 32]) -> Self {
        Self {
            partition,
            partitions_count: partition.0 + 1,
            heartbeat_interval_ms: 41_250,
            identify_deadline_ms: 60_000,
            resume_window_ms: 180_000,
            gather_deadline_ms: 5_000,
            replay_events_max: 4_096,
            replay_bytes_max: 4 << 20,
            replay_share: Share { pieces_max: 1_024, bytes_max: 1 << 20 },
            backlog_events_max: 8_192,
            backlog_bytes_max: 64 << 20,
            write_stall_ms: 30_000,
            inbound_per_minute_max: 120,
            bot_message_bytes_max: 4_096,
            user_message_bytes_max: 15_360,
            log: LogLimits {
                events_max: 8_192,
                bytes_max: 16 << 20,
                age_ms_max: 41_250 * 3 / 2 + 180_000,
                share_events_max: 4_096,
                share_bytes_max: 2 << 20,
            },
            rendered_bytes_max: 64 << 20,
            sessions_per_relay_max: 15_000,
            passive_above_members: None,
            passive_interval_ms: 30_000,
            fetches_sessions: false,
            mirrors_sessions: false,
            expire_sessions: true,
            hidden_channels: HiddenChannels::default(),
            guilds_per_shard_max: 2_500,
            resume_gateway_url,
            session_secret,
            contexts: ContextPool::default(),
            stream_codec: StreamCodec::default(),
            dictionaries: DictionarySwitch::default(),
            shared_dictionaries: SharedDictionaries::default(),
            deflate: ZlibParams::default(),
            bill: Bill::default(),
            taps: TapSwitch::default(),
            prepared_cache: Arc::new(PreparedCache::new(PREPARED_CACHE_BYTES_MAX, PREPARED_CACHE_TTL_MS)),
        }
    }
}
