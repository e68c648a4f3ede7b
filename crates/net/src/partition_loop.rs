//! Partition loop: one thread, its poll, its sockets, its machine.
//!
//! Owns        the order of a loop turn: room in sockets, messages of guilds, commands, bytes of clients, timers, one
//!             flush, and the outputs.
//! Limits      `GUILD_MESSAGES_PER_TURN` messages, and one read buffer per socket and loop turn, so that no source
//!             starves another.

use crate::{
    admission::AddressPermit,
    answers::{AuthAnswer, DirectsAnswer, MessagesAnswer, SessionAnswer},
    clock::SystemClock,
    loop_timer::{Kind, LoopTimer},
    mailbox::{
        GuildMessage, Mailbox, MailboxReceiver, MovedSocket, PartitionCommand, PassedConn, PassedOn, PassedState,
    },
    refused::Refused,
    server::Upstream,
    sockets::{Sockets, Transfer, WAKE},
    url::Refusal,
    write_watch::Deliverer,
};
use guildhall_accounting::{CanaryAccount, Durations, TraceHandle};
use guildhall_guild_protocol::{ToGuild, ToRelay};
use guildhall_model::GuildId;
use guildhall_partition::{ConnParams, ConnSnapshot, Delivery, HandOver, MovingConn, Output, Partition, RecentLoss};
use guildhall_stdx::{Instant, Now};
use std::{
    collections::VecDeque,
    sync::{Arc, mpsc::Sender},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

const READ_BUFFER_BYTES: usize = 64 << 10;
const EVENTS_PER_POLL: usize = 1024;
const GUILD_MESSAGES_PER_TURN: usize = 256;
/// Delay after which a guild whose mailbox was full is tried again.
const RETRY_MS: u64 = 1;
/// The longest sleep: a bound for the error if the system's clock jumps.
const SLEEP_MS_MAX: u64 = 1_000;
/// A guild that found the mailbox full tries again within milliseconds, and its sessions then see an outage. So a loss
/// longer ago than this needs no further outage.
const RECENT_LOSS: Duration = Duration::from_secs(60);
/// Time for clients to answer the close frame; then the loop ends.
const CLOSING_MS: u64 = 1_000;

/// Shutdown of a partition: it closes all connections, waits for their close frames, then ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// It has not begun.
    No,
    /// Clients were closed; the loop ends at this time.
    Closed(Instant),
}

/// The queue of guilds' messages after a turn has taken its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queue {
    Drained,
    /// The turn has taken as many as one turn may.
    HasMore,
}

pub struct PartitionLoop {
    pub poll: mio::Poll,
    pub receiver: MailboxReceiver,
    /// Of every partition, this one included.
    pub mailboxes: Arc<[Mailbox]>,
    pub own_mailbox: Mailbox,
    pub partition: Partition,
    pub sockets: Sockets,
    pub upstream: Arc<dyn Upstream>,
    pub clock: SystemClock,
    pub refused: Arc<Refused>,
    /// Messages to guilds whose mailbox was full, oldest first. The limits of this partition's sessions bound them.
    pub stalled: VecDeque<(GuildId, ToGuild)>,
    pub shutdown: Shutdown,
    /// No socket is read: the process passes its connections on.
    pub is_frozen: bool,
    /// Time from a guild's `try_send_guild` to the last frame of the message: written, or left to a full socket.
    pub latency: Durations,
    /// Times of `try_send_guild` of the messages that this turn took.
    pub taken_at: Vec<std::time::Instant>,
    pub timer: LoopTimer,
    pub canaries: Arc<CanaryAccount>,
}

