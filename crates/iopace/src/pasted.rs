//! Words of commands that can be pasted, and the units of processes.

use iopace_daemon::figures::shell_word;
use iopace_daemon::printable::is_commanding;
use rustix::process::geteuid;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// A path as a word for a shell. One with control characters is written with their escapes (`$'…'`
/// of bash, zsh and ksh), so that it can be shown and pasted.
pub fn shell(path: &Path) -> String {
    let text = path.display().to_string();
    if !text.contains(is_commanding) {
        return shell_word(&text);
    }
    let mut word = String::from("$'");
    for c in text.chars() {
        let _ = match c {
            '\'' | '\\' => write!(word, "\\{c}"),
            c if is_commanding(c) => match u32::from(c) {
                code @ 0..=0x7f => write!(word, "\\x{code:02x}"),
                code => write!(word, "\\u{code:04x}"),
            },
            c => write!(word, "{c}"),
        };
    }
    word.push('\'');
    word
}

/// The service of systemd that a process belongs to, if root has started it: a user calls a cgroup
/// in his own slice as he likes.
pub fn service_of(pid: u32) -> Option<String> {
    service_in(&fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?)
}

fn service_in(cgroups: &str) -> Option<String> {
    // As `0::/system.slice/a.service`; a path may have colons in it.
    let in_hierarchy = |controllers: &str| {
        let mut lines = cgroups.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
        let path = lines.find(|(one, _)| *one == controllers)?.1.trim_start_matches('/');
        (!path.is_empty()).then(|| path.to_owned())
    };
    // Version 2; where version 1 is used beside it, systemd's named hierarchy.
    let path = in_hierarchy("").or_else(|| in_hierarchy("name=systemd"))?;
    let mut parts = path.split('/').take_while(|part| !part.starts_with("user"));
    let found = parts.find(|part| part.ends_with(".service"))?;
    Some(found.to_owned())
}

/// What ends a process, or has it begin anew: its service, else the process.
pub fn ending(pid: u32, verb: &str) -> String {
    match service_of(pid) {
        Some(service) => format!("systemctl {verb} {}", shell(Path::new(&service))),
        None => format!("kill {pid}"),
    }
}

/// Whether a process runs the program that this one runs, as root or as the same user: anybody else
/// may start it as well, with files of his open, so as not to be told of.
pub fn is_iopace(pid: u32) -> bool {
    let program = |process: &str| fs::read_link(format!("/proc/{process}/exe")).ok();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    is_trusted(&status, geteuid().as_raw())
        && program("self").is_some_and(|own| program(&pid.to_string()) == Some(own))
}

/// Whether all users of a process, as `/proc/PID/status` has them, are root or this one.
fn is_trusted(status: &str, own: u32) -> bool {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    let is_known = |uid: &str| uid.parse().is_ok_and(|uid: u32| uid == 0 || uid == own);
    line.is_some_and(|line| line.split_whitespace().all(is_known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_control_characters_can_be_pasted() {
        assert_eq!(shell(Path::new("/srv/data")), "/srv/data");
        assert_eq!(shell(Path::new("/srv/it's")), r"'/srv/it'\''s'");
        let hostile = "/srv/\x1b[2J'\n\u{202e}x";
        let word = shell(Path::new(hostile));
        assert_eq!(word, r"$'/srv/\x1b[2J\'\x0a\u202ex'");
        let script = format!("printf %s {word}");
        let printed = std::process::Command::new("bash").args(["-c", &script]).output();
        let utf8 = printed.expect("bash").stdout;
        // In the C locale bash writes what it cannot say as \u202e.
        let shown = String::from_utf8_lossy(&utf8).replace("\\u202E", "\u{202e}");
        assert_eq!(shown, hostile);
    }

    #[test]
    fn a_process_of_a_stranger_is_not_believed_to_be_ours() {
        assert!(is_iopace(std::process::id()));
        let status = |uids: &str| format!("Name:\tiopace\nUid:\t{uids}\nGid:\t0\t0\t0\t0\n");
        assert!(is_trusted(&status("0\t0\t0\t0"), 1000));
        assert!(is_trusted(&status("1000\t1000\t1000\t1000"), 1000));
        assert!(!is_trusted(&status("1000\t1000\t1000\t1000"), 0));
        assert!(!is_trusted(&status("1001\t0\t0\t0"), 1000) && !is_trusted("", 0));
    }

    #[test]
    fn a_service_is_one_of_the_system() {
        let of = |text: &str| service_in(text);
        assert_eq!(of("0::/system.slice/pg.service\n").as_deref(), Some("pg.service"));
        assert_eq!(of("0::/system.slice/a.service/x/b.service").as_deref(), Some("a.service"));
        assert_eq!(of("0::/user.slice/user-1.slice/user@1.service/evil.service"), None);
        let old = "4:blkio:/x.service\n1:name=systemd:/system.slice/db.service\n0::/\n";
        assert_eq!(of(old).as_deref(), Some("db.service"));
        let both = "9:name=systemd:/\n1:cpu:/\n0::/system.slice/db.service\n";
        assert_eq!(of(both).as_deref(), Some("db.service"));
        let spoofed = "9:name=systemd:/\n0::/user.slice/x0::/name=systemd:/a.service\n";
        assert_eq!(of(spoofed), None);
        assert_eq!(of("0::/init.scope\n"), None);
    }
}
