//! Community settings: welcome screen, onboarding, the invite by vanity URL, templates.
//!
//! Owns        the commands of these; the features of the guild that name what is enabled.
//! Invariants  M1 what is read names only channels and roles that exist. M2 an account that joins by the vanity URL is
//!             counted once, with its joining. M3 an option gives roles that its author could hand out. (tests
//!             `community::m1_*` …)
//! Limits      one welcome screen, one onboarding and one template per guild, as upstream; `TEMPLATE_OVERWRITES_MAX`.
//!             The parser bounds lists and texts.
//! Not here    that a vanity code is unique: `guildhall-rest` claims it in the store before.
//!             Spec  docs/protocol/choices.md "Community".

use crate::{
    audit::{self, NewEntry},
    check::GuildContext,
    command::{
        CommandResult, InviteReply, NewTemplate, OnboardingPatch, Refusal, TemplatePatch, TemplateReply,
        WelcomeScreenPatch,
    },
    machine::Guild,
    turn::Turn,
};
use guildhall_model::{
    AuditAction, Channel, ChannelId, ChannelType, EventName, GuildResource, GuildTemplate, Id, Invite, InviteCode,
    Member, Onboarding, OnboardingAnswers, OnboardingOption, OnboardingPrompt, Permissions, ReactionEmoji, ResourceKey,
    ResourceKind, RoleId, TemplateSource, User, WelcomeScreen,
};
use guildhall_stdx::{Now, Timestamp};
use std::{collections::BTreeSet, sync::Arc};

/// Feature of a guild whose welcome screen is enabled, as upstream.
const WELCOME_SCREEN_ENABLED: &str = "WELCOME_SCREEN_ENABLED";
/// Feature of a guild whose onboarding is enabled, as upstream.
const GUILD_ONBOARDING: &str = "GUILD_ONBOARDING";
/// Feature of a guild with a vanity URL: libraries read its code and its uses only then.
pub(crate) const VANITY_URL: &str = "VANITY_URL";
/// Channels that an enabled onboarding needs, as upstream.
const ONBOARDING_CHANNELS_MIN: usize = 7;
/// Those of them in which all members may write.
const ONBOARDING_OPEN_CHANNELS_MIN: usize = 5;
/// Overwrites of roles in a template: a megabyte.
const TEMPLATE_OVERWRITES_MAX: usize = 10_000;

/// A prompt or an option, and when a client has shown it.
type Seen = (Id<()>, Timestamp);

/// Adds a feature, or takes it away.
pub(crate) fn set_feature(features: &mut Vec<String>, feature: &str, is_set: bool) {
    features.retain(|own| own != feature);
    if is_set {
        features.push(feature.to_owned());
    }
}

impl Guild {
    fn has_emoji(&self, emoji: Option<&ReactionEmoji>) -> bool {
        let id = emoji.and_then(|emoji| emoji.id);
        id.is_none_or(|id| self.structure.guild.emojis.iter().any(|own| own.id == id))
    }

    /// A channel that is no category.
    fn is_room(&self, id: ChannelId) -> bool {
        self.structure.channels.get(&id).is_some_and(|channel| channel.kind != ChannelType::Category)
    }

    /// A backend that puts the whole guild does not name the features of what is enabled here.
    pub(crate) fn keep_features(&self, fields: &mut guildhall_model::Guild) {
        let resources = &self.resources;
        for (feature, is_enabled) in [
            (VANITY_URL, fields.vanity_url_code.is_some()),
            (WELCOME_SCREEN_ENABLED, resources.welcome_screen.as_ref().is_some_and(|screen| screen.enabled)),
            (GUILD_ONBOARDING, resources.onboarding.as_ref().is_some_and(|onboarding| onboarding.enabled)),
        ] {
            if is_enabled && !fields.features.iter().any(|own| own == feature) {
                fields.features.push(feature.to_owned());
            }
        }
    }

    /// Stores and publishes the guild with this feature, or without it.
    fn put_feature(&mut self, now: Now, feature: &str, is_set: bool) {
        let mut fields = guildhall_model::Guild::clone(&self.structure.guild);
        set_feature(&mut fields.features, feature, is_set);
        if fields.features.len() != self.structure.guild.features.len() {
            self.put_fields(now, fields);
        }
    }

    // Welcome screen.

    /// The screen, with channels that exist.
    fn welcome_screen(&self) -> Option<Arc<WelcomeScreen>> {
        let screen = self.resources.welcome_screen.as_ref()?;
        if screen.channels.iter().all(|channel| self.is_room(channel.channel_id)) {
            return Some(screen.clone());
        }
        let mut screen = WelcomeScreen::clone(screen);
        screen.channels.retain(|channel| self.is_room(channel.channel_id));
        Some(Arc::new(screen))
    }

