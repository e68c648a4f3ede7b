//! Request traces: how a trace gets from a request's task to the guild worker, and from there to the relays.
//!
//! Doors       `traced` around a request; `Node::command` and `Node::begin` find its trace without a parameter;
//!             `carry_trace` for work that a request hands to another task.
//! Invariants  without a trace there is no clock read and no allocation.
//! Not here    spans: `guildhall_accounting::TraceHandle`. Sampling and export: `guildhall_telemetry::traces`.

use guildhall_accounting::{Attribute, SpanStatus, TraceHandle};
use guildhall_cluster::TraceContext;
use guildhall_guild::Command;
use guildhall_guild_protocol::{RelayMessage, RelayOutput};
use guildhall_model::GuildId;
use std::{sync::LazyLock, time::Instant};

tokio::task_local! {
    static CURRENT: TraceHandle;
}

/// Runs a request. Commands that it sends to guilds become part of `trace`.
pub async fn traced<F: Future>(trace: TraceHandle, request: F) -> F::Output {
    CURRENT.scope(trace, request).await
}

/// `work`, which may run in another task, as a part of the current request.
pub fn carry_trace<F: Future>(work: F) -> impl Future<Output = F::Output> {
    let trace = CURRENT.try_with(TraceHandle::clone).ok();
    async move {
        match trace {
            Some(trace) => CURRENT.scope(trace, work).await,
            None => work.await,
        }
    }
}

/// The trace of one command on its way to its guild.
pub(crate) struct CommandTrace {
    /// Of the request.
    request: TraceHandle,
    sent_at: Instant,
}

impl CommandTrace {
    /// Of the current request, if it has a trace. The first command of a request ends its validation.
    pub(crate) fn of_request() -> Option<Box<Self>> {
        let request = CURRENT.try_with(TraceHandle::clone).ok()?;
        let sent_at = Instant::now();
        if request.ends_validation() {
            request.leaf("validate", (request.began(), sent_at), Vec::new());
        }
        Some(Box::new(Self { request, sent_at }))
    }

    /// Of a request of another node, or of one that waited until the guild's owner was known.
    pub(crate) fn resumed(request: TraceHandle) -> Box<Self> {
        Box::new(Self { request, sent_at: Instant::now() })
    }

    /// The request's place in its trace, if the trace goes on at another node.
    pub(crate) fn context(&self) -> Option<TraceContext> {
        context_of(&self.request)
    }

    /// The guild begins with the command.
    pub(crate) fn begin(&self, guild_id: GuildId, command: &Command) -> GuildSpan {
        static KINDS: LazyLock<Vec<String>> = LazyLock::new(Command::kind_names);
        let started = Instant::now();
        let waited = started.saturating_duration_since(self.sent_at).as_micros() as u64;
        let kind = KINDS.get(command.kind()).map_or("", String::as_str);
        let attributes = vec![
            ("guildhall.guild_id", guild_id.get().to_string().into()),
            ("guildhall.command", kind.into()),
            ("guildhall.mailbox_wait_us", waited.into()),
        ];
        GuildSpan { handle: self.request.child(), started, attributes }
    }
}

/// A command that its guild works on.
pub(crate) struct GuildSpan {
    handle: TraceHandle,
    started: Instant,
    attributes: Vec<Attribute>,
}

impl GuildSpan {
    /// Runs `work` so that its log lines carry the trace id.
    pub(crate) fn logged<T>(trace: Option<&Self>, work: impl FnOnce() -> T) -> T {
        match trace {
            Some(span) => log_span(&span.handle).in_scope(work),
            None => work(),
        }
    }

    /// The guild has handled the command. What its effects do is part of this span.
    pub(crate) fn end(self, is_refused: bool) -> UnitTrace {
        let status = if is_refused { SpanStatus::Error } else { SpanStatus::Ok };
        self.handle.finish("guild", (self.started, Instant::now()), self.attributes, status);
        UnitTrace { guild: self.handle, commit_begun: None }
    }
}

/// The trace of a command's effects, while they are committed and published.
pub(crate) struct UnitTrace {
    guild: TraceHandle,
    commit_begun: Option<Instant>,
}

impl UnitTrace {
    /// The unit's writes are on their way to the store.
    pub(crate) fn commit_begins(&mut self, now: Instant) {
        self.commit_begun = Some(now);
    }

    /// They are durable; `units_count` units shared the commit.
    pub(crate) fn commit_ends(&mut self, now: Instant, units_count: usize) {
        if let Some(started) = self.commit_begun.take() {
            let attributes = vec![("guildhall.units", (units_count as u64).into())];
            self.guild.leaf("commit", (started, now), attributes);
        }
    }

    /// The unit's events go to the relays from now on.
    pub(crate) fn publish(&self, relay: &[RelayOutput], users_count: usize) -> Publishing {
        let name = relay.iter().find_map(|output| match &output.message {
            RelayMessage::Published(published) => published.event.static_name(),
            _ => None,
        });
        let mut attributes = vec![
            ("guildhall.relay_messages", (relay.len() as u64).into()),
            ("guildhall.user_events", (users_count as u64).into()),
        ];
        attributes.extend(name.map(|name| ("guildhall.event", name.into())));
        Publishing { handle: self.guild.child(), started: Instant::now(), attributes }
    }
}

/// Events of a unit that are being handed to relays.
pub(crate) struct Publishing {
    handle: TraceHandle,
    started: Instant,
    attributes: Vec<Attribute>,
}

impl Publishing {
    /// What relays add their spans to.
    pub(crate) fn handle(&self) -> &TraceHandle {
        &self.handle
    }

    /// All relays have the events, or lost them.
    pub(crate) fn end(self) {
        self.handle.finish("publish", (self.started, Instant::now()), self.attributes, SpanStatus::Ok);
    }
}

/// Place in a trace that goes on at another node. None: only a trace that is sampled does; one that is collected
/// because it might be slow would have to be collected everywhere, and its end is known only when all have theirs.
pub(crate) fn context_of(trace: &TraceHandle) -> Option<TraceContext> {
    let (trace_id, span) = trace.ids();
    let trace_id = [(trace_id >> 64) as u64, trace_id as u64];
    trace.is_sampled().then_some(TraceContext { trace_id, span })
}

/// A span for the log: its lines carry the trace id. Its level is that of errors, so that no filter leaves it out.
#[must_use]
pub fn log_span(trace: &TraceHandle) -> tracing::Span {
    tracing::error_span!("trace", trace_id = trace.trace_id())
}
