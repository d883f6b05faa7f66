//! The URL table.

mod approvals;
mod assistants;
mod calls;
mod channels;
mod chat;
mod chats;
mod demo;
mod export;
mod grants;
mod mail_links;
mod memories;
mod messages;
mod notes;
mod operators;
mod page;
mod pending;
mod personal_data;
mod plans;
mod push;
mod schema;
mod summaries;
mod tool_result;
mod tools;

use std::time::Duration;

use axum::{
    Extension, Router,
    extract::Request,
    http::{HeaderName, HeaderValue, header},
    middleware,
    routing::{get, post},
};
use tower::{ServiceBuilder, ServiceExt};
use tower_http::{
    catch_panic::CatchPanicLayer,
    cors::{AllowHeaders, AllowOrigin, Any, CorsLayer},
    set_header::SetResponseHeaderLayer,
};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    App, auth,
    config::Origin,
    demo::Demo,
    error::{ApiError, Code, log_cause},
    metrics,
    request_id::{self, REQUEST_ID},
    serve::{Full, Reserved},
    sse,
};

/// A stream whose hold was ended has to leave its connection to another within this time.
const ROOM_TIMEOUT: Duration = Duration::from_secs(2);

/// Returns the router without the web demo, for a program that mounts it at any path.
pub fn router(app: App) -> Router {
    site(app, Demo::default())
}

/// Returns the router with a web demo. It must be mounted at the root, because the demo's pages use absolute paths.
pub fn site(app: App, demo: Demo) -> Router {
    let (api, description) = table(&app, &demo).split_for_parts();
    metrics::begin_routes(&description);
    let own_layers = ServiceBuilder::new()
        .layer(middleware::from_fn(metrics::observe))
        .layer(cors(app.cors_origins()))
        .layer(CatchPanicLayer::custom(ApiError::of_panic))
        .layer(Extension(demo))
        .layer(Extension(operators::Description::of(description)));
    let api = api.fallback(not_found).method_not_allowed_fallback(method_not_allowed);
    with_common_layers(api.layer(own_layers)).with_state(app)
}

/// Returns the router for the operators' own address.
pub fn operators_site(app: App) -> Router {
    let guards = (app.auth().clone(), app.operators().clone());
    let numbers = Router::new()
        .route("/metrics", get(operators::metrics))
        .route("/drain", get(operators::drain_status).post(operators::drain))
        .route_layer(middleware::from_fn_with_state(guards, auth::operators::guard_own_address));
    let api = numbers.route("/healthz", get(operators::healthz)).route("/readyz", get(operators::readyz));
    with_common_layers(api.fallback(not_found).method_not_allowed_fallback(method_not_allowed))
        .layer(CatchPanicLayer::custom(ApiError::of_panic))
        .with_state(app)
}

/// Returns the router for connections that have only a reserved slot. Answers and health checks are served there. Everything else waits
/// until a stream has made room, and is then served by `routes`, the router for regular connections.
pub fn when_full(app: App, routes: Router) -> Router {
    let answers = Router::new()
        .route("/chat/tool-result", post(tool_result::post))
        .route("/api/chat/tool-result", post(tool_result::post_under_api))
        .route_layer(middleware::from_fn_with_state(app.auth().clone(), auth::identify));
    let own_layers = ServiceBuilder::new()
        .layer(middleware::from_fn(metrics::observe))
        .layer(cors(app.cors_origins()))
        .layer(CatchPanicLayer::custom(ApiError::of_panic));
    let always = answers
        .route("/healthz", get(operators::healthz))
        .route("/readyz", get(operators::readyz))
        .method_not_allowed_fallback(method_not_allowed)
        .layer(own_layers);
    let refusals = Router::new()
        .fallback(async |Extension(reserved): Extension<Reserved>| ApiError::from(reserved.refuse()))
        .layer(cors(app.cors_origins()));
    let refusals = with_common_layers(refusals).with_state(app.clone());
    let others = (app.clone(), routes, refusals);
    with_common_layers(always).with_state(app).fallback(move |request: Request| {
        let (app, routes, refusals) = others.clone();
        async move {
            let has_room = match request.extensions().get::<Reserved>().cloned() {
                // One may have become free meanwhile.
                Some(reserved) => {
                    reserved.exchange(Duration::ZERO).await
                        || (reserved.full() == Full::Server
                            && app.end_longest_hold().await
                            && reserved.exchange(ROOM_TIMEOUT).await)
                }
                None => false,
            };
            if has_room { routes.oneshot(request).await } else { refusals.oneshot(request).await }
        }
    })
}

