//! Timelines worked out by hand, and properties that hold for all traffic.

use ackwise_queue::{Channel, ChannelConfig, LinkConfig, Nanos, QueueConfig, QueueLimit};
use ackwise_rng::Probability;
use proptest::prelude::*;

use super::Network;
use crate::app::{App, Kind};
use crate::connection::{Counted, Template};
use crate::endpoint::{End, RttSamples, Sink, Source, SourceView, Supply};
use crate::line::{Hop, Line};
use crate::packet::{AckRateOption, Direction, Flags, FlowId, Packet, Sack};

const US: Nanos = 1_000;
const MS: Nanos = 1_000_000;
/// One byte per microsecond.
const MBIT8: u64 = 8_000_000;
const WIRE: u32 = 1000;
const ACK: u32 = 40;

fn packet(flow: FlowId, direction: Direction, number: u64) -> Packet {
    Packet {
        flow,
        direction,
        ack_rate: AckRateOption::NONE,
        flags: if direction == Direction::Ack {
            Flags::ACK
        } else {
            Flags::empty()
        },
        wire_len: if direction == Direction::Ack {
            ACK
        } else {
            WIRE
        },
        payload: if direction == Direction::Ack { 0 } else { WIRE },
        seq: number,
        ack: number,
        window: 1 << 16,
        tsval: 0,
        tsecr: 0,
        sack: Sack::default(),
    }
}

/// Sends this many packets at once, and records when the answers arrive.
struct Burst {
    flow: FlowId,
    left: u64,
    sent: u64,
    log: Vec<(Nanos, u64)>,
}

/// Answers each packet at once, and records when it arrived.
struct Echo {
    flow: FlowId,
    owed: Vec<u64>,
    log: Vec<(Nanos, u64)>,
}

impl End for Burst {
    fn on_packet(&mut self, packet: &Packet, now: Nanos) {
        self.log.push((now, packet.ack));
    }
    fn on_timer(&mut self, _now: Nanos) {}
    fn poll_transmit(&mut self, _now: Nanos) -> Option<Packet> {
        self.left = self.left.checked_sub(1)?;
        self.sent += 1;
        Some(packet(self.flow, Direction::Data, self.sent))
    }
    fn next_timer(&self) -> Option<Nanos> {
        None
    }
}

impl Source for Burst {
    type Config = ();
    fn open((): &(), flow: FlowId) -> Self {
        Burst {
            flow,
            left: 0,
            sent: 0,
            log: Vec::new(),
        }
    }
    fn supply(&mut self, supply: Supply, _now: Nanos) {
        if let Supply::Bytes(packets) | Supply::Last(packets) = supply {
            self.left += packets;
        }
    }
    fn rtt(&self) -> RttSamples {
        RttSamples::default()
    }
    fn view(&self) -> SourceView {
        SourceView::default()
    }
}

impl End for Echo {
    fn on_packet(&mut self, packet: &Packet, now: Nanos) {
        self.log.push((now, packet.seq));
        self.owed.push(packet.seq);
    }
    fn on_timer(&mut self, _now: Nanos) {}
    fn poll_transmit(&mut self, _now: Nanos) -> Option<Packet> {
        let number = self.owed.pop()?;
        Some(packet(self.flow, Direction::Ack, number))
    }
    fn next_timer(&self) -> Option<Nanos> {
        None
    }
}

impl Sink for Echo {
    type Config = ();
    fn open((): &(), flow: FlowId) -> Self {
        Echo {
            flow,
            owed: Vec::new(),
            log: Vec::new(),
        }
    }
    fn delivered(&self) -> u64 {
        self.log.len() as u64
    }
}

fn line(config: LinkConfig, header: u32) -> Line {
    let queue = QueueConfig::drop_tail(config.queue);
    Line::new(Channel::new(ChannelConfig::plain(config, queue)), header)
}

