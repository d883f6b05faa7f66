//! The files of the web demo. They need no authentication; the API does.

use axum::{
    Extension,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header},
    response::{IntoResponse, Response},
    routing::get,
};
use tower_http::compression::{
    CompressionLayer, DefaultPredicate, Predicate,
    predicate::{And, NotForContentType},
};
use utoipa_axum::router::OpenApiRouter;

use super::not_found;
use crate::{
    App,
    demo::{ASSETS, Demo, File},
};

/// The content security policy of the pages. They may connect only to this server. Images and sounds of other sites are forbidden, because
/// injected instructions could make a model put data of the chat into the address of an image.
const PAGE_POLICY: &str = "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
    img-src 'self' data: blob:; media-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; object-src 'none'; \
    base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// The content security policy of a page among the assets. Such a page draws what a model has written, in a frame of a page of this server. It
/// has an origin of its own, and nothing in it can load anything or reach the server.
const FRAME_POLICY: &str = "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'self'";

pub const PERMISSIONS_POLICY: HeaderName = HeaderName::from_static("permissions-policy");

/// The devices that a page may use: only the location, which the demo's tool `get_location` needs.
pub const DEVICES: &str = "camera=(), microphone=(), geolocation=(self), display-capture=(), payment=(), usb=(), serial=(), hid=(), midi=()";

/// The condition for compressing a response: it is not compressed already, and it is not an event stream.
pub type Compressible = And<DefaultPredicate, NotForContentType>;

/// Returns the layer that compresses responses for clients that accept it. It must not be used for event streams, whose events it would hold
/// back.
pub fn compression() -> CompressionLayer<Compressible> {
    let fonts = NotForContentType::const_new("font/");
    CompressionLayer::new().compress_when(DefaultPredicate::new().and(fonts))
}

/// Returns a route for each file except the first page, whose path also exists without a demo.
pub fn routes(demo: &Demo) -> OpenApiRouter<App> {
    let mut routes = OpenApiRouter::new();
    if demo.paths().any(|path| path.starts_with(ASSETS)) {
        // All assets have one route, so that they have one series in the metrics.
        routes = routes.route(&format!("{ASSETS}{{*file}}"), get(file));
    }
    for path in demo.paths().filter(|path| *path != "/" && !path.starts_with(ASSETS)) {
        routes = routes.route(&path.replace('{', "{{").replace('}', "}}"), get(file));
    }
    routes
}

/// Responds with the file at the path.
async fn file(Extension(demo): Extension<Demo>, uri: Uri, headers: HeaderMap) -> Response {
    match demo.get(uri.path()) {
        Some(file) => send(file, &headers),
        None => not_found().await.into_response(),
    }
}

/// Responds with a file, or with 304 if the client has it.
pub fn send(file: &File, headers: &HeaderMap) -> Response {
    let keep = if file.is_immutable { "public, max-age=31536000, immutable" } else { "no-cache" };
    let mut about = HeaderMap::from_iter([
        (header::ETAG, file.etag.clone()),
        (header::CACHE_CONTROL, HeaderValue::from_static(keep)),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        // Browsers would resolve the hosts of links before a click, and a host name can contain data of the chat.
        (header::X_DNS_PREFETCH_CONTROL, HeaderValue::from_static("off")),
        (PERMISSIONS_POLICY, HeaderValue::from_static(DEVICES)),
    ]);
    if file.is_page() {
        let policy = if file.is_immutable { FRAME_POLICY } else { PAGE_POLICY };
        about.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    }
    if is_known(file, headers) {
        return (StatusCode::NOT_MODIFIED, about).into_response();
    }
    about.insert(header::CONTENT_TYPE, file.content_type.clone());
    (about, file.bytes.clone()).into_response()
}

/// Returns whether the client has this version of the file. Weak and strong tags are compared alike.
fn is_known(file: &File, headers: &HeaderMap) -> bool {
    let opaque = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    let Ok(etag) = file.etag.to_str().map(opaque) else { return false };
    let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|tags| tags.to_str().ok());
    known.flat_map(|tags| tags.split(',')).any(|tag| tag.trim() == "*" || opaque(tag) == etag)
}
