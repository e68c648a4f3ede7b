//! Objects in which every field has a value of its own. None is made by `..`: a new field needs an example.

use guildhall_guild_protocol::{GuildReplica, GuildStructure, MemberEntry, MemberTable, ThreadEntry, VoiceEntry};
use guildhall_model::{
    Activity, Attachment, AuditAction, AuditChange, AuditEntry, AutoModAction, AutoModExecution, AutoModRule,
    AutoModTrigger, Channel, ChannelId, ChannelType, ClientStatus, DefaultReaction, Direct, DirectFields, Emoji,
    Follower, ForumFields, ForumTag, Guild, GuildId, GuildTemplate, Id, Invite, InviteCode, Member, MemberPictures,
    Message, MessageId, MessageInteraction, MessageReference, MessageSnapshot, Nonce, Onboarding, OnboardingAnswers,
    OnboardingOption, OnboardingPrompt, Overwrite, OverwriteKind, Permissions, Platform, Poll, PollAnswer, Presence,
    ReactionEmoji, Role, RoleIcon, RoleId, ScheduledEvent, StageInstance, Status, Sticker, StickerItem, TemplateSource,
    ThreadFields, ThreadMember, User, UserId, VoiceState, Webhook, WebhookSource, WelcomeChannel, WelcomeScreen,
};
use guildhall_stdx::Timestamp;
use serde_json::{Value, json};
use smallvec::smallvec;
use std::sync::Arc;

/// A realistic id: of 2023.
pub fn id<T>(n: u64) -> Id<T> {
    Id::new((1_100_000 << 40) + n)
}

pub fn at(n: i64) -> Timestamp {
    Timestamp(1_700_000_000_000 + n)
}

pub fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

pub fn user(n: u64) -> Arc<User> {
    Arc::new(User {
        id: id(n),
        username: format!("user{n}"),
        discriminator: "0007".to_owned(),
        global_name: text("Üser 🔥"),
        avatar: text("a_1269e74af4df7417b13759eae50c83dc"),
        banner: Some("banner".into()),
        bot: true,
        public_flags: 1 << 16,
        application_flags: u32::MAX,
    })
}

pub fn member(n: u64) -> Arc<Member> {
    Arc::new(Member {
        user: user(n),
        nick: Some("nick".into()),
        roles: smallvec![id(901), id(902), id(903), id(904), id(905)],
        joined_at: at(-1),
        deaf: true,
        mute: true,
        flags: 1 << 7,
        communication_disabled_until: Some(at(60_000)),
        pictures: Some(Box::new(MemberPictures { avatar: Some("mine".into()), banner: Some("wide".into()) })),
        onboarding: Some(Box::new(OnboardingAnswers {
            options: vec![id(71)],
            prompts_seen: vec![(id(70), at(1))],
            options_seen: vec![(id(71), at(2))],
        })),
    })
}

/// Every kind of number that JSON has, and nesting.
pub fn any_json() -> Value {
    json!({"a": [null, true, -1, 0, u64::MAX, i64::MIN, 1.5, 1e300, "ä\n\"", {}, []], "z": {"b": {"c": [[]]}}, "": 1.0})
}

pub fn activity() -> Activity {
    let activity = json!({"name": "Chess", "type": 0, "created_at": 1_700_000_000_000_u64, "party": {"size": [1, 2]}});
    activity.as_object().cloned().unwrap_or_default()
}

pub fn presence() -> Arc<Presence> {
    let mut client_status = ClientStatus::default();
    client_status.raise(Platform::Desktop, Status::Dnd);
    client_status.raise(Platform::Vr, Status::Idle);
    Arc::new(Presence { status: Status::Dnd, activities: vec![activity(), activity()], client_status })
}

pub fn entry(n: u64) -> MemberEntry {
    MemberEntry { member: member(n), presence: n.is_multiple_of(2).then(presence) }
}

pub fn table(members_count: u64) -> MemberTable {
    let mut table: MemberTable = (1..=members_count).map(member).collect();
    for n in 1..=members_count {
        assert!(table.set_presence(id(n), entry(n).presence));
    }
    table
}

pub fn role(n: u64) -> Arc<Role> {
    Arc::new(Role {
        id: id(n),
        name: "role".to_owned(),
        color: 0x00FF_00FF,
        hoist: true,
        position: -3,
        permissions: Permissions::ALL,
        managed: true,
        mentionable: true,
        icon: Some(RoleIcon::Emoji("🔥".into())),
    })
}

pub fn overwrites() -> Vec<Overwrite> {
    vec![
        Overwrite { target: OverwriteKind::Role(id(901)), allow: Permissions::NONE, deny: Permissions::VIEW_CHANNEL },
        Overwrite { target: OverwriteKind::Member(id(7)), allow: Permissions::VIEW_CHANNEL, deny: Permissions::NONE },
    ]
}

