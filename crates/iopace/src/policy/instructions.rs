//! Instructions per request, counted by another program that runs this one: `perf` where the
//! processor counts them for it, else `callgrind`, which takes some fifty times as long.

use iopace_suites::cost::CostLoop;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// A program that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counter {
    /// `perf stat`, which asks the processor.
    Perf,
    /// `valgrind --tool=callgrind`, which carries out each instruction itself.
    Callgrind,
}

const PERF: [&str; 5] = ["perf", "stat", "-x,", "-e", "instructions:u"];
const CALLGRIND: [&str; 3] = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"];

/// Least requests of a loop: the memory of the first ones counts less.
const REQUESTS_MIN: u64 = 8_000;

impl Counter {
    /// The one that works here.
    ///
    /// # Errors
    /// None does; a sentence says why, and what would help.
    pub(super) fn find() -> Result<Counter, String> {
        let works = |counter: &Counter| counter.collected(OsStr::new("true"), &[]).is_ok();
        [Counter::Perf, Counter::Callgrind].into_iter().find(works).ok_or_else(|| {
            "instructions cannot be counted: perf has no counter of the processor here, and \
             valgrind is not installed"
                .into()
        })
    }

    /// Its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Counter::Perf => "perf",
            Counter::Callgrind => "callgrind",
        }
    }

    /// Instructions per request of a loop, whose scheduler is of the registry or in the module:
    /// those of 2N requests less those of N, so that the start of the program does not count.
    ///
    /// # Errors
    /// The loop failed, or could not be counted.
    pub(super) fn per_request(self, module: &Path, looped: &CostLoop) -> Result<u64, String> {
        let CostLoop { algorithm, tasks, groups, .. } = *looped;
        let (scheduler, requests) = (algorithm.name, REQUESTS_MIN.max(tasks * 2));
        let count = |requests: u64| {
            let numbers = [tasks, groups, requests].map(|number| number.to_string());
            let program = std::env::current_exe().map_err(|error| error.to_string())?;
            let mut words: Vec<&OsStr> = ["policy", "bench"].map(OsStr::new).to_vec();
            words.extend([module.as_os_str(), OsStr::new("--counted"), OsStr::new(scheduler)]);
            words.extend(numbers.iter().map(OsStr::new));
            self.collected(program.as_os_str(), &words)
        };
        // Under callgrind the processor is another one: the module is compiled anew, once.
        count(1)?;
        Ok(count(2 * requests)?.saturating_sub(count(requests)?) / requests)
    }

    /// Instructions of one run of a program.
    fn collected(self, program: &OsStr, words: &[&OsStr]) -> Result<u64, String> {
        let own: &[&str] = match self {
            Counter::Perf => &PERF,
            Counter::Callgrind => &CALLGRIND,
        };
        let ran = Command::new(own[0]).args(&own[1..]).arg(program).args(words).output();
        let ran = ran.map_err(|error| format!("{} cannot be run: {error}", own[0]))?;
        let told = String::from_utf8_lossy(&ran.stderr);
        match self.number(&told) {
            Some(number) if ran.status.success() => Ok(number),
            _ => Err(format!("no count from {}: {}", own[0], told.trim())),
        }
    }

    /// The count in what the program says.
    fn number(self, told: &str) -> Option<u64> {
        told.lines().find_map(|line| {
            let number = match self {
                // 1234,,instructions:u,...; `<not supported>` in the place of the number.
                Counter::Perf => line.split_once(',').filter(|(_, rest)| rest.contains("instr"))?.0,
                Counter::Callgrind => line.split_once("Collected : ")?.1,
            };
            number.trim().parse().ok()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_found_in_what_each_program_says() {
        let perf = "note\n41250,,instructions:u,100.00,0.31,insn per cycle\n";
        assert_eq!(Counter::Perf.number(perf), Some(41_250));
        let without = "<not supported>,,instructions:u,0,100.00,,\n";
        assert_eq!(Counter::Perf.number(without), None);
        let callgrind = "==1== Events    : Ir\n==1== Collected : 143022\n";
        assert_eq!(Counter::Callgrind.number(callgrind), Some(143_022));
    }
}
