//! `mount.iopace`: how mount(8) and fstab(5) ask for a mount.
//!
//! mount(8) starts `/sbin/mount.iopace DIR MOUNTPOINT -o OPTIONS`, which is a link to this binary.
//! The words are turned into those of `iopace mount`, and all else is as with that.

use crate::cli::{Cli, Command, MountFlag};
use crate::output::{Failure, note};
use clap::{Parser, ValueEnum};
use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::mount::{MountFlags, mount_remount};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Exit statuses of mount(8): wrongly asked, and not mounted.
const USAGE: u8 = 1;
const FAILED: u8 = 32;

/// Names of the link.
const NAMES: [&str; 2] = ["mount.iopace", "mount.fuse.iopace"];

/// Options that say what holds anyway, or concern others: mount(8), systemd, fsck.
const IDLE: [&str; 29] = [
    "defaults",
    "rw",
    "suid",
    "dev",
    "exec",
    "atime",
    "diratime",
    "relatime",
    "norelatime",
    "nostrictatime",
    "async",
    "auto",
    "noauto",
    "user",
    "users",
    "nouser",
    "owner",
    "group",
    "nofail",
    "_netdev",
    "silent",
    "loud",
    // Of the file system below.
    "iversion",
    "noiversion",
    "lazytime",
    "nolazytime",
    "mand",
    "nomand",
    "symfollow",
];

/// Options with a value that `iopace mount` has.
const VALUES: [&str; 21] = [
    "name",
    "rule",
    "group",
    "cgroup-limits",
    "emulate",
    "cache",
    "sched",
    "set",
    "nr-requests",
    "window",
    "window-policy",
    "pace",
    "dirty-limit",
    "dirty-background",
    "control",
    "http",
    "http-token-file",
    "metrics",
    "metrics-token-file",
    "log",
    "wait",
];

/// Options without one.
const WORDS: [&str; 6] =
    ["allow-other", "private", "while-in-use", "while-written", "wait", "no-control"];

/// Options that the kernel shows of a FUSE mount: mount(8) gives them back with a remount.
const SHOWN: [&str; 6] =
    ["user_id", "group_id", "default_permissions", "allow_other", "max_read", "blksize"];

/// A mount as mount(8) asks for it.
#[derive(Debug, PartialEq, Eq)]
pub enum Asked {
    /// The words of `iopace mount`.
    Mount(Vec<OsString>),
    /// Other flags of a mount that is there.
    Remount(PathBuf, MountFlags),
    /// Nothing: mount(8) only tries.
    Nothing,
}

/// Whether the binary was started by one of these names.
pub fn is_asked(program: Option<&OsString>) -> bool {
    let name = program.and_then(|program| Path::new(program).file_name());
    name.is_some_and(|name| NAMES.iter().any(|known| name == OsStr::new(known)))
}

/// Does what mount(8) asks for, and ends with a status of its own.
pub fn run(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let done = match parse(words) {
        Ok(Asked::Nothing) => Ok(()),
        Ok(Asked::Remount(mountpoint, flags)) => {
            set_flags(&mountpoint, flags).map_err(Failure::new)
        }
        Ok(Asked::Mount(words)) => mount(words),
        Err(message) => Err(Failure::usage(message)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            note(format_args!("mount.iopace: {}", failure.message));
            ExitCode::from(if failure.status == 2 { USAGE } else { FAILED })
        }
    }
}

fn mount(words: Vec<OsString>) -> Result<(), Failure> {
    let cli = Cli::try_parse_from(&words).map_err(|told| {
        let told = told.to_string();
        let told = told.strip_prefix("error: ").unwrap_or(&told).to_owned();
        Failure::usage(told.lines().next().unwrap_or_default())
    })?;
    let Command::Mount(args) = cli.command else { unreachable!("these are words of mount") };
    super::run_quietly(&args, words.into_iter().skip(1).collect())
}

/// Understands the words that follow the name, as in mount(8), "External helpers".
///
/// # Errors
/// The defect of the words.
pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Asked, String> {
    let mut words = words.into_iter();
    let (mut places, mut options): (Vec<OsString>, String) = (Vec::new(), String::new());
    let mut tries = false;
    while let Some(word) = words.next() {
        match word.to_str() {
            Some("-o") => {
                let value = words.next().ok_or("-o needs a list of options")?;
                options.push(',');
                options.push_str(value.to_str().ok_or("the options are not text")?);
            }
            Some("-t" | "-N") => drop(words.next()),
            Some("-f") => tries = true,
            Some("-s" | "-n" | "-v") => {}
            Some(option) if option.starts_with('-') => {
                return Err(format!("'{option}' is not known; see mount(8), \"External helpers\""));
            }
            _ => places.push(word),
        }
    }
    let [directory, mountpoint] = <[OsString; 2]>::try_from(places)
        .map_err(|_| "two directories are needed, as in 'mount -t iopace /srv /srv'")?;
    if tries {
        return Ok(Asked::Nothing);
    }
    let options: Vec<&str> = options.split(',').filter(|option| !option.is_empty()).collect();
    if options.contains(&"remount") {
        return remount(mountpoint.into(), &options);
    }
    let mut asked: Vec<OsString> = vec!["iopace".into(), "mount".into()];
    for option in options {
        if let Some(word) = translated(option)? {
            asked.push(word.into());
        }
    }
    asked.extend(["--".into(), directory, mountpoint]);
    Ok(Asked::Mount(asked))
}

