//! What the demo prints: progress, a table, a chart, what to do next.

use super::{Args, Figures, Format, Mix, SETTLE_TICKS, TICK, load};
use crate::output::{finish, note, note_over, print, seen_width};
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use iopace_core::time::Nanos;
use iopace_sim::milli::Milli;
use iopace_sim::tables::geom;
use serde_json::json;
use std::io::IsTerminal;
use std::time::Duration;

/// Length of the simulated runs beside the live ones.
const SIMULATED: Nanos = Nanos::from_secs(30);

/// A larger share of alone cannot be: the programs are closed loops on one disk. A tenth above 1 is
/// for the luck of eight seconds.
const SHARE_MAX: Milli = Milli(1_100);

/// Bars of rising height.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Says what is going on, on one line that is written over; a line each where that cannot be.
pub fn progress(what: &str, seconds: u64, tick: u64, length: Duration) {
    if std::io::stderr().is_terminal() {
        let left = seconds.saturating_sub((length * tick as u32).as_secs());
        note_over(format_args!("  {what}: {left} s"));
    } else if tick == 0 {
        note(format_args!("  {what}: {seconds} s"));
    }
}

/// Ends the line of [`progress`].
pub fn progress_done() {
    if std::io::stderr().is_terminal() {
        note_over(format_args!(""));
    }
}

/// Prints the results.
///
/// # Errors
/// Standard output cannot be written; or the figures are void, which the message says.
pub fn results(args: &Args, mixes: &[Mix]) -> Result<(), String> {
    let parts = match args.format {
        Format::Json => vec![json(args, mixes)],
        Format::Table => {
            let charts = mixes.iter().map(|mix| chart(args, mix));
            let table = table(args, mixes, seen_width());
            [table].into_iter().chain(charts).chain([verdict(args, mixes)]).collect()
        }
    };
    print(&(parts.join("\n") + "\n")).map_err(|failure| failure.message)?;
    match mixes.iter().find_map(|mix| void(args, mix)) {
        Some(why) => Err(why),
        None => Ok(()),
    }
}

/// Why the figures of a mix are void, if they are: a program cannot have more in the mix than
/// alone, so something else disturbed one of the measurements.
fn void(args: &Args, mix: &Mix) -> Option<String> {
    for (variant, figures) in [(geom::NONE, mix.none), (args.sched.as_str(), mix.with)] {
        let (dd, cvs, _) = shares(figures, mix.alone);
        for (program, share) in [("dd", dd), ("cvs", cvs)] {
            if share > SHARE_MAX {
                return Some(format!(
                    "void: in {}, {variant}, {program} has {share:.2} of what it had alone, so \
                     this machine was busy with something else; run it again on a quieter machine",
                    mix.row
                ));
            }
        }
    }
    None
}

/// One figure of a mix everywhere it is known.
struct Line {
    program: &'static str,
    figure: &'static str,
    unit: &'static str,
    source: [Option<String>; 2],
    simulated: [Option<Milli>; 2],
    live: [Milli; 2],
}

fn lines(args: &Args, mix: &Mix) -> Vec<Line> {
    let variants = [geom::NONE, args.sched.as_str()];
    let simulated = variants.map(|variant| geom::outcome(mix.row, variant, load::SEED, SIMULATED));
    let source = variants.map(|variant| geom::source(mix.row, variant));
    let live = [mix.none, mix.with];
    let program = super::row_program(mix.row);
    let share = |figures: Figures| shares(figures, mix.alone);
    let sim = |name: &str| [simulated[0].figure(name), simulated[1].figure(name)];
    let line = |program, figure, unit, source, live| {
        let simulated = sim(figure);
        Line { program, figure, unit, source, simulated, live }
    };
    let program: &'static str = if program == "dd-read" { "dd (read)" } else { "dd (write)" };
    let number = |milli: Option<Milli>| milli.map(|milli| format!("{milli:.0}"));
    let dd = [number(source[0].dd_mb_s), number(source[1].dd_mb_s)];
    let word = [source[0].cvs.map(str::to_owned), source[1].cvs.map(str::to_owned)];
    let nothing = || [None, None];
    vec![
        line(program, "dd_mb_s", "MB/s", dd, live.map(|figures| figures.dd_mb_s)),
        line("cvs", "cvs_ops_s", "requests/s", word, live.map(|figures| figures.cvs_ops_s)),
        line("cvs", "cvs_p99_ms", "ms, p99", nothing(), live.map(|figures| figures.cvs_p99_ms)),
        line(program, "dd_share", "of alone", nothing(), live.map(|f| share(f).0)),
        line("cvs", "cvs_share", "of alone", nothing(), live.map(|f| share(f).1)),
        line("both", "efficiency", "of alone", nothing(), live.map(|f| share(f).2)),
    ]
}

