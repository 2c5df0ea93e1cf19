//! Messages to the kernel. Fields are named as in `linux/fuse.h`.
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
    /// Before every reply and notification.
    OutHeader { len: u32, error: i32, unique: u64 }
    Attr {
        ino: u64, size: u64, blocks: u64, atime: i64, mtime: i64, ctime: i64, atimensec: u32,
        mtimensec: u32, ctimensec: u32, mode: u32, nlink: u32, uid: u32, gid: u32, rdev: u32,
        blksize: u32, flags: u32,
    }
    EntryOut {
        nodeid: u64, generation: u64, entry_valid: u64, attr_valid: u64, entry_valid_nsec: u32,
        attr_valid_nsec: u32, attr: Attr,
    }
    AttrOut { attr_valid: u64, attr_valid_nsec: u32, dummy: u32, attr: Attr }
    OpenOut { fh: u64, open_flags: u32, backing_id: i32 }
    CreateOut { entry: EntryOut, open: OpenOut }
    WriteOut { size: u32, padding: u32 }
    StatfsOut {
        blocks: u64, bfree: u64, bavail: u64, files: u64, ffree: u64, bsize: u32, namelen: u32,
        frsize: u32, padding: u32, spare: [u32; 6],
    }
    GetxattrOut { size: u32, padding: u32 }
    LkOut { start: u64, end: u64, kind: u32, pid: u32 }
    BmapOut { block: u64 }
    IoctlOut { result: i32, flags: u32, in_iovs: u32, out_iovs: u32 }
    LseekOut { offset: i64 }
    InitOut {
        major: u32, minor: u32, max_readahead: u32, flags: u32, max_background: u16,
        congestion_threshold: u16, max_write: u32, time_gran: u32, max_pages: u16,
        map_alignment: u16, flags2: u32, max_stack_depth: u32, request_timeout: u16,
        unused: [u16; 11],
    }
    Dirent { ino: u64, off: u64, namelen: u32, kind: u32 }
    NotifyInvalInode { ino: u64, off: i64, len: i64 }
    NotifyInvalEntry { parent: u64, namelen: u32, flags: u32 }
    NotifyDelete { parent: u64, child: u64, namelen: u32, padding: u32 }
    NotifyPrune { count: u32, padding: u32, spare: u64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::input;

    /// Sizes as the kernel's own header has them.
    #[test]
    fn layouts_have_the_size_of_the_kernels() {
        assert_eq!(size_of::<input::InHeader>(), 40);
        assert_eq!(size_of::<input::SetattrIn>(), 88);
        assert_eq!(size_of::<input::WriteIn>(), 40);
        assert_eq!(size_of::<input::LkIn>(), 48);
        assert_eq!(size_of::<input::IoctlIn>(), 32);
        assert_eq!(size_of::<input::CopyFileRangeIn>(), 56);
        assert_eq!(size_of::<OutHeader>(), 16);
        assert_eq!(size_of::<Attr>(), 88);
        assert_eq!(size_of::<EntryOut>(), 128);
        assert_eq!(size_of::<AttrOut>(), 104);
        assert_eq!(size_of::<CreateOut>(), 144);
        assert_eq!(size_of::<StatfsOut>(), 80);
        assert_eq!(size_of::<InitOut>(), 64);
        assert_eq!(size_of::<Dirent>(), 24);
    }
}
