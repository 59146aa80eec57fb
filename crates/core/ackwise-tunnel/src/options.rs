//! The options of a TCP header: their layout, apart from their values.

/// No-operation (RFC 9293 §3.1).
const NOP: u8 = 1;
/// End of option list; padding follows.
const END: u8 = 0;
/// SACK blocks (RFC 2018).
const SACK: u8 = 5;
/// Timestamps (RFC 7323).
const TS: u8 = 8;
/// AccECN0 and AccECN1, which differ in the order of the counters (RFC 9768 §3.2.3).
const ACCECN: [u8; 2] = [172, 174];

/// The largest number of option bytes in a TCP header.
pub(crate) const MAX_OPTIONS: usize = 40;

/// The values of TCP options.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Values {
    pub tsval: u32,
    pub tsecr: u32,
    /// The number of entries of `sack` that are in use.
    pub blocks: u8,
    /// The left and right edge of each block (RFC 2018 §3).
    pub sack: [(u32, u32); 4],
    /// The counters of AccECN, of 24 bits each.
    pub ecn: [u32; 3],
}

impl Values {
    pub fn blocks(&self) -> &[(u32, u32)] {
        &self.sack[..usize::from(self.blocks).min(4)]
    }
}

/// The layout of a header's options: which options, in which order, with which padding. The values
/// of the first timestamps, SACK and AccECN options are not part of it. All bytes of other options
/// are.
///
/// A layout is a list of tokens: `01` a NOP; `08` timestamps; `05` SACK blocks; `ac n` and `ae n`
/// AccECN of length n; `00` and all bytes after it, verbatim; anything else an option verbatim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OptionLayout {
    len: u8,
    tokens: [u8; MAX_OPTIONS],
}

const fn known(tokens: &[u8]) -> OptionLayout {
    let mut layout = OptionLayout {
        len: tokens.len() as u8,
        tokens: [0; MAX_OPTIONS],
    };
    let mut i = 0;
    while i < tokens.len() {
        layout.tokens[i] = tokens[i];
        i += 1;
    }
    layout
}

/// The layouts that have a number: no options, and timestamps, timestamps with SACK, and SACK
/// as Linux and the BSDs write them.
pub(crate) const KNOWN_LAYOUTS: [OptionLayout; 4] = [
    known(&[]),
    known(&[NOP, NOP, TS]),
    known(&[NOP, NOP, TS, NOP, NOP, SACK]),
    known(&[NOP, NOP, SACK]),
];

/// The values that a layout has room for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct LayoutFields {
    pub ts: bool,
    pub sack: bool,
    /// The number of counters in the AccECN option.
    pub ecn: u8,
}

impl OptionLayout {
    /// Makes a layout from tokens. Returns `None` if there are too many.
    pub fn from_tokens(tokens: &[u8]) -> Option<OptionLayout> {
        (tokens.len() <= MAX_OPTIONS).then(|| known(tokens))
    }

    pub fn tokens(&self) -> &[u8] {
        &self.tokens[..usize::from(self.len)]
    }

    fn push(&mut self, bytes: &[u8]) -> Option<()> {
        let at = usize::from(self.len);
        self.tokens
            .get_mut(at..at + bytes.len())?
            .copy_from_slice(bytes);
        self.len += bytes.len() as u8;
        Some(())
    }

