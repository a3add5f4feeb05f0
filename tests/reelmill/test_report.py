"""The report of a branch."""

from reelmill.report import as_text, summarise


def text_of(**fields):
    row = {"id": "a", "status": "ok", "code": "ok", "files": {}, **fields}
    return as_text(summarise("latents_sections", [("encode_latents", [row])], ["a"]))


def test_of_an_adopted_file_the_report_says_that_a_tiny_model_is_not_out_of_the_question():
    text = text_of(adopted=1, tiny=None)
    assert "1 files were found without a note and adopted" in text and "made with tiny" not in text


def test_where_nothing_was_adopted_the_report_says_nothing_of_it():
    assert "adopted" not in text_of(adopted=0, tiny=1) and "1 made with tiny random models" in text_of(adopted=0, tiny=1)
