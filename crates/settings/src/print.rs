//! Printing: the settings as documented TOML, and as they are in force.

use super::{Loaded, Origin, settings::SECTIONS};
use std::fmt::Write as _;

/// A commented file with every setting, its unit, valid values and default. Every line is a comment or a section, so
/// the file changes nothing until it is edited.
#[must_use]
pub fn default_toml() -> String {
    let mut out = String::from(
        "# Guildhall's settings. What is commented out has its default.\n\
         # Stronger than this file: the environment (GUILDHALL__SERVER__LISTEN=0.0.0.0:8080), and stronger still the\n\
         # command line (--listen 0.0.0.0:8080, or --set server.listen=0.0.0.0:8080).\n",
    );
    for section in SECTIONS {
        out.push('\n');
        for line in section.doc {
            let _ = writeln!(out, "#{line}");
        }
        let _ = writeln!(out, "[{}]", section.name);
        for key in section.keys {
            for line in key.doc {
                let _ = writeln!(out, "#{line}");
            }
            let _ = writeln!(out, "# Takes {}.", (key.expected)());
            let _ = match (key.default)() {
                Some(default) => writeln!(out, "# {} = {default}", key.name),
                None => writeln!(out, "# {} = \"\"", key.name),
            };
        }
    }
    out
}

/// Every setting with its current value, as TOML, with its source if it was set. No secrets (C3).
#[must_use]
pub fn effective_toml(loaded: &Loaded) -> String {
    let mut out = String::new();
    let mut section = "";
    for entry in &loaded.effective {
        if entry.section != section {
            section = entry.section;
            let _ = writeln!(out, "{}[{section}]", if out.is_empty() { "" } else { "\n" });
        }
        let _ = match (&entry.text, &entry.origin) {
            (None, _) => writeln!(out, "# {} is not set", entry.key),
            (Some(text), Origin::Default) => writeln!(out, "{} = {text}", entry.key),
            (Some(text), origin) => writeln!(out, "{} = {text}  # {origin}", entry.key),
        };
    }
    out
}

/// The settings that were set, in one line, for the log at start; "defaults" if there are none. No secrets (C3).
#[must_use]
pub fn changed_line(loaded: &Loaded) -> String {
    let set = loaded.effective.iter().filter(|entry| entry.origin != Origin::Default);
    let set = set.filter_map(|entry| Some(format!("{}.{}={}", entry.section, entry.key, entry.text.as_ref()?)));
    let line = set.collect::<Vec<_>>().join(" ");
    if line.is_empty() { "defaults".to_owned() } else { line }
}

/// Everything in one line.
#[must_use]
pub fn effective_line(loaded: &Loaded) -> String {
    let set = loaded.effective.iter().filter_map(|e| Some(format!("{}.{}={}", e.section, e.key, e.text.as_ref()?)));
    set.collect::<Vec<_>>().join(" ")
}
