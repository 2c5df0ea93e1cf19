//! The ways to an image: NBD, a mount, and a loop device.

use super::block::Block;
use super::disk::Disk;
use super::mapped::Mapped;
use crate::bench::{Bench, Over};
use crate::node::NodeId;
use crate::tree::Shared;
use iopace_daemon::config::{Backend, DaemonConfig, DeviceConfig, IoEngineChoice, Listen};
use iopace_nbd::client::{Client, Wanted};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// The name of the image.
pub(super) const IMAGE: &str = "disk.img";

/// A way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskAccess {
    /// An export over NBD.
    Nbd {
        /// Past the page cache.
        direct: bool,
        /// By io_uring where there is one, else by threads.
        uring: bool,
    },
    /// A file of a mount.
    Mount {
        /// Elsewhere or over itself.
        over: Over,
        /// Opened with `O_DIRECT`.
        direct: bool,
    },
    /// A file of a mount, mapped and synced by `msync`.
    Mapped(Over),
    /// An export as a file, which is what a loop device uses.
    Image,
    /// A loop device with such a file behind it.
    Loop {
        /// Opened with `O_DIRECT`.
        direct: bool,
    },
}

impl DiskAccess {
    /// All of them.
    pub const ALL: [DiskAccess; 12] = [
        DiskAccess::Nbd { direct: false, uring: true },
        DiskAccess::Nbd { direct: true, uring: true },
        DiskAccess::Nbd { direct: false, uring: false },
        DiskAccess::Nbd { direct: true, uring: false },
        DiskAccess::Mount { over: Over::Elsewhere, direct: false },
        DiskAccess::Mount { over: Over::Elsewhere, direct: true },
        DiskAccess::Mount { over: Over::Itself, direct: false },
        DiskAccess::Mapped(Over::Elsewhere),
        DiskAccess::Mapped(Over::Itself),
        DiskAccess::Image,
        DiskAccess::Loop { direct: false },
        DiskAccess::Loop { direct: true },
    ];

    pub(super) fn is_nbd(self) -> bool {
        matches!(self, DiskAccess::Nbd { .. })
    }

    pub(super) fn is_mapped(self) -> bool {
        matches!(self, DiskAccess::Mapped(_))
    }

    pub(super) fn is_block(self) -> bool {
        matches!(self, DiskAccess::Loop { .. })
    }

    /// Why it cannot be tried here, if it cannot.
    pub fn missing(self) -> Option<&'static str> {
        let is_missing = self.is_block() && !Path::new("/dev/loop-control").exists();
        is_missing.then_some("there are no loop devices")
    }

    /// iopace over a recorder with an image.
    pub(super) fn bench(self) -> io::Result<Bench> {
        let tree = super::tree();
        match self {
            DiskAccess::Mount { over, .. } | DiskAccess::Mapped(over) => {
                Bench::mounted_with(&tree, over)
            }
            DiskAccess::Nbd { direct, uring } => served(&tree, direct, uring),
            DiskAccess::Image => served(&tree, false, true),
            DiskAccess::Loop { .. } => {
                let mut bench = served(&tree, false, true)?;
                bench.attach()?;
                Ok(bench)
            }
        }
    }

    /// A client.
    pub(super) fn open(self, bench: &Bench) -> io::Result<Box<dyn Disk>> {
        match self {
            DiskAccess::Nbd { .. } => {
                let stream = UnixStream::connect(bench.folder().join("disk.sock"))?;
                let wanted = Wanted { structured: true, ..Wanted::default() };
                Ok(Box::new(Client::connect(stream, "disk", wanted)?))
            }
            DiskAccess::Mount { direct, .. } => Ok(Box::new(file(&bench.at.join(IMAGE), direct)?)),
            DiskAccess::Mapped(_) => {
                Ok(Box::new(Mapped::new(&file(&bench.at.join(IMAGE), false)?)?))
            }
            DiskAccess::Image => Ok(Box::new(file(&bench.folder().join("images/disk"), false)?)),
            DiskAccess::Loop { direct } => Ok(Box::new(Block::new(file(&bench.at, direct)?))),
        }
    }
}

fn file(path: &Path, direct: bool) -> io::Result<File> {
    let flags = if direct { libc::O_DIRECT } else { 0 };
    OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)
}

fn served(tree: &Shared, direct: bool, uring: bool) -> io::Result<Bench> {
    Bench::new(tree, |below, folder| {
        let mut device = DeviceConfig::new("disk", Backend::Path(below.join(IMAGE)));
        device.direct = direct;
        let images = folder.join("images");
        std::fs::create_dir(&images).expect("a new folder");
        let config = DaemonConfig {
            devices: vec![device],
            listen: vec![Listen::Unix(folder.join("disk.sock"))],
            fuse: Some(images),
            io_engine: if uring { IoEngineChoice::Auto } else { IoEngineChoice::Threads },
            ..DaemonConfig::default()
        };
        (below.to_owned(), config)
    })
}

/// The image below.
pub(super) fn image(bench: &Bench) -> io::Result<NodeId> {
    let found = bench.tree.lock().find(Path::new(IMAGE));
    found.ok_or_else(|| io::ErrorKind::NotFound.into())
}

impl fmt::Display for DiskAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cache = |direct: &bool| if *direct { "direct" } else { "buffered" };
        match self {
            DiskAccess::Nbd { direct, uring } => {
                write!(f, "NBD, {}, {}", cache(direct), if *uring { "io_uring" } else { "threads" })
            }
            DiskAccess::Mount { over, direct } => write!(f, "mounted {over:?}, {}", cache(direct)),
            DiskAccess::Mapped(over) => write!(f, "mounted {over:?}, mapped"),
            DiskAccess::Image => f.write_str("export as a file"),
            DiskAccess::Loop { direct } => write!(f, "loop device, {}", cache(direct)),
        }
    }
}
