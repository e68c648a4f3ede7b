//! Takeover: connections of a partition that ends go on in the next process, without an event for their clients.
//!
//! Owns        `ConnSnapshot`, a connection without its socket and session, in a form that serialises.
//! Doors       of the process that ends: `is_settled`, then `hand_over_conns` right behind `hand_over`. Of the next
//!             one: `adopt_conn`, once the guilds have attached the restored sessions.
//! Invariants  V1 the bytes that a client receives are one WebSocket stream: a frame that was begun is finished, and
//!             none is sent twice. V2 the compressed stream goes on in the same format, from the border of a message,
//!             and refers to nothing before it. V3 a connection whose session or state cannot go on stays behind and is
//!             closed with a code after which clients resume. (tests `tests/it/takeover.rs`)
//! Limits      per connection: an unfinished message of its client, one write, `CONTROL_MAX` control messages, and the
//!             window of its client's compression.
//! Not here    sockets and their descriptors (`guildhall-net`); the order of the steps (`guildhall`).
//! Spec        docs/adr/0047.

use crate::{
    conn::{Compression, Conn, ConnCodec, ConnParams, Phase},
    core::Core,
    handover::HandOver,
    partition::Partition,
    sent::{ConnSent, Way},
    stream_codec::{Compressor, LibraryStream, StreamCodec},
    transport::Transport,
    turn::Turn,
    writer::control_frame,
};
use guildhall_codec::{DictionaryId, Encoding, StreamCompressor};
use guildhall_model::{AccountKind, CloseCode};
use guildhall_stdx::{Instant, Now, SlotKey, Timestamp};
use guildhall_ws_proto::DeflateParams;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// A connection as one process passes it to the next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConnSnapshot {
    /// None: the client has not identified.
    pub session_id: Option<String>,
    pub is_etf: bool,
    pub compression: CompressionSnapshot,
    /// Seq of the next dispatch to write.
    pub next_seq: u64,
    /// Last seq of the replay of a RESUME.
    pub replay_end: Option<u64>,
    /// Bytes that the socket did not take yet.
    pub unsent: Vec<u8>,
    /// Incomplete message of the client, as it sent it.
    pub unfinished: Vec<u8>,
    /// Messages of the client to which its next compressed one may refer.
    pub history: Vec<u8>,
    /// Time until it is closed, because it was sent op 7.
    pub leave_in_ms: Option<u64>,
    pub has_reconnect: bool,
    pub invalid_sessions: u8,
    /// When the token of its session expires, in milliseconds of Unix time.
    pub expires_at_ms: Option<i64>,
}

/// Compression of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CompressionSnapshot {
    None,
    /// `window_log`: that of its header.
    Zlib {
        window_log: u8,
    },
    Zstd {
        window_log: u8,
        /// Id of the dictionary.
        dictionary: Option<String>,
    },
    /// Agreed parameters, as in the header of the handshake.
    Deflate(String),
}

impl CompressionSnapshot {
    fn of(codec: &ConnCodec) -> Self {
        let window_log = codec.compressor().map_or(0, Compressor::window_log);
        match codec.compression() {
            Compression::None => Self::None,
            Compression::Zlib => Self::Zlib { window_log },
            Compression::Zstd => Self::Zstd { window_log, dictionary: None },
            Compression::ZstdDict(id) => Self::Zstd { window_log, dictionary: Some(id.to_string()) },
            Compression::Deflate(params) => Self::Deflate(params.to_header()),
        }
    }

    /// None: the form is not valid.
    fn compression(&self) -> Option<Compression> {
        Some(match self {
            Self::None => Compression::None,
            Self::Zlib { .. } => Compression::Zlib,
            Self::Zstd { dictionary: None, .. } => Compression::Zstd,
            Self::Zstd { dictionary: Some(id), .. } => Compression::ZstdDict(id.parse().ok()?),
            Self::Deflate(header) => Compression::Deflate(DeflateParams::from_answer(header).ok()??),
        })
    }

    /// The dictionary with which the stream began.
    #[must_use]
    pub fn dictionary(&self) -> Option<DictionaryId> {
        match self.compression()? {
            Compression::ZstdDict(id) => Some(id),
            Compression::None | Compression::Zlib | Compression::Zstd | Compression::Deflate(_) => None,
        }
    }

    /// Its name in logs.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.compression().map_or("none", Compression::name)
    }
}

