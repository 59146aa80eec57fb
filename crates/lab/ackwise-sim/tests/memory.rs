//! Memory of connections and packets, in bytes requested from the allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use ackwise_scenario::Scenario;
use ackwise_sim::build::build;

struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is forwarded to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        MOST.fetch_max(
            NOW.fetch_add(layout.size(), Relaxed) + layout.size(),
            Relaxed,
        );
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn scenario(cc: &str, flows: u64, duration: &str) -> Scenario {
    let rate = 5 * flows;
    let queue = 5 * flows;
    let text = format!(
        r#"
[scenario]
name = "many"
duration = "{duration}"
[record]
series = false
[sweep]
cc = ["{cc}"]
[[node]]
name = "a"
[[node]]
name = "b"
[[link]]
name = "wan"
between = ["a", "b"]
both = {{ rate = "{rate} Mbit/s", delay = "20 ms", queue = "{queue} packets" }}
[[flow]]
name = "flow"
from = "a"
to = "b"
app = "bulk"
connections = {flows}
"#
    );
    Scenario::parse("many.toml", &text).unwrap_or_else(|e| panic!("{e}"))
}

/// One test, because there is a single global counter.
#[test]
fn a_connection_takes_less_than_two_kilobytes_and_packets_what_they_must() {
    for cc in ["newreno", "cubic"] {
        let scenario = scenario(cc, 10_000, "1 s");
        let before = NOW.load(Relaxed);
        let built = build(&scenario, &scenario.runs()[0]).unwrap();
        let each = (NOW.load(Relaxed) - before) / built.network.connections.len();
        assert!(each <= 2000, "{cc}: {each} bytes");
    }
    let scenario = scenario("newreno", 1000, "1 s");
    let before = NOW.load(Relaxed);
    MOST.store(before, Relaxed);
    let mut network = build(&scenario, &scenario.runs()[0]).unwrap().network;
    network.run(|_| true);
    let most = MOST.load(Relaxed) - before;
    assert!(network.hops > 100_000, "{}", network.hops);
    // 10 kB for each of the thousand flows.
    assert!(most <= 10_000_000, "{most} bytes");
}
