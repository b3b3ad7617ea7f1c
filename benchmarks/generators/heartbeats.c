/* heartbeats PORT GROUP TOPIC PARTITIONS MEMBERS
 *
 * MEMBERS consumers of the consumer protocol (KIP-848), one connection each, join GROUP at once and
 * follow its coordinator: they revoke and take partitions at once, and report it. This is measured
 * until all are at the same epoch and each partition has one owner. Then they leave. Prints one line
 * of JSON.
 *
 * Members without news send the next heartbeat after 50 ms: the broker is measured, and not its
 * heartbeat interval of 5 s.
 */
#define _GNU_SOURCE
#include "conversation.h"

enum {
    HEARTBEAT_KEY = 68, HEARTBEAT_VERSION = 1,
    REBALANCE_TIMEOUT_MS = 300000, LEAVING_EPOCH = -1,
    MEMBER_ID_BYTES_MAX = 64, TOPIC_ID_BYTES = 16, OWNED_MAX = 10000,
};
static const uint64_t HEARTBEAT_NS = 50000000u, PATIENCE_NS = 60000000000u;

struct member {
    struct conversation with;
    char id[MEMBER_ID_BYTES_MAX];
    int epoch, owned_count, has_news; /* has_news: its owned partitions must be reported */
    int owned[OWNED_MAX];
    uint64_t due_ns;
};

static struct {
    const char *group, *topic;
    int partitions, members;
    struct member *all;
    uint8_t topic_id[TOPIC_ID_BYTES];
    uint64_t heartbeats;
} load;

static uint8_t *put_owned(uint8_t *to, const struct member *member)
{
    if (!member->owned_count)
        return put_unsigned(to, 1);
    to = put_unsigned(to, 2);
    memcpy(to, load.topic_id, TOPIC_ID_BYTES);
    to = put_unsigned(to + TOPIC_ID_BYTES, (uint32_t)member->owned_count + 1);
    for (int index = 0; index < member->owned_count; index++)
        to = put32(to, member->owned[index]);
    return put_unsigned(to, 0); /* no tags */
}

static uint8_t *put_heartbeat(struct member *member)
{
    int is_first = member->epoch == 0;
    uint8_t *to = put_request_head(member->with.request, HEARTBEAT_KEY, HEARTBEAT_VERSION);
    to = put_unsigned(to, 0);
    to = put_compact(to, load.group);
    to = put_compact(to, member->id);
    to = put32(to, member->epoch);
    to = put_unsigned(to, 0); /* no instance id, no rack */
    to = put_unsigned(to, 0);
    to = put32(to, is_first ? REBALANCE_TIMEOUT_MS : -1);
    if (is_first)
        to = put_compact(put_unsigned(to, 2), load.topic);
    else
        to = put_unsigned(to, 0);
    to = put_unsigned(to, 0); /* no regular expression, no assignor */
    to = put_unsigned(to, 0);
    to = is_first || member->has_news ? put_owned(to, member) : put_unsigned(to, 0);
    return put_unsigned(to, 0);
}

static void heartbeat(struct member *member)
{
    load.heartbeats++;
    ask(&member->with, put_heartbeat(member));
    member->has_news = 0;
}

static void own(struct member *member, const uint8_t **at)
{
    member->owned_count = 0;
    member->has_news = 1;
    for (uint32_t topics = get_unsigned(at); topics > 1; topics--) {
        memcpy(load.topic_id, *at, TOPIC_ID_BYTES);
        *at += TOPIC_ID_BYTES;
        for (uint32_t count = get_unsigned(at); count > 1; count--, *at += 4) {
            if (member->owned_count == OWNED_MAX)
                die("too many partitions for one member");
            member->owned[member->owned_count++] = (int)get32(*at);
        }
        get_unsigned(at); /* no tags */
    }
}

static void take(struct member *member, const uint8_t *answer)
{
    const uint8_t *at = answer + 4 + 1 + 4;
    if (get16(at))
        die("a member was refused");
    at += 2;
    for (int texts = 0; texts < 2; texts++) { /* error message, member id */
        uint32_t length = get_unsigned(&at);
        at += length ? length - 1 : 0;
    }
    member->epoch = (int)get32(at);
    at += 4 + 4; /* heartbeat interval */
    if ((int8_t)*at++ >= 0)
        own(member, &at);
    uint64_t now = now_ns();
    member->due_ns = member->has_news ? now : now + HEARTBEAT_NS;
}

static void listen_once(int poller)
{
    struct epoll_event events[EVENTS_MAX];
    int count = epoll_wait(poller, events, EVENTS_MAX, 1);
    for (int index = 0; index < count; index++) {
        struct member *member = events[index].data.ptr;
        if (events[index].events & EPOLLOUT)
            push(&member->with);
        uint8_t *answer;
        if (member->with.is_waiting && (answer = hear(&member->with)))
            take(member, answer);
    }
}

/* Whether all are at the same epoch, own their target, and each partition has one owner. */
static int are_assigned(void)
{
    char is_owned[load.partitions];
    int owned = 0;
    memset(is_owned, 0, sizeof is_owned);
    for (int index = 0; index < load.members; index++) {
        struct member *member = load.all + index;
        if (!member->epoch || member->epoch != load.all->epoch || member->has_news)
            return 0;
        for (int at = 0; at < member->owned_count; at++, owned++)
            if (is_owned[member->owned[at]]++)
                die("a partition is two members'");
    }
    return owned == load.partitions;
}

static double gather(int poller)
{
    uint64_t began = now_ns();
    for (int index = 0; index < load.members; index++)
        heartbeat(load.all + index);
    while (!are_assigned()) {
        listen_once(poller);
        uint64_t now = now_ns();
        if (now > began + PATIENCE_NS)
            die("not all members were assigned anything");
        for (int index = 0; index < load.members; index++) {
            struct member *member = load.all + index;
            if (!member->with.is_waiting && now >= member->due_ns)
                heartbeat(member);
        }
    }
    return (double)(now_ns() - began) / 1e9;
}

static void leave(void)
{
    for (int index = 0; index < load.members; index++) {
        struct member *member = load.all + index;
        while (member->with.is_waiting)
            hear(&member->with);
        member->epoch = LEAVING_EPOCH;
        ask_and_wait(&member->with, put_heartbeat(member));
    }
}

int main(int count, char **arguments)
{
    if (count != 6)
        die("heartbeats PORT GROUP TOPIC PARTITIONS MEMBERS");
    load.group = arguments[2];
    load.topic = arguments[3];
    load.partitions = atoi(arguments[4]);
    load.members = atoi(arguments[5]);
    if (load.members < 1 || load.partitions > OWNED_MAX)
        die("too few members, or too many partitions");
    load.all = calloc((size_t)load.members, sizeof *load.all);
    int poller = epoll_create1(0);
    for (int index = 0; index < load.members; index++) {
        struct member *member = load.all + index;
        snprintf(member->id, sizeof member->id, "bench-member-%d", index);
        open_conversation(&member->with, atoi(arguments[1]), poller, member);
    }
    double assigned_s = gather(poller);
    leave();
    printf("{\"assigned_s\": %.6f, \"heartbeats\": %lu}\n", assigned_s,
           (unsigned long)load.heartbeats);
    return 0;
}
