#!/usr/bin/env python3
"""Forecasts how fast large machines make memory ready. A model, not a measurement.

    tests/bench/forecast.py [--check]

The rate of a node is that of one thread times the published speedup of parallel
clearing, and at most four fifths of the nominal bandwidth of its memory. Beyond the
16 threads of the published tables nothing is assumed, and hugepool uses no more.
--check compares the model with every published row.
"""
import sys

# ktask's tables for clearing gigantic pages (docs/performance.md): GiB, then the
# speedup by threads.
PUBLISHED = {
    "Xeon E7-8895 v3": {100: {2: 2.03, 4: 4.28, 8: 8.39, 16: 10.44},
                        200: {2: 2.21, 4: 4.64, 8: 8.99, 16: 11.27},
                        400: {2: 2.30, 4: 4.63, 8: 8.92, 16: 11.78},
                        800: {2: 2.54, 4: 4.98, 8: 10.15, 16: 12.99}},
    "SPARC T7-4": {50: {2: 1.97, 4: 3.85, 8: 6.27, 16: 9.84},
                   100: {2: 1.91, 4: 3.48, 8: 5.18, 16: 7.79},
                   200: {2: 1.88, 4: 3.37, 8: 5.16, 16: 7.04}},
}
# GB/s of one thread, measured on one machine (docs/performance.md).
ONE_THREAD = {"populate, 2M": 12.0, "populate, 1G": 29.5, "clear in place": 72.0}
# Nominal GB/s of a socket's memory, and its CPUs.
MACHINES = [("1 socket, 8 channels DDR4-3200, 64 CPUs", 1, 204.8, 64),
            ("1 socket, 12 channels DDR5-4800, 192 CPUs", 1, 460.8, 192),
            ("2 sockets, 12 channels DDR5-6400 each, 288 CPUs", 2, 614.4, 144)]
USABLE = 0.8
GIB = 2**30 / 1e9


def speedup(threads):
    """The mean over the published rows, between their columns linear."""
    rows = [row for table in PUBLISHED.values() for row in table.values()]
    points = [(1, 1.0)] + [
        (n, sum(row[n] for row in rows) / len(rows)) for n in (2, 4, 8, 16)]
    for (a, low), (b, high) in zip(points, points[1:]):
        if threads <= b:
            return low + (high - low) * (threads - a) / (b - a)
    return points[-1][1]


def check():
    worst = 0.0
    for machine, table in PUBLISHED.items():
        for size, row in table.items():
            for threads, published in row.items():
                off = speedup(threads) / published - 1
                worst = max(worst, abs(off))
                print(f"{machine}, {size} GiB, {threads} threads: published "
                      f"{published:.2f}, model {speedup(threads):.2f} ({off:+.0%})")
    print(f"worst: {worst:.0%}")
    return 0 if worst < 0.5 else 1


def forecast():
    print("A model, not a measurement.")
    print("| machine | work | threads a node | rate | 100 GiB | 1 TiB |")
    print("|---|---|---|---|---|---|")
    for name, nodes, nominal, cpus in MACHINES:
        threads = min(16, cpus)
        for work, one in ONE_THREAD.items():
            rate = nodes * min(one * speedup(threads), USABLE * nominal)
            print(f"| {name} | {work} | {threads} | {rate:.0f} GB/s | "
                  f"{100 * GIB / rate:.1f} s | {1024 * GIB / rate:.1f} s |")
    return 0


if __name__ == "__main__":
    sys.exit(check() if "--check" in sys.argv[1:] else forecast())
