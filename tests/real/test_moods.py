"""A mood is seen: a vector of sixteen sentences makes other sad texts likelier than cheerful ones, and leaves prose."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from tests.processes import PYTHON, ROOT
from tests.real.conftest import SETTINGS, need_model
from tests.servers import Server

pytestmark = pytest.mark.timeout(600)

SAD = [
    "The rain fell on the empty house, and she wept for all that she had lost.",
    "He sat alone at the grave until dark, and nobody came to find him.",
    "Nothing would ever be right again; the grief lay on her chest like a stone.",
    "The old dog had died in the night, and the boy cried quietly into his sleeve.",
    "She read the letter again, folded it, and knew that he would never come home.",
    "Grey days followed grey days, and he no longer remembered why he got up at all.",
    "The garden was dead, the windows broken, and the laughter long gone from the rooms.",
    "He mourned his brother through the whole winter, in silence and in despair.",
]
GAY = [
    "The sun shone on the crowded house, and she laughed at all that she had won.",
    "He danced with his friends until dawn, and everybody came to join them.",
    "Everything was going to be wonderful; the joy made her heart as light as a feather.",
    "The new puppy had come in the morning, and the boy shouted happily and threw up his arms.",
    "She read the letter again, kissed it, and knew that he was coming home tomorrow.",
    "Bright days followed bright days, and he jumped out of bed with a smile on his lips.",
    "The garden was in bloom, the windows open, and laughter rang through all the rooms.",
    "He celebrated with his brother through the whole summer, with songs and with delight.",
]
OTHER_SAD = "The widow closed the shop for ever. She had buried her husband in March, and with him all that she loved."
OTHER_GAY = "The baker opened his new shop today. He had married in March, and with a grin he gave cake to everyone."
SCALES = [-1.0, -0.5, 0.0, 0.5, 1.0]


@pytest.fixture(scope="module")
def moody(name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of each model with a vector that was made for it."""
    path, folder = need_model(name), tmp_path_factory.mktemp("moody")
    command = [PYTHON, "-m", "srb.cli.main", "models", "vector", "melancholy", "--folder", folder, "--model", path]
    subprocess.run([*command, "--positive", *SAD, "--negative", *GAY], check=True, cwd=ROOT, timeout=60)
    with Server(folder, model=path, alias=name, **SETTINGS, control_vector_dir=folder) as server:
        yield server.start()


def likelihood(server: Server, text: str, scale: float) -> float:
    """Return the mean log-probability of a text's tokens under a mood."""
    mood = [{"name": "melancholy", "scale": scale}]
    body = {"prompt": text, "max_tokens": 0, "echo": True, "logprobs": 0, "control_vectors": mood}
    answer = server.post("/v1/completions", body)
    assert answer.status_code == 200, answer.text
    probs = [each for each in answer.json()["choices"][0]["logprobs"]["token_logprobs"] if each is not None]
    return float(sum(probs) / len(probs))


def test_the_sadder_the_mood_the_likelier_is_a_sad_text_beside_a_cheerful_one(moody: Server) -> None:
    leads = [likelihood(moody, OTHER_SAD, scale) - likelihood(moody, OTHER_GAY, scale) for scale in SCALES]
    assert leads == sorted(leads), leads
    assert leads[-1] - leads[0] > 0.5, leads


def test_texts_of_moods_beside_each_other_are_prose_still(moody: Server) -> None:
    branches = [{"control_vectors": [{"name": "melancholy", "scale": scale}]} for scale in SCALES]
    body = {
        "prompt": "When Anna opened the letter that morning, she",
        "branches": branches,
        "max_tokens": 40,
        "seed": 7,
    }
    answer = moody.post("/v1/srb/completions", {**body, "temperature": 0.7, "min_p": 0.05, "stream": False}).json()
    texts = [each["text"] for each in answer["completions"]]
    assert len(set(texts)) == len(SCALES)
    for text in texts:
        words = text.split()
        assert len(set(words)) > len(words) / 2, text
        assert "\ufffd" not in text
