//! Fan-out: the recipients of an event.
//!
//! Doors       `AudienceIndex::fan_out`, `may_view`, `may_read_history`; `Delivering` receives the calls.
//! Why         a group's sessions are spread over memory, and each is announced before its delivery so that its cache
//!             lines load while others are delivered to.
//! Invariants  F1 each matching session receives the event exactly once, even if it matches by group, user
//!             id, mention and subscription. F2 the cost is that of the classes, and of the sessions that
//!             receive the event. F3 a bot session without MESSAGE_CONTENT receives the content of a message
//!             only if its account wrote it or is mentioned in it; a replay has the form that was sent.
//!             (tests `f3_*`, and `partition/tests/it/redaction.rs`)
//! Not here    what is sent again: `replay_visibility`. Muted channels and threads: their events are sent, and clients
//!             hide them (docs/protocol/choices.md).     Spec  docs/protocol/reference.md §5.3, §7, §8.5.

use super::{AudienceIndex, Class, Group, IndexedSubscriber, Listener, LogId};
use crate::{
    subscription_mask::SubscriptionMask,
    view_change::{ViewChange, Viewers},
};
use guildhall_guild_protocol::{Audience, AudienceRule, Event, HiddenChannels, Payload, Redaction, UserFilter};
use guildhall_model::{Channel, ChannelId, EventName, Permissions, RoleId, UserId};
use guildhall_stdx::Timestamp;
use std::sync::Arc;

/// Reason why an event reaches a user by name.
#[derive(Clone, Copy)]
enum NamedBy {
    /// The event is about the user, or for the user: its rule and the intents do not matter.
    Event,
    /// A message mentions the user.
    Mention,
}

/// Delivery of one event, one call per session. `Recipients::begin` starts it.
pub trait Delivering {
    type Group<'a>: GroupDelivering
    where
        Self: 'a;
    /// Starts the delivery to a group: its sessions receive the event in this form, and their recent dispatches are in
    /// the same log.
    fn group(&mut self, log: LogId, redaction: Redaction) -> Self::Group<'_>;
    /// Delivers to a session whose group does not receive the event, or receives it in another form.
    fn deliver_alone(&mut self, slot: u32, redaction: Redaction);
}

/// Delivery of one event to the sessions of one group.
pub trait GroupDelivering {
    /// `deliver` follows for this session, `lead.deliveries()` calls later: its memory may be prefetched until then.
    fn announce(&self, slot: u32, lead: Lead);
    fn deliver(&mut self, slot: u32);
}

/// How long before its delivery a session is announced: twice, because the second time reads what the first prefetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lead {
    /// Time to prefetch the session.
    Long,
    /// Time to prefetch what the session refers to.
    Short,
}

impl Lead {
    const fn deliveries(self) -> usize {
        match self {
            Self::Long => 12,
            Self::Short => 6,
        }
    }
}

/// Announced slots; at least `Lead::Long`, a power of two.
const ANNOUNCED_MAX: usize = 16;
const _: () = assert!(Lead::Long.deliveries() < ANNOUNCED_MAX && Lead::Short.deliveries() < Lead::Long.deliveries());

fn deliver_to_listeners<'a>(
    listeners: impl Iterator<Item = &'a Listener>,
    log: LogId,
    redaction: Redaction,
    out: &mut impl Delivering,
) {
    let mut group = out.group(log, redaction);
    let mut slots = [0; ANNOUNCED_MAX];
    let mut count = 0;
    for Listener { slot, .. } in listeners {
        group.announce(*slot, Lead::Long);
        slots[count % ANNOUNCED_MAX] = *slot;
        let before =
            |lead: Lead| (count >= lead.deliveries()).then(|| slots[(count - lead.deliveries()) % ANNOUNCED_MAX]);
        if let Some(slot) = before(Lead::Short) {
            group.announce(slot, Lead::Short);
        }
        if let Some(slot) = before(Lead::Long) {
            group.deliver(slot);
        }
        count += 1;
    }
    for index in count.saturating_sub(Lead::Long.deliveries())..count {
        group.deliver(slots[index % ANNOUNCED_MAX]);
    }
}

