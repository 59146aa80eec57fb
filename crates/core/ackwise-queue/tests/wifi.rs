//! The 802.11n medium, compared with formulas that are computed here.

use ackwise_queue::wifi::{WifiConfig, WifiStats, ppdu_ns};
use ackwise_queue::{
    Departure, DropTail, HalfDuplex, Link, LinkConfig, Nanos, QueueLimit, Verdict,
};
use ackwise_rng::Rng;

type Wire = Link<u32, DropTail<u32>>;

struct Air {
    links: [Wire; 2],
    medium: HalfDuplex,
}

fn config(rate_bps: u64, max_frames: u32, seed: u64) -> WifiConfig {
    WifiConfig {
        rates_bps: [rate_bps; 2],
        header: 14,
        max_frames,
        max_bytes: 65_535,
        txop_ns: None,
        seed,
    }
}

impl Air {
    fn new(config: WifiConfig) -> Air {
        let mut links = [0, 1].map(|_| {
            Link::drop_tail(LinkConfig {
                queue: QueueLimit::Unlimited,
                ..LinkConfig::default()
            })
        });
        let medium = HalfDuplex::wifi(links.each_mut(), config);
        Air { links, medium }
    }

    /// Offers an IP packet.
    fn send(&mut self, direction: usize, packet: u32, ip_len: u32, now: Nanos) {
        let links = self.links.each_mut();
        let verdict = self
            .medium
            .enqueue(links, direction, packet, ip_len + 14, now);
        assert_eq!(verdict, Verdict::Queued);
    }

    fn arrived(&mut self, now: Nanos) -> Vec<(usize, u32, Nanos)> {
        self.medium.advance(self.links.each_mut(), now);
        let mut out = Vec::new();
        for (direction, link) in self.links.iter_mut().enumerate() {
            while let Some(departure) = link.pop_due(now) {
                if let Departure::Delivered { packet, due_ns, .. } = departure {
                    out.push((direction, packet, due_ns));
                }
            }
        }
        out
    }

    /// Polls as an engine does, from wake-up to wake-up, up to this time.
    fn run(&mut self, until: Nanos) -> Vec<(usize, u32, Nanos)> {
        let mut out = Vec::new();
        let (mut before, mut idle) = (0, 0);
        while let Some(at) = self.links.iter().filter_map(Link::next_wakeup).min() {
            if at > until {
                break;
            }
            idle = if at == before { idle + 1 } else { 0 };
            assert!(idle < 3, "no progress at {at} ns");
            before = at;
            out.extend(self.arrived(at));
        }
        out
    }

    fn stats(&self) -> WifiStats {
        self.medium.wifi_stats().unwrap()
    }
}

/// The time in microseconds to transmit this many bytes at 65 Mbit/s: 260 bits per symbol of 4 us.
fn ppdu_us(bytes: f64) -> f64 {
    36.0 + 4.0 * ((bytes * 8.0 + 22.0) / 260.0).ceil()
}

#[test]
fn a_packet_on_a_free_medium_goes_at_once() {
    let mut air = Air::new(config(65_000_000, 64, 1));
    air.send(0, 7, 1500, 5_000_000);
    // 1500 bytes and 42 of headers, padded to 1544: 48 symbols.
    assert_eq!(
        air.run(Nanos::MAX),
        [(0, 7, 5_000_000 + 36_000 + 48 * 4_000)]
    );
}

/// One station that always has something to send: each access costs AIFS, 7.5 slots on average, a
/// preamble, and SIFS with its ACK.
#[test]
fn a_station_alone_reaches_what_its_overhead_leaves() {
    for (max_frames, ip_len, ack_us) in [
        (1, 1500, 28.0),
        (64, 1500, 32.0),
        (64, 52, 32.0),
        (8, 300, 32.0),
    ] {
        let mut air = Air::new(config(65_000_000, max_frames, 3));
        for packet in 0..60_000 {
            air.send(0, packet, ip_len, 0);
        }
        let found = air.run(2_000_000_000).len();
        let frame = ((f64::from(ip_len) + 42.0) / 4.0).ceil() * 4.0;
        // At most 65 535 bytes and 5.484 ms.
        let by_bytes = (65_535.0 / frame).floor();
        let by_time = ((5_484.0 - 36.0) / 4.0 * 260.0 / 8.0 / frame).floor();
        let frames = f64::from(max_frames).min(by_bytes).min(by_time);
        let access = 43.0 + 7.5 * 9.0 + ppdu_us(frames * frame) + 16.0 + ack_us;
        let expected = 2e6 / access * frames;
        let ratio = found as f64 / expected.min(60_000.0);
        assert!(
            (0.985..1.015).contains(&ratio),
            "{max_frames} × {ip_len}: {ratio}"
        );
        assert_eq!(air.stats().collisions, 0);
    }
}

