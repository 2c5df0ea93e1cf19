//! to be written
pub(crate) mod inode {
    #[derive(Debug)]
    pub(crate) struct Inode {
        pub(crate) state: crate::fuse::data::FileState,
    }
}
