//! The words about an approval that Slack, mails and notifications share.
//!
//! Everything in an approval may come from a model or a stranger, so each channel escapes these words for its own format.

use fermata_engine::{Approval, ApprovalState, store::NoticeEvent};
use fermata_tools::{Approver, Owner};
use url::Url;

/// Returns the title of the call.
pub fn title(approval: &Approval) -> &str {
    approval.title.as_deref().unwrap_or(&approval.tool)
}

/// Returns the heading of a message about an approval that waits.
pub fn heading(event: NoticeEvent, approval: &Approval) -> String {
    let what = match event {
        NoticeEvent::ApprovalReminder => "Still waiting",
        NoticeEvent::ApprovalEscalated => "Escalated",
        NoticeEvent::ApprovalRequested
        | NoticeEvent::ApprovalSettled
        | NoticeEvent::RunFinished
        | NoticeEvent::RunFailed => "Approval needed",
    };
    format!("{what}: {}", title(approval))
}

/// Returns the outcome of an approval, such as "Approved by alice"; `None` while it waits.
pub fn outcome(approval: &Approval) -> Option<String> {
    let settled = approval.settled.as_ref();
    let by = settled.and_then(|settled| settled.by.as_ref());
    let mut text = match approval.state {
        ApprovalState::Waiting => return None,
        ApprovalState::Approved => {
            let approvers = &approval.decision.approved_by;
            if approvers.is_empty() {
                sentence("Approved", by)
            } else {
                format!("Approved by {}", names(approvers))
            }
        }
        ApprovalState::Denied => sentence("Denied", by),
        ApprovalState::Expired => "Expired".into(),
        ApprovalState::Cancelled => "Cancelled".into(),
    };
    if let Some(reason) = settled.and_then(|settled| settled.reason.as_deref()) {
        text += &format!(": {reason}");
    }
    Some(text)
}

/// Returns who asks and who decides, in one line.
pub fn terms(approval: &Approval) -> String {
    let decision = &approval.decision;
    let by: Vec<String> = decision.by.iter().map(Approver::to_string).collect();
    let mut text = format!("Requested by {}. To be decided by {}", approval.requested_by, by.join(", "));
    if decision.quorum > 1 {
        text += &format!("; {} have to approve", decision.quorum);
    }
    if !decision.approved_by.is_empty() {
        text += &format!("; approved by {}", names(&decision.approved_by));
    }
    if let Some(expires) = approval.expires_at {
        text += &format!(". Expires {}", expires.strftime("%F %R UTC"));
    }
    text + "."
}

/// Returns the address of the inbox; `None` without `public_url`.
pub fn inbox(public_url: Option<&str>, approval: &Approval) -> Option<String> {
    let mut url = Url::parse(&format!("{}/inbox", public_url?)).ok()?;
    url.query_pairs_mut().append_pair("approval", approval.id.as_str());
    Some(url.into())
}

/// Returns a text, shortened to at most so many characters, with a mark if it was longer.
pub fn shortened(text: &str, most: usize) -> String {
    const CUT: &str = "… (shortened)";
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some(_) => text.chars().take(most.saturating_sub(CUT.chars().count())).collect::<String>() + CUT,
    }
}

fn sentence(verb: &str, by: Option<&Owner>) -> String {
    match by {
        Some(by) => format!("{verb} by {by}"),
        None => verb.to_owned(),
    }
}

fn names(owners: &[Owner]) -> String {
    let names: Vec<&str> = owners.iter().map(Owner::as_str).collect();
    match names.as_slice() {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        names => names.concat(),
    }
}
