//! Reports as text or JSON, one after another, for scripts and where there is no terminal.

use super::columns::Columns;
use super::header;
use super::rows::{Order, rows};
use super::theme::Theme;
use super::{app::App, draw::up};
use crate::cli::View;
use crate::cluster::volumes;
use crate::machine::Machine;
use crate::nice::progress;
use crate::output::{Failure, Format, note, print_json_line, print_on};
use iopace_daemon::api::{LiveDevice, LiveReport};
use iopace_daemon::control::LiveMessage;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::time::Duration;

/// Width of the text, where `COLUMNS` says nothing.
const WIDTH: u16 = 100;

/// Narrowest and widest text.
const WIDTHS: (u16, u16) = (64, 300);

/// How reports are printed.
#[derive(Clone, Copy, Debug)]
pub struct Batch {
    /// As what.
    pub format: Format,
    /// End after so many.
    pub count: Option<u64>,
    /// Time between two of them.
    pub delay: Duration,
}

/// Prints reports until there were enough of them; what is shown, and of which device, is as `app`
/// has it.
///
/// # Errors
/// Standard output cannot be written. A daemon that goes away is waited for; that is said on
/// standard error.
pub fn run(machine: &Machine, app: &App, batch: Batch) -> Result<(), Failure> {
    let mut follow = machine.follow();
    let mut printed = 0;
    let mut next = Next::default();
    let mut is_lost = false;
    while batch.count.is_none_or(|count| printed < count) {
        match follow.next_message() {
            Ok(LiveMessage::Report(report)) => {
                is_lost = false;
                if !next.is_due(&report, batch.delay) {
                    continue;
                }
                let is_read = match batch.format {
                    Format::Table => {
                        let (nice, volumes) = (progress::all(), volumes(machine));
                        print_on(&frame(app, (&nice, &volumes), &report, width()))?
                    }
                    Format::Json => print_json_line(&report)?,
                };
                if !is_read {
                    return Ok(());
                }
                printed += 1;
            }
            Ok(LiveMessage::Event(_)) => {}
            Err(error) if !is_lost => {
                is_lost = true;
                note(format_args!("{error}; it is tried again"));
            }
            Err(_) => {}
        }
    }
    Ok(())
}

/// Which reports are printed.
#[derive(Debug, Default)]
pub struct Next {
    /// Uptime and number of the last one that was.
    last: Option<(u64, u64)>,
}

impl Next {
    /// Whether this one is, at least so long behind the last one.
    pub fn is_due(&mut self, report: &LiveReport, delay: Duration) -> bool {
        let due = self.last.is_none_or(|(uptime_ns, sequence)| {
            // Reports come a little early or late. One with a smaller number is another daemon's.
            let early = u128::from(report.interval_ns / 2);
            let passed = u128::from(report.uptime_ns.saturating_sub(uptime_ns));
            report.sequence < sequence || passed + early >= delay.as_nanos()
        });
        if due {
            self.last = Some((report.uptime_ns, report.sequence));
        }
        due
    }
}

fn width() -> u16 {
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    columns.unwrap_or(WIDTH).clamp(WIDTHS.0, WIDTHS.1)
}

/// A report as text, ended by an empty line.
pub fn frame(
    app: &App,
    (nice, volumes): (&[String], &[String]),
    report: &LiveReport,
    width: u16,
) -> String {
    let interval = crate::units::time(report.interval_ns);
    let mut text = format!(
        "iopace top: report {}, of the last {interval}, up {}\n",
        report.sequence,
        up(report.uptime_ns)
    );
    for line in nice {
        text.push_str(&format!("nice {line}\n"));
    }
    for line in volumes {
        text.push_str(&format!("volume {line}\n"));
    }
    let is_shown = |device: &&LiveDevice| app.device.as_ref().is_none_or(|d| *d == device.device);
    for device in report.devices.iter().filter(is_shown) {
        text.push_str(&format!("\n{} ({})\n", device.device, device.kind));
        text.push_str(&device_text(app, device, width));
    }
    text.push('\n');
    text
}

fn device_text(app: &App, device: &LiveDevice, width: u16) -> String {
    let (sort, is_reversed, is_flat) = (app.sort, app.is_reversed, app.is_flat);
    let order = Order { sort, is_reversed, is_flat, filter: &app.filter };
    let rows = rows(device, app.view, order);
    let count = u16::try_from(rows.len()).unwrap_or(u16::MAX).min(u16::MAX - 10);
    let area = Rect::new(0, 0, width, header::LINES + 1 + count);
    let mut buffer = Buffer::empty(area);
    header::draw(device, Theme::Plain, &mut buffer, Rect { height: header::LINES, ..area });
    let columns = Columns::fit(app.view, width);
    let mut lines = area.rows().skip(usize::from(header::LINES));
    if let Some(titles) = lines.next().filter(|_| count > 0) {
        columns.draw_titles(sort, &mut buffer, titles);
    }
    for (row, line) in rows.iter().zip(lines) {
        columns.draw(row, Theme::Plain, &mut buffer, line);
    }
    let mut text = text_of(&buffer);
    if count == 0 && app.view == View::Tasks {
        text.push_str("no tasks seen yet\n");
    }
    if app.view == View::Groups && device.groups_left_out_count > 0 {
        text.push_str(&format!("{} more groups are not reported\n", device.groups_left_out_count));
    }
    text
}

/// The letters without what stands behind the last one of a line.
pub fn text_of(buffer: &Buffer) -> String {
    let mut text = String::new();
    for row in buffer.area.rows() {
        let cells = (row.x..row.right()).filter_map(|x| buffer.cell((x, row.y)));
        let line: String = cells.map(|cell| cell.symbol()).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    // A table without rows has no titles.
    text.truncate(text.trim_end().len());
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    #[test]
    fn a_report_is_printed_when_the_time_has_passed() {
        let mut report = samples::report();
        let mut next = Next::default();
        let delay = Duration::from_secs(2);
        let mut due = |sequence: u64, uptime_ms: u64| {
            (report.sequence, report.uptime_ns) = (sequence, uptime_ms * 1_000_000);
            next.is_due(&report, delay)
        };
        assert!(due(5, 5000));
        assert!(!due(6, 6010) && due(7, 6990) && !due(8, 8100) && due(9, 9000));
        assert!(due(1, 1000), "another daemon's");
    }

    #[test]
    fn text_has_all_devices_or_the_one_that_is_named() {
        let mut app = App::default();
        insta::assert_snapshot!("batch", frame(&app, (&[], &[]), &samples::report(), 100));
        app.device = Some("idle".into());
        app.view = View::Tasks;
        let nice = ["tar: 41 % of 200 GiB, idle".to_owned()];
        let volumes = ["pool: 2 of 2 hosts".to_owned()];
        let lines = (&nice[..], &volumes[..]);
        insta::assert_snapshot!("batch_tasks", frame(&app, lines, &samples::report(), 80));
    }
}
