//! Allowed: the fields that a recording may contain, by event.
//!
//! Owns        the table `fields.txt`: the event, then the names of all fields at any depth of its body. A test makes
//!             it of the types of the SDK, which are made of the bodies in `guildhall-model`: `GUILDHALL_UPDATE_DOCS=1
//!             cargo test -p guildhall-lab --lib allowed`.
//! Invariants  A1 the table has each event that the gateway sends, and no other. (test `a1_*`)
//! Not here    what happens to values: `scrub`.

use guildhall_model::EventName;
use std::{collections::HashSet, sync::LazyLock};

static TABLE: LazyLock<Vec<HashSet<&'static str>>> = LazyLock::new(|| {
    let mut table = vec![HashSet::new(); EventName::ALL.len()];
    for line in include_str!("fields.txt").lines() {
        let mut words = line.split(' ');
        if let Some(name) = words.next().and_then(EventName::from_wire) {
            table[name as usize] = words.collect();
        }
    }
    table
});

/// Fields of bodies that the types leave open: embeds, components and activities.
const OPEN: &[&str] = &[
    "accent_color",
    "accessory",
    "animated",
    "application_id",
    "assets",
    "author",
    "buttons",
    "color",
    "components",
    "content",
    "content_type",
    "created_at",
    "custom_id",
    "default",
    "default_values",
    "description",
    "details",
    "details_url",
    "disabled",
    "divider",
    "emoji",
    "end",
    "fields",
    "file",
    "flags",
    "footer",
    "height",
    "icon_url",
    "id",
    "image",
    "inline",
    "instance",
    "invite_cover_image",
    "items",
    "join",
    "label",
    "large_image",
    "large_text",
    "large_url",
    "match",
    "max_length",
    "max_values",
    "media",
    "min_length",
    "min_values",
    "name",
    "options",
    "party",
    "placeholder",
    "platform",
    "provider",
    "proxy_icon_url",
    "proxy_url",
    "required",
    "secrets",
    "session_id",
    "size",
    "sku_id",
    "small_image",
    "small_text",
    "small_url",
    "spacing",
    "spectate",
    "spoiler",
    "start",
    "state",
    "state_url",
    "status_display_type",
    "style",
    "sync_id",
    "text",
    "thumbnail",
    "timestamp",
    "timestamps",
    "title",
    "type",
    "url",
    "value",
    "video",
    "width",
];

/// Events with embeds, components or activities in them.
const WITH_OPEN: [&str; 5] = ["embeds", "activities", "components", "activity", "game"];

/// Fields of an event's body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowed {
    fields: &'static HashSet<&'static str>,
    is_open: bool,
}

impl Allowed {
    /// None for events that backends define: the meaning of their fields is unknown.
    pub(crate) fn of(name: EventName) -> Option<Self> {
        let fields = TABLE.get(name as usize).filter(|_| name != EventName::Backend)?;
        Some(Self { fields, is_open: WITH_OPEN.iter().any(|field| fields.contains(field)) })
    }

    /// Whether the body may have a field of this name. An id may be one: some bodies are maps by id.
    pub(crate) fn has(self, name: &str) -> bool {
        self.fields.contains(name) || self.is_open && OPEN.binary_search(&name).is_ok() || is_id(name)
    }
}

/// Whether it is a snowflake.
pub(crate) fn is_id(text: &str) -> bool {
    (15..=20).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        collections::{BTreeMap, BTreeSet},
        fmt::Write as _,
        fs,
        path::Path,
    };

    /// Definitions of the SDK's types: the names of fields in each, and of the types that it mentions.
    fn definitions(text: &str) -> BTreeMap<String, (BTreeSet<String>, BTreeSet<String>)> {
        let mut found = BTreeMap::new();
        let mut current = String::new();
        for line in text.lines() {
            let code = line.split("/**").next().unwrap_or_default();
            if code.trim_start().starts_with(['*', '/']) {
                continue;
            }
            if let Some(rest) = code.strip_prefix("export interface ").or_else(|| code.strip_prefix("export type ")) {
                current = rest.chars().take_while(|c| c.is_ascii_alphanumeric()).collect();
            }
            let (fields, types): &mut (BTreeSet<String>, BTreeSet<String>) = found.entry(current.clone()).or_default();
            let mut word = String::new();
            let mut quoted = false;
            for c in code.chars().chain([' ']) {
                quoted ^= c == '"';
                if c.is_ascii_alphanumeric() || c == '_' {
                    word.push(c);
                    continue;
                }
                let is_field = !quoted && (c == ':' || c == '?') && !word.is_empty() && word != "key";
                if is_field || c == ':' && word == "key" && line.starts_with("  key:") {
                    fields.insert(word.clone());
                } else if word.starts_with(|c: char| c.is_ascii_uppercase()) && word != current {
                    types.insert(word.clone());
                }
                word.clear();
            }
        }
        found
    }

    fn table() -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdk/typescript/src/generated/protocol.ts");
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let definitions = definitions(&text);
        let bodies = text.split("export interface EventBodies {").nth(1).expect("the map of bodies");
        let mut table = BTreeMap::new();
        for line in bodies.lines().filter(|line| line.starts_with("  ")) {
            let (name, body) = line.trim().split_once(':').expect("an event and its body");
            let words = |text: &str| -> Vec<String> {
                text.split(|c: char| !c.is_ascii_alphanumeric()).map(str::to_owned).collect()
            };
            let mut fields = BTreeSet::new();
            let (mut seen, mut open) = (BTreeSet::new(), words(body));
            while let Some(of) = open.pop() {
                let Some((more, types)) = definitions.get(&of).filter(|_| seen.insert(of.clone())) else { continue };
                fields.extend(more.iter().cloned());
                open.extend(types.iter().cloned());
            }
            table.insert(name.to_owned(), fields);
        }
        let mut out = String::new();
        for (name, fields) in table {
            let fields: Vec<String> = fields.into_iter().collect();
            writeln!(out, "{}", [&[name][..], &fields].concat().join(" ")).expect("a String takes everything");
        }
        out
    }

    #[test]
    fn a1_the_table_is_that_of_the_types() {
        let (made, path) = (table(), Path::new(env!("CARGO_MANIFEST_DIR")).join("src/fields.txt"));
        if std::env::var_os("GUILDHALL_UPDATE_DOCS").is_some() {
            fs::write(&path, &made).unwrap();
        }
        assert!(
            include_str!("fields.txt") == made || std::env::var_os("GUILDHALL_UPDATE_DOCS").is_some(),
            "src/fields.txt is not up to date: GUILDHALL_UPDATE_DOCS=1 cargo test -p guildhall-lab --lib allowed"
        );
        for name in EventName::ALL.iter().filter(|name| **name != EventName::Backend) {
            assert!(made.lines().any(|line| line.split(' ').next() == Some(name.as_str())), "{}", name.as_str());
        }
        let message = Allowed::of(EventName::MessageCreate).unwrap();
        for name in ["content", "author", "global_name", "channel_id", "icon_url"] {
            assert!(message.has(name), "{name}");
        }
        assert!(!message.has("email") && !message.has("password") && !message.has("12345"));
        assert!(Allowed::of(EventName::Backend).is_none());
    }

    #[test]
    fn open_fields_are_sorted() {
        assert!(OPEN.is_sorted());
    }
}
