//! The log: what is in it, and in which form.
//!
//! Invariant: an event is one line, and nothing in it speaks to a terminal, whoever wrote the texts that it repeats: models, tools,
//! MCP servers and clients cannot write lines of their own.

use std::{
    fmt::{self, Write},
    io::IsTerminal,
};

use tracing::field::Field;
use tracing_subscriber::{
    EnvFilter,
    field::MakeExt,
    fmt::{
        FormatFields,
        format::{self, Writer},
    },
};

/// The log targets of the libraries that talk to OpenAI and to MCP servers.
const TALKATIVE: [&str; 2] = ["async_openai", "rmcp"];

/// Logs to the standard error from now on.
pub fn begin() {
    let filter = filter(std::env::var("RUST_LOG").ok().as_deref());
    let colours = std::io::stderr().is_terminal();
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours);
    log.fmt_fields(fields()).with_writer(std::io::stderr).init();
    // Otherwise a panic would be on stderr in a form that no log collector reads.
    std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
}

/// What is logged: as `RUST_LOG` says, otherwise `info`.
///
/// Those that talk to providers and to MCP servers log what these answer, which may repeat keys and what persons wrote, so each is
/// silent unless it is asked for by name.
fn filter(wish: Option<&str>) -> EnvFilter {
    let wish =
        wish.filter(|wish| !wish.trim().is_empty() && EnvFilter::try_new(wish).is_ok()).unwrap_or("info");
    let silent = TALKATIVE.into_iter().filter(|library| !wish.contains(library));
    EnvFilter::new(silent.fold(wish.to_owned(), |wish, library| format!("{wish},{library}=off")))
}

/// Writes the fields of events and spans, the message among them.
fn fields() -> impl for<'writer> FormatFields<'writer> + 'static {
    format::debug_fn(|writer: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug| match field.name() {
        "message" => write!(Escaped(writer), "{value:?}"),
        // Records of the crate `log` come with their place in fields, which is shown as that of any event.
        name if name.starts_with("log.") => Ok(()),
        name => {
            write!(writer, "{name}=")?;
            write!(Escaped(writer), "{value:?}")
        }
    })
    .delimited(" ")
}

/// Writes every character that does more than show itself as its escape in Rust.
struct Escaped<'a, W>(&'a mut W);

impl<W: Write> Write for Escaped<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some(at) = rest.find(is_more_than_shown) {
            let (shown, behind) = rest.split_at(at);
            self.0.write_str(shown)?;
            let Some(acts) = behind.chars().next() else { break };
            write!(self.0, "{}", acts.escape_default())?;
            rest = &behind[acts.len_utf8()..];
        }
        self.0.write_str(rest)
    }
}

/// Controls, among them line ends and ESC, other ends of lines, and what changes the direction of writing.
fn is_more_than_shown(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{Arc, Mutex},
    };

    use tracing_subscriber::{fmt::MakeWriter, layer::SubscriberExt};

    use super::*;

    fn lets_through(wish: Option<&str>) -> (bool, bool) {
        let log = tracing_subscriber::registry().with(filter(wish));
        tracing::subscriber::with_default(log, || {
            (
                tracing::enabled!(target: "fermata_server::error", tracing::Level::INFO),
                tracing::enabled!(target: "async_openai::client", tracing::Level::ERROR),
            )
        })
    }

    #[test]
    fn what_a_provider_says_is_not_logged_unless_asked_for_by_name() {
        for wish in [
            None,
            Some(""),
            Some("info"),
            Some("debug,hyper=warn"),
            Some("fermata_server=trace"),
            Some("=?="),
        ] {
            assert_eq!(lets_through(wish), (true, false), "{wish:?}");
        }
        for wish in ["info,async_openai=warn", "info,async_openai::client=error"] {
            assert_eq!(lets_through(Some(wish)), (true, true), "{wish:?}");
        }
        assert_eq!(lets_through(Some("error")), (false, false));
    }

    /// What is written to a log.
    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl<'a> MakeWriter<'a> for Written {
        type Writer = Self;

        fn make_writer(&'a self) -> Self {
            self.clone()
        }
    }

    fn logged(log: impl FnOnce()) -> String {
        let written = Written::default();
        let subscriber =
            tracing_subscriber::fmt().fmt_fields(fields()).with_ansi(false).with_writer(written.clone());
        tracing::subscriber::with_default(subscriber.finish(), log);
        String::from_utf8(written.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn no_text_of_others_writes_a_line_or_speaks_to_the_terminal() {
        let name = "wipe\n2026-11-22T00:00:00Z  INFO forged\r\u{1b}[31m\u{7}\u{85}\u{2028}\u{202e}end";
        let ways: [&dyn Fn(); 7] = [
            &|| tracing::info!("{name}"),
            &|| tracing::info!(tool = %name, "display"),
            &|| tracing::info!(tool = ?name, "debug"),
            &|| tracing::info!(tool = name, "text"),
            &|| {
                tracing::info_span!("execute_tool", gen_ai.tool.name = %name)
                    .in_scope(|| tracing::info!("in a span"))
            },
            &|| {
                let span = tracing::info_span!("execute_tool", error.type = tracing::field::Empty);
                span.record("error.type", tracing::field::display(name));
                span.in_scope(|| tracing::info!("recorded"));
            },
            &|| tracing::error!(error = &io::Error::other(name) as &dyn std::error::Error, "error"),
        ];
        for (way, log) in ways.into_iter().enumerate() {
            let log = logged(log);
            let line = log.strip_suffix('\n').unwrap_or_else(|| panic!("{way}: {log:?}"));
            assert!(!line.contains(is_more_than_shown), "{way}: {line:?}");
            assert!(line.contains("forged") && line.contains("end"), "{way}: nothing is left out: {line:?}");
            assert!(line.contains(r"wipe\n2026"), "{way}: {line:?}");
        }
    }

    #[test]
    fn what_needs_no_escape_is_logged_as_it_is() {
        let line = logged(|| tracing::info!(chat = %"a-1", n = 3, server = "files", "it's “fine” – ok ✓"));
        assert!(line.ends_with("it's “fine” – ok ✓ chat=a-1 n=3 server=\"files\"\n"), "{line}");
    }
}
