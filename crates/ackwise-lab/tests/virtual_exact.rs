//! In virtual time the same run gives the same record, to the bit.

mod virtually;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use virtually::{BASELINE, arm, run, turn, two_hosts};

const LINK: &str = r#"
forward = { rate = "20 Mbit/s", delay = "10 ms", queue = "60 packets", loss = "0.1 %" }
reverse = { rate = "200 kbit/s", delay = "10 ms", queue = "16 KiB" }
"#;

/// Keeps every core busy until dropped.
struct Load<'a>(&'a AtomicBool);

impl Drop for Load<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_busy_host_changes_nothing() {
    let _turn = turn();
    let arms = format!(
        "[sweep]\ncc = [\"cubic\", \"bbr\"]\n{BASELINE}{}",
        arm("every-n", "set = { n = 8 }")
    );
    let scenario = two_hosts("3 s", LINK, "app = \"bulk\"", &arms);
    let calm = run(&scenario).to_json().unwrap();
    let stop = AtomicBool::new(false);
    let busy = thread::scope(|scope| {
        let _load = Load(&stop);
        for _ in 0..2 * thread::available_parallelism().map_or(2, |cores| cores.get()) {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        run(&scenario).to_json().unwrap()
    });
    assert_eq!(calm, busy);
}
