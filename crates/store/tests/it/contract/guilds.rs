//! Guilds: structure and people.

use crate::support::*;
use guildhall_guild::Write;
use guildhall_model::{
    AuditAction, AuditChange, AuditEntry, Ban, Channel, ChannelType, Emoji, Guild, GuildId, GuildResource, Member,
    MemberPictures, Message, Overwrite, OverwriteKind, Permissions, Pin, ResourceKey, ResourceKind, Role, RoleIcon,
    User, UserId, Webhook,
};
use guildhall_stdx::Timestamp;
use guildhall_store::{Page, PictureOwner, Store, StoreError};
use std::sync::Arc;

pub async fn nothing_in_an_empty_store(store: &dyn Store) {
    store.commit(Vec::new()).await.unwrap();
    assert!(store.load_guild(id(1)).await.unwrap().is_none());
    assert_eq!(store.guild_ids(id(0), 10).await.unwrap(), []);
    assert_eq!(store.guild_of_channel(id(1)).await.unwrap(), None);
    assert_eq!(store.message(id(1), id(1)).await.unwrap(), None);
    for which in [Page::Newest, Page::Before(id(5)), Page::After(id(5)), Page::Around(id(5))] {
        assert_eq!(page(store, 1, which, 10).await, NONE);
    }
    assert_eq!(store.reaction_users(id(1), id(1), &unicode("🔥"), id(0), 10).await.unwrap(), []);
    assert_eq!(store.user(id(1)).await.unwrap(), None);
    assert_eq!(store.guilds_of_user(id(1), 10).await.unwrap(), []);
    assert_eq!(store.largest_id().await.unwrap(), 0);

    // Removing what is not there is no fault.
    let writes = vec![
        Write::DeleteGuild(id(1)),
        Write::DeleteRole(id(1), id(1)),
        Write::DeleteChannel(id(1), id(1)),
        Write::DeleteMember(id(1), id(1)),
        Write::DeleteMessage(id(1), id(1)),
        Write::RemoveReaction(id(1), id(1), unicode("🔥"), id(1)),
        Write::ClearReactions(id(1), id(1), Some(unicode("🔥"))),
        Write::ClearReactions(id(1), id(1), None),
    ];
    store.commit(writes).await.unwrap();
    assert_eq!(store.largest_id().await.unwrap(), 0);
}

pub async fn round_trip_of_a_guild(store: &dyn Store) {
    let mut full = guildhall_model::Guild::new(id(100), "Ünïcode 🏰 \"quoted\" \\ \u{0} name", id(7));
    full.icon = Some("a_1".to_owned());
    full.description = Some(String::new());
    full.afk_channel_id = Some(id(102));
    full.features = vec!["COMMUNITY".to_owned(), "ODD".to_owned()];
    full.emojis =
        vec![Emoji { id: id(900), name: "party".to_owned(), animated: true, roles: vec![id(103)], user: None }];

    let mut admin = guildhall_model::Role::clone(&role(103));
    admin.permissions = Permissions::ALL;
    admin.position = -1;
    admin.color = 0xff_ffff;

    let mut voice = Channel::new(id(102), id(100), ChannelType::Voice, "🔊");
    voice.topic = Some("t".repeat(1024));
    voice.parent_id = Some(id(101));
    voice.last_pin_timestamp = Some(Timestamp(-1));
    voice.overwrites = vec![
        Overwrite { target: OverwriteKind::Role(id(103)), allow: Permissions::ALL, deny: Permissions::NONE },
        Overwrite { target: OverwriteKind::Member(id(7)), allow: Permissions::NONE, deny: Permissions::ALL },
    ];

    let mut owner = User::new(id(7), "owner");
    owner.global_name = Some("The Owner 👑".to_owned());
    owner.bot = true;
    owner.application_flags = u32::MAX;
    let mut owner = Member::new(Arc::new(owner), Timestamp(1_600_000_000_001));
    owner.nick = Some("nick".into());
    owner.roles = (103..113).map(id).collect();
    owner.deaf = true;
    owner.mute = true;
    owner.flags = u32::MAX;
    owner.communication_disabled_until = Some(Timestamp(1_900_000_000_999));

    let writes = vec![
        Write::PutGuild(Arc::new(full.clone())),
        Write::PutRole(id(100), role(100)),
        Write::PutRole(id(100), Arc::new(admin.clone())),
        Write::PutChannel(Arc::new(voice.clone())),
        Write::PutChannel(channel(100, 101)),
        Write::PutMember(id(100), Arc::new(owner.clone())),
        Write::PutMember(id(100), member(3)),
    ];
    store.commit(writes).await.unwrap();

    let loaded = load(store, id(100)).await.unwrap();
    let expected = Loaded {
        guild: full,
        roles: vec![guildhall_model::Role::clone(&role(100)), admin],
        channels: vec![Channel::clone(&channel(100, 101)), voice],
        members: vec![Member::clone(&member(3)), owner],
    };
    assert_eq!(loaded, expected);
    assert_eq!(store.user(id(3)).await.unwrap(), Some(user(3)));
    assert_eq!(store.guild_of_channel(id(102)).await.unwrap(), Some(id(100)));
    assert_eq!(store.guild_of_channel(id(100)).await.unwrap(), None);
    assert_eq!(store.largest_id().await.unwrap(), 103);
}