/// The word of `iopace mount` for an option of mount(8); `None` for one that changes nothing.
fn translated(option: &str) -> Result<Option<String>, String> {
    let (name, value) = match option.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (option, None),
    };
    let own = name.replace('_', "-");
    let is_for_others = ["x-", "X-"].iter().any(|start| name.starts_with(start));
    match value {
        _ if is_for_others || name == "comment" => Ok(None),
        None if IDLE.contains(&name) => Ok(None),
        None if name == "ro" => Ok(Some("--read-only".into())),
        None if MountFlag::from_str(name, false).is_ok() => Ok(Some(format!("--flag={name}"))),
        None if WORDS.contains(&&*own) => Ok(Some(format!("--{own}"))),
        Some(value) if VALUES.contains(&&*own) => Ok(Some(format!("--{own}={value}"))),
        _ => Err(format!(
            "the option '{option}' is not known; beside those of mount(8) there are {}, and with a \
             value {}",
            WORDS.join(", "),
            VALUES.join(", ")
        )),
    }
}

/// Flags are all that can be changed of a mount that is there.
fn remount(mountpoint: PathBuf, options: &[&str]) -> Result<Asked, String> {
    let mut flags = MountFlags::empty();
    let is_shown = |option: &str| {
        let name = option.split_once('=').map_or(option, |(name, _)| name);
        name == "remount" || SHOWN.contains(&name)
    };
    for option in options.iter().filter(|option| !is_shown(option)) {
        match translated(option)?.as_deref() {
            None => {}
            Some("--read-only") => flags |= MountFlags::RDONLY,
            Some(word) => match word.strip_prefix("--flag=") {
                Some(name) => flags |= MountFlag::from_str(name, false)?.flag(),
                None => return Err(format!("'{option}' cannot be changed while it is mounted")),
            },
        }
    }
    Ok(Asked::Remount(mountpoint, flags))
}

/// Changes the flags of a mount. `nosuid`, `nodev` and `noexec` stay: they may be those of the file
/// system below, whose files would get rights through the mount that they do not have there.
///
/// # Errors
/// The system refuses.
pub fn set_flags(mountpoint: &Path, mut flags: MountFlags) -> Result<(), String> {
    let now = statvfs(mountpoint)
        .map_err(|error| format!("{}: cannot be looked at: {error}", mountpoint.display()))?;
    let kept = [
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
    ];
    let stay = kept.iter().filter(|(has, _)| now.f_flag.contains(*has));
    stay.for_each(|(_, flag)| flags |= *flag);
    // Of the mount only: a FUSE file system takes no other options once it is there.
    mount_remount(mountpoint, flags | MountFlags::BIND, c"")
        .map_err(|error| format!("{}: cannot be remounted: {error}", mountpoint.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Result<Asked, String> {
        parse(text.split(' ').map(OsString::from))
    }

    #[test]
    fn options_of_mount_become_those_of_iopace() {
        let text = "/srv /mnt -o rw,nosuid,noatime,nofail,_netdev,x-systemd.before=a.service,\
                    comment=x,user,users,owner,group,noauto,defaults,lazytime,nomand,iversion,\
                    sched=fair,allow_other,while-in-use,set=wait_ms=5 -n";
        let asked = "iopace mount --flag=nosuid --flag=noatime --sched=fair --allow-other \
                     --while-in-use --set=wait_ms=5 -- /srv /mnt";
        let asked = asked.split(' ').map(OsString::from).collect();
        assert_eq!(words(text), Ok(Asked::Mount(asked)));
        assert_eq!(words("-f /srv /mnt -o ro"), Ok(Asked::Nothing));
    }

    #[test]
    fn a_remount_changes_flags_and_nothing_else() {
        let flags = MountFlags::RDONLY | MountFlags::NODEV;
        let asked = Asked::Remount("/mnt".into(), flags);
        let shown = "user_id=0,group_id=0,default_permissions,allow_other";
        assert_eq!(words(&format!("/srv /mnt -o remount,ro,nodev,{shown}")), Ok(asked));
        assert!(words("/srv /mnt -o remount,sched=fair").expect_err("no").contains("sched=fair"));
    }

    #[test]
    fn what_is_not_known_is_named() {
        for (text, named) in [
            ("/srv /mnt -o sync", "'sync' is not known"),
            ("/srv /mnt -o sched", "'sched' is not known"),
            ("/srv /mnt -x", "'-x' is not known"),
            ("/srv -o ro", "two directories"),
            ("/srv /mnt -o", "needs a list"),
        ] {
            let error = words(text).expect_err(text);
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
