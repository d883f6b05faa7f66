//! A page of HTML as readable text with its links, for a model.
//!
//! A page comes from a stranger. It is read token by token and never becomes a tree, so that neither deep nesting nor unclosed elements cost
//! more than their bytes. What is between the tags of scripts, styles and the like is left out. This module fetches nothing.

use html5gum::{DefaultEmitter, EndTag, StartTag, Token, Tokenizer};
use url::Url;

/// A page as text.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The title; empty if the page has none.
    pub title: String,
    /// The text. Links are written as in Markdown, with absolute URLs.
    pub text: String,
    /// True if the text is longer than the limit and ends before the page does.
    pub is_cut: bool,
}

/// The limit on a title, in bytes.
const LONGEST_TITLE: usize = 300;
/// The limit on the URL of a link, in bytes. A longer one is left out, and its text stays.
const LONGEST_LINK: usize = 2_000;

/// The space that the next word needs before it. The widest one wins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Gap {
    #[default]
    None,
    Space,
    Line,
    Paragraph,
}

struct Renderer<'a> {
    base: &'a Url,
    limit: usize,
    page: Page,
    gap: Gap,
    /// The element whose content is left out, and how many of its kind are open in it.
    skipped: Option<(Vec<u8>, usize)>,
    is_in_title: bool,
    /// The number of open elements in which every space counts.
    preformatted: usize,
    link: Option<OpenLink>,
}

/// A link that has begun.
struct OpenLink {
    url: String,
    /// The length of the text before the link, and the space that was needed there.
    before: (usize, Gap),
    /// The length of the text after the bracket.
    start: usize,
}

/// Returns a page as text, of at most `limit` bytes and a little more. Relative links are resolved against `base`.
pub fn readable(html: &str, base: &Url, limit: usize) -> Page {
    let mut emitter: DefaultEmitter = DefaultEmitter::default();
    // The contents of scripts and the like are no tags.
    emitter.naively_switch_states(true);
    let mut renderer = Renderer {
        base,
        limit,
        page: Page::default(),
        gap: Gap::None,
        skipped: None,
        is_in_title: false,
        preformatted: 0,
        link: None,
    };
    for token in Tokenizer::new_with_emitter(html, emitter) {
        let Ok(token) = token;
        match token {
            Token::StartTag(tag) => renderer.start(&tag),
            Token::EndTag(tag) => renderer.end(&tag),
            Token::String(text) => renderer.text(&String::from_utf8_lossy(&text)),
            Token::Comment(_) | Token::Doctype(_) | Token::Error(_) => {}
        }
        if renderer.page.is_cut {
            break;
        }
    }
    renderer.end_link();
    let Page { title, text, is_cut } = renderer.page;
    Page { title: title.trim().to_owned(), text: text.trim().to_owned(), is_cut }
}

// === impl Renderer ===

