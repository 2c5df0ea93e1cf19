//! A client that encrypts.

use crate::certificates::{Authority, Signed};
use iopace_nbd::client::{Client, Wanted};
use iopace_nbd::wire;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// A connection whose greeting and flags were exchanged before it was encrypted: both are played to
/// a client that begins with them.
pub struct Encrypted {
    tls: StreamOwned<ClientConnection, UnixStream>,
    greeting: &'static [u8],
    flags_left: usize,
}

impl Read for Encrypted {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        match self.greeting.is_empty() {
            true => self.tls.read(space),
            false => self.greeting.read(space),
        }
    }
}

impl Write for Encrypted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.flags_left.min(bytes.len());
        self.flags_left -= count;
        if count > 0 { Ok(count) } else { self.tls.write(bytes) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.tls.flush()
    }
}

/// An option as a client sends it.
pub fn option(option: u32, data: &[u8]) -> Vec<u8> {
    let len = (data.len() as u32).to_be_bytes();
    [b"IHAVEOPT".as_slice(), &option.to_be_bytes(), &len, data].concat()
}

/// The kind of the server's next reply to an option, and its data.
pub fn reply(stream: &mut impl Read) -> io::Result<(u32, Vec<u8>)> {
    let mut head = [0; 20];
    stream.read_exact(&mut head)?;
    let number = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("four bytes"));
    let mut data = vec![0; number(16) as usize];
    stream.read_exact(&mut data)?;
    Ok((number(12), data))
}

/// The greeting is read and the client's flags are sent.
pub fn greeted(mut stream: UnixStream) -> io::Result<UnixStream> {
    stream.set_read_timeout(Some(crate::support::HANG))?;
    stream.read_exact(&mut [0; 18])?;
    stream.write_all(&3u32.to_be_bytes())?;
    Ok(stream)
}

/// Encrypts a connection past its flags, as a client of the authority that shows `own`.
pub fn encrypt(
    mut stream: UnixStream,
    authority: &Authority,
    own: Option<&Signed>,
) -> io::Result<Encrypted> {
    stream.write_all(&option(wire::OPT_STARTTLS, &[]))?;
    let (kind, text) = reply(&mut stream)?;
    if kind != wire::REP_ACK {
        return Err(io::Error::other(String::from_utf8_lossy(&text).into_owned()));
    }
    let mut roots = RootCertStore::empty();
    let trusted = CertificateDer::from_pem_slice(authority.pem().as_bytes()).expect("PEM");
    roots.add(trusted).expect("an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots);
    let config = match own {
        None => config.with_no_client_auth(),
        Some(own) => {
            let chain = CertificateDer::from_pem_slice(own.certificate.as_bytes()).expect("PEM");
            let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).expect("PEM");
            config.with_client_auth_cert(vec![chain], key).expect("a pair")
        }
    };
    let name = ServerName::try_from("localhost").expect("a name");
    let tls = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    let tls = StreamOwned::new(tls, stream);
    Ok(Encrypted { tls, greeting: b"NBDMAGICIHAVEOPT\0\x03", flags_left: 4 })
}

/// A client with an export open.
pub fn open(
    stream: UnixStream,
    authority: &Authority,
    own: Option<&Signed>,
    export: &str,
) -> io::Result<Client<Encrypted>> {
    let encrypted = encrypt(greeted(stream)?, authority, own)?;
    let wanted = Wanted { structured: true, ..Wanted::default() };
    Client::connect(encrypted, export, wanted).map_err(io::Error::other)
}
