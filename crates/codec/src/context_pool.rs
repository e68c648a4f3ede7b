//! Context pool: library contexts of the zlib-stream and zstd-stream connections of a node.
//!
//! Owns        the parameters; the slots of contexts (one size for zlib, one for zstd, one for larger zstd contexts),
//!             their limit, and the gate of larger contexts.
//! Doors       `zlib` and `zstd` start a stream; `stats` reports memory; `gate` connects to `upgrade`.
//! Invariants  one context is one slot: the libraries allocate nothing else. (traps.md 5)
//! Limits      `bytes_max` over all contexts. A stream without a context is not refused: its messages are stored, in
//!             the stream's format but uncompressed, and each message tries again to get a context.
//! Not here    shared-match streams, choice of codec per connection.     Spec  docs/adr/0016.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use guildhall_slab::{Budget, Pool, PoolStats, Slot};

use crate::CodecError;
use crate::stream::{
    Dictionary, StreamCompressor, ZlibCompressor, ZlibParams, ZstdCompressor, ZstdDictCompressor, ZstdParams, zlib,
    zstd_sys,
};
use crate::upgrade::{GateStats, Upgrade, UpgradeGate};

/// Parameters of contexts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextParams {
    /// For zlib-stream.
    pub zlib: ZlibParams,
    /// For zstd-stream.
    pub zstd: ZstdParams,
    /// Resident bytes of all contexts. Past it messages are stored until contexts are free.
    pub bytes_max: u64,
}

impl Default for ContextParams {
    /// As published, and as many contexts as there is memory.
    fn default() -> Self {
        Self { zlib: ZlibParams::default(), zstd: ZstdParams::default(), bytes_max: u64::MAX }
    }
}

/// The contexts of a node, over all its partitions. Clones share them.
#[derive(Clone)]
pub struct ContextPool {
    shared: Arc<Shared>,
}

struct Shared {
    params: ContextParams,
    budget: Arc<Budget>,
    zlib: Pool,
    zstd: Pool,
    /// None when the parameters leave no room upwards.
    upgraded: Option<Upgraded>,
    gate: UpgradeGate,
    /// Shared with variants.
    stored_total: Arc<AtomicU64>,
    /// Shared with variants.
    movable_bytes_max: Arc<AtomicU64>,
}

struct Upgraded {
    params: ZstdParams,
    pool: Pool,
}

/// The account of a node's contexts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContextStats {
    /// For zlib-stream.
    pub zlib: PoolStats,
    /// For zstd-stream.
    pub zstd: PoolStats,
    /// For zstd-stream, the larger ones.
    pub zstd_upgraded: PoolStats,
    /// Resident bytes of all contexts.
    pub resident_bytes: u64,
    /// Limit on `resident_bytes`.
    pub bytes_max: u64,
    /// Messages that went out stored because there was no room for a context.
    pub stored_total: u64,
    /// Larger contexts.
    pub upgrades: GateStats,
}

/// Slot of a zstd context, and its size class.
pub(crate) struct ZstdSlot {
    pub slot: Slot,
    pub params: ZstdParams,
    pub upgrade: Option<Upgrade>,
}

