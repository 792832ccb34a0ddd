"""The picture has what the terminal had, and nothing that a reader's browser would fetch."""

from xml.etree.ElementTree import fromstring

from e2e.demo.picture import last_screen, picture

SCREEN = """\
BROKER  ADDRESS          RECORDS/S
1       127.0.0.1:31543  3.0

TOPIC   RECORDS/S
orders  3.0"""


def test_the_last_of_several_screens_is_drawn() -> None:
    assert last_screen(f"BROKER  ADDRESS\n1       b:2\n\n\n{SCREEN}\n\n") == SCREEN


def test_every_word_is_in_it_and_nothing_is_fetched() -> None:
    drawn = picture(SCREEN)

    words = set("".join(fromstring(drawn).itertext()).replace("\xa0", " ").split())  # noqa: S314
    assert set(SCREEN.split()) | {"$", "chiplog", "top"} <= words
    assert "url(http" not in drawn
    assert "@font-face" not in drawn
    assert "url('http" not in drawn.replace('"', "'")
