//! The dictionaries of a node, by id, and the share of accounts that each is offered to.
//!
//! Owns        `Dictionaries`, a set; `DictionarySwitch`, by which a running node replaces its set; the offers of a
//!             set to one account.
//! Invariants  R1 an id has the same bytes and encoding for the lifetime of a set. A set is immutable: a node
//!             with other dictionaries gets another set. R2 an account that a share has stays in it while the share
//!             grows (test `r2_*`).
//! Limits      `DICTIONARIES_MAX`.
//! Not here    files, HTTP, the store; which account an experiment offers which dictionary (`DictionaryTrials`).

use super::{Dictionary, DictionaryId};
use crate::Encoding;
use sha2::{Digest as _, Sha256};
use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

/// A node needs one per encoding, and a few older ones for clients that have them.
pub const DICTIONARIES_MAX: usize = 64;

/// Thousandths of all accounts.
pub const PERMILLE_ALL: u16 = 1_000;

/// A dictionary, its encoding, and its share of accounts.
#[derive(Clone, Debug)]
pub struct KnownDictionary {
    /// Encoding of the messages it was trained with.
    pub encoding: Encoding,
    /// The dictionary.
    pub dictionary: Arc<Dictionary>,
    /// Thousandths of the accounts that it is offered to. [`PERMILLE_ALL`]: also to clients without an account.
    pub permille: u16,
}

impl KnownDictionary {
    /// A dictionary for all.
    #[must_use]
    pub fn new(encoding: Encoding, dictionary: Arc<Dictionary>) -> Self {
        Self { encoding, dictionary, permille: PERMILLE_ALL }
    }

    /// Whether it is offered to this account. None: a client whose account is not known.
    #[must_use]
    pub fn is_offered_to(&self, account_id: Option<u64>) -> bool {
        let is_in_share = |account_id| slot(self.dictionary.id(), account_id) < self.permille;
        self.permille >= PERMILLE_ALL || account_id.is_some_and(is_in_share)
    }
}

/// The account's thousandth: a hash, so that each dictionary divides the accounts differently.
fn slot(id: DictionaryId, account_id: u64) -> u16 {
    let hash = Sha256::new().chain_update(id.to_string()).chain_update(account_id.to_le_bytes()).finalize();
    let number = u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|at| hash[at]));
    (number % u64::from(PERMILLE_ALL)) as u16
}

/// Dictionaries by id. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Dictionaries(Arc<[KnownDictionary]>);

impl Dictionaries {
    /// These, or nothing if they are more than [`DICTIONARIES_MAX`].
    #[must_use]
    pub fn new(known: Vec<KnownDictionary>) -> Option<Self> {
        (known.len() <= DICTIONARIES_MAX).then(|| Self(known.into()))
    }

    /// All dictionaries, in the order in which they were given.
    pub fn iter(&self) -> impl Iterator<Item = &KnownDictionary> {
        self.0.iter()
    }

    /// The one of this id.
    #[must_use]
    pub fn find(&self, id: DictionaryId) -> Option<&KnownDictionary> {
        self.0.iter().find(|known| known.dictionary.id() == id)
    }
}

/// An account that requests the list of its dictionaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asker {
    /// Id of the account.
    pub account_id: u64,
    /// The account is a bot.
    pub is_bot: bool,
}

/// An experiment's entries in the list of an account, in place of the node's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriedOffer {
    /// Entries of this encoding are concerned, and no others.
    pub encoding: Encoding,
    /// The only entry. None: the entries of the node's own list that are not in `withheld`.
    pub only: Option<DictionaryId>,
    /// All dictionaries of the experiment.
    pub withheld: Vec<DictionaryId>,
}

/// Experiments with dictionaries.
pub trait DictionaryTrials: fmt::Debug + Send + Sync {
    /// Offers to an account that requests the list now: at most one per encoding.
    fn offers(&self, asker: Asker) -> Vec<TriedOffer>;
}

/// The set of a running node, which it replaces as a whole. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct DictionarySwitch(Arc<RwLock<Switch>>);

#[derive(Clone, Debug, Default)]
struct Switch {
    dictionaries: Dictionaries,
    trials: Option<Arc<dyn DictionaryTrials>>,
}

