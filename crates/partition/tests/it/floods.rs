//! Floods of one kind of event (S6): a detached session resumes without loss of other events, and receives every
//! current state.

use crate::fixture::*;
use guildhall_codec::Encoding;
use guildhall_guild::{Actor, Command};
use guildhall_model::{ClientStatus, Platform, Presence, Status, User, UserId};
use guildhall_partition::{Compression, PartitionConfig};
use guildhall_session::Share;
use guildhall_test_kit::{ClientId, ClientParams, Dispatch, GuildBuilder, Received, TestCluster, user};
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc};

/// Limits that a flood exceeds quickly.
fn small(config: &mut PartitionConfig) {
    (config.replay_events_max, config.replay_bytes_max) = (64, 64 << 10);
    config.replay_share = Share { pieces_max: 16, bytes_max: 16 << 10 };
    (config.log.events_max, config.log.bytes_max) = (128, 128 << 10);
    (config.log.share_events_max, config.log.share_bytes_max) = (64, 16 << 10);
    // The replay and the states that are sent again have to fit.
    (config.backlog_events_max, config.backlog_bytes_max) = (256, 1 << 20);
}

const FORMS: [ClientParams; 3] = [
    ClientParams::JSON,
    ClientParams::new(Encoding::Etf, Compression::Zstd),
    ClientParams::deflate(Encoding::Json, false, 15),
];

/// Op 3 close to the limit of a session.
fn bomb(n: usize) -> Value {
    let activity = |k| {
        json!({"name": format!("{n}-{k}-{}", "n".repeat(110)), "type": 0, "state": "s".repeat(128), "details": "d".repeat(128),
               "url": "u".repeat(256), "assets": {"large_text": "l".repeat(128), "large_image": "i".repeat(256)}})
    };
    json!({"status": "online", "activities": [activity(0), activity(1), activity(2)], "since": null, "afk": false})
}

/// Reconnects, resumes, and returns all dispatches that follow.
fn comes_back(cluster: &mut TestCluster, client: ClientId, account: &Arc<User>) -> (ClientId, Vec<Dispatch>) {
    let (client, received) = resumed(cluster, client, account);
    let dispatch = |received| match received {
        Received::Dispatch(dispatch) => dispatch,
        other => panic!("{other:?} in a replay"),
    };
    let dispatches: Vec<Dispatch> = received.into_iter().map(dispatch).collect();
    assert!(dispatches.iter().any(|dispatch| dispatch.name == "RESUMED"), "{dispatches:?}");
    let end = dispatches.iter().position(|dispatch| dispatch.name == "RESUMED").expect("the replay ends");
    assert!(dispatches[..end].is_sorted_by(|a, b| a.seq < b.seq), "no number is used twice");
    assert!(dispatches[end..].is_sorted_by(|a, b| a.seq + 1 == b.seq), "only a replay has gaps");
    (client, dispatches)
}

fn contents(dispatches: &[Dispatch]) -> Vec<String> {
    let messages = dispatches.iter().filter(|dispatch| dispatch.name == "MESSAGE_CREATE");
    messages.map(|dispatch| text(&dispatch.d()["content"])).collect()
}

#[test]
fn s6_a_presence_bomb_pushes_nothing_out_of_a_replay() {
    for params in FORMS {
        let mut cluster = world_with(small);
        let reader = live(&mut cluster, &pro(), Some(FULL), params);
        let attackers: Vec<_> = (0..12).map(|_| live_user(&mut cluster, &bob(), 0)).collect();
        cluster.take(reader);
        cluster.cut(reader);
        say(&mut cluster, &ana(), GENERAL, "first");
        let mut bytes = 0;
        for round in 0..30 {
            for (n, attacker) in attackers.iter().enumerate() {
                cluster.client(*attacker).send(3, &bomb(100 * round + n));
            }
            bytes += bomb(0).to_string().len() * attackers.len();
            say(&mut cluster, &ana(), GENERAL, &format!("{round}"));
            cluster.run_until_idle();
            cluster.advance_with_heartbeats(4_000);
        }
        assert!(bytes > 4 * (128 << 10), "the flood is larger than what is kept: {bytes}");
        let (_, dispatches) = comes_back(&mut cluster, reader, &pro());
        let messages: Vec<String> = std::iter::once("first".into()).chain((0..30).map(|n| n.to_string())).collect();
        assert_eq!(contents(&dispatches), messages, "{params:?}");
        let presences: Vec<&Dispatch> =
            dispatches.iter().filter(|dispatch| dispatch.name == "PRESENCE_UPDATE").collect();
        assert_eq!(presences.len(), 1, "the newest of each");
        let activities = presences[0].d()["activities"].to_string();
        assert!(activities.contains("2900-0-") && activities.len() <= 8 << 10, "{} bytes", activities.len());
    }
}

