"""`python -m e2e.docs_test [--write] [PAGE]`: type a page into a new cluster, compare the outputs.

--write puts what was printed into the page wherever that differs; read the difference before
you commit it. Exit status 1 says that something differed or ended in another way than it should.
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
OURS = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "KUBECONFIG", "CHIPLOG_BOOTSTRAP", "BOOTSTRAP")
"""Of the environment: what the one who types the page does not have."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="put what was printed into the page")
    parser.add_argument("page", nargs="?", type=Path, default=TUTORIAL)
    given = parser.parse_args()
    try:
        clear()
    except Refused as refused:
        console.print(f"docs-test: {refused}", markup=False)
        sys.exit(2)
    status = type_page(given.page, write=given.write)
    # What the page has made would be in the way of the next start of the cluster.
    clear()
    sys.exit(status)


def clear() -> None:
    """Delete the cluster and all its state but images: the page creates its own."""
    target = current_target()
    if not isinstance(target, Local):
        raise Refused("needs a new cluster, which only CLUSTER=local can be")
    target.down()
    sweep.forget()


def environment(of: Mapping[str, str]) -> dict[str, str]:
    """What the shell of the page has."""
    return {name: value for name, value in of.items() if name not in OURS}


def type_page(page: Path, *, write: bool) -> int:
    """Run a page and say how it went; returns the exit status."""
    markdown = page.read_text()
    outcomes = []
    with closing(Shell(layout.CHECKOUT, environment(os.environ))) as shell:
        for outcome in run(markdown, shell):
            tell(page, outcome)
            outcomes.append(outcome)
    other = [one for one in outcomes if one.difference]
    badly = [one for one in outcomes if not one.ended_well]
    if write:
        page.write_text(with_outputs(markdown, [(one.command, one.printed) for one in other]))
    console.print(
        f"{len(outcomes)} commands of {page.name}: {len(other)} printed something else, "
        f"{len(badly)} ended in another way than they should"
    )
    return 1 if badly or (other and not write) else 0


def tell(page: Path, outcome: Outcome) -> None:
    first, *more = outcome.command.typed.splitlines()
    mark = "✗" if outcome.difference or not outcome.ended_well else "✓"
    console.print(f"{mark} {first}{' …' if more else ''} ({outcome.took_s:.1f} s)", markup=False)
    where = f"{page.name}:{outcome.command.line}"
    if not outcome.ended_well:
        console.print(f"{where}: exit status {outcome.status}\n{outcome.printed}", markup=False)
    elif outcome.difference:
        console.print(f"{where}: printed something else\n{outcome.difference}", markup=False)


if __name__ == "__main__":
    main()
