//! Vegas's congestion avoidance (Brakmo and Peterson 1995, §3.2 and §3.3): the window follows
//! the number of segments queued in the network, estimated from the RTT and the minimum RTT.
//!
//! Once per window it grows by a segment if fewer than [`ALPHA`] are queued, and shrinks by one
//! if more than [`BETA`] are. Slow start doubles in every other window, compares in the ones
//! between, and ends when more than [`GAMMA`] are queued. Losses are repaired and answered as in
//! NewReno: the fine-grained timeouts of the paper (§3.1) are left out.

use ackwise_queue::Nanos;
use ackwise_scenario::tcp_model::{Recovery, Stack};

use super::{Acked, CongestionControl, Variant};
use crate::packet::FlowId;
use crate::tcp::config::SenderConfig;
use crate::tcp::congestion_window::CongestionWindow;

/// In segments; the values of the paper's Vegas-1,3 and of ns-2.
const ALPHA: u64 = 1;
const BETA: u64 = 3;
const GAMMA: u64 = 1;

/// State of Vegas.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Vegas {
    /// The minimum RTT of the connection.
    base: Option<Nanos>,
    /// The minimum RTT of this window.
    least: Option<Nanos>,
    /// Bytes of this window acknowledged so far, and the window's length.
    acked: u64,
    window: u64,
    /// Whether slow start compares in this window, instead of growing.
    compares: bool,
}

impl Vegas {
    /// Bytes queued in the network: cwnd · (RTT − base) / RTT.
    fn waiting(&self, cwnd: u64) -> Option<u64> {
        let (base, rtt) = (self.base?, self.least?.max(1));
        let more = u128::from(cwnd) * u128::from(rtt.saturating_sub(base)) / u128::from(rtt);
        u64::try_from(more).ok()
    }

    /// Handles the acknowledgment of a window of data.
    fn on_window(&mut self, c: &SenderConfig, window: &mut CongestionWindow) {
        let mss = u64::from(c.mss);
        let waiting = self.waiting(window.cwnd);
        self.least = None;
        if window.in_slow_start() {
            if self.compares && waiting.is_some_and(|bytes| bytes > GAMMA * mss) {
                let cwnd = (window.cwnd - window.cwnd / 8).max(2 * mss);
                window.ssthresh = cwnd;
                window.set(cwnd);
            }
            self.compares = !self.compares;
            return;
        }
        match waiting {
            Some(bytes) if bytes < ALPHA * mss => {
                window.cwnd = (window.cwnd + mss).min(c.window_limit.max(mss));
            }
            Some(bytes) if bytes > BETA * mss => {
                window.cwnd = (window.cwnd - mss).max((2 * mss).min(window.cwnd));
                // Do not re-enter slow start.
                window.ssthresh = window.ssthresh.min(window.cwnd);
            }
            _ => {}
        }
    }
}

impl CongestionControl for Vegas {
    const VARIANTS: &'static [Variant] = &[Variant {
        name: "vegas",
        stack: Stack::Rfc,
        linux_recovery: Recovery::NewReno,
        recovery: Recovery::NewReno,
        hystart: false,
        needs_sack: false,
    }];

    fn new(c: &SenderConfig, _flow: FlowId) -> Vegas {
        Vegas {
            window: c.initial_window,
            ..Vegas::default()
        }
    }

    fn on_ack(&mut self, c: &SenderConfig, acked: &Acked, window: &mut CongestionWindow) {
        if window.in_slow_start() && !self.compares {
            window.grow_reno(c, acked.bytes, acked.slow_restart);
        }
        self.acked += acked.bytes;
        if self.acked >= self.window {
            self.on_window(c, window);
            self.acked = 0;
            self.window = window.cwnd;
        }
    }

    fn ssthresh(&mut self, c: &SenderConfig, _window: &CongestionWindow, in_flight: u64) -> u64 {
        (in_flight / 2).max(2 * u64::from(c.mss))
    }

    fn on_rtt(&mut self, rtt: Nanos, _now: Nanos) -> Option<Nanos> {
        self.base = Some(self.base.map_or(rtt, |base| base.min(rtt)));
        self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
        None
    }

    fn on_timeout(&mut self) {
        self.least = None;
        self.acked = 0;
        self.compares = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::configure;
    use ackwise_config::queues::QueueLimit;
    use ackwise_scenario::{SocketOptions, TcpModel};

    const MS: Nanos = 1_000_000;

    fn start(cwnd: u64, ssthresh: u64) -> (SenderConfig, CongestionWindow, Vegas) {
        let model = TcpModel {
            segment: Some(1000),
            initial_window: Some(4),
            window_limit: Some(QueueLimit::Packets(20)),
            ..TcpModel::default()
        };
        let (c, _) = configure("vegas", &model, &SocketOptions::default(), 1500).unwrap();
        let mut window = CongestionWindow::new(&c);
        (window.cwnd, window.ssthresh) = (cwnd, ssthresh);
        let mut vegas = Vegas::new(&c, FlowId(0));
        vegas.window = cwnd;
        (c, window, vegas)
    }

    /// Acknowledges a window, a segment at a time, with the given RTT.
    fn a_window(vegas: &mut Vegas, c: &SenderConfig, window: &mut CongestionWindow, rtt: Nanos) {
        vegas.on_rtt(rtt, 0);
        for _ in 0..vegas.window / 1000 {
            let acked = Acked {
                now: 0,
                bytes: 1000,
                slow_restart: false,
                conservative: false,
            };
            vegas.on_ack(c, &acked, window);
        }
    }

    /// With a base of 100 ms and ten segments, 0.99 are queued at 111 ms, 1.07 at 112 ms, 2.96 at
    /// 142 ms and 3.007 at 143 ms.
    #[test]
    fn between_one_and_three_segments_wait() {
        for (ms, cwnd) in [(100, 11), (111, 11), (112, 10), (142, 10), (143, 9)] {
            let (c, mut window, mut vegas) = start(10_000, 5_000);
            vegas.on_rtt(100 * MS, 0);
            vegas.least = None;
            a_window(&mut vegas, &c, &mut window, ms * MS);
            assert_eq!(window.cwnd, cwnd * 1000, "{ms}");
            assert!(!window.in_slow_start());
        }
    }

    #[test]
    fn it_stays_between_two_segments_and_the_limit() {
        let (c, mut window, mut vegas) = start(19_000, 5_000);
        for _ in 0..3 {
            a_window(&mut vegas, &c, &mut window, 100 * MS);
        }
        assert_eq!(window.cwnd, 20_000);
        for _ in 0..40 {
            vegas.least = None;
            a_window(&mut vegas, &c, &mut window, 900 * MS);
        }
        // 8/9 of a window are queued: 2.67 of 3 segments are not more than three.
        assert_eq!(window.cwnd, 3_000);
    }

    /// Four segments double in the first window and stay in the second. With 1.07 of ten queued, a
    /// comparing window ends slow start and reduces the window by an eighth.
    #[test]
    fn slow_start_doubles_every_other_window() {
        let (c, mut window, mut vegas) = start(4_000, u64::MAX);
        let sizes: Vec<u64> = (0..3)
            .map(|_| {
                a_window(&mut vegas, &c, &mut window, 100 * MS);
                window.cwnd
            })
            .collect();
        assert_eq!(sizes, [8_000, 8_000, 16_000]);
        vegas.least = None;
        a_window(&mut vegas, &c, &mut window, 112 * MS);
        assert_eq!((window.cwnd, window.ssthresh), (14_000, 14_000));
    }
}
