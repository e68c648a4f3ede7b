//! Presence update (op 3, and inside IDENTIFY). Spec  docs/protocol.md §6.9.

use crate::presence::{Activity, Status};
use serde_json::Value;

/// What a session wants to show.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PresenceUpdate {
    /// `Offline` stands for invisible too.
    pub status: Status,
    /// As sent; at most `ACTIVITIES_MAX`.
    pub activities: Vec<Activity>,
}

impl PresenceUpdate {
    /// More activities than these are dropped.
    pub const ACTIVITIES_MAX: usize = 8;

    /// Reads the payload as far as it makes sense; none when it is no object. A status that is missing,
    /// null, empty or unknown is `online`. Activities must be objects with a `name`.
    #[must_use]
    pub fn parse(d: &Value) -> Option<Self> {
        let d = d.as_object()?;
        let status = match d.get("status").and_then(Value::as_str).unwrap_or_default() {
            "idle" => Status::Idle,
            "dnd" => Status::Dnd,
            "invisible" | "offline" => Status::Offline,
            _ => Status::Online,
        };
        let named = |value: &Value| {
            value
                .as_object()
                .filter(|a| a.get("name").is_some_and(|n| n.as_str().is_some_and(|n| !n.is_empty())))
                .cloned()
        };
        let activities = match (d.get("activities"), d.get("game")) {
            (Some(Value::Array(items)), _) => items.iter().filter_map(named).take(Self::ACTIVITIES_MAX).collect(),
            (_, Some(game)) => named(game).into_iter().collect(),
            _ => Vec::new(),
        };
        Some(Self { status, activities })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tolerates_what_libraries_send() {
        let check = |d: Value, expected: Option<(Status, usize)>| {
            let got = PresenceUpdate::parse(&d);
            assert_eq!(got.map(|p| (p.status, p.activities.len())), expected, "{d}");
        };
        check(json!({"status": "idle", "activities": [{"name": "chess", "type": 0}]}), Some((Status::Idle, 1)));
        check(json!({"status": null, "activities": null}), Some((Status::Online, 0)));
        check(json!({"status": "", "game": {"name": "", "type": 0}}), Some((Status::Online, 0)));
        check(json!({"status": "dnd", "game": {"name": "go"}}), Some((Status::Dnd, 1)));
        check(json!({"status": "invisible", "activities": [1, {}, null]}), Some((Status::Offline, 0)));
        check(json!({}), Some((Status::Online, 0)));
        check(json!([]), None);
        check(json!({"activities": vec![json!({"name": "x"}); 50]}), Some((Status::Online, 8)));
    }
}
