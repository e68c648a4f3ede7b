//! Names of the demo's members.
//!
//! Invariants  a username is 2–32 of `a-z0-9_.` and no two are the same; the same randomness gives the same names.

use guildhall_stdx::Rng;
use serde::Deserialize;
use std::{collections::HashSet, sync::LazyLock};

/// Parts of names, of `names.json`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parts {
    first: Vec<String>,
    last: Vec<String>,
    adjectives: Vec<String>,
    nouns: Vec<String>,
    /// Names in other alphabets.
    native: Vec<String>,
    /// Behind a nick.
    suffixes: Vec<String>,
}

static PARTS: LazyLock<Parts> =
    LazyLock::new(|| serde_json::from_str(include_str!("names.json")).expect("names.json is valid"));

/// How one account is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    /// Unique username.
    pub username: String,
    /// Display name.
    pub global_name: Option<String>,
    /// Name in the guild.
    pub nick: Option<String>,
}

/// Makes names, no username twice.
#[derive(Debug, Default)]
pub(super) struct Names {
    taken: HashSet<String>,
}

impl Names {
    /// Reserves a username for an account that is made by hand.
    pub fn reserve(&mut self, username: &str) {
        self.taken.insert(username.to_owned());
    }

    /// Another name.
    pub fn next(&mut self, rng: &mut Rng) -> Name {
        let Parts { first, last, adjectives, nouns, native, suffixes } = &*PARTS;
        let (first, last) = (one_of(rng, first), one_of(rng, last));
        let username = match rng.below(6) {
            0 => format!("{first}.{last}"),
            1 => format!("{first}{}", 70 + rng.below(36)),
            2 => format!("{}{}", one_of(rng, adjectives), one_of(rng, nouns)),
            3 => format!("{}_{}", one_of(rng, adjectives), one_of(rng, nouns)),
            4 => format!("{first}_{}", one_of(rng, nouns)),
            _ => format!("{}{last}", &first[..1]),
        };
        let username = self.unique(username.to_ascii_lowercase());
        let global_name = match rng.below(10) {
            0..=3 => Some(first.to_owned()),
            4..=5 => Some(format!("{first} {last}")),
            6 => Some(one_of(rng, native).to_owned()),
            _ => None,
        };
        let nick = rng.chance(0.2).then(|| match rng.below(3) {
            0 => one_of(rng, native).to_owned(),
            _ => format!("{first} {}", one_of(rng, suffixes)),
        });
        Name { username, global_name, nick }
    }

    /// `wanted`, or the same with the smallest number behind it that is free.
    fn unique(&mut self, wanted: String) -> String {
        let mut name = wanted.clone();
        let mut number = 1;
        while !self.taken.insert(name.clone()) {
            number += 1;
            name = format!("{wanted}{number}");
        }
        name
    }
}

/// One of a list that is never empty.
pub(super) fn one_of<'a, S: AsRef<str>>(rng: &mut Rng, list: &'a [S]) -> &'a str {
    rng.pick(list).map(AsRef::as_ref).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usernames_are_valid_and_unique() {
        let (mut names, mut rng) = (Names::default(), Rng::new(5));
        names.reserve("mara94");
        let all: Vec<Name> = (0..20_000).map(|_| names.next(&mut rng)).collect();
        let mut seen = HashSet::from(["mara94"]);
        for name in &all {
            assert!(seen.insert(&name.username), "{} twice", name.username);
            assert!((2..=32).contains(&name.username.len()), "{}", name.username);
            assert!(
                name.username.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.')),
                "{}",
                name.username
            );
            for shown in name.global_name.iter().chain(&name.nick) {
                assert!((1..=32).contains(&shown.chars().count()), "{shown}");
            }
        }
        assert!(all.iter().any(|n| n.global_name.as_ref().is_some_and(|g| !g.is_ascii())));
        let mut rng = Rng::new(5);
        let mut names = Names::default();
        names.reserve("mara94");
        assert!(all.iter().take(500).all(|name| *name == names.next(&mut rng)));
    }
}
