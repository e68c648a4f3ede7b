//! Members who came by a temporary invite.

use crate::fixture::*;
use guildhall_guild::{Actor, Command, Guild, GuildLimits, NewInvite, Refusal};
use guildhall_guild_protocol::ToGuild;
use guildhall_model::{EventName, GuildResource, InviteCode, Permissions, Status, UserId};

const CODE: InviteCode = InviteCode::new(5);
const AWAY_MS: u64 = 60_000;
const LOADED_MS: u64 = 600_000;

/// `World::new` with a temporary invite.
fn world(limits: GuildLimits) -> World {
    let mut world = World::with_limits(limits);
    let channel = world.text_channel();
    let new = NewInvite { code: CODE, max_age_s: 0, max_uses: 0, temporary: true, is_unique: true };
    world.system(Command::CreateInvite(channel, Box::new(new)));
    world
}

fn accept(world: &mut World, user_id: UserId) {
    world.command(Actor::System, Command::AcceptInvite(CODE, user(user_id))).unwrap();
}

fn timer_after(world: &mut World, ms: u64) {
    world.pass_ms(ms);
    world.guild.handle_timer(world.now);
    world.drain();
}

fn is_member(world: &mut World, user_id: UserId) -> bool {
    world.command(Actor::System, Command::ReadMember(user_id)).is_ok()
}

fn stored(world: &World) -> Vec<UserId> {
    let guest = |resource: &GuildResource| match resource {
        GuildResource::TemporaryMember(user_id) => Some(*user_id),
        _ => None,
    };
    world.store.resources.values().filter_map(guest).collect()
}

#[test]
fn t1_a_temporary_member_is_removed_after_its_absence() {
    let mut world = world(GuildLimits::default());
    accept(&mut world, ANA);
    assert_eq!(stored(&world), [ANA]);
    timer_after(&mut world, 10 * LOADED_MS);
    assert!(is_member(&mut world, ANA), "T3: she has not come yet");
    world.attach(session(0, 1), ANA, Status::Online);
    world.attach(session(0, 2), ANA, Status::Offline);
    world.relay(ToGuild::Detach { session: session(0, 1) });
    timer_after(&mut world, 10 * AWAY_MS);
    assert!(is_member(&mut world, ANA), "an invisible session is one");
    world.relay(ToGuild::Detach { session: session(0, 2) });
    timer_after(&mut world, AWAY_MS - 1);
    assert!(is_member(&mut world, ANA));
    world.attach(session(0, 3), ANA, Status::Online);
    timer_after(&mut world, 1);
    assert!(is_member(&mut world, ANA), "she was back in time");
    world.relay(ToGuild::Detach { session: session(0, 3) });
    assert_eq!(world.guild.next_deadline(), Some(world.now.instant.after_ms(AWAY_MS)));
    world.events();
    timer_after(&mut world, AWAY_MS);
    assert!(!is_member(&mut world, ANA));
    assert!(world.event_names().contains(&EventName::GuildMemberRemove));
    assert!(stored(&world).is_empty());
    assert_eq!(world.guild.next_deadline(), None, "nothing is left to do");
    // She may come again.
    accept(&mut world, ANA);
    assert!(is_member(&mut world, ANA));
}

#[test]
fn t1_a_temporary_member_with_a_role_stays() {
    let mut world = world(GuildLimits::default());
    accept(&mut world, ANA);
    world.attach(session(0, 1), ANA, Status::Online);
    let role = world.grant(ANA, Permissions::NONE, 1);
    world.relay(ToGuild::Detach { session: session(0, 1) });
    timer_after(&mut world, AWAY_MS);
    assert!(is_member(&mut world, ANA) && stored(&world).is_empty());
    world.system(Command::RemoveMemberRole(ANA, role));
    world.attach(session(0, 2), ANA, Status::Online);
    world.relay(ToGuild::Detach { session: session(0, 2) });
    timer_after(&mut world, 10 * AWAY_MS);
    assert!(is_member(&mut world, ANA));
}

#[test]
fn a_temporary_member_who_leaves_and_joins_again_is_permanent() {
    let mut world = world(GuildLimits::default());
    accept(&mut world, ANA);
    world.attach(session(0, 1), ANA, Status::Online);
    world.relay(ToGuild::Detach { session: session(0, 1) });
    world.by(ANA, Command::RemoveMember(ANA)).unwrap();
    assert!(stored(&world).is_empty());
    world.join(ANA);
    timer_after(&mut world, 10 * AWAY_MS);
    assert!(is_member(&mut world, ANA), "the second membership is not temporary");
}

#[test]
fn t2_it_outlives_the_node() {
    let mut world = world(GuildLimits::default());
    let guests: Vec<UserId> = (1_000..1_200).map(UserId::new).collect();
    guests.iter().for_each(|id| accept(&mut world, *id));
    world.guild = Guild::load(world.store.record(), GuildLimits::default(), 3);
    world.subscribe(P0, 7);
    // The first timer sets their deadlines; the guild checks them in steps.
    world.rest();
    world.attach(session(0, 1), guests[7], Status::Online);
    timer_after(&mut world, LOADED_MS - 1_000);
    assert!(guests.iter().all(|id| is_member(&mut world, *id)));
    timer_after(&mut world, 1_000);
    let left = guests.iter().filter(|id| is_member(&mut world, **id)).count();
    assert!(left > 100, "a slice at a time: {left}");
    world.rest();
    assert_eq!(stored(&world), [guests[7]]);
    assert!(is_member(&mut world, guests[7]) && !is_member(&mut world, guests[8]));
}

#[test]
fn they_are_so_many_at_most() {
    let mut world = world(GuildLimits { temporary_members_max: 1, ..GuildLimits::default() });
    accept(&mut world, ANA);
    let refused = world.command(Actor::System, Command::AcceptInvite(CODE, user(BOB)));
    assert_eq!(refused.unwrap_err(), Refusal::TooManyTemporaryMembers);
    world.grant(ANA, Permissions::NONE, 1);
    world.attach(session(0, 1), ANA, Status::Online);
    world.relay(ToGuild::Detach { session: session(0, 1) });
    timer_after(&mut world, AWAY_MS);
    accept(&mut world, BOB);
}
