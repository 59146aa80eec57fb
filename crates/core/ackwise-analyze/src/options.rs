//! Options of an analysis.

use ackwise_policy::{Config, Policy};

/// What to find out.
#[derive(Debug, Clone)]
pub struct Options {
    /// The policies to try.
    pub policies: Vec<Config>,
    /// The rate of the uplink in bit/s, if it is known.
    pub up_bps: Option<u64>,
    /// The rate of the downlink in bit/s, if it is known.
    pub down_bps: Option<u64>,
    /// The rate of the Wi-Fi channel in bit/s, if airtime is wanted.
    pub wifi_bps: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            policies: default_policies(),
            up_bps: None,
            down_bps: None,
            wifi_bps: None,
        }
    }
}

/// The policies that need nothing but to hold ACKs, with their default parameters.
#[must_use]
pub fn default_policies() -> Vec<Config> {
    ["adaptive", "every-n", "rate-limit", "tack", "police"]
        .iter()
        .filter_map(|name| Policy::by_name(name).ok())
        .map(Config::new)
        .collect()
}
