//! Messages from the kernel. Fields are named as in `linux/fuse.h`.
#![allow(missing_docs)]

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

macro_rules! layout {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $kind:ty),* $(,)? })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
            #[repr(C)]
            pub struct $name {
                $(pub $field: $kind,)*
            }
        )*
    };
}

layout! {
    /// Before every request.
    InHeader {
        len: u32, opcode: u32, unique: u64, nodeid: u64, uid: u32, gid: u32, pid: u32,
        total_extlen: u16, padding: u16,
    }
    ForgetIn { nlookup: u64 }
    ForgetOne { nodeid: u64, nlookup: u64 }
    BatchForgetIn { count: u32, dummy: u32 }
    GetattrIn { getattr_flags: u32, dummy: u32, fh: u64 }
    MknodIn { mode: u32, rdev: u32, umask: u32, padding: u32 }
    MkdirIn { mode: u32, umask: u32 }
    RenameIn { newdir: u64 }
    Rename2In { newdir: u64, flags: u32, padding: u32 }
    LinkIn { oldnodeid: u64 }
    SetattrIn {
        valid: u32, padding: u32, fh: u64, size: u64, lock_owner: u64, atime: i64, mtime: i64,
        ctime: i64, atimensec: u32, mtimensec: u32, ctimensec: u32, mode: u32, unused4: u32,
        uid: u32, gid: u32, unused5: u32,
    }
    OpenIn { flags: u32, open_flags: u32 }
    CreateIn { flags: u32, mode: u32, umask: u32, open_flags: u32 }
    ReleaseIn { fh: u64, flags: u32, release_flags: u32, lock_owner: u64 }
    FlushIn { fh: u64, unused: u32, padding: u32, lock_owner: u64 }
    ReadIn {
        fh: u64, offset: u64, size: u32, read_flags: u32, lock_owner: u64, flags: u32,
        padding: u32,
    }
    WriteIn {
        fh: u64, offset: u64, size: u32, write_flags: u32, lock_owner: u64, flags: u32,
        padding: u32,
    }
    FsyncIn { fh: u64, fsync_flags: u32, padding: u32 }
    /// Without `FUSE_SETXATTR_EXT` this is all.
    SetxattrIn { size: u32, flags: u32 }
    SetxattrExt { setxattr_flags: u32, padding: u32 }
    GetxattrIn { size: u32, padding: u32 }
    LkIn {
        fh: u64, owner: u64, start: u64, end: u64, kind: u32, pid: u32, lk_flags: u32,
        padding: u32,
    }
    AccessIn { mask: u32, padding: u32 }
    /// The first part, which every version has.
    InitIn { major: u32, minor: u32, max_readahead: u32, flags: u32 }
    /// The part that follows with `FUSE_INIT_EXT`.
    InitInExt { flags2: u32 }
    InterruptIn { unique: u64 }
    BmapIn { block: u64, blocksize: u32, padding: u32 }
    IoctlIn { fh: u64, flags: u32, cmd: u32, arg: u64, in_size: u32, out_size: u32 }
    FallocateIn { fh: u64, offset: u64, length: u64, mode: u32, padding: u32 }
    LseekIn { fh: u64, offset: i64, whence: u32, padding: u32 }
    CopyFileRangeIn {
        fh_in: u64, off_in: u64, nodeid_out: u64, fh_out: u64, off_out: u64, len: u64, flags: u64,
    }
}

/// Bits of `SetattrIn::valid`: which fields are to be set.
pub mod fattr {
    pub const MODE: u32 = 1 << 0;
    pub const UID: u32 = 1 << 1;
    pub const GID: u32 = 1 << 2;
    pub const SIZE: u32 = 1 << 3;
    pub const ATIME: u32 = 1 << 4;
    pub const MTIME: u32 = 1 << 5;
    pub const FH: u32 = 1 << 6;
    pub const ATIME_NOW: u32 = 1 << 7;
    pub const MTIME_NOW: u32 = 1 << 8;
    pub const CTIME: u32 = 1 << 10;
    pub const KILL_SUIDGID: u32 = 1 << 11;
}

/// `GetattrIn::getattr_flags`: the handle is valid.
pub const GETATTR_FH: u32 = 1 << 0;
/// `ReadIn::read_flags`: the lock owner is valid.
pub const READ_LOCKOWNER: u32 = 1 << 1;
/// `FsyncIn::fsync_flags`: data only.
pub const FSYNC_FDATASYNC: u32 = 1 << 0;
/// `LkIn::lk_flags`: a lock of `flock(2)`.
pub const LK_FLOCK: u32 = 1 << 0;
/// `OpenIn::open_flags`: set-user-id and set-group-id bits have to go.
pub const OPEN_KILL_SUIDGID: u32 = 1 << 0;
