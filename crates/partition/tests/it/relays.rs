//! Several relays of one guild on one partition: every session receives each event once, and each relay falls behind
//! independently (trap 15).

use crate::fixture::*;
use guildhall_codec::Encoding;
use guildhall_guild_protocol::{RelayId, ToGuild};
use guildhall_model::MessageId;
use guildhall_partition::Compression;
use guildhall_stdx::Rng;
use guildhall_test_kit::{ClientId, ClientParams, Dispatch, Hold, TestCluster, id};

const SESSIONS_PER_RELAY: usize = 3;

fn split() -> TestCluster {
    world_with(|config| config.sessions_per_relay_max = SESSIONS_PER_RELAY)
}

/// Bots that receive messages, but not each other's presences. The relay of the nth is `relay(n / SESSIONS_PER_RELAY)`.
fn crowd(cluster: &mut TestCluster, count: usize) -> Vec<ClientId> {
    let kinds = [ClientParams::JSON, ClientParams::ETF, ClientParams::new(Encoding::Json, Compression::Zstd)];
    let login = |n| live(cluster, &gob(), Some(PLAIN), kinds[n % kinds.len()]);
    (0..count).map(login).collect()
}

/// The relays that subscribed and did not unsubscribe since, in the order of their last subscription.
fn subscribed(cluster: &TestCluster) -> Vec<RelayId> {
    let mut relays: Vec<RelayId> = Vec::new();
    for (_, message) in &cluster.to_guilds {
        match message {
            ToGuild::Subscribe { relay, .. } => relays.push(*relay),
            ToGuild::Unsubscribe { relay, .. } => relays.retain(|other| other != relay),
            _ => {}
        }
    }
    relays
}

/// Ids of the messages that a client heard of, which must come without a hole in its sequence numbers.
fn message_ids(dispatches: &[Dispatch]) -> Vec<String> {
    assert!(dispatches.is_sorted_by(|a, b| a.seq + 1 == b.seq), "{dispatches:?}");
    dispatches.iter().map(|dispatch| text(&dispatch.d()["id"])).collect()
}

fn close(cluster: &mut TestCluster, client: ClientId) {
    cluster.client(client).close(Some(1000));
    cluster.run_until_idle();
}

#[test]
fn every_session_receives_each_message_once_and_in_order() {
    let mut cluster = split();
    let clients = crowd(&mut cluster, 20);
    assert_eq!(subscribed(&cluster), (0..7).map(relay).collect::<Vec<_>>());
    // More in a row than the dispatches that are remembered from one relay to the next.
    for round in [1, 7, 50] {
        let sent: Vec<String> =
            (0..round).map(|n| say(&mut cluster, &ana(), GENERAL, &format!("{n}")).to_string()).collect();
        for client in &clients {
            let dispatches = cluster.dispatches(*client);
            assert_eq!(message_ids(&dispatches), sent);
        }
    }
    assert_eq!(cluster.partition().counters().dispatches_total, 20 * (2 + 1 + 7 + 50));
    let reports: Vec<_> = cluster.partition().relay_reports(id(GUILD)).collect();
    assert_eq!(reports.iter().map(|relay| relay.index).collect::<Vec<_>>(), (0..7).collect::<Vec<_>>());
    assert_eq!(reports.iter().map(|relay| relay.deliveries_total).sum::<u64>(), 20 * (1 + 7 + 50));
    assert_eq!(reports.iter().map(|relay| relay.active + relay.passive).sum::<u64>(), 20);
    assert!(reports.iter().all(|relay| relay.bytes_total > 100 * relay.deliveries_total), "{reports:?}");
}

#[test]
fn relays_served_one_after_the_other_deliver_the_same() {
    let mut cluster = split();
    let clients = crowd(&mut cluster, 9);
    cluster.hold(Hold::Mail);
    let sent: Vec<String> = (0..50).map(|n| say(&mut cluster, &ana(), GENERAL, &format!("{n}")).to_string()).collect();
    for index in [2, 0, 1] {
        cluster.deliver_mail_to(relay(index), usize::MAX);
        for (n, client) in clients.iter().enumerate() {
            let expected = if n / SESSIONS_PER_RELAY == usize::from(index) { &sent[..] } else { &[] };
            assert_eq!(message_ids(&cluster.dispatches(*client)), expected, "client {n} after relay {index}");
        }
    }
}

