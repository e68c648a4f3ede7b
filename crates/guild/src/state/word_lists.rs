//! Lists of words for rules of type 4: a beginning for English communities.
//!
//! Not here    other languages, and words that are offensive in some contexts only: rules with keywords have those.

/// Numbers of the lists on the wire.
pub(crate) const PROFANITY: u8 = 1;
pub(crate) const SEXUAL_CONTENT: u8 = 2;
pub(crate) const SLURS: u8 = 3;

/// Keywords of a list; none: there is no such list.
pub(crate) fn words(list: u8) -> Option<&'static [&'static str]> {
    match list {
        PROFANITY => Some(&[
            "arsehole*",
            "asshole*",
            "bastard",
            "bastards",
            "bitch*",
            "bollocks",
            "bullshit*",
            "cunt*",
            "dickhead*",
            "dipshit*",
            "*fuck*",
            "jackass*",
            "prick",
            "pricks",
            "shit",
            "shithead*",
            "shitty",
            "twat",
            "twats",
            "wanker*",
        ]),
        SEXUAL_CONTENT => Some(&[
            "blowjob*",
            "creampie*",
            "cumshot*",
            "deepthroat*",
            "dildo*",
            "fellatio",
            "gangbang*",
            "handjob*",
            "hentai",
            "masturbat*",
            "milf",
            "milfs",
            "nude pics",
            "onlyfans",
            "orgasm*",
            "porn",
            "porno",
            "pornhub",
            "rule34",
            "send nudes",
            "sexting",
        ]),
        SLURS => Some(&[
            "chink", "chinks", "fag", "faggot*", "fags", "gook", "gooks", "kike", "kikes", "nigga*", "nigger*", "paki",
            "pakis", "retard", "retarded", "retards", "spic", "spics", "tranny", "trannies", "wetback*",
        ]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_distinct_words_in_lower_case() {
        let mut all = Vec::new();
        for list in [PROFANITY, SEXUAL_CONTENT, SLURS] {
            all.extend(words(list).unwrap());
        }
        assert!(all.iter().all(|word: &&str| word.to_lowercase() == **word && word.trim() == *word));
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!((all.len(), words(0), words(4)), (count, None, None));
    }
}
