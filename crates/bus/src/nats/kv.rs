//! Key-value store in a bucket of JetStream.
//!
//! Owns        the bucket `PREFIX-leases`: the stream `KV_PREFIX-leases` with one message per key. The
//!             sequence number of a message is the revision of its value.
//! Invariants  see `kv`. Writes carry `Nats-Expected-Last-Subject-Sequence`, and `Nats-TTL` in each: a time to live is
//!             that of one message, and `create` and `update` of the client library leave it out after a deletion.
//!             Reads go to the leader of the stream, never to a replica that may be behind.
//! Limits      each call takes at most `NatsOptions::answer_max`. Marks of removed keys stay for `MARK_TTL`: a bucket
//!             grows with the keys that were used in that time, up to `BUCKET_BYTES_MAX`; then writes fail with `Away`.
//! Spec        ADR-8 (buckets) and ADR-43 (time to live) of nats-architecture-and-design. The durability of a write is
//!             that of the server: with `sync_interval: always` it is on disk before the answer.

use super::{
    NatsError, NatsOptions,
    link::{AskError, Link},
};
use crate::{Entry, KV_TTL_MIN, Key, KeyValue, KvError, KvEvent, KvWatch, Revision, kv::check_size};
use async_nats::{
    HeaderMap, header,
    jetstream::{
        self,
        consumer::{DeliverPolicy, push},
        kv::Config,
        stream::{StorageType, Stream},
    },
};
use async_trait::async_trait;
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use bytes::Bytes;
use futures_util::StreamExt as _;
use serde::Deserialize;
use std::{collections::HashSet, sync::Arc, time::Duration};
use tokio::{sync::watch, time::timeout};

/// How long the mark of a removed key stays. Watches that were interrupted begin again, so it may be short.
const MARK_TTL: Duration = Duration::from_secs(600);
const BUCKET_BYTES_MAX: i64 = 64 << 20;
/// Attempts of `create` while others create and remove the key.
const CREATES_MAX: u32 = 4;
/// A watch that has more to report and is silent for this long ends.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// Errors of JetStream: another last sequence number (old and new servers), no message.
const WRONG_LAST: [u64; 2] = [10_071, 10_164];
const NO_MESSAGE: u64 = 10_037;

const OPERATION: &str = "KV-Operation";
const DELETED: &str = "DEL";

/// A key-value store in NATS JetStream. A clone is the same connection.
#[derive(Clone)]
pub struct NatsKv(Arc<Shared>);

struct Shared {
    link: Link,
    stream: Stream,
    bucket: String,
}

/// Last message of a key.
enum Last {
    None,
    /// A mark of its removal.
    Mark(u64),
    Value(Entry),
}

#[derive(Deserialize)]
struct ApiError {
    #[serde(default)]
    err_code: u64,
    #[serde(default)]
    description: String,
}

/// Answer to a write.
#[derive(Deserialize)]
struct Stored {
    error: Option<ApiError>,
    #[serde(default)]
    seq: u64,
}

/// Answer to a read.
#[derive(Deserialize)]
struct Read {
    error: Option<ApiError>,
    message: Option<ReadMessage>,
}

#[derive(Deserialize)]
struct ReadMessage {
    seq: u64,
    /// Base64, as `data`.
    #[serde(default)]
    hdrs: String,
    #[serde(default)]
    data: String,
}

fn away(problem: impl ToString) -> KvError {
    KvError::Away(problem.to_string())
}

fn parsed<'a, T: Deserialize<'a>>(answer: &'a [u8]) -> Result<T, KvError> {
    serde_json::from_slice(answer).map_err(|error| away(format!("NATS answers something else ({error})")))
}

impl From<AskError> for KvError {
    fn from(error: AskError) -> Self {
        away(match error {
            AskError::Away => "there is no connection to NATS",
            AskError::NoResponders => "JetStream does not answer: its stream has no leader, or it is disabled",
            AskError::Timeout => "NATS did not answer in time",
        })
    }
}

impl NatsKv {
    /// Connects to the first server that answers, and creates the bucket if it does not exist.
    ///
    /// # Errors
    /// See `NatsError`.
    pub async fn connect(options: &NatsOptions) -> Result<Self, NatsError> {
        let link = Link::connect(options).await?;
        let bucket = format!("{}-leases", options.name_prefix);
        let mut context = jetstream::new(link.client.clone());
        context.set_timeout(super::CONNECT_MAX);
        let config = Config {
            bucket: bucket.clone(),
            description: "Leases of Guildhall nodes".to_owned(),
            history: 1,
            max_bytes: BUCKET_BYTES_MAX,
            storage: StorageType::File,
            num_replicas: options.replicas,
            limit_markers: Some(MARK_TTL),
            ..Config::default()
        };
        let problem =
            |error: &dyn std::error::Error| NatsError::Bucket { bucket: bucket.clone(), problem: error.to_string() };
        let store = match context.get_key_value(&bucket).await {
            Ok(store) => store,
            // It does not exist; or another node creates it at the same time, or something is wrong and happens again.
            Err(_) => match context.create_key_value(config.clone()).await {
                Ok(store) => store,
                Err(error) => context.get_key_value(&bucket).await.map_err(|_| problem(&error))?,
            },
        };
        let found = &store.stream.cached_info().config;
        if !found.allow_message_ttl || found.max_messages_per_subject != 1 {
            let problem = "it was not created by Guildhall: delete it, or use another prefix of names".to_owned();
            return Err(NatsError::Bucket { bucket, problem });
        }
        let store = if found.num_replicas < options.replicas {
            context.update_key_value(config).await.map_err(|error| problem(&error))?
        } else {
            store
        };
        Ok(Self(Arc::new(Shared { link, stream: store.stream, bucket })))
    }
}

