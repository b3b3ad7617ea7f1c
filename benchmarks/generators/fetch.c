/* fetch PORT TOPIC PARTITION BYTES WHERE COUNT [ISOLATION]
 *
 * One connection that fetches at most BYTES per request, sequentially, and reads only batch headers.
 * WHERE is `scan` (from the beginning, COUNT megabytes or to the end), or the position of each of
 * COUNT fetches: `start`, `end` (a hundred records before the end) or `random`; or `tail`: as `end`,
 * for COUNT seconds. ISOLATION is `read_uncommitted` (the default) or `read_committed`.
 * Prints one line of JSON; latencies in us.
 */
#include "latencies.h"
#include "wire.h"

enum {
    ANSWER_SLACK_BYTES = 2 << 20,
    LATEST = -1,
    /* With records of 1 KiB more than one fetch, so that all positions return the same amount. */
    RECORDS_BEFORE_END = 100,
};

static struct {
    int socket, partition, bytes_max, isolation_level;
    const char *topic;
    uint8_t *answer;
    uint64_t fetches, bytes;
    struct latencies latencies;
} load;

static uint64_t end_offset(void)
{
    uint8_t request[REQUEST_BYTES_MAX];
    uint8_t *to = put_request_head(request, LIST_OFFSETS_KEY, LIST_OFFSETS_VERSION);
    to = put32(to, -1); /* replica */
    to = put32(to, 1);
    to = put_text(to, load.topic);
    to = put32(to, 1);
    to = put32(to, load.partition);
    to = put64(to, LATEST);
    send_all(load.socket, request, end_request(request, to));
    receive_answer(load.socket, load.answer, ANSWER_SLACK_BYTES);
    uint8_t *at = load.answer + 4 + 4 + 2 + strlen(load.topic) + 4 + 4;
    if (get16(at))
        die("the end offset was refused");
    return get64(at + 2 + 8);
}

/* Returns the offset after the whole batches received; the same offset if there were none. */
static uint64_t fetch_from(uint64_t offset)
{
    uint8_t request[REQUEST_BYTES_MAX];
    size_t size, batch;
    uint64_t began = now_ns();
    send_all(load.socket, request,
             put_fetch(request, load.topic, load.partition, offset, load.bytes_max,
                       load.isolation_level));
    receive_answer(load.socket, load.answer, (size_t)load.bytes_max + ANSWER_SLACK_BYTES);
    count_latency(&load.latencies, now_ns() - began);
    uint8_t *records = fetched_records(load.answer, load.topic, &size);
    load.fetches++;
    load.bytes += size;
    while ((batch = whole_batch(records, size))) {
        offset = next_offset(records);
        records += batch;
        size -= batch;
    }
    return offset;
}

static void scan(uint64_t bytes, uint64_t end)
{
    uint64_t offset = 0;
    while (load.bytes < bytes && offset < end) {
        uint64_t next = fetch_from(offset);
        if (next == offset)
            die("no whole batch came");
        offset = next;
    }
}

static void fetch_at(const char *where, uint64_t count, uint64_t end)
{
    srand48(7);
    for (uint64_t done = 0; done < count; done++) {
        uint64_t offset = 0;
        if (!strcmp(where, "end"))
            offset = end > RECORDS_BEFORE_END ? end - RECORDS_BEFORE_END : 0;
        else if (!strcmp(where, "random"))
            offset = (uint64_t)(drand48() * (double)end);
        if (fetch_from(offset) == offset)
            die("no whole batch came");
    }
}

static void fetch_tail(double seconds, uint64_t end)
{
    uint64_t ends_ns = now_ns() + (uint64_t)(seconds * 1e9);
    while (now_ns() < ends_ns)
        fetch_at("end", 1, end);
}

int main(int count, char **arguments)
{
    if (count != 7 && count != 8)
        die("fetch PORT TOPIC PARTITION BYTES WHERE COUNT [ISOLATION]");
    load.socket = connect_to(atoi(arguments[1]));
    load.topic = arguments[2];
    load.partition = atoi(arguments[3]);
    load.bytes_max = atoi(arguments[4]);
    if (count == 8 && !strcmp(arguments[7], "read_committed"))
        load.isolation_level = READ_COMMITTED;
    else if (count == 8 && strcmp(arguments[7], "read_uncommitted"))
        die("ISOLATION is read_uncommitted or read_committed");
    load.answer = malloc((size_t)load.bytes_max + ANSWER_SLACK_BYTES);
    /* Touched here, so that the generator's page faults are not measured. */
    memset(load.answer, 1, (size_t)load.bytes_max + ANSWER_SLACK_BYTES);
    uint64_t wanted = strtoull(arguments[6], NULL, 10), end = end_offset();
    if (!end)
        die("the log is empty");
    uint64_t began = now_ns();
    if (!strcmp(arguments[5], "scan"))
        scan(wanted * 1000000u, end);
    else if (!strcmp(arguments[5], "tail"))
        fetch_tail(atof(arguments[6]), end);
    else
        fetch_at(arguments[5], wanted, end);
    double seconds = (double)(now_ns() - began) / 1e9;
    printf("{\"fetches\": %lu, \"bytes\": %lu, \"seconds\": %.6f, \"mb_s\": %.1f, \"rate\": %.1f, "
           "\"p99_us\": %lu}\n",
           (unsigned long)load.fetches, (unsigned long)load.bytes, seconds,
           (double)load.bytes / seconds / 1e6, (double)load.fetches / seconds,
           (unsigned long)percentile_us(&load.latencies, 0.99));
    return 0;
}
