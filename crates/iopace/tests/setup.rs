//! `iopace setup`: in a root of its own, and in a mount namespace with a systemd that only writes
//! down what it is told.

mod common;
mod mounted;

use common::{Place, Ran, until};
use mounted::Bench;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const UNIT: &str = "etc/systemd/system/iopace-mount@srv-my\\x2ddata.service";

/// A root with systemd's folders, a directory, and a service that works in it.
fn root(place: &Place) -> PathBuf {
    let root = place.path("root");
    for folder in ["etc", "usr/lib/systemd/system", "srv/my-data", "var"] {
        fs::create_dir_all(root.join(folder)).expect("made");
    }
    let unit = "[Service]\nExecStart=/usr/bin/db --data=/srv/my-data/db\n";
    fs::write(root.join("usr/lib/systemd/system/db@.service"), unit).expect("written");
    root
}

/// All files and links below a directory, with their texts and targets.
fn tree(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut all = BTreeMap::new();
    let mut next = vec![root.to_owned()];
    while let Some(folder) = next.pop() {
        for entry in fs::read_dir(folder).expect("listed") {
            let entry = entry.expect("listed");
            let (path, kind) = (entry.path(), entry.file_type().expect("known"));
            let text = if kind.is_dir() {
                next.push(path.clone());
                "a folder".into()
            } else if kind.is_symlink() {
                fs::read_link(&path).expect("read").display().to_string()
            } else {
                fs::read_to_string(&path).expect("read")
            };
            all.insert(path.strip_prefix(root).expect("below").to_owned(), text);
        }
    }
    all
}

fn setup(place: &Place, words: &[&str]) -> Ran {
    let words: Vec<&str> = ["setup", "--root", "root"].iter().chain(words).copied().collect();
    place.run(&words)
}

