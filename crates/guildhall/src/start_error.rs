//! Start errors: why a node does not start.

use crate::{dictionaries::DictionaryError, issuers, takeover::TakeoverError};
use guildhall_bus::NatsError;
use guildhall_codec::CodecError;
use guildhall_http_client::TrustError;
use guildhall_net::CertificateError;
use guildhall_node::JoinError;
use guildhall_settings::Secret;
use guildhall_store::StoreError;
use guildhall_telemetry::traces::TracesError;
use std::{io, net::SocketAddr, path::PathBuf};

/// Why a node does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// More than one of the others.
    #[error("{} faults:{}", .0.len(), lines(.0))]
    Several(Vec<StartError>),
    /// The port is in use, or needs privileges.
    #[error("cannot listen on {listen}{}", listen_hint(source))]
    Listen {
        listen: SocketAddr,
        #[source]
        source: io::Error,
    },
    /// The process that runs passes nothing on.
    #[error("the node that runs cannot be taken over")]
    Takeover(#[from] TakeoverError),
    /// The store cannot be opened or read.
    #[error("the store cannot be used")]
    Store(#[from] StoreError),
    /// A file that `store.url` names cannot be read.
    #[error("store.url: {parameter} names {}, which cannot be read", .path.display())]
    StoreUrlFile {
        /// Parameter of the URL.
        parameter: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A file cannot be read that a setting names, as that of a secret.
    #[error("{setting}: {} cannot be read", .path.display())]
    SecretFile {
        /// Which setting names it.
        setting: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A secret could be guessed.
    #[error("{setting}: {} has fewer than {} bytes", .path.display(), Secret::BYTES_MIN)]
    SecretTooShort {
        /// Which setting names it.
        setting: &'static str,
        path: PathBuf,
    },
    /// A hook without a secret: its service could not know who calls.
    #[error("hook.url needs hook.secret or hook.secret_file, which signs the requests")]
    HookSecret,
    /// The server of the hook cannot be authenticated.
    #[error("the server of hook.url cannot be authenticated")]
    HookTrust(#[source] TrustError),
    /// The certificate.
    #[error("tls.cert_file ({}) and tls.key_file ({}) cannot be used", .cert_file.display(), .key_file.display())]
    Tls {
        /// Certificate chain, PEM.
        cert_file: PathBuf,
        /// Private key, PEM.
        key_file: PathBuf,
        /// Reason of the refusal.
        #[source]
        source: CertificateError,
    },
    /// Keys of other issuers.
    #[error("auth.jwks_file: {} cannot be used", .path.display())]
    Issuers {
        path: PathBuf,
        #[source]
        source: issuers::ReadError,
    },
    /// The certificates of `auth.jwks_ca_file` cannot be used.
    #[error("auth.jwks_url cannot be used")]
    JwksUrl(#[from] TrustError),
    /// The collector of traces cannot be authenticated.
    #[error("[traces] cannot be used")]
    Traces(#[source] TracesError),
    /// A dictionary cannot be served.
    #[error("codec.dictionaries_dir cannot be used")]
    Dictionaries(#[from] DictionaryError),
    /// The folder of uploaded files is not usable.
    #[error("the folder of files, {}, cannot be used", .path.display())]
    Files {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The bucket of uploaded files cannot be set up.
    #[error("the bucket of uploads.url cannot be used")]
    Bucket(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The access log.
    #[error("log.access_file: {} cannot be opened", .path.display())]
    AccessLog {
        /// As in the configuration.
        path: PathBuf,
        /// Reason of the system.
        #[source]
        source: io::Error,
    },
    /// The system gave no threads or polls.
    #[error("the partitions cannot start")]
    Partitions(#[source] io::Error),
    /// The compression libraries do not take the parameters.
    #[error("the settings of [codec] cannot be used")]
    Codec(#[from] CodecError),
    /// The system returned no random bytes.
    #[error("the system returned no random bytes")]
    Randomness,
    /// The servers of `cluster.nats_url`.
    #[error("NATS ({url}) cannot be used")]
    Nats {
        /// Without passwords.
        url: String,
        #[source]
        source: NatsError,
    },
    /// A cluster needs a database that all nodes reach.
    #[error(
        "cluster.nats_url is set, and the database is SQLite: set store.url to the PostgreSQL database of the cluster \
         (`guildhall store copy` copies this one into it), or unset cluster.nats_url"
    )]
    ClusterStore,
    /// The setting of the store is not what the first node wrote.
    #[error(
        "the cluster's key in the database has not 32 bytes: delete the row `cluster_key` of the table settings, and start all nodes again"
    )]
    ClusterKey,
    /// The cluster does not take this node.
    #[error("this node cannot join the cluster")]
    Join(#[from] JoinError),
}

impl From<TracesError> for StartError {
    fn from(error: TracesError) -> Self {
        match error {
            TracesError::HeadersFile { path, source } => {
                Self::SecretFile { setting: "traces.headers_file", path, source }
            }
            error @ (TracesError::Trust(_) | TracesError::SecretInClear) => Self::Traces(error),
        }
    }
}

/// Each error with its sources on a line of its own.
fn lines(errors: &[StartError]) -> String {
    errors.iter().map(|error| format!("\n  {}", chain(error))).collect()
}

/// An error with its sources.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

fn listen_hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::AddrInUse => ": choose another port, or 0 for any that is free (--listen 127.0.0.1:0)",
        io::ErrorKind::PermissionDenied => {
            ": ports below 1024 need CAP_NET_BIND_SERVICE; choose a higher one (--listen)"
        }
        io::ErrorKind::AddrNotAvailable => ": it is not this machine's; 0.0.0.0 means all of its addresses",
        _ => "",
    }
}

impl StartError {
    /// Whether the configuration, or a file that it names, has to be changed. A retry without a change fails too.
    #[must_use]
    pub fn is_configuration(&self) -> bool {
        match self {
            Self::Several(errors) => errors.iter().any(Self::is_configuration),
            Self::Store(error) => matches!(error, StoreError::DataDir { .. } | StoreError::Readable { .. }),
            Self::StoreUrlFile { .. }
            | Self::SecretFile { .. }
            | Self::SecretTooShort { .. }
            | Self::HookSecret
            | Self::HookTrust(_)
            | Self::Tls { .. }
            | Self::Issuers { .. }
            | Self::JwksUrl(_)
            | Self::Traces(_)
            | Self::Dictionaries(_)
            | Self::AccessLog { .. }
            | Self::Bucket(_)
            | Self::ClusterStore
            | Self::Codec(_) => true,
            Self::Takeover(error) => matches!(error, TakeoverError::Cluster { .. } | TakeoverError::NoHandover),
            Self::Listen { .. }
            | Self::Files { .. }
            | Self::Partitions(_)
            | Self::Randomness
            | Self::Nats { .. }
            | Self::ClusterKey
            | Self::Join(_) => false,
        }
    }
}
