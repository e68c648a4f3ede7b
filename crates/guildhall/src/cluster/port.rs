//! Port: the node around the drivers of moves and mirrors of sessions, as they use it.
//!
//! Owns        `SessionPort`, and `OwnNode`, the one of a process. The simulation has another (`simulation`).
//! Invariants  an implementation decides nothing: each method is one call. A call to a partition is in its queue when
//!             the method returns, before the answer is awaited.

use guildhall_cluster::{Incarnation, NodeNumber, NodeRecord};
use guildhall_guild_protocol::{PartitionId, Whose};
use guildhall_model::{ChannelId, CloseCode, Direct, GuildId, MessageId, UserId};
use guildhall_net::{HandOver, Partitions, ResumeFault, SessionClaim, SystemClock, TransferEnd};
use guildhall_node::{Membership, MirrorFigures, MovedSessions, Node, PeerQuestion};
use guildhall_partition::Partition;
use guildhall_stdx::Now;
use guildhall_store::StoreError;
use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// See the module. Answers of a partition are `None` if it has ended.
pub trait SessionPort: Clone + Send + Sync + 'static {
    fn now(&self) -> Now;
    fn sleep(&self, time: Duration) -> Sleep;

    // ── the cluster ──────────────────────────────────────────────────────────────────────────────

    fn number(&self) -> NodeNumber;
    /// The current membership of this node.
    fn incarnation(&self) -> Incarnation;
    /// All nodes, this one too.
    fn members(&self) -> Vec<(NodeNumber, NodeRecord)>;
    /// Numbers of the other nodes.
    fn numbers(&self) -> Vec<NodeNumber>;
    fn has_lease(&self) -> bool;
    fn has_left(&self) -> bool;
    fn lapses(&self) -> u64;
    fn lease_ms(&self) -> u64;
    fn random_number(&self) -> u64;
    fn answer_bytes_max(&self) -> usize;
    fn ask_within<Q: PeerQuestion + Sync>(
        &self,
        to: NodeNumber,
        question: &Q,
        patience: Duration,
    ) -> impl Future<Output = Option<Q::Answer>> + Send;
    fn on_question<Q: PeerQuestion, F: Future<Output = Option<Q::Answer>> + Send + 'static>(
        &self,
        handler: impl Fn(Q) -> F + Send + Sync + 'static,
    );
    fn count_mirrors(&self, count: impl FnOnce(&mut MirrorFigures));
    fn count_moved_sessions(&self, count: impl FnOnce(&mut MovedSessions));

    // ── partitions ───────────────────────────────────────────────────────────────────────────────

    fn partitions_count(&self) -> usize;
    fn home_of(&self, session_id: &str) -> Option<PartitionId>;
    fn look<T: Send + 'static>(
        &self,
        partition: PartitionId,
        look: impl FnOnce(Now, &Partition) -> T + Send + 'static,
    ) -> impl Future<Output = Option<T>> + Send;
    fn on_mirrors<T: Send + 'static>(
        &self,
        partition: usize,
        work: impl FnOnce(Now, &mut Partition) -> T + Send + 'static,
    ) -> impl Future<Output = Option<T>> + Send;
    /// Number of sessions that were closed.
    fn close_sessions(&self, whose: &Whose, code: CloseCode) -> impl Future<Output = usize> + Send;
    fn release_session(
        &self,
        claim: SessionClaim,
        bytes_max: usize,
    ) -> impl Future<Output = Option<Result<HandOver, ResumeFault>>> + Send;
    fn begin_transfer(
        &self,
        claim: SessionClaim,
        ticket: u64,
        bytes_max: usize,
    ) -> impl Future<Output = Option<Result<HandOver, ResumeFault>>> + Send;
    fn end_transfer(
        &self,
        end: TransferEnd,
        is_late: bool,
        bytes_max: usize,
    ) -> impl Future<Output = Option<Result<Option<HandOver>, ResumeFault>>> + Send;

    // ── the store ────────────────────────────────────────────────────────────────────────────────

    fn directs_of_user(&self, user_id: UserId) -> impl Future<Output = Result<Vec<Direct>, StoreError>> + Send;
    /// The oldest messages of a direct message above `after`, ascending. Empty: there are none.
    fn messages_after(
        &self,
        channel_id: ChannelId,
        after: MessageId,
    ) -> impl Future<Output = Result<Vec<MessageId>, StoreError>> + Send;
    fn guilds_of_user(&self, user_id: UserId) -> impl Future<Output = Result<Vec<GuildId>, StoreError>> + Send;
}

/// The outcome of `work`. None: it was not finished within `limit`.
pub async fn within<T>(port: &impl SessionPort, limit: Duration, work: impl Future<Output = T> + Send) -> Option<T> {
    let limit = port.sleep(limit);
    tokio::select! {
        biased;
        done = work => Some(done),
        () = limit => None,
    }
}

