//! The object store and workers of other hosts, which cannot map it.

use selvedge::prelude::*;

use crate::{Elsewhere, beside_others};

const BYTES: usize = 1 << 20;

fn tensor(seed: u8) -> Tensor {
    Tensor::from_raw(selvedge::DType::U8, &[BYTES], &vec![seed; BYTES]).unwrap()
}

#[remote]
fn first_and_mapped(value: Ref<Tensor>) -> Result<(u8, bool)> {
    let value = value.fetch()?;
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let is_store = |line: &str| line.contains("r--s") && line.contains("memfd:selvedge");
    Ok((value.bytes()[0], maps.lines().any(is_store)))
}

#[remote]
fn puts(seed: u8) -> Result<Ref<Tensor>> {
    Ok(Runtime::current()?.put(tensor(seed))?)
}

#[test]
fn a_worker_of_another_host_gets_objects_by_letter_and_keeps_what_it_puts() {
    let _beside = beside_others();
    let runtime = Runtime::new();
    let far = runtime.add(Elsewhere(&["a", "b"])).unwrap();
    let near = runtime.worker("near").unwrap();
    let put = runtime.put(tensor(7)).unwrap();
    assert_eq!(
        runtime
            .call(first_and_mapped::remote(&put).on(&far[0]))
            .wait()
            .unwrap(),
        (7, false)
    );
    assert_eq!(
        runtime
            .call(first_and_mapped::remote(&put).on(&near))
            .wait()
            .unwrap(),
        (7, true)
    );
    let there = runtime.call(puts::remote(9).on(&far[1])).wait().unwrap();
    assert_eq!(there.owner().process, far[1].process());
    assert_eq!(there.fetch().unwrap().bytes()[0], 9);
    assert_eq!(
        runtime
            .call(first_and_mapped::remote(&there).on(&near))
            .wait()
            .unwrap()
            .0,
        9
    );
    assert_eq!(runtime.objects().objects.len(), 1);
}