    /// The screen if it is enabled: invites show it.
    pub(crate) fn shown_welcome_screen(&self) -> Option<Arc<WelcomeScreen>> {
        self.welcome_screen().filter(|screen| screen.enabled)
    }

    pub(crate) fn read_welcome_screen(&self, turn: Turn<'_>) -> CommandResult<Arc<WelcomeScreen>> {
        let context = self.in_guild(turn)?;
        let screen = self.welcome_screen().ok_or(Refusal::UnknownWelcomeScreen)?;
        if !screen.enabled {
            context.need(Permissions::MANAGE_GUILD)?;
        }
        Ok(screen)
    }

    pub(crate) fn update_welcome_screen(
        &mut self,
        turn: Turn<'_>,
        patch: &WelcomeScreenPatch,
    ) -> CommandResult<Arc<WelcomeScreen>> {
        self.in_guild(turn)?.need(Permissions::MANAGE_GUILD)?;
        let before = self.welcome_screen().unwrap_or_default();
        let mut screen = WelcomeScreen::clone(&before);
        screen.enabled = patch.enabled.unwrap_or(screen.enabled);
        if let Some(description) = &patch.description {
            screen.description.clone_from(description);
        }
        if let Some(channels) = &patch.channels {
            let is_valid = |channel: &guildhall_model::WelcomeChannel| {
                self.is_room(channel.channel_id) && self.has_emoji(channel.emoji.as_ref())
            };
            if !channels.iter().all(is_valid) {
                return Err(Refusal::InvalidForm("welcome_channels").into());
            }
            screen.channels.clone_from(channels);
        }
        if screen == *before && self.resources.welcome_screen.is_some() {
            return Ok(before);
        }
        // No refusals after this point.

        let screen = Arc::new(screen);
        self.resources.welcome_screen = Some(screen.clone());
        self.put_resource(GuildResource::WelcomeScreen(screen.clone()));
        self.put_feature(turn.now, WELCOME_SCREEN_ENABLED, screen.enabled);
        let entry = NewEntry::new(AuditAction::GuildUpdate, self.structure.id());
        let entry = entry.changed(audit::of_welcome_screen(&before), audit::of_welcome_screen(&screen));
        if entry.has_changes() {
            self.log(turn, entry);
        }
        Ok(screen)
    }

    // Onboarding.

    /// The onboarding, with channels and roles that exist.
    fn onboarding(&self) -> Onboarding {
        let mut onboarding = self.resources.onboarding.as_deref().cloned().unwrap_or_default();
        onboarding.default_channel_ids.retain(|id| self.is_room(*id));
        for option in onboarding.prompts.iter_mut().flat_map(|prompt| &mut prompt.options) {
            option.channel_ids.retain(|id| self.is_room(*id));
            option.role_ids.retain(|id| self.structure.roles.contains_key(id));
        }
        onboarding
    }

    pub(crate) fn read_onboarding(&self, turn: Turn<'_>) -> CommandResult<Arc<Onboarding>> {
        self.in_guild(turn)?;
        Ok(Arc::new(self.onboarding()))
    }

    pub(crate) fn update_onboarding(
        &mut self,
        turn: Turn<'_>,
        patch: &OnboardingPatch,
    ) -> CommandResult<Arc<Onboarding>> {
        let context = self.in_guild(turn)?;
        context.need(Permissions::MANAGE_GUILD | Permissions::MANAGE_ROLES)?;
        let before = self.onboarding();
        let mut onboarding = Onboarding {
            enabled: patch.enabled.unwrap_or(before.enabled),
            mode: patch.mode.unwrap_or(before.mode),
            default_channel_ids: patch
                .default_channel_ids
                .clone()
                .unwrap_or_else(|| before.default_channel_ids.clone()),
            prompts: patch.prompts.clone().unwrap_or_else(|| before.prompts.clone()),
        };
        if !onboarding.default_channel_ids.iter().all(|id| self.is_room(*id)) {
            return Err(Refusal::InvalidForm("default_channel_ids").into());
        }
        let options_before = || before.prompts.iter().flat_map(|prompt| &prompt.options);
        let roles_before: BTreeSet<RoleId> = options_before().flat_map(|option| option.role_ids.clone()).collect();
        for option in onboarding.prompts.iter().flat_map(|prompt| &prompt.options) {
            self.check_option(&context, option, &roles_before)?;
        }
        if onboarding.enabled && onboarding != before {
            self.need_onboarding_channels(&onboarding)?;
        }
        // No refusals after this point.

        let prompt_ids = before.prompts.iter().map(|prompt| prompt.id);
        let known: BTreeSet<Id<()>> = prompt_ids.chain(options_before().map(|option| option.id)).collect();
        self.give_ids(turn.now, known, &mut onboarding.prompts);
        if onboarding == before {
            return Ok(Arc::new(before));
        }
        let onboarding = Arc::new(onboarding);
        self.resources.onboarding = Some(onboarding.clone());
        self.put_resource(GuildResource::Onboarding(onboarding.clone()));
        self.put_feature(turn.now, GUILD_ONBOARDING, onboarding.enabled);
        self.log_onboarding(turn, &before, &onboarding);
        Ok(onboarding)
    }

