//! Formats numbers for people.

/// How a ratio to zero is written.
const INFINITE: &str = "∞";

/// Three significant digits, never an exponent: `41.3`, `0.52`, `1 234`, `∞`.
pub fn short(value: f64) -> String {
    let size = value.abs();
    if value == f64::INFINITY {
        INFINITE.to_owned()
    } else if !value.is_finite() {
        "–".to_owned()
    } else if size >= 1000.0 {
        grouped(value)
    } else if size >= 100.0 {
        format!("{value:.0}")
    } else if size >= 10.0 {
        format!("{value:.1}")
    } else if size >= 0.1 || value == 0.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.3}")
    }
}

/// A whole number with thin groups of three: `1 234 567`.
pub(crate) fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    if value < 0.0 && digits != "0" {
        text.insert(0, '−');
    }
    text
}

/// A ratio as a factor: `3.62×`.
pub(crate) fn factor(ratio: f64) -> String {
    if ratio == f64::INFINITY {
        format!("{INFINITE}×")
    } else if ratio >= 100.0 {
        format!("{ratio:.0}×")
    } else if ratio >= 10.0 {
        format!("{ratio:.1}×")
    } else {
        format!("{ratio:.2}×")
    }
}

/// A ratio as a change: `−82 %`, `+3 %`, `±0 %`.
pub(crate) fn change(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    match percent.round() {
        0.0 => "±0 %".to_owned(),
        f64::INFINITY => format!("+{INFINITE} %"),
        p if p < 0.0 => format!("−{:.0} %", -p),
        p => format!("+{p:.0} %"),
    }
}

/// A share in per cent.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent != 0.0 && percent < 10.0 {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.0} %")
    }
}

/// Escapes text for HTML content and attribute values.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Escapes text for HTML and marks up code between backticks.
pub(crate) fn prose(text: &str) -> String {
    let mut html = String::new();
    let mut rest = text;
    while let Some((before, (typed, after))) = rest
        .split_once('`')
        .and_then(|(before, from)| Some((before, from.split_once('`')?)))
    {
        html += &format!("{}<code>{}</code>", escape(before), escape(typed));
        rest = after;
    }
    html + &escape(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(short(41.26), "41.3");
        assert_eq!(short(0.0), "0.00");
        assert_eq!(short(0.052), "0.052");
        assert_eq!(short(999.4), "999");
        assert_eq!(short(12_345.6), "12\u{202f}346");
        assert_eq!(short(f64::NAN), "–");
        assert_eq!(short(f64::INFINITY), "∞");
        assert_eq!(factor(f64::INFINITY), "∞×");
        assert_eq!(change(f64::INFINITY), "+∞ %");
        assert_eq!(grouped(-1_234_567.0), "−1\u{202f}234\u{202f}567");
        assert_eq!(grouped(-0.2), "0");
        assert_eq!(factor(3.618), "3.62×");
        assert_eq!(factor(25.04), "25.0×");
        assert_eq!(change(0.18), "−82 %");
        assert_eq!(change(1.034), "+3 %");
        assert_eq!(change(0.999), "±0 %");
        assert_eq!(percent(0.034), "3.4 %");
        assert_eq!(percent(0.97), "97 %");
        assert_eq!(
            escape("<a href='x'>&\""),
            "&lt;a href=&#39;x&#39;&gt;&amp;&quot;"
        );
    }

    #[test]
    fn what_is_typed_is_code() {
        assert_eq!(
            prose("`a <b>` & `c`: d"),
            "<code>a &lt;b&gt;</code> &amp; <code>c</code>: d"
        );
        assert_eq!(prose("one ` alone"), "one ` alone");
        assert_eq!(prose("``"), "<code></code>");
        assert_eq!(prose(""), "");
    }
}
