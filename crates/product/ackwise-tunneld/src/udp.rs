//! The UDP sockets of a tunnel.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, SockFlag, SockProtocol, SockType, SockaddrStorage, bind, setsockopt, socket,
    sockopt,
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

/// The sockets of a tunnel: at most one for each address family.
#[derive(Debug)]
pub(crate) struct Sockets(Vec<UdpSocket>);

impl Sockets {
    /// Opens a socket for each address. What they send carries the mark, by which the
    /// tunnel's program knows its own datagrams, and their fragments too.
    pub fn open(listen: &[SocketAddr], mark: u32) -> Result<Self, Error> {
        let mut sockets = Vec::new();
        for address in listen {
            match open(*address, mark) {
                Ok(socket) => sockets.push(socket),
                // `listen_port` stands for both families, but the kernel has only one.
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
        Ok(Self(sockets))
    }

    /// Receives a datagram from socket `n`. Returns its length and source.
    pub fn receive(&self, n: usize, room: &mut [u8]) -> Option<(usize, SocketAddr)> {
        // An error concerns a datagram that was sent earlier, not one that arrived.
        self.0.get(n)?.recv_from(room).ok()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.0.iter().map(AsFd::as_fd)
    }

    /// Sends a datagram, in fragments if it exceeds the MTU of the interface.
    pub fn send(&self, datagram: &[u8], to: SocketAddr) -> Sent {
        let socket = self.0.iter().find(|socket| {
            let own = socket.local_addr();
            own.is_ok_and(|own| own.is_ipv4() == to.is_ipv4())
        });
        let Some(socket) = socket else {
            return Sent::Failed;
        };
        match socket.send_to(datagram, to) {
            Ok(_) => Sent::Whole,
            Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => {
                // The MTU of the interface has shrunk. Do not lose the packets in the datagram.
                let _ = fragment(socket, true);
                let sent = socket.send_to(datagram, to);
                let _ = fragment(socket, false);
                sent.map_or(Sent::Failed, |_| Sent::InFragments)
            }
            Err(error) => {
                tracing::debug!("datagram to {to}: {error}");
                Sent::Failed
            }
        }
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
    }
    // A larger buffer than the default, if that is permitted.
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
    let (level, option, value) = if socket.local_addr()?.is_ipv4() {
        let value = [libc::IP_PMTUDISC_PROBE, libc::IP_PMTUDISC_DONT][usize::from(may)];
        (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, value)
    } else {
        let value = [libc::IPV6_PMTUDISC_PROBE, libc::IPV6_PMTUDISC_DONT][usize::from(may)];
        (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, value)
    };
    // SAFETY: the value outlives the call and has the size that is said.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as u32,
        )
    };
    if set < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receive(sockets: &Sockets, n: usize) -> Vec<u8> {
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
        let sockets = Sockets::open(&listen, 0).unwrap();
        for n in 0..sockets.len() {
            let to = sockets.0[n].local_addr().unwrap();
            assert_eq!(sockets.send(b"here", to), Sent::Whole);
            assert_eq!(receive(&sockets, n), b"here");
        }
        let taken = sockets.0[0].local_addr().unwrap();
        let error = Sockets::open(&[taken], 0).unwrap_err();
        assert!(error.to_string().contains(&taken.to_string()), "{error}");
    }
}
