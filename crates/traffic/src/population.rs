//! Population of a node: accounts and bots, the guilds and direct messages of each, and the recipients of events.
//!
//! Owns        `Population`, drawn from a seed; the rules for recipients of [`Kind::Node`](crate::Kind::Node).
//! Doors       `Population::recipients` once per event.
//! Invariants  P1 the same seed and number of sessions give the same population. P2 whether a session receives an event
//!             depends only on both, not on earlier calls. P3 the author of an event receives it. (tests `p1_*` …)
//! Price       a call costs a few multiplications per member of the guild.
//! Not here    events in guilds: `traffic.rs`.

use crate::{
    event::{Event, To},
    viewer::mixed,
};
use guildhall_stdx::Rng;

/// Accounts per bot.
const ACCOUNTS_PER_BOT: u32 = 200;
/// Guilds per account: the node has this many times as many guilds as accounts.
const GUILDS_PER_ACCOUNT: u32 = 2;
/// Guilds of one account, at most: 1 to this many, evenly.
const GUILDS_MAX: u64 = 100;
/// A bot is in one guild of this many.
const BOT_SHARE: usize = 20;
/// Members online in the guild of middle size.
const MEDIAN_ONLINE: usize = 5;
/// Largest guild, as a share of the accounts.
const LARGEST_SHARE: f64 = 0.6;
/// Guilds that a person looks at, of all that the account is in.
const LOOKED_AT: u64 = 3;
/// Interval after which each account looks at other guilds.
const GLANCE_MS: u64 = 600_000;
/// Members of every guild who may view its private channel: these at the front of the list …
pub(crate) const INSIDERS_MIN: usize = 2;
/// … and this percentage of the others.
const INSIDERS_PERCENT: u64 = 25;

/// Sessions of a guild.
#[derive(Debug, Default)]
struct Members {
    accounts: Vec<u32>,
    bots: Vec<u32>,
}

/// See the module. Sessions are numbered: accounts first, then bots.
#[derive(Debug)]
pub struct Population {
    seed: u64,
    accounts: u32,
    bots: u32,
    guilds: Vec<Members>,
    /// Guilds of each account.
    guilds_count_by_account: Vec<u32>,
    directs: Vec<Vec<u32>>,
}

impl Population {
    /// A node with this many sessions, of accounts and bots together.
    #[must_use]
    pub fn new(seed: u64, sessions: u32) -> Self {
        let mut rng = Rng::new(seed ^ 0x706f_7075_6c61_7465);
        let bots = sessions / (ACCOUNTS_PER_BOT + 1);
        let accounts = sessions - bots;
        let guilds_count = (accounts * GUILDS_PER_ACCOUNT) as usize;
        let mut population = Self {
            seed,
            accounts,
            bots,
            guilds: Vec::with_capacity(guilds_count),
            guilds_count_by_account: vec![0; accounts as usize],
            directs: Vec::new(),
        };
        population.fill_guilds(&mut rng, guilds_count);
        population.add_bots(&mut rng);
        population.add_directs(&mut rng);
        population
    }

    /// Sizes follow Zipf's law. An account that wants to be in twice as many guilds is drawn twice as often.
    fn fill_guilds(&mut self, rng: &mut Rng, count: usize) {
        let mut wishes: Vec<u32> = Vec::new();
        for account in 0..self.accounts {
            wishes.extend((0..=rng.below(GUILDS_MAX)).map(|_| account));
        }
        let largest = ((f64::from(self.accounts) * LARGEST_SHARE) as usize).max(2);
        let mut last_guild = vec![u32::MAX; self.accounts as usize];
        for number in 0..count {
            let wanted = (MEDIAN_ONLINE * count / 2 / (number + 1)).clamp(2, largest);
            let mut accounts = Vec::with_capacity(wanted);
            // A member of the guild is drawn for another guild.
            let mut draws_left = 4 * wanted + 8;
            while accounts.len() < wanted && draws_left > 0 && !wishes.is_empty() {
                draws_left -= 1;
                let at = rng.below(wishes.len() as u64) as usize;
                let account = wishes[at];
                if std::mem::replace(&mut last_guild[account as usize], number as u32) != number as u32 {
                    wishes.swap_remove(at);
                    accounts.push(account);
                }
            }
            // All wishes are used up.
            while accounts.len() < 2 && self.accounts > 1 {
                let account = rng.below(self.accounts.into()) as u32;
                if !accounts.contains(&account) {
                    accounts.push(account);
                }
            }
            accounts.iter().for_each(|account| self.guilds_count_by_account[*account as usize] += 1);
            self.guilds.push(Members { accounts, bots: Vec::new() });
        }
    }

    /// Bots are in large guilds more often than in small ones.
    fn add_bots(&mut self, rng: &mut Rng) {
        let count = self.guilds.len();
        for bot in self.accounts..self.accounts + self.bots {
            let mut is_in = vec![false; count];
            for _ in 0..count / BOT_SHARE {
                let drawn = loop {
                    let number = (rng.fraction().powi(2) * count as f64) as usize;
                    if !is_in[number] {
                        break number;
                    }
                };
                is_in[drawn] = true;
                self.guilds[drawn].bots.push(bot);
            }
        }
    }

