//! A small PNG of a crocodile pear, written without compression so that its size is known.

const WIDTH: usize = 99;
const HEIGHT: usize = 98;

/// The colours that every picture shares; the three of the background come before them.
const FRUIT: [[u8; 3]; 5] = [[32, 66, 32], [150, 186, 70], [222, 228, 150], [112, 66, 34], [176, 124, 82]];
const SKIN: u8 = 3;
const RIM: u8 = 4;
const FLESH: u8 = 5;
const STONE: u8 = 6;
const SHINE: u8 = 7;

/// The drawing: for each pixel its place in the palette, each row behind its filter type 0.
pub fn draw() -> Vec<u8> {
    let mut pixels = Vec::with_capacity(HEIGHT * (WIDTH + 1));
    for y in 0..HEIGHT as i32 {
        pixels.push(0);
        pixels.extend((0..WIDTH as i32).map(|x| shade(x, y)));
    }
    pixels
}

/// The drawing as a PNG, with a background of one of sixty hues.
pub fn paint(pixels: &[u8], hue: usize) -> Vec<u8> {
    let mut header = Vec::new();
    header.extend((WIDTH as u32).to_be_bytes());
    header.extend((HEIGHT as u32).to_be_bytes());
    // Eight bits, from a palette, no interlacing.
    header.extend([8, 3, 0, 0, 0]);
    let palette: Vec<u8> = (1..=3).map(|light| pastel(hue, light)).chain(FRUIT).flatten().collect();

    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    chunk(&mut png, b"IHDR", &header);
    chunk(&mut png, b"PLTE", &palette);
    chunk(&mut png, b"IDAT", &store(pixels));
    chunk(&mut png, b"IEND", &[]);
    png
}

fn shade(x: i32, y: i32) -> u8 {
    // From the top down.
    let layers = [
        (SHINE, within(x, y, 42, 56, 4)),
        (STONE, within(x, y, 49, 62, 13)),
        (FLESH, pear(x, y, 9)),
        (RIM, pear(x, y, 4)),
        (SKIN, pear(x, y, 0)),
    ];
    let background = ((x + y) / 33 % 3) as u8;
    layers.into_iter().find(|(_, covers)| *covers).map_or(background, |(colour, _)| colour)
}

/// Circles that grow from the neck down; `inset` makes all of them smaller.
fn pear(x: i32, y: i32, inset: i32) -> bool {
    (0..=28).step_by(2).any(|down| within(x, y, 49, 30 + down, 18 + down / 2 - inset))
}

fn within(x: i32, y: i32, left: i32, top: i32, radius: i32) -> bool {
    (x - left).pow(2) + (y - top).pow(2) <= radius.pow(2)
}

fn pastel(hue: usize, light: usize) -> [u8; 3] {
    let rising = (hue % 10 * 25) as u8;
    let pure = match hue / 10 % 6 {
        0 => [255, rising, 0],
        1 => [255 - rising, 255, 0],
        2 => [0, 255, rising],
        3 => [0, 255 - rising, 255],
        4 => [rising, 0, 255],
        _ => [255, 0, 255 - rising],
    };
    pure.map(|part: u8| 255 - (255 - part) / (light as u8 + 1))
}

/// A zlib stream of one stored block (RFC 1950, RFC 1951 section 3.2.4), which holds up to 65,535 bytes.
fn store(data: &[u8]) -> Vec<u8> {
    let length = data.len() as u16;
    let mut stream = vec![0x78, 0x01, 1];
    stream.extend(length.to_le_bytes());
    stream.extend((!length).to_le_bytes());
    stream.extend(data);
    stream.extend(adler(data).to_be_bytes());
    stream
}

fn chunk(png: &mut Vec<u8>, kind: &[u8; 4], data: &[u8]) {
    png.extend((data.len() as u32).to_be_bytes());
    let checked = png.len();
    png.extend(kind);
    png.extend(data);
    let sum = crc(&png[checked..]);
    png.extend(sum.to_be_bytes());
}

fn adler(data: &[u8]) -> u32 {
    let (low, high) = data.iter().fold((1u32, 0u32), |(low, high), byte| {
        let low = (low + u32::from(*byte)) % 65_521;
        (low, (high + low) % 65_521)
    });
    high << 16 | low
}

fn crc(data: &[u8]) -> u32 {
    !data.iter().fold(!0, |sum, byte| CRC[((sum ^ u32::from(*byte)) & 0xff) as usize] ^ (sum >> 8))
}

const CRC: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 1 == 1 { 0xEDB8_8320 ^ (sum >> 1) } else { sum >> 1 };
            bit += 1;
        }
        table[byte] = sum;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sums_are_those_of_the_standards() {
        assert_eq!(crc(b"IEND"), 0xAE42_6082);
        assert_eq!(adler(b"Wikipedia"), 0x11E6_0398);
    }

    #[test]
    fn no_two_hues_look_alike() {
        let pixels = draw();
        let pictures: std::collections::HashSet<_> = (0..60).map(|hue| paint(&pixels, hue)).collect();
        assert_eq!(pictures.len(), 60);
    }
}