pub async fn replace_and_delete(store: &dyn Store) {
    store.commit(guild_with_channels(100, &[101, 102])).await.unwrap();
    store.commit(vec![Write::PutRole(id(100), role(103))]).await.unwrap();
    let before = load(store, id(100)).await.unwrap();

    let mut renamed_guild = before.guild.clone();
    renamed_guild.name = "renamed".to_owned();
    let mut renamed_role = before.roles[1].clone();
    renamed_role.name = "renamed".to_owned();
    let mut renamed_channel = before.channels[1].clone();
    renamed_channel.name = "renamed".to_owned();
    let mut renamed_member = before.members[1].clone();
    renamed_member.nick = Some("renamed".into());
    let replace = vec![
        Write::PutGuild(Arc::new(renamed_guild.clone())),
        Write::PutRole(id(100), Arc::new(renamed_role.clone())),
        Write::PutChannel(Arc::new(renamed_channel.clone())),
        Write::PutMember(id(100), Arc::new(renamed_member.clone())),
    ];
    store.commit(replace).await.unwrap();
    let after = load(store, id(100)).await.unwrap();
    assert_eq!(after.guild, renamed_guild);
    assert_eq!(after.roles, [before.roles[0].clone(), renamed_role]);
    assert_eq!(after.channels, [before.channels[0].clone(), renamed_channel]);
    assert_eq!(after.members[1], renamed_member);
    assert_eq!(after.members.len(), before.members.len());

    let delete = vec![
        // Of another guild: nothing happens.
        Write::DeleteRole(id(999), id(103)),
        Write::DeleteChannel(id(999), id(102)),
        Write::DeleteMember(id(999), id(1)),
        Write::DeleteRole(id(100), id(100)),
        Write::DeleteChannel(id(100), id(101)),
        Write::DeleteMember(id(100), id(1)),
    ];
    store.commit(delete).await.unwrap();
    let last = load(store, id(100)).await.unwrap();
    assert_eq!(last.roles, after.roles[1..]);
    assert_eq!(last.channels, after.channels[1..]);
    assert_eq!(last.members, after.members[1..]);
    assert_eq!(store.user(id(1)).await.unwrap(), Some(user(1)), "accounts stay");
    assert_eq!(store.guild_of_channel(id(101)).await.unwrap(), None);
}

pub async fn deleting_a_channel_takes_its_messages(store: &dyn Store) {
    store.commit(guild_with_channels(100, &[101, 102])).await.unwrap();
    let fill = |channel_id| {
        vec![
            put_message(100, channel_id, 501),
            put_message(100, channel_id, 502),
            Write::AddReaction(id(channel_id), id(501), unicode("🔥"), id(1)),
        ]
    };
    store.commit([fill(101), fill(102)].concat()).await.unwrap();
    store.commit(vec![Write::DeleteChannel(id(100), id(101))]).await.unwrap();
    assert_eq!(page(store, 101, Page::Newest, 10).await, NONE);
    assert_eq!(store.message(id(101), id(501)).await.unwrap(), None);
    assert_eq!(store.reaction_users(id(101), id(501), &unicode("🔥"), id(0), 9).await.unwrap(), []);
    assert_eq!(page(store, 102, Page::Newest, 10).await, [502, 501]);
    assert_eq!(reactions(store, 102, 501).await, [(unicode("🔥"), vec![1])]);

    // A channel with the same id starts empty.
    store.commit(vec![Write::PutChannel(channel(100, 101)), put_message(100, 101, 501)]).await.unwrap();
    assert_eq!(page(store, 101, Page::Newest, 10).await, [501]);
    assert_eq!(reactions(store, 101, 501).await, []);
}

