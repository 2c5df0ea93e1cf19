//! The memory that a machine shares, mapped.

use super::trust::check_memory;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use vhost::vhost_user::message::VhostUserMemoryRegion;
use vm_memory::mmap::MmapRegion;
use vm_memory::{
    FileOffset, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion,
    GuestRegionMmap,
};

/// Most regions: what QEMU asks for at most (`memory-backend` devices and gaps).
pub(super) const REGIONS_MAX: usize = 256;

/// Most memory of a machine of somebody else: a hundred of them leave room in the address space of
/// the daemon, which is 128 TiB.
const STRANGER_BYTES_MAX: u64 = 1 << 40;

/// A piece of the machine's memory, mapped here for as long as [`Regions`] is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) start: *mut u8,
    pub(super) len: usize,
}

// SAFETY: an address; whoever uses it has the regions that keep it mapped.
unsafe impl Send for Segment {}
// SAFETY: the same.
unsafe impl Sync for Segment {}

impl Segment {
    /// Copies from the beginning of it; both are equally long.
    pub(super) fn read_into(self, into: &mut [u8]) {
        assert_eq!(self.len, into.len());
        // SAFETY: mapped (see the type), as long as `into`, which is our own memory. The machine
        // may write there meanwhile: the bytes are whatever it makes of them.
        unsafe { std::ptr::copy_nonoverlapping(self.start, into.as_mut_ptr(), self.len) };
    }

    /// Copies to it; both are equally long.
    pub(super) fn write_from(self, from: &[u8]) {
        assert_eq!(self.len, from.len());
        // SAFETY: as in `read_into`.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), self.start, self.len) };
    }
}

/// The regions of a machine, as they were at some time: a request keeps those that it began with.
#[derive(Debug, Default)]
pub(super) struct Regions {
    memory: GuestMemoryMmap<()>,
    /// Where the machine's process has each: address there, address in the machine, size.
    known: Vec<(u64, u64, u64)>,
}

impl Regions {
    /// These, mapped.
    ///
    /// # Errors
    /// One cannot be mapped or must not be, or they overlap.
    pub(super) fn new(
        all: &[VhostUserMemoryRegion],
        files: Vec<File>,
        is_trusted: bool,
    ) -> io::Result<Regions> {
        let mut regions = Regions::default();
        for (region, file) in all.iter().zip(files) {
            regions = regions.with(region, file, is_trusted)?;
        }
        Ok(regions)
    }

    /// These and one more.
    ///
    /// # Errors
    /// As in [`Regions::new`].
    pub(super) fn with(
        &self,
        region: &VhostUserMemoryRegion,
        file: File,
        is_trusted: bool,
    ) -> io::Result<Regions> {
        let wrong = |error: &dyn std::fmt::Display| io::Error::other(error.to_string());
        let VhostUserMemoryRegion { guest_phys_addr, memory_size, user_addr, mmap_offset } =
            *region;
        if self.known.len() >= REGIONS_MAX {
            return Err(wrong(&"there are too many regions of memory"));
        }
        let end = mmap_offset.checked_add(memory_size);
        let end = end.ok_or_else(|| wrong(&"a region of memory has no end"))?;
        let all_bytes = self.known.iter().map(|known| known.2).sum::<u64>();
        if !is_trusted && all_bytes.saturating_add(end) > STRANGER_BYTES_MAX {
            return Err(wrong(&"the machine of another user shares 1 TiB of memory at most"));
        }
        check_memory(file.as_fd(), end, is_trusted)?;
        let size = usize::try_from(memory_size).map_err(|error| wrong(&error))?;
        let mapped = MmapRegion::from_file(FileOffset::new(file, mmap_offset), size);
        let mapped = mapped.map_err(|error| wrong(&error))?;
        let region = GuestRegionMmap::new(mapped, GuestAddress(guest_phys_addr));
        let region = region.ok_or_else(|| wrong(&"a region of memory has no end"))?;
        let memory = self.memory.insert_region(Arc::new(region));
        let memory = memory.map_err(|error| wrong(&error))?;
        let mut known = self.known.clone();
        known.push((user_addr, guest_phys_addr, memory_size));
        Ok(Regions { memory, known })
    }

    /// These without the one that was described so.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn without(&self, region: &VhostUserMemoryRegion) -> io::Result<Regions> {
        let VhostUserMemoryRegion { guest_phys_addr, memory_size, user_addr, .. } = *region;
        let is_it = |known: &(u64, u64, u64)| *known == (user_addr, guest_phys_addr, memory_size);
        let place = self.known.iter().position(is_it);
        let place = place.ok_or_else(|| io::Error::other("there is no such region of memory"))?;
        let base = GuestAddress(guest_phys_addr);
        let (memory, _) = self.memory.remove_region(base, memory_size).map_err(io::Error::other)?;
        let mut known = self.known.clone();
        known.remove(place);
        Ok(Regions { memory, known })
    }

    /// The memory.
    pub(super) fn memory(&self) -> &GuestMemoryMmap<()> {
        &self.memory
    }

    /// An address in the machine, of one in its process.
    pub(super) fn guest_address(&self, user: u64) -> Option<GuestAddress> {
        let offset_in = |from: u64, size| user.checked_sub(from).filter(|offset| *offset < size);
        self.known.iter().find_map(|&(from, guest, size)| {
            offset_in(from, size).map(|offset| GuestAddress(guest + offset))
        })
    }

    /// The pieces that so many bytes from an address on consist of; pieces that lie one behind the
    /// other are one. False if not all of it is there.
    pub(super) fn find(&self, address: GuestAddress, len: usize, into: &mut Vec<Segment>) -> bool {
        if let Some(region) = self.memory.find_region(address)
            && let Ok(offset) = usize::try_from(address.0 - region.start_addr().0)
            && let Some(end) = offset.checked_add(len)
            && end <= region.get_mmap().size()
        {
            // SAFETY: within the mapping, as its size was just compared.
            let start = unsafe { region.get_mmap().as_ptr().add(offset) };
            add(into, Segment { start, len });
            return true;
        }
        for slice in GuestMemoryBackend::get_slices(&self.memory, address, len) {
            let Ok(slice) = slice else { return false };
            let start = slice.ptr_guard_mut().as_ptr();
            add(into, Segment { start, len: slice.len() });
        }
        true
    }
}

fn add(into: &mut Vec<Segment>, segment: Segment) {
    match into.last_mut() {
        Some(last) if last.start.wrapping_add(last.len) == segment.start => last.len += segment.len,
        _ => into.push(segment),
    }
}
