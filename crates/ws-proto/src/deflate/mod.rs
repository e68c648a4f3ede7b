//! Negotiation of permessage-deflate: offers of clients, and the agreed parameters.
//!
//! Owns        the four parameters, their rules, and their names in `Sec-WebSocket-Extensions`.
//! Doors       [`DeflateNegotiation`] for servers; [`DeflateParams::from_answer`] for our own clients.
//! Invariants  An answer never has a parameter that its offer did not allow. The first acceptable offer is accepted.
//!             Unacceptable offers are declined; a header that breaks the syntax is refused.
//! Not here    the compression itself (codec), RSV1 on frames (decoder, encode).
//! Spec        RFC 7692 §5, §7; RFC 6455 §9.1.

mod header;

use crate::handshake::HandshakeError;
use header::{Element, Malformed, Parser, Value};
use std::fmt;

/// One of the four registered parameter names.
const SERVER_NO_CONTEXT_TAKEOVER: &str = "server_no_context_takeover";
const CLIENT_NO_CONTEXT_TAKEOVER: &str = "client_no_context_takeover";
const SERVER_MAX_WINDOW_BITS: &str = "server_max_window_bits";
const CLIENT_MAX_WINDOW_BITS: &str = "client_max_window_bits";

/// Name of the extension.
const NAME: &str = "permessage-deflate";

/// Largest window of deflate: 32 KiB. Applies if neither end sets another.
pub const WINDOW_BITS_MAX: u8 = 15;

/// Parameters that both ends of a connection agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeflateParams {
    /// The server compresses each message independently.
    pub server_no_context_takeover: bool,
    /// The client compresses each message independently.
    pub client_no_context_takeover: bool,
    /// The server's window is at most `2^n` bytes, 8 to 15.
    pub server_window_bits: u8,
    /// The client's window is at most `2^n` bytes, 8 to 15.
    pub client_window_bits: u8,
}

impl Default for DeflateParams {
    /// Meaning of an offer without parameters.
    fn default() -> Self {
        Self {
            server_no_context_takeover: false,
            client_no_context_takeover: false,
            server_window_bits: WINDOW_BITS_MAX,
            client_window_bits: WINDOW_BITS_MAX,
        }
    }
}

impl DeflateParams {
    /// Value of `Sec-WebSocket-Extensions`, for an offer, and for an answer to an offer that allows it.
    #[must_use]
    pub fn to_header(self) -> String {
        self.to_string()
    }

    /// Parses a server's answer; none if it declined.
    ///
    /// # Errors
    /// For an answer that is malformed, names another extension, or has a parameter that no answer may have.
    pub fn from_answer(value: &str) -> Result<Option<Self>, BadAnswer> {
        let mut parser = Parser::new(value.as_bytes());
        let (mut params, mut seen) = (None, Seen::default());
        while let Some(element) = parser.next().map_err(|Malformed| BadAnswer)? {
            match element {
                Element::Extension(name) => match params {
                    None if name == NAME.as_bytes() => params = Some(Self::default()),
                    _ => return Err(BadAnswer),
                },
                Element::Param(name, value) => {
                    let params = params.as_mut().ok_or(BadAnswer)?;
                    match (Param::of(name, value), seen.is_new(name)) {
                        (Some(Param::ClientWindowBits(None)) | None, _) | (_, false) => return Err(BadAnswer),
                        (Some(param), true) => param.apply(params),
                    }
                }
            }
        }
        Ok(params)
    }
}

impl fmt::Display for DeflateParams {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(NAME)?;
        if self.server_no_context_takeover {
            write!(formatter, "; {SERVER_NO_CONTEXT_TAKEOVER}")?;
        }
        if self.client_no_context_takeover {
            write!(formatter, "; {CLIENT_NO_CONTEXT_TAKEOVER}")?;
        }
        if self.server_window_bits < WINDOW_BITS_MAX {
            write!(formatter, "; {SERVER_MAX_WINDOW_BITS}={}", self.server_window_bits)?;
        }
        if self.client_window_bits < WINDOW_BITS_MAX {
            write!(formatter, "; {CLIENT_MAX_WINDOW_BITS}={}", self.client_window_bits)?;
        }
        Ok(())
    }
}

/// The answer is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer to the offer of permessage-deflate breaks its rules")]
pub struct BadAnswer;

/// A server's preferences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeflatePolicy {
    /// Compress each message independently, whatever the client would allow.
    pub server_no_context_takeover: bool,
    /// Have clients compress each message independently, so that no state is kept between their messages.
    pub client_no_context_takeover: bool,
    /// Window of at most `2^n` bytes, 8 to 15.
    pub server_window_bits: u8,
    /// Limit clients to windows of `2^n` bytes, 8 to 15, if their offer allows to limit it.
    pub client_window_bits: u8,
}

/// Server side of the negotiation: pass the headers in their order, then call `agreed`.
///
/// ```
/// use guildhall_ws_proto::{DeflateNegotiation, DeflatePolicy};
///
/// let policy = DeflatePolicy {
///     server_no_context_takeover: true,
///     client_no_context_takeover: false,
///     server_window_bits: 15,
///     client_window_bits: 12,
/// };
/// let mut negotiation = DeflateNegotiation::new(Some(policy));
/// negotiation.handle_header(b"permessage-deflate; client_max_window_bits")?;
/// let params = negotiation.agreed().unwrap();
/// assert_eq!(params.to_header(), "permessage-deflate; server_no_context_takeover; client_max_window_bits=12");
/// # Ok::<(), guildhall_ws_proto::handshake::HandshakeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct DeflateNegotiation {
    /// None: decline every offer.
    policy: Option<DeflatePolicy>,
    agreed: Option<DeflateParams>,
}

