//! Just enough of rtnetlink: `netem` with a seed, which the `tc` of many
//! distributions does not know, and the counters of queue disciplines.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

// include/uapi/linux/rtnetlink.h, pkt_sched.h, gen_stats.h
const RTM_NEWQDISC: u16 = 36;
const RTM_GETQDISC: u16 = 38;
const TC_H_ROOT: u32 = 0xffff_ffff;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_STATS2: u16 = 7;
const TCA_STATS_QUEUE: u16 = 3;
const TCA_NETEM_RATE: u16 = 6;
const TCA_NETEM_RATE64: u16 = 8;
const TCA_NETEM_LATENCY64: u16 = 10;
const TCA_NETEM_PRNG_SEED: u16 = 14;
const NLA_TYPE_MASK: u16 = 0x3fff;
const NLMSG_HEADER: usize = 16;
const TCMSG: usize = 20;

/// What `netem` is to do; nothing of it is rounded to the kernel's ticks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Netem {
    /// Added to every packet.
    pub delay_ns: u64,
    /// Bytes a second; 0 for none. A packet's own time is added to its delay.
    pub rate: u64,
    /// Of 2³² packets, how many are lost.
    pub loss: u32,
    /// Of 2³² packets, how many come twice.
    pub duplicate: u32,
    /// Packets that may be on their way.
    pub limit: u32,
    /// Of its random numbers, from Linux 6.6 on.
    pub seed: u64,
}

/// The length and drops of a queue discipline.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Queue {
    pub interface: i32,
    /// `None` for the root.
    pub parent: Option<u32>,
    pub packets: u32,
    pub drops: u32,
}

/// A socket of the calling thread's namespace.
#[derive(Debug)]
pub(super) struct Netlink {
    socket: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

fn attribute(to: &mut Vec<u8>, kind: u16, value: &[u8]) {
    to.extend((4 + value.len() as u16).to_ne_bytes());
    to.extend(kind.to_ne_bytes());
    to.extend(value);
    to.resize(to.len().next_multiple_of(4), 0);
}

impl Netem {
    fn options(&self) -> Vec<u8> {
        // struct tc_netem_qopt: latency and jitter are given below instead.
        let mut bytes = Vec::new();
        for word in [0, self.limit, self.loss, 0, self.duplicate, 0] {
            bytes.extend(u32::to_ne_bytes(word));
        }
        if self.rate > 0 {
            let narrow = u32::try_from(self.rate).unwrap_or(u32::MAX);
            let mut rate = [0; 16];
            rate[..4].copy_from_slice(&narrow.to_ne_bytes());
            attribute(&mut bytes, TCA_NETEM_RATE, &rate);
            attribute(&mut bytes, TCA_NETEM_RATE64, &self.rate.to_ne_bytes());
        }
        attribute(
            &mut bytes,
            TCA_NETEM_LATENCY64,
            &self.delay_ns.to_ne_bytes(),
        );
        attribute(&mut bytes, TCA_NETEM_PRNG_SEED, &self.seed.to_ne_bytes());
        bytes
    }
}

impl Netlink {
    pub fn open() -> io::Result<Self> {
        // SAFETY: no pointers are passed.
        let fd = unsafe {
            libc::socket(
                libc::AF_NETLINK,
                libc::SOCK_RAW | libc::SOCK_CLOEXEC,
                libc::NETLINK_ROUTE,
            )
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            // SAFETY: the descriptor was just opened and is owned by nobody else.
            socket: unsafe { OwnedFd::from_raw_fd(fd) },
            sequence: 0,
            buffer: vec![0; 64 * 1024],
        })
    }

    /// Makes `netem` an interface's root.
    pub fn add_netem(&mut self, interface: &str, netem: &Netem) -> io::Result<()> {
        let index = nix::net::if_::if_nametoindex(interface)?;
        let mut body = tcmsg(index as i32, TC_H_ROOT);
        attribute(&mut body, TCA_KIND, b"netem\0");
        attribute(&mut body, TCA_OPTIONS, &netem.options());
        let flags = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        self.send(RTM_NEWQDISC, flags, &body)?;
        self.receive(|_, _| ()).map(drop)
    }

    /// All queue disciplines of the namespace.
    pub fn queues(&mut self) -> io::Result<Vec<Queue>> {
        self.send(RTM_GETQDISC, libc::NLM_F_DUMP, &tcmsg(0, 0))?;
        let mut queues = Vec::new();
        while !self.receive(|kind, body| {
            if kind == RTM_NEWQDISC {
                queues.extend(queue(body));
            }
        })? {}
        Ok(queues)
    }

