//! A server that is a program: its environment, its exit, and its standard error.
//!
//! Invariant: when a [`Program`] is dropped, all processes of its process group are killed.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use process_wrap::tokio::{ChildWrapper, CommandWrap};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader},
    process::{ChildStderr, ChildStdin, ChildStdout, Command},
    time::timeout,
};

use crate::config::Secrets;

/// The variables of Fermata's environment that a program inherits. None of them usually contains a secret.
const INHERITED: [&str; 7] = ["PATH", "HOME", "LANG", "TMPDIR", "USER", "SHELL", "TERM"];

/// The time that a program has to exit after its input has ended, and again after it was sent `SIGTERM`.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// The time for reading the remaining output of a program after its exit.
const DRAIN_TIME: Duration = Duration::from_secs(1);

/// The longest line of standard error that is logged in one piece, in bytes.
const MAX_LINE: u64 = 2_000;

/// The number of lines of standard error that are kept, and the number of characters that are kept of each.
const KEPT_LINES: usize = 5;
const KEPT_LENGTH: usize = 200;

/// The number of `SIGTERM`. All Unix systems use this number.
#[cfg(unix)]
const TERMINATE: i32 = 15;

/// A running program.
pub(crate) struct Program {
    child: Box<dyn ChildWrapper>,
    is_killed: bool,
}

/// The last lines that a program wrote to its standard error. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct LastWords(Arc<Mutex<VecDeque<String>>>);

/// Fermata's ends of the pipes to a program.
pub(crate) struct Pipes {
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
    pub(crate) stderr: ChildStderr,
}

// === impl Program ===

impl Program {
    /// Starts a program in a process group of its own.
    ///
    /// # Errors
    /// Returns an error if the program does not exist or cannot be executed.
    pub(crate) fn start(
        command: &str,
        args: &[String],
        env: &BTreeMap<String, String>,
    ) -> io::Result<(Self, Pipes)> {
        let mut command = Command::new(command);
        let inherited = INHERITED.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        command.args(args).env_clear().envs(inherited).envs(env).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut command = CommandWrap::from(command);
        // A launcher such as npx starts other processes, which must end with it.
        #[cfg(unix)]
        command.wrap(process_wrap::tokio::ProcessGroup::leader());
        #[cfg(windows)]
        command.wrap(process_wrap::tokio::JobObject);
        let mut child = command.spawn()?;
        let (stdin, stdout, stderr) = (child.stdin().take(), child.stdout().take(), child.stderr().take());
        let program = Self { child, is_killed: false };
        match (stdin, stdout, stderr) {
            (Some(stdin), Some(stdout), Some(stderr)) => Ok((program, Pipes { stdin, stdout, stderr })),
            _ => Err(io::Error::other("the program's pipes are missing")),
        }
    }

    /// Waits until the program has exited and its remaining output has had time to be read. Usually the end of its output is
    /// noticed first, but processes that it started may keep the pipes open.
    pub(crate) async fn wait(&mut self) {
        if self.child.wait().await.is_ok() {
            tokio::time::sleep(DRAIN_TIME).await;
        }
    }

    /// Waits a short time for the program's exit, and returns how it exited.
    pub(crate) async fn exit(&mut self) -> Option<ExitStatus> {
        timeout(DRAIN_TIME, self.child.wait()).await.ok()?.ok()
    }

    /// Stops the program, whose input must have ended. It may exit by itself, is then sent `SIGTERM`, and is killed at last.
    pub(crate) async fn stop(mut self) {
        if timeout(EXIT_TIMEOUT, self.child.wait()).await.is_err() {
            #[cfg(unix)]
            if self.child.signal(TERMINATE).is_ok() {
                let _ = timeout(EXIT_TIMEOUT, self.child.wait()).await;
            }
        }
        self.kill();
        let _ = timeout(EXIT_TIMEOUT, self.child.wait()).await;
    }

    fn kill(&mut self) {
        if !self.is_killed {
            self.is_killed = true;
            // This fails if no process is left.
            let _ = self.child.start_kill();
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}

// === impl LastWords ===

impl LastWords {
    /// Returns the lines, or `None` if there are none.
    pub(crate) fn text(&self) -> Option<String> {
        let lines = self.lines();
        let text = lines.iter().map(String::as_str).collect::<Vec<_>>().join("\n");
        if text.is_empty() { None } else { Some(text) }
    }

    fn add(&self, line: &str) {
        let mut lines = self.lines();
        if line.trim().is_empty() {
            return;
        }
        if lines.len() == KEPT_LINES {
            lines.pop_front();
        }
        lines.push_back(line.chars().take(KEPT_LENGTH).collect());
    }

    /// The lock is held for an instant, never across an await.
    fn lines(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Logs the lines that a program writes to its standard error until it is closed, and keeps the last ones.
pub(crate) async fn log_stderr(
    server: &str,
    stderr: impl AsyncRead + Unpin,
    secrets: &Secrets,
    last_words: &LastWords,
) {
    let mut stderr = BufReader::new(stderr);
    let mut line = Vec::new();
    // Longer lines are logged in pieces, so a program that never ends a line does not exhaust the memory.
    while (&mut stderr).take(MAX_LINE).read_until(b'\n', &mut line).await.is_ok_and(|read| read > 0) {
        let text = secrets.mask(String::from_utf8_lossy(&line).trim_end());
        tracing::debug!(server, "{text}");
        last_words.add(&text);
        line.clear();
    }
}
