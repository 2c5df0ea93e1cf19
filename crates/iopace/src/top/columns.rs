//! The columns of the table: which there are, how wide, and which go first where room is short.

use super::reasons::{REASONS, Shares};
use super::rows::Row;
use super::theme::{BOLD, DIM, REVERSED, Theme};
use crate::cli::{Sort, View};
use crate::units::{short_size, time};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::Span;

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Name,
    Group,
    Class,
    Weight,
    Limit,
    Read,
    Write,
    Buffered,
    Ops,
    P99,
    Slots,
    Dirty,
    Why,
}

use Field::{
    Buffered, Class, Dirty, Group, Limit, Name, Ops, P99, Read, Slots, Weight, Why, Write,
};

/// Of groups, with the least width of each. 85 columns hold them all.
const GROUPS: [(Field, u16); 12] = [
    (Name, 12),
    (Class, 4),
    (Weight, 6),
    (Limit, 1),
    (Read, 6),
    (Write, 7),
    (Buffered, 7),
    (Ops, 6),
    (P99, 6),
    (Slots, 5),
    (Dirty, 6),
    (Why, 8),
];

/// Of tasks.
const TASKS: [(Field, u16); 8] =
    [(Name, 16), (Group, 12), (Read, 6), (Write, 7), (Buffered, 7), (Ops, 6), (P99, 6), (Why, 8)];

/// Where room is short these go, the first one first.
const GO: [Field; 7] = [Class, Dirty, Slots, Limit, Ops, Buffered, Group];

/// A name gets no wider than this; the rest is for the bar.
const NAME_MAX: u16 = 40;

impl Field {
    fn title(self, view: View) -> &'static str {
        match self {
            Name if view == View::Tasks => "task",
            Name | Group => "group",
            Class => "cls",
            Weight => "weight",
            Limit => "L",
            Read => "read/s",
            Write => "write/s",
            Buffered => "cache/s",
            Ops => "ops/s",
            P99 => "p99",
            Slots => "slots",
            Dirty => "dirty",
            Why => "why",
        }
    }

    fn is_sorted_by(self, sort: Sort) -> bool {
        match sort {
            Sort::Name => self == Name,
            Sort::Weight => self == Weight,
            Sort::Total => matches!(self, Read | Write | Buffered),
            Sort::Read => self == Read,
            Sort::Write => self == Write,
            Sort::Buffered => self == Buffered,
            Sort::Ops => self == Ops,
            Sort::P99 => self == P99,
            Sort::Slots => self == Slots,
            Sort::Dirty => self == Dirty,
            Sort::Waited => self == Why,
        }
    }

    fn is_number(self) -> bool {
        !matches!(self, Name | Group | Class | Limit | Why)
    }

    fn text(self, row: &Row) -> String {
        match self {
            Name => format!("{}{}", "  ".repeat(row.depth), row.name),
            Group => row.group.clone(),
            Class => row.class.clone(),
            Weight => row.weight.map(|weight| weight.to_string()).unwrap_or_default(),
            Limit => if row.limited { "L" } else { "" }.into(),
            Read => short_size(row.read_bytes_s),
            Write => short_size(row.write_bytes_s),
            Buffered => short_size(row.buffered_bytes_s),
            Ops => ops(row.ops_milli_s),
            P99 => row.p99_ns.map_or("-".into(), |p99| time(p99).replace(' ', "")),
            Slots => row.slots_count.to_string(),
            Dirty => short_size(row.dirty_bytes),
            Why => String::new(),
        }
    }
}

/// Requests per second from thousandths, as `12` or `3.4`.
pub fn ops(milli: u64) -> String {
    match milli {
        0 => "0".into(),
        1..10_000 => format!("{}.{}", milli / 1000, milli % 1000 / 100),
        _ => (milli / 1000).to_string(),
    }
}

/// The columns that fit, each with its place and width.
#[derive(Clone, Debug)]
pub struct Columns {
    view: View,
    fields: Vec<(Field, u16, u16)>,
}

impl Columns {
    /// Those for so many cells.
    pub fn fit(view: View, width: u16) -> Columns {
        let mut fields = match view {
            View::Groups => GROUPS.to_vec(),
            View::Tasks => TASKS.to_vec(),
        };
        let needed = |fields: &[(Field, u16)]| -> u16 {
            let gaps = u16::try_from(fields.len().saturating_sub(1)).unwrap_or(0);
            fields.iter().map(|(_, width)| width).sum::<u16>() + gaps
        };
        for gone in GO {
            if needed(&fields) > width {
                fields.retain(|(field, _)| *field != gone);
            }
        }
        let mut spare = width.saturating_sub(needed(&fields));
        // Names first, up to half of what is there; then the bar.
        let names: Vec<usize> =
            (0..fields.len()).filter(|at| matches!(fields[*at].0, Name | Group)).collect();
        let half = spare / 2 / u16::try_from(names.len()).unwrap_or(1).max(1);
        for at in names {
            let more = half.min(NAME_MAX.saturating_sub(fields[at].1));
            fields[at].1 += more;
            spare -= more;
        }
        if let Some((_, width)) = fields.iter_mut().find(|(field, _)| *field == Why) {
            *width += spare;
        }
        let mut at = 0;
        let mut placed = |(field, width): (Field, u16)| {
            let place = (field, at, width);
            at += width + 1;
            place
        };
        Columns { view, fields: fields.into_iter().map(&mut placed).collect() }
    }

