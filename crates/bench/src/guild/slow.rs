//! Slow: operations that start with one input and end with another: jobs, and background tasks in slices.
//!
//! Invariants  the jobs themselves are not timed: the guild continues during them. Each measurement leaves the guild
//!             about as it found it.

use super::{GUILD, Harness, SYSTEM, Samples, background_load::by_name, session, shared};
use crate::crowd;
use anyhow::{Result, bail};
use guildhall_guild::{BulkRole, ChannelPatch, Command, MemberFilter, NewChannel, Prune, Reply, RoleAction};
use guildhall_guild_protocol::{PartitionId, RelayId, ToGuild};
use guildhall_member_list::{Interval, ListId};
use guildhall_model::{ChannelId, ChannelType, UserId, to_gateway::SearchRecentMembers};
use guildhall_stdx::Timestamp;
use std::time::Duration;

/// Members that a prune removes, and members that get a role, if there are as many.
const PRUNED: usize = 2_000;
const BULK: usize = 20_000;
/// In a voice channel that is deleted.
const IN_VOICE: usize = 5_000;
/// Members whose presence a session follows.
const WATCHED: usize = 1_000;

/// Times all of it.
pub fn all(harness: &mut Harness) -> Result<()> {
    jobs(harness)?;
    prune(harness)?;
    bulk_role(harness)?;
    crowded_channel(harness)?;
    lists(harness)?;
    watched(harness)
}

/// A request, and the source of its answer.
type Ask = fn(&mut Harness) -> Result<Duration>;

fn jobs(harness: &mut Harness) -> Result<()> {
    const ASKS: [(&str, &str, Ask); 5] = [
        ("search members, begins", "search members, ends", |harness| {
            harness.later(SYSTEM, &Command::SearchMembers { query: "Member 1".to_owned(), limit: 1_000 })
        }),
        ("count an audience, begins", "count an audience, ends", |harness| {
            harness.later(SYSTEM, &Command::ReadAudience(crowd::channel_id(0)))
        }),
        ("request members by name, begins", "request members by name, ends", |harness| {
            harness.relay(ToGuild::RequestMembers { session: session(1), request: Box::new(by_name("member1")) })
        }),
        ("newest members, begins", "newest members, ends", |harness| {
            let request = SearchRecentMembers {
                guild_id: GUILD,
                query: String::new(),
                continuation_token: None,
                nonce: Some("bench".to_owned()),
            };
            harness.relay(ToGuild::RecentMembers { session: session(0), request: Box::new(request) })
        }),
        ("count who views a channel, begins", "count who views a channel, ends", |harness| {
            harness.relay(ToGuild::CountMembers { session: session(1), channel_id: crowd::channel_id(0) })
        }),
    ];
    for (begins, ends, ask) in ASKS {
        let mut ended = Vec::new();
        harness.measure(begins, Samples::Seldom, |harness, _| {
            let took = ask(harness)?;
            ended.extend(harness.run_until_idle()?.job_ends);
            Ok(took)
        })?;
        harness.measure_each(ends, Samples::Once, |_, _| Ok(std::mem::take(&mut ended)))?;
    }
    Ok(())
}

/// When member `n` joined.
fn joined_at(n: usize) -> Timestamp {
    crowd::member(n).joined_at
}

fn prune(harness: &mut Harness) -> Result<()> {
    let all =
        |counts_only, joined_before| Command::Prune(Box::new(Prune { roles: Vec::new(), joined_before, counts_only }));
    harness.measure("prune, counts only, begins", Samples::Seldom, |harness, _| {
        let took = harness.later(SYSTEM, &all(true, joined_at(harness.members)))?;
        harness.run_until_idle()?;
        Ok(took)
    })?;
    let (mut found, count) = (Vec::new(), PRUNED.min((harness.members - harness.sessions) / 16));
    harness.measure_each("prune, each slice", Samples::Seldom, |harness, _| {
        // Returning members joined today, so each prune removes others.
        let (first, end) = (harness.pruned, harness.pruned + count);
        harness.pruned = end;
        harness.later(SYSTEM, &all(false, joined_at(harness.absent(end))))?;
        let settled = harness.run_until_idle()?;
        found.extend(settled.job_ends);
        for n in first..end {
            harness.did(SYSTEM, &Command::AddMember(shared(crowd::user(harness.absent(n)))))?;
        }
        Ok(settled.timers)
    })?;
    harness.measure_each("prune, members are found", Samples::Once, |_, _| Ok(std::mem::take(&mut found)))
}

fn bulk_role(harness: &mut Harness) -> Result<()> {
    let joined_before = Some(joined_at(BULK.min(harness.members / 2)));
    let change = |action| {
        let filter = MemberFilter { joined_before, ..MemberFilter::default() };
        Command::BulkRole(Box::new(BulkRole { role_id: crowd::role_id(crowd::ROLES_MIN + 1), action, filter }))
    };
    harness.measure_each("role for 20,000 members, each slice", Samples::Seldom, |harness, _| {
        let mut slices = Vec::new();
        for action in [RoleAction::Grant, RoleAction::Revoke] {
            harness.later(SYSTEM, &change(action))?;
            slices.extend(harness.run_until_idle()?.timers);
        }
        Ok(slices)
    })
}

