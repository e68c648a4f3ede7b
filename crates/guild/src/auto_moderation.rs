//! Auto moderation: rules for the texts of members.
//!
//! Owns        `ListAutoModRules`, `CreateAutoModRule`, `UpdateAutoModRule`, `DeleteAutoModRule`; the judgement of
//!             messages, and the actions that follow.
//! Doors       `judge` before a text is stored, `moderated` once it is; `moderate` from `Guild::handle_timer`.
//! Invariants  T1 a message that a rule blocks is refused before anything of it is stored or published. T2 each action
//!             that is taken is published and logged. T3 bots, and members with MANAGE_GUILD, are exempt, as upstream.
//!             (tests `auto_moderation::t1_*` …)
//! Limits      `KEYWORD_RULES_MAX`, `OTHER_RULES_MAX`. The next timer takes the actions, outside of the command that
//!             caused them, because a refused command changes nothing; those that wait end with the process. A hand-off
//!             waits for them.
//! Not here    the search: `state::auto_moderation`. Lengths of lists: the parser.     Spec
//!             docs/protocol/choices.md "Auto moderation".

use crate::{
    audit::{self, NewEntry},
    check::{ChannelContext, GuildContext},
    command::{Actor, AutoModPatch, CommandResult, MemberPatch, Refusal},
    machine::Guild,
    mentions::Named,
    messages::Sending,
    state::auto_moderation::{Judged, Pending, Rule},
    turn::Turn,
};
use guildhall_guild_protocol::{AudienceRule, Payload, ReplicaUpdate, ResourcePayload};
use guildhall_model::{
    AuditAction, AutoModAction, AutoModExecution, AutoModRule, AutoModTrigger, ChannelId, EventName, GuildResource, Id,
    Member, Message, MessageId, Permissions, ResourceKey, ResourceKind, UserId,
};
use guildhall_stdx::{Now, Timestamp};
use serde_json::json;
use std::sync::Arc;

/// Rules with keywords. 6 as upstream.
const KEYWORD_RULES_MAX: usize = 6;
/// Rules of each other type. As upstream.
const OTHER_RULES_MAX: usize = 1;
/// Users, and roles, that are counted: above the limit of each rule.
const MENTIONS_COUNTED_MAX: usize = 64;

impl Guild {
    fn need_auto_moderation(&self, turn: Turn<'_>) -> Result<GuildContext, Refusal> {
        let context = self.in_guild(turn)?;
        context.need(Permissions::MANAGE_GUILD)?;
        Ok(context)
    }

    pub(crate) fn list_auto_mod_rules(&self, turn: Turn<'_>) -> CommandResult<Vec<Arc<AutoModRule>>> {
        self.need_auto_moderation(turn)?;
        Ok(self.auto_mod.rules().map(|rule| rule.rule.clone()).collect())
    }

    pub(crate) fn create_auto_mod_rule(
        &mut self,
        turn: Turn<'_>,
        new: &AutoModPatch,
    ) -> CommandResult<Arc<AutoModRule>> {
        let context = self.need_auto_moderation(turn)?;
        let AutoModPatch { name, trigger, actions, enabled, exempt_roles, exempt_channels } = new.clone();
        let trigger = trigger.ok_or(Refusal::InvalidForm("trigger_type"))?;
        let max = match trigger {
            AutoModTrigger::Keyword { .. } => KEYWORD_RULES_MAX,
            AutoModTrigger::Spam | AutoModTrigger::KeywordPreset { .. } | AutoModTrigger::MentionSpam { .. } => {
                OTHER_RULES_MAX
            }
        };
        let of_kind = self.auto_mod.rules().filter(|rule| rule.rule.trigger.kind() == trigger.kind());
        if of_kind.count() >= max {
            return Err(Refusal::TooManyRules.into());
        }
        let (name, actions) =
            (name.ok_or(Refusal::InvalidForm("name"))?, actions.ok_or(Refusal::InvalidForm("actions"))?);
        self.check_actions(&context, &actions)?;
        let rule = AutoModRule {
            id: self.next_id(turn.now),
            name,
            creator_id: turn.actor.user_id().unwrap_or(UserId::new(0)),
            trigger,
            actions,
            enabled: enabled.unwrap_or(false),
            exempt_roles: exempt_roles.unwrap_or_default(),
            exempt_channels: exempt_channels.unwrap_or_default(),
        };
        let rule = self.put_auto_mod_rule(EventName::AutoModerationRuleCreate, rule)?;
        let entry = NewEntry::new(AuditAction::AutoModRuleCreate, rule.id);
        self.log(turn, entry.made(audit::of_auto_mod_rule(&rule)));
        Ok(rule)
    }

