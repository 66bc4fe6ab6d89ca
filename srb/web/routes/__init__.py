"""The routes, one file per dialect."""

from flask import Blueprint

from srb.web.routes import chat, embeddings, legacy, llamacpp, openai, openapi, ops, server, srb, tokens

BLUEPRINTS: tuple[Blueprint, ...] = (
    srb.routes,
    openai.routes,
    chat.routes,
    llamacpp.routes,
    legacy.routes,
    tokens.routes,
    embeddings.routes,
    server.routes,
    ops.routes,
    openapi.routes,
)
