//! SESSIONS_REPLACE.

use crate::support::{check, json_of};
use guildhall_model::{
    Activity, Platform, Status,
    from_gateway::{ClientInfo, SessionBody, SessionsBody},
};
use serde_json::{Value, json};

fn session<'a>(session_id: &'a str, status: Status, activities: &'a [Activity]) -> SessionBody<'a> {
    let client_info = ClientInfo::new(Platform::Web, "Linux");
    SessionBody { session_id, status, activities, hidden_activities: [], client_info }
}

fn json_of_one(session_id: &str, status: &str, activities: Value) -> Value {
    json!({"session_id": session_id, "status": status, "activities": activities, "hidden_activities": [],
        "client_info": {"client": "web", "os": "Linux", "version": 0}})
}

fn activity(name: &str) -> [Activity; 1] {
    [[("name".to_owned(), name.into())].into_iter().collect()]
}

#[test]
fn one_session_needs_no_aggregate() {
    let sessions = vec![session("a", Status::Online, &[])];
    check(&SessionsBody { sessions }, &json!([json_of_one("a", "online", json!([]))]));
    check(&SessionsBody { sessions: Vec::new() }, &json!([]));
}

#[test]
fn several_sessions_and_what_they_add_up_to() {
    let (chess, go, secret) = (activity("chess"), activity("go"), activity("secret"));
    let sessions = vec![
        session("a", Status::Idle, &chess),
        session("b", Status::Dnd, &go),
        session("c", Status::Offline, &secret),
    ];
    let all = json!({"session_id": "all", "status": "dnd", "activities": [{"name": "chess"}, {"name": "go"}],
        "hidden_activities": [], "client_info": {"client": "unknown", "os": "unknown", "version": 0}});
    let expected = json!([
        all,
        json_of_one("a", "idle", json!([{"name": "chess"}])),
        json_of_one("b", "dnd", json!([{"name": "go"}])),
        json_of_one("c", "offline", json!([{"name": "secret"}])),
    ]);
    check(&SessionsBody { sessions }, &expected);
}

#[test]
fn no_more_than_fifteen_and_all() {
    let ids: Vec<String> = (0..50).map(|id| format!("s{id}")).collect();
    let sessions = ids.iter().map(|id| session(id, Status::Online, &[])).collect();
    let body = json_of(&SessionsBody { sessions });
    let listed: Vec<&str> = body.as_array().unwrap().iter().map(|s| s["session_id"].as_str().unwrap()).collect();
    assert_eq!(listed.len(), 16);
    assert_eq!(listed[..2], ["all", "s0"]);
}
