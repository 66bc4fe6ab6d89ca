"""LangChain's standard tests of chat models and embeddings, with its packages for three dialects and for Responses."""

from __future__ import annotations

import os
from typing import Any

from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel
from langchain_ollama import ChatOllama, OllamaEmbeddings
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from langchain_tests.integration_tests import ChatModelIntegrationTests, EmbeddingsIntegrationTests

URL = os.environ.get("PEER_URL", "http://127.0.0.1:9090")
MODEL = "smollm2"
OF_OPENAI: dict[str, Any] = {"base_url": f"{URL}/v1", "api_key": "any", "model": MODEL}


class _Chat(ChatModelIntegrationTests):
    """What all of them have in common."""

    @property
    def has_tool_choice(self) -> bool:
        return True

    @property
    def supports_anthropic_inputs(self) -> bool:
        return True


class TestOpenAI(_Chat):
    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return ChatOpenAI

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {**OF_OPENAI, "max_tokens": 100, "temperature": 0, "seed": 1, "stream_usage": True}

    @property
    def supports_json_mode(self) -> bool:
        return True


class TestResponses(TestOpenAI):
    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {**OF_OPENAI, "use_responses_api": True, "max_tokens": 100, "temperature": 0}


class TestAnthropic(_Chat):
    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return ChatAnthropic

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"base_url": URL, "api_key": "any", "model": MODEL, "max_tokens": 100, "temperature": 0}


class TestOllama(_Chat):
    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return ChatOllama

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"base_url": URL, "model": MODEL, "num_predict": 100, "temperature": 0, "seed": 1}

    @property
    def supports_json_mode(self) -> bool:
        return True

    @property
    def has_tool_choice(self) -> bool:
        return False  # Ollama's interface has none

    @property
    def supports_anthropic_inputs(self) -> bool:
        return False  # LangChain's package refuses them


class TestOpenAIEmbeddings(EmbeddingsIntegrationTests):
    @property
    def embeddings_class(self) -> type[OpenAIEmbeddings]:
        return OpenAIEmbeddings

    @property
    def embedding_model_params(self) -> dict[str, Any]:
        return {**OF_OPENAI, "check_embedding_ctx_length": False}


class TestOllamaEmbeddings(EmbeddingsIntegrationTests):
    @property
    def embeddings_class(self) -> type[OllamaEmbeddings]:
        return OllamaEmbeddings

    @property
    def embedding_model_params(self) -> dict[str, Any]:
        return {"base_url": URL, "model": MODEL}
