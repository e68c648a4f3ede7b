//! Visibility: the bytes of a connection do not depend on events that its account may not view.

use crate::{compression::SHARED, fixture::relay};
use guildhall_codec::Encoding;
use guildhall_guild::{Actor, Command, NewDirect, NewMessage};
use guildhall_model::{ChannelId, ChannelType, Overwrite, OverwriteKind, Permissions, User};
use guildhall_partition::Compression;
use guildhall_stdx::Rng;
use guildhall_test_kit::{ClientId, ClientParams, GuildBuilder, Hold, TestCluster, id, user};
use std::sync::Arc;

/// Ids of the oracle's guilds and channels: two of the attacker's, one of its accomplice, one of the victim.
const OWN: [(u64, u64); 2] = [(21, 210), (22, 220)];
const ACCOMPLICE: (u64, u64) = (23, 230);
const VICTIM: (u64, u64) = (24, 240);
/// In the attacker's second guild, and not for it.
const BOARD: u64 = 221;
/// In the victim's guild, for the writer and the victim.
const CABINET: u64 = 241;
const DM: ChannelId = ChannelId::new(9_000);

/// Channel of the message that the attacker guesses at.
#[derive(Clone, Copy, Debug)]
enum Place {
    OtherGuild,
    Direct,
    Cabinet,
    Board,
}

fn attacker() -> Arc<User> {
    user(901)
}

fn accomplice() -> Arc<User> {
    user(902)
}

fn writer() -> Arc<User> {
    user(903)
}

fn victim() -> Arc<User> {
    user(904)
}

fn oracle() -> TestCluster {
    let mut cluster = TestCluster::with(|config| config.stream_codec = SHARED);
    [attacker(), accomplice(), writer(), victim()].iter().for_each(|account| cluster.add_account(account));
    let mut add = |(guild, channel): (u64, u64), members: [&Arc<User>; 2], hidden: Option<u64>| {
        let role = 1_000 + guild;
        let mut builder = GuildBuilder::new(guild, members[0])
            .role(role, guildhall_model::Permissions::NONE)
            .channel(channel, ChannelType::Text)
            .member(members[1], &[role]);
        if let Some(hidden) = hidden {
            builder = builder.hidden_channel(hidden, &[role]);
        }
        if channel == OWN[1].1 {
            builder = builder.member(&attacker(), &[]);
        }
        cluster.add_guild(builder.load());
    };
    add(OWN[0], [&attacker(), &attacker()], None);
    // The writer owns it, and the victim has the role.
    add(OWN[1], [&writer(), &victim()], Some(BOARD));
    add(ACCOMPLICE, [&accomplice(), &accomplice()], None);
    add(VICTIM, [&writer(), &victim()], Some(CABINET));
    cluster.add_direct(NewDirect { id: DM, recipients: vec![writer(), victim()], is_group: false });
    cluster
}

fn tell(cluster: &mut TestCluster, who: &Arc<User>, (guild, channel): (u64, u64), content: String) {
    let command = Command::CreateMessage(id(channel), Box::new(NewMessage { content, ..NewMessage::default() }));
    cluster.command_in(id(guild), Actor::User(who.id), command).expect("they may");
    cluster.run_until_idle();
}

fn random(rng: &mut Rng, len: usize) -> String {
    const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    (0..len).map(|_| char::from(ALPHABET[rng.below(36) as usize])).collect()
}

