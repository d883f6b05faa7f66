//! Warnings about rules whose approvals nobody could give.

use std::collections::BTreeSet;

use fermata_tools::{ApprovalTerms, Approver, Decision};

use super::{AuthKind, Config, WrittenRule};

impl Config {
    /// Returns warnings about rules that ask more people than there are, each with its place.
    pub fn warnings_about_deciders(&self) -> Vec<String> {
        let asking = self.tables.policy.iter().filter(|written| written.rule.decision == Decision::Ask);
        asking.filter_map(|written| self.warning_about_deciders(written)).collect()
    }

    fn warning_about_deciders(&self, WrittenRule { rule, written }: &WrittenRule) -> Option<String> {
        let most = self.most_deciders(&rule.terms)?;
        let quorum = rule.terms.quorum;
        if most >= quorum as usize {
            return None;
        }
        let place = &written.place;
        let by = rule.terms.deciders();
        if self.access.auth == AuthKind::None {
            return Some(format!(
                "{place}: by: nobody can decide, because auth is none and everybody is the same user; set auth, or leave out by, quorum and \
                 not_requester"
            ));
        }
        Some(format!(
            "{place}: quorum: nobody can satisfy it: {quorum} people have to approve, and {most} of the users that are known may decide ({by})"
        ))
    }

    /// Returns the number of principals who could ever decide under these terms; `None` if that is not known.
    fn most_deciders(&self, terms: &ApprovalTerms) -> Option<usize> {
        let mut named: BTreeSet<String> = BTreeSet::new();
        let mut has_requester = false;
        let people = self.people();
        let owners = self.access.tokens.iter().map(|token| token.owner.as_str());
        let users: BTreeSet<&str> = owners.chain(people.iter().map(|(name, _)| name)).collect();
        let escalated = terms.escalate.iter().flat_map(|escalation| &escalation.by);
        for approver in terms.by.iter().chain(escalated) {
            match (approver, self.access.auth) {
                (Approver::Requester, _) => has_requester = true,
                (Approver::Channel(_), _) => {
                    named.insert(approver.to_string());
                }
                (Approver::User(_) | Approver::Group(_), AuthKind::None) => {}
                (Approver::User(name), AuthKind::Token) => {
                    named.extend(
                        users.iter().filter(|user| name.matches(user)).map(|user| (*user).to_owned()),
                    );
                }
                (Approver::Group(name), AuthKind::Token) => {
                    let members = people
                        .iter()
                        .filter(|(_, person)| person.groups.iter().any(|group| name.matches(group)));
                    named.extend(members.map(|(user, _)| user.to_owned()));
                }
                // The issuer or the proxy knows more users and groups than the file.
                (Approver::User(name), AuthKind::Jwt | AuthKind::Header) => {
                    let name = name.to_string();
                    if name.contains(['*', '?']) {
                        return None;
                    }
                    named.insert(name);
                }
                (Approver::Group(_), AuthKind::Jwt | AuthKind::Header) => return None,
            }
        }
        let others = named.len();
        Some(if has_requester && !terms.not_requester { others + 1 } else { others })
    }
}
