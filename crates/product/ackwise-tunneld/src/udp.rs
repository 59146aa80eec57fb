//! The UDP sockets of a tunnel.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use ackwise_netdev::sockopt::set_int;
use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockProtocol, SockType,
    SockaddrLike, SockaddrStorage, bind, recvmsg, sendmsg, setsockopt, socket, sockopt,
};

use crate::Error;

/// The receive buffer of a socket in bytes.
const RECEIVE_BUFFER: usize = 4 << 20;

/// What happened to a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// It was sent unfragmented.
    Whole,
    /// It exceeded the MTU of the interface and was sent in fragments.
    InFragments,
    /// It was not sent.
    Failed,
}

/// The two ends of a datagram's path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// The address of the peer.
    pub remote: SocketAddr,
    /// The address of this end, if the peer has sent to it. Otherwise the route determines it.
    pub local: Option<IpAddr>,
}

impl From<SocketAddr> for Endpoint {
    fn from(remote: SocketAddr) -> Self {
        let local = None;
        Self { remote, local }
    }
}

/// The sockets of a tunnel: at most one for each address family.
#[derive(Debug)]
pub(crate) struct Sockets {
    all: Vec<UdpSocket>,
    /// Room for the address that a datagram was sent to.
    control: Vec<u8>,
}

impl Sockets {
    /// Opens a socket for each address. What they send carries the mark by which the tunnel's
    /// program recognises its own datagrams and their fragments.
    pub fn open(listen: &[SocketAddr], mark: u32) -> Result<Self, Error> {
        let mut sockets = Vec::new();
        for address in listen {
            match open(*address, mark) {
                Ok(socket) => sockets.push(socket),
                // `listen_port` stands for both families, but this kernel supports only one.
                Err(error)
                    if error.raw_os_error() == Some(libc::EAFNOSUPPORT)
                        && address.ip().is_unspecified()
                        && listen.len() > 1 => {}
                Err(source) => {
                    let address = *address;
                    return Err(Error::Listen { address, source });
                }
            }
        }
        Ok(Self {
            all: sockets,
            control: cmsg_space!(libc::in6_pktinfo, libc::in_pktinfo),
        })
    }

    /// Receives a datagram from socket `n`. Returns its length and the endpoint to answer to.
    pub fn receive(&mut self, n: usize, room: &mut [u8]) -> Option<(usize, Endpoint)> {
        let socket = self.all.get(n)?.as_raw_fd();
        let mut room = [IoSliceMut::new(room)];
        let control = Some(&mut self.control[..]);
        let received = recvmsg::<SockaddrStorage>(socket, &mut room, control, MsgFlags::empty());
        // An error concerns a datagram that was sent earlier, not one that arrived.
        let received = received.ok()?;
        let remote = socket_address(received.address.as_ref()?)?;
        let local = received.cmsgs().ok()?.find_map(|message| match message {
            ControlMessageOwned::Ipv4PacketInfo(info) => {
                Some(Ipv4Addr::from(info.ipi_spec_dst.s_addr.to_ne_bytes()).into())
            }
            ControlMessageOwned::Ipv6PacketInfo(info) => {
                Some(Ipv6Addr::from(info.ipi6_addr.s6_addr).into())
            }
            _ => None,
        });
        Some((received.bytes, Endpoint { remote, local }))
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.all.iter().map(AsFd::as_fd)
    }

    /// Sends a datagram, in fragments if it exceeds the MTU of the interface.
    pub fn send(&self, datagram: &[u8], to: impl Into<Endpoint>) -> Sent {
        let to = to.into();
        let socket = self.all.iter().find(|socket| {
            let own = socket.local_addr();
            own.is_ok_and(|own| own.is_ipv4() == to.remote.is_ipv4())
        });
        let Some(socket) = socket else {
            return Sent::Failed;
        };
        match send(socket, datagram, to) {
            Ok(()) => Sent::Whole,
            Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => {
                // The MTU of the interface has shrunk. Do not lose the packets in the datagram.
                let _ = fragment(socket, true);
                let sent = send(socket, datagram, to);
                let _ = fragment(socket, false);
                sent.map_or(Sent::Failed, |()| Sent::InFragments)
            }
            Err(error) => {
                tracing::debug!("datagram to {}: {error}", to.remote);
                Sent::Failed
            }
        }
    }
}

/// Sends a datagram from the address that the peer knows or, if this end no longer has that, from
/// any other.
fn send(socket: &UdpSocket, datagram: &[u8], to: Endpoint) -> io::Result<()> {
    let Some(local) = to.local else {
        return socket.send_to(datagram, to.remote).map(|_| ());
    };
    // The route determines the interface.
    let (v4, v6);
    let from = match local {
        IpAddr::V4(local) => {
            v4 = libc::in_pktinfo {
                ipi_ifindex: 0,
                ipi_spec_dst: libc::in_addr {
                    s_addr: u32::from_ne_bytes(local.octets()),
                },
                ipi_addr: libc::in_addr { s_addr: 0 },
            };
            ControlMessage::Ipv4PacketInfo(&v4)
        }
        IpAddr::V6(local) => {
            v6 = libc::in6_pktinfo {
                ipi6_addr: libc::in6_addr {
                    s6_addr: local.octets(),
                },
                ipi6_ifindex: 0,
            };
            ControlMessage::Ipv6PacketInfo(&v6)
        }
    };
    let remote = SockaddrStorage::from(to.remote);
    let bytes = [IoSlice::new(datagram)];
    let (fd, flags) = (socket.as_raw_fd(), MsgFlags::empty());
    match sendmsg(fd, &bytes, &[from], flags, Some(&remote)) {
        Ok(_) => Ok(()),
        // This end no longer has the address.
        Err(Errno::EINVAL | Errno::EADDRNOTAVAIL | Errno::ENETUNREACH) => {
            socket.send_to(datagram, to.remote).map(|_| ())
        }
        Err(error) => Err(error.into()),
    }
}

