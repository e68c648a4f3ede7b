//! Slow: operations that start with one input and end with another: jobs, and background tasks in slices.
//!
//! Invariants  the jobs themselves are not timed: the guild continues during them. Each measurement leaves the guild
//!             about as it found it.

use super::{GUILD, Lab, Often, SYSTEM, beside::by_name, session, shared};
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
/// Members whose presence somebody watches.
const WATCHED: usize = 1_000;

/// Times all of it.
pub fn all(lab: &mut Lab) -> Result<()> {
    jobs(lab)?;
    prune(lab)?;
    bulk_role(lab)?;
    crowded_channel(lab)?;
    lists(lab)?;
    watched(lab)
}

/// A request, and the source of its answer.
type Ask = fn(&mut Lab) -> Result<Duration>;

fn jobs(lab: &mut Lab) -> Result<()> {
    const ASKS: [(&str, &str, Ask); 5] = [
        ("search members, begins", "search members, ends", |lab| {
            lab.later(SYSTEM, &Command::SearchMembers { query: "Member 1".to_owned(), limit: 1_000 })
        }),
        ("count an audience, begins", "count an audience, ends", |lab| {
            lab.later(SYSTEM, &Command::ReadAudience(crowd::channel_id(0)))
        }),
        ("request members by name, begins", "request members by name, ends", |lab| {
            lab.relay(ToGuild::RequestMembers { session: session(1), request: Box::new(by_name("member1")) })
        }),
        ("newest members, begins", "newest members, ends", |lab| {
            let request = SearchRecentMembers {
                guild_id: GUILD,
                query: String::new(),
                continuation_token: None,
                nonce: Some("bench".to_owned()),
            };
            lab.relay(ToGuild::RecentMembers { session: session(0), request: Box::new(request) })
        }),
        ("count who views a channel, begins", "count who views a channel, ends", |lab| {
            lab.relay(ToGuild::CountMembers { session: session(1), channel_id: crowd::channel_id(0) })
        }),
    ];
    for (begins, ends, ask) in ASKS {
        let mut ended = Vec::new();
        lab.measure(begins, Often::Seldom, |lab, _| {
            let took = ask(lab)?;
            ended.extend(lab.settle()?.job_ends);
            Ok(took)
        })?;
        lab.measure_each(ends, Often::Once, |_, _| Ok(std::mem::take(&mut ended)))?;
    }
    Ok(())
}

/// When member `n` joined.
fn joined_at(n: usize) -> Timestamp {
    crowd::member(n).joined_at
}

fn prune(lab: &mut Lab) -> Result<()> {
    let all =
        |counts_only, joined_before| Command::Prune(Box::new(Prune { roles: Vec::new(), joined_before, counts_only }));
    lab.measure("prune, counts only, begins", Often::Seldom, |lab, _| {
        let took = lab.later(SYSTEM, &all(true, joined_at(lab.members)))?;
        lab.settle()?;
        Ok(took)
    })?;
    let (mut found, count) = (Vec::new(), PRUNED.min((lab.members - lab.sessions) / 16));
    lab.measure_each("prune, each slice", Often::Seldom, |lab, _| {
        // Returning members joined today, so each prune removes others.
        let (first, end) = (lab.pruned, lab.pruned + count);
        lab.pruned = end;
        lab.later(SYSTEM, &all(false, joined_at(lab.absent(end))))?;
        let settled = lab.settle()?;
        found.extend(settled.job_ends);
        for n in first..end {
            lab.did(SYSTEM, &Command::AddMember(shared(crowd::user(lab.absent(n)))))?;
        }
        Ok(settled.timers)
    })?;
    lab.measure_each("prune, members are found", Often::Once, |_, _| Ok(std::mem::take(&mut found)))
}

fn bulk_role(lab: &mut Lab) -> Result<()> {
    let joined_before = Some(joined_at(BULK.min(lab.members / 2)));
    let change = |action| {
        let filter = MemberFilter { joined_before, ..MemberFilter::default() };
        Command::BulkRole(Box::new(BulkRole { role_id: crowd::role_id(crowd::ROLES_MIN + 1), action, filter }))
    };
    lab.measure_each("role for 20,000 members, each slice", Often::Seldom, |lab, _| {
        let mut slices = Vec::new();
        for action in [RoleAction::Grant, RoleAction::Revoke] {
            lab.later(SYSTEM, &change(action))?;
            slices.extend(lab.settle()?.timers);
        }
        Ok(slices)
    })
}

fn crowded_channel(lab: &mut Lab) -> Result<()> {
    let talking = IN_VOICE.min(lab.members - lab.sessions);
    lab.measure_each("delete a channel with 5,000 in voice, each slice", Often::Seldom, |lab, _| {
        let channel_id = make_voice_channel(lab)?;
        for n in 0..talking {
            lab.did(SYSTEM, &Command::ShowVoice(crowd::user_id(lab.absent(n)), Some(channel_id)))?;
        }
        let mut slices = vec![lab.later(SYSTEM, &Command::DeleteChannel(channel_id))?];
        slices.extend(lab.settle()?.timers);
        Ok(slices)
    })
}

