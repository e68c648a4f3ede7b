//! Incoming: a file on its way from a socket to its place, through a local folder.
//!
//! Invariants  a file that is dropped before `keep` leaves nothing: neither a file nor counted bytes.
//! Limits      `BUFFER_BYTES` of memory; `FilesOptions::file_bytes_max`; of a picture's header
//!             `HEADER_READS_MAX` reads.

use super::{FileError, Files, Share, attachment_key, blocking, kind};
use guildhall_files::Staging;
use guildhall_model::{ChannelId, Id};
use std::{
    fs::{self, File},
    io::{self, BufReader, Read, Seek, SeekFrom, Write},
    path::PathBuf,
};

/// Size of a write to disk.
const BUFFER_BYTES: usize = 256 * 1024;
/// A JPEG may have thumbnails and colour profiles before its size, in pieces of 64 KiB; a hostile one has any number
/// of empty pieces.
const HEADER_READS_MAX: u32 = 1024;

/// The name in `incoming/` and the bytes it counts for.
struct StagedFile {
    files: Files,
    share: Share,
    path: PathBuf,
    bytes: u64,
    is_kept: bool,
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        // One system call, without waiting for its result. A file that was moved to its place is not here any more.
        let _ = fs::remove_file(&self.path);
        if !self.is_kept {
            self.files.give_back(self.bytes);
            self.files.0.shares.give_back(self.share, self.bytes);
        }
    }
}

/// A file that is being written.
pub(crate) struct Incoming {
    staged: StagedFile,
    file: Option<File>,
    buffer: Vec<u8>,
    head: Vec<u8>,
}

/// A file that is whole, and has no place yet.
pub(crate) struct Received {
    staged: StagedFile,
    /// The first bytes, which determine the type.
    pub head: Vec<u8>,
    /// Width and height of a picture.
    pub width_height: Option<(u32, u32)>,
}

impl Incoming {
    pub(super) async fn create(files: Files, share: Share, path: PathBuf) -> Result<Self, FileError> {
        // A caller that stops waiting drops the result, which deletes the file.
        let create = move || {
            let file = Staging::create(&path)?;
            Ok((StagedFile { files, share, path, bytes: 0, is_kept: false }, file))
        };
        let (staged, file) = blocking(create).await.map_err(FileError::of)?;
        Ok(Self { staged, file: Some(file), buffer: Vec::new(), head: Vec::new() })
    }

    /// The next bytes.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        let more = bytes.len() as u64;
        if self.staged.bytes + more > self.staged.files.0.file_bytes_max {
            return Err(FileError::TooLarge(self.staged.files.0.file_bytes_max));
        }
        self.staged.files.take_room(self.staged.share, more)?;
        self.staged.bytes += more;
        let missing = kind::HEAD_BYTES - self.head.len();
        self.head.extend_from_slice(&bytes[..bytes.len().min(missing)]);
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER_BYTES { self.flush().await } else { Ok(()) }
    }

    async fn flush(&mut self) -> Result<(), FileError> {
        let (file, buffer) = (self.file.take(), std::mem::take(&mut self.buffer));
        let Some(mut file) = file else { return Err(FileError::Io(io::ErrorKind::BrokenPipe.into())) };
        let write = move || file.write_all(&buffer).map(|()| (file, buffer));
        let (file, mut buffer) = blocking(write).await.map_err(FileError::of)?;
        buffer.clear();
        (self.file, self.buffer) = (Some(file), buffer);
        Ok(())
    }

    /// The file is complete.
    pub async fn finish(mut self) -> Result<Received, FileError> {
        self.flush().await?;
        let Self { staged, file, head, .. } = self;
        let is_picture = kind::sniff(&head).is_some_and(|media| media.starts_with("image/"));
        let measure = move || match file {
            Some(mut file) if is_picture => file.seek(SeekFrom::Start(0)).map(|_| pixels(file)),
            _ => Ok(None),
        };
        let width_height = blocking(measure).await.map_err(FileError::of)?;
        Ok(Received { staged, head, width_height })
    }
}

impl Received {
    /// Bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.staged.bytes
    }

    /// Returns all bytes. The file is removed.
    pub async fn read(self) -> io::Result<Vec<u8>> {
        blocking(move || fs::read(&self.staged.path)).await
    }

    /// Moves the file to its place. It survives a crash from now on (F1).
    pub async fn keep(mut self, channel_id: ChannelId, id: Id<()>) -> Result<(), FileError> {
        // In a task of its own, where it cannot be cancelled halfway: otherwise it would count twice, or not at all.
        let kept = tokio::spawn(async move {
            let StagedFile { files, share, path, bytes, is_kept } = &mut self.staged;
            files.0.storage.put_file(&attachment_key(channel_id, id), path, *bytes).await?;
            files.0.shares.kept(*share, channel_id, *bytes);
            *is_kept = true;
            Ok::<_, FileError>(())
        });
        kept.await.map_err(|error| FileError::Io(io::Error::other(error)))?
    }
}

/// Width and height, if they can be found at a bounded price.
fn pixels(file: File) -> Option<(u32, u32)> {
    let size = imagesize::reader_size(BufReader::new(FewReads { file, reads_left: HEADER_READS_MAX })).ok()?;
    let pixels = |n: usize| u32::try_from(n).ok().filter(|n| *n > 0);
    Some((pixels(size.width)?, pixels(size.height)?))
}

struct FewReads {
    file: File,
    reads_left: u32,
}

impl Read for FewReads {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reads_left = self.reads_left.checked_sub(1).ok_or(io::ErrorKind::UnexpectedEof)?;
        self.file.read(buffer)
    }
}

impl Seek for FewReads {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}
