//! Passive updates: clients that apply them hold the guild's state, whatever happens to the guild and to them.

use crate::{
    fixture::*,
    passive_world::{INTERVAL_MS, OWNER, TEXT, VOICE, World},
};
use guildhall_model::{ChannelId, PassiveUpdate, Permissions, UserId};
use guildhall_relay::{SubscriptionMask, UserSubscriptions};
use std::collections::BTreeSet;

#[test]
fn u1_to_u5_clients_hold_the_guilds_state() {
    let mut updates_count = 0;
    for seed in 0..170 {
        let mut world = World::new(seed);
        for _ in 0..25 {
            for _ in 0..world.rng.below(14) {
                world.step();
            }
            world.round();
        }
        updates_count += world.updates_count;
    }
    assert!(updates_count > 10_000, "only {updates_count} updates were sent: too few for a test");
}

// ── one by one ───────────────────────────────────────────────────────────────────────────────────

const PASSIVE: UserSubscriptions = UserSubscriptions {
    active: false,
    typing: false,
    member_updates: false,
    threads: false,
    passive: PassiveUpdate::Delta,
    obfuscated: false,
};
const ACTIVE: UserSubscriptions = UserSubscriptions { active: true, ..PASSIVE };
const ANA: UserId = UserId::new(53);
const BEN: UserId = UserId::new(55);
const TALK: ChannelId = ChannelId::new(TEXT[0]);
const NEWS: ChannelId = ChannelId::new(TEXT[1]);
const ROOM: ChannelId = ChannelId::new(VOICE[0]);
const CELLAR: ChannelId = ChannelId::new(VOICE[1]);

#[test]
fn u1_an_update_has_each_change_once() {
    let mut world = World::new(0);
    let slot = world.attach(ANA, PASSIVE);
    assert_eq!(world.next_update(slot), None);
    world.says(TALK);
    world.says(TALK);
    world.voice(BEN, Some(ROOM), false);
    assert_eq!(world.next_update(slot), Some((vec![TALK], vec![BEN], vec![])));
    assert_eq!(world.next_update(slot), None);
    world.voice(BEN, Some(CELLAR), false);
    world.voice(BEN, None, false);
    assert_eq!(world.next_update(slot), Some((vec![], vec![], vec![BEN])));
    world.voice(BEN, Some(ROOM), false);
    world.voice(BEN, None, false);
    assert_eq!(world.next_update(slot), None, "a user who joined and left between updates is not mentioned");
}

#[test]
fn u1_an_update_starts_from_the_last_update_of_its_session() {
    let mut world = World::new(0);
    let first = world.attach(ANA, PASSIVE);
    world.says(TALK);
    world.voice(OWNER, Some(ROOM), false);
    let second = world.attach(BEN, PASSIVE);
    let third = world.attach(BEN, ACTIVE);
    world.says(NEWS);
    world.set_mask(third, PASSIVE);
    world.voice(OWNER, None, false);
    world.now_ms += 2 * INTERVAL_MS;
    world.relay.handle_timer(world.now(), &mut world.post);
    assert_eq!(world.pending_update(first), Some((vec![TALK, NEWS], vec![], vec![])));
    assert_eq!(world.pending_update(second), Some((vec![NEWS], vec![], vec![OWNER])));
    assert_eq!(world.pending_update(third), Some((vec![], vec![], vec![OWNER])));
}

#[test]
fn u1_a_user_who_left_is_reported_after_any_number_of_moves() {
    let mut world = World::new(0);
    let early = world.attach(ANA, PASSIVE);
    for n in 0..20 {
        world.voice(OWNER, Some(ROOM), n % 2 == 0);
    }
    // Knows them in the room, as `early` does not.
    let late = world.attach(BEN, PASSIVE);
    world.voice(OWNER, None, false);
    world.now_ms += 2 * INTERVAL_MS;
    world.relay.handle_timer(world.now(), &mut world.post);
    assert_eq!(world.pending_update(late), Some((vec![], vec![], vec![OWNER])));
    world.read_post();
    world.check_client(early);
    world.check_client(late);
}

