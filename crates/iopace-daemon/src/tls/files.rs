//! The files of certificates and keys.
//!
//! Whoever can write to one of them decides who the server is or who is let in, and whoever can
//! read the key can be the server. So the directory and the files must belong to root or to the
//! daemon's user, only these may write to them, and the key may be read by nobody else but its
//! group. Symbolic links are followed, as certificates are often kept elsewhere and renewed there.

use crate::runtime_files::{Distrust, RuntimeDir};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The certificate of the server, then those between it and the authority.
pub(super) const CERTIFICATE: &str = "server-cert.pem";

/// Its key.
pub(super) const KEY: &str = "server-key.pem";

/// The authority that signs clients.
pub(super) const CA: &str = "ca-cert.pem";

/// The list of those that it has revoked.
pub(super) const REVOKED: &str = "ca-crl.pem";

/// Longest file: a list of ten thousand revoked certificates has half a megabyte.
const BYTES_MAX: u64 = 8 << 20;

/// Bits of a mode that let others than owner and group read or write.
const EVERYBODY: u32 = 0o006;

/// Bits of a mode that let others than the owner write.
const WRITABLE: u32 = 0o022;

/// Why there can be no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The directory.
    #[error("--tls-certificates: {0}")]
    Directory(Distrust),
    /// A file that cannot be read.
    #[error("{path}: cannot be read: {error}{hint}", path = .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
        /// What to do.
        hint: &'static str,
    },
    /// A file of somebody else.
    #[error(
        "{path}: belongs to the user {1}, who is neither root nor the daemon's own: say 'chown \
         root {path}'", path = .0.display()
    )]
    Foreign(PathBuf, u32),
    /// A file that others may change.
    #[error(
        "{path}: others can write to it (mode {1:04o}), and it says whom to trust: say 'chmod \
         go-w {path}'", path = .0.display()
    )]
    Writable(PathBuf, u32),
    /// A key that everybody may read.
    #[error(
        "{path}: everybody on this machine can read the key (mode {1:04o}): say 'chmod 0600 \
         {path}', and make a new key if others may have read it", path = .0.display()
    )]
    Exposed(PathBuf, u32),
    /// A password that everybody may read.
    #[error(
        "{path}: everybody on this machine can read the password (mode {1:04o}): say 'chmod 0600 \
         {path}', and change the password if others may have read it", path = .0.display()
    )]
    ExposedSecret(PathBuf, u32),
    /// No password.
    #[error("{path}: its first line is empty, and is to be the password", path = .0.display())]
    EmptySecret(PathBuf),
    /// Nothing of what is needed.
    #[error("{path}: there is no {1} in it: it has to be PEM, with a line '-----BEGIN {2}-----'",
        path = .0.display())]
    Empty(PathBuf, &'static str, &'static str),
    /// Not what it says that it is.
    #[error("{path}: {1}: make the file again", path = .0.display())]
    Malformed(PathBuf, pem::Error),
    /// Certificate and key of different servers.
    #[error(
        "{0}/server-cert.pem and server-key.pem do not belong together: put the key there with \
         which the certificate was asked for"
    )]
    Pair(String),
    /// Anything else that is wrong with a certificate.
    #[error("{path}: {1}", path = .0.display())]
    Refused(PathBuf, rustls::Error),
    /// An authority that cannot be used.
    #[error("{path}: cannot be used to check clients: {1}", path = .0.display())]
    Authority(PathBuf, String),
}

impl TlsError {
    /// A certificate and a key that were not taken.
    pub(super) fn of_pair(directory: &Path, error: rustls::Error) -> TlsError {
        match error {
            rustls::Error::InconsistentKeys(_) => TlsError::Pair(directory.display().to_string()),
            error => TlsError::Refused(directory.join(CERTIFICATE), error),
        }
    }
}

/// Whether nobody else can put certificates there.
pub(super) fn check_directory(directory: &Path) -> Result<(), TlsError> {
    RuntimeDir::open(directory).map(drop).map_err(TlsError::Directory)
}

