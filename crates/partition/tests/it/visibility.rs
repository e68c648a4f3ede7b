//! Visibility: the bytes of a connection do not depend on events that its account may not view.

use crate::compression::SHARED;
use guildhall_codec::Encoding;
use guildhall_guild::{Actor, Command, NewDirect, NewMessage};
use guildhall_model::{ChannelId, ChannelType, User};
use guildhall_partition::Compression;
use guildhall_stdx::Rng;
use guildhall_test_kit::{ClientId, ClientParams, GuildBuilder, Pair, id, user};
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

fn oracle() -> Pair {
    let mut pair = Pair::with(|config| config.streams = SHARED);
    [attacker(), accomplice(), writer(), victim()].iter().for_each(|account| pair.add_account(account));
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
        pair.add_guild(builder.load());
    };
    add(OWN[0], [&attacker(), &attacker()], None);
    // The writer owns it, and the victim has the role.
    add(OWN[1], [&writer(), &victim()], Some(BOARD));
    add(ACCOMPLICE, [&accomplice(), &accomplice()], None);
    add(VICTIM, [&writer(), &victim()], Some(CABINET));
    pair.add_direct(NewDirect { id: DM, recipients: vec![writer(), victim()], is_group: false });
    pair
}

fn tell(pair: &mut Pair, who: &Arc<User>, (guild, channel): (u64, u64), content: String) {
    let command = Command::CreateMessage(id(channel), Box::new(NewMessage { content, ..NewMessage::default() }));
    pair.command_in(id(guild), Actor::User(who.id), command).expect("they may");
    pair.settle();
}

fn random(rng: &mut Rng, len: usize) -> String {
    const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    (0..len).map(|_| char::from(ALPHABET[rng.below(36) as usize])).collect()
}

/// The attack of a review, in which ways of a shared index were the channel: the attacker prepares the places of its guess, its
/// accomplice fills the ways, and whether the victim's message took the last one shows in the length of the attacker's
/// next frame. Returns all that the attacker's connection was sent.
fn probe(place: Place, params: ClientParams, seed: u64, is_guessed: bool) -> Vec<u8> {
    let mut pair = oracle();
    let mut rng = Rng::new(seed);
    let login = |pair: &mut Pair, account: &Arc<User>| -> ClientId {
        let client = pair.connect(params);
        pair.client(client).record_wire();
        let mut d = guildhall_test_kit::identify_payload(&account.username, None);
        d["capabilities"] = 0.into();
        pair.client(client).identify(d);
        pair.settle();
        client
    };
    let eye = login(&mut pair, &attacker());
    for account in [accomplice(), writer(), victim()] {
        login(&mut pair, &account);
    }
    let guess = random(&mut rng, 24);
    let other = random(&mut rng, 24);
    let around = |rng: &mut Rng, text: &str| format!("{}{text}{}", random(rng, 10), random(rng, 10));
    let text = around(&mut rng, &guess);
    tell(&mut pair, &attacker(), OWN[0], text);
    for _ in 0..6 {
        tell(&mut pair, &attacker(), OWN[1], "hi".to_owned());
    }
    for _ in 0..7 {
        let text = around(&mut rng, &guess);
        tell(&mut pair, &accomplice(), ACCOMPLICE, text);
    }
    let secret = format!("pw: {} !", if is_guessed { &guess } else { &other });
    match place {
        Place::Direct => {
            let new = NewMessage { content: secret, ..NewMessage::default() };
            let command = Command::CreateMessage(DM, Box::new(new));
            pair.command_in(DM.cast(), Actor::User(writer().id), command).expect("they may");
            pair.settle();
        }
        Place::OtherGuild => tell(&mut pair, &writer(), VICTIM, secret),
        Place::Cabinet => tell(&mut pair, &writer(), (VICTIM.0, CABINET), secret),
        Place::Board => tell(&mut pair, &writer(), (OWN[1].0, BOARD), secret),
    }
    let text = around(&mut rng, &guess);
    tell(&mut pair, &attacker(), OWN[1], text);
    pair.settle();
    assert!(pair.dispatches(eye).len() > 8, "the attacker reads its own guilds");
    pair.client(eye).wire().to_vec()
}

#[test]
fn s1_frames_do_not_tell_whether_others_were_sent_a_guess() {
    for compression in [Compression::Zstd, Compression::Zlib] {
        let params = ClientParams::new(Encoding::Json, compression);
        for place in [Place::OtherGuild, Place::Direct, Place::Cabinet, Place::Board] {
            for seed in 0..8 {
                let [other, guessed] = [false, true].map(|is_guessed| probe(place, params, seed, is_guessed));
                assert_eq!(
                    other.len(),
                    guessed.len(),
                    "{place:?}, {compression:?}, seed {seed}: the length of the attacker's stream depends on the victim's message"
                );
                assert!(other == guessed, "{place:?}, {compression:?}, seed {seed}: equal lengths, other bytes");
            }
        }
    }
}
