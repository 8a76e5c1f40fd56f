//! The protocol of Redis (RESP2). Not for its meaning.

/// A reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply {
    Status(&'static str),
    Error(&'static str),
    Int(i64),
    Bulk(Option<String>),
    Array(Vec<Self>),
}

impl Reply {
    pub(super) fn bulk(text: &str) -> Self {
        Self::Bulk(Some(text.to_owned()))
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write(&mut bytes);
        bytes
    }

    fn write(&self, bytes: &mut Vec<u8>) {
        let head = match self {
            Self::Status(text) => format!("+{text}\r\n"),
            Self::Error(text) => format!("-{text}\r\n"),
            Self::Int(number) => format!(":{number}\r\n"),
            Self::Bulk(None) => "$-1\r\n".into(),
            Self::Bulk(Some(text)) => format!("${}\r\n{text}\r\n", text.len()),
            Self::Array(parts) => format!("*{}\r\n", parts.len()),
        };
        bytes.extend_from_slice(head.as_bytes());
        if let Self::Array(parts) = self {
            parts.iter().for_each(|part| part.write(bytes));
        }
    }
}

/// Reads the first command of these bytes: its words, and its length in bytes. `None` if it is incomplete.
pub(super) fn command(bytes: &[u8]) -> Option<(Vec<String>, usize)> {
    let mut at = 0;
    let words = number(bytes, &mut at, b'*')?;
    let mut all = Vec::with_capacity(words);
    for _ in 0..words {
        let length = number(bytes, &mut at, b'$')?;
        let word = bytes.get(at..at + length)?;
        all.push(String::from_utf8_lossy(word).into_owned());
        at += length + 2;
    }
    (at <= bytes.len()).then_some((all, at))
}

/// Reads a line that starts with this sign and contains a number.
fn number(bytes: &[u8], at: &mut usize, sign: u8) -> Option<usize> {
    let rest = bytes.get(*at..)?;
    let end = rest.windows(2).position(|two| two == b"\r\n")?;
    assert_eq!(rest[0], sign, "the client writes commands as arrays of strings");
    *at += end + 2;
    std::str::from_utf8(&rest[1..end]).ok()?.parse().ok()
}
