//! A file is read without being led astray: no link, no device, nothing that grows meanwhile.

use crate::error::Problem;
use crate::limits::MODULE_BYTES_MAX;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The contents of a file that may be a module.
pub(crate) fn module(path: &Path) -> Result<Vec<u8>, Problem> {
    let unreadable = |why: String| Problem::Unreadable(why);
    // A FIFO or a device would let an open wait, or do something.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = open(path, flags, Mode::empty()).map_err(|error| {
        unreadable(match error {
            Errno::LOOP => "it is a symbolic link: name the file that it leads to".into(),
            Errno::NOENT => "there is no such file".into(),
            error => format!("it cannot be opened: {}", std::io::Error::from(error)),
        })
    })?;
    let mut file = File::from(file);
    let io = |error: std::io::Error| unreadable(format!("it cannot be read: {error}"));
    let metadata = file.metadata().map_err(io)?;
    if !metadata.is_file() {
        return Err(unreadable("it is no regular file".into()));
    }
    if metadata.len() > MODULE_BYTES_MAX as u64 {
        return Err(Problem::TooLarge(metadata.len()));
    }
    let mut bytes = Vec::with_capacity(metadata.len() as usize);
    file.by_ref().take(MODULE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(io)?;
    match bytes.len() <= MODULE_BYTES_MAX {
        true => Ok(bytes),
        false => Err(Problem::TooLarge(bytes.len() as u64)),
    }
}
