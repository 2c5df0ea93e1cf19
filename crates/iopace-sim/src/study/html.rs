//! A study as one HTML file that needs nothing else: no network, no other file.
//!
//! Findings and figures are text, readable without scripts; the plots are drawn by uPlot, which is
//! part of the file with its licence. A content policy forbids the browser to load anything.

use super::page::{READING, REPLAY_READING, table};
use super::summary::Summary;
use super::view::PERMILLE;
use super::{VariantOutcome, words};
use crate::markup::{escaped, head};
use crate::milli::Milli;
use crate::scenario::Scenario;
use iopace_core::time::Nanos;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Most variants whose plots are in the file: a plot has about 50 kB, and nobody looks at more.
pub const PLOTS_MAX: usize = 24;

/// Most variants that are all shown at first; of more, the first and the last are.
const SHOWN_MAX: usize = 3;

const PLOT_SCRIPT: &str = include_str!("../../assets/uPlot.iife.min.js");
const PLOT_LICENCE: &str = include_str!("../../assets/uPlot-LICENSE");
const SCRIPT: &str = include_str!("../../assets/report.js");

/// What a report is about.
struct About<'a> {
    title: &'a str,
    /// Where the figures come from.
    setup: &'a str,
    /// What a row of the table is about: a task or a stream.
    who: &'static str,
    /// What the words mean.
    reading: &'static str,
    /// The keys that were swept, if any.
    swept: &'a [String],
}

/// The report. `file` is the scenario's name; `swept` the keys that were swept, if any.
pub fn page(
    file: &str,
    scenario: &Scenario,
    outcomes: &[VariantOutcome],
    swept: &[String],
) -> String {
    let seeds = outcomes.first().map_or(1, |one| one.summary.seeds);
    let setup = setup(file, scenario, seeds);
    let title = scenario.why.trim();
    document(&About { title, setup: &setup, who: "task", reading: READING, swept }, outcomes)
}

/// The report of a replay; `setup` says in a line or two what was replayed, and how.
pub fn replay_page(title: &str, setup: &str, outcomes: &[VariantOutcome]) -> String {
    let about = About { title, setup, who: "stream", reading: REPLAY_READING, swept: &[] };
    document(&about, outcomes)
}

fn document(about: &About<'_>, outcomes: &[VariantOutcome]) -> String {
    let summaries: Vec<Summary> = outcomes.iter().map(|one| one.summary.clone()).collect();
    let swept = about.swept;
    let mut text = head(about.title, true);
    let _ = write!(
        text,
        "<body>\n<header><h1>{}</h1>\n<p class=\"dim\">{}</p></header>\n<main>\n",
        escaped(about.title),
        escaped(about.setup)
    );
    text.push_str("<section><h2>What came out</h2>\n<ul>\n");
    for finding in words::findings(&summaries) {
        let _ = writeln!(text, "<li>{}</li>", escaped(&finding));
    }
    text.push_str("</ul></section>\n<section><h2>Figures</h2>\n");
    text.push_str(&table(&summaries, about.who));
    text.push_str("</section>\n");
    if !swept.is_empty() {
        text.push_str(&curves(swept));
    }
    text.push_str(&plots(outcomes));
    text.push_str(about.reading);
    text.push_str("</main>\n");
    text.push_str(&foot());
    let _ = writeln!(
        text,
        "<script type=\"application/json\" id=\"data\">{}</script>",
        in_script(&data(about, outcomes).to_string())
    );
    let _ = write!(
        text,
        "<script>{PLOT_SCRIPT}</script>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n"
    );
    text
}

/// Where the figures come from, in one line.
fn setup(file: &str, scenario: &Scenario, seeds: u64) -> String {
    let seed = match seeds {
        1 => format!("seed {}", scenario.seed),
        _ => format!("{seeds} seeds, plots of the first"),
    };
    let warmup = match scenario.warmup.0 {
        0 => String::new(),
        _ => format!(", of which the first {} s count in no figure", seconds(scenario.warmup)),
    };
    let duration = seconds(scenario.duration);
    format!("{file}: disk {}, {seed}, {duration} s of virtual time{warmup}.", scenario.disk)
}

/// A length of time in seconds, without a fraction that is zero.
fn seconds(time: Nanos) -> String {
    let text = Milli::ratio(u128::from(time.0), 1_000_000_000).unwrap_or_default().to_string();
    text.trim_end_matches('0').trim_end_matches('.').into()
}

