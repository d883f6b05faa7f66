//! A page of HTML as readable text with its links, for a model.
//!
//! A page comes from a stranger. It is read token by token and never becomes a tree, so that neither deep nesting nor unclosed elements cost
//! more than their bytes. The content of scripts, styles and the like is left out, and so is all that people do not see: elements
//! that are hidden by an attribute or their own style, and invisible characters. Style sheets are not read. This module fetches nothing.

use fermata_tools::is_invisible;
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
/// The limit on the elements that are remembered within a hidden one.
const DEEPEST_SKIPPED: usize = 256;
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
    /// The element whose content is left out, and the open elements in it; empty if there is none.
    skipped: Vec<ElementName>,
    is_in_title: bool,
    /// The number of open elements where every space counts.
    preformatted: usize,
    link: Option<OpenLink>,
}

/// The first letters of an element's name, which tell apart those that matter here.
type ElementName = [u8; 8];

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
        skipped: Vec::new(),
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
        while self.skipped.last().is_some_and(|open| ends_at(open, name)) {
            self.skipped.pop();
        }
        let is_skipped = match name {
            b"script" | b"style" | b"noscript" | b"template" | b"svg" | b"iframe" | b"object" | b"canvas"
            | b"select" | b"textarea" => !(name == b"svg" && tag.self_closing),
            _ => !self.skipped.is_empty() || is_hidden(tag),
        };
        if is_skipped || !self.skipped.is_empty() {
            if is_skipped && !is_void(name) && self.skipped.len() < DEEPEST_SKIPPED {
                self.skipped.push(short(name));
            }
            return;
        }
        match name {
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
                let alt = attribute(tag, b"alt").map(|alt| visible(&alt)).unwrap_or_default();
                if !alt.trim().is_empty() {
                    self.text(&format!("[image: {}]", alt.trim()));
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
        if let Some(outermost) = self.skipped.first() {
            match self.skipped.iter().rposition(|open| *open == short(name)) {
                Some(at) => self.skipped.truncate(at),
                // The end of an element around it ends it.
                None if has_optional_end(outermost) => self.skipped.clear(),
                None => {}
            }
            if !self.skipped.is_empty() {
                return;
            }
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
        if !self.skipped.is_empty() {
            return;
        }
        let text = &visible(text);
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

/// Returns a text without the characters that a person does not see. Joiners stay between letters that need them.
pub fn visible(text: &str) -> String {
    let mut visible = String::with_capacity(text.len());
    for c in text.chars() {
        let is_joiner = matches!(c, '\u{200c}' | '\u{200d}');
        let joins =
            is_joiner && visible.ends_with(|before: char| !before.is_ascii() && !is_invisible(before));
        if joins || c.is_whitespace() || !is_invisible(c) {
            visible.push(c);
        }
    }
    visible
}

/// Returns whether an element is hidden by an attribute or by its own style.
fn is_hidden(tag: &StartTag<()>) -> bool {
    if attribute(tag, b"hidden").is_some() {
        return true;
    }
    let Some(style) = attribute(tag, b"style") else { return false };
    let style = style.to_ascii_lowercase();
    style.split(';').filter_map(|declaration| declaration.split_once(':')).any(|(property, value)| {
        let value = value.trim().trim_end_matches("important").trim_end_matches(['!', ' ']);
        let number = value.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == '%');
        let number = number.trim().parse::<f32>();
        match property.trim() {
            "display" => value == "none",
            "visibility" => matches!(value, "hidden" | "collapse"),
            "opacity" | "font-size" => number.is_ok_and(|number| number <= 0.0),
            // Text that is moved out of the page.
            "left" | "top" | "right" | "text-indent" | "margin-left" => {
                number.is_ok_and(|number| number <= -500.0)
            }
            _ => false,
        }
    })
}

fn short(name: &[u8]) -> ElementName {
    let mut short = [0; 8];
    for (to, from) in short.iter_mut().zip(name) {
        *to = *from;
    }
    short
}

/// Returns whether an element has no content and no end tag.
fn is_void(name: &[u8]) -> bool {
    matches!(
        name,
        b"area"
            | b"base"
            | b"br"
            | b"col"
            | b"embed"
            | b"hr"
            | b"img"
            | b"input"
            | b"link"
            | b"meta"
            | b"source"
            | b"track"
            | b"wbr"
    )
}

/// Returns whether the end tag of an element may be left out.
fn has_optional_end(open: &ElementName) -> bool {
    [&b"p"[..], b"li", b"dt", b"dd", b"td", b"th", b"tr", b"option"].iter().any(|name| short(name) == *open)
}

/// Returns whether an element without an end tag ends where another one begins.
fn ends_at(open: &ElementName, next: &[u8]) -> bool {
    let is_open = |names: &[&[u8]]| names.iter().any(|name| short(name) == *open);
    match next {
        b"li" | b"option" => short(next) == *open,
        b"dt" | b"dd" => is_open(&[b"dt", b"dd", b"p"]),
        b"td" | b"th" => is_open(&[b"td", b"th"]),
        b"tr" => is_open(&[b"td", b"th", b"tr"]),
        b"div" | b"h1" | b"h2" | b"h3" | b"h4" | b"h5" | b"h6" | b"pre" => is_open(&[b"p"]),
        _ => gap_around(next) == Gap::Paragraph && is_open(&[b"p"]),
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
    fn what_a_person_does_not_see_is_left_out() {
        for html in [
            "a <div style='display:none'>X<div>X</div>X</div> b",
            "a <div style='color: red; DISPLAY : None !important'>X</div> b",
            "a <div style='visibility:hidden'>X</div> b",
            "a <span style='opacity:0'>X</span> b",
            "a <span style='opacity: 0.0;'>X</span> b",
            "a <span style='font-size:0px'>X</span> b",
            "a <span style='position:absolute;left:-9999px'>X</span> b",
            "a <span style='text-indent:-99em'></span><span style='text-indent:-9999em'>X</span> b",
            "a <span hidden>X</span> b",
            "a <span hidden=until-found>X<br hidden>X<img hidden alt=X></span> b",
            "a <img hidden alt=X> b",
            "a <input hidden> b",
            "a <div hidden/>X</div> b",
            "a <div hidden><svg><path/><path/></svg>X</div> b",
            "a <div hidden><script>X</div></script>X</div> b",
            "a <section><p hidden>X<b>X</section>b",
            "a <ul hidden><li>X<li>X</ul> b",
            "a<p hidden>X<p>b",
            "a<p hidden>X<div>b</div>",
            "a <a href=/x hidden>X</a> b",
            "a \u{e0001}\u{e0058}\u{200b}\u{202e}\u{2060}\u{ad}\u{feff}b",
            "a \u{200d}\u{200c}\u{200d}b",
        ] {
            let text = page(html).text;
            assert!(text.starts_with('a') && text.ends_with('b') && !text.contains('X'), "{html}: {text:?}");
            assert!(!text.contains(|c: char| is_invisible(c) && c != '\n'), "{html}: {text:?}");
        }
        let list = page("<ul><li hidden>X<ul><li>X</ul>X<li>b<li style='opacity:0.5'>c</ul>").text;
        assert_eq!(list, "- b\n- c");
        let table = page("<table><tr><td hidden>X<td>a<tr hidden><td>X<tr><td>b</table>").text;
        assert_eq!(table, "a\nb");
        assert_eq!(page("a <img alt=' CALL\u{200b} IT '> b <img alt=''><img>").text, "a [image: CALL IT] b");
        assert_eq!(page("👨\u{200d}👩 می\u{200c}خواهم").text, "👨\u{200d}👩 می\u{200c}خواهم");
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
            "<div hidden>",
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
