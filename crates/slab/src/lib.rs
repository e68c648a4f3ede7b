//! Slab: large blocks of one size with exact accounting of resident memory.
//!
//! Owns        the mappings, the set of used slots, and the accounting of both.
//! Doors       `Pool::new` for one size of slot, `Pool::open` for a `Slot`; dropping a slot releases it. A `Budget`
//!             bounds several pools together.
//! Invariants  S1 slots never overlap, and each starts on a page of its own. S2 a slot is zeroed when it is opened: its
//!             holder never sees old content. S3 the accounting is never below the resident size, and equals it while
//!             no `open` or drop is running: pages become resident when a slot is opened and are freed when it is
//!             dropped. S4 a slab without used slots is unmapped. (tests `s1_*` to `s4_*`)
//! Limits      `Budget::bytes_max` over all pools that share it; past it `open` returns `Full`.
//! Not here    the content of slots.     Spec  docs/adr/0016.
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

/// Why no slot could be opened.
#[derive(Debug, thiserror::Error)]
pub enum SlabError {
    /// The pools that share the budget have reached its bound.
    #[error("the slots in use fill the {bytes_max} bytes that they may")]
    Full {
        /// Bound of the budget.
        bytes_max: u64,
    },
    /// The system refused to provide memory.
    #[error("the system gave no memory for a slot")]
    System(#[source] std::io::Error),
}
