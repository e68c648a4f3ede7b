use super::*;
use proptest::prelude::*;
use serde_json::json;

fn range(first: u32, last: u32) -> RowRange {
    RowRange { first, last }
}

fn parse_one(sub: &Value) -> SubscriptionPatch {
    let d = json!({"subscriptions": {"1": sub}});
    GuildSubscriptions::parse_bulk(&d).unwrap().patches.pop().map(|(_, patch)| patch).unwrap_or_default()
}

#[test]
fn documented_example() {
    let d = json!({"subscriptions": {"1100000000000000001": {"typing": true, "threads": true, "activities": true,
        "member_updates": false, "members": ["1100000000000000555"],
        "channels": {"1100000000000000010": [[0, 99], [100, 199]]}, "thread_member_lists": []}}});
    let expected = SubscriptionPatch {
        typing: Some(true),
        activities: Some(true),
        threads: Some(true),
        member_updates: Some(false),
        members: Some(vec![UserId::new(1_100_000_000_000_000_555)]),
        channels: Some(vec![ChannelRanges {
            channel_id: ChannelId::new(1_100_000_000_000_000_010),
            ranges: vec![range(0, 99), range(100, 199)],
        }]),
        thread_member_lists: Some(Vec::new()),
    };
    let guild_id = GuildId::new(1_100_000_000_000_000_001);
    assert_eq!(GuildSubscriptions::parse_bulk(&d), Ok(GuildSubscriptions { patches: vec![(guild_id, expected)] }));
}

#[test]
fn single_form() {
    let d = json!({"guild_id": 12, "typing": true, "channels": {"5": [[0, 99]]}});
    let patch = SubscriptionPatch {
        typing: Some(true),
        channels: Some(vec![ChannelRanges { channel_id: ChannelId::new(5), ranges: vec![range(0, 99)] }]),
        ..Default::default()
    };
    let expected = GuildSubscriptions { patches: vec![(GuildId::new(12), patch)] };
    assert_eq!(GuildSubscriptions::parse_single(&d), Ok(expected));
}

#[test]
fn errors_close_the_connection_and_parts_do_not() {
    for d in [json!(null), json!([]), json!("x"), json!({}), json!({"guild_id": null}), json!({"guild_id": -1})] {
        assert!(GuildSubscriptions::parse_single(&d).is_err(), "{d}");
    }
    for d in [json!(null), json!(5), json!({}), json!({"subscriptions": []}), json!({"subscriptions": null})] {
        assert!(GuildSubscriptions::parse_bulk(&d).is_err(), "{d}");
    }
    let d = json!({"subscriptions": {"x": {}, "-1": {}, "99999999999999999999": {}, "1": null, "2": [], "3": {"typing": true}}});
    let patches = GuildSubscriptions::parse_bulk(&d).unwrap().patches;
    assert_eq!(patches.len(), 1);
    assert_eq!(patches[0].0, GuildId::new(3));
}

#[test]
fn ranges() {
    let check = |ranges: Value, expected: &[(u32, u32)]| {
        let patch = parse_one(&json!({"channels": {"5": ranges}}));
        let got: Vec<_> = patch.channels.unwrap().into_iter().flat_map(|channel| channel.ranges).collect();
        assert_eq!(got, expected.iter().map(|(a, b)| range(*a, *b)).collect::<Vec<_>>(), "{ranges}");
    };
    check(json!([[0, 99], [100, 199]]), &[(0, 99), (100, 199)]);
    check(json!([[7, 7]]), &[(7, 7)]);
    check(json!([[0, 399]]), &[(0, 399)]);
    check(json!([[0, 400]]), &[(0, 399)]);
    check(json!([[100, u64::MAX]]), &[(100, 499)]);
    check(json!([[u32::MAX, u64::MAX]]), &[(u32::MAX, u32::MAX)]);
    check(json!([[u64::from(u32::MAX) + 1, u64::MAX]]), &[]);
    check(json!([[99, 0], [-1, 5], [0, -1], [0.0, 99.0], ["0", "99"], [0], [0, 1, 2], 5, null, {}, [[0, 99]]]), &[]);
    check(json!([[0, 99], [0, 99], [1, 99]]), &[(0, 99), (1, 99)]);
    check(
        json!([[0, 9], [10, 19], [20, 29], [30, 39], [40, 49], [50, 59]]),
        &[(0, 9), (10, 19), (20, 29), (30, 39), (40, 49)],
    );
    check(json!([]), &[]);
    check(json!({"0": [0, 99]}), &[]);
}

