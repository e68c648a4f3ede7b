//! Waterfall: bytes of whole sittings of a client, from zlib-stream and PASSIVE_UPDATE_V1 on, one change at a time.
//!
//! Owns        `guildhall-bench waterfall`; the published shares of events.
//! Invariants  each step writes the same sittings; only the passive updates, the encoding and the codec differ.
//! Not here    the sittings: `guildhall_traffic::PERSONAS`. The encoders: `guildhall_lab::ArmRun`.

use anyhow::{Context, Result};
use clap::Args;
use guildhall_codec::{Arm, Dictionaries, Dictionary, DispatchFrame, Encoding, Framing, KnownDictionary};
use guildhall_lab::{ArmRun, Message, Sum};
use guildhall_model::EventName;
use guildhall_traffic::{Chat, Event, PERSONAS, Persona, Traffic};
use serde::Serialize;
use std::{collections::BTreeMap, fs, path::PathBuf, sync::Arc};

/// Shares of bytes that upstream published, percent: before its change, and after it.
const PUBLISHED_BEFORE: [(&str, f64); 5] = [
    ("PASSIVE_UPDATE_V1", 35.6),
    ("MESSAGE_CREATE", 20.0),
    ("READY", 11.7),
    ("GUILD_MEMBER_LIST_UPDATE", 8.5),
    ("PRESENCE_UPDATE", 2.7),
];
const PUBLISHED_AFTER: [(&str, f64); 4] =
    [("MESSAGE_CREATE", 28.3), ("READY", 21.9), ("GUILD_MEMBER_LIST_UPDATE", 10.2), ("PASSIVE_UPDATE_V2", 4.7)];
/// Bytes saved by the change, percent.
const PUBLISHED_SAVED: f64 = 40.0;
/// Index of the step with the published change.
const PUBLISHED_STEP: usize = 2;
/// The dictionary learns from other sittings.
const TRAINING_SEED: u64 = 1 << 40;
/// Longer messages are not for a dictionary.
const SAMPLE_BYTES_MAX: usize = 16 << 10;
const DICTIONARY_BYTES: usize = 112 << 10;

/// `guildhall-bench waterfall`.
#[derive(Clone, Debug, Args)]
pub struct WaterfallArgs {
    /// Message texts, one JSON object with "turns" per line; a built-in list if absent.
    #[arg(long, value_name = "FILE")]
    chat: Option<PathBuf>,
    /// Sittings of each persona.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=100))]
    sittings: u64,
    /// Everything that is drawn is drawn from this.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON instead of tables.
    #[arg(long)]
    json: bool,
}

/// One way to send the sittings.
struct Step {
    name: &'static str,
    arm: &'static str,
    passive: EventName,
    encoding: Encoding,
    has_dictionary: bool,
}

const STEPS: [Step; 9] = [
    step("zlib, V1", "zlib:level=6,window=15,mem=8", EventName::PassiveUpdateV1),
    step("zlib, V2", "zlib:level=6,window=15,mem=8", EventName::PassiveUpdateV2),
    step("zstd, V2", "zstd:level=6,window=18,chain=16,hash=16,block=131072", EventName::PassiveUpdateV2),
    step("window of 1 MiB", "zstd:level=6,window=20,chain=18,hash=18,block=131072", EventName::PassiveUpdateV2),
    Step {
        has_dictionary: true,
        ..step("with dictionary", "zstd:level=6,window=20,chain=18,hash=18,block=131072", EventName::PassiveUpdateV2)
    },
    step("shared-match", "shared-match", EventName::PassiveUpdateV2),
    Step {
        encoding: Encoding::Etf,
        ..step(
            "window of 1 MiB, ETF",
            "zstd:level=6,window=20,chain=18,hash=18,block=131072",
            EventName::PassiveUpdateV2,
        )
    },
    step("zstd-once", "zstd-once:level=3", EventName::PassiveUpdateV2),
    Step { has_dictionary: true, ..step("once, dictionary", "zstd-once:level=3", EventName::PassiveUpdateV2) },
];

const fn step(name: &'static str, arm: &'static str, passive: EventName) -> Step {
    Step { name, arm, passive, encoding: Encoding::Json, has_dictionary: false }
}

#[derive(Debug, Serialize)]
struct WaterfallResult {
    seed: u64,
    sittings: u64,
    chat_is_built_in: bool,
    /// Uncompressed READY of the persona with the most guilds.
    ready_bytes: u64,
    /// Mean of an uncompressed TYPING_START.
    typing_bytes: f64,
    steps: Vec<StepResult>,
}

#[derive(Debug, Serialize)]
struct StepResult {
    name: &'static str,
    arm: String,
    /// Of a thousand sittings, as the personas are weighted.
    bytes: u64,
    plain_bytes: u64,
    /// Saved of the bytes of the first step, percent.
    saved: f64,
    /// CPU time of compression per dispatch, microseconds.
    cpu_us: f64,
    /// The largest share first.
    events: Vec<EventResult>,
}

