//! A binary adaptive range coder (Martin 1979), with carries and adaptation as in LZMA.

/// The bits of a probability.
const SCALE: u32 = 12;
/// If the range is below this, it is extended by a byte.
const MIN_RANGE: u32 = 1 << 24;
/// The number of adaptations after which a probability moves by 1/32 of the error. Before that it
/// moves by more.
const MAX_ADAPTATIONS: u16 = 4;
/// The number of bits without a model that are coded in one step.
const GROUP: u32 = 8;
/// The number of bytes that a decoder may read after the end. They count as zeros.
const MAX_OVERREAD: usize = 8;

/// The probability of a zero in the upper 12 bits. The lower bits count adaptations up to 4,
/// because a new probability adapts faster.
///
/// The probability stays within 31 and 4065, because an error below 32 moves nothing. So
/// neither bit is ever certain, and one bit shrinks the range by at most a byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Prob(u16);

impl Prob {
    /// Zero and one are equally likely.
    pub const EVEN: Prob = Prob(0x8000);

    #[inline(always)]
    fn zero(self) -> u32 {
        u32::from(self.0 >> 4)
    }

    #[inline(always)]
    fn adapt(&mut self, bit: bool) {
        let (zero, seen) = (self.0 >> 4, self.0 & 15);
        let zero = if bit {
            zero - (zero >> (seen + 1))
        } else {
            zero + (((1 << SCALE) - zero) >> (seen + 1))
        };
        self.0 = zero << 4 | (seen + u16::from(seen < MAX_ADAPTATIONS));
    }
}

/// A writer or a reader. Both return the value, so that a format is written only once.
pub(crate) trait Coder {
    /// Codes a bit with a model.
    fn bit(&mut self, prob: &mut Prob, bit: bool) -> bool;
    /// Codes `count` bits without a model, at most 32.
    fn bits(&mut self, count: u32, value: u32) -> u32;
    /// Codes a symbol below `N`, a power of two. The model of each bit depends on the higher
    /// bits.
    fn symbol<const N: usize>(&mut self, probs: &mut [Prob; N], symbol: u32) -> u32;
}

/// Encodes to a buffer.
pub(crate) struct Writer<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    /// The lower end of the range. Bit 32 is a carry into the bytes that were written.
    low: u64,
    range: u32,
}

impl<'a> Writer<'a> {
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Writer {
            start: out.len(),
            out,
            low: 0,
            range: u32::MAX,
        }
    }

    /// Returns an upper bound of the length if the encoder stopped here, without the final bytes.
    pub fn len(&self) -> usize {
        self.out.len() - self.start + 1
    }

    /// Writes the highest byte of the lower end and returns the rest of it.
    #[inline(never)]
    fn shift(&mut self, low: u64) -> u64 {
        if low > u64::from(u32::MAX) {
            self.carry();
        }
        self.out.push((low >> 24) as u8);
        (low & 0x00ff_ffff) << 8
    }

    /// Propagates a carry. It never reaches the first byte, because the value stays below 1.
    #[cold]
    fn carry(&mut self) {
        for byte in self.out[self.start..].iter_mut().rev() {
            *byte = byte.wrapping_add(1);
            if *byte != 0 {
                break;
            }
        }
    }

    fn normalize(&mut self) {
        if self.range < MIN_RANGE {
            self.range <<= 8;
            self.low = self.shift(self.low);
        }
    }

    /// Ends with as few bytes as identify the value. Up to eight zero bytes at the end are
    /// left out.
    pub fn finish(mut self) {
        let mask = u64::from(MIN_RANGE) - 1;
        // The range is at least as wide as the mask, so it contains such a number.
        self.low = (self.low + mask) & !mask;
        for _ in 0..4 {
            self.low = self.shift(self.low);
        }
        // The decoder accepts at most this many missing bytes.
        for _ in 0..MAX_OVERREAD {
            if self.out.len() > self.start {
                self.out.pop_if(|last| *last == 0);
            }
        }
    }
}