impl Shared {
    fn subject(&self, key: &str) -> String {
        format!("$KV.{}.{key}", self.bucket)
    }

    /// Fails if a call takes too long, whatever its number of requests.
    async fn bounded<T>(&self, call: impl Future<Output = Result<T, KvError>>) -> Result<T, KvError> {
        timeout(self.link.answer_max, call).await.unwrap_or_else(|_| Err(AskError::Timeout.into()))
    }

    /// Stores a message if the last one of its subject has the expected number; 0: if there is none.
    async fn put(
        &self,
        key: &Key,
        value: Bytes,
        expected: u64,
        ttl: Option<Duration>,
        operation: Option<&'static str>,
    ) -> Result<Revision, KvError> {
        let mut headers = HeaderMap::new();
        headers.insert(header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, expected.to_string());
        if let Some(ttl) = ttl {
            let seconds = ttl.max(KV_TTL_MIN).as_millis().div_ceil(1_000);
            headers.insert(header::NATS_MESSAGE_TTL, seconds.to_string());
        }
        if let Some(operation) = operation {
            headers.insert(OPERATION, operation);
        }
        let subject = self.subject(key.as_str());
        let answer = self.link.ask(subject, Some(headers), value, self.link.answer_max).await?;
        match parsed::<Stored>(&answer.payload)? {
            Stored { error: None, seq } => Ok(Revision(seq)),
            Stored { error: Some(error), .. } if WRONG_LAST.contains(&error.err_code) => Err(KvError::Conflict),
            Stored { error: Some(error), .. } => Err(away(format!("NATS refuses the write: {}", error.description))),
        }
    }

    async fn last(&self, key: &Key) -> Result<Last, KvError> {
        let subject = format!("$JS.API.STREAM.MSG.GET.KV_{}", self.bucket);
        let question = serde_json::json!({ "last_by_subj": self.subject(key.as_str()) }).to_string();
        let answer = self.link.ask(subject, None, question.into(), self.link.answer_max).await?;
        let ReadMessage { seq, hdrs, data } = match parsed::<Read>(&answer.payload)? {
            Read { error: Some(error), .. } if error.err_code == NO_MESSAGE => return Ok(Last::None),
            Read { error: Some(error), .. } => {
                return Err(away(format!("NATS refuses the read: {}", error.description)));
            }
            Read { message: Some(message), .. } => message,
            Read { message: None, .. } => return Err(away("NATS answers something else")),
        };
        let decoded = |text: &str| BASE64.decode(text).map_err(|_| away("NATS answers something else"));
        if is_mark(&decoded(&hdrs)?) {
            return Ok(Last::Mark(seq));
        }
        Ok(Last::Value(Entry { value: decoded(&data)?.into(), revision: Revision(seq) }))
    }
}

/// Whether headers as text are those of a removal: by a node, or by the server when a value expired.
fn is_mark(headers: &[u8]) -> bool {
    headers.split(|byte| *byte == b'\n').any(|line| {
        line.split(|byte| *byte == b':').next().is_some_and(|name| {
            name.eq_ignore_ascii_case(OPERATION.as_bytes()) || name.eq_ignore_ascii_case(b"Nats-Marker-Reason")
        })
    })
}

#[async_trait]
impl KeyValue for NatsKv {
    async fn create(&self, key: &Key, value: Bytes, ttl: Option<Duration>) -> Result<Revision, KvError> {
        check_size(&value)?;
        let of = &self.0;
        of.bounded(async {
            let mut expected = 0;
            for _ in 0..CREATES_MAX {
                match of.put(key, value.clone(), expected, ttl, None).await {
                    Err(KvError::Conflict) => {}
                    result => return result,
                }
                expected = match of.last(key).await? {
                    Last::Value(entry) => return Err(KvError::Exists(entry)),
                    Last::Mark(seq) => seq,
                    Last::None => 0,
                };
            }
            Err(away("others create and remove the key all the time"))
        })
        .await
    }