    /// Reads the options of a header into a layout and values. Returns `None` if a length is
    /// wrong; such a packet is carried uncompressed.
    pub fn read(mut options: &[u8], values: &mut Values) -> Option<OptionLayout> {
        // Nearly every ACK has only timestamps.
        if let [NOP, NOP, TS, 10, ts @ ..] = options
            && ts.len() == 8
        {
            read_ts(ts, values);
            return Some(KNOWN_LAYOUTS[1]);
        }
        let mut layout = KNOWN_LAYOUTS[0];
        let mut seen = LayoutFields::default();
        while let [kind, rest @ ..] = options {
            match *kind {
                END => {
                    layout.push(options)?;
                    break;
                }
                NOP => {
                    layout.push(&[NOP])?;
                    options = rest;
                    continue;
                }
                _ => {}
            }
            let len = usize::from(*rest.first()?);
            let option = options.get(..len)?;
            let body = option.get(2..)?;
            options = &options[len..];
            match *kind {
                TS if !seen.ts => {
                    (len == 10).then_some(())?;
                    seen.ts = true;
                    read_ts(body, values);
                    layout.push(&[TS])?;
                }
                SACK if !seen.sack => {
                    (matches!(len, 10 | 18 | 26 | 34)).then_some(())?;
                    seen.sack = true;
                    values.blocks = (body.len() / 8) as u8;
                    for (to, from) in values.sack.iter_mut().zip(body.chunks_exact(8)) {
                        *to = (be32(&from[..4]), be32(&from[4..]));
                    }
                    layout.push(&[SACK])?;
                }
                kind if ACCECN.contains(&kind) && seen.ecn == 0 => {
                    (matches!(len, 5 | 8 | 11)).then_some(())?;
                    seen.ecn = (body.len() / 3) as u8;
                    for (to, from) in values.ecn.iter_mut().zip(body.chunks_exact(3)) {
                        *to = be32(&[0, from[0], from[1], from[2]]);
                    }
                    layout.push(&[kind, len as u8])?;
                }
                _ => layout.push(option)?,
            }
        }
        Some(layout)
    }

    /// Returns which values the layout has, or `None` if it is not a valid list of tokens.
    pub fn fields(&self) -> Option<LayoutFields> {
        let mut fields = LayoutFields::default();
        let mut tokens = self.tokens();
        while let [kind, rest @ ..] = tokens {
            tokens = match *kind {
                END => break,
                NOP => rest,
                TS if !fields.ts => {
                    fields.ts = true;
                    rest
                }
                SACK if !fields.sack => {
                    fields.sack = true;
                    rest
                }
                kind if ACCECN.contains(&kind) && fields.ecn == 0 => {
                    let (len, rest) = rest.split_first()?;
                    matches!(len, 5 | 8 | 11).then_some(())?;
                    fields.ecn = (len - 2) / 3;
                    rest
                }
                _ => {
                    let len = usize::from(*rest.first()?);
                    (len >= 2).then_some(())?;
                    tokens.get(len..)?
                }
            };
        }
        Some(fields)
    }

    /// Writes the options and returns their length. Returns `None` if the layout is not a
    /// valid list of tokens, or if its length is not a multiple of four bytes.
    pub fn write(&self, values: &Values, to: &mut [u8; MAX_OPTIONS]) -> Option<usize> {
        let mut out = Output { to, len: 0 };
        if *self == KNOWN_LAYOUTS[1] {
            out.put(&[NOP, NOP])?;
            write_ts(values, &mut out)?;
            return Some(out.len);
        }
        let mut seen = LayoutFields::default();
        let mut tokens = self.tokens();
        while let [kind, rest @ ..] = tokens {
            tokens = match *kind {
                END => {
                    out.put(tokens)?;
                    break;
                }
                NOP => {
                    out.put(&[NOP])?;
                    rest
                }
                TS if !seen.ts => {
                    seen.ts = true;
                    write_ts(values, &mut out)?;
                    rest
                }
                SACK if !seen.sack => {
                    seen.sack = true;
                    let blocks = values.blocks();
                    out.put(&[SACK, 2 + 8 * blocks.len() as u8])?;
                    for (left, right) in blocks {
                        out.put(&left.to_be_bytes())?;
                        out.put(&right.to_be_bytes())?;
                    }
                    rest
                }
                kind if ACCECN.contains(&kind) && seen.ecn == 0 => {
                    let (len, rest) = rest.split_first()?;
                    seen.ecn = len.checked_sub(2)? / 3;
                    out.put(&[kind, *len])?;
                    for counter in values.ecn.get(..usize::from(seen.ecn))? {
                        out.put(&counter.to_be_bytes()[1..])?;
                    }
                    rest
                }
                _ => {
                    let len = usize::from(*rest.first()?);
                    (len >= 2).then_some(())?;
                    out.put(tokens.get(..len)?)?;
                    &tokens[len..]
                }
            };
        }
        out.len.is_multiple_of(4).then_some(out.len)
    }
}

