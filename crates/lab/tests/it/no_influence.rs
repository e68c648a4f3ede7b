//! A dark launch influences nothing: every write of a partition with four arms on is that of one without.

use guildhall_codec::{Arm, Dictionaries, Encoding};
use guildhall_guild::{Actor, Command, MemberPatch, NewMessage};
use guildhall_lab::Dark;
use guildhall_model::{ChannelType, Intents, Permissions, User};
use guildhall_partition::{Compression, StreamCodec, TapFilter, TapSwitch};
use guildhall_stdx::{Rng, SlotKey};
use guildhall_test_kit::{
    ClientId, ClientParams, GuildBuilder, TestCluster, TestClusterConfig, id, identify_payload, privileged, user,
};
use std::sync::Arc;

const INSIDERS: u64 = 5;
const GENERAL: u64 = 10;
const HIDDEN: u64 = 11;

/// Every encoding with every compression.
const KINDS: [ClientParams; 11] = [
    ClientParams::JSON,
    ClientParams::ETF,
    ClientParams::new(Encoding::Json, Compression::Zlib),
    ClientParams::new(Encoding::Etf, Compression::Zlib),
    ClientParams::new(Encoding::Json, Compression::Zstd),
    ClientParams::new(Encoding::Etf, Compression::Zstd),
    ClientParams::deflate(Encoding::Json, false, 15),
    ClientParams::deflate(Encoding::Etf, false, 15),
    ClientParams::deflate(Encoding::Json, false, 8),
    ClientParams::deflate(Encoding::Json, true, 15),
    ClientParams::deflate(Encoding::Etf, true, 8),
];

const STREAMS: [StreamCodec; 3] = [
    StreamCodec::PerConnection,
    StreamCodec::SharedMatch { history_bytes_max: 4 << 20, check_one_in: None },
    StreamCodec::Auto { history_bytes_max: 4 << 20, check_one_in: None, cpu_percent: 25 },
];

const ARMS: [&str; 4] = ["zlib", "zstd:level=3", "zstd-once", "shared-match"];

/// Work of the lab at the same time.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lab {
    Nothing,
    /// Four arms, which begin and end a few times; the lab's thread is sometimes behind.
    Dark,
    /// A dark launch without a budget: it takes no session.
    NoBudget,
}

fn filter(lab: Lab) -> TapFilter {
    let sessions_max = if lab == Lab::NoBudget { 0 } else { 100 };
    TapFilter { private: true, ..TapFilter::all(sessions_max) }
}

fn begin(switch: &TapSwitch, lab: Lab) -> Dark {
    let arms = ARMS.map(|arm| arm.parse::<Arm>().unwrap());
    let runs = Dark::runs(&arms, &[Encoding::Json, Encoding::Etf], &Dictionaries::default()).unwrap();
    Dark::new(switch.start(filter(lab)).unwrap(), runs, 64 << 20)
}

fn ana() -> Arc<User> {
    user(701)
}

fn pro() -> Arc<User> {
    privileged(802)
}

fn world(streams: StreamCodec, switch: &TapSwitch, batches: bool) -> TestCluster {
    let mut config = TestClusterConfig { batches, ..TestClusterConfig::default() };
    (config.partition.taps, config.partition.stream_codec) = (switch.clone(), streams);
    let mut cluster = TestCluster::new(config);
    [ana(), pro()].iter().for_each(|account| cluster.add_account(account));
    let guild = GuildBuilder::new(1, &ana())
        .role(INSIDERS, Permissions::NONE)
        .channel(GENERAL, ChannelType::Text)
        .hidden_channel(HIDDEN, &[INSIDERS])
        .member(&pro(), &[INSIDERS]);
    cluster.add_guild(guild.load());
    cluster.record_writes();
    cluster
}

fn say(cluster: &mut TestCluster, channel: u64, content: String) {
    let new = NewMessage { content, ..NewMessage::default() };
    cluster.command(Actor::User(ana().id), Command::CreateMessage(id(channel), Box::new(new))).unwrap();
}

/// A seeded run: every write of the partition in its order, and the dispatches that the arms counted.
fn run(streams: StreamCodec, batches: bool, seed: u64, lab: Lab) -> (Vec<(SlotKey, Vec<u8>)>, u64) {
    let switch = TapSwitch::default();
    let mut cluster = world(streams, &switch, batches);
    let (mut dark, mut counted): (Option<Dark>, u64) = (None, 0);
    let mut clients: Vec<ClientId> = Vec::new();
    let mut rng = Rng::new(seed);
    for round in 0..300 {
        if lab != Lab::Nothing && round % 70 == 5 {
            drop(dark.take());
            dark = Some(begin(&switch, lab));
        }
        if round % 20 == 0 && clients.len() < KINDS.len() {
            let client = cluster.connect(KINDS[clients.len()]);
            cluster
                .client(client)
                .identify(identify_payload(&pro().username, Some(Intents::ALL.0 & !Intents::USER_ONLY.0)));
            cluster.run_until_idle();
            clients.push(client);
        }
        let text: String = (0..rng.below(60)).map(|_| char::from(b'a' + rng.below(26) as u8)).collect();
        match rng.below(5) {
            0 => {
                let nick = Some(Some(text.chars().take(30).collect()));
                let patch = MemberPatch { nick, ..MemberPatch::default() };
                cluster.command(Actor::System, Command::UpdateMember(pro().id, Box::new(patch))).unwrap();
            }
            1 => say(&mut cluster, HIDDEN, format!("hidden {text}")),
            _ => say(&mut cluster, GENERAL, format!("said {text}")),
        }
        // Some clients do not read for a while, so that writes are cut.
        if !clients.is_empty() && rng.below(8) == 0 {
            let client = clients[rng.below(clients.len() as u64) as usize];
            cluster.client(client).socket().set_room(if rng.below(2) == 0 { 300 } else { usize::MAX });
        }
        if rng.below(3) == 0 {
            cluster.run_until_idle();
        }
        if round % 40 == 39 {
            cluster.advance_with_heartbeats(20_000);
        }
        if let Some(dark) = &mut dark
            && round % 9 == 0
        {
            while dark.step() {}
            counted += dark.status().arms[0].total.count;
            assert!(lab == Lab::Dark || dark.status().sessions_total == 0);
        }
    }
    for client in &clients {
        cluster.client(*client).socket().set_room(usize::MAX);
    }
    cluster.run_until_idle();
    (cluster.take_writes(), counted)
}

#[test]
fn not_one_byte_length_order_or_write_differs_with_four_arms_on() {
    for (seed, streams) in (1..).zip(STREAMS) {
        for batches in [false, true] {
            let (without, _) = run(streams, batches, seed, Lab::Nothing);
            assert!(without.len() > 1_000, "{streams:?}: {} writes", without.len());
            let (with, counted) = run(streams, batches, seed, Lab::Dark);
            assert!(counted > 1_000, "{streams:?}: the arms counted {counted} dispatches");
            let differs = without.iter().zip(&with).position(|(without, with)| without != with);
            assert!(without == with, "{streams:?}, batches {batches}, seed {seed}: write {differs:?} differs");
        }
    }
}

#[test]
fn without_a_budget_nothing_is_copied() {
    let (without, _) = run(STREAMS[0], false, 9, Lab::Nothing);
    let (with, counted) = run(STREAMS[0], false, 9, Lab::NoBudget);
    assert!(without == with);
    assert_eq!(counted, 0);
}
