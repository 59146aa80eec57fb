//! Re-emission: held ACKs whose deadline has passed go back through the hook that they were taken
//! from. A heartbeat tells the programs that user space is there to do so.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use aya::maps::{Array, MapData, RingBuf};
use nix::sys::socket::MsgFlags;
use portable_atomic::AtomicU64;

use ackwise_headers::checksum;
use ackwise_netdev::clock::monotonic_ns;
use ackwise_netdev::daemon::Lifecycle;
use ackwise_netdev::packet_socket::{self, Destination};
use ackwise_netdev::{Attachment, TunDevice, exists};

use crate::cpu::Cpus;
use crate::egress::Egress;
use crate::sys;

const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(100);
/// If the process stops for longer than this, nothing is held any more.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_millis(500);
/// The real-time priority of the re-emitting thread.
pub(crate) const FIFO_PRIORITY: u32 = 10;

/// State that other threads share with the re-emitting one.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// Stop the heartbeats, so that nothing new is held.
    pub(crate) quiesce: AtomicBool,
    /// Hold nothing while this is set.
    pub(crate) paused: AtomicBool,
    pub(crate) interface_gone: AtomicBool,
    /// Whether the TAP device through which held ACKs come back was deleted or taken down.
    pub(crate) device_gone: AtomicBool,
    /// Whether renewals of the policy's parameters are no longer wanted.
    pub(crate) ending: AtomicBool,
    /// Whether others fill the link.
    pub(crate) others_fill_link: AtomicBool,
    /// Whether the queue that classified ACKs was replaced.
    pub(crate) queue_replaced: AtomicBool,
    pub(crate) realtime: AtomicBool,
    pub(crate) sent: AtomicU64,
    pub(crate) send_errors: AtomicU64,
    pub(crate) repeats_ignored: AtomicU64,
    pub(crate) checksums_filled: AtomicU64,
    pub(crate) checksums_wrong: AtomicU64,
}

impl Shared {
    /// Whether departing ACKs get `Options::ack_priority`. Another queue would take it for one of
    /// its own classes, perhaps the last.
    pub(crate) fn use_ack_priority(&self) -> bool {
        let replaced = self.queue_replaced.load(Ordering::SeqCst);
        self.others_fill_link.load(Ordering::SeqCst) && !replaced
    }

    /// Whether held ACKs can no longer leave.
    pub(crate) fn cannot_reemit(&self) -> bool {
        self.interface_gone.load(Ordering::Acquire) || self.device_gone.load(Ordering::Acquire)
    }
}

/// Where frames are injected.
pub(crate) enum Injection {
    /// Sent by the interface itself, past the egress hook.
    Packet(OwnedFd),
    /// Received from a TAP device, whose program redirects to the interface's ingress.
    Tap(TunDevice),
}

pub(crate) struct Emitter {
    pub(crate) injection: Injection,
    /// The program that redirects what arrives from the TAP device.
    pub(crate) _back: Option<Attachment>,
    pub(crate) ifindex: u32,
    pub(crate) ring: RingBuf<MapData>,
    pub(crate) control: Array<MapData, sys::aw_control>,
    /// The control values, written with each heartbeat.
    pub(crate) control_values: sys::aw_control,
    /// `None` if nothing needs to know who fills the link.
    pub(crate) egress: Option<Egress>,
    /// `None` if the policy does not use it.
    pub(crate) cpus: Option<Cpus>,
    /// The last generation sent, by slot.
    pub(crate) sent: Vec<u32>,
}

impl Emitter {
    /// Returns whether each frame is sent with its own mark, which needs a capability.
    pub(crate) fn marks_packets(&self) -> bool {
        matches!(self.injection, Injection::Packet(_))
    }

