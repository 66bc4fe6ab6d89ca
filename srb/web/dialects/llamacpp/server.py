"""Routes of llama-server's properties, slots with their states, LoRA adapters, and its module for pages."""

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from flask import Blueprint, Response, request, send_from_directory
from typing_extensions import TypedDict

from srb.config.settings import Settings
from srb.errors import InvalidRequest, NotFound, NotSupported, Unavailable, bad_field
from srb.version import version
from srb.web.answers import JSONObject
from srb.web.bodies.completion import read_body, read_json
from srb.web.bodies.fields import parse_scales
from srb.web.chat.template import CHATML, template_capabilities, template_source
from srb.web.context import web
from srb.web.dialects.llamacpp.body import SlotBody, SystemPrompt
from srb.web.dialects.llamacpp.generation_settings import default_generation_settings, running_settings, slot_settings
from srb.web.openapi import operation
from srb.web.replies import aged_reply, json_reply
from srb.wire.commands import MEDIA_MARK
from srb.wire.events import ModelInfo

routes = Blueprint("server", __name__)
adapters = Blueprint("adapters", __name__)  # which the page asks too
_STATS_SECONDS = 0.5  # that the engine's counts are waited for, and as old they may be

STATIC = Path(__file__).parents[2] / "static"
_SUCCESS: JSONObject = {"success": True}
_FEW_SLOTS = 16  # a list of so many has all parameters of each slot
_FULL_SLOTS = 4  # slots of a longer list that have them; as many as llama-server has by default
_NONE = {"has_new_line": False, "n_remain": -1, "n_decoded": 0}  # the branch of an idle slot


class Scale(TypedDict):
    id: int
    scale: float  # of an adapter


STATE_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}")


@routes.get("/props")
@operation(answer="llamacpp.Props", query=("model", "autoload"), foreign=True)
def get_props() -> Response:
    """Describe the server, its model and the defaults of requests."""
    known = props(web().settings, web().client.check_ready(), web().shared_prompt)
    with suppress(Unavailable):  # busy with one long step, and nothing is known yet
        known["kept_texts"] = _kept_texts(web().client.latest_stats(_STATS_SECONDS, _STATS_SECONDS).value)
    return json_reply(known)


@routes.post("/props")
@operation(answer="llamacpp.Success", foreign=False)
def post_props() -> Response:
    """Refuse, as a llama-server without `--props` does; with it nothing is changed either."""
    raise NotSupported("This server does not support changing global properties.")


def props(settings: Settings, model: ModelInfo, system: SystemPrompt) -> JSONObject:
    """Return the properties that clients read: model, template, features, defaults of requests."""
    user, assistant = system.names(settings)
    known: JSONObject = {
        "default_generation_settings": default_generation_settings(settings, model),
        "total_slots": settings.parallel if settings.parallel > 0 else model.n_seq_max,
        "model_alias": model.alias,
        "model_ftype": model.ftype,
        "model_path": model.path,
        "modalities": {"vision": model.sees, "video": False, "audio": model.hears},
        "media_marker": MEDIA_MARK,
        "endpoint_slots": settings.slots,
        "endpoint_props": False,
        "endpoint_metrics": settings.metrics,
        "ui": settings.ui,
        "ui_settings": {},
        "chat_template": template_source(settings, model) or CHATML,
        "chat_template_caps": template_capabilities(settings, model),
        "bos_token": model.bos_token,
        "eos_token": model.eos_token,
        "build_info": model.build_info,
        "library_lacks": model.library_lacks,
        "srb_version": version(),
        "is_sleeping": False,
        "cors_proxy_enabled": False,
        "control_vectors": [{"name": name, "scale": scale} for name, scale in model.control_vectors.items()],
        "deterministic": not model.nondeterminism,
        "nondeterminism": model.nondeterminism,
        "system_prompt": system.prompt,
        "user_name": user,
        "assistant_name": assistant,
    }
    if model.chat_template_tool_use:
        known["chat_template_tool_use"] = model.chat_template_tool_use
    return known


def _kept_texts(stats: Mapping[str, float]) -> dict[str, float]:
    """Return how much is on the disk, and of what use it was since the engine's start."""
    keys = {"files": "texts", "bytes": "bytes", "hits": "hits_total", "tokens_saved": "tokens_read_total"}
    keys["seconds_saved"] = "seconds_saved_total"
    return {name: stats.get(f"stored_{key}", 0) for name, key in keys.items()}


@routes.get("/slots")
@operation(answer="llamacpp.Slots", query=("fail_on_no_slot",), foreign=False)
def get_slots() -> Response:
    """List the slots, each with the branch that runs in it; with a limit of requests, each with a request."""
    if not web().settings.slots:
        raise NotSupported("This server does not support slots endpoint. Start it with `--slots`")
    slots, at = shown_slots()
    if "fail_on_no_slot" in request.args and web().client.latest_stats().value["branches_room"] <= 0:
        raise Unavailable("no slot available")
    return aged_reply(slots, at)


