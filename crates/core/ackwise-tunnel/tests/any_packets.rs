//! Random flows through both ends, over a path that loses, reorders and duplicates: what comes out
//! is what went in, in the order of each flow.

use std::collections::{HashMap, HashSet};

use ackwise_tunnel::{Decoder, Encoder, MAX_UNCOMPRESSED, MIN_BUNDLE, Packets, Pushed, Variant};
use proptest::prelude::*;

/// A change to the flow's next packet.
#[derive(Debug, Clone)]
enum Change {
    Ack(u32),
    Window(u16),
    Id(u16),
    Timestamps(u32, u32),
    Sack(Vec<(u32, u32)>),
    GrowFirst(u32),
    Options(Vec<u8>),
    Linux,
    Flags(u16),
    Seq(u32),
    Rest(u8, u8, u16),
    BadChecksum,
    Ecn(u8, u32),
}

fn change() -> impl Strategy<Value = Change> {
    let edge = prop_oneof![0..20_u32, (0..20_u32).prop_map(|n| n * 1448), any::<u32>()];
    prop_oneof![
        8 => prop_oneof![Just(1448), Just(2896), 0..20_000_u32, any::<u32>()].prop_map(Change::Ack),
        2 => any::<u16>().prop_map(Change::Window),
        1 => any::<u16>().prop_map(Change::Id),
        3 => (0..5_u32, any::<u32>()).prop_map(|(a, b)| Change::Timestamps(a, b)),
        2 => prop::collection::vec((edge.clone(), edge.clone()), 1..5).prop_map(Change::Sack),
        3 => edge.prop_map(Change::GrowFirst),
        1 => prop::collection::vec(any::<u8>(), 0..10).prop_map(Change::Options),
        1 => Just(Change::Linux),
        1 => (0..0x1000_u16).prop_map(Change::Flags),
        1 => any::<u32>().prop_map(Change::Seq),
        1 => (any::<u8>(), any::<u8>(), any::<u16>()).prop_map(|(a, b, c)| Change::Rest(a, b, c)),
        1 => Just(Change::BadChecksum),
        1 => (0..4_u8, any::<u32>()).prop_map(|(n, v)| Change::Ecn(n, v)),
    ]
}

/// A flow as its receiver sees it.
#[derive(Debug, Clone)]
struct Flow {
    v6: bool,
    port: u16,
    seq: u32,
    ack: u32,
    window: u16,
    id: u16,
    flags: u16,
    tos: u8,
    ttl: u8,
    urgent: u16,
    ts: Option<(u32, u32)>,
    sack: Vec<(u32, u32)>,
    ecn: Option<(u8, u32)>,
    extra: Vec<u8>,
}

impl Flow {
    fn new(port: u16, v6: bool) -> Flow {
        Flow {
            v6,
            port,
            seq: 1,
            ack: u32::MAX - 10_000,
            window: 500,
            id: 7,
            flags: 0x10,
            tos: 0,
            ttl: 64,
            urgent: 0,
            ts: Some((u32::MAX, 5)),
            sack: Vec::new(),
            ecn: None,
            extra: Vec::new(),
        }
    }

    /// The next packet.
    fn next(&mut self, change: &Change) -> Vec<u8> {
        let mut bad = false;
        match change.clone() {
            Change::Ack(by) => self.ack = self.ack.wrapping_add(by),
            Change::Window(window) => self.window = window,
            Change::Id(id) => self.id = id,
            Change::Timestamps(val, ecr) => {
                let (old, _) = self.ts.unwrap_or_default();
                self.ts = Some((old.wrapping_add(val), ecr));
            }
            Change::Sack(blocks) => {
                self.sack = blocks
                    .iter()
                    .map(|(left, len)| {
                        let left = self.ack.wrapping_add(*left);
                        (left, left.wrapping_add(*len))
                    })
                    .collect();
            }
            Change::GrowFirst(by) => {
                if let Some(first) = self.sack.first_mut() {
                    first.1 = first.1.wrapping_add(by);
                    self.sack.rotate_left(usize::from(by % 3 == 1));
                }
            }
            Change::Options(extra) => {
                self.extra = extra;
                self.ts = None;
            }
            Change::Linux => {
                self.extra.clear();
                self.sack.clear();
                self.ecn = None;
                self.ts = Some((1, 2));
            }
            Change::Flags(flags) => self.flags = flags,
            Change::Seq(seq) => self.seq = seq,
            Change::Rest(tos, ttl, urgent) => {
                (self.tos, self.ttl, self.urgent) = (tos, ttl, urgent);
            }
            Change::BadChecksum => bad = true,
            Change::Ecn(counters, value) => self.ecn = Some((counters, value)),
        }
        self.id = self.id.wrapping_add(1);
        self.packet(bad)
    }

