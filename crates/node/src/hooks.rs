//! Hooks: code of the program that embeds the node, which checks tokens and reviews messages.
//!
//! Owns        the traits that a program implements, the text that a hook sees, and the time that each hook has.
//! Doors       `Node::set_hooks`.
//! Invariants  H1 a text that a hook refuses, or does not answer for in time, is not stored and not delivered. H2 an
//!             account of a hook's subject has the id that the node chose at its first token, for ever. H3 requests of
//!             backends (`Actor::System`) are not reviewed. (tests `guildhall/tests/it/embed.rs`)
//! Limits      `AUTHENTICATE_MAX` per token and `REVIEW_MAX` per text; then the caller gets 503, or an invalid session
//!             that it may repeat.
//! Not here    permissions: the guild checks them after the review.

use crate::{
    AuthError, Node, TokenFault,
    sign_on::{Newcomer, Subject},
    tokens::{TOKEN_BYTES_MAX, TokenKind, Verified},
};
use async_trait::async_trait;
use guildhall_guild::{Actor, CONTENT_CHARS_MAX, Command, MessagePatch, NewMessage, Refusal};
use guildhall_model::{ChannelId, GuildId, MessageId, NewAttachment, PollAnswer, UserId, WebhookId};
use guildhall_stdx::Timestamp;
use serde_json::Value;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::time::timeout;

/// Time in which `Authenticate` answers.
pub const AUTHENTICATE_MAX: Duration = Duration::from_secs(5);
/// Time in which `ReviewMessage` answers.
pub const REVIEW_MAX: Duration = Duration::from_secs(2);

/// Hooks of a node; by default none.
#[derive(Clone, Default)]
pub struct Hooks {
    /// Checks tokens before the node does.
    pub authenticate: Option<Arc<dyn Authenticate>>,
    /// Reviews texts before they are published.
    pub review_message: Option<Arc<dyn ReviewMessage>>,
}

/// The person behind a token, in the program's own terms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Stable id of the person, not empty. The node creates one account for it, at the first token.
    pub subject: String,
    /// Name of a new account. An existing account keeps its name.
    pub username: Option<String>,
    /// Unix second at which the token ends: its sessions are closed then. None: never.
    pub expires_at_s: Option<u64>,
}

impl Identity {
    /// An identity without a name and without an end.
    #[must_use]
    pub fn new(subject: impl Into<String>) -> Self {
        Self { subject: subject.into(), ..Self::default() }
    }
}

/// Result of checking a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenCheck {
    /// The token is valid.
    Valid(Identity),
    /// The token is not valid. The client gets 401, or its connection is closed with 4004.
    Invalid,
    /// The hook does not know tokens of this form: the node checks it.
    NotMine,
    /// The token cannot be checked now. The client may try again.
    Unavailable,
}

/// Checks tokens. The node calls it for each request and each connection, so an implementation that calls another
/// service caches.
#[async_trait]
pub trait Authenticate: Send + Sync + 'static {
    /// Checks a token, which has no scheme (`Bot `, `Bearer `) and at most 4,096 bytes.
    async fn authenticate(&self, token: &str) -> TokenCheck;
}

/// Author of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Author {
    /// An account.
    User(UserId),
    /// A webhook.
    Webhook(WebhookId),
}

/// A new message, or the new content of a message.
#[derive(Clone, Copy, Debug)]
pub struct Draft<'a> {
    /// Guild, or direct message.
    pub guild_id: GuildId,
    /// Channel of the message; the parent channel of a new post. None: that of the webhook.
    pub channel_id: Option<ChannelId>,
    /// Author of the text.
    pub author: Author,
    /// Message that is edited; none for a new one.
    pub edited: Option<MessageId>,
    /// May be empty.
    pub content: &'a str,
    /// Embeds that are set.
    pub embeds: &'a [Value],
    /// Buttons, selects and other components that are set.
    pub components: &'a [Value],
    /// Files that are added.
    pub attachments: &'a [NewAttachment],
    /// Poll of a new message. A review cannot replace it.
    pub poll: Option<PollDraft<'a>>,
}

