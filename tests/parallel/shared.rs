//! Shared arrays.

use std::ops::Range;
use std::time::Duration;

use selvedge::parallel::{ArrayError, ArrayPart, FileMode, SharedArray, SharedArrayError, SharedView};
use selvedge::prelude::*;
use selvedge::{Worker, remote};

use crate::census::{Census, wait_until};
use crate::{dies, fresh_file, pool_of};

#[remote]
fn fill_own_part(array: SharedArray<i64>) -> Result<()> {
    array.claim()?.fill(number(&array));
    Ok(())
}

/// The number of this process, as Julia numbers the first workers.
fn number(array: &SharedArray<i64>) -> i64 {
    array.position().unwrap() as i64 + 2
}

#[test]
fn jsa_01_jsa_05_one_array_in_several_processes_of_which_each_sees_all() {
    let (runtime, workers, _pool) = pool_of(2);
    let array = SharedArray::<u16>::build(&runtime, [2, 3, 4])
        .on(&workers)
        .zeroed()
        .unwrap();
    assert_eq!(
        (array.shape(), array.len(), array.is_empty()),
        (&[2, 3, 4][..], 24, false)
    );
    let shared = &array;
    let writes = remote_fn!([shared: SharedArray<u16>] |at: Vec<usize>, value: u16| -> Result<u16> {
        let view = shared.view()?;
        let before = view.get([at[0], at[1], at[2]])?;
        view.set([at[0], at[1], at[2]], value)?;
        Ok(before)
    });
    for (turn, worker) in workers.iter().enumerate() {
        let before = runtime.call(writes.remote(vec![1, 2, 3], turn as u16 + 7).on(worker));
        assert_eq!(before.wait().unwrap(), [0, 7][turn]);
    }
    let view = array.view().unwrap();
    assert_eq!(
        (
            view.get([1, 2, 3]).unwrap(),
            view.get(23).unwrap(),
            view.get([1, 2, 2]).unwrap()
        ),
        (8, 8, 0)
    );
    for outside in [[2, 0, 0], [0, 3, 0], [0, 0, 4], [usize::MAX; 3]] {
        assert!(
            matches!(view.get(outside), Err(SharedArrayError::Index { .. })),
            "{outside:?}"
        );
    }
    assert!(matches!(view.get([1, 2]), Err(SharedArrayError::Index { .. })));
    let error = view.set(24, 0).unwrap_err().to_string();
    assert!(
        error.contains("element 24") && error.contains("24 elements"),
        "{error}"
    );
    let nothing = SharedArray::<u8>::build(&runtime, [3, 0])
        .on(&workers)
        .zeroed()
        .unwrap();
    assert_eq!(
        (
            nothing.is_empty(),
            nothing.snapshot().unwrap(),
            nothing.range_of(0)
        ),
        (true, vec![], 0..0)
    );
    let vast = SharedArray::<f64>::build(&runtime, [usize::MAX, 2])
        .on(&workers)
        .zeroed();
    assert!(matches!(vast, Err(SharedArrayError::Elements(_))));
}

#[test]
fn jsa_09_jsa_12_each_process_fills_its_own_part() {
    let (runtime, workers, _pool) = pool_of(3);
    // Rows of three, as Julia's columns: memory order is the same.
    let array = SharedArray::<i64>::build(&runtime, [4, 3]).on(&workers);
    let array = array.init(remote_fn!(fill_own_part)).unwrap();
    assert_eq!(array.snapshot().unwrap(), [2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4]);
    let failed = SharedArray::<i64>::build(&runtime, [4, 3])
        .on(&workers)
        .init(remote_fn!(refuses));
    let error = failed.unwrap_err();
    assert!(error.to_string().contains("no such thing"), "{error}");
}

#[remote]
fn refuses(_array: SharedArray<i64>) -> Result<()> {
    Err("no such thing".into())
}

#[remote]
fn fill_strided(array: SharedArray<i64>) -> Result<()> {
    let (view, own) = (array.view()?, number(&array));
    let first = array.position().ok_or("no position")?;
    for index in (first..array.len()).step_by(array.processes().len()) {
        view.set(index, own)?;
    }
    Ok(())
}

