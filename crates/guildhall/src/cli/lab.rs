//! `guildhall lab`: recordings of what sessions are sent, and what codecs make of them.

use super::{
    Failure,
    lab_dark::{self, DarkCommand},
    lab_dictionary::{self, DictionaryCommand},
    lab_record::{self, RecordArgs},
    say,
};
use crate::dictionaries;
use anyhow::{Context as _, anyhow};
use clap::{Args, Subcommand, builder::PossibleValuesParser};
use guildhall_codec::{Arm, DICTIONARY_BYTES, Dictionaries, Dictionary, Encoding};
use guildhall_lab::{ARMS_MAX, Corpus, DEFAULT_ARMS, RecordingReader, TABLES_SEED, TrafficKind, Trial, summarize};
use guildhall_model::GuildId;
use guildhall_traffic::Chat;
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    future::Future,
    io::{BufReader, Write as _},
    path::{Path, PathBuf},
    time::Instant,
};

pub(super) const HELP: &str = "\
Examples:
  # Record 32 sessions of a running node for five minutes:
  GUILDHALL_KEY=ghk_… guildhall lab record --out talk.ndjson.zst
  # One web session in ten, for an hour, in files of 64 MiB:
  guildhall lab record --out talk.ndjson.zst --one-in 10 --platform web \\
      --minutes 60 --megabytes 1024 --file-megabytes 64 --key-file lab.key
  # What is in it, and what codecs make of it:
  guildhall lab show talk.ndjson.zst
  guildhall lab show talk.ndjson.zst --arm zstd:level=3 --arm zlib:level=9
  # Four arms on a running node, without a file; nothing else is sent:
  guildhall lab dark start --arm zlib --arm zstd --arm zstd:level=3
  guildhall lab dark status --types
  guildhall lab dark stop
  # A dictionary for each encoding, with its gain on other sessions; its text:
  guildhall lab train talk.ndjson.zst --out dictionaries
  guildhall lab show dictionaries --content
  # Without a recording, from generated traffic:
  guildhall lab train --generated session --out dictionaries
  # Serve it to a tenth of the accounts, to all, and to no new connection:
  guildhall lab dictionary stage dictionaries/ID.json.zdict
  guildhall lab dictionary serve ID --permille 100
  guildhall lab dictionary serve ID
  guildhall lab dictionary withdraw ID
  # Many arms by bytes, CPU time and memory; stops and goes on:
  guildhall lab tune talk.ndjson.zst --state tune.ndjson --svg tune.svg
  # The recording with other tools:
  zstd -dc talk.ndjson.zst | jq -r .event | sort | uniq -c

`record`, `dark` and `dictionary` need a key with the scope `lab`. Names,
texts, ids, links and times become surrogates before they leave the node;
direct messages and channels that not every member may view are not recorded.
Keep recordings confidential all the same: docs/lab.md says why.";

/// Arguments of `lab`.
#[derive(Args, Debug)]
pub struct LabArgs {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    /// Record what a share of the sessions of the running nodes is sent
    Record(RecordArgs),
    /// Print what recordings contain, and what arms make of it
    Show(ShowArgs),
    /// Train dictionaries on recordings, and print what they gain on sessions that they were not trained on
    Train(TrainArgs),
    /// Try many arms on recordings, and print the best by bytes, CPU time and memory
    Tune(TuneArgs),
    /// Compress what a share of the running nodes' sessions is sent in other arms too, and drop the bytes
    #[command(subcommand)]
    Dark(DarkCommand),
    /// Stage dictionaries on a running node, serve them to a share of the accounts, and withdraw them
    #[command(subcommand)]
    Dictionary(DictionaryCommand),
}

#[derive(Args, Debug)]
pub(super) struct SessionFilter {
    /// Only members of this guild
    #[arg(long, value_name = "ID")]
    pub guild: Option<GuildId>,
    /// Only sessions on this platform
    #[arg(long, value_parser = PossibleValuesParser::new(["desktop", "mobile", "web", "embedded", "vr"]))]
    pub platform: Option<String>,
    /// Only sessions with this encoding
    #[arg(long, value_parser = PossibleValuesParser::new(["json", "etf"]))]
    pub encoding: Option<String>,
}

