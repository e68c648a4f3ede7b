//! Session reports: sessions as an operator looks at them.
//!
//! Doors       `session_matches` for a search; `session_detail` for one session; `census` for counts over all.
//! Limits      one search visits as many slots as a page of `sessions`, a census `CENSUS_MAX` sessions, so that no
//!             report holds up the partition for more than a millisecond or so. A detail lists `LOG_MAX` dispatches.
//! Not here    requests of backends: `sessions`. Shapes of the reports: `guildhall_accounting::report`.

use crate::{conn::Conn, partition::Partition, sessions::SessionPage};
use guildhall_accounting::report::BilledWays;
use guildhall_guild_protocol::SessionView;
use guildhall_model::{GuildId, UserId};
use guildhall_session::{Membership, Session};
use guildhall_stdx::{Now, SlotKey};
use std::collections::BTreeMap;

/// Sessions that one census visits.
const CENSUS_MAX: usize = 4_096;
/// Guilds of one session that a census visits.
const CENSUS_GUILDS_MAX: usize = 64;
/// Dispatches of one detail.
const LOG_MAX: u64 = 100;

/// Selects sessions; a field that is none selects all.
#[derive(Clone, Debug, Default)]
pub struct SessionMatch {
    /// In this guild.
    pub guild_id: Option<GuildId>,
    /// With an id that begins so.
    pub id: Option<String>,
    /// With a connection, or without one.
    pub is_connected: Option<bool>,
    /// With a connection whose compression has a name that begins so.
    pub compression: Option<String>,
}

/// A session as an operator sees it.
#[derive(Clone, Debug)]
pub struct SessionDetail {
    /// Its line in a list.
    pub view: SessionView,
    /// Intents of its IDENTIFY.
    pub intents: u32,
    /// Capabilities of its IDENTIFY.
    pub capabilities: u64,
    /// For how long its socket has been full; none while it takes bytes.
    pub blocked_ms: Option<u64>,
    /// Time since the client's last frame; none without a connection.
    pub silent_ms: Option<u64>,
    /// Bytes of the connection's payloads before compression, and of its frames; none without one.
    pub sent_bytes: Option<(u64, u64)>,
    /// Its frames in other codecs; none if it is not sampled for the bill.
    pub billed: Option<BilledWays>,
    /// Its guilds, in the order of their ids.
    pub guilds: Vec<SessionGuild>,
    /// What its replay buffer still has, newest first.
    pub log: Vec<LoggedDispatch>,
}

/// A guild of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionGuild {
    pub guild_id: GuildId,
    /// None before the relay has the guild's state.
    pub name: Option<String>,
    /// Whether the session receives every event of it.
    pub is_active: bool,
    /// How far the session is attached.
    pub membership: Membership,
}

/// A dispatch in a replay buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedDispatch {
    /// Its sequence number.
    pub seq: u64,
    /// Value of `t`.
    pub name: String,
    /// Bytes of the body; 0 where it would have to be made for that.
    pub bytes: usize,
    /// Whether it was written to the connection of now; false without one.
    pub is_written: bool,
}

/// Numbers of sessions; above `CENSUS_MAX` sessions scaled up from an even sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Connected sessions, by compression.
    pub by_codec: BTreeMap<&'static str, u64>,
    /// Connected sessions, by encoding.
    pub by_encoding: BTreeMap<&'static str, u64>,
    /// Connected sessions with a compressed stream, by its writer.
    pub by_writer: BTreeMap<&'static str, u64>,
    /// Bytes of memory of these streams.
    pub stream_bytes: BTreeMap<&'static str, u64>,
    /// Sessions, by platform.
    pub by_platform: BTreeMap<&'static str, u64>,
    /// Pairs of session and guild that receive every event.
    pub active: u64,
    /// Pairs that receive passive updates.
    pub passive: u64,
}

impl SessionMatch {
    fn takes(&self, session: &Session, conn: Option<&Conn>) -> bool {
        self.guild_id.is_none_or(|guild_id| session.guilds.contains(guild_id))
            && self.id.as_deref().is_none_or(|start| session.id.starts_with(start))
            && self.is_connected.is_none_or(|is_connected| conn.is_some() == is_connected)
            && self.compression.as_deref().is_none_or(|start| conn.is_some_and(|c| c.codec.name().starts_with(start)))
    }
}

impl Partition {
    /// Up to `limit` sessions that match, from a slot on.
    #[must_use]
    pub fn session_matches(&self, now: Now, which: &SessionMatch, from_slot: u32, limit: usize) -> SessionPage {
        self.filtered_page(now, from_slot, limit, |session| {
            let conn = session.conn.and_then(|conn| self.core.conns.get(conn));
            which.takes(session, conn)
        })
    }

    /// The sessions of an account that match.
    #[must_use]
    pub fn user_session_matches(&self, now: Now, user_id: UserId, which: &SessionMatch) -> Vec<SessionView> {
        let matches = |key: &SlotKey| {
            let session = self.core.sessions.get(*key)?;
            let conn = session.conn.and_then(|conn| self.core.conns.get(conn));
            which.takes(session, conn).then_some(())
        };
        let keys = self.core.sessions.of_user(user_id);
        keys.into_iter().filter(|key| matches(key).is_some()).filter_map(|key| self.view(now, key)).collect()
    }

