//! Which parse of a body serves a connection, and how one is made that does.
//!
//! Why         a parse is for connections that have its sources. Recipients of a body have much of the same past: those
//!             of the same `PastKey` are a group, and use the same parses. So a body has about as many parses as its
//!             recipients differ.
//! Invariants  G1 which group a connection is in depends on what it and others were sent, never on what that holds. G2
//!             the parses of a group depend on bodies that all accounts with access to the event may view, and on
//!             bodies that every connection of the group was sent: so nothing of another connection's past shows in
//!             what this one is sent.
//! Limits      `GROUPS_MAX` groups per body and format: a connection that fits none joins one without bodies of other
//!             domains, and in the end one without any. `GROUP_PARSES_MAX` parses per group, and one of what all its
//!             connections have.

use crate::{
    counters::Counters,
    history::BodyId,
    history::message_sizes::MessageSizes,
    history::{History, HistoryEntry, SearchDomains},
    limits::Effort,
    parse::prices::Prices,
    parse::{Parser, Past, Sequence, Task},
    search::dictionary::Dictionary,
    search::finder::{MatchFinder, SIMILAR_MAX, SearchLimits, SearchTask, Similar},
    search::source::Source,
    stream::references::{StreamCursor, Unresolved},
    stream::state::StreamState,
};
use smallvec::SmallVec;

/// Groups of a body's recipients: each costs a search, so their number does not grow with the recipients.
const GROUPS_MAX: usize = 64;
/// Groups beyond these, without bodies of other domains.
const COMMON_GROUPS: usize = 16;
/// Parses of a group that are made of all that one of its connections has.
const GROUP_PARSES_MAX: usize = 4;
/// Most probes of a body.
const PROBES_MAX: usize = 12;
/// Of these, the newest of the same name, which come first.
const NAMED_PROBES: usize = 3;
/// Fewest recipients of a body that are also grouped by bodies of other domains: the newest of the body's name that
/// each received. With fewer recipients, the searches for these groups would cost more than they save.
const OWN_AUDIENCE_MIN: u32 = 257;
/// Smallest window of a stream for these groups: one of 32 KiB seldom reaches bodies of other domains.
const OWN_WINDOW_MIN: u32 = 1 << 20;
/// Groups of this kind are made only while a body has fewer groups than this, of any kind.
const OWN_GROUPS_MAX: usize = 16;
/// Groups with bodies of other domains in which a connection is looked for.
const OWN_TRIED_MAX: usize = 8;

/// Bodies of its domains by which recipients of a body are grouped: first the newest of its name, then older ones.
#[derive(Clone, Debug, Default)]
pub struct Probes {
    ids: SmallVec<[BodyId; PROBES_MAX]>,
    named_count: usize,
}

impl Probes {
    /// Chooses probes for the newest body. With a parse per recipient it chooses none: no recipients are grouped.
    pub fn choose(&mut self, history: &History, body: &HistoryEntry, searched: &SearchDomains, effort: Effort) {
        self.ids.clear();
        if effort == Effort::Greedy {
            return;
        }
        let earlier = |id: &BodyId| *id < body.id;
        self.ids.extend(history.similar(body, searched).into_iter().filter(earlier).take(NAMED_PROBES));
        self.named_count = self.ids.len();
        for domain in history.domains(searched) {
            self.ids.extend(domain.spaced(body.id));
        }
        self.ids.truncate(PROBES_MAX);
    }
}

/// The part of a connection's past that decides which parse it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastKey {
    /// How far back its stream refers.
    window: u32,
    /// Which of the probes.
    had: u16,
    /// Bodies of other domains that its parses may refer to, if they may.
    own: Option<Similar>,
}

/// Connections of the same key, and the parses that serve them.
#[derive(Debug)]
pub struct Group<P> {
    key: PastKey,
    /// Of all that one of the connections has.
    parses: SmallVec<[P; 1]>,
    /// Of what all of them have.
    common: Option<P>,
}

/// The groups of a body, in a format.
pub type Groups<P> = Vec<Group<P>>;

