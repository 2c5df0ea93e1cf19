//! The numbers of operations and notifications.

macro_rules! numbers {
    ($($name:ident = $number:literal),* $(,)?) => {
        $(
            #[doc = concat!("`FUSE_", stringify!($name), "`")]
            pub const $name: u32 = $number;
        )*
    };
}

numbers!(
    LOOKUP = 1,
    FORGET = 2,
    GETATTR = 3,
    SETATTR = 4,
    READLINK = 5,
    SYMLINK = 6,
    MKNOD = 8,
    MKDIR = 9,
    UNLINK = 10,
    RMDIR = 11,
    RENAME = 12,
    LINK = 13,
    OPEN = 14,
    READ = 15,
    WRITE = 16,
    STATFS = 17,
    RELEASE = 18,
    FSYNC = 20,
    SETXATTR = 21,
    GETXATTR = 22,
    LISTXATTR = 23,
    REMOVEXATTR = 24,
    FLUSH = 25,
    INIT = 26,
    OPENDIR = 27,
    READDIR = 28,
    RELEASEDIR = 29,
    FSYNCDIR = 30,
    GETLK = 31,
    SETLK = 32,
    SETLKW = 33,
    ACCESS = 34,
    CREATE = 35,
    INTERRUPT = 36,
    BMAP = 37,
    DESTROY = 38,
    IOCTL = 39,
    POLL = 40,
    NOTIFY_REPLY = 41,
    BATCH_FORGET = 42,
    FALLOCATE = 43,
    READDIRPLUS = 44,
    RENAME2 = 45,
    LSEEK = 46,
    COPY_FILE_RANGE = 47,
);

/// `FUSE_NOTIFY_INVAL_INODE`
pub const NOTIFY_INVAL_INODE: i32 = 2;
/// `FUSE_NOTIFY_INVAL_ENTRY`
pub const NOTIFY_INVAL_ENTRY: i32 = 3;
/// `FUSE_NOTIFY_DELETE`
pub const NOTIFY_DELETE: i32 = 6;
/// `FUSE_NOTIFY_INC_EPOCH` (Linux 6.16)
pub const NOTIFY_INC_EPOCH: i32 = 8;
/// `FUSE_NOTIFY_PRUNE` (Linux 6.18)
pub const NOTIFY_PRUNE: i32 = 9;