#[derive(Args, Debug)]
struct ShowArgs {
    /// Recordings; files of one recording in their order. Or one folder of dictionaries
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Compare these arms, such as zstd:level=3,window=21; may be repeated [default: zlib, zstd-once,
    /// zstd:level=3, zstd, shared-match]
    #[arg(long = "arm", value_name = "ARM", value_parser = arm)]
    arms: Vec<Arm>,
    /// Folder of the dictionaries that arms name
    #[arg(long, value_name = "DIR")]
    dictionaries: Option<PathBuf>,
    /// Of a folder of dictionaries: print their content as well
    #[arg(long)]
    content: bool,
}

#[derive(Args, Debug)]
struct TrainArgs {
    /// Recordings; files of one recording in their order
    #[arg(required_unless_present = "generated", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Train on generated traffic of this kind instead, without a trial of sizes
    #[arg(long, value_enum, value_name = "KIND", conflicts_with = "files")]
    generated: Option<TrafficKind>,
    /// Message texts of the generated traffic: a file with one message per line, as text or as JSON with a `text`
    #[arg(long, value_name = "FILE", requires = "generated", conflicts_with = "files")]
    chat: Option<PathBuf>,
    /// Size of a dictionary from generated traffic, bytes [default: 65536]
    #[arg(long, requires = "generated", conflicts_with = "files")]
    bytes: Option<usize>,
    /// Seed of the generated traffic [default: 1, with --tables 1099511627776]
    #[arg(long, requires = "generated", conflicts_with = "files")]
    seed: Option<u64>,
    /// Train the entropy tables that shared-match is built with (json.bin, etf.bin), on all kinds of generated traffic
    #[arg(long, requires = "generated", conflicts_with_all = ["files", "bytes"])]
    tables: bool,
    /// Folder for the files, created if missing; codec.dictionaries_dir may name it
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Train on fewer than 3,000 dispatches, as a test does
    #[arg(long)]
    allow_few_samples: bool,
}

#[derive(Args, Debug)]
struct TuneArgs {
    /// Recordings; files of one recording in their order
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Try this many random arms [default: a grid]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    random: Option<u32>,
    /// Seed of the random arms
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Try these arms as well; may be repeated
    #[arg(long = "arm", value_name = "ARM", value_parser = arm)]
    arms: Vec<Arm>,
    /// File for measurements; a search that was stopped goes on from it
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Picture of all measurements
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

pub(super) fn arm(text: &str) -> Result<Arm, String> {
    text.parse().map_err(|error: guildhall_codec::ArmError| error.to_string())
}

pub(super) async fn run(
    args: LabArgs,
    environment: &[(String, String)],
    stop: impl Future<Output = ()>,
) -> Result<(), Failure> {
    match args.command {
        LabCommand::Record(args) => lab_record::record(args, environment, stop).await,
        LabCommand::Show(args) => show(&args),
        LabCommand::Train(args) => train(&args),
        LabCommand::Tune(args) => tune(&args),
        LabCommand::Dark(command) => lab_dark::run(command, environment).await,
        LabCommand::Dictionary(command) => lab_dictionary::run(command, environment).await,
    }
}

impl LabArgs {
    /// Whether the command writes dictionaries or tables.
    pub(super) fn is_training(&self) -> bool {
        matches!(self.command, LabCommand::Train(_))
    }
}

/// Lists the dictionaries of a folder, and checks them.
fn show_dictionaries(dir: &Path, has_content: bool) -> Result<(), Failure> {
    let known = dictionaries::load(dir).map_err(|error| Failure::Other(anyhow!(error)))?;
    for known in known.iter() {
        say(&dictionary_line(known.encoding, &known.dictionary));
        if has_content {
            say(&text_of(known.dictionary.bytes()));
        }
    }
    Ok(())
}

fn dictionary_line(encoding: Encoding, dictionary: &Dictionary) -> String {
    format!("{}  {:<4}  {} bytes\n", dictionary.id(), encoding.name(), dictionary.bytes().len())
}

/// Printable ASCII as it is, other runs of bytes as a dot, in lines.
fn text_of(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b' '..=b'~' => text.push(char::from(*byte)),
            _ if text.ends_with('·') => {}
            _ => text.push('·'),
        }
    }
    text.push('\n');
    text
}

