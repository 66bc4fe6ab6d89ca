"""SRB's own dialect, as it is registered."""

from srb.web.dialect import Dialect
from srb.web.dialects.llamacpp import server as llamacpp_server
from srb.web.dialects.openai import chat
from srb.web.dialects.srb import controls, meaning, routes, server, surprise

# The page, which comes with this dialect, asks for templates and adapters as llama-server has them.
DIALECT = Dialect(
    "SRB's own: many branches of one prompt, and controls of them while they run",
    (
        routes.routes,
        controls.routes,
        surprise.routes,
        meaning.routes,
        server.routes,
        chat.templates,
        llamacpp_server.adapters,
    ),
)
