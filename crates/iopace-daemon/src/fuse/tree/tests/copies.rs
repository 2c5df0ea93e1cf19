//! A folder with files of all kinds goes in and comes out as it was.

use super::Mounted;
use super::twins::seen;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;

fn fill(root: &Path) {
    for folder in 0..8u32 {
        let path = root.join(format!("d{folder}/inner"));
        fs::create_dir_all(&path).unwrap();
        for file in 0..20u32 {
            let path = path.join(format!("f{file}"));
            fs::write(&path, vec![file as u8; (file * file * 50) as usize]).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600 + file)).unwrap();
            chown(&path, Some(file), Some(folder)).unwrap();
        }
        fs::hard_link(path.join("f1"), root.join(format!("link{folder}"))).unwrap();
        symlink("inner/f2", root.join(format!("d{folder}/symlink"))).unwrap();
    }
    let sparse = fs::File::create(root.join("sparse")).unwrap();
    sparse.write_all_at(b"end", 10 << 20).unwrap();
}

fn run(program: &str, arguments: &[&str], root: &Path) {
    let output = Command::new(program).args(arguments).current_dir(root).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {error}");
}

/// Modification times, which `seen` leaves out.
fn times(root: &Path) -> Vec<(i64, i64)> {
    let paths = seen(root).into_keys();
    let stats = paths.map(|path| fs::symlink_metadata(root.join(path)).unwrap());
    stats.map(|stat| (stat.mtime(), stat.mtime_nsec())).collect()
}

#[test]
fn a_folder_goes_in_and_comes_out_as_it_was() {
    let Some(mounted) = Mounted::elsewhere() else { return };
    let (source, root) = (mounted.plain.join("source"), mounted.folder.path());
    fs::create_dir(&source).unwrap();
    fill(&source);
    run("cp", &["-a", "plain/source", "mount/copied"], root);
    run("sh", &["-c", "tar -cSf - -C plain source | tar -xpf - -C mount"], root);
    run("sh", &["-c", "tar -cSf - -C mount source | (mkdir plain/x; tar -xpf - -C plain/x)"], root);
    run("cp", &["-a", "mount/copied", "plain/back"], root);
    run("diff", &["-r", "--no-dereference", "plain/source", "mount/source"], root);
    let (wanted, when) = (seen(&source), times(&source));
    for copy in ["mount/copied", "below/copied", "mount/source", "plain/x/source", "plain/back"] {
        let copy = root.join(copy);
        assert_eq!(seen(&copy), wanted, "{copy:?}");
        // tar keeps whole seconds only.
        if copy.ends_with("copied") || copy.ends_with("back") {
            assert_eq!(times(&copy), when, "{copy:?}");
        }
    }
    let sparse = fs::metadata(mounted.mount.join("copied/sparse")).unwrap();
    assert!(sparse.blocks() * 512 < 1 << 20, "{} blocks", sparse.blocks());
}
