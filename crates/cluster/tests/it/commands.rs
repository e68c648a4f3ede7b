//! Commands to a guild, and its answers.

use crate::{
    events::{backend_event, rules},
    examples::*,
    round_trip::{crossed, examples_of},
};
use guildhall_guild::{
    Actor, AllowedMentions, ArchivedThreads, Audience, AuditQuery, AutoModPatch, BackendCommand, BulkRole, ChannelMove,
    ChannelPatch, Command, DirectCommand, EmojiPatch, Forward, GuildPatch, GuildReply, Imported, InteractionContext,
    InteractionQuery, InviteReply, Join, JoinAudience, MemberFilter, MemberPatch, MessagePatch, MessageReply, NewBan,
    NewChannel, NewDirect, NewEmoji, NewFollow, NewGuild, NewInvite, NewMember, NewMessage, NewPoll, NewRole,
    NewScheduledEvent, NewSticker, NewTemplate, NewThread, NewWebhook, OnboardingPatch, Page, Prune, PublicationId,
    ReactionCount, Refusal, Reply, ReplyTo, Response, ResponsePatch, RoleAction, RoleChange, RolePatch, RolesPut,
    ScheduledEventContent, StageContent, StickerPatch, TemplatePatch, TemplateReply, ThreadList, VoiceStatePatch,
    WebhookAccess, WebhookPatch, WebhookPost, WelcomeScreenPatch,
};
use guildhall_model::{
    AuditAction, AutoModRule, Ban, ChannelType, InviteCode, Message, Nonce, OverwriteKind, Permissions, ReactionEmoji,
    RoleIcon,
};
use std::sync::Arc;

fn new_message() -> NewMessage {
    NewMessage {
        content: "hello".to_owned(),
        nonce: Some(Nonce::Text("n".to_owned())),
        enforce_nonce: true,
        tts: true,
        embeds: vec![any_json()],
        components: vec![any_json()],
        attachments: vec![attachment().into()],
        sticker_ids: vec![id(61)],
        flags: 1 << 2,
        allowed_mentions: Some(allowed_mentions()),
        reply_to: Some(ReplyTo { message_id: id(4_999), fail_if_not_exists: true }),
        poll: Some(Box::new(NewPoll {
            question: "?".to_owned(),
            answers: poll().answers,
            duration_h: 24,
            allow_multiselect: true,
        })),
        forward: Some(Box::new(forward())),
    }
}

fn auto_mod_patch() -> AutoModPatch {
    let AutoModRule { name, trigger, actions, enabled, exempt_roles, exempt_channels, .. } = (*auto_mod_rule()).clone();
    AutoModPatch {
        name: Some(name),
        trigger: Some(trigger),
        actions: Some(actions),
        enabled: Some(enabled),
        exempt_roles: Some(exempt_roles),
        exempt_channels: Some(exempt_channels),
    }
}

fn forward() -> Forward {
    Forward { channel_id: id(100), message_id: id(5_000), guild_id: Some(id(1)), snapshot: Some(snapshot()) }
}

fn allowed_mentions() -> AllowedMentions {
    AllowedMentions {
        all_users: true,
        all_roles: true,
        everyone: true,
        users: user_ids(),
        roles: vec![id(901)],
        replied_user: true,
    }
}

fn message_patch() -> MessagePatch {
    MessagePatch {
        content: text(""),
        embeds: Some(vec![any_json()]),
        components: Some(Vec::new()),
        attachments: Some(vec![id(91)]),
        added: vec![attachment().into()],
        flags: Some(0),
        allowed_mentions: Some(allowed_mentions()),
    }
}

/// All fields with `value`: a new one, or none.
fn guild_patch(value: bool) -> GuildPatch {
    let text_or_none = || Some(value.then(|| "text".to_owned()));
    let picture = || Some(value.then(|| "hash".into()));
    GuildPatch {
        name: text("name"),
        description: text_or_none(),
        owner_id: Some(id(7)),
        afk_channel_id: Some(value.then(|| id(100))),
        afk_timeout: Some(900),
        verification_level: Some(4),
        default_message_notifications: Some(1),
        explicit_content_filter: Some(2),
        system_channel_id: Some(value.then(|| id(100))),
        preferred_locale: text("de"),
        icon: picture(),
        splash: picture(),
        discovery_splash: picture(),
        banner: picture(),
        vanity_url_code: Some(value.then(|| "ours".into())),
        widget_enabled: Some(value),
        widget_channel_id: Some(value.then(|| id(100))),
    }
}