def shown_slots() -> tuple[list[JSONObject], float]:
    """Return the engine's entries of the slots under llama-server's names, and the UNIX time at which they were so.

    Of a long list, only some are full.
    """
    latest, model = web().client.latest_slots(), web().client.check_ready()
    slots: list[dict[str, Any]] = latest.value
    idle = slot_settings(web().settings, model)
    full = len(slots) if len(slots) <= _FEW_SLOTS else _FULL_SLOTS
    return [_shown(slot, idle, is_full=place < full) for place, slot in enumerate(slots)], latest.at


def _shown(slot: dict[str, Any], idle: JSONObject, is_full: bool) -> JSONObject:
    runs: bool = slot["is_processing"]
    state: JSONObject = {
        "id": slot["id"],
        "speculative": idle["speculative.types"] != "none",
        "is_processing": runs,
        "state": 1 if runs else 0,
        "id_task": int(slot["request_id"][:7], 16) if runs else -1,  # a number, as in llama-server
        "index": slot.get("index", 0),
        "n_prompt_tokens": slot.get("n_prompt_tokens", 0),
        "n_prompt_tokens_processed": slot.get("n_prompt_tokens_processed", 0),
        "n_prompt_tokens_cache": slot.get("n_prompt_tokens_cache", 0),
        "prompt": "",
        "next_token": [_next_token(branch, is_full) for branch in slot.get("branches", [_NONE])],
    }
    if "replica" in slot:
        state["replica"] = slot["replica"]
    params = running_settings(slot, idle) if runs else idle
    if is_full:
        return {**params, **state, "task_id": state["id_task"], "params": params}
    brief: JSONObject = {**state, "n_ctx": slot["n_ctx"], "model": idle["model"]}
    busy: JSONObject = {**brief, "params": params}
    return busy if runs else brief


def _next_token(branch: dict[str, Any], is_full: bool) -> JSONObject:
    token: JSONObject = {
        "has_next_token": branch is not _NONE,
        "has_new_line": branch["has_new_line"],
        "n_remain": branch["n_remain"],
        "n_decoded": branch["n_decoded"],
    }
    if is_full:
        token |= {"stopped_eos": False, "stopped_limit": False, "stopped_word": False, "stopping_word": ""}
    return token


@routes.post("/slots/<slot>")
@operation(SlotBody, "llamacpp.SlotAction", query=("action",), foreign=False)
def slot_action(slot: str) -> Response:
    """Save, restore or erase a slot's text; a file is a named state of the prefix tree, which any prompt may continue."""
    if not (web().settings.state_dir or web().settings.has_replicas):  # replicas have folders of their own
        raise NotSupported("This server does not support slots action. Start it with `--slot-save-path`")
    action = request.args.get("action", "")
    if action not in ("save", "restore", "erase"):
        raise InvalidRequest("Invalid action")
    name = "" if action == "erase" else SlotBody.parse(read_body(request)).filename
    if action != "erase" and not STATE_NAME.fullmatch(name):
        raise bad_field("filename", "Invalid filename: use 1 to 64 letters, digits, '-', '_' and '.'; no leading '.'")
    number = _slot_number(slot)
    if action == "erase":
        erased = web().client.state_action("erase", "", number)
        return json_reply({"id_slot": number, "n_erased": erased["tokens"]})
    done = web().client.state_action(action, name, number)
    answer: JSONObject = {"id_slot": number, "filename": name}
    if action == "save":
        answer |= {"n_saved": done["tokens"], "n_written": done["bytes"], "timings": {"save_ms": done["ms"]}}
    else:
        answer |= {"n_restored": done["tokens"], "n_read": done["bytes"], "timings": {"restore_ms": done["ms"]}}
    return json_reply(answer)


def _slot_number(text: str) -> int:
    digits = text.lstrip("0") or text[-1:]  # llama-server reads 007 as 7
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10 and int(digits) < _slot_numbers()):
        raise InvalidRequest("Invalid slot ID")
    return int(digits)


def _slot_numbers() -> int:
    """Return how many slots there are to save texts from; those beyond `total_slots` are further branches'."""
    return max(web().client.check_ready().n_seq_max, web().settings.parallel)


@adapters.get("/lora-adapters")
@operation(answer="llamacpp.Adapters", foreign=True)
def get_adapters() -> Response:
    """List the LoRA adapters and their scales."""
    return json_reply(web().client.adapters())


@adapters.post("/lora-adapters")
@operation(list[Scale], "llamacpp.Success", foreign=False)
def set_adapters() -> Response:
    """Set the scales for later requests; adapters that are not named get 0."""
    body = read_json(request)
    if not isinstance(body, list):
        raise InvalidRequest("Request body must be an array")
    try:
        scales = parse_scales(body)
    except ValueError as error:
        raise InvalidRequest(f"The body {error}") from None
    web().client.set_adapters(scales)
    return json_reply(_SUCCESS)


@routes.get("/completion.js")
@operation(media_type="text/javascript", foreign=True)
def script() -> Response:
    """Serve a JavaScript module for pages, with the functions of llama-server's module."""
    if not web().server.ui:
        raise NotFound("File Not Found")
    return send_from_directory(STATIC, "completion.js", mimetype="text/javascript")
