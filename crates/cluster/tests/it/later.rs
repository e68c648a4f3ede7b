//! Requests of a later release, with commands that are unknown here.

use guildhall_cluster::{
    Answer, Cluster, GuildInput, Incarnation, NodeNumber, NodeRecord, Output, PeerMessage, ReadMessage, RequestId,
    wire::{VERSION, WireError, decode, encode},
};
use guildhall_guild::{Actor, Command, Refusal};
use guildhall_model::GuildId;
use guildhall_stdx::Instant;
use serde::Serialize;

#[derive(Serialize)]
enum Later {
    ToGuild { guild_id: GuildId, input: LaterInput },
    Wave { hands: u8 },
}

#[derive(Serialize)]
enum LaterInput {
    Command { request: RequestId, actor: Actor, command: LaterCommand, why: &'static str },
    Create { request: RequestId, creation: LaterCommand },
}

#[derive(Serialize)]
enum LaterCommand {
    Juggle { balls: Vec<u64> },
}

const GUILD: GuildId = GuildId::new(5);

fn known(request: u64) -> PeerMessage {
    let (request, command) = (RequestId(request), Box::new(Command::ReadGuild));
    let input = GuildInput::Command { request, actor: Actor::System, command, trace: None };
    PeerMessage::ToGuild { guild_id: GUILD, input }
}

fn juggle(request: u64) -> Later {
    let command = LaterCommand::Juggle { balls: vec![1, 70_000] };
    let input = LaterInput::Command { request: RequestId(request), actor: Actor::System, command, why: "fun" };
    Later::ToGuild { guild_id: GUILD, input }
}

fn create(request: u64) -> Later {
    let creation = LaterCommand::Juggle { balls: Vec::new() };
    Later::ToGuild { guild_id: GUILD, input: LaterInput::Create { request: RequestId(request), creation } }
}

/// Known requests by their numbers, unknown ones by theirs below zero.
fn numbers(read: &[ReadMessage]) -> Vec<i64> {
    let number = |message: &ReadMessage| match message {
        ReadMessage::Known(PeerMessage::ToGuild { input, .. }) => input.request().expect("a request").0 as i64,
        ReadMessage::UnknownRequest(request) => -(request.0 as i64),
        other => panic!("{other:?}"),
    };
    read.iter().map(number).collect()
}

#[test]
fn r1_a_request_of_a_later_release_is_refused_alone() {
    let bytes = encode(&(known(1), juggle(2), known(3), create(4), known(5)));
    let refused = decode::<Vec<PeerMessage>>(VERSION, &bytes).expect_err("an unknown variant");
    assert!(refused.to_string().contains("Juggle"), "{refused}");
    let (read, error) = ReadMessage::each(VERSION, &bytes);
    assert_eq!((numbers(&read), error), (vec![1, -2, 3, -4, 5], None));
}

#[test]
fn r1_a_message_that_is_no_request_ends_the_reading() {
    let bytes = encode(&(known(1), juggle(2), Later::Wave { hands: 2 }, known(3)));
    let (read, error) = ReadMessage::each(VERSION, &bytes);
    assert_eq!(numbers(&read), [1, -2]);
    assert!(error.is_some_and(|error| error.to_string().contains("Wave")));
}

#[test]
fn r1_bytes_that_are_no_messages_are_refused() {
    let bytes = encode(&(known(1), juggle(2)));
    for end in 0..bytes.len() {
        let (read, error) = ReadMessage::each(VERSION, &bytes[..end]);
        assert!(read.is_empty() && error.is_some(), "{end}");
    }
    let (read, error) = ReadMessage::each(VERSION, &encode(&7_u8));
    assert!(read.is_empty() && error.is_some_and(|error| error.to_string().contains("no array")));
    let (read, error) = ReadMessage::each(VERSION + 1, &bytes);
    assert!(read.is_empty());
    assert_eq!(error, Some(WireError::UnknownVersion { found: VERSION + 1 }));
    // As many elements as an array of each width has.
    for count in [0, 1, 15, 16, 65_535, 65_536] {
        let messages = vec![PeerMessage::Beat; count];
        let (read, error) = ReadMessage::each(VERSION, &encode(&messages));
        assert_eq!((read.len(), error), (count, None));
    }
}

fn record(incarnation: u64) -> NodeRecord {
    NodeRecord::active(Incarnation(incarnation))
}

fn sent(machine: &mut Cluster) -> Vec<PeerMessage> {
    let outputs = std::iter::from_fn(|| machine.poll_output());
    outputs.filter_map(|output| if let Output::Send { message, .. } = output { Some(message) } else { None }).collect()
}

#[test]
fn r1_the_node_is_answered_and_the_stream_goes_on() {
    let (now, peer) = (Instant(1_000), Incarnation(2));
    let mut machine = Cluster::new(NodeNumber(0), record(1));
    machine.set_serving(now, true);
    machine.handle_node(now, NodeNumber(1), Some(record(2)));
    machine.handle_message(now, peer, 5, PeerMessage::Hello { to: Incarnation(1) });
    sent(&mut machine);
    machine.handle_unknown_request(now, peer, 5, RequestId(7));
    machine.handle_message(now, peer, 5, PeerMessage::Beat);
    let answers = sent(&mut machine);
    let is_refused = |request: &RequestId, answer: &Answer| {
        request.0 == 7 && answer.as_ref().is_err_and(|refusal| *refusal == Refusal::Unavailable)
    };
    assert!(
        matches!(&answers[..], [PeerMessage::Answer { request, answer }] if is_refused(request, answer)),
        "{answers:?}"
    );
    // On another stream it is lost, as every message.
    machine.handle_unknown_request(now, peer, 6, RequestId(8));
    let lost = sent(&mut machine);
    assert!(matches!(lost[..], [PeerMessage::Lost { stream: 6 }]), "{lost:?}");
    machine.handle_unknown_request(now, Incarnation(9), 6, RequestId(9));
    assert!(sent(&mut machine).is_empty(), "from no member");
}