impl Renderer<'_> {
    fn start(&mut self, tag: &StartTag<()>) {
        let name: &[u8] = &tag.name;
        if let Some((skipped, depth)) = &mut self.skipped {
            if skipped.as_slice() == name && !tag.self_closing {
                *depth += 1;
            }
            return;
        }
        match name {
            b"script" | b"style" | b"noscript" | b"template" | b"svg" | b"iframe" | b"object" | b"canvas"
            | b"select" | b"textarea" => {
                if !tag.self_closing {
                    self.skipped = Some((name.to_vec(), 1));
                }
            }
            b"title" => self.is_in_title = self.page.title.is_empty(),
            b"pre" => {
                self.widen(Gap::Paragraph);
                self.preformatted += 1;
            }
            b"br" => self.widen(Gap::Line),
            b"li" => {
                self.widen(Gap::Line);
                self.word("-");
                self.widen(Gap::Space);
            }
            b"h1" | b"h2" | b"h3" | b"h4" | b"h5" | b"h6" => {
                self.widen(Gap::Paragraph);
                self.word(&"#".repeat(usize::from(name[1] - b'0')));
                self.widen(Gap::Space);
            }
            b"td" | b"th" => {
                if self.gap < Gap::Line && !self.page.text.is_empty() {
                    self.widen(Gap::Space);
                    self.word("|");
                }
                self.widen(Gap::Space);
            }
            b"img" => {
                if let Some(alt) = attribute(tag, b"alt") {
                    self.text(&alt);
                }
            }
            b"a" => {
                self.end_link();
                let Some(url) = attribute(tag, b"href").and_then(|href| self.resolve(&href)) else { return };
                let before = (self.page.text.len(), self.gap);
                self.word("[");
                self.link = Some(OpenLink { url, before, start: self.page.text.len() });
            }
            _ => self.widen(gap_around(name)),
        }
    }

    fn end(&mut self, tag: &EndTag<()>) {
        let name: &[u8] = &tag.name;
        if let Some((skipped, depth)) = &mut self.skipped {
            if skipped.as_slice() == name {
                *depth -= 1;
                if *depth == 0 {
                    self.skipped = None;
                }
            }
            return;
        }
        match name {
            b"title" => self.is_in_title = false,
            b"pre" => {
                self.preformatted = self.preformatted.saturating_sub(1);
                self.widen(Gap::Paragraph);
            }
            b"a" => self.end_link(),
            b"h1" | b"h2" | b"h3" | b"h4" | b"h5" | b"h6" => self.widen(Gap::Paragraph),
            b"li" => self.widen(Gap::Line),
            _ => self.widen(gap_around(name)),
        }
    }

    fn text(&mut self, text: &str) {
        if self.skipped.is_some() {
            return;
        }
        if self.is_in_title {
            let room = LONGEST_TITLE.saturating_sub(self.page.title.len());
            self.page.title.push_str(&text[..text.floor_char_boundary(room)]);
            return;
        }
        if self.preformatted > 0 {
            if !text.is_empty() {
                self.word(text);
            }
            return;
        }
        if text.starts_with(char::is_whitespace) {
            self.widen(Gap::Space);
        }
        for word in text.split_whitespace() {
            self.word(word);
            self.widen(Gap::Space);
        }
        if !text.ends_with(char::is_whitespace) && self.gap == Gap::Space {
            self.gap = Gap::None;
        }
    }

    /// Adds a word, after the space that it needs.
    fn word(&mut self, word: &str) {
        if self.page.is_cut {
            return;
        }
        let text = &mut self.page.text;
        // A link may begin with nothing but the space that belongs before it.
        if !text.is_empty() && self.link.as_ref().is_none_or(|link| link.start != text.len()) {
            text.push_str(match self.gap {
                Gap::None => "",
                Gap::Space => " ",
                Gap::Line => "\n",
                Gap::Paragraph => "\n\n",
            });
        }
        self.gap = Gap::None;
        let room = self.limit.saturating_sub(text.len());
        if word.len() > room {
            self.page.is_cut = true;
        }
        text.push_str(&word[..word.floor_char_boundary(room)]);
    }

    fn widen(&mut self, gap: Gap) {
        self.gap = self.gap.max(gap);
    }

    fn end_link(&mut self) {
        let Some(OpenLink { url, before: (length, gap), start }) = self.link.take() else { return };
        let text = &mut self.page.text;
        if text.len() > start {
            text.push_str("](");
            text.push_str(&url);
            text.push(')');
        } else {
            // A link without a text is left out.
            text.truncate(length);
            self.widen(gap);
        }
    }

    /// Returns the absolute URL of a link that leads to another page.
    fn resolve(&self, href: &str) -> Option<String> {
        let href = href.trim();
        if href.is_empty() || href.starts_with('#') {
            return None;
        }
        let url = self.base.join(href).ok()?;
        let is_short = url.as_str().len() <= LONGEST_LINK;
        if is_short && matches!(url.scheme(), "http" | "https" | "mailto") { Some(url.into()) } else { None }
    }
}

