//! A thousand at once, and files that vanish.

use crate::Mounted;
use iopace_core::units::Bytes;
use std::fs;
use std::process::{Command, Stdio};
use std::thread;

#[test]
fn a_thousand_programs_write_and_read_at_once() {
    let Some(mounted) = Mounted::over(
        |_| {},
        |config| {
            config.memory_max = Bytes::from_mib(4);
            config.mounts[0].device.dirty_limit = Some(Bytes::from_mib(8));
        },
    ) else {
        return;
    };
    let script = "for i in $(seq 1000); do \
        (head -c 100000 src > at/$i && cmp -n 100000 src at/$i || echo bad $i) & done; wait";
    fs::write(mounted.folder.path().join("src"), content(200_000)).expect("written");
    let ran = Command::new("sh")
        .args(["-c", script])
        .current_dir(mounted.folder.path())
        .stdin(Stdio::null())
        .output()
        .expect("a shell");
    let said = String::from_utf8_lossy(&ran.stdout) + String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && said.is_empty(), "{said}");
    let wanted = content(100_000);
    for number in 1..=1000 {
        assert!(fs::read(mounted.below(&number.to_string())).expect("read") == wanted, "{number}");
    }
}

/// Bytes that are not the same anywhere else.
fn content(len: u32) -> Vec<u8> {
    (0..len).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

#[test]
fn files_that_vanish_below_are_gone_and_nothing_else() {
    let Some(mounted) = Mounted::new(|mount| {
        mount.device.dirty_limit = Some(Bytes::from_mib(1));
    }) else {
        return;
    };
    thread::scope(|scope| {
        for writer in 0..4 {
            let mounted = &mounted;
            scope.spawn(move || {
                for number in 0..200 {
                    let name = format!("{writer}-{number}");
                    // It may be gone before it is written; what is open stays usable.
                    fs::write(mounted.at(&name), content(20_000)).expect("written");
                    match fs::read(mounted.at(&name)) {
                        Ok(data) => assert!(data == content(20_000), "{name}: {}", data.len()),
                        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound),
                    }
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..50 {
                for entry in fs::read_dir(mounted.below("")).expect("listed").flatten() {
                    let _ = fs::remove_file(entry.path());
                }
                // SLEEP: files are removed while others make them; the pace does not matter.
                thread::sleep(std::time::Duration::from_millis(10));
            }
        });
    });
    fs::write(mounted.at("last"), [1; 100]).expect("written");
    assert_eq!(fs::read(mounted.below("last")).expect("read"), [1; 100]);
}
