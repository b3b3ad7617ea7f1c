/* Shared by the load generators: Kafka's primitives, batches, one Produce (v7) and one Fetch (v11).
 *
 * The generators are fast, so that the load is not the limit: requests are built once and sent
 * repeatedly, and only error codes and batch headers of answers are read.
 */
#ifndef WIRE_H
#define WIRE_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    PRODUCE_KEY = 0, PRODUCE_VERSION = 7,
    FETCH_KEY = 1, FETCH_VERSION = 11,
    LIST_OFFSETS_KEY = 2, LIST_OFFSETS_VERSION = 1,
    BATCH_HEADER_BYTES = 61,
    /* Positions within a batch. */
    BATCH_LENGTH_AT = 8, BATCH_CRC_AT = 17, BATCH_CHECKED_AT = 21, BATCH_ATTRIBUTES_AT = 21,
    BATCH_LAST_DELTA_AT = 23, BATCH_FIRST_TIMESTAMP_AT = 27, BATCH_MAX_TIMESTAMP_AT = 35,
    BATCH_PRODUCER_ID_AT = 43, BATCH_PRODUCER_EPOCH_AT = 51, BATCH_SEQUENCE_AT = 53,
    REQUEST_BYTES_MAX = 512, /* of all but Produce */
};

static inline void die(const char *what)
{
    fprintf(stderr, "%s%s%s\n", what, errno ? ": " : "", errno ? strerror(errno) : "");
    exit(2);
}

static inline uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint8_t *put16(uint8_t *to, int value)
{
    to[0] = (uint8_t)(value >> 8);
    to[1] = (uint8_t)value;
    return to + 2;
}

static inline uint8_t *put32(uint8_t *to, int64_t value)
{
    put16(to, (int)(value >> 16));
    return put16(to + 2, (int)value);
}

static inline uint8_t *put64(uint8_t *to, int64_t value)
{
    put32(to, value >> 32);
    return put32(to + 4, value);
}

static inline uint8_t *put_text(uint8_t *to, const char *text)
{
    size_t length = strlen(text);
    to = put16(to, (int)length);
    memcpy(to, text, length);
    return to + length;
}

static inline uint8_t *put_varint(uint8_t *to, int64_t value)
{
    uint64_t zigzag = ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
    while (zigzag >= 128) {
        *to++ = (uint8_t)(zigzag | 128);
        zigzag >>= 7;
    }
    *to++ = (uint8_t)zigzag;
    return to;
}

static inline uint8_t *put_unsigned(uint8_t *to, uint32_t value)
{
    for (; value >= 128; value >>= 7)
        *to++ = (uint8_t)(value | 128);
    *to++ = (uint8_t)value;
    return to;
}

static inline uint32_t get_unsigned(const uint8_t **at)
{
    uint32_t value = 0;
    for (int shift = 0;; shift += 7) {
        uint8_t byte = *(*at)++;
        value |= (uint32_t)(byte & 127) << shift;
        if (byte < 128)
            return value;
    }
}

/* Text of a flexible version: lengths and counts are encoded plus one; 0 is null. */
static inline uint8_t *put_compact(uint8_t *to, const char *text)
{
    size_t length = strlen(text);
    to = put_unsigned(to, (uint32_t)length + 1);
    memcpy(to, text, length);
    return to + length;
}

static inline int get16(const uint8_t *from)
{
    return (int16_t)(from[0] << 8 | from[1]);
}

static inline uint32_t get32(const uint8_t *from)
{
    return (uint32_t)from[0] << 24 | (uint32_t)from[1] << 16 | (uint32_t)from[2] << 8 | from[3];
}

static inline uint64_t get64(const uint8_t *from)
{
    return (uint64_t)get32(from) << 32 | get32(from + 4);
}