#[test]
fn s6_a_flood_of_typing_pushes_nothing_out_of_a_replay() {
    for params in FORMS {
        let mut cluster = world_with(small);
        let reader = live(&mut cluster, &pro(), Some(FULL), params);
        cluster.cut(reader);
        for round in 0..20 {
            say(&mut cluster, &ana(), GENERAL, &format!("{round}"));
            for _ in 0..50 {
                cluster.command(Actor::User(ana().id), Command::StartTyping(channel(GENERAL))).expect("she may");
            }
            cluster.run_until_idle();
        }
        let (_, dispatches) = comes_back(&mut cluster, reader, &pro());
        assert_eq!(contents(&dispatches), (0..20).map(|n| n.to_string()).collect::<Vec<_>>(), "{params:?}");
        let typing = dispatches.iter().filter(|dispatch| dispatch.name == "TYPING_START").count();
        assert!((1..=65).contains(&typing), "{typing}");
    }
}

/// A guild with many members who have no session.
fn crowd(count: u64) -> (TestCluster, Vec<Arc<User>>) {
    let crowd: Vec<Arc<User>> = (0..count).map(|n| user(10_000 + n)).collect();
    let mut config = guildhall_test_kit::TestClusterConfig::default();
    small(&mut config.partition);
    let mut cluster = TestCluster::new(config);
    [ana(), bob(), pro()].iter().for_each(|account| cluster.add_account(account));
    let guild = guild();
    let guild = crowd.iter().fold(guild, |guild: GuildBuilder, account| guild.member(account, &[]));
    cluster.add_guild(guild.load());
    (cluster, crowd)
}

/// Last value of one field by user.
fn last_of_each(dispatches: &[Dispatch], name: &str, user: &str, what: &str) -> BTreeMap<String, Value> {
    let of_name = dispatches.iter().filter(|dispatch| dispatch.name == name);
    of_name.map(|dispatch| (text(dispatch.d().pointer(user).expect("a user")), dispatch.d()[what].clone())).collect()
}

#[test]
fn s6_voice_states_past_their_share_are_replayed_in_their_last_state() {
    for params in FORMS {
        let (mut cluster, crowd) = crowd(200);
        let reader = live(&mut cluster, &pro(), Some(FULL), params);
        cluster.cut(reader);
        say(&mut cluster, &ana(), GENERAL, "first");
        for account in &crowd {
            system(&mut cluster, Command::ShowVoice(account.id, Some(channel(VOICE))));
        }
        for account in &crowd[..50] {
            system(&mut cluster, Command::ShowVoice(account.id, None));
        }
        cluster.run_until_idle();
        say(&mut cluster, &ana(), GENERAL, "last");
        let (_, dispatches) = comes_back(&mut cluster, reader, &pro());
        assert_eq!(contents(&dispatches), ["first", "last"], "{params:?}");
        let places = last_of_each(&dispatches, "VOICE_STATE_UPDATE", "/user_id", "channel_id");
        assert_eq!(places.len(), 200, "all users are in the replay");
        let voice = json!(channel(VOICE).to_string());
        for (n, account) in crowd.iter().enumerate() {
            let expected = if n < 50 { &Value::Null } else { &voice };
            assert_eq!(&places[&account.id.to_string()], expected);
        }
        let count = dispatches.iter().filter(|dispatch| dispatch.name == "VOICE_STATE_UPDATE").count();
        assert!(count <= 200 + 65, "{count}");
    }
}

fn show(cluster: &mut TestCluster, user_id: UserId, status: Status) {
    let mut client_status = ClientStatus::default();
    client_status.raise(Platform::Web, status);
    let presence = Presence { status, client_status, ..Presence::default() };
    system(cluster, Command::ShowPresence(user_id, Some(Arc::new(presence))));
}

#[test]
fn s6_presences_past_their_share_are_replayed_in_their_last_state() {
    let (mut cluster, crowd) = crowd(180);
    let reader = live(&mut cluster, &pro(), Some(FULL), ClientParams::JSON);
    cluster.cut(reader);
    say(&mut cluster, &ana(), GENERAL, "first");
    for status in [Status::Online, Status::Idle, Status::Dnd] {
        crowd.iter().for_each(|account| show(&mut cluster, account.id, status));
        cluster.run_until_idle();
        cluster.advance(10_000);
    }
    let (_, dispatches) = comes_back(&mut cluster, reader, &pro());
    assert_eq!(contents(&dispatches), ["first"]);
    let statuses = last_of_each(&dispatches, "PRESENCE_UPDATE", "/user/id", "status");
    assert_eq!(statuses.len(), 180, "all users are in the replay");
    assert!(statuses.values().all(|status| status == "dnd"), "{statuses:?}");
}