    /// Draws the titles.
    pub fn draw_titles(&self, sort: Sort, buffer: &mut Buffer, area: Rect) {
        buffer.set_style(area, REVERSED);
        for (field, at, width) in &self.fields {
            let style = if field.is_sorted_by(sort) { REVERSED.patch(BOLD) } else { REVERSED };
            put(buffer, area, (*at, *width), field.title(self.view), field.is_number(), style);
        }
    }

    /// Draws a row.
    pub fn draw(&self, row: &Row, theme: Theme, buffer: &mut Buffer, area: Rect) {
        let style = if row.is_aside { DIM } else { Style::new() };
        for (field, at, width) in &self.fields {
            if *field == Why {
                let bar = Rect { x: area.x + at, width: *width, ..area };
                draw_bar(&row.shares, theme, buffer, bar.intersection(area));
            } else {
                let text = field.text(row);
                put(buffer, area, (*at, *width), &text, field.is_number(), style);
            }
        }
    }
}

/// Draws why requests wait.
pub fn draw_bar(shares: &Shares, theme: Theme, buffer: &mut Buffer, area: Rect) {
    for (place, x) in shares.bar(area.width).into_iter().zip(area.x..) {
        let reason = &REASONS[place];
        let letter = reason.letter.to_string();
        // In the row that is chosen it keeps its colours.
        let style = theme.reason(reason).remove_modifier(Modifier::REVERSED);
        buffer.set_stringn(x, area.y, letter, 1, style);
    }
}

/// Writes into cells; what does not fit ends with `~`.
pub fn put(
    buffer: &mut Buffer,
    area: Rect,
    (at, width): (u16, u16),
    text: &str,
    to_the_right: bool,
    style: Style,
) {
    let length = u16::try_from(Span::raw(text).width()).unwrap_or(u16::MAX);
    let x = area.x + at;
    let shift = if to_the_right { width.saturating_sub(length) } else { 0 };
    buffer.set_stringn(x + shift, area.y, text, usize::from(width - shift), style);
    if length > width && width > 0 {
        buffer.set_stringn(x + width - 1, area.y, "~", 1, style);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn titles(view: View, width: u16) -> Vec<&'static str> {
        let columns = Columns::fit(view, width);
        let (_, at, last) = columns.fields.last().expect("some");
        assert!(at + last <= width, "{width}: beyond the edge");
        columns.fields.iter().map(|(field, ..)| field.title(view)).collect()
    }

    #[test]
    fn less_room_drops_columns_by_rank() {
        assert_eq!(titles(View::Groups, 85).len(), GROUPS.len());
        assert!(!titles(View::Groups, 80).contains(&"cls"), "the first to go");
        assert_eq!(titles(View::Groups, 80).len(), GROUPS.len() - 1);
        assert_eq!(titles(View::Tasks, 80).len(), TASKS.len());
        let narrow = titles(View::Groups, 64);
        assert!(!narrow.contains(&"dirty") && !narrow.contains(&"cls"), "{narrow:?}");
        for kept in ["group", "weight", "read/s", "write/s", "cache/s", "p99", "why"] {
            assert!(narrow.contains(&kept), "{kept}");
        }
        for width in 64..300 {
            titles(View::Groups, width);
            titles(View::Tasks, width);
        }
    }

    #[test]
    fn requests_per_second_are_short() {
        let cases = [(0, "0"), (70, "0.0"), (3_450, "3.4"), (10_000, "10"), (1_234_999, "1234")];
        for (milli, text) in cases {
            assert_eq!(ops(milli), text);
        }
    }

    #[test]
    fn what_is_cut_off_says_so() {
        let area = Rect::new(0, 0, 8, 1);
        let mut buffer = Buffer::empty(area);
        put(&mut buffer, area, (0, 5), "a-long-name", false, Style::new());
        put(&mut buffer, area, (6, 2), "\u{6f22}\u{5b57}", false, Style::new());
        assert_eq!(buffer.cell((4, 0)).map(|cell| cell.symbol()), Some("~"));
        assert_eq!(buffer.cell((7, 0)).map(|cell| cell.symbol()), Some("~"));
    }
}
