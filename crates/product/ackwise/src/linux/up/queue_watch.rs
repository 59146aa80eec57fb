//! Warns if somebody replaces a cake at a fixed rate, or changes its rate. A cake whose rate is
//! measured is watched anyway.

use std::sync::Arc;
use std::time::Duration;

use ackwise_cli::{Format, text as out};
use ackwise_netdev::daemon::{Ended, Lifecycle, Worker, drop_realtime};
use ackwise_netdev::netlink::Netlink;
use ackwise_netdev::qdisc::Qdisc;
use anyhow::Context;
use serde_json::json;

use crate::linux::rates::rate;
use crate::linux::shared_datapath::SharedDatapath;

/// The interval between checks.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Polls the root queue of an interface until it is replaced, or until the worker is dropped.
/// `rate_bps` returns the rate that it is to have.
pub fn start(
    (interface, index): (&str, u32),
    format: Format,
    datapath: &SharedDatapath,
    rate_bps: impl Fn() -> Option<u64> + Send + 'static,
) -> anyhow::Result<Worker> {
    let lifecycle = Arc::new(Lifecycle::new().context("making an event descriptor")?);
    let life = Arc::clone(&lifecycle);
    let mut netlink = Netlink::open().context("opening a netlink socket")?;
    let (interface, datapath) = (interface.to_owned(), datapath.clone());
    let worker = Worker::spawn("ackwise-root", lifecycle, move || {
        drop_realtime();
        // The rate of somebody else that was warned of.
        let mut warned = None;
        while !life.wait_stop(CHECK_INTERVAL) {
            let wanted = rate_bps();
            // A missing interface ends everything else as well.
            let Ok(all) = netlink.qdiscs(index) else {
                continue;
            };
            let Some(root) = all.iter().find(|it| it.is_root()) else {
                continue;
            };
            if !root.is_ours() {
                datapath.note_queue_replaced();
                report(&interface, root, format);
                break;
            }
            // Unless a reload has set another rate meanwhile.
            let other = other_rate(root.cake_rate_bps(), wanted).filter(|_| wanted == rate_bps());
            if other.is_some() && other != warned {
                report_rate(&interface, root.cake_rate_bps(), format);
            }
            warned = other;
        }
        Ended::Requested
    });
    worker.context("starting the thread that watches the queue")
}

/// Returns the rate in the kernel, 0 for none, if it is another than the wanted one.
fn other_rate(found: Option<u64>, wanted: Option<u64>) -> Option<u64> {
    // The kernel counts in bytes per second.
    let wanted = wanted.map(|bps| (bps / 8).max(1) * 8)?;
    (found != Some(wanted)).then(|| found.unwrap_or(0))
}

fn report_rate(interface: &str, found: Option<u64>, format: Format) {
    let shown = found.map_or_else(|| "no limit".to_owned(), rate);
    tracing::warn!(
        "{interface}: someone has set the rate of ackwise's cake to {shown}; this ends with `ackwise up`\n  \
         for another rate, change `up` in the file and run `ackwise reload`, or start `ackwise up` \
         again with another --up"
    );
    if format == Format::Json {
        let event = json!({ "event": "rate-changed", "interface": interface, "rate_bps": found });
        // A failed print means that nobody reads the output; the warning is logged.
        let _ = out::print(&format!("{event}\n"));
    }
}

fn report(interface: &str, root: &Qdisc, format: Format) {
    let kind = &root.kind;
    tracing::warn!(
        "{interface}: someone has replaced the queue by {kind}, which is left alone; ACKs are still thinned\n  \
         `ackwise down {interface}`, then `ackwise up` again, sets up cake again"
    );
    if format == Format::Json {
        let event = json!({ "event": "queue-replaced", "interface": interface, "now": kind });
        // A failed print means that nobody reads the output; the warning is logged.
        let _ = out::print(&format!("{event}\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_another_only_beyond_the_kernel_s_rounding() {
        assert_eq!(other_rate(Some(5_000_000), Some(5_000_000)), None);
        assert_eq!(other_rate(Some(5_000_000), Some(5_000_007)), None);
        assert_eq!(
            other_rate(Some(9_000_000), Some(5_000_000)),
            Some(9_000_000)
        );
        assert_eq!(other_rate(None, Some(5_000_000)), Some(0));
        assert_eq!(other_rate(Some(9_000_000), None), None);
    }
}
