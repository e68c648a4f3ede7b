//! Server side: is this request a valid WebSocket handshake?

use super::{HandshakeError, accept_key, has_token};
use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// RFC 6455 requires 16 bytes, not a canonical last character: some clients do not clear its spare bits.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// Checks a request. Pass every header, repeated ones too, then call `accept`.
///
/// ```
/// use guildhall_ws_proto::handshake::UpgradeRequest;
///
/// let mut request = UpgradeRequest::new("GET", (1, 1));
/// for (name, value) in [
///     ("Upgrade", "websocket"),
///     ("Connection", "Upgrade"),
///     ("Sec-WebSocket-Version", "13"),
///     ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
/// ] {
///     request.handle_header(name, value.as_bytes());
/// }
/// assert_eq!(&request.accept().unwrap(), b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
/// ```
#[derive(Clone, Debug)]
pub struct UpgradeRequest {
    method_ok: bool,
    http_ok: bool,
    upgrade: bool,
    connection: bool,
    version: Single<()>,
    key: Single<[u8; 24]>,
}

/// A header that must occur once with a valid value.
#[derive(Clone, Copy, Debug)]
enum Single<T> {
    Missing,
    Wrong,
    Right(T),
}

impl<T> Single<T> {
    fn see(&mut self, value: Option<T>) {
        *self = match (&self, value) {
            (Self::Missing, Some(value)) => Self::Right(value),
            _ => Self::Wrong,
        };
    }
}

impl UpgradeRequest {
    /// From the request line: method and HTTP version, for example `(1, 1)`.
    #[must_use]
    pub fn new(method: &str, http_version: (u8, u8)) -> Self {
        Self {
            method_ok: method == "GET",
            http_ok: http_version.0 == 1 && http_version.1 >= 1,
            upgrade: false,
            connection: false,
            version: Single::Missing,
            key: Single::Missing,
        }
    }

    /// Takes one header line; names are case-insensitive, unknown ones are skipped.
    pub fn handle_header(&mut self, name: &str, value: &[u8]) {
        let value = value.trim_ascii();
        if name.eq_ignore_ascii_case("upgrade") {
            self.upgrade |= has_token(value, "websocket");
        } else if name.eq_ignore_ascii_case("connection") {
            self.connection |= has_token(value, "upgrade");
        } else if name.eq_ignore_ascii_case("sec-websocket-version") {
            self.version.see((value == b"13").then_some(()));
        } else if name.eq_ignore_ascii_case("sec-websocket-key") {
            self.key.see(key_of(value));
        }
    }

    /// The value for `Sec-WebSocket-Accept`, as ASCII, to send with status 101.
    ///
    /// # Errors
    /// The most specific error of the request; see [`HandshakeError::http_status`].
    pub fn accept(&self) -> Result<[u8; 28], HandshakeError> {
        match self {
            Self { method_ok: false, .. } => Err(HandshakeError::Method),
            Self { http_ok: false, .. } => Err(HandshakeError::HttpVersion),
            Self { upgrade: false, .. } => Err(HandshakeError::Upgrade),
            Self { connection: false, .. } => Err(HandshakeError::Connection),
            Self { version: Single::Missing | Single::Wrong, .. } => Err(HandshakeError::Version),
            Self { key: Single::Missing | Single::Wrong, .. } => Err(HandshakeError::Key),
            Self { key: Single::Right(key), .. } => Ok(accept_key(key)),
        }
    }
}

fn key_of(value: &[u8]) -> Option<[u8; 24]> {
    let key: [u8; 24] = value.try_into().ok()?;
    // The decoder requires room for the maximum that 24 characters can encode.
    let decoded_bytes = LENIENT.decode_slice(key, &mut [0; 18]).ok()?;
    (decoded_bytes == 16).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use HandshakeError::{Connection, HttpVersion, Key, Method, Upgrade, Version};

    const GOOD: [(&str, &str); 5] = [
        ("Host", "gateway.example"),
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];

    /// A valid request, with the header `name` replaced by `values` (none: omitted).
    fn check(name: &str, values: &[&str], expected: Result<(), HandshakeError>) {
        let mut request = UpgradeRequest::new("GET", (1, 1));
        for (good_name, value) in GOOD {
            if !good_name.eq_ignore_ascii_case(name) {
                request.handle_header(good_name, value.as_bytes());
            }
        }
        for value in values {
            request.handle_header(name, value.as_bytes());
        }
        assert_eq!(request.accept().map(|_| ()), expected, "{name}: {values:?}");
    }

    #[test]
    fn one_header_at_a_time() {
        check("Host", &[], Ok(()));
        check("Upgrade", &[], Err(Upgrade));
        check("Upgrade", &["h2c"], Err(Upgrade));
        check("upgrade", &["WebSocket"], Ok(()));
        check("Upgrade", &["h2c, WEBSOCKET"], Ok(()));
        check("Upgrade", &["h2c", "websocket"], Ok(()));
        check("Connection", &[], Err(Connection));
        check("Connection", &["keep-alive"], Err(Connection));
        check("CONNECTION", &["keep-alive, upgrade"], Ok(()));
        check("Connection", &["keep-alive", "Upgrade"], Ok(()));
        check("Sec-WebSocket-Version", &[], Err(Version));
        check("Sec-WebSocket-Version", &["8"], Err(Version));
        check("Sec-WebSocket-Version", &["13, 8"], Err(Version));
        check("Sec-WebSocket-Version", &["13", "13"], Err(Version));
        check("sec-websocket-version", &[" 13 "], Ok(()));
        check("Sec-WebSocket-Key", &[], Err(Key));
        check("Sec-WebSocket-Key", &[""], Err(Key));
        check("Sec-WebSocket-Key", &["dGhlIHNhbXBsZSBub25jZQ=", "x"], Err(Key));
        check("Sec-WebSocket-Key", &["dGhlIHNhbXBsZSBub25jZQ"], Err(Key));
        check("Sec-WebSocket-Key", &["dGhlIHNhbXBsZSBub25jZSE="], Err(Key)); // 17 bytes
        check("Sec-WebSocket-Key", &["dGhlIHNhbXBsZSBub25jZSEh"], Err(Key)); // 18 bytes
        check("Sec-WebSocket-Key", &["dGhlIHNhbXBsZSBub25j!Q=="], Err(Key));
        check("Sec-WebSocket-Key", &["dGhlIHNhbXBsZSBub25jZR=="], Ok(())); // spare bits set
        check("Sec-WebSocket-Key", &["dGhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhbXBsZSBub25jZQ=="], Err(Key));
    }

    #[test]
    fn request_line() {
        let verdict = |method, version| {
            let mut request = UpgradeRequest::new(method, version);
            GOOD.iter().for_each(|(name, value)| request.handle_header(name, value.as_bytes()));
            request.accept().map(|_| ())
        };
        assert_eq!(verdict("GET", (1, 1)), Ok(()));
        assert_eq!(verdict("get", (1, 1)), Err(Method));
        assert_eq!(verdict("POST", (1, 1)), Err(Method));
        assert_eq!(verdict("GET", (1, 0)), Err(HttpVersion));
        assert_eq!(verdict("GET", (2, 0)), Err(HttpVersion));
    }

    #[test]
    fn a_request_without_upgrade_gets_426() {
        let error = UpgradeRequest::new("GET", (1, 1)).accept().unwrap_err();
        assert_eq!((error, error.http_status()), (Upgrade, 426));
        assert_eq!(Version.http_status(), 426);
        assert_eq!(Key.http_status(), 400);
        assert_eq!(Method.http_status(), 405);
    }
}
