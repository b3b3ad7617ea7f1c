/* latency PORT TOPIC RATE SECONDS PAYLOAD
 *
 * End to end, open loop: one connection produces requests of one record (acks=1) to partition 0 on a
 * fixed schedule, a second connection has a fetch waiting. Latency is from the scheduled send time to
 * the arrival of the record. The first second is not counted. Prints one line of JSON, in us.
 */
#define _GNU_SOURCE
#include "wire.h"
#include <poll.h>

enum { ANSWER_BYTES_MAX = 4 << 20, FETCH_BYTES_MAX = 1 << 20, PAYLOAD_BYTES_MAX = 60000 };
static const uint64_t PATIENCE_NS = 3000000000u;

static struct {
    const char *topic;
    int producer, consumer;
    double step_ns;
    uint64_t began_ns, wanted, sent, arrived, errors, offset, *latencies;
    uint8_t request[1 << 16], *batch, answer[ANSWER_BYTES_MAX];
    size_t request_size;
} load;

static uint64_t due_ns(uint64_t index)
{
    return load.began_ns + (uint64_t)((double)index * load.step_ns);
}

/* The timestamps carry the number of the record, which identifies it on arrival. */
static void send_next(void)
{
    put64(load.batch + BATCH_FIRST_TIMESTAMP_AT, (int64_t)load.sent);
    put64(load.batch + BATCH_MAX_TIMESTAMP_AT, (int64_t)load.sent);
    seal_batch(load.batch, load.request + load.request_size);
    send_all(load.producer, load.request, load.request_size);
    load.sent++;
}

static void ask_for_more(void)
{
    uint8_t request[REQUEST_BYTES_MAX];
    send_all(load.consumer, request,
             put_fetch(request, load.topic, 0, load.offset, FETCH_BYTES_MAX, READ_UNCOMMITTED));
}

/* The end of the log: the offset of a first record, plus one. */
static void find_end(void)
{
    send_all(load.producer, load.request, load.request_size);
    receive_answer(load.producer, load.answer, ANSWER_BYTES_MAX);
    uint8_t *at = load.answer + produce_error_at(load.topic);
    if (get16(at))
        die("produce was refused");
    load.offset = get64(at + 2) + 1;
}

static void take_acknowledgement(void)
{
    receive_answer(load.producer, load.answer, ANSWER_BYTES_MAX);
    if (get16(load.answer + produce_error_at(load.topic)))
        load.errors++;
}

static void take_records(void)
{
    size_t size, batch;
    receive_answer(load.consumer, load.answer, ANSWER_BYTES_MAX);
    uint64_t now = now_ns();
    uint8_t *records = fetched_records(load.answer, load.topic, &size);
    while ((batch = whole_batch(records, size))) {
        uint64_t index = get64(records + BATCH_FIRST_TIMESTAMP_AT);
        if (index < load.wanted && load.arrived < load.wanted)
            load.latencies[load.arrived++] = (now - due_ns(index)) / 1000;
        load.offset = next_offset(records);
        records += batch;
        size -= batch;
    }
    ask_for_more();
}

static void run(void)
{
    ask_for_more();
    while (load.arrived < load.wanted) {
        uint64_t now = now_ns();
        int is_sending = load.sent < load.wanted;
        if (is_sending && now >= due_ns(load.sent)) {
            send_next();
            continue;
        }
        if (!is_sending && now > due_ns(load.wanted) + PATIENCE_NS)
            return;
        uint64_t wait_ns = is_sending ? due_ns(load.sent) - now : 100000000u;
        struct timespec wait = {(time_t)(wait_ns / 1000000000u), (long)(wait_ns % 1000000000u)};
        struct pollfd ends[2] = {{load.producer, POLLIN, 0}, {load.consumer, POLLIN, 0}};
        ppoll(ends, 2, &wait, NULL);
        if (ends[0].revents)
            take_acknowledgement();
        if (ends[1].revents)
            take_records();
    }
}

static int by_size(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

int main(int count, char **arguments)
{
    if (count != 6)
        die("latency PORT TOPIC RATE SECONDS PAYLOAD");
    double rate = atof(arguments[3]);
    int payload_bytes = atoi(arguments[5]);
    if (payload_bytes > PAYLOAD_BYTES_MAX)
        die("PAYLOAD is too large");
    load.topic = arguments[2];
    load.producer = connect_to(atoi(arguments[1]));
    load.consumer = connect_to(atoi(arguments[1]));
    load.step_ns = 1e9 / rate;
    load.wanted = (uint64_t)(rate * (1 + atof(arguments[4])));
    load.latencies = calloc(load.wanted, sizeof *load.latencies);
    load.request_size = put_produce(load.request, load.topic, 0, 1, payload_bytes, &load.batch);
    find_end();
    load.began_ns = now_ns() + 50000000u;
    run();
    uint64_t skipped = (uint64_t)rate;
    if (load.arrived <= skipped)
        die("too few records arrived");
    uint64_t counted = load.arrived - skipped, *latencies = load.latencies + skipped;
    qsort(latencies, counted, sizeof *latencies, by_size);
    printf("{\"records\": %lu, \"lost\": %lu, \"errors\": %lu, \"p50_us\": %lu, \"p99_us\": %lu, "
           "\"p999_us\": %lu}\n",
           (unsigned long)counted, (unsigned long)(load.wanted - load.arrived),
           (unsigned long)load.errors, (unsigned long)latencies[counted / 2],
           (unsigned long)latencies[(uint64_t)((double)counted * 0.99)],
           (unsigned long)latencies[(uint64_t)((double)counted * 0.999)]);
    return 0;
}