/* CRC-32C, eight bytes at a time: transactional batches get a new checksum for each transaction. */
static inline uint32_t crc32c(const uint8_t *bytes, size_t count)
{
    static uint32_t table[8][256];
    if (!table[0][1])
        for (uint32_t index = 0; index < 256; index++) {
            uint32_t entry = index;
            for (int bit = 0; bit < 8; bit++)
                entry = entry & 1 ? entry >> 1 ^ 0x82f63b78u : entry >> 1;
            table[0][index] = entry;
        }
    if (!table[7][1])
        for (int ahead = 1; ahead < 8; ahead++)
            for (uint32_t index = 0; index < 256; index++) {
                uint32_t entry = table[ahead - 1][index];
                table[ahead][index] = entry >> 8 ^ table[0][entry & 255];
            }
    uint32_t crc = 0xffffffffu;
    for (; count >= 8; count -= 8, bytes += 8) {
        crc ^= (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16
             | (uint32_t)bytes[3] << 24;
        crc = table[7][crc & 255] ^ table[6][crc >> 8 & 255] ^ table[5][crc >> 16 & 255]
            ^ table[4][crc >> 24] ^ table[3][bytes[4]] ^ table[2][bytes[5]] ^ table[1][bytes[6]]
            ^ table[0][bytes[7]];
    }
    while (count--)
        crc = crc >> 8 ^ table[0][(crc ^ *bytes++) & 255];
    return ~crc;
}

static inline void seal_batch(uint8_t *batch, const uint8_t *end)
{
    put32(batch + BATCH_LENGTH_AT, end - batch - 12);
    put32(batch + BATCH_CRC_AT, crc32c(batch + BATCH_CHECKED_AT, (size_t)(end - batch) - BATCH_CHECKED_AT));
}

static inline uint8_t *put_record(uint8_t *to, int index, int payload_bytes)
{
    uint8_t scratch[16];
    int64_t size = 3 + (put_varint(scratch, index) - scratch)
                 + (put_varint(scratch, payload_bytes) - scratch) + payload_bytes + 1;
    to = put_varint(to, size);
    *to++ = 0;                  /* attributes */
    to = put_varint(to, 0);     /* timestamp delta */
    to = put_varint(to, index); /* offset delta */
    to = put_varint(to, -1);    /* no key */
    to = put_varint(to, payload_bytes);
    for (int at = 0; at < payload_bytes; at++)
        *to++ = (uint8_t)('a' + (at * 7 + index) % 26);
    *to++ = 0;                  /* no headers */
    return to;
}

static inline uint8_t *put_batch(uint8_t *batch, int records, int payload_bytes)
{
    int64_t now_ms = (int64_t)time(NULL) * 1000;
    uint8_t *to = put64(batch, 0); /* base offset */
    to = put32(to + 4, -1);        /* leader epoch, after the length */
    *to++ = 2;                     /* magic */
    to = put16(to + 4, 0);         /* attributes, after the CRC */
    to = put32(to, records - 1);
    to = put64(to, now_ms);
    to = put64(to, now_ms);
    to = put64(to, -1);            /* no producer id, epoch, sequence */
    to = put16(to, -1);
    to = put32(to, -1);
    to = put32(to, records);
    for (int index = 0; index < records; index++)
        to = put_record(to, index, payload_bytes);
    seal_batch(batch, to);
    return to;
}

static inline uint8_t *put_request_head(uint8_t *request, int key, int version)
{
    uint8_t *to = put16(request + 4, key);
    to = put16(to, version);
    to = put32(to, 1); /* correlation id */
    return put_text(to, "bench");
}

static inline size_t end_request(uint8_t *request, const uint8_t *end)
{
    put32(request, end - request - 4);
    return (size_t)(end - request);
}

static inline size_t produce_bytes_max(int records, int payload_bytes)
{
    return (size_t)records * ((size_t)payload_bytes + 32) + REQUEST_BYTES_MAX;
}

/* A Produce with acks=1 of one batch. Returns its size, and optionally the batch's position. */
static inline size_t put_produce(
    uint8_t *request, const char *topic, int partition, int records, int payload_bytes,
    uint8_t **batch_at)
{
    uint8_t *to = put_request_head(request, PRODUCE_KEY, PRODUCE_VERSION);
    to = put16(to, -1); /* no transactional id */
    to = put16(to, 1);  /* acks */
    to = put32(to, 30000);
    to = put32(to, 1);
    to = put_text(to, topic);
    to = put32(to, 1);
    to = put32(to, partition);
    uint8_t *batch = to + 4;
    uint8_t *end = put_batch(batch, records, payload_bytes);
    put32(to, end - batch);
    if (batch_at)
        *batch_at = batch;
    return end_request(request, end);
}

/* The position of the partition's error code in the answer to put_produce, without its length. */
static inline size_t produce_error_at(const char *topic)
{
    return 4 + 4 + 2 + strlen(topic) + 4 + 4;
}

enum { READ_UNCOMMITTED = 0, READ_COMMITTED = 1 };

/* A Fetch of one partition without a session that waits half a second for one byte. */
static inline size_t put_fetch(
    uint8_t *request, const char *topic, int partition, uint64_t offset, int bytes_max,
    int isolation_level)
{
    uint8_t *to = put_request_head(request, FETCH_KEY, FETCH_VERSION);
    to = put32(to, -1);  /* replica */
    to = put32(to, 500); /* wait, ms */
    to = put32(to, 1);   /* bytes at least */
    to = put32(to, bytes_max);
    *to++ = (uint8_t)isolation_level;
    to = put32(to, 0);   /* session id, epoch */
    to = put32(to, -1);
    to = put32(to, 1);
    to = put_text(to, topic);
    to = put32(to, 1);
    to = put32(to, partition);
    to = put32(to, -1);  /* leader epoch */
    to = put64(to, (int64_t)offset);
    to = put64(to, -1);  /* log start offset */
    to = put32(to, bytes_max);
    to = put32(to, 0);   /* forgotten topics */
    to = put16(to, 0);   /* rack */
    return end_request(request, to);
}

/* The records in the answer to put_fetch, without its length; exits on an error code. */
static inline uint8_t *fetched_records(uint8_t *answer, const char *topic, size_t *size)
{
    uint8_t *at = answer + 4 + 4;
    if (get16(at))
        die("fetch was refused");
    at += 2 + 4 + 4 + 2 + strlen(topic) + 4 + 4;
    if (get16(at))
        die("fetch of the partition was refused");
    at += 2 + 8 + 8 + 8;
    int32_t aborted = (int32_t)get32(at);
    at += 4 + (aborted > 0 ? aborted * 16 : 0) + 4;
    int32_t found = (int32_t)get32(at);
    *size = found > 0 ? (size_t)found : 0;
    return at + 4;
}

/* The size of the batch that begins here, or 0 if it is incomplete. */
static inline size_t whole_batch(const uint8_t *batch, size_t available)
{
    if (available < BATCH_HEADER_BYTES)
        return 0;
    size_t size = 12 + (size_t)get32(batch + BATCH_LENGTH_AT);
    return size <= available ? size : 0;
}

static inline uint64_t next_offset(const uint8_t *batch)
{
    return get64(batch) + get32(batch + BATCH_LAST_DELTA_AT) + 1;
}

static inline int connect_to(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int one = 1, connection = socket(AF_INET, SOCK_STREAM, 0);
    if (connection < 0 || connect(connection, (void *)&address, sizeof address))
        die("connect");
    setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return connection;
}

static inline void send_all(int connection, const uint8_t *bytes, size_t count)
{
    while (count) {
        ssize_t sent = send(connection, bytes, count, MSG_NOSIGNAL);
        if (sent <= 0)
            die("send");
        bytes += sent;
        count -= (size_t)sent;
    }
}

static inline void receive_all(int connection, uint8_t *bytes, size_t count)
{
    while (count) {
        ssize_t received = recv(connection, bytes, count, 0);
        if (received <= 0)
            die("the broker closed the connection");
        bytes += received;
        count -= (size_t)received;
    }
}

/* Receives one answer without its length; returns its size. */
static inline size_t receive_answer(int connection, uint8_t *answer, size_t bytes_max)
{
    uint8_t length[4];
    receive_all(connection, length, sizeof length);
    size_t size = get32(length);
    if (size > bytes_max)
        die("an answer is too large");
    receive_all(connection, answer, size);
    return size;
}

#endif
