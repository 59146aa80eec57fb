//! The few messages of rtnetlink(7) that ackwise needs: queue disciplines and their counters here,
//! clsact and its filters in [`clsact`](crate::clsact).
//!
//! The crates for netlink (neli, netlink-packet-route) support neither netem's seed nor clsact, so
//! these messages would be written by hand anyway.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

// include/uapi/linux/{rtnetlink,pkt_sched,gen_stats}.h
pub(crate) const TC_H_ROOT: u32 = 0xffff_ffff;
pub(crate) const TC_H_CLSACT: u32 = 0xffff_fff1;
pub(crate) const CLSACT_HANDLE: u32 = 0xffff_0000;
pub(crate) const TCA_KIND: u16 = 1;
pub(crate) const TCA_OPTIONS: u16 = 2;
pub(crate) const TCA_STATS2: u16 = 7;
pub(crate) const TCA_STATS_QUEUE: u16 = 3;
const NLA_TYPE_MASK: u16 = 0x3fff;
const NLMSG_HEADER: usize = 16;
/// How often a list is requested if it changes while the kernel sends it.
const MAX_DUMP_ATTEMPTS: u32 = 5;
/// The length of `struct tcmsg` in bytes.
pub(crate) const TCMSG: usize = 20;

/// The length and drops of a queue discipline.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QdiscStats {
    /// The index of the interface.
    pub interface: u32,
    /// The handle of its parent class; `None` for the root.
    pub parent: Option<u32>,
    /// Packets that wait in it.
    pub packets: u32,
    /// Bytes that wait in it.
    pub bytes: u32,
    /// Packets that it dropped.
    pub drops: u32,
    /// Whether each flow waits only behind its own packets.
    pub separates_flows: bool,
}

/// Linux's queue disciplines in which each flow waits only behind its own packets. `fq` is not
/// among them: packets also wait there until the time at which their socket paces them, which does
/// not indicate a bottleneck.
const FLOW_ISOLATING_QDISCS: [&[u8]; 5] = [b"cake", b"cake_mq", b"fq_codel", b"fq_pie", b"sfq"];

