"""The reader of template.yaml."""

from pathlib import Path

import pytest

from support.moto.template import Template, TemplateFault

_TEXT = """
Parameters:
  Size: {Type: Number, Default: 3}
  Secret: {Type: String}
Conditions:
  Large: !Equals [!Ref Size, "9"]
  Small: !Not [!Condition Large]
Resources:
  Queue:
    Type: Q
    Properties:
      Name: !Sub "${AWS::StackName}-q-${Size}-${!literal}"
      Arn: !GetAtt Other.Arn
      Joined: !Join ["-", [!Ref Size, b]]
      Mapped: !Sub ["${a}-${Other.Arn}", {a: !Ref Secret}]
      Part: !Select [1, !Split [",", "x,y"]]
      Removed: !Ref AWS::NoValue
      Chosen: !If [Large, big, little]
      Listed: [!Ref AWS::NoValue, value]
  Other: {Type: O, Condition: Small}
  Absent: {Type: O, Condition: Large}
"""


@pytest.fixture
def template(tmp_path: Path) -> Template:
    path = tmp_path / "template.yaml"
    path.write_text(_TEXT)
    return Template.read(path, {"AWS::StackName": "s"}, {"Secret": "x"})


def test_functions_are_resolved(template: Template) -> None:
    template.attributes["Other", "Arn"] = "arn:o"
    assert template.properties("Queue") == {
        "Name": "s-q-3-${literal}",
        "Arn": "arn:o",
        "Joined": "3-b",
        "Mapped": "x-arn:o",
        "Part": "y",
        "Chosen": "little",
        "Listed": ["value"],
    }


def test_resources_are_filtered_by_their_condition(template: Template) -> None:
    assert list(template.resources("O")) == ["Other"]


def test_unknown_references_are_errors_with_their_name(template: Template, tmp_path: Path) -> None:
    with pytest.raises(TemplateFault, match=r"Other\.Arn"):
        template.properties("Queue")
    with pytest.raises(TemplateFault, match="Unknown"):
        template.resolve({"Ref": "Unknown"})
    with pytest.raises(TemplateFault, match="Secret"):
        Template.read(tmp_path / "template.yaml", {}, {})
