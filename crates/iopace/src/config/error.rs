//! One message for a mistake in the configuration file: where, what is wrong, what would be right.

use std::fmt;
use std::ops::Range;

/// A mistake in the configuration file. Prints as
///
/// ```text
/// iopace.toml:3:1: there is no `read_only`: did you mean `read-only`?
/// 3 | read_only = true
///   | ^^^^^^^^^
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    file: String,
    message: String,
    /// Line and column in characters, from 1.
    line: usize,
    column: usize,
    /// The line's text.
    text: String,
    /// Characters to underline.
    width: usize,
}

impl ConfigError {
    /// A mistake at the bytes `span` of `text`.
    pub fn at(file: &str, text: &str, span: Range<usize>, message: String) -> ConfigError {
        let start = span.start.min(text.len());
        let before = &text[..start];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let end = span.end.clamp(start, line_end);
        ConfigError {
            file: file.into(),
            message,
            line: before.matches('\n').count() + 1,
            column: text[line_start..start].chars().count() + 1,
            text: text[line_start..line_end].trim_end().into(),
            width: text[start..end].chars().count().max(1),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConfigError { file, message, line, column, text, width } = self;
        writeln!(f, "{file}:{line}:{column}: {}", message.trim_end())?;
        writeln!(f, "{line} | {text}")?;
        let margin = line.to_string().len();
        // Tabs stay tabs, so that the caret stands where the text is.
        let pad = text.chars().chain(std::iter::repeat(' ')).take(column - 1);
        let pad: String = pad.map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        write!(f, "{:margin$} | {pad}{}", "", "^".repeat(*width))
    }
}

impl std::error::Error for ConfigError {}
