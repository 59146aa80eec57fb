//! Random traces through a model environment: whatever a policy wants, every byte's acknowledgment
//! is delivered, superseded or re-emitted within D, and nothing that carries news is withheld.

use std::collections::{BTreeMap, BTreeSet};

use ackwise_policy::{Config, Flow, FlowConfig, Handshake, Policy, Segment, Verdict, sys};
use proptest::prelude::*;

const MSS: u32 = 1000;
const SCALE: u32 = 7;
const HOLD_MAX_US: u64 = 25_000;

/// What the network does to the next data segment, or the receiver does.
#[derive(Debug, Clone, Copy)]
enum Step {
    Deliver,
    Lose,
    /// The oldest hole is filled.
    Repair,
    /// A segment that was already received arrives again.
    Duplicate,
    /// The application reads less (or more): the window changes, and is announced at once or with
    /// the next ACK.
    Window(u16, bool),
    Ecn,
    /// The receiver sends data, which carries an ACK.
    SendData,
    Pause(u32),
}

fn steps() -> impl Strategy<Value = Vec<(u16, Step)>> {
    let step = prop_oneof![
        30 => Just(Step::Deliver),
        2 => Just(Step::Lose),
        2 => Just(Step::Repair),
        1 => Just(Step::Duplicate),
        2 => (prop_oneof![0u16..24, 0u16..1000], any::<bool>())
            .prop_map(|(window, at_once)| Step::Window(window, at_once)),
        1 => Just(Step::Ecn),
        1 => Just(Step::SendData),
        1 => (1u32..80_000).prop_map(Step::Pause),
    ];
    prop::collection::vec((1u16..2000, step), 50..600)
}

/// A receiver according to RFC 5681 and RFC 2018, in segments of MSS bytes.
struct Receiver {
    next: u32,
    high: u32,
    holes: BTreeSet<u32>,
    window: u16,
    ece: bool,
    sack: bool,
    timestamps: bool,
    unacked: u32,
    newest: u32,
    /// The next sequence number that it sends.
    seq: u32,
}

impl Receiver {
    /// Takes segment `n`; true if an ACK must follow at once.
    fn take(&mut self, n: u32) -> bool {
        self.newest = n;
        let in_order = n == self.high && self.holes.is_empty();
        if n >= self.high {
            self.holes.extend(self.high..n);
            self.high = n + 1;
        } else {
            self.holes.remove(&n);
        }
        self.next = self.holes.first().copied().unwrap_or(self.high);
        self.unacked += 1;
        !in_order || self.unacked >= 2
    }

    fn blocks(&self) -> Vec<(u32, u32)> {
        let mut blocks = Vec::new();
        let mut n = self.next;
        while n < self.high {
            while self.holes.contains(&n) {
                n += 1;
            }
            let from = n;
            while n < self.high && !self.holes.contains(&n) {
                n += 1;
            }
            if from < n {
                blocks.push((from, n));
            }
        }
        // RFC 2018 §4: the block with the newest segment comes first.
        blocks.sort_by_key(|(from, to)| !(*from <= self.newest && self.newest < *to));
        blocks.truncate(if self.timestamps { 3 } else { 4 });
        blocks
    }

    fn ack(&mut self, base: u32, now_us: u64, payload: u32) -> Segment {
        self.unacked = 0;
        let mut s = sys::aw_seg {
            seq: self.seq,
            ack: base.wrapping_add(self.next * MSS),
            payload,
            len: 40 + payload,
            flags: (sys::AW_TCP_ACK | if self.ece { sys::AW_TCP_ECE } else { 0 }) as u16,
            window: self.window,
            ip_version: 4,
            ..Default::default()
        };
        self.seq = self.seq.wrapping_add(payload);
        (s.ce_bytes, s.e0_bytes, s.e1_bytes) = (u32::MAX, u32::MAX, u32::MAX);
        if self.timestamps {
            s.opts |= sys::AW_OPT_TS as u16;
            s.tsval = (now_us / 1000) as u32;
        }
        let blocks = if self.sack { self.blocks() } else { Vec::new() };
        if !blocks.is_empty() {
            s.opts |= sys::AW_OPT_SACK as u16;
        }
        s.n_sack = blocks.len() as u32;
        for (i, (from, to)) in blocks.iter().enumerate() {
            s.sack[2 * i] = base.wrapping_add(from * MSS);
            s.sack[2 * i + 1] = base.wrapping_add(to * MSS);
        }
        Segment::from_raw(s)
    }
}

