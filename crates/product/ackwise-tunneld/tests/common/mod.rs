//! Two sites with a tunnel between them.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use ackwise_headers::{checksum, protocol};
use ackwise_netdev::raw_socket::{self, SockProtocol};
use ackwise_tunnel::{KeyPair, key_to_base64};
use ackwise_tunneld::{AttachMode, Config, Daemon, PeerStats};
use nix::sys::socket::{MsgFlags, setsockopt, sockopt};

pub use ackwise_testbed::*;

const TOPOLOGY: Topology = Topology {
    nodes: &[host("host"), router("near"), router("far"), host("server")],
    links: &[
        link("host.lan0", "near.lan1"),
        link("near.wan0", "far.wan1"),
        link("far.net0", "server.net1"),
    ],
};

/// A host, its router, the other router, the other host: 10.9.1.1 – .2 near 10.9.2.1 – .2 far
/// 10.9.3.1 – .2, and the same for fd09.
pub struct Sites {
    pub host: Netns,
    pub near: Netns,
    pub far: Netns,
    pub server: Netns,
    pub keys: tempfile::TempDir,
    pub near_key: KeyPair,
    pub far_key: KeyPair,
}

pub fn write_key(directory: &Path, name: &str) -> KeyPair {
    let keys = KeyPair::generate().unwrap();
    let mut file = OpenOptions::new();
    let file = file.write(true).create(true).truncate(true).mode(0o600);
    let mut file = file.open(directory.join(name)).unwrap();
    file.write_all(key_to_base64(&keys.secret).as_bytes())
        .unwrap();
    keys
}

impl Sites {
    pub fn new() -> Self {
        let keys = tempfile::tempdir().unwrap();
        let [host, near, far, server] = TOPOLOGY.build();
        let sites = Self {
            host,
            near,
            far,
            server,
            near_key: write_key(keys.path(), "near"),
            far_key: write_key(keys.path(), "far"),
            keys,
        };
        // An ACK for every two segments, as on a wire, and not for every 64 KiB.
        for (end, device) in [(&sites.host, "lan0"), (&sites.server, "net1")] {
            end.run(|| run_command("ethtool", &format!("-K {device} tso off gso off gro off")));
        }
        sites
    }

    /// The configuration of the near router; `more` is placed before the peer.
    pub fn near_config(&self, more: &str) -> Config {
        self.config(
            &format!("interface = \"wan0\"\nprivate_key = \"near\"\n{more}"),
            &format!(
                "public_key = \"{}\"\nendpoint = \"10.9.2.2:51830\"\n\
                 allowed_ips = [\"10.9.3.0/24\", \"fd09:3::/64\"]",
                key_to_base64(&self.far_key.public)
            ),
        )
    }

    /// The configuration of the far router, which waits to be contacted.
    pub fn far_config(&self, more: &str) -> Config {
        self.config(
            &format!("interface = \"wan1\"\nprivate_key = \"far\"\n{more}"),
            &format!(
                "public_key = \"{}\"\nallowed_ips = [\"10.9.1.0/24\", \"fd09:1::/64\"]",
                key_to_base64(&self.near_key.public)
            ),
        )
    }

    pub fn config(&self, top: &str, peer: &str) -> Config {
        let text = format!("listen_port = 51830\n{top}\n[[peer]]\nname = \"other\"\n{peer}\n");
        let path = self.keys.path().join("tunnel.toml");
        std::fs::write(&path, text).unwrap();
        Config::load(&path).unwrap_or_else(|e| panic!("{e}"))
    }

    pub fn start(&self, at: &Netns, config: Config) -> Daemon {
        at.run(|| Daemon::start(config, AttachMode::Auto))
            .unwrap_or_else(|e| panic!("{e}"))
    }

    /// Starts both ends; returns when each hears the other.
    pub fn tunnel(&self, more: &str) -> [Daemon; 2] {
        let ends = [
            self.start(&self.far, self.far_config(more)),
            self.start(&self.near, self.near_config(more)),
        ];
        until("the tunnel", || ends.iter().all(is_up).then_some(()));
        ends
    }

    pub fn nothing_left(&self) {
        for at in [&self.near, &self.far] {
            assert_eq!(at.leftovers(), (Vec::new(), 0));
        }
    }
}

pub fn peer(daemon: &Daemon) -> PeerStats {
    daemon.stats().peers.first().cloned().unwrap_or_default()
}

pub fn is_up(daemon: &Daemon) -> bool {
    peer(daemon).up
}

/// Bytes in which no two offsets look the same.
pub fn pattern(len: usize) -> Vec<u8> {
    let mut x = 0x9e37_79b9_u32;
    let step = |x: &mut u32| {
        *x ^= *x << 13;
        *x ^= *x >> 17;
        *x ^= *x << 5;
        (*x >> 11) as u8
    };
    (0..len).map(|_| step(&mut x)).collect()
}

