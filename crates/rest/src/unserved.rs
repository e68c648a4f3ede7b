//! Routes of the upstream API that this server does not serve: named in the answer, and counted.
//!
//! Owns        `TEMPLATES`, `Unserved`.
//! Invariants  the labels of the counters are `TEMPLATES` and `OTHER`, whatever clients send. No template is a route of
//!             `crate::routes`. (tests below, and `unserved_*` in `guildhall`)
//! Limits      a request to an unknown path is compared with each template once; `Bucket::Anonymous` limits
//!             their rate per peer.

use std::sync::atomic::{AtomicU64, Ordering};

/// Label of paths that upstream does not have either.
pub const OTHER: &str = "other";

/// Paths after the version prefix. `{…}` stands for one segment. If several match, the first counts.
const TEMPLATES: &[&str] = &[
    // Interactions: commands are stored but cannot be invoked.
    "/interactions",
    "/interactions/{interaction_id}/{interaction_token}/callback",
    "/applications/{application_id}/commands/{command_id}/permissions",
    "/applications/{application_id}/guilds/{guild_id}/commands/{command_id}/permissions",
    "/applications/{application_id}/activity-instances/{instance_id}",
    "/applications/{application_id}/emojis",
    "/applications/{application_id}/emojis/{emoji_id}",
    "/applications/{application_id}/entitlements",
    "/applications/{application_id}/entitlements/{entitlement_id}",
    "/applications/{application_id}/entitlements/{entitlement_id}/consume",
    "/applications/{application_id}",
    "/applications/{application_id}/attachment",
    "/applications/{application_id}/role-connections/metadata",
    "/applications/{application_id}/skus",
    "/skus/{sku_id}/subscriptions",
    "/skus/{sku_id}/subscriptions/{subscription_id}",
    // Channels.
    "/channels/{channel_id}/attachments",
    "/channels/{channel_id}/call",
    "/channels/{channel_id}/call/ring",
    "/channels/{channel_id}/call/stop-ringing",
    "/channels/{channel_id}/followers",
    "/channels/{channel_id}/greet",
    "/channels/{channel_id}/messages/{message_id}/ack",
    "/channels/{channel_id}/messages/{message_id}/crosspost",
    "/channels/{channel_id}/pins/ack",
    "/channels/{channel_id}/polls/{message_id}/answers/{answer_id}",
    "/channels/{channel_id}/polls/{message_id}/expire",
    "/channels/{channel_id}/send-soundboard-sound",
    "/channels/{channel_id}/threads/search",
    "/channels/{channel_id}/voice-status",
    "/read-states/ack-bulk",
    "/webhooks/{webhook_id}/{webhook_token}/github",
    "/webhooks/{webhook_id}/{webhook_token}/slack",
    // Guilds.
    "/guilds/templates/{code}",
    "/guilds/{guild_id}/ack",
    "/guilds/{guild_id}/auto-moderation/rules",
    "/guilds/{guild_id}/auto-moderation/rules/{rule_id}",
    "/guilds/{guild_id}/incident-actions",
    "/guilds/{guild_id}/integrations/{integration_id}",
    "/guilds/{guild_id}/members-search",
    "/guilds/{guild_id}/messages/search",
    "/guilds/{guild_id}/mfa",
    "/guilds/{guild_id}/new-member-welcome",
    "/guilds/{guild_id}/onboarding",
    "/guilds/{guild_id}/preview",
    "/guilds/{guild_id}/requests",
    "/guilds/{guild_id}/requests/{request_id}",
    "/guilds/{guild_id}/scheduled-events/{event_id}/exceptions",
    "/guilds/{guild_id}/scheduled-events/{event_id}/exceptions/{exception_id}",
    "/guilds/{guild_id}/scheduled-events/{event_id}/users/counts",
    "/guilds/{guild_id}/scheduled-events/{event_id}/{exception_id}/users",
    "/guilds/{guild_id}/soundboard-sounds",
    "/guilds/{guild_id}/soundboard-sounds/{sound_id}",
    "/guilds/{guild_id}/templates",
    "/guilds/{guild_id}/templates/{code}",
    "/guilds/{guild_id}/vanity-url",
    "/guilds/{guild_id}/welcome-screen",
    "/guilds/{guild_id}/widget",
    "/guilds/{guild_id}/widget.json",
    "/guilds/{guild_id}/widget.png",
    "/invites/{code}/target-users",
    "/invites/{code}/target-users/job-status",
    "/lobbies",
    "/lobbies/{lobby_id}",
    "/lobbies/{lobby_id}/channel-linking",
    "/lobbies/{lobby_id}/members/{user_id}",
    "/lobbies/{lobby_id}/members/{user_id}/invites",
    "/lobbies/{lobby_id}/messages",
    "/lobbies/{lobby_id}/messages/{message_id}/moderation-metadata",
    "/sticker-packs/{pack_id}",
    "/stickers/{sticker_id}",
    // Accounts.
    "/auth/login",
    "/oauth2/@me",
    "/oauth2/authorize",
    "/oauth2/keys",
    "/oauth2/token",
    "/oauth2/token/revoke",
    "/oauth2/userinfo",
    "/partner-sdk/dms/{user_id}/{other_user_id}/messages/{message_id}/moderation-metadata",
    "/partner-sdk/provisional-accounts/unmerge",
    "/partner-sdk/provisional-accounts/unmerge/bot",
    "/partner-sdk/token",
    "/partner-sdk/token/bot",
    "/experiments",
    "/science",
    "/users/@me/applications/{application_id}/entitlements",
    "/users/@me/applications/{application_id}/role-connection",
    "/users/@me/billing/payment-sources",
    "/users/@me/burst-credits",
    "/users/@me/connections",
    "/users/@me/devices",
    "/users/@me/guilds/settings",
    "/users/@me/guilds/{guild_id}/settings",
    "/users/@me/library",
    "/users/@me/mentions",
    "/users/@me/notes/{user_id}",
    "/users/@me/relationships",
    "/users/@me/relationships/{user_id}",
    "/users/@me/settings",
    "/users/{user_id}/profile",
];

