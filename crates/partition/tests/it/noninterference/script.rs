//! Scripts: the operations of a run, drawn from a seed, and which of their texts are secret from the observer.

use guildhall_stdx::Rng;
use std::{collections::BTreeSet, fmt};

/// Somewhere that messages are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// Every member of guild A may view it.
    Open,
    /// Insiders of guild A.
    Hidden,
    /// Every member of guild A, until its overwrites change.
    Ruled,
    /// Of guild A, never for the observer.
    Vault,
    /// A public thread of `Open`.
    Thread,
    /// A public thread of `Hidden`.
    HiddenThread,
    /// A private thread of `Open`.
    PrivateThread,
    /// Every member of guild B.
    Other,
    /// Of guild B, never for the observer.
    OtherVault,
    /// Guild C, which the observer never joins.
    Elsewhere,
    /// The observer's direct message.
    OwnDirect,
    /// Others' direct message.
    Direct,
    /// A group that the observer may be added to.
    Group,
}

impl Place {
    pub const ALL: [Self; 13] = [
        Self::Open,
        Self::Hidden,
        Self::Ruled,
        Self::Vault,
        Self::Thread,
        Self::HiddenThread,
        Self::PrivateThread,
        Self::Other,
        Self::OtherVault,
        Self::Elsewhere,
        Self::OwnDirect,
        Self::Direct,
        Self::Group,
    ];

    /// Outside guilds, where bots read content without an intent.
    pub fn is_direct(self) -> bool {
        matches!(self, Self::OwnDirect | Self::Direct | Self::Group)
    }
}

/// A text of 44 characters around one of a few phrases. A secret one is another text in the second world.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Text {
    pub phrase: u64,
    pub around: u64,
    /// The observer may not see it.
    pub is_secret: bool,
}

const PHRASES: u64 = 3;
pub const PHRASE_CHARS: usize = 24;

fn letters(seed: u64, len: usize) -> String {
    const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    let mut rng = Rng::new(seed);
    (0..len).map(|_| char::from(ALPHABET[rng.below(36) as usize])).collect()
}

impl Text {
    /// As it is written in one of the two worlds.
    pub fn in_world(self, world: usize) -> String {
        let is_other = self.is_secret && world == 1;
        let phrase = match (is_other, self.around % 2) {
            (false, _) => letters((1 << 40) + self.phrase, PHRASE_CHARS),
            (true, 0) => letters((1 << 40) + (self.phrase + 1) % PHRASES, PHRASE_CHARS),
            (true, _) => letters(!self.around, PHRASE_CHARS),
        };
        let around = if is_other { self.around ^ 1 << 60 } else { self.around };
        format!("{}{phrase}{}", letters(around, 10), letters(around ^ 1 << 50, 10))
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}{}", if self.is_secret { "secret " } else { "" }, self.phrase)
    }
}

/// One operation. Users are numbers; `OBSERVER` is the observer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Say {
        place: Place,
        by: u64,
        text: Text,
        names_observer: bool,
        answers: bool,
    },
    Edit {
        place: Place,
        text: Text,
    },
    /// An answer to an interaction in guild A that one account reads, and its edit.
    Ephemeral {
        reader: u64,
        text: Text,
    },
    Delete {
        place: Place,
    },
    React {
        place: Place,
        by: u64,
    },
    Type {
        place: Place,
        by: u64,
    },
    Activity {
        by: u64,
        text: Text,
    },
    Nick {
        text: Text,
    },
    Insider {
        is_one: bool,
    },
    OtherInsider {
        by: u64,
        is_one: bool,
    },
    /// A new name and topic of a channel that the observer never views.
    Name {
        place: Place,
        text: Text,
    },
    /// Overwrites of `Ruled`: none, hidden from everyone, for insiders.
    Rules {
        rule: u64,
    },
    /// The insiders' role has VIEW_CHANNEL, or has not.
    RoleViews {
        has: bool,
    },
    Member {
        of_other: bool,
        is_one: bool,
    },
    OtherMember {
        by: u64,
        is_one: bool,
    },
    Subscribe {
        client: u64,
        what: u64,
    },
    /// A connection is cut and resumes, at the other partition or here.
    Resume {
        client: u64,
        elsewhere: bool,
    },
    Reconnect {
        client: u64,
    },
    InThread,
    InGroup {
        is_in: bool,
    },
    Advance {
        ms: u64,
    },
    Restart,
    /// Guilds' messages wait until the next `Settle`, and are delivered in one turn.
    Hold,
    /// The same, but only for the relays with one number in one partition: they lag.
    Lag {
        side: usize,
        relay: u16,
    },
    /// The lagging relays handle `count` of their messages.
    CatchUp {
        count: usize,
    },
    Settle,
}

pub const OBSERVER: u64 = 750;