impl PartitionLoop {
    /// Runs until `PartitionCommand::Stop`, and for `CLOSING_MS` after that.
    ///
    /// # Errors
    /// The poll's: no socket can be served any more.
    pub fn run(mut self) -> std::io::Result<()> {
        let mut events = mio::Events::with_capacity(EVENTS_PER_POLL);
        let mut buffer = vec![0; READ_BUFFER_BYTES];
        let mut queue = Queue::Drained;
        loop {
            let timeout = self.timeout(queue);
            if let Err(error) = self.poll.poll(&mut events, Some(timeout))
                && error.kind() != std::io::ErrorKind::Interrupted
            {
                return Err(error);
            }
            self.timer.begin();
            let now = self.clock.now();
            let mut has_written = false;
            for event in &events {
                if event.token() == WAKE {
                    continue;
                }
                let Some(key) = self.sockets.key_of(event.token()) else { continue };
                if event.is_writable() {
                    has_written = true;
                    match self.sockets.make_way(key) {
                        Ok(true) => self.partition.handle_writable(now, key, &mut self.sockets),
                        Ok(false) => {}
                        Err(_) => self.partition.handle_hangup(now, key, &mut self.sockets),
                    }
                }
                if event.is_readable() || event.is_read_closed() || event.is_error() {
                    self.sockets.queue(key);
                }
            }
            if has_written {
                self.timer.handled(Kind::WRITE_SOCKETS);
            }
            self.receiver.begin();
            queue = self.take_guild_messages(now);
            self.take_commands(now);
            self.timer.took_all();
            if self.is_shut_down(now) {
                return Ok(());
            }
            if !self.is_frozen {
                self.read_sockets(now, &mut buffer);
            }
            if self.partition.next_deadline().is_some_and(|at| at <= now.instant) {
                self.partition.handle_timers(now, &mut self.sockets);
                self.timer.handled(Kind::TIMERS);
            }
            self.partition.flush(now, &mut self.sockets);
            self.timer.handled(Kind::FLUSH);
            self.measure_turn();
            self.hand_out_outputs();
            self.timer.handled(Kind::HAND_OUT_OUTPUTS);
        }
    }

    /// Whether the loop ends: no connection is left, or the time for close frames is over.
    fn is_shut_down(&mut self, now: Now) -> bool {
        let is_empty = self.partition.conns_count() == 0;
        match self.shutdown {
            Shutdown::No => false,
            Shutdown::Closed(until) => is_empty || now.instant >= until,
        }
    }

    fn timeout(&self, queue: Queue) -> Duration {
        let may_read = !self.is_frozen && !self.sockets.readable.is_empty();
        if queue == Queue::HasMore || self.partition.wants_flush() || may_read {
            return Duration::ZERO;
        }
        let now = self.clock.now().instant;
        let until = |at: Instant| at.ms_since(now);
        let retry = if self.stalled.is_empty() { SLEEP_MS_MAX } else { RETRY_MS };
        let shutdown = match self.shutdown {
            Shutdown::No => SLEEP_MS_MAX,
            Shutdown::Closed(at) => until(at),
        };
        let deadline = self.partition.next_deadline().map_or(SLEEP_MS_MAX, until);
        let sleep_ms = deadline.min(retry).min(shutdown).min(SLEEP_MS_MAX);
        Duration::from_millis(sleep_ms)
    }

    /// Takes at most `GUILD_MESSAGES_PER_TURN` messages.
    fn take_guild_messages(&mut self, now: Now) -> Queue {
        let mut next = self.next_guild_message();
        let mut taken = 0;
        let mut delivery = Delivery::Now;
        while let Some(message) = next {
            taken += 1;
            next = self.next_guild_message();
            // A single event is written straight to the sockets, also if it goes to several relays; the frames of
            // several events are written once per connection.
            if next.as_ref().is_some_and(|next| !message.message.is_continued_by(&next.message)) {
                delivery = Delivery::AtFlush;
            }
            self.pass_to_relay(now, message, delivery);
            if taken >= GUILD_MESSAGES_PER_TURN {
                if let Some(message) = next {
                    self.pass_to_relay(now, message, Delivery::AtFlush);
                }
                return Queue::HasMore;
            }
        }
        Queue::Drained
    }

