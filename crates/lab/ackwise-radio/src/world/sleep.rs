//! Radios that sleep, after ContikiMAC (Dunkels 2011, SICS T2011:13).
//!
//! A node wakes at times of its own, `wake_up` apart, and checks the channel twice. If it senses
//! something, it stays on until a frame has arrived, the channel is silent for longer than the gap
//! between two copies, or the longest frame and a gap would have passed. A node with a
//! frame sends copies of it until one is acknowledged: for a whole interval in broadcasts and as long
//! as it does not know when its neighbour wakes, and around that time afterwards. Clocks do not
//! drift, and switching a radio on takes no time.

use ackwise_queue::Nanos;
use ackwise_rng::Rng;

use super::{Event, World};
use crate::energy::Power;
use crate::frame::NodeId;
use crate::mac::Phase;
use crate::timing::{CHECK, CHECK_SPACING, GAP, PHY_BYTES};

/// A silence of this length is longer than the gap between copies.
const SILENCE: Nanos = GAP + CHECK;
/// A node sleeps after this many times [`SILENCE`] without the beginning of a frame: the rest
/// of the longest frame, 127 bytes, and a gap take 4.656 ms.
const MAX_SILENCES: u32 = 8;
/// Copies to a neighbour whose wake-up is known continue for a sixtieth of a second after it.
const LOCKED_TRAIN: Nanos = 1_000_000_000 / 60;
/// Duration of a wake-up.
const WAKE_UP: Nanos = CHECK + CHECK_SPACING + CHECK;
/// Minimum bytes of a frame: its air time must exceed a wake-up, or it would fit between the checks.
const MIN_BYTES: u32 = 22;
/// Maximum number of intervals of a random pause after a busy channel.
const MAX_INTERVALS: u64 = 3;
const STREAM_PHASES: u64 = 4;

/// State of a sleeping node's receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum RxState {
    #[default]
    Off,
    /// First check of this wake-up, since this time.
    First(Nanos),
    /// Off between the two checks.
    Between,
    /// Second check of this wake-up, since this time.
    Second(Nanos),
    /// It waits for a frame, for at most this many more silences.
    Listening(u32),
}

/// Sleep state of a node.
#[derive(Debug, Default)]
pub(crate) struct Sleeper {
    /// Whether the radio is off.
    asleep: bool,
    /// When the first wake-up is.
    phase: Nanos,
    rx_state: RxState,
    /// Current token of the receiver's timers; timers with another token are void.
    token: u32,
    /// Neighbours whose wake-ups are known.
    locked: Vec<NodeId>,
    /// The wake-up that the next train aims at.
    target_wake_up: Option<Nanos>,
}

impl World {
    fn interval(&self) -> Option<Nanos> {
        let sleep = self.model.sleep.as_ref()?;
        Some(Nanos::try_from(sleep.wake_up.as_nanos()).unwrap_or(Nanos::MAX))
    }

    /// Turns all radios off at the start. Does nothing if none sleeps.
    pub(super) fn fall_asleep(&mut self, seed: u64) {
        let Some(interval) = self.interval() else {
            return;
        };
        self.cca_time = self.model.mac.look_setup + GAP + CHECK;
        self.ack_wait = GAP;
        let mut phases = Rng::stream(seed, STREAM_PHASES);
        for node in 0..self.nodes.len() {
            let phase = phases.below(interval);
            self.nodes[node].sleeper.phase = phase;
            self.at(phase, Event::Check(node));
            self.sleep_if_idle(node);
        }
    }

    /// Share of time that a radio was off, averaged over nodes.
    pub(super) fn asleep(&self) -> Option<f64> {
        self.model.sleep.as_ref()?;
        let off = self.nodes.iter().map(|node| node.meter.spent(Power::Sleep));
        let all = self.now.max(1) as f64 * self.nodes.len() as f64;
        Some(off.sum::<Nanos>() as f64 / all)
    }

    /// Turns a radio on.
    pub(super) fn wake(&mut self, node: NodeId) {
        let n = &mut self.nodes[node];
        if std::mem::take(&mut n.sleeper.asleep) {
            n.meter.enter(Power::Idle, self.now);
            self.air.wake(node);
        }
    }

    /// Turns off a radio that has nothing to do.
    pub(super) fn sleep_if_idle(&mut self, node: NodeId) {
        let n = &self.nodes[node];
        let is_listening = !matches!(n.sleeper.rx_state, RxState::Off | RxState::Between);
        if self.model.sleep.is_none()
            || n.sleeper.asleep
            || is_listening
            || matches!(n.mac.phase, Phase::Cca(_))
            || self.is_sending(node)
            || self.air.receives(node)
        {
            return;
        }
        self.air.disable_rx(node);
        self.nodes[node].meter.enter(Power::Sleep, self.now);
        self.nodes[node].sleeper.asleep = true;
    }

    /// Whether a node sends a frame or an acknowledgment, or is about to.
    fn is_sending(&self, node: NodeId) -> bool {
        let n = &self.nodes[node];
        let mac = matches!(
            n.mac.phase,
            Phase::Turnaround | Phase::Sending | Phase::AckWait
        );
        mac || n.sending.is_some() || n.pending_ack.is_some()
    }

    pub(super) fn check(&mut self, node: NodeId) {
        let Some(interval) = self.interval() else {
            return;
        };
        self.after(interval, Event::Check(node));
        if !self.is_sending(node) && self.nodes[node].sleeper.rx_state == RxState::Off {
            self.wake(node);
            self.set_rx_state(node, RxState::First(self.now), CHECK);
        }
    }

