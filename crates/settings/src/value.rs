//! Values: conversion of a setting's text or TOML scalar to its type, and the error text for invalid ones.

use super::raw::Scalar;
use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    ops::RangeInclusive,
    path::PathBuf,
};
use tracing_subscriber::filter::Targets;

/// The type of a setting.
pub(super) trait Value: Sized + PartialEq {
    /// Restriction of the type, such as a range for numbers.
    type Rule;

    /// Parses a value; `None` if it is not valid by [`Value::expected`].
    fn read(raw: &Scalar, rule: &Self::Rule) -> Option<Self>;
    /// Description of allowed values, to follow "expected".
    fn expected(rule: &Self::Rule) -> String;
    /// Why a value is not valid, where that is more precise than [`Value::expected`]. No part of a secret is in it.
    fn fault(_raw: &Scalar) -> Option<String> {
        None
    }
    /// The value as TOML; `None` if it is not set. A secret is masked.
    fn to_toml(&self) -> Option<String>;
    /// Whether messages must not repeat the value.
    const SECRET: bool = false;
}

macro_rules! whole_numbers {
    ($($type:ty)+) => {$(
        impl Value for $type {
            type Rule = RangeInclusive<$type>;

            fn read(raw: &Scalar, range: &Self::Rule) -> Option<Self> {
                let number = match raw {
                    Scalar::Integer(number) => <$type>::try_from(*number).ok()?,
                    Scalar::Text { text, untyped: true } => text.replace('_', "").parse().ok()?,
                    _ => return None,
                };
                range.contains(&number).then_some(number)
            }
            fn expected(range: &Self::Rule) -> String {
                format!("a whole number from {} to {}", range.start(), range.end())
            }
            fn to_toml(&self) -> Option<String> {
                Some(self.to_string())
            }
        }
    )+};
}
whole_numbers!(u16 u32 u64 i32);

impl Value for SocketAddr {
    type Rule = ();

    /// `localhost` is this machine's own address, independent of name servers.
    fn read(raw: &Scalar, (): &()) -> Option<Self> {
        let text = raw.text()?;
        match text.strip_prefix("localhost:") {
            Some(port) => Some(Self::new(Ipv4Addr::LOCALHOST.into(), port.parse().ok()?)),
            None => text.parse().ok(),
        }
    }
    fn expected((): &()) -> String {
        "an address and port, like \"127.0.0.1:8080\", \"localhost:8080\" or \"0.0.0.0:8080\" for all addresses"
            .to_owned()
    }
    fn to_toml(&self) -> Option<String> {
        Some(quote(&self.to_string()))
    }
}

/// Addresses without ports, separated by commas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses(pub Vec<IpAddr>);

impl Value for Addresses {
    type Rule = ();

    fn read(raw: &Scalar, (): &()) -> Option<Self> {
        let entries = raw.text()?.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        entries.map(|entry| entry.parse().ok()).collect::<Option<_>>().map(Self)
    }
    fn expected((): &()) -> String {
        "addresses with commas between them, like \"10.0.0.1, 10.0.0.2\"".to_owned()
    }
    fn to_toml(&self) -> Option<String> {
        let entries: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        Some(quote(&entries.join(", ")))
    }
}

impl Value for PathBuf {
    type Rule = ();

    fn read(raw: &Scalar, (): &()) -> Option<Self> {
        raw.text().filter(|text| !text.is_empty() && !text.contains('\0')).map(Self::from)
    }
    fn expected((): &()) -> String {
        "a path".to_owned()
    }
    fn to_toml(&self) -> Option<String> {
        Some(quote(&self.to_string_lossy()))
    }
}

/// An empty text means "not set", because environment variables have no other form for it.
impl<T: Value> Value for Option<T> {
    type Rule = T::Rule;
    const SECRET: bool = T::SECRET;

    fn read(raw: &Scalar, rule: &T::Rule) -> Option<Self> {
        if raw.text() == Some("") { Some(None) } else { T::read(raw, rule).map(Some) }
    }
    fn expected(rule: &T::Rule) -> String {
        format!("{}, or \"\" for none", T::expected(rule))
    }
    fn fault(raw: &Scalar) -> Option<String> {
        T::fault(raw)
    }
    fn to_toml(&self) -> Option<String> {
        self.as_ref().and_then(T::to_toml)
    }
}

