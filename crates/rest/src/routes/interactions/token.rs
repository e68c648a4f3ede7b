//! Token: the right to answer an interaction, which any node of a cluster can check.
//!
//! Owns        `Token`, its form, and its check.
//! Invariants  F1 only nodes of this cluster make tokens: a keyed hash covers all of it. (test
//!             `f1_a_token_opens_its_own_interaction` of `guildhall`)
//! Limits      `TOKEN_BYTES_MAX`, checked before anything else.

use super::{ANSWER_MS, TOKEN_MS, unknown_interaction};
use crate::{error::ApiError, state::Api};
use axum::http::StatusCode;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use guildhall_guild::Refusal;
use guildhall_model::{ChannelId, GuildId, Id, MessageId, Nonce, UserId, timestamp_of};
use guildhall_node::{MARK_BYTES, Node};
use guildhall_stdx::Timestamp;
use serde::{Deserialize, Serialize};

const PURPOSE: &str = "interaction";
/// Upstream's tokens begin with the same characters, so logs show what leaked.
const PREFIX: &[u8] = b"interaction:";
const PREFIX_TEXT: &str = "aW50ZXJhY3Rpb246";
/// The longest names of commands are 98 characters.
const TOKEN_BYTES_MAX: usize = 2_048;

/// Message whose component was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Source {
    #[serde(rename = "m")]
    pub message_id: MessageId,
    #[serde(rename = "e", default, skip_serializing_if = "std::ops::Not::not")]
    pub is_ephemeral: bool,
}

/// The interaction before a modal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Triggering {
    #[serde(rename = "i")]
    pub id: Id<()>,
    #[serde(rename = "k")]
    pub kind: u8,
    #[serde(rename = "n", default, skip_serializing_if = "String::is_empty")]
    pub name: String,
}

/// An interaction, as its token has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Token {
    #[serde(rename = "i")]
    pub id: Id<()>,
    /// Bot account of the application.
    #[serde(rename = "a")]
    pub application: UserId,
    /// The account that invoked it.
    #[serde(rename = "u")]
    pub user_id: UserId,
    #[serde(rename = "g", default, skip_serializing_if = "Option::is_none")]
    pub guild_id: Option<GuildId>,
    #[serde(rename = "c")]
    pub channel_id: ChannelId,
    #[serde(rename = "k")]
    pub kind: u8,
    /// Type of the command; 0 without one.
    #[serde(rename = "t", default)]
    pub command_type: u8,
    /// Name of the command with those of its subcommands.
    #[serde(rename = "n", default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// As the user's client sent it.
    #[serde(rename = "o", default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<Nonce>,
    /// For components, and for modals that answered one.
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// The interaction that a modal answered. Of modals only.
    #[serde(rename = "b", default, skip_serializing_if = "Option::is_none")]
    pub triggering: Option<Triggering>,
}

impl Token {
    pub fn write(&self, node: &Node) -> Result<String, ApiError> {
        let mut bytes = PREFIX.to_vec();
        serde_json::to_writer(&mut bytes, self).map_err(|_| ApiError::Bug("a token that can be written"))?;
        let mark = node.mark(PURPOSE, &bytes);
        bytes.extend_from_slice(&mark);
        Ok(URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Whether a text has the form of such a token. Tokens of webhooks do not.
    pub fn is_one(text: &str) -> bool {
        text.starts_with(PREFIX_TEXT)
    }

    /// None: it is no token of this cluster.
    fn read(node: &Node, text: &str) -> Option<Self> {
        if text.len() > TOKEN_BYTES_MAX || !Self::is_one(text) {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (signed, mark) = bytes.split_at_checked(bytes.len().checked_sub(MARK_BYTES)?)?;
        if !node.is_mark(PURPOSE, signed, mark) {
            return None;
        }
        serde_json::from_slice(signed.strip_prefix(PREFIX)?).ok()
    }

    fn age_ms(&self, now: Timestamp) -> i64 {
        now.0.saturating_sub(timestamp_of(self.id).0)
    }

    /// The token of a path that gives the first answer.
    pub fn of_callback(api: &Api, id: Id<()>, text: &str) -> Result<Self, ApiError> {
        let token = Self::read(&api.node, text).filter(|token| token.id == id);
        let token = token.ok_or_else(unknown_interaction)?;
        if token.age_ms(api.now().unix) > ANSWER_MS { Err(unknown_interaction()) } else { Ok(token) }
    }

    /// The token of a path that comes after the first answer.
    pub fn of_followup(api: &Api, application: UserId, text: &str) -> Result<Self, ApiError> {
        let token = Self::read(&api.node, text).filter(|token| token.application == application);
        let token = token.ok_or(ApiError::Refused(Refusal::UnknownWebhook))?;
        if token.age_ms(api.now().unix) > TOKEN_MS {
            return Err(ApiError::coded(StatusCode::UNAUTHORIZED, 50027, "Invalid Webhook Token"));
        }
        Ok(token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_is_that_of_the_text() {
        assert_eq!(URL_SAFE_NO_PAD.encode(PREFIX), PREFIX_TEXT);
    }
}
