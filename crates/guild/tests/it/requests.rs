//! Requests for members: answered on the spot, or from a job, and never with what is not so any more.

use crate::fixture::*;
use guildhall_guild::{Actor, Audience, Command, GuildLimits, Outcome, Refusal, Reply};
use guildhall_guild_protocol::{
    FoundMembers, MembersAnswer, MembersWanted, Payload, RelayMessage, SessionKey, ToGuild,
};
use guildhall_model::{
    AccountKind, ChannelId, ChannelType, Permissions, Status, UserId,
    to_gateway::{MemberQuery, RequestGuildMembers, SearchRecentMembers},
};

fn request(query: MemberQuery) -> RequestGuildMembers {
    RequestGuildMembers { guild_ids: vec![GUILD], query, presences: true, nonce: Some("n".to_owned()) }
}

fn prefix(prefix: &str, limit: usize) -> MemberQuery {
    MemberQuery::Prefix { prefix: prefix.to_owned(), limit }
}

fn ask(world: &mut World, slot: u32, query: MemberQuery) {
    world.relay(ToGuild::RequestMembers { session: session(0, slot), request: Box::new(request(query)) });
}

fn ask_recent(world: &mut World, slot: u32, query: &str, after: Option<UserId>) {
    let (query, nonce) = (query.to_owned(), Some("n".to_owned()));
    let request = SearchRecentMembers { guild_id: GUILD, query, continuation_token: after, nonce };
    world.relay(ToGuild::RecentMembers { session: session(0, slot), request: Box::new(request) });
}

fn attach(world: &mut World, slot: u32, user_id: UserId, kind: AccountKind) {
    world.attach_as(session(0, slot), user_id, presence(Status::Offline), kind, MembersWanted::OwnAndVoice);
    world.sent.clear();
}

/// The answers that were sent since anything was last taken.
fn answers(world: &mut World) -> Vec<(u32, MembersAnswer)> {
    let messages = world.take().into_iter();
    let answers = messages.filter_map(|(to, message)| match message {
        RelayMessage::Members { session, answer } => {
            assert_eq!((to, answer.nonce.as_deref()), (P0, Some("n")));
            Some((session.slot, *answer))
        }
        _ => None,
    });
    answers.collect()
}

/// Users in the one answer, and users not found.
fn found(world: &mut World) -> (Vec<UserId>, Vec<UserId>) {
    world.rest();
    match &answers(world)[..] {
        [(_, MembersAnswer { members: FoundMembers::Some { entries, not_found }, .. })] => {
            (entries.iter().map(|entry| entry.member.user.id).collect(), not_found.clone())
        }
        other => panic!("{other:?}"),
    }
}

fn whole(world: &mut World) -> Option<usize> {
    match answers(world).remove(0).1.members {
        FoundMembers::Whole(members) => Some(members.len()),
        FoundMembers::Some { entries, .. } => {
            assert!(entries.is_empty());
            None
        }
    }
}

#[test]
fn a2_only_moderators_and_bots_list_all_members() {
    let mut world = World::populated();
    attach(&mut world, 1, ANA, AccountKind::Bot);
    attach(&mut world, 2, BOB, AccountKind::User);
    attach(&mut world, 3, OWNER, AccountKind::User);
    let check = |world: &mut World, slot, expected: Option<usize>| {
        ask(world, slot, MemberQuery::All);
        assert_eq!(whole(world), expected);
        // Without permissions.
        ask_recent(world, slot, "", None);
        assert_eq!(found(world).0.len(), 4);
        ask(world, slot, MemberQuery::Ids(vec![ANA, NOBODY, OWNER]));
        assert_eq!(found(world), (vec![ANA, OWNER], vec![NOBODY]));
        ask(world, slot, prefix("USER10", 2));
        assert_eq!(found(world).0, [ANA, BOB]);
        ask(world, slot, prefix("", 3));
        assert_eq!(found(world).0, [OWNER, ANA, BOB]);
        ask_recent(world, slot, "user10", None);
        assert_eq!(found(world).0, [EVE]);
    };
    for (slot, expected) in [(1, Some(4)), (2, None), (3, Some(4))] {
        check(&mut world, slot, expected);
    }
    for permission in [Permissions::MANAGE_ROLES, Permissions::KICK_MEMBERS, Permissions::BAN_MEMBERS] {
        let role = world.grant(BOB, permission, 1);
        world.sent.clear();
        check(&mut world, 2, Some(4));
        world.system(Command::RemoveMemberRole(BOB, role));
        world.sent.clear();
        check(&mut world, 2, None);
    }
    ask(&mut world, 9, MemberQuery::All);
    ask(&mut world, 9, prefix("u", 1));
    ask_recent(&mut world, 9, "", None);
    assert!(world.take().is_empty() && world.jobs.is_empty(), "no such session");
}