#[test]
fn a_relay_whose_sessions_left_ends_and_its_number_is_used_again() {
    let mut cluster = split();
    let clients = crowd(&mut cluster, 9);
    close(&mut cluster, clients[3]);
    close(&mut cluster, clients[4]);
    assert_eq!(subscribed(&cluster), [relay(0), relay(1), relay(2)], "one is left");
    // There is room in it again, and there it goes.
    let newcomer = crowd(&mut cluster, 1)[0];
    close(&mut cluster, newcomer);
    close(&mut cluster, clients[5]);
    assert_eq!(subscribed(&cluster), [relay(0), relay(2)]);

    let newcomer = crowd(&mut cluster, 1)[0];
    assert_eq!(subscribed(&cluster), [relay(0), relay(2), relay(1)]);
    say(&mut cluster, &ana(), GENERAL, "hi");
    for client in [clients[0], clients[8], newcomer] {
        assert_eq!(names(&mut cluster, client), ["MESSAGE_CREATE"]);
    }
}

#[test]
fn what_was_meant_for_an_ended_relay_does_not_reach_the_next_of_its_number() {
    let mut cluster = split();
    let clients = crowd(&mut cluster, 6);
    cluster.hold(Hold::Mail);
    say(&mut cluster, &ana(), GENERAL, "to nobody");
    clients[3..].iter().for_each(|client| close(&mut cluster, *client));
    let newcomer = cluster.login(&gob(), Some(PLAIN), ClientParams::JSON);
    assert_eq!(names(&mut cluster, newcomer), ["READY"]);
    cluster.release(Hold::Mail);
    assert_eq!(names(&mut cluster, newcomer), ["GUILD_CREATE"]);
    say(&mut cluster, &ana(), GENERAL, "to everybody");
    assert_eq!(names(&mut cluster, newcomer), ["MESSAGE_CREATE"]);
}

#[test]
fn a_session_that_comes_back_may_be_served_by_another_relay() {
    let mut cluster = split();
    let first = live(&mut cluster, &pro(), Some(PLAIN), ClientParams::JSON);
    let others = crowd(&mut cluster, 3);
    system(&mut cluster, guildhall_guild::Command::RemoveMember(pro().id));
    cluster.run_until_idle();
    // Its place is taken.
    let _taken = crowd(&mut cluster, 1)[0];
    system(&mut cluster, guildhall_guild::Command::AddMember(pro()));
    assert_eq!(names(&mut cluster, first), ["GUILD_DELETE", "GUILD_CREATE"]);
    say(&mut cluster, &ana(), GENERAL, "welcome back");
    assert_eq!(names(&mut cluster, first), ["MESSAGE_CREATE"]);
    for other in others {
        assert_eq!(names(&mut cluster, other), ["MESSAGE_CREATE"]);
    }
}

#[test]
fn a_reset_concerns_only_the_sessions_of_its_relay() {
    let mut cluster = split();
    let clients = crowd(&mut cluster, 9);
    for reset in [1, 0, 2] {
        cluster.overflow(relay(reset), id(GUILD));
        cluster.room(relay(reset), id(GUILD));
        cluster.run_until_idle();
        say(&mut cluster, &ana(), GENERAL, "hi");
        for (n, client) in clients.iter().enumerate() {
            let received = names(&mut cluster, *client);
            if n / SESSIONS_PER_RELAY == usize::from(reset) {
                assert_eq!(received, ["GUILD_DELETE", "GUILD_CREATE", "MESSAGE_CREATE"], "client {n}");
            } else {
                assert_eq!(received, ["MESSAGE_CREATE"], "client {n}");
            }
        }
    }
    assert_eq!(cluster.partition().counters().resets_total, 9);
}

#[test]
fn a_relay_that_fell_behind_holds_up_no_other_and_starts_again_where_the_guild_is() {
    let mut cluster = split();
    let clients = crowd(&mut cluster, 9);
    cluster.overflow(relay(1), id(GUILD));
    let mut last = say(&mut cluster, &ana(), GENERAL, "0");
    for n in 1..40 {
        last = say(&mut cluster, &ana(), GENERAL, &n.to_string());
        cluster.run_until_idle();
    }
    for client in clients[..3].iter().chain(&clients[6..]) {
        assert_eq!(cluster.dispatches(*client).len(), 40);
    }
    for client in &clients[3..6] {
        assert_eq!(cluster.take(*client), []);
    }
    cluster.room(relay(1), id(GUILD));
    for client in &clients[3..6] {
        let dispatches = cluster.dispatches(*client);
        assert_eq!(dispatches.iter().map(|d| d.name.as_str()).collect::<Vec<_>>(), ["GUILD_DELETE", "GUILD_CREATE"]);
        assert_eq!(newest_message(&dispatches[1]), Some(last.to_string()));
    }
}

