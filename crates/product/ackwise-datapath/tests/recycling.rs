//! Flow entries are in an LRU map: the kernel may give an entry to another flow while a program on
//! another CPU still uses it. No ACK may get into another flow's slot.

mod common;

use std::time::Duration;

use ackwise_datapath::{AttachMode, Datapath, Options, Programs, Recycled, sys};
use common::{ACK, Flow, Pair, SYN, Seg, Wire, alone, in_virtual_time, ms};

const TCX_NEXT: u32 = u32::MAX; // TCX_NEXT
const TC_ACT_REDIRECT: u32 = 7; // TC_ACT_REDIRECT
const PSH: u8 = 8;

fn options() -> Options {
    let mut o = Options::new("aw0", "every-n:n=8,warm=0".parse().expect("a policy"));
    o.attach = AttachMode::Tcx;
    o.hold_rtt_shift = 0;
    o
}

/// The programs, run frame by frame, and two tracked flows.
struct Bench {
    programs: Programs,
    flows: [Flow; 2],
}

impl Bench {
    /// The flows' data begin with these sequence numbers.
    fn start(first: [u32; 2]) -> Self {
        let o = Options {
            selftest: true,
            hold_max: ms(200),
            ..options()
        };
        let mut programs =
            Programs::load(&o, 1, sys::AW_LINK_ETHERNET, false).unwrap_or_else(|e| panic!("{e}"));
        programs.keep_alive(Duration::from_secs(600)).expect("map");
        let flows = [(4000, first[0]), (4001, first[1])].map(|(port, next)| Flow {
            next,
            like: Seg {
                port,
                window: 60_000,
                ..Seg::ack(1)
            },
        });
        let mut bench = Self { programs, flows };
        for n in 0..2 {
            let syn = Seg {
                flags: SYN,
                acks: false,
                ..bench.flows[n].like.clone()
            };
            let answer = Seg {
                flags: SYN | ACK,
                ..bench.flows[n].like.clone()
            };
            bench.run("ackwise_data", &syn.frame());
            // A long round trip, so that holds are long.
            std::thread::sleep(ms(250));
            bench.run("ackwise_acks", &answer.frame());
            for _ in 0..16 {
                bench.data(n);
                bench.ack(n);
            }
            // Nothing is held any longer.
            let last = Seg {
                flags: ACK | PSH,
                ..bench.flows[n].ack()
            };
            assert_eq!(bench.run("ackwise_acks", &last.frame()), TCX_NEXT);
        }
        bench
    }

    fn run(&self, program: &str, frame: &[u8]) -> u32 {
        self.programs.run(program, frame, 1).expect("a run").0
    }

    fn data(&mut self, n: usize) {
        let frame = self.flows[n].segment();
        self.run("ackwise_data", &frame);
    }

    /// Sends the ACK of all data, and returns the verdict.
    fn ack(&self, n: usize) -> u32 {
        self.run("ackwise_acks", &self.flows[n].ack().frame())
    }

    fn counters(&self) -> sys::aw_counters {
        self.programs.counters().expect("counters")
    }
}

/// The first flow finds the second one's entry, and so its state and its slot.
#[test]
fn l2_an_entry_of_another_flow_is_not_used() {
    in_virtual_time(|| {
        let _alone = alone();
        let mut bench = Bench::start([1000, 1000]);
        bench.data(1);
        assert_eq!(
            bench.ack(1),
            TC_ACT_REDIRECT,
            "the second flow's ACK is held"
        );
        bench.data(1);
        bench.flows[0].next = bench.flows[1].next;
        let take = |bench: &mut Bench| {
            let taken = bench.programs.recycle(4001, 4000, Recycled::Entry);
            taken.unwrap_or_else(|e| panic!("{e}"));
        };
        take(&mut bench);
        let before = bench.counters();
        assert_eq!(
            bench.ack(0),
            TCX_NEXT,
            "it is held in the other flow's slot"
        );
        take(&mut bench);
        let end = Seg {
            flags: ACK | PSH,
            ..bench.flows[0].ack()
        };
        assert_eq!(bench.run("ackwise_acks", &end.frame()), TCX_NEXT);
        let now = bench.counters();
        assert_eq!(now.replaced, before.replaced);
        assert_eq!(now.superseded, before.superseded, "of another flow");
    });
}

/// The first flow's entry is still its own, except for the slot.
#[test]
fn l2_a_slot_of_another_flow_is_not_used() {
    in_virtual_time(|| {
        let _alone = alone();
        // A lower number than the held one's was dropped, a higher one replaced it.
        for higher in [false, true] {
            let first = if higher {
                [500_000, 1000]
            } else {
                [1000, 500_000]
            };
            let mut bench = Bench::start(first);
            bench.data(1);
            assert_eq!(
                bench.ack(1),
                TC_ACT_REDIRECT,
                "the second flow's ACK is held"
            );
            let taken = bench.programs.recycle(4001, 4000, Recycled::Slot);
            taken.unwrap_or_else(|e| panic!("{e}"));
            let before = bench.counters();
            bench.data(0);
            assert_eq!(bench.ack(0), TC_ACT_REDIRECT, "it is held, too");
            let now = bench.counters();
            assert_eq!(now.replaced, before.replaced, "in the other flow's slot");
            let taken = bench.programs.recycle(4001, 4000, Recycled::Slot);
            taken.unwrap_or_else(|e| panic!("{e}"));
            let end = Seg {
                flags: ACK | PSH,
                ..bench.flows[0].ack()
            };
            assert_eq!(bench.run("ackwise_acks", &end.frame()), TCX_NEXT);
            let now = bench.counters();
            assert_eq!(now.superseded, before.superseded, "of another flow");
        }
    });
}

/// Many more flows than the map holds, on all CPUs at once: the newest ACK of each leaves.
#[test]
fn l2_every_flow_gets_its_newest_ack_under_churn() {
    const FLOWS: u16 = 96;
    let _alone = alone();
    let pair = Pair::new();
    pair.run(|_, far| {
        let a = Datapath::attach(Options {
            max_flows: 64,
            ..options()
        })
        .unwrap_or_else(|e| panic!("{e}"));
        let churn = |first: u16| {
            let data = pair.far.run(|| Wire::open("aw1"));
            pair.near.run(|| {
                let near = Wire::open("aw0");
                let mut flows: Vec<_> = (first..first + FLOWS)
                    .map(|port| Flow {
                        next: 1000,
                        like: Seg {
                            port,
                            ..Seg::ack(0)
                        },
                    })
                    .collect();
                for round in 0..60 {
                    // Use a few flows at a time, long enough for ACKs to be held, then others.
                    let few = flows.iter_mut().skip(round % 12 * 8).take(24);
                    for flow in few {
                        for _ in 0..4 {
                            flow.step(&near, &data);
                        }
                    }
                }
                let last = flows.iter().map(|flow| flow.ack().frame());
                last.collect::<Vec<_>>()
            })
        };
        let mut missing: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (1..=4)
                .map(|n| scope.spawn(move || churn(n * 1000)))
                .collect();
            let ended = threads.into_iter().map(|t| t.join().expect("a thread"));
            ended.flatten().collect()
        });
        assert_eq!(missing.len(), 4 * usize::from(FLOWS));
        while !missing.is_empty() {
            let got = far.expect(1);
            missing.retain(|frame| *frame != got[0].bytes);
        }
        let now = a.detach().expect("detach");
        assert!(now.withheld > 0, "{now:#?}");
        assert_eq!(now.release.lost, 0, "{now:#?}");
    });
}
