//! Audit log of a guild: what accounts changed in it by a permission, kept for moderators.
//!
//! Owns        `AuditLog`, `Fields`, the entries of each kind of change; `ReadAuditLog`.
//! Doors       `Guild::log` from every command that moderates, after its own events; `Guild::list_audit_log`.
//! Invariants  L1 an entry is written, stored and published in the input of the change that it records. L2
//!             entries of actions that plain members take (`AuditAction::is_of_members`) push out only their
//!             like. (tests `l1_*`, `l2_*`)
//! Limits      `audit_entries_max`, 0 for no log; `audit_member_entries_max`; past either the oldest go. `KEPT_MS`,
//!             after which entries are not listed, and go when others come, `SWEPT_MAX` at a time. Texts are cut to
//!             `TEXT_CHARS_MAX`.
//! Not here    what the system does: backends keep logs of their own.     Spec  docs/protocol/choices.md "Audit log".

use crate::{
    command::{Actor, AuditQuery, CommandResult, Refusal},
    machine::Guild,
    turn::Turn,
};
use guildhall_guild_protocol::{AudienceRule, Payload, ReplicaUpdate, ResourcePayload};
use guildhall_model::{
    AuditAction, AuditChange, AuditEntry, AutoModRule, Channel, Emoji, EventName, Guild as GuildFields, GuildResource,
    Id, Invite, Member, Onboarding, OnboardingPrompt, Overwrite, OverwriteKind, Permissions, ResourceKey, ResourceKind,
    Role, RoleIcon, RoleId, ScheduledEvent, StageInstance, Sticker, UserId, Webhook, WelcomeScreen,
    from_gateway::AutoModActionBody, timestamp_of,
};
use guildhall_stdx::{Now, Timestamp};
use serde_json::{Map, Value, json};
use std::{collections::BTreeSet, sync::Arc};

/// 45 days, as upstream.
const KEPT_MS: i64 = 45 * 86_400_000;
const SWEPT_MAX: usize = 16;
const TEXT_CHARS_MAX: usize = 512;
/// Overwrites of one request that get an entry each.
const OVERWRITES_LOGGED_MAX: usize = 16;
/// Within this time, deletions of one author's messages in one channel by one moderator are one entry. As upstream.
const SAME_DELETIONS_MS: i64 = 300_000;

