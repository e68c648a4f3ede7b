//! Rules of auto moderation, compiled.
//!
//! Owns        `AutoMod`: the rules of a guild, their compiled words, and the actions that wait.
//! Invariants  R1 a keyword counts as a whole word, except at an end with `*`, whatever its case, and not within a text
//!             of the allow list. R2 a message is read twice per rule at most, whatever the number of keywords and of
//!             places. (tests `r1_*` …)
//! Limits      `auto_moderation` checks the number of rules and the length of their lists. `PENDING_MAX` actions wait;
//!             further ones are not taken.

use aho_corasick::{AhoCorasick, AhoCorasickKind, BuildError};
use guildhall_model::{AutoModRule, AutoModTrigger, ChannelId, GuildResource, Id, MessageId, UserId};
use std::{
    collections::{BTreeMap, VecDeque},
    ops::Range,
    sync::Arc,
};

/// Rules that messages of the last milliseconds have matched. A flood of them is moderated by the first.
const PENDING_MAX: usize = 64;
const WILDCARD: char = '*';

/// Texts to look for, all at once.
#[derive(Debug)]
struct Words {
    automaton: AhoCorasick,
    /// In the order of the automaton.
    words: Vec<Word>,
}

#[derive(Debug)]
struct Word {
    /// As the rule has it.
    text: String,
    /// More letters may come before it.
    is_open_before: bool,
    is_open_after: bool,
}

fn is_inner(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

impl Words {
    /// None: there are none.
    fn new(texts: &[String]) -> Result<Option<Self>, BuildError> {
        let word = |text: &String| {
            let core = text.trim_matches(WILDCARD).to_lowercase();
            let (is_open_before, is_open_after) = (text.starts_with(WILDCARD), text.ends_with(WILDCARD));
            (!core.is_empty()).then(|| (core, Word { text: text.clone(), is_open_before, is_open_after }))
        };
        let (cores, words): (Vec<_>, Vec<_>) = texts.iter().filter_map(word).unzip();
        if cores.is_empty() {
            return Ok(None);
        }
        let kind = Some(AhoCorasickKind::ContiguousNFA);
        Ok(Some(Self { automaton: AhoCorasick::builder().kind(kind).build(cores)?, words }))
    }

    /// Places of a text in lower case where one of them counts.
    fn found_in<'a>(&'a self, text: &'a str) -> impl Iterator<Item = (Range<usize>, &'a Word)> {
        self.automaton.find_overlapping_iter(text).filter_map(move |found| {
            let word = &self.words[found.pattern().as_usize()];
            let begins = word.is_open_before || !text[..found.start()].ends_with(is_inner);
            let ends = word.is_open_after || !text[found.end()..].starts_with(is_inner);
            (begins && ends).then(|| (found.range(), word))
        })
    }
}

/// Places of texts of the allow list.
struct Allowed {
    /// For each byte of the text: where the longest ends that begins there or before.
    reach: Vec<usize>,
}

impl Allowed {
    fn new(text: &str, words: Option<&Words>) -> Self {
        let Some(words) = words else { return Self { reach: Vec::new() } };
        let mut reach = vec![0; text.len()];
        for (at, _) in words.found_in(text) {
            reach[at.start] = reach[at.start].max(at.end);
        }
        let mut farthest = 0;
        for end in &mut reach {
            farthest = farthest.max(*end);
            *end = farthest;
        }
        Self { reach }
    }

    /// Whether one of them has this place within it.
    fn covers(&self, at: &Range<usize>) -> bool {
        self.reach.get(at.start).is_some_and(|end| at.end <= *end)
    }
}

#[derive(Debug)]
enum Matcher {
    Keyword { words: Option<Words>, allowed: Option<Words> },
    MentionSpam { limit: usize },
}

/// Part of a text that matches a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// As the rule has it.
    pub keyword: Option<String>,
    /// In lower case.
    pub content: Option<String>,
}

/// A rule, ready for use.
#[derive(Debug)]
pub(crate) struct Rule {
    pub rule: Arc<AutoModRule>,
    matcher: Matcher,
}

impl Rule {
    /// # Errors
    /// Its words are too many for one automaton.
    pub fn new(rule: Arc<AutoModRule>) -> Result<Self, BuildError> {
        let matcher = match &rule.trigger {
            AutoModTrigger::Keyword { keyword_filter, allow_list } => {
                Matcher::Keyword { words: Words::new(keyword_filter)?, allowed: Words::new(allow_list)? }
            }
            AutoModTrigger::MentionSpam { mention_total_limit } => {
                Matcher::MentionSpam { limit: usize::from(*mention_total_limit) }
            }
        };
        Ok(Self { rule, matcher })
    }

