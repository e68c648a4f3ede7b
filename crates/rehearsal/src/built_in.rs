//! The scenarios that the program has.
//!
//! Owns        the folder `scenarios`.

use crate::Scenario;

macro_rules! scenarios {
    ($($name:literal),* $(,)?) => {
        const ALL: &[(&str, &str)] = &[$(($name, include_str!(concat!("../scenarios/", $name, ".toml")))),*];
    };
}

scenarios! {
    "plain",
    "op-1",
    "op-7",
    "op-7-first",
    "op-9-true",
    "op-9-false",
    "replay",
    "resume-refused",
    "resume-elsewhere",
    "close-4000",
    "close-4001",
    "close-4002",
    "close-4003",
    "close-4005",
    "close-4007",
    "close-4008",
    "close-4009",
    "close-4004",
    "close-4010",
    "close-4011",
    "close-4012",
    "close-4013",
    "close-4014",
    "drop-fin",
    "drop-reset",
    "lost-ack",
    "half-open",
    "split-bytes",
    "fragments",
    "glued",
    "late-flush",
    "slow",
    "late-hello",
    "big-ready",
    "sequence-gap",
    "repeat",
    "unknown-op",
    "unknown-event",
    "429-retry-after",
    "429-reset-after",
    "429-both",
    "429-global",
    "upgrade-429",
    "upgrade-503",
}

/// Names in the order of the list.
pub fn built_in_names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|(name, _)| *name)
}

/// Text of the file.
#[must_use]
pub fn source(name: &str) -> Option<&'static str> {
    ALL.iter().find(|(of, _)| *of == name).map(|(_, text)| *text)
}

/// A scenario by its name.
///
/// # Panics
/// Never: a test reads each.
#[must_use]
pub fn built_in(name: &str) -> Option<Scenario> {
    source(name).and_then(|text| Scenario::parse(text).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_a_scenario_of_its_name() {
        for (name, text) in ALL {
            let scenario = Scenario::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(scenario.name, *name);
        }
    }
}