/// The attack of a review, in which ways of a shared index were the channel: the attacker prepares the places of its
/// guess, its accomplice fills the ways, and whether the victim's message took the last one shows in the length of the
/// attacker's next frame. Returns the wire of the attacker's connection. `filled`: positions that the accomplice fills;
/// the index decides how many are needed.
fn probe(place: Place, params: ClientParams, (seed, filled): (u64, usize), is_guessed: bool) -> Vec<u8> {
    let mut cluster = oracle();
    let mut rng = Rng::new(seed);
    let login = |cluster: &mut TestCluster, account: &Arc<User>| -> ClientId {
        let client = cluster.connect(params);
        cluster.client(client).record_wire();
        let mut d = guildhall_test_kit::identify_payload(&account.username, None);
        d["capabilities"] = 0.into();
        cluster.client(client).identify(d);
        cluster.run_until_idle();
        client
    };
    let eye = login(&mut cluster, &attacker());
    for account in [accomplice(), writer(), victim()] {
        login(&mut cluster, &account);
    }
    let guess = random(&mut rng, 24);
    let other = random(&mut rng, 24);
    let around = |rng: &mut Rng, text: &str| format!("{}{text}{}", random(rng, 10), random(rng, 10));
    let text = around(&mut rng, &guess);
    tell(&mut cluster, &attacker(), OWN[0], text);
    for _ in 0..6 {
        tell(&mut cluster, &attacker(), OWN[1], "hi".to_owned());
    }
    for _ in 0..filled {
        let text = around(&mut rng, &guess);
        tell(&mut cluster, &accomplice(), ACCOMPLICE, text);
    }
    let secret = format!("pw: {} !", if is_guessed { &guess } else { &other });
    match place {
        Place::Direct => {
            let new = NewMessage { content: secret, ..NewMessage::default() };
            let command = Command::CreateMessage(DM, Box::new(new));
            cluster.command_in(DM.cast(), Actor::User(writer().id), command).expect("they may");
            cluster.run_until_idle();
        }
        Place::OtherGuild => tell(&mut cluster, &writer(), VICTIM, secret),
        Place::Cabinet => tell(&mut cluster, &writer(), (VICTIM.0, CABINET), secret),
        Place::Board => tell(&mut cluster, &writer(), (OWN[1].0, BOARD), secret),
    }
    let text = around(&mut rng, &guess);
    tell(&mut cluster, &attacker(), OWN[1], text);
    cluster.run_until_idle();
    assert!(cluster.dispatches(eye).len() > 8, "the attacker reads its own guilds");
    cluster.client(eye).wire().to_vec()
}

#[test]
fn s1_frames_do_not_tell_whether_others_were_sent_a_guess() {
    for compression in [Compression::Zstd, Compression::Zlib] {
        let params = ClientParams::new(Encoding::Json, compression);
        for place in [Place::OtherGuild, Place::Direct, Place::Cabinet, Place::Board] {
            for (seed, filled) in [0, 0, 0, 1, 2, 3, 4, 6, 7, 8].into_iter().enumerate() {
                let run = (seed as u64, filled);
                let [other, guessed] = [false, true].map(|is_guessed| probe(place, params, run, is_guessed));
                assert_eq!(
                    other.len(),
                    guessed.len(),
                    "{place:?}, {compression:?}, {run:?}: the length of the attacker's stream depends on the victim's message"
                );
                assert!(other == guessed, "{place:?}, {compression:?}, {run:?}: equal lengths, other bytes");
            }
        }
    }
}

/// Guild with two public channels, of which the second is then hidden from some members.
const LAGGING: (u64, u64) = (25, 250);
const NARROWED: u64 = 251;