pub async fn deleting_a_guild_takes_everything_in_it(store: &dyn Store) {
    for n in [100, 200] {
        store.commit(guild_with_channels(n, &[n + 1])).await.unwrap();
        let react = Write::AddReaction(id(n + 1), id(n + 50), unicode("🔥"), id(1));
        store.commit(vec![put_message(n, n + 1, n + 50), react]).await.unwrap();
    }
    let other = load(store, id(200)).await;
    store.commit(vec![Write::DeleteGuild(id(100))]).await.unwrap();
    assert_eq!(load(store, id(100)).await, None);
    assert_eq!(store.guild_ids(id(0), 10).await.unwrap(), [id(200)]);
    assert_eq!(store.guild_of_channel(id(101)).await.unwrap(), None);
    assert_eq!(store.guilds_of_user(id(1), 10).await.unwrap(), [id(200)]);
    assert_eq!(page(store, 101, Page::Newest, 10).await, NONE);
    assert_eq!(load(store, id(200)).await, other);
    assert_eq!(reactions(store, 201, 250).await, [(unicode("🔥"), vec![1])]);

    store.commit(vec![Write::PutGuild(guild(100)), Write::PutChannel(channel(100, 101))]).await.unwrap();
    let again = load(store, id(100)).await.unwrap();
    assert_eq!((again.roles, again.members), (vec![], vec![]));
    assert_eq!(again.channels[0].last_message_id, None);
}

pub async fn one_account_in_several_guilds(store: &dyn Store) {
    for n in [100, 200] {
        store.commit(vec![Write::PutGuild(guild(n)), Write::PutMember(id(n), member(5))]).await.unwrap();
    }
    let account = async |guild_id: GuildId| {
        let record = store.load_guild(guild_id).await.unwrap().unwrap();
        Arc::clone(&record.members[0].user)
    };
    let (first, second) = (account(id(100)).await, account(id(200)).await);
    assert!(Arc::ptr_eq(&first, &second), "one object per account");

    let mut renamed = User::clone(&first);
    renamed.username = "renamed".to_owned();
    store.commit(vec![Write::PutUser(Arc::new(renamed.clone()))]).await.unwrap();
    assert_eq!(*account(id(100)).await, renamed);
    assert_eq!(*account(id(200)).await, renamed);
    assert_eq!(store.user(id(5)).await.unwrap().as_deref(), Some(&renamed));

    // A member may come with an account that is out of date.
    store.commit(vec![Write::PutMember(id(200), member(5))]).await.unwrap();
    assert_eq!(*account(id(100)).await, renamed);
    assert_eq!(*account(id(200)).await, renamed);
    assert_eq!(store.guilds_of_user(id(5), 10).await.unwrap(), [id(100), id(200)]);
}

pub async fn many_members(store: &dyn Store) {
    // Not a multiple of anything, and not in order.
    let ids: Vec<u64> = (0..3001).map(|n| (n * 7919) % 3001 + 10).collect();
    let mut writes = vec![Write::PutGuild(guild(1))];
    writes.extend(ids.iter().map(|n| Write::PutMember(id(1), member(*n))));
    writes.extend((1..=2).map(|n| Write::PutMember(id(1), member(n))));
    store.commit(writes).await.unwrap();
    let members = load(store, id(1)).await.unwrap().members;
    let expected: Vec<Member> = (1..=2).chain(10..3011).map(|n| Member::clone(&member(n))).collect();
    assert_eq!(members.len(), expected.len());
    assert!(members == expected);
}

