//! A router and a bridge between the hosts: half of Fig. 2 of Pavilanskas 2010.
//!
//! ```text
//!   sender ── router ── bridge ── receiver
//!                 ◄──┘ polices ACKs where they leave for the router
//! ```

use std::net::Ipv4Addr;

use super::cost::{Busy, Counters, NapiThread};
use super::interfaces::{disable_offloads, take, tc, wait_for_carrier};
use crate::command;
use crate::error::LabError;
use crate::netns::{self, Namespace};

/// Burst size of the policer, bytes (the paper's CBS).
const BURST: u32 = 5000;
/// The names of both nodes' interfaces, and the bridge's own.
const SIDES: [&str; 2] = ["left", "right"];
const BRIDGE: &str = "br0";

/// The router and the bridge.
pub struct Middle {
    router: Node,
    bridge: Node,
}

struct Node {
    namespace: Namespace,
    napi: [NapiThread; 2],
}

impl Middle {
    /// The router's address on the sender's side.
    pub const NEAR: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 254);
    /// The router's address on the receiver's side.
    pub const FAR: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 254);

    /// Builds them from the interfaces eth1 to eth4; `acks_bps` as in
    /// [`Between::Router`](super::super::Between::Router).
    ///
    /// # Errors
    /// The kernel lacks what is needed.
    pub fn build(acks_bps: Option<u64>) -> Result<Self, LabError> {
        let [left, right] = SIDES;
        let router = Node::new("router", ["eth1", "eth2"])?;
        let addresses = [(Self::NEAR, left), (Self::FAR, right)];
        let lines = addresses.map(|(address, side)| format!("addr add {address}/24 dev {side}"));
        command::ip_batch(Some("router"), &lines)?;
        router
            .namespace
            .inside(|| netns::set_sysctls([("net.ipv4.ip_forward", "1")]))?;
        let bridge = Node::new("bridge", ["eth3", "eth4"])?;
        let lines = [
            format!("link add {BRIDGE} type bridge"),
            format!("link set {left} master {BRIDGE}"),
            format!("link set {right} master {BRIDGE}"),
            format!("link set {BRIDGE} up"),
        ];
        command::ip_batch(Some("bridge"), &lines)?;
        if let Some(bps) = acks_bps {
            bridge.namespace.inside(|| police(left, bps))?;
        }
        Ok(Self { router, bridge })
    }

    /// Waits until every interface carries traffic.
    ///
    /// # Errors
    /// An interface does not come up in time.
    pub fn wait(&self) -> Result<(), LabError> {
        [&self.router, &self.bridge]
            .into_iter()
            .try_for_each(|node| {
                let ready = || SIDES.into_iter().try_for_each(wait_for_carrier);
                node.namespace.inside(ready)
            })
    }

    /// The threads that take packets from the interfaces, the router's first.
    pub fn threads(&self) -> impl Iterator<Item = &NapiThread> {
        self.router.napi.iter().chain(&self.bridge.napi)
    }

    /// The source of the router's cost.
    ///
    /// # Errors
    /// `/proc` is not mounted, or a thread has ended.
    pub fn router(&self) -> Result<RouterCost, LabError> {
        let [left, right] = &self.router.napi;
        Ok(RouterCost {
            busy: [left.busy()?, right.busy()?],
            counters: self.router.namespace.inside(Counters::open)?,
        })
    }
}

/// The router's CPU time and the packets that it forwarded.
pub struct RouterCost {
    busy: [Busy; 2],
    counters: Counters,
}

impl RouterCost {
    /// Nanoseconds of CPU time, and packets forwarded.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn read(&self) -> Result<(u64, u64), LabError> {
        let [left, right] = &self.busy;
        Ok((left.ns()? + right.ns()?, self.counters.forwarded()?))
    }
}

impl Node {
    fn new(name: &str, interfaces: [&str; 2]) -> Result<Self, LabError> {
        let [left, right] = interfaces;
        let napi = [NapiThread::of(left)?, NapiThread::of(right)?];
        let namespace = Namespace::create(name)?;
        let mut lines = vec!["link set lo up".to_owned()];
        for (interface, side) in interfaces.into_iter().zip(SIDES) {
            take(interface, name, side)?;
            lines.push(format!("link set {side} up"));
        }
        command::ip_batch(Some(name), &lines)?;
        namespace.inside(|| SIDES.into_iter().try_for_each(disable_offloads))?;
        Ok(Self { namespace, napi })
    }
}

/// Drops pure ACKs beyond a rate on egress: TCP in an IP packet shorter than 64 bytes and without
/// options, with only the ACK flag set.
fn police(interface: &str, bps: u64) -> Result<(), LabError> {
    tc(&format!("qdisc add dev {interface} clsact"))?;
    tc(&format!(
        "filter add dev {interface} egress protocol ip u32 \
         match u8 0x45 0xff at 0 match u16 0 0xffc0 at 2 match ip protocol 6 0xff \
         match u8 0x10 0xff at 33 \
         action police rate {bps}bit burst {BURST} conform-exceed drop/pass"
    ))
}
