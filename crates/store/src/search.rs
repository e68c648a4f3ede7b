//! Search: messages by their words and properties.
//!
//! Owns        the tokens of a message, and a search as clauses over tokens. Drivers have an inverted index of tokens,
//!             and know nothing else, so that all of them find the same messages.
//! Invariants  F1 a search finds a message if and only if `Clauses::accept` accepts its tokens. F2 no text of a search
//!             is syntax of a database: a token has letters and digits only, and `#` as its first character. (tests
//!             `f1_*` of the contract suite, `f2_*`)
//! Limits      `WORD_CHARS_MAX` per word, the rest is cut off; `SEARCH_WORDS_MAX` words in a search. A search counts
//!             `SEARCH_HITS_MAX` messages, and takes `SEARCH_TIME_MAX`; then it fails with `TooSlow`.
//! Not here    permissions: `MessageSearch::channels` are those that the reader may read.     Spec  ADR 53.

use guildhall_model::{ChannelId, GuildId, Id, Message, MessageId, RoleId, UserId};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::{collections::BTreeSet, ops::Bound, time::Duration};

/// Messages that a search counts, the first in its order. The pages of a search are within them.
pub const SEARCH_HITS_MAX: u32 = 10_000;
/// Different words of a search.
pub const SEARCH_WORDS_MAX: usize = 64;
/// Characters of a word. Longer ones are cut off, in messages and in searches.
const WORD_CHARS_MAX: usize = 40;
/// Words of a search from this length on also find words that begin with them.
const PREFIX_CHARS_MIN: usize = 3;
/// After this time a search fails.
pub(crate) const SEARCH_TIME_MAX: Duration = Duration::from_secs(2);
/// Messages per call of `Store::index_messages`.
pub const INDEXED_AT_ONCE_MAX: u32 = 500;
/// Up to this number of channels are a clause of the search. More are a filter of its results.
const CHANNEL_TOKENS_MAX: usize = 32;

/// Kind of an author.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthorType {
    User,
    Bot,
    Webhook,
}

/// Something that a message has besides its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Has {
    Image,
    Sound,
    Video,
    File,
    Sticker,
    Embed,
    Link,
    Poll,
    Snapshot,
}

impl Has {
    /// All of them, with their names.
    pub const ALL: [(&'static str, Self); 9] = [
        ("image", Self::Image),
        ("sound", Self::Sound),
        ("video", Self::Video),
        ("file", Self::File),
        ("sticker", Self::Sticker),
        ("embed", Self::Embed),
        ("link", Self::Link),
        ("poll", Self::Poll),
        ("snapshot", Self::Snapshot),
    ];

    fn token(self) -> String {
        let (name, _) = Self::ALL[self as usize];
        format!("#h{name}")
    }
}

impl AuthorType {
    /// All of them, with their names.
    pub const ALL: [(&'static str, Self); 3] = [("user", Self::User), ("bot", Self::Bot), ("webhook", Self::Webhook)];

    fn token(self) -> String {
        let (name, _) = Self::ALL[self as usize];
        format!("#t{name}")
    }
}

/// Order of results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SearchOrder {
    #[default]
    NewestFirst,
    OldestFirst,
}

/// A search for messages of one guild, or of direct messages. An empty list is no condition, except `channels`.
#[derive(Clone, Debug, Default)]
pub struct MessageSearch {
    /// None: direct messages.
    pub guild_id: Option<GuildId>,
    /// Only messages of these channels and threads, ascending.
    pub channels: Vec<ChannelId>,
    /// Messages with all of these words. A word of three characters or more also finds longer words that begin with it.
    pub content: String,
    /// By one of these.
    pub authors: Vec<UserId>,
    /// By one of these kinds, and by none of those that are false.
    pub author_types: Vec<(AuthorType, bool)>,
    /// That mention one of these.
    pub mentions: Vec<UserId>,
    /// That mention one of these.
    pub mention_roles: Vec<RoleId>,
    pub mention_everyone: Option<bool>,
    /// That reply to one of these.
    pub replied_to: Vec<MessageId>,
    pub pinned: Option<bool>,
    /// With all of these, and with none of those that are false.
    pub has: Vec<(Has, bool)>,
    /// With a link to one of these hosts.
    pub link_hosts: Vec<String>,
    /// With a file that has one of these names, whatever their case.
    pub filenames: Vec<String>,
    /// With a file that has one of these extensions, without the dot.
    pub extensions: Vec<String>,
    /// Only newer messages.
    pub after: Option<MessageId>,
    /// Only older messages.
    pub before: Option<MessageId>,
    pub order: SearchOrder,
    /// Results before the page.
    pub offset: u32,
    /// Length of the page.
    pub limit: u32,
}

/// A page of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchPage {
    /// Messages that were found, at most `SEARCH_HITS_MAX`.
    pub total: u32,
    pub messages: Vec<(ChannelId, MessageId)>,
}

/// State of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchIndex {
    /// Every message is in it.
    Current,
    /// Some new or changed messages are not in it yet.
    Behind,
    /// Messages from before the store had an index are not in it yet.
    Building {
        /// How many of them are.
        indexed: u64,
    },
}

