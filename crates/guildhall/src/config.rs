//! Configuration: the settings of a node, checked also by the libraries that take them.
//!
//! Owns        the checks that need a library: of `store.url`, and of the memory of compression contexts.
//! Not here    the settings themselves, and checks among them: `guildhall_settings`.

use crate::database;
use guildhall_codec::{ContextParams, ContextPool, ZlibParams, ZstdParams};
use guildhall_settings::{CodecConfig, Config, ConfigError, Fault, Loaded, Sources};

/// Lays the sources over the defaults and checks the result.
///
/// # Errors
/// `Invalid` with everything that is wrong, not only the first.
pub fn load(sources: &Sources) -> Result<Loaded, ConfigError> {
    guildhall_settings::load(sources, &[store_url, contexts])
}

fn store_url(config: &Config) -> Vec<Fault> {
    let fault = database::options(&config.store).err();
    let fault =
        fault.map(|error| Fault { section: "store", key: "url", what: format!("cannot be what is given: {error}") });
    fault.into_iter().collect()
}

fn contexts(config: &Config) -> Vec<Fault> {
    let codec = &config.codec;
    let Some(bytes_max) = codec.contexts_bytes_max else { return Vec::new() };
    let Ok(contexts) = ContextPool::new(context_params(codec, bytes_max)) else { return Vec::new() };
    let stats = contexts.stats();
    let kinds = [("zlib", stats.zlib.slot_bytes), ("zstd", stats.zstd.slot_bytes)];
    let too_large = kinds.into_iter().filter(|(_, slot_bytes)| bytes_max < *slot_bytes);
    let fault = |(name, slot_bytes)| Fault {
        section: "codec",
        key: "contexts_bytes_max",
        what: format!(
            "is {bytes_max}, less than one {name} context takes with these settings ({slot_bytes}): nothing would be compressed"
        ),
    };
    too_large.map(fault).collect()
}

/// Parameters of library contexts, all of them within `bytes_max`.
#[must_use]
pub fn context_params(codec: &CodecConfig, bytes_max: u64) -> ContextParams {
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
    use std::path::PathBuf;

    fn problems(file: &str) -> Vec<String> {
        let file = Some((PathBuf::from("guildhall.toml"), file.to_owned()));
        match load(&Sources { file, ..Sources::default() }) {
            Ok(_) => Vec::new(),
            Err(ConfigError::Invalid(problems)) => problems.iter().map(ToString::to_string).collect(),
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn a_bound_that_holds_no_context() {
        let told = problems("[codec]\n\ncontexts_bytes_max = 300_000\n");
        let expected = "guildhall.toml:3: codec.contexts_bytes_max is 300000, less than one zstd context takes with \
                        these settings (643072): nothing would be compressed";
        assert_eq!(told, [expected]);
        // It depends on the other settings.
        let small = "[codec]\nzstd_window_log = 14\nzstd_hash_log = 12\nzstd_level = 1\ncontexts_bytes_max = 300_000\n";
        assert_eq!(problems(small), Vec::<String>::new());
    }

    /// The settings' defaults are the codec's.
    #[test]
    fn the_published_tuning_is_the_default() {
        let codec = load(&Sources::default()).unwrap().config.codec;
        assert_eq!(context_params(&codec, u64::MAX), ContextParams::default());
    }

    #[test]
    fn c3_a_wrong_url_of_a_database_is_never_shown() {
        let wrong = problems("[store]\nurl = \"postgres://ana:horse@db:x/y\"");
        assert!(wrong.len() == 1 && !wrong[0].contains("horse"), "{wrong:?}");
        assert!(wrong[0].starts_with("guildhall.toml:2: store.url cannot be what is given: "), "{wrong:?}");
        assert!(wrong[0].contains("invalid port number"), "{wrong:?}");
        let wrong = problems("[store]\nurl = \"postgres:hunter2\"");
        assert!(wrong.len() == 1 && !wrong[0].contains("hunter2"), "{wrong:?}");
    }
}
