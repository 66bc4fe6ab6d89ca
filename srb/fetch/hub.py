"""Model downloads before the start: from Hugging Face, into its cache, or from any URL, into SRB's cache."""

import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from srb import native
from srb.config.values import expanded
from srb.errors import ConfigError
from srb.fetch.download import FAILURES, RemoteFile, bring, one_line, without_login

DEFAULT_QUANT = "Q4_K_M"  # as llama-server
_PART = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$", re.IGNORECASE)


def fetch_from_hub(repo: str, file: str = "", token: str = "", offline: bool = False) -> Path:
    """Return the path of a model in huggingface_hub's cache; download it if it is missing.

    `repo` is `user/model` or `user/model:quant`; `file` names the file itself. Progress is shown on standard error.
    Raise ConfigError, in one line, for a model that cannot be found or downloaded.
    """
    name, _, quant = repo.partition(":")

    def models(hub: Any) -> list[str]:
        return [file] if file else choose(_file_names(hub, name, token, offline), quant)

    found = _fetch(repo, token, offline, models)
    assert found is not None
    return found


def fetch_projector(repo: str, token: str = "", offline: bool = False) -> Path | None:
    """Return the path of a repository's multimodal projector, as `fetch_from_hub` does.

    None if the repository has none, or llama-cpp-python was built without mtmd, which reads it.
    """
    if not _has_mtmd():
        return None
    name, _, quant = repo.partition(":")

    def projectors(hub: Any) -> list[str]:
        return choose_projector(_file_names(hub, name, token, offline), quant)

    return _fetch(repo, token, offline, projectors)


def _fetch(repo: str, token: str, offline: bool, files: Callable[[Any], list[str]]) -> Path | None:
    """Return the path of the first of the files, all of them fetched; None without files. Raise ConfigError."""
    try:
        import huggingface_hub as hub
    except ImportError:
        raise ConfigError(
            f"--hf-repo needs the package huggingface_hub (extra: hub): {sys.executable} -m pip install huggingface_hub"
        ) from None
    name = repo.partition(":")[0]
    try:
        paths = [hub.hf_hub_download(name, part, token=token or None, local_files_only=offline) for part in files(hub)]
    except ConfigError as error:
        raise ConfigError(f"--hf-repo {repo}: {error.message}") from None
    except Exception as error:  # from huggingface_hub, its HTTP library or the system: all mean a failed download
        raise ConfigError(f"--hf-repo {repo}: {one_line(error)}") from None
    return Path(paths[0]) if paths else None


def _has_mtmd() -> bool:
    folder = native.libraries()
    return folder is not None and any(folder.glob("*mtmd.*"))


def choose_projector(files: Sequence[str], quant: str = "") -> list[str]:
    """Return the projector's file among a repository's files: of the `quant` if there is one, else Q8_0, F16 or any."""
    found = sorted(file for file in files if file.lower().endswith(".gguf") and "mmproj" in file.lower())
    wanted = [each.lower() for each in (quant, "q8_0", "f16") if each]
    return next(([file] for each in wanted for file in found if each in file.lower().replace("bf16", "")), found[:1])


def _file_names(hub: Any, name: str, token: str, offline: bool) -> list[str]:
    """Return the names of a repository's files; offline, the names of its GGUF files in the cache."""
    if not offline:
        return list(hub.HfApi(token=token or None).list_repo_files(name))
    folder = Path(hub.snapshot_download(name, local_files_only=True))
    return [str(path.relative_to(folder)) for path in folder.rglob("*.gguf")]


def choose(files: Sequence[str], quant: str = "") -> list[str]:
    """Return the model's file among a repository's files, or all its parts if it is split.

    Without `quant` prefer Q4_K_M, else take the first file. Raise ConfigError if no file fits.
    """
    models = sorted(
        file
        for file in files
        if file.lower().endswith(".gguf") and "mmproj" not in file.lower() and "imatrix" not in file.lower()
    )
    if not models:
        raise ConfigError("the repository has no GGUF file")
    wanted = re.compile(rf"(?<![A-Za-z0-9]){re.escape(quant or DEFAULT_QUANT)}(?![A-Za-z0-9_])", re.IGNORECASE)
    found = next((file for file in models if wanted.search(file)), None)
    if found is None and quant:
        raise ConfigError(f"the repository has no file for {quant}; it has {', '.join(models)}")
    found = found or models[0]
    match = _PART.search(found)
    if match is None:
        return [found]
    stem = found[: match.start()]
    return [file for file in models if file.startswith(stem) and _PART.search(file[len(stem) :])]


def fetch_from_url(url: str, offline: bool = False, option: str = "--model-url", target: str = "") -> Path:
    """Return the path of the file at `url` in SRB's cache; download it if it is missing or has changed.

    With `target` the file is downloaded there, as llama-server does, and one that is there is used as it is.
    Raise ConfigError, in one line, for a URL that is not http or https, or a failed download.
    """
    try:
        path = Path(expanded(target))
        if target and path.is_file():
            return path
        remote = RemoteFile(url)
        if not target:
            caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "srb", "models")
            path = caches / remote.folder_name / remote.name
        if not offline:
            bring(remote, path)
        elif not path.is_file():
            raise ValueError(f"not in {path.parent}, and --offline forbids the download")
    except (*FAILURES, RuntimeError) as error:  # the last: the user has no home, where the cache would be
        raise ConfigError(f"{option} {without_login(url)}: {one_line(error)}") from None
    return path
