//! Presence: whether somebody is there, and what they do.
//!
//! Spec  docs/protocol.md §6.9.

use serde::{Deserialize, Serialize, Serializer, ser::SerializeMap};
use serde_json::{Map, Value};

/// How present somebody is. The order is the one in which several sessions are aggregated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Not there, or wishing to seem so.
    #[default]
    Offline,
    /// Away.
    Idle,
    /// There.
    Online,
    /// Do not disturb.
    Dnd,
}

/// Where a session runs, told by `properties.browser` of IDENTIFY.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Platform {
    /// `Discord Client`.
    Desktop,
    /// `Discord Android`, `Discord iOS`.
    Mobile,
    /// Everything else, all bots included.
    Web,
    /// `Discord Embedded`.
    Embedded,
    /// `Discord VR`.
    Vr,
}

impl Platform {
    /// The platform a `browser` property stands for.
    #[must_use]
    pub fn from_browser(browser: &str) -> Self {
        match browser {
            "Discord Client" => Self::Desktop,
            "Discord Android" | "Discord iOS" => Self::Mobile,
            "Discord Embedded" => Self::Embedded,
            "Discord VR" => Self::Vr,
            _ => Self::Web,
        }
    }
}

/// Status per platform; `Offline` means that platform is not listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientStatus {
    statuses: [Status; 5],
}

impl ClientStatus {
    /// Raises `platform` to `status` if that is more present.
    pub fn raise(&mut self, platform: Platform, status: Status) {
        let slot = &mut self.statuses[platform as usize];
        *slot = (*slot).max(status);
    }
}

impl Serialize for ClientStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const NAMES: [&str; 5] = ["desktop", "mobile", "web", "embedded", "vr"];
        let mut map = serializer.serialize_map(None)?;
        for (name, status) in NAMES.iter().zip(self.statuses) {
            if status != Status::Offline {
                map.serialize_entry(name, &status)?;
            }
        }
        map.end()
    }
}

/// Something somebody does: known fields only, once `activity::clean` has seen it.
pub type Activity = Map<String, Value>;

/// A presence as others see it: aggregated over a user's sessions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Presence {
    /// The best status over the sessions that are not invisible.
    pub status: Status,
    /// What they do, over all sessions.
    pub activities: Vec<Activity>,
    /// Status per platform.
    pub client_status: ClientStatus,
}