fn make_voice_channel(lab: &mut Lab) -> Result<ChannelId> {
    let new = NewChannel {
        name: "crowded".to_owned(),
        kind: ChannelType::Voice,
        topic: None,
        parent_id: None,
        position: None,
        overwrites: Vec::new(),
        user_limit: 0,
    };
    match lab.command(SYSTEM, &Command::CreateChannel(Box::new(new)))? {
        (_, Reply::Channel(channel)) => Ok(channel.id),
        (_, other) => bail!("a new channel was answered with {other:?}"),
    }
}

const FIRST_RELAY: RelayId = RelayId::first(PartitionId(0));

/// Rows 0 to 99 of the list that everybody is in.
fn watch(lab: &mut Lab, added: bool) -> Result<Duration> {
    let rows = Interval::from_ranges([[0, 99]]);
    let (added, removed) = if added { (rows, Vec::new()) } else { (Vec::new(), rows) };
    let (relay, list, channel_id) = (FIRST_RELAY, ListId::Everyone, crowd::channel_id(0));
    lab.relay(ToGuild::WatchList { relay, list, channel_id, added, removed })
}

fn lists(lab: &mut Lab) -> Result<()> {
    /// Longer than a list that nobody watches is kept.
    const FORGOTTEN_MS: u64 = 60_000;
    let mut built = Vec::new();
    lab.measure("watch a member list, it is built", Often::Seldom, |lab, _| {
        let took = watch(lab, true)?;
        built.extend(lab.settle()?.job_ends);
        watch(lab, false)?;
        lab.advance_ms(FORGOTTEN_MS);
        lab.timer()?;
        Ok(took)
    })?;
    lab.measure_each("member list, it was built", Often::Once, |_, _| Ok(std::mem::take(&mut built)))?;
    lab.measure("member list that nobody watches is forgotten", Often::Seldom, |lab, _| {
        watch(lab, true)?;
        lab.settle()?;
        watch(lab, false)?;
        lab.advance_ms(FORGOTTEN_MS);
        lab.timer()
    })?;
    watch(lab, true)?;
    lab.settle()?;
    lab.measure("watch a member list, it is there", Often::Always, |lab, _| {
        watch(lab, false)?;
        let took = watch(lab, true)?;
        lab.settle()?;
        Ok(took)
    })?;
    lab.measure("presence of a listed member", Often::Always, |lab, _| lab.change_presence())?;
    lab.measure("member list, 64 changes are sent", Often::Sometimes, |lab, _| {
        lab.settle()?;
        for _ in 0..64 {
            lab.change_presence()?;
        }
        lab.advance_ms(super::SOON_MS);
        lab.timer()
    })?;
    lab.measure("update channel, its list is watched", Often::Always, |lab, n| {
        let patch = ChannelPatch { topic: Some(Some(format!("topic {n}"))), ..ChannelPatch::default() };
        lab.did(SYSTEM, &Command::UpdateChannel(crowd::channel_id(0), Box::new(patch)))
    })?;
    watch(lab, false)?;
    lab.advance_ms(FORGOTTEN_MS);
    lab.timer()?;
    Ok(())
}

/// Presences of watched members, at the rate limit.
fn watched(lab: &mut Lab) -> Result<()> {
    let watched: Vec<UserId> = (0..WATCHED.min(lab.sessions)).map(crowd::user_id).collect();
    let none = Vec::new;
    lab.relay(ToGuild::WatchMembers { relay: FIRST_RELAY, added: watched.clone(), removed: none() })?;
    let change = |lab: &mut Lab, n: usize| {
        let status = if n.is_multiple_of(2) { guildhall_model::Status::Dnd } else { guildhall_model::Status::Idle };
        let who = n / 2 % watched.len();
        lab.relay_heard(ToGuild::Presence { session: session(who), presence: super::presence(status) })
    };
    lab.measure("presence of a watched member, told at once", Often::Always, |lab, n| {
        lab.advance_ms(20);
        change(lab, n)
    })?;
    // More than the burst of the rate limit.
    (0..2 * WATCHED).try_for_each(|n| change(lab, n).map(drop))?;
    lab.measure("presence of a watched member, they wait", Often::Always, |lab, n| change(lab, n))?;
    lab.measure_each("presences that waited, each slice", Often::Once, |lab, _| Ok(lab.settle()?.timers))?;
    lab.relay(ToGuild::WatchMembers { relay: FIRST_RELAY, added: none(), removed: watched.clone() })?;
    Ok(())
}
