//! What goes to standard output, and how a command fails.
//!
//! All that a command says goes through here, and nothing of it commands a terminal: names that
//! others have chosen are shown as they are in [`printable`].

pub use iopace_sim::spelling::nearest;

use crate::units::shell_word;
use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table, Width};
use iopace_daemon::printable;
use serde::Serialize;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::path::Path;

/// How to print a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people
    #[default]
    Table,
    /// For programs
    Json,
}

/// Widest line of a table with running text.
const WIDTH: u16 = 100;

/// Narrowest: less is no terminal that anybody reads.
const WIDTH_MIN: u16 = 60;

/// A command that failed.
#[derive(Debug)]
pub struct Failure {
    /// What was asked, what is wrong, what would be right.
    pub message: String,
    /// Exit status: 1 failed, 2 wrongly asked.
    pub status: u8,
}

impl Failure {
    /// It failed.
    pub fn new(message: impl fmt::Display) -> Failure {
        Failure { message: message.to_string(), status: 1 }
    }

    /// It was wrongly asked.
    pub fn usage(message: impl fmt::Display) -> Failure {
        Failure { message: message.to_string(), status: 2 }
    }

    /// It failed when all but the rest was done.
    #[must_use]
    pub fn but(self, done: &str) -> Failure {
        Failure { message: format!("{}; {done}", self.message), ..self }
    }
}

/// Prints text; what would command a terminal is shown instead. A reader that went away
/// (`| head`) is no failure.
///
/// # Errors
/// Standard output cannot be written.
pub fn print(text: &str) -> Result<(), Failure> {
    print_on(text).map(|_| ())
}

/// The same for what goes on. False if nobody reads it any more.
///
/// # Errors
/// Standard output cannot be written.
pub fn print_on(text: &str) -> Result<bool, Failure> {
    let mut out = io::stdout().lock();
    let text = printable::lines(text);
    printed(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// What came of writing to standard output. False if nobody reads it any more.
///
/// # Errors
/// Standard output cannot be written.
pub fn printed(result: io::Result<()>) -> Result<bool, Failure> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::new(format!("standard output cannot be written: {error}"))),
    }
}

/// Says on standard error that something holds, and will not do what it says.
///
/// The command line that changes that gets the `--control` that was given.
pub fn warn(of: &str, text: &str, command: &str, control: Option<&Path>) {
    let command = match (command, control) {
        ("", _) => String::new(),
        (command, None) => format!(": {command}"),
        (command, Some(path)) => {
            format!(": {command} --control {}", shell_word(&path.display().to_string()))
        }
    };
    note(format_args!("warning: {of}: {text}{command}"));
}

/// Says a line on standard error. What cannot be written there is lost: that must not keep anybody
/// from the end of what was begun.
pub fn note(text: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{}", printable::lines(&text.to_string()));
}

/// Writes over the last line of standard error, which is a terminal; an empty text takes the line
/// away. As with [`note`], what cannot be shown is lost.
pub fn note_over(text: fmt::Arguments<'_>) {
    let mut err = io::stderr().lock();
    let text = text.to_string();
    let _ = write!(err, "\r\x1b[K{}", printable::name(&text)).and_then(|()| err.flush());
}

/// Prints a value as JSON.
///
/// # Errors
/// Standard output cannot be written.
pub fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value);
    let text = text.expect("strings, numbers and maps with string keys");
    print(&(printable::json(text) + "\n"))
}

/// Prints a value as a line of JSON. False if nobody reads it any more.
///
/// # Errors
/// Standard output cannot be written.
pub fn print_json_line(value: &impl Serialize) -> Result<bool, Failure> {
    let text = serde_json::to_string(value);
    let text = text.expect("strings, numbers and maps with string keys");
    print_on(&(printable::json(text) + "\n"))
}

/// The columns of letters that there are: those of the terminal, or as `COLUMNS` says.
pub fn width() -> u16 {
    seen_width().unwrap_or(WIDTH).max(WIDTH_MIN)
}

