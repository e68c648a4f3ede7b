//! Presences of friends: delivered to their accounts, and requested again instead of replayed.

use crate::fixture::*;
use guildhall_guild_protocol::Event;
use guildhall_model::{Presence, Status};
use guildhall_test_kit::TestCluster;
use serde_json::json;
use std::sync::Arc;

/// Ana's presence for her friend bob.
fn show(cluster: &mut TestCluster, status: Status) {
    let presence = Arc::new(Presence { status, ..Presence::default() });
    cluster.publish_to_users(Event::of_friend(ana().id, presence, [bob().id].into()));
    cluster.run_until_idle();
}

#[test]
fn a_presence_is_delivered_without_a_guild() {
    let mut cluster = world();
    let (client, other) = (live_user(&mut cluster, &bob(), 0), live_user(&mut cluster, &ana(), 0));
    show(&mut cluster, Status::Idle);
    let dispatches = cluster.dispatches(client);
    assert_eq!(dispatches.iter().map(|of| of.name.as_str()).collect::<Vec<_>>(), ["PRESENCE_UPDATE"]);
    let expected = json!({"user": {"id": ana().id}, "status": "idle", "activities": [], "client_status": {}});
    assert_eq!(dispatches[0].d(), expected);
    assert_eq!(cluster.names(other), [], "it is for friends");
}

/// The friend may have become a stranger meanwhile, which the partition does not know.
#[test]
fn a_replay_leaves_presences_of_friends_out_and_has_them_sent_again() {
    for restarts in [false, true] {
        let mut cluster = world();
        let client = live_user(&mut cluster, &bob(), 0);
        cluster.cut(client);
        show(&mut cluster, Status::Idle);
        say(&mut cluster, &ana(), GENERAL, "in between");
        show(&mut cluster, Status::Dnd);
        if restarts {
            cluster.restart(vec![guild().load()], 1 << 20);
        }
        let (client, names) = replayed(&mut cluster, client, &bob());
        assert!(!names.iter().any(|(_, name)| name == "PRESENCE_UPDATE"), "{names:?}");
        assert_eq!(cluster.wanted_friends, [(bob().id, vec![ana().id])]);
        show(&mut cluster, Status::Online);
        let shown = cluster.dispatches(client);
        assert_eq!(shown.last().map(|of| of.d()["status"].clone()), Some(json!("online")));
        cluster.wanted_friends.clear();
        // The client has it.
        cluster.cut(client);
        replayed(&mut cluster, client, &bob());
        assert_eq!(cluster.wanted_friends, []);
    }
}

#[test]
fn presences_are_of_all_sessions_of_an_account() {
    let mut cluster = world();
    let ids = [ana().id, bob().id];
    assert_eq!(cluster.partition().presences(&ids), []);
    let client = live_user(&mut cluster, &bob(), 0);
    live_user(&mut cluster, &bob(), 0);
    let activities = [json!({"name": "chess", "type": 0})];
    let update = json!({"status": "dnd", "since": null, "afk": false, "activities": activities});
    cluster.client(client).send(3, &update);
    cluster.run_until_idle();
    let found = cluster.partition().presences(&ids);
    let [(user_id, presence)] = &found[..] else { panic!("{found:?}") };
    assert_eq!((*user_id, presence.status, presence.activities.len()), (bob().id, Status::Dnd, 1));
}
