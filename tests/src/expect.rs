//! One reply against what a case says about it.

use std::sync::LazyLock;

use hickory_proto::op::{Message, MessageType};
use hickory_proto::rr::Record;
use hickory_proto::rr::rdata::opt::EdnsOption;
use regex::Regex;

use crate::ask::from_hex;
use crate::case::{Ask, ReplyEdns, ReplyOpt};
use crate::records::{Line, check_section, line_of, rcode_text, type_text};
use crate::{Mismatch, mismatch};

static BLANKS: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\s+").expect("a valid pattern"));

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// The rcode in the header of a packet that may be anything.
pub fn short_rcode(reply: &[u8]) -> String {
    reply
        .get(3)
        .map_or_else(|| "none".to_owned(), |byte| rcode_text(u16::from(byte & 15)))
}

/// Compares a reply (or none, or the messages of a whole zone) with what is wanted; returns its answers.
///
/// # Errors
/// The first difference.
pub fn check(sent: &[u8], replies: &[Vec<u8>], ask: &Ask) -> Result<Vec<Line>, Mismatch> {
    let none_wanted = ask.no_reply || ask.reply.as_deref() == Some("none");
    let (reply, rest) = replies.split_first().unzip();
    let wire = match reply {
        Some(wire) if none_wanted => mismatch!("a reply where there must be none: {}", hex(wire)),
        None if none_wanted => return Ok(Vec::new()),
        None => mismatch!("no reply"),
        Some(wire) => wire,
    };
    if let Some(pattern) = &ask.reply {
        check_pattern(wire, pattern)?;
    }
    let mut message = match Message::from_vec(wire) {
        Ok(message) => message,
        // Some replies are odd on purpose; their bytes have been compared.
        Err(_) if ask.raw.is_some() && ask.reply.is_some() && ask.rcode.is_none() && ask.answer.is_none() => {
            return Ok(Vec::new());
        }
        Err(error) => mismatch!("the reply does not parse ({error}): {}", hex(wire)),
    };
    if wire.get(..2) != sent.get(..2) {
        mismatch!("another id");
    }
    for more in rest.into_iter().flatten() {
        let more = Message::from_vec(more).map_err(|error| Mismatch(format!("a message does not parse: {error}")))?;
        message.answers.extend(more.answers);
    }
    check_header(&message, ask)?;
    let answers = check_records(&message, ask)?;
    if let Some(question) = &ask.question {
        let got: Vec<String> = message
            .queries
            .iter()
            .map(|q| format!("{} {}", q.name().to_ascii(), type_text(q.query_type())))
            .collect();
        if got.join(" ") != *question {
            mismatch!("question is `{}`, not `{question}`", got.join(" "));
        }
    }
    if ask.reply_size_at_most.is_some_and(|most| wire.len() > most) {
        mismatch!("{} bytes", wire.len());
    }
    if let Some(edns) = &ask.reply_edns {
        check_edns(&message, edns)?;
    }
    Ok(answers)
}

fn check_pattern(wire: &[u8], pattern: &str) -> Result<(), Mismatch> {
    let bare = BLANKS
        .replace_all(pattern, "")
        .to_ascii_lowercase()
        .replace('*', "(?:[0-9a-f]{2})*");
    let Ok(regex) = Regex::new(&format!("^{bare}$")) else {
        mismatch!("`{pattern}` is no pattern")
    };
    if !regex.is_match(&hex(wire)) {
        mismatch!("the reply is {}, not {pattern}", hex(wire));
    }
    Ok(())
}

fn check_header(message: &Message, ask: &Ask) -> Result<(), Mismatch> {
    let head = &message.metadata;
    if let Some(wanted) = &ask.rcode {
        let got = rcode_text(u16::from(head.response_code));
        if !wanted.has(&got) {
            let answers: Vec<String> = message.answers.iter().map(|r| line_of(r).join(" ")).collect();
            mismatch!(
                "rcode {got}, not {}; answer {answers:?}",
                wanted.as_slice().join(" or ")
            );
        }
    }
    let bits = [
        ("qr", ask.qr, head.message_type == MessageType::Response),
        ("aa", ask.aa, head.authoritative),
        ("tc", ask.tc, head.truncation),
        ("rd", ask.rd, head.recursion_desired),
        ("ra", ask.ra, head.recursion_available),
        ("ad", ask.ad, head.authentic_data),
        ("cd", ask.cd, head.checking_disabled),
    ];
    for (name, wanted, got) in bits {
        if wanted.is_some_and(|wanted| wanted != got) {
            mismatch!("flag {name} is {got}");
        }
    }
    Ok(())
}

fn check_records(message: &Message, ask: &Ask) -> Result<Vec<Line>, Mismatch> {
    let lines = |records: &[Record]| -> Vec<Line> { records.iter().map(line_of).collect() };
    let answers = lines(&message.answers);
    let sections = [
        ("answer", &ask.answer, answers.clone()),
        ("authority", &ask.authority, lines(&message.authorities)),
        ("additional", &ask.additional, lines(&message.additionals)),
    ];
    for (title, wanted, got) in sections {
        if let Some(wanted) = wanted {
            check_section(title, &got, wanted, ask.ordered, false)?;
        }
    }
    if let Some(some) = &ask.answer_has {
        check_section("answer", &answers, some, false, true)?;
    }
    if ask.answer_count.is_some_and(|count| count != answers.len()) {
        mismatch!("{} answers", answers.len());
    }
    if ask.answer_count_at_least.is_some_and(|least| answers.len() < least) {
        mismatch!("only {} answers", answers.len());
    }
    for record in message.all_sections() {
        let (most, least) = (ask.ttl_at_most.unwrap_or(u32::MAX), ask.ttl_at_least.unwrap_or(0));
        if !(least..=most).contains(&record.ttl) {
            mismatch!("a TTL of {}", record.ttl);
        }
    }
    Ok(answers)
}