/// Returns an attribute of a tag.
fn attribute(tag: &StartTag<()>, name: &[u8]) -> Option<String> {
    let (_, value) = tag.attributes.iter().find(|(key, _)| key.0.as_slice() == name)?;
    Some(String::from_utf8_lossy(value).into_owned())
}

/// Returns the space around an element.
fn gap_around(name: &[u8]) -> Gap {
    match name {
        b"p" | b"ul" | b"ol" | b"dl" | b"table" | b"blockquote" | b"section" | b"article" | b"figure"
        | b"main" | b"header" | b"footer" | b"nav" | b"aside" | b"form" | b"hr" | b"details" | b"body" => {
            Gap::Paragraph
        }
        b"div" | b"tr" | b"dt" | b"dd" | b"figcaption" | b"caption" | b"summary" | b"option" | b"address" => {
            Gap::Line
        }
        _ => Gap::None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn page(html: &str) -> Page {
        readable(html, &Url::parse("https://example.com/a/b?c").unwrap(), 10_000)
    }

    #[test]
    fn a_page_becomes_its_text_with_links() {
        let page = page(
            "<!doctype html><html><head><title>Lamps &amp; more</title><style>a { b }</style>\
             <script>if (1 < 2) document.write('<p>no</p>')</script></head>\
             <body><nav><a href='/'>Home</a> <a href='#top'>Up</a> <a href=x><img src=x></a></nav>\n\
             <h1>Lamps</h1>\n<p>A <b>bright</b>\n  lamp, see <a href=\"../c?d=e&amp;f\">this\n page</a>.</p>\
             <ul><li>one<li>two <a href='javascript:x()'>three</a></ul>\
             <table><tr><th>Name<th>Price<tr><td>Lamp<td>3 &euro;</table>\
             <pre>a\n  b</pre><p>caf\u{e9}<br>end<svg><text>no</text></svg>",
        );
        assert_eq!(page.title, "Lamps & more");
        assert_eq!(
            page.text,
            "[Home](https://example.com/) Up\n\n# Lamps\n\nA bright lamp, see [this page](https://example.com/c?d=e&f).\n\n\
             - one\n- two three\n\nName | Price\nLamp | 3 €\n\na\n  b\n\ncafé\nend"
        );
        assert!(!page.is_cut);
    }

    #[test]
    fn nesting_and_what_is_never_closed_cost_no_more_than_their_bytes() {
        for open in [
            "<div>",
            "<blockquote>",
            "<ul><li>",
            "<table><tr><td>",
            "<a href=x>",
            "<svg>",
            "<pre>",
            "<title>",
        ] {
            let html = format!("before {} after", open.repeat(300_000 / open.len()));
            assert!(page(&html).text.starts_with("before"), "{open}");
        }
    }

    #[test]
    fn a_long_page_is_cut_between_letters() {
        let page = readable(&"ü".repeat(100), &Url::parse("https://example.com").unwrap(), 51);
        assert_eq!((page.text.len(), page.is_cut), (50, true));
    }

    proptest! {
        #[test]
        fn any_page_becomes_a_text_within_its_limit(
            pieces in proptest::collection::vec(
                prop_oneof![
                    "[ -~\\n]{0,20}",
                    "</?(a|a href=/x|b|li|ul|td|tr|pre|title|script|svg|h[1-6]|p|br|img alt=x)/?>",
                    "&[a-z#0-9]{1,6};?",
                    "\\PC{0,4}",
                ],
                0..60,
            ),
            limit in 0..200_usize,
        ) {
            let base = Url::parse("https://example.com/a/b").unwrap();
            let page = readable(&pieces.concat(), &base, limit);
            // A link that is open at the end is closed beyond the limit.
            prop_assert!(page.text.len() <= limit + 40, "{}", page.text.len());
            prop_assert!(page.title.len() <= LONGEST_TITLE);
        }
    }
}
