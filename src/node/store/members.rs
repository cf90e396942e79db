//! The commands of members: TAKE, ROUND, PUT, NEWS, LEAD, LEAVE.

use super::{Done, Record, RowStore, Run, digits, number};

impl<R: RowStore> Run<'_, R> {
    pub(super) fn take(&mut self) -> Done {
        let [alive, counts, versions, snapshots] = self.keys()?;
        let (asked, life, lease, seen) = (self.number(1)?, self.number(3)?, self.number(4)?, self.text(5)?);
        let mut number = asked;
        if asked == 0 {
            let (mut own, mut held) = (None, Vec::new());
            for (other, record) in self.all(self.key(1)?)?.0 {
                let Some(record) = Record::read(&record) else { continue };
                own = own.or((record.life == life).then_some(other));
                if record.till > self.now {
                    held.push(other);
                }
            }
            let lowest = (1..).find(|number| held.binary_search(number).is_err());
            number = own.or(lowest).unwrap_or(u64::MAX);
            if number > 65535 {
                self.refuse("full");
                return Ok(());
            }
        }
        let (record, version, till) = (self.record(number)?, self.version(versions, number)?, self.now + lease);
        let mut incarnation = record.as_ref().map_or(0, |record| record.incarnation);
        match record {
            Some(Record { life: holder, sent, .. }) if holder == life => {
                self.hold(number, &Record { incarnation, life, till, sent, draining: false })?;
            }
            Some(Record { till, draining: false, .. }) if till > self.now => {
                self.refuse("taken");
                self.say_numbers([till - self.now]);
                return Ok(());
            }
            _ if asked != 0 && seen != version.as_bytes() => incarnation = 0,
            _ => {
                let put = version.get(..10).and_then(|half| half.parse().ok()).unwrap_or(0);
                incarnation = incarnation.max(put) + 1;
                self.hold(number, &Record { incarnation, life, till, sent: 0, draining: false })?;
                if let Some(beat) = self.beat(alive, number)? {
                    self.interrupt(counts, beat)?;
                }
                let beats = self.increase(counts, "beats")?;
                self.set(alive, number.to_string(), beats.to_string())?;
            }
        }
        self.say_numbers([number, incarnation]);
        self.say(version);
        let snapshot = self.get(snapshots, number.to_string())?;
        self.say(snapshot.unwrap_or_default());
        Ok(())
    }

    /// The last beat of a number that is alive.
    pub(super) fn beat(&mut self, alive: &[u8], of: u64) -> Done<Option<u64>> {
        Ok(self.get(alive, of.to_string())?.as_deref().and_then(number))
    }

    pub(super) fn round(&mut self) -> Done {
        let [alive, counts, versions, rewards, states] = self.keys()?;
        let (own, last, mut late, mut gone) = (self.number(1)?, self.number(5)?, self.number(6)?, self.number(7)?);
        let due = self.number(16)?;
        if due > 0 && self.now > due {
            self.refuse("late");
            self.say_numbers([self.now]);
            return Ok(());
        }
        let mut sent = self.renew(self.number(4)?, false)?;
        let beats = self.increase(counts, "beats")?;
        let before = self.beat(alive, own)?.unwrap_or(0);
        if before < last {
            (late, gone) = (0, 0);
        }
        self.set(alive, own.to_string(), beats.to_string())?;
        let nodes: Vec<(u64, u64)> =
            self.all(alive)?.0.iter().filter_map(|(n, beat)| Some((*n, number(beat)?))).collect();
        let until = |beat: u64| nodes.iter().filter(move |row| row.0 != own && row.1 <= beat).copied();
        let removed: Vec<_> = until(gone).collect();
        for (node, _) in &removed {
            self.delete(alive, node.to_string())?;
        }
        let behind: Vec<_> = until(late).filter(|row| row.1 > gone).collect();
        let broken = removed.iter().map(|row| row.1).chain((before == 0 || before < last).then_some(before)).min();
        if let Some(beat) = broken {
            self.interrupt(counts, beat)?;
        }
        let (mut records, known) = self.all(self.key(1)?)?;
        let held = self.text(9)? == b"1";
        let are_asked = held || known as u64 != self.number(8)?;
        let counts_now = |record: Record| !held || record.till > self.now;
        records.retain(|(_, record)| are_asked && Record::read(record).is_some_and(counts_now));
        let (most, lifetime, first) = (self.number(14)?, self.number(15)?, self.number(17)?);
        for (sequence, i) in (first..).zip((18..=self.command.args.len()).step_by(2)) {
            if sequence > sent {
                let message = [format!("{} {sequence} ", self.number(3)?).as_bytes(), self.text(i + 1)?].concat();
                self.push(self.key(self.number(i)? as usize)?, &message, most, lifetime)?;
                sent = sequence;
            }
        }
        if let Some(record) = self.record(own)? {
            self.hold(own, &Record { sent, ..record })?;
        }
        self.say_numbers([self.now, before, beats, (nodes.len() - removed.len()) as u64]);
        for name in ["breaks", "broken", "news"] {
            let count = self.count(counts, name)?;
            self.say_numbers([count]);
        }
        let (waiting, version) = (self.queue(states)?, self.version(versions, own)?);
        self.say_numbers([waiting.next - waiting.first]);
        self.say(version);
        self.say_numbers([sent, known as u64]);
        for rows in [removed, behind] {
            self.say_numbers([rows.len() as u64]);
            self.say_numbers(rows.into_iter().flat_map(|(node, beat)| [node, beat]));
        }
        self.say_numbers([records.len() as u64]);
        self.say_numbers(records.into_iter().map(|row| row.0));
        self.deliver(rewards, 10)
    }

    pub(super) fn put(&mut self) -> Done {
        let [snapshots, versions, news, counts] = self.keys()?;
        let (own, given) = (self.text(1)?, String::from_utf8_lossy(self.text(4)?).into_owned());
        let mut version = self.version(versions, self.number(1)?)?;
        if version < given {
            version = given;
            self.set(snapshots, own, self.text(6)?)?;
            self.set(versions, own, &version)?;
            if self.text(5)? == b"1" {
                self.set(news, own, &version)?;
                self.increase(counts, "news")?;
            }
        }
        self.say(version);
        Ok(())
    }

    pub(super) fn news(&mut self) -> Done {
        let [news, snapshots] = self.keys()?;
        let (own, most, bytes) = (self.number(1)?, self.number(4)?, self.number(5)?);
        let known = self.command.args.get(5..).unwrap_or_default();
        let is_known = |node: u64, version: &[u8]| {
            known.chunks_exact(2).any(|row| number(&row[0]) == Some(node) && row[1] == version)
        };
        let mut changed = self.all(news)?.0;
        changed.retain(|(node, version)| *node != own && !is_known(*node, version));
        let (mut found, mut size) = (Vec::new(), 0);
        for (node, version) in &changed {
            let snapshot = self.get(snapshots, node.to_string())?.unwrap_or_default();
            size += snapshot.len() as u64;
            if found.len() as u64 >= most || size > bytes && !found.is_empty() {
                break;
            }
            found.push((*node, version, snapshot));
        }
        self.say_numbers([u64::from(found.len() < changed.len()), found.len() as u64]);
        for (node, version, snapshot) in found {
            self.say_numbers([node]);
            self.say(version);
            self.say(snapshot);
        }
        Ok(())
    }

    pub(super) fn lead(&mut self) -> Done {
        let (leaders, fleet) = (self.key(2)?, self.text(4)?);
        let (own, generation, seen, lease) = (self.number(1)?, self.number(5)?, self.number(6)?, self.number(7)?);
        let text = self.get(leaders, fleet)?.unwrap_or_default();
        let [mut node, mut led, mut term, mut till] = digits(&text).unwrap_or_default();
        let leads = node == own && led == generation;
        if leads && till > 0 && lease == 0 {
            (term, till) = (term + 1, 0);
        } else if leads && till > 0 {
            till = self.now + lease;
        } else if till <= self.now && generation != 0 && seen == term && lease > 0 {
            (node, led, term, till) = (own, generation, term + 1, self.now + lease);
        }
        self.set(leaders, fleet, format!("{node} {led} {term} {till}"))?;
        if till <= self.now {
            (node, led) = (0, 0);
        }
        self.say_numbers([node, led, term]);
        Ok(())
    }

    pub(super) fn leave(&mut self) -> Done {
        let [alive, counts] = self.keys()?;
        let own = self.number(1)?;
        let ended = |incarnation| Record { incarnation, life: 0, till: 0, sent: 0, draining: false };
        let Some(record) = self.record(own)? else { return Ok(()) };
        if self.number(3)? != 0 {
            if self.mine()? {
                self.hold(own, &ended(self.number(2)?))?;
                self.delete(alive, own.to_string())?;
            }
        } else if record.life != 0 {
            self.hold(own, &ended(record.incarnation + 1))?;
            let beat = self.beat(alive, own)?.unwrap_or(0);
            self.delete(alive, own.to_string())?;
            self.interrupt(counts, beat)?;
        }
        Ok(())
    }
}
