//! An id for each request. With it, an operator finds in the log what a person has seen, across a proxy in front.

use axum::{
    extract::Request,
    http::{HeaderName, HeaderValue},
    middleware::Next,
    response::Response,
};
use fermata_engine::Ids;
use tracing::Instrument;

use crate::ids::RandomIds;

/// The header that has the id, in requests and in responses.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The limit on the bytes of an id that comes with a request.
const LONGEST_ID: usize = 128;

/// Gives a request an id, unless a proxy has given it one, and names it in the response and in every line that is logged meanwhile. An id
/// that is long, or has other characters than ids have, is replaced.
pub async fn identify(request: Request, next: Next) -> Response {
    let given = request.headers().get(&REQUEST_ID).and_then(|id| id.to_str().ok());
    let given = given.filter(|id| {
        (1..=LONGEST_ID).contains(&id.len())
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:/+=".contains(&byte))
    });
    let id = given.map_or_else(|| RandomIds.next("req_"), str::to_owned);
    let span = tracing::info_span!("request", %id);
    let mut response = next.run(request).instrument(span).await;
    if let Ok(id) = HeaderValue::try_from(id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}
