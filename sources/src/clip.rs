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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_letters() {
        assert_eq!(clip("x".repeat(300)), "x".repeat(300));
        assert_eq!(clip("x".repeat(301)), format!("{}…", "x".repeat(300)));
        assert_eq!(clip(format!("{}é", "x".repeat(299))), format!("{}…", "x".repeat(299)));
    }
}
