//! Where the data of an emulated disk is: a sparse file, or memory.

mod mapped;

use crate::io::file::File;
use crate::io::{image, lock};
use crate::start_error::StartError;
use iopace_core::units::Bytes;
use std::path::Path;
use std::{fs, io};

pub(super) use mapped::MappedStore;

/// A sparse file, made if it is missing.
pub(super) fn open(
    path: &Path,
    size: Option<Bytes>,
    capacity: u64,
    (read_only, raw): (bool, bool),
) -> Result<File, StartError> {
    let failed = |error: io::Error| StartError::open(path, &error);
    let exists = path.exists();
    let mut options = fs::OpenOptions::new();
    options.read(true).write(!read_only);
    if !exists && !read_only {
        options.create_new(true);
    }
    let file = options.open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(failed(io::Error::new(io::ErrorKind::Unsupported, "not a regular file")));
    }
    lock::wait(&file, read_only).map_err(failed)?;
    StartError::refuse_format(path, image::format(&file), raw)?;
    let wanted = match size {
        Some(size) => size.get().min(capacity),
        None if exists && metadata.len() > 0 => metadata.len().min(capacity),
        None => capacity,
    };
    if !read_only && metadata.len() < wanted {
        file.set_len(wanted).map_err(failed)?;
    }
    Ok(File::adopt(file, wanted))
}

/// Memory that takes only what is written to it.
pub(super) fn in_memory(size_bytes: u64) -> Result<File, StartError> {
    let made = rustix::fs::memfd_create("iopace-store", rustix::fs::MemfdFlags::CLOEXEC);
    let file: fs::File = made.map_err(|error| StartError::Threads(error.into()))?.into();
    file.set_len(size_bytes).map_err(StartError::Threads)?;
    Ok(File::adopt(file, size_bytes))
}
