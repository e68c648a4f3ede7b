//! Voice tokens: the rights of a member in a voice channel, signed for the media server.
//!
//! Owns        `VoiceGrant`; `VoiceSigner`, the signer of a guild.
//! Not here    the key and the form of a token: the driver's `SignVoiceTokens`.

use guildhall_model::{ChannelId, GuildId, UserId};
use guildhall_stdx::Timestamp;
use std::{fmt, sync::Arc};

/// Rights of a member in a voice channel, at the time at which their token is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VoiceGrant<'a> {
    /// Guild, or direct message.
    pub guild_id: GuildId,
    /// Voice or stage channel.
    pub channel_id: ChannelId,
    /// Account of the member.
    pub user_id: UserId,
    /// Gateway session that is connected.
    pub session_id: &'a str,
    /// Display name in the guild.
    pub name: &'a str,
    /// May send audio: they are neither suppressed nor muted by the server.
    pub can_speak: bool,
    /// May send video and their screen (STREAM), if they may speak.
    pub can_stream: bool,
    /// May receive: they are not deafened by the server.
    pub can_hear: bool,
}

/// Makes the tokens of VOICE_SERVER_UPDATE.
pub trait SignVoiceTokens: Send + Sync {
    /// A token with these rights, valid from now on. The result depends on the arguments alone.
    fn sign(&self, now: Timestamp, grant: &VoiceGrant<'_>) -> String;
}

/// The signer of a guild. By default there is none, and tokens are random.
#[derive(Clone, Default)]
pub struct VoiceSigner(pub Option<Arc<dyn SignVoiceTokens>>);

impl fmt::Debug for VoiceSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("VoiceSigner").field(&self.0.is_some()).finish()
    }
}
