//! Community settings: welcome screen, onboarding, joining by the vanity URL, templates.

use crate::fixture::*;
use guildhall_guild::{
    BackendCommand, Command, Guild, GuildLimits, GuildPatch, NewBan, NewGuild, NewTemplate, OnboardingPatch, Refusal,
    Reply, TemplateReply, WelcomeScreenPatch,
};
use guildhall_model::{
    AuditAction, ChannelId, ChannelType, FromTemplate, Guild as GuildFields, GuildId, Id, InviteCode, Onboarding,
    OnboardingOption, OnboardingPrompt, Permissions, RoleId, UserId, WelcomeChannel, WelcomeScreen,
};
use guildhall_stdx::Timestamp;
use std::sync::Arc;

const CODE: InviteCode = InviteCode::new(5);

fn option(title: &str, role_ids: Vec<RoleId>, channel_ids: Vec<ChannelId>) -> OnboardingOption {
    OnboardingOption { id: Id::new(0), title: title.to_owned(), description: None, emoji: None, role_ids, channel_ids }
}

fn prompt(options: Vec<OnboardingOption>) -> OnboardingPrompt {
    OnboardingPrompt {
        id: Id::new(0),
        kind: 0,
        title: "what?".to_owned(),
        single_select: false,
        required: false,
        in_onboarding: true,
        options,
    }
}

fn put_onboarding(world: &mut World, by: UserId, patch: OnboardingPatch) -> Result<Arc<Onboarding>, Refusal> {
    match world.by(by, Command::UpdateOnboarding(Box::new(patch)))? {
        Reply::Onboarding(onboarding) => Ok(onboarding),
        other => panic!("{other:?}"),
    }
}

fn put_screen(world: &mut World, by: UserId, patch: WelcomeScreenPatch) -> Result<Arc<WelcomeScreen>, Refusal> {
    match world.by(by, Command::UpdateWelcomeScreen(Box::new(patch)))? {
        Reply::WelcomeScreen(screen) => Ok(screen),
        other => panic!("{other:?}"),
    }
}

fn template(reply: Reply) -> TemplateReply {
    match reply {
        Reply::Template(reply) => *reply,
        other => panic!("{other:?}"),
    }
}

fn reload(world: &mut World) {
    let guild = Guild::load(world.store.record(), GuildLimits::default(), 3);
    world.begin_again(guild);
}

fn logged(world: &mut World) -> Vec<AuditAction> {
    let mut entries: Vec<_> = world
        .store
        .resources
        .values()
        .filter_map(|resource| match resource {
            guildhall_model::GuildResource::AuditEntry(entry) => Some((entry.id, entry.action)),
            _ => None,
        })
        .collect();
    entries.sort_unstable_by_key(|(id, _)| *id);
    entries.into_iter().map(|(_, action)| action).collect()
}

#[test]
fn m1_what_is_read_names_only_what_exists() {
    let mut world = World::populated();
    let (kept, gone) = (world.text_channel(), world.text_channel());
    let role = world.role(Permissions::NONE, 1);
    let channel = |channel_id| WelcomeChannel { channel_id, description: "here".to_owned(), emoji: None };
    let patch = WelcomeScreenPatch {
        enabled: Some(true),
        channels: Some(vec![channel(kept), channel(gone)]),
        ..WelcomeScreenPatch::default()
    };
    assert_eq!(put_screen(&mut world, ANA, patch.clone()).unwrap_err(), Refusal::MissingPermissions);
    let unknown = WelcomeScreenPatch { channels: Some(vec![channel(ChannelId::new(5))]), ..patch.clone() };
    assert_eq!(put_screen(&mut world, OWNER, unknown).unwrap_err(), Refusal::InvalidForm("welcome_channels"));
    put_screen(&mut world, OWNER, patch).expect("she may");
    let prompts = vec![prompt(vec![option("a", vec![role], vec![kept, gone])])];
    let patch = OnboardingPatch {
        default_channel_ids: Some(vec![gone, kept]),
        prompts: Some(prompts),
        ..OnboardingPatch::default()
    };
    put_onboarding(&mut world, OWNER, patch).expect("she may");
    world.system(Command::DeleteChannel(gone));
    world.system(Command::DeleteRole(role));
    reload(&mut world);
    let Ok(Reply::WelcomeScreen(screen)) = world.by(ANA, Command::ReadWelcomeScreen) else { panic!("a screen") };
    assert_eq!(screen.channels, [channel(kept)]);
    let Ok(Reply::Onboarding(onboarding)) = world.by(ANA, Command::ReadOnboarding) else { panic!("an onboarding") };
    assert_eq!(onboarding.default_channel_ids, [kept]);
    let option = &onboarding.prompts[0].options[0];
    assert_eq!((&option.channel_ids[..], &option.role_ids[..]), (&[kept][..], &[][..]));
}

