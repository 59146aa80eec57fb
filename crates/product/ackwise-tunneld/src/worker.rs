//! The thread that moves packets.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ackwise_config::tunnel::Tunnel as Config;
use ackwise_netdev::clock::{monotonic_ns, thread_cpu_ns};
use ackwise_netdev::{Interface, TunDevice, ip_offset};

use crate::checksum;
use crate::entrance::Entrance;
use crate::exit::{Exit, destination};
use crate::hook::{Acks, Hook, Shared as Memory};
use crate::peer::{Peer, Taken, Ways};
use crate::privileges;
use crate::stats::Stats;
use crate::udp::Sockets;
use crate::waits::{Waits, What};

/// Packets that are read of one kind before others are.
const TAKE: usize = 256;
/// The same of copies of ACKs, which cost no system calls: more than come during a nap.
const TAKE_COPIES: usize = 2048;
/// How often it looks whether its devices are there, and publishes its counters.
const BEAT: u64 = 50_000_000;
/// Beats between two looks at what a device has dropped, which reads a table of all devices.
const OVERRUNS: u32 = 20;
/// Longer than any packet.
const ROOM: usize = 1 << 16;

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
    /// For tests: the thread stands still.
    pub freeze: AtomicBool,
}

/// ACKs that are taken where they leave.
#[derive(Debug)]
pub(crate) struct Detour {
    pub interface: Interface,
    pub inlet: TunDevice,
    pub hook: Hook,
    pub memory: Memory,
    pub acks: Acks,
}

impl Detour {
    /// The next frame that was taken, and where its IP header begins. To look at the device
    /// costs a system call.
    fn take(&mut self, room: &mut [u8], at_device: bool) -> io::Result<Option<(usize, usize)>> {
        let kind = self.interface.kind;
        while let Some(len) = self.acks.take(room) {
            if let Some(at) = ip_offset(&room[..len], kind) {
                checksum::complete(&mut room[at..len]);
                return Ok(Some((at, len)));
            }
        }
        if !at_device {
            return Ok(None);
        }
        while let Some(len) = self.inlet.recv(room)? {
            if let Some(at) = ip_offset(&room[..len], kind) {
                return Ok(Some((at, len)));
            }
        }
        Ok(None)
    }
}

#[derive(Debug)]
pub(crate) struct Worker {
    pub config: Config,
    pub peers: Vec<Peer>,
    pub sockets: Sockets,
    pub link: Entrance,
    pub detour: Option<Detour>,
    pub exit: Exit,
    pub room: Vec<u8>,
    /// The last destination, and who it is behind.
    pub last: Option<(IpAddr, Option<usize>)>,
    pub waits: Waits,
    /// What the program and the devices were told of who is up.
    pub told: Vec<bool>,
    pub strangers: u64,
    pub beats: u32,
    pub overrun: u64,
}

impl Worker {
    pub fn new_room() -> Vec<u8> {
        vec![0; ROOM]
    }

    /// Works until there is a reason not to.
    pub fn run(mut self, shared: &Shared) {
        // The default, 50 µs, is a tenth of the shortest period.
        // SAFETY: no pointers.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0) };
        privileges::go_first();
        self.link.begin();
        let why = self.work(shared);
        if let Some(detour) = &mut self.detour {
            detour.hook.remove();
        }
        // What came before that takes the ordinary path.
        self.send_outside();
        self.beats = 0;
        self.publish(shared);
        // Before anyone hears of the end: nothing is left then.
        drop(self);
        *lock(&shared.ended) = Some(why);
    }