#[test]
fn r4_a_session_that_becomes_active_first_receives_missed_changes() {
    let mut world = World::new(0);
    let slot = world.attach(ANA, PASSIVE);
    world.set_mask(slot, ACTIVE);
    world.set_mask(slot, PASSIVE);
    world.says(TALK);
    world.voice(BEN, Some(ROOM), false);
    world.relay.set_mask(ANA, slot, SubscriptionMask::user(ACTIVE), &mut world.post);
    assert_eq!(world.pending_update(slot), Some((vec![TALK], vec![BEN], vec![])));
    world.read_post();
    world.clients.get_mut(&slot).expect("it is here").mask = ACTIVE;
    // From here on it receives events live, and the next two rounds have no update for it.
    world.says(NEWS);
    world.voice(BEN, Some(CELLAR), false);
    world.check_client(slot);
    world.set_mask(slot, PASSIVE);
    assert_eq!(world.next_update(slot), None);
}

#[test]
fn r4_a_passive_session_with_new_subscriptions_misses_no_change() {
    let mut world = World::new(0);
    let slot = world.attach(ANA, PASSIVE);
    world.says(TALK);
    world.set_mask(slot, UserSubscriptions { member_updates: true, ..PASSIVE });
    assert_eq!(world.next_update(slot), Some((vec![TALK], vec![], vec![])));
}

#[test]
fn u3_a_channel_that_enters_the_view_is_sent_whole() {
    let mut world = World::new(0);
    world.hide(NEWS);
    world.hide(ROOM);
    world.voice(OWNER, Some(ROOM), false);
    world.says(NEWS);
    let slot = world.attach(ANA, PASSIVE);
    assert_eq!(world.next_update(slot), None);
    world.show(NEWS);
    world.show(ROOM);
    assert_eq!(world.next_update(slot), Some((vec![NEWS], vec![OWNER], vec![])));
    assert_eq!(world.next_update(slot), None);
}

#[test]
fn u3_users_in_a_channel_that_leaves_the_view_are_sent_as_left() {
    let mut world = World::new(0);
    world.voice(OWNER, Some(ROOM), false);
    let slot = world.attach(ANA, PASSIVE);
    world.hide(ROOM);
    world.hide(NEWS);
    world.says(NEWS);
    assert_eq!(world.next_update(slot), Some((vec![], vec![], vec![OWNER])));
    // It was hidden when they left, so they must not be there when it is shown.
    world.voice(OWNER, None, false);
    assert_eq!(world.next_update(slot), None);
    world.show(ROOM);
    assert_eq!(world.next_update(slot), None);
}

#[test]
fn u3_a_view_that_returned_between_two_updates_sends_nothing() {
    let mut world = World::new(0);
    world.hide(ROOM);
    world.hide(NEWS);
    world.voice(OWNER, Some(ROOM), false);
    let slot = world.attach(ANA, PASSIVE);
    world.show(ROOM);
    world.show(NEWS);
    world.says(NEWS);
    world.hide(ROOM);
    world.hide(NEWS);
    assert_eq!(world.next_update(slot), None);
    // The same by a role instead of a channel.
    let (plain, seeing) = (world.members[&ANA].clone(), member(ANA.get(), &[21]));
    world.set_role(21, Permissions::ADMINISTRATOR);
    world.set_member(seeing.clone());
    world.set_member(plain);
    assert_eq!(world.next_update(slot), None);
    world.set_member(seeing);
    assert_eq!(world.next_update(slot), Some((vec![NEWS], vec![OWNER], vec![])));
}

#[test]
fn u3_a_renamed_or_new_channel_is_no_news() {
    let mut world = World::new(0);
    world.says(NEWS);
    world.voice(OWNER, Some(ROOM), false);
    let slot = world.attach(ANA, PASSIVE);
    world.show(NEWS);
    world.set_channel(90, Vec::new());
    world.set_role(22, Permissions::BAN_MEMBERS);
    assert_eq!(world.next_update(slot), None);
    world.delete_channel(ROOM.get());
    assert_eq!(world.next_update(slot), Some((vec![], vec![], vec![OWNER])));
}

