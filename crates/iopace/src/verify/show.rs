//! What was asked for beside what was achieved, for people and for programs.

use super::outcome::{Latencies, Outcome, Unit, Verdict};
use crate::output::{finish, folded, right, table};
use crate::units;
use comfy_table::Cell;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Bars of rising height.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// For programs.
pub fn json(outcomes: &[Outcome]) -> Value {
    let count = |verdict| outcomes.iter().filter(|outcome| outcome.verdict == verdict).count();
    json!({
        "holds_count": count(Verdict::Holds),
        "broken_count": count(Verdict::Broken),
        "not_tested_count": count(Verdict::NotTested),
        "promises": outcomes,
    })
}

/// For people: a table, then how even rates were and how long requests took.
pub fn text(outcomes: &[Outcome]) -> String {
    let mut rows = table(["group", "device", "promise", "asked", "achieved", "off by", "verdict"]);
    for outcome in outcomes {
        rows.add_row(vec![
            Cell::new(&outcome.group),
            Cell::new(&outcome.device),
            Cell::new(&outcome.promise),
            right(figure(outcome.unit, outcome.asked)),
            right(outcome.achieved.map_or("-".into(), |seen| figure(outcome.unit, seen))),
            right(off(outcome)),
            Cell::new(verdict(outcome.verdict)),
        ]);
    }
    let mut text = finish(&rows, 0);
    for outcome in outcomes {
        text.push_str(&details(outcome));
    }
    text
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "holds",
        Verdict::Broken => "DOES NOT HOLD",
        Verdict::NotTested => "not tested",
    }
}

fn figure(unit: Unit, value: f64) -> String {
    match unit {
        Unit::BytesPerS => format!("{}/s", precise_size(value)),
        Unit::RequestsPerS => format!("{value:.1}/s"),
        Unit::PercentOfBytes => format!("{value:.1} %"),
        Unit::Ns => units::time(value as u64),
    }
}

/// Two digits behind the point: a rate is off by less than one.
fn precise_size(bytes: f64) -> String {
    for (size, name) in [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")] {
        let size = f64::from(size);
        if bytes >= size {
            return format!("{:.2} {name}", bytes / size);
        }
    }
    format!("{bytes:.0} B")
}

fn off(outcome: &Outcome) -> String {
    let unit = if outcome.unit == Unit::PercentOfBytes { "points" } else { "%" };
    outcome.off_percent.map_or("-".into(), |off| format!("{off:+.2} {unit}"))
}

/// What lies behind a line of the table.
fn details(outcome: &Outcome) -> String {
    let Outcome { group, promise, load, .. } = outcome;
    let title = format!("{promise} of {group}");
    let mut text = match &**load {
        "" => format!("\n{title}\n"),
        load => format!("\n{}", folded(&format!("{title}: {load}"))),
    };
    if let Some(reason) = &outcome.reason {
        text.push_str(&folded(&format!("  {}: {reason}", verdict(outcome.verdict))));
    }
    for windows in &outcome.windows {
        let _ = writeln!(
            text,
            "  windows of {} ms: {:+.1} to {:+.1} %; {} of {} above the bound, {} below",
            windows.window_ms,
            windows.lowest_percent,
            windows.highest_percent,
            windows.above_count,
            windows.count,
            windows.below_count
        );
    }
    if let Some(beside) = outcome.beside {
        let _ = writeln!(text, "  the other had {}", figure(outcome.unit, beside));
    }
    if let Some(latency) = &outcome.latency {
        text.push_str(&latencies(latency));
    }
    text
}

fn latencies(latency: &Latencies) -> String {
    let time = units::time;
    let mut text = format!(
        "  {} requests: mean {}, p50 {}, p90 {}, p99 {}, longest {}\n",
        latency.count,
        time(latency.mean_ns),
        time(latency.p50_ns),
        time(latency.p90_ns),
        time(latency.p99_ns),
        time(latency.max_ns)
    );
    let most = latency.histogram.iter().map(|(_, count)| *count).max().unwrap_or(0);
    let (Some(first), Some(last)) = (latency.histogram.first(), latency.histogram.last()) else {
        return text;
    };
    let bar = |(_, count): &(u64, u64)| match count {
        0 => ' ',
        count => BARS[usize::try_from((count * 8).div_ceil(most) - 1).unwrap_or(7).min(7)],
    };
    let bars: String = latency.histogram.iter().map(bar).collect();
    let _ = writeln!(text, "  from {} │{bars}│ to {}, doubling", time(first.0 / 2), time(last.0));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_was_asked_and_achieved_and_why_it_does_not_hold() {
        let mut outcome = Outcome::new(("/a", "disk"), "wbps", (10_485_760.0, Unit::BytesPerS));
        outcome.load = "writes of 64 KiB, 8 at once".into();
        (outcome.achieved, outcome.off_percent) = (Some(20_971_520.0), Some(100.0));
        let text = text(&[outcome.broken("more passed than the limit allows")]);
        for part in
            ["wbps", "10.00 MiB/s", "20.00 MiB/s", "+100.00 %", "DOES NOT HOLD", "more passed"]
        {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn a_histogram_is_drawn_from_its_first_to_its_last_power() {
        let histogram = vec![(1 << 20, 1), (1 << 21, 0), (1 << 22, 8)];
        let latency = Latencies {
            count: 9,
            mean_ns: 0,
            p50_ns: 0,
            p90_ns: 0,
            p99_ns: 0,
            max_ns: 0,
            histogram,
        };
        assert!(
            latencies(&latency).contains("from 524 us │▁ █│ to 4.1 ms"),
            "{}",
            latencies(&latency)
        );
    }
}
