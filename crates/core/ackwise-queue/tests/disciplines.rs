//! Properties of every discipline under any traffic.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::num::{NonZeroU32, NonZeroU64};

use ackwise_queue::{
    BundleSizes, Channel, ChannelConfig, Departure, Ecn, FilterConfig, FilterRule, FqCodelConfig,
    LinkConfig, MuxConfig, Nanos, Place, QueueConfig, QueueLimit, RedConfig, Release, Select,
    Verdict,
};
use common::{ACK, ECE, FIN, RST, SYN, TestPacket, TestQueue, URG, ack};
use proptest::prelude::*;

/// What the receiver of one of three flows does next.
#[derive(Debug, Clone)]
enum Step {
    /// Acknowledges this many more bytes.
    Move(u32),
    /// Sends a plain duplicate.
    Repeat,
    /// Reports a block that begins this many bytes above.
    Sack(u32),
    Window(u16),
    Echo,
    Data(u32),
    Reset(u16),
    Mark,
    /// The queue sends this many packets.
    Serve(u8),
}

fn steps() -> impl Strategy<Value = Vec<(u32, Step)>> {
    let step = prop_oneof![
        20 => (1_u32..6_000).prop_map(Step::Move),
        2 => Just(Step::Repeat),
        2 => (1_u32..20_000).prop_map(Step::Sack),
        1 => (0_u16..2_000).prop_map(Step::Window),
        1 => Just(Step::Echo),
        1 => (1_u32..1_460).prop_map(Step::Data),
        1 => prop_oneof![Just(FIN), Just(RST)].prop_map(Step::Reset),
        1 => Just(Step::Mark),
        10 => (0_u8..4).prop_map(Step::Serve),
    ];
    prop::collection::vec((0_u32..3, step), 1..400)
}

fn rules() -> impl Strategy<Value = FilterRule> {
    prop_oneof![
        contracts(),
        Just(FilterRule::Ns2Append),
        any::<bool>().prop_map(|aggressive| FilterRule::Cake { aggressive }),
    ]
}

fn contracts() -> impl Strategy<Value = FilterRule> {
    let stretch = prop_oneof![Just(None), (1_u32..40_000).prop_map(Some)];
    prop_oneof![
        stretch.clone().prop_map(|max_stretch| FilterRule::Rfc3449 {
            keep: 0,
            place: Place::Replace,
            max_stretch
        }),
        (0_u32..3, stretch).prop_map(|(keep, max_stretch)| FilterRule::Rfc3449 {
            keep,
            place: Place::Append,
            max_stretch
        }),
    ]
}

fn configs(rules: impl Strategy<Value = FilterRule>) -> impl Strategy<Value = QueueConfig> {
    let limits = prop_oneof![
        (1_usize..60).prop_map(QueueLimit::Packets),
        (1_500_u64..20_000).prop_map(QueueLimit::Bytes),
    ];
    let red = prop_oneof![
        3 => Just(None),
        1 => any::<bool>().prop_map(|ecn| Some(RedConfig { ecn, ..RedConfig::floyd(1_000_000) })),
    ];
    let filter = prop::option::weighted(0.8, (rules, 1_u32..5));
    // Neither CoDel nor a limit drops anything here: tests/fq_codel.rs covers that.
    let patient = |(flows, quantum, ack_share)| FqCodelConfig {
        flows,
        quantum: Some(quantum),
        ack_share,
        target_ns: Some(Nanos::MAX),
        ..FqCodelConfig::new(None)
    };
    let share = prop::option::of(0.01_f64..0.99);
    let fq_codel = prop::option::weighted(0.3, (1_u32..9, 64_u32..2_000, share).prop_map(patient));
    (
        limits,
        red,
        filter,
        prop::option::of(1_u32..5),
        any::<u64>(),
        fq_codel,
    )
        .prop_map(|(limit, red, filter, first, seed, fq_codel)| QueueConfig {
            red,
            fq_codel,
            ack_filter: filter.map(|(rule, max_flows)| FilterConfig {
                max_flows,
                ..FilterConfig::new(rule)
            }),
            acks_first: first.and_then(NonZeroU32::new),
            seed,
            ..QueueConfig::drop_tail(fq_codel.map_or(limit, |_| QueueLimit::Unlimited))
        })
}

