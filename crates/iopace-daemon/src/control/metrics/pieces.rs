//! The text of a scrape, a piece at a time: one family, and of groups as many as take some 100 µs.
//!
//! Memory for the pieces is taken beforehand and used again and again: who makes them may be a
//! thread that everybody else goes before, and such a one had better not hold a lock of the
//! allocator.

use super::classic;
use super::families::{FAMILIES, Family, Kind};
use super::samples::{Labels, tell};
use super::{Format, Scrape};
use crate::limits::METRICS_PIECE;
use axum::body::Bytes;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::registry::Registry;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// Room for a piece; it grows if it has to.
const PIECE_BYTES: usize = 128 * 1024;

/// Pieces that are on their way at once, as a rule: hyper takes some before it sends them.
const PIECES_COUNT: usize = 4;

/// Memory for pieces that nobody uses now.
#[derive(Debug)]
pub(super) struct Room(Mutex<Vec<String>>);

impl Room {
    pub(super) fn new() -> Room {
        Room(Mutex::new((0..PIECES_COUNT).map(|_| String::with_capacity(PIECE_BYTES)).collect()))
    }

    fn with<T>(&self, with: impl FnOnce(&mut Vec<String>) -> T) -> T {
        with(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A piece, in memory that is given back.
struct Piece {
    text: String,
    scrape: Arc<Scrape>,
}

impl Piece {
    fn new(scrape: &Arc<Scrape>) -> Piece {
        let text = scrape.room.with(Vec::pop).unwrap_or_default();
        Piece { text, scrape: Arc::clone(scrape) }
    }
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        self.scrape.room.with(|room| room.push(text));
    }
}

/// The pieces, in their order.
pub(super) struct Pieces {
    scrape: Arc<Scrape>,
    format: Format,
    /// The place of the family, and of the first group.
    next: (usize, usize),
    /// Whether something was told of the family.
    is_begun: bool,
}

impl Pieces {
    pub(super) fn new(scrape: Arc<Scrape>, format: Format) -> Pieces {
        Pieces { scrape, format, next: (0, 0), is_begun: false }
    }

    /// Goes on to the next part; none after the last.
    fn part(&mut self) -> Option<Part> {
        let (place, first) = self.next;
        let family = *FAMILIES.get(place)?;
        let (end, most) = match family.labels.first() {
            Some(&"group") => (self.scrape.all.groups.len(), METRICS_PIECE),
            _ => (first, METRICS_PIECE),
        };
        let last = end.min(first + most[usize::from(family.kind != Kind::Histogram)]);
        self.next = if last < end { (place, last) } else { (place + 1, 0) };
        Some(Part { scrape: Arc::clone(&self.scrape), family, groups: first..last })
    }

    /// A part as text; empty if there is nothing.
    fn text(&mut self, part: Part) -> Bytes {
        let is_begun = part.groups.start > 0 && self.is_begun;
        let mut piece = Piece::new(&self.scrape);
        let mut registry = Registry::default();
        registry.register_collector(Box::new(part));
        text::encode_registry(&mut piece.text, &registry).expect("a text takes all");
        let head_bytes = head_bytes(&piece.text);
        self.is_begun = is_begun || head_bytes < piece.text.len();
        if head_bytes == piece.text.len() {
            return Bytes::new();
        }
        let begin = if is_begun { head_bytes } else { 0 };
        if self.format == Format::Open {
            return Bytes::from_owner(piece).slice(begin..);
        }
        let mut classic = Piece::new(&self.scrape);
        classic::from_open(&piece.text[begin..], &mut classic.text);
        Bytes::from_owner(classic)
    }
}

/// The length of what is said of a family before its samples.
fn head_bytes(text: &str) -> usize {
    let lines = text.split_inclusive('\n').take_while(|line| line.starts_with("# "));
    lines.map(str::len).sum()
}

impl Iterator for Pieces {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if let Some(part) = self.part() {
            return Some(self.text(part));
        }
        let is_end = std::mem::replace(&mut self.format, Format::Classic) == Format::Open;
        is_end.then(|| Bytes::from_static(b"# EOF\n"))
    }
}

/// A family, of these groups if it is one of groups.
#[derive(Debug)]
struct Part {
    scrape: Arc<Scrape>,
    family: &'static Family,
    groups: Range<usize>,
}

impl Collector for Part {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Part { scrape, family, groups } = self;
        let (kind, unit) = (family.kind.metric_type(), family.unit());
        let mut metric =
            encoder.encode_descriptor(family.name, family.help, unit.as_ref(), kind)?;
        let mut ended = Ok(());
        tell(&scrape.all, family, groups.clone(), &mut |values, value| {
            let labels = Labels { names: family.labels, values };
            let told = match values {
                [] => value.encode(&mut metric),
                _ => metric.encode_family(&labels).and_then(|mut metric| value.encode(&mut metric)),
            };
            ended = ended.and(told);
        });
        ended
    }
}
