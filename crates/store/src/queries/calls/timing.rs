//! The times when a call was made, ran and ended, and how long it waited, computed from the states that it entered, in whole
//! microseconds. This module knows no column.

use fermata_tools::{StateName, Transition};

use crate::column::time;

/// The computed times; `None` if something did not happen or is not over.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Timing {
    pub created_at: Option<i64>,
    pub started_at: Option<i64>,
    pub ended_at: Option<i64>,
    pub waited_for_approval: Option<i64>,
    /// The time that the call waited for the gate or for a lock.
    pub waited_for_turn: Option<i64>,
    pub ran_for: Option<i64>,
}

// === impl Timing ===

impl Timing {
    pub fn of(history: &[Transition]) -> Self {
        let mut timing = Self {
            created_at: history.first().map(|made| time(made.at)),
            started_at: history
                .iter()
                .find(|entered| entered.state == StateName::Executing)
                .map(|started| time(started.at)),
            ended_at: history.last().filter(|ended| ended.state.is_final()).map(|ended| time(ended.at)),
            ..Self::default()
        };
        for (entered, left) in history.iter().zip(history.iter().skip(1)) {
            let total = match entered.state {
                StateName::AwaitingApproval => &mut timing.waited_for_approval,
                StateName::Scheduled => &mut timing.waited_for_turn,
                StateName::Executing => &mut timing.ran_for,
                StateName::Validating | StateName::Success | StateName::Error | StateName::Cancelled => {
                    continue;
                }
            };
            // A clock may be set back, but no duration is negative.
            let stay = (time(left.at) - time(entered.at)).max(0);
            *total = Some(total.unwrap_or_default() + stay);
        }
        timing
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn timing(history: &[(StateName, i64)]) -> Timing {
        let history = history
            .iter()
            .map(|(state, at)| Transition { state: *state, at: Timestamp::from_microsecond(*at).unwrap() });
        Timing::of(&history.collect::<Vec<_>>())
    }

    #[test]
    fn a_call_that_waited_and_ran_has_all_its_times() {
        let all = [
            (StateName::Validating, 1),
            (StateName::AwaitingApproval, 3),
            (StateName::Scheduled, 10),
            (StateName::Executing, 30),
            (StateName::Success, 100),
        ];
        assert_eq!(
            timing(&all),
            Timing {
                created_at: Some(1),
                started_at: Some(30),
                ended_at: Some(100),
                waited_for_approval: Some(7),
                waited_for_turn: Some(20),
                ran_for: Some(70),
            }
        );
    }

    #[test]
    fn what_did_not_happen_has_no_time_and_what_took_none_has_zero() {
        let denied = timing(&[(StateName::Validating, 5), (StateName::Cancelled, 5)]);
        assert_eq!(denied, Timing { created_at: Some(5), ended_at: Some(5), ..Timing::default() });
        let at_once = timing(&[(StateName::Scheduled, 5), (StateName::Executing, 5)]);
        assert_eq!((at_once.waited_for_turn, at_once.ran_for), (Some(0), None), "it still runs");
        assert_eq!(timing(&[]), Timing::default());
    }

    #[test]
    fn stays_in_one_state_add_up_and_it_began_with_the_first() {
        let again = timing(&[
            (StateName::AwaitingApproval, 0),
            (StateName::AwaitingApproval, 4),
            (StateName::Scheduled, 9),
            (StateName::Executing, 10),
            (StateName::Executing, 20),
            (StateName::Error, 22),
        ]);
        assert_eq!((again.waited_for_approval, again.ran_for), (Some(9), Some(12)));
        assert_eq!((again.created_at, again.started_at), (Some(0), Some(10)));
    }

    #[test]
    fn a_clock_that_was_set_back_makes_no_time_negative() {
        let back = timing(&[(StateName::Executing, 10), (StateName::Error, 4)]);
        assert_eq!(back.ran_for, Some(0));
    }
}
