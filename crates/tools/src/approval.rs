//! The approval of a call: who decides about it, how many of them have to agree, and their votes.
//!
//! This module does not know where principals come from or how votes are kept. [`may_decide`] is the only answer to the question whether a
//! principal may decide about a call.

use std::{borrow::Cow, collections::BTreeMap, fmt, str::FromStr, sync::LazyLock, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Owner, Pattern, Principal, RunBy};

/// A party that may decide about calls, as a rule names it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Approver {
    /// The owner of the chat.
    Requester,
    /// The users whose names match.
    User(Pattern),
    /// The members of the groups whose names match.
    Group(Pattern),
    /// The service of a channel that decides.
    Channel(String),
}

/// The terms of an approval: who decides about a call, how many of them, and until when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalTerms {
    /// The parties that may decide.
    pub by: Vec<Approver>,
    /// The number of different principals that have to approve the same input.
    pub quorum: u32,
    /// `true` if the requester may not decide, even as a member of a group.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not_requester: bool,
    /// `true` if a message such as "yes" may decide. By default it may if the requester decides alone, and the tool is none of an MCP server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub words: Option<bool>,
    /// `true` if a person's "always" is taken, and takes the place of later approvals. By default it is only taken if the requester decides
    /// alone, and replaces no approval that a rule asks for. It never replaces several people.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub always: bool,
    /// How long the call waits before it expires; `None` for the default of the settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expire: Option<Duration>,
    /// How long an approval is valid before the call has started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_for: Option<Duration>,
    /// The names of the channels that bring the approval to people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notify: Vec<String>,
    /// After this time the channels are sent a reminder, once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remind: Option<Duration>,
    /// The parties that are added if nobody has decided in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escalate: Option<Escalation>,
}

/// The escalation of an approval. It adds to those who may decide, and takes nothing away.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Escalation {
    /// The time that the call has waited by then.
    pub after: Duration,
    /// The parties that may decide from then on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by: Vec<Approver>,
    /// The names of the channels that bring the approval to them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notify: Vec<String>,
}

/// The way a person's decision came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecisionChannel {
    /// A button of a page: a request of its own, from a browser.
    Button,
    /// A message such as "yes".
    Words,
    /// An approval response in a message that was posted again.
    Message,
    /// A request of its own, from another program.
    #[default]
    Api,
    /// A button of a message in Slack.
    Slack,
    /// A link in an e-mail.
    Email,
    /// The service of a channel that decides.
    Decider,
}

/// A principal's approval of a call with its current input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Vote {
    /// The principal, with the groups that the request has proved. Those of the settings are looked up whenever votes are counted.
    #[serde(flatten)]
    pub by: Principal,
    /// The time of the vote.
    pub at: Timestamp,
    /// The channel that the vote came by.
    pub how: DecisionChannel,
}

/// The people of the settings: their groups and addresses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct People(BTreeMap<String, Person>);

/// A person of the settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Person {
    /// The names of the groups.
    pub groups: Vec<String>,
    /// The e-mail address.
    pub email: Option<String>,
}

/// Returns whether a principal may decide about the calls of a requester under these terms: approve and deny them, edit their inputs, allow
/// later ones, and make them again. `people` has the groups that the settings give to users.
pub fn may_decide(principal: &Principal, requester: &Owner, terms: &ApprovalTerms, people: &People) -> bool {
    if terms.not_requester && principal.is_user(requester) {
        return false;
    }
    terms.by.iter().any(|approver| match approver {
        Approver::Requester => principal.is_user(requester),
        Approver::User(name) => !principal.is_channel && name.matches(principal.user.as_str()),
        Approver::Group(name) => people.groups_of(principal).any(|group| name.matches(group)),
        Approver::Channel(name) => principal.is_same(&Principal::channel(name)),
    })
}

// === impl Approver ===

impl fmt::Display for Approver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Requester => f.write_str("requester"),
            Self::User(name) => write!(f, "user:{name}"),
            Self::Group(name) => write!(f, "group:{name}"),
            Self::Channel(name) => write!(f, "channel:{name}"),
        }
    }
}

impl FromStr for Approver {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "requester" => Ok(Self::Requester),
            Some(("user", name)) if !name.is_empty() => Ok(Self::User(Pattern::new(name))),
            Some(("group", name)) if !name.is_empty() => Ok(Self::Group(Pattern::new(name))),
            Some(("channel", name)) if !name.is_empty() => Ok(Self::Channel(name.to_owned())),
            _ => Err(format!(
                "{text:?} names nobody; write \"requester\", \"user:…\", \"group:…\" or \"channel:…\""
            )),
        }
    }
}

impl TryFrom<String> for Approver {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Approver> for String {
    fn from(approver: Approver) -> Self {
        approver.to_string()
    }
}

// === impl ApprovalTerms ===

impl ApprovalTerms {
    /// Returns the terms of a call whose requester decides.
    pub fn by_requester() -> &'static Self {
        static BY_REQUESTER: LazyLock<ApprovalTerms> = LazyLock::new(ApprovalTerms::default);
        &BY_REQUESTER
    }

    /// Returns whether the requester decides, alone.
    pub fn is_requesters_alone(&self) -> bool {
        self.by == [Approver::Requester] && self.quorum == 1 && !self.not_requester
    }

    /// Returns whether a message such as "yes" may decide about a call of a tool that this party runs.
    pub fn take_words(&self, run_by: RunBy) -> bool {
        self.words.unwrap_or_else(|| self.is_requesters_alone() && run_by != RunBy::Mcp)
    }

    /// Returns whether a person may allow later calls together with this one.
    pub fn take_always(&self) -> bool {
        (self.always && self.quorum == 1) || self.is_requesters_alone()
    }

    /// Returns those who may decide, for people who read it.
    pub fn deciders(&self) -> String {
        let names: Vec<String> = self.by.iter().map(Approver::to_string).collect();
        names.join(", ")
    }
}

impl Default for ApprovalTerms {
    /// Returns the terms of a call whose requester decides.
    fn default() -> Self {
        Self {
            by: vec![Approver::Requester],
            quorum: 1,
            not_requester: false,
            words: None,
            always: false,
            expire: None,
            valid_for: None,
            notify: Vec::new(),
            remind: None,
            escalate: None,
        }
    }
}

// === impl People ===

impl People {
    /// Creates the people of these settings, by user name.
    pub fn new(people: BTreeMap<String, Person>) -> Self {
        Self(people)
    }

    /// Returns the groups of a principal: those that the request has proved, and those of the settings.
    pub fn groups_of<'a>(&'a self, principal: &'a Principal) -> impl Iterator<Item = &'a str> {
        let known = if principal.is_channel { None } else { self.0.get(principal.user.as_str()) };
        let known = known.into_iter().flat_map(|person| &person.groups);
        principal.groups.iter().chain(known).map(String::as_str)
    }

    /// Returns a principal with all groups: those that the request has proved, and those of the settings.
    pub fn complete<'a>(&self, principal: &'a Principal) -> Cow<'a, Principal> {
        if principal.is_channel || !self.0.contains_key(principal.user.as_str()) {
            return Cow::Borrowed(principal);
        }
        let mut groups: Vec<String> = Vec::new();
        for group in self.groups_of(principal) {
            if !groups.iter().any(|known| known == group) {
                groups.push(group.to_owned());
            }
        }
        Cow::Owned(Principal { groups, ..principal.clone() })
    }

    /// Returns all people, with their user names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Person)> {
        self.0.iter().map(|(name, person)| (name.as_str(), person))
    }
}
