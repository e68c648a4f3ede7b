//! Worlds: one of two runs of a script, and what the observer's connections were sent in it.

use super::script::{OBSERVER, Op, Place};
use crate::{
    compression::dictionaries,
    fixture::{FULL, PLAIN},
};
use guildhall_codec::{ContextPool, Encoding};
use guildhall_guild::{
    Actor, ChannelPatch, Command, DirectCommand, Guild, MemberPatch, MessagePatch, NewDirect, NewMessage, NewThread,
    Refusal, Reply, ReplyTo, RolePatch,
};
use guildhall_guild_protocol::{BackendEvent, Event, HiddenChannels, PartitionId, RelayId};
use guildhall_model::{
    ChannelId, ChannelType, GuildId, MessageId, Overwrite, OverwriteKind, Permissions, ReactionEmoji, RoleId, User,
    UserId,
};
use guildhall_partition::{Compression, StreamCodec};
use guildhall_shared_match::Effort;
use guildhall_stdx::Rng;
use guildhall_test_kit::{
    ClientId, ClientParams, GuildBuilder, Hold, Received, TestCluster, TestClusterConfig, bot, id, identify_payload,
    privileged, user,
};
use serde_json::{Value, json, value::to_raw_value};
use std::{collections::BTreeMap, sync::Arc};

const A: u64 = 31;
const B: u64 = 32;
const C: u64 = 33;
const INSIDERS: u64 = 35;
const KEEPERS: u64 = 36;
const B_KEEPERS: u64 = 37;
const OWNER: u64 = 700;
/// Writes nothing.
const LURKER: u64 = 760;
const PRO: u64 = 802;
/// Limit for the number of relays of a guild in a partition.
const RELAYS_MAX: u16 = 16;
/// Operations between changes of the room for contexts.
const ROOM_OPS: u64 = 40;

const OWN_DIRECT: ChannelId = ChannelId::new(9_001);
const DIRECT: ChannelId = ChannelId::new(9_002);
const GROUP: ChannelId = ChannelId::new(9_003);

/// How streams are written and by how many relays, the same for both worlds.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub streams: StreamCodec,
    pub effort: Option<Effort>,
    pub is_bot: bool,
    pub all_passive: bool,
    pub sessions_per_relay_max: usize,
    pub hidden: HiddenChannels,
    pub seed: u64,
}

impl Setup {
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x5e70);
        let history_bytes_max = *rng.pick(&[64 << 10, 256 << 10, 1 << 20]).expect("three");
        let shared = StreamCodec::SharedMatch { history_bytes_max, check_one_in: None };
        Self {
            streams: match rng.below(10) {
                0 => StreamCodec::PerConnection,
                1 | 2 => StreamCodec::Auto { history_bytes_max, check_one_in: None, cpu_percent: 25 },
                _ => shared,
            },
            effort: *rng
                .pick(&[None, None, Some(Effort::Greedy), Some(Effort::Lazy), Some(Effort::Optimal)])
                .expect("five"),
            is_bot: rng.chance(0.4),
            all_passive: rng.chance(0.3),
            sessions_per_relay_max: *rng.pick(&[2, 5, 100]).expect("three"),
            hidden: [HiddenChannels::Listed, HiddenChannels::Obfuscated, HiddenChannels::Absent][seed as usize % 3],
            seed,
        }
    }
}

struct Client {
    account: Arc<User>,
    params: ClientParams,
    side: usize,
    capabilities: u64,
    id: ClientId,
}

/// See the module.
pub struct World {
    index: usize,
    setup: Setup,
    cluster: TestCluster,
    contexts: ContextPool,
    ops_count: u64,
    ephemeral_count: u64,
    clients: Vec<Client>,
    /// Relays that are behind all others.
    lagging: Option<RelayId>,
    /// How many of them, the first, are the observer's.
    observing: usize,
    threads: BTreeMap<Place, ChannelId>,
    /// The newest message of each place, its author, and whether it is secret.
    newest: BTreeMap<Place, (MessageId, u64, bool)>,
}

