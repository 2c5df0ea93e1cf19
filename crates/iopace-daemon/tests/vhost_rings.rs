//! Things that no driver does to an export over vhost-user: requests that a killed daemon had
//! taken, rings that make no sense, and processes that mean harm.

#[path = "support/machine.rs"]
mod machine;
#[path = "support/rings.rs"]
mod rings;
mod support;

use iopace_daemon::config::{Backend, ExportConfig};
use rings::{Descriptor, MEMORY, Rings, SIZE, guest};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use support::{Running, wait_for};
use vhost::VhostBackend;
use vhost::vhost_user::VhostUserFrontend;
use vhost::vhost_user::message::VhostUserInflight;

fn serve() -> (Running, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let backend = Backend::Path(Running::image(&folder, 64 << 20));
    let socket = folder.path().join("vm.sock");
    let vhost_user = Some(socket.clone());
    let export = ExportConfig { vhost_user, ..ExportConfig::new("disk", "disk") };
    (Running::start_in(folder, backend, |config| config.exports = vec![export]), socket)
}

/// A request is well answered: what works is still served.
fn is_served(rings: &mut Rings) {
    rings.page(0, false, 8);
    rings.ask(&[0]);
    assert_eq!((rings.answers(1), rings.status(0)), (vec![0], 0));
}

#[test]
fn requests_that_a_killed_daemon_had_taken_are_done_again() {
    let (running, socket) = serve();
    let mut rings = Rings::connect(&socket);
    let wanted = VhostUserInflight::new(0, 0, 1, SIZE);
    let (inflight, file) = rings.talk.get_inflight_fd(&wanted).expect("memory for it");
    assert!(inflight.mmap_size >= 16 + 16 * u64::from(SIZE));
    // The daemon before had taken four requests, in this order, and answered 9 and then 0; it was
    // killed when that was in the used ring, and not noted yet.
    let put = |at: u64, bytes: &[u8]| file.write_all_at(bytes, at).expect("written");
    put(8, &1u16.to_le_bytes());
    put(10, &SIZE.to_le_bytes());
    put(12, &0u16.to_le_bytes());
    put(14, &1u16.to_le_bytes());
    for (counter, head) in [(12u64, 6u64), (11, 3), (10, 0)] {
        put(16 + head * 16, &[1]);
        put(16 + head * 16 + 8, &counter.to_le_bytes());
    }
    for (head, byte) in [(0, 1), (3, 2), (6, 3), (9, 4), (12, 5)] {
        rings.page(head, true, u64::from(head) * 8);
        rings.data(head).fill(byte);
    }
    rings.fill(&[9, 0, 3, 6, 12]);
    rings.put(0x2002, &2u16.to_le_bytes());
    rings.talk.set_inflight_fd(&inflight, file.as_raw_fd()).expect("taken");
    rings.start(0).expect("begun");
    rings.answers(2);
    let mut done = rings.answers(3);
    done.sort_unstable();
    assert_eq!(done, [3, 6, 12]);
    let written = running.daemon.devices()[0].info().path.clone().expect("a file");
    let written = File::open(written).expect("the image");
    for (head, byte) in [(0u64, 0), (3, 2), (6, 3), (9, 0), (12, 5)] {
        let mut page = [9; 4096];
        written.read_exact_at(&mut page, head * 4096).expect("read");
        assert!(page.iter().all(|&one| one == byte), "{head}");
    }
    // Nothing is in flight any more, and it is noted so.
    assert_eq!(rings.used(), 5);
    let mut noted = [0; 16];
    for head in 0..u64::from(SIZE) {
        file.read_exact_at(&mut noted, 16 + head * 16).expect("read");
        assert_eq!(noted[0], 0, "{head}");
    }
    file.read_exact_at(&mut noted[..2], 14).expect("read");
    assert_eq!(noted[..2], 5u16.to_le_bytes());
}

#[test]
fn a_queue_that_ends_and_begins_goes_on_where_it_was() {
    let (_running, socket) = serve();
    let mut rings = Rings::connect(&socket);
    rings.start(0).expect("begun");
    for round in 0..40 {
        is_served(&mut rings);
        if round % 7 == 0 {
            let base = rings.talk.get_vring_base(0).expect("ended");
            assert_eq!(base, round + 1);
            rings.start(u16::try_from(base).expect("small")).expect("begun again");
        }
    }
}

