//! The log: its filter and its format.
//!
//! Invariants: an event is one line without control characters, although it may contain texts of models, tools, MCP servers and clients. They
//! cannot forge lines or control a terminal. Logging cannot stop the server, even if nobody can read the log.

mod writer;

use std::{
    fmt::{self, Write},
    io::IsTerminal,
    panic::PanicHookInfo,
};

use fermata_server::config::LogFormat;
use serde_json::json;
use tracing::field::Field;
use tracing_subscriber::{
    EnvFilter,
    field::MakeExt,
    fmt::{
        FormatFields,
        format::{self, Writer},
        time::{FormatTime, SystemTime},
    },
};

pub use writer::LogWriter;

/// The log targets of the libraries that connect to model providers, MCP servers and PostgreSQL.
const SILENCED: [&str; 4] = ["async_openai", "rmcp", "tokio_postgres", "deadpool.postgres"];

/// Starts logging to this writer, as lines for people or as JSON objects for programs.
pub fn begin(format: LogFormat, writer: &LogWriter) {
    let filter = filter(std::env::var("RUST_LOG").ok().as_deref());
    // The library reports its own errors with a macro that panics if the standard error fails.
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer.clone())
        .log_internal_errors(false);
    match format {
        LogFormat::Text => log.with_ansi(std::io::stderr().is_terminal()).fmt_fields(fields()).init(),
        // JSON has escapes of its own.
        LogFormat::Json => log.json().flatten_event(true).with_current_span(false).init(),
    }
    // The default hook writes panics in a form that log collectors cannot read, and a panic within a hook ends the process. So this one does
    // not go through the subscriber, within which the panic may have happened.
    let writer = writer.clone();
    std::panic::set_hook(Box::new(move |panic| writer.put(panic_line(format, panic).as_bytes())));
}

/// Returns the line of the log for a panic.
fn panic_line(format: LogFormat, panic: &PanicHookInfo<'_>) -> String {
    let (mut time, message) = (String::new(), panic.to_string());
    // A text takes everything.
    let _ = SystemTime.format_time(&mut Writer::new(&mut time));
    let target = module_path!();
    match format {
        LogFormat::Json => {
            let event = json!({"timestamp": time, "level": "ERROR", "message": message, "target": target});
            format!("{event}\n")
        }
        LogFormat::Text => {
            let mut line = format!("{time} ERROR {target}: ");
            let _ = Escaped(&mut line).write_str(&message);
            line.push('\n');
            line
        }
    }
}

/// Returns the filter that `RUST_LOG` sets, or `info` if it sets none.
///
/// The libraries in [`SILENCED`] log responses and the values of statements, which may contain keys and texts of people, or each connection
/// that ends. So they are silent unless the filter names them.
fn filter(requested: Option<&str>) -> EnvFilter {
    let mut filter = match requested {
        Some(text) if !text.trim().is_empty() && EnvFilter::try_new(text).is_ok() => text.to_owned(),
        Some(_) | None => "info".to_owned(),
    };
    for library in SILENCED {
        if !filter.contains(library) {
            filter = format!("{filter},{library}=off");
        }
    }
    EnvFilter::new(filter)
}

/// Formats the fields of events and spans, including the message.
fn fields() -> impl for<'writer> FormatFields<'writer> + 'static {
    format::debug_fn(|writer: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug| match field.name() {
        "message" => write!(Escaped(writer), "{value:?}"),
        // Records of the crate `log` have their source in these fields, which is already part of the line.
        name if name.starts_with("log.") => Ok(()),
        name => {
            write!(writer, "{name}=")?;
            write!(Escaped(writer), "{value:?}")
        }
    })
    .delimited(" ")
}

/// A writer that replaces characters other than visible ones by their escapes in Rust.
struct Escaped<'a, W>(&'a mut W);

impl<W: Write> Write for Escaped<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some(index) = rest.find(needs_escape) {
            let (plain, special) = rest.split_at(index);
            self.0.write_str(plain)?;
            let Some(character) = special.chars().next() else { break };
            write!(self.0, "{}", character.escape_default())?;
            rest = &special[character.len_utf8()..];
        }
        self.0.write_str(rest)
    }
}

/// Returns whether a character is a control character, such as a line end or ESC, another line separator, or a change of text direction.
fn needs_escape(c: char) -> bool {
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

    /// Returns whether a filter enables the server's own events, and those of a silenced library.
    fn enabled(requested: Option<&str>) -> (bool, bool) {
        let log = tracing_subscriber::registry().with(filter(requested));
        tracing::subscriber::with_default(log, || {
            assert!(
                !tracing::enabled!(target: "tokio_postgres::query", tracing::Level::DEBUG),
                "{requested:?}"
            );
            assert!(!tracing::enabled!(target: "deadpool.postgres", tracing::Level::WARN), "{requested:?}");
            (
                tracing::enabled!(target: "fermata_server::error", tracing::Level::INFO),
                tracing::enabled!(target: "async_openai::client", tracing::Level::ERROR),
            )
        })
    }

    #[test]
    fn responses_of_providers_are_not_logged_unless_the_filter_names_the_library() {
        for requested in [
            None,
            Some(""),
            Some("info"),
            Some("debug,hyper=warn"),
            Some("fermata_server=trace"),
            Some("=?="),
        ] {
            assert_eq!(enabled(requested), (true, false), "{requested:?}");
        }
        for requested in ["info,async_openai=warn", "info,async_openai::client=error"] {
            assert_eq!(enabled(Some(requested)), (true, true), "{requested:?}");
        }
        assert_eq!(enabled(Some("error")), (false, false));
    }

    /// The bytes that were written to a log.
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
    fn no_text_can_forge_a_line_or_control_the_terminal() {
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
            assert!(!line.contains(needs_escape), "{way}: {line:?}");
            assert!(line.contains("forged") && line.contains("end"), "{way}: the text is complete: {line:?}");
            assert!(line.contains(r"wipe\n2026"), "{way}: {line:?}");
        }
    }

    #[test]
    fn visible_characters_are_logged_unchanged() {
        let line = logged(|| tracing::info!(chat = %"a-1", n = 3, server = "files", "it's “fine” – ok ✓"));
        assert!(line.ends_with("it's “fine” – ok ✓ chat=a-1 n=3 server=\"files\"\n"), "{line}");
    }
}
