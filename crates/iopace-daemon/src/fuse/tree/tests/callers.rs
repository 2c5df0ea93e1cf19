//! Others than root: what they create is theirs, and what they may not they cannot.

use super::Mounted;
use super::twins::{both, seen};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

/// What a shell says as user 1000, group 1000, with further groups.
pub(super) fn shell(root: &Path, groups: &str, script: &str) -> std::io::Result<String> {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=1000", "--regid=1000", groups, "sh", "-c", script]).current_dir(root);
    let output = command.env("LC_ALL", "C").output()?;
    Ok(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// A place for everyone, with what root keeps to itself.
fn prepare(root: &Path) -> std::io::Result<()> {
    let folders = [
        ("open", 0o777, 0, 0),
        ("sticky", 0o1777, 0, 0),
        ("group", 0o2777, 0, 4000),
        ("closed", 0o755, 0, 0),
        ("private", 0o700, 0, 0),
        ("shared", 0o2770, 0, 4001),
    ];
    for (name, mode, uid, gid) in folders {
        let path = root.join(name);
        fs::create_dir(&path)?;
        chown(&path, Some(uid), Some(gid))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        fs::write(path.join("root"), "of root")?;
    }
    fs::set_permissions(root, fs::Permissions::from_mode(0o755))
}

const SCRIPTS: &[&str] = &[
    "umask 022; echo a > open/a; mkdir open/d; mkfifo open/p; ln -s a open/s; ln open/a open/l",
    "umask 077; echo a > group/a; mkdir group/d; mkdir group/d/e; echo b > group/d/b",
    "umask 000; echo a > open/wide; mkdir open/wider",
    "umask 022; echo a > sticky/a; rm -f sticky/root; mv sticky/root sticky/b; rm sticky/a",
    "echo a > closed/a; mkdir closed/d; rm -f closed/root; echo a >> closed/root; cat closed/root",
    "cat private/root; ls private; ls -d private; echo a > private/a; cd private",
    "chmod 600 open/a; cat open/a; chmod 0 open/a; cat open/a; echo x >> open/a; chmod 644 open/a",
    "chmod 777 open/root; chown 1000 open/root; touch open/root; touch -d @5 open/root",
    "chown 0 open/a; chgrp 4001 open/a; chgrp 5 open/a; chgrp 1000 open/a",
    "umask 002; echo a > shared/a; mkdir shared/d; chmod 2775 shared/d; chmod 2775 shared/a",
    "mknod open/null c 1 3; ln open/root open/link; cp open/root open/copy; \
     mv open/copy open/moved",
    "chmod 6755 open/moved; stat -c %a open/moved; echo x >> open/moved; stat -c %a open/moved",
    "chmod 6755 open/moved; truncate -s 1 open/moved; stat -c %a open/moved",
    "chmod 6755 open/moved; : > open/moved; stat -c %a open/moved",
    "chmod 6755 open/moved; chgrp 1000 open/moved; stat -c %a open/moved",
    "chmod 6755 open/moved; fallocate -l 9000 open/moved; stat -c %a open/moved",
    "chmod 4711 open/moved; \
     dd if=/dev/zero of=open/moved bs=10 count=1 conv=notrunc 2>&1 | head -1; \
     stat -c %a open/moved",
    "rm -rf open/* group/d",
];

#[test]
fn others_get_and_may_what_they_would_without_us() {
    let ways = [
        (Mounted::elsewhere(), "--clear-groups"),
        (Mounted::over_itself(), "--groups=4001,4000"),
        (Mounted::held(), "--clear-groups"),
    ];
    for (mounted, groups) in ways {
        let Some(mounted) = mounted else { continue };
        both(&mounted, "prepare", prepare);
        for script in SCRIPTS {
            both(&mounted, script, |root| shell(root, groups, script));
        }
        let all = seen(&mounted.below);
        let member = groups.contains("4001");
        assert_eq!(all.contains_key(Path::new("shared/a")), member, "{:?}", all.keys());
    }
}

#[test]
fn what_is_hidden_from_others_is_not_listed() {
    let Some(mounted) = Mounted::elsewhere() else { return };
    let path = mounted.mount.join("f");
    fs::write(&path, "").unwrap();
    for name in ["trusted.secret", "user.known"] {
        rustix::fs::setxattr(&path, name, b"1", rustix::fs::XattrFlags::empty()).unwrap();
    }
    let script = "import os; print(os.listxattr('f'))";
    let said = shell(&mounted.mount, "--clear-groups", &format!("python3 -c \"{script}\""));
    let said = said.unwrap();
    if !said.starts_with('[') {
        eprintln!("skipped: no python3: {said}");
        return;
    }
    assert_eq!(said.trim(), "['user.known']");
}

#[test]
fn a_program_that_root_made_set_user_id_loses_it_when_others_write() {
    let Some(mounted) = Mounted::over_itself() else { return };
    both(&mounted, "write", |root| {
        let path = root.join("f");
        fs::write(&path, "x")?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o6777))
    });
    both(&mounted, "root writes", |root| {
        fs::write(root.join("f"), "y")?;
        Ok(fs::metadata(root.join("f"))?.permissions().mode())
    });
    let script = "echo z >> f; stat -c %a f";
    both(&mounted, "others write", |root| shell(root, "--clear-groups", script));
    let mode = fs::metadata(mounted.below.join("f")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o777);
}

