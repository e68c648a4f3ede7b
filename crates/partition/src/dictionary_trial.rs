//! Dictionary trials: experiments whose arms differ in the dictionary that `GET /dictionaries` offers.
//!
//! Owns        the dictionary of each arm (`TriedDictionaries`); the accounts that have requested the list while an
//!             experiment runs (`ListRequests`), which all partitions of a node and its HTTP server share.
//! Invariants  Y1 the list and the sample of a connection name the same arm: both follow from the account alone. Y2 an
//!             account that has not requested the list is in no such experiment: the clients of all arms use
//!             dictionaries. Y3 a connection with a dictionary that its arm does not offer gives no sample. Y4 a client
//!             that could not read the first message has no account yet: it counts for an arm only if an account of
//!             that arm has requested the list and not identified since, once per request. (tests `y*_*` in
//!             tests/it/dictionary_trial.rs)
//! Limits      `REQUESTS_MAX` accounts are remembered; past it the oldest are forgotten, and give no samples.
//!             `NEWS_MAX` requests wait for other nodes; further ones stay at this node.
//! Not here    the arm of an account: `experiments`. The dictionaries themselves: `guildhall_codec::Dictionaries`.
//!             Spec  docs/lab.md "Experiments with dictionaries", ADR 42.

use crate::{
    experiments::Subject,
    trial::{ExperimentTable, RunningExperiment, Sample, SampleOf},
};
use guildhall_codec::{Asker, DictionaryId, DictionaryTrials, Encoding, TriedOffer};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
};

/// Accounts that have requested the list, over all experiments.
const REQUESTS_MAX: usize = 200_000;

/// Requests that wait for other nodes.
const NEWS_MAX: usize = 10_000;

/// Dictionaries of an experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriedDictionaries {
    /// All are for this encoding.
    pub encoding: Encoding,
    /// By the position of the arm. None: the arm has the node's own list, without the dictionaries of the others.
    pub by_arm: Vec<Option<DictionaryId>>,
}

impl TriedDictionaries {
    fn of_arm(&self, arm: usize) -> Option<DictionaryId> {
        self.by_arm.get(arm).copied().flatten()
    }

    /// Whether a client of this arm could have been offered the dictionary of its stream (Y3).
    fn admits(&self, arm: usize, (encoding, dictionary): (Encoding, Option<DictionaryId>)) -> bool {
        encoding == self.encoding
            && match (self.of_arm(arm), dictionary) {
                (_, None) => true,
                (Some(offered), Some(dictionary)) => offered == dictionary,
                (None, Some(dictionary)) => !self.by_arm.contains(&Some(dictionary)),
            }
    }
}

/// An account in an arm of an experiment, which requested the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ListRequest {
    experiment: u64,
    arm: usize,
    account_id: u64,
}

#[derive(Debug, Default)]
struct RequestLog {
    places: BTreeSet<ListRequest>,
    order: VecDeque<ListRequest>,
    /// Those that have not identified since their last request.
    open: BTreeSet<ListRequest>,
    /// For other nodes. None: this node is alone.
    news: Option<Vec<ListRequest>>,
}

impl RequestLog {
    fn add(&mut self, place: ListRequest) {
        if self.places.insert(place) {
            self.order.push_back(place);
        }
        self.open.insert(place);
        if self.order.len() > REQUESTS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.places.remove(&oldest);
            self.open.remove(&oldest);
        }
    }

    fn retain(&mut self, running: &[RunningExperiment]) {
        let runs = |place: &ListRequest| running.iter().any(|of| of.id == place.experiment);
        self.places.retain(runs);
        self.order.retain(runs);
        self.open.retain(runs);
    }
}

/// Accounts that have requested their list. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct ListRequests(Arc<Mutex<RequestLog>>);

/// What `GET /dictionaries` lists while experiments with dictionaries run. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct DictionaryOffers {
    table: Arc<RwLock<Arc<ExperimentTable>>>,
    requests: ListRequests,
}

