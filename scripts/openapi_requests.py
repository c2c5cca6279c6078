"""The schemas of requests in the OpenAPI document, where the models of the routes do not define them."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from shardmill.model.base import MAX_NAME, NAME_PATTERN, TRIGGER_PATTERN
from shardmill.model.definition.field_types import NUMBERED_TYPES
from shardmill.model.definition.spelling import ADDED_BY_ANSWERS, PACK_CONF, SHARD_CONF
from shardmill.model.json_schema import (
    EMPTY,
    NOT_EMPTY,
    NULL,
    absent,
    both,
    either,
    one_of,
    present,
    where,
)
from shardmill.model.time.schedule import ADDED

Schema = dict[str, Any]

PATH_PATTERNS = {
    "job_name": NAME_PATTERN,
    "trigger": TRIGGER_PATTERN,
    "step_name": NAME_PATTERN,
    "schedule_id": NAME_PATTERN,
    "name": NAME_PATTERN,
}
HEADERS = {
    "if-match": {"type": "string", "pattern": r'^(\*|"v[1-9][0-9]{0,8}")$'},
    "if-none-match": {"type": "string", "const": "*"},
}
IGNORED: Schema = {"description": "ignored, so that an answer can be edited and sent back"}
CAN_FAIL = "[cC][aA][nN][_-]?[fF][aA][iI][lL]"
CAN_IGNORE = "[cC][aA][nN][_-]?[iI][gG][nN][oO][rR][eE]|[iI][gG][nN][oO][rR][aA][bB][lL][eE]"
ARCHIVE = "[aA][rR][cC][hH][iI][vV][eE]"
DURATION: Schema = {
    "type": "integer",
    "minimum": 1,
    "maximum": 10 * 366 * 86_400 * 1000,
    "description": "deadlineSeconds in milliseconds",
}
NAMED: Schema = {"type": "string", "pattern": NAME_PATTERN, "maxLength": MAX_NAME}


def describe_parameters(operation: Schema) -> None:
    """Give parameters their patterns; a parameter cannot be null, only absent."""
    for parameter in operation.get("parameters", []):
        schema = parameter["schema"]
        options = [each for each in schema.pop("anyOf", []) if each != NULL]
        schema |= options[0] if len(options) == 1 else {"anyOf": options} if options else {}
        if parameter["in"] == "path" and parameter["name"] in PATH_PATTERNS:
            schema |= {"pattern": PATH_PATTERNS[parameter["name"]], "minLength": 1, "maxLength": MAX_NAME}
        schema |= HEADERS.get(parameter["name"], {}) if parameter["in"] == "header" else {}


def describe_optional_body(operation: Schema) -> None:
    """A body that may be absent may also be null."""
    body = operation.get("requestBody", {})
    for content in body.get("content", {}).values() if not body.get("required") else ():
        schema = content["schema"]
        if "$ref" in schema:
            content["schema"] = either({"$ref": schema["$ref"]}, NULL)


def describe_validation(operation: Schema) -> None:
    """The document to validate may be anything but null, which means no body."""
    kinds = ["object", "array", "string", "number", "boolean"]
    operation["requestBody"]["content"]["application/json"]["schema"] = {"type": kinds}


def describe_documents(schemas: dict[str, Schema], accepted: dict[str, Schema]) -> None:
    """Describe the documents that the API reads by itself, in all of their spellings.

    `accepted`: the schemas of accepted input; `schemas` contains the schemas of answers.
    """
    schemas["Dependency"] = accepted["Dependency"]
    schemas["StepDocument"] = _step_document(accepted)
    schemas["JobDefine"] = _job_document(schemas)
    schemas["StepOverride"] = _step_override(accepted)
    request = schemas["JobRequest"]
    schemas["Schedule"]["properties"]["steps"] = dict(request["properties"]["steps"])
    schemas["Schedule"] = _schedule_document(schemas["Schedule"])
    request["properties"] |= {"duration": DURATION, "after": _after(request["properties"]["after"])}
    request["properties"]["trigger"] = {"type": "string", "pattern": TRIGGER_PATTERN, "maxLength": MAX_NAME}
    request["required"] = ["jobName", "trigger"]


def _job_document(schemas: dict[str, Schema]) -> Schema:
    job = deepcopy(schemas["JobDefine"])
    properties = job["properties"]
    properties["steps"]["items"] = {"$ref": "#/components/schemas/StepDocument"}
    properties["dependencies"]["items"] = either(properties["dependencies"]["items"], NAMED)
    properties |= {
        "duration": DURATION,
        "workerGroup": NAMED,
        "type": deepcopy(schemas["StepDocument"]["properties"]["type"]),
        "content": deepcopy(schemas["StepDocument"]["properties"]["content"]),
    }
    job["properties"] = {name: _nullable(schema) for name, schema in properties.items()}
    job["properties"] |= dict.fromkeys(sorted(ADDED_BY_ANSWERS), IGNORED)
    job["required"] = []
    return job | either(
        {
            **present("steps"),
            "properties": {**present("steps")["properties"], **absent("type", "content")["properties"]},
        },
        {"allOf": [absent("steps"), either(present("type"), present("content"))]},
    )


def _step_document(accepted: dict[str, Schema]) -> Schema:
    step = deepcopy(accepted["StepDefine"])
    properties = step["properties"]
    waits = ("steps", "dependentSteps"), ("doneSteps", "doneSteps"), ("phase", "phase")
    properties |= {
        "type": either(properties["type"], {"enum": sorted(NUMBERED_TYPES)}),
        "stepType": {"enum": ["SIMPLE", "SHARD", "PACK"]},
        "dependentStep": NAMED,
        "dependency": _object({old: properties[new] for old, new in waits}),
        "traits": either(*_traits(CAN_FAIL, CAN_IGNORE, ARCHIVE)),
    }
    return _with_spellings(step, accepted["PackConf"])


def _step_override(accepted: dict[str, Schema]) -> Schema:
    step = deepcopy(accepted["StepOverride"])
    names, booleans = _traits(CAN_FAIL, ARCHIVE)
    switches = {"type": "object", "properties": dict.fromkeys(("enable", "disable"), names)}
    step["properties"]["traits"] = either(names, booleans, {**switches, "additionalProperties": False})
    return _with_spellings(step, accepted["PackOverride"])


def _with_spellings(step: Schema, pack_conf: Schema) -> Schema:
    """Add the spellings that the steps of a definition and of a request have in common."""
    properties = step["properties"]
    name, pack = properties.pop("stepName"), deepcopy(pack_conf)
    pack["properties"] |= {old: _nullable(properties[new]) for old, new in PACK_CONF.items()}
    properties |= {
        "packConf": pack,
        "workerGroup": NAMED,
        "shardConf": _object({old: properties[new] for old, new in SHARD_CONF.items()}),
        "startPackId": properties["startShardId"],
    }
    nullable = {each: _nullable(properties[each]) for each in properties}
    step["properties"] = {"stepName": name, "name": name, **nullable}
    step["required"] = []
    return step | one_of("stepName", "name")


def _traits(*names: str) -> tuple[Schema, Schema]:
    """Traits as a list of names, and as an object of booleans."""
    name: Schema = {"type": "string", "pattern": f"^({'|'.join(names)})$"}
    booleans = {"type": "object", "propertyNames": name, "additionalProperties": {"type": "boolean"}}
    return {"type": "array", "items": name}, booleans


def _after(time: Schema) -> Schema:
    text = {"type": "string", "format": "date-time"}
    number = {"type": "integer", "minimum": 0, "maximum": 10**13}
    forms = ({"timeString": text}, {"timestamp": number})
    objects = [
        {"type": "object", "properties": form, "required": list(form), "additionalProperties": False}
        for form in forms
    ]
    return either(time, *objects)


def _schedule_document(schedule: Schema) -> Schema:
    schedule["properties"] |= {name: _nullable(value) for name, value in schedule["properties"].items()}
    schedule["properties"] |= dict.fromkeys(sorted(ADDED), IGNORED)
    schedule["required"] = []
    single = ("cron", "everySeconds", "everyMonths", "delaySeconds", "at")
    kind = either(
        both(one_of(*single), where(times=EMPTY)),
        both(absent(*single), present("times"), where(times=NOT_EMPTY)),
    )
    started = both(present("startDate"), where(startDate={"not": {"const": 0}}))  # 0 is no date
    counted = both(absent("at"), where(times=EMPTY), either(started, present("delaySeconds")))
    in_turn = both(
        absent("maxLatenessSeconds"),
        where(overlap={"enum": ["allow", None]}, catchUp={"enum": ["latest", None]}),
    )
    return schedule | both(
        kind,
        either(absent("everyMonths"), started),
        either(absent("maxTimes"), counted),
        either(absent("delaySeconds"), in_turn),
    )


def _object(properties: Schema) -> Schema:
    nullable = {name: _nullable(each) for name, each in properties.items()}
    return {"type": "object", "properties": nullable, "additionalProperties": False}


def _nullable(schema: Schema) -> Schema:
    if NULL in schema.get("anyOf", ()):
        return schema
    described = {name: schema[name] for name in ("title", "description", "default") if name in schema}
    return described | either({name: schema[name] for name in schema if name not in described}, NULL)
