//! Options: how a store reaches its PostgreSQL database.
//!
//! Invariants  the password is in no text: neither in `Debug`, nor in an error, nor in the log. A server on another
//!             machine is authenticated by its certificate, unless the URL has another `sslmode`.

use crate::StoreError;
use percent_encoding::percent_decode_str;
use sqlx::{
    ConnectOptions as _,
    postgres::{PgConnectOptions, PgSslMode},
};
use std::{fmt, net::IpAddr, path::PathBuf, str::FromStr as _};

/// Parameters that a URL may have.
const PARAMETERS: [&str; 11] = [
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "host",
    "port",
    "user",
    "password",
    "dbname",
    "application_name",
    "options",
];

/// Of these, those that name a file.
const FILES: [&str; 3] = ["sslrootcert", "sslcert", "sslkey"];
const ENCODE: &str =
    "special characters of a password must be percent-encoded, like %40 for @, %2F for /, %23 for #, %3F for ?";

/// Other nodes that may have the database open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// No other node.
    #[default]
    Alone,
    /// The nodes of this cluster. Writes of guilds then go by `Store::commit_fenced`.
    Cluster {
        /// The same for all its nodes.
        name: String,
    },
}

/// How a PostgreSQL database is opened.
#[derive(Clone)]
pub struct PostgresOptions {
    pub(super) connect: PgConnectOptions,
    /// Files that the URL names, by parameter.
    files: Vec<(&'static str, PathBuf)>,
    /// Default: `Alone`.
    pub sharing: Sharing,
    /// Connections that commit, at least 1. Default: 4.
    pub write_connections: u32,
    /// Connections that read, at least 1. Further reads wait, and fail after five seconds. Default: 8.
    pub read_connections: u32,
    /// Batches that may wait for a writer, at least 1; then `commit` waits before it queues. Default: 1024.
    pub queued_batches_max: usize,
    /// Operations at which a transaction accepts no further batch. Default: 4096.
    pub transaction_writes_max: usize,
    /// How long commits wait and retry while the server cannot be reached, milliseconds. Default: 5000.
    pub outage_ms: u32,
    /// How long `open` waits for another node to release the database, milliseconds. Default: 10000.
    pub in_use_wait_ms: u32,
}

impl PostgresOptions {
    /// Options for a URL like `postgres://user:password@host:5432/database?sslmode=verify-full`. Missing parts come
    /// from `PGHOST`, `PGUSER`, `PGPASSWORD` and the like, and from `~/.pgpass`. Without `sslmode`, servers on other
    /// machines must have a certificate that is valid for their name.
    ///
    /// # Errors
    /// `Url` when it is not one.
    pub fn new(url: &str) -> Result<Self, StoreError> {
        let wrong = |problem: String| StoreError::Url { problem };
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(wrong("it must begin with `postgres://`".to_owned()));
        }
        let parameters = parameters(url).map_err(wrong)?;
        let files = files(&parameters).map_err(wrong)?;
        // The error of the parser has no part of the URL's password in it.
        let connect = PgConnectOptions::from_str(url);
        let mut connect = connect.map_err(|error| wrong(format!("{}; {ENCODE}", cause(&error))))?;
        let is_local = connect.get_socket().is_some() || is_loopback(connect.get_host());
        if !parameters.iter().any(|(key, _)| *key == "sslmode") && !is_local && std::env::var_os("PGSSLMODE").is_none()
        {
            connect = connect.ssl_mode(PgSslMode::VerifyFull);
        }
        if connect.get_application_name().is_none() {
            connect = connect.application_name("guildhall");
        }
        // A server notices within half a minute that the machine of a node is gone, and releases the node's locks.
        let keepalive =
            [("tcp_keepalives_idle", "10"), ("tcp_keepalives_interval", "5"), ("tcp_keepalives_count", "3")];
        Ok(Self {
            connect: connect.options(keepalive).disable_statement_logging(),
            files,
            sharing: Sharing::Alone,
            write_connections: 4,
            read_connections: 8,
            queued_batches_max: 1024,
            transaction_writes_max: 4096,
            outage_ms: 5000,
            in_use_wait_ms: 10_000,
        })
    }

    /// Files that the URL names, each with its parameter: certificates and a key, which must be readable.
    #[must_use]
    pub fn files(&self) -> &[(&'static str, PathBuf)] {
        &self.files
    }

    /// Server and database for errors and the log, without the password.
    #[must_use]
    pub fn server(&self) -> String {
        let database = self.connect.get_database().unwrap_or(self.connect.get_username());
        match self.connect.get_socket() {
            Some(socket) => format!("{database} at {}", socket.display()),
            None => format!("{database} at {}:{}", self.connect.get_host(), self.connect.get_port()),
        }
    }
}

impl fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { connect: _, write_connections, read_connections, .. } = self;
        let mut debug = f.debug_struct("PostgresOptions");
        debug.field("server", &self.server()).field("write_connections", write_connections);
        debug.field("read_connections", read_connections).finish_non_exhaustive()
    }
}

