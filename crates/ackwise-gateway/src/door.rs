//! Where packets come in and go out: a TUN or TAP device, and a packet socket.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use ackwise_policy::LinkKind;

use crate::Error;
use crate::frame::Parcel;

const ARPHRD_ETHER: u16 = 1;
const ARPHRD_LOOPBACK: u16 = 772;
/// PPP, RAWIP, NONE (tun, wg): packets begin with the IP header.
const ARPHRD_BARE: [u16; 3] = [512, 519, 65534];
const NAME: &str = "awgate%d";
/// Packets that the device keeps until they are read; it drops what exceeds.
pub(crate) const DOOR_QUEUE: i32 = 8192;
/// Packets that are sent by one system call.
pub(crate) const BATCH: usize = 64;
/// Room for what the driver has not sent yet.
const SEND_BUFFER: libc::c_int = 4 << 20;

/// An interface of this network namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Interface {
    pub name: String,
    pub index: u32,
    pub kind: LinkKind,
    pub mtu: u32,
}

impl Interface {
    pub fn find(name: &str) -> Result<Self, Error> {
        let missing = || Error::NoInterface(name.to_owned());
        let index = index_of(name).ok_or_else(missing)?;
        let socket = packet_socket()?;
        let mut request = request(name);
        let kind = match ask(&socket, libc::SIOCGIFHWADDR, &mut request) {
            // SAFETY: SIOCGIFHWADDR filled this member.
            Ok(()) => match unsafe { request.ifr_ifru.ifru_hwaddr.sa_family } {
                ARPHRD_ETHER | ARPHRD_LOOPBACK => LinkKind::Ethernet,
                bare if ARPHRD_BARE.contains(&bare) => LinkKind::Ip,
                arphrd => {
                    return Err(Error::LinkType {
                        interface: name.to_owned(),
                        arphrd,
                    });
                }
            },
            Err(error) => return Err(Error::system("reading the link type")(error)),
        };
        ask(&socket, libc::SIOCGIFMTU, &mut request).map_err(Error::system("reading the MTU"))?;
        // SAFETY: SIOCGIFMTU filled this member.
        let mtu = unsafe { request.ifr_ifru.ifru_mtu };
        Ok(Self {
            name: name.to_owned(),
            index,
            kind,
            mtu: u32::try_from(mtu).unwrap_or(1500),
        })
    }

    /// Whether it is still there.
    pub fn exists(&self) -> bool {
        let mut name = [0; libc::IF_NAMESIZE];
        // SAFETY: the buffer has the size that the call asks for.
        !unsafe { libc::if_indextoname(self.index, name.as_mut_ptr()) }.is_null()
    }
}

fn index_of(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    // SAFETY: a terminated string.
    Some(unsafe { libc::if_nametoindex(name.as_ptr()) }).filter(|index| *index != 0)
}

fn request(name: &str) -> libc::ifreq {
    // SAFETY: plain data; zero is a value.
    let mut request: libc::ifreq = unsafe { zeroed() };
    let short = name.bytes().take(libc::IF_NAMESIZE - 1);
    for (to, from) in request.ifr_name.iter_mut().zip(short) {
        *to = from as libc::c_char;
    }
    request
}

