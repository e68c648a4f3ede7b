//! Quotas: a bounded amount that requests reserve from, with a share per party.
//!
//! Owns        the amounts reserved, in total and per party.
//! Invariants  Q1 the total and every share are the sums of the live reservations; a party without one is forgotten. Q2
//!             no caller waits: a reservation past a limit fails at once. (tests `q1_*`, `q2_*`)
//! Limits      `total_max`; `share_max` per party, so that one account or address leaves quota for others.
//! Not here    the unit: bytes of bodies (`crate::body`), bytes of JSON trees (`crate::tree`), requests and streams
//!             (the servers).

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

/// An entity with a share of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Party {
    /// A network, as `crate::network` makes it.
    Peer(u128),
    /// User id of an account.
    Account(u64),
    /// Webhook id, for requests with its token.
    Webhook(u64),
    /// Id of a key of the backend API; 0 is the root key.
    Key(u64),
}

/// Parties of one request. Each is charged the whole amount.
pub type Parties = [Option<Party>; 2];

/// The limit that a reservation would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverQuota {
    /// `total_max`.
    Total,
    /// `share_max` of one of its parties.
    Share,
}

#[derive(Debug, Default)]
struct Books {
    total: usize,
    shares: HashMap<Party, usize>,
}

/// See the module.
#[derive(Debug)]
pub struct Quota {
    books: Mutex<Books>,
    total_max: usize,
    share_max: usize,
}

/// Amount reserved by one request, released on drop.
#[derive(Debug)]
pub struct Reservation {
    quota: Arc<Quota>,
    parties: Parties,
    amount: usize,
}

impl Quota {
    /// A quota of `total_max`. A share is at most that.
    pub fn new(total_max: usize, share_max: usize) -> Arc<Self> {
        Arc::new(Self { books: Mutex::default(), total_max, share_max: share_max.min(total_max) })
    }

    /// An empty reservation for these parties.
    pub fn reservation(self: &Arc<Self>, parties: Parties) -> Reservation {
        Reservation { quota: Arc::clone(self), parties, amount: 0 }
    }

    /// Reserves `amount` for these parties.
    ///
    /// # Errors
    /// When it exceeds a limit.
    pub fn reserve(self: &Arc<Self>, parties: Parties, amount: usize) -> Result<Reservation, OverQuota> {
        let mut reservation = self.reservation(parties);
        reservation.grow(amount)?;
        Ok(reservation)
    }

    fn books(&self) -> std::sync::MutexGuard<'_, Books> {
        // Every change is complete before a statement that can panic.
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reservation {
    /// Adds to the reservation.
    ///
    /// # Errors
    /// When it exceeds a limit; the reservation is unchanged then.
    pub fn grow(&mut self, by: usize) -> Result<(), OverQuota> {
        if by == 0 {
            return Ok(());
        }
        let mut books = self.quota.books();
        let after = |reservation: usize, max: usize| reservation.checked_add(by).filter(|after| *after <= max);
        let share = |party: &Party| books.shares.get(party).copied().unwrap_or(0);
        let total = after(books.total, self.quota.total_max).ok_or(OverQuota::Total)?;
        if self.parties.iter().flatten().any(|party| after(share(party), self.quota.share_max).is_none()) {
            return Err(OverQuota::Share);
        }
        books.total = total;
        for party in self.parties.iter().flatten() {
            *books.shares.entry(*party).or_default() += by;
        }
        self.amount += by;
        Ok(())
    }

    /// Amount reserved.
    #[cfg(test)]
    pub fn amount(&self) -> usize {
        self.amount
    }

    /// Raises the reservation to `amount`.
    ///
    /// # Errors
    /// The same as of `grow`.
    pub fn grow_to(&mut self, amount: usize) -> Result<(), OverQuota> {
        self.grow(amount.saturating_sub(self.amount))
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.amount == 0 {
            return;
        }
        let mut books = self.quota.books();
        books.total -= self.amount;
        for party in self.parties.iter().flatten() {
            if let Some(share) = books.shares.get_mut(party) {
                *share -= self.amount;
                if *share == 0 {
                    books.shares.remove(party);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(account: u64, peer: u128) -> Parties {
        [Some(Party::Account(account)), Some(Party::Peer(peer))]
    }

    #[test]
    fn q2_a_share_ends_before_the_total_does() {
        let quota = Quota::new(10, 4);
        let first = quota.reserve(of(1, 1), 4).unwrap();
        assert_eq!(quota.reserve(of(1, 2), 1).unwrap_err(), OverQuota::Share, "the same account");
        assert_eq!(quota.reserve(of(2, 1), 1).unwrap_err(), OverQuota::Share, "the same peer");
        let mut second = quota.reserve(of(2, 2), 3).unwrap();
        assert_eq!(second.grow(2), Err(OverQuota::Share));
        second.grow_to(4).unwrap();
        second.grow_to(2).unwrap();
        assert_eq!(quota.reserve(of(3, 3), 3).unwrap_err(), OverQuota::Total);
        drop(first);
        assert!(quota.reserve(of(3, 3), 3).is_ok());
        assert_eq!(quota.reserve(of(3, 3), usize::MAX).unwrap_err(), OverQuota::Total);
    }

    proptest! {
        #[test]
        fn q1_the_books_are_the_sums(steps in prop::collection::vec((0u64..3, 0u128..3, 0usize..8, 0usize..6), 1..100)) {
            let quota = Quota::new(20, 9);
            let mut all: Vec<Reservation> = Vec::new();
            for (account, peer, amount, at) in steps {
                match at {
                    0 if !all.is_empty() => drop(all.remove(0)),
                    1 if !all.is_empty() => drop(all.last_mut().unwrap().grow(amount)),
                    _ => all.extend(quota.reserve(of(account, peer), amount).ok()),
                }
                let books = quota.books();
                prop_assert_eq!(books.total, all.iter().map(|reservation| reservation.amount).sum::<usize>());
                prop_assert!(books.total <= 20);
                for (party, share) in &books.shares {
                    let theirs = all.iter().filter(|reservation| reservation.parties.contains(&Some(*party)));
                    prop_assert_eq!(*share, theirs.map(|reservation| reservation.amount).sum::<usize>());
                    prop_assert!((1..=9).contains(share));
                }
            }
            all.clear();
            prop_assert!(quota.books().shares.is_empty());
        }
    }
}