    /// Two per account, one in seven a group of three to six.
    fn add_directs(&mut self, rng: &mut Rng) {
        for _ in 0..2 * self.accounts {
            let wanted = if rng.chance(0.15) { 3 + rng.below(4) as usize } else { 2 };
            let mut users: Vec<u32> = Vec::with_capacity(wanted);
            while users.len() < wanted.min(self.accounts as usize) {
                let account = rng.below(self.accounts.into()) as u32;
                if !users.contains(&account) {
                    users.push(account);
                }
            }
            users.sort_unstable();
            self.directs.push(users);
        }
    }

    /// Accounts and bots.
    #[must_use]
    pub fn sessions_count(&self) -> u32 {
        self.accounts + self.bots
    }

    /// Accounts without bots.
    #[must_use]
    pub fn accounts_count(&self) -> u32 {
        self.accounts
    }

    /// Whether a session is a bot's.
    #[must_use]
    pub fn is_bot(&self, session: u32) -> bool {
        session >= self.accounts
    }

    /// Members of each guild who are online, bots aside, the largest guild first.
    pub fn sizes(&self) -> impl Iterator<Item = usize> + '_ {
        self.guilds.iter().map(|guild| guild.accounts.len())
    }

    /// Links between sessions of bots and guilds.
    #[must_use]
    pub fn bot_links_count(&self) -> usize {
        self.guilds.iter().map(|guild| guild.bots.len()).sum()
    }

    /// Accounts in a guild.
    pub(crate) fn members(&self, guild: u32) -> &[u32] {
        &self.guilds[guild as usize].accounts
    }

    /// Whether a guild has bots that may not read the content of messages.
    pub(crate) fn has_strangers(&self, guild: u32) -> bool {
        self.guilds[guild as usize].bots.iter().any(|bot| !self.reads_content(*bot))
    }

    /// Accounts in each direct message.
    pub(crate) fn directs(&self) -> &[Vec<u32>] {
        &self.directs
    }

    /// Whether the member at this place of a guild's list may view its private channel.
    pub(crate) fn is_insider(&self, guild: u32, at: usize) -> bool {
        at < INSIDERS_MIN
            || self.guilds[guild as usize]
                .accounts
                .get(at)
                .is_some_and(|account| self.chance(*account, u64::from(guild) ^ 0x4_0000, INSIDERS_PERCENT))
    }

    /// The sessions that receive an event, ascending.
    pub fn recipients(&self, event: &Event, found: &mut Vec<usize>) {
        found.clear();
        match event.to {
            To::One(session) => found.push(session as usize),
            To::Direct(direct) => {
                let users = self.directs.get(direct as usize).into_iter().flatten();
                found.extend(users.map(|account| *account as usize));
            }
            to => {
                let Some(guild) = self.guilds.get(event.guild_number as usize) else { return };
                if !event.is_redacted {
                    let members = guild.accounts.iter().enumerate();
                    let sees = |(at, account): &(usize, &u32)| self.member_sees(event, to, *at, **account);
                    found.extend(members.filter(sees).map(|(_, account)| *account as usize));
                }
                let bots = guild.bots.iter().filter(|bot| self.bot_sees(event, to, **bot));
                found.extend(bots.map(|bot| *bot as usize));
                found.sort_unstable();
            }
        }
    }

    fn member_sees(&self, event: &Event, to: To, at: usize, account: u32) -> bool {
        let is_author = event.author == Some(account);
        let may_view = is_author || !event.is_hidden || self.is_insider(event.guild_number, at);
        let looks = || is_author || self.looks_at(event, account);
        match to {
            To::Everyone | To::Guild => true,
            To::Active | To::Typing => may_view && looks(),
            To::Passive => !self.looks_at(event, account),
            To::Watching => self.looks_at(event, account) && self.chance(account, event.guild ^ 0x11, 70),
            To::Following(user) => looks() && (is_author || self.chance(account, user ^ 0x22, 20)),
            To::Members => looks() && (is_author || self.chance(account, event.user.unwrap_or(0) ^ 0x33, 10)),
            To::One(_) | To::Direct(_) => false,
        }
    }

    fn bot_sees(&self, event: &Event, to: To, bot: u32) -> bool {
        match to {
            To::Everyone | To::Guild => true,
            To::Active | To::Typing if event.is_hidden && !self.chance(bot, u64::from(event.guild_number), 50) => false,
            To::Active if event.has_content => self.reads_content(bot) != event.is_redacted,
            To::Active => true,
            To::Typing => self.chance(bot, 1 << 56, 30),
            To::Following(_) => self.chance(bot, 2 << 56, 10),
            To::Members => self.chance(bot, 3 << 56, 40),
            To::Passive | To::Watching | To::One(_) | To::Direct(_) => false,
        }
    }

    /// MESSAGE_CONTENT, which few bots have.
    fn reads_content(&self, bot: u32) -> bool {
        self.chance(bot, 4 << 56, 30)
    }

    fn looks_at(&self, event: &Event, account: u32) -> bool {
        let guilds = u64::from(self.guilds_count_by_account[account as usize]).max(1);
        let glance = (event.at_ms / GLANCE_MS + 1).rotate_left(40);
        mixed(self.session_seed(account) ^ event.guild ^ glance) % guilds < LOOKED_AT
    }

    fn session_seed(&self, session: u32) -> u64 {
        mixed(self.seed ^ mixed(u64::from(session) + 1))
    }

    /// The same for the same `of`.
    fn chance(&self, session: u32, of: u64, percent: u64) -> bool {
        mixed(self.session_seed(session) ^ of) % 100 < percent
    }
}
