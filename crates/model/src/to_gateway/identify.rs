//! IDENTIFY (op 2). Spec  docs/protocol/reference.md §1.7; order of checks as given there.

use super::{PayloadError, PresenceUpdate, bare_token};
use crate::{
    capabilities::Capabilities,
    close_code::CloseCode,
    intents::Intents,
    presence::Platform,
    user::{AccountKind, User},
};
use serde_json::Value;

/// Shard that a session requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardId {
    /// Less than `count`.
    pub id: u32,
    /// 1 to `SHARDS_MAX`.
    pub count: u32,
}

/// IDENTIFY: opens a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Identify {
    /// Without the `Bot ` prefix. Secret: `Debug` output of this struct must not be logged.
    pub token: String,
    /// The client wants large payloads compressed with zlib.
    pub compress: bool,
    /// Clamped to 25–250.
    pub large_threshold: Option<u16>,
    /// Raw value; `Self::shard` validates it.
    shard: Option<Value>,
    /// Initial presence.
    pub presence: Option<PresenceUpdate>,
    /// Raw value; `Self::intents` validates it.
    intents: Option<Value>,
    /// Raw bits; `Self::capabilities` returns none for bots.
    capabilities: Capabilities,
    /// Platform of the client.
    pub platform: Platform,
    /// `properties.os`, at most 32 bytes.
    pub os: String,
}

/// Reason why an IDENTIFY cannot start a session, once the account is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentifyError {
    /// `intents` is not a number or is negative; or is missing for a bot.
    #[error("`intents` must be a number, and bots must send it")]
    MalformedIntents,
    /// Undefined bits are set.
    #[error("unknown bits: {0}")]
    UnknownIntents(u64),
    /// Privileged intents that the application was not granted.
    #[error("{} not granted by application_flags", .0.names())]
    UngrantedIntents(Intents),
    /// Intents reserved for user accounts.
    #[error("{} not for bots", .0.names())]
    UserIntents(Intents),
    /// Not `[id, count]` with `id < count`.
    #[error("`shard` must be [id, count] with id below count")]
    InvalidShard,
}

impl IdentifyError {
    /// Close code of the connection.
    #[must_use]
    pub fn close_code(self) -> CloseCode {
        match self {
            Self::MalformedIntents | Self::UnknownIntents(_) => CloseCode::InvalidIntents,
            Self::UngrantedIntents(_) | Self::UserIntents(_) => CloseCode::DisallowedIntents,
            Self::InvalidShard => CloseCode::InvalidShard,
        }
    }

    /// Reason text of the close frame: that of the code, plus details.
    #[must_use]
    pub fn close_reason(self) -> String {
        format!("{}: {self}", self.close_code().reason())
    }
}

/// Maximum number of shards of an account. Far above need; bounds the memory per shard.
const SHARDS_MAX: u64 = 16_384;

impl Identify {
    /// Parses the payload. `client_state`, a hint about the client's cache, is ignored: a complete
    /// READY is always correct.
    ///
    /// # Errors
    /// When it is not an object, or has no token.
    pub fn parse(d: &Value) -> Result<Self, PayloadError> {
        let error = |problem| PayloadError { opcode: "IDENTIFY", problem };
        let d = d.as_object().ok_or(error("expected an object"))?;
        let token = d.get("token").and_then(Value::as_str).ok_or(error("`token` must be a string"))?;
        let properties = d.get("properties");
        let property = |names: [&str; 2]| {
            let properties = properties?;
            names.iter().find_map(|name| properties.get(name)?.as_str())
        };
        Ok(Self {
            token: bare_token(token),
            compress: d.get("compress").and_then(Value::as_bool).unwrap_or(false),
            large_threshold: d.get("large_threshold").and_then(Value::as_u64).map(|n| n.clamp(25, 250) as u16),
            shard: d.get("shard").filter(|v| !v.is_null()).cloned(),
            presence: d.get("presence").and_then(PresenceUpdate::parse),
            intents: d.get("intents").filter(|v| !v.is_null()).cloned(),
            capabilities: Capabilities(d.get("capabilities").and_then(Value::as_u64).unwrap_or(0)),
            platform: Platform::from_browser(property(["browser", "$browser"]).unwrap_or_default()),
            os: property(["os", "$os"]).unwrap_or_default().chars().take(32).collect(),
        })
    }

