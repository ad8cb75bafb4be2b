//! The pages for those who know another gateway: each row of their tables is served once, and must do what it says.
//! `cargo test --test cases cors` plays the rows that have `cors` in their text.

mod case;
mod table;

use libtest_mimic::{Failed, Trial};

use case::Case;
use table::Row;

/// How many rows a page must have at least.
const ROWS: usize = 30;

/// The pages that have to be there.
const PAGES: [&str; 7] = ["apisix", "caddy", "express", "kong", "krakend", "nginx", "traefik"];

pub fn trials() -> impl Iterator<Item = Trial> {
    let cases = case::all();
    let rows = table::all();
    let pages = Trial::test("coming::every_page_has_thirty_rows", {
        let rows = rows.clone();
        move || thirty(&rows)
    });
    let pairs = Trial::test("coming::every_row_has_a_case_and_every_case_a_row", {
        let cases = cases.clone();
        move || paired(&rows, &cases)
    });
    let trial = |(at, case): (usize, Case)| {
        let name = case.here.lines().collect::<Vec<_>>().join(" + ");
        Trial::test(format!("coming::{name}"), move || Ok(case.play(at)?))
    };
    cases.into_iter().enumerate().map(trial).chain([pages, pairs])
}

fn thirty(rows: &[Row]) -> Result<(), Failed> {
    for page in PAGES {
        let count = rows.iter().filter(|row| row.page == page).count();
        if count < ROWS {
            return Err(format!("{page}.md has {count} rows, not {ROWS}").into());
        }
    }
    Ok(())
}

/// A row whose right side no case plays, or a case that no page shows, promises nothing.
fn paired(rows: &[Row], cases: &[Case]) -> Result<(), Failed> {
    let same = |row: &Row, case: &Case| row.here == case.here.trim_end() && row.at == case.at;
    let unplayed = rows.iter().filter(|row| !cases.iter().any(|case| same(row, case)));
    let unplayed =
        unplayed.map(|row| format!("{}.md:{}: no case plays `{}` ({})", row.page, row.line, row.here, row.at));
    let unseen = cases.iter().filter(|case| !rows.iter().any(|row| same(row, case)));
    let unseen = unseen.map(|case| format!("no page shows `{}` ({})", case.here, case.at));
    let wrong: Vec<String> = unplayed.chain(unseen).collect();
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}
