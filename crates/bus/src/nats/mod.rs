//! NATS: the drivers of a cluster. `NatsBus` uses core NATS, `NatsKv` a bucket of JetStream.
//!
//! Owns        the connections to NATS, for messages between nodes and for leases.
//! Invariants  credentials are in no text: neither in `Debug`, nor in an error, nor in the log. Each driver has a
//!             connection of its own, so that the renewal of a lease never waits behind a snapshot.
//! Limits      `NatsOptions`. A connection that is silent for three pings (`PING_EVERY`) counts as lost. Reconnection
//!             is attempted for ever, at most every `RECONNECT_PAUSES.1`.
//! Spec        docs.nats.io, "NATS Protocol"; ADR-8 and ADR-43 of nats-architecture-and-design for the bucket and
//!             expiry.

mod bus;
mod kv;
mod link;

pub use bus::NatsBus;
pub use kv::NatsKv;

use async_nats::{ConnectErrorKind, ServerAddr};
use std::{fmt, path::PathBuf, time::Duration};

/// Silence after which the connection is tested. Three in a row are a lost connection.
const PING_EVERY: Duration = Duration::from_secs(2);
/// Pauses between attempts to reconnect: doubled from the first to the last.
const RECONNECT_PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Messages between the caller and the socket: past that, `publish` waits for the socket, for at most `answer_max`.
const OUTGOING_MAX: usize = 64;
/// Messages between the socket and the queue of a subscription, where a task moves them on at once.
const TRANSIT_MAX: usize = 65_536;
/// Longest `name_prefix`.
const PREFIX_BYTES_MAX: usize = 32;
/// The first server with a time to live per message.
const SERVER_MIN: (i64, i64, i64) = (2, 11, 0);

/// How a NATS server is reached. An account with restricted permissions needs, for the prefix P: to publish `P.>`,
/// `$KV.P-leases.>`, `$JS.API.>` and `$JS.FC.>`; to subscribe `P.>`.
#[derive(Clone, Debug)]
pub struct NatsOptions {
    /// Addresses of servers of one NATS cluster, like `nats://host:4222` or `tls://host:4222`, without credentials.
    pub urls: Vec<String>,
    pub credentials: NatsCredentials,
    /// Encryption with these certificates. None: by the scheme of the addresses, with the authorities of the system.
    pub tls: Option<NatsTls>,
    /// First word of all subjects and of the bucket, so that several clusters can share one NATS: letters, digits, `-`
    /// and `_`, at most 32. Default: `guildhall`.
    pub name_prefix: String,
    /// Name of this node in the server's list of connections.
    pub client_name: String,
    /// How long a call waits for the server. Default: 1 s.
    pub answer_max: Duration,
    /// Messages that wait for one subscriber. Default: 65,536.
    pub messages_max: usize,
    /// Bytes of the messages that wait for one subscriber. Default: 64 MiB.
    pub bytes_max: usize,
    /// Servers that keep a copy of the bucket: 1, 3 or 5. Default: 1.
    pub replicas: usize,
}

/// Proof of identity. `Debug` shows none of it.
#[derive(Clone, Default)]
pub enum NatsCredentials {
    #[default]
    None,
    UserPassword {
        user: String,
        password: String,
    },
    Token(String),
    /// A file with the seed of an nkey.
    NkeyFile(PathBuf),
    /// A `.creds` file: a JWT and a seed.
    CredsFile(PathBuf),
}

/// Certificates, in PEM files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NatsTls {
    /// Authorities of the servers' certificates. None: those of the system.
    pub ca: Option<PathBuf>,
    /// Certificate of this node, and its key.
    pub client: Option<(PathBuf, PathBuf)>,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum NatsError {
    /// The options contradict each other or are incomplete.
    #[error("the options of NATS are faulty: {0}")]
    Options(String),
    /// A file with credentials cannot be used.
    #[error("the credentials of NATS in {} cannot be read", path.display())]
    Credentials {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// No server can be reached, or it refuses this node.
    #[error("NATS cannot be reached at {servers}{}", advice(source))]
    Connect {
        servers: String,
        #[source]
        source: async_nats::ConnectError,
    },
    /// The server is older than this driver needs.
    #[error("the NATS server has version {found}, and Guildhall needs 2.11 or later: upgrade it")]
    TooOld { found: String },
    /// The bucket for leases cannot be created or used.
    #[error(
        "the bucket {bucket} of NATS JetStream cannot be used ({problem}): see that the servers run with JetStream \
         (`-js`, or `jetstream {{}}` in the configuration), and that this account may use it"
    )]
    Bucket { bucket: String, problem: String },
}

