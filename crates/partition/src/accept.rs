//! Accept: sockets become connections; bytes, room and hang-ups of their sockets.
//!
//! Owns        the inputs about sockets; the compressor that a new connection gets.
//! Limits      `identify_deadline_ms` until IDENTIFY or RESUME; `user_message_bytes_max` until the account is known.
//! Not here    opcodes: `inbound`. Moves between partitions: `identify`.

use crate::{
    conn::{Compression, Conn, ConnCodec, ConnParams, Control},
    core::Core,
    partition::Partition,
    sent::{ConnSent, Way},
    stream_codec::{Compressor, LibraryStream, StreamCodec},
    transport::Transport,
    turn::Turn,
};
use guildhall_codec::{DictionaryId, StreamCompressor};
use guildhall_model::CloseCode;
use guildhall_stdx::{Now, SlotKey};

impl Partition {
    /// Key of the next accepted or transferred connection. The driver registers its socket there first.
    #[must_use]
    pub fn next_conn_key(&self) -> SlotKey {
        self.core.conns.next_key()
    }

    /// A socket finished its upgrade. The client receives HELLO.
    pub fn accept(&mut self, now: Now, params: ConnParams, transport: &mut impl Transport) -> SlotKey {
        self.turn(now, transport, |partition, turn| partition.greet(turn, params))
    }

    fn greet(&mut self, turn: &mut Turn<'_, impl Transport>, params: ConnParams) -> SlotKey {
        let compressor = match self.core.config.stream_codec {
            StreamCodec::SharedMatch { .. } => self.core.matchers.stream(params, &self.core.config.shared_dictionaries),
            StreamCodec::Auto { .. } => {
                let Core { matchers, config, .. } = &mut self.core;
                let movable = matchers.movable_stream(params, &config.contexts, config.deflate);
                movable.or_else(|| matchers.stream(params, &config.shared_dictionaries))
            }
            StreamCodec::PerConnection => None,
        };
        let library = || {
            let context = self.library_stream(params)?;
            Some(Compressor::Library(LibraryStream::new(context, turn.now.instant)))
        };
        let compressor = compressor.or_else(library).map(Box::new);
        let is_unreadable = compressor.is_none() && params.compression.has_stream();
        let key = self.insert_conn(turn.now, params, compressor);
        self.core.counters.conns_total += 1;
        if is_unreadable {
            // Without its compressor, the client could not decode a byte.
            match params.compression {
                Compression::ZstdDict(_) => self.core.close(turn, key, CloseCode::DecodeError),
                _ => self.core.abort(turn, key),
            }
            return key;
        }
        if let Some(copies) = self.core.config.bill.tap()
            && let Some(conn) = self.core.conns.get_mut(key)
        {
            conn.sent.set_bill(copies);
        }
        let hello = self.core.fixed(params.encoding).hello.clone();
        self.core.control(turn, key, Control::Payload(hello));
        key
    }

    /// Library context for the compression that a connection negotiated.
    fn library_stream(&self, params: ConnParams) -> Option<StreamCompressor> {
        let contexts = &self.core.config.contexts;
        match params.compression {
            Compression::None => None,
            Compression::Zlib => Some(contexts.zlib()),
            Compression::Zstd => Some(contexts.zstd()),
            Compression::ZstdDict(id) => self.with_dictionary(id),
            Compression::Deflate(params) if params.server_no_context_takeover => None,
            // A failure means that the configured parameters are out of range.
            Compression::Deflate(params) => {
                StreamCompressor::deflate(self.core.config.deflate, params.server_window_bits).ok()
            }
        }
    }

    /// None if the dictionary was withdrawn after the HTTP server found it.
    fn with_dictionary(&self, id: DictionaryId) -> Option<StreamCompressor> {
        let config = &self.core.config;
        let known = config.dictionaries.current();
        Some(config.contexts.zstd_with(known.find(id)?.dictionary.clone()))
    }

    /// A socket finished its upgrade, but its URL requests something that is not served: it is closed with that code.
    pub fn accept_refused(&mut self, now: Now, code: CloseCode, transport: &mut impl Transport) -> SlotKey {
        self.turn(now, transport, |partition, turn| {
            let params = ConnParams { encoding: guildhall_codec::Encoding::Json, compression: Compression::None };
            let key = partition.insert_conn(turn.now, params, None);
            partition.core.close(turn, key, code);
            key
        })
    }

    /// As [`accept_refused`](Self::accept_refused), with a close reason of at most 123 bytes.
    pub fn accept_refused_because(
        &mut self,
        now: Now,
        code: CloseCode,
        reason: &str,
        transport: &mut impl Transport,
    ) -> SlotKey {
        self.turn(now, transport, |partition, turn| {
            let params = ConnParams { encoding: guildhall_codec::Encoding::Json, compression: Compression::None };
            let key = partition.insert_conn(turn.now, params, None);
            partition.core.close_websocket(turn, key, Some(code.code()), reason, code.session_fate());
            key
        })
    }

    fn insert_conn(&mut self, now: Now, params: ConnParams, compressor: Option<Box<Compressor>>) -> SlotKey {
        let deadline = now.instant.after_ms(self.core.config.identify_deadline_ms);
        let codec = ConnCodec::new(params, compressor);
        let sent = ConnSent::new(Way::of(params.compression, params.encoding));
        let message_bytes_max = self.core.config.user_message_bytes_max;
        let key = self.core.conns.insert(Conn::new(now.instant, codec, sent, message_bytes_max));
        self.core.arm_timer(deadline, key);
        key
    }

    /// The client sent bytes.
    pub fn handle_bytes(&mut self, now: Now, key: SlotKey, input: &mut [u8], transport: &mut impl Transport) {
        self.turn(now, transport, |partition, turn| partition.core.handle_bytes(turn, key, input));
    }

    /// Continues writing to a socket that has room again.
    pub fn handle_writable(&mut self, now: Now, key: SlotKey, transport: &mut impl Transport) {
        self.turn(now, transport, |partition, turn| {
            if let Some(conn) = partition.core.conns.get_mut(key) {
                let since = conn.send.blocked_since();
                if let Some(trial) = conn.sent.trial_mut() {
                    trial.waited(since, turn.now.instant);
                }
                conn.send.unblock();
                partition.core.pump(turn, key);
            }
        });
    }

    /// Handles the end of a socket. The session can be resumed, unless a close frame ended it.
    pub fn handle_hangup(&mut self, now: Now, key: SlotKey, transport: &mut impl Transport) {
        self.turn(now, transport, |partition, turn| partition.core.abort(turn, key));
    }
}
