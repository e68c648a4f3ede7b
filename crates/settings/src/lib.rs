//! Settings: strings from outside become one checked, typed `Config`.
//!
//! Owns        every setting (`settings`), the sources of its value (`raw`), its valid values (`value`), and the
//!             difference of two configurations (`reload`).
//! Doors       `load` for commands, `default_toml` and `effective_toml` for people.
//! Invariants  C1 flags override the environment, the environment overrides the file, the file overrides the defaults.
//!             C2 unknown settings are refused, with their place. C3 no secret is ever printed. (tests `c*_*`)
//! Not here    reading the process's environment or the file: the caller passes `Sources`, so tests can replace them.
//!             Rules of a library that takes a setting: the caller passes them as a `Check`.

#![forbid(unsafe_code)]

mod bucket;
pub mod defaults;
mod headers;
mod http_url;
mod nats_url;
mod print;
mod raw;
mod reload;
mod settings;
mod store_url;
mod suggest;
#[cfg(test)]
mod tests;
mod value;

pub use bucket::{BucketKey, BucketUrl};
pub use defaults::DEMO_STORE_DIR;
pub use headers::Headers;
pub use http_url::{HttpUrl, UrlRule};
pub use nats_url::NatsUrl;
pub use print::{changed_line, default_toml, effective_line, effective_toml};
pub use raw::{Origin, Problem};
pub use reload::{Change, changes, merged};
pub use settings::{
    AuthConfig, CanariesConfig, ClusterConfig, CodecConfig, Config, DeflateConfig, DirectsConfig, HookConfig,
    LimitsConfig, LogConfig, ServerConfig, StoreConfig, TlsConfig, TracesConfig, UploadsConfig, UsersConfig,
    VisibilityConfig, VoiceConfig,
};
pub use store_url::{DATABASE_FILE, Database, PostgresUrl, StoreUrl};
pub use value::{
    Addresses, Allowed, BalanceMode, ChatMode, ClientTakeover, CreateAccounts, DashboardMode, DatabaseCheck,
    DeflateMode, DirectsFrom, ExpireSessions, GatewayUrl, HiddenForm, HookFailure, IoUring, KeepEvents, LogFilter,
    LogFormat, MetricsAccess, PrivateEndpoints, PrivateWebhooks, Secret, StreamMode, SubjectIs, Synchronous, Text,
    Upgrades, UploadMode, UsersPreset, VoiceEndpoint,
};

use raw::RawConfig;
use std::path::{Path, PathBuf};

/// The file that is read by default, if it exists.
pub const DEFAULT_FILE: &str = "guildhall.toml";
/// The environment variable that names a file.
pub const FILE_VARIABLE: &str = "GUILDHALL_CONFIG";
/// Prefix of environment variables for settings: `GUILDHALL__SECTION__KEY`.
pub const VARIABLE_PREFIX: &str = "GUILDHALL__";

/// All sources of a configuration. Tests use fake ones.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Defaults of one command that differ from the node's.
    pub defaults: Vec<Flag>,
    /// A TOML file: its name, for messages, and its text.
    pub file: Option<(PathBuf, String)>,
    /// Environment variables; those that do not begin with [`VARIABLE_PREFIX`] are ignored.
    pub environment: Vec<(String, String)>,
    /// From the command line. A later one beats an earlier one.
    pub flags: Vec<Flag>,
}

/// A setting that was given on the command line.
#[derive(Clone, Debug)]
pub struct Flag {
    /// As the user wrote it, for messages: `--listen`.
    pub name: String,
    /// `section.key`.
    pub setting: String,
    /// Value as given by the source.
    pub value: String,
}

impl Flag {
    /// A flag that sets `setting`.
    #[must_use]
    pub fn new(name: &str, setting: &str, value: impl Into<String>) -> Self {
        Self { name: name.to_owned(), setting: setting.to_owned(), value: value.into() }
    }
}

/// A checked configuration, with the source of each value.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// Every setting, in the order of the documentation.
    pub effective: Vec<Effective>,
}

/// One setting and its current value.
#[derive(Clone, Debug)]
pub struct Effective {
    pub section: &'static str,
    /// Name within its section.
    pub key: &'static str,
    /// As TOML; none when it is not set. Secrets are replaced (C3).
    pub text: Option<String>,
    /// Source of the value.
    pub origin: Origin,
    /// Whether SIGHUP applies a new value. Any other setting needs a restart.
    pub is_live: bool,
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{} cannot be read", .path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// One line for each problem.
    #[error("{}", join(.0))]
    Invalid(Vec<Problem>),
}

fn join(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Reads `path`, or [`FILE_VARIABLE`]'s file, or [`DEFAULT_FILE`] if it exists.
///
/// # Errors
/// `Unreadable`; a default file that does not exist is none.
pub fn read_file(
    path: Option<&Path>,
    environment: &[(String, String)],
) -> Result<Option<(PathBuf, String)>, ConfigError> {
    let named = environment.iter().find(|(name, value)| name == FILE_VARIABLE && !value.is_empty());
    let named = path.map(Path::to_owned).or_else(|| named.map(|(_, value)| PathBuf::from(value)));
    let required = named.is_some();
    let path = named.unwrap_or_else(|| PathBuf::from(DEFAULT_FILE));
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some((path, text))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !required => Ok(None),
        Err(source) => Err(ConfigError::Unreadable { path, source }),
    }
}

