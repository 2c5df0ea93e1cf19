//! Programs of others as encrypted clients, where they are installed (`make setup`).

use crate::certificates::{Authority, write};
use crate::support::Running;
use iopace_daemon::config::{Backend, Listen};
use iopace_daemon::tls::TlsMode;
use iopace_suites::random::Random;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

const SIZE: u64 = 8 << 20;

/// A daemon that wants certificates, at a port; the directory of its client is `client`, and one
/// whose certificate it does not know `foreign`.
fn serve() -> (Running, u16) {
    let (folder, authority) = (tempfile::tempdir().expect("a folder"), Authority::new());
    authority.write_server(folder.path());
    for (name, signer) in [("client", &authority), ("foreign", &Authority::new())] {
        let own = folder.path().join(name);
        fs::create_dir(&own).expect("made");
        let signed = signer.sign(name, |_| {});
        write(&own, "ca-cert.pem", &authority.pem(), 0o644);
        write(&own, "client-cert.pem", &signed.certificate, 0o644);
        write(&own, "client-key.pem", &signed.key, 0o600);
    }
    let certificates = folder.path().to_owned();
    let backend = Backend::Path(Running::image(&folder, SIZE));
    let running = Running::start_in(folder, backend, |config| {
        config.listen = vec![Listen::Tcp("127.0.0.1:0".parse().expect("an address"))];
        config.tls.mode = TlsMode::Require;
        config.tls.certificates = certificates;
        config.tls.verify_peer = true;
    });
    let uri = running.daemon.uris().remove(0);
    let address = uri.strip_prefix("nbds://127.0.0.1:").expect("encrypted");
    let port = address.split('/').next().and_then(|port| port.parse().ok());
    (running, port.expect("a port"))
}

fn has(program: &str) -> bool {
    let is_there = Command::new(program).arg("--version").output().is_ok();
    if !is_there {
        println!("skipped: there is no {program}; 'make setup' installs it");
    }
    is_there
}

/// Whether it succeeds, and its output, with what it complains of.
fn run<S: AsRef<OsStr>>(program: &str, words: &[S]) -> (bool, String) {
    let output = Command::new(program).args(words).output().expect("it is there");
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

fn uri(port: u16, folder: &Path) -> String {
    format!("nbds://localhost:{port}/disk?tls-certificates={}", folder.display())
}

#[test]
fn nbdinfo_is_let_in_with_a_certificate_only() {
    if !has("nbdinfo") {
        return;
    }
    let (running, port) = serve();
    let folder = running.folder.path();
    let (is_well, text) = run("nbdinfo", &["--size", &uri(port, &folder.join("client"))]);
    assert!(is_well && text.trim() == SIZE.to_string(), "{text}");
    let (is_well, text) = run("nbdinfo", &["--size", &uri(port, &folder.join("foreign"))]);
    assert!(!is_well, "{text}");
    let (is_well, text) = run("nbdinfo", &["--size", &format!("nbd://localhost:{port}/disk")]);
    assert!(!is_well && text.contains("TLS"), "{text}");
}

#[test]
fn nbdcopy_brings_the_same_bytes_there_and_back() {
    if !has("nbdcopy") {
        return;
    }
    let (running, port) = serve();
    let folder = running.folder.path();
    let (there, back) = (folder.join("there"), folder.join("back"));
    let mut random = Random(11);
    let data: Vec<u8> = (0..SIZE).map(|_| random.below(256) as u8).collect();
    fs::write(&there, &data).expect("written");
    let uri = uri(port, &folder.join("client"));
    let (is_well, text) = run("nbdcopy", &["--flush".as_ref(), there.as_os_str(), uri.as_ref()]);
    assert!(is_well, "{text}");
    let (is_well, text) = run("nbdcopy", &[OsStr::new(&uri), back.as_os_str()]);
    assert!(is_well, "{text}");
    assert!(fs::read(back).expect("read") == data);
    assert!(fs::read(folder.join("disk.img")).expect("read") == data, "the disk itself");
}

#[test]
fn qemu_img_is_let_in_with_a_certificate_only() {
    if !has("qemu-img") {
        return;
    }
    let (running, port) = serve();
    let info = |own: &str| {
        let folder = running.folder.path().join(own);
        let object = format!("tls-creds-x509,id=tls,endpoint=client,dir={}", folder.display());
        let image = format!("driver=nbd,host=localhost,port={port},export=disk,tls-creds=tls");
        run("qemu-img", &["info", "--object", &object, "--image-opts", &image])
    };
    let (is_well, text) = info("client");
    assert!(is_well && text.contains("8 MiB"), "{text}");
    let (is_well, text) = info("foreign");
    assert!(!is_well, "{text}");
}
