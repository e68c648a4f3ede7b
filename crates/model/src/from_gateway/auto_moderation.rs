//! Auto moderation. Spec  docs/protocol/choices.md "Auto moderation".

use crate::{
    auto_moderation::{AutoModAction, AutoModExecution, AutoModRule, AutoModTrigger},
    id::{ChannelId, GuildId, Id, MessageId, RoleId, UserId},
};
use serde::Serialize;

/// Metadata of a trigger; the type decides which there are.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct TriggerMetadataBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    keyword_filter: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    regex_patterns: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    presets: Option<&'a [u8]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allow_list: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mention_total_limit: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mention_raid_protection_enabled: Option<bool>,
}

impl<'a> From<&'a AutoModTrigger> for TriggerMetadataBody<'a> {
    fn from(trigger: &'a AutoModTrigger) -> Self {
        match trigger {
            AutoModTrigger::Keyword { keyword_filter, regex_patterns, allow_list } => Self {
                keyword_filter: Some(keyword_filter),
                regex_patterns: Some(regex_patterns),
                allow_list: Some(allow_list),
                ..Self::default()
            },
            AutoModTrigger::Spam => Self::default(),
            AutoModTrigger::KeywordPreset { presets, allow_list } => {
                Self { presets: Some(presets), allow_list: Some(allow_list), ..Self::default() }
            }
            AutoModTrigger::MentionSpam { mention_total_limit } => Self {
                mention_total_limit: Some(*mention_total_limit),
                mention_raid_protection_enabled: Some(false),
                ..Self::default()
            },
        }
    }
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
struct ActionMetadataBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    custom_message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    channel_id: Option<ChannelId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_seconds: Option<u32>,
}

/// Action of a rule.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct AutoModActionBody<'a> {
    #[serde(rename = "type")]
    kind: u8,
    metadata: ActionMetadataBody<'a>,
}

impl<'a> From<&'a AutoModAction> for AutoModActionBody<'a> {
    fn from(action: &'a AutoModAction) -> Self {
        let none = ActionMetadataBody::default();
        let (kind, metadata) = match action {
            AutoModAction::BlockMessage { custom_message } => {
                let custom_message = custom_message.as_deref();
                (AutoModAction::BLOCK_MESSAGE, ActionMetadataBody { custom_message, ..none })
            }
            AutoModAction::SendAlert { channel_id } => {
                (AutoModAction::SEND_ALERT, ActionMetadataBody { channel_id: Some(*channel_id), ..none })
            }
            AutoModAction::Timeout { duration_s } => {
                (AutoModAction::TIMEOUT, ActionMetadataBody { duration_seconds: Some(*duration_s), ..none })
            }
        };
        Self { kind, metadata }
    }
}

/// Rule of a guild.
#[derive(Clone, Debug, Serialize)]
pub struct AutoModRuleBody<'a> {
    id: Id<()>,
    guild_id: GuildId,
    name: &'a str,
    creator_id: UserId,
    /// 1: a message is sent.
    event_type: u8,
    trigger_type: u8,
    trigger_metadata: TriggerMetadataBody<'a>,
    actions: Vec<AutoModActionBody<'a>>,
    enabled: bool,
    exempt_roles: &'a [RoleId],
    exempt_channels: &'a [ChannelId],
}

impl<'a> AutoModRuleBody<'a> {
    #[must_use]
    pub fn new(guild_id: GuildId, rule: &'a AutoModRule) -> Self {
        Self {
            id: rule.id,
            guild_id,
            name: &rule.name,
            creator_id: rule.creator_id,
            event_type: 1,
            trigger_type: rule.trigger.kind(),
            trigger_metadata: (&rule.trigger).into(),
            actions: rule.actions.iter().map(Into::into).collect(),
            enabled: rule.enabled,
            exempt_roles: &rule.exempt_roles,
            exempt_channels: &rule.exempt_channels,
        }
    }
}

/// An action that was taken.
#[derive(Clone, Debug, Serialize)]
pub struct AutoModExecutionBody<'a> {
    guild_id: GuildId,
    action: AutoModActionBody<'a>,
    rule_id: Id<()>,
    rule_trigger_type: u8,
    user_id: UserId,
    channel_id: ChannelId,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<MessageId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    alert_system_message_id: Option<MessageId>,
    content: &'a str,
    matched_keyword: Option<&'a str>,
    matched_content: Option<&'a str>,
}

impl<'a> AutoModExecutionBody<'a> {
    #[must_use]
    pub fn new(guild_id: GuildId, of: &'a AutoModExecution) -> Self {
        Self {
            guild_id,
            action: (&of.action).into(),
            rule_id: of.rule_id,
            rule_trigger_type: of.trigger_kind,
            user_id: of.user_id,
            channel_id: of.channel_id,
            message_id: of.message_id,
            alert_system_message_id: of.alert_message_id,
            content: &of.content,
            matched_keyword: of.matched_keyword.as_deref(),
            matched_content: of.matched_content.as_deref(),
        }
    }

    /// Without the text, for bots without MESSAGE_CONTENT.
    #[must_use]
    pub fn redacted(self) -> Self {
        Self { content: "", matched_content: self.matched_content.map(|_| ""), ..self }
    }
}
