//! `guildhall replay`: serves a capture as a gateway.
//!
//! Not here    the gateway and the file's format: `guildhall-rehearsal`.

use super::{Failure, say};
use anyhow::Context as _;
use clap::Args;
use guildhall_rehearsal::{Capture, ReplayParams, Replayer};
use std::{fs::File, future::Future, io::BufReader, net::SocketAddr, path::PathBuf};

pub(super) const HELP: &str = "\
Serves the first session of a capture to any number of clients, each from its begin: HELLO, READY
with a session and an address of this gateway, then the dispatches. It answers heartbeats and
RESUME, accepts any token, and serves what libraries read by REST before they connect. Each client
gets the encoding and compression of its URL; with those of the capture, its bytes arrive in the
pieces of the capture.

Examples:
  guildhall replay day.ndjson.zst
  guildhall replay day.ndjson.zst --full-speed --listen 127.0.0.1:9000";

/// Arguments of `guildhall replay`.
#[derive(Args, Debug)]
pub struct ReplayArgs {
    /// A capture, made by `guildhall capture`
    file: PathBuf,
    /// Address to listen at
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7413")]
    listen: SocketAddr,
    /// Send everything at once, instead of at the pace of the capture
    #[arg(long)]
    full_speed: bool,
}

pub(super) async fn run(args: ReplayArgs, stop: impl Future<Output = ()>) -> Result<(), Failure> {
    let name = args.file.display();
    let file = File::open(&args.file).with_context(|| format!("{name} cannot be read")).map_err(Failure::Usage)?;
    let capture = Capture::read(BufReader::new(file)).with_context(|| name.to_string()).map_err(Failure::Usage)?;
    eprintln!("{name}: {} dispatches of {:.1} s", capture.len(), capture.duration().as_secs_f64());
    if capture.unreadable_count() > 0 {
        eprintln!("left out: {} messages that cannot be read", capture.unreadable_count());
    }
    let mut seed = [0; 8];
    aws_lc_rs::rand::fill(&mut seed).map_err(|_| anyhow::anyhow!("the system has no random bytes"))?;
    let params = ReplayParams { listen: args.listen, is_full_speed: args.full_speed, seed: u64::from_le_bytes(seed) };
    let replayer = Replayer::open(capture, params).await?;
    let address = replayer.address();
    eprintln!("gateway ws://{address}, REST http://{address}/api; Ctrl + C ends it");
    let stats = replayer.run(stop).await;
    say(&format!(
        "{} connections, {} IDENTIFY, {} RESUME, {} dispatches; {} clients received all\n",
        stats.connections, stats.identified, stats.resumed, stats.dispatches, stats.completed
    ));
    Ok(())
}
