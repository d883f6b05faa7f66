//! Owners identified by a header of a proxy that authenticates people.
//!
//! The header is trusted only on connections from the proxies that the operator has named; any other request with it is refused. The proxy
//! usually identifies people by a cookie, which browsers send for every page, so pages of other sites are refused here.

use axum::http::{HeaderMap, HeaderName, header};
use fermata_tools::{Owner, Principal};

use super::{Refusal, Suspicion};
use crate::{
    client::{Client, TrustedProxies},
    config::Origin,
    error::{ApiError, Code},
    owner::read_owner,
};

/// The header where a proxy names the owner of a request.
#[derive(Debug)]
pub struct ProxiedUser {
    header: HeaderName,
    groups_header: Option<HeaderName>,
    allowed_origins: Vec<Origin>,
}

/// The header of browsers with the relation of the requesting page to this server.
const FETCH_SITE: &str = "sec-fetch-site";

// === impl ProxiedUser ===

impl ProxiedUser {
    /// Uses this header. Pages of `allowed_origins` are admitted besides those of the server itself.
    pub fn new(header: HeaderName, groups_header: Option<HeaderName>, allowed_origins: Vec<Origin>) -> Self {
        Self { header, groups_header, allowed_origins }
    }

    /// Returns the owner that the proxy names, with the groups.
    pub fn principal(
        &self,
        headers: &HeaderMap,
        client: Client,
        proxies: &TrustedProxies,
    ) -> Result<Principal, Refusal> {
        // Its groups are believed only with the user.
        let user = self.owner(headers, client, proxies)?;
        let mut groups = Vec::new();
        for value in self.groups_header.iter().flat_map(|name| headers.get_all(name)) {
            let text = std::str::from_utf8(value.as_bytes()).unwrap_or_default();
            let named = text.split(',').map(str::trim).filter(|group| !group.is_empty());
            groups.extend(named.map(str::to_owned));
        }
        Ok(Principal { groups, ..user.into() })
    }

    fn owner(&self, headers: &HeaderMap, client: Client, proxies: &TrustedProxies) -> Result<Owner, Refusal> {
        let mut names = headers.get_all(&self.header).iter();
        let (name, second) = (names.next(), names.next());
        if !client.peer.is_some_and(|peer| proxies.trusts(peer)) {
            if name.is_none() {
                return Err(Refusal::unproven(
                    Suspicion::Harmless,
                    "This server must be reached through its proxy, which identifies you.",
                ));
            }
            let detail = format!("Only this server's proxy may send the header {}.", self.header);
            return Err(Refusal::Forged(detail));
        }
        self.refuse_foreign_pages(headers).map_err(Refusal::Foreign)?;
        let Some(name) = name else {
            let detail = format!("The proxy did not send the header {}, which identifies you.", self.header);
            return Err(Refusal::unproven(Suspicion::Harmless, detail));
        };
        if second.is_some() {
            let detail = format!("The header {} must not be sent twice.", self.header);
            return Err(Refusal::unproven(Suspicion::InvalidClaim, detail));
        }
        let name = std::str::from_utf8(name.as_bytes()).map_err(|_| "is not UTF-8");
        name.and_then(read_owner).map_err(|fault| {
            Refusal::unproven(
                Suspicion::InvalidClaim,
                format!("The name in the header {} {fault}.", self.header),
            )
        })
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
                origin.authority().eq_ignore_ascii_case(&host) || self.allowed_origins.contains(&origin)
            }),
            (None, site) => site != Some("cross-site"),
        };
        if is_own {
            return Ok(());
        }
        let page = origin.unwrap_or_else(|| "another site".into());
        let detail = format!(
            "Pages of {page:?} may not use this server. Its operator can add that origin to cors_origins."
        );
        Err(ApiError::new(Code::ForeignPage, detail))
    }
}