    fn options(&self) -> Vec<u8> {
        let mut options = Vec::new();
        if let Some((val, ecr)) = self.ts {
            options.extend([1, 1, 8, 10]);
            options.extend(val.to_be_bytes());
            options.extend(ecr.to_be_bytes());
        }
        if !self.sack.is_empty() {
            options.extend([1, 1, 5, 2 + 8 * self.sack.len() as u8]);
            for (left, right) in &self.sack {
                options.extend(left.to_be_bytes());
                options.extend(right.to_be_bytes());
            }
        }
        if let Some((counters, value)) = self.ecn {
            options.extend([174, 2 + 3 * counters]);
            for i in 0..counters {
                options.extend(&value.wrapping_add(u32::from(i)).to_be_bytes()[1..]);
            }
        }
        options.extend(&self.extra);
        options.truncate(40);
        while !options.len().is_multiple_of(4) {
            options.push(1);
        }
        options
    }

    fn packet(&self, bad: bool) -> Vec<u8> {
        let options = self.options();
        let mut tcp = Vec::new();
        tcp.extend(self.port.to_be_bytes());
        tcp.extend(443_u16.to_be_bytes());
        tcp.extend(self.seq.to_be_bytes());
        tcp.extend(self.ack.to_be_bytes());
        let offset = (5 + options.len() / 4) as u16;
        tcp.extend((offset << 12 | self.flags).to_be_bytes());
        tcp.extend(self.window.to_be_bytes());
        tcp.extend([0, 0]);
        tcp.extend(self.urgent.to_be_bytes());
        tcp.extend(&options);
        let addresses = if self.v6 { vec![0xfe; 32] } else { vec![10; 8] };
        let mut pseudo = addresses.clone();
        pseudo.extend([0, 6]);
        pseudo.extend((tcp.len() as u16).to_be_bytes());
        pseudo.extend(&tcp);
        let sum = checksum(&pseudo) ^ u16::from(bad);
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());

        let mut packet = Vec::new();
        if self.v6 {
            packet.extend([0x60 | self.tos >> 4, self.tos << 4, 1, 2]);
            packet.extend((tcp.len() as u16).to_be_bytes());
            packet.extend([6, self.ttl]);
            packet.extend(addresses);
        } else {
            packet.extend([0x45, self.tos]);
            packet.extend((tcp.len() as u16 + 20).to_be_bytes());
            packet.extend(self.id.to_be_bytes());
            packet.extend([0x40, 0, self.ttl, 6, 0, 0]);
            packet.extend(addresses);
            let sum = checksum(&packet);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        packet.extend(tcp);
        packet
    }
}

/// The checksum of RFC 1071, one 16-bit word at a time: not the code of `ackwise_headers`, which
/// the codec uses to check checksums.
fn checksum(bytes: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// What happens next.
#[derive(Debug, Clone)]
enum Step {
    Packet(u8, Change),
    Other(Vec<u8>),
    Bundle { fate: u8, late: u8, room: usize },
    Feedback { lost: bool },
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0..6_u8, change()).prop_map(|(flow, change)| Step::Packet(flow, change)),
        1 => prop::collection::vec(any::<u8>(), 0..80).prop_map(Step::Other),
        1 => (0..=MAX_UNCOMPRESSED).prop_map(|len| Step::Other(vec![len as u8; len])),
        4 => (any::<u8>(), 0..6_u8, MIN_BUNDLE..1500)
            .prop_map(|(fate, late, room)| Step::Bundle { fate, late, room }),
        3 => any::<bool>().prop_map(|lost| Step::Feedback { lost }),
        1 => Just(Step::Restart),
    ]
}

