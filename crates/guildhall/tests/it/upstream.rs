//! Upstream's description of its REST objects, and what in an answer or an event does not fit it.
//!
//! Owns        the reader of `data/upstream/fields.json`; the keys that events do not have; the known deviations.
//! Doors       `check_answer` and `check_event`, which the test node calls for everything that it receives; `requests`
//!             and `properties` for the test of request fields.

use serde_json::Value;
use std::sync::LazyLock;

static DATA: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("../data/upstream/fields.json")).expect("the data is JSON"));

/// The schema of an event's body. Events without one are upstream's own, or have no object of REST in them.
const EVENTS: &[(&str, &str)] = &[
    ("MESSAGE_CREATE", "MessageResponse"),
    ("MESSAGE_UPDATE", "MessageResponse"),
    ("GUILD_MEMBER_ADD", "GuildMemberResponse"),
    ("GUILD_MEMBER_UPDATE", "GuildMemberResponse"),
    ("GUILD_UPDATE", "GuildResponse"),
    (
        "GUILD_SCHEDULED_EVENT_CREATE",
        "ExternalScheduledEventResponse | StageScheduledEventResponse | VoiceScheduledEventResponse",
    ),
    (
        "GUILD_SCHEDULED_EVENT_UPDATE",
        "ExternalScheduledEventResponse | StageScheduledEventResponse | VoiceScheduledEventResponse",
    ),
    ("STAGE_INSTANCE_CREATE", "StageInstanceResponse"),
    ("STAGE_INSTANCE_UPDATE", "StageInstanceResponse"),
    ("THREAD_CREATE", "ThreadResponse"),
    ("THREAD_UPDATE", "ThreadResponse"),
    ("USER_UPDATE", "UserResponse"),
];

/// Required keys that events do not have (docs/protocol/choices.md "Keys that only answers of REST have").
const ONLY_IN_ANSWERS: &[(&str, &str)] = &[
    ("UserResponse", "flags"),
    ("UserResponse", "primary_guild"),
    ("GuildResponse", "home_header"),
    ("ExternalScheduledEventResponse", "guild_scheduled_event_exceptions"),
    ("StageScheduledEventResponse", "guild_scheduled_event_exceptions"),
    ("VoiceScheduledEventResponse", "guild_scheduled_event_exceptions"),
];

/// Fields that may be null by upstream's documentation, but not by its description.
const NULLABLE: &[(&str, &str)] = &[("OnboardingPromptOptionResponse", "description")];

/// Where ids are numbers within a template: upstream's example has them so in each place, its description in some.
const NUMBERED: &str = "/serialized_source_guild/";

/// Something that does not fit.
#[derive(Debug)]
struct Fault {
    /// Path of the value.
    at: String,
    #[expect(dead_code, reason = "a failed test prints it")]
    schema: String,
    problem: String,
    is_of_other_type: bool,
}

/// Panics if the answer of a route does not fit upstream's description of it.
#[track_caller]
pub fn check_answer(method: &str, path: &str, status: u16, body: &Value) {
    let Some((route, described)) = route(method, path) else { return };
    let Some(expected) = described["answers"][status.to_string().as_str()].as_str() else { return };
    let faults = Judge { of_event: false }.faults(expected, body, "");
    assert!(faults.is_empty(), "{route}: {faults:#?} in {body}");
}

/// The same for a dispatch.
#[track_caller]
pub fn check_event(name: &str, body: &Value) {
    let Some((_, expected)) = EVENTS.iter().find(|(of, _)| *of == name) else { return };
    let faults = Judge { of_event: true }.faults(expected, body, "");
    assert!(faults.is_empty(), "{name}: {faults:#?} in {body}");
}

/// Every route: `METHOD /path`.
pub fn routes() -> impl Iterator<Item = &'static str> {
    DATA["routes"].as_object().expect("routes").keys().map(String::as_str)
}

/// The routes with fields: `METHOD /path`, the media type and type of a body, and the names of its query. A body that
/// is an object without a name is named after its route.
pub fn requests() -> impl Iterator<Item = (&'static str, Option<(&'static str, String)>, Vec<&'static str>)> {
    let routes = DATA["routes"].as_object().expect("routes").iter();
    routes.filter_map(|(route, described)| {
        let media = ["application/json", "multipart/form-data"].into_iter();
        let body = media.filter_map(|media| Some((media, described["body"].get(media)?))).next();
        let body = body.map(|(media, of)| (media, of.as_str().map_or_else(|| route.clone(), str::to_owned)));
        let query: Vec<&str> = described["query"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        (body.is_some() || !query.is_empty()).then_some((route.as_str(), body, query))
    })
}

/// The fields of a schema, or of the nameless body of a route, with their types.
pub fn properties(name: &str) -> Option<serde_json::Map<String, Value>> {
    let of_schema = DATA["schemas"][name]["properties"].as_object();
    let of_route = || DATA["routes"][name]["body"].as_object()?.values().find_map(Value::as_object);
    of_schema.or_else(of_route).cloned()
}