/// A fault that a [`Check`] found.
#[derive(Clone, Debug)]
pub struct Fault {
    pub section: &'static str,
    pub key: &'static str,
    /// To follow the name of the setting. It has no part of a secret.
    pub what: String,
}

/// Checks settings for a library that takes them.
pub type Check = fn(&Config) -> Vec<Fault>;

/// Lays the sources over the defaults and checks the result, also by `checks`.
///
/// # Errors
/// `Invalid` with everything that is wrong, not only the first.
pub fn load(sources: &Sources, checks: &[Check]) -> Result<Loaded, ConfigError> {
    let mut raw = RawConfig::read(sources);
    let loaded = Config::from_raw(&mut raw);
    let mut problems = raw.into_problems();
    problems.extend(contradictions(&loaded));
    let faults = checks.iter().flat_map(|check| check(&loaded.config));
    problems.extend(faults.map(|Fault { section, key, what }| loaded.problem(section, key, what)));
    if problems.is_empty() { Ok(loaded) } else { Err(ConfigError::Invalid(problems)) }
}

impl Loaded {
    fn problem(&self, section: &str, key: &str, what: String) -> Problem {
        let found = self.effective.iter().find(|e| e.section == section && e.key == key);
        let origin = found.map_or(Origin::Default, |e| e.origin.clone());
        Problem::about(origin, section, key, what)
    }
}

/// Settings that are fine one by one and not together.
fn contradictions(loaded: &Loaded) -> Vec<Problem> {
    let auth = &loaded.config.auth;
    let limits = &loaded.config.limits;
    let mut problems = Vec::new();
    let mut report = |section: &str, key: &str, what: String| problems.push(loaded.problem(section, key, what));
    if auth.jwt_secret.is_some() && auth.jwt_secret_file.is_some() {
        report("auth", "jwt_secret_file", "is set together with auth.jwt_secret; keep one of them".into());
    }
    if auth.admin_key.is_some() && auth.admin_key_file.is_some() {
        report("auth", "admin_key_file", "is set together with auth.admin_key; keep one of them".into());
    }
    let voice = &loaded.config.voice;
    if voice.token_key.is_some() && voice.token_key_file.is_some() {
        report("voice", "token_key_file", "is set together with voice.token_key; keep one of them".into());
    }
    if auth.jwks_file.is_some() && auth.jwks_url.is_some() {
        report("auth", "jwks_url", "is set together with auth.jwks_file; keep one of them".into());
    }
    let key_set = auth.jwks_file.as_ref().map(|_| "auth.jwks_file").or(auth.jwks_url.as_ref().map(|_| "auth.jwks_url"));
    if let (Some(key_set), None) = (key_set, &auth.jwt_audience) {
        let what = format!(
            "is needed with {key_set}: say what the sign-on writes into `aud` for this node; or \"any\", if tokens that it \
             makes for other applications may log in here too"
        );
        report("auth", "jwt_audience", what);
    }
    if auth.jwt_create_accounts == CreateAccounts::On && key_set.is_none() {
        let what = "is \"on\" without a key set: set auth.jwks_file or auth.jwks_url: tokens of that key set make the accounts";
        report("auth", "jwt_create_accounts", what.into());
    }
    let uploads = &loaded.config.uploads;
    if uploads.s3_secret_key.is_some() && uploads.s3_secret_key_file.is_some() {
        let what = "is set together with uploads.s3_secret_key; keep one of them";
        report("uploads", "s3_secret_key_file", what.into());
    }
    if uploads.url.is_some() {
        if uploads.s3_access_key.is_none() {
            report("uploads", "s3_access_key", "is needed with uploads.url".into());
        }
        if uploads.s3_secret_key.is_none() && uploads.s3_secret_key_file.is_none() {
            report("uploads", "s3_secret_key", "or uploads.s3_secret_key_file is needed with uploads.url".into());
        }
    }
    let server = &loaded.config.server;
    if server.admin_listen.is_some_and(|admin| admin == server.listen && admin.port() != 0) {
        report("server", "admin_listen", "is the address of server.listen; take another port".into());
    }
    let tls = &loaded.config.tls;
    match (&tls.cert_file, &tls.key_file) {
        (Some(_), None) => report("tls", "cert_file", "is set without tls.key_file; set both or neither".into()),
        (None, Some(_)) => report("tls", "key_file", "is set without tls.cert_file; set both or neither".into()),
        (Some(_), Some(_)) | (None, None) => {}
    }
    let mut below = |key: &str, value: u32, other: &str, least: u32| {
        if value < least {
            let what = format!("is {value}, less than limits.{other} ({least}): a resume could not be written out");
            report("limits", key, what);
        }
    };
    below("backlog_events_max", limits.backlog_events_max, "replay_events_max", limits.replay_events_max);
    below("backlog_bytes_max", limits.backlog_bytes_max, "replay_bytes_max", limits.replay_bytes_max);
    problems
}
