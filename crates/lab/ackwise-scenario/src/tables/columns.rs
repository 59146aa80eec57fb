//! Builds columns from rows.

/// The cells of a column, one per row. `None` means unknown.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Texts.
    Text(Vec<Option<String>>),
    /// Lists of texts.
    Texts(Vec<Vec<String>>),
    /// Counts.
    Count(Vec<Option<u64>>),
    /// Quantities; the unit is the column's.
    Number(Vec<Option<f64>>),
    /// Yes or no.
    Flag(Vec<Option<bool>>),
}

impl Values {
    /// The cell of a row as text; empty if it is not known.
    pub fn text(&self, row: usize) -> String {
        fn shown<T: ToString>(cells: &[Option<T>], row: usize) -> String {
            let cell = cells.get(row).and_then(Option::as_ref);
            cell.map_or(String::new(), T::to_string)
        }
        match self {
            Values::Text(cells) => shown(cells, row),
            Values::Texts(cells) => cells.get(row).map_or(String::new(), |it| it.join("; ")),
            Values::Count(cells) => shown(cells, row),
            Values::Number(cells) => shown(cells, row),
            Values::Flag(cells) => shown(cells, row),
        }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        match self {
            Values::Text(cells) => cells.len(),
            Values::Texts(cells) => cells.len(),
            Values::Count(cells) => cells.len(),
            Values::Number(cells) => cells.len(),
            Values::Flag(cells) => cells.len(),
        }
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Its name, which usually ends in the unit if there is one.
    pub name: String,
    /// Its unit; empty for text and plain numbers.
    pub unit: &'static str,
    /// Description.
    pub about: String,
    /// Whether cells may be unknown.
    pub optional: bool,
    /// The cells.
    pub values: Values,
}

/// The columns of a table that is made from rows of type `R`. The methods without `maybe` are for
/// columns in which every cell is known.
pub(super) struct Columns<'a, R> {
    rows: &'a [R],
    made: Vec<Column>,
}

impl<'a, R> Columns<'a, R> {
    pub fn new(rows: &'a [R]) -> Self {
        Self {
            rows,
            made: Vec::new(),
        }
    }

    pub fn text(&mut self, name: &str, about: &str, read: impl Fn(&'a R) -> &'a str) {
        let cells = self.rows.iter().map(|row| Some(read(row).to_owned()));
        let values = Values::Text(cells.collect());
        self.push(name, "", about, false, values);
    }

    pub fn maybe_text(&mut self, name: &str, about: &str, read: impl Fn(&R) -> Option<String>) {
        let values = Values::Text(self.rows.iter().map(read).collect());
        self.push(name, "", about, true, values);
    }

    pub fn texts(&mut self, name: &str, about: &str, read: impl Fn(&R) -> Vec<String>) {
        let values = Values::Texts(self.rows.iter().map(read).collect());
        self.push(name, "", about, false, values);
    }

    pub fn count(&mut self, name: &str, unit: &'static str, about: &str, read: impl Fn(&R) -> u64) {
        let values = Values::Count(self.rows.iter().map(|row| Some(read(row))).collect());
        self.push(name, unit, about, false, values);
    }

    pub fn maybe_count(
        &mut self,
        name: &str,
        unit: &'static str,
        about: &str,
        read: impl Fn(&R) -> Option<u64>,
    ) {
        let values = Values::Count(self.rows.iter().map(read).collect());
        self.push(name, unit, about, true, values);
    }

    pub fn number(
        &mut self,
        name: &str,
        unit: &'static str,
        about: &str,
        read: impl Fn(&R) -> f64,
    ) {
        let values = Values::Number(self.rows.iter().map(|row| Some(read(row))).collect());
        self.push(name, unit, about, false, values);
    }

    pub fn maybe_number(
        &mut self,
        name: &str,
        unit: &'static str,
        about: &str,
        read: impl Fn(&R) -> Option<f64>,
    ) {
        let values = Values::Number(self.rows.iter().map(read).collect());
        self.push(name, unit, about, true, values);
    }

    pub fn maybe_flag(&mut self, name: &str, about: &str, read: impl Fn(&R) -> Option<bool>) {
        let values = Values::Flag(self.rows.iter().map(read).collect());
        self.push(name, "", about, true, values);
    }

    fn push(
        &mut self,
        name: &str,
        unit: &'static str,
        about: &str,
        optional: bool,
        values: Values,
    ) {
        self.made.push(Column {
            name: name.to_owned(),
            unit,
            about: about.to_owned(),
            optional,
            values,
        });
    }

    pub fn made(self) -> Vec<Column> {
        self.made
    }
}