fn check_edns(message: &Message, wanted: &ReplyEdns) -> Result<(), Mismatch> {
    let wanted = match (wanted, &message.edns) {
        (ReplyEdns::Word(word), got) if word == "none" => match got {
            Some(_) => mismatch!("an OPT in the reply"),
            None => return Ok(()),
        },
        (ReplyEdns::Word(word), _) => mismatch!("`reply_edns: {word}`"),
        (ReplyEdns::Opt(_), None) => mismatch!("no OPT in the reply"),
        (ReplyEdns::Opt(wanted), Some(_)) => wanted,
    };
    let Some(edns) = &message.edns else { return Ok(()) };
    let ReplyOpt {
        version,
        udp,
        dnssec_ok,
        flags,
        options,
        no_option,
    } = wanted;
    let got_flags = u16::from(*edns.flags());
    if version.is_some_and(|v| v != edns.version()) {
        mismatch!("EDNS version {}", edns.version());
    }
    // The decoder raises sizes below 512, which no server of ours may send; so what it says is what came.
    if udp.is_some_and(|size| size != edns.max_payload()) {
        mismatch!("EDNS size {}", edns.max_payload());
    }
    if dnssec_ok.is_some_and(|wanted| wanted != (got_flags & 0x8000 != 0)) || flags.is_some_and(|f| f != got_flags) {
        mismatch!("EDNS flags {got_flags:#06x}");
    }
    let mut got: Vec<String> = edns
        .options()
        .options
        .iter()
        .map(|(code, option)| option_text(u16::from(*code), option))
        .collect();
    got.sort();
    if no_option.as_ref().is_some_and(|bad| got.contains(bad)) {
        mismatch!("EDNS options {got:?}");
    }
    if let Some(wanted) = options {
        let mut wanted = wanted.clone();
        wanted.sort();
        if wanted != got {
            mismatch!("EDNS options {got:?}, not {wanted:?}");
        }
    }
    Ok(())
}

fn option_text(code: u16, option: &EdnsOption) -> String {
    let data = Vec::<u8>::try_from(option).unwrap_or_default();
    format!("{code}:{}", hex(&data))
}

/// Whether the hex of a case's `reply` could match at all; for the check of the cases themselves.
pub fn is_pattern(text: &str) -> bool {
    text == "none" || from_hex(&text.replace('.', "0").replace('*', "")).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::question;
    use crate::case::Words;
    use hickory_proto::op::Edns;
    use hickory_proto::rr::RData;
    use hickory_proto::rr::rdata::A;

    fn reply() -> (Vec<u8>, Vec<u8>) {
        let mut message = question("WWW.a. A").unwrap();
        let sent = message.to_vec().unwrap();
        message.metadata.message_type = MessageType::Response;
        message.metadata.authoritative = true;
        let name = message.queries[0].name().clone();
        message.add_answer(Record::from_rdata(name, 7, RData::A(A::new(192, 0, 2, 1))));
        message.set_edns(Edns::new());
        (sent, message.to_vec().unwrap())
    }

    fn right(change: impl FnOnce(&mut Ask)) -> bool {
        let (sent, wire) = reply();
        let mut ask = Ask::default();
        change(&mut ask);
        check(&sent, std::slice::from_ref(&wire), &ask).is_ok()
    }

    #[test]
    fn each_key_tells_right_from_wrong() {
        assert!(
            right(|a| a.rcode = Some(Words::One("NOERROR".into())))
                && !right(|a| a.rcode = Some(Words::One("REFUSED".into())))
        );
        assert!(right(|a| a.aa = Some(true)) && !right(|a| a.aa = Some(false)) && !right(|a| a.tc = Some(true)));
        assert!(
            right(|a| a.answer = Some(vec!["www.a. 7 IN A 192.0.2.1".into()])) && !right(|a| a.answer = Some(vec![]))
        );
        assert!(right(|a| a.authority = Some(vec![])) && right(|a| a.additional = Some(vec![])));
        assert!(right(|a| a.question = Some("WWW.a. A".into())) && !right(|a| a.question = Some("www.a. A".into())));
        assert!(
            right(|a| a.ttl_at_most = Some(7))
                && !right(|a| a.ttl_at_most = Some(6))
                && !right(|a| a.ttl_at_least = Some(8))
        );
        assert!(right(|a| a.answer_count = Some(1)) && !right(|a| a.answer_count_at_least = Some(2)));
        assert!(right(|a| a.reply_size_at_most = Some(100)) && !right(|a| a.reply_size_at_most = Some(20)));
        assert!(right(|a| a.reply = Some(".... 8500 *".into())) && !right(|a| a.reply = Some(".... 8501 *".into())));
        assert!(!right(|a| a.no_reply = true));
        let opt = |opt: ReplyOpt| Some(ReplyEdns::Opt(opt));
        assert!(right(|a| a.reply_edns = opt(ReplyOpt {
            flags: Some(0),
            options: Some(vec![]),
            ..ReplyOpt::default()
        })));
        assert!(!right(|a| a.reply_edns = opt(ReplyOpt {
            dnssec_ok: Some(true),
            ..ReplyOpt::default()
        })));
        assert!(!right(|a| a.reply_edns = Some(ReplyEdns::Word("none".into()))));
    }

    #[test]
    fn no_reply() {
        let ask = Ask {
            no_reply: true,
            ..Ask::default()
        };
        assert!(check(b"", &[], &ask).is_ok());
        assert!(check(b"", &[], &Ask::default()).is_err());
        assert_eq!(short_rcode(&[0, 0, 0, 0x83]), "NXDOMAIN");
    }
}