    fn pass_to_relay(&mut self, now: Now, message: GuildMessage, delivery: Delivery) {
        let GuildMessage { handed_over_at, message, trace } = message;
        let kind = Kind::of_relay(&message.message);
        self.sockets.handed_over_at = Some(handed_over_at);
        match trace {
            None => self.partition.handle_guild(now, message, delivery, &mut self.sockets),
            Some(trace) => self.pass_traced(now, message, delivery, (&trace, handed_over_at)),
        }
        self.sockets.handed_over_at = None;
        self.timer.handled(kind);
    }

    /// As `handle_guild`, with a span for the relay and the trace id in log lines.
    fn pass_traced(
        &mut self,
        now: Now,
        message: ToRelay,
        delivery: Delivery,
        (parent, at): (&TraceHandle, std::time::Instant),
    ) {
        let trace = self.sockets.watch.begin(parent, Deliverer::Relay(message.relay), at);
        let dispatches = self.partition.counters().dispatches_total;
        tracing::error_span!("trace", trace_id = trace.trace_id())
            .in_scope(|| self.partition.handle_guild(now, message, delivery, &mut self.sockets));
        self.sockets.watch.handled(self.partition.counters().dispatches_total - dispatches);
    }

    fn next_guild_message(&mut self) -> Option<GuildMessage> {
        let message = self.receiver.guild.try_recv().ok()?;
        self.taken_at.push(message.handed_over_at);
        self.timer.took(message.handed_over_at);
        Some(message)
    }

    /// Called after the flush: the end of the flush is the time of the deliveries.
    fn measure_turn(&mut self) {
        if self.taken_at.is_empty() && !self.sockets.watch.has_events() {
            return;
        }
        if !guildhall_accounting::is_on() {
            // The time stamp is old.
            return self.taken_at.clear();
        }
        let now = self.timer.stamp();
        self.sockets.watch.end_turn(now);
        for at in self.taken_at.drain(..) {
            self.latency.record(now.saturating_duration_since(at).as_nanos() as u64);
        }
    }

    fn take_commands(&mut self, now: Now) {
        while let Ok(command) = self.receiver.commands.try_recv() {
            let kind = Kind::of_command(&command);
            self.handle_command(now, command);
            self.timer.handled(kind);
        }
    }

