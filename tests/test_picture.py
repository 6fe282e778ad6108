"""A picture is never without words, and shows without a kernel."""

import base64

import pytest

from mha_lib.picture import Picture, table

SVG = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 2 2"></svg>'


def test_no_picture_without_alt_text():
    with pytest.raises(ValueError, match="alt text"):
        Picture(SVG, "  ", 2, 2)


def test_still_is_an_image_that_carries_itself():
    still = Picture(SVG, 'a "quoted" <alt>', 20, 10).still()
    assert 'alt="a &quot;quoted&quot; &lt;alt&gt;"' in still and 'width="20"' in still
    assert base64.b64decode(still.split("base64,")[1].split('"')[0]).decode() == SVG
    assert "http" not in still.replace(still.split("base64,")[1].split('"')[0], "")


def test_png_says_so():
    assert "data:image/png;base64,AAEC" in Picture(b"\x00\x01\x02", "three bytes", 1, 1).still()


def test_live_drawing_keeps_its_text_and_says_what_it_shows():
    live = Picture(SVG, "a drawing", 2, 2).live("2,5,12,3", "heads d_k")
    assert live.startswith('<svg role="img" aria-label="a drawing" data-of="2,5,12,3" data-lit="heads d_k" ')


def test_numbers_are_made_only_on_request():
    asked = []
    picture = Picture(SVG, "a drawing", 2, 2, numbers=lambda: asked.append(1) or "<table></table>")
    picture.live()
    assert not asked
    assert "<details>" in picture.still() and asked == [1]


def test_display_gives_html_with_alt_text_and_no_bare_image(monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda data, raw: shown.append((data, raw)))
    Picture(SVG, "the point", 2, 2)._ipython_display_()
    ((data, raw),) = shown
    assert raw and set(data) == {"text/html", "text/plain"} and data["text/plain"] == "the point"


def test_table_escapes_every_cell():
    made = table(["<a>"], [["<b>"], [1]], "<c>")
    assert "<th>&lt;a&gt;</th>" in made and "<td>&lt;b&gt;</td>" in made and "<caption>&lt;c&gt;" in made
