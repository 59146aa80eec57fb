//! Expressions that depend on other values: `down / ratio`, `max(up * depth, 3000 B)`.
//!
//! ```text
//! sum     = product { ("+" | "-") product }
//! product = factor { ("*" | "/") factor }
//! factor  = number [ unit ] | name | function "(" sum { "," sum } ")" | "(" sum ")"
//! ```

use super::value::{Dimension, Drawn, Quantity, Type};

/// A parsed expression.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expression {
    /// A number, with or without a unit.
    Constant(Quantity),
    /// The value of another name.
    Name(String),
    /// Two expressions and the operator between them.
    Binary(Operator, Box<Expression>, Box<Expression>),
    /// A function of one or more expressions.
    Call(Function, Vec<Expression>),
}

/// An operator between two expressions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
}

/// A function that an expression can call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    /// Minimum.
    Min,
    /// Maximum.
    Max,
    /// Rounds to the nearest whole number of the unit.
    Round,
}

const FUNCTIONS: [(&str, Function); 3] = [
    ("min", Function::Min),
    ("max", Function::Max),
    ("round", Function::Round),
];

/// Units. A unit precedes any shorter one that is its prefix.
const UNITS: [&str; 21] = [
    "packets", "packet", "Gbit/s", "Mbit/s", "kbit/s", "bit/s", "GiB", "MiB", "KiB", "GB", "MB",
    "kB", "min", "ms", "us", "µs", "ns", "B", "s", "h", "%",
];

/// The longest expression, in bytes. A longer one must be split by naming its parts.
const MAX_LENGTH: usize = 1000;

/// How much of an expression an error message repeats, in characters.
const MAX_SHOWN_CHARS: usize = 60;

/// Deepest nesting of parentheses.
const MAX_DEPTH: usize = 32;

impl Expression {
    /// Parses an expression.
    ///
    /// # Errors
    /// The text is not a valid expression; the caller adds the place.
    pub(super) fn parse(text: &str) -> Result<Expression, String> {
        if text.len() > MAX_LENGTH {
            return Err(format!(
                "'{}' is {} bytes long, and an expression {MAX_LENGTH} at most; name parts of it",
                shortened(text),
                text.len()
            ));
        }
        let mut parser = Parser {
            text,
            rest: text.trim_start(),
            depth: 0,
        };
        let expression = parser.sum()?;
        match parser.rest.is_empty() {
            true => Ok(expression),
            false => Err(parser.unexpected()),
        }
    }

    /// The names on which it depends.
    pub(super) fn names(&self) -> Vec<&str> {
        match self {
            Expression::Constant(_) => Vec::new(),
            Expression::Name(name) => vec![name],
            Expression::Binary(_, left, right) => {
                let mut names = left.names();
                names.extend(right.names());
                names
            }
            Expression::Call(_, of) => of.iter().flat_map(Expression::names).collect(),
        }
    }

    /// The type of its value, given the types of the names from `known`.
    ///
    /// # Errors
    /// It adds or multiplies values of incompatible types.
    pub(super) fn kind(&self, known: &dyn Fn(&str) -> Option<Type>) -> Result<Type, String> {
        if let Expression::Name(name) = self {
            return known(name).ok_or_else(|| format!("'{name}' is not known here"));
        }
        let sample = |name: &str| match known(name) {
            Some(Type::Quantity(dimension)) => Ok(Quantity {
                amount: 1.0,
                dimension,
            }),
            Some(other) => Err(format!(
                "'{name}' is {other}, and one can compute with numbers only; use case = \"{name}\""
            )),
            None => Err(format!("'{name}' is not known here")),
        };
        Ok(Type::Quantity(self.quantity(&sample)?.dimension))
    }

    /// Its value.
    ///
    /// # Errors
    /// A name is unknown or is not a number, or the expression divides by zero.
    pub(super) fn value(&self, known: &dyn Fn(&str) -> Option<Drawn>) -> Result<Drawn, String> {
        if let Expression::Name(name) = self {
            return known(name).ok_or_else(|| format!("'{name}' is not known here"));
        }
        let number = |name: &str| match known(name) {
            Some(Drawn::Quantity(quantity)) => Ok(quantity),
            Some(_) => Err(format!("'{name}' is not a number")),
            None => Err(format!("'{name}' is not known here")),
        };
        if let Some(zero) = self.zero_divisor(&number)? {
            let named = match zero {
                Expression::Name(name) => format!(" '{name}', which is 0 there"),
                _ => " zero".to_owned(),
            };
            return Err(format!(
                "it divides by{named}; keep what it divides by above zero"
            ));
        }
        self.quantity(&number).map(Drawn::Quantity)
    }