    fn handle_command(&mut self, now: Now, command: PartitionCommand) {
        let Self { partition, sockets, .. } = self;
        match command {
            PartitionCommand::Accepted { stream, tls, answer, early, params, permit } => {
                let socket = MovedSocket { stream: mio::net::TcpStream::from_std(stream), answer, tls, permit };
                self.accept(now, socket, early, params);
            }
            PartitionCommand::Fetched(fetched) => partition.handle_fetched(now, *fetched, sockets),
            PartitionCommand::Release { claim, bytes_max, released } => {
                released(partition.release_session(now, &claim, bytes_max, sockets));
            }
            PartitionCommand::BeginTransfer { claim, ticket, bytes_max, begun } => {
                begun(partition.begin_transfer(now, (&claim, ticket), bytes_max, sockets));
            }
            PartitionCommand::EndTransfer { end, is_late, bytes_max, ended } => {
                ended(partition.end_transfer(now, (&end, is_late), bytes_max, sockets));
            }
            PartitionCommand::ReleaseMany { ids, bytes_max, released } => {
                released(partition.release_sessions(now, &ids, bytes_max, sockets));
            }
            PartitionCommand::Arrivals { over, users, arrived } => {
                arrived(partition.handle_arrivals(now, &over, &users, sockets));
            }
            PartitionCommand::Moved { socket, conn } => self.accept_moved(now, socket, *conn),
            PartitionCommand::Authenticated { conn, result } => {
                partition.handle_authenticated(now, conn, result, sockets)
            }
            PartitionCommand::Messages { session, guild_id, messages } => {
                partition.handle_messages(now, session, guild_id, &messages, sockets);
            }
            PartitionCommand::Directs { session, own } => partition.handle_directs(now, session, own, sockets),
            PartitionCommand::Joined { user_id, guild_id } => partition.handle_joined(now, user_id, guild_id),
            PartitionCommand::UserChanged(user) => partition.handle_user_changed(now, &user, sockets),
            PartitionCommand::TakeBackUpgrades { count } => {
                partition.take_back_upgrades(now, count, sockets);
            }
            PartitionCommand::Experiments(table) => partition.take_experiments(table),
            PartitionCommand::ReconnectTrials { experiment, count, sent } => {
                sent(partition.reconnect_trials(now, experiment, count, sockets));
            }
            PartitionCommand::Inspect(look) => look(now, partition, &self.latency),
            PartitionCommand::Mirrors(work) => work(now, partition),
            PartitionCommand::Close { whose, code, closed } => {
                closed(partition.close_sessions(now, &whose, code, sockets))
            }
            PartitionCommand::PublishToUsers { published, user_ids, permit: _permit, trace } => {
                let dispatches = partition.counters().dispatches_total;
                if let Some((trace, handed_over_at)) = &trace {
                    sockets.watch.begin(trace, Deliverer::Direct, *handed_over_at);
                }
                partition.publish_to_users(now, &published, &user_ids, sockets);
                if trace.is_some() {
                    sockets.watch.handled(partition.counters().dispatches_total - dispatches);
                }
            }
            PartitionCommand::SendReconnects { count, grace_ms, answer } => {
                reply(&answer, partition.send_reconnects(now, count, grace_ms, sockets));
            }
            PartitionCommand::LeaveVoice { done } => {
                partition.leave_voice();
                // The requester ends the guilds after this reply: they must have the messages by then.
                self.hand_out_outputs();
                reply(&done, ());
            }
            PartitionCommand::HandOver { bytes_max, loss, answer } => {
                reply(&answer, self.hand_over(now, bytes_max, loss));
            }
            PartitionCommand::TakeOver { over, users, pause, taken } => {
                reply(&taken, partition.take_over(now, &over, &users, pause, sockets));
            }
            PartitionCommand::FailPendingRestores => partition.fail_pending_restores(now, sockets),
            PartitionCommand::HandOut { done } => {
                self.hand_out_outputs();
                // The caller may have stopped waiting.
                let _ = done.send(());
            }
            PartitionCommand::Limits(limits) => partition.take_limits(&limits),
            PartitionCommand::Freeze(is_frozen) => self.is_frozen = is_frozen,
            PartitionCommand::PassOn { bytes_max, loss, answer } => {
                reply(&answer, self.pass_on(now, bytes_max, loss));
            }
            PartitionCommand::Adopt { conns, adopted } => reply(&adopted, self.adopt(now, conns)),
            PartitionCommand::Stop => {
                // Clients answer the close frame.
                self.is_frozen = false;
                partition.close_all(now, sockets);
                self.shutdown = Shutdown::Closed(now.instant.after_ms(CLOSING_MS));
            }
        }
    }

    /// A socket after its upgrade; `early` are the client's first bytes.
    fn accept(&mut self, now: Now, socket: MovedSocket, mut early: Vec<u8>, params: Result<ConnParams, Refusal>) {
        let key = self.partition.next_conn_key();
        if let Err(error) = self.sockets.insert(key, socket) {
            tracing::warn!(%error, "an accepted socket could not be registered");
            return;
        }
        match params {
            Ok(params) => self.partition.accept(now, params, &mut self.sockets),
            Err(Refusal { code, reason }) => {
                self.partition.accept_refused_because(now, code, reason, &mut self.sockets)
            }
        };
        if !early.is_empty() {
            self.partition.handle_bytes(now, key, &mut early, &mut self.sockets);
        }
    }

