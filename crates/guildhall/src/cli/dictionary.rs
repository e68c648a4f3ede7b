//! `guildhall dictionary`: training and inspection of compression dictionaries.

use super::{Failure, say};
use crate::dictionaries;
use anyhow::{Context as _, anyhow};
use clap::{Args, Subcommand, ValueEnum};
use guildhall_codec::{DICTIONARY_BYTES, Dictionary, Encoding};
use guildhall_lab::{TrafficKind, samples_of_file, samples_of_traffic};
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
  guildhall serve --set codec.dictionaries_dir=dictionaries

A dictionary's file is named by the hash of its bytes. Training again adds
files. Remove old ones when no client requests them any more: the node closes
such clients with 4002, and a reason that says what to do.

--samples takes one whole message per line, as a client receives it:
  {\"t\":\"MESSAGE_CREATE\",\"s\":7,\"op\":0,\"d\":{…}}
Leave out private messages: the node serves a dictionary to everybody.";

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
    #[arg(long, value_name = "FILE", conflicts_with_all = ["traffic", "chat", "seed"])]
    samples: Vec<PathBuf>,
    /// Encoding that the dictionary is for
    #[arg(long, value_enum, default_value_t = For::Both)]
    encoding: For,
    /// Largest size of the dictionary, bytes
    #[arg(long, value_name = "BYTES", default_value_t = DICTIONARY_BYTES)]
    bytes: usize,
    /// Seed of the synthetic traffic
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
        DictionaryCommand::Show { dir } => {
            let known = dictionaries::load(dir).map_err(|error| Failure::Other(anyhow!(error)))?;
            known.iter().for_each(|known| say(&line(known.encoding, &known.dictionary)));
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
    for encoding in encodings {
        let samples = if args.samples.is_empty() {
            samples_of_traffic(args.traffic.kind(), args.seed, &chat, *encoding)?
        } else {
            let mut samples = Vec::new();
            for path in &args.samples {
                let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
                let read = samples_of_file(&text, *encoding).with_context(|| path.display().to_string());
                samples.extend(read.map_err(Failure::Usage)?);
            }
            samples
        };
        let trained = Dictionary::train(&samples, args.bytes).map_err(|error| Failure::Usage(anyhow!(error)))?;
        dictionaries::store(&args.out, *encoding, &trained)?;
        say(&line(*encoding, &trained));
    }
    Ok(())
}
