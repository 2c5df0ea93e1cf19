//! The facts about each request, by its slot in the engine's table, from its arrival to its end.

use super::cost::RequestKind;
use super::load::Side;
use crate::request::RequestId;
use core::ops::{Index, IndexMut};

/// The go of a request that went to the device in the command of another one.
pub(super) const JOINED: u64 = u64::MAX;

/// By what right a request goes to the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Right {
    /// A guarantee pays, its class is higher or has starved, or the disk has no head.
    #[default]
    Other,
    /// Its task is light, and interrupts a go.
    Light,
    /// The go is its task's.
    Go,
}

/// A request; of a slot without one, the last that it had.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
pub(super) struct RequestRow {
    /// Its arrival number.
    sequence: u64,
    pub(super) task: u32,
    /// Whether the queue has it by position as well.
    pub(super) is_indexed: bool,
    /// Whether it is at the device, to which what follows belongs.
    pub(super) is_at_device: bool,
    pub(super) right: Right,
    /// The side of its task when it came; at the device: when it went there.
    pub(super) side: Side,
    pub(super) kind: RequestKind,
    /// Its charge, in ns.
    pub(super) cost: u64,
    /// The go in which it went there, or [`JOINED`] while it is there in another one's command.
    pub(super) go: u64,
}

/// All rows.
#[derive(Debug, Default)]
pub(super) struct Rows(Vec<RequestRow>);

impl Rows {
    /// A request of a task comes. `is_indexed`: its queue is to have it by position as well.
    #[inline(always)]
    pub(super) fn enter(&mut self, id: RequestId, task: u32, side: Side, is_indexed: bool) {
        let at = id.slot as usize;
        let row = if at < self.0.len() { &mut self.0[at] } else { self.grow(at) };
        (row.sequence, row.task, row.side) = (id.sequence, task, side);
        (row.is_indexed, row.is_at_device) = (is_indexed, false);
    }

    /// Whether the request in this slot has a place in its task's index.
    #[inline(always)]
    pub(super) fn is_indexed(&self, slot: u32) -> bool {
        self.0.get(slot as usize).is_some_and(|row| row.is_indexed)
    }

    /// Makes a row for that slot.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, at: usize) -> &mut RequestRow {
        self.0.resize(at + 1, RequestRow::default());
        &mut self.0[at]
    }

    /// A request that is done, if it was at the device: it is not there any more.
    #[inline(always)]
    pub(super) fn land(&mut self, id: RequestId) -> Option<&RequestRow> {
        let row = self.0.get_mut(id.slot as usize)?;
        let is_there = row.is_at_device && row.sequence == id.sequence;
        row.is_at_device &= !is_there;
        is_there.then_some(&*row)
    }

    /// A request that is done, if it was at the device in the command of another one.
    pub(super) fn land_joined(&mut self, id: RequestId) -> Option<&RequestRow> {
        let row = self.0.get_mut(id.slot as usize)?;
        let is_there = (row.go, row.sequence) == (JOINED, id.sequence);
        is_there.then(|| {
            row.go = 0;
            &*row
        })
    }
}

impl Index<u32> for Rows {
    type Output = RequestRow;

    #[inline]
    fn index(&self, slot: u32) -> &RequestRow {
        &self.0[slot as usize]
    }
}

impl IndexMut<u32> for Rows {
    #[inline]
    fn index_mut(&mut self, slot: u32) -> &mut RequestRow {
        &mut self.0[slot as usize]
    }
}
