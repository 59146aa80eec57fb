//! Raw sockets for flows that this process plays itself, and sockets that keep the kernel's TCP out
//! of them.
//!
//! The kernel answers segments of unknown connections with RST. It does not if a socket listens on
//! their port with a filter that drops everything ([`SilentListener`]): no firewall rule is needed,
//! and nothing is left when the process ends. A raw socket gets its copy of a packet before that.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use ackwise_netdev::raw_socket::{self, SockProtocol};
use ackwise_netdev::sockopt::{attach_filter, instruction, set_int};
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg, setsockopt, sockopt,
};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};

use crate::Error;
use crate::segment::Segment;

/// The size of a raw socket's buffers in bytes: a burst of the probe fits.
const BUFFER: usize = 4 << 20;
/// The maximum length of a packet.
const MAX_PACKET: usize = 65_536;
/// The maximum number of packets that can wait in the buffer: the kernel counts at least 768 bytes
/// for each, within twice the size that was asked for.
const BACKLOG: usize = 2 * BUFFER / 768;

/// The segments that a raw socket receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortFilter {
    /// Segments to this port.
    To(u16),
    /// Segments from this port.
    From(u16),
}

/// A segment that arrived.
#[derive(Debug, Clone)]
pub struct ReceivedSegment {
    /// When the kernel received it, in nanoseconds of [`now_ns`].
    pub at_ns: u64,
    /// The address of the sender.
    pub from: IpAddr,
    /// The segment.
    pub segment: Segment,
}

/// What an end of the probe uses to send and receive.
pub trait Wire {
    /// Sends a packet from its IP header on. `false` means that the kernel had no room for it, so
    /// it never left. A packet that a firewall rule of this host drops counts as sent, and lost on
    /// the way.
    ///
    /// # Errors
    /// If there is no route.
    fn send(&self, packet: &[u8], to: SocketAddr) -> io::Result<bool>;

    /// Reads a segment if one has arrived.
    ///
    /// # Errors
    /// If the system refuses.
    fn receive(&mut self) -> io::Result<Received>;

    /// The descriptor that becomes readable when a segment arrives.
    fn arrivals(&self) -> BorrowedFd<'_>;

    /// The clock of arrival times.
    fn now_ns(&self) -> u64 {
        now_ns()
    }
}

/// A raw socket for TCP segments of one IP version.
#[derive(Debug)]
pub struct RawSocket {
    socket: OwnedFd,
    v6: bool,
    buffer: Vec<u8>,
}

/// The time in nanoseconds by a clock that is never set.
#[must_use]
pub fn now_ns() -> u64 {
    clock_ns(ClockId::CLOCK_MONOTONIC)
}

fn clock_ns(clock: ClockId) -> u64 {
    clock_gettime(clock).map_or(0, nanoseconds)
}

/// The maximum time that a packet waits in a buffer.
const MAX_WAIT_NS: u64 = 1_000_000_000;

/// Converts an arrival time to the clock of [`now_ns`], which reads `now`. The kernel reports it by
/// the wall clock, which reads `today` now, and may have been set since. A time that is in the
/// future, or too long ago, is ignored: the packet then counts as having arrived now.
fn arrival_ns(timestamp: Option<u64>, today: u64, now: u64) -> u64 {
    let since = timestamp.and_then(|timestamp| today.checked_sub(timestamp));
    let since = since.filter(|since| *since <= MAX_WAIT_NS);
    now.saturating_sub(since.unwrap_or(0))
}

fn nanoseconds(time: TimeSpec) -> u64 {
    Duration::from(time).as_nanos() as u64
}

impl RawSocket {
    /// Opens a socket. Needs CAP_NET_RAW.
    ///
    /// # Errors
    /// If the capability is missing.
    pub fn open(v6: bool, only: PortFilter) -> Result<Self, Error> {
        let socket = raw_socket::open(v6, SockProtocol::Tcp).map_err(Error::Rights)?;
        // Set the filter first: a busy host receives other segments.
        attach_filter(&socket, &port_filter(v6, only))
            .map_err(Error::system("filter a raw socket"))?;
        let failed = |what| move |errno: nix::Error| Error::system(what)(errno.into());
        let (level, option) = if v6 {
            (libc::IPPROTO_IPV6, libc::IPV6_HDRINCL)
        } else {
            (libc::IPPROTO_IP, libc::IP_HDRINCL)
        };
        set_int(&socket, level, option, 1).map_err(Error::system("write IP headers"))?;
        if v6 {
            setsockopt(&socket, sockopt::Ipv6RecvTClass, &true)
                .map_err(failed("read traffic classes"))?;
        }
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true)
            .map_err(failed("read times of arrival"))?;
        // More than net.core.rmem_max needs a capability that this process may lack.
        let _ = setsockopt(&socket, sockopt::RcvBuf, &BUFFER);
        let _ = setsockopt(&socket, sockopt::SndBuf, &BUFFER);
        Ok(Self {
            socket,
            v6,
            buffer: vec![0; MAX_PACKET],
        })
    }

    /// Discards waiting packets; those that arrive meanwhile may stay.
    pub fn drain(&mut self) {
        for _ in 0..BACKLOG {
            if matches!(self.receive(), Ok(Received::Nothing) | Err(_)) {
                break;
            }
        }
    }
}

