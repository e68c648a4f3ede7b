//! Presences of friends: sessions of all nodes count, and those of a node that was lost do not.

use super::{SHORT_LEASE_MS, Site};
use crate::support::{bounded, user};
use guildhall_guild::Write;
use guildhall_model::{Status, UserId};
use guildhall_node::{NodeLimits, RelationshipAct};

const ANA: UserId = UserId::new(7);
const BO: UserId = UserId::new(8);

/// Two nodes; Ana and Bo are friends.
async fn site() -> Site {
    let site = Site::with(2, SHORT_LEASE_MS, &NodeLimits::default()).await;
    let users = [ANA, BO].map(|id| Write::PutUser(user(id)));
    site.store.commit(users.into()).await.expect("there is room");
    for (at, (user_id, other_id)) in [(ANA, BO), (BO, ANA)].into_iter().enumerate() {
        let changed = site.place(at).node.change_relationship(user_id, other_id, RelationshipAct::Befriend);
        assert_eq!(bounded(changed).await.expect("the store works"), Ok(()));
    }
    site
}

fn show(site: &Site, at: usize, user_id: UserId, status: Status) {
    let place = site.place(at);
    place.relays.set_presence(user_id, status);
    place.node.presence_changed(user_id);
}

#[tokio::test(flavor = "multi_thread")]
async fn f2_sessions_of_all_nodes_count() {
    let site = site().await;
    show(&site, 0, BO, Status::Idle);
    let idle = [(BO, Status::Idle, vec![ANA])];
    for at in [0, 1] {
        assert_eq!(site.place(at).relays.take_shown(1).await, idle, "{at}");
    }
    show(&site, 1, BO, Status::Dnd);
    assert_eq!(site.place(0).relays.take_shown(1).await, [(BO, Status::Dnd, vec![ANA])]);
    show(&site, 1, BO, Status::Offline);
    assert_eq!(site.place(0).relays.take_shown(1).await, idle, "the session at the other node");
    let relationships = bounded(site.place(1).node.relationships(ANA)).await.expect("the store works");
    let friends = bounded(site.place(1).node.friend_presences(&relationships)).await;
    assert_eq!(friends.iter().map(|(id, of)| (*id, of.status)).collect::<Vec<_>>(), [(BO, Status::Idle)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn f3_friends_see_the_loss_of_a_node() {
    let mut site = site().await;
    show(&site, 1, BO, Status::Idle);
    assert_eq!(site.place(0).relays.take_shown(1).await, [(BO, Status::Idle, vec![ANA])]);
    site.kill(1);
    assert_eq!(site.place(0).relays.take_shown(1).await, [(BO, Status::Offline, vec![ANA])]);
}