#[test]
fn jsa_11_jsa_13_a_split_by_position_gives_each_process_a_row_of_its_own() {
    let (runtime, workers, _pool) = pool_of(3);
    let array = SharedArray::<i64>::build(&runtime, [4, 3]).on(&workers);
    let array = array.init(remote_fn!(fill_strided)).unwrap();
    let view = array.view().unwrap();
    for column in 0..4 {
        let column: Vec<i64> = (0..3).map(|row| view.get([column, row]).unwrap()).collect();
        assert_eq!(column, [2, 3, 4]);
    }
    assert_eq!(
        array.position(),
        None,
        "this process works only if there are no workers"
    );
    let numbers: Vec<_> = workers.iter().map(Worker::process).collect();
    assert_eq!(array.processes(), numbers);
    assert_eq!(
        array.each(remote_fn!(where_am_i)).unwrap(),
        [(Some(0), 0..4), (Some(1), 4..8), (Some(2), 8..12)]
    );
    let call = runtime.call(where_am_i::remote(&array).on_process(runtime.process()));
    assert_eq!(call.wait().unwrap(), (None, 12..12));
}

#[remote]
fn where_am_i(array: SharedArray<i64>) -> (Option<usize>, Range<usize>) {
    (array.position(), array.local_range())
}

#[remote]
fn view_error(array: SharedArray<i64>) -> Option<String> {
    let error = array.view().err()?;
    assert!(error.is_not_mapped());
    Some(error.to_string())
}

#[test]
fn jsa_06_a_process_that_is_not_on_it_gets_not_mapped() {
    let (runtime, workers, _pool) = pool_of(3);
    let array = SharedArray::<i64>::build(&runtime, [4])
        .on(&workers[..2])
        .zeroed()
        .unwrap();
    let call = |worker: &Worker| {
        runtime
            .call(view_error::remote(&array).on(worker))
            .wait()
            .unwrap()
    };
    assert_eq!((call(&workers[0]), call(&workers[1])), (None, None));
    let error = call(&workers[2]).unwrap();
    let numbers: Vec<u32> = workers[..2]
        .iter()
        .map(|worker| worker.process().number())
        .collect();
    assert!(
        error.contains(&format!("process {} does", workers[2].process().number()))
            && error.contains(&format!("none of the array's processes {numbers:?}")),
        "{error}"
    );
    let place = runtime
        .call(where_am_i::remote(&array).on(&workers[2]))
        .wait()
        .unwrap();
    assert_eq!(place, (None, 4..4));
    assert!(array.view().is_ok());
    let clone = array.clone();
    array.release().unwrap();
    let error = clone.view().unwrap_err().to_string();
    assert!(
        error.contains("released") && !error.contains("none of"),
        "{error}"
    );
    let released = runtime.call(view_error::remote(&clone).on(&workers[0]));
    let error = released.wait().unwrap().unwrap();
    let has = format!("process {} does not map the array any more", numbers[0]);
    assert!(error.contains(&has), "{error}");
    let twice = SharedArray::<i64>::build(&runtime, [4]).on(&[workers[0].clone(), workers[0].clone()]);
    assert!(matches!(twice.zeroed(), Err(SharedArrayError::Twice { .. })));
}

#[test]
fn jsa_07_no_list_means_all_processes_of_this_host_and_workers_share_the_work() {
    let (runtime, workers, _pool) = pool_of(2);
    for all in [
        SharedArray::<i64>::build(&runtime, [5]).zeroed().unwrap(),
        SharedArray::<i64>::build(&runtime, [5]).on(&[]).zeroed().unwrap(),
    ] {
        let numbers: Vec<_> = workers.iter().map(Worker::process).collect();
        assert_eq!((all.processes(), all.position()), (&numbers[..], None));
    }
    let alone = Runtime::new();
    let array = SharedArray::<i64>::build(&alone, [5])
        .init(remote_fn!(fill_own_part))
        .unwrap();
    assert_eq!((array.position(), array.local_range()), (Some(0), 0..5));
    assert_eq!(array.snapshot().unwrap(), [2; 5]);
}

#[remote]
fn fills_all(array: SharedArray<f64>, rounds: usize, value: f64) -> Result<bool> {
    let values: [f64; 2] = [1.0 / 3.0, -2.0e300];
    let mut is_whole = true;
    for _ in 0..rounds {
        let view = array.view()?;
        view.fill(0..array.len(), value)?;
        is_whole &= view
            .read(0..array.len())?
            .iter()
            .all(|seen| values.contains(seen));
    }
    Ok(is_whole)
}

