//! Delta: large documents that change a little, sent whole or as the difference to the last one, in each compression.
//!
//! Owns        `guildhall-bench delta`, and the documents: scoreboards in JSON.
//! Invariants  all ways write the same publishes in the same order. Each delta is applied, and reference decoders read
//!             the streams of one subscriber; the documents that come out are compared.
//! Limits      `SUBSCRIBERS_MAX`: each has a context of its own in the classic compressions.
//! Not here    sockets. Rates: a stream has no time, so bytes do not depend on them.

mod fossil;

use crate::{sched::thread_cpu, stats::Spread};
use anyhow::{Context as _, Result, ensure};
use clap::Args;
use guildhall_codec::{DispatchFrame, Encoding, Framing, StreamCompressor, StreamDecompressor, ZlibParams, ZstdParams};
use guildhall_lab::framed_bytes;
use guildhall_settings::defaults;
use guildhall_shared_match::{Domain, Form, Limits, Matcher, Scope, Tables, ZSTD_WINDOW_LOG, ZstdStream};
use guildhall_stdx::Rng;
use serde::Serialize;
use std::time::Duration;

/// 700 MB of zstd contexts.
const SUBSCRIBERS_MAX: usize = 1_000;
/// Publishes before anything is counted: the first is a whole document in every way.
const WARM_UP: usize = 3;
const NAME: &str = "SCORES_PUBLISHED";
const MESSAGE_BYTES_MAX: usize = 8 << 20;
/// Bytes of a message of other traffic.
const OTHER_BYTES: usize = 700;

/// `guildhall-bench delta`.
#[derive(Clone, Debug, Args)]
pub struct DeltaArgs {
    /// Sizes of the documents, KB.
    #[arg(long, value_delimiter = ',', default_value = "2,10,50")]
    sizes: Vec<usize>,
    /// Shares of the figures that change with each publish, percent.
    #[arg(long, value_delimiter = ',', default_value = "1,5")]
    changed: Vec<f64>,
    /// Numbers of subscribers.
    #[arg(long, value_delimiter = ',', default_value = "10,1000")]
    subscribers: Vec<usize>,
    /// Publishes that are counted.
    #[arg(long, default_value_t = 40)]
    publishes: usize,
    /// Messages of 700 bytes to the same subscribers between two publishes, as of a channel with talk.
    #[arg(long, default_value_t = 0)]
    between: usize,
    /// Chooses names, figures and changes.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// Compression of the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Compression {
    Plain,
    ZlibStream,
    ZstdStream,
    SharedMatch,
}

const COMPRESSIONS: [Compression; 4] =
    [Compression::Plain, Compression::ZlibStream, Compression::ZstdStream, Compression::SharedMatch];

/// Cost of one way to send a document.
#[derive(Debug, Serialize)]
struct Row {
    document_bytes: usize,
    changed_percent: f64,
    subscribers: usize,
    compression: Compression,
    is_delta: bool,
    /// With WebSocket headers, median over the publishes.
    bytes_per_delivery: f64,
    /// With the event's share of the delta, microseconds, median over the publishes.
    cpu_us_per_delivery: f64,
}

pub fn run(args: &DeltaArgs) -> Result<()> {
    ensure!(args.publishes > 0, "--publishes is at least 1");
    let mut rows = Vec::new();
    for kilobytes in &args.sizes {
        for changed in &args.changed {
            for subscribers in &args.subscribers {
                ensure!(
                    (1..=SUBSCRIBERS_MAX).contains(subscribers),
                    "--subscribers is 1 to {SUBSCRIBERS_MAX}: each has a context"
                );
                for compression in COMPRESSIONS {
                    for is_delta in [false, true] {
                        let case = Case { args, bytes: kilobytes * 1_000, changed: *changed, compression, is_delta };
                        rows.push(case.run(*subscribers)?);
                    }
                }
            }
        }
    }
    crate::report(args.json, &rows, |rows| print(rows))
}

struct Case<'a> {
    args: &'a DeltaArgs,
    bytes: usize,
    changed: f64,
    compression: Compression,
    is_delta: bool,
}