/// Bytes are means, with WebSocket headers.
#[derive(Debug, Serialize)]
struct EventResult {
    name: &'static str,
    plain_bytes: f64,
    wire_bytes: f64,
    /// Of all bytes of the step, percent.
    share: f64,
}

/// Runs the bench.
pub fn run(args: &WaterfallArgs) -> Result<()> {
    let chat = match &args.chat {
        Some(path) => Chat::parse(&fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?)?,
        None => Chat::built_in(),
    };
    let dictionary = Arc::new(train(&chat)?);
    let id = dictionary.id();
    let known = vec![KnownDictionary::new(Encoding::Json, dictionary)];
    let dictionaries = Dictionaries::new(known).context("one dictionary is not too many")?;
    let arms: Vec<Arm> = STEPS
        .iter()
        .map(|step| {
            let arm: Arm = step.arm.parse()?;
            if step.has_dictionary { arm.with_dictionary(id).context("the arm takes a dictionary") } else { Ok(arm) }
        })
        .collect::<Result<_>>()?;
    let mut sums: Vec<BTreeMap<&'static str, Sum>> = STEPS.iter().map(|_| BTreeMap::new()).collect();
    let (mut ready_bytes, mut typing) = (0, Sum::default());
    for (persona_number, persona) in PERSONAS.into_iter().enumerate() {
        for nth in 0..args.sittings {
            let seed = args.seed.wrapping_mul(1000) + nth;
            let events: Vec<Event> = sitting(persona, seed, &chat).collect();
            for event in &events {
                match event.name {
                    "READY" => ready_bytes = ready_bytes.max(event.body_json.len() as u64),
                    "TYPING_START" => {
                        typing += Sum { count: 1, plain_bytes: event.body_json.len() as u64, ..Sum::default() };
                    }
                    _ => {}
                }
            }
            for ((step, arm), sums) in STEPS.iter().zip(&arms).zip(&mut sums) {
                let mut run = ArmRun::new(*arm, &[step.encoding], &dictionaries)?;
                write(&mut run, step, &events)?;
                for (name, sum) in run.by_event() {
                    *sums.entry(name).or_default() += weighted(*sum, persona.weight);
                }
            }
        }
        eprintln!("waterfall: {} of {} personas", 1 + persona_number, PERSONAS.len());
    }
    let steps = results(&arms, &sums, args.sittings);
    let result = WaterfallResult {
        seed: args.seed,
        sittings: args.sittings,
        chat_is_built_in: chat.is_built_in(),
        ready_bytes,
        typing_bytes: typing.plain_bytes as f64 / typing.count.max(1) as f64,
        steps,
    };
    crate::report(args.json, &result, print_tables)
}

/// Dispatches to the client, with both forms of passive updates.
fn sitting(persona: Persona, seed: u64, chat: &Chat) -> impl Iterator<Item = Event> {
    Traffic::sitting(persona, seed, chat.clone()).take_while(move |event| event.at_ms < persona.length_ms())
}

/// A dictionary of the short messages of one sitting of each persona.
fn train(chat: &Chat) -> Result<Dictionary> {
    let mut samples = Vec::new();
    for persona in PERSONAS {
        for (seq, event) in (1..).zip(sitting(persona, TRAINING_SEED, chat)) {
            if event.body_json.len() <= SAMPLE_BYTES_MAX && event.name != EventName::PassiveUpdateV1.as_str() {
                let mut frame = DispatchFrame::from_body(Encoding::Json, event.name, &event.body_json)?;
                samples.push(frame.write_for(seq, Framing::None).to_vec());
            }
        }
    }
    Dictionary::train(&samples, DICTIONARY_BYTES).context("training the dictionary")
}

fn write(run: &mut ArmRun, step: &Step, events: &[Event]) -> Result<()> {
    let mut seq = 0;
    for event in events {
        let name = EventName::from_wire(event.name).context("the traffic has events of the gateway")?;
        if matches!(name, EventName::PassiveUpdateV1 | EventName::PassiveUpdateV2) && name != step.passive {
            continue;
        }
        seq += 1;
        let body = if step.encoding == Encoding::Json { &event.body_json } else { &event.body_etf };
        run.add(&Message { session: 0, encoding: step.encoding, name, seq, rule: rule(event), body })?;
    }
    Ok(())
}