    async fn update(
        &self,
        key: &Key,
        value: Bytes,
        expected: Revision,
        ttl: Option<Duration>,
    ) -> Result<Revision, KvError> {
        check_size(&value)?;
        // To the server 0 means that there must be no value.
        if expected.0 == 0 {
            return Err(KvError::Conflict);
        }
        self.0.bounded(self.0.put(key, value, expected.0, ttl, None)).await
    }

    async fn delete(&self, key: &Key, expected: Revision) -> Result<(), KvError> {
        if expected.0 == 0 {
            return Err(KvError::Conflict);
        }
        let deleting = self.0.put(key, Bytes::new(), expected.0, Some(MARK_TTL), Some(DELETED));
        self.0.bounded(deleting).await.map(drop)
    }

    async fn get(&self, key: &Key) -> Result<Option<Entry>, KvError> {
        match self.0.bounded(self.0.last(key)).await? {
            Last::Value(entry) => Ok(Some(entry)),
            Last::Mark(_) | Last::None => Ok(None),
        }
    }

    async fn watch(&self, prefix: &Key) -> Result<Box<dyn KvWatch>, KvError> {
        let of = &self.0;
        if of.link.is_away() {
            return Err(AskError::Away.into());
        }
        let mut outages = of.link.outages();
        outages.mark_unchanged();
        let config = push::OrderedConfig {
            deliver_subject: of.link.client.new_inbox(),
            description: Some(of.link.prefix.clone()),
            filter_subject: of.subject(&format!("{prefix}.>")),
            deliver_policy: DeliverPolicy::LastPerSubject,
            ..push::OrderedConfig::default()
        };
        of.bounded(async {
            let consumer = of.stream.create_consumer(config).await.map_err(away)?;
            let is_current = consumer.cached_info().num_pending == 0;
            let changes = consumer.messages().await.map_err(away)?;
            Ok(Box::new(NatsWatch {
                _of: of.clone(),
                changes,
                outages,
                subject: of.subject(""),
                present: HashSet::new(),
                current: if is_current { Current::Due } else { Current::Later },
                end: None,
            }) as Box<dyn KvWatch>)
        })
        .await
    }

    fn is_away(&self) -> bool {
        self.0.link.is_away()
    }
}

/// Whether `KvEvent::Current` was reported.
#[derive(PartialEq, Eq)]
enum Current {
    Later,
    /// It is the next event.
    Due,
    Reported,
}

struct NatsWatch {
    /// Keeps the connection.
    _of: Arc<Shared>,
    changes: push::Ordered,
    outages: watch::Receiver<u64>,
    /// Of all keys, before the key.
    subject: String,
    /// Keys that were reported with a value. A mark of another key is older than this watch, or repeated.
    present: HashSet<Key>,
    current: Current,
    end: Option<String>,
}

impl NatsWatch {
    /// The event of a message; none for a mark of a key that this watch did not report.
    fn event(&mut self, message: &jetstream::Message) -> Result<Option<KvEvent>, String> {
        let info = message.info().map_err(|error| error.to_string())?;
        if info.pending == 0 && self.current == Current::Later {
            self.current = Current::Due;
        }
        let Some(key) = message.subject.strip_prefix(&self.subject).and_then(Key::new) else {
            return Ok(None);
        };
        let is_mark = message.headers.as_ref().is_some_and(|headers| {
            headers.get(OPERATION).is_some() || headers.get(header::NATS_MARKER_REASON).is_some()
        });
        if is_mark {
            return Ok(self.present.remove(&key).then_some(KvEvent::Gone(key)));
        }
        self.present.insert(key.clone());
        let entry = Entry { value: message.payload.clone(), revision: Revision(info.stream_sequence) };
        Ok(Some(KvEvent::Put(key, entry)))
    }

    fn ended<T>(&mut self, reason: impl ToString) -> Result<T, KvError> {
        self.end = Some(reason.to_string());
        Err(away(reason))
    }
}

#[async_trait]
impl KvWatch for NatsWatch {
    async fn next(&mut self) -> Result<KvEvent, KvError> {
        loop {
            if let Some(end) = &self.end {
                return Err(away(end));
            }
            if self.current == Current::Due {
                self.current = Current::Reported;
                return Ok(KvEvent::Current);
            }
            let silence_max = if self.current == Current::Later { SILENCE_MAX } else { Duration::MAX };
            let message = tokio::select! {
                biased;
                _ = self.outages.changed() => return self.ended("the connection to NATS was lost"),
                message = timeout(silence_max, self.changes.next()) => message,
            };
            match message {
                Ok(Some(Ok(message))) => match self.event(&message) {
                    Ok(None) => {}
                    Ok(Some(event)) => return Ok(event),
                    Err(error) => return self.ended(error),
                },
                Ok(Some(Err(error))) => return self.ended(error),
                Ok(None) => return self.ended("the watch was closed"),
                Err(_) => return self.ended("the server did not report all values"),
            }
        }
    }
}
