//! Bucket: files of all nodes, in an S3-compatible store.
//!
//! Invariants  K2 an object is stored when the store has confirmed it. B1 the node starts without the bucket, and uses
//!             it as soon as it answers. B2 ages of objects are measured on the clock of the store, which set their
//!             times. B3 no credential is printed or logged. (tests `it::bucket`, `it::contract`)
//! Limits      `RETRIES_MAX` retries within `RETRY_WITHIN`; the times of `client`. Larger files than `PART_BYTES` go up
//!             in parts of that size, one after the other; `UPLOADS_MAX` uploads at a time, further ones wait. The log
//!             has one line per `LOG_EVERY` while the bucket fails.

use crate::{
    Entry, FileStorage, Opened, StorageError,
    client::{Connector, ServerClock},
    is_key,
};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};
use guildhall_http_client::TlsConnector;
use object_store::{
    BackoffConfig, GetOptions, GetRange, MultipartUpload as _, ObjectMeta, ObjectStore, ObjectStoreExt as _,
    RetryConfig,
    aws::{AmazonS3, AmazonS3Builder},
    path::Path as ObjectPath,
};
use std::{
    error::Error,
    fmt,
    io::Read as _,
    ops::Range,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};
use tokio::sync::Semaphore;

/// The smallest part that stores accept, except for the last one.
const PART_BYTES: usize = 5 << 20;
/// 40 MiB of parts in memory.
const UPLOADS_MAX: usize = 8;
/// First bytes of a file that are read to find its type. Most pictures are not larger, and need one request.
const HEAD_BYTES: u64 = 64 << 10;
const RETRIES_MAX: usize = 2;
const RETRY_WITHIN: Duration = Duration::from_secs(10);
const LOG_EVERY: Duration = Duration::from_secs(30);

/// Address and credentials of a bucket.
#[derive(Clone)]
pub struct BucketOptions {
    /// Name of the bucket.
    pub bucket: String,
    /// Beginning of all keys, without slashes around it; may be empty.
    pub prefix: String,
    /// Base URL of the store. None: AWS, in `region`.
    pub endpoint: Option<String>,
    /// Region, which signatures contain.
    pub region: String,
    /// Id of the access key.
    pub access_key: String,
    /// Signs requests.
    pub secret_key: String,
    /// For https://.
    pub tls: Option<TlsConnector>,
    /// Age from which on no command can be about to refer to an object.
    pub settled_after: Duration,
    /// From a request to the head of its response; also for the body of a request, which has at most a part of a file.
    pub answer_within: Duration,
}

impl fmt::Debug for BucketOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bucket, prefix, endpoint, region, .. } = self;
        write!(f, "BucketOptions {{ {bucket:?}, {prefix:?}, {endpoint:?}, {region:?}, credentials: (hidden) }}")
    }
}

/// The driver. Cheap to clone.
#[derive(Clone)]
pub struct Bucket(Arc<Inner>);

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bucket")
    }
}

struct Inner {
    store: AmazonS3,
    prefix: String,
    clock: Arc<ServerClock>,
    settled_after: Duration,
    uploads: Semaphore,
    health: Health,
}

/// Counts failures, and logs some of them.
#[derive(Default)]
struct Health {
    failures: AtomicU64,
    /// When the current outage was logged last.
    logged_at: Mutex<Option<Instant>>,
}

impl Health {
    fn failed(&self, error: &(dyn Error + 'static)) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        let mut logged_at = self.logged_at.lock().unwrap_or_else(PoisonError::into_inner);
        if logged_at.is_none_or(|at| at.elapsed() >= LOG_EVERY) {
            *logged_at = Some(Instant::now());
            tracing::error!(error, "the bucket of files cannot be used: requests for files get 503");
        }
    }

    fn worked(&self) {
        if self.logged_at.lock().unwrap_or_else(PoisonError::into_inner).take().is_some() {
            tracing::info!("the bucket of files can be used again");
        }
    }
}

/// Error message of the store, without the response body: the body may repeat the id of the access key.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct ErrorText(String);

impl ErrorText {
    fn new(error: &object_store::Error) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(error) = source {
            let more = error.to_string();
            if !text.contains(&more) {
                text = format!("{text}: {more}");
            }
            source = error.source();
        }
        let code = text.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
        let code = code.map(|(code, _)| format!(" ({code})")).unwrap_or_default();
        let head = text.split('<').next().unwrap_or_default().trim_end();
        Self(format!("{head}{code}"))
    }
}

