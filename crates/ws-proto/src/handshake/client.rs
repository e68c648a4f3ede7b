//! Client side, for our own test and bench clients: one request, one check of the answer.
//!
//! Not here    redirects, authentication, subprotocols. The only extension offered is permessage-deflate.

use super::{AnswerError, accept_key, has_token};
use crate::DeflateParams;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Maximum size of the answer's head.
pub const ANSWER_BYTES_MAX: usize = 16 * 1024;

/// One handshake as a client.
#[derive(Clone, Debug)]
pub struct ClientHandshake {
    request: String,
    accept: [u8; 28],
    offers_deflate: bool,
}

impl ClientHandshake {
    /// `host` is the Host header (`name:port`), `target` path and query; use a different `nonce` for each connection.
    ///
    /// # Panics
    /// If `host` or `target` contains a space, a control character or a non-ASCII one: both come from our own code.
    #[must_use]
    pub fn new(host: &str, target: &str, nonce: [u8; 16]) -> Self {
        let plain = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        assert!(plain(host) && plain(target), "bad host {host:?} or target {target:?}");
        let key = STANDARD.encode(nonce);
        let request = format!(
            "GET {target} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n"
        );
        Self { request, accept: accept_key(key.as_bytes()), offers_deflate: false }
    }

    /// Adds an offer of permessage-deflate.
    #[must_use]
    pub fn offering(mut self, params: DeflateParams) -> Self {
        let end = self.request.len() - 2;
        self.request.insert_str(end, &format!("Sec-WebSocket-Extensions: {params}\r\n"));
        self.offers_deflate = true;
        self
    }