macro_rules! choices {
    ($(#[$doc:meta])* $name:ident { $($(#[$choice_doc:meta])* $choice:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$choice_doc])* $choice,)+ }

        impl Value for $name {
            type Rule = ();

            fn read(raw: &Scalar, (): &()) -> Option<Self> {
                match raw.text()? {
                    $($text => Some(Self::$choice),)+
                    _ => None,
                }
            }
            fn expected((): &()) -> String {
                [$(concat!("\"", $text, "\"")),+].join(" or ")
            }
            fn to_toml(&self) -> Option<String> {
                Some(quote(match self { $(Self::$choice => $text,)+ }))
            }
        }
    };
}
choices! {
    /// When a commit counts as durable.
    Synchronous {
        /// When it is on the disk.
        Full = "full",
        /// When the operating system has it.
        Normal = "normal",
    }
}

choices! {
    /// Whether the database is checked at the start.
    DatabaseCheck {
        /// Reads every page, by `PRAGMA quick_check`.
        Quick = "quick",
        /// Skips the check.
        Off = "off",
    }
}

choices! {
    /// Default permissions of accounts, where `[users]` does not set one.
    UsersPreset {
        /// Accounts may do everything.
        Open = "open",
        /// Only the backend creates guilds, changes names, opens direct messages, creates invites and removes members.
        Backend = "backend",
    }
}

choices! {
    /// Whether accounts or only the backend may do something.
    Allowed {
        /// Any account that has the permission for it.
        Everyone = "everyone",
        /// Only the backend, over `/v1`.
        Backend = "backend",
    }
}

choices! {
    /// Whether frames are sent in batches.
    IoUring {
        /// If the system supports and allows it.
        Auto = "auto",
        /// permessage-deflate offers are declined.
        Off = "off",
    }
}

choices! {
    /// Answer to offers of permessage-deflate.
    DeflateMode {
        /// Messages are compressed once for all recipients.
        Prepared = "prepared",
        /// A context per connection.
        Takeover = "takeover",
        /// Uncompressed.
        Off = "off",
    }
}

choices! {
    /// How streams are compressed.
    StreamMode {
        /// A library context, then shared-match in the same stream.
        Auto = "auto",
        /// A library context per connection.
        PerConnection = "per-connection",
        /// Shared-match: one match search per event.
        SharedMatch = "shared-match",
    }
}

choices! {
    /// Form of channels that a member cannot view.
    HiddenForm {
        /// All fields except the newest message and pin.
        Listed = "listed",
        /// Type, position and category.
        Obfuscated = "obfuscated",
        /// Hidden channels are not sent.
        Absent = "absent",
    }
}

choices! {
    /// Whether the node serves the chat page.
    ChatMode {
        /// The page is served; people log in with a token.
        On = "on",
        /// The page is served, and each visitor may get a new account.
        Demo = "demo",
        /// The page is not served.
        Off = "off",
    }
}

choices! {
    /// Whether the node serves the dashboard.
    DashboardMode {
        /// Operators log in with a key of the backend API.
        On = "on",
        /// The page is not served.
        Off = "off",
    }
}

choices! {
    /// Allowed recipients of direct messages and groups of accounts.
    DirectsFrom {
        /// Members of a common guild.
        CommonGuild = "common-guild",
        /// Every account.
        Anyone = "anyone",
        /// None: only backends create direct messages.
        Backend = "backend",
    }
}

choices! {
    /// Whether clients may refer to their earlier messages.
    ClientTakeover {
        /// The node keeps a window of earlier messages.
        On = "on",
        /// Each message is independent.
        Off = "off",
    }
}

choices! {
    /// Whether connections may get larger compression contexts.
    Upgrades {
        /// While memory is available.
        Auto = "auto",
        /// Contexts are never upgraded.
        Off = "off",
    }
}

choices! {
    /// Whether the node accepts uploads.
    UploadMode {
        /// Uploads are accepted and served.
        On = "on",
        /// Messages with files are refused.
        Off = "off",
    }
}

choices! {
    /// Whether guilds move for load.
    BalanceMode {
        /// A guild of a loaded node moves to one that is less loaded.
        On = "on",
        /// Guilds of this node stay, and none come for load.
        Off = "off",
    }
}

choices! {
    /// Whether the expiry of a token closes the connection of its session.
    ExpireSessions {
        /// The node closes the connection with 4004.
        On = "on",
        /// Only IDENTIFY and RESUME check the expiry.
        Off = "off",
    }
}

choices! {
    /// Meaning of the subject of a sign-on token.
    SubjectIs {
        /// The account's id, or a name for which this node made an account.
        Id = "id",
        /// The account's external id.
        ExternalId = "external-id",
    }
}

choices! {
    /// Whether the node creates an account for an unknown subject of the sign-on.
    CreateAccounts {
        /// The account is created at the subject's first valid token.
        On = "on",
        /// Tokens of the subject are refused until a backend creates the account.
        Off = "off",
    }
}

choices! {
    /// Whether interactions may go to private networks.
    PrivateEndpoints {
        /// Applications may name addresses of private networks.
        On = "on",
        /// The node refuses such addresses.
        Off = "off",
    }
}

choices! {
    /// Whether webhooks may reach private networks.
    PrivateWebhooks {
        /// Webhooks may call addresses of private networks.
        On = "on",
        /// The node refuses such addresses.
        Off = "off",
    }
}

choices! {
    /// What becomes of a message that the hook does not decide on.
    HookFailure {
        /// It is published.
        Allow = "allow",
        /// It is refused with 503.
        Refuse = "refuse",
    }
}

choices! {
    /// Whether events are kept for backends.
    KeepEvents {
        /// Each event is stored with the change that it reports.
        On = "on",
        /// No event is stored.
        Off = "off",
    }
}

choices! {
    /// Where `/metrics` is served.
    MetricsAccess {
        /// Clients of `server.admin_listen`.
        Local = "local",
        /// Clients of `server.listen` as well.
        Open = "open",
        /// At no address.
        Off = "off",
    }
}

choices! {
    /// Format of log lines.
    LogFormat {
        /// Text for people.
        Text = "text",
        /// One JSON object a line.
        Json = "json",
    }
}

/// A secret, masked in output.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Shorter secrets could be guessed.
    pub const BYTES_MIN: usize = 32;

    /// `None` if it is shorter than [`Secret::BYTES_MIN`].
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        (text.len() >= Self::BYTES_MIN).then(|| Self(text.to_owned()))
    }

    /// The secret itself, for the check of a signature or key.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