fn account(setup: Setup, n: u64) -> Arc<User> {
    match n {
        OBSERVER if setup.is_bot => bot(n),
        PRO => privileged(n),
        _ => user(n),
    }
}

fn guilds(setup: Setup) -> Vec<Guild> {
    let of = |n: u64| account(setup, n);
    let a = GuildBuilder::new(A, &of(OWNER))
        .role(INSIDERS, Permissions::NONE)
        .role(KEEPERS, Permissions::NONE)
        .channel(310, ChannelType::Text)
        .hidden_channel(311, &[INSIDERS])
        .channel(312, ChannelType::Text)
        .hidden_channel(313, &[KEEPERS])
        .member(&of(701), &[INSIDERS, KEEPERS])
        .member(&of(702), &[INSIDERS, KEEPERS])
        .member(&of(703), &[])
        .member(&of(704), &[])
        .member(&of(PRO), &[INSIDERS, KEEPERS])
        .member(&of(LURKER), &[])
        .member(&of(OBSERVER), &[]);
    let b = GuildBuilder::new(B, &of(OWNER))
        .role(B_KEEPERS, Permissions::NONE)
        .channel(320, ChannelType::Text)
        .hidden_channel(321, &[B_KEEPERS])
        .member(&of(701), &[B_KEEPERS])
        .member(&of(703), &[B_KEEPERS])
        .member(&of(705), &[])
        .member(&of(PRO), &[B_KEEPERS]);
    let c = GuildBuilder::new(C, &of(OWNER))
        .channel(330, ChannelType::Text)
        .member(&of(702), &[])
        .member(&of(704), &[])
        .member(&of(706), &[])
        .member(&of(PRO), &[]);
    vec![a.load(), b.load(), c.load()]
}

fn directs(setup: Setup) -> [NewDirect; 3] {
    let of = |ids: &[u64]| ids.iter().map(|n| account(setup, *n)).collect();
    [
        NewDirect { id: OWN_DIRECT, recipients: of(&[OBSERVER, 701]), is_group: false },
        NewDirect { id: DIRECT, recipients: of(&[702, 703]), is_group: false },
        NewDirect { id: GROUP, recipients: of(&[701, 702, 703]), is_group: true },
    ]
}

fn kinds() -> Vec<ClientParams> {
    let mut kinds: Vec<ClientParams> = [Encoding::Json, Encoding::Etf]
        .into_iter()
        .flat_map(|encoding| {
            let dictionary = dictionaries().iter().find(|known| known.encoding == encoding);
            let dictionary = dictionary.expect("one per encoding").dictionary.id();
            [
                ClientParams::new(encoding, Compression::Zstd),
                ClientParams::new(encoding, Compression::Zlib),
                ClientParams::new(encoding, Compression::ZstdDict(dictionary)),
                ClientParams::deflate(encoding, true, 15),
                ClientParams::deflate(encoding, true, 9),
                ClientParams::deflate(encoding, false, 15),
                ClientParams::new(encoding, Compression::None).with_compressed_payloads(),
            ]
        })
        .collect();
    // Most share a matcher and a format.
    kinds.extend([ClientParams::new(Encoding::Json, Compression::Zstd); 6]);
    kinds.extend([ClientParams::new(Encoding::Json, Compression::Zlib); 6]);
    kinds
}

