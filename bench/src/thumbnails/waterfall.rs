//! When each picture was asked for and came, as lines of text: both ways beside each other, on one scale.

use super::visit::{Picture, Way};

/// Characters of a bar's field.
const WIDTH: usize = 40;

/// A heading, and a line for each picture.
pub fn lines(many: &Way, one: &Way) -> Vec<String> {
    let scale = many.last().max(one.last()).max(1.0);
    let head = |name: &str| format!("{name:<width$}", width = WIDTH + 13);
    let title = format!("{:>7}  {}  {}", "picture", head("one by one: asked - came, ms"), head("in one"));
    let line = |(number, (many, one)): (usize, (&Picture, &Picture))| {
        format!("{:>7}  {}  {}", number + 1, field(many, scale), field(one, scale))
    };
    let pairs = many.pictures.iter().zip(&one.pictures).enumerate();
    std::iter::once(title).chain(pairs.map(line)).map(|line| line.trim_end().to_owned()).collect()
}

fn field(picture: &Picture, scale: f64) -> String {
    let Picture { asked, came } = *picture;
    format!("|{}|{asked:>5.0} -{came:>5.0}", bar(asked / scale, came / scale))
}

/// From one share of the width to another; never nothing.
fn bar(from: f64, to: f64) -> String {
    let place = |share: f64| (share * WIDTH as f64).round().clamp(0.0, WIDTH as f64) as usize;
    let from = place(from).min(WIDTH - 1);
    let to = place(to).max(from + 1);
    [" ".repeat(from), "#".repeat(to - from), " ".repeat(WIDTH - to)].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_stands_where_its_time_was() {
        assert_eq!(bar(0.0, 1.0), "#".repeat(WIDTH));
        assert_eq!(bar(0.5, 0.75), format!("{}{}{}", " ".repeat(20), "#".repeat(10), " ".repeat(10)));
        for (from, to) in [(1.0, 1.0), (0.0, 0.0), (2.0, 3.0), (0.9, 0.1)] {
            assert_eq!((bar(from, to).len(), bar(from, to).contains('#')), (WIDTH, true));
        }
    }

    #[test]
    fn both_ways_have_one_scale_and_a_line_for_each_picture() {
        let way = |pictures| Way { pictures, ..Way::default() };
        let (slow, fast) = (Picture { asked: 500.0, came: 1000.0 }, Picture { asked: 0.0, came: 250.0 });
        let lines = lines(&way(vec![slow]), &way(vec![fast]));
        assert_eq!(lines.len(), 2);
        let half = format!("|{}{}|  500 - 1000", " ".repeat(20), "#".repeat(20));
        let quarter = format!("|{}{}|    0 -  250", "#".repeat(10), " ".repeat(30));
        assert_eq!(lines[1], format!("      1  {half}  {quarter}"));
    }
}
