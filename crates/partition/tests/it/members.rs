//! Op 8: member chunks (docs/protocol/reference.md §8.7).

use crate::fixture::*;
use guildhall_codec::Encoding;
use guildhall_guild::Command;
use guildhall_model::Permissions;
use guildhall_partition::Compression;
use guildhall_test_kit::{ClientId, ClientParams, Dispatch, GuildBuilder, Hold, Received, TestCluster, id, user};
use serde_json::{Value, json};

fn request(d: Value) -> Value {
    let mut request = json!({"guild_id": id::<()>(GUILD).to_string()});
    request.as_object_mut().expect("an object").extend(d.as_object().expect("an object").clone());
    request
}

fn ask(cluster: &mut TestCluster, client: ClientId, d: Value) -> Vec<Dispatch> {
    cluster.client(client).send(8, &request(d));
    cluster.dispatches(client)
}

fn crowd(builder: GuildBuilder, count: u64) -> GuildBuilder {
    (0..count).fold(builder, |builder, n| builder.member(&user(10_000 + n), &[]))
}

#[test]
fn a_whole_list_comes_in_chunks_of_a_thousand() {
    for (params, count) in [
        (ClientParams::JSON, 2_500),
        (ClientParams::ETF, 996),
        (ClientParams::new(Encoding::Json, Compression::Zstd), 997),
        (ClientParams::JSON.with_compressed_payloads(), 7_000),
    ] {
        let mut cluster = world();
        cluster.add_guild(crowd(guild(), count).load());
        let client = live(&mut cluster, &pro(), Some(FULL), params);
        let first_seq = cluster.client(client).seq + 1;
        let chunks = ask(&mut cluster, client, json!({"query": "", "limit": 0, "nonce": "all"}));
        let total = count as usize + 4;
        assert_eq!(chunks.len(), total.div_ceil(1000), "{count}");
        let mut seen = Vec::new();
        for (index, chunk) in chunks.iter().enumerate() {
            assert_eq!((chunk.name.as_str(), chunk.seq), ("GUILD_MEMBERS_CHUNK", first_seq + index as u64));
            let d = chunk.d();
            assert_eq!((&d["chunk_index"], &d["chunk_count"]), (&json!(index), &json!(chunks.len())));
            assert_eq!((&d["nonce"], &d["not_found"]), (&json!("all"), &json!([])));
            assert!(d.get("presences").is_none());
            assert_eq!(d["guild_id"], id::<()>(GUILD).to_string());
            seen.extend(listed(&d["members"], "/user/id"));
        }
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), total);
    }
}

/// Any number of member requests: later messages are not sent after all of their chunks.
#[test]
fn events_go_between_the_chunks_of_many_readers() {
    let mut cluster = world();
    cluster.add_guild(crowd(guild(), 8_000).load());
    let askers: Vec<ClientId> = (0..30).map(|_| live(&mut cluster, &pro(), Some(FULL), ClientParams::JSON)).collect();
    let listener = live_bot(&mut cluster);
    let before = cluster.partition().counters().dispatches_total;
    let chunks_made = |cluster: &TestCluster| {
        let seqs = cluster.partition().sessions().map(|session| session.replay.last_seq());
        seqs.sum::<u64>()
    };
    let seqs_before = chunks_made(&cluster);
    cluster.hold(Hold::Mail);
    askers.iter().for_each(|client| cluster.client(*client).send(8, &request(json!({"query": "", "limit": 0}))));
    cluster.run_until_idle();
    // Thirty answers of nine chunks each, and then a message.
    say(&mut cluster, &ana(), GENERAL, "meanwhile");
    cluster.hand_over_mail(0);
    assert_eq!(cluster.partition().counters().dispatches_total - before, 31, "all but chunks: the message");
    let made = chunks_made(&cluster) - seqs_before - 31;
    assert!(made <= 16, "{made} chunks before the message was given to all");
    cluster.release(Hold::Mail);
    cluster.run_until_idle();
    assert_eq!(heard(&mut cluster, listener).len(), 1);
    for client in askers {
        assert_eq!(names(&mut cluster, client).iter().filter(|name| *name == "GUILD_MEMBERS_CHUNK").count(), 9);
    }
}

