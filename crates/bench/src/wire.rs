//! Wire: one socket of a client, from its handshake to its end. All clients of the benches have theirs in this form.
//!
//! Owns        the socket, the handshake, the decoder, and bytes that the socket has not accepted yet.
//! Doors       `Wire::connect`; `Wire::write` when the socket is writable, `Wire::read` when it is readable.
//! Not here    sessions: `client`, `load::clients` and `load::attackers`.

use guildhall_ws_proto::{
    Decoder, DeflateParams, Event, Limits, Opcode, Role, WsError, append_masked_frame,
    handshake::{AnswerError, ClientHandshake},
};
use mio::{Interest, Registry, Token, net::TcpStream};
use serde_json::Value;
use std::{
    io::{self, ErrorKind, Read as _, Write as _},
    net::SocketAddr,
    ops::ControlFlow,
};

pub const MESSAGE_BYTES_MAX: usize = 16 << 20;
pub const BUFFER_BYTES: usize = 256 << 10;
const MASK_KEY: [u8; 4] = [1, 2, 3, 4];

/// See the module.
pub struct Wire {
    pub stream: TcpStream,
    /// With the answer so far; none once the server has upgraded.
    handshake: Option<(ClientHandshake, Vec<u8>)>,
    decoder: Decoder,
    /// Begins with the request.
    pub unsent: Vec<u8>,
}

/// Data from the server.
pub enum Received<'a> {
    /// Any bytes, before they are parsed.
    Bytes(&'a [u8]),
    /// The head of the answer, with which it has upgraded.
    Upgraded(&'a [u8]),
    Event(Event<'a>),
}

/// How a connection ended.
#[derive(Debug)]
pub enum End {
    /// Without a close frame.
    Cut,
    /// Before it was upgraded.
    Refused(AnswerError),
    /// With the code of the close frame, if it has one.
    Closed(Option<u16>),
    BadFrame(WsError),
}

impl Wire {
    /// Begins to connect client `index`, which may offer permessage-deflate.
    pub fn connect(
        registry: &Registry,
        index: usize,
        addr: SocketAddr,
        (target, offer): (&str, Option<DeflateParams>),
    ) -> io::Result<Self> {
        let mut stream = TcpStream::connect(addr)?;
        stream.set_nodelay(true).ok();
        registry.register(&mut stream, Token(index), Interest::READABLE | Interest::WRITABLE)?;
        let mut nonce = [0; 16];
        nonce[..8].copy_from_slice(&(index as u64).to_le_bytes());
        let mut handshake = ClientHandshake::new(&addr.to_string(), target, nonce);
        let mut decoder = Decoder::new(Role::Client, Limits { message_bytes_max: MESSAGE_BYTES_MAX as u32 });
        if let Some(params) = offer {
            handshake = handshake.offering(params);
            decoder.set_rsv1_allowed(true);
        }
        let unsent = handshake.request().to_vec();
        Ok(Self { stream, handshake: Some((handshake, Vec::new())), decoder, unsent })
    }

    pub fn is_upgraded(&self) -> bool {
        self.handshake.is_none()
    }

    /// Writes as much as the socket accepts; the rest waits until it is writable. After an error the rest is dropped,
    /// because the server's last data and its close are still to be read.
    pub fn write(&mut self) {
        write_unsent(&mut self.stream, &mut self.unsent);
    }

    /// Sends a payload.
    pub fn send(&mut self, payload: &Value) {
        push(payload, &mut self.unsent);
        self.write();
    }

    /// Reads all that the socket has, and then writes what `handle` appended to its second argument. `handle` may stop
    /// the reading for good, with a result.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn read<B>(
        &mut self,
        buffer: &mut [u8],
        mut handle: impl FnMut(Received<'_>, &mut Vec<u8>) -> ControlFlow<B>,
    ) -> Result<Option<B>, End> {
        loop {
            let input = match self.stream.read(buffer) {
                Ok(count) if count > 0 => &mut buffer[..count],
                Err(error) if is_for_later(error.kind()) => break,
                Ok(_) | Err(_) => return Err(End::Cut),
            };
            if let ControlFlow::Break(stopped) = self.take(input, &mut handle)? {
                return Ok(Some(stopped));
            }
        }
        self.write();
        Ok(None)
    }

    fn take<B>(
        &mut self,
        input: &mut [u8],
        handle: &mut impl FnMut(Received<'_>, &mut Vec<u8>) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, End> {
        if let flow @ ControlFlow::Break(_) = handle(Received::Bytes(input), &mut self.unsent) {
            return Ok(flow);
        }
        let mut rest = Vec::new();
        let input = match &mut self.handshake {
            None => input,
            Some((handshake, answer)) => {
                answer.extend_from_slice(input);
                let Some(head_bytes) = handshake.check_answer(answer).map_err(End::Refused)? else {
                    return Ok(ControlFlow::Continue(()));
                };
                rest.extend_from_slice(&answer[head_bytes..]);
                let flow = handle(Received::Upgraded(&answer[..head_bytes]), &mut self.unsent);
                self.handshake = None;
                if flow.is_break() {
                    return Ok(flow);
                }
                &mut rest
            }
        };
        let mut events = self.decoder.handle(input);
        while let Some(event) = events.poll().map_err(End::BadFrame)? {
            if let Event::Close { code, .. } = event {
                return Err(End::Closed(code));
            }
            if let flow @ ControlFlow::Break(_) = handle(Received::Event(event), &mut self.unsent) {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Appends a payload in a frame.
pub fn push(payload: &Value, out: &mut Vec<u8>) {
    append_masked_frame(Opcode::Text, MASK_KEY, payload.to_string().as_bytes(), out);
}

fn write_unsent(stream: &mut TcpStream, unsent: &mut Vec<u8>) {
    while !unsent.is_empty() {
        match stream.write(unsent) {
            Ok(count) => drop(unsent.drain(..count)),
            Err(error) if is_for_later(error.kind()) => return,
            Err(_) => return unsent.clear(),
        }
    }
}

/// Nothing to be read, or no room to write, or not connected yet.
fn is_for_later(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::NotConnected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsent_bytes_stay_and_the_last_data_of_a_closed_socket_can_be_read() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut stream = TcpStream::from_std(stream);
        let (mut server, _) = listener.accept().unwrap();

        let mut unsent = vec![7; 64 << 20];
        write_unsent(&mut stream, &mut unsent);
        assert!(!unsent.is_empty() && unsent.len() < 64 << 20, "{} left", unsent.len());

        std::io::Write::write_all(&mut server, b"last words").unwrap();
        server.shutdown(std::net::Shutdown::Write).unwrap();
        let mut heard = [0; 32];
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        let count = loop {
            match stream.read(&mut heard) {
                Ok(count) => break count,
                Err(error) => assert!(is_for_later(error.kind()) && std::time::Instant::now() < deadline, "{error}"),
            }
        };
        assert_eq!(heard[..count], *b"last words");

        // The server is gone: no room any more, but nothing waits for it either.
        drop(server);
        while !unsent.is_empty() {
            assert!(std::time::Instant::now() < deadline, "{} left", unsent.len());
            write_unsent(&mut stream, &mut unsent);
        }
    }
}