fn role_patch(value: bool) -> RolePatch {
    RolePatch {
        name: text("role"),
        color: Some(7),
        hoist: Some(true),
        position: Some(-1),
        permissions: Some(Permissions::ALL),
        mentionable: Some(false),
        icon: Some(value.then(|| RoleIcon::Picture("hash".into()))),
    }
}

fn channel_patch(value: bool) -> ChannelPatch {
    ChannelPatch {
        name: text("name"),
        topic: Some(value.then(|| "topic".to_owned())),
        position: Some(-1),
        parent_id: Some(value.then(|| id(99))),
        nsfw: Some(true),
        rate_limit_per_user: Some(5),
        user_limit: Some(99),
        overwrites: Some(overwrites()),
        archived: Some(true),
        locked: Some(false),
        auto_archive_duration: Some(60),
        invitable: Some(true),
        applied_tags: Some(vec![id(41)]),
        bitrate: Some(64_000),
        default_thread_rate_limit_per_user: Some(value.then_some(5)),
        default_auto_archive_duration: Some(value.then_some(60)),
        available_tags: Some(vec![forum_tag()]),
        default_reaction_emoji: Some(value.then(default_reaction)),
        default_sort_order: Some(value.then_some(1)),
        default_forum_layout: Some(2),
        forum_flags: Some(16),
        owner_id: Some(id(7)),
    }
}

fn member_patch(value: bool) -> MemberPatch {
    MemberPatch {
        nick: Some(value.then(|| "nick".to_owned())),
        roles: Some(vec![id(901)]),
        mute: Some(true),
        deaf: Some(false),
        channel_id: Some(value.then(|| id(100))),
        communication_disabled_until: Some(value.then(|| at(60_000))),
        avatar: Some(value.then(|| "hash".into())),
        banner: Some(value.then(|| "hash".into())),
    }
}

fn scheduled_event_content() -> ScheduledEventContent {
    ScheduledEventContent {
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
    }
}

fn stage_content() -> StageContent {
    StageContent { topic: "stage".to_owned(), privacy_level: 2, guild_scheduled_event_id: Some(id(71)) }
}

fn new_member(n: u64) -> NewMember {
    NewMember {
        user: user(n),
        nick: text("nick"),
        roles: vec![id(901)],
        joined_at: Some(at(0)),
        mute: true,
        deaf: true,
        flags: 7,
        communication_disabled_until: Some(at(60_000)),
    }
}

fn backend_commands() -> Vec<BackendCommand> {
    let mut examples = examples_of! { BackendCommand:
        PutGuild => BackendCommand::PutGuild(Box::new(guild()), Some(Arc::new(guild())));
        PutRole => BackendCommand::PutRole(Box::new(role(901).as_ref().clone()), Some(role(901)));
        PutChannel => BackendCommand::PutChannel(
            Box::new(channel(100, ChannelType::Forum).as_ref().clone()), Some(channel(100, ChannelType::Forum)),
        );
        PutMember => BackendCommand::PutMember(Box::new(new_member(7)), Some(member(7)));
        RefreshUser => BackendCommand::RefreshUser(user(7));
        ImportMembers => BackendCommand::ImportMembers {
            members: vec![new_member(7), new_member(8)], audience: JoinAudience::NewMember,
        };
        CompareMembers => BackendCommand::CompareMembers(vec![new_member(7)]);
        RemoveMembers => BackendCommand::RemoveMembers(user_ids());
        ChangeRoles => BackendCommand::ChangeRoles(vec![
            (id(7), RoleChange::Set(vec![id(901)])), (id(8), RoleChange::Add(id(901))), (id(9), RoleChange::Remove(id(901))),
        ]);
        ReassignMessages => BackendCommand::ReassignMessages { channel_id: id(100), ids: vec![id(5_000)], to: user(8) };
        PutRoles => BackendCommand::PutRoles(vec![role(901).as_ref().clone()]);
        SendMessage => BackendCommand::SendMessage {
            channel_id: id(100), author: user(7), message: Box::new(new_message()), key: text("key"),
        };
        // Imported messages have no nonce.
        ImportMessages => BackendCommand::ImportMessages(vec![Arc::new(Message {
            nonce: None, ..Message::clone(&message(5_000))
        })]);
        Publish => BackendCommand::Publish {
            rule: rules().swap_remove(1),
            event: backend_event("ROUND_STARTED", "{}"),
            id: Some(PublicationId([1, u64::MAX])),
        };
    };
    examples.push(BackendCommand::PutGuild(Box::new(guild()), None));
    examples.push(BackendCommand::ImportMembers { members: Vec::new(), audience: JoinAudience::AllMembers });
    examples
}

