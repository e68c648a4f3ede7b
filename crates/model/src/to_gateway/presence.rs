//! Presence update (op 3, and inside IDENTIFY). Spec  docs/protocol/reference.md §6.9.

use crate::{
    activity,
    presence::{Activity, Status},
    user::AccountKind,
};
use serde_json::Value;

/// Presence that a session sets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PresenceUpdate {
    /// `Offline` also means invisible.
    pub status: Status,
    /// Cleaned and bounded: see `activity`.
    pub activities: Vec<Activity>,
}

impl PresenceUpdate {
    /// Parses the payload leniently; none if it is not an object. A status that is missing, null, empty or unknown is
    /// `online`. Activities must be objects with a `name`; see `activity` for their limits.
    #[must_use]
    pub fn parse(d: &Value) -> Option<Self> {
        let d = d.as_object()?;
        let status = match d.get("status").and_then(Value::as_str).unwrap_or_default() {
            "idle" => Status::Idle,
            "dnd" => Status::Dnd,
            "invisible" | "offline" => Status::Offline,
            _ => Status::Online,
        };
        let activities = match (d.get("activities"), d.get("game")) {
            (Some(Value::Array(items)), _) => activity::clean_all(items.iter()),
            (_, game) => activity::clean_all(game.into_iter()),
        };
        Some(Self { status, activities })
    }

    /// Removes fields that accounts of this kind cannot set: bots have `name`, `type`, `state` and `url`.
    #[must_use]
    pub fn of_kind(mut self, kind: AccountKind) -> Self {
        if kind == AccountKind::Bot {
            self.activities.iter_mut().for_each(activity::keep_fields_of_bots);
        }
        self
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

    #[test]
    fn s6_bots_set_four_fields() {
        let d =
            json!({"activities": [{"name": "go", "type": 3, "state": "s", "url": "u", "details": "no", "flags": 1}]});
        let shown =
            |kind| PresenceUpdate::parse(&d).map(|update| Value::from(update.of_kind(kind).activities[0].clone()));
        assert_eq!(shown(AccountKind::User).as_ref(), d["activities"].get(0));
        assert_eq!(shown(AccountKind::Bot), Some(json!({"name": "go", "type": 3, "state": "s", "url": "u"})));
    }
}
