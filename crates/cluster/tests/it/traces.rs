//! Traces between nodes of two builds: one knows them, the other does not.

use crate::{messages::RELAY, round_trip::crossed};
use guildhall_cluster::{
    GuildInput, PeerMessage, RelayPlace, RequestId, TraceContext,
    wire::{VERSION, decode, encode},
};
use guildhall_guild::{Actor, Command};
use guildhall_guild_protocol::{Canary, RelayMessage};
use guildhall_model::GuildId;
use serde::{Deserialize, Serialize};

/// The part of `PeerMessage` that was there before traces crossed.
#[derive(Debug, Serialize, Deserialize)]
enum Earlier {
    ToRelays { guild_id: GuildId, relays: Vec<RelayPlace>, message: RelayMessage },
    ToGuild { guild_id: GuildId, input: EarlierInput },
}

#[derive(Debug, Serialize, Deserialize)]
enum EarlierInput {
    Command { request: RequestId, actor: Actor, command: Box<Command> },
}

const TRACE: TraceContext = TraceContext { trace_id: [u64::MAX, 7], span: 1 << 63 };

fn to_relays(trace: Option<TraceContext>) -> PeerMessage {
    let message = RelayMessage::Canary(Canary { number: 7, created_at_us: 1, members_count: 5_000 });
    let relays = vec![RelayPlace { relay: RELAY, epoch: 3, seq: 70_000 }];
    PeerMessage::ToRelays { guild_id: GuildId::new(5), relays, message, trace }
}

fn to_guild(trace: Option<TraceContext>) -> PeerMessage {
    let (request, command) = (RequestId(u64::MAX), Box::new(Command::ReadGuild));
    let input = GuildInput::Command { request, actor: Actor::System, command, trace };
    PeerMessage::ToGuild { guild_id: GuildId::new(5), input }
}

#[test]
fn a_node_that_knows_no_traces_reads_messages_with_one() {
    for of in [to_relays, to_guild] {
        crossed(&of(Some(TRACE)));
        let read: Earlier = decode(VERSION, &encode(&of(Some(TRACE)))).unwrap();
        assert_eq!(encode(&read), encode(&of(None)), "without a trace no byte is added");
        let back: PeerMessage = decode(VERSION, &encode(&read)).unwrap();
        assert_eq!(format!("{back:?}"), format!("{:?}", of(None)));
    }
}
