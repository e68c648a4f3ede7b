//! The entropy tables that shared-match streams are built with, trained from generated traffic.

use crate::{TrafficKind, scope_of};
use guildhall_codec::Encoding;
use guildhall_shared_match::{Form, Sample, train};
use guildhall_traffic::{Chat, Event, Params, Traffic, Viewer};

/// Sessions of `session` and `channel` traffic, all of which are samples, and events of each.
const SESSIONS: u32 = 8;
const EVENTS: usize = 4000;
/// Sessions of `node` traffic. One in `NODE_ONE_IN` is a sample, and the last one, a bot.
const NODE_SESSIONS: u32 = 1000;
const NODE_ONE_IN: usize = 100;
/// Deliveries to these samples.
const NODE_DELIVERIES: usize = 6000;

/// Seed of the built-in tables.
pub const TABLES_SEED: u64 = 1 << 40;

/// The tables of one encoding, trained from traffic of this seed with these texts, as shared-match builds them in.
#[must_use]
pub fn train_tables(encoding: Encoding, seed: u64, chat: &Chat) -> Vec<u8> {
    let form = match encoding {
        Encoding::Json => Form::Json,
        Encoding::Etf => Form::Etf,
    };
    let mut all: Vec<Sample> =
        [TrafficKind::Session, TrafficKind::Channel].iter().flat_map(|kind| samples(form, *kind, seed, chat)).collect();
    all.extend(node_samples(form, seed, chat));
    train(form, &all).to_bytes()
}

fn samples(form: Form, kind: TrafficKind, seed: u64, chat: &Chat) -> Vec<Sample> {
    let viewers: Vec<Viewer> = (0..SESSIONS).map(|index| Viewer::new(seed, index)).collect();
    let traffic = Traffic::new(Params { kind: kind.kind(), seed, sessions: SESSIONS }, chat.clone());
    let shared = traffic
        .filter(|event| !event.is_private())
        .map(|event| sample(form, &event, (0..viewers.len()).filter(|index| viewers[*index].sees(&event)).collect()));
    shared.filter(|sample| !sample.recipients.is_empty()).take(EVENTS).collect()
}

/// Events of a node. One that no sampled session receives takes room in the history all the same.
fn node_samples(form: Form, seed: u64, chat: &Chat) -> Vec<Sample> {
    let params = Params { kind: TrafficKind::Node.kind(), seed, sessions: NODE_SESSIONS };
    let mut traffic = Traffic::new(params, chat.clone());
    let Some(population) = traffic.population() else { return Vec::new() };
    let sampled = |session: usize| {
        let is_sampled = session.is_multiple_of(NODE_ONE_IN) || session + 1 == NODE_SESSIONS as usize;
        is_sampled.then(|| session.div_ceil(NODE_ONE_IN))
    };
    let (mut samples, mut recipients, mut deliveries) = (Vec::new(), Vec::new(), 0);
    while deliveries < NODE_DELIVERIES {
        let Some(event) = traffic.next().filter(|event| !event.is_private()) else { continue };
        population.recipients(&event, &mut recipients);
        if recipients.is_empty() {
            continue;
        }
        let sampled: Vec<usize> = recipients.iter().filter_map(|session| sampled(*session)).collect();
        deliveries += sampled.len();
        samples.push(sample(form, &event, sampled));
    }
    samples
}

fn sample(form: Form, event: &Event, recipients: Vec<usize>) -> Sample {
    let body = match form {
        Form::Json => event.body_json.to_vec(),
        Form::Etf => event.body_etf.to_vec(),
    };
    Sample { scope: scope_of(event), name: event.name, body, recipients }
}