/// Share of dd, share of cvs, and their sum.
fn shares(figures: Figures, alone: Figures) -> (Milli, Milli, Milli) {
    let dd = figures.dd_mb_s.over(alone.dd_mb_s).unwrap_or_default();
    let cvs = figures.cvs_ops_s.over(alone.cvs_ops_s).unwrap_or_default();
    (dd, cvs, Milli(dd.0 + cvs.0))
}

fn places(unit: &str, value: Milli) -> String {
    if unit == "of alone" { format!("{value:.2}") } else { format!("{value:.1}") }
}

/// The figures of all mixes, in one table, or in one for each where that has no room.
fn table(args: &Args, mixes: &[Mix], columns: Option<u16>) -> String {
    let wide = wide_table(args, mixes).to_string();
    let needs = wide.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    let text = match columns {
        Some(columns) if usize::from(columns) < needs => {
            let each = mixes.iter().map(|mix| narrow_table(args, mix));
            each.collect::<Vec<String>>().join("\n")
        }
        _ => wide,
    };
    format!(
        "\nOne SATA disk (7200 rpm, 72 MB/s, emulated in real time), two programs on it.\n\
         2009: figures of the FreeBSD system that this scheduler comes from.\n{text}"
    )
}

fn wide_table(args: &Args, mixes: &[Mix]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header([Cell::new("mix")].into_iter().chain(heads(args)));
    for mix in mixes {
        for (index, line) in lines(args, mix).into_iter().enumerate() {
            let first = Cell::new(if index == 0 { mix.row } else { "" });
            table.add_row([first].into_iter().chain(cells(line)));
        }
    }
    table
}

/// A mix without lines, below its name.
fn narrow_table(args: &Args, mix: &Mix) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(heads(args));
    for line in lines(args, mix) {
        table.add_row(cells(line));
    }
    format!("\n{}\n{}", mix.row, finish(&table, 0).trim_end())
}

/// The heads of the columns behind that of the mix.
fn heads(args: &Args) -> impl Iterator<Item = Cell> {
    let sched = &*args.sched;
    let head = ["program", "unit", "2009", "2009", "simulated", "simulated", "live", "live"];
    let variant = ["", "", geom::NONE, sched, geom::NONE, sched, geom::NONE, sched];
    head.into_iter().zip(variant).map(|(head, variant)| match variant {
        "" => Cell::new(head),
        variant => Cell::new(format!("{head}\n{variant}")),
    })
}

/// What stands below them for a figure.
fn cells(line: Line) -> impl Iterator<Item = Cell> {
    let Line { program, unit, source, simulated, live, .. } = line;
    let source = source.into_iter().map(Option::unwrap_or_default);
    let simulated = simulated.into_iter();
    let simulated = simulated.map(move |v| v.map_or(String::new(), |v| places(unit, v)));
    let live = live.into_iter().map(move |value| places(unit, value));
    let figures = source.chain(simulated).chain(live);
    let figures = figures.map(|text| Cell::new(text).set_alignment(CellAlignment::Right));
    [program, unit].map(Cell::new).into_iter().chain(figures)
}

/// Throughput of both programs over time, with the moment of the exchange.
fn chart(args: &Args, mix: &Mix) -> String {
    let bars = |values: Vec<u64>| {
        // The first columns show the page cache filling, far above what the disk can do.
        let most = values.iter().skip(SETTLE_TICKS).copied().max().unwrap_or(0).max(1);
        let bar = |value: &u64| match value {
            0 => ' ',
            _ => BARS[((value * 8).div_ceil(most) as usize).clamp(1, 8) - 1],
        };
        (values.iter().map(bar).collect::<String>(), most)
    };
    let ticks_per_s = 1_000 / TICK.as_millis() as u64;
    let (dd, dd_most) = bars(mix.ticks.iter().map(|tick| tick.0).collect());
    let (cvs, cvs_most) = bars(mix.ticks.iter().map(|tick| tick.1).collect());
    let pad = " ".repeat(mix.inserted_at);
    format!(
        "\n{row}, a column per {tick} ms\n  dd   │{dd}│ up to {dd_most} MB/s\n  \
         cvs  │{cvs}│ up to {cvs_most} requests/s\n        {pad}▲ {sched} inserted",
        row = mix.row,
        tick = TICK.as_millis(),
        dd_most = dd_most * ticks_per_s / 1_000_000,
        cvs_most = cvs_most * ticks_per_s,
        sched = args.sched,
    )
}