    /// Parameters that the server agreed to, in an answer that `check_answer` accepted.
    #[must_use]
    pub fn agreed(answer: &[u8]) -> Option<DeflateParams> {
        let head = answer.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok());
        let mut headers = head.filter_map(|line| line.split_once(':'));
        let (_, value) = headers.find(|(name, _)| name.eq_ignore_ascii_case("sec-websocket-extensions"))?;
        DeflateParams::from_answer(value.trim()).ok()?
    }

    /// Bytes of the request.
    #[must_use]
    pub fn request(&self) -> &[u8] {
        self.request.as_bytes()
    }

    /// Parses all input so far. `Some(n)`: the server accepted, its head has `n` bytes, and frames follow. `None`: read
    /// more and call again.
    ///
    /// # Errors
    /// The server refused, or its answer does not match this request.
    pub fn check_answer(&self, answer: &[u8]) -> Result<Option<usize>, AnswerError> {
        let in_bounds = &answer[..answer.len().min(ANSWER_BYTES_MAX)];
        let Some(end) = in_bounds.windows(4).position(|window| window == b"\r\n\r\n") else {
            return match answer.len() {
                0..ANSWER_BYTES_MAX => Ok(None),
                _ => Err(AnswerError::TooLong),
            };
        };
        let head = std::str::from_utf8(&answer[..end]).map_err(|_| AnswerError::Malformed)?;
        let mut lines = head.split("\r\n");
        let status_line = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 "));
        let status = status_line.and_then(|line| line.split(' ').next()).and_then(|status| status.parse().ok());
        match status.ok_or(AnswerError::Malformed)? {
            101 => {}
            status => return Err(AnswerError::Refused(status)),
        }

        let (mut upgrade, mut connection, mut accept) = (false, false, false);
        for line in lines {
            let (name, value) = line.split_once(':').ok_or(AnswerError::Malformed)?;
            let value = value.trim().as_bytes();
            match name.to_ascii_lowercase().as_str() {
                "upgrade" => upgrade = value.eq_ignore_ascii_case(b"websocket"),
                "connection" => connection |= has_token(value, "upgrade"),
                "sec-websocket-accept" => accept = value == self.accept,
                "sec-websocket-extensions" if self.offers_deflate => {
                    let value = std::str::from_utf8(value).map_err(|_| AnswerError::NotOffered)?;
                    DeflateParams::from_answer(value).map_err(|_| AnswerError::NotOffered)?;
                }
                "sec-websocket-extensions" | "sec-websocket-protocol" if !value.is_empty() => {
                    return Err(AnswerError::NotOffered);
                }
                _ => {}
            }
        }
        match (upgrade && connection, accept) {
            (false, _) => Err(AnswerError::NotUpgraded),
            (true, false) => Err(AnswerError::AcceptKey),
            (true, true) => Ok(Some(end + 4)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handshake() -> ClientHandshake {
        ClientHandshake::new("localhost:80", "/?v=10&encoding=json", *b"the sample nonce")
    }

    fn check(answer: &str, expected: Result<Option<usize>, AnswerError>) {
        assert_eq!(handshake().check_answer(answer.as_bytes()), expected, "{answer:?}");
    }

    #[test]
    fn request() {
        let expected = "GET /?v=10&encoding=json HTTP/1.1\r\nHost: localhost:80\r\nUpgrade: websocket\r\n\
                        Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        assert_eq!(handshake().request(), expected.as_bytes());
    }

    #[test]
    fn an_offer_of_permessage_deflate() {
        let offer = DeflateParams { server_no_context_takeover: true, ..DeflateParams::default() };
        let handshake = handshake().offering(offer);
        let request = std::str::from_utf8(handshake.request()).unwrap();
        let header = "Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover\r\n\r\n";
        assert!(request.ends_with(header), "{request}");
        let answer = |value: &str| {
            format!(
                "HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\
                 Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nsec-websocket-extensions: {value}\r\n\r\n"
            )
        };
        let (good, bad) = (answer("permessage-deflate; server_no_context_takeover"), answer("permessage-deflate; x"));
        assert_eq!(handshake.check_answer(good.as_bytes()), Ok(Some(good.len())));
        assert_eq!(ClientHandshake::agreed(good.as_bytes()), Some(offer));
        assert_eq!(handshake.check_answer(bad.as_bytes()), Err(AnswerError::NotOffered));
    }

    #[test]
    #[should_panic(expected = "bad host")]
    fn no_header_can_be_smuggled_in() {
        let _ = ClientHandshake::new("localhost", "/ HTTP/1.1\r\nX: y", [0; 16]);
    }

    #[test]
    fn answers() {
        const GOOD: &str = "HTTP/1.1 101 Switching Protocols\r\nupgrade: WebSocket\r\nConnection: keep-alive, upgrade\r\n\
                            Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
        for cut in 0..GOOD.len() {
            check(&GOOD[..cut], Ok(None));
        }
        check(GOOD, Ok(Some(GOOD.len())));
        check(&format!("{GOOD}\u{1}frames"), Ok(Some(GOOD.len())));
        check(&GOOD.replace("101 Switching Protocols", "101"), Ok(Some(GOOD.len() - 20)));
        check(&GOOD.replace("101", "403"), Err(AnswerError::Refused(403)));
        check(&GOOD.replace("101", "x"), Err(AnswerError::Malformed));
        check(&GOOD.replace("HTTP/1.1", "HTTP/1.0"), Err(AnswerError::Malformed));
        check(&GOOD.replace("upgrade:", "upgrade"), Err(AnswerError::Malformed));
        check(&GOOD.replace("WebSocket\r", "h2c\r"), Err(AnswerError::NotUpgraded));
        check(&GOOD.replace("keep-alive, upgrade", "close"), Err(AnswerError::NotUpgraded));
        check(&GOOD.replace("s3p", "S3p"), Err(AnswerError::AcceptKey));
        let extra = |line: &str| GOOD.replace("\r\n\r\n", &format!("\r\n{line}\r\n\r\n"));
        check(&extra("Sec-WebSocket-Extensions: permessage-deflate"), Err(AnswerError::NotOffered));
        check(&extra("Sec-WebSocket-Protocol: chat"), Err(AnswerError::NotOffered));
    }

    #[test]
    fn an_endless_head_is_refused() {
        let mut answer = b"HTTP/1.1 101 x\r\nX: ".to_vec();
        answer.resize(ANSWER_BYTES_MAX - 1, b'y');
        assert_eq!(handshake().check_answer(&answer), Ok(None));
        answer.extend_from_slice(b"\r\n\r\n");
        assert_eq!(handshake().check_answer(&answer), Err(AnswerError::TooLong));
    }
}
