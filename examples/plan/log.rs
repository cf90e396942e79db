//! Reads a log of decisions, CSV or JSON lines, line by line in constant memory.

use indicatif::ProgressBar;
use serde_json::Value;
use std::collections::HashMap;
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

/// Consecutive decisions of the log. The eligible arms of all are in one list, and the features of all in another.
#[derive(Default)]
pub struct Batch {
    entries: Vec<Entry>,
    eligible: Vec<u32>,
    features: Vec<f32>,
}

struct Entry {
    arm: u32,
    propensity: f64,
    reward: f64,
    eligible_end: usize,
    features_end: usize,
}

/// One decision of the log.
#[derive(Clone, Copy)]
pub struct Logged<'a> {
    pub arm: u32,
    /// The probability with which the log's policy chose this arm.
    pub propensity: f64,
    pub reward: f64,
    /// The eligible arms. Empty: all arms.
    pub eligible: &'a [u32],
    /// The features. Empty: none.
    pub features: &'a [f32],
}

impl Batch {
    pub fn iter(&self) -> impl Iterator<Item = Logged<'_>> {
        let (mut eligible, mut features) = (0, 0);
        self.entries.iter().map(move |entry| {
            let logged = Logged {
                arm: entry.arm,
                propensity: entry.propensity,
                reward: entry.reward,
                eligible: &self.eligible[eligible..entry.eligible_end],
                features: &self.features[features..entry.features_end],
            };
            (eligible, features) = (entry.eligible_end, entry.features_end);
            logged
        })
    }

    fn clear(&mut self) {
        self.entries.clear();
        self.eligible.clear();
        self.features.clear();
    }
}

/// The numbers of the arms in a log, by name.
#[derive(Default)]
pub struct Arms {
    numbers: HashMap<Box<str>, u32>,
}

impl Arms {
    pub fn count(&self) -> usize {
        self.numbers.len()
    }

    fn number(&mut self, name: &str) -> Result<u32, String> {
        if let Some(&number) = self.numbers.get(name) {
            return Ok(number);
        }
        if name.is_empty() {
            return Err("is empty".into());
        }
        if name.len() > MOST_NAME {
            return Err(format!("is longer than {MOST_NAME} bytes"));
        }
        if self.count() == MOST_ARMS {
            return Err(format!("is the name of one arm more than {MOST_ARMS}: is it an arm?"));
        }
        let number = self.count() as u32;
        self.numbers.insert(name.into(), number);
        Ok(number)
    }
}

enum Format {
    Csv(Columns),
    Json,
}

const FIELDS: [&str; 5] = ["arm", "propensity", "reward", "eligible", "features"];
/// The column of each field, or `None` if there is none.
type Columns = [Option<usize>; 5];

pub struct Reader {
    path: PathBuf,
    file: BufReader<Box<dyn Read>>,
    format: Option<Format>,
    line: Vec<u8>,
    number: u64,
    /// The range of the rewards. It is an option, because a range computed from the rewards would reveal them.
    range: (f64, f64),
    features: Option<usize>,
    fields: CsvLine,
}

impl Reader {
    /// Opens a log. The bar shows the bytes that were read.
    pub fn open(path: &Path, range: (f64, f64), bar: &ProgressBar) -> Result<Reader, String> {
        let file = File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let length = file.metadata().map_or(0, |metadata| metadata.len());
        bar.set_length(length);
        bar.set_position(0);
        Ok(Reader {
            path: path.into(),
            file: BufReader::with_capacity(1 << 16, Box::new(bar.wrap_read(file))),
            format: None,
            line: Vec::new(),
            number: 0,
            range,
            features: None,
            fields: CsvLine {
                parser: csv_core::Reader::new(), // not the derived default, which is not an initialised parser
                text: Vec::new(),
                ends: Vec::new(),
                count: 0,
            },
        })
    }

    /// Reads up to `most` decisions into the batch. At the end of the file, the batch is empty.
    pub fn read(&mut self, batch: &mut Batch, arms: &mut Arms, most: usize) -> Result<(), String> {
        batch.clear();
        while batch.entries.len() < most && self.next_line()? {
            let read = self.decision(batch, arms);
            read.map_err(|problem| self.refused(&problem))?;
        }
        Ok(())
    }

