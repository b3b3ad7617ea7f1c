/* A connection with one request in flight; one thread serves many of them. */
#ifndef CONVERSATION_H
#define CONVERSATION_H

#include "wire.h"
#include <fcntl.h>
#include <sys/epoll.h>

enum { MESSAGE_BYTES_MAX = 1 << 20, EVENTS_MAX = 512 };

struct conversation {
    int socket, is_waiting;
    uint8_t *request, *answer; /* the answer with its length */
    size_t request_size, sent, received;
};

static inline void push(struct conversation *with)
{
    while (with->sent < with->request_size) {
        ssize_t sent = send(with->socket, with->request + with->sent,
                            with->request_size - with->sent, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN)
            return;
        if (sent < 0)
            die("send");
        with->sent += (size_t)sent;
    }
}

/* Sends `request` up to `end`. */
static inline void ask(struct conversation *with, const uint8_t *end)
{
    with->request_size = end_request(with->request, end);
    with->sent = 0;
    with->is_waiting = 1;
    push(with);
}

/* The answer without its length, if it is complete. */
static inline uint8_t *hear(struct conversation *with)
{
    for (;;) {
        ssize_t received = recv(with->socket, with->answer + with->received,
                                MESSAGE_BYTES_MAX - with->received, 0);
        if (received < 0 && errno == EAGAIN)
            return NULL;
        if (received <= 0)
            die("the broker closed a connection");
        with->received += (size_t)received;
        if (with->received < 4 || with->received < 4 + (size_t)get32(with->answer))
            continue;
        with->received = 0; /* one request in flight: nothing follows its answer */
        with->is_waiting = 0;
        return with->answer + 4;
    }
}

/* Sends a request and waits; for use before or after a measurement. */
static inline uint8_t *ask_and_wait(struct conversation *with, const uint8_t *end)
{
    uint8_t *answer;
    ask(with, end);
    while (!(answer = hear(with)))
        push(with);
    return answer;
}

/* Events of the poller point to `owner`. */
static inline void open_conversation(struct conversation *with, int port, int poller, void *owner)
{
    with->socket = connect_to(port);
    fcntl(with->socket, F_SETFL, O_NONBLOCK);
    with->request = malloc(MESSAGE_BYTES_MAX);
    with->answer = malloc(MESSAGE_BYTES_MAX);
    struct epoll_event events = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = owner};
    epoll_ctl(poller, EPOLL_CTL_ADD, with->socket, &events);
}

#endif
