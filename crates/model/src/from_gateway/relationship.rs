//! Relationships of an account: in READY, in events to its sessions, and in REST.
//!
//! Spec  docs/protocol/reference.md §6.13.

use super::UserBody;
use crate::{
    id::UserId,
    relationship::{Relation, Relationship},
};
use guildhall_stdx::Timestamp;
use serde::Serialize;

/// A relationship, in READY and REST, and RELATIONSHIP_ADD, which also replaces one.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RelationshipBody<'a> {
    id: UserId,
    /// 1 friend, 2 blocked, 3 incoming request, 4 outgoing request.
    #[serde(rename = "type")]
    kind: u8,
    /// None in a READY with `users`.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<UserBody<'a>>,
    /// In a READY with `users`.
    #[serde(skip_serializing_if = "Option::is_none")]
    user_id: Option<UserId>,
    nickname: Option<&'a str>,
    since: Timestamp,
    /// Always false.
    is_spam_request: bool,
    /// Always false.
    stranger_request: bool,
    /// Always false.
    user_ignored: bool,
    /// Only in events: the client shows a notification.
    #[serde(skip_serializing_if = "Option::is_none")]
    should_notify: Option<bool>,
}

impl<'a> RelationshipBody<'a> {
    /// With the account in it.
    #[must_use]
    pub fn new(of: &'a Relationship) -> Self {
        let Relationship { user, relation: Relation { kind, nickname, since } } = of;
        Self {
            id: user.id,
            kind: *kind as u8,
            user: Some((&**user).into()),
            user_id: None,
            nickname: nickname.as_deref(),
            since: *since,
            is_spam_request: false,
            stranger_request: false,
            user_ignored: false,
            should_notify: None,
        }
    }

    /// With the account's id, for clients that have `users`.
    #[must_use]
    pub fn deduplicated(of: &'a Relationship) -> Self {
        Self { user: None, user_id: Some(of.user.id), ..Self::new(of) }
    }

    /// For RELATIONSHIP_ADD.
    #[must_use]
    pub fn notifying(self, should_notify: bool) -> Self {
        Self { should_notify: Some(should_notify), ..self }
    }

    /// Adds the keys that only answers of REST have.
    #[must_use]
    pub fn for_rest(self) -> Self {
        Self { user: self.user.map(UserBody::for_rest), ..self }
    }
}

/// RELATIONSHIP_UPDATE, and RELATIONSHIP_REMOVE with the relationship as it was.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RelationshipChangeBody<'a> {
    id: UserId,
    /// 0 if the node does not know what it was.
    #[serde(rename = "type")]
    kind: u8,
    nickname: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<Timestamp>,
    user_ignored: bool,
}

impl<'a> RelationshipChangeBody<'a> {
    /// None: it is not known any more.
    #[must_use]
    pub fn new(id: UserId, relation: Option<&'a Relation>) -> Self {
        Self {
            id,
            kind: relation.map_or(0, |relation| relation.kind as u8),
            nickname: relation.and_then(|relation| relation.nickname.as_deref()),
            since: relation.map(|relation| relation.since),
            user_ignored: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Id, RelationshipKind, User};
    use serde_json::json;
    use std::sync::Arc;

    #[test]
    fn each_form_names_the_account() {
        let relation =
            Relation { kind: RelationshipKind::Friend, nickname: Some("Bo".to_owned()), since: Timestamp(0) };
        let of = Relationship { user: Arc::new(User::new(Id::new(8), "bo")), relation };
        let since = "1970-01-01T00:00:00.000000+00:00";
        let full = serde_json::to_value(RelationshipBody::new(&of).notifying(true)).unwrap();
        assert_eq!(full["user"]["username"], "bo");
        assert_eq!(
            (&full["user"]["id"], &full["id"], &full["should_notify"]),
            (&json!("8"), &json!("8"), &json!(true))
        );
        assert_eq!(
            serde_json::to_value(RelationshipBody::deduplicated(&of)).unwrap(),
            json!({"id": "8", "type": 1, "user_id": "8", "nickname": "Bo", "since": since, "is_spam_request": false,
                "stranger_request": false, "user_ignored": false})
        );
        assert_eq!(
            serde_json::to_value(RelationshipChangeBody::new(of.user.id, Some(&of.relation))).unwrap(),
            json!({"id": "8", "type": 1, "nickname": "Bo", "since": since, "user_ignored": false})
        );
        let unknown = serde_json::to_value(RelationshipChangeBody::new(of.user.id, None)).unwrap();
        assert_eq!(unknown, json!({"id": "8", "type": 0, "nickname": null, "user_ignored": false}));
    }
}
