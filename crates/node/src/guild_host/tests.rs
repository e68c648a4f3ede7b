//! Tests of a state that cannot be caused from outside: a guild that panics.

use super::*;
use crate::{
    ids::{Ids, Origins},
    mailbox::{CreateRequest, Mailbox},
    pool::Pool,
};
use guildhall_guild::{Actor, Command, GuildLimits, NewChannel, NewGuild, NewMessage, Reply};
use guildhall_guild_protocol::{MembersWanted, PartitionId, SessionKey, SessionPresence, ToGuild, ToRelay};
use guildhall_model::{AccountKind, ChannelType, Guild as GuildFields, Platform, Status, User, UserId};
use guildhall_store::{MemoryStore, Store};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::runtime::Handle;

const GUILD: GuildId = GuildId::new(9);
const OWNER: UserId = UserId::new(1);

/// Messages that a relay accepted; it refuses after the configured number. Guilds of which commits were fenced.
#[derive(Default)]
struct AcceptedMessages(Mutex<Vec<ToRelay>>, AtomicUsize, Mutex<Vec<GuildId>>);

impl RelaySink for AcceptedMessages {
    fn try_deliver(&self, _: PartitionId, message: ToRelay) -> Result<(), ToRelay> {
        let released_one = |left: usize| left.checked_sub(1);
        if self.1.fetch_update(Ordering::SeqCst, Ordering::SeqCst, released_one).is_ok() {
            return Err(message);
        }
        self.0.lock().unwrap().push(message);
        Ok(())
    }

    fn fenced(&self, guild_id: GuildId) {
        self.2.lock().unwrap().push(guild_id);
    }
}

/// A host without its worker.
struct Bench {
    host: GuildHost,
    jobs: Jobs,
    relays: AcceptedMessages,
    directory: Directory,
    limits: NodeLimits,
    now: Now,
    done_inputs: Vec<GuildId>,
    loads: VecDeque<GuildId>,
    counter: u64,
    ids: SnowflakeGenerator,
    canaries: Arc<crate::canaries::CanaryCounters>,
}

impl Bench {
    fn new() -> Self {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let jobs = Jobs {
            store: store.clone(),
            runtime: Handle::current(),
            mailbox: Arc::new(Mailbox::new(2)),
            pool: Arc::new(Pool::new(1)),
            ids: Arc::new(Ids::new(store.clone(), Origins::Single)),
            guild_limits: GuildLimits::default(),
            commits: Arc::default(),
            writes: Arc::default(),
        };
        let (relays, directory, limits) = (AcceptedMessages::default(), Directory::new(store), NodeLimits::default());
        let now = Now::new(0, 1_700_000_000_000);
        let (mut done_inputs, mut loads, mut counter) = (Vec::new(), VecDeque::new(), 0);
        let mut ids = Origins::Single.of_worker(0);
        let canaries = Arc::default();
        let mut cx = Context {
            now,
            jobs: &jobs,
            relays: &relays,
            directory: &directory,
            limits: &limits,
            done_inputs: &mut done_inputs,
            loads: &mut loads,
            counter: &mut counter,
            ids: &mut ids,
            closing: false,
            canaries: &canaries,
        };
        let host = GuildHost::new(&mut cx, GUILD);
        Self { host, jobs, relays, directory, limits, now, done_inputs, loads, counter, ids, canaries }
    }

    fn with<R>(&mut self, work: impl FnOnce(&mut GuildHost, &mut Context<'_>) -> R) -> R {
        let mut cx = Context {
            now: self.now,
            jobs: &self.jobs,
            relays: &self.relays,
            directory: &self.directory,
            limits: &self.limits,
            done_inputs: &mut self.done_inputs,
            loads: &mut self.loads,
            counter: &mut self.counter,
            ids: &mut self.ids,
            closing: false,
            canaries: &self.canaries,
        };
        let result = work(&mut self.host, &mut cx);
        self.host.begin_commit(&mut cx);
        result
    }

    fn request(&mut self, command: Command) -> oneshot::Receiver<Answer> {
        let (answer, receiver) = oneshot::channel();
        let request = CommandRequest { actor: Actor::User(OWNER), command, answer, loads_count: 0, trace: None };
        self.with(|host, cx| host.handle_input(cx, Input::Command(request)));
        receiver
    }

    /// Lets the store work until there is an answer.
    fn answer(&mut self, mut receiver: oneshot::Receiver<Answer>) -> Answer {
        loop {
            if let Ok(answer) = receiver.try_recv() {
                return answer;
            }
            while let Some(guild_id) = self.loads.pop_front() {
                self.jobs.load(guild_id);
            }
            let batch = self.jobs.mailbox.take(Some(Duration::from_secs(30)));
            assert!(!batch.reports.is_empty(), "no answer, and nothing under way that could lead to one");
            for report in batch.reports {
                self.with(|host, cx| host.handle_report(cx, report.end));
            }
        }
    }

    /// Kinds of the messages sent to the relay; asserts that their numbers are contiguous.
    fn kinds(&self) -> Vec<&'static str> {
        let taken = self.relays.0.lock().unwrap();
        assert!(taken.iter().map(|message| message.seq).eq(1..=taken.len() as u64));
        let kind = |message: &ToRelay| match message.message {
            RelayMessage::Snapshot { reset: false, .. } => "snapshot",
            RelayMessage::Snapshot { reset: true, .. } => "reset",
            RelayMessage::Published(_) => "event",
            _ => "other",
        };
        taken.iter().map(kind).collect()
    }