fn ask(fd: &impl AsRawFd, what: libc::c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: a live ifreq, which the kernel reads and fills in.
    if unsafe { libc::ioctl(fd.as_raw_fd(), what as _, std::ptr::from_mut(request)) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// A packet socket that receives nothing.
fn packet_socket() -> Result<OwnedFd, Error> {
    // SAFETY: no pointers; the result is checked.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(Error::system("open a packet socket")(
            io::Error::last_os_error(),
        ));
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The way in: a device that hands what is sent through it to this process. It is
/// gone with its descriptor.
#[derive(Debug)]
pub(crate) struct Inlet {
    file: File,
    /// To ask for its state.
    socket: OwnedFd,
    pub name: String,
    pub index: u32,
}

impl Inlet {
    /// Of the same link type as the interface that it stands in for, without
    /// offloads: the stack cuts aggregated packets up and fills in checksums.
    pub fn open(interface: &Interface) -> Result<Self, Error> {
        let made = "make a TUN device";
        let file = File::options()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open("/dev/net/tun")
            .map_err(Error::system(made))?;
        let kind = match interface.kind {
            LinkKind::Ethernet => libc::IFF_TAP,
            LinkKind::Ip => libc::IFF_TUN,
        };
        let mut device = request(NAME);
        device.ifr_ifru.ifru_flags = (kind | libc::IFF_NO_PI) as libc::c_short;
        ask(&file, libc::TUNSETIFF as libc::c_ulong, &mut device).map_err(Error::system(made))?;
        let name: String = device
            .ifr_name
            .iter()
            .take_while(|c| **c != 0)
            .map(|c| char::from(c.to_ne_bytes()[0]))
            .collect();
        // It is a way in, not a link: no addresses, no router solicitations.
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
        let inlet = Self {
            index: index_of(&name).ok_or_else(|| Error::DoorGone(name.clone()))?,
            file,
            socket: packet_socket()?,
            name,
        };
        inlet.set_up(interface).map_err(Error::system(made))?;
        Ok(inlet)
    }

    fn set_up(&self, interface: &Interface) -> io::Result<()> {
        let socket = &self.socket;
        let mut device = request(&self.name);
        // A tag that the interface would add by itself is in the frame here.
        device.ifr_ifru.ifru_mtu = interface.mtu as libc::c_int + 8;
        ask(socket, libc::SIOCSIFMTU, &mut device)?;
        device.ifr_ifru.ifru_metric = DOOR_QUEUE;
        ask(socket, libc::SIOCSIFTXQLEN, &mut device)?;
        ask(socket, libc::SIOCGIFFLAGS, &mut device)?;
        // SAFETY: SIOCGIFFLAGS filled this member.
        let flags = unsafe { device.ifr_ifru.ifru_flags };
        device.ifr_ifru.ifru_flags = flags | (libc::IFF_UP | libc::IFF_NOARP) as libc::c_short;
        ask(socket, libc::SIOCSIFFLAGS, &mut device)
    }

    /// The device alone.
    pub fn into_file(self) -> File {
        self.file
    }

    /// The next frame, if one is there; `Err` if the device is gone or down.
    pub fn take(&self, room: &mut [u8]) -> io::Result<Option<usize>> {
        match (&self.file).read(room) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(len) => Ok(Some(len)),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
                _ => Err(error),
            },
        }
    }

    /// Whether it is up: what is sent to one that is down, or gone, is lost.
    pub fn is_up(&self) -> bool {
        let mut device = request(&self.name);
        let flags = ask(&self.socket, libc::SIOCGIFFLAGS, &mut device).map(|()| {
            // SAFETY: SIOCGIFFLAGS filled this member.
            libc::c_int::from(unsafe { device.ifr_ifru.ifru_flags })
        });
        flags.is_ok_and(|flags| flags & libc::IFF_UP != 0)
    }

    /// The MTU of an interface of the device's network namespace.
    pub fn mtu_of(&self, interface: &Interface) -> Option<u32> {
        let mut device = request(&interface.name);
        ask(&self.socket, libc::SIOCGIFMTU, &mut device).ok()?;
        // SAFETY: SIOCGIFMTU filled this member.
        u32::try_from(unsafe { device.ifr_ifru.ifru_mtu }).ok()
    }

    /// Packets that the device dropped because nobody read them in time.
    pub fn overruns(&self) -> u64 {
        let table = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
        table
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(name, _)| name.trim() == self.name)
            .and_then(|(_, numbers)| numbers.split_whitespace().nth(11)?.parse().ok())
            .unwrap_or(0)
    }
}

impl AsFd for Inlet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// The way out: straight to the interface, with a mark by which the hook there
/// knows what has been here.
#[derive(Debug)]
pub(crate) struct Outlet {
    socket: OwnedFd,
    interface: Interface,
}

/// What became of packets that were to be sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    pub packets: u64,
    pub bytes: u64,
    /// The interface or its queue had no room.
    pub no_room: u64,
    /// It was down.
    pub down: u64,
    /// Longer than it takes, or refused otherwise.
    pub refused: u64,
    /// The interface is not there any more.
    pub gone: bool,
}

