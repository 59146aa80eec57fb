//! ACK congestion control (RFC 5690): compares the state machine with the Rust code that it
//! replaced, on random connections.

use ackwise_policy::{AckRatio, AckSeen};
use ackwise_rng::Rng;

/// The ratio that every connection starts with (RFC 5690 §4.1), and the minimum here (§4.5).
const LEAST: u8 = 2;
/// The minimum number of ACKs per window: K (RFC 5690 §4.5).
const SHARE: u64 = 2;
/// The number of later ACKs after which a missing one counts as lost (RFC 5690 §5.4).
const REORDERED: u8 = 3;

/// Whether the receiver knows the ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    /// It knows.
    Yes,
    /// The next data segment tells it.
    NotYet,
    /// Each segment tells it until this is acknowledged: the end of the first one that did.
    Until(u64),
}

/// An ACK that covers more than one ACK of the receiver may.
#[derive(Debug, Clone, Copy)]
struct Gap {
    from: u64,
    to: u64,
    /// Number of ACKs that arrived since.
    later: u8,
}

/// What a sender knows of its ACKs.
#[derive(Debug, Clone)]
struct Model {
    most: u8,
    /// R: the segments that an ACK may cover.
    ratio: u8,
    /// The largest ratio that the receiver may be using.
    in_use: u8,
    told: Told,
    /// A lost ACK of data before this belongs to a window that already had one.
    window_end: u64,
    /// The end of the data in flight when a repair started.
    repair_end: u64,
    /// The receiver has data above a hole.
    hole: bool,
    gap: Option<Gap>,
    /// Bytes acknowledged since the last lost ACK or change, and how many of them make the ratio
    /// fall.
    quiet: u64,
    quiet_aim: u64,
    lost: u64,
}

impl Model {
    fn new(most: u8) -> Model {
        Model {
            most,
            ratio: LEAST,
            in_use: LEAST,
            told: Told::Yes,
            window_end: 0,
            repair_end: 0,
            hole: false,
            gap: None,
            quiet: 0,
            quiet_aim: 0,
            lost: 0,
        }
    }

    /// Takes an ACK that arrived; it may be older than others.
    fn on_ack(&mut self, seen: &AckSeen) {
        if seen.ack < seen.una {
            // The ACK that seemed lost was late (RFC 5690 §4.4).
            self.gap
                .take_if(|gap| seen.ack > gap.from && seen.ack < gap.to);
            return;
        }
        if let Some(gap) = &mut self.gap {
            gap.later += 1;
        }
        let in_order = !self.hole && !seen.out_of_order && seen.una >= self.repair_end;
        if seen.out_of_order {
            self.hole = true;
        } else if seen.ack > seen.una {
            self.hole = false;
        }
        if in_order && seen.ack > seen.una {
            self.quiet += seen.ack - seen.una;
            // An ACK of out-of-order data may cover any number.
            let most = u64::from(self.in_use) * u64::from(seen.mss);
            if seen.ack - seen.una > most && !seen.explained && self.gap.is_none() {
                self.gap = Some(Gap {
                    from: seen.una,
                    to: seen.ack,
                    later: 0,
                });
            }
        }
        if let Told::Until(end) = self.told
            && seen.ack >= end
        {
            self.told = Told::Yes;
            self.in_use = self.ratio;
        }
        if let Some(gap) = self.gap.take_if(|gap| gap.later >= REORDERED) {
            self.on_lost(&gap, seen);
        } else if self.gap.is_none() && self.quiet >= self.quiet_aim {
            self.on_quiet(seen);
        }
    }

    /// Doubles R for each window of data with lost ACKs.
    fn on_lost(&mut self, gap: &Gap, seen: &AckSeen) {
        self.lost += 1;
        if self.told == Told::Yes && gap.from >= self.window_end {
            let most = self.most(seen.window, seen.mss.into());
            let ratio = self.ratio.saturating_mul(2).min(most).max(self.ratio);
            self.change(ratio);
            self.window_end = seen.max;
        }
        self.count_anew(seen.window, seen.mss.into());
    }

