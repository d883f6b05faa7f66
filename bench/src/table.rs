//! The figures of all rounds, printed as a table with medians and spreads.

use crate::target::{Kind, Target};

/// The figures of all rounds.
pub struct Table {
    rows: Vec<Row>,
}

/// A figure of each kind of target, in each round. A list is empty if there is none of this kind, or it does not do such work.
struct Row {
    name: String,
    unit: Unit,
    values: [Vec<f64>; Kind::ALL.len()],
}

/// The unit of a figure.
#[derive(Clone, Copy)]
pub enum Unit {
    Micros,
    Millis,
    Seconds,
    Times,
    PerSecond,
    Kilobytes,
    Megabytes,
}

// === impl Table ===

impl Table {
    pub fn new() -> Self {
        Self { rows: Vec::new() }
    }

    /// Notes what a target has reached in this round.
    pub fn note(&mut self, target: &Target, name: &str, unit: Unit, value: f64) {
        self.row(name, unit).values[target.kind as usize].push(value);
    }

    /// Notes a property of the machine, beside the proxy's figures, because it is a yardstick, too.
    pub fn note_machine(&mut self, name: &str, unit: Unit, value: f64) {
        self.row(name, unit).values[Kind::Proxy as usize].push(value);
    }

    fn row(&mut self, name: &str, unit: Unit) -> &mut Row {
        let index = self.rows.iter().position(|row| row.name == name).unwrap_or_else(|| {
            self.rows.push(Row { name: name.to_owned(), unit, values: Default::default() });
            self.rows.len() - 1
        });
        &mut self.rows[index]
    }

    /// Prints the medians of each figure, with the least and the greatest value, and the median of the ratios to the proxy in each round.
    #[expect(clippy::print_stdout, reason = "the table is what it is for")]
    pub fn print(&self) {
        let is_shown = |kind: &Kind| self.rows.iter().any(|row| !row.values[*kind as usize].is_empty());
        let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(is_shown).collect();
        let headings: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
        println!("| | {} | ratio |\n|{}", headings.join(" | "), "---|".repeat(kinds.len() + 2));
        for Row { name, unit, values } in &self.rows {
            let cells: Vec<String> =
                kinds.iter().map(|kind| unit.show(values[*kind as usize].clone())).collect();
            let pairs = values[Kind::Fermata as usize].iter().zip(&values[Kind::Proxy as usize]);
            let ratios = pairs.map(|(fermata, proxy)| fermata / proxy).collect();
            println!("| {name} | {} | {} |", cells.join(" | "), spread(ratios, 2, "×"));
        }
    }
}

// === impl Unit ===

impl Unit {
    fn show(self, values: Vec<f64>) -> String {
        match self {
            Self::Micros => spread(values, 1, "µs"),
            Self::Times => spread(values, 1, ""),
            Self::Millis => spread(values, 1, "ms"),
            Self::Seconds => spread(values, 2, "s"),
            Self::Kilobytes => spread(values, 1, "kB"),
            Self::Megabytes => spread(values, 0, "MB"),
            Self::PerSecond => spread(values, 0, "/s"),
        }
    }
}

fn spread(mut values: Vec<f64>, digits: usize, unit: &str) -> String {
    values.sort_by(f64::total_cmp);
    let (Some(least), Some(greatest)) = (values.first(), values.last()) else { return String::new() };
    let median = values[values.len() / 2];
    let space = if unit.is_empty() { "" } else { " " };
    format!("{median:.digits$}{space}{unit} ({least:.digits$} to {greatest:.digits$})")
}
