"""What the requests of all connections together may hold before they are calls in work."""

from __future__ import annotations

from kvcm_platform.metadata_service.limits import Unfinished

from .machine import Machine
from .wire import DATA, END_STREAM, frame, message, rst

INITIAL_WINDOW = 4


def test_unfinished_requests_of_all_connections_share_a_limit():
    unfinished = Unfinished(300_000)
    machines = [Machine(max_message_bytes=100_000, unfinished=unfinished) for _ in range(5)]
    for machine in machines:
        machine.feed(machine.caller.headers(1))
        machine.feed(frame(DATA, 0, 1, message(bytes(100_000))[:90_000]))
    assert [machine.connection.has_calls for machine in machines] == [True, True, True, False, False]
    refusal = machines[3].reader.answers[1]
    assert refusal.status == 8
    assert "KVCM_MAX_MESSAGE_MB" in refusal.text
    assert unfinished.size == 270_000
    # Calls that come in one piece are none the worse, and what ends makes room.
    assert machines[3].call(3, b"whole").reader.answers[3].message == b"whole"
    machines[0].connection.forget()
    machines[1].feed(rst(1))
    machines[2].feed(frame(DATA, END_STREAM, 1, message(bytes(100_000))[90_000:]))
    assert machines[2].calls[-1].message == bytes(100_000)
    assert unfinished.size == 0
    machines[4].feed(machines[4].caller.headers(3))
    machines[4].feed(frame(DATA, 0, 3, message(bytes(100_000))[:90_000]))
    assert machines[4].connection.has_calls


def test_calls_that_wait_count_as_unfinished_and_are_forgotten_when_refused():
    unfinished = Unfinished(1 << 30)
    machine = Machine(
        (INITIAL_WINDOW, 0), max_queued_bytes=1000, max_message_bytes=100_000, unfinished=unfinished
    )
    machine.call(1, bytes(2000))
    for stream in range(3, 103, 2):
        machine.call(stream, bytes(60_000))
    assert {answer.status for answer in machine.reader.answers.values() if answer.is_ended} == {8}
    assert 0 < unfinished.size <= machine.limits.max_unread_bytes
    machine.connection.forget()
    assert unfinished.size == 0