    fn work(&mut self, shared: &Shared) -> Why {
        let mut next_beat = 0;
        if self.detour.is_none() {
            self.set_carrier();
        }
        loop {
            if shared.stop.load(Ordering::Acquire) {
                return Why::Asked;
            }
            while shared.freeze.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(1));
            }
            let Ok(read) = self.take_packets() else {
                return self.why_gone();
            };
            let busy = read | self.take_datagrams();
            let now = monotonic_ns();
            self.tick(now);
            self.exit.flush();
            self.tell();
            if now >= next_beat {
                next_beat = now + BEAT;
                if let Some(why) = self.look_around() {
                    return why;
                }
                self.publish(shared);
            }
            if busy {
                self.waits.unknown();
            } else {
                self.wait(next_beat);
            }
        }
    }

    fn why_gone(&self) -> Why {
        match &self.detour {
            Some(detour) if !detour.interface.exists() => Why::InterfaceGone,
            _ => Why::DeviceGone,
        }
    }

    /// Whether there may be more.
    fn take_packets(&mut self) -> io::Result<bool> {
        let mut busy = false;
        let now = monotonic_ns();
        if let Some(mut detour) = self.detour.take() {
            let taken = self.take_from(&mut detour, now);
            if matches!(taken, Ok(false)) {
                detour.memory.all_read();
            }
            self.detour = Some(detour);
            busy |= taken?;
        }
        if !self.waits.may_have(What::Link) {
            return Ok(busy);
        }
        for _ in 0..TAKE {
            let Some(len) = self.link.recv(&mut self.room)? else {
                return Ok(busy);
            };
            self.offer(0, len, now);
        }
        Ok(true)
    }

    fn take_from(&mut self, detour: &mut Detour, now: u64) -> io::Result<bool> {
        let at_device = self.waits.may_have(What::Inlet);
        for _ in 0..TAKE_COPIES {
            let Some((at, len)) = detour.take(&mut self.room, at_device)? else {
                return Ok(false);
            };
            self.offer(at, len, now);
        }
        Ok(true)
    }

    /// A packet in the room, behind a link header of `at` bytes if it was redirected.
    fn offer(&mut self, at: usize, len: usize, now: u64) {
        let (header, packet) = self.room[..len].split_at(at);
        let Some(to) = destination(packet) else {
            return;
        };
        if at > 0 {
            self.exit.headers.learn(to, header);
        }
        let peer = match self.last {
            Some((last, peer)) if last == to => peer,
            _ => self.config.peer_of(to),
        };
        self.last = Some((to, peer));
        let Some(peer) = peer.and_then(|peer| self.peers.get_mut(peer)) else {
            // Routed here, and there is nobody. What only concerns a link ends here.
            if !is_of_link(to) {
                self.exit.put(packet);
            }
            return;
        };
        let mut ways = Ways {
            sockets: &self.sockets,
            link: &self.link,
            exit: &mut self.exit,
        };
        peer.packet(packet, now, &mut ways);
    }

    /// Whether there may be more.
    fn take_datagrams(&mut self) -> bool {
        let mut busy = false;
        for socket in 0..self.sockets.len() {
            if !self.waits.may_have(What::Socket(socket)) {
                continue;
            }
            for n in 0..TAKE {
                let Some((len, from)) = self.sockets.receive(socket, &mut self.room) else {
                    break;
                };
                self.datagram(len, from);
                busy |= n == TAKE - 1;
            }
        }
        busy
    }

    /// First whoever is at that address, then those who may have moved there.
    fn datagram(&mut self, len: usize, from: SocketAddr) {
        let datagram = &self.room[..len];
        let now = monotonic_ns();
        let mut ways = Ways {
            sockets: &self.sockets,
            link: &self.link,
            exit: &mut self.exit,
        };
        for known in [true, false] {
            for peer in &mut self.peers {
                let asked = peer.is_at(from) == known && (known || peer.may_move());
                if asked && peer.datagram(datagram, from, now, &mut ways) == Taken::Yes {
                    return;
                }
            }
        }
        self.strangers += 1;
    }

    fn tick(&mut self, now: u64) {
        let mut ways = Ways {
            sockets: &self.sockets,
            link: &self.link,
            exit: &mut self.exit,
        };
        for peer in &mut self.peers {
            if peer.wake(now) <= now {
                peer.tick(now, &mut ways);
            }
        }
    }

    /// Says who is up, where that has changed.
    fn tell(&mut self) {
        let mut changed = false;
        for (at, (peer, told)) in self.peers.iter().zip(&mut self.told).enumerate() {
            if peer.is_up() != *told {
                *told = peer.is_up();
                changed = true;
                if let Some(detour) = &self.detour {
                    detour.memory.set_up(at, *told);
                }
            }
        }
        if changed && self.detour.is_none() {
            self.set_carrier();
        }
    }

    /// Routes to a device without carrier are not used: packets take the next.
    fn set_carrier(&self) {
        if let Err(error) = self.link.set_carrier(self.told.contains(&true)) {
            tracing::debug!("carrier of {}: {error}", self.link.name);
        }
    }

    /// Why to end, if there is a reason.
    fn look_around(&self) -> Option<Why> {
        self.link.look_around();
        if let Some(detour) = &self.detour {
            if !detour.interface.exists() {
                return Some(Why::InterfaceGone);
            }
            if !detour.inlet.is_up() {
                return Some(Why::DeviceGone);
            }
        }
        (!self.link.is_up()).then_some(Why::DeviceGone)
    }

    /// What was redirected here before the hook was taken away, and what waits.
    fn send_outside(&mut self) {
        let mut ways = Ways {
            sockets: &self.sockets,
            link: &self.link,
            exit: &mut self.exit,
        };
        let now = monotonic_ns();
        for peer in &mut self.peers {
            peer.end(now, &mut ways);
        }
        if let Some(mut detour) = self.detour.take() {
            while let Ok(Some((at, len))) = detour.take(&mut self.room, true) {
                let (header, packet) = self.room[..len].split_at(at);
                if let Some(to) = destination(packet) {
                    self.exit.headers.learn(to, header);
                    self.exit.put(packet);
                }
            }
            self.detour = Some(detour);
        }
        self.exit.flush();
    }

    fn publish(&mut self, shared: &Shared) {
        let now = monotonic_ns();
        let program = self.detour.as_ref().map(|detour| detour.memory.counters());
        let program = program.unwrap_or_default();
        if self.beats.is_multiple_of(OVERRUNS) {
            let detour = self.detour.as_ref();
            let inlet = detour.map_or(&*self.link, |detour| &detour.inlet);
            self.overrun = inlet.tx_dropped();
        }
        self.beats = self.beats.wrapping_add(1);
        let peers = self.peers.iter_mut().map(|peer| peer.stats(now)).collect();
        let mut stats = lock(&shared.stats);
        stats.cpu_s = thread_cpu_ns() as f64 / 1e9;
        stats.taken = program.taken;
        stats.unattended = program.unattended;
        stats.overrun = self.overrun;
        stats.outside = self.exit.sent;
        stats.outside_failed = self.exit.failed;
        stats.strangers = self.strangers;
        stats.restored = self.link.stats();
        stats.peers = peers;
    }

    /// Until when no packet needs to be read, if that is so for any peer: others bound it.
    fn nap(&mut self, now: u64) -> Option<u64> {
        let (mut any, mut until) = (false, u64::MAX);
        for peer in self.peers.iter_mut().filter(|peer| peer.is_up()) {
            let nap = peer.nap(now);
            any |= nap.is_some();
            until = until.min(nap.unwrap_or_else(|| peer.next_nap(now)));
        }
        any.then_some(until)
    }

    /// Sleeps until something comes or is due; while packets come quickly, until it is worth
    /// while to read them.
    fn wait(&mut self, next_beat: u64) {
        let now = monotonic_ns();
        let nap = self.nap(now);
        let due = self
            .peers
            .iter()
            .map(|peer| peer.wake(now))
            .fold(nap.unwrap_or(u64::MAX).min(next_beat), u64::min);
        let span = due.saturating_sub(now);
        if span == 0 {
            self.waits.unknown();
            return;
        }
        self.waits.sleep(Duration::from_nanos(span), nap.is_some());
    }
}

/// Multicast, and addresses that mean this link alone.
fn is_of_link(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_multicast() || v4.is_broadcast() || v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_multicast() || v6.is_unicast_link_local(),
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
