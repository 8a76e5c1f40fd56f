//! Deals the room of an offer among lists of tools, so that no list takes the room of the others.
//! Not for the limits of one source.

/// Deals this number of places to lists of these lengths, in turn and one by one: short lists are
/// whole, longer ones have equal shares. Returns the number of places of each list.
pub fn allot(lengths: &[usize], room: usize) -> Vec<usize> {
    let mut shares = vec![0; lengths.len()];
    let mut left = room;
    loop {
        let before = left;
        for (share, length) in shares.iter_mut().zip(lengths) {
            if left > 0 && *share < *length {
                *share += 1;
                left -= 1;
            }
        }
        if left == before {
            return shares;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_lists_are_whole_and_long_ones_have_equal_shares() {
        for (lengths, room, shares) in [
            (&[][..], 5, &[][..]),
            (&[1, 2, 3], 6, &[1, 2, 3]),
            (&[1, 2, 3], 9, &[1, 2, 3]),
            (&[1_000, 2, 0, 40], 20, &[9, 2, 0, 9]),
            // The first lists have the places that cannot be dealt to all.
            (&[9, 9, 9], 8, &[3, 3, 2]),
            (&[9, 9, 9], 2, &[1, 1, 0]),
            (&[9, 9], 0, &[0, 0]),
        ] {
            assert_eq!(allot(lengths, room), shares, "{lengths:?} {room}");
        }
    }
}
