//! Who there is at the start: accounts, a guild, clients.

use super::{GUILD, role, some_permissions};
use crate::client::{Client, Phase};
use guildhall_codec::Encoding;
use guildhall_guild::GuildRecord;
use guildhall_model::{
    Channel, ChannelType, Guild as GuildFields, Member, Overwrite, OverwriteKind, Permissions, User,
};
use guildhall_partition::Compression;
use guildhall_stdx::{Rng, Timestamp};
use guildhall_test_kit::{ClientParams, bot, id, privileged, user};
use guildhall_ws_proto::DeflateParams;
use std::{collections::VecDeque, sync::Arc};

const USERS: u64 = 44;
const BOTS: u64 = 14;
const CLIENTS: usize = 64;
const ALL_INTENTS: u32 = (1 << 29) - 1;
const PRIVILEGED: u32 = 1 << 1 | 1 << 8 | 1 << 15;
const USER_ONLY: u32 = 1 << 18 | 1 << 19 | 1 << 22 | 1 << 23;
/// What user clients can take: nothing special, PASSIVE_UPDATE_V1, _V2, READY without users twice, and all of a real client.
const CAPABILITIES: [Option<u64>; 6] =
    [None, Some(1 << 11), Some(1 << 14), Some(1 << 14 | 1 << 10), Some(1 << 14 | 1 << 4), Some(30_717)];

/// The beginning.
pub struct Setup {
    pub record: GuildRecord,
    pub accounts: Vec<Arc<User>>,
    pub clients: Vec<Client>,
}

pub fn setup(rng: &mut Rng) -> Setup {
    let users = (0..USERS).map(|n| user(700 + n));
    let bots = (0..BOTS).map(|n| if n % 2 == 0 { privileged(800 + n) } else { bot(800 + n) });
    let accounts: Vec<Arc<User>> = users.chain(bots).collect();
    let owner = accounts[0].clone();
    let everyone = Permissions::DEFAULT_EVERYONE;
    let mut roles = vec![role(GUILD.cast(), everyone)];
    roles.extend((2..6).map(|n| role(id(n), some_permissions(rng))));
    let kinds = [
        ChannelType::Text,
        ChannelType::Text,
        ChannelType::Text,
        ChannelType::Announcement,
        ChannelType::Voice,
        ChannelType::Voice,
        ChannelType::Category,
    ];
    let channels = kinds.into_iter().enumerate().map(|(n, kind)| {
        let mut channel = Channel::new(id(10 + n as u64), GUILD, kind, &format!("channel-{n}"));
        if rng.chance(0.5) {
            let everyone = OverwriteKind::Role(GUILD.cast());
            let hidden = Overwrite { target: everyone, allow: Permissions::NONE, deny: Permissions::VIEW_CHANNEL };
            let shown = OverwriteKind::Role(id(2 + rng.below(4)));
            let shown = Overwrite { target: shown, allow: Permissions::VIEW_CHANNEL, deny: Permissions::NONE };
            channel.overwrites = vec![hidden, shown];
        }
        channel
    });
    let channels = channels.collect();
    let mut members: Vec<Arc<Member>> = Vec::new();
    for account in &accounts {
        if account.id == owner.id || rng.chance(0.85) {
            let mut member = Member::new(account.clone(), Timestamp(1_690_000_000_000));
            member.roles = (2..6).map(id).filter(|_| rng.chance(0.25)).collect();
            members.push(Arc::new(member));
        }
    }
    let clients = (0..CLIENTS).map(|_| client(rng, &accounts)).collect();
    let record = GuildRecord {
        guild: GuildFields::new(GUILD, "guild", owner.id),
        roles,
        channels,
        members,
        belongings: Vec::new(),
    };
    Setup { record, accounts, clients }
}

/// Any that may be agreed on.
fn deflate_params(rng: &mut Rng) -> DeflateParams {
    let mut bits = || if rng.chance(0.5) { 15 } else { 8 + rng.below(8) as u8 };
    let (server_window_bits, client_window_bits) = (bits(), bits());
    DeflateParams {
        server_no_context_takeover: rng.chance(0.6),
        client_no_context_takeover: rng.chance(0.6),
        server_window_bits,
        client_window_bits,
    }
}

fn client(rng: &mut Rng, accounts: &[Arc<User>]) -> Client {
    let user = rng.pick(accounts).expect("there are accounts").clone();
    let encoding = if rng.chance(0.75) { Encoding::Json } else { Encoding::Etf };
    let compression = match rng.below(10) {
        0 | 1 => Compression::Zlib,
        2 | 3 => Compression::Zstd,
        4 | 5 => Compression::Deflate(deflate_params(rng)),
        _ => Compression::None,
    };
    let mut params = ClientParams::new(encoding, compression);
    params.compress_payloads = rng.chance(0.2);
    let intents = match (user.bot, user.application_flags != 0) {
        (true, granted) => {
            let mut intents = ALL_INTENTS & !USER_ONLY;
            if !granted || rng.chance(0.3) {
                intents &= !PRIVILEGED;
            }
            // Fewer groups of events.
            if rng.chance(0.5) {
                intents &= rng.next_u64() as u32 | 1 << 9;
            }
            Some(intents)
        }
        (false, _) if rng.chance(0.7) => None,
        (false, _) => Some(rng.next_u64() as u32 & ALL_INTENTS | 1),
    };
    let shard = match (user.bot, rng.below(4)) {
        (true, 0) => Some((rng.below(2) as u32, 2)),
        (true, 1) => Some((0, 1)),
        _ => None,
    };
    let large_threshold = if rng.chance(0.5) { Some(25 + rng.below(226)) } else { None };
    Client {
        user,
        params,
        intents,
        capabilities: *rng.pick(&CAPABILITIES).expect("there are some"),
        shard,
        large_threshold,
        wire: None,
        serial: 0,
        phase: Phase::Offline,
        session: None,
        seq: 0,
        beats: VecDeque::new(),
        last_beat_ms: 0,
        is_slow: rng.chance(0.2),
        nonces: 0,
        is_bad: false,
        was_told: false,
    }
}
