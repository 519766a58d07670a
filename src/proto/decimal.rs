//! Numbers in decimal, for heads and access lines: the formatting machinery of the standard library costs more than the rest of either.

/// Appends a number.
pub fn write(mut number: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut first = digits.len();
    for (index, digit) in digits.iter_mut().enumerate().rev() {
        *digit = b'0' + u8::try_from(number % 10).unwrap_or(0);
        first = index;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(first..).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_written_whole() {
        for number in [0, 9, 10, 99, 100, 12345, u64::MAX] {
            let mut out = Vec::new();
            write(number, &mut out);
            assert_eq!(out, number.to_string().as_bytes());
        }
    }
}
