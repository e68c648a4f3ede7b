//! WebSocket: RFC 6455 without sockets. Bytes in, events out; payloads in, frames out.
//!
//! Owns        the frame format in both directions and both roles, and the rules of the opening handshake.
//! Doors       [`Decoder::handle`] for received bytes; [`frame`] and its relatives for bytes to send;
//!             [`handshake`] for the HTTP part.
//! Invariants  an idle decoder uses no heap; complete frames are never copied; events do not depend on how the input is
//!             split; nothing here panics on peer data.
//! Limits      `message_bytes_max` per message, checked from the header before any payload is stored;
//!             125 bytes per control frame.
//! Not here    sockets, clocks, randomness, HTTP parsing on the server side, rate limits, inflate.
//! Spec        RFC 6455; of RFC 7692 the negotiation and the RSV1 bit.
//!
//! A server reads into a buffer of the thread and keeps nothing per idle connection:
//!
//! ```
//! use guildhall_ws_proto::{Decoder, Event, Limits, Role, pong};
//!
//! # fn main() -> Result<(), guildhall_ws_proto::WsError> {
//! let mut decoder = Decoder::new(Role::Server, Limits { message_bytes_max: 4096 });
//! let mut thread_buffer = *b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58"; // "Hello", masked
//! let mut events = decoder.handle(&mut thread_buffer);
//! while let Some(event) = events.poll()? {
//!     match event {
//!         Event::Text(text) => assert_eq!(text, "Hello"),
//!         Event::Ping(payload) => drop(pong(payload)), // to the socket
//!         _ => {}
//!     }
//! }
//! assert_eq!(decoder.heap_bytes(), 0);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod close_code;
mod decoder;
mod deflate;
mod encode;
mod error;
pub mod handshake;
mod header;
mod mask;

pub use close_code::close_code_is_valid;
pub use decoder::{Decoder, Event, Events, Limits};
pub use deflate::{BadAnswer, DeflateNegotiation, DeflateParams, DeflatePolicy, WINDOW_BITS_MAX};
pub use encode::{
    ControlFrame, FrameHeader, HEADER_BYTES_MAX, Head, append_frame, append_masked_frame, close_frame, frame,
    frame_header, frame_header_before, header_len, ping, pong,
};
pub use error::WsError;
pub use header::{Opcode, Role};

/// Maximum payload of a control frame (close, ping, pong). RFC 6455 §5.5.
pub const CONTROL_BYTES_MAX: usize = 125;