impl World {
    pub fn new(index: usize, setup: Setup) -> Self {
        let mut config = TestClusterConfig { partitions_count: 2, ..TestClusterConfig::default() };
        config.partition.stream_codec = setup.streams;
        config.partition.hidden_channels = setup.hidden;
        config.partition.set_dictionaries(dictionaries().clone());
        config.partition.sessions_per_relay_max = setup.sessions_per_relay_max;
        config.partition.passive_above_members = setup.all_passive.then_some(0);
        let contexts = config.partition.contexts.clone();
        let mut cluster = TestCluster::new(config);
        let users = [OWNER, 701, 702, 703, 704, 705, 706, LURKER, PRO, OBSERVER];
        users.iter().for_each(|n| cluster.add_account(&account(setup, *n)));
        guilds(setup).into_iter().for_each(|guild| cluster.add_guild(guild));
        directs(setup).into_iter().for_each(|direct| cluster.add_direct(direct));
        let (clients, threads, newest) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        let mut world = Self {
            index,
            setup,
            cluster,
            contexts,
            ops_count: 0,
            ephemeral_count: 0,
            clients,
            lagging: None,
            observing: 0,
            threads,
            newest,
        };
        world.begin_process();
        let mut rng = Rng::new(setup.seed ^ 0xc11e);
        let kinds = kinds();
        let accounts = [OBSERVER, OBSERVER, OBSERVER, 701, 702, 703, 704, 705, PRO, 701, 702, 706, LURKER];
        for n in accounts {
            let params = match n {
                LURKER | 706 => ClientParams::JSON,
                _ => *rng.pick(&kinds).expect("there are some"),
            };
            let side = usize::from(rng.chance(0.25));
            let capabilities = *rng.pick(&[0, 1 << 14, 1 << 21, 16_381]).expect("four");
            world.observing += usize::from(n == OBSERVER);
            let id = world.login(&account(setup, n), params, side, capabilities);
            world.clients.push(Client { account: account(setup, n), params, side, capabilities, id });
        }
        world
    }

    /// Threads and settings that a restart loses.
    fn begin_process(&mut self) {
        for side in 0..2 {
            self.cluster.partition_at_mut(side).set_search_effort(self.setup.effort);
        }
        for (place, parent, kind, by) in [
            (Place::Thread, 310, ChannelType::PublicThread, 702),
            (Place::HiddenThread, 311, ChannelType::PublicThread, 702),
            (Place::PrivateThread, 310, ChannelType::PrivateThread, 701),
        ] {
            let new = NewThread { name: format!("{place:?}"), kind: Some(kind), ..NewThread::default() };
            let command = Command::CreateThread(id(parent), Box::new(new));
            match self.cluster.command_in(id(A), Actor::User(id(by)), command) {
                Ok(Reply::Thread(reply)) => self.threads.insert(place, reply.0.channel.id),
                other => panic!("{other:?}"),
            };
        }
        let private = self.threads[&Place::PrivateThread];
        let joined = self.cluster.command_in(id(A), Actor::User(id(701)), Command::AddThreadMember(private, id(702)));
        joined.expect("its owner may add others");
        self.newest.clear();
        self.cluster.run_until_idle();
    }

    fn login(&mut self, account: &Arc<User>, params: ClientParams, side: usize, capabilities: u64) -> ClientId {
        let client = self.cluster.connect_to(side, params);
        self.identify(client, account, capabilities);
        client
    }

    fn identify(&mut self, client: ClientId, account: &Arc<User>, capabilities: u64) {
        self.cluster.client(client).record_wire();
        let intents = match account.bot {
            true if account.id == id(PRO) => Some(FULL),
            true => Some(PLAIN),
            false => None,
        };
        let mut d = identify_payload(&account.username, intents);
        d["capabilities"] = capabilities.into();
        self.cluster.client(client).identify(d);
        self.cluster.run_until_idle();
    }

    fn place(&self, place: Place) -> (GuildId, ChannelId) {
        match place {
            Place::Open => (id(A), id(310)),
            Place::Hidden => (id(A), id(311)),
            Place::Ruled => (id(A), id(312)),
            Place::Vault => (id(A), id(313)),
            Place::Thread | Place::HiddenThread | Place::PrivateThread => (id(A), self.threads[&place]),
            Place::Other => (id(B), id(320)),
            Place::OtherVault => (id(B), id(321)),
            Place::Elsewhere => (id(C), id(330)),
            Place::OwnDirect => (OWN_DIRECT.cast(), OWN_DIRECT),
            Place::Direct => (DIRECT.cast(), DIRECT),
            Place::Group => (GROUP.cast(), GROUP),
        }
    }

    fn command(&mut self, guild_id: GuildId, actor: Actor, command: Command) -> Result<Reply, Refusal> {
        self.cluster.command_in(guild_id, actor, command)
    }

    fn system(&mut self, guild: u64, command: Command) -> bool {
        self.command(id(guild), Actor::System, command).is_ok()
    }

