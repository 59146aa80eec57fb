//! What a record says of queues.

use ackwise_scenario::record::QueueRecord;

use super::Measured;
use crate::clock::seconds;
use crate::kernel_link::DirectionStats;

pub(super) fn queues(measured: &Measured<'_>) -> Vec<QueueRecord> {
    let mut queues = of_links(measured);
    for served in &measured.served {
        served.put_into(&mut queues, measured.start_ns);
    }
    for tunnelled in &measured.tunnelled {
        tunnelled.put_into(&mut queues);
    }
    queues
}

fn of_links(measured: &Measured<'_>) -> Vec<QueueRecord> {
    let mut queues = Vec::new();
    for wired in &measured.wired {
        for (direction, name) in wired
            .directions
            .iter()
            .flatten()
            .zip(["forward", "reverse"])
        {
            let name = format!("{}.{name}", measured.scenario.links[wired.link].name);
            queues.push(queue_of_kernel(measured, name, direction));
        }
        let Some(emulated) = &wired.emulated else {
            continue;
        };
        for (direction, name) in ["forward", "reverse"].into_iter().enumerate() {
            let stats = &emulated.stats[direction];
            let samples = &emulated.queues[direction];
            queues.push(QueueRecord {
                name: format!("{}.{name}", measured.scenario.links[wired.link].name),
                arrivals: Some(stats.offered_packets),
                max_packets: Some(stats.queue_max_packets as u64),
                mean_packets: Some(stats.queue_mean_packets(emulated.span_ns)),
                drops: stats.dropped_queue + stats.dropped_discipline,
                marks: 0,
                policed: emulated.policed[direction],
                losses: Some(stats.dropped_wire),
                t_s: samples
                    .iter()
                    .map(|(at, _)| seconds(at.saturating_sub(measured.start_ns)))
                    .collect(),
                length_packets: samples
                    .iter()
                    .map(|&(_, length)| f64::from(length))
                    .collect(),
                ..QueueRecord::default()
            });
        }
    }
    queues
}

fn queue_of_kernel(
    measured: &Measured<'_>,
    name: String,
    direction: &DirectionStats,
) -> QueueRecord {
    let (sum, looks) = direction.looked;
    QueueRecord {
        name,
        arrivals: Some(direction.arrivals),
        max_packets: Some(u64::from(direction.max_packets)),
        mean_packets: (looks > 0).then(|| sum as f64 / looks as f64),
        drops: direction.drops,
        early_drops: direction.early,
        marks: direction.marks,
        policed: direction.policed,
        filtered: direction.filtered,
        losses: Some(direction.lost),
        t_s: direction
            .lengths
            .iter()
            .map(|(at, _)| seconds(at.saturating_sub(measured.start_ns)))
            .collect(),
        length_packets: direction
            .lengths
            .iter()
            .map(|&(_, length)| f64::from(length))
            .collect(),
        ..QueueRecord::default()
    }
}
