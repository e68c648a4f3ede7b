//! Files of a command: options of type 11.
//!
//! Invariants  L1 a file is stored only if the account may send files to the channel, and the command has an option for
//!             it. (test `files_are_options` of `guildhall`)
//! Limits      as of a message: `FILES_MAX` files, their bytes, shares of accounts and guilds. They are held for
//!             `TOKEN_MS`, of `HOLDING_MAX` interactions; past it the request is refused (503). Then the sweep of
//!             files removes them.
//! Not here    form data and the folder of files: `guildhall-media`.

use super::{TOKEN_MS, describe::Scene};
use crate::{auth::Caller, error::ApiError, state::Api};
use guildhall_media::Uploads;
use guildhall_model::Message;
use std::{sync::Arc, time::Duration};

/// Stores the files of an invocation, and holds them until its token has expired. The result is no message that is
/// sent: it has the files as attachments.
pub(super) async fn hold(
    api: &Api,
    caller: &Caller,
    scene: &Scene,
    uploads: Uploads,
) -> Result<Arc<Message>, ApiError> {
    let place = Arc::clone(&api.answers.holding).try_acquire_owned().map_err(|_| ApiError::Overloaded)?;
    api.may_attach(caller, scene.channel_id, None).await?;
    let kept = uploads.keep(&api.media, scene.channel_id, &[]).await?;
    let message = Message {
        attachments: kept.lent(TOKEN_MS as u64 / 1_000),
        ..Message::new(api.node.next_id().await?, scene.channel_id, scene.guild_id, scene.user.clone())
    };
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(TOKEN_MS as u64)).await;
        kept.release().await;
        drop(place);
    });
    Ok(Arc::new(message))
}