impl Bucket {
    /// Connects to nothing yet (B1).
    ///
    /// # Errors
    /// The options do not fit together.
    pub fn new(options: BucketOptions) -> Result<Self, StorageError> {
        let clock = Arc::new(ServerClock::default());
        let backoff = BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(2),
            ..BackoffConfig::default()
        };
        let retry = RetryConfig { backoff, max_retries: RETRIES_MAX, retry_timeout: RETRY_WITHIN };
        let is_aws = options.endpoint.is_none();
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(options.bucket)
            .with_region(options.region)
            .with_access_key_id(options.access_key)
            .with_secret_access_key(options.secret_key)
            // Others than AWS may have no names for their buckets.
            .with_virtual_hosted_style_request(is_aws)
            .with_disable_bulk_delete(true)
            .with_disable_tagging(true)
            .with_retry(retry)
            .with_http_connector(Connector {
                tls: options.tls,
                clock: clock.clone(),
                answer_within: options.answer_within,
            });
        if let Some(endpoint) = options.endpoint {
            builder = builder.with_allow_http(endpoint.starts_with("http://")).with_endpoint(endpoint);
        }
        let store = builder.build().map_err(|error| StorageError::Unavailable(Box::new(ErrorText::new(&error))))?;
        Ok(Self(Arc::new(Inner {
            store,
            prefix: if options.prefix.is_empty() { String::new() } else { format!("{}/", options.prefix) },
            clock,
            settled_after: options.settled_after,
            uploads: Semaphore::new(UPLOADS_MAX),
            health: Health::default(),
        })))
    }
}

/// Files that a removal takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Removal {
    Always,
    /// Only one that was written a while ago.
    IfSettled,
}

impl Inner {
    /// The object of a key (K1).
    fn path(&self, key: &str) -> ObjectPath {
        assert!(is_key(key), "{key:?} is no key");
        ObjectPath::from(format!("{}{key}", self.prefix))
    }

    /// The result for the caller; counts and logs failures of the bucket.
    fn done<T>(&self, result: object_store::Result<T>) -> Result<T, StorageError> {
        match result {
            Ok(done) => {
                self.health.worked();
                Ok(done)
            }
            Err(error) => {
                let text = ErrorText::new(&error);
                self.health.failed(&text);
                Err(StorageError::Unavailable(Box::new(text)))
            }
        }
    }

    /// As `done` for one object: that it does not exist is an answer of the bucket.
    fn found<T>(&self, result: object_store::Result<T>) -> Result<T, StorageError> {
        match result {
            Err(error @ object_store::Error::NotFound { .. }) if !ErrorText::new(&error).0.contains("NoSuchBucket") => {
                self.health.worked();
                Err(StorageError::NotFound)
            }
            result => self.done(result),
        }
    }

