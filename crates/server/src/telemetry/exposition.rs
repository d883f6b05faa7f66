//! The metrics as OTLP, made from the text that Prometheus reads, so that both have the same.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::{
    common::v1::KeyValue,
    metrics::v1::{
        AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, Sum,
        metric::Data, number_data_point::Value,
    },
};

use super::text_attribute;

/// A sample of a series: a line of the text.
struct Sample<'t> {
    name: &'t str,
    labels: Vec<(&'t str, String)>,
    value: f64,
}

/// A series of a histogram.
#[derive(Default)]
struct Buckets {
    labels: Vec<(String, String)>,
    /// The upper bounds, with the count of what is not above each.
    cumulative: Vec<(f64, u64)>,
    sum: f64,
    count: u64,
}

/// Returns the metrics of a text in the format of Prometheus. Times are in nanoseconds of Unix time.
pub fn metrics(text: &str, started: u64, now: u64) -> Vec<Metric> {
    let mut kinds: BTreeMap<&str, &str> = BTreeMap::new();
    let mut abouts: BTreeMap<&str, &str> = BTreeMap::new();
    let mut samples = Vec::new();
    for line in text.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            kinds.insert(name, kind);
        } else if let Some((name, about)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' '))
        {
            abouts.insert(name, about);
        } else if !line.starts_with('#') {
            samples.extend(sample(line));
        }
    }
    let mut numbers: BTreeMap<&str, Vec<NumberDataPoint>> = BTreeMap::new();
    let mut histograms: BTreeMap<&str, BTreeMap<String, Buckets>> = BTreeMap::new();
    for Sample { name, labels, value } in samples {
        let of_histogram = ["_bucket", "_sum", "_count"].into_iter().find_map(|end| {
            let family = name.strip_suffix(end)?;
            (kinds.get(family) == Some(&"histogram")).then_some((family, end))
        });
        let Some((family, end)) = of_histogram else {
            let attributes = labels.into_iter().map(|(key, value)| text_attribute(key, value)).collect();
            let point = NumberDataPoint {
                attributes,
                start_time_unix_nano: started,
                time_unix_nano: now,
                value: Some(Value::AsDouble(value)),
                ..NumberDataPoint::default()
            };
            numbers.entry(name).or_default().push(point);
            continue;
        };
        let (bound, own): (Vec<_>, Vec<_>) = labels.into_iter().partition(|(key, _)| *key == "le");
        let own: Vec<(String, String)> =
            own.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let series = histograms.entry(family).or_default().entry(format!("{own:?}")).or_default();
        series.labels = own;
        match (end, bound.first()) {
            ("_bucket", Some((_, bound))) => {
                series.cumulative.push((bound.parse().unwrap_or(f64::INFINITY), value as u64));
            }
            ("_sum", _) => series.sum = value,
            _ => series.count = value as u64,
        }
    }
    let named = |name: &str, data| Metric {
        name: name.to_owned(),
        description: abouts.get(name).map(|about| (*about).to_owned()).unwrap_or_default(),
        data: Some(data),
        ..Metric::default()
    };
    let numbers = numbers.into_iter().map(|(name, data_points)| {
        let data = if kinds.get(name) == Some(&"counter") {
            let aggregation_temporality = AggregationTemporality::Cumulative.into();
            Data::Sum(Sum { data_points, aggregation_temporality, is_monotonic: true })
        } else {
            Data::Gauge(Gauge { data_points })
        };
        named(name, data)
    });
    let histograms = histograms.into_iter().map(|(name, series)| {
        let data_points = series.into_values().map(|buckets| buckets.point(started, now)).collect();
        let aggregation_temporality = AggregationTemporality::Cumulative.into();
        named(name, Data::Histogram(Histogram { data_points, aggregation_temporality }))
    });
    numbers.chain(histograms).collect()
}

/// Reads a line such as `name{key="value"} 1`.
fn sample(line: &str) -> Option<Sample<'_>> {
    let (series, value) = line.trim().rsplit_once(' ')?;
    let value = value.parse().ok()?;
    let Some((name, rest)) = series.split_once('{') else {
        return Some(Sample { name: series, labels: Vec::new(), value });
    };
    let mut labels = Vec::new();
    let mut rest = rest.strip_suffix('}')?;
    while !rest.is_empty() {
        let (key, after) = rest.split_once("=\"")?;
        let mut text = String::new();
        let mut characters = after.char_indices();
        let end = loop {
            match characters.next()? {
                (at, '"') => break at,
                (_, '\\') => match characters.next()?.1 {
                    'n' => text.push('\n'),
                    other => text.push(other),
                },
                (_, other) => text.push(other),
            }
        };
        labels.push((key, text));
        rest = after[end + 1..].trim_start_matches(',');
    }
    Some(Sample { name, labels, value })
}

// === impl Buckets ===

impl Buckets {
    fn point(mut self, started: u64, now: u64) -> HistogramDataPoint {
        self.cumulative.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        // OTLP counts each bucket by itself, and leaves out the last bound, which is infinite.
        let mut before = 0;
        let mut bucket_counts = Vec::new();
        for (_, count) in &self.cumulative {
            bucket_counts.push(count.saturating_sub(before));
            before = *count;
        }
        let bounds = self.cumulative.iter().map(|(bound, _)| *bound);
        HistogramDataPoint {
            attributes: self
                .labels
                .into_iter()
                .map(|(key, value)| text_attribute(&key, value))
                .collect::<Vec<KeyValue>>(),
            start_time_unix_nano: started,
            time_unix_nano: now,
            count: self.count,
            sum: Some(self.sum),
            bucket_counts,
            explicit_bounds: bounds.filter(|bound| bound.is_finite()).collect(),
            ..HistogramDataPoint::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"# HELP runs_total The runs that ended.
# TYPE runs_total counter
runs_total{outcome="finished",tool="a \"b\", {c}\\"} 3
runs_total{outcome="failed",tool=""} 0

# TYPE open gauge
open 2

# TYPE took_seconds histogram
took_seconds_bucket{model="m",le="0.5"} 1
took_seconds_bucket{model="m",le="1"} 4
took_seconds_bucket{model="m",le="+Inf"} 5
took_seconds_sum{model="m"} 6.5
took_seconds_count{model="m"} 5
"#;

    #[test]
    fn each_kind_of_metric_has_its_points() {
        let found = metrics(TEXT, 1, 2);
        let of = |name: &str| found.iter().find(|metric| metric.name == name).unwrap();
        let Some(Data::Sum(runs)) = &of("runs_total").data else { panic!("{found:?}") };
        assert!(runs.is_monotonic && runs.data_points.len() == 2);
        assert_eq!(of("runs_total").description, "The runs that ended.");
        assert_eq!(runs.data_points[0].value, Some(Value::AsDouble(3.0)));
        assert_eq!(runs.data_points[0].attributes[1], text_attribute("tool", "a \"b\", {c}\\".to_owned()));
        assert!(matches!(&of("open").data, Some(Data::Gauge(open)) if open.data_points.len() == 1));
        let Some(Data::Histogram(took)) = &of("took_seconds").data else { panic!("{found:?}") };
        let point = &took.data_points[0];
        assert_eq!((point.count, point.sum), (5, Some(6.5)));
        assert_eq!((&point.explicit_bounds[..], &point.bucket_counts[..]), (&[0.5, 1.0][..], &[1, 3, 1][..]));
        assert_eq!(point.attributes, [text_attribute("model", "m".to_owned())]);
        assert_eq!(found.len(), 3);
    }
}