fn rate(rate_bps: u64, delay_ns: Nanos, packets: usize) -> LinkConfig {
    LinkConfig {
        rate_bps: Some(rate_bps),
        delay_ns,
        queue: QueueLimit::Packets(packets),
        ..LinkConfig::default()
    }
}

/// One flow of `packets` over `there`, answered over `back`, with both counted
/// on the first line of each path.
fn network(there: Vec<Line>, back: Vec<Line>, packets: u64) -> Network<Burst, Echo> {
    let hops = |from: usize, count: usize| {
        let over = move |line| Hop::over(line, line == from, false);
        (from..from + count).map(over).chain([Hop::END])
    };
    let (out_hops, back_hops) = (there.len(), back.len());
    let routes: Vec<Hop> = hops(0, out_hops).chain(hops(out_hops, back_hops)).collect();
    let lines = there.into_iter().chain(back).collect();
    let mut network = Network::new(lines, routes, Vec::new(), Nanos::MAX - 1);
    network.counted.push(Counted::default());
    network.templates.push(Template {
        source: (),
        sink: (),
        routes: [0, out_hops as u32 + 1],
        shift: 7,
        mss: WIRE,
    });
    let app = App {
        flow: 0,
        template: 0,
        connections: 1,
        first: 0,
        kind: Kind::Bulk(Some(packets)),
    };
    network.add_app(app, 0);
    network
}

fn run(mut network: Network<Burst, Echo>) -> Network<Burst, Echo> {
    network.run(|_| true);
    network
}

fn at(log: &[(Nanos, u64)]) -> Vec<Nanos> {
    log.iter().map(|(at, _)| *at).collect()
}

#[test]
fn one_link_to_the_nanosecond() {
    let there = vec![line(rate(MBIT8, 5 * MS, 10), 0)];
    let back = vec![line(rate(MBIT8, 5 * MS, 10), 0)];
    let network = run(network(there, back, 3));
    let connection = &network.connections[0];
    // 1 ms each to send, and 5 ms to travel.
    assert_eq!(at(&connection.sink.log), [6 * MS, 7 * MS, 8 * MS]);
    // 40 µs to send, 5 ms to travel, and no queue.
    let answers = [11 * MS + 40 * US, 12 * MS + 40 * US, 13 * MS + 40 * US];
    assert_eq!(at(&connection.source.log), answers);
    let tally = &network.counted[0].tally;
    assert_eq!((tally.data_segments, tally.acks_total), (3, 3));
    assert_eq!(network.hops, 6);
    // One event for the start, and one for each packet on each line.
    assert_eq!(network.events(), 7);
}

#[test]
fn a_header_counts_against_the_rate() {
    let there = vec![line(rate(MBIT8, 0, 10), 14)];
    let back = vec![line(rate(MBIT8, 0, 10), 14)];
    let network = run(network(there, back, 1));
    let connection = &network.connections[0];
    assert_eq!(at(&connection.sink.log), [1014 * US]);
    assert_eq!(at(&connection.source.log), [(1014 + 54) * US]);
}

#[test]
fn two_links_store_and_forward() {
    // The second line has half of the rate.
    let there = vec![
        line(rate(MBIT8, 5 * MS, 10), 0),
        line(rate(MBIT8 / 2, MS, 10), 0),
    ];
    let back = vec![line(LinkConfig::default(), 0)];
    let network = run(network(there, back, 3));
    // At the router at 6, 7 and 8 ms; sent there until 8, 10 and 12 ms.
    let log = at(&network.connections[0].sink.log);
    assert_eq!(log, [9 * MS, 11 * MS, 13 * MS]);
    let queue = network.lines[1].wire.link().stats();
    assert_eq!((queue.queue_max_packets, queue.wait_max_ns), (1, 2 * MS));
    // One packet waits from 7 to 8 ms, another from 8 to 10 ms.
    assert_eq!(queue.queue_packet_ns, u128::from(3 * MS));
}

