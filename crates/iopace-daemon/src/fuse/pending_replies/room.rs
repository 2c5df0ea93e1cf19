//! The memory of held requests.

use crate::answer::{Answer, Answered, Touched};
use crate::memory::Memory;
use std::sync::Arc;

/// Memory that a held request has taken, given back with it.
#[derive(Debug)]
pub struct Room {
    memory: Arc<Memory>,
    bytes: u64,
}

impl Room {
    /// Takes so many bytes, if they are there.
    pub(crate) fn take(memory: &Arc<Memory>, bytes: u64) -> Option<Room> {
        memory.try_take(bytes).then(|| Room { memory: Arc::clone(memory), bytes })
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.memory.give(self.bytes);
    }
}

impl Answer for Room {
    /// Nobody waits: the kernel has written pages of a mapping, and had its answer. So much is
    /// counted.
    fn answer(self: Box<Self>, _answered: Answered, _touched: &mut Touched) {}
}
