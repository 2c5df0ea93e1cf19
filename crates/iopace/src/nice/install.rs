//! `iopace nice --install` and `--remove`: a service or a program is gentle whenever it runs.
//!
//! A service has a drop-in in the folder of the system's units, or of the user's, which is made or
//! removed as a whole; a program has a rule in the configuration files of the daemons with mounts.
//! What is written is said before.

use super::failed;
use super::rule;
use super::unit::{self, MARK, Service, Subject};
use crate::cli::{Deadline, NiceArgs};
use crate::output::{Failure, note, print};
use iopace_daemon::runtime_files::{Distrust, RuntimeDir};
use rustix::process::geteuid;
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The name of our drop-in: after all others, as one after it that says what is started would have
/// it started without iopace.
const FILE: &str = "zz-iopace-nice.conf";

/// The program where a package installs it.
const INSTALLED: &str = "/usr/bin/iopace";

/// So many links a unit may be.
const LINKS_MAX: u32 = 8;

/// Longest file of a unit that is read.
const UNIT_BYTES_MAX: u64 = 1 << 20;

/// Where units of the system are, the first before the others.
const SYSTEM: [&str; 6] = [
    "etc/systemd/system",
    "run/systemd/system",
    "run/systemd/generator",
    "usr/local/lib/systemd/system",
    "usr/lib/systemd/system",
    "lib/systemd/system",
];

/// Where units of users are, after the folder of the user himself.
const USER: [&str; 4] =
    ["etc/systemd/user", "run/systemd/user", "usr/local/lib/systemd/user", "usr/lib/systemd/user"];

/// Makes it lasting.
///
/// # Errors
/// There is no such service, or it cannot be written to.
pub(super) fn install(args: &NiceArgs, name: &str) -> Result<(), Failure> {
    match Subject::of(name).map_err(Failure::usage)? {
        Subject::Service(service) => Folders::of(args)?.install(args, &service),
        Subject::Program(program) => rule::install(args, &program),
    }
}

/// Takes away what [`install`] has made, and nothing else.
///
/// # Errors
/// There is nothing of ours, or it cannot be removed.
pub(super) fn remove(args: &NiceArgs, name: &str) -> Result<(), Failure> {
    match Subject::of(name).map_err(Failure::usage)? {
        Subject::Service(service) => Folders::of(args)?.remove(&service),
        Subject::Program(program) => rule::remove(args, &program),
    }
}

/// The folders of units of this user; drop-ins are made in the first one.
struct Folders {
    all: Vec<PathBuf>,
    is_system: bool,
    /// All is in this directory, whatever links say.
    root: PathBuf,
    /// A systemd goes by them at this moment.
    is_live: bool,
}

impl Folders {
    fn of(args: &NiceArgs) -> Result<Folders, Failure> {
        let root = args.root.clone().unwrap_or_else(|| "/".into());
        let is_system = geteuid().is_root();
        let mut all: Vec<PathBuf> = if is_system { &SYSTEM[..] } else { &USER[..] }
            .iter()
            .map(|folder| root.join(folder))
            .collect();
        if !is_system {
            let own = user_folder()
                .ok_or_else(|| failed("neither HOME nor XDG_CONFIG_HOME says where units are"))?;
            all.insert(0, root.join(own.strip_prefix("/").unwrap_or(&own)));
        }
        let is_live = args.root.is_none() && Path::new("/run/systemd/system").is_dir();
        let root = root.canonicalize();
        let root = root.map_err(|error| failed(format!("--root: {error}")))?;
        Ok(Folders { all, is_system, root, is_live })
    }

    fn install(&self, args: &NiceArgs, name: &str) -> Result<(), Failure> {
        let name = &*self.own_name(name)?;
        let (service, later) = self.read(name)?;
        let folder = self.drop_ins(name);
        self.inside(&folder)?;
        let former = own_text(&folder)?;
        let makes_directory = match &former {
            Some(former) => unit::made_directory(former),
            None => !folder.exists(),
        };
        let goals = goals(args);
        if let Some(later) = later.filter(|_| !goals.is_empty()) {
            return Err(failed(format!(
                "{} is read after {FILE} and says what is started, without iopace: give it a name \
                 that comes before",
                later.display()
            )));
        }
        let front = (!goals.is_empty()).then(|| front(&goals, args.root.is_some())).transpose()?;
        let asked = format!("iopace nice --install {name} {}", goals.join(" "));
        let text = service
            .drop_in(asked.trim_end(), front.as_deref(), makes_directory)
            .map_err(|error| failed(format!("{name}: {error}")))?;
        let path = folder.join(FILE);
        if former.as_ref() == Some(&text) {
            return print(&format!("{} says so already\n", path.display()));
        }
        print(&format!("writes {}:\n{text}", path.display()))?;
        if args.keep_p99.is_some() || args.limit.is_some() {
            note(format_args!(
                "iopace nice: {name} will not start while nothing can hold {}: let a mount of \
                 iopace start before it (After= and Requires=)",
                goals.join(" ")
            ));
        }
        write(&folder, &text).map_err(|error| failed(format!("{}: {error}", path.display())))?;
        self.reload();
        print(&format!("holds from the next start of {name} on\n"))
    }

