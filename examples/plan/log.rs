//! Reads a log of decisions: a file of CSV or JSON lines, line by line in constant memory, or columns in memory. A line
//! that could be read in two ways is refused, with its number and its fault.

use serde::de::{self, Deserialize, Deserializer, Visitor};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// The maximum length of a line in bytes, because a line is in memory.
pub const MOST_LINE: usize = 1 << 20;
/// The maximum number of arms. If a log has more, its arm column probably contains something else.
pub const MOST_ARMS: usize = 100_000;
/// The maximum length of an arm's name in bytes.
const MOST_NAME: usize = 256;
/// The maximum number of features, which is that of the library.
const MOST_FEATURES: usize = 256;
/// The smallest examination, which is that of the library.
const LEAST_EXAMINED: f64 = 1.0 / 65536.0;
/// A batch takes no further decision when its lists have this many items, so that its memory is bounded.
const MOST_ITEMS: usize = 1 << 18;

/// The first bytes of files that are not text in UTF-8.
const OTHER_FILES: [(&[u8], &str); 6] = [
    (b"\x1f\x8b", "a gzip archive"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive"),
    (b"PK\x03\x04", "a zip archive or a spreadsheet"),
    (b"PAR1", "a Parquet file"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
];

/// Where the decisions are.
#[derive(Clone, Copy)]
pub enum Log<'a> {
    File(&'a Path),
    Columns(Columns<'a>),
}

impl Log<'_> {
    /// Begins to read it. All rewards must be in the range.
    pub fn open(&self, range: (f64, f64)) -> Result<Box<dyn Source + '_>, String> {
        Ok(match self {
            Log::File(path) => Box::new(Reader::open(path, range)?),
            Log::Columns(columns) => Box::new(Rows { columns, at: 0, range }),
        })
    }
}

impl fmt::Display for Log<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Log::File(path) => path.display().fmt(f),
            Log::Columns(_) => f.write_str("the log"),
        }
    }
}

impl<'a> From<&'a Path> for Log<'a> {
    fn from(path: &'a Path) -> Log<'a> {
        Log::File(path)
    }
}

impl<'a> From<&'a PathBuf> for Log<'a> {
    fn from(path: &'a PathBuf) -> Log<'a> {
        Log::File(path)
    }
}

impl<'a> From<&Log<'a>> for Log<'a> {
    fn from(log: &Log<'a>) -> Log<'a> {
        *log
    }
}

/// A log that is being read.
pub trait Source {
    /// Reads up to `most` decisions. At the end there is none.
    fn read(&mut self, most: usize) -> Result<Batch, String>;
    /// The number of arms in what was read.
    fn arms(&self) -> usize;
    /// The number of lines that were read.
    fn lines(&self) -> u64;
    /// The share that was read.
    fn progress(&self) -> f64;
}

/// A log in memory: element i of each column is of decision i.
#[derive(Clone, Copy)]
pub struct Columns<'a> {
    /// The number of arms, all of them above those in `arm`.
    pub arms: usize,
    pub arm: &'a [u32],
    pub propensity: &'a [f64],
    pub reward: &'a [f64],
    /// The eligible arms of all decisions, one after another, and where those of each decision end. No ends: all arms.
    pub eligible: (&'a [u32], &'a [usize]),
    /// What a reward of each of these is worth. Empty: all are worth 1.
    pub values: &'a [f64],
    /// What it costs to play each of these. Empty: nothing.
    pub costs: &'a [f64],
    /// How likely a visitor examined the slot. Empty: always.
    pub examined: &'a [f64],
    /// Rows of features, all of one length.
    pub features: &'a [f32],
}

struct Rows<'a> {
    columns: &'a Columns<'a>,
    at: usize,
    range: (f64, f64),
}

