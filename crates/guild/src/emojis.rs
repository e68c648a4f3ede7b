//! Emoji of a guild, stored in its base fields.
//!
//! Owns        `CreateEmoji`, `UpdateEmoji`, `DeleteEmoji`.
//! Invariants  the creator of an emoji may change it with CREATE_GUILD_EXPRESSIONS; others need MANAGE.
//! Limits      `emojis_max`.
//! Not here    pictures: the caller stores them, under the id that it passes to `CreateEmoji`.
//! Spec        docs/protocol/reference.md §6.7, §7.1.

use crate::{
    audit::{self, NewEntry},
    command::{CommandResult, EmojiPatch, NewEmoji, Refusal},
    machine::Guild,
    turn::Turn,
};
use guildhall_guild_protocol::{AudienceRule, ResourcePayload};
use guildhall_model::{AuditAction, Channel, Emoji, EmojiId, EventName, Guild as GuildFields, RoleId};
use guildhall_stdx::Now;
use std::sync::Arc;

impl Guild {
    fn put_emojis(&mut self, now: Now, emojis: Vec<Emoji>) {
        let fields = GuildFields { emojis, ..GuildFields::clone(&self.structure.guild) };
        self.put_embedded(now, fields, AudienceRule::Members, EventName::GuildEmojisUpdate, |guild| {
            ResourcePayload::Emojis(guild.structure.guild.clone())
        });
    }

    fn need_emoji_roles(&self, roles: &[RoleId]) -> Result<(), Refusal> {
        let is_known = |role: &RoleId| self.structure.roles.contains_key(role);
        if roles.iter().all(is_known) { Ok(()) } else { Err(Refusal::InvalidForm("roles")) }
    }

    /// A deleted role restricts no emoji any more; one that had no other role is for all members.
    pub(crate) fn forget_role_of_emojis(&mut self, now: Now, role_id: RoleId) {
        let mut emojis = self.structure.guild.emojis.clone();
        emojis.iter_mut().for_each(|emoji| emoji.roles.retain(|role| *role != role_id));
        if emojis != self.structure.guild.emojis {
            self.put_emojis(now, emojis);
        }
    }

    /// Tags and reaction buttons of forums do not name an emoji that is gone.
    fn forget_emoji_of_forums(&mut self, now: Now, id: EmojiId) {
        let without = |channel: &Channel| {
            let before = channel.forum.as_deref()?;
            let mut forum = before.clone();
            for tag in forum.available_tags.iter_mut().filter(|tag| tag.emoji_id == Some(id)) {
                tag.emoji_id = None;
            }
            forum.default_reaction_emoji.take_if(|emoji| emoji.emoji_id == Some(id));
            (forum != *before).then(|| Channel { forum: Some(Box::new(forum)), ..channel.clone() })
        };
        let changed: Vec<_> = self.structure.channels.values().filter_map(|channel| without(channel)).collect();
        for channel in changed {
            let channel = self.with_newest_message(Arc::new(channel));
            self.put_channel(now, EventName::ChannelUpdate, channel);
        }
    }

    pub(crate) fn create_emoji(&mut self, turn: Turn<'_>, new: &NewEmoji) -> CommandResult<Box<Emoji>> {
        let guild_context = self.in_guild(turn)?;
        guild_context.need_to_create_expressions()?;
        if self.structure.guild.emojis.len() >= self.limits.emojis_max {
            return Err(Refusal::TooManyEmojis.into());
        }
        self.need_emoji_roles(&new.roles)?;
        let emoji = Emoji {
            id: new.id.unwrap_or_else(|| self.next_id(turn.now)),
            name: new.name.clone(),
            animated: new.animated,
            roles: new.roles.clone(),
            user: guild_context.member.as_ref().map(|member| member.user.clone()),
        };
        let mut emojis = self.structure.guild.emojis.clone();
        emojis.push(emoji.clone());
        self.put_emojis(turn.now, emojis);
        self.log(turn, NewEntry::new(AuditAction::EmojiCreate, emoji.id).made(audit::of_emoji(&emoji)));
        Ok(Box::new(emoji))
    }

    pub(crate) fn update_emoji(
        &mut self,
        turn: Turn<'_>,
        id: EmojiId,
        patch: &EmojiPatch,
    ) -> CommandResult<Box<Emoji>> {
        let guild_context = self.in_guild(turn)?;
        let mut emojis = self.structure.guild.emojis.clone();
        let emoji = emojis.iter_mut().find(|emoji| emoji.id == id).ok_or(Refusal::UnknownEmoji)?;
        guild_context.need_to_change_expression(emoji.user.as_ref().map(|user| user.id))?;
        let before = emoji.clone();
        if let Some(name) = &patch.name {
            emoji.name.clone_from(name);
        }
        if let Some(roles) = &patch.roles {
            self.need_emoji_roles(roles)?;
            emoji.roles.clone_from(roles);
        }
        let emoji = emoji.clone();
        if emoji != before {
            self.put_emojis(turn.now, emojis);
            let entry = NewEntry::new(AuditAction::EmojiUpdate, id);
            self.log(turn, entry.changed(audit::of_emoji(&before), audit::of_emoji(&emoji)));
        }
        Ok(Box::new(emoji))
    }

    pub(crate) fn delete_emoji(&mut self, turn: Turn<'_>, id: EmojiId) -> CommandResult<()> {
        let guild_context = self.in_guild(turn)?;
        let mut emojis = self.structure.guild.emojis.clone();
        let at = emojis.iter().position(|emoji| emoji.id == id).ok_or(Refusal::UnknownEmoji)?;
        guild_context.need_to_change_expression(emojis[at].user.as_ref().map(|user| user.id))?;
        let emoji = emojis.remove(at);
        self.put_emojis(turn.now, emojis);
        self.forget_emoji_of_forums(turn.now, id);
        self.log(turn, NewEntry::new(AuditAction::EmojiDelete, id).gone(audit::of_emoji(&emoji)));
        Ok(())
    }
}
