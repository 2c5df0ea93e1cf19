//! One message for a mistake in a scenario file: where, what is wrong, what would be right.

use core::fmt;
use core::ops::Range;

/// A message and the bytes of the file that it is about.
pub(super) type Mistake = (Range<usize>, String);

/// A mistake in a scenario file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// The file, as it was named.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong and what would be right.
    pub message: String,
    /// The line's text.
    text: String,
    /// Characters to underline.
    width: usize,
}

impl ScenarioError {
    /// A mistake at `span` of `text`.
    pub(crate) fn at(file: &str, text: &str, span: Range<usize>, message: String) -> ScenarioError {
        let start = span.start.min(text.len());
        let before = &text[..start];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let end = span.end.clamp(start, line_end);
        ScenarioError {
            file: file.into(),
            line: before.matches('\n').count() + 1,
            column: text[line_start..start].chars().count() + 1,
            message,
            text: text[line_start..line_end].into(),
            width: text[start..end].chars().count().max(1),
        }
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ScenarioError { file, line, column, message, text, width } = self;
        writeln!(f, "{file}:{line}:{column}: {}", message.trim_end())?;
        let margin = line.to_string().len();
        writeln!(f, "{line} | {text}")?;
        let pad: String =
            text.chars().take(column - 1).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        write!(f, "{:margin$} | {pad}{}", "", "^".repeat(*width))
    }
}

impl std::error::Error for ScenarioError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_stands_under_the_mistake() {
        let text = "why = \"x\"\nseed = \"ä\" # no\n";
        let at = text.find("\"ä").expect("there");
        let error = ScenarioError::at("a.toml", text, at..at + 4, "a number, please".into());
        assert_eq!(
            error.to_string(),
            "a.toml:2:8: a number, please\n2 | seed = \"ä\" # no\n  |        ^^^"
        );
        let error = ScenarioError::at("a.toml", "", 0..0, "empty".into());
        assert_eq!(error.to_string(), "a.toml:1:1: empty\n1 | \n  | ^");
    }
}
