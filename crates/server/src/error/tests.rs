//! The responses to errors of the engine, and the log of failures of the database.

use std::{io, sync::Mutex};

use axum::{Router, body::Body, middleware, routing::get};
use tower::ServiceExt;

use super::*;

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_failure_of_the_database_is_logged_once_with_its_request() {
    let lines = Lines::default();
    let writer = lines.clone();
    let log = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let _log = tracing::subscriber::set_default(log);
    let fail = async || ApiError::from(StoreError::Fenced);
    let router = Router::new().route("/api/chat/{id}", get(fail)).layer(middleware::from_fn(log_cause));
    let request = Request::get("/api/chat/c1?x=1").body(Body::empty()).unwrap();
    let response = router.oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    let logged = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    assert_eq!(logged.lines().count(), 1, "{logged}");
    for part in ["WARN fermata_server::error: ", "method=GET path=\"/api/chat/c1\" status=503"] {
        assert!(logged.contains(part), "{logged}");
    }
}

#[test]
fn a_client_of_a_busy_chat_is_asked_to_try_again() {
    for error in [
        ApiError::from(SubmitError::from(Unavailable::Busy)),
        ApiError::from(AnswerError::from(Unavailable::Busy)),
        ApiError::from(ReadError::from(Unavailable::Busy)),
    ] {
        assert!(error.detail.ends_with("try again in a moment."));
        let response = error.into_response();
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(response.headers().contains_key(header::RETRY_AFTER));
    }
}

#[test]
fn a_client_of_a_chat_that_another_instance_owns_is_asked_to_try_again() {
    for error in [
        ApiError::from(SubmitError::from(Unavailable::Unreachable)),
        ApiError::from(AnswerError::from(Unavailable::Unreachable)),
        ApiError::from(ReadError::from(Unavailable::Unreachable)),
        ApiError::from(StoreError::Fenced),
    ] {
        assert!(error.detail.contains("nother instance") && error.detail.ends_with("try again in a moment."));
        let response = error.into_response();
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(response.headers().contains_key(header::RETRY_AFTER));
    }
}
