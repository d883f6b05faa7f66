//! A mail about an approval, as text and as HTML.

use fermata_engine::Approval;
use lettre::{
    Message,
    error::Error,
    message::{Mailbox, MultiPart},
};

use super::super::{html::escaped, words};

/// A mail.
pub struct Letter<'a> {
    pub from: Mailbox,
    pub to: Mailbox,
    pub message_id: String,
    /// The first mail about the approval.
    pub in_reply_to: Option<String>,
    /// The subject, which is also the heading.
    pub heading: String,
    pub approval: &'a Approval,
    pub links: Option<&'a Links>,
    /// The address of the inbox.
    pub inbox: Option<String>,
}

/// The one-time links of a recipient.
pub struct Links {
    pub approve: String,
    pub deny: String,
}

/// The longest subject, in characters.
const SUBJECT: usize = 200;

// === impl Letter ===

impl Letter<'_> {
    pub fn message(&self) -> Result<Message, Error> {
        let heading = self.heading.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut builder = Message::builder()
            .message_id(Some(self.message_id.clone()))
            .from(self.from.clone())
            .to(self.to.clone())
            .subject(words::shortened(&heading, SUBJECT));
        if let Some(first) = &self.in_reply_to {
            builder = builder.in_reply_to(first.clone()).references(first.clone());
        }
        builder.multipart(MultiPart::alternative_plain_html(self.text(), self.html()))
    }

    fn text(&self) -> String {
        let approval = self.approval;
        let mut text = format!("{}\n\n", self.heading);
        if let Some(description) = &approval.description {
            text += &format!("{description}\n\n");
        }
        text += &format!("Tool: {}\nInput: {}\n\n", approval.tool, approval.input_text);
        if let Some(reason) = &approval.reason {
            text += &format!("{reason}\n\n");
        }
        text += &format!("{}\n", words::terms(approval));
        if let Some(Links { approve, deny }) = self.links {
            text += &format!("\nApprove: {approve}\nDeny: {deny}\n");
        }
        if let Some(inbox) = &self.inbox {
            text += &format!("\nThe inbox: {inbox}\n");
        }
        text
    }

    fn html(&self) -> String {
        let approval = self.approval;
        let mut html = format!("<!doctype html><meta charset=\"utf-8\"><h2>{}</h2>", escaped(&self.heading));
        if let Some(description) = &approval.description {
            html += &format!("<p>{}</p>", escaped(description));
        }
        html += &format!(
            "<p>Tool: <code>{}</code></p><pre style=\"white-space: pre-wrap; overflow-wrap: anywhere\">{}</pre>",
            escaped(&approval.tool),
            escaped(&approval.input_text)
        );
        if let Some(reason) = &approval.reason {
            html += &format!("<p>{}</p>", escaped(reason));
        }
        html += &format!("<p>{}</p>", escaped(&words::terms(approval)));
        if let Some(Links { approve, deny }) = self.links {
            html += &format!(
                "<p><a href=\"{}\">Approve this call</a> &nbsp; <a href=\"{}\">Deny this call</a></p>",
                escaped(approve),
                escaped(deny)
            );
        }
        if let Some(inbox) = &self.inbox {
            html += &format!("<p><a href=\"{}\">Open in the inbox</a></p>", escaped(inbox));
        }
        html
    }
}
