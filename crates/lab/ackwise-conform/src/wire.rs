//! Packet sockets: the endpoints on real interfaces.

use std::collections::HashMap;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, OwnedFd};

use ackwise_engines::{LabError, clock};
use ackwise_netdev::packet_socket::{self, Layer, Receives};
use ackwise_netdev::sockopt::{self, set_int};
use nix::sys::socket::{MsgFlags, recv, send};

use crate::device::{Arrival, Error};
use crate::packet::{Side, without_hops};
use crate::schedule::Schedule;

const ETHERNET: usize = 14;
/// Buffer for packets that arrive while this process is not scheduled.
const BUFFER_BYTES: libc::c_int = 16 << 20;
/// If the machine is later than this, the schedule's start is moved.
const LATE_NS: u64 = 2_000_000;

/// A packet socket on an interface of the calling thread's namespace.
#[derive(Debug)]
pub(crate) struct Wire {
    socket: OwnedFd,
    /// Destination and source address of frames.
    to: [u8; 6],
    from: [u8; 6],
}

impl Wire {
    /// Opens a socket whose frames go to the interface with the address `to`.
    ///
    /// # Errors
    /// There is no such interface, or the caller lacks the permission.
    pub fn open(interface: &str, from: [u8; 6], to: [u8; 6]) -> Result<Self, Error> {
        let index = nix::net::if_::if_nametoindex(interface).map_err(LabError::errno(format!(
            "there is no interface {interface}"
        )))?;
        let socket = packet_socket::open(Layer::Link)
            .map_err(LabError::os("cannot open a packet socket"))?;
        for (level, name, value) in [
            (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, BUFFER_BYTES),
            (libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1),
        ] {
            set_int(&socket, level, name, value)
                .map_err(LabError::os("cannot set an option of a packet socket"))?;
        }
        packet_socket::bind(&socket, Some(index), Receives::All)
            .map_err(LabError::os("cannot bind a packet socket"))?;
        hear_all(&socket, index)?;
        Ok(Self { socket, to, from })
    }

    fn send(&self, packet: &[u8]) -> Result<(), Error> {
        let kind: u16 = if packet[0] >> 4 == 4 { 0x0800 } else { 0x86dd };
        let frame = [&self.to[..], &self.from, &kind.to_be_bytes(), packet].concat();
        send(self.socket.as_raw_fd(), &frame, MsgFlags::empty())
            .map_err(LabError::errno("cannot send a packet"))?;
        Ok(())
    }

    /// The next IP packet that has arrived, without its Ethernet header.
    fn receive(&self) -> Option<Vec<u8>> {
        let mut bytes = vec![0_u8; 4096];
        loop {
            let flags = MsgFlags::MSG_DONTWAIT;
            let got = recv(self.socket.as_raw_fd(), &mut bytes, flags).ok()?;
            if got > ETHERNET && matches!(bytes[12..14], [0x08, 0x00] | [0x86, 0xdd]) {
                return Some(bytes[ETHERNET..got].to_vec());
            }
        }
    }
}

/// Enables promiscuous mode, because frames go to addresses of the endpoints, which a network card
/// does not know as its own. This ends with the socket.
fn hear_all(socket: &OwnedFd, index: u32) -> Result<(), Error> {
    // SAFETY: all zeroes is a valid `packet_mreq`.
    let mut request: libc::packet_mreq = unsafe { zeroed() };
    request.mr_ifindex = index as i32;
    request.mr_type = libc::PACKET_MR_PROMISC as u16;
    sockopt::set(
        socket,
        libc::SOL_PACKET,
        libc::PACKET_ADD_MEMBERSHIP,
        &request,
    )
    .map_err(LabError::os("cannot receive packets for other addresses"))?;
    Ok(())
}

/// Waits until a packet has arrived on either wire, but at most `ns`.
fn wait(wires: [&Wire; 2], ns: u64) {
    let mut polled = wires.map(|wire| libc::pollfd {
        fd: wire.socket.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    });
    let time = libc::timespec {
        tv_sec: (ns / 1_000_000_000) as i64,
        tv_nsec: (ns % 1_000_000_000) as i64,
    };
    // A signal or an error ends it early, and the caller looks at the clock.
    // SAFETY: the array and the time are live, and the length is its own.
    unsafe { libc::ppoll(polled.as_mut_ptr(), 2, &raw const time, std::ptr::null()) };
}