#[test]
fn a_disabled_screen_is_for_managers_and_the_feature_follows() {
    let mut world = World::populated();
    assert_eq!(world.by(OWNER, Command::ReadWelcomeScreen).unwrap_err(), Refusal::UnknownWelcomeScreen);
    let described = WelcomeScreenPatch { description: Some(Some("hi".to_owned())), ..WelcomeScreenPatch::default() };
    put_screen(&mut world, OWNER, described).expect("she may");
    assert_eq!(world.by(ANA, Command::ReadWelcomeScreen).unwrap_err(), Refusal::MissingPermissions);
    let has_feature = |world: &mut World| {
        let Reply::Guild(reply) = world.system(Command::ReadGuild) else { panic!("a guild") };
        reply.structure.guild.features.iter().any(|feature| feature == "WELCOME_SCREEN_ENABLED")
    };
    assert!(!has_feature(&mut world));
    for enabled in [true, false] {
        let patch = WelcomeScreenPatch { enabled: Some(enabled), ..WelcomeScreenPatch::default() };
        put_screen(&mut world, OWNER, patch).expect("she may");
        // A backend knows nothing of it.
        let fields = GuildFields::new(GUILD, "guild", OWNER);
        world.backend(BackendCommand::PutGuild(Box::new(fields), None)).expect("it may");
        assert_eq!(has_feature(&mut world), enabled);
        assert_eq!(world.by(ANA, Command::ReadWelcomeScreen).is_ok(), enabled);
    }
    assert_eq!(logged(&mut world), [AuditAction::GuildUpdate; 3]);
}

#[test]
fn m2_joining_by_the_vanity_url_is_counted_once() {
    let mut world = World::populated();
    let channel = world.text_channel();
    let vanity = |code: Option<&str>| {
        let patch = GuildPatch { vanity_url_code: Some(code.map(Into::into)), ..GuildPatch::default() };
        Command::UpdateGuild(Box::new(patch))
    };
    let read = |world: &mut World, code: &str| world.by(NOBODY, Command::ReadVanityInvite(code.into()));
    assert_eq!(world.by(ANA, vanity(Some("ours"))).unwrap_err(), Refusal::MissingPermissions);
    assert_eq!(read(&mut world, "ours").unwrap_err(), Refusal::UnknownInvite);
    world.by(OWNER, vanity(Some("ours"))).expect("she may");
    let accept = Command::AcceptVanityInvite("ours".into(), user(NOBODY));
    for _ in 0..2 {
        let Ok(Reply::Invite(reply)) = world.by(NOBODY, accept.clone()) else { panic!("they join") };
        assert_eq!((reply.invite.uses, reply.invite.channel_id), (1, channel));
    }
    reload(&mut world);
    let Ok(Reply::Invite(reply)) = read(&mut world, "ours") else { panic!("an invite") };
    assert_eq!((reply.invite.uses, reply.member_count), (1, 5));
    assert_eq!(read(&mut world, "others").unwrap_err(), Refusal::UnknownInvite);
    world.system(Command::RemoveMember(NOBODY));
    let ban = NewBan { user: user(NOBODY), reason: None, delete_message_s: 0 };
    world.by(OWNER, Command::Ban(Box::new(ban))).expect("she may");
    assert_eq!(world.by(NOBODY, accept).unwrap_err(), Refusal::Banned);
    world.by(OWNER, vanity(Some("new"))).expect("she may");
    let Ok(Reply::Invite(reply)) = read(&mut world, "new") else { panic!("an invite") };
    assert_eq!(reply.invite.uses, 0, "another code begins at 0");
}

#[test]
fn m3_an_option_gives_roles_that_its_author_could_hand_out() {
    let mut world = World::populated();
    let (low, high) = (world.role(Permissions::NONE, 1), world.role(Permissions::NONE, 9));
    world.grant(ANA, Permissions::MANAGE_GUILD | Permissions::MANAGE_ROLES, 5);
    world.grant(BOB, Permissions::MANAGE_GUILD, 5);
    let with = |roles: &[RoleId]| OnboardingPatch {
        prompts: Some(vec![prompt(vec![option("a", roles.to_vec(), Vec::new())])]),
        ..OnboardingPatch::default()
    };
    assert_eq!(put_onboarding(&mut world, BOB, with(&[low])).unwrap_err(), Refusal::MissingPermissions);
    assert_eq!(put_onboarding(&mut world, ANA, with(&[high])).unwrap_err(), Refusal::MissingPermissions);
    assert_eq!(put_onboarding(&mut world, ANA, with(&[GUILD.cast()])).unwrap_err(), Refusal::InvalidRole);
    put_onboarding(&mut world, ANA, with(&[low])).expect("below hers");
    put_onboarding(&mut world, OWNER, with(&[high])).expect("the owner's");
    // The role of the owner stays while Ana changes another field.
    put_onboarding(&mut world, ANA, with(&[high, low])).expect("it was there");
}

