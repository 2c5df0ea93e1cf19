//! Colours, or none. Everything is told by letters and words too.

use super::reasons::Reason;
use ratatui::style::{Color, Modifier, Style};

/// What the terminal can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    /// No colours: asked for by `NO_COLOR`, or the output is text.
    Plain,
    /// The eight of every terminal.
    Eight,
    /// The palette of 256.
    Palette,
}

impl Theme {
    /// As the environment says.
    pub fn of_terminal() -> Theme {
        Theme::of(|name| std::env::var(name).unwrap_or_default())
    }

    /// As these variables say; one that is not set is empty.
    fn of(variable: impl Fn(&str) -> String) -> Theme {
        let term = variable("TERM");
        if !variable("NO_COLOR").is_empty() || term == "dumb" {
            return Theme::Plain;
        }
        let colours = variable("COLORTERM");
        let has_many = ["256color", "direct", "truecolor"].iter().any(|word| term.contains(word));
        if has_many || colours == "truecolor" || colours == "24bit" {
            Theme::Palette
        } else {
            Theme::Eight
        }
    }

    /// A cell of a bar.
    pub fn reason(self, reason: &Reason) -> Style {
        let ink = if reason.is_light { Color::Indexed(16) } else { Color::Indexed(231) };
        match self {
            Theme::Plain => Style::new(),
            // The disk as text is; the others on their colour, with the ink that is read on it.
            Theme::Eight if reason.plain == 0 => Style::new(),
            Theme::Eight => {
                let ink = if reason.plain == 4 { Color::White } else { Color::Black };
                Style::new().bg(PLAIN[usize::from(reason.plain)]).fg(ink)
            }
            Theme::Palette => Style::new().bg(Color::Indexed(reason.indexed)).fg(ink),
        }
    }

    /// Something is wrong.
    pub fn error(self) -> Style {
        let style = Style::new().add_modifier(Modifier::BOLD);
        match self {
            Theme::Plain => style,
            Theme::Eight => style.fg(Color::Red),
            Theme::Palette => style.fg(Color::Indexed(203)),
        }
    }

    /// Dirty memory in its gauge.
    pub fn gauge(self) -> Style {
        match self {
            Theme::Plain | Theme::Eight => Style::new(),
            Theme::Palette => Style::new().fg(Color::Indexed(214)),
        }
    }
}

/// The eight colours as ANSI numbers them.
const PLAIN: [Color; 8] = [
    Color::Black,
    Color::Red,
    Color::Green,
    Color::Yellow,
    Color::Blue,
    Color::Magenta,
    Color::Cyan,
    Color::Gray,
];

/// Titles and what is chosen: seen on every terminal.
pub const REVERSED: Style = Style::new().add_modifier(Modifier::REVERSED);

/// What is to be seen first.
pub const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);

/// What is there only for order.
pub const DIM: Style = Style::new().add_modifier(Modifier::DIM);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_says_how_many_colours_there_are() {
        let of = |set: &[(&str, &str)]| {
            let value = |name: &str| set.iter().find(|(known, _)| *known == name);
            Theme::of(|name| value(name).map(|(_, value)| (*value).to_owned()).unwrap_or_default())
        };
        assert_eq!(of(&[("TERM", "xterm-256color")]), Theme::Palette);
        assert_eq!(of(&[("TERM", "xterm"), ("COLORTERM", "truecolor")]), Theme::Palette);
        assert_eq!(of(&[("TERM", "screen-256color"), ("COLORTERM", "")]), Theme::Palette);
        assert_eq!(of(&[("TERM", "linux")]), Theme::Eight);
        assert_eq!(of(&[("TERM", "dumb")]), Theme::Plain);
        assert_eq!(of(&[("TERM", "xterm-256color"), ("NO_COLOR", "1")]), Theme::Plain);
        assert_eq!(of(&[("TERM", "xterm-256color"), ("NO_COLOR", "")]), Theme::Palette);
    }
}
