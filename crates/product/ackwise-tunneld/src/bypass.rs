//! Sends packets that were taken but not carried along the ordinary path.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use ackwise_headers::Ip;
use ackwise_netdev::raw_socket::{self, SockProtocol};
use ackwise_netdev::{BATCH, PacketSocket};
use nix::sys::socket::MsgFlags;

use crate::Error;

/// The longest link header: Ethernet with two VLAN tags.
const LINK_HEADER: usize = 22;
/// The number of destinations whose link header is remembered: more than a bundle has packets.
const HEADER_CACHE_SIZE: usize = 4096;

/// The size of the cache of recent destinations, a power of two.
const RECENT_CACHE_SIZE: usize = 32;

/// A link header.
#[derive(Debug, Clone, Copy)]
struct Header {
    len: u8,
    bytes: [u8; LINK_HEADER],
}

/// The destination of an IP packet.
pub(crate) fn destination(packet: &[u8]) -> Option<IpAddr> {
    Ip::read(packet).map(|ip| ip.destination())
}

/// The source of an IP packet.
pub(crate) fn source(packet: &[u8]) -> Option<IpAddr> {
    Ip::read(packet).map(|ip| ip.source())
}

fn last_byte(address: IpAddr) -> usize {
    match address {
        IpAddr::V4(v4) => v4.octets()[3].into(),
        IpAddr::V6(v6) => v6.octets()[15].into(),
    }
}

/// Link headers by destination. A packet was routed and its neighbour resolved before it was
/// redirected, so neither is repeated.
#[derive(Debug, Default)]
pub(crate) struct Headers {
    now: HashMap<IpAddr, Header>,
    before: HashMap<IpAddr, Header>,
    /// The most recent headers, by the last bits of the destination. Most packets bring nothing
    /// new.
    last: [Option<(IpAddr, Header)>; RECENT_CACHE_SIZE],
}

impl Headers {
    /// Records that a packet to `to` had this link header.
    pub fn learn(&mut self, to: IpAddr, header: &[u8]) {
        let same = |known: &Header| known.bytes.get(..usize::from(known.len)) == Some(header);
        let recent = &self.last[last_byte(to) % RECENT_CACHE_SIZE];
        if matches!(recent, Some((last, known)) if *last == to && same(known)) {
            return;
        }
        let mut bytes = [0; LINK_HEADER];
        let Some(room) = bytes.get_mut(..header.len()) else {
            return;
        };
        room.copy_from_slice(header);
        let header = Header {
            len: header.len() as u8,
            bytes,
        };
        if self.now.len() >= HEADER_CACHE_SIZE {
            self.before = std::mem::take(&mut self.now);
            self.last = Default::default();
        }
        self.last[last_byte(to) % RECENT_CACHE_SIZE] = Some((to, header));
        self.now.insert(to, header);
    }

    fn get(&self, to: IpAddr) -> Option<&[u8]> {
        let header = self.now.get(&to).or_else(|| self.before.get(&to))?;
        header.bytes.get(..usize::from(header.len))
    }
}

/// Sends packets along the ordinary path.
#[derive(Debug)]
pub(crate) struct Bypass {
    /// Sends frames through the interface that packets were taken from.
    egress: Option<PacketSocket>,
    pub headers: Headers,
    frames: Vec<Vec<u8>>,
    /// Raw sockets for packets that were routed to the tunnel's device: they are routed again
    /// with another mark.
    raw: [Option<OwnedFd>; 2],
    /// The packets that were sent.
    pub sent: u64,
    /// The packets that could not be sent.
    pub failed: u64,
}

impl Bypass {
    pub fn open(egress: Option<PacketSocket>, mark: u32) -> Result<Self, Error> {
        Ok(Self {
            egress,
            headers: Headers::default(),
            frames: Vec::new(),
            raw: [raw(false, mark)?, raw(true, mark)?],
            sent: 0,
            failed: 0,
        })
    }

