//! Community settings: welcome screen and onboarding changed, templates made.

use super::some;
use guildhall_model::{ChannelId, GuildTemplate, InviteCode, OnboardingPrompt, WelcomeChannel};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Changes to a welcome screen; `None` leaves a field as it is. The caller has checked lengths and counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WelcomeScreenPatch {
    pub enabled: Option<bool>,
    /// New description, or none.
    #[serde(default, deserialize_with = "some", skip_serializing_if = "Option::is_none")]
    pub description: Option<Option<String>>,
    /// All channels.
    pub channels: Option<Vec<WelcomeChannel>>,
}

/// Changes to an onboarding; `None` leaves a field as it is. The caller has checked lengths and counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnboardingPatch {
    pub enabled: Option<bool>,
    pub mode: Option<u8>,
    pub default_channel_ids: Option<Vec<ChannelId>>,
    /// All prompts. An id that no prompt or option has yet is replaced by a new one.
    pub prompts: Option<Vec<OnboardingPrompt>>,
}

/// A template to be made of the guild.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewTemplate {
    /// From `Node::new_invite_code`.
    pub code: InviteCode,
    pub name: String,
    pub description: Option<String>,
}

/// Changes to the texts of a template; `None` leaves a field as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TemplatePatch {
    pub name: Option<String>,
    /// New description, or none.
    #[serde(default, deserialize_with = "some", skip_serializing_if = "Option::is_none")]
    pub description: Option<Option<String>>,
}

/// A template, as a reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TemplateReply {
    pub template: Arc<GuildTemplate>,
    /// The guild was changed since.
    pub is_dirty: bool,
}