/// Fields of an object by their names on the wire, for comparison.
pub(crate) type Fields = Vec<(&'static str, Value)>;

macro_rules! fields {
    ($($key:literal: $value:expr),* $(,)?) => { vec![$(($key, json!($value))),*] };
}

pub(crate) fn of_guild(guild: &GuildFields) -> Fields {
    fields! {
        "name": guild.name, "description": guild.description, "icon_hash": guild.icon,
        "splash_hash": guild.splash, "discovery_splash_hash": guild.discovery_splash, "banner_hash": guild.banner, "owner_id": guild.owner_id,
        "afk_channel_id": guild.afk_channel_id, "afk_timeout": guild.afk_timeout,
        "verification_level": guild.verification_level,
        "default_message_notifications": guild.default_message_notifications,
        "explicit_content_filter": guild.explicit_content_filter, "system_channel_id": guild.system_channel_id,
        "preferred_locale": guild.preferred_locale, "vanity_url_code": guild.vanity_url_code,
        "widget_enabled": guild.widget_enabled, "widget_channel_id": guild.widget_channel_id,
    }
}

/// Of a thread too.
pub(crate) fn of_channel(channel: &Channel) -> Fields {
    let mut fields = fields! {
        "name": channel.name, "type": channel.kind, "topic": channel.topic, "nsfw": channel.nsfw,
        "rate_limit_per_user": channel.rate_limit_per_user, "bitrate": channel.bitrate, "user_limit": channel.user_limit,
        "parent_id": channel.parent_id,
        "default_auto_archive_duration": channel.default_auto_archive_duration,
        "default_thread_rate_limit_per_user": channel.default_thread_rate_limit_per_user,
    };
    if let Some(forum) = &channel.forum {
        fields.extend(fields! {
            "available_tags": forum.available_tags, "default_reaction_emoji": forum.default_reaction_emoji,
            "default_sort_order": forum.default_sort_order, "flags": forum.flags,
        });
    }
    if let Some(thread) = &channel.thread {
        fields.extend(fields! {
            "archived": thread.archived, "locked": thread.locked, "invitable": thread.invitable,
            "auto_archive_duration": thread.auto_archive_duration, "applied_tags": thread.applied_tags,
        });
    }
    fields
}

fn of_overwrite(overwrite: &Overwrite) -> Fields {
    let (id, kind) = match overwrite.target {
        OverwriteKind::Role(id) => (id.get(), 0),
        OverwriteKind::Member(id) => (id.get(), 1),
    };
    fields! { "id": id.to_string(), "type": kind, "allow": overwrite.allow, "deny": overwrite.deny }
}

pub(crate) fn of_member(member: &Member) -> Fields {
    fields! {
        "nick": member.nick, "mute": member.mute, "deaf": member.deaf,
        "communication_disabled_until": member.communication_disabled_until,
    }
}

pub(crate) fn of_role(role: &Role) -> Fields {
    fields! {
        "name": role.name, "color": role.color, "hoist": role.hoist, "mentionable": role.mentionable,
        "permissions": role.permissions,
        "icon_hash": match &role.icon { Some(RoleIcon::Picture(hash)) => Some(hash), _ => None },
        "unicode_emoji": match &role.icon { Some(RoleIcon::Emoji(emoji)) => Some(emoji), _ => None },
    }
}

pub(crate) fn of_invite(invite: &Invite) -> Fields {
    fields! {
        "code": invite.code, "channel_id": invite.channel_id, "max_age": invite.max_age_s, "max_uses": invite.max_uses,
        "uses": invite.uses, "temporary": invite.temporary,
        "inviter_id": invite.inviter.as_ref().map(|user| user.id),
    }
}

/// Without its token.
pub(crate) fn of_webhook(webhook: &Webhook) -> Fields {
    fields! {
        "name": webhook.name, "channel_id": webhook.channel_id, "avatar_hash": webhook.avatar,
        "application_id": webhook.application_id,
    }
}

pub(crate) fn of_emoji(emoji: &Emoji) -> Fields {
    fields! { "name": emoji.name, "roles": emoji.roles }
}

pub(crate) fn of_sticker(sticker: &Sticker) -> Fields {
    fields! { "name": sticker.name, "description": sticker.description, "tags": sticker.tags }
}

pub(crate) fn of_auto_mod_rule(rule: &AutoModRule) -> Fields {
    fields! {
        "name": rule.name, "trigger_type": rule.trigger.kind(), "event_type": 1, "enabled": rule.enabled,
        "actions": rule.actions.iter().map(AutoModActionBody::from).collect::<Vec<_>>(),
        "exempt_roles": rule.exempt_roles, "exempt_channels": rule.exempt_channels,
    }
}

pub(crate) fn of_welcome_screen(screen: &WelcomeScreen) -> Fields {
    fields! {
        "enabled": screen.enabled, "description": screen.description, "welcome_channels": screen.channels,
    }
}

pub(crate) fn of_onboarding(onboarding: &Onboarding) -> Fields {
    fields! {
        "enabled": onboarding.enabled, "mode": onboarding.mode, "default_channel_ids": onboarding.default_channel_ids,
        "prompts": onboarding.prompts.iter().map(|prompt| prompt.id).collect::<Vec<_>>(),
    }
}

pub(crate) fn of_onboarding_prompt(prompt: &OnboardingPrompt) -> Fields {
    fields! {
        "title": prompt.title, "type": prompt.kind, "single_select": prompt.single_select, "required": prompt.required,
        "in_onboarding": prompt.in_onboarding,
        "options": prompt.options,
    }
}

pub(crate) fn of_event(event: &ScheduledEvent) -> Fields {
    fields! {
        "name": event.name, "description": event.description, "channel_id": event.channel_id,
        "scheduled_start_time": event.scheduled_start_time, "scheduled_end_time": event.scheduled_end_time,
        "entity_type": event.entity_type, "status": event.status, "privacy_level": event.privacy_level,
        "image_hash": event.image,
    }
}

pub(crate) fn of_stage(stage: &StageInstance) -> Fields {
    fields! { "topic": stage.topic, "privacy_level": stage.privacy_level }
}

/// Fields that differ. Null means that a field is not set.
fn between(before: Fields, after: Fields) -> Vec<AuditChange> {
    let mut fields: Vec<(&str, Value, Value)> = Vec::with_capacity(before.len().max(after.len()));
    fields.extend(before.into_iter().map(|(key, value)| (key, value, Value::Null)));
    for (key, value) in after {
        match fields.iter_mut().find(|(of, ..)| *of == key) {
            Some(field) => field.2 = value,
            None => fields.push((key, Value::Null, value)),
        }
    }
    let changed = fields.into_iter().filter(|(_, old, new)| old != new);
    let kept = |value: Value| match value {
        Value::Null => None,
        Value::String(text) if text.len() > TEXT_CHARS_MAX => {
            Some(Value::String(text.chars().take(TEXT_CHARS_MAX).collect()))
        }
        value => Some(value),
    };
    let change = |(key, old, new): (&str, Value, Value)| AuditChange {
        key: key.to_owned(),
        old_value: kept(old),
        new_value: kept(new),
    };
    changed.map(change).collect()
}

/// An entry to be written.
#[derive(Debug)]
pub(crate) struct NewEntry {
    action: AuditAction,
    target_id: Option<Id<()>>,
    changes: Vec<AuditChange>,
    options: Map<String, Value>,
}

impl NewEntry {
    pub fn new<T>(action: AuditAction, target_id: Id<T>) -> Self {
        Self { action, target_id: Some(target_id.cast()), changes: Vec::new(), options: Map::new() }
    }

    /// Of an action without a target.
    pub fn untargeted(action: AuditAction) -> Self {
        Self { action, target_id: None, changes: Vec::new(), options: Map::new() }
    }

    pub fn made(self, after: Fields) -> Self {
        Self { changes: between(Vec::new(), after), ..self }
    }

    pub fn gone(self, before: Fields) -> Self {
        Self { changes: between(before, Vec::new()), ..self }
    }

    pub fn changed(self, before: Fields, after: Fields) -> Self {
        Self { changes: between(before, after), ..self }
    }

    pub fn has_changes(&self) -> bool {
        !self.changes.is_empty()
    }

    /// A detail. The wire has all of them as strings.
    pub fn option(mut self, key: &str, value: impl ToString) -> Self {
        self.options.insert(key.to_owned(), Value::String(value.to_string()));
        self
    }
}

impl Guild {
    /// Writes an entry for what an account did. Nothing of what the system does, and nothing without a change.
    pub(crate) fn log(&mut self, turn: Turn<'_>, new: NewEntry) {
        let Actor::User(user_id) = turn.actor else { return };
        if self.limits.audit_entries_max == 0 || self.is_direct() || self.is_deleted {
            return;
        }
        let NewEntry { action, target_id, changes, options } = new;
        let reason = turn.reason.map(|reason| reason.to_string());
        if action == AuditAction::MessageDelete && self.counts_as_one(turn.now, user_id, target_id, &options, &reason) {
            return;
        }
        self.sweep_audit_log(turn.now.unix, action.is_of_members());
        let id = self.next_id(turn.now);
        let entry = Arc::new(AuditEntry { id, action, user_id, target_id, changes, options, reason });
        self.audit.insert(entry.clone());
        self.put_resource(GuildResource::AuditEntry(entry.clone()));
        let payload = Payload::Resource(Box::new(ResourcePayload::AuditEntry(entry)));
        let rule = AudienceRule::GuildPermission(Permissions::VIEW_AUDIT_LOG);
        let event = self.event(EventName::GuildAuditLogEntryCreate, rule, payload);
        self.publish(event, ReplicaUpdate::None);
    }

    /// Adds a deletion to the newest entry if both have the same moderator, author, channel and reason. As upstream,
    /// the changed entry is not dispatched again.
    fn counts_as_one(
        &mut self,
        now: Now,
        user_id: UserId,
        target_id: Option<Id<()>>,
        options: &Map<String, Value>,
        reason: &Option<String>,
    ) -> bool {
        let Some(newest) = self.audit.newest() else { return false };
        let is_same = newest.action == AuditAction::MessageDelete
            && (newest.user_id, newest.target_id, &newest.reason) == (user_id, target_id, reason)
            && newest.options.get("channel_id") == options.get("channel_id")
            && now.unix.0 - timestamp_of(newest.id).0 <= SAME_DELETIONS_MS;
        if !is_same {
            return false;
        }
        let mut entry = AuditEntry::clone(newest);
        let count = entry.options.get("count").and_then(|count| count.as_str()?.parse::<u64>().ok()).unwrap_or(1);
        entry.options.insert("count".to_owned(), Value::String(count.saturating_add(1).to_string()));
        let entry = Arc::new(entry);
        self.audit.insert(entry.clone());
        self.put_resource(GuildResource::AuditEntry(entry));
        true
    }

    /// Makes room for one more.
    fn sweep_audit_log(&mut self, now: Timestamp, of_members: bool) {
        let max = self.limits.audit_entries_max;
        let members_max = self.limits.audit_member_entries_max.min(max);
        let old = self.audit.ids().take(SWEPT_MAX).take_while(|id| is_over(now, **id));
        let mut going: Vec<Id<()>> = old.copied().collect();
        let of_members_count = self.audit.of_members_count();
        let (count, max) = match of_members {
            true => (of_members_count, members_max),
            false => (self.audit.len() - of_members_count, max),
        };
        if going.is_empty() && count >= max {
            going.extend(self.audit.oldest(of_members));
        }
        for id in going {
            self.audit.remove(id);
            self.delete_resource(ResourceKey::whole(ResourceKind::AuditEntry, id.get()));
        }
    }

    /// Overwrites that were added, changed or removed.
    pub(crate) fn log_overwrites(&mut self, turn: Turn<'_>, before: &Channel, after: &Channel) {
        let find = |of: &Channel, target: OverwriteKind| of.overwrites.iter().find(|o| o.target == target).copied();
        let targets: BTreeSet<(u8, u64)> =
            before.overwrites.iter().chain(&after.overwrites).map(|overwrite| key_of(overwrite.target)).collect();
        let mut logged = 0;
        for (kind, id) in targets {
            let target = if kind == 0 { OverwriteKind::Role(Id::new(id)) } else { OverwriteKind::Member(Id::new(id)) };
            let new = |action| NewEntry::new(action, after.id);
            let new = match (find(before, target), find(after, target)) {
                (None, Some(is)) => new(AuditAction::ChannelOverwriteCreate).made(of_overwrite(&is)),
                (Some(was), None) => new(AuditAction::ChannelOverwriteDelete).gone(of_overwrite(&was)),
                (Some(was), Some(is)) if was != is => {
                    new(AuditAction::ChannelOverwriteUpdate).changed(of_overwrite(&was), of_overwrite(&is))
                }
                _ => continue,
            };
            if logged >= OVERWRITES_LOGGED_MAX {
                return;
            }
            logged += 1;
            let name = self.structure.roles.get(&RoleId::new(id)).filter(|_| kind == 0).map(|role| role.name.clone());
            let new = new.option("id", id).option("type", kind);
            self.log(turn, if let Some(name) = name { new.option("role_name", name) } else { new });
        }
    }

    /// A member whose roles were changed.
    pub(crate) fn log_roles(&mut self, turn: Turn<'_>, before: &Member, after: &Member) {
        let named = |ids: Vec<RoleId>| {
            let role = |id: RoleId| json!({"id": id, "name": self.structure.roles.get(&id).map(|role| &role.name)});
            (!ids.is_empty()).then(|| Value::Array(ids.into_iter().map(role).collect()))
        };
        let only_in = |a: &Member, b: &Member| {
            let ids = a.roles.iter().filter(|id| !b.roles.contains(id) && self.structure.roles.contains_key(id));
            named(ids.copied().collect())
        };
        let changes = [("$add", only_in(after, before)), ("$remove", only_in(before, after))];
        let changes: Vec<AuditChange> = changes
            .into_iter()
            .filter_map(|(key, roles)| {
                Some(AuditChange { key: key.to_owned(), old_value: None, new_value: Some(roles?) })
            })
            .collect();
        if !changes.is_empty() {
            let new = NewEntry { changes, ..NewEntry::new(AuditAction::MemberRoleUpdate, after.user.id) };
            self.log(turn, new);
        }
    }

    pub(crate) fn list_audit_log(&self, turn: Turn<'_>, query: &AuditQuery) -> CommandResult<Vec<Arc<AuditEntry>>> {
        self.in_guild(turn)?.need(Permissions::VIEW_AUDIT_LOG)?;
        if query.limit == 0 {
            return Err(Refusal::InvalidForm("limit").into());
        }
        let is_meant = |entry: &&Arc<AuditEntry>| {
            query.user_id.is_none_or(|user_id| entry.user_id == user_id)
                && query.action.is_none_or(|action| entry.action == action)
                && query.target_id.is_none_or(|target_id| entry.target_id == Some(target_id))
                && query.before.is_none_or(|before| entry.id < before)
                && !is_over(turn.now.unix, entry.id)
        };
        let entries = self.audit.iter();
        let found: Vec<_> = match query.after {
            Some(after) => entries.filter(|e| e.id > after).filter(is_meant).take(query.limit).cloned().collect(),
            None => entries.rev().filter(is_meant).take(query.limit).cloned().collect(),
        };
        Ok(found)
    }
}

fn is_over(now: Timestamp, id: Id<()>) -> bool {
    timestamp_of(id).0 + KEPT_MS < now.0
}

fn key_of(target: OverwriteKind) -> (u8, u64) {
    match target {
        OverwriteKind::Role(id) => (0, id.get()),
        OverwriteKind::Member(id) => (1, id.get()),
    }
}