    /// A connection from another partition.
    fn accept_moved(&mut self, now: Now, socket: MovedSocket, conn: MovingConn) {
        if let Err(error) = self.sockets.insert(self.partition.next_conn_key(), socket) {
            tracing::warn!(%error, "a moved socket could not be registered");
            return;
        }
        self.partition.handle_transferred(now, conn, &mut self.sockets);
    }

    /// As `hand_over`, with the connections that can go on in the next process.
    fn pass_on(&mut self, now: Now, bytes_max: usize, loss: RecentLoss) -> PassedOn {
        self.deliver_rest(now);
        self.partition.flush(now, &mut self.sockets);
        let over = self.hand_over(now, bytes_max, loss);
        let conns = self.partition.hand_over_conns(now, &over, &mut self.sockets);
        let with_state = |(socket, conn): (MovedSocket, ConnSnapshot)| {
            let MovedSocket { stream, mut permit, .. } = socket;
            let address = permit.address.as_ref().map(AddressPermit::address);
            let access = permit.access.take().map(|access| access.pass_on());
            PassedConn { stream: stream.into(), state: PassedState { conn, address, access } }
        };
        PassedOn { over, conns: self.sockets.take_leaving().into_iter().zip(conns).map(with_state).collect() }
    }

    /// Connections of the previous process. Returns how many are registered.
    fn adopt(&mut self, now: Now, conns: Vec<(MovedSocket, ConnSnapshot)>) -> usize {
        let mut count = 0;
        for (socket, conn) in conns {
            if let Err(error) = self.sockets.insert(self.partition.next_conn_key(), socket) {
                tracing::warn!(%error, "a socket of the previous process could not be registered");
                continue;
            }
            self.partition.adopt_conn(now, &conn, &mut self.sockets);
            count += 1;
        }
        count
    }

    /// Delivers the last messages of the guilds, which have ended.
    fn deliver_rest(&mut self, now: Now) {
        while let Some(message) = self.next_guild_message() {
            self.partition.handle_guild(now, message.message, Delivery::AtFlush, &mut self.sockets);
        }
    }

    /// Delivers the last messages of the guilds, which have ended, and exports the sessions.
    fn hand_over(&mut self, now: Now, bytes_max: usize, loss: RecentLoss) -> HandOver {
        self.deliver_rest(now);
        let loss = match self.receiver.has_lost_within(RECENT_LOSS) {
            true => RecentLoss::Possible,
            false => loss,
        };
        self.partition.hand_over(now, bytes_max, loss, &mut self.sockets)
    }

    /// Reads one buffer per socket. A socket with more bytes is read again next turn.
    fn read_sockets(&mut self, now: Now, buffer: &mut [u8]) {
        let readable = std::mem::take(&mut self.sockets.readable);
        if readable.is_empty() {
            return;
        }
        for key in readable {
            match self.sockets.read(key, buffer) {
                Ok(None) => {}
                Ok(Some(0)) | Err(_) => self.partition.handle_hangup(now, key, &mut self.sockets),
                Ok(Some(count)) => {
                    self.partition.handle_bytes(now, key, &mut buffer[..count], &mut self.sockets);
                    // Edge-triggered: only a read that finds nothing ends the turn of a socket.
                    self.sockets.queue(key);
                }
            }
        }
        self.timer.handled(Kind::READ_SOCKETS);
    }

