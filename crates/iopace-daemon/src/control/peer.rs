//! The user that a connection belongs to.
//!
//! Of a Unix socket the kernel says it (`SO_PEERCRED`). Of a TCP connection on this machine the
//! other end is a socket of this machine too, and the kernel is asked for that one's owner by its
//! addresses (sock_diag(7), as `ss` does): one question of some microseconds, however many sockets
//! there are.

use rustix::net::netlink::SOCK_DIAG;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

/// `SOCK_DIAG_BY_FAMILY` of linux/sock_diag.h.
const BY_FAMILY: u16 = 20;

/// `NLM_F_REQUEST` of linux/netlink.h.
const REQUEST: u16 = 1;

/// `TCP_ESTABLISHED` of the kernel's states.
const ESTABLISHED: u8 = 1;

/// Length of a `struct nlmsghdr`.
const HEAD_BYTES: usize = 16;

/// Length of the question: `struct nlmsghdr` and `struct inet_diag_req_v2`.
const QUESTION_BYTES: usize = HEAD_BYTES + 56;

/// Where in the answer, a `struct inet_diag_msg` after its head, the owner is.
const UID_AT: usize = HEAD_BYTES + 64;

/// Asks the kernel who owns the other ends of connections.
#[derive(Debug)]
pub(super) struct Owners(OwnedFd);

impl Owners {
    /// Asks for the listening socket first: `None` if the kernel has no `sock_diag`, or not for
    /// TCP, so that nothing is known of anybody.
    pub(super) fn new(listening: SocketAddr) -> Option<Owners> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let opened = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(SOCK_DIAG));
        let owners = Owners(opened.ok()?);
        let nobody: IpAddr = match listening {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        owners.ask(listening, (nobody, 0).into())?;
        Some(owners)
    }

    /// The user whose socket is at `peer`, connected to `own`; `None` if that cannot be told, also
    /// because it is closed already: the kernel shows such sockets as root's.
    pub(super) fn of(&self, peer: SocketAddr, own: SocketAddr) -> Option<u32> {
        let (state, uid) = self.ask(peer, own)?;
        (state == ESTABLISHED).then_some(uid)
    }

    /// The state and the owner of the socket at `at` that is connected to `to`.
    fn ask(&self, at: SocketAddr, to: SocketAddr) -> Option<(u8, u32)> {
        let asked = &self.0;
        let mut answer = [0; 512];
        // An answer to an earlier question is not the answer to this one.
        while recv(asked, &mut answer[..], RecvFlags::DONTWAIT).is_ok() {}
        send(asked, &question(at, to), SendFlags::DONTWAIT).ok()?;
        // The kernel answers before it returns from the question.
        let (len, _) = recv(asked, &mut answer[..], RecvFlags::DONTWAIT).ok()?;
        read(answer.get(..len)?)
    }
}

fn question(peer: SocketAddr, own: SocketAddr) -> [u8; QUESTION_BYTES] {
    let mut bytes = [0; QUESTION_BYTES];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, &(QUESTION_BYTES as u32).to_ne_bytes());
    put(4, &BY_FAMILY.to_ne_bytes());
    put(6, &REQUEST.to_ne_bytes());
    let at = HEAD_BYTES;
    let family = if peer.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    put(at, &[family as u8, libc::IPPROTO_TCP as u8]);
    // All states; then `struct inet_diag_sockid`: the socket as its owner sees it.
    put(at + 4, &u32::MAX.to_ne_bytes());
    put(at + 8, &peer.port().to_be_bytes());
    put(at + 10, &own.port().to_be_bytes());
    for (at, address) in [(at + 12, peer.ip()), (at + 28, own.ip())] {
        match address {
            IpAddr::V4(address) => put(at, &address.octets()),
            IpAddr::V6(address) => put(at, &address.octets()),
        }
    }
    // `INET_DIAG_NOCOOKIE`.
    put(at + 48, &[0xff; 8]);
    bytes
}

fn read(answer: &[u8]) -> Option<(u8, u32)> {
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    let state = *answer.get(HEAD_BYTES + 1)?;
    let uid = u32::from_ne_bytes(answer.get(UID_AT..UID_AT + 4)?.try_into().ok()?);
    (kind == BY_FAMILY).then_some((state, uid))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::geteuid;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn the_owner_of_the_other_end_is_told() {
        for any in ["127.0.0.1:0", "[::1]:0"] {
            // A machine may be without IPv6.
            let Ok(listener) = TcpListener::bind(any) else { continue };
            let own = listener.local_addr().expect("bound");
            let connected = TcpStream::connect(own).expect("connected");
            let (accepted, peer) = listener.accept().expect("accepted");
            let Some(owners) = Owners::new(own) else {
                return eprintln!("skipped: this kernel has no sock_diag");
            };
            assert_eq!(owners.of(peer, own), Some(geteuid().as_raw()));
            drop(connected);
            assert_eq!(owners.of(peer, own), None, "closed: it could be anybody's");
            drop(accepted);
        }
    }
}
