//! Bulk changes: slice by slice, each member checked again.

use crate::fixture::*;
use guildhall_guild::{
    Actor, BulkRole, Command, GuildLimits, JobId, MemberFilter, NewChannel, Outcome, Prune, Refusal, Reply, RoleAction,
};
use guildhall_guild_protocol::{ReplicaUpdate, ToGuild};
use guildhall_model::{AuditAction, ChannelType, EventName, Permissions, RoleId, Status, UserId};
use guildhall_stdx::Timestamp;

const EVER: Timestamp = Timestamp(i64::MAX);

fn prune() -> Prune {
    Prune { roles: Vec::new(), joined_before: EVER, counts_only: false }
}

/// `World::populated` and `count` further members with ids from 10,001.
fn crowd(count: u64) -> World {
    let mut world = World::populated();
    (1..=count).for_each(|n| world.join(extra(n)));
    world.sent.clear();
    world
}

fn count(reply: Result<Reply, Refusal>) -> Result<u64, Refusal> {
    match reply {
        Ok(Reply::Count(count)) => Ok(count),
        Ok(other) => panic!("{other:?}"),
        Err(refusal) => Err(refusal),
    }
}

fn start(world: &mut World, actor: Actor, command: &Command) -> JobId {
    let Outcome::Later(id) = world.guild.handle_command(world.now, actor, command) else { panic!("{command:?}") };
    world.drain();
    id
}

fn role_for_all(role_id: RoleId, action: RoleAction) -> Command {
    Command::BulkRole(Box::new(BulkRole { role_id, action, filter: MemberFilter::default() }))
}

#[test]
fn a_prune_removes_members_without_session_and_roles() {
    let mut world = crowd(10);
    world.pass_ms(1_000);
    let before = world.now.unix;
    world.join(extra(11));
    let role = world.grant(extra(1), Permissions::NONE, 1);
    world.attach(session(0, 1), extra(2), Status::Idle);
    let kicker = world.grant(ANA, Permissions::KICK_MEMBERS, 5);
    world.sent.clear();

    let ask = |world: &mut World, prune| count(world.by(ANA, Command::Prune(Box::new(prune))));
    // All members except the owner, the actor, a member with a role, an online one, and one who joined later.
    let counts_only = Prune { joined_before: before, counts_only: true, ..prune() };
    assert_eq!(ask(&mut world, counts_only.clone()), Ok(10));
    assert!(world.take().is_empty(), "counting removes no members");
    assert_eq!(ask(&mut world, Prune { roles: vec![role], ..counts_only }), Ok(11));
    assert_eq!(ask(&mut world, Prune { joined_before: before, ..prune() }), Ok(10));
    let left: Vec<UserId> = world.store.members.keys().copied().collect();
    assert_eq!(left, [OWNER, ANA, extra(1), extra(2), extra(11)]);
    assert_eq!(world.event_names(), [EventName::GuildMemberRemove; 10]);
    assert_eq!(ask(&mut world, Prune { roles: vec![role], ..prune() }), Ok(2));

    assert_eq!(ask(&mut world, Prune { roles: vec![RoleId::new(6)], ..prune() }), Err(Refusal::UnknownRole));
    let refused = ask(&mut world, Prune { roles: vec![kicker], ..prune() });
    assert_eq!(refused, Err(Refusal::MissingPermissions), "not below her own");
    assert_eq!(count(world.by(extra(2), Command::Prune(Box::new(prune())))), Err(Refusal::MissingPermissions));
}

#[test]
fn u1_each_member_is_looked_at_again() {
    let mut world = crowd(300);
    world.grant(ANA, Permissions::KICK_MEMBERS, 5);
    let role = world.role(Permissions::NONE, 1);
    let id = start(&mut world, Actor::User(ANA), &Command::Prune(Box::new(prune())));
    world.run_jobs();
    // They were found. Then one gets a role, one comes online, one leaves by himself.
    world.system(Command::AddMemberRole(extra(250), role));
    world.attach(session(0, 1), extra(251), Status::Idle);
    world.system(Command::RemoveMember(extra(252)));
    world.rest();
    assert_eq!(count(world.answers.remove(&id).expect("it was answered")), Ok(299), "bob and eve too");
    let left: Vec<UserId> = world.store.members.keys().copied().collect();
    assert_eq!(left, [OWNER, ANA, extra(250), extra(251)]);
}