fn crowded_channel(harness: &mut Harness) -> Result<()> {
    let talking = IN_VOICE.min(harness.members - harness.sessions);
    harness.measure_each("delete a channel with 5,000 in voice, each slice", Samples::Seldom, |harness, _| {
        let channel_id = make_voice_channel(harness)?;
        for n in 0..talking {
            harness.did(SYSTEM, &Command::ShowVoice(crowd::user_id(harness.absent(n)), Some(channel_id)))?;
        }
        let mut slices = vec![harness.later(SYSTEM, &Command::DeleteChannel(channel_id))?];
        slices.extend(harness.run_until_idle()?.timers);
        Ok(slices)
    })
}

fn make_voice_channel(harness: &mut Harness) -> Result<ChannelId> {
    let new = NewChannel {
        name: "crowded".to_owned(),
        kind: ChannelType::Voice,
        topic: None,
        parent_id: None,
        position: None,
        overwrites: Vec::new(),
        user_limit: 0,
    };
    match harness.command(SYSTEM, &Command::CreateChannel(Box::new(new)))? {
        (_, Reply::Channel(channel)) => Ok(channel.id),
        (_, other) => bail!("a new channel was answered with {other:?}"),
    }
}

const FIRST_RELAY: RelayId = RelayId::first(PartitionId(0));

/// Watches rows 0 to 99 of the list with all members.
fn watch(harness: &mut Harness) -> Result<Duration> {
    change_watch(harness, first_rows(), Vec::new())
}

fn unwatch(harness: &mut Harness) -> Result<Duration> {
    change_watch(harness, Vec::new(), first_rows())
}

fn first_rows() -> Vec<Interval> {
    Interval::from_ranges([[0, 99]])
}

fn change_watch(harness: &mut Harness, added: Vec<Interval>, removed: Vec<Interval>) -> Result<Duration> {
    let (relay, list, channel_id) = (FIRST_RELAY, ListId::Everyone, crowd::channel_id(0));
    harness.relay(ToGuild::WatchList { relay, list, channel_id, added, removed })
}

fn lists(harness: &mut Harness) -> Result<()> {
    /// Longer than an unwatched list is kept.
    const FORGOTTEN_MS: u64 = 60_000;
    let mut built = Vec::new();
    harness.measure("watch a member list, it is built", Samples::Seldom, |harness, _| {
        let took = watch(harness)?;
        built.extend(harness.run_until_idle()?.job_ends);
        unwatch(harness)?;
        harness.advance_ms(FORGOTTEN_MS);
        harness.timer()?;
        Ok(took)
    })?;
    harness.measure_each("member list, it was built", Samples::Once, |_, _| Ok(std::mem::take(&mut built)))?;
    harness.measure("member list that nobody watches is forgotten", Samples::Seldom, |harness, _| {
        watch(harness)?;
        harness.run_until_idle()?;
        unwatch(harness)?;
        harness.advance_ms(FORGOTTEN_MS);
        harness.timer()
    })?;
    watch(harness)?;
    harness.run_until_idle()?;
    harness.measure("watch a member list, it is there", Samples::Always, |harness, _| {
        unwatch(harness)?;
        let took = watch(harness)?;
        harness.run_until_idle()?;
        Ok(took)
    })?;
    harness.measure("presence of a listed member", Samples::Always, |harness, _| harness.change_presence())?;
    harness.measure("member list, 64 changes are sent", Samples::Sometimes, |harness, _| {
        harness.run_until_idle()?;
        for _ in 0..64 {
            harness.change_presence()?;
        }
        harness.advance_ms(super::SOON_MS);
        harness.timer()
    })?;
    harness.measure("update channel, its list is watched", Samples::Always, |harness, n| {
        let patch = ChannelPatch { topic: Some(Some(format!("topic {n}"))), ..ChannelPatch::default() };
        harness.did(SYSTEM, &Command::UpdateChannel(crowd::channel_id(0), Box::new(patch)))
    })?;
    unwatch(harness)?;
    harness.advance_ms(FORGOTTEN_MS);
    harness.timer()?;
    Ok(())
}

/// Presences of watched members, at the rate limit.
fn watched(harness: &mut Harness) -> Result<()> {
    let watched: Vec<UserId> = (0..WATCHED.min(harness.sessions)).map(crowd::user_id).collect();
    let none = Vec::new;
    harness.relay(ToGuild::WatchMembers { relay: FIRST_RELAY, added: watched.clone(), removed: none() })?;
    let change = |harness: &mut Harness, n: usize| {
        let status = if n.is_multiple_of(2) { guildhall_model::Status::Dnd } else { guildhall_model::Status::Idle };
        let who = n / 2 % watched.len();
        harness.relay_heard(ToGuild::Presence { session: session(who), presence: super::presence(status) })
    };
    harness.measure("presence of a watched member, told at once", Samples::Always, |harness, n| {
        harness.advance_ms(20);
        change(harness, n)
    })?;
    // More than the burst of the rate limit.
    (0..2 * WATCHED).try_for_each(|n| change(harness, n).map(drop))?;
    harness.measure("presence of a watched member, they wait", Samples::Always, |harness, n| change(harness, n))?;
    harness.measure_each("presences that waited, each slice", Samples::Once, |harness, _| {
        Ok(harness.run_until_idle()?.timers)
    })?;
    harness.relay(ToGuild::WatchMembers { relay: FIRST_RELAY, added: none(), removed: watched.clone() })?;
    Ok(())
}
