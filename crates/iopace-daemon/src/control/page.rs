//! The files that browsers get without a token: they hold nothing that is secret.

use axum::Router;
use axum::body::Bytes;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

/// A file in this binary.
struct File {
    /// Its name below `/static/`; empty for the page itself.
    name: &'static str,
    content_type: &'static str,
    content: &'static [u8],
}

const PAGE: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

/// A file by its place below `page/`.
macro_rules! embed {
    ($name:literal, $place:literal, $content_type:expr) => {
        File {
            name: $name,
            content_type: $content_type,
            content: include_bytes!(concat!("page/", $place)),
        }
    };
    ($place:literal, $content_type:expr) => {
        embed!($place, $place, $content_type)
    };
}

static FILES: &[File] = &[
    embed!("", "index.html", PAGE),
    embed!("api.js", SCRIPT),
    embed!("app.css", STYLE),
    embed!("charts.js", SCRIPT),
    embed!("colours.js", SCRIPT),
    embed!("command.js", SCRIPT),
    embed!("device.js", SCRIPT),
    embed!("diagnosis.css", STYLE),
    embed!("diagnosis.js", SCRIPT),
    embed!("dom.js", SCRIPT),
    embed!("edit.js", SCRIPT),
    embed!("events.js", SCRIPT),
    embed!("format.js", SCRIPT),
    embed!("groups.js", SCRIPT),
    embed!("hosts.js", SCRIPT),
    embed!("keys.js", SCRIPT),
    embed!("latencies.js", SCRIPT),
    embed!("levels.js", SCRIPT),
    embed!("live.js", SCRIPT),
    embed!("main.js", SCRIPT),
    embed!("palette.js", SCRIPT),
    embed!("panels.js", SCRIPT),
    embed!("params.js", SCRIPT),
    embed!("parts.css", STYLE),
    embed!("patterns.css", STYLE),
    embed!("reasons.js", SCRIPT),
    embed!("remedies.js", SCRIPT),
    embed!("rows.js", SCRIPT),
    embed!("settings.js", SCRIPT),
    embed!("store.js", SCRIPT),
    embed!("tables.css", STYLE),
    embed!("tasks.js", SCRIPT),
    embed!("tiles.js", SCRIPT),
    embed!("vendor/uplot-1.6.32/LICENSE", TEXT),
    embed!("vendor/uplot-1.6.32/uPlot.iife.min.js", SCRIPT),
    embed!("vendor/uplot-1.6.32/uPlot.min.css", STYLE),
    embed!("why.js", SCRIPT),
];

/// Only what this server has itself, and no script or style within the page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' \
                      data:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

/// Whether a path is one of a file, and needs no token.
pub(super) fn is_public(path: &str) -> bool {
    path == "/" || path.starts_with("/static/")
}

pub(super) fn router() -> Router {
    Router::new()
        .route("/", get(|| async { file("") }))
        .route("/static/{*name}", get(|Path(name): Path<String>| async move { file(&name) }))
}

fn file(name: &str) -> Response {
    let Some(file) = FILES.iter().find(|file| file.name == name) else {
        return (StatusCode::NOT_FOUND, "there is no such file\n").into_response();
    };
    let head = [
        (CONTENT_TYPE, file.content_type),
        (CONTENT_SECURITY_POLICY, POLICY),
        (CACHE_CONTROL, "no-cache"),
    ];
    (head, Bytes::from_static(file.content)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// The files below a folder, as paths from `page/`.
    fn below(folder: &Path, names: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).expect("the page's folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                below(&path, names);
            } else {
                let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/control/page");
                let name = path.strip_prefix(root).expect("below it").display().to_string();
                names.push(name);
            }
        }
    }

    #[test]
    fn every_file_of_the_page_is_served() {
        let mut names = Vec::new();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/control/page");
        below(&root, &mut names);
        for name in names.iter_mut().filter(|name| *name == "index.html") {
            name.clear();
        }
        names.sort();
        let mut served: Vec<&str> = FILES.iter().map(|file| file.name).collect();
        served.sort_unstable();
        assert_eq!(served, names);
    }
}
