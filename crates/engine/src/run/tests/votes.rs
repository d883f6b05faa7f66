//! Who decides: quorums, votes that change or fall away, edits, reminders, escalations, and approvals that lapse.

use std::collections::BTreeMap;

use fermata_tools::{ApprovalTerms, Approver, Escalation, Pattern, People, Person, Rule, RulePolicy};

use proptest::prelude::*;

use super::*;
use crate::{api::approval::Approval, ports::store::ApprovalState, services::NoticeRoutes};

/// Alice asks. Bob and Carol are in finance, Dan is a manager.
fn people() -> People {
    let person = |groups: &[&str]| Person {
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        email: None,
    };
    let known = [("bob", vec!["finance"]), ("carol", vec!["finance"]), ("dan", vec!["managers"])];
    People::new(known.into_iter().map(|(name, groups)| (name.to_owned(), person(&groups))).collect())
}

fn finance(quorum: u32) -> ApprovalTerms {
    let by = vec![Approver::Group(Pattern::new("finance"))];
    ApprovalTerms { by, quorum, ..ApprovalTerms::default() }
}

fn policy(terms: ApprovalTerms, people: People) -> Arc<dyn Policy> {
    let rule = Rule { tool: Some(Pattern::new("note")), terms, ..Rule::of_every_call(Decision::Ask) };
    Arc::new(RulePolicy { rules: vec![rule], people, ..RulePolicy::default() })
}

fn play(terms: ApprovalTerms) -> Play {
    Play::with(|rules| Rules { policy: policy(terms, people()), ..rules })
}

fn user(name: &str) -> Decider {
    Decider::new(Owner::new(name), DecisionChannel::Api, None)
}

impl Play {
    /// Answers the newest approval request of the call, as people outside the chat do.
    fn try_vote(&mut self, by: &Decider, answer: Answer) -> Result<&mut Self, Rejected> {
        let call = &self.run.calls[self.run.find_call(&answer.of).unwrap()];
        let of = AnswerTarget::Approval(call.approval_request.as_ref().unwrap().id.clone());
        let name = call.id.clone();
        let answers = vec![Answer { of, kind: answer.kind }];
        let valid = self.run.validate(&answers, by, &self.scene.context(self.now))?;
        if valid.answers.is_empty() {
            writeln!(self.transcript, "> {} again", by.by.user).unwrap();
            return Ok(self);
        }
        let said = Answer { of: AnswerTarget::Call(name), kind: answers[0].kind.clone() };
        let what = format!("{} {}", by.by.user, brief(&said));
        Ok(self.apply(&what, Event::Answered(valid.answers)))
    }

    fn vote(&mut self, name: &str, answer: Answer) -> &mut Self {
        self.try_vote(&user(name), answer).unwrap()
    }

    fn refuses(&mut self, name: &str, answer: Answer) -> bool {
        matches!(self.try_vote(&user(name), answer), Err(Rejected::NotYours { .. }))
    }

    fn approval(&self) -> Approval {
        let call = &self.run.calls[0];
        Approval::of(call, &call.approval_request.as_ref().unwrap().id)
    }

    fn notices(&self) -> Vec<String> {
        let notices = self.effects.commit.notices.iter();
        notices.map(|notice| format!("{} {}", notice.event.as_str(), notice.channel)).collect()
    }

    fn due(&mut self) -> &mut Self {
        self.now = self.run.approvals_due().expect("something is due");
        self.apply("due", Event::ApprovalsDue)
    }
}

