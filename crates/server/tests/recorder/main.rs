//! Fermata in a program with its own metrics recorder. The test is a process of its own, because a process has one recorder.

use std::sync::Arc;

use axum::{
    body::{Body, to_bytes},
    http::Request,
};
use fermata_providers::Demo;
use fermata_server::{App, config::Config, router};
use metrics_exporter_prometheus::PrometheusBuilder;
use tower::ServiceExt;

#[tokio::test]
async fn the_numbers_go_to_the_recorder_that_the_program_has() {
    let theirs = PrometheusBuilder::new().install_recorder().expect("the first recorder");
    let mut config = Config::from_environment(&|_| None).expect("the defaults");
    config.database.database_url = "sqlite::memory:".into();
    let demo = Demo::new();
    let app =
        App::builder(&config).model(Arc::new(demo)).build().await.expect("an app beside another recorder");
    app.metrics().tidy();

    let get = |path: &str| {
        let request = Request::get(path).body(Body::empty()).expect("a request");
        let router = router(app.clone());
        async move {
            let response = router.oneshot(request).await.expect("a response");
            to_bytes(response.into_body(), usize::MAX).await.expect("a body")
        }
    };
    assert_eq!(get("/healthz").await, "ok\n");
    assert!(theirs.render().contains("http_route=\"/healthz\""), "{}", theirs.render());
    assert_eq!(get("/metrics").await, "");
}
