//! In steady state no packet allocates memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use ackwise_scenario::Scenario;
use ackwise_sim::build::build;

struct Counting;

static TAKEN: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is forwarded to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        TAKEN.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(at, layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        TAKEN.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn packets_take_no_memory_once_the_rings_have_grown() {
    let text = r#"
[scenario]
name = "steady"
duration = "60 s"
[[node]]
name = "a"
[[node]]
name = "b"
[[link]]
name = "wan"
between = ["a", "b"]
both = { rate = "10 Mbit/s", delay = "20 ms", queue = "50 packets" }
[[flow]]
name = "bulk"
from = "a"
to = "b"
app = "bulk"
connections = 4
[sweep]
cc = ["newreno"]
"#;
    let scenario = Scenario::parse("steady.toml", text).unwrap();
    let mut network = build(&scenario, &scenario.runs()[0]).unwrap().network;
    let second = 1_000_000_000;
    let (mut before, mut hops) = (0, 0);
    network.sample_at(30 * second);
    network.run(|network| {
        before = TAKEN.load(Ordering::Relaxed);
        hops = network.hops;
        true
    });
    let taken = TAKEN.load(Ordering::Relaxed) - before;
    let hops = network.hops - hops;
    assert!(hops > 30_000, "{hops}");
    // A loss still finds a ring now and then that has to grow once.
    assert!(taken <= 8, "{taken} allocations for {hops} packets");
}