fn show(args: &ShowArgs) -> Result<(), Failure> {
    if let [dir] = &*args.files
        && dir.is_dir()
    {
        return show_dictionaries(dir, args.content);
    }
    if args.arms.len() > ARMS_MAX {
        return Err(Failure::Usage(anyhow!("{} arms are too many: give at most {ARMS_MAX}", args.arms.len())));
    }
    let defaults = || DEFAULT_ARMS.iter().filter_map(|text| text.parse().ok()).collect();
    let arms: Vec<Arm> = if args.arms.is_empty() { defaults() } else { args.arms.clone() };
    let known = args.dictionaries.as_deref().map(dictionaries::load).transpose();
    let known: Dictionaries = known.map_err(|error| Failure::Usage(anyhow!(error)))?.unwrap_or_default();
    let names = args.files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ");
    let mut reader = open(&args.files).map_err(Failure::Usage)?;
    let summary = summarize(&mut reader, &arms, &known).map_err(Failure::Usage)?;
    let header = reader.header();
    let kind = if header.scrubbed { "scrubbed" } else { "with contents of users" };
    let private = if header.private { ", with private channels" } else { "" };
    say(&format!("{names}: version {}, {kind}{private}\n{}", header.version, summary.text()));
    Ok(())
}

fn corpus(files: &[PathBuf]) -> Result<Corpus, Failure> {
    let mut reader = open(files).map_err(Failure::Usage)?;
    let corpus = Corpus::read(&mut reader).map_err(Failure::Usage)?;
    if corpus.left_out_count > 0 {
        eprintln!("left out: {} dispatches, because there is no room for more in memory", corpus.left_out_count);
    }
    Ok(corpus)
}

fn train(args: &TrainArgs) -> Result<(), Failure> {
    fs::create_dir_all(&args.out).with_context(|| format!("making {}", args.out.display()))?;
    if let Some(kind) = args.generated {
        return train_on_generated(args, kind);
    }
    let corpus = corpus(&args.files)?;
    let samples_min = args.allow_few_samples.then_some(1);
    for encoding in corpus.encodings() {
        let progress = |name: &str| eprintln!("{}: {name}", encoding.name());
        let trained = guildhall_lab::train(&corpus, encoding, samples_min, progress).map_err(Failure::Usage)?;
        dictionaries::store(&args.out, encoding, &trained.dictionary)?;
        let (id, bytes) = (trained.dictionary.id(), trained.dictionary.bytes().len());
        say(&format!("{id}  {}  {bytes} bytes, {}\n{}\n", encoding.name(), trained.by, trained.text()));
    }
    Ok(())
}

fn train_on_generated(args: &TrainArgs, kind: TrafficKind) -> Result<(), Failure> {
    let chat = match &args.chat {
        None => Chat::built_in(),
        Some(path) => {
            let text = fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()));
            let text = text.map_err(Failure::Usage)?;
            Chat::parse(&text).with_context(|| path.display().to_string()).map_err(Failure::Usage)?
        }
    };
    if args.tables {
        // The other half of given texts is what benches measure with.
        let [learned, _] = if args.chat.is_some() { chat.halves() } else { [chat.clone(), chat] };
        for encoding in [Encoding::Json, Encoding::Etf] {
            let tables = guildhall_lab::train_tables(encoding, args.seed.unwrap_or(TABLES_SEED), &learned);
            let path = args.out.join(format!("{}.bin", encoding.name()));
            fs::write(&path, tables).with_context(|| format!("writing {}", path.display()))?;
            say(&format!("{}\n", path.display()));
        }
        return Ok(());
    }
    let (seed, bytes) = (args.seed.unwrap_or(1), args.bytes.unwrap_or(DICTIONARY_BYTES));
    for encoding in [Encoding::Json, Encoding::Etf] {
        let trained = guildhall_lab::train_dictionary(kind.kind(), seed, &chat, encoding, bytes);
        let trained = trained.map_err(Failure::Usage)?;
        dictionaries::store(&args.out, encoding, &trained)?;
        say(&dictionary_line(encoding, &trained));
    }
    Ok(())
}