    /// One session, in detail.
    #[must_use]
    pub fn session_detail(&self, now: Now, id: &str) -> Option<SessionDetail> {
        let key = self.core.sessions.find(id)?;
        let session = self.core.sessions.get(key)?;
        let conn = session.conn.and_then(|conn| self.core.conns.get(conn));
        Some(SessionDetail {
            view: self.view(now, key)?,
            intents: session.intents.0,
            capabilities: session.profile.capabilities.0,
            blocked_ms: conn.and_then(|conn| conn.send.blocked_since()).map(|since| now.instant.ms_since(since)),
            silent_ms: conn.map(|conn| now.instant.ms_since(conn.inbox.last_frame_at())),
            sent_bytes: conn.map(|conn| (conn.sent.raw_bytes(), conn.sent.wire_bytes())),
            billed: conn.and_then(|conn| self.core.config.bill.billed(&conn.sent)),
            guilds: session
                .guilds
                .iter()
                .map(|entry| SessionGuild {
                    guild_id: entry.guild_id,
                    name: self.guild_name(entry.guild_id, entry.relay),
                    is_active: !session.mask(entry.guild_id).is_passive(),
                    membership: entry.membership,
                })
                .collect(),
            log: log_of(session, conn),
        })
    }

    fn guild_name(&self, guild_id: GuildId, relay: u16) -> Option<String> {
        let replica = self.relays.get(guild_id, relay)?.relay.replica()?;
        Some(replica.structure.guild.name.clone())
    }

    /// Sessions by codec, encoding, platform and mode.
    #[must_use]
    pub fn census(&self) -> Census {
        let mut census = Census::default();
        let sessions = &self.core.sessions;
        let step = sessions.len().div_ceil(CENSUS_MAX).max(1);
        let mut seen = 0;
        for key in (0..sessions.places()).step_by(step).filter_map(|slot| sessions.key_at(slot)) {
            let Some(session) = sessions.get(key) else { continue };
            seen += 1;
            if let Some(conn) = session.conn.and_then(|conn| self.core.conns.get(conn)) {
                *census.by_codec.entry(conn.codec.name()).or_default() += 1;
                *census.by_encoding.entry(session.encoding.name()).or_default() += 1;
                if let Some(stream) = conn.codec.compressor() {
                    *census.by_writer.entry(stream.writer().name()).or_default() += 1;
                    *census.stream_bytes.entry(stream.writer().name()).or_default() += stream.memory_bytes() as u64;
                }
            }
            *census.by_platform.entry(session.platform().name()).or_default() += 1;
            let step = session.guilds.len().div_ceil(CENSUS_GUILDS_MAX).max(1);
            for entry in session.guilds.iter().step_by(step) {
                let mode =
                    if session.mask(entry.guild_id).is_passive() { &mut census.passive } else { &mut census.active };
                *mode += step as u64;
            }
        }
        census.scale(sessions.len() as u64, seen);
        census
    }
}

impl std::ops::AddAssign for Census {
    fn add_assign(&mut self, other: Self) {
        let add = |mine: &mut BTreeMap<&'static str, u64>, theirs: BTreeMap<&'static str, u64>| {
            theirs.into_iter().for_each(|(name, count)| *mine.entry(name).or_default() += count);
        };
        add(&mut self.by_codec, other.by_codec);
        add(&mut self.by_encoding, other.by_encoding);
        add(&mut self.by_platform, other.by_platform);
        add(&mut self.by_writer, other.by_writer);
        add(&mut self.stream_bytes, other.stream_bytes);
        self.active += other.active;
        self.passive += other.passive;
    }
}

impl Census {
    fn scale(&mut self, all: u64, seen: u64) {
        if seen == 0 || seen == all {
            return;
        }
        let scaled = |value: &mut u64| *value = value.saturating_mul(all) / seen;
        let (writers, bytes) = (&mut self.by_writer, &mut self.stream_bytes);
        let counts = [&mut self.by_codec, &mut self.by_encoding, &mut self.by_platform, writers, bytes];
        counts.into_iter().flat_map(BTreeMap::values_mut).for_each(scaled);
        scaled(&mut self.active);
        scaled(&mut self.passive);
    }
}

/// The newest dispatches of the replay buffer, newest first.
fn log_of(session: &Session, conn: Option<&Conn>) -> Vec<LoggedDispatch> {
    let replay = &session.replay;
    let first = replay.first_seq().max((replay.last_seq() + 1).saturating_sub(LOG_MAX));
    let next_seq = conn.map_or(0, |conn| conn.cursor.next_seq());
    let entry = |seq: u64| {
        let entry = replay.entry(seq)?;
        let (name, bytes) = entry.dispatch.outline(session.encoding, entry.redaction);
        Some(LoggedDispatch { seq, name, bytes, is_written: seq < next_seq })
    };
    (first..=replay.last_seq()).rev().filter_map(entry).collect()
}
