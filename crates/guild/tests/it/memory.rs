//! Estimates of memory, against what was allocated.

use crate::fixture::*;
use allocation_counter::measure;
use guildhall_guild::{Guild, GuildLimits, GuildRecord};
use guildhall_model::{Guild as GuildFields, Member, Permissions, User, UserId};
use guildhall_stdx::{Timestamp, heap::Sample, steps_taken};
use std::sync::Arc;

/// Members with names of all lengths; some have a nickname.
fn load(members_count: u64) -> Guild {
    let member = |n: u64| {
        let name = "name".repeat(1 + n as usize % 7);
        let mut user = User::new(UserId::new(OWNER.get() + n), &name);
        user.global_name = n.is_multiple_of(3).then(|| name.clone());
        let mut member = Member::new(Arc::new(user), Timestamp(1_700_000_000_000));
        member.nick = n.is_multiple_of(10).then(|| name.into());
        Arc::new(member)
    };
    let record = GuildRecord {
        guild: GuildFields::new(GUILD, "guild", OWNER),
        roles: vec![role(GUILD.cast(), Permissions::DEFAULT_EVERYONE, 0)],
        channels: Vec::new(),
        members: (0..members_count).map(member).collect(),
        resources: Vec::new(),
        nonces: Vec::new(),
    };
    Guild::load(record, GuildLimits::default(), 3)
}

#[test]
fn an_estimate_is_within_a_tenth_of_what_was_allocated() {
    let mut guild = None;
    let allocated = measure(|| guild = Some(load(50_000))).bytes_current;
    let before = steps_taken();
    let held = guild.expect("loaded").memory(Sample::LARGE);
    assert!(steps_taken() - before < 8_000, "{} steps", steps_taken() - before);
    assert_eq!((held[0].name, held[0].elements), ("guild_members", 50_000));
    let estimated: u64 = held.iter().map(|held| held.bytes).sum();
    // The allocator's size classes are in the estimate, and not in the count.
    assert!(allocated as u64 <= estimated && estimated <= allocated as u64 * 11 / 10, "{estimated} of {allocated}");
}
