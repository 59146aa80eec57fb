//! A binary adaptive range coder (Martin 1979; carries and adaptation as in LZMA).

/// Bits of a probability.
const SCALE: u32 = 12;
/// Below this the range is widened by a byte.
const LEAST: u32 = 1 << 24;
/// Slowest adaptation: by 1/32 of the error.
const SLOWEST: u16 = 5;
/// How far a decoder may read beyond the end, as if zeros followed.
const BEYOND: usize = 8;

/// The probability of a zero in the upper 12 bits, and below them how often it was
/// adapted: it learns fast at first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Prob(u16);

impl Prob {
    /// Knows nothing.
    pub const EVEN: Prob = Prob(0x8000);

    fn zero(self) -> u32 {
        u32::from(self.0 >> 4)
    }

    fn adapt(&mut self, bit: bool) {
        let seen = self.0 & 15;
        let rate = (seen + 1).min(SLOWEST);
        let mut zero = self.0 >> 4;
        if bit {
            zero -= zero >> rate;
        } else {
            zero += ((1 << SCALE) - zero) >> rate;
        }
        // Neither certain nor impossible.
        self.0 = zero.clamp(16, (1 << SCALE) - 16) << 4 | (seen + 1).min(15);
    }
}

/// Both directions of the coder: what is written is returned, what is read too, so that
/// a format is stated once.
pub(crate) trait Coder {
    /// A bit under a model.
    fn bit(&mut self, prob: &mut Prob, bit: bool) -> bool;
    /// `count` bits, at most 32, that have no model.
    fn bits(&mut self, count: u32, value: u32) -> u32;
}

/// Writes.
pub(crate) struct Writer<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    low: u64,
    range: u32,
    /// The last byte, which a carry may still change, and how many `ff` follow it.
    last: u8,
    pending: usize,
}

impl<'a> Writer<'a> {
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Writer {
            start: out.len(),
            out,
            low: 0,
            range: u32::MAX,
            last: 0,
            pending: 0,
        }
    }

    /// How many bytes there would be, to within a few.
    pub fn len(&self) -> usize {
        self.out.len() - self.start + self.pending + 5
    }

    fn shift(&mut self) {
        if self.low < 0xff00_0000 || self.low > u64::from(u32::MAX) {
            let carry = (self.low >> 32) as u8;
            self.out.push(self.last.wrapping_add(carry));
            for _ in 0..self.pending {
                self.out.push(0xff_u8.wrapping_add(carry));
            }
            self.pending = 0;
            self.last = (self.low >> 24) as u8;
        } else {
            self.pending += 1;
        }
        self.low = (self.low & 0x00ff_ffff) << 8;
    }

    fn widen(&mut self) {
        while self.range < LEAST {
            self.range <<= 8;
            self.shift();
        }
    }

    /// Ends with as few bytes as tell the reader apart from any other ending: zeros at
    /// the end are left out, up to eight.
    pub fn finish(mut self) {
        let mask = u64::from(LEAST) - 1;
        // The range is at least this mask wide, so it holds such a number.
        self.low = (self.low + mask) & !mask;
        for _ in 0..5 {
            self.shift();
        }
        // The first byte is that before the first: always 0.
        self.out.remove(self.start);
        // A reader that looks for more than these would never end.
        for _ in 0..BEYOND {
            if self.out.len() > self.start {
                self.out.pop_if(|last| *last == 0);
            }
        }
    }
}

impl Coder for Writer<'_> {
    fn bit(&mut self, prob: &mut Prob, bit: bool) -> bool {
        let bound = (self.range >> SCALE) * prob.zero();
        if bit {
            self.low += u64::from(bound);
            self.range -= bound;
        } else {
            self.range = bound;
        }
        prob.adapt(bit);
        self.widen();
        bit
    }

    fn bits(&mut self, count: u32, value: u32) -> u32 {
        for i in (0..count).rev() {
            self.range >>= 1;
            if value >> i & 1 == 1 {
                self.low += u64::from(self.range);
            }
            self.widen();
        }
        value
    }
}

/// Reads; after the end it reads zeros, for a while.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    range: u32,
    code: u32,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        let mut reader = Reader {
            bytes,
            at: 0,
            range: u32::MAX,
            code: 0,
        };
        for _ in 0..4 {
            reader.code = reader.code << 8 | reader.next();
        }
        reader
    }

    /// Whether more was read than there can have been.
    pub fn exhausted(&self) -> bool {
        self.at > self.bytes.len() + BEYOND
    }

    fn next(&mut self) -> u32 {
        let byte = self.bytes.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        u32::from(byte)
    }

    fn widen(&mut self) {
        while self.range < LEAST {
            self.range <<= 8;
            self.code = self.code << 8 | self.next();
        }
    }
}

