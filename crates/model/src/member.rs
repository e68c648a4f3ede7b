//! Members: an account's membership in one guild.
//!
//! Spec  docs/protocol/reference.md §6.2.

use crate::id::{Id, RoleId};
use crate::user::User;
use guildhall_stdx::Timestamp;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::sync::Arc;

/// A member of a guild. All memberships of an account on this node share one `User`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    pub user: Arc<User>,
    /// Name in this guild, 1–32 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nick: Option<Box<str>>,
    /// Roles, sorted by id, without `@everyone`.
    #[serde(default)]
    pub roles: SmallVec<[RoleId; 4]>,
    pub joined_at: Timestamp,
    /// Server-deafened.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deaf: bool,
    /// Server-muted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mute: bool,
    /// Member flags.
    #[serde(default)]
    pub flags: u32,
    /// End of the latest time-out; may be in the past.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub communication_disabled_until: Option<Timestamp>,
    /// Pictures instead of those of the account. Boxed: few members have some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pictures: Option<Box<MemberPictures>>,
    /// Answers to the onboarding, which only the member is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub onboarding: Option<Box<OnboardingAnswers>>,
}

const _: () = assert!(size_of::<Member>() <= 112, "with the counts of its `Arc` it is an allocation of 128 bytes");

/// Answers of a member to the prompts of an onboarding. Their options may be deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnboardingAnswers {
    /// Chosen options, ascending.
    pub options: Vec<Id<()>>,
    /// When the member's client has shown which prompts, by that client's clock.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prompts_seen: Vec<(Id<()>, Timestamp)>,
    /// When it has shown which options.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options_seen: Vec<(Id<()>, Timestamp)>,
}

/// Hashes of a member's own pictures in one guild. At least one is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberPictures {
    /// Instead of the account's avatar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub avatar: Option<Box<str>>,
    /// Instead of the account's banner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub banner: Option<Box<str>>,
}

impl Member {
    /// Member flags that automatic moderation sets for quarantine. A quarantined member has the limits of a time-out.
    pub const QUARANTINE_FLAGS: u32 = 1 << 7 | 1 << 10;

    /// Member flags of a member who has answered the onboarding: STARTED_ONBOARDING and COMPLETED_ONBOARDING.
    pub const ONBOARDING_FLAGS: u32 = 1 << 1 | 1 << 3;

    /// A new member without nick, roles and flags.
    #[must_use]
    pub fn new(user: Arc<User>, joined_at: Timestamp) -> Self {
        Self {
            user,
            nick: None,
            roles: SmallVec::new(),
            joined_at,
            deaf: false,
            mute: false,
            flags: 0,
            communication_disabled_until: None,
            pictures: None,
            onboarding: None,
        }
    }

    /// Hash of the member's own avatar in this guild.
    #[must_use]
    pub fn avatar(&self) -> Option<&str> {
        self.pictures.as_ref()?.avatar.as_deref()
    }

    /// Hash of the member's own banner in this guild.
    #[must_use]
    pub fn banner(&self) -> Option<&str> {
        self.pictures.as_ref()?.banner.as_deref()
    }

    /// The name that other members see in this guild.
    #[must_use]
    pub fn display_name(&self) -> &str {
        self.nick.as_deref().unwrap_or_else(|| self.user.display_name())
    }
}
