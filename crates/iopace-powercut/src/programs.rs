//! Programs that can tell whether their data is sound: SQLite, git, and a log of checksummed
//! records. They run through a mount, say what they have made durable, and look at what is left
//! after a cut.

mod records;

use crate::bench::{Bench, Over};
use crate::cut::{Cutter, Names};
use crate::node::{NodeId, NodeKind, Nodes, ROOT, Random};
use crate::report::Report;
use crate::tree::Broken;
pub use records::records;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::{fs, str};

/// Succeeds where git knows `core.fsync`.
const GIT_IS_NEW: &str =
    r#"printf '%s\n' 'git version 2.36' "$(git --version)" | sort --version-sort --check"#;

/// A program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// SQLite with a rollback journal and `synchronous=EXTRA`.
    SqliteRollback,
    /// SQLite with a write-ahead log and `synchronous=FULL`.
    SqliteWal,
    /// git with `core.fsync=all`.
    Git,
}

impl Program {
    /// All of them.
    pub const ALL: [Program; 3] = [Program::SqliteRollback, Program::SqliteWal, Program::Git];

    /// How it is started: to get ready, to work, and to check.
    fn command(self, part: &str) -> Command {
        let mut command = if self == Program::Git {
            let mut command = Command::new("bash");
            command.args(["-c", include_str!("programs/git.sh"), "git", part]);
            command
        } else {
            let mode = if self == Program::SqliteWal { "wal" } else { "delete" };
            let mut command = Command::new("python3");
            command.args(["-c", include_str!("programs/sqlite.py"), part, mode]);
            command
        };
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }

    /// git counts on the order in which a journal writes names.
    fn names(self) -> Names {
        if self == Program::Git { Names::Journal } else { Names::Apart }
    }

    /// Whether it is here, and git knows `core.fsync` (2.36).
    pub fn is_there(self) -> bool {
        let (program, argument) = match self {
            Program::Git => ("bash", vec!["-c", GIT_IS_NEW]),
            _ => ("python3", vec!["-c", "import sqlite3"]),
        };
        let found = Command::new(program).args(argument).stdout(Stdio::null()).status();
        found.is_ok_and(|status| status.success())
    }
}

/// Looks at folders, one after the other.
struct Checker {
    child: Child,
    asks: ChildStdin,
    says: BufReader<ChildStdout>,
}

impl Checker {
    fn new(program: Program) -> io::Result<Checker> {
        let mut child = program.command("check").spawn()?;
        let asks = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let says = BufReader::new(child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?);
        Ok(Checker { child, asks, says })
    }

    /// Whether a folder is sound and has that many transactions.
    fn check(&mut self, folder: &Path, count: u64) -> Result<(), String> {
        let mut line = String::new();
        let asked = writeln!(self.asks, "{count} {}", folder.display());
        let said = asked.and_then(|()| self.says.read_line(&mut line));
        match line.trim() {
            "ok" => Ok(()),
            "" => Err(format!("the checker has ended: {said:?}")),
            other => Err(other.to_owned()),
        }
    }
}

impl Drop for Checker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The transactions that a program has made durable: from which moment on how many.
fn work(bench: &Bench, program: Program, transactions: u64) -> io::Result<Vec<(usize, u64)>> {
    let folder = bench.at.join("work");
    fs::create_dir(&folder)?;
    let ready = program.command("begin").current_dir(&folder).output()?;
    if !ready.status.success() {
        let said = String::from_utf8_lossy(&ready.stderr).into_owned();
        return Err(io::Error::other(said));
    }
    bench.tree.lock().begin(&["work".as_ref()]);
    let mut command = program.command("work");
    let mut child = command.arg(transactions.to_string()).current_dir(&folder).spawn()?;
    let says = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let mut promised = Vec::new();
    for line in BufReader::new(says).lines() {
        let count = line?.trim().parse().map_err(io::Error::other)?;
        promised.push((bench.tree.moment(), count));
    }
    if !child.wait()?.success() {
        return Err(io::Error::other("the program has failed"));
    }
    Ok(promised)
}

/// Runs a program through a mount, and tries so many cuts of it.
///
/// # Errors
/// The bench does not start, or a program fails.
pub fn run(
    program: Program,
    over: Over,
    (transactions, cuts): (u64, u64),
    broken: Broken,
    seed: u64,
) -> io::Result<Report> {
    let bench = Bench::mounted(over)?;
    bench.tree.lock().broken = broken;
    let promised = work(&bench, program, transactions)?;
    let (base, events) = {
        let tree = bench.tree.lock();
        (tree.base.clone(), tree.events.clone())
    };
    let mut checker = Checker::new(program)?;
    let mut report = Report { workloads: 1, ..Report::default() };
    let mut random = Random(seed);
    let mut cutter = Cutter::new(base, program.names());
    for moment in 1..=events.len() {
        cutter.push(&events[moment - 1]);
        if moment != events.len() && random.below(events.len() as u64) >= cuts {
            continue;
        }
        report.cuts += 1;
        let returned = promised.iter().filter(|(at, _)| *at <= moment);
        let count = returned.map(|(_, count)| *count).max().unwrap_or(0);
        let choices = [cutter.only(|_| false), cutter.only(|_| true)];
        for choice in choices.into_iter().chain([cutter.sample(&mut random)]) {
            let folder = tempfile::tempdir()?;
            lay_out(&cutter.state(&choice), ROOT, folder.path())?;
            let checked = checker.check(&folder.path().join("work"), count);
            report.checked(checked, || {
                format!("{program:?}, seed {seed}, event {moment}: {count} transactions")
            });
        }
    }
    Ok(report)
}

/// Makes real files of nodes.
fn lay_out(nodes: &Nodes, directory: NodeId, at: &Path) -> io::Result<()> {
    let Some(found) = nodes.get(&directory) else { return Ok(()) };
    for (name, id) in &found.entries {
        let path = at.join(name);
        match nodes.get(id).map(|node| (&node.kind, node)) {
            Some((NodeKind::File, node)) => {
                fs::write(&path, &node.data)?;
                let mode = fs::Permissions::from_mode(node.mode & 0o777 | 0o600);
                fs::set_permissions(&path, mode)?;
            }
            Some((NodeKind::Directory, _)) => {
                fs::create_dir(&path)?;
                lay_out(nodes, *id, &path)?;
            }
            Some((NodeKind::Link(target), _)) => std::os::unix::fs::symlink(target, &path)?,
            None => {}
        }
    }
    Ok(())
}
