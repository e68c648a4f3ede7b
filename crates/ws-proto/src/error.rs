//! Protocol violations by the peer. Each variant has exactly one close code.

/// The peer violated the protocol. Send a close frame with [`close_code`](Self::close_code), then drop the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WsError {
    #[error("reserved bits {0:#04x} set in a frame header")]
    ReservedBits(u8),
    #[error("reserved opcode {0:#x}")]
    ReservedOpcode(u8),
    #[error("a control frame must not be fragmented")]
    ControlFragmented,
    #[error("a control frame carries at most 125 bytes")]
    ControlTooLong,
    #[error("continuation frame without a message to continue")]
    NothingToContinue,
    #[error("a new message started before the last one ended")]
    MessageInterrupted,
    #[error("frame from a client is not masked")]
    NotMasked,
    #[error("frame from a server is masked")]
    Masked,
    #[error("payload length is not encoded in the fewest bytes")]
    LengthNotMinimal,
    #[error("payload length has its top bit set")]
    LengthTopBit,
    #[error("close frame with one byte of payload")]
    CloseCodeCut,
    #[error("close code {0} must not be sent")]
    CloseCodeInvalid(u16),
    #[error("close reason is not UTF-8")]
    CloseReasonNotUtf8,
    #[error("text message is not UTF-8")]
    TextNotUtf8,
    /// `got_bytes` counts the message so far plus the length in the new header.
    #[error("message of at least {got_bytes} bytes, the limit is {message_bytes_max}")]
    MessageTooBig { got_bytes: u64, message_bytes_max: u32 },
}

impl WsError {
    /// The RFC 6455 close code: 1002 protocol error, 1007 invalid UTF-8, 1009 too big.
    ///
    /// The gateway protocol uses 4002 for an oversize message; a session may prefer it.
    #[must_use]
    pub fn close_code(&self) -> u16 {
        match self {
            Self::ReservedBits(_)
            | Self::ReservedOpcode(_)
            | Self::ControlFragmented
            | Self::ControlTooLong
            | Self::NothingToContinue
            | Self::MessageInterrupted
            | Self::NotMasked
            | Self::Masked
            | Self::LengthNotMinimal
            | Self::LengthTopBit
            | Self::CloseCodeCut
            | Self::CloseCodeInvalid(_) => 1002,
            Self::CloseReasonNotUtf8 | Self::TextNotUtf8 => 1007,
            Self::MessageTooBig { .. } => 1009,
        }
    }
}
