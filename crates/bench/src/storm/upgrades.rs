//! Floor: bare upgrades. One thread accepts, answers the handshake, and keeps the socket in its poll.

use crate::{
    role::{say, serve},
    usage,
};
use anyhow::{Result, bail};
use guildhall_ws_proto::handshake::UpgradeRequest;
use mio::{Events, Interest, Poll, Token, net::TcpListener, net::TcpStream};
use serde_json::json;
use std::{
    io::{Read as _, Write as _},
    thread,
};

const LISTENER: Token = Token(usize::MAX);

/// Answers upgrades until the bench closes our input.
pub fn run() -> Result<()> {
    let mut listener = TcpListener::bind(([127, 0, 0, 1], 0).into())?;
    let port = listener.local_addr()?.port();
    let mut poll = Poll::new()?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    thread::Builder::new().name("floor".to_owned()).spawn(move || upgrade_all(&mut poll, &listener))?;
    say(&json!({"port": port}));
    serve(|command, args| match command {
        "threads" => Ok(json!(usage::threads()?)),
        other => bail!("unknown command {other} {args:?}"),
    });
    Ok(())
}

fn upgrade_all(poll: &mut Poll, listener: &TcpListener) -> std::io::Result<()> {
    let mut streams: Vec<Option<TcpStream>> = Vec::new();
    let mut free = Vec::new();
    let mut events = Events::with_capacity(1024);
    let mut buffer = vec![0; 16 << 10];
    loop {
        poll.poll(&mut events, None)?;
        for event in &events {
            if event.token() == LISTENER {
                while let Ok((mut stream, _)) = listener.accept() {
                    let _ = stream.set_nodelay(true);
                    let place = free.pop().unwrap_or_else(|| {
                        streams.push(None);
                        streams.len() - 1
                    });
                    poll.registry().register(&mut stream, Token(place), Interest::READABLE)?;
                    streams[place] = Some(stream);
                }
                continue;
            }
            let place = event.token().0;
            let Some(stream) = &mut streams[place] else { continue };
            let is_open = match stream.read(&mut buffer) {
                Ok(0) => false,
                Ok(count) => answer(stream, &buffer[..count]),
                Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
            };
            if !is_open {
                streams[place] = None;
                free.push(place);
            }
        }
    }
}

/// Answers a request that has come whole, as those of our clients do. False: it is no upgrade.
fn answer(stream: &mut TcpStream, request: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(request) else { return false };
    let mut upgrade = UpgradeRequest::new("GET", (1, 1));
    for line in text.lines().skip(1) {
        if let Some((name, value)) = line.split_once(':') {
            upgrade.handle_header(name, value.as_bytes());
        }
    }
    let Ok(accept) = upgrade.accept() else { return false };
    let mut answer = Vec::with_capacity(160);
    answer.extend_from_slice(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n");
    answer.extend_from_slice(b"Sec-WebSocket-Accept: ");
    answer.extend_from_slice(&accept);
    answer.extend_from_slice(b"\r\n\r\n");
    stream.write(&answer).is_ok_and(|count| count == answer.len())
}