#[test]
fn events_go_between_the_chunks_of_a_slow_reader() {
    let mut cluster = world();
    cluster.add_guild(crowd(guild(), 9_000).load());
    let client = live_bot(&mut cluster);
    cluster.stop_reading(client);
    cluster.client(client).socket().set_room(300_000);
    cluster.client(client).send(8, &request(json!({"query": "", "limit": 0})));
    cluster.run_until_idle();
    say(&mut cluster, &ana(), GENERAL, "between");
    cluster.run_until_idle();
    cluster.start_reading(client);
    let dispatches = cluster.dispatches(client);
    let seqs: Vec<u64> = dispatches.iter().map(|dispatch| dispatch.seq).collect();
    assert!(seqs.is_sorted_by(|a, b| a + 1 == *b), "{seqs:?}");
    let at = dispatches.iter().position(|dispatch| dispatch.name == "MESSAGE_CREATE").expect("it came");
    assert!(at > 0 && at < dispatches.len() - 1, "message {at} of {}", dispatches.len());
    assert_eq!(dispatches.len(), 10 + 1);
}

#[test]
fn a_removed_member_receives_no_further_chunks() {
    let mut cluster = world();
    cluster.add_guild(crowd(guild(), 9_000).load());
    let client = live_bot(&mut cluster);
    cluster.stop_reading(client);
    cluster.client(client).socket().set_room(300_000);
    cluster.client(client).send(8, &request(json!({"query": "", "limit": 0})));
    cluster.run_until_idle();
    system(&mut cluster, Command::RemoveMember(pro().id));
    cluster.run_until_idle();
    cluster.start_reading(client);
    let names = names(&mut cluster, client);
    assert_eq!(names.last().map(String::as_str), Some("GUILD_DELETE"), "{names:?}");
    assert!((1..9).contains(&(names.len() - 1)), "{names:?}");
}

#[test]
fn a_resume_in_the_middle_of_the_chunks_loses_none() {
    let mut cluster = world();
    cluster.add_guild(crowd(guild(), 9_000).load());
    let client = live_bot(&mut cluster);
    let seen = cluster.client(client).seq;
    cluster.stop_reading(client);
    cluster.client(client).socket().set_room(300_000);
    cluster.client(client).send(8, &request(json!({"query": "", "limit": 0})));
    cluster.run_until_idle();
    cluster.cut(client);
    let (_, received) = resumed(&mut cluster, client, &pro());
    let mut chunks = 0;
    for (n, received) in received.iter().enumerate() {
        let Received::Dispatch(dispatch) = received else { panic!("{received:?}") };
        assert_eq!(dispatch.seq, seen + 1 + n as u64);
        if dispatch.name == "GUILD_MEMBERS_CHUNK" {
            assert_eq!(dispatch.d()["chunk_index"], json!(chunks));
            chunks += 1;
        }
    }
    assert_eq!(chunks, 10);
}

#[test]
fn requests_by_id_report_users_not_found() {
    let mut cluster = world();
    let client = live(&mut cluster, &gob(), Some(PLAIN), ClientParams::JSON);
    let stranger = user(999).id.to_string();
    let wanted = json!([bob().id.to_string(), stranger, ana().id.to_string()]);
    let chunks = ask(&mut cluster, client, json!({"user_ids": wanted, "nonce": "n", "presences": true}));
    let d = chunks[0].d();
    assert_eq!(listed(&d["members"], "/user/id"), ids(&[ana(), bob()]));
    assert_eq!(d["not_found"], json!([stranger]));
    assert!(d.get("presences").is_none(), "without GUILD_PRESENCES");
    let chunks = ask(&mut cluster, client, json!({"user_ids": bob().id.to_string()}));
    assert_eq!(listed(&chunks[0].d()["members"], "/user/id"), ids(&[bob()]));
    assert!(chunks[0].d().get("nonce").is_none());
}

#[test]
fn presences_are_those_of_the_moment_and_not_offline() {
    let mut cluster = world();
    let _bob = live(&mut cluster, &bob(), None, ClientParams::JSON);
    let client = live_bot(&mut cluster);
    let whole_list = json!({"query": "", "limit": 0, "presences": true});
    let d = ask(&mut cluster, client, whole_list.clone())[0].d();
    assert_eq!(listed(&d["presences"], "/user/id"), ids(&[bob(), pro()]));
    assert!(listed(&d["presences"], "/status").iter().all(|status| status == "online"));
    assert!(d["presences"][0].get("guild_id").is_none());
    // A user account may request presences without any intent.
    let user = live(&mut cluster, &ana(), Some(1), ClientParams::ETF);
    let d = ask(&mut cluster, user, whole_list)[0].d();
    assert_eq!(listed(&d["presences"], "/user/id"), ids(&[ana(), bob(), pro()]));
}