/// A relay lags: it still has to deliver a message that is older than the narrowing of its channel. Another relay of
/// the guild is ahead and attaches a session of an account that may not read this message. The relay in front handled
/// the narrowing, or began later. Returns the wire of the new member's connection.
fn lag(begins_late: bool, params: ClientParams, seed: u64, is_guessed: bool) -> Vec<u8> {
    let mut cluster = TestCluster::with(|config| (config.stream_codec, config.sessions_per_relay_max) = (SHARED, 2));
    [attacker(), accomplice(), writer(), victim()].iter().for_each(|account| cluster.add_account(account));
    let mut guild = GuildBuilder::new(LAGGING.0, &writer())
        .role(1_025, Permissions::NONE)
        .channel(LAGGING.1, ChannelType::Text)
        .channel(NARROWED, ChannelType::Text)
        .member(&victim(), &[1_025]);
    if !begins_late {
        guild = guild.member(&accomplice(), &[]);
    }
    cluster.add_guild(guild.load());
    let login = |cluster: &mut TestCluster, account: &Arc<User>, params: ClientParams| -> ClientId {
        let client = cluster.connect(params);
        cluster.client(client).record_wire();
        let mut d = guildhall_test_kit::identify_payload(&account.username, None);
        d["capabilities"] = 0.into();
        cluster.client(client).identify(d);
        cluster.run_until_idle();
        client
    };
    login(&mut cluster, &writer(), params);
    let reader = login(&mut cluster, &victim(), params);
    // It keeps the second relay, and shares no stream.
    login(&mut cluster, &accomplice(), ClientParams::JSON);
    let eye = login(&mut cluster, &attacker(), params);
    cluster.dispatches(reader);

    let mut rng = Rng::new(seed);
    let (guess, other) = (random(&mut rng, 24), random(&mut rng, 24));
    let around = |rng: &mut Rng, text: &str| format!("{}{text}{}", random(rng, 10), random(rng, 10));
    cluster.hold(Hold::Mail);
    tell(&mut cluster, &writer(), (LAGGING.0, NARROWED), around(&mut rng, if is_guessed { &guess } else { &other }));
    let view = Permissions::VIEW_CHANNEL;
    for (role, allow, deny) in [(LAGGING.0, Permissions::NONE, view), (1_025, view, Permissions::NONE)] {
        let overwrite = Overwrite { target: OverwriteKind::Role(id(role)), allow, deny };
        let command = Command::PutOverwrite(id(NARROWED), overwrite);
        cluster.command_in(id(LAGGING.0), Actor::System, command).expect("the system may");
    }
    cluster.command_in(id(LAGGING.0), Actor::System, Command::AddMember(attacker())).expect("the system may");
    cluster.announce_joined(&attacker(), id(LAGGING.0));
    cluster.run_until_idle();
    for _ in 0..3 {
        cluster.deliver_mail_to(relay(1), usize::MAX);
    }
    // In a small history a message leaves no place of the one before.
    for _ in 0..24 {
        tell(&mut cluster, &attacker(), LAGGING, "hi".to_owned());
    }
    let text = around(&mut rng, &guess);
    tell(&mut cluster, &attacker(), LAGGING, text);
    cluster.deliver_mail_to(relay(1), usize::MAX);
    cluster.deliver_mail_to(relay(0), 1);
    assert_eq!(cluster.names(reader).len(), 1, "the message from before the channel was narrowed");
    // Elsewhere in the body: a match that goes on where the last one ended needs no index.
    let text = format!("{}{}", random(&mut rng, 17), around(&mut rng, &guess));
    tell(&mut cluster, &attacker(), LAGGING, text);
    cluster.deliver_mail_to(relay(1), usize::MAX);
    let names = cluster.names(eye);
    assert_eq!(names.iter().filter(|(_, name)| name == "MESSAGE_CREATE").count(), 26, "{names:?}");
    cluster.client(eye).wire().to_vec()
}

#[test]
fn s1_a_relay_that_lags_behind_a_narrowed_channel_tells_nothing_of_its_past() {
    for compression in [Compression::Zstd, Compression::Zlib] {
        let params = ClientParams::new(Encoding::Json, compression);
        for (begins_late, seed) in [false, true].into_iter().flat_map(|late| (0..6).map(move |seed| (late, seed))) {
            let [other, guessed] = [false, true].map(|is_guessed| lag(begins_late, params, seed, is_guessed));
            let lengths = [other.len(), guessed.len()];
            assert!(other == guessed, "{compression:?}, begins late: {begins_late}, seed {seed}: {lengths:?}");
        }
    }
}
