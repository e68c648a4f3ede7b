//! Remote: the backend API as commands ask it.
//!
//! Owns        where a node is, the key that is shown to it, and one request with a body and an answer of lines.
//! Invariants  a key never stands in an argument, where everybody on the machine can read it.
//! Limits      `LINES_AHEAD` pieces of the file that wait to be sent; a line of the answer: `LINE_BYTES_MAX`.
//! Not here    TLS: ask the node itself, on its own machine, or through a tunnel.

use anyhow::{Context as _, bail};
use bytes::Bytes;
use clap::Args;
use futures_util::StreamExt as _;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::{Request, StatusCode, body::Frame, header};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::{convert::Infallible, os::fd::AsFd as _, path::PathBuf};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    net::TcpStream,
    sync::mpsc,
};

const PIECE_BYTES: usize = 64 << 10;
const PIECES_AHEAD: usize = 4;
const LINE_BYTES_MAX: usize = 1 << 20;
const KEY_VARIABLE: &str = "GUILDHALL_KEY";

/// Which node, and with which key.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Node")]
pub(super) struct Remote {
    /// Where the node listens
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080", value_parser = parse_server)]
    server: Server,
    /// A file with a key of the backend API [default: the key in $GUILDHALL_KEY]
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
}

/// `host:port` of a URL.
#[derive(Clone, Debug)]
struct Server(String);

fn parse_server(text: &str) -> Result<Server, String> {
    if text.starts_with("https://") {
        return Err(
            "TLS is not spoken here: name the node itself (http://127.0.0.1:8080), or a tunnel to it".to_owned()
        );
    }
    let authority = text.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'));
    match authority.filter(|authority| !authority.is_empty() && !authority.contains(['/', '?', '#', '@'])) {
        Some(authority) if authority.rsplit(':').next().is_some_and(|port| port.parse::<u16>().is_ok()) => {
            Ok(Server(authority.to_owned()))
        }
        Some(authority) => Ok(Server(format!("{authority}:80"))),
        None => Err("expected a URL like http://127.0.0.1:8080".to_owned()),
    }
}

impl Remote {
    fn key(&self, environment: &[(String, String)]) -> anyhow::Result<String> {
        let key = match &self.key_file {
            Some(path) => {
                std::fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?
            }
            None => {
                let variable = environment.iter().find(|(name, _)| name == KEY_VARIABLE);
                variable.map(|(_, key)| key.clone()).with_context(|| {
                    format!("there is no key: set {KEY_VARIABLE}, or name a file with --key-file (`guildhall key create` makes one)")
                })?
            }
        };
        Ok(key.trim().to_owned())
    }

    /// Sends `input` as lines, and hands over each line of the answer as it comes.
    ///
    /// # Errors
    /// When the node cannot be reached or refuses; when `input` cannot be read; and what `take` says.
    pub async fn stream(
        &self,
        environment: &[(String, String)],
        path: &str,
        input: impl AsyncRead + Send + Unpin + 'static,
        mut take: impl FnMut(Value) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let Server(server) = &self.server;
        let key = self.key(environment)?;
        let stream = TcpStream::connect(server).await.with_context(|| format!("no node answers at {server}"))?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let (pieces, receiver) = mpsc::channel(PIECES_AHEAD);
        let reading = tokio::spawn(read_pieces(input, pieces));
        let body = futures_util::stream::unfold(receiver, |mut receiver| async move {
            let piece: Bytes = receiver.recv().await?;
            Some((Ok::<_, Infallible>(Frame::data(piece)), receiver))
        });
        let request = Request::post(path)
            .header(header::HOST, server)
            .header(header::AUTHORIZATION, format!("Bearer {key}"))
            .header(header::CONTENT_TYPE, "application/x-ndjson")
            .body(StreamBody::new(Box::pin(body)))
            .context("the key has characters that no key has")?;
        let answer = sender.send_request(request).await.context("the node closed the connection")?;
        let (status, mut pieces) = (answer.status(), answer.into_body().into_data_stream());
        let mut line = Vec::new();
        while let Some(piece) = pieces.next().await {
            let piece = piece.context("the answer broke off")?;
            for byte in piece {
                if byte != b'\n' {
                    line.push(byte);
                    anyhow::ensure!(line.len() <= LINE_BYTES_MAX, "the answer is not what a node says");
                } else if status == StatusCode::OK && !line.is_empty() {
                    take(serde_json::from_slice(&line).context("the answer is not what a node says")?)?;
                    line.clear();
                }
            }
        }
        if status != StatusCode::OK {
            let problem: Value = serde_json::from_slice(&line).unwrap_or_default();
            bail!("{status}: {}", problem["message"].as_str().unwrap_or("the node refused without a reason"));
        }
        reading.await?
    }
}

async fn read_pieces(mut input: impl AsyncRead + Unpin, pieces: mpsc::Sender<Bytes>) -> anyhow::Result<()> {
    loop {
        let mut piece = Vec::with_capacity(PIECE_BYTES);
        if input.read_buf(&mut piece).await.context("the input cannot be read")? == 0 {
            return Ok(());
        }
        if pieces.send(piece.into()).await.is_err() {
            // The node has answered without it; the answer says why.
            return Ok(());
        }
    }
}

/// A file, or with `-` standard input.
pub(super) async fn open(path: &str) -> anyhow::Result<Box<dyn AsyncRead + Send + Unpin>> {
    if path == "-" {
        let input = std::io::stdin().as_fd().try_clone_to_owned().context("standard input cannot be read")?;
        return Ok(Box::new(tokio::fs::File::from_std(input.into())));
    }
    let file = tokio::fs::File::open(path).await.with_context(|| format!("{path} cannot be read"))?;
    Ok(Box::new(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(parse_server(text).ok().map(|server| server.0).as_deref(), expected, "{text}");
        };
        check("http://127.0.0.1:8080", Some("127.0.0.1:8080"));
        check("http://gateway.example.net/", Some("gateway.example.net:80"));
        check("http://[::1]:8080/", Some("[::1]:8080"));
        for wrong in
            ["https://gateway.example.net", "127.0.0.1:8080", "http://", "http://a/b", "http://user@a", "ws://a"]
        {
            check(wrong, None);
        }
    }
}
