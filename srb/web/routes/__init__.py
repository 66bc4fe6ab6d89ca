"""The routes, one file per dialect."""

from flask import Blueprint

from srb.web.routes import openai, ops, srb

BLUEPRINTS: tuple[Blueprint, ...] = (srb.routes, openai.routes, ops.routes)
