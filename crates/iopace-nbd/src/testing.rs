//! What the tests of this crate share.

use crate::{ExportInfo, Exports, MAX_REQUEST_LEN, wire};

/// An export of 1 MiB that can do everything but fast zeroes.
pub(crate) fn disk() -> ExportInfo {
    ExportInfo {
        id: 7,
        name: "disk".into(),
        description: "a disk".into(),
        size_bytes: 1 << 20,
        read_only: false,
        needs_tls: false,
        rotational: false,
        can_multi_conn: true,
        can_flush: true,
        can_fua: true,
        can_trim: true,
        can_write_zeroes: true,
        can_fast_zero: false,
        can_cache: true,
        block_min: 1,
        block_preferred: 4096,
        block_max: MAX_REQUEST_LEN,
    }
}

/// `disk`, which is the default, and `rom`: read-only, in blocks of 512 bytes.
pub(crate) struct Shelf;

impl Exports for Shelf {
    fn list(&self) -> Vec<ExportInfo> {
        let rom = ExportInfo {
            id: 8,
            name: "rom".into(),
            description: String::new(),
            read_only: true,
            block_min: 512,
            ..disk()
        };
        vec![disk(), rom]
    }

    fn find(&self, name: &str) -> Option<ExportInfo> {
        self.list()
            .into_iter()
            .find(|export| export.name == name || (name.is_empty() && export.id == 7))
    }
}

/// An option as a client sends it.
pub(crate) fn option(option: u32, data: &[u8]) -> Vec<u8> {
    let len = (data.len() as u32).to_be_bytes();
    [b"IHAVEOPT".as_slice(), &option.to_be_bytes(), &len, data].concat()
}

/// The data of INFO and GO.
pub(crate) fn info_data(name: &[u8], kinds: &[u16]) -> Vec<u8> {
    let mut data = [&(name.len() as u32).to_be_bytes(), name].concat();
    data.extend((kinds.len() as u16).to_be_bytes());
    data.extend(kinds.iter().flat_map(|kind| kind.to_be_bytes()));
    data
}

/// The data of LIST_META_CONTEXT and SET_META_CONTEXT.
pub(crate) fn meta_data(name: &[u8], queries: &[&str]) -> Vec<u8> {
    let mut data = [&(name.len() as u32).to_be_bytes(), name].concat();
    data.extend((queries.len() as u32).to_be_bytes());
    for query in queries {
        data.extend((query.len() as u32).to_be_bytes());
        data.extend(query.as_bytes());
    }
    data
}

/// A server's reply to an option.
pub(crate) fn answer(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let fields = [option, kind, data.len() as u32].map(u32::to_be_bytes).concat();
    [&wire::REPLY_MAGIC.to_be_bytes(), fields.as_slice(), data].concat()
}

/// The header of a request.
pub(crate) fn request(kind: u16, flags: u16, cookie: u64, offset: u64, len: u32) -> Vec<u8> {
    let mut out = Vec::new();
    crate::client::encode_request(&mut out, kind, flags, cookie, offset, len);
    out
}
