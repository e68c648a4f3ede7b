//! Installed dictionaries: those of the folder, and those that the lab's API stages, serves and withdraws.
//!
//! Owns        their table in the store, which all nodes of a cluster share, and the sets of this node that follow from
//!             it: of the HTTP server, the partitions and the lab; those that running experiments try.
//! Invariants  I1 a change is durable before this node serves by it. I2 a node of a cluster reads the table every
//!             `READ_EVERY`: each node follows a change within a second. (test `two_nodes_follow_one_table`)
//!             I3 running connections keep their dictionary, whatever becomes of it.
//! Limits      `DICTIONARIES_MAX` dictionaries, with those of the folder; past it none is staged.
//! Not here    the form of the folder: `dictionaries`. Routes: `guildhall-backend`.

use guildhall_backend::{DictionaryBody, LabFault};
use guildhall_codec::{
    DICTIONARIES_MAX, Dictionaries, Dictionary, DictionaryId, DictionarySwitch, Encoding, KnownDictionary, PERMILLE_ALL,
};
use guildhall_partition::SharedDictionaries;
use guildhall_store::{Store, StoreError};
use serde::{Deserialize, Serialize};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};
use tokio::task::JoinHandle;

/// Kind and id of the record with the table.
const TABLE: (&str, &[u8]) = ("dictionary_table", b"table");
/// Kind of the records with the bytes; their ids are those of the dictionaries.
const BYTES: &str = "dictionary";
/// Interval at which a node of a cluster reads the table.
const READ_EVERY: Duration = Duration::from_millis(500);
/// Attempts at a change that another node's change came before.
const CHANGES_TRIED_MAX: u32 = 8;

/// Use of a dictionary by a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Staged,
    Served,
    Withdrawn,
}

impl State {
    const fn name(self) -> &'static str {
        match self {
            Self::Staged => "staged",
            Self::Served => "served",
            Self::Withdrawn => "withdrawn",
        }
    }
}

/// A dictionary of the table.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
struct Entry {
    id: String,
    /// `json` or `etf`.
    encoding: String,
    state: State,
    permille: u16,
    /// Unix time, seconds.
    staged_at: u64,
    /// False: the bytes are in the folder of a node.
    has_bytes: bool,
}

impl Entry {
    fn id(&self) -> Option<DictionaryId> {
        self.id.parse().ok()
    }
}

/// The dictionaries of a cluster, the newest last. Those of a folder are in it once their state was changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
struct Table {
    #[serde(default)]
    dictionaries: Vec<Entry>,
}

impl Table {
    fn parse(record: Option<&[u8]>) -> Result<Self, LabFault> {
        let Some(record) = record else { return Ok(Self::default()) };
        serde_json::from_slice(record).map_err(|error| {
            tracing::error!(%error, "the table of dictionaries in the store cannot be read: a newer version wrote it");
            LabFault::Unavailable
        })
    }

    fn find(&self, id: DictionaryId) -> Option<&Entry> {
        self.dictionaries.iter().find(|entry| entry.id() == Some(id))
    }

    fn find_mut(&mut self, id: DictionaryId) -> Option<&mut Entry> {
        self.dictionaries.iter_mut().find(|entry| entry.id() == Some(id))
    }
}

/// What this node has of the table.
#[derive(Debug, Default)]
struct Loaded {
    record: Option<Vec<u8>>,
    table: Table,
    /// Whatever the state.
    all: Dictionaries,
}

/// The dictionaries of a node. Clones share them.
#[derive(Clone)]
pub(crate) struct InstalledDictionaries(Arc<Inner>);

struct Inner {
    store: Arc<dyn Store>,
    folder: Dictionaries,
    offered: DictionarySwitch,
    shared: SharedDictionaries,
    loaded: Mutex<Loaded>,
    /// Of running experiments: connections may begin with them, and no list has them but that of an experiment.
    tried: Mutex<Vec<DictionaryId>>,
    /// One installation at a time.
    installing: tokio::sync::Mutex<()>,
}

impl std::fmt::Debug for InstalledDictionaries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InstalledDictionaries").field("offered", &self.0.offered).finish_non_exhaustive()
    }
}

/// Reads the table of a cluster until it is dropped.
#[derive(Debug)]
pub(crate) struct Follower(JoinHandle<()>);

