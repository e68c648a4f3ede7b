//! Limits on the size of a guild.
//!
//! Owns        `GuildLimits`, with a reason for each default.
//! Not here    lengths of texts: the parser of a `Command` checks them.

use crate::{links::LinkRenewer, voice_tokens::VoiceSigner};

/// Limits and settings of a guild. Equal for all guilds of a node, except that `seed` should differ per process.
#[derive(Clone, Debug)]
pub struct GuildLimits {
    /// Most channels, categories included. 500: what clients are built for.
    pub channels_max: usize,
    /// Most roles, `@everyone` included. 250: what clients are built for.
    pub roles_max: usize,
    /// Most overwrites per channel. 1,000 as upstream.
    pub overwrites_max: usize,
    /// Most different emoji on a message. 20 as upstream.
    pub reactions_max: usize,
    /// Most users, and most roles, that a message can mention. 100: what fits a message twice over is still
    /// an event of a few KiB.
    pub mentions_max: usize,
    /// Messages kept in memory. Those that are not durable yet come on top. 2,048: a guild edits and
    /// reacts to what is recent; at about 1 KiB each that is 2 MiB for a guild in full use.
    pub cached_messages_max: usize,
    /// Nonces remembered for `enforce_nonce`; past it the oldest are forgotten before their time.
    pub nonces_max: usize,
    /// Members remembered for slow mode; past it those whose wait ends first are let off early.
    pub slow_mode_entries_max: usize,
    /// Activities shown of one user over all their sessions.
    pub activities_max: usize,
    /// Bytes of these as JSON. 8 KiB: twice what one session may show.
    pub activities_bytes_max: usize,
    /// Sessions of one user that count for what they show.
    pub presence_sessions_max: usize,
    /// Member lists in memory; past it sessions that request another one wait. 16: each costs about 40 bytes per
    /// member in it.
    pub lists_max: usize,
    /// Intervals of one member list that are kept up to date; further ones are sent once. 256: each is checked whenever
    /// a row of it moves.
    pub list_intervals_max: usize,
    /// Presence events per second. 100: about 30 KiB/s for each bot that receives all of them. When all members of a
    /// large guild come online at once, the events take minutes instead of one burst.
    pub presence_events_per_s_max: u32,
    /// Presence events that may go out at once after a quiet time.
    pub presence_burst_max: u32,
    /// Members with a pending presence event and their last published presence; past it see
    /// `state::presence::limiter`.
    pub presence_waiting_max: usize,
    /// Jobs of one guild that run at once. 4: one that takes long does not hold up the others, and what they work on,
    /// which is kept from being freed meanwhile, stays little.
    pub jobs_running_max: usize,
    /// Requests that wait for a job. 256: at some 10 ms for a hundred thousand members that is a second or so.
    pub jobs_waiting_max: usize,
    /// Jobs of one user that wait or run. 8, so that no user takes all places.
    pub jobs_per_user_max: usize,
    /// Commands at once that change many members, or empty a voice channel. Each holds up to 512 KiB of ids.
    pub slow_commands_max: usize,
    /// Bans. Each is some 300 bytes.
    pub bans_max: usize,
    /// Whether events are written to the feed of backends, a row each.
    pub keeps_events: bool,
    /// Entries of the audit log, without those of plain members; 0: there is no log. 1,000: some 400 KiB.
    pub audit_entries_max: usize,
    /// Entries of what plain members do, like making invites. They push out only each other.
    pub audit_member_entries_max: usize,
    /// Invites. 1,000 as upstream.
    pub invites_max: usize,
    /// Members who came by a temporary invite and have no role yet. Some 100 bytes each.
    pub temporary_members_max: usize,
    /// Time that they may be without a session. 60 s cover a page reload or the loss of a relay.
    pub temporary_away_ms: u64,
    /// Webhooks of one channel. 15 as upstream.
    pub webhooks_per_channel_max: usize,
    /// Pinned messages of one channel. 250 as upstream.
    pub pins_per_channel_max: usize,
    /// Channels that follow one announcement channel. A published message is posted into each.
    pub followers_per_channel_max: usize,
    /// Polls that have not ended. Each is kept in memory, some 100 bytes.
    pub polls_max: usize,
    /// Emoji. 250 as upstream.
    pub emojis_max: usize,
    /// Stickers. 60 as upstream.
    pub stickers_max: usize,
    /// Scheduled events. 100 as upstream.
    pub scheduled_events_max: usize,
    /// Interested users of one scheduled event. They are stored with the guild's own fields, 8 bytes each.
    pub followers_max: usize,
    /// Threads, open and closed. All are kept in memory, some 400 bytes each.
    pub threads_max: usize,
    /// Open threads. 1,000 as upstream.
    pub active_threads_max: usize,
    /// Members of one thread. 1,000 as upstream.
    pub thread_members_max: usize,
    /// Messages that one `Command::DeleteMessages` takes back.
    pub deleted_messages_max: usize,
    /// Members that `Command::SearchMembers` finds at most. 1,000 as upstream.
    pub found_members_max: usize,
    /// `host:port` of the media server. `None`: clients receive null, and wait.
    pub voice_endpoint: Option<String>,
    /// Renews links of messages in events and answers.
    pub links: LinkRenewer,
    /// Signs voice tokens. Without a signer they are random.
    pub voice_signer: VoiceSigner,
    /// Where the randomness of such tokens starts. Not for secrets: the media server must check more than the token.
    pub seed: u64,
}

impl Default for GuildLimits {
    fn default() -> Self {
        Self {
            channels_max: 500,
            roles_max: 250,
            overwrites_max: 1_000,
            reactions_max: 20,
            mentions_max: 100,
            cached_messages_max: 2_048,
            nonces_max: 1_024,
            slow_mode_entries_max: 65_536,
            activities_max: 16,
            activities_bytes_max: guildhall_model::activity::SHOWN_ACTIVITIES_BYTES_MAX,
            presence_sessions_max: 64,
            lists_max: 16,
            list_intervals_max: 256,
            presence_events_per_s_max: 100,
            presence_burst_max: 200,
            presence_waiting_max: 65_536,
            jobs_running_max: 4,
            jobs_waiting_max: 256,
            jobs_per_user_max: 8,
            slow_commands_max: 16,
            bans_max: 500_000,
            keeps_events: false,
            audit_entries_max: 1_000,
            audit_member_entries_max: 250,
            invites_max: 1_000,
            temporary_members_max: 10_000,
            temporary_away_ms: 60_000,
            webhooks_per_channel_max: 15,
            pins_per_channel_max: 250,
            followers_per_channel_max: 1_000,
            polls_max: 1_000,
            emojis_max: 250,
            stickers_max: 60,
            scheduled_events_max: 100,
            followers_max: 1_000,
            threads_max: 10_000,
            active_threads_max: 1_000,
            thread_members_max: 1_000,
            deleted_messages_max: 1_000,
            found_members_max: 1_000,
            voice_endpoint: None,
            links: LinkRenewer::default(),
            voice_signer: VoiceSigner::default(),
            seed: 0,
        }
    }
}
