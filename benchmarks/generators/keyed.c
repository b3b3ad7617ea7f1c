/* keyed PORT TOPIC RECORDS KEYS RECORD_BYTES
 *
 * Fills partition 0 with RECORDS records whose keys are drawn evenly from KEYS, in batches of about
 * 900 KB. A key has 12 bytes; key and value have RECORD_BYTES together.
 */
#define _GNU_SOURCE
#include "wire.h"

enum { BATCH_BYTES = 900000, KEY_BYTES = 12, ANSWER_BYTES_MAX = 4096, BATCH_COUNT_AT = 57 };

/* Knuth's generator: the same keys in the same order for every broker. */
static uint64_t drawn(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static uint8_t *put_keyed(uint8_t *to, int index, uint64_t key, int value_bytes)
{
    uint8_t body[64], *at = body;
    *at++ = 0;                  /* attributes */
    at = put_varint(at, 0);     /* timestamp delta */
    at = put_varint(at, index); /* offset delta */
    at = put_varint(at, KEY_BYTES);
    at += sprintf((char *)at, "key-%08u", (unsigned)(key % 100000000u));
    at = put_varint(at, value_bytes);
    size_t head = (size_t)(at - body);
    to = put_varint(to, (int64_t)head + value_bytes + 1);
    memcpy(to, body, head);
    memset(to + head, 'v', (size_t)value_bytes);
    to += head + (size_t)value_bytes;
    *to++ = 0; /* no headers */
    return to;
}

int main(int count, char **arguments)
{
    if (count != 6)
        die("keyed PORT TOPIC RECORDS KEYS RECORD_BYTES");
    int connection = connect_to(atoi(arguments[1]));
    const char *topic = arguments[2];
    uint64_t left = strtoull(arguments[3], NULL, 10), keys = strtoull(arguments[4], NULL, 10);
    int value_bytes = atoi(arguments[5]) - KEY_BYTES;
    if (!keys || value_bytes < 0 || value_bytes > BATCH_BYTES / 2)
        die("there must be keys, and records that they fit into");
    uint8_t *request = malloc(BATCH_BYTES * 2), *batch, answer[ANSWER_BYTES_MAX];
    uint64_t state = 1, errors = 0;
    while (left) {
        put_produce(request, topic, 0, 1, 1, &batch); /* its one record is overwritten */
        uint8_t *to = batch + BATCH_HEADER_BYTES;
        int records = 0;
        for (; left && to - batch < BATCH_BYTES; left--)
            to = put_keyed(to, records++, drawn(&state) % keys, value_bytes);
        put32(batch + BATCH_LAST_DELTA_AT, records - 1);
        put32(batch + BATCH_COUNT_AT, records);
        seal_batch(batch, to);
        put32(batch - 4, to - batch);
        send_all(connection, request, end_request(request, to));
        receive_answer(connection, answer, sizeof answer);
        errors += get16(answer + produce_error_at(topic)) != 0;
    }
    printf("{\"errors\": %lu}\n", (unsigned long)errors);
    return 0;
}
