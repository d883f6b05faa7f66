//! The figures of all rounds, printed as a table with medians and spreads.

use crate::target::Target;

/// The figures of all rounds.
pub struct Table {
    rows: Vec<Row>,
}

/// A figure, in each round.
struct Row {
    name: String,
    unit: Unit,
    /// Empty if the byte proxy does not do such work.
    proxy: Vec<f64>,
    fermata: Vec<f64>,
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
        let row = self.row(name, unit);
        if target.is_proxy() { row.proxy.push(value) } else { row.fermata.push(value) }
    }

    /// Notes a property of the machine, beside the proxy's figures, because it is a yardstick, too.
    pub fn note_machine(&mut self, name: &str, unit: Unit, value: f64) {
        self.row(name, unit).proxy.push(value);
    }

    fn row(&mut self, name: &str, unit: Unit) -> &mut Row {
        let index = self.rows.iter().position(|row| row.name == name).unwrap_or_else(|| {
            self.rows.push(Row { name: name.to_owned(), unit, proxy: Vec::new(), fermata: Vec::new() });
            self.rows.len() - 1
        });
        &mut self.rows[index]
    }

    /// Prints the medians of each figure, with the least and the greatest value, and the median of the ratios to the proxy in each round.
    #[expect(clippy::print_stdout, reason = "the table is what it is for")]
    pub fn print(&self) {
        println!("| | byte proxy | Fermata | ratio |\n|---|---|---|---|");
        for Row { name, unit, proxy, fermata } in &self.rows {
            let ratios = fermata.iter().zip(proxy).map(|(fermata, proxy)| fermata / proxy).collect();
            println!(
                "| {name} | {} | {} | {} |",
                unit.show(proxy.clone()),
                unit.show(fermata.clone()),
                spread(ratios, 2, "×")
            );
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