#[test]
fn by_prefix_of_any_name() {
    let mut cluster = world();
    let client = live(&mut cluster, &gob(), Some(PLAIN), ClientParams::JSON);
    nick(&mut cluster, &bob(), "Émile");
    cluster.take(client);
    for (query, limit, expected) in [
        ("USER70", 0, ids(&[ana(), bob()])),
        ("user 701", 10, ids(&[ana()])),
        ("éMI", 10, ids(&[bob()])),
        ("bot", 1, ids(&[gob()])),
        ("ser", 10, Vec::new()),
    ] {
        let chunks = ask(&mut cluster, client, json!({"query": query, "limit": limit}));
        assert_eq!(chunks.len(), 1);
        let d = chunks[0].d();
        assert_eq!(listed(&d["members"], "/user/id"), expected, "{query}");
        assert_eq!((&d["chunk_count"], &d["not_found"]), (&json!(1), &json!([])));
    }
}

#[test]
fn a_second_whole_list_within_half_a_minute_is_refused() {
    let mut cluster = world();
    let client = live_bot(&mut cluster);
    let whole = json!({"query": "", "limit": 0, "nonce": "again"});
    assert_eq!(ask(&mut cluster, client, whole.clone())[0].name, "GUILD_MEMBERS_CHUNK");
    cluster.advance(12_500);
    let refused = ask(&mut cluster, client, whole.clone());
    assert_eq!(refused.len(), 1);
    assert_eq!(refused[0].name, "RATE_LIMITED");
    let meta = json!({"guild_id": id::<()>(GUILD).to_string(), "nonce": "again"});
    assert_eq!(refused[0].d(), json!({"opcode": 8, "retry_after": 17.5, "meta": meta}));
    // Other requests are not concerned, nor is another session.
    assert_eq!(ask(&mut cluster, client, json!({"query": "x", "limit": 1}))[0].name, "GUILD_MEMBERS_CHUNK");
    cluster.advance(17_500);
    assert_eq!(ask(&mut cluster, client, whole)[0].name, "GUILD_MEMBERS_CHUNK");
}

#[test]
fn a_whole_list_without_permission_is_one_empty_chunk() {
    let mut cluster = world();
    let whole = json!({"query": "", "limit": 0});
    let empty = |chunks: &[Dispatch]| {
        let d = chunks[0].d();
        assert_eq!((chunks.len(), &d["members"], &d["chunk_count"]), (1, &json!([]), &json!(1)));
    };
    let bot = live(&mut cluster, &pro(), Some(FULL & !(1 << 1)), ClientParams::JSON);
    empty(&ask(&mut cluster, bot, whole.clone()));
    let user = live(&mut cluster, &bob(), None, ClientParams::JSON);
    empty(&ask(&mut cluster, user, whole.clone()));
    let mut cluster = world();
    cluster.add_guild(guild().role(INSIDERS, Permissions::KICK_MEMBERS).member(&bob(), &[INSIDERS]).load());
    let user = live(&mut cluster, &bob(), None, ClientParams::JSON);
    assert_eq!(listed(&ask(&mut cluster, user, whole)[0].d()["members"], "/user/id").len(), 4);
}

#[test]
fn for_a_guild_one_is_not_in_there_is_no_answer() {
    let mut cluster = world();
    let client = live_bot(&mut cluster);
    cluster.client(client).send(8, &json!({"guild_id": "42", "query": "", "limit": 0}));
    assert_eq!(cluster.take(client), []);
    system(&mut cluster, Command::RemoveMember(pro().id));
    assert_eq!(cluster.names(client).len(), 1);
    assert_eq!(ask(&mut cluster, client, json!({"query": "", "limit": 0})), []);
}

#[test]
fn a_user_may_name_several_guilds_a_bot_one() {
    let second = || GuildBuilder::new(2, &ana()).member(&bob(), &[]).member(&gob(), &[]);
    for (account, expected) in [(bob(), 2), (gob(), 1)] {
        let mut cluster = world();
        cluster.add_guild(second().load());
        let client = live(&mut cluster, &account, Some(PLAIN), ClientParams::JSON);
        let guilds = json!([id::<()>(1).to_string(), id::<()>(2).to_string()]);
        cluster.client(client).send(8, &json!({"guild_id": guilds, "user_ids": ana().id.to_string()}));
        assert_eq!(cluster.names(client).len(), expected);
    }
}
