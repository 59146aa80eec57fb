//! The loop that moves packets.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use ackwise_netdev::clock::{monotonic_ns, thread_cpu_ns};
use ackwise_netdev::daemon::Ended;
use ackwise_netdev::{BATCH, Interface, PacketSocket, SendStats, TunDevice};
use ackwise_queue::Nanos;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use crate::core::Core;
use crate::frame::FrameBuf;
use crate::rate_controller::RateController;
use crate::redirect::Heartbeat;
use crate::shared::{Shared, lock};
use crate::stats::{Amount, reasons};

/// The number of frames read before others are sent.
const MAX_READ: usize = 256;
/// The number of frames per reading of the clock. A reading costs a fiftieth of what a frame costs,
/// and this many frames take some 10 µs.
const FRAMES_PER_CLOCK: usize = 16;
/// The interval between heartbeats and checks of the devices, in nanoseconds.
const HEARTBEAT_INTERVAL: Nanos = 50_000_000;
/// If the loop has not run for this long, in nanoseconds, the process was stopped and the link
/// counts as idle.
const STALL_THRESHOLD: Nanos = 2 * HEARTBEAT_INTERVAL;
/// If there is no heartbeat for this long, packets take the ordinary path.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_millis(500);

/// Moves packets from the device through the core to the interface.
pub(crate) struct Forwarder {
    pub core: Core,
    pub interface: Interface,
    pub device: TunDevice,
    pub socket: PacketSocket,
    pub heartbeat: Heartbeat,
    /// `Some` if the rate is measured.
    pub rate_controller: Option<RateController>,
    /// Readable when the loop is to end.
    pub wake: OwnedFd,
    pub out: Vec<FrameBuf>,
    pub read: u64,
    pub sent: SendStats,
}

impl Forwarder {
    /// Runs until there is a reason to end, which it returns. It then detaches the program, in the
    /// network namespace that it was attached in, and sends what still waits.
    pub fn run(mut self, shared: &Shared) -> Ended {
        let ended = self.work(shared);
        let _ = self.heartbeat.beat(Duration::ZERO);
        // Detach this first, since on clsact the other one removes the qdisc if it is not in use.
        if let Some(rate_controller) = &mut self.rate_controller {
            rate_controller.detach();
        }
        lock(&shared.redirect).detach();
        while matches!(self.receive(), Ok(1..)) {}
        self.flush();
        self.publish(shared);
        ended
    }

    fn work(&mut self, shared: &Shared) -> Ended {
        let mut next_heartbeat = 0;
        let mut last_iteration = monotonic_ns();
        loop {
            if shared.lifecycle.should_stop() {
                return Ended::Requested;
            }
            let iteration = monotonic_ns();
            if iteration - std::mem::replace(&mut last_iteration, iteration) > STALL_THRESHOLD {
                self.core.stalled_until(iteration);
            }
            let Ok(read) = self.receive() else {
                return Ended::DeviceGone;
            };
            self.send_due(monotonic_ns());
            let now = monotonic_ns();
            if now >= next_heartbeat {
                next_heartbeat = now + HEARTBEAT_INTERVAL;
                if let Some(ended) = self.heartbeat(shared) {
                    return ended;
                }
            }
            let mut next = next_heartbeat;
            if let Some(rate_controller) = &mut self.rate_controller {
                next = next.min(rate_controller.sample(&mut self.core, now));
            }
            if read < MAX_READ {
                self.wait(next);
            }
        }
    }