/// Everything on the path.
struct Harness {
    variant: Variant,
    max_flows: u16,
    encoder: Encoder,
    decoder: Decoder,
    number: u64,
    /// The packets waiting in the encoder, then those in each bundle.
    waiting: Vec<Sent>,
    in_flight: Vec<Bundle>,
}

/// A bundle's delay, its number, its bytes, and its packets.
type Bundle = (u8, u64, Vec<u8>, Vec<Sent>);

/// A packet, and how it is carried.
type Sent = (Vec<u8>, Pushed);

impl Harness {
    fn push(&mut self, packet: Vec<u8>) {
        let how = self.encoder.push(&packet);
        if how != Pushed::Refused {
            self.waiting.push((packet, how));
        }
    }

    fn bundle(&mut self, fate: u8, late: u8, room: usize) {
        while !self.encoder.is_empty() {
            self.number += 1;
            let mut bytes = Vec::new();
            let made = self.encoder.finish(self.number, None, room, &mut bytes);
            assert!(bytes.len() <= room && made.packets > 0);
            let inside = if made.left == 0 {
                std::mem::take(&mut self.waiting)
            } else {
                // Only the encoder knows which packets stayed: compare when they are through.
                return self.split(bytes, room);
            };
            match fate % 8 {
                0 => {}
                1 => {
                    let copy = (late, self.number, bytes.clone(), inside.clone());
                    self.in_flight.push(copy);
                    self.in_flight.push((0, self.number, bytes, inside));
                }
                2 => self.in_flight.push((late, self.number, bytes, inside)),
                _ => self.in_flight.push((0, self.number, bytes, inside)),
            }
        }
    }

    /// Several bundles for the waiting packets; all arrive, at once.
    fn split(&mut self, first: Vec<u8>, room: usize) {
        let mut packets = Packets::default();
        let decoded = self.decoder.decode(self.number, &first, &mut packets);
        decoded.expect("nothing is missing");
        while !self.encoder.is_empty() {
            self.number += 1;
            let mut bytes = Vec::new();
            let made = self.encoder.finish(self.number, None, room, &mut bytes);
            assert!(bytes.len() <= room && made.packets > 0);
            let decoded = self.decoder.decode(self.number, &bytes, &mut packets);
            decoded.expect("nothing is missing");
        }
        assert_same(&std::mem::take(&mut self.waiting), &packets);
    }

    fn deliver(&mut self) {
        for (mut late, number, bytes, inside) in std::mem::take(&mut self.in_flight) {
            if late > 0 {
                late -= 1;
                self.in_flight.push((late, number, bytes, inside));
                continue;
            }
            let mut packets = Packets::default();
            match self.decoder.decode(number, &bytes, &mut packets) {
                Ok(_) => assert_same(&inside, &packets),
                Err(ackwise_tunnel::DecodeError::Duplicate) => assert!(packets.is_empty()),
                Err(error) => panic!("bundle {number} arrived: {error}"),
            }
        }
    }
}

/// Asserts that these are the packets that went in, each flow in order.
fn assert_same(inside: &[Sent], packets: &Packets) {
    assert_eq!(inside.len(), packets.len());
    type Sides<'a> = (Vec<&'a [u8]>, Vec<&'a [u8]>);
    let mut flows: HashMap<u32, Sides> = HashMap::new();
    let mut unordered = HashSet::new();
    let key = |p: &[u8]| match p.first() {
        Some(0x45) if p.len() >= 40 => u32::from(p[20]) << 8 | u32::from(p[21]),
        Some(0x60..=0x6f) if p.len() >= 60 => 1 << 16 | u32::from(p[40]) << 8 | u32::from(p[41]),
        _ => u32::MAX,
    };
    for (packet, how) in inside {
        flows.entry(key(packet)).or_default().0.push(packet);
        if *how == Pushed::Uncompressed {
            unordered.insert(key(packet));
        }
    }
    for packet in packets.iter() {
        flows.entry(key(packet)).or_default().1.push(packet);
    }
    for (key, (mut went_in, mut came_out)) in flows {
        // Packets carried uncompressed may overtake those of their flow.
        if unordered.contains(&key) {
            went_in.sort_unstable();
            came_out.sort_unstable();
        }
        assert_eq!(went_in, came_out);
    }
}

