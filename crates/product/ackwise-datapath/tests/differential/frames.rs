//! Hand-made frames, with headers as unusual as a test wants them. Nothing checks their checksums.

use ackwise_datapath::Tag;

/// Inserts a tag into an Ethernet frame, outside of the existing ones.
pub fn insert_tag(frame: &mut Vec<u8>, tag: Tag) {
    let [a, b] = tag.ether_type().to_be_bytes();
    let [c, d] = tag.tci.to_be_bytes();
    frame.splice(12..12, [a, b, c, d]);
}

/// The headers below TCP.
#[derive(Debug, Clone)]
pub struct Ip {
    pub v6: bool,
    /// Makes addresses differ.
    pub number: u8,
    /// The VLAN tags of an Ethernet header; `None` if there is no such header.
    pub tags: Option<Vec<u16>>,
    /// Whether PPPoE is between the Ethernet and the IP header (RFC 2516).
    pub pppoe: bool,
    pub ecn: u8,
    pub protocol: u8,
    /// IPv4: options, a multiple of four bytes. IPv6: kinds of extension headers.
    pub options: Vec<u8>,
    pub extensions: Vec<u8>,
    /// IPv4: flags and offset of the fragment, as on the wire.
    pub fragment: u16,
    /// By how many bytes the length field exceeds the true length.
    pub longer: i32,
    /// Bytes after the packet.
    pub padding: usize,
}

impl Default for Ip {
    fn default() -> Self {
        Ip {
            v6: false,
            number: 0,
            tags: Some(Vec::new()),
            pppoe: false,
            ecn: 0,
            protocol: 6,
            options: Vec::new(),
            extensions: Vec::new(),
            fragment: 0x4000,
            longer: 0,
            padding: 0,
        }
    }
}

#[derive(Debug, Clone, Default)]
pub struct Tcp {
    /// Whether the ACKs' end sends it.
    pub acks: bool,
    pub from: u16,
    pub to: u16,
    pub seq: u32,
    pub ack: u32,
    /// Twelve bits.
    pub flags: u16,
    pub window: u16,
    pub options: Vec<u8>,
    pub payload: usize,
}

impl Tcp {
    fn bytes(&self) -> Vec<u8> {
        let mut options = self.options.clone();
        options.truncate(40);
        while !options.len().is_multiple_of(4) {
            options.push(0);
        }
        let mut b = Vec::with_capacity(60 + self.payload);
        b.extend(self.from.to_be_bytes());
        b.extend(self.to.to_be_bytes());
        b.extend(self.seq.to_be_bytes());
        b.extend(self.ack.to_be_bytes());
        let words = 5 + options.len() as u16 / 4;
        b.extend((words << 12 | self.flags & 0xfff).to_be_bytes());
        b.extend(self.window.to_be_bytes());
        b.extend([0; 4]);
        b.extend(options);
        b.resize(b.len() + self.payload, 0x5a);
        b
    }

    pub fn frame(&self, ip: &Ip) -> Vec<u8> {
        let tcp = self.bytes();
        let (near, far) = if self.acks { (1, 2) } else { (2, 1) };
        let mut f = Vec::with_capacity(120 + tcp.len());
        if let Some(tags) = &ip.tags {
            f.extend([2, 0, 0, 0, 0, far, 2, 0, 0, 0, 0, near]);
            for (n, tag) in tags.iter().enumerate() {
                f.extend(if n == 0 && tags.len() > 1 {
                    [0x88, 0xa8]
                } else {
                    [0x81, 0x00]
                });
                f.extend(tag.to_be_bytes());
            }
            if ip.pppoe {
                // Version 1, session data; the protocol is one of PPP.
                f.extend([0x88, 0x64, 0x11, 0, 0, 1, 0, 100]);
            }
            f.extend(match (ip.pppoe, ip.v6) {
                (true, true) => [0x00, 0x57],
                (true, false) => [0x00, 0x21],
                (false, true) => [0x86, 0xdd],
                (false, false) => [0x08, 0x00],
            });
        }
        if ip.v6 {
            ip6(ip, &mut f, near, far, tcp.len());
        } else {
            ip4(ip, &mut f, near, far, tcp.len());
        }
        f.extend(tcp);
        f.resize(f.len() + ip.padding, 0);
        f
    }
}

fn ip4(ip: &Ip, f: &mut Vec<u8>, near: u8, far: u8, tcp: usize) {
    let header = 20 + ip.options.len();
    let length = (header + tcp) as i32 + ip.longer;
    f.extend([0x40 | (header / 4) as u8, ip.ecn]);
    f.extend((length as u16).to_be_bytes());
    f.extend([0, 0]);
    f.extend(ip.fragment.to_be_bytes());
    f.extend([64, ip.protocol, 0, 0]);
    f.extend([198, 18, ip.number, near, 198, 18, ip.number, far]);
    f.extend(&ip.options);
}

fn ip6(ip: &Ip, f: &mut Vec<u8>, near: u8, far: u8, tcp: usize) {
    let length = (8 * ip.extensions.len() + tcp) as i32 + ip.longer;
    f.extend([0x60, ip.ecn << 4, 0, 0]);
    f.extend((length as u16).to_be_bytes());
    f.extend([*ip.extensions.first().unwrap_or(&ip.protocol), 64]);
    for end in [near, far] {
        f.extend([
            0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, ip.number, end,
        ]);
    }
    for n in 0..ip.extensions.len() {
        let next = *ip.extensions.get(n + 1).unwrap_or(&ip.protocol);
        f.extend([next, 0, 0, 0, 0, 0, 0, 0]);
    }
}
