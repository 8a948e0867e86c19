//! Rules about options of the OPT: `edns0 local|nsid|subnet ACTION ... [revert]`

use nodens_engine::plan::rewrite::{Change, OptionAction, OptionData, OptionRule, Variable};
use nodens_wire::edns;

use super::Words;
use crate::corefile::diagnostic::Diagnostic;
use crate::corefile::lexer::Word;

const ACTIONS: [(&str, OptionAction); 4] = [
    ("append", OptionAction::Append),
    ("replace", OptionAction::Replace),
    ("set", OptionAction::Set),
    ("unset", OptionAction::Unset),
];

impl Words<'_, '_, '_> {
    pub(super) fn edns0(&mut self) -> Option<Change> {
        let [kind, action, args @ ..] = self.all else {
            self.error(
                self.span,
                "too few arguments for an EDNS0 rule",
                "`local`, `nsid` or `subnet`, and an action",
            );
            return None;
        };
        let action_word = action.text.to_ascii_lowercase();
        let Some((_, action)) = ACTIONS.into_iter().find(|(name, _)| *name == action_word) else {
            let text = format!("plugin/rewrite: invalid action: {action_word:?}");
            self.scope
                .unknown(action.span, text, &action_word, &ACTIONS.map(|(name, _)| name));
            return None;
        };
        let (args, is_reverted) = match args {
            [args @ .., last] if &*last.text == "revert" => (args, true),
            _ => (args, false),
        };
        let rule = match &*kind.text.to_ascii_lowercase() {
            "local" => self.local(action, args),
            "nsid" => match args {
                [] => Some(OptionRule::nsid(action, is_reverted)),
                _ => {
                    self.error(
                        self.span,
                        "EDNS0 NSID rules can not have arguments",
                        "`revert`, or nothing",
                    );
                    None
                }
            },
            "subnet" => self.subnet(action, args),
            other => {
                let text = format!("plugin/rewrite: invalid rule type {:?}", kind.text);
                self.scope.unknown(kind.span, text, other, &["local", "nsid", "subnet"]);
                None
            }
        }?;
        Some(Change::Option(OptionRule { is_reverted, ..rule }))
    }

    fn local(&mut self, action: OptionAction, args: &[&Word]) -> Option<OptionRule> {
        let (code, data) = match (action, args) {
            (OptionAction::Unset, [code]) => (*code, None),
            (OptionAction::Unset, _) => {
                let text = "local unset action requires exactly two arguments";
                self.error(self.span, text, "the code of the option");
                return None;
            }
            (_, [code, data]) => (*code, Some(*data)),
            _ => {
                let text = "EDNS0 local rules require exactly three args";
                self.error(self.span, text, "the code of the option and what stands in it");
                return None;
            }
        };
        let number = match code.text.strip_prefix("0x").or_else(|| code.text.strip_prefix("0X")) {
            Some(digits) => u16::from_str_radix(digits, 16),
            None => code.text.parse(),
        };
        let Ok(number) = number else {
            let text = format!("strconv.ParseUint: parsing {:?}: invalid syntax", code.text);
            self.error(code.span, &text, "the code of an option, such as `65001` or `0xffee`");
            return None;
        };
        let data = match data {
            Some(word) => self.data(word)?,
            None => OptionData::Bytes([].into()),
        };
        Some(OptionRule {
            action,
            code: number,
            data,
            is_reverted: false,
        })
    }

    fn data(&mut self, word: &Word) -> Option<OptionData> {
        let text = &*word.text;
        if let Some(name) = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) {
            let variable = variable(name);
            if variable.is_none() {
                let text = format!("unsupported variable name {text:?}");
                let expected = "`{qname}`, `{qtype}`, `{client_ip}`, `{client_port}`, `{protocol}`, `{server_ip}`, \
                                `{server_port}`, or a label of metadata such as `{a/b}`";
                self.error(word.span, &text, expected);
            }
            return variable.map(OptionData::Variable);
        }
        let bytes = match text.strip_prefix("0x") {
            None => Some(text.as_bytes().to_vec()),
            Some(digits) => hex(digits),
        };
        if bytes.is_none() {
            let text = format!("encoding/hex: invalid bytes: {text}");
            let error = Diagnostic::error(word.span, format!("plugin/rewrite: {text}"));
            self.scope
                .findings
                .error(error.help("two hexadecimal digits stand for a byte, as in `0xffee`"));
        }
        bytes.map(|bytes| OptionData::Bytes(bytes.into()))
    }

    fn subnet(&mut self, action: OptionAction, args: &[&Word]) -> Option<OptionRule> {
        let (v4_bits, v6_bits) = match (action, args) {
            (OptionAction::Unset, []) => (Some(0), Some(0)),
            (OptionAction::Unset, _) => {
                let text = "subnet unset action requires exactly one argument";
                self.error(self.span, text, "nothing behind `unset`");
                return None;
            }
            (_, [v4, v6]) => (self.bits("IPv4", 32, v4), self.bits("IPv6", 128, v6)),
            _ => {
                let text = "EDNS0 subnet rules require exactly three args";
                self.error(self.span, text, "how many bits of IPv4 and of IPv6 addresses are told");
                return None;
            }
        };
        Some(OptionRule {
            action,
            code: edns::ECS,
            data: OptionData::Subnet {
                v4_bits: v4_bits?,
                v6_bits: v6_bits?,
            },
            is_reverted: false,
        })
    }

    fn bits(&mut self, family: &str, most: u8, word: &Word) -> Option<u8> {
        let bits = word.text.parse().ok().filter(|bits| *bits <= most);
        if bits.is_none() {
            let text = format!("invalid {family} bit mask length {}", word.text);
            self.error(word.span, &text, &format!("0 to {most}"));
        }
        bits
    }
}

fn variable(name: &str) -> Option<Variable> {
    Some(match name {
        "qname" => Variable::Name,
        "qtype" => Variable::Type,
        "client_ip" => Variable::ClientAddress,
        "client_port" => Variable::ClientPort,
        "protocol" => Variable::Protocol,
        "server_ip" => Variable::ServerAddress,
        "server_port" => Variable::ServerPort,
        label => {
            let (directive, key) = label.split_once('/')?;
            if directive.is_empty() || key.is_empty() {
                return None;
            }
            Variable::Metadata(label.into())
        }
    })
}

fn hex(digits: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = digits
        .chars()
        .map(|digit| u8::try_from(digit.to_digit(16)?).ok())
        .collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}
