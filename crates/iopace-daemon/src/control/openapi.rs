//! The description of the control API for machines: OpenAPI 3.1, made from the routes themselves.

use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{ComponentsBuilder, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder};

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
