//! Request guild members (op 8). Spec  docs/protocol/reference.md §8.7.

use super::{PayloadError, id_of, nonce_of};
use crate::id::{GuildId, Id, UserId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;

/// Which members a client requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemberQuery {
    /// All members of the guild.
    All,
    /// Members whose name starts with `prefix` (not empty), at most `limit` (1–100).
    Prefix {
        prefix: String,
        /// From 1 to 100.
        limit: usize,
    },
    /// These accounts, at most 100, each once.
    Ids(Vec<UserId>),
}

/// A request for members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestGuildMembers {
    /// A bot names one guild.
    pub guild_ids: Vec<GuildId>,
    pub query: MemberQuery,
    /// Include presences.
    pub presences: bool,
    /// Echoed in the answer; at most 32 bytes.
    pub nonce: Option<String>,
}

impl RequestGuildMembers {
    /// Further ids are dropped. Repeated ones do not count.
    pub const IDS_MAX: usize = 100;
    /// Further guilds are dropped.
    pub const GUILDS_MAX: usize = 200;

    /// Parses the payload.
    ///
    /// # Errors
    /// When no guild is named, except by an empty list; when there is neither `query` nor `user_ids`.
    pub fn parse(d: &Value) -> Result<Self, PayloadError> {
        let error = |problem| PayloadError { opcode: "REQUEST_GUILD_MEMBERS", problem };
        let d = d.as_object().ok_or(error("expected an object"))?;
        let guild_ids: Vec<GuildId> = match d.get("guild_id") {
            Some(Value::Array(items)) => distinct_ids(items, Self::GUILDS_MAX),
            Some(one) => id_of(one).into_iter().collect(),
            None => Vec::new(),
        };
        // An empty list requests nothing. A library for user accounts sends it at each start.
        let asks_for_nothing = matches!(d.get("guild_id"), Some(Value::Array(items)) if items.is_empty());
        if guild_ids.is_empty() && !asks_for_nothing {
            return Err(error("`guild_id` must be a snowflake"));
        }
        let limit = d.get("limit").and_then(Value::as_u64).unwrap_or(0) as usize;
        let ids = match d.get("user_ids") {
            Some(Value::Array(items)) => Some(distinct_ids(items, Self::IDS_MAX)),
            None | Some(Value::Null) => None,
            Some(one) => Some(id_of(one).into_iter().collect()),
        };
        let query = match (d.get("query").and_then(Value::as_str), ids) {
            (_, Some(ids)) => MemberQuery::Ids(ids),
            (Some(""), None) if limit == 0 => MemberQuery::All,
            (Some(prefix), None) => MemberQuery::Prefix {
                prefix: prefix.chars().take(100).collect(),
                limit: if limit == 0 { 100 } else { limit.min(100) },
            },
            // JDA and others omit `query` to request all members.
            (None, None) if d.get("limit").is_some() => MemberQuery::All,
            (None, None) => return Err(error("one of `query` and `user_ids` is required")),
        };
        Ok(Self {
            guild_ids,
            query,
            presences: d.get("presences").is_some_and(|v| v.as_bool().unwrap_or(v.as_u64() == Some(1))),
            nonce: nonce_of(d),
        })
    }
}

/// The first `max` different ids of an array, in its order.
fn distinct_ids<T>(items: &[Value], max: usize) -> Vec<Id<T>> {
    let mut seen = BTreeSet::new();
    items.iter().filter_map(id_of).filter(|id| seen.insert(*id)).take(max).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_id_counts_once() {
        let many: Vec<String> = (1..=150).map(|id| id.to_string()).collect();
        let twice: Vec<&String> = many.iter().flat_map(|id| [id, id]).collect();
        let d = json!({"guild_id": ["12", 12, "13", "12"], "user_ids": twice});
        let request = RequestGuildMembers::parse(&d).expect("it is well-formed");
        assert_eq!(request.guild_ids, [GuildId::new(12), GuildId::new(13)]);
        let MemberQuery::Ids(ids) = request.query else { panic!("{:?}", request.query) };
        assert_eq!(ids, (1..=100).map(UserId::new).collect::<Vec<_>>(), "a hundred different ones, in their order");
    }

    #[test]
    fn what_real_libraries_send() {
        let check = |d: Value, expected: Option<MemberQuery>| {
            let got = RequestGuildMembers::parse(&d);
            assert_eq!(got.map(|r| r.query).ok(), expected, "{d}");
        };
        check(
            json!({"guild_id": ["12"], "limit": 0, "query": "", "nonce": "1", "presences": 0}),
            Some(MemberQuery::All),
        );
        check(json!({"guild_id": 12, "presences": false, "limit": 0, "query": ""}), Some(MemberQuery::All));
        check(
            json!({"guild_id": "12", "limit": 5, "query": "an"}),
            Some(MemberQuery::Prefix { prefix: "an".into(), limit: 5 }),
        );
        check(
            json!({"guild_id": "12", "limit": 0, "query": "an"}),
            Some(MemberQuery::Prefix { prefix: "an".into(), limit: 100 }),
        );
        check(json!({"guild_id": "12", "user_ids": "5"}), Some(MemberQuery::Ids(vec![UserId::new(5)])));
        check(
            json!({"guild_id": "12", "user_ids": ["5", 6, "x"], "query": null}),
            Some(MemberQuery::Ids(vec![UserId::new(5), UserId::new(6)])),
        );
        check(
            json!({"guild_id": [], "query": "", "limit": 0, "presences": true, "user_ids": null, "nonce": "2"}),
            Some(MemberQuery::All),
        );
        check(json!({"guild_id": ["x"], "query": ""}), None);
        check(json!({"guild_id": "12"}), None);
        check(json!({"guild_id": null, "query": ""}), None);
        check(json!(null), None);
    }
}