    /// The number of the last line that was read.
    pub fn line(&self) -> u64 {
        self.number
    }

    pub fn features(&self) -> usize {
        self.features.unwrap_or(0)
    }

    fn refused(&self, problem: &str) -> String {
        format!(
            "{}, line {}{}{problem}",
            self.path.display(),
            self.number,
            if problem.starts_with(',') { "" } else { ": " }
        )
    }

    /// Reads the next line that is not blank.
    fn next_line(&mut self) -> Result<bool, String> {
        loop {
            self.line.clear();
            let mut limited = self.file.by_ref().take(MOST_LINE as u64 + 1);
            let read = limited.read_until(b'\n', &mut self.line);
            if read.map_err(|error| format!("{}: {error}", self.path.display()))? == 0 {
                return Ok(false);
            }
            self.number += 1;
            if self.line.len() > MOST_LINE {
                return Err(self.refused(&format!("is longer than {MOST_LINE} bytes")));
            }
            if self.number == 1 && self.line.starts_with(b"\xef\xbb\xbf") {
                self.line.drain(..3);
            }
            self.line.truncate(self.line.trim_ascii_end().len());
            if !self.line.is_empty() {
                self.line.push(b'\n');
                return Ok(true);
            }
        }
    }

    /// Reads the decision of this line. The first line determines the format: it is the header of a CSV file, or an
    /// object.
    fn decision(&mut self, batch: &mut Batch, arms: &mut Arms) -> Result<(), String> {
        let format = match &self.format {
            Some(format) => format,
            None if self.line.trim_ascii_start().starts_with(b"{") => self.format.insert(Format::Json),
            None => {
                self.fields.split(&self.line)?;
                self.format = Some(Format::Csv(header(&self.fields)?));
                return Ok(());
            }
        };
        let line = match format {
            Format::Csv(columns) => {
                self.fields.split(&self.line)?;
                self.fields.decision(columns, batch, arms)
            }
            Format::Json => json(&self.line, batch, arms),
        };
        let (arm, propensity, reward) = line.map_err(|(field, problem)| format!(", {field}: {problem}"))?;
        if !(propensity > 0.0 && propensity <= 1.0) {
            return Err(format!(", propensity: {propensity} is not a probability above 0"));
        }
        let (low, high) = self.range;
        if !(reward >= low && reward <= high) {
            return Err(format!(", reward: {reward} is not in {low}..={high} (--reward-min, --reward-max)"));
        }
        let begin = batch.entries.last().map_or((0, 0), |last| (last.eligible_end, last.features_end));
        let (eligible, features) = (&mut batch.eligible, &batch.features[begin.1..]);
        if eligible.len() > begin.0 {
            eligible[begin.0..].sort_unstable();
            let mut kept = begin.0;
            for at in begin.0..eligible.len() {
                if at == begin.0 || eligible[at] != eligible[kept - 1] {
                    eligible[kept] = eligible[at];
                    kept += 1;
                }
            }
            eligible.truncate(kept);
            if eligible[begin.0..].binary_search(&arm).is_err() {
                return Err(", eligible: lacks the arm that was chosen".into());
            }
        }
        let before = *self.features.get_or_insert(features.len());
        if features.len() != before {
            return Err(format!(", features: {} numbers, where the lines before have {before}", features.len()));
        }
        if features.len() > MOST_FEATURES {
            return Err(format!(", features: {} numbers are more than {MOST_FEATURES}", features.len()));
        }
        if let Some(wrong) = features.iter().find(|value| !value.is_finite()) {
            return Err(format!(", features: {wrong} is not a finite number"));
        }
        let (eligible_end, features_end) = (batch.eligible.len(), batch.features.len());
        batch.entries.push(Entry { arm, propensity, reward, eligible_end, features_end });
        Ok(())
    }
}

