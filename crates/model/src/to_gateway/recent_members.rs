//! Search recent members (op 35). Spec  docs/protocol/reference.md §8.7.

use super::{PayloadError, guild_of, nonce_of};
use crate::id::{GuildId, UserId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Op 35: members by time of joining, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchRecentMembers {
    pub guild_id: GuildId,
    /// Searches for one member; empty: all members. At most `QUERY_CHARS_MAX` characters.
    pub query: String,
    /// Continue after this member.
    pub continuation_token: Option<UserId>,
    /// Echoed in the answer; at most 32 bytes.
    pub nonce: Option<String>,
}

impl SearchRecentMembers {
    /// A longer query is truncated. Names have at most 32 characters.
    pub const QUERY_CHARS_MAX: usize = 100;

    /// Parses the payload. A missing or malformed `query` is an empty one.
    ///
    /// # Errors
    /// When it is not an object, `guild_id` not a snowflake, or `continuation_token` neither null nor a snowflake.
    /// Starting from the first page instead would send a paginating client in circles.
    pub fn parse(d: &Value) -> Result<Self, PayloadError> {
        const OPCODE: &str = "SEARCH_RECENT_MEMBERS";
        let (guild_id, d) = guild_of(OPCODE, d)?;
        let token = d.get("continuation_token").filter(|token| !token.is_null());
        let continuation_token = token.map(|token| super::id_of(token).ok_or(())).transpose().map_err(|()| {
            PayloadError { opcode: OPCODE, problem: "`continuation_token` must be a snowflake or null" }
        })?;
        let query = d.get("query").and_then(Value::as_str).unwrap_or_default();
        Ok(Self {
            guild_id,
            query: query.chars().take(Self::QUERY_CHARS_MAX).collect(),
            continuation_token,
            nonce: nonce_of(d),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_clients_send() {
        let check = |d: Value, expected: Option<(&str, Option<u64>, Option<&str>)>| {
            let got = SearchRecentMembers::parse(&d).ok();
            let got = got
                .as_ref()
                .map(|got| (got.query.as_str(), got.continuation_token.map(crate::Id::get), got.nonce.as_deref()));
            assert_eq!(got, expected, "{d}");
        };
        check(json!({"guild_id": "1", "query": "", "continuation_token": null}), Some(("", None, None)));
        check(
            json!({"guild_id": "1", "query": "an", "continuation_token": "7", "nonce": "n"}),
            Some(("an", Some(7), Some("n"))),
        );
        check(json!({"guild_id": 1, "query": null, "nonce": 5}), Some(("", None, None)));
        check(json!({"guild_id": 1, "nonce": "n".repeat(33)}), Some(("", None, None)));
        check(json!({"guild_id": 1, "query": "ü".repeat(200)}), Some((&"ü".repeat(100), None, None)));
        check(json!({"guild_id": 1, "continuation_token": "x"}), None);
        check(json!({"guild_id": 1, "continuation_token": {}}), None);
        check(json!({"query": ""}), None);
        check(json!([]), None);
    }
}
