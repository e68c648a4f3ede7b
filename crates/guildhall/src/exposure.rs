//! Exposure: files with secrets that other users of this machine can read.
//!
//! Doors       `exposed`, for `serve`, `config check` and `doctor`: each prints one warning per file.
//! Invariants  X1 a file is reported if its mode lets other users than its owner read it. A group is no fault if the
//!             node reads the file by it: the owner is another account, and the group one of the process. (test `x1_*`)
//! Not here    the data directory, which the node makes private itself: `guildhall_store`.

use guildhall_settings::{Config, Loaded, Origin};
use rustix::process::{getegid, geteuid, getgroups};
use std::{
    fmt, fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

/// What secrets are replaced by when they are printed.
const HIDDEN: &str = "(hidden)";

/// A file with a secret that others can read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exposed {
    /// The setting that names the file, or a setting in it.
    pub setting: String,
    pub path: PathBuf,
    /// Access rights.
    pub mode: u32,
}

impl fmt::Display for Exposed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { setting, path, mode } = self;
        let path = path.display();
        write!(f, "other users can read the secret of {setting} in {path} (mode {mode:o}): run `chmod go= {path}`")
    }
}

/// All such files, each once.
#[must_use]
pub fn exposed(loaded: &Loaded) -> Vec<Exposed> {
    let in_file = loaded.effective.iter().filter_map(|setting| match (&setting.text, &setting.origin) {
        (Some(text), Origin::File(path, _)) if text.contains(HIDDEN) => {
            Some((format!("{}.{}", setting.section, setting.key), path.clone()))
        }
        _ => None,
    });
    let named = files(&loaded.config).into_iter().filter_map(|(name, path)| Some((name.to_owned(), path?.to_owned())));
    let mut found = Vec::<Exposed>::new();
    for (setting, path) in in_file.chain(named) {
        if let Some(mode) = exposed_mode(&path)
            && !found.iter().any(|exposed| exposed.path == path)
        {
            found.push(Exposed { setting, path, mode });
        }
    }
    found
}

/// Files that contain nothing but a secret.
fn files(config: &Config) -> [(&'static str, Option<&Path>); 7] {
    [
        ("auth.jwt_secret_file", config.auth.jwt_secret_file.as_deref()),
        ("auth.admin_key_file", config.auth.admin_key_file.as_deref()),
        ("voice.token_key_file", config.voice.token_key_file.as_deref()),
        ("tls.key_file", config.tls.key_file.as_deref()),
        ("uploads.s3_secret_key_file", config.uploads.s3_secret_key_file.as_deref()),
        ("cluster.nats_credentials_file", config.cluster.nats_credentials_file.as_deref()),
        ("traces.headers_file", config.traces.headers_file.as_deref()),
    ]
}

/// The mode of a file that others can read; none for other files, and if there is no file.
fn exposed_mode(path: &Path) -> Option<u32> {
    let file = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    let groups = getgroups().unwrap_or_default();
    let is_by_group = file.uid() != geteuid().as_raw()
        && (file.gid() == getegid().as_raw() || groups.iter().any(|group| group.as_raw() == file.gid()));
    let others = if is_by_group { 0o004 } else { 0o044 };
    let mode = file.mode() & 0o777;
    (mode & others != 0).then_some(mode)
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_settings::{Sources, load};
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn x1_files_that_others_can_read_are_found_once() {
        let dir = tempfile::tempdir().unwrap();
        let (config, key) = (dir.path().join("g.toml"), dir.path().join("key"));
        let secret = "k".repeat(40);
        let found = |text: &str, config_mode: u32, key_mode: u32| {
            for (path, text, mode) in [(&config, text, config_mode), (&key, &*secret, key_mode)] {
                fs::write(path, text).unwrap();
                fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
            }
            let sources = Sources { file: Some((config.clone(), text.to_owned())), ..Sources::default() };
            exposed(&load(&sources, &[]).unwrap()).iter().map(|found| found.setting.clone()).collect::<Vec<_>>()
        };
        let inside = format!("[auth]\nadmin_key = \"{secret}\"\njwt_secret = \"{secret}\"\n");
        let beside = format!("[auth]\nadmin_key_file = \"{}\"\n", key.display());
        assert_eq!(found(&inside, 0o600, 0o600), [""; 0]);
        let [one] = &*found(&inside, 0o644, 0o600) else { panic!("one warning for one file") };
        assert!(one == "auth.jwt_secret" || one == "auth.admin_key", "{one}");
        assert_eq!(found(&inside, 0o640, 0o600).len(), 1, "its group can read it");
        assert_eq!(found(&beside, 0o644, 0o600), [""; 0], "there is no secret in it");
        assert_eq!(found(&beside, 0o644, 0o604), ["auth.admin_key_file"]);
        let url = "[store]\nurl = \"postgres://ana:horse@db.example.net/guildhall\"\n";
        assert_eq!(found(url, 0o644, 0o600), ["store.url"]);
        assert_eq!(found(&url.replace(":horse", ""), 0o644, 0o600), [""; 0]);
    }
}
