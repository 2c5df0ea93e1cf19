//! Who asks, and operations that wait for their turn.

use iopace_fuse::Errno;

/// Who asks, as the kernel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// The thread that calls, in our pid namespace; 0 if it cannot be seen from here, or if the
    /// kernel writes pages of a mapping by itself.
    pub(crate) pid: u32,
    /// Its user.
    pub(crate) uid: u32,
    /// Its group of users.
    pub(crate) gid: u32,
}

/// An operation on names, attributes or space that waits.
pub(crate) trait Deferred: Send {
    /// Whether the kernel has said that its caller has a signal pending.
    fn is_interrupted(&self) -> bool;

    /// With `Ok` it is carried out, which may block, and answered; an error is its answer.
    fn end(self: Box<Self>, may: Result<(), Errno>);
}

/// An operation of any kind.
pub(crate) type Operation = Box<dyn Deferred>;

#[cfg(test)]
impl<F: FnOnce(Result<(), Errno>) + Send> Deferred for F {
    fn is_interrupted(&self) -> bool {
        false
    }

    fn end(self: Box<Self>, may: Result<(), Errno>) {
        self(may);
    }
}
