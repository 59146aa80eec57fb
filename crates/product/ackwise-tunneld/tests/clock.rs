//! The time of day jumps while a tunnel is up. Handshakes carry it as protection against replays.

mod common;

use std::time::Duration;

use common::{Sites, alone, in_virtual_time, is_up, peer, transfer, until};

const DAY_S: i64 = 86_400;
/// A session is replaced after this time.
const REKEY: Duration = Duration::from_secs(120);

/// Advances CLOCK_REALTIME of this machine, which is a virtual one, by this many seconds.
fn jump(seconds: i64) {
    assert!(ackwise_testbed::time_is_virtual());
    // SAFETY: a live timespec, which is read and written.
    unsafe {
        let mut now: libc::timespec = std::mem::zeroed();
        assert_eq!(libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut now), 0);
        now.tv_sec += seconds;
        let set = libc::clock_settime(libc::CLOCK_REALTIME, &raw const now);
        let error = std::io::Error::last_os_error();
        assert_eq!(set, 0, "{} s since 1970: {error}", now.tv_sec);
    }
}

/// The clock is set back after a session was established. The next ones are still established,
/// because an end's timestamps only increase while it runs.
#[test]
fn the_time_of_day_jumps() {
    in_virtual_time(|| {
        let _alone = alone();
        let sites = Sites::new();
        let ends = sites.tunnel("");
        for seconds in [2 * DAY_S, -DAY_S, DAY_S / 2, -DAY_S] {
            jump(seconds);
            std::thread::sleep(REKEY + Duration::from_secs(5));
            until("the tunnel", || ends.iter().all(is_up).then_some(()));
            for end in &ends {
                let stats = peer(end);
                assert!(stats.session_age_s < Some(60.0), "{seconds} s: {stats:#?}");
                assert_eq!(stats.failures.peer_timeouts, 0, "{seconds} s: {stats:#?}");
            }
            transfer(&sites.server, &sites.host, "10.9.1.1:5001", 100_000);
        }
        for end in ends {
            end.stop().unwrap();
        }
    });
}
