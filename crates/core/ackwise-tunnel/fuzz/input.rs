//! What both fuzzers share: the input as a script, and packets to send.

use std::sync::LazyLock;

use ackwise_tunnel::trace::Recorded;

/// The input, read from the front. Missing bytes are zero, so every input is a script.
pub struct Script<'a>(pub &'a [u8]);

impl<'a> Script<'a> {
    pub fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    /// Bytes preceded by their number.
    pub fn bytes(&mut self) -> &'a [u8] {
        let len = usize::from(self.byte()).min(self.0.len());
        let (taken, rest) = self.0.split_at(len);
        self.0 = rest;
        taken
    }

    /// An index below `count`, counted from the newest.
    pub fn recent(&mut self, count: usize) -> Option<usize> {
        count.checked_sub(1 + usize::from(self.byte()))
    }

    /// Changes bytes as the script says: truncates, extends, inserts, overwrites.
    pub fn change(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..1 + self.byte() % 4 {
            let how = self.byte();
            let at = usize::from(self.byte()) | usize::from(how >> 6) << 8;
            match how % 4 {
                0 => bytes.truncate(at),
                1 => bytes.extend(self.bytes()),
                2 => {
                    let at = at.min(bytes.len());
                    bytes.splice(at..at, self.bytes().iter().copied());
                }
                _ => {
                    let value = self.byte();
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte ^= value.max(1);
                    }
                }
            }
        }
    }
}

/// The first ACKs of each recorded trace.
pub fn acks(which: u8) -> &'static [Vec<u8>] {
    static ACKS: LazyLock<[Vec<Vec<u8>>; 3]> = LazyLock::new(|| {
        Recorded::ALL.map(|which| {
            let seen = which.read().expect("recorded").into_iter();
            seen.take(400).map(|ack| ack.packet.into_vec()).collect()
        })
    });
    &ACKS[usize::from(which) % 3]
}
