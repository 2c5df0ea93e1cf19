//! Replies to requests that came together leave together. A packet of a `SOCK_SEQPACKET` socket is
//! what one system call sent or receives, so these are counted. All packets of the client are there
//! before its session begins, so no test depends on time.

use super::super::clients::{ClientPolicy, Clients};
use super::*;
use crate::config::{Backend, DeviceConfig, ExportConfig};
use crate::device::emulated::EmulatedDevice;
use crate::exports::ExportTable;
use crate::groups::Groups;
use crate::memory::Memory;
use crate::timer::Timers;
use iopace_nbd::client::encode_request;
use iopace_nbd::wire;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, recv, send, shutdown,
    socketpair,
};

const SIZE: u64 = 1 << 20;

/// An error without a message.
const REPLY_LEN: usize = 16;

/// The packets of a session with a client that sent these, one after the other.
fn packets_to(client_packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let timers = Timers::start().expect("a thread");
    let (model, size) = ("null".to_owned(), Some(Bytes(SIZE)));
    let config =
        DeviceConfig::new("disk", Backend::Emulated { model, store: None, size, cache: None });
    let device: Arc<dyn Device> = EmulatedDevice::open(&config, &timers).expect("opens");
    let export = ExportConfig::new("disk", "disk");
    let groups = Groups::start(&[], std::slice::from_ref(&export), vec![Arc::clone(&device)]);
    let groups = Arc::new(groups.expect("a tree"));
    let exports = Arc::new(ExportTable::new(groups, vec![(export, device)]));
    let admission = ClientPolicy { connections_max: 1, ..ClientPolicy::default() };
    let memory = Arc::new(Memory::new(1 << 30));
    let clients = Clients::new(exports, admission, memory).expect("a thread");
    let (memory, drainer) = clients.shared();

    let flags = SocketFlags::CLOEXEC;
    let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    let (ours, theirs) = pair.expect("sockets");
    for packet in client_packets {
        send(&theirs, packet, SendFlags::DONTWAIT).expect("room");
    }
    shutdown(&theirs, Shutdown::Write).expect("open");
    let connection = Connection::new(clients.next_connection(), ours, memory, drainer);
    Session::new(Arc::new(clients), connection).run();
    let mut space = vec![0; 1 << 20];
    let next = || {
        let (count, _) = recv(&theirs, &mut space[..], RecvFlags::DONTWAIT).expect("it has ended");
        (count > 0).then(|| space[..count].to_vec())
    };
    std::iter::from_fn(next).collect()
}

/// The client's flags, and the option that opens the first export.
fn handshake() -> Vec<Vec<u8>> {
    let flags = u32::from(wire::FLAG_FIXED_NEWSTYLE | wire::FLAG_NO_ZEROES);
    let (name_len, infos_count) = (0u32.to_be_bytes(), 0u16.to_be_bytes());
    let data = [&name_len[..], &infos_count].concat();
    let option = [wire::OPT_GO.to_be_bytes(), (data.len() as u32).to_be_bytes()].concat();
    vec![flags.to_be_bytes().to_vec(), [b"IHAVEOPT", &option[..], &data].concat()]
}

/// So many reads past the end of the export, which need no device.
fn reads(first_cookie: u64, count: u64) -> Vec<u8> {
    let mut packet = Vec::new();
    for cookie in first_cookie..first_cookie + count {
        encode_request(&mut packet, wire::CMD_READ, 0, cookie, SIZE, 4096);
    }
    packet
}

/// The cookies of replies.
fn cookies(packet: &[u8]) -> Vec<u64> {
    let cookie = |reply: &[u8]| u64::from_be_bytes(reply[8..].try_into().expect("eight bytes"));
    assert_eq!(packet.len() % REPLY_LEN, 0);
    packet.chunks(REPLY_LEN).map(cookie).collect()
}

/// The replies to these requests, by system call.
fn replies_to(requests: Vec<Vec<u8>>) -> Vec<Vec<u64>> {
    let packets = packets_to(&[handshake(), requests].concat());
    // The greeting, and the answer to the option.
    packets[2..].iter().map(|packet| cookies(packet)).collect()
}

#[test]
fn replies_to_requests_that_came_together_leave_in_one_call() {
    let sent = replies_to(vec![reads(0, 1), reads(1, 512), reads(513, 20)]);
    let expected: Vec<Vec<u64>> = [0..1, 1..513, 513..533].map(Iterator::collect).into();
    assert_eq!(sent, expected, "each once, in order");
}
