#!/usr/bin/env python3
"""What torch.multiprocessing's queues take to hand a tensor on a GPU to another process, there and back.

A round fills a tensor on the device and puts it into a queue; the other process copies four bytes of it into a tensor that
comes back through a second queue, and is looked at. `device_ping_pong` does the same by selvedge.
"""
import time

import torch
import torch.multiprocessing as mp

ECHO = 4


def echo(there, back):
    held = None
    while True:
        tensor = there.get()
        if tensor is None:
            return
        held = tensor[:ECHO].clone()  # kept until the next one: its reader may not have opened it yet
        del tensor
        back.put(held)


def measure(there, back, size, rounds):
    times = []
    for number in range(rounds + 3):
        begin = time.perf_counter()
        tensor = torch.full((size,), number % 256, dtype=torch.uint8, device="cuda")
        there.put(tensor)
        found = back.get()
        assert found.tolist() == [number % 256] * ECHO, (found, number)
        took = time.perf_counter() - begin
        del tensor, found
        if number >= 3:
            times.append(took * 1e6)
    times.sort()
    return times


def main():
    context = mp.get_context("spawn")
    there, back = context.SimpleQueue(), context.SimpleQueue()
    other = context.Process(target=echo, args=(there, back), daemon=True)
    other.start()
    print(f"there and back by queues of torch {torch.__version__} on {torch.cuda.get_device_name()}, in microseconds")
    print("| bytes | rounds | p50 | p99 |")
    print("|--:|--:|--:|--:|")
    for power in range(12, 29, 2):
        rounds = 1000 if power <= 24 else 100
        times = measure(there, back, 1 << power, rounds)
        print(f"| {1 << power} | {rounds} | {times[len(times) // 2]:.1f} | {times[len(times) * 99 // 100]:.1f} |", flush=True)
    there.put(None)
    other.join(20)


if __name__ == "__main__":
    main()