pub fn thread_fields() -> ThreadFields {
    ThreadFields {
        owner_id: id(7),
        archived: true,
        archive_timestamp: at(5),
        auto_archive_duration: 4320,
        locked: true,
        invitable: true,
        message_count: 3,
        total_message_sent: 4,
        applied_tags: vec![id(41)],
    }
}

pub fn forum_tag() -> ForumTag {
    ForumTag { id: id(41), name: "tag".to_owned(), moderated: true, emoji_id: Some(id(51)), emoji_name: text("🔥") }
}

pub fn default_reaction() -> DefaultReaction {
    DefaultReaction { emoji_id: Some(id(51)), emoji_name: text("x") }
}

pub fn channel(n: u64, kind: ChannelType) -> Arc<Channel> {
    Arc::new(Channel {
        id: id(n),
        guild_id: id(1),
        kind,
        name: format!("channel-{n}"),
        position: -1,
        overwrites: overwrites(),
        parent_id: Some(id(99)),
        topic: text("topic"),
        nsfw: true,
        last_message_id: Some(id(5_000)),
        last_pin_timestamp: Some(at(1)),
        rate_limit_per_user: 5,
        bitrate: 64_000,
        user_limit: 99,
        default_thread_rate_limit_per_user: Some(6),
        default_auto_archive_duration: Some(60),
        forum: Some(Box::new(ForumFields {
            available_tags: vec![forum_tag()],
            default_reaction_emoji: Some(default_reaction()),
            default_sort_order: Some(1),
            default_forum_layout: 2,
            flags: ForumFields::REQUIRE_TAG,
        })),
        thread: Some(Box::new(thread_fields())),
        direct: Some(Box::new(DirectFields { owner_id: Some(id(7)), closed_by: vec![id(8)] })),
    })
}

pub fn emoji() -> Emoji {
    Emoji { id: id(51), name: "party".to_owned(), animated: true, roles: vec![id(901)], user: Some(user(7)) }
}

pub fn sticker() -> Sticker {
    Sticker {
        id: id(61),
        name: "wave".to_owned(),
        description: text("a hand"),
        tags: "hi".to_owned(),
        format_type: 4,
        user: Some(user(7)),
    }
}

pub fn scheduled_event() -> Arc<ScheduledEvent> {
    Arc::new(ScheduledEvent {
        id: id(71),
        creator_id: Some(id(7)),
        channel_id: Some(id(100)),
        name: "event".to_owned(),
        description: text("what"),
        scheduled_start_time: at(10),
        scheduled_end_time: Some(at(20)),
        privacy_level: 2,
        status: 1,
        entity_type: 3,
        entity_metadata: Some(any_json()),
        image: Some("cover".into()),
        followers: vec![id(7), id(8)],
    })
}

pub fn stage() -> StageInstance {
    StageInstance {
        id: id(81),
        guild_id: id(1),
        channel_id: id(100),
        topic: "stage".to_owned(),
        privacy_level: 2,
        guild_scheduled_event_id: Some(id(71)),
    }
}

pub fn guild() -> Guild {
    Guild {
        id: id(1),
        name: "guild".to_owned(),
        icon: text("icon"),
        splash: Some("splash".into()),
        discovery_splash: Some("discovery".into()),
        banner: Some("banner".into()),
        description: text("description"),
        owner_id: id(50),
        afk_channel_id: Some(id(100)),
        afk_timeout: 900,
        verification_level: 4,
        default_message_notifications: 1,
        explicit_content_filter: 2,
        system_channel_id: Some(id(101)),
        vanity_url_code: Some("ours".into()),
        widget_enabled: true,
        widget_channel_id: Some(id(100)),
        features: vec!["COMMUNITY".to_owned()],
        emojis: vec![emoji()],
        stickers: vec![sticker()],
        scheduled_events: vec![scheduled_event()],
        stage_instances: vec![stage()],
        is_direct: true,
        preferred_locale: "de".to_owned(),
    }
}

pub fn structure(channels_count: u64) -> Arc<GuildStructure> {
    let guild_id: GuildId = id(1);
    let everyone: RoleId = guild_id.cast();
    let kinds = [ChannelType::Text, ChannelType::Voice, ChannelType::Forum, ChannelType::Stage];
    let channels = (100..100 + channels_count).map(|n| (id(n), channel(n, kinds[n as usize % kinds.len()])));
    Arc::new(GuildStructure {
        guild: Arc::new(guild()),
        roles: Arc::new([(everyone, role(1)), (id(901), role(901))].into()),
        channels: Arc::new(channels.collect()),
    })
}