/// The buffer that options are written to.
struct Output<'a> {
    to: &'a mut [u8; MAX_OPTIONS],
    len: usize,
}

impl Output<'_> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) -> Option<()> {
        let end = self.len + bytes.len();
        self.to.get_mut(self.len..end)?.copy_from_slice(bytes);
        self.len = end;
        Some(())
    }
}

#[inline]
fn write_ts(values: &Values, out: &mut Output<'_>) -> Option<()> {
    out.put(&[TS, 10])?;
    out.put(&values.tsval.to_be_bytes())?;
    out.put(&values.tsecr.to_be_bytes())
}

fn read_ts(body: &[u8], values: &mut Values) {
    values.tsval = be32(&body[..4]);
    values.tsecr = be32(&body[4..]);
}

fn be32(bytes: &[u8]) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(bytes);
    u32::from_be_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(options: &[u8]) -> (OptionLayout, Values) {
        let mut values = Values::default();
        let layout = OptionLayout::read(options, &mut values).expect("well-formed");
        let mut out = [0; MAX_OPTIONS];
        let len = layout.write(&values, &mut out).expect("writable");
        assert_eq!(out[..len], *options);
        (layout, values)
    }

    #[test]
    fn what_linux_writes_has_a_number() {
        assert_eq!(again(&[]).0, KNOWN_LAYOUTS[0]);
        let ts = [1, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 9];
        let (layout, values) = again(&ts);
        assert_eq!(
            (layout, values.tsval, values.tsecr),
            (KNOWN_LAYOUTS[1], 7, 9)
        );
        let mut both = ts.to_vec();
        both.extend([1, 1, 5, 10, 0, 0, 1, 0, 0, 0, 2, 0]);
        let (layout, values) = again(&both);
        assert_eq!(
            (layout, values.blocks()),
            (KNOWN_LAYOUTS[2], &[(256, 512)][..])
        );
    }

    #[test]
    fn unknown_options_and_padding_are_kept_as_they_are() {
        // An experimental option, a second timestamps option, an end with odd padding.
        let options = [
            254, 4, 0xde, 0xad, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 8, 10, 3, 3, 3, 3, 4, 4, 4, 4, 0,
            0xff, 1, 8,
        ];
        let (layout, values) = again(&options);
        assert_eq!((values.tsval, values.tsecr), (1, 2));
        let fields = LayoutFields {
            ts: true,
            ..LayoutFields::default()
        };
        assert_eq!(layout.fields(), Some(fields));
    }

    #[test]
    fn counters_of_accurate_ecn_are_values() {
        let (layout, values) = again(&[1, 172, 11, 0, 0, 1, 0, 2, 0, 3, 0, 0]);
        assert_eq!(values.ecn, [1, 0x200, 0x3_0000]);
        assert_eq!(layout.tokens(), [1, 172, 11]);
        assert_eq!(layout.fields().map(|h| h.ecn), Some(3));
    }

    #[test]
    fn wrong_lengths_are_refused() {
        for options in [
            &[8, 9, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1][..],
            &[5, 9, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1],
            &[254, 1, 0, 0],
            &[254, 5, 0, 0],
            &[254],
            &[172, 6, 0, 0, 0, 0, 0, 1],
        ] {
            assert_eq!(OptionLayout::read(options, &mut Values::default()), None);
        }
    }
}
