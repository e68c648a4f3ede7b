//! Manifest: `demo.json`, where tools find the demo.
//!
//! Invariants  M1 only its owner can read it: it holds tokens. M2 it appears whole, and only once its contents are
//!             true: a stale one is removed at the start. (tests `m*_*`)

use guildhall_model::{ChannelId, GuildId};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

/// Content of `demo.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    /// Like `http://127.0.0.1:8080/api`.
    pub api_base: String,
    /// Like `ws://127.0.0.1:8080`.
    pub gateway_url: String,
    /// For the admin API.
    pub admin_key: String,
    /// Of the bot, without `Bot `.
    pub bot_token: String,
    /// Of the ordinary member.
    pub user_token: String,
    pub guild_id: GuildId,
    /// The first is public text.
    pub channel_ids: Vec<ChannelId>,
}

/// Path of the file.
pub(super) fn path_in(data_dir: &Path) -> PathBuf {
    data_dir.join("demo.json")
}

impl Manifest {
    /// Reads what the last run left and takes it away (M2). Something unreadable counts as nothing.
    pub fn take(data_dir: &Path) -> Option<Self> {
        let path = path_in(data_dir);
        let text = fs::read(&path).ok()?;
        // If it cannot be removed, writing the new one fails too, with the reason.
        let _ = fs::remove_file(&path);
        serde_json::from_slice(&text).ok()
    }

    /// Puts it there.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn write(&self, data_dir: &Path) -> io::Result<()> {
        let path = path_in(data_dir);
        let draft = path.with_extension("json.tmp");
        // A draft that was left behind may have other rights: never write into it.
        match fs::remove_file(&draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        file.write_all(serde_json::to_string_pretty(self)?.as_bytes())?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        fs::rename(&draft, &path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn manifest() -> Manifest {
        Manifest {
            api_base: "http://127.0.0.1:1/api".into(),
            gateway_url: "ws://127.0.0.1:1".into(),
            admin_key: "k".into(),
            bot_token: "b".into(),
            user_token: "u".into(),
            guild_id: GuildId::new(1),
            channel_ids: vec![ChannelId::new(2), ChannelId::new(3)],
        }
    }

    #[test]
    fn it_has_exactly_the_documented_keys() {
        let value = serde_json::to_value(manifest()).unwrap();
        let keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
        let mut expected =
            ["api_base", "gateway_url", "admin_key", "bot_token", "user_token", "guild_id", "channel_ids"];
        expected.sort_unstable();
        assert_eq!(keys, expected);
        assert_eq!((&value["guild_id"], &value["channel_ids"][0]), (&"1".into(), &"2".into()));
    }

    #[test]
    fn m1_only_its_owner_reads_it() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("demo.json.tmp"), "left behind").unwrap();
        manifest().write(dir.path()).unwrap();
        let mode = fs::metadata(path_in(dir.path())).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(!dir.path().join("demo.json.tmp").exists());
    }

    #[test]
    fn m2_a_stale_one_is_taken_away() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Manifest::take(dir.path()), None);
        manifest().write(dir.path()).unwrap();
        assert_eq!(Manifest::take(dir.path()), Some(manifest()));
        assert_eq!(Manifest::take(dir.path()), None);
        fs::write(path_in(dir.path()), "{").unwrap();
        assert_eq!(Manifest::take(dir.path()), None);
        assert!(!path_in(dir.path()).exists());
    }
}
