//! Named references between worker processes.

use std::sync::Mutex;

use selvedge::NameError;
use selvedge::prelude::*;

/// An actor behind a reference.
struct Account {
    balance: Mutex<i64>,
}

#[remote]
fn account() -> Account {
    let balance = Mutex::new(0);
    Account { balance }
}

#[remote]
fn deposit(#[here] account: &Account, sum: i64) -> i64 {
    let mut balance = account.balance.lock().unwrap();
    *balance += sum;
    *balance
}

#[remote]
fn deposit_by_name(name: String, sum: i64) -> Result<i64> {
    let runtime = Runtime::current()?;
    let account = runtime.named::<Account>(&name)?;
    Ok(runtime.call(deposit::remote(&account, sum)).wait()?)
}

/// Makes an account in its own process, and leaves it behind under a name.
#[remote]
fn open(name: String) -> Result<()> {
    let runtime = Runtime::current()?;
    let made = runtime.keep(account::remote().on_process(runtime.process()));
    runtime.name(&name, &made)?;
    Ok(())
}

#[remote]
fn owned() -> Result<usize> {
    Ok(Runtime::current()?.references().owned)
}

#[test]
fn a_function_leaves_a_value_behind_under_a_name_and_others_go_on_with_it() -> Result<()> {
    let runtime = Runtime::new();
    let [a, b] = [runtime.worker("a")?, runtime.worker("b")?];
    runtime.call(open::remote("savings").on(&a)).wait()?;
    assert_eq!(
        runtime
            .call(deposit_by_name::remote("savings", 5).on(&b))
            .wait()?,
        5
    );
    assert_eq!(
        runtime
            .call(deposit_by_name::remote("savings", 2).on(&a))
            .wait()?,
        7
    );
    let found = runtime.named::<Account>("savings")?;
    assert_eq!(runtime.call(deposit::remote(&found, 1)).wait()?, 8);
    let names = runtime.names()?;
    assert_eq!((names.len(), names[0].owner.worker()), (1, Some("a")));
    assert!(names[0].type_name.ends_with("named::Account"));
    let taken = runtime.call(open::remote("savings").on(&b)).wait().unwrap_err();
    assert!(
        taken.to_string().contains("`savings` is taken: worker `a`"),
        "{taken}"
    );
    drop(found);
    runtime.unname("savings")?;
    while runtime.call(owned::remote().on(&a)).wait()? > 0 {}
    while runtime.call(owned::remote().on(&b)).wait()? > 0 {}
    Ok(())
}

#[test]
fn a_name_ends_with_the_process_of_its_value_and_can_be_given_again() -> Result<()> {
    let runtime = Runtime::new();
    let [a, b] = [runtime.worker("a")?, runtime.worker("b")?];
    runtime.call(open::remote("savings").on(&a)).wait()?;
    let pid = rustix::process::Pid::from_raw(a.pid().unwrap() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL)?;
    while !runtime.names()?.is_empty() {}
    let error = runtime.named::<Account>("savings").unwrap_err();
    assert!(
        matches!(&error, NameError::OwnerDead { owner, .. } if owner.worker() == Some("a")),
        "{error}"
    );
    let told = runtime
        .call(deposit_by_name::remote("savings", 1).on(&b))
        .wait()
        .unwrap_err();
    assert!(
        told.to_string().contains("`savings` is lost: worker `a`"),
        "{told}"
    );
    runtime.call(open::remote("savings").on(&b)).wait()?;
    assert_eq!(runtime.call(deposit_by_name::remote("savings", 3)).wait()?, 3);
    Ok(())
}
