"""The build backend, setuptools': but what SRB publishes asks for llama-srb-native, where setup.cfg names llama-cpp-python.

setup.cfg is what a checkout's `make install` resolves: it compiles llama-cpp-python with the patches of native/.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any
from unittest import mock

from setuptools import Distribution, build_meta

from srb.version import NATIVE


def _published(hook: Callable[..., str]) -> Callable[..., str]:
    """Return a hook of setuptools to which setup.cfg names llama-srb-native."""
    parse = Distribution.parse_config_files

    def parse_and_replace(self: Any, *arguments: Any, **options: Any) -> None:
        parse(self, *arguments, **options)
        replaced = [_replaced(each) for each in self.install_requires]
        self.install_requires = self.metadata.install_requires = replaced

    @functools.wraps(hook)
    def published(*arguments: Any, **options: Any) -> str:
        with mock.patch.object(Distribution, "parse_config_files", parse_and_replace):
            return hook(*arguments, **options)

    return published


def _replaced(requirement: str) -> str:
    return f"llama-srb-native=={NATIVE}" if requirement.startswith("llama-cpp-python==") else requirement


build_sdist = _published(build_meta.build_sdist)
build_wheel = _published(build_meta.build_wheel)
prepare_metadata_for_build_wheel = _published(build_meta.prepare_metadata_for_build_wheel)
build_editable = build_meta.build_editable
prepare_metadata_for_build_editable = build_meta.prepare_metadata_for_build_editable
get_requires_for_build_editable = build_meta.get_requires_for_build_editable
get_requires_for_build_sdist = build_meta.get_requires_for_build_sdist
get_requires_for_build_wheel = build_meta.get_requires_for_build_wheel
