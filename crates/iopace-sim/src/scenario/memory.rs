//! The memory of a scenario file.
//!
//! ```toml
//! [memory]                            # without it there is no page cache
//! size = "1GiB"
//! dirty_background = "32MiB"          # write-back begins above it
//! dirty_limit = "100MiB"              # writers wait above it
//! ```

use super::Memory;
use super::error::Mistake;
use super::shape::MemoryTable;
use crate::units::Size;
use iopace_core::units::Bytes;
use toml::Spanned;

/// The memory of a `[memory]` table.
pub(super) fn resolve(table: &Spanned<MemoryTable>) -> Result<Memory, Mistake> {
    let given = table.get_ref();
    let default = Memory::default();
    let or = |size: Option<Size>, default: Bytes| size.map_or(default, |size| size.0);
    let memory = Memory {
        size: or(given.size, default.size),
        dirty_background: or(given.dirty_background, default.dirty_background),
        dirty_limit: or(given.dirty_limit, default.dirty_limit),
        write_back_len: or(given.write_back_len, default.write_back_len),
        drop_behind: given.drop_behind.unwrap_or(default.drop_behind),
    };
    check(&memory).map_err(|message| (table.span(), message))?;
    Ok(memory)
}

/// Whether the sizes of a memory fit together.
pub(super) fn check(memory: &Memory) -> Result<(), String> {
    let page = Bytes::from_kib(4);
    let is_legal = page <= memory.write_back_len
        && memory.dirty_background <= memory.dirty_limit
        && memory.write_back_len <= memory.dirty_limit
        && memory.dirty_limit <= memory.size;
    if !is_legal {
        let message = "[memory] does not fit together: 4 KiB <= write_back_len <= dirty_limit, \
                       dirty_background <= dirty_limit <= size";
        return Err(message.into());
    }
    Ok(())
}