/// Advice to the operator, after a colon; may be empty.
fn advice(error: &async_nats::ConnectError) -> &'static str {
    match error.kind() {
        ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
            ": it refuses the credentials: see cluster.nats_url and cluster.nats_credentials_file"
        }
        ConnectErrorKind::Tls => ": see the certificates that both sides use",
        ConnectErrorKind::Dns => ": its name is unknown",
        ConnectErrorKind::TimedOut => ": nothing answers at this address; see its firewall",
        ConnectErrorKind::Io => ": see that the server runs and listens there",
        _ => "",
    }
}

impl fmt::Debug for NatsCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::UserPassword { user, .. } => write!(f, "UserPassword({user:?}, hidden)"),
            Self::Token(_) => f.write_str("Token(hidden)"),
            Self::NkeyFile(path) => write!(f, "NkeyFile({path:?})"),
            Self::CredsFile(path) => write!(f, "CredsFile({path:?})"),
        }
    }
}

impl NatsOptions {
    /// Options for servers of one NATS cluster; the rest by default.
    #[must_use]
    pub fn new(urls: Vec<String>) -> Self {
        Self {
            urls,
            credentials: NatsCredentials::None,
            tls: None,
            name_prefix: "guildhall".to_owned(),
            client_name: "guildhall".to_owned(),
            answer_max: Duration::from_secs(1),
            messages_max: 65_536,
            bytes_max: 64 << 20,
            replicas: 1,
        }
    }

    /// Fails if the options are faulty; connects to nothing.
    ///
    /// # Errors
    /// `Options`.
    pub fn check(&self) -> Result<(), NatsError> {
        self.servers().map(drop)
    }

    /// The addresses, parsed.
    fn servers(&self) -> Result<Vec<ServerAddr>, NatsError> {
        let wrong = |problem: String| Err(NatsError::Options(problem));
        let prefix = self.name_prefix.as_str();
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if prefix.is_empty() || prefix.len() > PREFIX_BYTES_MAX || !prefix.bytes().all(is_word) {
            return wrong(format!(
                "the prefix of names must be 1 to {PREFIX_BYTES_MAX} letters, digits, `-` and `_`, not {prefix:?}"
            ));
        }
        if self.urls.is_empty() {
            return wrong("there is no address of a server, like nats://host:4222".to_owned());
        }
        if !matches!(self.replicas, 1 | 3 | 5) {
            return wrong(format!("a bucket has 1, 3 or 5 replicas, not {}", self.replicas));
        }
        let mut servers = Vec::new();
        for (n, url) in self.urls.iter().enumerate() {
            // The text is not repeated: it may contain a password.
            let n = n + 1;
            if url.contains('@') {
                return wrong(format!("address {n} contains `@`: credentials have settings of their own"));
            }
            let Ok(server) = url.parse::<ServerAddr>() else {
                return wrong(format!("address {n} is not one, like nats://host:4222"));
            };
            if !matches!(server.scheme(), "nats" | "tls") {
                return wrong(format!("address {n} must begin with nats:// or tls://"));
            }
            servers.push(server);
        }
        Ok(servers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_nowhere() {
        let user_password = NatsCredentials::UserPassword { user: "ana".to_owned(), password: "hunter2".to_owned() };
        for credentials in [user_password, NatsCredentials::Token("hunter2".to_owned())] {
            let options = NatsOptions { credentials, ..NatsOptions::new(vec!["nats://db:4222".to_owned()]) };
            assert!(!format!("{options:?}").contains("hunter2"), "{options:?}");
        }
        for url in
            ["nats://ana:hunter2@host", "ana:hunter2@host", "nats://hunter2@host", "http://hunter2", "nats://h:hunter2"]
        {
            let error = NatsOptions::new(vec![url.to_owned()]).check().expect_err(url).to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn faulty_options() {
        let good =
            NatsOptions::new(vec!["nats://a:4222".to_owned(), "tls://b".to_owned(), "127.0.0.1:4223".to_owned()]);
        good.check().unwrap();
        for prefix in ["", "a.b", "a b", "*", &"a".repeat(33)] {
            assert!(NatsOptions { name_prefix: prefix.to_owned(), ..good.clone() }.check().is_err(), "{prefix}");
        }
        assert!(NatsOptions::new(Vec::new()).check().is_err());
        assert!(NatsOptions { replicas: 2, ..good }.check().is_err());
    }
}
