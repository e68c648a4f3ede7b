//! Local: the key-value store within one process.
//!
//! Owns        the values, and the queues of the watches. Time is tokio's, so that a test can pause and advance it. No
//!             task: a call removes expired values, and a watch wakes when the next one is due.
//! Limits      a watch holds `WATCH_EVENTS_MAX` changes besides the values at its beginning; past that it ends with
//!             `Away`.

use crate::{Entry, KV_TTL_MIN, Key, KeyValue, KvError, KvEvent, KvWatch, Revision, kv::check_size, queue::lock};
use async_trait::async_trait;
use bytes::Bytes;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};
use tokio::{sync::Notify, time::Instant};

/// Changes that wait for one watcher.
const WATCH_EVENTS_MAX: usize = 65_536;

/// A key-value store within one process. A clone is the same store.
#[derive(Clone, Default)]
pub struct LocalKv(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    values: BTreeMap<Key, Stored>,
    /// Values that expire, the next one first.
    due: BTreeSet<(Instant, Key)>,
    revision: u64,
    watches: Vec<Arc<Queue>>,
    is_away: bool,
}

struct Stored {
    entry: Entry,
    expires_at: Option<Instant>,
}

/// Changes on their way to one watcher.
struct Queue {
    prefix: Key,
    waiting: Mutex<Waiting>,
    filled: Notify,
}

#[derive(Default)]
struct Waiting {
    events: VecDeque<KvEvent>,
    /// How many of the first events are values at the beginning.
    initial_count: usize,
    end: Option<String>,
    is_dropped: bool,
}

impl LocalKv {
    /// A store without values.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// While it is away, every call fails with `Away` and does nothing, and all watches have ended.
    /// Values expire meanwhile.
    pub fn set_away(&self, is_away: bool) {
        let mut state = lock(&self.0);
        state.is_away = is_away;
        if is_away {
            state.end_watches("the store is away");
        }
    }

    /// Ends all watches, as a restart of a server does. The values stay.
    pub fn restart(&self) {
        lock(&self.0).end_watches("the store was restarted");
    }

    /// The state as of now.
    fn state(&self) -> Result<MutexGuard<'_, State>, KvError> {
        let mut state = lock(&self.0);
        state.expire(Instant::now());
        if state.is_away { Err(KvError::Away("the store is away".to_owned())) } else { Ok(state) }
    }
}

impl State {
    fn expire(&mut self, now: Instant) {
        while let Some((_, key)) = self.due.first().filter(|(at, _)| *at <= now) {
            let key = key.clone();
            self.remove(&key);
        }
    }

    /// Takes a value away.
    fn remove(&mut self, key: &Key) {
        let Some(stored) = self.values.remove(key) else { return };
        if let Some(at) = stored.expires_at {
            self.due.remove(&(at, key.clone()));
        }
        self.revision += 1;
        self.report(&KvEvent::Gone(key.clone()), key);
    }

    fn put(&mut self, key: &Key, value: Bytes, ttl: Option<Duration>) -> Revision {
        self.revision += 1;
        let entry = Entry { value, revision: Revision(self.revision) };
        let expires_at = ttl.map(|ttl| Instant::now() + ttl.max(KV_TTL_MIN));
        let stored = Stored { entry: entry.clone(), expires_at };
        if let Some(at) = self.values.insert(key.clone(), stored).and_then(|earlier| earlier.expires_at) {
            self.due.remove(&(at, key.clone()));
        }
        self.due.extend(expires_at.map(|at| (at, key.clone())));
        self.report(&KvEvent::Put(key.clone(), entry), key);
        Revision(self.revision)
    }

    /// Fails unless the value has this revision.
    fn expect(&self, key: &Key, expected: Revision) -> Result<(), KvError> {
        match self.values.get(key) {
            Some(stored) if stored.entry.revision == expected => Ok(()),
            _ => Err(KvError::Conflict),
        }
    }

    fn report(&mut self, event: &KvEvent, key: &Key) {
        self.watches.retain(|queue| !key.is_below(&queue.prefix) || queue.push(event));
    }

