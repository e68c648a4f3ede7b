//! `guildhall lab record`: what sessions of the nodes are sent, in files.

use super::{
    Failure,
    lab::SessionFilter,
    lab_nodes::{NodeChoice, Target, targets, warn_of},
    remote::{Asking, Remote},
    say,
};
use anyhow::{Context as _, anyhow};
use clap::Args;
use guildhall_lab::{FORMAT, Header, RecordingWriter, VERSION};
use serde::Deserialize;
use serde_json::json;
use std::{
    fs::{self, File},
    future::Future,
    io::Write as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Interval of the requests for frames.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// A node that does not answer for this time is given up.
const SILENT_MAX: Duration = Duration::from_secs(10);
/// Bytes of a request for frames: what fits an answer that comes from another node.
const FRAMES_BYTES: usize = 512 << 10;
const RECORDINGS: &str = "/v1/lab/recordings";

#[derive(Args, Debug)]
pub(super) struct RecordArgs {
    /// File to write; further ones have .1, .2 and so on behind the name
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Record one session in this many
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    one_in: u32,
    /// Record at most this many sessions of each node
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    sessions: u32,
    /// End after this time
    #[arg(long, value_name = "MINUTES", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1_440))]
    minutes: u64,
    /// End after this many megabytes of a node, compressed
    #[arg(long, value_name = "MB", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=4_096))]
    megabytes: u64,
    /// Begin another file after this many megabytes
    #[arg(long, value_name = "MB", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=4_096))]
    file_megabytes: u64,
    #[command(flatten)]
    filter: SessionFilter,
    /// Also direct messages, and channels that not every member may view
    #[arg(long)]
    private: bool,
    /// Write texts, names and ids of your users into the file as they are
    #[arg(long)]
    with_contents_of_users: bool,
    #[command(flatten)]
    choice: NodeChoice,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Deserialize)]
struct Recording {
    id: String,
    started_at: u64,
    ended: Option<String>,
    scrubbed: bool,
    private: bool,
    node: Option<u32>,
    sessions: u64,
    sessions_now: u64,
    sessions_full: u64,
    dispatches: u64,
    left_out: u64,
    bytes: u64,
}

/// Files of a recording, a new one after `bytes_max`.
struct Files {
    first: PathBuf,
    number: u32,
    file: File,
    bytes: u64,
    bytes_max: u64,
    /// Header of the recording whose frames were written last.
    header: Vec<u8>,
}

impl Files {
    /// Appends whole frames of the node with this header.
    fn write(&mut self, header: &[u8], frames: &[u8]) -> anyhow::Result<()> {
        if self.bytes >= self.bytes_max {
            self.number += 1;
            let mut name = self.first.clone().into_os_string();
            name.push(format!(".{}", self.number));
            self.file = create(Path::new(&name))?;
            (self.bytes, self.header) = (0, Vec::new());
        }
        // Each recording begins with its header, and so does a file.
        if self.header != header && !frames.starts_with(header) {
            self.append(header)?;
        }
        if self.header != header {
            self.header = header.to_vec();
        }
        self.append(frames)
    }

    fn append(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let written = self.file.write_all(bytes);
        written.with_context(|| format!("{} cannot be written: is the disk full?", self.first.display()))?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }
}

/// A file is never overwritten: recordings cannot be made again.
fn create(path: &Path) -> anyhow::Result<File> {
    let made = fs::OpenOptions::new().write(true).create_new(true).open(path);
    made.with_context(|| {
        format!("{} cannot be made: name a file that does not exist, in a folder that does", path.display())
    })
}

/// The recording of one node.
struct Source {
    node: Target,
    path: String,
    header: Vec<u8>,
    from: u64,
    recording: Recording,
    silent_since: Option<Instant>,
    is_over: bool,
}

impl Source {
    fn new(node: Target, recording: Recording) -> anyhow::Result<Self> {
        let Recording { scrubbed, private, started_at, node: number, .. } = recording;
        let header =
            Header { format: FORMAT.to_owned(), version: VERSION, scrubbed, private, started_at, node: number };
        let (path, header) = (format!("{RECORDINGS}/{}", recording.id), RecordingWriter::header(&header)?);
        Ok(Self { node, path, header, from: 0, recording, silent_since: None, is_over: false })
    }

    /// All frames that there are now: they end with a whole one.
    async fn frames(&mut self, asking: &Asking) -> anyhow::Result<Vec<u8>> {
        // What ended before the frames were read has no later ones.
        self.recording = asking.get(&self.node.path(&self.path)).await?;
        let mut all = Vec::new();
        loop {
            let from = self.from + all.len() as u64;
            let path = format!("{}/frames?from={from}&bytes_max={FRAMES_BYTES}", self.path);
            let frames = asking.bytes(&self.node.path(&path)).await?;
            all.extend_from_slice(&frames);
            if frames.is_empty() {
                return Ok(all);
            }
        }
    }

