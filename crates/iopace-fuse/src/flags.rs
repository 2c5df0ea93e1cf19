//! Flags of requests and replies.

use bitflags::bitflags;

bitflags! {
    /// The capabilities negotiated at the start. Bits from 32 on need `FUSE_INIT_EXT`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct InitFlags: u64 {
        /// Reads of one file side by side.
        const FUSE_ASYNC_READ = 1 << 0;
        /// Locks of `fcntl(2)` are requests.
        const FUSE_POSIX_LOCKS = 1 << 1;
        /// `O_TRUNC` comes with the open.
        const FUSE_ATOMIC_O_TRUNC = 1 << 3;
        /// Names `.` and `..` can be looked up.
        const FUSE_EXPORT_SUPPORT = 1 << 4;
        /// Writes of more than a page.
        const FUSE_BIG_WRITES = 1 << 5;
        /// The file system applies the umask.
        const FUSE_DONT_MASK = 1 << 6;
        /// Locks of `flock(2)` are requests.
        const FUSE_FLOCK_LOCKS = 1 << 10;
        /// `ioctl(2)` on directories.
        const FUSE_HAS_IOCTL_DIR = 1 << 11;
        /// Cached pages go when the file has changed.
        const FUSE_AUTO_INVAL_DATA = 1 << 12;
        /// Directories are listed with attributes.
        const FUSE_DO_READDIRPLUS = 1 << 13;
        /// Only where that pays.
        const FUSE_READDIRPLUS_AUTO = 1 << 14;
        /// Direct I/O of one call side by side.
        const FUSE_ASYNC_DIO = 1 << 15;
        /// The kernel delays buffered writes.
        const FUSE_WRITEBACK_CACHE = 1 << 16;
        /// Opens need no request.
        const FUSE_NO_OPEN_SUPPORT = 1 << 17;
        /// Names of one directory are looked up side by side.
        const FUSE_PARALLEL_DIROPS = 1 << 18;
        /// The file system clears set-user-id bits.
        const FUSE_HANDLE_KILLPRIV = 1 << 19;
        /// The file system has POSIX access control lists.
        const FUSE_POSIX_ACL = 1 << 20;
        /// A cut connection says `ECONNABORTED`.
        const FUSE_ABORT_ERROR = 1 << 21;
        /// The number of pages of a request is agreed.
        const FUSE_MAX_PAGES = 1 << 22;
        /// Targets of symbolic links are cached.
        const FUSE_CACHE_SYMLINKS = 1 << 23;
        /// Opens of directories need no request.
        const FUSE_NO_OPENDIR_SUPPORT = 1 << 24;
        /// Cached pages go only when the kernel is told.
        const FUSE_EXPLICIT_INVAL_DATA = 1 << 25;
        /// Mounts below appear by themselves.
        const FUSE_SUBMOUNTS = 1 << 27;
        /// The file system clears set-user-id bits where the kernel says that it has to.
        const FUSE_HANDLE_KILLPRIV_V2 = 1 << 28;
        /// Extended attributes are set with flags.
        const FUSE_SETXATTR_EXT = 1 << 29;
        /// There are bits from 32 on.
        const FUSE_INIT_EXT = 1 << 30;
        /// Security contexts come with new files.
        const FUSE_SECURITY_CTX = 1 << 32;
        /// A supplementary group comes with new files.
        const FUSE_CREATE_SUPP_GROUP = 1 << 34;
        /// A name can be made to expire.
        const FUSE_HAS_EXPIRE_ONLY = 1 << 35;
        /// Files with direct I/O can be mapped.
        const FUSE_DIRECT_IO_ALLOW_MMAP = 1 << 36;
        /// Reads and writes can pass us.
        const FUSE_PASSTHROUGH = 1 << 37;
        /// File handles of NFS are not supported.
        const FUSE_NO_EXPORT_SUPPORT = 1 << 38;
        /// Requests can be asked for again.
        const FUSE_HAS_RESEND = 1 << 39;
        /// Mounts with mapped users.
        const FUSE_ALLOW_IDMAP = 1 << 40;
    }

    /// Facts about an opened file, told to the kernel.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct FopenFlags: u32 {
        /// Past the page cache.
        const FOPEN_DIRECT_IO = 1 << 0;
        /// Cached pages stay.
        const FOPEN_KEEP_CACHE = 1 << 1;
        /// It has no offsets.
        const FOPEN_NONSEEKABLE = 1 << 2;
        /// The listing may be cached.
        const FOPEN_CACHE_DIR = 1 << 3;
        /// It is a stream.
        const FOPEN_STREAM = 1 << 4;
        /// Closing asks nothing.
        const FOPEN_NOFLUSH = 1 << 5;
        /// Direct writes of one file side by side.
        const FOPEN_PARALLEL_DIRECT_WRITES = 1 << 6;
    }

    /// How a write came about.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct WriteFlags: u32 {
        /// From the page cache, later than it was written; the handle is a guess.
        const FUSE_WRITE_CACHE = 1 << 0;
        /// It names a lock owner.
        const FUSE_WRITE_LOCKOWNER = 1 << 1;
        /// Set-user-id and set-group-id bits have to go.
        const FUSE_WRITE_KILL_SUIDGID = 1 << 2;
    }

    /// Further effects of the last close of a file.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ReleaseFlags: u32 {
        /// Delayed data is to be written.
        const FUSE_RELEASE_FLUSH = 1 << 0;
        /// The owner's lock of `flock(2)` goes.
        const FUSE_RELEASE_FLOCK_UNLOCK = 1 << 1;
    }

    /// How an extended attribute is set, besides the flags of `setxattr(2)`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SetxattrFlags: u32 {
        /// The access control list takes the set-group-id bit away.
        const FUSE_SETXATTR_ACL_KILL_SGID = 1 << 0;
    }

    /// Facts about the caller of `ioctl(2)` and its file.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct IoctlFlags: u32 {
        /// A 32-bit program on a 64-bit kernel.
        const FUSE_IOCTL_COMPAT = 1 << 0;
        /// Any command, not only well-formed ones.
        const FUSE_IOCTL_UNRESTRICTED = 1 << 1;
        /// To be called again with what is asked for.
        const FUSE_IOCTL_RETRY = 1 << 2;
        /// A command of 32-bit programs.
        const FUSE_IOCTL_32BIT = 1 << 3;
        /// On a directory.
        const FUSE_IOCTL_DIR = 1 << 4;
        /// An x32 program.
        const FUSE_IOCTL_COMPAT_X32 = 1 << 5;
    }

    /// The flags of `renameat2(2)`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RenameFlags: u32 {
        /// Nothing is replaced.
        const RENAME_NOREPLACE = libc::RENAME_NOREPLACE;
        /// Both names change places.
        const RENAME_EXCHANGE = libc::RENAME_EXCHANGE;
        /// A whiteout is left.
        const RENAME_WHITEOUT = libc::RENAME_WHITEOUT;
    }

    /// The mask of `access(2)`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct AccessFlags: i32 {
        /// To execute.
        const X_OK = libc::X_OK;
        /// To write.
        const W_OK = libc::W_OK;
        /// To read.
        const R_OK = libc::R_OK;
    }

    /// The flags of `copy_file_range(2)`: none are defined.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CopyFileRangeFlags: u64 {}
}
