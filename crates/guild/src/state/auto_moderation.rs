//! Rules of auto moderation, compiled.
//!
//! Owns        `AutoMod`: the rules of a guild, their compiled words, and the actions that wait.
//! Invariants  R1 a keyword counts as a whole word, except at an end with `*`, whatever its case, and not within a text
//!             of the allow list. R2 a message is read twice per rule at most, whatever the number of keywords and of
//!             places; and once for each pattern. (tests `r1_*` …)
//! Limits      `auto_moderation` checks the number of rules and the length of their lists, `patterns` the patterns.
//!             `PENDING_MAX` actions wait; further ones are not taken. `RECENT_MAX` texts of a guild are remembered.
//!             They move with the guild, and end with the process: a repetition before that does not count.

use super::{patterns, word_lists};
use aho_corasick::{AhoCorasick, AhoCorasickKind};
use guildhall_model::{AutoModRule, AutoModTrigger, ChannelId, GuildResource, Id, MessageId, UserId};
use guildhall_stdx::Instant;
use regex::Regex;
use std::{
    collections::{BTreeMap, VecDeque},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    ops::Range,
    sync::Arc,
};

/// Rules that messages of the last milliseconds have matched. A flood of them is moderated by the first.
const PENDING_MAX: usize = 64;
const WILDCARD: char = '*';
/// Texts that are remembered for rules of spam, 24 bytes each.
const RECENT_MAX: usize = 1_024;
/// For how long.
const RECENT_MS: u64 = 60_000;
/// A text that a member has sent so often before is spam.
const REPEATS_MAX: usize = 3;
/// Shorter texts, such as "ok", are repeated without being spam.
const REPEATED_CHARS_MIN: usize = 10;
/// More links in one text are spam.
const LINKS_MAX: usize = 8;

/// A rule cannot be compiled: a faulty pattern, or too many words for one automaton.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadRule;

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
    fn new(texts: &[String]) -> Result<Option<Self>, BadRule> {
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
        let automaton = AhoCorasick::builder().kind(kind).build(cores).map_err(|_| BadRule)?;
        Ok(Some(Self { automaton, words }))
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

    fn is_empty(&self) -> bool {
        self.reach.is_empty()
    }

    /// Whether one of them has this place within it.
    fn covers(&self, at: &Range<usize>) -> bool {
        self.reach.get(at.start).is_some_and(|end| at.end <= *end)
    }
}

#[derive(Debug)]
enum Matcher {
    Keyword { words: Option<Words>, patterns: Vec<Regex>, allowed: Option<Words> },
    Spam,
    MentionSpam { limit: usize },
}

/// A text of a member, as rules judge it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judged<'a> {
    pub text: &'a str,
    /// The text in lower case.
    pub lower: &'a str,
    /// Users and roles that it mentions.
    pub mentions: usize,
    pub is_spam: bool,
}

impl Judged<'_> {
    /// Where a place of the text is in `lower`: some letters have another length there.
    fn in_lower(&self, at: &Range<usize>) -> Range<usize> {
        let length = |text: &str| text.chars().flat_map(char::to_lowercase).map(char::len_utf8).sum::<usize>();
        let start = length(&self.text[..at.start]);
        start..start + length(&self.text[at.clone()])
    }
}

