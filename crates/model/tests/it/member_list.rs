//! GUILD_MEMBER_LIST_UPDATE.

use crate::support::{ANA, BO, GUILD, World, check, etf_of, json_of, member_json, with};
use guildhall_model::from_gateway::{MemberListGroup, MemberListItem, MemberListOp, MemberListUpdateBody};
use serde_json::{Value, json};

fn row(world: &World, online: bool) -> Value {
    let (member, id) = if online { (&world.ana, ANA) } else { (&world.bo, BO) };
    let presence = if online {
        json!({"user": {"id": id}, "status": "online", "activities": [], "client_status": {"web": "online"}})
    } else {
        json!({"user": {"id": id}, "status": "offline", "activities": [], "client_status": {}})
    };
    json!({"member": with(member_json(member), json!({"presence": presence}))})
}

#[test]
fn documented_example() {
    let world = World::new();
    let group = |id: &'static str| MemberListGroup { id: id.into(), count: 1 };
    let body = MemberListUpdateBody {
        guild_id: GUILD,
        id: "everyone",
        member_count: 2,
        online_count: 1,
        groups: vec![group("online"), group("offline")],
        ops: vec![MemberListOp::Sync {
            range: (0, 99),
            items: vec![
                MemberListItem::group("online", 1),
                MemberListItem::member(&world.ana, Some(&world.online)),
                MemberListItem::group("offline", 1),
                MemberListItem::member(&world.bo, None),
            ],
        }],
    };
    let (online, offline) = (json!({"id": "online", "count": 1}), json!({"id": "offline", "count": 1}));
    check(
        &body,
        &json!({"guild_id": GUILD, "id": "everyone", "member_count": 2, "online_count": 1, "groups": [online, offline],
            "ops": [{"op": "SYNC", "range": [0, 99], "items": [
                {"group": online}, row(&world, true), {"group": offline}, row(&world, false)]}]}),
    );
}

#[test]
fn every_op() {
    let world = World::new();
    let item = || MemberListItem::member(&world.bo, None);
    let row = row(&world, false);
    check(&MemberListOp::Insert { index: 0, item: item() }, &json!({"op": "INSERT", "index": 0, "item": row}));
    check(&MemberListOp::Update { index: 7, item: item() }, &json!({"op": "UPDATE", "index": 7, "item": row}));
    check(&MemberListOp::Delete { index: 300 }, &json!({"op": "DELETE", "index": 300}));
    check(&MemberListOp::Invalidate { range: (100, 199) }, &json!({"op": "INVALIDATE", "range": [100, 199]}));
    check(
        &MemberListOp::Sync { range: (0, 0), items: Vec::new() },
        &json!({"op": "SYNC", "range": [0, 0], "items": []}),
    );
}

/// Clients compare it with `online`: it is a text also where ids are integers.
#[test]
fn a_role_group_is_named_by_text_in_both_encodings() {
    let item = MemberListItem::group("1100000000000000020".to_owned(), 3);
    let expected = json!({"group": {"id": "1100000000000000020", "count": 3}});
    assert_eq!(json_of(&item), expected);
    assert_eq!(etf_of(&item), expected);
}
