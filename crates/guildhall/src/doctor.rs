//! Doctor: finds faults of this machine, the configuration and the data, before or while a node runs.
//!
//! Owns        one function per check, and the advice for each finding.
//! Invariants  a check changes nothing, except for an object in the bucket of files that it removes again, and does not
//!             touch the lock and the port of a running node.
//! Limits      the check of the database reads all of it, however long that takes.
//! Not here    clocks of other machines, which would need a network.

use crate::{
    cluster,
    database::{Options, options},
    exposure::exposed,
    files::bucket,
    open_files, preflight,
    start_error::chain,
};
use guildhall_files::FileStorage as _;
use guildhall_model::{Id, timestamp_of};
use guildhall_settings::{Config, DatabaseCheck, Loaded, UploadMode};
use guildhall_store::{DATABASE_FILE, Inspection, PostgresOptions, StoreError, inspect, inspect_postgres};
use guildhall_telemetry::{certificate::ends_at, disk::DiskUse, memory::MemoryReader};
use std::{
    fmt, fs, io,
    os::unix::fs::MetadataExt as _,
    path::Path,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Nothing to do.
    Fine,
    /// It works, and could be better.
    Warning,
    /// A node would not start, or would lose or leak data.
    Wrong,
}

/// Result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub level: Level,
    /// Name of the check.
    pub what: &'static str,
    /// The finding, and the advice.
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Fine => "ok",
            Level::Warning => "warning",
            Level::Wrong => "WRONG",
        };
        write!(f, "{level:<8} {:<14} {}", self.what, self.text)
    }
}

fn fine(what: &'static str, text: impl Into<String>) -> Finding {
    Finding { level: Level::Fine, what, text: text.into() }
}

fn warning(what: &'static str, text: impl Into<String>) -> Finding {
    Finding { level: Level::Warning, what, text: text.into() }
}

fn wrong(what: &'static str, text: impl Into<String>) -> Finding {
    Finding { level: Level::Wrong, what, text: text.into() }
}

/// Name of the checks of the database.
const DATABASE: &str = "database";
/// Days of validity below which a certificate is reported.
const CERTIFICATE_DAYS_MIN: i64 = 14;
const DAY_S: i64 = 86_400;
/// When this program was written; no right clock is before it: 2026-01-01.
const CLOCK_MIN_S: i64 = 1_767_225_600;
/// So far ahead a newest id may be: clocks are set.
const CLOCK_BEHIND_MS_MAX: i64 = 60_000;
/// Below it connects of a storm are dropped by the kernel.
const BACKLOG_MIN: u64 = 1024;

/// Runs all checks.
pub async fn examine(loaded: &Loaded) -> Vec<Finding> {
    let config = &loaded.config;
    let mut findings = configuration(loaded);
    findings.push(private(&config.store.dir));
    findings.extend(config.store.sqlite_dir().filter(|dir| *dir != config.store.dir).map(private));
    findings.extend(database(config).await);
    findings.extend(cluster(config).await);
    findings.extend(bucket_of_files(config).await);
    findings.extend(files(config));
    findings.push(disk(config));
    findings.push(descriptors(config.server.connections_max));
    findings.extend(kernel());
    findings.push(memory(config));
    findings.extend(certificate(config));
    findings
}

/// Whether NATS can be used, and settings that must agree across nodes.
async fn cluster(config: &Config) -> Vec<Finding> {
    const WHAT: &str = "cluster";
    let Some(url) = &config.cluster.nats_url else { return Vec::new() };
    let mut findings = vec![match cluster::check_nats(config).await {
        Ok(()) => fine(WHAT, format!("NATS at {} can be used", url.redacted())),
        Err(error) => wrong(WHAT, chain(&error)),
    }];
    if findings[0].level == Level::Fine && cluster::is_nats_open(config).await {
        findings.push(warning(WHAT, cluster::NATS_IS_OPEN));
    }
    if config.uploads.mode == UploadMode::On && config.uploads.url.is_none() {
        findings.push(warning(
            WHAT,
            "uploads.mode is \"on\", and uploads.url is not set: each node has files of its own, which the others do not \
             serve. Set uploads.url to a bucket, or uploads.mode to \"off\"",
        ));
    }
    findings
}

