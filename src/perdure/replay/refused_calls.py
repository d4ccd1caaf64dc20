"""The calls of an event loop that reach the world or other threads. A workflow's loop has none of them: each raises and is recorded."""

import asyncio
from typing import Any, NoReturn

from perdure.core.errors import NondeterminismError


def _refused(name: str) -> Any:
    def call(self: "RefusedCalls", *_args: Any, **_keywords: Any) -> NoReturn:
        raise self.refuse(f"loop.{name}()")

    call.__name__ = name
    call.__qualname__ = f"WorkflowLoop.{name}"
    return call


class RefusedCalls(asyncio.AbstractEventLoop):
    """What `WorkflowLoop` will not do."""

    __slots__ = ()

    def refuse(self, what: str) -> NondeterminismError:
        """The error to raise for `what`, naming the user's line; the violation is recorded even if the error is caught."""
        raise NotImplementedError

    call_soon_threadsafe: Any = _refused("call_soon_threadsafe")
    run_in_executor: Any = _refused("run_in_executor")
    set_default_executor: Any = _refused("set_default_executor")
    shutdown_default_executor: Any = _refused("shutdown_default_executor")
    run_forever: Any = _refused("run_forever")
    run_until_complete: Any = _refused("run_until_complete")
    stop: Any = _refused("stop")
    set_task_factory: Any = _refused("set_task_factory")
    set_exception_handler: Any = _refused("set_exception_handler")
    getaddrinfo: Any = _refused("getaddrinfo")
    getnameinfo: Any = _refused("getnameinfo")
    create_connection: Any = _refused("create_connection")
    create_server: Any = _refused("create_server")
    create_unix_connection: Any = _refused("create_unix_connection")
    create_unix_server: Any = _refused("create_unix_server")
    create_datagram_endpoint: Any = _refused("create_datagram_endpoint")
    connect_accepted_socket: Any = _refused("connect_accepted_socket")
    connect_read_pipe: Any = _refused("connect_read_pipe")
    connect_write_pipe: Any = _refused("connect_write_pipe")
    start_tls: Any = _refused("start_tls")
    sendfile: Any = _refused("sendfile")
    subprocess_exec: Any = _refused("subprocess_exec")
    subprocess_shell: Any = _refused("subprocess_shell")
    add_reader: Any = _refused("add_reader")
    remove_reader: Any = _refused("remove_reader")
    add_writer: Any = _refused("add_writer")
    remove_writer: Any = _refused("remove_writer")
    add_signal_handler: Any = _refused("add_signal_handler")
    remove_signal_handler: Any = _refused("remove_signal_handler")
    sock_recv: Any = _refused("sock_recv")
    sock_recv_into: Any = _refused("sock_recv_into")
    sock_recvfrom: Any = _refused("sock_recvfrom")
    sock_recvfrom_into: Any = _refused("sock_recvfrom_into")
    sock_sendall: Any = _refused("sock_sendall")
    sock_sendto: Any = _refused("sock_sendto")
    sock_connect: Any = _refused("sock_connect")
    sock_accept: Any = _refused("sock_accept")
    sock_sendfile: Any = _refused("sock_sendfile")
