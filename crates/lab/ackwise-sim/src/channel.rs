//! Simulated packets as queues and boxes see them, and the translation of a scenario's
//! queues and boxes into those of `ackwise-queue`.

use std::num::{NonZeroU32, NonZeroU64};

use ackwise_config::queues::{Bucket, Length, Mux, PoliceHow, Reconstruct, Shape, What};
use ackwise_policy::Segment;
use ackwise_queue::{
    BundleSizes, ChannelConfig, Ecn, LengthMode, LinkConfig, MuxConfig, PoliceConfig, PoliceMode,
    QueueConfig, ReconstructConfig, Release, Select, ShapeConfig, Spacing,
};
use ackwise_rng::Probability;
use ackwise_scenario::Direction as LinkDirection;

use crate::packet::{Direction, Flags, FlowId, Packet};
use crate::segment;
use crate::time::nanos;

/// A connection and one of its directions.
pub type FlowKey = (FlowId, Direction);

/// The window scale that a queue assumes, since it sees no handshake. Windows above 8 MB
/// look alike.
const SHIFT: u8 = 7;

impl ackwise_queue::Packet for Packet {
    type Flow = FlowKey;

    fn flow(&self) -> FlowKey {
        (self.flow, self.direction)
    }

    fn is_pure_ack(&self) -> bool {
        Packet::is_pure_ack(self)
    }

    fn carries_data(&self) -> bool {
        self.payload > 0
    }

    fn ecn(&self) -> Ecn {
        if self.flags.contains(Flags::CE) {
            Ecn::Marked
        } else if self.flags.contains(Flags::ECT) {
            Ecn::Capable
        } else {
            Ecn::NotCapable
        }
    }

    fn mark(&mut self) {
        self.flags |= Flags::CE;
    }

    fn segment(&self) -> Option<Segment> {
        (!self.flags.contains(Flags::UDP)).then(|| segment::segment(self, SHIFT))
    }

    fn synthesize(&self, back: u32) -> Option<Packet> {
        let ack = self.ack.checked_sub(u64::from(back))?;
        let mut forged = *self;
        forged.ack = ack;
        forged.window = self.window.saturating_add(u64::from(back));
        forged.flags |= Flags::SYNTHETIC;
        forged.flags -= Flags::CE;
        Some(forged)
    }
}

/// The configuration of a link's direction whose wire is `link`. `connections` gives
/// the connections of a flow by its name; `header` is the link's own overhead per packet, in bytes.
pub fn config(
    direction: &LinkDirection,
    link: LinkConfig,
    header: u32,
    connections: &dyn Fn(&str) -> Vec<FlowId>,
) -> ChannelConfig<FlowKey> {
    let select = |what: &What| Select {
        pure_acks: what.pure_acks,
        flows: what
            .flows
            .iter()
            .flat_map(|name| connections(name))
            .flat_map(|flow| [(flow, Direction::Data), (flow, Direction::Ack)])
            .collect(),
    };
    ChannelConfig {
        queue: queue(direction, &link),
        header,
        police: direction.police.as_ref().map(|police| PoliceConfig {
            mode: match police.how {
                PoliceHow::Bucket(bucket) => PoliceMode::Bucket {
                    rate_bps: bucket.rate_bps,
                    burst_bytes: bucket.burst,
                    length: length(bucket),
                },
                PoliceHow::Random(drop) => PoliceMode::Random {
                    drop: Probability::from_fraction(drop),
                    seed: link.seed,
                },
                PoliceHow::Even(drop) => PoliceMode::Even {
                    drop: Probability::from_fraction(drop),
                },
            },
            select: select(&police.what),
        }),
        shape: direction.shape.as_ref().map(|shape| {
            let Shape {
                bucket, packets, ..
            } = *shape;
            ShapeConfig {
                rate_bps: bucket.rate_bps,
                burst_bytes: bucket.burst,
                length: length(bucket),
                limit: packets as usize,
                select: select(&shape.what),
            }
        }),
        mux: direction
            .mux
            .as_ref()
            .and_then(|config| mux(config, select(&config.what))),
        reconstruct: direction.reconstruct.map(reconstruct),
        link,
    }
}

fn length(bucket: Bucket) -> LengthMode {
    match bucket.length {
        Length::Ip => LengthMode::Ip,
        Length::EthernetPayload => LengthMode::EthernetPayload,
        Length::EthernetFrame => LengthMode::EthernetFrame,
    }
}

fn queue(direction: &LinkDirection, link: &LinkConfig) -> QueueConfig {
    match &direction.queue {
        Some(queue) => QueueConfig::from_keys(queue, link),
        None => QueueConfig::drop_tail(link.queue),
    }
}

fn mux(mux: &Mux, select: Select<FlowKey>) -> Option<MuxConfig<FlowKey>> {
    let [header_bytes, packet_bytes] = mux.sizes;
    Some(MuxConfig {
        // A period of zero is refused when the file is read.
        period: NonZeroU64::new(nanos(mux.period))?,
        release: mux
            .phase
            .map_or(Release::FirstPacket, |phase| Release::Ticks {
                phase: nanos(phase),
            }),
        max_packets: mux
            .max_packets
            .and_then(NonZeroU32::new)
            .unwrap_or(MuxConfig::<FlowKey>::MAX_PACKETS),
        max_bytes: mux.max_size,
        sizes: BundleSizes {
            header_bytes,
            packet_bytes,
        },
        compress: mux.compress,
        select,
    })
}

fn reconstruct(config: Reconstruct) -> ReconstructConfig {
    ReconstructConfig {
        threshold: config.threshold.saturating_mul(config.segment),
        step: config.step.saturating_mul(config.segment),
        spacing: if config.ns2_spacing {
            Spacing::Ns2
        } else {
            Spacing::Even
        },
        gap: nanos(config.gap),
        ..ReconstructConfig::default()
    }
}