/// Gives back most of what a body holds whose recipients have been written to.
pub fn shrink<P>(groups: &mut Groups<P>) {
    groups.truncate(GROUPS_MAX);
    groups.shrink_to_fit();
}

/// Which body is written to which connection.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    pub id: BodyId,
    /// The oldest body that the connection has within reach.
    pub oldest_reached: Option<BodyId>,
    pub cursor: StreamCursor<'a>,
}

impl Target<'_> {
    /// How many bodies back it can refer.
    #[inline]
    fn age(&self) -> Option<u32> {
        self.oldest_reached.map(|oldest| self.id.wrapping_sub(oldest))
    }

    /// How far back a body is that the connection has within reach.
    #[inline]
    pub fn find(&self, id: BodyId) -> Option<u32> {
        let age = self.age()?;
        let StreamCursor { state, sizes, position, .. } = self.cursor;
        let distance = || state.distance(id, position, sizes);
        (self.id.wrapping_sub(id) <= age).then(distance)?
    }
}

/// A parse and which head it goes with.
pub struct NewParse<'a> {
    pub bytes: &'a [u8],
    pub sequences: Vec<Sequence>,
    pub head_source: Option<BodyId>,
    /// Of the connection it is made for; others are much like it.
    pub state: &'a StreamState,
    pub sizes: &'a MessageSizes,
}

/// What parses are made with.
pub struct Parsers<'a> {
    pub finder: &'a mut MatchFinder,
    pub optimal: &'a mut Parser,
    pub counters: &'a mut Counters,
}

/// One body and one connection.
pub struct ParseSelector<'a> {
    pub history: &'a History,
    pub body: &'a HistoryEntry,
    pub probes: &'a Probes,
    pub searched: &'a SearchDomains,
    /// An estimate of how many connections are sent the body.
    pub audience: u32,
    /// And how far before the body it begins.
    pub dictionary: Option<(&'a Dictionary, u32)>,
    pub limits: SearchLimits,
    pub effort: Effort,
    pub prices: Prices<'a>,
    pub target: Target<'a>,
}

