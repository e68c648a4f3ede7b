//! The initial state: accounts, a guild, clients.

use super::{GUILD, role, some_permissions};
use crate::client::{Client, Phase};
use guildhall_codec::Encoding;
use guildhall_guild::GuildRecord;
use guildhall_model::{
    Channel, ChannelType, Guild as GuildFields, GuildResource, Member, Overwrite, OverwriteKind, Permissions,
    ThreadFields, ThreadMember, User,
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
/// What user clients can take: nothing special, PASSIVE_UPDATE_V1, _V2, READY without users twice, and
/// all of a real client.
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
        ChannelType::Forum,
        ChannelType::Stage,
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
    let mut channels: Vec<Channel> = channels.collect();
    let mut members: Vec<Arc<Member>> = Vec::new();
    for account in &accounts {
        if account.id == owner.id || rng.chance(0.85) {
            let mut member = Member::new(account.clone(), Timestamp(1_690_000_000_000));
            member.roles = (2..6).map(id).filter(|_| rng.chance(0.25)).collect();
            members.push(Arc::new(member));
        }
    }
    let resources = threads(rng, &mut channels, &members);
    let clients = (0..CLIENTS).map(|_| client(rng, &accounts)).collect();
    let guild = GuildFields::new(GUILD, "guild", owner.id);
    let record = GuildRecord { guild, roles, channels, members, resources, nonces: Vec::new() };
    Setup { record, accounts, clients }
}

/// A thread of each kind, some of them closed, with some members in each. Returns who is in them.
fn threads(rng: &mut Rng, channels: &mut Vec<Channel>, members: &[Arc<Member>]) -> Vec<GuildResource> {
    let kinds = [
        (10, ChannelType::PublicThread),
        (11, ChannelType::PrivateThread),
        (12, ChannelType::PrivateThread),
        (13, ChannelType::AnnouncementThread),
        (17, ChannelType::PublicThread),
    ];
    let mut inside = Vec::new();
    for (n, (parent, kind)) in kinds.into_iter().enumerate() {
        let joined: Vec<_> = members.iter().filter(|_| rng.chance(0.2)).map(|member| member.user.id).collect();
        let thread_id = id(30 + n as u64);
        channels.push(Channel {
            parent_id: Some(id(parent)),
            thread: Some(Box::new(ThreadFields {
                owner_id: joined.first().copied().unwrap_or(members[0].user.id),
                archived: rng.chance(0.3),
                archive_timestamp: Timestamp(1_690_000_000_000),
                auto_archive_duration: 1_440,
                locked: rng.chance(0.1),
                invitable: rng.chance(0.5),
                message_count: 0,
                total_message_sent: 0,
                applied_tags: Vec::new(),
            })),
            ..Channel::new(thread_id, GUILD, kind, &format!("thread-{n}"))
        });
        inside.extend(joined.into_iter().map(|user_id| {
            let join_timestamp = Timestamp(1_690_000_000_000);
            GuildResource::ThreadMember(ThreadMember { thread_id, user_id, join_timestamp, flags: 0 })
        }));
    }
    inside
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
        // They are given out later.
        token: String::new(),
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
        invalid_sessions: 0,
        is_close_received: false,
    }
}
