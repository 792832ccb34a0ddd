"""Jars are those that were locked."""

from pathlib import Path

from e2e.cluster import layout
from e2e.cluster.spark_image import JARS
from e2e.kafka.jars import KAFKA, sha256, unlike


def test_what_goes_into_an_image_has_a_lock() -> None:
    for pom in (JARS, KAFKA, layout.CHECKOUT / "e2e" / "spark" / "pom.xml"):
        lines = pom.with_suffix(".sha256").read_text().splitlines()
        assert lines
        for line in lines:
            digest, name = line.split()
            assert len(bytes.fromhex(digest)) == 32
            assert name.endswith(".jar")


def test_a_jar_that_is_another_one_more_or_lacking_is_named(tmp_path: Path) -> None:
    for name in ("a.jar", "b.jar", "c.jar"):
        (tmp_path / name).write_bytes(name.encode())
    lock = "".join(f"{sha256(path)}  {path.name}\n" for path in sorted(tmp_path.iterdir()))
    assert unlike(tmp_path, lock) == []
    (tmp_path / "a.jar").write_bytes(b"another")
    (tmp_path / "b.jar").unlink()
    (tmp_path / "d.jar").write_bytes(b"more")
    assert unlike(tmp_path, lock) == ["a.jar", "b.jar", "d.jar"]