impl Source for Rows<'_> {
    fn read(&mut self, most: usize) -> Result<Batch, String> {
        let (columns, mut batch) = (self.columns, Batch::default());
        let (entries, (eligible, ends)) = (columns.arm.len(), columns.eligible);
        let width = columns.features.len().checked_div(entries).unwrap_or(0);
        while batch.len() < most && !batch.is_full() && self.at < entries {
            let at = self.at;
            let known = |&arm: &u32| (arm as usize) < columns.arms;
            let of = ends.get(at).map(|&end| {
                let begin = at.checked_sub(1).map_or(0, |before| ends[before]);
                let arms = eligible.get(begin..end).filter(|arms| arms.iter().all(known)).unwrap_or(&[]);
                let [values, costs] = [columns.values, columns.costs].map(|list| list.get(begin..end).unwrap_or(&[]));
                Eligible { arms: arms.to_vec(), values, costs }
            });
            let entry = Logged {
                line: at as u64,
                arm: columns.arm[at],
                propensity: columns.propensity[at],
                reward: columns.reward[at],
                eligible: &[],
                values: &[],
                costs: &[],
                examined: columns.examined.get(at).copied().unwrap_or(1.0),
                features: &columns.features[at * width..(at + 1) * width],
            };
            let arm = || entry.arm.to_string();
            batch.push(entry, of, self.range, arm).map_err(|problem| format!("row {at}: {problem}"))?;
            self.at += 1;
        }
        Ok(batch)
    }

    fn arms(&self) -> usize {
        self.columns.arms
    }

    fn lines(&self) -> u64 {
        self.at as u64
    }

    fn progress(&self) -> f64 {
        self.at as f64 / self.columns.arm.len().max(1) as f64
    }
}

/// The eligible arms of a decision in the log's order, and their values and costs, if it has these.
struct Eligible<'a> {
    arms: Vec<u32>,
    values: &'a [f64],
    costs: &'a [f64],
}

/// Consecutive decisions of the log. The eligible arms of all are in one list, their values in another, their costs in a
/// third, and the features of all in a fourth.
#[derive(Default)]
pub struct Batch {
    entries: Vec<Entry>,
    eligible: Vec<u32>,
    values: Vec<f64>,
    costs: Vec<f64>,
    features: Vec<f32>,
}

struct Entry {
    line: u64,
    arm: u32,
    propensity: f64,
    reward: f64,
    examined: f64,
    eligible_end: usize,
    values_end: usize,
    costs_end: usize,
    features_end: usize,
}

/// One decision of the log.
#[derive(Clone, Copy)]
pub struct Logged<'a> {
    /// The number of its line.
    pub line: u64,
    pub arm: u32,
    /// The probability with which the log's policy chose this arm.
    pub propensity: f64,
    pub reward: f64,
    /// The eligible arms. Empty: all arms.
    pub eligible: &'a [u32],
    /// What a reward of each eligible arm is worth. Empty: all are worth 1.
    pub values: &'a [f64],
    /// What it costs to play each eligible arm. Empty: nothing.
    pub costs: &'a [f64],
    /// How likely a visitor examined the slot, whatever the arm in it.
    pub examined: f64,
    /// The features. Empty: none.
    pub features: &'a [f32],
}

impl Logged<'_> {
    /// What a reward of this arm, an eligible one, is worth.
    pub fn value(&self, arm: u32) -> f64 {
        self.of(arm, self.values).unwrap_or(1.0)
    }

    /// What it costs to play it.
    pub fn cost(&self, arm: u32) -> f64 {
        self.of(arm, self.costs).unwrap_or(0.0)
    }

    fn of(&self, arm: u32, list: &[f64]) -> Option<f64> {
        list.get(self.eligible.binary_search(&arm).ok()?).copied()
    }
}

impl Batch {
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether it takes no further decision.
    fn is_full(&self) -> bool {
        self.eligible.len() + self.features.len() >= MOST_ITEMS
    }

