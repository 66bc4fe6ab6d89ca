"""Between text and tokens: llama-server's routes and those of text-generation-webui."""

from __future__ import annotations

from typing import Any, Literal

from flask import Blueprint, Response, request

from srb.web.llamacpp_answers import Content, Encoded, Length, Text, TokenList
from srb.web.llamacpp_schemas import DetokenizeBody, TokenizeBody
from srb.web.openapi import operation
from srb.web.replies import json_reply
from srb.web.schemas import read_body
from srb.web.state import web

routes = Blueprint("tokens", __name__)


@routes.post("/tokenize")
@operation(TokenizeBody, TokenList)
def tokenize() -> Response:
    """Return the tokens of a text.

    Answer with ids, or with `with_pieces` ids and what they stand for; the counts are for other servers' clients."""
    asked = TokenizeBody.parse(read_body(request))
    tokens = _tokens(asked)
    listed: list[Any] = tokens
    if asked.with_pieces:
        pieces = web().client.detokenize(tokens)
        listed = [{"id": token, "piece": _shown(piece)} for token, piece in zip(tokens, pieces, strict=True)]
    longest = web().client.check_ready().n_ctx_seq
    return json_reply({"tokens": listed, "count": len(tokens), "length": len(tokens), "max_model_len": longest})


@routes.post("/detokenize")
@operation(DetokenizeBody, Content)
def detokenize() -> Response:
    """Return the text of tokens."""
    return json_reply({"content": _text(read_body(request))})


@routes.post("/v1/internal/encode")
@operation(TokenizeBody, Encoded)
def encode() -> Response:
    """Return the tokens of a text, as text-generation-webui does."""
    tokens = _tokens(TokenizeBody.parse(read_body(request)))
    return json_reply({"tokens": tokens, "length": len(tokens)})


@routes.post("/v1/internal/token-count")
@operation(TokenizeBody, Length)
def token_count() -> Response:
    """Count the tokens of a text."""
    return json_reply({"length": len(_tokens(TokenizeBody.parse(read_body(request))))})


@routes.post("/v1/internal/decode")
@operation(DetokenizeBody, Text)
def decode() -> Response:
    """Return the text of tokens, as text-generation-webui does."""
    return json_reply({"text": _text(read_body(request))})


@routes.post("/v1/internal/stop-generation")
@operation(answer=Literal["OK"])
def stop_generation() -> Response:
    """Stop nothing: many clients share the server, and one stops its own text by closing its connection."""
    return json_reply("OK")


def _tokens(asked: TokenizeBody) -> list[int]:
    client = web().client
    client.check_ready()
    if not asked.content:
        return []
    return client.tokenize(asked.content, add_special=asked.add_special, parse_special=asked.parse_special)


def _text(body: dict[str, Any]) -> str:
    tokens = DetokenizeBody.parse(body).tokens
    return b"".join(web().client.detokenize(tokens)).decode("utf-8", "replace")


def _shown(piece: bytes) -> str | list[int]:
    """A part of a character is no text: its bytes are listed."""
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return list(piece)
