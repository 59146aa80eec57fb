//! Finding out who fills the link that the ACKs leave by (`policy/include/ackwise/uplink.h`).

use ackwise_policy::{Uplink, sys};

/// The bytes between two looks at 1 Mbit/s.
const LOOK: u64 = 12_500;
/// The number of looks for which others count as present after they were seen.
const STAYS: u32 = sys::AW_UPLINK_STAYS;
/// The window of the largest rate, in looks.
const WINDOW: u32 = sys::AW_UPLINK_WINDOW;

/// An interface and the totals of its bytes.
#[derive(Default)]
struct Interface {
    uplink: Uplink,
    rest: u64,
    others: u64,
}

impl Interface {
    /// Looks `looks` times, with this many bytes before each. Returns the result of the last look.
    fn looks(&mut self, looks: u32, rest: u64, others: u64) -> u32 {
        let mut shared = 0;
        for _ in 0..looks {
            self.rest += rest;
            self.others += others;
            shared = self.uplink.look(self.rest, self.others);
        }
        shared
    }
}

#[test]
fn others_fill_the_link_from_an_eighth_of_its_rate_on() {
    let mut below = Interface::default();
    assert_eq!(below.looks(400, LOOK - LOOK / 10, LOOK / 10), 0);
    let mut above = Interface::default();
    assert!(above.looks(400, LOOK - LOOK / 7, LOOK / 7) > 0);
}

#[test]
fn the_answer_is_the_time_of_two_full_packets() {
    // 3028 bytes at 12,500 bytes in 100 ms; the mean approaches its rate from below.
    let us = Interface::default().looks(400, LOOK / 2, LOOK / 2);
    assert!((24_224..=24_500).contains(&us), "{us}");
    // A link of 10 Mbit/s.
    let us = Interface::default().looks(400, 5 * LOOK, 5 * LOOK);
    assert!((2_422..=2_450).contains(&us), "{us}");
}

/// A full packet on an idle uplink is its largest rate, but does not fill it.
#[test]
fn less_than_two_full_packets_fill_nothing() {
    let mut interface = Interface::default();
    assert_eq!(interface.looks(1, 0, 600), 0);
    assert_eq!(interface.looks(100, 0, 10), 0);
    let mut interface = Interface::default();
    assert_eq!(interface.looks(1, 0, 3027), 0);
    assert!(interface.looks(1, 0, 1514) > 0);
}

#[test]
fn others_count_as_there_for_a_while_after_they_were_seen() {
    let mut interface = Interface::default();
    interface.looks(400, LOOK / 2, LOOK / 2);
    // The mean takes some looks to fall below an eighth; then the others count for STAYS more.
    let gone = (1..=200).find(|_| interface.looks(1, LOOK / 2, 0) == 0);
    let gone = gone.expect("they are forgotten");
    assert!((STAYS..STAYS + 40).contains(&gone), "after {gone} looks");
}

/// The comparison is with the largest rate, not with the bytes of the ACKs: ACKs that displace the
/// others do not make them disappear.
#[test]
fn acks_that_push_others_aside_change_nothing() {
    let mut interface = Interface::default();
    assert!(interface.looks(400, LOOK / 20, LOOK) > 0);
    assert!(interface.looks(400, LOOK - LOOK / 7, LOOK / 7) > 0);
}

#[test]
fn the_largest_rate_is_forgotten_after_two_windows() {
    let mut interface = Interface::default();
    interface.looks(100, 20 * LOOK, 0);
    // An eighth of the present rate, but not of the earlier one.
    assert_eq!(interface.looks(WINDOW - 100, LOOK / 2, LOOK / 2), 0);
    assert!(interface.looks(2 * WINDOW, LOOK / 2, LOOK / 2) > 0);
}

#[test]
fn a_rate_beyond_32_bits_is_no_thin_link_and_does_not_wrap() {
    let mut interface = Interface::default();
    let us = interface.looks(400, 0, u64::from(u32::MAX));
    assert_eq!(us, 2, "3028 bytes at 2^32 / 16 bytes in 100 ms, and one");
}