fn table(app: &App, demo: &Demo) -> OpenApiRouter<App> {
    let api = OpenApiRouter::new()
        // These are called by chat pages.
        .routes(routes!(chat::post)) //                  POST   /api/chat
        .routes(routes!(tool_result::post)) //           POST   /chat/tool-result
        .routes(routes!(tool_result::post_under_api)) // POST   /api/chat/tool-result
        .routes(routes!(chat::stream)) //                GET    /api/chat/{id}/stream
        .routes(routes!(chat::stop)) //                  POST   /api/chat/{id}/stop
        .routes(routes!(calls::cancel)) //               POST   /api/chat/{id}/calls/{call}/cancel
        .routes(routes!(calls::retry)) //                POST   /api/chat/{id}/calls/{call}/retry
        .routes(routes!(chats::get, chats::patch, chats::delete)) // GET /api/chat/{id}, PATCH, DELETE
        .routes(routes!(export::get)) //                 GET    /api/chat/{id}/export
        .routes(routes!(messages::delete)) //            DELETE /api/chat/{id}/messages/{message}
        .routes(routes!(pending::list)) //               GET    /api/chat/{id}/pending
        .routes(routes!(grants::list)) //                GET    /api/chat/{id}/grants
        .routes(routes!(grants::delete)) //              DELETE /api/chat/{id}/grants/{tool}
        .routes(routes!(plans::delete)) //               DELETE /api/chat/{id}/plan
        .routes(routes!(summaries::get, summaries::put)) // GET  /api/chat/{id}/summary, PUT
        .routes(routes!(summaries::compact)) //          POST   /api/chat/{id}/compact
        .routes(routes!(chats::list)) //                 GET    /api/chats
        .routes(routes!(approvals::list)) //             GET    /api/approvals
        .routes(routes!(approvals::events)) //           GET    /api/approvals/events
        .routes(routes!(approvals::get, approvals::vote)) // GET /api/approvals/{id}, POST
        .routes(routes!(approvals::me)) //               GET    /api/me
        .routes(routes!(tools::list)) //                 GET    /api/tools
        .routes(routes!(assistants::list)) //            GET    /api/assistants
        .routes(routes!(memories::list, memories::post, memories::delete_all)) // GET /api/memories, POST, DELETE
        .routes(routes!(memories::patch, memories::delete)) // PATCH /api/memories/{id}, DELETE
        .routes(routes!(memories::undo)) //              POST   /api/memories/{id}/undo
        .routes(routes!(notes::list)) //                 GET    /api/notes
        .routes(routes!(notes::delete)) //               DELETE /api/notes/{id}
        .routes(routes!(push::key, push::add, push::remove)) // GET /api/push, POST, DELETE
        .routes(routes!(personal_data::export, personal_data::delete)) // GET /api/me/data, DELETE
        .route_layer(middleware::from_fn_with_state(app.auth().clone(), auth::identify));
    let pages = OpenApiRouter::new()
        // These are opened by people.
        .routes(routes!(page::welcome)) //               GET    /
        .routes(routes!(page::curl)) //                  GET    /curl
        .merge(demo::routes(demo)) //                    GET    /assistant-ui, /assets/…, each only where it is built
        .route_layer(demo::compression())
        .route_layer(middleware::from_fn_with_state(app.auth().clone(), auth::keep_foreign_pages_out));
    let description = OpenApiRouter::new()
        .routes(routes!(operators::openapi)) //          GET    /openapi.json
        .route_layer(middleware::from_fn_with_state(app.auth().clone(), auth::keep_foreign_pages_out));
    let guards = (app.auth().clone(), app.operators().clone());
    let numbers = OpenApiRouter::new()
        .routes(routes!(operators::metrics)) //          GET    /metrics
        .route_layer(middleware::from_fn_with_state(guards, auth::operators::guard));
    OpenApiRouter::with_openapi(schema::head())
        .merge(api)
        .merge(pages)
        // This is called by the services of channels.
        .routes(routes!(channels::receive)) //           POST   /channels/{name}
        // These are opened by people, from a mail.
        .routes(routes!(mail_links::show, mail_links::decide)) // GET /channels/{name}/l/{token}, POST
        // These are called by operators and their machines.
        .merge(description)
        .merge(numbers)
        // These are answered under any host name, because load balancers use their own addresses and names.
        .routes(routes!(operators::healthz)) //          GET    /healthz
        .routes(routes!(operators::readyz)) //           GET    /readyz
}

async fn not_found() -> ApiError {
    ApiError::new(Code::NotFound, "There is nothing at this path; GET /openapi.json lists all paths.")
}

async fn method_not_allowed() -> ApiError {
    ApiError::new(
        Code::MethodNotAllowed,
        "This path does not support the method; the header `allow` lists those that it supports.",
    )
}

/// Adds the layers that all routers share. They are one layer to the router, which clones the service below each layer for each request.
///
/// Every response, errors included, tells browsers not to cache it, not to guess its type, and not to let pages of other sites load it,
/// unless the response has its own header. The last header concerns only requests without CORS, so pages of `cors_origins` are not
/// affected.
fn with_common_layers(router: Router<App>) -> Router<App> {
    router.layer(
        ServiceBuilder::new()
            .layer(middleware::from_fn(request_id::identify))
            .layer(unless_set(HeaderName::from_static("cross-origin-resource-policy"), "same-origin"))
            .layer(unless_set(header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
            .layer(unless_set(header::CACHE_CONTROL, "no-store"))
            .layer(middleware::from_fn(log_cause)),
    )
}

fn unless_set(name: HeaderName, value: &'static str) -> SetResponseHeaderLayer<HeaderValue> {
    SetResponseHeaderLayer::if_not_present(name, HeaderValue::from_static(value))
}

/// Allows pages of the origins that the operator named. Other origins get no header.
fn cors(origins: &[Origin]) -> CorsLayer {
    let origins = origins.iter().filter_map(|origin| origin.as_str().parse().ok());
    CorsLayer::new()
        .allow_origin(AllowOrigin::list(origins))
        .allow_methods(Any)
        // Tracing tools add headers of their own, and `*` does not cover `authorization`.
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers([sse::CHAT_ID, sse::STREAM_ID, REQUEST_ID])
}
