//! Plain slots: at most `nr_requests` requests of a device in the scheduler and at the disk.
//!
//! # Model
//! ```text
//!  arrivals ──► waiting, FIFO ──► [ slot ][ slot ] ... nr_requests ──► scheduler and disk
//! ```
//! A request takes a slot before it is queued and gives it back when it finishes. One pool serves
//! everybody, so whoever fills it first makes the others wait: that is the baseline which the
//! guaranteed slots per group are measured against.
//!
//! # Properties
//! 1. Never more than `nr_requests` slots are taken, unless the number was lowered under load; then
//!    none is given until enough came back.
//! 2. A refusal changes nothing.
//!
//! # When it does not know
//! It needs to know nothing about the device.
//!
//! # Limits
//! No shares: a task with many requests takes all slots.
//!
//! # Sources
//! `nr_requests` of the Linux block layer (queue-sysfs.txt); its batching is not reproduced here.

use super::Admission;
use crate::limits::{NR_REQUESTS_MAX, NR_REQUESTS_MIN};
use crate::request::GroupId;
use crate::time::Instant;
use crate::verdict::{Reason, Verdict};

/// One pool of slots for a device.
#[derive(Debug)]
pub struct PlainSlots {
    /// Slots there are.
    nr_requests: u32,
    /// Slots taken.
    taken: u32,
}

impl PlainSlots {
    /// A pool of `nr_requests` slots, brought into the legal range.
    pub fn new(nr_requests: u32) -> PlainSlots {
        PlainSlots { nr_requests: nr_requests.clamp(NR_REQUESTS_MIN, NR_REQUESTS_MAX), taken: 0 }
    }
}

impl Admission for PlainSlots {
    fn admit(&mut self, _now: Instant, _group: GroupId) -> Verdict {
        if self.taken >= self.nr_requests {
            return Verdict::Wait(Instant::NEVER, Reason::Slot);
        }
        self.taken += 1;
        Verdict::Pass
    }

    fn release(&mut self, _now: Instant, _group: GroupId) {
        assert!(self.taken > 0, "a slot was given back that nobody took");
        self.taken -= 1;
    }

    fn slots(&self) -> (u32, u32) {
        (self.nr_requests, self.taken)
    }

    fn set_slots(&mut self, nr_requests: u32) {
        self.nr_requests = nr_requests.clamp(NR_REQUESTS_MIN, NR_REQUESTS_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admit(slots: &mut PlainSlots) -> bool {
        slots.admit(Instant::ZERO, GroupId::ROOT) == Verdict::Pass
    }

    #[test]
    fn p1_never_more_than_nr_requests_are_taken() {
        let mut slots = PlainSlots::new(8);
        assert_eq!((0..20).filter(|_| admit(&mut slots)).count(), 8);
        slots.set_slots(4);
        for _ in 0..4 {
            slots.release(Instant::ZERO, GroupId::ROOT);
            assert!(!admit(&mut slots), "above the lowered number nothing is given");
        }
        slots.release(Instant::ZERO, GroupId::ROOT);
        assert!(admit(&mut slots));
    }

    #[test]
    fn p2_a_refusal_changes_nothing() {
        let mut slots = PlainSlots::new(4);
        while admit(&mut slots) {}
        let before = slots.slots();
        assert!(!admit(&mut slots));
        assert_eq!(slots.slots(), before);
    }

    #[test]
    #[should_panic(expected = "given back that nobody took")]
    fn giving_back_too_much_is_a_bug() {
        PlainSlots::new(4).release(Instant::ZERO, GroupId::ROOT);
    }
}
