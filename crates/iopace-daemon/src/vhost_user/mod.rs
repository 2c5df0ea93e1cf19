//! The vhost-user frontend: an export as the disk of a virtual machine (virtio-blk), over memory
//! that the machine shares.
//!
//! The path of a request: [`ring`] takes it from the machine's queue, [`chain`] finds its parts in
//! the machine's memory ([`regions`]), [`intake`] makes a job of it ([`blk`] says which), and
//! [`pending`] puts its end into the ring, by whichever thread learns of it. [`link`] is the
//! conversation about all that: where memory and rings are. One thread per machine
//! ([`session`]) has the conversation and takes requests from all queues of it.
//!
//! Sources: the virtio specification 1.2 (sections 2.7, 5.2) and "Vhost-user Protocol" of the QEMU
//! manual; the library `vhost` reads and writes the messages.

mod blk;
mod chain;
pub(crate) mod frontend;
mod inflight;
mod intake;
mod link;
mod machine;
mod pending;
mod regions;
mod ring;
mod session;
#[cfg(test)]
mod tests;
mod trust;

/// Most queues of a machine: QEMU makes one for each of its processors, and guests with more share
/// them.
const QUEUES_MAX: usize = 64;

/// Most places of a queue: the largest that QEMU's `queue-size` takes.
const QUEUE_SIZE_MAX: u16 = 1024;

/// Most bytes of one request: more than any guest kernel asks at once (Linux: 1,280 KiB unless told
/// otherwise), and what NBD clients may ask.
const REQUEST_BYTES_MAX: u64 = iopace_nbd::MAX_REQUEST_LEN as u64;

/// Size of the unit in which a virtio disk counts.
const SECTOR_BYTES: u64 = 512;
