//! The whole picture.

use super::app::{App, Mode};
use super::columns::{Columns, put};
use super::header;
use super::menu::{Entry, Menu};
use super::reasons::REASONS;
use super::rows::Row;
use super::theme::{BOLD, DIM, REVERSED, Theme};
use crate::cli::View;
use iopace_daemon::api::LiveDevice;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::symbols::border;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Clear, Paragraph, Widget, Wrap};

/// Less than this does not hold a device and a few rows.
pub const LEAST: (u16, u16) = (64, 16);

/// A message gets so many lines at most.
const NOTE_LINES: usize = 5;

/// Most lines about programs under `iopace nice`, and about volumes of several hosts.
const LINES_MAX: u16 = 3;

/// Keys, the most needed first: the last ones go where room is short.
const KEYS: [(&str, &str); 11] = [
    ("q", "quit"),
    ("?", "help"),
    ("Tab", "tasks"),
    ("s", "sort"),
    ("/", "filter"),
    ("d", "device"),
    ("t", "flat"),
    ("w", "weight"),
    ("S", "sched"),
    ("p", "pause"),
    ("r", "turn"),
];

const HELP: &str = "\
arrows, PgUp, PgDn: a row      Tab  groups or tasks
s  sort by, from a list        < >  sort by the next column
r  turn the order around       t    groups as a tree or a list
/  filter, Esc takes it away   d    another device
w  weight of the chosen group  S    exchange the scheduler
p  stop and go on              q    end
L in the table: a limit of the group's own (io.max) holds.
Bars: where the time went that tasks waited, or else that
of write-back, or what waits if nothing finished. '=' is
the disk at work, which is no waiting.
Dirty memory: nobody is paced below F; it is to settle at S;
the gauge ends at the limit.";

/// Frames of letters that every terminal has.
const FRAME: border::Set<'_> = border::Set {
    top_left: "+",
    top_right: "+",
    bottom_left: "+",
    bottom_right: "+",
    vertical_left: "|",
    vertical_right: "|",
    horizontal_top: "-",
    horizontal_bottom: "-",
};

/// Draws everything.
pub fn draw(app: &mut App, theme: Theme, buffer: &mut Buffer, area: Rect) {
    if area.width < LEAST.0 || area.height < LEAST.1 {
        let text = format!(
            "This terminal has {} columns and {} lines; {} and {} are needed. q ends; \
             'iopace top --batch' prints text.",
            area.width, area.height, LEAST.0, LEAST.1
        );
        Paragraph::new(text).wrap(Wrap { trim: true }).render(area, buffer);
        return;
    }
    let mut foot = foot(app, theme, usize::from(area.width));
    foot.truncate(NOTE_LINES);
    let (top, rest) = split(area, 1);
    let (body, last) = split(rest, rest.height - u16::try_from(foot.len()).unwrap_or(1));
    title(app, theme, buffer, top);
    for (row, line) in last.rows().zip(&foot) {
        buffer.set_line(row.x, row.y, line, row.width);
    }
    draw_body(app, theme, buffer, body);
    match &app.mode {
        Mode::Menu(menu) => draw_menu(menu, buffer, body),
        Mode::Help => draw_box("keys", HELP, buffer, body),
        Mode::Table | Mode::Filter | Mode::Weight(..) => {}
    }
}

/// The upper lines, so many, and the rest.
fn split(area: Rect, lines: u16) -> (Rect, Rect) {
    let lines = lines.min(area.height);
    let upper = Rect { height: lines, ..area };
    (upper, Rect { y: area.y + lines, height: area.height - lines, ..area })
}

/// The device and the state of things.
fn title(app: &App, theme: Theme, buffer: &mut Buffer, row: Rect) {
    buffer.set_style(row, REVERSED);
    let mut text = " iopace top".to_owned();
    if let (Some((at, device)), Some(report)) = (app.shown(), app.report()) {
        let count = report.devices.len();
        text.push_str(&format!("  {}  {}  {} of {count}", device.device, device.kind, at + 1));
        text.push_str(&format!("  up {}", up(report.uptime_ns)));
    }
    let (state, style) = match (&app.lost, app.is_paused) {
        (Some(_), _) => (" NO CONNECTION ", theme.error().patch(REVERSED)),
        (None, true) => (" PAUSED ", REVERSED.patch(BOLD)),
        (None, false) => (" live ", REVERSED),
    };
    let width = u16::try_from(state.len()).unwrap_or(0);
    let left = usize::from(row.width.saturating_sub(width));
    buffer.set_stringn(row.x, row.y, text, left, REVERSED);
    buffer.set_stringn(row.right().saturating_sub(width), row.y, state, state.len(), style);
}

/// A long time, as `3 h 12 min`.
pub fn up(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, ..) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

