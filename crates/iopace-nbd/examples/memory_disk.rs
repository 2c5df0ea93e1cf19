//! Serves a disk in memory over a Unix socket, one thread per client:
//!
//! ```text
//! cargo run --example memory_disk -- /tmp/disk.sock 64
//! nbdinfo 'nbd+unix:///disk?socket=/tmp/disk.sock'
//! ```
//! The second argument is its size in MiB. No scheduler, no pacing: it shows how the machine is
//! driven, and what real clients make of it.

use iopace_nbd::{BlockStatus, Command, Event, ExportInfo, Replies, Request, Server, ServerConfig};
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Longest wait for the next bytes of a handshake.
const HANDSHAKE_PAUSE_MAX: Duration = Duration::from_secs(10);

struct Disk {
    export: ExportInfo,
    data: Mutex<Vec<u8>>,
}

impl Disk {
    fn new(size_bytes: u64) -> Disk {
        let export = ExportInfo {
            description: "a disk in memory".to_owned(),
            can_multi_conn: true,
            can_flush: true,
            can_fua: true,
            can_trim: true,
            can_write_zeroes: true,
            can_fast_zero: true,
            can_cache: true,
            ..ExportInfo::new(0, "disk", size_bytes)
        };
        Disk { export, data: Mutex::new(vec![0; size_bytes as usize]) }
    }

    fn answer(&self, request: &Request, replies: Replies, out: &mut Vec<u8>) {
        let mut data = self.data.lock().expect("no thread panics");
        let data = &mut data[request.offset as usize..][..request.len as usize];
        match request.command {
            Command::Read => {
                replies.read(out, request.cookie, request.offset, request.len);
                out.extend_from_slice(data);
                return;
            }
            Command::BlockStatus => {
                let pieces = allocation(data, if request.req_one { 1 } else { usize::MAX });
                return replies.block_status(out, request.cookie, &pieces);
            }
            Command::WriteZeroes | Command::Trim => data.fill(0),
            Command::Flush | Command::Cache => {}
            Command::Write | Command::Disconnect => unreachable!("these have their own events"),
        }
        replies.done(out, request.cookie);
    }

    fn serve(&self, mut socket: UnixStream) -> io::Result<()> {
        socket.set_read_timeout(Some(HANDSHAKE_PAUSE_MAX))?;
        let mut server = Server::new(ServerConfig::default());
        let mut replies = Replies::default();
        let mut out = Vec::new();
        loop {
            match server.poll(&self.export) {
                Event::NeedInput => {
                    // Answers to all that came together leave together.
                    socket.write_all(&out)?;
                    out.clear();
                    let count = socket.read(server.recv_space())?;
                    if count == 0 {
                        return Ok(());
                    }
                    server.received(count);
                }
                Event::Send => out.extend(server.take_output()),
                Event::Opened(opened) => {
                    socket.set_read_timeout(None)?;
                    replies = opened.replies;
                    out.extend(server.take_output());
                }
                Event::Request(request) => self.answer(&request, replies, &mut out),
                Event::Write(request) => {
                    let mut payload = vec![0; request.len as usize];
                    let have = server.payload_buffered(&mut payload);
                    socket.read_exact(&mut payload[have..])?;
                    server.payload_received(payload.len() - have);
                    let mut data = self.data.lock().expect("no thread panics");
                    data[request.offset as usize..][..payload.len()].copy_from_slice(&payload);
                    replies.done(&mut out, request.cookie);
                }
                Event::Reject { cookie, error } => replies.error(&mut out, cookie, error),
                Event::StartTls => unreachable!("not offered"),
                Event::Close(reason) => {
                    eprintln!("closed: {reason}");
                    out.extend(server.take_output());
                    return socket.write_all(&out);
                }
            }
        }
    }
}

/// Which blocks of 4 KiB are nothing but zeroes, neighbours of a kind together.
fn allocation(data: &[u8], most: usize) -> Vec<BlockStatus> {
    let mut pieces: Vec<BlockStatus> = Vec::new();
    for block in data.chunks(4096) {
        let is_hole = block.iter().all(|byte| *byte == 0);
        let count = pieces.len();
        match pieces.last_mut() {
            Some(last) if last.is_hole == is_hole => last.len += block.len() as u32,
            _ if count == most => break,
            _ => pieces.push(BlockStatus { len: block.len() as u32, is_hole }),
        }
    }
    pieces
}

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, mib] = &arguments[..] else {
        eprintln!("usage: memory_disk SOCKET MIB");
        std::process::exit(2);
    };
    let Ok(mib) = mib.parse::<u32>() else {
        eprintln!("a size in MiB is needed, not {mib}");
        std::process::exit(2);
    };
    let disk = Arc::new(Disk::new(u64::from(mib) << 20));
    for socket in UnixListener::bind(path)?.incoming() {
        let (disk, socket) = (Arc::clone(&disk), socket?);
        std::thread::spawn(move || {
            if let Err(error) = disk.serve(socket) {
                eprintln!("a client: {error}");
            }
        });
    }
    Ok(())
}
