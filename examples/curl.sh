#!/bin/sh
# Requests to SRB with curl: `sh examples/curl.sh [URL]`. Needs a running server (`make serve`).
set -eu
url=${1:-http://localhost:9090}

echo "--- health"
curl -sS "$url/health"; echo

echo "--- three continuations, streamed as events"
curl -sSN "$url/v1/completions" -d '{"prompt": "Once upon a time,", "n": 3, "max_tokens": 12}'

echo "--- three continuations in one JSON answer"
curl -sS "$url/v1/srb/completions" -d '{"prompt": "Once upon a time,", "n": 3, "max_tokens": 12, "stream": false}'; echo

echo "--- three continuations in OpenAI's format"
curl -sS "$url/v1/completions" -d '{"model": "any", "prompt": "Once upon a time,", "n": 3, "max_tokens": 12}'; echo

echo "--- counters"
curl -sS "$url/metrics" | grep '^llamacpp:.*_total'