    /// The intents of a session of this account.
    ///
    /// # Errors
    /// For a bot without intents, for undefined bits, and for intents that were not granted.
    pub fn intents(&self, account: &User) -> Result<Intents, IdentifyError> {
        let kind = account.kind();
        let Some(sent) = &self.intents else {
            return if kind == AccountKind::Bot { Err(IdentifyError::MalformedIntents) } else { Ok(Intents::ALL) };
        };
        let bits = sent.as_u64().ok_or(IdentifyError::MalformedIntents)?;
        if kind == AccountKind::User {
            return Ok(Intents(bits as u32) & Intents::ALL);
        }
        let unknown = bits & !u64::from(Intents::ALL.0);
        if unknown != 0 {
            return Err(IdentifyError::UnknownIntents(unknown));
        }
        let intents = Intents(bits as u32);
        let privileged = [
            (Intents::GUILD_PRESENCES, User::APPLICATION_PRESENCE),
            (Intents::GUILD_MEMBERS, User::APPLICATION_GUILD_MEMBERS),
            (Intents::MESSAGE_CONTENT, User::APPLICATION_MESSAGE_CONTENT),
        ];
        let granted = privileged.iter().filter(|(_, flags)| account.application_flags & flags != 0);
        let granted = granted.fold(Intents::NONE, |all, (intent, _)| all | *intent);
        let ungranted = intents & Intents::PRIVILEGED & Intents(!granted.0);
        if ungranted != Intents::NONE {
            return Err(IdentifyError::UngrantedIntents(ungranted));
        }
        match intents & Intents::USER_ONLY {
            Intents::NONE => Ok(intents),
            of_users => Err(IdentifyError::UserIntents(of_users)),
        }
    }

    /// The capabilities of this account's client. Bits that a bot sends are ignored.
    #[must_use]
    pub fn capabilities(&self, account: &User) -> Capabilities {
        match account.kind() {
            AccountKind::Bot => Capabilities::NONE,
            AccountKind::User => self.capabilities,
        }
    }

