//! `iopace setup`: a directory behind iopace at every boot, and away again.
//!
//! ```text
//!   facts.rs      the directory, what it is on, and the services that work in it (services.rs)
//!      │
//!      ▼
//!   plan.rs       the files (texts.rs) and commands that come of it; shown before they are made
//!      │
//!      ▼
//!   apply.rs      a record first, then the files, then systemd; all is taken back where one fails
//!   undo.rs       what the record names, but files that somebody has changed since
//!      │
//!      └─► root.rs   files below one root; no link leads out of it
//! ```

mod apply;
mod facts;
mod plan;
mod record;
mod root;
mod services;
mod systemd;
mod texts;
mod undo;

use crate::cli::SetupArgs;
use crate::output::{Failure, note, print};
use crate::pasted::shell;
use plan::SetupPlan;
use record::SetupRecord;
use root::SetupRoot;
use rustix::process::geteuid;
use std::io::{IsTerminal as _, stdin};
use std::path::{Path, PathBuf};
use systemd::Systemd;

/// Sets up, or takes away.
///
/// # Errors
/// What is in the way; nothing was changed, or all was taken back.
pub fn run(args: &SetupArgs) -> Result<(), Failure> {
    let place = SetupPlace::of(args)?;
    match args.undo {
        true => undo(args, &place),
        false => set_up(args, &place),
    }
}

/// The root that is set up, and whether a systemd runs in it.
#[derive(Debug)]
struct SetupPlace {
    root: SetupRoot,
    systemd: Systemd,
}

impl SetupPlace {
    fn of(args: &SetupArgs) -> Result<SetupPlace, Failure> {
        let path = args.root.as_deref().unwrap_or(Path::new("/"));
        if args.root.is_none() && !geteuid().is_root() && !args.dry_run {
            return Err(Failure::new(
                "only root sets a directory up: say 'sudo iopace setup', or --dry-run to see what \
                 it would do",
            ));
        }
        let root = SetupRoot::open(path)?;
        let systemd = Systemd { runs: args.root.is_none() && systemd::runs() };
        if args.start && !systemd.runs {
            let reason = match &args.root {
                Some(_) => "nothing is started with --root",
                None => "no systemd runs here",
            };
            return Err(Failure::usage(format!("--start: {reason}; leave it out")));
        }
        Ok(SetupPlace { root, systemd })
    }
}

fn set_up(args: &SetupArgs, place: &SetupPlace) -> Result<(), Failure> {
    let facts = facts::look(&args.dir, &place.root, args.root.is_some())?;
    let starts = place.systemd.runs && !args.no_start;
    let plan = SetupPlan::of(&facts, &place.root, &place.systemd, starts)?;
    print(&plan.to_string())?;
    if args.dry_run {
        return Ok(());
    }
    plan.check_free(&place.root)?;
    if starts {
        facts.check_startable()?;
    }
    if !is_wanted(args, "do it?")? {
        return Err(Failure::new("nothing was done"));
    }
    apply::apply(&plan, &place.root, &place.systemd)?;
    let shown = facts.directory.display();
    let root = args.root.as_ref().map(|root| format!("--root {} ", shell(root)));
    let root = root.unwrap_or_default();
    let undo = format!("undo: iopace setup {root}--undo {}\n", shell(&facts.directory));
    match starts {
        true => print(&format!("{shown}: is mounted, and will be at every boot\n{undo}")),
        false => print(&format!("{shown}: is set up; nothing was started\n{undo}")),
    }
}

fn undo(args: &SetupArgs, place: &SetupPlace) -> Result<(), Failure> {
    let absolute = std::path::absolute(&args.dir)
        .map_err(|error| Failure::usage(format!("{}: {error}", args.dir.display())))?;
    // The directory itself need not be there any more.
    let resolved = args.root.is_none().then(|| resolved(&absolute)).flatten();
    let found = [Some(absolute.clone()), resolved].into_iter().flatten();
    let found = found.filter_map(|dir| SetupRecord::read(&place.root, &dir).transpose()).next();
    let Some(record) = found.transpose()? else {
        return Err(Failure::new(format!(
            "{}: is not set up by 'iopace setup': there is no record of it in {}",
            absolute.display(),
            record::FOLDER
        )));
    };
    let plan = undo::UndoPlan::of(&record, &place.root, &place.systemd)?;
    print(&plan.to_string())?;
    if args.dry_run {
        return Ok(());
    }
    plan.check_unused()?;
    if !is_wanted(args, "undo it?")? {
        return Err(Failure::new("nothing was done"));
    }
    let kept = plan.carry_out(&place.root, &place.systemd)?;
    for path in kept {
        note(format_args!("kept, as it was changed by hand: {}", path.display()));
    }
    print(&format!("{}: is not set up any more\n", record.directory.display()))
}

/// The path in full; nothing of a mount is touched.
fn resolved(path: &Path) -> Option<PathBuf> {
    let table = iopace_daemon::mount_table::read().ok()?;
    iopace_daemon::mount_table::resolve(path, &table).ok()
}

/// Asks on a terminal, unless the answer was given before.
fn is_wanted(args: &SetupArgs, question: &str) -> Result<bool, Failure> {
    if args.yes {
        return Ok(true);
    }
    if !stdin().is_terminal() {
        return Err(Failure::usage(
            "nobody can be asked here: say --yes to do it, or --dry-run to see only",
        ));
    }
    note(format_args!("{question} [y/N]"));
    let mut answer = String::new();
    let read = stdin().read_line(&mut answer);
    read.map_err(|error| Failure::new(format!("no answer can be read: {error}")))?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}
