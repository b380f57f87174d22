//! `list`: several edges as one list argument. The lane of the task builds the list, in order; lists may be nested
//! and repeated.

use crate::actors::{self, PLACEMENTS, counter};
use selvedge::prelude::*;
use serde::{Deserialize, Serialize};

type Hidden = Vec<i64>;

/// A payload whose `Clone` panics for a negative number.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Fragile(i64);

impl Clone for Fragile {
    fn clone(&self) -> Self {
        assert!(self.0 >= 0, "{} is fragile", self.0);
        Fragile(self.0)
    }
}

struct Lists;

#[actor]
impl Lists {
    pub fn new() -> Self {
        Lists
    }

    pub fn digits(&mut self, parts: Vec<i64>) -> i64 {
        parts.iter().fold(0, |all, part| 10 * all + part)
    }

    pub fn borrowed(&mut self, parts: &[i64], last: i64) -> i64 {
        parts.iter().fold(0, |all, part| 10 * all + part) * 10 + last
    }

    pub fn nested(&mut self, rows: Vec<Vec<i64>>) -> Vec<i64> {
        rows.iter().map(|row| row.iter().sum()).collect()
    }

    pub fn sum(&mut self, parts: &[i64]) -> i64 {
        parts.iter().sum()
    }

    pub fn words(&mut self, words: &[String]) -> String {
        words.join(" ")
    }

    pub fn fragile(&mut self, x: i64) -> Fragile {
        Fragile(x)
    }

    pub fn strong(&mut self, parts: Vec<Fragile>) -> usize {
        parts.len()
    }

    pub fn hidden(&mut self, parts: Hidden) -> i64 {
        parts.len() as i64
    }
}

#[test]
fn dag_07_a_list_of_edges_is_one_argument_everywhere() -> Result<()> {
    for placement in PLACEMENTS {
        for other in PLACEMENTS {
            let runtime = Runtime::new();
            let lists = runtime.spawn::<Lists>("lists", ()).place(placement)?;
            let a = counter(&runtime, "a", other);
            let graph = runtime.compile(|x: Edge<i64>| {
                let parts: Vec<_> = (1..=4).map(|factor| a.scale(&x, factor)).collect();
                (
                    lists.digits(&list(parts.clone())),
                    // The list holds the input, a constant, and the same edge twice.
                    lists.borrowed(
                        &list([x.clone(), constant(7), parts[1].clone(), parts[1].clone()]),
                        &x,
                    ),
                    lists.digits(&list(Vec::<Edge<i64>>::new())).after(&x),
                    lists.nested(&list([list(parts), list([x.clone()]), list([])])),
                )
            })?;
            for x in [1, 2] {
                let expected = (1234 * x, 1722 * 10 + 1, 0, vec![10 * x, x, 0]);
                let found = graph.execute(x).wait()?;
                assert_eq!(
                    (found.0, found.2, &found.3),
                    (expected.0, expected.2, &expected.3),
                    "{placement} {other}"
                );
                let borrowed = ((x * 10 + 7) * 10 + 2 * x) * 10 + 2 * x;
                assert_eq!(found.1, borrowed * 10 + x, "{placement} {other}");
            }
        }
    }
    Ok(())
}

#[test]
fn dag_07_elements_move_where_they_are_read_once() -> Result<()> {
    for placement in [Placement::Inline, Placement::Thread] {
        let runtime = Runtime::new();
        let lists = runtime.spawn::<Lists>("lists", ()).place(placement)?;
        let graph =
            runtime.compile(|x: Edge<i64>| lists.strong(&list([lists.fragile(&x), lists.fragile(&x)])))?;
        assert_eq!(graph.execute(-1).wait()?, 2, "nothing was cloned");
        drop(graph);
        // The list reads one edge twice, so the value is cloned. A `Clone` that panics is an error of the task that
        // clones.
        let graph = runtime.compile(|x: Edge<i64>| {
            let one = lists.fragile(&x);
            lists.strong(&list([one.clone(), one]))
        })?;
        let error = graph.execute(-1).wait().unwrap_err();
        assert!(error.to_string().contains("lists.strong"), "{error}");
        assert_eq!(graph.execute(1).wait()?, 2);
    }
    Ok(())
}

#[test]
fn task_08_an_element_that_failed_fails_what_takes_the_list() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let lists = runtime.spawn::<Lists>("lists", ()).place(placement)?;
        let a = counter(&runtime, "a", placement);
        let graph = runtime
            .compile(|x: Edge<i64>| lists.digits(&list([a.echo(&x), a.fail_if_negative(&x), a.echo(&x)])))?;
        for x in [-1, 3, -2, 4] {
            match graph.execute(x).wait() {
                Ok(found) => assert_eq!(found, 111 * x),
                Err(error) => assert!(
                    x < 0 && error.to_string().contains("a.fail_if_negative"),
                    "{error}"
                ),
            }
        }
    }
    Ok(())
}