impl Coder for Writer<'_> {
    #[inline(always)]
    fn bit(&mut self, prob: &mut Prob, bit: bool) -> bool {
        let bound = (self.range >> SCALE) * prob.zero();
        self.low += u64::from(if bit { bound } else { 0 });
        self.range = if bit { self.range - bound } else { bound };
        prob.adapt(bit);
        self.normalize();
        bit
    }

    fn bits(&mut self, count: u32, value: u32) -> u32 {
        let mut left = count;
        while left > 0 {
            let group = left.min(GROUP);
            left -= group;
            self.range >>= group;
            let number = value >> left & ((1 << group) - 1);
            self.low += u64::from(number) * u64::from(self.range);
            self.normalize();
        }
        value
    }

    #[inline(always)]
    fn symbol<const N: usize>(&mut self, probs: &mut [Prob; N], symbol: u32) -> u32 {
        // Local copies stay in registers from bit to bit.
        let (mut low, mut range) = (self.low, self.range);
        let mut node = 1;
        for i in (0..N.ilog2()).rev() {
            // The index is below N in any case; the mask removes the bounds check.
            let prob = &mut probs[node & (N - 1)];
            let bit = symbol >> i & 1 == 1;
            let bound = (range >> SCALE) * prob.zero();
            low += u64::from(if bit { bound } else { 0 });
            range = if bit { range - bound } else { bound };
            prob.adapt(bit);
            node = node << 1 | usize::from(bit);
            if range < MIN_RANGE {
                range <<= 8;
                low = self.shift(low);
            }
        }
        (self.low, self.range) = (low, range);
        symbol
    }
}

/// Computes an upper bound of the encoded length, in sixteenths of a bit. A bit with a model
/// shrinks the range by a factor of at most 31/4096, which is 7.05 bits.
#[derive(Default)]
pub(crate) struct UpperBound(usize);

impl UpperBound {
    const BIT: usize = 113;
    /// The bits that end the ACKs of a flow, and the flows.
    const END: usize = 3 * UpperBound::BIT;

    /// Returns the bound in bytes, including the end.
    pub fn bytes(&self) -> usize {
        (self.0 + UpperBound::END).div_ceil(16 * 8)
    }
}

impl Coder for UpperBound {
    fn bit(&mut self, _: &mut Prob, bit: bool) -> bool {
        self.0 += UpperBound::BIT;
        bit
    }

    fn bits(&mut self, count: u32, value: u32) -> u32 {
        self.0 += 16 * count as usize;
        value
    }

    fn symbol<const N: usize>(&mut self, _: &mut [Prob; N], symbol: u32) -> u32 {
        self.0 += UpperBound::BIT * N.ilog2() as usize;
        symbol
    }
}

/// Decodes from a buffer. A few zeros may be read after its end.
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

    /// Returns whether more was read than an encoder can have written.
    pub fn exhausted(&self) -> bool {
        self.at > self.bytes.len() + MAX_OVERREAD
    }

    fn next(&mut self) -> u32 {
        let byte = self.bytes.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        u32::from(byte)
    }

    #[inline(always)]
    fn normalize(&mut self) {
        if self.range < MIN_RANGE {
            self.range <<= 8;
            self.code = self.code << 8 | self.next();
        }
    }
}

impl Coder for Reader<'_> {
    #[inline(always)]
    fn bit(&mut self, prob: &mut Prob, _: bool) -> bool {
        let bound = (self.range >> SCALE) * prob.zero();
        let bit = self.code >= bound;
        self.code -= if bit { bound } else { 0 };
        self.range = if bit { self.range - bound } else { bound };
        prob.adapt(bit);
        self.normalize();
        bit
    }

    fn bits(&mut self, count: u32, _: u32) -> u32 {
        let (mut value, mut left) = (0, count);
        while left > 0 {
            let group = left.min(GROUP);
            left -= group;
            self.range >>= group;
            // An encoder never exceeds the maximum; damaged input may.
            let number = (self.code / self.range).min((1 << group) - 1);
            self.code -= number * self.range;
            value = value << group | number;
            self.normalize();
        }
        value
    }

    #[inline(always)]
    fn symbol<const N: usize>(&mut self, probs: &mut [Prob; N], _: u32) -> u32 {
        let (mut code, mut range) = (self.code, self.range);
        let mut node = 1;
        for _ in 0..N.ilog2() {
            let prob = &mut probs[node & (N - 1)];
            let bound = (range >> SCALE) * prob.zero();
            let bit = code >= bound;
            code -= if bit { bound } else { 0 };
            range = if bit { range - bound } else { bound };
            prob.adapt(bit);
            node = node << 1 | usize::from(bit);
            if range < MIN_RANGE {
                range <<= 8;
                code = code << 8 | self.next();
            }
        }
        (self.code, self.range) = (code, range);
        (node - N) as u32
    }
}

