//! Sizes: a table of members, in bytes per member. Times are printed, not compared.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "it measures")]

use crate::examples::id;
use guildhall_cluster::wire::{VERSION, decode, encode};
use guildhall_guild_protocol::MemberTable;
use guildhall_model::{Member, User};
use guildhall_stdx::Timestamp;
use std::{sync::Arc, time::Instant};

/// A member as most are: a name, two roles, no presence.
fn member(n: u64) -> Arc<Member> {
    let user = User { global_name: Some(format!("Member {n}")), ..User::new(id(n * 4_194_304), &format!("member{n}")) };
    let mut member = Member::new(Arc::new(user), Timestamp(1_600_000_000_000 + n as i64));
    member.roles = [id(901), id(902)].into_iter().collect();
    Arc::new(member)
}

#[test]
fn a_hundred_thousand_members() {
    const COUNT: u64 = 100_000;
    let table: MemberTable = (1..=COUNT).map(member).collect();
    let start = Instant::now();
    let bytes = encode(&table);
    let encoded = Instant::now();
    let received: MemberTable = decode(VERSION, &bytes).expect("a table");
    let decoded = Instant::now();
    println!(
        "{} bytes per member; encoded in {} ms, decoded in {} ms",
        bytes.len() as u64 / COUNT,
        (encoded - start).as_millis(),
        (decoded - encoded).as_millis()
    );
    assert_eq!(received.len(), table.len());
    assert!(received.iter().zip(table.iter()).all(|(a, b)| a.member == b.member));
    assert!(bytes.len() as u64 / COUNT < 250, "{} bytes per member", bytes.len() as u64 / COUNT);
}
