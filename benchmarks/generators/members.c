/* members PORT GROUP TOPIC PARTITIONS MEMBERS SECONDS
 *
 * MEMBERS consumers of the classic protocol, one connection each, join GROUP at once. Each gets an id,
 * and when all have one they join; the leader assigns the partitions. This is measured until all have
 * the assignment of the same generation, and each partition has one owner. Then each commits its
 * offset for SECONDS, one commit in flight, as fast as answers arrive, and finally they leave. Prints
 * one line of JSON; latencies in us.
 *
 * Members send a heartbeat every 10 ms to learn whether to join again: the broker is measured, and
 * not the heartbeat interval of 3 s.
 */
#define _GNU_SOURCE
#include "conversation.h"
#include "latencies.h"

enum {
    OFFSET_COMMIT_KEY = 8, OFFSET_COMMIT_VERSION = 7,
    JOIN_KEY = 11, JOIN_VERSION = 5,
    HEARTBEAT_KEY = 12, HEARTBEAT_VERSION = 3,
    LEAVE_KEY = 13, LEAVE_VERSION = 3,
    SYNC_KEY = 14, SYNC_VERSION = 3,
    ILLEGAL_GENERATION = 22, REBALANCE_IN_PROGRESS = 27, MEMBER_ID_REQUIRED = 79,
    SESSION_TIMEOUT_MS = 45000, REBALANCE_TIMEOUT_MS = 300000,
    MEMBER_ID_BYTES_MAX = 128,
};
static const uint64_t HEARTBEAT_NS = 10000000u, PATIENCE_NS = 60000000000u, WARM_UP_NS = 300000000u;

enum state { JOINING, SYNCING, SETTLED, COMMITTING };

struct member {
    struct conversation with;
    enum state state;
    char id[MEMBER_ID_BYTES_MAX];
    int generation, partition; /* the first assigned partition; -1: none */
    uint64_t offset, due_ns;   /* committed offset; time of the next or last request */
};

static struct {
    const char *group, *topic;
    int partitions, members, named;
    struct member *all;
    uint64_t joins, errors, commits, began_ns, last_ns;
    struct latencies latencies;
} load;

static uint8_t *put_bytes(uint8_t *to, const uint8_t *end)
{
    put32(to, end - to - 4);
    return (uint8_t *)end;
}

/* The subscription of a consumer: its topics. */
static uint8_t *put_subscription(uint8_t *to)
{
    uint8_t *at = put16(to + 4, 0);
    at = put32(at, 1);
    at = put_text(at, load.topic);
    return put_bytes(to, put32(at, -1));
}

static void join(struct member *member)
{
    uint8_t *to = put_request_head(member->with.request, JOIN_KEY, JOIN_VERSION);
    to = put_text(to, load.group);
    to = put32(to, SESSION_TIMEOUT_MS);
    to = put32(to, REBALANCE_TIMEOUT_MS);
    to = put_text(to, member->id);
    to = put16(to, -1); /* no instance id */
    to = put_text(to, "consumer");
    to = put32(to, 1);
    to = put_text(to, "range");
    member->state = JOINING;
    load.joins++;
    ask(&member->with, put_subscription(to));
}

static uint8_t *put_member(struct member *member, int key, int version)
{
    uint8_t *to = put_request_head(member->with.request, key, version);
    to = put_text(to, load.group);
    to = put32(to, member->generation);
    to = put_text(to, member->id);
    return put16(to, -1);
}

/* Every n-th partition, beginning with one. */
static uint8_t *put_assignment(uint8_t *to, int first, int step)
{
    int mine = first < load.partitions ? (load.partitions - first + step - 1) / step : 0;
    uint8_t *at = put16(to + 4, 0);
    at = put32(at, 1);
    at = put_text(at, load.topic);
    at = put32(at, mine);
    for (int partition = first; partition < load.partitions; partition += step)
        at = put32(at, partition);
    return put_bytes(to, put32(at, -1));
}

