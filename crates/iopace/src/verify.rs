//! `iopace verify`: does what was set hold? Drives limits, weights, guarantees, classes and latency
//! targets for a few seconds through the way that clients take, and says what was asked for and
//! what was achieved.

mod busy;
mod check;
mod live;
mod load;
mod outcome;
mod own;
mod promise;
mod scratch;
mod shares;
mod show;
mod tally;
mod target;

use crate::cli::VerifyArgs;
use crate::output::{Failure, Format, note, print, print_json};
use crate::study_output::ProgressLine;
use outcome::{Outcome, Verdict};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use tally::Times;
use target::failed;

/// Exit status: something does not hold.
const BROKEN: u8 = 1;

/// Exit status: something could not be tested.
const UNTESTED: u8 = 2;

/// Exit status after a signal: 128 + SIGINT, as shells have it.
const INTERRUPTED: u8 = 130;

/// Shortest and longest time for a promise: a window of a second, and an hour.
const TIME: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);

/// How often it is looked whether a check has ended.
const TICK: Duration = Duration::from_millis(50);

/// What the user asked for.
#[derive(Clone, Debug)]
struct Options {
    /// How long each promise is watched.
    time: Duration,
    /// How far off a rate may be, in percent.
    tolerance: f64,
    /// Blocks for limits; none: one is chosen.
    blocks: Vec<u32>,
}

/// What all checks share.
struct Verify<'a> {
    options: &'a Options,
    stop: &'a AtomicBool,
}

/// Carries out the command.
///
/// # Errors
/// A promise does not hold (status 1), or could not be tested (status 2).
pub fn run(args: &VerifyArgs) -> Result<(), Failure> {
    let options = options(args)?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let status = i32::from(INTERRUPTED);
        let again = signal_hook::flag::register_conditional_shutdown(signal, status, stop.clone());
        let first = again.and_then(|_| signal_hook::flag::register(signal, stop.clone()));
        first.map_err(|error| failed(format!("signals cannot be caught: {error}")))?;
    }
    let verify = Verify { options: &options, stop: &stop };
    let outcomes = match (&args.group, &args.mount) {
        (_, Some(mount)) => live::mount(&verify, args, mount),
        (Some(group), None) => live::group(&verify, args, group),
        (None, None) => own::run(&verify, args),
    };
    // Whatever failed, nothing was found to be broken.
    let outcomes = outcomes.map_err(|failure| match failure.status {
        INTERRUPTED => failure,
        _ => Failure { status: UNTESTED, ..failure },
    })?;
    let printed = match args.format.format {
        Format::Json => print_json(&show::json(&outcomes)),
        Format::Table => print(&show::text(&outcomes)),
    };
    match judge(&outcomes) {
        // A promise that is broken is worth more than a table that cannot be printed.
        Err(broken) if broken.status == BROKEN => Err(match printed {
            Ok(()) => broken,
            Err(lost) => {
                Failure { message: format!("{}; {}", broken.message, lost.message), ..broken }
            }
        }),
        judged => printed.map_err(|failure| failed(failure.message)).and(judged),
    }
}

fn options(args: &VerifyArgs) -> Result<Options, Failure> {
    let time = Duration::from_nanos(args.time.0);
    if !TIME.contains(&time) {
        return Err(Failure::usage(format!("--time {}: it is from 1s to 60min", args.time)));
    }
    let block = |block: &iopace_core::units::Bytes| {
        let is_known = Options::is_block(block.get());
        u32::try_from(block.get()).ok().filter(|_| is_known).ok_or_else(|| {
            Failure::usage(format!("--block-size {block}: it is a power of two from 512 to 1M"))
        })
    };
    if args.control.is_some() && args.group.is_none() && args.mount.is_none() {
        return Err(Failure::usage(
            "--control names a running daemon: name one of its groups too ('iopace group list'), \
             or leave it out to test iopace itself",
        ));
    }
    let blocks = args.block_size.iter().map(block).collect::<Result<_, _>>()?;
    Ok(Options { time, tolerance: args.tolerance, blocks })
}

/// The exit status of all together.
fn judge(outcomes: &[Outcome]) -> Result<(), Failure> {
    let count = |verdict| outcomes.iter().filter(|outcome| outcome.verdict == verdict).count();
    let (broken, untested) = (count(Verdict::Broken), count(Verdict::NotTested));
    let all = outcomes.len();
    if broken > 0 {
        let rest = match untested {
            0 => String::new(),
            count => format!(", {count} could not be tested"),
        };
        let message = format!("{broken} of {all} promises do not hold{rest}");
        return Err(Failure { message, status: BROKEN });
    }
    if untested > 0 || all == 0 {
        let why = "why is said with each, beside 'not tested'";
        return Err(failed(format!("{untested} of {all} promises could not be tested: {why}")));
    }
    Ok(())
}

impl Verify<'_> {
    /// Does something that takes until the end of `times`, and says on standard error how long that
    /// is.
    fn watched<T>(
        &self,
        what: &str,
        times: Times,
        work: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        if self.stop.load(Relaxed) {
            return Err(interrupted());
        }
        let line = ProgressLine::begin();
        let left = || times.end.saturating_duration_since(Instant::now()).as_secs_f64().ceil();
        if !std::io::stderr().is_terminal() {
            note(format_args!("{what}: {:.0} s", left()));
        }
        let is_done = AtomicBool::new(false);
        let result = thread::scope(|scope| {
            scope.spawn(|| {
                while !is_done.load(Relaxed) {
                    line.say(|| format!("{what}: {:.0} s", left()));
                    thread::sleep(TICK);
                }
            });
            let result = work();
            is_done.store(true, Relaxed);
            result
        });
        line.end();
        // What a signal cut short is no result.
        if self.stop.load(Relaxed) { Err(interrupted()) } else { result }
    }
}

fn interrupted() -> Failure {
    let message = "interrupted; all that was made is taken away".into();
    Failure { message, status: INTERRUPTED }
}

#[cfg(test)]
mod tests {
    use super::outcome::Unit;
    use super::*;

    #[test]
    fn the_status_tells_what_is_broken_from_what_could_not_be_tested() {
        let one = || Outcome::new(("/a", "disk"), "rbps", (1.0, Unit::BytesPerS));
        let status = |all: &[Outcome]| judge(all).err().map_or(0, |failure| failure.status);
        let (holds, broken, untested) =
            (one().holds(), one().broken("why"), one().not_tested("why"));
        assert_eq!(status(std::slice::from_ref(&holds)), 0);
        assert_eq!(status(&[holds.clone(), untested.clone()]), 2);
        assert_eq!(status(&[holds, untested, broken]), 1);
        assert_eq!(status(&[]), 2);
    }
}
