//! The targets with their seeds, and with random changes to these: what a fuzzer does in its first seconds, on any toolchain.

use std::{fs, path::Path};

use fermata_fuzz::TARGETS;
use proptest::{
    prelude::*,
    sample::Index,
    test_runner::{Config, TestRunner},
};

/// What hostile inputs are made of.
const PIECES: [&str; 24] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\",
    ",",
    ":",
    "null",
    "1e999",
    "-0",
    "\\ud800",
    "\\u0000",
    "\u{feff}",
    "\u{202e}",
    "\n\n",
    "data: ",
    "[DONE]",
    "\"$ref\":\"#\"",
    "(?=a)",
    "\\\\p{L}{220}",
    "../",
    "\0",
    "9007199254740993",
];

/// One change to an input.
#[derive(Clone, Debug)]
enum Edit {
    Put(Index, u8),
    Insert(Index, &'static str),
    Remove(Index, usize),
    /// Repeats what stands there.
    Repeat(Index, usize, usize),
    /// Goes on with another seed.
    Splice(Index, Index, Index),
}

fn edit() -> impl Strategy<Value = Edit> {
    let at = any::<Index>;
    prop_oneof![
        (at(), any::<u8>()).prop_map(|(at, byte)| Edit::Put(at, byte)),
        (at(), prop::sample::select(&PIECES[..])).prop_map(|(at, piece)| Edit::Insert(at, piece)),
        (at(), 1..40_usize).prop_map(|(at, length)| Edit::Remove(at, length)),
        (at(), 1..40_usize, 1..60_usize).prop_map(|(at, length, times)| Edit::Repeat(at, length, times)),
        (at(), at(), at()).prop_map(|(at, other, from)| Edit::Splice(at, other, from)),
    ]
}

fn change(mut input: Vec<u8>, edit: &Edit, seeds: &[Vec<u8>]) -> Vec<u8> {
    let place = |at: &Index| at.index(input.len() + 1);
    match edit {
        Edit::Put(at, byte) => {
            let at = place(at);
            if let Some(there) = input.get_mut(at) {
                *there = *byte;
            }
        }
        Edit::Insert(at, piece) => {
            let at = place(at);
            _ = input.splice(at..at, piece.bytes());
        }
        Edit::Remove(at, length) => {
            let at = place(at);
            let end = input.len().min(at + length);
            _ = input.drain(at..end);
        }
        Edit::Repeat(at, length, times) => {
            let at = place(at);
            let end = input.len().min(at + length);
            let repeated = input[at..end].repeat(*times);
            _ = input.splice(at..at, repeated);
        }
        Edit::Splice(at, other, from) => {
            input.truncate(place(at));
            let other = other.get(seeds);
            input.extend_from_slice(&other[from.index(other.len() + 1)..]);
        }
    }
    input
}

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target);
    let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} has no seeds", folder.display());
    paths.iter().map(|path| fs::read(path).expect("a seed")).collect()
}

#[test]
fn no_input_breaks_a_target() {
    for (name, run) in TARGETS {
        let seeds = seeds(name);
        for seed in &seeds {
            run(seed);
        }
        let inputs = (any::<Index>(), prop::collection::vec(edit(), 1..6));
        let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::default() });
        let tried = runner.run(&inputs, |(seed, edits)| {
            let seed = seed.get(&seeds).clone();
            run(&edits.iter().fold(seed, |input, edit| change(input, edit, &seeds)));
            Ok(())
        });
        if let Err(error) = tried {
            panic!("{name}: {error}");
        }
    }
}

#[test]
fn each_target_is_a_program_of_the_same_name() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz_targets");
    let mut programs: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    programs.sort();
    let mut names: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    assert_eq!(programs, names);
}