impl DictionaryOffers {
    /// The requests, for the table of experiments.
    #[must_use]
    pub fn requests(&self) -> &ListRequests {
        &self.requests
    }

    /// Collects requests for other nodes from now on.
    pub fn collect_news(&self) {
        self.requests.lock().news.get_or_insert_default();
    }

    /// Requests since the last call.
    #[must_use]
    pub fn take_news(&self) -> Vec<ListRequest> {
        self.requests.lock().news.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Takes requests that other nodes had. Those of experiments that do not run here are left out.
    pub fn take_requests(&self, requests: Vec<ListRequest>) {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut log = self.requests.lock();
        for request in requests {
            if table.running().iter().any(|of| of.id == request.experiment) {
                log.add(request);
            }
        }
    }

    /// These experiments run from now on.
    pub fn set(&self, table: Arc<ExperimentTable>) {
        self.requests.lock().retain(table.running());
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = table;
    }
}

impl ListRequests {
    fn lock(&self) -> MutexGuard<'_, RequestLog> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first experiment with dictionaries that has the connection, with its arm, both by their positions.
    pub(crate) fn begin(
        &self,
        table: &ExperimentTable,
        subject: &Subject<'_>,
        stream: (Encoding, Option<DictionaryId>),
    ) -> Option<(usize, usize)> {
        if table.running().iter().all(|of| of.dictionaries.is_none()) {
            return None;
        }
        let mut log = self.lock();
        table.assign(subject).find(|(at, arm)| {
            let Some(RunningExperiment { id, dictionaries: Some(tried), .. }) = table.running().get(*at) else {
                return false;
            };
            let place = ListRequest { experiment: *id, arm: *arm, account_id: subject.account_id };
            log.open.remove(&place);
            tried.admits(*arm, stream) && log.places.contains(&place)
        })
    }

    /// A client closed a connection with this dictionary before its IDENTIFY, for data that it could not read (Y4).
    pub(crate) fn unreadable(&self, table: &ExperimentTable, dictionary: DictionaryId) {
        let mut log = self.lock();
        for RunningExperiment { id, dictionaries, .. } in table.running() {
            let Some(TriedDictionaries { by_arm, .. }) = dictionaries else { continue };
            for (arm, _) in by_arm.iter().enumerate().filter(|(_, of_arm)| **of_arm == Some(dictionary)) {
                let first = ListRequest { experiment: *id, arm, account_id: 0 };
                let last = ListRequest { account_id: u64::MAX, ..first };
                let Some(place) = log.open.range(first..=last).next().copied() else { continue };
                log.open.remove(&place);
                let of = SampleOf::Ended { has_failed: true };
                return table.samples().push(Sample { experiment: *id, arm: arm as u8, of });
            }
        }
    }
}

impl DictionaryTrials for DictionaryOffers {
    fn offers(&self, asker: Asker) -> Vec<TriedOffer> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner).clone();
        if table.running().iter().all(|of| of.dictionaries.is_none()) {
            return Vec::new();
        }
        // Such experiments have neither platforms nor a guild: the request has none.
        let subject = Subject { account_id: asker.account_id, platform: "", is_bot: asker.is_bot, guild_ids: &[] };
        let mut by_encoding: BTreeMap<&'static str, (ListRequest, TriedOffer)> = BTreeMap::new();
        for (at, arm) in table.assign(&subject) {
            let Some(RunningExperiment { id, dictionaries: Some(tried), .. }) = table.running().get(at) else {
                continue;
            };
            let place = ListRequest { experiment: *id, arm, account_id: asker.account_id };
            let withheld = tried.by_arm.iter().flatten().copied().collect();
            let offer = TriedOffer { encoding: tried.encoding, only: tried.of_arm(arm), withheld };
            by_encoding.entry(tried.encoding.name()).or_insert((place, offer));
        }
        let mut log = self.requests.lock();
        by_encoding
            .into_values()
            .map(|(place, offer)| {
                log.add(place);
                if let Some(news) = log.news.as_mut().filter(|news| news.len() < NEWS_MAX) {
                    news.push(place);
                }
                offer
            })
            .collect()
    }
}
