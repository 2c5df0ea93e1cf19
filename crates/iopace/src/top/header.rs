//! What a device does, in six lines.

use super::columns::{draw_bar, ops};
use super::reasons::{Of, REASONS, Shares};
use super::theme::{BOLD, Theme};
use crate::units::{short_size, size, time};
use iopace_daemon::api::{FlowReport, LiveDevice, PaceReport};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

/// Lines of the header.
pub const LINES: u16 = 6;

/// Widest gauge.
const GAUGE_MAX: u16 = 60;

/// Draws it.
pub fn draw(device: &LiveDevice, theme: Theme, buffer: &mut Buffer, area: Rect) {
    let is_narrow = rates(device, size).width() > usize::from(area.width) + 2;
    let shown = if is_narrow { short_size } else { size };
    let lines = area.rows().zip([rates(device, shown), counts(device), policies(device)]);
    for (row, line) in lines {
        buffer.set_line(row.x, row.y, &line, row.width);
    }
    let mut rest = area.rows().skip(3);
    if let Some(row) = rest.next() {
        draw_dirty(device.pace.as_ref(), theme, buffer, row);
    }
    let shares = Shares::of(&device.activity);
    if let Some(row) = rest.next() {
        buffer.set_stringn(row.x, row.y, "why", usize::from(row.width), BOLD);
        let bar = Rect { x: row.x + 4, width: row.width.saturating_sub(4), ..row };
        draw_bar(&shares, theme, buffer, bar);
    }
    if let Some(row) = rest.next() {
        let line = percents(&shares, theme, usize::from(row.width));
        buffer.set_line(row.x, row.y, &line, row.width);
    }
}

/// A name and what it is.
fn pair(name: &'static str, value: String) -> [Span<'static>; 2] {
    [Span::styled(name, BOLD), Span::raw(format!(" {value}  "))]
}

/// What a device moves, and how long tasks wait for it; sizes as `size` has them.
fn rates(device: &LiveDevice, size: fn(u64) -> String) -> Line<'static> {
    let flow = |flow: FlowReport| format!("{}/s {}/s", size(flow.bytes_s), ops(flow.ops_milli_s));
    let activity = &device.activity;
    let latency = &activity.latency;
    let shown = |ns| if latency.count > 0 { time(ns) } else { "-".into() };
    let parts = [
        pair("read", flow(activity.read)),
        pair("write", flow(activity.write)),
        pair("p50", shown(latency.p50_ns)),
        pair("p99", shown(latency.p99_ns)),
    ];
    Line::from_iter(parts.into_iter().flatten())
}

fn counts(device: &LiveDevice) -> Line<'static> {
    let queue = &device.queue;
    let taken = queue.queued_count + queue.in_flight_count;
    let parts = [
        pair("at the disk", format!("{} of {}", queue.in_flight_count, device.window.depth)),
        pair("slots", format!("{taken} of {}", queue.nr_requests)),
        pair("waiting for one", queue.waiting_count.to_string()),
    ];
    Line::from_iter(parts.into_iter().flatten())
}

fn policies(device: &LiveDevice) -> Line<'static> {
    let how = match (device.inserted, device.auto) {
        (true, _) => " (inserted)",
        (false, true) => " (auto)",
        (false, false) => "",
    };
    let pace = device.pace.as_ref().map_or("-", |pace| &pace.policy);
    let parts = [
        pair("scheduler", format!("{}{how}", device.scheduler)),
        pair("pace", pace.into()),
        pair("window", device.window.policy.clone()),
    ];
    Line::from_iter(parts.into_iter().flatten())
}

fn percents(shares: &Shares, theme: Theme, width: usize) -> Line<'static> {
    let parts = shares.percents();
    if parts.is_empty() {
        return Line::raw("    nothing was done and nothing waits");
    }
    let what = match shares.of {
        Of::Tasks => "",
        Of::WriteBack => "  (write-back; nobody waits for it)",
        Of::Now => "  (requests that wait; none finished)",
    };
    let line = |has_words: bool| {
        let mut spans = vec![Span::raw("    ")];
        for (place, percent) in &parts {
            let reason = &REASONS[*place];
            spans.push(Span::styled(reason.letter.to_string(), theme.reason(reason)));
            let word = if has_words { reason.word } else { "" };
            spans
                .push(Span::raw(format!(" {word}{}{percent}  ", if has_words { " " } else { "" })));
        }
        spans.push(Span::raw(what));
        Line::from(spans)
    };
    let named = line(true);
    // The legend has the words too.
    if named.width() <= width { named } else { line(false) }
}

