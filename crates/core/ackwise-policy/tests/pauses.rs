//! What the round trip shows: a queue, or a sender that had nothing to send. Over a queue, changed
//! SACK blocks may wait.

use ackwise_policy::{Flow, FlowConfig, Segment, TcpFlags, sys};

const MSS: u32 = 1000;
/// The round trip without a queue, us.
const RTT: u64 = 20_000;
/// The time between two segments, us.
const GAP: u64 = 500;

/// A connection at its receiver, with timestamps in milliseconds, as Linux has them.
struct Receiver {
    flow: Flow,
    config: FlowConfig,
    now: u64,
    seq: u32,
    /// The time at which each ACK left, and its timestamp.
    left: Vec<(u64, u32)>,
    held: Option<Segment>,
}

impl Receiver {
    fn new() -> Self {
        Receiver {
            flow: Flow::new(None, 1),
            config: FlowConfig::new(&"tack:L=64,beta=2".parse().expect("a policy")),
            now: 1_000_000,
            seq: 0,
            left: Vec::new(),
            held: None,
        }
    }

    fn segment(&self) -> sys::aw_seg {
        sys::aw_seg {
            ip_version: 4,
            ttl: 64,
            flags: TcpFlags::ACK.bits(),
            window: 50_000,
            opts: sys::AW_OPT_TS as u16,
            tsval: (self.now / 1000) as u32,
            ce_bytes: u32::MAX,
            e0_bytes: u32::MAX,
            e1_bytes: u32::MAX,
            ..Default::default()
        }
    }

    /// Receives the next segment, from a sender that receives ACKs after `rtt`.
    fn data(&mut self, rtt: u64) {
        let mut data = self.segment();
        data.seq = self.seq;
        data.payload = MSS;
        let heard = self.left.iter().rfind(|left| left.0 + rtt <= self.now);
        data.tsecr = heard.map_or(0, |left| left.1);
        self.seq += MSS;
        let data = Segment::from_raw(data);
        self.flow.on_data(&self.config, &data, 1, self.now);
    }

    /// Sends an ACK up to `number`, with this block behind a hole.
    fn ack(&mut self, number: u32, block: Option<(u32, u32)>) -> &'static str {
        let mut ack = self.segment();
        ack.ack = number;
        if let Some((left, right)) = block {
            ack.opts |= sys::AW_OPT_SACK as u16;
            ack.n_sack = 1;
            ack.sack[..2].copy_from_slice(&[left, right]);
        }
        let ack = Segment::from_raw(ack);
        let reason = self.flow.on_ack(&self.config, &ack, self.now).reason.name();
        // A held ACK is replaced by the next, or leaves by its deadline: see pause().
        self.held = (reason == "held").then_some(ack);
        if self.held.is_none() {
            self.left.push((self.now, ack.raw().tsval));
        }
        reason
    }

    /// Nothing arrives for this long, and a held ACK leaves.
    fn pause(&mut self, us: u64) {
        if let Some(held) = self.held.take() {
            let due = self.now + u64::from(self.flow.hold_us(&self.config));
            self.flow.on_sent(&self.config, &held, due);
            self.left.push((due, held.raw().tsval));
        }
        self.now += us;
    }

    /// Receives data for this long, and acknowledges each segment at once.
    fn transfer(&mut self, us: u64, rtt: u64) {
        let end = self.now + us;
        while self.now < end {
            self.data(rtt);
            self.ack(self.seq, None);
            self.now += GAP;
        }
    }

    /// Loses one segment, and returns the reasons for the ACKs of the five behind it.
    fn hole(&mut self, rtt: u64) -> Vec<&'static str> {
        let number = self.seq;
        self.ack(number, None);
        self.seq += MSS;
        let left = self.seq;
        let reasons = (0..5).map(|_| {
            self.now += GAP;
            self.data(rtt);
            self.ack(number, Some((left, self.seq)))
        });
        reasons.collect()
    }
}

#[test]
fn over_a_queue_the_fourth_duplicate_waits() {
    let mut receiver = Receiver::new();
    receiver.transfer(400_000, RTT);
    receiver.transfer(1_000_000, 3 * RTT);
    let reasons = receiver.hole(3 * RTT);
    assert!(reasons[..3].iter().all(|it| *it == "sack"), "{reasons:?}");
    assert!(reasons[3..].iter().all(|it| *it == "held"), "{reasons:?}");
}

#[test]
fn after_a_pause_every_duplicate_leaves() {
    for pause in [50_000, 150_000, 300_000, 2_000_000] {
        let mut receiver = Receiver::new();
        receiver.transfer(400_000, RTT);
        receiver.pause(pause);
        receiver.transfer(5_000, RTT);
        let reasons = receiver.hole(RTT);
        assert!(
            reasons.iter().all(|it| *it == "sack"),
            "{pause} us: {reasons:?}"
        );
    }
}

/// At the sender an ACK releases data as soon as it arrives, so each sample tells almost nothing.
#[test]
fn each_window_in_one_burst_is_no_queue() {
    let mut receiver = Receiver::new();
    for _ in 0..50 {
        for _ in 0..10 {
            receiver.data(0);
        }
        for n in 1..=5 {
            receiver.ack(receiver.seq - (5 - n) * 2 * MSS, None);
        }
        receiver.now += RTT;
    }
    receiver.pause(8 * RTT);
    receiver.data(0);
    let reasons = receiver.hole(0);
    assert!(reasons.iter().all(|it| *it == "sack"), "{reasons:?}");
}

/// Each answer is one burst: every echo of one comes after the pause between two requests.
#[test]
fn pauses_between_answers_do_not_become_the_path() {
    for pause in [300_000, 1_000_000, 5_000_000] {
        let mut receiver = Receiver::new();
        receiver.transfer(400_000, RTT);
        let before = receiver.flow.hold_us(&receiver.config);
        let end = receiver.now + 600_000_000;
        while receiver.now < end {
            receiver.pause(pause);
            receiver.data(RTT);
            let reason = receiver.ack(receiver.seq, None);
            assert_eq!(reason, "start", "after {pause} us");
        }
        assert_eq!(
            receiver.flow.hold_us(&receiver.config),
            before,
            "{pause} us"
        );
    }
}
