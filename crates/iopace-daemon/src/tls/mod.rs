//! TLS for NBD clients: the certificates of the server, and which clients are let in.
//!
//! The files have the names that QEMU and nbdkit use, in one directory: `server-cert.pem` (with the
//! certificates of intermediate authorities behind it), `server-key.pem`, and where clients have to
//! show certificates too, `ca-cert.pem` and, if it is there, `ca-crl.pem`.

mod files;
mod name;

pub use files::TlsError;
pub use iopace_nbd::TlsMode;
pub(crate) use name::common_name;

use files::{CA, CERTIFICATE, KEY, REVOKED};
use rustls::pki_types::CertificateDer;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How NBD clients may, or must, encrypt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// Whether they may, or must.
    pub mode: TlsMode,
    /// The directory with the certificates; needed unless the mode is [`TlsMode::Off`].
    pub certificates: PathBuf,
    /// Whether clients must show a certificate that `ca-cert.pem` has signed.
    pub verify_peer: bool,
    /// Whether TCP addresses may be reached by other machines though clients need not encrypt.
    /// Whoever makes a configuration checks that; nothing else depends on it.
    pub tcp_without_tls: bool,
}

impl TlsSettings {
    /// Reads the certificates; `None` if there is to be no encryption.
    ///
    /// # Errors
    /// The file with what is wrong and what to do.
    pub(crate) fn load(&self) -> Result<Option<Arc<ServerConfig>>, TlsError> {
        if self.mode == TlsMode::Off {
            return Ok(None);
        }
        let directory = &*self.certificates;
        files::check_directory(directory)?;
        let chain = files::certificates(&directory.join(CERTIFICATE))?;
        let key = files::key(&directory.join(KEY))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::Refused(directory.to_owned(), error))?;
        let builder = match self.verify_peer {
            true => builder.with_client_cert_verifier(self.verifier()?),
            false => builder.with_no_client_auth(),
        };
        let mut config = builder
            .with_single_cert(chain, key)
            .map_err(|error| TlsError::of_pair(directory, error))?;
        // NBD clients connect once and stay: nobody resumes a session.
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        Ok(Some(Arc::new(config)))
    }

    /// Lets those clients in that the authority has signed and not revoked.
    fn verifier(&self) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
        let path = self.certificates.join(CA);
        let mut roots = RootCertStore::empty();
        for certificate in files::certificates(&path)? {
            roots.add(certificate).map_err(|error| TlsError::Refused(path.clone(), error))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        // Authorities that have no list have revoked nothing.
        let revoked = files::revoked(&self.certificates.join(REVOKED))?;
        builder
            .with_crls(revoked)
            .allow_unknown_revocation_status()
            .build()
            .map_err(|error| TlsError::Authority(path, error.to_string()))
    }
}

/// Certificates of a connection that the daemon makes itself, read and checked.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientFiles {
    /// Those that sign the server's.
    pub authorities: Vec<CertificateDer<'static>>,
    /// Its own chain, and the key of it as PEM.
    pub own: Option<(Vec<CertificateDer<'static>>, Vec<u8>)>,
}

impl fmt::Debug for ClientFiles {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientFiles").finish_non_exhaustive()
    }
}

impl ClientFiles {
    /// Reads the certificates of authorities, and its own with the key, if it has one.
    ///
    /// # Errors
    /// The file with what is wrong and what to do.
    pub fn load(authorities: &Path, own: Option<(&Path, &Path)>) -> Result<ClientFiles, TlsError> {
        let pair =
            |(chain, key): (&Path, &Path)| Ok((files::certificates(chain)?, files::key_text(key)?));
        Ok(ClientFiles {
            authorities: files::certificates(authorities)?,
            own: own.map(pair).transpose()?,
        })
    }
}

/// A secret of one line in a file that nobody else can read.
///
/// # Errors
/// The file with what is wrong and what to do.
pub fn read_secret(path: &Path) -> Result<String, TlsError> {
    files::secret(path)
}

#[cfg(test)]
mod tests;