fn draw_body(app: &mut App, theme: Theme, buffer: &mut Buffer, area: Rect) {
    let Some((_, device)) = app.shown() else {
        let text = match (app.report(), &app.lost) {
            (Some(_), _) => "the daemon has no device",
            (None, Some(_)) => "",
            (None, None) => "waiting for the first report",
        };
        buffer.set_stringn(area.x, area.y, text, usize::from(area.width), Style::new());
        return;
    };
    let (upper, rest) = split(area, header::LINES);
    header::draw(device, theme, buffer, upper);
    let rest = draw_lines(("nice", &app.nice), buffer, rest);
    let rest = draw_lines(("volume", &app.volumes), buffer, rest);
    let (table, last) = split(rest, rest.height - 1);
    legend(theme, buffer, last);
    let rows = app.rows();
    let about = about(app, device, rows.len());
    let (line, table) = split(table, 1);
    buffer.set_stringn(line.x, line.y, about, usize::from(line.width), DIM);
    draw_table(app, &rows, theme, buffer, table);
}

/// Lines of one kind; what is left below them.
fn draw_lines((kind, lines): (&str, &[String]), buffer: &mut Buffer, area: Rect) -> Rect {
    let count = u16::try_from(lines.len()).unwrap_or(LINES_MAX).min(LINES_MAX);
    let (upper, rest) = split(area, count);
    let indent = kind.len() as u16 + 1;
    for (row, line) in upper.rows().zip(lines) {
        buffer.set_stringn(row.x, row.y, kind, usize::from(row.width), BOLD);
        let width = usize::from(row.width.saturating_sub(indent));
        buffer.set_stringn(row.x + indent, row.y, line, width, Style::new());
    }
    rest
}

/// What the table shows.
fn about(app: &App, device: &LiveDevice, shown: usize) -> String {
    let (what, all, left_out) = match app.view {
        View::Groups => ("groups", device.groups.len(), device.groups_left_out_count),
        View::Tasks => ("tasks", device.tasks.len(), 0),
    };
    let how = match (app.view, app.is_flat) {
        (View::Groups, false) => " as a tree",
        _ => "",
    };
    let order = if app.is_reversed { ", smallest first" } else { "" };
    let mut text = format!("{what}{how} by {}{order}: ", app.sort.word());
    if app.filter.is_empty() {
        text.push_str(&all.to_string());
    } else {
        text.push_str(&format!("{shown} of {all} with '{}'", app.filter));
    }
    if left_out > 0 {
        text.push_str(&format!("; {left_out} more are not reported"));
    }
    text
}

fn draw_table(app: &mut App, rows: &[Row], theme: Theme, buffer: &mut Buffer, area: Rect) {
    let (titles, body) = split(area, 1);
    let columns = Columns::fit(app.view, area.width);
    columns.draw_titles(app.sort, buffer, titles);
    app.page = usize::from(body.height);
    if rows.is_empty() {
        let text = match app.view {
            _ if !app.filter.is_empty() => "nothing has this text in its name; Esc shows all",
            View::Tasks => "no tasks seen yet",
            View::Groups => "no groups seen yet",
        };
        buffer.set_stringn(body.x, body.y, text, usize::from(body.width), Style::new());
        return;
    }
    let chosen = app.chosen(rows);
    app.first = scrolled(app.first, chosen, app.page, rows.len());
    for (place, row) in body.rows().zip(app.first..) {
        let Some(shown) = rows.get(row) else { break };
        if chosen == row {
            buffer.set_style(place, REVERSED);
        }
        columns.draw(shown, theme, buffer, place);
    }
}

/// The first row that is shown, so that the chosen one is in sight.
fn scrolled(first: usize, chosen: usize, page: usize, count: usize) -> usize {
    let first = first.min(count.saturating_sub(page));
    if chosen < first { chosen } else { first.max((chosen + 1).saturating_sub(page)) }
}

/// What the letters mean.
fn legend(theme: Theme, buffer: &mut Buffer, row: Rect) {
    let line = |is_short: bool| {
        let spans = REASONS.iter().flat_map(|reason| {
            let word = if is_short { reason.short } else { reason.word };
            let letter = Span::styled(reason.letter.to_string(), theme.reason(reason));
            [letter, Span::raw(format!(" {word} "))]
        });
        Line::from_iter(spans)
    };
    let whole = line(false);
    // The last blank need not be there.
    let fits = whole.width() <= usize::from(row.width) + 1;
    buffer.set_line(row.x, row.y, &if fits { whole } else { line(true) }, row.width);
}

