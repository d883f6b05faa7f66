//! Counts the instructions of the hot paths with callgrind, and compares them with what they were: `make counts`.
//!
//! Unlike times, counts are nearly the same on every machine and in every run, so a path that has become more expensive is found before it
//! is merged. What a path prepares costs the same for every number of rounds, so the difference of two numbers is that of the rounds alone.

use std::{collections::BTreeMap, env, fs, path::PathBuf, process::Command};

use anyhow::{Context, Result, bail, ensure};
use clap::{Parser, Subcommand};
use fermata_hot_paths::{ALL, HotPath};

/// The rounds of the two runs that are compared.
const FEW: usize = 2;
const MANY: usize = 6;

/// The share of more instructions from which on a path counts as more expensive. Compilers and C libraries of other versions change less.
const MARGIN: f64 = 0.05;

/// Counts the instructions of the hot paths.
#[derive(Parser)]
struct Options {
    #[command(subcommand)]
    command: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Counts the instructions of all paths, and fails if one has more than the file says.
    Check {
        /// The file with the instructions of each item.
        counts: PathBuf,
        /// Write the file instead.
        #[arg(long)]
        write: bool,
    },
    /// Goes down one path, to be counted or profiled.
    Run {
        /// The name of the path.
        path: String,
        /// The number of rounds.
        rounds: usize,
    },
}

/// The instructions of one item, by the name of the path.
type Counts = BTreeMap<String, u64>;

fn main() -> Result<()> {
    match Options::parse().command {
        Action::Run { path, rounds } => {
            let path = ALL.iter().find(|known| known.name == path).context("there is no such path")?;
            let mut round = path.prepare()?;
            (0..rounds).for_each(|_| round());
            Ok(())
        }
        Action::Check { counts, write } => {
            let measured = ALL
                .iter()
                .map(|path| Ok((path.name.to_owned(), instructions_of_an_item(path)?)))
                .collect::<Result<Counts>>()?;
            if write {
                fs::write(&counts, toml::to_string(&measured)?)?;
                return Ok(());
            }
            let known = fs::read_to_string(&counts).with_context(|| counts.display().to_string())?;
            compare(&measured, &toml::from_str(&known)?)
        }
    }
}

/// Prints the counts beside the known ones, and fails if one of them is higher by more than the margin.
#[expect(clippy::print_stdout, reason = "the counts are what it is for")]
fn compare(measured: &Counts, known: &Counts) -> Result<()> {
    let mut dearer = Vec::new();
    for path in ALL {
        let now = measured[path.name];
        let before = *known.get(path.name).with_context(|| format!("{} is not in the file", path.name))?;
        let change = now as f64 / before as f64 - 1.0;
        println!(
            "{:>7}: {now:>9} instructions for each {}, {:+.1} % of the {before} in the file",
            path.name,
            path.item,
            change * 100.0
        );
        if change > MARGIN {
            dearer.push(path.name);
        }
    }
    if !dearer.is_empty() {
        bail!(
            "more instructions than before: {}. If that is worth it, make counts WRITE=1 writes the new ones.",
            dearer.join(", ")
        );
    }
    Ok(())
}

fn instructions_of_an_item(path: &HotPath) -> Result<u64> {
    let (few, many) = (instructions(path, FEW)?, instructions(path, MANY)?);
    let items = (MANY - FEW) * path.items;
    Ok(many.saturating_sub(few) / items as u64)
}

/// The instructions of this program on all threads while it goes down a path.
fn instructions(path: &HotPath, rounds: usize) -> Result<u64> {
    let this = env::current_exe()?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(this)
        .args(["run", path.name, &rounds.to_string()])
        .output()
        .context("valgrind cannot be started")?;
    let report = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} fails under valgrind: {report}", path.name);
    let collected = report.lines().find_map(|line| line.split_once("Collected :")).context("no count")?;
    Ok(collected.1.trim().parse()?)
}