    async fn meta(&self, path: &ObjectPath) -> Result<Option<ObjectMeta>, StorageError> {
        match self.found(self.store.head(path).await) {
            Ok(meta) => Ok(Some(meta)),
            Err(StorageError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn is_settled(&self, written_at: SystemTime) -> bool {
        // Dates have whole seconds: an object may seem to be from the future.
        self.clock.now().duration_since(written_at).unwrap_or_default() >= self.settled_after
    }

    async fn remove(&self, key: &str, removal: Removal) -> Result<Option<u64>, StorageError> {
        let path = self.path(key);
        let Some(meta) = self.meta(&path).await? else { return Ok(None) };
        if removal == Removal::IfSettled && !self.is_settled(meta.last_modified.into()) {
            return Ok(None);
        }
        self.found(self.store.delete(&path).await)?;
        Ok(Some(meta.size))
    }

    async fn get(&self, path: &ObjectPath, range: Range<u64>) -> Result<object_store::GetResult, StorageError> {
        let options = GetOptions { range: Some(GetRange::Bounded(range)), ..GetOptions::default() };
        self.found(self.store.get_opts(path, options).await)
    }

    async fn put_parts(&self, path: &ObjectPath, from: &Path) -> Result<(), StorageError> {
        let mut upload = self.done(self.store.put_multipart(path).await)?;
        let uploaded = async {
            let mut file = tokio::fs::File::open(from).await?.into_std().await;
            loop {
                let (part, rest) = crate::blocking(move || {
                    let mut part = Vec::new();
                    file.by_ref().take(PART_BYTES as u64).read_to_end(&mut part)?;
                    Ok::<_, std::io::Error>((part, file))
                })
                .await?;
                file = rest;
                if part.is_empty() {
                    break;
                }
                self.done(upload.put_part(part.into()).await)?;
            }
            self.done(upload.complete().await).map(drop)
        };
        let uploaded = uploaded.await;
        if uploaded.is_err() {
            // The store keeps the parts of an upload that a crash interrupts until its own rule removes them.
            let _ = upload.abort().await;
        }
        uploaded
    }
}

/// An object that is about to be read.
pub struct Remote {
    inner: Arc<Inner>,
    path: ObjectPath,
    /// Size of the whole object.
    pub bytes: u64,
    /// When it was written, by the clock of the store.
    pub written_at: SystemTime,
    /// Its first bytes.
    pub head: Bytes,
}

impl Remote {
    /// The bytes of `range`, which is within the object. A stream that fails has been counted and logged.
    ///
    /// # Errors
    /// [`StorageError`].
    pub async fn read(
        self,
        range: Range<u64>,
    ) -> Result<BoxStream<'static, Result<Bytes, StorageError>>, StorageError> {
        let in_head = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(self.head.len());
        let head = self.head.slice(in_head(range.start)..in_head(range.end));
        let rest = range.start.max(self.head.len() as u64)..range.end;
        let begin = stream::iter((!head.is_empty()).then_some(Ok(head)));
        if rest.is_empty() {
            return Ok(begin.boxed());
        }
        let rest = self.inner.get(&self.path, rest).await?.into_stream();
        let inner = self.inner;
        Ok(begin.chain(rest.map(move |piece| inner.done(piece))).boxed())
    }
}

#[async_trait]
impl FileStorage for Bucket {
    async fn put_file(&self, key: &str, from: &Path, bytes: u64) -> Result<(), StorageError> {
        let (inner, path) = (&*self.0, self.0.path(key));
        let _slot = inner.uploads.acquire().await;
        if inner.meta(&path).await?.is_some() {
            return Err(StorageError::AlreadyExists);
        }
        if bytes > PART_BYTES as u64 {
            return inner.put_parts(&path, from).await;
        }
        let content = tokio::fs::read(from).await?;
        inner.done(inner.store.put(&path, content.into()).await).map(drop)
    }

    /// Writes an object that exists again, so that no other node takes it for an old one.
    async fn put(&self, key: &str, content: Bytes) -> Result<bool, StorageError> {
        let (inner, path) = (&*self.0, self.0.path(key));
        let _slot = inner.uploads.acquire().await;
        let is_new = inner.meta(&path).await?.is_none();
        inner.done(inner.store.put(&path, content.into()).await)?;
        Ok(is_new)
    }

    async fn remove(&self, key: &str) -> Result<Option<u64>, StorageError> {
        self.0.remove(key, Removal::Always).await
    }

    async fn remove_settled(&self, key: &str) -> Result<Option<u64>, StorageError> {
        self.0.remove(key, Removal::IfSettled).await
    }

    async fn open(&self, key: &str) -> Result<Opened, StorageError> {
        let (inner, path) = (self.0.clone(), self.0.path(key));
        let options = GetOptions { range: Some(GetRange::Bounded(0..HEAD_BYTES)), ..GetOptions::default() };
        let found = match inner.store.get_opts(&path, options).await {
            // No range is in an empty object. The text has the URL and a duration too, so the number
            // alone means nothing.
            Err(error) if ErrorText::new(&error).0.contains("status code: 416") => {
                let meta = inner.meta(&path).await?.ok_or(StorageError::NotFound)?;
                let remote =
                    Remote { bytes: meta.size, written_at: meta.last_modified.into(), head: Bytes::new(), inner, path };
                return Ok(Opened::Remote(remote));
            }
            found => inner.found(found)?,
        };
        let meta = found.meta.clone();
        let head = inner.done(found.bytes().await)?;
        Ok(Opened::Remote(Remote { bytes: meta.size, written_at: meta.last_modified.into(), head, inner, path }))
    }

    fn list(&self, prefix: &str) -> BoxStream<'_, Result<Entry, StorageError>> {
        let inner = &*self.0;
        let below = format!("{}{prefix}", inner.prefix);
        let below = (!below.is_empty()).then(|| ObjectPath::from(below));
        let listed = inner.store.list(below.as_ref()).map(|meta| inner.done(meta));
        let entries = listed.try_filter_map(move |meta| async move {
            let key = meta.location.as_ref().strip_prefix(&inner.prefix).filter(|key| is_key(key));
            Ok(key.map(|key| Entry {
                key: key.to_owned(),
                bytes: meta.size,
                is_settled: inner.is_settled(meta.last_modified.into()),
            }))
        });
        entries.boxed()
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn failures_count(&self) -> u64 {
        self.0.health.failures.load(Ordering::Relaxed)
    }

    async fn check(&self) -> Result<(), StorageError> {
        let unlike = |text: &str| StorageError::Unavailable(text.into());
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let key = format!("probe/{}-{}", std::process::id(), now.as_nanos());
        let content = Bytes::from_static(b"guildhall");
        self.put(&key, content.clone()).await?;
        let checked = async {
            match self.open(&key).await {
                Ok(Opened::Remote(remote)) if remote.head == content => {}
                Ok(_) => return Err(unlike("the object that was written has other bytes when it is read")),
                Err(StorageError::NotFound) => return Err(unlike("the object that was written is not found")),
                Err(error) => return Err(error),
            }
            let mut listed = self.list("probe/");
            while let Some(entry) = listed.try_next().await? {
                if entry.key == key {
                    return Ok(());
                }
            }
            Err(unlike("the object that was written is not in the list of the bucket"))
        };
        let checked = checked.await;
        let removed = self.remove(&key).await;
        checked?;
        removed.map(drop)
    }
}
