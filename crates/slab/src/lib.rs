//! Slab: large blocks of one size whose memory is exactly what the system says it is.
//!
//! Owns        the mappings, which slots of them are taken, and the account of both.
//! Doors       `Pool::new` for one size of slot, `Pool::open` for a `Slot`; dropping it gives it back. A `Budget`
//!             bounds several pools together.
//! Invariants  S1 two slots never overlap, and lie on pages of their own. S2 a slot is all zeros when it is handed out:
//!             nobody sees what was there before. S3 the account is never below what is resident, and is the same once
//!             no `open` or drop is under way: a slot's pages are made resident when it is opened and given back when
//!             it is dropped. S4 a slab without slots in use is unmapped. (tests `s1_*` to `s4_*`)
//! Limits      `Budget::bytes_max` over all pools that share it; past it `open` says `Full`.
//! Not here    what is kept in a slot.     Spec  docs/adr/0016.
#![deny(unsafe_code)]

mod budget;
#[cfg(not(target_os = "linux"))]
#[path = "heap.rs"]
#[expect(unsafe_code, reason = "memory by its address")]
mod mapping;
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "mmap and its kin")]
mod mapping;
mod pool;
mod slabs;

pub use budget::Budget;
pub use pool::{Pool, PoolStats, Slot};

/// Why there is no slot.
#[derive(Debug, thiserror::Error)]
pub enum SlabError {
    /// The pools that share the budget hold all that they may.
    #[error("the slots in use fill the {bytes_max} bytes that they may")]
    Full {
        /// What they may hold.
        bytes_max: u64,
    },
    /// The system gave no memory.
    #[error("the system gave no memory for a slot")]
    System(#[source] std::io::Error),
}