    /// The first divisor that is zero.
    fn zero_divisor(
        &self,
        known: &dyn Fn(&str) -> Result<Quantity, String>,
    ) -> Result<Option<&Expression>, String> {
        let parts: Vec<&Expression> = match self {
            Expression::Constant(_) | Expression::Name(_) => Vec::new(),
            Expression::Binary(_, left, right) => vec![left, right],
            Expression::Call(_, of) => of.iter().collect(),
        };
        for part in parts {
            if let Some(zero) = part.zero_divisor(known)? {
                return Ok(Some(zero));
            }
        }
        match self {
            Expression::Binary(Operator::Divide, _, right)
                if right.quantity(known)?.amount == 0.0 =>
            {
                Ok(Some(right))
            }
            _ => Ok(None),
        }
    }

    fn quantity(
        &self,
        known: &dyn Fn(&str) -> Result<Quantity, String>,
    ) -> Result<Quantity, String> {
        match self {
            Expression::Constant(quantity) => Ok(*quantity),
            Expression::Name(name) => known(name),
            Expression::Binary(operator, left, right) => {
                operator.apply(left.quantity(known)?, right.quantity(known)?)
            }
            Expression::Call(Function::Round, of) => {
                let [only] = of.as_slice() else {
                    return Err("'round' takes one value".to_owned());
                };
                let quantity = only.quantity(known)?;
                let amount = quantity.amount.round();
                Ok(Quantity { amount, ..quantity })
            }
            Expression::Call(function, of) => {
                let mut values = of.iter().map(|one| one.quantity(known));
                let first = values.next().unwrap_or(Err("of nothing".to_owned()))?;
                values.try_fold(first, |best, next| {
                    let next = next?;
                    same("compare", best, next)?;
                    let greater = next.amount > best.amount;
                    let taken = greater == (*function == Function::Max);
                    Ok(if taken { next } else { best })
                })
            }
        }
    }
}

fn same(what: &str, left: Quantity, right: Quantity) -> Result<(), String> {
    if left.dimension == right.dimension {
        return Ok(());
    }
    let (left, right) = (left.dimension, right.dimension);
    Err(format!("cannot {what} {left} and {right}"))
}

impl Operator {
    fn apply(self, left: Quantity, right: Quantity) -> Result<Quantity, String> {
        let of = |amount, dimension| Ok(Quantity { amount, dimension });
        match self {
            Operator::Add => {
                same("add", left, right)?;
                of(left.amount + right.amount, left.dimension)
            }
            Operator::Subtract => {
                same("subtract", left, right)?;
                of(left.amount - right.amount, left.dimension)
            }
            Operator::Multiply => product(left, right),
            Operator::Divide => quotient(left, right),
        }
    }
}

/// Converts the product of bits per second and nanoseconds to bytes.
const BITS_IN_NANOSECONDS: f64 = 8e9;

fn product(left: Quantity, right: Quantity) -> Result<Quantity, String> {
    use Dimension::{Number, Packets, Rate, Share, Size, Time};
    let amount = left.amount * right.amount;
    let of = |amount, dimension| Ok(Quantity { amount, dimension });
    match (left.dimension, right.dimension) {
        (Number, other) | (other, Number) | (Share, other) | (other, Share) => of(amount, other),
        (Rate, Time) | (Time, Rate) => of(amount / BITS_IN_NANOSECONDS, Size),
        (Packets, Size) | (Size, Packets) => of(amount, Size),
        (left, right) => Err(format!("{left} times {right} is not a known quantity")),
    }
}

