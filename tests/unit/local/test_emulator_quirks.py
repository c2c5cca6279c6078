import asyncio
import threading
import time

from shardmill.local import emulator_quirks


class Event:
    def __init__(self) -> None:
        self.count = 0

    def set(self) -> None:
        self.count += 1


class Queues:
    def __init__(self) -> None:
        self.asyncio = asyncio
        self.esm_wake = Event()


def patched() -> tuple[Queues, Event]:
    queues = Queues()
    event = queues.esm_wake
    emulator_quirks.wake_waiting_receives(queues)
    return queues, event


def test_a_message_wakes_all_that_wait() -> None:
    async def run() -> list[None]:
        queues, event = patched()
        waiting = [asyncio.create_task(queues.asyncio.sleep(60)) for _ in range(3)]
        await asyncio.sleep(0)
        queues.esm_wake.set()
        queues.esm_wake.set()
        assert event.count == 2, "event source mappings are still woken"
        return await asyncio.wait_for(asyncio.gather(*waiting), 10)

    assert asyncio.run(run()) == [None] * 3


def test_a_message_of_another_thread_wakes_them() -> None:
    async def run() -> None:
        queues, _ = patched()
        waiting = asyncio.create_task(queues.asyncio.sleep(60))
        await asyncio.sleep(0)
        threading.Thread(target=queues.esm_wake.set).start()
        await asyncio.wait_for(waiting, 10)

    asyncio.run(run())


def test_without_a_message_they_look_again_after_the_time() -> None:
    async def run() -> float:
        queues, _ = patched()
        started = time.monotonic()
        await queues.asyncio.sleep(0.05)
        return time.monotonic() - started

    assert asyncio.run(run()) >= 0.05


def test_the_rest_of_the_module_stays() -> None:
    queues, _ = patched()
    assert queues.asyncio.gather is asyncio.gather