/// A model of symbols below `N`, a power of two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tree<const N: usize>([Prob; N]);

impl<const N: usize> Tree<N> {
    pub const NEW: Self = Tree([Prob::EVEN; N]);

    /// Codes a symbol.
    #[inline(always)]
    pub fn code(&mut self, coder: &mut impl Coder, symbol: u32) -> u32 {
        coder.symbol(&mut self.0, symbol)
    }
}

/// A model of numbers: small numbers have a symbol each, others are coded by their width in
/// bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Number {
    small: Tree<8>,
    width: Tree<32>,
    /// The second highest bit, for each width.
    second: [Prob; 32],
}

/// The smallest number without a symbol of its own.
const LARGE: u32 = 7;

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
        fn what_is_written_is_no_longer_than_counted(
            before in prop::collection::vec(any::<bool>(), 0..40),
            values in prop::collection::vec((0..32_u32, any::<u32>()), 0..20),
        ) {
            let mut out = Vec::new();
            let (mut writer, mut even) = (Writer::new(&mut out), Prob::EVEN);
            for bit in before {
                writer.bit(&mut even, bit);
            }
            let (start, mut bound) = (writer.len(), UpperBound::default());
            for &(count, value) in &values {
                // Nothing is less likely.
                let (mut prob, mut number) = (Prob::EVEN, Number::NEW);
                (0..300).for_each(|_| prob.adapt(false));
                for prob in &mut number.small.0 {
                    (0..300).for_each(|_| prob.adapt(false));
                }
                let value = value & ((1 << count) - 1);
                bound.bit(&mut prob, true);
                number.code(&mut bound, value.saturating_add(15));
                bound.bits(count, value);
                writer.bit(&mut prob, true);
                number.code(&mut writer, value.saturating_add(15));
                writer.bits(count, value);
            }
            writer.finish();
            prop_assert!(out.len() <= start + bound.bytes());
        }
    }

    #[test]
    fn what_surprises_is_counted_to_the_byte() {
        let mut out = Vec::new();
        let (mut writer, mut bound) = (Writer::new(&mut out), UpperBound::default());
        let start = writer.len();
        for _ in 0..400 {
            let mut prob = Prob::EVEN;
            (0..300).for_each(|_| prob.adapt(false));
            bound.bit(&mut prob, true);
            writer.bit(&mut prob, true);
        }
        writer.finish();
        let counted = start + bound.bytes();
        assert!(
            (counted - 4..=counted).contains(&out.len()),
            "{counted} {}",
            out.len()
        );
    }

    #[test]
    fn no_bit_is_ever_certain() {
        let (mut todo, mut seen) = (vec![Prob::EVEN], std::collections::HashSet::new());
        while let Some(prob) = todo.pop() {
            if seen.insert(prob.0) {
                assert!((31..=4065).contains(&prob.zero()), "{prob:?}");
                todo.extend([false, true].map(|bit| {
                    let mut next = prob;
                    next.adapt(bit);
                    next
                }));
            }
        }
        assert!(seen.len() > 1000);
    }

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
            let most = writer.len();
            writer.finish();
            prop_assert!(out.len() - 2 <= most);
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
        // Bits without a model drive the low end up to a row of `ff`; the last bits carry.
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
        // With 4 bits a symbol and the smallest doubt, 31/4096 a bit, 1000 symbols take 5.5 bytes; the
        // rest is spent before the model has learnt.
        assert!(out.len() < 40, "{}", out.len());
    }
}
