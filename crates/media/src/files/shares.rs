//! Shares: bytes of files that one account and one guild may have, and the owners of files.
//!
//! Owns        bytes by guild and channel, and the bytes that each account or webhook uploaded within a day.
//! Why         without shares one account can fill `bytes_max`, after which every upload is refused.
//! Invariants  S1 files of one guild never exceed its share, uploads in progress included. S2 an account's uploads of
//!             any 24 hours never exceed its share. S3 attachments leave the reserve to
//!             pictures. (tests `s1_*` to `s3_*`)
//! Limits      `SENDERS_MAX` accounts; past it the one with the fewest bytes is forgotten. An entry per channel that
//!             has files. Both are of this node: in a cluster each node counts what came by it, and a restart forgets
//!             the uploads of the day.
//! Not here    the sum of all bytes: `Files`.

use guildhall_model::{ChannelId, GuildId};
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

const SENDERS_MAX: usize = 16_384;
const HOUR_MS: u64 = 3_600_000;
/// Number of hours in an account: an upload counts for 24 to 25 hours.
const HOURS: u64 = 25;

/// Limits of the shares, bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Uploads of one account or webhook in a day.
    pub sender_day_max: u64,
    /// Attachments of one guild.
    pub guild_max: u64,
    /// Attachments of all guilds.
    pub attachments_max: u64,
}

/// Account and guild whose shares an incoming file takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share {
    /// Account or webhook.
    pub sender: u64,
    /// None: the file becomes a picture.
    pub guild: Option<GuildId>,
}

/// The share that has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exhausted {
    Sender,
    Guild,
}

/// Bytes of the last day.
#[derive(Clone, Copy, Debug, Default)]
struct Uploaded {
    /// By hour, modulo `HOURS`.
    by_hour: [u64; HOURS as usize],
    /// The last hour that `by_hour` has.
    newest_hour: u64,
}

impl Uploaded {
    /// As it is at this time: older hours are gone.
    fn at(mut self, now_ms: u64) -> Self {
        let hour = (now_ms / HOUR_MS).max(self.newest_hour);
        for passed in 1..=(hour - self.newest_hour).min(HOURS) {
            self.by_hour[((self.newest_hour + passed) % HOURS) as usize] = 0;
        }
        self.newest_hour = hour;
        self
    }

    fn bytes(&self) -> u64 {
        self.by_hour.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }

    fn add(&mut self, bytes: u64) {
        self.by_hour[(self.newest_hour % HOURS) as usize] += bytes;
    }

    /// Takes away what was added last.
    fn give_back(&mut self, mut bytes: u64) {
        for passed in 0..HOURS {
            let of_hour = &mut self.by_hour[((self.newest_hour + HOURS - passed) % HOURS) as usize];
            let taken = bytes.min(*of_hour);
            *of_hour -= taken;
            bytes -= taken;
        }
    }
}

/// Files of one channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OfChannel {
    /// None: not known yet, after a start.
    pub guild: Option<GuildId>,
    pub bytes: u64,
    pub files: u64,
}

#[derive(Debug, Default)]
struct State {
    senders: HashMap<u64, Uploaded>,
    channels: HashMap<ChannelId, OfChannel>,
    /// With uploads in progress.
    guilds: HashMap<GuildId, u64>,
    /// Bytes of pictures.
    pictures: u64,
}

/// Files and bytes of one guild.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuildFiles {
    pub guild_id: GuildId,
    pub files: u64,
    pub bytes: u64,
}

/// Uploads of one account or webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderFiles {
    pub sender: u64,
    /// In the last 24 to 25 hours.
    pub bytes: u64,
}

/// Bytes of files by owner.
#[derive(Clone, Debug, Default)]
pub struct FileOwners {
    /// All files, incoming ones too.
    pub bytes: u64,
    pub bytes_max: u64,
    /// Of avatars, icons, emoji and stickers.
    pub pictures_bytes: u64,
    /// Maximum number of bytes of the files of all guilds.
    pub attachments_bytes_max: u64,
    pub guild_bytes_max: u64,
    pub sender_day_bytes_max: u64,
    /// Most bytes first.
    pub guilds: Vec<GuildFiles>,
    /// Most bytes first.
    pub senders: Vec<SenderFiles>,
}

#[derive(Debug)]
pub(super) struct Shares {
    pub limits: Limits,
    state: Mutex<State>,
}