/// Part of a text that matches a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// As the rule has it.
    pub keyword: Option<String>,
    /// Of a keyword, in lower case.
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
    /// Its words or patterns cannot be compiled.
    pub fn new(rule: Arc<AutoModRule>) -> Result<Self, BadRule> {
        let matcher = match &rule.trigger {
            AutoModTrigger::Keyword { keyword_filter, regex_patterns, allow_list } => Matcher::Keyword {
                words: Words::new(keyword_filter)?,
                patterns: patterns::compile(regex_patterns).map_err(|_| BadRule)?,
                allowed: Words::new(allow_list)?,
            },
            AutoModTrigger::Spam => Matcher::Spam,
            AutoModTrigger::KeywordPreset { presets, allow_list } => {
                let lists = presets.iter().map(|list| word_lists::words(*list).ok_or(BadRule));
                let words: Vec<String> =
                    lists.collect::<Result<Vec<_>, _>>()?.concat().into_iter().map(ToOwned::to_owned).collect();
                Matcher::Keyword { words: Words::new(&words)?, patterns: Vec::new(), allowed: Words::new(allow_list)? }
            }
            AutoModTrigger::MentionSpam { mention_total_limit } => {
                Matcher::MentionSpam { limit: usize::from(*mention_total_limit) }
            }
        };
        Ok(Self { rule, matcher })
    }

    /// The first part of the text that matches.
    pub fn find(&self, of: Judged<'_>) -> Option<Found> {
        match &self.matcher {
            Matcher::Keyword { words, patterns, allowed } => {
                let mut words = words.iter().flat_map(|words| words.found_in(of.lower)).peekable();
                let mut patterns = patterns
                    .iter()
                    .flat_map(|pattern| pattern.find_iter(of.text).map(move |found| (pattern, found.range())))
                    .peekable();
                if words.peek().is_none() && patterns.peek().is_none() {
                    return None;
                }
                let allowed = Allowed::new(of.lower, allowed.as_ref());
                if let Some((at, word)) = words.find(|(at, _)| !allowed.covers(at)) {
                    return Some(Found { keyword: Some(word.text.clone()), content: Some(of.lower[at].to_owned()) });
                }
                let (pattern, at) = patterns.find(|(_, at)| allowed.is_empty() || !allowed.covers(&of.in_lower(at)))?;
                Some(Found { keyword: Some(pattern.as_str().to_owned()), content: Some(of.text[at].to_owned()) })
            }
            Matcher::Spam => of.is_spam.then(Found::default),
            Matcher::MentionSpam { limit } => (of.mentions > *limit).then(Found::default),
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

/// Texts of the last minute, oldest first.
#[derive(Debug, Default)]
struct Recent(VecDeque<(Instant, UserId, u64)>);

impl Recent {
    /// Remembers a text; how often the member has sent it before, whatever its case and white space.
    fn repeats(&mut self, now: Instant, user_id: UserId, lower: &str) -> usize {
        if lower.chars().filter(|c| !c.is_whitespace()).take(REPEATED_CHARS_MIN).count() < REPEATED_CHARS_MIN {
            return 0;
        }
        while self.0.front().is_some_and(|(at, ..)| now.ms_since(*at) >= RECENT_MS) || self.0.len() >= RECENT_MAX {
            self.0.pop_front();
        }
        let mut hasher = DefaultHasher::new();
        lower.split_whitespace().for_each(|word| word.hash(&mut hasher));
        let hash = hasher.finish();
        let earlier = self.0.iter().filter(|(_, of, text)| (*of, *text) == (user_id, hash)).count();
        self.0.push_back((now, user_id, hash));
        earlier
    }
}

/// Texts of the last minute, oldest first: milliseconds since each, its author, and its hash, which nodes of other
/// builds may compute otherwise.
pub(crate) type RecentTexts = Vec<(u64, UserId, u64)>;

#[derive(Debug, Default)]
pub(crate) struct AutoMod {
    rules: BTreeMap<Id<()>, Rule>,
    pending: VecDeque<Pending>,
    recent: Recent,
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

    /// Whether a text in lower case is spam: a repetition, or many links. Remembers it if a rule is about spam.
    pub fn is_spam(&mut self, now: Instant, user_id: UserId, lower: &str) -> bool {
        let is_judged = |rule: &Rule| rule.rule.enabled && matches!(rule.matcher, Matcher::Spam);
        if !self.rules.values().any(is_judged) {
            return false;
        }
        let is_repeated = self.recent.repeats(now, user_id, lower) >= REPEATS_MAX;
        is_repeated || lower.matches("http://").chain(lower.matches("https://")).count() > LINKS_MAX
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

    /// Texts that count for rules of spam.
    pub fn recent_texts(&self, now: Instant) -> RecentTexts {
        let texts = self.recent.0.iter().map(|(at, user_id, hash)| (now.ms_since(*at), *user_id, *hash));
        texts.filter(|(age, ..)| *age < RECENT_MS).collect()
    }

    /// Begins with those of another node.
    pub fn take_over(&mut self, now: Instant, texts: RecentTexts) {
        let texts = texts.into_iter().take(RECENT_MAX);
        self.recent = Recent(texts.map(|(age, user_id, hash)| (now.before_ms(age), user_id, hash)).collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    fn keywords(words: &[&str], allowed: &[&str]) -> Rule {
        let [keyword_filter, allow_list] = [words, allowed].map(owned);
        rule(AutoModTrigger::Keyword { keyword_filter, regex_patterns: Vec::new(), allow_list })
    }

    fn find(rule: &Rule, text: &str) -> Option<Found> {
        rule.find(Judged { text, lower: &text.to_lowercase(), mentions: 0, is_spam: false })
    }

    fn rule(trigger: AutoModTrigger) -> Rule {
        Rule::new(Arc::new(AutoModRule {
            id: Id::new(1),
            name: "rule".to_owned(),
            creator_id: UserId::new(7),
            trigger,
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
            let found = find(&keywords(&[word], &[]), text);
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
        let found = |text: &str| find(&rule, text).map(|found| found.keyword.unwrap());
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
        let found = find(&rule, "some xword77x").unwrap();
        assert_eq!(found.content.as_deref(), Some("word7"), "the first that ends");
        assert_eq!(find(&rule, &"word ".repeat(400)), None);
    }

    #[test]
    fn r1_patterns_see_the_text_as_it_is() {
        let trigger = |allowed: &[&str]| AutoModTrigger::Keyword {
            keyword_filter: owned(&["plain"]),
            regex_patterns: owned(&["(?i)fr[e3]{2}\\s+nitro", "[A-Z]{6,}"]),
            allow_list: owned(allowed),
        };
        let all = rule(trigger(&[]));
        let found =
            |rule: &Rule, text: &str| find(rule, text).map(|found| (found.keyword.unwrap(), found.content.unwrap()));
        let first = "(?i)fr[e3]{2}\\s+nitro".to_owned();
        assert_eq!(found(&all, "get FREE  Nitro now"), Some((first.clone(), "FREE  Nitro".to_owned())));
        assert_eq!(found(&all, "SHOUTING"), Some(("[A-Z]{6,}".to_owned(), "SHOUTING".to_owned())));
        assert_eq!(found(&all, "plain SHOUTING"), Some(("plain".to_owned(), "plain".to_owned())));
        assert_eq!(found(&all, "shouting, free of nitro"), None);
        // Letters in front of it that have another length in lower case.
        let some = rule(trigger(&["no free nitro"]));
        assert_eq!(found(&some, "İİẞ no free nitro"), None);
        assert_eq!(found(&some, "İİẞ no free nitro, fr33 nitro"), Some((first, "fr33 nitro".to_owned())));
    }

    #[test]
    fn r1_lists_have_exceptions() {
        let trigger = AutoModTrigger::KeywordPreset { presets: vec![1, 3], allow_list: owned(&["bullshit detector"]) };
        let rule = rule(trigger);
        assert!(find(&rule, "what a Bullshit").is_some() && find(&rule, "orgasm").is_none());
        assert_eq!(find(&rule, "a bullshit detector"), None);
        let unknown = AutoModTrigger::KeywordPreset { presets: vec![4], allow_list: Vec::new() };
        let unknown = AutoModRule { trigger: unknown, ..AutoModRule::clone(&rule.rule) };
        assert!(Rule::new(Arc::new(unknown)).is_err());
    }

    #[test]
    fn repetitions_and_links_are_spam() {
        let (ana, bob) = (UserId::new(7), UserId::new(8));
        let mut all = AutoMod::default();
        let at = Instant;
        let text = "buy my fine hats";
        assert!((0..9).all(|n| !all.is_spam(at(n), ana, text)), "no rule is about spam");
        all.insert(rule(AutoModTrigger::Spam));
        let sent: Vec<bool> = (0..5).map(|n| all.is_spam(at(n), ana, text)).collect();
        assert_eq!(sent, [false, false, false, true, true]);
        assert!(all.is_spam(at(5), ana, "buy  my\nfine hats"), "whatever its white space");
        assert!(!all.is_spam(at(6), bob, text) && !all.is_spam(at(7), ana, "buy my fine coats"));
        assert!((0..9).all(|n| !all.is_spam(at(10 + n), ana, "oh well")), "too short");
        assert!(!all.is_spam(at(100 + RECENT_MS), ana, text), "long ago");
        assert!(all.is_spam(at(0), ana, &"https://a.example ".repeat(9)));
        assert!(!all.is_spam(at(0), bob, &"https://a.example ".repeat(8)));
        for n in 0..2 * RECENT_MAX as u64 {
            all.is_spam(at(200_000), UserId::new(100 + n), text);
        }
        assert_eq!(all.recent.0.len(), RECENT_MAX);
    }
}