/// The parameters of a URL, or the fault in them, without any part of a password.
fn parameters(url: &str) -> Result<Vec<(&'static str, String)>, String> {
    let (place, query) = url.split_once('?').unwrap_or((url, ""));
    let path = place.split_once("://").and_then(|(_, rest)| rest.split_once('/')).map_or("", |(_, path)| path);
    // They would be in a name or parameter, and a part of the password with them.
    if url.contains('#') || path.contains('@') || query.contains('@') {
        return Err(format!("it has `#`, or `@` after `/` or `?`: {ENCODE}"));
    }
    let mut parameters = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let Some(known) = PARAMETERS.into_iter().find(|known| *known == key) else {
            return Err(format!("`{key}` is not a parameter; there are {}", PARAMETERS.join(", ")));
        };
        parameters.push((known, percent_decode_str(value).decode_utf8_lossy().into_owned()));
    }
    Ok(parameters)
}

/// The files that parameters name. Their content in the URL itself, which the driver would accept, could be a secret.
fn files(parameters: &[(&'static str, String)]) -> Result<Vec<(&'static str, PathBuf)>, String> {
    let named = parameters.iter().filter(|(key, _)| FILES.contains(key));
    named
        .map(|(key, value)| match value.trim_start().starts_with("-----") || value.is_empty() {
            true => Err(format!("{key} must be the path of a PEM file")),
            false => Ok((*key, PathBuf::from(value))),
        })
        .collect()
}

/// The innermost source of an error.
fn cause(error: &dyn std::error::Error) -> String {
    let sources = std::iter::successors(Some(error), |error| error.source());
    sources.last().map_or_else(String::new, ToString::to_string)
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.starts_with('/') || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(url: &str) -> String {
        PostgresOptions::new(url).expect_err(url).to_string()
    }

    #[test]
    fn servers_on_other_machines_need_a_certificate() {
        let mode = |url: &str| format!("{:?}", PostgresOptions::new(url).unwrap().connect.get_ssl_mode());
        assert_eq!(mode("postgres://a:b@db.example.net/guildhall"), "VerifyFull");
        assert_eq!(mode("postgres://a:b@192.0.2.1/guildhall"), "VerifyFull");
        assert_eq!(mode("postgres://a:b@db.example.net/guildhall?sslmode=require"), "Require");
        assert_eq!(mode("postgres://a:b@127.0.0.1/guildhall"), "Prefer");
        assert_eq!(mode("postgres://a:b@[::1]/guildhall"), "Prefer");
        assert_eq!(mode("postgres://a@localhost/guildhall?host=/run/postgresql"), "Prefer");
    }

    #[test]
    fn the_password_is_nowhere() {
        let options = PostgresOptions::new("postgres://ana:hunter2@db.example.net:6432/guildhall").unwrap();
        assert_eq!(options.server(), "guildhall at db.example.net:6432");
        assert!(!format!("{options:?}").contains("hunter2"), "{options:?}");
        for url in [
            "mysql://ana:hunter2@db/x",
            "postgres://ana:hunter2@db:port/x",
            "postgres://ana:hunter2@db/x?a=b",
            "postgres://ana:a?hunter2=b@db/x",
            "postgres://ana:1/hunter2@db/x",
            "postgres://ana:1#hunter2@db/x",
            "postgres://ana:hunter2@db/x?password=hunter2&sslmode=maybe",
            "postgres://db/x?sslkey=-----BEGIN%20PRIVATE%20KEY-----hunter2",
        ] {
            assert!(!problem(url).contains("hunter2"), "{}", problem(url));
        }
    }

    #[test]
    fn files_of_a_url() {
        let options = PostgresOptions::new("postgres://db/x?sslrootcert=/etc/a%20b.pem&sslkey=k.pem").unwrap();
        assert_eq!(options.files(), [("sslrootcert", "/etc/a b.pem".into()), ("sslkey", PathBuf::from("k.pem"))]);
        assert!(problem("postgres://db/x?sslcert=").contains("sslcert must be the path of a PEM file"));
    }

    #[test]
    fn faulty_urls() {
        assert!(problem("data/node").contains("must begin with `postgres://`"));
        assert!(problem("postgres://db/x?sslmod=require").contains("`sslmod` is not a parameter; there are sslmode, "));
        assert!(problem("postgres://db:x/y").contains("invalid port"), "{}", problem("postgres://db:x/y"));
        assert!(
            problem("postgres://db/x?sslmode=maybe").contains("maybe"),
            "{}",
            problem("postgres://db/x?sslmode=maybe")
        );
    }
}
