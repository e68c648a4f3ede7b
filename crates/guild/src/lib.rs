//! Guilds: the state of one community, and what changes it.
#![forbid(unsafe_code)]

mod command;
mod record;

pub use command::{
    Actor, AllowedMentions, ChannelPatch, Command, GuildPatch, GuildReply, MemberPatch, MessagePatch, MessageReply,
    NewChannel, NewGuild, NewMessage, Refusal, Reply, ReplyTo, RolePatch,
};
pub use record::{GuildRecord, MessageRecord, Write};