/// Bianchi, "Performance Analysis of the IEEE 802.11 Distributed Coordination Function", IEEE JSAC
/// 18(3), 2000, equations 7, 9 and 13, for two stations with W = 16 and six doublings. There, a
/// busy medium counts as a slot; here it does not, as in the standard, which makes about 2 %.
#[test]
fn two_saturated_stations_share_as_bianchi_says() {
    let (w, m, n) = (16.0, 6, 2);
    let (mut low, mut high) = (0.0, 1.0);
    let tau_of = |p: f64| {
        2.0 * (1.0 - 2.0 * p) / ((1.0 - 2.0 * p) * (w + 1.0) + p * w * (1.0 - (2.0 * p).powi(m)))
    };
    for _ in 0..100 {
        let p: f64 = (low + high) / 2.0;
        let tau = tau_of(p + 1e-12);
        match 1.0 - (1.0 - tau).powi(n - 1) > p {
            true => low = p,
            false => high = p,
        }
    }
    let p = low;
    let tau = tau_of(p);
    let some = 1.0 - (1.0 - tau).powi(n);
    let alone = f64::from(n) * tau * (1.0 - tau).powi(n - 1) / some;
    let busy = ppdu_us(1544.0) + 16.0 + 28.0 + 43.0;
    let slot = (1.0 - some) * 9.0 + some * busy;
    let expected = some * alone / slot * 2e6;

    let mut air = Air::new(config(65_000_000, 1, 11));
    for packet in 0..6_000 {
        air.send(0, packet, 1500, 0);
        air.send(1, packet, 1500, 0);
    }
    let found = air.run(2_000_000_000);
    let ratio = found.len() as f64 / expected;
    println!("two stations: {ratio:.4} of what Bianchi has");
    assert!(
        (0.96..1.04).contains(&ratio),
        "{} of {expected}",
        found.len()
    );
    let stats = air.stats();
    let share = stats.exchanges[0] as f64 / found.len() as f64;
    assert!((0.47..0.53).contains(&share), "{share}");
    let collisions = stats.collisions as f64 / (stats.collisions as f64 + found.len() as f64);
    // The share of transmissions that are collisions, of two each.
    assert!(
        (collisions / (1.0 - alone) - 1.0).abs() < 0.25,
        "{collisions} {}",
        1.0 - alone
    );
}

#[test]
fn a_txop_bounds_a_transmission() {
    let mut air = Air::new(WifiConfig {
        txop_ns: Some(1_000_000),
        ..config(65_000_000, 64, 1)
    });
    for packet in 0..100 {
        air.send(0, packet, 1500, 0);
    }
    let found = air.run(Nanos::MAX);
    assert_eq!(found.len(), 100);
    // (1000 − 48 − 36) us are 229 symbols, 7442 bytes: four frames.
    assert_eq!(air.stats().exchanges[0], 25);
}

#[test]
fn nothing_is_lost_and_when_it_is_polled_makes_no_difference() {
    for seed in 0..30 {
        let mut rng = Rng::new(seed);
        let mut now = 0;
        let offers: Vec<(usize, u32, Nanos)> = (0..600)
            .map(|_| {
                now += rng.below(200_000);
                (rng.below(2) as usize, 40 + rng.below(1461) as u32, now)
            })
            .collect();
        let all = |looks: bool| {
            let mut air = Air::new(config(130_000_000, 64, seed));
            let mut found = Vec::new();
            for (packet, &(direction, len, at)) in offers.iter().enumerate() {
                if looks {
                    found.extend(air.arrived(at.saturating_sub(777)));
                }
                air.send(direction, packet as u32, len, at);
            }
            found.extend(air.run(Nanos::MAX));
            found.sort_by_key(|&(direction, packet, due)| (due, direction, packet));
            found
        };
        let found = all(false);
        assert_eq!(found.len(), offers.len());
        assert_eq!(found, all(true));
        for direction in 0..2 {
            let order: Vec<u32> = found
                .iter()
                .filter(|it| it.0 == direction)
                .map(|it| it.1)
                .collect();
            assert!(order.is_sorted(), "seed {seed}");
        }
    }
}

/// From ns-3's own tests: `src/wifi/test/tx-duration-test.cc`, 802.11n, HT-mixed, MCS 7, 20 MHz.
#[test]
fn transmissions_take_as_long_as_in_ns_3() {
    for (bytes, us) in [(1536, 228), (76, 48), (14, 40)] {
        assert_eq!(ppdu_ns(bytes, 65_000_000), us * 1000, "{bytes} bytes");
    }
}

/// ns-3's `examples/wireless/wifi-aggregation.cc`: UDP of 1472 bytes at MCS 7 must reach 58.5 to
/// 59.5 Mbit/s with A-MPDUs of 65 kB, and 30 to 31 Mbit/s without aggregation. Its block ACKs are
/// sent at 6 Mbit/s and take 36 us more than ours, and its access point sends beacons: 2 %.
#[test]
fn a_saturated_station_reaches_what_ns_3_expects() {
    for (max_frames, bounds) in [(64, [58.5, 59.5]), (1, [30.0, 31.0])] {
        let mut air = Air::new(config(65_000_000, max_frames, 5));
        for packet in 0..60_000 {
            air.send(0, packet, 1500, 0);
        }
        let found = air.run(10_000_000_000).len();
        let goodput = found as f64 * 1472.0 * 8.0 / 10e6;
        println!("{max_frames} frames: {goodput:.2} Mbit/s");
        let [least, most] = bounds;
        assert!(
            (0.98 * least..=1.02 * most).contains(&goodput),
            "{max_frames}: {goodput} Mbit/s, not {bounds:?}"
        );
    }
}

/// Two stations that always have something to send, measured in ns-3.37:
/// `scripts/peers/wifi.cc FRAMES SEED -1`, means of five seeds, the sum of both stations.
#[test]
fn two_saturated_stations_reach_what_ns_3_measures() {
    for (max_frames, ns_3) in [(64, 55.8), (1, 31.4)] {
        let mut air = Air::new(config(65_000_000, max_frames, 5));
        for packet in 0..60_000 {
            air.send(0, packet, 1500, 0);
            air.send(1, packet, 1500, 0);
        }
        let found = air.run(10_000_000_000).len();
        let goodput = found as f64 * 1472.0 * 8.0 / 10e6;
        println!("two stations, {max_frames} frames: {goodput:.2} Mbit/s, ns-3 {ns_3}");
        assert!(
            (0.97..=1.03).contains(&(goodput / ns_3)),
            "{max_frames}: {goodput} Mbit/s, ns-3 {ns_3}"
        );
    }
}
