//! Frame header: two to fourteen bytes, parsed in order, so that an error is detected at its byte.
//!
//! Owns        the vocabulary (`Role`, `Opcode`) and every rule that needs the header only.
//! Doors       `Header::parse` from `Decoder::handle`.
//! Invariants  the result depends on the bytes, never on how many of them arrived at once.
//! Not here    payloads, close codes, UTF-8.     Spec  RFC 6455 §5.2, §5.4, §5.5.

use crate::{CONTROL_BYTES_MAX, WsError};

/// First byte, length byte, eight bytes of length, mask key.
pub(crate) const PARSED_BYTES_MAX: usize = 14;

/// End of the connection. A server accepts only masked frames, a client only unmasked ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// This end accepted the connection.
    Server,
    /// This end opened the connection.
    Client,
}

/// Opcode of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opcode {
    /// Continues a fragmented message.
    Continuation = 0,
    /// Starts a message of UTF-8 text.
    Text = 1,
    /// Starts a binary message.
    Binary = 2,
    /// Ends the connection.
    Close = 8,
    /// Requests a pong with the same payload.
    Ping = 9,
    /// Answers a ping, or is an unsolicited keep-alive.
    Pong = 10,
}

impl Opcode {
    fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            0 => Self::Continuation,
            1 => Self::Text,
            2 => Self::Binary,
            8 => Self::Close,
            9 => Self::Ping,
            10 => Self::Pong,
            _ => return None,
        })
    }

    /// Is close, ping or pong.
    #[must_use]
    pub fn is_control(self) -> bool {
        matches!(self, Self::Close | Self::Ping | Self::Pong)
    }
}

/// State that the rules for the next header depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) role: Role,
    pub(crate) rsv1_allowed: bool,
    pub(crate) message_bytes_max: u32,
    /// Size so far of the open fragmented message, if there is one.
    pub(crate) message_bytes: Option<usize>,
}

/// A complete and valid header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) opcode: Opcode,
    pub(crate) fin: bool,
    pub(crate) rsv1: bool,
    pub(crate) mask: Option<[u8; 4]>,
    pub(crate) payload_bytes: u32,
}

impl Header {
    /// Parses the header at the start of `bytes` and returns its length; `None` if it is incomplete. Fourteen
    /// bytes always suffice.
    pub(crate) fn parse(rules: Rules, bytes: &[u8]) -> Result<Option<(Self, usize)>, WsError> {
        let Some((&first, bytes)) = bytes.split_first() else { return Ok(None) };
        let (fin, rsv) = (first & 0x80 != 0, first & 0x70);
        let opcode = Opcode::from_bits(first & 0x0F).ok_or(WsError::ReservedOpcode(first & 0x0F))?;
        // RSV1 marks the first frame of a compressed message, nothing else (RFC 7692 §6).
        let rsv1 = rules.rsv1_allowed && rsv == 0x40 && matches!(opcode, Opcode::Text | Opcode::Binary);
        match opcode {
            _ if rsv != 0 && !rsv1 => return Err(WsError::ReservedBits(rsv)),
            _ if opcode.is_control() && !fin => return Err(WsError::ControlFragmented),
            Opcode::Continuation if rules.message_bytes.is_none() => return Err(WsError::NothingToContinue),
            Opcode::Text | Opcode::Binary if rules.message_bytes.is_some() => return Err(WsError::MessageInterrupted),
            _ => {}
        }

        let Some((&second, bytes)) = bytes.split_first() else { return Ok(None) };
        let (masked, short) = (second & 0x80 != 0, second & 0x7F);
        match rules.role {
            Role::Server if !masked => return Err(WsError::NotMasked),
            Role::Client if masked => return Err(WsError::Masked),
            Role::Server | Role::Client => {}
        }
        if opcode.is_control() && usize::from(short) > CONTROL_BYTES_MAX {
            return Err(WsError::ControlTooLong);
        }
        if opcode == Opcode::Close && short == 1 {
            return Err(WsError::CloseCodeCut);
        }

        let (announced, length_bytes) = match short {
            126 => {
                let Some(field) = bytes.first_chunk::<2>() else { return Ok(None) };
                (u64::from(u16::from_be_bytes(*field)), 2)
            }
            127 => {
                let Some(field) = bytes.first_chunk::<8>() else { return Ok(None) };
                (u64::from_be_bytes(*field), 8)
            }
            short => (u64::from(short), 0),
        };
        match length_bytes {
            2 if announced < 126 => return Err(WsError::LengthNotMinimal),
            8 if announced <= 0xFFFF => return Err(WsError::LengthNotMinimal),
            8 if announced >> 63 != 0 => return Err(WsError::LengthTopBit),
            _ => {}
        }
        let payload_bytes = rules.admit(opcode, announced)?;

        let mask = match (masked, bytes[length_bytes..].first_chunk::<4>()) {
            (false, _) => None,
            (true, Some(key)) => Some(*key),
            (true, None) => return Ok(None),
        };
        let header_bytes = 2 + length_bytes + if masked { 4 } else { 0 };
        Ok(Some((Self { opcode, fin, rsv1, mask, payload_bytes }, header_bytes)))
    }

    /// Appends the header as the peer sent it.
    pub(crate) fn append(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.fin) << 7 | u8::from(self.rsv1) << 6 | self.opcode as u8);
        let masked = u8::from(self.mask.is_some()) << 7;
        match self.payload_bytes {
            short @ 0..126 => out.push(masked | short as u8),
            medium @ 126..=0xFFFF => {
                out.push(masked | 126);
                out.extend_from_slice(&(medium as u16).to_be_bytes());
            }
            long => {
                out.push(masked | 127);
                out.extend_from_slice(&u64::from(long).to_be_bytes());
            }
        }
        out.extend(self.mask.into_iter().flatten());
    }
}

impl Rules {
    /// The length in the header, if the message stays within its limit. Control frames have their own limit.
    fn admit(self, opcode: Opcode, announced: u64) -> Result<u32, WsError> {
        let message_bytes_max = self.message_bytes_max;
        let got_bytes = match opcode.is_control() {
            true => 0,
            false => (self.message_bytes.unwrap_or(0) as u64).saturating_add(announced),
        };
        match u32::try_from(announced) {
            Ok(payload_bytes) if got_bytes <= u64::from(message_bytes_max) => Ok(payload_bytes),
            _ => Err(WsError::MessageTooBig { got_bytes, message_bytes_max }),
        }
    }
}
