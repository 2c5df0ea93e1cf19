//! Another size of a device, while it is served.

use crate::figures;
use crate::io::file::File;
use std::io;

/// Why a device keeps its size; nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum ResizeError {
    /// A disk that is emulated, or the files of a directory.
    #[error("a device of the kind '{0}' has one size for its whole life")]
    Fixed(&'static str),
    /// The length of a block device is not ours to set.
    #[error(
        "it is a block device, whose size is set where it is made (lvextend, for one): leave out \
         the size, and its own is taken"
    )]
    Block,
    /// A file that is only read.
    #[error("it is read-only, so its file is not made longer here; leave out the size")]
    ReadOnly,
    /// A file is not cut off.
    #[error(
        "{} is less than the {} that the file has, and what is behind it would be lost: a file is \
         only made longer; to cut it off, do that to the file itself and leave out the size",
        bytes(.asked), bytes(.now)
    )]
    Cuts {
        /// What was asked for, in bytes.
        asked: u64,
        /// The length of the file, in bytes.
        now: u64,
    },
    /// The file has become shorter, and somebody may use what was behind its end.
    #[error(
        "the file has {} by now, less than the {} that are served, and clients that are connected \
         use it as it was: end them first, or make it as long again",
        bytes(.now), bytes(.served)
    )]
    InUse {
        /// The length of the file, in bytes.
        now: u64,
        /// What is served, in bytes.
        served: u64,
    },
    /// The end cannot be reached past the page cache.
    #[error("{0} bytes are no whole blocks of {1}, which --direct needs")]
    Tail(u64, u32),
    /// The system refuses.
    #[error("the file cannot be resized: {0}")]
    File(#[from] io::Error),
}

fn bytes(count: &u64) -> String {
    figures::size(*count)
}

/// The size that the device of this file is to have: that of the file by now, after it was made
/// `to` bytes long if that is named.
pub(super) fn resize(
    file: &File,
    to: Option<u64>,
    (read_only, may_shrink): (bool, bool),
) -> Result<u64, ResizeError> {
    let now = file.length()?;
    let wanted = to.unwrap_or(now);
    if to.is_some() && file.is_block() {
        return Err(ResizeError::Block);
    }
    if wanted < now {
        return Err(ResizeError::Cuts { asked: wanted, now });
    }
    if wanted > now && read_only {
        return Err(ResizeError::ReadOnly);
    }
    let block = file.block_bytes();
    if file.is_direct() && !wanted.is_multiple_of(u64::from(block)) {
        return Err(ResizeError::Tail(wanted, block));
    }
    let served = file.size_bytes();
    if wanted < served && !may_shrink {
        return Err(ResizeError::InUse { now: wanted, served });
    }
    if wanted > now {
        file.std().set_len(wanted)?;
    }
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(bytes: u64) -> (tempfile::NamedTempFile, File) {
        let named = tempfile::NamedTempFile::new().expect("a file");
        named.as_file().set_len(bytes).expect("sparse");
        let file = File::open(named.path(), false, false).expect("opened");
        (named, file)
    }

    #[test]
    fn a_file_is_made_longer_and_never_shorter() {
        let (named, file) = opened(8192);
        let length = || named.as_file().metadata().expect("there").len();
        assert_eq!(resize(&file, Some(16384), (false, false)).expect("longer"), 16384);
        assert_eq!(length(), 16384);
        let refused = resize(&file, Some(4096), (false, true)).expect_err("shorter");
        assert!(matches!(refused, ResizeError::Cuts { asked: 4096, now: 16384 }), "{refused}");
        let refused = resize(&file, Some(32768), (true, true)).expect_err("read-only");
        assert!(matches!(refused, ResizeError::ReadOnly), "{refused}");
        assert_eq!(length(), 16384);
    }

    #[test]
    fn what_became_shorter_is_taken_only_if_nobody_uses_it() {
        let (named, file) = opened(8192);
        named.as_file().set_len(4096).expect("cut off");
        let refused = resize(&file, None, (false, false)).expect_err("in use");
        assert!(matches!(refused, ResizeError::InUse { now: 4096, served: 8192 }), "{refused}");
        assert_eq!(resize(&file, None, (false, true)).expect("nobody uses it"), 4096);
    }
}