    pub(crate) fn run(mut self, lifecycle: &Lifecycle, shared: &Shared, realtime: bool) {
        if realtime {
            shared.realtime.store(fifo(), Ordering::Relaxed);
        }
        let mut last_heartbeat = Instant::now();
        self.heartbeat(lifecycle, shared);
        loop {
            let mut fd = libc::pollfd {
                fd: self.ring.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            };
            // SAFETY: one valid pollfd. An error is a spurious wake-up.
            unsafe { libc::poll(&raw mut fd, 1, 20) };
            self.drain(shared);
            if lifecycle.should_stop() {
                return;
            }
            if last_heartbeat.elapsed() >= HEARTBEAT_INTERVAL {
                last_heartbeat = Instant::now();
                self.check_interface(shared);
                self.heartbeat(lifecycle, shared);
            }
        }
    }

    fn heartbeat(&mut self, lifecycle: &Lifecycle, shared: &Shared) {
        let ends = || shared.quiesce.load(Ordering::SeqCst) || shared.cannot_reemit();
        let paused = || shared.paused.load(Ordering::SeqCst);
        if lifecycle.is_frozen() || ends() {
            if let Some(egress) = &self.egress {
                egress.pause();
            }
            return;
        }
        let now = monotonic_ns();
        let until = now + u64::try_from(HEARTBEAT_TIMEOUT.as_nanos()).unwrap_or(u64::MAX);
        self.sample_egress(now, until, shared);
        if let Some(cpus) = &self.cpus {
            self.control_values.busy_cpus = cpus.busy();
        }
        self.control_values.use_ack_priority = u32::from(shared.use_ack_priority());
        if paused() {
            // ACKs that pass have the class that held ones would have.
            if let Some(egress) = &self.egress {
                egress.pause();
            }
            self.control_values.shared_until_ns = 0;
            self.hold_until(0);
            return;
        }
        self.hold_until(until);
        // Somebody may have stopped the holding just before this.
        if ends() || paused() {
            self.hold_until(0);
        }
    }

    /// Finds out who fills the link, which flows are told until this time.
    fn sample_egress(&mut self, now_ns: u64, until_ns: u64, shared: &Shared) {
        match self.egress.as_mut().map(|it| it.sample(now_ns / 1000)) {
            Some(Ok(sampled)) => {
                let others = &shared.others_fill_link;
                others.store(sampled.others_fill_link, Ordering::SeqCst);
                self.control_values.shared_us = sampled.shared_us;
                self.control_values.shared_until_ns = until_ns;
            }
            Some(Err(e)) => tracing::debug!("who fills the link is not known: {e}"),
            None => {}
        }
    }

    /// Checks that the interface is still in this network namespace and that the TAP device is up.
    /// If not, nothing can be re-emitted, so the programs are told to hold nothing.
    fn check_interface(&mut self, shared: &Shared) {
        if shared.cannot_reemit() {
            return;
        }
        let interface_gone = !exists(self.ifindex);
        let device_gone = matches!(&self.injection, Injection::Tap(device) if !device.is_up());
        if interface_gone || device_gone {
            self.hold_until(0);
            shared.device_gone.store(device_gone, Ordering::SeqCst);
            shared
                .interface_gone
                .store(interface_gone, Ordering::SeqCst);
        }
    }

    /// Lets the programs hold ACKs until the given time.
    fn hold_until(&mut self, alive_until_ns: u64) {
        self.control_values.alive_until_ns = alive_until_ns;
        if let Err(e) = self.control.set(0, self.control_values, 0) {
            tracing::warn!("heartbeat: {e}; no ACK is held until it works again");
        }
    }

