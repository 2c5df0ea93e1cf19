//! Counted as a socket counts: what is said to be sent is gone, and nothing is received twice.

use super::*;
use rcgen::{CertificateParams, KeyPair};
use rustix::net::sockopt::set_socket_send_buffer_size;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;

/// Both ends of an encrypted connection: what is tested, its socket, and a client.
struct Pair {
    encryption: Encryption,
    ours: UnixStream,
    client: ClientConnection,
    theirs: UnixStream,
}

fn pair() -> Pair {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    let certificate = params.self_signed(&key).expect("signed").der().clone();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).expect("a root");
    let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
    let server = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("a pair");
    let (mut ours, mut theirs) = UnixStream::pair().expect("sockets");
    let name = ServerName::try_from("localhost").expect("a name");
    let mut client = ClientConnection::new(Arc::new(client), name).expect("a client");
    let mut server = ServerConnection::new(Arc::new(server)).expect("a server");
    thread::scope(|scope| {
        scope.spawn(|| client.complete_io(&mut theirs).expect("shakes hands"));
        server.complete_io(&mut ours).expect("shakes hands");
    });
    Pair { encryption: Encryption::new(server), ours, client, theirs }
}

impl Pair {
    fn recv(&self, space: &mut [u8]) -> Result<usize, Errno> {
        self.encryption.recv(self.ours.as_fd(), space, RecvFlags::DONTWAIT)
    }

    /// The client sends that, and its encrypted bytes come in pieces of at most `piece`; what was
    /// received meanwhile.
    fn say(&mut self, bytes: &[u8], piece: usize, space: usize) -> Vec<u8> {
        self.client.writer().write_all(bytes).expect("room");
        let mut cipher = Vec::new();
        while self.client.wants_write() {
            self.client.write_tls(&mut cipher).expect("written");
        }
        let (mut heard, mut space) = (Vec::new(), vec![0; space]);
        for piece in cipher.chunks(piece) {
            self.theirs.write_all(piece).expect("sent");
            loop {
                match self.recv(&mut space) {
                    Ok(count) => heard.extend_from_slice(&space[..count]),
                    Err(Errno::INTR) => {}
                    Err(error) => break assert_eq!(error, Errno::AGAIN),
                }
            }
        }
        heard
    }

    /// The client reads what has come.
    fn hear(&mut self, into: &mut Vec<u8>) {
        self.theirs.set_nonblocking(true).expect("set");
        while self.client.read_tls(&mut self.theirs).is_ok_and(|count| count > 0) {
            self.client.process_new_packets().expect("encrypted by us");
            // An error says that no more has come.
            let _ = self.client.reader().read_to_end(into);
        }
    }
}

#[test]
fn what_is_said_to_be_sent_is_gone() {
    for len in [1, 100, 16_384, 65_537, 1 << 20] {
        let mut pair = pair();
        set_socket_send_buffer_size(&pair.ours, 4096).expect("set");
        let data: Vec<u8> = (0..len).map(|at: u32| (at ^ (at >> 8)) as u8).collect();
        let (mut sent, mut heard, mut waits) = (0, Vec::new(), 0);
        while sent < data.len() {
            let rest = &data[sent..];
            let pieces =
                [IoSlice::new(&rest[..rest.len() / 3]), IoSlice::new(&rest[rest.len() / 3..])];
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match pair.encryption.send(pair.ours.as_fd(), &pieces, flags) {
                Ok(count) => {
                    assert!(count > 0 && count <= rest.len());
                    sent += count;
                }
                Err(error) => {
                    assert_eq!(error, Errno::AGAIN);
                    waits += 1;
                    pair.hear(&mut heard);
                }
            }
        }
        pair.hear(&mut heard);
        assert!(heard == data, "{} of {len} bytes came", heard.len());
        assert!(len < 1 << 20 || waits > 0, "the socket was never full");
    }
}

#[test]
fn bytes_are_received_once_however_they_come() {
    for (piece, space) in [(1, 10), (100, 1), (5000, 64), (usize::MAX, 100_000)] {
        let mut pair = pair();
        for len in [1usize, 40, 3000, 20_000] {
            let data: Vec<u8> = (0..len).map(|at| at as u8).collect();
            let heard = pair.say(&data, piece, space);
            assert!(heard == data, "{len} bytes in pieces of {piece} into {space}");
        }
    }
}

#[test]
fn the_end_is_zero_bytes_and_nonsense_an_error() {
    let mut pair = pair();
    let mut space = [0; 16];
    assert_eq!(pair.recv(&mut space), Err(Errno::AGAIN));
    pair.client.send_close_notify();
    pair.client.write_tls(&mut pair.theirs).expect("sent");
    assert_eq!(pair.recv(&mut space), Ok(0));

    let pair = self::pair();
    pair.theirs.shutdown(std::net::Shutdown::Write).expect("open");
    let end = pair.encryption.recv(pair.ours.as_fd(), &mut space, RecvFlags::DONTWAIT);
    assert_eq!(end, Ok(0), "the client is gone");

    let mut pair = self::pair();
    pair.theirs.write_all(&[0x25; 100]).expect("sent");
    assert_eq!(pair.recv(&mut space), Err(Errno::PROTO));
}

#[test]
fn the_client_is_told_the_end() {
    let mut pair = pair();
    pair.encryption.say_end(pair.ours.as_fd());
    pair.client.read_tls(&mut pair.theirs).expect("something");
    let state = pair.client.process_new_packets().expect("encrypted by us");
    assert!(state.peer_has_closed());
    let late = [IoSlice::new(b"late")];
    let sent = pair.encryption.send(pair.ours.as_fd(), &late, SendFlags::NOSIGNAL);
    assert_eq!(sent, Err(Errno::PIPE), "nothing is sent after the end");
}
