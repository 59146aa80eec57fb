//! `ackwise analyze` for a browser: the bytes of a capture in, JSON out.
//!
//! The page copies a capture to the memory that [`ackwise_alloc`] returns, calls
//! [`ackwise_analyze()`], reads the answer (its length as four little-endian bytes, then UTF-8), and
//! frees both with [`ackwise_free`].

use ackwise_analyze::{Analyzer, Options, read};
use serde_json::{Value, json};

/// Analyses a capture: returns what `ackwise analyze --format json` prints for a file, or
/// `{"error": …}`.
#[must_use]
pub fn analyze(capture: &[u8], up_bps: Option<u64>, down_bps: Option<u64>) -> Value {
    let mut analyzer = Analyzer::new(Options {
        up_bps,
        down_bps,
        ..Options::default()
    });
    let end = match read(capture, &mut |packet| analyzer.packet(packet)) {
        Ok(end) => end,
        Err(error) => return json!({ "error": error.to_string() }),
    };
    match serde_json::to_value(analyzer.finish()) {
        Ok(Value::Object(mut analysis)) => {
            analysis.insert("cut_at".to_owned(), json!(end.cut_at));
            Value::Object(analysis)
        }
        Ok(other) => other,
        Err(error) => json!({ "error": error.to_string() }),
    }
}

/// Allocates `len` bytes.
#[unsafe(no_mangle)]
pub extern "C" fn ackwise_alloc(len: usize) -> *mut u8 {
    Box::into_raw(vec![0_u8; len].into_boxed_slice()).cast()
}

/// Frees memory.
///
/// # Safety
/// `at` and `len` must be those of one allocation, which must not be used any longer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ackwise_free(at: *mut u8, len: usize) {
    // SAFETY: the caller guarantees that it is a box of this length.
    drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(at, len)) });
}

/// Analyses the capture in an allocation. Rates are in bit/s, 0 if unknown. Returns an allocation
/// of the answer's length plus four bytes.
///
/// # Safety
/// `at` and `len` must be those of one allocation, which must be filled.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ackwise_analyze(
    at: *const u8,
    len: usize,
    up_bps: f64,
    down_bps: f64,
) -> *mut u8 {
    // SAFETY: the caller guarantees that there are `len` bytes.
    let capture = unsafe { std::slice::from_raw_parts(at, len) };
    let rate = |bps: f64| (bps >= 1.0).then_some(bps as u64);
    let text = analyze(capture, rate(up_bps), rate(down_bps)).to_string();
    let mut answer = (text.len() as u32).to_le_bytes().to_vec();
    answer.extend(text.into_bytes());
    Box::into_raw(answer.into_boxed_slice()).cast()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPTURE: &[u8] = include_bytes!("../../../../tests/data/loss.pcap");

    #[test]
    fn a_capture_goes_through_the_c_interface() {
        let at = ackwise_alloc(CAPTURE.len());
        // SAFETY: the allocation has this length, and the answer begins with its own.
        let text = unsafe {
            at.copy_from_nonoverlapping(CAPTURE.as_ptr(), CAPTURE.len());
            let answer = ackwise_analyze(at, CAPTURE.len(), 5e6, 0.0);
            ackwise_free(at, CAPTURE.len());
            let len = u32::from_le_bytes(*answer.cast::<[u8; 4]>()) as usize;
            let text = std::slice::from_raw_parts(answer.add(4), len).to_vec();
            ackwise_free(answer, len + 4);
            text
        };
        let seen = analyze(CAPTURE, Some(5_000_000), None);
        assert!(
            text == seen.to_string().as_bytes(),
            "not what it is without the interface"
        );
        assert!(seen["tcp"]["acks"].as_u64().unwrap() > 0, "{seen}");
        assert!(seen["cut_at"].is_null());
    }

    #[test]
    fn what_is_no_capture_is_an_error() {
        let seen = analyze(b"GET / HTTP/1.1", None, None);
        assert!(
            seen["error"].as_str().is_some_and(|e| !e.is_empty()),
            "{seen}"
        );
        let cut = analyze(&CAPTURE[..CAPTURE.len() - 5], None, None);
        assert!(cut["cut_at"].is_u64(), "{cut}");
    }
}
