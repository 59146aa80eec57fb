//! The arguments of `ackwise up` and `ackwise down`.

use std::time::Duration;

use ackwise_cli::time::duration;
use clap::{Args, ValueEnum};

use super::AttachMode;
use super::ab::GuardArgs;
use super::rate::rate;

/// Examples, shown after the help.
pub const HELP: &str = "\
Examples:
  ackwise up eth0 --explain      the facts and the decision, without touching anything
  ackwise up eth0                on the host that receives: thins ACKs
  ackwise up wan0 --up 4.75mbit  on the box with the uplink: cake at this rate, and thinned ACKs
  ackwise up wwan0 --up 1mbit..40mbit  where the rate changes: it is measured, between these

When the command ends, however it ends, the queue that it found is there again.";

/// `ackwise up`.
#[derive(Debug, Args)]
pub struct UpArgs {
    /// The interface through which ACKs leave
    pub interface: String,

    /// What leaves is shaped to this rate, e.g. `5mbit` or `5 Mbit/s`: some 95 % of what the uplink
    /// has, so that packets wait here and not in the modem. `1mbit..40mbit`: to what the uplink has at
    /// each time, which is measured, between these; `auto`: from 100 kbit/s to 1 Gbit/s
    #[arg(long = "up", value_name = "RATE", value_parser = uplink_rate)]
    pub rate: Option<UplinkRate>,

    /// Bytes that each IP packet costs on the uplink beyond itself
    #[arg(long, value_name = "BYTES", requires = "rate", value_parser = clap::value_parser!(u32).range(0..=256))]
    pub overhead: Option<u32>,

    /// This box owns the uplink behind this interface, whatever its routes say
    #[arg(long)]
    pub router: bool,

    /// Which queue to use with --up [default: the kernel's cake, or the gateway's where the kernel
    /// has no cake]
    #[arg(long, value_enum, requires = "rate")]
    pub queue: Option<QueueChoice>,

    /// Print the facts and the decision, and touch nothing
    #[arg(long)]
    pub explain: bool,

    #[command(flatten)]
    pub guard: GuardArgs,

    /// How programs are attached: by a tcx link, or by a filter of the clsact queue
    #[arg(long, value_enum, default_value_t)]
    pub attach_mode: AttachMode,

    /// Become this user once everything is set up [default: the user ackwise, if there is one and
    /// root starts it]
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,

    /// End after this time, e.g. `30s`, `5m` [default: run until told to stop]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
}

/// A queue that shapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum QueueChoice {
    /// The kernel's cake, with adaptive before it
    Cake,
    /// The queue of `ackwise gateway`
    Gateway,
}

/// `ackwise down`.
#[derive(Debug, Args)]
pub struct DownArgs {
    /// The interface [default: every one of this network namespace]
    pub interface: Option<String>,
}

/// What the uplink has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UplinkRate {
    /// The rate, or the greatest if it is measured, bit/s.
    pub bps: u64,
    /// It is measured, and no less than this, bit/s.
    pub min_bps: Option<u64>,
}

/// `auto`, bit/s: the slowest at which a full packet takes no more than an eighth of a second, and more than the
/// uplinks have for which a queue is a remedy.
const AUTO: UplinkRate = UplinkRate {
    bps: 1_000_000_000,
    min_bps: Some(100_000),
};

/// Reads the rate of an uplink: one, two with `..` between them, or `auto`.
fn uplink_rate(text: &str) -> Result<UplinkRate, String> {
    if text.trim().eq_ignore_ascii_case("auto") {
        return Ok(AUTO);
    }
    let Some((least, most)) = text.split_once("..") else {
        let bps = bounded(rate(text)?)?;
        return Ok(UplinkRate { bps, min_bps: None });
    };
    let (least, bps) = (bounded(rate(least)?)?, bounded(rate(most)?)?);
    if least >= bps {
        return Err("MIN..MAX: the first rate is less than the second".to_owned());
    }
    Ok(UplinkRate {
        bps,
        min_bps: Some(least),
    })
}

/// Slower than any modem, and faster than any uplink that is worth a shaper.
fn bounded(rate_bps: u64) -> Result<u64, String> {
    if !(8_000..=10_000_000_000).contains(&rate_bps) {
        return Err("an uplink has from 8 kbit/s to 10 Gbit/s".to_owned());
    }
    Ok(rate_bps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_uplink_has_a_rate_of_uplinks() {
        let fixed = |bps| Ok(UplinkRate { bps, min_bps: None });
        assert_eq!(uplink_rate("8000bit"), fixed(8_000));
        assert_eq!(uplink_rate("10gbit"), fixed(10_000_000_000));
        let measured = UplinkRate {
            bps: 40_000_000,
            min_bps: Some(1_000_000),
        };
        assert_eq!(uplink_rate("1mbit..40 Mbit/s"), Ok(measured));
        assert_eq!(uplink_rate("auto"), Ok(AUTO));
        for bad in [
            "1bit",
            "0mbit",
            "100gbit",
            "1mbit..",
            "..1mbit",
            "2mbit..1mbit",
            "1mbit..1mbit",
            "1mbit..2mbit..3mbit",
            "1bit..1mbit",
            "automatic",
        ] {
            assert!(uplink_rate(bad).is_err(), "{bad}");
        }
    }
}