impl Outlet {
    pub fn open(interface: Interface, cookie: u32) -> Result<Self, Error> {
        let socket = packet_socket()?;
        set(&socket, libc::SO_MARK, cookie as libc::c_int)
            .map_err(Error::system("mark the packets of a socket"))?;
        // More than the default, if it may be: the default bounds a batch.
        if set(&socket, libc::SO_SNDBUFFORCE, SEND_BUFFER).is_err() {
            let _ = set(&socket, libc::SO_SNDBUF, SEND_BUFFER);
        }
        Ok(Self { socket, interface })
    }

    /// Sends up to [`BATCH`] frames, in order. What is refused is counted and gone,
    /// as it would be with a wire.
    pub fn send(&self, frames: &[Parcel]) -> Sent {
        // SAFETY: plain C structs, for which zero is a value.
        let (mut to, mut parts, mut messages) = unsafe {
            (
                [zeroed::<libc::sockaddr_ll>(); BATCH],
                [zeroed::<libc::iovec>(); BATCH],
                [zeroed::<libc::mmsghdr>(); BATCH],
            )
        };
        let frames = &frames[..frames.len().min(BATCH)];
        for (n, frame) in frames.iter().enumerate() {
            let bytes = frame.bytes();
            to[n].sll_family = libc::AF_PACKET as u16;
            to[n].sll_ifindex = self.interface.index as i32;
            to[n].sll_protocol = protocol(bytes, self.interface.kind);
            parts[n].iov_base = bytes.as_ptr().cast_mut().cast();
            parts[n].iov_len = bytes.len();
            let header = &mut messages[n].msg_hdr;
            header.msg_name = (&raw mut to[n]).cast();
            header.msg_namelen = size_of::<libc::sockaddr_ll>() as u32;
            header.msg_iov = &raw mut parts[n];
            header.msg_iovlen = 1;
        }
        let mut sent = Sent::default();
        let mut next = 0;
        while next < frames.len() {
            let left = &mut messages[next..frames.len()];
            // SAFETY: each message points to an address, a part and a frame that
            // outlive the call.
            let done = unsafe {
                libc::sendmmsg(
                    self.socket.as_raw_fd(),
                    left.as_mut_ptr(),
                    left.len() as u32,
                    libc::MSG_DONTWAIT,
                )
            };
            if let Ok(done @ 1..) = usize::try_from(done) {
                sent.packets += done as u64;
                let lengths = frames[next..next + done].iter().map(|f| f.bytes().len());
                sent.bytes += lengths.sum::<usize>() as u64;
                next += done;
                continue;
            }
            match io::Error::last_os_error().raw_os_error() {
                Some(libc::EINTR) => continue,
                Some(libc::ENOBUFS | libc::EAGAIN) => sent.no_room += 1,
                Some(libc::ENETDOWN) => sent.down += 1,
                Some(libc::ENXIO | libc::ENODEV) => {
                    sent.gone = true;
                    sent.refused += 1;
                }
                _ => sent.refused += 1,
            }
            next += 1;
        }
        sent
    }
}

fn set(socket: &OwnedFd, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    // SAFETY: the value outlives the call and has the size that is said.
    let answer = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as u32,
        )
    };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The frame's EtherType, in network order.
fn protocol(frame: &[u8], kind: LinkKind) -> u16 {
    let ethertype = match kind {
        LinkKind::Ethernet => frame.get(12..14).map(|t| [t[0], t[1]]),
        LinkKind::Ip => match frame.first().map(|first| first >> 4) {
            Some(6) => Some([0x86, 0xdd]),
            _ => Some([0x08, 0x00]),
        },
    };
    u16::from_ne_bytes(ethertype.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{tcp_v4, tcp_v6};

    #[test]
    fn protocols() {
        let v4 = tcp_v4(1, 2, &[]);
        assert_eq!(protocol(&v4, LinkKind::Ip), 0x0800_u16.to_be());
        let v6 = tcp_v6(1, 2, &[]);
        assert_eq!(protocol(&v6, LinkKind::Ip), 0x86dd_u16.to_be());
        let mut frame = vec![0; 12];
        frame.extend([0x88, 0x64, 1]);
        assert_eq!(protocol(&frame, LinkKind::Ethernet), 0x8864_u16.to_be());
        assert_eq!(protocol(&[1, 2], LinkKind::Ethernet), 0);
    }
}