fn quotient(left: Quantity, right: Quantity) -> Result<Quantity, String> {
    use Dimension::{Number, Packets, Rate, Share, Size, Time};
    let amount = left.amount / right.amount;
    let of = |amount, dimension| Ok(Quantity { amount, dimension });
    match (left.dimension, right.dimension) {
        (same, other) if same == other => of(amount, Number),
        (other, Number | Share) => of(amount, other),
        (Size, Rate) => of(amount * BITS_IN_NANOSECONDS, Time),
        (Size, Time) => of(amount * BITS_IN_NANOSECONDS, Rate),
        (Size, Packets) => of(amount, Size),
        (left, right) => Err(format!("{left} divided by {right} is not a known quantity")),
    }
}

/// The remaining text.
struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
    depth: usize,
}

impl Parser<'_> {
    fn unexpected(&self) -> String {
        let all = self.text;
        let text = shortened(all);
        let example = "write e.g. \"down / ratio\" or \"max(up * 100 ms, 3000 B)\"";
        match self.rest.chars().next() {
            Some(c) => format!(
                "'{text}' is not an expression: '{c}' is not expected in column {}; {example}",
                all.chars().count() - self.rest.chars().count() + 1
            ),
            None => format!("'{text}' is not an expression: it ends too early; {example}"),
        }
    }

    fn take(&mut self, bytes: usize) -> String {
        let (taken, rest) = self.rest.split_at(bytes);
        let taken = taken.to_owned();
        self.rest = rest.trim_start();
        taken
    }

    fn takes(&mut self, wanted: char) -> bool {
        let found = self.rest.starts_with(wanted);
        if found {
            self.take(wanted.len_utf8());
        }
        found
    }

    fn sum(&mut self) -> Result<Expression, String> {
        let mut left = self.product()?;
        loop {
            let operator = match self.rest.chars().next() {
                Some('+') => Operator::Add,
                Some('-') => Operator::Subtract,
                _ => return Ok(left),
            };
            self.take(1);
            left = Expression::Binary(operator, Box::new(left), Box::new(self.product()?));
        }
    }

    fn product(&mut self) -> Result<Expression, String> {
        let mut left = self.factor()?;
        loop {
            let operator = match self.rest.chars().next() {
                Some('*') => Operator::Multiply,
                Some('/') => Operator::Divide,
                _ => return Ok(left),
            };
            self.take(1);
            left = Expression::Binary(operator, Box::new(left), Box::new(self.factor()?));
        }
    }

    fn factor(&mut self) -> Result<Expression, String> {
        let Some(first) = self.rest.chars().next() else {
            return Err(self.unexpected());
        };
        if first.is_ascii_digit() || first == '.' {
            return self.constant();
        }
        if first == '(' {
            self.take(1);
            let inner = self.nested()?;
            return match self.takes(')') {
                true => Ok(inner),
                false => Err(self.unexpected()),
            };
        }
        if !is_name_start(first) {
            return Err(self.unexpected());
        }
        let end = self.rest.find(|c| !is_name(c)).unwrap_or(self.rest.len());
        let name = self.take(end);
        match self.takes('(') {
            true => self.call(&name),
            false => Ok(Expression::Name(name)),
        }
    }

    fn nested(&mut self) -> Result<Expression, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            let text = shortened(self.text);
            return Err(format!(
                "'{text}' has parentheses too deep; name a part of it"
            ));
        }
        let inner = self.sum()?;
        self.depth -= 1;
        Ok(inner)
    }

    fn call(&mut self, name: &str) -> Result<Expression, String> {
        let Some((_, function)) = FUNCTIONS.iter().find(|(known, _)| *known == name) else {
            let known = FUNCTIONS.map(|(known, _)| known).join(", ");
            let name = shortened(name);
            return Err(format!("there is no function '{name}'; known: {known}"));
        };
        let mut of = vec![self.nested()?];
        while self.takes(',') {
            of.push(self.nested()?);
        }
        match self.takes(')') {
            true => Ok(Expression::Call(*function, of)),
            false => Err(self.unexpected()),
        }
    }

    fn constant(&mut self) -> Result<Expression, String> {
        let digits = |c: char| !(c.is_ascii_digit() || c == '.');
        let end = self.rest.find(digits).unwrap_or(self.rest.len());
        let number = self.take(end);
        let follows = |unit: &&&str| {
            let after = self.rest.strip_prefix(**unit);
            after.is_some_and(|rest| !rest.starts_with(is_name))
        };
        if let Some(unit) = UNITS.iter().find(follows) {
            let text = format!("{number} {unit}");
            self.take(unit.len());
            let quantity = Quantity::parse(&text);
            return quantity
                .map(Expression::Constant)
                .ok_or_else(|| format!("'{text}' is out of range or not a quantity"));
        }
        match number.parse() {
            Ok(amount) if !self.rest.starts_with(is_name_start) => {
                Ok(Expression::Constant(Quantity::number(amount)))
            }
            _ => Err(self.unexpected()),
        }
    }
}