    pub(crate) fn update_auto_mod_rule(
        &mut self,
        turn: Turn<'_>,
        id: Id<()>,
        patch: &AutoModPatch,
    ) -> CommandResult<Arc<AutoModRule>> {
        let context = self.need_auto_moderation(turn)?;
        let before = self.auto_mod.get(id).cloned().ok_or(Refusal::UnknownAutoModRule)?;
        let patch = patch.clone();
        let rule = AutoModRule {
            id,
            name: patch.name.unwrap_or_else(|| before.name.clone()),
            creator_id: before.creator_id,
            trigger: patch.trigger.unwrap_or_else(|| before.trigger.clone()),
            actions: patch.actions.unwrap_or_else(|| before.actions.clone()),
            enabled: patch.enabled.unwrap_or(before.enabled),
            exempt_roles: patch.exempt_roles.unwrap_or_else(|| before.exempt_roles.clone()),
            exempt_channels: patch.exempt_channels.unwrap_or_else(|| before.exempt_channels.clone()),
        };
        if rule.trigger.kind() != before.trigger.kind() {
            return Err(Refusal::InvalidForm("trigger_metadata").into());
        }
        if rule == *before {
            return Ok(before);
        }
        if rule.actions != before.actions {
            self.check_actions(&context, &rule.actions)?;
        }
        let rule = self.put_auto_mod_rule(EventName::AutoModerationRuleUpdate, rule)?;
        let entry = NewEntry::new(AuditAction::AutoModRuleUpdate, id);
        self.log(turn, entry.changed(audit::of_auto_mod_rule(&before), audit::of_auto_mod_rule(&rule)));
        Ok(rule)
    }

    pub(crate) fn delete_auto_mod_rule(&mut self, turn: Turn<'_>, id: Id<()>) -> CommandResult<()> {
        self.need_auto_moderation(turn)?;
        let rule = self.auto_mod.remove(id).ok_or(Refusal::UnknownAutoModRule)?;
        self.delete_resource(ResourceKey::whole(ResourceKind::AutoModRule, id.get()));
        self.publish_auto_mod(EventName::AutoModerationRuleDelete, ResourcePayload::AutoModRule(rule.clone()));
        let entry = NewEntry::new(AuditAction::AutoModRuleDelete, id);
        self.log(turn, entry.gone(audit::of_auto_mod_rule(&rule)));
        Ok(())
    }

    /// Alerts go into a channel with messages. An actor who lets a rule time members out may do so themselves.
    fn check_actions(&self, context: &GuildContext, actions: &[AutoModAction]) -> Result<(), Refusal> {
        for action in actions {
            match action {
                AutoModAction::BlockMessage { .. } => {}
                AutoModAction::SendAlert { channel_id } => {
                    let channel = self.structure.channels.get(channel_id);
                    if !channel.is_some_and(|channel| channel.kind.holds_messages()) {
                        return Err(Refusal::InvalidForm("actions"));
                    }
                }
                AutoModAction::Timeout { .. } => context.need(Permissions::MODERATE_MEMBERS)?,
            }
        }
        Ok(())
    }

    fn put_auto_mod_rule(&mut self, name: EventName, rule: AutoModRule) -> Result<Arc<AutoModRule>, Refusal> {
        let rule = Arc::new(rule);
        let compiled = Rule::new(rule.clone()).map_err(|_| Refusal::InvalidForm("trigger_metadata"))?;
        self.auto_mod.insert(compiled);
        self.put_resource(GuildResource::AutoModRule(rule.clone()));
        self.publish_auto_mod(name, ResourcePayload::AutoModRule(rule.clone()));
        Ok(rule)
    }

    fn publish_auto_mod(&mut self, name: EventName, resource: ResourcePayload) {
        let rule = AudienceRule::GuildPermission(Permissions::MANAGE_GUILD);
        let event = self.event(name, rule, Payload::Resource(Box::new(resource)));
        self.publish(event, ReplicaUpdate::None);
    }