#[test]
fn jsa_14_whole_fills_at_once_end_without_a_torn_element() {
    let (runtime, workers, _pool) = pool_of(2);
    let array = SharedArray::<f64>::build(&runtime, [1000])
        .on(&workers)
        .zeroed()
        .unwrap();
    let values = [1.0 / 3.0, -2.0e300];
    let calls: Vec<_> = workers
        .iter()
        .zip(values)
        .map(|(worker, value)| runtime.call(fills_all::remote(&array, 200, value).on(worker)))
        .collect();
    let whole: Vec<bool> = calls.into_iter().map(|call| call.wait().unwrap()).collect();
    assert_eq!(whole, [true, true]);
    assert!(array.snapshot().unwrap().iter().all(|seen| values.contains(seen)));
}

#[remote]
fn claims(array: SharedArray<i64>) -> String {
    match array.claim() {
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn jsa_03_a_part_is_a_slice_and_a_claim_beside_a_view_is_an_error_that_names_the_process() {
    let (runtime, workers, _pool) = pool_of(2);
    let array = SharedArray::<i64>::build(&runtime, [6])
        .on(&workers)
        .zeroed()
        .unwrap();
    let claim = || {
        runtime
            .call(claims::remote(&array).on(&workers[0]))
            .wait()
            .unwrap()
    };
    assert_eq!(claim(), "");
    let view = array.view().unwrap();
    let error = claim();
    assert!(
        error.contains(&format!("pid {} has a view", std::process::id())),
        "{error}"
    );
    drop(view);
    assert_eq!(claim(), "");
    // A worker that dies with its part has no claim any more.
    let died = runtime
        .call(claims_and_dies::remote(&array).on(&workers[0]))
        .wait();
    assert!(died.is_err());
    assert_eq!(array.snapshot().unwrap(), [5, 5, 5, 0, 0, 0]);
}

#[remote]
fn claims_and_dies(array: SharedArray<i64>) -> Result<()> {
    let mut part = array.claim()?;
    part.fill(5);
    std::process::abort()
}

#[test]
fn jsa_04_the_elements_are_a_slice_for_whoever_knows_that_nobody_writes() {
    let (runtime, workers, _pool) = pool_of(2);
    let array = SharedArray::<i64>::build(&runtime, [4]).on(&workers);
    let view = array.init(remote_fn!(fill_own_part)).unwrap().view().unwrap();
    // SAFETY: no call writes any more.
    #[allow(unsafe_code)]
    let slice = unsafe { view.as_slice() };
    assert_eq!(slice, [2, 2, 3, 3], "the view keeps the memory of its process");
}

#[remote]
fn mapped_segments() -> usize {
    Census::take().segments
}

#[remote]
fn uses(array: SharedArray<i64>) -> Result<bool> {
    array.view()?.set(0, 1)?;
    let is_there = Runtime::current()?.process().number() > 1;
    Ok(is_there)
}

#[test]
fn jsa_18_release_and_drop_free_the_memory_of_all_mappers() {
    let (runtime, workers, _pool) = pool_of(2);
    let segments = || -> Vec<usize> {
        let there = |worker| runtime.call(mapped_segments::remote().on(worker)).wait().unwrap();
        workers.iter().map(there).collect()
    };
    // The first calls make what stays.
    let first = SharedArray::<i64>::build(&runtime, [1000])
        .on(&workers)
        .zeroed()
        .unwrap();
    first.each(remote_fn!(uses)).unwrap();
    first.release().unwrap();
    let before = segments();
    let array = SharedArray::<i64>::build(&runtime, [1000])
        .on(&workers)
        .zeroed()
        .unwrap();
    let clone = array.clone();
    array.each(remote_fn!(uses)).unwrap();
    let mapped: Vec<usize> = before.iter().map(|count| count + 1).collect();
    assert_eq!(segments(), mapped);
    drop(array);
    assert!(clone.each(remote_fn!(uses)).is_ok(), "a clone keeps it");
    assert_eq!(segments(), mapped);
    let other = clone.clone();
    clone.release().unwrap();
    assert_eq!(segments(), before, "release waits for all");
    assert!(other.view().unwrap_err().is_not_mapped());
    let error = other.each(remote_fn!(uses)).unwrap_err();
    assert!(error.to_string().contains("does not map the array"), "{error}");
    let dropped = SharedArray::<i64>::build(&runtime, [1000])
        .on(&workers)
        .zeroed()
        .unwrap();
    assert_eq!(segments(), mapped);
    drop(dropped);
    assert_eq!(wait_until(&before, segments), before);
}

#[test]
fn jsa_17_mappers_that_are_killed_leave_nothing() {
    let kills = std::env::var("KILLS")
        .ok()
        .and_then(|kills| kills.parse().ok())
        .unwrap_or(50);
    let (runtime, workers, _pool) = pool_of(1);
    let survivor = &workers[0];
    let names = || {
        std::fs::read_dir("/dev/shm")
            .map(Iterator::count)
            .unwrap_or_default()
    };
    let there = || {
        runtime
            .call(mapped_segments::remote().on(survivor))
            .wait()
            .unwrap()
    };
    let round = || {
        let victim = runtime.worker("victim").unwrap();
        let both = [survivor.clone(), victim.clone()];
        let array = SharedArray::<i64>::build(&runtime, [1000])
            .on(&both)
            .zeroed()
            .unwrap();
        assert!(
            runtime
                .call(claims_and_dies::remote(&array).on(&victim))
                .wait()
                .is_err()
        );
        assert_eq!(array.view().unwrap().get(500).unwrap(), 5);
        array.release().unwrap();
    };
    round();
    let before = (names(), there());
    // A worker's links are taken apart a moment after its death.
    for _ in 0..kills {
        round();
    }
    assert_eq!(wait_until(&before, || (names(), there())), before);
}

#[test]
fn jsa_17_a_maker_that_dies_leaves_no_mapping_with_the_others() {
    let (runtime, workers, _pool) = pool_of(2);
    let there = || {
        runtime
            .call(mapped_segments::remote().on(&workers[1]))
            .wait()
            .unwrap()
    };
    let before = there();
    // A worker makes an array alone; its death frees that, and nobody else is on it.
    let made = remote_fn!(|length: usize| -> Result<usize> {
        let array = SharedArray::<f32>::build(&Runtime::current()?, [length]).zeroed()?;
        array.view()?.set(length - 1, 1.0)?;
        Ok(array.processes().len())
    });
    assert_eq!(runtime.call(made.remote(100).on(&workers[0])).wait().unwrap(), 1);
    assert!(runtime.call(dies::remote().on(&workers[0])).wait().is_err());
    assert_eq!(wait_until(&before, there), before);
}

#[test]
fn jsa_19_only_the_name_of_an_array_is_sent() {
    let (runtime, workers, _pool) = pool_of(1);
    let array = SharedArray::<i64>::build(&runtime, [1 << 20])
        .on(&workers)
        .zeroed()
        .unwrap();
    let sent = || -> u64 { runtime.traffic().iter().map(|link| link.counts.bytes_sent).sum() };
    let before = sent();
    runtime.call(uses::remote(&array).on(&workers[0])).wait().unwrap();
    assert!(sent() - before < 1000, "of 8 MiB");
    let back = runtime
        .call(gives_back::remote(&array).on(&workers[0]))
        .wait()
        .unwrap();
    assert_eq!(
        back.view().unwrap().get(0).unwrap(),
        1,
        "it finds the maker's own mapping"
    );
}

#[remote]
fn gives_back(array: SharedArray<i64>) -> SharedArray<i64> {
    array
}

#[remote]
fn sum_of_part(array: SharedArray<i64>) -> Result<i64> {
    Ok(array.view()?.read(array.local_range())?.into_iter().sum())
}

#[test]
fn jsa_21_fill_map_reduce_and_copy_work_at_the_part_of_each_process() {
    let (runtime, workers, _pool) = pool_of(3);
    let array = SharedArray::<i64>::build(&runtime, [10])
        .on(&workers)
        .zeroed()
        .unwrap();
    array.fill(3).unwrap();
    assert_eq!(array.snapshot().unwrap(), [3; 10]);
    let squares = remote_fn!(|array: SharedArray<i64>| -> Result<()> {
        let mut part = array.claim()?;
        let places = part.range();
        part.iter_mut()
            .zip(places)
            .for_each(|(element, place)| *element += (place * place) as i64);
        Ok(())
    });
    array.each(squares).unwrap();
    let expected: Vec<i64> = (0..10).map(|place| 3 + place * place).collect();
    assert_eq!(array.snapshot().unwrap(), expected);
    let sum = array
        .reduce(remote_fn!(sum_of_part), |one, other| one + other)
        .unwrap();
    assert_eq!(sum, Some(expected.iter().sum()));
    let words = remote_fn!(|array: SharedArray<i64>| -> String { format!("{:?} ", array.local_range()) });
    let in_order = array.reduce(words, |one, other| one + &other).unwrap();
    assert_eq!(in_order.unwrap(), "0..3 3..6 6..10 ");
    let copy = SharedArray::<i64>::build(&runtime, [10])
        .on(&workers)
        .zeroed()
        .unwrap();
    copy.copy_from(&array).unwrap();
    assert_eq!(copy.snapshot().unwrap(), expected);
    for other in [
        SharedArray::<i64>::build(&runtime, [9]).on(&workers),
        SharedArray::<i64>::build(&runtime, [10]).on(&workers[1..]),
    ] {
        let other = other.zeroed().unwrap();
        assert!(matches!(
            copy.copy_from(&other),
            Err(SharedArrayError::Different { .. })
        ));
    }
}

#[remote]
fn write_place(array: SharedArray<u32>) -> Result<()> {
    let range = array.local_range();
    let places: Vec<u32> = range.clone().map(|place| place as u32).collect();
    Ok(array.view()?.write(range.start, &places)?)
}

#[test]
fn jsa_20_a_file_is_an_array_in_four_modes() {
    let (runtime, workers, _pool) = pool_of(2);
    let path = fresh_file("array");
    let build = || SharedArray::<u32>::build(&runtime, [4]).on(&workers);
    let missing = build().file(&path, FileMode::ReadWrite).unwrap_err();
    assert!(
        matches!(missing, SharedArrayError::File { .. }) && missing.to_string().contains(&path),
        "{missing}"
    );
    let array = build().file(&path, FileMode::Truncate).unwrap();
    array.each(remote_fn!(write_place)).unwrap();
    let busy = build().file(&path, FileMode::Read).unwrap_err();
    assert!(matches!(busy, SharedArrayError::FileInUse { .. }), "{busy}");
    array.release().unwrap();
    let bytes: Vec<u8> = [0_u32, 1, 2, 3]
        .iter()
        .flat_map(|place| place.to_ne_bytes())
        .collect();
    assert_eq!(std::fs::read(&path).unwrap(), bytes);

    let array = build().file(&path, FileMode::Read).unwrap();
    assert_eq!(array.snapshot().unwrap(), [0, 1, 2, 3]);
    let error = array.each(remote_fn!(write_place)).unwrap_err();
    assert!(error.to_string().contains("for reading alone"), "{error}");
    assert!(matches!(
        array.fill(1),
        Err(SharedArrayError::Elements(ArrayError::ReadOnly))
    ));
    assert!(matches!(
        array.claim(),
        Err(SharedArrayError::Elements(ArrayError::ReadOnly))
    ));
    let second = build().file(&path, FileMode::Read).unwrap();
    assert_eq!(second.snapshot().unwrap(), [0, 1, 2, 3], "two may read");
    array.release().unwrap();
    second.release().unwrap();

    let array = build().file(&path, FileMode::ReadWrite).unwrap();
    array.view().unwrap().set(2, 9).unwrap();
    array.release().unwrap();
    let long = || SharedArray::<u32>::build(&runtime, [6]).on(&workers);
    let short = long().file(&path, FileMode::ReadWrite).unwrap_err();
    assert!(
        matches!(
            short,
            SharedArrayError::FileTooShort {
                has_bytes: 16,
                need_bytes: 24,
                ..
            }
        ),
        "{short}"
    );
    let array = long().file(&path, FileMode::Extend).unwrap();
    assert_eq!(array.snapshot().unwrap(), [0, 1, 9, 3, 0, 0]);
    array.release().unwrap();
    let array = build().file(&path, FileMode::Truncate).unwrap();
    assert_eq!(array.snapshot().unwrap(), [0; 4]);
    array.release().unwrap();
    let nothing = SharedArray::<u32>::build(&runtime, [0]).on(&workers);
    let nothing = nothing.file(&path, FileMode::Truncate).unwrap();
    assert!(nothing.snapshot().unwrap().is_empty());
    nothing.release().unwrap();
    let relative = build().file("array", FileMode::Extend).unwrap_err();
    assert!(matches!(relative, SharedArrayError::RelativePath { .. }));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn jsa_20_a_path_of_something_else_than_a_file_is_refused_without_a_wait() {
    let runtime = Runtime::new();
    let build = || SharedArray::<u32>::build(&runtime, [4]);
    let pipe = fresh_file("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let folder = std::env::temp_dir().to_string_lossy().into_owned();
    for path in [pipe.as_str(), folder.as_str(), "/dev/zero"] {
        for mode in [
            FileMode::Read,
            FileMode::ReadWrite,
            FileMode::Truncate,
            FileMode::Extend,
        ] {
            let error = build().file(path, mode).unwrap_err();
            assert!(matches!(error, SharedArrayError::NotAFile { .. }), "{error}");
            assert!(error.to_string().starts_with(path), "{error}");
        }
    }
    std::fs::remove_file(pipe).unwrap();
}

#[remote]
fn keeps_part(array: SharedArray<u32>) -> Result<ArrayPart<u32>> {
    Ok(array.claim()?)
}

#[remote]
fn keeps_view(array: SharedArray<u32>) -> Result<SharedView<u32>> {
    Ok(array.view()?)
}

#[test]
fn jsa_20_a_file_is_in_use_as_long_as_a_worker_maps_it() {
    let (runtime, workers, _pool) = pool_of(1);
    let path = fresh_file("in-use");
    let file = |mode| {
        SharedArray::<u32>::build(&runtime, [4])
            .on(&workers)
            .file(&path, mode)
    };
    let is_in_use = |mode| matches!(file(mode), Err(SharedArrayError::FileInUse { .. }));
    let array = file(FileMode::Truncate).unwrap();
    let part = runtime.keep(keeps_part::remote(&array).on(&workers[0]));
    part.ready_timeout(Duration::from_secs(60)).unwrap();
    drop(array);
    for mode in [
        FileMode::Truncate,
        FileMode::Extend,
        FileMode::ReadWrite,
        FileMode::Read,
    ] {
        assert!(is_in_use(mode), "{mode:?} beside a part");
    }
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 16, "the pages are there");
    drop(part);
    wait_until(&false, || is_in_use(FileMode::Read));

    let array = file(FileMode::Read).unwrap();
    let view = runtime.keep(keeps_view::remote(&array).on(&workers[0]));
    view.ready_timeout(Duration::from_secs(60)).unwrap();
    drop(array);
    assert!(
        is_in_use(FileMode::ReadWrite) && !is_in_use(FileMode::Read),
        "who reads keeps writers out alone"
    );
    drop(view);
    wait_until(&false, || is_in_use(FileMode::Truncate));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn jpar_07_a_loop_over_a_shared_array_writes_what_its_caller_sees() {
    let (runtime, workers, pool) = pool_of(2);
    let array = SharedArray::<u64>::build(&runtime, [100])
        .on(&workers)
        .zeroed()
        .unwrap();
    let captured = &array;
    let work = remote_fn!([captured: SharedArray<u64>] |chunk: Range<u64>| -> Result<()> {
        let view = captured.view()?;
        for number in chunk {
            view.set(number as usize, number * number)?;
        }
        Ok(())
    });
    pool.range(0..100).start(work).unwrap().wait().unwrap();
    assert_eq!(
        array.snapshot().unwrap(),
        (0..100).map(|number| number * number).collect::<Vec<_>>()
    );
    assert!(pool.take_timeout(Duration::from_secs(20)).is_ok());
}

/// `q[t + 1, i] = q[t, i] + 1` for elements in memory order, as far as there is a next time.
#[remote]
fn advances(q: SharedArray<u64>, elements: Range<usize>) -> Result<()> {
    let (view, width) = (q.view()?, q.shape()[1]);
    for index in elements.filter(|index| index + width < q.len()) {
        view.set(index + width, view.get(index)? + 1)?;
    }
    Ok(())
}

#[test]
fn jsa_15_a_split_of_the_elements_in_memory_order_breaks_the_order_of_times() {
    let (runtime, workers, _pool) = pool_of(2);
    let q = SharedArray::<u64>::build(&runtime, [4, 3])
        .on(&workers)
        .zeroed()
        .unwrap();
    let advance = |place: usize| {
        let call = advances::remote(&q, q.range_of(place)).on(&workers[place]);
        runtime.call(call).wait().unwrap();
    };
    // Nobody says which worker comes first.
    [1, 0].into_iter().for_each(advance);
    assert_eq!(q.snapshot().unwrap(), [0, 0, 0, 1, 1, 1, 2, 2, 2, 1, 1, 1]);
    q.fill(0).unwrap();
    [0, 1].into_iter().for_each(advance);
    assert_eq!(q.snapshot().unwrap(), [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]);
}