    /// Checks a decision, and adds it. Its eligible arms are apart, because they are sorted here; `None` is all arms.
    fn push(
        &mut self,
        entry: Logged,
        eligible: Option<Eligible>,
        range: (f64, f64),
        arm: impl Fn() -> String,
    ) -> Result<(), String> {
        let Logged { line, propensity, reward, examined, features, .. } = entry;
        if !(propensity > 0.0 && propensity <= 1.0) {
            return Err(format!("propensity: {propensity} is not a probability above 0"));
        }
        let (low, high) = range;
        if !(reward >= low && reward <= high) {
            return Err(format!("reward: {reward} is not in {low}..={high} (--reward-min, --reward-max)"));
        }
        if !(LEAST_EXAMINED..=1.0).contains(&examined) {
            return Err(format!("examined: {examined} is not a probability of at least 2^-16"));
        }
        if let Some(Eligible { arms: eligible, values, costs }) = eligible {
            for (name, list) in [("values", values), ("costs", costs)] {
                if !list.is_empty() && list.len() != eligible.len() {
                    return Err(format!("{name}: {} numbers for {} eligible arms", list.len(), eligible.len()));
                }
            }
            if let Some(wrong) = values.iter().find(|&&value| !(0.0..f64::INFINITY).contains(&value)) {
                return Err(format!("values: {wrong} is not a finite number of at least 0"));
            }
            if let Some(wrong) = costs.iter().find(|cost| !cost.is_finite()) {
                return Err(format!("costs: {wrong} is not a finite number"));
            }
            let mut places: Vec<(u32, usize)> = eligible.into_iter().zip(0..).collect();
            places.sort_unstable_by_key(|&(arm, _)| arm);
            let listed = places.len();
            places.dedup_by_key(|&mut (arm, _)| arm);
            if places.len() < listed
                && let Some((name, _)) =
                    [("values", values), ("costs", costs)].iter().find(|(_, list)| !list.is_empty())
            {
                return Err(format!("eligible: names an arm twice, and {name} would be two"));
            }
            if places.binary_search_by_key(&entry.arm, |&(arm, _)| arm).is_err() {
                return Err(format!("eligible: lacks the arm that was chosen, {:?}", arm()));
            }
            self.eligible.extend(places.iter().map(|&(arm, _)| arm));
            for (all, own) in [(&mut self.values, values), (&mut self.costs, costs)] {
                all.extend(places.iter().filter_map(|&(_, place)| own.get(place)));
            }
        }
        if features.len() > MOST_FEATURES {
            return Err(format!("features: {} numbers are more than {MOST_FEATURES}", features.len()));
        }
        if let Some(wrong) = features.iter().find(|value| !value.is_finite()) {
            return Err(format!("features: {wrong} is not a finite number"));
        }
        self.features.extend(features);
        self.entries.push(Entry {
            line,
            arm: entry.arm,
            propensity,
            reward,
            examined,
            eligible_end: self.eligible.len(),
            values_end: self.values.len(),
            costs_end: self.costs.len(),
            features_end: self.features.len(),
        });
        Ok(())
    }

    pub fn iter(&self) -> impl Iterator<Item = Logged<'_>> {
        let (mut eligible, mut values, mut costs, mut features) = (0, 0, 0, 0);
        self.entries.iter().map(move |entry| {
            let logged = Logged {
                line: entry.line,
                arm: entry.arm,
                propensity: entry.propensity,
                reward: entry.reward,
                eligible: &self.eligible[eligible..entry.eligible_end],
                values: &self.values[values..entry.values_end],
                costs: &self.costs[costs..entry.costs_end],
                examined: entry.examined,
                features: &self.features[features..entry.features_end],
            };
            (eligible, values) = (entry.eligible_end, entry.values_end);
            (costs, features) = (entry.costs_end, entry.features_end);
            logged
        })
    }
}

/// The numbers of the arms in a log, and their names.
#[derive(Default)]
struct Arms {
    numbers: HashMap<Box<str>, (u32, Box<str>)>,
}

impl Arms {
    fn number(&mut self, name: &str) -> Result<u32, String> {
        let key = without_zeros(name);
        match self.numbers.get(key) {
            Some((number, first)) if **first == *name => return Ok(*number),
            Some((_, first)) => return Err(format!("{name:?} and {first:?} are the same number: write one of them")),
            None => {}
        }
        if name.is_empty() {
            return Err("is empty".into());
        }
        if name.len() > MOST_NAME {
            return Err(format!("is longer than {MOST_NAME} bytes"));
        }
        if name.chars().any(|c| c.is_control() || c == '\u{feff}') {
            return Err(format!("{name:?} contains a control character or a byte order mark"));
        }
        if self.numbers.len() == MOST_ARMS {
            return Err(format!("is the name of one arm more than {MOST_ARMS}: is it an arm?"));
        }
        let number = self.numbers.len() as u32;
        self.numbers.insert(key.into(), (number, name.into()));
        Ok(number)
    }
}