/// Requests per unserved route since the start.
#[derive(Debug)]
pub struct Unserved {
    known: Vec<AtomicU64>,
    other: AtomicU64,
}

impl Default for Unserved {
    fn default() -> Self {
        Self { known: TEMPLATES.iter().map(|_| AtomicU64::new(0)).collect(), other: AtomicU64::new(0) }
    }
}

impl Unserved {
    /// Counts a request to an unknown path. Returns the route that it means, if upstream has it.
    pub(crate) fn count(&self, path: &str) -> Option<&'static str> {
        let found = TEMPLATES.iter().position(|template| fits(template, path));
        let counter = found.map_or(&self.other, |index| &self.known[index]);
        counter.fetch_add(1, Ordering::Relaxed);
        found.map(|index| TEMPLATES[index])
    }

    /// Whether upstream has a route with this path. Counts nothing.
    pub(crate) fn is_known(path: &str) -> bool {
        TEMPLATES.iter().any(|template| fits(template, path))
    }

    /// Every label with its count.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let known = TEMPLATES.iter().zip(&self.known).map(|(template, count)| (*template, count));
        known.chain([(OTHER, &self.other)]).map(|(label, count)| (label, count.load(Ordering::Relaxed)))
    }
}

fn fits(template: &str, path: &str) -> bool {
    let mut pieces = path.split('/');
    for expected in template.split('/') {
        match pieces.next() {
            Some(piece) if piece == expected => {}
            Some(piece) if expected.starts_with('{') && !piece.is_empty() => {}
            _ => return false,
        }
    }
    pieces.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn paths_find_their_template() {
        let unserved = Unserved::default();
        let check = |path: &str, expected: Option<&str>| assert_eq!(unserved.count(path), expected, "{path}");
        check("/interactions/5/abc/callback", Some("/interactions/{interaction_id}/{interaction_token}/callback"));
        check("/guilds/1/messages/search", Some("/guilds/{guild_id}/messages/search"));
        check("/guilds//messages/search", None);
        check("/guilds/1/messages/search/more", None);
        check("/users/@me/settings", Some("/users/@me/settings"));
        check("/", None);
        check("", None);
        check(&"/a".repeat(4000), None);
        let counts: Vec<_> = unserved.counts().filter(|(_, count)| *count > 0).collect();
        assert_eq!(counts.last(), Some(&(OTHER, 5)));
        assert_eq!(counts.len(), 4);
    }

    #[test]
    fn templates_are_distinct_and_none_is_served() {
        assert_eq!(TEMPLATES.iter().collect::<BTreeSet<_>>().len(), TEMPLATES.len());
        let router = include_str!("routes/mod.rs");
        for template in TEMPLATES {
            assert!(!router.contains(&format!("\"{template}\"")), "{template} is a route");
        }
    }
}
