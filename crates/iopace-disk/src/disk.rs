//! A disk model: commands in, completions out, time as an argument.
//!
//! The contract is that of the engine: nothing happens by itself. Whoever turns the crank submits
//! commands, asks [`Disk::next`] when to come back, and takes what is due with [`Disk::poll`].

use iopace_core::request::{Extent, Op, Outcome};
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;
use std::fmt::Debug;

/// One command for a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// The caller's name for it, handed back with the completion.
    pub id: u64,
    /// What to do.
    pub op: Op,
    /// Where.
    pub extent: Extent,
    /// On the medium before it is done.
    pub fua: bool,
}

/// A command that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The caller's name for it.
    pub id: u64,
    /// How it went.
    pub outcome: Outcome,
}

/// What a disk has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskStats {
    /// Time with a command at the disk, or with its write cache being emptied.
    pub busy: Nanos,
    /// Commands completed.
    pub commands_count: u64,
    /// Times the head moved.
    pub seeks_count: u64,
    /// Reads served from the disk's own buffer.
    pub buffer_hits_count: u64,
    /// Bytes read.
    pub read: Bytes,
    /// Bytes written.
    pub written: Bytes,
}

/// A model of a disk.
pub trait Disk: Debug + Send {
    /// Its size.
    fn capacity(&self) -> Bytes;

    /// Most commands that it holds at once.
    fn depth(&self) -> u32;

    /// Whether it has a head that seeks.
    fn is_rotational(&self) -> bool;

    /// Takes a command. At most [`Disk::depth`] may be outstanding.
    fn submit(&mut self, now: Instant, command: Command);

    /// When [`Disk::poll`] next has something; [`Instant::NEVER`] if nothing is outstanding.
    fn next(&self) -> Instant;

    /// The next completion that is due at or before `now`, in order of time.
    fn poll(&mut self, now: Instant) -> Option<Completion>;

    /// What it has done so far.
    fn stats(&self) -> DiskStats;
}
