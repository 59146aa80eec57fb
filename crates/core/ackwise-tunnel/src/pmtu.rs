//! How long a datagram may be: path MTU discovery by probes (RFC 8899), without ICMP.

/// Payload of UDP that every path is taken to carry (RFC 8899 §5.1.2).
pub(crate) const BASE: usize = 1200;
/// The search ends when it is known this closely.
const CLOSE: usize = 16;
/// Probes of a size that get lost before it is taken for too long.
const TRIES: u32 = 3;
/// Long datagrams lost in a row before the path is taken to have changed.
const HOLE: u32 = 4;
const SECOND: u64 = 1_000_000_000;
/// When a longer size is tried again.
const AGAIN: u64 = 600 * SECOND;

/// The state of the search.
#[derive(Debug, Clone)]
pub(crate) struct Pmtu {
    /// Known to pass.
    size: usize,
    /// Known not to pass, or one more than is wanted.
    too_long: usize,
    most: usize,
    probe: Option<Probe>,
    tries: u32,
    holes: u32,
    /// The shortest of them.
    hole: usize,
    /// When to search again from the top.
    again_at: u64,
}

#[derive(Debug, Clone, Copy)]
struct Probe {
    size: usize,
    number: u64,
    lost_at: u64,
}

impl Pmtu {
    /// Up to so many bytes in UDP.
    pub fn new(most: usize) -> Pmtu {
        Pmtu {
            size: BASE.min(most),
            too_long: most + 1,
            most,
            probe: None,
            tries: 0,
            holes: 0,
            hole: usize::MAX,
            again_at: 0,
        }
    }

    /// What may be sent.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The size of the probe that is due, if one is.
    pub fn due(&mut self, now: u64) -> Option<usize> {
        if let Some(probe) = self.probe {
            if now < probe.lost_at {
                return None;
            }
            self.probe = None;
            self.tries += 1;
            if self.tries >= TRIES {
                self.too_long = probe.size;
                self.tries = 0;
            }
        }
        if self.too_long - self.size <= CLOSE {
            if self.too_long > self.most || now < self.again_at {
                return None;
            }
            self.too_long = self.most + 1;
        }
        // The longest first: it passes most of the time.
        let middle = (self.size + self.too_long) / 2;
        Some(if self.too_long > self.most {
            self.most
        } else {
            middle
        })
    }

    /// When [`Pmtu::due`] is to be asked.
    pub fn wake(&self, now: u64) -> u64 {
        match self.probe {
            Some(probe) => probe.lost_at,
            None if self.too_long - self.size > CLOSE => now,
            None if self.too_long > self.most => u64::MAX,
            None => self.again_at.max(now),
        }
    }

    /// A probe was sent.
    pub fn sent(&mut self, size: usize, number: u64, now: u64, patience: u64) {
        self.again_at = now + AGAIN;
        self.probe = Some(Probe {
            size,
            number,
            lost_at: now + patience,
        });
    }

    /// A datagram of some length arrived.
    pub fn arrived(&mut self, number: u64, len: usize) {
        if len >= self.hole {
            self.fill_hole();
        }
        if let Some(probe) = self.probe.filter(|probe| probe.number == number) {
            self.size = probe.size;
            self.probe = None;
            self.tries = 0;
        }
    }

    /// A datagram of some length got lost.
    pub fn lost(&mut self, number: u64, len: usize) {
        if len <= BASE || self.probe.is_some_and(|probe| probe.number == number) {
            return;
        }
        self.holes += 1;
        self.hole = self.hole.min(len);
        if self.holes >= HOLE {
            self.too_long(self.hole);
        }
    }

    fn fill_hole(&mut self) {
        self.holes = 0;
        self.hole = usize::MAX;
    }

    /// Datagrams of this length do not pass.
    pub fn too_long(&mut self, len: usize) {
        self.fill_hole();
        self.tries = 0;
        self.probe = None;
        if len > self.size {
            // A probe, that is: what is known to pass still does.
            self.too_long = self.too_long.min(len);
            return;
        }
        self.size = BASE.min(self.most);
        self.too_long = len.clamp(self.size + 1, self.most + 1);
    }

    /// Another session: numbers begin anew.
    pub fn forget_probe(&mut self) {
        self.probe = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the search on a path; returns the probes that it took.
    fn search(pmtu: &mut Pmtu, path: usize, now: &mut u64) -> usize {
        let mut probes = 0;
        while let Some(size) = pmtu.due(*now) {
            probes += 1;
            pmtu.sent(size, probes as u64, *now, 100);
            if size <= path {
                pmtu.arrived(probes as u64, size);
            }
            *now = pmtu.wake(*now).min(*now + 100);
            assert!(probes < 100);
        }
        probes
    }

    #[test]
    fn the_path_is_found() {
        let mut now = 0;
        let mut pmtu = Pmtu::new(1472);
        assert_eq!(pmtu.size(), 1200);
        assert_eq!(search(&mut pmtu, 9000, &mut now), 1);
        assert_eq!(pmtu.size(), 1472);
        for path in [1200, 1280, 1400, 1471] {
            let mut pmtu = Pmtu::new(1472);
            assert!(search(&mut pmtu, path, &mut now) <= 20);
            assert!((path - CLOSE..=path).contains(&pmtu.size()) || pmtu.size() == 1200);
            assert!(pmtu.size() <= path);
            assert_eq!(pmtu.due(now), None);
        }
    }

    #[test]
    fn a_path_that_shrinks_and_grows_again() {
        let mut now = 0;
        let mut pmtu = Pmtu::new(1472);
        search(&mut pmtu, 1472, &mut now);
        for number in 100..103 {
            pmtu.lost(number, 1472);
            pmtu.lost(number, 300);
        }
        assert_eq!(pmtu.size(), 1472);
        pmtu.lost(103, 1472);
        assert_eq!(pmtu.size(), 1200);
        search(&mut pmtu, 1300, &mut now);
        assert!((1284..=1300).contains(&pmtu.size()));
        now += AGAIN;
        search(&mut pmtu, 1472, &mut now);
        assert!(pmtu.size() > 1472 - CLOSE);
    }

    #[test]
    fn what_the_system_refuses_is_not_tried_again() {
        let mut now = 0;
        let mut pmtu = Pmtu::new(1472);
        let mut refused = Vec::new();
        while let Some(size) = pmtu.due(now) {
            pmtu.sent(size, size as u64, now, 100);
            if size > 1400 {
                refused.push(size);
                pmtu.too_long(size);
            } else {
                pmtu.arrived(size as u64, size);
            }
            now += 1;
        }
        assert!((1384..=1400).contains(&pmtu.size()), "{}", pmtu.size());
        assert!(refused.is_sorted_by(|a, b| a > b), "{refused:?}");
        pmtu.too_long(1300);
        assert_eq!(pmtu.size(), 1200);
    }

    #[test]
    fn a_loss_now_and_then_is_no_hole() {
        let mut pmtu = Pmtu::new(1472);
        search(&mut pmtu, 1472, &mut 0);
        for number in 100..200 {
            pmtu.lost(number, 1400);
            pmtu.arrived(number + 1000, 1400);
        }
        assert_eq!(pmtu.size(), 1472);
    }
}
