//! Reads `TCP_INFO` of our own sockets, and of others through `sock_diag`.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use ackwise_scenario::IpVersion;

use crate::error::LabError;

/// `TCP_INFINITE_SSTHRESH`: no slow-start threshold yet.
const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

/// The kernel's information on a connection, from `struct tcp_info` of `include/uapi/linux/tcp.h`.
/// Fields that an older kernel lacks are 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Smoothed round-trip time, µs; 0 before the first sample.
    pub rtt_us: u32,
    /// Congestion window, segments.
    pub cwnd: u32,
    /// Slow-start threshold, segments; `None` until there is one.
    pub ssthresh: Option<u32>,
    /// Segments in flight.
    pub inflight: u32,
    /// Time since data last arrived, ms.
    pub idle_ms: u32,
    /// Total number of retransmitted segments.
    pub total_retrans: u32,
    /// Bytes acknowledged.
    pub bytes_acked: u64,
    /// Bytes sent, retransmissions included.
    pub bytes_sent: u64,
    /// Retransmission timeouts; `None` before Linux 6.7.
    pub timeouts: Option<u16>,
}

impl TcpInfo {
    /// Parses the bytes that the kernel returned.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let u32_at = |at: usize| {
            bytes
                .get(at..at + 4)
                .and_then(|field| field.try_into().ok())
                .map_or(0, u32::from_ne_bytes)
        };
        let u64_at = |at: usize| {
            bytes
                .get(at..at + 8)
                .and_then(|field| field.try_into().ok())
                .map_or(0, u64::from_ne_bytes)
        };
        // tcp_packets_in_flight(): unacked − (sacked + lost) + retrans.
        let (unacked, sacked, lost, retrans) = (u32_at(24), u32_at(28), u32_at(32), u32_at(36));
        let ssthresh = u32_at(76);
        Self {
            rtt_us: u32_at(68),
            cwnd: u32_at(80),
            ssthresh: (ssthresh < INFINITE_SSTHRESH).then_some(ssthresh),
            inflight: (unacked + retrans).saturating_sub(sacked + lost),
            idle_ms: u32_at(52),
            total_retrans: u32_at(100),
            bytes_acked: u64_at(120),
            bytes_sent: u64_at(200),
            timeouts: bytes
                .get(240..242)
                .and_then(|field| field.try_into().ok())
                .map(u16::from_ne_bytes),
        }
    }
}

/// Longest `tcp_info` that is read.
const MAX_INFO: usize = 512;

/// Reads the information on a socket of this process.
///
/// # Errors
/// It is not a TCP socket, or it is closed.
pub fn of_socket(socket: BorrowedFd<'_>) -> io::Result<TcpInfo> {
    let mut bytes = [0_u8; MAX_INFO];
    let mut length = MAX_INFO as libc::socklen_t;
    // SAFETY: both pointers are live, and the length is that of the buffer.
    let answer = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            bytes.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(TcpInfo::from_bytes(&bytes[..length as usize]))
}

/// A connection that `sock_diag` lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiagEntry {
    /// Local port.
    pub source_port: u16,
    /// Remote port.
    pub destination_port: u16,
    /// The connection's state.
    pub info: TcpInfo,
}

/// Lists the connections of the namespace in which it was opened.
#[derive(Debug)]
pub struct SockDiag {
    socket: OwnedFd,
    sequence: u32,
}

// include/uapi/linux/sock_diag.h and inet_diag.h
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const INET_DIAG_INFO: u16 = 2;
const TCP_ESTABLISHED: u32 = 1;
const NLMSG_HEADER: usize = 16;
const INET_DIAG_MSG: usize = 72;

