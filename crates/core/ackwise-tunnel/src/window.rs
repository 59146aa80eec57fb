//! Numbers of datagrams: each is taken once (RFC 6479, RFC 4303 §3.4.3).

const WORDS: usize = 16;
/// How far a datagram may be behind the newest: the word at its head is not full yet.
const SPAN: u64 = 64 * (WORDS as u64 - 1);

/// Which numbers came.
#[derive(Debug, Clone, Default)]
pub(crate) struct Window {
    /// One above the highest.
    next: u64,
    seen: [u64; WORDS],
}

impl Window {
    /// The number that has these lower 24 bits and is nearest to those expected.
    pub fn complete(&self, low: u32) -> Option<u64> {
        let ahead = (low.wrapping_sub(self.next as u32) << 8) as i32 >> 8;
        self.next.checked_add_signed(ahead.into())
    }

    /// Whether the number is new, and not too old to tell.
    pub fn is_new(&self, number: u64) -> bool {
        number >= self.next
            || (self.next - number <= SPAN
                && self.seen[Self::word(number)] >> (number % 64) & 1 == 0)
    }

    /// Takes note of a number that is new, and authentic.
    pub fn add(&mut self, number: u64) {
        if number >= self.next {
            // What falls out of the window is forgotten, the words between are empty.
            let steps = (number / 64).saturating_sub(self.next.saturating_sub(1) / 64);
            for step in 0..steps.min(WORDS as u64) {
                self.seen[Self::word(number - 64 * step)] = 0;
            }
            self.next = number + 1;
        }
        self.seen[Self::word(number)] |= 1 << (number % 64);
    }

    fn word(number: u64) -> usize {
        (number / 64) as usize % WORDS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        #[test]
        fn each_number_is_taken_once(steps in prop::collection::vec(
            (prop_oneof![3 => 0..3_u64, 1 => 0..3000_u64], 0..1100_u64), 1..500)
        ) {
            let (mut window, mut seen, mut highest) = (Window::default(), HashSet::new(), 0);
            for (ahead, back) in steps {
                let number = (highest + ahead).saturating_sub(back);
                prop_assert_eq!(window.complete(number as u32 & 0xff_ffff), Some(number));
                if window.is_new(number) {
                    prop_assert!(seen.insert(number));
                    window.add(number);
                } else {
                    prop_assert!(seen.contains(&number) || highest - number >= SPAN);
                }
                highest = highest.max(number);
            }
        }
    }

    #[test]
    fn numbers_are_completed_across_their_24_bits() {
        let mut window = Window::default();
        window.add((1 << 24) - 2);
        assert_eq!(window.complete(0xff_ffff), Some((1 << 24) - 1));
        assert_eq!(window.complete(3), Some((1 << 24) + 3));
        assert_eq!(window.complete(0xff_0000), Some(0xff_0000));
        // Before the first number there is none.
        assert_eq!(Window::default().complete(0xff_ffff), None);
    }
}
