//! The counters of running daemons in the formats of Prometheus: OpenMetrics, or the older text
//! format.

mod datapath;
mod family;
mod gateway;
#[cfg(test)]
mod page_tests;
mod tunnel;

use family::Family;

/// The form of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exposition {
    OpenMetrics,
    /// Version 0.0.4 of Prometheus' own text format, for clients that do not ask for OpenMetrics.
    Text,
}

impl Exposition {
    /// The format for a client that sends these values of `Accept`.
    pub fn accepted(accept: &str) -> Self {
        if accept.contains("application/openmetrics-text") {
            Self::OpenMetrics
        } else {
            Self::Text
        }
    }

    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Counters that can be exported as a page.
pub trait Exported {
    fn families(&self) -> Vec<Family>;
}

/// The page for one scrape.
pub fn page(stats: &impl Exported, as_: Exposition) -> Result<String, String> {
    let page = family::open_metrics(stats.families())?;
    Ok(match as_ {
        Exposition::OpenMetrics => page,
        Exposition::Text => family::text(&page),
    })
}