/// Files that the configuration names, and readers of its secrets.
fn configuration(loaded: &Loaded) -> Vec<Finding> {
    const WHAT: &str = "configuration";
    let mut findings: Vec<_> =
        preflight::faults(&loaded.config).iter().map(|error| wrong(WHAT, chain(error))).collect();
    if findings.is_empty() {
        findings.push(fine(WHAT, "everything that it names can be opened"));
    }
    findings.extend(exposed(loaded).iter().map(|exposed| warning("secrets", exposed.to_string())));
    findings
}

fn private(dir: &Path) -> Finding {
    const WHAT: &str = "data directory";
    let shown = dir.display();
    let mode = match fs::metadata(dir) {
        Ok(metadata) => metadata.mode() & 0o777,
        Err(_) => return fine(WHAT, format!("{shown} does not exist yet: the first start creates it")),
    };
    let database = fs::metadata(dir.join(DATABASE_FILE)).map_or(0, |file| file.mode() & 0o777);
    if mode & 0o077 != 0 && database & 0o077 != 0 {
        wrong(WHAT, format!("other users can read {shown} (mode {mode:o}): run `chmod go= {shown}`"))
    } else if mode & 0o077 != 0 {
        warning(WHAT, format!("other users can list {shown} (mode {mode:o}): the next start of the node ends that"))
    } else {
        fine(WHAT, format!("{shown} is private (mode {mode:o})"))
    }
}

async fn database(config: &Config) -> Vec<Finding> {
    match options(&config.store) {
        Ok(Options::Sqlite(dir)) => sqlite(config, dir).await,
        Ok(Options::Postgres(options)) => postgres(&options).await,
        Err(error) => vec![wrong(DATABASE, chain(&error))],
    }
}

async fn postgres(options: &PostgresOptions) -> Vec<Finding> {
    let server = options.server();
    let began = Instant::now();
    let found = match inspect_postgres(options).await {
        Ok(found) => found,
        Err(error) => return vec![wrong(DATABASE, chain(&error))],
    };
    let ms = began.elapsed().as_millis();
    let Some(Inspection { schema, schema_known, largest_id, .. }) = found else {
        return vec![fine(DATABASE, format!("{server} answers in {ms} ms and is empty: the first start fills it"))];
    };
    let state = schema_state(schema, schema_known).unwrap_or_else(|| {
        fine(DATABASE, format!("{server} answers in {ms} ms, schema version {schema}; PostgreSQL checks its own pages"))
    });
    vec![state, clock(largest_id)]
}

/// A fault in the version of a schema.
fn schema_state(schema: i64, schema_known: i64) -> Option<Finding> {
    (schema > schema_known).then(|| {
        wrong(
            DATABASE,
            format!("schema version {schema} is newer than this program's {schema_known}: use a newer program"),
        )
    })
}

async fn sqlite(config: &Config, dir: &Path) -> Vec<Finding> {
    if !dir.join(DATABASE_FILE).exists() {
        return vec![fine(DATABASE, "there is none yet")];
    }
    let found = match inspect(dir).await {
        Ok(found) => found,
        Err(error @ StoreError::Damaged { .. }) => return vec![wrong(DATABASE, chain(&error))],
        Err(error) => return vec![wrong(DATABASE, format!("it cannot be read: {}", chain(&error)))],
    };
    let Inspection { schema, schema_known, largest_id, check_ms } = found;
    let bytes = DiskUse::of(dir).database_bytes;
    let mut findings = vec![schema_state(schema, schema_known).unwrap_or_else(|| {
        fine(DATABASE, format!("{} in order, checked in {check_ms} ms, schema version {schema}", megabytes(bytes)))
    })];
    if config.store.check == DatabaseCheck::Off {
        findings.push(warning(DATABASE, "store.check is \"off\": damage is found only where it is read"));
    }
    findings.push(clock(largest_id));
    findings
}

/// Ids hold the time at which they were made.
fn clock(largest_id: u64) -> Finding {
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as i64);
    let newest_ms = if largest_id == 0 { 0 } else { timestamp_of(Id::<()>::new(largest_id)).0 };
    clock_at(now_ms, newest_ms)
}