#[test]
fn recent_members_are_paged_through() {
    let mut world = World::new();
    for id in [ANA, BOB, EVE] {
        world.pass_ms(10);
        world.join(id);
    }
    attach(&mut world, 1, ANA, AccountKind::Bot);
    let mut page = |after| {
        ask_recent(&mut world, 1, "", after);
        found(&mut world).0
    };
    // The newest, but ascending within a page: clients request the next page from the first.
    assert_eq!(page(None), [OWNER, ANA, BOB, EVE]);
    assert_eq!(page(Some(BOB)), [OWNER, ANA]);
    assert!(page(Some(OWNER)).is_empty());
    assert!(page(Some(NOBODY)).is_empty());
}

#[test]
fn a1_no_answer_is_older_than_a_published_event() {
    let mut world = World::populated();
    attach(&mut world, 1, OWNER, AccountKind::Bot);
    ask(&mut world, 1, prefix("user10", 100));
    assert_eq!(world.jobs.len(), 1);
    // While it is being searched for, one leaves, one gets another name, one another nick.
    world.system(Command::RemoveMember(ANA));
    world.system(Command::AddMember(std::sync::Arc::new(guildhall_model::User::new(BOB, "other"))));
    let nick = guildhall_guild::MemberPatch { nick: Some(Some("Nick".to_owned())), ..Default::default() };
    world.system(Command::UpdateMember(EVE, Box::new(nick)));
    world.sent.clear();
    world.run_jobs();
    match &answers(&mut world)[..] {
        [(1, MembersAnswer { members: FoundMembers::Some { entries, .. }, presences: true, .. })] => {
            let found: Vec<_> = entries.iter().map(|e| (e.member.user.id, e.member.nick.as_deref())).collect();
            assert_eq!(found, [(EVE, Some("Nick"))]);
        }
        other => panic!("{other:?}"),
    }
    // A session that is gone by then gets nothing.
    ask(&mut world, 1, prefix("user10", 100));
    world.relay(ToGuild::Detach { session: session(0, 1) });
    world.run_jobs();
    assert!(answers(&mut world).is_empty());
}

/// The audience count of a channel that the session received.
fn counted(world: &mut World, session: SessionKey, channel_id: ChannelId) -> Option<(u64, u64)> {
    world.sent.clear();
    world.relay(ToGuild::CountMembers { session, channel_id });
    world.rest();
    let mut counts = world.take().into_iter().filter_map(|(_, message)| match message {
        RelayMessage::Direct { session: to, event } => {
            assert_eq!((to, event.name.as_str()), (session, "CHANNEL_MEMBER_COUNT_UPDATE"));
            match event.payload {
                Payload::ChannelMemberCount { channel_id: of, member_count, presence_count } => {
                    assert_eq!(of, channel_id);
                    Some((member_count, presence_count))
                }
                _ => panic!("{event:?}"),
            }
        }
        _ => None,
    });
    counts.next()
}

#[test]
fn an_audience_is_counted_for_its_viewers_only() {
    let mut world = World::populated();
    let (open, hidden) = (world.text_channel(), world.text_channel());
    world.system(Command::PutOverwrite(hidden, deny_everyone(Permissions::VIEW_CHANNEL)));
    world.system(Command::PutOverwrite(hidden, allow_member(ANA, Permissions::VIEW_CHANNEL)));
    attach(&mut world, 1, BOB, AccountKind::User);
    world.attach(session(0, 2), ANA, Status::Idle);
    assert_eq!(counted(&mut world, session(0, 1), open), Some((4, 1)));
    assert_eq!(counted(&mut world, session(0, 2), hidden), Some((2, 1)));
    assert_eq!(counted(&mut world, session(0, 1), hidden), None);
    assert_eq!(counted(&mut world, session(0, 1), ChannelId::new(5)), None);

    let audience = |member_count, presence_count| Audience { member_count, presence_count };
    let read = |world: &mut World, actor, channel| match world.command(actor, Command::ReadAudience(channel)) {
        Ok(Reply::Audience(audience)) => Ok(audience),
        Ok(other) => panic!("{other:?}"),
        Err(refusal) => Err(refusal),
    };
    assert_eq!(read(&mut world, Actor::System, hidden), Ok(audience(2, 1)));
    assert_eq!(read(&mut world, Actor::User(ANA), open), Ok(audience(4, 1)));
    assert_eq!(read(&mut world, Actor::User(BOB), hidden), Err(Refusal::MissingAccess));

    // A session that loses the channel during the count gets no answer; nor does any if the channel is deleted.
    world.sent.clear();
    world.relay(ToGuild::CountMembers { session: session(0, 2), channel_id: hidden });
    world.system(Command::DeleteOverwrite(hidden, guildhall_model::OverwriteKind::Member(ANA)));
    world.relay(ToGuild::CountMembers { session: session(0, 1), channel_id: open });
    world.system(Command::DeleteChannel(open));
    world.sent.clear();
    world.rest();
    assert!(world.take().is_empty());
}