/// Segments of three receivers, generated from steps.
struct Source {
    next: u32,
    flows: [TestPacket; 3],
}

impl Source {
    fn new(base: u32) -> Self {
        let flow = |n: u32| ack(0, base.wrapping_add(n * 100_000)).flow(n);
        Self {
            next: 1,
            flows: [flow(0), flow(1), flow(2)],
        }
    }

    fn make(&mut self, flow: u32, step: &Step) -> Option<TestPacket> {
        let state = &mut self.flows[flow as usize];
        let mut packet = *state;
        match step {
            Step::Serve(_) => return None,
            Step::Move(by) => {
                state.ack = state.ack.wrapping_add(*by);
                state.n_sack = 0;
                packet = *state;
            }
            Step::Repeat => {}
            Step::Sack(above) => {
                let left = state.ack.wrapping_add(*above);
                *state = state.sack(&[(left, left.wrapping_add(1_000))]);
                packet = *state;
            }
            Step::Window(window) => {
                state.window = *window;
                packet = *state;
            }
            Step::Echo => {
                state.flags ^= ECE;
                packet = *state;
            }
            Step::Data(payload) => packet.payload = *payload,
            Step::Reset(flag) => packet.flags = ACK | flag,
            Step::Mark => packet.ecn = Ecn::Marked,
        }
        packet.id = self.next;
        self.next += 1;
        Some(packet)
    }
}

/// Everything that went in, came out (in order), or was dropped; ids are unique.
#[derive(Default)]
struct Outcome {
    offered: BTreeMap<u32, TestPacket>,
    rejected: BTreeSet<u32>,
    out: Vec<TestPacket>,
    filtered: BTreeSet<u32>,
}

fn run(config: &QueueConfig, steps: &[(u32, Step)], base: u32) -> Outcome {
    let mut bench = TestQueue::new(config);
    let mut source = Source::new(base);
    let mut outcome = Outcome::default();
    // Grown flows, past the contract's start.
    for flow in 0..3 {
        for _ in 0..12 {
            let packet = source.make(flow, &Step::Move(536)).unwrap();
            bench.put(packet);
            bench.take();
        }
    }
    bench.gone.clear();
    let before = bench.queue.stats().filtered;
    let red = config.red.is_some();
    for (flow, step) in steps {
        if let Step::Serve(count) = step {
            outcome.out.extend((0..*count).filter_map(|_| bench.take()));
            continue;
        }
        let packet = source.make(*flow, step).unwrap();
        outcome.offered.insert(packet.id, packet);
        let before = bench.gone.len();
        if !bench.put(packet) {
            outcome.rejected.insert(packet.id);
            assert_eq!(
                bench.gone.len(),
                before + 1,
                "a rejected packet takes nothing with it"
            );
        }
        use ackwise_queue::QueueDiscipline;
        match config.limit {
            QueueLimit::Packets(limit) => assert!(bench.queue.packets() <= limit),
            QueueLimit::Bytes(limit) if !red => assert!(bench.queue.bytes() <= limit),
            _ => {}
        }
    }
    outcome.out.extend(std::iter::from_fn(|| bench.take()));
    outcome.filtered = bench.gone.iter().copied().collect::<BTreeSet<_>>();
    outcome.filtered.retain(|id| !outcome.rejected.contains(id));
    let counted = bench.queue.stats().filtered - before;
    assert_eq!(counted, outcome.filtered.len() as u64);
    outcome
}