    /// Applies one operation. False if it has no effect in this state.
    pub fn apply(&mut self, op: Op) -> bool {
        let is_done = self.act(op);
        self.ops_count += 1;
        if self.ops_count.is_multiple_of(ROOM_OPS) {
            // Streams leave their contexts, or new ones begin with one.
            let has_room = self.ops_count.is_multiple_of(2 * ROOM_OPS);
            self.contexts.set_movable_bytes_max(if has_room { u64::MAX } else { 0 });
        }
        if !self.cluster.is_held(Hold::Mail) {
            self.cluster.run_until_idle();
        } else if let Some(lagging) = self.lagging {
            self.deliver_except(lagging);
        }
        is_done
    }

    /// Hands all relays what waits for them, except those that lag.
    fn deliver_except(&mut self, lagging: RelayId) {
        // A delivered message can attach sessions, and their guilds answer.
        for _ in 0..3 {
            let relays = (0..2).flat_map(|side| (0..RELAYS_MAX).map(move |index| (side, index)));
            for (side, index) in relays {
                let relay = RelayId { partition: PartitionId(side), index };
                if relay != lagging {
                    self.cluster.deliver_mail_to(relay, usize::MAX);
                }
            }
        }
    }

    fn act(&mut self, op: Op) -> bool {
        let user = |n: u64| -> UserId { id(n) };
        match op {
            Op::Say { place, by, text, names_observer, answers } => {
                let (guild_id, channel_id) = self.place(place);
                let mut content = text.in_world(self.index);
                if names_observer {
                    content = format!("<@{}> {content}", user(OBSERVER));
                }
                // An answer shows the text that it answers, and names its author.
                let answered = self.newest.get(&place).filter(|_| answers);
                let answered = answered.filter(|(_, author, is_secret)| *author != OBSERVER && !is_secret);
                let reply_to =
                    answered.map(|(message_id, ..)| ReplyTo { message_id: *message_id, fail_if_not_exists: false });
                let new = NewMessage { content, reply_to, ..NewMessage::default() };
                let command = Command::CreateMessage(channel_id, Box::new(new));
                match self.command(guild_id, Actor::User(user(by)), command) {
                    Ok(Reply::Message(reply)) => {
                        self.newest.insert(place, (reply.message.id, by, text.is_secret));
                        true
                    }
                    _ => false,
                }
            }
            Op::Edit { place, text } => {
                let Some((message_id, by, _)) = self.newest.get(&place).copied() else { return false };
                let (guild_id, channel_id) = self.place(place);
                let is_own = by == OBSERVER;
                let text = super::script::Text { is_secret: text.is_secret && !is_own, ..text };
                let patch = MessagePatch { content: Some(text.in_world(self.index)), ..MessagePatch::default() };
                let command = Command::EditMessage(channel_id, message_id, Box::new(patch));
                self.newest.insert(place, (message_id, by, text.is_secret));
                self.command(guild_id, Actor::User(user(by)), command).is_ok()
            }
            Op::Ephemeral { reader, text } => {
                self.ephemeral_count += 1;
                let message_id = id::<()>(900_000 + self.ephemeral_count).to_string();
                for name in ["MESSAGE_CREATE", "MESSAGE_UPDATE"] {
                    let body = json!({"id": message_id, "channel_id": id::<()>(310).to_string(), "flags": 64,
                        "author": {"id": user(PRO).to_string()}, "content": text.in_world(self.index)});
                    let body = to_raw_value(&body).expect("it is JSON");
                    let event = BackendEvent::new(name, &body, None).expect("a good event");
                    let event = Event::of_interaction(Some(id(A)), user(reader), Arc::new(event));
                    self.cluster.publish_to_users(event);
                }
                true
            }
            Op::Delete { place } => {
                let Some((message_id, by, _)) = self.newest.remove(&place) else { return false };
                let (guild_id, channel_id) = self.place(place);
                self.command(guild_id, Actor::User(user(by)), Command::DeleteMessage(channel_id, message_id)).is_ok()
            }
            Op::React { place, by } => {
                let Some((message_id, ..)) = self.newest.get(&place).copied() else { return false };
                let (guild_id, channel_id) = self.place(place);
                let emoji = ReactionEmoji { id: None, name: "🔥".to_owned() };
                self.command(guild_id, Actor::User(user(by)), Command::AddReaction(channel_id, message_id, emoji))
                    .is_ok()
            }
            Op::Type { place, by } => {
                let (guild_id, channel_id) = self.place(place);
                self.command(guild_id, Actor::User(user(by)), Command::StartTyping(channel_id)).is_ok()
            }
            Op::Activity { by, text } => {
                let client = self.clients.iter().find(|client| client.account.id == user(by)).expect("it is there");
                let activity = json!({"name": text.in_world(self.index), "type": 0});
                let d = json!({"since": null, "activities": [activity], "status": "online", "afk": false});
                self.cluster.client(client.id).send(3, &d);
                true
            }
            Op::Nick { text } => {
                let nick = text.in_world(self.index)[..20].to_owned();
                let patch = MemberPatch { nick: Some(Some(nick)), ..MemberPatch::default() };
                self.system(A, Command::UpdateMember(user(LURKER), Box::new(patch)))
            }
            Op::Name { place, text } => {
                let ((guild_id, channel_id), text) = (self.place(place), text.in_world(self.index));
                let patch =
                    ChannelPatch { name: Some(text.clone()), topic: Some(Some(text)), ..ChannelPatch::default() };
                self.command(guild_id, Actor::System, Command::UpdateChannel(channel_id, Box::new(patch))).is_ok()
            }
            Op::Insider { is_one } => self.set_insider(OBSERVER, is_one),
            Op::OtherInsider { by, is_one } => self.set_insider(by, is_one),
            Op::Rules { rule } => {
                let view = Permissions::VIEW_CHANNEL;
                let deny = Overwrite {
                    target: OverwriteKind::Role(id(A)),
                    allow: Permissions::NONE,
                    deny: if rule == 0 { Permissions::NONE } else { view },
                };
                let allow = Overwrite {
                    target: OverwriteKind::Role(id(INSIDERS)),
                    allow: if rule == 2 { view } else { Permissions::NONE },
                    deny: Permissions::NONE,
                };
                self.system(A, Command::PutOverwrite(id(312), deny))
                    && self.system(A, Command::PutOverwrite(id(312), allow))
            }
            Op::RoleViews { has } => {
                let permissions = if has { Permissions::VIEW_CHANNEL } else { Permissions::NONE };
                let patch = RolePatch { permissions: Some(permissions), ..RolePatch::default() };
                self.system(A, Command::UpdateRole(id(KEEPERS), Box::new(patch)))
            }
            Op::Member { of_other, is_one } => self.set_member(if of_other { B } else { A }, OBSERVER, is_one),
            Op::OtherMember { by, is_one } => self.set_member(C, by, is_one),
            Op::Subscribe { client, what } => self.subscribe(client, what),
            Op::Resume { client, elsewhere } => self.resume(client as usize, elsewhere),
            Op::Reconnect { client } => {
                let client = client as usize;
                let Client { account, params, side, capabilities, id } = &self.clients[client];
                let (account, params, side, capabilities) = (account.clone(), *params, *side, *capabilities);
                self.cluster.cut(*id);
                self.clients[client].id = self.login(&account, params, side, capabilities);
                true
            }
            Op::InThread => {
                let thread = self.threads[&Place::PrivateThread];
                self.command(id(A), Actor::User(user(701)), Command::AddThreadMember(thread, user(OBSERVER))).is_ok()
            }
            Op::InGroup { is_in } => {
                let command = match is_in {
                    true => DirectCommand::AddRecipient(account(self.setup, OBSERVER)),
                    false => DirectCommand::RemoveRecipient(user(OBSERVER)),
                };
                self.command(GROUP.cast(), Actor::User(user(701)), Command::Direct(command)).is_ok()
            }
            Op::Advance { ms } => {
                self.cluster.advance_with_heartbeats(ms);
                true
            }
            Op::Restart => self.restart(),
            Op::Hold => {
                self.cluster.hold(Hold::Mail);
                self.lagging = None;
                true
            }
            Op::Lag { side, relay } => {
                let lagging = RelayId { partition: PartitionId(side as u16), index: relay };
                self.cluster.hold(Hold::Mail);
                self.lagging = Some(lagging);
                true
            }
            Op::CatchUp { count } => {
                if let Some(lagging) = self.lagging {
                    self.cluster.deliver_mail_to(lagging, count);
                }
                true
            }
            Op::Settle => {
                self.cluster.release(Hold::Mail);
                self.lagging = None;
                true
            }
        }
    }

