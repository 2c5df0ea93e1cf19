//! to be written
pub(crate) mod inode {
    #[derive(Debug)]
    pub(crate) struct Inode;
}