/// The last lines: a prompt, a message, or the keys.
fn foot(app: &App, theme: Theme, width: usize) -> Vec<Line<'static>> {
    let prompt = |what: String, text: &str, keys: &'static str| {
        let cursor = Span::styled(" ", REVERSED);
        let parts = [Span::styled(what, BOLD), Span::raw(text.to_owned()), cursor, keys.into()];
        vec![Line::from_iter(parts)]
    };
    match &app.mode {
        Mode::Filter => {
            prompt("filter: ".into(), &app.filter, "  Enter keeps it, Esc takes it away")
        }
        Mode::Weight(device, group, text) => {
            let what = format!("weight of {group} on {device}: ");
            prompt(what, text, "  1 to 10000; Enter sets, Esc undoes")
        }
        _ => message(app, theme, width).unwrap_or_else(|| vec![keys(app, width)]),
    }
}

fn message(app: &App, theme: Theme, width: usize) -> Option<Vec<Line<'static>>> {
    let (text, style) = match (&app.note, &app.lost) {
        (Some(note), _) if note.is_error => (format!("error: {}", note.text), theme.error()),
        (Some(note), _) => (note.text.clone(), BOLD),
        (None, Some(why)) => (format!("{why}; it is tried again"), theme.error()),
        (None, None) => return None,
    };
    let lines = wrapped(&text, width).into_iter();
    Some(lines.map(|line| Line::from(Span::styled(line, style))).collect())
}

/// Text in lines of so many cells, broken between words.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("there is one");
        if last.is_empty() {
            last.push_str(word);
        } else if Span::raw(&**last).width() + 1 + Span::raw(word).width() <= width {
            *last = format!("{last} {word}");
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

fn keys(app: &App, width: usize) -> Line<'static> {
    let mut line = Line::default();
    for (key, word) in KEYS {
        let word = match (key, app.view, app.is_flat, app.is_paused) {
            ("Tab", View::Tasks, ..) => "groups",
            ("t", _, true, _) => "tree",
            ("p", .., true) => "go on",
            _ => word,
        };
        let word = format!(" {word} ");
        // The last blank need not be there.
        if line.width() + key.len() + word.len() > width + 1 {
            break;
        }
        line.push_span(Span::styled(key, BOLD));
        line.push_span(Span::raw(word));
    }
    line
}

/// A box in the middle; what is below is cleared.
fn boxed(title: &str, size: (usize, usize), buffer: &mut Buffer, area: Rect) -> Rect {
    let cells = |count: usize| u16::try_from(count + 2).unwrap_or(u16::MAX);
    let (width, height) = (cells(size.0).min(area.width), cells(size.1).min(area.height));
    let x = area.x + (area.width - width) / 2;
    let y = area.y + (area.height - height) / 2;
    let place = Rect { x, y, width, height };
    let block = Block::new().borders(Borders::ALL).border_set(FRAME).title(format!(" {title} "));
    let inner = block.inner(place);
    Clear.render(place, buffer);
    block.render(place, buffer);
    inner
}

fn draw_box(title: &str, text: &str, buffer: &mut Buffer, area: Rect) {
    let width = text.lines().map(str::len).max().unwrap_or(0);
    let inner = boxed(title, (width, text.lines().count()), buffer, area);
    Paragraph::new(text.to_owned()).wrap(Wrap { trim: false }).render(inner, buffer);
}

fn draw_menu(menu: &Menu, buffer: &mut Buffer, area: Rect) {
    let names = menu.entries.iter().map(|entry| entry.name.len()).max().unwrap_or(0);
    let line = |entry: &Entry| format!(" {:names$}  {}", entry.name, entry.about);
    let lines: Vec<String> = menu.entries.iter().map(line).collect();
    let hint = " Enter chooses, Esc closes ";
    let longest = lines.iter().map(|line| line.trim_end().len() + 1).max().unwrap_or(0);
    let width = longest.max(hint.len()).max(menu.title.len() + 2);
    // What has no room in its line is said in full below, for the one under the bar.
    let room = usize::from(area.width).saturating_sub(2);
    let mut about = Vec::new();
    if let Some(entry) = menu.entries.get(menu.at).filter(|_| width > room) {
        about = wrapped(&entry.about, room.saturating_sub(2));
        about.insert(0, String::new());
        about.resize(about.len().max(3), String::new());
    }
    let below = about.len() + 1;
    let inner = boxed(&menu.title, (width, lines.len() + below), buffer, area);
    let below = u16::try_from(below).unwrap_or(1).min(inner.height);
    let (list, last) = split(inner, inner.height - below);
    let first = scrolled(0, menu.at, usize::from(list.height), lines.len());
    for (place, (at, line)) in list.rows().zip(lines.iter().enumerate().skip(first)) {
        let style = if at == menu.at { REVERSED } else { Style::new() };
        buffer.set_style(place, style);
        put(buffer, place, (0, place.width), line.trim_end(), false, style);
    }
    for (place, line) in last.rows().zip(&about) {
        buffer.set_stringn(place.x + 1, place.y, line, usize::from(place.width), Style::new());
    }
    if let Some(place) = last.rows().next_back() {
        buffer.set_stringn(place.x, place.y, hint, usize::from(place.width), DIM);
    }
}
