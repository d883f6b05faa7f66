//! Requests of services to channels. Each channel checks the signature of its own service.

use axum::{
    Json,
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};

use crate::{
    App,
    channels::{Incoming, ReceiveError, Reply},
    client::Client,
    error::{ApiError, Problem},
    extract::RawBody,
};

/// Takes the later answer of a deciding service, or a click in Slack.
///
/// A deciding service signs its request as Standard Webhooks describes it, and Slack by `x-slack-signature`. An answer counts only for the
/// input that it was given for.
#[utoipa::path(post, path = "/channels/{name}", operation_id = "receive", tag = "channels", security(()),
    params(("name" = String, Path, description = "The channel's name")),
    request_body(content = serde_json::Value, description = "`{\"approvalId\", \"approved\", \"inputHash\", \"reason\"?}`, or a form of Slack"),
    responses(
        (status = 200, description = "The vote of the service counts; the approval. Or the click was taken; nothing", body = serde_json::Value),
        (status = 401, description = "`unauthorized`: the signature is missing, wrong or old", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "`not_yours_to_decide`: the channel may not decide", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`not_found`: no such channel or approval", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "`slow_request`: the body stopped coming", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`already_answered`: the approval is settled; `changed`: the call has another input", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "`too_large`: the body is over a limit", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "`invalid_request`: the body has another form; `denied_by_policy`: the rules deny the call", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`unavailable`: the vote cannot be counted now", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn receive(
    State(app): State<App>,
    Path(name): Path<String>,
    client: Client,
    headers: HeaderMap,
    RawBody(body): RawBody,
) -> Result<Response, ApiError> {
    let channel = app.channels().get(&name).ok_or(ReceiveError::NoSuchChannel)?;
    let request = Incoming { headers, body, address: client.address };
    Ok(match channel.receive(request, app.desk()).await? {
        Reply::Approval(approval) => Json(*approval).into_response(),
        Reply::Done => StatusCode::OK.into_response(),
    })
}
