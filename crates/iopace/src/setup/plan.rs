//! What setup will do, before it does anything.

use super::facts::SetupFacts;
use super::record::{MadeFile, SetupRecord};
use super::root::{SetupRoot, Standing, WRITABLE};
use super::services::{order_of, template};
use super::systemd::{Systemd, escaped, unit_of};
use super::{services, texts};
use crate::output::Failure;
use crate::pasted::shell;
use iopace_daemon::printable;
use iopace_daemon::runtime_files::RuntimeDir;
use rustix::process::geteuid;
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The files and commands, in their order.
#[derive(Debug)]
pub(super) struct SetupPlan {
    /// What was found, for people.
    found: Vec<String>,
    /// All that is made, and the record of it.
    pub(super) record: SetupRecord,
    /// The folders that are missing, those of the record first, the topmost first.
    pub(super) missing: Vec<PathBuf>,
    /// Whether the service is started at the end.
    pub(super) starts: bool,
    /// Whether systemd reads its units anew.
    reloads: bool,
    /// What is left out, and how it is done by hand.
    left_out: Option<String>,
}

impl SetupPlan {
    /// That of a directory.
    ///
    /// # Errors
    /// Something of it cannot be written, or the binary is not one for a service.
    pub(super) fn of(
        facts: &SetupFacts,
        root: &SetupRoot,
        systemd: &Systemd,
        starts: bool,
    ) -> Result<SetupPlan, Failure> {
        let directory = &facts.directory;
        let config = PathBuf::from(format!("/etc/iopace/mounts/{}.toml", escaped(directory)));
        let mut files =
            vec![(config.clone(), MadeFile::Text(texts::configuration(facts, &config)?))];
        let has_units = services::FOLDERS.iter().any(|folder| root.has_folder(Path::new(folder)));
        if has_units {
            files.extend(units(facts, root)?);
        }
        let own = SetupRecord::path_of(directory);
        let paths = || std::iter::once(&own).chain(files.iter().map(|(path, _)| path));
        let missing = missing(paths(), root);
        // The last directory that is undone takes away what the first one has made for all.
        let shared = SetupRecord::folders_of_all(root);
        let of_ours = |folder: &&PathBuf| paths().any(|path| path.starts_with(folder));
        let mut folders: Vec<PathBuf> = shared.iter().filter(of_ours).cloned().collect();
        folders.extend(missing.iter().filter(|folder| !shared.contains(*folder)).cloned());
        folders.sort();
        let record = SetupRecord {
            directory: directory.clone(),
            unit: has_units.then(|| unit_of(directory)),
            services: facts.services.iter().map(|service| service.name.clone()).collect(),
            folders,
            files,
        };
        Ok(SetupPlan {
            found: found(facts),
            missing,
            record,
            starts: starts && has_units,
            reloads: systemd.runs && has_units,
            left_out: left_out(directory, &config, (systemd.runs, has_units, starts)),
        })
    }

    /// Whether nothing stands where something is to be made.
    ///
    /// # Errors
    /// What stands there.
    pub(super) fn check_free(&self, root: &SetupRoot) -> Result<(), Failure> {
        let directory = self.record.directory.display();
        if SetupRecord::read(root, &self.record.directory)?.is_some() {
            let at = shell(&self.record.directory);
            return Err(Failure::new(format!(
                "{directory}: is set up already; 'iopace setup --undo {at}' takes that away"
            )));
        }
        for (path, _) in &self.record.files {
            if root.standing(path)? != Standing::Nothing {
                return Err(Failure::new(format!(
                    "{}: is there already, and setup has not made it; nothing was done: move it \
                     away, or set {directory} up by hand (docs/mount.md)",
                    root.shown(path).display()
                )));
            }
        }
        Ok(())
    }
}

/// The directories that these files lack, each once.
fn missing<'a>(paths: impl Iterator<Item = &'a PathBuf>, root: &SetupRoot) -> Vec<PathBuf> {
    let mut missing: Vec<PathBuf> = Vec::new();
    for folder in paths.flat_map(|path| root.missing_folders(path)) {
        if !missing.contains(&folder) {
            missing.push(folder);
        }
    }
    missing
}