fn direct_commands() -> Vec<DirectCommand> {
    examples_of! { DirectCommand:
        Open => DirectCommand::Open;
        AddRecipient => DirectCommand::AddRecipient(user(7));
        RemoveRecipient => DirectCommand::RemoveRecipient(id(7));
    }
}

pub fn commands() -> Vec<Command> {
    let fire = || ReactionEmoji { id: None, name: "🔥".to_owned() };
    let moderator = || WebhookAccess::Actor(Actor::User(id(7)));
    let token = || WebhookAccess::Token("secret".to_owned());
    let mut examples = examples_of! { Command:
        ReadGuild => Command::ReadGuild;
        ReadChannel => Command::ReadChannel(id(100));
        ReadMember => Command::ReadMember(id(7));
        ReadMembers => Command::ReadMembers;
        SearchMembers => Command::SearchMembers { query: "an".to_owned(), limit: usize::MAX };
        ReadAudience => Command::ReadAudience(id(100));
        AuthorizeHistory => Command::AuthorizeHistory(id(100));
        ReadableChannels => Command::ReadableChannels { include_nsfw: true };
        AuthorizeFiles => Command::AuthorizeFiles(id(100), Some(id(5_000)));
        CreateMessage => Command::CreateMessage(id(100), Box::new(new_message()));
        EditMessage => Command::EditMessage(id(100), id(5_000), Box::new(message_patch()));
        DeleteMessage => Command::DeleteMessage(id(100), id(5_000));
        DeleteMessages => Command::DeleteMessages(id(100), vec![id(5_000), id(5_001)]);
        ExpireMessages => Command::ExpireMessages(id(100), id(5_000));
        Pin => Command::Pin(id(100), id(5_000));
        Unpin => Command::Unpin(id(100), id(5_000));
        ListPins => Command::ListPins(id(100));
        AddReaction => Command::AddReaction(id(100), id(5_000), fire());
        RemoveReaction => Command::RemoveReaction(id(100), id(5_000), fire(), id(7));
        ClearReactions => Command::ClearReactions(id(100), id(5_000), Some(fire()));
        ListAutoModRules => Command::ListAutoModRules;
        CreateAutoModRule => Command::CreateAutoModRule(Box::new(auto_mod_patch()));
        UpdateAutoModRule => Command::UpdateAutoModRule(id(80), Box::new(auto_mod_patch()));
        DeleteAutoModRule => Command::DeleteAutoModRule(id(80));
        Crosspost => Command::Crosspost(id(100), id(5_000));
        AddFollower => Command::AddFollower(id(100), follower());
        RemoveFollower => Command::RemoveFollower(id(100), id(31));
        ListFollowers => Command::ListFollowers(id(100));
        Follow => Command::Follow(id(100), Box::new(NewFollow { id: id(31), source: webhook_source() }));
        DeliverCrosspost => Command::DeliverCrosspost(id(31), Box::new(forward()));
        Vote => Command::Vote(id(100), id(5_000), vec![1, 2]);
        EndPoll => Command::EndPoll(id(100), id(5_000));
        StartTyping => Command::StartTyping(id(100));
        UpdateGuild => Command::UpdateGuild(Box::new(guild_patch(true)));
        DeleteGuild => Command::DeleteGuild;
        ReadWelcomeScreen => Command::ReadWelcomeScreen;
        UpdateWelcomeScreen => Command::UpdateWelcomeScreen(Box::new(WelcomeScreenPatch {
            enabled: Some(true), description: Some(None), channels: Some(welcome_screen().channels.clone()),
        }));
        ReadOnboarding => Command::ReadOnboarding;
        UpdateOnboarding => Command::UpdateOnboarding(Box::new(OnboardingPatch {
            enabled: Some(true), mode: Some(1), default_channel_ids: Some(vec![id(100)]),
            prompts: Some(onboarding().prompts.clone()),
        }));
        AnswerOnboarding => Command::AnswerOnboarding {
            options: vec![id(71)],
            replaces: true,
            prompts_seen: Box::new([(id(70), at(1))]),
            options_seen: Box::new([(id(71), at(2))]),
        };
        ReadVanityInvite => Command::ReadVanityInvite("ours".into());
        AcceptVanityInvite => Command::AcceptVanityInvite("ours".into(), user(7));
        ListTemplates => Command::ListTemplates;
        CreateTemplate => Command::CreateTemplate(Box::new(NewTemplate {
            code: InviteCode::new(5), name: "template".to_owned(), description: text("of a guild"),
        }));
        UpdateTemplate => Command::UpdateTemplate(InviteCode::new(5), Box::new(TemplatePatch {
            name: text("other"), description: Some(None),
        }));
        SyncTemplate => Command::SyncTemplate(InviteCode::new(5));
        DeleteTemplate => Command::DeleteTemplate(InviteCode::new(5));
        ReadTemplate => Command::ReadTemplate(InviteCode::new(5));
        UseTemplate => Command::UseTemplate(InviteCode::new(5));
        CreateRole => Command::CreateRole(Box::new(NewRole {
            id: Some(id(901)), name: "role".to_owned(), color: 7, hoist: true, position: 1, permissions: Permissions::ALL,
            managed: true, mentionable: true, icon: Some(RoleIcon::Emoji("🔥".into())),
        }));
        UpdateRole => Command::UpdateRole(id(901), Box::new(role_patch(true)));
        DeleteRole => Command::DeleteRole(id(901));
        MoveRoles => Command::MoveRoles(vec![(id(901), -1)]);
        MoveChannels => Command::MoveChannels(vec![
            ChannelMove { id: id(100), position: Some(1), parent_id: Some(None), lock_permissions: true },
            ChannelMove { id: id(101), position: None, parent_id: Some(Some(id(99))), lock_permissions: false },
            ChannelMove { id: id(102), position: None, parent_id: None, lock_permissions: false },
        ]);
        CreateEmoji => Command::CreateEmoji(Box::new(NewEmoji {
            id: Some(id(51)), name: "party".to_owned(), animated: true, roles: vec![id(901)],
        }));
        UpdateEmoji => Command::UpdateEmoji(id(51), Box::new(EmojiPatch { name: text("p"), roles: Some(vec![id(901)]) }));
        DeleteEmoji => Command::DeleteEmoji(id(51));
        CreateSticker => Command::CreateSticker(Box::new(NewSticker {
            id: Some(id(61)), name: "wave".to_owned(), description: text("a hand"), tags: "hi".to_owned(), format_type: 1,
        }));
        UpdateSticker => Command::UpdateSticker(id(61), Box::new(StickerPatch {
            name: text("wave"), description: Some(None), tags: text("hi"),
        }));
        DeleteSticker => Command::DeleteSticker(id(61));
        CreateScheduledEvent => Command::CreateScheduledEvent(Box::new(NewScheduledEvent {
            id: Some(id(71)), content: scheduled_event_content(),
        }));
        UpdateScheduledEvent => Command::UpdateScheduledEvent(id(71), Box::new(scheduled_event_content()));
        DeleteScheduledEvent => Command::DeleteScheduledEvent(id(71));
        FollowScheduledEvent => Command::FollowScheduledEvent(id(71));
        UnfollowScheduledEvent => Command::UnfollowScheduledEvent(id(71));
        CreateStage => Command::CreateStage(id(100), Box::new(stage_content()));
        UpdateStage => Command::UpdateStage(id(100), Box::new(stage_content()));
        DeleteStage => Command::DeleteStage(id(100));
        CreateChannel => Command::CreateChannel(Box::new(NewChannel {
            name: "channel".to_owned(), kind: ChannelType::Voice, topic: text("topic"), parent_id: Some(id(99)),
            position: Some(3), overwrites: overwrites(), user_limit: 99,
        }));
        UpdateChannel => Command::UpdateChannel(id(100), Box::new(channel_patch(true)));
        DeleteChannel => Command::DeleteChannel(id(100));
        CreateThread => Command::CreateThread(id(100), Box::new(NewThread {
            name: "thread".to_owned(), from: Some(id(5_000)), kind: Some(ChannelType::PrivateThread),
            auto_archive_duration: Some(60), invitable: true, rate_limit_per_user: Some(5),
            message: Some(Box::new(new_message())), applied_tags: vec![id(41)],
        }));
        AddThreadMember => Command::AddThreadMember(id(200), id(7));
        RemoveThreadMember => Command::RemoveThreadMember(id(200), id(7));
        ListThreads => Command::ListThreads;
        ListArchivedThreads => Command::ListArchivedThreads(id(100), ArchivedThreads {
            are_private: true, are_own: true, before: Some(at(0)), before_id: Some(id(5)), limit: 50,
        });
        ListThreadMembers => Command::ListThreadMembers(id(200));
        PutOverwrite => Command::PutOverwrite(id(100), overwrites()[1]);
        DeleteOverwrite => Command::DeleteOverwrite(id(100), OverwriteKind::Member(id(7)));
        AddMember => Command::AddMember(user(7));
        RefreshMember => Command::RefreshMember(user(7));
        UpdateMember => Command::UpdateMember(id(7), Box::new(member_patch(true)));
        AddMemberRole => Command::AddMemberRole(id(7), id(901));
        RemoveMemberRole => Command::RemoveMemberRole(id(7), id(901));
        Join => Command::Join(Box::new(Join {
            user: user(7), nick: text("nick"), roles: vec![id(901)], mute: true, deaf: true,
        }));
        Ban => Command::Ban(Box::new(NewBan { user: user(7), reason: text("why"), delete_message_s: 3_600 }));
        Unban => Command::Unban(id(7));
        ReadBan => Command::ReadBan(id(7));
        ListBans => Command::ListBans(Page::Before(id(7), 1_000));
        ReadAuditLog => Command::ReadAuditLog(AuditQuery {
            user_id: Some(id(7)), action: Some(AuditAction::GuildUpdate), target_id: Some(id(7)), before: Some(id(95)),
            after: Some(id(94)), limit: 100,
        });
        CreateInvite => Command::CreateInvite(id(100), Box::new(NewInvite {
            code: InviteCode::new(5), max_age_s: 60, max_uses: 1, temporary: true, is_unique: true,
        }));
        ReadInvite => Command::ReadInvite(InviteCode::new(5));
        DeleteInvite => Command::DeleteInvite(InviteCode::new(InviteCode::COUNT - 1));
        ListInvites => Command::ListInvites(Some(id(100)));
        AcceptInvite => Command::AcceptInvite(InviteCode::new(5), user(7));
        CreateWebhook => Command::CreateWebhook(id(100), Box::new(NewWebhook {
            id: Some(id(31)), name: "hook".to_owned(), avatar: text("face"), token: "secret".to_owned(),
        }));
        ReadWebhook => Command::ReadWebhook(id(31), moderator());
        ListWebhooks => Command::ListWebhooks(None);
        UpdateWebhook => Command::UpdateWebhook(id(31), token(), Box::new(WebhookPatch {
            name: text("hook"), avatar: Some(text("face")), channel_id: Some(id(100)),
        }));
        DeleteWebhook => Command::DeleteWebhook(id(31), WebhookAccess::Actor(Actor::System));
        ExecuteWebhook => Command::ExecuteWebhook(id(31), token(), Box::new(WebhookPost {
            message: new_message(), username: text("other"), avatar: text("face"), thread_id: Some(id(200)),
            thread_name: text("post"), applied_tags: vec![id(60)],
        }));
        ReadWebhookMessage => Command::ReadWebhookMessage(id(31), token(), Some(id(200)), id(5_000));
        EditWebhookMessage => Command::EditWebhookMessage(id(31), token(), None, id(5_000), Box::new(message_patch()));
        DeleteWebhookMessage => Command::DeleteWebhookMessage(id(31), token(), Some(id(200)), id(5_000));
        ReadInteraction => Command::ReadInteraction(id(100), Box::new(InteractionQuery {
            application: id(9), users: user_ids(), roles: vec![id(901)], channels: vec![id(100)],
        }));
        CreateResponse => Command::CreateResponse(id(100), Box::new(Response {
            application: id(9), interaction: Box::new(interaction()), message: new_message(), kind: 20,
            reply_to: Some(id(4_999)), is_deferred: true,
        }));
        EditResponse => Command::EditResponse(id(100), id(5_000), Box::new(ResponsePatch {
            application: id(9), interaction: Some(id(5_001)), patch: message_patch(),
        }));
        RemoveMember => Command::RemoveMember(id(7));
        Prune => Command::Prune(Box::new(Prune { roles: vec![id(901)], joined_before: at(0), counts_only: true }));
        BulkRole => Command::BulkRole(Box::new(BulkRole { role_id: id(901), action: RoleAction::Revoke, filter: MemberFilter {
            roles: vec![id(901)], no_roles_but: Some(Vec::new()), joined_before: Some(at(0)), offline: true,
            none_of: user_ids(),
        } }));
        ShowPresence => Command::ShowPresence(id(7), Some(presence()));
        ShowVoice => Command::ShowVoice(id(7), Some(id(100)));
        EmptyVoice => Command::EmptyVoice(id(100));
        ReadVoiceState => Command::ReadVoiceState(id(7));
        UpdateVoiceState => Command::UpdateVoiceState(id(7), VoiceStatePatch {
            channel_id: Some(id(100)), suppress: Some(false), request_to_speak_timestamp: Some(Some(at(1))),
        });
        Direct => Command::Direct(DirectCommand::Open);
        Backend => Command::Backend(Box::new(backend_commands().swap_remove(0)));
        WithReason => Command::WithReason("why".into(), Box::new(Command::Ban(Box::new(NewBan {
            user: user(7), reason: None, delete_message_s: 0,
        }))));
    };
    examples.extend(direct_commands().into_iter().map(Command::Direct));
    examples.extend(backend_commands().into_iter().map(|command| Command::Backend(Box::new(command))));
    // Fields that are to be emptied, and such that stay as they are.
    examples.extend([
        Command::UpdateVoiceState(
            id(7),
            VoiceStatePatch { request_to_speak_timestamp: Some(None), ..VoiceStatePatch::default() },
        ),
        Command::UpdateVoiceState(id(7), VoiceStatePatch::default()),
        Command::UpdateGuild(Box::new(guild_patch(false))),
        Command::UpdateGuild(Box::default()),
        Command::UpdateWelcomeScreen(Box::default()),
        Command::UpdateOnboarding(Box::default()),
        Command::UpdateTemplate(InviteCode::new(5), Box::default()),
        Command::UpdateRole(id(901), Box::new(role_patch(false))),
        Command::UpdateRole(id(901), Box::default()),
        Command::UpdateChannel(id(100), Box::new(channel_patch(false))),
        Command::UpdateChannel(id(100), Box::default()),
        Command::UpdateMember(id(7), Box::new(member_patch(false))),
        Command::UpdateMember(id(7), Box::default()),
        Command::UpdateEmoji(id(51), Box::default()),
        Command::UpdateSticker(id(61), Box::default()),
        Command::UpdateSticker(
            id(61),
            Box::new(StickerPatch { description: Some(text("a hand")), ..StickerPatch::default() }),
        ),
        Command::UpdateWebhook(id(31), token(), Box::default()),
        Command::UpdateWebhook(
            id(31),
            token(),
            Box::new(WebhookPatch { avatar: Some(None), ..WebhookPatch::default() }),
        ),
        Command::EditMessage(id(100), id(5_000), Box::default()),
        Command::CreateMessage(id(100), Box::default()),
        Command::CreateMessage(
            id(100),
            Box::new(NewMessage { nonce: Some(Nonce::Number(i64::MAX)), ..NewMessage::default() }),
        ),
        Command::CreateThread(id(100), Box::default()),
        Command::ListBans(Page::After(id(7), 0)),
        Command::ClearReactions(id(100), id(5_000), None),
        Command::ShowPresence(id(7), None),
    ]);
    examples
}

