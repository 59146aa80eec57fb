//! A device that hands packets to this process.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use ackwise_policy::LinkKind;

use crate::interface::{ask, index_of, packet_socket, request};
use crate::{Error, Interface};

/// Packets that the device keeps until they are read; it drops what exceeds.
pub const DOOR_QUEUE: i32 = 8192;

/// The dummy address of RFC 7600 §4.8, for a device that nobody addresses.
const DUMMY: [u8; 4] = [192, 0, 0, 8];
/// `linux/if_tun.h`.
const TUNSETCARRIER: libc::Ioctl = 0x4004_54e2 as libc::Ioctl;

/// What a device is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Packets are redirected to it by a program, with the link header of another
    /// interface. Nobody routes to it.
    Detour,
    /// Packets are routed to it, and what is written to it is received.
    Link,
    /// Nothing passes, as it stays down: a program hangs on it.
    Anchor,
}

/// The way in: a device that hands what is sent through it to this process. It is
/// gone with its descriptor.
#[derive(Debug)]
pub struct Inlet {
    file: File,
    /// To ask for its state.
    socket: OwnedFd,
    /// Its name.
    pub name: String,
    /// Its number.
    pub index: u32,
}

impl Inlet {
    /// TAP where packets have a link header, else TUN; without offloads: the stack cuts
    /// aggregated packets up and fills in checksums. In `name`, `%d` is a free number.
    ///
    /// # Errors
    /// There is one of that name, a right is missing, or the kernel has no TUN.
    pub fn open(name: &str, kind: LinkKind, mtu: u32, role: Role) -> Result<Self, Error> {
        let made = "make a TUN device";
        let file = File::options()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open("/dev/net/tun")
            .map_err(Error::system(made))?;
        let kind = match kind {
            LinkKind::Ethernet => libc::IFF_TAP,
            LinkKind::Ip => libc::IFF_TUN,
        };
        let mut device = request(name);
        // One that somebody made to stay is not taken over.
        let flags = kind | libc::IFF_NO_PI | libc::IFF_TUN_EXCL;
        device.ifr_ifru.ifru_flags = flags as libc::c_short;
        ask(&file, libc::TUNSETIFF as libc::c_ulong, &mut device).map_err(Error::system(made))?;
        let name: String = device
            .ifr_name
            .iter()
            .take_while(|c| **c != 0)
            .map(|c| char::from(c.to_ne_bytes()[0]))
            .collect();
        let inlet = Self {
            index: index_of(&name).ok_or_else(|| Error::DeviceGone(name.clone()))?,
            file,
            socket: packet_socket()?,
            name,
        };
        inlet.configure(role);
        if role != Role::Anchor {
            inlet.set_up(mtu).map_err(Error::system(made))?;
        }
        Ok(inlet)
    }

    /// What a kernel without a family lacks does not matter.
    fn configure(&self, role: Role) {
        let set = |family: &str, key: &str, value: &str| {
            let path = format!("/proc/sys/net/{family}/conf/{}/{key}", self.name);
            let _ = std::fs::write(path, value);
        };
        match role {
            // It is a way in, not a link: no addresses, no router solicitations.
            Role::Detour | Role::Anchor => set("ipv6", "disable_ipv6", "1"),
            Role::Link => {
                set("ipv6", "addr_gen_mode", "1");
                // The way back to a source is another interface. The higher of this and that
                // of all interfaces counts, and none but 0 is fulfilled without an address.
                set("ipv4", "rp_filter", "2");
                if let Err(error) = self.give_address() {
                    tracing::debug!("address of {}: {error}", self.name);
                }
                // Routes to it are not used while it has no carrier.
                set("ipv4", "ignore_routes_with_linkdown", "1");
                set("ipv6", "ignore_routes_with_linkdown", "1");
            }
        }
    }

    fn give_address(&self) -> io::Result<()> {
        let mut device = request(&self.name);
        let address: *mut libc::sockaddr_in = (&raw mut device.ifr_ifru).cast();
        // SAFETY: the union has room for this, as `SIOCSIFADDR` expects it.
        unsafe {
            (*address).sin_family = libc::AF_INET as u16;
            (*address).sin_addr.s_addr = u32::from_ne_bytes(DUMMY);
        }
        let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
        ask(&socket, libc::SIOCSIFADDR, &mut device)
    }

    fn set_up(&self, mtu: u32) -> io::Result<()> {
        let socket = &self.socket;
        let mut device = request(&self.name);
        device.ifr_ifru.ifru_mtu = mtu as libc::c_int;
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
    #[must_use]
    pub fn into_file(self) -> File {
        self.file
    }

    /// The next frame, if one is there.
    ///
    /// # Errors
    /// The device is gone or down.
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

    /// Receives a packet by the device, as if it had come from a wire; whether it could.
    ///
    /// # Errors
    /// The device is gone or down.
    pub fn put(&self, packet: &[u8]) -> io::Result<bool> {
        match (&self.file).write(packet) {
            Ok(len) => Ok(len == packet.len()),
            // EINVAL: it is no IP packet.
            Err(error) => match error.raw_os_error() {
                Some(libc::EAGAIN | libc::EINTR | libc::EINVAL | libc::ENOMEM) => Ok(false),
                _ => Err(error),
            },
        }
    }

    /// Gives the device a carrier, or takes it away; needs no rights.
    ///
    /// # Errors
    /// It is down, or the kernel is older than 5.0.
    pub fn set_carrier(&self, on: bool) -> io::Result<()> {
        let on = libc::c_int::from(on);
        // SAFETY: TUNSETCARRIER reads an int.
        let set = unsafe { libc::ioctl(self.file.as_raw_fd(), TUNSETCARRIER, &raw const on) };
        if set < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Whether it is there, up or down.
    #[must_use]
    pub fn exists(&self) -> bool {
        let mut device = request(&self.name);
        ask(&self.socket, libc::SIOCGIFFLAGS, &mut device).is_ok()
    }

    /// Whether it is up: what is sent to one that is down, or gone, is lost.
    #[must_use]
    pub fn is_up(&self) -> bool {
        let mut device = request(&self.name);
        let flags = ask(&self.socket, libc::SIOCGIFFLAGS, &mut device).map(|()| {
            // SAFETY: SIOCGIFFLAGS filled this member.
            libc::c_int::from(unsafe { device.ifr_ifru.ifru_flags })
        });
        flags.is_ok_and(|flags| flags & libc::IFF_UP != 0)
    }

    /// The MTU of an interface of the device's network namespace.
    #[must_use]
    pub fn mtu_of(&self, interface: &Interface) -> Option<u32> {
        let mut device = request(&interface.name);
        ask(&self.socket, libc::SIOCGIFMTU, &mut device).ok()?;
        // SAFETY: SIOCGIFMTU filled this member.
        u32::try_from(unsafe { device.ifr_ifru.ifru_mtu }).ok()
    }

    /// Packets that the device dropped because nobody read them in time.
    #[must_use]
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
