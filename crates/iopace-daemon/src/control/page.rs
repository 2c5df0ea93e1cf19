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

static FILES: &[File] = &[File {
    name: "",
    content_type: "text/html; charset=utf-8",
    content: include_bytes!("page/index.html"),
}];

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
