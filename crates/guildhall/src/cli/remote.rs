//! Remote: client of the backend API for commands.
//!
//! Owns        the node's address, the key, and one request with a body and an answer of lines.
//! Invariants  a key is never an argument, because every user of the machine can read arguments. The body is sent after
//!             the node's `100 Continue`, so that a refusal is not lost when the node closes a connection with an
//!             unread body. (test `n1_1_*` in `it/exact.rs`)
//! Limits      `PIECES_AHEAD` pieces of the file wait to be sent; `LINE_BYTES_MAX` per line of the answer, and
//!             `ANSWER_BYTES_MAX` for an answer without lines. A proxy that
//!             does not forward `100 Continue` delays the body by `GO_ON_WITHIN`. With TLS the node's certificate must
//!             be trusted by `--ca` or the system's roots. Redirects are not followed.

use crate::jwks_url::trust;
use anyhow::{Context as _, anyhow, bail};
use bytes::Bytes;
use clap::Args;
use futures_util::StreamExt as _;
use http_body_util::{BodyExt as _, Empty, Limited, StreamBody};
use hyper::{Method, Request, StatusCode, body::Frame, client::conn::http1::SendRequest, header};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::{
    convert::Infallible,
    os::fd::AsFd as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite},
    net::TcpStream,
    sync::{Notify, mpsc},
};

const PIECE_BYTES: usize = 64 << 10;
const PIECES_AHEAD: usize = 4;
const LINE_BYTES_MAX: usize = 1 << 20;
/// Largest answer without lines.
const ANSWER_BYTES_MAX: usize = 16 << 20;
const GO_ON_WITHIN: Duration = Duration::from_secs(2);
const KEY_VARIABLE: &str = "GUILDHALL_KEY";

/// Address of the node, and the key.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Node")]
pub(super) struct Remote {
    /// Address of the node
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080", value_parser = parse_server)]
    server: Server,
    /// File with a key of the backend API [default: the key in $GUILDHALL_KEY]
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Certificates, PEM, that authenticate a node at https:// [default: those that this system trusts]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

/// Address of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Server {
    is_tls: bool,
    /// Host without the brackets of an IPv6 address.
    host: String,
    port: u16,
    /// Value of the `Host` header: the address as it was written.
    authority: String,
}

fn parse_server(text: &str) -> Result<Server, String> {
    parse_url(text).ok_or_else(|| "expected a URL like http://127.0.0.1:8080 or https://gateway.example.net".to_owned())
}

fn parse_url(text: &str) -> Option<Server> {
    let (is_tls, rest) = match text.strip_prefix("https://") {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix("http://")?),
    };
    let authority = rest.trim_end_matches('/');
    if authority.is_empty() || authority.contains(['/', '?', '#', '@']) {
        return None;
    }
    let (host, port) = match authority.rsplit_once(':') {
        // The last colon may be part of an IPv6 address.
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
        _ => (authority, if is_tls { 443 } else { 80 }),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    (!host.is_empty()).then(|| Server { is_tls, host, port, authority: authority.to_owned() })
}

/// Byte stream that carries a request.
trait Carrier: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Carrier for T {}