    fn end_watches(&mut self, reason: &str) {
        for queue in self.watches.drain(..) {
            lock(&queue.waiting).end.get_or_insert_with(|| reason.to_owned());
            queue.filled.notify_one();
        }
    }
}

impl Queue {
    /// False if the watch has ended.
    fn push(&self, event: &KvEvent) -> bool {
        let mut waiting = lock(&self.waiting);
        if waiting.is_dropped || waiting.end.is_some() {
            return false;
        }
        let has_room = waiting.events.len() < waiting.initial_count + WATCH_EVENTS_MAX;
        if has_room {
            waiting.events.push_back(event.clone());
        } else {
            waiting.end = Some("the watcher was slower than the changes".to_owned());
        }
        drop(waiting);
        self.filled.notify_one();
        has_room
    }
}

struct LocalWatch {
    store: Arc<Mutex<State>>,
    queue: Arc<Queue>,
}

impl Drop for LocalWatch {
    fn drop(&mut self) {
        let mut waiting = lock(&self.queue.waiting);
        waiting.is_dropped = true;
        waiting.events.clear();
        drop(waiting);
        lock(&self.store).watches.retain(|queue| !Arc::ptr_eq(queue, &self.queue));
    }
}

#[async_trait]
impl KvWatch for LocalWatch {
    async fn next(&mut self) -> Result<KvEvent, KvError> {
        loop {
            let next_due = {
                let mut state = lock(&self.store);
                state.expire(Instant::now());
                state.due.first().map(|(at, _)| *at)
            };
            {
                let mut waiting = lock(&self.queue.waiting);
                if let Some(event) = waiting.events.pop_front() {
                    waiting.initial_count = waiting.initial_count.saturating_sub(1);
                    return Ok(event);
                }
                if let Some(end) = &waiting.end {
                    return Err(KvError::Away(end.clone()));
                }
            }
            let filled = self.queue.filled.notified();
            match next_due {
                Some(at) => drop(tokio::time::timeout_at(at, filled).await),
                None => filled.await,
            }
        }
    }
}

#[async_trait]
impl KeyValue for LocalKv {
    async fn create(&self, key: &Key, value: Bytes, ttl: Option<Duration>) -> Result<Revision, KvError> {
        check_size(&value)?;
        let mut state = self.state()?;
        match state.values.get(key) {
            Some(stored) => Err(KvError::Exists(stored.entry.clone())),
            None => Ok(state.put(key, value, ttl)),
        }
    }

    async fn update(
        &self,
        key: &Key,
        value: Bytes,
        expected: Revision,
        ttl: Option<Duration>,
    ) -> Result<Revision, KvError> {
        check_size(&value)?;
        let mut state = self.state()?;
        state.expect(key, expected)?;
        Ok(state.put(key, value, ttl))
    }

    async fn delete(&self, key: &Key, expected: Revision) -> Result<(), KvError> {
        let mut state = self.state()?;
        state.expect(key, expected)?;
        state.remove(key);
        Ok(())
    }

    fn is_away(&self) -> bool {
        lock(&self.0).is_away
    }

    async fn get(&self, key: &Key) -> Result<Option<Entry>, KvError> {
        Ok(self.state()?.values.get(key).map(|stored| stored.entry.clone()))
    }

    async fn watch(&self, prefix: &Key) -> Result<Box<dyn KvWatch>, KvError> {
        let mut state = self.state()?;
        let present = state.values.iter().filter(|(key, _)| key.is_below(prefix));
        let mut events: VecDeque<_> =
            present.map(|(key, stored)| KvEvent::Put(key.clone(), stored.entry.clone())).collect();
        events.push_back(KvEvent::Current);
        let waiting = Waiting { initial_count: events.len(), events, ..Waiting::default() };
        let queue = Arc::new(Queue { prefix: prefix.clone(), waiting: Mutex::new(waiting), filled: Notify::new() });
        state.watches.push(queue.clone());
        Ok(Box::new(LocalWatch { store: self.0.clone(), queue }))
    }
}
