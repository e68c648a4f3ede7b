//! Preflight: opens every file that a configuration names, before a node binds its port or writes anything.
//!
//! Doors       `check`, for `serve` and `config check` alike: both give the same result and exit code; `faults` for
//!             `doctor`.
//! Invariants  nothing is created, changed or stored; whether a directory can be created shows one that is removed at
//!             once. (tests `it::config_check`)
//! Not here    the port, and the content of the database, which depend on other processes and on earlier runs.

use crate::{
    compression,
    database::{self, Options},
    dictionaries, files, issuers, jwks_url,
    secrets::{secret, voice_key},
    start_error::StartError,
    tls,
};
use guildhall_settings::Config;
use guildhall_store::{PostgresOptions, StoreError};
use guildhall_telemetry::traces;
use rustix::fs::{Access, access};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Opens the files that a configuration names.
///
/// # Errors
/// Everything that would prevent the start: `Several` if there is more than one fault.
pub fn check(config: &Config) -> Result<(), StartError> {
    let mut faults = faults(config);
    match faults.len() {
        0 => Ok(()),
        1 => Err(faults.remove(0)),
        _ => Err(StartError::Several(faults)),
    }
}

/// All faults, in the order of the sections.
#[must_use]
pub fn faults(config: &Config) -> Vec<StartError> {
    let Config { auth, cluster, uploads, traces: tracing, .. } = config;
    let unusable = |(path, source)| StartError::Issuers { path, source };
    let bucket = files::bucket(uploads).map(drop);
    let has_jwks_tls = auth.jwks_url.as_ref().is_some_and(|url| url.is_https());
    let is_ca_checked = matches!(bucket, Err(StartError::Bucket(_)));
    let checks = [
        tls::read(&config.tls).map(drop),
        config.codec.dictionaries_dir.as_deref().map_or(Ok(()), |dir| Ok(dictionaries::load(dir).map(drop)?)),
        compression::contexts(&config.codec).map(drop).map_err(StartError::from),
        check_data_dir(&config.store.dir).map_err(StartError::from),
        check_database(config),
        check_cluster(config),
        readable("cluster.nats_credentials_file", cluster.nats_credentials_file.as_deref()),
        readable("cluster.nats_ca_file", cluster.nats_ca_file.as_deref()),
        bucket,
        readable("uploads.s3_secret_key_file", uploads.s3_secret_key_file.as_deref().filter(|_| uploads.url.is_none())),
        readable("uploads.s3_ca_file", uploads.s3_ca_file.as_deref().filter(|_| !is_ca_checked)),
        secret("auth.jwt_secret_file", &auth.jwt_secret, &auth.jwt_secret_file).map(drop),
        secret("auth.admin_key_file", &auth.admin_key, &auth.admin_key_file).map(drop),
        voice_key(&config.voice).map(drop),
        issuers::check(auth).map_err(unusable),
        jwks_url::check(auth).map_err(StartError::from),
        readable("auth.jwks_ca_file", auth.jwks_ca_file.as_deref().filter(|_| !has_jwks_tls)),
        traces::check(tracing).map_err(StartError::from),
        readable("traces.headers_file", tracing.headers_file.as_deref().filter(|_| tracing.endpoint.is_none())),
        readable("traces.ca_file", tracing.ca_file.as_deref().filter(|_| tracing.endpoint.is_none())),
        check_access_log(config.log.access_file.as_deref()),
    ];
    checks.into_iter().filter_map(Result::err).collect()
}

/// For a file that is used only with another setting, or much later.
fn readable(setting: &'static str, path: Option<&Path>) -> Result<(), StartError> {
    let Some(path) = path else { return Ok(()) };
    fs::read(path).map(drop).map_err(|source| StartError::SecretFile { setting, path: path.to_owned(), source })
}

fn check_database(config: &Config) -> Result<(), StartError> {
    match database::options(&config.store)? {
        // `check_data_dir` has looked at it.
        Options::Sqlite(dir) if dir == config.store.dir => Ok(()),
        Options::Sqlite(dir) => Ok(check_data_dir(dir)?),
        Options::Postgres(options) => check_files(&options),
    }
}

fn check_cluster(config: &Config) -> Result<(), StartError> {
    let is_clustered = config.cluster.nats_url.is_some();
    if is_clustered && config.store.sqlite_dir().is_some() { Err(StartError::ClusterStore) } else { Ok(()) }
}

/// Whether the file can be appended to, or created.
fn check_access_log(path: Option<&Path>) -> Result<(), StartError> {
    // `-` is standard output.
    let Some(path) = path.filter(|path| *path != Path::new("-")) else { return Ok(()) };
    let fail = |source| StartError::AccessLog { path: path.to_owned(), source };
    let absolute = std::path::absolute(path).map_err(fail)?;
    let written = if absolute.exists() { Some(&*absolute) } else { absolute.parent() };
    written.map_or(Ok(()), |written| access(written, Access::WRITE_OK).map_err(|error| fail(error.into())))
}

/// Whether the files of a URL can be read.
fn check_files(options: &PostgresOptions) -> Result<(), StartError> {
    for (parameter, path) in options.files() {
        let unreadable = |source| StartError::StoreUrlFile { parameter, path: path.clone(), source };
        fs::read(path).map_err(unreadable)?;
    }
    Ok(())
}

/// Whether the directory can be written, or created.
fn check_data_dir(dir: &Path) -> Result<(), StoreError> {
    let fail = |source| StoreError::DataDir { path: dir.to_owned(), source };
    let absolute = std::path::absolute(dir).map_err(fail)?;
    let mut existing: PathBuf = absolute.clone();
    while !existing.exists() && existing.pop() {}
    if !existing.is_dir() {
        return Err(fail(io::Error::from(io::ErrorKind::NotADirectory)));
    }
    access(&existing, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| fail(error.into()))?;
    if existing.as_path() == absolute {
        return Ok(());
    }
    // Some file systems (/proc) permit it and have no directories of others.
    let probe = existing.join(format!(".guildhall-check-{}", std::process::id()));
    fs::create_dir(&probe).and_then(|()| fs::remove_dir(&probe)).map_err(fail)
}
