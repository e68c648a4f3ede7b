//! Stickers of a guild, stored in its base fields.
//!
//! Owns        `CreateSticker`, `UpdateSticker`, `DeleteSticker`.
//! Invariants  the creator of a sticker may change it with CREATE_GUILD_EXPRESSIONS; others need MANAGE.
//! Limits      `stickers_max`.
//! Not here    pictures: the caller stores them, under the id that it passes to `CreateSticker`.
//! Spec        docs/protocol/reference.md §6.7, §7.1.

use crate::{
    audit::{self, NewEntry},
    command::{CommandResult, NewSticker, Refusal, StickerPatch},
    machine::Guild,
    turn::Turn,
};
use guildhall_guild_protocol::{AudienceRule, ResourcePayload};
use guildhall_model::{AuditAction, EventName, Guild as GuildFields, Sticker, StickerId};
use guildhall_stdx::Now;

impl Guild {
    fn put_stickers(&mut self, now: Now, stickers: Vec<Sticker>) {
        let fields = GuildFields { stickers, ..GuildFields::clone(&self.structure.guild) };
        let resource = |guild: &Self| ResourcePayload::Stickers(guild.structure.guild.clone());
        self.put_embedded(now, fields, AudienceRule::Members, EventName::GuildStickersUpdate, resource);
    }

    pub(crate) fn create_sticker(&mut self, turn: Turn<'_>, new: &NewSticker) -> CommandResult<Box<Sticker>> {
        let guild_context = self.in_guild(turn)?;
        guild_context.need_to_create_expressions()?;
        if self.structure.guild.stickers.len() >= self.limits.stickers_max {
            return Err(Refusal::TooManyStickers.into());
        }
        let sticker = Sticker {
            id: new.id.unwrap_or_else(|| self.next_id(turn.now)),
            name: new.name.clone(),
            description: new.description.clone(),
            tags: new.tags.clone(),
            format_type: new.format_type,
            user: guild_context.member.as_ref().map(|member| member.user.clone()),
        };
        let mut stickers = self.structure.guild.stickers.clone();
        stickers.push(sticker.clone());
        self.put_stickers(turn.now, stickers);
        let entry = NewEntry::new(AuditAction::StickerCreate, sticker.id);
        self.log(turn, entry.made(audit::of_sticker(&sticker)));
        Ok(Box::new(sticker))
    }

    pub(crate) fn update_sticker(
        &mut self,
        turn: Turn<'_>,
        id: StickerId,
        patch: &StickerPatch,
    ) -> CommandResult<Box<Sticker>> {
        let guild_context = self.in_guild(turn)?;
        let mut stickers = self.structure.guild.stickers.clone();
        let sticker = stickers.iter_mut().find(|sticker| sticker.id == id).ok_or(Refusal::UnknownSticker)?;
        guild_context.need_to_change_expression(sticker.user.as_ref().map(|user| user.id))?;
        let before = sticker.clone();
        if let Some(name) = &patch.name {
            sticker.name.clone_from(name);
        }
        if let Some(description) = &patch.description {
            sticker.description.clone_from(description);
        }
        if let Some(tags) = &patch.tags {
            sticker.tags.clone_from(tags);
        }
        let sticker = sticker.clone();
        if sticker != before {
            self.put_stickers(turn.now, stickers);
            let entry = NewEntry::new(AuditAction::StickerUpdate, id);
            self.log(turn, entry.changed(audit::of_sticker(&before), audit::of_sticker(&sticker)));
        }
        Ok(Box::new(sticker))
    }

    pub(crate) fn delete_sticker(&mut self, turn: Turn<'_>, id: StickerId) -> CommandResult<()> {
        let guild_context = self.in_guild(turn)?;
        let mut stickers = self.structure.guild.stickers.clone();
        let at = stickers.iter().position(|sticker| sticker.id == id).ok_or(Refusal::UnknownSticker)?;
        guild_context.need_to_change_expression(stickers[at].user.as_ref().map(|user| user.id))?;
        let sticker = stickers.remove(at);
        self.put_stickers(turn.now, stickers);
        self.log(turn, NewEntry::new(AuditAction::StickerDelete, id).gone(audit::of_sticker(&sticker)));
        Ok(())
    }
}