fn guild_reply() -> GuildReply {
    let replica = replica(3, 2, 0);
    GuildReply {
        structure: replica.structure,
        last_message_ids: replica.last_message_ids,
        member_count: u64::MAX,
        presence_count: 5,
        threads: replica.threads,
        visible_channels: vec![id(100), id(101)],
        permissions: Permissions::ALL,
    }
}

fn message_reply(referenced: Option<Option<Arc<guildhall_model::Message>>>) -> Reply {
    let emoji = ReactionEmoji { id: Some(id(51)), name: "party".to_owned() };
    let reactions = vec![ReactionCount { emoji, count: 3, me: true }];
    Reply::Message(Box::new(MessageReply { message: message(5_000), reactions, referenced }))
}

fn template_reply() -> TemplateReply {
    TemplateReply { template: template(), is_dirty: true }
}

pub fn replies() -> Vec<Reply> {
    let mut examples = examples_of! { Reply:
        Done => Reply::Done;
        Guild => Reply::Guild(Box::new(guild_reply()));
        Channel => Reply::Channel(channel(100, ChannelType::Text));
        Channels => Reply::Channels(vec![id(100), id(200)]);
        Direct => Reply::Direct(direct());
        Thread => Reply::Thread(Box::new((thread(200), Some(thread_member(200, 7)))));
        Threads => Reply::Threads(Box::new(ThreadList {
            threads: vec![thread(200), thread(201)], own: vec![thread_member(200, 7)], has_more: true,
        }));
        ThreadMembers => Reply::ThreadMembers(vec![
            (thread_member(200, 7), Some(member(7))), (thread_member(200, 8), None),
        ]);
        Emoji => Reply::Emoji(Box::new(emoji()));
        Sticker => Reply::Sticker(Box::new(sticker()));
        ScheduledEvent => Reply::ScheduledEvent(scheduled_event());
        Stage => Reply::Stage(Box::new(stage()));
        Role => Reply::Role(role(901));
        Member => Reply::Member(member(7));
        Members => Reply::Members(table(100));
        FoundMembers => Reply::FoundMembers(vec![member(7), member(8)]);
        Bans => Reply::Bans(vec![Arc::new(Ban { user: user(7), reason: text("why") })]);
        AuditLog => Reply::AuditLog(vec![audit_entry()]);
        Invite => Reply::Invite(Box::new(InviteReply {
            invite: invite(), structure: structure(2), member_count: 3, presence_count: 2,
            welcome_screen: Some(welcome_screen()),
        }));
        Invites => Reply::Invites(vec![invite()], structure(2));
        Webhook => Reply::Webhook(webhook());
        Webhooks => Reply::Webhooks(vec![webhook()]);
        AutoModRules => Reply::AutoModRules(vec![auto_mod_rule()]);
        AutoModRule => Reply::AutoModRule(auto_mod_rule());
        WelcomeScreen => Reply::WelcomeScreen(welcome_screen());
        Onboarding => Reply::Onboarding(onboarding());
        Template => Reply::Template(Box::new(template_reply()));
        Templates => Reply::Templates(vec![template_reply()]);
        Followers => Reply::Followers(vec![follower()]);
        Pins => Reply::Pins(vec![(id(5_000), at(0))]);
        Audience => Reply::Audience(Audience { member_count: 3, presence_count: 2 });
        Count => Reply::Count(u64::MAX);
        Created => Reply::Created(Box::new(Reply::Role(role(901))));
        Imported => Reply::Imported(Box::new(Imported { added: user_ids(), changed: 2, unchanged: 3 }));
        RolesPut => Reply::RolesPut(RolesPut { added: 1, changed: 2, unchanged: 3 });
        Message => message_reply(Some(Some(message(4_999))));
        VoiceState => Reply::VoiceState(Box::new(voice(7)));
        Interaction => Reply::Interaction(Box::new(InteractionContext {
            channel: channel(100, ChannelType::Text), guild: Some(Arc::new(guild())), member: Some(member(7)),
            permissions: Permissions::ALL, application_permissions: Some(Permissions::NONE), is_silenced: true,
            members: vec![(member(8), Permissions::ALL)], roles: vec![role(901)],
            channels: vec![(channel(100, ChannelType::Text), Permissions::ALL)],
        }));
        HistoryGrant => Reply::HistoryGrant { may_read_history: true };
    };
    examples.push(message_reply(Some(None)));
    examples.push(message_reply(None));
    examples.push(Reply::Thread(Box::new((thread(200), None))));
    examples
}

