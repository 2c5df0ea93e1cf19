//! Why a daemon does not start.

use crate::mount_error::MountError;
use crate::nbd_uri::{NbdPlace, NbdUri};
use crate::printable::quoted;
use crate::process::lock_holders;
use crate::tls::TlsError;
use iopace_core::sched;
use iopace_groups::tree::TreeError;
use std::io;
use std::path::Path;

/// Why a daemon did not start: what was asked, what is wrong, what would be right.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Another daemon has the control socket.
    #[error(
        "{0}: a daemon is controlled there already{1}; stop it, choose another --control, or say \
         --no-control"
    )]
    ControlBusy(String, String),
    /// Nothing to serve.
    #[error("there is nothing to serve: name a file, or a model with --emulate")]
    NoDevice,
    /// A file that does not exist.
    #[error("{0}: there is no such file; make one with 'truncate -s 1G {0}'")]
    Missing(String),
    /// A file that is in use.
    #[error(
        "{0}: another process serves it already{1}; stop that one, or open it read-only in both"
    )]
    Locked(String, String),
    /// An image that is more than the bytes of a disk.
    #[error(
        "{path}: is an image in the format {format}, and would be served as the bytes that it is, \
         not as the disk in it. Make a plain one ('qemu-img convert -O raw {word} disk.img'), or \
         let QEMU have the image behind iopace ('iopace mount' of its directory). If these bytes \
         are the disk: --raw (raw = true)"
    )]
    Format {
        /// The file.
        path: String,
        /// The same as a word for a shell.
        word: String,
        /// Its format.
        format: &'static str,
    },
    /// A file or block device that somebody else writes.
    #[error("{0}: {1}")]
    InUse(String, io::Error),
    /// The end of an image past the page cache.
    #[error(
        "{0}: its last {1} bytes cannot be reached past the page cache, in blocks of 4096: leave \
         out --direct, or make it longer with 'truncate -s %4096 {0}'"
    )]
    Tail(String, u64),
    /// A file that cannot be opened.
    #[error("{path}: cannot be opened: {error}{hint}")]
    Open {
        /// The file.
        path: String,
        /// What the system said.
        error: io::Error,
        /// What to do.
        hint: &'static str,
    },
    /// Another server that has no disk for us.
    #[error("{0}: cannot be opened: {1}{2}")]
    Remote(String, io::Error, &'static str),
    /// An export of another server that takes no writes.
    #[error("{0}: the server takes no writes of this export: say --read-only (read-only = true)")]
    RemoteReadOnly(String),
    /// A socket that a live server holds.
    #[error("{0}: a server is listening there already{1}; stop it, or choose another --socket")]
    SocketBusy(String, String),
    /// A path that is something else.
    #[error("{0}: exists and is not a socket; choose another path")]
    NotASocket(String),
    /// A socket that others cannot be let in to.
    #[error("{0}: its mode and group cannot be set: {1}; you have to be in that group, or root")]
    SocketAccess(String, io::Error),
    /// An address that cannot be bound.
    #[error("{0}: cannot listen there: {1}{2}")]
    Bind(String, io::Error, &'static str),
    /// Two devices of one name.
    #[error("two devices are named '{0}': give one of them another name")]
    TwoDevices(String),
    /// Two exports of one name.
    #[error("two exports are named '{0}': give one of them another name")]
    TwoExports(String),
    /// An export of an unknown device.
    #[error("export '{export}' names device '{device}', which is not configured")]
    NoSuchDevice {
        /// The export.
        export: String,
        /// The device it names.
        device: String,
    },
    /// A scheduler that does not exist.
    #[error("there is no scheduler '{0}'; there are: {all}", all = all_schedulers())]
    NoScheduler(String),
    /// A model that does not exist.
    #[error("there is no disk model '{0}'; there are: {1}")]
    NoModel(String, String),
    /// A model file that cannot be read, or is wrong.
    #[error("{0}")]
    ModelFile(String),
    /// A group or its settings.
    #[error("group {0}")]
    Group(String),
    /// An export of a group that there is not.
    #[error("export '{export}' is to pay as its group: {error}")]
    ExportGroup {
        /// The export.
        export: String,
        /// Which groups there are.
        error: TreeError,
    },
    /// A setting that is not legal.
    #[error("{0}")]
    Setting(String),
    /// io_uring was demanded.
    #[error("io_uring is not allowed here ({0}): use --io-engine threads, or auto")]
    IoEngine(io::Error),
    /// A directory that cannot be mounted.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// Certificates that cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The system gives no threads.
    #[error("the system gives no threads or descriptors: {0}")]
    Threads(io::Error),
}

impl StartError {
    /// A file that could not be opened.
    pub(crate) fn open(path: &Path, error: &io::Error) -> StartError {
        let shown = path.display().to_string();
        let hint = match error.kind() {
            io::ErrorKind::NotFound => return StartError::Missing(shown),
            io::ErrorKind::WouldBlock => {
                let holders = rustix::fs::stat(path).map(|file| lock_holders(&file));
                let holder = holders.ok().and_then(|pids| pids.first().copied());
                return StartError::Locked(shown, by(holder));
            }
            io::ErrorKind::ResourceBusy => {
                return StartError::InUse(shown, io::Error::other(error.to_string()));
            }
            io::ErrorKind::PermissionDenied if is_forbidden_to_all(error) => FORBIDDEN_TO_ALL,
            io::ErrorKind::PermissionDenied => "; check its owner and mode, or use --read-only",
            io::ErrorKind::ReadOnlyFilesystem => "; use --read-only",
            io::ErrorKind::IsADirectory => "; it is a directory: name an image file in it",
            io::ErrorKind::InvalidInput => "; if its file system knows no --direct, leave that out",
            _ => "",
        };
        let error = io::Error::new(error.kind(), error.to_string());
        StartError::Open { path: shown, error, hint }
    }

    /// An export of another server that could not be opened.
    pub(crate) fn remote(uri: &NbdUri, error: &io::Error) -> StartError {
        let hint = match error.kind() {
            io::ErrorKind::ConnectionRefused => "; nobody listens there: start its server first",
            io::ErrorKind::NotFound if matches!(uri.place, NbdPlace::Unix(_)) => {
                "; is it the socket, and the name of the export ('nbdinfo --list')?"
            }
            io::ErrorKind::NotFound => "; 'nbdinfo --list nbd://HOST' names its exports",
            io::ErrorKind::TimedOut => "; does a firewall keep it away?",
            _ => "",
        };
        StartError::Remote(uri.to_string(), io::Error::new(error.kind(), error.to_string()), hint)
    }

    /// The same of a file that is opened to be read only.
    pub(crate) fn open_to_read(path: &Path, error: &io::Error) -> StartError {
        match StartError::open(path, error) {
            StartError::Open { path, error, hint }
                if error.kind() == io::ErrorKind::PermissionDenied && hint != FORBIDDEN_TO_ALL =>
            {
                let hint = "; it may be read by its owner and group only: be one of them, or root";
                StartError::Open { path, error, hint }
            }
            other => other,
        }
    }

    /// Refuses an image that is more than the bytes of a disk, unless it is to be served so.
    ///
    /// # Errors
    /// [`StartError::Format`].
    pub(crate) fn refuse_format(
        path: &Path,
        format: Option<&'static str>,
        raw: bool,
    ) -> Result<(), StartError> {
        let Some(format) = format.filter(|_| !raw) else { return Ok(()) };
        let path = path.display().to_string();
        Err(StartError::Format { word: quoted(&path), path, format })
    }

    /// An address that could not be bound.
    pub(crate) fn bind(address: &str, error: &io::Error) -> StartError {
        let hint = match error.kind() {
            io::ErrorKind::AddrInUse => "; another program listens there",
            io::ErrorKind::NotFound => "; its directory does not exist",
            io::ErrorKind::PermissionDenied => "; choose a place that you may write to",
            io::ErrorKind::InvalidInput => "; a socket's path has at most 107 bytes",
            _ => "",
        };
        let error = io::Error::new(error.kind(), error.to_string());
        StartError::Bind(address.to_owned(), error, hint)
    }
}

/// The hint where neither the owner nor root may open a file.
const FORBIDDEN_TO_ALL: &str = "; owner and mode do not matter here: the container may not use \
                                that device ('devices' of its cgroup), or the file is immutable \
                                ('lsattr')";

/// Whether opening failed for a reason that is not owner and mode: those are `EACCES`.
fn is_forbidden_to_all(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::PERM.raw_os_error())
}

/// The process that has what is wanted, if it is known.
pub(crate) fn by(pid: Option<impl std::fmt::Display>) -> String {
    pid.map_or(String::new(), |pid| format!(" (pid {pid})"))
}

fn all_schedulers() -> String {
    let names: Vec<&str> = sched::all().iter().map(|algorithm| algorithm.name).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn a_device_that_is_forbidden_to_root_is_not_blamed_on_its_mode() {
        let path = Path::new("/dev/vda");
        for open in [StartError::open, StartError::open_to_read] {
            let forbidden = open(path, &Errno::PERM.into()).to_string();
            assert!(forbidden.contains("the container may not use that device"), "{forbidden}");
            let denied = open(path, &Errno::ACCESS.into()).to_string();
            assert!(denied.contains("owner and"), "{denied}");
            assert!(!denied.contains("container"), "{denied}");
        }
    }
}
