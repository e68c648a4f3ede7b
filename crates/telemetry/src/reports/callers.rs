//! Callers and files: the callers with the most requests, and the owners of uploaded files.

use super::Reports;
use guildhall_accounting::{
    CALLERS_WINDOW_S, Requests,
    report::{Caller, CallersReport, FilesReport, GuildFiles, Uploader},
};
use guildhall_http_kit::LoudCallers;
use guildhall_media::FileOwners;
use guildhall_model::{GuildId, UserId};

/// The name of the key of the configuration.
const ROOT_KEY: &str = "root key";

fn caller(id: String, name: String, of: Requests) -> Caller {
    Caller { id, name, requests: of.count, requests_over: of.over, busy_ns: of.ns }
}

impl Reports {
    pub(super) async fn callers_report(&self, limit: usize) -> CallersReport {
        let LoudCallers { all, accounts: loud, keys: loud_keys, addresses } = self.metrics.rest.callers.report(limit);
        let mut accounts = Vec::with_capacity(loud.len());
        for (id, of) in loud {
            accounts.push(caller(id.to_string(), self.name_of(id).await, of));
        }
        let known = self.metrics.node.keys().await.unwrap_or_default();
        let key_name = |id: u64| match id {
            0 => ROOT_KEY.to_owned(),
            _ => known.iter().find(|key| key.id == Some(id)).map_or_else(String::new, |key| key.name.clone()),
        };
        CallersReport {
            at_ms: self.at_ms(),
            window_s: CALLERS_WINDOW_S,
            requests: all.count,
            busy_ns: all.ns,
            accounts,
            keys: loud_keys.into_iter().map(|(id, of)| caller(id.to_string(), key_name(id), of)).collect(),
            addresses: addresses.into_iter().map(|(id, of)| caller(id, String::new(), of)).collect(),
        }
    }

    pub(super) async fn files_report(&self, limit: usize) -> Option<FilesReport> {
        let owners = self.metrics.files.as_ref()?.owners(limit);
        let FileOwners { bytes, bytes_max, pictures_bytes, attachments_bytes_max, guild_bytes_max, .. } = owners;
        let mut uploaders = Vec::with_capacity(owners.senders.len());
        for of in &owners.senders {
            let (id, name) = (of.sender.to_string(), self.name_of(of.sender).await);
            uploaders.push(Uploader { id, name, day_bytes: of.bytes });
        }
        let mut guilds = Vec::with_capacity(owners.guilds.len());
        for of in &owners.guilds {
            let (id, name) = (of.guild_id.to_string(), self.guild_name(of.guild_id).await);
            guilds.push(GuildFiles { id, name, files: of.files, bytes: of.bytes });
        }
        let day_max = owners.sender_day_bytes_max;
        Some(FilesReport {
            at_ms: self.at_ms(),
            bytes,
            bytes_max,
            pictures_bytes,
            attachments_bytes_max,
            guild_bytes_max,
            account_day_bytes_max: (day_max < u64::MAX).then_some(day_max),
            guilds,
            uploaders,
        })
    }

    /// Empty if it is no account.
    async fn name_of(&self, id: u64) -> String {
        let user = self.metrics.node.user(UserId::new(id)).await.ok().flatten();
        user.map_or_else(String::new, |user| user.username.clone())
    }

    /// Empty if the guild is not loaded.
    async fn guild_name(&self, guild_id: GuildId) -> String {
        let account = self.metrics.node.guild_account(guild_id).await;
        account.map_or_else(String::new, |account| account.guild.name)
    }
}
