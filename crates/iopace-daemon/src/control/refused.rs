//! What is answered: a value, or a refusal.

use crate::api::Problem;
use crate::change::Refusal;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// An answer as JSON.
pub(super) struct Answer<T>(pub(super) T);

impl<T: Serialize> IntoResponse for Answer<T> {
    fn into_response(self) -> Response {
        json(StatusCode::OK, &self.0)
    }
}

/// A refusal as JSON.
pub(super) struct Refused(StatusCode, Problem);

impl Refused {
    pub(super) fn new(
        status: StatusCode,
        error: impl Into<String>,
        hint: impl Into<String>,
    ) -> Refused {
        Refused(status, Problem { error: error.into(), hint: hint.into() })
    }
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Refused {
        tracing::debug!(%refusal, "a change was refused");
        match refusal {
            Refusal::Illegal { error, hint } => Refused::new(StatusCode::BAD_REQUEST, error, hint),
            Refusal::Conflict { error, hint } => Refused::new(StatusCode::CONFLICT, error, hint),
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        json(self.0, &self.1)
    }
}

pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Response {
    let mut body = serde_json::to_vec(value).expect("strings, numbers and maps with string keys");
    body.push(b'\n');
    (status, [(CONTENT_TYPE, "application/json")], body).into_response()
}
