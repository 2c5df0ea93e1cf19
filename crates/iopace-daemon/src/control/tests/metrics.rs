//! The text of `/metrics`: what it says, and that it keeps to the format.

use super::Subject;
use crate::control::metrics::{FAMILIES, Kind, text};
use crate::device::Device;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

fn scrape(names: &[&str]) -> String {
    let devices: Vec<Arc<dyn Device>> =
        names.iter().map(|name| super::Fake::device(name)).collect();
    text(&Subject::new(devices)).expect("a text")
}

/// What Prometheus' own checker (`promtool check metrics`) asks for, and the format's rules: names,
/// help, units and suffixes; one block for each name; labels that exist; buckets that grow.
#[test]
fn the_text_keeps_to_the_format() {
    let text = scrape(&["disk", "a \"quoted\" \\ disk"]);
    assert!(text.ends_with("# EOF\n"));
    let (mut seen, mut current) = (BTreeSet::new(), String::new());
    let mut buckets: BTreeMap<String, u64> = BTreeMap::new();
    for line in text.lines().filter(|line| *line != "# EOF") {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("help");
            assert!(seen.insert(name.to_owned()), "{name} twice");
            assert!(!help.is_empty(), "{line}");
            current = name.into();
        } else if let Some(rest) = line.strip_prefix("# UNIT ") {
            let (name, unit) = rest.split_once(' ').expect("unit");
            assert!(name == current && name.ends_with(unit), "{line}");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            assert_eq!(rest.split_once(' ').expect("type").0, current, "{line}");
        } else {
            let name = line.split(['{', ' ']).next().expect("a name");
            let suffix = name.strip_prefix(&*current).unwrap_or_else(|| panic!("{line}"));
            assert!(["", "_total", "_sum", "_count", "_bucket"].contains(&suffix), "{line}");
            let value = line.rsplit(' ').next().expect("a value");
            assert!(value.parse::<f64>().is_ok_and(|value| value >= 0.0), "{line}");
            if suffix == "_bucket" {
                let labels = line.split("le=").next().expect("labels").to_owned();
                let before = buckets.insert(labels, value.parse().expect("a count"));
                assert!(before.unwrap_or(0) <= value.parse().expect("a count"), "{line}");
            }
        }
    }
    assert!(text.contains(r#"device="a \"quoted\" \\ disk""#), "labels are escaped");
}

#[test]
fn names_are_those_of_prometheus() {
    let mut names = BTreeSet::new();
    for family in FAMILIES {
        let name = family.name;
        assert!(names.insert(name), "{name} twice");
        assert!(
            name.starts_with("iopace_")
                && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
        );
        assert!(!name.ends_with("_total") && !name.ends_with("_count"), "{name}");
        assert!(family.kind != Kind::Histogram || family.unit == Some("seconds"), "{name}");
    }
}

#[test]
fn what_a_device_says_is_there() {
    let text = scrape(&["disk"]);
    for line in [
        "iopace_device{device=\"disk\",kind=\"emulated\",scheduler=\"fifo\",\
         pace=\"none\",window=\"fixed\"} 1",
        "iopace_device_cached_reads_total{device=\"disk\"} 3",
        "iopace_device_buffered_writes_total{device=\"disk\"} 4",
        "iopace_device_dirty_limit_bytes{device=\"disk\"} 20971520",
        "iopace_device_latency_seconds_bucket{le=\"+Inf\",device=\"disk\",op=\"read\"} 0",
        "iopace_connections 2",
        "iopace_group_requests_total{group=\"/\",device=\"disk\",op=\"read\"} 0",
        "iopace_mount_files{mountpoint=\"/srv\",device=\"disk\",state=\"open\"} 2",
        "iopace_mount_passed_through_total{mountpoint=\"/srv\",device=\"disk\"} 400",
    ] {
        assert!(text.lines().any(|known| known == line), "{line} is missing in\n{text}");
    }
    assert!(!scrape(&["direct"]).contains("iopace_device_dirty_bytes"), "nothing is buffered");
}

/// The manual's page lists every metric.
#[test]
fn the_page_of_the_manual_has_every_metric() {
    let mut rows = String::from("| metric | kind | labels | what it says |\n|---|---|---|---|\n");
    for family in FAMILIES {
        let unit = family.unit.map_or(String::new(), |unit| format!("_{unit}"));
        let (kind, suffix) = match family.kind {
            Kind::Counter => ("counter", "_total"),
            Kind::Gauge => ("gauge", ""),
            Kind::Histogram => ("histogram", ""),
        };
        let labels = family.labels.join(", ");
        let _ = writeln!(
            rows,
            "| `{}{unit}{suffix}` | {kind} | {labels} | {} |",
            family.name, family.help
        );
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    let page = std::fs::read_to_string(path).expect("the page");
    let (begin, end) = ("<!-- metrics -->\n", "<!-- end -->");
    let (before, rest) = page.split_once(begin).expect("a mark");
    let after = rest.split_once(end).expect("a mark").1;
    let wanted = format!("{before}{begin}{rows}{end}{after}");
    if std::env::var_os("IOPACE_UPDATE_DOCS").is_some() {
        std::fs::write(path, wanted).expect("written");
    } else {
        assert!(
            page == wanted,
            "docs/metrics.md: IOPACE_UPDATE_DOCS=1 cargo test -p iopace-daemon metrics"
        );
    }
}