    /// With a guild, a channel in it, and a relay.
    fn ready() -> (Self, ChannelId) {
        let mut bench = Self::new();
        let new = NewGuild::new(GuildFields::new(GUILD, "g", OWNER), Arc::new(User::new(OWNER, "owner")));
        let (answer, receiver) = oneshot::channel();
        bench.with(|host, cx| host.handle_input(cx, Input::Create(CreateRequest::Guild(Box::new(new)), answer)));
        bench.answer(receiver).unwrap();
        let new = NewChannel {
            name: "general".to_owned(),
            kind: ChannelType::Text,
            topic: None,
            parent_id: None,
            position: None,
            overwrites: Vec::new(),
            user_limit: 0,
        };
        let made = bench.request(Command::CreateChannel(Box::new(new)));
        let Ok(Reply::Channel(channel)) = bench.answer(made) else { panic!("a channel can be made") };
        let subscribe = ToGuild::Subscribe { relay: RelayId::first(PartitionId(0)), epoch: 1 };
        bench.with(|host, cx| host.handle_input(cx, Input::Relay(subscribe)));
        let want = ToGuild::WantPresences { relay: RelayId::first(PartitionId(0)), all: true };
        bench.with(|host, cx| host.handle_input(cx, Input::Relay(want)));
        assert_eq!(bench.kinds(), ["snapshot"]);
        (bench, channel.id)
    }
}