impl DictionarySwitch {
    /// The set that connections from now on find.
    pub fn set(&self, dictionaries: Dictionaries) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).dictionaries = dictionaries;
    }

    /// The current set of dictionaries.
    #[must_use]
    pub fn current(&self) -> Dictionaries {
        self.0.read().unwrap_or_else(PoisonError::into_inner).dictionaries.clone()
    }

    /// Experiments decide from now on what their accounts are offered.
    pub fn set_trials(&self, trials: Arc<dyn DictionaryTrials>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).trials = Some(trials);
    }

    /// Dictionaries that a client may use, the preferred one of an encoding first. `asker`: the client's account, if it
    /// sent a token.
    #[must_use]
    pub fn offered_to(&self, asker: Option<Asker>) -> Vec<KnownDictionary> {
        let Switch { dictionaries, trials } = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        let offers = match (&trials, asker) {
            (Some(trials), Some(asker)) => trials.offers(asker),
            _ => Vec::new(),
        };
        let account_id = asker.map(|asker| asker.account_id);
        let is_offered = |known: &&KnownDictionary| {
            let id = known.dictionary.id();
            match offers.iter().find(|offer| offer.encoding == known.encoding) {
                Some(TriedOffer { only: Some(only), .. }) => *only == id,
                Some(TriedOffer { only: None, withheld, .. }) => {
                    !withheld.contains(&id) && known.is_offered_to(account_id)
                }
                None => known.is_offered_to(account_id),
            }
        };
        dictionaries.iter().filter(is_offered).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r2_a_share_of_accounts_grows_and_loses_none() {
        let samples: Vec<String> = (0..900).map(|n| format!("{{\"number\":{n},\"name\":\"user{}\"}}", n * 7)).collect();
        let dictionary = Arc::new(Dictionary::train(&samples, 4096).unwrap());
        let mut known = KnownDictionary::new(Encoding::Json, dictionary);
        assert!(known.is_offered_to(None) && known.is_offered_to(Some(1)));
        let mut members_before: Vec<u64> = Vec::new();
        for permille in [0, 1, 10, 100, 500, 999, PERMILLE_ALL] {
            known.permille = permille;
            let members: Vec<u64> = (0..20_000).filter(|account_id| known.is_offered_to(Some(*account_id))).collect();
            assert!(members_before.iter().all(|account_id| members.contains(account_id)), "{permille}");
            let expected = usize::from(permille) * 20;
            assert!(members.len().abs_diff(expected) <= 300, "{permille}: {} accounts", members.len());
            assert_eq!(known.is_offered_to(None), permille == PERMILLE_ALL);
            members_before = members;
        }
    }

    #[derive(Debug)]
    struct Trials(Vec<TriedOffer>);

    impl DictionaryTrials for Trials {
        fn offers(&self, asker: Asker) -> Vec<TriedOffer> {
            if asker.account_id == 7 { self.0.clone() } else { Vec::new() }
        }
    }

    #[test]
    fn an_experiment_decides_for_its_accounts_and_its_encoding() {
        let made = |seed: usize, encoding: Encoding, permille: u16| {
            let samples: Vec<String> = (0..900).map(|n| format!("{{\"a\":{n},\"name\":\"u{}\"}}", n * seed)).collect();
            let dictionary = Arc::new(Dictionary::train(&samples, 4096).unwrap());
            KnownDictionary { encoding, dictionary, permille }
        };
        let tried = made(7, Encoding::Json, 0);
        let (old, etf) = (made(11, Encoding::Json, PERMILLE_ALL), made(13, Encoding::Etf, PERMILLE_ALL));
        let [tried_id, old_id, etf_id] = [&tried, &old, &etf].map(|known| known.dictionary.id());
        let switch = DictionarySwitch::default();
        switch.set(Dictionaries::new(vec![tried, old, etf]).unwrap());
        let listed = |account_id: Option<u64>| -> Vec<DictionaryId> {
            let asker = account_id.map(|account_id| Asker { account_id, is_bot: false });
            switch.offered_to(asker).iter().map(|known| known.dictionary.id()).collect()
        };
        assert_eq!(listed(Some(7)), [old_id, etf_id], "no experiment");
        for (only, withheld, expected) in [
            (Some(tried_id), vec![tried_id], vec![tried_id, etf_id]),
            (None, vec![tried_id], vec![old_id, etf_id]),
            (None, vec![tried_id, old_id], vec![etf_id]),
        ] {
            switch.set_trials(Arc::new(Trials(vec![TriedOffer { encoding: Encoding::Json, only, withheld }])));
            assert_eq!(listed(Some(7)), expected);
            assert_eq!((listed(Some(8)), listed(None)), (vec![old_id, etf_id], vec![old_id, etf_id]));
        }
    }
}
