//! Bounds of disks that another NBD server has.

use iopace_core::time::Nanos;
use iopace_core::units::Bytes;
use std::time::Duration;

/// Most data of acknowledged writes that no flush has covered yet, kept to be written again should
/// the server forget them. Half of it is what a server has written in a moment; at that the daemon
/// flushes by itself, so that writers do not wait for a flush at the full bound.
pub const UNFLUSHED_MAX: Bytes = Bytes::from_mib(64);

/// The least that one such write counts: its data, and its place in memory.
pub const UNFLUSHED_EACH: Bytes = Bytes(4096);

/// Largest read or write where the server does not say (the protocol's section "Block size
/// constraints").
pub const REMOTE_PAYLOAD_DEFAULT: u32 = 32 << 20;

/// Largest trim or write of zeroes in one request: no data travel with it, but its length is to
/// fit the 32 bits of the protocol in whole blocks.
pub const REMOTE_RANGE_MAX: u32 = 1 << 30;

/// Writes up to this are gathered with others, so that one system call sends many; copying more
/// costs as much as a call.
pub const REMOTE_COPIED_MAX: usize = 16 << 10;

/// Bytes gathered at most: what a socket takes at once.
pub const REMOTE_BATCH_BYTES: usize = 128 << 10;

/// The pause before the first attempt to connect again; it doubles with each further one.
pub const RECONNECT_PAUSE_MIN: Duration = Duration::from_millis(50);

/// The longest such pause: a server that is back is found within it.
pub const RECONNECT_PAUSE_MAX: Duration = Duration::from_secs(2);

/// A server that takes no connection by then is not there.
pub const REMOTE_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A server that has not opened the export by then is left, as our own leaves such clients.
pub const REMOTE_HANDSHAKE_TIMEOUT: Nanos = Nanos::from_secs(10);

/// A peer whose kernel acknowledges nothing of what was sent for so long is gone. (A slow server is
/// not: its kernel acknowledges.) Ten seconds are ten lost segments in a row on any local network.
pub const REMOTE_SILENCE: Duration = Duration::from_secs(10);

/// Between two looks whether the peer is silent, or the device at its end.
pub const REMOTE_LOOK: Duration = Duration::from_secs(1);

/// Pieces in which the answer to one read may come without adjoining: servers send holes and data
/// in turn, and in order.
pub const READ_FRAGMENTS_MAX: usize = 1024;

/// The last flush at the end of a daemon waits so long: its end takes some 20 seconds at most.
pub const REMOTE_FLUSH_PATIENCE: Duration = Duration::from_secs(8);