#[test]
fn u4_a_user_knows_where_they_are_themselves() {
    for passive in [PassiveUpdate::Delta, PassiveUpdate::Snapshot] {
        let mut world = World::new(0);
        let own = world.attach(ANA, UserSubscriptions { passive, ..PASSIVE });
        let other = world.attach(BEN, PASSIVE);
        world.voice(ANA, Some(ROOM), false);
        world.round();
        world.hide(CELLAR);
        world.voice(ANA, Some(CELLAR), false);
        world.round();
        assert_eq!(world.clients[&own].voice[&ANA].channel_id, Some(CELLAR));
        assert!(world.clients[&other].voice.is_empty(), "to others they left");
        world.voice(ANA, Some(ROOM), false);
        world.hide(ROOM);
        world.set_mask(own, UserSubscriptions { passive, ..ACTIVE });
        assert_eq!(world.clients[&own].voice[&ANA].channel_id, Some(ROOM));
    }
}

#[test]
fn u5_changes_withheld_at_replay_are_sent_once_visible() {
    let mut world = World::new(0);
    let slot = world.attach(ANA, PASSIVE);
    world.voice(BEN, Some(CELLAR), false);
    world.next_update(slot);
    world.disconnect(slot);
    world.says(NEWS);
    world.voice(OWNER, Some(ROOM), false);
    assert_eq!(world.next_update(slot), Some((vec![NEWS], vec![OWNER], vec![])));
    for channel_id in [NEWS, ROOM, CELLAR] {
        world.hide(channel_id);
    }
    world.resume(slot);
    assert!(world.clients[&slot].newest.is_empty(), "it was sent what it may not see");
    for channel_id in [NEWS, ROOM] {
        world.show(channel_id);
    }
    // In the next round nothing has changed within their views.
    assert_eq!(world.next_update(slot), Some((vec![NEWS], vec![OWNER], vec![BEN])));
    assert_eq!(world.next_update(slot), None);
}

/// Ana was away while the owner left voice, and resumed when they were back and she could not read the news any more.
fn world_after_a_replay_with_newer_state() -> (World, u32) {
    let mut world = World::new(0);
    world.voice(OWNER, Some(ROOM), false);
    let slot = world.attach(ANA, PASSIVE);
    world.disconnect(slot);
    world.says(NEWS);
    world.voice(OWNER, None, false);
    assert_eq!(world.next_update(slot), Some((vec![NEWS], vec![], vec![OWNER])));
    world.hide(NEWS);
    world.voice(OWNER, Some(ROOM), false);
    world.resume(slot);
    assert!(world.clients[&slot].voice.contains_key(&OWNER), "as it is now");
    (world, slot)
}

#[test]
fn u5_changes_after_a_replay_with_newer_state_are_sent() {
    let (mut world, slot) = world_after_a_replay_with_newer_state();
    world.voice(OWNER, None, false);
    assert_eq!(world.next_update(slot), Some((vec![], vec![], vec![OWNER])));
}

#[test]
fn u5_users_from_a_replay_with_newer_state_leave_with_their_channel() {
    let (mut world, slot) = world_after_a_replay_with_newer_state();
    // They are still there, and came after the last update.
    world.hide(ROOM);
    assert_eq!(world.next_update(slot), Some((vec![], vec![], vec![OWNER])));
}

#[test]
fn the_time_between_updates_varies_within_its_bounds() {
    let mut world = World::new(0);
    let mut waits = BTreeSet::new();
    for _ in 0..50 {
        let at = world.relay.next_deadline().expect("there is a next one").0;
        waits.insert(at - world.now_ms);
        world.now_ms = at - 1;
        world.relay.handle_timer(world.now(), &mut world.post);
        assert_eq!(world.relay.next_deadline().map(|at| at.0), Some(at), "not yet");
        world.now_ms = at;
        world.relay.handle_timer(world.now(), &mut world.post);
    }
    assert!(waits.len() > 20, "{waits:?}");
    assert!(waits.iter().all(|wait| (INTERVAL_MS * 3 / 4..INTERVAL_MS * 5 / 4).contains(wait)), "{waits:?}");
}
