//! `{$NAME}` and `{%NAME%}` in words.

/// Puts the values of variables in; an unset one is empty. What a value holds is not looked at again.
pub(super) fn fill_in(word: &str, variable: &dyn Fn(&str) -> Option<String>) -> String {
    let word = fill_in_form(word, "{%", "%}", variable);
    fill_in_form(&word, "{$", "}", variable)
}

fn fill_in_form(word: &str, open: &str, close: &str, variable: &dyn Fn(&str) -> Option<String>) -> String {
    let mut filled = String::new();
    let mut rest = word;
    while let Some(start) = rest.find(open) {
        let inside = &rest[start + open.len()..];
        let Some(len) = inside.find(close) else { break };
        filled.push_str(&rest[..start]);
        match &inside[..len] {
            // `{$}` and `{%%}` name nothing and stay.
            "" => filled.push_str(&rest[start..start + open.len() + close.len()]),
            name => filled.push_str(&variable(name).unwrap_or_default()),
        }
        rest = &inside[len + close.len()..];
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(word: &str, expected: &str) {
        let variable = |name: &str| match name {
            "A" => Some("1".to_owned()),
            "B" => Some("two words".to_owned()),
            "SELF" => Some("{$SELF}".to_owned()),
            "DOLLAR" => Some("{$A}".to_owned()),
            _ => None,
        };
        assert_eq!(fill_in(word, &variable), expected, "{word}");
    }

    #[test]
    fn variables() {
        check("plain", "plain");
        check("{$A}", "1");
        check("{%A%}", "1");
        check("x{$A}y{%A%}z{$B}", "x1y1ztwo words");
        check("{$UNSET}", "");
        check("a{%UNSET%}b", "ab");
        check("{$A:default}", "");
    }

    #[test]
    fn what_names_nothing_stays() {
        for word in ["{$}", "{%%}", "{$", "{$A", "{%A", "{%A}", "$A", "{A}", "{{", "{"] {
            check(word, word);
        }
        check("{$}{$A}", "{$}1");
    }

    #[test]
    fn the_percent_form_goes_first_and_values_are_not_searched_again() {
        check("{%DOLLAR%}", "1");
        check("{$SELF}", "{$SELF}");
    }
}
