//! Files that a user names on the command line or in a configuration.

use super::{Distrust, MODE, read_bounded};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::process::geteuid;
use std::fs::File;
use std::io;
use std::path::Path;

/// Longest configuration or model file. Thousands of mounts with their rules fit into it.
const CONFIG_BYTES_MAX: u64 = 16 << 20;

/// `f_type` of pipes that have no name, see statfs(2).
const PIPEFS_MAGIC: u64 = 0x5049_5045;

/// Opens a log for appending, or makes it. No link is followed, and what somebody else owns, or has
/// another name for, is not taken: it is cut afterwards.
///
/// # Errors
/// It cannot be opened, or is not a file of ours.
pub fn open_log(path: &Path) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW;
    let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(open(path, flags, MODE)?);
    let found = fstat(&file)?;
    let is_own = found.st_uid == geteuid().as_raw();
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile || !is_own {
        return Err(io::Error::other("it is not a regular file that belongs to you"));
    }
    if found.st_nlink > 1 {
        return Err(io::Error::other("the file has other names"));
    }
    Ok(file)
}

/// The text of a configuration file that a user has named: a regular file of bounded size, or a
/// pipe without a name (`<(...)` of a shell). For root, not one that any user can change.
///
/// # Errors
/// The defect of the file, in words.
pub fn read_config(path: &Path) -> io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(open(path, flags, Mode::empty())?);
    let found = fstat(&file)?;
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile if geteuid().is_root() && found.st_mode & 0o002 != 0 => {
            return Err(io::Error::other(
                "every user can change the file, and it says what root does; say 'chmod o-w'",
            ));
        }
        FileType::RegularFile | FileType::CharacterDevice => {}
        FileType::Fifo if is_nameless(&file) => {
            // Somebody writes it at this moment.
            rustix::fs::fcntl_setfl(&file, OFlags::empty())?;
        }
        _ => return Err(io::Error::other("not a regular file")),
    }
    let text = read_bounded(&file, path, CONFIG_BYTES_MAX);
    let text = text.map_err(Distrust::into_io)?;
    String::from_utf8(text).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// The module of a policy that a user has named: a regular file of at most so many bytes.
///
/// # Errors
/// The defect of the file, in words.
pub fn read_module(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(open(path, flags, Mode::empty())?);
    let found = fstat(&file)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err(io::Error::other("not a regular file"));
    }
    if found.st_size.cast_unsigned() > bytes_max {
        return Err(io::Error::other(format!("it is longer than {bytes_max} bytes")));
    }
    read_bounded(&file, path, bytes_max).map_err(Distrust::into_io)
}

fn is_nameless(file: &File) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|found| found.f_type as u64 == PIPEFS_MAGIC)
}