/// The name of a field, and the error in it.
type Refusal = (&'static str, String);

fn header(fields: &CsvLine) -> Result<Columns, String> {
    let names: Vec<String> = (0..fields.count).map(|at| fields.get(at).trim().to_ascii_lowercase()).collect();
    let columns = FIELDS.map(|field| names.iter().position(|name| name == field));
    for (field, column) in FIELDS.iter().zip(columns) {
        if column.is_none() && ["arm", "propensity", "reward"].contains(field) {
            return Err(format!(", {field}: the header has no such column; it needs arm,propensity,reward"));
        }
        if names.iter().filter(|name| name == field).count() > 1 {
            return Err(format!(", {field}: two columns of this name"));
        }
    }
    Ok(columns)
}

/// The fields of a line of CSV.
struct CsvLine {
    parser: csv_core::Reader,
    text: Vec<u8>,
    ends: Vec<usize>,
    count: usize,
}

impl CsvLine {
    /// Splits a line into fields. The line ends with a newline, so that the parser detects an open quote.
    fn split(&mut self, line: &[u8]) -> Result<(), String> {
        std::str::from_utf8(line).map_err(|_| "is not UTF-8")?;
        self.text.resize(line.len() + 1, 0);
        self.ends.resize(line.len() + 1, 0);
        self.parser.reset();
        let (result, _, _, count) = self.parser.read_record(line, &mut self.text, &mut self.ends);
        self.count = count;
        match result {
            csv_core::ReadRecordResult::Record => Ok(()),
            _ => Err("a quote is not closed".into()),
        }
    }

    fn get(&self, at: usize) -> &str {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        std::str::from_utf8(&self.text[start..self.ends[at]]).unwrap_or_default()
    }

    fn decision(&self, columns: &Columns, batch: &mut Batch, arms: &mut Arms) -> Result<(u32, f64, f64), Refusal> {
        let field = |which: usize| match columns[which] {
            Some(at) if at < self.count => Ok(self.get(at).trim()),
            Some(_) => Err((FIELDS[which], "is missing: the line has fewer fields than the header".to_owned())),
            None => Ok(""),
        };
        let number = |which: usize| {
            let text = field(which)?;
            text.parse().map_err(|_| (FIELDS[which], format!("{} is not a number", quoted(text))))
        };
        let arm = arms.number(field(0)?).map_err(|problem| (FIELDS[0], problem))?;
        for name in list(field(3)?) {
            batch.eligible.push(arms.number(name).map_err(|problem| (FIELDS[3], problem))?);
        }
        for text in list(field(4)?) {
            let value = text.parse().map_err(|_| (FIELDS[4], format!("{} is not a number", quoted(text))))?;
            batch.features.push(value);
        }
        Ok((arm, number(1)?, number(2)?))
    }
}

/// The items of a list in one field of CSV.
fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split([' ', ';', '|', ',']).filter(|item| !item.is_empty())
}

/// The first 40 characters of a text, quoted for a message.
fn quoted(text: &str) -> String {
    format!("{:?}", text.chars().take(40).collect::<String>())
}

fn json(line: &[u8], batch: &mut Batch, arms: &mut Arms) -> Result<(u32, f64, f64), Refusal> {
    let value: Value = serde_json::from_slice(line).map_err(|error| ("JSON", error.to_string()))?;
    let shown = |value: &Value| quoted(&value.to_string());
    let mut arm = |value: &Value, field| {
        let number = match value {
            Value::String(name) => arms.number(name),
            Value::Number(number) => arms.number(&number.to_string()),
            other => Err(format!("{} is neither text nor a number", shown(other))),
        };
        number.map_err(|problem| (field, problem))
    };
    let number = |value: &Value, field| value.as_f64().ok_or((field, format!("{} is not a number", shown(value))));
    let field = |field: &'static str| value.get(field).ok_or((field, "is missing".to_owned()));
    let items = |field: &'static str| match value.get(field) {
        None | Some(Value::Null) => Ok(&[][..]),
        Some(Value::Array(items)) => Ok(&items[..]),
        Some(other) => Err((field, format!("{} is not a list", shown(other)))),
    };
    let chosen = arm(field("arm")?, "arm")?;
    for item in items("eligible")? {
        batch.eligible.push(arm(item, "eligible")?);
    }
    for item in items("features")? {
        batch.features.push(number(item, "features")? as f32);
    }
    Ok((chosen, number(field("propensity")?, "propensity")?, number(field("reward")?, "reward")?))
}
