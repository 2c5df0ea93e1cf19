//! `iopace pace limit`: caps of single processes.

use crate::cli::PaceLimitArgs;
use crate::output::{Failure, finish, right, table};
use crate::target::{self, done};
use crate::units::{parse_size, size};
use comfy_table::Cell;
use iopace_daemon::api::{CapChange, CapsReport};
use std::fmt::Write as _;

/// The word that lifts a cap, as in files of groups.
const NO_CAP: &str = "max";

/// Lists the caps, or sets one.
///
/// # Errors
/// A rate that is none, no daemon, no such device, or a refusal, with what would be right.
pub fn run(args: &PaceLimitArgs) -> Result<(), Failure> {
    let target = &args.target;
    if args.pid.is_empty() {
        let devices = target::find(target)?.into_iter();
        let paced = devices.filter(|(_, device)| device.pace.is_some());
        let all = paced.map(|(client, device)| client.caps(&device.name).map_err(Failure::new));
        let all = all.collect::<Result<Vec<CapsReport>, Failure>>()?;
        return done(target, &all, || text(&all));
    }
    let change = change(&args.pid).map_err(Failure::usage)?;
    let (client, device) = target::only(target.control.as_deref(), target.device.as_deref())?;
    let report = client.set_cap(&device.name, &change).map_err(Failure::new)?;
    done(target, &report, || text(std::slice::from_ref(&report)))
}

/// What `--pid PID RATE` asks for.
fn change(words: &[String]) -> Result<CapChange, String> {
    let [pid, rate] = words else { return Err("--pid takes a process and a rate".into()) };
    let pid = pid.parse().ok().filter(|pid| *pid > 0);
    let pid = pid.ok_or_else(|| format!("--pid: '{}' is no number of a process", words[0]))?;
    let bytes_s = match rate.as_str() {
        NO_CAP => None,
        rate => {
            let bytes = parse_size(rate.strip_suffix("/s").unwrap_or(rate)).map_err(|error| {
                format!("'{rate}' is no rate: {error}; '{NO_CAP}' lifts the cap")
            })?;
            Some(bytes.get())
        }
    };
    Ok(CapChange { pid, bytes_s })
}

/// The caps of devices, as a table.
fn text(all: &[CapsReport]) -> String {
    let mut text = String::new();
    if all.iter().all(|report| report.caps.is_empty()) {
        text.push_str("no process has a cap\n");
    } else {
        let mut rows = table(["device", "pid", "user", "program", "cap"]);
        for CapsReport { device, caps, .. } in all {
            for cap in caps {
                rows.add_row([
                    Cell::new(device),
                    right(cap.pid),
                    right(cap.user),
                    Cell::new(&cap.program),
                    right(format!("{}/s", size(cap.bytes_s))),
                ]);
            }
        }
        text.push_str(&finish(&rows, 0));
    }
    for CapsReport { device, policy, caps, .. } in all.iter().filter(|report| !report.held) {
        if !caps.is_empty() {
            let _ = writeln!(text, "{device}: pace {policy} holds no caps: 'rate' does");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopace_daemon::api::CapReport;

    #[test]
    fn a_process_and_a_rate_are_read() {
        let read = |pid: &str, rate: &str| change(&[pid.into(), rate.into()]);
        let cap = |pid, bytes_s| Ok(CapChange { pid, bytes_s });
        assert_eq!(read("4711", "5M"), cap(4711, Some(5 << 20)));
        assert_eq!(read("4711", "5MB/s"), cap(4711, Some(5_000_000)));
        assert_eq!(read("7", "max"), cap(7, None));
        for (pid, rate, error) in [
            ("0", "5M", "'0' is no number of a process"),
            ("dd", "5M", "'dd' is no number of a process"),
            ("7", "fast", "'fast' is no rate"),
            ("7", "0", "'max' lifts the cap"),
        ] {
            let message = read(pid, rate).expect_err("wrong");
            assert!(message.contains(error), "{message}");
        }
    }

    #[test]
    fn caps_are_a_table_and_a_word_where_they_are_not_held() {
        let cap = CapReport { pid: 4711, user: 1000, program: "dd".into(), bytes_s: 5 << 20 };
        let (device, policy) = ("disk".to_string(), "rate".to_string());
        let mut report = CapsReport { device, policy, held: true, caps: vec![cap] };
        let lines = " device    pid   user   program       cap \n\
                     \x20disk        4711   1000   dd        5 MiB/s \n";
        let shown = text(std::slice::from_ref(&report));
        let squeezed = |text: &str| {
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
        };
        let (got, wanted): (Vec<String>, Vec<String>) = (squeezed(&shown), squeezed(lines));
        assert_eq!(got, wanted, "{shown}");
        (report.held, report.policy) = (false, "none".into());
        let shown = text(std::slice::from_ref(&report));
        assert!(shown.ends_with("disk: pace none holds no caps: 'rate' does\n"), "{shown}");
        report.caps.clear();
        assert_eq!(text(&[report]), "no process has a cap\n");
    }
}