/// One of the tokens, or for a negated clause none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Clause {
    pub(crate) is_negated: bool,
    pub(crate) any_of: Vec<Term>,
}

/// A token, or with `is_prefix` those that begin with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Term {
    pub(crate) token: String,
    pub(crate) is_prefix: bool,
}

/// A search over tokens: every clause holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clauses(Vec<Clause>);

impl MessageSearch {
    /// None: nothing can be found.
    pub(crate) fn clauses(&self) -> Option<Clauses> {
        let words = words(&self.content);
        if self.channels.is_empty() || words.is_empty() && !self.content.trim().is_empty() {
            return None;
        }
        let mut clauses = Clauses::default();
        for word in words {
            let is_prefix = word.chars().count() >= PREFIX_CHARS_MIN;
            clauses.0.push(Clause { is_negated: false, any_of: vec![Term { token: word, is_prefix }] });
        }
        clauses.any(id_tokens('a', &self.authors));
        clauses.any(id_tokens('m', &self.mentions));
        clauses.any(id_tokens('r', &self.mention_roles));
        clauses.any(id_tokens('q', &self.replied_to));
        clauses.any(self.link_hosts.iter().map(|host| text_token('l', host)).collect());
        clauses.any(self.filenames.iter().map(|name| text_token('f', name)).collect());
        clauses.any(self.extensions.iter().map(|name| text_token('x', name)).collect());
        clauses.any(self.author_types.iter().filter(|(_, wanted)| *wanted).map(|(kind, _)| kind.token()).collect());
        if self.channels.len() <= CHANNEL_TOKENS_MAX {
            clauses.any(id_tokens('c', &self.channels));
        }
        if let Some(guild_id) = self.guild_id {
            clauses.any(vec![format!("#g{guild_id}")]);
        }
        for (has, wanted) in &self.has {
            clauses.is(has.token(), *wanted);
        }
        for (kind, wanted) in self.author_types.iter().filter(|(_, wanted)| !*wanted) {
            clauses.is(kind.token(), *wanted);
        }
        for (token, wanted) in [("#e", self.mention_everyone), ("#p", self.pinned)] {
            if let Some(wanted) = wanted {
                clauses.is(token.to_owned(), wanted);
            }
        }
        Some(clauses)
    }

    /// Ids of results lie between these, exclusive.
    pub(crate) fn bounds(&self) -> (i64, i64) {
        let int = |id: MessageId| i64::try_from(id.get()).unwrap_or(i64::MAX);
        // Without overflow where a driver adds to it.
        (self.after.map_or(0, int), self.before.map_or(i64::MAX, int).min(i64::MAX - 8))
    }
}

