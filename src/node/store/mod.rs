//! The commands over rows of a host's database, in its transaction: for databases other than Redis, and for tests.
//!
//! Each command is a function here and a section of scripts.lua, with the same name for every part; a test compares their
//! replies. A row of a table, a hash in Redis, has the table's key, a zero byte and the field as its key.

mod members;
mod moves;

use super::command::{Command, CommandKind, NO_VERSION};
use std::io::Write;

/// A callback of the host failed: roll the transaction back, and report the command as failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowsFailed;

/// What a callback returned, or that it failed.
pub type Done<T = ()> = std::result::Result<T, RowsFailed>;

/// The host's rows, in one transaction. Two commands of one fleet must not overlap: use a lock for each fleet, or
/// serializable transactions.
pub trait RowStore {
    /// The value of a row.
    ///
    /// # Errors
    /// `RowsFailed`.
    fn get(&mut self, key: &[u8]) -> Done<Option<Vec<u8>>>;
    /// Writes a row.
    ///
    /// # Errors
    /// `RowsFailed`.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Done;
    /// Deletes a row, if there is one.
    ///
    /// # Errors
    /// `RowsFailed`.
    fn delete(&mut self, key: &[u8]) -> Done;
    /// Passes every row whose key begins with `prefix` to `each`, in any order.
    ///
    /// # Errors
    /// `RowsFailed`.
    fn list(&mut self, prefix: &[u8], each: &mut dyn FnMut(&[u8], &[u8])) -> Done;
}

/// Runs a command, and returns its reply. `now` is the database's time in milliseconds.
///
/// # Errors
/// `RowsFailed` if a callback failed, and for a command that lacks keys or arguments. Roll back.
pub fn run<R: RowStore>(rows: &mut R, command: &Command, now: u64) -> Done<Vec<u8>> {
    let mut run = Run { rows, command, now, said: Vec::new() };
    let needs_number =
        !matches!(command.kind, CommandKind::Take | CommandKind::Host | CommandKind::Entrust | CommandKind::Leave);
    if needs_number && !run.mine()? {
        run.say("replaced");
        return Ok(run.said);
    }
    run.say("ok");
    match command.kind {
        CommandKind::Take => run.take()?,
        CommandKind::Round => run.round()?,
        CommandKind::Put => run.put()?,
        CommandKind::News => run.news()?,
        CommandKind::Lead => run.lead()?,
        CommandKind::Contribute => run.contribute()?,
        CommandKind::Collect => run.collect()?,
        CommandKind::Keep => run.keep()?,
        CommandKind::Offer => run.offer()?,
        CommandKind::Host => run.host()?,
        CommandKind::Entrust => run.entrust()?,
        CommandKind::Adopt => run.adopt()?,
        CommandKind::Leave => run.leave()?,
    }
    Ok(run.said)
}

/// The record of a number.
struct Record {
    incarnation: u64,
    life: u64,
    till: u64,
    sent: u64,
    draining: bool,
}

/// What a queue contains: the numbers of its first and its next message, and when all are too old.
struct Span {
    first: u64,
    next: u64,
    till: u64,
}

fn number(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok().filter(|text| !text.starts_with('+'))?;
    text.parse().ok()
}

/// The words of a text that has exactly these, each a number.
fn digits<const N: usize>(text: &[u8]) -> Option<[u64; N]> {
    let words: Option<Vec<u64>> = text.split(|&byte| byte == b' ').map(number).collect();
    words?.try_into().ok()
}

/// A row of a table whose fields are numbers.
type Numbered = (u64, Vec<u8>);

struct Run<'a, R> {
    rows: &'a mut R,
    command: &'a Command,
    now: u64,
    said: Vec<u8>,
}

impl<'a, R: RowStore> Run<'a, R> {
    fn say(&mut self, value: impl AsRef<[u8]>) {
        let value = value.as_ref();
        _ = write!(self.said, "{}:", value.len()); // a vector accepts everything
        self.said.extend_from_slice(value);
    }

    fn say_numbers(&mut self, values: impl IntoIterator<Item = u64>) {
        values.into_iter().for_each(|value| self.say(value.to_string()));
    }

    /// Says why nothing has changed, in place of "ok".
    fn refuse(&mut self, why: &str) {
        self.said.clear();
        self.say(why);
    }

