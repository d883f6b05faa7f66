//! Secrets that could be guessed although they are long.

/// Returns whether a secret is too regular to be random: it has fewer than `different` different bytes, it repeats a shorter text, or each
/// byte follows from the one before, as in an alphabet. A random secret is not taken for such a one.
///
/// A secret that passes may still be a word of a dictionary.
pub fn is_guessable(secret: &[u8], different: usize) -> bool {
    let repeats = (1..=secret.len() / 2)
        .any(|length| secret.iter().zip(&secret[length..]).all(|(one, other)| one == other));
    let steps = secret.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]));
    number_of_different(secret.iter().copied()) < different
        || repeats
        || number_of_different(steps) < LEAST_STEPS
}

/// The least number of different steps from one byte to the next in a random secret of sixteen characters.
const LEAST_STEPS: usize = 4;

fn number_of_different(bytes: impl Iterator<Item = u8>) -> usize {
    let mut bytes: Vec<u8> = bytes.collect();
    bytes.sort_unstable();
    bytes.dedup();
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regular_secrets_are_found_and_others_are_not() {
        for guessable in [
            "aaaaaaaaaaaaaaaa",
            "abababababababab",
            "aaaaaaaaaaaaaaab",
            "passwordpassword",
            "secret-secret-secret-se",
            "abcdefghijklmnop",
            "ponmlkjihgfedcba",
            "0123456789012345",
            "0123456789abcdef",
            "aabbccddeeffgghh",
            "1111222233334444",
            "",
        ] {
            assert!(is_guessable(guessable.as_bytes(), 6), "{guessable}");
        }
        for good in [
            "a-token-of-alice",
            "sixteen-letters!",
            "alice-secret-0123456789",
            "tok1-0123456789ab",
            "8f14e45fceea167a",
            "3q2-7wAAAB9zX0aQ",
        ] {
            assert!(!is_guessable(good.as_bytes(), 6), "{good}");
        }
    }
}
