//! Inputs of the benchmark programs that are made, not taken from a package: the same bytes on
//! every machine, from integers alone.
#![expect(clippy::cast_possible_truncation, reason = "the definition's sizes are small")]

/// Changes with what is made of a specification.
pub(super) const VERSION: &str = "1";

/// A generator of pseudo-random numbers (`SplitMix64`).
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number from 0 to `end` - 1.
    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// Makes the input that a specification such as `text 400000` names: a kind, and its sizes.
/// Returns `None` if there is no such kind, or a size is missing.
pub(super) fn made(specification: &str) -> Option<Vec<u8>> {
    let mut words = specification.split(' ');
    let kind = words.next()?;
    let sizes: Vec<u64> = words.map(str::parse).collect::<Result<_, _>>().ok()?;
    Some(match (kind, sizes.as_slice()) {
        ("text", [bytes]) => text(*bytes),
        ("dictionary", [words]) => dictionary(*words),
        ("ppm", [width, height]) => {
            let mut file = format!("P6\n{width} {height}\n255\n").into_bytes();
            file.extend(pixels(*width, *height).flatten());
            file
        }
        ("pbm", [width, height]) => pbm(*width, *height),
        ("tiff", [width, height]) => tiff(*width, *height),
        ("pcm", [samples]) => sound(*samples),
        ("wav", [samples]) => wav(*samples),
        ("graph", [vertices, percent]) => graph(*vertices, *percent),
        _ => return None,
    })
}

/// The words of a made-up language, the frequent ones first and short.
fn vocabulary(numbers: &mut SplitMix64) -> Vec<String> {
    const SYLLABLES: [&str; 24] = [
        "an", "be", "co", "de", "el", "fa", "go", "hi", "in", "ka", "lo", "me", "no", "or", "pi",
        "qua", "re", "sta", "ti", "un", "ve", "wi", "xe", "yo",
    ];
    let mut word = |rank: u64| {
        let syllables =
            1 + rank.checked_ilog2().unwrap_or(0) / 4 + u32::from(rank.is_multiple_of(3));
        (0..syllables).map(|_| SYLLABLES[numbers.below(24) as usize]).collect()
    };
    (0..3000).map(&mut word).collect()
}

/// A spelling dictionary of the language's first words, after their number.
fn dictionary(words: u64) -> Vec<u8> {
    let mut known = vocabulary(&mut SplitMix64(1));
    known.truncate(words as usize);
    known.sort();
    known.dedup();
    format!("{}\n{}\n", known.len(), known.join("\n")).into_bytes()
}

/// Text in lines: the language's words, with commas and stops.
fn text(bytes: u64) -> Vec<u8> {
    let mut numbers = SplitMix64(1);
    let vocabulary = vocabulary(&mut numbers);
    let bytes = bytes as usize;
    let mut out = Vec::with_capacity(bytes + 16);
    let mut column = 0;
    while out.len() < bytes {
        // The product of two numbers is small more often: so are ranks in a language.
        let rank = numbers.below(3000) * numbers.below(3000) / 3000;
        let word = &vocabulary[rank as usize];
        out.extend_from_slice(word.as_bytes());
        column += word.len() + 1;
        let mark: &[u8] = match numbers.below(24) {
            0 => b".",
            1 | 2 => b",",
            _ => b"",
        };
        out.extend_from_slice(mark);
        out.push(if column > 66 { b'\n' } else { b' ' });
        column = if column > 66 { 0 } else { column };
    }
    out.truncate(bytes.saturating_sub(1));
    out.push(b'\n');
    out
}

/// The pixels of a picture, red, green and blue, row by row: gradients, discs and some noise.
fn pixels(width: u64, height: u64) -> impl Iterator<Item = [u8; 3]> {
    let mut numbers = SplitMix64(2);
    let discs: Vec<[i64; 3]> = (0..24)
        .map(|_| {
            let radius = numbers.below(width / 6) + 4;
            [numbers.below(width), numbers.below(height), radius * radius].map(u64::cast_signed)
        })
        .collect();
    (0..width * height).map(move |at| {
        let (x, y) = ((at % width).cast_signed(), (at / width).cast_signed());
        let inside = discs
            .iter()
            .filter(|[cx, cy, square]| (x - cx) * (x - cx) + (y - cy) * (y - cy) < *square);
        let tone = inside.count() as u64 * 67;
        let noise = numbers.below(9);
        let (x, y) = (x.cast_unsigned(), y.cast_unsigned());
        let colour = [x * 255 / width + tone, y * 255 / height + tone * 2, (x + y) / 3 + tone];
        colour.map(|value| ((value + noise) & 0xff) as u8)
    })
}

