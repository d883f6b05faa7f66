//! Owners by a header, for those whose proxy asks people who they are.
//!
//! The header counts only on connections from the proxies that the operator has named; whoever else sends it is refused. As the proxy
//! knows people by a cookie, which browsers send for any page, pages of other sites are kept out here.

use axum::http::{HeaderMap, HeaderName, header};
use fermata_tools::Owner;

use super::{Refusal, read_owner};
use crate::{
    client::{Client, TrustedProxies},
    config::Origin,
    error::{ApiError, Code},
};

/// Where a proxy says who asks.
#[derive(Debug)]
pub struct ProxiedUser {
    header: HeaderName,
    friends: Vec<Origin>,
}

/// In which browsers say whether the page that asks is of the site that it asks.
const FETCH_SITE: &str = "sec-fetch-site";

impl ProxiedUser {
    /// In this header. Pages of `friends` are admitted beside those of the server itself.
    pub fn new(header: HeaderName, friends: Vec<Origin>) -> Self {
        Self { header, friends }
    }

    /// Whom the proxy names.
    pub fn owner(
        &self,
        headers: &HeaderMap,
        client: Client,
        proxies: &TrustedProxies,
    ) -> Result<Owner, Refusal> {
        let mut names = headers.get_all(&self.header).iter();
        let (name, second) = (names.next(), names.next());
        if !client.peer.is_some_and(|peer| proxies.trusts(peer)) {
            if name.is_none() {
                return Err(Refusal::anonymous(
                    "This server is reached through its proxy, which says who you are.",
                ));
            }
            let words = format!("Only this server's proxy may send the header {}.", self.header);
            return Err(Refusal::Forged(words));
        }
        self.refuse_foreign_pages(headers).map_err(Refusal::Foreign)?;
        let Some(name) = name else {
            let words = format!("The proxy does not say who you are, in the header {}.", self.header);
            return Err(Refusal::anonymous(words));
        };
        if second.is_some() {
            return Err(Refusal::claim(format!("The header {} is there twice.", self.header)));
        }
        let name = std::str::from_utf8(name.as_bytes()).map_err(|_| "is not UTF-8");
        name.and_then(read_owner)
            .map_err(|fault| Refusal::claim(format!("The name in the header {} {fault}.", self.header)))
    }

    fn refuse_foreign_pages(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let text = |value: Option<&axum::http::HeaderValue>| {
            value.map(|value| value.to_str().unwrap_or("?").to_owned())
        };
        let (origin, site) = (text(headers.get(header::ORIGIN)), text(headers.get(FETCH_SITE)));
        let host = text(headers.get(header::HOST)).unwrap_or_default();
        let is_own = match (&origin, site.as_deref()) {
            (_, Some("same-origin" | "none")) => true,
            (Some(origin), _) => Origin::parse(origin).is_some_and(|origin| {
                origin.authority().eq_ignore_ascii_case(&host) || self.friends.contains(&origin)
            }),
            (None, site) => site != Some("cross-site"),
        };
        if is_own {
            return Ok(());
        }
        let page = origin.unwrap_or_else(|| "another site".into());
        let words = format!(
            "Pages of {page:?} may not use this server. Its operator can add that origin to cors_origins."
        );
        Err(ApiError::new(Code::ForeignPage, words))
    }
}
