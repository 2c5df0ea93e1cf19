//! The log: what the daemon says beside its results, on standard error.

use crate::cli::LogFormat;
use tracing_subscriber::filter::LevelFilter;

/// Starts logging; `verbose` and `quiet` count how often they were said.
pub fn start(format: LogFormat, verbose: u8, quiet: u8) {
    let level = match (verbose, quiet) {
        (0, 0) => LevelFilter::INFO,
        (0, 1) => LevelFilter::WARN,
        (0, _) => LevelFilter::ERROR,
        (1, _) => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let builder = tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr);
    match format {
        LogFormat::Human => {
            let colours = std::io::IsTerminal::is_terminal(&std::io::stderr());
            builder.with_ansi(colours).with_target(false).init();
        }
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
}
