/* The requests of a transactional producer in flexible versions, and the error codes of answers.
 *
 * Transaction version 2 (KIP-890) is Produce v12, TxnOffsetCommit v5 and EndTxn v5: the broker adds
 * partitions to the transaction by itself, and each transaction has its own producer epoch. Version 1
 * is AddPartitionsToTxn v3, Produce v11 and EndTxn v4.
 */
#ifndef TRANSACTIONAL_H
#define TRANSACTIONAL_H

#include "wire.h"

enum {
    INIT_PRODUCER_ID_KEY = 22, INIT_PRODUCER_ID_VERSION = 4,
    ADD_PARTITIONS_KEY = 24, ADD_PARTITIONS_VERSION = 3,
    END_TXN_KEY = 26, END_TXN_VERSION_1 = 4, END_TXN_VERSION_2 = 5,
    TXN_OFFSET_COMMIT_KEY = 28, TXN_OFFSET_COMMIT_VERSION = 5,
    PRODUCE_VERSION_1 = 11, PRODUCE_VERSION_2 = 12,
    TRANSACTIONAL_BIT = 0x10, ACKS_ALL = -1, TRANSACTION_TIMEOUT_MS = 60000,
    TRANSACTIONAL_ID_BYTES_MAX = 128, PARTITIONS_MAX = 64,
};

struct identity {
    char transactional_id[TRANSACTIONAL_ID_BYTES_MAX];
    int64_t producer_id;
    int epoch;
};

/* A Produce of one batch per partition. Identity and sequences are stamped for each transaction. */
struct transactional_produce {
    uint8_t *request;
    size_t size;
    int partitions, records[PARTITIONS_MAX];
    uint8_t *batches[PARTITIONS_MAX], *ends[PARTITIONS_MAX];
    int32_t sequences[PARTITIONS_MAX];
};

static inline uint8_t *put_flexible_head(uint8_t *request, int key, int version)
{
    return put_unsigned(put_request_head(request, key, version), 0);
}

static inline uint8_t *put_identity(uint8_t *to, const struct identity *identity)
{
    return put16(put64(to, identity->producer_id), identity->epoch);
}

static inline uint8_t *put_init_producer_id(uint8_t *request, const struct identity *identity)
{
    uint8_t *to = put_flexible_head(request, INIT_PRODUCER_ID_KEY, INIT_PRODUCER_ID_VERSION);
    to = put_compact(to, identity->transactional_id);
    to = put32(to, TRANSACTION_TIMEOUT_MS);
    to = put16(put64(to, -1), -1); /* no producer id and epoch to renew */
    return put_unsigned(to, 0);
}

static inline uint8_t *put_add_partitions(
    uint8_t *request, const struct identity *identity, const char *topic, int partitions)
{
    uint8_t *to = put_flexible_head(request, ADD_PARTITIONS_KEY, ADD_PARTITIONS_VERSION);
    to = put_identity(put_compact(to, identity->transactional_id), identity);
    to = put_compact(put_unsigned(to, 2), topic);
    to = put_unsigned(to, (uint32_t)partitions + 1);
    for (int partition = 0; partition < partitions; partition++)
        to = put32(to, partition);
    return put_unsigned(put_unsigned(to, 0), 0);
}

/* The offset of one partition, by a group without a member to check. */
static inline uint8_t *put_txn_offset_commit(
    uint8_t *request, const struct identity *identity, const char *group, const char *topic,
    int partition, int64_t offset)
{
    uint8_t *to = put_flexible_head(request, TXN_OFFSET_COMMIT_KEY, TXN_OFFSET_COMMIT_VERSION);
    to = put_compact(to, identity->transactional_id);
    to = put_identity(put_compact(to, group), identity);
    to = put32(to, -1);      /* generation */
    to = put_compact(to, ""); /* member id */
    to = put_unsigned(to, 0); /* no instance id */
    to = put_compact(put_unsigned(to, 2), topic);
    to = put_unsigned(to, 2);
    to = put32(to, partition);
    to = put64(to, offset);
    to = put32(to, -1);      /* leader epoch */
    to = put_compact(to, "");
    return put_unsigned(put_unsigned(put_unsigned(to, 0), 0), 0);
}

static inline uint8_t *put_end_txn(
    uint8_t *request, int version, const struct identity *identity, int is_commit)
{
    uint8_t *to = put_flexible_head(request, END_TXN_KEY, version);
    to = put_identity(put_compact(to, identity->transactional_id), identity);
    *to++ = (uint8_t)is_commit;
    return put_unsigned(to, 0);
}