    /// Searches a text in lower case, with this number of mentions.
    pub fn find(&self, lower: &str, mentions: usize) -> Option<Found> {
        match &self.matcher {
            Matcher::Keyword { words, allowed } => {
                let mut found = words.as_ref()?.found_in(lower).peekable();
                found.peek()?;
                let allowed = Allowed::new(lower, allowed.as_ref());
                let (at, word) = found.find(|(at, _)| !allowed.covers(at))?;
                Some(Found { keyword: Some(word.text.clone()), content: Some(lower[at].to_owned()) })
            }
            Matcher::MentionSpam { limit } => (mentions > *limit).then(Found::default),
        }
    }
}

/// A rule has matched a message; its actions wait.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub rule: Arc<AutoModRule>,
    pub user_id: UserId,
    pub channel_id: ChannelId,
    /// None: the message was refused.
    pub message_id: Option<MessageId>,
    pub content: String,
    pub found: Found,
}

#[derive(Debug, Default)]
pub(crate) struct AutoMod {
    rules: BTreeMap<Id<()>, Rule>,
    pending: VecDeque<Pending>,
}

impl AutoMod {
    /// Adds stored rules.
    pub fn load(resources: &[GuildResource]) -> Self {
        let mut all = Self::default();
        for resource in resources {
            if let GuildResource::AutoModRule(rule) = resource {
                all.follow(rule.clone());
            }
        }
        all
    }

    /// Adds or replaces a stored rule. Its words were accepted before.
    pub fn follow(&mut self, rule: Arc<AutoModRule>) {
        if let Ok(rule) = Rule::new(rule) {
            self.insert(rule);
        }
    }

    pub fn insert(&mut self, rule: Rule) {
        self.rules.insert(rule.rule.id, rule);
    }

    pub fn remove(&mut self, id: Id<()>) -> Option<Arc<AutoModRule>> {
        self.rules.remove(&id).map(|rule| rule.rule)
    }

    pub fn get(&self, id: Id<()>) -> Option<&Arc<AutoModRule>> {
        self.rules.get(&id).map(|rule| &rule.rule)
    }

    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// All of them, ascending by id.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.rules.values()
    }

    /// All of them, as they are stored.
    pub fn all(&self) -> impl Iterator<Item = GuildResource> {
        self.rules.values().map(|rule| GuildResource::AutoModRule(rule.rule.clone()))
    }

    pub fn push(&mut self, pending: Pending) {
        if self.pending.len() < PENDING_MAX {
            self.pending.push_back(pending);
        }
    }

    pub fn pop(&mut self) -> Option<Pending> {
        self.pending.pop_front()
    }

    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keywords(words: &[&str], allowed: &[&str]) -> Rule {
        let [keyword_filter, allow_list] = [words, allowed].map(|of| of.iter().map(|of| (*of).to_owned()).collect());
        Rule::new(Arc::new(AutoModRule {
            id: Id::new(1),
            name: "rule".to_owned(),
            creator_id: UserId::new(7),
            trigger: AutoModTrigger::Keyword { keyword_filter, allow_list },
            actions: Vec::new(),
            enabled: true,
            exempt_roles: Vec::new(),
            exempt_channels: Vec::new(),
        }))
        .unwrap()
    }

    #[test]
    fn r1_words_and_wildcards() {
        let check = |word: &str, text: &str, expected: bool| {
            let found = keywords(&[word], &[]).find(&text.to_lowercase(), 0);
            assert_eq!(found.is_some(), expected, "{word} in {text}");
        };
        check("cat", "a cat.", true);
        check("cat", "CAT", true);
        check("Cat", "cat", true);
        check("cat", "cats", false);
        check("cat", "bobcat", false);
        check("cat*", "cats", true);
        check("cat*", "bobcats", false);
        check("*cat", "bobcat", true);
        check("*cat", "bobcats", false);
        check("*cat*", "bobcats", true);
        check("black cat", "a black  cat", false);
        check("black cat", "a black cat", true);
        check("süß", "süß", true);
        check("süß", "süße", false);
        check("***", "anything", false);
        check("🔥", "a🔥b", false);
        check("🔥", "a 🔥 b", true);
    }

    #[test]
    fn r1_the_allow_list_covers_words_within_it() {
        let rule = keywords(&["*ass*", "cat"], &["class*", "the cat sat"]);
        let found = |text: &str| rule.find(text, 0).map(|found| found.keyword.unwrap());
        assert_eq!(found("first class"), None);
        assert_eq!(found("classes and asses"), Some("*ass*".to_owned()));
        assert_eq!(found("the cat sat"), None);
        assert_eq!(found("the cat stood"), Some("cat".to_owned()));
    }

    #[test]
    fn r2_many_words_are_one_search() {
        let words: Vec<String> = (0..1_000).map(|n| format!("*word{n}*")).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let rule = keywords(&words, &[]);
        let found = rule.find("some xword77x", 0).unwrap();
        assert_eq!(found.content.as_deref(), Some("word7"), "the first that ends");
        assert_eq!(rule.find(&"word ".repeat(400), 0), None);
    }
}
