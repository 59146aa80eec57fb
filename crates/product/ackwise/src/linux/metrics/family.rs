//! Metric families, and the pages that contain them.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

/// The metrics of one name.
#[derive(Debug)]
pub struct Family {
    /// The name without the prefix `ackwise`, the unit and the suffix of counters.
    name: &'static str,
    help: &'static str,
    unit: Option<Unit>,
    kind: MetricType,
    samples: Vec<Sample>,
}

type Labels = Vec<(&'static str, String)>;

#[derive(Debug)]
struct Sample {
    labels: Labels,
    value: Value,
}

#[derive(Debug)]
enum Value {
    Count(u64),
    Seconds(f64),
    Gauge(f64),
    Histogram {
        sum: f64,
        count: u64,
        /// The upper bound and the count of each bucket.
        buckets: Vec<(f64, u64)>,
    },
}

impl Family {
    fn new(name: &'static str, help: &'static str, kind: MetricType) -> Self {
        Self {
            name,
            help,
            unit: None,
            kind,
            samples: Vec::new(),
        }
    }

    pub fn counter(name: &'static str, help: &'static str) -> Self {
        Self::new(name, help, MetricType::Counter)
    }

    pub fn gauge(name: &'static str, help: &'static str) -> Self {
        Self::new(name, help, MetricType::Gauge)
    }

    pub fn histogram(name: &'static str, help: &'static str) -> Self {
        Self::new(name, help, MetricType::Histogram)
    }

    pub fn in_bytes(mut self) -> Self {
        self.unit = Some(Unit::Bytes);
        self
    }

    pub fn in_seconds(mut self) -> Self {
        self.unit = Some(Unit::Seconds);
        self
    }

    /// Sets the unit to bytes per second, which [`Self::bps`] converts to.
    pub fn in_bytes_per_second(mut self) -> Self {
        self.unit = Some(Unit::Other("bytes_per_second".to_owned()));
        self
    }

    fn sample(mut self, labels: &[(&'static str, &str)], value: Value) -> Self {
        let labels = labels.iter().map(|(name, value)| (*name, escape(value)));
        let labels = labels.collect();
        self.samples.push(Sample { labels, value });
        self
    }

    pub fn count(self, labels: &[(&'static str, &str)], value: u64) -> Self {
        self.sample(labels, Value::Count(value))
    }

    pub fn spent(self, labels: &[(&'static str, &str)], seconds: f64) -> Self {
        self.sample(labels, Value::Seconds(seconds))
    }

    pub fn is(self, labels: &[(&'static str, &str)], value: f64) -> Self {
        self.sample(labels, Value::Gauge(value))
    }

    pub fn bps(self, labels: &[(&'static str, &str)], bits_per_second: u64) -> Self {
        self.is(labels, bits_per_second as f64 / 8.0)
    }

    pub fn if_known(self, labels: &[(&'static str, &str)], value: Option<f64>) -> Self {
        match value {
            Some(value) => self.is(labels, value),
            None => self,
        }
    }

    pub fn distributed(
        self,
        labels: &[(&'static str, &str)],
        sum: f64,
        count: u64,
        buckets: Vec<(f64, u64)>,
    ) -> Self {
        let value = Value::Histogram {
            sum,
            count,
            buckets,
        };
        self.sample(labels, value)
    }

    /// Adds a counter for each value of the last label, such as a cause or a reason.
    pub fn counts<'n>(
        mut self,
        labels: &[(&'static str, &str)],
        label: &'static str,
        counts: impl IntoIterator<Item = (&'n str, u64)>,
    ) -> Self {
        for (value, count) in counts {
            let labels = [labels, &[(label, value)]].concat();
            self = self.count(&labels, count);
        }
        self
    }

    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let unit = self.unit.as_ref();
        let mut family = encoder.encode_descriptor(self.name, self.help, unit, self.kind)?;
        for Sample { labels, value } in &self.samples {
            let labels: Vec<_> = labels
                .iter()
                .map(|(name, value)| (*name, value.as_str()))
                .collect();
            let mut metric = family.encode_family(&labels)?;
            match value {
                Value::Count(value) => ConstCounter::new(*value).encode(metric)?,
                Value::Seconds(value) => ConstCounter::new(*value).encode(metric)?,
                Value::Gauge(value) => ConstGauge::new(*value).encode(metric)?,
                Value::Histogram {
                    sum,
                    count,
                    buckets,
                } => metric.encode_histogram::<NoLabelSet>(*sum, *count, buckets, None)?,
            }
        }
        Ok(())
    }
}

/// Escapes a label's value: the encoder writes it unchanged, and an interface may have any name.
fn escape(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[derive(Debug)]
struct Snapshot(Vec<Family>);

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let known = self.0.iter().filter(|family| !family.samples.is_empty());
        known
            .into_iter()
            .try_for_each(|family| family.encode(&mut encoder))
    }
}

/// The page as OpenMetrics.
pub fn open_metrics(families: Vec<Family>) -> Result<String, String> {
    let mut registry = Registry::with_prefix("ackwise");
    registry.register_collector(Box::new(Snapshot(families)));
    let mut out = String::new();
    prometheus_client::encoding::text::encode(&mut out, &registry).map_err(|e| e.to_string())?;
    Ok(out)
}

/// The page in Prometheus' text format: the suffix of a counter is part of its name there, and
/// units and the end marker are omitted.
pub fn text(open_metrics: &str) -> String {
    let mut counters = Vec::new();
    for line in open_metrics.lines() {
        if let Some(name) = line
            .strip_prefix("# TYPE ")
            .and_then(|line| line.strip_suffix(" counter"))
        {
            counters.push(name);
        }
    }
    let mut out = String::with_capacity(open_metrics.len());
    for line in open_metrics.lines() {
        if line.starts_with("# UNIT ") || line == "# EOF" {
            continue;
        }
        let described = ["# HELP ", "# TYPE "].into_iter().find_map(|what| {
            let (name, rest) = line.strip_prefix(what)?.split_once(' ')?;
            counters.contains(&name).then_some((what, name, rest))
        });
        match described {
            Some((what, name, rest)) => out.push_str(&format!("{what}{name}_total {rest}\n")),
            None => out.push_str(&format!("{line}\n")),
        }
    }
    out
}