/* `members` is the leader's list of members; it is empty for the others. */
static void synchronise(struct member *member, const uint8_t *members)
{
    uint8_t *to = put_member(member, SYNC_KEY, SYNC_VERSION);
    int count = (int)get32(members);
    members += 4;
    to = put32(to, count);
    for (int index = 0; index < count; index++) {
        int id_size = get16(members);
        memcpy(to, members, (size_t)id_size + 2);
        to = put_assignment(to + id_size + 2, index, count);
        members += id_size + 2;
        int instance_size = get16(members);
        members += 2 + (instance_size > 0 ? instance_size : 0);
        members += 4 + get32(members);
    }
    member->state = SYNCING;
    ask(&member->with, to);
}

static const uint8_t *behind_text(const uint8_t *at)
{
    int size = get16(at);
    return at + 2 + (size > 0 ? size : 0);
}

static void joined(struct member *member, const uint8_t *answer)
{
    const uint8_t *at = answer + 4 + 4;
    int error = get16(at);
    if (error && error != MEMBER_ID_REQUIRED)
        die("a member may not join");
    member->generation = (int)get32(at + 2);
    at = behind_text(behind_text(at + 6)); /* protocol, leader */
    int id_size = get16(at);
    if (id_size >= MEMBER_ID_BYTES_MAX)
        die("a member's id is too long");
    memcpy(member->id, at + 2, (size_t)id_size);
    member->id[id_size] = 0;
    if (!error)
        synchronise(member, behind_text(at));
    else if (++load.named == load.members)
        /* A member that joined before all have an id might form a generation by itself. */
        for (int index = 0; index < load.members; index++)
            join(load.all + index);
}

static void heartbeat(struct member *member)
{
    ask(&member->with, put_member(member, HEARTBEAT_KEY, HEARTBEAT_VERSION));
}

static void settled(struct member *member, const uint8_t *answer)
{
    int error = get16(answer + 4 + 4);
    if (error == REBALANCE_IN_PROGRESS || error == ILLEGAL_GENERATION) {
        join(member);
        return;
    }
    if (error)
        die("a member was refused");
    if (member->state == SYNCING) {
        const uint8_t *at = answer + 4 + 4 + 2 + 4 + 2 + 4; /* to the topic in the assignment */
        at = behind_text(at);
        member->partition = get32(at) ? (int)get32(at + 4) : -1;
    }
    member->state = SETTLED;
    member->due_ns = now_ns() + HEARTBEAT_NS;
}

static void commit(struct member *member, uint64_t now)
{
    uint8_t *to = put_member(member, OFFSET_COMMIT_KEY, OFFSET_COMMIT_VERSION);
    to = put32(to, 1);
    to = put_text(to, load.topic);
    to = put32(to, 1);
    to = put32(to, member->partition);
    to = put64(to, (int64_t)member->offset++);
    to = put32(to, -1); /* leader epoch */
    member->state = COMMITTING;
    member->due_ns = now;
    load.commits++;
    ask(&member->with, put_text(to, ""));
}

static void committed(struct member *member, const uint8_t *answer)
{
    uint64_t now = now_ns();
    const uint8_t *topic = answer + 4 + 4 + 4;
    if (get16(behind_text(topic) + 4 + 4))
        load.errors++;
    if (now >= load.began_ns + WARM_UP_NS) {
        count_latency(&load.latencies, now - member->due_ns);
        load.last_ns = now;
    }
    commit(member, now);
}

static void take(struct member *member, const uint8_t *answer)
{
    switch (member->state) {
    case JOINING: joined(member, answer); break;
    case SYNCING:
    case SETTLED: settled(member, answer); break;
    case COMMITTING: committed(member, answer); break;
    }
}

static void listen_once(int poller, int wait_ms)
{
    struct epoll_event events[EVENTS_MAX];
    int count = epoll_wait(poller, events, EVENTS_MAX, wait_ms);
    for (int index = 0; index < count; index++) {
        struct member *member = events[index].data.ptr;
        if (events[index].events & EPOLLOUT)
            push(&member->with);
        uint8_t *answer;
        while (member->with.is_waiting && (answer = hear(&member->with)))
            take(member, answer);
    }
}