fn say(channel_id: ChannelId) -> Command {
    Command::CreateMessage(channel_id, Box::new(NewMessage { content: "hello".to_owned(), ..NewMessage::default() }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn after_a_panic_a_guild_is_reloaded_and_every_request_is_answered() {
    let (mut bench, channel_id) = Bench::ready();
    let sent = bench.request(say(channel_id));
    bench.with(|host, cx| {
        host.run_and_push(cx, |_| panic!("a bug"));
        host.advance(cx);
    });
    assert!(matches!(bench.host.state, HostState::AwaitingCommits), "earlier commit units are still being committed");
    let read = bench.request(Command::ReadGuild);
    assert!(bench.loads.is_empty());

    let Ok(Reply::Message(message)) = bench.answer(sent) else { panic!("it was handled before") };
    let Ok(Reply::Guild(guild)) = bench.answer(read) else { panic!("the guild is back") };
    assert_eq!(guild.last_message_ids.get(&channel_id), Some(&message.message.id));
    assert_eq!(bench.kinds(), ["snapshot", "event", "reset"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn i3_guilds_make_ids_with_what_the_worker_lends_also_after_a_panic() {
    let (mut bench, channel_id) = Bench::ready();
    let mut newest = 0;
    for panics in [false, true, false] {
        if panics {
            // It panics after it has made an id, which is lost with the guild.
            bench.with(|host, cx| {
                let now = cx.now;
                host.run_and_push(cx, |guild| {
                    let _ = guild.handle_command(now, Actor::User(OWNER), &say(channel_id));
                    panic!("a bug")
                });
                host.advance(cx);
            });
        }
        let sent = bench.request(say(channel_id));
        let Ok(Reply::Message(sent)) = bench.answer(sent) else { panic!("it can be sent") };
        for id in [sent.message.id.get(), bench.ids.next::<()>(bench.now.unix).get()] {
            assert!(id > newest);
            assert_eq!(id >> 12 & 0x3ff, 0, "the origin of this worker");
            newest = id;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_follows_a_lost_message_in_its_group_is_not_sent() {
    let (mut bench, _) = Bench::ready();
    bench.relays.1.store(1, Ordering::SeqCst);
    let session = SessionKey { relay: RelayId::first(PartitionId(0)), slot: 0, generation: 0 };
    // Two messages: the member is online, and the session's view.
    let attach = ToGuild::Attach {
        is_restored: false,
        previous: None,
        session,
        session_id: "s".into(),
        user_id: OWNER,
        kind: AccountKind::Bot,
        presence: SessionPresence { status: Status::Online, activities: Arc::new([]), platform: Platform::Desktop },
        members: MembersWanted::OwnAndVoice,
    };
    bench.with(|host, cx| host.handle_input(cx, Input::Relay(attach.clone())));
    assert_eq!(bench.kinds(), ["snapshot"]);
    bench.now.instant = bench.now.instant.after_ms(RELAY_RETRY_MS);
    bench.with(|host, cx| host.handle_timer(cx));
    assert_eq!(bench.kinds(), ["snapshot", "reset"]);
    bench.with(|host, cx| host.handle_input(cx, Input::Relay(ToGuild::Detach { session })));
    bench.with(|host, cx| host.handle_input(cx, Input::Relay(attach)));
    assert_eq!(bench.kinds(), ["snapshot", "reset", "event", "event", "other"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_guild_that_panics_again_and_again_is_left_alone_for_longer_each_time() {
    let (mut bench, channel_id) = Bench::ready();
    let mut pauses = Vec::new();
    for _ in 0..10 {
        bench.with(|host, cx| {
            host.run_and_push(cx, |_| panic!("a bug"));
            host.advance(cx);
        });
        if let HostState::Backoff(until) = bench.host.state {
            let refused = bench.request(say(channel_id));
            assert_eq!(bench.answer(refused).map(drop), Err(Refusal::Unavailable));
            assert!(bench.loads.is_empty());
            pauses.push(until.ms_since(bench.now.instant));
            bench.now.instant = until;
            bench.with(|host, cx| host.handle_timer(cx));
        }
        let sent = bench.request(say(channel_id));
        bench.answer(sent).unwrap();
    }
    assert_eq!(pauses, [100, 200, 400, 800, 1600, 3000, 3000, 3000, 3000]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn every_input_gives_its_place_back_once() {
    let (mut bench, channel_id) = Bench::ready();
    bench.done_inputs.clear();
    for _ in 0..5 {
        let sent = bench.request(say(channel_id));
        bench.answer(sent).unwrap();
    }
    // The caller gave up.
    drop(bench.request(say(channel_id)));
    let (answer, receiver) = oneshot::channel();
    drop(receiver);
    let (actor, command) = (Actor::User(OWNER), say(channel_id));
    let request = CommandRequest { actor, command, answer, loads_count: 0, trace: None };
    bench.with(|host, cx| host.handle_input(cx, Input::Command(request)));
    // Waits for a message, and is refused because there is none.
    let unknown = bench.request(Command::DeleteMessage(channel_id, MessageId::new(5)));
    assert_eq!(bench.done_inputs.len(), 7);
    assert_eq!(bench.answer(unknown).map(drop), Err(Refusal::UnknownMessage));
    // Waits for the guild.
    bench.with(|host, cx| {
        host.run_and_push(cx, |_| panic!("a bug"));
        host.advance(cx);
    });
    let waiting = bench.request(Command::ReadGuild);
    assert_eq!(bench.done_inputs.len(), 8);
    bench.answer(waiting).unwrap();
    assert_eq!(bench.done_inputs.len(), 9);
}

/// Kinds of the messages after the first `from`, whatever their numbers.
fn kinds_from(bench: &Bench, from: usize) -> Vec<(&'static str, u64)> {
    let taken = bench.relays.0.lock().unwrap();
    let kind = |message: &ToRelay| match message.message {
        RelayMessage::Snapshot { reset: false, .. } => ("snapshot", message.seq),
        RelayMessage::Snapshot { reset: true, .. } => ("reset", message.seq),
        RelayMessage::Published(_) => ("event", message.seq),
        _ => ("other", message.seq),
    };
    taken.iter().skip(from).map(kind).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_relay_that_begins_again_has_no_sessions_and_a_stream_from_one() {
    let (mut bench, channel_id) = Bench::ready();
    let relay = RelayId::first(PartitionId(0));
    let session = SessionKey { relay, slot: 1, generation: 1 };
    let attach = ToGuild::Attach {
        is_restored: false,
        previous: None,
        session,
        session_id: "a".into(),
        user_id: OWNER,
        kind: AccountKind::Bot,
        presence: SessionPresence { status: Status::Online, activities: Arc::new([]), platform: Platform::Desktop },
        members: MembersWanted::OwnAndVoice,
    };
    bench.with(|host, cx| host.handle_input(cx, Input::Relay(attach)));
    let before = bench.relays.0.lock().unwrap().len();
    bench.with(|host, cx| host.handle_input(cx, Input::Reset { relay, epoch: 1 }));
    assert_eq!(kinds_from(&bench, before)[..1], [("reset", 1)], "{:?}", kinds_from(&bench, before));
    // Its sessions are gone: the guild sends nothing to a session that has not attached again.
    let detach = ToGuild::Detach { session };
    bench.with(|host, cx| host.handle_input(cx, Input::Relay(detach)));
    let sent = bench.request(say(channel_id));
    bench.answer(sent).unwrap();
    assert_eq!(kinds_from(&bench, before).last(), Some(&("event", kinds_from(&bench, before).len() as u64)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn relays_of_a_node_that_left_get_nothing_and_others_go_on() {
    let (mut bench, channel_id) = Bench::ready();
    let far = RelayId::first(PartitionId::of_node(3, 0));
    let subscribe = ToGuild::Subscribe { relay: far, epoch: 1 };
    bench.with(|host, cx| host.handle_input(cx, Input::Relay(subscribe)));
    let count_of = |bench: &Bench, relay: RelayId| {
        bench.relays.0.lock().unwrap().iter().filter(|message| message.relay == relay).count()
    };
    let (near, before) = (RelayId::first(PartitionId(0)), count_of(&bench, far));
    assert_eq!(before, 1, "its snapshot");
    assert!(bench.host.has_node_relays(3) && !bench.host.has_node_relays(4));
    bench.with(|host, cx| host.forget_relays(cx, 3));
    assert!(!bench.host.has_node_relays(3));
    let near_before = count_of(&bench, near);
    let sent = bench.request(say(channel_id));
    bench.answer(sent).unwrap();
    assert_eq!((count_of(&bench, far), count_of(&bench, near)), (before, near_before + 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_fenced_commit_is_refused_and_the_guild_is_released() {
    let (mut bench, channel_id) = Bench::ready();
    let before = bench.relays.0.lock().unwrap().len();
    // Another node claims the guild.
    bench.jobs.store.claim_guild(GUILD).await.unwrap();
    let sent = bench.request(say(channel_id));
    assert_eq!(bench.answer(sent).map(drop), Err(Refusal::Unavailable));
    assert!(bench.host.is_evictable(), "nothing brings it back by itself");
    assert_eq!(bench.relays.0.lock().unwrap().len(), before, "relays receive nothing uncommitted");
    assert_eq!(*bench.relays.2.lock().unwrap(), [GUILD], "the cluster learns that it has another owner");
    // For the next request the worker makes another host, which claims and loads the guild: the other node may have
    // changed it.
    bench.host = bench.with(|_, cx| GuildHost::new(cx, GUILD));
    let sent = bench.request(say(channel_id));
    assert!(bench.answer(sent).is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_guild_that_is_used_in_the_turn_of_its_release_is_loaded_again() {
    let (mut bench, _) = Bench::ready();
    bench.with(|host, cx| host.release(cx));
    assert!(bench.host.is_evictable());
    // The worker removes the host at the end of its turn. Before that this node becomes the owner again.
    let relay = RelayId::first(PartitionId(1));
    bench.with(|host, cx| host.handle_input(cx, Input::Reset { relay, epoch: 7 }));
    assert!(!bench.host.is_evictable());
    let read = bench.request(Command::ReadGuild);
    assert!(bench.answer(read).is_ok());
    let taken = bench.relays.0.lock().unwrap();
    let last = taken.iter().rfind(|message| message.relay == relay).expect("the relay gets a message");
    assert!(last.epoch == 7 && matches!(last.message, RelayMessage::Snapshot { .. }), "{last:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_guild_that_is_released_while_it_loads_is_not_served() {
    let mut bench = Bench::new();
    let read = bench.request(Command::ReadGuild);
    bench.with(|host, cx| host.release(cx));
    assert_eq!(bench.answer(read).map(drop), Err(Refusal::Unavailable));
    while let Some(guild_id) = bench.loads.pop_front() {
        bench.jobs.load(guild_id);
    }
    for report in bench.jobs.mailbox.take(Some(Duration::from_secs(30))).reports {
        bench.with(|host, cx| host.handle_report(cx, report.end));
    }
    assert!(bench.host.is_evictable());
}