#[test]
fn commands_search_too() {
    let mut world = World::populated();
    let search = |query: &str, limit| Command::SearchMembers { query: query.to_owned(), limit };
    let found = |reply| match reply {
        Ok(Reply::FoundMembers(found)) => Ok(found.iter().map(|member| member.user.id).collect::<Vec<_>>()),
        Ok(other) => panic!("{other:?}"),
        Err(refusal) => Err(refusal),
    };
    assert_eq!(found(world.by(ANA, search("User10", 2))), Ok(vec![ANA, BOB]));
    assert_eq!(found(world.by(ANA, search("User10", 0))), Ok(vec![ANA]));
    assert_eq!(found(world.by(ANA, search("", 2))), Err(Refusal::InvalidForm("query")));
    assert_eq!(found(world.by(NOBODY, search("u", 2))), Err(Refusal::UnknownGuild));
    // A member who is removed during the search gets no answer.
    let Outcome::Later(id) = world.guild.handle_command(world.now, Actor::User(ANA), &search("u", 9)) else { panic!() };
    world.system(Command::RemoveMember(ANA));
    world.rest();
    assert_eq!(found(world.answers.remove(&id).expect("it was answered")), Err(Refusal::UnknownGuild));
}

#[test]
fn q1_a_job_that_is_lost_is_answered() {
    let mut world = World::populated();
    attach(&mut world, 1, ANA, AccountKind::Bot);
    let search = Command::SearchMembers { query: "u".to_owned(), limit: 9 };
    let Outcome::Later(id) = world.guild.handle_command(world.now, Actor::System, &search) else { panic!() };
    ask(&mut world, 1, prefix("u", 9));
    for job in std::mem::take(&mut world.jobs) {
        world.guild.handle_job_lost(world.now, job.id());
        world.guild.handle_job_lost(world.now, job.id());
        world.guild.handle_job_done(world.now, job.run());
    }
    world.drain();
    assert_eq!(world.answers.remove(&id).map(|answer| answer.unwrap_err()), Some(Refusal::Unavailable));
    assert_eq!(found(&mut world), (vec![], vec![]));
}

#[test]
fn jobs_are_bounded_in_total_and_per_user() {
    let limits =
        GuildLimits { jobs_running_max: 2, jobs_waiting_max: 6, jobs_per_user_max: 3, ..GuildLimits::default() };
    let mut world = World::with_limits(limits);
    let users: Vec<UserId> = (1..=4).map(|n| UserId::new(200 + n)).collect();
    for (slot, user_id) in (1..).zip(&users) {
        world.join(*user_id);
        attach(&mut world, slot, *user_id, AccountKind::Bot);
    }
    let channel = world.channel(new_channel("general", ChannelType::Text));
    let search = Command::SearchMembers { query: "u".to_owned(), limit: 9 };
    world.sent.clear();
    for _ in 0..5 {
        ask(&mut world, 1, prefix("u", 9));
    }
    // Two run, one waits, two are refused; others still get in.
    assert_eq!((world.jobs.len(), answers(&mut world).len()), (2, 2));
    for slot in [2, 3] {
        (0..3).for_each(|_| ask_recent(&mut world, slot, "u", None));
    }
    assert_eq!(answers(&mut world).len(), 1, "six wait");
    world.relay(ToGuild::CountMembers { session: session(0, 4), channel_id: channel });
    assert_eq!(world.by(users[3], search.clone()).unwrap_err(), Refusal::Unavailable);
    assert_eq!(world.command(Actor::System, search.clone()).unwrap_err(), Refusal::Unavailable);
    assert!(!world.guild.is_idle());
    assert_eq!(world.jobs.len(), 2, "no more than two at a time");
    world.run_jobs();
    assert_eq!(answers(&mut world).len(), 8);
    assert!(world.command(Actor::System, search).is_ok());
}
