//! The template of a query log line, parsed once so that writing a line is a walk over pieces.

/// A parsed FORMAT of `log`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LogFormat {
    /// In the order of the line; never two literals side by side.
    pub pieces: Vec<LogPiece>,
}

/// What `log` writes without a FORMAT.
pub const COMMON: &str = r#"{remote}:{port} - {>id} "{type} {class} {name} {proto} {size} {>do} {>bufsize}" {rcode} {>rflags} {rsize} {duration}"#;
/// [`COMMON`] and the opcode.
pub const COMBINED: &str = r#"{remote}:{port} - {>id} "{type} {class} {name} {proto} {size} {>do} {>bufsize}" {rcode} {>rflags} {rsize} {duration} "{>opcode}""#;

/// One piece of a log line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LogPiece {
    /// Written as it stands; an unknown placeholder is one too.
    Literal(String),
    /// Type asked for.
    Type,
    /// Class asked for.
    Class,
    /// Name asked for, in lower case.
    Name,
    /// `udp` or `tcp`.
    Proto,
    /// The client's address, IPv6 in brackets.
    Remote,
    /// The client's port.
    Port,
    /// The address asked, IPv6 in brackets.
    Local,
    /// Bytes of the question message.
    Size,
    /// Rcode of the reply as text, `-` without a reply.
    Rcode,
    /// Bytes of the reply uncompressed, without the server's OPT.
    ReplySize,
    /// Seconds, with an `s` behind.
    Duration,
    /// The set flags of the reply, separated by commas.
    ReplyFlags,
    /// Id of the message.
    Id,
    /// Opcode as a number.
    Opcode,
    /// Whether DO was set.
    Do,
    /// UDP size of the client: 512 without OPT, 65535 over TCP.
    Bufsize,
    /// `{/LABEL}`: metadata, `-` if unknown.
    Metadata(String),
    /// `{/view/name}` in a block with a view: its name, where the block has metadata for the question.
    View(String),
}

impl LogFormat {
    /// Parses a FORMAT; there is no wrong one, what is not known stays as text.
    pub fn parse(text: &str) -> Self {
        let text = text.replace("{common}", COMMON).replace("{combined}", COMBINED);
        let mut format = Self { pieces: Vec::new() };
        let mut rest = text.as_str();
        while let Some(open) = rest.find('{') {
            let Some(len) = rest[open..].find('}') else { break };
            let inside = &rest[open + 1..open + len];
            // The last brace before the closing one opens the placeholder: `{{name}` is a brace and a name.
            let start = inside.rfind('{').map_or(open, |at| open + 1 + at);
            let end = open + len + 1;
            format.literal(&rest[..start]);
            match placeholder(&rest[start + 1..end - 1]) {
                Some(piece) => format.pieces.push(piece),
                None => format.literal(&rest[start..end]),
            }
            rest = &rest[end..];
        }
        format.literal(rest);
        format
    }

    /// The same for a block whose view has this name.
    #[must_use]
    pub fn with_view(mut self, name: &str) -> Self {
        for piece in &mut self.pieces {
            if matches!(piece, LogPiece::Metadata(label) if label == "view/name") {
                *piece = LogPiece::View(name.to_owned());
            }
        }
        self
    }

    /// The labels in it that a `kubernetes` knows.
    pub fn cluster_labels(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            LogPiece::Metadata(label) if label.starts_with("kubernetes/") => Some(&**label),
            _ => None,
        })
    }

    fn literal(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        match self.pieces.last_mut() {
            Some(LogPiece::Literal(before)) => before.push_str(text),
            _ => self.pieces.push(LogPiece::Literal(text.to_owned())),
        }
    }
}

impl Default for LogFormat {
    fn default() -> Self {
        Self::parse(COMMON)
    }
}

fn placeholder(word: &str) -> Option<LogPiece> {
    Some(match word {
        "type" => LogPiece::Type,
        "class" => LogPiece::Class,
        "name" => LogPiece::Name,
        "proto" => LogPiece::Proto,
        "remote" => LogPiece::Remote,
        "port" => LogPiece::Port,
        "local" => LogPiece::Local,
        "size" => LogPiece::Size,
        "rcode" => LogPiece::Rcode,
        "rsize" => LogPiece::ReplySize,
        "duration" => LogPiece::Duration,
        ">rflags" => LogPiece::ReplyFlags,
        ">id" => LogPiece::Id,
        ">opcode" => LogPiece::Opcode,
        ">do" => LogPiece::Do,
        ">bufsize" => LogPiece::Bufsize,
        _ => LogPiece::Metadata(word.strip_prefix('/').filter(|label| !label.is_empty())?.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(text: &str) -> String {
        let show = |piece: &LogPiece| match piece {
            LogPiece::Literal(text) => format!("'{text}'"),
            piece => format!("{piece:?}"),
        };
        LogFormat::parse(text)
            .pieces
            .iter()
            .map(show)
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(show(text), expected, "{text}");
    }

    #[test]
    fn placeholders_and_text() {
        check("", "");
        check("plain", "'plain'");
        check("{name}", "Name");
        check("C {name} {type}.", "'C ' Name ' ' Type '.'");
        check(
            "{remote}{port}{local}{size}{class}{proto}",
            "Remote Port Local Size Class Proto",
        );
        check(
            "{rcode}{rsize}{duration}{>rflags}",
            "Rcode ReplySize Duration ReplyFlags",
        );
        check("{>id}{>opcode}{>do}{>bufsize}", "Id Opcode Do Bufsize");
        check("{/forward/upstream}", "Metadata(\"forward/upstream\")");
    }

    #[test]
    fn unknown_placeholders_stay() {
        check("a {nope} b", "'a {nope} b'");
        check("{Name}", "'{Name}'");
        check("{>nope}{name}", "'{>nope}' Name");
        check("{/}", "'{/}'");
        check("{", "'{'");
        check("{name", "'{name'");
        check("name}", "'name}'");
        check("{{name}}", "'{' Name '}'");
        check("{}", "'{}'");
    }

    #[test]
    fn common_and_combined_are_put_in_anywhere() {
        assert_eq!(show("{common}"), show(COMMON));
        assert_eq!(show("O {combined} {proto}"), show(&format!("O {COMBINED} {{proto}}")));
        assert_eq!(show("{combined}"), show(r#"{common} "{>opcode}""#));
        assert_eq!(LogFormat::default(), LogFormat::parse("{common}"));
    }
}
