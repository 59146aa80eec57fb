//! An access network with a gateway.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use ackwise_gateway::{AttachMode, Config, Gateway};

pub use ackwise_testbed::*;

/// A host behind a router with the gateway on `wan0`, and a server:
/// 10.9.1.1 – .2 router 10.9.2.1 – .2.
const TOPOLOGY: Topology = Topology {
    nodes: &[host("host"), router("router"), host("server")],
    links: &[
        link("host.lan0", "router.lan1"),
        link("router.wan0", "server.wan1"),
    ],
};

/// The nodes of the network.
pub struct AccessNetwork {
    pub host: Netns,
    pub router: Netns,
    pub server: Netns,
}

impl AccessNetwork {
    pub fn new() -> Self {
        let [host, router, server] = TOPOLOGY.build();
        Self {
            host,
            router,
            server,
        }
    }

    pub fn gateway(&self, rate: &str, queue: &str) -> Gateway {
        self.gateway_by(rate, queue, AttachMode::Auto)
    }

    pub fn gateway_by(&self, rate: &str, queue: &str, attach: AttachMode) -> Gateway {
        let text = format!("interface = \"wan0\"\nrate = \"{rate}\"\nqueue = {queue}");
        let config = Config::parse("test", &text).unwrap();
        let gateway = self
            .router
            .run(|| Gateway::start(config, attach))
            .unwrap_or_else(|e| panic!("{e}"));
        wait_for_heartbeat(&gateway);
        gateway
    }
}

/// Waits until a gateway has written its heartbeat and checked its devices. Its thread's CPU time
/// shows that, twice: the first time may be of a check that was in progress.
pub fn wait_for_heartbeat(gateway: &Gateway) {
    for _ in 0..2 {
        let before = gateway.stats().unwrap().cpu_s;
        until("a sign of life", || {
            (gateway.stats().unwrap().cpu_s != before).then_some(())
        });
    }
}

/// What [`transfer`] sends.
pub const BYTES: usize = 2_000_000;

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

/// Sends `BYTES` from one namespace to another, and compares each.
pub fn transfer(from: &Netns, to: &Netns, address: &str) {
    let listener = to.run(|| TcpListener::bind(address).unwrap());
    thread::scope(|scope| {
        let received = scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            stream
                .set_read_timeout(Some(Duration::from_secs(30)))
                .unwrap();
            let mut all = Vec::new();
            stream.read_to_end(&mut all).unwrap();
            all
        });
        let mut stream = from.run(|| TcpStream::connect(address).unwrap());
        stream.write_all(&pattern(BYTES)).unwrap();
        drop(stream);
        assert!(received.join().unwrap() == pattern(BYTES), "wrong bytes");
    });
}

/// Checks that neither devices nor programs are left at the router.
pub fn assert_cleaned_up(network: &AccessNetwork) {
    assert_eq!(network.router.leftovers(), (Vec::new(), 0));
}
