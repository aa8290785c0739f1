"""Runs many programs at once. The service has as many run as fit; the others wait."""

import asyncio

from airlock_run import AsyncAirlock


async def main() -> None:
    async with AsyncAirlock() as airlock:
        runs = await asyncio.gather(*(airlock.run(f"print(sum(range({n})))") for n in range(40)))
        print(sum(int(run.check().stdout) for run in runs))


asyncio.run(main())
