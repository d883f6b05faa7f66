//! Processes of one machine, as one that starts there later can tell whether they are gone.

use std::{fmt, fs, str::FromStr};

/// A process. Its id is given to another one later, so the time of its start is a part of the identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Process {
    /// The id of the machine's boot.
    boot: String,
    /// The name of the machine, or of the container: one that is started again keeps it.
    host: String,
    /// The namespace that the process id counts in.
    namespace: String,
    id: u32,
    /// The time of the start, in ticks since the boot.
    started: u64,
}

impl Process {
    /// Returns this process; `None` on systems that do not tell.
    pub fn current() -> Option<Self> {
        let id = std::process::id();
        Some(Self { boot: boot()?, host: host()?, namespace: namespace()?, id, started: started(id)? })
    }

    /// Returns whether the process has certainly ended. Of one on another machine, or in another container, nothing is known.
    pub fn is_gone(&self) -> bool {
        let is_here = boot().as_ref() == Some(&self.boot) && namespace().as_ref() == Some(&self.namespace);
        is_here && started(self.id) != Some(self.started)
    }

    /// Returns whether the process ran in the container of this one before that was started again. Containers that share a name look like that,
    /// too.
    pub fn ran_in_this_container(&self) -> bool {
        boot().as_ref() == Some(&self.boot)
            && host().as_ref() == Some(&self.host)
            && namespace().is_some_and(|namespace| namespace != self.namespace)
    }
}

fn boot() -> Option<String> {
    Some(fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned())
}

fn host() -> Option<String> {
    Some(fs::read_to_string("/proc/sys/kernel/hostname").ok()?.trim().replace(' ', "-"))
}

fn namespace() -> Option<String> {
    Some(fs::read_link("/proc/self/ns/pid").ok()?.to_string_lossy().into_owned())
}

/// Returns when the process with this id was started; `None` if there is none.
fn started(id: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name of the program is in parentheses, and may have spaces and parentheses itself. The time is the 20th field after it.
    let (_, fields) = status.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    // A zombie does nothing any more.
    if fields.next()? == "Z" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { boot, host, namespace, id, started } = self;
        write!(f, "{boot} {host} {namespace} {id} {started}")
    }
}

/// The text is of no process that this version knows.
#[derive(Debug)]
pub(super) struct NotAProcess;

impl FromStr for Process {
    type Err = NotAProcess;

    fn from_str(text: &str) -> Result<Self, NotAProcess> {
        let mut fields = text.split(' ');
        let mut next = || fields.next().ok_or(NotAProcess);
        let [boot, host, namespace] = [next()?.to_owned(), next()?.to_owned(), next()?.to_owned()];
        let id = next()?.parse().map_err(|_| NotAProcess)?;
        let started = next()?.parse().map_err(|_| NotAProcess)?;
        Ok(Self { boot, host, namespace, id, started })
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    fn sleeper() -> Child {
        Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().expect("there is a sleep")
    }

    fn of(child: &Child) -> Process {
        let current = Process::current().expect("Linux tells");
        Process { id: child.id(), started: started(child.id()).expect("it runs"), ..current }
    }

    #[test]
    fn a_process_is_gone_once_it_has_ended() {
        let mut child = sleeper();
        let process = of(&child);
        assert!(!process.is_gone());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(process.is_gone());
    }

    #[test]
    fn a_process_that_was_given_an_old_id_is_another_one() {
        let current = Process::current().unwrap();
        assert!(!current.is_gone());
        let earlier = Process { started: current.started - 1, ..current };
        assert!(earlier.is_gone());
    }

    #[test]
    fn nothing_is_known_of_a_process_elsewhere() {
        let mut child = sleeper();
        let process = of(&child);
        child.kill().unwrap();
        child.wait().unwrap();
        let elsewhere = [
            Process { boot: "another".to_owned(), ..process.clone() },
            Process { namespace: "pid:[1]".to_owned(), ..process },
        ];
        for process in elsewhere {
            assert!(!process.is_gone(), "{process}");
        }
    }

    #[test]
    fn a_container_that_is_started_again_has_its_name_and_other_process_ids() {
        let current = Process::current().unwrap();
        let earlier = Process { namespace: "pid:[1]".to_owned(), ..current.clone() };
        assert!(earlier.ran_in_this_container());
        let others = [
            current,
            Process { host: "another".to_owned(), ..earlier.clone() },
            Process { boot: "another".to_owned(), ..earlier },
        ];
        for other in others {
            assert!(!other.ran_in_this_container(), "{other}");
        }
    }

    #[test]
    fn a_process_is_read_as_it_was_written() {
        let current = Process::current().unwrap();
        assert_eq!(current.to_string().parse::<Process>().unwrap(), current);
        assert!("".parse::<Process>().is_err());
        assert!("boot namespace 1".parse::<Process>().is_err());
    }
}