impl Server {
    /// Message for a connection that ended without an answer.
    fn closed(&self) -> &'static str {
        if self.is_tls {
            "the node closed the connection"
        } else {
            "the node closed the connection: with [tls] it speaks only TLS (--server https://…)"
        }
    }

    /// Connects. With TLS, trusts the certificates in `ca`, or those that the system trusts.
    async fn connect(&self, ca: Option<&Path>) -> anyhow::Result<Box<dyn Carrier>> {
        let Self { is_tls, host, port, authority } = self;
        // Before the first byte is sent, so that a wrong file is reported even if no node runs.
        let tls = is_tls.then(|| trust(ca)).transpose()?;
        let tcp = TcpStream::connect((host.as_str(), *port)).await;
        let tcp = tcp.with_context(|| format!("no node answers at {authority}"))?;
        let Some(tls) = tls else { return Ok(Box::new(tcp)) };
        let name = ServerName::try_from(host.clone()).with_context(|| format!("{host} is no host name"))?;
        let stream = tls.connect(name, tcp).await.with_context(|| {
            format!("{authority} was not trusted: its certificate must name {host}, and be signed by the system's roots or --ca FILE")
        })?;
        Ok(Box::new(stream))
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
        match key.trim() {
            "" if self.key_file.is_some() => bail!("the file named by --key-file is empty: it must contain a key"),
            "" => bail!("{KEY_VARIABLE} is empty: it must contain a key (`guildhall key create` makes one)"),
            key => Ok(key.to_owned()),
        }
    }

    /// A client for requests without a body.
    ///
    /// # Errors
    /// There is no key.
    pub fn asking(&self, environment: &[(String, String)]) -> anyhow::Result<Asking> {
        self.check()?;
        Ok(Asking { remote: self.clone(), key: self.key(environment)?, sender: None })
    }

    fn check(&self) -> anyhow::Result<()> {
        anyhow::ensure!(
            self.ca.is_none() || self.server.is_tls,
            "--ca is for https://: name the node by --server https://…"
        );
        Ok(())
    }

    /// Sends the lines of `input`, and passes each line of the answer to `take` when it arrives.
    ///
    /// # Errors
    /// The node cannot be reached or refuses the request; `input` cannot be read; or `take` returns an error.
    pub async fn stream(
        &self,
        environment: &[(String, String)],
        path: &str,
        input: impl AsyncRead + Send + Unpin + 'static,
        mut take: impl FnMut(Value) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let server = &self.server;
        let key = self.key(environment)?;
        self.check()?;
        let stream = server.connect(self.ca.as_deref()).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let (pieces, receiver) = mpsc::channel(PIECES_AHEAD);
        let go_on = Arc::new(Notify::new());
        let said_so = go_on.clone();
        let reading = tokio::spawn(async move {
            // After this time a proxy does not forward `100 Continue`: the body is sent without it.
            let _ = tokio::time::timeout(GO_ON_WITHIN, go_on.notified()).await;
            read_pieces(input, pieces).await
        });
        let body = futures_util::stream::unfold(receiver, |mut receiver| async move {
            let piece: Bytes = receiver.recv().await?;
            Some((Ok::<_, Infallible>(Frame::data(piece)), receiver))
        });
        let mut request = Request::post(path)
            .header(header::HOST, &server.authority)
            .header(header::AUTHORIZATION, format!("Bearer {key}"))
            .header(header::CONTENT_TYPE, "application/x-ndjson")
            .header(header::EXPECT, "100-continue")
            .body(StreamBody::new(Box::pin(body)))
            .context("the key has invalid characters")?;
        let closed = server.closed();
        hyper::ext::on_informational(&mut request, move |answer| {
            if answer.status() == StatusCode::CONTINUE {
                said_so.notify_one();
            }
        });
        let answer = sender.send_request(request).await.context(closed)?;
        let (status, mut pieces) = (answer.status(), answer.into_body().into_data_stream());
        let mut line = Vec::new();
        while let Some(piece) = pieces.next().await {
            let piece = piece.context("the answer broke off")?;
            for byte in piece {
                if byte != b'\n' {
                    line.push(byte);
                    anyhow::ensure!(line.len() <= LINE_BYTES_MAX, "the answer is not that of a Guildhall node");
                } else if status == StatusCode::OK && !line.is_empty() {
                    take(serde_json::from_slice(&line).context("the answer is not that of a Guildhall node")?)?;
                    line.clear();
                }
            }
        }
        if status != StatusCode::OK {
            reading.abort();
            return Err(refusal(status, &line));
        }
        reading.await?
    }
}

/// Requests without a body, over one connection for as long as the node keeps it.
pub(super) struct Asking {
    remote: Remote,
    key: String,
    sender: Option<SendRequest<Empty<Bytes>>>,
}

