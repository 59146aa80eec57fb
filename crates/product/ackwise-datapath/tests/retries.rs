//! Each ACK handed to user space is checked until it has passed the hook. That takes a place in a
//! list for 20 ms, even if the ACK passes at once, and the list can be full.

mod common;

use ackwise_datapath::{Context, Options, Scripted, sys};
use common::{Flow, Seg, alone, ms};

const TCX_NEXT: u32 = u32::MAX; // TCX_NEXT
const SLOTS: u16 = 512;
const MS: u64 = 1_000_000;

struct Bench {
    programs: Scripted,
    flows: Vec<Flow>,
    now: u64,
}

impl Bench {
    fn start() -> Self {
        let mut options = Options::new("lo", "every-n:n=8,warm=0".parse().expect("a policy"));
        options.slots = SLOTS.into();
        options.hold_max = ms(1);
        options.selftest = true;
        let programs =
            Scripted::load(&options, sys::AW_LINK_ETHERNET).unwrap_or_else(|e| panic!("{e}"));
        let flow = |port| Flow {
            next: 1000,
            like: Seg {
                port,
                window: 60_000,
                ..Seg::ack(1)
            },
        };
        let mut bench = Self {
            programs,
            flows: (4000..4000 + SLOTS).map(flow).collect(),
            now: 1000 * MS,
        };
        bench.due(MS);
        assert_eq!(bench.round_that_withholds(), bench.flows.len());
        let held = bench.due(MS);
        held.iter().for_each(|it| bench.comes_back(it));
        bench.due(20 * MS);
        bench
    }

    /// Returns whether the ACK was withheld.
    fn data_and_ack(&mut self, n: usize) -> bool {
        let data = self.flows[n].segment();
        let ack = self.flows[n].ack().frame();
        let mut run = |acks, frame: &[u8]| {
            let ran = self.programs.run(acks, frame, Context::default());
            ran.expect("a run").verdict
        };
        run(false, &data);
        run(true, &ack) != TCX_NEXT
    }

    /// Sends one ACK of each flow. Returns how many were withheld.
    fn round(&mut self) -> usize {
        (0..self.flows.len())
            .filter(|n| self.data_and_ack(*n))
            .count()
    }

    /// The same, skipping rounds in which all ACKs pass: those of a start, or after a pause.
    fn round_that_withholds(&mut self) -> usize {
        (0..40).map(|_| self.round()).find(|n| *n > 0).unwrap_or(0)
    }

    /// Advances the clock, and returns what is due.
    fn due(&mut self, later: u64) -> Vec<sys::aw_emit> {
        self.now += later;
        self.programs.set_time(self.now).expect("a clock");
        let mut due = Vec::new();
        // The work of one tick is bounded.
        for _ in 0..4 {
            due.extend(self.programs.tick().expect("a tick"));
        }
        due
    }

    fn comes_back(&mut self, it: &sys::aw_emit) {
        let link = &it.l2[..usize::from(it.l2_len)];
        let frame = [link, &it.l3[..usize::from(it.l3_len)]].concat();
        let context = Context {
            mark: sys::AW_COOKIE_MAGIC | it.slot,
            ..Context::default()
        };
        let ran = self.programs.run(true, &frame, context);
        assert_eq!(ran.expect("a run").verdict, TCX_NEXT);
    }
}

/// More ACKs come back at once in 20 ms than the list has room for, then none does: each is
/// eventually handed out, and every slot is free again.
#[test]
fn a_full_list_of_retries_loses_no_slot() {
    let _alone = alone();
    let mut bench = Bench::start();
    let slots = usize::from(SLOTS);
    let mut handed_out = 0;
    for round in 0..17 {
        assert_eq!(bench.round(), slots, "round {round}");
        let due = bench.due(MS);
        handed_out += due.len();
        if round < 16 {
            assert_eq!(due.len(), slots, "round {round}");
            due.iter().for_each(|it| bench.comes_back(it));
        }
    }
    // The list is full: what is due waits.
    assert_eq!(handed_out, 16 * slots);
    let mut first = 0;
    for _ in 0..40 {
        let due = bench.due(MS);
        first += due.iter().filter(|it| it.tries == 1).count();
    }
    assert_eq!(first, slots, "handed out when there is room");
    // None came back; each is given up in the end.
    for _ in 0..10 {
        bench.due(20 * MS);
    }
    assert_eq!(bench.round_that_withholds(), slots, "every slot is free");
}