#[test]
fn prompts_keep_their_ids_and_each_change_is_logged() {
    let mut world = World::populated();
    let channel = world.text_channel();
    let new = || prompt(vec![option("a", Vec::new(), vec![channel]), option("b", Vec::new(), vec![channel])]);
    let patch = |prompts| OnboardingPatch { prompts: Some(prompts), ..OnboardingPatch::default() };
    let made = put_onboarding(&mut world, OWNER, patch(vec![new(), new()])).expect("she may");
    let ids = |onboarding: &Onboarding| -> Vec<u64> {
        let of = |prompt: &OnboardingPrompt| {
            [prompt.id]
                .into_iter()
                .chain(prompt.options.iter().map(|option| option.id))
                .map(Id::get)
                .collect::<Vec<_>>()
        };
        onboarding.prompts.iter().flat_map(of).collect()
    };
    let first = ids(&made);
    assert_eq!(first.iter().collect::<std::collections::BTreeSet<_>>().len(), 6);
    reload(&mut world);
    let mut prompts = made.prompts.clone();
    prompts[1].title = "who?".to_owned();
    // The same again gets ids of its own.
    prompts.push(prompts[0].clone());
    let changed = put_onboarding(&mut world, OWNER, patch(prompts)).expect("she may");
    let second = ids(&changed);
    assert_eq!(second[..6], first);
    assert!(second[6..].iter().all(|id| !first.contains(id)) && second.len() == 9);
    put_onboarding(&mut world, OWNER, patch(changed.prompts[1..].to_vec())).expect("she may");
    use AuditAction as A;
    let expected = [
        A::OnboardingPromptCreate,
        A::OnboardingPromptCreate,
        A::OnboardingUpdate,
        A::OnboardingPromptUpdate,
        A::OnboardingPromptCreate,
        A::OnboardingUpdate,
        A::OnboardingPromptDelete,
        A::OnboardingUpdate,
    ];
    assert_eq!(logged(&mut world), expected);
}

#[test]
fn an_enabled_onboarding_needs_channels() {
    let mut world = World::populated();
    let open: Vec<ChannelId> = (0..5).map(|_| world.text_channel()).collect();
    let closed: Vec<ChannelId> = (0..2)
        .map(|_| {
            let overwrites = vec![deny_everyone(Permissions::SEND_MESSAGES)];
            world.channel(guildhall_guild::NewChannel { overwrites, ..new_channel("closed", ChannelType::Text) })
        })
        .collect();
    let enable = |ids: &[ChannelId], mode| OnboardingPatch {
        enabled: Some(true),
        mode: Some(mode),
        default_channel_ids: Some(ids.to_vec()),
        ..OnboardingPatch::default()
    };
    let all = [&open[..], &closed[..]].concat();
    for ids in [&open[..], &all[1..]] {
        let refused = put_onboarding(&mut world, OWNER, enable(ids, 0)).unwrap_err();
        assert_eq!(refused, Refusal::OnboardingRequirements);
    }
    put_onboarding(&mut world, OWNER, enable(&all, 0)).expect("seven, of which five are open");
    // The channels of the questions count in the other mode.
    let prompts = vec![prompt(vec![option("a", Vec::new(), closed)])];
    let patch = OnboardingPatch { prompts: Some(prompts), ..enable(&open, 0) };
    assert_eq!(put_onboarding(&mut world, OWNER, patch.clone()).unwrap_err(), Refusal::OnboardingRequirements);
    put_onboarding(&mut world, OWNER, OnboardingPatch { mode: Some(1), ..patch }).expect("they count");
}