/// This process.
#[derive(Clone)]
pub struct OwnNode {
    pub membership: Arc<Membership>,
    pub partitions: Partitions,
    pub clock: SystemClock,
    pub node: Node,
}

impl SessionPort for OwnNode {
    fn now(&self) -> Now {
        self.clock.now()
    }

    fn sleep(&self, time: Duration) -> Sleep {
        Box::pin(tokio::time::sleep(time))
    }

    fn number(&self) -> NodeNumber {
        self.membership.number()
    }

    fn incarnation(&self) -> Incarnation {
        self.membership.executor().incarnation
    }

    fn members(&self) -> Vec<(NodeNumber, NodeRecord)> {
        self.membership.members()
    }

    fn numbers(&self) -> Vec<NodeNumber> {
        self.membership.numbers()
    }

    fn has_lease(&self) -> bool {
        self.membership.has_lease()
    }

    fn has_left(&self) -> bool {
        self.membership.has_left()
    }

    fn lapses(&self) -> u64 {
        self.membership.lapses()
    }

    fn lease_ms(&self) -> u64 {
        self.membership.lease_ms()
    }

    fn random_number(&self) -> u64 {
        self.membership.random_number()
    }

    fn answer_bytes_max(&self) -> usize {
        self.membership.answer_bytes_max()
    }

    async fn ask_within<Q: PeerQuestion + Sync>(
        &self,
        to: NodeNumber,
        question: &Q,
        patience: Duration,
    ) -> Option<Q::Answer> {
        self.membership.ask_within(to, question, patience).await
    }

    fn on_question<Q: PeerQuestion, F: Future<Output = Option<Q::Answer>> + Send + 'static>(
        &self,
        handler: impl Fn(Q) -> F + Send + Sync + 'static,
    ) {
        self.membership.on_question(handler);
    }

    fn count_mirrors(&self, count: impl FnOnce(&mut MirrorFigures)) {
        self.membership.count_mirrors(count);
    }

    fn count_moved_sessions(&self, count: impl FnOnce(&mut MovedSessions)) {
        self.membership.count_moved_sessions(count);
    }

    fn partitions_count(&self) -> usize {
        self.partitions.count()
    }

    fn home_of(&self, session_id: &str) -> Option<PartitionId> {
        self.partitions.home_of(session_id)
    }

    fn look<T: Send + 'static>(
        &self,
        partition: PartitionId,
        look: impl FnOnce(Now, &Partition) -> T + Send + 'static,
    ) -> impl Future<Output = Option<T>> + Send {
        let answer = self.partitions.look(partition, look);
        async move { answer.await.ok() }
    }

    fn on_mirrors<T: Send + 'static>(
        &self,
        partition: usize,
        work: impl FnOnce(Now, &mut Partition) -> T + Send + 'static,
    ) -> impl Future<Output = Option<T>> + Send {
        let answer = self.partitions.on_mirrors(partition, work);
        async move { answer.await.ok() }
    }

    fn close_sessions(&self, whose: &Whose, code: CloseCode) -> impl Future<Output = usize> + Send {
        let answers = self.partitions.close_sessions(whose, code);
        async move {
            let mut sum = 0;
            for answer in answers {
                sum += answer.await.unwrap_or(0);
            }
            sum
        }
    }

    fn release_session(
        &self,
        claim: SessionClaim,
        bytes_max: usize,
    ) -> impl Future<Output = Option<Result<HandOver, ResumeFault>>> + Send {
        let answer = self.partitions.release_session(claim, bytes_max);
        async move { answer.await.ok() }
    }

    fn begin_transfer(
        &self,
        claim: SessionClaim,
        ticket: u64,
        bytes_max: usize,
    ) -> impl Future<Output = Option<Result<HandOver, ResumeFault>>> + Send {
        let answer = self.partitions.begin_transfer(claim, ticket, bytes_max);
        async move { answer.await.ok() }
    }

    fn end_transfer(
        &self,
        end: TransferEnd,
        is_late: bool,
        bytes_max: usize,
    ) -> impl Future<Output = Option<Result<Option<HandOver>, ResumeFault>>> + Send {
        let answer = self.partitions.end_transfer(end, is_late, bytes_max);
        async move { answer.await.ok() }
    }

    async fn directs_of_user(&self, user_id: UserId) -> Result<Vec<Direct>, StoreError> {
        self.node.directs_of_user(user_id).await
    }

    async fn messages_after(&self, channel_id: ChannelId, after: MessageId) -> Result<Vec<MessageId>, StoreError> {
        self.node.direct_messages_after(channel_id, after).await
    }

    async fn guilds_of_user(&self, user_id: UserId) -> Result<Vec<GuildId>, StoreError> {
        self.node.guilds_of_user(user_id).await
    }
}