    fn remove(&self, name: &str) -> Result<(), Failure> {
        // One whose unit is gone by now may have a drop-in still.
        let own = self.own_name(name).unwrap_or_else(|_| name.into());
        let name = &*own;
        let folder = self.drop_ins(name);
        self.inside(&folder)?;
        let path = folder.join(FILE);
        let Some(text) = own_text(&folder)? else {
            return Err(failed(format!("{name}: there is no {}", path.display())));
        };
        print(&format!("removes {}\n", path.display()))?;
        let removed = fs::remove_file(&path);
        removed.map_err(|error| failed(format!("{}: {error}", path.display())))?;
        if unit::made_directory(&text) {
            // Somebody has put something there since: it stays.
            let _ = fs::remove_dir(&folder);
        }
        self.reload();
        print(&format!("holds from the next start of {name} on\n"))
    }

    fn drop_ins(&self, name: &str) -> PathBuf {
        self.all[0].join(format!("{name}.d"))
    }

    /// The file of a service, or of its template.
    fn main_file(&self, name: &str) -> Result<PathBuf, Failure> {
        let names = [Some(name.to_owned()), template_of(name)].into_iter().flatten();
        let mut places = names.flat_map(|name| self.all.iter().map(move |at| at.join(&name)));
        places.find(|path| fs::symlink_metadata(path).is_ok()).ok_or_else(|| {
            let all: Vec<String> = self.all.iter().map(|one| one.display().to_string()).collect();
            failed(format!("there is no {name} in {}", all.join(", ")))
        })
    }

    /// The name under which a service has its drop-ins: of an alias that of its unit.
    fn own_name(&self, name: &str) -> Result<String, Failure> {
        let mut own = name.to_owned();
        for _ in 0..LINKS_MAX {
            let Ok(to) = fs::read_link(self.main_file(&own)?) else { break };
            let to = to.file_name().and_then(OsStr::to_str).unwrap_or_default();
            match Subject::of(to) {
                Ok(Subject::Service(next)) if next != own && !next.contains('@') => own = next,
                _ => break,
            }
        }
        Ok(own)
    }

    /// A service as all its files say it but ours, and the one of them that says what is started
    /// and is read after ours.
    fn read(&self, name: &str) -> Result<(Service, Option<PathBuf>), Failure> {
        let names = [Some(name.to_owned()), template_of(name)];
        let names: Vec<String> = names.into_iter().flatten().collect();
        let (mut service, mut later) = (Service::default(), None);
        let main = self.main_file(name)?;
        let files = std::iter::once(main).chain(self.drop_in_files(&names));
        for (number, path) in files.enumerate() {
            let text = text_of(&path).map_err(|error| not_read(&path, &error))?;
            self.inside(&path)?;
            service.read(&text);
            let is_after = path.file_name() > Some(OsStr::new(FILE));
            if number > 0 && is_after && Service::is_started_by(&text) {
                later = Some(path);
            }
        }
        Ok((service, later))
    }

    /// Refuses what links lead out of the root: what is elsewhere is another system's.
    fn inside(&self, path: &Path) -> Result<(), Failure> {
        let there = path.ancestors().find_map(|part| part.canonicalize().ok());
        match there.is_some_and(|there| there.starts_with(&self.root)) {
            true => Ok(()),
            false => Err(failed(format!(
                "{}: links lead out of {}: name the file that is meant there",
                path.display(),
                self.root.display()
            ))),
        }
    }