/// Texts of a new poll.
#[derive(Clone, Copy, Debug)]
pub struct PollDraft<'a> {
    /// Text of the question.
    pub question: &'a str,
    /// Answers to vote for.
    pub answers: &'a [PollAnswer],
}

/// Result of a review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Review {
    /// The message is published as it is.
    Publish,
    /// The message is published with this content, of at most 2,000 characters.
    Replace(String),
    /// The message is refused: the client gets 400 with upstream's code 200000.
    Refuse,
    /// As `Refuse`, with a text for the client instead of upstream's: at most 200 characters, and few different ones.
    RefuseWith(String),
    /// The text could not be reviewed, and the message is published as it is.
    Unreviewed,
    /// The text cannot be reviewed now: the client gets 503, and may send it again.
    Unavailable,
}

/// Numbers of reviews by their result.
#[derive(Debug, Default)]
pub(crate) struct ReviewCounts([AtomicU64; REVIEW_RESULTS.len()]);

/// Names of results, in the order of `ReviewCounts`.
const REVIEW_RESULTS: [&str; 5] = ["published", "replaced", "refused", "unreviewed", "unavailable"];

impl ReviewCounts {
    fn count(&self, review: Option<&Review>) {
        let result = match review {
            Some(Review::Publish) => 0,
            Some(Review::Replace(_)) => 1,
            Some(Review::Refuse | Review::RefuseWith(_)) => 2,
            Some(Review::Unreviewed) => 3,
            Some(Review::Unavailable) | None => 4,
        };
        self.0[result].fetch_add(1, Ordering::Relaxed);
    }

    fn read(&self) -> Vec<(&'static str, u64)> {
        REVIEW_RESULTS.into_iter().zip(self.0.iter().map(|count| count.load(Ordering::Relaxed))).collect()
    }
}

/// Reviews messages of accounts and webhooks, before they are stored and published.
#[async_trait]
pub trait ReviewMessage: Send + Sync + 'static {
    /// Reviews a text. The guild may still refuse it, for its permissions or its form.
    async fn review(&self, draft: Draft<'_>) -> Review;
}

impl Hooks {
    /// Result of the hook for tokens. None: the node checks the token.
    pub(crate) async fn check_token(&self, token: &str, now: Timestamp) -> Result<Option<Verified>, AuthError> {
        let Some(hook) = &self.authenticate else { return Ok(None) };
        if token.len() > TOKEN_BYTES_MAX {
            return Err(TokenFault::TooLong.into());
        }
        let Identity { subject, username, expires_at_s } =
            match timeout(AUTHENTICATE_MAX, hook.authenticate(token)).await.unwrap_or(TokenCheck::Unavailable) {
                TokenCheck::Valid(identity) => identity,
                TokenCheck::NotMine => return Ok(None),
                TokenCheck::Invalid => return Err(TokenFault::Hook.into()),
                TokenCheck::Unavailable => return Err(AuthError::Busy(TokenFault::HookUnavailable)),
            };
        if expires_at_s.and_then(|at| i64::try_from(at).ok()).is_some_and(|at| at <= now.unix_s()) {
            return Err(TokenFault::Expired.into());
        }
        let subject = Subject::of_hook(&subject)?;
        let newcomer = Newcomer { subject, username, global_name: None };
        Ok(Some(Verified { user_id: None, kind: TokenKind::Hook, expires_at_s, newcomer: Some(newcomer) }))
    }
}

/// Place and author of a text in a command.
#[derive(Clone, Copy)]
struct Place {
    guild_id: GuildId,
    channel_id: Option<ChannelId>,
    author: Author,
    edited: Option<MessageId>,
}