impl Drop for Follower {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn encoding_of(name: &str) -> Option<Encoding> {
    [Encoding::Json, Encoding::Etf].into_iter().find(|encoding| encoding.name() == name)
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn fault(error: &StoreError) -> LabFault {
    tracing::warn!(error = error as &dyn std::error::Error, "the store failed: dictionaries stay as they were");
    LabFault::Unavailable
}

impl InstalledDictionaries {
    /// Those of a folder, and those of the store.
    ///
    /// # Errors
    /// The store fails.
    pub async fn open(store: Arc<dyn Store>, folder: Dictionaries) -> Result<Self, StoreError> {
        let record = store.record(TABLE.0, TABLE.1).await?;
        let inner = Inner {
            store,
            folder,
            offered: DictionarySwitch::default(),
            shared: SharedDictionaries::default(),
            loaded: Mutex::default(),
            tried: Mutex::default(),
            installing: tokio::sync::Mutex::default(),
        };
        let installed = Self(Arc::new(inner));
        installed.install(record).await?;
        Ok(installed)
    }

    /// The set that clients may name.
    pub fn offered(&self) -> &DictionarySwitch {
        &self.0.offered
    }

    /// The same set, for shared-match.
    pub fn shared(&self) -> &SharedDictionaries {
        &self.0.shared
    }

    /// Whatever their state.
    pub fn all(&self) -> Dictionaries {
        self.loaded().all.clone()
    }

    fn loaded(&self) -> MutexGuard<'_, Loaded> {
        self.0.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tried(&self) -> MutexGuard<'_, Vec<DictionaryId>> {
        self.0.tried.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Running experiments try these dictionaries, and no others.
    ///
    /// # Errors
    /// The store fails: it is done at the next change of the table.
    pub async fn try_out(&self, ids: Vec<DictionaryId>) -> Result<(), StoreError> {
        if std::mem::replace(&mut *self.tried(), ids.clone()) == ids {
            return Ok(());
        }
        // Another node may have staged them this moment.
        let record = self.0.store.record(TABLE.0, TABLE.1).await?;
        self.install(record).await
    }

    /// Encoding of a dictionary that an experiment may try.
    ///
    /// # Errors
    /// The node does not have it, or it is withdrawn; the text names the remedy.
    pub fn can_try(&self, id: DictionaryId) -> Result<Encoding, String> {
        let loaded = self.loaded();
        let Some(known) = loaded.all.find(id) else {
            return Err(format!("There is no dictionary {id}: stage it first, by `guildhall lab dictionary stage`."));
        };
        match loaded.table.find(id).map(|entry| entry.state) {
            Some(State::Withdrawn) => Err(format!(
                "The dictionary {id} is withdrawn: remove it by `guildhall lab dictionary remove`, and stage it again."
            )),
            Some(State::Staged | State::Served) | None => Ok(known.encoding),
        }
    }

    /// Follows the changes of other nodes.
    pub fn follow(&self) -> Follower {
        let installed = self.clone();
        Follower(tokio::spawn(async move {
            let mut ticks = tokio::time::interval(READ_EVERY);
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            let mut has_failed = false;
            loop {
                ticks.tick().await;
                let read = installed.follow_once().await;
                if let Err(error) = &read
                    && !has_failed
                {
                    fault(error);
                }
                has_failed = read.is_err();
            }
        }))
    }

    async fn follow_once(&self) -> Result<(), StoreError> {
        let record = self.0.store.record(TABLE.0, TABLE.1).await?;
        if record == self.loaded().record { Ok(()) } else { self.install(record).await }
    }