    /// Reads the frames that have arrived, and returns their number.
    fn receive(&mut self) -> io::Result<usize> {
        let mut now = 0;
        for n in 0..MAX_READ {
            let mut buffer = self.core.buffer();
            match self.device.recv(buffer.room()) {
                // The frame may be truncated: the MTU may have grown since it was last checked.
                Ok(Some(len)) if len == buffer.room().len() => {
                    self.read += 1;
                    self.sent.refused += 1;
                    self.core.reuse(buffer);
                }
                Ok(Some(len)) => {
                    self.read += 1;
                    if now == 0 || n % FRAMES_PER_CLOCK == 0 {
                        now = monotonic_ns();
                    }
                    self.core.offer(buffer, len, now);
                }
                Ok(None) => {
                    self.core.reuse(buffer);
                    return Ok(n);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(MAX_READ)
    }

    /// Sends the frames that are due.
    fn send_due(&mut self, now: Nanos) {
        loop {
            while self.out.len() < BATCH {
                let Some(frame) = self.core.release(now) else {
                    break;
                };
                self.out.push(frame);
            }
            if self.out.is_empty() {
                break;
            }
            self.send();
        }
    }

    fn send(&mut self) {
        let sent = self.socket.send(&self.out);
        let sum = &mut self.sent;
        sum.packets += sent.packets;
        sum.bytes += sent.bytes;
        sum.no_room += sent.no_room;
        sum.down += sent.down;
        sum.refused += sent.refused;
        sum.interface_gone |= sent.interface_gone;
        for buffer in self.out.drain(..) {
            self.core.reuse(buffer);
        }
    }

    /// Sends what still waits, regardless of the rate, because the gateway ends.
    fn flush(&mut self) {
        let mut left = self.core.drain().into_iter();
        loop {
            self.out.extend(left.by_ref().take(BATCH));
            if self.out.is_empty() {
                return;
            }
            self.send();
        }
    }

    /// Writes the heartbeat and checks the devices. Returns the reason to end, if there is one.
    fn heartbeat(&mut self, shared: &Shared) -> Option<Ended> {
        if self.sent.interface_gone || !self.interface.exists() {
            return Some(Ended::InterfaceGone);
        }
        if !self.device.is_up() {
            return Some(Ended::DeviceGone);
        }
        if let Some(mtu) = self.device.mtu_of(&self.interface) {
            self.core.set_mtu(mtu);
        }
        if !shared.lifecycle.is_frozen()
            && let Err(error) = self.heartbeat.beat(HEARTBEAT_TIMEOUT)
        {
            tracing::warn!("heartbeat: {error}; packets pass until it works again");
        }
        self.publish(shared);
        None
    }

    /// Publishes the counters.
    pub fn publish(&self, shared: &Shared) {
        let (link, queue) = (self.core.link(), self.core.queue());
        let waiting = self.core.waiting();
        let overrun = self.device.tx_dropped();
        let mut stats = lock(&shared.stats);
        stats.cpu_s = thread_cpu_ns() as f64 / 1e9;
        stats.read = self.read;
        stats.measured = self.rate_controller.as_ref().map(RateController::now);
        stats.sent = Amount {
            packets: self.sent.packets,
            bytes: self.sent.bytes,
        };
        stats.filtered = Amount {
            packets: queue.filtered,
            bytes: queue.filtered_bytes,
        };
        stats.marked = queue.marks;
        stats.dropped.full = link.dropped_queue;
        stats.dropped.early = queue.early_drops;
        stats.dropped.forced = queue.forced_drops;
        stats.dropped.overrun = overrun;
        stats.dropped.no_room = self.sent.no_room;
        stats.dropped.down = self.sent.down;
        stats.dropped.refused = self.sent.refused;
        stats.waiting.packets = waiting.packets;
        stats.waiting.bytes = waiting.bytes;
        stats.waiting.max_packets = link.queue_max_packets as u64;
        stats.waiting.max_bytes = link.queue_max_bytes;
        stats.waiting.max_wait_us = link.wait_max_ns / 1000;
        stats.waiting.red_average = self.core.red_average();
        stats.reasons = reasons(&queue);
    }

    /// Sleeps until a frame arrives or is due, at most until `next`.
    fn wait(&self, next: Nanos) {
        let due = self.core.wakeup().map_or(next, |due| due.min(next));
        let span = due.saturating_sub(monotonic_ns());
        if span == 0 {
            return;
        }
        let mut waiting = [
            PollFd::new(self.device.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.wake.as_fd(), PollFlags::POLLIN),
        ];
        let timeout = TimeSpec::from_duration(Duration::from_nanos(span));
        // The loop checks everything, whatever woke it.
        let _ = ppoll(&mut waiting, Some(timeout), None);
    }
}
