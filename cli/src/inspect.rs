//! `selvedge functions`, `calls`, `objects`, `references`, `names`, `members`: what the runtimes of a running program have.

use std::io::{self, Write};

use selvedge::inspect::{InspectTable, InspectTopic, InspectValue, InspectedRuntime, inspect};
use serde_json::{Map, Value};

use crate::args::InspectArgs;

/// Prints a table of the runtimes of a process, and to the error stream the number of rows that it lacks.
///
/// # Errors
/// The process cannot be asked, or one of its runtimes has not answered: what the others have is printed before.
pub fn run(topic: InspectTopic, args: &InspectArgs) -> anyhow::Result<()> {
    let (mut runtimes, mut failed) = (Vec::new(), None);
    for InspectedRuntime { number, table, .. } in inspect(args.pid, topic, args.limit)? {
        match table {
            Ok(table) => runtimes.push((number, table)),
            Err(error) => failed = failed.or(Some((number, error))),
        }
    }
    let text = match args.json {
        true => lines(&runtimes)?,
        false => tables(&runtimes),
    };
    crate::print(&text)?;
    for (number, table) in &runtimes {
        if table.left_out > 0 {
            let (left, shown) = (table.left_out, table.rows.len());
            let _ = writeln!(
                io::stderr(),
                "runtime {number}: {left} {topic} are left out, of {}; an answer has 10000 at most (--limit)",
                left.saturating_add(shown as u64)
            );
        }
    }
    match failed {
        Some((number, error)) => Err(anyhow::Error::new(error).context(format!("runtime {number}"))),
        None => Ok(()),
    }
}

/// One JSON object a line: the number of the runtime, and each value under the name of its column.
fn lines(runtimes: &[(u32, InspectTable)]) -> serde_json::Result<String> {
    let mut text = String::new();
    for (number, table) in runtimes {
        for row in &table.rows {
            let mut object = Map::new();
            object.insert("runtime".to_owned(), (*number).into());
            let values = table.columns.iter().zip(row);
            object.extend(values.map(|(column, value)| (column.to_string(), json(value))));
            text.push_str(&serde_json::to_string(&object)?);
            text.push('\n');
        }
    }
    Ok(text)
}

fn json(value: &InspectValue) -> Value {
    match value {
        InspectValue::Nothing => Value::Null,
        InspectValue::Number(number) => (*number).into(),
        InspectValue::Truth(truth) => (*truth).into(),
        InspectValue::Text(text) => text.as_str().into(),
        InspectValue::Numbers(numbers) => numbers.clone().into(),
        other => other.to_string().into(),
    }
}

/// A table for each runtime. A number before it, if there are several.
fn tables(runtimes: &[(u32, InspectTable)]) -> String {
    let mut text = String::new();
    for (number, table) in runtimes {
        if runtimes.len() > 1 {
            text.push_str(&format!("runtime {number}\n"));
        }
        text.push_str(&aligned(table));
    }
    text
}

/// The columns side by side: numbers to the right, everything else to the left. Characters that would move the cursor of a terminal
/// are shown as their numbers.
fn aligned(table: &InspectTable) -> String {
    let names = table.columns.iter().map(|column| shown(column)).collect();
    let rows = table.rows.iter();
    let rows = rows.map(|row| row.iter().map(|value| shown(&value.to_string())).collect());
    let lines: Vec<Vec<String>> = std::iter::once(names).chain(rows).collect();
    let column = |at: usize| lines.iter().filter_map(move |line| line.get(at));
    let widths: Vec<usize> = (0..table.columns.len())
        .map(|at| column(at).map(|text| text.chars().count()).max().unwrap_or(0))
        .collect();
    let is_number = |at: usize| {
        let mut values = table.rows.iter().filter_map(move |row| row.get(at));
        values.all(|value| matches!(value, InspectValue::Number(_) | InspectValue::Nothing))
    };
    let mut text = String::new();
    for line in &lines {
        let cells = line.iter().zip(&widths).enumerate();
        let cells = cells.map(|(at, (cell, width))| match is_number(at) {
            true => format!("{cell:>width$}"),
            false => format!("{cell:<width$}"),
        });
        let cells: Vec<_> = cells.collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

fn shown(text: &str) -> String {
    let shown = |it: char| match it.is_control() {
        true => it.escape_default().to_string(),
        false => it.to_string(),
    };
    text.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> InspectTable {
        InspectTable {
            columns: vec!["function".into(), "attempts".into(), "held_by".into()],
            rows: vec![
                vec![
                    InspectValue::Text("a\u{1b}[2J".to_owned()),
                    InspectValue::Number(1),
                    InspectValue::Numbers(vec![2, 3]),
                ],
                vec![
                    InspectValue::Text("longer::path".to_owned()),
                    InspectValue::Nothing,
                    InspectValue::Numbers(Vec::new()),
                ],
            ],
            left_out: 0,
        }
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_value_and_terminals_get_no_commands() {
        let text = aligned(&table());
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "function      attempts  held_by");
        assert_eq!(lines[1], "a\\u{1b}[2J           1  2,3");
        assert_eq!(lines[2], "longer::path         -  -");
    }

    #[test]
    fn a_row_of_json_has_the_runtime_and_every_column_by_its_name() {
        let text = lines(&[(3, table())]).unwrap();
        let row: Value = serde_json::from_str(text.lines().next_back().unwrap()).unwrap();
        assert_eq!(
            row,
            serde_json::json!({"runtime": 3, "function": "longer::path", "attempts": null, "held_by": []})
        );
    }
}