/// Sends bytes from one namespace to another, and compares each. `during` runs when the first
/// half has arrived.
pub fn transfer_and(from: &Netns, to: &Netns, address: &str, len: usize, during: impl FnOnce()) {
    let listener = to.run(|| TcpListener::bind(address).unwrap());
    let bytes = pattern(len);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut stream = from.run(|| TcpStream::connect(address).unwrap());
            stream.write_all(&bytes).unwrap();
        });
        let (mut stream, _) = listener.accept().unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        let mut received = vec![0; len / 2];
        stream.read_exact(&mut received).unwrap();
        during();
        stream.read_to_end(&mut received).unwrap();
        assert!(received == bytes, "wrong bytes");
    });
}

pub fn transfer(from: &Netns, to: &Netns, address: &str, len: usize) {
    transfer_and(from, to, address, len, || {});
}

/// Captures the frames that pass an interface, until [`Capture::end`].
pub struct Capture {
    stop: Arc<AtomicBool>,
    frames: Arc<Mutex<Vec<Vec<u8>>>>,
    thread: thread::JoinHandle<()>,
}

impl Capture {
    pub fn start(at: &Netns, interface: &str) -> Self {
        let socket = at.run(|| packet_socket(interface));
        setsockopt(&socket, sockopt::RcvBufForce, &(64 << 20)).unwrap();
        let socket = File::from(socket);
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let frames = Arc::default();
        let kept: Arc<Mutex<Vec<Vec<u8>>>> = Arc::clone(&frames);
        let thread = thread::spawn(move || {
            let mut room = vec![0; 1 << 16];
            loop {
                match (&socket).read(&mut room) {
                    Ok(len) => kept.lock().unwrap().push(room[..len].to_vec()),
                    Err(_) if seen.load(Ordering::Acquire) => return,
                    Err(_) => {}
                }
            }
        });
        Self {
            stop,
            frames,
            thread,
        }
    }

    /// The number of frames so far.
    pub fn count(&self) -> usize {
        self.frames.lock().unwrap().len()
    }

    /// The number of frames so far that end in these bytes.
    pub fn count_with(&self, payload: &[u8]) -> usize {
        let frames = self.frames.lock().unwrap();
        frames.iter().filter(|it| it.ends_with(payload)).count()
    }

    pub fn end(self) -> Vec<Vec<u8>> {
        self.stop.store(true, Ordering::Release);
        self.thread.join().unwrap();
        std::mem::take(&mut *self.frames.lock().unwrap())
    }
}

/// The IP packet of a frame if it is a pure ACK from `port`, in the form that is the same at every
/// hop: without the TTL and the header checksum that covers it.
pub fn ack_from(port: u16, frame: &[u8]) -> Option<Vec<u8>> {
    let (kind, rest) = frame.get(12..)?.split_at_checked(2)?;
    let mut packet = rest.to_vec();
    let (len, tcp) = match kind {
        [0x08, 0x00] => {
            packet[8] = 0;
            packet[10..12].fill(0);
            (usize::from(u16::from_be_bytes([packet[2], packet[3]])), 20)
        }
        [0x86, 0xdd] => {
            packet[7] = 0;
            (
                40 + usize::from(u16::from_be_bytes([packet[4], packet[5]])),
                40,
            )
        }
        _ => return None,
    };
    packet.truncate(len);
    let header = packet.get(tcp..tcp + 20)?;
    let empty = len == tcp + usize::from(header[12] >> 4) * 4;
    let fits = empty && header[13] & 0x17 == 0x10 && header[..2] == port.to_be_bytes();
    fits.then_some(packet)
}

/// Sends pure ACKs that belong to no connection, one of each flow, from the host to the server.
pub fn send_strange_acks(sites: &Sites, flows: Range<u16>) {
    sites.host.run(|| {
        let socket = raw_socket::open(false, SockProtocol::Raw).unwrap();
        for flow in flows.clone() {
            let server = [10, 9, 3, 2].into();
            raw_socket::send(&socket, &strange_ack(flow), server, MsgFlags::empty()).unwrap();
            if flow % 100 == 99 {
                thread::sleep(Duration::from_millis(2));
            }
        }
    });
}

fn strange_ack(flow: u16) -> Vec<u8> {
    let mut packet = vec![
        0x45, 0, 0, 40, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 9, 1, 1, 10, 9, 3, 2,
    ];
    packet.extend((10_000 + flow).to_be_bytes());
    packet.extend(7_u16.to_be_bytes());
    // Numbers that do not compress.
    let word = u32::from(flow).wrapping_mul(0x9e37_79b9);
    packet.extend(word.to_be_bytes());
    packet.extend(word.rotate_left(13).to_be_bytes());
    packet.extend([0x50, 0x10]);
    packet.extend((word as u16).to_be_bytes());
    packet.extend([0, 0, 0, 0]);
    let sum = checksum::of_segment(&packet[12..20], protocol::TCP, &packet[20..]);
    packet[36..38].copy_from_slice(&sum);
    packet
}

/// The counters of the daemon's only peer once they satisfy `so`.
pub fn once(daemon: &Daemon, what: &str, so: impl Fn(&PeerStats) -> bool) -> PeerStats {
    let mut last = PeerStats::default();
    let end = Instant::now() + Duration::from_secs(30);
    while Instant::now() < end {
        last = peer(daemon);
        if so(&last) {
            return last;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("waited in vain for {what}: {last:#?}");
}
