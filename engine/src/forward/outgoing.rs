//! A question on its way to other servers.

use std::sync::Arc;

use nodens_wire::{Flags, HEADER_LEN, Name, Rclass, Rcode, Rtype, edns};
use smallvec::SmallVec;

use super::Canary;
use crate::time::Instant;

/// What is asked of an upstream. Each hop has an OPT of its own, so nothing of the client's goes in unseen.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// In the client's letter case.
    pub name: Name<'a>,
    /// The type.
    pub rtype: Rtype,
    /// The class.
    pub rclass: Rclass,
    /// The client's: opcode, RD, CD, AD and Z of them go out.
    pub flags: Flags,
    /// Signatures are wanted.
    pub dnssec_ok: bool,
    /// The largest UDP reply that is wanted.
    pub udp_size: u16,
    /// EDNS options in wire form.
    pub options: &'a [u8],
    /// The client came by a stream, and so does the question go out.
    pub client_is_stream: bool,
    /// When the client asked: its [`BUDGET`](super::BUDGET) counts from then.
    pub since: Instant,
    /// It is the question that is not to come back.
    pub canary: Option<&'a Arc<Canary>>,
}

/// Bytes of the length in front of a message on a stream.
pub(super) const FRAME_LEN: usize = 2;

/// Bytes of most questions, and more.
const BYTES_FEW: usize = 96;

/// A message with its length in front, as a stream takes it; a datagram goes without.
#[derive(Debug)]
pub(super) struct Framed {
    bytes: SmallVec<[u8; BYTES_FEW]>,
    question_len: usize,
}

impl Framed {
    /// The message with id 0.
    pub(super) fn new(question: &Outgoing<'_>) -> Self {
        let options = &question.options[..question.options.len().min(OPTIONS_LEN_MAX)];
        let mut framed = Self::without_opt(question.name, question.rtype, question.rclass, question.flags);
        let bytes = &mut framed.bytes;
        // One additional record.
        bytes[FRAME_LEN + HEADER_LEN - 1] = 1;
        let (size, dnssec_ok) = (question.udp_size, question.dnssec_ok);
        let front = edns::opt_front(size, Rcode::NOERROR, dnssec_ok, options.len() as u16);
        bytes.extend_from_slice(&front);
        bytes.extend_from_slice(options);
        framed.measure();
        framed
    }

    /// The same without EDNS.
    pub(super) fn probe(name: Name<'_>, recursion: bool) -> Self {
        let mut framed = Self::without_opt(name, Rtype::NS, Rclass::IN, Flags::default().with_rd(recursion));
        framed.measure();
        framed
    }

    fn without_opt(name: Name<'_>, rtype: Rtype, rclass: Rclass, flags: Flags) -> Self {
        let flags = Flags::default()
            .with_opcode(flags.opcode())
            .with_rd(flags.rd())
            .with_cd(flags.cd())
            .with_ad(flags.ad())
            .with_z(flags.z());
        let [flags_high, flags_low] = flags.0.to_be_bytes();
        let header: [u8; FRAME_LEN + HEADER_LEN] = [0, 0, 0, 0, flags_high, flags_low, 0, 1, 0, 0, 0, 0, 0, 0];
        let (rtype, rclass) = (rtype.0.to_be_bytes(), rclass.0.to_be_bytes());
        let mut bytes = SmallVec::with_capacity(header.len() + name.len() + 4 + edns::OPT_LEN);
        bytes.extend_from_slice(&header);
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(&[rtype[0], rtype[1], rclass[0], rclass[1]]);
        Self {
            bytes,
            question_len: name.len() + 4,
        }
    }

    fn measure(&mut self) {
        let len = (self.bytes.len() - FRAME_LEN) as u16;
        self.bytes[..FRAME_LEN].copy_from_slice(&len.to_be_bytes());
    }

    pub(super) fn has_opt(&self) -> bool {
        self.bytes.len() > self.question_end()
    }

    /// For a server that does not know EDNS.
    pub(super) fn drop_opt(&mut self) {
        self.bytes.truncate(self.question_end());
        self.bytes[FRAME_LEN + HEADER_LEN - 1] = 0;
        self.measure();
    }

    fn question_end(&self) -> usize {
        FRAME_LEN + HEADER_LEN + self.question_len
    }

    pub(super) fn set_id(&mut self, id: u16) {
        self.bytes[FRAME_LEN..FRAME_LEN + 2].copy_from_slice(&id.to_be_bytes());
    }

    /// With the length.
    pub(super) fn frame(&self) -> &[u8] {
        &self.bytes
    }

    /// Without.
    pub(super) fn message(&self) -> &[u8] {
        &self.bytes[FRAME_LEN..]
    }

    /// Name, type and class.
    pub(super) fn question(&self) -> &[u8] {
        &self.bytes[FRAME_LEN + HEADER_LEN..self.question_end()]
    }
}

/// Bytes of options that any message has room for.
const OPTIONS_LEN_MAX: usize = 32 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use nodens_wire::{NameBuf, Query};

    #[test]
    fn what_goes_out() {
        let name = NameBuf::from_text("WwW.cedar.example").unwrap();
        let mut framed = Framed::new(&Outgoing {
            name: name.as_name(),
            rtype: Rtype::AAAA,
            rclass: Rclass::IN,
            flags: Flags(0xffff).with_opcode(nodens_wire::Opcode::NOTIFY),
            dnssec_ok: true,
            udp_size: 1400,
            options: &[0, 8, 0, 4, 0, 1, 0, 0],
            client_is_stream: false,
            since: Instant(0),
            canary: None,
        });
        framed.set_id(0xabcd);
        let query = Query::parse(framed.message()).unwrap();
        assert_eq!(query.qname.as_bytes(), name.as_bytes());
        assert_eq!((query.id, query.rtype), (0xabcd, Rtype::AAAA));
        // Neither QR, AA, TC, RA nor an rcode.
        assert_eq!(query.flags, Flags(4 << 11 | 0x0170));
        let opt = query.opt.unwrap();
        assert_eq!((opt.udp_size, opt.version, opt.dnssec_ok), (1400, 0, true));
        assert_eq!(opt.option(edns::ECS), Some(&[0, 1, 0, 0][..]));
        assert_eq!(query.len, framed.message().len());
        assert_eq!(framed.question(), query.question());
        let (len, message) = framed.frame().split_first_chunk::<2>().unwrap();
        assert_eq!(usize::from(u16::from_be_bytes(*len)), message.len());
        assert!(framed.has_opt());
        framed.drop_opt();
        let query = Query::parse(framed.message()).unwrap();
        assert!(query.opt.is_none() && !framed.has_opt() && query.id == 0xabcd);
        assert_eq!(framed.frame()[..2], (query.len as u16).to_be_bytes());
    }

    #[test]
    fn a_probe_has_no_opt() {
        let framed = Framed::probe(Name::ROOT, true);
        let query = Query::parse(framed.message()).unwrap();
        assert_eq!((query.rtype, query.flags), (Rtype::NS, Flags::default().with_rd(true)));
        assert!(query.opt.is_none() && query.qname.is_root());
    }
}