    fn set_insider(&mut self, n: u64, is_one: bool) -> bool {
        let role: RoleId = id(INSIDERS);
        self.system(
            A,
            match is_one {
                true => Command::AddMemberRole(id(n), role),
                false => Command::RemoveMemberRole(id(n), role),
            },
        )
    }

    fn set_member(&mut self, guild: u64, n: u64, is_one: bool) -> bool {
        let account = account(self.setup, n);
        self.system(
            guild,
            match is_one {
                true => Command::AddMember(account),
                false => Command::RemoveMember(account.id),
            },
        )
    }

    fn subscribe(&mut self, client: u64, what: u64) -> bool {
        let client = &self.clients[client as usize];
        let guild = |n: u64| id::<()>(n).to_string();
        let rows = |channel: u64| json!({id::<()>(channel).to_string(): [[0, 99]]});
        let subscription: Value = match what {
            0 => json!({"guild_id": guild(A), "typing": true, "activities": true, "threads": true}),
            1 => json!({"guild_id": guild(A), "typing": false}),
            2 => json!({"guild_id": guild(A), "typing": true, "channels": rows(310)}),
            3 => json!({"guild_id": guild(A), "members": [id::<()>(LURKER).to_string()], "channels": rows(311)}),
            _ => json!({"guild_id": guild(B), "typing": true, "channels": rows(320)}),
        };
        self.cluster.client(client.id).send(14, &subscription);
        true
    }