pub async fn extreme_ids(store: &dyn Store) {
    let max = ID_MAX;
    let writes = vec![
        Write::PutGuild(guild(max)),
        Write::PutRole(id(max), role(max)),
        Write::PutChannel(channel(max, max)),
        Write::PutMember(id(max), member(max)),
        put_message(max, max, 0),
        put_message(max, max, max),
        put_message(max, max, max - 1),
        Write::AddReaction(id(max), id(max), custom(max, "m"), id(max)),
        Write::AddReaction(id(max), id(max), custom(0, "z"), id(max)),
    ];
    store.commit(writes).await.unwrap();
    let loaded = load(store, id(max)).await.unwrap();
    assert_eq!(loaded.members[0].user.id, UserId::new(max));
    assert_eq!(loaded.channels[0].last_message_id, Some(id(max)));
    assert_eq!(page(store, max, Page::Newest, 10).await, [max, max - 1, 0]);
    assert_eq!(page(store, max, Page::Before(id(max)), 10).await, [max - 1, 0]);
    assert_eq!(page(store, max, Page::Before(id(0)), 10).await, NONE);
    assert_eq!(page(store, max, Page::After(id(max)), 10).await, NONE);
    assert_eq!(page(store, max, Page::After(id(0)), 10).await, [max, max - 1]);
    assert_eq!(page(store, max, Page::Around(id(max)), u32::MAX).await, [max, max - 1, 0]);
    assert_eq!(reactions(store, max, max).await, [(custom(max, "m"), vec![max]), (custom(0, "z"), vec![max])]);
    assert_eq!(store.guilds_of_user(id(max), u32::MAX).await.unwrap(), [id(max)]);
    assert_eq!(store.guild_ids(id(max - 1), u32::MAX).await.unwrap(), [id(max)]);
    assert_eq!(store.guild_ids(id(max), 10).await.unwrap(), []);
    assert_eq!(store.largest_id().await.unwrap(), max);
}

pub async fn resources(store: &dyn Store) {
    store.commit(guild_with_channels(100, &[101])).await.unwrap();
    let ban =
        |n: u64, reason: &str| GuildResource::Ban(Arc::new(Ban { user: user(n), reason: Some(reason.to_owned()) }));
    let pin =
        |n: u64| GuildResource::Pin(Pin { channel_id: id(101), message_id: id(n), pinned_at: Timestamp(n as i64) });
    let kept = async |store: &dyn Store| {
        let mut kept = store.load_guild(id(100)).await.unwrap().unwrap().resources;
        kept.sort_by_key(GuildResource::key);
        kept
    };
    let put = |resource| Write::PutResource(id(100), resource);
    let guest = GuildResource::TemporaryMember(id(u64::MAX >> 1));
    let entry = GuildResource::AuditEntry(Arc::new(AuditEntry {
        id: id(u64::MAX >> 1),
        action: AuditAction::ChannelUpdate,
        user_id: id(7),
        target_id: Some(id(101)),
        changes: vec![AuditChange { key: "name".to_owned(), old_value: None, new_value: Some("🔥".into()) }],
        options: serde_json::Map::from_iter([("count".to_owned(), "1".into())]),
        reason: Some("because".to_owned()),
    }));
    store
        .commit(vec![
            put(ban(7, "no")),
            put(ban(8, "no")),
            put(pin(5)),
            put(pin(6)),
            put(guest.clone()),
            put(entry.clone()),
        ])
        .await
        .unwrap();
    store.commit(vec![put(ban(7, "yes")), Write::DeleteResource(id(100), ban(8, "").key())]).await.unwrap();
    assert_eq!(kept(store).await, [ban(7, "yes"), pin(5), pin(6), guest.clone(), entry.clone()]);
    assert_eq!(store.guild_of_resource(ResourceKind::Ban, 7).await.unwrap(), Some(id(100)));
    assert_eq!(store.guild_of_resource(ResourceKind::Invite, 7).await.unwrap(), None);
    for other in [90, 200, 300] {
        store.commit(guild_with_channels(other, &[other + 1])).await.unwrap();
        store.commit(vec![Write::PutResource(id(other), ban(7, "also"))]).await.unwrap();
    }
    let with_ban = async |user: u64, after, limit| store.guilds_with_ban(id(user), id(after), limit).await.unwrap();
    assert_eq!(with_ban(7, 0, 3).await, [id(90), id(100), id(200)]);
    assert_eq!(with_ban(7, 200, 3).await, [id(300)]);
    assert_eq!(with_ban(8, 0, 3).await, []);
    for other in [90, 200, 300] {
        store.commit(vec![Write::DeleteGuild(id(other))]).await.unwrap();
    }
    assert_eq!(with_ban(7, 0, 3).await, [id(100)]);
    // All parts at once; then what is not there.
    let pins = ResourceKey::whole(ResourceKind::Pin, 101);
    store.commit(vec![Write::DeleteResources(id(100), pins), Write::DeleteResource(id(9), pins)]).await.unwrap();
    let gone = [guest, entry].map(|gone| Write::DeleteResource(id(100), gone.key()));
    store.commit(gone.into()).await.unwrap();
    assert_eq!(kept(store).await, [ban(7, "yes")]);
    let dangling = store.commit(vec![put(ban(9, "")), Write::PutResource(id(4), ban(9, ""))]).await;
    assert!(matches!(dangling, Err(StoreError::Dangling { what: "guild resource" })), "{dangling:?}");
    assert_eq!(kept(store).await, [ban(7, "yes")], "all or none");
    store.commit(vec![Write::DeleteGuild(id(100))]).await.unwrap();
    assert_eq!(store.guild_of_resource(ResourceKind::Ban, 7).await.unwrap(), None);
}

