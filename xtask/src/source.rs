//! A Rust file as lines and tokens, without a parser: what is code, what is comment, what is test.
//!
//! Comments and the contents of literals are taken out, so that a check for a word meets the word
//! in code and nowhere else. That is all the grammar the checks need; what the compiler can check
//! is left to the compiler.

/// One line of a file, taken apart.
#[derive(Debug, Default)]
pub struct Line {
    /// The code, with literals emptied and comments cut out.
    pub code: String,
    /// The text of the comments.
    pub comment: String,
    /// Whether it stands in a test.
    pub is_test: bool,
}

/// A word or a punctuation character of the code.
#[derive(Debug, PartialEq, Eq)]
pub struct Token {
    /// The word, or one character.
    pub text: String,
    /// Its line, counted from 1.
    pub line: usize,
}

/// A function and its extent.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The line of its `fn`, counted from 1.
    pub line: usize,
    /// Its lines, from `fn` to the closing brace.
    pub lines_count: usize,
}

/// A file, taken apart.
#[derive(Debug)]
pub struct Source {
    /// Its lines.
    pub lines: Vec<Line>,
    /// Its tokens.
    pub tokens: Vec<Token>,
}

impl Source {
    /// Takes `text` apart.
    pub fn new(text: &str) -> Source {
        let lines = split(text);
        let tokens = tokens(&lines);
        let mut source = Source { lines, tokens };
        source.mark_tests();
        source
    }

    /// The texts of the tokens from `at` on are these.
    pub fn matches(&self, at: usize, texts: &[&str]) -> bool {
        texts.iter().enumerate().all(|(i, text)| self.text(at + i) == *text)
    }

    /// The text of the token at `at`, empty past the end.
    pub fn text(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |token| token.text.as_str())
    }

    /// Whether the token at `at` stands in a test.
    pub fn is_test(&self, at: usize) -> bool {
        self.tokens.get(at).is_some_and(|token| self.lines[token.line - 1].is_test)
    }

    /// Where these texts follow one another in code that is not a test.
    pub fn find_at<'a>(&'a self, texts: &'a [&'a str]) -> impl Iterator<Item = usize> + 'a {
        (0..self.tokens.len()).filter(|&at| self.matches(at, texts) && !self.is_test(at))
    }

    /// The first tokens of the places where these texts follow one another.
    pub fn find<'a>(&'a self, texts: &'a [&'a str]) -> impl Iterator<Item = &'a Token> + 'a {
        self.find_at(texts).map(|at| &self.tokens[at])
    }

    /// The index of the bracket that closes the one at `open`, or the end.
    pub fn closing(&self, open: usize) -> usize {
        let mut depth = 0;
        for at in open..self.tokens.len() {
            match self.text(at) {
                "{" | "(" | "[" => depth += 1,
                "}" | ")" | "]" => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return at;
            }
        }
        self.tokens.len().saturating_sub(1)
    }

    /// All functions with a body.
    pub fn functions(&self) -> Vec<Function> {
        let mut functions = Vec::new();
        for at in 0..self.tokens.len() {
            if self.text(at) != "fn" || !is_word(self.text(at + 1)) {
                continue;
            }
            let Some(open) = self.body(at) else { continue };
            let line = self.tokens[at].line;
            let lines_count = self.tokens[self.closing(open)].line - line + 1;
            functions.push(Function { name: self.text(at + 1).to_string(), line, lines_count });
        }
        functions
    }

    /// The index of the `{` that opens the item at `at`; `None` if a `;` ends it first.
    fn body(&self, at: usize) -> Option<usize> {
        let mut at = at;
        while at < self.tokens.len() {
            match self.text(at) {
                "(" | "[" => at = self.closing(at),
                "{" => return Some(at),
                ";" => return None,
                _ => {}
            }
            at += 1;
        }
        None
    }

    /// Marks what stands behind `#[cfg(test)]` or `#[test]`.
    fn mark_tests(&mut self) {
        let mut at = 0;
        while at < self.tokens.len() {
            let is_test = ["cfg(test)]", "cfg(all(test", "test]"].iter().any(|attribute| {
                self.matches(at, &["#", "["]) && self.joined(at + 2, attribute.len()) == *attribute
            });
            if is_test && let Some(open) = self.body(self.closing(at + 1) + 1) {
                let end = self.closing(open);
                for line in self.tokens[at].line..=self.tokens[end].line {
                    self.lines[line - 1].is_test = true;
                }
                at = end;
            }
            at += 1;
        }
    }

    /// The texts from `at` on without spaces, cut to `len` bytes.
    fn joined(&self, at: usize, len: usize) -> String {
        let mut joined: String = (at..at + 6).map(|at| self.text(at)).collect();
        joined.truncate(len);
        joined
    }
}

/// Whether a token is a name or a keyword.
pub fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c == '_' || c.is_alphabetic())
}

fn tokens(lines: &[Line]) -> Vec<Token> {
    let mut tokens = Vec::new();
    for (i, line) in lines.iter().enumerate() {
        let mut word = String::new();
        for c in line.code.chars().chain([' ']) {
            if c == '_' || c.is_alphanumeric() {
                word.push(c);
                continue;
            }
            if !word.is_empty() {
                tokens.push(Token { text: std::mem::take(&mut word), line: i + 1 });
            }
            if !c.is_whitespace() {
                tokens.push(Token { text: c.to_string(), line: i + 1 });
            }
        }
    }
    tokens
}