pub fn thread_member(thread: u64, n: u64) -> ThreadMember {
    ThreadMember { thread_id: id(thread), user_id: id(n), join_timestamp: at(3), flags: 1 }
}

pub fn thread(n: u64) -> ThreadEntry {
    ThreadEntry {
        channel: channel(n, ChannelType::PrivateThread),
        members: Arc::new([7, 8].map(|of| (id(of), thread_member(n, of))).into()),
    }
}

pub fn voice_state(n: u64) -> Arc<VoiceState> {
    Arc::new(VoiceState {
        channel_id: Some(id(100)),
        user_id: id(n),
        session_id: "session".to_owned(),
        deaf: true,
        mute: false,
        self_deaf: true,
        self_mute: false,
        self_video: true,
        suppress: true,
        request_to_speak_timestamp: Some(at(4)),
    })
}

pub fn voice(n: u64) -> VoiceEntry {
    VoiceEntry { state: voice_state(n), member: member(n) }
}

pub fn replica(channels_count: u64, threads_count: u64, voice_count: u64) -> GuildReplica {
    let structure = structure(channels_count);
    let newest = structure.channels.keys().map(|channel: &ChannelId| (*channel, MessageId::new(channel.get() + 1)));
    GuildReplica {
        last_message_ids: Arc::new(newest.collect()),
        voice: (1..=voice_count).map(|n| (id(n), voice(n))).collect(),
        threads: (20_000..20_000 + threads_count).map(|n| (id(n), thread(n))).collect(),
        structure,
    }
}

pub fn attachment() -> Attachment {
    Attachment {
        id: id(91),
        filename: "f.png".to_owned(),
        size: u64::MAX,
        url: "https://example.net/f.png".to_owned(),
        content_type: text("image/png"),
        description: text("alt"),
        height: Some(600),
        width: Some(800),
    }
}

pub fn message(n: u64) -> Arc<Message> {
    Arc::new(Message {
        id: id(n),
        channel_id: id(100),
        guild_id: Some(id(1)),
        author: user(7),
        content: "hello <@8> \u{0} 🔥".to_owned(),
        edited_timestamp: Some(at(9)),
        tts: true,
        mention_everyone: true,
        mentions: vec![user(8), user(9)],
        mention_roles: vec![id(901)],
        embeds: vec![any_json(), Value::Null],
        components: vec![any_json()],
        attachments: vec![attachment()],
        sticker_items: vec![StickerItem { id: id(61), name: "wave".to_owned(), format_type: 4 }],
        nonce: Some(Nonce::Number(-5)),
        pinned: true,
        kind: Message::KIND_REPLY,
        flags: 1 << 2,
        message_reference: Some(MessageReference { message_id: id(4_999), channel_id: id(100), guild_id: Some(id(1)) }),
        webhook_id: Some(id(31)),
        application_id: Some(id(9)),
        interaction: Some(Box::new(interaction())),
        poll: Some(Box::new(poll())),
        snapshots: vec![snapshot()],
    })
}

pub fn snapshot() -> MessageSnapshot {
    MessageSnapshot {
        kind: Message::KIND_REPLY,
        content: "hello".to_owned(),
        timestamp: at(7),
        edited_timestamp: Some(at(8)),
        flags: 1 << 2,
        mentions: vec![user(8)],
        mention_roles: vec![id(901)],
        embeds: vec![any_json()],
        components: vec![any_json()],
        attachments: vec![attachment()],
        sticker_items: vec![StickerItem { id: id(61), name: "wave".to_owned(), format_type: 4 }],
    }
}

pub fn poll() -> Poll {
    let emoji = ReactionEmoji { id: Some(id(61)), name: "wave".to_owned() };
    let answer = |id| PollAnswer { id, text: Some("yes".to_owned()), emoji: Some(emoji.clone()) };
    Poll {
        question: "?".to_owned(),
        answers: vec![answer(1), PollAnswer { text: None, emoji: None, ..answer(2) }],
        expires_at: at(9),
        allow_multiselect: true,
        results: Some(vec![3, 0]),
    }
}

pub fn interaction() -> MessageInteraction {
    let triggering = MessageInteraction {
        id: id(5_002),
        kind: 3,
        name: String::new(),
        user: user(7),
        original_response_message_id: None,
        interacted_message_id: Some(id(4_998)),
        triggering: None,
    };
    MessageInteraction {
        id: id(5_001),
        kind: 2,
        name: "ping".to_owned(),
        user: user(7),
        original_response_message_id: Some(id(4_999)),
        interacted_message_id: None,
        triggering: Some(Box::new(triggering)),
    }
}