#[test]
fn answers_give_roles_and_later_ones_take_them_back() {
    let mut world = World::populated();
    let open: Vec<ChannelId> = (0..7).map(|_| world.text_channel()).collect();
    let (red, blue, other) =
        (world.role(Permissions::NONE, 1), world.role(Permissions::NONE, 1), world.role(Permissions::NONE, 1));
    world.system(Command::AddMemberRole(ANA, other));
    let question = OnboardingPrompt {
        single_select: true,
        required: true,
        ..prompt(vec![option("red", vec![red], Vec::new()), option("blue", vec![blue], Vec::new())])
    };
    let patch = OnboardingPatch {
        default_channel_ids: Some(open),
        prompts: Some(vec![question]),
        ..OnboardingPatch::default()
    };
    let made = put_onboarding(&mut world, OWNER, patch).expect("she may");
    let ids: Vec<Id<()>> = made.prompts[0].options.iter().map(|option| option.id).collect();
    let answer = |world: &mut World, options: &[Id<()>], replaces| {
        let (options, prompts_seen) = (options.to_vec(), Box::from([(Id::new(1), Timestamp(5))]));
        world.by(ANA, Command::AnswerOnboarding { options, replaces, prompts_seen, options_seen: Box::default() })
    };
    let invalid = Refusal::InvalidForm("onboarding_responses");
    assert_eq!(answer(&mut world, &ids[..1], false).unwrap_err(), invalid, "it is not enabled");
    put_onboarding(&mut world, OWNER, OnboardingPatch { enabled: Some(true), ..OnboardingPatch::default() })
        .expect("she may");
    for wrong in [&[][..], &ids[..], &[Id::new(5)][..]] {
        assert_eq!(answer(&mut world, wrong, false).unwrap_err(), invalid, "{wrong:?}");
    }
    answer(&mut world, &ids[..1], false).expect("she may");
    let member = world.member(ANA);
    assert_eq!((&member.roles[..], member.flags), (&[red, other][..], 2 | 8));
    answer(&mut world, &ids[1..], true).expect("she may");
    assert_eq!(world.member(ANA).roles[..], [blue, other]);
    let kept = |world: &mut World| world.member(ANA).onboarding.clone().expect("she has answered");
    assert_eq!((&kept(&mut world).options[..], kept(&mut world).prompts_seen.len()), (&ids[1..], 1));
    reload(&mut world);
    assert_eq!(kept(&mut world).options[..], ids[1..]);
    // First answers add to those that are there. She leaves with them.
    answer(&mut world, &ids[..1], false).expect("she may");
    assert_eq!(kept(&mut world).options, ids);
}

#[test]
fn a_template_is_made_synchronized_and_used() {
    let mut world = World::populated();
    let channel = world.text_channel();
    let new = |code| Command::CreateTemplate(Box::new(NewTemplate { code, name: "t".to_owned(), description: None }));
    assert_eq!(world.by(ANA, new(CODE)).unwrap_err(), Refusal::MissingPermissions);
    let made = template(world.by(OWNER, new(CODE)).expect("she may"));
    assert!(!made.is_dirty && made.template.source.channels.len() == 1);
    assert_eq!(world.by(OWNER, new(InviteCode::new(6))).unwrap_err(), Refusal::TemplateExists);
    world.say(OWNER, channel, "messages are no part of it");
    assert!(!template(world.system(Command::ReadTemplate(CODE))).is_dirty);
    world.role(Permissions::NONE, 1);
    assert!(template(world.system(Command::ReadTemplate(CODE))).is_dirty);
    let synced = template(world.by(OWNER, Command::SyncTemplate(CODE)).expect("she may"));
    assert!(!synced.is_dirty && synced.template.source.roles.len() == 2);
    world.system(Command::UseTemplate(CODE));
    reload(&mut world);
    let read = template(world.system(Command::ReadTemplate(CODE))).template;
    assert_eq!((read.usage_count, &read.source), (1, &synced.template.source));

    // A guild of it has all of it from the beginning.
    let guild_id = GuildId::new(1 << 30);
    let FromTemplate { guild, roles, channels } =
        read.source.instantiate(guild_id, (1..).map(|n| Id::new((1 << 40) + n)));
    let guild = GuildFields { owner_id: EVE, ..guild };
    let mut made =
        Guild::create(world.now, NewGuild { guild, owner: user(EVE), roles, channels }, GuildLimits::default(), 3);
    let mut store = NaiveStore::default();
    while let Some(output) = made.poll_output() {
        if let guildhall_guild::Output::Write(write) = output {
            store.apply(write);
        }
    }
    let record = store.record();
    assert_eq!((record.roles.len(), record.channels.len(), record.members.len()), (2, 1, 1));
    assert!(record.channels.iter().all(|channel| channel.guild_id == guild_id));

    let gone = Command::DeleteTemplate(CODE);
    assert_eq!(world.by(ANA, gone.clone()).unwrap_err(), Refusal::MissingPermissions);
    world.by(OWNER, gone).expect("she may");
    assert_eq!(
        world.command(guildhall_guild::Actor::System, Command::ReadTemplate(CODE)).unwrap_err(),
        Refusal::UnknownTemplate
    );
}
