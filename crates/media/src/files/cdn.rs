//! CDN: links to pictures (avatars, icons, emoji, stickers), as upstream's `cdn.discordapp.com` has them, without a
//! token.
//!
//! Invariants  D1 a path leads to a file only if it consists of numbers, names of this module and hashes. D2 the served
//!             bytes are the uploaded ones: no format or size is converted, and `?size=` is ignored. D3 browsers never
//!             execute a picture.
//! Limits      as for other files (`serve`). No read of the store: a picture is served until its file is removed.
//! Spec        docs/protocol/choices.md "Pictures".

use super::{
    Files,
    pictures::{Kind, is_hash, picture_key},
    serve::{find, respond, with_headers},
};
use crate::{MediaError, upload::FILES_UNAVAILABLE};
use axum::{
    Router,
    extract::{Path, Request, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::get,
};
use guildhall_model::Id;
use guildhall_store::{PictureOwner, emoji_picture, event_picture, role_picture, sticker_picture};

/// A picture of one link never changes.
const CACHE: &str = "public, max-age=31536000, immutable";

pub(super) fn router(files: Files) -> Router {
    Router::new()
        .route("/avatars/{id}/{file}", get(avatar))
        .route("/banners/{id}/{file}", get(banner))
        .route("/icons/{id}/{file}", get(of_guild))
        .route("/splashes/{id}/{file}", get(of_guild))
        .route("/discovery-splashes/{id}/{file}", get(of_guild))
        .route("/role-icons/{id}/{file}", get(role_icon))
        .route("/guild-events/{id}/{file}", get(event_cover))
        .route("/emojis/{file}", get(emoji))
        .route("/stickers/{file}", get(sticker))
        .route("/guilds/{guild_id}/users/{user_id}/avatars/{file}", get(of_member))
        .route("/guilds/{guild_id}/users/{user_id}/banners/{file}", get(of_member))
        .with_state(files)
}

/// Splits a file name into name and extension.
fn split(file: &str) -> Option<(&str, &str)> {
    file.rsplit_once('.')
}

fn number<T>(text: &str) -> Option<Id<T>> {
    text.parse().ok().map(Id::new)
}

/// Serves the first of these pictures that exists.
async fn answer(
    files: Files,
    candidates: impl IntoIterator<Item = (PictureOwner, String), IntoIter: Send> + Send,
    file: &str,
    request: Request,
) -> Response {
    let extension = split(file).map_or("", |(_, extension)| extension);
    match serve(&files, candidates, extension, request).await {
        Ok(response) => response,
        Err(error) => error.into_response(),
    }
}

/// Libraries choose the extension, not the format: any extension of a picture gets the stored bytes, with their own
/// type. As upstream, `.gif` is only for animated pictures.
async fn serve(
    files: &Files,
    candidates: impl IntoIterator<Item = (PictureOwner, String), IntoIter: Send> + Send,
    extension: &str,
    request: Request,
) -> Result<Response, MediaError> {
    if !["png", "jpg", "jpeg", "webp", "gif", "avif", "json"].contains(&extension) {
        return Err(MediaError::NotFound);
    }
    for (owner, name) in candidates {
        let found = match find(files, &picture_key(owner, &name)).await {
            Err(MediaError::NotFound) => continue,
            found => found?,
        };
        let (response, content_type, is_shown) = respond(found, "", request).await?;
        let content_type = match (content_type, extension) {
            // Only stickers can be something else than a picture (D3).
            (_, "json") if !is_shown => "application/json",
            (_, "gif") if is_hash(&name) && !name.starts_with("a_") && content_type != "image/gif" => {
                let message = "This picture is not animated: request .png or .webp";
                return Err(MediaError::coded(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
            }
            (content_type, extension) if is_shown && extension != "json" => content_type,
            _ => return Err(MediaError::NotFound),
        };
        return Ok(with_headers(response, content_type, "inline", CACHE));
    }
    Err(MediaError::NotFound)
}

type IdAndFile = Path<(String, String)>;

/// The hash that a file's name starts with (D1).
fn hash_of(file: &str) -> Option<String> {
    let (hash, _) = split(file)?;
    is_hash(hash).then(|| hash.to_owned())
}

async fn avatar(State(files): State<Files>, Path((id, file)): IdAndFile, request: Request) -> Response {
    let found = number(&id).zip(hash_of(&file)).map(|(id, hash)| (PictureOwner::User(id), hash));
    answer(files, found, &file, request).await
}

async fn of_guild(State(files): State<Files>, Path((id, file)): IdAndFile, request: Request) -> Response {
    let found = number(&id).zip(hash_of(&file)).map(|(id, hash)| (PictureOwner::Guild(id), hash));
    answer(files, found, &file, request).await
}

/// Banners of accounts and guilds have the same links; their ids differ.
async fn banner(State(files): State<Files>, Path((id, file)): IdAndFile, request: Request) -> Response {
    let of_user = number(&id).zip(hash_of(&file)).map(|(id, hash)| (PictureOwner::User(id), hash));
    let of_guild = number(&id).zip(hash_of(&file)).map(|(id, hash)| (PictureOwner::Guild(id), hash));
    answer(files, of_user.into_iter().chain(of_guild), &file, request).await
}

async fn of_member(
    State(files): State<Files>,
    Path((guild_id, user_id, file)): Path<(String, String, String)>,
    request: Request,
) -> Response {
    let found = (|| Some((PictureOwner::Member(number(&guild_id)?, number(&user_id)?), hash_of(&file)?)))();
    answer(files, found, &file, request).await
}

/// Serves a picture of an object whose link lacks the guild.
async fn in_guild(files: Files, object: Option<(Kind, u64, String)>, file: &str, request: Request) -> Response {
    let Some((kind, id, name)) = object else { return MediaError::NotFound.into_response() };
    match files.guild_of_picture(kind, id).await {
        Ok(guild_id) => answer(files, guild_id.map(|id| (PictureOwner::Guild(id), name)), file, request).await,
        Err(_) => FILES_UNAVAILABLE.into_response(),
    }
}

async fn role_icon(State(files): State<Files>, Path((id, file)): IdAndFile, request: Request) -> Response {
    let object = number(&id).zip(hash_of(&file)).map(|(id, hash)| (Kind::Role, id.get(), role_picture(id, &hash)));
    in_guild(files, object, &file, request).await
}

async fn event_cover(State(files): State<Files>, Path((id, file)): IdAndFile, request: Request) -> Response {
    let object = number(&id).zip(hash_of(&file)).map(|(id, hash)| (Kind::Event, id.get(), event_picture(id, &hash)));
    in_guild(files, object, &file, request).await
}

async fn emoji(State(files): State<Files>, Path(file): Path<String>, request: Request) -> Response {
    let id = split(&file).and_then(|(id, _)| number(id));
    let object = id.map(|id| (Kind::Emoji, id.get(), emoji_picture(id)));
    in_guild(files, object, &file, request).await
}

async fn sticker(State(files): State<Files>, Path(file): Path<String>, request: Request) -> Response {
    let id = split(&file).and_then(|(id, _)| number(id));
    let object = id.map(|id| (Kind::Sticker, id.get(), sticker_picture(id)));
    in_guild(files, object, &file, request).await
}