/// The same; none where nothing limits them, as in a pipe.
pub fn seen_width() -> Option<u16> {
    let named = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let of_terminal = || {
        let is_terminal = io::stdout().is_terminal();
        is_terminal.then(|| ratatui::crossterm::terminal::size().ok()).flatten().map(|size| size.0)
    };
    named.or_else(of_terminal)
}

/// Running text in lines of so many columns at most, each after `indent`. Words stay whole.
pub fn wrapped(text: &str, indent: &str, columns: u16) -> String {
    let columns = usize::from(columns);
    let mut lines = String::new();
    let mut length = 0;
    for word in text.split(' ') {
        let letters = word.chars().count();
        if length > 0 && length + 1 + letters > columns {
            lines.push('\n');
            length = 0;
        }
        match length {
            0 => lines.push_str(indent),
            _ => lines.push(' '),
        }
        let before = if length == 0 { indent.chars().count() } else { length + 1 };
        length = before + letters;
        lines.push_str(word);
    }
    lines.push('\n');
    lines
}

/// Columns of the names before the lines of [`named_line`].
const NAMES: usize = 12;

/// A line of a report, `  name        value`, broken between words where the terminal ends. It is
/// one line where nothing limits it, for programs that look for it.
pub fn named_line(name: &str, value: &str) -> String {
    let value = wrapped(value, &" ".repeat(2 + NAMES), line_width());
    format!("  {name:<NAMES$}{}", value.trim_start())
}

/// A line that goes on below itself where the terminal ends, after two blanks.
pub fn folded(text: &str) -> String {
    let first = text.len() - text.trim_start().len();
    let lines = wrapped(text.trim_start(), "  ", line_width());
    text[..first].to_owned() + lines.trim_start()
}

/// Columns for a line that is one line in a pipe.
pub fn line_width() -> u16 {
    seen_width().map_or(u16::MAX, |columns| columns.max(WIDTH_MIN))
}

/// Columns for running text: a hundred, or those of a narrower terminal.
pub fn text_width() -> u16 {
    WIDTH.min(width())
}

/// A table without lines; long text is broken at a hundred columns, or where the terminal ends.
pub fn table<'a>(header: impl IntoIterator<Item = &'a str>) -> Table {
    let mut table = Table::new();
    table
        .load_style(NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(text_width());
    table.set_header(header);
    table
}

/// A cell with a number.
pub fn right(text: impl fmt::Display) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

/// No figure with its unit is longer, as `1023.9 MiB/s`.
const FIGURE_MAX: usize = 12;

/// Gives each column room for its longest word: names and figures that are broken cannot be read,
/// or pasted.
fn keep_words(table: &mut Table) {
    let cells = |row: &comfy_table::Row| -> Vec<usize> {
        let longest = |cell: &Cell| {
            let content = cell.content();
            // A figure and its unit are one word.
            let first = content.trim_start_matches(['+', '-']).chars().next();
            if content.len() <= FIGURE_MAX && first.is_some_and(|c| c.is_ascii_digit()) {
                return content.chars().count();
            }
            content.split_whitespace().map(|word| word.chars().count()).max().unwrap_or(0)
        };
        row.cell_iter().map(longest).collect()
    };
    let rows: Vec<Vec<usize>> =
        table.header().into_iter().chain(table.row_iter()).map(cells).collect();
    for (at, column) in table.column_iter_mut().enumerate() {
        let longest = rows.iter().filter_map(|row| row.get(at)).max().copied().unwrap_or(0);
        // The style has a blank on both sides.
        let width = u16::try_from(longest + 2).unwrap_or(u16::MAX);
        column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(width)));
    }
}

/// The table with every line indented, without blanks at line ends, ended by a newline.
pub fn finish(table: &Table, indent: usize) -> String {
    let mut table = table.clone();
    keep_words(&mut table);
    let mut text = String::new();
    for line in table.to_string().lines() {
        // The style pads each cell on both sides; the first blank is the table's margin.
        let line = line.strip_prefix(' ').unwrap_or(line).trim_end();
        if !line.is_empty() {
            text.push_str(&" ".repeat(indent));
            text.push_str(line);
        }
        text.push('\n');
    }
    text
}
