//! Takes away what setup has made for a directory.

use super::record::SetupRecord;
use super::root::{SetupRoot, Standing};
use super::services::is_of;
use super::systemd::Systemd;
use crate::output::Failure;
use crate::pasted::service_of;
use iopace_daemon::fuse::mounting::busy::{self, User};
use iopace_daemon::fuse::mounting::users::users;
use iopace_daemon::limits::{BUSY_LOOKS, BUSY_STEP};
use iopace_daemon::mount_table;
use iopace_daemon::printable;
use std::fmt;
use std::path::{Path, PathBuf};
use std::thread;

/// What is taken away, and what stays.
#[derive(Debug)]
pub(super) struct UndoPlan<'a> {
    record: &'a SetupRecord,
    /// Files that stand there as they were made.
    removed: Vec<&'a Path>,
    /// Files that somebody has changed or exchanged since.
    kept: Vec<PathBuf>,
    /// The service, if it is up.
    stops: Option<&'a str>,
    /// Whether systemd reads its units anew.
    reloads: bool,
}

impl<'a> UndoPlan<'a> {
    /// That of a record.
    ///
    /// # Errors
    /// A file cannot be looked at.
    pub(super) fn of(
        record: &'a SetupRecord,
        root: &SetupRoot,
        systemd: &Systemd,
    ) -> Result<UndoPlan<'a>, Failure> {
        let (mut removed, mut kept) = (Vec::new(), Vec::new());
        for (path, made) in &record.files {
            match root.standing(path)? {
                Standing::Nothing => {}
                standing if made.is(&standing) => removed.push(&**path),
                _ => kept.push(root.shown(path)),
            }
        }
        let stops = record.unit.as_deref().filter(|unit| systemd.is_up(unit));
        let reloads = systemd.runs && record.unit.is_some();
        Ok(UndoPlan { record, removed, kept, stops, reloads })
    }

    /// Whether the service can be stopped without cutting anybody off: services that require it are
    /// stopped before it.
    ///
    /// # Errors
    /// Who uses the mount.
    pub(super) fn check_unused(&self) -> Result<(), Failure> {
        if self.stops.is_none() {
            return Ok(());
        }
        let directory = &self.record.directory;
        let table = mount_table::read().unwrap_or_default();
        let Some(entry) = mount_table::at(&table, directory).filter(|entry| entry.is_ours()) else {
            return Ok(());
        };
        let is_other = |user: &User| {
            let service = service_of(user.pid);
            let ends = |service: String| self.record.services.iter().any(|of| is_of(&service, of));
            !service.is_some_and(ends)
        };
        let look =
            || -> Vec<User> { users(entry.device).users.into_iter().filter(is_other).collect() };
        let mut others = look();
        for _ in 1..BUSY_LOOKS {
            if others.is_empty() {
                break;
            }
            // SLEEP: who only looks at it in passing (`df`, `lsof`) has left it after this time.
            thread::sleep(BUSY_STEP);
            others = look();
        }
        match others.is_empty() {
            true => Ok(()),
            false => Err(Failure::new(format!(
                "{}: is in use by {}, who would be cut off; nothing was done: end that first",
                directory.display(),
                busy::list(&others)
            ))),
        }
    }

    /// Does it; the files that were kept.
    ///
    /// # Errors
    /// The service does not stop, and nothing was removed; or a file cannot be removed, and the
    /// record stays.
    pub(super) fn carry_out(
        &self,
        root: &SetupRoot,
        systemd: &Systemd,
    ) -> Result<Vec<PathBuf>, Failure> {
        if let Some(unit) = self.stops {
            systemd.stop(unit).map_err(|failure| failure.but("nothing was removed"))?;
        }
        // In the order opposite to that in which they were made; what was changed meanwhile stays.
        let mut kept = self.kept.clone();
        for (path, made) in self.record.files.iter().rev() {
            if !self.removed.contains(&&**path) {
                continue;
            }
            match made.is(&root.standing(path)?) {
                true => root.remove(path)?,
                false => kept.push(root.shown(path)),
            }
        }
        root.remove(&SetupRecord::path_of(&self.record.directory))?;
        for folder in self.record.folders.iter().rev() {
            root.remove_folder(folder)?;
        }
        systemd.reload()?;
        Ok(kept)
    }
}

impl fmt::Display for UndoPlan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |path: &Path| printable::name(&path.display().to_string()).into_owned();
        writeln!(f, "{}:", shown(&self.record.directory))?;
        if let Some(unit) = self.stops {
            let unit = crate::units::shell_word(&printable::name(unit));
            writeln!(f, "\nwill run:\n  systemctl stop {unit}")?;
            for service in &self.record.services {
                writeln!(f, "    (stops {} as well, which requires it)", printable::name(service))?;
            }
        }
        writeln!(f, "\nwill remove:")?;
        for path in &self.removed {
            writeln!(f, "  {}", shown(path))?;
        }
        writeln!(f, "  {}", shown(&SetupRecord::path_of(&self.record.directory)))?;
        for folder in &self.record.folders {
            writeln!(f, "  {}/, if nothing else is in it", shown(folder))?;
        }
        for path in &self.kept {
            writeln!(f, "\nwill keep, as it was changed by hand: {}", shown(path))?;
        }
        if self.reloads {
            writeln!(f, "\nwill run:\n  systemctl daemon-reload")?;
        }
        writeln!(f)
    }
}