impl ContextPool {
    /// No contexts yet.
    ///
    /// # Errors
    /// [`CodecError::Param`], or the library's when it cannot compute the size of a context.
    pub fn new(params: ContextParams) -> Result<Self, CodecError> {
        params.zlib.validate()?;
        params.zstd.validate()?;
        let budget = Arc::new(Budget::new(params.bytes_max));
        let zlib = Pool::new(zlib::slot_bytes(params.zlib)?, budget.clone());
        let pool = |params| Ok::<_, CodecError>(Pool::new(zstd_sys::slot_bytes(params)?, budget.clone()));
        let zstd = pool(params.zstd)?;
        let upgraded = match params.zstd.upgraded() {
            Some(params) => Some(Upgraded { params, pool: pool(params)? }),
            None => None,
        };
        let (gate, stored_total) = Default::default();
        let movable_bytes_max = Arc::new(AtomicU64::new(u64::MAX));
        let shared = Shared { params, budget, zlib, zstd, upgraded, gate, stored_total, movable_bytes_max };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Contexts of other sizes, within the same limits. Streams take it by [`StreamCompressor::set_contexts`]; it has
    /// no larger contexts. Its slots are freed with the last stream that has one.
    ///
    /// # Errors
    /// As [`ContextPool::new`].
    pub fn variant(&self, zlib: ZlibParams, zstd: ZstdParams) -> Result<Self, CodecError> {
        zlib.validate()?;
        zstd.validate()?;
        let shared = &self.shared;
        let shared = Shared {
            params: ContextParams { zlib, zstd, bytes_max: shared.params.bytes_max },
            budget: shared.budget.clone(),
            zlib: Pool::new(zlib::slot_bytes(zlib)?, shared.budget.clone()),
            zstd: Pool::new(zstd_sys::slot_bytes(zstd)?, shared.budget.clone()),
            upgraded: None,
            gate: UpgradeGate::default(),
            stored_total: shared.stored_total.clone(),
            movable_bytes_max: shared.movable_bytes_max.clone(),
        };
        let variant = Self { shared: Arc::new(shared) };
        variant.check()?;
        Ok(variant)
    }

    /// Makes one context of each kind and uses it, so that parameters a library does not take fail at the start.
    ///
    /// # Errors
    /// The library's.
    pub fn check(&self) -> Result<(), CodecError> {
        let ContextParams { zlib, zstd, .. } = self.shared.params;
        let upgraded = self.shared.upgraded.as_ref().map(|upgraded| upgraded.params);
        let streams = [
            Some(StreamCompressor::zlib(zlib)),
            Some(StreamCompressor::zstd(zstd)),
            upgraded.map(StreamCompressor::zstd),
        ];
        for stream in streams.into_iter().flatten() {
            stream?.compress(&[b"a message"], &mut Vec::new())?;
        }
        Ok(())
    }

    /// Parameters of the contexts.
    #[must_use]
    pub fn params(&self) -> &ContextParams {
        &self.shared.params
    }

    /// Where the share of larger contexts is set.
    #[must_use]
    pub fn gate(&self) -> &UpgradeGate {
        &self.shared.gate
    }

    /// Additional bytes of a larger context; none if there are none.
    #[must_use]
    pub fn extra_bytes(&self) -> Option<u64> {
        let upgraded = self.shared.upgraded.as_ref()?;
        Some(upgraded.pool.slot_bytes().saturating_sub(self.shared.zstd.slot_bytes()) as u64)
    }

    /// Starts a zlib stream. Allocates nothing before its first `compress`.
    #[must_use]
    pub fn zlib(&self) -> StreamCompressor {
        StreamCompressor::Zlib(ZlibCompressor::new(self.clone()))
    }

    /// Starts a zstd stream, which may get a larger context. Allocates nothing before its first `compress`.
    #[must_use]
    pub fn zstd(&self) -> StreamCompressor {
        let is_upgrade_due = self.shared.gate.draw() && self.shared.upgraded.is_some();
        StreamCompressor::Zstd(ZstdCompressor::new(self.clone(), is_upgrade_due))
    }

    /// As [`ContextPool::zstd`], for a stream that another writer may continue: its header declares a window of at
    /// least `2^window_log` bytes.
    #[must_use]
    pub fn zstd_movable(&self, window_log: u32) -> StreamCompressor {
        let is_upgrade_due = self.shared.gate.draw() && self.shared.upgraded.is_some();
        let stream = ZstdCompressor::new(self.clone(), is_upgrade_due);
        StreamCompressor::Zstd(stream.movable(window_log))
    }

    /// As [`ContextPool::zlib`], for a stream that another writer may continue.
    #[must_use]
    pub fn zlib_movable(&self) -> StreamCompressor {
        StreamCompressor::Zlib(ZlibCompressor::new(self.clone()).movable())
    }

    /// Continues a zlib stream at the end of a message, with a new context. Another process has begun it, with a window
    /// of `2^window_bits` in its header. None: the pool's contexts have a larger one.
    #[must_use]
    pub fn zlib_continued(&self, window_bits: u8) -> Option<StreamCompressor> {
        ZlibCompressor::continued(self.clone(), window_bits).map(StreamCompressor::Zlib)
    }

    /// As [`ContextPool::zlib_continued`], for a stream that another writer may continue.
    #[must_use]
    pub fn zlib_continued_movable(&self, window_bits: u8) -> Option<StreamCompressor> {
        let stream = ZlibCompressor::continued(self.clone(), window_bits)?;
        Some(StreamCompressor::Zlib(stream.movable()))
    }

    /// Bytes that contexts may hold whose streams can continue without them. `u64::MAX`: as many as there is room for.
    pub fn set_movable_bytes_max(&self, bytes: u64) {
        self.shared.movable_bytes_max.store(bytes, Ordering::Relaxed);
    }

    /// Bytes by which contexts hold more than that.
    #[must_use]
    pub fn excess_bytes(&self) -> u64 {
        self.shared.budget.bytes().saturating_sub(self.shared.movable_bytes_max.load(Ordering::Relaxed))
    }

    /// Whether a stream that could do without a context is to get one.
    #[must_use]
    pub fn has_movable_room(&self) -> bool {
        let bytes = self.shared.zstd.slot_bytes() as u64;
        let held = self.shared.budget.bytes().saturating_add(bytes);
        held <= self.shared.movable_bytes_max.load(Ordering::Relaxed) && self.shared.budget.has_room(bytes)
    }

    /// Starts a zstd stream that refers to a dictionary, which the client must have. Allocates nothing before
    /// its first message.
    #[must_use]
    pub fn zstd_with(&self, dictionary: Arc<Dictionary>) -> StreamCompressor {
        StreamCompressor::ZstdDict(ZstdDictCompressor::new(self.clone(), dictionary))
    }

    /// The account now.
    #[must_use]
    pub fn stats(&self) -> ContextStats {
        let shared = &self.shared;
        ContextStats {
            zlib: shared.zlib.stats(),
            zstd: shared.zstd.stats(),
            zstd_upgraded: shared.upgraded.as_ref().map(|upgraded| upgraded.pool.stats()).unwrap_or_default(),
            resident_bytes: shared.budget.bytes(),
            bytes_max: shared.budget.bytes_max(),
            stored_total: shared.stored_total.load(Ordering::Relaxed),
            upgrades: shared.gate.stats(),
        }
    }

    /// A slot for a zlib context; none when there is no room, and the message at hand is to be stored.
    pub(crate) fn open_zlib(&self) -> Option<Slot> {
        self.open(&self.shared.zlib)
    }

    /// A slot for a zstd context; a larger one if an upgrade is due and there is room.
    pub(crate) fn open_zstd(&self, is_upgrade_due: bool) -> Option<ZstdSlot> {
        let shared = &self.shared;
        if is_upgrade_due
            && let (Some(upgraded), Some(extra_bytes)) = (&shared.upgraded, self.extra_bytes())
            && let Some(upgrade) = shared.gate.try_take(extra_bytes)
            && let Ok(slot) = upgraded.pool.open()
        {
            return Some(ZstdSlot { slot, params: upgraded.params, upgrade: Some(upgrade) });
        }
        let slot = self.open(&shared.zstd)?;
        Some(ZstdSlot { slot, params: shared.params.zstd, upgrade: None })
    }

    /// A slot for a zstd context that is never a larger one.
    pub(crate) fn open_zstd_base(&self) -> Option<Slot> {
        self.open(&self.shared.zstd)
    }

    /// Counts a message that was stored for lack of a context.
    pub(crate) fn note_stored(&self) {
        self.shared.stored_total.fetch_add(1, Ordering::Relaxed);
    }

    fn open(&self, pool: &Pool) -> Option<Slot> {
        // A stream without a slot checks for every message, so the check must be cheap.
        let has_room = self.shared.budget.has_room(pool.slot_bytes() as u64);
        if has_room { pool.open().ok() } else { None }
    }
}

impl Default for ContextPool {
    /// With [`ContextParams::default`].
    fn default() -> Self {
        Self::new(ContextParams::default()).expect("the libraries take the published parameters")
    }
}

impl std::fmt::Debug for ContextPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ContextPool").field("params", self.params()).field("stats", &self.stats()).finish()
    }
}