pub fn refusals() -> Vec<Refusal> {
    examples_of! { Refusal:
        UnknownGuild => Refusal::UnknownGuild;
        UnknownAutoModRule => Refusal::UnknownAutoModRule;
        TooManyRules => Refusal::TooManyRules;
        UnknownWelcomeScreen => Refusal::UnknownWelcomeScreen;
        OnboardingRequirements => Refusal::OnboardingRequirements;
        UnknownTemplate => Refusal::UnknownTemplate;
        TemplateExists => Refusal::TemplateExists;
        TemplateTooLarge => Refusal::TemplateTooLarge;
        InvalidMessageType => Refusal::InvalidMessageType;
        CrosspostedBefore => Refusal::CrosspostedBefore;
        TooManyFollowers => Refusal::TooManyFollowers;
        NoPoll => Refusal::NoPoll;
        PollExpired => Refusal::PollExpired;
        PollMessage => Refusal::PollMessage;
        PollEmoji => Refusal::PollEmoji;
        TooManyPolls => Refusal::TooManyPolls;
        UnknownChannel => Refusal::UnknownChannel;
        UnknownMessage => Refusal::UnknownMessage;
        UnknownMember => Refusal::UnknownMember;
        UnknownRole => Refusal::UnknownRole;
        UnknownEmoji => Refusal::UnknownEmoji;
        UnknownUser => Refusal::UnknownUser;
        UnknownBan => Refusal::UnknownBan;
        UnknownInvite => Refusal::UnknownInvite;
        UnknownWebhook => Refusal::UnknownWebhook;
        InvalidWebhookToken => Refusal::InvalidWebhookToken;
        Banned => Refusal::Banned;
        MissingAccess => Refusal::MissingAccess;
        MissingPermissions => Refusal::MissingPermissions;
        NotTheAuthor => Refusal::NotTheAuthor;
        NotATextChannel => Refusal::NotATextChannel;
        InvalidSticker => Refusal::InvalidSticker;
        EmptyMessage => Refusal::EmptyMessage;
        UnknownReference => Refusal::UnknownReference;
        TooManyReactions => Refusal::TooManyReactions;
        TooManyChannels => Refusal::TooManyChannels;
        TooManyRoles => Refusal::TooManyRoles;
        TooManyBans => Refusal::TooManyBans;
        TooManyInvites => Refusal::TooManyInvites;
        TooManyTemporaryMembers => Refusal::TooManyTemporaryMembers;
        TooManyWebhooks => Refusal::TooManyWebhooks;
        TooManyPins => Refusal::TooManyPins;
        UnknownSticker => Refusal::UnknownSticker;
        UnknownScheduledEvent => Refusal::UnknownScheduledEvent;
        UnknownStage => Refusal::UnknownStage;
        StageExists => Refusal::StageExists;
        TooManyEmojis => Refusal::TooManyEmojis;
        TooManyStickers => Refusal::TooManyStickers;
        TooManyScheduledEvents => Refusal::TooManyScheduledEvents;
        TooManyThreads => Refusal::TooManyThreads;
        TooManyThreadMembers => Refusal::TooManyThreadMembers;
        ThreadExists => Refusal::ThreadExists;
        ArchivedThread => Refusal::ArchivedThread;
        LockedThread => Refusal::LockedThread;
        TagRequired => Refusal::TagRequired;
        NeedsPostOrThread => Refusal::NeedsPostOrThread;
        PostOrThread => Refusal::PostOrThread;
        NoPostsByWebhook => Refusal::NoPostsByWebhook;
        NotInDirect => Refusal::NotInDirect;
        CannotMessage => Refusal::CannotMessage;
        TooManyDirects => Refusal::TooManyDirects;
        InvalidRecipient => Refusal::InvalidRecipient;
        TooManyRecipients => Refusal::TooManyRecipients;
        TooManyOverwrites => Refusal::TooManyOverwrites;
        UnknownOverwrite => Refusal::UnknownOverwrite;
        InvalidRole => Refusal::InvalidRole;
        NotInVoice => Refusal::NotInVoice;
        UnknownVoiceState => Refusal::UnknownVoiceState;
        WrongChannelType => Refusal::WrongChannelType;
        FinishedEvent => Refusal::FinishedEvent;
        InvalidForm => Refusal::InvalidForm("permission_overwrites");
        SlowMode => Refusal::SlowMode { retry_after_ms: u64::MAX };
        Blocked => Refusal::Blocked;
        BlockedBecause => Refusal::BlockedBecause("permission_overwrites");
        Changed => Refusal::Changed;
        Unavailable => Refusal::Unavailable;
        DiskFull => Refusal::DiskFull;
        DatabaseAway => Refusal::DatabaseAway;
        Internal => Refusal::Internal;
    }
}

