//! Buckets: groups of REST requests that share a rate limit.
//!
//! Owns        `Bucket` and its default rules.
//! Invariants  a bucket's name on the wire is opaque and does not depend on ids in the path; buckets that count per
//!             channel or guild differ by the limiter's key.
//! Not here    the bucket of a route: its row in `crate::routes`.     Spec  docs/protocol/reference.md §10.1.

use guildhall_http_kit::Rule;

macro_rules! buckets {
    ($($(#[doc = $doc:literal])* $name:ident: $limit:literal per $period_ms:literal ms),* $(,)?) => {
        /// Requests that share a limit, per account and (inside a channel or guild) per channel or guild.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Bucket { $($(#[doc = $doc])* $name,)* }

        impl Bucket {
            /// All buckets, in the order of their indexes.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Default rule of the bucket.
            #[must_use]
            pub const fn default_rule(self) -> Rule {
                match self { $(Self::$name => Rule { limit: $limit, period_ms: $period_ms },)* }
            }

            /// Description of the limited requests.
            #[must_use]
            pub const fn about(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),*),)* }
            }

            const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }
        }
    };
}

// Where upstream's figure is known to be the same, the comment says so. The others are ours: a well-behaved bot never
// reaches them, and a runaway one cannot occupy a guild's worker.
buckets! {
    /// All requests of an account. As upstream.
    Global: 50 per 1000 ms,
    /// Changes by one user account, so that no account fills replay buffers. A change counts as one, plus one per 2 KiB
    /// of its answer, which is about as long as its event. Bots have no such limit: a manager of the guild added them.
    UserWrite: 120 per 60000 ms,
    /// Requests of peers without an account, and unknown paths.
    Anonymous: 50 per 1000 ms,
    /// Requests of a peer without a token or with a wrong one. As upstream: 10,000 in ten minutes; here in a shorter
    /// window, so that a peer with a corrected token waits less.
    InvalidToken: 1000 per 60000 ms,
    /// `/gateway/bot`: requested once per start.
    GatewayBot: 10 per 5000 ms,
    /// Reading one thing: a user, channel, guild, role, member, message.
    Read: 50 per 1000 ms,
    /// Pages of messages or of reacting users.
    History: 50 per 1000 ms,
    /// The guilds of an account: each has to be loaded.
    GuildList: 2 per 1000 ms,
    /// Pages of members.
    MemberList: 10 per 10000 ms,
    /// A member search reads all members.
    MemberSearch: 10 per 10000 ms,
    /// A search for messages reads every message that has the searched words.
    MessageSearch: 10 per 10000 ms,
    /// Sending messages. As upstream.
    MessageCreate: 5 per 5000 ms,
    /// Editing messages. As upstream.
    MessageEdit: 5 per 5000 ms,
    /// Deleting messages. As upstream.
    MessageDelete: 5 per 1000 ms,
    /// Deleting many messages at once. As upstream.
    BulkDelete: 1 per 3000 ms,
    /// Publishing messages of an announcement channel. As upstream.
    Crosspost: 10 per 3600000 ms,
    /// Adding and removing reactions. As upstream.
    Reaction: 1 per 250 ms,
    /// Typing: one lasts ten seconds.
    Typing: 5 per 5000 ms,
    /// Marking a channel as read, which clients do with each message that they show.
    Ack: 20 per 1000 ms,
    /// Changing members, their roles and their voice states.
    MemberWrite: 10 per 10000 ms,
    /// Changing guilds, channels, overwrites and roles.
    StructureWrite: 10 per 10000 ms,
    /// Making guilds: they stay.
    GuildCreate: 5 per 60000 ms,
    /// Requests with a webhook's token and without an account: counted per peer.
    Webhook: 30 per 10000 ms,
    /// Answers to interactions, with the token of one and without an account: counted per peer.
    Interaction: 50 per 1000 ms,
    /// Using commands and components. Each character typed into an option can be one.
    Invocation: 20 per 5000 ms,
    /// Registering commands.
    Commands: 20 per 5000 ms,
    /// Changing relationships: a friend request shows whether a name exists, and reaches another account.
    Relationships: 20 per 60000 ms,
    /// Whatever else changes something.
    Write: 10 per 5000 ms,
}

impl Bucket {
    pub(super) const COUNT: usize = Self::ALL.len();

    /// Such requests are counted for the peer, and name no account.
    pub(crate) fn is_of_peer(self) -> bool {
        matches!(self, Self::Anonymous | Self::Webhook | Self::Interaction)
    }

    /// The name clients see: 128 opaque bits in hexadecimal.
    #[must_use]
    pub fn wire_name(self) -> String {
        let fnv = |seed: u64| {
            self.name().bytes().fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
        };
        format!("{:016x}{:016x}", fnv(0xcbf2_9ce4_8422_2325), fnv(0x9e37_79b9_7f4a_7c15))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_differ_and_reveal_nothing() {
        let names: BTreeSet<_> = Bucket::ALL.iter().map(|bucket| bucket.wire_name()).collect();
        assert_eq!(names.len(), Bucket::COUNT);
        assert!(names.iter().all(|name| name.len() == 32 && name.bytes().all(|b| b.is_ascii_hexdigit())));
    }
}
