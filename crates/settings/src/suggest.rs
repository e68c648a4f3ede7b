//! Suggestions: the setting that was probably meant.

use super::settings::SECTIONS;

/// Settings with another name than in earlier versions.
const RENAMED: [(&str, &str); 1] = [("codec.classic_bytes_max", "codec.contexts_bytes_max")];

/// The present name of a renamed setting, or else the setting whose name is most similar to `section.key`, if one is
/// similar.
pub(super) fn setting(section: &str, key: &str) -> Option<String> {
    let name = format!("{section}.{key}");
    if let Some((_, present)) = RENAMED.iter().find(|(earlier, _)| *earlier == name) {
        return Some((*present).to_owned());
    }
    let same_key = SECTIONS.iter().find(|s| s.keys.iter().any(|k| k.name == key));
    if let Some(elsewhere) = same_key {
        return Some(format!("{}.{key}", elsewhere.name));
    }
    let all = SECTIONS.iter().flat_map(|s| s.keys.iter().map(move |k| (s.name, k.name)));
    let close = all.map(|(s, k)| (distance(s, section) + distance(k, key), s, k)).min()?;
    (close.0 <= 1 + (section.len() + key.len()) / 4).then(|| format!("{}.{}", close.1, close.2))
}

/// The section whose name is most similar to `name`, if one is similar.
pub(super) fn section(name: &str) -> Option<&'static str> {
    let close = SECTIONS.iter().map(|s| (distance(s.name, name), s.name)).min()?;
    (close.0 <= 1 + name.len() / 4).then_some(close.1)
}

/// Changes of characters. Names are short; longer ones count as far.
fn distance(a: &str, b: &str) -> usize {
    const LENGTH_MAX: usize = 64;
    if a.len() > LENGTH_MAX || b.len() > LENGTH_MAX { a.len().max(b.len()) } else { strsim::levenshtein(a, b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_similar_setting_is_suggested() {
        let check = |section: &str, key: &str, expected: Option<&str>| {
            assert_eq!(setting(section, key).as_deref(), expected, "{section}.{key}");
        };
        check("server", "listn", Some("server.listen"));
        check("log", "listen", Some("server.listen"));
        check("limits", "replay_event_max", Some("limits.replay_events_max"));
        check("stor", "dir", Some("store.dir"));
        check("codec", "classic_bytes_max", Some("codec.contexts_bytes_max"));
        check("server", "colour", None);
        check("server", &"x".repeat(5000), None);
        assert_eq!(section("limit"), Some("limits"));
        assert_eq!(section("database"), None);
    }
}