    fn resume(&mut self, client: usize, elsewhere: bool) -> bool {
        let Client { account, params, side, capabilities, id } = &self.clients[client];
        let (account, params, side, capabilities, before) = (account.clone(), *params, *side, *capabilities, *id);
        self.cluster.cut(before);
        let side = if elsewhere { 1 - side } else { side };
        let next = self.cluster.reconnect_to(side, before, params);
        self.cluster.client(next).record_wire();
        self.cluster.client(next).resume(&account.username);
        let is_refused = self.cluster.take(next).iter().any(|received| matches!(received, Received::InvalidSession(_)));
        if is_refused {
            self.identify(next, &account, capabilities);
        }
        self.clients[client].id = next;
        !is_refused
    }

    /// The process ends and the next one starts; every client resumes.
    fn restart(&mut self) -> bool {
        let mut guilds = guilds(self.setup);
        let now = self.cluster.clock.now();
        let direct = |new| Guild::create_direct(now, new, guildhall_guild::GuildLimits::default(), 5);
        guilds.extend(directs(self.setup).map(direct));
        self.cluster.restart(guilds, 1 << 20);
        self.begin_process();
        let resumed: Vec<bool> = (0..self.clients.len()).map(|client| self.resume(client, false)).collect();
        resumed.iter().any(|is_resumed| *is_resumed)
    }

    /// Connections of the observer: how each is written, and all it was sent since it began.
    pub fn observed(&mut self) -> Vec<(ClientId, ClientParams, Vec<u8>)> {
        let observing: Vec<_> =
            self.clients[..self.observing].iter().map(|client| (client.id, client.params)).collect();
        let wire = |(id, params)| (id, params, self.cluster.client(id).wire().to_vec());
        observing.into_iter().map(wire).collect()
    }

    /// Messages that a client read since the last call, to explain a failure.
    pub fn read(&mut self, client: ClientId) -> Vec<String> {
        self.cluster.take(client).iter().map(|received| format!("{received:?}")).collect()
    }

    /// Bodies that were searched once for several.
    pub fn shared_total(&self) -> u64 {
        (0..2).map(|side| self.cluster.partition_at(side).shared_match().0.written_total).sum()
    }
}
