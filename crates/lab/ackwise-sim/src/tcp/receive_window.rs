//! The receive window: the whole buffer, or the part that Linux opens gradually as data
//! arrive.
//!
//! Linux starts at 64 KiB and opens by two segments for each one that arrives, up to a
//! limit that it raises once per round trip to twice what the application read in it.
//! While it opens, every segment is acknowledged at once.

use ackwise_queue::Nanos;
use ackwise_scenario::tcp_model::RECEIVE_BUFFER;

use super::config::ReceiverConfig;

/// The initial window in Linux.
const START: u64 = 65_535;
/// The first limit: of the 131,072 bytes in the middle of `tcp_rmem`, 5/8 are payload when
/// full segments arrive.
const FIRST_LIMIT: u64 = payload_of(131_072);
/// The limit that the largest buffer allows.
pub(crate) const LAST_LIMIT: u64 = payload_of(RECEIVE_BUFFER);
/// Segments read per round trip that do not raise the first limit, if the first window has room
/// for them (`tcp_init_buffer_space()`).
const FIRST_ROUND: u64 = 10;
/// Segments added to twice what was read.
const SPARE: u64 = 16;
/// Segments shorter than this open nothing.
const LEAST: u32 = 128;

const fn payload_of(buffer: u64) -> u64 {
    buffer / 8 * 5
}

#[derive(Debug, Clone)]
pub(crate) struct ReceiveWindow {
    /// The window that may be offered now; then its upper limit.
    open: u64,
    limit: u64,
    /// Right edge of the offered window; it never moves back.
    edge: u64,
    /// Bytes read in the last round trip; then when this one began, and at which byte.
    read: u64,
    since: Nanos,
    from: u64,
    /// 8 × RTT as measured by the receiver, 0 before the first sample.
    rtt8: u64,
    last_echo: u64,
    /// Without timestamps, the receipt of a window of data counts as a round trip.
    window_end: u64,
    window_at: Nanos,
}

impl ReceiveWindow {
    pub fn new(c: &ReceiverConfig) -> ReceiveWindow {
        let (open, limit) = if c.tune_window {
            (c.window.min(START), c.window.min(FIRST_LIMIT))
        } else {
            (c.window, c.window)
        };
        ReceiveWindow {
            open,
            limit: if c.auto_window { limit } else { c.window },
            edge: 0,
            read: open.min(FIRST_ROUND * u64::from(c.mss)),
            since: 0,
            from: 0,
            rtt8: 0,
            last_echo: 0,
            window_end: 0,
            window_at: 0,
        }
    }

    /// Handles a segment, with `held` bytes waiting for a hole to be filled. Returns true if the
    /// window opens.
    pub fn on_segment(&mut self, c: &ReceiverConfig, payload: u32, held: u64) -> bool {
        let room = self.limit.saturating_sub(held).saturating_sub(self.open);
        if !c.tune_window || payload < LEAST || room == 0 {
            return false;
        }
        self.open += room.min(2 * u64::from(c.mss));
        true
    }

    /// Handles a read by the application up to `next`. `echo` is the timestamp that the
    /// segment echoes.
    pub fn on_read(&mut self, c: &ReceiverConfig, next: u64, echo: Option<Nanos>, now: Nanos) {
        if !c.tune_window || !c.auto_window {
            return;
        }
        self.measure(next, echo, now);
        if self.rtt8 == 0 || now - self.since < self.rtt8 / 8 {
            return;
        }
        let read = next - self.from;
        if read > self.read {
            let mss = u64::from(c.mss);
            // Twice, because the sender's window doubles; and more if it read more than before.
            let window = 2 * read + SPARE * mss;
            let more = u128::from(window) * u128::from(read - self.read) / u128::from(self.read);
            let window = window.saturating_add(2 * more as u64);
            self.limit = self.limit.max(window.min(c.window));
            self.read = read;
        }
        self.from = next;
        self.since = now;
    }

    fn measure(&mut self, next: u64, echo: Option<Nanos>, now: Nanos) {
        match echo.filter(|echo| *echo > 0) {
            Some(echo) if echo != self.last_echo => {
                self.last_echo = echo;
                let rtt = now.saturating_sub(echo);
                self.rtt8 = match self.rtt8 {
                    0 => rtt * 8,
                    rtt8 => rtt8 - rtt8 / 8 + rtt,
                };
            }
            Some(_) => {}
            None if next >= self.window_end => {
                if self.window_at > 0 {
                    let rtt8 = (now - self.window_at) * 8;
                    self.rtt8 = match self.rtt8 {
                        0 => rtt8,
                        old => old.min(rtt8),
                    };
                }
                self.window_end = next + self.open;
                self.window_at = now;
            }
            None => {}
        }
    }

    /// The receiver's RTT, once one was measured.
    pub fn rtt(&self) -> Option<Nanos> {
        (self.rtt8 > 0).then_some(self.rtt8 / 8)
    }

    /// The window of an ACK that expects `next`.
    pub fn window(&mut self, next: u64) -> u64 {
        self.edge = self.edge.max(next.saturating_add(self.open));
        self.edge - next
    }
}