/// Why the session sees the event, as in a recording.
fn rule(event: &Event) -> &'static str {
    match event.name {
        _ if event.is_private() => "",
        "MESSAGE_CREATE" | "MESSAGE_UPDATE" => "public+content",
        "GUILD_MEMBER_ADD" | "GUILD_MEMBER_UPDATE" | "GUILD_MEMBER_REMOVE" => "public+members",
        "PRESENCE_UPDATE" => "public+presences",
        "GUILD_MEMBER_LIST_UPDATE" => "public+lists",
        _ => "public",
    }
}

fn weighted(sum: Sum, weight: u64) -> Sum {
    Sum {
        count: sum.count * weight,
        plain_bytes: sum.plain_bytes * weight,
        wire_bytes: sum.wire_bytes * weight,
        cpu_ns: sum.cpu_ns * weight,
    }
}

fn results(arms: &[Arm], sums: &[BTreeMap<&'static str, Sum>], sittings: u64) -> Vec<StepResult> {
    let totals: Vec<Sum> = sums.iter().map(total).collect();
    let mean = |bytes: u64, event: &Sum| bytes as f64 / event.count.max(1) as f64;
    let result = |at: usize| {
        let sum = totals[at];
        let event = |(name, event): (&&'static str, &Sum)| EventResult {
            name,
            plain_bytes: mean(event.plain_bytes, event),
            wire_bytes: mean(event.wire_bytes, event),
            share: percent(event.wire_bytes, sum.wire_bytes),
        };
        let mut events: Vec<EventResult> = sums[at].iter().map(event).collect();
        events.sort_by(|a, b| b.share.total_cmp(&a.share));
        StepResult {
            name: STEPS[at].name,
            arm: arms[at].to_string(),
            bytes: sum.wire_bytes / sittings,
            plain_bytes: sum.plain_bytes / sittings,
            saved: 100.0 - percent(sum.wire_bytes, totals[0].wire_bytes),
            cpu_us: sum.cpu_us(),
            events,
        }
    };
    (0..STEPS.len()).map(result).collect()
}

fn total(sums: &BTreeMap<&'static str, Sum>) -> Sum {
    let mut total = Sum::default();
    sums.values().for_each(|sum| total += *sum);
    total
}

fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

fn print_tables(result: &WaterfallResult) {
    let sitting_bytes = |bytes: u64| bytes as f64 / 1000.0 / 1000.0;
    println!("READY of the largest account {} bytes, a TYPING_START {:.0}", result.ready_bytes, result.typing_bytes);
    println!("\n{:<22} {:>14} {:>8} {:>8} {:>12}", "step", "KB per sitting", "saved", "ratio", "µs/dispatch");
    for step in &result.steps {
        println!(
            "{:<22} {:>14.1} {:>7.1}% {:>8.2} {:>12.2}",
            step.name,
            sitting_bytes(step.bytes),
            step.saved,
            step.plain_bytes as f64 / step.bytes.max(1) as f64,
            step.cpu_us,
        );
    }
    println!("The last two are for comparison: each message by itself, at level 3.");
    println!("Published: {PUBLISHED_SAVED} % saved by the step \"{}\"", STEPS[PUBLISHED_STEP].name);
    for (title, step, published) in
        [("before", 0, &PUBLISHED_BEFORE[..]), ("after", PUBLISHED_STEP, &PUBLISHED_AFTER[..])]
    {
        println!("\nshares {title} ({})", STEPS[step].name);
        for EventResult { name, share, wire_bytes, .. } in result.steps[step].events.iter().take(12) {
            let published = published.iter().find(|(other, _)| other == name);
            let published = published.map_or_else(String::new, |(_, share)| format!("published {share:.1} %"));
            println!("  {name:<28} {share:>5.1} % {wire_bytes:>10.0} bytes each  {published}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_has_an_arm_and_the_published_one_is_zstd_with_deltas() {
        for step in &STEPS {
            let arm: Arm = step.arm.parse().unwrap();
            assert_eq!(step.arm.starts_with("zlib"), arm.to_string().starts_with("zlib"), "{}", step.name);
        }
        assert_eq!(STEPS[PUBLISHED_STEP].name, "zstd, V2");
        assert!(STEPS[0].passive == EventName::PassiveUpdateV1 && STEPS[0].arm.starts_with("zlib"));
    }

    #[test]
    fn a_step_leaves_out_the_other_form_of_passive_updates() {
        let events: Vec<Event> =
            sitting(PERSONAS[1], 1, &Chat::built_in()).take_while(|event| event.at_ms < 120_000).collect();
        for step in &STEPS[..2] {
            let mut run = ArmRun::new(step.arm.parse().unwrap(), &[Encoding::Json], &Dictionaries::default()).unwrap();
            write(&mut run, step, &events).unwrap();
            let names: Vec<&str> = run.by_event().keys().copied().filter(|name| name.starts_with("PASSIVE")).collect();
            assert_eq!(names, [step.passive.as_str()]);
            assert_eq!(run.by_event()["READY"].count, 1);
        }
    }
}