/// Upstream's description of a route, by its path behind the version; literal segments before variable ones.
fn route(method: &str, path: &str) -> Option<(&'static str, &'static Value)> {
    let path = path.split('?').next().unwrap_or_default();
    let segments: Vec<&str> = path.split('/').collect();
    let fits = |template: &str| {
        let expected: Vec<&str> = template.split('/').collect();
        expected.len() == segments.len()
            && expected
                .iter()
                .zip(&segments)
                .all(|(expected, segment)| expected.starts_with('{') || expected == segment)
    };
    let routes = DATA["routes"].as_object().expect("routes").iter();
    let found =
        routes.filter(|(route, _)| route.split_once(' ').is_some_and(|(of, template)| of == method && fits(template)));
    found.min_by_key(|(route, _)| route.matches('{').count()).map(|(route, described)| (route.as_str(), described))
}

fn missing(key: &str) -> String {
    format!("`{key}` is missing")
}

/// Compares values with types.
#[derive(Clone, Copy)]
struct Judge {
    /// The value is of an event, which lacks `ONLY_IN_ANSWERS`.
    of_event: bool,
}

impl Judge {
    /// What of `value` does not fit the type, as the data writes types: names, `[…]` for lists, ` |
    /// ` between alternatives.
    fn faults(self, expected: &str, value: &Value, at: &str) -> Vec<Fault> {
        // Of several alternatives, the one that fits best is meant: first one of the value's own type.
        let is_of_other_type =
            |faults: &Vec<Fault>| faults.iter().any(|fault| fault.at == at && fault.is_of_other_type);
        let tried = alternatives(expected).into_iter().map(|one| self.faults_of_one(one, value, at));
        tried.min_by_key(|faults| (is_of_other_type(faults), faults.len())).unwrap_or_default()
    }

    fn faults_of_one(self, expected: &str, value: &Value, at: &str) -> Vec<Fault> {
        if let Some(item) = expected.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            let Value::Array(items) = value else { return vec![fault(at, expected, value)] };
            return items
                .iter()
                .enumerate()
                .flat_map(|(n, value)| self.faults(item, value, &format!("{at}/{n}")))
                .collect();
        }
        let schema = &DATA["schemas"][expected];
        if let Some(properties) = schema["properties"].as_object() {
            let Value::Object(fields) = value else { return vec![fault(at, expected, value)] };
            let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let mut faults: Vec<Fault> = required
                .filter(|key| !fields.contains_key(*key))
                .filter(|key| !(self.of_event && ONLY_IN_ANSWERS.contains(&(expected, *key))))
                .map(|key| Fault {
                    at: at.to_owned(),
                    schema: expected.to_owned(),
                    problem: missing(key),
                    is_of_other_type: false,
                })
                .collect();
            for (key, value) in fields {
                if value.is_null() && NULLABLE.contains(&(expected, key.as_str())) {
                    continue;
                }
                if let Some(Value::String(expected)) = properties.get(key) {
                    faults.extend(self.faults(expected, value, &format!("{at}/{key}")));
                }
            }
            return faults;
        }
        let fits = match expected {
            "string" | "date-time" | "uri" => value.is_string(),
            "SnowflakeType" if at.contains(NUMBERED) && value.is_u64() => true,
            "SnowflakeType" => value.as_str().is_some_and(|id| id.parse::<u64>().is_ok()),
            "integer" | "Int53Type" | "UInt32Type" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "boolean" => value.is_boolean(),
            "null" => value.is_null(),
            "object" => value.is_object(),
            "any" => true,
            // The data has no more than the name of an enumeration.
            _ => !value.is_null(),
        };
        if fits { Vec::new() } else { vec![fault(at, expected, value)] }
    }
}

fn fault(at: &str, expected: &str, value: &Value) -> Fault {
    Fault {
        at: at.to_owned(),
        schema: expected.to_owned(),
        problem: format!("{value:.60} is not of this type"),
        is_of_other_type: true,
    }
}

/// The parts between ` | ` outside of brackets.
pub fn alternatives(expected: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, byte) in expected.bytes().enumerate() {
        match byte {
            b'[' => depth += 1,
            b']' => depth -= 1,
            b'|' if depth == 0 => {
                parts.push(expected[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(expected[start..].trim());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn routes_are_found() {
        let found = |method: &str, path: &str| route(method, path).map(|(route, _)| route);
        assert_eq!(found("GET", "/users/5"), Some("GET /users/{user_id}"));
        assert_eq!(found("GET", "/users/@me/guilds?limit=5"), Some("GET /users/@me/guilds"));
        assert_eq!(found("GET", "/nothing"), None);
    }

    #[test]
    fn types_are_judged() {
        let judge = Judge { of_event: false };
        let problems = |expected: &str, value: Value| judge.faults(expected, &value, "").len();
        assert_eq!(problems("string | null", json!(null)), 0);
        assert_eq!(problems("string | null", json!(5)), 1);
        assert_eq!(problems("[SnowflakeType]", json!(["5", 5, "x"])), 2);
        assert_eq!(problems("integer", json!(1.5)), 1);
        let user = json!({"id": "1", "username": "ana", "discriminator": "0", "global_name": null, "avatar": 5,
            "public_flags": 0, "flags": 0});
        let faults = judge.faults("[UserResponse] | null", &json!([user]), "");
        let faults: Vec<_> = faults.iter().map(|fault| (fault.at.as_str(), fault.problem.as_str())).collect();
        assert_eq!(faults, [("/0", "`primary_guild` is missing"), ("/0/avatar", "5 is not of this type")]);
        let of_event = Judge { of_event: true }.faults("[UserResponse] | null", &json!([user]), "");
        assert_eq!(of_event.len(), 1, "{of_event:?}");
    }
}