    /// Sends a packet, now or with [`Bypass::flush`].
    pub fn put(&mut self, packet: &[u8]) {
        let Some(to) = destination(packet) else {
            self.failed += 1;
            return;
        };
        if let (Some(_), Some(header)) = (&self.egress, self.headers.get(to)) {
            self.frames.push([header, packet].concat());
            if self.frames.len() == BATCH {
                self.flush();
            }
            return;
        }
        match self.put_raw(packet, to) {
            Ok(()) => self.sent += 1,
            Err(error) => {
                tracing::debug!("to {to}, by the ordinary path: {error}");
                self.failed += 1;
            }
        }
    }

    /// Sends the waiting packets.
    pub fn flush(&mut self) {
        if self.frames.is_empty() {
            return;
        }
        if let Some(egress) = &self.egress {
            let sent = egress.send(&self.frames);
            self.sent += sent.packets;
            self.failed += sent.no_room + sent.down + sent.refused;
        }
        self.frames.clear();
    }

    fn put_raw(&self, packet: &[u8], to: IpAddr) -> io::Result<()> {
        let socket = self.raw[usize::from(to.is_ipv6())].as_ref();
        let socket = socket.ok_or(io::ErrorKind::Unsupported)?;
        raw_socket::send(socket, packet, to, MsgFlags::MSG_DONTWAIT)
    }
}

/// Opens a socket that sends whole IP packets. Returns `None` if the kernel lacks the address
/// family.
fn raw(v6: bool, mark: u32) -> Result<Option<OwnedFd>, Error> {
    let socket = match raw_socket::open(v6, SockProtocol::Raw) {
        Err(error) if error.raw_os_error() == Some(libc::EAFNOSUPPORT) => return Ok(None),
        opened => opened.map_err(Error::system("open a raw socket"))?,
    };
    nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::Mark, &mark)
        .map_err(|error| Error::system("mark the packets of a socket")(error.into()))?;
    Ok(Some(socket))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn addresses() {
        let mut v4 = vec![0x45; 20];
        v4[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        assert_eq!(source(&v4), Some([10, 0, 0, 1].into()));
        assert_eq!(destination(&v4), Some([10, 0, 0, 2].into()));
        let mut v6 = vec![0x60; 40];
        v6[8..40].copy_from_slice(&[[1; 16], [2; 16]].concat());
        assert_eq!(source(&v6), Some([1_u8; 16].into()));
        assert_eq!(destination(&v6), Some([2_u8; 16].into()));
        assert_eq!((source(&[0x45]), destination(&[])), (None, None));
        assert_eq!(source(&[0x20; 60]), None);
    }

    #[test]
    fn headers_are_remembered_as_long_as_packets_wait_and_bounded() {
        let mut headers = Headers::default();
        let to = |n: u32| IpAddr::V4(Ipv4Addr::from(n));
        for n in (0..20_000_u32).filter(|n| n % RECENT_CACHE_SIZE as u32 != 31) {
            headers.learn(to(n), &n.to_be_bytes());
            // A new route to the same destination.
            headers.learn(to(n), &[1; 14]);
            headers.learn(to(n), &[2; 14]);
            // A destination whose header stays the same is not forgotten either.
            headers.learn(to(u32::MAX), &[4; 14]);
        }
        assert_eq!(headers.get(to(u32::MAX)), Some(&[4; 14][..]));
        for n in (20_000 - HEADER_CACHE_SIZE as u32..20_000).filter(|n| n % 32 != 31) {
            assert_eq!(headers.get(to(n)), Some(&[2; 14][..]), "{n}");
        }
        assert!(headers.now.len() + headers.before.len() <= 2 * HEADER_CACHE_SIZE);
        headers.learn(to(1), &[3; LINK_HEADER + 1]);
        assert_eq!(headers.get(to(1)), None, "no link has such a header");
    }
}
