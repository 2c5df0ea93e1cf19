//! The curves as SVG: efficiency and both shares over the time slice, a line for each wait.
//!
//! The horizontal axis has one equal step per value of the sweep and no logarithm, so that every
//! coordinate comes from additions and multiplications alone: the bytes are the same on every
//! machine.

use super::{QUANTUM_MS, WAIT_MS};
use crate::milli::Milli;
use crate::svg::{Area, Drawn, finish_svg};
use crate::tables::geom::slices::SlicePoint;
use plotters::prelude::*;

/// Size of the picture in pixels.
const SIZE: (u32, u32) = (960, 360);

/// The panels: figure and title.
const PANELS: [(&str, &str); 3] =
    [("efficiency", "efficiency"), ("dd_share", "share of dd"), ("cvs_share", "share of cvs")];

/// Colours that stay apart for colour-blind eyes (Okabe and Ito 2008), one per wait.
const COLOURS: [RGBColor; WAIT_MS.len()] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(213, 94, 0),
];

/// The picture of one mix.
pub fn svg(points: &[SlicePoint], row: &str) -> String {
    finish_svg(SIZE, |root| draw(root, points, row))
}

fn draw(root: &Area<'_>, points: &[SlicePoint], row: &str) -> Drawn {
    root.fill(&WHITE)?;
    let title = format!("rr, {row}: time slice (quantum_ms) and wait (wait_ms)");
    let root = root.titled(&title, ("sans-serif", 16))?;
    let panels = root.split_evenly((1, PANELS.len()));
    for (panel, (figure, caption)) in panels.iter().zip(PANELS) {
        draw_panel(panel, points, row, figure, caption)?;
    }
    Ok(())
}

fn draw_panel(
    panel: &Area<'_>,
    points: &[SlicePoint],
    row: &str,
    figure: &str,
    caption: &str,
) -> Drawn {
    let last = QUANTUM_MS.len() as i32 - 1;
    let mut chart = ChartBuilder::on(panel)
        .caption(caption, ("sans-serif", 14))
        .margin(8)
        .x_label_area_size(34)
        .y_label_area_size(40)
        .build_cartesian_2d(0..last, 0i32..1_100)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .max_light_lines(1)
        .x_labels(QUANTUM_MS.len())
        .y_labels(12)
        .x_desc("quantum_ms")
        .x_label_formatter(&|index| {
            let quantum = usize::try_from(*index).ok().and_then(|at| QUANTUM_MS.get(at));
            quantum.map_or(String::new(), |ms| ms.to_string())
        })
        .y_label_formatter(&|milli| format!("{:.1}", Milli(i64::from(*milli))))
        .draw()?;
    for (wait_ms, colour) in WAIT_MS.into_iter().zip(COLOURS) {
        let line = QUANTUM_MS.iter().enumerate().filter_map(|(index, quantum)| {
            let point = points.iter().find(|point| {
                (point.row, point.quantum_ms, point.wait_ms) == (row, *quantum, wait_ms)
            })?;
            let value = point.outcome.figure(figure)?;
            Some((index as i32, i32::try_from(value.0).ok()?))
        });
        let style = colour.stroke_width(2);
        chart
            .draw_series(LineSeries::new(line, style))?
            .label(format!("wait {wait_ms} ms"))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 14, y)], style));
    }
    // One legend is enough, and the efficiency leaves room below it.
    if figure != PANELS[0].0 {
        return Ok(());
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .label_font(("sans-serif", 11))
        .draw()?;
    Ok(())
}