impl AudienceIndex {
    pub(super) fn sees(&self, class: &Class, channel_id: ChannelId) -> bool {
        self.channel_bits.get(&channel_id).is_some_and(|bit| self.views[class.view].visible.contains(*bit))
    }

    pub(super) fn admits(&self, class: &Class, rule: &AudienceRule, now: Timestamp) -> bool {
        match rule {
            AudienceRule::Members => true,
            AudienceRule::Channel(channel) => self.sees(class, *channel),
            AudienceRule::ChannelExcept(channel, except) => self.sees(class, *channel) && !self.sees(class, *except),
            AudienceRule::Channels(channels) => channels.iter().all(|channel| self.sees(class, *channel)),
            // At replay only, because the search is linear in the channels.
            AudienceRule::List(list) => {
                let has_list = |channel: &&ChannelId| self.structure.list_of(**channel) == Some(*list);
                self.structure.channels.keys().filter(has_list).any(|channel| self.sees(class, *channel))
            }
            AudienceRule::GuildPermission(any) => {
                self.structure.guild_permissions(class.member_standing(now)).intersects(*any)
            }
            AudienceRule::ChannelPermission(channel, all) => {
                self.structure.channels.get(channel).is_some_and(|channel| {
                    self.structure.channel_permissions(class.member_standing(now), channel).contains(*all)
                })
            }
            // Members of a private thread, and a single recipient, are admitted by user id.
            AudienceRule::Thread { only: Some(_), .. } => false,
            AudienceRule::Thread { parent, is_private: false, .. } => self.sees(class, *parent),
            AudienceRule::Thread { parent, is_private: true, .. } => {
                self.sees(class, *parent) && self.manages_threads(class, *parent, now)
            }
            AudienceRule::Roles(roles) => {
                let everyone = self.structure.id().cast();
                // A member record keeps the id of a deleted role until the record is next written.
                let exists = |role: &&RoleId| self.structure.roles.contains_key(role);
                let has = |role: &RoleId| *role == everyone || class.key.roles.binary_search(role).is_ok();
                roles.iter().filter(exists).any(has)
            }
            // Decided per user, by `fan_out` and `may_see`.
            AudienceRule::User(_) | AudienceRule::Users(_) => false,
        }
    }

    fn manages_threads(&self, class: &Class, parent: ChannelId, now: Timestamp) -> bool {
        self.structure.channels.get(&parent).is_some_and(|parent| {
            let permissions = self.structure.channel_permissions(class.member_standing(now), parent);
            permissions.contains(Permissions::MANAGE_THREADS)
        })
    }

    fn is_in_thread(&self, user_id: UserId, thread: ChannelId) -> bool {
        self.threads.get(thread).is_some_and(|entry| entry.members.contains_key(&user_id))
    }

    /// Whether an audience rule admits a user by id although it may refuse the user's class.
    pub(super) fn admits_user(&self, class: &Class, user_id: UserId, rule: &AudienceRule, now: Timestamp) -> bool {
        let AudienceRule::Thread { parent, thread, is_private, only } = rule else { return false };
        let is_let_in = !is_private || self.is_in_thread(user_id, *thread) || self.manages_threads(class, *parent, now);
        only.is_none_or(|only| only == user_id) && self.sees(class, *parent) && is_let_in
    }

