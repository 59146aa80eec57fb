//! The frame that all pages share: head, foot and scripts, with nothing loaded from elsewhere.

const FRAME: &str = include_str!("../assets/frame.html");
const STYLE: &str = include_str!("../assets/page.css");
const KIT_SCRIPT: &str = include_str!("../assets/kit.js");
const UPLOT_SCRIPT: &str = include_str!("../assets/vendor/uplot/uPlot.iife.min.js");
const UPLOT_STYLE: &str = include_str!("../assets/vendor/uplot/uPlot.min.css");
const UPLOT_LICENSE: &str = include_str!("../assets/vendor/uplot/LICENSE");

/// The parts that differ between pages, as HTML.
#[derive(Debug, Default)]
pub struct Page<'a> {
    /// The title: escaped text without markup.
    pub title: &'a str,
    /// The line above the title; if empty, the name alone.
    pub brand: &'a str,
    /// The text below the title.
    pub lead: &'a str,
    /// A style sheet besides the common one.
    pub style: &'a str,
    /// The body.
    pub main: &'a str,
    /// Data and the script that draws it; without it the page has no script.
    pub plots: Option<Plots<'a>>,
    /// The version that made the data.
    pub version: &'a str,
}

/// Data of a page, and the script that draws it.
#[derive(Debug)]
pub struct Plots<'a> {
    /// JSON, safe to embed.
    pub data: &'a str,
    /// A script that uses `kit`.
    pub script: &'a str,
}

impl Page<'_> {
    /// Returns the whole page, which loads nothing from elsewhere.
    pub fn html(&self) -> String {
        let (mut style, mut scripts, mut credits) = (String::new(), String::new(), "");
        if let Some(plots) = &self.plots {
            let license = UPLOT_LICENSE.replace("*/", "* /");
            let Plots { data, script } = plots;
            style = format!("{UPLOT_STYLE}\n");
            scripts = format!(
                "<script type=\"application/json\" id=\"data\">{data}</script>\n\
                 <script>/*\n{license}*/\n{UPLOT_SCRIPT}</script>\n\
                 <script>{KIT_SCRIPT}{script}</script>"
            );
            credits = " Plots: uPlot, MIT licence.";
        }
        style.push_str(STYLE);
        style.push_str(self.style);
        let brand = if self.brand.is_empty() {
            "ackwise"
        } else {
            self.brand
        };
        fill(
            FRAME,
            &[
                ("title", self.title),
                ("style", &style),
                ("brand", brand),
                ("lead", self.lead),
                ("main", self.main),
                ("version", self.version),
                ("credits", credits),
                ("scripts", &scripts),
            ],
        )
    }
}

/// Replaces each `@{key}` of the template; replacements are not expanded again.
pub(crate) fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut page = String::with_capacity(template.len() + 200_000);
    let mut rest = template;
    while let Some(at) = rest.find("@{") {
        page.push_str(&rest[..at]);
        let after = &rest[at + 2..];
        let Some(end) = after.find('}') else { break };
        let value = values.iter().find(|(key, _)| *key == &after[..end]);
        page.push_str(value.map_or("", |(_, value)| value));
        rest = &after[end + 1..];
    }
    page.push_str(rest);
    page
}
