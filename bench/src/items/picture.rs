//! Pictures in SVG, plain, in the colours of the reader's screen.

use std::fmt::Write;

/// Width of a picture, and of what stands beside the axes.
const WIDTH: f64 = 760.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 24.0;

/// Dark on light, and light on dark where the reader's screen is; colours that are told apart in both, also by those who see few.
const STYLE: &str = "<style>
svg { background: #fff; font: 13px system-ui, sans-serif; }
text { fill: #24292f; } .faint { fill: #656d76; } .axis { stroke: #8c959f; } .grid { stroke: #d8dee4; } .band { fill: #f0f3f6; }
.line { fill: none; stroke-width: 2; } .dash { stroke-dasharray: 5 4; }
.s0 { stroke: #0969da; } .s1 { stroke: #bc4c00; } .s2 { stroke: #1a7f37; } .s3 { stroke: #8250df; } .s4 { stroke: #656d76; }
.f0 { fill: #0969da; } .f1 { fill: #bc4c00; } .f2 { fill: #1a7f37; } .f3 { fill: #8250df; } .f4 { fill: #656d76; }
@media (prefers-color-scheme: dark) {
svg { background: #0d1117; } text { fill: #e6edf3; } .faint { fill: #8d96a0; } .axis { stroke: #6e7681; } .grid { stroke: #30363d; } .band { fill: #161b22; }
.s0 { stroke: #4493f8; } .s1 { stroke: #f0883e; } .s2 { stroke: #3fb950; } .s3 { stroke: #ab7df8; } .s4 { stroke: #8d96a0; }
.f0 { fill: #4493f8; } .f1 { fill: #f0883e; } .f2 { fill: #3fb950; } .f3 { fill: #ab7df8; } .f4 { fill: #8d96a0; }
}
</style>";

/// A line of a chart.
pub struct Line {
    pub name: String,
    /// Which colour it has.
    pub colour: usize,
    pub dashed: bool,
    pub points: Vec<(f64, f64)>,
}

/// A chart over powers of ten, from zero or by powers of ten upwards.
pub struct Chart<'a> {
    pub title: &'a str,
    pub across: &'a str,
    pub upwards: &'a str,
    pub powers: bool,
    pub lines: Vec<Line>,
}

/// A part of the time that has a name.
pub struct Band {
    pub name: String,
    pub from: f64,
    pub to: f64,
}

/// A series over time.
pub struct Panel<'a> {
    pub title: &'a str,
    pub unit: &'a str,
    pub points: Vec<(f64, f64)>,
}

impl Chart<'_> {
    pub fn draw(&self) -> String {
        let (top, height) = (40.0, 300.0);
        let below = top + height;
        let all = || self.lines.iter().flat_map(|line| &line.points);
        let most = all().map(|point| point.1).fold(0.0, f64::max);
        let (first, last) = all().fold((f64::MAX, 1.0_f64), |(low, high), point| (low.min(point.0), high.max(point.0)));
        let across = |x: f64| LEFT + (x / first).log10() / (last / first).log10().max(1e-9) * (WIDTH - LEFT - RIGHT);
        let least = all().map(|point| point.1).filter(|value| *value > 0.0).fold(f64::MAX, f64::min);
        let (floor, ceiling) = (10_f64.powf(least.log10().floor()), 10_f64.powf(most.log10().ceil()));
        let marks = if self.powers { powers(floor, ceiling) } else { steps(most) };
        let end = marks.last().copied().unwrap_or(1.0);
        let up = |y: f64| match self.powers {
            true => below - (y.max(floor) / floor).log10() / (end / floor).log10().max(1e-9) * height,
            false => below - y / end * height,
        };
        let mut out = begin(below + 60.0 + 20.0 * self.lines.len() as f64, self.title);
        for mark in marks {
            rule(&mut out, up(mark), &figure(mark));
        }
        for mark in powers(10_f64.powf(first.log10().ceil()), last) {
            text(&mut out, across(mark), below + 18.0, "middle", "faint", &figure(mark));
        }
        text(&mut out, (LEFT + WIDTH - RIGHT) / 2.0, below + 36.0, "middle", "", self.across);
        text(&mut out, WIDTH - RIGHT, top - 16.0, "end", "faint", self.upwards);
        for (number, line) in self.lines.iter().enumerate() {
            let dash = if line.dashed { " dash" } else { "" };
            let points: Vec<String> =
                line.points.iter().map(|(x, y)| format!("{:.1},{:.1}", across(*x), up(*y))).collect();
            let colour = line.colour;
            let _ = writeln!(out, "<polyline class=\"line s{colour}{dash}\" points=\"{}\"/>", points.join(" "));
            for (x, y) in &line.points {
                let told = escape(&format!("{}: {} at {}", line.name, figure(*y), figure(*x)));
                let (x, y) = (across(*x), up(*y));
                let _ = writeln!(
                    out,
                    "<circle class=\"f{colour}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"><title>{told}</title></circle>"
                );
            }
            let y = below + 60.0 + 20.0 * number as f64;
            let end = LEFT + 28.0;
            let _ = writeln!(out, "<path class=\"line s{colour}{dash}\" d=\"M{LEFT} {y}H{end}\"/>");
            text(&mut out, LEFT + 36.0, y + 4.0, "start", "", &line.name);
        }
        out + "</svg>\n"
    }
}

/// Series over the same time, one below the other.
pub fn series(title: &str, length: f64, bands: &[Band], panels: &[Panel<'_>]) -> String {
    let (top, height, gap) = (92.0, 92.0, 44.0);
    let across = |x: f64| LEFT + (x / length).clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT);
    let end = top + (height + gap) * panels.len() as f64;
    let mut out = begin(end + 20.0, title);
    for (number, band) in bands.iter().enumerate() {
        let (x, wide) = (across(band.from), (across(band.to) - across(band.from)).max(1.0));
        let _ = writeln!(
            out,
            "<rect class=\"band\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{wide:.1}\" height=\"{:.1}\"><title>{}</title></rect>",
            top - 24.0,
            end - top - gap + 24.0,
            escape(&band.name)
        );
        // Short ones lie close together: their names take turns in height.
        let name = band.name.split(' ').next().unwrap_or_default();
        text(&mut out, x + wide / 2.0, top - 28.0 - 12.0 * (number % 2) as f64, "middle", "faint", name);
    }
    for (number, panel) in panels.iter().enumerate() {
        let floor = top + (height + gap) * number as f64 + height;
        let most = panel.points.iter().map(|point| point.1).fold(0.0, f64::max);
        let marks = steps(most);
        let highest = marks.last().copied().unwrap_or(1.0);
        for mark in [0.0, highest / 2.0, highest] {
            rule(&mut out, floor - mark / highest * height, &figure(mark));
        }
        let unit = if panel.unit.is_empty() { String::new() } else { format!(", {}", panel.unit) };
        text(&mut out, LEFT, floor - height - 7.0, "start", "", &format!("{}{unit}", panel.title));
        let point = |(x, y): &(f64, f64)| format!("{:.1},{:.1}", across(*x), floor - y / highest * height);
        let points: Vec<String> = panel.points.iter().map(point).collect();
        let _ = writeln!(out, "<polyline class=\"line s{}\" points=\"{}\"/>", number % 5, points.join(" "));
    }
    for second in steps(length) {
        if second <= length {
            text(&mut out, across(second), end - 22.0, "middle", "faint", &format!("{} s", figure(second)));
        }
    }
    out + "</svg>\n"
}

fn begin(height: f64, title: &str) -> String {
    let title = escape(title);
    let size = format!("viewBox=\"0 0 {WIDTH} {height:.0}\" width=\"{WIDTH}\" height=\"{height:.0}\"");
    let mut out =
        format!("<svg xmlns=\"http://www.w3.org/2000/svg\" {size} role=\"img\">\n<title>{title}</title>\n{STYLE}\n");
    let _ = writeln!(out, "<text x=\"{LEFT}\" y=\"20\" font-weight=\"600\">{title}</text>");
    out
}

fn rule(out: &mut String, y: f64, mark: &str) {
    let end = WIDTH - RIGHT;
    let _ = writeln!(out, "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{end}\"/>");
    text(out, LEFT - 8.0, y + 4.0, "end", "faint", mark);
}

fn text(out: &mut String, x: f64, y: f64, anchor: &str, class: &str, text: &str) {
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\"{class}>{}</text>", escape(text));
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Round figures from zero to above this one.
fn steps(most: f64) -> Vec<f64> {
    let most = if most > 0.0 { most } else { 1.0 };
    let power = 10_f64.powf((most / 4.0).log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().map(|part| part * power).find(|step| step * 5.0 >= most);
    let step = step.unwrap_or(most);
    (0..=(most / step).ceil() as u32).map(|number| f64::from(number) * step).collect()
}

/// Powers of ten between these.
fn powers(from: f64, to: f64) -> Vec<f64> {
    std::iter::successors(Some(from), |mark| Some(mark * 10.0))
        .take(12)
        .take_while(|mark| *mark <= to * 1.001)
        .collect()
}

fn figure(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        value if value >= 10_000.0 => format!("{:.0},{:03.0}", (value / 1_000.0).floor(), value % 1_000.0),
        value if value >= 10.0 || value.fract() == 0.0 => format!("{value:.0}"),
        value if value >= 0.1 => format!("{value:.1}"),
        value => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_and_reach_beyond_the_most() {
        assert_eq!(steps(9_300.0), [0.0, 2_000.0, 4_000.0, 6_000.0, 8_000.0, 10_000.0]);
        assert_eq!(steps(0.0).last(), Some(&1.0));
        assert_eq!(powers(1.0, 1_000.0), [1.0, 10.0, 100.0, 1_000.0]);
    }

    #[test]
    fn a_chart_has_its_lines_and_escapes_their_names() {
        let line = Line { name: "a < b".into(), colour: 0, dashed: false, points: vec![(10.0, 5.0), (1_000.0, 7.0)] };
        let chart = Chart { title: "t", across: "N", upwards: "1/s", powers: false, lines: vec![line] };
        let drawn = chart.draw();
        assert!(drawn.contains("a &lt; b") && drawn.contains("points=\"70.0,"), "{drawn}");
        assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
    }
}