    /// The rules that a text of a member matches. Refuses it if one of them blocks it; the actions follow then.
    pub(crate) fn judge(
        &mut self,
        now: Now,
        context: &ChannelContext,
        author: &Member,
        text: &str,
    ) -> Result<Vec<Pending>, Refusal> {
        if self.auto_mod.is_empty() || author.user.bot {
            return Ok(Vec::new());
        }
        let permissions = self.structure.guild_permissions(self.structure.standing(author, now.unix));
        if permissions.contains(Permissions::MANAGE_GUILD) {
            return Ok(Vec::new());
        }
        let channel = &context.channel;
        let (lower, named) = (text.to_lowercase(), Named::parse(text, MENTIONS_COUNTED_MAX));
        let mentions = named.users.len() + named.roles.len();
        let is_spam = self.auto_mod.is_spam(now.instant, author.user.id, &lower);
        let judged = Judged { text, lower: &lower, mentions, is_spam };
        let mut matched = Vec::new();
        for compiled in self.auto_mod.rules().filter(|compiled| compiled.rule.enabled) {
            let rule = &compiled.rule;
            let is_here = |id: &ChannelId| *id == channel.id || Some(*id) == channel.parent_id;
            let is_exempt = rule.exempt_roles.iter().any(|role| author.roles.contains(role))
                || rule.exempt_channels.iter().any(is_here);
            if is_exempt {
                continue;
            }
            if let Some(found) = compiled.find(judged) {
                matched.push(Pending {
                    rule: rule.clone(),
                    user_id: author.user.id,
                    channel_id: channel.id,
                    message_id: None,
                    content: text.to_owned(),
                    found,
                });
            }
        }
        let block = |action: &AutoModAction| match action {
            AutoModAction::BlockMessage { custom_message } => Some(custom_message.clone().unwrap_or_default()),
            _ => None,
        };
        match matched.iter().flat_map(|pending| &pending.rule.actions).find_map(block) {
            Some(custom_message) => {
                matched.into_iter().for_each(|pending| self.auto_mod.push(pending));
                Err(Refusal::blocked(&custom_message))
            }
            None => Ok(matched),
        }
    }

    /// The text is that of this message now.
    pub(crate) fn moderated(&mut self, message_id: MessageId, matched: Vec<Pending>) {
        for pending in matched {
            self.auto_mod.push(Pending { message_id: Some(message_id), ..pending });
        }
    }

    /// Takes the actions that wait.
    pub(crate) fn moderate(&mut self, now: Now) {
        while let Some(pending) = self.auto_mod.pop() {
            if self.is_deleted {
                continue;
            }
            for action in &pending.rule.actions {
                self.take_action(now, &pending, action);
            }
        }
    }

    fn take_action(&mut self, now: Now, pending: &Pending, action: &AutoModAction) {
        let Pending { rule, user_id, channel_id, message_id, content, found } = pending;
        let mut alert_message_id = None;
        let logged = match action {
            AutoModAction::BlockMessage { .. } => AuditAction::AutoModBlockMessage,
            AutoModAction::SendAlert { channel_id } => {
                alert_message_id = self.send_alert(now, pending, *channel_id);
                AuditAction::AutoModSendAlert
            }
            AutoModAction::Timeout { duration_s } => {
                let until = Timestamp(now.unix.0 + i64::from(*duration_s) * 1_000);
                let patch = MemberPatch { communication_disabled_until: Some(Some(until)), ..MemberPatch::default() };
                // They may have left in the meantime.
                if self.update_member(Turn::new(now, Actor::System), *user_id, &patch).is_err() {
                    return;
                }
                AuditAction::AutoModTimeout
            }
        };
        let execution = AutoModExecution {
            rule_id: rule.id,
            trigger_kind: rule.trigger.kind(),
            action: action.clone(),
            user_id: *user_id,
            channel_id: *channel_id,
            message_id: *message_id,
            alert_message_id,
            content: content.clone(),
            matched_keyword: found.keyword.clone(),
            matched_content: found.content.clone(),
        };
        let resource = ResourcePayload::AutoModExecution(Box::new(execution));
        self.publish_auto_mod(EventName::AutoModerationActionExecution, resource);
        let entry = NewEntry::new(logged, *user_id)
            .option("auto_moderation_rule_name", &rule.name)
            .option("auto_moderation_rule_trigger_type", rule.trigger.kind())
            .option("channel_id", channel_id);
        self.log(Turn::new(now, Actor::User(*user_id)), entry);
    }

    /// None: the channel or the member is gone.
    fn send_alert(&mut self, now: Now, pending: &Pending, channel_id: ChannelId) -> Option<MessageId> {
        let context = self.message_channel(Turn::new(now, Actor::System), channel_id).ok()?;
        let author = self.member(pending.user_id)?.user.clone();
        let field = |name: &str, value: String| json!({"name": name, "value": value, "inline": false});
        let mut fields =
            vec![field("rule_name", pending.rule.name.clone()), field("channel_id", pending.channel_id.to_string())];
        fields.extend(pending.found.keyword.iter().map(|keyword| field("keyword", keyword.clone())));
        fields.extend(pending.found.content.iter().map(|text| field("keyword_matched_content", text.clone())));
        fields.extend(pending.message_id.map(|id| field("flagged_message_id", id.to_string())));
        let embed = json!({"type": "auto_moderation_message", "description": pending.content, "fields": fields});
        let alert = Message {
            kind: Message::KIND_AUTO_MODERATION_ACTION,
            embeds: vec![embed],
            ..Message::new(self.next_id(now), channel_id, self.guild_of_messages(), author)
        };
        Some(self.commit_message(now, &context, alert, Sending::default()).message.id)
    }
}