/// The text of a command that a client may read later.
enum Text<'a> {
    New(&'a mut NewMessage),
    Edit(&'a mut MessagePatch),
}

impl Text<'_> {
    fn draft(&self, Place { guild_id, channel_id, author, edited }: Place) -> Draft<'_> {
        match self {
            // A forwarded text counts as the author's.
            Self::New(NewMessage { forward: Some(forward), .. }) if forward.snapshot.is_some() => {
                let snapshot = forward.snapshot.as_ref();
                Draft {
                    guild_id,
                    channel_id,
                    author,
                    edited,
                    content: snapshot.map_or("", |snapshot| snapshot.content.as_str()),
                    embeds: snapshot.map_or(&[][..], |snapshot| &snapshot.embeds[..]),
                    components: snapshot.map_or(&[][..], |snapshot| &snapshot.components[..]),
                    attachments: &[],
                    poll: None,
                }
            }
            Self::New(NewMessage { content, embeds, components, attachments, poll, .. }) => {
                let poll = poll.as_ref().map(|poll| PollDraft { question: &poll.question, answers: &poll.answers });
                Draft { guild_id, channel_id, author, edited, content, embeds, components, attachments, poll }
            }
            Self::Edit(MessagePatch { content, embeds, components, added, .. }) => Draft {
                guild_id,
                channel_id,
                author,
                edited,
                content: content.as_deref().unwrap_or_default(),
                embeds: embeds.as_deref().unwrap_or_default(),
                components: components.as_deref().unwrap_or_default(),
                attachments: added,
                poll: None,
            },
        }
    }

    fn replace(&mut self, content: String) {
        match self {
            Self::New(new) => match new.forward.as_mut().and_then(|forward| forward.snapshot.as_mut()) {
                Some(snapshot) => snapshot.content = content,
                None => new.content = content,
            },
            Self::Edit(patch) => patch.content = Some(content),
        }
    }
}

fn has_text(patch: &MessagePatch) -> bool {
    let MessagePatch { content, embeds, components, added, .. } = patch;
    content.is_some() || embeds.is_some() || components.is_some() || !added.is_empty()
}

fn author_of(actor: Actor) -> Option<Author> {
    actor.user_id().map(Author::User)
}

/// Text of a command, if an account or a webhook wrote it.
fn text_of(guild_id: GuildId, actor: Actor, command: &mut Command) -> Option<(Place, Text<'_>)> {
    let place = |channel_id, author, edited| Place { guild_id, channel_id, author, edited };
    Some(match command {
        Command::CreateMessage(channel_id, new) => (place(Some(*channel_id), author_of(actor)?, None), Text::New(new)),
        Command::CreateThread(parent_id, new) => {
            (place(Some(*parent_id), author_of(actor)?, None), Text::New(new.message.as_mut()?))
        }
        Command::EditMessage(_, _, patch) | Command::EditWebhookMessage(.., patch) if !has_text(patch) => return None,
        Command::EditMessage(channel_id, message_id, patch) => {
            (place(Some(*channel_id), author_of(actor)?, Some(*message_id)), Text::Edit(patch))
        }
        Command::ExecuteWebhook(webhook_id, _, post) => {
            (place(post.thread_id, Author::Webhook(*webhook_id), None), Text::New(&mut post.message))
        }
        // The text follows, in an edit.
        Command::CreateResponse(_, response) if response.is_deferred => return None,
        Command::CreateResponse(channel_id, response) => {
            let author = Author::User(response.application);
            (place(Some(*channel_id), author, None), Text::New(&mut response.message))
        }
        Command::EditResponse(channel_id, message_id, response) if has_text(&response.patch) => {
            let author = Author::User(response.application);
            (place(Some(*channel_id), author, Some(*message_id)), Text::Edit(&mut response.patch))
        }
        Command::EditWebhookMessage(webhook_id, _, thread_id, message_id, patch) => {
            (place(*thread_id, Author::Webhook(*webhook_id), Some(*message_id)), Text::Edit(patch))
        }
        _ => return None,
    })
}

