//! Backup: copies a data directory's database and files, and restores the copy.
//!
//! Owns        a backup's form: `guildhall.db`, `files/CHANNEL/ID`, `files/pictures/FOLDER/OWNER/NAME`, and last
//!             `manifest.ndjson`: a head, a line per file with its size and hash, and the hash of all of that.
//! Doors       `backup`, also while a node runs on the directory; `restore`, into an empty one.
//! Invariants  B1 a backup contains every message that was acknowledged before the call, and all its files: files are
//!             copied after the database, and a file exists before its message. B2 a directory without a complete
//!             manifest is no backup. B3 a restore accepts nothing that differs from the manifest, and after an
//!             interruption leaves nothing that a node would start on. (tests `it::backup`)
//! Limits      one file at a time, in pieces of `PIECE_BYTES`. A file whose message is deleted during the backup may
//!             be missing in it.
//! Not here    databases of PostgreSQL, which have tools of their own. `handover.ndjson` and tokens in `demo.json`,
//!             which belong to the running node.

use crate::handover::{Foot, Hashed, hex, line};
use anyhow::{Context as _, bail, ensure};
use guildhall_store::{DATABASE_FILE, DataDir, RESTORING_FILE, backup_database};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sha2::{Digest as _, Sha256};
use std::{
    fs::{self, DirBuilder, File},
    io::{self, BufRead as _, BufReader, BufWriter, Read as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

const MANIFEST: &str = "manifest.ndjson";
const FILES: &str = "files";
/// Counts up when the form changes. Earlier ones are read: 1 has no pictures.
const VERSION: u32 = 2;
const PICTURES: &str = "pictures";
const PICTURE_FOLDERS: [&str; 3] = ["users", "guilds", "members"];
const PIECE_BYTES: usize = 1 << 20;
/// No line of a manifest is longer.
const LINE_BYTES_MAX: u64 = 4096;
/// Directory that a new ext4 file system contains.
const LOST_AND_FOUND: &str = "lost+found";

#[derive(Serialize, Deserialize)]
struct Head {
    guildhall_backup: u32,
    version: String,
    created_ms: u64,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    path: String,
    bytes: u64,
    sha256: String,
}

/// Size of a backup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Bytes of the database.
    pub database_bytes: u64,
    /// Number of uploaded files and pictures.
    pub files: u64,
    /// Bytes of these files.
    pub files_bytes: u64,
}

impl Summary {
    fn add(&mut self, entry: &Entry) {
        if entry.path == DATABASE_FILE {
            self.database_bytes = entry.bytes;
        } else {
            self.files += 1;
            self.files_bytes += entry.bytes;
        }
    }
}

/// Copies the database in `database_dir` and the files of `data` to `to`, which must not exist or be empty. Blocks.
///
/// # Errors
/// There is no database, it is damaged, or the copy cannot be written.
pub async fn backup(database_dir: &Path, data: &Path, to: &Path) -> anyhow::Result<Summary> {
    let shown = database_dir.display();
    ensure!(database_dir.join(DATABASE_FILE).exists(), "{shown} has no {DATABASE_FILE}: name the data directory");
    create_empty(to)?;
    let mut manifest = Hashed::new(BufWriter::new(create(&to.join(format!("{MANIFEST}.part")))?));
    let created_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64);
    let version = env!("CARGO_PKG_VERSION").to_owned();
    line(&mut manifest, &Head { guildhall_backup: VERSION, version, created_ms })?;
    let mut summary = Summary::default();

    let database = to.join(DATABASE_FILE);
    backup_database(database_dir, &database).await?;
    let (bytes, sha256) = hash(&database)?;
    let entry = Entry { path: DATABASE_FILE.to_owned(), bytes, sha256 };
    summary.add(&entry);
    line(&mut manifest, &entry)?;

    let mut copy_folder = |folder: String, is_ours: fn(&str) -> bool| -> anyhow::Result<()> {
        let (from, to) = (data.join(&folder), to.join(&folder));
        let names = names_in(&from, is_ours)?;
        if !names.is_empty() {
            private_dirs().create(&to).with_context(|| cannot_write(&to))?;
        }
        for name in names {
            // The file was deleted in the meantime, with its message or owner.
            let Some((bytes, sha256)) = copy(&from.join(&name), &to.join(&name))? else { continue };
            let entry = Entry { path: format!("{folder}/{name}"), bytes, sha256 };
            summary.add(&entry);
            line(&mut manifest, &entry)?;
        }
        Ok(())
    };
    for channel_id in names_in(&data.join(FILES), is_number)? {
        copy_folder(format!("{FILES}/{channel_id}"), is_number)?;
    }
    for folder in PICTURE_FOLDERS {
        let folder = format!("{FILES}/{PICTURES}/{folder}");
        for owner in names_in(&data.join(&folder), is_picture_owner)? {
            copy_folder(format!("{folder}/{owner}"), is_picture)?;
        }
    }
    sync_all(to)?;
    let Hashed { to: mut out, hash } = manifest;
    line(&mut out, &Foot { sha256: hex(&hash.finalize()) })?;
    out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    fs::rename(to.join(format!("{MANIFEST}.part")), to.join(MANIFEST))?;
    sync_all(to)?;
    Ok(summary)
}

