//! The tool `web_search`.

use async_trait::async_trait;
use fermata_tools::{CallContext, Decision, ErrorType, Resource, ToolError, TypedTool};
use reqwest::{Client, StatusCode};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use super::web::{TIMEOUT, body, check_status, failure, page::visible};

/// The tool that searches the web through a SearXNG of the operator's.
pub struct WebSearch {
    /// The base URL of the SearXNG. It is the operator's, so it may be at a private address.
    pub url: String,
    /// The client.
    pub client: Client,
}

// The comments of the fields are part of the schema, whose fingerprint is in saved grants: if they change, people have to approve the tool again.
/// The input of [`WebSearch`].
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Words to search for.
    query: String,
}

/// The limit on results in an output.
const MOST: usize = 10;
/// The limit on a query, in bytes.
const LONGEST_QUERY: usize = 1_000;
/// The limit on each text of a result, in bytes.
const LONGEST_TEXT: usize = 1_000;

/// The response of SearXNG. Everything else in it is ignored.
#[derive(Deserialize)]
struct Found {
    results: Vec<FoundPage>,
}

#[derive(Deserialize)]
struct FoundPage {
    url: String,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    content: Option<String>,
}

#[async_trait]
impl TypedTool for WebSearch {
    const NAME: &'static str = "web_search";
    const TITLE: Option<&'static str> = Some("Search the web");
    const DESCRIPTION: &'static str =
        "Searches the web and returns pages with their titles, URLs and a few words of each.";
    const POLICY: Decision = Decision::Allow;
    const REPEATABLE: bool = true;
    const EMPTY_AT: Option<&'static str> = Some("results");
    type Input = Input;

    fn resource(&self) -> Option<Resource> {
        Some(super::web_of_owner())
    }

    fn describe(&self, input: &Input) -> Option<String> {
        Some(format!("Search the web for “{}”", input.query))
    }

    fn reads_from(&self, _: &Self::Input) -> Option<String> {
        Some("a search of the web".into())
    }

    async fn call(&self, input: Input, _context: CallContext) -> Result<Value, ToolError> {
        let query = input.query.trim();
        if query.is_empty() || query.len() > LONGEST_QUERY {
            let bytes = query.len();
            let text = format!("The query has {bytes} bytes; it must have 1 to {LONGEST_QUERY}.");
            return Err(ToolError::new(ErrorType::InvalidFormat, text));
        }
        let mut url = Url::parse(&self.url)
            .map_err(|_| ToolError::internal("The web cannot be searched: search_url is not a URL."))?;
        let folder = url.path().trim_end_matches('/').to_owned();
        url.set_path(&format!("{folder}/search"));
        url.query_pairs_mut().append_pair("q", query).append_pair("format", "json");
        let response = self.client.get(url).timeout(TIMEOUT).send().await.map_err(|error| failure(&error))?;
        if response.status() == StatusCode::FORBIDDEN {
            let text = "The search server refuses. If it is a SearXNG, its setting search.formats must contain json.";
            return Err(ToolError::new(ErrorType::Auth, text));
        }
        check_status(response.status(), response.headers())?;
        let (bytes, _) = body(response).await?;
        let found: Found = serde_json::from_slice(&bytes).map_err(|_| {
            ToolError::new(
                ErrorType::InvalidFormat,
                "The search server sent something else than its results as JSON.",
            )
        })?;
        let results: Vec<Value> = found.results.into_iter().take(MOST).map(to_json).collect();
        Ok(json!({"results": results}))
    }
}

fn to_json(found: FoundPage) -> Value {
    let clip = |text: String| visible(&text[..text.floor_char_boundary(LONGEST_TEXT)]).trim().to_owned();
    let mut json = json!({"title": clip(found.title.unwrap_or_default()), "url": clip(found.url)});
    let content = clip(found.content.unwrap_or_default());
    if !content.is_empty() {
        json["text"] = json!(content);
    }
    json
}
