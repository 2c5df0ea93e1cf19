//! The text of `/metrics`: what it says, and that it keeps to the format.

use super::Subject;
use crate::api::EventReport;
use crate::config::GroupConfig;
use crate::control::Controlled;
use crate::control::metrics::{FAMILIES, Format, Kind, Scrape};
use crate::device::Device;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

fn scrape(names: &[&str]) -> String {
    let devices: Vec<Arc<dyn Device>> =
        names.iter().map(|name| super::Fake::device(name)).collect();
    text(&Subject::new(devices), Format::Open)
}

fn text(subject: &Subject, format: Format) -> String {
    let pieces = Arc::new(Scrape::new(subject)).pieces(format);
    String::from_utf8(pieces.flatten().collect()).expect("a text")
}

/// What Prometheus' own checker (`promtool check metrics`) asks for, and the format's rules: names,
/// help, units and suffixes; one block for each name; labels that exist; buckets that grow.
#[test]
fn the_text_keeps_to_the_format() {
    let text = scrape(&["disk", "a \"quoted\" \\ disk"]);
    check(&text);
    assert!(text.contains(r#"device="a \"quoted\" \\ disk""#), "labels are escaped");
}

fn check(text: &str) {
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
}

/// What Prometheus' own lint looks at in a name, by family.
#[test]
fn names_are_those_of_prometheus() {
    let is_word = |text: &str| text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    let mut names = BTreeSet::new();
    for family in FAMILIES {
        let name = family.name;
        assert!(names.insert(name), "{name} twice");
        assert!(name.starts_with("iopace_") && is_word(name), "{name}");
        for suffix in ["_total", "_count", "_sum", "_bucket", "_info", "_created"] {
            assert!(!name.ends_with(suffix), "{name}");
        }
        for word in name.split('_') {
            let is_unit = ["seconds", "bytes", "ms", "us", "ns", "kib", "mib"].contains(&word);
            assert!(!is_unit, "{name}: the unit is added");
            assert!(!["gauge", "counter", "histogram"].contains(&word), "{name}");
        }
        let base = [None, Some("seconds"), Some("bytes"), Some("bytes_per_second")];
        assert!(base.contains(&family.unit), "{name}");
        assert!(family.kind != Kind::Histogram || family.unit == Some("seconds"), "{name}");
        assert!(!family.help.is_empty() && !family.help.ends_with('.'), "{name}");
        let labels: BTreeSet<_> = family.labels.iter().collect();
        assert_eq!(labels.len(), family.labels.len(), "{name}");
        for label in labels {
            // Those that Prometheus adds by itself, and that of buckets.
            let is_taken = ["job", "instance", "le", "quantile"].contains(label);
            assert!(is_word(label) && !label.starts_with('_') && !is_taken, "{name}: {label}");
            // Whose values have no bound.
            assert!(!["task", "pid", "connection", "offset"].contains(label), "{name}: {label}");
        }
    }
}

#[test]
fn those_who_know_the_classic_format_only_get_it() {
    let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.4,*/*;q=0.1";
    let accepts = [
        (None, Format::Open),
        (Some("*/*"), Format::Open),
        (Some(prometheus), Format::Open),
        (Some("text/plain; version=0.0.4"), Format::Classic),
    ];
    for (accept, format) in accepts {
        assert_eq!(Format::accepted(accept), format, "{accept:?}");
    }
    let text = text(&Subject::new(vec![super::Fake::device("disk")]), Format::Classic);
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    for line in samples {
        let name = line.split(['{', ' ']).next().expect("a name");
        let base = ["_sum", "_count", "_bucket"].into_iter().find_map(|end| name.strip_suffix(end));
        let typed = |name: &str| text.contains(&format!("\n# TYPE {name} "));
        let has_type = text.starts_with("# HELP") && (typed(name) || base.is_some_and(typed));
        assert!(has_type, "{line}");
    }
    assert!(!text.contains("# UNIT") && !text.contains("# EOF"));
}

/// The more devices, the fewer groups; what is left out is told.
#[test]
fn the_number_of_lines_has_a_bound() {
    let group = |number: usize| GroupConfig { path: format!("/g{number:04}"), files: Vec::new() };
    let groups: Vec<GroupConfig> = (0..2_500).map(group).collect();
    for (devices_count, shown) in [(1, 2_000), (4, 1_000)] {
        let names = ["a", "b", "c", "d"];
        let devices: Vec<_> =
            names[..devices_count].iter().map(|name| super::Fake::device(name)).collect();
        let text = text(&Subject::with_groups(devices, &groups), Format::Open);
        // They come in pieces, and nobody can tell.
        check(&text);
        let count = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
        assert_eq!(count("iopace_group_requests_now{"), shown * devices_count);
        assert!(text.contains("\niopace_groups 2501\n"));
        assert!(text.contains(&format!("\niopace_groups_left_out {}\n", 2_501 - shown)));
        let each = count("iopace_group_") / (shown * devices_count);
        assert!((20..50).contains(&each), "{each} lines for an idle group");
    }
}

#[test]
fn events_are_counted_from_zero() {
    let subject = Subject::new(vec![super::Fake::device("disk")]);
    let count = |kind: &str| {
        let text = text(&subject, Format::Open);
        let start = format!("iopace_events_total{{device=\"disk\",kind=\"{kind}\"}} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&start).map(str::to_owned));
        line.map(|count| count.parse::<u64>().expect("a count"))
    };
    assert_eq!((count("exchanged"), count("failed"), count("other")), (Some(0), Some(0), None));
    for kind in ["exchanged", "other", "other"] {
        let (device, text) = ("disk".into(), "it happened".into());
        let event = EventReport { device, age_ns: 0, kind: kind.into(), text };
        subject.live().raise(event, crate::clock::now());
    }
    assert_eq!((count("exchanged"), count("failed"), count("other")), (Some(1), Some(0), Some(2)));
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
        "iopace_groups 1",
        "iopace_device_wait_seconds_total{device=\"disk\",reason=\"anticipation\"} 0.0",
        "iopace_device_stage_latency_seconds_count{device=\"disk\",stage=\"pace\"} 0",
        "iopace_device_requests_waiting{device=\"disk\",reason=\"budget\"} 0",
        "iopace_device_oldest_request_seconds{device=\"disk\"} 0.0",
        "iopace_device_paced_writes_total{device=\"disk\"} 0",
        "iopace_device_writing_back_bytes{device=\"disk\"} 0",
        "iopace_group_wait_seconds_total{group=\"/\",device=\"disk\",reason=\"slot\"} 0.0",
        "iopace_group_requests_now{group=\"/\",device=\"disk\"} 0",
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