pub fn invite() -> Arc<Invite> {
    Arc::new(Invite {
        code: InviteCode::new(123_456_789),
        guild_id: id(1),
        channel_id: id(100),
        inviter: Some(user(7)),
        created_at: at(0),
        max_age_s: 60,
        max_uses: 2,
        temporary: true,
        uses: 1,
    })
}

pub fn webhook() -> Arc<Webhook> {
    Arc::new(Webhook {
        id: id(31),
        guild_id: id(1),
        channel_id: id(100),
        name: "hook".to_owned(),
        avatar: text("face"),
        token: "secret".to_owned(),
        user: Some(user(7)),
        application_id: Some(id(32)),
        source: Some(webhook_source()),
    })
}

pub fn audit_entry() -> Arc<AuditEntry> {
    Arc::new(AuditEntry {
        id: id(95),
        action: AuditAction::MemberRoleUpdate,
        user_id: id(7),
        target_id: Some(id(8)),
        changes: vec![AuditChange { key: "$add".to_owned(), old_value: Some(any_json()), new_value: Some(json!(1)) }],
        options: activity(),
        reason: text("why"),
    })
}

pub fn direct() -> Direct {
    Direct { channel: channel(300, ChannelType::GroupDm), recipients: [user(7), user(8)].into() }
}

pub fn user_ids() -> Vec<UserId> {
    vec![id(7), id(8)]
}

pub fn webhook_source() -> Box<WebhookSource> {
    Box::new(WebhookSource {
        guild_id: id(2),
        guild_name: "elsewhere".to_owned(),
        guild_icon: text("icon"),
        channel_id: id(101),
        channel_name: "news".to_owned(),
    })
}

pub fn follower() -> Follower {
    Follower { channel_id: id(100), webhook_id: id(31), guild_id: id(2) }
}

pub fn auto_mod_rule() -> Arc<AutoModRule> {
    Arc::new(AutoModRule {
        id: id(80),
        name: "rule".to_owned(),
        creator_id: id(7),
        trigger: AutoModTrigger::Keyword {
            keyword_filter: vec!["*a".to_owned()],
            regex_patterns: vec!["a{2}".to_owned()],
            allow_list: vec!["ba".to_owned()],
        },
        actions: vec![
            AutoModAction::BlockMessage { custom_message: text("no") },
            AutoModAction::SendAlert { channel_id: id(100) },
            AutoModAction::Timeout { duration_s: 60 },
        ],
        enabled: true,
        exempt_roles: vec![id(901)],
        exempt_channels: vec![id(100)],
    })
}

pub fn auto_mod_execution() -> AutoModExecution {
    AutoModExecution {
        rule_id: id(80),
        trigger_kind: AutoModTrigger::MENTION_SPAM,
        action: AutoModAction::Timeout { duration_s: 60 },
        user_id: id(7),
        channel_id: id(100),
        message_id: Some(id(5_000)),
        alert_message_id: Some(id(5_001)),
        content: "hello".to_owned(),
        matched_keyword: text("*a"),
        matched_content: text("a"),
    }
}

fn reaction_emoji() -> Option<ReactionEmoji> {
    Some(ReactionEmoji { id: Some(id(51)), name: "party".to_owned() })
}

pub fn welcome_screen() -> Arc<WelcomeScreen> {
    let channel = WelcomeChannel { channel_id: id(100), description: "rules".to_owned(), emoji: reaction_emoji() };
    Arc::new(WelcomeScreen { enabled: true, description: text("hello"), channels: vec![channel] })
}

pub fn onboarding() -> Arc<Onboarding> {
    let option = OnboardingOption {
        id: id(71),
        title: "yes".to_owned(),
        description: text("why not"),
        emoji: reaction_emoji(),
        role_ids: vec![id(901)],
        channel_ids: vec![id(100)],
    };
    let prompt = OnboardingPrompt {
        id: id(70),
        kind: 1,
        title: "news?".to_owned(),
        single_select: true,
        required: true,
        in_onboarding: true,
        options: vec![option],
    };
    let (mode, default_channel_ids) = (Onboarding::MODE_ADVANCED, vec![id(100)]);
    Arc::new(Onboarding { enabled: true, mode, default_channel_ids, prompts: vec![prompt] })
}

pub fn template() -> Arc<GuildTemplate> {
    let structure = structure(2);
    let roles = structure.roles.values().map(|role| &**role);
    let channels = structure.channels.values().map(|channel| &**channel);
    Arc::new(GuildTemplate {
        code: InviteCode::new(5),
        name: "template".to_owned(),
        description: text("of a guild"),
        creator: Some(user(7)),
        created_at: at(1),
        updated_at: at(2),
        usage_count: 3,
        source: Arc::new(TemplateSource::new(&structure.guild, roles, channels)),
    })
}
