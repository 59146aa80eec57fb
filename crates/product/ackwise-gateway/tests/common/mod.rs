//! An access network with a gateway.
#![allow(dead_code, reason = "each test file uses its own part")]

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
