//! The parts of a request in the machine's memory: a chain of descriptors (virtio 1.2, section
//! 2.7.5), of which the first bytes are the header and the last one is for the status.

use super::blk::{HEADER_BYTES, Header};
use super::regions::{Regions, Segment};
use std::sync::Arc;
use vm_memory::{Bytes, GuestAddress};

/// Size of a descriptor.
const DESCRIPTOR_BYTES: usize = 16;

/// Another one follows.
const NEXT: u16 = 1;
/// It may be written, else it may be read.
const WRITE: u16 = 2;
/// It is a table of further descriptors.
const INDIRECT: u16 = 4;

/// A table of descriptors, and the memory that it and all parts are in.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) regions: Arc<Regions>,
    pub(super) address: GuestAddress,
    /// So many descriptors.
    pub(super) size: u16,
}

/// A request that cannot be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// It makes no sense: the driver is broken or hostile, and its queue is not served on.
    Wrong(&'static str),
    /// A part of it is in no memory that is shared now: the memory may be on its way, as a region
    /// is taken away before it is given anew with another size.
    Missing,
}

/// Most descriptors of one request. Eight times as many as are announced; each may be a part of its
/// own, which is kept while the disk reads.
const DESCRIPTORS_MAX: usize = 1024;

/// A request, but for its data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) header: Header,
    /// One byte.
    pub(super) status: Segment,
}

/// Room for the parts of one request after the other.
#[derive(Debug, Default)]
pub(super) struct Walk {
    /// Data from the machine, without the header.
    pub(super) readable: Vec<Segment>,
    /// Room for data for the machine, without that for the status.
    pub(super) writable: Vec<Segment>,
    indirect: Vec<u8>,
    /// Descriptors of the request.
    count: usize,
}

/// The bytes of all segments.
pub(super) fn total(segments: &[Segment]) -> u64 {
    segments.iter().map(|segment| segment.len as u64).sum()
}

struct Descriptor {
    address: GuestAddress,
    len: u32,
    flags: u16,
    next: u16,
}

impl Descriptor {
    fn of(bytes: [u8; DESCRIPTOR_BYTES]) -> Descriptor {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = bytes;
        Descriptor {
            address: GuestAddress(u64::from_le_bytes([a, b, c, d, e, f, g, h])),
            len: u32::from_le_bytes([i, j, k, l]),
            flags: u16::from_le_bytes([m, n]),
            next: u16::from_le_bytes([o, p]),
        }
    }
}

impl Walk {
    /// Finds the parts of the request that begins there.
    ///
    /// # Errors
    /// It makes no sense.
    pub(super) fn walk(&mut self, table: &Table, head: u16) -> Result<Request, Broken> {
        self.readable.clear();
        self.writable.clear();
        self.count = 0;
        let mut at = head;
        for _ in 0..table.size {
            let descriptor = read(table, at)?;
            if descriptor.flags & INDIRECT != 0 {
                self.walk_indirect(table, &descriptor)?;
            } else {
                self.add(table, &descriptor)?;
            }
            if descriptor.flags & NEXT == 0 {
                return self.request();
            }
            at = descriptor.next;
        }
        Err(Broken::Wrong("a chain of descriptors has no end"))
    }

