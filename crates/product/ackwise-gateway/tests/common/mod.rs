//! A home with a gateway.
#![allow(dead_code, reason = "each test file uses its own part")]

use ackwise_gateway::{Attach, Config, Gateway};

mod netns;

pub use netns::*;

/// A host, a router with the gateway on `wan0`, and a server: 10.9.1.1 – .2 router
/// 10.9.2.1 – .2.
pub struct Home {
    pub host: Netns,
    pub router: Netns,
    pub server: Netns,
}

impl Home {
    pub fn new() -> Self {
        let home = Self {
            host: Netns::new(),
            router: Netns::new(),
            server: Netns::new(),
        };
        home.host.veth("lan0", &home.router, "lan1", 1);
        home.router.veth("wan0", &home.server, "wan1", 2);
        home.host.run(|| {
            ip("route add default via 10.9.1.2");
            ip("-6 route add default via fd09:1::2");
        });
        home.server.run(|| {
            ip("route add default via 10.9.2.1");
            ip("-6 route add default via fd09:2::1");
        });
        home.router.run(|| {
            std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
            std::fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1").unwrap();
        });
        home
    }

    pub fn gateway(&self, rate: &str, queue: &str) -> Gateway {
        self.gateway_by(rate, queue, Attach::Auto)
    }

    pub fn gateway_by(&self, rate: &str, queue: &str, attach: Attach) -> Gateway {
        let text = format!("interface = \"wan0\"\nrate = \"{rate}\"\nqueue = {queue}");
        let config = Config::parse("test", &text).unwrap();
        let gateway = self
            .router
            .run(|| Gateway::start(config, attach))
            .unwrap_or_else(|e| panic!("{e}"));
        looked(&gateway);
        gateway
    }
}

/// Waits until a gateway has given a sign of life and looked at its devices. It says so
/// by its thread's CPU time, twice: the first may be of a look that was under way.
pub fn looked(gateway: &Gateway) {
    for _ in 0..2 {
        let before = gateway.stats().unwrap().cpu_s;
        until("a sign of life", || {
            (gateway.stats().unwrap().cpu_s != before).then_some(())
        });
    }
}