/// A picture in black and white, eight pixels in a byte, each row in whole bytes.
fn pbm(width: u64, height: u64) -> Vec<u8> {
    let mut file = format!("P4\n{width} {height}\n").into_bytes();
    let bits: Vec<bool> = pixels(width, height).map(|[_, green, _]| green < 128).collect();
    for row in bits.chunks(width as usize) {
        let packed = |bits: &[bool]| {
            bits.iter().enumerate().fold(0, |byte, (at, bit)| byte | u8::from(*bit) << (7 - at))
        };
        file.extend(row.chunks(8).map(packed));
    }
    file
}

/// A picture as TIFF 6.0, uncompressed, in one strip, with eight bits for each colour.
fn tiff(width: u64, height: u64) -> Vec<u8> {
    const SHORT: u16 = 3;
    const LONG: u16 = 4;
    let (width, height) = (width as u32, height as u32);
    let (fields, bits_at): (u16, u32) = (10, 8 + 2 + 10 * 12 + 4);
    let strip_at = bits_at + 6;
    let entries: [(u16, u16, u32, u32); 10] = [
        (256, LONG, 1, width),
        (257, LONG, 1, height),
        (258, SHORT, 3, bits_at),
        (259, SHORT, 1, 1),
        (262, SHORT, 1, 2),
        (273, LONG, 1, strip_at),
        (277, SHORT, 1, 3),
        (278, LONG, 1, height),
        (279, LONG, 1, width * height * 3),
        (284, SHORT, 1, 1),
    ];
    let mut file = b"II*\0\x08\0\0\0".to_vec();
    file.extend(fields.to_le_bytes());
    for (tag, kind, count, value) in entries {
        file.extend(tag.to_le_bytes());
        file.extend(kind.to_le_bytes());
        file.extend(count.to_le_bytes());
        file.extend(value.to_le_bytes());
    }
    file.extend([0; 4]);
    file.extend([8, 0, 8, 0, 8, 0]);
    file.extend(pixels(width.into(), height.into()).flatten());
    file
}

/// Sound in samples of 16 bits, the lower byte first: three tones that rise and fall, and noise.
fn sound(samples: u64) -> Vec<u8> {
    // A parabola for each half of a period is near enough to a sine.
    let wave = |at: u64, period: u64| -> i64 {
        let half = (period / 2).cast_signed();
        let place = (at % period).cast_signed();
        let (sign, place) = if place < half { (1, place) } else { (-1, place - half) };
        sign * 4 * 8000 * place * (half - place) / (half * half)
    };
    let mut numbers = SplitMix64(3);
    let mut out = Vec::with_capacity(2 * samples as usize);
    for at in 0..samples {
        let loud = (at % 9000).min(9000 - at % 9000).cast_signed();
        let tones = wave(at, 101) + wave(at, 64 + at / 4000 % 32) / 2 + wave(at, 23) / 4;
        let noise = numbers.below(400).cast_signed() - 200;
        let sample = (tones * loud / 4500 + noise).clamp(-32_000, 32_000) as i16;
        out.extend(sample.to_le_bytes());
    }
    out
}

/// The same sound as a file: one channel, 44,100 samples a second.
fn wav(samples: u64) -> Vec<u8> {
    let sound = sound(samples);
    let size = sound.len() as u32;
    let mut file = b"RIFF".to_vec();
    file.extend((36 + size).to_le_bytes());
    file.extend(b"WAVEfmt ");
    file.extend(16_u32.to_le_bytes());
    file.extend([1, 0, 1, 0]);
    file.extend(44_100_u32.to_le_bytes());
    file.extend(88_200_u32.to_le_bytes());
    file.extend([2, 0, 16, 0]);
    file.extend(b"data");
    file.extend(size.to_le_bytes());
    file.extend(sound);
    file
}

/// A graph in DIMACS's form, with an edge between `percent` of the pairs of vertices.
fn graph(vertices: u64, percent: u64) -> Vec<u8> {
    let mut numbers = SplitMix64(4);
    let mut edges = Vec::new();
    for from in 2..=vertices {
        for to in 1..from {
            if numbers.below(100) < percent {
                edges.push(format!("e {from} {to}\n"));
            }
        }
    }
    format!("p edge {vertices} {}\n{}", edges.len(), edges.concat()).into_bytes()
}
