//! JSON numbers as peers write them, and the form in which they must be passed on.

/// Numbers that a float cannot hold exactly, or prints differently.
const ODD: [&str; 16] = [
    "0",
    "-0",
    "1.0",
    "0.1",
    "1.50",
    "9007199254740993",
    "18446744073709551615",
    "18446744073709551616",
    "-9223372036854775809",
    "340282366920938463463374607431768211455",
    "340282366920938463463374607431768211456",
    "123456789012345678901234567890",
    "12345678901234567890.123",
    "1e400",
    "-2.50E-400",
    "3E5",
];

/// Returns many JSON numbers, the same in every run.
pub fn written() -> Vec<String> {
    let mut random = fastrand::Rng::with_seed(7);
    let mut digits = |most: usize| -> String {
        let many = random.usize(1..=most);
        (0..many).map(|_| random.char('0'..='9')).collect()
    };
    let mut some = Vec::new();
    for kind in 0..200 {
        let sign = if kind % 3 == 0 { "-" } else { "" };
        let whole = digits(40);
        let whole = match whole.trim_start_matches('0') {
            "" => "0",
            whole => whole,
        };
        let fraction = if kind % 2 == 0 { format!(".{}", digits(30)) } else { String::new() };
        let exponent = match kind % 5 {
            0 => format!("e-{}", digits(3)),
            1 => format!("E{}", digits(3)),
            2 => format!("e+{}", digits(3)),
            _ => String::new(),
        };
        some.push(format!("{sign}{whole}{fraction}{exponent}"));
    }
    ODD.iter().map(|&number| number.to_owned()).chain(some).collect()
}

/// Returns the form in which the number is passed on: an exponent has a lower-case `e` and a sign.
pub fn kept(number: &str) -> String {
    let number = number.replace('E', "e");
    match number.split_once('e') {
        Some((digits, exponent)) if exponent.starts_with(|c: char| c.is_ascii_digit()) => {
            format!("{digits}e+{exponent}")
        }
        _ => number,
    }
}

/// Returns a JSON array of the numbers.
pub fn array(numbers: &[String]) -> String {
    format!("[{}]", numbers.join(","))
}

/// Returns a JSON array of the numbers as they are passed on.
pub fn array_kept(numbers: &[String]) -> String {
    array(&numbers.iter().map(|number| kept(number)).collect::<Vec<_>>())
}
