//! An account's own sessions: READY and SESSIONS_REPLACE. Spec  docs/protocol.md §6.9.

use super::Nothing;
use crate::{
    activity,
    presence::{Activity, Platform, Status},
};
use serde::{Serialize, Serializer, ser::SerializeSeq};

/// One of an account's own live sessions.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SessionBody<'a> {
    /// Its id.
    pub session_id: &'a str,
    /// What it shows.
    pub status: Status,
    /// What it does.
    pub activities: &'a [Activity],
    /// Always empty.
    pub hidden_activities: Nothing,
    /// What runs it.
    pub client_info: ClientInfo<'a>,
}

/// What runs a session.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ClientInfo<'a> {
    /// `web`, `desktop`, `mobile`, `vr` or `unknown`.
    pub client: &'a str,
    /// As told.
    pub os: &'a str,
    /// 0.
    pub version: u32,
}

impl<'a> ClientInfo<'a> {
    /// As told in IDENTIFY.
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

/// SESSIONS_REPLACE, and `sessions` of READY: an array. When there are several, one called `all` goes first, with the best
/// status and everything they do.
#[derive(Clone, Debug)]
pub struct SessionsBody<'a> {
    /// The receiver's own first: past `SESSIONS_MAX` they are left out.
    pub sessions: Vec<SessionBody<'a>>,
}

impl SessionsBody<'_> {
    /// Most sessions listed, beside `all`.
    pub const SESSIONS_MAX: usize = 15;
}

/// All sessions as one.
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
            // Invisible sessions show nothing, in the aggregate as elsewhere.
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
