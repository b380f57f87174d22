//! Distributed arrays, and vectors for code that does not care where their elements are.

use std::time::Duration;

use selvedge::parallel::{ArrayLike, DistArray, DistError, LocalMatrix, Pool, SharedArray, SharedArrayError};
use selvedge::prelude::*;

use crate::{add_line, dies, fresh_file, lines, pool_of};

#[remote]
fn sums(#[here] a: &[f64], #[here] b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

#[remote]
fn halves(#[here] a: &[f64]) -> Vec<f32> {
    a.iter().map(|a| *a as f32 / 2.0).collect()
}

#[test]
fn jext_03_operations_by_element_stay_distributed_and_equal_those_of_one_process() {
    let (runtime, workers, pool) = pool_of(3);
    for len in [0, 1, 2, 3, 10, 1001] {
        let a: Vec<f64> = (0..len).map(f64::from).collect();
        let b: Vec<f64> = a.iter().map(|a| 1.0 / (a + 1.0)).collect();
        let (far_a, far_b) = (pool.distribute(&a).unwrap(), pool.distribute(&b).unwrap());
        let local: Vec<f64> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
        let far = far_a.zip_map(&far_b, remote_fn!(sums)).unwrap();
        assert_eq!((far.len(), far.gather().unwrap()), (local.len(), local.clone()));
        assert_eq!(far.ranges().count(), (len as usize).min(3));
        let halved: Vec<f32> = local.iter().map(|element| *element as f32 / 2.0).collect();
        assert_eq!(far.map(remote_fn!(halves)).gather().unwrap(), halved);
        // An associative operation that is not commutative, so the order shows.
        let texts = remote_fn!(|#[here] part: &[f64]| -> String { format!("{part:?}") });
        let text = far
            .reduce(texts, |one, other| one + &other)
            .unwrap()
            .unwrap_or_default();
        let wanted: String = far.ranges().map(|range| format!("{:?}", &local[range])).collect();
        assert_eq!(text, wanted);
    }
    // What is made of a part stays in its worker.
    let traffic = || -> u64 { runtime.traffic().iter().map(|link| link.counts.bytes_sent).sum() };
    let a = pool.distribute(&vec![1.0; 30_000]).unwrap();
    a.reduce(remote_fn!(length), |one, other| one + other).unwrap();
    let before = traffic();
    let twice = a.zip_map(&a, remote_fn!(sums)).unwrap();
    let four = twice.zip_map(&twice, remote_fn!(sums)).unwrap();
    let lengths = four.reduce(remote_fn!(length), |one, other| one + other).unwrap();
    assert_eq!(lengths, Some(30_000));
    assert!(traffic() - before < 20_000, "of 240 000 bytes");
    drop(workers);
}

#[remote]
fn length(#[here] part: &[f64]) -> usize {
    part.len()
}

#[remote]
fn shorter(#[here] part: &[f64]) -> Result<Vec<f64>> {
    match part.first() {
        Some(0.0) => Err("the first part".into()),
        Some(2.0) => Ok(part.to_vec()),
        _ => Ok(part[1..].to_vec()),
    }
}

#[test]
fn a_part_that_fails_is_too_short_or_is_lost_is_an_error_that_says_so() {
    let (runtime, workers, pool) = pool_of(2);
    let a = pool.distribute(&[0.0, 1.0, 2.0, 3.0]).unwrap();
    let error = a.map(remote_fn!(shorter)).gather().unwrap_err();
    assert!(error.to_string().contains("the first part"), "{error}");
    let a = pool.distribute(&[1.0, 1.0, 2.0, 3.0]).unwrap();
    let error = a.map(remote_fn!(shorter)).gather().unwrap_err();
    assert!(
        matches!(
            error,
            DistError::WrongLength {
                part: 0,
                has: 1,
                wanted: 2
            }
        ),
        "{error}"
    );
    let other = pool.distribute(&[1.0; 5]).unwrap();
    assert!(matches!(
        a.zip_map(&other, remote_fn!(sums)),
        Err(DistError::Different)
    ));
    for width in [0, 3] {
        assert!(matches!(
            pool.distribute_rows(&[1.0; 4], width),
            Err(DistError::Rows { len: 4, .. })
        ));
    }
    assert!(runtime.call(dies::remote().on(&workers[1])).wait().is_err());
    assert!(matches!(a.gather(), Err(DistError::Part(_))));
    assert!(a.reduce(remote_fn!(length), |one, other| one + other).is_err());
}

/// Two parts: the first one is not made before the file has a line, and the function of the second one fails.
fn one_waits_and_one_fails(pool: &Pool, path: &String) -> DistArray<f64> {
    let makes = remote_fn!([path: String] |#[here] part: &[f64]| -> Result<Vec<f64>> {
        match part.first() {
            Some(0.0) => {
                while lines(&path).is_empty() { std::thread::sleep(Duration::from_millis(1)); }
                Ok(part.to_vec())
            }
            _ => Err("the second part".into()),
        }
    });
    pool.distribute(&[0.0, 1.0]).unwrap().map(makes)
}

#[test]
fn an_error_of_any_part_is_told_while_others_are_still_made() {
    let (runtime, workers, pool) = pool_of(2);
    let path = &fresh_file("gate-of-parts");
    let parts = one_waits_and_one_fails(&pool, path);
    let error = parts
        .reduce(remote_fn!(length), |one, other| one + other)
        .unwrap_err();
    assert!(error.to_string().contains("the second part"), "{error}");
    let error = parts.gather().unwrap_err();
    assert!(error.to_string().contains("the second part"), "{error}");
    add_line(path, "make it");
    drop((parts, pool, workers, runtime));
    std::fs::remove_file(path).unwrap();
}

/// The dominant eigenvector of a matrix, of which the greatest element is 1, and the eigenvalue. The same code for every kind of vector.
fn power_method<A: ArrayLike>(matrix: &A::Matrix, mut vector: A) -> Result<(Vec<f64>, f64), A::Error> {
    for _ in 0..30 {
        let product = vector.times(matrix)?;
        vector = product.divided(product.norm_max()?)?;
    }
    Ok((vector.elements()?, vector.times(matrix)?.norm_max()?))
}

#[test]
fn jext_04_the_power_method_gives_the_same_bits_on_local_distributed_and_shared_arrays() {
    let (runtime, workers, pool) = pool_of(3);
    const LEN: usize = 20;
    let element = |place: usize| 1.0 / (1 + place / LEN + place % LEN) as f64;
    let elements: Vec<f64> = (0..LEN * LEN).map(element).collect();
    let vector = vec![1.0; LEN];

    let matrix = LocalMatrix {
        elements: elements.clone(),
    };
    let local = power_method(&matrix, vector.clone()).unwrap();
    assert!(
        (local.1 - 1.907).abs() < 0.001,
        "the greatest eigenvalue of a Hilbert matrix: {}",
        local.1
    );

    let rows = pool.distribute_rows(&elements, LEN).unwrap();
    assert_eq!(
        power_method(&rows, pool.distribute(&vector).unwrap()).unwrap(),
        local
    );

    let shared = |shape: &[usize], values: &[f64]| {
        let array = SharedArray::<f64>::build(&runtime, shape)
            .on(&workers)
            .zeroed()
            .unwrap();
        array.view().unwrap().write(0, values).unwrap();
        array
    };
    let (rows, start) = (shared(&[LEN, LEN], &elements), shared(&[LEN], &vector));
    assert_eq!(power_method(&rows, start.clone()).unwrap(), local);

    assert!(vec![1.0; 3].times(&matrix).is_err());
    assert!(matches!(
        start.times(&start),
        Err(SharedArrayError::Different { .. })
    ));
    let wrong = pool.distribute(&vector).unwrap();
    assert!(matches!(wrong.times(&wrong), Err(DistError::Different)));
}