#[test]
fn dag_20_a_list_for_what_is_not_written_as_one_is_refused() -> Result<()> {
    let runtime = Runtime::new();
    let lists = runtime.spawn::<Lists>("lists", ()).inline()?;
    let error = runtime
        .compile(|x: Edge<i64>| lists.hidden(&list([x.clone(), x])))
        .unwrap_err();
    assert_eq!(error.diagnostics[0].code.as_str(), "D0116");
    assert!(error.to_string().contains("`parts` of `lists.hidden`"), "{error}");
    let error = runtime.compile(|x: Edge<i64>| list([x])).unwrap_err();
    assert_eq!(error.diagnostics[0].code.as_str(), "D0110");
    // The alias hides the list type from `#[actor]`, so the argument is an ordinary value.
    let graph = runtime.compile(|x: Edge<Vec<i64>>| lists.hidden(&x))?;
    assert_eq!(graph.execute(vec![1, 2, 3]).wait()?, 3);
    Ok(())
}

#[test]
fn graph_05_a_task_runs_after_all_of_a_list_and_mistakes_in_it_are_told() -> Result<()> {
    let runtime = Runtime::new();
    let a = counter(&runtime, "a", Placement::Thread);
    let graph = runtime.compile(|x: Edge<i64>| {
        let both = [a.echo(&x), a.fail_if_negative(&x)];
        a.tick().after(&list(both))
    })?;
    assert_eq!(graph.execute(1).wait()?, 1);
    assert!(graph.execute(-1).wait().is_err());
    assert_eq!(graph.execute(1).wait()?, 2, "the skipped task did nothing");
    drop(graph);
    let mut kept = None;
    let _ = runtime.compile(|x: Edge<i64>| kept.insert(x).clone());
    let error = runtime
        .compile(|x: Edge<i64>| a.echo(&x).after(&list(kept)))
        .unwrap_err();
    assert_eq!(error.diagnostics[0].code.as_str(), "D0101");
    Ok(())
}

#[test]
fn graph_05_an_order_of_a_list_is_that_of_its_members_and_what_no_task_makes_has_none() -> Result<()> {
    let runtime = Runtime::new();
    let a = counter(&runtime, "a", Placement::Inline);
    let (b, lists) = (
        counter(&runtime, "b", Placement::Thread),
        runtime.spawn::<Lists>("lists", ()).in_thread()?,
    );
    let graph = runtime.compile(|x: Edge<i64>| {
        let done = a.echo(&x);
        let members = list([b.inc(&constant(1)), b.scale(&constant(2), 3)]).after(&done);
        (lists.digits(&members), done)
    })?;
    let waits = graph.describe().matches("after end of a.echo").count();
    assert_eq!(waits, 2, "{}", graph.describe());
    drop(graph);
    let code = |error: selvedge::CompileError| error.diagnostics[0].code.as_str();
    let of_input = runtime.compile(|(x, y): (Edge<i64>, Edge<i64>)| a.echo(&x.after(&b.echo(&y))));
    assert_eq!(code(of_input.unwrap_err()), "D0125");
    let of_constant = runtime.compile(|x: Edge<i64>| {
        let done = b.echo(&x);
        a.add(&done, &constant(1).after(&done))
    });
    assert_eq!(code(of_constant.unwrap_err()), "D0125");
    Ok(())
}

#[test]
fn intra_01_texts_of_several_actors_are_joined() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let lists = runtime.spawn::<Lists>("lists", ()).place(placement)?;
        let texts = runtime.spawn::<actors::Text>("texts", ()).in_process()?;
        let graph = runtime.compile(|x: Edge<String>| {
            lists.words(&list([texts.upper(&x), x, constant("end".to_owned())]))
        })?;
        assert_eq!(graph.execute("ab".into()).wait()?, "AB ab end");
    }
    Ok(())
}

#[test]
fn dag_07_a_list_may_have_more_edges_than_16_bits_count() -> Result<()> {
    let runtime = Runtime::new();
    let lists = runtime.spawn::<Lists>("lists", ()).in_thread()?;
    let edges = 66_000;
    let graph = runtime.compile(|(x, last): (Edge<i64>, Edge<i64>)| {
        let edge = |index: i64| if index == edges { &last } else { &x };
        lists.sum(&list((0..=edges).map(|index| edge(index).clone())))
    })?;
    assert_eq!(graph.run((1, 1_000_000))?, edges + 1_000_000);
    Ok(())
}