    fn check_option(
        &self,
        context: &GuildContext,
        option: &OnboardingOption,
        roles_before: &BTreeSet<RoleId>,
    ) -> Result<(), Refusal> {
        for role_id in option.role_ids.iter().filter(|id| !roles_before.contains(id)) {
            self.check_hand_out(context, *role_id)?;
        }
        if option.channel_ids.iter().all(|id| self.is_room(*id)) && self.has_emoji(option.emoji.as_ref()) {
            Ok(())
        } else {
            Err(Refusal::InvalidForm("prompts"))
        }
    }

    /// The actor gets the roles of these options, and with `replaces` loses those of the other ones. The answers are
    /// kept with the member.
    pub(crate) fn answer_onboarding(
        &mut self,
        turn: Turn<'_>,
        chosen: &[Id<()>],
        (prompts_seen, options_seen): (&[Seen], &[Seen]),
        replaces: bool,
    ) -> CommandResult<Arc<Member>> {
        let context = self.in_guild(turn)?;
        context.need_free()?;
        let before = context.member.ok_or(Refusal::UnknownMember)?;
        let onboarding = self.onboarding();
        let options = || onboarding.prompts.iter().flat_map(|prompt| &prompt.options);
        let is_chosen = |option: &&OnboardingOption| chosen.contains(&option.id);
        let fits = |prompt: &OnboardingPrompt| {
            let count = prompt.options.iter().filter(is_chosen).count();
            let is_missing = count == 0 && prompt.required && prompt.in_onboarding;
            !is_missing && (count < 2 || !prompt.single_select)
        };
        let is_known = |id: &Id<()>| options().any(|option| option.id == *id);
        if !onboarding.enabled || !chosen.iter().all(is_known) || !onboarding.prompts.iter().all(fits) {
            return Err(Refusal::InvalidForm("onboarding_responses").into());
        }
        let mut roles: BTreeSet<RoleId> = before.roles.iter().copied().collect();
        if replaces {
            for role_id in options().flat_map(|option| &option.role_ids) {
                roles.remove(role_id);
            }
        }
        roles.extend(options().filter(is_chosen).flat_map(|option| &option.role_ids));
        let earlier =
            before.onboarding.as_deref().filter(|_| !replaces).map_or(&[][..], |answers| &answers.options[..]);
        let kept: BTreeSet<Id<()>> = chosen.iter().chain(earlier).copied().collect();
        let onboarding = Some(Box::new(OnboardingAnswers {
            options: kept.into_iter().filter(is_known).collect(),
            prompts_seen: prompts_seen.to_vec(),
            options_seen: options_seen.to_vec(),
        }));
        let flags = before.flags | Member::ONBOARDING_FLAGS;
        let member = Member { roles: roles.into_iter().collect(), flags, onboarding, ..Member::clone(&before) };
        if member == *before {
            return Ok(before);
        }
        Ok(self.put_member(turn.now, EventName::GuildMemberUpdate, member))
    }

    /// Enough channels, and enough of them in which all members may write.
    fn need_onboarding_channels(&self, onboarding: &Onboarding) -> Result<(), Refusal> {
        let mut channels: BTreeSet<ChannelId> = onboarding.default_channel_ids.iter().copied().collect();
        if onboarding.mode == Onboarding::MODE_ADVANCED {
            let prompts = onboarding.prompts.iter().filter(|prompt| prompt.in_onboarding);
            channels.extend(prompts.flat_map(|prompt| &prompt.options).flat_map(|option| &option.channel_ids));
        }
        let needed = Permissions::VIEW_CHANNEL | Permissions::SEND_MESSAGES;
        let is_open = |id: &&ChannelId| {
            self.structure
                .channels
                .get(*id)
                .is_some_and(|channel| self.structure.everyone_permissions(channel).contains(needed))
        };
        let open_count = channels.iter().filter(is_open).count();
        if channels.len() < ONBOARDING_CHANNELS_MIN || open_count < ONBOARDING_OPEN_CHANNELS_MIN {
            return Err(Refusal::OnboardingRequirements);
        }
        Ok(())
    }

