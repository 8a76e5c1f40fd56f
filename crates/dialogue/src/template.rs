//! Templates of instructions with placeholders. Not for the values.

/// Fills a template in one pass. Placeholders within the values are not replaced.
pub fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut text = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(at) = rest.find('{') {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        match values.iter().find(|(place, _)| rest.starts_with(place)) {
            Some((place, value)) => {
                text.push_str(value);
                rest = &rest[place.len()..];
            }
            None => {
                text.push('{');
                rest = &rest[1..];
            }
        }
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled_once() {
        let told = fill("{a}{b} {c} {", &[("{a}", "{b}"), ("{b}", "2"), ("{x}", "")]);
        assert_eq!(told, "{b}2 {c} {");
    }
}
