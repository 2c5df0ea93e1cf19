//! Any bytes, in any pieces, to the server's machine.
#![no_main]

use iopace_nbd::{Command, Event, ExportInfo, Exports, Server, ServerConfig};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

/// Answers to one option are far shorter with exports like these.
const OUTPUT_MAX: usize = 16 * 1024;

struct Shelf([ExportInfo; 2]);

impl Exports for Shelf {
    fn list(&self) -> Vec<ExportInfo> {
        self.0.to_vec()
    }

    fn find(&self, name: &str) -> Option<ExportInfo> {
        let wanted = if name.is_empty() { "disk" } else { name };
        self.0.iter().find(|export| export.name == wanted).cloned()
    }
}

static SHELF: LazyLock<Shelf> = LazyLock::new(|| {
    let disk = ExportInfo {
        description: "a disk".into(),
        can_multi_conn: true,
        can_flush: true,
        can_fua: true,
        can_trim: true,
        can_write_zeroes: true,
        can_fast_zero: true,
        can_cache: true,
        ..ExportInfo::new(1, "disk", 1 << 30)
    };
    let rom = ExportInfo {
        read_only: true,
        block_min: 512,
        block_max: 1 << 16,
        ..ExportInfo::new(2, "rom", 4096)
    };
    Shelf([disk, rom])
});

fn check(request: &iopace_nbd::Request, export: &ExportInfo) {
    let end = request.offset.checked_add(u64::from(request.len)).expect("no wrap");
    assert!(end <= export.size_bytes);
    assert_eq!(request.len == 0, request.command == Command::Flush);
    let [min, _, max] = export.block_sizes();
    assert!(request.offset.is_multiple_of(u64::from(min)) && request.len.is_multiple_of(min));
    match request.command {
        Command::Read => assert!(request.len <= max),
        Command::Write => assert!(request.len <= max && !export.read_only),
        Command::Trim | Command::WriteZeroes => assert!(!export.read_only),
        Command::Disconnect => panic!("has its own event"),
        Command::Flush | Command::Cache | Command::BlockStatus => {}
    }
}

/// What was to be seen of a connection.
#[derive(Debug, PartialEq)]
enum Seen {
    Event(Event),
    Output(Vec<u8>),
    /// All of it was taken.
    Payload,
}

/// Drives a connection.
fn drive(bytes: &[u8], piece: usize) -> Vec<Seen> {
    let (mut bytes, mut seen, shelf) = (bytes, Vec::new(), &*SHELF);
    let mut server = Server::new(ServerConfig::default());
    let mut export = None;
    let mut writing = false;
    loop {
        // What is not in the buffer yet goes past it, as a daemon takes payloads.
        while server.payload_left() > 0 {
            let mut into = [0; 512];
            let count = server.payload_buffered(&mut into);
            if count == 0 {
                let direct = bytes.len().min(piece).min(server.payload_left() as usize);
                bytes = &bytes[direct..];
                server.payload_received(direct);
                if direct == 0 {
                    return seen;
                }
            }
        }
        if std::mem::take(&mut writing) {
            seen.push(Seen::Payload);
        }
        let event = server.poll(shelf);
        match &event {
            Event::NeedInput => {
                if bytes.is_empty() {
                    return seen;
                }
                let space = server.recv_space();
                assert!(!space.is_empty(), "no room for more");
                let (now, later) = bytes.split_at(space.len().min(piece).min(bytes.len()));
                space[..now.len()].copy_from_slice(now);
                server.received(now.len());
                bytes = later;
                continue;
            }
            Event::Send => {
                let output = server.take_output();
                assert!(!output.is_empty() && output.len() <= OUTPUT_MAX);
                assert!(server.in_handshake());
                seen.push(Seen::Output(output));
            }
            Event::Opened(opened) => {
                assert!(export.is_none() && !server.in_handshake());
                export = shelf.0.iter().find(|export| export.id == opened.export);
                seen.push(Seen::Output(server.take_output()));
            }
            Event::Request(request) => check(request, export.expect("opened")),
            Event::Write(request) => {
                check(request, export.expect("opened"));
                assert_eq!(server.payload_left(), request.len);
                writing = true;
            }
            Event::Reject { .. } | Event::StartTls => assert!(export.is_some()),
            Event::Close(_) => {
                seen.push(Seen::Output(server.take_output()));
                assert_eq!(server.poll(shelf), event, "closed for good");
                seen.push(Seen::Event(event));
                return seen;
            }
        }
        seen.push(Seen::Event(event));
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&piece, bytes)) = input.split_first() else {
        return;
    };
    let whole = drive(bytes, usize::MAX);
    assert_eq!(drive(bytes, usize::from(piece) + 1), whole);
});