#[test]
fn a_chain_that_makes_no_sense_ends_its_queue_only() {
    let (_running, socket) = serve();
    let part = |place, len, flags, next| Descriptor { address: guest(place), len, flags, next };
    // Each with the place of the available ring after it: one whose memory is missing waits for it.
    let chains: [(&[Descriptor], u32); 8] = [
        // A circle.
        (&[part(0x3000, 16, 1, 1), part(0x5000, 512, 1, 0)], 1),
        // A part outside the table.
        (&[part(0x3000, 16, 1, SIZE + 5)], 1),
        // Outside memory, and over its end.
        (&[part(MEMORY + 4096, 16, 1, 1), part(0x4000, 1, 2, 0)], 0),
        (&[part(0x3000, 16, 1, 1), part(MEMORY - 8, 4096, 3, 2), part(0x4000, 1, 2, 0)], 0),
        // Nowhere at all.
        (&[Descriptor { address: u64::MAX - 4, len: 64, flags: 0, next: 0 }], 0),
        // No room for a status; empty; what may be read behind what may be written.
        (&[part(0x3000, 16, 0, 0)], 1),
        (&[part(0x3000, 16, 1, 1), part(0x5000, 0, 3, 2), part(0x4000, 1, 2, 0)], 1),
        (&[part(0x4000, 1, 3, 1), part(0x3000, 16, 0, 0)], 1),
    ];
    for (at, (chain, base)) in chains.iter().enumerate() {
        let mut rings = Rings::connect(&socket);
        rings.start(0).expect("begun");
        for (index, descriptor) in (0..).zip(chain.iter()) {
            rings.descriptor(index, *descriptor);
        }
        rings.ask(&[0]);
        // The conversation goes on, and the queue can be ended and begun again.
        wait_for("the request to be taken", || {
            rings.talk.get_vring_base(0).ok() == Some(*base) || {
                rings.start(0).expect("begun again");
                false
            }
        });
        assert_eq!(rings.used(), 0, "{at}: nothing is answered");
        rings.start(1).expect("begun again");
        is_served(&mut rings);
    }
    let mut rings = Rings::connect(&socket);
    rings.start(0).expect("begun");
    rings.ask(&[SIZE + 1]);
    assert!(rings.talk.get_vring_base(0).is_ok());
}

#[test]
fn a_table_in_a_table_is_not_followed() {
    let (_running, socket) = serve();
    let mut rings = Rings::connect(&socket);
    rings.start(0).expect("begun");
    let inner = Descriptor { address: guest(0x8000), len: 16, flags: 4, next: 0 };
    rings.descriptor(0, inner);
    let mut bytes = guest(0x8000).to_le_bytes().to_vec();
    bytes.extend([16, 0, 0, 0, 4, 0, 0, 0]);
    rings.put(0x8000, &bytes);
    rings.ask(&[0]);
    assert!(rings.stays_unanswered(), "nothing is answered");
    assert_eq!(rings.talk.get_vring_base(0).ok(), Some(1));
}

#[test]
fn a_request_waits_for_memory_that_is_on_its_way() {
    let (_running, socket) = serve();
    let mut rings = Rings::connect(&socket);
    rings.start(0).expect("begun");
    is_served(&mut rings);
    // Other memory in the place of all that there was: the rings are kept, requests wait.
    let other = machine::Shared::new(MEMORY);
    rings.share_at(1 << 40, MEMORY as u64, other.fd()).expect("shared");
    rings.page(3, false, 16);
    rings.ask(&[3]);
    assert!(rings.stays_unanswered(), "its memory is missing");
    rings.share(MEMORY as u64, rings.memory.fd()).expect("shared again");
    assert_eq!((rings.answers(1), rings.status(3)), (vec![3], 0));
}

#[test]
fn writes_are_durable_for_a_driver_that_asks_for_no_flushes() {
    let (running, socket) = serve();
    let mut rings = Rings::connect(&socket);
    let features = rings.talk.get_features().expect("features");
    let (flush, event_index) = (1 << 9, 1 << 29);
    rings.talk.set_features(features & !flush & !event_index).expect("features");
    rings.start(0).expect("begun");
    rings.page(0, true, 8);
    rings.data(0).fill(5);
    rings.ask(&[0]);
    assert_eq!((rings.answers(1), rings.status(0)), (vec![0], 0));
    // Nothing of it is dirty any more: what was acknowledged is on the disk.
    let status = running.daemon.devices()[0].status();
    let dirty = status.memory.expect("through the page cache").dirty;
    assert_eq!(dirty.device.get(), 0);
}

#[test]
fn what_cannot_be_is_refused() {
    let (_running, socket) = serve();
    let refuses = |what: &str, ask: &dyn Fn(&mut Rings) -> bool| {
        let mut rings = Rings::connect(&socket);
        assert!(ask(&mut rings), "{what} is not refused");
    };
    let pipe = || rustix::pipe::pipe().expect("a pipe").0;
    refuses("memory that is shorter than it is said", &|rings| {
        let fd = rings.memory.fd();
        rings.share(2 * MEMORY as u64, fd).is_err()
    });
    refuses("memory that is none", &|rings| rings.share(4096, pipe().as_raw_fd()).is_err());
    refuses("a queue without memory", &|rings| {
        let kick = vmm_sys_util::eventfd::EventFd::new(0).expect("one");
        rings.talk.set_vring_kick(0, &kick).is_err()
    });
    refuses("a queue of an odd size", &|rings| rings.talk.set_vring_num(0, 17).is_err());
    refuses("a call that is no eventfd", &|rings| {
        use std::os::fd::{FromRawFd, IntoRawFd};
        // SAFETY: its only owner.
        let pipe = unsafe { vmm_sys_util::eventfd::EventFd::from_raw_fd(pipe().into_raw_fd()) };
        rings.talk.set_vring_call(0, &pipe).is_err()
    });
    refuses("memory for requests in flight that is too short", &|rings| {
        let wanted = VhostUserInflight::new(64, 0, 1, SIZE);
        let fd = rings.memory.fd();
        rings.talk.set_inflight_fd(&wanted, fd).is_err()
    });
    refuses("features that are not offered", &|rings| rings.talk.set_features(u64::MAX).is_err());
    // Whoever was refused may come again.
    let mut rings = Rings::connect(&socket);
    rings.start(0).expect("begun");
    is_served(&mut rings);
}
