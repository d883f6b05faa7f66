//! The figures of all rounds, printed as a table with medians and spreads.

use std::collections::BTreeMap;

use crate::target::Target;

/// The figures of all rounds.
pub struct Table {
    rows: Vec<Row>,
}

/// A figure, by the name of what it was measured of.
struct Row {
    name: String,
    unit: Unit,
    values: BTreeMap<&'static str, Vec<f64>>,
}

/// The unit of a figure.
#[derive(Clone, Copy)]
pub enum Unit {
    Micros,
    Seconds,
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
        let index = self.rows.iter().position(|row| row.name == name).unwrap_or_else(|| {
            self.rows.push(Row { name: name.to_owned(), unit, values: BTreeMap::new() });
            self.rows.len() - 1
        });
        self.rows[index].values.entry(target.name).or_default().push(value);
    }

    /// Prints the medians of each figure, with the least and the greatest value, and the median of the ratios to the proxy in each round.
    #[expect(clippy::print_stdout, reason = "the table is what it is for")]
    pub fn print(&self) {
        println!("| | byte proxy | Fermata | ratio |\n|---|---|---|---|");
        for row in &self.rows {
            let proxy = row.values.get("proxy");
            for (name, values) in row.values.iter().filter(|(name, _)| **name != "proxy") {
                let of_proxy = proxy.map(|proxy| row.unit.show(proxy.clone())).unwrap_or_default();
                let ratios =
                    values.iter().zip(proxy.into_iter().flatten()).map(|(value, proxy)| value / proxy);
                println!(
                    "| {} ({name}) | {of_proxy} | {} | {} |",
                    row.name,
                    row.unit.show(values.clone()),
                    spread(ratios.collect(), 2, "×"),
                );
            }
        }
    }
}

// === impl Unit ===

impl Unit {
    fn show(self, values: Vec<f64>) -> String {
        match self {
            Self::Micros => spread(values, 1, "µs"),
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
    format!("{median:.digits$} {unit} ({least:.digits$} to {greatest:.digits$})")
}
