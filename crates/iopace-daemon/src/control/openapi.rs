//! The description of the control API for machines: OpenAPI 3.1, made from the routes themselves.

use super::routes::{Shared, api};
use crate::api::Problem;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use std::sync::LazyLock;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{ComponentsBuilder, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

const DESCRIPTION: &str = "The control API of a running iopace daemon, on its control socket \
                           (`curl --unix-socket`) and, if asked for, on a loopback port, where \
                           requests need the token of the daemon. Names end with their units.";

/// What stands before the routes.
pub(super) fn head() -> OpenApi {
    let info = InfoBuilder::new()
        .title("iopace")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(DESCRIPTION))
        .license(Some(LicenseBuilder::new().name(env!("CARGO_PKG_LICENSE")).build()))
        .build();
    let token = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    let none: [&str; 0] = [];
    OpenApiBuilder::new()
        .info(info)
        .components(Some(ComponentsBuilder::new().security_scheme("token", token).build()))
        .security(Some([SecurityRequirement::default(), SecurityRequirement::new("token", none)]))
        .build()
}

pub(super) fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(openapi))
}

/// The description as it is served, and as it is in `docs/openapi.json`.
pub(super) static TEXT: LazyLock<String> = LazyLock::new(|| {
    let text = api().into_openapi().to_pretty_json().expect("strings, lists and maps");
    text + "\n"
});

/// This description.
#[utoipa::path(get, path = "/v1/openapi.json",
    responses((status = 200, description = "OpenAPI 3.1", body = Object),
        (status = "default", description = "Refused; nothing is changed", body = Problem)))]
async fn openapi() -> Response {
    ([(CONTENT_TYPE, "application/json")], TEXT.as_str()).into_response()
}