#[test]
fn s6_a_slow_reader_is_not_cut_by_a_flood_and_knows_how_it_ends() {
    for params in FORMS {
        let (mut cluster, crowd) = crowd(150);
        let reader = live(&mut cluster, &pro(), Some(FULL), params);
        cluster.stop_reading(reader);
        cluster.client(reader).socket().set_room(100);
        say(&mut cluster, &ana(), GENERAL, "first");
        for account in &crowd {
            system(&mut cluster, Command::ShowVoice(account.id, Some(channel(VOICE))));
            show(&mut cluster, account.id, Status::Idle);
            cluster.run_until_idle();
        }
        say(&mut cluster, &ana(), GENERAL, "last");
        cluster.run_until_idle();
        cluster.start_reading(reader);
        cluster.run_until_idle();
        let dispatches = cluster.dispatches(reader);
        assert_eq!(
            (contents(&dispatches), cluster.close_code(reader)),
            (vec!["first".into(), "last".into()], None),
            "{params:?}"
        );
        assert_eq!(last_of_each(&dispatches, "VOICE_STATE_UPDATE", "/user_id", "channel_id").len(), 150);
        assert_eq!(last_of_each(&dispatches, "PRESENCE_UPDATE", "/user/id", "status").len(), 150);
    }
}

#[test]
fn s6_only_a_replay_leaves_out_presences() {
    for params in FORMS {
        let (mut cluster, crowd) = crowd(3);
        let reader = live(&mut cluster, &pro(), Some(FULL), params);
        cluster.stop_reading(reader);
        cluster.client(reader).socket().set_room(100);
        let statuses = [Status::Online, Status::Idle, Status::Dnd];
        let flicker = |cluster: &mut TestCluster| {
            for status in statuses {
                show(cluster, crowd[0].id, status);
                cluster.run_until_idle();
                cluster.advance(2_000);
            }
        };
        say(&mut cluster, &ana(), GENERAL, "first");
        flicker(&mut cluster);
        cluster.start_reading(reader);
        cluster.run_until_idle();
        let dispatches = cluster.dispatches(reader);
        let shown = |dispatches: &[Dispatch]| {
            let presences = dispatches.iter().filter(|dispatch| dispatch.name == "PRESENCE_UPDATE");
            presences.map(|dispatch| text(&dispatch.d()["status"])).collect::<Vec<_>>()
        };
        assert_eq!(shown(&dispatches), ["online", "idle", "dnd"], "{params:?}");
        assert!(dispatches.is_sorted_by(|a, b| a.seq + 1 == b.seq), "a connection that is behind has no gap");
        cluster.cut(reader);
        flicker(&mut cluster);
        let last = dispatches.last().expect("there are some").seq;
        let (_, dispatches) = comes_back(&mut cluster, reader, &pro());
        assert_eq!(shown(&dispatches), ["dnd"], "{params:?}");
        assert_eq!(dispatches[0].seq, last + 3, "the numbers of the others are left out");
    }
}

#[test]
fn s6_member_lists_past_their_share_are_replayed_whole() {
    let (mut cluster, crowd) = crowd(90);
    let reader = live_user(&mut cluster, &bob(), 0);
    subscribe(&mut cluster, reader, json!({"typing": true, "channels": {channel(GENERAL).to_string(): [[0, 99]]}}));
    cluster.take(reader);
    cluster.cut(reader);
    say(&mut cluster, &ana(), GENERAL, "first");
    for round in 0..40 {
        let status = if round % 2 == 0 { Status::Online } else { Status::Dnd };
        for account in &crowd[..3 + round % 5] {
            show(&mut cluster, account.id, status);
        }
        cluster.run_until_idle();
        cluster.advance(1_000);
    }
    say(&mut cluster, &ana(), GENERAL, "last");
    let (_, dispatches) = comes_back(&mut cluster, reader, &bob());
    assert_eq!(contents(&dispatches), ["first", "last"]);
    let lists: Vec<&Dispatch> =
        dispatches.iter().filter(|dispatch| dispatch.name == "GUILD_MEMBER_LIST_UPDATE").collect();
    assert_eq!(lists.len(), 1, "changes that miss those before them are left out");
    assert_eq!(lists[0].d()["ops"][0]["op"], "SYNC");
}