/// Sends the packets of the schedule, and collects the arrivals. `on_progress` is called with the
/// number of packets sent.
///
/// # Errors
/// A packet cannot be sent.
pub(crate) fn run(
    receiver: &Wire,
    sender: &Wire,
    schedule: &Schedule,
    mut on_progress: impl FnMut(usize),
) -> Result<Vec<Arrival>, Error> {
    let mut arrivals = Vec::new();
    let mut clock = Clock::new(clock::now_ns() + LATE_NS);
    let mut gather = |clock: &Clock, until_ns: u64| loop {
        for (wire, from) in [(sender, Side::Receiver), (receiver, Side::Sender)] {
            while let Some(packet) = wire.receive() {
                arrivals.push(Arrival {
                    at_ns: clock.arrival_ns(&packet, clock::now_ns()),
                    from,
                    packet,
                });
            }
        }
        let now = clock::now_ns();
        let until_ns = clock.start_ns + until_ns;
        if now >= until_ns {
            return now;
        }
        wait([receiver, sender], until_ns - now);
    };
    for (number, departure) in schedule.departures().enumerate() {
        let now = gather(&clock, departure.at_ns);
        clock.departs(&departure.packet, departure.at_ns, now);
        match departure.from {
            Side::Receiver => receiver.send(&departure.packet)?,
            Side::Sender => sender.send(&departure.packet)?,
        }
        if number % 500 == 0 {
            on_progress(number);
        }
    }
    gather(&clock, schedule.end_ns());
    Ok(arrivals)
}

/// The clock of the schedule. If the machine is late, the start moves, so that later packets keep
/// their intervals.
struct Clock {
    start_ns: u64,
    /// The start at the time each packet left, by which its arrival is measured too: a packet in
    /// flight when the start moved was not faster.
    left_by: HashMap<Vec<u8>, u64>,
}

impl Clock {
    fn new(start_ns: u64) -> Self {
        let left_by = HashMap::new();
        Self { start_ns, left_by }
    }

    /// Notes that a packet leaves that was due at `at_ns`.
    fn departs(&mut self, packet: &[u8], at_ns: u64, now_ns: u64) {
        let late = now_ns.saturating_sub(self.start_ns + at_ns);
        if late > LATE_NS {
            self.start_ns += late;
        }
        self.left_by.insert(without_hops(packet), self.start_ns);
    }

    /// The arrival time of a packet. A packet that the device has changed is measured by the
    /// current start.
    fn arrival_ns(&self, packet: &[u8], now_ns: u64) -> u64 {
        let start_ns = self.left_by.get(&without_hops(packet));
        now_ns.saturating_sub(*start_ns.unwrap_or(&self.start_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A pause while a packet is held still counts as delay.
    #[test]
    fn what_is_in_flight_when_the_start_moves_has_not_been_faster() {
        let packet = |id: u8| {
            let mut packet = vec![0x45, 0, 0, 20];
            packet.extend([id; 16]);
            packet
        };
        let mut clock = Clock::new(1000 * MS);
        clock.departs(&packet(1), 10 * MS, 1010 * MS);
        assert_eq!(clock.arrival_ns(&packet(1), 1015 * MS), 15 * MS);
        // The packet was due at 20 ms and leaves 500 ms later.
        clock.departs(&packet(2), 20 * MS, 1520 * MS);
        assert_eq!(clock.arrival_ns(&packet(1), 1530 * MS), 530 * MS);
        assert_eq!(clock.arrival_ns(&packet(2), 1530 * MS), 30 * MS);
        assert_eq!(clock.arrival_ns(&packet(3), 1530 * MS), 30 * MS);
        let mut fewer_hops = packet(2);
        fewer_hops[8] = 1;
        assert_eq!(clock.arrival_ns(&fewer_hops, 1530 * MS), 30 * MS);
    }
}
