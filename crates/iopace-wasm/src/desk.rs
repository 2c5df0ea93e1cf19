//! The desk: the places in a module's memory where events, answers and values lie, and how they are
//! laid out there.

use crate::limits::{ANSWERS_MAX, COUNTERS_MAX, EVENT_BYTES, EVENT_BYTES_PER_CALL};
use core::num::NonZeroU64;
use iopace_core::group::Rates;
use iopace_core::group::table::Groups;
use iopace_core::request::{GroupId, Op, RequestId};
use iopace_core::table::Request;
use iopace_core::time::{Instant, Nanos};

/// An event before its time and name: kinds, as the contract numbers them.
pub(crate) const PUSH: u8 = 1;
/// See [`PUSH`].
pub(crate) const DONE: u8 = 2;
/// See [`PUSH`].
pub(crate) const FLUSH: u8 = 3;
/// See [`PUSH`].
pub(crate) const FLUSHED: u8 = 4;
/// See [`PUSH`].
pub(crate) const GROUP: u8 = 5;
/// See [`PUSH`].
pub(crate) const GROUP_GONE: u8 = 6;

/// Bytes of one answer.
const ANSWER_BYTES: usize = 16;

/// The places.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Desk {
    /// Events begin here.
    pub(crate) events: usize,
    /// So many bytes of them may lie there.
    pub(crate) event_bytes: usize,
    /// Answers begin here.
    pub(crate) answers: usize,
    /// So many have room.
    pub(crate) answers_count: usize,
    /// [`COUNTERS_MAX`] values begin here.
    pub(crate) values: usize,
}

