//! Compiled code is kept, and believed only where nobody else can have written it.

use super::modules::module;
use crate::cache::CodeCache;
use crate::limits::CACHED_FILES_MAX;
use crate::module::Module;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

/// A cache in a folder of its own.
fn cache() -> (TempDir, PathBuf, CodeCache) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("policies");
    let cache = CodeCache::at(&path).expect("it can be made");
    (folder, path, cache)
}

fn files(path: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(path).expect("it is there");
    files.map(|entry| entry.expect("an entry").path()).collect()
}

/// The one file of a cache.
fn file(path: &Path) -> PathBuf {
    let files = files(path);
    assert_eq!(files.len(), 1, "{files:?}");
    files.into_iter().next().expect("one")
}

fn was_cached(bytes: &[u8], cache: &CodeCache) -> bool {
    Module::new(bytes, Some(cache)).expect("a good module").1
}

#[test]
fn code_is_compiled_once_and_a_changed_file_is_not_run() {
    let (_folder, path, cache) = cache();
    let bytes = module(&[]);
    assert!(!was_cached(&bytes, &cache));
    assert!(was_cached(&bytes, &cache));
    let file = file(&path);
    assert_eq!(fs::metadata(&file).expect("there").permissions().mode() & 0o777, 0o400);
    let code = fs::read(&file).expect("readable");
    for at in [0, 40, code.len() / 2, code.len() - 1] {
        let mut wrong = code.clone();
        wrong[at] ^= 1;
        fs::remove_file(&file).expect("ours");
        fs::write(&file, &wrong).expect("ours");
        assert!(!was_cached(&bytes, &cache), "byte {at} is another");
        assert!(was_cached(&bytes, &cache), "it was written anew");
    }
    for length in [0, 31, 32, code.len() - 1] {
        fs::remove_file(&file).expect("ours");
        fs::write(&file, &code[..length]).expect("ours");
        assert!(!was_cached(&bytes, &cache), "{length} bytes are left");
    }
}

#[test]
fn a_file_that_others_may_write_or_that_is_a_link_is_not_run() {
    let (folder, path, cache) = cache();
    let bytes = module(&[]);
    assert!(!was_cached(&bytes, &cache));
    let file = file(&path);
    for mode in [0o620, 0o602] {
        fs::set_permissions(&file, Permissions::from_mode(mode)).expect("ours");
        assert!(cache.get(&bytes).is_none(), "mode {mode:o}");
    }
    fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("ours");
    assert!(cache.get(&bytes).is_some());
    let elsewhere = folder.path().join("elsewhere");
    fs::hard_link(&file, &elsewhere).expect("one file system");
    assert!(cache.get(&bytes).is_none(), "it has another name");
    fs::remove_file(&file).expect("ours");
    symlink(&elsewhere, &file).expect("a link");
    assert!(cache.get(&bytes).is_none(), "it is a link");
}

#[test]
fn a_folder_that_others_see_or_that_is_a_link_is_no_cache() {
    let (folder, path, _) = cache();
    fs::set_permissions(&path, Permissions::from_mode(0o750)).expect("ours");
    assert!(CodeCache::at(&path).is_none());
    fs::set_permissions(&path, Permissions::from_mode(0o700)).expect("ours");
    assert!(CodeCache::at(&path).is_some());
    let link = folder.path().join("link");
    symlink(&path, &link).expect("a link");
    assert!(CodeCache::at(&link).is_none());
    let file = folder.path().join("file");
    fs::write(&file, "no folder").expect("ours");
    assert!(CodeCache::at(&file).is_none());
    assert!(CodeCache::at(&file.join("below")).is_none());
}

#[test]
fn the_least_recently_used_goes_first() {
    let (_folder, path, cache) = cache();
    let bytes = module(&[]);
    assert!(!was_cached(&bytes, &cache));
    let first = file(&path);
    let old = |age: u64| SystemTime::now() - Duration::from_secs(1_000 + age);
    for number in 0..CACHED_FILES_MAX {
        let other = path.join(format!("other-{number}"));
        let file = File::create(other).expect("ours");
        file.set_modified(old(number as u64)).expect("ours");
    }
    File::open(&first).expect("ours").set_modified(old(5_000)).expect("ours");
    assert!(was_cached(&bytes, &cache), "used, so that it is the newest");
    let another = module(&[("oldest", "another")]);
    assert!(!was_cached(&another, &cache));
    let left = files(&path);
    assert_eq!(left.len(), CACHED_FILES_MAX);
    assert!(left.contains(&first));
    let oldest = path.join(format!("other-{}", CACHED_FILES_MAX - 1));
    assert!(!left.contains(&oldest));
    assert!(was_cached(&another, &cache));
}
