//! What a server offers.

use crate::wire;

/// One export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportInfo {
    /// The caller's own name for it, handed back when a client opens it.
    pub id: u64,
    /// The name that clients ask for.
    pub name: String,
    /// Text for people.
    pub description: String,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Refuse writes.
    pub read_only: bool,
    /// It has a head that seeks.
    pub rotational: bool,
    /// A flush on one connection covers the writes of all.
    pub can_multi_conn: bool,
    /// Knows FLUSH.
    pub can_flush: bool,
    /// Knows FUA.
    pub can_fua: bool,
    /// Knows TRIM.
    pub can_trim: bool,
    /// Knows WRITE_ZEROES.
    pub can_write_zeroes: bool,
    /// Can tell at once whether zeroing would be slow.
    pub can_fast_zero: bool,
    /// Knows CACHE.
    pub can_cache: bool,
    /// Smallest request in bytes, a power of two up to 64 KiB.
    pub block_min: u32,
    /// Best request size in bytes.
    pub block_preferred: u32,
    /// Largest request in bytes.
    pub block_max: u32,
}

impl ExportInfo {
    /// The transmission flags; `structured`: structured replies were negotiated.
    pub fn flags(&self, structured: bool) -> u16 {
        let writable = !self.read_only;
        let all = [
            (true, wire::HAS_FLAGS),
            (self.read_only, wire::READ_ONLY),
            (self.can_flush, wire::SEND_FLUSH),
            (self.can_fua && writable, wire::SEND_FUA),
            (self.rotational, wire::ROTATIONAL),
            (self.can_trim && writable, wire::SEND_TRIM),
            (self.can_write_zeroes && writable, wire::SEND_WRITE_ZEROES),
            (self.can_fast_zero && self.can_write_zeroes && writable, wire::SEND_FAST_ZERO),
            (structured, wire::SEND_DF),
            (self.can_multi_conn, wire::CAN_MULTI_CONN),
            (self.can_cache, wire::SEND_CACHE),
        ];
        all.iter().filter(|(on, _)| *on).fold(0, |flags, (_, flag)| flags | flag)
    }
}

/// Where a server learns what it offers.
pub trait Exports {
    /// All exports, in the order to be listed.
    fn list(&self) -> Vec<ExportInfo>;

    /// The export of that name; the empty name is the default export, if there is one.
    fn find(&self, name: &str) -> Option<ExportInfo>;
}
