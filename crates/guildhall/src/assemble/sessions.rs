//! Sessions across a restart: a process that stops leaves them in a folder, and the next one takes them over.
//!
//! Not here    the form of the files: `handover`.

use crate::handover;
use futures_util::{StreamExt as _, future::ready, stream};
use guildhall_model::{GuildId, User, UserId};
use guildhall_net::{HandOver, Partitions, Pause, RecentLoss, RunningServer};
use guildhall_node::{GuildImports, Node};
use guildhall_settings::Config;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

/// Writing what may be some hundred megabytes takes no longer on a disk that is in order.
pub(super) const HANDOVER_MS_MAX: u64 = 5_000;
/// Time for the guilds of restored sessions to load, before the node accepts sockets.
const RESTORING_MAX: Duration = Duration::from_secs(20);

/// Accounts that are read at the same time.
const READS_AT_ONCE: usize = 64;

/// Folder of the hand-over, and the limit on its bytes.
#[derive(Clone, Debug)]
pub(super) struct HandOverTo {
    pub dir: PathBuf,
    pub bytes_max: usize,
    /// In a cluster other nodes serve guilds of these sessions, and go on while this process restarts.
    pub loss: RecentLoss,
}

/// The guilds have ended, and nothing happens any more. No other node took the sessions in `sent_back`.
pub(super) fn leave_sessions(server: &RunningServer, to: &HandOverTo, sent_back: Vec<HandOver>) {
    let mut over = server.partitions().hand_over(to.bytes_max, to.loss);
    // Sessions have left voice by events. States that a backend had set end without one.
    over.iter_mut().for_each(|over| over.in_voice.clear());
    over.extend(sent_back);
    keep_sessions(&to.dir, &over);
}

/// Writes the sessions to the file for the next process.
pub(super) fn keep_sessions(dir: &Path, over: &[HandOver]) {
    let sessions: usize = over.iter().map(|over| over.sessions.len()).sum();
    let left_out: usize = over.iter().map(|over| over.left_out_count).sum();
    match handover::write(dir, over) {
        Ok(()) => tracing::info!(sessions, left_out, "sessions were handed over"),
        Err(error) => tracing::error!(
            sessions,
            error = &error as &dyn std::error::Error,
            "the hand-over cannot be written: clients of these sessions identify again"
        ),
    }
}

/// Restores the sessions of the previous process, and waits until their guilds have attached them. `guilds`: what it
/// passed on of them; with it, connections go on.
pub(super) async fn take_over(config: &Config, partitions: &Partitions, node: &Node, guilds: Option<GuildImports>) {
    let pause = if guilds.is_some() { Pause::Unnoticed } else { Pause::Noticed };
    let (begun, passed) = (Instant::now(), guilds.as_ref().map_or(0, GuildImports::len));
    let imported = node.import(guilds.unwrap_or_default()).await;
    if pause == Pause::Unnoticed {
        tracing::info!(passed, imported = imported.len(), ms = begun.elapsed().as_millis() as u64, "guilds taken over");
    }
    take_over_sessions(config, partitions, node, (pause, &imported)).await;
    node.end_restore(&imported);
}

async fn take_over_sessions(
    config: &Config,
    partitions: &Partitions,
    node: &Node,
    (pause, imported): (Pause, &BTreeSet<GuildId>),
) {
    let (window_ms, bytes_max) = (config.limits.session_resume_ms.into(), config.server.handover_bytes_max.into());
    let mut over = match handover::take(&config.store.dir, window_ms, bytes_max) {
        Ok(None) => return,
        Ok(Some(over)) => over,
        Err(error) => {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "the hand-over of the previous process cannot be used: its clients identify again"
            );
            return;
        }
    };
    over.iter_mut().for_each(|over| over.in_voice.retain(|guild_id| !imported.contains(guild_id)));
    let started = Instant::now();
    let ids: BTreeSet<UserId> = over.iter().flat_map(|over| over.sessions.iter().map(|kept| kept.user_id)).collect();
    let read = |user_id| async move {
        let read = node.user(user_id).await;
        let read = read.inspect_err(|error| {
            tracing::warn!(%error, "an account cannot be read: its sessions are dropped");
        });
        Some((user_id, read.ok()??))
    };
    let users: BTreeMap<UserId, Arc<User>> =
        stream::iter(ids).map(read).buffer_unordered(READS_AT_ONCE).filter_map(ready).collect().await;
    let (partitions_of, users) = (partitions.clone(), Arc::new(users));
    let taken = tokio::task::spawn_blocking(move || partitions_of.take_over(over, &users, pause)).await.unwrap_or(0);
    partitions.wait_for_restores(RESTORING_MAX).await;
    tracing::info!(
        sessions = taken,
        ms = started.elapsed().as_millis() as u64,
        "sessions were taken over from the previous process"
    );
}
