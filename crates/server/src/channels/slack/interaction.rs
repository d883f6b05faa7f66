//! Clicks in Slack, as it sends them.

use aws_lc_rs::hmac;
use fermata_protocol::ApprovalId;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use url::{Url, form_urlencoded};

use super::blocks::{APPROVE, DENY};
use crate::{
    channels::{
        Incoming, ReceiveError,
        signature::{TOLERANCE, Unsigned},
    },
    hex,
};

/// A click.
#[derive(Debug)]
pub struct Interaction {
    /// The Slack account.
    pub user: String,
    /// The channel of the message.
    pub channel: Option<String>,
    /// The URL where the click can be answered for some minutes.
    pub response_url: Option<Url>,
    /// The first action, which is the only one that a click has.
    action: Value,
}

/// A click on one of the buttons.
#[derive(Debug)]
pub struct Click {
    pub approval: ApprovalId,
    pub input_hash: String,
    pub approves: bool,
}

#[derive(Deserialize)]
struct Payload {
    user: Named,
    channel: Option<Named>,
    response_url: Option<String>,
    #[serde(default)]
    actions: Vec<Value>,
}

#[derive(Deserialize)]
struct Named {
    id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ButtonValue {
    approval: ApprovalId,
    input_hash: String,
}

/// The prefix of signatures, and of what they sign.
const VERSION: &str = "v0";

// === impl Interaction ===

impl Interaction {
    /// Reads a request that Slack has signed with this secret, within the last five minutes.
    pub fn read(request: &Incoming, secret: &str, now: Timestamp) -> Result<Self, ReceiveError> {
        verify(request, secret, now)?;
        let payload = form_urlencoded::parse(&request.body).find(|(name, _)| name == "payload");
        let payload = payload.ok_or_else(|| ReceiveError::BadBody("there is no payload".into()))?;
        let payload: Payload = serde_json::from_str(&payload.1)
            .map_err(|error| ReceiveError::BadBody(format!("the payload cannot be read: {error}")))?;
        Ok(Self {
            user: payload.user.id,
            channel: payload.channel.map(|channel| channel.id),
            response_url: payload.response_url.and_then(|url| Url::parse(&url).ok()),
            action: payload.actions.into_iter().next().unwrap_or_default(),
        })
    }

    /// Returns the click on one of the buttons that decide.
    pub fn click(&self) -> Option<Click> {
        let approves = match self.action["action_id"].as_str()? {
            APPROVE => true,
            DENY => false,
            _ => return None,
        };
        let ButtonValue { approval, input_hash } =
            serde_json::from_str(self.action["value"].as_str()?).ok()?;
        Some(Click { approval, input_hash, approves })
    }
}

/// Checks the signature of Slack, in constant time.
fn verify(request: &Incoming, secret: &str, now: Timestamp) -> Result<(), Unsigned> {
    let text = |name: &str| request.headers.get(name).and_then(|value| value.to_str().ok());
    let time = text("x-slack-request-timestamp").ok_or(Unsigned::NoHeaders)?;
    let signature = text("x-slack-signature").ok_or(Unsigned::NoHeaders)?;
    let seconds: i64 = time.parse().map_err(|_| Unsigned::NoHeaders)?;
    if seconds.abs_diff(now.as_second()) > TOLERANCE.unsigned_abs() {
        return Err(Unsigned::BadTime);
    }
    let given = signature.strip_prefix(VERSION).and_then(|rest| hex::decode(rest.strip_prefix('=')?));
    let mut signed = format!("{VERSION}:{time}:").into_bytes();
    signed.extend_from_slice(&request.body);
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    match given {
        Some(given) if hmac::verify(&key, &signed, &given).is_ok() => Ok(()),
        Some(_) | None => Err(Unsigned::BadSignature),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderValue};

    use super::*;

    /// The example of Slack's documentation.
    const SECRET: &str = "8f742231b10e8888abcd99yyyzzz85a5";
    const TIME: i64 = 1_531_420_618;
    const SIGNATURE: &str = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503";
    const BODY: &str = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";

    fn request(body: &str, signature: &str) -> Incoming {
        let time = TIME.to_string();
        let headers = [("x-slack-request-timestamp", time.as_str()), ("x-slack-signature", signature)];
        let headers = headers.into_iter().map(|(name, value)| {
            (
                axum::http::HeaderName::from_bytes(name.as_bytes()).expect("a name"),
                HeaderValue::from_str(value).expect("text"),
            )
        });
        Incoming { headers: HeaderMap::from_iter(headers), body: body.to_owned().into(), address: None }
    }

    #[test]
    fn only_what_slack_has_signed_in_time_is_taken() {
        let at = |second| Timestamp::from_second(second).expect("a time");
        let signed = request(BODY, SIGNATURE);
        assert_eq!(verify(&signed, SECRET, at(TIME)), Ok(()));
        assert_eq!(verify(&signed, SECRET, at(TIME + 300)), Ok(()));
        assert_eq!(verify(&signed, SECRET, at(TIME + 301)), Err(Unsigned::BadTime));
        assert_eq!(verify(&signed, SECRET, at(TIME - 301)), Err(Unsigned::BadTime));
        assert_eq!(verify(&signed, "another", at(TIME)), Err(Unsigned::BadSignature));
        let forged = request(&BODY.replace("foobar", "foobaz"), SIGNATURE);
        assert_eq!(verify(&forged, SECRET, at(TIME)), Err(Unsigned::BadSignature));
        for signature in ["", "v0=", "v0=zz", "v1=a2114d57", &SIGNATURE[3..]] {
            assert_eq!(verify(&request(BODY, signature), SECRET, at(TIME)), Err(Unsigned::BadSignature));
        }
    }
}