    fn hand_out_outputs(&mut self) {
        while let Some((guild_id, message)) = self.stalled.pop_front() {
            if let Err(message) = self.upstream.try_send_to_guild(guild_id, message) {
                self.stalled.push_front((guild_id, message));
                break;
            }
        }
        while let Some(output) = self.partition.poll_output() {
            match output {
                Output::Authenticate { conn, token, purpose } => {
                    let answer = AuthAnswer::new(self.own_mailbox.clone(), conn);
                    self.upstream.authenticate(token, purpose, answer);
                }
                Output::FetchMessages { session, guild_id, messages } => {
                    let answer = MessagesAnswer::new(self.own_mailbox.clone(), session, guild_id);
                    self.upstream.fetch_messages(messages, answer);
                }
                Output::FetchDirects { session, user_id } => {
                    let answer = DirectsAnswer::new(self.own_mailbox.clone(), session);
                    self.upstream.fetch_directs(user_id, answer);
                }
                Output::FetchSession { claim, user } => {
                    let session_id = claim.session_id.as_str().into();
                    let answer = SessionAnswer::new(self.own_mailbox.clone(), (session_id, false), user);
                    self.upstream.fetch_session(claim, answer);
                }
                Output::FetchRest { end, user } => {
                    let session_id = end.session_id.as_str().into();
                    let answer = SessionAnswer::new(self.own_mailbox.clone(), (session_id, true), user);
                    self.upstream.fetch_rest(end, answer);
                }
                // Order matters: nothing overtakes what waits.
                Output::ToGuild(guild_id, message) if !self.stalled.is_empty() => {
                    self.stalled.push_back((guild_id, message))
                }
                Output::ToGuild(guild_id, message) => {
                    if let Err(message) = self.upstream.try_send_to_guild(guild_id, message) {
                        self.stalled.push_back((guild_id, message));
                    }
                }
                // The turn has flushed: an event that came with the canary is on its way to the clients.
                Output::Canary(canary) => {
                    let created_at = UNIX_EPOCH + Duration::from_micros(canary.created_at_us);
                    let took = SystemTime::now().duration_since(created_at).unwrap_or_default();
                    self.canaries.received(canary.members_count, took.as_nanos() as u64);
                }
                Output::SessionNews(news) => self.upstream.session_news(news),
                Output::PresenceChanged(user_id) => self.upstream.presence_changed(user_id),
                Output::ShowFriends { user_id, friends } => self.upstream.show_friends(user_id, friends),
                Output::IdentifyRefused(refused) => self.refused.note_identify(self.clock.now(), &refused),
                Output::ResumeRefused(refused) => self.refused.note_resume(self.clock.now(), refused),
            }
        }
        for Transfer { to, socket, conn } in self.sockets.take_transfers() {
            self.mailboxes[to.index()].send(PartitionCommand::Moved { socket, conn });
        }
    }
}

