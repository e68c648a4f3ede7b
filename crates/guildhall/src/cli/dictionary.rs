//! `guildhall dictionary`: training and inspection of compression dictionaries.

use super::{Failure, say};
use crate::dictionaries;
use anyhow::{Context as _, anyhow};
use clap::{Args, Subcommand, ValueEnum};
use guildhall_codec::{DICTIONARY_BYTES, Dictionary, Encoding};
use guildhall_lab::{Recording, SAMPLES_MIN, TrafficKind, samples_of_traffic};
use guildhall_traffic::Chat;
use std::{fs, path::PathBuf};

pub(super) const HELP: &str = "\
Examples:
  # From synthetic traffic, for JSON and ETF:
  guildhall dictionary train --out dictionaries
  # The same, with texts of your own:
  guildhall dictionary train --chat talk.ndjson --out dictionaries
  # From recorded messages:
  guildhall dictionary train --samples recorded.ndjson --out dictionaries
  guildhall dictionary show dictionaries
  # All of its text, before it is served:
  guildhall dictionary show --content dictionaries
  guildhall serve --set codec.dictionaries_dir=dictionaries

A dictionary's file is named by the hash of its bytes. Training again adds
files. Remove old ones when no client requests them any more: the node closes
such clients with 4002, and a reason that says what to do.

--samples takes one whole message per line, as a client receives it:
  {\"t\":\"MESSAGE_CREATE\",\"s\":7,\"op\":0,\"d\":{…}}
The node serves a dictionary to everybody, without a token. So every text of a
recording and every number with more than five digits (ids, names, contents,
tokens, URLs, hashes, times) is replaced by an invented one of the same length.
What remains: the names of fields, numbers up to five digits, and words of the
protocol such as \"online\". Events of your backend are left out.";

/// `guildhall dictionary`.
#[derive(Debug, Args)]
pub struct DictionaryArgs {
    #[command(subcommand)]
    command: DictionaryCommand,
}

#[derive(Debug, Subcommand)]
enum DictionaryCommand {
    /// Train a dictionary for each encoding
    Train(TrainArgs),
    /// List the dictionaries of a folder, and check them
    Show {
        /// Folder of the dictionaries
        dir: PathBuf,
        /// Print the content of each as well
        #[arg(long)]
        content: bool,
    },
}

#[derive(Debug, Args)]
struct TrainArgs {
    /// Train on synthetic traffic of this kind
    #[arg(long, value_enum, default_value_t = TrafficKind::Session)]
    traffic: TrafficKind,
    /// Message texts of that traffic: a file with one message per line, as text or as JSON with a `text`
    #[arg(long, value_name = "FILE")]
    chat: Option<PathBuf>,
    /// Train on these messages instead; may be repeated
    #[arg(long, value_name = "FILE", conflicts_with_all = ["traffic", "chat"])]
    samples: Vec<PathBuf>,
    /// Train on fewer than 3,000 recorded messages, as a test does
    #[arg(long, requires = "samples")]
    allow_few_samples: bool,
    /// Encoding that the dictionary is for
    #[arg(long, value_enum, default_value_t = For::Both)]
    encoding: For,
    /// Largest size of the dictionary, bytes
    #[arg(long, value_name = "BYTES", default_value_t = DICTIONARY_BYTES)]
    bytes: usize,
    /// Seed of the synthetic traffic, and of what replaces texts of --samples
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Folder for the dictionaries, created if missing
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum For {
    Json,
    Etf,
    Both,
}

pub(super) fn run(args: &DictionaryArgs) -> Result<(), Failure> {
    match &args.command {
        DictionaryCommand::Train(args) => train(args),
        DictionaryCommand::Show { dir, content } => {
            let known = dictionaries::load(dir).map_err(|error| Failure::Other(anyhow!(error)))?;
            for known in known.iter() {
                say(&line(known.encoding, &known.dictionary));
                if *content {
                    say(&text_of(known.dictionary.bytes()));
                }
            }
            Ok(())
        }
    }
}

fn line(encoding: Encoding, dictionary: &Dictionary) -> String {
    let encoding = encoding.name();
    format!("{}  {encoding:<4}  {} bytes\n", dictionary.id(), dictionary.bytes().len())
}

fn train(args: &TrainArgs) -> Result<(), Failure> {
    let encodings: &[Encoding] = match args.encoding {
        For::Json => &[Encoding::Json],
        For::Etf => &[Encoding::Etf],
        For::Both => &[Encoding::Json, Encoding::Etf],
    };
    fs::create_dir_all(&args.out).with_context(|| format!("making {}", args.out.display()))?;
    let chat = match &args.chat {
        None => Chat::built_in(),
        Some(path) => {
            let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
            Chat::parse(&text).with_context(|| path.display().to_string()).map_err(Failure::Usage)?
        }
    };
    let recording = if args.samples.is_empty() { None } else { Some(recording(args)?) };
    for encoding in encodings {
        let samples = match &recording {
            None => samples_of_traffic(args.traffic.kind(), args.seed, &chat, *encoding)?,
            Some(recording) => recording.samples(*encoding)?,
        };
        let trained = Dictionary::train(&samples, args.bytes).map_err(|error| Failure::Usage(anyhow!(error)))?;
        dictionaries::store(&args.out, *encoding, &trained)?;
        say(&line(*encoding, &trained));
    }
    Ok(())
}

/// Reads the recordings, and tells what a dictionary of them contains.
fn recording(args: &TrainArgs) -> Result<Recording, Failure> {
    let mut texts = Vec::new();
    for path in &args.samples {
        texts.push(fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?);
    }
    let files = args.samples.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    let read = Recording::read(texts.iter().map(String::as_str), args.seed).with_context(|| files.clone());
    let recording = read.map_err(Failure::Usage)?;
    let counts = recording.counts();
    let count: usize = counts.iter().map(|(_, count)| count).sum();
    let names: Vec<_> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    eprintln!("{files}: {count} messages ({})", names.join(", "));
    if recording.own_count + recording.long_count > 0 {
        let Recording { own_count, long_count, .. } = recording;
        eprintln!("left out: {own_count} events of a backend's own, {long_count} of more than 16 KiB");
    }
    eprintln!(
        "what the dictionary keeps: names of fields, numbers up to five digits, words of the protocol. All other texts \
         and numbers are invented. `guildhall dictionary show --content` prints it"
    );
    if count < SAMPLES_MIN && !args.allow_few_samples {
        return Err(Failure::Usage(anyhow!(
            "{count} messages are too few for a dictionary, which needs {SAMPLES_MIN}: record for longer, or leave \
             --samples out to train on generated traffic (--allow-few-samples is for tests)"
        )));
    }
    if count < SAMPLES_MIN {
        eprintln!("WARNING: {count} messages are too few: do not serve this dictionary, it saves little or nothing");
    }
    Ok(recording)
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
