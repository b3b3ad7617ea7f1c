/* produce PORT TOPIC PARTITIONS CONNECTIONS SECONDS PAYLOAD RECORDS RATE
 *
 * Each connection sends Produce requests (acks=1) of RECORDS records of PAYLOAD bytes to its own
 * partition, one in flight. RATE 0: as fast as answers arrive. Otherwise RATE requests per second
 * over all connections on a fixed schedule; latency counts from the scheduled time, so that requests
 * that a stalled broker delays are counted too.
 * Prints one line of JSON; latencies in us. The first 0.3 s are not counted.
 */
#define _GNU_SOURCE
#include "latencies.h"
#include "wire.h"
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

enum { EVENTS_MAX = 512, ANSWER_BYTES_MAX = 4096 };
static const uint64_t WARM_UP_NS = 300000000u;

struct connection {
    int socket, is_busy;
    uint64_t index, asked, due_ns; /* requests begun; when the one in flight was due */
    uint64_t allowed;              /* requests that the schedule has reached */
    uint8_t *request, answer[ANSWER_BYTES_MAX];
    size_t request_size, sent, received;
};

static struct {
    int connections;
    double step_ns; /* between two requests of the schedule; 0: no schedule */
    uint64_t began_ns, ends_ns, next, errors, last_ns;
    size_t error_at;
    struct latencies latencies;
} load;

static uint64_t due_ns(uint64_t request)
{
    return load.began_ns + (uint64_t)((double)request * load.step_ns);
}

static void push(struct connection *connection)
{
    while (connection->is_busy && connection->sent < connection->request_size) {
        ssize_t sent = send(connection->socket, connection->request + connection->sent,
                            connection->request_size - connection->sent, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN)
            return;
        if (sent < 0)
            die("send");
        connection->sent += (size_t)sent;
    }
}

static void begin_request(struct connection *connection, uint64_t now)
{
    if (connection->is_busy || (load.step_ns > 0 && connection->asked >= connection->allowed))
        return;
    uint64_t request = connection->asked++ * (uint64_t)load.connections + connection->index;
    connection->due_ns = load.step_ns > 0 ? due_ns(request) : now;
    connection->is_busy = 1;
    connection->sent = 0;
    push(connection);
}

static void count_answer(struct connection *connection, uint64_t now)
{
    connection->is_busy = 0;
    if (get16(connection->answer + 4 + load.error_at))
        load.errors++;
    if (now < load.began_ns + WARM_UP_NS)
        return;
    count_latency(&load.latencies, now - connection->due_ns);
    load.last_ns = now;
}

static void pull(struct connection *connection)
{
    for (;;) {
        ssize_t received = recv(connection->socket, connection->answer + connection->received,
                                ANSWER_BYTES_MAX - connection->received, 0);
        if (received < 0 && errno == EAGAIN)
            return;
        if (received <= 0)
            die("the broker closed a connection");
        connection->received += (size_t)received;
        if (connection->received < 4 || connection->received < 4 + (size_t)get32(connection->answer))
            continue;
        connection->received = 0; /* one request in flight: nothing follows its answer */
        uint64_t now = now_ns();
        count_answer(connection, now);
        begin_request(connection, now);
    }
}

static void follow_schedule(struct connection *connections, int timer)
{
    uint64_t now = now_ns();
    for (; due_ns(load.next) <= now; load.next++) {
        struct connection *connection = connections + load.next % (uint64_t)load.connections;
        connection->allowed++;
        begin_request(connection, now);
    }
    uint64_t due = due_ns(load.next);
    struct itimerspec when = {.it_value = {(time_t)(due / 1000000000u), (long)(due % 1000000000u)}};
    timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL);
}

static void open_connection(
    struct connection *connection, int port, const char *topic, int partition, int records,
    int payload_bytes, int poller)
{
    connection->socket = connect_to(port);
    fcntl(connection->socket, F_SETFL, O_NONBLOCK);
    connection->request = malloc(produce_bytes_max(records, payload_bytes));
    connection->request_size =
        put_produce(connection->request, topic, partition, records, payload_bytes, NULL);
    struct epoll_event events = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = connection};
    epoll_ctl(poller, EPOLL_CTL_ADD, connection->socket, &events);
}

static void run(struct connection *connections, int poller, int timer)
{
    struct epoll_event events[EVENTS_MAX];
    if (load.step_ns > 0)
        follow_schedule(connections, timer);
    else
        for (int index = 0; index < load.connections; index++)
            begin_request(connections + index, now_ns());
    while (now_ns() < load.ends_ns) {
        int count = epoll_wait(poller, events, EVENTS_MAX, 100);
        for (int index = 0; index < count; index++) {
            struct connection *connection = events[index].data.ptr;
            if (!connection) {
                uint64_t expirations;
                if (read(timer, &expirations, sizeof expirations) > 0)
                    follow_schedule(connections, timer);
                continue;
            }
            if (events[index].events & EPOLLOUT)
                push(connection);
            if (events[index].events & EPOLLIN)
                pull(connection);
        }
    }
}

int main(int count, char **arguments)
{
    if (count != 9)
        die("produce PORT TOPIC PARTITIONS CONNECTIONS SECONDS PAYLOAD RECORDS RATE");
    int port = atoi(arguments[1]), partitions = atoi(arguments[3]);
    int payload_bytes = atoi(arguments[6]), records = atoi(arguments[7]);
    const char *topic = arguments[2];
    double seconds = atof(arguments[5]), rate = atof(arguments[8]);
    load.connections = atoi(arguments[4]);
    load.step_ns = rate > 0 ? 1e9 / rate : 0;
    load.error_at = produce_error_at(topic);
    struct connection *connections = calloc((size_t)load.connections, sizeof *connections);
    int poller = epoll_create1(0), timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct epoll_event ticks = {.events = EPOLLIN, .data.ptr = NULL};
    epoll_ctl(poller, EPOLL_CTL_ADD, timer, &ticks);
    for (int index = 0; index < load.connections; index++) {
        connections[index].index = (uint64_t)index;
        open_connection(connections + index, port, topic, index % partitions, records,
                        payload_bytes, poller);
    }
    load.began_ns = now_ns();
    load.ends_ns = load.began_ns + WARM_UP_NS + (uint64_t)(seconds * 1e9);
    run(connections, poller, timer);
    uint64_t asked = 0;
    for (int index = 0; index < load.connections; index++)
        asked += connections[index].asked;
    double elapsed_s = (double)(load.last_ns - load.began_ns - WARM_UP_NS) / 1e9;
    if (!load.latencies.total || elapsed_s <= 0)
        die("nothing was answered");
    printf("{\"requests\": %lu, \"errors\": %lu, \"rate\": %.1f, \"p50_us\": %lu, \"p99_us\": %lu, "
           "\"p999_us\": %lu}\n",
           (unsigned long)asked, (unsigned long)load.errors, (double)load.latencies.total / elapsed_s,
           (unsigned long)percentile_us(&load.latencies, 0.5), (unsigned long)percentile_us(&load.latencies, 0.99),
           (unsigned long)percentile_us(&load.latencies, 0.999));
    return 0;
}
