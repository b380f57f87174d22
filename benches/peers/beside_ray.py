#!/usr/bin/env python3
"""Ray's core beside `selvedge bench objects`, in turns on one machine.

    pip install ray numpy
    cargo build --release -p selvedge-cli
    python3 benches/peers/beside_ray.py target/release/selvedge [--turns 5] [--seconds 2]

Each turn runs one side and then the other, and the next turn begins with the other one. A figure is the median of the medians of
the turns. Both sides have one worker process. Rows, named as `selvedge bench objects` names them:

- put 8, put 1 MiB, put 64 MiB: a value is put, and its reference is dropped; a number, or an array of bytes.
- get: an array is fetched that this process has fetched before, and still has. get_anew: one that nobody here has.
- get_there: a function in the worker fetches such an array.
- submitted: 1 000 functions that do nothing are submitted, and waited for; the time of one.
- wait: a wait for 1 000 values that are there. wait_each: 1 000 functions are submitted, and waited for as they end, one by one.
- references: an object with 10 000 references is put. references_get: it is fetched.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time

SIZES = (1 << 20, 64 << 20)
CALLS = 1000
REFERENCES = 10_000
# Seconds. Ray starts workers while calls wait, which takes long on a busy machine.
WAIT_MAX = 600


def median_ns(seconds, work, each=1):
    """The median time of `work`, which runs at least three times; divided by `each`."""
    work()
    times, until = [], time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < until:
        begun = time.perf_counter_ns()
        work()
        times.append((time.perf_counter_ns() - begun) / each)
    return statistics.median(times)


def measure_ray(seconds):
    """Ray's rows, in nanoseconds. Runs in a process of its own, since a cluster belongs to its process."""
    import numpy
    import ray

    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, object_store_memory=1 << 30)

    @ray.remote
    def returns(number):
        return number

    @ray.remote
    def fetches(boxed, seconds):
        # In a list, so that the reference arrives and not the value.
        return median_ns(seconds, lambda: ray.get(boxed[0]))

    rows = {}
    ray.get(returns.remote(1))
    rows["put 8"] = median_ns(seconds, lambda: ray.put(7))
    for size in SIZES:
        value = numpy.ones(size, dtype=numpy.uint8)
        rows[f"put {size}"] = median_ns(seconds, lambda: ray.put(value))
        object_ref = ray.put(value)
        rows[f"get_anew {size}"] = median_ns(seconds, lambda: ray.get(object_ref))
        held = ray.get(object_ref)
        rows[f"get {size}"] = median_ns(seconds, lambda: ray.get(object_ref))
        rows[f"get_there {size}"] = ray.get(fetches.remote([object_ref], seconds))
        del held, object_ref

    def submit():
        return [returns.remote(number) for number in range(CALLS)]

    def all_of(calls):
        done, left = ray.wait(calls, num_returns=len(calls), timeout=WAIT_MAX)
        assert not left
        return done

    rows["submitted 8"] = median_ns(seconds, lambda: all_of(submit()), CALLS)
    made = all_of(submit())
    rows[f"wait {CALLS * 8}"] = median_ns(seconds, lambda: all_of(made))

    def wait_each():
        left = submit()
        while left:
            _, left = ray.wait(left, timeout=WAIT_MAX)

    rows[f"wait_each {CALLS * 8}"] = median_ns(seconds, wait_each)
    references = [ray.put(number) for number in range(REFERENCES)]
    rows[f"references {REFERENCES * 8}"] = median_ns(seconds, lambda: ray.put(references))
    boxed = ray.put(references)
    rows[f"references_get {REFERENCES * 8}"] = median_ns(seconds, lambda: ray.get(boxed))
    ray.shutdown()
    return rows


def run_ray(seconds):
    command = [sys.executable, os.path.abspath(__file__), "--ray", "--seconds", str(seconds)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(output.stdout.splitlines()[-1])


def run_selvedge(program, seconds):
    command = [program, "bench", "objects", "--json", "--seconds", str(seconds)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    rows = map(json.loads, output.stdout.splitlines())
    return {f"{row['mode']} {row['payload_bytes']}": row["p50_ns"] for row in rows}


def shown(nanoseconds):
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds:.3g} ns"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", nargs="?", help="the command `selvedge`, built for release")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="the time for one row of one turn")
    parser.add_argument("--ray", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.ray:
        print(json.dumps(measure_ray(args.seconds)))
        return
    if args.program is None:
        parser.error("name the command `selvedge`")
    sides = {"selvedge": lambda: run_selvedge(args.program, args.seconds), "Ray": lambda: run_ray(args.seconds)}
    found = {side: [] for side in sides}
    for turn in range(args.turns):
        for side in list(sides) if turn % 2 == 0 else reversed(list(sides)):
            found[side].append(sides[side]())
    import ray

    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"Ray {ray.__version__}, Python {platform.python_version()}, Linux {platform.release()}, ", end="")
    print(f"{os.cpu_count()} cores, {args.turns} turns, load at the end {load}\n")
    print("| | bytes | selvedge | Ray | Ray / selvedge |\n|---|--:|--:|--:|--:|")
    for row in found["selvedge"][0]:
        medians = [
            statistics.median(turn[row] for turn in found[side] if row in turn) if row in found[side][0] else None
            for side in sides
        ]
        name, size = row.split()
        ours, theirs = medians
        cells = [shown(ours), shown(theirs) if theirs else "", f"{theirs / ours:.3g}" if theirs else ""]
        print(f"| {name} | {size} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