    /// Lowers R by one after `cwnd / (R² - R)` windows without a lost ACK.
    fn on_quiet(&mut self, seen: &AckSeen) {
        if self.told == Told::Yes && self.ratio > LEAST {
            self.change(self.ratio - 1);
            self.count_anew(seen.window, seen.mss.into());
        }
    }

    fn change(&mut self, ratio: u8) {
        if ratio != self.ratio {
            self.ratio = ratio;
            self.told = Told::NotYet;
        }
    }

    fn count_anew(&mut self, window: u64, mss: u64) {
        let ratio = u128::from(self.ratio);
        let window = u128::from(window);
        let aim = window * window / (u128::from(mss) * (ratio * ratio - ratio));
        self.quiet = 0;
        self.quiet_aim = u64::try_from(aim).unwrap_or(u64::MAX);
    }

    /// The largest ratio that leaves a window of data two ACKs.
    fn most(&self, window: u64, mss: u64) -> u8 {
        let half = window.div_ceil(SHARE * mss).max(u64::from(LEAST));
        u8::try_from(half)
            .unwrap_or(u8::MAX)
            .min(self.most)
            .max(LEAST)
    }

    /// A segment that ends at `end` leaves. Returns the ratio that it announces.
    fn on_segment(&mut self, end: u64, window: u64, mss: u64) -> Option<u8> {
        // Always, however recently the ratio was changed (RFC 5690 §4.5).
        let most = self.most(window, mss);
        if self.ratio > most {
            self.change(most);
            self.count_anew(window, mss);
        }
        match self.told {
            Told::Yes => return None,
            Told::NotYet => {
                self.told = Told::Until(end);
                self.in_use = self.in_use.max(self.ratio);
            }
            Told::Until(_) => {}
        }
        Some(self.ratio)
    }

    /// A segment was retransmitted: until everything now in flight is acknowledged, lost ACKs are
    /// not looked for (RFC 5690 §4.4.1).
    fn on_retransmission(&mut self, max: u64) {
        self.repair_end = self.repair_end.max(max);
        self.gap = None;
    }
}

/// Random connections: ACKs in order with some missing, late or explained, changing windows,
/// out-of-order data, retransmissions, timeouts. Both agree at each step.
#[test]
fn both_say_the_same() {
    let mut found = 0;
    let mut highest = 0;
    for seed in 0..400 {
        let mut rng = Rng::stream(seed, 5690);
        let mss = [536_u32, 1448, 8948][rng.below(3) as usize];
        let full = u64::from(mss);
        let most = [255, 127, 3][rng.below(3) as usize];
        let (mut c, mut model) = (AckRatio::new(most), Model::new(most));
        let (mut una, mut max) = (0_u64, 20 * full);
        let mut window = 20 * full;
        for step in 0..3000 {
            if rng.below(200) == 0 {
                window = (1 + rng.below(300)) * full + rng.below(full);
            }
            let r = u64::from(c.ratio());
            let jump = match rng.below(20) {
                0 => 2 * r * full,
                1 => rng.below(4 * r * full),
                2 => 0,
                _ => r * full,
            };
            let late = rng.below(30) == 0;
            let ack = match late {
                true => una.saturating_sub(rng.below(6 * r * full)),
                false => (una + jump).min(max),
            };
            let seen = AckSeen {
                ack,
                out_of_order: rng.below(100) == 0,
                explained: rng.below(40) == 0,
                una,
                max,
                window,
                mss,
            };
            c.on_ack(&seen);
            model.on_ack(&seen);
            una = una.max(ack);
            if rng.below(150) == 0 {
                c.on_retransmission(max);
                model.on_retransmission(max);
            }
            while max < una + window {
                max += full;
                let told = c.on_segment(max, window, mss);
                assert_eq!(told, model.on_segment(max, window, full), "{seed}, {step}");
            }
            let same = (c.ratio(), c.lost()) == (model.ratio, model.lost);
            assert!(same, "seed {seed}, step {step}: {c:?}, {model:?}");
            highest = highest.max(c.ratio());
        }
        found += c.lost();
    }
    assert!(
        found > 1000 && highest > 100,
        "{found} lost, R up to {highest}"
    );
}
