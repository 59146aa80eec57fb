//! Self-contained HTML pages: what `analyze` and `ab` write.

const STYLE: &str = "\
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;\
color:#1c1e21;background:#fff}\
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}\
.advice{background:#eef4fb;border-left:4px solid #2b6cb0;padding:.8rem 1rem}\
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}\
th,td{text-align:right;padding:.3rem .6rem;border-bottom:1px solid #ddd}\
th:first-child,td:first-child{text-align:left}\
td.left,th.left{text-align:left}td.left{min-width:14rem}\
td:not(.left,:first-child){white-space:nowrap}\
.wide{overflow-x:auto}svg{max-width:100%;height:auto}.wide svg{min-width:36rem}\
svg text{font:13px system-ui,sans-serif;fill:currentColor}\
@media(prefers-color-scheme:dark){body{color:#e6e6e6;background:#16181b}\
.advice{background:#1d2a3a}th,td{border-color:#333}}";

/// The beginning of a page.
pub fn begin(title: &str) -> String {
    let title = escape(title);
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>{title}</title><style>{STYLE}</style></head><body>\n"
    )
}

/// The end of a page.
pub const END: &str = "</body></html>\n";

/// A table; all columns but the first are numbers.
pub fn table(out: &mut String, head: &[&str], rows: &[Vec<String>]) {
    cells(out, head, rows, None);
}

/// A table; all columns but the first and the last are numbers.
pub fn table_with_text(out: &mut String, head: &[&str], rows: &[Vec<String>]) {
    cells(out, head, rows, head.len().checked_sub(1));
}

fn cells(out: &mut String, head: &[&str], rows: &[Vec<String>], text: Option<usize>) {
    let class = |column| {
        if text == Some(column) {
            " class=\"left\""
        } else {
            ""
        }
    };
    out.push_str("<div class=\"wide\"><table><tr>");
    for (column, name) in head.iter().enumerate() {
        out.push_str(&format!("<th{}>{}</th>", class(column), escape(name)));
    }
    out.push_str("</tr>\n");
    for row in rows {
        out.push_str("<tr>");
        for (column, cell) in row.iter().enumerate() {
            out.push_str(&format!("<td{}>{}</td>", class(column), escape(cell)));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table></div>\n");
}

/// Escapes text for HTML.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_of_files_do_not_become_markup() {
        assert_eq!(super::escape("<a&\"b\">"), "&lt;a&amp;&quot;b&quot;&gt;");
    }
}
