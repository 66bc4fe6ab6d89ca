"""Routes between text and tokens: llama-server's, and those of text-generation-webui, TabbyAPI and Aphrodite."""

from collections.abc import Iterable
from typing import Any, Literal

from flask import Blueprint, Response, request

from srb.errors import bad_field, renamed
from srb.web.answers import JSONObject
from srb.web.bodies.completion import read_body
from srb.web.bodies.fields import EMPTY_PROMPT
from srb.web.context import web
from srb.web.dialects.llamacpp.body import DetokenizeBody, TabbyDetokenizeBody, TokenizeBody, TokenizeWithBOSBody
from srb.web.dialects.openai.chat_body import ChatBody
from srb.web.openapi import operation
from srb.web.replies import json_reply

routes = Blueprint("tokens", __name__)


@routes.post("/tokenize")
@operation(TokenizeBody, "llamacpp.TokenList", foreign=True)
def tokenize() -> Response:
    """Return the tokens of a text.

    The answer has token ids, and with `with_pieces` their texts; the rest is for clients of other servers.
    """
    return _token_list(_asked(TokenizeBody))


@routes.post("/v1/tokenize")
@operation(TokenizeWithBOSBody, "llamacpp.TokenList", foreign=True)
def tokenize_with_bos() -> Response:
    """Return the tokens of a text with its BOS, as Aphrodite does."""
    return _token_list(_asked(TokenizeWithBOSBody))


def _token_list(asked: TokenizeBody) -> Response:
    tokens = _tokens(asked)
    pieces = web().client.detokenize(tokens) if asked.with_pieces or asked.return_token_strs else []
    texts = {"token_strs": [piece.decode("utf-8", "replace") for piece in pieces]} if asked.return_token_strs else {}
    listed: list[int] | list[JSONObject] = tokens
    if asked.with_pieces:
        listed = [{"id": token, "piece": _piece_json(piece)} for token, piece in zip(tokens, pieces, strict=True)]
    longest = web().client.check_ready().n_ctx_seq
    counts = {"count": len(tokens), "length": len(tokens), "max_model_len": longest}
    return json_reply({"tokens": listed, **counts, **texts})


@routes.post("/detokenize")
@operation(DetokenizeBody, "llamacpp.Content", foreign=True)
def detokenize() -> Response:
    """Return the text of tokens."""
    return json_reply({"content": _detokenized(DetokenizeBody.parse(read_body(request)).tokens)})


@routes.post("/v1/internal/encode")
@operation(TokenizeBody, "llamacpp.Encoded", foreign=True)
def encode() -> Response:
    """Return the tokens of a text, as text-generation-webui does."""
    return _encoded(_asked(TokenizeBody))


@routes.post("/v1/token/encode")
@operation(TokenizeWithBOSBody, "llamacpp.Encoded", foreign=True)
def encode_with_bos() -> Response:
    """Return the tokens of a text with its BOS, as TabbyAPI does."""
    return _encoded(_asked(TokenizeWithBOSBody))


def _encoded(asked: TokenizeBody) -> Response:
    tokens = _tokens(asked)
    return json_reply({"tokens": tokens, "length": len(tokens)})


@routes.post("/v1/internal/token-count")
@operation(TokenizeBody, "llamacpp.Length", foreign=True)
def token_count() -> Response:
    """Count the tokens of a text."""
    return json_reply({"length": len(_tokens(_asked(TokenizeBody)))})


@routes.post("/v1/internal/decode")
@operation(DetokenizeBody, "llamacpp.Text", foreign=True)
def decode() -> Response:
    """Return the text of tokens, as text-generation-webui does."""
    return json_reply({"text": _detokenized(DetokenizeBody.parse(read_body(request)).tokens)})


@routes.post("/v1/token/decode")
@operation(TabbyDetokenizeBody, "llamacpp.Text", foreign=True)
def decode_tokens() -> Response:
    """Return the text of tokens, as TabbyAPI does."""
    asked = TabbyDetokenizeBody.parse(read_body(request))
    return json_reply({"text": _detokenized(asked.tokens, special=asked.decode_special_tokens)})


@routes.post("/v1/internal/stop-generation")
@operation(answer=Literal["OK"], foreign=True)
def stop_generation() -> Response:
    """Do nothing: a client stops its own text by closing its connection, and others share the server."""
    return json_reply("OK")


def _asked(shape: type[TokenizeBody]) -> TokenizeBody:
    """Return the body; vLLM's `messages`, and TabbyAPI's list of messages as a text, are a rendered conversation."""
    body = read_body(request)
    name = next((name for name in ("messages", "text") if _are_messages(body.get(name))), None)
    if name is None:
        return shape.parse(body)
    with renamed({"messages": name}):
        chat = ChatBody.parse({**body, "messages": body[name]})
        prompt, media = chat.prompt_and_media(web().settings, web().client.check_ready())
    if media:
        raise bad_field(name, "has pictures or sounds; /v1/chat/completions/input_tokens counts them")
    rest = {key: value for key, value in body.items() if key not in ("content", "prompt", "text")}
    return shape.parse({"add_special": True, **rest, "content": list(prompt)})


def _are_messages(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, dict) and "role" in each for each in value)


def _tokens(asked: TokenizeBody) -> list[int]:
    client = web().client
    client.check_ready()
    content = asked.content or (EMPTY_PROMPT if asked.add_special else ())
    if not content:
        return []
    asker = web().calls.asker(request.environ)
    return client.tokenize(content, add_special=asked.add_special, parse_special=asked.parse_special, asker=asker)


def _detokenized(tokens: Iterable[int], special: bool = True) -> str:
    return b"".join(web().client.detokenize(tokens, special=special)).decode("utf-8", "replace")


def _piece_json(piece: bytes) -> str | list[int]:
    """Return a token's text, or the list of its bytes if it is not UTF-8 by itself."""
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return list(piece)