#[test]
fn what_is_made_is_shown_first_and_taken_away_again() {
    let place = Place::new();
    let root = root(&place);
    let before = tree(&root);
    let shown = setup(&place, &["/srv/my-data", "--dry-run"]);
    assert_eq!((shown.status, tree(&root)), (Some(0), before.clone()), "{shown:?}");
    let ran = setup(&place, &["/srv/my-data"]);
    assert_eq!(
        (ran.status, tree(&root)),
        (Some(2), before.clone()),
        "nobody can be asked: {ran:?}"
    );
    assert!(ran.error.contains("--yes"), "{ran:?}");

    let ran = setup(&place, &["/srv/my-data", "--yes"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let made: Vec<PathBuf> =
        tree(&root).into_keys().filter(|path| !before.contains_key(path)).collect();
    for path in &made {
        let path = format!("/{}", path.display());
        assert!(shown.out.contains(&path), "{path} was not shown: {}", shown.out);
    }
    let config = "etc/iopace/mounts/srv-my\\x2ddata.toml";
    let order = "etc/systemd/system/db@.service.d/iopace-srv-my\\x2ddata.conf";
    let wants = "etc/systemd/system/multi-user.target.wants/iopace-mount@srv-my\\x2ddata.service";
    let after = tree(&root);
    let text = &after[Path::new(config)];
    assert!(text.contains("dir = \"/srv/my-data\"") && text.contains("cgroup = \"db@*.service\""));
    let check = place.run(&["config", "check", &format!("root/{config}")]);
    assert_eq!(check.status, Some(0), "{check:?}");
    assert!(after[Path::new(order)].contains("Requires=iopace-mount@srv-my\\x2ddata.service\n"));
    assert_eq!(after[Path::new(wants)], format!("/{UNIT}"));
    let drop_in = &after[&Path::new(UNIT).with_extension("service.d").join("iopace-setup.conf")];
    assert!(drop_in.contains(" mount --foreground --config /etc/iopace/mounts/%i.toml\n"));
    assert!(ran.out.contains("left out: no systemd runs here"), "{ran:?}");

    let again = setup(&place, &["/srv/my-data", "--yes"]);
    assert_eq!((again.status, tree(&root)), (Some(1), after), "{again:?}");
    assert!(again.error.contains("is set up already"), "{again:?}");
    let ran = setup(&place, &["/srv/my-data", "--undo", "--yes"]);
    assert_eq!((ran.status, tree(&root)), (Some(0), before), "{ran:?}");
    let ran = setup(&place, &["/srv/my-data", "--undo", "--yes"]);
    assert!(ran.status == Some(1) && ran.error.contains("is not set up"), "{ran:?}");
}

#[test]
fn a_unit_that_is_installed_is_taken_and_without_systemd_only_the_configuration_is_made() {
    let place = Place::new();
    let root = root(&place);
    let template = root.join("usr/lib/systemd/system/iopace-mount@.service");
    fs::write(&template, "[Service]\nExecStart=/opt/iopace mount --foreground %f\n").expect("made");
    assert_eq!(setup(&place, &["/srv/my-data", "--yes"]).status, Some(0));
    assert!(!root.join(UNIT).exists());
    let wants = root.join("etc/systemd/system/multi-user.target.wants");
    let link = fs::read_link(wants.join("iopace-mount@srv-my\\x2ddata.service")).expect("a link");
    assert_eq!(link, Path::new("/usr/lib/systemd/system/iopace-mount@.service"));
    let drop_in = root.join(UNIT).with_extension("service.d").join("iopace-setup.conf");
    let text = fs::read_to_string(drop_in).expect("read");
    assert!(text.contains("ExecStart=/opt/iopace mount "), "{text}");

    let bare = place.path("bare");
    fs::create_dir_all(bare.join("srv")).expect("made");
    let ran = place.run(&["setup", "--root", "bare", "/srv", "--yes"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(ran.out.contains("left out: there is no systemd"), "{ran:?}");
    let files: Vec<PathBuf> =
        tree(&bare).into_keys().filter(|path| !bare.join(path).is_dir()).collect();
    let (config, record) = ("etc/iopace/mounts/srv.toml", "var/lib/iopace/setup/srv.json");
    assert_eq!(files, [Path::new(config), Path::new(record)]);
}

#[test]
fn what_was_made_for_several_goes_with_the_last() {
    let place = Place::new();
    let root = root(&place);
    fs::create_dir(root.join("srv/b")).expect("made");
    let before = tree(&root);
    for words in [["/srv/my-data", "--yes"], ["/srv/b", "--yes"]] {
        assert_eq!(setup(&place, &words).status, Some(0));
    }
    let ran = setup(&place, &["/srv/my-data", "--undo", "--yes"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(root.join("etc/iopace/mounts/srv-b.toml").exists());
    let ran = setup(&place, &["/srv/b", "--undo", "--yes"]);
    assert_eq!((ran.status, tree(&root)), (Some(0), before), "{ran:?}");
}

#[test]
fn a_file_that_was_changed_by_hand_is_kept_and_named() {
    let place = Place::new();
    let root = root(&place);
    assert_eq!(setup(&place, &["/srv/my-data", "--yes"]).status, Some(0));
    let config = root.join("etc/iopace/mounts/srv-my\\x2ddata.toml");
    let text = fs::read_to_string(&config).expect("read") + "# mine\n";
    fs::write(&config, &text).expect("written");
    // A link in the place of a file is none of ours, and its target is left alone.
    let order = root.join("etc/systemd/system/db@.service.d/iopace-srv-my\\x2ddata.conf");
    let precious = place.path("precious");
    fs::rename(&order, &precious).expect("moved");
    symlink(&precious, &order).expect("linked");
    let ran = setup(&place, &["/srv/my-data", "--undo", "--yes"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    for kept in [&config, &order] {
        assert!(fs::symlink_metadata(kept).is_ok(), "{kept:?} is gone");
        let name = kept.file_name().expect("a name").to_string_lossy();
        let is_named = |text: &str| text.contains("changed by hand") && text.contains(&*name);
        assert!(ran.error.lines().any(is_named), "{ran:?}");
    }
    assert_eq!(fs::read_to_string(&config).expect("read"), text);
    assert!(precious.exists() && !root.join(UNIT).exists());
    assert!(!root.join("var/lib/iopace").exists());
}

#[test]
fn nothing_is_half_applied() {
    let place = Place::new();
    let root = root(&place);
    // Something stands in the way of the third file: seen before.
    let order = root.join("etc/systemd/system/db@.service.d");
    fs::create_dir_all(&order).expect("made");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        order.join("iopace-srv-my\\x2ddata.conf"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .expect("made");
    let names = || {
        let mut all = Vec::new();
        let mut next = vec![root.clone()];
        while let Some(folder) = next.pop() {
            for entry in fs::read_dir(folder).expect("listed").flatten() {
                if entry.file_type().expect("known").is_dir() {
                    next.push(entry.path());
                }
                all.push(entry.path());
            }
        }
        all.sort();
        all
    };
    let before = names();
    let ran = setup(&place, &["/srv/my-data", "--yes"]);
    assert_eq!((ran.status, names()), (Some(1), before), "{ran:?}");
    assert!(ran.error.contains("is there already"), "{ran:?}");
    // A folder that others can write to: seen only when a file is to be made in it.
    fs::remove_file(order.join("iopace-srv-my\\x2ddata.conf")).expect("removed");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    fs::set_permissions(&order, mode).expect("set");
    let before = names();
    let ran = setup(&place, &["/srv/my-data", "--yes"]);
    assert_eq!((ran.status, names()), (Some(1), before), "{ran:?}");
    let told =
        ran.error.contains("others than root can write") && ran.error.contains("nothing of it");
    assert!(told, "{ran:?}");
}

#[test]
fn a_name_that_commands_a_terminal_or_a_unit_does_neither() {
    let place = Place::new();
    let root = root(&place);
    let name = "a\x1b[2J\"]\nExecStart=%n $x";
    fs::create_dir(root.join("srv").join(name)).expect("made");
    let ran = setup(&place, &[&format!("/srv/{name}"), "--yes"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let is_safe = |text: &str| !text.chars().any(|c| c.is_control() && c != '\n');
    assert!(is_safe(&ran.out) && is_safe(&ran.error), "{ran:?}");
    let configs = root.join("etc/iopace/mounts");
    let config = fs::read_dir(configs).expect("listed").flatten().next().expect("one").path();
    let text = fs::read_to_string(&config).expect("read");
    assert!(is_safe(&text), "{text}");
    let table: toml::Table = text.parse().expect("TOML");
    assert_eq!(table["mount"][0]["dir"].as_str(), Some(&*format!("/srv/{name}")));
    for (path, text) in tree(&root.join("etc/systemd")) {
        let foreign = text.lines().any(|line| line.starts_with("ExecStart=%n"));
        assert!(!foreign, "{path:?}: {text}");
    }
}

/// With the machine's own root, in a mount namespace: `systemctl` starts and stops what the unit
/// says, and writes down what it was told. Processes of other tests, which may have a look at the
/// mount, are not seen.
#[test]
fn the_mount_is_started_and_stopped_and_what_fails_leaves_nothing() {
    let Some(bench) = Bench::new() else { return };
    let systemctl = "#!/bin/sh
        echo \"$*\" >>\"$OUT/told\"
        config=$(ls /etc/iopace/mounts/*.toml 2>/dev/null | head -n 1)
        case $1 in
          start) test ! -e \"$OUT/refuse\" && \"$IOPACE\" mount --config \"$config\" >/dev/null ;;
          stop) \"$IOPACE\" unmount \"$OUT/data\" >/dev/null ;;
          is-active) grep -q \" $OUT/data fuse.iopace\" /proc/self/mounts && echo active ;;
        esac";
    fs::create_dir(bench.path("bin")).expect("made");
    bench.place.write("bin/systemctl", systemctl);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(bench.path("bin/systemctl"), mode).expect("set");
    let script = "set -e
        fails() { if \"$@\"; then echo \"did not fail: $*\" >&2; exit 1; fi; }
        mkdir -p etc var run; mount -t tmpfs none /run; mkdir -p /run/systemd/system
        cp -a /etc/passwd /etc/group etc; mkdir -p etc/systemd/system; mount --bind etc /etc
        mount --bind var /var/lib
        PATH=$PWD/bin:$PATH
        touch refuse; fails \"$IOPACE\" setup data --yes; rm refuse
        fails ls /etc/iopace; fails ls /var/lib/iopace; ls /etc/systemd/system
        exec 9>data/open; fails \"$IOPACE\" setup data --yes; exec 9>&-
        fails ls /etc/iopace
        \"$IOPACE\" setup data --yes; grep \" $PWD/data fuse.iopace\" /proc/self/mounts
        test \"$(cat data/file)\" = content
        exec 9<data/file; fails \"$IOPACE\" setup --undo data --yes; exec 9<&-
        \"$IOPACE\" setup --undo data --yes; fails grep \" $PWD/data fuse.iopace\" /proc/self/mounts
        fails ls /etc/iopace; fails ls /var/lib/iopace; rm -f data/open; cat told";
    let data = bench.path("data");
    let here = data.parent().expect("it is in one");
    let mut command = Command::new("timeout");
    command
        .args(["-s", "KILL", "240", "unshare", "-m", "-p", "--fork", "--kill-child"])
        .args(["--mount-proc", "sh", "-c", script])
        .env_remove("XDG_RUNTIME_DIR");
    command.env("IOPACE", env!("CARGO_BIN_EXE_iopace")).env("OUT", here);
    command.env("IOPACE_RUNTIME_DIR", bench.path("sockets")).current_dir(here);
    let ran = Ran::from(command.stdin(Stdio::null()).output().expect("started"));
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(ran.error.contains("systemctl start iopace-mount@"), "{ran:?}");
    assert!(ran.error.contains("nothing of it was left"), "{ran:?}");
    assert_eq!(ran.error.matches("is in use by sh (pid ").count(), 2, "{ran:?}");
    let told: Vec<&str> = ran.out.lines().filter(|line| line.starts_with("st")).collect();
    assert!(told.len() >= 4 && told[0].starts_with("start ") && told[1].starts_with("stop "));
    until("nothing is mounted", || bench.seen() == 0);
}