/// A decimal number without the zeros that do not change it: 3 for 03, 3.0 and 3. Other names do not change.
fn without_zeros(name: &str) -> &str {
    let digits = name.strip_prefix('-').unwrap_or(name);
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        && digits.bytes().any(|byte| byte.is_ascii_digit())
        && digits.matches('.').count() <= 1;
    match name.trim_start_matches('0') {
        _ if !is_number => name,
        short if short.contains('.') => short.trim_end_matches('0').trim_end_matches('.'),
        short => short,
    }
}

/// The contents of a line in either format.
#[derive(serde::Deserialize)]
struct Line {
    arm: Name,
    propensity: f64,
    reward: f64,
    #[serde(default)]
    eligible: Option<Vec<Name>>,
    #[serde(default)]
    values: Option<Vec<f64>>,
    #[serde(default)]
    costs: Option<Vec<f64>>,
    #[serde(default)]
    examined: Option<f64>,
    #[serde(default)]
    features: Option<Vec<f32>>,
}

/// The name of an arm. In JSON it may be a whole number.
struct Name(String);

impl<'a> Deserialize<'a> for Name {
    fn deserialize<D: Deserializer<'a>>(from: D) -> Result<Name, D::Error> {
        struct Names;
        impl Visitor<'_> for Names {
            type Value = Name;

            fn expecting(&self, to: &mut fmt::Formatter) -> fmt::Result {
                to.write_str("the name of an arm: text or a whole number")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<Name, E> {
                Ok(Name(name.to_owned()))
            }

            fn visit_u64<E: de::Error>(self, name: u64) -> Result<Name, E> {
                Ok(Name(name.to_string()))
            }

            fn visit_i64<E: de::Error>(self, name: i64) -> Result<Name, E> {
                Ok(Name(name.to_string()))
            }

            /// Some programs write 3 as 3.0. From 2^53 on, different whole numbers become equal.
            fn visit_f64<E: de::Error>(self, name: f64) -> Result<Name, E> {
                let exact = name.fract() == 0.0 && name.abs() < (1u64 << 53) as f64;
                exact
                    .then(|| Name((name as i64).to_string()))
                    .ok_or_else(|| E::invalid_type(de::Unexpected::Float(name), &self))
            }
        }
        from.deserialize_any(Names)
    }
}

enum Format {
    Csv(Header),
    Json,
}

const FIELDS: [&str; 8] = ["arm", "propensity", "reward", "eligible", "features", "values", "examined", "costs"];

/// The header of a CSV file.
struct Header {
    /// The column of each field, or `None` if there is none.
    columns: [Option<usize>; FIELDS.len()],
    /// The number of columns.
    count: usize,
}

pub struct Reader {
    path: PathBuf,
    file: BufReader<File>,
    /// The bytes that were read, and those of the whole file.
    bytes: (u64, u64),
    format: Option<Format>,
    line: Vec<u8>,
    number: u64,
    /// The range of the rewards. It is an option, because a range computed from the rewards would reveal them.
    range: (f64, f64),
    features: Option<usize>,
    arms: Arms,
}

impl Reader {
    pub fn open(path: &Path, range: (f64, f64)) -> Result<Reader, String> {
        let refused = |error: std::io::Error| format!("{}: {error}", path.display());
        // Asks before it opens, because opening a pipe waits for its writer.
        let metadata = std::fs::metadata(path).map_err(refused)?;
        if !metadata.is_file() {
            return Err(format!("{}: is not a regular file. A log is read twice: write it to a file", path.display()));
        }
        Ok(Reader {
            path: path.into(),
            file: BufReader::with_capacity(1 << 16, File::open(path).map_err(refused)?),
            bytes: (0, metadata.len()),
            format: None,
            line: Vec::new(),
            number: 0,
            range,
            features: None,
            arms: Arms::default(),
        })
    }