/// What is left to be done by hand, if anything is.
fn left_out(
    directory: &Path,
    config: &Path,
    (runs, has_units, starts): (bool, bool, bool),
) -> Option<String> {
    let by_hand = format!("iopace mount --config {}", shell(config));
    match (has_units, runs, starts) {
        (false, ..) => Some(format!(
            "there is no systemd: no unit and no order are made; have your own start script run: \
             {by_hand}"
        )),
        (true, false, _) => Some(format!(
            "no systemd runs here: nothing is started; its next boot does it, or by hand: {by_hand}"
        )),
        (true, true, false) => {
            let unit = crate::units::shell_word(&unit_of(directory));
            Some(format!("nothing is started; by hand: systemctl start {unit}"))
        }
        (true, true, true) => None,
    }
}

/// The unit, if it is not installed; its configuration, its start at boot, and the order.
fn units(facts: &SetupFacts, root: &SetupRoot) -> Result<Vec<(PathBuf, MadeFile)>, Failure> {
    let (directory, unit) = (&facts.directory, unit_of(&facts.directory));
    let etc = Path::new(services::FOLDERS[0]);
    let mut files = Vec::new();
    let (of, binary) = match template(root) {
        Some((path, text)) => {
            let binary = texts::binary_of(&text).unwrap_or("/usr/bin/iopace").to_owned();
            (path, binary)
        }
        None => {
            let binary = match root.is_machine() {
                true => own_binary()?,
                // An image has it where packages put it.
                false => "/usr/bin/iopace".into(),
            };
            let own = etc.join(&unit);
            files.push((own.clone(), MadeFile::Text(texts::unit(&binary))));
            (own, binary)
        }
    };
    let drop_in = etc.join(format!("{unit}.d/iopace-setup.conf"));
    files.push((drop_in, MadeFile::Text(texts::drop_in(&binary))));
    for service in &facts.services {
        let path = order_of(&service.name, directory);
        files.push((path, MadeFile::Text(texts::order(directory))));
    }
    // The last one: a boot in between finds all or nothing of it.
    files.push((etc.join("multi-user.target.wants").join(unit), MadeFile::Link(of)));
    Ok(files)
}

/// This binary, if nobody else can exchange it: root starts it at every boot.
fn own_binary() -> Result<String, Failure> {
    let path = std::env::current_exe().and_then(|path| path.canonicalize());
    let path = path.map_err(|error| Failure::new(format!("this binary: {error}")))?;
    let is_safe = path.parent().is_some_and(RuntimeDir::is_safe_parent) && is_ours_alone(&path);
    match path.to_str().filter(|text| !text.contains(['%', '"', '\'', '\\', ' ', '$', '\n'])) {
        Some(text) if is_safe => Ok(text.to_owned()),
        _ => Err(Failure::new(format!(
            "{}: others could exchange this binary, or a unit cannot name it, and root would start \
             it at every boot: install it ('make install', or the package)",
            path.display()
        ))),
    }
}

/// Whether nobody but root and we can write to a file, which no link is.
fn is_ours_alone(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| {
        let is_own = found.uid() == 0 || found.uid() == geteuid().as_raw();
        is_own && found.is_file() && found.mode() & WRITABLE == 0
    })
}

fn found(facts: &SetupFacts) -> Vec<String> {
    let mut all = facts.below.clone();
    let works = facts.services.iter();
    all.extend(works.map(|one| format!("{} works in it: {}", one.name, one.reason)));
    all
}

impl fmt::Display for SetupPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |text: &str| printable::name(text).into_owned();
        let shown = |path: &Path| name(&path.display().to_string());
        writeln!(f, "{}:", shown(&self.record.directory))?;
        for line in &self.found {
            writeln!(f, "  {}", name(line))?;
        }
        let at = SetupRecord::path_of(&self.record.directory);
        writeln!(f, "\nwill make:")?;
        for folder in &self.missing {
            writeln!(f, "  {}/", shown(folder))?;
        }
        writeln!(f, "  {}, the record for --undo", shown(&at))?;
        for (path, made) in &self.record.files {
            match made {
                MadeFile::Link(to) => writeln!(f, "  {} -> {}", shown(path), shown(to))?,
                MadeFile::Text(text) => {
                    writeln!(f, "  {}", shown(path))?;
                    for line in text.lines() {
                        writeln!(f, "    | {}", name(line))?;
                    }
                }
            }
        }
        let unit = self.record.unit.as_deref().unwrap_or_default();
        if self.reloads {
            writeln!(f, "\nwill run:\n  systemctl daemon-reload")?;
        }
        if self.starts {
            writeln!(f, "  systemctl start {}", crate::units::shell_word(&name(unit)))?;
        }
        if let Some(line) = &self.left_out {
            writeln!(f, "\nleft out: {}", name(line))?;
        }
        writeln!(f)
    }
}
