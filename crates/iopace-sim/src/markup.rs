//! Pages that need nothing else: how they begin, and text in them.

/// The style of plots.
pub(crate) const PLOT_STYLE: &str = include_str!("../assets/uPlot.min.css");

/// The style of all pages.
pub(crate) const STYLE: &str = include_str!("../assets/report.css");

/// The beginning of a page, up to its body; with plots it may run scripts, its own only.
pub(crate) fn head(title: &str, has_plots: bool) -> String {
    let (scripts, style) = match has_plots {
        true => ("; script-src 'unsafe-inline'", PLOT_STYLE),
        false => ("", ""),
    };
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src \
         'unsafe-inline'{scripts}\">\n<title>iopace: {}</title>\n\
         <style>{style}\n{STYLE}</style>\n</head>\n",
        escaped(title)
    )
}

/// Text that stands for itself in HTML.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            _ => escaped.push(c),
        }
    }
    escaped
}