#[test]
fn a_second_approver_opens_the_gate() {
    let mut play = play(finance(2));
    play.calls(&[("note", "{}")]);
    play.transcript.clear();
    play.vote("bob", decision("call_1", true)).vote("bob", decision("call_1", true));
    play.vote("carol", decision("call_1", true)).check(expect![[r#"
        > bob call_1 yes
        save
        > bob again
        > carol call_1 yes
        save
        release call_1
        execute call_1
        tool-approval-response true
    "#]]);
    assert_eq!(play.approval().decision.approved_by, [Owner::new("bob"), Owner::new("carol")]);
    assert_eq!(play.effects.commit.decisions[0].decision.by, Owner::new("carol"));
}

#[test]
fn nobody_else_decides_by_any_answer() {
    let mut play = play(ApprovalTerms { not_requester: true, ..finance(1) });
    play.calls(&[("note", "{}")]);
    for name in ["alice", "dan", "eve", "channel:bob"] {
        for answer in [
            decision("call_1", true),
            decision("call_1", false),
            edited("call_1", json!({"n": 1})),
            always("call_1"),
        ] {
            assert!(play.refuses(name, answer), "{name}");
        }
    }
    let member = Principal { groups: vec!["finance".into()], ..Owner::new("alice").into() };
    let by = Decider::new(member, DecisionChannel::Api, None);
    assert!(matches!(play.try_vote(&by, decision("call_1", true)), Err(Rejected::NotYours { .. })));
    assert_eq!(play.approval().state, ApprovalState::Waiting);
}

#[test]
fn a_denial_settles_and_takes_the_vote_back() {
    let mut play = play(finance(2));
    play.calls(&[("note", "{}")]);
    play.vote("bob", decision("call_1", true)).vote("bob", decision("call_1", false));
    let approval = play.approval();
    assert_eq!((approval.state, approval.decision.approved_by.len()), (ApprovalState::Denied, 0));
    assert_eq!(approval.settled.unwrap().by, Some(Owner::new("bob")));
}

#[test]
fn an_edit_voids_the_votes_before_it_and_is_the_vote_of_its_editor() {
    let mut play = play(finance(2));
    play.calls(&[("note", "{}")]);
    play.vote("bob", decision("call_1", true)).vote("carol", edited("call_1", json!({"n": 1})));
    assert_eq!(play.approval().decision.approved_by, [Owner::new("carol")]);
    play.vote("bob", decision("call_1", true));
    assert_eq!(play.approval().state, ApprovalState::Approved);
    assert_eq!(play.run.calls[0].effective_input().value(), json!({"n": 1}));
}

#[test]
fn a_vote_of_somebody_who_left_the_group_does_not_count_and_the_call_waits_again() {
    let mut play = play(finance(2));
    play.calls(&[("note", "{}"), ("note", "{}")]);
    for name in ["bob", "carol"] {
        play.vote(name, decision("call_1", true));
    }
    assert_eq!(play.approval().state, ApprovalState::Approved);
    let without_bob = People::new(BTreeMap::from([
        ("carol".to_owned(), Person { groups: vec!["finance".into()], email: None }),
        ("dan".to_owned(), Person { groups: vec!["finance".into()], email: None }),
    ]));
    play.scene.newest = Some(policy(finance(2), without_bob));
    play.apply("rules", Event::RulesChanged);
    for name in ["carol", "dan"] {
        play.vote(name, decision("call_2", true));
    }
    assert_eq!(play.run.calls[0].times_run(), 0, "Bob's approval is gone");
    let asked_again = play.approval();
    assert_eq!((asked_again.state, asked_again.decision.quorum), (ApprovalState::Waiting, 2));
    play.vote("dan", decision("call_1", true));
    assert_eq!((play.run.calls[0].times_run(), play.run.calls[1].times_run()), (1, 1));
}

#[test]
fn the_newest_quorum_counts() {
    let mut play = play(finance(1));
    play.calls(&[("note", "{}")]);
    play.scene.newest = Some(policy(finance(2), people()));
    play.vote("bob", decision("call_1", true));
    assert_eq!(play.approval().state, ApprovalState::Waiting);
    play.scene.newest = Some(policy(finance(1), people()));
    play.apply("rules", Event::RulesChanged);
    assert_eq!(play.approval().state, ApprovalState::Approved);
}

#[test]
fn an_approval_lapses_if_the_call_does_not_start() {
    let mut play = play(ApprovalTerms { valid_for: Some(Duration::from_secs(60)), ..finance(1) });
    play.calls(&[("note", "{}"), ("note", "{}")]);
    play.vote("bob", decision("call_1", true));
    let before = play.approval().id;
    play.transcript.clear();
    play.due().check(expect![[r#"
        > due
        save
        park call_1
        tool-input-available call_1 {}
        tool-approval-request call_1
    "#]]);
    let now = play.approval();
    assert_eq!((now.state, now.id == before), (ApprovalState::Waiting, false));
    assert_eq!(Approval::of(&play.run.calls[0], &before).state, ApprovalState::Cancelled);
}

#[test]
fn reminders_and_escalations_happen_once() {
    let escalate = Escalation {
        after: Duration::from_secs(120),
        by: vec![Approver::Group(Pattern::new("managers"))],
        notify: vec!["managers".into()],
    };
    let terms = ApprovalTerms {
        notify: vec!["finance".into()],
        remind: Some(Duration::from_secs(60)),
        escalate: Some(escalate),
        ..finance(1)
    };
    let mut play = play(terms);
    play.calls(&[("note", "{}")]);
    assert_eq!(play.notices(), ["approval.requested finance"]);
    assert!(play.refuses("dan", decision("call_1", true)));
    assert_eq!(play.due().notices(), ["approval.reminder finance"]);
    play.crash();
    assert_eq!(play.due().notices(), ["approval.escalated managers"]);
    assert_eq!(play.crash().run.approvals_due(), None);
    play.vote("dan", decision("call_1", true));
    assert_eq!(play.notices(), ["approval.settled finance", "approval.settled managers"]);
}

#[test]
fn an_edit_is_requested_again_and_services_are_asked_about_it() {
    let by = vec![Approver::Channel("risk".into()), Approver::User(Pattern::new("bob"))];
    let mut play = play(ApprovalTerms { by, quorum: 2, ..ApprovalTerms::default() });
    play.calls(&[("note", "{}")]);
    assert_eq!(play.notices(), ["approval.requested risk"]);
    play.vote("bob", edited("call_1", json!({"n": 1})));
    assert_eq!(play.notices(), ["approval.requested risk"]);
    let risk = Decider::new(Principal::channel("risk"), DecisionChannel::Decider, None);
    play.try_vote(&risk, decision("call_1", true)).unwrap();
    assert_eq!(play.approval().decision.approved_by, [Owner::new("bob"), Owner::new("channel:risk")]);
    assert_eq!(play.approval().state, ApprovalState::Approved);
}

#[test]
fn subscribers_are_notified_of_what_they_want() {
    let mut play = play(finance(1));
    play.scene.rules.notices = NoticeRoutes {
        subscriptions: vec![
            ("all".into(), vec![Pattern::new("approval.*")]),
            ("ends".into(), vec![Pattern::new("run.finished")]),
        ],
        requester: None,
    };
    play.calls(&[("note", "{}")]);
    assert_eq!(play.notices(), ["approval.requested all"]);
    play.end(Ending::Stopped);
    assert_eq!(play.notices(), ["run.finished ends", "approval.settled all"]);
    assert_eq!(play.approval().state, ApprovalState::Cancelled);
}

#[test]
fn always_is_taken_only_where_the_requester_decides_alone_or_the_rule_says_so() {
    for (always_in_rule, quorum, grants) in [(false, 1, 0), (true, 1, 1), (true, 2, 0)] {
        let mut play = play(ApprovalTerms { always: always_in_rule, ..finance(quorum) });
        play.calls(&[("note", "{}")]);
        play.vote("bob", always("call_1"));
        assert_eq!(play.effects.commit.grants.len(), grants, "{always_in_rule} {quorum}");
    }
}

#[test]
fn the_requester_is_notified_elsewhere_if_the_call_still_waits() {
    let mut play = Play::new();
    let notice =
        crate::services::RequesterNotice { channels: vec!["phone".into()], after: Duration::from_secs(30) };
    play.scene.rules.notices = NoticeRoutes { subscriptions: Vec::new(), requester: Some(notice) };
    play.calls(&[("note", "{}")]);
    assert_eq!(play.notices(), [""; 0]);
    assert_eq!(play.due().notices(), ["approval.requested phone"]);
    play.answer(vec![decision("call_1", true)]);
    assert_eq!(play.notices(), ["approval.settled phone"]);
}

/// A move of a schedule with several deciders.
#[derive(Clone, Debug)]
enum Move {
    /// Somebody answers one of the calls; an input of `Some(n)` is an edit.
    Votes {
        who: usize,
        call: usize,
        approved: bool,
        input: Option<i64>,
    },
    /// The groups that people are in change, by a bit for each person and group, and the quorum with them.
    RulesChange {
        members: u8,
        quorum: u32,
        not_requester: bool,
    },
    /// The time of the next thing that is due about an approval comes.
    Due,
    /// The process ends, and another one resumes the run.
    Crashes,
    Expires,
}

const NAMES: [&str; 4] = ["alice", "bob", "carol", "dan"];

fn moves() -> impl Strategy<Value = Move> {
    let input = prop_oneof![3 => Just(None), 1 => (1..3i64).prop_map(Some)];
    prop_oneof![
        12 => (0..NAMES.len(), 0..2usize, prop::bool::weighted(0.9), input)
            .prop_map(|(who, call, approved, input)| Move::Votes { who, call, approved, input }),
        3 => (any::<u8>(), 1..4u32, any::<bool>())
            .prop_map(|(members, quorum, not_requester)| Move::RulesChange { members, quorum, not_requester }),
        2 => Just(Move::Due),
        2 => Just(Move::Crashes),
        1 => Just(Move::Expires),
    ]
}

/// What a schedule knows of the approvals, apart from the run.
struct Known {
    terms: ApprovalTerms,
    members: u8,
    /// Those who have approved each call, with its current input.
    approved_by: [Vec<usize>; 2],
}

impl Known {
    fn may_decide(&self, who: usize) -> bool {
        self.members & (1 << who) != 0 && !(self.terms.not_requester && who == 0)
    }

    fn policy(&self) -> Arc<dyn Policy> {
        let members = NAMES.iter().enumerate().filter(|(who, _)| self.members & (1 << who) != 0);
        let person = || Person { groups: vec!["finance".into()], email: None };
        policy(
            self.terms.clone(),
            People::new(members.map(|(_, name)| ((*name).to_owned(), person())).collect()),
        )
    }

    /// Checks that each call that has just begun to run has enough approvals of people who may decide by now.
    fn check(&self, play: &Play) {
        for (place, approved_by) in self.approved_by.iter().enumerate() {
            let id = &play.run.calls[place].id;
            if play.effects.after.execute.contains(id) {
                let valid = approved_by.iter().filter(|who| self.may_decide(**who)).count();
                assert!(
                    valid >= self.terms.quorum as usize,
                    "{id} runs with {valid} of {}",
                    self.terms.quorum
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// No call runs without enough valid approvals, even if people vote, edit or leave groups, approvals lapse, and the process crashes in between.
    #[test]
    fn no_call_runs_without_enough_valid_approvals(moves in prop::collection::vec(moves(), 1..40)) {
        let terms = ApprovalTerms { valid_for: Some(Duration::from_secs(60)), ..finance(2) };
        let mut known = Known { terms, members: 0b1110, approved_by: Default::default() };
        let mut play = Play::with(|rules| Rules { policy: known.policy(), ..rules });
        play.calls(&[("note", "{}"), ("note", "{}")]);
        for what in moves {
            if play.run.state.phase == Phase::Over || play.run.step_calls().len() != 2 {
                break;
            }
            let ids = |play: &Play| -> Vec<_> {
                play.run.calls.iter().map(|call| call.approval_request.as_ref().unwrap().id.clone()).collect()
            };
            let before = ids(&play);
            play.effects = Effects::default();
            match what {
                Move::Votes { who, call, approved, input } => {
                    let id = format!("call_{}", call + 1);
                    let answer = match input {
                        Some(n) if approved => edited(&id, json!({"n": n})),
                        Some(_) | None => decision(&id, approved),
                    };
                    let has_voted = known.approved_by[call].contains(&who);
                    let was_edit = matches!(&answer.kind, AnswerKind::Decision { input: Some(_), .. });
                    let was_waiting = play.run.calls[call].awaits_approval();
                    let waits = |play: &Play| play.run.calls[call].edited.clone();
                    let input_before = waits(&play);
                    match play.try_vote(&user(NAMES[who]), answer) {
                        Err(Rejected::NotYours { .. }) => prop_assert!(!known.may_decide(who)),
                        // It is refused for another reason, or was given before.
                        Err(_) => {}
                        Ok(play) if play.effects.commit.decisions.is_empty() => {}
                        Ok(_) => {
                            // Taking an approval back is left to those who have given it.
                            prop_assert!(known.may_decide(who) || has_voted);
                            let is_new_input = was_edit && (waits(&play) != input_before || was_waiting);
                            if approved && is_new_input && !(has_voted && waits(&play) == input_before) {
                                known.approved_by[call].clear();
                            }
                            if approved && !known.approved_by[call].contains(&who) && was_waiting {
                                known.approved_by[call].push(who);
                            }
                        }
                    }
                }
                Move::RulesChange { members, quorum, not_requester } => {
                    known.members = members & 0b1111;
                    known.terms = ApprovalTerms { quorum, not_requester, ..known.terms.clone() };
                    play.scene.newest = Some(known.policy());
                    play.apply("rules", Event::RulesChanged);
                }
                Move::Due if play.run.approvals_due().is_some() => {
                    play.due();
                }
                Move::Due => {}
                Move::Crashes => {
                    play.crash();
                }
                Move::Expires => {
                    play.end(Ending::Expired);
                }
            }
            known.check(&play);
            for (place, id) in ids(&play).into_iter().enumerate() {
                let is_asked_again = before[place] != id;
                if is_asked_again && play.run.calls[place].approval_request.as_ref().unwrap().votes.is_empty() {
                    known.approved_by[place].clear();
                }
            }
        }
    }
}