impl Desk {
    /// Reads the desk at the address.
    ///
    /// # Errors
    /// A sentence: where it leaves the memory or the bounds.
    pub(crate) fn read(memory: &[u8], address: u32) -> Result<Desk, String> {
        let mut words = [0; 5];
        let place = place(memory, "the desk", address, 4, 4 * words.len())?;
        for (word, bytes) in words.iter_mut().zip(memory[place..].as_chunks().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        let [events, event_bytes, answers, answers_count, values] = words;
        let (event_bytes, answers_count) = (event_bytes as usize, answers_count as usize);
        if !EVENT_BYTES.contains(&event_bytes) {
            return Err(format!("{event_bytes} bytes for events are not {EVENT_BYTES:?}"));
        }
        if !(1..=ANSWERS_MAX).contains(&answers_count) {
            return Err(format!("room for {answers_count} answers is not 1 to {ANSWERS_MAX}"));
        }
        Ok(Desk {
            events: self::place(memory, "events", events, 8, event_bytes)?,
            event_bytes: event_bytes.min(EVENT_BYTES_PER_CALL),
            answers: self::place(memory, "answers", answers, 8, answers_count * ANSWER_BYTES)?,
            answers_count,
            values: self::place(memory, "values", values, 8, 8 * COUNTERS_MAX)?,
        })
    }

    /// The answer at the index: the name of a request.
    pub(crate) fn answer(&self, memory: &[u8], index: usize) -> RequestId {
        let at = self.answers + index * ANSWER_BYTES;
        let slot = u32::from_le_bytes(array(memory, at));
        RequestId::at(slot, u64::from_le_bytes(array(memory, at + 8)))
    }

    /// The answer to the question for the next instant, in ns.
    pub(crate) fn instant(&self, memory: &[u8]) -> i64 {
        i64::from_le_bytes(array(memory, self.answers))
    }

    /// The value at the index.
    pub(crate) fn value(&self, memory: &[u8], index: usize) -> u64 {
        u64::from_le_bytes(array(memory, self.values + 8 * index))
    }

    /// Sets the first values.
    pub(crate) fn set_values(&self, memory: &mut [u8], values: &[u64]) {
        for (index, value) in values.iter().enumerate() {
            let at = self.values + 8 * index;
            memory[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
    }
}

/// So many bytes of the memory; the desk was read, so that they are in it: memory does not shrink.
fn array<const N: usize>(memory: &[u8], at: usize) -> [u8; N] {
    memory[at..at + N].try_into().expect("it has that length")
}

/// Whether so many bytes from the address on are in the memory, and aligned.
fn place(
    memory: &[u8],
    what: &str,
    address: u32,
    align: u32,
    bytes: usize,
) -> Result<usize, String> {
    let at = address as usize;
    if !address.is_multiple_of(align) {
        return Err(format!("{what} at {address:#x} is not aligned to {align}"));
    }
    match at.checked_add(bytes).is_some_and(|end| end <= memory.len()) {
        true => Ok(at),
        false => Err(format!("{what} at {address:#x}, {bytes} bytes, leaves the memory")),
    }
}

/// Nanoseconds as the contract has them: what is beyond its largest number is "never".
pub(crate) fn nanos(time: u64) -> i64 {
    i64::try_from(time).unwrap_or(i64::MAX)
}

/// The 24 bytes that every event begins with.
pub(crate) type Head = [u8; 24];

/// The beginning of an event of a request.
pub(crate) fn head(kind: u8, now: Instant, id: RequestId, request: &Request, ok: bool) -> Head {
    let flags =
        u8::from(request.is_sync()) | u8::from(request.is_reserved()) << 1 | u8::from(ok) << 2;
    let operation = match request.op() {
        Op::Read => 0,
        Op::Write => 1,
        Op::Flush => 2,
        Op::Trim => 3,
        Op::WriteZeroes => 4,
        Op::Cache => 5,
    };
    raw_head([kind, flags, operation, 0], id.slot(), now, id.sequence())
}

/// The beginning of any event.
pub(crate) fn raw_head(first: [u8; 4], slot: u32, now: Instant, sequence: u64) -> Head {
    let mut bytes = [0; 24];
    bytes[..4].copy_from_slice(&first);
    bytes[4..8].copy_from_slice(&slot.to_le_bytes());
    bytes[8..16].copy_from_slice(&nanos(now.0).to_le_bytes());
    bytes[16..].copy_from_slice(&sequence.to_le_bytes());
    bytes
}

/// A request in full: push and flush.
pub(crate) fn request(kind: u8, now: Instant, id: RequestId, request: &Request) -> [u8; 72] {
    let area = request.area();
    let mut bytes = [0; 72];
    bytes[..24].copy_from_slice(&head(kind, now, id, request, false));
    bytes[24..32].copy_from_slice(&request.task().0.to_le_bytes());
    bytes[32..36].copy_from_slice(&request.group().0.to_le_bytes());
    bytes[36..40].copy_from_slice(&area.space.0.to_le_bytes());
    bytes[40..48].copy_from_slice(&area.extent.offset().0.to_le_bytes());
    bytes[48..56].copy_from_slice(&area.extent.len().0.to_le_bytes());
    bytes[56..64].copy_from_slice(&nanos(request.arrived().0).to_le_bytes());
    bytes
}

/// The settings of a group.
pub(crate) fn group(now: Instant, id: GroupId, groups: &Groups) -> [u8; 96] {
    let settings = groups.settings(id);
    let mut bytes = [0; 96];
    bytes[..24].copy_from_slice(&raw_head([GROUP, 0, 0, 0], id.0, now, 0));
    bytes[24..28].copy_from_slice(&groups.parent(id).0.to_le_bytes());
    bytes[28..32].copy_from_slice(&settings.weight.get().to_le_bytes());
    bytes[32..36].copy_from_slice(&(settings.class as u32).to_le_bytes());
    let Rates { rbps, wbps, bps, riops, wiops, iops } = settings.min;
    let latency = settings.latency.map_or(0, |Nanos(latency)| nanos(latency).cast_unsigned());
    let rate = |rate: Option<NonZeroU64>| rate.map_or(0, u64::from);
    let words = [rate(rbps), rate(wbps), rate(riops), rate(wiops), latency, rate(bps), rate(iops)];
    for (place, word) in bytes[40..].chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}
