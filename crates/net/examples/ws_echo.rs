//! An echo server over our WebSocket layer, for the Autobahn suite. Not part of the node.
//!
//! It has the node's handshake rules, decoder, frames and permessage-deflate contexts, but not its event loop: a thread
//! for each connection, which echoes every message. `ws_echo PORT [takeover|prepared]`: with `prepared`
//! each message is compressed alone, as shared frames are.

use guildhall_codec::{BodyDeflater, DeflateCompressor, InflateHistory, MessageInflater, SharedWindow, ZlibParams};
use guildhall_ws_proto::{
    Decoder, DeflateNegotiation, DeflateParams, DeflatePolicy, Event, Head, Limits, Opcode, Role, append_frame,
    close_frame, handshake::UpgradeRequest, pong,
};
use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
};

const MESSAGE_BYTES_MAX: u32 = 64 << 20;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let port: u16 = args.next().ok_or("usage: ws_echo PORT [takeover|prepared]")?.parse()?;
    let is_prepared = args.next().as_deref() == Some("prepared");
    let policy = DeflatePolicy {
        server_no_context_takeover: is_prepared,
        client_no_context_takeover: is_prepared,
        server_window_bits: 15,
        client_window_bits: 15,
    };
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    for stream in listener.incoming() {
        let stream = stream?;
        std::thread::spawn(move || {
            // What ends a connection early is the client's doing.
            let _ = serve(stream, policy);
        });
    }
    Ok(())
}

fn serve(mut stream: TcpStream, policy: DeflatePolicy) -> Result<(), Failure> {
    stream.set_nodelay(true)?;
    let (params, mut early) = shake_hands(&mut stream, policy)?;
    let mut decoder = Decoder::new(Role::Server, Limits { message_bytes_max: MESSAGE_BYTES_MAX });
    decoder.set_rsv1_allowed(params.is_some());
    let mut echo = Echo::new(params)?;
    let (mut buffer, mut out) = (vec![0; 64 << 10], Vec::new());
    loop {
        let input = if early.is_empty() {
            let count = stream.read(&mut buffer)?;
            &mut buffer[..count]
        } else {
            &mut early[..]
        };
        if input.is_empty() {
            return Ok(());
        }
        let mut is_over = false;
        let mut events = decoder.handle(input);
        loop {
            match events.poll() {
                Ok(None) => break,
                Ok(Some(event)) => is_over |= echo.answer(&event, &mut out)?,
                Err(error) => {
                    out.extend_from_slice(&close_frame(Some(error.close_code()), &error.to_string()));
                    is_over = true;
                }
            }
            if is_over {
                break;
            }
        }
        early = Vec::new();
        stream.write_all(&out)?;
        out.clear();
        if is_over {
            return Ok(());
        }
    }
}

fn shake_hands(stream: &mut TcpStream, policy: DeflatePolicy) -> Result<(Option<DeflateParams>, Vec<u8>), Failure> {
    let mut head = Vec::new();
    let end = loop {
        if let Some(end) = head.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        let mut chunk = [0; 4096];
        match stream.read(&mut chunk)? {
            0 => return Err("cut off".into()),
            count => head.extend_from_slice(&chunk[..count]),
        }
    };
    let rest = head.split_off(end + 4);
    let text = String::from_utf8(head)?;
    let mut request = UpgradeRequest::new("GET", (1, 1));
    let mut negotiation = DeflateNegotiation::new(Some(policy));
    for (name, value) in text.lines().skip(1).filter_map(|line| line.split_once(':')) {
        request.handle_header(name, value.as_bytes());
        if name.eq_ignore_ascii_case("sec-websocket-extensions") {
            negotiation.handle_header(value.as_bytes())?;
        }
    }
    let accept = request.accept()?;
    let mut answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {}\r\n",
        std::str::from_utf8(&accept)?
    );
    if let Some(params) = negotiation.agreed() {
        answer.push_str(&format!("Sec-WebSocket-Extensions: {params}\r\n"));
    }
    answer.push_str("\r\n");
    stream.write_all(answer.as_bytes())?;
    Ok((negotiation.agreed(), rest))
}

/// Both contexts of a connection.
struct Echo {
    params: Option<DeflateParams>,
    inflater: MessageInflater,
    history: InflateHistory,
    takeover: DeflateCompressor,
    alone: BodyDeflater,
    message: Vec<u8>,
}

impl Echo {
    fn new(params: Option<DeflateParams>) -> Result<Self, Failure> {
        let window_bits = params.map_or(15, |params| params.server_window_bits);
        Ok(Self {
            params,
            inflater: MessageInflater::new()?,
            history: InflateHistory::default(),
            takeover: DeflateCompressor::new(ZlibParams::default(), window_bits)?,
            alone: BodyDeflater::default(),
            message: Vec::new(),
        })
    }

    /// Whether this was the last.
    fn answer(&mut self, event: &Event<'_>, out: &mut Vec<u8>) -> Result<bool, Failure> {
        match event {
            Event::Text(text) => self.send(Opcode::Text, text.as_bytes(), out)?,
            Event::Binary(bytes) => self.send(Opcode::Binary, bytes, out)?,
            Event::Compressed { text, payload } => {
                let mut message = std::mem::take(&mut self.message);
                message.clear();
                let inflated = self.inflater.inflate(&self.history, payload, &mut message, MESSAGE_BYTES_MAX as usize);
                if inflated.is_err() || *text && std::str::from_utf8(&message).is_err() {
                    out.extend_from_slice(&close_frame(Some(1007), "a compressed message cannot be read"));
                    return Ok(true);
                }
                if let Some(params) = self.params.filter(|params| !params.client_no_context_takeover) {
                    self.history.remember(&message, params.client_window_bits);
                }
                self.send(if *text { Opcode::Text } else { Opcode::Binary }, &message, out)?;
                self.message = message;
            }
            Event::Ping(payload) => out.extend_from_slice(&pong(payload)),
            Event::Pong(_) => {}
            Event::Close { code, .. } => {
                out.extend_from_slice(&close_frame(*code, ""));
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn send(&mut self, opcode: Opcode, message: &[u8], out: &mut Vec<u8>) -> Result<(), Failure> {
        let Some(params) = self.params else {
            append_frame(opcode, message, out);
            return Ok(());
        };
        let mut payload = Vec::new();
        if params.server_no_context_takeover {
            self.alone.compress(SharedWindow::of(params.server_window_bits), &[message], &mut payload)?;
        } else {
            self.takeover.compress(&[message], &mut payload)?;
        }
        append_frame(Head { opcode, fin: true, compressed: true }, &payload, out);
        Ok(())
    }
}