impl Wire for RawSocket {
    fn send(&self, packet: &[u8], to: SocketAddr) -> io::Result<bool> {
        let part = [IoSlice::new(packet)];
        let flags = MsgFlags::MSG_DONTWAIT;
        let to = SockaddrStorage::from(to);
        loop {
            return match sendmsg(self.socket.as_raw_fd(), &part, &[], flags, Some(&to)) {
                Ok(_) | Err(nix::Error::EPERM) => Ok(true),
                Err(nix::Error::EAGAIN | nix::Error::ENOBUFS | nix::Error::ENOMEM) => Ok(false),
                Err(nix::Error::EINTR) => continue,
                Err(errno) => Err(errno.into()),
            };
        }
    }

    fn receive(&mut self) -> io::Result<Received> {
        loop {
            let mut space = nix::cmsg_space!(libc::timespec, libc::c_int);
            let mut parts = [IoSliceMut::new(&mut self.buffer)];
            let received = recvmsg::<SockaddrStorage>(
                self.socket.as_raw_fd(),
                &mut parts,
                Some(&mut space),
                MsgFlags::MSG_DONTWAIT,
            );
            let message = match received {
                Ok(message) => message,
                Err(nix::Error::EAGAIN) => return Ok(Received::Nothing),
                Err(nix::Error::EINTR) => continue,
                Err(errno) => return Err(errno.into()),
            };
            let (mut at_ns, mut class) = (None, 0);
            for control in message.cmsgs()? {
                match control {
                    ControlMessageOwned::ScmTimestampns(time) => at_ns = Some(nanoseconds(time)),
                    ControlMessageOwned::Ipv6TClass(value) => class = value as u8,
                    _ => {}
                }
            }
            let from = message.address.as_ref().and_then(address);
            let bytes = message.bytes;
            let packet = &self.buffer[..bytes];
            let segment = if self.v6 {
                Segment::read(packet, class)
            } else {
                Segment::read_v4(packet)
            };
            let (Some(from), Some(segment)) = (from, segment) else {
                return Ok(Received::Unreadable);
            };
            return Ok(Received::Segment(ReceivedSegment {
                at_ns: arrival_ns(at_ns, clock_ns(ClockId::CLOCK_REALTIME), now_ns()),
                from,
                segment,
            }));
        }
    }

    fn arrivals(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The result of a read from the socket.
#[derive(Debug)]
pub enum Received {
    /// A segment.
    Segment(ReceivedSegment),
    /// A packet that cannot be parsed.
    Unreadable,
    /// No packet is waiting.
    Nothing,
}

fn address(storage: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = storage.as_sockaddr_in().map(|it| IpAddr::V4(it.ip()));
    v4.or_else(|| storage.as_sockaddr_in6().map(|it| IpAddr::V6(it.ip())))
}

/// A listening socket that drops everything, so that the kernel does not answer packets to its
/// port.
#[derive(Debug)]
pub struct SilentListener {
    socket: std::net::TcpListener,
}

impl SilentListener {
    /// Binds a port of this address; 0 means any free one.
    ///
    /// # Errors
    /// If the port is in use.
    pub fn bind(address: SocketAddr) -> Result<Self, Error> {
        let bound = std::net::TcpListener::bind(address)
            .map_err(Error::system("take a port for the probe's flows"))?;
        // BPF_RET with 0: no byte passes.
        let drop_all = [instruction(libc::BPF_RET | libc::BPF_K, 0, 0, 0)];
        attach_filter(bound.as_fd(), &drop_all)
            .map_err(Error::system("silence a port of the probe"))?;
        Ok(Self { socket: bound })
    }

    /// The port of the socket.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn port(&self) -> Result<u16, Error> {
        let address = self.socket.local_addr();
        Ok(address.map_err(Error::system("ask for a port"))?.port())
    }
}

/// A classic BPF program that passes segments with a port. A raw socket sees the IP header with
/// IPv4, but not with IPv6.
fn port_filter(v6: bool, only: PortFilter) -> Vec<libc::sock_filter> {
    use libc::{BPF_ABS, BPF_B, BPF_H, BPF_IND, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_LDX};
    const BPF_MSH: u32 = 0xa0;

    let (offset, port) = match only {
        PortFilter::From(port) => (0, port),
        PortFilter::To(port) => (2, port),
    };
    let mut program = Vec::new();
    if v6 {
        program.push(instruction(BPF_LD | BPF_H | BPF_ABS, 0, 0, offset));
    } else {
        program.push(instruction(BPF_LDX | BPF_B | BPF_MSH, 0, 0, 0));
        program.push(instruction(BPF_LD | BPF_H | BPF_IND, 0, 0, offset));
    }
    program.extend([
        instruction(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, u32::from(port)),
        instruction(libc::BPF_RET | BPF_K, 0, 0, u32::MAX),
        instruction(libc::BPF_RET | BPF_K, 0, 0, 0),
    ]);
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_arrival_is_one_that_can_be() {
        const S: u64 = 1_000_000_000;
        for (timestamp, today, now, wanted) in [
            (Some(100 * S - 5), 100 * S, 7 * S, 7 * S - 5),
            (None, 100 * S, 7 * S, 7 * S),
            // The clock was set back or forward after the packet arrived.
            (Some(100 * S + 1), 100 * S, 7 * S, 7 * S),
            (Some(3 * S), 100 * S, 7 * S, 7 * S),
            (Some(99 * S), 100 * S, 7 * S, 6 * S),
            // The host has just started.
            (Some(100 * S - 5), 100 * S, 2, 0),
        ] {
            assert_eq!(
                arrival_ns(timestamp, today, now),
                wanted,
                "{timestamp:?} {today} {now}"
            );
        }
    }
}