impl Clauses {
    fn is(&mut self, token: String, wanted: bool) {
        let any_of = vec![Term { token, is_prefix: false }];
        self.0.push(Clause { is_negated: !wanted, any_of });
    }

    fn any(&mut self, tokens: Vec<String>) {
        if !tokens.is_empty() {
            let term = |token| Term { token, is_prefix: false };
            self.0.push(Clause { is_negated: false, any_of: tokens.into_iter().map(term).collect() });
        }
    }

    /// Whether they accept a message with these tokens.
    pub(crate) fn accept(&self, tokens: &BTreeSet<String>) -> bool {
        let has = |term: &Term| match term.is_prefix {
            false => tokens.contains(&term.token),
            true => {
                let from = (Bound::Included(term.token.as_str()), Bound::Unbounded);
                tokens.range::<str, _>(from).next().is_some_and(|found| found.starts_with(&term.token))
            }
        };
        self.0.iter().all(|clause| clause.any_of.iter().any(has) != clause.is_negated)
    }

    /// As a query of FTS5. A search always has a clause that is not negated: its guild, or its channels.
    pub(crate) fn fts5(&self) -> String {
        let term = |term: &Term| format!("\"{}\"{}", term.token, if term.is_prefix { "*" } else { "" });
        let side = |is_negated: bool, separator: &str| {
            let clauses = self.0.iter().filter(|clause| clause.is_negated == is_negated);
            let any = |clause: &Clause| clause.any_of.iter().map(term).collect::<Vec<_>>().join(" OR ");
            clauses.map(|clause| format!("({})", any(clause))).collect::<Vec<_>>().join(separator)
        };
        match (side(false, " AND "), side(true, " OR ")) {
            (wanted, unwanted) if unwanted.is_empty() => wanted,
            (wanted, unwanted) => format!("({wanted}) NOT ({unwanted})"),
        }
    }

    /// As a `tsquery`.
    pub(crate) fn tsquery(&self) -> String {
        let term = |term: &Term| format!("'{}'{}", term.token, if term.is_prefix { ":*" } else { "" });
        let clause = |clause: &Clause| {
            let any = clause.any_of.iter().map(term).collect::<Vec<_>>().join(" | ");
            format!("{}({any})", if clause.is_negated { "!" } else { "" })
        };
        self.0.iter().map(clause).collect::<Vec<_>>().join(" & ")
    }
}

/// Tokens of a message; none of those that are never found: notes of the server, and the first message of a thread,
/// which only refers to another.
pub(crate) fn tokens(message: &Message) -> Option<BTreeSet<String>> {
    let is_written = matches!(
        message.kind,
        Message::KIND_DEFAULT
            | Message::KIND_REPLY
            | Message::KIND_CHAT_INPUT_COMMAND
            | Message::KIND_CONTEXT_MENU_COMMAND
    );
    if !is_written {
        return None;
    }
    let mut tokens = words(&message.content);
    if let Some(poll) = &message.poll {
        tokens.extend(words(&poll.question));
        tokens.extend(poll.answers.iter().filter_map(|answer| answer.text.as_deref()).flat_map(words));
    }
    tokens.insert(format!("#c{}", message.channel_id));
    tokens.insert(format!("#a{}", message.author.id));
    tokens.extend(message.guild_id.map(|id| format!("#g{id}")));
    tokens.extend(message.mentions.iter().map(|user| format!("#m{}", user.id)));
    tokens.extend(message.mention_roles.iter().map(|role| format!("#r{role}")));
    let replied_to = message.message_reference.filter(|_| message.snapshots.is_empty());
    tokens.extend(replied_to.map(|to| format!("#q{}", to.message_id)));
    let author_type = match (message.webhook_id, message.author.bot) {
        (Some(_), _) => AuthorType::Webhook,
        (None, true) => AuthorType::Bot,
        (None, false) => AuthorType::User,
    };
    tokens.insert(author_type.token());
    let links = links(&message.content);
    let flags = [("#e", message.mention_everyone), ("#p", message.pinned)];
    tokens.extend(flags.into_iter().filter(|(_, is_set)| *is_set).map(|(token, _)| token.to_owned()));
    let mut has = |has: Has, is_so: bool| {
        if is_so {
            tokens.insert(has.token());
        }
    };
    let media = |kind: &str| {
        let is_file = message
            .attachments
            .iter()
            .any(|file| file.content_type.as_deref().is_some_and(|of| of.split('/').next() == Some(kind)));
        is_file || message.embeds.iter().any(|embed| is_embed_with(embed, kind))
    };
    has(Has::Image, media("image"));
    has(Has::Sound, media("audio"));
    has(Has::Video, media("video"));
    has(Has::File, !message.attachments.is_empty());
    has(Has::Sticker, !message.sticker_items.is_empty());
    has(Has::Embed, !message.embeds.is_empty());
    has(Has::Link, !links.is_empty());
    has(Has::Poll, message.poll.is_some());
    has(Has::Snapshot, !message.snapshots.is_empty());
    tokens.extend(links.iter().map(|host| text_token('l', host)));
    for file in &message.attachments {
        tokens.insert(text_token('f', &file.filename));
        tokens.extend(file.filename.rsplit_once('.').map(|(_, extension)| text_token('x', extension)));
    }
    Some(tokens)
}