/// The part with figures over a parameter.
fn curves(swept: &[String]) -> String {
    let mut text = String::from(
        "<section><h2>Figures over a parameter</h2>\n<form><label>over <select id=\"over\">",
    );
    for key in swept {
        let _ = write!(text, "<option>{}</option>", escaped(key));
    }
    text.push_str("</select></label></form>\n<div id=\"curves\"></div></section>\n");
    text
}

/// The part with the plots over time.
fn plots(outcomes: &[VariantOutcome]) -> String {
    let shown = &outcomes[..outcomes.len().min(PLOTS_MAX)];
    let mut text = String::from("<section><h2>What happened meanwhile</h2>\n");
    if outcomes.len() > PLOTS_MAX {
        let _ = writeln!(text, "<p class=\"dim\">Plots of the first {PLOTS_MAX} variants.</p>");
    }
    if shown.len() > 1 {
        text.push_str("<form id=\"controls\">\n<fieldset><legend>variants</legend>");
        for (place, outcome) in shown.iter().enumerate() {
            let is_shown = shown.len() <= SHOWN_MAX || [0, shown.len() - 1].contains(&place);
            let _ = write!(
                text,
                "<label><input type=\"checkbox\" id=\"v{place}\"{}>{}</label>",
                if is_shown { " checked" } else { "" },
                escaped(&outcome.summary.variant)
            );
        }
        text.push_str(
            "</fieldset>\n<fieldset><legend>plots</legend><label><input type=\"radio\" \
             name=\"layout\" id=\"beside\" checked>side by side</label><label><input \
             type=\"radio\" name=\"layout\" id=\"overlay\">one over the other</label></fieldset>\n\
             </form>\n",
        );
    }
    text.push_str(
        "<noscript><p>The plots need JavaScript; the figures above do not.</p></noscript>\n\
         <div id=\"charts\"></div></section>\n",
    );
    text
}

fn foot() -> String {
    format!(
        "<footer><p>iopace {}, in virtual time: the same scenario and seed give the same \
         figures.</p>\n<details><summary>Plots: uPlot 1.6.32, MIT licence</summary><pre>{}</pre>\
         </details></footer>\n",
        env!("CARGO_PKG_VERSION"),
        escaped(PLOT_LICENCE)
    )
}

fn data(about: &About<'_>, outcomes: &[VariantOutcome]) -> Value {
    let variants: Vec<Value> = outcomes
        .iter()
        .take(PLOTS_MAX)
        .map(|outcome| json!({"name": outcome.summary.variant, "view": outcome.view}))
        .collect();
    let points: Vec<&Summary> = match about.swept.is_empty() {
        true => Vec::new(),
        false => outcomes.iter().map(|outcome| &outcome.summary).collect(),
    };
    json!({"variants": variants, "points": points, "permille": PERMILLE, "who": about.who})
}

/// JSON that cannot end the script that it stands in.
fn in_script(json: &str) -> String {
    json.replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::markup::PLOT_STYLE;
    use crate::stories;
    use crate::study::{StudyVariant, outcomes};

    #[test]
    fn the_report_needs_nothing_and_trusts_nothing() {
        let story = stories::find("alone-pays-nothing").expect("it comes with iopace");
        let mut scenario = Scenario::parse("a", story.text).expect("sound");
        scenario.why = "</script><script src=x>".into();
        scenario.duration = iopace_core::time::Nanos::from_secs(6);
        let mut variant = StudyVariant::plain(&scenario);
        variant.name = "<img src=x>".into();
        let all = outcomes(&[variant.clone()], &|_, _| ());
        let text = page("a.toml", &scenario, &all, &[]);
        let own = text.replace(PLOT_SCRIPT, "").replace(PLOT_STYLE, "").replace(SCRIPT, "");
        for foreign in [" src=", "href=", "url(", "@import", "<link", "<img"] {
            let shown = own.replace("&lt;script src=x", "").replace("&lt;img src=x", "");
            let shown = shown.replace("\\u003cimg src=x", "");
            assert!(!shown.contains(foreign), "{foreign}");
        }
        assert_eq!(text.matches("</script>").count(), 3);
        let start = text.find("id=\"data\">").expect("data") + "id=\"data\">".len();
        let end = start + text[start..].find("</script>").expect("its end");
        let data: Value = serde_json::from_str(&text[start..end]).expect("JSON");
        assert_eq!(data["variants"][0]["name"], "<img src=x>");
        assert_eq!(page("a.toml", &scenario, &outcomes(&[variant], &|_, _| ()), &[]), text);
    }
}