fn clock_at(now_ms: i64, newest_ms: i64) -> Finding {
    const WHAT: &str = "clock";
    if now_ms < CLOCK_MIN_S * 1000 {
        wrong(WHAT, "the system's clock is years behind: tokens and certificates are judged by it. Set it")
    } else if newest_ms > now_ms + CLOCK_BEHIND_MS_MAX {
        let behind_s = (newest_ms - now_ms) / 1000;
        warning(
            WHAT,
            format!(
                "it is {behind_s} s behind the newest id in the database: either it is wrong, or a backend chose that id"
            ),
        )
    } else {
        fine(WHAT, "not behind the newest id in the database")
    }
}

/// Name of the checks of uploaded files.
const FILES: &str = "files";

/// Whether the bucket can be used: writes, reads, lists and removes a small object. None: files are in the folder.
async fn bucket_of_files(config: &Config) -> Option<Finding> {
    let url = config.uploads.url.as_ref().filter(|_| config.uploads.mode == UploadMode::On)?;
    // A fault in the settings is found by `configuration`.
    let bucket = bucket(&config.uploads).ok()??;
    let began = Instant::now();
    Some(match bucket.check().await {
        Ok(()) => {
            let ms = began.elapsed().as_millis();
            fine(FILES, format!("an object in {url} was written, read, listed and removed in {ms} ms"))
        }
        Err(error) => wrong(
            FILES,
            format!("{url}: {}. See uploads.s3_endpoint, s3_region and the rights of the access key", chain(&error)),
        ),
    })
}

/// Depth of `files/CHANNEL/ID`, and of `files/pictures/FOLDER/OWNER/NAME`.
const FILES_DEPTH: u32 = 4;

/// Files of messages, and pictures. None: there are none yet.
fn files(config: &Config) -> Option<Finding> {
    const WHAT: &str = FILES;
    let dir = config.store.dir.join("files");
    if !dir.exists() {
        return None;
    }
    if config.uploads.url.is_some() {
        return match files_in(&dir, FILES_DEPTH) {
            Ok((0, _)) | Err(_) => None,
            Ok((count, _)) => Some(warning(
                WHAT,
                format!(
                    "{count} files are in {}, and uploads.url is set: the node does not serve them. Copy them into the \
                     bucket under the same names",
                    dir.display()
                ),
            )),
        };
    }
    let bytes_max = config.uploads.bytes_max;
    Some(match files_in(&dir, FILES_DEPTH) {
        Err(error) => wrong(WHAT, format!("{} cannot be read: {error}", dir.display())),
        Ok((count, bytes)) if bytes > bytes_max => warning(
            WHAT,
            format!(
                "{count} files and pictures have {}, more than uploads.bytes_max ({}): further ones are refused. Raise it",
                megabytes(bytes),
                megabytes(bytes_max)
            ),
        ),
        Ok((count, bytes)) => {
            fine(WHAT, format!("{count} files and pictures have {} of {}", megabytes(bytes), megabytes(bytes_max)))
        }
    })
}

/// Number and bytes of files. Files that disappear during the call are ignored: a node may be running.
fn files_in(dir: &Path, depth: u32) -> io::Result<(u64, u64)> {
    let mut sum = (0, 0);
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let found = match entry.metadata() {
            Ok(metadata) if metadata.is_dir() && depth > 0 => files_in(&entry.path(), depth - 1),
            Ok(metadata) => Ok((u64::from(metadata.is_file()), if metadata.is_file() { metadata.len() } else { 0 })),
            Err(error) => Err(error),
        };
        match found {
            Ok((count, bytes)) => sum = (sum.0 + count, sum.1 + bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sum)
}

fn disk(config: &Config) -> Finding {
    const WHAT: &str = "disk";
    let is_sqlite = config.store.sqlite_dir().is_some();
    let mut dir = config.store.sqlite_dir().unwrap_or(&config.store.dir);
    while !dir.exists() {
        match dir.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => dir = parent,
            _ => dir = Path::new("."),
        }
    }
    let Some(free) = DiskUse::of(dir).free_bytes else {
        return warning(WHAT, format!("the free space of {} cannot be read", dir.display()));
    };
    let (least, files) = (config.store.free_bytes_min, config.uploads.bytes_max);
    if is_sqlite && free < least {
        let text = "are free, less than store.free_bytes_min: writes are refused. Make room";
        wrong(WHAT, format!("{} {text}", megabytes(free)))
    } else if free < least.saturating_add(files) {
        warning(
            WHAT,
            format!("{} are free, less than uploads.bytes_max ({}) may need", megabytes(free), megabytes(files)),
        )
    } else {
        fine(WHAT, format!("{} are free", megabytes(free)))
    }
}