fn flow(packets: &[TestPacket], flow: u32) -> impl Iterator<Item = &TestPacket> {
    packets.iter().filter(move |packet| packet.flow == flow)
}

fn ahead(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) as i32 > 0
}

fn conserved(outcome: &Outcome) {
    let mut seen = BTreeSet::new();
    for id in outcome.out.iter().map(|packet| packet.id) {
        assert!(outcome.offered.contains_key(&id), "out of nothing");
        assert!(seen.insert(id), "twice");
    }
    for id in outcome.rejected.iter().chain(&outcome.filtered) {
        assert!(seen.insert(*id), "gone and there");
    }
    assert_eq!(seen.len(), outcome.offered.len());
}

/// Data of a flow keep their order among themselves, and so does everything else of it. The end of
/// a connection keeps its place among its data.
fn in_order(outcome: &Outcome, replaced: bool) {
    let with_data = |packet: &&TestPacket| {
        let ends = packet.flags & (FIN | RST | URG) != 0 || packet.flags & (ACK | SYN) == 0;
        packet.payload > 0 || ends
    };
    for number in 0..3 {
        for data in [true, false] {
            let ids: Vec<u32> = flow(&outcome.out, number)
                .filter(|packet| with_data(packet) == data)
                .map(|packet| packet.id)
                .collect();
            assert!(
                replaced && !data || ids.windows(2).all(|pair| pair[0] < pair[1]),
                "{ids:?}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn packets_are_conserved_and_stay_in_order(
        config in configs(rules()),
        steps in steps(),
        base in prop_oneof![Just(0), Just(u32::MAX - 30_000), any::<u32>()],
    ) {
        let outcome = run(&config, &steps, base);
        conserved(&outcome);
        let replaced = config.ack_filter.is_some_and(|filter| matches!(
            filter.rule,
            FilterRule::Rfc3449 { place: Place::Replace, .. }
        ));
        in_order(&outcome, replaced);
        for id in &outcome.filtered {
            let gone = outcome.offered[id];
            assert!(ackwise_queue::Packet::is_pure_ack(&gone));
            // One with a number at least as high was enqueued after it.
            assert!(outcome.offered.range(id + 1..).any(|(later, packet)| {
                packet.flow == gone.flow
                    && !ahead(gone.ack, packet.ack)
                    && !outcome.rejected.contains(later)
            }));
        }
    }

    /// The rule of RFC 3449 under the contract.
    #[test]
    fn the_contract_is_kept(
        config in configs(contracts()),
        steps in steps(),
        base in prop_oneof![Just(0), Just(u32::MAX - 30_000), any::<u32>()],
    ) {
        let outcome = run(&config, &steps, base);
        for number in 0..3 {
            let taken: Vec<&TestPacket> = outcome
                .offered
                .values()
                .filter(|packet| packet.flow == number && !outcome.rejected.contains(&packet.id))
                .collect();
            // The newest number that was enqueued comes out.
            if let Some(newest) = taken.iter().map(|packet| packet.ack).reduce(
                |a, b| if ahead(b, a) { b } else { a },
            ) {
                assert!(flow(&outcome.out, number).any(|packet| packet.ack == newest));
            }
            for pair in taken.windows(2) {
                let (old, new) = (pair[0], pair[1]);
                let kept = !outcome.filtered.contains(&new.id);
                let plain = |packet: &TestPacket| {
                    packet.payload == 0 && packet.flags & !ECE == ACK
                };
                if !(plain(old) && plain(new)) {
                    continue;
                }
                // Duplicates stay, and their originals with them.
                if new.ack == old.ack && new.window == old.window && new.n_sack == 0 {
                    assert!(kept);
                    if old.n_sack == 0 && old.flags == new.flags {
                        assert!(!outcome.filtered.contains(&old.id), "the original went");
                    }
                }
                // A change of ECE, a new block, a smaller window, a mark.
                if new.flags != old.flags
                    || new.n_sack > 0 && new.sack != old.sack
                    || new.window < old.window
                    || new.ecn == Ecn::Marked
                {
                    assert!(kept, "{old:?} {new:?}");
                }
            }
        }
        for id in &outcome.filtered {
            let gone = outcome.offered[id];
            assert_eq!(gone.flags & !ECE, ACK);
            assert_eq!(gone.payload, 0);
        }
    }

    /// No ACK covers more than max_stretch because others were removed.
    #[test]
    fn stretches_are_bounded(
        moves in prop::collection::vec((1_u32..4_000, 0_u8..3), 1..200),
        most in 1_u32..30_000,
        replace in any::<bool>(),
    ) {
        let place = if replace { Place::Replace } else { Place::Append };
        let config = QueueConfig {
            ack_filter: Some(FilterConfig::new(FilterRule::Rfc3449 {
                keep: 0,
                place,
                max_stretch: Some(most),
            })),
            ..QueueConfig::drop_tail(QueueLimit::Unlimited)
        };
        let steps: Vec<(u32, Step)> = moves
            .iter()
            .flat_map(|(by, serve)| [(0, Step::Move(*by)), (0, Step::Serve(*serve))])
            .collect();
        let outcome = run(&config, &steps, 0);
        let mut covered = 12 * 536;
        for packet in &outcome.out {
            let own = outcome.offered.range(..packet.id).next_back();
            let before = own.map_or(12 * 536, |(_, packet)| packet.ack);
            // What it covers by itself cannot be changed.
            assert!(packet.ack - covered <= most.max(packet.ack - before));
            covered = packet.ack;
        }
    }

    /// Bundles leave at ticks, wait for at most a period, and keep their order.
    #[test]
    fn ticks_are_kept(
        gaps in prop::collection::vec(0_u64..3_000_000, 1..100),
        period in 1_u64..20_000_000,
        phase in 0_u64..20_000_000,
    ) {
        let mut channel: Channel<TestPacket> = Channel::new(ChannelConfig {
            mux: Some(MuxConfig {
                period: NonZeroU64::new(period).unwrap(),
                release: Release::Ticks { phase },
                max_packets: MuxConfig::<u32>::MAX_PACKETS,
                max_bytes: None,
                sizes: BundleSizes::default(),
                compress: false,
                select: Select::pure_acks(),
            }),
            ..ChannelConfig::plain(
                LinkConfig::default(),
                QueueConfig::drop_tail(QueueLimit::Unlimited),
            )
        });
        let mut now = 0;
        let mut arrivals = Vec::new();
        let mut out: Vec<(u32, Nanos)> = Vec::new();
        let collect = |channel: &mut Channel<TestPacket>, until: Nanos, out: &mut Vec<(u32, Nanos)>| {
            while let Some(at) = channel.next_wakeup().filter(|at| *at <= until) {
                while let Some(departure) = channel.pop_due(at) {
                    if let Departure::Delivered { packet, due_ns, .. } = departure {
                        out.push((packet.id, due_ns));
                    }
                }
            }
        };
        for (id, gap) in gaps.iter().enumerate() {
            now += gap;
            collect(&mut channel, now, &mut out);
            arrivals.push(now);
            let taken = channel.enqueue(ack(id as u32, 0), 40, now);
            assert!(matches!(taken, Verdict::Queued));
        }
        collect(&mut channel, Nanos::MAX - 1, &mut out);
        assert_eq!(out.len(), gaps.len());
        for (index, (id, at)) in out.iter().enumerate() {
            assert_eq!(*id as usize, index);
            let came = arrivals[index];
            assert!(*at >= phase && (at - phase) % period == 0);
            assert!(*at >= came && (at - came < period || *at == phase));
        }
        let stats = channel.middleboxes().mux.unwrap();
        assert_eq!(stats.packets, gaps.len() as u64);
        assert_eq!(stats.bundle_bytes, 25 * stats.bundles + 8 * stats.packets);
    }
}
