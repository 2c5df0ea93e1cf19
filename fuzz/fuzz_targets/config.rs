//! Any text as a configuration file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::path::Path;

#[path = "../../crates/iopace/src/address.rs"]
#[allow(dead_code, unused_imports)]
mod address;
#[path = "../../crates/iopace/src/config/mod.rs"]
#[allow(dead_code, unused_imports)]
mod config;
#[path = "../../crates/iopace/src/units.rs"]
#[allow(dead_code, unused_imports)]
mod units;

/// The part of the command line that the configuration uses.
mod cli {
    /// How the log looks.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum LogFormat {
        /// Lines for people.
        Human,
        /// One JSON object per line.
        Json,
    }

    /// Ports beside the control socket.
    #[derive(Clone, Debug, Default)]
    pub struct PortArgs {
        /// That of the API.
        pub http: Option<std::net::SocketAddr>,
        /// The file of its token.
        pub http_token_file: Option<std::path::PathBuf>,
        /// That of the metrics alone.
        pub metrics: Option<std::net::SocketAddr>,
        /// The file of its token.
        pub metrics_token_file: Option<std::path::PathBuf>,
    }
}

/// The part of the output that the configuration uses: here nothing is ever meant.
mod output {
    pub fn nearest<'a>(_: &str, _: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
        None
    }
}

fuzz_target!(|text: &str| {
    if let Err(error) = config::parse(Path::new("iopace.toml"), text) {
        assert!(error.to_string().starts_with("iopace.toml"), "a mistake has its place: {error}");
    }
});
