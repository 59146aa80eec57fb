//! The flows as comma-separated values (RFC 4180).

use super::Finding;

/// One row for each listed flow of each file, below one header row.
pub fn flows(findings: &[Finding]) -> String {
    let mut names: Vec<String> = [
        "file",
        "from",
        "to",
        "seconds",
        "data_segments",
        "data_bytes",
        "acks",
        "ack_bytes",
        "sack_acks",
        "still_acks",
        "segment_size",
        "segment_size_guessed",
        "srtt_us",
        "min_rtt_us",
    ]
    .map(String::from)
    .to_vec();
    let policies = findings
        .first()
        .map(|f| &f.analysis.policies[..])
        .unwrap_or_default();
    names.extend(policies.iter().map(|p| format!("saved {}", p.policy)));
    let mut out = line(&names);
    for finding in findings {
        for f in &finding.analysis.flows {
            let known = |us: Option<u32>| us.map_or_else(String::new, |us| us.to_string());
            let mut fields = vec![
                finding.file.clone(),
                f.from.clone(),
                f.to.clone(),
                format!("{:.6}", f.seconds),
                f.data_segments.to_string(),
                f.data_bytes.to_string(),
                f.acks.to_string(),
                f.ack_bytes.to_string(),
                f.sack_acks.to_string(),
                f.still_acks.to_string(),
                f.segment_size.to_string(),
                f.segment_size_guessed.to_string(),
                known(f.srtt_us),
                known(f.min_rtt_us),
            ];
            fields.extend(f.saved.iter().map(u64::to_string));
            out.push_str(&line(&fields));
        }
    }
    out
}

fn line(fields: &[String]) -> String {
    let quoted: Vec<_> = fields
        .iter()
        .map(|f| {
            if f.contains([',', '"', '\n', '\r']) {
                format!("\"{}\"", f.replace('"', "\"\""))
            } else {
                f.clone()
            }
        })
        .collect();
    format!("{}\r\n", quoted.join(","))
}

#[cfg(test)]
mod tests {
    #[test]
    fn fields_with_commas_and_quotes_are_quoted() {
        let fields = ["a", "b,c", "d\"e"].map(String::from);
        assert_eq!(super::line(&fields), "a,\"b,c\",\"d\"\"e\"\r\n");
    }
}