    /// Each known id stays where it is named first; every other prompt or option gets a new one.
    fn give_ids(&mut self, now: Now, mut known: BTreeSet<Id<()>>, prompts: &mut [OnboardingPrompt]) {
        for prompt in prompts {
            if !known.remove(&prompt.id) {
                prompt.id = self.next_id(now);
            }
            for option in &mut prompt.options {
                if !known.remove(&option.id) {
                    option.id = self.next_id(now);
                }
            }
        }
    }

    fn log_onboarding(&mut self, turn: Turn<'_>, before: &Onboarding, after: &Onboarding) {
        let find = |of: &Onboarding, id| of.prompts.iter().find(|prompt| prompt.id == id).cloned();
        for prompt in &after.prompts {
            let fields = audit::of_onboarding_prompt(prompt);
            let entry = match find(before, prompt.id) {
                Some(old) if old == *prompt => continue,
                Some(old) => NewEntry::new(AuditAction::OnboardingPromptUpdate, prompt.id)
                    .changed(audit::of_onboarding_prompt(&old), fields),
                None => NewEntry::new(AuditAction::OnboardingPromptCreate, prompt.id).made(fields),
            };
            self.log(turn, entry);
        }
        for prompt in before.prompts.iter().filter(|prompt| find(after, prompt.id).is_none()) {
            let entry = NewEntry::new(AuditAction::OnboardingPromptDelete, prompt.id);
            self.log(turn, entry.gone(audit::of_onboarding_prompt(prompt)));
        }
        let entry = NewEntry::untargeted(AuditAction::OnboardingUpdate);
        let entry = entry.changed(audit::of_onboarding(before), audit::of_onboarding(after));
        if entry.has_changes() {
            self.log(turn, entry);
        }
    }

    // Vanity URL.

    /// The invite by the vanity URL, into the first channel that a member without roles sees.
    fn vanity_invite(&self, code: &str) -> Result<Arc<Invite>, Refusal> {
        if self.structure.guild.vanity_url_code.as_deref() != Some(code) {
            return Err(Refusal::UnknownInvite);
        }
        let is_seen = |channel: &&Arc<Channel>| {
            channel.kind != ChannelType::Category
                && self.structure.everyone_permissions(channel).contains(Permissions::VIEW_CHANNEL)
        };
        let first = self
            .structure
            .channels
            .values()
            .filter(is_seen)
            .min_by_key(|channel| (!channel.kind.holds_messages(), channel.position, channel.id));
        Ok(Arc::new(Invite {
            // Not shown: the answer has the guild's own code.
            code: InviteCode::new(0),
            guild_id: self.structure.id(),
            channel_id: first.map_or(ChannelId::new(0), |channel| channel.id),
            inviter: None,
            created_at: Timestamp(0),
            max_age_s: 0,
            max_uses: 0,
            temporary: false,
            uses: self.resources.vanity_uses,
        }))
    }

    /// For any caller: the code suffices.
    pub(crate) fn read_vanity_invite(&self, code: &str) -> CommandResult<Box<InviteReply>> {
        Ok(self.invite_reply(self.vanity_invite(code)?))
    }

    /// The account joins. An account that is a member already is not counted.
    pub(crate) fn accept_vanity_invite(
        &mut self,
        now: Now,
        code: &str,
        user: &Arc<User>,
    ) -> CommandResult<Box<InviteReply>> {
        let invite = self.vanity_invite(code)?;
        if self.member(user.id).is_some() {
            return Ok(self.invite_reply(invite));
        }
        self.need_not_banned(user.id)?;
        // No refusals after this point.

        self.let_in(now, Member::new(user.clone(), now.unix));
        let uses = self.resources.vanity_uses.saturating_add(1);
        self.resources.vanity_uses = uses;
        self.put_resource(GuildResource::VanityUses(uses));
        Ok(self.invite_reply(Arc::new(Invite { uses, ..Invite::clone(&invite) })))
    }

    /// The uses of a code count from when it was chosen.
    pub(crate) fn reset_vanity_uses(&mut self) {
        if self.resources.vanity_uses != 0 {
            self.resources.vanity_uses = 0;
            self.delete_resource(ResourceKey::whole(ResourceKind::VanityUses, 0));
        }
    }

    // Templates.