#[test]
fn root_of_a_user_namespace_is_root_of_its_own_files_only() {
    let Some(mounted) = Mounted::elsewhere() else { return };
    both(&mounted, "prepare", prepare);
    both(&mounted, "own", |root| {
        fs::write(root.join("own"), "")?;
        chown(root.join("own"), Some(1000), Some(1000))
    });
    // The capabilities of such a root are all; they count for files whose owners are mapped.
    for script in [
        "chmod 4755 own; chown 0:0 own; chmod 4000 own; echo x >> own; stat -c %a own",
        "chown 0:0 open/root; chmod 4755 open/root; rm -f sticky/root; echo x > closed/x",
        "cat private/root; echo x >> closed/root; touch -d @5 open/root; mknod open/n c 1 3",
        "mkdir open/d; chmod 0 open/d; echo x > open/d/f; rm -r open/d; ln open/root open/l",
    ] {
        let inside = format!("unshare --user --map-root-user sh -c '{script}' 2>&1");
        both(&mounted, script, |root| shell(root, "--clear-groups", &inside));
    }
}

#[test]
fn a_daemon_that_acts_for_nobody_lends_no_set_user_id_bit() {
    // As of a user who shares a directory: all that is created there becomes this user's own.
    let options = super::Options::shared();
    let mounted = Mounted::start_as(options, false, |tree| tree.acts_for_others = false);
    let Some(mounted) = mounted else { return };
    fs::set_permissions(&mounted.mount, fs::Permissions::from_mode(0o777)).unwrap();
    let script = "umask 0; cp /bin/true a; chmod 6777 a; python3 -c \"import os
os.close(os.open('b', os.O_CREAT | os.O_WRONLY, 0o6755))
os.mknod('c', 0o106755)\"; true";
    shell(&mounted.mount, "--clear-groups", script).unwrap();
    fs::write(mounted.below.join("d"), "x").unwrap();
    fs::set_permissions(mounted.below.join("d"), fs::Permissions::from_mode(0o6777)).unwrap();
    let script = "python3 -c \"import os; os.chown('d', -1, -1)\"; true";
    shell(&mounted.mount, "--clear-groups", script).unwrap();
    let mode = |name: &str| fs::metadata(mounted.below.join(name)).map(|f| f.permissions().mode());
    assert_eq!(mode("d").unwrap() & 0o7777, 0o6777, "a stranger has stripped it");
    shell(&mounted.mount, "--clear-groups", "echo more >> d").unwrap();
    assert_eq!(mode("d").unwrap() & 0o7777, 0o777, "a stranger has written to it");
    for name in ["a", "b", "c"] {
        // Without python3 there is only the first.
        let made = mode(name).unwrap_or(0);
        assert_eq!(made & 0o6000, 0, "{name}: {made:o}");
    }
}
