//! Configuration: the settings of a node, checked also by the libraries that take them.
//!
//! Owns        the checks that need a library: of `store.url`, and of the memory of compression contexts.
//! Not here    the settings themselves, and checks among them: `guildhall_settings`.

use crate::{compression::params, database};
use guildhall_codec::ContextPool;
use guildhall_settings::{Config, ConfigError, Fault, Loaded, Sources};

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
    let Ok(contexts) = ContextPool::new(params(codec, bytes_max)) else { return Vec::new() };
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
        let found = problems("[codec]\n\ncontexts_bytes_max = 300_000\n");
        let expected = "guildhall.toml:3: codec.contexts_bytes_max is 300000, less than one zstd context takes with \
                        these settings (712704): nothing would be compressed";
        assert_eq!(found, [expected]);
        // It depends on the other settings.
        let small = "[codec]\nzstd_window_log = 14\nzstd_hash_log = 12\nzstd_level = 1\ncontexts_bytes_max = 300_000\n";
        assert_eq!(problems(small), Vec::<String>::new());
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
