/* transactions PORT TOPIC PARTITIONS PRODUCERS PREFIX VERSION RECORDS PAYLOAD END BY AMOUNT
 *              [GROUP SOURCE]
 *
 * PRODUCERS transactional producers, one connection each, with the transactional ids PREFIX-0 and so
 * on. Each sends one transaction after another, one request in flight: a Produce (acks=all) of RECORDS
 * records of PAYLOAD bytes, shared evenly among PARTITIONS; with GROUP, the group's offset of partition
 * n of the topic SOURCE, for the n-th producer; and EndTxn. END is `commit` or `abort`. VERSION is the
 * transaction version, 1 or 2; version 1 adds the partitions first, and has no GROUP.
 *
 * BY is `seconds`: for AMOUNT seconds, after 0.3 s that are not counted; or `count`: AMOUNT
 * transactions of all producers. A transaction that has begun is always ended. `seconds@RATE` begins
 * at most RATE transactions per second, evenly: each producer has its own times, and begins at once if
 * it is late.
 *
 * CONCURRENT_TRANSACTIONS, the answer while the last transaction is not completed yet, is retried after
 * 20 ms, as librdkafka and the Java client do. All other errors end the load.
 *
 * Prints one line of JSON; the latencies, in us, are those of EndTxn.
 */
#define _GNU_SOURCE
#include "conversation.h"
#include "latencies.h"
#include "transactional.h"

enum {
    COORDINATOR_LOAD_IN_PROGRESS = 14, COORDINATOR_NOT_AVAILABLE = 15, NOT_COORDINATOR = 16,
    CONCURRENT_TRANSACTIONS = 51,
};
static const uint64_t WARM_UP_NS = 300000000u, BACKOFF_NS = 20000000u;

enum step { PAUSING, ADDING, PRODUCING, COMMITTING_OFFSET, ENDING, DONE };

struct producer {
    struct conversation with;
    enum step step;
    struct identity identity;
    struct transactional_produce produce;
    uint8_t *small; /* the buffer for all requests except Produce */
    int index;
    int64_t offset;
    uint64_t asked_ns, due_ns; /* first send of this step; time of its retry, or 0 */
    uint64_t next_ns; /* when the next transaction begins, with a given rate */
};

static struct {
    const char *topic, *group, *source;
    int partitions, producers, version, is_commit, is_timed, delayed, done;
    uint64_t amount, begun, transactions, requests, retries, began_ns, counted_ns, ends_ns, last_ns;
    uint64_t interval_ns; /* between two transactions of a producer, with a given rate; else 0 */
    struct latencies latencies;
} load;

static void refuse(const char *what, int error)
{
    char words[64];
    snprintf(words, sizeof words, "%s was refused with error %d", what, error);
    errno = 0;
    die(words);
}

static void ask_step(struct producer *producer)
{
    const struct identity *identity = &producer->identity;
    uint8_t *to = producer->with.request = producer->small;
    switch (producer->step) {
    case ADDING:
        to = put_add_partitions(to, identity, load.topic, load.partitions);
        break;
    case PRODUCING:
        stamp_produce(&producer->produce, identity);
        producer->with.request = producer->produce.request;
        to = producer->produce.request + producer->produce.size;
        break;
    case COMMITTING_OFFSET:
        to = put_txn_offset_commit(
            to, identity, load.group, load.source, producer->index, producer->offset);
        break;
    default:
        to = put_end_txn(to, load.version == 1 ? END_TXN_VERSION_1 : END_TXN_VERSION_2, identity,
                         load.is_commit);
    }
    producer->asked_ns = now_ns();
    load.requests++;
    ask(&producer->with, to);
}

static void go_to(struct producer *producer, enum step step)
{
    producer->step = step;
    if (step == DONE)
        load.done++;
    else
        ask_step(producer);
}

static void begin(struct producer *producer, uint64_t now)
{
    int is_over = load.is_timed ? now >= load.ends_ns : load.begun == load.amount;
    if (!is_over && now < producer->next_ns) {
        producer->step = PAUSING;
        producer->due_ns = producer->next_ns;
        load.delayed++;
        return;
    }
    producer->next_ns += load.interval_ns;
    load.begun += !is_over;
    go_to(producer, is_over ? DONE : load.version == 1 ? ADDING : PRODUCING);
}

static void end(struct producer *producer, const uint8_t *answer)
{
    struct transactional_produce *produce = &producer->produce;
    uint64_t now = now_ns();
    load.transactions++;
    producer->offset++;
    if (load.version == 1)
        for (int index = 0; index < produce->partitions; index++)
            produce->sequences[index] += produce->records[index];
    else
        take_identity(&producer->identity, answer); /* sequences begin at 0 in each epoch */
    if (now >= load.counted_ns) {
        count_latency(&load.latencies, now - producer->asked_ns);
        load.last_ns = now;
    }
    begin(producer, now);
}

static int step_error(const struct producer *producer, const uint8_t *answer)
{
    switch (producer->step) {
    case PRODUCING: return produce_error(answer);
    case ENDING: return simple_error(answer);
    default: return partition_error(answer);
    }
}

