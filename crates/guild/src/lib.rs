//! Guilds: the state of one community, and what changes it.
//!
//! Owns        `Guild`, a machine without I/O; `Command`s and their `Refusal`s; the `Write`s that outlive it.
//! Invariants  time and randomness come in as arguments: the same inputs give the same outputs.
//! Not here    threads, loading and committing: `guildhall-node`. Fan-out: `guildhall-relay`.
#![forbid(unsafe_code)]

mod archive;
mod audit;
mod backend;
mod background;
mod bans;
mod bulk;
mod cache;
mod channels;
mod check;
mod code_spans;
mod command;
mod direct;
mod emojis;
mod entries;
mod expired;
mod expiring;
mod handoff;
mod invites;
mod job;
mod job_queue;
mod limits;
mod links;
mod machine;
mod member_lists;
mod members;
mod memory;
mod mentions;
mod message_state;
mod messages;
mod nonces;
mod outbox;
mod pins;
mod positions;
mod presence;
mod publications;
mod reactions;
mod record;
mod relays;
mod requests;
mod resource_index;
mod roles;
mod scheduled_events;
mod settings;
mod slow_mode;
mod stages;
mod stickers;
mod sweep;
mod temporary_members;
mod threads;
mod turn;
mod voice;
mod webhooks;

pub use audit::AuditQuery;
pub use backend::{
    BackendCommand, Expected, IMPORT_MEMBERS_MAX, Imported, JoinAudience, NewMember, REASSIGNED_MAX, ROLE_CHANGES_MAX,
    RoleChange, RolesPut,
};
pub use cache::CachedMessage;
pub use command::{
    Actor, AllowedMentions, ArchivedThreads, BulkRole, ChannelMove, ChannelPatch, ChannelReply, Command, DATABASE_AWAY,
    DISK_FULL, EmojiPatch, GuildPatch, GuildReply, HistoryGrant, InviteReply, Join, MemberPatch, MessagePatch,
    MessageReply, NewBan, NewChannel, NewEmoji, NewGuild, NewInvite, NewMessage, NewRole, NewScheduledEvent,
    NewSticker, NewThread, NewWebhook, Page, Prune, PublishReply, ReactionCount, Refusal, Reply, ReplyTo, ReplyValue,
    Request, RoleAction, RolePatch, ScheduledEventContent, StageContent, StickerPatch, ThreadList, ThreadReply,
    Upserted, VoiceStatePatch, WebhookPatch, WebhookPost, request,
};
pub use direct::{DirectCommand, NewDirect};
pub use handoff::{HandoffBase, HandoffChunk, HandoffItem, HandoffParts, HandoffPlace, HandoffTail};
pub use job::{Audience, Job, JobDone, JobId, MemberFilter};
pub use limits::GuildLimits;
pub use links::{LinkRenewer, RenewLinks};
pub use machine::{Guild, Outcome, Output};
pub use publications::PublicationId;
pub use record::{GuildRecord, MessageRecord, NONCES_LOADED_MAX, SentNonce, Write, nonces_from};
pub use webhooks::WebhookAccess;
