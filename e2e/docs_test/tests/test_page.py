"""Which commands a page has, and what each must print."""

import pytest

from e2e.docs_test import page

TEXT = """# A page

```console
$ export A=1
$ printf 'a\\nb\\n' \\
    | sort
a
b

$ true
```

```yaml
$ not: a command
```

```shell
cat >file <<END
$ text
END
```

<!-- docs-test: until -->
```console
$ get it
it
```

<!-- docs-test: fails -->
```console
$ first
$ last
refused
```
"""


def test_each_command_with_what_it_prints() -> None:
    found = page.commands(TEXT)

    assert [(one.line, one.typed, one.output) for one in found] == [
        (4, "export A=1", ""),
        (5, "printf 'a\\nb\\n' \\\n    | sort", "a\nb\n\n"),
        (10, "true", ""),
        (18, "cat >file <<END\n$ text\nEND\n", None),
        (25, "get it", "it\n"),
        (31, "first", ""),
        (32, "last", "refused\n"),
    ]
    assert [one.typed for one in found if one.is_repeated] == ["get it"]
    assert [one.typed for one in found if one.fails] == ["last"]


def test_other_outputs_take_the_place_of_those_on_the_page() -> None:
    first, second, *_, until, _, last = page.commands(TEXT)

    written = page.with_outputs(TEXT, [(last, "no"), (first, "now\n"), (until, ""), (second, "c")])

    assert "$ export A=1\nnow\n$ printf" in written
    assert "| sort\nc\n$ true\n```" in written
    assert "$ get it\n```" in written
    assert "$ last\nno\n```\n" in written
    assert [one.typed for one in page.commands(written)] == [
        one.typed for one in page.commands(TEXT)
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a\n<!-- docs-test: unless -->\n```console\n$ a\n```\n", "line 2: .* until or fails"),
        ("<!-- docs-test: until -->\n\n```console\n$ a\n```\n", "line 1: .*right before a block"),
        ("```console\nprinted\n```\n", "line 2: a console block begins with"),
    ],
)
def test_what_would_be_passed_over_is_an_error(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        page.commands(text)