#[test]
fn commands_cross() {
    for command in commands() {
        let received = crossed(&(Actor::User(id(7)), command));
        assert_eq!(received.0, Actor::User(id(7)));
    }
    crossed(&Actor::System);
    crossed(&NewGuild::new(guild(), user(50)));
    crossed(&NewDirect { id: id(300), recipients: vec![user(7), user(8)], is_group: true });
}

/// `Command::kind` knows the commands of backends and of direct messages, too.
#[test]
fn each_kind_of_command_has_an_example() {
    let examples: std::collections::BTreeSet<usize> = commands().iter().map(Command::kind).collect();
    for (kind, name) in Command::kind_names().iter().enumerate() {
        // They count as the command within.
        let is_wrapper = ["direct", "backend", "with_reason"].contains(&name.as_str());
        assert!(is_wrapper || examples.contains(&kind), "{name}");
    }
}

#[test]
fn replies_and_refusals_cross() {
    for reply in replies() {
        let reply: Result<Reply, Refusal> = Ok(reply);
        assert!(crossed(&reply).is_ok());
    }
    for refusal in refusals() {
        assert_eq!(crossed(&refusal), refusal);
        assert!(crossed(&Err::<Reply, _>(refusal)).is_err());
    }
}

/// A node keeps names of fields that others send; not too many, and no long ones.
#[test]
fn names_of_fields_are_kept_up_to_a_limit() {
    use guildhall_cluster::wire::{VERSION, decode, encode};
    #[derive(serde::Serialize)]
    enum Sent<'a> {
        InvalidForm(&'a str),
    }
    let received = |name: &str| decode::<Refusal>(VERSION, &encode(&Sent::InvalidForm(name))).expect("a refusal");
    // That of the examples first, so that other tests receive it.
    assert_eq!(received("permission_overwrites"), Refusal::InvalidForm("permission_overwrites"));
    assert_eq!(received(&"x".repeat(65)), Refusal::InvalidForm("request"));
    let kept = (0..1_000).filter(|n| received(&format!("field_{n}")) != Refusal::InvalidForm("request")).count();
    assert!((200..=256).contains(&kept), "{kept}");
    assert_eq!(received("field_0"), Refusal::InvalidForm("field_0"));
}
