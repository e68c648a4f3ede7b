//! `guildhall capture`: records the bytes of a gateway.
//!
//! Not here    the proxy and the file's format: `guildhall-rehearsal`.

use super::{Failure, say};
use anyhow::anyhow;
use clap::Args;
use guildhall_rehearsal::CaptureParams;
use std::{future::Future, net::SocketAddr, path::PathBuf};

pub(super) const HELP: &str = "\
Stands between clients and a gateway until Ctrl + C. The file has the gateway's TCP chunks with
their times, its WebSocket frames decompressed, and the clients' payloads. Texts, ids, times and
tokens are replaced by surrogates of the same length on the way to the file; the key of the
surrogates is not kept. The bytes between client and gateway are not changed.

Capture your own gateway, or one whose owner agrees. The terms of other services may forbid to
record their traffic, to keep it or to pass it on, also of an account of your own; the surrogates
do not change that. What other people wrote is theirs.

The proxy answers /gateway and /gateway/bot with its own address. A client resumes at the
resume_gateway_url of READY, which the proxy does not change: start your node with --public-url
ws://ADDR of the proxy, or else what follows a reconnection is not in the file.

Examples:
  guildhall demo --public-url ws://127.0.0.1:7412
  guildhall capture --listen 127.0.0.1:7412 --to ws://127.0.0.1:8080 --out day.ndjson.zst
  zstd -dc day.ndjson.zst | jq -r 'select(.frame.text) | .frame.text' | jq -r .t | sort | uniq -c";

/// Arguments of `guildhall capture`.
#[derive(Args, Debug)]
pub struct CaptureArgs {
    /// Address to listen at
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7412")]
    listen: SocketAddr,
    /// URL of the gateway: ws://HOST:PORT or wss://HOST, without a query
    #[arg(long, value_name = "URL", value_parser = gateway_url)]
    to: String,
    /// Certificates to trust, instead of the system's: a PEM file
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// File for the capture, which must not exist
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Replace nothing: the file has tokens, messages and names, so keep it as you keep passwords
    #[arg(long)]
    with_contents_of_users: bool,
}

fn gateway_url(text: &str) -> Result<String, String> {
    match text.starts_with("ws://") || text.starts_with("wss://") {
        true => Ok(text.to_owned()),
        false => Err("expected ws://HOST:PORT or wss://HOST".to_owned()),
    }
}

pub(super) async fn run(args: CaptureArgs, stop: impl Future<Output = ()>) -> Result<(), Failure> {
    let key = match args.with_contents_of_users {
        true => None,
        false => {
            let mut key = [0; 32];
            aws_lc_rs::rand::fill(&mut key).map_err(|_| anyhow!("the system has no random bytes"))?;
            Some(key)
        }
    };
    if key.is_none() {
        eprintln!("the file will have tokens and what people wrote: keep it as you keep passwords");
    }
    let CaptureArgs { listen, to, ca, out, .. } = args;
    let params = CaptureParams { listen, to: to.clone(), ca, out, key };
    let listening = |address| eprintln!("listening at ws://{address}, for {to}; Ctrl + C ends the capture");
    let summary = guildhall_rehearsal::capture(params, listening, stop).await?;
    say(&format!(
        "{} connections, {} chunks, {} frames, {} bytes of the gateway, {} payloads of clients\n",
        summary.connections, summary.chunks, summary.frames, summary.bytes, summary.client_payloads
    ));
    if summary.unreadable > 0 {
        eprintln!("{} frames have no content, because it cannot be scrubbed", summary.unreadable);
    }
    Ok(())
}