    fn send(&mut self, kind: u16, flags: i32, body: &[u8]) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let length = NLMSG_HEADER + body.len();
        let mut message = Vec::with_capacity(length);
        message.extend((length as u32).to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend(((libc::NLM_F_REQUEST | flags) as u16).to_ne_bytes());
        message.extend(self.sequence.to_ne_bytes());
        message.extend([0; 4]);
        message.extend(body);
        // SAFETY: the buffer is live and its length is its own.
        let sent = unsafe {
            libc::send(
                self.socket.as_raw_fd(),
                message.as_ptr().cast(),
                message.len(),
                0,
            )
        };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// One datagram of an answer; `true` if it was the last.
    fn receive(&mut self, mut each: impl FnMut(u16, &[u8])) -> io::Result<bool> {
        // SAFETY: the buffer is live and its length is its own.
        let length = unsafe {
            libc::recv(
                self.socket.as_raw_fd(),
                self.buffer.as_mut_ptr().cast(),
                self.buffer.len(),
                0,
            )
        };
        let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
        let mut left = &self.buffer[..length];
        while let Some(size) = u32_at(left, 0).map(|size| size as usize) {
            let malformed =
                || io::Error::new(io::ErrorKind::InvalidData, "malformed answer of rtnetlink");
            let message = left.get(NLMSG_HEADER..size).ok_or_else(malformed)?;
            let kind = u16_at(left, 4).unwrap_or(0);
            match i32::from(kind) {
                libc::NLMSG_DONE => return Ok(true),
                libc::NLMSG_ERROR => {
                    return match u32_at(message, 0).unwrap_or(0) as i32 {
                        0 => Ok(true),
                        code => Err(io::Error::from_raw_os_error(-code)),
                    };
                }
                _ => each(kind, message),
            }
            left = left.get(size.next_multiple_of(4)..).unwrap_or(&[]);
        }
        Ok(false)
    }
}

fn tcmsg(interface: i32, parent: u32) -> Vec<u8> {
    let mut bytes = vec![0; TCMSG];
    bytes[4..8].copy_from_slice(&interface.to_ne_bytes());
    bytes[12..16].copy_from_slice(&parent.to_ne_bytes());
    bytes
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The value of an attribute among others.
fn find(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let length = usize::from(u16_at(attributes, 0)?);
        let kind = u16_at(attributes, 2)? & NLA_TYPE_MASK;
        let value = attributes.get(4..length)?;
        if kind == wanted {
            return Some(value);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

fn queue(message: &[u8]) -> Option<Queue> {
    let parent = u32_at(message, 12)?;
    let statistics = find(message.get(TCMSG..)?, TCA_STATS2)?;
    let counts = find(statistics, TCA_STATS_QUEUE)?;
    Some(Queue {
        interface: u32_at(message, 4)? as i32,
        parent: (parent != TC_H_ROOT).then_some(parent),
        packets: u32_at(counts, 0)?,
        drops: u32_at(counts, 8)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn netem_is_told_in_nanoseconds_and_bytes() {
        let netem = Netem {
            delay_ns: 20_000_001,
            rate: 25_000,
            loss: 7,
            limit: 9,
            seed: 3,
            ..Netem::default()
        };
        let options = netem.options();
        assert_eq!(u32_at(&options, 4), Some(9));
        assert_eq!(u32_at(&options, 8), Some(7));
        let attributes = &options[24..];
        assert_eq!(
            find(attributes, TCA_NETEM_LATENCY64),
            Some(&20_000_001_u64.to_ne_bytes()[..])
        );
        assert_eq!(
            find(attributes, TCA_NETEM_RATE64),
            Some(&25_000_u64.to_ne_bytes()[..])
        );
        assert_eq!(
            find(attributes, TCA_NETEM_PRNG_SEED),
            Some(&3_u64.to_ne_bytes()[..])
        );
        assert_eq!(find(attributes, 99), None);
    }

    #[test]
    fn a_queue_is_read_off_its_message() {
        let mut message = tcmsg(5, 0x10001);
        let mut statistics = Vec::new();
        attribute(&mut statistics, 1, &[0; 12]);
        let counts: Vec<u8> = [11_u32, 1, 22, 2, 3]
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect();
        attribute(&mut statistics, TCA_STATS_QUEUE, &counts);
        attribute(&mut message, TCA_KIND, b"pfifo\0");
        attribute(&mut message, TCA_STATS2, &statistics);
        assert_eq!(
            queue(&message),
            Some(Queue {
                interface: 5,
                parent: Some(0x10001),
                packets: 11,
                drops: 22
            })
        );
        assert_eq!(queue(&message[..40]), None);
    }

    #[test]
    fn the_kernel_lists_its_queues() {
        // Whatever there is; a loopback interface may have none.
        Netlink::open().unwrap().queues().unwrap();
    }
}