    fn walk_indirect(&mut self, table: &Table, outer: &Descriptor) -> Result<(), Broken> {
        let (len, is_last) = (outer.len as usize, outer.flags & NEXT == 0);
        let count = len / DESCRIPTOR_BYTES;
        if count == 0 || len % DESCRIPTOR_BYTES != 0 || count > DESCRIPTORS_MAX || !is_last {
            return Err(Broken::Wrong("a table of indirect descriptors has no such size or place"));
        }
        // All at once: a look for the region takes longer than the copy.
        let mut bytes = std::mem::take(&mut self.indirect);
        bytes.resize(len, 0);
        let read = table.regions.memory().read_slice(&mut bytes, outer.address);
        read.map_err(|_| Broken::Missing)?;
        let (mut at, mut left) = (0, count);
        loop {
            let place = usize::from(at) * DESCRIPTOR_BYTES;
            let one = bytes.get(place..place + DESCRIPTOR_BYTES).filter(|_| left > 0);
            let one = one.and_then(|one| one.try_into().ok());
            let descriptor = one.map(Descriptor::of).ok_or(Broken::Wrong(
                "a chain of indirect descriptors has no end, or one outside its table",
            ))?;
            if descriptor.flags & INDIRECT != 0 {
                return Err(Broken::Wrong("an indirect descriptor is in a table of such"));
            }
            self.add(table, &descriptor)?;
            if descriptor.flags & NEXT == 0 {
                break;
            }
            (at, left) = (descriptor.next, left - 1);
        }
        self.indirect = bytes;
        Ok(())
    }

    fn add(&mut self, table: &Table, descriptor: &Descriptor) -> Result<(), Broken> {
        let is_writable = descriptor.flags & WRITE != 0;
        if !is_writable && !self.writable.is_empty() {
            return Err(Broken::Wrong("data from the machine stands behind room for data"));
        }
        let into = if is_writable { &mut self.writable } else { &mut self.readable };
        let (address, len) = (descriptor.address, descriptor.len as usize);
        self.count += 1;
        if len == 0 || self.count > DESCRIPTORS_MAX {
            return Err(Broken::Wrong("a part of a request is empty, or it has too many"));
        }
        if table.regions.find(address, len, into) { Ok(()) } else { Err(Broken::Missing) }
    }

    /// Takes header and status off the parts.
    fn request(&mut self) -> Result<Request, Broken> {
        let mut header = [0; HEADER_BYTES];
        let is_there = take_front(&mut self.readable, &mut header);
        let last = self.writable.last_mut().filter(|_| is_there);
        let last =
            last.ok_or(Broken::Wrong("a request has no header, or no room for its status"))?;
        last.len -= 1;
        let status = Segment { start: last.start.wrapping_add(last.len), len: 1 };
        if last.len == 0 {
            self.writable.pop();
        }
        Ok(Request { header: Header::of(header), status })
    }
}

fn read(table: &Table, at: u16) -> Result<Descriptor, Broken> {
    if at >= table.size {
        return Err(Broken::Wrong("a descriptor is outside its table"));
    }
    let place = u64::from(at) * DESCRIPTOR_BYTES as u64;
    let address = table.address.0.checked_add(place).map(GuestAddress);
    let mut bytes = [0; DESCRIPTOR_BYTES];
    let read = address.map(|address| table.regions.memory().read_slice(&mut bytes, address));
    match read {
        Some(Ok(())) => Ok(Descriptor::of(bytes)),
        _ => Err(Broken::Missing),
    }
}

/// Takes bytes off the front; false if there are fewer.
pub(super) fn take_front(segments: &mut Vec<Segment>, mut into: &mut [u8]) -> bool {
    while !into.is_empty() {
        let Some(first) = segments.first_mut() else { return false };
        let len = first.len.min(into.len());
        let (now, later) = into.split_at_mut(len);
        Segment { start: first.start, len }.read_into(now);
        *first = Segment { start: first.start.wrapping_add(len), len: first.len - len };
        if first.len == 0 {
            segments.remove(0);
        }
        into = later;
    }
    true
}

/// Copies from all of them; they are as long together.
pub(super) fn gather(segments: &[Segment], mut into: &mut [u8]) {
    for segment in segments {
        let (now, later) = into.split_at_mut(segment.len);
        segment.read_into(now);
        into = later;
    }
}

/// Copies to them as much as there is; the bytes of the data that found room.
pub(super) fn scatter(segments: &[Segment], mut from: &[u8]) {
    for segment in segments {
        let len = segment.len.min(from.len());
        let (now, later) = from.split_at(len);
        Segment { start: segment.start, len }.write_from(now);
        from = later;
    }
}