impl Asking {
    /// The answer to `GET path`.
    ///
    /// # Errors
    /// The node cannot be reached or refuses the request, or the answer is not what was expected.
    pub async fn get<T: DeserializeOwned>(&mut self, path: &str) -> anyhow::Result<T> {
        let body = self.request(Method::GET, path).await?;
        serde_json::from_slice(&body).context("the answer is not that of a Guildhall node of this version")
    }

    /// Does what `POST path` does.
    ///
    /// # Errors
    /// The node cannot be reached or refuses the request.
    pub async fn post(&mut self, path: &str) -> anyhow::Result<()> {
        self.request(Method::POST, path).await.map(drop)
    }

    async fn request(&mut self, method: Method, path: &str) -> anyhow::Result<Bytes> {
        let server = &self.remote.server;
        let kept = match self.sender.take() {
            Some(mut sender) => sender.ready().await.is_ok().then_some(sender),
            None => None,
        };
        let mut sender = match kept {
            Some(sender) => sender,
            None => {
                let stream = server.connect(self.remote.ca.as_deref()).await?;
                let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
                tokio::spawn(connection);
                sender
            }
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, &server.authority)
            .header(header::AUTHORIZATION, format!("Bearer {}", self.key))
            .body(Empty::new())
            .context("the key has invalid characters")?;
        let answer = sender.send_request(request).await.context(server.closed())?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| anyhow!("the answer broke off: {error}"))?.to_bytes();
        if !status.is_success() {
            return Err(refusal(status, &body));
        }
        self.sender = Some(sender);
        Ok(body)
    }
}

fn refusal(status: StatusCode, body: &[u8]) -> anyhow::Error {
    let problem: Value = serde_json::from_slice(body).unwrap_or_default();
    anyhow!("{status}: {}", problem["message"].as_str().unwrap_or("the node refused without a reason"))
}

async fn read_pieces(mut input: impl AsyncRead + Unpin, pieces: mpsc::Sender<Bytes>) -> anyhow::Result<()> {
    loop {
        let mut piece = Vec::with_capacity(PIECE_BYTES);
        if input.read_buf(&mut piece).await.context("the input cannot be read")? == 0 {
            return Ok(());
        }
        if pieces.send(piece.into()).await.is_err() {
            // The node has answered without the body; the answer has the reason.
            return Ok(());
        }
    }
}

/// Opens a file, or standard input for `-`.
pub(super) async fn open(path: &str) -> anyhow::Result<Box<dyn AsyncRead + Send + Unpin>> {
    if path == "-" {
        let input = std::io::stdin().as_fd().try_clone_to_owned().context("standard input cannot be read")?;
        return Ok(Box::new(tokio::fs::File::from_std(input.into())));
    }
    let file = tokio::fs::File::open(path).await.with_context(|| format!("{path} cannot be read"))?;
    Ok(Box::new(file))
}

/// Bytes of a regular file; none for standard input and other kinds.
pub(super) async fn size_of(path: &str) -> Option<u64> {
    let metadata = if path == "-" { return None } else { tokio::fs::metadata(path).await.ok()? };
    metadata.is_file().then_some(metadata.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers() {
        let check = |text: &str, expected: Option<&str>| {
            let shown =
                |server: Server| format!("{} {} {} {}", server.is_tls, server.host, server.port, server.authority);
            assert_eq!(parse_server(text).ok().map(shown).as_deref(), expected, "{text}");
        };
        check("http://127.0.0.1:8080", Some("false 127.0.0.1 8080 127.0.0.1:8080"));
        check("http://gateway.example.net/", Some("false gateway.example.net 80 gateway.example.net"));
        check("https://gateway.example.net", Some("true gateway.example.net 443 gateway.example.net"));
        check("https://localhost:8443/", Some("true localhost 8443 localhost:8443"));
        check("http://[::1]:8080/", Some("false ::1 8080 [::1]:8080"));
        check("https://[::1]", Some("true ::1 443 [::1]"));
        for wrong in ["127.0.0.1:8080", "http://", "https://", "http://a/b", "http://user@a", "ws://a", "http://a:b"] {
            check(wrong, None);
        }
    }
}