    fn refused(&self, problem: &str) -> String {
        format!("{}, line {}: {problem}", self.path.display(), self.number)
    }

    /// Reads the next line that is not blank.
    fn next_line(&mut self) -> Result<bool, String> {
        loop {
            self.line.clear();
            let mut limited = self.file.by_ref().take(MOST_LINE as u64 + 1);
            let read = limited.read_until(b'\n', &mut self.line);
            let read = read.map_err(|error| format!("{}: {error}", self.path.display()))?;
            if read == 0 {
                return Ok(false);
            }
            self.bytes.0 += read as u64;
            self.number += 1;
            if self.number == 1 {
                if let Some((_, what)) = OTHER_FILES.iter().find(|(first, _)| self.line.starts_with(first)) {
                    return Err(self.refused(&format!("is {what}, not text in UTF-8")));
                }
                if self.line.starts_with(b"\xef\xbb\xbf") {
                    self.line.drain(..3);
                }
            }
            if self.line.len() > MOST_LINE {
                return Err(self.refused(&format!("is longer than {MOST_LINE} bytes")));
            }
            self.line.truncate(self.line.trim_ascii_end().len());
            match self.line.iter().find(|&&byte| byte < b' ' && byte != b'\t') {
                Some(b'\r') => {
                    return Err(self.refused("a carriage return within the line: end lines with a line feed"));
                }
                Some(byte) => return Err(self.refused(&format!("contains the control character {byte:#04x}"))),
                None if self.line.is_empty() => {}
                None => return Ok(true),
            }
        }
    }

    /// Parses a line. The first one determines the format: it is the header of a CSV file, for which this returns
    /// `None`, or an object.
    fn parse(&mut self, line: &[u8]) -> Result<Option<Line>, String> {
        let line = std::str::from_utf8(line).map_err(|_| "is not UTF-8")?;
        let begin = line.trim_start();
        match &self.format {
            Some(Format::Csv(header)) => return header.parse(&split(line)?).map(Some),
            None if !begin.starts_with(['{', '[']) => {
                self.format = Some(Format::Csv(Header::new(&split(line)?)?));
                return Ok(None);
            }
            // A list would otherwise be an object whose fields have no names.
            _ if !begin.starts_with('{') => return Err("is not an object: write one in each line".into()),
            _ => self.format = Some(Format::Json),
        }
        serde_json::from_str(line).map(Some).map_err(|error| {
            let text = error.to_string(); // it ends with the place, whose line is that in `line`
            let problem = text.rsplit_once(" at line ").map_or(&text[..], |(problem, _)| problem);
            format!("column {}: {problem}", error.column())
        })
    }

    /// Checks a decision, and adds it to the batch.
    fn add(&mut self, line: Line, batch: &mut Batch) -> Result<(), String> {
        let mut number =
            |field: &str, name: &Name| self.arms.number(name.0.trim()).map_err(|problem| format!("{field}: {problem}"));
        let arm = number("arm", &line.arm)?;
        let eligible = line.eligible.map(|names| names.iter().map(|name| number("eligible", name)).collect());
        let eligible: Option<Vec<u32>> = eligible.transpose()?;
        let (values, costs) = (line.values.unwrap_or_default(), line.costs.unwrap_or_default());
        for (name, list) in [("values", &values), ("costs", &costs)] {
            if eligible.is_none() && !list.is_empty() {
                return Err(format!("{name}: need the eligible arms that they are of"));
            }
        }
        let features = line.features.unwrap_or_default();
        let before = *self.features.get_or_insert(features.len());
        if features.len() != before {
            return Err(format!("features: {} numbers, where the lines before have {before}", features.len()));
        }
        let entry = Logged {
            line: self.number,
            arm,
            propensity: line.propensity,
            reward: line.reward,
            eligible: &[],
            values: &[],
            costs: &[],
            examined: line.examined.unwrap_or(1.0),
            features: &features,
        };
        let eligible = eligible.map(|arms| Eligible { arms, values: &values, costs: &costs });
        batch.push(entry, eligible, self.range, || line.arm.0.clone())
    }
}