    fn template_source(&self) -> TemplateSource {
        let structure = &self.structure;
        let roles = structure.roles.values().map(|role| &**role);
        TemplateSource::new(&structure.guild, roles, structure.channels.values().map(|channel| &**channel))
    }

    fn new_template_source(&self) -> Result<Arc<TemplateSource>, Refusal> {
        let source = self.template_source();
        let overwrites: usize = source.channels.iter().map(|channel| channel.overwrites.len()).sum();
        if overwrites > TEMPLATE_OVERWRITES_MAX { Err(Refusal::TemplateTooLarge) } else { Ok(Arc::new(source)) }
    }

    fn template_reply(&self, template: Arc<GuildTemplate>) -> Box<TemplateReply> {
        let is_dirty = *template.source != self.template_source();
        Box::new(TemplateReply { template, is_dirty })
    }

    fn need_template(&self, code: InviteCode) -> Result<Arc<GuildTemplate>, Refusal> {
        self.resources.template.clone().filter(|template| template.code == code).ok_or(Refusal::UnknownTemplate)
    }

    fn managed_template(&self, turn: Turn<'_>, code: InviteCode) -> Result<Arc<GuildTemplate>, Refusal> {
        self.in_guild(turn)?.need(Permissions::MANAGE_GUILD)?;
        self.need_template(code)
    }

    fn put_template(&mut self, template: GuildTemplate) -> Box<TemplateReply> {
        let template = Arc::new(template);
        self.resources.template = Some(template.clone());
        self.put_resource(GuildResource::Template(template.clone()));
        self.template_reply(template)
    }

    pub(crate) fn list_templates(&self, turn: Turn<'_>) -> CommandResult<Vec<TemplateReply>> {
        self.in_guild(turn)?.need(Permissions::MANAGE_GUILD)?;
        Ok(self.resources.template.iter().map(|template| *self.template_reply(template.clone())).collect())
    }

    pub(crate) fn create_template(&mut self, turn: Turn<'_>, new: &NewTemplate) -> CommandResult<Box<TemplateReply>> {
        let context = self.in_guild(turn)?;
        context.need(Permissions::MANAGE_GUILD)?;
        if self.resources.template.is_some() {
            return Err(Refusal::TemplateExists.into());
        }
        let source = self.new_template_source()?;
        Ok(self.put_template(GuildTemplate {
            code: new.code,
            name: new.name.clone(),
            description: new.description.clone(),
            creator: context.member.map(|member| member.user.clone()),
            created_at: turn.now.unix,
            updated_at: turn.now.unix,
            usage_count: 0,
            source,
        }))
    }

    pub(crate) fn update_template(
        &mut self,
        turn: Turn<'_>,
        code: InviteCode,
        patch: &TemplatePatch,
    ) -> CommandResult<Box<TemplateReply>> {
        let before = self.managed_template(turn, code)?;
        let TemplatePatch { name, description } = patch.clone();
        let template = GuildTemplate::clone(&before);
        let name = name.unwrap_or_else(|| before.name.clone());
        let description = description.unwrap_or_else(|| before.description.clone());
        Ok(self.put_template(GuildTemplate { name, description, ..template }))
    }

    /// Takes the guild's present structure over.
    pub(crate) fn sync_template(&mut self, turn: Turn<'_>, code: InviteCode) -> CommandResult<Box<TemplateReply>> {
        let before = self.managed_template(turn, code)?;
        let source = self.new_template_source()?;
        let before = GuildTemplate::clone(&before);
        Ok(self.put_template(GuildTemplate { source, updated_at: turn.now.unix, ..before }))
    }

    pub(crate) fn delete_template(&mut self, turn: Turn<'_>, code: InviteCode) -> CommandResult<Box<TemplateReply>> {
        let template = self.managed_template(turn, code)?;
        self.resources.template = None;
        self.delete_resource(ResourceKey::whole(ResourceKind::Template, code.number()));
        Ok(self.template_reply(template))
    }

    /// For any caller: the code suffices.
    pub(crate) fn read_template(&self, code: InviteCode) -> CommandResult<Box<TemplateReply>> {
        Ok(self.template_reply(self.need_template(code)?))
    }

    /// Counts a guild that was made from it.
    pub(crate) fn use_template(&mut self, turn: Turn<'_>, code: InviteCode) -> CommandResult<()> {
        self.in_guild(turn)?.need_system()?;
        let before = self.need_template(code)?;
        let template = GuildTemplate::clone(&before);
        let usage_count = template.usage_count.saturating_add(1);
        self.put_template(GuildTemplate { usage_count, ..template });
        Ok(())
    }
}
