//! Presence: online status and activities of an account.
//!
//! Spec  docs/protocol/reference.md §6.9.

use crate::activity::{self, SHOWN_ACTIVITIES_BYTES_MAX};
use serde::{Deserialize, Serialize, Serializer, ser::SerializeMap};
use serde_json::{Map, Value};

/// Online status. Aggregation over several sessions takes the greatest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Offline or invisible.
    #[default]
    Offline,
    Idle,
    Online,
    /// Do not disturb.
    Dnd,
}

/// Platform of a session, from `properties.browser` in IDENTIFY.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Platform {
    /// `Discord Client`.
    Desktop,
    /// `Discord Android`, `Discord iOS`.
    Mobile,
    /// Everything else, including all bots.
    Web,
    /// `Discord Embedded`.
    Embedded,
    /// `Discord VR`.
    Vr,
}

impl Platform {
    /// The platform of a `browser` property.
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

    /// Name in reports, as in `client_status`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Desktop => "desktop",
            Self::Mobile => "mobile",
            Self::Web => "web",
            Self::Embedded => "embedded",
            Self::Vr => "vr",
        }
    }
}

/// Status per platform; `Offline` means that the platform is not listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "StatusByPlatform")]
pub struct ClientStatus {
    statuses: [Status; 5],
}

impl ClientStatus {
    /// Sets `platform` to `status` if that is greater.
    pub fn raise(&mut self, platform: Platform, status: Status) {
        let slot = &mut self.statuses[platform as usize];
        *slot = (*slot).max(status);
    }

    fn raise_all(&mut self, other: Self) {
        for (slot, status) in self.statuses.iter_mut().zip(other.statuses) {
            *slot = (*slot).max(status);
        }
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

#[derive(Default, Deserialize)]
#[serde(default)]
struct StatusByPlatform {
    desktop: Status,
    mobile: Status,
    web: Status,
    embedded: Status,
    vr: Status,
}

impl From<StatusByPlatform> for ClientStatus {
    fn from(StatusByPlatform { desktop, mobile, web, embedded, vr }: StatusByPlatform) -> Self {
        Self { statuses: [desktop, mobile, web, embedded, vr] }
    }
}

/// One activity. After `activity::clean` it has known fields only.
pub type Activity = Map<String, Value>;

/// A presence as others see it, aggregated over an account's sessions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Presence {
    /// Greatest status over the sessions that are not invisible.
    pub status: Status,
    /// Activities of all sessions.
    pub activities: Vec<Activity>,
    pub client_status: ClientStatus,
}

/// Activities of an account that others are shown.
const SHOWN_ACTIVITIES_MAX: usize = 16;

impl Presence {
    /// Adds further sessions of the account. The first activities that fit are kept.
    pub fn merge(&mut self, other: Self) {
        self.status = self.status.max(other.status);
        self.client_status.raise_all(other.client_status);
        let all = self.activities.iter().chain(&other.activities);
        self.activities = activity::within(all, SHOWN_ACTIVITIES_MAX, SHOWN_ACTIVITIES_BYTES_MAX).cloned().collect();
    }
}
