//! Compares rate-limit-literal with an independent model of the printed listing (Statkus et al.
//! 2021, lines 4796-4843), written from what each of its statements does.

use ackwise_policy::{Config, Event, EventFlags, EventKind, PolicyState, Verdict};

const EVENTS: usize = 1_000_000;
const RUN: usize = 4000;

/// The listing's variables, with its names.
#[derive(Default)]
struct Listing {
    begun: bool,
    start_ack_lmt: i64,
    init_pkt_cnt: i64,
    ack_pkt_cnt: i64,
    ack_rate_val: i64,
    ack_rate_max: i64,
    ack_time_t1: i64,
    ack_time_delta: i64,
}

impl Listing {
    /// Lines 4796-4837: once per data segment.
    fn data(&mut self, sysctl: i64, jiffies: i64, rcv_wnd: i64, mss: i64, ofo: bool) {
        if !self.begun {
            self.begun = true;
            let w = rcv_wnd / mss;
            self.start_ack_lmt = match sysctl {
                0 => (w + 2) * (w + 1) / 2 - 1,
                limit => limit,
            };
            self.ack_rate_max = (rcv_wnd / (3 * mss)).min(64);
        }
        if ofo {
            self.init_pkt_cnt = 0;
            self.ack_pkt_cnt = 0;
            self.ack_time_t1 = 0;
            self.ack_time_delta = 0;
            self.ack_rate_val = 0;
            self.ack_rate_max = (rcv_wnd / (3 * mss)).min(64);
        }
        if self.init_pkt_cnt < self.start_ack_lmt {
            self.init_pkt_cnt += 1;
            return;
        }
        if self.ack_pkt_cnt > self.start_ack_lmt {
            self.ack_pkt_cnt = 0;
            let t2 = jiffies;
            let interval = t2 - self.ack_time_t1;
            let faster = interval <= self.ack_time_delta;
            let first = self.ack_time_t1 == 0 && self.ack_rate_max > 64;
            if faster || first {
                self.ack_rate_val += 1;
            } else if self.ack_rate_val > 4 {
                self.ack_rate_val -= 1;
            }
            self.ack_time_delta = interval;
            self.ack_time_t1 = t2;
        }
        self.ack_pkt_cnt += 1;
    }

    /// From line 4837 on: whether an ACK that covers this many bytes is sent now.
    fn sends(&self, unacked: i64, mss: i64) -> bool {
        unacked > self.ack_rate_val * mss
    }
}

/// Marsaglia's xorshift: the same events every time.
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn below_u32(&mut self, bound: u64) -> u32 {
        u32::try_from(self.below(bound)).expect("a small bound")
    }
}

#[test]
fn the_header_does_what_the_listing_does() {
    let mut draws = Draws(0x9e37_79b9_7f4a_7c15);
    let (mut held, mut sent, mut highest) = (0_u32, 0_u32, 0);
    for run in 0..EVENTS / RUN {
        let limit = [0, 1, 3, 10, 40][run % 5];
        let jiffy = [1000, 4000, 10_000][run % 3];
        let config: Config = format!("rate-limit-literal:start={limit},jiffy={jiffy}")
            .parse()
            .unwrap();
        let mss = 500 + draws.below_u32(1000);
        let rcv_wnd = mss * (1 + draws.below_u32(9));
        // Steady paces, scattered ones, and paths that reorder data.
        let scatter = 1 + draws.below([1, 50, 2000][run % 3]);
        let disorder = [u64::MAX, 700, 50][(run / 3) % 3];
        let (mut header, mut listing) = (PolicyState::default(), Listing::default());
        let mut now_us = 1_000_000 + draws.below(1_000_000);
        for _ in 0..RUN {
            now_us += 300 + draws.below(scatter);
            let ofo = draws.below(disorder) == 0;
            let is_data = draws.below(4) != 0;
            let [mss_wide, wnd_wide] = [mss, rcv_wnd].map(i64::from);
            let mut event = Event {
                mss,
                rcv_wnd,
                hold_us: 10_000,
                segments: 1,
                bytes: mss,
                ..Event::ack(now_us)
            };
            if is_data {
                event.kind = EventKind::Data;
                if ofo {
                    event.flags = EventFlags::OUT_OF_ORDER;
                }
                let jiffies = i64::try_from(now_us / jiffy).unwrap();
                listing.data(limit, jiffies, wnd_wide, mss_wide, ofo);
            } else {
                // An error would show at the bound and one byte beyond it.
                let bound = u32::try_from(listing.ack_rate_val).unwrap() * mss;
                event.bytes = (bound + draws.below_u32(3)).saturating_sub(1);
            }
            highest = highest.max(listing.ack_rate_val);
            let verdict = header.step(&config, &event);
            let sends = is_data || listing.sends(i64::from(event.bytes), mss_wide);
            assert_eq!(verdict == Verdict::Send, sends, "run {run}: {event:?}");
            if !is_data {
                *(if sends { &mut sent } else { &mut held }) += 1;
            }
        }
    }
    // Both answers are frequent, and the rate has changed: otherwise nothing was compared.
    assert!(held > 50_000 && sent > 50_000, "{held} {sent}");
    assert!(highest > 20, "{highest}");
}
