//! Replies that may be errors.

use iopace_fuse::Errno;

/// A reply that may be an error.
pub(crate) trait Refuse {
    /// Gives the error.
    fn refuse(self, errno: Errno);
}

macro_rules! refuse {
    ($($reply:ident),*) => {
        $(impl Refuse for iopace_fuse::$reply {
            fn refuse(self, errno: Errno) {
                self.error(errno);
            }
        })*
    };
}

refuse!(ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty);
refuse!(ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr);
