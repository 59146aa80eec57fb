//! What `ab` and `top` have to poll, since no counter covers it.

use ackwise_datapath::FlowStats;
use ackwise_netdev::netlink::QdiscStats;
use ackwise_switchback::FlowRtt;

/// The round-trip time of a flow at this moment.
pub fn flow_rtt(flow: &FlowStats) -> FlowRtt {
    FlowRtt {
        srtt_us: flow.srtt_us,
        idle_ms: flow.idle_ms,
    }
}

/// The root queue discipline of an interface.
pub fn root_queue(queues: &[QdiscStats], interface: u32) -> Option<&QdiscStats> {
    let mut queues = queues.iter();
    queues.find(|queue| queue.interface == interface && queue.parent.is_none())
}
