//! RESUME (op 6). Spec  docs/protocol/reference.md §1.10.

use super::{PayloadError, bare_token};
use serde_json::Value;

/// RESUME: continues a session on a new connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resume {
    /// Without the `Bot ` prefix.
    pub token: String,
    pub session_id: String,
    /// The last sequence number that the client received.
    pub seq: u64,
}

impl Resume {
    /// Parses the payload. A missing or null `seq` means that nothing was received.
    ///
    /// # Errors
    /// When it is not an object, or `token`, `session_id` or `seq` has the wrong type.
    pub fn parse(d: &Value) -> Result<Self, PayloadError> {
        let error = |problem| PayloadError { opcode: "RESUME", problem };
        let d = d.as_object().ok_or(error("expected an object"))?;
        let text = |key: &str, problem| d.get(key).and_then(Value::as_str).ok_or(error(problem));
        Ok(Self {
            token: bare_token(text("token", "`token` must be a string")?),
            session_id: text("session_id", "`session_id` must be a string")?.to_owned(),
            seq: match d.get("seq") {
                None | Some(Value::Null) => 0,
                Some(seq) => seq.as_u64().ok_or(error("`seq` must be a number"))?,
            },
        })
    }
}
