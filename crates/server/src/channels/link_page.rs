//! The page of a one-time link, which a server renders for people without an account in this browser.
//!
//! The page has no script and loads nothing. Everything in it is escaped.

use std::sync::LazyLock;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use fermata_engine::Approval;
use sha2::{Digest, Sha256};

use super::{
    email::{LinkError, LinkPage},
    html::escaped,
    words,
};

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:42rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}\
pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#f3f3f3;padding:.75rem;border-radius:.5rem}\
button{font:inherit;padding:.6rem 1.4rem;border-radius:.5rem;border:1px solid #222;background:#222;color:#fff}";

/// The header `content-security-policy` of the page.
pub static POLICY: LazyLock<String> = LazyLock::new(|| {
    let style = BASE64_STANDARD.encode(Sha256::digest(STYLE));
    format!(
        "default-src 'none'; style-src 'sha256-{style}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
});

// === impl LinkPage ===

impl LinkPage {
    /// Returns the page.
    pub fn html(&self) -> String {
        match self {
            Self::Ask { approval, approves } => {
                let verb = if *approves { "Approve" } else { "Deny" };
                let form = format!("<form method=\"post\"><button type=\"submit\">{verb}</button></form>");
                page(&format!("{verb} this call?"), &format!("{}{form}", about(approval)))
            }
            Self::Counted(approval) => {
                let outcome = words::outcome(approval);
                let heading = outcome.unwrap_or_else(|| "Your vote was counted".into());
                page(&heading, &about(approval))
            }
        }
    }
}

// === impl LinkError ===

impl LinkError {
    /// Returns the page that says why the link does not decide.
    pub fn html(&self) -> String {
        let about = match self {
            Self::Settled(approval) => about(approval),
            _ => String::new(),
        };
        page(&self.to_string(), &about)
    }
}

/// Returns the approval, exactly as the call would run.
fn about(approval: &Approval) -> String {
    let mut html = format!("<p><strong>{}</strong></p>", escaped(words::title(approval)));
    if let Some(description) = &approval.description {
        html += &format!("<p>{}</p>", escaped(description));
    }
    html += &format!(
        "<p>Tool: <code>{}</code></p><pre>{}</pre>",
        escaped(&approval.tool),
        escaped(&approval.input_text)
    );
    if let Some(reason) = &approval.reason {
        html += &format!("<p>{}</p>", escaped(reason));
    }
    html + &format!("<p>{}</p>", escaped(&words::terms(approval)))
}

fn page(heading: &str, body: &str) -> String {
    let heading = escaped(heading);
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <meta name=\"robots\" content=\"noindex\"><title>{heading}</title><style>{STYLE}</style></head>\
         <body><h1>{heading}</h1>{body}</body></html>"
    )
}