/// The certificates of a file, at least one.
pub(super) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all = sections(path, &read(path, WRITABLE)?)?;
    match all.is_empty() {
        true => Err(TlsError::Empty(path.to_owned(), "certificate", "CERTIFICATE")),
        false => Ok(all),
    }
}

/// The key of a file.
pub(super) fn key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let text = read(path, WRITABLE | EVERYBODY)?;
    let first = sections(path, &text)?.into_iter().next();
    first.ok_or_else(|| TlsError::Empty(path.to_owned(), "private key", "PRIVATE KEY"))
}

/// The text of the key of a file, which is one.
pub(super) fn key_text(path: &Path) -> Result<Vec<u8>, TlsError> {
    key(path)?;
    read(path, WRITABLE | EVERYBODY)
}

/// The first line of a file that nobody else can read.
pub(super) fn secret(path: &Path) -> Result<String, TlsError> {
    let text = read(path, WRITABLE | EVERYBODY).map_err(|error| match error {
        TlsError::Exposed(path, mode) => TlsError::ExposedSecret(path, mode),
        TlsError::Read { path, error, .. } if error.kind() == io::ErrorKind::NotFound => {
            let hint = "; its first line is to be the password, with mode 0600";
            TlsError::Read { path, error, hint }
        }
        other => other,
    })?;
    let text = String::from_utf8_lossy(&text);
    match text.lines().next().unwrap_or_default() {
        "" => Err(TlsError::EmptySecret(path.to_owned())),
        secret => Ok(secret.to_owned()),
    }
}

/// The lists of revoked certificates of a file; none if there is no file.
pub(super) fn revoked(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    match read(path, WRITABLE) {
        Err(TlsError::Read { error, .. }) if error.kind() == io::ErrorKind::NotFound => {
            Ok(Vec::new())
        }
        text => {
            let all = sections(path, &text?)?;
            match all.is_empty() {
                true => Err(TlsError::Empty(path.to_owned(), "list", "X509 CRL")),
                false => Ok(all),
            }
        }
    }
}

fn sections<T: PemObject>(path: &Path, text: &[u8]) -> Result<Vec<T>, TlsError> {
    let all: Result<Vec<T>, pem::Error> = T::pem_slice_iter(text).collect();
    all.map_err(|error| TlsError::Malformed(path.to_owned(), error))
}

/// Reads a file to which others have no access of the kinds `forbidden`, without waiting for a FIFO
/// or a lease.
fn read(path: &Path, forbidden: u32) -> Result<Vec<u8>, TlsError> {
    let failed = |error: io::Error| {
        let hint = match error.kind() {
            io::ErrorKind::NotFound => "; docs/serving.md, \"TLS\", says how to make it",
            io::ErrorKind::PermissionDenied => "; the daemon's user must be able to read it",
            _ => "",
        };
        TlsError::Read { path: path.to_owned(), error, hint }
    };
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = open(path, flags, Mode::empty()).map_err(|error| failed(error.into()))?;
    let file = File::from(file);
    let found = fstat(&file).map_err(|error| failed(error.into()))?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err(failed(io::Error::other("it is not a regular file")));
    }
    let own = rustix::process::geteuid();
    if found.st_uid != 0 && found.st_uid != own.as_raw() {
        return Err(TlsError::Foreign(path.to_owned(), found.st_uid));
    }
    let (mode, shown) = (found.st_mode & forbidden, found.st_mode & 0o7777);
    if mode & WRITABLE != 0 {
        return Err(TlsError::Writable(path.to_owned(), shown));
    }
    if mode & EVERYBODY != 0 {
        return Err(TlsError::Exposed(path.to_owned(), shown));
    }
    let mut text = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut text).map_err(failed)?;
    if text.len() as u64 > BYTES_MAX {
        return Err(failed(io::Error::other(format!("it is longer than {BYTES_MAX} bytes"))));
    }
    Ok(text)
}
