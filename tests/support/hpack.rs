//! HPACK (RFC 7541) of our own, to speak to the server what no library writes, and to read it with other eyes than its own.

use std::collections::VecDeque;

/// How a field is written (RFC 7541, 6).
#[derive(Clone, Copy, Debug)]
pub(crate) enum As<'t> {
    /// A place in the tables.
    Indexed(usize),
    /// A literal that goes into the table.
    Kept(Name<'t>, Text<'t>),
    /// One that does not.
    Plain(Name<'t>, Text<'t>),
    /// One that never does.
    Never(Name<'t>, Text<'t>),
    /// Not a field: how large the table is from now on.
    Size(usize),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Name<'t> {
    At(usize),
    Is(Text<'t>),
}

/// A text, and whether it is written in the code of Huffman.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text<'t>(pub(crate) &'t str, pub(crate) bool);

pub(crate) fn encode(fields: &[As<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    for field in fields {
        match *field {
            As::Indexed(index) => integer(0x80, 7, index, &mut out),
            As::Kept(name, value) => literal(0x40, 6, name, value, &mut out),
            As::Plain(name, value) => literal(0, 4, name, value, &mut out),
            As::Never(name, value) => literal(0x10, 4, name, value, &mut out),
            As::Size(size) => integer(0x20, 5, size, &mut out),
        }
    }
    out
}

fn literal(first: u8, bits: u32, name: Name<'_>, value: Text<'_>, out: &mut Vec<u8>) {
    match name {
        Name::At(index) => integer(first, bits, index, out),
        Name::Is(name) => {
            out.push(first);
            text(name, out);
        }
    }
    text(value, out);
}

fn text(Text(text, huffman): Text<'_>, out: &mut Vec<u8>) {
    let bytes = if huffman { huffman_encode(text.as_bytes()) } else { text.as_bytes().to_vec() };
    integer(if huffman { 0x80 } else { 0 }, 7, bytes.len(), out);
    out.extend_from_slice(&bytes);
}

/// RFC 7541, 5.1.
pub(crate) fn integer(first: u8, bits: u32, value: usize, out: &mut Vec<u8>) {
    let most = (1 << bits) - 1;
    if value < most {
        out.push(first | u8::try_from(value).unwrap());
        return;
    }
    out.push(first | u8::try_from(most).unwrap());
    let mut rest = value - most;
    while rest >= 128 {
        out.push(0x80 | u8::try_from(rest % 128).unwrap());
        rest /= 128;
    }
    out.push(u8::try_from(rest).unwrap());
}

/// Names and values.
pub(crate) type Fields = Vec<(String, String)>;

/// What a server writes, field by field.
#[derive(Debug)]
pub(crate) struct Decoder {
    /// The newest first.
    dynamic: VecDeque<(String, String)>,
    size: usize,
}

impl Default for Decoder {
    fn default() -> Self {
        Self { dynamic: VecDeque::new(), size: 4096 }
    }
}

impl Decoder {
    /// The fields of a block; what it keeps is kept.
    pub(crate) fn decode(&mut self, mut block: &[u8]) -> Result<Fields, String> {
        let mut fields = Vec::new();
        while let Some(&first) = block.first() {
            match first {
                0x80.. => {
                    let index = take_integer(7, &mut block)?;
                    fields.push(self.at(index)?);
                }
                0x40..=0x7f => {
                    let field = self.take_literal(6, &mut block)?;
                    self.dynamic.push_front(field.clone());
                    self.evict();
                    fields.push(field);
                }
                0x20..=0x3f => {
                    self.size = take_integer(5, &mut block)?;
                    if self.size > 4096 || !fields.is_empty() {
                        return Err(format!("a table of {} bytes", self.size));
                    }
                    self.evict();
                }
                _ => fields.push(self.take_literal(4, &mut block)?),
            }
        }
        Ok(fields)
    }

    fn take_literal(&self, bits: u32, block: &mut &[u8]) -> Result<(String, String), String> {
        let name = match take_integer(bits, block)? {
            0 => take_text(block)?,
            index => self.at(index)?.0,
        };
        Ok((name, take_text(block)?))
    }

    fn at(&self, index: usize) -> Result<(String, String), String> {
        let known = index.checked_sub(1).ok_or("index 0")?;
        let fixed = STATIC.get(known).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        fixed.or_else(|| self.dynamic.get(known.checked_sub(STATIC.len())?).cloned()).ok_or_else(|| format!("nothing at {index}"))
    }

    /// RFC 7541, 4.1 and 4.3.
    fn evict(&mut self) {
        let held = |dynamic: &VecDeque<(String, String)>| dynamic.iter().map(|(name, value)| name.len() + value.len() + 32).sum::<usize>();
        while held(&self.dynamic) > self.size {
            self.dynamic.pop_back();
        }
    }
}

fn take_integer(bits: u32, block: &mut &[u8]) -> Result<usize, String> {
    let most = (1usize << bits) - 1;
    let (first, mut rest) = block.split_first().ok_or("no integer")?;
    let mut value = usize::from(*first) & most;
    if value == most {
        let mut shift = 0;
        loop {
            let (byte, next) = rest.split_first().ok_or("an integer without an end")?;
            rest = next;
            value += usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
            if shift > 28 {
                return Err("an integer too large".to_owned());
            }
        }
    }
    *block = rest;
    Ok(value)
}

fn take_text(block: &mut &[u8]) -> Result<String, String> {
    let huffman = block.first().is_some_and(|byte| byte & 0x80 != 0);
    let length = take_integer(7, block)?;
    let (bytes, rest) = block.split_at_checked(length).ok_or("a text without an end")?;
    *block = rest;
    let bytes = if huffman { huffman_decode(bytes)? } else { bytes.to_vec() };
    String::from_utf8(bytes).map_err(|fault| fault.to_string())
}

/// The code of each symbol, in as many bits as [`LENGTHS`] says: the codes of one length follow one another, and those of the next length
/// behind them.
fn codes() -> [u32; 257] {
    let mut symbols: Vec<usize> = (0..257).collect();
    symbols.sort_by_key(|symbol| (LENGTHS[*symbol], *symbol));
    let (mut codes, mut code, mut length) = ([0; 257], 0, 0);
    for symbol in symbols {
        code <<= LENGTHS[symbol] - length;
        length = LENGTHS[symbol];
        codes[symbol] = code;
        code += 1;
    }
    codes
}

pub(crate) fn huffman_encode(text: &[u8]) -> Vec<u8> {
    let codes = codes();
    let bits: Vec<bool> = text
        .iter()
        .flat_map(|byte| {
            let (code, length) = (codes[usize::from(*byte)], LENGTHS[usize::from(*byte)]);
            (0..length).rev().map(move |bit| code >> bit & 1 == 1)
        })
        .collect();
    // What is left of the last byte is the beginning of the code's end, all ones.
    bits.chunks(8).map(|bits| (0..8).fold(0, |byte, at| byte << 1 | u8::from(bits.get(at).copied().unwrap_or(true)))).collect()
}

pub(crate) fn huffman_decode(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let codes = codes();
    let (mut out, mut code, mut length, mut ones) = (Vec::new(), 0, 0, true);
    for bit in bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1)) {
        code = code << 1 | u32::from(bit);
        length += 1;
        ones &= bit == 1;
        if let Some(symbol) = (0..257).find(|symbol| LENGTHS[*symbol] == length && codes[*symbol] == code) {
            out.push(u8::try_from(symbol).map_err(|_| "the code's own end")?);
            (code, length, ones) = (0, 0, true);
        }
    }
    if length < 8 && ones { Ok(out) } else { Err("padding that is none".to_owned()) }
}

/// RFC 7541, appendix B: bits of the code of each byte, and of the code's end.
const LENGTHS: [u32; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28, 6, 10,
    10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6,
    7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23,
    21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22,
    22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28,
    27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27,
    26, 30,
];

/// RFC 7541, appendix A.
const STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];
