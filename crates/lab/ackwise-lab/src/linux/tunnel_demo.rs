//! `ackwise-lab tunnel-demo`: the traffic of a thin uplink, with and without a tunnel.

use std::sync::atomic::Ordering;

use ackwise_cli::{Format, text};
use ackwise_engines::live;
use ackwise_scenario::Scenario;
use ackwise_scenario::record::Run;
use anyhow::{Context, bail};
use serde::Serialize;

use super::cli::DemoArgs;
use crate::bar::Bar;

const SCENARIO: &str = include_str!("../../../../../scenarios/tunnel.toml");
/// The direction of the ACKs.
const UPLINK: &str = "wan.reverse";

/// The results of one arm.
#[derive(Debug, Serialize)]
struct Row {
    arm: String,
    goodput_bps: f64,
    /// ACKs that the receiver's machine made.
    acks: u64,
    /// Packets that arrived at the uplink, and those for which its queue had no room.
    uplink_packets: u64,
    uplink_drops: u64,
    /// Bytes of plain ACKs and of bundles on the uplink, counted as whole IP packets.
    uplink_bytes: u64,
    bytes_per_ack: f64,
    /// ACKs that travelled in bundles.
    tunnelled: u64,
}

impl Row {
    fn of(run: &Run) -> anyhow::Result<Row> {
        let uplink = run.queues.iter().find(|queue| queue.name == UPLINK);
        let uplink = uplink.context("the run says nothing of the uplink")?;
        let mux = uplink.mux.clone().unwrap_or_default();
        let all = run.totals.ack_bytes_on_wire.unwrap_or(0);
        let bytes = all.saturating_sub(mux.native_bytes) + mux.bundle_bytes;
        Ok(Row {
            arm: run.arm.clone(),
            goodput_bps: run.totals.goodput_bps,
            acks: run.totals.acks_on_wire,
            uplink_packets: uplink.arrivals.unwrap_or(0),
            uplink_drops: uplink.drops,
            uplink_bytes: bytes,
            bytes_per_ack: bytes as f64 / run.totals.acks_on_wire.max(1) as f64,
            tunnelled: mux.packets,
        })
    }
}

/// Runs the scenario, and shows the uplink.
pub fn demo(args: &DemoArgs, format: Format) -> anyhow::Result<()> {
    let mut scenario = Scenario::parse("scenarios/tunnel.toml", SCENARIO)?;
    if let Some(duration) = args.duration {
        scenario = scenario.with_duration(duration)?;
    }
    let options = live::RunOptions {
        cancel: live::cancel_on_signals()?,
        ..live::RunOptions::default()
    };
    let cancel = options.cancel.clone();
    if format == Format::Text {
        text::print(&format!("{}\n", scenario.about))?;
    }
    let mut bar = Bar::new(scenario.runs().len(), format);
    let report = live::run(&scenario, &options, &mut |p| bar.show_progress(&p))?;
    drop(bar);
    if cancel.load(Ordering::Relaxed) {
        bail!("stopped by a signal before it was over");
    }
    if let Some(run) = report.runs.iter().find(|run| !run.errors.is_empty()) {
        bail!("{}: {}", run.arm, run.errors.join("; "));
    }
    let rows = report
        .runs
        .iter()
        .map(Row::of)
        .collect::<Result<Vec<_>, _>>()?;
    match format {
        Format::Json => text::print_json(&rows),
        Format::Text => text::print(&table(&rows)),
    }
}

fn table(rows: &[Row]) -> String {
    let head = [
        "",
        "goodput",
        "uplink packets",
        "dropped",
        "uplink bytes",
        "bytes/ACK",
        "in the tunnel",
    ];
    let mut cells = vec![head.map(str::to_owned).to_vec()];
    for row in rows {
        let share = 100.0 * row.tunnelled as f64 / row.acks.max(1) as f64;
        cells.push(vec![
            row.arm.clone(),
            format!("{:.1} Mbit/s", row.goodput_bps / 1e6),
            row.uplink_packets.to_string(),
            row.uplink_drops.to_string(),
            text::bytes(row.uplink_bytes),
            format!("{:.2}", row.bytes_per_ack),
            format!("{share:.0} %"),
        ]);
    }
    text::columns(&cells, &[false, true, true, true, true, true, true])
}

#[cfg(test)]
mod tests {
    use super::*;
    use ackwise_scenario::record::{MuxRecord, QueueRecord};

    #[test]
    fn the_scenario_has_the_uplink_that_is_shown() {
        let scenario = Scenario::parse("tunnel.toml", SCENARIO).unwrap();
        let (link, direction) = UPLINK.split_once('.').unwrap();
        assert!(scenario.links.iter().any(|one| one.name == link) && direction == "reverse");
        assert_eq!(scenario.arms.len(), 4);
    }

    #[test]
    fn bytes_are_those_of_bundles_and_of_acks_beside_them() {
        let mut run = Run {
            arm: "tunnel".into(),
            ..Run::default()
        };
        run.totals.goodput_bps = 18.2e6;
        run.totals.acks_on_wire = 1000;
        run.totals.ack_bytes_on_wire = Some(52_000);
        assert!(Row::of(&run).is_err());
        run.queues = vec![QueueRecord {
            name: UPLINK.into(),
            arrivals: Some(150),
            mux: Some(MuxRecord {
                bundles: 50,
                packets: 900,
                native_bytes: 46_800,
                bundle_bytes: 4_800,
                ..MuxRecord::default()
            }),
            ..QueueRecord::default()
        }];
        let row = Row::of(&run).unwrap();
        assert_eq!((row.uplink_bytes, row.bytes_per_ack), (10_000, 10.0));
        let shown = table(&[row]);
        assert!(
            shown.contains("18.2 Mbit/s") && shown.contains("90 %"),
            "{shown}"
        );
    }
}
