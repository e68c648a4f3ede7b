//! Invites: codes that admit accounts to a guild.
//!
//! Spec  docs/protocol/reference.md §7.1, §10.3.

use crate::{
    id::{ChannelId, GuildId},
    user::User,
};
use guildhall_stdx::Timestamp;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr, sync::Arc};

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const LEN: usize = 8;

/// Invite code of eight letters and digits, stored as a number below 62⁸.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InviteCode(u64);

/// The text is not eight letters and digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an invite code: expected eight letters and digits")]
pub struct ParseInviteCodeError;

impl InviteCode {
    /// Number of distinct codes.
    pub const COUNT: u64 = 62_u64.pow(LEN as u32);

    /// The code with this number modulo [`Self::COUNT`].
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number % Self::COUNT)
    }

    /// The number that is stored.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for InviteCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [b'0'; LEN];
        let mut rest = self.0;
        for digit in text.iter_mut().rev() {
            *digit = DIGITS[(rest % 62) as usize];
            rest /= 62;
        }
        text.iter().try_for_each(|digit| fmt::Write::write_char(f, char::from(*digit)))
    }
}

impl FromStr for InviteCode {
    type Err = ParseInviteCodeError;

    fn from_str(text: &str) -> Result<Self, ParseInviteCodeError> {
        if text.len() != LEN {
            return Err(ParseInviteCodeError);
        }
        let digit = |byte: u8| DIGITS.iter().position(|digit| *digit == byte).ok_or(ParseInviteCodeError);
        text.bytes().try_fold(0, |number, byte| Ok(number * 62 + digit(byte)? as u64)).map(Self)
    }
}

impl Serialize for InviteCode {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for InviteCode {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// An invite to a guild.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invite {
    pub code: InviteCode,
    pub guild_id: GuildId,
    /// Channel that a new member sees first.
    pub channel_id: ChannelId,
    /// Account that created it; none: the backend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inviter: Option<Arc<User>>,
    pub created_at: Timestamp,
    /// Seconds until it expires; 0: never.
    pub max_age_s: u32,
    /// Maximum number of uses; 0: unlimited.
    pub max_uses: u32,
    /// Grants temporary membership: the member is removed after their last session ends, unless they
    /// have a role by then.
    #[serde(default)]
    pub temporary: bool,
    /// Number of uses so far.
    #[serde(default)]
    pub uses: u32,
}

impl Invite {
    /// Time of expiry; none: never.
    #[must_use]
    pub fn expires_at(&self) -> Option<Timestamp> {
        (self.max_age_s > 0).then(|| Timestamp(self.created_at.0.saturating_add(i64::from(self.max_age_s) * 1000)))
    }

    /// Has expired or is used up.
    #[must_use]
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.expires_at().is_some_and(|at| at <= now) || self.max_uses > 0 && self.uses >= self.max_uses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_numbers() {
        for number in [0, 1, 61, 62, 1_000_000_007, InviteCode::COUNT - 1] {
            let code = InviteCode::new(number);
            assert_eq!((code.number(), code.to_string().len()), (number, 8));
            assert_eq!(code.to_string().parse(), Ok(code));
        }
        assert_eq!(InviteCode::new(61).to_string(), "0000000z");
        for text in ["", "1234567", "123456789", "1234567é", "abc-efgh", "abc efgh"] {
            assert_eq!(text.parse::<InviteCode>(), Err(ParseInviteCodeError), "{text}");
        }
    }
}