fn descriptors(connections_max: u32) -> Finding {
    const WHAT: &str = "open files";
    let places = open_files::places(connections_max, open_files::allowed());
    match places.allowed {
        Some(allowed) if places.connections_max < connections_max => warning(
            WHAT,
            format!(
                "{allowed} are allowed, room for {} of {connections_max} sockets (server.connections_max): \
                 raise LimitNOFILE= or `ulimit -Hn`",
                places.connections_max
            ),
        ),
        Some(allowed) => fine(WHAT, format!("{allowed} are allowed, room for {connections_max} sockets")),
        None => fine(WHAT, "there is no limit"),
    }
}

fn kernel() -> Vec<Finding> {
    let uring = match guildhall_uring::SendBatch::new() {
        Ok(_) => fine("io_uring", "works: frames are sent in batches"),
        Err(error) => {
            warning("io_uring", format!("not available ({error}): each frame is one system call, some 10 % more CPU"))
        }
    };
    let mut findings = vec![uring];
    let backlog =
        fs::read_to_string("/proc/sys/net/core/somaxconn").ok().and_then(|text| text.trim().parse::<u64>().ok());
    if let Some(backlog) = backlog {
        findings.push(if backlog < BACKLOG_MIN {
            let text = "connects of a storm are dropped: set net.core.somaxconn to 4096";
            warning("backlog", format!("net.core.somaxconn is {backlog}: {text}"))
        } else {
            fine("backlog", format!("net.core.somaxconn is {backlog}"))
        });
    }
    findings
}

fn memory(config: &Config) -> Finding {
    match MemoryReader::new(config.codec.memory_bytes_max).read() {
        Ok(memory) => fine("memory", format!("the node may use {}", megabytes(memory.limit_bytes))),
        Err(error) => warning("memory", format!("cannot be read ({error}): set codec.contexts_bytes_max")),
    }
}

fn certificate(config: &Config) -> Option<Finding> {
    const WHAT: &str = "certificate";
    let path = config.tls.cert_file.as_ref()?;
    let Some(ends_s) = ends_at(path) else {
        return Some(warning(WHAT, format!("the end of {} cannot be read", path.display())));
    };
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs() as i64);
    Some(certificate_at(path, ends_s, now_s))
}

fn certificate_at(path: &Path, ends_s: i64, now_s: i64) -> Finding {
    const WHAT: &str = "certificate";
    let (days, shown) = ((ends_s - now_s).div_euclid(DAY_S), path.display());
    if ends_s <= now_s {
        wrong(WHAT, format!("{shown} has expired: clients refuse it. Renew it; the node reads it again by itself"))
    } else if days < CERTIFICATE_DAYS_MIN {
        warning(WHAT, format!("{shown} ends in {days} days: renew it"))
    } else {
        fine(WHAT, format!("{shown} ends in {days} days"))
    }
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_end() {
        let at = |ends_s| certificate_at(Path::new("c.pem"), ends_s, 1_000 * DAY_S).level;
        assert_eq!(at(1_000 * DAY_S), Level::Wrong);
        assert_eq!(at(1_001 * DAY_S), Level::Warning);
        assert_eq!(at(1_014 * DAY_S), Level::Fine);
    }

    #[test]
    fn clocks_are_behind() {
        let now = CLOCK_MIN_S * 1000 + 5;
        assert_eq!(clock_at(now - 6, 0).level, Level::Wrong);
        assert_eq!(clock_at(now, now + CLOCK_BEHIND_MS_MAX + 1).level, Level::Warning);
        assert_eq!(clock_at(now, now).level, Level::Fine);
    }
}