impl SockDiag {
    /// Opens a socket in the calling thread's namespace.
    ///
    /// # Errors
    /// The kernel has no `inet_diag`.
    pub fn open() -> Result<Self, LabError> {
        // SAFETY: no pointers are passed.
        let fd = unsafe {
            libc::socket(
                libc::AF_NETLINK,
                libc::SOCK_DGRAM | libc::SOCK_CLOEXEC,
                libc::NETLINK_SOCK_DIAG,
            )
        };
        if fd < 0 {
            return Err(LabError::Os {
                what: "cannot open sock_diag".to_owned(),
                source: io::Error::last_os_error(),
            });
        }
        // SAFETY: the descriptor was just opened and is owned by nobody else.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self {
            socket,
            sequence: 0,
        })
    }

    /// Lists established TCP connections to a port.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn connections_to(&mut self, port: u16, version: IpVersion) -> io::Result<Vec<DiagEntry>> {
        self.sequence = self.sequence.wrapping_add(1);
        let family = match version {
            IpVersion::V4 => libc::AF_INET,
            IpVersion::V6 => libc::AF_INET6,
        };
        // struct nlmsghdr, then struct inet_diag_req_v2 with an empty socket id.
        let mut request = Vec::with_capacity(NLMSG_HEADER + 56);
        request.extend(((NLMSG_HEADER + 56) as u32).to_ne_bytes());
        request.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        request.extend(((libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16).to_ne_bytes());
        request.extend(self.sequence.to_ne_bytes());
        request.extend([0; 4]);
        request.extend([
            family as u8,
            libc::IPPROTO_TCP as u8,
            1 << (INET_DIAG_INFO - 1),
            0,
        ]);
        request.extend((1_u32 << TCP_ESTABLISHED).to_ne_bytes());
        request.extend([0; 48]);
        // SAFETY: the buffer is live and its length is its own.
        let sent = unsafe {
            libc::send(
                self.socket.as_raw_fd(),
                request.as_ptr().cast(),
                request.len(),
                0,
            )
        };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut entries = Vec::new();
        let mut buffer = vec![0_u8; 32 * 1024];
        loop {
            // SAFETY: the buffer is live and its length is its own.
            let received = unsafe {
                libc::recv(
                    self.socket.as_raw_fd(),
                    buffer.as_mut_ptr().cast(),
                    buffer.len(),
                    0,
                )
            };
            let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
            if collect(&buffer[..received], port, &mut entries)? {
                return Ok(entries);
            }
        }
    }
}

/// Reads one datagram of an answer; returns `true` if it was the last.
fn collect(mut messages: &[u8], port: u16, entries: &mut Vec<DiagEntry>) -> io::Result<bool> {
    let malformed = || io::Error::new(io::ErrorKind::InvalidData, "malformed answer of sock_diag");
    while !messages.is_empty() {
        let length = messages
            .get(..4)
            .and_then(|field| field.try_into().ok())
            .map(|field| u32::from_ne_bytes(field) as usize)
            .ok_or_else(malformed)?;
        let message = messages.get(NLMSG_HEADER..length).ok_or_else(malformed)?;
        let kind = u16::from_ne_bytes([messages[4], messages[5]]);
        match i32::from(kind) {
            libc::NLMSG_DONE => return Ok(true),
            libc::NLMSG_ERROR => {
                let code = message
                    .get(..4)
                    .and_then(|field| field.try_into().ok())
                    .map_or(0, i32::from_ne_bytes);
                return Err(io::Error::from_raw_os_error(-code));
            }
            _ => {
                let id = message.get(4..8).ok_or_else(malformed)?;
                let (source, destination) = (
                    u16::from_be_bytes([id[0], id[1]]),
                    u16::from_be_bytes([id[2], id[3]]),
                );
                let mut attributes = message.get(INET_DIAG_MSG..).ok_or_else(malformed)?;
                while let Some(head) = attributes.get(..4).filter(|_| destination == port) {
                    let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
                    let value = attributes.get(4..length).ok_or_else(malformed)?;
                    if u16::from_ne_bytes([head[2], head[3]]) == INET_DIAG_INFO {
                        entries.push(DiagEntry {
                            source_port: source,
                            destination_port: destination,
                            info: TcpInfo::from_bytes(value),
                        });
                    }
                    attributes = attributes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
                }
            }
        }
        messages = messages.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
    Ok(false)
}

const _: () = assert!(size_of::<libc::nlmsghdr>() == NLMSG_HEADER);

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::os::fd::AsFd;

    #[test]
    fn both_ways_tell_the_same() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(&[7; 5000]).unwrap();
        server.read_exact(&mut [0; 5000]).unwrap();

        let own = of_socket(client.as_fd()).unwrap();
        assert_eq!(own.bytes_sent, 5000);
        assert!(own.cwnd > 0 && own.rtt_us > 0);
        assert_eq!((own.ssthresh, own.total_retrans), (None, 0));

        let mut diag = SockDiag::open().unwrap();
        let listed = diag.connections_to(port, IpVersion::V4).unwrap();
        assert_eq!(listed.len(), 1);
        assert_eq!(listed[0].source_port, client.local_addr().unwrap().port());
        assert_eq!(listed[0].info.bytes_sent, 5000);
        assert!(diag.connections_to(1, IpVersion::V4).unwrap().is_empty());
        assert!(diag.connections_to(port, IpVersion::V6).unwrap().is_empty());
    }

    #[test]
    fn an_old_kernel_knows_less() {
        let info = TcpInfo::from_bytes(&[1; 104]);
        assert_eq!(info.bytes_acked, 0);
        assert_eq!(info.timeouts, None);
        assert_eq!(info.total_retrans, 0x0101_0101);
    }
}
