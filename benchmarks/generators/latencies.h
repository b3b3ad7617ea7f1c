/* Latencies in us, counted per microsecond. */
#ifndef LATENCIES_H
#define LATENCIES_H

#include <stdint.h>
#include <stdlib.h>

enum { LATENCY_US_MAX = 10000000 };

struct latencies {
    uint32_t *counts;
    uint64_t total;
};

static inline void count_latency(struct latencies *latencies, uint64_t ns)
{
    if (!latencies->counts)
        latencies->counts = calloc(LATENCY_US_MAX, sizeof *latencies->counts);
    uint64_t us = ns / 1000;
    latencies->counts[us < LATENCY_US_MAX ? us : LATENCY_US_MAX - 1]++;
    latencies->total++;
}

static inline uint64_t percentile_us(const struct latencies *latencies, double share)
{
    uint64_t seen = 0, wanted = (uint64_t)((double)latencies->total * share);
    for (uint64_t us = 0; latencies->counts && us < LATENCY_US_MAX; us++)
        if ((seen += latencies->counts[us]) > wanted)
            return us;
    return LATENCY_US_MAX;
}

#endif
