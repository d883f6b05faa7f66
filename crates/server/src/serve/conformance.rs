//! Requests that RFC 9112 wants to be refused, and that hyper takes.
//!
//! A proxy in front that reads such a request differently could be made to let another request through.

use axum::{
    body::Body,
    http::{HeaderValue, Request, Response, Version, header, uri::Authority},
    response::IntoResponse,
};

use crate::error::{ApiError, Code};

/// Returns a sentence about the first fault of a request.
pub(super) fn fault<B>(request: &Request<B>) -> Option<&'static str> {
    let (headers, version) = (request.headers(), request.version());
    let mut hosts = headers.get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (_, Some(_)) => return Some("The header `host` must not be sent twice."),
        (None, None) if version == Version::HTTP_11 => return Some("The header `host` is missing."),
        (Some(host), None) if !is_host(host) => return Some("The header `host` is not a host with a port."),
        (Some(_) | None, None) => {}
    }
    // hyper has refused codings that leave the end of the body open.
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => None,
        (Some(coding), None) if coding.as_bytes().eq_ignore_ascii_case(b"chunked") => None,
        (Some(_), _) => Some("The only transfer coding that this server knows is `chunked`."),
    }
}

fn is_host(host: &HeaderValue) -> bool {
    let authority = host.to_str().ok().and_then(|host| host.parse::<Authority>().ok());
    authority.is_some_and(|authority| !authority.host().is_empty() && !authority.as_str().contains('@'))
}

/// Returns the response to a request with a fault. The connection ends with it.
pub(super) fn refusal(fault: &'static str) -> Response<Body> {
    ApiError::new(Code::MalformedRequest, fault).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_is_found() {
        for (version, headers, is_good) in [
            (Version::HTTP_11, vec![("host", "localhost:3000")], true),
            (Version::HTTP_11, vec![("host", "[::1]:3000")], true),
            (Version::HTTP_11, vec![("host", "a.example"), ("transfer-encoding", "Chunked")], true),
            (Version::HTTP_10, vec![], true),
            (Version::HTTP_11, vec![], false),
            (Version::HTTP_11, vec![("host", "")], false),
            (Version::HTTP_11, vec![("host", "a b")], false),
            (Version::HTTP_11, vec![("host", "a/b")], false),
            (Version::HTTP_11, vec![("host", "localhost@evil.example")], false),
            (Version::HTTP_11, vec![("host", "a"), ("host", "a")], false),
            (Version::HTTP_10, vec![("host", "a"), ("host", "b")], false),
            (Version::HTTP_11, vec![("host", "a"), ("transfer-encoding", "gzip, chunked")], false),
            (Version::HTTP_11, vec![("host", "a"), ("transfer-encoding", "identity")], false),
            (Version::HTTP_11, vec![("host", "a"), ("transfer-encoding", "chunked, chunked")], false),
            (
                Version::HTTP_11,
                vec![("host", "a"), ("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")],
                false,
            ),
        ] {
            let mut request = Request::builder().version(version);
            for (name, value) in &headers {
                request = request.header(*name, *value);
            }
            let fault = fault(&request.body(()).expect("a request"));
            assert_eq!(fault.is_none(), is_good, "{version:?} {headers:?}: {fault:?}");
        }
    }
}
