//! TUN and TAP devices, through which packets leave the kernel for this process.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use ackwise_policy::LinkKind;

use crate::ifreq::{self, index_of};
use crate::packet_socket::{self, Layer};
use crate::{Error, Interface};

/// The number of packets that a device queues until they are read. Further packets are dropped.
pub const TX_QUEUE_LEN: i32 = 8192;

/// The IPv4 dummy address (RFC 7600 §4.8), for a device that is never addressed.
const DUMMY_ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 8);
/// From `linux/if_tun.h`. The number is different on MIPS and PowerPC.
pub(crate) const TUNSETCARRIER: libc::Ioctl = libc::_IOW::<libc::c_int>(b'T' as u32, 226);

/// The use of a TUN device, which decides how it is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A BPF program redirects packets to the device, with the link header of another
    /// interface. No route leads to it.
    Redirect,
    /// Packets are routed to the device, and what is written to it is received by the stack.
    Routed,
    /// The device stays down and carries no packets: a BPF program is attached to it.
    Anchor,
}

/// A TUN or TAP device, which hands packets sent through it to this process. The kernel deletes the
/// device when its descriptor is closed.
#[derive(Debug)]
pub struct TunDevice {
    file: File,
    /// A socket for ioctls on the device, in the network namespace that it was created in.
    socket: OwnedFd,
    /// The name of the device.
    pub name: String,
    /// The index of the device.
    pub index: u32,
}

/// Creates a TAP device if packets have a link header, else a TUN device, and leaves it down and
/// unconfigured. Reads and writes do not block. Returns its descriptor and its name.
///
/// # Errors
/// If a device of that name exists, a capability is missing, or the kernel has no TUN.
pub fn create_tun(name: &str, kind: LinkKind) -> io::Result<(File, String)> {
    let file = File::options()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open("/dev/net/tun")?;
    let kind = match kind {
        LinkKind::Ethernet => libc::IFF_TAP,
        LinkKind::Ip => libc::IFF_TUN,
    };
    let mut request = ifreq::named(name);
    // A persistent device of another owner is not taken over.
    let flags = kind | libc::IFF_NO_PI | libc::IFF_TUN_EXCL;
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    ifreq::ioctl(&file, libc::TUNSETIFF as libc::c_ulong, &mut request)?;
    let name = ifreq::name_of(&request);
    Ok((file, name))
}

impl TunDevice {
    /// Creates a TAP device if packets have a link header, else a TUN device, and configures it. It
    /// has no offloads: the stack segments aggregated packets and fills in checksums. In `name`,
    /// `%d` stands for a free number. `mtu` is in bytes.
    ///
    /// # Errors
    /// If a device of that name exists, a capability is missing, or the kernel has no TUN.
    pub fn open(name: &str, kind: LinkKind, mtu: u32, role: Role) -> Result<Self, Error> {
        let made = "make a TUN device";
        let (file, name) = create_tun(name, kind).map_err(Error::system(made))?;
        let device = Self {
            index: index_of(&name).ok_or_else(|| Error::DeviceGone(name.clone()))?,
            file,
            socket: packet_socket::open(Layer::Link)
                .map_err(Error::system("open a packet socket"))?,
            name,
        };
        device.configure(role);
        if role != Role::Anchor {
            device.set_up(mtu).map_err(Error::system(made))?;
        }
        Ok(device)
    }

    /// Sets the device's sysctls. Some may not exist, for instance on a kernel without IPv6, and
    /// are not needed then.
    fn configure(&self, role: Role) {
        let set = |family: &str, key: &str, value: &str| {
            let path = format!("/proc/sys/net/{family}/conf/{}/{key}", self.name);
            let _ = std::fs::write(path, value);
        };
        match role {
            // No addresses and no router solicitations: the stack does not use the device as a
            // link.
            Role::Redirect | Role::Anchor => set("ipv6", "disable_ipv6", "1"),
            Role::Routed => {
                set("ipv6", "addr_gen_mode", "1");
                // The route to a packet's source may lead through another interface. The kernel
                // takes the maximum of this value and that of `all`, and a device without an
                // address passes the reverse-path check only at 0.
                set("ipv4", "rp_filter", "2");
                if let Err(error) = ifreq::set_address(&self.name, DUMMY_ADDRESS) {
                    tracing::debug!("address of {}: {error}", self.name);
                }
                // Routes through the device are not used while it has no carrier.
                set("ipv4", "ignore_routes_with_linkdown", "1");
                set("ipv6", "ignore_routes_with_linkdown", "1");
            }
        }
    }

    fn set_up(&self, mtu: u32) -> io::Result<()> {
        let (socket, name) = (&self.socket, &self.name);
        ifreq::set_mtu(socket, name, mtu)?;
        ifreq::set_tx_queue_len(socket, name, TX_QUEUE_LEN)?;
        ifreq::add_flags(socket, name, libc::IFF_UP | libc::IFF_NOARP)
    }

    /// Returns the device's descriptor alone.
    #[must_use]
    pub fn into_file(self) -> File {
        self.file
    }

    /// Reads the next frame into `buffer` and returns its length in bytes; `None` if no frame
    /// waits. A frame longer than the buffer is truncated.
    ///
    /// # Errors
    /// If the device is gone or down.
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match (&self.file).read(buffer) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(len) => Ok(Some(len)),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
                _ => Err(error),
            },
        }
    }

    /// Lets the stack receive a packet from the device, as if from a wire. Returns whether the
    /// stack accepted it.
    ///
    /// # Errors
    /// If the device is gone or down.
    pub fn inject(&self, packet: &[u8]) -> io::Result<bool> {
        match (&self.file).write(packet) {
            Ok(len) => Ok(len == packet.len()),
            // EINVAL: it is not an IP packet.
            Err(error) => match error.raw_os_error() {
                Some(libc::EAGAIN | libc::EINTR | libc::EINVAL | libc::ENOMEM) => Ok(false),
                _ => Err(error),
            },
        }
    }

    /// Sets the device's carrier. This needs no privileges.
    ///
    /// # Errors
    /// If the device is down, or the kernel is older than 5.0.
    pub fn set_carrier(&self, on: bool) -> io::Result<()> {
        let on = libc::c_int::from(on);
        // SAFETY: TUNSETCARRIER reads an int.
        let set = unsafe { libc::ioctl(self.file.as_raw_fd(), TUNSETCARRIER, &raw const on) };
        if set < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Returns whether the device still exists, up or down.
    #[must_use]
    pub fn exists(&self) -> bool {
        ifreq::name_at(self.index).is_some()
    }

    /// Returns whether the device is up. Packets sent to a device that is down or gone are lost.
    #[must_use]
    pub fn is_up(&self) -> bool {
        // Somebody may have renamed it.
        let flags = ifreq::name_at(self.index).map(|name| ifreq::flags(&self.socket, &name));
        flags.is_some_and(|flags| flags.is_ok_and(|flags| flags & libc::IFF_UP != 0))
    }

    /// Returns the MTU, in bytes, of an interface of the device's network namespace.
    #[must_use]
    pub fn mtu_of(&self, interface: &Interface) -> Option<u32> {
        // Somebody may have renamed it, and given its name to another interface.
        ifreq::mtu(&self.socket, &ifreq::name_at(interface.index)?).ok()
    }

    /// Returns how many packets the device dropped because they were not read in time.
    #[must_use]
    pub fn tx_dropped(&self) -> u64 {
        let table = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
        table
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(name, _)| name.trim() == self.name)
            .and_then(|(_, numbers)| numbers.split_whitespace().nth(11)?.parse().ok())
            .unwrap_or(0)
    }
}

impl AsFd for TunDevice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
