"""One attack in a process of its own: `python -m e2e.hostile.attacker NAME HOST PORT SECONDS`."""

import asyncio
import sys

import uvloop

from e2e.hostile.attacks import every


def main() -> None:
    """Run the attack that the command line names and print what happened, in a few words."""
    name, host, port, seconds = sys.argv[1:]
    _, attack = every()[name]

    async def attacked() -> str:
        return await attack((host, int(port)), float(seconds))

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(runner.run(attacked()))


if __name__ == "__main__":
    main()
