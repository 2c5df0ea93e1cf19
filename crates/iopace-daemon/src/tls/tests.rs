//! Directories of certificates, good and bad.

use super::*;
use rcgen::{CertificateParams, DnType, KeyPair};
use rustls::pki_types::CertificateDer;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tempfile::TempDir;

fn write(folder: &TempDir, name: &str, text: &str, mode: u32) {
    let path = folder.path().join(name);
    fs::write(&path, text).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("set");
}

/// A certificate that has signed itself, with these common names, and its key.
fn signed(names: &[&str]) -> (rcgen::Certificate, String) {
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    params.distinguished_name = rcgen::DistinguishedName::new();
    for name in names {
        params.distinguished_name.push(DnType::CommonName, *name);
    }
    let key = KeyPair::generate().expect("a key");
    (params.self_signed(&key).expect("signed"), key.serialize_pem())
}

/// A directory with all that is needed.
fn directory() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let (certificate, key) = signed(&["localhost"]);
    write(&folder, CERTIFICATE, &certificate.pem(), 0o644);
    write(&folder, CA, &certificate.pem(), 0o644);
    write(&folder, KEY, &key, 0o640);
    folder
}

fn load(folder: &Path) -> Result<Option<Arc<ServerConfig>>, TlsError> {
    let mode = TlsMode::Require;
    let settings = TlsSettings {
        mode,
        certificates: folder.to_owned(),
        verify_peer: true,
        ..TlsSettings::default()
    };
    settings.load()
}

#[test]
fn a_directory_with_all_that_is_needed_is_taken() {
    assert!(load(directory().path()).expect("taken").is_some());
    assert!(TlsSettings::default().load().expect("nothing is read").is_none());
}

#[test]
fn a_mistake_names_the_file_and_the_remedy() {
    type Break = fn(&TempDir);
    let cases: [(&str, &str, Break); 10] = [
        (KEY, "chmod 0600", |folder| write(folder, KEY, &signed(&[]).1, 0o644)),
        (KEY, "others can write to it", |folder| write(folder, KEY, &signed(&[]).1, 0o660)),
        (CA, "chmod go-w", |folder| write(folder, CA, "", 0o666)),
        (CA, "-----BEGIN CERTIFICATE-----", |folder| write(folder, CA, "hello", 0o644)),
        (KEY, "-----BEGIN PRIVATE KEY-----", |folder| write(folder, KEY, "", 0o600)),
        (CERTIFICATE, "make the file again", |folder| {
            write(folder, CERTIFICATE, "-----BEGIN CERTIFICATE-----\n!\n", 0o644);
        }),
        (CERTIFICATE, "do not belong together", |folder| {
            write(folder, KEY, &signed(&["other"]).1, 0o600);
        }),
        (CERTIFICATE, "says how to make it", |folder| {
            fs::remove_file(folder.path().join(CERTIFICATE)).expect("removed");
        }),
        (KEY, "not a regular file", |folder| {
            let path = folder.path().join(KEY);
            fs::remove_file(&path).expect("removed");
            rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR).expect("made");
        }),
        (REVOKED, "-----BEGIN X509 CRL-----", |folder| write(folder, REVOKED, "", 0o644)),
    ];
    for (file, remedy, spoil) in cases {
        let folder = directory();
        spoil(&folder);
        let text = load(folder.path()).expect_err(remedy).to_string();
        let path = folder.path().join(file).display().to_string();
        assert!(text.contains(&path) && text.contains(remedy), "{remedy}: {text}");
    }
    let nowhere = load(Path::new("/nowhere")).expect_err("nothing").to_string();
    assert!(nowhere.contains("--tls-certificates: /nowhere"), "{nowhere}");
}

#[test]
fn a_directory_that_others_can_change_is_not_taken() {
    let folder = directory();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("set");
    let text = load(folder.path()).expect_err("refused").to_string();
    assert!(text.contains("can be written to by others"), "{text}");
}

#[test]
fn a_common_name_is_one_that_can_be_shown() {
    let name = |names: &[&str]| {
        let certificate = signed(names).0;
        common_name(certificate.der())
    };
    assert_eq!(name(&["web-1"]).as_deref(), Some("web-1"));
    assert_eq!(name(&["Jörg"]).as_deref(), Some("Jörg"));
    let long = "x".repeat(256);
    for wrong in ["", "a\nb", "\x1b[2J", "a\u{202e}b", long.as_str()] {
        assert_eq!(name(&[wrong]), None, "{wrong:?}");
    }
    assert_eq!(name(&[]), None);
    assert_eq!(common_name(&CertificateDer::from(vec![0x30, 0x80])), None);
}
