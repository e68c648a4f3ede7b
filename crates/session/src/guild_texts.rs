//! Guild texts: GUILD_CREATE of a guild, or the guild in READY, rendered once for all sessions that see the same of it.
//!
//! Owns        the texts that were used last of each guild, one for each state, view and place. A text is made for the
//!             second session that can use it: many guilds have one session that connects.
//! Invariants  X1 a session gets a text only if it sees exactly the channels of the session that it was made
//!             for, of the same structure, newest messages and voice states; what else differs is written for
//!             each. (tests `partition/tests/it/guild_create.rs`)
//! Limits      `VIEWS_MAX` texts of a guild, `TEXT_BYTES_MAX` bytes of each, `GUILDS_MAX` guilds, `ALL_BYTES_MAX` bytes
//!             of all, for `KEPT_MS`. Past the first the oldest text goes, past the second the body is made for each
//!             session, past the others all texts go. For sessions with members, threads or an own voice state in their
//!             view the body is made for the session alone.
//! Not here    the bodies: `guildhall-model`. Bodies in ETF are made for each session.

use crate::session::Session;
use guildhall_codec::Encoding;
use guildhall_guild_protocol::{GuildReplica, GuildView, Viewer as _};
use guildhall_model::{Capabilities, GuildId, from_gateway::GuildText};
use guildhall_relay::{has_same_state, viewed_channels};
use guildhall_stdx::Instant;
use std::{
    cell::{Cell, OnceCell},
    collections::HashMap,
    rc::{Rc, Weak},
};

/// A partition can have several relays of a guild; their states differ for moments.
const VIEWS_MAX: usize = 8;
const TEXT_BYTES_MAX: usize = 1 << 20;
const GUILDS_MAX: usize = 8_192;
const ALL_BYTES_MAX: usize = 16 << 20;
/// A storm is shorter, and afterwards the texts would only hold memory.
const KEPT_MS: u64 = 10_000;

/// Where a text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    GuildCreate,
    Ready,
}

impl Place {
    /// Capabilities that change the body.
    fn shaping(self) -> u64 {
        let anywhere = Capabilities::CLIENT_STATE_V2.0 | Capabilities::CHANNEL_OBFUSCATION.0;
        match self {
            Self::GuildCreate => anywhere,
            Self::Ready => anywhere | Capabilities::DEDUPE_USER_OBJECTS.0 | Capabilities::PRIORITIZED_READY_PAYLOAD.0,
        }
    }
}

/// A text, and which sessions it is for.
pub(crate) struct ViewText {
    replica: GuildReplica,
    viewed: Box<[u64]>,
    is_large: bool,
    is_user: bool,
    shaping: (Place, u64),
    /// A session has rendered its body without the text.
    is_used: Cell<bool>,
    /// None in it: the text would be too large.
    text: OnceCell<Option<GuildText>>,
    all_bytes: Rc<Cell<usize>>,
}

impl ViewText {
    /// The text; made of a session's own parts at the second use.
    pub fn text(&self, make: impl FnOnce() -> Option<GuildText>) -> Option<&GuildText> {
        if !self.is_used.replace(true) {
            return None;
        }
        let make = || {
            let text = make().filter(|text| text.bytes() <= TEXT_BYTES_MAX)?;
            self.all_bytes.set(self.all_bytes.get() + text.bytes());
            Some(text)
        };
        self.text.get_or_init(make).as_ref()
    }

    /// Bytes of the text; 0 if it has not been made.
    pub fn bytes(&self) -> usize {
        self.text.get().and_then(Option::as_ref).map_or(0, GuildText::bytes)
    }
}

impl Drop for ViewText {
    fn drop(&mut self) {
        self.all_bytes.set(self.all_bytes.get() - self.bytes());
    }
}

/// See the module.
#[derive(Default)]
pub struct GuildTexts {
    /// The last one used is the last.
    of: HashMap<GuildId, Vec<Rc<ViewText>>>,
    all_bytes: Rc<Cell<usize>>,
    began_at: Instant,
}

impl GuildTexts {
    /// The text for a session, rendered or not. None: its body is made for it alone.
    pub(crate) fn of(
        &mut self,
        now: Instant,
        session: &Session,
        (replica, view): (&GuildReplica, &GuildView),
        place: Place,
    ) -> Weak<ViewText> {
        let own = session.user_id();
        let has_own_parts = view.members.is_some() || !replica.threads.is_empty() || replica.voice.get(own).is_some();
        if session.encoding != Encoding::Json || has_own_parts {
            return Weak::new();
        }
        if self.of.len() >= GUILDS_MAX || self.bytes() >= ALL_BYTES_MAX {
            self.of.clear();
        }
        if self.of.is_empty() {
            self.began_at = now;
        }
        let viewed = viewed_channels(&replica.structure, &view.member);
        let is_large = view.member_count > u64::from(session.large_threshold());
        let shaping = (place, session.profile.capabilities.0 & place.shaping());
        let is_user = session.is_user_account();
        let is_for = |text: &Rc<ViewText>| {
            (text.is_large, text.is_user, text.shaping) == (is_large, is_user, shaping)
                && text.viewed == viewed
                && has_same_state(&text.replica, replica)
        };
        let texts = self.of.entry(replica.id()).or_default();
        if let Some(at) = texts.iter().position(is_for) {
            texts[at..].rotate_left(1);
        } else {
            if texts.len() >= VIEWS_MAX {
                texts.remove(0);
            }
            let (replica, all_bytes) = (replica.clone(), self.all_bytes.clone());
            let (is_used, text) = (Cell::new(false), OnceCell::new());
            let text = ViewText { replica, viewed, is_large, is_user, shaping, is_used, text, all_bytes };
            texts.push(Rc::new(text));
        }
        texts.last().map(Rc::downgrade).unwrap_or_default()
    }

    /// Drops the texts `KEPT_MS` after the first of them.
    pub fn sweep(&mut self, now: Instant) {
        if !self.of.is_empty() && now.ms_since(self.began_at) >= KEPT_MS {
            self.of = HashMap::new();
        }
    }

    /// Bytes of the texts.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.all_bytes.get()
    }
}