/// Copies a backup into `data`, which must not exist or be empty. Blocks.
///
/// # Errors
/// `from` is not a complete backup, a file in it differs from its manifest, or `data` is not empty or in use. A failed
/// restore removes the files that it copied, if it can.
pub fn restore(from: &Path, data: &Path) -> anyhow::Result<Summary> {
    let entries = read_manifest(from)?;
    ensure!(
        is_empty(data)?,
        "{} is not empty: a restore never overwrites. Name a new directory with --data, or move the old one away",
        data.display()
    );
    let dir = DataDir::open(data)?;
    let marker = dir.path().join(RESTORING_FILE);
    create(&marker)?.sync_all()?;
    sync_all(dir.path())?;
    let copied = copy_all(from, dir.path(), &entries);
    if copied.is_err() {
        // The directory is as before. Files that cannot be removed stay with the marker, and no node starts on it.
        let _ = fs::remove_dir_all(dir.path().join(FILES));
        let removed = fs::remove_file(dir.path().join(DATABASE_FILE));
        if removed.is_ok() || !dir.path().join(DATABASE_FILE).exists() {
            let _ = fs::remove_file(&marker);
        }
        let _ = fs::remove_file(dir.path().join("guildhall.lock"));
        return copied;
    }
    sync_all(dir.path())?;
    fs::remove_file(&marker).with_context(|| format!("{} cannot be removed", marker.display()))?;
    sync_all(dir.path())?;
    copied
}

fn copy_all(from: &Path, to: &Path, entries: &[Entry]) -> anyhow::Result<Summary> {
    let mut summary = Summary::default();
    for entry in entries {
        let (source, target) = (from.join(&entry.path), to.join(&entry.path));
        if let Some(parent) = target.parent().filter(|parent| *parent != to) {
            private_dirs().create(parent).with_context(|| cannot_write(parent))?;
        }
        let copied = copy(&source, &target)?;
        let is_same = copied.as_ref().is_some_and(|(bytes, hash)| (*bytes, hash) == (entry.bytes, &entry.sha256));
        ensure!(
            is_same,
            "{} differs from the manifest: the backup is damaged or was changed. Take another one",
            source.display()
        );
        summary.add(entry);
    }
    Ok(summary)
}

/// Reads the manifest of a complete backup.
fn read_manifest(from: &Path) -> anyhow::Result<Vec<Entry>> {
    let path = from.join(MANIFEST);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            bail!("{} is not a complete backup: it has no {MANIFEST}", from.display())
        }
        Err(error) => return Err(error).with_context(|| format!("{} cannot be read", path.display())),
    };
    let torn = || format!("{} is torn or was changed", path.display());
    let (mut reader, mut hash, mut lines) = (BufReader::new(file), Sha256::new(), Vec::new());
    loop {
        let mut text = Vec::new();
        reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut text)?;
        ensure!(text.last() == Some(&b'\n'), torn());
        let is_last = reader.fill_buf()?.is_empty();
        if is_last {
            let foot: Foot = parse(&text).with_context(torn)?;
            ensure!(foot.sha256 == hex(&hash.finalize()), torn());
            break;
        }
        hash.update(&text);
        lines.push(text);
    }
    let mut lines = lines.iter();
    let head: Head = parse(lines.next().with_context(torn)?).with_context(torn)?;
    ensure!(
        (1..=VERSION).contains(&head.guildhall_backup),
        "{} has form {}, this program knows those up to {VERSION}: use the version {} that made it, or a newer one",
        path.display(),
        head.guildhall_backup,
        head.version
    );
    let entries: Vec<Entry> = lines.map(|text| parse(text)).collect::<Result<_, _>>().with_context(torn)?;
    // No path of a manifest leads elsewhere.
    let has_known_paths = entries.iter().all(|entry| entry.path == DATABASE_FILE || is_file_path(&entry.path));
    let databases = entries.iter().filter(|entry| entry.path == DATABASE_FILE).count();
    ensure!(has_known_paths && databases == 1, torn());
    Ok(entries)
}

fn parse<T: DeserializeOwned>(text: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice(text)
}

fn is_file_path(path: &str) -> bool {
    match path.split('/').collect::<Vec<_>>()[..] {
        [FILES, PICTURES, folder, owner, name] => {
            PICTURE_FOLDERS.contains(&folder) && is_picture_owner(owner) && is_picture(name)
        }
        [FILES, channel_id, id] => is_number(channel_id) && is_number(id),
        _ => false,
    }
}

/// A number as we write it.
fn is_number(name: &str) -> bool {
    name.parse::<u64>().is_ok_and(|number| number.to_string() == name)
}