impl Case<'_> {
    fn run(&self, subscribers: usize) -> Result<Row> {
        let mut chance = Rng::new(self.args.seed);
        let mut board = Board::new(&mut chance, self.bytes);
        let document_bytes = board.document().len();
        let mut writer = Writer::new(self.compression, subscribers)?;
        let mut reader = self.compression.reader()?;
        let (mut before, mut held) = (Vec::new(), Vec::new());
        let (mut bytes, mut cpu_us) = (Vec::new(), Vec::new());
        let mut seq = 0;
        for publish in 0..WARM_UP + self.args.publishes {
            if publish > 0 {
                board.change(&mut chance, self.changed / 100.0);
                for _ in 0..self.args.between {
                    seq += 1;
                    let sent = writer.write(seq, "MESSAGE_CREATE", &talk(&mut chance))?;
                    reader.read(&sent.first)?;
                }
            }
            let document = board.document();
            seq += 1;
            let started = thread_cpu();
            let body = match self.is_delta && publish > 0 {
                true => delta_body(&fossil::create(&before, &document))?,
                false => whole_body(&document),
            };
            let preparing = thread_cpu() - started;
            let sent = writer.write(seq, NAME, &body)?;
            held = read_document(&held, &reader.read(&sent.first)?)?;
            ensure!(held == document, "a subscriber has another document");
            if publish >= WARM_UP {
                bytes.push(sent.bytes as f64 / subscribers as f64);
                cpu_us.push((preparing + sent.cpu).as_secs_f64() * 1e6 / subscribers as f64);
            }
            before = document;
        }
        Ok(Row {
            document_bytes,
            changed_percent: self.changed,
            subscribers,
            compression: self.compression,
            is_delta: self.is_delta,
            bytes_per_delivery: Spread::of(bytes).p50,
            cpu_us_per_delivery: Spread::of(cpu_us).p50,
        })
    }
}

/// A scoreboard: rows of a name and six figures.
struct Board {
    rows: Vec<(String, [u64; 6])>,
}

impl Board {
    /// Of about this size.
    fn new(chance: &mut Rng, bytes: usize) -> Self {
        let mut board = Self { rows: Vec::new() };
        while board.document().len() < bytes {
            let name = word(chance, 6) + " " + &word(chance, 8);
            board.rows.push((name, [0; 6].map(|_| chance.below(100_000))));
        }
        board
    }

    /// Gives this share of the figures other values, at least one.
    fn change(&mut self, chance: &mut Rng, share: f64) {
        let count = (self.rows.len() as f64 * 6.0 * share).round().max(1.0) as usize;
        for _ in 0..count {
            let row = chance.below(self.rows.len() as u64) as usize;
            let figure = chance.below(6) as usize;
            self.rows[row].1[figure] += 1 + chance.below(400);
        }
    }

    fn document(&self) -> Vec<u8> {
        let rows: Vec<String> = self
            .rows
            .iter()
            .enumerate()
            .map(|(place, (name, [points, won, lost, damage, healed, ms]))| {
                format!(
                    "{{\"id\":\"{}\",\"name\":\"{name}\",\"points\":{points},\"won\":{won},\"lost\":{lost},\
                     \"damage\":{damage},\"healed\":{healed},\"played_ms\":{ms}}}",
                    1_000_000_000_000_000_000_u64 + place as u64 * 7_919_000_017
                )
            })
            .collect();
        format!("{{\"match\":\"1174109840998400000\",\"rows\":[{}]}}", rows.join(",")).into_bytes()
    }
}

fn word(chance: &mut Rng, length: usize) -> String {
    (0..length).map(|_| char::from(b'a' + chance.below(26) as u8)).collect()
}

/// A chat message.
fn talk(chance: &mut Rng) -> Vec<u8> {
    let mut text = String::new();
    while text.len() < OTHER_BYTES - 80 {
        let length = 2 + chance.below(7) as usize;
        text += &(word(chance, length) + " ");
    }
    format!("{{\"channel_id\":\"1174109840998400001\",\"content\":\"{text}\",\"type\":0}}").into_bytes()
}

const BEFORE_DOCUMENT: &[u8] = b"{\"channel\":\"scores\",\"data\":";

fn whole_body(document: &[u8]) -> Vec<u8> {
    [BEFORE_DOCUMENT, document, b"}"].concat()
}

/// A delta is text in a string of JSON, as documents are JSON.
fn delta_body(delta: &[u8]) -> Result<Vec<u8>> {
    let text = serde_json::to_vec(std::str::from_utf8(delta).context("a delta of a text is text")?)?;
    Ok([b"{\"channel\":\"scores\",\"delta\":", &text[..], b"}"].concat())
}

/// The document that a message brings to a subscriber that holds the last one.
fn read_document(held: &[u8], message: &[u8]) -> Result<Vec<u8>> {
    #[derive(serde::Deserialize)]
    struct Payload<'a> {
        #[serde(borrow)]
        d: Body<'a>,
    }
    #[derive(serde::Deserialize)]
    struct Body<'a> {
        #[serde(borrow)]
        data: Option<&'a serde_json::value::RawValue>,
        delta: Option<String>,
    }
    let payload: Payload<'_> = serde_json::from_slice(message)?;
    match (payload.d.data, payload.d.delta) {
        (Some(data), _) => Ok(data.get().as_bytes().to_vec()),
        (None, Some(delta)) => fossil::apply(held, delta.as_bytes()),
        (None, None) => anyhow::bail!("a message without a document"),
    }
}

struct Sent {
    /// To all subscribers.
    bytes: u64,
    cpu: Duration,
    /// To the first one.
    first: Vec<u8>,
}

/// The streams of all subscribers.
enum Writer {
    Plain(usize),
    Classic(Vec<StreamCompressor>),
    Shared(Box<Matcher>, Vec<ZstdStream>),
}

