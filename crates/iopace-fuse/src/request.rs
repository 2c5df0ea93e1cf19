//! The caller of a request.

use crate::wire::input::InHeader;

/// The caller of a request, as the kernel names it.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    header: InHeader,
}

impl Request {
    pub(crate) fn new(header: InHeader) -> Request {
        Request { header }
    }

    /// The number of the request on this connection.
    pub fn unique(&self) -> u64 {
        self.header.unique
    }

    /// The user.
    pub fn uid(&self) -> u32 {
        self.header.uid
    }

    /// The group of users.
    pub fn gid(&self) -> u32 {
        self.header.gid
    }

    /// The thread, in the pid namespace of who mounted; 0 if it is not in that one, or if the
    /// kernel asks by itself.
    pub fn pid(&self) -> u32 {
        self.header.pid
    }
}
