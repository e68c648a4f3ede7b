//! Raw values: input of the file, the environment and the flags, with the place of each.
//!
//! Owns        `RawConfig`: for each setting the value of the highest source (C1), and the faults found.
//! Invariants  every value is either taken by `Config::from_raw` or was refused as unknown (C2).

use super::{Flag, Sources, VARIABLE_PREFIX, settings::SECTIONS, suggest, value::Value};
use std::{collections::BTreeMap, fmt, path::PathBuf};
use toml::de::{DeTable, DeValue};

/// Source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    Default,
    /// A default of this command, instead of the setting's own.
    Command(String),
    /// A line of the file, from 1.
    File(PathBuf, usize),
    /// An environment variable.
    Environment(String),
    /// The command line.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Command(name) => write!(f, "default of {name}"),
            Self::File(path, line) => write!(f, "{}:{line}", path.display()),
            Self::Environment(name) => write!(f, "environment variable {name}"),
            Self::Flag(name) => write!(f, "command line, {name}"),
        }
    }
}

/// A fault in the configuration: its place, the fault, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    origin: Origin,
    text: String,
}

impl Problem {
    pub(super) fn about(origin: Origin, section: &str, key: &str, what: String) -> Self {
        Self { origin, text: format!("{section}.{key} {what}") }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.text)
    }
}

/// A value as it was given.
#[derive(Clone, Debug)]
pub(super) enum Scalar {
    /// A text. Untyped: from the environment or a flag, where a number is written as text too.
    Text {
        text: String,
        /// A number may be read from it.
        untyped: bool,
    },
    /// A number of the file.
    Integer(i64),
    /// A TOML value that no setting accepts.
    Other(&'static str),
}

impl Scalar {
    /// The value's text, if it is one.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text { text, .. } => Some(text),
            _ => None,
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text { text, untyped: true } => write!(f, "{text:?}"),
            Self::Text { text, untyped: false } => write!(f, "the string {text:?}"),
            Self::Integer(number) => write!(f, "{number}"),
            Self::Other(kind) => write!(f, "a value of type {kind}"),
        }
    }
}

/// Settings of all sources before they are checked.
#[derive(Debug, Default)]
pub(super) struct RawConfig {
    values: BTreeMap<(&'static str, &'static str), (Scalar, Origin)>,
    problems: Vec<Problem>,
}

impl RawConfig {
    /// Reads the sources from the weakest to the strongest.
    pub fn read(sources: &Sources) -> Self {
        let mut raw = Self::default();
        raw.put_flags(&sources.defaults, Origin::Command);
        raw.read_file(sources);
        let ours = sources.environment.iter().filter_map(|(name, value)| {
            name.strip_prefix(VARIABLE_PREFIX).map(|rest| (name, rest.to_ascii_lowercase(), value))
        });
        for (name, rest, value) in ours {
            let (section, key) = rest.split_once("__").unwrap_or((&rest, ""));
            let scalar = Scalar::Text { text: value.clone(), untyped: true };
            raw.put(section, key, scalar, Origin::Environment(name.clone()));
        }
        raw.put_flags(&sources.flags, Origin::Flag);
        raw
    }

    fn put_flags(&mut self, flags: &[Flag], origin: impl Fn(String) -> Origin) {
        for Flag { name, setting, value } in flags {
            let (section, key) = setting.split_once('.').unwrap_or((setting, ""));
            self.put(section, key, Scalar::Text { text: value.clone(), untyped: true }, origin(name.clone()));
        }
    }

    fn read_file(&mut self, sources: &Sources) {
        let Some((path, text)) = &sources.file else { return };
        let at = |byte: usize| Origin::File(path.clone(), line_of(text, byte));
        let table = match DeTable::parse(text) {
            Ok(table) => table,
            Err(error) => {
                let origin = at(error.span().map_or(0, |span| span.start));
                self.problems.push(Problem { origin, text: format!("not TOML: {}", error.message()) });
                return;
            }
        };
        for (section, value) in table.get_ref() {
            let origin = at(section.span().start);
            let section = section.get_ref().as_ref();
            let DeValue::Table(keys) = value.get_ref() else {
                self.refuse(origin, section, "");
                continue;
            };
            if !SECTIONS.iter().any(|s| s.name == section) {
                self.refuse_section(origin, section);
                continue;
            }
            for (key, value) in keys {
                let scalar = match value.get_ref() {
                    DeValue::String(text) => Scalar::Text { text: text.to_string(), untyped: false },
                    DeValue::Integer(number) => {
                        let digits = number.as_str();
                        i64::from_str_radix(digits, number.radix()).map_or(Scalar::Other("integer"), Scalar::Integer)
                    }
                    other => Scalar::Other(other.type_str()),
                };
                self.put(section, key.get_ref(), scalar, at(key.span().start));
            }
        }
    }

    /// Records a value, which overrides those of weaker sources.
    fn put(&mut self, section: &str, key: &str, scalar: Scalar, origin: Origin) {
        let known = SECTIONS.iter().find(|s| s.name == section);
        match known.and_then(|s| s.keys.iter().find(|k| k.name == key).map(|k| (s.name, k.name))) {
            Some(setting) => drop(self.values.insert(setting, (scalar, origin))),
            None => self.refuse(origin, section, key),
        }
    }

    /// Records an unknown setting. Without a key, an unknown section.
    fn refuse(&mut self, origin: Origin, section: &str, key: &str) {
        let (name, guess) = match key {
            "" => (section.to_owned(), suggest::setting("", section)),
            key => (format!("{section}.{key}"), suggest::setting(section, key)),
        };
        let hint = match guess {
            Some(guess) => format!("did you mean `{guess}`?"),
            None => "`guildhall config default` shows all settings".to_owned(),
        };
        self.problems.push(Problem { origin, text: format!("`{name}` is not a setting; {hint}") });
    }

    fn refuse_section(&mut self, origin: Origin, section: &str) {
        let hint = match suggest::section(section) {
            Some(guess) => format!("did you mean [{guess}]?"),
            None => {
                format!("there are {}", SECTIONS.iter().map(|s| format!("[{}]", s.name)).collect::<Vec<_>>().join(", "))
            }
        };
        self.problems.push(Problem { origin, text: format!("[{section}] is not a section; {hint}") });
    }

    /// The checked value of a setting. A faulty value is recorded, and the default is used.
    pub fn take<T: Value>(
        &mut self,
        section: &'static str,
        key: &'static str,
        rule: &T::Rule,
        default: T,
    ) -> (T, Origin) {
        let Some((scalar, origin)) = self.values.remove(&(section, key)) else { return (default, Origin::Default) };
        if let Some(value) = T::read(&scalar, rule) {
            return (value, origin);
        }
        let given = if T::SECRET { "what is given".to_owned() } else { scalar.to_string() };
        let fault = T::fault(&scalar).unwrap_or_else(|| format!("expected {}", T::expected(rule)));
        let what = format!("cannot be {given}: {fault}");
        self.problems.push(Problem::about(origin.clone(), section, key, what));
        (default, origin)
    }

    /// All faults, in the order in which they were found.
    pub fn into_problems(self) -> Vec<Problem> {
        self.problems
    }
}

fn line_of(text: &str, byte: usize) -> usize {
    1 + text.bytes().take(byte).filter(|b| *b == b'\n').count()
}
