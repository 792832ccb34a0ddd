"""`python -m e2e.docs_test [--write] [PAGE]`: run a page on a new cluster, compare the outputs.

--write replaces outputs on the page that differ by those printed; read the diff before you commit
it. Exit status 1: an output differed (without --write), or a command ended with a wrong status.
"""

import argparse
import os
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from e2e.cluster import layout, sweep
from e2e.cluster.console import Refused, console
from e2e.cluster.target import Local, current_target
from e2e.docs_test.page import with_outputs
from e2e.docs_test.run import Outcome, run
from e2e.docs_test.shell import Shell

TUTORIAL = layout.CHECKOUT / "docs" / "tutorial.md"
REMOVED_VARIABLES = (
    "MAKEFLAGS",
    "MAKELEVEL",
    "MFLAGS",
    "KUBECONFIG",
    "CHIPLOG_BOOTSTRAP",
    "BOOTSTRAP",
)
"""Environment variables that make and developers set, and a reader of the page has not."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--write", action="store_true", help="write the printed outputs into the page"
    )
    parser.add_argument("page", nargs="?", type=Path, default=TUTORIAL)
    given = parser.parse_args()
    try:
        clear()
    except Refused as refused:
        console.print(f"docs-test: {refused}", markup=False)
        sys.exit(2)
    status = type_page(given.page, write=given.write)
    # What the page's commands left behind would disturb the next start of the cluster.
    clear()
    sys.exit(status)


def clear() -> None:
    """Delete the local cluster and all its state except images: the page creates its own cluster.

    Raises `Refused` where CLUSTER names a cluster that is not ours to delete.
    """
    target = current_target()
    if not isinstance(target, Local):
        raise Refused("the page needs a new cluster, which only CLUSTER=local can give it")
    target.down()
    sweep.forget()


def environment(own: Mapping[str, str]) -> dict[str, str]:
    """The environment of the page's shell: our own without `REMOVED_VARIABLES`."""
    return {name: value for name, value in own.items() if name not in REMOVED_VARIABLES}


def type_page(page: Path, *, write: bool) -> int:
    """Run a page's commands and print how each ended; returns the exit status, 0 or 1.

    With `write`, differing outputs are written into the page and are no failure.
    """
    markdown = page.read_text()
    outcomes = []
    with closing(Shell(layout.CHECKOUT, environment(os.environ))) as shell:
        for outcome in run(markdown, shell):
            report(page, outcome)
            outcomes.append(outcome)
    differing = [one for one in outcomes if one.difference]
    failed = [one for one in outcomes if not one.ended_well]
    if write:
        page.write_text(with_outputs(markdown, [(one.command, one.printed) for one in differing]))
    console.print(
        f"{len(outcomes)} commands of {page.name}: the output of {len(differing)} differs from the "
        f"page, {len(failed)} ended with a wrong exit status"
    )
    return 1 if failed or (differing and not write) else 0


def report(page: Path, outcome: Outcome) -> None:
    """Print a line about a command, and below it what went wrong with it."""
    first, *more = outcome.command.typed.splitlines()
    mark = "✗" if outcome.difference or not outcome.ended_well else "✓"
    console.print(f"{mark} {first}{' …' if more else ''} ({outcome.took_s:.1f} s)", markup=False)
    where = f"{page.name}:{outcome.command.line}"
    if not outcome.ended_well:
        console.print(f"{where}: exit status {outcome.status}\n{outcome.printed}", markup=False)
    elif outcome.difference:
        console.print(
            f"{where}: the output differs from the page\n{outcome.difference}", markup=False
        )


if __name__ == "__main__":
    main()