    /// The requested shard, if any.
    ///
    /// # Errors
    /// When it is not two numbers, the first less than the second.
    pub fn shard(&self) -> Result<Option<ShardId>, IdentifyError> {
        let Some(sent) = &self.shard else { return Ok(None) };
        match sent.as_array().map(Vec::as_slice) {
            Some([id, count]) => match (id.as_u64(), count.as_u64()) {
                (Some(id), Some(count)) if id < count && count <= SHARDS_MAX => {
                    Ok(Some(ShardId { id: id as u32, count: count as u32 }))
                }
                _ => Err(IdentifyError::InvalidShard),
            },
            _ => Err(IdentifyError::InvalidShard),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::UserId;
    use serde_json::json;

    fn bot(application_flags: u32) -> User {
        User { bot: true, application_flags, ..User::new(UserId::new(1), "bot") }
    }

    #[test]
    fn intents_of_bots_and_users() {
        let check = |intents: Value, account: &User, expected: Result<u32, IdentifyError>| {
            let identify = Identify::parse(&json!({"token": "t", "intents": intents})).unwrap();
            assert_eq!(identify.intents(account).map(|i| i.0), expected, "{intents}");
        };
        let all_granted = bot(1 << 12 | 1 << 15 | 1 << 18);
        check(json!(33281), &all_granted, Ok(33281));
        let ungranted = Intents::MESSAGE_CONTENT;
        check(json!(33281), &bot(0), Err(IdentifyError::UngrantedIntents(ungranted)));
        check(json!(513), &bot(0), Ok(513));
        check(json!(0), &bot(0), Ok(0));
        check(json!(null), &bot(0), Err(IdentifyError::MalformedIntents));
        check(json!(-1), &bot(0), Err(IdentifyError::MalformedIntents));
        check(json!("513"), &bot(0), Err(IdentifyError::MalformedIntents));
        check(json!(1u64 << 29), &all_granted, Err(IdentifyError::UnknownIntents(1 << 29)));
        check(json!(1 << 18), &all_granted, Err(IdentifyError::UserIntents(Intents::PRIVATE_CHANNELS)));
        let user = User::new(UserId::new(2), "ana");
        check(json!(null), &user, Ok(Intents::ALL.0));
        check(json!(513), &user, Ok(513));
    }

    #[test]
    fn close_reasons_name_the_intent_and_fit_a_close_frame() {
        let reason = |error: IdentifyError| error.close_reason();
        let some = Intents::GUILD_MEMBERS | Intents::MESSAGE_CONTENT;
        assert_eq!(
            reason(IdentifyError::UngrantedIntents(some)),
            "Disallowed intent(s): GUILD_MEMBERS, MESSAGE_CONTENT not granted by application_flags"
        );
        assert_eq!(reason(IdentifyError::UnknownIntents(1 << 29)), "Invalid intent(s): unknown bits: 536870912");
        // A close frame has room for 123 bytes of reason text.
        for error in [
            IdentifyError::MalformedIntents,
            IdentifyError::UnknownIntents(u64::MAX),
            IdentifyError::UngrantedIntents(Intents::PRIVILEGED),
            IdentifyError::UserIntents(Intents::USER_ONLY),
            IdentifyError::InvalidShard,
        ] {
            assert!(reason(error).len() <= 123, "{}", reason(error));
        }
    }

    #[test]
    fn capabilities_of_bots_and_users() {
        let check = |capabilities: Value, account: &User, expected: u64| {
            let identify = Identify::parse(&json!({"token": "t", "capabilities": capabilities})).unwrap();
            assert_eq!(identify.capabilities(account), Capabilities(expected), "{capabilities}");
        };
        let user = User::new(UserId::new(2), "ana");
        check(json!(1_734_653), &user, 1_734_653);
        check(json!(1_734_653), &bot(0), 0);
        check(json!(u64::MAX), &user, u64::MAX);
        check(json!(null), &user, 0);
        check(json!(-1), &user, 0);
        check(json!(16.5), &user, 0);
        check(json!("16"), &user, 0);
        check(json!([16]), &user, 0);
    }

    #[test]
    fn shards() {
        let check = |shard: Value, expected| {
            let identify = Identify::parse(&json!({"token": "t", "shard": shard})).unwrap();
            assert_eq!(identify.shard().map(|s| s.map(|s| (s.id, s.count))), expected, "{shard}");
        };
        check(json!(null), Ok(None));
        check(json!([0, 1]), Ok(Some((0, 1))));
        check(json!([1, 1]), Err(IdentifyError::InvalidShard));
        check(json!([0, 0]), Err(IdentifyError::InvalidShard));
        check(json!([-1, 2]), Err(IdentifyError::InvalidShard));
        check(json!([0]), Err(IdentifyError::InvalidShard));
        check(json!("0,1"), Err(IdentifyError::InvalidShard));
    }

    #[test]
    fn what_real_libraries_send() {
        for d in [
            json!({"token": "Bot abc", "v": 10, "compress": false, "large_threshold": 250, "intents": 33281, "properties": {"os": "linux", "browser": "Eris", "device": "Eris"}, "presence": {"activities": null, "afk": false, "since": null, "status": "offline"}}),
            json!({"token": "abc", "properties": {"$os": "linux", "$browser": "DiscordGo v0.29.0"}, "presence": {"since": 0, "game": {"name": "", "type": 0}, "status": "", "afk": false}, "intents": 33281}),
            json!({"token": "abc", "presence": null, "shard": [0, 1], "capabilities": 0}),
            json!({"token": "abc", "presence": {"since": {"secs_since_epoch": 1, "nanos_since_epoch": 2}}}),
            json!({"token": "abc", "properties": 5, "large_threshold": "x", "presence": []}),
            json!({"token": "abc", "capabilities": 30_719, "compress": false, "client_state": {"guild_versions": {}}, "presence": {"status": "unknown", "since": 0, "activities": [], "afk": false}, "properties": {"os": "Windows", "browser": "Chrome", "client_build_number": 1}}),
            json!({"token": "abc", "client_state": [[[{"guild_versions": null}]]], "capabilities": {"a": 1}}),
        ] {
            assert_eq!(Identify::parse(&d).unwrap().token, "abc");
        }
        assert!(Identify::parse(&json!([])).is_err());
        assert!(Identify::parse(&json!({"token": 5})).is_err());
    }
}