/* Whether all have the assignment of one generation, and each partition has one owner. */
static int are_assigned(void)
{
    for (int index = 0; index < load.members; index++)
        if (load.all[index].state != SETTLED || load.all[index].generation != load.all->generation)
            return 0;
    char is_taken[load.partitions];
    memset(is_taken, 0, sizeof is_taken);
    for (int index = 0; index < load.members; index++) {
        int partition = load.all[index].partition;
        if (partition < 0 || partition >= load.partitions || is_taken[partition]++)
            die("a partition was not given to one member");
    }
    return 1;
}

static double gather(int poller)
{
    uint64_t began = now_ns();
    for (int index = 0; index < load.members; index++)
        join(load.all + index);
    while (!are_assigned()) {
        listen_once(poller, 1);
        uint64_t now = now_ns();
        if (now > began + PATIENCE_NS)
            die("not all members were assigned anything");
        for (int index = 0; index < load.members; index++) {
            struct member *member = load.all + index;
            if (member->state == SETTLED && !member->with.is_waiting && now >= member->due_ns)
                heartbeat(member);
        }
    }
    return (double)(now_ns() - began) / 1e9;
}

/* Until no member waits for an answer. */
static void finish_asking(int poller)
{
    for (int index = 0; index < load.members; index++)
        while (load.all[index].with.is_waiting)
            listen_once(poller, 1);
}

static void commit_for(double seconds, int poller)
{
    finish_asking(poller);
    load.began_ns = now_ns();
    uint64_t ends_ns = load.began_ns + WARM_UP_NS + (uint64_t)(seconds * 1e9);
    for (int index = 0; index < load.members; index++)
        commit(load.all + index, now_ns());
    while (now_ns() < ends_ns)
        listen_once(poller, 100);
}

static void leave(void)
{
    for (int index = 0; index < load.members; index++) {
        struct member *member = load.all + index;
        while (member->with.is_waiting)
            hear(&member->with);
        uint8_t *to = put_request_head(member->with.request, LEAVE_KEY, LEAVE_VERSION);
        to = put_text(to, load.group);
        to = put32(to, 1);
        to = put_text(to, member->id);
        ask_and_wait(&member->with, put16(to, -1));
    }
}

int main(int count, char **arguments)
{
    if (count != 7)
        die("members PORT GROUP TOPIC PARTITIONS MEMBERS SECONDS");
    double seconds = atof(arguments[6]), rate = 0;
    load.group = arguments[2];
    load.topic = arguments[3];
    load.partitions = atoi(arguments[4]);
    load.members = atoi(arguments[5]);
    if (load.members < 1 || load.partitions < load.members)
        die("each member must get a partition");
    load.all = calloc((size_t)load.members, sizeof *load.all);
    int poller = epoll_create1(0);
    for (int index = 0; index < load.members; index++)
        open_conversation(&load.all[index].with, atoi(arguments[1]), poller, load.all + index);
    double assigned_s = gather(poller);
    if (seconds > 0) {
        commit_for(seconds, poller);
        double elapsed_s = (double)(load.last_ns - load.began_ns - WARM_UP_NS) / 1e9;
        rate = (double)load.latencies.total / elapsed_s;
    }
    leave();
    printf("{\"assigned_s\": %.6f, \"joins\": %lu, \"requests\": %lu, \"errors\": %lu, "
           "\"rate\": %.1f, \"p50_us\": %lu, \"p99_us\": %lu}\n",
           assigned_s, (unsigned long)load.joins, (unsigned long)load.commits,
           (unsigned long)load.errors, rate, (unsigned long)percentile_us(&load.latencies, 0.5),
           (unsigned long)percentile_us(&load.latencies, 0.99));
    return 0;
}