/// Dirty memory between nothing and its limit, with the marks of the policy.
fn draw_dirty(pace: Option<&PaceReport>, theme: Theme, buffer: &mut Buffer, row: Rect) {
    let width = usize::from(row.width);
    buffer.set_stringn(row.x, row.y, "dirty", width, BOLD);
    let x = row.x + 6;
    let rest = usize::from(row.width.saturating_sub(6));
    let Some(pace) = pace else {
        buffer.set_stringn(
            x,
            row.y,
            "none: the device bypasses the page cache",
            rest,
            Style::new(),
        );
        return;
    };
    let picture = &pace.picture;
    let paused = match pace.waiting_count {
        0 => String::new(),
        count => format!(", {count} paused"),
    };
    let text = format!(
        "{} of {}{paused}",
        size(picture.dirty_bytes),
        size(picture.limit_bytes.max(picture.dirty_bytes)),
    );
    let (gauge, legend) = ("  F freerun S setpoint", text.len() + 3);
    let has_legend = rest >= legend + gauge.len() + 18;
    let legend = legend + if has_legend { gauge.len() } else { 0 };
    let cells = u16::try_from(rest.saturating_sub(legend)).unwrap_or(0).min(GAUGE_MAX);
    buffer.set_stringn(x, row.y, "[", 1, Style::new());
    for (at, letter) in (0..cells).zip(bar(pace, cells)) {
        let style = if letter == '.' { Style::new() } else { theme.gauge() };
        buffer.set_stringn(x + 1 + at, row.y, letter.to_string(), 1, style);
    }
    let text = format!("] {text}{}", if has_legend { gauge } else { "" });
    buffer.set_stringn(x + 1 + cells, row.y, text, rest, Style::new());
}

/// The gauge's letters: what is dirty is `#`; marks stand on it.
fn bar(pace: &PaceReport, cells: u16) -> Vec<char> {
    let picture = &pace.picture;
    let whole = u128::from(picture.limit_bytes.max(picture.dirty_bytes)).max(1);
    let place = |bytes: u64| {
        let place = u128::from(bytes) * u128::from(cells) / whole;
        usize::try_from(place).unwrap_or(usize::MAX)
    };
    let dirty = place(picture.dirty_bytes);
    let mut bar: Vec<char> =
        (0..usize::from(cells)).map(|at| if at < dirty { '#' } else { '.' }).collect();
    // What a policy does not know is 0. The limit is a mark only where more is dirty.
    for (bytes, mark) in
        [(picture.limit_bytes, 'L'), (picture.freerun_bytes, 'F'), (picture.setpoint_bytes, 'S')]
    {
        if let (Some(cell), 1..) = (bar.get_mut(place(bytes)), bytes) {
            *cell = mark;
        }
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    fn gauge(change: impl FnOnce(&mut PaceReport)) -> String {
        let mut pace = samples::report().devices[0].pace.clone().expect("paced");
        change(&mut pace);
        bar(&pace, 16).into_iter().collect()
    }

    #[test]
    fn the_gauge_has_marks_where_the_policy_has_them() {
        assert_eq!(gauge(|_| {}), "######F####.S...");
        assert_eq!(gauge(|pace| pace.picture.dirty_bytes = 0), "......F.....S...");
        let over = gauge(|pace| pace.picture.dirty_bytes = 2 * pace.picture.limit_bytes);
        assert_eq!(over, "###F##S#L#######");
        let unknown = gauge(|pace| {
            pace.picture.setpoint_bytes = 0;
            pace.picture.freerun_bytes = 0;
            pace.picture.limit_bytes = 0;
        });
        assert_eq!(unknown, "################");
        assert_eq!(gauge(|pace| pace.picture = Default::default()), "................");
    }
}