    /// Delivers a thread's event to users that it admits by id: the members of a private thread; of events that
    /// user accounts receive only for joined threads, those who joined; or the single recipient. Costs
    /// O(members of the thread).
    fn deliver_to_thread(&self, event: &Event, now: Timestamp, out: &mut impl Delivering) {
        let audience = &event.audience;
        let AudienceRule::Thread { thread, is_private, only, .. } = &audience.rule else { return };
        let is_by_name = *is_private || only.is_some() || audience.users == UserFilter::Threads;
        let members = self.threads.get(*thread).filter(|_| only.is_none() && is_by_name);
        let members = members.into_iter().flat_map(|entry| entry.members.keys().copied());
        for user_id in only.iter().copied().chain(members).filter(|id| audience.always != Some(*id)) {
            let Some(user_subscribers) = self.users.get(&user_id) else { continue };
            let class = &self.classes[user_subscribers.class];
            if !self.admits_user(class, user_id, &audience.rule, now) {
                continue;
            }
            let is_admitted = self.admits(class, &audience.rule, now);
            let is_mentioned = audience.mentions.as_ref().is_some_and(|mentions| mentions.users.contains(&user_id));
            for IndexedSubscriber { subscriber, .. } in &user_subscribers.subscribers {
                let is_user = subscriber.mask.is_user();
                let has_it = is_admitted && (self.reaches(class, subscriber.mask, audience) || is_mentioned && is_user);
                let wants = subscriber.mask.admits(audience)
                    || is_user
                        && (audience.users == UserFilter::Threads
                            || is_mentioned
                            || class.is_mentioned(audience.mentions.as_deref()));
                if !has_it && wants && !is_barred(audience, subscriber.mask, user_id) {
                    out.deliver_alone(subscriber.slot, self.redaction_for(event, subscriber.mask, user_id));
                }
            }
        }
    }

    /// Delivers `event` once to each matching session, and to `watchers` (user and slot) that have the permissions.
    /// Costs O(classes), and O(sessions) of the classes admitted.
    pub fn fan_out(
        &self,
        event: &Event,
        now: Timestamp,
        watchers: impl Iterator<Item = (UserId, u32)>,
        out: &mut impl Delivering,
    ) {
        let audience = &event.audience;
        for (place, class) in self.classes.iter().enumerate().filter(|(_, class)| !class.groups.is_empty()) {
            if !self.admits(class, &audience.rule, now) {
                continue;
            }
            let is_mentioned = class.is_mentioned(audience.mentions.as_deref());
            for group in &class.groups {
                if group.mask.admits(audience) || is_mentioned && group.mask.is_user() {
                    self.deliver_to_group(event, place, group, out);
                }
            }
        }
        let by_rule = audience.rule.users().iter().copied();
        for user_id in audience.always.into_iter().chain(by_rule.filter(|id| audience.always != Some(*id))) {
            self.deliver_to_user(event, user_id, now, NamedBy::Event, out);
        }
        for (index, user_id) in audience.mentions.iter().flat_map(|mentions| &mentions.users).enumerate() {
            let is_told = audience.always == Some(*user_id)
                || audience.mentions.as_ref().is_some_and(|mentions| mentions.users[..index].contains(user_id));
            if !is_told {
                self.deliver_to_user(event, *user_id, now, NamedBy::Mention, out);
            }
        }
        self.deliver_to_thread(event, now, out);
        for (user_id, slot) in watchers {
            // Delivered above, to the user by name.
            if audience.always == Some(user_id)
                || audience.mentions.as_ref().is_some_and(|mentions| mentions.users.contains(&user_id))
            {
                continue;
            }
            let Some(user_subscribers) = self.users.get(&user_id) else { continue };
            let class = &self.classes[user_subscribers.class];
            let indexed = user_subscribers.subscribers.iter().find(|indexed| indexed.subscriber.slot == slot);
            if let Some(IndexedSubscriber { subscriber, .. }) = indexed
                && self.admits(class, &audience.rule, now)
                && !self.reaches(class, subscriber.mask, audience)
                && !is_barred(audience, subscriber.mask, user_id)
            {
                out.deliver_alone(slot, self.redaction_for(event, subscriber.mask, user_id));
            }
        }
    }

    /// Whether a session of a class that the audience rule admits got the event with its group.
    fn reaches(&self, class: &Class, mask: SubscriptionMask, audience: &Audience) -> bool {
        mask.admits(audience) || mask.is_user() && class.is_mentioned(audience.mentions.as_deref())
    }

