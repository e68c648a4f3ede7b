//! Reports of a media server about participants that join and leave its rooms, in the form of LiveKit's webhooks.
//!
//! Owns        `POST /v1/voice/reports`, which is authenticated by the voice key and not by a key of this API.
//! Invariants  R1 nothing of a body is read before the signature of its header is checked, and nothing is changed by a
//!             body that has another hash. R2 a report of a room that the member has left since changes nothing.
//!             (tests `r*_*` in `guildhall/tests/it/voice_reports.rs`)
//! Limits      `REPORT_BYTES_MAX`. Reports are neither stored nor repeated: the media server repeats one that is not
//!             answered with 200.
//! Not here    signatures: `guildhall_node::VoiceKey`.     Spec  docs/voice.md "Reports of the media server".

use super::{V1, error::V1Error, voice_states};
use crate::permit::ReadPermit;
use axum::{
    extract::State,
    http::{HeaderMap, StatusCode, header},
};
use guildhall_guild_protocol::VoiceEntry;
use guildhall_http_kit::LazyBody;
use guildhall_model::UserId;
use guildhall_node::voice_channel;
use serde::Deserialize;
use std::{collections::HashMap, sync::Arc};

/// A report has the room and one participant, with its tracks.
const REPORT_BYTES_MAX: usize = 64 << 10;

/// The fields of a report that the node uses. Unknown fields are ignored: they are the media server's.
#[derive(Debug, Deserialize)]
struct Report {
    event: String,
    #[serde(default)]
    room: Option<Room>,
    #[serde(default)]
    participant: Option<Participant>,
}

#[derive(Debug, Deserialize)]
struct Room {
    #[serde(default)]
    name: String,
}

#[derive(Debug, Deserialize)]
struct Participant {
    #[serde(default)]
    identity: String,
    /// Those of the token by which the participant joined.
    #[serde(default)]
    attributes: HashMap<String, String>,
}

const UNSIGNED: &str = "This needs the media server's signature: an `Authorization` header that is signed with the key \
                        of `voice.token_key`, for this body, not older than its `exp`.";

/// Takes a report. 200 also for reports that change nothing, so that the media server does not repeat them.
pub(super) async fn take(State(v1): State<Arc<V1>>, headers: HeaderMap, body: LazyBody) -> Result<StatusCode, V1Error> {
    let Some(key) = &v1.voice_key else { return Err(V1Error::not_found("route: the node has no voice.token_key")) };
    let token = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let signature = token.and_then(|token| key.report(v1.now().unix, token));
    let signature = signature.ok_or_else(|| V1Error::unauthorized(UNSIGNED))?;
    let permit = ReadPermit::voice_report(&signature);
    let (bytes, _place) = body.bytes(permit, &v1.body_quotas, REPORT_BYTES_MAX, v1.limits.body_deadline_ms).await?;
    if !signature.is_of(&bytes) {
        return Err(V1Error::unauthorized(UNSIGNED));
    }
    let report: Report = serde_json::from_slice(&bytes)
        .map_err(|error| V1Error::field("", format!("This is no report of a media server: {error}.")))?;
    act_on(&v1, &report).await?;
    Ok(StatusCode::OK)
}

async fn act_on(v1: &V1, report: &Report) -> Result<(), V1Error> {
    let Some((guild_id, channel_id)) = report.room.as_ref().and_then(|room| voice_channel(&room.name)) else {
        return Ok(());
    };
    if report.event == "room_finished" {
        return known(voice_states::empty(v1, guild_id, channel_id).await);
    }
    let Some(participant) = &report.participant else { return Ok(()) };
    let Some(user_id) = participant.identity.parse().ok().filter(|id| *id > 0).map(UserId::new) else { return Ok(()) };
    let entry = voice_states::of_user(v1, guild_id, user_id).await?;
    let here = entry.filter(|entry| entry.state.channel_id == Some(channel_id));
    let is_of = |entry: &VoiceEntry| {
        participant.attributes.get("session_id").is_none_or(|session_id| *session_id == entry.state.session_id)
    };
    let done = match (report.event.as_str(), here) {
        ("participant_joined", None) => voice_states::put_into(v1, guild_id, user_id, Some(channel_id)).await,
        ("participant_left" | "participant_connection_aborted", Some(entry)) if is_of(&entry) => {
            voice_states::put_into(v1, guild_id, user_id, None).await
        }
        _ => Ok(()),
    };
    known(done)
}

/// A report of a guild, channel or member that does not exist any more changes nothing.
fn known(done: Result<(), V1Error>) -> Result<(), V1Error> {
    match done {
        Err(error) if error.is_not_found() => Ok(()),
        done => done,
    }
}