/// A SACK block that was withheld before any ACK reported it.
struct Owed {
    block: (u32, u32),
    /// The latest time to report it, µs.
    due: u64,
}

/// The environment: one slot, a deadline, and a list of what left.
struct Environment {
    config: FlowConfig,
    flow: Flow,
    held: Option<(Segment, u64)>,
    /// Acknowledgments owed to the sender, each with its latest time.
    owed: Vec<(u32, u64)>,
    /// SACK blocks owed likewise.
    owed_blocks: Vec<Owed>,
    base: u32,
    /// The highest acknowledgment that left, as an offset from base.
    left: Option<u32>,
    sent_right_edge: u32,
    sent_ece: bool,
    sent_blocks: BTreeSet<(u32, u32)>,
    newest: Option<Segment>,
    /// The time at which the first ACK with timestamps left, which the data never echo: the RTT's
    /// probe.
    stamped_since: Option<u64>,
    /// Number of plain duplicates of each number, and how often that number left.
    duplicates: BTreeMap<u32, u32>,
    departed: BTreeMap<u32, u32>,
    withheld: u32,
}

impl Environment {
    fn new(config: &Config, flow: Flow, base: u32) -> Environment {
        Environment {
            config: FlowConfig::new(config),
            flow,
            held: None,
            owed: Vec::new(),
            owed_blocks: Vec::new(),
            base,
            left: None,
            sent_right_edge: 0,
            sent_ece: false,
            sent_blocks: BTreeSet::new(),
            newest: None,
            stamped_since: None,
            duplicates: BTreeMap::new(),
            departed: BTreeMap::new(),
            withheld: 0,
        }
    }

    fn offset(&self, s: &Segment) -> u32 {
        s.ack().wrapping_sub(self.base)
    }

    fn edge(&self, s: &Segment) -> u32 {
        self.offset(s) + (u32::from(s.window()) << SCALE)
    }

    fn leave(&mut self, s: &Segment, now: u64) {
        let ack = self.offset(s);
        if u32::from(s.raw().opts) & sys::AW_OPT_TS != 0 {
            self.stamped_since.get_or_insert(now);
        }
        *self.departed.entry(ack).or_default() += 1;
        if self.left.is_none_or(|left| ack >= left) {
            self.left = Some(ack);
            self.sent_right_edge = self.edge(s);
            self.sent_ece = ece(s);
        }
        self.sent_blocks.extend(s.sack());
        // An ACK reports a block if it acknowledges it, or has one around it.
        let base = self.base;
        self.owed_blocks.retain(|owed| {
            let (from, to) = owed.block;
            let around = |(left, right): (u32, u32)| {
                left.wrapping_sub(base) <= from.wrapping_sub(base)
                    && right.wrapping_sub(base) >= to.wrapping_sub(base)
            };
            to.wrapping_sub(base) > ack && !s.sack().any(around)
        });
    }

    /// Advances the clock to `now`: held ACKs leave at their deadlines.
    fn run_to(&mut self, now: u64) {
        if let Some((s, due)) = self.held.filter(|(_, due)| *due <= now) {
            self.held = None;
            self.flow.on_sent(&self.config, &s, due);
            self.leave(&s, due);
        }
        for Owed { block, due } in &self.owed_blocks {
            assert!(
                *due > now,
                "block {block:?} was owed at {due}, now is {now}"
            );
        }
        let left = self.left.unwrap_or(0);
        self.owed.retain(|(ack, _)| *ack > left);
        for (ack, due) in &self.owed {
            assert!(
                *due > now,
                "{ack} was owed at {due}, now is {now}, {left} left"
            );
        }
    }

    fn offer(&mut self, s: Segment, now: u64) {
        self.run_to(now);
        let ack = self.offset(&s);
        if s.payload() == 0
            && s.sack().next().is_none()
            && self
                .newest
                .is_some_and(|n| n.ack() == s.ack() && n.window() == s.window())
        {
            *self.duplicates.entry(ack).or_default() += 1;
        }
        if let Some((held, _)) = self.held.take_if(|_| self.flow.releases(&s)) {
            self.flow.on_sent(&self.config, &held, now);
            self.leave(&held, now);
        }
        let before = self.newest.replace(s);
        let d = self.flow.on_ack(&self.config, &s, now);
        match d.verdict {
            Verdict::Send => {
                if d.supersedes {
                    self.held = None;
                }
                if d.twice {
                    self.leave(&s, now);
                }
                self.leave(&s, now);
            }
            Verdict::Hold { us } => {
                self.withheld += 1;
                assert!(u64::from(us) <= HOLD_MAX_US && us > 0, "hold of {us} us");
                self.no_news(&s, before.as_ref(), now);
                let due = self.held.map_or(now + u64::from(us), |(_, due)| due);
                self.owed.push((ack, now + HOLD_MAX_US + 1));
                self.held = Some((s, due));
            }
            Verdict::Drop => panic!("this environment cannot know that a newer one follows"),
        }
    }

