//! Actions in the guild: commands.

use super::{GUILD, SentMessage, new_role, some_permissions};
use crate::{checker::Fault, model::ChannelModel, world::World};
use guildhall_guild::{
    Actor, AllowedMentions, ChannelPatch, Command, GuildPatch, MemberPatch, MessagePatch, NewChannel, NewMessage,
    Reply, ReplyTo, RolePatch,
};
use guildhall_model::{
    ChannelId, ChannelType, Message, MessageId, Overwrite, OverwriteKind, Permissions, ReactionEmoji, RoleId, UserId,
};
use guildhall_stdx::Timestamp;
use serde_json::json;
use std::collections::BTreeMap;

const ROLES_MAX: usize = 8;
const CHANNELS_MAX: usize = 12;
const CHANNELS_MIN: usize = 4;

impl World {
    pub(super) fn random_command(&mut self) -> Result<(), Fault> {
        let state = self.checker.state.clone();
        let members: Vec<u64> = state.members.keys().copied().collect();
        let channels: Vec<u64> = state.channels.keys().copied().collect();
        let roles: Vec<u64> = state.roles.keys().copied().filter(|role| *role != GUILD.get()).collect();
        let (Some(member), Some(channel)) = (self.rng.pick(&members).copied(), self.rng.pick(&channels).copied())
        else {
            return Ok(());
        };
        let (member, channel): (UserId, ChannelId) = (UserId::new(member), ChannelId::new(channel));
        let some_role = self.rng.pick(&roles).map(|role| RoleId::new(*role));
        let by = Actor::User(member);
        // Weights follow the frequency in a guild.
        match self.rng.below(100) {
            0..14 => return self.act_on_threads(member, channel),
            14..21 => return self.keep(member, channel),
            21..26 => return self.moderate(member, channel, some_role),
            26..29 => return self.act_as_backend(),
            _ => {}
        }
        let (actor, command) = match self.rng.below(100) {
            0..34 => return self.say(member, channel),
            34..52 => return self.touch_message(member),
            52..58 => (by, Command::StartTyping(channel)),
            58..62 => {
                let role_id = if self.rng.chance(0.3) { GUILD.cast() } else { some_role.unwrap_or(GUILD.cast()) };
                let permissions = Some(some_permissions(&mut self.rng));
                (
                    Actor::System,
                    Command::UpdateRole(role_id, Box::new(RolePatch { permissions, ..RolePatch::default() })),
                )
            }
            62..64 if state.roles.len() < ROLES_MAX => {
                (Actor::System, Command::CreateRole(Box::new(new_role(some_permissions(&mut self.rng)))))
            }
            64..65 => match some_role {
                Some(role) => (Actor::System, Command::DeleteRole(role)),
                None => return Ok(()),
            },
            65..73 => match some_role {
                Some(role) if self.rng.chance(0.5) => (Actor::System, Command::AddMemberRole(member, role)),
                Some(role) => (Actor::System, Command::RemoveMemberRole(member, role)),
                None => return Ok(()),
            },
            73..81 => (Actor::System, self.overwrite(channel, member, some_role)),
            81..83 if channels.len() < CHANNELS_MAX => (Actor::System, self.new_channel(&state.channels)),
            83..84 if channels.len() > CHANNELS_MIN => (Actor::System, Command::DeleteChannel(channel)),
            84..86 => {
                let name = Some(format!("renamed-{}", self.rng.below(100)));
                let patch = ChannelPatch { name, ..ChannelPatch::default() };
                (Actor::System, Command::UpdateChannel(channel, Box::new(patch)))
            }
            86..91 => {
                let accounts = &self.accounts;
                let outside: Vec<_> =
                    accounts.iter().filter(|user| !state.members.contains_key(&user.id.get())).collect();
                match self.rng.pick(&outside) {
                    Some(user) => (Actor::System, Command::AddMember((*user).clone())),
                    None => return Ok(()),
                }
            }
            91..94 => {
                let actor = if self.rng.chance(0.5) { Actor::System } else { by };
                // The owner is not thrown out.
                if member.get() == state.owner {
                    return Ok(());
                }
                (actor, Command::RemoveMember(member))
            }
            94..98 => (Actor::System, self.change_member(member)),
            98 => {
                let patch = GuildPatch { owner_id: Some(member), ..GuildPatch::default() };
                (Actor::System, Command::UpdateGuild(Box::new(patch)))
            }
            _ => {
                let name = Some(format!("guild {}", self.rng.below(100)));
                (Actor::System, Command::UpdateGuild(Box::new(GuildPatch { name, ..GuildPatch::default() })))
            }
        };
        self.command(actor, &command)?;
        Ok(())
    }

