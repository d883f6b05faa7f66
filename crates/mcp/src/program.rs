//! A server that is a program: its environment, its end, and what it says on the side.
//!
//! Invariant: when a [`Program`] is dropped, it and all that it started in its process group are killed.

use std::{collections::BTreeMap, env, io, process::Stdio, time::Duration};

use process_wrap::tokio::{ChildWrapper, CommandWrap};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader},
    process::{ChildStderr, ChildStdin, ChildStdout, Command},
    time::timeout,
};

use crate::config::Secrets;

/// What a program gets of Fermata's environment: enough to find its way, and no keys.
const INHERITED: [&str; 7] = ["PATH", "HOME", "LANG", "TMPDIR", "USER", "SHELL", "TERM"];

/// How long a program may take to end when its input has ended, and again when it was told to.
const GRACE: Duration = Duration::from_secs(2);

/// How long what a program has written may take to be read after its end.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The longest line of its standard error that is logged in one piece, in bytes.
const LONGEST_LINE: u64 = 2_000;

/// `SIGTERM`, which has this number wherever there are signals.
#[cfg(unix)]
const TERMINATE: i32 = 15;

/// A running program.
pub(crate) struct Program {
    child: Box<dyn ChildWrapper>,
    ended: bool,
}

/// The ends of a program's pipes.
pub(crate) struct Pipes {
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
    pub(crate) stderr: ChildStderr,
}

// === impl Program ===

impl Program {
    /// Starts a program.
    ///
    /// # Errors
    /// It is not there, or may not be run.
    pub(crate) fn start(
        command: &str,
        args: &[String],
        env: &BTreeMap<String, String>,
    ) -> io::Result<(Self, Pipes)> {
        let mut command = Command::new(command);
        command.args(args).env_clear().envs(inherited()).envs(env).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut command = CommandWrap::from(command);
        // What a launcher such as npx starts must end with it.
        #[cfg(unix)]
        command.wrap(process_wrap::tokio::ProcessGroup::leader());
        #[cfg(windows)]
        command.wrap(process_wrap::tokio::JobObject);
        let mut child = command.spawn()?;
        let (stdin, stdout, stderr) = (child.stdin().take(), child.stdout().take(), child.stderr().take());
        let program = Self { child, ended: false };
        match (stdin, stdout, stderr) {
            (Some(stdin), Some(stdout), Some(stderr)) => Ok((program, Pipes { stdin, stdout, stderr })),
            _ => Err(io::Error::other("its pipes are missing")),
        }
    }

    /// Waits until it has ended and what it wrote has had time to be read. Usually its pipes tell so first, but what
    /// it started may keep these open.
    pub(crate) async fn ended(&mut self) {
        if self.child.wait().await.is_ok() {
            tokio::time::sleep(LAST_WORDS).await;
        }
    }

    /// Ends it, its input having ended: it may do so by itself, is told to, and is killed, in this order.
    pub(crate) async fn end(mut self) {
        if timeout(GRACE, self.child.wait()).await.is_err() {
            #[cfg(unix)]
            if self.child.signal(TERMINATE).is_ok() {
                let _ = timeout(GRACE, self.child.wait()).await;
            }
        }
        self.kill();
        let _ = timeout(GRACE, self.child.wait()).await;
    }

    fn kill(&mut self) {
        if !std::mem::replace(&mut self.ended, true) {
            // It fails where nobody is left, which is what is wanted.
            let _ = self.child.start_kill();
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}

fn inherited() -> impl Iterator<Item = (&'static str, std::ffi::OsString)> {
    INHERITED.into_iter().filter_map(|name| Some((name, env::var_os(name)?)))
}

/// Logs what a program says on its standard error, until that ends.
pub(crate) async fn log_lines(server: &str, stderr: impl AsyncRead + Unpin, secrets: &Secrets) {
    let mut stderr = BufReader::new(stderr);
    let mut line = Vec::new();
    // A longer line is logged in pieces, so that a program cannot fill the memory by never ending one.
    while (&mut stderr).take(LONGEST_LINE).read_until(b'\n', &mut line).await.is_ok_and(|read| read > 0) {
        let text = String::from_utf8_lossy(&line);
        tracing::debug!(server, "{}", secrets.mask(text.trim_end()));
        line.clear();
    }
}
