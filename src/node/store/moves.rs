//! The commands that move sums, rewards and states: CONTRIBUTE, COLLECT, KEEP, OFFER, HOST, ENTRUST, ADOPT.

use super::{Done, Record, RowStore, Run, Span, number};

impl<R: RowStore> Run<'_, R> {
    pub(super) fn contribute(&mut self) -> Done {
        let message = [format!("{} {} ", self.number(3)?, self.number(4)?).as_bytes(), self.text(7)?].concat();
        self.push(self.key(2)?, &message, self.number(5)?, self.number(6)?)
    }

    pub(super) fn collect(&mut self) -> Done {
        self.deliver(self.key(2)?, 4)
    }

    pub(super) fn keep(&mut self) -> Done {
        self.renew(self.number(4)?, true)?;
        self.deliver(self.key(2)?, 5)
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
        self.say(open);
        Ok(())
    }

    pub(super) fn host(&mut self) -> Done {
        let [alive, offers] = self.keys()?;
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
        self.say_numbers([host.0]);
        self.say(host.1);
        Ok(())
    }

    pub(super) fn entrust(&mut self) -> Done {
        let [alive, states] = self.keys()?;
        let (own, incarnation, lease, receiver) = (self.number(1)?, self.number(2)?, self.number(4)?, self.number(5)?);
        if self.mine()? {
            let till = self.now.saturating_add(lease);
            self.hold(own, &Record { incarnation, life: 0, till, sent: 0, draining: true })?;
            self.delete(alive, own.to_string())?;
        }
        let mark = format!("{receiver} {own} ");
        let Span { first, next, .. } = self.queue(states)?;
        for at in first..next {
            if self.get(states, at.to_string())?.is_some_and(|message| message.starts_with(mark.as_bytes())) {
                return Ok(());
            }
        }
        let message = [format!("{mark}{incarnation} {} ", self.now).as_bytes(), self.text(6)?].concat();
        self.push(states, &message, next - first + 1, lease)
    }

    pub(super) fn adopt(&mut self) -> Done {
        let (states, own, till) = (self.key(2)?, self.number(1)?, self.now + self.number(4)?);
        self.acknowledge(states, self.number(5)?, self.text(6)?)?;
        let Span { first, next, .. } = self.queue(states)?;
        self.say_numbers([u64::from(first < next)]);
        if first == next {
            return Ok(());
        }
        let message = self.get(states, first.to_string())?.unwrap_or_default();
        let mut words = message.splitn(5, |&byte| byte == b' ');
        let numbers = [(); 4].map(|()| words.next().and_then(number));
        let ([Some(receiver), Some(number), Some(incarnation), Some(since)], Some(state)) = (numbers, words.next())
        else {
            self.say_numbers([first, 0, 0, 0, 0, 0]);
            self.say("");
            return Ok(());
        };
        let given = incarnation + 1;
        let sent = match self.record(number)? {
            _ if number == own => None,
            Some(record) if record.incarnation == given && record.life == receiver => Some(record.sent),
            record => record.is_none_or(|record| record.incarnation == incarnation).then_some(0),
        };
        if let Some(sent) = sent {
            self.hold(number, &Record { incarnation: given, life: receiver, till, sent, draining: true })?;
        }
        let age = self.now.saturating_sub(since);
        self.say_numbers([first, receiver, number, incarnation, sent.is_some().into(), age]);
        self.say(state);
        Ok(())
    }
}
