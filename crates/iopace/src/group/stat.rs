//! What groups did, as a table that fits into the terminal.

use crate::output::{finish, right, table};
use crate::units::{short_size, time};
use comfy_table::Cell;
use iopace_daemon::api::{GroupDeviceStat, GroupStat, StatReport};
use std::fmt::Write as _;

/// A column of [`stat`].
struct Column {
    title: &'static str,
    /// Those with more are left out first where there is too little room.
    spare: u8,
    value: fn(&GroupDeviceStat) -> String,
}

const STAT: [Column; 10] = [
    Column { title: "reads", spare: 1, value: |on| on.rios.to_string() },
    Column { title: "read", spare: 0, value: |on| short_size(on.rbytes) },
    Column { title: "writes", spare: 1, value: |on| on.wios.to_string() },
    Column { title: "written", spare: 0, value: |on| short_size(on.wbytes) },
    Column { title: "buffered", spare: 0, value: |on| short_size(on.buffered_bytes) },
    Column { title: "failed", spare: 3, value: |on| on.failed.to_string() },
    Column { title: "mean", spare: 2, value: |on| time(on.latency.mean_ns) },
    Column { title: "p99", spare: 0, value: |on| time(on.latency.p99_ns) },
    Column { title: "waiting", spare: 2, value: |on| on.waiting_count.to_string() },
    Column { title: "waited", spare: 0, value: |on| waited(&on.pressure) },
];

/// The work of groups on each device, in so many columns of letters if that can be.
pub fn stat(report: &StatReport, width: u16) -> String {
    let all =
        || report.groups.iter().flat_map(|group| group.devices.iter().map(move |on| (group, on)));
    let names = |name: &dyn Fn(&GroupStat, &GroupDeviceStat) -> usize, title: &str| {
        all().map(|(group, on)| name(group, on)).max().unwrap_or(0).max(title.len()) + 2
    };
    let room = usize::from(width)
        .saturating_sub(names(&|group, _| group.group.chars().count(), "group"))
        .saturating_sub(names(&|_, on| on.device.chars().count(), "device"));
    let needs = |column: &Column| {
        let widest = all().map(|(_, on)| (column.value)(on).chars().count()).max();
        widest.unwrap_or(0).max(column.title.len()) + 2
    };
    let mut shown: Vec<&Column> = STAT.iter().collect();
    let mut left_out = Vec::new();
    while shown.iter().map(|column| needs(column)).sum::<usize>() > room + 2 {
        let Some(spare) = shown.iter().map(|column| column.spare).max().filter(|spare| *spare > 0)
        else {
            break;
        };
        let last = shown.iter().rposition(|column| column.spare == spare).expect("one has it");
        left_out.insert(0, shown.remove(last).title);
    }
    let titles = ["group", "device"].into_iter().chain(shown.iter().map(|column| column.title));
    let mut rows = table(titles);
    for (group, on) in all() {
        let names = [&group.group, &on.device].map(Cell::new).into_iter();
        rows.add_row(names.chain(shown.iter().map(|column| right((column.value)(on)))));
    }
    let mut text = finish(&rows, 0);
    if !left_out.is_empty() {
        let left_out = left_out.join(", ");
        let _ = writeln!(text, "left out for lack of room: {left_out} (--format json has all)");
    }
    if report.left_out_count > 0 {
        let _ =
            writeln!(text, "{} more groups: name one to see those below it", report.left_out_count);
    }
    text
}

/// `avg10` of the line `some`.
fn waited(pressure: &str) -> String {
    let first = pressure.lines().next().unwrap_or_default();
    let share = first.split(' ').find_map(|word| word.strip_prefix("avg10="));
    format!("{} %", share.unwrap_or("0.00"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopace_daemon::api::TimesReport;

    fn on(device: &str) -> GroupDeviceStat {
        GroupDeviceStat {
            device: device.into(),
            rbytes: 123_456_789_012,
            wbytes: 123_456_789_012,
            rios: 12_345_678,
            wios: 12_345_678,
            dbytes: 0,
            dios: 0,
            fios: 0,
            failed: 0,
            buffered_bytes: 123_456_789_012,
            buffered_ios: 0,
            stages: Default::default(),
            waits: Default::default(),
            latency: Default::default(),
            slots_taken_count: 0,
            waiting_count: 12_345,
            dirty_bytes: 0,
            pace: None,
            pressure: "some avg10=12.34".into(),
        }
    }

    #[test]
    fn statistics_fit_into_eighty_columns_without_a_broken_word() {
        let group =
            GroupStat { group: "/vms/web".into(), devices: vec![on("disk"), on("archive")] };
        let report = StatReport { groups: vec![group], left_out_count: 0 };
        let text = stat(&report, 80);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert_eq!(text.lines().count(), 4, "{text}");
        for word in ["buffered", "/vms/web", "archive", "p99", "left out for lack of room: "] {
            assert!(text.contains(word), "{word}: {text}");
        }
        assert!(!stat(&report, 200).contains("left out"));
    }

    #[test]
    fn a_figure_stays_with_its_unit_beside_a_long_name() {
        let latency = TimesReport { count: 9, mean_ns: 87_000_000, ..TimesReport::default() };
        let pressure = "some avg10=42.03".into();
        let on = GroupDeviceStat { latency, pressure, ..on("archive") };
        let group = "/backup/nightly/long-name-of-a-job".into();
        let groups = vec![GroupStat { group, devices: vec![on] }];
        let report = StatReport { groups, left_out_count: 0 };
        for width in [80, 100, u16::MAX] {
            let text = stat(&report, width);
            let row = text.lines().nth(1).expect("a row");
            assert!(row.starts_with("/backup/nightly/long-name-of-a-job"), "{text}");
            assert!(row.contains("42.03 %"), "{width}: {text}");
            let has_mean = text.lines().next().is_some_and(|titles| titles.contains("mean"));
            assert_eq!(row.contains("87.0 ms"), has_mean, "{width}: {text}");
        }
    }
}
