//! Memory: estimated heap of the objects that guilds, relays and dispatches hold.
//!
//! Invariants  an object that several owners hold behind an `Arc` counts for each with its part, so that sums over all
//!             owners have it once.
//! Not here    collections: `guildhall_stdx::heap`.

use crate::{event::Event, members::MemberEntry, payload::Payload, protocol::Published, structure::GuildStructure};
use guildhall_model::{Channel, Member, Message, MessageSnapshot, OnboardingAnswers, Presence, Role, User};
use guildhall_stdx::heap::{self, Sample};

/// Texts and fields of an activity, or of an embed or component, besides its value: they are rarely looked at.
const ACTIVITY_BYTES: usize = 256;

fn text(text: &str) -> usize {
    heap::allocated(text.len())
}

fn option(of: Option<&str>) -> usize {
    of.map_or(0, text)
}

/// Heap of a user object.
#[must_use]
pub fn user_heap(user: &User) -> usize {
    let User { username, discriminator, global_name, avatar, banner, .. } = user;
    text(username)
        + text(discriminator)
        + option(global_name.as_deref())
        + option(avatar.as_deref())
        + option(banner.as_deref())
}

/// Heap of a member object, with its part of the user object.
#[must_use]
pub fn member_heap(member: &Member) -> usize {
    let roles = if member.roles.spilled() { heap::allocated(member.roles.capacity() * 8) } else { 0 };
    let pictures = member.pictures.as_ref().map_or(0, |_| 2 * ACTIVITY_BYTES);
    let onboarding = member.onboarding.as_ref().map_or(0, |answers| {
        let OnboardingAnswers { options, prompts_seen, options_seen } = &**answers;
        let seen = heap::of_buffer(prompts_seen) + heap::of_buffer(options_seen);
        heap::boxed::<OnboardingAnswers>() + heap::of_buffer(options) + seen
    });
    heap::part_of(&member.user, user_heap) + option(member.nick.as_deref()) + roles + pictures + onboarding
}

/// Heap of a presence.
#[must_use]
pub fn presence_heap(presence: &Presence) -> usize {
    heap::of_buffer(&presence.activities) + presence.activities.len() * ACTIVITY_BYTES
}

/// Heap of an entry of a member table. Events and lists that share the member are small or
/// short-lived: the table has all of it.
#[must_use]
pub fn entry_heap(entry: &MemberEntry) -> usize {
    let presence = entry.presence.as_ref().map_or(0, |presence| heap::part_of(presence, presence_heap));
    heap::counted::<Member>() + member_heap(&entry.member) + presence
}

/// Heap of a message.
#[must_use]
pub fn message_heap(message: &Message) -> usize {
    let of_snapshot = |of: &MessageSnapshot| of.embeds.len() + of.components.len() + of.attachments.len() + 2;
    let forwarded: usize = message.snapshots.iter().map(of_snapshot).sum();
    let objects = message.embeds.len() + message.components.len() + message.attachments.len() + forwarded;
    heap::part_of(&message.author, user_heap)
        + text(&message.content)
        + heap::of_buffer(&message.mentions)
        + heap::of_buffer(&message.mention_roles)
        + 2 * objects * ACTIVITY_BYTES
}

/// Heap of an event.
#[must_use]
pub fn event_heap(event: &Event) -> usize {
    let payload = match &event.payload {
        Payload::Message(of) => size_of_val(&**of) + heap::part_of(&of.message, message_heap),
        Payload::Reaction(of) => size_of_val(&**of),
        Payload::Presence { presence, .. } => heap::part_of(presence, presence_heap),
        _ => 0,
    };
    heap::allocated(payload) + event.audience.mentions.as_ref().map_or(0, |mentions| size_of_val(&**mentions))
}

/// Heap of a published event.
#[must_use]
pub fn published_heap(published: &Published) -> usize {
    event_heap(&published.event)
}

/// A structure with its roles and channels.
#[must_use]
pub fn structure_heap(structure: &GuildStructure) -> usize {
    let role = |role: &Role| heap::counted::<Role>() + text(&role.name);
    let channel = |channel: &Channel| {
        heap::counted::<Channel>()
            + text(&channel.name)
            + option(channel.topic.as_deref())
            + heap::of_buffer(&channel.overwrites)
    };
    size_of_val(&*structure.guild)
        + Sample::LARGE.of_tree(&structure.roles, |_, of| role(of))
        + Sample::LARGE.of_tree(&structure.channels, |_, of| channel(of))
}
