//! Talk: simulated members write, react, come and go, through the same commands as clients.
//!
//! Owns        the clock of the demo: when the director plans, and when its plans are due.
//! Invariants  T1 messages come at `rate` per second on average, whatever the store's pace: when it is too slow, lines
//!             are dropped, never queued up. T2 at rate 0 nothing happens at all. T3 messages of a channel reach
//!             the guild in the order of the decisions.
//! Limits      `IN_FLIGHT_MAX` actions at once, `PLANNED_MAX` planned ones.
//! Not here    the choice of actions and actors: `director`.

use super::{
    director::{Act, Director, Outcome, Plan},
    scene::{Line, Posted},
};
use guildhall_guild::{Actor, Command, MessagePatch, NewMessage, Refusal, Reply, ReplyTo};
use guildhall_model::GuildId;
use guildhall_node::Node;
use std::{
    collections::BTreeMap,
    future::Future,
    ops::ControlFlow,
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until},
};

/// Enough for thousands of messages a second at a few milliseconds each.
const IN_FLIGHT_MAX: usize = 512;
/// Reactions, edits and deletions that wait for their moment.
const PLANNED_MAX: usize = 256;
/// Longest pause that is made up for afterwards: a machine that slept does not wake up to a flood.
const CATCH_UP_MAX: Duration = Duration::from_secs(1);
/// How often channels, roles and members are looked at again; after a refusal, sooner.
const REFRESH_EVERY: Duration = Duration::from_secs(30);
const REFRESH_SOON: Duration = Duration::from_secs(1);
/// Presence and voice changes per message, and the most of them per second.
const AMBIENT_PER_MESSAGE: f64 = 0.25;
const AMBIENT_RATE_MAX: f64 = 2.0;

/// Executes an action as its member.
async fn perform(node: Node, guild_id: GuildId, act: Act) -> Outcome {
    let command = async |actor, command| node.command(guild_id, actor, command).await;
    let done = |result: Result<Reply, Refusal>| result.map_or_else(Outcome::Refused, |_| Outcome::Done);
    match act {
        Act::Type { channel_id, user_id } => {
            done(command(Actor::User(user_id), Command::StartTyping(channel_id)).await)
        }
        Act::Say { channel_id, line: Line { author, text, .. }, reply_to } => {
            let reply_to = reply_to.map(|message_id| ReplyTo { message_id, fail_if_not_exists: false });
            let message = NewMessage { content: text.clone(), reply_to, ..NewMessage::default() };
            match command(Actor::User(author), Command::CreateMessage(channel_id, Box::new(message))).await {
                Ok(Reply::Message(reply)) => Outcome::Posted {
                    channel_id,
                    posted: Posted { message_id: reply.message.id, author },
                    content: text,
                },
                Ok(_) => Outcome::Done,
                Err(refusal) => Outcome::Refused(refusal),
            }
        }
        Act::React { channel_id, message_id, user_id, emoji } => {
            done(command(Actor::User(user_id), Command::AddReaction(channel_id, message_id, emoji)).await)
        }
        Act::Edit { channel_id, posted, content } => {
            let patch = MessagePatch { content: Some(content), ..MessagePatch::default() };
            let edit = Command::EditMessage(channel_id, posted.message_id, Box::new(patch));
            done(command(Actor::User(posted.author), edit).await)
        }
        Act::Delete { channel_id, posted } => {
            let delete = Command::DeleteMessage(channel_id, posted.message_id);
            match command(Actor::User(posted.author), delete).await {
                Ok(_) => Outcome::Deleted { channel_id, message_id: posted.message_id },
                Err(refusal) => Outcome::Refused(refusal),
            }
        }
        Act::Show { user_id, presence } => done(command(Actor::System, Command::ShowPresence(user_id, presence)).await),
        Act::Voice { user_id, channel_id } => {
            done(command(Actor::System, Command::ShowVoice(user_id, channel_id)).await)
        }
    }
}

/// Running and planned actions.
struct Stage<'a> {
    node: &'a Node,
    director: Director,
    under_way: JoinSet<Outcome>,
    planned: BTreeMap<(Instant, u64), Act>,
    planned_count: u64,
    refresh_at: Instant,
    posted_count: u64,
    dropped_count: u64,
}

