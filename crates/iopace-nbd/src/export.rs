//! What a server offers.

use crate::{MAX_REQUEST_LEN, wire};

/// Largest minimum block size in bytes that the protocol allows.
const BLOCK_MIN_MAX: u32 = 1 << 16;

/// Smallest preferred block size in bytes that the protocol allows.
const BLOCK_PREFERRED_MIN: u32 = 512;

/// One export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportInfo {
    /// The caller's own name for it, handed back when a client opens it. No two exports share one.
    pub id: u64,
    /// The name that clients ask for: UTF-8, at most 4096 bytes.
    pub name: String,
    /// Text for people, at most 4096 bytes; empty if there is nothing to say.
    pub description: String,
    /// Its size in bytes; what is left behind the last whole [`block_min`](ExportInfo::block_min)
    /// cannot be reached.
    pub size_bytes: u64,
    /// Refuse writes.
    pub read_only: bool,
    /// It is shown on encrypted connections only.
    pub needs_tls: bool,
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
    /// Best request size in bytes, a power of two from 512.
    pub block_preferred: u32,
    /// Largest read or write in bytes. More than [`MAX_REQUEST_LEN`] is never allowed.
    pub block_max: u32,
}

impl ExportInfo {
    /// An export that can be read and written and no more, in requests of any size.
    pub fn new(id: u64, name: &str, size_bytes: u64) -> ExportInfo {
        ExportInfo {
            id,
            name: name.to_owned(),
            description: String::new(),
            size_bytes,
            read_only: false,
            needs_tls: false,
            rotational: false,
            can_multi_conn: false,
            can_flush: false,
            can_fua: false,
            can_trim: false,
            can_write_zeroes: false,
            can_fast_zero: false,
            can_cache: false,
            block_min: 1,
            block_preferred: 4096,
            block_max: MAX_REQUEST_LEN,
        }
    }

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

    /// Smallest, best and largest request in bytes as clients are told and held to, bent to what
    /// the protocol's section "Block size constraints" asks for: powers of two, in order, and the
    /// largest a multiple of the smallest.
    pub fn block_sizes(&self) -> [u32; 3] {
        let min = self.block_min.clamp(1, BLOCK_MIN_MAX).next_power_of_two();
        let preferred = self.block_preferred.clamp(BLOCK_PREFERRED_MIN, MAX_REQUEST_LEN);
        let preferred = preferred.next_power_of_two().max(min);
        let max = self.block_max.clamp(preferred, MAX_REQUEST_LEN);
        [min, preferred, max - max % min]
    }
}

/// Where a server learns what it offers.
pub trait Exports {
    /// All exports, in the order to be listed.
    fn list(&self) -> Vec<ExportInfo>;

    /// The export of that name; the empty name is the default export, if there is one.
    fn find(&self, name: &str) -> Option<ExportInfo>;
}

/// The do-nothing implementation: a server without exports, of which every client takes leave.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoExports;

impl Exports for NoExports {
    fn list(&self) -> Vec<ExportInfo> {
        Vec::new()
    }

    fn find(&self, _: &str) -> Option<ExportInfo> {
        None
    }
}

/// One export, found by its own name and as the default.
impl Exports for ExportInfo {
    fn list(&self) -> Vec<ExportInfo> {
        vec![self.clone()]
    }

    fn find(&self, name: &str) -> Option<ExportInfo> {
        (name.is_empty() || name == self.name).then(|| self.clone())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::disk;
    use crate::{MAX_REQUEST_LEN, wire};

    #[test]
    fn block_sizes_are_bent_to_the_protocol() {
        let cases = [
            ([1, 4096, MAX_REQUEST_LEN], [1, 4096, MAX_REQUEST_LEN]),
            ([512, 4096, 1 << 20], [512, 4096, 1 << 20]),
            ([0, 0, 0], [1, 512, 512]),
            ([3, 1000, 1 << 20], [4, 1024, 1 << 20]),
            ([4096, 512, 10_000], [4096, 4096, 8192]),
            ([u32::MAX; 3], [1 << 16, MAX_REQUEST_LEN, MAX_REQUEST_LEN]),
        ];
        for (given, told) in cases {
            let mut export = disk();
            [export.block_min, export.block_preferred, export.block_max] = given;
            assert_eq!(export.block_sizes(), told, "{given:?}");
        }
    }

    #[test]
    fn a_read_only_export_offers_nothing_that_writes() {
        let mut export = disk();
        export.can_fast_zero = true;
        let writing =
            wire::SEND_FUA | wire::SEND_TRIM | wire::SEND_WRITE_ZEROES | wire::SEND_FAST_ZERO;
        assert_eq!(export.flags(false) & (writing | wire::READ_ONLY), writing);
        export.read_only = true;
        assert_eq!(export.flags(false) & (writing | wire::READ_ONLY), wire::READ_ONLY);
    }

    #[test]
    fn df_is_offered_with_structured_replies_only() {
        assert_eq!(disk().flags(false) & wire::SEND_DF, 0);
        assert_eq!(disk().flags(true), disk().flags(false) | wire::SEND_DF);
    }
}
