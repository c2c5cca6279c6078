"""Values in shell text stay data wherever they are inserted; verified by running a shell."""

from __future__ import annotations

import shlex
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.model.templates.render import TemplateError, render

HOSTILE = [
    "",
    "plain",
    "two words",
    "it's",
    'say "hi"',
    "$(echo pwned)",
    "`echo pwned`",
    "${HOME}",
    "; echo pwned",
    "' ; echo pwned ; '",
    '" ; echo pwned ; "',
    "a\nb",
    "\\",
    "--option",
    "*",
    "#x",
    "é 漢",
    ") echo pwned (",
]

# Each prints its value between < and >, and nothing else.
PLACES = [
    "printf '<%s>' {{ params.v }}",
    "printf '<%s>' \"{{ params.v }}\"",
    "printf '<%s>' '{{ params.v }}'",
    "printf '%s' \"<{{ params.v }}>\"",
    "printf '%s' '<{{ params.v }}>'",
    "printf '%s' \\<{{ params.v }}\\>",
    "# it's a comment with \"one quote\nprintf '<%s>' {{ params.v }}",
    "x=${HOME}; y=\"${x:-z}\"; printf '<%s>' {{ params.v }}",
    "n=$((1 + 2)); printf '<%s>' \"{{ params.v }}\"",
    'd=$(dirname "$0"); printf \'<%s>\' "{{ params.v }}"',
    "(printf '<%s>' {{ params.v }})",
    "case a in a) printf '<%s>' {{ params.v }};; esac",
    "f() { printf '<%s>' \"$1\"; }; f {{ params.v }}",
    'x="a\\"b"; printf \'<%s>\' "{{ params.v }}"',
    "x='a\\'; printf '<%s>' \"{{ params.v }}\"",
    "true # {{ params.v }}\nprintf '<%s>' {{ params.v }}",
]


def rendered(text: str, value: str) -> str:
    return render(text, {"params": {"v": value}}, quote=True)


def run(script: str) -> str:
    done = subprocess.run(["sh", "-c", script], capture_output=True, timeout=50, check=True)
    assert done.stderr == b""
    return done.stdout.decode()


@pytest.mark.parametrize("place", PLACES)
def test_malicious_values_stay_data(place: str) -> None:
    scripts = "\necho\n".join(f"({rendered(place, value)}\n)" for value in HOSTILE)
    assert run(scripts) == "\n".join(f"<{value}>" for value in HOSTILE)


@settings(max_examples=60)
@given(st.sampled_from(PLACES), st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_any_value_stays_data(place: str, value: str) -> None:
    assert run(rendered(place, value)) == f"<{value}>"


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_a_value_is_one_argument_of_a_command_line(value: str) -> None:
    assert shlex.split(rendered('run --a {{ params.v }} "b {{ params.v }}"', value)) == [
        *("run", "--a", value, f"b {value}")
    ]


@pytest.mark.parametrize(
    "place",
    [
        "cat <<EOF\n{{ params.v }}\nEOF",
        "echo `echo {{ params.v }}`",
        "echo $(( {{ params.v }} ))",
        "echo ${x:-{{ params.v }}}",
        'echo "${x:-{{ params.v }}}"',
        "echo $'{{ params.v }}'",
        "echo ${{ params.v }}",
        "echo \\{{ params.v }}",
        'echo "$(case a in a) echo {{ params.v }};; esac)"',
    ],
)
def test_where_quoting_is_impossible_only_harmless_values_are_accepted(place: str) -> None:
    assert rendered(place, "20200121") == place.replace("{{ params.v }}", "20200121")
    with pytest.raises(TemplateError, match=r"params\.v .*environment variable"):
        rendered(place, "$(echo pwned)")


def test_harmless_values_are_not_quoted() -> None:
    assert rendered('echo "shard {{ params.v }}"', "9") == 'echo "shard 9"'
    assert rendered("echo {{ params.v }}", "9") == "echo 9"


def test_a_nul_character_is_rejected() -> None:
    with pytest.raises(TemplateError, match="NUL"):
        rendered("echo {{ params.v }}", "a\0b")
