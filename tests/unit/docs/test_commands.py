"""Every shell command of the documentation is run by a test, or marked with a valid reason."""

import re

import pytest

from support.documented_commands import NEEDS, PAGES, Block, blocks, unjustified

BLOCKS = [block for page in PAGES for block in blocks(page)]
COMMAND = re.compile(r"^\$? ?(\.venv/bin/)?(shardmill|make|curl|pytest|aws) ", re.MULTILINE)


def test_commands_are_only_in_sh_blocks() -> None:
    elsewhere = [str(block) for block in BLOCKS if block.language != "sh" and COMMAND.search(block.text)]
    assert elsewhere == []
    assert {block.language for block in BLOCKS} & {"bash", "shell", "console"} == set()


def test_only_commands_that_the_laptop_cloud_cannot_run_are_skipped() -> None:
    marked = [block for block in BLOCKS if block.need]
    assert marked
    assert {str(block): unjustified(block) for block in marked if unjustified(block)} == {}
    assert all(block.language == "sh" for block in marked)


def test_every_mark_is_beside_its_block() -> None:
    for page in PAGES:
        assert page.read_text().count("\n<!-- not run:") == sum(bool(block.need) for block in blocks(page)), (
            page
        )


@pytest.mark.parametrize(
    ("need", "text", "wrong"),
    [
        ("AWS", "make deploy STACK=x REGION=y\n", 0),
        ("AWS", "make deploy STACK=x \\\n  REGION=y\nshardmill jobs\n", 1),
        ("AWS", "shardmill jobs\n", 1),
        ("AWS", "export SHARDMILL_URL=https://x.amazonaws.com\n.venv/bin/shardmill jobs\nrm x\n", 1),
        ("Docker", "shardmill jobs # docker\n", 1),
        ("patience", "make deploy STACK=x\n", 1),
    ],
)
def test_a_mark_hides_nothing_else(need: str, text: str, wrong: int) -> None:
    block = Block(PAGES[0], 1, "sh", text, need, "a reason")
    assert len(unjustified(block)) == wrong
    assert need in NEEDS or wrong