/// An rtnetlink socket of the calling thread's network namespace.
#[derive(Debug)]
pub struct Netlink {
    socket: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

/// Appends an attribute to a message. `kind` is its number, for instance a `TCA_*`.
pub fn push_attribute(message: &mut Vec<u8>, kind: u16, value: &[u8]) {
    message.extend((4 + value.len() as u16).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(value);
    message.resize(message.len().next_multiple_of(4), 0);
}

/// Returns the value of the first attribute of this kind.
#[must_use]
pub fn find_attribute(mut attributes: &[u8], kind: u16) -> Option<&[u8]> {
    loop {
        let length = usize::from(u16_at(attributes, 0)?);
        let found = u16_at(attributes, 2)? & NLA_TYPE_MASK;
        let value = attributes.get(4..length)?;
        if found == kind {
            return Some(value);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

impl Netlink {
    /// Opens a socket.
    ///
    /// # Errors
    /// If the kernel refuses a socket.
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
        // SAFETY: the descriptor was just opened and is owned by nobody else.
        Ok(Self::from_socket(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Wraps a socket that was opened by [`open`](Self::open), perhaps in another process.
    pub(crate) fn from_socket(socket: OwnedFd) -> Self {
        Self {
            socket,
            sequence: 0,
            buffer: vec![0; 64 * 1024],
        }
    }

    /// Returns the socket.
    pub(crate) fn into_socket(self) -> OwnedFd {
        self.socket
    }

    /// Adds a root queue discipline to the interface with this index. `options` is the content of
    /// its `TCA_OPTIONS`.
    ///
    /// # Errors
    /// If the kernel refuses, for instance because there is one already.
    pub fn add_root_qdisc(&mut self, index: u32, kind: &str, options: &[u8]) -> io::Result<()> {
        let mut body = tcmsg(index, 0, TC_H_ROOT);
        push_kind(&mut body, kind);
        push_attribute(&mut body, TCA_OPTIONS, options);
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        self.acknowledged(libc::RTM_NEWQDISC, flags, &body)
    }

    /// Returns the counters of all queue disciplines in the network namespace.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn qdisc_stats(&mut self) -> io::Result<Vec<QdiscStats>> {
        let every = tcmsg(0, 0, 0);
        self.dump(
            libc::RTM_GETQDISC,
            &every,
            |queues: &mut Vec<_>, kind, body| {
                if kind == libc::RTM_NEWQDISC {
                    queues.extend(parse_qdisc(body));
                }
            },
        )
    }

    /// Sends a request and waits for the kernel's acknowledgment.
    pub(crate) fn acknowledged(&mut self, kind: u16, flags: i32, body: &[u8]) -> io::Result<()> {
        self.request(kind, flags, body, |_, _| ())
    }

    /// Sends a request, waits for the kernel's acknowledgment, and calls `each` with the type and
    /// the body of each message that arrives before it.
    pub(crate) fn request(
        &mut self,
        kind: u16,
        flags: i32,
        body: &[u8],
        mut each: impl FnMut(u16, &[u8]),
    ) -> io::Result<()> {
        self.send(kind, flags | libc::NLM_F_ACK, body)?;
        self.answer(&mut each).map(|_| ())
    }

    /// Requests a list and collects it with `each`, which takes the type and the body of each
    /// message. If the kernel reports that the list changed meanwhile, it is requested again.
    ///
    /// # Errors
    /// If the kernel refuses. `Interrupted` means that the list changed every time.
    pub(crate) fn dump<T: Default>(
        &mut self,
        kind: u16,
        body: &[u8],
        mut each: impl FnMut(&mut T, u16, &[u8]),
    ) -> io::Result<T> {
        for _ in 0..MAX_DUMP_ATTEMPTS {
            let mut list = T::default();
            self.send(kind, libc::NLM_F_DUMP, body)?;
            if self.answer(&mut |kind, body| each(&mut list, kind, body))? {
                return Ok(list);
            }
        }
        let what = "the kernel's list changes all the time";
        Err(io::Error::new(io::ErrorKind::Interrupted, what))
    }

    /// Receives the whole answer to the last request. Returns whether it is consistent.
    fn answer(&mut self, each: &mut impl FnMut(u16, &[u8])) -> io::Result<bool> {
        let mut is_consistent = true;
        while !self.receive(each, &mut is_consistent)? {}
        Ok(is_consistent)
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

    /// Receives one datagram of an answer. Returns `true` if it was the last. Remains of the answer
    /// to an earlier request that failed halfway are skipped.
    fn receive(
        &mut self,
        each: &mut impl FnMut(u16, &[u8]),
        is_consistent: &mut bool,
    ) -> io::Result<bool> {
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
            let field = |at| u16_at(left, at).unwrap_or(0);
            let (kind, flags, sequence) = (field(4), field(6), u32_at(left, 8));
            left = left.get(size.next_multiple_of(4)..).unwrap_or(&[]);
            if sequence != Some(self.sequence) {
                continue;
            }
            *is_consistent &= i32::from(flags) & libc::NLM_F_DUMP_INTR == 0;
            match i32::from(kind) {
                // The end of a list carries an error if the list ended early.
                libc::NLMSG_DONE | libc::NLMSG_ERROR => {
                    return match u32_at(message, 0).unwrap_or(0) as i32 {
                        0.. => Ok(true),
                        code => Err(io::Error::from_raw_os_error(-code)),
                    };
                }
                _ => each(kind, message),
            }
        }
        Ok(false)
    }
}

/// Appends `TCA_KIND`, the name of a queue discipline or classifier.
pub(crate) fn push_kind(message: &mut Vec<u8>, kind: &str) {
    push_attribute(message, TCA_KIND, &[kind.as_bytes(), b"\0"].concat());
}

/// Returns a `struct tcmsg`.
pub(crate) fn tcmsg(index: u32, handle: u32, parent: u32) -> Vec<u8> {
    let mut bytes = vec![0; TCMSG];
    bytes[4..8].copy_from_slice(&index.to_ne_bytes());
    bytes[8..12].copy_from_slice(&handle.to_ne_bytes());
    bytes[12..16].copy_from_slice(&parent.to_ne_bytes());
    bytes
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn parse_qdisc(message: &[u8]) -> Option<QdiscStats> {
    let parent = u32_at(message, 12)?;
    let statistics = find_attribute(message.get(TCMSG..)?, TCA_STATS2)?;
    let counts = find_attribute(statistics, TCA_STATS_QUEUE)?;
    let kind = find_attribute(message.get(TCMSG..)?, TCA_KIND).unwrap_or_default();
    let kind = kind.strip_suffix(b"\0").unwrap_or(kind);
    Some(QdiscStats {
        interface: u32_at(message, 4)?,
        parent: (parent != TC_H_ROOT).then_some(parent),
        packets: u32_at(counts, 0)?,
        bytes: u32_at(counts, 4)?,
        drops: u32_at(counts, 8)?,
        separates_flows: FLOW_ISOLATING_QDISCS.contains(&kind),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_from_a_message() {
        let mut message = tcmsg(5, 0, 0x10001);
        let mut statistics = Vec::new();
        push_attribute(&mut statistics, 1, &[0; 12]);
        let counts: Vec<u8> = [11_u32, 1, 22, 2, 3]
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect();
        push_attribute(&mut statistics, TCA_STATS_QUEUE, &counts);
        push_attribute(&mut message, TCA_KIND, b"pfifo\0");
        push_attribute(&mut message, TCA_STATS2, &statistics);
        assert_eq!(
            parse_qdisc(&message),
            Some(QdiscStats {
                interface: 5,
                parent: Some(0x10001),
                packets: 11,
                bytes: 1,
                drops: 22,
                separates_flows: false,
            })
        );
        let fair = [
            &message[..TCMSG],
            &[11, 0, 1, 0],
            b"fq_pie\0\0",
            &message[TCMSG + 12..],
        ];
        let fair = parse_qdisc(&fair.concat()).expect("a discipline");
        assert!(fair.separates_flows && fair.packets == 11, "{fair:?}");
        assert_eq!(parse_qdisc(&message[..40]), None);
        assert_eq!(find_attribute(&message[TCMSG..], 99), None);
    }

    /// A socket that stands in for the kernel, and a `Netlink` connected to it.
    fn kernel() -> (std::os::unix::net::UnixDatagram, Netlink) {
        let (kernel, own) = std::os::unix::net::UnixDatagram::pair().unwrap();
        (kernel, Netlink::from_socket(own.into()))
    }

    fn answer(kind: i32, flags: i32, sequence: u32, body: u32) -> Vec<u8> {
        let mut message = 20_u32.to_ne_bytes().to_vec();
        message.extend((kind as u16).to_ne_bytes());
        message.extend((flags as u16).to_ne_bytes());
        for word in [sequence, 0, body] {
            message.extend(word.to_ne_bytes());
        }
        message
    }

    fn list(netlink: &mut Netlink) -> io::Result<Vec<u8>> {
        let each = |list: &mut Vec<u8>, _, body: &[u8]| list.push(body[0]);
        netlink.dump(libc::RTM_GETQDISC, &[], each)
    }

    #[test]
    fn a_list_that_changed_meanwhile_is_asked_for_again() {
        let entry = i32::from(libc::RTM_NEWQDISC);
        let torn = |sequence| {
            let first = answer(entry, 0, sequence, 7);
            let end = answer(libc::NLMSG_DONE, libc::NLM_F_DUMP_INTR, sequence, 0);
            [first, end].concat()
        };
        let (kernel, mut netlink) = kernel();
        kernel.send(&torn(1)).unwrap();
        kernel.send(&answer(entry, 0, 2, 8)).unwrap();
        kernel.send(&answer(libc::NLMSG_DONE, 0, 2, 0)).unwrap();
        assert_eq!(list(&mut netlink).unwrap(), [8]);
        for sequence in 3..3 + MAX_DUMP_ATTEMPTS {
            kernel.send(&torn(sequence)).unwrap();
        }
        let error = list(&mut netlink).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Interrupted);
    }

    #[test]
    fn what_is_left_of_an_earlier_answer_is_passed_over() {
        let entry = i32::from(libc::RTM_NEWQDISC);
        let (kernel, mut netlink) = kernel();
        let refused = (-libc::EPERM).cast_unsigned();
        kernel
            .send(&answer(libc::NLMSG_DONE, 0, 1, refused))
            .unwrap();
        let error = list(&mut netlink).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EPERM));
        kernel.send(&answer(entry, 0, 1, 7)).unwrap();
        kernel.send(&answer(libc::NLMSG_DONE, 0, 1, 0)).unwrap();
        let own = [answer(entry, 0, 2, 8), answer(libc::NLMSG_DONE, 0, 2, 0)];
        kernel.send(&own.concat()).unwrap();
        assert_eq!(list(&mut netlink).unwrap(), [8]);
    }

    #[test]
    fn the_kernel_lists_its_queue_disciplines() {
        // The loopback interface may have none.
        Netlink::open().unwrap().qdisc_stats().unwrap();
    }
}
