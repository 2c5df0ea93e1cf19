//! What is tried, and what it would have done, for people.

use crate::output::{finish, right, table};
use crate::units;
use comfy_table::Cell;
use iopace_daemon::api::{ClientsWord, RecommendReport, RecommendedReport};
use std::fmt::Write as _;

/// What is tried beside a device.
pub fn tried(report: &RecommendReport) -> String {
    let device = &report.device;
    if !report.active {
        return format!("{device}: nothing is tried\n");
    }
    let mut text = format!("{device}: tried for {}\n", units::time(report.age_ns));
    let plan = &report.plan;
    let mut words = Vec::new();
    if let Some(name) = &plan.scheduler {
        let default = if report.default_scheduler { " (auto, the default)" } else { "" };
        words.push(format!("scheduler {name}{default}"));
    }
    let policies = [("pace", &plan.pace), ("window", &plan.window)];
    for (what, name) in policies {
        words.extend(name.as_ref().map(|name| format!("{what} {name}")));
    }
    for (what, number) in [("window depth", plan.depth), ("nr_requests", plan.nr_requests)] {
        words.extend(number.map(|number| format!("{what} {number}")));
    }
    if !words.is_empty() {
        let _ = writeln!(text, "  {}", words.join(", "));
    }
    for group in &report.tried {
        for (file, lines) in &group.files {
            let _ = writeln!(text, "  {} {file}: {}", group.group, lines.replace('\n', "; "));
        }
    }
    if words.is_empty() && report.tried.is_empty() {
        text.push_str("  the settings as they are\n");
    }
    if let Some(why) = &report.failed {
        let _ = writeln!(text, "  ENDED: what is tried has failed, it {why}");
    }
    text
}

/// What it would have done, of all devices.
pub fn reports(reports: &[RecommendReport]) -> String {
    let texts: Vec<String> = reports.iter().map(one).collect();
    texts.join("\n")
}

fn one(report: &RecommendReport) -> String {
    let mut text = tried(report);
    if !report.active {
        return text;
    }
    let mut rows = table([
        "group",
        "requests",
        "served",
        "later",
        "of served",
        "by (mean)",
        "by (p99)",
        "live",
        "tried",
    ]);
    for group in report.groups.iter().filter(|group| group.live_count > 0) {
        rows.add_row(row(group, &group.group));
    }
    rows.add_row(row(&report.all, "all"));
    text.push_str(&finish(&rows, 2));
    notes(&mut text, report);
    text
}

fn row(group: &RecommendedReport, name: &str) -> Vec<Cell> {
    let delays = &group.delays;
    vec![
        Cell::new(name),
        right(group.live_count),
        right(share(group.served_count, group.live_count)),
        right(delays.count),
        right(share(delays.count, group.served_count)),
        right(units::time(delays.mean_ns)),
        right(units::time(delays.p99_ns)),
        right(units::time(group.live.mean_ns)),
        right(units::time(group.recommended.mean_ns)),
    ]
}

fn share(part: u64, of: u64) -> String {
    if of == 0 {
        return "-".into();
    }
    format!("{:.1} %", part as f64 * 100.0 / of as f64)
}

fn notes(text: &mut String, report: &RecommendReport) {
    text.push_str("  requests: ended since it is tried. served: the part that would have been too");
    text.push_str(match report.plan.clients {
        ClientsWord::Closed => "; the\n  clients would have asked for the others later.\n",
        ClientsWord::Open => " by now.\n",
    });
    text.push_str(
        "  later: by more than an eighth of what they took, and by how much. live, tried: mean \
         latency of\n  those served.\n",
    );
    if !report.worse_than_default.is_empty() {
        let all: Vec<String> =
            report.groups.iter().filter_map(|group| worse(report, group)).collect();
        let _ = writeln!(
            text,
            "  The scheduler that was set explicitly is worse than the default for {}",
            all.join(",\n  ")
        );
    }
    if report.all.hastened_count > 0 {
        let mean = units::time(report.all.hastened_mean_ns);
        let count = report.all.hastened_count;
        let _ = writeln!(text, "  {count} requests would have been sooner, by {mean} on average");
    }
    if report.waiting_count > 0 {
        let _ = writeln!(text, "  {} would be waiting now", report.waiting_count);
    }
    if report.missed_count > 0 {
        let _ = writeln!(text, "  {} were left out", report.missed_count);
    }
}

/// What the default scheduler makes of a group's requests, if they are worse off without it.
fn worse(report: &RecommendReport, group: &RecommendedReport) -> Option<String> {
    let (tried, live) = (units::time(group.recommended.mean_ns), units::time(group.live.mean_ns));
    let is_worse = report.worse_than_default.contains(&group.group);
    is_worse.then(|| format!("{} ({tried} in place of {live})", group.group))
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopace_daemon::api::{RecommendChange, TimesReport};

    #[test]
    fn a_report_says_what_its_columns_are() {
        let times = |mean_ns, p99_ns| TimesReport { mean_ns, p99_ns, ..TimesReport::default() };
        let group = RecommendedReport {
            group: "/backup".into(),
            live_count: 1_000,
            served_count: 100,
            delays: TimesReport { count: 90, ..times(30_000_000, 70_000_000) },
            live: times(2_000_000, 0),
            recommended: times(32_000_000, 0),
            ..RecommendedReport::default()
        };
        let report = RecommendReport {
            device: "disk".into(),
            active: true,
            age_ns: 60_000_000_000,
            plan: RecommendChange::default(),
            default_scheduler: false,
            worse_than_default: Vec::new(),
            tried: Vec::new(),
            failed: None,
            waiting_count: 0,
            missed_count: 0,
            all: group.clone(),
            groups: vec![group],
        };
        let text = one(&report);
        let words = |at: usize| text.lines().nth(at).unwrap_or_default().split_whitespace();
        let head = "group requests served later of served by (mean) by (p99) live tried";
        assert_eq!(words(2).collect::<Vec<_>>().join(" "), head, "{text}");
        let row = "/backup 1000 10.0 % 90 90.0 % 30.0 ms 70.0 ms 2.0 ms 32.0 ms";
        assert_eq!(words(3).collect::<Vec<_>>().join(" "), row, "{text}");
        for word in ["requests: ", "served: ", "later: ", "live, tried: "] {
            assert!(text.contains(word), "'{word}' in {text}");
        }
        assert!(text.lines().all(|line| line.len() <= 100), "{text}");

        // The default is tried, and serves them sooner than what was set.
        let text = one(&RecommendReport {
            plan: RecommendChange { scheduler: Some("fair".into()), ..RecommendChange::default() },
            default_scheduler: true,
            worse_than_default: vec!["/backup".into()],
            ..report
        });
        let words = "set explicitly is worse than the default for /backup (32.0 ms in place of 2.0";
        for words in ["  scheduler fair (auto, the default)\n", words] {
            assert!(text.contains(words), "'{words}' in {text}");
        }
    }
}
