//! Texts for people that quote what others wrote.

/// Longer texts are cut.
const TEXT_LEN_MAX: usize = 300;

/// The text, cut if it quotes too much.
pub(crate) fn clip(mut text: String) -> String {
    if text.len() > TEXT_LEN_MAX {
        text.truncate(text.floor_char_boundary(TEXT_LEN_MAX));
        text.push('…');
    }
    text
}

/// A line of a text, from 1, without its end and cut if it is long.
pub(crate) fn clip_line(text: &[u8], line: usize) -> String {
    let line = text.split(|&byte| byte == b'\n').nth(line.saturating_sub(1));
    let line = line.unwrap_or_default();
    // One letter has at most four bytes.
    let line = String::from_utf8_lossy(&line[..line.len().min(4 * TEXT_LEN_MAX)]);
    clip(line.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_letters() {
        assert_eq!(clip("x".repeat(300)), "x".repeat(300));
        assert_eq!(clip("x".repeat(301)), format!("{}…", "x".repeat(300)));
        assert_eq!(clip(format!("{}é", "x".repeat(299))), format!("{}…", "x".repeat(299)));
    }

    #[test]
    fn a_line_comes_without_its_end() {
        let text = b"one\r\n\nthree \xff";
        let lines = [1, 2, 3, 4].map(|line| clip_line(text, line));
        assert_eq!(lines, ["one", "", "three \u{fffd}", ""]);
        assert_eq!(clip_line(&[b'x'; 10_000], 1).len(), TEXT_LEN_MAX + "…".len());
    }
}
