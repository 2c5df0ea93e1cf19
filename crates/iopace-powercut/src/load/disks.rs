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
pub enum Way {
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

impl Way {
    /// All of them.
    pub const ALL: [Way; 12] = [
        Way::Nbd { direct: false, uring: true },
        Way::Nbd { direct: true, uring: true },
        Way::Nbd { direct: false, uring: false },
        Way::Nbd { direct: true, uring: false },
        Way::Mount { over: Over::Elsewhere, direct: false },
        Way::Mount { over: Over::Elsewhere, direct: true },
        Way::Mount { over: Over::Itself, direct: false },
        Way::Mapped(Over::Elsewhere),
        Way::Mapped(Over::Itself),
        Way::Image,
        Way::Loop { direct: false },
        Way::Loop { direct: true },
    ];

    pub(super) fn is_nbd(self) -> bool {
        matches!(self, Way::Nbd { .. })
    }

    pub(super) fn is_mapped(self) -> bool {
        matches!(self, Way::Mapped(_))
    }

    pub(super) fn is_block(self) -> bool {
        matches!(self, Way::Loop { .. })
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
            Way::Mount { over, .. } | Way::Mapped(over) => Bench::mounted_with(&tree, over),
            Way::Nbd { direct, uring } => served(&tree, direct, uring),
            Way::Image => served(&tree, false, true),
            Way::Loop { .. } => {
                let mut bench = served(&tree, false, true)?;
                bench.attach()?;
                Ok(bench)
            }
        }
    }

    /// A client.
    pub(super) fn open(self, bench: &Bench) -> io::Result<Box<dyn Disk>> {
        match self {
            Way::Nbd { .. } => {
                let stream = UnixStream::connect(bench.folder().join("disk.sock"))?;
                let wanted = Wanted { structured: true, ..Wanted::default() };
                Ok(Box::new(Client::connect(stream, "disk", wanted)?))
            }
            Way::Mount { direct, .. } => Ok(Box::new(file(&bench.at.join(IMAGE), direct)?)),
            Way::Mapped(_) => Ok(Box::new(Mapped::new(&file(&bench.at.join(IMAGE), false)?)?)),
            Way::Image => Ok(Box::new(file(&bench.folder().join("images/disk"), false)?)),
            Way::Loop { direct } => Ok(Box::new(Block::new(file(&bench.at, direct)?))),
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

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cache = |direct: &bool| if *direct { "direct" } else { "buffered" };
        match self {
            Way::Nbd { direct, uring } => {
                write!(f, "NBD, {}, {}", cache(direct), if *uring { "io_uring" } else { "threads" })
            }
            Way::Mount { over, direct } => write!(f, "mounted {over:?}, {}", cache(direct)),
            Way::Mapped(over) => write!(f, "mounted {over:?}, mapped"),
            Way::Image => f.write_str("export as a file"),
            Way::Loop { direct } => write!(f, "loop device, {}", cache(direct)),
        }
    }
}
