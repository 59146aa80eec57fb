//! What the kernel says about an interface without changing anything: its link, the default routes,
//! and whether packets are forwarded. None of it needs privileges.

use std::fs;
use std::io;
use std::path::Path;

use serde::Serialize;

use crate::netlink::{Netlink, find_attribute, u16_at, u32_at};

// include/uapi/linux/{if_link,rtnetlink}.h
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_SLAVE_KIND: u16 = 4;
const RTA_OIF: u16 = 4;
const RTA_MULTIPATH: u16 = 9;
/// `struct ifinfomsg` in bytes.
const IFINFOMSG: usize = 16;
/// `struct rtmsg` in bytes.
const RTMSG: usize = 12;
/// `struct rtnexthop` in bytes.
const RTNEXTHOP: usize = 8;

/// A link as rtnetlink(7) lists it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Link {
    /// Whether the link is up.
    pub up: bool,
    /// The kind of a virtual link, for instance `veth`, `vlan` or `ifb`.
    pub kind: Option<String>,
    /// The kind of the link of which this is a port, for instance `bridge`.
    pub port_of: Option<String>,
}

impl Link {
    /// Returns whether it accepts only packets that the kernel redirects to it, and drops those
    /// that a process sends.
    #[must_use]
    pub fn is_ifb(&self) -> bool {
        self.kind.as_deref() == Some("ifb")
    }
}

/// The interfaces, by index, of the default routes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DefaultRoutes {
    /// The interfaces of IPv4 default routes.
    pub v4: Vec<u32>,
    /// The interfaces of IPv6 default routes.
    pub v6: Vec<u32>,
}

/// What sysfs says about a device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Device {
    /// The speed in Mbit/s, if the driver knows it.
    pub speed_mbps: Option<u32>,
    /// Whether it is a Wi-Fi device.
    pub wifi: bool,
}

impl Netlink {
    /// Returns the link with this index.
    ///
    /// # Errors
    /// If there is none.
    pub fn link(&mut self, index: u32) -> io::Result<Link> {
        let mut body = vec![0; IFINFOMSG];
        body[4..8].copy_from_slice(&index.to_ne_bytes());
        let mut found = None;
        self.request(libc::RTM_GETLINK, 0, &body, |kind, message| {
            if kind == libc::RTM_NEWLINK {
                found = parse_link(message);
            }
        })?;
        found.ok_or_else(|| io::Error::other("the kernel did not describe the link"))
    }

    /// Returns the interfaces of the default routes in all routing tables.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn default_routes(&mut self) -> io::Result<DefaultRoutes> {
        let mut routes = DefaultRoutes::default();
        for (family, into) in [
            (libc::AF_INET, &mut routes.v4),
            (libc::AF_INET6, &mut routes.v6),
        ] {
            let mut body = vec![0; RTMSG];
            body[0] = family as u8;
            *into = self.dump(
                libc::RTM_GETROUTE,
                &body,
                |all: &mut Vec<_>, kind, message| {
                    if kind == libc::RTM_NEWROUTE {
                        all.extend(parse_default_route(message));
                    }
                },
            )?;
            into.sort_unstable();
            into.dedup();
        }
        Ok(routes)
    }
}

fn text(value: &[u8]) -> Option<String> {
    let value = value.strip_suffix(b"\0").unwrap_or(value);
    std::str::from_utf8(value).ok().map(str::to_owned)
}

fn parse_link(message: &[u8]) -> Option<Link> {
    let flags = u32_at(message, 8)?;
    let attributes = message.get(IFINFOMSG..)?;
    let info = find_attribute(attributes, IFLA_LINKINFO).unwrap_or_default();
    let master = find_attribute(attributes, IFLA_MASTER);
    let port_of = find_attribute(info, IFLA_INFO_SLAVE_KIND).and_then(text);
    Some(Link {
        up: flags & libc::IFF_UP as u32 != 0,
        kind: find_attribute(info, IFLA_INFO_KIND).and_then(text),
        port_of: port_of.or_else(|| master.map(|_| "another link".to_owned())),
    })
}