/// Which of the figures to meet are met here and now.
fn verdict(args: &Args, mixes: &[Mix]) -> String {
    let mut text = String::from("\nFigures to meet, live:");
    for mix in mixes {
        let void = void(args, mix);
        for (index, variant) in [geom::NONE, args.sched.as_str()].into_iter().enumerate() {
            for line in lines_live(mix, index) {
                let Some(bound) = geom::bound(mix.row, variant, line.0) else { continue };
                let word = match (&void, bound.holds(line.1, Milli(0))) {
                    (Some(_), _) => "void",
                    (None, true) => "holds",
                    (None, false) => "falls short",
                };
                let row = mix.row;
                let value = format!("{:.2}", line.1);
                let figure = format!("{row}, {variant}: {}", line.0);
                text += &format!("\n  {figure:<36} {value:>8}   {:<12} {word}", bound.text());
            }
        }
        text.extend(void.map(|why| format!("\n  {why}")));
    }
    text + "\n\nNext: iopace serve disk.img    then, under load: iopace sched insert -a rr disk"
}

/// The live figures of one variant by name.
fn lines_live(mix: &Mix, index: usize) -> Vec<(&'static str, Milli)> {
    let figures = [mix.none, mix.with][index];
    let (dd, cvs, both) = shares(figures, mix.alone);
    vec![
        ("dd_mb_s", figures.dd_mb_s),
        ("cvs_ops_s", figures.cvs_ops_s),
        ("cvs_p99_ms", figures.cvs_p99_ms),
        ("dd_share", dd),
        ("cvs_share", cvs),
        ("efficiency", both),
    ]
}

fn json(args: &Args, mixes: &[Mix]) -> String {
    let mut objects = Vec::new();
    for mix in mixes {
        let void = void(args, mix);
        for line in lines(args, mix) {
            for (index, variant) in [geom::NONE, args.sched.as_str()].into_iter().enumerate() {
                let bound = geom::bound(mix.row, variant, line.figure);
                let judged = bound.filter(|_| void.is_none());
                objects.push(json!({
                    "table": "demo",
                    "row": mix.row,
                    "variant": variant,
                    "figure": line.figure,
                    "unit": line.unit,
                    "source": line.source[index],
                    "simulated": line.simulated[index],
                    "value": line.live[index],
                    "bound": bound.map(|bound| bound.text()),
                    "holds": judged.map(|bound| bound.holds(line.live[index], Milli(0))),
                    "void": void,
                }));
            }
        }
    }
    serde_json::to_string_pretty(&objects).expect("plain values")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::Row;

    fn args() -> Args {
        Args {
            dashboard: false,
            http: 0,
            row: Row::Reader,
            sched: "rr".into(),
            seconds: 8,
            format: Format::Table,
        }
    }

    /// A mix in which cvs has so many requests a second with the scheduler, of 100 alone.
    fn mix(cvs_ops_s: i64) -> Mix {
        let figures = |dd: i64, cvs: i64| Figures {
            dd_mb_s: Milli(dd * 1_000),
            cvs_ops_s: Milli(cvs * 1_000),
            cvs_p99_ms: Milli(20_000),
        };
        Mix {
            row: "dd-read+cvs",
            alone: figures(72, 100),
            none: figures(6, 40),
            with: figures(35, cvs_ops_s),
            ticks: vec![(1, 1)],
            inserted_at: 0,
        }
    }

    #[test]
    fn a_share_above_alone_makes_the_figures_void() {
        let text = verdict(&args(), &[mix(167)]);
        assert!(!text.contains("holds") && !text.contains("falls short"), "{text}");
        assert!(text.contains("void: in dd-read+cvs, rr, cvs has 1.67 of what"), "{text}");
        assert!(text.contains("run it again on a quieter machine"), "{text}");
        assert!(results(&args(), &[mix(167)]).is_err_and(|why| why.starts_with("void: ")));
    }

    #[test]
    fn shares_up_to_a_tenth_above_alone_are_judged() {
        for ops_s in [48, 110] {
            let text = verdict(&args(), &[mix(ops_s)]);
            assert!(text.contains("holds") && !text.contains("void"), "{ops_s}: {text}");
            assert_eq!(void(&args(), &mix(ops_s)), None);
        }
    }

    #[test]
    fn the_table_fits_into_eighty_columns() {
        let text = table(&args(), &[mix(48), mix(50)], Some(80));
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        for word in ["dd-read+cvs", "simulated", "requests/s", "35.0", "very slow"] {
            let has = text.contains(word);
            assert_eq!(has, word != "very slow", "{word}: {text}");
        }
        // In a pipe it is one table.
        assert!(table(&args(), &[mix(48)], None).contains("│ mix "));
    }

    #[test]
    fn json_judges_nothing_that_is_void() {
        let value = |ops_s| -> serde_json::Value {
            serde_json::from_str(&json(&args(), &[mix(ops_s)])).expect("JSON")
        };
        for entry in value(167).as_array().expect("an array") {
            assert!(entry["holds"].is_null(), "{entry}");
            assert!(entry["void"].as_str().is_some_and(|why| why.contains("quieter")), "{entry}");
        }
        let good = value(48);
        let entries = good.as_array().expect("an array");
        assert!(entries.iter().all(|entry| entry["void"].is_null()));
        assert!(entries.iter().any(|entry| entry["holds"] == true));
    }
}
