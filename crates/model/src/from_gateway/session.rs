//! An account's own sessions: READY and SESSIONS_REPLACE. Spec  docs/protocol/reference.md §6.9.

use super::Nothing;
use crate::{
    activity,
    presence::{Activity, Platform, Status},
};
use serde::{Serialize, Serializer, ser::SerializeSeq};

/// One of an account's own live sessions.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SessionBody<'a> {
    pub session_id: &'a str,
    /// Status that the session set.
    pub status: Status,
    /// Activities that the session set.
    pub activities: &'a [Activity],
    /// Always empty.
    pub hidden_activities: Nothing,
    /// Client program of the session.
    pub client_info: ClientInfo<'a>,
}

/// Client program of a session.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ClientInfo<'a> {
    /// `web`, `desktop`, `mobile`, `vr` or `unknown`.
    pub client: &'a str,
    /// Operating system, as sent in IDENTIFY.
    pub os: &'a str,
    /// Format of the settings, always 0.
    pub version: u32,
}

impl<'a> ClientInfo<'a> {
    /// Values from IDENTIFY.
    #[must_use]
    pub fn new(platform: Platform, os: &'a str) -> Self {
        let client = match platform {
            Platform::Desktop => "desktop",
            Platform::Mobile => "mobile",
            Platform::Web => "web",
            Platform::Vr => "vr",
            Platform::Embedded => "unknown",
        };
        Self { client, os, version: 0 }
    }
}

/// SESSIONS_REPLACE, and `sessions` of READY: an array. With several sessions the first entry is one called `all`, with
/// the greatest status and the activities of all sessions.
#[derive(Clone, Debug)]
pub struct SessionsBody<'a> {
    /// The recipient's own session first. Sessions past `SESSIONS_MAX` are omitted.
    pub sessions: Vec<SessionBody<'a>>,
}

impl SessionsBody<'_> {
    /// Maximum number of listed sessions, not counting `all`.
    pub const SESSIONS_MAX: usize = 15;
}

/// Aggregate of all sessions.
#[derive(Serialize)]
struct AllSessions<'a> {
    session_id: &'static str,
    status: Status,
    activities: Vec<&'a Activity>,
    hidden_activities: Nothing,
    client_info: ClientInfo<'static>,
}

impl Serialize for SessionsBody<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let listed = &self.sessions[..self.sessions.len().min(Self::SESSIONS_MAX)];
        let aggregate = (self.sessions.len() > 1).then(|| {
            // Invisible sessions contribute nothing to the aggregate.
            let shown = || self.sessions.iter().filter(|session| session.status != Status::Offline);
            AllSessions {
                session_id: "all",
                status: shown().map(|session| session.status).max().unwrap_or_default(),
                activities: activity::within(
                    shown().flat_map(|session| session.activities),
                    usize::MAX,
                    activity::SHOWN_ACTIVITIES_BYTES_MAX,
                )
                .collect(),
                hidden_activities: [],
                client_info: ClientInfo { client: "unknown", os: "unknown", version: 0 },
            }
        });
        let mut list = serializer.serialize_seq(Some(listed.len() + usize::from(aggregate.is_some())))?;
        if let Some(aggregate) = &aggregate {
            list.serialize_element(aggregate)?;
        }
        for session in listed {
            list.serialize_element(session)?;
        }
        list.end()
    }
}
