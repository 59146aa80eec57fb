//! Warns if somebody replaces a cake at a fixed rate. A cake whose rate is measured is watched
//! anyway.

use std::sync::Arc;
use std::time::Duration;

use ackwise_cli::{Format, text as out};
use ackwise_netdev::daemon::{Ended, Lifecycle, Worker, drop_realtime};
use ackwise_netdev::netlink::Netlink;
use ackwise_netdev::qdisc::Qdisc;
use anyhow::Context;
use serde_json::json;

use crate::linux::shared_datapath::SharedDatapath;

/// The interval between checks.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Polls the root queue of an interface until it is replaced, or until the worker is dropped.
pub fn start(
    (interface, index): (&str, u32),
    format: Format,
    datapath: &SharedDatapath,
) -> anyhow::Result<Worker> {
    let lifecycle = Arc::new(Lifecycle::new().context("making an event descriptor")?);
    let life = Arc::clone(&lifecycle);
    let mut netlink = Netlink::open().context("opening a netlink socket")?;
    let (interface, datapath) = (interface.to_owned(), datapath.clone());
    let worker = Worker::spawn("ackwise-root", lifecycle, move || {
        drop_realtime();
        while !life.wait_stop(CHECK_INTERVAL) {
            // A missing interface ends everything else as well.
            let Ok(all) = netlink.qdiscs(index) else {
                continue;
            };
            if let Some(root) = all.iter().find(|it| it.is_root() && !it.is_ours()) {
                datapath.note_queue_replaced();
                report(&interface, root, format);
                break;
            }
        }
        Ended::Requested
    });
    worker.context("starting the thread that watches the queue")
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