fn tune(args: &TuneArgs) -> Result<(), Failure> {
    let mut arms = match args.random {
        Some(count) => guildhall_lab::random(count as usize, args.seed),
        None => guildhall_lab::grid(),
    };
    arms.extend(args.arms.iter().filter(|arm| !arms.contains(arm)).copied().collect::<Vec<_>>());
    let corpus = corpus(&args.files)?;
    let mut trials = match &args.state {
        Some(path) if path.exists() => known_trials(path, &corpus).map_err(Failure::Usage)?,
        _ => Vec::new(),
    };
    let mut state = args.state.as_deref().map(|path| open_state(path, &corpus)).transpose()?;
    let open: Vec<Arm> = arms.into_iter().filter(|arm| !trials.iter().any(|of| of.arm == arm.to_string())).collect();
    let started = Instant::now();
    for (done, arm) in open.iter().enumerate() {
        let left = match done {
            0 => String::new(),
            done => {
                format!(", {:.0} s left", started.elapsed().as_secs_f64() / done as f64 * (open.len() - done) as f64)
            }
        };
        eprintln!("{}/{}{left}: {arm}", done + 1, open.len());
        match guildhall_lab::measure(&corpus, *arm, &Dictionaries::default()) {
            Ok(trial) => {
                if let Some(state) = &mut state {
                    let line = serde_json::to_string(&trial)?;
                    writeln!(state, "{line}").context("writing the file of --state")?;
                }
                trials.push(trial);
            }
            Err(error) => eprintln!("left out: {error:#}"),
        }
    }
    if let Some(path) = &args.svg {
        fs::write(path, guildhall_lab::svg(&trials)).with_context(|| format!("writing {}", path.display()))?;
    }
    say(&guildhall_lab::table(&trials));
    Ok(())
}

/// First line of a file of measurements: of which recording they are.
#[derive(Debug, PartialEq, Eq, Deserialize, Serialize)]
struct StateHead {
    started_at: u64,
    dispatches: usize,
}

impl StateHead {
    fn of(corpus: &Corpus) -> Self {
        Self { started_at: corpus.header.started_at, dispatches: corpus.messages.len() }
    }
}

fn open_state(path: &Path, corpus: &Corpus) -> anyhow::Result<File> {
    let is_new = !path.exists();
    let file = fs::OpenOptions::new().create(true).append(true).open(path);
    let mut file = file.with_context(|| format!("{} cannot be written", path.display()))?;
    if is_new {
        writeln!(file, "{}", serde_json::to_string(&StateHead::of(corpus))?).context("writing the file of --state")?;
    }
    Ok(file)
}

/// Measurements of an earlier search. A last line that was cut is measured again.
fn known_trials(path: &Path, corpus: &Corpus) -> anyhow::Result<Vec<Trial>> {
    let text = fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
    let mut lines = text.lines();
    let head: Option<StateHead> = lines.next().and_then(|line| serde_json::from_str(line).ok());
    anyhow::ensure!(
        head == Some(StateHead::of(corpus)),
        "{} has measurements of another recording: name a file that does not exist",
        path.display()
    );
    Ok(lines.filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// Recordings, one after the other. Each is looked at before the first is read.
fn open(files: &[PathBuf]) -> anyhow::Result<RecordingReader<BufReader<File>>> {
    let one = |path: &PathBuf| {
        let name = path.display().to_string();
        anyhow::ensure!(!path.is_dir(), "{name} is a folder: name the recordings in it");
        let file = File::open(path).with_context(|| format!("{name} cannot be read"))?;
        Ok((name, BufReader::new(file)))
    };
    RecordingReader::of_files(files.iter().map(one).collect::<anyhow::Result<Vec<_>>>()?)
}
