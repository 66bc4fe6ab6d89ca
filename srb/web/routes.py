"""Every blueprint of the server, the dialects' and the operators', and the shapes of the dialects' errors."""

from flask import Blueprint

from srb.web import page_files
from srb.web.dialects.anthropic import errors as anthropic_errors
from srb.web.dialects.anthropic import routes as anthropic
from srb.web.dialects.kobold import errors as kobold_errors
from srb.web.dialects.kobold import routes as kobold
from srb.web.dialects.kobold import server as kobold_server
from srb.web.dialects.legacy import routes as legacy
from srb.web.dialects.llamacpp import completions as llamacpp
from srb.web.dialects.llamacpp import embeddings, server, tokens
from srb.web.dialects.ollama import errors as ollama_errors
from srb.web.dialects.ollama import routes as ollama
from srb.web.dialects.ollama import server as ollama_server
from srb.web.dialects.openai import chat, chat_control
from srb.web.dialects.openai import completions as openai
from srb.web.dialects.responses import routes as responses
from srb.web.dialects.srb import controls as srb_controls
from srb.web.dialects.srb import routes as srb
from srb.web.dialects.srb import server as srb_server
from srb.web.ops import models
from srb.web.ops import openapi_route as openapi
from srb.web.ops import routes as ops
from srb.web.replies import ErrorShape
from srb.web.stories import routes as stories

BLUEPRINTS: tuple[Blueprint, ...] = (
    srb.routes, srb_controls.routes, srb_server.routes, openai.routes, chat.routes, chat_control.routes,
    responses.routes, anthropic.routes, llamacpp.routes, legacy.routes, tokens.routes, embeddings.routes,
    server.routes, ollama.routes, ollama_server.routes, kobold.routes, kobold_server.routes,
    stories.routes, ops.routes, models.routes, openapi.routes, page_files.routes,
)  # fmt: skip

# All other paths, which have no client of their own, have OpenAI's shape.
ERROR_SHAPES: dict[str, ErrorShape] = {
    **anthropic_errors.ERROR_SHAPES, **kobold_errors.ERROR_SHAPES, **ollama_errors.ERROR_SHAPES,
}  # fmt: skip
