//! The sender's hint on the running kernel's own TCP: its data carry the value of its congestion
//! window, and the receiver's datapath reads it.

mod common;

use std::io::{Read, Write};

use ackwise_datapath::{Datapath, Error, Options, Position};
use common::transfer::{SEGMENT, Transfer, pattern};
use common::{Pair, Seg, Wire, alone, eventually, ms};

/// The number of segments of the first flight, by the sender's route.
const FIRST: u32 = 4;
/// After this many bursts the congestion window is not yet above the sender's own window, which is
/// never raised.
const BURSTS: u32 = 9;

fn hinter(on: bool) -> Datapath {
    let mut options = Options::new("aw0", "none".parse().expect("a policy"));
    options.position = Position::Sender;
    options.cwnd_hint = on;
    Datapath::attach(options).unwrap_or_else(|e| panic!("{e}"))
}

/// A connection, and what it has carried.
struct Hinted {
    ends: Transfer,
    sent: Vec<u8>,
    got: Vec<u8>,
}

impl Hinted {
    /// `scale` is that of the sender's own window: 0, 7 or 10.
    fn new(pair: &Pair, scale: u32) -> Hinted {
        let set = |name: &str, value: &str| {
            std::fs::write(format!("/proc/sys/net/ipv4/{name}"), value).expect(name);
        };
        set("tcp_window_scaling", if scale == 0 { "0" } else { "1" });
        // The scale follows from the maximum receive buffer.
        set("tcp_rmem", &format!("4096 65535 {}", 1_u32 << (15 + scale)));
        Transfer::prepare(pair, FIRST as usize);
        Hinted {
            ends: Transfer::connect(pair),
            sent: Vec::new(),
            got: Vec::new(),
        }
    }

    /// The congestion window in segments, the segment size, and the scale of the own window.
    fn info(&self) -> (u32, u32, u32) {
        let info = self.ends.info();
        let scale = u32::from(info.tcpi_snd_rcv_wscale >> 4);
        (info.tcpi_snd_cwnd, info.tcpi_snd_mss, scale)
    }

    /// Sends full segments, and returns once all are acknowledged.
    fn send(&mut self, segments: u32) {
        let (_, mss, _) = self.info();
        let bytes = pattern(self.sent.len(), (segments * mss) as usize);
        self.ends.from.write_all(&bytes).expect("write");
        let mut read = vec![0; bytes.len()];
        self.ends.to.read_exact(&mut read).expect("read");
        self.sent.extend(bytes);
        self.got.extend(read);
        eventually("all is acknowledged", || self.ends.info().tcpi_unacked == 0);
    }
}

/// The window fields of the data that have arrived since the last call.
fn fields(far: &Wire) -> Vec<u32> {
    far.tcp(ms(5))
        .iter()
        .filter_map(|frame| Seg::read(&frame.bytes))
        .filter(|seg| seg.sport == 80 && seg.payload > 0)
        .map(|seg| u32::from(seg.window))
        .collect()
}

/// The window fields and the congestion windows, in segments, that they hint.
fn hints_of(scale_wanted: u32) -> Vec<(u32, u32)> {
    let _alone = alone();
    let pair = Pair::new();
    pair.run(|_, far| {
        let hinter = hinter(true);
        let thinner = pair.far.run(|| {
            Datapath::attach(Options::new("aw1", "dca".parse().expect("a policy")))
                .unwrap_or_else(|e| panic!("{e}"))
        });
        let mut transfer = Hinted::new(&pair, scale_wanted);
        let (cwnd, mss, scale) = transfer.info();
        assert_eq!((cwnd, mss, scale), (FIRST, SEGMENT as u32, scale_wanted));
        transfer.send(FIRST);
        let first = fields(far);
        assert_eq!(first, [first[0]; FIRST as usize]);
        let mut seen = vec![((first[0] << scale) / mss, cwnd)];
        for burst in 1..BURSTS {
            // The burst makes the window grow; the hint of the single segment after it counts.
            transfer.send(burst);
            fields(far);
            let (cwnd, ..) = transfer.info();
            transfer.send(1);
            let hint = fields(far);
            assert_eq!(hint.len(), 1, "{hint:?}");
            seen.push(((hint[0] << scale) / mss, cwnd));
            let flow = &thinner.flows(1).expect("flows")[0];
            assert_eq!(flow.data_window, hint[0] << scale, "the receiver's view");
        }
        assert!(
            seen[BURSTS as usize - 1].1 > 5 * FIRST,
            "it hardly moved: {seen:?}"
        );
        assert_eq!(transfer.got, transfer.sent);
        let data = 4 + (1..BURSTS).map(|burst| u64::from(burst) + 1).sum::<u64>();
        assert_eq!(hinter.detach().expect("detach").cwnd_hints, data);
        thinner.detach().expect("detach");
        seen
    })
}