/// Reviews the text of a command, which it may replace.
async fn review(
    hook: &dyn ReviewMessage,
    counts: &ReviewCounts,
    place: Place,
    mut text: Text<'_>,
) -> Result<(), Refusal> {
    let review = timeout(REVIEW_MAX, hook.review(text.draft(place))).await;
    counts.count(review.as_ref().ok());
    let Ok(review) = review else {
        tracing::warn!("the hook for messages did not answer in time: a message was refused");
        return Err(Refusal::Unavailable);
    };
    match review {
        Review::Publish | Review::Unreviewed => Ok(()),
        Review::Refuse => Err(Refusal::Blocked),
        Review::RefuseWith(message) => Err(Refusal::blocked(&message)),
        Review::Unavailable => Err(Refusal::Unavailable),
        Review::Replace(content) if content.chars().count() <= CONTENT_CHARS_MAX => {
            text.replace(content);
            Ok(())
        }
        Review::Replace(_) => {
            tracing::warn!("the hook for messages replaced a content by more than 2,000 characters: refused");
            Err(Refusal::Blocked)
        }
    }
}

impl Node {
    /// Sets the hooks, before the node serves clients. A second call changes nothing and returns false.
    pub fn set_hooks(&self, hooks: Hooks) -> bool {
        self.inner.hooks.set(hooks).is_ok()
    }

    /// Numbers of reviews of messages by their result. None: there is no hook for messages.
    #[must_use]
    pub fn review_counts(&self) -> Option<Vec<(&'static str, u64)>> {
        let has_hook = self.inner.hooks.get().is_some_and(|hooks| hooks.review_message.is_some());
        has_hook.then(|| self.inner.reviews.read())
    }

    /// Lets the hook for messages review an answer of an application that no guild receives, because one account reads
    /// it alone.
    ///
    /// # Errors
    /// `Blocked`, `Unavailable`.
    pub async fn review_answer(
        &self,
        guild_id: GuildId,
        channel_id: ChannelId,
        application: UserId,
        message: &mut NewMessage,
    ) -> Result<(), Refusal> {
        let place = Place { guild_id, channel_id: Some(channel_id), author: Author::User(application), edited: None };
        self.review_text(place, Text::New(message)).await
    }

    /// The same for a change of such an answer.
    ///
    /// # Errors
    /// `Blocked`, `Unavailable`.
    pub async fn review_answer_edit(
        &self,
        guild_id: GuildId,
        (channel_id, message_id): (ChannelId, MessageId),
        application: UserId,
        patch: &mut MessagePatch,
    ) -> Result<(), Refusal> {
        if !has_text(patch) {
            return Ok(());
        }
        let author = Author::User(application);
        let place = Place { guild_id, channel_id: Some(channel_id), author, edited: Some(message_id) };
        self.review_text(place, Text::Edit(patch)).await
    }

    /// Lets the hook for messages review a command that has a text.
    pub(crate) async fn review(&self, guild_id: GuildId, actor: Actor, command: &mut Command) -> Result<(), Refusal> {
        // Few nodes have a hook, and few commands a text.
        if self.inner.hooks.get().is_none_or(|hooks| hooks.review_message.is_none()) {
            return Ok(());
        }
        let Some((place, text)) = text_of(guild_id, actor, command) else { return Ok(()) };
        self.review_text(place, text).await
    }

    async fn review_text(&self, place: Place, text: Text<'_>) -> Result<(), Refusal> {
        let Some(hook) = self.inner.hooks.get().and_then(|hooks| hooks.review_message.as_deref()) else {
            return Ok(());
        };
        // In a box, because few commands have a text, and the future of each would have room for it.
        Box::pin(review(hook, &self.inner.reviews, place, text)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h3_a_text_of_the_system_is_not_reviewed() {
        let mut command = Command::CreateMessage(ChannelId::new(2), Box::default());
        assert!(text_of(GuildId::new(1), Actor::System, &mut command).is_none());
        assert!(text_of(GuildId::new(1), Actor::User(UserId::new(3)), &mut command).is_some());
    }

    #[test]
    fn an_edit_without_text_is_not_reviewed() {
        let patch = MessagePatch { flags: Some(4), ..MessagePatch::default() };
        let mut command = Command::EditMessage(ChannelId::new(2), MessageId::new(3), Box::new(patch));
        assert!(text_of(GuildId::new(1), Actor::User(UserId::new(3)), &mut command).is_none());
    }
}