pub async fn messages_of_an_author_since_an_id(store: &dyn Store) {
    store.commit(guild_with_channels(100, &[101])).await.unwrap();
    let writes = [(5, 1), (6, 2), (7, 1), (8, 1)]
        .map(|(n, author)| Write::PutMessage(Arc::new(Message { author: user(author), ..message(100, 101, n) })));
    store.commit(writes.into()).await.unwrap();
    assert_eq!(store.messages_by(id(101), id(1), id(6), 10).await.unwrap(), [id(7), id(8)]);
    assert_eq!(store.messages_by(id(101), id(1), id(0), 1).await.unwrap(), [id(5)]);
}

pub async fn pictures_are_in_use_while_their_owner_has_them(store: &dyn Store) {
    let of = [
        PictureOwner::User(id(1)),
        PictureOwner::User(id(70)),
        PictureOwner::Guild(id(100)),
        PictureOwner::Member(id(100), id(1)),
        PictureOwner::Guild(id(101)),
        PictureOwner::Member(id(101), id(1)),
    ];
    let in_use = async || -> Vec<Vec<String>> {
        let names = store.pictures_in_use(&of).await.unwrap().into_iter();
        names.map(|names| names.into_iter().collect()).collect()
    };
    assert_eq!(in_use().await, vec![Vec::<String>::new(); 6]);
    let ana = User { avatar: Some("u1".into()), banner: Some("u2".into()), ..User::clone(&user(1)) };
    let emoji = Emoji { id: id(9), name: "e".into(), animated: false, roles: Vec::new(), user: None };
    let fields = Guild {
        icon: Some("g1".into()),
        splash: Some("g2".into()),
        discovery_splash: Some("g3".into()),
        banner: Some("g4".into()),
        emojis: vec![emoji],
        ..Guild::clone(&guild(100))
    };
    let icon = |n, icon| Arc::new(Role { icon: Some(icon), ..Role::clone(&role(n)) });
    let pictures = MemberPictures { avatar: Some("m1".into()), banner: None };
    let member = Arc::new(Member { pictures: Some(Box::new(pictures)), ..Member::clone(&member(1)) });
    let hook: Webhook = serde_json::from_str(
        r#"{"id":"70","guild_id":"100","channel_id":"102","name":"hook","avatar":"w1","token":"t"}"#,
    )
    .unwrap();
    let mut writes = vec![
        Write::PutUser(Arc::new(ana)),
        Write::PutGuild(Arc::new(fields)),
        Write::PutGuild(guild(101)),
        Write::PutRole(id(100), icon(5, RoleIcon::Picture("r1".into()))),
        Write::PutRole(id(100), icon(6, RoleIcon::Emoji("🔥".into()))),
        Write::PutRole(id(101), icon(5, RoleIcon::Picture("r2".into()))),
        Write::PutMember(id(100), member.clone()),
        Write::PutMember(id(101), member),
    ];
    writes.push(Write::PutResource(id(100), GuildResource::Webhook(Arc::new(hook))));
    store.commit(writes).await.unwrap();
    let expected: [&[&str]; 6] =
        [&["u1", "u2"], &["w1"], &["emoji-9", "g1", "g2", "g3", "g4", "role-5-r1"], &["m1"], &["role-5-r2"], &["m1"]];
    assert_eq!(in_use().await, expected);
    let loaded = store.load_guild(id(100)).await.unwrap().unwrap();
    assert_eq!(loaded.members[0].avatar(), Some("m1"));
    // A webhook that goes alone, a member that leaves, a guild that goes with everything.
    let key = ResourceKey { kind: ResourceKind::Webhook, id: 70, part: 0 };
    store
        .commit(vec![
            Write::DeleteResource(id(100), key),
            Write::DeleteMember(id(100), id(1)),
            Write::DeleteGuild(id(101)),
            Write::PutUser(user(1)),
        ])
        .await
        .unwrap();
    let expected: [&[&str]; 6] = [&[], &[], &["emoji-9", "g1", "g2", "g3", "g4", "role-5-r1"], &[], &[], &[]];
    assert_eq!(in_use().await, expected);
}
