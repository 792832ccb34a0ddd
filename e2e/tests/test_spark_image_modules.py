"""The image of the Spark jobs has all modules that its modules import."""

import ast
from collections.abc import Iterator
from pathlib import Path

from e2e.cluster.layout import CHECKOUT
from e2e.cluster.spark_image import PACKAGES

OURS = ("chiplog_broker", "chiplog_core", "chiplog_kube", "chiplog_spark", "chiplog_wire")
ROOTS = [CHECKOUT / name for name in ("broker-image", "core", "kube", "spark-jobs", "wire")]


def packaged() -> set[Path]:
    found: set[Path] = set()
    for one in PACKAGES:
        found |= {one} if one.is_file() else set(one.rglob("*.py"))
    return found


def imported(path: Path) -> Iterator[str]:
    """Modules of ours that are loaded with this one."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{one.name}" for one in node.names)
        elif isinstance(node, ast.Import):
            yield from (one.name for one in node.names)


def file_of(module: str) -> Path | None:
    """Its file; None where it is no module of ours."""
    if module.partition(".")[0] not in OURS:
        return None
    names = module.split(".")
    candidates = [
        path
        for root in ROOTS
        for path in (root.joinpath(*names).with_suffix(".py"), root.joinpath(*names, "__init__.py"))
    ]
    return next((path for path in candidates if path.exists()), None)


def test_no_module_is_missing() -> None:
    there = packaged()
    jobs = CHECKOUT / "spark-jobs" / "chiplog_spark"
    seen: set[Path] = set()
    ahead = list(jobs.rglob("*.py"))
    missing: set[str] = set()
    while ahead:
        path = ahead.pop()
        seen.add(path)
        for module in imported(path):
            needed = file_of(module)
            if needed is not None and needed not in there:
                missing.add(f"{path.name} imports {module}")
            elif needed is not None and needed not in seen:
                ahead.append(needed)

    assert missing == set()
    assert len(seen) > len(list(jobs.rglob("*.py"))), "nothing of the other packages was followed"
