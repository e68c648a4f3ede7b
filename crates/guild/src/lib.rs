//! Guilds: the state of one community, and what changes it.
//!
//! Owns        `Guild`, a machine without I/O; `Command`s and their `Refusal`s; the `Write`s that outlive it.
//! Invariants  time and randomness come in as arguments: the same inputs give the same outputs.
//! Not here    threads, loading and committing: `guildhall-node`. Fan-out: `guildhall-relay`.
#![forbid(unsafe_code)]

mod announcements;
mod archive;
mod audit;
mod auto_moderation;
mod backend;
mod background;
mod bans;
mod bulk;
mod cache;
mod channels;
mod check;
mod code_spans;
mod command;
mod community;
mod direct;
mod emojis;
mod entries;
mod expired;
mod expiring;
mod feed;
mod handoff;
mod interactions;
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
mod polls;
mod positions;
mod presence;
mod publications;
mod reactions;
mod record;
mod relays;
mod requests;
mod resources;
mod roles;
mod scheduled_events;
mod settings;
mod slow_mode;
mod stages;
mod state;
mod stickers;
mod sweep;
mod temporary_members;
mod threads;
mod turn;
mod voice;
mod voice_tokens;
mod webhooks;

pub use cache::CachedMessage;
pub use command::{
    Actor, AllowedMentions, ArchivedThreads, AuditQuery, AutoModPatch, BackendCommand, BulkRole, CONTENT_CHARS_MAX,
    ChannelMove, ChannelPatch, ChannelReply, Command, DATABASE_AWAY, DISK_FULL, DirectCommand, EmojiPatch, Expected,
    Forward, GuildPatch, GuildReply, HistoryGrant, IMPORT_MEMBERS_MAX, IMPORT_MESSAGES_MAX, Imported,
    InteractionContext, InteractionQuery, InviteReply, Join, JoinAudience, MemberPatch, MessagePatch, MessageReply,
    NewBan, NewChannel, NewDirect, NewEmoji, NewFollow, NewGuild, NewInvite, NewMember, NewMessage, NewPoll, NewRole,
    NewScheduledEvent, NewSticker, NewTemplate, NewThread, NewWebhook, OnboardingPatch, Outcome, Page, Prune,
    PublishReply, REASSIGNED_MAX, RESOLVED_MAX, ROLE_CHANGES_MAX, ReactionCount, Refusal, Reply, ReplyTo, ReplyValue,
    Request, Response, ResponsePatch, RoleAction, RoleChange, RolePatch, RolesPut, ScheduledEventContent, StageContent,
    StickerPatch, TemplatePatch, TemplateReply, ThreadList, ThreadReply, Upserted, VoiceStatePatch, WebhookAccess,
    WebhookPatch, WebhookPost, WelcomeScreenPatch, request,
};
pub use feed::{FeedEvent, FeedKind};
pub use handoff::{HandoffBase, HandoffChunk, HandoffItem, HandoffParts, HandoffPlace, HandoffTail};
pub use job::{Audience, Job, JobDone, JobId, MemberFilter};
pub use limits::GuildLimits;
pub use links::{LinkRenewer, RenewLinks};
pub use machine::Guild;
pub use mentions::{Named, may_mention};
pub use outbox::Output;
pub use publications::PublicationId;
pub use record::{GuildRecord, MessageRecord, NONCES_LOADED_MAX, SentNonce, Write, nonces_from};
pub use state::patterns::check_patterns;
pub use voice_tokens::{SignVoiceTokens, VoiceGrant, VoiceSigner};
