//! The web demo's pages and what they load, as the binary carries them. Nobody is asked who they are: what needs an owner is the API.

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

/// What a page may do: talk to this server and show what it is given. No picture or sound comes from elsewhere: a model that was told to by a note or
/// a web page could put what it knows into the address of one.
const PAGE_POLICY: &str = "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
    img-src 'self' data: blob:; media-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; object-src 'none'; \
    base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

pub const PERMISSIONS_POLICY: HeaderName = HeaderName::from_static("permissions-policy");

/// What of the person's devices a page may use: the place, which the demo's `get_location` asks for, and nothing else.
pub const DEVICES: &str = "camera=(), microphone=(), geolocation=(self), display-capture=(), payment=(), usb=(), serial=(), hid=(), midi=()";

/// What may be compressed: not what is already, and never a stream of events.
pub type Compressible = And<DefaultPredicate, NotForContentType>;

/// Compresses what is worth it, where the client takes it. For these routes alone: an event stream must leave byte by byte.
pub fn compression() -> CompressionLayer<Compressible> {
    let fonts = NotForContentType::const_new("font/");
    CompressionLayer::new().compress_when(DefaultPredicate::new().and(fonts))
}

/// A route for each file but the first page, whose path is there also without a demo.
pub fn routes(demo: &Demo) -> OpenApiRouter<App> {
    let mut routes = OpenApiRouter::new();
    if demo.paths().any(|path| path.starts_with(ASSETS)) {
        // One route for all, so that numbers are kept of them together.
        routes = routes.route(&format!("{ASSETS}{{*file}}"), get(file));
    }
    for path in demo.paths().filter(|path| *path != "/" && !path.starts_with(ASSETS)) {
        routes = routes.route(&path.replace('{', "{{").replace('}', "}}"), get(file));
    }
    routes
}

/// The file at the path.
async fn file(Extension(demo): Extension<Demo>, uri: Uri, headers: HeaderMap) -> Response {
    match demo.get(uri.path()) {
        Some(file) => send(file, &headers),
        None => not_found().await.into_response(),
    }
}

/// The file, or that the client has it.
pub fn send(file: &File, headers: &HeaderMap) -> Response {
    let keep = if file.is_immutable { "public, max-age=31536000, immutable" } else { "no-cache" };
    let mut about = HeaderMap::from_iter([
        (header::ETAG, file.etag.clone()),
        (header::CACHE_CONTROL, HeaderValue::from_static(keep)),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        // Browsers would look up the hosts of links before anybody clicks, and a host's name can carry a secret, too.
        (header::X_DNS_PREFETCH_CONTROL, HeaderValue::from_static("off")),
        (PERMISSIONS_POLICY, HeaderValue::from_static(DEVICES)),
    ]);
    if file.is_page() {
        about.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(PAGE_POLICY));
    }
    if is_known(file, headers) {
        return (StatusCode::NOT_MODIFIED, about).into_response();
    }
    about.insert(header::CONTENT_TYPE, file.content_type.clone());
    (about, file.bytes.clone()).into_response()
}

/// Whether the client names these bytes among those it has; whether it calls its names weak says nothing.
fn is_known(file: &File, headers: &HeaderMap) -> bool {
    let opaque = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    let Ok(etag) = file.etag.to_str().map(opaque) else { return false };
    let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|tags| tags.to_str().ok());
    known.flat_map(|tags| tags.split(',')).any(|tag| tag.trim() == "*" || opaque(tag) == etag)
}