    /// Writes the frames that there are. A node that is silent for too long is given up.
    async fn advance(&mut self, asking: &Asking, files: &mut Files) -> anyhow::Result<()> {
        match self.frames(asking).await {
            Ok(frames) => {
                if !frames.is_empty() {
                    files.write(&self.header, &frames)?;
                    self.from += frames.len() as u64;
                }
                self.silent_since = None;
                if self.recording.ended.is_some() {
                    self.is_over = true;
                    // It has ended: the node drops it. A node that is away has dropped it.
                    let _ = asking.delete(&self.node.path(&self.path)).await;
                }
            }
            Err(error) => {
                let since = *self.silent_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= SILENT_MAX {
                    self.is_over = true;
                    let seconds = SILENT_MAX.as_secs();
                    let node = &self.node;
                    eprintln!("{node} is given up after {seconds} s: {error:#}. The file has what it sent until then");
                }
            }
        }
        Ok(())
    }

    fn is_lost(&self) -> bool {
        self.is_over && self.recording.ended.is_none()
    }
}

pub(super) async fn record(
    args: RecordArgs,
    environment: &[(String, String)],
    stop: impl Future<Output = ()>,
) -> Result<(), Failure> {
    let asking = args.remote.asking(environment)?;
    let nodes = targets(&asking, &args.choice).await?;
    let file = create(&args.out).map_err(Failure::Usage)?;
    let plan = json!({
        "one_in": args.one_in,
        "sessions_max": args.sessions,
        "seconds_max": args.minutes * 60,
        "bytes_max": args.megabytes << 20,
        "guild_id": args.filter.guild.map(|guild| guild.to_string()),
        "platform": args.filter.platform,
        "encoding": args.filter.encoding,
        "private": args.private,
        "scrub": !args.with_contents_of_users,
    });
    let mut sources = Vec::new();
    let mut refusals = Vec::new();
    for node in nodes {
        match asking.send::<Recording>(&node.path(RECORDINGS), &plan).await {
            Ok(recording) => sources.push(Source::new(node, recording)?),
            Err(error) => refusals.push((node, error)),
        }
    }
    if sources.is_empty() {
        let _ = fs::remove_file(&args.out);
    }
    warn_of(refusals, sources.is_empty())?;
    eprintln!("recording {} for {} min; Ctrl + C ends it", args.out.display(), args.minutes);
    if sources.iter().any(|source| !source.recording.scrubbed) {
        eprintln!("WARNING: the file has texts, names and ids of your users");
    }
    let first = args.out.clone();
    let mut files =
        Files { first, number: 0, file, bytes: 0, bytes_max: args.file_megabytes << 20, header: Vec::new() };
    let mut stop = Box::pin(stop);
    let mut is_stopped = false;
    loop {
        for source in sources.iter_mut().filter(|source| !source.is_over) {
            source.advance(&asking, &mut files).await?;
        }
        if sources.iter().all(|source| source.is_over) {
            break;
        }
        let next = tokio::time::sleep(ASK_EVERY);
        tokio::select! {
            () = next => {}
            () = &mut stop, if !is_stopped => {
                is_stopped = true;
                for source in sources.iter().filter(|source| !source.is_over && source.recording.ended.is_none()) {
                    // A node that is away is given up in time.
                    let _ = asking.delete(&source.node.path(&source.path)).await;
                }
            }
        }
    }
    for source in &sources {
        source.report(&args);
    }
    match sources.iter().filter(|source| source.is_lost()).count() {
        0 => Ok(()),
        lost => Err(Failure::Other(anyhow!(
            "{lost} of {} nodes went away before the end: {} is whole up to then",
            sources.len(),
            args.out.display()
        ))),
    }
}

impl Source {
    fn report(&self, args: &RecordArgs) {
        let Recording { sessions, sessions_now, dispatches, bytes, sessions_full, left_out, ended, .. } =
            &self.recording;
        let of_node = if self.node.is_alone() { String::new() } else { format!(" of {}", self.node) };
        let ended = ended.as_deref().unwrap_or("the node went away");
        say(&format!(
            "{}{of_node}: {sessions} sessions, {dispatches} dispatches, {bytes} bytes; ended: {ended}\n",
            args.out.display(),
        ));
        if *sessions_full > 0 {
            let whole = sessions - sessions_full;
            eprintln!(
                "{sessions_full} sessions{of_node} ended early, because the node had no time for them: the newest end \
                 first, and {whole} are in full. To have all in full, record fewer (--sessions {})",
                whole.max(1)
            );
        }
        if *left_out > 0 {
            eprintln!("left out: {left_out} events that a backend defines, because their fields cannot be scrubbed");
        }
        if *dispatches == 0 && *sessions_now == 0 {
            eprintln!("no session was sent anything that may be recorded: is there one that the arguments admit?");
        }
    }
}