#[test]
fn b1_limits() {
    let ids: Vec<u64> = (1..=500).rev().collect();
    let channels: Map<String, Value> = (0..50).map(|id| (format!("{id}"), json!([[0, 99]]))).collect();
    let patch = parse_one(&json!({"members": ids, "thread_member_lists": ids, "channels": channels}));
    assert_eq!(patch.members.unwrap().len(), Subscription::MEMBERS_MAX);
    assert_eq!(patch.thread_member_lists.unwrap().len(), Subscription::THREAD_LISTS_MAX);
    assert_eq!(patch.channels.unwrap().len(), Subscription::CHANNELS_MAX);

    let guilds: Map<String, Value> = (0..500).map(|id| (format!("{id}"), json!({}))).collect();
    let many = GuildSubscriptions::parse_bulk(&json!({"subscriptions": guilds})).unwrap();
    assert_eq!(many.patches.len(), GuildSubscriptions::GUILDS_MAX);

    let twice = parse_one(&json!({"members": [9, "9", "3", 9], "channels": {"5": [[0, 9]], "05": [[10, 19]]}}));
    assert_eq!(twice.members, Some(vec![UserId::new(3), UserId::new(9)]));
    assert_eq!(twice.channels.unwrap().len(), 1);
}

#[test]
fn b2_only_keys_that_are_present_and_sound_change_anything() {
    let mut subscription = Subscription::default();
    subscription.merge(parse_one(&json!({"typing": true, "members": [1, 2], "channels": {"5": [[0, 99]]}})));
    let before = subscription.clone();
    for sub in [
        json!({}),
        json!({"typing": null, "members": null, "channels": null}),
        json!({"typing": 1, "members": {}, "channels": []}),
        json!({"typing": "false", "members": "x", "channels": "x", "thread_member_lists": 0}),
    ] {
        subscription.merge(parse_one(&sub));
        assert_eq!(subscription, before, "{sub}");
    }
    subscription.merge(parse_one(&json!({"members": ["7"], "threads": true})));
    assert_eq!(subscription, Subscription { members: [UserId::new(7)].into(), threads: true, ..before });
    subscription.merge(parse_one(&json!({"members": [], "channels": {}, "typing": false, "threads": false})));
    assert_eq!(subscription, Subscription::default());
}

/// Values for `SUB`: meaningful keys with values of every type.
fn sub() -> impl Strategy<Value = Value> {
    let id = prop_oneof![
        (0u64..20).prop_map(|id| json!(id)),
        (0u64..20).prop_map(|id| json!(id.to_string())),
        any::<u64>().prop_map(|id| json!(id)),
        any::<i64>().prop_map(|id| json!(id)),
        any::<u64>().prop_map(|id| json!(id.to_string())),
    ];
    let leaf = prop_oneof![
        4 => id,
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::Bool),
        1 => any::<f64>().prop_map(|float| json!(float)),
        1 => "[0-9a-z\\-\\. ]{0,25}".prop_map(Value::String),
    ];
    let key = prop_oneof!["[0-9]{1,22}", "typing", "members", "channels", "-?[a-z0-9]{0,5}"];
    let value = leaf.prop_recursive(4, 200, 12, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..12).prop_map(Value::Array),
            prop::collection::vec((key.clone(), inner), 0..12)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    });
    let known =
        prop_oneof!["typing", "activities", "threads", "member_updates", "members", "channels", "thread_member_lists"];
    prop::collection::vec((known, value), 0..7).prop_map(|entries| Value::Object(entries.into_iter().collect()))
}

fn assert_within_limits(subscription: &Subscription) {
    fn strictly_ascending<T: Ord>(ids: &[T]) -> bool {
        ids.windows(2).all(|pair| pair[0] < pair[1])
    }
    assert!(subscription.members.len() <= Subscription::MEMBERS_MAX && strictly_ascending(&subscription.members));
    assert!(subscription.thread_member_lists.len() <= Subscription::THREAD_LISTS_MAX);
    assert!(strictly_ascending(&subscription.thread_member_lists));
    assert!(subscription.channels.len() <= Subscription::CHANNELS_MAX);
    for channel in subscription.channels.iter() {
        assert!((1..=Subscription::RANGES_MAX).contains(&channel.ranges.len()));
        for range in &channel.ranges {
            assert!(range.first <= range.last && range.len() <= Subscription::RANGE_ROWS_MAX);
        }
    }
}

proptest! {
    #[test]
    fn b1_b3_anything_merges_within_limits_and_once(subs in prop::collection::vec(sub(), 1..5)) {
        let mut subscription = Subscription::default();
        for sub in &subs {
            let patch = parse_one(sub);
            subscription.merge(patch.clone());
            assert_within_limits(&subscription);
            let once = subscription.clone();
            subscription.merge(patch);
            prop_assert_eq!(&subscription, &once);
        }
    }

    #[test]
    fn any_payload_is_read_or_refused(d in sub()) {
        let _ = GuildSubscriptions::parse_single(&d);
        let _ = GuildSubscriptions::parse_bulk(&d);
        let wrapped = json!({"guild_id": "1", "subscriptions": {"1": d, "2": [[]], "x": d}});
        prop_assert_eq!(GuildSubscriptions::parse_single(&wrapped).unwrap().patches.len(), 1);
        prop_assert_eq!(GuildSubscriptions::parse_bulk(&wrapped).unwrap().patches.len(), 1);
    }
}
