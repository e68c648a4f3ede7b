//! Close codes: why the gateway closes a connection.
//!
//! Spec  docs/protocol/reference.md §1.4.

/// Fate of the session when its connection is closed with a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionFate {
    /// The session can be resumed.
    Keep,
    /// The session ends; a RESUME gets op 9 `false`.
    Drop,
}

macro_rules! close_codes {
    ($($(#[$doc:meta])* $code:literal $name:ident $fate:ident $reason:literal),* $(,)?) => {
        /// Reason for closing a connection. Each has one number, one reason text and one fate of the session.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum CloseCode { $($(#[$doc])* $name,)* }

        impl CloseCode {
            /// All close codes, for metrics per code.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Number on the wire.
            #[must_use]
            pub const fn code(self) -> u16 {
                match self { $(Self::$name => $code,)* }
            }

            /// Text of the close frame.
            #[must_use]
            pub const fn reason(self) -> &'static str {
                match self { $(Self::$name => $reason,)* }
            }

            /// Whether the session survives.
            #[must_use]
            pub const fn session_fate(self) -> SessionFate {
                match self { $(Self::$name => SessionFate::$fate,)* }
            }
        }
    };
}

close_codes! {
    /// Internal error, takeover by RESUME or overdue heartbeat: the client should reconnect and resume.
    4000 UnknownError Keep "Unknown error, reconnect and resume",
    /// The opcode is unknown, or its payload does not fit it.
    4001 UnknownOpcode Keep "Unknown opcode or invalid payload for it",
    /// The message could not be decoded, or was too large.
    4002 DecodeError Keep "Error while decoding payload",
    /// A payload other than heartbeat, IDENTIFY or RESUME arrived before the session existed.
    4003 NotAuthenticated Keep "Not authenticated",
    /// The token is wrong or was revoked.
    4004 AuthenticationFailed Drop "Authentication failed",
    /// A second IDENTIFY or RESUME.
    4005 AlreadyAuthenticated Keep "Already authenticated",
    /// The client sent more messages per minute than allowed.
    4008 RateLimited Keep "Rate limited",
    /// The session expired while it was connected.
    4009 SessionTimedOut Drop "Session timed out",
    /// `shard` is malformed.
    4010 InvalidShard Drop "Invalid shard",
    /// The shard would hold too many guilds.
    4011 ShardingRequired Drop "Sharding required",
    /// `v` is not 9 or 10.
    4012 InvalidApiVersion Drop "Invalid API version",
    /// `intents` has unknown bits or is no number.
    4013 InvalidIntents Drop "Invalid intent(s)",
    /// A privileged intent that the application was not granted.
    4014 DisallowedIntents Drop "Disallowed intent(s)",
    /// The account has too many live sessions.
    4015 TooManySessions Drop "Too many sessions",
}