/// Whether an embed is or shows a picture, a sound or a video.
fn is_embed_with(embed: &Value, kind: &str) -> bool {
    let shown = |key: &str| embed.get(key).is_some_and(|value| !value.is_null());
    match kind {
        "image" => shown("image") || shown("thumbnail") || embed["type"] == "image",
        "video" => shown("video") || embed["type"] == "video",
        _ => false,
    }
}

fn id_tokens<T>(kind: char, ids: &[Id<T>]) -> Vec<String> {
    ids.iter().map(|id| format!("#{kind}{id}")).collect()
}

/// A token for a text of any characters, whatever their case.
fn text_token(kind: char, text: &str) -> String {
    let digest = Sha256::digest(text.to_lowercase().as_bytes());
    let bytes: [u8; 8] = std::array::from_fn(|i| digest[i]);
    format!("#{kind}{:016x}", u64::from_be_bytes(bytes))
}

/// Hosts of the links in a text.
fn links(text: &str) -> BTreeSet<String> {
    let starts = text.match_indices("://").filter_map(|(at, separator)| {
        let scheme = &text[..at];
        let is_web = ["http", "https"].iter().any(|name| {
            scheme.len() >= name.len()
                && scheme.is_char_boundary(scheme.len() - name.len())
                && scheme[scheme.len() - name.len()..].eq_ignore_ascii_case(name)
        });
        is_web.then(|| &text[at + separator.len()..])
    });
    let host = |rest: &str| {
        let end = rest.find(|c: char| c.is_whitespace() || "/?#:<>()\"'".contains(c)).unwrap_or(rest.len());
        rest[..end].trim_end_matches(['.', ',', '!']).to_lowercase()
    };
    starts.map(host).filter(|host| !host.is_empty()).collect()
}

/// Different words of a text, in lower case. A character of a script without spaces is a word.
pub(crate) fn words(text: &str) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    let mut word = String::new();
    let mut chars = 0;
    for c in text.chars().flat_map(char::to_lowercase).chain([' ']) {
        let is_alone = is_without_spaces(c);
        if is_alone || !c.is_alphanumeric() {
            if !word.is_empty() {
                words.insert(std::mem::take(&mut word));
            }
            chars = 0;
            if is_alone {
                words.insert(c.to_string());
            }
        } else if chars < WORD_CHARS_MAX {
            word.push(c);
            chars += 1;
        }
    }
    words
}

/// How many different words a search has.
#[must_use]
pub fn search_words_count(content: &str) -> usize {
    words(content).len()
}

