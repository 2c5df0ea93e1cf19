//! What `iopace pace` prints for people.

use crate::output::named_line;
use crate::units::{size, time};
use iopace_daemon::api::{DeviceReport, PaceReport, PictureReport};
use std::fmt::Write as _;

/// Characters of the bar from nothing dirty to the limit.
const BAR: u64 = 40;

/// A device after a change: what is in force.
pub fn in_force(device: &DeviceReport) -> String {
    let policy = device.pace.as_ref().map_or("none", |pace| &pace.policy);
    let pause = device.pace.as_ref().and_then(|pace| pace.pause_target_ns);
    let pause = pause.map(|pause| format!(", pauses of {}", time(pause))).unwrap_or_default();
    format!("{}: pace {policy}{pause}\n", device.name)
}

/// A device as it stands.
pub fn device(device: &DeviceReport) -> String {
    let Some(pace) = &device.pace else {
        return format!("{}: bypasses the page cache: there is nothing to pace\n", device.name);
    };
    let mut text = format!("{}: pace {}", device.name, pace.policy);
    let _ = match pace.waiting_count {
        0 => writeln!(text),
        1 => writeln!(text, ", 1 write waits"),
        count => writeln!(text, ", {count} writes wait"),
    };
    let mut line = |name: &str, value: String| text.push_str(&named_line(name, &value));
    let picture = &pace.picture;
    line(
        "dirty",
        format!(
            "{} {} of {}, {} on the way to the disk",
            bar(picture),
            size(picture.dirty_bytes),
            size(picture.limit_bytes),
            size(pace.write_back_bytes)
        ),
    );
    line("marks", marks(pace));
    if picture.base_rate_bytes_s > 0 {
        line("device", device_rates(picture));
        line("a task", task_rates(picture));
    }
    line("pauses", pauses(pace));
    text
}

/// Dirty memory from nothing to the limit, with the marks on the way.
fn bar(picture: &PictureReport) -> String {
    let place = |bytes: u64| {
        let most = u128::from(picture.limit_bytes.max(1));
        let place = u128::from(bytes) * u128::from(BAR) / most;
        u64::try_from(place).map_or(BAR, |place| place.min(BAR))
    };
    let mark = |bytes: u64| (bytes > 0).then(|| place(bytes));
    let (filled, freerun) = (place(picture.dirty_bytes), mark(picture.freerun_bytes));
    let setpoint = mark(picture.setpoint_bytes);
    let letter = |at: u64| match at {
        at if Some(at) == setpoint => 's',
        at if Some(at) == freerun => 'f',
        at if at < filled => '#',
        _ => '.',
    };
    let end = if picture.dirty_bytes > picture.limit_bytes { '+' } else { '|' };
    (0..BAR).map(letter).chain([end]).collect()
}

fn marks(pace: &PaceReport) -> String {
    let picture = &pace.picture;
    let all = [
        ("write-back from", pace.background_bytes),
        ("free run to", picture.freerun_bytes),
        ("setpoint", picture.setpoint_bytes),
        ("limit", picture.limit_bytes),
    ];
    let known = all.iter().filter(|(_, bytes)| *bytes > 0);
    let texts: Vec<String> =
        known.map(|(name, bytes)| format!("{name} {}", size(*bytes))).collect();
    texts.join(", ")
}

fn device_rates(picture: &PictureReport) -> String {
    format!(
        "writes back {}, is dirtied with {}",
        rate(picture.write_bandwidth_bytes_s),
        rate(picture.dirty_rate_bytes_s)
    )
}

fn task_rates(picture: &PictureReport) -> String {
    // That of the group that dirties most, as the rates are; the device's is another one beside
    // other groups and below the free run.
    let [base, task] = [picture.base_rate_bytes_s, picture.task_rate_bytes_s].map(u128::from);
    let position = (task * 1_000 + base / 2).checked_div(base).unwrap_or(0);
    format!(
        "base rate {} (heading for {}) x position {}.{:03} = {}",
        rate(picture.base_rate_bytes_s),
        rate(picture.balanced_rate_bytes_s),
        position / 1_000,
        position % 1_000,
        rate(picture.task_rate_bytes_s)
    )
}

fn pauses(pace: &PaceReport) -> String {
    let all = &pace.pauses;
    let target = pace.pause_target_ns.map(|pause| format!("; aims at {}", time(pause)));
    let target = target.unwrap_or_default();
    if all.count == 0 {
        return format!("none yet{target}");
    }
    format!(
        "{}; p50 {}, p99 {}, max {}; last {}{target}",
        all.count,
        time(all.p50_ns),
        time(all.p99_ns),
        time(all.max_ns),
        time(pace.picture.last_pause_ns)
    )
}

fn rate(bytes: u64) -> String {
    format!("{}/s", size(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The position of the device is not what the rate of a task was made with.
    #[test]
    fn what_is_shown_can_be_reckoned() {
        let picture = PictureReport {
            base_rate_bytes_s: 100 << 20,
            balanced_rate_bytes_s: 90 << 20,
            task_rate_bytes_s: 200 << 20,
            position_permille: 31_202,
            ..PictureReport::default()
        };
        let text = "base rate 100 MiB/s (heading for 90 MiB/s) x position 2.000 = 200 MiB/s";
        assert_eq!(task_rates(&picture), text);
        assert!(task_rates(&PictureReport::default()).contains("x position 0.000 = 0 B/s"));
    }

    #[test]
    fn the_bar_shows_dirty_memory_between_its_marks() {
        let mut picture = PictureReport {
            dirty_bytes: 100,
            freerun_bytes: 300,
            setpoint_bytes: 350,
            limit_bytes: 400,
            ..PictureReport::default()
        };
        assert_eq!(bar(&picture), "##########....................f....s....|");
        picture.dirty_bytes = 380;
        assert_eq!(bar(&picture), "##############################f####s##..|");
        picture.dirty_bytes = 401;
        assert_eq!(bar(&picture), "##############################f####s####+");
        // No marks where the policy has none, and no limit to compare with.
        let none = PictureReport { dirty_bytes: 1, limit_bytes: 4, ..PictureReport::default() };
        assert_eq!(bar(&none), "##########..............................|");
        assert_eq!(bar(&PictureReport::default()), format!("{}|", ".".repeat(40)));
        let huge = PictureReport { dirty_bytes: u64::MAX, limit_bytes: 1, ..none };
        assert_eq!(bar(&huge).len(), 41);
    }
}