    /// At the end of a trace, the newest ACK and every duplicate have left.
    fn nothing_is_owed(&self) {
        assert!(self.held.is_none() && self.owed.is_empty() && self.owed_blocks.is_empty());
        assert_eq!(self.left, self.newest.map(|s| self.offset(&s)));
        // A sender without SACK counts them: the original and each duplicate.
        for (ack, made) in &self.duplicates {
            let seen = self.departed.get(ack).copied().unwrap_or(0);
            assert!(
                seen > *made,
                "{made} duplicates of {ack}, {seen} left in all"
            );
        }
    }

    /// An independent statement of what makes an ACK news.
    ///
    /// A SACK block that grew or is new may wait, for at most D, for a later ACK that covers it.
    /// This excludes DSACKs, and requires that the round trip shows a queue, which needs
    /// timestamps.
    fn no_news(&mut self, s: &Segment, before: Option<&Segment>, now: u64) {
        let left = self.left.expect("the first ACK of a flow leaves");
        assert_eq!(s.payload(), 0);
        let known: Vec<_> = before.map(|it| it.sack().collect()).unwrap_or_default();
        let changed: Vec<_> = s.sack().filter(|block| !known.contains(block)).collect();
        let least = left.max(self.held.map_or(0, |(held, _)| self.offset(&held)));
        assert!(self.offset(s) >= least, "an old ACK was withheld");
        assert!(
            self.offset(s) > least || !changed.is_empty(),
            "a duplicate was withheld"
        );
        assert_eq!(ece(s), self.sent_ece, "an ECN change was withheld");
        for block in changed {
            assert!(
                block.0.wrapping_sub(self.base) > self.offset(s),
                "a DSACK was withheld"
            );
            let stamped = u32::from(s.raw().opts) & sys::AW_OPT_TS != 0;
            assert!(stamped, "a changed block was withheld without timestamps");
            let min = self.flow.min_rtt_us().expect("the handshake was seen");
            assert!(
                now - self.stamped_since.expect("one with timestamps left")
                    >= u64::from(min) * 5 / 4,
                "a changed block was withheld where no queue stood"
            );
            if !self.sent_blocks.contains(&block) {
                let due = now + HOLD_MAX_US + 1;
                self.owed_blocks.push(Owed { block, due });
            }
        }
        let newest_edge = self
            .held
            .map_or(self.sent_right_edge, |(h, _)| self.edge(&h));
        assert!(
            self.edge(s) + (1 << SCALE) >= newest_edge,
            "a shrinking window was withheld"
        );
        assert!(
            self.sent_right_edge - left >= 2 * MSS || self.edge(s) <= self.sent_right_edge,
            "a window opening from near zero was withheld"
        );
    }
}

fn ece(s: &Segment) -> bool {
    u32::from(s.raw().flags) & sys::AW_TCP_ECE != 0
}

fn handshake(base: u32, rtt_us: u64, t0: u64) -> Handshake {
    let mut h = Handshake::default();
    let syn = |flags: u32| {
        Segment::from_raw(sys::aw_seg {
            seq: base.wrapping_sub(1),
            flags: flags as u16,
            opts: (sys::AW_OPT_WSCALE | sys::AW_OPT_MSS) as u16,
            wscale: SCALE as u8,
            mss: MSS as u16,
            ..Default::default()
        })
    };
    h.on_segment(&syn(sys::AW_TCP_SYN), true, t0);
    h.on_segment(&syn(sys::AW_TCP_SYN | sys::AW_TCP_ACK), false, t0 + rtt_us);
    h.on_segment(&syn(sys::AW_TCP_ACK), true, t0 + rtt_us);
    h
}

/// The policy, set to withhold as much as it can.
fn greedy(policy: Policy) -> Config {
    let mut config = Config::new(policy);
    for p in policy.params() {
        let value = match p.name {
            "n" | "max_segments" | "d_max" => p.max,
            "warm" | "start_segments" | "plateau" | "cir" | "cbs" | "start" => p.min,
            _ => continue,
        };
        config.set_number(p.name, u64::from(value)).unwrap();
    }
    config
}