/// Accounts that write in a place.
fn writers(place: Place) -> &'static [u64] {
    match place {
        Place::Open | Place::Ruled | Place::Thread => &[OBSERVER, OBSERVER, 701, 702, 703, 704],
        Place::Hidden | Place::HiddenThread | Place::Vault | Place::PrivateThread => &[701, 702],
        Place::Other => &[701, 703, 705, OBSERVER],
        Place::OtherVault => &[701, 703],
        Place::Elsewhere => &[702, 704, 706],
        Place::OwnDirect => &[OBSERVER, 701],
        Place::Direct => &[702, 703],
        Place::Group => &[701, 702, 703, OBSERVER],
    }
}

/// Guilds, roles and threads of the observer.
#[derive(Clone, Copy, Debug)]
struct Access {
    in_a: bool,
    in_b: bool,
    insider: bool,
    rule: u64,
    in_thread: bool,
    in_group: bool,
}

impl Access {
    const FIRST: Self = Self { in_a: true, in_b: false, insider: false, rule: 0, in_thread: false, in_group: false };

    fn views(self, place: Place) -> bool {
        match place {
            Place::Open | Place::Thread => self.in_a,
            Place::Hidden | Place::HiddenThread => self.in_a && self.insider,
            Place::Ruled => self.in_a && (self.rule == 0 || self.rule == 2 && self.insider),
            Place::PrivateThread => self.in_a && self.in_thread,
            Place::Other => self.in_b,
            Place::Vault | Place::OtherVault | Place::Elsewhere | Place::Direct => false,
            Place::OwnDirect => true,
            Place::Group => self.in_group,
        }
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Insider { is_one } => self.insider = self.in_a && is_one,
            Op::Rules { rule } => self.rule = rule,
            Op::Member { of_other: true, is_one } => self.in_b = is_one,
            Op::Member { of_other: false, is_one } => {
                self.in_a = is_one;
                // Roles and threads go with the membership.
                (self.insider, self.in_thread) = (self.insider && is_one, self.in_thread && is_one);
            }
            Op::InThread => self.in_thread = self.in_a,
            Op::InGroup { is_in } => self.in_group = is_in,
            Op::Restart => *self = Self::FIRST,
            _ => {}
        }
    }

    /// Whether the op changes memberships rather than rules: an account that gains a place by it may read
    /// the past there.
    fn is_of_people(op: Op) -> bool {
        matches!(op, Op::Insider { .. } | Op::Member { .. } | Op::InThread)
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Script {
    pub ops: Vec<Op>,
}

impl Script {
    /// `is_bot`: the observer is a bot without privileged intents, which may not see content, presences and members.
    /// `hides`: nor names of channels out of view.
    pub fn new(seed: u64, is_bot: bool, hides: bool, length: usize) -> Self {
        let mut rng = Rng::new(seed);
        let mut ops: Vec<Op> = (0..length).map(|_| some_op(&mut rng, is_bot)).collect();
        if rng.chance(0.4) {
            let at = rng.below(length as u64 / 2) as usize;
            ops.splice(at..at, narrowed_while_away(&mut rng));
        }
        // Only messages, rules and, while relays lag, memberships are held, and every hold ends.
        let (mut is_held, mut lags) = (false, false);
        for op in &mut ops {
            match op {
                Op::Hold => (is_held, lags) = (true, false),
                Op::Lag { .. } => (is_held, lags) = (true, true),
                Op::Settle => is_held = false,
                Op::Say { .. } | Op::Edit { .. } | Op::Ephemeral { .. } => {}
                Op::Rules { .. } | Op::Delete { .. } | Op::React { .. } => {}
                Op::Member { .. } | Op::Insider { .. } | Op::CatchUp { .. } if lags => {}
                _ if is_held => *op = Op::Settle,
                _ => {}
            }
            is_held &= *op != Op::Settle;
        }
        ops.push(Op::Settle);
        mark_secrets(&mut ops, is_bot, hides);
        Self { ops }
    }
}

/// A public channel is written in and narrowed while the observer is no member: texts that were public once, and that
/// the observer may not read when it returns.
fn narrowed_while_away(rng: &mut Rng) -> Vec<Op> {
    let mut ops = vec![Op::Settle, Op::Rules { rule: 0 }, Op::Member { of_other: false, is_one: false }];
    let lags = rng.chance(0.7);
    if lags {
        ops.push(some_lag(rng));
    }
    let writers = [701, 702, 703, 704];
    let mut say = |place, by| Op::Say {
        place,
        by,
        text: Text { phrase: rng.below(PHRASES), around: rng.next_u64() >> 8, is_secret: false },
        names_observer: false,
        answers: false,
    };
    ops.extend((0..16).map(|n| say(Place::Ruled, writers[n % writers.len()])));
    ops.extend([Op::Rules { rule: 1 }, Op::Member { of_other: false, is_one: true }]);
    if lags {
        // The relays in front deliver these before the lagging relays deliver the past.
        ops.extend((0..6).map(|n| say(Place::Open, if n % 2 == 0 { OBSERVER } else { 703 })));
        ops.push(Op::CatchUp { count: 1 + rng.below(20) as usize });
        ops.extend((0..6).map(|n| {
            let by = if n % 2 == 0 { OBSERVER } else { 703 };
            let text = Text { phrase: rng.below(PHRASES), around: rng.next_u64() >> 8, is_secret: false };
            Op::Say { place: Place::Open, by, text, names_observer: false, answers: false }
        }));
        ops.push(Op::Settle);
    }
    ops
}

fn some_lag(rng: &mut Rng) -> Op {
    Op::Lag { side: usize::from(rng.chance(0.2)), relay: rng.below(4) as u16 }
}

fn some_op(rng: &mut Rng, is_bot: bool) -> Op {
    let text = |rng: &mut Rng| Text { phrase: rng.below(PHRASES), around: rng.next_u64() >> 8, is_secret: false };
    let place = *rng.pick(&Place::ALL).expect("there are some");
    let by = *rng.pick(writers(place)).expect("there are some");
    let client = rng.below(12);
    match rng.below(100) {
        0..50 => {
            Op::Say { place, by, text: text(rng), names_observer: is_bot && rng.chance(0.2), answers: rng.chance(0.15) }
        }
        50..54 => Op::Edit { place, text: text(rng) },
        54..55 => Op::Delete { place },
        55..58 => Op::Ephemeral { reader: *rng.pick(&[OBSERVER, 701, 702, 703, 704]).expect("five"), text: text(rng) },
        58..60 => Op::React { place, by },
        60..63 => Op::Type { place, by },
        63..67 => Op::Activity { by: *rng.pick(&[706, 760]).expect("two"), text: text(rng) },
        67..69 => Op::Nick { text: text(rng) },
        69..71 => Op::Insider { is_one: rng.chance(0.6) },
        71..73 => Op::OtherInsider { by: *rng.pick(&[703, 704]).expect("two"), is_one: rng.chance(0.5) },
        73..77 => Op::Rules { rule: rng.below(3) },
        77..78 => Op::RoleViews { has: rng.chance(0.5) },
        78..80 => Op::Member { of_other: true, is_one: rng.chance(0.6) },
        80..81 => Op::Member { of_other: false, is_one: rng.chance(0.6) },
        81..82 => Op::OtherMember { by: *rng.pick(&[704, 706]).expect("two"), is_one: rng.chance(0.6) },
        82..86 => Op::Subscribe { client, what: rng.below(5) },
        86..89 => Op::Resume { client, elsewhere: rng.chance(0.5) },
        89..90 => Op::Reconnect { client },
        90..91 => Op::InThread,
        91..92 => Op::InGroup { is_in: rng.chance(0.7) },
        92..95 => Op::Advance { ms: *rng.pick(&[250, 5_000, 31_000]).expect("three") },
        95..96 if rng.chance(0.3) => Op::Restart,
        95..97 => Op::Hold,
        97..98 => Op::Name { place: *rng.pick(&[Place::Vault, Place::OtherVault]).expect("two"), text: text(rng) },
        98 => some_lag(rng),
        _ => Op::Settle,
    }
}

/// A text is secret if the observer may not view its place when it is written, nor gains the place later by a change of
/// membership, after which it may read the past. After a change of rules the past stays secret.
fn mark_secrets(ops: &mut [Op], is_bot: bool, hides: bool) {
    let mut access = Access::FIRST;
    let mut viewed = Vec::with_capacity(ops.len());
    let mut gained = Vec::with_capacity(ops.len());
    for op in &*ops {
        let before = access;
        // Ops apply while nothing is delivered, too: where the guild is, and not the connection, is what counts.
        access.apply(*op);
        let of = |access: Access| Place::ALL.into_iter().filter(move |place| access.views(*place));
        let now: BTreeSet<Place> = of(access).collect();
        let newly = of(access).filter(|place| Access::is_of_people(*op) && !before.views(*place)).collect::<Vec<_>>();
        viewed.push(now);
        gained.push(newly);
    }
    let mut comes: BTreeSet<Place> = BTreeSet::new();
    for (at, op) in ops.iter_mut().enumerate().rev() {
        comes.extend(&gained[at]);
        let is_hidden = |place: Place| !viewed[at].contains(&place) && !comes.contains(&place);
        let lacks_content = |place: Place| is_bot && !place.is_direct();
        match op {
            Op::Say { place, by, text, names_observer, .. } => {
                let is_own = *by == OBSERVER || *names_observer;
                text.is_secret = (is_hidden(*place) || lacks_content(*place)) && !is_own;
            }
            Op::Ephemeral { reader, text } => text.is_secret = *reader != OBSERVER,
            Op::Edit { place, text } => text.is_secret = is_hidden(*place) || lacks_content(*place),
            // User accounts of guild A may see what its members do; those of guild C may not be seen.
            Op::Activity { by, text } => text.is_secret = is_bot || *by == 706,
            Op::Nick { text } => text.is_secret = is_bot,
            Op::Name { text, .. } => text.is_secret = hides,
            _ => {}
        }
    }
}
