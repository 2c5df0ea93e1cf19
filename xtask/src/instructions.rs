//! `cargo xtask instructions`: how many instructions a request costs in the core.
//!
//! Time depends on the machine and on what else it does; the number of instructions does not.
//! `policy_loop` puts N and then 2N requests through a whole engine, accounting included, under
//! callgrind; the difference divided by N is the cost of one request without that of the start.
//! The loops follow from the registry of schedulers (`policy_loop --cases`).
//! The bounds are in [`PATH`], for one compiler: another one emits other code, and is told apart
//! by its version.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the bounds are kept.
const PATH: &str = "crates/iopace-core/instructions.txt";

/// A count may stand above its bound by one part in so many, 3 %: the C library's copies differ
/// with the processor, and the layout of code with unrelated changes.
const SLACK_PART: u64 = 33;

const REMEDY: &str = "find the cause with `valgrind --tool=callgrind` and `callgrind_annotate`; \
     if the cost is meant, `cargo xtask instructions --write` writes the bounds anew, and the \
     commit says why";

/// One loop: what `policy_loop` is asked for. With groups there is one task for each.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Case {
    scheduler: String,
    tasks: u64,
    groups: u64,
}

impl Case {
    /// One of the lines of `policy_loop --cases`, which makes them from the registry.
    fn parse(line: &str) -> Option<Case> {
        let mut words = line.split(' ');
        let scheduler = words.next()?.to_owned();
        let mut number = || words.next()?.parse().ok();
        Some(Case { scheduler, tasks: number()?, groups: number()? })
    }

    /// Its line in the file, without the number.
    fn name(&self) -> String {
        format!("{} {} {}", self.scheduler, self.tasks, self.groups)
    }

    /// N: each task has come several times, or the memory of new ones would count.
    fn requests_count(&self) -> u64 {
        (self.tasks * 2).max(8_000)
    }
}

/// Compares the counts with the bounds.
pub fn run(root: &Path) -> Result<(), String> {
    let Some(compiler) = ready(root)? else { return Ok(()) };
    let text = fs::read_to_string(root.join(PATH)).map_err(|error| {
        format!("cannot read {PATH}: {error}; `cargo xtask instructions --write` makes it")
    })?;
    let bounds = Bounds::parse(&text)?;
    if bounds.compiler != compiler {
        println!("skipped: bounds are for {}, this is {compiler}", bounds.compiler);
        return Ok(());
    }
    let found = bounds.judge(&count_all(root)?);
    if found.is_empty() {
        return Ok(());
    }
    Err(format!("instructions: {}\n{REMEDY}", found.join("\n  ")))
}

/// Writes the bounds anew: what is counted now, by this compiler.
pub fn write(root: &Path) -> Result<(), String> {
    let Some(compiler) = ready(root)? else { return Err("instructions: cannot count".into()) };
    let counts = count_all(root)?;
    let text = Bounds { compiler, counts }.text();
    fs::write(root.join(PATH), text).map_err(|error| format!("cannot write {PATH}: {error}"))
}

/// The compiler, or `None` where nothing can be counted, which is said.
fn ready(root: &Path) -> Result<Option<String>, String> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("skipped: no valgrind (`make setup` installs it)");
        return Ok(None);
    }
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = output(root, &rustc, &["--version"])?;
    Ok(Some(format!("{} on {}", version.trim(), std::env::consts::ARCH)))
}

/// Counts all cases, one after the other.
fn count_all(root: &Path) -> Result<Vec<(String, u64)>, String> {
    let program = build(root)?;
    let mut counts = Vec::new();
    for case in cases(root, &program)? {
        let count = count(root, &program, &case)?;
        println!("instructions: {:>5} per request, {}", count, case.name());
        counts.push((case.name(), count));
    }
    Ok(counts)
}

/// The loops of all schedulers.
fn cases(root: &Path, program: &Path) -> Result<Vec<Case>, String> {
    let told = output(root, program, &["--cases"])?;
    let cases: Option<Vec<Case>> = told.lines().map(Case::parse).collect();
    cases.filter(|cases| !cases.is_empty()).ok_or_else(|| {
        format!("instructions: {} --cases says `{told}`, no cases", program.display())
    })
}

fn build(root: &Path) -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let words =
        ["build", "--release", "--locked", "-q", "-p", "iopace-core", "--example", "policy_loop"];
    output(root, &cargo, &words)?;
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(root.join(target).join("release/examples/policy_loop"))
}

/// Instructions per request of a case.
fn count(root: &Path, program: &Path, case: &Case) -> Result<u64, String> {
    let requests_count = case.requests_count();
    let once = collected(root, program, case, requests_count)?;
    let twice = collected(root, program, case, 2 * requests_count)?;
    Ok(twice.saturating_sub(once) / requests_count)
}

/// Instructions of one run with so many requests.
fn collected(root: &Path, program: &Path, case: &Case, count: u64) -> Result<u64, String> {
    let numbers = [case.tasks, count, case.groups].map(|number| number.to_string());
    let mut command = Command::new("valgrind");
    command.current_dir(root).args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    command.arg(program).arg(&case.scheduler).args(numbers);
    let output =
        command.output().map_err(|error| format!("instructions: cannot run valgrind: {error}"))?;
    let told = String::from_utf8_lossy(&output.stderr);
    let number = told.lines().find_map(|line| line.split_once("Collected : ")?.1.parse().ok());
    number.filter(|_| output.status.success()).ok_or_else(|| {
        format!("instructions: {} failed under valgrind:\n{told}", program.display())
    })
}

