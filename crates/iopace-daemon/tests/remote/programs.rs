//! Servers of others, where they are installed (`make setup`).

use crate::remote;
use crate::support::{Running, wait_for};
use iopace_suites::random::Random;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const SIZE: u64 = 16 << 20;

/// A server that is killed at the end.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn has(program: &str) -> bool {
    let is_there = Command::new(program).arg("--version").output().is_ok();
    if !is_there {
        println!("skipped: there is no {program}; 'make setup' installs it");
    }
    is_there
}

/// Starts a server, and waits until it listens.
fn serve(program: &str, words: &[&str], socket: &Path) -> Served {
    // What a killed one has left.
    let _ = std::fs::remove_file(socket);
    let child = Command::new(program).args(words).stderr(Stdio::null()).spawn().expect("starts");
    let served = Served(child);
    wait_for("its socket", || std::os::unix::net::UnixStream::connect(socket).is_ok());
    served
}

/// Writes and reads through a daemon before that server, which is killed again and again.
fn work(socket: &Path, start: &dyn Fn() -> Served) {
    let mut server = start();
    let uri = format!("nbd+unix:///?socket={}", socket.display());
    let running = Running::start(remote(&uri, None), |_| {});
    let mut client = running.client();
    let mut random = Random(5);
    let mut model = vec![0; SIZE as usize];
    for round in 0..60 {
        if round % 20 == 19 {
            drop(server);
            server = start();
        }
        let start = random.below(SIZE - (2 << 20)) as usize;
        let len = 1 + random.below(2 << 20) as usize;
        if random.below(2) == 0 {
            let data: Vec<u8> = (0..len).map(|at| (at as u8) ^ round).collect();
            client.write(start as u64, &data, random.below(4) == 0).expect("writes");
            model[start..start + len].copy_from_slice(&data);
        } else {
            let mut data = vec![0; len];
            client.read(start as u64, &mut data).expect("reads");
            assert!(data == model[start..start + len], "round {round}: {start}+{len}");
        }
    }
    client.flush().expect("flushes");
}

#[test]
fn nbdkit_is_a_server() {
    if !has("nbdkit") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let image = Running::image(&folder, SIZE).display().to_string();
    let socket = folder.path().join("nbdkit.sock");
    let words = ["-f", "-U", &socket.display().to_string(), "file", &image];
    work(&socket, &|| serve("nbdkit", &words, &socket));
}

#[test]
fn qemu_nbd_is_a_server() {
    if !has("qemu-nbd") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let image = Running::image(&folder, SIZE).display().to_string();
    let socket = folder.path().join("qemu.sock");
    let words = ["-t", "-f", "raw", "-e", "8", "-k", &socket.display().to_string(), &image];
    work(&socket, &|| serve("qemu-nbd", &words, &socket));
}