/// One number, or of a member two.
fn is_picture_owner(name: &str) -> bool {
    name.split_once('-').map_or_else(|| is_number(name), |(guild, user)| is_number(guild) && is_number(user))
}

/// Names of pictures have no dots, so that none leads elsewhere.
fn is_picture(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
    (1..=100).contains(&name.len()) && name.bytes().all(is_plain)
}

/// Names of one kind, ascending; none if there is no such folder.
fn names_in(dir: &Path, is_ours: fn(&str) -> bool) -> anyhow::Result<Vec<String>> {
    let cannot_read = || format!("{} cannot be read", dir.display());
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(cannot_read),
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.with_context(cannot_read)?.file_name();
        names.extend(name.to_str().filter(|name| is_ours(name)).map(str::to_owned));
    }
    names.sort_unstable();
    Ok(names)
}

/// Copies a file to a new one; none if it does not exist. Returns its size and hash.
fn copy(from: &Path, to: &Path) -> anyhow::Result<Option<(u64, String)>> {
    let mut source = match File::open(from) {
        Ok(source) => source,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("{} cannot be read", from.display())),
    };
    let mut target = Hashed::new(create(to)?);
    let bytes = pump(&mut source, &mut target).with_context(|| format!("{} cannot be copied", from.display()))?;
    Ok(Some((bytes, hex(&target.hash.finalize()))))
}

fn hash(path: &Path) -> anyhow::Result<(u64, String)> {
    let mut file = File::open(path).with_context(|| format!("{} cannot be read", path.display()))?;
    let mut out = Hashed::new(io::sink());
    let bytes = pump(&mut file, &mut out).with_context(|| format!("{} cannot be read", path.display()))?;
    Ok((bytes, hex(&out.hash.finalize())))
}

fn pump(from: &mut File, to: &mut impl io::Write) -> io::Result<u64> {
    let mut piece = vec![0; PIECE_BYTES];
    let mut bytes = 0;
    loop {
        let count = from.read(&mut piece)?;
        if count == 0 {
            return Ok(bytes);
        }
        to.write_all(&piece[..count])?;
        bytes += count as u64;
    }
}

fn create(path: &Path) -> anyhow::Result<File> {
    let file = File::options().write(true).create_new(true).mode(0o600).open(path);
    file.with_context(|| cannot_write(path))
}

fn cannot_write(path: &Path) -> String {
    format!("{} cannot be written", path.display())
}

fn private_dirs() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder
}

fn create_empty(dir: &Path) -> anyhow::Result<()> {
    ensure!(
        is_empty(dir)?,
        "{} is not empty: name a new directory for each backup. One without {MANIFEST} did not finish, and can be removed",
        dir.display()
    );
    private_dirs().create(dir).with_context(|| format!("{} cannot be created", dir.display()))?;
    // It may have existed before, readable for all users of the machine.
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    fs::set_permissions(dir, private)
        .with_context(|| format!("the access rights of {} cannot be changed", dir.display()))
}

/// Whether there is no such directory, or nothing in it.
fn is_empty(dir: &Path) -> anyhow::Result<bool> {
    match fs::read_dir(dir) {
        Ok(mut entries) => Ok(entries.all(|entry| entry.is_ok_and(|entry| entry.file_name() == LOST_AND_FOUND))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error).with_context(|| format!("{} cannot be read", dir.display())),
    }
}

/// Everything below `dir` is on the disk afterwards.
fn sync_all(dir: &Path) -> anyhow::Result<()> {
    let cannot_sync = || format!("{} cannot be synced", dir.display());
    #[cfg(target_os = "linux")]
    rustix::fs::syncfs(File::open(dir).with_context(cannot_sync)?).with_context(cannot_sync)?;
    #[cfg(not(target_os = "linux"))]
    sync_tree(dir).with_context(cannot_sync)?;
    // The parent directory has the entry of a new directory.
    let parent = fs::canonicalize(dir)?.parent().map(PathBuf::from);
    if let Some(parent) = parent {
        File::open(parent)?.sync_all()?;
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn sync_tree(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            sync_tree(&entry?.path())?;
        }
    }
    File::open(path)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_a_manifest_lead_nowhere_else() {
        for (path, expected) in [
            ("files/1/2", true),
            ("files/18446744073709551615/7", true),
            ("files/1/../../x", false),
            ("files/../x", false),
            ("files/01/2", false),
            ("files/1", false),
            ("files/1/2/3", false),
            ("files/pictures/users/1/a_0123456789abcdef0123456789abcdef", true),
            ("files/pictures/guilds/1/emoji-5", true),
            ("files/pictures/members/1-2/0123456789abcdef0123456789abcdef", true),
            ("files/pictures/users/1/..", false),
            ("files/pictures/users/../x", false),
            ("files/pictures/users/1-", false),
            ("files/pictures/other/1/x", false),
            ("files/pictures/users/1", false),
            ("/etc/passwd", false),
            ("other/1/2", false),
        ] {
            assert_eq!(is_file_path(path), expected, "{path}");
        }
    }
}