impl Shares {
    pub fn new(limits: Limits) -> Self {
        Self { limits, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes bytes of a share (S1, S2).
    pub fn take(&self, share: Share, more: u64, now_ms: u64) -> Result<(), Exhausted> {
        let Limits { sender_day_max, guild_max, .. } = self.limits;
        let mut state = self.lock();
        let mut uploaded = state.senders.get(&share.sender).copied().unwrap_or_default().at(now_ms);
        if uploaded.bytes().saturating_add(more) > sender_day_max {
            return Err(Exhausted::Sender);
        }
        if let Some(guild_id) = share.guild {
            let bytes = state.guilds.entry(guild_id).or_default();
            if bytes.saturating_add(more) > guild_max {
                return Err(Exhausted::Guild);
            }
            *bytes += more;
        }
        state.make_room(share.sender, now_ms);
        uploaded.add(more);
        state.senders.insert(share.sender, uploaded);
        Ok(())
    }

    /// The bytes of a file that was not kept.
    pub fn give_back(&self, share: Share, bytes: u64) {
        let mut state = self.lock();
        if let Some(of) = state.senders.get_mut(&share.sender) {
            of.give_back(bytes);
        }
        state.take_from_guild(share.guild, bytes);
    }

    /// A file whose bytes were taken has its place.
    pub fn kept(&self, share: Share, channel_id: ChannelId, bytes: u64) {
        let mut state = self.lock();
        let of = state.channels.entry(channel_id).or_default();
        of.guild = of.guild.or(share.guild);
        of.bytes += bytes;
        of.files += 1;
    }

    pub fn removed(&self, channel_id: ChannelId, bytes: u64) {
        let mut state = self.lock();
        let Some(of) = state.channels.get_mut(&channel_id) else { return };
        of.bytes = of.bytes.saturating_sub(bytes);
        of.files = of.files.saturating_sub(1);
        let (guild, is_empty) = (of.guild, of.files == 0);
        if is_empty {
            state.channels.remove(&channel_id);
        }
        state.take_from_guild(guild, bytes);
    }

    pub fn picture_kept(&self, bytes: u64) {
        self.lock().pictures += bytes;
    }

    pub fn picture_removed(&self, bytes: u64) {
        let mut state = self.lock();
        state.pictures = state.pictures.saturating_sub(bytes);
    }

    /// Replaces the counts by those of a complete list. Guilds that are known stay known.
    pub fn set(&self, listed: HashMap<ChannelId, OfChannel>, pictures: u64) {
        let mut state = self.lock();
        let before = std::mem::replace(&mut state.channels, listed);
        state.guilds.clear();
        state.pictures = pictures;
        for (channel_id, of) in &before {
            if let Some(now) = state.channels.get_mut(channel_id) {
                now.guild = of.guild;
            }
        }
        let known: Vec<_> = state.channels.values().filter_map(|of| Some((of.guild?, of.bytes))).collect();
        for (guild_id, bytes) in known {
            *state.guilds.entry(guild_id).or_default() += bytes;
        }
    }

    /// Channels with files whose guild is not known.
    pub fn unknown(&self) -> Vec<ChannelId> {
        self.lock().channels.iter().filter(|(_, of)| of.guild.is_none()).map(|(id, _)| *id).collect()
    }

    pub fn set_guild(&self, channel_id: ChannelId, guild_id: GuildId) {
        let mut state = self.lock();
        let Some(of) = state.channels.get_mut(&channel_id).filter(|of| of.guild.is_none()) else { return };
        of.guild = Some(guild_id);
        let bytes = of.bytes;
        *state.guilds.entry(guild_id).or_default() += bytes;
    }

    /// The largest guilds and senders, and the bytes of pictures.
    pub fn owners(&self, now_ms: u64, limit: usize) -> (Vec<GuildFiles>, Vec<SenderFiles>, u64) {
        let state = self.lock();
        let mut guilds = HashMap::<GuildId, GuildFiles>::new();
        for of in state.channels.values() {
            let Some(guild_id) = of.guild else { continue };
            let sum = guilds.entry(guild_id).or_insert(GuildFiles { guild_id, files: 0, bytes: 0 });
            sum.files += of.files;
            sum.bytes += of.bytes;
        }
        let mut guilds: Vec<_> = guilds.into_values().collect();
        guilds.sort_unstable_by_key(|of| (std::cmp::Reverse(of.bytes), of.guild_id));
        guilds.truncate(limit);
        let uploads =
            state.senders.iter().map(|(sender, of)| SenderFiles { sender: *sender, bytes: of.at(now_ms).bytes() });
        let mut senders: Vec<_> = uploads.filter(|of| of.bytes > 0).collect();
        senders.sort_unstable_by_key(|of| (std::cmp::Reverse(of.bytes), of.sender));
        senders.truncate(limit);
        (guilds, senders, state.pictures)
    }
}

impl State {
    fn take_from_guild(&mut self, guild: Option<GuildId>, bytes: u64) {
        let Some(guild_id) = guild else { return };
        let Some(of) = self.guilds.get_mut(&guild_id) else { return };
        *of = of.saturating_sub(bytes);
        if *of == 0 {
            self.guilds.remove(&guild_id);
        }
    }

    fn make_room(&mut self, sender: u64, now_ms: u64) {
        if self.senders.len() < SENDERS_MAX || self.senders.contains_key(&sender) {
            return;
        }
        self.senders.retain(|_, of| of.at(now_ms).bytes() > 0);
        if self.senders.len() >= SENDERS_MAX {
            let least = self.senders.iter().min_by_key(|(_, of)| of.at(now_ms).bytes()).map(|(sender, _)| *sender);
            least.map(|least| self.senders.remove(&least));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUILD: GuildId = GuildId::new(1);
    const CHANNEL: ChannelId = ChannelId::new(10);

    fn shares() -> Shares {
        Shares::new(Limits { sender_day_max: 100, guild_max: 150, attachments_max: 900 })
    }

    fn share(sender: u64) -> Share {
        Share { sender, guild: Some(GUILD) }
    }

    #[test]
    fn s1_a_guild_has_its_share_and_deleted_files_free_it() {
        let shares = shares();
        shares.take(share(1), 100, 0).unwrap();
        shares.take(share(2), 50, 0).unwrap();
        assert_eq!(shares.take(share(3), 1, 0), Err(Exhausted::Guild));
        let other = Share { sender: 3, guild: Some(GuildId::new(2)) };
        shares.take(other, 100, 0).unwrap();
        shares.give_back(share(2), 50);
        shares.kept(share(1), CHANNEL, 100);
        assert_eq!(shares.take(share(4), 51, 0), Err(Exhausted::Guild));
        shares.removed(CHANNEL, 100);
        shares.take(share(4), 100, 0).unwrap();
    }

    #[test]
    fn s1_files_from_before_the_start_count_once_their_guild_is_known() {
        let shares = shares();
        let of = OfChannel { guild: None, bytes: 140, files: 2 };
        shares.set(HashMap::from([(CHANNEL, of)]), 7);
        assert_eq!(shares.unknown(), [CHANNEL]);
        shares.set_guild(CHANNEL, GUILD);
        shares.set_guild(CHANNEL, GUILD);
        assert_eq!(shares.take(share(1), 11, 0), Err(Exhausted::Guild));
        let (guilds, senders, pictures) = shares.owners(0, 10);
        assert_eq!(guilds, [GuildFiles { guild_id: GUILD, files: 2, bytes: 140 }]);
        assert_eq!((senders, pictures), (Vec::new(), 7));
        // The next list of a bucket.
        shares.set(HashMap::from([(CHANNEL, OfChannel { guild: None, bytes: 60, files: 1 })]), 7);
        assert!(shares.unknown().is_empty());
        shares.take(share(1), 90, 0).unwrap();
    }

    #[test]
    fn s2_an_account_has_its_share_of_a_day() {
        let shares = shares();
        let alone = Share { sender: 1, guild: None };
        shares.take(alone, 100, 0).unwrap();
        assert_eq!(shares.take(alone, 1, 0), Err(Exhausted::Sender));
        let day_ms = 24 * HOUR_MS;
        let bytes_at = |now_ms| shares.owners(now_ms, 10).1.first().map_or(0, |of| of.bytes);
        assert_eq!([0, 1, day_ms - 1, day_ms].map(bytes_at), [100; 4], "the report has them for the whole day");
        assert_eq!(shares.take(alone, 1, day_ms), Err(Exhausted::Sender), "the first hour is not over yet");
        assert_eq!(bytes_at(day_ms + HOUR_MS), 0);
        shares.take(alone, 60, 30 * HOUR_MS).unwrap();
        shares.take(alone, 40, 40 * HOUR_MS).unwrap();
        assert_eq!(shares.take(alone, 1, 54 * HOUR_MS), Err(Exhausted::Sender));
        shares.take(alone, 60, 55 * HOUR_MS).unwrap();
        shares.give_back(alone, 70);
        assert_eq!(bytes_at(55 * HOUR_MS), 30, "the newest first");
        shares.take(alone, 100, 1_000 * HOUR_MS).unwrap();
        assert_eq!(bytes_at(1_000 * HOUR_MS), 100);
    }

    #[test]
    fn s2_the_accounts_with_the_most_bytes_are_remembered() {
        let shares = shares();
        for sender in 0..SENDERS_MAX as u64 + 50 {
            let bytes = if sender == 5 { 100 } else { 1 };
            shares.take(Share { sender, guild: None }, bytes, 0).unwrap();
        }
        assert_eq!(shares.lock().senders.len(), SENDERS_MAX);
        assert_eq!(shares.take(Share { sender: 5, guild: None }, 1, 0), Err(Exhausted::Sender));
    }
}
