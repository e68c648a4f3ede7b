//! Dictionaries, from samples to files and from files to what the node serves.
//!
//! Owns        `train`: what is learned from.
//! Invariants  samples are whole messages as they are sent, envelope included; what is sent to one session alone is left
//!             out, since it is too large to be learned by heart.

use anyhow::{Context, Result};
use guildhall_codec::{Dictionary, DispatchFrame, Encoding, Framing};
use guildhall_traffic::{Chat, Kind, Params, Traffic, Viewer};

/// Sessions that are listened to, and messages of each.
const SESSIONS: u32 = 6;
const MESSAGES: usize = 2000;
/// Longer ones teach little for what they take.
const SAMPLE_BYTES_MAX: usize = 16 << 10;

/// A dictionary for traffic like this.
///
/// # Errors
/// The codec's.
pub fn train(kind: Kind, seed: u64, chat: &Chat, encoding: Encoding, bytes_max: usize) -> Result<Dictionary> {
    let samples = samples(kind, seed, chat, encoding)?;
    Dictionary::train(&samples, bytes_max).context("training a dictionary")
}

/// What sessions are sent.
fn samples(kind: Kind, seed: u64, chat: &Chat, encoding: Encoding) -> Result<Vec<Vec<u8>>> {
    let viewers: Vec<Viewer> = (0..SESSIONS).map(|index| Viewer::new(seed, index)).collect();
    let mut seqs: Vec<u64> = (0..u64::from(SESSIONS)).map(|index| 1 + index * 3271).collect();
    let mut samples = Vec::new();
    for event in Traffic::new(Params { kind, seed, sessions: 0 }, chat.clone()) {
        if samples.len() >= MESSAGES * SESSIONS as usize {
            break;
        }
        let body = match encoding {
            Encoding::Json => &event.body_json,
            Encoding::Etf => &event.body_etf,
        };
        if body.len() > SAMPLE_BYTES_MAX {
            continue;
        }
        let mut frame = DispatchFrame::from_body(encoding, event.name, body)?;
        for (viewer, seq) in viewers.iter().zip(&mut seqs) {
            if viewer.sees(&event) {
                samples.push(frame.write_for(*seq, Framing::None).to_vec());
                *seq += 1;
            }
        }
    }
    Ok(samples)
}
