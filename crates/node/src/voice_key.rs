//! The key that a media server shares: it signs what members may do in voice, and checks what the server reports.
//!
//! Owns        `VoiceKey`: tokens in the form of LiveKit's access tokens, and the signature of its webhooks.
//! Invariants  K1 a token names one room and one account, and ends after `token_s`. K2 a report is accepted only with
//!             the signature of this key over the hash of its body. (tests `k*_*`)
//! Not here    the rights in a token: `guildhall-guild`. The effects of a report: `guildhall-backend`.
//!
//! Spec        docs/voice.md; RFC 7519; LiveKit's documentation, "Authentication" and "Webhooks".

use aws_lc_rs::digest;
use base64::{Engine, engine::general_purpose::STANDARD};
use guildhall_guild::{SignVoiceTokens, VoiceGrant};
use guildhall_model::{ChannelId, GuildId};
use guildhall_stdx::Timestamp;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};
use std::fmt;

/// How far the clocks of the media server and of this node may differ, in seconds.
const CLOCKS_APART_S: i64 = 60;

/// A key that this node and a media server share.
pub struct VoiceKey {
    id: String,
    encoding: EncodingKey,
    decoding: DecodingKey,
    token_s: u32,
}

impl fmt::Debug for VoiceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VoiceKey").field("id", &self.id).field("token_s", &self.token_s).finish_non_exhaustive()
    }
}

#[derive(Serialize)]
struct Claims<'a> {
    iss: &'a str,
    sub: String,
    nbf: i64,
    exp: i64,
    name: &'a str,
    video: VideoGrant,
    attributes: Attributes<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct VideoGrant {
    room: String,
    room_join: bool,
    can_publish: bool,
    can_subscribe: bool,
    can_publish_sources: &'static [&'static str],
}

#[derive(Serialize)]
struct Attributes<'a> {
    session_id: &'a str,
}

const AUDIO: &[&str] = &["microphone"];
const AUDIO_AND_VIDEO: &[&str] = &["microphone", "camera", "screen_share", "screen_share_audio"];

impl VoiceKey {
    /// The key `secret`, which both sides call `id`. Its tokens end after `token_s` seconds.
    #[must_use]
    pub fn new(id: &str, secret: &[u8], token_s: u32) -> Self {
        Self {
            id: id.to_owned(),
            encoding: EncodingKey::from_secret(secret),
            decoding: DecodingKey::from_secret(secret),
            token_s,
        }
    }

    /// The signature of a report, if the media server made it. `token` is the report's `Authorization` header, with or
    /// without `Bearer`.
    #[must_use]
    pub fn report(&self, now: Timestamp, token: &str) -> Option<VoiceReport> {
        let token = token.strip_prefix("Bearer ").unwrap_or(token);
        let mut validation = Validation::new(Algorithm::HS256);
        validation.set_issuer(&[&self.id]);
        validation.set_required_spec_claims(&["iss", "exp"]);
        // The node's clock decides, and not the library's.
        validation.validate_exp = false;
        validation.validate_aud = false;
        let VoiceReport { exp, nbf, sha256 } = jsonwebtoken::decode(token, &self.decoding, &validation).ok()?.claims;
        let now_s = now.0.div_euclid(1_000);
        let is_in_time = exp.saturating_add(CLOCKS_APART_S) >= now_s
            && nbf.is_none_or(|nbf| nbf.saturating_sub(CLOCKS_APART_S) <= now_s);
        is_in_time.then_some(VoiceReport { exp, nbf, sha256 })
    }
}

/// The signature of a report of the media server.
#[derive(Debug, Deserialize)]
pub struct VoiceReport {
    exp: i64,
    nbf: Option<i64>,
    /// Hash of the body, in base64.
    sha256: String,
}

impl VoiceReport {
    /// Whether the signature is that of this body.
    #[must_use]
    pub fn is_of(&self, body: &[u8]) -> bool {
        self.sha256 == hash(body)
    }
}

/// Hash of a report's body, as its signature has it.
fn hash(body: &[u8]) -> String {
    STANDARD.encode(digest::digest(&digest::SHA256, body))
}

impl SignVoiceTokens for VoiceKey {
    fn sign(&self, now: Timestamp, grant: &VoiceGrant<'_>) -> String {
        let now_s = now.0.div_euclid(1_000);
        let claims = Claims {
            iss: &self.id,
            sub: grant.user_id.to_string(),
            nbf: now_s - CLOCKS_APART_S,
            exp: now_s + i64::from(self.token_s),
            name: grant.name,
            video: VideoGrant {
                room: voice_room(grant.guild_id, grant.channel_id),
                room_join: true,
                can_publish: grant.can_speak,
                can_subscribe: grant.can_hear,
                can_publish_sources: if grant.can_stream { AUDIO_AND_VIDEO } else { AUDIO },
            },
            attributes: Attributes { session_id: grant.session_id },
        };
        jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &self.encoding).expect("an HMAC signs any claims")
    }
}

