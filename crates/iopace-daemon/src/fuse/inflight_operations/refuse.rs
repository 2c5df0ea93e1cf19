//! Replies that may be errors.

use iopace_fuse::Errno;

/// A reply that may be an error.
pub(crate) trait Refuse {
    /// Gives the error.
    fn refuse(self, errno: Errno);

    /// Whether the caller may have a signal pending, as far as the kernel says. It says so, with an
    /// interrupt, of each request that a program waits in; never of direct I/O, for which programs
    /// wait elsewhere.
    fn is_signalled(&self) -> bool;

    /// Whether the kernel has said that the caller has a signal pending. Of what it asks in
    /// nobody's name it never does.
    fn is_interrupted(&self) -> bool;
}

macro_rules! refuse {
    ($is_signalled:expr; $($reply:ident),*) => {
        $(impl Refuse for iopace_fuse::$reply {
            fn refuse(self, errno: Errno) {
                self.error(errno);
            }

            fn is_signalled(&self) -> bool {
                let is_signalled: fn(&Self) -> bool = $is_signalled;
                is_signalled(self)
            }

            fn is_interrupted(&self) -> bool {
                iopace_fuse::$reply::is_interrupted(self)
            }
        })*
    };
}

refuse!(|_| true; ReplyData, ReplyWrite);
refuse!(|reply| reply.is_interrupted(); ReplyAttr, ReplyCreate, ReplyDirectory);
refuse!(|reply| reply.is_interrupted(); ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl);
refuse!(|reply| reply.is_interrupted(); ReplyLock, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyXattr);
