//! The line ends of requests.
//!
//! A line ends with CR LF. hyper takes a bare LF as well, which some proxies do not. Here, a bare LF becomes a byte that no line may have, so
//! that hyper refuses the request.
//!
//! This knows as much of the framing of HTTP/1.1 as it takes to tell lines from bodies. It decides nothing about it: a request whose framing
//! is doubtful is refused by hyper, and its connection ends.

/// The number of bytes of a line that are looked at. The lines that matter are shorter.
const LINE_BYTES: usize = 128;
/// A byte that neither a head nor the line before a chunk may have.
const REFUSED: u8 = 0;

/// Checks the line ends of the bytes that one connection receives.
#[derive(Default)]
pub(super) struct LineEnds {
    within: Within,
    /// The beginning of the current line.
    line: Vec<u8>,
    /// `true` after CR.
    is_after_cr: bool,
}

/// The part of a request that the next byte belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Within {
    /// The empty lines before a request.
    #[default]
    Nothing,
    /// The head of a request whose body has this form, as far as it is known.
    Head(Body),
    /// A body, or the data of a chunk.
    Data {
        left: u64,
        then: After,
    },
    ChunkSize,
    /// The line end after the data of a chunk.
    ChunkEnd,
    Trailers,
    /// Something that this does not understand, and that hyper refuses.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    Length(u64),
    Chunks,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    Body,
    Chunk,
}

// === impl LineEnds ===

impl LineEnds {
    /// Returns whether nothing of a request has been received that the next byte could belong to.
    pub fn is_between_requests(&self) -> bool {
        self.within == Within::Nothing && self.line.is_empty()
    }

    /// Replaces each bare LF of a line among the bytes that were received next.
    pub fn check(&mut self, bytes: &mut [u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let taken = match &mut self.within {
                Within::Unknown => return,
                Within::Data { left, then } => {
                    let taken = usize::try_from(*left).map_or(rest.len(), |left| left.min(rest.len()));
                    *left -= taken as u64;
                    if *left == 0 {
                        self.within = match then {
                            After::Body => Within::Nothing,
                            After::Chunk => Within::ChunkEnd,
                        };
                    }
                    taken
                }
                Within::Nothing
                | Within::Head(_)
                | Within::ChunkSize
                | Within::ChunkEnd
                | Within::Trailers => self.take_line(rest),
            };
            rest = &mut rest[taken..];
        }
    }

    /// Takes the rest of a line, or as much of it as there is. Returns its length.
    fn take_line(&mut self, bytes: &mut [u8]) -> usize {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let text = &bytes[..end.unwrap_or(bytes.len())];
        let room = LINE_BYTES - self.line.len();
        self.line.extend_from_slice(&text[..text.len().min(room)]);
        if let Some(last) = text.last() {
            self.is_after_cr = *last == b'\r';
        }
        let Some(end) = end else { return bytes.len() };
        if !self.is_after_cr {
            bytes[end] = REFUSED;
        }
        self.is_after_cr = false;
        let line = std::mem::take(&mut self.line);
        self.within = after_line(self.within, &line);
        end + 1
    }
}