/// A flow: its first sequence number, its starting time, and what its receiver supports.
#[derive(Debug, Clone, Copy)]
struct Setup {
    /// The first sequence number of the data.
    base: u32,
    /// The time of the SYN, µs.
    t0: u64,
    rtt_us: u64,
    sack: bool,
    timestamps: bool,
}

impl Receiver {
    fn new(sack: bool, timestamps: bool) -> Receiver {
        Receiver {
            next: 0,
            high: 0,
            holes: BTreeSet::new(),
            window: 500,
            ece: false,
            sack,
            timestamps,
            unacked: 0,
            newest: 0,
            seq: 1,
        }
    }

    /// The data segment that arrives in a step, if any.
    fn arrival(&self, step: &Step) -> Option<u32> {
        match step {
            Step::Deliver => Some(self.high),
            Step::Lose => Some(self.high + 1),
            Step::Repair => self.holes.first().copied(),
            Step::Duplicate => self.next.checked_sub(1),
            _ => None,
        }
    }
}

/// Segment `n` of the data.
fn data(base: u32, n: u32) -> Segment {
    // Some ACK arrived marked, which the sender echoes.
    let echo = if n.is_multiple_of(4) {
        sys::AW_TCP_ECE
    } else {
        0
    };
    Segment::from_raw(sys::aw_seg {
        seq: base.wrapping_add(n * MSS),
        payload: MSS,
        len: MSS + 40,
        flags: (sys::AW_TCP_ACK | echo) as u16,
        window: 500,
        ip_version: 4,
        ttl: 60,
        ..Default::default()
    })
}

/// Runs a trace to its end, and returns the number of ACKs withheld.
fn run(config: &Config, trace: &[(u16, Step)], setup: Setup) -> u32 {
    let Setup { base, rtt_us, .. } = setup;
    let h = handshake(base, rtt_us, setup.t0);
    let mut now = setup.t0 + 2 * rtt_us;
    let mut rx = Receiver::new(setup.sack, setup.timestamps);
    let mut environment = Environment::new(config, Flow::new(Some(&h), now), base);
    let first = rx.ack(base, now, 0);
    environment.offer(first, now);

    for (gap, step) in trace {
        now += u64::from(*gap);
        let arrived = rx.arrival(step);
        environment.run_to(now);
        if let Some(n) = arrived {
            let segment = data(base, n);
            environment
                .flow
                .on_data(&environment.config, &segment, 1, now);
            if rx.take(n) {
                let ack = rx.ack(base, now, 0);
                environment.offer(ack, now);
            }
        }
        match step {
            Step::Window(window, at_once) => {
                rx.window = *window;
                if *at_once {
                    let ack = rx.ack(base, now, 0);
                    environment.offer(ack, now);
                }
            }
            Step::Ecn => rx.ece = !rx.ece,
            Step::SendData => {
                let ack = rx.ack(base, now, 100);
                environment.offer(ack, now);
            }
            Step::Pause(us) => {
                now += u64::from(*us);
                environment.run_to(now);
            }
            _ => {}
        }
    }
    environment.run_to(now + HOLD_MAX_US + 2);
    environment.nothing_is_owed();
    environment.withheld
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_acknowledgment_arrives_within_d(
        trace in steps(),
        base in prop_oneof![Just(0u32), Just(u32::MAX - 50_000), any::<u32>()],
        t0 in prop_oneof![Just(1u64), Just(u64::from(u32::MAX) - 300_000), 0..1u64 << 50],
        rtt_us in 200u64..200_000,
        sack in any::<bool>(),
        timestamps in any::<bool>(),
    ) {
        let setup = Setup { base, t0, rtt_us, sack, timestamps };
        for policy in Policy::all() {
            run(&greedy(policy), &trace, setup);
            run(&Config::new(policy), &trace, setup);
        }
    }
}

#[test]
fn the_model_is_worth_something() {
    // A clean, busy flow: every policy that ever thins does so here.
    let trace: Vec<_> = std::iter::repeat_n((100u16, Step::Deliver), 20_000).collect();
    let setup = Setup {
        base: 7,
        t0: 1,
        rtt_us: 20_000,
        sack: true,
        timestamps: true,
    };
    for policy in Policy::all() {
        let withheld = run(&greedy(policy), &trace, setup);
        if policy.name() == "none" {
            assert_eq!(withheld, 0);
        } else {
            assert!(
                withheld > 2500,
                "{} withheld {withheld} of 10000",
                policy.name()
            );
        }
    }
}