impl Stage<'_> {
    /// Executes plans that are due, and queues the others.
    fn begin(&mut self, plans: Vec<Plan>) -> ControlFlow<()> {
        for Plan { after, act } in plans {
            // A channel waits for a line that is being typed: that one is never forgotten.
            let is_line = matches!(act, Act::Say { .. });
            if after.is_zero() || (is_line && self.planned.len() >= PLANNED_MAX) {
                self.launch(act)?;
            } else if self.planned.len() < PLANNED_MAX {
                self.planned_count += 1;
                self.planned.insert((Instant::now() + after, self.planned_count), act);
            }
        }
        ControlFlow::Continue(())
    }

    fn launch(&mut self, act: Act) -> ControlFlow<()> {
        if let Act::Say { channel_id, .. } = &act {
            self.director.handle_launched(*channel_id);
        }
        if self.under_way.len() >= IN_FLIGHT_MAX {
            self.dropped_count += 1; // T1
            return ControlFlow::Continue(());
        }
        let mut work: Pin<Box<dyn Future<Output = Outcome> + Send>> =
            Box::pin(perform(self.node.clone(), self.director.guild_id, act));
        // The first poll hands the command over: here it happens in order (T3), in tasks it would not.
        match work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => self.handle(outcome),
            Poll::Pending => {
                self.under_way.spawn(work);
                ControlFlow::Continue(())
            }
        }
    }

    /// Breaks when the guild is gone.
    fn handle(&mut self, outcome: Outcome) -> ControlFlow<()> {
        match outcome {
            Outcome::Posted { channel_id, posted, content } => {
                self.posted_count += 1;
                let plans = self.director.handle_posted(channel_id, &posted, &content);
                return self.begin(plans);
            }
            Outcome::Deleted { channel_id, message_id } => self.director.handle_deleted(channel_id, message_id),
            Outcome::Refused(Refusal::UnknownGuild) => return ControlFlow::Break(()),
            // Roles or channels were changed, or the node is busy.
            Outcome::Refused(_) => self.refresh_at = self.refresh_at.min(Instant::now() + REFRESH_SOON),
            Outcome::Done => {}
        }
        ControlFlow::Continue(())
    }
}

/// Lets them talk until `stop`.
pub(super) async fn talk(node: &Node, mut director: Director, stop: impl Future<Output = ()>) {
    tokio::pin!(stop);
    if director.rate <= 0.0 {
        return stop.await; // T2
    }
    if let Err(refusal) = director.refresh(node).await {
        tracing::warn!(%refusal, "the demo's guild cannot be read: simulated members do not write");
        return stop.await;
    }
    let line_rate = director.rate;
    let ambient_rate = (line_rate * AMBIENT_PER_MESSAGE).min(AMBIENT_RATE_MAX);
    let start = Instant::now();
    let (mut next_line_at, mut next_ambient_at) = (start, start);
    let mut stage = Stage {
        node,
        director,
        under_way: JoinSet::new(),
        planned: BTreeMap::new(),
        planned_count: 0,
        refresh_at: start + REFRESH_EVERY,
        posted_count: 0,
        dropped_count: 0,
    };
    loop {
        let due_at = stage.planned.first_key_value().map(|((at, _), _)| *at);
        let flow = tokio::select! {
            () = &mut stop => break,
            Some(ended) = stage.under_way.join_next() => match ended {
                Ok(outcome) => stage.handle(outcome),
                Err(error) => {
                    tracing::error!(%error, "a simulated member failed");
                    ControlFlow::Continue(())
                }
            },
            () = sleep_until(next_line_at) => {
                let from = next_line_at.max(Instant::now() - CATCH_UP_MAX);
                next_line_at = from + stage.director.pause(line_rate);
                let plans = stage.director.next_line();
                stage.begin(plans)
            }
            () = sleep_until(next_ambient_at) => {
                let from = next_ambient_at.max(Instant::now() - CATCH_UP_MAX);
                next_ambient_at = from + stage.director.pause(ambient_rate);
                match stage.director.next_ambient() {
                    Some(act) => stage.launch(act),
                    None => ControlFlow::Continue(()),
                }
            }
            () = sleep_until(due_at.unwrap_or(start)), if due_at.is_some() => match stage.planned.pop_first() {
                Some((_, act)) => stage.launch(act),
                None => ControlFlow::Continue(()),
            },
            () = sleep_until(stage.refresh_at) => {
                stage.refresh_at = Instant::now() + REFRESH_EVERY;
                if let Err(refusal) = stage.director.refresh(node).await {
                    tracing::warn!(%refusal, "the demo's guild cannot be read now");
                }
                ControlFlow::Continue(())
            }
        };
        if flow.is_break() {
            tracing::info!("the demo's guild is gone: simulated members have stopped");
            return stop.await;
        }
    }
    stage.under_way.shutdown().await;
    let Stage { posted_count, dropped_count, .. } = stage;
    tracing::info!(posted_count, dropped_count, "simulated members have stopped");
}