#[test]
fn a_full_queue_drops_and_a_departure_precedes_an_arrival() {
    let there = vec![
        line(rate(MBIT8, 5 * MS, 10), 0),
        line(rate(MBIT8 / 2, MS, 1), 0),
    ];
    let back = vec![line(LinkConfig::default(), 0)];
    let network = run(network(there, back, 4));
    // The third packet arrives at 8 ms, when the second leaves the queue, and finds room;
    // the fourth arrives at 9 ms and finds the third in the queue.
    let log = &network.connections[0].sink.log;
    assert_eq!(*log, [(9 * MS, 1), (11 * MS, 2), (13 * MS, 3)]);
    assert_eq!(network.lines[1].wire.link().stats().dropped_queue, 1);
    assert_eq!(network.connections[0].in_flight, 0);
}

#[test]
fn packets_are_used_again() {
    let there = vec![line(rate(MBIT8, 0, 1000), 0)];
    let back = vec![line(rate(MBIT8, 0, 1000), 0)];
    let network = run(network(there, back, 500));
    // The packets of the burst, and the one that the sender was asked for after them; each answer
    // reuses a packet that has arrived.
    assert_eq!(network.allocated(), 501);
}

fn any_line() -> impl Strategy<Value = LinkConfig> {
    let probability = || (0u32..30).prop_map(|p| Probability::from_fraction(f64::from(p) / 100.0));
    let queue = prop_oneof![
        (1usize..20).prop_map(QueueLimit::Packets),
        (1000u64..20_000).prop_map(QueueLimit::Bytes),
    ];
    let rate = prop_oneof![Just(None), (100_000u64..100_000_000).prop_map(Some)];
    let reorder = proptest::option::of((probability(), 0u64..20 * MS));
    (
        rate,
        queue,
        0u64..20 * MS,
        probability(),
        probability(),
        reorder,
        any::<u64>(),
    )
        .prop_map(
            |(rate_bps, queue, delay_ns, loss, duplicate, reorder, seed)| LinkConfig {
                rate_bps,
                queue,
                delay_ns,
                jitter_ns: delay_ns / 3,
                loss,
                duplicate,
                reorder: reorder.map(|(probability, extra_delay_ns)| ackwise_queue::Reorder {
                    probability,
                    extra_delay_ns,
                }),
                seed,
            },
        )
}

proptest! {
    /// All packets come from the sender, all of them end somewhere, and no
    /// queue exceeds its limit.
    #[test]
    fn packets_are_conserved(
        configs in proptest::collection::vec(any_line(), 1..4),
        back in any_line(),
        packets in 1u64..100,
    ) {
        let there = configs.iter().map(|config| line(*config, 0)).collect();
        let network = run(network(there, vec![line(back, 0)], packets));
        prop_assert_eq!(network.connections[0].in_flight, 0);
        let mut entering = packets;
        for line in &network.lines {
            let (link, stats) = (line.wire.link(), line.wire.link().stats());
            prop_assert_eq!(stats.offered_packets, entering);
            prop_assert_eq!(link.backlog(), 0);
            prop_assert_eq!(stats.offered_packets, stats.delivered_packets + stats.dropped());
            entering = stats.delivered_packets + stats.duplicated;
            match link.config().queue {
                QueueLimit::Packets(most) => prop_assert!(stats.queue_max_packets <= most),
                QueueLimit::Bytes(most) => prop_assert!(stats.queue_max_bytes <= most),
                QueueLimit::Unlimited => {}
            }
        }
        let connection = &network.connections[0];
        prop_assert_eq!(connection.source.log.len() as u64, entering);
        prop_assert!(connection.sink.log.iter().all(|(_, number)| (1..=packets).contains(number)));
        // Time does not go back.
        prop_assert!(connection.sink.log.windows(2).all(|two| two[0].0 <= two[1].0));
    }
}