impl Partition {
    /// Whether no client waits for the answer to its IDENTIFY, RESUME or request for members: all could go on in
    /// another process.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let is_authenticating = |(_, conn): (SlotKey, &Conn)| matches!(conn.phase, Phase::Authenticating(_));
        let waits = |session: &guildhall_session::Session| {
            session.conn.is_some() && (session.pending_ready.is_some() || !session.profile.member_requests.is_empty())
        };
        !self.core.conns.iter().any(is_authenticating) && !self.sessions().any(waits)
    }

    /// Takes out the connections whose sessions are in `over`, and those without a session, and passes their sockets to
    /// the transport. The others get op 7; the driver closes them.
    pub fn hand_over_conns(&mut self, now: Now, over: &HandOver, transport: &mut impl Transport) -> Vec<ConnSnapshot> {
        self.turn(now, transport, |partition, turn| {
            partition.core.flush_batch(turn);
            let first_seqs = over.sessions.iter().map(|kept| (kept.id.as_str(), kept.first_seq)).collect();
            let keys = partition.core.conns.keys();
            let passed = keys.into_iter().filter_map(|key| partition.core.pass_on(turn, key, &first_seqs)).collect();
            partition.reconnect_chosen(turn, usize::MAX, |_| true);
            passed
        })
    }

    /// A connection of the previous process. Its socket is at `next_conn_key` already. One that cannot go on is closed.
    pub fn adopt_conn(&mut self, now: Now, kept: &ConnSnapshot, transport: &mut impl Transport) -> SlotKey {
        self.turn(now, transport, |partition, turn| partition.adopt_snapshot(turn, kept))
    }

    fn adopt_snapshot(&mut self, turn: &mut Turn<'_, impl Transport>, kept: &ConnSnapshot) -> SlotKey {
        let encoding = if kept.is_etf { Encoding::Etf } else { Encoding::Json };
        let compression = kept.compression.compression();
        let params = ConnParams { encoding, compression: compression.unwrap_or(Compression::None) };
        let compressor = self.continued(turn.now.instant, params, &kept.compression);
        let is_unreadable = compression.is_none() || compressor.is_none() && params.compression.has_stream();
        let session = kept.session_id.as_ref().map(|id| self.core.sessions.find(id));
        let bytes_max = self.core.config.user_message_bytes_max;
        let sent = ConnSent::new(Way::of(params.compression, encoding));
        let codec = ConnCodec::new(params, compressor.map(Box::new));
        let mut conn = Conn::new(turn.now.instant, codec, sent, bytes_max);
        conn.cursor.start_at(kept.next_seq);
        kept.replay_end.into_iter().for_each(|end| conn.cursor.set_replay_end(end));
        conn.send.keep(&kept.unsent);
        conn.inbox.restore(&kept.history);
        (conn.has_reconnect, conn.invalid_sessions) = (kept.has_reconnect, kept.invalid_sessions);
        let key = self.core.conns.insert(conn);
        self.core.counters.adopted_total += 1;
        let is_free = |session: SlotKey| self.core.sessions.get(session).is_some_and(|session| session.conn.is_none());
        match session {
            None => {
                let deadline = turn.now.instant.after_ms(self.core.config.identify_deadline_ms);
                self.core.arm_timer(deadline, key);
            }
            Some(Some(session)) if is_free(session) && !is_unreadable => self.serve(turn, key, session, kept),
            Some(_) => {
                self.core.close(turn, key, CloseCode::UnknownError);
                return key;
            }
        }
        if is_unreadable {
            self.core.close(turn, key, CloseCode::UnknownError);
            return key;
        }
        if let Some(leave_in_ms) = kept.leave_in_ms
            && let Some(conn) = self.core.conns.get_mut(key)
        {
            let leave_by = turn.now.instant.after_ms(leave_in_ms);
            conn.timing.set_leave_by(leave_by);
            self.core.arm_timer(leave_by, key);
        }
        let mut unfinished = kept.unfinished.clone();
        if !unfinished.is_empty() {
            self.core.handle_bytes(turn, key, &mut unfinished);
        }
        self.core.pump(turn, key);
        key
    }

    /// The connection serves a restored session from now on.
    fn serve(&mut self, turn: &mut Turn<'_, impl Transport>, key: SlotKey, session: SlotKey, kept: &ConnSnapshot) {
        let Some(of_session) = self.core.sessions.attach(session, key) else { return };
        let (user_id, is_bot) = (of_session.user.id, of_session.kind() == AccountKind::Bot);
        turn.transport.note_account(key, user_id);
        if let Some(conn) = self.core.conns.get_mut(key) {
            conn.phase = Phase::Established(session);
            if is_bot {
                conn.inbox.set_message_bytes_max(self.core.config.bot_message_bytes_max);
            }
        }
        self.core.output_session_change(guildhall_guild_protocol::SessionChange::Resumed, session);
        self.core.expire_at(turn.now, session, kept.expires_at_ms.map(Timestamp));
        self.arm_heartbeat_timer(turn.now, key);
    }

    /// What writes a stream from here on (V2). None: there is no stream, or nothing can.
    fn continued(&mut self, now: Instant, params: ConnParams, kept: &CompressionSnapshot) -> Option<Compressor> {
        let is_auto = matches!(self.core.config.stream_codec, StreamCodec::Auto { .. });
        let by_shared_match = matches!(self.core.config.stream_codec, StreamCodec::SharedMatch { .. });
        let Core { matchers, config, .. } = &mut self.core;
        let library = |context: StreamCompressor| Compressor::Library(LibraryStream::new(context, now));
        match (params.compression, kept) {
            // A context of zstd would begin with repeated offsets that the reader does not have.
            (Compression::Zstd | Compression::ZstdDict(_), CompressionSnapshot::Zstd { window_log, .. }) => {
                matchers.continued_zstd(*window_log)
            }
            (Compression::Zlib, CompressionSnapshot::Zlib { window_log }) => {
                let mut by_context = || match is_auto {
                    true => matchers.continued_movable_zlib(&config.contexts, *window_log),
                    false => config.contexts.zlib_continued(*window_log).map(library),
                };
                let stream = if by_shared_match { None } else { by_context() };
                stream.or_else(|| Some(matchers.continued_zlib(*window_log)))
            }
            (Compression::Deflate(deflate), _) if !deflate.server_no_context_takeover => match by_shared_match {
                true => Some(matchers.continued_deflate(deflate.server_window_bits)),
                false => StreamCompressor::deflate(config.deflate, deflate.server_window_bits).ok().map(library),
            },
            _ => None,
        }
    }
}