impl Writer {
    fn new(compression: Compression, subscribers: usize) -> Result<Self> {
        let many = |make: &dyn Fn() -> Result<StreamCompressor, guildhall_codec::CodecError>| {
            (0..subscribers).map(|_| make()).collect::<Result<Vec<_>, _>>()
        };
        Ok(match compression {
            Compression::Plain => Self::Plain(subscribers),
            Compression::ZlibStream => Self::Classic(many(&|| StreamCompressor::zlib(ZlibParams::default()))?),
            Compression::ZstdStream => Self::Classic(many(&|| StreamCompressor::zstd(ZstdParams::default()))?),
            Compression::SharedMatch => {
                let limits =
                    Limits { history_bytes_max: defaults::SHARED_HISTORY_BYTES_MAX as usize, ..Limits::default() };
                let mut matcher = Matcher::new(Form::Json, Tables::built_in(Form::Json), limits);
                matcher.set_connections(subscribers);
                Self::Shared(Box::new(matcher), (0..subscribers).map(|_| ZstdStream::default()).collect())
            }
        })
    }

    /// Writes an event to all subscribers.
    fn write(&mut self, seq: u64, name: &'static str, body: &[u8]) -> Result<Sent> {
        let mut frame = DispatchFrame::from_body(Encoding::Json, name, body)?;
        let (mut out, mut first, mut bytes) = (Vec::with_capacity(body.len() + 128), Vec::new(), 0);
        let mut done = |out: &mut Vec<u8>| {
            bytes += framed_bytes(out.len());
            if first.is_empty() {
                first.clone_from(out);
            }
            out.clear();
        };
        let started = thread_cpu();
        match self {
            Self::Plain(subscribers) => {
                for _ in 0..*subscribers {
                    out.extend_from_slice(frame.write_for(seq, Framing::None));
                    done(&mut out);
                }
            }
            Self::Classic(streams) => {
                for stream in streams {
                    stream.compress(&[frame.write_for(seq, Framing::None)], &mut out)?;
                    done(&mut out);
                }
            }
            Self::Shared(matcher, streams) => {
                let scope = Scope { domain: Domain::Public { guild: 7, view: 1 }, class: 8 };
                let text = matcher.push(scope, streams.len() as u32, name, body);
                for stream in streams {
                    match text {
                        Some(text) => {
                            matcher.zstd(stream, text, seq, &mut out).ok().context("the newest text is kept")?
                        }
                        None => matcher.zstd_standalone(stream, frame.write_for(seq, Framing::None), &mut out),
                    }
                    done(&mut out);
                }
            }
        }
        let cpu = thread_cpu() - started;
        Ok(Sent { bytes, cpu, first })
    }
}

/// A subscriber's decoder.
struct Reader(Option<StreamDecompressor>);

impl Compression {
    fn reader(self) -> Result<Reader> {
        Ok(Reader(match self {
            Self::Plain => None,
            Self::ZlibStream => Some(StreamDecompressor::zlib()?),
            Self::ZstdStream => Some(StreamDecompressor::zstd(ZstdParams::default().window_log)?),
            Self::SharedMatch => Some(StreamDecompressor::zstd(ZSTD_WINDOW_LOG)?),
        }))
    }

    fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::ZlibStream => "zlib-stream",
            Self::ZstdStream => "zstd-stream",
            Self::SharedMatch => "shared-match",
        }
    }
}

impl Reader {
    fn read(&mut self, wire: &[u8]) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        match &mut self.0 {
            Some(stream) => stream.decompress(wire, &mut out, MESSAGE_BYTES_MAX)?,
            None => out.extend_from_slice(wire),
        }
        Ok(out)
    }
}

fn print(rows: &[Row]) {
    let names = COMPRESSIONS.map(Compression::name);
    println!("bytes and CPU µs per delivery, whole document → delta");
    println!(
        "{:>9} {:>8} {:>12} {}",
        "document",
        "changed",
        "subscribers",
        names.map(|name| format!("{name:>32}")).concat()
    );
    for case in rows.chunks(2 * COMPRESSIONS.len()) {
        let Row { document_bytes, changed_percent, subscribers, .. } = &case[0];
        let cells: Vec<String> = case
            .chunks(2)
            .map(|pair| {
                let cell = |row: &Row| format!("{:.0} {:.1}", row.bytes_per_delivery, row.cpu_us_per_delivery);
                format!("{:>32}", format!("{} → {}", cell(&pair[0]), cell(&pair[1])))
            })
            .collect();
        println!("{document_bytes:>9} {changed_percent:>6} % {subscribers:>12} {}", cells.concat());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscribers_get_the_document_in_every_way() {
        let args = DeltaArgs {
            sizes: vec![2],
            changed: vec![5.0],
            subscribers: vec![3],
            publishes: 4,
            between: 2,
            seed: 1,
            json: true,
        };
        run(&args).unwrap();
        assert!(run(&DeltaArgs { subscribers: vec![0], ..args }).is_err());
    }
}
