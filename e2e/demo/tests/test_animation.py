"""An animated terminal shows each line in its time, and nothing that a browser would fetch."""

from xml.etree.ElementTree import fromstring

from e2e.demo.animation import Frame, Shown, Span, animated, shown

PROMPT = (Span("$ ", "prompt"), Span("chiplog top <&>"))
ONE, TWO = ((Span("1 leads"),), (Span("2 leads", "new"),))
FRAMES = (
    Frame(0.0, (PROMPT,)),
    Frame(1.0, (PROMPT, (), ONE)),
    Frame(2.5, (PROMPT, (), TWO)),
)


def test_a_line_is_there_for_as_long_as_it_is_the_same() -> None:
    assert list(shown(FRAMES, 4.0)) == [
        Shown(0, PROMPT, 0.0, 4.0),
        Shown(2, ONE, 1.0, 2.5),
        Shown(2, TWO, 2.5, 4.0),
    ]


def test_the_picture() -> None:
    drawn = animated(FRAMES, 4.0, "a failover")
    words = "".join(fromstring(drawn).itertext())  # noqa: S314
    assert "chiplog top <&>" in words
    assert "@keyframes l1{0.00%{visibility:hidden}25.00%{visibility:visible}62.50%{vis" in drawn
    assert "#l1{visibility:hidden;" in drawn
    assert "#l2{visibility:visible;" in drawn, "what stands at the end stands where nothing moves"
    assert "@keyframes l0" not in drawn, "what is always there needs no animation"
    assert "http" not in drawn.replace("http://www.w3.org/2000/svg", "")
    assert "<script" not in drawn