    fn set_rx_state(&mut self, node: NodeId, rx_state: RxState, for_: Nanos) {
        let sleeper = &mut self.nodes[node].sleeper;
        sleeper.rx_state = rx_state;
        sleeper.token = sleeper.token.wrapping_add(1);
        let token = sleeper.token;
        if rx_state != RxState::Off {
            self.after(for_, Event::RxTimer(node, token));
        }
    }

    pub(super) fn rx_timer(&mut self, node: NodeId, token: u32) {
        if self.nodes[node].sleeper.token != token {
            return;
        }
        let (now, silent) = (self.now, |since| self.air.is_clear(node, since));
        let (next, for_) = match self.nodes[node].sleeper.rx_state {
            _ if self.is_sending(node) => (RxState::Off, 0),
            RxState::First(since) if silent(since) => (RxState::Between, CHECK_SPACING),
            RxState::Second(since) if silent(since) => (RxState::Off, 0),
            RxState::First(_) | RxState::Second(_) => (RxState::Listening(MAX_SILENCES), SILENCE),
            RxState::Between => (RxState::Second(now), CHECK),
            RxState::Listening(left) if self.air.receives(node) => {
                (RxState::Listening(left), SILENCE)
            }
            RxState::Listening(1) => (RxState::Off, 0),
            RxState::Listening(_) if silent(now - SILENCE) => (RxState::Off, 0),
            RxState::Listening(left) => (RxState::Listening(left - 1), SILENCE),
            RxState::Off => return,
        };
        if matches!(next, RxState::Second(_)) {
            self.wake(node);
        }
        self.set_rx_state(node, next, for_);
        self.sleep_if_idle(node);
    }

    /// Ends listening after a whole frame has arrived.
    pub(super) fn stop_listening(&mut self, node: NodeId) {
        if self.model.sleep.is_some() {
            self.set_rx_state(node, RxState::Off, 0);
        }
    }

    /// The delay from now to the CCA before the first frame, with a back-off of this length. A
    /// train for a known wake-up begins a check ahead of it, so that a copy is there when the
    /// neighbour wakes, plus the back-off: the longest back-off goes first. Any other train that
    /// found the channel busy waits for whole intervals, as trains are that long.
    pub(super) fn until_cca(&mut self, node: NodeId, back_off: Nanos) -> Nanos {
        let Some(interval) = self.interval() else {
            return back_off;
        };
        let mac = &self.nodes[node].mac;
        let busy_ccas = Nanos::from(mac.busy_ccas);
        let to = mac.waiting.front().and_then(|first| first.to);
        let known = to.filter(|to| self.nodes[node].sleeper.locked.contains(to));
        self.nodes[node].sleeper.target_wake_up = None;
        let Some(to) = known else {
            let most = interval * busy_ccas.min(MAX_INTERVALS);
            return back_off + self.backoffs.below(most);
        };
        let ahead = self.cca_time + self.turnaround + back_off + CHECK;
        let earliest = self.now + ahead;
        let phase = self.nodes[to].sleeper.phase;
        let target_wake_up = phase + earliest.saturating_sub(phase).div_ceil(interval) * interval;
        self.nodes[node].sleeper.target_wake_up = Some(target_wake_up);
        target_wake_up - earliest
    }

    /// Sets the end of a train at its first copy.
    pub(super) fn begin_train(&mut self, node: NodeId) {
        let Some(interval) = self.interval() else {
            return;
        };
        let n = &mut self.nodes[node];
        let end = match n.sleeper.target_wake_up {
            Some(target_wake_up) => target_wake_up + LOCKED_TRAIN,
            None => self.now + interval + WAKE_UP,
        };
        n.mac.train.get_or_insert(end);
    }

    /// Whether another copy must be sent; otherwise the train has ended.
    pub(super) fn continue_train(&mut self, node: NodeId) -> bool {
        let train = &mut self.nodes[node].mac.train;
        let goes_on = train.is_some_and(|end| self.now < end);
        if !goes_on {
            *train = None;
        }
        goes_on
    }

    /// Whether the node sends copies and listens for an acknowledgment between them.
    pub(super) fn is_in_train(&self, node: NodeId) -> bool {
        let mac = &self.nodes[node].mac;
        mac.train.is_some() && mac.phase == Phase::AckWait
    }

    /// Records an acknowledgment from a neighbour: its wake-ups are known from now on.
    pub(super) fn lock_on(&mut self, node: NodeId, to: Option<NodeId>) {
        let Some(sleep) = &self.model.sleep else {
            return;
        };
        let n = &mut self.nodes[node];
        n.mac.train = None;
        if let Some(to) = to.filter(|to| sleep.phase_lock && !n.sleeper.locked.contains(to)) {
            n.sleeper.locked.push(to);
        }
    }

    /// Bytes of the first frame, padded if a wake-up could miss it.
    pub(super) fn frame_bytes(&self, node: NodeId) -> u32 {
        let first = self.nodes[node].mac.waiting.front();
        let bytes = first.map_or(0, |first| first.datagram.bytes) + self.model.mac.header;
        match self.model.sleep {
            Some(_) => bytes.max(MIN_BYTES),
            None => bytes,
        }
    }
}

const _: () = assert!((MIN_BYTES + PHY_BYTES) as Nanos * crate::timing::BYTE > WAKE_UP);

#[cfg(test)]
mod tests;