    pub(super) fn say(&mut self, author: UserId, channel: ChannelId) -> Result<(), Fault> {
        self.actions.messages_count += 1;
        let mut content = format!("message {}", self.actions.messages_count);
        if self.rng.chance(0.3) {
            let mentioned = self.rng.pick(&self.accounts).expect("there are accounts");
            content = format!("{content} <@{}>", mentioned.id);
        }
        if self.rng.chance(0.15) {
            let roles: Vec<u64> = self.checker.state.roles.keys().copied().collect();
            let role = self.rng.pick(&roles).copied().unwrap_or_default();
            content = format!("{content} <@&{role}>");
        }
        if self.rng.chance(0.1) {
            content.push_str(" @everyone");
        }
        if self.rng.chance(0.05) {
            content.push_str(&" long".repeat(300));
        }
        let here: Vec<MessageId> =
            self.actions.messages.iter().filter(|sent| sent.channel == channel).map(|sent| sent.message).collect();
        let reply_to = match self.rng.pick(&here) {
            Some(message_id) if self.rng.chance(0.3) => {
                Some(ReplyTo { message_id: *message_id, fail_if_not_exists: false })
            }
            _ => None,
        };
        let allowed_mentions = self.rng.chance(0.3).then(|| AllowedMentions {
            all_users: true,
            all_roles: true,
            ..AllowedMentions::default()
        });
        let nonce = self.rng.chance(0.3).then_some(guildhall_model::Nonce::Number(self.actions.messages_count as i64));
        let embeds = if self.rng.chance(0.2) { vec![json!({"title": "an embed"})] } else { Vec::new() };
        let new = NewMessage { content, reply_to, allowed_mentions, nonce, embeds, ..NewMessage::default() };
        let reply = self.command(Actor::User(author), &Command::CreateMessage(channel, Box::new(new)))?;
        if let Some(Reply::Message(reply)) = reply {
            self.remember_message(&reply.message);
        }
        Ok(())
    }

    pub(super) fn remember_message(&mut self, message: &Message) {
        self.actions.messages.push_back(SentMessage {
            channel: message.channel_id,
            message: message.id,
            author: message.author.id,
        });
        if self.actions.messages.len() > 40 {
            self.actions.messages.pop_front();
        }
    }

    /// Edits, deletes, reactions.
    fn touch_message(&mut self, member: UserId) -> Result<(), Fault> {
        let count = self.actions.messages.len() as u64;
        let Some(SentMessage { channel, message, .. }) =
            self.actions.messages.get(self.rng.below(count.max(1)) as usize).copied()
        else {
            return Ok(());
        };
        let emoji =
            ReactionEmoji { id: None, name: (*self.rng.pick(&["🔥", "👍", "é"]).expect("some")).to_owned() };
        let by = if self.rng.chance(0.4) { Actor::System } else { Actor::User(member) };
        let (actor, command) = match self.rng.below(10) {
            0 | 1 => {
                let content = Some(format!("edited {}", self.rng.below(1_000)));
                (
                    by,
                    Command::EditMessage(
                        channel,
                        message,
                        Box::new(MessagePatch { content, ..MessagePatch::default() }),
                    ),
                )
            }
            2 => (by, Command::DeleteMessage(channel, message)),
            3 => (by, Command::ClearReactions(channel, message, self.rng.chance(0.5).then_some(emoji))),
            4 => (by, Command::RemoveReaction(channel, message, emoji, member)),
            _ => (Actor::User(member), Command::AddReaction(channel, message, emoji)),
        };
        self.command(actor, &command)?;
        Ok(())
    }

    fn overwrite(&mut self, channel: ChannelId, member: UserId, role: Option<RoleId>) -> Command {
        let target = match self.rng.below(5) {
            0 | 1 => OverwriteKind::Role(GUILD.cast()),
            2 | 3 => OverwriteKind::Role(role.unwrap_or(GUILD.cast())),
            _ => OverwriteKind::Member(member),
        };
        if self.rng.chance(0.3) {
            return Command::DeleteOverwrite(channel, target);
        }
        let (allow, deny) = match self.rng.below(3) {
            0 => (Permissions::VIEW_CHANNEL, Permissions::NONE),
            1 => (Permissions::NONE, Permissions::VIEW_CHANNEL),
            _ => (some_permissions(&mut self.rng), some_permissions(&mut self.rng)),
        };
        Command::PutOverwrite(channel, Overwrite { target, allow, deny })
    }

    fn new_channel(&mut self, channels: &BTreeMap<u64, ChannelModel>) -> Command {
        let kinds = [
            ChannelType::Text,
            ChannelType::Text,
            ChannelType::Voice,
            ChannelType::Category,
            ChannelType::Forum,
            ChannelType::Stage,
        ];
        let kind = *self.rng.pick(&kinds).expect("there are some");
        let category = channels.iter().find(|(_, channel)| channel.kind == 4).map(|(id, _)| ChannelId::new(*id));
        let everyone = OverwriteKind::Role(GUILD.cast());
        let hidden = Overwrite { target: everyone, allow: Permissions::NONE, deny: Permissions::VIEW_CHANNEL };
        Command::CreateChannel(Box::new(NewChannel {
            name: format!("new-{}", self.rng.below(100)),
            kind,
            topic: None,
            parent_id: category.filter(|_| kind != ChannelType::Category && self.rng.chance(0.5)),
            position: None,
            overwrites: if self.rng.chance(0.5) { vec![hidden] } else { Vec::new() },
            user_limit: 0,
        }))
    }

    fn change_member(&mut self, member: UserId) -> Command {
        let mut patch = MemberPatch::default();
        match self.rng.below(6) {
            0 => patch.nick = Some(Some(format!("nick {}", self.rng.below(10)))),
            1 => patch.nick = Some(None),
            2 | 3 => {
                let until = Timestamp(self.now().unix.0 + 60_000);
                patch.communication_disabled_until = Some(Some(until));
            }
            4 => patch.communication_disabled_until = Some(None),
            _ => patch.mute = Some(self.rng.chance(0.5)),
        }
        Command::UpdateMember(member, Box::new(patch))
    }
}
