//! The holders of a file's lock, by `/proc/locks`.

use rustix::fs::{Stat, major, minor};
use std::fs;

/// The file as `/proc/locks` and `/proc/PID/fdinfo` name it, between blanks.
pub(crate) fn lock_name(file: &Stat) -> String {
    let (major, minor) = (major(file.st_dev), minor(file.st_dev));
    format!(" {major:02x}:{minor:02x}:{} ", file.st_ino)
}

/// The processes that have locked all of a file (flock(2)). A number may be another's by now, as a
/// lock stays with those that the file was handed on to.
pub(crate) fn lock_holders(file: &Stat) -> Vec<u32> {
    let name = lock_name(file);
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    let of_it = locks.lines().filter(|line| line.contains(" FLOCK ") && line.contains(&name));
    of_it.filter_map(|line| line.split_whitespace().nth(4)?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_a_lock_is_found() {
        let file = tempfile::tempfile().expect("a temporary file");
        let found = rustix::fs::fstat(&file).expect("known");
        assert!(lock_holders(&found).is_empty());
        file.lock().expect("nobody else has it");
        assert_eq!(lock_holders(&found), [std::process::id()]);
    }
}