    /// Delivers to the group in its redaction, and to those who may read the content in theirs.
    fn deliver_to_group(&self, event: &Event, class: usize, group: &Group, out: &mut impl Delivering) {
        if let Payload::Channel(channel) = &event.payload {
            return self.deliver_channel(event, channel, class, group, out);
        }
        let never = event.audience.never_user_account.filter(|_| group.mask.is_user());
        let readers = event.content_readers.as_ref().filter(|_| group.mask.lacks_content());
        let redaction = readers.map_or(Redaction::None, Redaction::for_strangers);
        match (never, readers) {
            (None, None) => deliver_to_listeners(group.listeners.iter(), group.log, redaction, out),
            (Some(never), _) => {
                let others = group.listeners.iter().filter(|listener| listener.user_id != never);
                deliver_to_listeners(others, group.log, redaction, out);
            }
            (None, Some(readers)) => {
                let reads = |listener: &&Listener| readers.iter().any(|user_id| user_id == listener.user_id);
                let strangers = group.listeners.iter().filter(|listener| !reads(listener));
                deliver_to_listeners(strangers, group.log, redaction, out);
                for listener in group.listeners.iter().filter(reads) {
                    out.deliver_alone(listener.slot, Redaction::for_user(readers, listener.user_id));
                }
            }
        }
    }

    fn redaction_for(&self, event: &Event, mask: SubscriptionMask, user_id: UserId) -> Redaction {
        match &event.content_readers {
            Some(readers) if mask.lacks_content() => Redaction::for_user(readers, user_id),
            _ => Redaction::None,
        }
    }

    // ── channels, hidden from some members ───────────────────────────────────────────────────────

    fn deliver_channel(
        &self,
        event: &Event,
        channel: &Channel,
        class: usize,
        group: &Group,
        out: &mut impl Delivering,
    ) {
        let sees = self.sees(&self.classes[class], channel.id);
        let form = |saw: bool| self.channel_form(event, channel, group.mask, (saw, sees));
        let holds = |viewed: &Arc<[ChannelId]>| viewed.binary_search(&channel.id).is_ok();
        let of_class = form(self.views_before.of_class(class).map_or(sees, holds));
        let is_apart = |listener: &&Listener| self.views_before.of_user(listener.user_id).is_some();
        let is_split = !self.views_before.users.is_empty();
        if let Some(redaction) = of_class {
            let listeners = group.listeners.iter().filter(|listener| !is_split || !is_apart(listener));
            deliver_to_listeners(listeners, group.log, redaction, out);
        }
        for listener in group.listeners.iter().filter(|listener| is_split && is_apart(listener)) {
            let saw = self.views_before.of_user(listener.user_id).is_some_and(holds);
            if let Some(redaction) = form(saw) {
                out.deliver_alone(listener.slot, redaction);
            }
        }
    }

    /// The form of an event about a channel for a session whose member saw the channel before it and sees it now, or
    /// not. None: it receives nothing, or an event for the change of its view.
    pub(super) fn channel_form(
        &self,
        event: &Event,
        channel: &Channel,
        mask: SubscriptionMask,
        (saw, sees): (bool, bool),
    ) -> Option<Redaction> {
        let is_listed = self.hidden == HiddenChannels::Listed;
        let is_known = match event.name {
            // No view has it any more. Sessions that viewed it share logs with others, so all receive one form, if any.
            EventName::ChannelDelete => saw && self.hidden == HiddenChannels::Absent,
            EventName::ChannelUpdate if saw != sees && !is_listed => return None,
            _ => sees,
        };
        if is_known || self.hidden == HiddenChannels::Absent {
            return is_known.then_some(Redaction::None);
        }
        let has_messages = channel.last_message_id.is_some() || channel.last_pin_timestamp.is_some();
        let form = self.hidden.form(mask.is_obfuscated())?;
        Some(if form == Redaction::ChannelUnread && !has_messages { Redaction::None } else { form })
    }

