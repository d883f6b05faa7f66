//! Numbers that are compared by value: `1000`, `1000.0` and `1e3` are equal.

use std::cmp::Ordering;

/// An exact decimal number. Its value is `0.digits × 10^exponent`; zero has no digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decimal {
    negative: bool,
    /// The digits without zeros at either end.
    digits: String,
    exponent: i64,
}

impl Decimal {
    /// Parses a number in the syntax of JSON or TOML; `None` if the text is not a number.
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => {
                let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
                if !is_digits(digits) {
                    return None;
                }
                // An exponent that is out of range becomes the largest or the smallest one.
                let size = digits.parse().unwrap_or(i64::MAX / 2).min(i64::MAX / 2);
                (mantissa, if exponent.starts_with('-') { -size } else { size })
            }
            None => (rest, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
        if !is_digits(whole) || !is_digits(fraction) {
            return None;
        }
        let digits = format!("{whole}{fraction}");
        let leading = digits.len() - digits.trim_start_matches('0').len();
        let digits = digits.trim_matches('0');
        if digits.is_empty() {
            return Some(Self { negative: false, digits: String::new(), exponent: 0 });
        }
        let point = i64::try_from(whole.len()).ok()? - i64::try_from(leading).ok()?;
        Some(Self { negative, digits: digits.to_owned(), exponent: exponent.saturating_add(point) })
    }

    /// Returns the number without an exponent; `None` if that would be very long.
    pub fn plain(&self) -> Option<String> {
        const LONGEST: i64 = 400;
        if self.exponent.abs() > LONGEST || self.digits.len() > 1000 {
            return None;
        }
        let sign = if self.negative { "-" } else { "" };
        let length = i64::try_from(self.digits.len()).ok()?;
        let zeros = |count: i64| "0".repeat(usize::try_from(count).unwrap_or(0));
        Some(match self.exponent {
            _ if self.digits.is_empty() => "0".to_owned(),
            exponent if exponent <= 0 => format!("{sign}0.{}{}", zeros(-exponent), self.digits),
            exponent if exponent >= length => format!("{sign}{}{}", self.digits, zeros(exponent - length)),
            exponent => {
                let (whole, fraction) = self.digits.split_at(usize::try_from(exponent).ok()?);
                format!("{sign}{whole}.{fraction}")
            }
        })
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        let sign = |number: &Self| match (number.digits.is_empty(), number.negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        };
        let size = || (self.exponent, &self.digits).cmp(&(other.exponent, &other.digits));
        sign(self).cmp(&sign(other)).then_with(|| if self.negative { size().reverse() } else { size() })
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Decimal {
        Decimal::parse(text).expect("a number")
    }

    #[test]
    fn a_number_is_its_value() {
        for (one, other) in [
            ("1000", "1000.0"),
            ("1000", "1e3"),
            ("1000", "+1.0E+3"),
            ("0.05", "5e-2"),
            ("-0", "0.0"),
            ("0e9", "0"),
            ("007", "7"),
            ("1e99999999999999999999", "1e88888888888888888888"),
        ] {
            assert_eq!(number(one), number(other), "{one} and {other}");
        }
        for text in ["", "-", "1.", ".5", "1e", "1e+", "0x10", "1_000", "NaN", "1 ", "--1", "１"] {
            assert_eq!(Decimal::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn numbers_are_in_the_order_of_their_values() {
        let ordered = ["-1e9", "-10", "-9.5", "-0.1", "0", "1e-9", "0.1", "0.11", "9.5", "10", "10.5", "1e9"];
        for (index, one) in ordered.iter().enumerate() {
            for other in &ordered[index + 1..] {
                assert!(number(one) < number(other), "{one} < {other}");
            }
        }
    }

    #[test]
    fn a_number_is_written_plainly_unless_that_is_long() {
        for (text, plain) in
            [("1e3", "1000"), ("-12.50", "-12.5"), ("5e-3", "0.005"), ("0.0", "0"), ("123e-2", "1.23")]
        {
            assert_eq!(number(text).plain().as_deref(), Some(plain), "{text}");
        }
        assert_eq!(number("1e100000").plain(), None);
    }
}
