//! The commands that move sums, rewards and states: CONTRIBUTE, COLLECT, KEEP, OFFER, HOST, ENTRUST, ADOPT.

use super::{Done, Record, RowStore, Run, Span, head};

impl<R: RowStore> Run<'_, R> {
    pub(super) fn contribute(&mut self) -> Done {
        if self.replaced()? {
            return Ok(());
        }
        let message = [format!("{} {} ", self.life()?, self.number(4)?).as_bytes(), self.text(7)?].concat();
        self.push(self.key(2)?, &message, self.number(5)?, self.number(6)?)?;
        self.say("ok");
        Ok(())
    }

    pub(super) fn collect(&mut self) -> Done {
        if self.replaced()? {
            return Ok(());
        }
        self.acknowledge(self.key(2)?, self.number(4)?, self.text(5)?)?;
        self.say("ok");
        self.read(self.key(2)?, self.number(6)?, self.number(7)?)
    }

    pub(super) fn keep(&mut self) -> Done {
        if self.replaced()? {
            return Ok(());
        }
        self.renew(self.number(4)?, true)?;
        self.acknowledge(self.key(2)?, self.number(5)?, self.text(6)?)?;
        self.say("ok");
        self.read(self.key(2)?, self.number(7)?, self.number(8)?)
    }

    /// The incarnation, the sequence and the open receivers of a number's offer, each of these after a space.
    fn offered(&mut self, offers: &[u8], of: u64) -> Done<Option<(u64, u64, String)>> {
        let text = String::from_utf8(self.get(offers, of.to_string())?.unwrap_or_default()).unwrap_or_default();
        let mut words = text.splitn(3, ' ');
        let (incarnation, sequence) = (words.next().map(str::parse), words.next().map(str::parse));
        let (Some(Ok(incarnation)), Some(Ok(sequence))) = (incarnation, sequence) else { return Ok(None) };
        Ok(Some((incarnation, sequence, words.next().map_or(String::new(), |open| format!(" {open}")))))
    }

    pub(super) fn offer(&mut self) -> Done {
        let offers = self.key(2)?;
        if self.replaced()? {
            return Ok(());
        }
        let (own, incarnation, given) = (self.number(1)?, self.number(2)?, self.number(4)?);
        let before = self.offered(offers, own)?.filter(|before| before.0 == incarnation);
        let (_, sequence, mut open) = before.unwrap_or_default();
        if given > sequence {
            for receiver in self.command.args.get(5..).unwrap_or_default() {
                open += &format!(" {}", String::from_utf8_lossy(receiver));
            }
            let still = if self.text(5)? == b"1" { "" } else { &open };
            self.set(offers, own.to_string(), format!("{incarnation} {given}{still}"))?;
        }
        self.say("ok");
        self.say(open);
        Ok(())
    }

    pub(super) fn host(&mut self) -> Done {
        let [alive, offers] = [self.key(2)?, self.key(3)?];
        let (own, asked, draw) = (self.number(1)?, self.number(4)?, self.number(5)?);
        let nodes: Vec<u64> =
            if asked != 0 { vec![asked] } else { self.all(alive)?.0.iter().map(|row| row.0).collect() };
        let mut host = (0, "0".to_owned());
        for i in 1..=nodes.len() {
            let node = nodes[(draw as usize + i) % nodes.len()];
            let Some((incarnation, sequence, open)) = self.offered(offers, node)? else { continue };
            let holds = self.record(node)?.is_some_and(|record| record.incarnation == incarnation);
            if !holds || self.beat(alive, node)?.is_none() || node == own {
                continue;
            }
            let Some(open) = open.strip_prefix(' ') else { continue };
            let (first, others) = open.split_at(open.find(' ').unwrap_or(open.len()));
            self.set(offers, node.to_string(), format!("{incarnation} {sequence}{others}"))?;
            host = (node, first.into());
            break;
        }
        self.say("ok");
        self.say_number(host.0);
        self.say(host.1);
        Ok(())
    }

    pub(super) fn entrust(&mut self) -> Done {
        let [alive, states] = [self.key(2)?, self.key(3)?];
        let (own, incarnation, lease, receiver) = (self.number(1)?, self.number(2)?, self.number(4)?, self.number(5)?);
        if self.mine()? {
            let till = self.now.saturating_add(lease);
            self.hold(own, &Record { incarnation, life: "0".into(), till, sent: 0, draining: true })?;
            self.delete(alive, own.to_string())?;
        }
        let mark = format!("{receiver} {own} ");
        let Span { first, next, .. } = self.queue(states)?;
        for at in first..next {
            if self.get(states, at.to_string())?.is_some_and(|message| message.starts_with(mark.as_bytes())) {
                self.say("ok");
                return Ok(());
            }
        }
        let message = [format!("{mark}{incarnation} {} ", self.now).as_bytes(), self.text(6)?].concat();
        self.push(states, &message, next - first + 1, lease)?;
        self.say("ok");
        Ok(())
    }

    pub(super) fn adopt(&mut self) -> Done {
        let (states, own, till) = (self.key(2)?, self.number(1)?, self.now + self.number(4)?);
        if self.replaced()? {
            return Ok(());
        }
        self.acknowledge(states, self.number(5)?, self.text(6)?)?;
        let Span { first, next, .. } = self.queue(states)?;
        self.say("ok");
        self.say_number(u64::from(first < next));
        if first == next {
            return Ok(());
        }
        let message = self.get(states, first.to_string())?.unwrap_or_default();
        let Some(([receiver, number, incarnation, since], state)) = head::<4>(&message) else {
            [first, 0, 0, 0, 0, 0].into_iter().for_each(|number| self.say_number(number));
            self.say("");
            return Ok(());
        };
        let (record, life, given) = (self.record(number)?, receiver.to_string(), incarnation + 1);
        let mut held = 1;
        match record {
            _ if number == own => held = 0,
            Some(Record { incarnation: before, life: holder, sent, .. }) if before == given && holder == life => {
                self.hold(number, &Record { incarnation: given, life, till, sent, draining: true })?;
            }
            record if record.as_ref().is_none_or(|record| record.incarnation == incarnation) => {
                self.hold(number, &Record { incarnation: given, life, till, sent: 0, draining: true })?;
            }
            _ => held = 0,
        }
        let age = self.now.saturating_sub(since);
        [first, receiver, number, incarnation, held, age].into_iter().for_each(|n| self.say_number(n));
        self.say(state);
        Ok(())
    }
}