#[test]
fn a_slice_at_a_time_and_others_between() {
    let mut world = crowd(300);
    let channel = world.text_channel();
    let role = world.role(Permissions::NONE, 1);
    world.sent.clear();
    let (give, prune) = (role_for_all(role, RoleAction::Grant), Command::Prune(Box::new(prune())));
    let giving = start(&mut world, Actor::System, &give);
    let pruning = start(&mut world, Actor::System, &prune);
    world.run_jobs();
    let mut slices = Vec::new();
    while world.tick() {
        let names = world.event_names();
        assert!(names.len() <= 64 && names.iter().all(|name| *name == names[0]));
        slices.extend(names.first().map(|name| (*name, names.len())));
        world.say(OWNER, channel, "in between");
        world.sent.clear();
    }
    // The two alternate; a member who got the role in time is not pruned.
    let (update, remove) = (EventName::GuildMemberUpdate, EventName::GuildMemberRemove);
    assert!([update, remove].iter().all(|name| slices[..2].iter().any(|(of, _)| of == name)), "{slices:?}");
    let changed = |of| slices.iter().filter(|(name, _)| *name == of).map(|(_, count)| *count as u64).sum::<u64>();
    let answers = [giving, pruning].map(|id| count(world.answers.remove(&id).expect("it was answered")).unwrap());
    assert_eq!(answers, [changed(update), changed(remove)]);
    assert_eq!(world.store.members.len() as u64, 304 - changed(remove));
    assert!(world.store.members.values().all(|member| member.roles.contains(&role)));
}

#[test]
fn a_role_for_many() {
    let mut world = crowd(200);
    let (low, high) = (world.role(Permissions::NONE, 1), world.role(Permissions::NONE, 9));
    world.grant(ANA, Permissions::MANAGE_ROLES, 5);
    assert_eq!(count(world.by(ANA, role_for_all(low, RoleAction::Grant))), Ok(204));
    assert_eq!(count(world.by(ANA, role_for_all(low, RoleAction::Grant))), Ok(0), "they have it");
    assert_eq!(count(world.by(ANA, role_for_all(high, RoleAction::Grant))), Err(Refusal::MissingPermissions));
    assert_eq!(count(world.by(ANA, role_for_all(GUILD.cast(), RoleAction::Grant))), Err(Refusal::InvalidRole));
    assert_eq!(count(world.by(BOB, role_for_all(low, RoleAction::Revoke))), Err(Refusal::MissingPermissions));
    assert_eq!(count(world.by(ANA, role_for_all(RoleId::new(6), RoleAction::Grant))), Err(Refusal::UnknownRole));
    // Only some.
    let filter = MemberFilter { roles: vec![low], none_of: vec![ANA, BOB], ..MemberFilter::default() };
    let take = Command::BulkRole(Box::new(BulkRole { role_id: low, action: RoleAction::Revoke, filter }));
    assert_eq!(count(world.by(ANA, take)), Ok(202));
    let have: Vec<UserId> =
        world.store.members.values().filter(|m| m.roles.contains(&low)).map(|m| m.user.id).collect();
    assert_eq!(have, [ANA, BOB]);
}

#[test]
fn entries_of_a_command_that_ends_later_have_its_reason() {
    let mut world = crowd(150);
    let role = world.role(Permissions::NONE, 1);
    let voice = world.channel(new_channel("voice", ChannelType::Voice));
    (1..=150).for_each(|n| drop(world.system(Command::ShowVoice(extra(n), Some(voice)))));
    world.audit_events();
    let commands = [
        (role_for_all(role, RoleAction::Grant), AuditAction::MemberRoleUpdate),
        (Command::DeleteChannel(voice), AuditAction::ChannelDelete),
        (Command::Prune(Box::new(Prune { roles: vec![role], ..prune() })), AuditAction::MemberPrune),
    ];
    for (command, action) in commands {
        start(&mut world, Actor::User(OWNER), &Command::WithReason("tidy".into(), Box::new(command)));
        world.rest();
        let entries = world.audit_events();
        assert!(!entries.is_empty(), "{action:?}");
        let reasons: Vec<_> = entries.iter().map(|entry| (entry.action, entry.reason.as_deref())).collect();
        assert!(reasons.iter().all(|of| *of == (action, Some("tidy"))), "{reasons:?}");
    }
}