fn socket_address(address: &SockaddrStorage) -> Option<SocketAddr> {
    match address.family()? {
        AddressFamily::Inet => Some(SocketAddr::V4((*address.as_sockaddr_in()?).into())),
        AddressFamily::Inet6 => Some(SocketAddr::V6((*address.as_sockaddr_in6()?).into())),
        _ => None,
    }
}

fn open(address: SocketAddr, mark: u32) -> io::Result<UdpSocket> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::Inet,
        SocketAddr::V6(_) => AddressFamily::Inet6,
    };
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let fd: OwnedFd = socket(family, SockType::Datagram, flags, SockProtocol::Udp)?;
    if address.is_ipv6() {
        setsockopt(&fd, sockopt::Ipv6V6Only, &true)?;
        setsockopt(&fd, sockopt::Ipv6RecvPacketInfo, &true)?;
    } else {
        setsockopt(&fd, sockopt::Ipv4PacketInfo, &true)?;
    }
    // Set a larger buffer than the default, if that is permitted.
    if setsockopt(&fd, sockopt::RcvBufForce, &RECEIVE_BUFFER).is_err() {
        let _ = setsockopt(&fd, sockopt::RcvBuf, &RECEIVE_BUFFER);
    }
    if mark != 0 {
        setsockopt(&fd, sockopt::Mark, &mark)?;
    }
    bind(fd.as_raw_fd(), &SockaddrStorage::from(address))?;
    let socket = UdpSocket::from(fd);
    fragment(&socket, false)?;
    Ok(socket)
}

/// Sets whether datagrams may be fragmented. If not, they carry "don't fragment", and ICMP
/// messages about the path MTU are ignored, because anyone can forge them (RFC 8899 §4.6.1).
fn fragment(socket: &UdpSocket, may: bool) -> io::Result<()> {
    if socket.local_addr()?.is_ipv4() {
        let value = [libc::IP_PMTUDISC_PROBE, libc::IP_PMTUDISC_DONT][usize::from(may)];
        set_int(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, value)
    } else {
        let value = [libc::IPV6_PMTUDISC_PROBE, libc::IPV6_PMTUDISC_DONT][usize::from(may)];
        set_int(socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receive(sockets: &mut Sockets, n: usize) -> Vec<u8> {
        let mut room = [0; 9000];
        loop {
            if let Some((len, _)) = sockets.receive(n, &mut room) {
                return room[..len].to_vec();
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn one_port_serves_both_families() {
        let listen = ["127.0.0.1:0".parse().unwrap(), "[::1]:0".parse().unwrap()];
        let mut sockets = Sockets::open(&listen, 0).unwrap();
        for n in 0..sockets.len() {
            let to = sockets.all[n].local_addr().unwrap();
            assert_eq!(sockets.send(b"here", to), Sent::Whole);
            assert_eq!(receive(&mut sockets, n), b"here");
        }
        let taken = sockets.all[0].local_addr().unwrap();
        let error = Sockets::open(&[taken], 0).unwrap_err();
        assert!(error.to_string().contains(&taken.to_string()), "{error}");
    }

    /// The source of an answer, as the far side sees it.
    #[test]
    fn l11_answers_come_from_the_address_that_was_asked() {
        // All of 127.0.0.0/8 is local; the route would choose 127.0.0.1.
        for (listen, address) in [("0.0.0.0:0", "127.0.0.77"), ("[::]:0", "::1")] {
            let mut sockets = Sockets::open(&[listen.parse().unwrap()], 0).unwrap();
            let port = sockets.all[0].local_addr().unwrap().port();
            let address: IpAddr = address.parse().unwrap();
            let far = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
            let far = if address.is_ipv4() {
                far
            } else {
                UdpSocket::bind("[::1]:0")
            }
            .unwrap();
            far.send_to(b"asked", (address, port)).unwrap();
            let mut room = [0; 100];
            let (len, from) = loop {
                if let Some(received) = sockets.receive(0, &mut room) {
                    break received;
                }
                std::thread::yield_now();
            };
            assert_eq!(&room[..len], b"asked");
            assert_eq!(
                (from.remote, from.local),
                (far.local_addr().unwrap(), Some(address))
            );
            assert_eq!(sockets.send(b"answer", from), Sent::Whole);
            let (_, source) = far.recv_from(&mut room).unwrap();
            assert_eq!(source, (address, port).into());
            // An address that this end no longer has is no reason not to answer.
            let lost = if address.is_ipv4() {
                "192.0.2.1"
            } else {
                "2001:db8::1"
            };
            let lost = Endpoint {
                local: Some(lost.parse().unwrap()),
                ..from
            };
            assert_eq!(sockets.send(b"again", lost), Sent::Whole);
            let (len, _) = far.recv_from(&mut room).unwrap();
            assert_eq!(&room[..len], b"again");
        }
    }
}
