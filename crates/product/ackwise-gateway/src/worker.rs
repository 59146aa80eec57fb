//! The thread that moves packets.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ackwise_netdev::clock::{monotonic_ns, thread_cpu_ns};
use ackwise_netdev::{BATCH, Interface, PacketSocket, SendStats, TunDevice};
use ackwise_queue::Nanos;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use crate::core::Core;
use crate::frame::Parcel;
use crate::hook::{Heart, Hook};
use crate::meter::{Look, Meter};
use crate::rtt::Rtt;
use crate::stats::{Amount, Measured, Stats, reasons};

/// Frames that are read before others are sent.
const TAKE: usize = 256;
/// Frames that are read by one look at the clock: a look costs a fiftieth of what a frame does, and
/// these take some 10 µs.
const LOOK: usize = 16;
/// How often it says that it works, and looks whether its devices are there.
const BEAT: Nanos = 50_000_000;
/// Past this without a sign of life, packets take the ordinary way.
const ALIVE: Duration = Duration::from_millis(500);

/// Why the thread ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    Asked,
    InterfaceGone,
    DeviceGone,
}

/// What the thread and its owner both look at.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub stop: AtomicBool,
    pub ended: Mutex<Option<Why>>,
    pub stats: Mutex<Stats>,
    /// For tests: no sign of life, without anything else stopping.
    pub freeze: AtomicBool,
}

pub(crate) struct Worker {
    pub core: Core,
    pub interface: Interface,
    pub device: TunDevice,
    pub socket: PacketSocket,
    pub heart: Heart,
    /// Where the rate is measured.
    pub measuring: Option<Measuring>,
    /// Readable when the thread is to look at `stop`.
    pub wake: OwnedFd,
    pub out: Vec<Parcel>,
    pub read: u64,
    pub sent: SendStats,
}

/// What it takes to measure the rate.
pub(crate) struct Measuring {
    pub meter: Meter,
    pub rtt: Rtt,
    /// Nothing waited at some moment since the last look.
    pub idle: bool,
}

impl Worker {
    /// Works until there is a reason not to; then unhooks the program, from the network
    /// namespace that it is in, and lets what still waits go.
    pub fn run(mut self, shared: &Shared, hook: &Mutex<Hook>) {
        let why = self.work(shared);
        let _ = self.heart.beat(Duration::ZERO);
        hook.lock().unwrap_or_else(PoisonError::into_inner).remove();
        while matches!(self.take(), Ok(1..)) {}
        self.flush();
        self.publish(shared);
        *shared.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }

    fn work(&mut self, shared: &Shared) -> Why {
        let mut next_beat = 0;
        loop {
            if shared.stop.load(Ordering::Acquire) {
                return Why::Asked;
            }
            let Ok(read) = self.take() else {
                return Why::DeviceGone;
            };
            self.give(monotonic_ns());
            let now = monotonic_ns();
            if now >= next_beat {
                next_beat = now + BEAT;
                if let Some(why) = self.beat(shared) {
                    return why;
                }
            }
            if read < TAKE {
                self.wait(next_beat);
            }
        }
    }

    /// Reads what has come; how many frames that were.
    fn take(&mut self) -> io::Result<usize> {
        let mut now = 0;
        for n in 0..TAKE {
            let mut buffer = self.core.buffer();
            match self.device.recv(buffer.room()) {
                // It may have been cut: the MTU has grown since the last look at it.
                Ok(Some(len)) if len == buffer.room().len() => {
                    self.read += 1;
                    self.sent.refused += 1;
                    self.core.reuse(buffer);
                }
                Ok(Some(len)) => {
                    self.read += 1;
                    if now == 0 || n % LOOK == 0 {
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
        Ok(TAKE)
    }

    /// Sends what is due.
    fn give(&mut self, now: Nanos) {
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
        if self.core.wakeup().is_none()
            && let Some(measuring) = &mut self.measuring
        {
            measuring.idle = true;
        }
    }

    /// Another look at the delay behind the gateway.
    fn measure(&mut self) {
        let Some(measuring) = &mut self.measuring else {
            return;
        };
        let timed = measuring.rtt.timed().unwrap_or_else(|error| {
            tracing::warn!("timing round trips: {error}; the rate stays");
            None
        });
        let rate = measuring.meter.look(Look {
            at: monotonic_ns(),
            sent: self.core.link().sent_bytes,
            busy: !std::mem::take(&mut measuring.idle),
            timed,
        });
        self.core.set_rate(rate);
    }

    fn send(&mut self) {
        let sent = self.socket.send(&self.out);
        let sum = &mut self.sent;
        sum.packets += sent.packets;
        sum.bytes += sent.bytes;
        sum.no_room += sent.no_room;
        sum.down += sent.down;
        sum.refused += sent.refused;
        sum.gone |= sent.gone;
        for buffer in self.out.drain(..) {
            self.core.reuse(buffer);
        }
    }

    /// Sends what still waits, whatever the rate: the gateway ends, the packets
    /// shall not.
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

    /// Why to end, if there is a reason.
    fn beat(&mut self, shared: &Shared) -> Option<Why> {
        if self.sent.gone || !self.interface.exists() {
            return Some(Why::InterfaceGone);
        }
        if !self.device.is_up() {
            return Some(Why::DeviceGone);
        }
        if let Some(mtu) = self.device.mtu_of(&self.interface) {
            self.core.set_mtu(mtu);
        }
        if !shared.freeze.load(Ordering::Relaxed)
            && let Err(error) = self.heart.beat(ALIVE)
        {
            tracing::warn!("sign of life: {error}; packets pass until it works again");
        }
        self.measure();
        self.publish(shared);
        None
    }

    /// Tells its counters.
    pub fn publish(&self, shared: &Shared) {
        let (link, queue) = (self.core.link(), self.core.queue());
        let (packets, bytes) = self.core.waiting();
        let overrun = self.device.tx_dropped();
        let mut stats = shared.stats.lock().unwrap_or_else(PoisonError::into_inner);
        stats.cpu_s = thread_cpu_ns() as f64 / 1e9;
        stats.read = self.read;
        stats.measured = self.measuring.as_ref().map(|measuring| Measured {
            rate_bps: measuring.meter.rate_bps(),
            known: measuring.meter.has_measured(),
        });
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
        stats.waiting.packets = packets as u64;
        stats.waiting.bytes = bytes;
        stats.waiting.max_packets = link.queue_max_packets as u64;
        stats.waiting.max_bytes = link.queue_max_bytes;
        stats.waiting.max_wait_us = link.wait_max_ns / 1000;
        stats.waiting.red_average = self.core.red_average();
        stats.reasons = reasons(&queue);
    }

    /// Sleeps until a frame comes or is due.
    fn wait(&self, next_beat: Nanos) {
        let due = self
            .core
            .wakeup()
            .map_or(next_beat, |due| due.min(next_beat));
        let span = due.saturating_sub(monotonic_ns());
        if span == 0 {
            return;
        }
        let mut waiting = [
            PollFd::new(self.device.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.wake.as_fd(), PollFlags::POLLIN),
        ];
        let timeout = TimeSpec::from_duration(Duration::from_nanos(span));
        // Woken by a signal or not at all: the loop looks at everything anyway.
        let _ = ppoll(&mut waiting, Some(timeout), None);
    }
}