/// The newest message of the test's channel in GUILD_CREATE.
fn newest_message(guild_create: &Dispatch) -> Option<String> {
    let d = guild_create.d();
    let channels = d["channels"].as_array().expect("an array");
    let general = channels.iter().find(|known| known["id"] == channel(GENERAL).to_string());
    general.expect("the channel is there")["last_message_id"].as_str().map(str::to_owned)
}

/// Compares a client's dispatches with the messages: after a GUILD_CREATE the next message follows the newest one that
/// it named, otherwise the last one received.
struct Witness {
    client: ClientId,
    /// Number of messages that it knows, by MESSAGE_CREATE or GUILD_CREATE.
    known: usize,
    is_out: bool,
    seq: u64,
}

impl Witness {
    fn look(&mut self, cluster: &mut TestCluster, sent: &[MessageId]) {
        for dispatch in cluster.dispatches(self.client) {
            assert_eq!(dispatch.seq, self.seq + 1);
            self.seq += 1;
            let place = |message: &str| sent.iter().position(|id| id.to_string() == message).expect("it was sent");
            match dispatch.name.as_str() {
                "GUILD_DELETE" => {
                    assert!(!self.is_out && dispatch.d()["unavailable"] == true);
                    self.is_out = true;
                }
                "GUILD_CREATE" => {
                    assert!(std::mem::take(&mut self.is_out), "without GUILD_DELETE");
                    let known = newest_message(&dispatch).map_or(0, |newest| place(&newest) + 1);
                    assert!(known >= self.known, "it is older than the last one sent");
                    self.known = known;
                }
                "MESSAGE_CREATE" => {
                    assert!(!self.is_out, "the guild is unavailable");
                    assert_eq!(place(&text(&dispatch.d()["id"])), self.known, "out of order, twice, or one is missing");
                    self.known += 1;
                }
                other => panic!("{other}"),
            }
        }
    }
}

#[test]
fn sessions_end_at_the_guilds_state_after_any_delay_or_loss() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let mut cluster = split();
        let clients = crowd(&mut cluster, 9);
        let witness = |client: ClientId, cluster: &mut TestCluster| Witness {
            client,
            known: 0,
            is_out: false,
            seq: cluster.client(client).seq,
        };
        let mut witnesses: Vec<Witness> = clients.into_iter().map(|client| witness(client, &mut cluster)).collect();
        cluster.hold(Hold::Mail);
        let mut sent = Vec::new();
        let mut is_cut = [false; 3];
        for _ in 0..120 {
            let index = rng.below(3) as usize;
            let which = relay(index as u16);
            match rng.below(10) {
                0..=3 => sent.push(say(&mut cluster, &ana(), GENERAL, &sent.len().to_string())),
                4..=6 => cluster.deliver_mail_to(which, rng.below(6) as usize),
                7 => {
                    // The relay notices this loss with the next message.
                    cluster.lose_mail_to(which);
                }
                8 if !is_cut[index] => {
                    is_cut[index] = true;
                    cluster.overflow(which, id(GUILD));
                }
                _ => {
                    is_cut[index] = false;
                    cluster.room(which, id(GUILD));
                    cluster.advance(rng.below(700));
                }
            }
            let looker = rng.below(9) as usize;
            witnesses[looker].look(&mut cluster, &sent);
        }
        // All links have room again, and go on. A request to start again may have been lost: then it is made again.
        cluster.release(Hold::Mail);
        for index in 0..3 {
            cluster.room(relay(index), id(GUILD));
        }
        for _ in 0..3 {
            cluster.advance(1_000);
            sent.push(say(&mut cluster, &ana(), GENERAL, "last"));
            cluster.run_until_idle();
        }
        for witness in &mut witnesses {
            witness.look(&mut cluster, &sent);
            assert!(!witness.is_out && witness.known == sent.len(), "seed {seed}: left behind");
        }
    }
}
