//! REST: answers to the requests that libraries make before they connect, and some that bots make at once.
//!
//! Limits      an unknown path is a 404 with a JSON body.     Spec  docs/rehearsal.md "REST".

use crate::bodies;
use serde_json::{Value, json};

/// Status and JSON body. `gateway_url` is what the client is to connect to.
pub(crate) fn answer(method: &str, path: &str, body: &[u8], gateway_url: &str) -> (u16, Option<Value>) {
    let path = percent_encoding::percent_decode_str(path).decode_utf8_lossy();
    let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    if parts.first() == Some(&"api") {
        parts.remove(0);
    }
    if parts.first().is_some_and(|part| part.len() <= 3 && part.starts_with('v')) {
        parts.remove(0);
    }
    let ok = |value: Value| (200, Some(value));
    match (method, &*parts) {
        ("GET", ["gateway"]) => ok(json!({ "url": gateway_url })),
        ("GET", ["gateway", "bot"]) => ok(json!({
            "url": gateway_url, "shards": 1,
            "session_start_limit": { "total": 1000, "remaining": 999, "reset_after": 86_400_000, "max_concurrency": 1 },
        })),
        ("GET", ["users", "@me" | bodies::BOT_ID]) => ok(bodies::own_user()),
        ("GET", ["applications" | "oauth2", "applications", "@me"] | ["applications", "@me"]) => {
            ok(bodies::application())
        }
        ("GET", ["users", "@me", "guilds"] | ["applications", "detectable"]) => ok(json!([])),
        ("GET", ["applications", _, "commands"]) => ok(json!([])),
        ("PUT", ["applications", _, "commands"]) => ok(serde_json::from_slice(body).unwrap_or_else(|_| json!([]))),
        ("GET", ["guilds", id]) => match bodies::guild_of(id) {
            Some(guild) => ok(guild),
            None => missing(),
        },
        ("GET", ["channels", _, "messages"]) => ok(json!([])),
        ("POST", ["channels", _, "messages"]) => {
            let sent: Value = serde_json::from_slice(body).unwrap_or_default();
            ok(bodies::message(999_999, 0, Some(sent["content"].as_str().unwrap_or_default())))
        }
        ("POST", ["channels", _, "typing"] | ["interactions", ..]) => (204, None),
        _ => missing(),
    }
}

fn missing() -> (u16, Option<Value>) {
    (404, Some(json!({ "message": "404: Not Found", "code": 0 })))
}
