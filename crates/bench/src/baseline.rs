//! Baseline roles: the minimum cost that the kernel imposes. A plain non-blocking `send` of the same bytes to as
//! many sockets, and a process that reads them.

use super::{
    role::{say, serve},
    usage,
};
use anyhow::{Context, Result, bail};
use mio::{Events, Interest, Poll, Token, net::TcpListener};
use serde_json::json;
use std::{
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

const STEP_TIMEOUT: Duration = Duration::from_secs(150);

/// Connects sockets to `port` and sends to all of them, on command.
pub fn run_sender(port: u16) -> Result<()> {
    let mut streams = Vec::new();
    say(&json!({"connected": 0}));
    let mut frame = Vec::new();
    serve(|command, args| match (command, args) {
        ("connect", [count]) => {
            for _ in 0..count.parse()? {
                let stream = TcpStream::connect(("127.0.0.1", port)).context("connecting to the baseline's reader")?;
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)?;
                streams.push(stream);
            }
            Ok(json!({"connected": streams.len()}))
        }
        ("frame", [hex]) => {
            frame =
                (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[i * 2..i * 2 + 2], 16)).collect::<Result<_, _>>()?;
            Ok(json!({"bytes": frame.len()}))
        }
        ("send", []) => {
            for stream in &mut streams {
                if stream.write(&frame)? != frame.len() {
                    bail!("a socket whose reader keeps up is full");
                }
            }
            Ok(json!({"sent": streams.len()}))
        }
        ("usage", []) => Ok(json!({"cpu_ns": usage::cpu_ns()?})),
        _ => bail!("unknown command {command} {args:?}"),
    });
    Ok(())
}

/// Accepts sockets and reads whatever comes.
pub fn run_reader() -> Result<()> {
    let mut poll = Poll::new()?;
    let mut listener = TcpListener::bind(([127, 0, 0, 1], 0).into())?;
    const LISTENER: Token = Token(usize::MAX);
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    say(&json!({"port": listener.local_addr()?.port()}));
    let mut streams: Vec<mio::net::TcpStream> = Vec::new();
    let mut events = Events::with_capacity(4096);
    let mut buffer = vec![0; 256 << 10];
    let mut bytes = 0u64;
    let mut step = |streams: &mut Vec<mio::net::TcpStream>, bytes: &mut u64| -> Result<()> {
        poll.poll(&mut events, Some(Duration::from_millis(200)))?;
        for event in &events {
            if event.token() == LISTENER {
                while let Ok((mut stream, _)) = listener.accept() {
                    poll.registry().register(&mut stream, Token(streams.len()), Interest::READABLE)?;
                    streams.push(stream);
                }
                continue;
            }
            loop {
                match streams[event.token().0].read(&mut buffer) {
                    Ok(0) => bail!("the baseline's sender closed"),
                    Ok(count) => *bytes += count as u64,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    };
    serve(|command, args| match (command, args) {
        ("accept", [total]) => {
            let total: usize = total.parse()?;
            let deadline = Instant::now() + STEP_TIMEOUT;
            while streams.len() < total {
                step(&mut streams, &mut bytes)?;
                if Instant::now() > deadline {
                    bail!("only {} of {total} sockets came", streams.len());
                }
            }
            Ok(json!({"accepted": streams.len()}))
        }
        ("await", [total]) => {
            let total: u64 = total.parse()?;
            let deadline = Instant::now() + STEP_TIMEOUT;
            while bytes < total {
                step(&mut streams, &mut bytes)?;
                if Instant::now() > deadline {
                    bail!("{bytes} of {total} bytes came");
                }
            }
            Ok(json!({"bytes": bytes}))
        }
        _ => bail!("unknown command {command} {args:?}"),
    });
    Ok(())
}