    fn drain(&mut self, shared: &Shared) {
        let mut refused = false;
        while let Some(item) = self.ring.next() {
            if item.len() < size_of::<sys::aw_emit>() {
                continue;
            }
            // SAFETY: the program submits a whole aw_emit, for which any bytes are valid.
            let e = unsafe { item.as_ptr().cast::<sys::aw_emit>().read_unaligned() };
            let Some(last) = self.sent.get_mut(e.slot as usize) else {
                continue;
            };
            /* A repeat of what went through the hook already would be one ACK too
             * many; one that failed to be sent is what repeats are for. */
            if e.tries > 1 && *last == e.generation {
                shared.repeats_ignored.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            match send(&self.injection, self.ifindex, &e, shared) {
                Ok(()) => {
                    // From the TAP device to the hook a frame waits in a backlog, which may be full.
                    if matches!(self.injection, Injection::Packet(_)) {
                        *last = e.generation;
                    }
                    shared.sent.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => {
                    shared.send_errors.fetch_add(1, Ordering::Relaxed);
                    tracing::debug!("re-emission of slot {}: {error}", e.slot);
                    refused |= matches!(
                        error.raw_os_error(),
                        Some(libc::ENXIO | libc::ENODEV | libc::EIO | libc::EBADFD)
                    );
                }
            }
            // Only now does it count as read, and can it be handed out again.
            drop(item);
        }
        if refused {
            self.check_interface(shared);
        }
    }
}

/// Makes this a real-time thread, unless the service manager has done so.
fn fifo() -> bool {
    // Use system calls: musl's functions of these names only fail.
    // SAFETY: no pointers; 0 is the calling thread.
    let now = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
    if now & !libc::c_long::from(libc::SCHED_RESET_ON_FORK) == libc::c_long::from(libc::SCHED_FIFO)
    {
        return true;
    }
    // The kernel's `struct sched_param` is one int.
    let priority = FIFO_PRIORITY as libc::c_int;
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the priority outlives the call; 0 is the calling thread.
    unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority) == 0 }
}

fn send(injection: &Injection, ifindex: u32, e: &sys::aw_emit, shared: &Shared) -> io::Result<()> {
    let (l2, l3) = (usize::from(e.l2_len), usize::from(e.l3_len));
    if l2 > e.l2.len() || l3 > e.l3.len() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut frame = Vec::with_capacity(14 + l2 + l3 + 8);
    frame.extend_from_slice(&e.l2[..l2]);
    frame.extend_from_slice(&e.l3[..l3]);
    // The checksum field of the copy is as the stack left it: complete, or partial for a device to
    // complete. A value that is neither was wrong before, and stays so.
    let packet = &mut frame[l2..];
    if checksum::complete_tcp(packet) {
        shared.checksums_filled.fetch_add(1, Ordering::Relaxed);
    } else if !checksum::is_tcp_correct(packet) {
        shared.checksums_wrong.fetch_add(1, Ordering::Relaxed);
    }
    insert_tag(&mut frame, l2, e);
    let cookie = sys::AW_COOKIE_MAGIC | e.slot;
    match injection {
        Injection::Packet(fd) => {
            // With a tag inside the frame, the protocol is the tag's type.
            let protocol = match frame.get(12..14) {
                Some(t) if l2 >= 14 => u16::from_ne_bytes([t[0], t[1]]),
                _ => e.protocol,
            };
            let to = Destination {
                interface: ifindex,
                protocol,
            };
            // Do not wait for room in the socket's send buffer, since heartbeats and the ring would
            // wait as well. The timer hands out unsent ACKs again, AW_RETRIES times.
            let flags = MsgFlags::MSG_DONTWAIT;
            packet_socket::send(fd, to, &frame, Some(cookie), flags)
        }
        Injection::Tap(device) => {
            if l2 == 0 {
                // The TAP device is Ethernet; the redirect removes this header again.
                let mut header = [0_u8; 14];
                header[12..].copy_from_slice(&e.protocol.to_ne_bytes());
                frame.splice(..0, header);
            }
            frame.extend_from_slice(&cookie.to_ne_bytes());
            match device.inject(&frame)? {
                true => Ok(()),
                false => Err(io::ErrorKind::WouldBlock.into()),
            }
        }
    }
}

/// Inserts a tag that was beside the frame, before any tags that are inside it. `l2` is the length
/// of the frame's original link header.
fn insert_tag(frame: &mut Vec<u8>, l2: usize, e: &sys::aw_emit) {
    if e.vlan_proto == 0 || l2 < 14 {
        return;
    }
    let mut tag = [0_u8; 4];
    tag[..2].copy_from_slice(&e.vlan_proto.to_ne_bytes());
    tag[2..].copy_from_slice(&e.vlan_tci.to_be_bytes());
    frame.splice(12..12, tag);
}