/// Returns the part of the request that follows a line.
fn after_line(within: Within, line: &[u8]) -> Within {
    let is_cut_off = line.len() == LINE_BYTES;
    let line = line.trim_ascii();
    match within {
        Within::Nothing if line.is_empty() => Within::Nothing,
        Within::Nothing => Within::Head(Body::Length(0)),
        Within::Head(Body::Chunks) if line.is_empty() => Within::ChunkSize,
        Within::Head(Body::Length(0)) if line.is_empty() => Within::Nothing,
        Within::Head(Body::Length(left)) if line.is_empty() => Within::Data { left, then: After::Body },
        Within::Head(body) => {
            let Some(colon) = line.iter().position(|byte| *byte == b':') else { return within };
            let (name, value) = (line[..colon].trim_ascii(), line[colon + 1..].trim_ascii());
            if name.eq_ignore_ascii_case(b"transfer-encoding") {
                return if is_cut_off { Within::Unknown } else { Within::Head(Body::Chunks) };
            }
            if !name.eq_ignore_ascii_case(b"content-length") || body == Body::Chunks {
                return within;
            }
            match number(value, 10) {
                Some(length) if !is_cut_off => Within::Head(Body::Length(length)),
                Some(_) | None => Within::Unknown,
            }
        }
        Within::ChunkSize => {
            let size = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
            match number(size, 16) {
                Some(0) => Within::Trailers,
                Some(left) => Within::Data { left, then: After::Chunk },
                None => Within::Unknown,
            }
        }
        Within::ChunkEnd if line.is_empty() => Within::ChunkSize,
        Within::ChunkEnd => Within::Unknown,
        Within::Trailers if line.is_empty() => Within::Nothing,
        Within::Trailers | Within::Data { .. } | Within::Unknown => within,
    }
}

fn number(digits: &[u8], radix: u32) -> Option<u64> {
    // `from_str_radix` takes a sign.
    let text = std::str::from_utf8(digits).ok().filter(|text| !text.starts_with(['+', '-']))?;
    u64::from_str_radix(text, radix).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the checked bytes, which are received in pieces of this size.
    fn checked(bytes: &[u8], piece: usize) -> Vec<u8> {
        let (mut checked, mut line_ends) = (bytes.to_vec(), LineEnds::default());
        for piece in checked.chunks_mut(piece) {
            line_ends.check(piece);
        }
        checked
    }

    /// Requests in whose lines `~` stands for a line end. A body may have a bare LF.
    const REQUESTS: [&str; 8] = [
        "GET / HTTP/1.1~Host: h~~",
        "~~GET / HTTP/1.1~Host: h~X: Content-Length: 9~~",
        "POST / HTTP/1.1~Host: h~Content-Length: 6~~a\nb\r\n\n",
        "POST / HTTP/1.1~content-length:\t10 ~host: h~~GET /\n\n\n\r\n",
        "POST / HTTP/1.1~Transfer-Encoding: chunked~Host: h~~3;x=\"y\"~a\nb~00A~0123\n\n\r\n89~0~~",
        "POST / HTTP/1.1~content-length: 5~TRANSFER-ENCODING:Chunked~~1~\n~0~Trailer: x~Another: y~~",
        "PUT /long HTTP/1.1~X-Long: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx~Content-Length: 1~~\n",
        "HEAD / HTTP/1.0~~",
    ];

    #[test]
    fn only_bare_line_ends_of_lines_are_refused() {
        for piece in [1, 2, 3, 7, 10_000] {
            let all = REQUESTS.concat();
            let good = all.replace('~', "\r\n");
            assert_eq!(checked(good.as_bytes(), piece), good.as_bytes(), "{piece}");
            for request in REQUESTS {
                for (index, _) in request.match_indices('~') {
                    let (before, after) =
                        (request[..index].replace('~', "\r\n"), request[index + 1..].replace('~', "\r\n"));
                    // After the first bare LF, the request is refused.
                    let bad = format!("{good}{before}\n{after}");
                    let found = checked(bad.as_bytes(), piece);
                    let at = good.len() + before.len();
                    assert_eq!(
                        (&found[..at], found[at]),
                        (&bad.as_bytes()[..at], REFUSED),
                        "{piece} {bad:?}"
                    );
                }
            }
        }
    }

    proptest! {
        #[test]
        fn nothing_but_a_line_feed_is_ever_replaced(bytes in prop::collection::vec(any::<u8>(), 0..300), piece in 1usize..50) {
            let found = checked(&bytes, piece);
            for (was, is) in bytes.iter().zip(&found) {
                prop_assert!(was == is || (*was == b'\n' && *is == REFUSED));
            }
            prop_assert_eq!(found, checked(&bytes, 1_000));
        }
    }
}