impl ParseSelector<'_> {
    /// The parse that serves the connection, which `resolve` has located.
    pub fn get_or_make<'g, P>(
        &self,
        parsers: Parsers<'_>,
        groups: &'g mut Groups<P>,
        resolve: &mut impl FnMut(&P) -> Result<(), Unresolved>,
        prepare: impl Fn(NewParse<'_>) -> P,
    ) -> &'g P {
        let Parsers { finder, optimal, counters } = parsers;
        let mut make = |similar: Similar, allowed: Allowed| {
            counters.parses_total += 1;
            prepare(self.parse((&mut *finder, &mut *optimal), similar, allowed))
        };
        let had = self.had();
        let Some(index) = self.join(groups, had) else {
            // The last group is of connections that fit no other, and refers to nothing.
            let key = PastKey { window: self.target.cursor.window, had: 0, own: None };
            let encoded = make(Similar::default(), Allowed::Nothing);
            resolve(&encoded).expect("what refers to itself alone misses nothing");
            groups.truncate(GROUPS_MAX + COMMON_GROUPS);
            groups.push(Group { key, parses: SmallVec::new(), common: Some(encoded) });
            let last = groups.last().and_then(|group| group.common.as_ref());
            return last.expect("just pushed");
        };
        let Group { key, parses, common } = &mut groups[index];
        let similar = self.similar(*key);
        let mut serving = parses.iter().position(|encoded| resolve(encoded).is_ok());
        if serving.is_none() && parses.len() < GROUP_PARSES_MAX {
            let encoded = make(similar, Allowed::Had);
            if resolve(&encoded).is_ok() {
                serving = Some(parses.len());
                parses.push(encoded);
            }
        }
        match serving {
            Some(index) => &parses[index],
            None => {
                counters.fallbacks_total += 1;
                let encoded = common.get_or_insert_with(|| make(similar, Allowed::Common(*key)));
                if resolve(encoded).is_err() {
                    // A body was evicted in between.
                    *encoded = make(Similar::default(), Allowed::Nothing);
                    resolve(encoded).expect("what refers to itself alone misses nothing");
                }
                &*encoded
            }
        }
    }

    /// The connection's group; none if it fits none and there are too many.
    fn join<P>(&self, groups: &mut Groups<P>, had: u16) -> Option<usize> {
        let window = self.target.cursor.window;
        let has_named = had & ((1 << self.probes.named_count) - 1) != 0;
        let own_groups_max = match self.effort {
            Effort::Optimal if has_named => self.own_groups_max(),
            _ => GROUPS_MAX,
        };
        let is_alike = |key: &PastKey| key.window == window && key.had == had;
        if own_groups_max > 0 {
            let own = self.own(had);
            let count = |own: &Similar| own.iter().flatten().count();
            // One of other bodies does as well, if there are as many.
            let serves = |other: Similar| other == own || count(&other) >= count(&own).max(1) && self.has_all(other);
            let with_own = groups.iter().enumerate().filter(|(_, group)| is_alike(&group.key));
            let mut with_own = with_own.filter_map(|(index, group)| Some((index, group.key.own?))).take(OWN_TRIED_MAX);
            if let Some((index, _)) = with_own.find(|(_, other)| serves(*other)) {
                return Some(index);
            }
            if groups.len() < own_groups_max {
                let key = PastKey { window, had, own: Some(own) };
                groups.push(Group { key, parses: SmallVec::new(), common: None });
                return Some(groups.len() - 1);
            }
        }
        let found = groups.iter().position(|group| is_alike(&group.key) && group.key.own.is_none());
        if found.is_none() && groups.len() < GROUPS_MAX + COMMON_GROUPS {
            groups.push(Group { key: PastKey { window, had, own: None }, parses: SmallVec::new(), common: None });
            return Some(groups.len() - 1);
        }
        found
    }

    /// Most groups with bodies of other domains, of recipients that have a body of the same name in the event's own.
    fn own_groups_max(&self) -> usize {
        let is_worth_it = self.audience >= OWN_AUDIENCE_MIN && self.target.cursor.window >= OWN_WINDOW_MIN;
        if is_worth_it { OWN_GROUPS_MAX } else { 0 }
    }

    /// How far back a body is on the connection, if it is within reach.
    #[inline]
    fn reached(&self, id: BodyId) -> Option<u32> {
        let reach = self.target.cursor.window.saturating_sub(self.body.len() as u32);
        self.target.find(id).filter(|distance| *distance <= reach)
    }

    #[inline]
    fn has(&self, id: BodyId) -> bool {
        self.reached(id).is_some()
    }

    #[inline]
    fn had(&self) -> u16 {
        let bits = self.probes.ids.iter().enumerate();
        bits.fold(0, |had, (index, id)| had | u16::from(self.has(*id)) << index)
    }

    /// The connection was sent every body that the parse may refer to.
    fn has_all(&self, own: Similar) -> bool {
        own.into_iter().flatten().all(|id| self.has(id))
    }

    /// A parse with these similar bodies, and with others that are allowed.
    fn parse(
        &self,
        (finder, optimal): (&mut MatchFinder, &mut Parser),
        similar: Similar,
        allowed: Allowed,
    ) -> NewParse<'_> {
        let Self { history, body, searched, dictionary, limits, target, .. } = *self;
        let cursor = target.cursor;
        let usable = |id| self.reached(id).filter(|_| self.allows(allowed, id));
        let dictionary = dictionary.filter(|_| allowed != Allowed::Nothing);
        let task = SearchTask { history, body, searched, similar, dictionary };
        let past = Past { history, dictionary };
        let sequences = match self.effort {
            Effort::Optimal => {
                let candidates = finder.candidates(task, limits, usable);
                let task = Task { body, past, candidates, reach: limits.reach as u32 };
                optimal.parse(task, self.prices)
            }
            _ => finder.parse(task, limits, usable),
        };
        let bytes = history.bytes(body);
        debug_assert!(rebuilds(bytes, past, &sequences), "P1");
        let head_source = head_source(history, body, &sequences);
        NewParse { bytes, sequences, head_source, state: cursor.state, sizes: cursor.sizes }
    }

    fn allows(&self, allowed: Allowed, id: BodyId) -> bool {
        match allowed {
            Allowed::Had => true,
            Allowed::Nothing => false,
            Allowed::Common(key) => {
                let probe = self.probes.ids.iter().position(|probe| *probe == id);
                probe.is_some_and(|index| key.had >> index & 1 == 1)
                    || key.own.is_some_and(|own| own.contains(&Some(id)))
            }
        }
    }

    /// Bodies of the same name that connections of a key have: some of the body's domains, then those of other domains.
    fn similar(&self, key: PastKey) -> Similar {
        let similar_max = self.limits.similar_max.min(SIMILAR_MAX);
        let own = key.own.unwrap_or_default();
        let own_count = own.iter().flatten().count();
        let named = self.probes.ids[..self.probes.named_count].iter().enumerate();
        let named = named.filter(|(index, _)| key.had >> index & 1 == 1).map(|(_, id)| *id);
        let named = named.take(similar_max.saturating_sub(own_count).max(1));
        let mut similar = Similar::default();
        similar.iter_mut().zip(named.chain(own.into_iter().flatten())).for_each(|(similar, id)| *similar = Some(id));
        similar
    }

    /// The newest bodies of the same name that the connection was sent in domains that not all recipients may view.
    fn own(&self, had: u16) -> Similar {
        let Self { history, body, target, limits, .. } = *self;
        let mut own = Similar::default();
        let has_named = had & ((1 << self.probes.named_count) - 1) != 0;
        let own_max = if has_named { limits.similar_max / 2 } else { limits.similar_max.div_ceil(2) };
        let is_searched = |slot| history.domains(self.searched).any(|domain| domain.key.slot() == slot);
        let is_elsewhere = |id: &BodyId| {
            // Mostly it is a probe, and so in a domain that is searched.
            if self.probes.ids.contains(id) {
                return false;
            }
            let other = history.entry(*id).filter(|other| *id < body.id && other.name == body.name);
            other.is_some_and(|other| !is_searched(other.slot)) && self.has(*id)
        };
        let newest = target.cursor.state.newest_named(history.name(body)).into_iter().filter(is_elsewhere);
        own.iter_mut().zip(newest.take(own_max)).for_each(|(own, id)| *own = Some(id));
        own
    }
}