impl Core {
    /// Takes out a connection, if it can go on in another process.
    fn pass_on(
        &mut self,
        turn: &mut Turn<'_, impl Transport>,
        key: SlotKey,
        first_seqs: &HashMap<&str, u64>,
    ) -> Option<ConnSnapshot> {
        if !turn.transport.can_leave(key) {
            return None;
        }
        let conn = self.conns.get(key)?;
        let session_key = match conn.phase {
            Phase::AwaitingIdentify => None,
            Phase::Established(session) => Some(session),
            Phase::Authenticating(_) | Phase::Closing => return None,
        };
        let session = session_key.and_then(|session| self.sessions.get(session));
        if let Some(session) = session {
            let first_seq = *first_seqs.get(&*session.id)?;
            let is_whole = session.pending_ready.is_none() && session.profile.member_requests.is_empty();
            if !is_whole || conn.cursor.next_seq() < first_seq {
                return None;
            }
        }
        let session_id = session.map(|session| session.id.to_string());
        let expires_at_ms = session.and_then(|session| session.profile.expires_at).map(|at| at.0);
        self.finish_frames(turn.now, key)?;
        let mut conn = self.conns.remove(key)?;
        self.render.release(&mut conn.render);
        if let Some(session) = session_key {
            self.sessions.detach(session);
        }
        turn.transport.leave(key);
        Some(ConnSnapshot {
            session_id,
            is_etf: conn.codec.encoding() == Encoding::Etf,
            compression: CompressionSnapshot::of(&conn.codec),
            next_seq: conn.cursor.next_seq(),
            replay_end: conn.cursor.replay_end(),
            unsent: conn.send.unsent().to_vec(),
            unfinished: conn.inbox.unfinished(),
            history: conn.inbox.history().bytes().to_vec(),
            leave_in_ms: conn.timing.leave_by().map(|at| at.ms_since(turn.now.instant)),
            has_reconnect: conn.has_reconnect,
            invalid_sessions: conn.invalid_sessions,
            expires_at_ms,
        })
    }

    /// Brings the connection to the border of a frame (V1): the frame that was begun, and frames outside the
    /// sequence, are among its unsent bytes. None: that is not possible, and nothing further may be sent.
    fn finish_frames(&mut self, now: Now, key: SlotKey) -> Option<()> {
        let is_mid_frame = self.conns.get(key)?.cursor.is_mid_frame();
        self.keep_partial_frame(key);
        let conn = self.conns.get_mut(key)?;
        if conn.cursor.is_frame_truncated() {
            return None;
        }
        if is_mid_frame {
            conn.cursor.advance();
        }
        while let Some(control) = conn.send.pop_control() {
            let (cache, deflater) = (&self.config.prepared_cache, &mut self.deflater);
            let frame = control_frame(conn, control, now, cache, deflater, &mut self.matchers).ok()?;
            conn.send.keep(&frame);
        }
        Some(())
    }
}