    fn key(&self, key: usize) -> Done<&'a [u8]> {
        self.command.keys.get(key - 1).map(Vec::as_slice).ok_or(RowsFailed)
    }

    /// The keys after that of the records.
    fn keys<const N: usize>(&self) -> Done<[&'a [u8]; N]> {
        let keys = self.command.keys.get(1..).and_then(<[Vec<u8>]>::first_chunk).ok_or(RowsFailed)?;
        Ok(keys.each_ref().map(Vec::as_slice))
    }

    fn text(&self, argument: usize) -> Done<&'a [u8]> {
        self.command.args.get(argument - 1).map(Vec::as_slice).ok_or(RowsFailed)
    }

    fn number(&self, argument: usize) -> Done<u64> {
        number(self.text(argument)?).ok_or(RowsFailed)
    }

    fn row(key: &[u8], field: &[u8]) -> Vec<u8> {
        [key, b"\0", field].concat()
    }

    fn get(&mut self, key: &[u8], field: impl AsRef<[u8]>) -> Done<Option<Vec<u8>>> {
        self.rows.get(&Self::row(key, field.as_ref()))
    }

    fn set(&mut self, key: &[u8], field: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Done {
        self.rows.put(&Self::row(key, field.as_ref()), value.as_ref())
    }

    fn delete(&mut self, key: &[u8], field: impl AsRef<[u8]>) -> Done {
        self.rows.delete(&Self::row(key, field.as_ref()))
    }

    /// The rows of a table whose fields are numbers, in their order; and how many rows it has.
    fn all(&mut self, key: &[u8]) -> Done<(Vec<Numbered>, usize)> {
        let (prefix, mut found, mut rows) = (Self::row(key, b""), Vec::new(), 0);
        self.rows.list(&prefix, &mut |field, value| {
            rows += 1;
            found.extend(number(&field[prefix.len()..]).map(|number| (number, value.to_vec())));
        })?;
        found.sort_unstable();
        Ok((found, rows))
    }

    fn record(&mut self, of: u64) -> Done<Option<Record>> {
        let text = self.get(self.key(1)?, of.to_string())?;
        Ok(text.as_deref().and_then(Record::read))
    }

    fn hold(&mut self, number: u64, record: &Record) -> Done {
        let Record { incarnation, life, till, sent, draining } = record;
        let draining = u8::from(*draining);
        self.set(self.key(1)?, number.to_string(), format!("{incarnation} {life} {till} {sent} {draining}"))
    }

    /// Whether the member holds its number: the record has its life, or an older incarnation, which is what a replica
    /// that lags brings back.
    fn mine(&mut self) -> Done<bool> {
        let (own, life) = (self.number(2)?, self.number(3)?);
        let record = self.record(self.number(1)?)?;
        Ok(record.is_none_or(|r| r.incarnation < own || r.incarnation == own && r.life == life))
    }

    fn renew(&mut self, lease: u64, draining: bool) -> Done<u64> {
        let [own, incarnation, life] = [self.number(1)?, self.number(2)?, self.number(3)?];
        let sent = self.record(own)?.filter(|record| record.life == life).map_or(0, |record| record.sent);
        self.hold(own, &Record { incarnation, life, till: self.now.saturating_add(lease), sent, draining })?;
        Ok(sent)
    }

    fn count(&mut self, counts: &[u8], name: &str) -> Done<u64> {
        Ok(self.get(counts, name)?.as_deref().and_then(number).unwrap_or(0))
    }

    fn increase(&mut self, counts: &[u8], name: &str) -> Done<u64> {
        let count = self.count(counts, name)? + 1;
        self.set(counts, name, count.to_string())?;
        Ok(count)
    }

    fn interrupt(&mut self, counts: &[u8], beat: u64) -> Done {
        self.increase(counts, "breaks")?;
        self.set(counts, "broken", beat.to_string())
    }

    fn version(&mut self, versions: &[u8], of: u64) -> Done<String> {
        let text = self.get(versions, of.to_string())?;
        Ok(text.and_then(|text| String::from_utf8(text).ok()).unwrap_or_else(|| NO_VERSION.into()))
    }

    fn queue(&mut self, key: &[u8]) -> Done<Span> {
        let text = self.get(key, "q")?;
        if let Some([first, next, till]) = text.as_deref().and_then(digits) {
            let span = Span { first, next, till };
            if till > self.now {
                return Ok(span);
            }
            self.clear(key, &span)?;
        }
        Ok(Span { first: 1, next: 1, till: 0 })
    }

    fn clear(&mut self, key: &[u8], span: &Span) -> Done {
        for message in span.first..span.next {
            self.delete(key, message.to_string())?;
        }
        self.delete(key, "q")
    }

    fn push(&mut self, key: &[u8], message: &[u8], most: u64, lifetime: u64) -> Done {
        let Span { mut first, next, .. } = self.queue(key)?;
        if next - first >= most {
            self.delete(key, first.to_string())?;
            first += 1;
        }
        self.set(key, next.to_string(), message)?;
        self.set(key, "q", format!("{first} {} {}", next + 1, self.now.saturating_add(lifetime)))
    }

    fn acknowledge(&mut self, key: &[u8], last: u64, mark: &[u8]) -> Done {
        let span = self.queue(key)?;
        let message = if last > 0 { self.get(key, last.to_string())? } else { None };
        if !message.is_some_and(|message| message.starts_with(mark)) {
            return Ok(());
        }
        if last + 1 >= span.next {
            return self.clear(key, &span);
        }
        for message in span.first..=last {
            self.delete(key, message.to_string())?;
        }
        self.set(key, "q", format!("{} {} {}", last + 1, span.next, span.till))
    }

    /// Deletes messages up to the position in the arguments from `at` on, and says those of the portion after it.
    fn deliver(&mut self, key: &[u8], at: usize) -> Done {
        self.acknowledge(key, self.number(at)?, self.text(at + 1)?)?;
        let (most, bytes) = (self.number(at + 2)?, self.number(at + 3)?);
        let Span { first, next, .. } = self.queue(key)?;
        let (mut found, mut size) = (Vec::new(), 0);
        for at in first..next.min(first.saturating_add(most)) {
            let message = self.get(key, at.to_string())?.unwrap_or_default();
            size += message.len() as u64;
            if size > bytes && !found.is_empty() {
                break;
            }
            found.push((at, message));
        }
        self.say_numbers([found.len() as u64]);
        for (at, message) in found {
            self.say_numbers([at]);
            self.say(message);
        }
        Ok(())
    }
}

impl Record {
    fn read(text: &[u8]) -> Option<Record> {
        let [incarnation, life, till, sent, draining] = digits(text)?;
        Some(Record { incarnation, life, till, sent, draining: draining != 0 })
    }
}
