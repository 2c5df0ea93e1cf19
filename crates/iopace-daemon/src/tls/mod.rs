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
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::path::PathBuf;
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

#[cfg(test)]
mod tests;