/// A text shortened for an error message.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

pub(super) fn is_name_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

pub(super) fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Result<String, String> {
        let known = |name: &str| match name {
            "down" => Quantity::parse("50 Mbit/s").map(Drawn::Quantity),
            "ratio" => Some(Drawn::Quantity(Quantity::number(40.0))),
            "nothing" => Some(Drawn::Quantity(Quantity::number(0.0))),
            "rtt" => Quantity::parse("100 ms").map(Drawn::Quantity),
            "line" => Some(Drawn::Word("dsl".to_owned())),
            _ => None,
        };
        let expression = Expression::parse(text)?;
        expression.kind(&|name| known(name).map(|value| value.kind()))?;
        Ok(expression.value(&known)?.setting().to_string())
    }

    #[test]
    fn quantities_combine_as_they_should() {
        for (text, expected) in [
            ("down / ratio", "1.25 Mbit/s"),
            ("down*rtt", "625000 B"),
            ("down * rtt * 50 %", "312500 B"),
            ("64 KiB / (1 Mbit/s)", "524.288 ms"),
            ("12500 B / 100 ms", "1 Mbit/s"),
            ("max(rtt, 5 * 30 ms)", "150 ms"),
            ("min(10 s, rtt, 1 s)", "100 ms"),
            ("10 packets * 1514 B", "15140 B"),
            ("2 + 3 * (4 - 1)", "11"),
            ("10 - 3 - 2", "5"),
            ("down / 1 Mbit/s", "50"),
            ("round(7 / 2)", "4"),
            ("line", "dsl"),
            (".5 * ratio", "20"),
        ] {
            assert_eq!(value(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for (text, complaint) in [
            ("down +", "ends too early"),
            ("down rtt", "'r' is not expected in column 6"),
            ("down + rtt", "cannot add a rate and a time"),
            ("down * down", "a rate times a rate"),
            ("1 / rtt", "a plain number divided by a time"),
            ("max(rtt, down)", "cannot compare a time and a rate"),
            ("line * 2", "'line' is a word"),
            ("up", "'up' is not known here"),
            ("sqrt(2)", "no function 'sqrt'"),
            ("round(1, 2)", "'round' takes one value"),
            ("5 Mbps", "not expected"),
            ("0 Mbit/s", "out of range"),
            ("1.2.3", "not an expression"),
            ("", "ends too early"),
            ("(1", "ends too early"),
            ("-1", "not expected in column 1"),
        ] {
            let error = value(text).expect_err(text);
            assert!(error.contains(complaint), "{text}: {error}");
        }
        for (text, complaint) in [
            ("1 / 0", "divides by zero; keep"),
            ("1 / (rtt / rtt - 1)", "divides by zero"),
            (
                "min(1 s, rtt / nothing)",
                "divides by 'nothing', which is 0",
            ),
            ("down / (ratio / nothing)", "divides by 'nothing'"),
        ] {
            let error = value(text).expect_err(text);
            assert!(error.contains(complaint), "{text}: {error}");
        }
        assert_eq!(value("nothing / ratio").as_deref(), Ok("0"));
        for (text, complaint) in [
            (
                format!("1{} ?", " + 1".repeat(200)),
                "'?' is not expected in column 803",
            ),
            (
                format!("1{}", " + 1".repeat(500_000)),
                "2000001 bytes long, and an expression 1000",
            ),
            (format!("{}(1)", "a".repeat(900)), "no function 'aaa"),
        ] {
            let error = value(&text).unwrap_err();
            assert!(error.contains(complaint) && error.len() < 300, "{error}");
        }
        let deep = format!("{}1{}", "(".repeat(100), ")".repeat(100));
        assert!(value(&deep).unwrap_err().contains("too deep"));
    }
}
