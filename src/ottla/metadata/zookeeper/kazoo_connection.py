"""kazoo's connection with one thread, which hands replies, watches and states on in wire order.

kazoo itself has two more threads, one for replies and one for watches, and so no order between
them. Here every callback runs in the thread that reads the connection. Callbacks must not block.
"""

import logging
import os
import socket
from contextlib import suppress
from typing import Any

from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import Connect
from kazoo.protocol.states import Callback
from kazoo.retry import KazooRetry
from kazoo.security import ACL, Id, Permissions

from ottla.metadata.zookeeper.access import ZooKeeperAccess

RETRY_DELAY_S = 0.1
RETRY_DELAY_S_MAX = 1.0


class _WakeUp:
    """Wakes the connection's thread once per `send`, in place of kazoo's socket pair.

    A socket pair is full after a few hundred requests that the thread has not taken, and then the
    event loop would stand still until there is a server again.
    """

    def __init__(self) -> None:
        self._descriptor = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK | os.EFD_SEMAPHORE)

    def fileno(self) -> int:
        return self._descriptor

    def send(self, wake_up: bytes) -> int:
        os.eventfd_write(self._descriptor, 1)
        return len(wake_up)

    def recv(self, size: int) -> bytes:
        return bytes(min(size, os.eventfd_read(self._descriptor)))

    def close(self) -> None:
        """Called for both ends of the pair."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class _OneThreadHandler(SequentialThreadingHandler):
    """Runs callbacks where they arise."""

    def __init__(self, server_count: int) -> None:
        super().__init__()
        self._server_count = server_count

    def start(self) -> None:
        """There are no workers to start, and so `running` stays false."""

    def stop(self) -> None:
        """There are no workers to stop."""

    def dispatch_callback(self, callback: Callback) -> None:
        callback.func(*callback.args)

    def create_socket_pair(self) -> tuple[_WakeUp, _WakeUp]:
        wake_up = _WakeUp()
        return wake_up, wake_up

    def create_connection(self, *args: Any, timeout: float, **options: Any) -> socket.socket:
        """With kazoo's own timeout, one server that drops packets would cost the session."""
        found: socket.socket = super().create_connection(
            *args, timeout=timeout / self._server_count, **options
        )
        return found


class _Connection(ConnectionHandler):
    """`session_timeout_ms` is the one that the server has granted, 0 before the first session."""

    session_timeout_ms = 0

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        found = super()._invoke(timeout, request, xid)
        # An expired session is refused with a timeout of 0.
        if isinstance(request, Connect) and found[0].time_out > 0:
            self.session_timeout_ms = found[0].time_out
        return found


class _LastWarning(logging.Handler):
    """Keeps kazoo's last warning. Everything below is dropped: it has passwords."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        # "Transition to CONNECTING" and the like say nothing about the reason.
        if record.args or record.exc_info:
            reason = record.exc_info[1] if record.exc_info else None
            self.text = str(reason) if reason else record.getMessage()


class OneThreadClient(KazooClient):
    """A kazoo client for one event loop. It uses no chroot: paths are whole."""

    def __init__(self, access: ZooKeeperAccess) -> None:
        warnings = _LastWarning()
        # Not in the tree of loggers: no configuration of the process can make it print secrets.
        logger = logging.Logger("kazoo of ottla", logging.WARNING)
        logger.addHandler(warnings)
        tls = access.tls
        password = tls.keystore_password if tls else None
        super().__init__(
            hosts=",".join(map(str, access.connect.servers)),
            timeout=access.session_timeout_ms / 1000,
            handler=_OneThreadHandler(len(access.connect.servers)),
            auth_data=[("digest", access.digest.reveal())] if access.digest else None,
            # The scheme "auth" stands for all identities of the session.
            default_acl=[ACL(Permissions.ALL, Id("auth", ""))] if access.sets_acl else None,
            connection_retry=KazooRetry(
                max_tries=-1, delay=RETRY_DELAY_S, max_delay=RETRY_DELAY_S_MAX
            ),
            logger=logger,
            use_ssl=tls is not None,
            ca=tls.trusted if tls else None,
            certfile=tls.keystore if tls else None,
            keyfile=tls.keystore if tls else None,
            # Without any, OpenSSL would ask for it on the terminal.
            keyfile_password=password.reveal() if password else "",
            check_hostname=tls is not None,
        )
        self._connection = _Connection(self, self._conn_retry.copy(), logger=logger)
        self._warnings = warnings

    @property
    def session_timeout_ms(self) -> int:
        """The timeout that the server has granted; 0 before the first session."""
        return self._connection.session_timeout_ms

    @property
    def last_warning(self) -> str:
        """Why the last attempt to connect failed, or why the connection broke."""
        return self._warnings.text

    def break_connection(self) -> None:
        """Ends a wait for a server that does not answer."""
        found = self._connection._socket
        if found is not None:
            with suppress(OSError):
                found.shutdown(socket.SHUT_RDWR)
