//! Proxy: connects clients to a gateway, and records both directions.
//!
//! Doors       `capture`.
//! Limits      `NOTED_MAX` pieces wait for the writer of the file; then the connections wait.
//! Not here    the form of the file: `record`.

use super::record::{CaptureSummary, LinkEvent, Noted, Recorder};
use crate::{
    http::{ClientRequest, Decision, RequestHandler, bind, serve},
    link::Query,
};
use anyhow::{Context as _, Result, bail, ensure};
use guildhall_http_client::{ConnectError, Stream, TlsConnector, connect, trust};
use guildhall_ws_proto::handshake::ClientHandshake;
use hyper::Uri;
use serde_json::json;
use std::{
    fs::File,
    future::Future,
    io::BufWriter,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Instant, SystemTime, UNIX_EPOCH},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::mpsc,
};

const NOTED_MAX: usize = 4_096;
const CHUNK_BYTES: usize = 64 << 10;

/// Arguments of a capture.
#[derive(Clone, Debug)]
pub struct CaptureParams {
    pub listen: SocketAddr,
    /// `ws://…` or `wss://…`, without a query.
    pub to: String,
    /// Certificates that are trusted, instead of the system's.
    pub ca: Option<PathBuf>,
    pub out: PathBuf,
    /// Key of the surrogates; none: contents are recorded as they are.
    pub key: Option<[u8; 32]>,
}

/// Records until `stop`. `listening` is called with the address.
///
/// # Errors
/// The address, the URL or the file is wrong, or the file cannot be written.
pub async fn capture(
    params: CaptureParams,
    listening: impl FnOnce(SocketAddr),
    stop: impl Future<Output = ()>,
) -> Result<CaptureSummary> {
    let target = Target::parse(&params.to, params.ca.as_deref())?;
    let file = File::options().write(true).create_new(true).open(&params.out);
    let file =
        file.with_context(|| format!("{} cannot be made: name a file that does not exist", params.out.display()))?;
    let started_at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let recorder = Recorder::new(BufWriter::new(file), params.key, started_at)?;
    let bound = bind(params.listen).await;
    let (listener, address) =
        bound.with_context(|| format!("cannot listen on {}: choose another port, or 0", params.listen))?;
    let (noted, notes) = mpsc::channel(NOTED_MAX);
    let proxy = Arc::new(Proxy {
        own_url: format!("ws://{address}"),
        target,
        noted: noted.clone(),
        next: AtomicU64::new(0),
        started: Instant::now(),
    });
    listening(address);
    let mut writer = tokio::task::spawn_blocking(move || write(recorder, notes));
    let serving = tokio::spawn(serve(listener, 0, proxy));
    let early = tokio::select! {
        () = stop => None,
        ended = &mut writer => Some(ended),
    };
    serving.abort();
    if let Some(ended) = early {
        return ended.context("the writer of the file broke")?;
    }
    // An empty note ends the writer: connections still have senders.
    let _ = noted.send(None).await;
    writer.await.context("the writer of the file broke")?
}

fn write(mut recorder: Recorder<BufWriter<File>>, mut notes: mpsc::Receiver<Option<Noted>>) -> Result<CaptureSummary> {
    while let Some(Some(noted)) = notes.blocking_recv() {
        recorder.take(noted)?;
    }
    recorder.finish()
}

/// Gateway behind the proxy.
struct Target {
    url: Uri,
    tls: Option<TlsConnector>,
}

impl Target {
    fn parse(to: &str, ca: Option<&std::path::Path>) -> Result<Self> {
        let http = match to.split_once("://") {
            Some(("ws", rest)) => format!("http://{rest}"),
            Some(("wss", rest)) => format!("https://{rest}"),
            _ => bail!("{to} is no URL of a gateway: write ws://HOST:PORT or wss://HOST"),
        };
        let url: Uri = http.parse().with_context(|| format!("{to} is no URL"))?;
        ensure!(url.query().is_none(), "{to} has a query: clients write theirs behind it");
        let is_tls = to.starts_with("wss");
        ensure!(is_tls || ca.is_none(), "--ca is for wss://: name the gateway by --to wss://…");
        let tls = if is_tls { Some(trust(ca)?) } else { None };
        Ok(Self { url, tls })
    }
}

struct Proxy {
    own_url: String,
    target: Target,
    noted: mpsc::Sender<Option<Noted>>,
    next: AtomicU64,
    started: Instant,
}