impl Source for Reader {
    fn read(&mut self, most: usize) -> Result<Batch, String> {
        let mut batch = Batch::default();
        while batch.len() < most && !batch.is_full() && self.next_line()? {
            let line = std::mem::take(&mut self.line);
            let read = self.parse(&line).and_then(|line| line.map_or(Ok(()), |line| self.add(line, &mut batch)));
            self.line = line;
            read.map_err(|problem| self.refused(&problem))?;
        }
        Ok(batch)
    }

    fn lines(&self) -> u64 {
        self.number
    }

    fn progress(&self) -> f64 {
        self.bytes.0 as f64 / self.bytes.1.max(1) as f64
    }

    fn arms(&self) -> usize {
        self.arms.numbers.len()
    }
}

impl Header {
    fn new(names: &[Cow<str>]) -> Result<Header, String> {
        let names: Vec<String> = names.iter().map(|name| name.trim().to_ascii_lowercase()).collect();
        let columns = FIELDS.map(|field| names.iter().position(|name| name == field));
        for (field, column) in FIELDS.iter().zip(columns) {
            if column.is_none() && ["arm", "propensity", "reward"].contains(field) {
                return Err(format!("{field}: the header has no such column; it needs arm,propensity,reward"));
            }
            if names.iter().filter(|name| name == field).count() > 1 {
                return Err(format!("{field}: two columns of this name"));
            }
        }
        Ok(Header { columns, count: names.len() })
    }

    fn parse(&self, fields: &[Cow<str>]) -> Result<Line, String> {
        if fields.len() != self.count {
            return Err(format!("has {} fields, where the header has {}", fields.len(), self.count));
        }
        let text = |which: usize| self.columns[which].map_or("", |column| fields[column].trim());
        // The items of a list in one field. A list without items is absent.
        let list = |which: usize| {
            let items: Vec<&str> = text(which).split([' ', ';', '|', ',']).filter(|item| !item.is_empty()).collect();
            (!items.is_empty()).then_some(items)
        };
        Ok(Line {
            arm: Name(text(0).to_owned()),
            propensity: number(FIELDS[1], text(1))?,
            reward: number(FIELDS[2], text(2))?,
            eligible: list(3).map(|names| names.into_iter().map(|name| Name(name.to_owned())).collect()),
            features: list(4)
                .map(|items| items.into_iter().map(|item| number(FIELDS[4], item)).collect())
                .transpose()?,
            values: list(5).map(|items| items.into_iter().map(|item| number(FIELDS[5], item)).collect()).transpose()?,
            costs: list(7).map(|items| items.into_iter().map(|item| number(FIELDS[7], item)).collect()).transpose()?,
            examined: Some(text(6)).filter(|text| !text.is_empty()).map(|text| number(FIELDS[6], text)).transpose()?,
        })
    }
}

fn number<T: std::str::FromStr>(field: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{field}: {:?} is not a number", text.chars().take(40).collect::<String>()))
}

/// Splits a line of CSV into fields, by RFC 4180. A field does not contain a line break.
fn split(line: &str) -> Result<Vec<Cow<'_, str>>, String> {
    let (mut fields, mut rest) = (Vec::new(), line);
    loop {
        let (field, after) = match rest.strip_prefix('"') {
            Some(quoted) => {
                let end = closing_quote(quoted).ok_or("a quote is not closed in its line")?;
                (quoted[..end].replace("\"\"", "\"").into(), &quoted[end + 1..])
            }
            None => {
                let (field, after) = rest.split_at(rest.find(',').unwrap_or(rest.len()));
                if field.contains('"') {
                    return Err("a quote within a field that does not begin with one".into());
                }
                (field.into(), after)
            }
        };
        fields.push(field);
        rest = match after.strip_prefix(',') {
            Some(more) => more,
            None if after.is_empty() => return Ok(fields),
            None => return Err("text after a closing quote".into()),
        };
    }
}

/// The place of the first quote that is not one of a pair.
fn closing_quote(text: &str) -> Option<usize> {
    let mut at = 0;
    loop {
        at += text[at..].find('"')?;
        if !text[at + 1..].starts_with('"') {
            return Some(at);
        }
        at += 2;
    }
}
