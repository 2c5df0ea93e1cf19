//! Compiled code that is kept between processes.
//!
//! Machine code is run as it is, so a file is believed only if nobody else can have written it: the
//! directory and the file are ours, others may not write to them, neither is a link, and a digest
//! at its beginning holds over the rest, which finds what a disk or a full file system has done.
//! The name of a file is a digest of the module, of the version of the compiler, of its settings
//! and of the target. Without such a directory there is no cache, which is no error.

use crate::limits::{CACHED_BYTES_MAX, CACHED_FILES_MAX};
use crate::sandbox::ENGINE;
use crate::text::hexadecimal;
use core::hash::{Hash, Hasher};
use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, Stat, Timespec, Timestamps, fstat, open, openat,
    renameat, statat, unlinkat,
};
use rustix::process::{geteuid, getpid};
use sha2::{Digest, Sha256};
use std::fs::{DirBuilder, File};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The cache of a user.
#[derive(Debug)]
pub(crate) struct CodeCache {
    directory: OwnedFd,
}

/// Bytes of a digest.
const DIGEST_BYTES: usize = 32;

impl CodeCache {
    /// The cache of this user, if there can be one.
    pub(crate) fn open() -> Option<CodeCache> {
        CodeCache::at(&place()?)
    }

    /// The cache in that directory, which is made if it is missing.
    pub(crate) fn at(path: &Path) -> Option<CodeCache> {
        DirBuilder::new().recursive(true).mode(0o700).create(path).ok()?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = open(path, flags, Mode::empty()).ok()?;
        let is_private = is_ours(&fstat(&directory).ok()?, 0o077);
        is_private.then_some(CodeCache { directory })
    }

    /// The code of a module, if it is there.
    pub(crate) fn get(&self, module: &[u8]) -> Option<wasmtime::Module> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let name = name_of(module);
        let file = openat(&self.directory, &name, flags, Mode::empty()).ok()?;
        let stat = fstat(&file).ok()?;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if !is_file || !is_ours(&stat, 0o022) || stat.st_nlink != 1 {
            return None;
        }
        let mut bytes = Vec::new();
        let file = File::from(file);
        (&file).take(CACHED_BYTES_MAX as u64).read_to_end(&mut bytes).ok()?;
        let (digest, code) = bytes.split_at_checked(DIGEST_BYTES)?;
        if Sha256::digest(code)[..] != *digest {
            return None;
        }
        // SAFETY: the bytes are those that `Module::serialize` gave to a process of this user, as
        // nobody else can write to the file or put another one in its place, and they are whole, as
        // the digest says. Code of another version or setting has another name, and is refused.
        let code = unsafe { wasmtime::Module::deserialize(&ENGINE, code) }.ok()?;
        // The time of the last use decides which files go first.
        let now = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
        let times = Timestamps { last_access: now, last_modification: now };
        _ = rustix::fs::utimensat(&self.directory, &name, &times, AtFlags::SYMLINK_NOFOLLOW);
        Some(code)
    }

    /// Keeps the code of a module, if that can be done.
    pub(crate) fn put(&self, module: &[u8], code: &wasmtime::Module) {
        let kept = code.serialize().ok().and_then(|code| self.write(&name_of(module), &code));
        if kept.is_some() {
            self.shrink();
        }
    }

    /// Writes a file under another name and then gives it its own.
    fn write(&self, name: &str, code: &[u8]) -> Option<()> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        if code.len() + DIGEST_BYTES > CACHED_BYTES_MAX {
            return None;
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let temporary = format!("{}-{number}.new", getpid().as_raw_nonzero());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let file = openat(&self.directory, &temporary, flags | OFlags::CLOEXEC, Mode::RUSR);
        let mut file = File::from(file.ok()?);
        let written = file.write_all(&Sha256::digest(code)).and_then(|()| file.write_all(code));
        let is_kept =
            written.is_ok() && renameat(&self.directory, &temporary, &self.directory, name).is_ok();
        if !is_kept {
            _ = unlinkat(&self.directory, &temporary, AtFlags::empty());
            return None;
        }
        Some(())
    }

    /// Removes the files that were not used for longest, if there are too many.
    fn shrink(&self) {
        let Ok(all) = Dir::read_from(&self.directory) else { return };
        let names = all.filter_map(Result::ok).map(|entry| entry.file_name().to_owned());
        let names = names.filter(|name| !matches!(name.to_bytes(), b"." | b".."));
        let mut files: Vec<_> = names
            .filter_map(|name| {
                let stat = statat(&self.directory, &name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
                Some((stat.st_mtime, stat.st_mtime_nsec, name))
            })
            .collect();
        files.sort();
        for (.., name) in files.iter().take(files.len().saturating_sub(CACHED_FILES_MAX)) {
            _ = unlinkat(&self.directory, name, AtFlags::empty());
        }
    }
}

/// Whether it belongs to this user, and these rights of others are not given.
fn is_ours(stat: &Stat, others: u32) -> bool {
    stat.st_uid == geteuid().as_raw() && stat.st_mode & others == 0
}

/// The directory of this user's cache.
fn place() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let absolute = |path: &PathBuf| path.is_absolute();
    // That of a service, see systemd.exec(5); of several the first.
    let of_service = std::env::var("CACHE_DIRECTORY").ok();
    let of_service = of_service.and_then(|all| all.split(':').next().map(PathBuf::from));
    if let Some(directory) = of_service.filter(absolute) {
        return Some(directory.join("policies"));
    }
    if geteuid().is_root() {
        return Some("/var/cache/iopace/policies".into());
    }
    let base = variable("XDG_CACHE_HOME").filter(absolute);
    let base = base.or_else(|| Some(variable("HOME").filter(absolute)?.join(".cache")))?;
    Some(base.join("iopace/policies"))
}

/// The name of the file of a module's code.
fn name_of(module: &[u8]) -> String {
    let mut hasher = Sha256Hasher(Sha256::new());
    module.hash(&mut hasher);
    ENGINE.precompile_compatibility_hash().hash(&mut hasher);
    hexadecimal(&hasher.0.finalize())
}

/// SHA-256 for what is only known as something that can be hashed.
struct Sha256Hasher(Sha256);

impl Hasher for Sha256Hasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        let digest = self.0.clone().finalize();
        u64::from_le_bytes(digest[..8].try_into().expect("it has 32 bytes"))
    }
}