fn output(root: &Path, program: impl AsRef<OsStr>, words: &[&str]) -> Result<String, String> {
    let name = program.as_ref().to_string_lossy().into_owned();
    let output = Command::new(program.as_ref()).current_dir(root).args(words).output();
    let output = output.map_err(|error| format!("cannot run {name} {}: {error}", words[0]))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{name} {} failed:\n{why}", words.join(" ")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The bounds of one compiler, in the order of the file.
#[derive(Debug, PartialEq, Eq)]
struct Bounds {
    compiler: String,
    counts: Vec<(String, u64)>,
}

impl Bounds {
    fn parse(text: &str) -> Result<Bounds, String> {
        let mut bounds = Bounds { compiler: String::new(), counts: Vec::new() };
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
            let entry = line.rsplit_once(' ').and_then(|(name, n)| Some((name, n.parse().ok()?)));
            match (line.strip_prefix("compiler "), entry) {
                (Some(compiler), _) => bounds.compiler = compiler.into(),
                (None, Some((name, count))) => bounds.counts.push((name.into(), count)),
                (None, None) => {
                    let wanted = "`SCHEDULER TASKS GROUPS INSTRUCTIONS`";
                    return Err(format!("{PATH}:{}: expected {wanted}, found `{line}`", at + 1));
                }
            }
        }
        Ok(bounds)
    }

    fn text(&self) -> String {
        let mut text = String::from(
            "# Instructions per request of an engine: scheduler, tasks, groups, instructions.\n\
             # 3 % more is an error. `cargo xtask instructions --write` writes this file.\n",
        );
        let _ = writeln!(text, "compiler {}", self.compiler);
        for (name, count) in &self.counts {
            let _ = writeln!(text, "{name} {count}");
        }
        text
    }

    /// Which counts are above their bounds, or have none, and which bounds are of no loop; those
    /// well below are told of.
    fn judge(&self, counts: &[(String, u64)]) -> Vec<String> {
        let mut found = Vec::new();
        for (name, count) in counts {
            let bound = self.counts.iter().find(|(known, _)| known == name).map(|known| known.1);
            match bound {
                None => found.push(format!("{name}: no bound in {PATH}: add `{name} {count}`")),
                Some(bound) if *count > bound + bound / SLACK_PART => {
                    found.push(format!("{name}: {count} instructions per request, bound {bound}"));
                }
                Some(bound) if count + bound / SLACK_PART < bound => {
                    println!("{name}: well below its bound of {bound}, which may be lowered");
                }
                Some(_) => {}
            }
        }
        let is_old = |name: &str| counts.iter().all(|(counted, _)| counted != name);
        for (name, bound) in self.counts.iter().filter(|(name, _)| is_old(name)) {
            found
                .push(format!("{name}: not counted any more: take `{name} {bound}` out of {PATH}"));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(count: u64) -> Bounds {
        Bounds { compiler: "rustc 1.2.3 (abc 2026-01-01) on x".into(), counts: named(count) }
    }

    fn named(count: u64) -> Vec<(String, u64)> {
        vec![("fifo 1 0".into(), count)]
    }

    #[test]
    fn it_reads_what_it_writes() {
        assert_eq!(Bounds::parse(&bounds(1_000).text()), Ok(bounds(1_000)));
        let error = Bounds::parse("# words\nfifo 1 0 many\n").unwrap_err();
        assert!(error.starts_with("crates/iopace-core/instructions.txt:2: "), "{error}");
    }

    #[test]
    fn three_per_cent_more_is_too_much() {
        let bounds = bounds(1_000);
        assert_eq!(bounds.judge(&named(1_030)), Vec::<String>::new());
        assert_eq!(bounds.judge(&named(500)), Vec::<String>::new());
        let found = bounds.judge(&named(1_031));
        assert_eq!(found, ["fifo 1 0: 1031 instructions per request, bound 1000"]);
    }

    #[test]
    fn a_case_without_a_bound_is_named() {
        let counts = [named(1_000), vec![("rr 16 0".into(), 1)]].concat();
        let found = bounds(1_000).judge(&counts);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("rr 16 0: no bound"), "{found:?}");
        assert!(found[0].ends_with(": add `rr 16 0 1`"), "{found:?}");
    }

    #[test]
    fn a_bound_of_no_case_is_named() {
        let found = bounds(1_000).judge(&[]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("take `fifo 1 0 1000` out of"), "{found:?}");
    }

    #[test]
    fn a_case_is_a_scheduler_and_two_numbers() {
        let case = Case::parse("fair 16 8").expect("a case");
        assert_eq!((case.name().as_str(), case.requests_count()), ("fair 16 8", 8_000));
        assert_eq!(Case::parse("fair 16"), None);
        assert_eq!(Case::parse("fair many 8"), None);
    }
}