impl Value for Secret {
    type Rule = ();
    const SECRET: bool = true;

    fn read(raw: &Scalar, (): &()) -> Option<Self> {
        Self::new(raw.text()?)
    }
    fn expected((): &()) -> String {
        format!("at least {} bytes", Self::BYTES_MIN)
    }
    fn to_toml(&self) -> Option<String> {
        Some(quote("(hidden)"))
    }
}

/// A WebSocket URL: scheme, host, port and maybe a path, without query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayUrl(String);

impl GatewayUrl {
    /// None unless it begins with `ws://` or `wss://` and has a host.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("ws://").or_else(|| text.strip_prefix("wss://"))?;
        let plain =
            text.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'?' | b'#' | b'"' | b'\\' | b'<' | b'>'));
        let has_host = rest.split('/').next().is_some_and(|host| !host.is_empty() && !host.starts_with(':'));
        (plain && has_host).then(|| Self(text.trim_end_matches('/').to_owned()))
    }

    /// The URL without a trailing slash.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Value for GatewayUrl {
    type Rule = ();

    fn read(raw: &Scalar, (): &()) -> Option<Self> {
        Self::parse(raw.text()?)
    }
    fn expected((): &()) -> String {
        "a URL that begins with ws:// or wss:// and has no query".to_owned()
    }
    fn to_toml(&self) -> Option<String> {
        Some(quote(&self.0))
    }
}

/// Address of a media server: host and port, without scheme, as clients expect it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VoiceEndpoint(String);

impl VoiceEndpoint {
    /// `host:port`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Value for VoiceEndpoint {
    type Rule = ();

    fn read(raw: &Scalar, (): &()) -> Option<Self> {
        let text = raw.text()?;
        let (host, port) = text.rsplit_once(':')?;
        let plain = host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b':' | b'[' | b']'));
        (plain && !host.is_empty() && port.parse::<u16>().is_ok_and(|p| p > 0)).then(|| Self(text.to_owned()))
    }
    fn expected((): &()) -> String {
        "host:port without a scheme, like \"voice.example.net:443\"".to_owned()
    }
    fn to_toml(&self) -> Option<String> {
        Some(quote(&self.0))
    }
}

/// A text that another party chooses, such as an issuer's name: printable, not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text(String);

impl Text {
    /// None: it is empty, or has control characters.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        (!text.is_empty() && !text.contains(char::is_control)).then(|| Self(text.to_owned()))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Value for Text {
    type Rule = ();

    fn read(raw: &Scalar, (): &()) -> Option<Self> {
        raw.text().and_then(Self::parse)
    }
    fn expected((): &()) -> String {
        "a text without control characters".to_owned()
    }
    fn to_toml(&self) -> Option<String> {
        Some(quote(&self.0))
    }
}

/// Filter of log lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFilter(String);

impl LogFilter {
    /// `None` if it is not a filter.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let is_level = |level: &str| ["off", "error", "warn", "info", "debug", "trace"].contains(&level);
        // A lone word that is no level would be taken for a module, and silence all the others.
        let fine = text.split(',').all(|part| match part.split_once('=') {
            Some((module, level)) => !module.is_empty() && is_level(level),
            None => is_level(part),
        });
        (fine && text.parse::<Targets>().is_ok()).then(|| Self(text.to_owned()))
    }

    /// The filter in the log library's syntax.
    #[must_use]
    pub fn targets(&self) -> Targets {
        self.0.parse().expect("it was parsed when it was made")
    }
}

impl Value for LogFilter {
    type Rule = ();

    fn read(raw: &Scalar, (): &()) -> Option<Self> {
        Self::parse(raw.text()?)
    }
    fn expected((): &()) -> String {
        "error, warn, info, debug or trace, also per module: \"info,guildhall_net=debug\"".to_owned()
    }
    fn to_toml(&self) -> Option<String> {
        Some(quote(&self.0))
    }
}

/// A TOML basic string.
pub(super) fn quote(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}