/// Returns the interfaces of a unicast default route; empty for any other route.
fn parse_default_route(message: &[u8]) -> Vec<u32> {
    let is_default = message.get(1) == Some(&0) && message.get(7) == Some(&libc::RTN_UNICAST);
    let Some(attributes) = message.get(RTMSG..).filter(|_| is_default) else {
        return Vec::new();
    };
    let mut interfaces: Vec<u32> = find_attribute(attributes, RTA_OIF)
        .and_then(|value| u32_at(value, 0))
        .into_iter()
        .collect();
    let mut hops = find_attribute(attributes, RTA_MULTIPATH).unwrap_or_default();
    while let (Some(length), Some(index)) = (u16_at(hops, 0), u32_at(hops, 4)) {
        interfaces.push(index);
        let length = usize::from(length).max(RTNEXTHOP);
        hops = hops.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    interfaces
}

/// Returns whether packets that arrive on an interface are forwarded; `None` if the kernel does not
/// say. `version` is `ipv4` or `ipv6`.
#[must_use]
pub fn forwards(name: &str, version: &str) -> Option<bool> {
    let path = format!("/proc/sys/net/{version}/conf/{name}/forwarding");
    let value = fs::read_to_string(path).ok()?;
    Some(value.trim() != "0")
}

/// Returns what sysfs says about a device; `None` if sysfs is missing, or shows another network
/// namespace.
#[must_use]
pub fn device(name: &str, index: u32) -> Option<Device> {
    let directory = Path::new("/sys/class/net").join(name);
    let number = |file: &str| -> Option<i64> {
        let value = fs::read_to_string(directory.join(file)).ok()?;
        value.trim().parse().ok()
    };
    (number("ifindex")? == i64::from(index)).then(|| Device {
        speed_mbps: number("speed")
            .and_then(|speed| u32::try_from(speed).ok())
            .filter(|speed| *speed > 0),
        wifi: ["phy80211", "wireless"]
            .iter()
            .any(|entry| directory.join(entry).exists()),
    })
}

/// Returns whether the running kernel has a module: loaded, built in, or installed. `None` if none
/// of the lists exists.
#[must_use]
pub fn has_module(release: &str, module: &str) -> Option<bool> {
    if Path::new("/sys/module").join(module).exists() {
        return Some(true);
    }
    let directory = Path::new("/lib/modules").join(release);
    let listed = |list: &str| {
        let text = fs::read_to_string(directory.join(list)).ok()?;
        Some(names_module(&text, module))
    };
    match (listed("modules.builtin"), listed("modules.dep")) {
        (None, None) => None,
        (built_in, installed) => Some(built_in == Some(true) || installed == Some(true)),
    }
}

/// Returns whether a list of depmod(8) contains a module. Each line begins with a path.
fn names_module(list: &str, module: &str) -> bool {
    list.lines().any(|line| {
        let path = line.split(':').next().unwrap_or(line);
        let file = path.rsplit('/').next().unwrap_or(path);
        file.split(".ko").next() == Some(module)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::push_attribute;

    fn route(length: u8, kind: u8, attributes: &[u8]) -> Vec<u8> {
        let mut message = vec![0; RTMSG];
        message[1] = length;
        message[7] = kind;
        message.extend(attributes);
        message
    }

    #[test]
    fn only_a_unicast_route_to_everywhere_is_a_default_route() {
        let mut one = Vec::new();
        push_attribute(&mut one, RTA_OIF, &3_u32.to_ne_bytes());
        let unicast = libc::RTN_UNICAST;
        assert_eq!(parse_default_route(&route(0, unicast, &one)), [3]);
        assert!(parse_default_route(&route(24, unicast, &one)).is_empty());
        assert!(parse_default_route(&route(0, libc::RTN_UNREACHABLE, &one)).is_empty());
        let hop = |index: u32| [&8_u16.to_ne_bytes()[..], &[0; 2], &index.to_ne_bytes()].concat();
        let mut several = Vec::new();
        push_attribute(&mut several, RTA_MULTIPATH, &[hop(4), hop(9)].concat());
        assert_eq!(parse_default_route(&route(0, unicast, &several)), [4, 9]);
        assert!(parse_default_route(&[0; 5]).is_empty());
    }

    #[test]
    fn a_port_of_a_bridge_says_so() {
        let mut info = Vec::new();
        push_attribute(&mut info, IFLA_INFO_KIND, b"veth\0");
        push_attribute(&mut info, IFLA_INFO_SLAVE_KIND, b"bridge\0");
        let mut message = vec![0; IFINFOMSG];
        message[8] = 1;
        push_attribute(&mut message, IFLA_MASTER, &2_u32.to_ne_bytes());
        push_attribute(&mut message, IFLA_LINKINFO, &info);
        let link = parse_link(&message).unwrap();
        assert_eq!(link.kind.as_deref(), Some("veth"));
        assert_eq!(link.port_of.as_deref(), Some("bridge"));
        assert!(link.up);
        assert_eq!(parse_link(&[0; IFINFOMSG]), Some(Link::default()));
    }

    #[test]
    fn a_module_is_found_by_its_whole_name() {
        let list = "kernel/net/sched/sch_cake.ko.xz:\nkernel/net/sched/sch_fq_codel.ko: a.ko\n";
        assert!(names_module(list, "sch_cake"));
        assert!(names_module(list, "sch_fq_codel"));
        assert!(!names_module(list, "sch_fq"));
    }

    #[test]
    fn the_loopback_interface_is_described() {
        let index = crate::ifreq::index_of("lo").unwrap();
        let mut netlink = Netlink::open().unwrap();
        let link = netlink.link(index).unwrap();
        assert_eq!((link.kind, link.port_of), (None, None));
        netlink.default_routes().unwrap();
        assert!(netlink.link(u32::MAX >> 1).is_err());
        assert_eq!(forwards("no such interface", "ipv4"), None);
    }
}
