//! Two sites with a tunnel between them.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

use ackwise_tunnel::{KeyPair, key_to_text};
use ackwise_tunneld::{Attach, Config, Daemon, PeerStats};

#[path = "../../../ackwise-gateway/tests/common/netns.rs"]
mod netns;

pub use netns::*;

/// A host, its router, the other router, the other host: 10.9.1.1 – .2 near 10.9.2.1 –
/// .2 far 10.9.3.1 – .2, and the same of fd09.
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
    std::fs::write(directory.join(name), key_to_text(&keys.secret)).unwrap();
    keys
}

impl Sites {
    pub fn new() -> Self {
        let keys = tempfile::tempdir().unwrap();
        let sites = Self {
            host: Netns::new(),
            near: Netns::new(),
            far: Netns::new(),
            server: Netns::new(),
            near_key: write_key(keys.path(), "near"),
            far_key: write_key(keys.path(), "far"),
            keys,
        };
        sites.host.veth("lan0", &sites.near, "lan1", 1);
        sites.near.veth("wan0", &sites.far, "wan1", 2);
        sites.far.veth("net0", &sites.server, "net1", 3);
        // An ACK for every two segments, as on a wire, not for every 64 KiB.
        for (end, device) in [(&sites.host, "lan0"), (&sites.server, "net1")] {
            end.run(|| command("ethtool", &format!("-K {device} tso off gso off gro off")));
        }
        for router in [&sites.near, &sites.far] {
            router.run(|| {
                std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
                std::fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1").unwrap();
            });
        }
        let route = |ns: &Netns, to: &[&str], via: &str, via6: &str| {
            ns.run(|| {
                for to in to {
                    let via = if to.contains(':') { via6 } else { via };
                    ip(&format!("route add {to} via {via}"));
                }
            });
        };
        route(
            &sites.host,
            &["10.9.0.0/16", "fd09::/16"],
            "10.9.1.2",
            "fd09:1::2",
        );
        route(
            &sites.near,
            &["10.9.3.0/24", "fd09:3::/64"],
            "10.9.2.2",
            "fd09:2::2",
        );
        route(
            &sites.far,
            &["10.9.1.0/24", "fd09:1::/64"],
            "10.9.2.1",
            "fd09:2::1",
        );
        route(
            &sites.server,
            &["10.9.0.0/16", "fd09::/16"],
            "10.9.3.1",
            "fd09:3::1",
        );
        sites
    }

    /// The configuration of the near router; `more` stands before the peer.
    pub fn near_config(&self, more: &str) -> Config {
        self.config(
            &format!("interface = \"wan0\"\nkey = \"near\"\n{more}"),
            &format!(
                "public_key = \"{}\"\nendpoint = \"10.9.2.2:51830\"\n\
                 behind = [\"10.9.3.0/24\", \"fd09:3::/64\"]",
                key_to_text(&self.far_key.public)
            ),
        )
    }

    /// The configuration of the far one, which waits to be spoken to.
    pub fn far_config(&self, more: &str) -> Config {
        self.config(
            &format!("interface = \"wan1\"\nkey = \"far\"\n{more}"),
            &format!(
                "public_key = \"{}\"\nbehind = [\"10.9.1.0/24\", \"fd09:1::/64\"]",
                key_to_text(&self.near_key.public)
            ),
        )
    }

    pub fn config(&self, top: &str, peer: &str) -> Config {
        let text = format!("listen = 51830\n{top}\n[[peer]]\nname = \"other\"\n{peer}\n");
        let path = self.keys.path().join("tunnel.toml");
        std::fs::write(&path, text).unwrap();
        Config::load(&path).unwrap_or_else(|e| panic!("{e}"))
    }

    pub fn start(&self, at: &Netns, config: Config) -> Daemon {
        at.run(|| Daemon::start(config, Attach::Auto))
            .unwrap_or_else(|e| panic!("{e}"))
    }

    /// Both ends, as soon as each hears the other.
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

/// Bytes that no offset into them equals another.
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

/// Sends bytes from one namespace to another, and compares each of them. `meanwhile` runs
/// when the first half has arrived.
pub fn transfer_and(from: &Netns, to: &Netns, address: &str, len: usize, meanwhile: impl FnOnce()) {
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
        meanwhile();
        stream.read_to_end(&mut received).unwrap();
        assert!(received == bytes, "wrong bytes");
    });
}

pub fn transfer(from: &Netns, to: &Netns, address: &str, len: usize) {
    transfer_and(from, to, address, len, || {});
}