    /// Loads what the record names, and serves by it.
    async fn install(&self, record: Option<Vec<u8>>) -> Result<(), StoreError> {
        let _one_at_a_time = self.0.installing.lock().await;
        let Ok(table) = Table::parse(record.as_deref()) else {
            // Not read again before it changes.
            self.loaded().record = record;
            return Ok(());
        };
        let (before, tried) = (self.all(), self.tried().clone());
        let (mut all, mut offered) = (Vec::new(), Vec::new());
        for entry in table.dictionaries.iter().rev() {
            let Some(mut known) = self.load(entry, &before).await? else { continue };
            known.permille = entry.permille;
            match entry.state {
                State::Served => offered.push(known.clone()),
                State::Staged if tried.contains(&known.dictionary.id()) => {
                    offered.push(KnownDictionary { permille: 0, ..known.clone() });
                }
                State::Staged | State::Withdrawn => {}
            }
            all.push(known);
        }
        let of_folder = self.0.folder.iter().filter(|known| table.find(known.dictionary.id()).is_none());
        let of_folder: Vec<KnownDictionary> = of_folder.cloned().collect();
        offered.extend(of_folder.iter().cloned());
        all.extend(of_folder);
        // A node whose folder is larger than that of the node which staged may have more: the oldest are left out.
        all.truncate(DICTIONARIES_MAX);
        offered.truncate(DICTIONARIES_MAX);
        let sets = (Dictionaries::new(all).unwrap_or_default(), Dictionaries::new(offered).unwrap_or_default());
        let (all, offered) = sets;
        let (shared, prepared) = (self.0.shared.clone(), offered.clone());
        // Some 20 ms each.
        let _ = tokio::task::spawn_blocking(move || shared.set(&prepared)).await;
        self.0.offered.set(offered);
        *self.loaded() = Loaded { record, table, all };
        Ok(())
    }

    /// The dictionary of an entry; none, with a line in the log, if this node has not its bytes.
    async fn load(&self, entry: &Entry, before: &Dictionaries) -> Result<Option<KnownDictionary>, StoreError> {
        let (Some(id), Some(encoding)) = (entry.id(), encoding_of(&entry.encoding)) else { return Ok(None) };
        if let Some(known) = before.find(id).or_else(|| self.0.folder.find(id)) {
            return Ok(Some(known.clone()));
        }
        let bytes = match entry.has_bytes {
            true => self.0.store.record(BYTES, id.to_string().as_bytes()).await?,
            false => None,
        };
        let made = match bytes {
            Some(bytes) => tokio::task::spawn_blocking(move || Dictionary::new(bytes).ok()).await.ok().flatten(),
            None => None,
        };
        match made.filter(|made| made.id() == id) {
            Some(made) => Ok(Some(KnownDictionary::new(encoding, Arc::new(made)))),
            None => {
                tracing::error!(%id, "a dictionary is in the table and not in this node's folder or store: it is left out");
                Ok(None)
            }
        }
    }

    /// Changes the table, again when another node changed it in between.
    async fn change<T>(&self, change: impl Fn(&mut Table) -> Result<T, LabFault>) -> Result<T, LabFault> {
        let store = &self.0.store;
        for _ in 0..CHANGES_TRIED_MAX {
            let before = store.record(TABLE.0, TABLE.1).await.map_err(|error| fault(&error))?;
            let mut table = Table::parse(before.as_deref())?;
            let done = change(&mut table)?;
            let after = serde_json::to_vec(&table).map_err(|_| LabFault::Unavailable)?;
            let swapped = store.swap_record(TABLE.0, TABLE.1, before.as_deref(), Some(&after)).await;
            if swapped.map_err(|error| fault(&error))? {
                self.install(Some(after)).await.map_err(|error| fault(&error))?;
                return Ok(done);
            }
        }
        Err(LabFault::Unavailable)
    }

    /// All, the newest first, those of the folder last.
    pub fn list(&self) -> Vec<DictionaryBody> {
        let loaded = self.loaded();
        loaded.all.iter().map(|known| self.body(known, &loaded.table)).collect()
    }

    fn body(&self, known: &KnownDictionary, table: &Table) -> DictionaryBody {
        let KnownDictionary { encoding, dictionary, permille } = known;
        let entry = table.find(dictionary.id());
        let uses = dictionary.uses();
        DictionaryBody {
            id: dictionary.id().to_string(),
            encoding: encoding.name(),
            size: dictionary.bytes().len(),
            state: entry.map_or(State::Served, |entry| entry.state).name(),
            permille: *permille,
            source: if self.0.folder.find(dictionary.id()).is_some() { "folder" } else { "store" },
            staged_at: entry.map(|entry| entry.staged_at),
            connections: uses.open,
            connections_total: uses.started,
        }
    }

    /// The dictionary with this id.
    pub fn read(&self, id: &str) -> Option<DictionaryBody> {
        let id = id.parse().ok()?;
        let loaded = self.loaded();
        Some(self.body(loaded.all.find(id)?, &loaded.table))
    }