/* Shares `records` evenly among the partitions, of which each gets at least one. */
static inline void build_produce(
    struct transactional_produce *produce, int version, const struct identity *identity,
    const char *topic, int partitions, int records, int payload_bytes)
{
    produce->partitions = partitions;
    produce->request = malloc(produce_bytes_max(records, payload_bytes)
                              + (size_t)partitions * REQUEST_BYTES_MAX);
    uint8_t *to = put_flexible_head(produce->request, PRODUCE_KEY, version);
    to = put_compact(to, identity->transactional_id);
    to = put16(to, ACKS_ALL);
    to = put32(to, 30000);
    to = put_compact(put_unsigned(to, 2), topic);
    to = put_unsigned(to, (uint32_t)partitions + 1);
    uint8_t *scratch = malloc(produce_bytes_max(records, payload_bytes));
    for (int index = 0; index < partitions; index++) {
        int mine = records / partitions + (index < records % partitions);
        size_t size = (size_t)(put_batch(scratch, mine, payload_bytes) - scratch);
        to = put_unsigned(put32(to, index), (uint32_t)size + 1);
        produce->records[index] = mine;
        produce->batches[index] = memcpy(to, scratch, size);
        put16(to + BATCH_ATTRIBUTES_AT, TRANSACTIONAL_BIT);
        to = produce->ends[index] = to + size;
        to = put_unsigned(to, 0);
    }
    free(scratch);
    produce->size = end_request(produce->request, put_unsigned(put_unsigned(to, 0), 0));
}

static inline void stamp_produce(
    struct transactional_produce *produce, const struct identity *identity)
{
    for (int index = 0; index < produce->partitions; index++) {
        uint8_t *batch = produce->batches[index];
        put_identity(batch + BATCH_PRODUCER_ID_AT, identity);
        put32(batch + BATCH_SEQUENCE_AT, produce->sequences[index]);
        seal_batch(batch, produce->ends[index]);
    }
}

static inline void skip_text(const uint8_t **at)
{
    uint32_t length = get_unsigned(at);
    *at += length ? length - 1 : 0;
}

static inline void skip_tags(const uint8_t **at)
{
    for (uint32_t count = get_unsigned(at); count; count--) {
        get_unsigned(at);
        uint32_t size = get_unsigned(at);
        *at += size;
    }
}

/* An answer behind its correlation id and tags. */
static inline const uint8_t *answer_body(const uint8_t *answer)
{
    answer += 4;
    skip_tags(&answer);
    return answer;
}

/* InitProducerId and EndTxn: throttle time, error code, and from here the identity if there is one. */
static inline int simple_error(const uint8_t *answer)
{
    return get16(answer_body(answer) + 4);
}

static inline void take_identity(struct identity *identity, const uint8_t *answer)
{
    const uint8_t *at = answer_body(answer) + 4 + 2;
    identity->producer_id = (int64_t)get64(at);
    identity->epoch = get16(at + 8);
}

/* AddPartitionsToTxn and TxnOffsetCommit: the first error code of a partition, or 0. */
static inline int partition_error(const uint8_t *answer)
{
    const uint8_t *at = answer_body(answer) + 4;
    for (uint32_t topics = get_unsigned(&at); topics > 1; topics--) {
        skip_text(&at);
        for (uint32_t partitions = get_unsigned(&at); partitions > 1; partitions--) {
            if (get16(at + 4))
                return get16(at + 4);
            at += 4 + 2;
            skip_tags(&at);
        }
        skip_tags(&at);
    }
    return 0;
}

static inline int produce_error(const uint8_t *answer)
{
    const uint8_t *at = answer_body(answer);
    for (uint32_t topics = get_unsigned(&at); topics > 1; topics--) {
        skip_text(&at);
        for (uint32_t partitions = get_unsigned(&at); partitions > 1; partitions--) {
            if (get16(at + 4))
                return get16(at + 4);
            at += 4 + 2 + 8 + 8 + 8;
            for (uint32_t errors = get_unsigned(&at); errors > 1; errors--) {
                at += 4;
                skip_text(&at);
                skip_tags(&at);
            }
            skip_text(&at);
            skip_tags(&at);
        }
        skip_tags(&at);
    }
    return 0;
}

#endif