    /// The drop-ins of others, in their order: that of a name is the first one of that name.
    fn drop_in_files(&self, names: &[String]) -> Vec<PathBuf> {
        let mut found: Vec<PathBuf> = Vec::new();
        let all = self.all.iter();
        let folders = all.flat_map(|at| names.iter().map(move |name| at.join(format!("{name}.d"))));
        for folder in folders {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = entry.path();
                let is_meant = path.extension() == Some(OsStr::new("conf"))
                    && path.file_name() != Some(OsStr::new(FILE))
                    && found.iter().all(|one| one.file_name() != path.file_name());
                if is_meant {
                    found.push(path);
                }
            }
        }
        found.sort_by_key(|path| path.file_name().map(OsStr::to_owned));
        found
    }

    /// Has systemd read its units anew.
    fn reload(&self) {
        if !self.is_live {
            return;
        }
        let words: &[&str] =
            if self.is_system { &["daemon-reload"] } else { &["--user", "daemon-reload"] };
        let status = Command::new("systemctl").arg("--no-ask-password").args(words).status();
        if !status.is_ok_and(|status| status.success()) {
            note(format_args!("warning: run 'systemctl {}'", words.join(" ")));
        }
    }
}

/// `$XDG_CONFIG_HOME/systemd/user` of this user.
fn user_folder() -> Option<PathBuf> {
    let named = |name| std::env::var_os(name).map(PathBuf::from).filter(|dir| dir.is_absolute());
    let config = named("XDG_CONFIG_HOME").or_else(|| Some(named("HOME")?.join(".config")))?;
    Some(config.join("systemd/user"))
}

/// The template of an instance: `restic@.service` of `restic@srv.service`.
fn template_of(name: &str) -> Option<String> {
    let (template, instance) = name.strip_suffix(".service")?.split_once('@')?;
    (!instance.is_empty()).then(|| format!("{template}@.service"))
}

fn not_read(path: &Path, error: &io::Error) -> Failure {
    failed(format!("{} cannot be read: {error}", path.display()))
}

/// The text of a file of a unit, which may be a link; one to `/dev/null` is none.
fn text_of(path: &Path) -> io::Result<String> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is masked, or no file"));
    }
    let mut text = String::new();
    File::open(path)?.take(UNIT_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// The text of our drop-in, if it is there.
fn own_text(folder: &Path) -> Result<Option<String>, Failure> {
    let path = folder.join(FILE);
    let folder = match RuntimeDir::open(folder) {
        Ok(folder) => folder,
        Err(error) if error.is_missing() => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let text = match folder.read(OsStr::new(FILE), UNIT_BYTES_MAX) {
        Ok((_, text)) => String::from_utf8_lossy(&text).into_owned(),
        Err(error) if error.is_missing() => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    match text.starts_with(MARK) {
        true => Ok(Some(text)),
        false => Err(failed(format!("{} is not of iopace: it stays", path.display()))),
    }
}

/// Writes our drop-in as a whole; the directory is made if it is missing.
fn write(folder: &Path, text: &str) -> io::Result<()> {
    if let Some(parent) = folder.parent() {
        fs::create_dir_all(parent)?;
        // Nobody else can put a link in the place of what is made here.
        RuntimeDir::open(parent).map_err(Distrust::into_io)?;
    }
    match fs::create_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => made.and_then(|()| fs::set_permissions(folder, Permissions::from_mode(0o755)))?,
    }
    RuntimeDir::open(folder).map_err(Distrust::into_io)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.as_file().set_permissions(Permissions::from_mode(0o644))?;
    file.as_file().sync_all()?;
    file.persist(folder.join(FILE))?;
    File::open(folder)?.sync_all()
}

/// The goals as they are asked for.
fn goals(args: &NiceArgs) -> Vec<String> {
    let by = args.by.map(|by| match by {
        Deadline::Clock(hour, minute) => format!("{hour:02}:{minute:02}"),
        Deadline::Within(time) => format!("{}ms", time.0 / 1_000_000),
    });
    let all = [
        ("--by", by),
        ("--keep-p99", args.keep_p99.map(|time| format!("{}us", time.0 / 1_000))),
        ("--limit", args.limit.map(|rate| rate.0.to_string())),
        ("--size", args.size.map(|size| size.0.to_string())),
    ];
    let all = all.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?]));
    all.flatten().collect()
}

/// The command that is put in front of those of a service; ours is not in another system.
fn front(goals: &[String], is_elsewhere: bool) -> Result<String, Failure> {
    let own = match is_elsewhere {
        true => PathBuf::from(INSTALLED),
        false => std::env::current_exe().map_err(failed)?,
    };
    let own = unit::program(&own).map_err(failed)?;
    let goals: Vec<String> = goals.iter().map(|word| unit::word(word)).collect();
    Ok(format!("{own} nice --quiet {}", goals.join(" ")))
}