/// Which bodies a parse may refer to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Allowed {
    /// All that the connection has.
    Had,
    /// What every connection of this key has.
    Common(PastKey),
    /// None but the body itself.
    Nothing,
}

/// Whether the matches of a parse equal the bytes that they replace (P1).
pub fn rebuilds(bytes: &[u8], past: Past<'_>, sequences: &[Sequence]) -> bool {
    let mut at = 0;
    sequences.iter().all(|sequence| {
        at += sequence.literals as usize;
        let length = sequence.length as usize;
        let from = (at as i32 + sequence.alignment.shift) as usize;
        let is_equal = match sequence.alignment.source {
            Source::ITSELF => from < at && bytes[from..from + length] == bytes[at..at + length],
            // An evicted source was compared when it was found.
            source => {
                past.bytes(source).is_none_or(|source| source.get(from..from + length) == Some(&bytes[at..at + length]))
            }
        };
        at += length;
        is_equal
    })
}

/// The body of the same name whose head is copied, if one is among those that `sequences` refer to anyway: best the one
/// with which the body goes on.
pub fn head_source(history: &History, body: &HistoryEntry, sequences: &[Sequence]) -> Option<BodyId> {
    let is_named = |id: &BodyId| history.entry(*id).is_some_and(|source| source.name == body.name);
    let first = sequences.first().filter(|first| first.alignment.shift == 0);
    let first = first.and_then(|first| first.alignment.source.body_id()).filter(is_named);
    let bodies = || sequences.iter().filter_map(|sequence| sequence.alignment.source.body_id());
    first.or_else(|| bodies().filter(is_named).max())
}