/// Name of a channel's room at the media server.
#[must_use]
pub fn voice_room(guild_id: GuildId, channel_id: ChannelId) -> String {
    format!("{guild_id}-{channel_id}")
}

/// The channel of a room. None: the room is not one of ours.
#[must_use]
pub fn voice_channel(room: &str) -> Option<(GuildId, ChannelId)> {
    let (guild_id, channel_id) = room.split_once('-')?;
    let id = |text: &str| text.parse::<u64>().ok().filter(|id| *id > 0 && *id < 1 << 63);
    Some((GuildId::new(id(guild_id)?), ChannelId::new(id(channel_id)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_model::UserId;
    use serde_json::{Value, json};

    const SECRET: &[u8] = b"an example of a secret that both share";
    const NOW: Timestamp = Timestamp(1_800_000_000_000);

    fn key() -> VoiceKey {
        VoiceKey::new("voice", SECRET, 600)
    }

    fn claims(token: &str) -> Value {
        let mut validation = Validation::new(Algorithm::HS256);
        validation.set_issuer(&["voice"]);
        validation.validate_exp = false;
        jsonwebtoken::decode::<Value>(token, &DecodingKey::from_secret(SECRET), &validation).unwrap().claims
    }

    fn signed(secret: &[u8], claims: &Value) -> String {
        jsonwebtoken::encode(&Header::new(Algorithm::HS256), claims, &EncodingKey::from_secret(secret)).unwrap()
    }

    #[test]
    fn k1_a_token_names_room_account_rights_and_end() {
        let grant = VoiceGrant {
            guild_id: GuildId::new(7),
            channel_id: ChannelId::new(8),
            user_id: UserId::new(9),
            session_id: "abc",
            name: "Ana",
            can_speak: true,
            can_stream: false,
            can_hear: true,
        };
        let found = claims(&key().sign(NOW, &grant));
        let video = json!({
            "room": "7-8", "roomJoin": true, "canPublish": true, "canSubscribe": true,
            "canPublishSources": ["microphone"],
        });
        let expected = json!({
            "iss": "voice", "sub": "9", "name": "Ana", "nbf": 1_799_999_940, "exp": 1_800_000_600, "video": video,
            "attributes": {"session_id": "abc"},
        });
        assert_eq!(found, expected);
        let silent = claims(&key().sign(NOW, &VoiceGrant { can_speak: false, can_hear: false, ..grant }));
        assert_eq!(silent["video"]["canPublish"], json!(false));
        assert_eq!(silent["video"]["canSubscribe"], json!(false));
        assert_eq!(voice_channel("7-8"), Some((GuildId::new(7), ChannelId::new(8))));
        for other in ["", "7", "7-", "-8", "0-8", "7-8-9", "a-b", "7-99999999999999999999"] {
            assert_eq!(voice_channel(other), None, "{other}");
        }
    }

    #[test]
    fn k2_a_report_needs_this_keys_signature_of_its_body() {
        let body = br#"{"event":"participant_joined"}"#.as_slice();
        let claims = json!({"iss": "voice", "nbf": 1_800_000_000, "exp": 1_800_000_300, "sha256": hash(body)});
        let good = signed(SECRET, &claims);
        let is_report = |now, token: &str, body| key().report(now, token).is_some_and(|report| report.is_of(body));
        assert!(is_report(NOW, &good, body));
        assert!(is_report(NOW, &format!("Bearer {good}"), body));
        assert!(!is_report(NOW, &good, b"{}".as_slice()), "of another body");
        assert!(!is_report(Timestamp(NOW.0 + 361_000), &good, body), "too late");
        assert!(!is_report(Timestamp(NOW.0 - 61_000), &good, body), "too early");
        assert!(!is_report(NOW, &signed(b"another secret of the same length...", &claims), body));
        for (field, value) in [("iss", json!("other")), ("sha256", json!("")), ("exp", Value::Null)] {
            let mut other = claims.clone();
            other[field] = value;
            assert!(!is_report(NOW, &signed(SECRET, &other), body), "{field}");
        }
        // A token of a member is no report.
        let grant = VoiceGrant {
            guild_id: GuildId::new(7),
            channel_id: ChannelId::new(8),
            user_id: UserId::new(9),
            session_id: "abc",
            name: "Ana",
            can_speak: true,
            can_stream: true,
            can_hear: true,
        };
        assert!(!is_report(NOW, &key().sign(NOW, &grant), body));
    }
}
