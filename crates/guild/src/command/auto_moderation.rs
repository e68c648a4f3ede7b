//! Rules of auto moderation: made and changed.

use guildhall_model::{AutoModAction, AutoModTrigger, ChannelId, RoleId};
use serde::{Deserialize, Serialize};

/// Fields of a rule. A new one needs a name, a trigger and actions. The caller has checked lengths and counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AutoModPatch {
    pub name: Option<String>,
    /// Of a changed rule, of the same type as before.
    pub trigger: Option<AutoModTrigger>,
    pub actions: Option<Vec<AutoModAction>>,
    pub enabled: Option<bool>,
    pub exempt_roles: Option<Vec<RoleId>>,
    pub exempt_channels: Option<Vec<ChannelId>>,
}