impl RequestHandler for Proxy {
    fn decide(&self, request: &ClientRequest) -> Decision {
        if request.is_upgrade {
            return match Query::parse(&request.query) {
                Ok(_) => Decision::Upgrade,
                Err(words) => Decision::Answer { status: 400, headers: Vec::new(), body: json!(words).to_string() },
            };
        }
        let is_gateway = request.path.ends_with("/gateway") || request.path.ends_with("/gateway/bot");
        let (status, body) = match is_gateway {
            true => crate::rest::answer("GET", &request.path, &[], &self.own_url),
            false => {
                (404, Some(json!({ "message": "the proxy serves no REST: use the server's own address", "code": 0 })))
            }
        };
        Decision::Answer { status, headers: Vec::new(), body: body.unwrap_or_default().to_string() }
    }

    fn opened(self: Arc<Self>, request: ClientRequest, stream: TcpStream, early: Vec<u8>) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (noted, started, url) = (self.noted.clone(), self.started, self.target.url.clone());
        let tls = self.target.tls.clone();
        tokio::spawn(async move {
            let notes = Notes { noted, started, connection: number };
            if let Err(error) = relay(&notes, &url, tls.as_ref(), &request, stream, early).await {
                eprintln!("connection {number}: {error:#}");
            }
        });
    }
}

struct Notes {
    noted: mpsc::Sender<Option<Noted>>,
    started: Instant,
    connection: u64,
}

impl Notes {
    async fn note(&self, event: LinkEvent) {
        let at_us = u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX);
        let _ = self.noted.send(Some(Noted { at_us, connection: self.connection, event })).await;
    }
}

async fn relay(
    notes: &Notes,
    url: &Uri,
    tls: Option<&TlsConnector>,
    request: &ClientRequest,
    client: TcpStream,
    early: Vec<u8>,
) -> Result<()> {
    let query = Query::parse(&request.query).map_err(anyhow::Error::msg)?;
    let (mut gateway, first) =
        open(url, tls, request, notes.connection).await.context("the gateway cannot be reached")?;
    notes.note(LinkEvent::Opened(query)).await;
    let (mut client_read, mut client_write) = client.into_split();
    if !early.is_empty() {
        gateway.write_all(&early).await?;
        notes.note(LinkEvent::Client(early)).await;
    }
    if !first.is_empty() {
        client_write.write_all(&first).await?;
        notes.note(LinkEvent::Gateway(first)).await;
    }
    let (mut gateway_read, mut gateway_write) = tokio::io::split(gateway);
    let down = async {
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let read = gateway_read.read(&mut chunk).await.unwrap_or(0);
            if read == 0 || client_write.write_all(&chunk[..read]).await.is_err() {
                let _ = client_write.shutdown().await;
                return if read == 0 { "gateway" } else { "client" };
            }
            notes.note(LinkEvent::Gateway(chunk[..read].to_vec())).await;
        }
    };
    let up = async {
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let read = client_read.read(&mut chunk).await.unwrap_or(0);
            if read == 0 || gateway_write.write_all(&chunk[..read]).await.is_err() {
                let _ = gateway_write.shutdown().await;
                return if read == 0 { "client" } else { "gateway" };
            }
            notes.note(LinkEvent::Client(chunk[..read].to_vec())).await;
        }
    };
    let by = tokio::select! {
        by = down => by,
        by = up => by,
    };
    notes.note(LinkEvent::Ended { by }).await;
    Ok(())
}

/// The upgrade at the gateway, with the client's path and query. Returns what arrived behind the answer.
async fn open(
    url: &Uri,
    tls: Option<&TlsConnector>,
    request: &ClientRequest,
    connection: u64,
) -> Result<(Box<dyn Stream>, Vec<u8>)> {
    let mut gateway = connect(url, tls).await.map_err(|error| match error {
        ConnectError::Tls(error) => anyhow::Error::new(error).context(format!(
            "its certificate was not trusted: it must name {} (subjectAltName), and be in the file of --ca or signed by a \
             certificate there; without --ca, by one that this system trusts",
            url.host().unwrap_or_default()
        )),
        error => error.into(),
    })?;
    let path = match url.path() {
        "/" | "" => &request.path,
        path => path,
    };
    let target = format!("{path}?{}", request.query);
    ensure!(
        target.bytes().all(|byte| byte.is_ascii_graphic()),
        "the path of the client has other characters than ASCII"
    );
    let mut nonce = [0x5a; 16];
    nonce[..8].copy_from_slice(&connection.to_le_bytes());
    let handshake = ClientHandshake::new(url.authority().map_or("", |of| of.as_str()), &target, nonce);
    gateway.write_all(handshake.request()).await?;
    let mut answer = Vec::new();
    loop {
        let read = gateway.read_buf(&mut answer).await?;
        ensure!(read > 0, "the connection ended in the handshake");
        if let Some(head_bytes) = handshake.check_answer(&answer)? {
            let first = answer.split_off(head_bytes);
            return Ok((gateway, first));
        }
    }
}
