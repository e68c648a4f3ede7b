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

use anyhow::{Context as _, anyhow, bail};
use bytes::Bytes;
use clap::Args;
use futures_util::StreamExt as _;
use guildhall_http_client::{ConnectError, Connection, connect, handshake, request, trust};
use guildhall_settings::{HttpUrl, UrlRule};
use http_body_util::{BodyExt as _, Full, Limited, StreamBody};
use hyper::{
    Method, StatusCode,
    body::{Body, Frame},
    header,
    http::request::Builder,
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::{
    convert::Infallible,
    error::Error,
    os::fd::AsFd as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
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
struct Server(HttpUrl);

fn parse_server(text: &str) -> Result<Server, String> {
    parse_url(text).ok_or_else(|| "expected a URL like http://127.0.0.1:8080 or https://gateway.example.net".to_owned())
}

fn parse_url(text: &str) -> Option<Server> {
    let url = HttpUrl::parse(text, UrlRule::Base)?;
    let (host, authority) = (url.uri().host(), url.uri().authority()?.as_str());
    let is_port = url.uri().port_u16().is_some() || host == Some(authority);
    let is_root = url.path().bytes().all(|byte| byte == b'/') && !text.contains('#');
    (is_port && is_root).then_some(Server(url))
}

impl Server {
    /// Message for a connection that ended without an answer.
    fn closed(&self) -> &'static str {
        if self.0.is_https() {
            "the node closed the connection"
        } else {
            "the node closed the connection: with [tls] it speaks only TLS (--server https://…)"
        }
    }

    /// Connects. With TLS, trusts the certificates in `ca`, or those that the system trusts.
    async fn connect<B>(&self, ca: Option<&Path>) -> anyhow::Result<Connection<B>>
    where
        B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
    {
        let (url, host) = (self.0.uri(), self.0.host());
        // Before the first byte is sent, so that a wrong file is reported even if no node runs.
        let tls = self.0.is_https().then(|| trust(ca)).transpose()?;
        let authority = url.authority().map_or("", |authority| authority.as_str());
        let stream = connect(url, tls.as_ref()).await.map_err(|error| match error {
            ConnectError::Tcp(error) => anyhow::Error::new(error).context(format!("no node answers at {authority}")),
            ConnectError::Name(error) => anyhow::Error::new(error).context(format!("{host} is no host name")),
            ConnectError::Tls(error) => anyhow::Error::new(error).context(format!(
                "{authority} was not trusted: its certificate must name {host} (subjectAltName), and be in the file of \
                 --ca or signed by a certificate there; without --ca, by one that this system trusts. docs/operations/\
                 recipes.md, \"TLS\", has the command that makes one for tests"
            )),
        })?;
        Ok(handshake(stream).await?)
    }

    /// A request with the key.
    fn request(&self, method: Method, path: &str, key: &str) -> Builder {
        request(method, self.0.uri(), path).header(header::AUTHORIZATION, format!("Bearer {key}"))
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

    /// A client for requests with a short body or none.
    ///
    /// # Errors
    /// There is no key.
    pub fn asking(&self, environment: &[(String, String)]) -> anyhow::Result<Asking> {
        self.check()?;
        Ok(Asking { remote: self.clone(), key: self.key(environment)? })
    }

    fn check(&self) -> anyhow::Result<()> {
        anyhow::ensure!(
            self.ca.is_none() || self.server.0.is_https(),
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
        let mut connection = server.connect(self.ca.as_deref()).await?;
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
        let mut request = server
            .request(Method::POST, path, &key)
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
        let answer = connection.sender.send_request(request).await.context(closed)?;
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

/// Requests with a short body or none.
pub(super) struct Asking {
    remote: Remote,
    key: String,
}

impl Asking {
    /// The answer to `GET path`.
    ///
    /// # Errors
    /// The node cannot be reached or refuses the request, or the answer is not what was expected.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        read(&self.bytes(path).await?)
    }

    /// The answer to `GET path`, which is no JSON.
    ///
    /// # Errors
    /// The node cannot be reached or refuses the request.
    pub async fn bytes(&self, path: &str) -> anyhow::Result<Bytes> {
        self.request(Method::GET, path, Bytes::new()).await
    }

    /// Does what `POST path` does.
    ///
    /// # Errors
    /// The node cannot be reached or refuses the request.
    pub async fn post(&self, path: &str) -> anyhow::Result<()> {
        self.request(Method::POST, path, Bytes::new()).await.map(drop)
    }

    /// The answer to `POST path` with this body.
    ///
    /// # Errors
    /// The node cannot be reached, refuses the request, or answers with another form.
    pub async fn send<T: DeserializeOwned>(&self, path: &str, body: &Value) -> anyhow::Result<T> {
        read(&self.request(Method::POST, path, body.to_string().into()).await?)
    }

    /// The answer to `POST path` with the bytes of a file.
    ///
    /// # Errors
    /// The node cannot be reached, refuses the request, or answers with another form.
    pub async fn send_file<T: DeserializeOwned>(&self, path: &str, bytes: Vec<u8>) -> anyhow::Result<T> {
        read(&self.request(Method::POST, path, bytes.into()).await?)
    }

    /// The answer to `PATCH path` with this body.
    ///
    /// # Errors
    /// The node cannot be reached, refuses the request, or answers with another form.
    pub async fn patch<T: DeserializeOwned>(&self, path: &str, body: &Value) -> anyhow::Result<T> {
        read(&self.request(Method::PATCH, path, body.to_string().into()).await?)
    }

    /// Does what `DELETE path` does.
    ///
    /// # Errors
    /// The node cannot be reached or refuses the request.
    pub async fn delete(&self, path: &str) -> anyhow::Result<()> {
        self.request(Method::DELETE, path, Bytes::new()).await.map(drop)
    }

    async fn request(&self, method: Method, path: &str, body: Bytes) -> anyhow::Result<Bytes> {
        let Self { remote: Remote { server, ca, .. }, key } = self;
        let mut connection = server.connect(ca.as_deref()).await?;
        let mut request = server.request(method, path, key);
        if !body.is_empty() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let request = request.body(Full::new(body)).context("the key has invalid characters")?;
        let answer = connection.sender.send_request(request).await.context(server.closed())?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| anyhow!("the answer broke off: {error}"))?.to_bytes();
        if !status.is_success() {
            return Err(refusal(status, &body));
        }
        Ok(body)
    }
}

fn read<T: DeserializeOwned>(body: &[u8]) -> anyhow::Result<T> {
    serde_json::from_slice(body).context("the answer is not that of a Guildhall node of this version")
}

fn refusal(status: StatusCode, body: &[u8]) -> anyhow::Error {
    let problem: Value = serde_json::from_slice(body).unwrap_or_default();
    let fields = problem["errors"].as_array().into_iter().flatten();
    let fields: Vec<String> = fields
        .filter_map(|error| Some(format!("{}: {}", error["field"].as_str()?, error["message"].as_str()?)))
        .collect();
    match fields.is_empty() {
        true => anyhow!("{status}: {}", problem["message"].as_str().unwrap_or("the node refused without a reason")),
        false => anyhow!("{status}: {}", fields.join(" ")),
    }
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
            let shown = |Server(url): Server| {
                let (is_tls, uri) = (url.is_https(), url.uri());
                let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
                format!("{is_tls} {} {port} {}", url.host(), uri.authority().unwrap())
            };
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