/// What the text at some place is part of.
enum Inside {
    Code,
    LineComment,
    /// With its depth: block comments nest.
    BlockComment(usize),
    Text,
    /// With the number of `#` that close it.
    RawText(usize),
}

fn split(text: &str) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut inside = Inside::Code;
    for raw in text.lines() {
        let mut line = Line::default();
        split_line(&raw.chars().collect::<Vec<_>>(), &mut inside, &mut line);
        if let Inside::LineComment = inside {
            inside = Inside::Code;
        }
        lines.push(line);
    }
    lines
}

fn split_line(chars: &[char], inside: &mut Inside, line: &mut Line) {
    let at = |i: usize| chars.get(i).copied().unwrap_or(' ');
    let mut i = 0;
    while i < chars.len() {
        let step = match inside {
            Inside::Code => split_code(chars, i, inside, line),
            Inside::LineComment => {
                line.comment.push(at(i));
                1
            }
            Inside::BlockComment(depth) => match (at(i), at(i + 1)) {
                ('*', '/') => {
                    *inside =
                        if *depth > 1 { Inside::BlockComment(*depth - 1) } else { Inside::Code };
                    2
                }
                ('/', '*') => {
                    *depth += 1;
                    2
                }
                (c, _) => {
                    line.comment.push(c);
                    1
                }
            },
            Inside::Text => match at(i) {
                '\\' => 2,
                '"' => {
                    line.code.push('"');
                    *inside = Inside::Code;
                    1
                }
                _ => 1,
            },
            Inside::RawText(hashes) => {
                let is_end = at(i) == '"' && (1..=*hashes).all(|n| at(i + n) == '#');
                let step = if is_end { 1 + *hashes } else { 1 };
                if is_end {
                    line.code.push('"');
                    *inside = Inside::Code;
                }
                step
            }
        };
        i += step;
    }
}

/// Takes what begins at `i`, in code; gives how many characters that is.
fn split_code(chars: &[char], i: usize, inside: &mut Inside, line: &mut Line) -> usize {
    let at = |i: usize| chars.get(i).copied().unwrap_or(' ');
    match (at(i), at(i + 1)) {
        ('/', '/') => {
            *inside = Inside::LineComment;
            2
        }
        ('/', '*') => {
            *inside = Inside::BlockComment(1);
            line.code.push(' ');
            2
        }
        ('"', _) => {
            line.code.push('"');
            *inside = Inside::Text;
            1
        }
        ('r', '"' | '#') if i == 0 || !is_name(at(i - 1)) || at(i - 1) == 'b' => {
            let hashes = chars[i + 1..].iter().take_while(|&&c| c == '#').count();
            if at(i + 1 + hashes) != '"' {
                line.code.push('r');
                return 1;
            }
            line.code.push('"');
            *inside = Inside::RawText(hashes);
            2 + hashes
        }
        ('\'', next) => {
            // A character, unless it is a lifetime: 'a with no quote behind it.
            let end = if next == '\\' {
                (i + 3..chars.len()).find(|&end| at(end) == '\'')
            } else {
                Some(i + 2).filter(|&end| at(end) == '\'')
            };
            line.code.push('\'');
            end.map_or(1, |end| end - i + 1)
        }
        (c, _) => {
            line.code.push(c);
            1
        }
    }
}

fn is_name(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> Vec<String> {
        Source::new(text).lines.into_iter().map(|line| line.code).collect()
    }

    #[test]
    fn comments_and_literals_are_no_code() {
        assert_eq!(code("let a = \"x // y\"; // z"), ["let a = \"\"; "]);
        assert_eq!(code("a /* b /* c */ d */ e"), ["a   e"]);
        assert_eq!(code("r#\"one \" two\"# + b\"\\\"\""), ["\"\" + b\"\""]);
        assert_eq!(code("\"over\nthe line\" + c"), ["\"", "\" + c"]);
        assert_eq!(code("'{' '\\'' '\\u{7b}' 'a: &'b str"), ["' ' ' 'a: &'b str"]);
        assert_eq!(code("for r in bar\"\""), ["for r in bar\"\""]);
    }

    #[test]
    fn comments_are_kept_apart() {
        let source = Source::new("// one\nlet x = 1; /* two */");
        assert_eq!(source.lines[0].comment, " one");
        assert_eq!(source.lines[1].comment, " two ");
    }

    #[test]
    fn functions_have_their_extent() {
        let text = "fn a() {\n  if x { y }\n}\nfn no_body();\nfn b(f: fn(u8)) -> [u8; 2] { c }\n";
        let functions = Source::new(text).functions();
        let found: Vec<_> =
            functions.iter().map(|f| (f.name.as_str(), f.line, f.lines_count)).collect();
        assert_eq!(found, [("a", 1, 3), ("b", 5, 1)]);
    }

    #[test]
    fn tests_are_marked() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests;\nfn b() {}\n#[cfg(test)]\nmod t {\n  x\n}\n\
                    fn c() {}\n#[test]\nfn d() {\n}\n";
        let marked: Vec<bool> = Source::new(text).lines.iter().map(|line| line.is_test).collect();
        let expected = [1, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0].map(|n| n == 0);
        let expected: Vec<bool> =
            expected.iter().enumerate().map(|(i, &is)| is && i != 1 && i != 2).collect();
        assert_eq!(marked, expected);
    }
}