    /// Delivers the event of a view change to the sessions with that change.
    pub(crate) fn deliver_change(&self, event: &Event, change: ViewChange, form: Redaction, out: &mut impl Delivering) {
        match change.viewers {
            Viewers::Class(place) => {
                for group in self.classes[place].groups.iter().filter(|group| group.mask.admits(&event.audience)) {
                    let is_apart = |listener: &&Listener| self.views_before.of_user(listener.user_id).is_some();
                    let listeners = group.listeners.iter().filter(|listener| !is_apart(listener));
                    deliver_to_listeners(listeners, group.log, form, out);
                }
            }
            Viewers::User(user_id) => {
                let subscribers =
                    self.users.get(&user_id).into_iter().flat_map(|user_subscribers| &user_subscribers.subscribers);
                let admitted = subscribers.filter(|indexed| indexed.subscriber.mask.admits(&event.audience));
                admitted.for_each(|indexed| out.deliver_alone(indexed.subscriber.slot, form));
            }
        }
    }

    /// Delivers to the sessions of one user that were not reached with their group.
    fn deliver_to_user(&self, event: &Event, user_id: UserId, now: Timestamp, by: NamedBy, out: &mut impl Delivering) {
        let audience = &event.audience;
        let Some(user_subscribers) = self.users.get(&user_id) else { return };
        let class = &self.classes[user_subscribers.class];
        let is_rule = audience.rule.names(user_id) && audience.always != Some(user_id);
        let is_admitted = self.admits(class, &audience.rule, now);
        for IndexedSubscriber { subscriber, .. } in &user_subscribers.subscribers {
            let has_it = is_admitted && self.reaches(class, subscriber.mask, audience);
            // An event for a single user still needs its intents; a mention calls passive user accounts.
            let wants = match by {
                _ if is_rule => subscriber.mask.admits(audience),
                NamedBy::Event => true,
                NamedBy::Mention => is_admitted && subscriber.mask.is_user(),
            };
            if !has_it && wants && !is_barred(audience, subscriber.mask, user_id) {
                out.deliver_alone(subscriber.slot, self.redaction_for(event, subscriber.mask, user_id));
            }
        }
    }

    /// Whether a user with sessions here may view a channel.
    pub(crate) fn views(&self, user_id: UserId, channel_id: ChannelId) -> bool {
        self.users
            .get(&user_id)
            .is_some_and(|user_subscribers| self.sees(&self.classes[user_subscribers.class], channel_id))
    }

    /// Whether a user with sessions here may view a channel or thread.
    #[must_use]
    pub fn may_view(&self, user_id: UserId, channel_id: ChannelId, now: Timestamp) -> bool {
        match (self.threads.get(channel_id), self.users.get(&user_id)) {
            (Some(entry), Some(user_subscribers)) => entry.is_viewed_by(&self.structure, &user_subscribers.member, now),
            _ => self.views(user_id, channel_id),
        }
    }

    /// Whether a user with sessions here may read earlier messages of a channel or thread. See
    /// `Permissions::may_read_history`.
    #[must_use]
    pub fn may_read_history(&self, user_id: UserId, channel_id: ChannelId, now: Timestamp) -> bool {
        let Some(member) = self.member(user_id).filter(|_| self.may_view(user_id, channel_id, now)) else {
            return false;
        };
        // Threads have the permissions of their parents.
        let parent_id = self.threads.get(channel_id).and_then(|entry| entry.channel.parent_id);
        self.structure.channels.get(&parent_id.unwrap_or(channel_id)).is_some_and(|channel| {
            let permissions = self.structure.channel_permissions(self.structure.standing(member, now), channel);
            permissions.may_read_history(channel.kind)
        })
    }
}

fn is_barred(audience: &Audience, mask: SubscriptionMask, user_id: UserId) -> bool {
    mask.is_user() && audience.never_user_account == Some(user_id)
}
