//! Parts as OpenAI's APIs name them, which curl users and SDKs for those APIs put into `content`.
//!
//! Knows two forms each of a text and of an image by URL. Other parts are left as they are, for the caller to judge.

use serde_json::{Map, Value};

use crate::{FilePart, UiPart};

/// The media type of an image of an unknown kind, as the AI SDK has it.
const ANY_IMAGE: &str = "image/*";

/// The part that this one would be in the AI SDK's form.
pub(super) fn part(fields: &Map<String, Value>) -> Option<UiPart> {
    match fields.get("type")?.as_str()? {
        "input_text" => Some(UiPart::text(fields.get("text")?.as_str()?)),
        "image_url" | "input_image" => image(fields.get("image_url")?),
        _ => None,
    }
}

/// Chat completions have an object here, responses the URL itself.
fn image(at: &Value) -> Option<UiPart> {
    let url = at.get("url").unwrap_or(at).as_str().filter(|url| !url.is_empty())?;
    Some(UiPart::File(FilePart {
        media_type: media_type(url).unwrap_or(ANY_IMAGE).to_ascii_lowercase(),
        url: url.to_owned(),
        filename: None,
        extra: Map::new(),
    }))
}

/// The media type that a data URL names.
fn media_type(url: &str) -> Option<&str> {
    let (scheme, rest) = url.split_once(':')?;
    let (head, _) = rest.split_once(',')?;
    let media_type = head.split(';').next()?.trim();
    (scheme.eq_ignore_ascii_case("data") && media_type.contains('/')).then_some(media_type)
}
