//! Sessions: a search over all partitions, and one session in detail.
//!
//! Limits      a search ends at `limit` sessions, or after `LOOKS_MAX` looks at partitions (about four million places);
//!             it then reports that there may be more.

use super::Reports;
use guildhall_accounting::report::{LoggedEvent, Session, SessionReport, SessionsReport, StreamCost, Subscription};
use guildhall_backend::SessionFilter;
use guildhall_guild_protocol::{PartitionId, SessionView, StreamView};
use guildhall_model::UserId;
use guildhall_partition::{SessionDetail, SessionMatch};
use guildhall_session::Membership;

/// Looks of one search.
const LOOKS_MAX: usize = 256;

impl Reports {
    pub(super) async fn sessions_report(&self, filter: SessionFilter, limit: usize) -> SessionsReport {
        let states = self.collect(|metrics| metrics.partitions.inspect()).await.unwrap_or_default();
        let all = states.iter().map(|state| state.sessions_count as u64).sum();
        let (sessions, is_partial) = match filter.user_id {
            Some(user_id) => self.of_account(user_id, &filter, limit).await,
            None => self.search(filter, limit).await,
        };
        SessionsReport { at_ms: self.at_ms(), all, is_partial, sessions }
    }

    /// Accounts have an index, so that nothing has to be searched.
    async fn of_account(&self, user_id: UserId, filter: &SessionFilter, limit: usize) -> (Vec<Session>, bool) {
        let mut found = Vec::new();
        for partition in 0..self.metrics.partitions.count() as u16 {
            let which = matching(filter);
            let look = self
                .metrics
                .partitions
                .look(PartitionId(partition), move |now, p| p.user_session_matches(now, user_id, &which));
            found.extend(look.await.unwrap_or_default().into_iter().map(|view| session_of(partition, &view)));
        }
        let is_partial = found.len() > limit;
        found.truncate(limit);
        (found, is_partial)
    }

    async fn search(&self, filter: SessionFilter, limit: usize) -> (Vec<Session>, bool) {
        let (mut found, mut looks) = (Vec::new(), 0);
        for partition in 0..self.metrics.partitions.count() as u16 {
            let mut next_slot = Some(0);
            while let Some(from) = next_slot {
                if found.len() >= limit || looks >= LOOKS_MAX {
                    return (found, true);
                }
                looks += 1;
                let (which, rest) = (matching(&filter), limit - found.len());
                let look = self
                    .metrics
                    .partitions
                    .look(PartitionId(partition), move |now, p| p.session_matches(now, &which, from, rest));
                let Ok(page) = look.await else { break };
                found.extend(page.sessions.iter().map(|view| session_of(partition, view)));
                next_slot = page.next_slot;
            }
        }
        (found, false)
    }

    pub(super) async fn session_report(&self, id: &str) -> Option<SessionReport> {
        let partition = self.metrics.partitions.home_of(id)?;
        let id = id.to_owned();
        let look = self.metrics.partitions.look(partition, move |now, p| p.session_detail(now, &id));
        let SessionDetail { view, intents, capabilities, blocked_ms, silent_ms, sent_bytes, billed, guilds, log } =
            look.await.ok().flatten()?;
        let subscriptions = guilds.into_iter().map(|guild| Subscription {
            guild_id: guild.guild_id.to_string(),
            name: guild.name.unwrap_or_default(),
            is_active: guild.is_active,
            membership: match guild.membership {
                Membership::Entering => "entering",
                Membership::Inside => "inside",
                Membership::Transferred => "transferred",
                Membership::Lost => "lost",
            }
            .to_owned(),
        });
        let log = log.into_iter().map(|dispatch| LoggedEvent {
            seq: dispatch.seq,
            name: dispatch.name,
            bytes: dispatch.bytes as u64,
            is_written: dispatch.is_written,
        });
        Some(SessionReport {
            at_ms: self.at_ms(),
            writer: view.writer.map(ToOwned::to_owned),
            stream: view.stream.map(cost_of),
            billed,
            session: session_of(partition.0, &view),
            intents: intents.into(),
            capabilities,
            window_bytes: None,
            raw_bytes_total: sent_bytes.map(|(raw, _)| raw),
            wire_bytes_total: sent_bytes.map(|(_, wire)| wire),
            blocked_ms,
            silent_ms,
            subscriptions: subscriptions.collect(),
            log: log.collect(),
        })
    }
}

fn matching(filter: &SessionFilter) -> SessionMatch {
    SessionMatch {
        guild_id: filter.guild_id,
        id: filter.id.clone(),
        is_connected: filter.connected,
        compression: filter.codec.clone(),
    }
}

fn cost_of(stream: StreamView) -> StreamCost {
    StreamCost {
        moved: stream.moved.map(ToOwned::to_owned),
        since_ms: stream.since_ms,
        memory_bytes: stream.memory_bytes,
        timed_total: stream.timed_total,
        timed_ns_total: stream.timed_ns_total,
    }
}

fn session_of(partition: u16, view: &SessionView) -> Session {
    Session {
        id: view.id.to_string(),
        user_id: view.user_id.to_string(),
        username: view.username.clone(),
        is_bot: view.is_bot,
        partition,
        shard: view.shard.map(|shard| (shard.id, shard.count)),
        encoding: view.encoding.name().to_owned(),
        codec: view.compression.map(ToOwned::to_owned),
        platform: view.platform.to_owned(),
        is_connected: view.is_connected,
        resumable_ms: view.resumable_ms,
        guilds: view.guilds_count as u64,
        seq: view.seq,
        buffered_events: view.buffered_events as u64,
        buffered_bytes: view.buffered_bytes as u64,
        backlog_events: view.backlog_events,
    }
}