impl DeflateNegotiation {
    /// Without a policy every offer is declined; the syntax of headers is checked nevertheless.
    #[must_use]
    pub fn new(policy: Option<DeflatePolicy>) -> Self {
        Self { policy, agreed: None }
    }

    /// Takes the value of one `Sec-WebSocket-Extensions` header.
    ///
    /// # Errors
    /// [`HandshakeError::Extensions`] when it breaks the syntax; the request must be refused (RFC 6455 §9.1).
    pub fn handle_header(&mut self, value: &[u8]) -> Result<(), HandshakeError> {
        let mut parser = Parser::new(value);
        let mut offer = None;
        while let Some(element) = parser.next().map_err(|Malformed| HandshakeError::Extensions)? {
            match element {
                Element::Extension(name) => {
                    self.consider(offer.take());
                    offer = Some(Offer::new(name == NAME.as_bytes()));
                }
                Element::Param(name, value) => {
                    if let Some(offer) = &mut offer {
                        offer.see(name, value);
                    }
                }
            }
        }
        self.consider(offer);
        Ok(())
    }

    /// The agreed parameters, to be answered with [`DeflateParams::to_header`]; none if no offer was acceptable.
    #[must_use]
    pub fn agreed(&self) -> Option<DeflateParams> {
        self.agreed
    }

    /// Accepts the first acceptable offer: clients list them in order of preference.
    fn consider(&mut self, offer: Option<Offer>) {
        if let (None, Some(policy), Some(offer)) = (self.agreed, self.policy, offer)
            && offer.is_acceptable
        {
            self.agreed = Some(offer.answer(policy));
        }
    }
}

/// One offer, with defaults for missing parameters.
struct Offer {
    is_acceptable: bool,
    params: DeflateParams,
    /// The server may limit the client's window.
    has_client_window: bool,
    seen: Seen,
}

impl Offer {
    fn new(is_acceptable: bool) -> Self {
        Self { is_acceptable, params: DeflateParams::default(), has_client_window: false, seen: Seen::default() }
    }

    /// RFC 7692 §7.1: declines the offer if a parameter is unknown, repeated, or has an invalid value.
    fn see(&mut self, name: &[u8], value: Option<Value>) {
        match Param::of(name, value) {
            Some(param) if self.seen.is_new(name) => {
                self.has_client_window |= matches!(param, Param::ClientWindowBits(_));
                param.apply(&mut self.params);
            }
            _ => self.is_acceptable = false,
        }
    }

    fn answer(&self, policy: DeflatePolicy) -> DeflateParams {
        let offered = self.params;
        DeflateParams {
            server_no_context_takeover: offered.server_no_context_takeover || policy.server_no_context_takeover,
            client_no_context_takeover: offered.client_no_context_takeover || policy.client_no_context_takeover,
            server_window_bits: offered.server_window_bits.min(policy.server_window_bits),
            client_window_bits: match self.has_client_window {
                true => offered.client_window_bits.min(policy.client_window_bits),
                // The server may not limit the client's window.
                false => WINDOW_BITS_MAX,
            },
        }
    }
}

/// A parameter with a valid value.
enum Param {
    ServerNoContextTakeover,
    ClientNoContextTakeover,
    ServerWindowBits(u8),
    /// The value is optional in offers, where its absence means "the server may choose".
    ClientWindowBits(Option<u8>),
}

impl Param {
    fn of(name: &[u8], value: Option<Value>) -> Option<Self> {
        let name = std::str::from_utf8(name).ok()?;
        Some(match (name, value) {
            (SERVER_NO_CONTEXT_TAKEOVER, None) => Self::ServerNoContextTakeover,
            (CLIENT_NO_CONTEXT_TAKEOVER, None) => Self::ClientNoContextTakeover,
            (SERVER_MAX_WINDOW_BITS, Some(value)) => Self::ServerWindowBits(window_bits(&value)?),
            (CLIENT_MAX_WINDOW_BITS, Some(value)) => Self::ClientWindowBits(Some(window_bits(&value)?)),
            (CLIENT_MAX_WINDOW_BITS, None) => Self::ClientWindowBits(None),
            _ => return None,
        })
    }

    fn apply(self, params: &mut DeflateParams) {
        match self {
            Self::ServerNoContextTakeover => params.server_no_context_takeover = true,
            Self::ClientNoContextTakeover => params.client_no_context_takeover = true,
            Self::ServerWindowBits(bits) => params.server_window_bits = bits,
            Self::ClientWindowBits(bits) => params.client_window_bits = bits.unwrap_or(WINDOW_BITS_MAX),
        }
    }
}

/// 8 to 15, without leading zeros (RFC 7692 §7.1.2.1).
fn window_bits(value: &Value) -> Option<u8> {
    match value.as_bytes()? {
        [digit @ b'8'..=b'9'] => Some(digit - b'0'),
        [b'1', digit @ b'0'..=b'5'] => Some(10 + digit - b'0'),
        _ => None,
    }
}

/// Set of the parameters seen so far.
#[derive(Default)]
struct Seen(u8);

impl Seen {
    /// Adds a parameter; false if it was present already.
    fn is_new(&mut self, name: &[u8]) -> bool {
        let names =
            [SERVER_NO_CONTEXT_TAKEOVER, CLIENT_NO_CONTEXT_TAKEOVER, SERVER_MAX_WINDOW_BITS, CLIENT_MAX_WINDOW_BITS];
        let bit = names.iter().position(|known| known.as_bytes() == name).map_or(0, |index| 1 << index);
        let is_new = self.0 & bit == 0;
        self.0 |= bit;
        is_new
    }
}

#[cfg(test)]
mod tests;