fn play(variant: Variant, max_flows: u16, steps: &[Step]) {
    let mut flows: Vec<Flow> = (0..6).map(|i| Flow::new(i, i >= 3)).collect();
    let mut net = Harness {
        variant,
        max_flows,
        encoder: Encoder::new(variant, max_flows),
        decoder: Decoder::new(max_flows),
        number: 0,
        waiting: Vec::new(),
        in_flight: Vec::new(),
    };
    for step in steps {
        match step {
            Step::Packet(flow, change) => {
                let packet = flows[usize::from(*flow)].next(change);
                net.push(packet);
            }
            Step::Other(packet) => {
                net.push(packet.clone());
            }
            Step::Bundle { fate, late, room } => {
                net.bundle(*fate, *late, *room);
                net.deliver();
            }
            Step::Feedback { lost } => {
                if let Some(feedback) = net.decoder.feedback().filter(|_| !lost) {
                    net.encoder.acknowledge(&feedback);
                }
            }
            Step::Restart => {
                // A new session has new keys: what is in flight can no longer be opened.
                net.encoder = Encoder::new(net.variant, net.max_flows);
                net.decoder = Decoder::new(net.max_flows);
                net.waiting.clear();
                net.in_flight.clear();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_comes_out_is_what_went_in(
        entropy: bool,
        max_flows in 1..8_u16,
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let variant = if entropy { Variant::Entropy } else { Variant::Aligned };
        play(variant, max_flows, &steps);
    }
}

#[test]
fn a_bundle_that_was_overtaken_by_many_finds_what_it_refers_to() {
    for variant in [Variant::Aligned, Variant::Entropy] {
        let mut flow = Flow::new(1, false);
        let (mut encoder, mut decoder) = (Encoder::new(variant, 8), Decoder::new(8));
        let mut late = None;
        for number in 1..=200_u64 {
            let packet = flow.next(&Change::Ack(1448));
            encoder.push(&packet);
            let mut bytes = Vec::new();
            encoder.finish(number, None, 1200, &mut bytes);
            let mut packets = Packets::default();
            if number == 60 {
                late = Some((bytes, packet));
                continue;
            }
            decoder
                .decode(number, &bytes, &mut packets)
                .expect("complete");
            assert_eq!(packets.iter().collect::<Vec<_>>(), [packet]);
            // Feedback gets through once, then no more: references grow old.
            if number == 5 {
                encoder.acknowledge(&decoder.feedback().expect("some"));
            }
            if number == 90 {
                let (bytes, packet) = late.take().expect("held back");
                packets.clear();
                decoder
                    .decode(60, &bytes, &mut packets)
                    .expect("late, not lost");
                assert_eq!(packets.iter().collect::<Vec<_>>(), [packet]);
            }
        }
    }
}

#[test]
fn packets_that_end_in_zeros_arrive() {
    for variant in [Variant::Aligned, Variant::Entropy] {
        for zeros in 0..300 {
            let packet = [vec![7; 3], vec![0; zeros]].concat();
            let mut encoder = Encoder::new(variant, 8);
            assert_eq!(encoder.push(&packet), Pushed::Uncompressed);
            let (mut bytes, mut packets) = (Vec::new(), Packets::default());
            encoder.finish(1, None, 1200, &mut bytes);
            let decoded = Decoder::new(8).decode(1, &bytes, &mut packets);
            decoded.expect("nothing is missing");
            assert_eq!(packets.iter().collect::<Vec<_>>(), [packet]);
        }
    }
}
