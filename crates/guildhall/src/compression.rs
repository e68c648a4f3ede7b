//! Compression: contexts of all partitions, and those of the bandwidth bill, by the settings.
//!
//! Not here    larger contexts while there is room: `upgrades`. permessage-deflate: `deflate`.

use guildhall_codec::{CodecError, ContextParams, ContextPool, ZlibParams, ZstdParams};
use guildhall_partition::{Bill, BillWorker};
use guildhall_settings::CodecConfig;
use guildhall_telemetry::memory::MemoryReader;

/// Blocks of zstd as the library has them: the bill compares with it, not with the contexts of this node.
const LIBRARY_BLOCK_BYTES: u32 = 128 << 10;
/// Default limit on compression contexts, in percent of the memory that the node may use.
const CLASSIC_PERCENT: u64 = 60;

/// Contexts of all partitions. Creates one of each kind as a check.
///
/// # Errors
/// The compression libraries do not take the parameters.
pub(crate) fn contexts(codec: &CodecConfig) -> Result<ContextPool, CodecError> {
    let bytes_max =
        codec.contexts_bytes_max.unwrap_or_else(|| match MemoryReader::new(codec.memory_bytes_max).read() {
            Ok(memory) => (u128::from(memory.limit_bytes) * u128::from(CLASSIC_PERCENT) / 100) as u64,
            Err(error) => {
                tracing::warn!(
                    target: "guildhall::assemble",
                    %error,
                    "memory cannot be read: compression contexts have no bound; set codec.contexts_bytes_max"
                );
                u64::MAX
            }
        });
    let contexts = ContextPool::new(params(codec, bytes_max))?;
    contexts.check()?;
    Ok(contexts)
}

/// The bill of this node, and the worker that makes it.
///
/// # Errors
/// The compression libraries do not take the parameters.
pub(crate) fn bandwidth_bill(codec: &CodecConfig) -> Result<(Bill, Option<BillWorker>), CodecError> {
    if codec.bill_one_in == 0 {
        return Ok(Default::default());
    }
    // Few, and apart from those of clients: neither takes the other's room.
    let mut params = params(codec, u64::MAX);
    params.zstd.block_bytes_max = LIBRARY_BLOCK_BYTES;
    let (bill, worker) = Bill::new(codec.bill_one_in, ContextPool::new(params)?);
    Ok((bill, Some(worker)))
}

/// Parameters of library contexts, all of them within `bytes_max`.
pub(crate) fn params(codec: &CodecConfig, bytes_max: u64) -> ContextParams {
    let small = |value: u16| u8::try_from(value).unwrap_or(u8::MAX);
    let zlib = ZlibParams {
        level: small(codec.zlib_level),
        window_bits: small(codec.zlib_window_bits),
        mem_level: small(codec.zlib_mem_level),
    };
    let zstd = ZstdParams {
        level: codec.zstd_level,
        window_log: codec.zstd_window_log,
        chain_log: codec.zstd_chain_log,
        hash_log: codec.zstd_hash_log,
        block_bytes_max: codec.zstd_block_bytes_max,
    };
    ContextParams { zlib, zstd, bytes_max }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load;
    use guildhall_settings::Sources;

    /// The settings' defaults are the codec's.
    #[test]
    fn the_published_tuning_is_the_default() {
        let codec = load(&Sources::default()).unwrap().config.codec;
        assert_eq!(params(&codec, u64::MAX), ContextParams::default());
    }
}