#[test]
fn data_tell_the_congestion_window() {
    for (hint, cwnd) in hints_of(0) {
        assert_eq!(hint, cwnd);
    }
}

/// Units of 128 bytes are smaller than a segment.
#[test]
fn the_usual_scale_is_fine_enough() {
    for (hint, cwnd) in hints_of(7) {
        assert_eq!(hint, cwnd);
    }
}

/// Units of 1024 bytes are not: then the hint is one too low, never one too high.
#[test]
fn a_coarse_scale_tells_less() {
    let seen = hints_of(10);
    for &(hint, cwnd) in &seen {
        assert!(hint == cwnd || hint + 1 == cwnd, "{hint} for {cwnd}");
    }
    assert!(seen.iter().any(|(hint, cwnd)| hint < cwnd));
}

/// A sender whose own window is smaller than its congestion window announces the former.
#[test]
fn the_true_window_is_never_raised() {
    let _alone = alone();
    let pair = Pair::new();
    pair.run(|_, far| {
        let hinter = hinter(true);
        let mut transfer = Hinted::new(&pair, 7);
        for _ in 0..12 {
            transfer.send(20);
        }
        fields(far);
        let (cwnd, mss, scale) = transfer.info();
        let before = hinter.stats().expect("stats").cwnd_hints;
        transfer.send(1);
        let own = fields(far)[0] << scale;
        assert!(own > 30_000 && own < cwnd * mss, "{own} and {cwnd}");
        assert_eq!(hinter.detach().expect("detach").cwnd_hints, before);
    });
}

/// The packets are as the stack made them: no field is changed.
#[test]
fn off_changes_nothing() {
    let _alone = alone();
    let pair = Pair::new();
    pair.run(|_, far| {
        let hinter = hinter(false);
        let mut transfer = Hinted::new(&pair, 7);
        let (.., scale) = transfer.info();
        transfer.send(20);
        let all = fields(far);
        assert_eq!(all.len(), 20);
        // The stack's own window, from 32 KB on; nothing is received that would shrink it.
        assert!(all.iter().all(|field| field << scale > 30_000), "{all:?}");
        assert_eq!(hinter.detach().expect("detach").cwnd_hints, 0);
    });
}

#[test]
fn checksums_are_right_where_nothing_completes_them() {
    let _alone = alone();
    let pair = Pair::new();
    pair.run(|_, far| {
        let hinter = hinter(true);
        let mut transfer = Hinted::new(&pair, 7);
        fields(far);
        transfer.send(FIRST);
        let frames = far.tcp(ms(5));
        let data: Vec<_> = frames
            .iter()
            .filter(|frame| Seg::read(&frame.bytes).is_some_and(|seg| seg.payload > 0))
            .collect();
        assert_eq!(data.len(), FIRST as usize);
        for frame in data {
            assert!(common::checksum_is_right(&frame.bytes));
        }
        assert_eq!(transfer.got, transfer.sent);
        assert_eq!(
            hinter.detach().expect("detach").cwnd_hints,
            u64::from(FIRST)
        );
    });
}

#[test]
fn only_a_sender_can_tell() {
    let _alone = alone();
    Pair::new().run(|_, _| {
        let mut options = Options::new("aw0", "none".parse().expect("a policy"));
        options.cwnd_hint = true;
        let refused = Datapath::attach(options).expect_err("position receiver");
        assert!(
            matches!(refused, Error::NotTheSender("receiver")),
            "{refused}"
        );
    });
}
