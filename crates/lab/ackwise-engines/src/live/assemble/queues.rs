//! The part of a record about queues.

use ackwise_scenario::record::QueueRecord;

use super::Measured;
use crate::kernel_link::DirectionStats;
use crate::queue_lengths::put_samples;

pub(super) fn queues(measured: &Measured<'_>) -> Vec<QueueRecord> {
    let mut queues = of_links(measured);
    for served in &measured.served {
        served.add_to(&mut queues, measured.start_ns);
    }
    for tunnelled in &measured.tunnelled {
        tunnelled.add_to(&mut queues);
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
            let mut record = QueueRecord {
                name: format!("{}.{name}", measured.scenario.links[wired.link].name),
                arrivals: Some(stats.offered_packets),
                max_packets: Some(stats.queue_max_packets as u64),
                mean_packets: Some(stats.queue_mean_packets(emulated.span_ns)),
                drops: stats.dropped_queue + stats.dropped_discipline,
                marks: 0,
                policed: emulated.policed[direction],
                losses: Some(stats.dropped_wire),
                ..QueueRecord::default()
            };
            put_samples(&emulated.queues[direction], measured.start_ns, &mut record);
            queues.push(record);
        }
    }
    queues
}

fn queue_of_kernel(
    measured: &Measured<'_>,
    name: String,
    direction: &DirectionStats,
) -> QueueRecord {
    let mut record = QueueRecord {
        name,
        arrivals: Some(direction.arrivals),
        max_packets: Some(u64::from(direction.max_packets)),
        mean_packets: direction.mean_length.packets(),
        drops: direction.drops,
        early_drops: direction.early,
        marks: direction.marks,
        policed: direction.policed,
        filtered: direction.filtered,
        losses: Some(direction.lost),
        ..QueueRecord::default()
    };
    put_samples(&direction.lengths, measured.start_ns, &mut record);
    record
}
