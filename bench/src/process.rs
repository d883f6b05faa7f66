//! The processes that are measured: started on a core of their own, and asked what they have used.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::SocketAddr,
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, bail};
use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    sys::{
        resource::{Resource, getrlimit, setrlimit},
        signal::{Signal, kill},
    },
    unistd::Pid,
};

/// The unit of the times in `/proc/<pid>/stat`; it is the same on every architecture of Linux that Rust has a standard library for.
const TICK: Duration = Duration::from_millis(10);

/// The core of what is measured and the core of everything else.
pub struct Cores {
    measured: CpuSet,
    other: CpuSet,
}

/// Allows this process, and those that it starts, as many open files as it may have.
pub fn raise_file_limit() -> anyhow::Result<()> {
    const WANTED: u64 = 250_000;
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    // Only the superuser may have more than was allowed.
    if setrlimit(Resource::RLIMIT_NOFILE, WANTED, WANTED.max(most)).is_err() {
        setrlimit(Resource::RLIMIT_NOFILE, most, most)?;
    }
    Ok(())
}

/// A process that is measured. It ends with this value.
pub struct Process {
    child: Child,
}

// === impl Cores ===

impl Cores {
    /// Takes the first two cores that this process may use. From now on this thread runs on the second one.
    pub fn choose() -> anyhow::Result<Self> {
        let allowed = sched_getaffinity(Pid::this()).context("the cores of this process")?;
        let mut cores = (0..CpuSet::count()).filter(|core| allowed.is_set(*core).unwrap_or(false));
        let (Some(first), Some(second)) = (cores.next(), cores.next()) else {
            bail!("two cores are needed: one for the server and one for its load");
        };
        let only = |core| -> anyhow::Result<CpuSet> {
            let mut set = CpuSet::new();
            set.set(core)?;
            Ok(set)
        };
        let cores = Self { measured: only(first)?, other: only(second)? };
        sched_setaffinity(Pid::this(), &cores.other)?;
        Ok(cores)
    }

    /// Starts a process on the core of what is measured.
    pub fn start(&self, command: &mut Command) -> anyhow::Result<Process> {
        // A child inherits the affinity of the thread that starts it.
        sched_setaffinity(Pid::this(), &self.measured)?;
        let started = command.spawn().with_context(|| format!("{command:?}"));
        sched_setaffinity(Pid::this(), &self.other)?;
        Ok(Process { child: started? })
    }

    /// Starts a process that prints its address.
    pub fn start_with_address(&self, command: &mut Command) -> anyhow::Result<(Process, SocketAddr)> {
        let mut process = self.start(command.stdout(Stdio::piped()))?;
        let output = process.child.stdout.take().context("no output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        Ok((process, line.trim().parse().context("the address of a process")?))
    }
}

// === impl Process ===

impl Process {
    /// Returns the time for which the process has used a core.
    pub fn cpu(&self) -> anyhow::Result<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The name of the program, in brackets, may have spaces.
        let after_name = stat.rsplit_once(") ").context("/proc/…/stat")?.1;
        let fields: Vec<&str> = after_name.split(' ').collect();
        let ticks = |field: usize| -> anyhow::Result<u32> { Ok(fields[field].parse()?) };
        Ok(TICK * (ticks(11)? + ticks(12)?))
    }

    /// Returns the memory that is resident, in bytes.
    pub fn memory(&self) -> anyhow::Result<u64> {
        self.status("VmRSS:")
    }

    /// Returns the memory that is resident without pages of files, in bytes. Those pages are the program itself, nearly all of them; all
    /// processes share them, and the kernel drops them if it needs the memory.
    pub fn own_memory(&self) -> anyhow::Result<u64> {
        self.status("RssAnon:")
    }

    fn status(&self, field: &'static str) -> anyhow::Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(field)).context(field)?;
        Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
    }

    /// Returns whether the process is still there.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The server ends by itself then, so that one that counts what it runs writes it down. The number of a process that has ended may
        // be another's by now.
        if self.is_alive()
            && let Ok(id) = i32::try_from(self.child.id())
        {
            let _ = kill(Pid::from_raw(id), Signal::SIGTERM);
        }
        let _ = self.child.wait();
    }
}