/// Replies to a command. A requester that has stopped waiting has dropped its end, which is no error.
fn reply<T>(to: &Sender<T>, result: T) {
    let _ = to.send(result);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        gatekeeper::IdentifyGate,
        loop_timer::partition_account,
        mailbox::{ConnPermit, mailbox},
    };
    use guildhall_codec::Encoding;
    use guildhall_guild_protocol::PartitionId;
    use guildhall_model::{ChannelId, MessageId, User, UserId};
    use guildhall_partition::{Account, AuthPurpose, Compression, ConnParams, PartitionConfig};
    use std::{
        io::Read as _,
        net::{TcpListener, TcpStream},
        sync::{Mutex, atomic::AtomicUsize},
    };

    /// Holds the answers until the test gives them.
    #[derive(Default)]
    struct PendingAnswers(Mutex<Vec<AuthAnswer>>);

    impl Upstream for PendingAnswers {
        fn authenticate(&self, _: String, _: AuthPurpose, answer: AuthAnswer) {
            self.0.lock().unwrap().push(answer);
        }

        fn fetch_messages(&self, _: Vec<(ChannelId, MessageId)>, _: MessagesAnswer) {}

        fn fetch_directs(&self, _: UserId, _: DirectsAnswer) {}

        fn try_send_to_guild(&self, _: GuildId, _: ToGuild) -> Result<(), ToGuild> {
            Ok(())
        }
    }

    /// The first of two partitions, turned by hand; of the second there is only the mailbox.
    struct World {
        partition: PartitionLoop,
        second: MailboxReceiver,
        upstream: Arc<PendingAnswers>,
        _second_poll: mio::Poll,
    }

    impl World {
        fn new() -> Self {
            let new_mailbox = || {
                let poll = mio::Poll::new().unwrap();
                let (mailbox, receiver) = mailbox(mio::Waker::new(poll.registry(), WAKE).unwrap());
                (poll, mailbox, receiver)
            };
            let ((poll, own_mailbox, receiver), (second_poll, second_mailbox, second)) = (new_mailbox(), new_mailbox());
            let sockets = Sockets::new(poll.registry().try_clone().unwrap(), None);
            let mut config = PartitionConfig::new(PartitionId(0), Arc::from("ws://localhost"), [7; 32]);
            config.partitions_count = 2;
            let upstream = Arc::new(PendingAnswers::default());
            let partition = PartitionLoop {
                poll,
                receiver,
                mailboxes: Arc::from([own_mailbox.clone(), second_mailbox]),
                own_mailbox,
                partition: Partition::new(config, Arc::new(IdentifyGate::new(Default::default()))),
                sockets,
                upstream: upstream.clone(),
                clock: SystemClock::default(),
                refused: Arc::new(Refused::new(1)),
                stalled: VecDeque::new(),
                shutdown: Shutdown::No,
                is_frozen: false,
                latency: Durations::default(),
                taken_at: Vec::new(),
                timer: LoopTimer::new(Arc::new(partition_account(0))),
                canaries: Arc::default(),
            };
            Self { partition, second, upstream, _second_poll: second_poll }
        }

        /// Hands a socket over, with bytes that its client has already sent. Returns the client's end.
        fn accept(&self, early: Vec<u8>) -> TcpStream {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let theirs = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let stream = listener.accept().unwrap().0;
            stream.set_nonblocking(true).unwrap();
            let params = Ok(ConnParams { encoding: Encoding::Json, compression: Compression::None });
            let permit = ConnPermit::new(Arc::new(AtomicUsize::new(1)));
            self.partition.own_mailbox.send(PartitionCommand::Accepted {
                stream,
                tls: None,
                answer: None,
                early,
                params,
                permit,
            });
            theirs
        }

        /// One turn, without the poll.
        fn turn(&mut self) {
            let now = self.partition.clock.now();
            self.partition.receiver.begin();
            self.partition.take_commands(now);
            self.partition.read_sockets(now, &mut vec![0; READ_BUFFER_BYTES]);
            self.partition.partition.flush(now, &mut self.partition.sockets);
            self.partition.hand_out_outputs();
        }
    }

    /// A client's short frame, masked with zeros.
    fn frame(text: &str) -> Vec<u8> {
        assert!(text.len() < 126);
        [&[0x81, 0x80 | text.len() as u8][..], &[0; 4], text.as_bytes()].concat()
    }

    /// Whether the client's end has received bytes and is not closed.
    fn hears_something(theirs: &mut TcpStream) -> bool {
        theirs.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        theirs.read(&mut [0; 64]).unwrap() > 0
    }

    #[test]
    fn who_comes_while_another_connection_moves_away_does_not_take_its_socket() {
        let mut world = World::new();
        let session_id = format!("0001{:028x}", 7);
        let resume = format!(r#"{{"op":6,"d":{{"token":"t","session_id":"{session_id}","seq":1}}}}"#);
        let mut resuming = world.accept(frame(&resume));
        world.turn();
        assert!(hears_something(&mut resuming), "HELLO");
        // Its session is on the other partition. In the same turn another client connects.
        let answer = world.upstream.0.lock().unwrap().pop().expect("the token is being checked");
        answer.send(Ok(Account {
            user: Arc::new(User::new(UserId::new(1), "a")),
            guilds: Vec::new(),
            token: 1,
            expires_at: None,
            admission: None,
        }));
        let mut new = world.accept(Vec::new());
        world.turn();
        assert!(hears_something(&mut new), "HELLO");
        let Ok(PartitionCommand::Moved { socket, .. }) = world.second.commands.try_recv() else {
            panic!("the connection does not move")
        };
        assert_eq!(socket.stream.peer_addr().unwrap(), resuming.local_addr().unwrap());
    }
}