    /// Checks a dictionary, and stores it. False: it was there.
    ///
    /// # Errors
    /// The bytes are no dictionary, there are too many, or the store fails.
    pub async fn stage(&self, encoding: &str, bytes: Vec<u8>) -> Result<(DictionaryBody, bool), LabFault> {
        let encoding = encoding_of(encoding).ok_or(LabFault::Unavailable)?;
        let made = tokio::task::spawn_blocking(move || Dictionary::new(bytes)).await;
        let made = made.map_err(|_| LabFault::Unavailable)?;
        let made =
            made.map_err(|error| LabFault::Dictionary(format!("{error}: make it with `guildhall lab train`.")))?;
        let id = made.id();
        let text = id.to_string();
        match self.read(&text) {
            Some(known) if known.encoding == encoding.name() => return Ok((known, false)),
            Some(known) => return Err(LabFault::Encoding(known.encoding)),
            None => {}
        }
        let stored = self.0.store.put_record(BYTES, text.as_bytes(), made.bytes()).await;
        stored.map_err(|error| fault(&error))?;
        let in_folder: Vec<DictionaryId> = self.0.folder.iter().map(|known| known.dictionary.id()).collect();
        self.change(|table| {
            if table.find(id).is_some() {
                return Ok(());
            }
            let only_in_folder = in_folder.iter().filter(|id| table.find(**id).is_none()).count();
            if table.dictionaries.len() + only_in_folder >= DICTIONARIES_MAX {
                return Err(LabFault::Dictionaries(DICTIONARIES_MAX));
            }
            table.dictionaries.push(Entry {
                id: text.clone(),
                encoding: encoding.name().to_owned(),
                state: State::Staged,
                permille: PERMILLE_ALL,
                staged_at: unix_seconds(),
                has_bytes: true,
            });
            Ok(())
        })
        .await?;
        self.read(&text).map(|body| (body, true)).ok_or(LabFault::Unavailable)
    }

    /// Serves a dictionary to `permille` thousandths of the accounts, or withdraws it (None). None: there is no such
    /// dictionary.
    ///
    /// # Errors
    /// The store fails.
    pub async fn serve(&self, id: &str, permille: Option<u16>) -> Result<Option<DictionaryBody>, LabFault> {
        let Ok(parsed) = id.parse::<DictionaryId>() else { return Ok(None) };
        let Some(known) = self.all().find(parsed).cloned() else { return Ok(None) };
        self.change(|table| {
            let (state, permille) =
                permille.map_or((State::Withdrawn, None), |permille| (State::Served, Some(permille)));
            match table.find_mut(parsed) {
                Some(entry) => {
                    entry.state = state;
                    entry.permille = permille.unwrap_or(entry.permille);
                }
                None => table.dictionaries.push(Entry {
                    id: id.to_owned(),
                    encoding: known.encoding.name().to_owned(),
                    state,
                    permille: permille.unwrap_or(PERMILLE_ALL),
                    staged_at: unix_seconds(),
                    has_bytes: false,
                }),
            }
            Ok(())
        })
        .await?;
        Ok(self.read(id))
    }

    /// Forgets a dictionary that is not served. One of a folder is served again from its file. False: there is no
    /// such dictionary.
    ///
    /// # Errors
    /// It is served, an experiment tries it, or the store fails.
    pub async fn remove(&self, id: &str) -> Result<bool, LabFault> {
        let Ok(parsed) = id.parse::<DictionaryId>() else { return Ok(false) };
        if self.tried().contains(&parsed) {
            return Err(LabFault::Tried);
        }
        let is_in_folder = self.0.folder.find(parsed).is_some();
        let is_removed = self
            .change(|table| match table.find(parsed) {
                Some(entry) if entry.state == State::Served => Err(LabFault::Served),
                Some(_) => {
                    table.dictionaries.retain(|entry| entry.id() != Some(parsed));
                    Ok(true)
                }
                None if is_in_folder => Err(LabFault::Served),
                None => Ok(false),
            })
            .await?;
        if is_removed {
            // Bytes that stay because this fails are replaced when the dictionary is staged again.
            let removed = self.0.store.delete_record(BYTES, id.as_bytes()).await;
            removed.map_err(|error| fault(&error))?;
        }
        Ok(is_removed)
    }
}
