//! The keys of a link's direction that describe its queue and the boxes on the path.

use ackwise_config::queue_keys::{self, Context};
use ackwise_config::queues::Queue;
use ackwise_config::section::Section;
use ackwise_config::tree::{Kind, Table};

use crate::model::Direction;

/// Keys of a direction that are read here.
pub(crate) const KEYS: [&str; 5] = ["queue", "police", "shape", "mux", "reconstruct"];

/// Sets the parts of `direction` that this module's keys describe.
pub fn refine(section: &Section<'_>, direction: &mut Direction, context: &Context<'_>) {
    if section.has("queue") {
        direction.queue = queue_keys::queue(section, context.mtu);
        if direction.queue.is_some() && direction.rate_bps.is_none() {
            section.error(
                &section.span_of("queue"),
                "a queue only fills in front of a rate; add 'rate' or remove 'queue'",
            );
        }
    }
    if let Some((table, span)) = section.table("police") {
        direction.police = queue_keys::police(section, table, span, context);
    }
    if let Some((table, span)) = section.table("shape") {
        direction.shape = queue_keys::shape(section, table, span, context);
    }
    if let Some((table, span)) = section.table("mux") {
        direction.mux = queue_keys::mux(section, table, span, context);
    }
    if let Some(value) = section.value("reconstruct") {
        direction.reconstruct = match &value.kind {
            Kind::Bool(false) => None,
            Kind::Bool(true) => queue_keys::reconstruct(section, &Table::default(), &value.span),
            Kind::Table(table) => queue_keys::reconstruct(section, table, &value.span),
            _ => {
                let message = format!(
                    "'reconstruct' is true, false or a table, not {}",
                    value.what()
                );
                section.error(&value.span, message);
                None
            }
        };
    }
}

impl Direction {
    /// The keys of features that need an engine that owns the queue: everything but a drop-tail
    /// queue whose limit counts only waiting packets.
    pub fn own_queue_keys(&self) -> Vec<&'static str> {
        let mut keys = self.queue.as_ref().map_or_else(Vec::new, of_queue);
        keys.extend([
            (self.police.is_some(), "police"),
            (self.shape.is_some(), "shape"),
            (self.mux.is_some(), "mux"),
            (self.reconstruct.is_some(), "reconstruct"),
        ]);
        keys.into_iter()
            .filter_map(|(there, key)| there.then_some(key))
            .collect()
    }
}

/// Those features of the queue, and whether it has them.
fn of_queue(queue: &Queue) -> Vec<(bool, &'static str)> {
    // Without `..`, so that a new field does not compile until it is decided here whether an engine
    // without such a queue must refuse it.
    let Queue {
        limit: _,
        counts_sending,
        red,
        fq_codel,
        cake,
        ack_filter,
        acks_first,
    } = queue;
    let disciplined = red.is_some() || fq_codel.is_some() || cake.is_some();
    vec![
        (*counts_sending, "queue.counts"),
        (disciplined, "queue.discipline"),
        (ack_filter.is_some(), "queue.ack_filter"),
        (acks_first.is_some(), "queue.acks_first"),
    ]
}