/// Letters of scripts that do not separate words: Thai to Myanmar, Khmer, Kana, Han.
fn is_without_spaces(c: char) -> bool {
    let code = u32::from(c);
    let is_in = matches!(code, 0x0e00..=0x0eff | 0x1000..=0x109f | 0x1780..=0x17ff | 0x3040..=0x30ff | 0x3400..=0x4dbf)
        || matches!(code, 0x4e00..=0x9fff | 0xf900..=0xfaff | 0x20000..=0x3ffff);
    is_in && c.is_alphanumeric()
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_model::User;
    use std::sync::Arc;

    fn found(text: &str) -> Vec<String> {
        words(text).into_iter().collect()
    }

    #[test]
    fn words_of_a_text() {
        assert_eq!(found("Hello, WORLD! hello"), ["hello", "world"]);
        assert_eq!(found("Ärger über İstanbul"), ["i", "stanbul", "ärger", "über"]);
        assert_eq!(found("日本 go1.2"), ["2", "go1", "日", "本"]);
        assert_eq!(found("\"NEAR(a b)\" * - ' \0 🔥"), ["a", "b", "near"]);
        assert_eq!(found(&"x".repeat(50)), ["x".repeat(WORD_CHARS_MAX)]);
        assert!(found("").is_empty());
    }

    #[test]
    fn hosts_of_links() {
        let hosts = |text: &str| links(text).into_iter().collect::<Vec<_>>();
        assert_eq!(hosts("see https://Example.org/a?b, (http://b.net:80)."), ["b.net", "example.org"]);
        assert!(hosts("ftp://x.org, https:// , ://y").is_empty());
        assert_eq!(hosts("äHTTPS://x.org."), ["x.org"]);
    }

    /// Whatever the text, a query has the quotes and operators of its form only.
    #[test]
    fn f2_no_text_is_syntax() {
        let nasty = "\"a\" OR b* NEAR(c, 2) -d ^e {x}: 'f' \\ :* & | ! ( ) \0 #p";
        let search = MessageSearch {
            channels: vec![ChannelId::new(5)],
            content: nasty.to_owned(),
            link_hosts: vec![nasty.to_owned()],
            filenames: vec![nasty.to_owned()],
            extensions: vec![nasty.to_owned()],
            has: vec![(Has::Image, false)],
            ..MessageSearch::default()
        };
        let clauses = search.clauses().unwrap();
        for term in clauses.0.iter().flat_map(|clause| &clause.any_of) {
            let rest = term.token.strip_prefix('#').unwrap_or(&term.token);
            assert!(!rest.is_empty() && rest.chars().all(char::is_alphanumeric), "{term:?}");
        }
        assert!(clauses.fts5().ends_with(" NOT ((\"#himage\"))"), "{}", clauses.fts5());
        assert!(clauses.tsquery().ends_with(" & !('#himage')"), "{}", clauses.tsquery());
    }

    #[test]
    fn a_search_without_a_word_finds_nothing() {
        let search = |content: &str| MessageSearch {
            channels: vec![ChannelId::new(5)],
            content: content.to_owned(),
            ..MessageSearch::default()
        };
        assert!(search("!!!").clauses().is_none() && search("🔥").clauses().is_none());
        assert!(search(" ").clauses().is_some());
        assert!(MessageSearch { channels: Vec::new(), ..search("a") }.clauses().is_none());
    }

    #[test]
    fn notes_of_the_server_have_no_tokens() {
        let author = Arc::new(User::new(UserId::new(7), "ana"));
        let message = Message::new(MessageId::new(50), ChannelId::new(10), GuildId::new(1), author);
        assert!(tokens(&message).is_some());
        assert!(tokens(&Message { kind: Message::KIND_PIN, ..message.clone() }).is_none());
        assert!(tokens(&Message { kind: Message::KIND_THREAD_STARTER, ..message }).is_none());
    }
}