#[test]
fn u2_losing_the_permission_stops_the_task_and_keeps_its_steps() {
    let mut world = crowd(300);
    let role = world.grant(ANA, Permissions::KICK_MEMBERS, 5);
    let id = start(&mut world, Actor::User(ANA), &Command::Prune(Box::new(prune())));
    world.run_jobs();
    world.tick();
    assert_eq!(world.store.members.len(), 304 - 64);
    world.system(Command::RemoveMemberRole(ANA, role));
    world.rest();
    assert_eq!(count(world.answers.remove(&id).expect("it was answered")), Err(Refusal::MissingPermissions));
    assert_eq!(world.store.members.len(), 304 - 64);
    // A guild that is deleted answers too.
    let ids: Vec<JobId> =
        (0..3).map(|_| start(&mut world, Actor::System, &Command::Prune(Box::new(prune())))).collect();
    let job = world.jobs.remove(0);
    world.guild.handle_job_done(world.now, job.run());
    world.system(Command::DeleteGuild);
    for id in ids {
        assert_eq!(count(world.answers.remove(&id).expect("it was answered")), Err(Refusal::UnknownGuild));
    }
    world.rest();
    world.relay(ToGuild::Unsubscribe { relay: P0, epoch: 1 });
    assert!(world.guild.is_idle() && world.answers.is_empty());
}

#[test]
fn slow_commands_are_bounded() {
    let limits = GuildLimits { slow_commands_max: 3, jobs_running_max: 1, ..GuildLimits::default() };
    let mut world = World::with_limits(limits);
    (1..=100).for_each(|n| world.join(extra(n)));
    let prune = Command::Prune(Box::new(prune()));
    let ids: Vec<JobId> = (0..3).map(|_| start(&mut world, Actor::System, &prune)).collect();
    assert_eq!(world.command(Actor::System, prune.clone()).unwrap_err(), Refusal::Unavailable);
    let job = world.jobs.remove(0);
    world.guild.handle_job_done(world.now, job.run());
    world.drain();
    assert_eq!(world.command(Actor::System, prune.clone()).unwrap_err(), Refusal::Unavailable, "one is being applied");
    world.rest();
    let counts: u64 = ids.iter().map(|id| count(world.answers.remove(id).expect("it was answered")).unwrap()).sum();
    assert_eq!(counts, 100, "each was counted by the one who removed them");
    assert!(world.command(Actor::System, prune).is_ok());
}

#[test]
fn a_crowded_voice_channel_is_emptied_before_it_is_deleted() {
    let mut world = crowd(150);
    let voice = world.channel(new_channel("voice", ChannelType::Voice));
    let other = world.channel(NewChannel { user_limit: 0, ..new_channel("other", ChannelType::Voice) });
    for n in 1..=150 {
        world.system(Command::ShowVoice(extra(n), Some(voice)));
    }
    world.system(Command::ShowVoice(ANA, Some(other)));
    world.sent.clear();
    let id = start(&mut world, Actor::System, &Command::DeleteChannel(voice));
    assert!(world.tick());
    let left = world.events();
    assert_eq!(left.len(), 64);
    assert!(left.iter().all(|published| matches!(published.replica_update, ReplicaUpdate::Voice(_, None))));
    // Joins are refused in the meantime.
    let refused = world.command(Actor::System, Command::ShowVoice(EVE, Some(voice)));
    assert_eq!(refused.unwrap_err(), Refusal::UnknownChannel);
    let patch = guildhall_guild::MemberPatch { channel_id: Some(Some(voice)), ..Default::default() };
    assert_eq!(world.by(OWNER, Command::UpdateMember(ANA, Box::new(patch))).unwrap_err(), Refusal::UnknownChannel);
    world.rest();
    let names = world.event_names();
    assert_eq!((names.len(), names.last()), (150 - 64 + 1, Some(&EventName::ChannelDelete)));
    assert!(matches!(world.answers.remove(&id), Some(Ok(Reply::Channel(channel))) if channel.id == voice));
    assert!(!world.store.channels.contains_key(&voice));
}
