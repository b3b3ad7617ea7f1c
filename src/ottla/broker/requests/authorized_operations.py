"""What a client may do, as the bits that some answers carry: everything, where there are no ACLs.

A bit's number is Kafka's code of the operation.
"""

_READ = 1 << 3
_WRITE = 1 << 4
_CREATE = 1 << 5
_DELETE = 1 << 6
_ALTER = 1 << 7
_DESCRIBE = 1 << 8
_CLUSTER_ACTION = 1 << 9
_DESCRIBE_CONFIGS = 1 << 10
_ALTER_CONFIGS = 1 << 11
_IDEMPOTENT_WRITE = 1 << 12

ALL_OF_A_TOPIC = (
    _READ | _WRITE | _CREATE | _DELETE | _ALTER | _DESCRIBE | _DESCRIBE_CONFIGS | _ALTER_CONFIGS
)
ALL_OF_A_GROUP = _READ | _DELETE | _DESCRIBE | _DESCRIBE_CONFIGS | _ALTER_CONFIGS
ALL_OF_THE_CLUSTER = (
    _CREATE
    | _ALTER
    | _DESCRIBE
    | _CLUSTER_ACTION
    | _DESCRIBE_CONFIGS
    | _ALTER_CONFIGS
    | _IDEMPOTENT_WRITE
)