static void take(struct producer *producer, const uint8_t *answer)
{
    int error = step_error(producer, answer);
    if (error == CONCURRENT_TRANSACTIONS) {
        load.retries++;
        load.delayed++;
        producer->due_ns = now_ns() + BACKOFF_NS;
        return;
    }
    if (error)
        refuse("a request", error);
    switch (producer->step) {
    case ADDING: go_to(producer, PRODUCING); break;
    case PRODUCING: go_to(producer, load.group ? COMMITTING_OFFSET : ENDING); break;
    case COMMITTING_OFFSET: go_to(producer, ENDING); break;
    default: end(producer, answer);
    }
}

static void retry_due(struct producer *producers)
{
    uint64_t now = load.delayed ? now_ns() : 0;
    for (int index = 0; load.delayed && index < load.producers; index++) {
        struct producer *producer = producers + index;
        if (!producer->due_ns || now < producer->due_ns)
            continue;
        producer->due_ns = 0;
        load.delayed--;
        if (producer->step == PAUSING) {
            begin(producer, now);
            continue;
        }
        ask(&producer->with, producer->with.request + producer->with.request_size);
    }
}

static void run(struct producer *producers, int poller)
{
    struct epoll_event events[EVENTS_MAX];
    for (int index = 0; index < load.producers; index++) {
        producers[index].next_ns =
            load.began_ns + load.interval_ns * (uint64_t)index / (uint64_t)load.producers;
        begin(producers + index, now_ns());
    }
    while (load.done < load.producers) {
        int count = epoll_wait(poller, events, EVENTS_MAX, load.delayed ? 1 : 100);
        for (int index = 0; index < count; index++) {
            struct producer *producer = events[index].data.ptr;
            if (events[index].events & EPOLLOUT)
                push(&producer->with);
            uint8_t *answer;
            while (producer->with.is_waiting && (answer = hear(&producer->with)))
                take(producer, answer);
        }
        retry_due(producers);
    }
}

static void initialise(struct producer *producer)
{
    for (;;) {
        uint8_t *end = put_init_producer_id(producer->small, &producer->identity);
        const uint8_t *answer = ask_and_wait(&producer->with, end);
        switch (simple_error(answer)) {
        case 0:
            take_identity(&producer->identity, answer);
            return;
        case COORDINATOR_LOAD_IN_PROGRESS:
        case COORDINATOR_NOT_AVAILABLE:
        case NOT_COORDINATOR:
        case CONCURRENT_TRANSACTIONS:
            usleep(BACKOFF_NS / 1000);
            break;
        default:
            refuse("InitProducerId", simple_error(answer));
        }
    }
}

static void open_producers(
    struct producer *producers, int poller, int port, const char *prefix, int records,
    int payload_bytes)
{
    int version = load.version == 1 ? PRODUCE_VERSION_1 : PRODUCE_VERSION_2;
    for (int index = 0; index < load.producers; index++) {
        struct producer *producer = producers + index;
        struct identity *identity = &producer->identity;
        producer->index = index;
        snprintf(identity->transactional_id, sizeof identity->transactional_id, "%s-%d", prefix,
                 index);
        open_conversation(&producer->with, port, poller, producer);
        producer->small = producer->with.request;
        initialise(producer);
        build_produce(&producer->produce, version, identity, load.topic, load.partitions, records,
                      payload_bytes);
    }
}

int main(int count, char **arguments)
{
    if (count != 12 && count != 14)
        die("transactions PORT TOPIC PARTITIONS PRODUCERS PREFIX VERSION RECORDS PAYLOAD END BY "
            "AMOUNT [GROUP SOURCE]");
    int records = atoi(arguments[7]);
    load.topic = arguments[2];
    load.partitions = atoi(arguments[3]);
    load.producers = atoi(arguments[4]);
    load.version = atoi(arguments[6]);
    load.is_commit = !strcmp(arguments[9], "commit");
    load.is_timed = !strncmp(arguments[10], "seconds", 7);
    const char *rate = strchr(arguments[10], '@');
    if (rate)
        load.interval_ns = (uint64_t)(1e9 * load.producers / atof(rate + 1));
    load.amount = strtoull(arguments[11], NULL, 10);
    load.group = count == 14 ? arguments[12] : NULL;
    load.source = count == 14 ? arguments[13] : NULL;
    if (load.partitions < 1 || load.partitions > PARTITIONS_MAX || records < load.partitions)
        die("each partition must get a record, and there are too many or none");
    if (load.version == 1 && load.group)
        die("transaction version 1 has no group here");
    struct producer *producers = calloc((size_t)load.producers, sizeof *producers);
    int poller = epoll_create1(0);
    open_producers(producers, poller, atoi(arguments[1]), arguments[5], records,
                   atoi(arguments[8]));
    load.began_ns = load.last_ns = now_ns();
    load.counted_ns = load.began_ns + (load.is_timed ? WARM_UP_NS : 0);
    load.ends_ns = load.counted_ns + (uint64_t)(atof(arguments[11]) * 1e9);
    run(producers, poller);
    double elapsed_s = (double)(load.last_ns - load.counted_ns) / 1e9;
    if (!load.latencies.total || elapsed_s <= 0)
        die("no transaction was ended");
    printf("{\"transactions\": %lu, \"requests\": %lu, \"retries\": %lu, \"rate\": %.1f, "
           "\"p50_us\": %lu, \"p99_us\": %lu}\n",
           (unsigned long)load.transactions, (unsigned long)load.requests,
           (unsigned long)load.retries, (double)load.latencies.total / elapsed_s,
           (unsigned long)percentile_us(&load.latencies, 0.5),
           (unsigned long)percentile_us(&load.latencies, 0.99));
    return 0;
}
