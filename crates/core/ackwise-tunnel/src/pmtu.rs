//! Path MTU discovery by probes (RFC 8899), without ICMP.

/// The UDP payload that every path is assumed to carry (RFC 8899 §5.1.2).
pub(crate) const BASE_PLPMTU: usize = 1200;
/// The search ends when the size is known to this many bytes.
const SEARCH_PRECISION: usize = 16;
/// The number of lost probes after which a size counts as too long (RFC 8899 §5.1.2).
const MAX_PROBES: u32 = 3;
/// The number of long datagrams lost in a row that indicate a black hole (RFC 8899 §4.3).
const BLACK_HOLE_LOSSES: u32 = 4;
const SECOND: u64 = 1_000_000_000;
/// The time after which a longer size is tried again (RFC 8899 §5.1.1).
const PMTU_RAISE_TIMER: u64 = 600 * SECOND;

/// The state of the search. All sizes are bytes of UDP payload.
#[derive(Debug, Clone)]
pub(crate) struct Pmtu {
    /// A size that is known to pass.
    size: usize,
    /// A size that is known not to pass, or one more than the maximum.
    too_long: usize,
    max: usize,
    probe: Option<Probe>,
    probe_count: u32,
    losses: u32,
    /// The length of the shortest of them.
    shortest_lost: usize,
    /// The time at which longer sizes are tried again.
    raise_at: u64,
}

#[derive(Debug, Clone, Copy)]
struct Probe {
    size: usize,
    number: u64,
    lost_at: u64,
}

impl Pmtu {
    /// Starts a search up to a maximum.
    pub fn new(max: usize) -> Pmtu {
        Pmtu {
            size: BASE_PLPMTU.min(max),
            too_long: max + 1,
            max,
            probe: None,
            probe_count: 0,
            losses: 0,
            shortest_lost: usize::MAX,
            raise_at: 0,
        }
    }

    /// Returns the longest size that is known to pass.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns the size of the probe that is due.
    pub fn due(&mut self, now: u64) -> Option<usize> {
        if let Some(probe) = self.probe {
            if now < probe.lost_at {
                return None;
            }
            self.probe = None;
            self.probe_count += 1;
            if self.probe_count >= MAX_PROBES {
                self.too_long = probe.size;
                self.probe_count = 0;
            }
        }
        if self.too_long - self.size <= SEARCH_PRECISION {
            if self.too_long > self.max || now < self.raise_at {
                return None;
            }
            self.too_long = self.max + 1;
        }
        // Try the maximum first, because it usually passes.
        let middle = (self.size + self.too_long) / 2;
        Some(if self.too_long > self.max {
            self.max
        } else {
            middle
        })
    }

    /// Returns the time at which a probe may be due.
    pub fn wake(&self, now: u64) -> u64 {
        match self.probe {
            Some(probe) => probe.lost_at,
            None if self.too_long - self.size > SEARCH_PRECISION => now,
            None if self.too_long > self.max => u64::MAX,
            None => self.raise_at.max(now),
        }
    }

    /// Notes a probe that was sent.
    pub fn sent(&mut self, size: usize, number: u64, now: u64, timeout: u64) {
        self.raise_at = now + PMTU_RAISE_TIMER;
        self.probe = Some(Probe {
            size,
            number,
            lost_at: now + timeout,
        });
    }

    /// Notes that a datagram arrived.
    pub fn arrived(&mut self, number: u64, len: usize) {
        if len >= self.shortest_lost {
            self.forget_losses();
        }
        if let Some(probe) = self.probe.filter(|probe| probe.number == number) {
            self.size = probe.size;
            self.probe = None;
            self.probe_count = 0;
        }
    }

    /// Notes that a datagram was lost.
    pub fn lost(&mut self, number: u64, len: usize) {
        if len <= BASE_PLPMTU || self.probe.is_some_and(|probe| probe.number == number) {
            return;
        }
        self.losses += 1;
        self.shortest_lost = self.shortest_lost.min(len);
        if self.losses >= BLACK_HOLE_LOSSES {
            self.too_long(self.shortest_lost);
        }
    }

    fn forget_losses(&mut self) {
        self.losses = 0;
        self.shortest_lost = usize::MAX;
    }

    /// Notes that datagrams of this length do not pass.
    pub fn too_long(&mut self, len: usize) {
        self.forget_losses();
        self.probe_count = 0;
        self.probe = None;
        if len > self.size {
            // It was a probe. The size that is known to pass still passes.
            self.too_long = self.too_long.min(len);
            return;
        }
        self.size = BASE_PLPMTU.min(self.max);
        self.too_long = len.clamp(self.size + 1, self.max + 1);
    }

    /// Forgets the probe of the last session.
    pub fn forget_probe(&mut self) {
        self.probe = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the search on a path. Returns the number of probes that it took.
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
            assert!((path - SEARCH_PRECISION..=path).contains(&pmtu.size()) || pmtu.size() == 1200);
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
        now += PMTU_RAISE_TIMER;
        search(&mut pmtu, 1472, &mut now);
        assert!(pmtu.size() > 1472 - SEARCH_PRECISION);
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
