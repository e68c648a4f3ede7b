//! Hidden channels: the form in which members receive channels that they cannot view.
//!
//! Owns        `HiddenChannels`, the setting.
//! Not here    whose view a change affects: `AudienceIndex` of `guildhall-relay`.
//! Spec        docs/protocol/choices.md; docs/adr/0031.

use crate::event::Redaction;

/// Form of channels outside a member's view (`visibility.hidden_channels`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HiddenChannels {
    /// Everything except the newest message and pin, as upstream; obfuscated for user accounts with
    /// CHANNEL_OBFUSCATION.
    #[default]
    Listed,
    /// Type, position and category.
    Obfuscated,
    /// Not sent. A channel that enters the view is a CHANNEL_CREATE, one that leaves it a CHANNEL_DELETE.
    Absent,
}

impl HiddenChannels {
    /// The form for a session. `is_obfuscated`: its client supports obfuscated channels. `None`: it
    /// receives no channel.
    #[must_use]
    pub fn form(self, is_obfuscated: bool) -> Option<Redaction> {
        match self {
            Self::Listed if !is_obfuscated => Some(Redaction::ChannelUnread),
            Self::Listed | Self::Obfuscated => Some(Redaction::Channel),
            Self::Absent => None,
        }
    }

    /// The form for REST, where no client supports obfuscated channels. `None`: there is no channel.
    #[must_use]
    pub fn rest_form(self) -> Option<Redaction> {
        self.form(false)
    }
}