impl Coder for Reader<'_> {
    fn bit(&mut self, prob: &mut Prob, _: bool) -> bool {
        let bound = (self.range >> SCALE) * prob.zero();
        let bit = self.code >= bound;
        if bit {
            self.code -= bound;
            self.range -= bound;
        } else {
            self.range = bound;
        }
        prob.adapt(bit);
        self.widen();
        bit
    }

    fn bits(&mut self, count: u32, _: u32) -> u32 {
        let mut value = 0;
        for _ in 0..count {
            self.range >>= 1;
            let bit = self.code >= self.range;
            if bit {
                self.code -= self.range;
            }
            value = value << 1 | u32::from(bit);
            self.widen();
        }
        value
    }
}

/// A model of symbols below 2^BITS; `N` is 2^BITS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tree<const BITS: u32, const N: usize>([Prob; N]);

impl<const BITS: u32, const N: usize> Tree<BITS, N> {
    pub const NEW: Self = Tree([Prob::EVEN; N]);

    /// Codes a symbol.
    pub fn code(&mut self, coder: &mut impl Coder, symbol: u32) -> u32 {
        let mut node = 1;
        for i in (0..BITS).rev() {
            let bit = coder.bit(&mut self.0[node as usize], symbol >> i & 1 == 1);
            node = node << 1 | u32::from(bit);
        }
        node - (1 << BITS)
    }
}

/// A model of numbers: small ones by a symbol each, others by their order of magnitude.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Number {
    small: Tree<4, 16>,
    width: Tree<5, 32>,
    /// The bit below the highest, for each width.
    second: [Prob; 32],
}

/// The first number that is not small.
const LARGE: u32 = 15;

impl Number {
    pub const NEW: Number = Number {
        small: Tree::NEW,
        width: Tree::NEW,
        second: [Prob::EVEN; 32],
    };

    /// Codes a number.
    pub fn code(&mut self, coder: &mut impl Coder, value: u32) -> u32 {
        let small = self.small.code(coder, value.min(LARGE));
        if small < LARGE {
            return small;
        }
        // At least 1 when writing; when reading it does not matter.
        let above = value.saturating_sub(LARGE - 1).max(1);
        let width = self.width.code(coder, above.ilog2());
        if width == 0 {
            return LARGE;
        }
        let second = &mut self.second[width as usize];
        let second = u32::from(coder.bit(second, above >> (width - 1) & 1 == 1));
        let low = coder.bits(width - 1, above & ((1 << (width - 1)) - 1));
        let above = 1 << width | second << (width - 1) | low;
        above.wrapping_add(LARGE - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(values in prop::collection::vec(
            (prop_oneof![0..20_u32, any::<u32>(), Just(u32::MAX)], 0..33_u32, any::<bool>()), 0..300)
        ) {
            let mut out = vec![1, 2];
            let mut models = (Number::NEW, Prob::EVEN);
            let mut writer = Writer::new(&mut out);
            let cut = |value: u32, count: u32| if count == 32 { value } else { value & ((1_u32 << count) - 1) };
            for &(value, count, bit) in &values {
                models.0.code(&mut writer, value);
                writer.bits(count, cut(value, count));
                writer.bit(&mut models.1, bit);
            }
            let estimate = writer.len();
            writer.finish();
            prop_assert!(out.len() - 2 <= estimate);
            let mut again = (Number::NEW, Prob::EVEN);
            let mut reader = Reader::new(&out[2..]);
            for &(value, count, bit) in &values {
                prop_assert_eq!(again.0.code(&mut reader, 0), value);
                prop_assert_eq!(reader.bits(count, 0), cut(value, count));
                prop_assert_eq!(reader.bit(&mut again.1, false), bit);
            }
            prop_assert!(!reader.exhausted());
            prop_assert!(models == again);
        }

        #[test]
        fn any_bytes_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let mut model = Number::NEW;
            let mut reader = Reader::new(&bytes);
            for _ in 0..200 {
                model.code(&mut reader, 0);
            }
        }
    }

    #[test]
    fn carries_run_through() {
        // Direct ones drive the low end up to a row of `ff`; the last bits carry.
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        let mut sure = Prob::EVEN;
        for _ in 0..64 {
            writer.bits(32, u32::MAX);
        }
        for i in 0..64 {
            writer.bit(&mut sure, i % 3 == 0);
        }
        writer.finish();
        let mut reader = Reader::new(&out);
        let mut sure = Prob::EVEN;
        for _ in 0..64 {
            assert_eq!(reader.bits(32, 0), u32::MAX);
        }
        for i in 0..64 {
            assert_eq!(reader.bit(&mut sure, false), i % 3 == 0);
        }
    }

    #[test]
    fn what_is_expected_costs_next_to_nothing() {
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        let mut model = Number::NEW;
        for _ in 0..1000 {
            model.code(&mut writer, 2);
        }
        writer.finish();
        // 4 bits a symbol at 16/4096 of doubt would be 2.8 bytes per 100.
        assert!(out.len() < 40, "{}", out.len());
    }
}
