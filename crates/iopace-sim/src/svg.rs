//! Pictures as the text of an SVG.

use plotters::prelude::*;

/// What a picture is drawn on, or a part of it.
pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// Whether it could be drawn.
pub(crate) type Drawn = Result<(), Box<dyn std::error::Error>>;

/// Lets `draw` draw a picture of that size, and gives its text.
pub(crate) fn finish_svg(size: (u32, u32), draw: impl FnOnce(&Area<'_>) -> Drawn) -> String {
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        draw(&root).expect("drawing into a string cannot fail");
        root.present().expect("drawing into a string cannot fail");
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}
