//! The table of routes: a row for each method and path.
//!
//! Owns        `Route` and its rows. The router, the rate limits, the list of unserved routes, the permission matrix of
//!             `guildhall` and the tables of docs/protocol/choices.md follow from them.
//! Invariants  R2 a handler reads a body with the permit of its row, and only if its row has one. (a debug assertion in
//!             `crate::body`; the permission matrix calls every route that changes something)
//! Not here    handlers: the modules of `crate::routes`.     Spec  docs/protocol/reference.md §10.2–§10.4.

use super::{
    announcements, attachments, auto_moderation, bans, bootstrap, channels, commands, community, directs, emojis,
    erased::{Erased, erased},
    foreign_webhooks, guilds,
    interactions::{callback, endpoint, index, invoke, permissions},
    invites, members, messages, pins, polls, reactions, read_states, relationships, roles, scheduled_events, search,
    settings_proto, small, stages, stickers, templates, threads, vanity, voice_states, webhooks,
};
use crate::{Bucket, permit::BodyPermit, state::Api};
use axum::{
    http::Method,
    routing::{MethodFilter, MethodRouter, on},
};
use std::sync::Arc;

/// A route that is served.
#[derive(Debug)]
pub struct Route {
    /// A GET route also serves HEAD.
    pub method: Method,
    /// Behind the version prefix; `{…}` is one segment.
    pub path: &'static str,
    /// Rate limit of its requests.
    pub bucket: Bucket,
    /// Object that is found before the body is read. None: the body is never read.
    pub body: Option<BodyPermit>,
    /// Why the permission matrix has no row for a route that changes something.
    pub no_matrix: Option<&'static str>,
    filter: MethodFilter,
    handler: fn() -> Erased,
}

impl Route {
    /// Whether a request can change something.
    #[must_use]
    pub fn is_change(&self) -> bool {
        self.method != Method::GET
    }

    /// Whether requests by user accounts also count against `Bucket::UserWrite`. Typing indicators do not, because they
    /// have their own share of replay buffers, nor acknowledgements, which only the account itself receives.
    pub(crate) fn is_user_write(&self) -> bool {
        self.is_change() && !matches!(self.bucket, Bucket::Typing | Bucket::Ack)
    }

    pub(super) fn methods(&self) -> MethodRouter<Arc<Api>> {
        on(self.filter, (self.handler)())
    }
}

/// Whether a path has the segments of a template.
pub(crate) fn fits(template: &str, path: &str) -> bool {
    let mut pieces = path.split('/');
    for expected in template.split('/') {
        match pieces.next() {
            Some(piece) if piece == expected => {}
            Some(piece) if expected.starts_with('{') && !piece.is_empty() => {}
            _ => return false,
        }
    }
    pieces.next().is_none()
}

/// A row: method, path, handler, bucket; the permit to read the body, if it is read; `[exempt "why"]` if the permission
/// matrix has no row for it.
macro_rules! rows {
    ($($method:ident $path:literal $module:ident::$handler:ident $bucket:ident $($permit:ident)? $([exempt $why:literal])?;)*) => {
        &[$(Route {
            method: Method::$method,
            filter: MethodFilter::$method,
            path: $path,
            bucket: Bucket::$bucket,
            body: rows!(@or_none $(BodyPermit::$permit)?),
            no_matrix: rows!(@or_none $($why)?),
            handler: || erased($module::$handler),
        }),*]
    };
    (@or_none) => { None };
    (@or_none $some:expr) => { Some($some) };
}

/// All routes. Methods of a path are in the order of its `Allow` header.
pub(crate) static ROUTES: &[Route] = rows! {
    // Channels.
    GET    "/channels/{channel_id}"                                                      channels::read                   Read;
    PATCH  "/channels/{channel_id}"                                                      channels::update                 StructureWrite Channel;
    DELETE "/channels/{channel_id}"                                                      channels::delete                 StructureWrite;
    PUT    "/channels/{channel_id}/permissions/{overwrite_id}"                           channels::put_overwrite          StructureWrite Channel;
    DELETE "/channels/{channel_id}/permissions/{overwrite_id}"                           channels::delete_overwrite       StructureWrite;
    POST   "/channels/{channel_id}/typing"                                               channels::start_typing           Typing;
    POST   "/channels/{channel_id}/threads"                                              threads::create                  StructureWrite Channel;
    POST   "/channels/{channel_id}/messages/{message_id}/threads"                        threads::create_from_message     StructureWrite Message;
    GET    "/channels/{channel_id}/threads/archived/public"                              threads::archived_public         Read;
    GET    "/channels/{channel_id}/threads/archived/private"                             threads::archived_private        Read;
    GET    "/channels/{channel_id}/users/@me/threads/archived/private"                   threads::archived_own            Read;
    GET    "/channels/{channel_id}/thread-members"                                       threads::list_members            Read;
    GET    "/channels/{channel_id}/thread-members/{user_id}"                             threads::read_member             Read;
    PUT    "/channels/{channel_id}/thread-members/{user_id}"                             threads::add_member              StructureWrite;
    DELETE "/channels/{channel_id}/thread-members/{user_id}"                             threads::remove_member           StructureWrite;
    GET    "/channels/{channel_id}/invites"                                              invites::of_channel              Read;
    POST   "/channels/{channel_id}/invites"                                              invites::create                  StructureWrite Channel;
    GET    "/channels/{channel_id}/webhooks"                                             webhooks::of_channel             Read;
    POST   "/channels/{channel_id}/webhooks"                                             webhooks::create                 StructureWrite Channel;
    PUT    "/channels/{channel_id}/recipients/{user_id}"                                 directs::add_recipient           StructureWrite;
    DELETE "/channels/{channel_id}/recipients/{user_id}"                                 directs::remove_recipient        StructureWrite;
    GET    "/channels/{channel_id}/application-command-index"                            index::of_channel                Read;
    GET    "/channels/{channel_id}/pins"                                                 pins::list                       Read;
    PUT    "/channels/{channel_id}/pins/{message_id}"                                    pins::add                        StructureWrite;
    DELETE "/channels/{channel_id}/pins/{message_id}"                                    pins::remove                     StructureWrite;
    GET    "/channels/{channel_id}/messages/pins"                                        pins::page                       Read;
    PUT    "/channels/{channel_id}/messages/pins/{message_id}"                           pins::add                        StructureWrite;
    DELETE "/channels/{channel_id}/messages/pins/{message_id}"                           pins::remove                     StructureWrite;
    POST   "/channels/{channel_id}/pins/ack"                                             read_states::acknowledge_pins    Ack;
    GET    "/channels/{channel_id}/messages/search"                                      search::in_direct                MessageSearch;
    DELETE "/channels/{channel_id}/messages/ack"                                         read_states::forget              Ack;
    POST   "/channels/{channel_id}/messages/{message_id}/ack"                            read_states::acknowledge         Ack            Channel;
    GET    "/channels/{channel_id}/messages"                                             messages::list                   History;
    POST   "/channels/{channel_id}/messages"                                             messages::create                 MessageCreate  Channel;
    POST   "/channels/{channel_id}/messages/bulk-delete"                                 messages::bulk_delete            BulkDelete     Channel;
    GET    "/channels/{channel_id}/messages/{message_id}"                                messages::read                   Read;
    PATCH  "/channels/{channel_id}/messages/{message_id}"                                messages::edit                   MessageEdit    Message;
    DELETE "/channels/{channel_id}/messages/{message_id}"                                messages::delete                 MessageDelete;
    DELETE "/channels/{channel_id}/messages/{message_id}/reactions"                      reactions::clear                 Reaction;
    GET    "/channels/{channel_id}/messages/{message_id}/reactions/{emoji}"              reactions::users                 History;
    DELETE "/channels/{channel_id}/messages/{message_id}/reactions/{emoji}"              reactions::clear_emoji           Reaction;
    PUT    "/channels/{channel_id}/messages/{message_id}/reactions/{emoji}/@me"          reactions::add                   Reaction;
    DELETE "/channels/{channel_id}/messages/{message_id}/reactions/{emoji}/@me"          reactions::remove_own            Reaction;
    DELETE "/channels/{channel_id}/messages/{message_id}/reactions/{emoji}/{user_id}"    reactions::remove                Reaction;
    POST   "/channels/{channel_id}/messages/{message_id}/crosspost"                      announcements::crosspost         Crosspost;
    POST   "/channels/{channel_id}/followers"                                            announcements::follow            StructureWrite Channel;
    PUT    "/channels/{channel_id}/polls/{message_id}/answers/@me"                       polls::vote                      Reaction       Message;
    GET    "/channels/{channel_id}/polls/{message_id}/answers/{answer_id}"               polls::voters                    History;
    POST   "/channels/{channel_id}/polls/{message_id}/expire"                            polls::expire                    MessageEdit;

    // Guilds.
    POST   "/guilds"                                                                     guilds::create                   GuildCreate    Caller;
    GET    "/guilds/{guild_id}"                                                          guilds::read                     Read;
    PATCH  "/guilds/{guild_id}"                                                          guilds::update                   StructureWrite Guild;
    DELETE "/guilds/{guild_id}"                                                          guilds::delete                   StructureWrite;
    GET    "/guilds/{guild_id}/channels"                                                 channels::list                   Read;
    POST   "/guilds/{guild_id}/channels"                                                 channels::create                 StructureWrite Guild;
    PATCH  "/guilds/{guild_id}/channels"                                                 channels::move_all               StructureWrite Guild;
    GET    "/guilds/{guild_id}/threads/active"                                           threads::active                  Read;
    GET    "/guilds/{guild_id}/roles"                                                    roles::list                      Read;
    POST   "/guilds/{guild_id}/roles"                                                    roles::create                    StructureWrite Guild;
    PATCH  "/guilds/{guild_id}/roles"                                                    roles::move_all                  StructureWrite Guild;
    GET    "/guilds/{guild_id}/roles/member-counts"                                      small::role_member_counts        Read;
    GET    "/guilds/{guild_id}/regions"                                                  small::guild_voice_regions       Read;
    GET    "/guilds/{guild_id}/integrations"                                             small::integrations              MemberSearch;
    GET    "/guilds/{guild_id}/auto-moderation/rules"                                    auto_moderation::list            Read;
    POST   "/guilds/{guild_id}/auto-moderation/rules"                                    auto_moderation::create          StructureWrite Guild;
    GET    "/guilds/{guild_id}/auto-moderation/rules/{rule_id}"                          auto_moderation::read            Read;
    PATCH  "/guilds/{guild_id}/auto-moderation/rules/{rule_id}"                          auto_moderation::update          StructureWrite Object;
    DELETE "/guilds/{guild_id}/auto-moderation/rules/{rule_id}"                          auto_moderation::delete          StructureWrite;
    GET    "/guilds/{guild_id}/preview"                                                          small::preview                   Read;
    GET    "/guilds/{guild_id}/soundboard-sounds"                                                small::guild_sounds              Read;
    GET    "/guilds/{guild_id}/welcome-screen"                                           community::read_welcome_screen   Read;
    PATCH  "/guilds/{guild_id}/welcome-screen"                                           community::update_welcome_screen StructureWrite Guild;
    GET    "/guilds/{guild_id}/onboarding"                                               community::read_onboarding       Read;
    PUT    "/guilds/{guild_id}/onboarding"                                               community::update_onboarding     StructureWrite Guild;
    PUT    "/guilds/{guild_id}/onboarding-responses"                                     community::replace_answers       MemberWrite    Guild;
    POST   "/guilds/{guild_id}/onboarding-responses"                                     community::answer_onboarding     MemberWrite    Guild;
    GET    "/guilds/{guild_id}/widget"                                                   community::read_widget_settings  Read;
    PATCH  "/guilds/{guild_id}/widget"                                                   community::update_widget         StructureWrite Guild;
    GET    "/guilds/{guild_id}/widget.json"                                              community::widget                Anonymous;
    GET    "/guilds/{guild_id}/vanity-url"                                               vanity::read                     Read;
    PATCH  "/guilds/{guild_id}/vanity-url"                                               vanity::update                   StructureWrite Guild;
    GET    "/guilds/{guild_id}/templates"                                                templates::list                  Read;
    POST   "/guilds/{guild_id}/templates"                                                templates::create                StructureWrite Guild;
    PUT    "/guilds/{guild_id}/templates/{code}"                                         templates::sync                  StructureWrite;
    PATCH  "/guilds/{guild_id}/templates/{code}"                                         templates::update                StructureWrite Guild;
    DELETE "/guilds/{guild_id}/templates/{code}"                                         templates::delete                StructureWrite;
    GET    "/guilds/templates/{code}"                                                    templates::read                  Read;
    POST   "/guilds/templates/{code}"                                                    templates::instantiate           GuildCreate    Caller;
    GET    "/guilds/{guild_id}/roles/{role_id}"                                          roles::read                      Read;
    PATCH  "/guilds/{guild_id}/roles/{role_id}"                                          roles::update                    StructureWrite Object;
    DELETE "/guilds/{guild_id}/roles/{role_id}"                                          roles::delete                    StructureWrite;
    GET    "/guilds/{guild_id}/members"                                                  members::list                    MemberList;
    GET    "/guilds/{guild_id}/members/search"                                           members::search                  MemberSearch;
    GET    "/guilds/{guild_id}/messages/search"                                          search::in_guild                 MessageSearch;
    PATCH  "/guilds/{guild_id}/members/@me"                                              members::update_own              MemberWrite    Guild;
    GET    "/guilds/{guild_id}/members/{user_id}"                                        members::read                    Read;
    PUT    "/guilds/{guild_id}/members/{user_id}"                                        bans::join                       MemberWrite    Guild;
    PATCH  "/guilds/{guild_id}/members/{user_id}"                                        members::update                  MemberWrite    Member;
    DELETE "/guilds/{guild_id}/members/{user_id}"                                        members::remove                  MemberWrite;
    GET    "/guilds/{guild_id}/emojis"                                                   emojis::list                     Read;
    POST   "/guilds/{guild_id}/emojis"                                                   emojis::create                   StructureWrite Guild;
    GET    "/guilds/{guild_id}/emojis/{emoji_id}"                                        emojis::read                     Read;
    PATCH  "/guilds/{guild_id}/emojis/{emoji_id}"                                        emojis::update                   StructureWrite Object;
    DELETE "/guilds/{guild_id}/emojis/{emoji_id}"                                        emojis::delete                   StructureWrite;
    GET    "/guilds/{guild_id}/stickers"                                                 stickers::list                   Read;
    POST   "/guilds/{guild_id}/stickers"                                                 stickers::create                 StructureWrite Guild;
    GET    "/guilds/{guild_id}/stickers/{sticker_id}"                                    stickers::read                   Read;
    PATCH  "/guilds/{guild_id}/stickers/{sticker_id}"                                    stickers::update                 StructureWrite Object;
    DELETE "/guilds/{guild_id}/stickers/{sticker_id}"                                    stickers::delete                 StructureWrite;
    GET    "/guilds/{guild_id}/scheduled-events"                                         scheduled_events::list           Read;
    POST   "/guilds/{guild_id}/scheduled-events"                                         scheduled_events::create         StructureWrite Guild;
    GET    "/guilds/{guild_id}/scheduled-events/{event_id}"                              scheduled_events::read           Read;
    PATCH  "/guilds/{guild_id}/scheduled-events/{event_id}"                              scheduled_events::update         StructureWrite Object;
    DELETE "/guilds/{guild_id}/scheduled-events/{event_id}"                              scheduled_events::delete         StructureWrite;
    GET    "/guilds/{guild_id}/scheduled-events/{event_id}/users"                        scheduled_events::list_followers Read;
    PUT    "/guilds/{guild_id}/scheduled-events/{event_id}/users/@me"                    scheduled_events::follow         StructureWrite;
    DELETE "/guilds/{guild_id}/scheduled-events/{event_id}/users/@me"                    scheduled_events::unfollow       StructureWrite;
    GET    "/guilds/{guild_id}/voice-states/{user_id}"                                   voice_states::read               Read;
    PATCH  "/guilds/{guild_id}/voice-states/{user_id}"                                   voice_states::update             MemberWrite    Member;
    GET    "/guilds/{guild_id}/audit-logs"                                               guilds::audit_log                Read;
    GET    "/guilds/{guild_id}/bans"                                                     bans::list                       Read;
    GET    "/guilds/{guild_id}/bans/{user_id}"                                           bans::read                       Read;
    PUT    "/guilds/{guild_id}/bans/{user_id}"                                           bans::put                        MemberWrite    Guild;
    DELETE "/guilds/{guild_id}/bans/{user_id}"                                           bans::remove                     MemberWrite;
    POST   "/guilds/{guild_id}/bulk-ban"                                                 bans::bulk                       StructureWrite Guild;
    GET    "/guilds/{guild_id}/prune"                                                    bans::count_prune                Read;
    POST   "/guilds/{guild_id}/prune"                                                    bans::prune                      StructureWrite Guild;
    GET    "/guilds/{guild_id}/invites"                                                  invites::of_guild                Read;
    GET    "/guilds/{guild_id}/webhooks"                                                 webhooks::of_guild               Read;
    PUT    "/guilds/{guild_id}/members/{user_id}/roles/{role_id}"                        members::add_role                MemberWrite;
    DELETE "/guilds/{guild_id}/members/{user_id}/roles/{role_id}"                        members::remove_role             MemberWrite;

    // Accounts and applications.
    GET    "/gateway"                                                                    bootstrap::gateway               Anonymous;
    POST   "/attachments/refresh-urls"                                                   attachments::refresh_urls        Write          Caller;
    GET    "/voice/regions"                                                              small::voice_regions             Read;
    GET    "/sticker-packs"                                                              small::sticker_packs             Read;
    GET    "/soundboard-default-sounds"                                                  small::default_sounds            Read;
    GET    "/gateway/bot"                                                                bootstrap::gateway_bot           GatewayBot;
    GET    "/users/@me"                                                                  bootstrap::own_user              Read;
    PATCH  "/users/@me"                                                                  bootstrap::update_own_user       Write          Caller;
    GET    "/users/@me/sessions/{session_id}/stream"                                     bootstrap::own_stream            Read;
    GET    "/users/@me/settings-proto/{kind}"                                            settings_proto::read             Read;
    PATCH  "/users/@me/settings-proto/{kind}"                                            settings_proto::update           Write          Caller;
    GET    "/users/@me/channels"                                                         directs::list                    Read;
    POST   "/users/@me/channels"                                                         directs::open                    Write          Caller;
    GET    "/users/@me/guilds"                                                           guilds::list_own                 GuildList;
    GET    "/users/@me/relationships"                                                    relationships::list              Read;
    POST   "/users/@me/relationships"                                                    relationships::befriend_named    Relationships  Caller [exempt "guilds do not matter: it/surface/relationships.rs"];
    DELETE "/users/@me/relationships"                                                    relationships::decline_all       Relationships [exempt "guilds do not matter: it/surface/relationships.rs"];
    PUT    "/users/@me/relationships/{user_id}"                                          relationships::put               Relationships  Caller [exempt "guilds do not matter: it/surface/relationships.rs"];
    PATCH  "/users/@me/relationships/{user_id}"                                          relationships::update            Relationships  Caller [exempt "guilds do not matter: it/surface/relationships.rs"];
    DELETE "/users/@me/relationships/{user_id}"                                          relationships::remove            Relationships [exempt "guilds do not matter: it/surface/relationships.rs"];
    POST   "/read-states/ack-bulk"                                                       read_states::acknowledge_many    Write          Caller;
    PATCH  "/users/@me/guilds/settings"                                                  read_states::update_all_notifications Write     Caller;
    PATCH  "/users/@me/guilds/{guild_id}/settings"                                       read_states::update_notifications Write         Caller;
    DELETE "/users/@me/guilds/{guild_id}"                                                members::leave                   Write;
    GET    "/users/@me/guilds/{guild_id}/member"                                         members::read_own                Read;
    GET    "/users/@me/connections"                                                              small::connections               Read;
    GET    "/users/@me/applications/{application_id}/entitlements"                               small::own_entitlements          Read;
    GET    "/users/{user_id}"                                                            bootstrap::user                  Read;
    GET    "/applications/@me"                                                           bootstrap::application           Read;
    GET    "/applications/{application_id}"                                                      bootstrap::application_by_id     Read;
    GET    "/applications/{application_id}/skus"                                                 small::skus                      Read;
    GET    "/applications/{application_id}/entitlements"                                         small::entitlements              Read;
    GET    "/applications/{application_id}/emojis"                                               small::application_emojis        Read;
    GET    "/applications/{application_id}/role-connections/metadata"                            small::role_connections          Read;
    PATCH  "/applications/@me"                                                           endpoint::update                 StructureWrite Caller;
    GET    "/oauth2/applications/@me"                                                    bootstrap::application           Read;
    GET    "/applications/{application_id}/commands"                                     commands::list                   Commands;
    PUT    "/applications/{application_id}/commands"                                     commands::replace                Commands       Caller;
    POST   "/applications/{application_id}/commands"                                     commands::create                 Commands       Caller;
    GET    "/applications/{application_id}/commands/{command_id}"                        commands::read                   Commands;
    PATCH  "/applications/{application_id}/commands/{command_id}"                        commands::update                 Commands       Caller;
    DELETE "/applications/{application_id}/commands/{command_id}"                        commands::delete                 Commands;
    GET    "/applications/{application_id}/guilds/{guild_id}/commands"                   commands::list                   Commands;
    PUT    "/applications/{application_id}/guilds/{guild_id}/commands"                   commands::replace                Commands       Guild;
    POST   "/applications/{application_id}/guilds/{guild_id}/commands"                   commands::create                 Commands       Guild;
    GET    "/applications/{application_id}/guilds/{guild_id}/commands/permissions"       permissions::list                Commands;
    GET    "/applications/{application_id}/guilds/{guild_id}/commands/{command_id}"      commands::read                   Commands;
    PATCH  "/applications/{application_id}/guilds/{guild_id}/commands/{command_id}"      commands::update                 Commands       Guild;
    DELETE "/applications/{application_id}/guilds/{guild_id}/commands/{command_id}"      commands::delete                 Commands;
    GET    "/applications/{application_id}/guilds/{guild_id}/commands/{command_id}/permissions"  permissions::read        Commands;
    PUT    "/applications/{application_id}/guilds/{guild_id}/commands/{command_id}/permissions"  permissions::replace     Commands       Guild;

    // Interactions.
    POST   "/interactions"                                                               invoke::create                   Invocation     Caller;
    POST   "/interactions/{interaction_id}/{interaction_token}/callback"                 callback::create                 Interaction    Webhook;

    // Stages, invites and webhooks.
    POST   "/stage-instances"                                                            stages::create                   Write          Caller;
    GET    "/stage-instances/{channel_id}"                                               stages::read                     Read;
    PATCH  "/stage-instances/{channel_id}"                                               stages::update                   Write          Channel;
    DELETE "/stage-instances/{channel_id}"                                               stages::delete                   Write;
    GET    "/invites/{code}"                                                             invites::read                    Read;
    POST   "/invites/{code}"                                                             invites::accept                  Write;
    DELETE "/invites/{code}"                                                             invites::delete                  Write;
    GET    "/webhooks/{webhook_id}"                                                      webhooks::read                   Read;
    PATCH  "/webhooks/{webhook_id}"                                                      webhooks::update                 Write          Webhook;
    DELETE "/webhooks/{webhook_id}"                                                      webhooks::delete                 Write;
    GET    "/webhooks/{webhook_id}/{webhook_token}"                                      webhooks::read_by_token          Webhook;
    PATCH  "/webhooks/{webhook_id}/{webhook_token}"                                      webhooks::update_by_token        Webhook        Webhook;
    DELETE "/webhooks/{webhook_id}/{webhook_token}"                                      webhooks::delete_by_token        Webhook;
    POST   "/webhooks/{webhook_id}/{webhook_token}"                                      webhooks::execute                Webhook        Webhook;
    POST   "/webhooks/{webhook_id}/{webhook_token}/slack"                                foreign_webhooks::slack          Webhook        Webhook;
    POST   "/webhooks/{webhook_id}/{webhook_token}/github"                               foreign_webhooks::github         Webhook        Webhook;
    GET    "/webhooks/{webhook_id}/{webhook_token}/messages/{message_id}"                webhooks::read_message           Webhook;
    PATCH  "/webhooks/{webhook_id}/{webhook_token}/messages/{message_id}"                webhooks::edit_message           Webhook        Webhook;
    DELETE "/webhooks/{webhook_id}/{webhook_token}/messages/{message_id}"                webhooks::delete_message         Webhook;
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_fit_their_template() {
        let check = |template: &str, path: &str, expected: bool| assert_eq!(fits(template, path), expected, "{path}");
        check("/guilds/{guild_id}/messages/search", "/guilds/1/messages/search", true);
        check("/guilds/{guild_id}/messages/search", "/guilds//messages/search", false);
        check("/guilds/{guild_id}/messages/search", "/guilds/1/messages/search/more", false);
        check("/users/@me", "/users/@me", true);
        check("/users/@me", "/users/1", false);
        check("/users/{user_id}", "/users/@me", true);
        check("/users/@me", "", false);
    }

    #[test]
    fn only_routes_that_change_something_are_exempt_from_the_matrix() {
        for route in ROUTES {
            assert!(route.no_matrix.is_none_or(|why| route.is_change() && !why.is_empty()), "{route:?}");
        }
    }
}
